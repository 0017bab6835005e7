//TEST timeout=240 tsan=1
/* Quantised exchanges (zr_layout.weight_records, grad_records). Ops compute with parameters that were cast to records
 * and back, or to which differences in records were added, the same at every stage, in every layout and on any number
 * of ranks. Gradients are the sums of what each rank has cast; they have the same bits at one number of ranks, and one
 * number of ranks of a host. */
#include "engine/layout_variants.h"
#include "engine/walk.h"

#include <math.h>
#include <stdatomic.h>

static trainer records(int ranks, zr_dtype dtype, int64_t accum, zr_dtype weights, zr_dtype grads)
{
    trainer run = layout_trainer(ranks, dtype, accum, 0.5);
    run.layout.weight_records = weights;
    run.layout.grad_records = grads;
    run.layout.reduce_once = zr_dtype_is_record(grads) && accum > 1;
    return run;
}

/* Return whether two runs have other weights and another last loss. */
static bool differ(const trainer *a, const trainer *b)
{
    return a->weights != b->weights && a->loss[a->steps - 1] != b->loss[b->steps - 1];
}

/* ---- parameters -------------------------------------------------------------------------------- */

/* Check that all stages and layouts have the same bits, and others than without records. */
static void check_weights(int ranks, zr_dtype dtype, int64_t accum, zr_dtype weights)
{
    static int share;
    trainer want = records(ranks, dtype, accum, weights, ZR_F32), plain = want;
    trainer_run(&want);
    plain.layout.weight_records = ZR_F32;
    trainer_run(&plain);
    assert_true(differ(&want, &plain) && fabs(want.loss[2] - plain.loss[2]) < 0.05 * plain.loss[2]);
    layout_check(&want, share, 3);
    share++;
}

static void weights_in_all_layouts(void **state)
{
    (void)state;
    check_weights(1, ZR_F32, 1, ZR_I8X128);
    check_weights(2, ZR_BF16, 2, ZR_I8X256);
    check_weights(4, ZR_F16, 1, ZR_I4X128);
    check_weights(3, ZR_F32, 2, ZR_E4M3X128);
}

/* Check that parameters pass alike in groups, in two levels and through a second partition. */
static void weights_in_groups(void **state)
{
    (void)state;
    trainer want = records(4, ZR_BF16, 2, ZR_I8X128, ZR_F32);
    trainer_run(&want);
    for (int way = 0; way < 7; way++) {
        trainer run = want;
        run.layout.stage = way < 3 ? way : 3;
        run.layout.host_ranks = 2;
        run.layout.hierarchical = way % 2 == 0;
        run.layout.shard_ranks = way == 2 || way == 3 ? 2 : 0;
        run.layout.hpz_ranks = way == 4 || way == 5 ? 2 : 0;
        run.layout.accum_order = way >= 5 ? ZR_ACCUM_LAYER : ZR_ACCUM_MICRO;
        trainer_run(&run);
        layout_assert_same(&want, &run, "groups");
    }
}

/* Check that with sums that are the same for any number of ranks, all results are. */
static void weights_on_any_ranks(void **state)
{
    (void)state;
    static const zr_dtype type[] = {ZR_F32, ZR_BF16};
    for (int d = 0; d < 2; d++) {
        trainer want = {0};
        for (int ranks = 1; ranks <= 8; ranks *= 2)
            for (int stage = ranks == 1 ? 0 : 3 - ranks / 4; stage <= 3; stage += 3 - d) {
                trainer run = records(ranks, type[d], 8 / ranks, ZR_I8X128, ZR_F32);
                run.layout.rank_free_sums = true;
                run.layout.batch = 1;
                run.layout.stage = stage;
                trainer_run(&run);
                if (want.steps == 0) want = run;
                layout_assert_same(&want, &run, "any number of ranks");
            }
    }
}

/* The parameters of a model, in the order of zr_param_info.first. */
enum { PARAMS_MOST = 60000 };
static float value[PARAMS_MOST];

static zr_status keep(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    (void)arg;
    memcpy(value + param->first + first, in, sizeof *in * (size_t)n);
    return ZR_OK;
}

