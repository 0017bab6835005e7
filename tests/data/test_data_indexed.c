//TEST timeout=30
/* Megatron's pair of files: accepted files, and every defect that an index can have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/tempdir.h"
#include "zr/data.h"
#include "data/samples/samples.h"

enum { SEQ = 4, TOKENS = 30, HEADER = 34 };

/* An index under construction: sequences of 10, 0 and 20 tokens in two documents. */
typedef struct image {
    unsigned char bytes[256];
    size_t n;
} image;

static void put(image *x, size_t at, int bytes, int64_t value)
{
    for (int i = 0; i < bytes; i++) x->bytes[at + (size_t)i] = (unsigned char)((uint64_t)value >> 8 * i);
    if (at + (size_t)bytes > x->n) x->n = at + (size_t)bytes;
}

enum { LENGTHS = HEADER, PLACES = LENGTHS + 3 * 4, DOCUMENTS = PLACES + 3 * 8, END = DOCUMENTS + 3 * 8 };

static image make(int code, int width)
{
    image x = {.bytes = "MMIDIDX"};
    const int length[3] = {10, 0, 20};
    int64_t at = 0;
    put(&x, 9, 8, 1);
    put(&x, 17, 1, code);
    put(&x, 18, 8, 3);
    put(&x, 26, 8, 3);
    for (size_t i = 0; i < 3; i++) {
        put(&x, LENGTHS + 4 * i, 4, length[i]);
        put(&x, PLACES + 8 * i, 8, at);
        at += length[i] * width;
    }
    put(&x, DOCUMENTS, 8, 0);
    put(&x, DOCUMENTS + 8, 8, 2);
    put(&x, DOCUMENTS + 16, 8, 3);
    return x;
}

static zr_status open_pair(const image *x, int width, int64_t vocab, zr_data **data)
{
    unsigned char tokens[TOKENS * 4] = {0};
    for (int i = 0; i < TOKENS; i++) {
        tokens[i * width] = (unsigned char)(i + 1);
        tokens[i * width + width - 1] = i == 29 && vocab > 65536 ? 1 : tokens[i * width + width - 1];
    }
    put_file("x.bin", tokens, (size_t)(TOKENS * width));
    put_file("x.idx", x->bytes, x->n);
    *data = NULL;
    return zr_data_open(in_tempdir("x.bin"), NULL, vocab, SEQ, ZR_SEQUENTIAL, 0, data);
}

static void documents_are_one_text(void **state)
{
    (void)state;
    static const struct {
        int code, width;
        const char *format;
        int64_t vocab;
    } kind[] = {{8, 2, "Megatron uint16", 256}, {4, 4, "Megatron int32", 1 << 25}};
    int32_t token[SEQ], target[SEQ];
    for (size_t k = 0; k < 2; k++) {
        image x = make(kind[k].code, kind[k].width);
        for (int modes = 0; modes < 2; modes++) {
            zr_data *data;
            if (modes) put(&x, x.n, 3, 0);
            if (open_pair(&x, kind[k].width, kind[k].vocab, &data) != ZR_OK) fail_msg("%s", zr_error_message());
            assert_string_equal(zr_data_get_info(data).format, kind[k].format);
            assert_int_equal(zr_data_get_info(data).tokens, TOKENS);
            assert_int_equal(zr_data_window(data, 2, token, target), ZR_OK);
            for (int i = 0; i < SEQ; i++) assert_int_equal(target[i], 2 * SEQ + i + 2);
            zr_data_close(&data);
        }
    }
}

static void refused(const image *x, const char *says)
{
    zr_data *data;
    assert_int_equal(open_pair(x, 2, 256, &data), ZR_ERR_DATA);
    if (!strstr(zr_error_message(), says)) fail_msg("\"%s\" is not in: %s", says, zr_error_message());
}

static void damage_is_named(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        int bytes;
        int64_t value;
        const char *says;
    } wrong[] = {
        {0, 1, 'm', "x.idx: byte 0: not the index of a token file"},
        {8, 1, 1, "x.idx: byte 0: not the index"},
        {9, 8, 2, "x.idx: byte 9: version 2, wanted 1"},
        {17, 1, 7, "x.idx: byte 17: tokens of the type float32 (code 7), wanted int32 (4) or uint16 (8)"},
        {17, 1, 99, "x.idx: byte 17: tokens of the type unknown (code 99)"},
        {18, 8, 4, "x.idx: byte 18: 4 sequences and 3 documents do not fit"},
        {18, 8, -1, "x.idx: byte 18: 18446744073709551615 sequences"},
        {26, 8, INT64_MAX, "x.idx: byte 18: 3 sequences and 9223372036854775807 documents do not fit"},
        {18, 8, 1, "x.idx: byte 18: 1 sequences and 3 documents make 70 bytes; the file has 94"},
        {LENGTHS, 4, -1, "x.idx: byte 34: sequence 0 has -1 tokens"},
        {LENGTHS, 4, 31, "x.idx: byte 34: sequence 0 has 31 tokens of 2 bytes from byte 0 on; "},
        {LENGTHS, 4, 9, "x.idx: byte 54: sequence 1 begins at byte 20 of "},
        {LENGTHS + 8, 4, 19, "x.idx: its sequences end at byte 58 of "},
        {PLACES + 16, 8, 18, "x.idx: byte 62: sequence 2 begins at byte 18 of "},
        {PLACES + 16, 8, INT64_MIN, "x.idx: byte 62: sequence 2 begins at byte -9223372036854775808"},
        {DOCUMENTS + 8, 8, 4, "x.idx: byte 78: document 1 begins with sequence 4, wanted 0 .. 3"},
        {DOCUMENTS + 16, 8, 1, "x.idx: byte 86: document 2 begins with sequence 1, wanted 2 .. 3"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        image x = make(8, 2);
        put(&x, wrong[i].at, wrong[i].bytes, wrong[i].value);
        refused(&x, wrong[i].says);
    }
    image x = make(8, 2);
    x.n = HEADER - 1;
    refused(&x, "x.idx: 33 bytes, an index has at least 34");
    x.n = END + 1;
    refused(&x, "make 94 bytes; the file has 95");
}

static void tokens_below_zero_are_refused(void **state)
{
    (void)state;
    zr_data *data;
    image x = make(4, 4);
    int32_t tokens[TOKENS] = {0};
    assert_int_equal(open_pair(&x, 4, 256, &data), ZR_OK);
    zr_data_close(&data);
    tokens[3] = -1;
    put_file("x.bin", tokens, sizeof(tokens));
    assert_int_equal(zr_data_open(in_tempdir("x.bin"), NULL, 256, SEQ, ZR_SEQUENTIAL, 0, &data), ZR_OK);
    assert_int_equal(zr__data_check(data, NULL, NULL, NULL), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "x.bin: token 3 (byte 12) is 4294967295"));
    zr_data_close(&data);
}

static void the_token_file_is_named(void **state)
{
    (void)state;
    zr_data *data;
    image x = make(8, 2);
    assert_int_equal(open_pair(&x, 2, 256, &data), ZR_OK);
    zr_data_close(&data);
    assert_int_equal(zr_data_open(in_tempdir("x.*"), NULL, 256, SEQ, ZR_SEQUENTIAL, 0, &data), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "x.idx: this is the index of a token file; give the .bin file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_are_one_text),
        cmocka_unit_test(damage_is_named),
        cmocka_unit_test(tokens_below_zero_are_refused),
        cmocka_unit_test(the_token_file_is_named),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
