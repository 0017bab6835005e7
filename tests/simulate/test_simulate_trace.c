//TEST timeout=180
/* The simulated order of events, by rank and stream, is the order in the trace of a run with the same configuration. */
#include "support/cli_run.h"
#include "plan/cost/cost.h"
#include "train/setup/setup.h"
#include "zr/run.h"

#include <zr.h>

enum { STEPS = 2, MOST = 4000 };

typedef struct run {
    const char *name;
    int ranks, stage, tensor, accum;
    const char *recompute;
} run;

static void write_config(const run *r)
{
    char config[2000];
    snprintf(config, sizeof(config),
             "{\"model\": {\"type\": \"gpt2\", \"n_layer\": 3, \"n_head\": 4, \"n_embd\": 48, \"n_positions\": 16, "
             "\"vocab_size\": 256}, \"data\": {\"train\": \"%s/text\", \"seq_length\": 16}, "
             "\"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": %d, "
             "\"activation_checkpointing\": {\"policy\": \"%s\"}, \"gradient_clipping\": 1.0, "
             "\"zero_optimization\": {\"stage\": %d, \"reduce_bucket_size\": 10000, \"allgather_bucket_size\": 10000}, "
             "\"parallel\": {\"tensor\": %d}, \"train\": {\"steps\": %d, \"threads\": 1, \"eval_interval\": 0}}",
             cli_dir, r->accum, r->recompute, r->stage, r->tensor, STEPS);
    cli_write("config.json", config);
}

static zr_plan *plan_of(const run *r)
{
    char path[300];
    zr_config *config = NULL;
    zr_device_config wanted = ZR_DEVICE_CONFIG_INIT;
    zr_device *device = NULL;
    zr_plan *plan = NULL;
    snprintf(path, sizeof(path), "%s/config.json", cli_dir);
    assert_int_equal(zr_config_load(path, NULL, 0, &config), ZR_OK);
    assert_int_equal(zr_train_prepare(config, r->ranks, 0), ZR_OK);
    assert_int_equal(zr_device_create_cpu(&wanted, &device), ZR_OK);
    assert_int_equal(zr__train_plan(config, r->ranks, -1, &device->profile, &plan), ZR_OK);
    zr_device_destroy(&device);
    zr_config_destroy(&config);
    return plan;
}

/* ---- events in their order ------------------------------------------------------------------------ */

typedef struct event {
    double begin, end;
    int32_t step;
    int stream;
} event;

typedef struct events {
    event event[MOST];
    int n;
} events;

static void add(events *e, event one)
{
    assert_true(e->n < MOST);
    e->event[e->n++] = one;
}