static zr_status give(void *arg, const zr_param_info *param, int64_t first, int64_t n, float *out)
{
    (void)arg;
    memcpy(out, value + param->first + first, sizeof *out * (size_t)n);
    return ZR_OK;
}

/* Whether a parameter is a matrix of a block, which alone passes as records. */
static bool is_quantised(const zr_param_info *param)
{
    return strstr(param->name, ".h.") && param->shape.ndim > 1;
}

/* Cast x (n elements of one parameter) to records and back. */
static void through_records(zr_dtype type, float *x, int64_t n)
{
    const zr_device_config config = {.threads = 1};
    zr_device *device = NULL;
    assert_int_equal(zr_device_create_cpu(&config, &device), ZR_OK);
    char *made = malloc((size_t)zr_dtype_span(type, n));
    assert_int_equal(device->ops->cast(device, made, type, x, ZR_F32, n, NULL), ZR_OK);
    assert_int_equal(device->ops->cast(device, x, ZR_F32, made, type, n, NULL), ZR_OK);
    free(made);
    zr_device_destroy(&device);
}

static zr_status keep_params(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)run, (void)comm;
    return zr_engine_read(engine, ZR_STATE_PARAM, keep, NULL);
}

/* Replace the values by what has passed as records. */
static zr_status pass_params(trainer *run, zr_engine *engine, zr_comm *comm)
{
    const zr_graph *g = engine->plan->graph[ZR_SCHEDULE_TRAIN];
    ZR_TRY(keep_params(run, engine, comm));
    for (int32_t p = 0; p < zr_graph_params(g); p++) {
        const zr_param_info *param = zr_graph_param(g, p);
        const int64_t n = zr_shape_elems(&param->shape);
        if (is_quantised(param)) through_records(ZR_I8X128, value + param->first, n);
    }
    return ZR_OK;
}

/* Check that the first loss is that of a run whose parameters have passed as records before, in blocks of each matrix
 * from its first element. */
static void weights_are_those_of_records(void **state)
{
    (void)state;
    trainer cast = records(1, ZR_F32, 1, ZR_F32, ZR_F32);
    cast.steps = 0;
    cast.before = pass_params;
    trainer_run(&cast);
    trainer want = records(2, ZR_BF16, 1, ZR_F32, ZR_F32), got = want;
    want.fill = give;
    want.steps = got.steps = 1;
    trainer_run(&want);
    got.layout.weight_records = ZR_I8X128;
    for (got.layout.stage = 0; got.layout.stage <= 3; got.layout.stage++) {
        trainer_run(&got);
        assert_true(got.loss[0] == want.loss[0]);
    }
}

/* ---- differences of parameters ------------------------------------------------------------------- */

static trainer differences(int ranks, zr_dtype dtype, int64_t accum, zr_dtype weights)
{
    trainer run = records(ranks, dtype, accum, weights, ZR_F32);
    run.layout.weight_differences = true;
    return run;
}

/* Check that all stages and layouts with whole parameters have the same bits, which begin with those of a run without
 * records and then stay nearer to them than those of whole parameters in records. */
static void check_differences(int ranks, zr_dtype dtype, int64_t accum, zr_dtype weights)
{
    static int share;
    trainer want = differences(ranks, dtype, accum, weights), plain = want, whole = want;
    trainer_run(&want);
    plain.layout.weight_records = ZR_F32;
    plain.layout.weight_differences = whole.layout.weight_differences = false;
    trainer_run(&plain);
    trainer_run(&whole);
    assert_true(want.loss[0] == plain.loss[0] && whole.loss[0] != plain.loss[0] && differ(&want, &plain));
    assert_true(fabs(want.norm[2] - plain.norm[2]) < fabs(whole.norm[2] - plain.norm[2]));
    layout_check(&want, share++, 3);
}

static void differences_in_all_layouts(void **state)
{
    (void)state;
    check_differences(1, ZR_F32, 1, ZR_I4X128);
    check_differences(2, ZR_BF16, 2, ZR_I4X256);
    check_differences(4, ZR_F16, 1, ZR_H4X128);
    check_differences(3, ZR_F32, 2, ZR_I4X128);
}

