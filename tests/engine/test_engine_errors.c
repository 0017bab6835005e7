//TEST timeout=240 tsan=1
/* Error feedback of quantised gradients (zr_layout.error_steps): the same bits, of weights and of errors, in every
 * layout of the same ranks; errors that are cleared, saved and filled. Bytes are checked by every run (trainer.h), and
 * the arithmetic by test_device_records.c. */
#include "engine/layout_variants.h"

#include <math.h>
#include <stdatomic.h>

enum { RESET = 1024 };

static trainer feeding(int ranks, zr_dtype dtype, int64_t accum, zr_dtype grads)
{
    trainer run = layout_trainer(ranks, dtype, accum, 0.5);
    run.steps = 4;
    run.layout.grad_records = grads;
    run.layout.reduce_once = accum > 1;
    run.layout.error_steps = RESET;
    run.layout.error_beta = 0.8;
    return run;
}

static bool differ(const trainer *a, const trainer *b)
{
    return a->weights != b->weights && a->loss[a->steps - 1] != b->loss[b->steps - 1];
}

/* ---- errors of all ranks ------------------------------------------------------------------------ */

/* Hash of the errors of all ranks at each level, and their number that are not 0. */
typedef struct errors {
    _Atomic uint64_t hash[ZR_ERROR_LEVELS];
    _Atomic int64_t n[ZR_ERROR_LEVELS];
} errors;

typedef struct counting {
    uint64_t hash;
    int64_t n;
} counting;

static zr_status count_errors(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    counting *c = arg;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t place = (uint64_t)param->first << 32 | (uint64_t)(first + i);
        uint32_t bits;
        memcpy(&bits, &in[i], sizeof bits);
        if (bits == 0) continue;
        ZR_CHECK(isfinite(in[i]) && strstr(param->name, ".h.") && param->shape.ndim > 1, ZR_ERR_INTERNAL,
                 "%s: an error of %g", param->name, (double)in[i]);
        uint64_t x = (place ^ bits) * 0x9e3779b97f4a7c15u;
        x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
        c->hash += x ^ x >> 32;
        c->n++;
    }
    return ZR_OK;
}

/* Add this rank's errors to run->arg. A hook of trainer.h. */
static zr_status sum_errors(trainer *run, zr_engine *engine, zr_comm *comm)
{
    errors *all = run->arg;
    (void)comm;
    for (int level = 0; level < ZR_ERROR_LEVELS; level++) {
        counting mine = {0};
        ZR_TRY(zr_engine_read(engine, ZR_STATE_ERROR + level, count_errors, &mine));
        atomic_fetch_add(&all->hash[level], mine.hash);
        atomic_fetch_add(&all->n[level], mine.n);
    }
    return ZR_OK;
}

/* Run, and return the errors after the last step. */
static errors errors_of(trainer *run)
{
    errors all = {0};
    run->arg = &all;
    run->after = sum_errors;
    trainer_run(run);
    return all;
}

static void assert_same_errors(errors *want, errors *got)
{
    for (int level = 0; level < ZR_ERROR_LEVELS; level++) {
        assert_int_equal(want->n[level], got->n[level]);
        assert_true(want->hash[level] == got->hash[level]);
    }
}

/* ---- the same bits ------------------------------------------------------------------------------ */

static void check_errors(int ranks, zr_dtype dtype, int64_t accum, zr_dtype grads)
{
    static int share;
    trainer want = feeding(ranks, dtype, accum, grads);
    if (grads == ZR_H4X128) want.config.n_embd = 48; /* matrices of whole blocks */
    trainer plain = want;
    errors all = errors_of(&want);
    assert_true(all.n[ZR_ERROR_WHOLE] > 1000 && all.n[ZR_ERROR_PARTIAL] == 0);
    plain.layout.error_steps = 0;
    trainer_run(&plain);
    /* the first gradients have no errors of earlier ones */
    assert_true(want.norm[0] == plain.norm[0] && want.loss[1] == plain.loss[1] && want.norm[1] != plain.norm[1]);
    assert_true(differ(&want, &plain) && fabs(want.loss[3] - plain.loss[3]) < 0.05 * plain.loss[3]);
    for (int stage = 0; stage <= 3; stage++)
        for (int v = 0; v < LAYOUT_VARIANTS; v++) {
            trainer run = want;
            run.layout.stage = stage;
            if ((v + stage + share) % 4 != 0 || !layout_vary(&run, &layout_variants[v])) continue;
            errors its = errors_of(&run);
            layout_assert_same(&want, &run, layout_variants[v].name);
            assert_same_errors(&all, &its);
        }
    share++;
}

