//TEST timeout=300 long=more seeds=200
//STAND_IN
/* Training on GPUs, on the stand-in of tests/cuda: the same bits in all layouts and with any number of ranks, the
 * losses of the processor, and exactly the planned memory. */
#include "device/device.h"
#include "engine/engine.h"
#include "layout_variants.h"
#include "support/long.h"
#include "train/control/control.h"

#include <math.h>
#include <pthread.h>

/* Return the bytes of GPU memory in use; with the stand-in, of this process alone. */
#ifdef ZR_GPU
static size_t taken(void)
{
    zr__gpu gpu;
    int64_t left;
    assert_int_equal(zr__device_cuda_gpu(0, &gpu), ZR_OK);
    assert_int_equal(zr__device_cuda_free(0, &left), ZR_OK);
    return (size_t)(gpu.memory_bytes - left);
}
#else
#include "cuda/cuda_runtime.h"
#define taken zr_stand_in_taken
#endif

static void assert_given_back(void)
{
#ifndef ZR_GPU /* a real GPU keeps the context */
    assert_int_equal(taken(), 0);
#endif
}

static void on_gpus(trainer *run)
{
    run->device = zr_device_create_cuda;
}

/* Reduce the tokens, heads and layers of a run, except in the long run: the stand-in's kernels are slow, and have their
 * own tests. */
static trainer short_rows(trainer run)
{
    if (is_long_run()) return run;
    run.layout.batch = 1;
    run.layout.seq = 9;
    run.config.n_head = 1;
    if (run.config.n_layer > 3) run.config.n_layer = 3;
    return run;
}

static void compare(const trainer *want, trainer run, const char *what)
{
    trainer_run(&run);
    layout_assert_same(want, &run, what);
    assert_given_back();
}

/* Check that all ways to keep, move, recompute and save give the same bits, each with one number of ranks and at one of
 * the stages. */
static void layouts(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks *= 2) {
        if (!is_in_run()) continue;
        const int64_t accum = ranks == 1 || (ranks == 2 && is_long_run()) ? 2 : 1;
        trainer want = short_rows(layout_trainer(ranks, ranks == 2 ? ZR_BF16 : ZR_F32, accum, 0.5));
        want.steps = 2;
        on_gpus(&want);
        trainer_run(&want);
        for (int v = ranks / 2; v < LAYOUT_VARIANTS; v += is_long_run() ? 3 : 4) {
            trainer run = want;
            run.layout.stage = v / 3 % 4;
            if (layout_vary(&run, &layout_variants[v])) compare(&want, run, layout_variants[v].name);
        }
    }
}

/* Check that gradients may be reduced once a step instead of after each micro-batch. */
static void reduced_once(void **state)
{
    (void)state;
    if (!is_in_run()) skip();
    trainer want = short_rows(layout_trainer(2, ZR_BF16, 2, 0.5));
    want.steps = 2;
    want.layout.reduce_once = true;
    on_gpus(&want);
    trainer_run(&want);
    for (int stage = 1; stage <= 3; stage += 2) {
        trainer run = want;
        run.layout.stage = stage;
        compare(&want, run, "reduced once a step");
    }
}

/* Return whether the processor's kernels have fused multiply-adds, like the GPU's. Without, an update by the host's
 * processors may differ in the last bit. */
static bool host_fuses(void)
{
    return strcmp(zr_device_cpu_level(), "v2") != 0;
}

/* Check that optimizer states may be in host memory or on disk, and parameters and gradients too; the host's processors
 * update them with any number of threads. */