/* Check that differences pass alike in groups, in two levels, and rounded at random. */
static void differences_in_groups(void **state)
{
    (void)state;
    for (int random = 0; random < 2; random++) {
        trainer want = differences(4, ZR_BF16, 2, ZR_I4X128);
        want.layout.stochastic = random;
        trainer_run(&want);
        for (int way = 0; way < 6; way++) {
            trainer run = want;
            run.layout.stage = way % 3;
            run.layout.host_ranks = 2;
            run.layout.hierarchical = way < 3;
            run.layout.shard_ranks = way > 3 ? 2 : 0;
            run.layout.accum_order = way == 4 ? ZR_ACCUM_LAYER : ZR_ACCUM_MICRO;
            run.layout.home.optim = way % 2 ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
            trainer_run(&run);
            layout_assert_same(&want, &run, "groups");
        }
    }
}

static void differences_on_any_ranks(void **state)
{
    (void)state;
    trainer want = {0};
    for (int ranks = 1; ranks <= 8; ranks *= 2) {
        trainer run = differences(ranks, ZR_BF16, 8 / ranks, ZR_I4X128);
        run.layout.rank_free_sums = true;
        run.layout.batch = 1;
        run.layout.stage = ranks % 3;
        trainer_run(&run);
        if (want.steps == 0) want = run;
        layout_assert_same(&want, &run, "any number of ranks");
    }
}

static float sent_before[PARAMS_MOST], sent[PARAMS_MOST];

static zr_status keep_in(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    memcpy((float *)arg + param->first + first, in, sizeof *in * (size_t)n);
    return ZR_OK;
}

/* Check that all ranks have the same parameters, to the bit. */
static zr_status check_replicas(zr_engine *engine, zr_comm *comm)
{
    for (int32_t i = 0; i < engine->plan->n_units; i++) {
        const zr_state *param = &engine->plan->unit[i].param;
        const zr_buffer *buffer = &engine->plan->persistent[param->buffer];
        const unsigned char *at = (const unsigned char *)zr__buffer(engine, buffer);
        uint64_t hash = 0;
        for (int64_t b = 0; b < zr_dtype_span(param->dtype, param->range.count); b++)
            hash = (hash ^ at[b]) * 0x100000001b3u;
        ZR_TRY(zr__comm_same(comm, "the parameters of a unit", hash));
    }
    return ZR_OK;
}

static zr_status stop_now(void *arg)
{
    (void)arg;
    return ZR_FAIL(ZR_ERR_STOPPED, "asked to stop");
}

/* Keep the parameters as they are sent before and behind a further step, and its masters. */
static zr_status step_on(trainer *run, zr_engine *engine, zr_comm *comm)
{
    const zr_step_args args = {.step = run->steps, .lr = run->lr, .batch = trainer_batch, .arg = run};
    zr_step_result result;
    ZR_TRY(zr_engine_read(engine, ZR_STATE_SENT, keep_in, sent_before));
    ZR_TRY(zr_engine_step(engine, &args, &result));
    ZR_CHECK(zr_engine_read(engine, ZR_STATE_SENT, keep_in, sent) == ZR_ERR_STATE, ZR_ERR_INTERNAL,
             "parameters are read that are not up to date");
    ZR_TRY(zr_engine_flush(engine));
    ZR_TRY(zr_engine_read(engine, ZR_STATE_SENT, keep_in, sent));
    ZR_TRY(zr_engine_read(engine, ZR_STATE_PARAM, keep, NULL));
    return check_replicas(engine, comm);
}

/* Check that after many steps a parameter is still within half a code of the last difference of its master, and a
 * rounding to its type. */