static void in_all_layouts(void **state)
{
    (void)state;
    check_errors(2, ZR_F32, 1, ZR_I4X128);
    check_errors(3, ZR_BF16, 3, ZR_I8X256);
    check_errors(4, ZR_F16, 1, ZR_E5M2X128);
    check_errors(2, ZR_F32, 1, ZR_H4X128);
    check_errors(2, ZR_BF16, 2, ZR_E4M3X128);
}

/* Check both levels of errors at all stages, in groups and in orders of micro-batches. Groups of one rank have the bits
 * of one level. */
static void in_two_levels(void **state)
{
    (void)state;
    for (int64_t accum = 1; accum <= 2; accum++) {
        trainer one = feeding(4, ZR_BF16, accum, ZR_I4X128), want = one, single = one;
        errors first = errors_of(&one);
        want.layout.host_ranks = 2;
        want.layout.hierarchical = true;
        errors all = errors_of(&want);
        assert_true(differ(&one, &want) && all.n[ZR_ERROR_WHOLE] > 1000 && all.n[ZR_ERROR_PARTIAL] > 1000);
        single.layout.shard_ranks = 1;
        errors alone = errors_of(&single);
        layout_assert_same(&one, &single, "groups of one rank");
        assert_same_errors(&first, &alone);
        for (int way = 0; way < 6; way++) {
            trainer run = want;
            run.layout.stage = way < 3 ? way : 3;
            run.layout.hierarchical = way != 4;
            run.layout.shard_ranks = way == 4 ? 2 : 0;
            run.layout.hpz_ranks = way == 5 ? 2 : 0;
            run.layout.states = way % 2 ? ZR_STATES_LEAN : ZR_STATES_PAPER;
            run.layout.reduce_bucket_elems = run.layout.gather_bucket_elems = 600 * way + 1;
            run.layout.accum_order = way >= 2 && accum > 1 ? ZR_ACCUM_LAYER : ZR_ACCUM_MICRO;
            run.layout.save = (zr_save)(way % 3);
            errors its = errors_of(&run);
            layout_assert_same(&want, &run, "two levels");
            assert_same_errors(&all, &its);
        }
    }
}

/* Check errors where the sums are off the device, and that they have no loss scale: a power of two changes no bit. */
static void off_the_device(void **state)
{
    (void)state;
    trainer want = feeding(2, ZR_F32, 2, ZR_I4X128);
    errors all = errors_of(&want);
    for (int way = 0; way < 4; way++) {
        trainer run = want;
        run.layout.stage = way;
        run.layout.home.optim = way % 2 ? ZR_SPACE_DISK : ZR_SPACE_HOST;
        run.layout.home.grad = ZR_SPACE_HOST;
        run.layout.home.bucket_elems = 2048;
        run.layout.save = way == 3 ? ZR_SAVE_IN_PLACE : ZR_SAVE_NONE;
        run.scaler.scale = way < 2 ? 0 : 4096;
        errors its = errors_of(&run);
        layout_assert_same(&want, &run, "off the device");
        assert_same_errors(&all, &its);
    }
}

static void on_tensor_ranks(void **state)
{
    (void)state;
    trainer want = feeding(2, ZR_F32, 1, ZR_I4X128);
    want.layout.tensor = 3;
    want.layout.seq = 15;
    errors all = errors_of(&want);
    assert_true(all.n[ZR_ERROR_WHOLE] > 1000);
    for (want.layout.stage = 1; want.layout.stage <= 3; want.layout.stage++) {
        trainer run = want;
        run.layout.save = (zr_save)(want.layout.stage - 1);
        errors its = errors_of(&run);
        layout_assert_same(&want, &run, "tensor-parallel ranks");
        assert_same_errors(&all, &its);
    }
}

