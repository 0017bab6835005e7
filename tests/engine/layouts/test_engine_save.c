//TEST timeout=60 tsan=1
/* States saved asynchronously after a step: the elements and the time at which the sink gets them, and that training is
 * unaffected. The other engine tests check the right states in every layout (trainer_save). */
#include <stdatomic.h>

#include "engine/layout_variants.h"
#include "engine/engine.h"

/* A sink that keeps its elements in the order of the model, state by state. */
typedef struct kept {
    float *state[3];
    _Atomic int64_t calls;
    int64_t fails_at; /* the call that fails, 0: none */
    int ended;
    atomic_bool held; /* no call returns while it is set */
    int64_t pause_ns; /* duration of each call */
    zr_event ran[512];
    int n_ran;
} kept;

static zr_status keep(void *arg, int state, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    kept *k = arg;
    while (k->held) nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    nanosleep(&(struct timespec){.tv_nsec = k->pause_ns}, NULL);
    if (++k->calls == k->fails_at) return ZR_FAIL(ZR_ERR_IO, "the disk is full");
    const int i = state == ZR_STATE_PARAM ? 0 : 1 + state - ZR_STATE_SLOT;
    memcpy(k->state[i] + param->first + first, in, sizeof(float) * (size_t)n);
    return ZR_OK;
}

static zr_status keep_end(void *arg)
{
    ((kept *)arg)->ended++;
    return ZR_OK;
}

static void keep_ran(void *arg, const zr_event *event)
{
    kept *k = arg;
    assert_true(k->n_ran < 512);
    k->ran[k->n_ran++] = *event;
}

static zr_status read_one(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    memcpy((float *)arg + param->first + first, in, sizeof(float) * (size_t)n);
    return ZR_OK;
}

enum { ELEMS = 1 << 16 };

static kept *kept_make(void)
{
    kept *k = calloc(1, sizeof *k);
    for (int i = 0; i < 3; i++) k->state[i] = calloc(ELEMS, sizeof(float));
    return k;
}

static void kept_free(kept *k)
{
    for (int i = 0; i < 3; i++) free(k->state[i]);
    free(k);
}

static void read_all(zr_engine *engine, kept *k)
{
    for (int i = 0; i < 3; i++)
        assert_int_equal(zr_engine_read(engine, i == 0 ? ZR_STATE_PARAM : ZR_STATE_SLOT + i - 1, read_one, k->state[i]),
                         ZR_OK);
}

static void assert_same(const kept *want, const kept *got)
{
    for (int i = 0; i < 3; i++) assert_memory_equal(want->state[i], got->state[i], sizeof(float) * ELEMS);
}

static zr_status step(trainer *run, zr_engine *engine, int64_t number, zr_status (*stop)(void *arg))
{
    zr_step_args args = {
        .step = number, .lr = run->lr, .clip = run->clip, .batch = trainer_batch, .arg = run, .stop = stop};
    zr_step_result result;
    return zr_engine_step(engine, &args, &result);
}

/* A function that a test runs after the first step of a run, with the run's plan. */
typedef zr_status (*scene_fn)(trainer *run, zr_engine *engine, zr_comm *comm);
typedef struct stage_of_scene {
    scene_fn scene;
    const zr_plan *plan;
} stage_of_scene;

/* ---- scenes, on every rank after the first step ------------------------------------------------ */

static zr_sink sink_of(kept *k)
{
    return (zr_sink){keep, keep_end, keep_ran, k};
}

/* Check that without a further step, the states are written when the test waits for them, and that a second save cannot
 * begin before that. */
static zr_status without_step(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)comm;
    kept *want = kept_make(), *got = kept_make();
    const zr_sink sink = sink_of(got), none = {0};
    assert_true(zr_engine_saved(engine));
    assert_int_equal(zr_engine_save_end(engine), ZR_OK);
    assert_int_equal(zr_engine_save(engine, &none), ZR_ERR_ARG);
    for (int again = 0; again < 2; again++) {
        read_all(engine, want);
        assert_int_equal(zr_engine_save(engine, &sink), ZR_OK);
        assert_false(zr_engine_saved(engine));
        assert_int_equal(zr_engine_save(engine, &sink), ZR_ERR_STATE);
        assert_int_equal(zr_engine_save_end(engine), ZR_OK);
        assert_true(zr_engine_saved(engine) && got->ended == again + 1);
        assert_same(want, got);
        ZR_TRY(step(run, engine, 1, NULL));
    }
    kept_free(want);
    kept_free(got);
    return ZR_OK;
}

/* Check that after a failed call the sink is not called again, the failure is reported by the wait, and training
 * continues. */
