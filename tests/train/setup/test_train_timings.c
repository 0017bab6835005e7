//TEST timeout=120 mpi=1
/* A trace has every step of the schedule on every rank, in each micro-batch that runs it, in an order that the waits
 * allow; timings add up to the training step, and their FLOPs to the plan's. */
#include "support/cli_run.h"

#include <math.h>

#include <zr.h>

#include "train/measure/timings.h"
#include "train/watch/trace.h"
#include "train/setup/setup.h"
#include "zr/run.h"

enum { RANKS = 2, STEPS = 4, FIRST = 2, LAST = 3, TRACED = LAST - FIRST + 1, ACCUM = 3 };

#define NS 0.0015 /* microseconds: a trace has whole nanoseconds */

static void write_config(void)
{
    char config[2000];
    cli_write_text();
    snprintf(config, sizeof config,
             "{\"model\": {\"type\": \"gpt2\", \"n_layer\": 3, \"n_head\": 3, \"n_embd\": 57, \"n_positions\": 24, "
             "\"vocab_size\": 256}, \"data\": {\"train\": \"%s/text\", \"seq_length\": 23},"
             " \"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": %d,"
             " \"activation_checkpointing\": {\"policy\": \"unit\"}, \"gradient_clipping\": 1.0,"
             " \"train\": {\"steps\": %d, \"threads\": 1, \"eval_interval\": 0}}",
             cli_dir, ACCUM, STEPS);
    cli_write("config.json", config);
}

static zr_plan *plan_of(int stage)
{
    char path[300], key[60];
    const char *const keys[] = {key};
    zr_config *config = NULL;
    zr_device_config wanted = ZR_DEVICE_CONFIG_INIT;
    zr_device *device = NULL;
    zr_plan *plan = NULL;
    snprintf(path, sizeof path, "%s/config.json", cli_dir);
    snprintf(key, sizeof key, "zero_optimization.stage=%d", stage);
    assert_int_equal(zr_config_load(path, keys, 1, &config), ZR_OK);
    assert_int_equal(zr_train_prepare(config, RANKS, 0), ZR_OK);
    assert_int_equal(zr_device_create_cpu(&wanted, &device), ZR_OK);
    assert_int_equal(zr__train_plan(config, RANKS, -1, &device->profile, &plan), ZR_OK);
    zr_device_destroy(&device);
    zr_config_destroy(&config);
    return plan;
}

static json_t *read_json(const char *name)
{
    char path[600];
    json_error_t error;
    snprintf(path, sizeof path, "%s/%s", cli_dir, name);
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!root) fail_msg("%s:%d: %s", path, error.line, error.text);
    return root;
}

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("no number %s", key);
    return json_number_value(value);
}

static bool is(const json_t *object, const char *key, const char *text)
{
    const char *have = json_string_value(json_object_get(object, key));
    return have && strcmp(have, text) == 0;
}

/* ---- trace ------------------------------------------------------------------------------------ */

typedef struct span {
    double begin, end;
    int seen;
} span;

/* Times of each step of the train schedule, indexed by rank, training step, micro-batch (0 for steps outside of the
 * REPEAT or run once) and step. */
typedef struct spans {
    const zr_plan *plan;
    bool *repeated; /* whether a step runs in every micro-batch: inside of the REPEAT, and not once */
    span *span;
    double last_end[RANKS][ZR_STREAMS]; /* end of the newest event */
    double flops;
    int64_t events;
} spans;

static span *span_at(const spans *s, int rank, int step, int micro, int32_t index)
{
    assert_in_range(micro, 0, ACCUM - 1);
    int64_t n = s->plan->schedule[ZR_SCHEDULE_TRAIN].n_steps;
    return &s->span[((int64_t)(rank * TRACED + step) * ACCUM + micro) * n + index];
}

