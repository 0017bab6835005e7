/* The file of a fuzz target that encodes records with the byte tokenizer. */
#ifndef ZR_TESTS_FUZZ_ENCODE_H
#define ZR_TESTS_FUZZ_ENCODE_H

#include "data/text/encode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Encode the file, whose records have a shape. */
static zr_status encode(zr__shape shape, bool skip, int64_t usual, int threads, result *r)
{
    const zr__encoding x = {.parts = {.file = &opened,
                                      .usual_bytes = usual,
                                      .most_bytes = 16,
                                      .shape = shape,
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

/* Write the input into the file, and open it. */
static void put_input(const uint8_t *bytes, size_t n)
{
    if (!tokenizer) make_file();
    zr__file_close(&opened);
    FILE *text = fopen(file_name, "wb");
    hold(text && fwrite(bytes, 1, n, text) == n && fclose(text) == 0, "the input can be written");
    hold(zr__file_open(file_name, false, &opened) == ZR_OK, zr_error_message());
}

#endif