/* ---- cleared errors ----------------------------------------------------------------------------- */

/* Check that errors are cleared once in error_steps steps: in every step, nothing is added. */
static void cleared_in_time(void **state)
{
    (void)state;
    trainer plain = feeding(2, ZR_F32, 1, ZR_I4X128), each = plain, second = plain, never = plain;
    plain.layout.error_steps = 0;
    trainer_run(&plain);
    each.layout.error_steps = 1;
    trainer_run(&each);
    layout_assert_same(&plain, &each, "cleared in each step");
    second.layout.error_steps = 2;
    trainer_run(&second);
    trainer_run(&never);
    assert_true(second.norm[1] == never.norm[1] && second.norm[1] != plain.norm[1]);
    assert_true(second.loss[2] == never.loss[2] && second.norm[2] != never.norm[2]);
}

static zr_device_ops spoilt;
static zr_status (*cast_of)(zr_device *device, void *out, zr_dtype out_dtype, const void *in, zr_dtype dtype, int64_t n,
                            const zr_casting *casting);
static _Atomic int devices, casts, bad_cast, had_errors;

/* Make one element of one gradient infinite before it is cast to records. Count casts to which errors are added. */
static zr_status spoil(zr_device *device, void *out, zr_dtype out_dtype, const void *in, zr_dtype dtype, int64_t n,
                       const zr_casting *casting)
{
    if (zr_dtype_is_record(out_dtype) && casting && casting->feedback) {
        if (atomic_fetch_add(&casts, 1) == bad_cast) ((float *)(uintptr_t)in)[5] = INFINITY;
        had_errors += !casting->feedback->anew;
    }
    return cast_of(device, out, out_dtype, in, dtype, n, casting);
}

/* Let one of two ranks spoil a gradient. */
static void spoil_one(trainer *run, zr_device *device)
{
    (void)run;
    if (atomic_fetch_add(&devices, 1) % 2 == 0) return;
    spoilt = *device->ops;
    cast_of = spoilt.cast;
    spoilt.cast = spoil;
    device->ops = &spoilt;
}

/* Check that a step that is skipped, since one gradient of one rank is not finite, clears the errors of all ranks, and
 * that the steps after it go on with finite errors. */
static void cleared_by_skipped_steps(void **state)
{
    (void)state;
    const int blocks = 4; /* casts of a rank in a step */
    for (int stage = 0; stage <= 3; stage++)
        for (int bad = 1; bad < 4; bad++) {
            trainer run = feeding(2, ZR_F32, 1, ZR_I4X128);
            run.layout.stage = stage;
            run.layout.save = (zr_save)((stage + bad) % 3); /* step 3 saves the errors that step 2 has left */
            run.tune = spoil_one;
            casts = had_errors = 0;
            bad_cast = blocks * bad + 1;
            errors all = errors_of(&run);
            assert_int_equal(casts, 4 * blocks);
            for (int i = 0; i < 4; i++) assert_int_equal(run.skipped[i], i == bad);
            assert_int_equal(had_errors, blocks * (bad < 3 ? 2 : 3)); /* not in step 0, nor after a skipped one */
            assert_true(bad == 3 ? all.n[ZR_ERROR_WHOLE] == 0 : all.n[ZR_ERROR_WHOLE] > 1000);
            assert_true(isfinite(run.loss[3]));
        }
}

/* ---- filled errors ------------------------------------------------------------------------------ */

enum { ELEMS = 1 << 17 };
static float kept[ZR_ERROR_LEVELS][ELEMS];
static int64_t width; /* number of errors of an element */

static zr_status keep(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    ZR_CHECK(width * param->first + first + n <= ELEMS, ZR_ERR_INTERNAL, "the model is larger than this test expects");
    memcpy((float *)arg + width * param->first + first, in, sizeof *in * (size_t)n);
    return ZR_OK;
}

