//TEST timeout=60 tsan=1
/* Gradients that are not finite: dynamic loss scales, the two ways in which the lean layout handles them, and the only
 * case in which a step cannot be skipped. */
#include "trainer.h"
#include "train/control/control.h"

#include <math.h>

/* A kernel whose output is spoiled on one rank, in one step. */
static zr_kernel real, spoiling[2];
static int64_t spoiled_step;
static enum { MIDDLE, FIRST, LAST } spoiled_place;

static zr_status spoiling_run(const zr_kernel_args *args)
{
    ZR_TRY(real.run(args));
    const zr_tensor *out = &args->out[0];
    int64_t n = zr_shape_elems(&out->shape), at = spoiled_place == MIDDLE ? n / 2 : spoiled_place == FIRST ? 0 : n - 1;
    /* With a batch of one row, the odd rows are the second rank's. */
    if (args->runtime->step != spoiled_step || args->runtime->first_row % 2 == 0) return ZR_OK;
    if (zr_dtype_bytes(out->dtype) == 4)
        ((float *)out->data)[at] = INFINITY;
    else
        ((uint16_t *)out->data)[at] = 0x7fff; /* NaN in both 16-bit types */
    return ZR_OK;
}

static void spoil(const char *op, int64_t step)
{
    zr_device_config plain = ZR_DEVICE_CONFIG_INIT;
    zr_device *device = NULL;
    assert_int_equal(zr_device_create_cpu(&plain, &device), ZR_OK);
    spoiled_step = step;
    real = *device->ops->kernel(device, op);
    spoiling[0] = real;
    spoiling[0].run = spoiling_run;
    zr_device_destroy(&device);
}

/* Whether ranks run the comm stream on a second thread. Each test runs both ways, because with a second thread one
 * thread detects an overflow and the other must follow. */
static bool lanes;

static int one_thread(void **state)
{
    (void)state;
    lanes = false;
    return 0;
}

static int two_threads(void **state)
{
    (void)state;
    lanes = true;
    return 0;
}

static trainer two_ranks(int stage, zr_dtype dtype, int steps)
{
    trainer run = trainer_odd();
    run.layout.ranks = 2;
    run.layout.batch = 1;
    run.layout.stage = stage;
    run.layout.dtype = run.layout.wire_dtype = dtype;
    run.clip = 0;
    run.steps = steps;
    run.lanes = lanes;
    return run;
}

/* ---- loss scales ---- */

static zr__loss_scaler dynamic(double scale, int64_t window, int64_t hysteresis, double min_scale)
{
    return (zr__loss_scaler){.scale = scale,
                             .min_scale = min_scale,
                             .dynamic = true,
                             .window = window,
                             .hysteresis = hysteresis,
                             .hysteresis_left = hysteresis,
                             .last_overflow = -1};
}

/* Check that, when one rank's gradient overflows in step 3 (from 0), all ranks skip it and halve the scale; two good
 * steps double it. */
static void test_scales_on_all_ranks(void **state)
{
    (void)state;
    const double want[8] = {512, 512, 1024, 1024, 512, 512, 1024, 1024};
    for (int stage = 0; stage <= 3; stage++)
        for (int k = 1; k <= 2; k++) {
            spoil("linear_dw", 3);
            trainer run = two_ranks(stage, ZR_F16, 8);
            run.layout.accum = k;
            run.layout.states = ZR_STATES_LEAN;
            run.layout.norm_first = true;
            run.layout.two_pass = k == 1 && stage == 2;
            run.kernels = spoiling;
            run.scaler = dynamic(512, 2, 1, 1);
            trainer_run(&run);
            for (int i = 0; i < 8; i++) {
                assert_float_equal(run.scale[i], want[i], 0);
                assert_int_equal(run.skipped[i], i == 3);
            }
        }
}

/* Check that with an extreme scale every step overflows by itself, and nothing is updated until the scale has come
 * down. */
static void test_natural_overflow(void **state)
{
    (void)state;
    trainer before = two_ranks(3, ZR_F16, 0), run = two_ranks(3, ZR_F16, 6);
    run.layout.norm_first = true;
    run.scaler = dynamic(0x1p40, 100, 2, 0x1p38);
    trainer_run(&before);
    trainer_run(&run);
    const double want[6] = {0x1p40, 0x1p40, 0x1p39, 0x1p38, 0x1p38, 0x1p38};
    for (int i = 0; i < 6; i++) {
        assert_true(run.skipped[i]);
        assert_float_equal(run.scale[i], want[i], 0);
    }
    assert_int_equal(run.weights, before.weights);
}

