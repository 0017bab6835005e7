//TEST timeout=20
/* Learning rates, against values computed by hand from the formulas in src/train/control/control.h. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "train/control/control.h"
#include "zr/config.h"

static zr_config settings(zr_config_scheduler type, zr_config_warmup warmup)
{
    zr_config config = {0};
    config.optimizer.lr = 2e-3;
    config.scheduler.type = type;
    config.scheduler.warmup_type = warmup;
    config.scheduler.warmup_min_lr = 1e-4;
    config.scheduler.warmup_max_lr = 1e-3;
    config.scheduler.warmup_num_steps = 10;
    config.scheduler.total_num_steps = 110;
    config.scheduler.warmup_min_ratio = 0.1;
    config.scheduler.cos_min_ratio = 0.01;
    return config;
}

static void expect(const zr_config *config, int64_t updates, double lr)
{
    double got = zr__lr(config, updates);
    if (!(fabs(got - lr) < 1e-15)) fail_msg("after %lld updates: %.17g, wanted %.17g", (long long)updates, got, lr);
}

static void test_constant(void **state)
{
    (void)state;
    zr_config config = settings(ZR_SCHEDULER_NONE, ZR_WARMUP_LOG);
    expect(&config, 0, 2e-3);
    expect(&config, 100000, 2e-3);
}

static void test_warmup_linear(void **state)
{
    (void)state;
    zr_config config = settings(ZR_SCHEDULER_WARMUP, ZR_WARMUP_LINEAR);
    expect(&config, 0, 1e-4); /* before the scheduler's first iteration */
    expect(&config, 1, 1e-4); /* iteration 0 */
    expect(&config, 2, 1.9e-4);
    expect(&config, 6, 5.5e-4);
    expect(&config, 10, 9.1e-4);
    expect(&config, 11, 1e-3);
    expect(&config, 5000, 1e-3);
}

static void test_warmup_log(void **state)
{
    (void)state;
    zr_config config = settings(ZR_SCHEDULER_WARMUP, ZR_WARMUP_LOG);
    expect(&config, 0, 1e-4);
    expect(&config, 1, 1e-4);
    expect(&config, 2, 3.7092699609758306e-4); /* ln 2 / ln 10 = 0.30102999566398120 */
    expect(&config, 10, 1e-3);                 /* ln 10 / ln 10 */
    expect(&config, 11, 1e-3);
}

static void test_decay(void **state)
{
    (void)state;
    zr_config config = settings(ZR_SCHEDULER_WARMUP_DECAY, ZR_WARMUP_LINEAR);
    expect(&config, 6, 5.5e-4);
    expect(&config, 11, 1e-3);   /* (110 - 10) / 100 */
    expect(&config, 61, 5.5e-4); /* half way */
    expect(&config, 111, 1e-4);
    expect(&config, 900, 1e-4);
}

static void test_cosine(void **state)
{
    (void)state;
    zr_config config = settings(ZR_SCHEDULER_WARMUP_COSINE, ZR_WARMUP_LINEAR);
    expect(&config, 0, 0.0);
    expect(&config, 1, 2e-4);     /* ratio 0.1 */
    expect(&config, 6, 1.1e-3);   /* 0.1 + 0.9 * 0.5 */
    expect(&config, 60, 1.01e-3); /* p = 1/2: 0.01 + 0.99/2 */
    expect(&config, 110, 2e-5);   /* p = 1: the floor */
    expect(&config, 400, 2e-5);
}

/* Check the warm-up that counts steps from 1: the first update changes the model, and update W - 1 has the highest
 * rate. */
static void test_from_1(void **state)
{
    (void)state;
    zr_config config = settings(ZR_SCHEDULER_WARMUP_COSINE, ZR_WARMUP_FROM_1);
    config.scheduler.warmup_min_ratio = 0;
    expect(&config, 0, 2e-4); /* lr / 10 */
    expect(&config, 4, 1e-3);
    expect(&config, 9, 2e-3);
    expect(&config, 59, 1.01e-3); /* p = 1/2 */
    expect(&config, 109, 2e-5);   /* the last step of S = 110 has the floor */
    config.scheduler.warmup_num_steps = 1;
    expect(&config, 0, 2e-3);
    config.scheduler.warmup_num_steps = 0;
    expect(&config, 0, 2e-3);
    config = settings(ZR_SCHEDULER_WARMUP, ZR_WARMUP_FROM_1);
    expect(&config, 0, 1.9e-4); /* min + (max - min) / 10 */
    expect(&config, 9, 1e-3);
    expect(&config, 500, 1e-3);
    config.scheduler.type = ZR_SCHEDULER_WARMUP_DECAY;
    expect(&config, 9, 1e-3);
    expect(&config, 60, 5.5e-4); /* (110 - 60) / 100 */
}