static void homes(void **state)
{
    (void)state;
    static const struct {
        int stage;
        zr_states states;
        zr_space param, grad, optim;
        zr_save save;
    } ways[] = {
        {0, ZR_STATES_LEAN, ZR_SPACE_DEVICE, ZR_SPACE_DEVICE, ZR_SPACE_HOST, ZR_SAVE_NONE},
        {1, ZR_STATES_PAPER, ZR_SPACE_DEVICE, ZR_SPACE_DEVICE, ZR_SPACE_HOST, ZR_SAVE_COPY},
        {2, ZR_STATES_PAPER, ZR_SPACE_DEVICE, ZR_SPACE_HOST, ZR_SPACE_HOST, ZR_SAVE_NONE},
        {2, ZR_STATES_LEAN, ZR_SPACE_DEVICE, ZR_SPACE_DEVICE, ZR_SPACE_DISK, ZR_SAVE_NONE},
        {3, ZR_STATES_LEAN, ZR_SPACE_DEVICE, ZR_SPACE_DEVICE, ZR_SPACE_HOST, ZR_SAVE_IN_PLACE},
        {3, ZR_STATES_PAPER, ZR_SPACE_HOST, ZR_SPACE_HOST, ZR_SPACE_HOST, ZR_SAVE_NONE},
        {3, ZR_STATES_PAPER, ZR_SPACE_DISK, ZR_SPACE_DISK, ZR_SPACE_DISK, ZR_SAVE_NONE},
    };
    enum { WAYS = sizeof ways / sizeof *ways };
    if (!host_fuses()) skip();
    for (int i = 0; i < 4; i++) {
        if (!is_in_run()) continue;
        const zr_dtype dtype = i == 0 ? ZR_F32 : i == 1 ? ZR_F16 : ZR_BF16;
        trainer want = short_rows(layout_trainer(1 + i % 2, dtype, i == 2 ? 2 : 1, i < 3 ? 0.5 : 0));
        want.steps = dtype == ZR_F16 ? 3 : 2;
        want.layout.reduce_bucket_elems = 700;
        if (dtype == ZR_F16) /* the first step is skipped */
            want.scaler = (zr__loss_scaler){
                .scale = 0x1p18, .min_scale = 1, .dynamic = true, .window = 100, .hysteresis = 1, .hysteresis_left = 1};
        on_gpus(&want);
        trainer_run(&want);
        assert_int_equal(want.skipped[0], dtype == ZR_F16);
        assert_false(want.skipped[want.steps - 1]);
        for (int w = is_long_run() ? 0 : i % 2; w < WAYS; w += is_long_run() ? 1 : 2) {
            trainer run = want;
            const bool sums = run.layout.accum > 1 || ways[w].stage >= 2;
            run.threads = 1 + w % 3;
            run.layout.stage = ways[w].stage;
            run.layout.states = ways[w].states;
            run.layout.save = ways[w].save;
            run.layout.home = (zr_homes){.param = ways[w].param,
                                         .grad = sums ? ways[w].grad : ZR_SPACE_DEVICE,
                                         .optim = ways[w].optim,
                                         .param_share = 1,
                                         .optim_share = w % 2 ? 1 : 0.6,
                                         .bucket_elems = 2048,
                                         .buckets = 1 + w % 3};
            trainer_run(&run);
            assert_given_back();
            for (int k = 0; k < want.steps; k++)
                if (run.loss[k] != want.loss[k] || run.skipped[k] != want.skipped[k] ||
                    (!want.skipped[k] && run.norm[k] != want.norm[k]) || run.weights != want.weights)
                    fail_msg("way %d in %s: loss %.9g, skipped %d, norm %.9g; wanted %.9g, %d, %.9g", w,
                             zr_dtype_name(dtype), run.loss[k], run.skipped[k], run.norm[k], want.loss[k],
                             want.skipped[k], want.norm[k]);
        }
    }
}

/* Check that Muon on GPUs has the same bits at every stage, and with states in host memory, whose hidden matrices the
 * GPU updates and all others the host; and that its losses are near the processor's. */
static void muon(void **state)
{
    (void)state;
    zr_muon_args args = zr_muon_defaults();
    args.ortho.dtype = ZR_F32;
    trainer run = short_rows(layout_trainer(2, ZR_F32, 1, 0.5)), first;
    run.layout.optimizer = zr_muon(&args);
    run.layout.rest = zr_adamw(0.9, 0.95, 1e-8, 0.1);
    run.layout.rest.lr_factor = 0.1;
    trainer processor = run;
    trainer_run(&processor);
    on_gpus(&run);
    for (int stage = 0; stage <= 3; stage++) {
        run.layout.stage = stage;
        run.layout.home.optim = stage >= 2 && host_fuses() ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
        trainer_run(&run);
        assert_given_back();
        if (stage == 0) first = run;
        layout_assert_same(&first, &run, "Muon on GPUs");
    }
    for (int i = 0; i < run.steps; i++) assert_true(fabs(run.loss[i] - processor.loss[i]) <= 1e-4 * processor.loss[i]);
}

