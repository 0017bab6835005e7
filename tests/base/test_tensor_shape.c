//TEST timeout=20
/* Types, shapes, bf16, fp16. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tensor/tensor.h"
#include "zr/plan.h"

#include <math.h>
#include <string.h>

static void types(void **state)
{
    (void)state;
    assert_string_equal(zr_dtype_name(ZR_BF16), "BF16");
    assert_int_equal(zr_dtype_bytes(ZR_BF16), 2);
    assert_int_equal(zr_dtype_bytes(ZR_I32), 4);
    assert_int_equal(zr_dtype_span(ZR_BF16, 3), 6);
    assert_int_equal(zr_dtype_span(ZR_F32, 0), 0);
    for (zr_dtype t = 0; t < ZR_DTYPES; t++) {
        /* Plain types are cut anywhere. Shards in records are aligned to their elements, which ZR_SHARD_ALIGN divides.
         * A record's elements take exactly the bytes of one record, and any part of them the whole. */
        const int64_t grain = zr__dtype_grain(t);
        assert_int_equal(zr_dtype_is_record(t), grain > 1);
        assert_int_equal(grain % (grain > 1 ? ZR_SHARD_ALIGN : 1), 0);
        assert_int_equal(zr_dtype_span(t, 4 * grain + 1), 5 * zr_dtype_bytes(t));
        assert_int_equal(zr_dtype_span(t, zr__dtype_grain(t)), zr_dtype_bytes(t));
        assert_int_equal(zr_dtype_span(t, 5 * zr__dtype_grain(t)), 5 * zr_dtype_bytes(t));
    }
    /* A record has a scale of 2 bytes, and its codes. */
    const zr_dtype bits8[] = {ZR_I8X128, ZR_I8X256, ZR_E4M3X128, ZR_E4M3X256, ZR_E5M2X128, ZR_E5M2X256};
    const zr_dtype bits4[] = {ZR_I4X128, ZR_I4X256, ZR_H4X128, ZR_H4X256};
    for (size_t i = 0; i < sizeof bits8 / sizeof *bits8; i++)
        assert_int_equal(zr_dtype_bytes(bits8[i]), 2 + zr__dtype_grain(bits8[i]));
    for (size_t i = 0; i < sizeof bits4 / sizeof *bits4; i++)
        assert_int_equal(zr_dtype_bytes(bits4[i]), 2 + zr__dtype_grain(bits4[i]) / 2);
    assert_int_equal(zr__dtype_grain(ZR_I8X128), 128);
    assert_int_equal(zr__dtype_grain(ZR_I4X256), 256);
    assert_false(zr_dtype_is_record(ZR_F32) || zr_dtype_is_record(ZR_I32) || zr_dtype_is_record(ZR_DTYPES));
    assert_string_equal(zr_dtype_name(ZR_DTYPES), "unknown");
    assert_true(zr_dtype_is_float(ZR_F32) && zr_dtype_is_float(ZR_BF16) && zr_dtype_is_float(ZR_F16));
    assert_false(zr_dtype_is_float(ZR_I32) || zr_dtype_is_float(ZR_I8X128) || zr_dtype_is_float(ZR_DTYPES));
}

static void shapes(void **state)
{
    (void)state;
    const zr_shape none = {0}, row = {1, {7}}, cube = {3, {4, 32, 64}}, other = {3, {4, 32, 65}}, empty = {2, {0, 5}};
    assert_int_equal(zr_shape_elems(&none), 1);
    assert_int_equal(zr_shape_cols(&none), 1);
    assert_int_equal(zr_shape_rows(&row), 1);
    assert_int_equal(zr_shape_cols(&row), 7);
    assert_int_equal(zr_shape_elems(&cube), 8192);
    assert_int_equal(zr_shape_rows(&cube), 128);
    assert_int_equal(zr_shape_elems(&empty), 0);
    assert_true(zr_shape_equal(&cube, &cube));
    assert_false(zr_shape_equal(&cube, &other));
    assert_false(zr_shape_equal(&none, &row));
}

