//TEST timeout=60
/* Steps priced from measured steps: the same step, a step between two measured ones, and a step without a measurement.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan/plan_make.h"
#include "simulate/simulate.h"
#include "base/core/core.h"

static void close_to(double have, double want)
{
    if (!(fabs(have - want) <= 1e-6 * fabs(want))) fail_msg("have %.17g, want %.17g", have, want);
}

static zr_step_sample sample_of(const char *kind, double flops, double memory_bytes, double sec)
{
    zr_step_sample s = {.cost = {.flops = flops, .memory_bytes = memory_bytes}, .sec = sec};
    snprintf(s.kind, sizeof s.kind, "%s", kind);
    return s;
}

static double sec_of(const zr_launch *launch, zr_step_sample step)
{
    double sec = -1;
    step.sec = 0;
    return zr__measured_sec(launch, &step, &sec) ? sec : NAN;
}

/* ---- one step ---------------------------------------------------------------------------------- */

static void test_between(void **state)
{
    (void)state;
    zr_step_sample sample[] = {sample_of("add", 0, 1e3, 1e-6), sample_of("add", 0, 4e3, 16e-6)};
    const zr_launch launch = {.sample = sample, .n_samples = 2};
    close_to(sec_of(&launch, sample[0]), 1e-6);
    close_to(sec_of(&launch, sample[1]), 16e-6);
    /* Half way in octaves: the geometric mean of 1 and 4 ns a byte. */
    close_to(sec_of(&launch, sample_of("add", 0, 2e3, 0)), 2e3 * 2e-9);
    /* Far beyond all samples: nearly the mean of both, with more weight on the nearer one. */
    const double beyond = sec_of(&launch, sample_of("add", 0, 4e9, 0)) / 4e9;
    assert_true(beyond > 2e-9 && beyond < 4e-9);
    assert_true(isnan(sec_of(&launch, sample_of("sub", 0, 1e3, 0))));
    zr_step_sample narrow = sample[0];
    narrow.narrow = true;
    assert_true(isnan(sec_of(&launch, narrow)));
}

/* Check that products with equal FLOPs but other sizes run at different rates. */
static void test_products(void **state)
{
    (void)state;
    zr_step_sample flat = sample_of("linear", 2e6, 0, 2e-3), cube = sample_of("linear", 2e6, 0, 1e-3);
    flat.cost.product = zr__product_sizes_of(10, 100, 1000);
    cube.cost.product = zr__product_sizes_of(100, 100, 100);
    zr_step_sample sample[] = {flat, cube};
    const zr_launch launch = {.sample = sample, .n_samples = 2};
    close_to(sec_of(&launch, flat), 2e-3);
    close_to(sec_of(&launch, cube), 1e-3);
    zr_step_sample near = sample_of("linear", 16e6, 0, 0);
    near.cost.product = zr__product_sizes_of(200, 200, 200);
    const double sec = sec_of(&launch, near);
    assert_true(sec > 8e-3 && sec < 9e-3);
}

/* Check that an exchange takes the sample with the nearest number of ranks, on one host or on several, and that an
 * exchange without bytes takes the measured time. */
static void test_exchanges(void **state)
{
    (void)state;
    zr_step_sample sample[4] = {{.kind = "gather", .ranks = 2, .cost = {.wire_bytes = 1e6}, .sec = 1e-3},
                                {.kind = "gather", .ranks = 8, .cost = {.wire_bytes = 1e6}, .sec = 4e-3},
                                {.kind = "gather", .ranks = 2, .across = true, .cost = {.wire_bytes = 1e6}, .sec = 1},
                                {.kind = "norm", .ranks = 2, .sec = 7e-5}};
    const zr_launch launch = {.sample = sample, .n_samples = 4};
    zr_step_sample step = sample[0];
    step.cost.wire_bytes = 3e6;
    close_to(sec_of(&launch, step), 3e-3);
    step.ranks = 6;
    close_to(sec_of(&launch, step), 12e-3);
    step.across = true;
    close_to(sec_of(&launch, step), 3);
    step = sample[3];
    step.ranks = 5;
    close_to(sec_of(&launch, step), 7e-5);
    step.ranks = 1; /* a rank alone waits for no other */
    assert_true(isnan(sec_of(&launch, step)));
}

/* ---- a training step --------------------------------------------------------------------------- */