/* Compare events by stream, then by time. */
static int in_order(const void *a, const void *b)
{
    const event *x = a, *y = b;
    if (x->stream != y->stream) return x->stream < y->stream ? -1 : 1;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static int32_t end_of(const zr_plan *plan)
{
    int32_t end = 0;
    while (plan->schedule[ZR_SCHEDULE_TRAIN].step[end].kind != ZR_STEP_END) end++;
    return end;
}

/* Read the events of the last training step; from steps in the REPEAT, only those of the first round. */
static void read_trace(const run *r, const zr_plan *plan, events *ranks)
{
    char path[300];
    const int32_t end = end_of(plan);
    size_t i;
    json_t *one;
    snprintf(path, sizeof(path), "%s/trace.json", cli_dir);
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    json_array_foreach(json_object_get(root, "traceEvents"), i, one)
    {
        const json_t *args = json_object_get(one, "args");
        if (strcmp(json_string_value(json_object_get(one, "ph")), "X") != 0) continue;
        const int32_t step = (int32_t)json_integer_value(json_object_get(args, "step"));
        if (step < end && json_integer_value(json_object_get(args, "micro")) > 0) continue;
        const double begin = json_number_value(json_object_get(one, "ts"));
        const int rank = (int)json_integer_value(json_object_get(one, "pid"));
        assert_in_range(rank, 0, r->ranks - 1);
        add(&ranks[rank], (event){begin, begin + json_number_value(json_object_get(one, "dur")), step,
                                  (int)json_integer_value(json_object_get(one, "tid"))});
    }
    json_decref(root);
    for (int k = 0; k < r->ranks; k++) qsort(ranks[k].event, (size_t)ranks[k].n, sizeof(event), in_order);
}

/* Make a cluster where every step takes time, so that each step has a place in the order. */
static zr_cluster cluster_of(void)
{
    return (zr_cluster){.name = "test",
                        .device = {.flops_f32 = 1e10, .memory_bytes_sec = 1e10, .memory_bytes = 1000000000},
                        .product_share = 1,
                        .memory_share = 1,
                        .link_share = 1,
                        .step_sec = 1e-6,
                        .launch_sec = 1e-6,
                        .link = {{"links", 4, 1e9, 0, 1e-6}},
                        .n_links = 1,
                        .devices = 4,
                        .host_devices = 4};
}

static void simulate(const zr_plan *plan, events *e)
{
    static zr_step_time time[MOST];
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    const zr_cluster cluster = cluster_of();
    zr_simulation made;
    assert_true(s->n_steps <= MOST);
    if (zr_simulate(&ZR__ALONE(plan), &cluster, NULL, &made, (zr_step_time *[]){time}) != ZR_OK)
        fail_msg("%s", zr_error_message());
    for (int32_t i = 0; i < s->n_steps; i++) {
        const zr_step *step = &s->step[i];
        if (step->kind == ZR_STEP_REPEAT || step->kind == ZR_STEP_END || step->when == ZR_WHEN_LATER) continue;
        add(e, (event){time[i].begin_sec, time[i].end_sec, i, (int)step->stream});
    }
    qsort(e->event, (size_t)e->n, sizeof(event), in_order);
}

/* Return the first place where the events differ; -1: they are the same. */
static int differ(const events *a, const events *b)
{
    for (int i = 0; i < a->n && i < b->n; i++)
        if (a->event[i].step != b->event[i].step || a->event[i].stream != b->event[i].stream) return i;
    return a->n == b->n ? -1 : a->n < b->n ? a->n : b->n;
}

static void check_run(const run *r)
{
    static events ranks[4], simulated;
    memset(ranks, 0, sizeof(ranks));
    simulated.n = 0;
    write_config(r);
    if (cli_shell("%s train '%s/config.json' %s --quiet --train.output_dir='%s/%s' --trace '%s/trace.json' "
                  "--trace-steps %d:%d",
                  cli_zr(), cli_dir, cli_ranks(false, r->ranks), cli_dir, r->name, cli_dir, STEPS, STEPS) != 0) {
        cli_print_log();
        fail_msg("%s failed", r->name);
    }
    zr_plan *plan = plan_of(r);
    simulate(plan, &simulated);
    read_trace(r, plan, ranks);
    for (int k = 0; k < r->ranks; k++) {
        const int at = differ(&ranks[k], &simulated);
        if (at >= 0)
            fail_msg("%s, rank %d: event %d of %d is step %d on stream %d, simulated %d of %d on %d", r->name, k, at,
                     ranks[k].n, ranks[k].event[at].step, ranks[k].event[at].stream, simulated.event[at].step,
                     simulated.n, simulated.event[at].stream);
    }
    assert_true(simulated.n > 50);
    zr_plan_destroy(&plan);
}

static void test_order(void **state)
{
    (void)state;
    static const run runs[] = {
        {"two0", 2, 0, 1, 1, "none"},   {"two1", 2, 1, 1, 2, "none"},       {"two2", 2, 2, 1, 1, "unit"},
        {"two3", 2, 3, 1, 2, "unit"},   {"four0", 4, 0, 1, 2, "none"},      {"four1", 4, 1, 1, 1, "unit"},
        {"four2", 4, 2, 1, 2, "none"},  {"four3", 4, 3, 1, 1, "selective"}, {"layer0", 2, 0, 2, 1, "none"},
        {"layer1", 4, 1, 2, 2, "unit"}, {"layer2", 4, 2, 2, 1, "none"},     {"layer3", 4, 3, 2, 2, "none"}};
    cli_write_text();
    for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++) check_run(&runs[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order)};
    return cmocka_run_group_tests(tests, cli_setup, cli_teardown);
}
