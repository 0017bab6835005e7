//TEST timeout=30
/* Exact sums: values checked against rational arithmetic, and identical limbs in any order of addition. */
#include "device/exact_truth.h"
#include "base/number/exact.h"

#include <float.h>

#define TINY 0x1p-149f

static zr_exact sum_of(const float *x, int64_t n)
{
    zr_exact sum = {0};
    zr__exact_add(&sum, x, n);
    return sum;
}

/* Check that known sums equal the nearest doubles given by Python's fractions and math.fsum. */
static void test_known_values(void **state)
{
    (void)state;
    static const struct {
        float x[6];
        double sum;
    } known[] = {
        {{1e8f, 1, -1e8f, 1e-3f}, 0x1.004189378p+0},
        {{0.1f, 0.2f, 0.3f, -0.6f}, -0x1p-27},
        {{3e38f, 1e-45f, -3e38f, -1e-45f, 7}, 7},
        {{-1.7f, 2.9f, 1e20f, -1e20f, 1e-20f, 3.3e-7f}, 0x1.3333398956d80p+0},
        {{FLT_MAX, FLT_MAX, FLT_MAX, FLT_MIN}, 0x1.7ffffe8p+129},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        zr_exact sum = sum_of(known[i].x, 6);
        assert_true(zr__exact_value(&sum) == known[i].sum);
    }
}

static void test_rounds_to_nearest_even(void **state)
{
    (void)state;
    const float ones = 0x1.fffffep+53f, more = 0x1.fffffep+29f; /* with 63: 54 one bits */
    static const float tiny = TINY;
    const struct {
        float x[4];
        double sum;
    } known[] = {
        {{0x1p53f, 1}, 0x1p53},
        {{0x1p53f, 1, tiny}, 0x1p53 + 2},
        {{0x1p53f, 1, -tiny}, 0x1p53},
        {{0x1p53f, 2, 1}, 0x1p53 + 4},
        {{0x1p53f, 2, 1, -tiny}, 0x1p53 + 2},
        {{0x1p53f, -1}, 0x1p53 - 1},
        {{ones, more, 63}, 0x1p54},
        {{ones, more, 63, -tiny}, 0x1p54 - 2},
        {{0x1p127f, tiny}, 0x1p127},
        {{tiny}, 0x1p-149},
        {{-0.0f}, 0},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        float negated[4];
        for (int j = 0; j < 4; j++) negated[j] = -known[i].x[j];
        zr_exact sum = sum_of(known[i].x, 4), minus = sum_of(negated, 4);
        assert_true(zr__exact_value(&sum) == known[i].sum);
        assert_true(zr__exact_value(&minus) == -known[i].sum);
        zr__exact_merge(&sum, &minus);
        for (int l = 0; l < ZR_EXACT_LIMBS; l++) assert_int_equal(sum.limb[l], 0);
        assert_true(zr__exact_value(&sum) == 0 && !signbit(zr__exact_value(&sum)));
    }
}

/* Check that a third term breaks a tie, whether just below the bits that a conversion sees or far below them, at every
 * place relative to the limbs. */
static void test_ties_at_every_place(void **state)
{
    (void)state;
    for (int place = -40; place < 70; place++) {
        for (int below = 1; below < 80; below++) {
            const float tie[] = {ldexpf(1, place + 53), ldexpf(1, place), ldexpf(1, place - below)};
            const float less[] = {tie[0], tie[1], -tie[2]};
            zr_exact sum = sum_of(tie, 2), above = sum_of(tie, 3), under = sum_of(less, 3);
            assert_true(zr__exact_value(&sum) == tie[0]);
            assert_true(zr__exact_value(&above) == ldexp(0x1p53 + 2, place));
            assert_true(zr__exact_value(&under) == tie[0]);
        }
    }
}

enum { N = 5001 };

static void test_any_order_any_cut(void **state)
{
    (void)state;
    float x[N], shuffled[N];
    static truth want;
    fill_wild(x, N, 1);
    for (int i = 0; i < N; i++) truth_add(&want, x[i]);
    zr_exact whole = sum_of(x, N);
    truth_expect(&want, &whole);
    for (int64_t piece = 1; piece < 3 * N / 2; piece = 3 * piece + 1) {
        zr_exact added = {0}, merged = {0};
        permute(shuffled, x, N, (uint32_t)piece);
        for (int64_t at = 0; at < N; at += piece) {
            int64_t n = at + piece < N ? piece : N - at;
            zr_exact part = sum_of(shuffled + at, n);
            zr__exact_add(&added, shuffled + at, n);
            zr__exact_merge(&merged, &part);
        }
        assert_same_sum(&added, &whole);
        assert_same_sum(&merged, &whole);
    }
}