static zr_status sink_fails(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)comm;
    kept *k = kept_make();
    const zr_sink sink = sink_of(k);
    for (int64_t at = 1; at < 40; at += 7) {
        *k = (kept){.state = {k->state[0], k->state[1], k->state[2]}, .fails_at = at};
        ZR_TRY(zr_engine_save(engine, &sink));
        ZR_TRY(step(run, engine, 1, NULL));
        assert_int_equal(zr_engine_save_end(engine), ZR_ERR_IO);
        assert_non_null(strstr(zr_error_message(), "the disk is full"));
        assert_int_equal(k->calls, at);
        assert_int_equal(k->ended, 0);
        assert_true(zr_engine_saved(engine) && k->n_ran > 0);
        assert_int_equal(zr_engine_save_end(engine), ZR_OK); /* reported once */
    }
    kept_free(k);
    return ZR_OK;
}

/* Check that with a save from a copy, steps continue while the disk is blocked. */
static zr_status disk_stands(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)comm;
    kept *want = kept_make(), *got = kept_make();
    const zr_sink sink = sink_of(got);
    read_all(engine, want);
    got->held = true;
    ZR_TRY(zr_engine_save(engine, &sink));
    for (int i = 1; i < 4; i++) ZR_TRY(step(run, engine, i, NULL));
    assert_false(zr_engine_saved(engine));
    got->held = false;
    ZR_TRY(zr_engine_save_end(engine));
    assert_same(want, got);
    kept_free(want);
    kept_free(got);
    return ZR_OK;
}

/* The time at which each unit's update began. */
typedef struct updates {
    const zr_plan *plan;
    double begin_sec[64];
} updates;

static void on_event(void *arg, const zr_event *event)
{
    updates *u = arg;
    const zr_step *step = &u->plan->schedule[event->schedule].step[event->step];
    if (step->kind == ZR_STEP_UPDATE) u->begin_sec[step->unit] = event->begin_sec;
}

/* Check that with a save in place, no unit's update begins before all its states have been written. */
static zr_status updates_wait(trainer *run, zr_engine *engine, zr_comm *comm)
{
    updates u = {.plan = ((const stage_of_scene *)run->arg)->plan};
    kept *want = kept_make(), *got = kept_make();
    const zr_sink sink = sink_of(got);
    (void)comm;
    got->pause_ns = 1000000; /* longer than a step takes */
    read_all(engine, want);
    zr__engine_watch(engine, on_event, &u);
    ZR_TRY(zr_engine_save(engine, &sink));
    ZR_TRY(step(run, engine, 1, NULL));
    zr__engine_watch(engine, NULL, NULL);
    assert_true(zr_engine_saved(engine));
    ZR_TRY(zr_engine_save_end(engine));
    assert_same(want, got);
    assert_int_equal(got->n_ran, 3 * u.plan->n_units);
    for (int i = 0; i < got->n_ran; i++) {
        const zr_step *ran = &u.plan->schedule[ZR_SCHEDULE_TRAIN].step[got->ran[i].step];
        assert_true(ran->kind == ZR_STEP_SAVE && got->ran[i].stream == ZR_STREAM_SAVE);
        assert_true(got->ran[i].begin_sec <= got->ran[i].end_sec);
        assert_true(got->ran[i].end_sec <= u.begin_sec[ran->unit]);
    }
    kept_free(want);
    kept_free(got);
    return ZR_OK;
}

static zr_status asked(void *arg)
{
    (void)arg;
    return ZR_FAIL(ZR_ERR_STOPPED, "asked to stop");
}

/* Check that an interrupted step has updated nothing, so that the states saved after it are the earlier ones. */
static zr_status step_stops(trainer *run, zr_engine *engine, zr_comm *comm)
{
    kept *want = kept_make(), *got = kept_make();
    const zr_sink sink = sink_of(got);
    (void)comm;
    got->pause_ns = 100000;
    read_all(engine, want);
    ZR_TRY(zr_engine_save(engine, &sink));
    assert_int_equal(step(run, engine, 1, asked), ZR_ERR_STOPPED);
    ZR_TRY(zr_engine_save_end(engine));
    assert_same(want, got);
    /* The following step waits for states that are still being written. */
    ZR_TRY(zr_engine_save(engine, &sink));
    assert_int_equal(step(run, engine, 1, asked), ZR_ERR_STOPPED);
    ZR_TRY(step(run, engine, 1, NULL));
    assert_true(zr_engine_saved(engine));
    ZR_TRY(zr_engine_save_end(engine));
    assert_same(want, got);
    kept_free(want);
    kept_free(got);
    return ZR_OK;
}

