//TEST timeout=60
//LINK -Wl,--wrap=zr_alloc
/* Reading safetensors: accepted files, every rule that refuses a file, and conversion to fp32. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <time.h>

#include "safetensors_bad.h"
#include "support/tempdir.h"
#include "zr/checkpoint.h"
#include "checkpoint/checkpoint.h"

void *__real_zr_alloc(size_t bytes);
void *__wrap_zr_alloc(size_t bytes);

static int allocations, fail_at = -1;

void *__wrap_zr_alloc(size_t bytes)
{
    return allocations++ == fail_at ? NULL : __real_zr_alloc(bytes);
}

static unsigned char image[1 << 18];

static size_t put_length(uint64_t n)
{
    for (int i = 0; i < 8; i++) image[i] = (unsigned char)(n >> 8 * i);
    return 8;
}

/* Write a file of the length, the header, and data bytes 0, 1, 2, ...; return its path. */
static const char *put_tensors(const char *header, size_t data_bytes)
{
    size_t n = put_length(strlen(header));
    memcpy(image + n, header, strlen(header));
    n += strlen(header);
    for (size_t i = 0; i < data_bytes; i++) image[n++] = (unsigned char)i;
    return put_file("t.safetensors", image, n);
}

static void expect_refusal(const char *path, const char *fragment, const char *what)
{
    zr_safetensors *st = NULL;
    zr_status status = zr_safetensors_open(path, &st);
    if (status == ZR_ERR_DATA && !st && strstr(zr_error_message(), fragment) && strstr(zr_error_message(), path))
        return;
    fail_msg("%s: status %d, message: %s; wanted \"%s\"", what, status, zr_error_message(), fragment);
}

static void every_malformed_header_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(safetensors_bad) / sizeof(safetensors_bad[0]); i++) {
        const char *header = safetensors_bad[i].header;
        expect_refusal(put_tensors(header, (size_t)safetensors_bad[i].data_bytes), safetensors_bad[i].fragment, header);
    }
}

static void lengths_are_checked_before_anything(void **state)
{
    (void)state;
    static const struct {
        uint64_t length;
        size_t file_bytes;
        const char *fragment;
    } bad[] = {
        {0, 0, "it has 0 bytes, but needs at least 8"},
        {2, 7, "it has 7 bytes, but needs at least 8"},
        {0, 8, "its header would have 0 bytes"},
        {1, 9, "its header would have 1 bytes"},
        {3, 10, "the header has 3 bytes, but the file only 10"},
        {100000000, 100, "the header has 100000000 bytes, but the file only 100"},
        {100000001, 100, "expected 2 to 100000000"},
        {UINT64_MAX, 100, "expected 2 to 100000000"},
        {UINT64_MAX - 7, 100, "expected 2 to 100000000"},
    };
    memset(image, ' ', 128);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        put_length(bad[i].length);
        expect_refusal(put_file("length", image, bad[i].file_bytes), bad[i].fragment, bad[i].fragment);
    }
}

static void headers_may_hold_anything_legal(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        int data_bytes, tensors;
    } good[] = {
        {"{}", 0, 0},
        {"{}      ", 0, 0},
        {"{\"__metadata__\":{\"format\":\"pt\",\"k\":\"v\"}}", 0, 0},
        {"{\n \"a\" : {\"shape\":[], \"dtype\":\"F32\", \"data_offsets\":[0, 4] }\t}\n", 4, 1},
        {"{\"\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, 1},
        {"{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]},"
         "\"a\":{\"dtype\":\"BOOL\",\"shape\":[1],\"data_offsets\":[0,1]}}",
         2, 2},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"c\":{\"dtype\":\"F32\",\"shape\":[3,0],\"data_offsets\":[4,4]}}",
         4, 3},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[0,2]}}", 2, 1},
        {"{\"\\u00e9\\\"}{\":{\"dtype\":\"F6_E3M2\",\"shape\":[4],\"data_offsets\":[0,3]}}", 3, 1},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1, 1},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        zr_safetensors *st = NULL;
        if (zr_safetensors_open(put_tensors(good[i].header, (size_t)good[i].data_bytes), &st) != ZR_OK)
            fail_msg("%s: %s", good[i].header, zr_error_message());
        assert_int_equal(zr_safetensors_count(st), good[i].tensors);
        zr_safetensors_close(&st);
        assert_null(st);
    }
}