/* Plan for `ranks` ranks, `host_ranks` on each host; 0: one host. */
static zr_plan *plan_on(int ranks, int threads, int host_ranks)
{
    static const zr_gpt2_config sizes = {.n_layer = 2,
                                         .n_head = 2,
                                         .n_embd = 32,
                                         .n_positions = 16,
                                         .vocab_size = 96,
                                         .layer_norm_epsilon = 1e-5,
                                         .initializer_range = 0.02};
    const zr_model model = zr_gpt2(&sizes);
    zr_layout layout = plan_layout(3, ranks, ZR_F32, 1);
    layout.host_ranks = host_ranks;
    zr_profile profile = {.facts = {.name = "test", .threads = threads}};
    return plan_make(&model, &layout, &profile);
}

static zr_plan *plan_of(int ranks, int threads)
{
    return plan_on(ranks, threads, 0);
}

/* Make a sample of every step of the plan; step number i takes (i + 1) us. */
static zr_launch launch_of(const zr_plan *plan, zr_step_sample sample[], int32_t most)
{
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int32_t n = 0;
    assert_true(s->n_steps <= most);
    for (int32_t i = 0; i < s->n_steps; i++) {
        if (s->step[i].kind == ZR_STEP_REPEAT || s->step[i].kind == ZR_STEP_END) continue;
        sample[n] = zr__step_sample_of(plan, ZR_SCHEDULE_TRAIN, i);
        sample[n++].sec = 1e-6 * (i + 1);
    }
    return (zr_launch){.transport = "threads",
                       .ranks = plan->ranks,
                       .hosts = 1,
                       .threads = plan->profile.facts.threads,
                       .cores = plan->ranks * plan->profile.facts.threads,
                       .around_sec = 1e-3,
                       .sample = sample,
                       .n_samples = n};
}

static zr_cluster cluster_of(int ranks, const zr_launch *launch)
{
    return (zr_cluster){.name = "here",
                        .device = {.flops_f32 = 1e9, .memory_bytes_sec = 1e9},
                        .product_share = 1,
                        .memory_share = 1,
                        .link_share = 1,
                        .link = {{"memory", ranks, 1e9, 0, 0}},
                        .n_links = ranks > 1,
                        .devices = ranks,
                        .host_devices = ranks,
                        .measured = launch};
}

static zr_simulation simulate(const zr_plan *plan, const zr_launch *launch, double straggler)
{
    const zr_cluster cluster = cluster_of(plan->ranks, launch);
    const zr_simulate_options options = {.straggler = straggler};
    zr_simulation made;
    assert_int_equal(zr_simulate(&ZR__ALONE(plan), &cluster, &options, &made, NULL), ZR_OK);
    return made;
}

enum { MOST = 4096 };
static zr_step_sample sample[MOST];

/* Check that where steps run one after another, the training step takes their sum and the time around it. */
static void test_sum(void **state)
{
    (void)state;
    zr_plan *plan = plan_of(2, 1);
    const zr_launch launch = launch_of(plan, sample, MOST);
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    double sum = 0, exchanged = 0;
    for (int32_t i = 0; i < s->n_steps; i++) {
        const zr_step_sample step = zr__step_sample_of(plan, ZR_SCHEDULE_TRAIN, i);
        double sec = NAN;
        if (s->step[i].kind == ZR_STEP_REPEAT || s->step[i].kind == ZR_STEP_END) continue;
        assert_true(zr__measured_sec(&launch, &step, &sec));
        sum += sec;
        if (step.ranks > 1) exchanged += sec;
    }
    const zr_simulation made = simulate(plan, &launch, 0);
    close_to(made.price.step_sec, sum + 1e-3);
    close_to(made.price.exposed_sec, exchanged);
    assert_true(made.exposed_sec[ZR_CAUSE_STAGE] > 0);
    /* A rank that computes slower moves bytes at the same speed. */
    close_to(simulate(plan, &launch, 3).price.step_sec, exchanged + 3 * (sum - exchanged) + 1e-3);
    zr_plan_destroy(&plan);
}

/* Check the waits of ranks for each other: a share of the time computed since the last exchange, including the tail of
 * the step before. */
static void test_waits(void **state)
{
    (void)state;
    zr_plan *plan = plan_of(2, 1);
    zr_launch launch = launch_of(plan, sample, MOST);
    const zr_simulation without = simulate(plan, &launch, 0);
    launch.wait[0] = (zr_wait_sample){.computed_sec = 1, .share = 0.25};
    launch.n_waits = 1;
    /* A shorter computation has the same share, the only one measured. */
    close_to(simulate(plan, &launch, 0).price.step_sec, without.price.step_sec + 0.25 * without.price.compute_sec);
    /* Two equally near samples have equal weights. */
    launch.wait[1] = (zr_wait_sample){.computed_sec = 1, .share = 0.75};
    launch.n_waits = 2;
    close_to(simulate(plan, &launch, 0).price.step_sec, without.price.step_sec + 0.5 * without.price.compute_sec);
    /* Waits do not grow beyond the longest measured computation; here the limit is far below the times computed. */
    const double longest = 1e-9;
    launch.wait[0] = (zr_wait_sample){.computed_sec = longest, .share = 0.25};
    launch.n_waits = 1;
    double exchanges = 0;
    for (int32_t i = 0; i < launch.n_samples; i++) exchanges += launch.sample[i].ranks > 1;
    close_to(simulate(plan, &launch, 0).price.step_sec - without.price.step_sec, 0.25 * longest * exchanges);
    zr_plan_destroy(&plan);
}

