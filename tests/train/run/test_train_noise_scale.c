//TEST timeout=60
/* The gradient noise scale of gradients whose mean and covariance are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include <zr.h>
#include "train/control/control.h"

enum { D = 64, MICRO = 4 };

/* Return a nearly normal number of variance 1: a sum of 12 uniform numbers. */
static double draw(uint64_t *seed)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(*seed >> 11) * 0x1p-53;
    }
    return sum;
}

/* Add a step of MICRO micro-batches of `small` tokens. The gradient of a token is g[d] = 0.1 (d + 1) / D plus noise of
 * variance 1 + d % 3, independent from token to token. */
static void step(zr__noise_scale *noise, int small, uint64_t *seed)
{
    double all[D] = {0}, small_square = 0, big_square = 0;
    for (int m = 0; m < MICRO; m++)
        for (int d = 0; d < D; d++) {
            double g = 0.1 * (d + 1) / D + sqrt((1 + d % 3) / (double)small) * draw(seed);
            small_square += g * g / MICRO;
            all[d] += g / MICRO;
        }
    for (int d = 0; d < D; d++) big_square += all[d] * all[d];
    zr__noise_scale_add(noise, small_square, small, big_square, (double)MICRO * small);
}

static double true_gradient(void)
{
    double sum = 0;
    for (int d = 0; d < D; d++) sum += 0.01 * (d + 1) * (d + 1) / D / D;
    return sum;
}

static double true_trace(void)
{
    double sum = 0;
    for (int d = 0; d < D; d++) sum += 1 + d % 3;
    return sum;
}

/* Check that over many runs the averages are |G|^2 and tr(S), whatever the batches: neither estimate is biased. */
static void test_unbiased(void **state)
{
    (void)state;
    enum { RUNS = 400, STEPS = 60 };
    const int smalls[] = {1, 8, 200};
    const double begun = 1 - pow(0.99, STEPS); /* the weight of an average that started at zero */
    uint64_t seed = 1;
    for (int s = 0; s < 3; s++) {
        double gradient = 0, trace = 0, squares = 0;
        for (int r = 0; r < RUNS; r++) {
            zr__noise_scale noise = {0};
            for (int i = 0; i < STEPS; i++) step(&noise, smalls[s], &seed);
            gradient += noise.gradient / begun / RUNS;
            squares += noise.gradient / begun * (noise.gradient / begun) / RUNS;
            trace += noise.trace / begun / RUNS;
        }
        const double deviation = sqrt((squares - gradient * gradient) / RUNS);
        if (fabs(gradient - true_gradient()) > 4 * deviation)
            fail_msg("micro-batches of %d: |G|^2 %g +- %g, wanted %g", smalls[s], gradient, deviation, true_gradient());
        if (fabs(trace - true_trace()) > 0.01 * true_trace())
            fail_msg("micro-batches of %d: tr(S) %g, wanted %g", smalls[s], trace, true_trace());
    }
}

/* Check that one run finds the noise scale. */
static void test_value(void **state)
{
    (void)state;
    zr__noise_scale noise = {0};
    uint64_t seed = 2;
    for (int i = 0; i < 2000; i++) step(&noise, 200, &seed);
    const double wanted = true_trace() / true_gradient(), got = zr__noise_scale_value(&noise);
    if (fabs(got - wanted) > 0.1 * wanted) fail_msg("noise scale %g, wanted %g", got, wanted);
    assert_int_equal(noise.steps, 2000);
}

static void test_not_known(void **state)
{
    (void)state;
    zr__noise_scale noise = {0};
    assert_true(isnan(zr__noise_scale_value(&noise)));
    for (int i = 0; i < ZR_NOISE_SCALE_STEPS; i++) {
        assert_true(isnan(zr__noise_scale_value(&noise)));
        zr__noise_scale_add(&noise, 3, 2, 1.5, 8); /* |G|^2 = 1, tr(S) = 4 */
    }
    assert_float_equal(zr__noise_scale_value(&noise), 4, 1e-12);
    const zr__noise_scale before = noise;
    zr__noise_scale_add(&noise, INFINITY, 2, 1.5, 8);
    zr__noise_scale_add(&noise, 3, 2, NAN, 8);
    assert_memory_equal(&before, &noise, sizeof noise);
    for (int i = 0; i < 400; i++) zr__noise_scale_add(&noise, 8, 2, 1.5, 8); /* |G|^2 < 0 */
    assert_true(isnan(zr__noise_scale_value(&noise)));
}

static void test_words(void **state)
{
    (void)state;
    char text[ZR_NOISE_SCALE_BYTES];
    assert_non_null(strstr(zr__noise_scale_words(NAN, 1024, text), "not known"));
    zr__noise_scale_words(4096.4, 1024, text);
    assert_string_equal(text, "critical batch about 4096 tokens (gradient noise scale), a step has 1024: 5 times the "
                              "fewest steps and 1.2 times the fewest tokens; a larger batch would take fewer steps for "
                              "few more tokens");
    assert_non_null(strstr(zr__noise_scale_words(1024, 4096, text), "a smaller batch would take fewer tokens"));
    assert_non_null(strstr(zr__noise_scale_words(1024, 1024, text), "larger batches save few steps"));
    assert_true(strlen(zr__noise_scale_words(1e300, INT64_MAX, text)) < ZR_NOISE_SCALE_BYTES - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unbiased),
        cmocka_unit_test(test_value),
        cmocka_unit_test(test_not_known),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