static void differences_do_not_add_up(void **state)
{
    (void)state;
    for (int narrow = 0; narrow < 2; narrow++) {
        trainer run = differences(4, narrow ? ZR_BF16 : ZR_F32, 1, ZR_I4X128);
        run.steps = TRAINER_STEPS;
        run.layout.stage = 2 - narrow;
        run.after = step_on;
        run.clip = 0;
        run.layout.norm_first = false;
        trainer_run(&run);
        zr_model model = trainer_model(&run);
        zr_device *device = NULL;
        zr_plan *plan = NULL;
        assert_int_equal(zr_device_create_cpu(&(zr_device_config){.threads = 1}, &device), ZR_OK);
        assert_int_equal(zr_plan_create(&model, &run.layout, &device->profile, &plan), ZR_OK);
        const zr_graph *g = plan->graph[ZR_SCHEDULE_TRAIN];
        int blocks = 0;
        for (int32_t p = 0; p < zr_graph_params(g); p++) {
            const zr_param_info *param = zr_graph_param(g, p);
            const int64_t n = zr_shape_elems(&param->shape);
            for (int64_t b = 0; b < n && is_quantised(param); b += 128, blocks++) {
                const int64_t first = param->first + b, end = param->first + (b + 128 < n ? b + 128 : n);
                float most = 0;
                for (int64_t i = first; i < end; i++) most = fmaxf(most, fabsf(value[i] - sent_before[i]));
                for (int64_t i = first; i < end; i++) {
                    const float half = most / 7 * (1 + 0x1p-8f) / 2;
                    const float rounded = fabsf(value[i]) * (narrow ? 0x1p-8f : 0x1p-23f) + half * 0x1p-8f;
                    if (fabsf(value[i] - sent[i]) > half + rounded)
                        fail_msg("%s, element %lld: %g, its master is %g, its block's difference %g", param->name,
                                 (long long)(i - param->first), (double)sent[i], (double)value[i], (double)most);
                }
            }
        }
        assert_true(blocks > 100);
        zr_plan_destroy(&plan);
        zr_device_destroy(&device);
    }
}

static zr_status flush(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)run, (void)comm;
    return zr_engine_flush(engine);
}

/* Begin a step that is stopped behind its first micro-batch. */
static zr_status stop_a_step(trainer *run, zr_engine *engine, zr_comm *comm)
{
    const zr_step_args args = {.step = 1, .lr = run->lr, .batch = trainer_batch, .arg = run, .stop = stop_now};
    zr_step_result result;
    (void)comm;
    const zr_status st = zr_engine_step(engine, &args, &result);
    ZR_CHECK(st == ZR_ERR_STOPPED, ZR_ERR_INTERNAL, "a step that should stop returns %d", st);
    return ZR_OK;
}

/* Check that a difference is sent once a step, also if an evaluation has asked for it or the step is done again. */
static void one_difference_a_step(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 2; stage++) {
        trainer want = differences(2, ZR_BF16, 2, ZR_I4X128), flushed, stopped;
        want.layout.stage = stage;
        flushed = stopped = want;
        flushed.after_first = flush;
        stopped.after_first = stop_a_step;
        trainer_run(&want);
        trainer_run(&flushed);
        layout_assert_same(&want, &flushed, "a flush");
        stopped.layout.save = stage > 1 ? ZR_SAVE_IN_PLACE : ZR_SAVE_COPY;
        stopped.layout.home.optim = stage == 2 ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
        trainer_run(&stopped);
        layout_assert_same(&want, &stopped, "a stopped step");
    }
}

/* ---- frozen parameters -------------------------------------------------------------------------- */

static zr_status pass_frozen(trainer *run, zr_engine *engine, zr_comm *comm)
{
    const zr_graph *g = engine->plan->graph[ZR_SCHEDULE_TRAIN];
    ZR_TRY(keep_params(run, engine, comm));
    for (int32_t p = 0; p < zr_graph_params(g); p++) {
        const zr_param_info *param = zr_graph_param(g, p);
        if (is_quantised(param) && param->frozen)
            through_records(ZR_I8X128, value + param->first, zr_shape_elems(&param->shape));
    }
    return ZR_OK;
}

/* Check that frozen matrices of blocks, which stage 3 stores as records, give the bits of a run whose parameters have
 * these values, in all layouts and groups, and that they take less memory. */
