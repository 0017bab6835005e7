/**
 * Fuzz target: any bytes as a .jsonl file, made tokens of the tokenizer bytes. Where bad lines are left out every file
 * is fine; where they are errors, a file is fine that has none, and is then the same tokens.
 *
 *   clang -g -O1 -std=c11 -D_GNU_SOURCE -Iinclude -Isrc -fsanitize=fuzzer,address,undefined tests/fuzz/jsonl.c \
 *     src/data/{encode,jsonl,tokenizer}.c src/base/{alloc,file,status,text}.c -ljansson -lxxhash -lpthread \
 *     -o fuzz_jsonl && ./fuzz_jsonl tests/fuzz/corpus/jsonl
 */
#include "data/encode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* Two files for all inputs: making them each time would be most of the work. */
static char names[2][sizeof("/tmp/zr-fuzz-XXXXXX")] = {"/tmp/zr-fuzz-XXXXXX", "/tmp/zr-fuzz-XXXXXX"};
static zr__file opened[2]; /* the text, its tokens */
static zr_tokenizer *tokenizer;

static void remove_files(void)
{
    for (int i = 0; i < 2; i++) {
        zr__file_close(&opened[i]);
        unlink(names[i]);
    }
    zr_tokenizer_close(&tokenizer);
}

static void hold(bool truth, const char *what)
{
    if (truth) return;
    fprintf(stderr, "broken: %s\n", what);
    abort();
}

static void make_files(void)
{
    for (int i = 0; i < 2; i++) {
        const int fd = mkstemp(names[i]);
        if (fd < 0 || close(fd) != 0 || zr__file_open(names[i], true, &opened[i]) != ZR_OK) abort();
    }
    if (zr_tokenizer_open("bytes", &tokenizer) != ZR_OK || atexit(remove_files)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    zr__encoded strict, lenient;
    if (!tokenizer) make_files();
    zr__file_close(&opened[0]);
    FILE *text = fopen(names[0], "wb");
    if (!text || fwrite(bytes, 1, n, text) != n || fclose(text) != 0) abort();
    if (zr__file_open(names[0], false, &opened[0]) != ZR_OK) abort();
    zr__encoding x = {.text = &opened[0], .tokenizer = tokenizer, .lines = true, .text_key = "text", .token_bytes = 1};
    const zr_status st = zr__encode(&x, &opened[1], 0, &strict);
    hold(st == ZR_OK || (st == ZR_ERR_DATA && strstr(zr_error_message(), names[0])), "a refusal names the file");
    x.skip_bad_lines = true;
    hold(zr__encode(&x, &opened[1], 0, &lenient) == ZR_OK, "what is left out is no error");
    hold((st == ZR_OK) == (lenient.skipped_lines == 0), "a line is bad or it is not");
    hold(st != ZR_OK || memcmp(&strict, &lenient, sizeof(strict)) == 0, "good files are the same");
    hold(lenient.tokens <= (int64_t)n && lenient.text_bytes <= lenient.tokens, "no token comes from nowhere");
    return 0;
}