static void printed_shapes(void **state)
{
    (void)state;
    const zr_shape cube = {3, {4, 32, 64}}, none = {0};
    const zr_shape huge = {4, {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MIN}};
    char text[128], small[6];
    zr_shape_print(&cube, text, sizeof(text));
    assert_string_equal(text, "(4, 32, 64)");
    zr_shape_print(&none, text, sizeof(text));
    assert_string_equal(text, "()");
    zr_shape_print(&cube, small, sizeof(small));
    assert_string_equal(small, "(4, 3");
    zr_shape_print(&huge, text, sizeof(text));
    assert_int_equal(strlen(text), 3 * 19 + 20 + 3 * 2 + 2);
}

static void bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    assert_int_equal(zr_bf16_from_f32(1.0f), 0x3F80);
    assert_int_equal(zr_bf16_from_f32(1.0f + 0x1p-8f), 0x3F80);           /* tie, rounds to even */
    assert_int_equal(zr_bf16_from_f32(1.0f + 0x1p-7f + 0x1p-8f), 0x3F82); /* tie, rounds to even */
    assert_int_equal(zr_bf16_from_f32(1.0f + 0x1p-8f + 0x1p-20f), 0x3F81);
    assert_int_equal(zr_bf16_from_f32(0x1.fffffep127f), 0x7F80); /* above the largest number: infinity */
    assert_int_equal(zr_bf16_from_f32(-INFINITY), 0xFF80);
    assert_true(isnan(zr_f32_from_bf16(zr_bf16_from_f32(NAN))));
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float wide = zr_f32_from_bf16((uint16_t)bits);
        if (!isnan(wide)) assert_int_equal(zr_bf16_from_f32(wide), bits);
    }
}

/* Return the value of an fp16 number as IEEE 754 defines it: 1 sign bit, 5 of exponent, 10 of fraction. */
static double f16_value(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double size = exponent == 31 ? (fraction ? NAN : INFINITY)
                  : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                 : ldexp(fraction, -24);
    return bits >> 15 ? -size : size;
}

static void f16_is_widened_exactly(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        double want = f16_value((uint16_t)bits);
        float wide = zr_f32_from_f16((uint16_t)bits);
        assert_int_equal(signbit(wide) != 0, bits >> 15);
        if (isnan(want)) {
            assert_true(isnan(wide));
            assert_int_equal(zr_f16_from_f32(wide), bits | 0x200); /* the NaN's payload, made quiet */
        } else {
            assert_true((double)wide == want);
            assert_int_equal(zr_f16_from_f32(wide), bits);
        }
    }
}

/* Check rounding at all places where it changes, halfway between neighbours, from both sides. */
static void f16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint16_t low = 0; low < 0x7c00; low++) {
        uint16_t high = low + 1, even = low & 1 ? high : low;
        double above = high == 0x7c00 ? 65536 : f16_value(high); /* the next power of two follows the largest number */
        float half = (float)((f16_value(low) + above) / 2);
        assert_true(half == (f16_value(low) + above) / 2);
        assert_int_equal(zr_f16_from_f32(half), even);
        assert_int_equal(zr_f16_from_f32(-half), 0x8000 | even);
        assert_int_equal(zr_f16_from_f32(nextafterf(half, 0)), low);
        assert_int_equal(zr_f16_from_f32(nextafterf(half, INFINITY)), high);
    }
    assert_int_equal(zr_f16_from_f32(0x1p-149f), 0);
    assert_int_equal(zr_f16_from_f32(-0x1p-149f), 0x8000);
    assert_int_equal(zr_f16_from_f32(0x1.fffffep127f), 0x7C00); /* never the largest finite number */
    assert_int_equal(zr_f16_from_f32(-INFINITY), 0xFC00);
}

/* Check that NaN stays NaN for all payloads, also for payloads that fp16 has no room for. */
static void f16_keeps_nan(void **state)
{
    (void)state;
    for (uint32_t bits = 0x7f800001u; bits < 0x80000000u; bits += 97) {
        float x;
        memcpy(&x, &bits, sizeof(x));
        assert_true(isnan(zr_f32_from_f16(zr_f16_from_f32(x))));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types),
        cmocka_unit_test(shapes),
        cmocka_unit_test(printed_shapes),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(f16_is_widened_exactly),
        cmocka_unit_test(f16_rounds_to_nearest_even),
        cmocka_unit_test(f16_keeps_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