static spans open_spans(const zr_plan *plan)
{
    const zr_schedule *schedule = &plan->schedule[ZR_SCHEDULE_TRAIN];
    spans s = {.plan = plan,
               .repeated = calloc((size_t)schedule->n_steps, sizeof(bool)),
               .span = calloc((size_t)schedule->n_steps * RANKS * TRACED * ACCUM, sizeof(span))};
    bool inside = false;
    for (int32_t i = 0; i < schedule->n_steps; i++) {
        inside = (inside || schedule->step[i].kind == ZR_STEP_REPEAT) && schedule->step[i].kind != ZR_STEP_END;
        s.repeated[i] = inside && schedule->step[i].when != ZR_WHEN_STALE;
    }
    return s;
}

static void see(spans *s, const json_t *event)
{
    const json_t *args = json_object_get(event, "args");
    int rank = (int)number_of(event, "pid"), stream = (int)number_of(event, "tid");
    double begin = number_of(event, "ts"), end = begin + number_of(event, "dur");
    assert_in_range(rank, 0, RANKS - 1);
    assert_in_range(stream, 0, ZR_STREAMS - 1);
    if (begin < s->last_end[rank][stream] - NS)
        fail_msg("rank %d, stream %d: an event at %.3f us, when the one before it ends at %.3f", rank, stream, begin,
                 s->last_end[rank][stream]);
    s->last_end[rank][stream] = end;
    s->events++;
    if (json_object_get(args, "flops")) s->flops += number_of(args, "flops");
    assert_true(is(args, "schedule", "train"));
    int32_t index = (int32_t)number_of(args, "step");
    assert_in_range(index, 0, s->plan->schedule[ZR_SCHEDULE_TRAIN].n_steps - 1);
    int micro = s->repeated[index] ? (int)number_of(args, "micro") : 0;
    span *at = span_at(s, rank, (int)number_of(args, "training_step") - FIRST, micro, index);
    assert_int_equal(s->plan->schedule[ZR_SCHEDULE_TRAIN].step[index].stream, stream);
    *at = (span){begin, end, at->seen + 1};
}

/* Check that a step begins after the steps that it waits for: in its own micro-batch, or, for steps after the END, in
 * the last micro-batch. */
static void check_waits(const spans *s, int rank, int step, int micro, int32_t index)
{
    const zr_schedule *schedule = &s->plan->schedule[ZR_SCHEDULE_TRAIN];
    const zr_step *at = &schedule->step[index];
    double begin = span_at(s, rank, step, micro, index)->begin;
    for (int32_t w = at->waits; w < at->waits + at->n_waits; w++) {
        int32_t on = schedule->wait[w].step;
        int of = !s->repeated[on] ? 0 : s->repeated[index] ? micro - schedule->wait[w].before : ACCUM - 1;
        if (of < 0) continue; /* the first round has no round before */
        double end = span_at(s, rank, step, of, on)->end;
        if (begin < end - NS) fail_msg("step %d begins at %.3f us, step %d ends at %.3f", index, begin, on, end);
    }
}

static void check_all_seen(const spans *s)
{
    const zr_schedule *schedule = &s->plan->schedule[ZR_SCHEDULE_TRAIN];
    int waits = 0;
    for (int rank = 0; rank < RANKS; rank++)
        for (int step = 0; step < TRACED; step++)
            for (int micro = 0; micro < ACCUM; micro++)
                for (int32_t i = 0; i < schedule->n_steps; i++) {
                    zr_step_kind kind = schedule->step[i].kind;
                    bool runs = kind != ZR_STEP_REPEAT && kind != ZR_STEP_END && (micro == 0 || s->repeated[i]);
                    int seen = span_at(s, rank, step, micro, i)->seen;
                    if (seen != runs)
                        fail_msg("rank %d, training step %d, micro-batch %d: step %d (%s) ran %d times", rank, step,
                                 micro, i, zr_step_kind_name(kind), seen);
                    if (runs) check_waits(s, rank, step, micro, i);
                    if (runs) waits += schedule->step[i].n_waits;
                }
    assert_true(waits > 0);
}