/* Update by a user's own rule. */
static void shrink(const zr_update_args *args)
{
    for (int64_t i = 0; i < args->n; i++) args->weight[i] -= args->lr * 0.1f * args->weight[i];
}

/* Check that an optimizer that only processors have can update states in host memory, but not on the GPU. */
static void own_rule(void **state)
{
    (void)state;
    trainer run = short_rows(layout_trainer(1, ZR_F32, 1, 0)), want;
    run.layout.optimizer = (zr_optimizer){.name = "shrink", .n_slots = 1, .rule = shrink, .slot_name = {"unused"}};
    run.steps = 2;
    want = run;
    trainer_run(&want);
    on_gpus(&run);
    assert_int_equal(zr_comm_threads_run(1, trainer_rank, &run), ZR_ERR_UNSUPPORTED);
    assert_non_null(strstr(zr_error_message(), "is a function of the processor's"));
    run.layout.home.optim = ZR_SPACE_HOST;
    trainer_run(&run);
    assert_true(run.weights == want.weights);
    assert_given_back();
}

/* ---- updates beside the GPU ---------------------------------------------------------------------- */

/* The number of updates on the host, and how many the schedule-walking thread made itself. */
typedef struct seen_updates {
    pthread_t walker;
    _Atomic int updates, on_walker;
} seen_updates;

static void see_beside(void *arg, const zr_event *event)
{
    seen_updates *b = arg;
    if (event->stream != ZR_STREAM_HOST) return;
    b->updates++;
    b->on_walker += pthread_equal(pthread_self(), b->walker) != 0;
}

static zr_status watch_beside(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)comm;
    seen_updates *b = run->arg;
    b->walker = pthread_self();
    zr__engine_watch(engine, see_beside, b);
    return ZR_OK;
}

/* Check that updates run on a separate thread, and each unit's buckets are updated in each step. */
static void updates_beside(void **state)
{
    (void)state;
    seen_updates b = {0};
    trainer run = short_rows(layout_trainer(1, ZR_BF16, 1, 0));
    run.steps = 3;
    run.layout.states = ZR_STATES_LEAN;
    run.layout.home.optim = ZR_SPACE_HOST;
    on_gpus(&run);
    run.after_first = watch_beside;
    run.arg = &b;
    trainer_run(&run);
    assert_int_equal(b.updates, 2 * (run.config.n_layer + 2));
    assert_int_equal(b.on_walker, 0);
    assert_given_back();
}

/* Check that sums may be independent of the number of ranks. */
static void rank_free_sums(void **state)
{
    (void)state;
    if (!is_in_run()) skip();
    trainer want = short_rows(layout_trainer(1, ZR_F32, 4, 0.5));
    want.steps = 2;
    on_gpus(&want);
    want.layout.rank_free_sums = true;
    trainer_run(&want);
    for (int ranks = 2; ranks <= 4; ranks *= 2)
        for (int stage = ranks == 4; stage <= 3; stage += 2) {
            trainer run = want;
            run.layout.ranks = ranks;
            run.layout.accum = 4 / ranks;
            run.layout.stage = stage;
            compare(&want, run, "any number of ranks");
        }
}

static void shared_layers(void **state)
{
    (void)state;
    for (int sequence = ZR_SEQUENCE_OFF; sequence <= ZR_SEQUENCE_REGATHER; sequence++) {
        if (!is_in_run()) continue;
        trainer want = short_rows(trainer_odd()), run;
        want.layout.batch = 2; /* tokens that two ranks share evenly */
        want.config.n_head = 2;
        want.config.n_embd = 24;
        want.layout.ranks = 2;
        want.layout.norm_first = true;
        want.clip = 0.5;
        want.steps = 2;
        on_gpus(&want);
        want.layout.tensor = 2;
        want.layout.sequence = (zr_sequence)sequence;
        trainer_run(&want);
        run = want;
        run.layout.stage = 3;
        compare(&want, run, "ranks that share layers");
    }
}