/* Destroy the engine while states are being written, and check that the sink is not called afterwards. */
static kept *left[8];
static zr_status engine_goes(trainer *run, zr_engine *engine, zr_comm *comm)
{
    kept *k = left[comm->rank] = kept_make();
    const zr_sink sink = sink_of(k);
    k->pause_ns = 5000000;
    ZR_TRY(zr_engine_save(engine, &sink));
    ZR_TRY(step(run, engine, 1, NULL));
    ZR_TRY(zr_engine_flush(engine));
    while (k->calls == 0) nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    assert_false(zr_engine_saved(engine));
    return ZR_OK;
}

/* ---- tests ------------------------------------------------------------------------------------- */

/* Run the test's function, then flush, because a step's traffic is complete only when its updated parameters have been
 * gathered. */
static zr_status play_scene(trainer *run, zr_engine *engine, zr_comm *comm)
{
    ZR_TRY(((const stage_of_scene *)run->arg)->scene(run, engine, comm));
    return zr_engine_flush(engine);
}

static void play(scene_fn scene, zr_save save, int64_t accum)
{
    for (int stage = 0; stage <= 3; stage++)
        for (int ranks = 1; ranks <= 2; ranks++) {
            trainer run = layout_trainer(ranks, ranks == 1 ? ZR_BF16 : ZR_F32, accum, 1);
            zr_profile profile = {.facts = {.name = "here", .threads = 1, .scratch_bytes = zr_device_cpu_scratch}};
            zr_model model = trainer_model(&run);
            zr_plan *plan = NULL;
            run.layout.stage = stage;
            run.layout.save = save;
            run.steps = 2;
            assert_int_equal(zr_plan_create(&model, &run.layout, &profile, &plan), ZR_OK);
            assert_true(plan->params <= ELEMS && plan->n_units <= 64);
            stage_of_scene arg = {scene, plan};
            run.after = play_scene;
            run.arg = &arg;
            trainer_run(&run);
            zr_plan_destroy(&plan);
        }
}

static void test_without_step(void **state)
{
    (void)state;
    play(without_step, ZR_SAVE_COPY, 1);
    play(without_step, ZR_SAVE_IN_PLACE, 2);
}

static void test_sink_fails(void **state)
{
    (void)state;
    play(sink_fails, ZR_SAVE_COPY, 1);
    play(sink_fails, ZR_SAVE_IN_PLACE, 2);
}

static void test_disk_stands(void **state)
{
    (void)state;
    play(disk_stands, ZR_SAVE_COPY, 1);
    play(disk_stands, ZR_SAVE_COPY, 3);
}

static void test_updates_wait(void **state)
{
    (void)state;
    play(updates_wait, ZR_SAVE_IN_PLACE, 1);
    play(updates_wait, ZR_SAVE_IN_PLACE, 2);
    play(updates_wait, ZR_SAVE_IN_PLACE, 3);
}

static void test_step_stops(void **state)
{
    (void)state;
    play(step_stops, ZR_SAVE_COPY, 2);
    play(step_stops, ZR_SAVE_IN_PLACE, 2);
}

static void test_engine_goes(void **state)
{
    (void)state;
    for (int lanes = 0; lanes < 2; lanes++)
        for (int stage = 0; stage <= 3; stage++) {
            trainer run = layout_trainer(2, ZR_F32, 1, 1);
            run.layout.stage = stage;
            run.layout.save = ZR_SAVE_COPY;
            run.lanes = lanes;
            run.after = engine_goes;
            run.steps = 1;
            trainer_run(&run);
            for (int r = 0; r < 2; r++) {
                const int64_t calls = left[r]->calls;
                nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
                assert_true(calls > 0 && left[r]->calls == calls);
                assert_int_equal(left[r]->ended, 0);
                kept_free(left[r]);
            }
        }
}

static zr_status refused(trainer *run, zr_engine *engine, zr_comm *comm)
{
    kept *k = kept_make();
    const zr_sink sink = sink_of(k);
    (void)run, (void)comm;
    assert_int_equal(zr_engine_save(engine, &sink), ZR_ERR_STATE);
    kept_free(k);
    return ZR_OK;
}

static void test_not_planned(void **state)
{
    (void)state;
    play(refused, ZR_SAVE_NONE, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_step), cmocka_unit_test(test_sink_fails), cmocka_unit_test(test_disk_stands),
        cmocka_unit_test(test_updates_wait), cmocka_unit_test(test_step_stops), cmocka_unit_test(test_engine_goes),
        cmocka_unit_test(test_not_planned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