/* Check a trace, and return the number of events of a training step and rank. */
static double check_trace(const zr_plan *plan, const char *name)
{
    json_t *root = read_json(name);
    const json_t *events = json_object_get(root, "traceEvents"), *event;
    spans s = open_spans(plan);
    int names = 0;
    size_t i;
    json_array_foreach(events, i, event)
    {
        names += is(event, "name", "process_name") || is(event, "name", "thread_name");
        if (is(event, "ph", "X")) see(&s, event);
    }
    assert_int_equal(names, RANKS * (1 + 2)); /* names of the process and its streams */
    check_all_seen(&s);
    assert_true(s.flops == plan->flops_hardware * TRACED);
    free(s.repeated);
    free(s.span);
    json_decref(root);
    return (double)s.events / (TRACED * RANKS);
}

/* ---- timings ---------------------------------------------------------------------------------- */

/* Return the timings in run.json, and check that standard output has the same. */
static json_t *read_timings(const char *run)
{
    char name[60];
    snprintf(name, sizeof name, "%s/run.json", run);
    json_t *of_run = read_json(name);
    snprintf(name, sizeof name, "%s.out", run);
    json_t *printed = read_json(name);
    json_t *timings = json_incref(json_object_get(of_run, "timings"));
    assert_non_null(timings);
    assert_true(json_equal(timings, json_object_get(printed, "timings")));
    json_decref(of_run);
    json_decref(printed);
    return timings;
}

static void check_timings(const zr_plan *plan, const char *run, double events)
{
    json_t *timings = read_timings(run);
    const json_t *kind;
    double flops = 0, calls = 0, ms[ZR_STREAMS] = {0}, last = HUGE_VAL, wire = 0;
    double step_ms = number_of(timings, "step_ms"), compute_ms = number_of(timings, "compute_ms");
    double exposed_ms = number_of(timings, "exposed_ms"), comm_ms = number_of(timings, "comm_ms");
    size_t i;
    json_array_foreach(json_object_get(timings, "kinds"), i, kind)
    {
        ms[is(kind, "stream", "comm") ? ZR_STREAM_COMM : ZR_STREAM_COMPUTE] += number_of(kind, "ms");
        flops += number_of(kind, "flops");
        calls += number_of(kind, "calls");
        wire += number_of(kind, "wire_bytes");
        assert_true(number_of(kind, "slowest_ms") >= number_of(kind, "ms") * (1 - 1e-8));
        assert_true(number_of(kind, "ms") <= last); /* longest first */
        last = number_of(kind, "ms");
    }
    assert_int_equal((int)number_of(timings, "steps"), STEPS - 1);
    assert_int_equal((int)number_of(timings, "ranks"), RANKS);
    assert_true(fabs(flops * RANKS - plan->flops_hardware) <= 1e-6 * plan->flops_hardware);
    assert_true(fabs(calls - events) <= 1e-6 * events);
    assert_true(wire ==
                (double)(plan->traffic.bytes[ZR_TRAFFIC_REDUCE_SCATTER] + plan->traffic.bytes[ZR_TRAFFIC_ALL_GATHER]));
    assert_true(fabs(ms[ZR_STREAM_COMPUTE] - compute_ms) <= 1e-6 * compute_ms);
    assert_true(fabs(ms[ZR_STREAM_COMM] - comm_ms) <= 1e-6 * comm_ms);
    assert_true(compute_ms > 0 && compute_ms <= step_ms && comm_ms > 0);
    assert_true(exposed_ms >= 0 && exposed_ms <= comm_ms * (1 + 1e-6));
    assert_true(fabs(compute_ms + exposed_ms + number_of(timings, "idle_ms") - step_ms) <= 1e-6 * step_ms);
    json_decref(timings);
}

