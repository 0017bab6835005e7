/** Fuzz target: arbitrary bytes as a .csv file, encoded with the byte tokenizer. A table whose first row names its
 * columns is accepted if bad rows are skipped. With bad rows as errors, one without bad rows is accepted and gives the
 * same tokens, whatever the parts in which it is read. The bytes are also read as a Parquet file's footer, and
 * unpacked. */
#include "data/files/parquet.h"
#include "data/files/stream.h"
#include "support/fuzz_encode.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

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
    put_input(bytes, n);
    hold(unpack(1) == unpack(sizeof(names)), "pieces are the whole");
    hold(!zr__parquet_columns(&opened, names, sizeof(names)) || names[0], "columns have names");
    const zr_status st = encode(ZR__SHAPE_CSV, false, 0, 1, &strict),
                    skips = encode(ZR__SHAPE_CSV, true, 0, 1, &lenient);
    hold(st == ZR_OK || (st == ZR_ERR_DATA && strstr(zr_error_message(), file_name)), "a refusal names the file");
    hold(skips == ZR_OK || st != ZR_OK, "what is left out is no error");
    const zr_status parts = encode(ZR__SHAPE_CSV, true, 8, 3, &parted);
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