static void frozen_records(void **state)
{
    (void)state;
    static const zr_dtype type[] = {ZR_F32, ZR_BF16};
    for (int way = 0; way < 6; way++) {
        trainer want = layout_trainer(way % 3 == 2 ? 4 : 1 + way % 3, type[way % 2], 2, 0.5);
        want.layout.rank_free_sums = true; /* norms then do not depend on where units end */
        zr_model model = zr_gpt2(&want.config);
        model.frozen = "h.[012].*\nwpe.*";
        want.model = &model;
        trainer cast = want, got = want;
        cast.layout.ranks = 1;
        cast.layout.dtype = cast.layout.wire_dtype = ZR_F32;
        cast.steps = 0;
        cast.before = pass_frozen;
        trainer_run(&cast);
        want.fill = give;
        trainer_run(&want);
        got.layout.stage = 3;
        got.layout.frozen_records = ZR_I8X128;
        for (int v = way; v < LAYOUT_VARIANTS; v += 5) {
            trainer run = got;
            if (!layout_vary(&run, &layout_variants[v])) continue;
            run.layout.host_ranks = run.layout.hpz_ranks = way == 2 ? 2 : 0;
            run.layout.shard_ranks = way == 5 ? 2 : 0;
            trainer_run(&run);
            /* frozen parameters in bf16 are rounded once more where they are not records */
            if (type[way % 2] == ZR_BF16) run.weights = want.weights;
            layout_assert_same(&want, &run, layout_variants[v].name);
        }
        trainer plain = got;
        plain.layout.frozen_records = ZR_F32;
        trainer_run(&plain);
        trainer_run(&got);
        assert_true(differ(&plain, &got) && got.planned.states_bytes < plain.planned.states_bytes);
    }
}

/* ---- gradients --------------------------------------------------------------------------------- */

static void check_grads(int ranks, zr_dtype dtype, int64_t accum, zr_dtype grads)
{
    static int share;
    trainer want = records(ranks, dtype, accum, ZR_F32, grads), plain = want;
    trainer_run(&want);
    plain.layout.grad_records = ZR_F32;
    trainer_run(&plain);
    assert_true(want.loss[0] == plain.loss[0] && differ(&want, &plain));
    assert_true(fabs(want.norm[0] - plain.norm[0]) < 0.2 * plain.norm[0]);
    layout_check(&want, share++, 3);
}

static void gradients_in_all_layouts(void **state)
{
    (void)state;
    check_grads(2, ZR_F32, 1, ZR_I4X128);
    check_grads(3, ZR_BF16, 3, ZR_I8X128);
    check_grads(4, ZR_F16, 1, ZR_E5M2X256);
}

/* Check that gradients in two levels have the same bits at all stages, and others than in one level. */
static void gradients_in_two_levels(void **state)
{
    (void)state;
    for (int64_t accum = 1; accum <= 2; accum++) {
        trainer one = records(4, ZR_BF16, accum, ZR_I8X128, ZR_I4X128), want = one;
        trainer_run(&one);
        want.layout.host_ranks = 2;
        want.layout.hierarchical = true;
        trainer_run(&want);
        assert_true(differ(&one, &want));
        layout_check(&one, 1, 5);
        for (int way = 0; way < 6; way++) {
            trainer run = want;
            run.layout.stage = way < 3 ? way : 3;
            run.layout.hierarchical = way != 4;
            run.layout.shard_ranks = way == 4 ? 2 : 0;
            run.layout.hpz_ranks = way == 5 ? 2 : 0;
            run.layout.states = way % 2 ? ZR_STATES_LEAN : ZR_STATES_PAPER;
            run.layout.reduce_bucket_elems = run.layout.gather_bucket_elems = 600 * way + 1;
            run.layout.accum_order = way >= 2 && accum > 1 ? ZR_ACCUM_LAYER : ZR_ACCUM_MICRO;
            trainer_run(&run);
            layout_assert_same(&want, &run, "two levels");
        }
    }
}

static zr_status keep_grads(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)run, (void)comm;
    return zr_engine_read(engine, ZR_STATE_GRAD, keep, NULL);
}

/* Return token t of a row, or of a row two rows on. */
static int32_t later_token(void *arg, int64_t step, int64_t row, int64_t t)
{
    const trainer plain = {.config.vocab_size = 131, .layout.seq = 9};
    return trainer_token(&plain, step, row + *(const int64_t *)arg, t);
}