static void check_run(bool mpi, int stage)
{
    char run[20], trace[40];
    snprintf(run, sizeof run, "%s%d", mpi ? "mpi" : "threads", stage);
    snprintf(trace, sizeof trace, "%s/trace.json", run); /* in the run's own directory, not made yet */
    int rc = cli_shell("%s %s train '%s/config.json' %s --zero_optimization.stage=%d --train.output_dir='%s/%s' "
                       "--timings --json --trace '%s/%s' --trace-steps %d:%d >'%s/%s.out'",
                       cli_launcher(mpi, RANKS), cli_zr(), cli_dir, cli_ranks(mpi, RANKS), stage, cli_dir, run, cli_dir,
                       trace, FIRST, LAST, cli_dir, run);
    if (rc != 0) {
        cli_print_log();
        fail_msg("%s ended with %d", run, rc);
    }
    zr_plan *plan = plan_of(stage);
    check_timings(plan, run, check_trace(plan, trace));
    zr_plan_destroy(&plan);
}

/* Check runs at stage 1, which gathers parameters updated in the step before, and stage 3, which gathers them for every
 * use. */
static void test_threads(void **state)
{
    (void)state;
    check_run(false, 1);
    check_run(false, 3);
}

static void test_mpi(void **state)
{
    (void)state;
    if (!cli_have_mpirun()) skip();
    check_run(true, 3);
}

/* Check the timings of a run whose first step is its only one. */
static void test_one_step(void **state)
{
    (void)state;
    int rc = cli_shell("%s train '%s/config.json' --quiet --train.steps=1 --train.output_dir='%s/one' --timings",
                       cli_zr(), cli_dir, cli_dir);
    assert_int_equal(rc, 0);
    json_t *root = read_json("one/run.json"), *timings = json_object_get(root, "timings");
    assert_int_equal((int)number_of(timings, "steps"), 1);
    assert_true(number_of(timings, "compute_ms") > 0);
    json_decref(root);
}

/* ---- more kinds than there are places ---------------------------------------------------------- */

enum { WIDTHS = 70 };

/* Build a model whose products all have different shapes: the forward ones alone are more kinds than
 * ZR_TIMING_KINDS. */
static void build_widths(zr_graph *g, const void *config)
{
    (void)config;
    zr_shape ids = {2, {1, 4}};
    zr_init init = {ZR_INIT_NORMAL, 0.02};
    zr_value tokens = zr_input(g, "tokens", ZR_I32, ids), targets = zr_input(g, "targets", ZR_I32, ids);
    zr_graph_unit(g, "u");
    zr_value x = zr_embedding(g, tokens, zr_param(g, init, (zr_shape){2, {8, 4}}, "table"));
    for (int i = 0; i < WIDTHS; i++) {
        zr_graph_unit(g, "h.%d", i);
        zr_value w = zr_param(g, init, (zr_shape){2, {4 + i, 5 + i}}, "h.%d", i);
        x = zr_linear(g, x, w, ZR_NONE, false);
    }
    zr_graph_losses(g, zr_cross_entropy(g, x, targets));
}

static zr_plan *widths_plan(int64_t accum, zr_save save, bool apart)
{
    const zr_model model = {.name = "widths", .build = build_widths};
    const zr_profile profile = {
        .facts = {.name = "test", .threads = 1, .own_memory = apart, .scratch_bytes = zr_device_cpu_scratch}};
    zr_layout layout = zr_layout_default();
    zr_plan *plan = NULL;
    layout.save = save;
    layout.ranks = 2;
    layout.stage = 3;
    layout.batch = 1;
    layout.accum = accum;
    layout.seq = 4;
    layout.optimizer = zr_adamw(0.9, 0.95, 1e-8, 0.1);
    if (zr_plan_create(&model, &layout, &profile, &plan) != ZR_OK) fail_msg("%s", zr_error_message());
    return plan;
}

/* Check that kinds without a free entry are added to the kind "other" of their own stream, so that no two threads add
 * to the same kind. */