static zr_status give(void *arg, const zr_param_info *param, int64_t first, int64_t n, float *out)
{
    memcpy(out, (const float *)arg + width * param->first + first, sizeof *out * (size_t)n);
    return ZR_OK;
}

static zr_status keep_all(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)comm;
    for (int i = 0; i < ZR_ERROR_LEVELS; i++) ZR_TRY(zr_engine_read(engine, ZR_STATE_ERROR + i, keep, kept[i]));
    return sum_errors(run, engine, comm);
}

static zr_status give_all(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)run, (void)comm;
    for (int i = 0; i < ZR_ERROR_LEVELS; i++) ZR_TRY(zr_engine_fill(engine, ZR_STATE_ERROR + i, give, kept[i]));
    return ZR_OK;
}

/* Check that errors which are read have the same bits after they were filled at another stage, also on tensor-parallel
 * ranks. test_cli_records.sh checks that a resumed run goes on with them. */
static void filled(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        trainer run = feeding(4, ZR_BF16, 1, ZR_I4X128);
        errors want = {0}, got = {0};
        if (way > 0) run.layout.host_ranks = way == 1 ? 2 : 6;
        run.layout.hierarchical = way > 0;
        if (way == 2) run.layout.tensor = 3, run.layout.seq = 15;
        width = 4;
        run.arg = &want;
        run.after = keep_all;
        trainer_run(&run);
        assert_true(want.n[ZR_ERROR_WHOLE] > 1000 && (want.n[ZR_ERROR_PARTIAL] > 1000) == (way > 0));
        run.layout.stage = 3;
        run.steps = 0;
        run.arg = &got;
        run.before = give_all;
        run.after = sum_errors;
        trainer_run(&run);
        assert_same_errors(&want, &got);
    }
}

/* ---- borders ------------------------------------------------------------------------------------ */

static void refused(void **state)
{
    (void)state;
    trainer run = feeding(2, ZR_F32, 1, ZR_I4X128);
    run.layout.states = ZR_STATES_LEAN;
    run.layout.two_pass = true;
    assert_int_equal(zr_comm_threads_run(2, trainer_rank, &run), ZR_ERR_UNSUPPORTED);
    assert_non_null(strstr(zr_error_message(), "two_pass"));
    run = feeding(2, ZR_F32, 1, ZR_H4X128);
    assert_int_equal(zr_comm_threads_run(2, trainer_rank, &run), ZR_ERR_UNSUPPORTED);
    assert_non_null(strstr(zr_error_message(), "int4_hadamard: transformer.h.0.attn.c_attn.weight has 1323 elements"));
    run = feeding(2, ZR_F32, 1, ZR_F32);
    assert_int_equal(zr_comm_threads_run(2, trainer_rank, &run), ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "zero_quantized_gradients"));
    run = feeding(2, ZR_F32, 1, ZR_I4X128);
    run.layout.error_beta = 1;
    assert_int_equal(zr_comm_threads_run(2, trainer_rank, &run), ZR_ERR_ARG);
    run = feeding(2, ZR_F32, 1, ZR_I4X128);
    run.layout.error_steps = 0;
    run.after = sum_errors;
    assert_int_equal(zr_comm_threads_run(2, trainer_rank, &run), ZR_ERR_ARG);
    assert_null(strstr(zr_error_message(), "errors of gradients"));
}

/* One rank sums nothing, so it casts nothing. */
static void on_one_rank(void **state)
{
    (void)state;
    trainer run = feeding(1, ZR_F32, 2, ZR_I4X128), plain = run;
    errors all = errors_of(&run);
    plain.layout.error_steps = 0;
    trainer_run(&plain);
    layout_assert_same(&plain, &run, "one rank");
    assert_true(all.n[ZR_ERROR_WHOLE] == 0 && run.planned.states_bytes == plain.planned.states_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_all_layouts),  cmocka_unit_test(in_two_levels),
        cmocka_unit_test(off_the_device),  cmocka_unit_test(on_tensor_ranks),
        cmocka_unit_test(cleared_in_time), cmocka_unit_test(cleared_by_skipped_steps),
        cmocka_unit_test(filled),          cmocka_unit_test(refused),
        cmocka_unit_test(on_one_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