/* Check that the gradient of two ranks is the mean of what each alone has cast to records. */
static void gradients_are_those_of_records(void **state)
{
    (void)state;
    static float mine[2][PARAMS_MOST];
    int64_t first_row = 0;
    trainer run = records(1, ZR_F32, 1, ZR_F32, ZR_F32);
    run.config.embd_pdrop = run.config.resid_pdrop = run.config.attn_pdrop = 0;
    run.layout.batch = 2;
    run.layout.seq = 9;
    run.steps = 1;
    run.clip = 0;
    run.layout.norm_first = false;
    run.after = keep_grads;
    run.token = later_token;
    run.token_arg = &first_row;
    for (int rank = 0; rank < 2; rank++, first_row += 2) {
        trainer one = run;
        trainer_run(&one);
        memcpy(mine[rank], value, sizeof value);
    }
    first_row = 0;
    run.layout.ranks = 2;
    run.layout.grad_records = ZR_I4X128;
    trainer_run(&run);
    zr_layout layout = run.layout;
    zr_model model = trainer_model(&run);
    zr_device *device = NULL;
    zr_plan *plan = NULL;
    assert_int_equal(zr_device_create_cpu(&(zr_device_config){.threads = 1}, &device), ZR_OK);
    assert_int_equal(zr_plan_create(&model, &layout, &device->profile, &plan), ZR_OK);
    const zr_graph *g = plan->graph[ZR_SCHEDULE_TRAIN];
    int quantised = 0;
    for (int32_t p = 0; p < zr_graph_params(g); p++) {
        const zr_param_info *param = zr_graph_param(g, p);
        const int64_t n = zr_shape_elems(&param->shape);
        quantised += is_quantised(param);
        for (int rank = 0; rank < 2 && is_quantised(param); rank++)
            through_records(ZR_I4X128, mine[rank] + param->first, n);
        for (int64_t i = param->first; i < param->first + n; i++) {
            const float want = mine[0][i] / 2 + mine[1][i] / 2;
            if (value[i] != want)
                fail_msg("%s, element %lld: %.9g, wanted %.9g", param->name, (long long)(i - param->first),
                         (double)value[i], (double)want);
        }
    }
    assert_int_equal(quantised, 4 * run.config.n_layer);
    zr_plan_destroy(&plan);
    zr_device_destroy(&device);
}

static zr_device_ops spoilt;
static zr_status (*cast_of)(zr_device *device, void *out, zr_dtype out_dtype, const void *in, zr_dtype dtype, int64_t n,
                            const zr_casting *casting);
static _Atomic int devices;

/* Make one element of a gradient infinite before it is cast to records. */
static zr_status spoil(zr_device *device, void *out, zr_dtype out_dtype, const void *in, zr_dtype dtype, int64_t n,
                       const zr_casting *casting)
{
    const bool gradient = zr_dtype_is_record(out_dtype) && !(casting && casting->added);
    if (gradient) ((float *)(uintptr_t)in)[n / 3] = INFINITY;
    return cast_of(device, out, out_dtype, in, dtype, n, casting);
}

/* Let one of two ranks spoil its gradients. */
static void spoil_one(trainer *run, zr_device *device)
{
    (void)run;
    if (atomic_fetch_add(&devices, 1) % 2 == 0) return;
    spoilt = *device->ops;
    cast_of = spoilt.cast;
    spoilt.cast = spoil;
    device->ops = &spoilt;
}

/* Check that a gradient that is not finite on one rank skips the step on all ranks, and that no parameter changes. */
static void not_finite(void **state)
{
    (void)state;
    trainer before = records(2, ZR_F32, 1, ZR_I8X128, ZR_I4X128);
    before.steps = 0;
    trainer_run(&before);
    for (int stage = 0; stage <= 3; stage++) {
        trainer run = before;
        run.layout.stage = stage;
        run.layout.weight_records = ZR_F32; /* only gradients are cast to records */
        run.tune = spoil_one;
        run.steps = 2;
        trainer_run(&run);
        assert_true(run.skipped[0] && run.skipped[1] && run.bad_param[0] >= 0 && isfinite(run.loss[1]));
        assert_true(run.weights == before.weights);
    }
}