static void test_many_kinds(void **state)
{
    (void)state;
    zr_plan *plan = widths_plan(1, ZR_SAVE_NONE, false);
    zr_comm *comm = NULL;
    zr__timings *timings = NULL;
    zr_timings out;
    assert_int_equal(zr_comm_create_self(&comm), ZR_OK);
    assert_int_equal(zr__timings_create(&(zr_plans){.role = {plan}, .n = 1}, &timings), ZR_OK);
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    double calls[ZR_STREAMS] = {0}, seen[ZR_STREAMS] = {0}, other = 0;
    zr__timings_begin(timings);
    for (int32_t i = 0; i < s->n_steps; i++) {
        if (s->step[i].kind == ZR_STEP_REPEAT || s->step[i].kind == ZR_STEP_END) continue;
        zr__timings_event(timings, &(zr_event){.step = i, .stream = s->step[i].stream, .end_sec = 1.0});
        calls[s->step[i].stream]++;
    }
    zr__timings_end(timings, 1.0);
    assert_int_equal(zr__timings_collect(timings, comm, &out), ZR_OK);
    for (int k = 0; k < out.n_kinds; k++) {
        seen[out.kind[k].stream] += out.kind[k].calls;
        if (strcmp(out.kind[k].name, "other") == 0) other += out.kind[k].calls;
    }
    assert_int_equal(out.n_kinds, ZR_TIMING_KINDS);
    assert_true(calls[ZR_STREAM_COMM] > 0 && seen[ZR_STREAM_COMM] == calls[ZR_STREAM_COMM]);
    assert_true(seen[ZR_STREAM_COMPUTE] == calls[ZR_STREAM_COMPUTE]);
    assert_true(other >= 3 * WIDTHS - ZR_TIMING_KINDS);
    zr__timings_destroy(&timings);
    zr_comm_destroy(&comm);
    zr_plan_destroy(&plan);
}

/* ---- made-up events --------------------------------------------------------------------------- */

/* Return a step of the train schedule on this stream. */
static int32_t step_on(const zr_plan *plan, zr_stream stream)
{
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    for (int32_t i = 0; i < s->n_steps; i++)
        if (s->step[i].stream == stream && s->step[i].kind != ZR_STEP_REPEAT && s->step[i].kind != ZR_STEP_END)
            return i;
    fail_msg("no step on stream %d", (int)stream);
    return -1;
}

/* Time one optimizer step in which the streams ran from begin to end, {begin, end} each. */
static zr_timings one_step_of(zr__timings *timings, const zr_plan *plan, const double (*compute)[2],
                              const double (*comm)[2], int n, double wall_sec)
{
    const double(*const times[ZR_STREAMS])[2] = {[ZR_STREAM_COMPUTE] = compute, [ZR_STREAM_COMM] = comm};
    zr_comm *self = NULL;
    zr_timings out;
    zr__timings_begin(timings);
    for (int s = 0; s < ZR_STREAMS; s++)
        for (int i = 0; times[s] && i < n; i++)
            zr__timings_event(timings, &(zr_event){.step = step_on(plan, (zr_stream)s),
                                                   .stream = (zr_stream)s,
                                                   .begin_sec = times[s][i][0],
                                                   .end_sec = times[s][i][1]});
    zr__timings_end(timings, wall_sec);
    assert_int_equal(zr_comm_create_self(&self), ZR_OK);
    assert_int_equal(zr__timings_collect(timings, self, &out), ZR_OK);
    zr_comm_destroy(&self);
    assert_int_equal(out.steps, 1);
    return out;
}