/* Check that with a frozen table and block, so that the head has no dw, stage 3 has the bits of stage 0. */
static void frozen(void **state)
{
    (void)state;
    for (int tensor = 1; tensor <= 2; tensor++) {
        if (!is_in_run()) continue;
        trainer want = short_rows(trainer_odd());
        zr_model model = zr_gpt2(&want.config);
        want.config.n_head = 2;
        want.config.n_embd = 24;
        want.layout.ranks = 2;
        want.layout.tensor = tensor;
        want.steps = 2;
        want.model = &model;
        model.frozen = "wte.*\nh.0.*";
        on_gpus(&want);
        trainer_run(&want);
        trainer run = want;
        run.layout.stage = 3;
        compare(&want, run, "frozen");
    }
}

/* Check that the comm stream and saves may run in parallel with computation. */
static void lanes(void **state)
{
    (void)state;
    for (int stage = 1; stage <= 3; stage += 2) {
        if (!is_in_run()) continue;
        trainer want = short_rows(layout_trainer(2, ZR_F32, 1, 0.5));
        want.steps = 2;
        on_gpus(&want);
        want.lanes = true;
        want.layout.stage = stage;
        trainer_run(&want);
        for (int v = stage / 2; v < LAYOUT_VARIANTS; v += 8) {
            trainer run = want;
            if (layout_vary(&run, &layout_variants[v])) compare(&want, run, layout_variants[v].name);
        }
    }
}

/* ---- copies in a queue of their own -------------------------------------------------------------- */

#define MOST_EVENTS 4096

/* The steps of rank 0, in the order of all walks. */
typedef struct seen {
    zr_event event[MOST_EVENTS];
    int n;
} seen;

static void see(void *arg, const zr_event *event)
{
    seen *s = arg;
    const bool counts = event->stream == ZR_STREAM_COMPUTE || event->stream == ZR_STREAM_COPY;
    if (counts && s->n < MOST_EVENTS) s->event[s->n++] = *event;
}

static zr_status watch_last(trainer *run, zr_engine *engine, zr_comm *comm)
{
    if (comm->rank == 0) zr__engine_watch(engine, see, run->arg);
    return ZR_OK;
}

/* Check that copies of a save after the last step are reported too, before the save ends. */
static zr_status watch_no_more(trainer *run, zr_engine *engine, zr_comm *comm)
{
    const seen *s = run->arg;
    const int before = s->n;
    trainer_saving saving = {0};
    ZR_TRY(zr_engine_save(engine, &(zr_sink){trainer_put, trainer_put_end, NULL, &saving}));
    ZR_TRY(zr_engine_save_end(engine));
    ZR_CHECK(comm->rank > 0 || s->n > before, ZR_ERR_INTERNAL, "nobody was told of the copies of a save");
    zr__engine_watch(engine, NULL, NULL);
    return ZR_OK;
}

#ifndef ZR_GPU
/* The stand-in runs all work as late as possible; this device copies at once, as a GPU might. */
static zr_device_ops plain, hasty;
static _Thread_local zr_queue *copying;

static zr_status hasty_queue_create(zr_device *device, const zr_queue_config *config, zr_queue **queue)
{
    ZR_TRY(plain.queue_create(device, config, queue));
    if (config->runs == ZR_QUEUE_STREAM) copying = *queue;
    return ZR_OK;
}

static zr_status hasty_issue(zr_queue *queue, const zr_task *task)
{
    ZR_TRY(plain.issue(queue, task));
    if (queue == copying && cudaStreamSynchronize(queue->device->stream) != cudaSuccess) abort();
    return ZR_OK;
}

static void make_hasty(trainer *run, zr_device *device)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    (void)run;
    pthread_mutex_lock(&lock);
    if (!plain.kernel) plain = hasty = *device->ops;
    hasty.queue_create = hasty_queue_create;
    hasty.issue = hasty_issue;
    pthread_mutex_unlock(&lock);
    device->ops = &hasty;
    copying = NULL;
}

