/* Checks of the tokens that a tokenizer of tests/data/tokenizer/bpe_make.h makes from a text. */
#ifndef BPE_EXPECT_H
#define BPE_EXPECT_H

#include "bpe_make.h"
#include "support/tempdir.h"
#include "zr/data.h"

static inline zr_status open_text(const char *json, zr_tokenizer **tokenizer)
{
    return zr_tokenizer_open(put_file("tokenizer.json", json, strlen(json)), tokenizer);
}

/* Open a tokenizer like open_text, and free `json`. If opening fails, end the test. */
static inline zr_tokenizer *opened_text(char *json)
{
    zr_tokenizer *tokenizer = NULL;
    if (open_text(json, &tokenizer) != ZR_OK) fail_msg("%s", zr_error_message());
    zr_free(json);
    return tokenizer;
}

/* Check that `text` is encoded as exactly the tokens `wanted`, which end with -1. */
static inline void expect(const zr_tokenizer *tokenizer, const char *text, int64_t bytes, const int32_t *wanted)
{
    int32_t tokens[64];
    int64_t n = 0, i = 0;
    assert_in_range(bytes, 0, 64);
    assert_int_equal(zr_tokenizer_encode(tokenizer, text, bytes, tokens, bytes, &n), ZR_OK);
    for (; wanted[i] >= 0; i++)
        if (i >= n || tokens[i] != wanted[i]) fail_msg("\"%s\": token %d of %d differs", text, (int)i, (int)n);
    assert_int_equal(n, i);
}
#define EXPECT(tokenizer, text, ...) expect(tokenizer, text, (int64_t)strlen(text), (const int32_t[]){__VA_ARGS__, -1})

#endif