/* Check that where exchanges run beside computing, each is slowed while both run. */
static void test_beside(void **state)
{
    (void)state;
    zr_plan *plan = plan_of(2, 1);
    zr_launch launch = launch_of(plan, sample, MOST);
    const double in_turn = simulate(plan, &launch, 0).price.step_sec;
    launch.beside = true;
    const zr_simulation free = simulate(plan, &launch, 0);
    const double both = free.price.compute_sec + free.price.comm_sec - (free.price.step_sec - 1e-3);
    assert_true(both > 0 && free.price.step_sec < in_turn);
    launch.lost = 0.5;
    const zr_simulation slowed = simulate(plan, &launch, 0);
    assert_true(slowed.price.compute_sec > free.price.compute_sec);
    assert_true(slowed.price.compute_sec < 2 * free.price.compute_sec);
    close_to(slowed.price.comm_sec, free.price.comm_sec);
    assert_true(slowed.price.step_sec >= free.price.step_sec && slowed.price.step_sec <= in_turn);
    /* Where exchange and computing overlap, each loses its share of that time. */
    launch.late = 0.25;
    const zr_price price = simulate(plan, &launch, 0).price;
    const double computing = price.compute_sec - free.price.compute_sec, moving = price.comm_sec - free.price.comm_sec;
    const double side_by_side = price.compute_sec + price.comm_sec - (price.step_sec - 1e-3);
    close_to(computing / launch.lost, moving / launch.late);
    assert_true(fabs(moving / launch.late / side_by_side - 1) < 0.01);
    assert_true(price.step_sec >= slowed.price.step_sec && price.step_sec <= in_turn);
    zr_plan_destroy(&plan);
}

/* Check that between hosts no exchange is faster than the long-run rate of their links, though a measured step may
 * be. */
static void test_links(void **state)
{
    (void)state;
    zr_plan *plan = plan_on(2, 1, 1);
    const zr_launch launch = launch_of(plan, sample, MOST);
    zr_cluster cluster = cluster_of(2, &launch);
    const zr_simulate_options options = {.ranks_per_host = 1};
    zr_simulation made;
    double sum = 0;
    int limited = 0, free = 0;
    cluster.host_devices = 1;
    cluster.link[0].bytes_sec = 1e8;
    for (int32_t i = 0; i < launch.n_samples; i++) {
        const zr_step_sample *s = &sample[i];
        double sec;
        assert_true(zr__measured_sec(&launch, s, &sec));
        const double least = s->across ? s->cost.wire_bytes / cluster.link[0].bytes_sec : 0;
        limited += least > sec;
        free += s->across && s->cost.wire_bytes > 0 && least < sec;
        sum += fmax(sec, least);
    }
    assert_true(limited > 0 && free > 0);
    assert_int_equal(zr_simulate(&ZR__ALONE(plan), &cluster, &options, &made, NULL), ZR_OK);
    close_to(made.price.step_sec, sum + 1e-3);
    zr_plan_destroy(&plan);
}

/* Check that exchanges with a spread are waited for longer than exchanges that always take their mean, that the seed
 * decides the draws, and that the parts add up to the whole. */
static void test_spread(void **state)
{
    (void)state;
    zr_plan *plan = plan_of(2, 1);
    zr_launch launch = launch_of(plan, sample, MOST);
    launch.beside = true;
    const zr_simulation even = simulate(plan, &launch, 0);
    launch.spread = 0.8;
    const zr_simulation varied = simulate(plan, &launch, 0), again = simulate(plan, &launch, 0);
    assert_true(varied.price.exposed_sec > even.price.exposed_sec);
    assert_true(varied.price.step_sec == again.price.step_sec);
    close_to(varied.price.compute_sec, even.price.compute_sec);
    assert_true(fabs(varied.price.comm_sec / even.price.comm_sec - 1) < 0.2); /* the mean of many draws is near */
    double parts = varied.product_sec + varied.memory_sec + varied.launch_sec;
    for (int c = 0; c < ZR_CAUSES; c++) parts += varied.exposed_sec[c];
    close_to(parts, varied.price.step_sec);
    launch.beside = false;
    launch.spread = 0;
    const double in_turn = simulate(plan, &launch, 0).price.step_sec;
    launch.spread = 0.8; /* where exchanges and computing run one after another, only means count */
    assert_true(simulate(plan, &launch, 0).price.step_sec == in_turn);
    zr_plan_destroy(&plan);
}