/* Count the copies that ended before a compute step earlier in the list began. */
static int overtaking(const seen *s)
{
    int n = 0;
    for (int i = 0; i < s->n; i++)
        for (int j = 0; j < s->n && s->event[i].stream == ZR_STREAM_COPY; j++) {
            const zr_event *copy = &s->event[i], *step = &s->event[j];
            n += step->stream == ZR_STREAM_COMPUTE && step->schedule == copy->schedule && step->micro == copy->micro &&
                 step->step < copy->step && step->begin_sec >= copy->end_sec;
        }
    return n;
}
#endif

/* Check that checkpoints on the host and saved states are copied in parallel with computation, with the bits of a run
 * without copies. */
static void copies_apart(void **state)
{
    (void)state;
    for (int tensor = 1; tensor <= 2; tensor++) {
        if (!is_in_run()) continue;
        seen *s = calloc(1, sizeof *s);
        trainer want = short_rows(layout_trainer(2 / tensor, ZR_F32, 1, 0.5));
        want.layout.batch = 2;
        want.config.n_head = 2;
        want.config.n_embd = 24;
        want.layout.tensor = tensor;
        want.layout.recompute = ZR_RECOMPUTE_UNIT;
        want.steps = 2;
        on_gpus(&want);
        trainer_run(&want);
        trainer run = want;
        run.layout.checkpoint_home = ZR_SPACE_HOST;
        run.layout.partition_checkpoints = tensor > 1;
        run.layout.save = ZR_SAVE_COPY;
        compare(&want, run, "copies in a queue of their own");
        run.after_first = watch_last;
        run.after = watch_no_more;
        run.arg = s;
#ifndef ZR_GPU
        run.tune = make_hasty;
#endif
        /* Whether a copy overtakes depends on when the host's threads run. A busy machine has several tries. */
        for (int tries = 0, overtaken = 0; !overtaken; tries++) {
            assert_true(tries < 5);
            memset(s, 0, sizeof *s);
            compare(&want, run, "copies in a queue of their own, watched");
            int copies = 0;
            for (int i = 0; i < s->n; i++) copies += s->event[i].stream == ZR_STREAM_COPY;
            assert_true(copies > 0);
#ifdef ZR_GPU
            overtaken = 1;
#else
            overtaken = overtaking(s);
#endif
        }
        free(s);
    }
}

/* Check that the losses are the processor's: in fp32 up to the order of sums, in 16 bits up to rounding. */
static void against_the_processor(void **state)
{
    (void)state;
    static const zr_dtype types[] = {ZR_F32, ZR_BF16, ZR_F16};
    static const double bound[] = {2e-5, 2e-2, 5e-3};
    for (int t = 0; t < 3; t++) {
        if (!is_in_run()) continue;
        trainer want = trainer_odd();
        want.layout.dtype = want.layout.wire_dtype = types[t];
        want.layout.norm_first = true;
        want.steps = types[t] != ZR_F32 ? 4 : is_long_run() ? 10 : 5;
        if (types[t] == ZR_F16) want.scaler.scale = 4096;
        want.config.embd_pdrop = want.config.resid_pdrop = want.config.attn_pdrop = 0.1;
        trainer got = want;
        on_gpus(&got);
        trainer_run(&want);
        trainer_run(&got);
        for (int i = 0; i < want.steps; i++)
            if (!(fabs(got.loss[i] - want.loss[i]) <= bound[t] * want.loss[i]))
                fail_msg("%s, step %d: loss %.9g, the processor's %.9g", zr_dtype_name(types[t]), i, got.loss[i],
                         want.loss[i]);
    }
}

/* Check that a gradient that is not finite skips the step on all ranks, and is reported by name. */
static void not_finite(void **state)
{
    (void)state;
    trainer run = layout_trainer(2, ZR_F16, 1, 0.5);
    run.scaler = (zr__loss_scaler){
        .scale = 0x1p22, .min_scale = 1, .dynamic = true, .window = 100, .hysteresis = 1, .hysteresis_left = 1};
    trainer want = run;
    on_gpus(&run);
    trainer_run(&want);
    trainer_run(&run);
    assert_true(want.skipped[0] && run.skipped[0]);
    assert_int_equal(want.bad_param[0], run.bad_param[0]);
    run.layout.states = ZR_STATES_LEAN;
    run.layout.norm_first = false;
    run.clip = 0;
    assert_int_equal(zr_comm_threads_run(2, trainer_rank, &run), ZR_ERR_DIVERGED);
    assert_non_null(strstr(zr_error_message(), "the gradient of"));
    assert_given_back();
}

