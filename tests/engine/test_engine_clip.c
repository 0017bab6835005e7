//TEST timeout=60
/* Clipping scales a gradient longer than the limit down to it, and leaves a shorter one unchanged to the last bit. SGD
 * is used because its step shows the gradient's length. */
#include "trainer.h"

#include <math.h>

enum { MOST = 128 * 1024 };

typedef struct weights {
    float value[MOST];
} weights;

static zr_status keep(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    ZR_CHECK(param->first + first + n <= MOST, ZR_ERR_INTERNAL, "a larger model than the test has room for");
    memcpy(((weights *)arg)->value + param->first + first, in, sizeof(float) * (size_t)n);
    return ZR_OK;
}

static zr_status keep_weights(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)comm;
    return zr_engine_read(engine, ZR_STATE_PARAM, keep, run->arg);
}

static trainer plain(int stage, int ranks, int steps)
{
    trainer run = trainer_odd();
    run.layout.stage = stage;
    run.layout.ranks = ranks;
    run.layout.optimizer = zr_sgd(0, false, 0);
    run.layout.norm_first = true;
    run.steps = steps;
    run.clip = 0;
    run.lr = 0.5;
    return run;
}

static void test_below_the_limit(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++)
        for (int stage = 0; stage <= 3; stage++) {
            trainer free = plain(stage, ranks, 4);
            trainer_run(&free);
            double longest = 0;
            for (int i = 0; i < free.steps; i++) longest = fmax(longest, free.norm[i]);
            const double limit[] = {longest * 1.001, longest * 2, longest * 1e6};
            for (int i = 0; i < 3; i++) {
                trainer run = plain(stage, ranks, 4);
                run.clip = limit[i];
                trainer_run(&run);
                assert_memory_equal(run.loss, free.loss, sizeof run.loss);
                assert_int_equal(run.weights, free.weights);
            }
        }
}

/* Check that a clipped step is shorter by limit / norm and has the same direction. */
static void test_above_the_limit(void **state)
{
    (void)state;
    static weights before, whole, clipped;
    trainer still = plain(0, 1, 1), run = plain(0, 1, 1);
    still.lr = 0;
    still.after = run.after = keep_weights;
    still.arg = &before;
    trainer_run(&still);
    run.arg = &whole;
    trainer_run(&run);
    const double share[] = {0.999, 0.5, 0.01};
    for (int i = 0; i < 3; i++) {
        trainer part = plain(3, 2, 1);
        part.layout.batch = 1; /* the same rows */
        part.after = keep_weights;
        part.arg = &clipped;
        part.clip = share[i] * run.norm[0];
        trainer_run(&part);
        assert_float_equal(part.norm[0], run.norm[0], 1e-5 * run.norm[0]); /* reported before clipping */
        double moved = 0, along = 0, length = 0;
        for (int k = 0; k < MOST; k++) {
            double a = (double)whole.value[k] - before.value[k], b = (double)clipped.value[k] - before.value[k];
            moved += b * b;
            along += a * b;
            length += a * a;
        }
        assert_float_equal(sqrt(moved), share[i] * sqrt(length), 1e-4 * sqrt(length) * share[i]);
        assert_float_equal(along, share[i] * length, 1e-4 * length * share[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_below_the_limit), cmocka_unit_test(test_above_the_limit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