static void tensors_are_found_by_name(void **state)
{
    (void)state;
    zr_safetensors *st;
    const char *path = put_tensors("{\"b\":{\"dtype\":\"U8\",\"shape\":[2,3],\"data_offsets\":[4,10]},"
                                   "\"ab\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]}}",
                                   10);
    assert_int_equal(zr_safetensors_open(path, &st), ZR_OK);
    assert_string_equal(zr__safetensors_path(st), path);
    const zr_safetensors_tensor *b = zr_safetensors_find(st, "b");
    assert_non_null(b);
    assert_string_equal(b->name, "b");
    assert_string_equal(b->dtype, "U8");
    assert_false(b->loadable);
    assert_int_equal(b->ndim, 2);
    assert_int_equal(b->dim[0], 2);
    assert_int_equal(b->dim[1], 3);
    assert_int_equal(b->elems, 6);
    assert_int_equal(b->bytes, 6);
    assert_ptr_equal(zr_safetensors_get(st, 1), b);
    assert_true(zr_safetensors_find(st, "ab")->loadable);
    assert_null(zr_safetensors_find(st, "a"));
    assert_null(zr_safetensors_find(st, ""));
    zr_safetensors_close(&st);
}

static void ranges_and_types_are_checked(void **state)
{
    (void)state;
    zr_safetensors *st;
    float out[4];
    const char *path = put_tensors("{\"f\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]},"
                                   "\"i\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[12,16]}}",
                                   16);
    assert_int_equal(zr_safetensors_open(path, &st), ZR_OK);
    const zr_safetensors_tensor *f = zr_safetensors_find(st, "f");
    assert_int_equal(zr_safetensors_read_f32(st, f, 0, 3, out), ZR_OK);
    assert_int_equal(zr_safetensors_read_f32(st, f, 3, 0, out), ZR_OK);
    assert_int_equal(zr_safetensors_read_f32(st, f, 1, 3, out), ZR_ERR_ARG);
    assert_int_equal(zr_safetensors_read_f32(st, f, -1, 1, out), ZR_ERR_ARG);
    assert_int_equal(zr_safetensors_read_f32(st, f, 0, -1, out), ZR_ERR_ARG);
    assert_int_equal(zr_safetensors_read_f32(st, f, 1, INT64_MAX, out), ZR_ERR_ARG);
    assert_int_equal(zr_safetensors_read_f32(st, zr_safetensors_find(st, "i"), 0, 1, out), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "tensor i has type I32"));
    assert_int_equal(zr__safetensors_write(st, f, 0, 1, out), ZR_ERR_STATE);
    zr_safetensors_close(&st);
}

/* Check integers. The data bytes are 0, 1, 2, ...: as I32 0x03020100 and so on, as I64 numbers above 32 bits. */
static void integers_are_read(void **state)
{
    (void)state;
    int32_t out[2] = {0};
    zr_safetensors *st = NULL;
    const char *path = put_tensors("{\"n\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                                   "\"w\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[8,16]},"
                                   "\"f\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[16,20]}}",
                                   20);
    assert_int_equal(zr_safetensors_open(path, &st), ZR_OK);
    const zr_safetensors_tensor *n = zr_safetensors_find(st, "n");
    assert_int_equal(zr_safetensors_read_i32(st, n, 0, 2, out), ZR_OK);
    assert_int_equal(out[0], 0x03020100);
    assert_int_equal(out[1], 0x07060504);
    assert_int_equal(zr_safetensors_read_i32(st, n, 1, 2, out), ZR_ERR_ARG);
    assert_int_equal(zr_safetensors_read_i32(st, zr_safetensors_find(st, "f"), 0, 1, out), ZR_ERR_DATA);
    assert_int_equal(zr_safetensors_read_i32(st, zr_safetensors_find(st, "w"), 0, 1, out), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "element 0 is 1084818905618843912, which does not fit into 32 bits"));
    zr_safetensors_close(&st);
}