/* Check that half of the threads, or twice the ranks on the same cores, takes twice as long. */
static void test_other_load(void **state)
{
    (void)state;
    zr_plan *whole = plan_of(1, 4), *half = plan_of(1, 2), *pair = plan_of(2, 1);
    zr_launch launch = launch_of(whole, sample, MOST);
    const double sec = simulate(whole, &launch, 0).price.step_sec - 1e-3;
    close_to(simulate(half, &launch, 0).price.step_sec - 1e-3, 2 * sec);
    launch = launch_of(pair, sample, MOST);
    const double apart = simulate(pair, &launch, 0).price.step_sec - 1e-3;
    launch.ranks = launch.cores = 1;
    close_to(simulate(pair, &launch, 0).price.step_sec - 1e-3, 2 * apart);
    zr_plan_destroy(&whole);
    zr_plan_destroy(&half);
    zr_plan_destroy(&pair);
}

/* Check that steps of fp16 are not priced as bf16: processors multiply fp16 in fp32. */
static void test_types(void **state)
{
    (void)state;
    static const zr_dtype dtypes[] = {ZR_F32, ZR_BF16, ZR_F16};
    for (int i = 0; i < 3; i++) {
        const zr_gpt2_config sizes = {.n_layer = 1,
                                      .n_head = 1,
                                      .n_embd = 32,
                                      .n_positions = 16,
                                      .vocab_size = 96,
                                      .layer_norm_epsilon = 1e-5,
                                      .initializer_range = 0.02};
        const zr_model model = zr_gpt2(&sizes);
        const zr_layout layout = plan_layout(1, 2, dtypes[i], 1);
        zr_profile profile = {.facts = {.name = "test", .threads = 1}};
        zr_plan *plan = plan_make(&model, &layout, &profile);
        assert_int_equal(zr__step_sample_of(plan, ZR_SCHEDULE_TRAIN, 0).narrow, dtypes[i] == ZR_BF16);
        zr_plan_destroy(&plan);
    }
}

static bool has_kind(const zr_launch *launch, const char *kind)
{
    for (int32_t i = 0; i < launch->n_samples; i++)
        if (strcmp(launch->sample[i].kind, kind) == 0) return true;
    return false;
}

/* Check that steps that make or read records are not taken for others of their kind, nor for those of other codes. */
static void test_records(void **state)
{
    (void)state;
    for (int random = 0; random < 2; random++) {
        const zr_gpt2_config sizes = {.n_layer = 1,
                                      .n_head = 1,
                                      .n_embd = 32,
                                      .n_positions = 16,
                                      .vocab_size = 96,
                                      .layer_norm_epsilon = 1e-5,
                                      .initializer_range = 0.02};
        const zr_model model = zr_gpt2(&sizes);
        zr_layout layout = plan_layout(3, 2, ZR_BF16, 1);
        layout.weight_records = ZR_I8X256;
        layout.grad_records = ZR_I4X128;
        layout.stochastic = random;
        layout.states = ZR_STATES_LEAN;
        zr_profile profile = {.facts = {.name = "test", .threads = 1}};
        zr_plan *plan = plan_make(&model, &layout, &profile);
        const zr_launch launch = launch_of(plan, sample, MOST);
        assert_true(has_kind(&launch, "cast") && has_kind(&launch, "gather") && has_kind(&launch, "decode int8"));
        assert_int_equal(has_kind(&launch, "encode int8") && has_kind(&launch, "encode int4"), !random);
        assert_int_equal(has_kind(&launch, "encode at random int8") && has_kind(&launch, "encode at random int4"),
                         random);
        assert_true(has_kind(&launch, "reduce_scatter int4") && has_kind(&launch, "reduce_scatter"));
        zr_plan_destroy(&plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_between), cmocka_unit_test(test_products), cmocka_unit_test(test_exchanges),
        cmocka_unit_test(test_sum),     cmocka_unit_test(test_waits),    cmocka_unit_test(test_beside),
        cmocka_unit_test(test_links),   cmocka_unit_test(test_spread),   cmocka_unit_test(test_other_load),
        cmocka_unit_test(test_types),   cmocka_unit_test(test_records)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