/* Check that a loss scale leaves no trace: the gradient is divided by the scale with which its loss was multiplied,
 * also in the step after which the scale grows. A power of two changes no bit of fp32, so the weights have the bits of
 * an unscaled run, and norm and loss are unscaled. */
static void test_scale_leaves_no_trace(void **state)
{
    (void)state;
    for (int clip = 0; clip <= 1; clip++) {
        trainer plain = two_ranks(2, ZR_F32, 6), scaled = plain;
        plain.clip = scaled.clip = clip ? 0.05 : 0;
        scaled.scaler = dynamic(256, 2, 1, 1);
        trainer_run(&plain);
        trainer_run(&scaled);
        assert_float_equal(scaled.scale[5], 1024, 0);
        assert_int_equal(scaled.weights, plain.weights);
        assert_memory_equal(scaled.loss, plain.loss, sizeof plain.loss);
        assert_memory_equal(scaled.norm, plain.norm, sizeof plain.norm);
    }
}

static int32_t same_token(void *arg, int64_t step, int64_t row, int64_t t)
{
    (void)arg;
    (void)step;
    return (int32_t)((row * 7 + t * t) % 131);
}

/* Check that steps after a skipped step are the same as without it, Adam's bias correction included. */
static void test_skipped_step_does_not_count(void **state)
{
    (void)state;
    spoil("linear_db", 0);
    for (int stage = 0; stage <= 3; stage++) {
        trainer two = two_ranks(stage, ZR_BF16, 2), three = two_ranks(stage, ZR_BF16, 3);
        two.token = three.token = same_token;
        three.kernels = spoiling;
        trainer_run(&two);
        trainer_run(&three);
        assert_true(three.skipped[0]);
        assert_int_equal(three.weights, two.weights);
    }
}

/* ---- lean ---- */

/* Check that lean skips a whole step where the norm is known first; otherwise the run ends before the bad unit's
 * update. */
static void test_lean_skips(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++)
        for (int two_pass = 0; two_pass <= 1; two_pass++) {
            spoil("linear_db", 1);
            trainer before = two_ranks(stage, ZR_BF16, 1), run = two_ranks(stage, ZR_BF16, 2);
            before.layout.states = run.layout.states = ZR_STATES_LEAN;
            before.layout.norm_first = run.layout.norm_first = true;
            before.layout.two_pass = run.layout.two_pass = two_pass;
            run.kernels = spoiling;
            trainer_run(&before);
            trainer_run(&run);
            assert_true(run.skipped[1]);
            assert_int_equal(run.bad_param[1], 5); /* the first linear's bias in the first block */
            assert_int_equal(run.weights, before.weights);
        }
}

static void assert_diverges(trainer *run, const char *tensor, const char *updated)
{
    assert_int_equal(zr_comm_threads_run(run->layout.ranks, trainer_rank, run), ZR_ERR_DIVERGED);
    if (!strstr(zr_error_message(), tensor) || !strstr(zr_error_message(), updated))
        fail_msg("\"%s\" names neither %s nor %s", zr_error_message(), tensor, updated);
    /* Parameters are consistent only where no unit has been updated yet. */
    assert_int_equal(run->skipped[0] || run->skipped[1], strncmp(updated, "0 of", 4) == 0);
    run->skipped[0] = run->skipped[1] = false;
}

static void test_lean_ends_the_run(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        trainer run = two_ranks(stage, ZR_BF16, 2);
        run.layout.states = ZR_STATES_LEAN;
        run.kernels = spoiling;
        if (stage % 2) { /* a unit is updated bucket by bucket */
            run.layout.home.optim = ZR_SPACE_HOST;
            run.layout.reduce_bucket_elems = 700;
        }
        spoil("position_dw", 1);
        assert_diverges(&run, "transformer.wpe.weight is not finite in step 2",
                        "3 of 4 units are updated already (final, h.1, h.0)");
        spoil("linear_db", 1);
        assert_diverges(&run, "transformer.h.1.", "1 of 4 units are updated already (final)");
        spoil("linear_cross_entropy_dx", 0);
        assert_diverges(&run, "transformer.ln_f.weight", "0 of 4 units are updated already (none)");
        zr_model model = zr_gpt2(&run.config);
        model.frozen = "h.0.*";
        run.model = &model;
        spoil("position_dw", 1);
        assert_diverges(&run, "transformer.wpe.weight", "2 of 3 units are updated already (final, h.1)");
    }
}

/* The rank whose loss is made NaN: that ends the step, although no gradient is affected. */
static int bad_loss_rank;