/* Check that a file truncated or written to while open is detected, and its data are not used. */
static void changed_files_are_not_believed(void **state)
{
    (void)state;
    static const char *const headers[] = {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}}",
                                          "{\"a\":{\"dtype\":\"BF16\",\"shape\":[6],\"data_offsets\":[0,12]}}"};
    for (int i = 0; i < 2; i++) {
        zr_safetensors *st;
        float out[6];
        const char *path = put_tensors(headers[i], 12);
        assert_int_equal(zr_safetensors_open(path, &st), ZR_OK);
        const zr_safetensors_tensor *a = zr_safetensors_get(st, 0);
        assert_int_equal(zr_safetensors_read_f32(st, a, 0, 1, out), ZR_OK);
        const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
        assert_int_equal(zr_safetensors_read_f32(st, a, 0, 1, out), ZR_ERR_IO);
        assert_non_null(strstr(zr_error_message(), "another program wrote to it"));
        assert_int_equal(truncate(path, a->offset + 6), 0);
        assert_int_equal(zr_safetensors_read_f32(st, a, 0, a->elems, out), ZR_ERR_IO);
        assert_non_null(strstr(zr_error_message(), "ends at byte"));
        zr_safetensors_close(&st);
    }
}

/* Return all 65,536 values of a 16-bit type, read from a file. */
static const float *read_all_values(const char *dtype)
{
    static float out[65536];
    char header[128];
    zr_safetensors *st;
    snprintf(header, sizeof(header), "{\"a\":{\"dtype\":\"%s\",\"shape\":[65536],\"data_offsets\":[0,131072]}}", dtype);
    size_t n = put_length(strlen(header));
    memcpy(image + n, header, strlen(header));
    n += strlen(header);
    for (unsigned i = 0; i < 65536; i++) {
        image[n++] = (unsigned char)i;
        image[n++] = (unsigned char)(i >> 8);
    }
    assert_int_equal(zr_safetensors_open(put_file("all", image, n), &st), ZR_OK);
    /* Uneven pieces put the buffer's edges at arbitrary places. */
    for (int64_t first = 0, piece; first < 65536; first += piece) {
        piece = 65536 - first < 4999 ? 65536 - first : 4999;
        assert_int_equal(zr_safetensors_read_f32(st, zr_safetensors_get(st, 0), first, piece, out + first), ZR_OK);
    }
    zr_safetensors_close(&st);
    return out;
}

static void f16_is_widened_exactly(void **state)
{
    (void)state;
    const float *out = read_all_values("F16");
    for (int i = 0; i < 65536; i++) {
        int exponent = i >> 10 & 31, fraction = i & 1023;
        double magnitude = exponent == 31 ? (fraction ? NAN : INFINITY)
                           : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                          : ldexp(fraction, -24);
        assert_int_equal(signbit(out[i]) != 0, i >> 15);
        assert_true(isnan(magnitude) ? isnan(out[i]) : fabs((double)out[i]) == magnitude);
    }
}

static void bf16_is_widened_exactly(void **state)
{
    (void)state;
    const float *out = read_all_values("BF16");
    for (uint32_t i = 0; i < 65536; i++) {
        uint32_t bits;
        memcpy(&bits, &out[i], 4);
        assert_int_equal(bits, i << 16);
    }
}

static void missing_files_are_not_bad_data(void **state)
{
    (void)state;
    zr_safetensors *st;
    assert_int_equal(zr_safetensors_open(in_tempdir("gone"), &st), ZR_ERR_NOT_FOUND);
    assert_int_equal(zr_safetensors_open(tempdir, &st), ZR_ERR_NOT_FOUND);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    zr_safetensors *st = NULL;
    const char *path = put_tensors("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4);
    zr_status status = ZR_ERR_MEMORY;
    int failures = 0;
    for (fail_at = 0; status == ZR_ERR_MEMORY; fail_at++) {
        allocations = 0;
        status = zr_safetensors_open(path, &st);
        failures += status == ZR_ERR_MEMORY;
    }
    fail_at = -1;
    assert_int_equal(status, ZR_OK);
    assert_true(failures >= 5);
    zr_safetensors_close(&st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_malformed_header_is_refused),
        cmocka_unit_test(lengths_are_checked_before_anything),
        cmocka_unit_test(headers_may_hold_anything_legal),
        cmocka_unit_test(tensors_are_found_by_name),
        cmocka_unit_test(ranges_and_types_are_checked),
        cmocka_unit_test(integers_are_read),
        cmocka_unit_test(changed_files_are_not_believed),
        cmocka_unit_test(f16_is_widened_exactly),
        cmocka_unit_test(bf16_is_widened_exactly),
        cmocka_unit_test(missing_files_are_not_bad_data),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
