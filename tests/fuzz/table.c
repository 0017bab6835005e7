/** Fuzz target: arbitrary bytes as a .csv file, encoded with the byte tokenizer. A table whose first row names its
 * columns is accepted if bad rows are skipped. With bad rows as errors, one without bad rows is accepted and gives the
 * same tokens, whatever the parts in which it is read. The bytes are also read as a Parquet file's footer, and
 * unpacked. */
#include "data/files/parquet.h"
#include "data/files/stream.h"
#include "data/files/table.h"
#include "data/text/encode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* One file for all inputs: creating a file each time would be most of the work. */
static char file_name[] = "/tmp/zr-fuzz-XXXXXX";
static zr__file opened;
static zr_tokenizer *tokenizer;

static void remove_file(void)
{
    zr__file_close(&opened);
    unlink(file_name);
    zr_tokenizer_close(&tokenizer);
}

/* The result of encoding a file. */
typedef struct result {
    zr__encoded did;
    uint64_t hash;
    int64_t put;
} result;

static zr_status put(void *arg, const unsigned char *tokens, int64_t n)
{
    result *r = arg;
    for (int64_t i = 0; i < n; i++) r->hash = r->hash * 31 + tokens[i];
    r->put += n;
    return ZR_OK;
}

static void hold(bool truth, const char *what)
{
    if (truth) return;
    fprintf(stderr, "broken: %s\n", what);
    abort();
}

static void make_file(void)
{
    const int fd = mkstemp(file_name);
    if (fd < 0 || close(fd) != 0 || zr__file_open(file_name, true, &opened) != ZR_OK) abort();
    if (zr_tokenizer_open("bytes", &tokenizer) != ZR_OK || atexit(remove_file)) abort();
}

static zr_status encode(bool skip, int64_t usual, int threads, result *r)
{
    const zr__encoding x = {.parts = {.file = &opened,
                                      .usual_bytes = usual,
                                      .most_bytes = 16,
                                      .shape = ZR__SHAPE_CSV,
                                      .text_key = "text",
                                      .skip_bad_lines = skip,
                                      .remedy = "SKIP"},
                            .tokenizer = tokenizer,
                            .separator = '\n',
                            .token_bytes = 1,
                            .threads = threads,
                            .put = put,
                            .put_arg = r};
    *r = (result){0};
    return zr__encode(&x, &r->did);
}

/* Read the file as a stream in pieces of `piece` bytes. Return the number of bytes, or -1 for an error. */
static int64_t unpack(int64_t piece)
{
    ZR_AUTO(zr__stream_close) zr__stream *stream = NULL;
    unsigned char out[256];
    int64_t got = 1, all = 0;
    hold(zr__stream_open(&opened, &stream) == ZR_OK, "a stream can be opened");
    while (got > 0 && all < 1 << 20) {
        if (zr__stream_read(stream, out, piece, &got) != ZR_OK) return -1;
        all += got;
    }
    return all;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    result strict, lenient, parted;
    char names[64];
    if (!tokenizer) make_file();
    zr__file_close(&opened);
    FILE *text = fopen(file_name, "wb");
    if (!text || fwrite(bytes, 1, n, text) != n || fclose(text) != 0) abort();
    if (zr__file_open(file_name, false, &opened) != ZR_OK) abort();
    hold(unpack(1) == unpack(sizeof(names)), "pieces are the whole");
    hold(!zr__parquet_columns(&opened, names, sizeof(names)) || names[0], "columns have names");
    const zr_status st = encode(false, 0, 1, &strict), skips = encode(true, 0, 1, &lenient);
    hold(st == ZR_OK || (st == ZR_ERR_DATA && strstr(zr_error_message(), file_name)), "a refusal names the file");
    hold(skips == ZR_OK || st != ZR_OK, "what is left out is no error");
    const zr_status parts = encode(true, 8, 3, &parted);
    hold(skips == parts && (st == ZR_OK) == (skips == ZR_OK && lenient.did.found.skipped_lines == 0),
         "a row is bad or not");
    if (skips != ZR_OK) return 0;
    hold(st != ZR_OK || memcmp(&strict, &lenient, sizeof(strict)) == 0, "good files are the same");
    hold(memcmp(&parted, &lenient, sizeof(parted)) == 0, "parts are the whole");
    hold(lenient.put == lenient.did.tokens &&
             lenient.did.tokens == lenient.did.found.text_bytes + lenient.did.found.documents,
         "no token comes from nowhere");
    return 0;
}
