//TEST timeout=10
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "zr/data.h"

static void bytes_go_there_and_back(void **state)
{
    (void)state;
    zr_tokenizer *tokenizer;
    char text[256];
    int32_t tokens[256];
    int64_t n = 0;
    for (int i = 0; i < 256; i++) text[i] = (char)(i * 7);
    assert_int_equal(zr_tokenizer_open("bytes", &tokenizer), ZR_OK);
    assert_string_equal(zr_tokenizer_name(tokenizer), "bytes");
    assert_int_equal(zr_tokenizer_vocab(tokenizer), 256);
    assert_true(zr_tokenizer_hash(tokenizer) == 0xd30345fef8ac3570);
    assert_int_equal(zr_tokenizer_encode(tokenizer, text, 256, tokens, 256, &n), ZR_OK);
    assert_int_equal(n, 256);
    for (int i = 0; i < 256; i++) {
        const char *piece;
        int64_t bytes;
        assert_int_equal(tokens[i], (unsigned char)text[i]);
        assert_int_equal(zr_tokenizer_decode(tokenizer, tokens[i], &piece, &bytes), ZR_OK);
        assert_int_equal(bytes, 1);
        assert_int_equal(*piece, text[i]);
    }
    zr_tokenizer_close(&tokenizer);
    assert_null(tokenizer);
}

static void mistakes_are_named(void **state)
{
    (void)state;
    zr_tokenizer *tokenizer;
    const char *piece;
    int32_t tokens[2];
    int64_t n;
    assert_int_equal(zr_tokenizer_open("gpt2", &tokenizer), ZR_ERR_NOT_FOUND);
    assert_non_null(strstr(zr_error_message(), "\"gpt2\""));
    assert_int_equal(zr_tokenizer_open("bytes", &tokenizer), ZR_OK);
    assert_int_equal(zr_tokenizer_encode(tokenizer, "abc", 3, tokens, 2, &n), ZR_ERR_ARG);
    assert_int_equal(zr_tokenizer_decode(tokenizer, 256, &piece, &n), ZR_ERR_ARG);
    assert_int_equal(zr_tokenizer_decode(tokenizer, -1, &piece, &n), ZR_ERR_ARG);
    zr_tokenizer_close(&tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_go_there_and_back),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
