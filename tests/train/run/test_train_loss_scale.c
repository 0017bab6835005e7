//TEST timeout=20
/* Sequences of loss scales, written by hand from the rule in src/train/control/control.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "train/control/control.h"
#include "zr/config.h"

static zr_config settings(int64_t power, int64_t window, int64_t hysteresis)
{
    zr_config config = {0};
    config.fp16 = true;
    config.scale.initial_scale_power = power;
    config.scale.loss_scale_window = window;
    config.scale.hysteresis = hysteresis;
    config.scale.min_loss_scale = 1;
    return config;
}

/* Check the scales: in `steps`, 'x' overflows and '.' does not; scale[i] is the scale of step i, and the last one the
 * scale after all steps. */
static void expect(const zr_config *config, const char *steps, const double *scale)
{
    zr__loss_scaler scaler = zr__loss_scaler_create(config);
    for (size_t i = 0; i <= strlen(steps); i++) {
        if (scaler.scale != scale[i]) fail_msg("step %zu of %s: %g, wanted %g", i, steps, scaler.scale, scale[i]);
        zr__loss_scaler_update(&scaler, steps[i] == 'x');
    }
}

static void test_no_overflow_doubles_every_window(void **state)
{
    (void)state;
    const zr_config by_three = settings(8, 3, 2), by_one = settings(0, 1, 1);
    expect(&by_three, "..........", (double[]){256, 256, 256, 512, 512, 512, 1024, 1024, 1024, 2048, 2048});
    expect(&by_one, "....", (double[]){1, 2, 4, 8, 16});
}

static void test_long_window(void **state)
{
    (void)state;
    const zr_config config = settings(16, 1000, 2);
    zr__loss_scaler scaler = zr__loss_scaler_create(&config);
    for (int64_t step = 0; step < 4000; step++) {
        assert_true(scaler.scale == (double)(65536 << step / 1000));
        zr__loss_scaler_update(&scaler, false);
    }
}

static void test_every_step_overflows(void **state)
{
    (void)state;
    zr_config config = settings(8, 2, 1);
    expect(&config, "xxxxxxxxxx", (double[]){256, 128, 64, 32, 16, 8, 4, 2, 1, 1, 1});
    config.scale.hysteresis = 3; /* two overflows are forgiven, once */
    expect(&config, "xxxxxx", (double[]){256, 256, 256, 128, 64, 32, 16});
    config.scale.hysteresis = 0; /* as with 1 */
    expect(&config, "xx", (double[]){256, 128, 64});
}

static void test_minimum(void **state)
{
    (void)state;
    zr_config config = settings(4, 2, 1);
    config.scale.min_loss_scale = 4;
    expect(&config, "xxxx..xx", (double[]){16, 8, 4, 4, 4, 4, 8, 4, 4});
    config.scale.min_loss_scale = 0.25;
    expect(&config, "xxxxxxxx", (double[]){16, 8, 4, 2, 1, 0.5, 0.25, 0.25, 0.25});
    config.scale.min_loss_scale = 3; /* no power of two: halving stops at it */
    expect(&config, "xxxx", (double[]){16, 8, 4, 3, 3});
}

/* Check that the window is counted from the last overflow, tolerated by the hysteresis or not. */
static void test_window_starts_at_an_overflow(void **state)
{
    (void)state;
    const zr_config config = settings(8, 3, 1);
    expect(&config, "..x...x......", (double[]){256, 256, 256, 128, 128, 128, 256, 128, 128, 128, 256, 256, 256, 512});
    const zr_config forgiving = settings(8, 3, 2);
    expect(&forgiving, "..x...", (double[]){256, 256, 256, 256, 256, 256, 512});
}

/* Check that the hysteresis, the number of tolerated overflows, is restored only by a full window without overflow. */
static void test_hysteresis(void **state)
{
    (void)state;
    const zr_config config = settings(8, 3, 2);
    expect(&config, "x.x.x", (double[]){256, 256, 256, 128, 128, 64});
    expect(&config, "x...x.x", (double[]){256, 256, 256, 256, 512, 512, 512, 256});
    expect(&config, "xx...xx", (double[]){256, 256, 128, 128, 128, 256, 256, 128});
}

/* Check that with consecutive_hysteresis, every good step restores the hysteresis: only consecutive overflows count. */
static void test_consecutive_hysteresis(void **state)
{
    (void)state;
    zr_config config = settings(8, 3, 2);
    config.scale.consecutive_hysteresis = true;
    expect(&config, "x.x.x", (double[]){256, 256, 256, 256, 256, 256});
    expect(&config, "xx.xx", (double[]){256, 256, 128, 128, 128, 64});
    expect(&config, "x...xxx...", (double[]){256, 256, 256, 256, 512, 512, 256, 128, 128, 128, 256});
}

static void test_static(void **state)
{
    (void)state;
    zr_config config = settings(8, 1, 1);
    config.scale.loss_scale = 1000;
    expect(&config, "xx..x.", (double[]){1000, 1000, 1000, 1000, 1000, 1000, 1000});
    assert_false(zr__loss_scaler_create(&config).dynamic);
    config.scale.loss_scale = 0;
    assert_true(zr__loss_scaler_create(&config).dynamic);
    config.fp16 = false;
    expect(&config, "xx..x.", (double[]){1, 1, 1, 1, 1, 1, 1});
    assert_false(zr__loss_scaler_create(&config).dynamic);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_overflow_doubles_every_window),
        cmocka_unit_test(test_long_window),
        cmocka_unit_test(test_every_step_overflows),
        cmocka_unit_test(test_minimum),
        cmocka_unit_test(test_window_starts_at_an_overflow),
        cmocka_unit_test(test_hysteresis),
        cmocka_unit_test(test_consecutive_hysteresis),
        cmocka_unit_test(test_static),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