static zr_status bad_loss(const zr_kernel_args *args)
{
    ZR_TRY(real.run(args));
    if (args->runtime->first_row % 2 == bad_loss_rank)
        ((float *)args->out[2].data)[0] = NAN; /* out[2] are losses; out[0] and out[1] are dx and dw */
    return ZR_OK;
}

static void test_bad_loss(void **state)
{
    (void)state;
    spoil("linear_cross_entropy_dx", 0);
    spoiling[0].run = bad_loss;
    for (bad_loss_rank = 0; bad_loss_rank < 2; bad_loss_rank++) {
        trainer run = two_ranks(3, ZR_F32, 1);
        run.kernels = spoiling;
        for (int world = 0; world <= 1; world++) {
            run.layout.rank_free_sums = world;
            trainer_run(&run);
            assert_true(run.skipped[0] && !isfinite(run.loss[0]) && isfinite(run.norm[0]));
            assert_int_equal(run.bad_param[0], -1);
        }
        run.layout.rank_free_sums = run.skipped[0] = false;
        run.layout.states = ZR_STATES_LEAN;
        assert_diverges(&run, "the loss is not finite in step 1", "0 of 4 units");
    }
}

/* Check that with `world` reproducibility, infinities and NaN are also found on any rank, and named. */
static void test_world_skips(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        spoil("linear_db", 1);
        trainer run = two_ranks(stage, ZR_F32, 3), before = two_ranks(stage, ZR_F32, 1);
        run.layout.rank_free_sums = before.layout.rank_free_sums = true;
        run.kernels = spoiling;
        run.steps = 2;
        trainer_run(&before);
        trainer_run(&run);
        assert_true(run.skipped[1]);
        assert_false(isfinite(run.norm[1]));
        assert_int_equal(run.bad_param[1], 5);
        assert_int_equal(run.weights, before.weights);
    }
}

/* Check that the named tensor contains the bad element, whether it is the tensor's first or last. */
static void test_names_the_tensor(void **state)
{
    (void)state;
    for (int place = FIRST; place <= LAST; place++)
        for (int stage = 0; stage <= 3; stage++) {
            spoil("linear_db", 0);
            spoiled_place = place;
            trainer run = two_ranks(stage, ZR_F32, 1);
            run.kernels = spoiling;
            trainer_run(&run);
            spoiled_place = MIDDLE;
            assert_true(run.skipped[0]);
            assert_int_equal(run.bad_param[0], 5);
        }
}

/* Check that loss scales and clipping limits by which no gradient can be scaled are refused. */
static void test_refused_numbers(void **state)
{
    (void)state;
    static const double bad[] = {-1, NAN, 1e-39};
    trainer run = two_ranks(1, ZR_F16, 1);
    for (int i = 0; i < 3; i++) {
        run.scaler.scale = bad[i];
        assert_int_equal(zr_comm_threads_run(2, trainer_rank, &run), ZR_ERR_ARG);
        assert_non_null(strstr(zr_error_message(), "a loss scale of"));
    }
    run.scaler.scale = 0;
    for (int i = 0; i < 2; i++) {
        run.clip = bad[i];
        assert_int_equal(zr_comm_threads_run(2, trainer_rank, &run), ZR_ERR_ARG);
        assert_non_null(strstr(zr_error_message(), "clipping to"));
    }
}

static void test_clip_wants_the_norm(void **state)
{
    (void)state;
    trainer run = two_ranks(1, ZR_F32, 1);
    run.layout.states = ZR_STATES_LEAN;
    run.clip = 1;
    assert_int_equal(zr_comm_threads_run(2, trainer_rank, &run), ZR_ERR_STATE);
    assert_non_null(strstr(zr_error_message(), "norm_first"));
}

int main(void)
{
#define BOTH(test) cmocka_unit_test_setup(test, one_thread), cmocka_unit_test_setup(test, two_threads)
    const struct CMUnitTest tests[] = {
        BOTH(test_scales_on_all_ranks),
        BOTH(test_natural_overflow),
        BOTH(test_scale_leaves_no_trace),
        BOTH(test_skipped_step_does_not_count),
        BOTH(test_lean_skips),
        BOTH(test_lean_ends_the_run),
        BOTH(test_bad_loss),
        BOTH(test_world_skips),
        BOTH(test_names_the_tensor),
        BOTH(test_refused_numbers),
        BOTH(test_clip_wants_the_norm),
    };
#undef BOTH
    return cmocka_run_group_tests(tests, NULL, NULL);
}