/* Check that OneCycle with stairs keeps its rate until the next stair. */
static void test_stairs(void **state)
{
    (void)state;
    zr_config config = settings(ZR_SCHEDULER_ONE_CYCLE, ZR_WARMUP_LOG);
    config.scheduler.cycle_min_lr = 1e-3;
    config.scheduler.cycle_max_lr = 5e-3;
    config.scheduler.first_step_size = 8;
    config.scheduler.second_step_size = 12;
    config.scheduler.first_stair_count = 4;
    config.scheduler.second_stair_count = 2;
    expect(&config, 0, 1e-3);
    expect(&config, 1, 1e-3);
    expect(&config, 2, 2e-3);
    expect(&config, 7, 4e-3);
    expect(&config, 8, 5e-3);
    expect(&config, 9, 3e-3);
    expect(&config, 14, 3e-3);
    expect(&config, 15, 1e-3);
}

/* Check a warm-up of one step, which would divide by ln 1. */
static void test_short_warmup(void **state)
{
    (void)state;
    zr_config config = settings(ZR_SCHEDULER_WARMUP, ZR_WARMUP_LOG);
    config.scheduler.warmup_num_steps = 1;
    expect(&config, 1, 1e-4);
    expect(&config, 2, 1e-3); /* ln 2 / ln 2 */
    expect(&config, 3, 1e-3);
}

/* Check that decay shorter than the warm-up ends at once, never below the least rate. */
static void test_total_below_warmup(void **state)
{
    (void)state;
    zr_config config = settings(ZR_SCHEDULER_WARMUP_DECAY, ZR_WARMUP_LINEAR);
    config.scheduler.total_num_steps = 5;
    expect(&config, 11, 1e-4);
    config = settings(ZR_SCHEDULER_WARMUP_COSINE, ZR_WARMUP_LINEAR);
    config.scheduler.total_num_steps = 5;
    expect(&config, 11, 2e-5);
}

/* Check the schedule EE of DeepSpeed's BERT recipe, with smaller numbers. */
static void test_exponential(void **state)
{
    (void)state;
    zr_config config = settings(ZR_SCHEDULER_WARMUP_EXP, ZR_WARMUP_LOG);
    config.scheduler.warmup_degree = 2;
    config.scheduler.decay_rate = 0.9;
    config.scheduler.decay_step = 25;
    config.scheduler.lr_offset = 1e-4;
    expect(&config, 0, 1e-4);
    expect(&config, 5, 6e-4);               /* 2e-3 / 4 */
    expect(&config, 9, 1e-4 + 2e-3 * 0.81); /* (9/10)^2 */
    expect(&config, 10, 2.1e-3);
    expect(&config, 35, 1e-4 + 2e-3 * 0.9);
    expect(&config, 60, 1e-4 + 2e-3 * 0.81);
    expect(&config, 22, 1e-4 + 2e-3 * pow(0.9, 12.0 / 25));
    config.scheduler.warmup_num_steps = 0;
    expect(&config, 0, 2.1e-3);
}

/* Check that NVIDIA's schedule for BERT counts the first update as 1. */
static void test_polynomial(void **state)
{
    (void)state;
    zr_config config = settings(ZR_SCHEDULER_WARMUP_POLY, ZR_WARMUP_LOG);
    config.scheduler.total_num_steps = 100;
    config.scheduler.decay_degree = 0.5;
    expect(&config, 0, 2e-4); /* 1/10 */
    expect(&config, 8, 1.8e-3);
    expect(&config, 18, 1.8e-3); /* (1 - 0.19)^0.5 */
    expect(&config, 74, 1e-3);   /* (1 - 0.75)^0.5 */
    expect(&config, 99, 0);
    expect(&config, 500, 0);
    config.scheduler.decay_degree = 1;
    expect(&config, 49, 1e-3);
    config.scheduler.warmup_num_steps = 0;
    expect(&config, 0, 1.98e-3);
}

static void test_one_cycle(void **state)
{
    (void)state;
    zr_config config = settings(ZR_SCHEDULER_ONE_CYCLE, ZR_WARMUP_LOG);
    config.scheduler.cycle_min_lr = 1e-4;
    config.scheduler.cycle_max_lr = 9e-4;
    config.scheduler.first_step_size = 8;
    config.scheduler.second_step_size = 4;
    config.scheduler.decay_lr_rate = 0.5;
    expect(&config, 0, 1e-4);
    expect(&config, 2, 3e-4);
    expect(&config, 8, 9e-4);
    expect(&config, 9, 7e-4);
    expect(&config, 12, 1e-4);
    expect(&config, 13, 1e-4); /* no decay without a step size */
    config.scheduler.decay_step_size = 10;
    expect(&config, 12, 1e-4);
    expect(&config, 22, 1e-4 / 1.5);
    expect(&config, 17, 1e-4 / 1.25);
    expect(&config, 112, 1e-4 / 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constant),     cmocka_unit_test(test_warmup_linear),
        cmocka_unit_test(test_warmup_log),   cmocka_unit_test(test_decay),
        cmocka_unit_test(test_cosine),       cmocka_unit_test(test_from_1),
        cmocka_unit_test(test_stairs),       cmocka_unit_test(test_exponential),
        cmocka_unit_test(test_polynomial),   cmocka_unit_test(test_one_cycle),
        cmocka_unit_test(test_short_warmup), cmocka_unit_test(test_total_below_warmup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