/* Check that an interrupted step leaves the numbers of earlier steps unchanged, also of the first. */
static void test_dropped(void **state)
{
    (void)state;
    static const double all[1][2] = {{0, 4}};
    zr_plan *plan = widths_plan(1, ZR_SAVE_NONE, false);
    zr__timings *timings = NULL;
    assert_int_equal(zr__timings_create(&(zr_plans){.role = {plan}, .n = 1}, &timings), ZR_OK);
    for (int step = 0; step < 2; step++) { /* only the first step, and then one more step, which replaces its numbers */
        zr_timings before = one_step_of(timings, plan, all, all, 1, 5), after;
        zr_comm *self = NULL;
        zr__timings_begin(timings);
        zr__timings_event(timings, &(zr_event){.step = step_on(plan, ZR_STREAM_COMPUTE), .end_sec = 1});
        zr__timings_end(timings, 1);
        zr__timings_drop(timings);
        assert_int_equal(zr_comm_create_self(&self), ZR_OK);
        assert_int_equal(zr__timings_collect(timings, self, &after), ZR_OK);
        zr_comm_destroy(&self);
        assert_int_equal(after.steps, 1);
        assert_int_equal(after.left_out, step == 1);
        assert_true(after.step_sec == 5 && after.compute_sec == before.compute_sec);
        assert_true(after.kind[0].sec == before.kind[0].sec && after.kind[0].calls == before.kind[0].calls);
    }
    zr__timings_destroy(&timings);
    zr_plan_destroy(&plan);
}

/* Check that a copy in the compute stream's queue counts as computing, and a copy beside it does not. */
static void test_copies(void **state)
{
    (void)state;
    for (int apart = 0; apart <= 1; apart++) {
        zr_plan *plan = widths_plan(1, ZR_SAVE_COPY, apart);
        zr__timings *timings = NULL;
        zr_comm *self = NULL;
        zr_timings out;
        assert_int_equal(zr__timings_create(&(zr_plans){.role = {plan}, .n = 1}, &timings), ZR_OK);
        zr__timings_begin(timings);
        for (int s = ZR_STREAM_COMPUTE; s <= ZR_STREAM_COPY; s += ZR_STREAM_COPY)
            zr__timings_event(timings, &(zr_event){.step = step_on(plan, (zr_stream)s),
                                                   .stream = (zr_stream)s,
                                                   .begin_sec = s == ZR_STREAM_COMPUTE ? 2 : 0,
                                                   .end_sec = s == ZR_STREAM_COMPUTE ? 3 : 2});
        zr__timings_end(timings, 3);
        assert_int_equal(zr_comm_create_self(&self), ZR_OK);
        assert_int_equal(zr__timings_collect(timings, self, &out), ZR_OK);
        assert_true(out.compute_sec == (apart ? 1 : 3) && out.idle_sec == (apart ? 2 : 0) && out.exposed_sec == 0);
        zr_comm_destroy(&self);
        zr__timings_destroy(&timings);
        zr_plan_destroy(&plan);
    }
}

/* Check that communication is exposed only while no step computes, even if there would have been time to overlap it. */
static void test_exposed(void **state)
{
    (void)state;
    static const double compute[2][2] = {{0, 4}, {6, 10}}, hidden[2][2] = {{1, 2}, {2, 3}},
                        partly[2][2] = {{3, 7}, {9, 12}};
    zr_plan *plan = widths_plan(1, ZR_SAVE_NONE, false);
    zr__timings *timings = NULL;
    assert_int_equal(zr__timings_create(&(zr_plans){.role = {plan}, .n = 1}, &timings), ZR_OK);
    zr_timings out = one_step_of(timings, plan, compute, hidden, 2, 10.5);
    assert_true(out.compute_sec == 8 && out.comm_sec == 2);
    assert_true(out.exposed_sec == 0 && out.idle_sec == 2.5);
    out = one_step_of(timings, plan, compute, partly, 2, 13);
    assert_true(out.compute_sec == 8 && out.comm_sec == 7);
    assert_true(out.exposed_sec == 4 && out.idle_sec == 1);
    zr__timings_destroy(&timings);
    zr_plan_destroy(&plan);
}