/* GPU memory taken in a step, which must be the planned memory and a constant for the device itself. */
static size_t taken_in_step;

static zr_status note_taken(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)run, (void)engine;
    if (comm->rank == 0) taken_in_step = taken();
    return ZR_OK;
}

static void planned_is_taken(void **state)
{
    (void)state;
    size_t beside[2];
    for (int wide = 0; wide < 2; wide++) {
        trainer run = trainer_odd();
        run.config.n_embd = wide ? 96 : 57;
        run.config.n_layer = wide ? 5 : 2;
        run.layout.norm_first = true;
        run.steps = 1;
        run.after_first = note_taken;
        on_gpus(&run);
        trainer_run(&run);
        const int64_t arena = run.planned.space[ZR_SPACE_DEVICE].total_bytes;
        assert_true(arena > 0 && (int64_t)taken_in_step >= arena);
        beside[wide] = taken_in_step - (size_t)(arena + 4095) / 4096 * 4096;
    }
#ifdef ZR_GPU /* context and library code, bounded as in src/train/host/device.c; others may use the GPU */
    for (int wide = 0; wide < 2; wide++) print_message("beside the arena: %zu bytes\n", beside[wide]);
    assert_true(beside[0] < (size_t)1 << 30 && beside[1] < (size_t)1 << 30);
#else
    assert_int_equal(beside[0], beside[1]);
    assert_true(beside[0] < (size_t)1 << 20);
#endif
}

#ifndef ZR_GPU
/* Check that lack of GPU memory is reported with the requested size. */
static void no_memory(void **state)
{
    (void)state;
    trainer run = trainer_odd();
    run.layout.norm_first = true;
    on_gpus(&run);
    for (int skip = 0; skip < 8; skip++) {
        zr_stand_in_fail("cudaMalloc", skip, cudaErrorMemoryAllocation);
        const zr_status st = zr_comm_threads_run(1, trainer_rank, &run);
        zr_stand_in_fail(NULL, 0, cudaSuccess);
        assert_given_back();
        if (st == ZR_OK) return;
        assert_int_equal(st, ZR_ERR_MEMORY);
        assert_non_null(strstr(zr_error_message(), "no memory on the GPU for"));
    }
    fail();
}
#endif

#ifndef ZR_GPU
/* Check that ranks that are threads are refused at creation if their GPUs cannot access each other's memory. */
static void no_peer_access(void **state)
{
    (void)state;
    trainer run = short_rows(layout_trainer(2, ZR_F32, 1, 0.5));
    run.steps = 0;
    on_gpus(&run);
    zr_stand_in_fail("cudaDeviceCanAccessPeer", 0, cudaErrorInvalidDevice);
    assert_int_equal(zr_comm_threads_run(2, trainer_rank, &run), ZR_ERR_UNSUPPORTED);
    zr_stand_in_fail(NULL, 0, cudaSuccess);
    assert_non_null(strstr(zr_error_message(), "cannot read the memory of GPU"));
    assert_given_back();
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts),        cmocka_unit_test(rank_free_sums),
        cmocka_unit_test(reduced_once),   cmocka_unit_test(homes),
        cmocka_unit_test(muon),           cmocka_unit_test(own_rule),
        cmocka_unit_test(updates_beside), cmocka_unit_test(shared_layers),
        cmocka_unit_test(frozen),         cmocka_unit_test(lanes),
        cmocka_unit_test(copies_apart),   cmocka_unit_test(against_the_processor),
        cmocka_unit_test(not_finite),     cmocka_unit_test(planned_is_taken),
#ifndef ZR_GPU
        cmocka_unit_test(no_memory),      cmocka_unit_test(no_peer_access),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
