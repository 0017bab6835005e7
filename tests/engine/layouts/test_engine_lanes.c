//TEST timeout=240 tsan=1 long=more
/* The comm stream on a separate thread gives the bits of a single thread, whatever overlaps; and a failure on either
 * thread ends the step on both, with the first failure's message. */
#include "engine/layout_variants.h"
#include "support/long.h"
#include "engine/engine.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

/* Return the number of parts into which the layout variants are divided: two runs with one micro-batch together cover
 * all variants at all stages, and so do two runs with several. */
static int shares(void)
{
#ifdef __SANITIZE_THREAD__
    return 9; /* the sanitizer is slow */
#else
    return is_long_run() ? 1 : 2;
#endif
}

static void check(int ranks, zr_dtype dtype, int64_t accum, double clip)
{
    static int share;
    trainer want = layout_trainer(ranks, dtype, accum, clip);
    trainer_run(&want);
    want.lanes = true;
    layout_check(&want, share++ % shares(), shares());
}

static void test_two_ranks(void **state)
{
    (void)state;
    check(2, ZR_F32, 2, 0.5);
    check(2, ZR_BF16, 1, 0);
}

/* Check that the comm stream computes the tree of sums over micro-batches. */
static void test_world(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        trainer want = layout_trainer(2, ZR_BF16, 3, 0.5);
        want.layout.rank_free_sums = true;
        want.layout.stage = stage;
        trainer got = want;
        got.lanes = true;
        trainer_run(&want);
        trainer_run(&got);
        assert_true(layout_same(&want, &got));
    }
}

static void test_three_ranks(void **state)
{
    (void)state;
    check(3, ZR_F16, 1, 0.5);
    check(3, ZR_F32, 3, 0);
}

/* ---- the order of steps ----------------------------------------------------------------------- */

#define MOST_EVENTS 4096

typedef struct seen {
    zr_event event[ZR_STREAMS][MOST_EVENTS];
    int n[ZR_STREAMS];
    _Atomic int communicated; /* steps of the comm stream */
    _Atomic int computing;    /* the batch of a watched step has begun */
} seen;

