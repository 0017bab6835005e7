/* Exact sums by a slow method, for checks of zr_exact: a count for each power of two, carried in base two. */
#ifndef ZR_TESTS_EXACT_TRUTH_H
#define ZR_TESTS_EXACT_TRUTH_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "zr/base.h"
#include "base/number/exact.h"

#define TRUTH_BITS (32 * ZR_EXACT_LIMBS)
#define TRUTH_UNIT (-298)

typedef struct truth {
    int64_t count[TRUTH_BITS]; /* number of terms 2^(i + TRUTH_UNIT) */
} truth;

/* Return the integer, odd or 0, with x = integer * 2^power, for finite x. */
static inline int64_t truth_integer(float x, int *power)
{
    int64_t integer = (int64_t)ldexp(frexp(x, power), 24);
    for (*power -= 24; integer && integer % 2 == 0; ++*power) integer /= 2;
    return integer;
}

/* Add times * magnitude * 2^power. */
static inline void truth_term(truth *sum, int64_t times, uint64_t magnitude, int power)
{
    for (int b = 0; b < 64; b++) {
        if (magnitude >> b & 1) sum->count[power + b - TRUTH_UNIT] += times;
    }
}

static inline void truth_add(truth *sum, float x)
{
    int power;
    int64_t integer = truth_integer(x, &power);
    truth_term(sum, integer < 0 ? -1 : 1, (uint64_t)(integer < 0 ? -integer : integer), power);
}

static inline void truth_add_square(truth *sum, float x, int64_t times)
{
    int power;
    int64_t integer = truth_integer(x, &power);
    truth_term(sum, times, (uint64_t)(integer * integer), 2 * power);
}

/* Propagate carries, so that each count is a binary digit. The last count keeps the remainder with its sign. */
static inline void truth_carry(truth *sum)
{
    for (int i = 0; i < TRUTH_BITS - 1; i++) {
        int64_t digit = sum->count[i] % 2 ? 1 : 0;
        sum->count[i + 1] += (sum->count[i] - digit) / 2;
        sum->count[i] = digit;
    }
}

/* Check the sum's limbs, whose form is unique, and its nearest double. */
static inline void truth_expect(const truth *want, const zr_exact *got)
{
    truth sum = *want;
    truth_carry(&sum);
    for (int l = 0; l < ZR_EXACT_LIMBS; l++) {
        int64_t limb = 0;
        for (int b = 31; b >= 0; b--) limb = 2 * limb + sum.count[32 * l + b];
        assert_int_equal(got->limb[l], limb);
    }
    assert_false(got->not_finite);

    bool negative = sum.count[TRUTH_BITS - 1] < 0;
    for (int i = 0; negative && i < TRUTH_BITS; i++) sum.count[i] = -sum.count[i];
    truth_carry(&sum);
    int top = TRUTH_BITS - 1;
    while (top > 0 && sum.count[top] == 0) top--;
    double value = 0;
    for (int i = top; i >= 0 && i > top - 53; i--) value += ldexp((double)sum.count[i], i + TRUTH_UNIT);
    int half = top - 53;
    bool below = false;
    for (int i = 0; i < half; i++) below |= sum.count[i] != 0;
    if (half >= 0 && sum.count[half] && (below || sum.count[half + 1])) value += ldexp(1, half + 1 + TRUTH_UNIT);
    assert_true(zr__exact_value(got) == (negative ? -value : value));
}

static inline void assert_same_sum(const zr_exact *a, const zr_exact *b)
{
    assert_memory_equal(a->limb, b->limb, sizeof a->limb);
    assert_int_equal(a->not_finite, b->not_finite);
}

/* Fill x with finite F32 values of every exponent and sign that depend on `stream` alone. */
static inline void fill_wild(float *x, int64_t n, uint32_t stream)
{
    const zr_rng rng = {.seed = 11, .purpose = ZR_RNG_INIT, .stream = stream};
    for (int64_t i = 0; i < n; i++) {
        uint32_t u = zr_rng_u32(&rng, (uint64_t)i);
        if ((u >> 23 & 0xff) == 0xff) u &= 0x807fffffu;
        memcpy(&x[i], &u, sizeof u);
    }
}

/* Permute n numbers in a fixed order that depends on `stream`. */
static inline void permute(float *out, const float *x, int64_t n, uint32_t stream)
{
    const zr_rng rng = {.seed = 12, .purpose = ZR_RNG_SHUFFLE, .stream = stream};
    memcpy(out, x, (size_t)n * sizeof *x);
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)(zr_rng_uniform(&rng, (uint64_t)i) * (double)(i + 1));
        float swap = out[i];
        out[i] = out[j];
        out[j] = swap;
    }
}

#endif