/* Check that a skipped step is followed by another difference to the same masters, at every stage. */
static void not_finite_differences(void **state)
{
    (void)state;
    double loss = 0;
    for (int stage = 0; stage <= 2; stage++) {
        trainer run = records(2, ZR_BF16, 1, ZR_I4X128, ZR_I4X128);
        run.layout.weight_differences = true;
        run.layout.stage = stage;
        run.tune = spoil_one;
        run.steps = 3;
        trainer_run(&run);
        assert_true(run.skipped[0] && run.skipped[1] && run.skipped[2] && isfinite(run.loss[2]));
        assert_true(loss == 0 || run.loss[2] == loss);
        loss = run.loss[2];
    }
}

/* Check that values which are rounded at random have the same bits in all layouts, through a second partition, and at
 * any number of ranks if only parameters are. */
static void rounded_at_random(void **state)
{
    (void)state;
    trainer want = records(4, ZR_BF16, 1, ZR_I8X128, ZR_I4X128), nearest = want;
    trainer_run(&nearest);
    want.layout.stochastic = true;
    trainer_run(&want);
    assert_true(differ(&want, &nearest));
    layout_check(&want, 0, 7);
    trainer one = records(1, ZR_F32, 2, ZR_I4X128, ZR_F32);
    one.layout.stochastic = one.layout.rank_free_sums = true;
    one.layout.batch = 1;
    trainer two = one;
    trainer_run(&one);
    two.layout.ranks = 2;
    two.layout.accum = 1;
    for (two.layout.stage = 0; two.layout.stage <= 3; two.layout.stage++) {
        trainer_run(&two);
        layout_assert_same(&one, &two, "two ranks");
    }
}

/* ---- borders ----------------------------------------------------------------------------------- */

static void refused(void **state)
{
    (void)state;
    trainer run = records(2, ZR_F32, 2, ZR_F32, ZR_I4X128);
    run.layout.rank_free_sums = true;
    run.layout.reduce_once = false;
    assert_int_equal(zr_comm_threads_run(2, trainer_rank, &run), ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "zero_quantized_gradients"));
    run.layout.rank_free_sums = false;
    assert_int_equal(zr_comm_threads_run(2, trainer_rank, &run), ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "gradient_reduction step"));
    run.layout.reduce_once = true;
    run.layout.reduce = ZR_REDUCE_NCCL;
    assert_int_equal(zr_comm_threads_run(2, trainer_rank, &run), ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "nccl"));
    run.layout.reduce = ZR_REDUCE_TO_SHARDS;
    run.layout.weight_differences = true;
    assert_int_equal(zr_comm_threads_run(2, trainer_rank, &run), ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "without zero_quantized_weights"));
    run.layout.weight_records = ZR_I4X128;
    run.layout.stage = 3;
    assert_int_equal(zr_comm_threads_run(2, trainer_rank, &run), ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "at zero_optimization.stage 3"));
    run.layout.weight_records = ZR_I32;
    assert_int_equal(zr_comm_threads_run(2, trainer_rank, &run), ZR_ERR_ARG);
    assert_non_null(strstr(zr_error_message(), "I32"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_in_all_layouts),
        cmocka_unit_test(weights_in_groups),
        cmocka_unit_test(weights_on_any_ranks),
        cmocka_unit_test(weights_are_those_of_records),
        cmocka_unit_test(differences_in_all_layouts),
        cmocka_unit_test(differences_in_groups),
        cmocka_unit_test(differences_on_any_ranks),
        cmocka_unit_test(differences_do_not_add_up),
        cmocka_unit_test(one_difference_a_step),
        cmocka_unit_test(frozen_records),
        cmocka_unit_test(gradients_in_all_layouts),
        cmocka_unit_test(gradients_in_two_levels),
        cmocka_unit_test(gradients_are_those_of_records),
        cmocka_unit_test(rounded_at_random),
        cmocka_unit_test(not_finite),
        cmocka_unit_test(not_finite_differences),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