/* Wait at most 20 s for a number to grow, so that a broken test fails instead of hanging. */
static void await_more(_Atomic int *number, int than)
{
    for (int ms = 0; ms < 20000 && atomic_load(number) <= than; ms++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void see(void *arg, const zr_event *event)
{
    seen *s = arg;
    if (s->n[event->stream] < MOST_EVENTS) s->event[event->stream][s->n[event->stream]++] = *event;
    if (event->stream != ZR_STREAM_COMM) return;
    atomic_fetch_add(&s->communicated, 1);
    await_more(&s->computing, 0); /* otherwise the remaining gathers might end before the batch begins */
}

static zr_status watch_rank(trainer *run, zr_engine *engine, zr_comm *comm)
{
    if (comm->rank == 0) zr__engine_watch(engine, see, run->arg);
    return ZR_OK;
}

static const zr_event *event_of(const seen *s, const zr_schedule *schedule, int32_t step, int64_t micro)
{
    int stream = (int)schedule->step[step].stream;
    for (int i = 0; i < s->n[stream]; i++)
        if (s->event[stream][i].schedule == ZR_SCHEDULE_TRAIN && s->event[stream][i].step == step &&
            s->event[stream][i].micro == micro)
            return &s->event[stream][i];
    return NULL;
}

/* Check that no step begins before the steps it waits for have ended, and that some communication overlaps computation.
 */
static zr_status check_order(trainer *run, zr_engine *engine, zr_comm *comm)
{
    if (comm->rank != 0) return ZR_OK;
    const seen *s = run->arg;
    zr__engine_watch(engine, NULL, NULL);
    zr_model model = trainer_model(run);
    zr_device_config wanted = {.threads = 1};
    zr_device *device = NULL;
    zr_plan *plan = NULL;
    ZR_TRY(zr_device_create_cpu(&wanted, &device));
    ZR_TRY(zr_plan_create(&model, &run->layout, &device->profile, &plan));
    const zr_schedule *schedule = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int waits = 0, beside = 0;
    for (int stream = 0; stream < ZR_STREAMS; stream++)
        for (int i = 0; i < s->n[stream]; i++) {
            const zr_event *e = &s->event[stream][i];
            if (e->schedule != ZR_SCHEDULE_TRAIN) continue;
            const zr_step *step = &schedule->step[e->step];
            ZR_CHECK(e->wait_sec <= e->begin_sec && e->begin_sec <= e->end_sec, ZR_ERR_INTERNAL, "step %d: times",
                     e->step);
            for (int32_t w = step->waits; w < step->waits + step->n_waits; w++) {
                const zr_wait *wait = &schedule->wait[w];
                const zr_event *earlier = event_of(s, schedule, wait->step, e->micro - wait->before);
                if (!earlier) continue; /* a step that was skipped, or from before the watch */
                waits++;
                ZR_CHECK(earlier->end_sec <= e->begin_sec, ZR_ERR_INTERNAL, "step %d began before step %d had ended",
                         e->step, earlier->step);
            }
            for (int j = 0; stream == ZR_STREAM_COMM && j < s->n[ZR_STREAM_COMPUTE]; j++) {
                const zr_event *c = &s->event[ZR_STREAM_COMPUTE][j];
                beside += c->begin_sec < e->end_sec && e->begin_sec < c->end_sec;
            }
        }
    zr_plan_destroy(&plan);
    zr_device_destroy(&device);
    ZR_CHECK(waits > 0 && beside > 0, ZR_ERR_INTERNAL, "%d waits seen, %d steps side by side", waits, beside);
    return ZR_OK;
}

/* Fill a batch only after a comm step has run in parallel: parameters are gathered from the beginning of a step on. */
static zr_status slow_batch(void *arg, const zr_batch *batch, void *const *input)
{
    const trainer *run = arg;
    seen *s = run->arg;
    if (batch->step > 0 && batch->first_row == 0) {
        int before = atomic_load(&s->communicated);
        atomic_store(&s->computing, true);
        await_more(&s->communicated, before);
    }
    return trainer_batch(arg, batch, input);
}

static void test_order(void **state)
{
    (void)state;
    for (int stage = 1; stage <= 3; stage++) {
        seen *s = calloc(1, sizeof *s);
        trainer run = layout_trainer(2, ZR_F32, 1, 0.5);
        run.layout.stage = stage;
        run.lanes = true;
        run.steps = 2;
        run.arg = s;
        run.batch = slow_batch;
        run.after_first = watch_rank;
        run.after = check_order;
        trainer_run(&run);
        free(s);
    }
}

/* ---- failures --------------------------------------------------------------------------------- */

/* Check that a failure caused by `run` ends all ranks with that status and message, at every stage. */
static void check_failure(trainer run, zr_status want, const char *message)
{
    run.lanes = true;
    for (run.layout.stage = 0; run.layout.stage <= 3; run.layout.stage++) {
        assert_int_equal(zr_comm_threads_run(run.layout.ranks, trainer_rank, &run), want);
        assert_non_null(strstr(zr_error_message(), message));
    }
}

/* The first op of a step, made to fail in the second step. */
static zr_kernel embedding, failing[2];
static bool only_rank_0; /* fail on rank 0 alone */

static zr_status failing_run(const zr_kernel_args *args)
{
    bool fails = args->runtime->step == 1 && (!only_rank_0 || args->runtime->first_row == 0);
    ZR_CHECK(!fails, ZR_ERR_DATA, "no second embedding");
    return embedding.run(args);
}

static const zr_kernel *failing_kernels(bool on_rank_0_alone)
{
    zr_device_config plain = ZR_DEVICE_CONFIG_INIT;
    zr_device *device = NULL;
    assert_int_equal(zr_device_create_cpu(&plain, &device), ZR_OK);
    embedding = failing[0] = *device->ops->kernel(device, "embedding");
    failing[0].run = failing_run;
    only_rank_0 = on_rank_0_alone;
    zr_device_destroy(&device);
    return failing;
}

/* The number of arenas that ranks have freed. */
static _Atomic int arenas_freed;
static void (*free_memory)(zr_device *device, void *memory);
static zr_device_ops counting_ops;

static void count_free(zr_device *device, void *memory)
{
    atomic_fetch_add(&arenas_freed, 1);
    free_memory(device, memory);
}

static void count_frees(trainer *run, zr_device *device)
{
    (void)run;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (!free_memory) {
        counting_ops = *device->ops;
        free_memory = counting_ops.free;
        counting_ops.free = count_free;
    }
    pthread_mutex_unlock(&lock);
    device->ops = &counting_ops;
}

/* Check a failure of the computing thread, which leaves the comm stream waiting for peers that have failed as well.
 * Transfers to or from an arena may still be running, so the arena is not freed. */
static void test_computing_fails(void **state)
{
    (void)state;
    trainer run = layout_trainer(2, ZR_F32, 1, 0);
    run.tune = count_frees;
    run.lanes = true;
    trainer_run(&run);
    assert_int_equal(arenas_freed, 2);
    run.kernels = failing_kernels(false);
    check_failure(run, ZR_ERR_DATA, "no second embedding");
    assert_int_equal(arenas_freed, 2);
}

/* The case that rank 0's computing thread fails while its comm stream waits for rank 1, which continues only after rank
 * 0 has returned. */
typedef struct lone {
    _Atomic int returned; /* rank 0 has returned */
    bool in_vain;         /* rank 1 waited for it in vain */
} lone;

static void hold_back(void *arg, const zr_event *event)
{
    lone *l = arg;
    if (event->stream != ZR_STREAM_COMM || l->returned) return;
    await_more(&l->returned, 0);
    l->in_vain = !l->returned;
    l->returned = 1; /* one wait is enough */
}

static zr_status hold_back_rank_1(trainer *run, zr_engine *engine, zr_comm *comm)
{
    if (comm->rank == 1) zr__engine_watch(engine, hold_back, run->arg);
    return ZR_OK;
}

static zr_status rank_0_tells(zr_comm *comm, void *arg)
{
    trainer *run = arg;
    lone *l = run->arg;
    zr_status st = trainer_rank(comm, run);
    if (comm->rank == 0) l->returned = 1;
    return st;
}

static void test_one_rank_fails_alone(void **state)
{
    (void)state;
    for (int stage = 1; stage <= 3; stage++) { /* stages at which more gathers run while the first op runs */
        lone l = {0};
        trainer run = layout_trainer(2, ZR_F32, 1, 0);
        run.layout.stage = stage;
        run.layout.prefetch_elems = 1;
        run.layout.gather_bucket_elems = 1 << 20;
        run.lanes = true;
        run.kernels = failing_kernels(true);
        run.after_first = hold_back_rank_1;
        run.arg = &l;
        assert_int_equal(zr_comm_threads_run(2, rank_0_tells, &run), ZR_ERR_DATA);
        assert_non_null(strstr(zr_error_message(), "no second embedding"));
        if (l.in_vain) fail_msg("stage %d: rank 0 returned only when rank 1 went on", stage);
    }
}

static zr_status leave(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)run, (void)engine;
    ZR_CHECK(comm->rank != 1, ZR_ERR_IO, "rank 1 has had enough");
    return ZR_OK;
}

/* Check that the comm stream gets the error of a lost peer, and that the computing thread, which waits for it, ends
 * too. */
static void test_communication_fails(void **state)
{
    (void)state;
    trainer run = layout_trainer(3, ZR_F32, 1, 0);
    run.after_first = leave;
    check_failure(run, ZR_ERR_IO, "rank 1 has had enough");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_ranks),
        cmocka_unit_test(test_three_ranks),
        cmocka_unit_test(test_world),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_computing_fails),
        cmocka_unit_test(test_one_rank_fails_alone),
        cmocka_unit_test(test_communication_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