/* Return the trace's note after `events` steps on one stream within one training step. */
static const char *note_of(zr_plan *plan, int64_t events, char note[512])
{
    char path[300];
    const zr__run_dir dir = ZR_RUN_DIR_INIT;
    const zr_config config = {.state = NULL};
    zr__trace *trace = NULL;
    zr_comm *self = NULL;
    snprintf(path, sizeof path, "%s/full.json", cli_dir);
    assert_int_equal(zr_comm_create_self(&self), ZR_OK);
    assert_int_equal(zr__trace_create(&(zr_plans){.role = {plan}, .n = 1}, &(zr_trace){path, 1, 1}, &trace), ZR_OK);
    assert_int_equal(zr__trace_open(trace, &dir, &config), ZR_OK);
    const zr_event event = {.step = step_on(plan, ZR_STREAM_COMPUTE), .stream = ZR_STREAM_COMPUTE};
    for (int64_t i = 0; i < events; i++) zr__trace_event(trace, &event);
    assert_int_equal(zr__trace_collect(trace, self, 0), ZR_OK);
    const char *said = zr__trace_note(trace);
    snprintf(note, 512, "%s", said ? said : "");
    zr__trace_destroy(&trace);
    zr_comm_destroy(&self);
    return note;
}

/* Check that a trace counts as cut only if events are left out, not when it is exactly full. */
static void test_full_trace(void **state)
{
    (void)state;
    char note[512];
    zr_plan *plan = widths_plan(200, ZR_SAVE_NONE, false); /* more events than the trace has room for */
    assert_string_equal(note_of(plan, 32768, note), "");
    assert_non_null(strstr(note_of(plan, 32769, note), "room for 32768 steps"));
    zr_plan_destroy(&plan);
}

/* Check that only attention, forward and backward, is marked as multiplying in fp32, and not on a device that
 * multiplies it in 16 bits. */
static void check_in_f32(bool narrow)
{
    static const double none[1][2];
    zr_plan *plan = plan_of(1);
    plan->profile.facts.narrow_attention = plan->profile.facts.own_memory = narrow;
    zr__timings *timings = NULL;
    int found = 0;
    assert_int_equal(zr__timings_create(&(zr_plans){.role = {plan}, .n = 1}, &timings), ZR_OK);
    zr_timings out = one_step_of(timings, plan, none, none, 1, 1.0);
    for (int k = 0; k < out.n_kinds; k++) {
        bool attention = strcmp(out.kind[k].name, "attention") == 0 || strcmp(out.kind[k].name, "attention_dx") == 0;
        assert_int_equal(out.kind[k].in_f32, attention && !narrow);
        found += attention;
    }
    assert_int_equal(found, 2);
    zr__timings_destroy(&timings);
    zr_plan_destroy(&plan);
}

static void test_in_f32(void **state)
{
    (void)state;
    check_in_f32(false);
    check_in_f32(true);
}

/* Check that in bf16 attention's rate is given as a share of the fp32 peak, and that without a known peak there is no
 * share. */
static void test_peaks(void **state)
{
    (void)state;
    zr_timings t = {.peak_flops = 400, .peak_f32_flops = 100};
    zr_timing product = {.flops = 50, .sec = 1}, attention = {.flops = 50, .sec = 1, .in_f32 = true};
    assert_true(zr__timing_rate_of(&t, &product).of_peak == 0.125);
    assert_true(zr__timing_rate_of(&t, &attention).of_peak == 0.5);
    t.peak_f32_flops *= 0.25; /* faster than the peak, so that no share is given */
    assert_true(isnan(zr__timing_rate_of(&t, &attention).of_peak));
    assert_true(isfinite(zr__timing_rate_of(&t, &attention).per_sec));
    t.peak_f32_flops = 0;
    assert_true(isnan(zr__timing_rate_of(&t, &attention).of_peak));
}

static int setup(void **state)
{
    if (cli_setup(state) != 0) return -1;
    write_config();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),    cmocka_unit_test(test_mpi),     cmocka_unit_test(test_one_step),
        cmocka_unit_test(test_many_kinds), cmocka_unit_test(test_peaks),   cmocka_unit_test(test_copies),
        cmocka_unit_test(test_exposed),    cmocka_unit_test(test_dropped), cmocka_unit_test(test_in_f32),
        cmocka_unit_test(test_full_trace),
    };
    return cmocka_run_group_tests(tests, setup, cli_teardown);
}