static void test_every_single_value(void **state)
{
    (void)state;
    float x[N];
    fill_wild(x, N, 2);
    for (int i = 0; i < N; i++) {
        zr_exact one = sum_of(&x[i], 1);
        assert_true(zr__exact_value(&one) == x[i]);
    }
}

/* Check that doubles add as exactly as the F32 values, or products of two, of which they consist. */
static void test_doubles(void **state)
{
    (void)state;
    float x[N];
    fill_wild(x, N, 3);
    zr_exact whole = sum_of(x, N), doubles = {0}, product = {0};
    for (int i = 0; i < N; i++) zr__exact_add_double(&doubles, x[i]);
    assert_same_sum(&doubles, &whole);
    static const double ends[] = {0x1p-298, -0x1.8p-297, 0x1.fffffffffffffp-246, 0x1.fffffffffffffp+329, -1e70, -0.0};
    for (int e = 0; e < 6; e++) {
        zr__exact_add_double(&product, ends[e]);
        assert_true(zr__exact_value(&product) == ends[e]);
        zr__exact_add_double(&product, -ends[e]);
        for (int l = 0; l < ZR_EXACT_LIMBS; l++) assert_int_equal(product.limb[l], 0);
    }
    zr__exact_add_double(&product, 0x1p300);
    zr__exact_add_double(&product, 0x1p-298);
    zr__exact_add_double(&product, -0x1p300);
    assert_true(zr__exact_value(&product) == 0x1p-298);
    const double bad[] = {INFINITY, -INFINITY, NAN};
    for (int i = 0; i < 3; i++) {
        zr_exact sum = {0};
        zr__exact_add_double(&sum, bad[i]);
        assert_true(sum.not_finite);
    }
}

/* Check that a sum doubled 70 times leaves the range of F32 and stays exact. */
static void test_range(void **state)
{
    (void)state;
    static const float ends[] = {FLT_MAX, -FLT_MAX, TINY, -TINY, FLT_MIN};
    for (int e = 0; e < 5; e++) {
        zr_exact sum = sum_of(&ends[e], 1);
        for (int i = 1; i <= 70; i++) {
            const zr_exact same = sum;
            zr__exact_merge(&sum, &same);
            assert_true(zr__exact_value(&sum) == ldexp(ends[e], i));
        }
    }
}

/* Check that packed sums are integers that doubles hold exactly, even after the sums of 2^20 ranks are added. */
static void test_pack(void **state)
{
    (void)state;
    const int64_t ranks = (int64_t)1 << 20;
    for (uint32_t stream = 3; stream < 7; stream++) {
        float x[N];
        double packed[ZR_EXACT_LIMBS], total[ZR_EXACT_LIMBS] = {0};
        fill_wild(x, N, stream);
        zr_exact sum = sum_of(x, N), back = {0}, all = {0}, want = sum;
        zr__exact_pack(&sum, packed);
        for (int l = 0; l < ZR_EXACT_LIMBS; l++) {
            assert_true(packed[l] == floor(packed[l]) && fabs(packed[l]) < 0x1p53);
            for (int64_t r = 0; r < ranks; r++) total[l] += packed[l];
        }
        zr__exact_unpack(&back, packed);
        assert_same_sum(&back, &sum);
        zr__exact_unpack(&back, packed);
        zr__exact_unpack(&all, total);
        for (int i = 0; i < 20; i++) {
            const zr_exact same = want;
            zr__exact_merge(&want, &same);
            if (i == 0) assert_same_sum(&back, &want);
        }
        assert_same_sum(&all, &want);
    }
}

static void test_not_finite(void **state)
{
    (void)state;
    const float bad[] = {INFINITY, -INFINITY, NAN};
    for (int i = 0; i < 3; i++) {
        const float x[] = {1, bad[i], 2};
        double packed[ZR_EXACT_LIMBS];
        zr_exact sum = sum_of(x, 3), merged = sum_of(x, 1), back = sum_of(x, 1);
        assert_true(sum.not_finite && isnan(zr__exact_value(&sum)));
        zr__exact_add(&sum, x, 1);
        assert_true(sum.not_finite);
        zr__exact_merge(&merged, &sum);
        assert_true(merged.not_finite && isnan(zr__exact_value(&merged)));
        zr__exact_pack(&sum, packed);
        zr__exact_unpack(&back, packed);
        assert_true(back.not_finite);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_rounds_to_nearest_even),
        cmocka_unit_test(test_ties_at_every_place),
        cmocka_unit_test(test_any_order_any_cut),
        cmocka_unit_test(test_every_single_value),
        cmocka_unit_test(test_doubles),
        cmocka_unit_test(test_range),
        cmocka_unit_test(test_pack),
        cmocka_unit_test(test_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
