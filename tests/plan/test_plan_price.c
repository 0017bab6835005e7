//TEST timeout=60
/* Prices of plans: the times of a schedule written by hand, properties of any plan's price; machines by name. */
#include <math.h>
#include <string.h>

#include "support/chain.h"
#include "plan_make.h"
#include "base/core/core.h"
#include "plan/cost/cost.h"

static zr_layout layout_of(int stage, int ranks, zr_dtype dtype, int64_t accum)
{
    zr_layout l = plan_layout(stage, ranks, dtype, accum);
    l.batch = 2;
    l.reduce_bucket_elems = l.gather_bucket_elems = 10000; /* several buckets a unit */
    return l;
}

static zr_plan *plan_of(const zr_model *model, const zr_layout *layout)
{
    zr_profile profile = {.facts = {.name = "test", .threads = 1, .scratch_bytes = zr_device_cpu_scratch}};
    return plan_make(model, layout, &profile);
}

/* Field of a machine: links between ranks of one process, with `rate` bytes a second into each rank. */
#define LINK(rate) .link = {{.bytes_sec = rate}}

static zr_price price_of(const zr_plan *plan, zr_machine machine)
{
    zr_price price = {-1, -1, -1, -1, -1, -1, -1, -1};
    assert_int_equal(zr_plans_price(&ZR__ALONE(plan), &(zr_profile){.machine = machine}, &price), ZR_OK);
    return price;
}

static void close_to(double have, double want)
{
    if (!(fabs(have - want) <= 1e-9 * fabs(want) + 1e-15)) fail_msg("have %.17g, want %.17g", have, want);
}

/* ---- by hand ---------------------------------------------------------------------------------- */

/* Check when each step of test_clocks runs; steps in rounds, in the first. */
static void check_times(const zr_plan *plan, double flops_per_sec)
{
    static const double want[][2] = {{0, 0}, {0, 1.2}, {1.2, 3.2}, {1.2, 1.8}, {3.2, 3.5}, {3.2, 3.2}, {3.5, 5.5}};
    const zr_profile profile = {.machine = {.flops_f32 = flops_per_sec, LINK(1000)}};
    zr_step_time time[7];
    assert_int_equal(zr_plans_times(&ZR__ALONE(plan), &profile, (zr_step_time *[]){time}), ZR_OK);
    for (int i = 0; i < 7; i++) {
        close_to(time[i].begin_sec, want[i][0]);
        close_to(time[i].end_sec, want[i][1]);
    }
}

/* Check the price of a schedule of `accum` rounds, each a gather, an op that waits for it, a gather that overlaps with
 * the op, a reduction after it, and then an op alone. */
static void test_clocks(void **state)
{
    (void)state;
    chain_config chain = {1, 8, 16};
    zr_model model = chain_model(&chain);
    zr_layout layout = layout_of(3, 4, ZR_F32, 1);
    zr_plan *real = plan_of(&model, &layout);
    const zr_op *op = zr_graph_get_op(real->graph[ZR_SCHEDULE_TRAIN], 0);
    assert_string_equal(op->def->name, "linear");
    double flops = op->def->cost(real->graph[ZR_SCHEDULE_TRAIN], op).flops;
    assert_true(flops == 2.0 * 2 * 16 * 8 * 16);

    zr_wait wait[] = {{.step = 1}, {.step = 2}, {.step = 4}};
    const zr_use piece = {.buffer = ZR_NONE, .dtype = ZR_F32}, use[] = {piece, piece};
    zr_step step[] = {
        {.kind = ZR_STEP_REPEAT, .stream = ZR_STREAM_COMPUTE},
        {.kind = ZR_STEP_GATHER,
         .stream = ZR_STREAM_COMM,
         .group = ZR_GROUP_DATA,
         .range.count = 100}, /* 3 other ranks x 100 x 4 bytes: 1.2 s */
        {.kind = ZR_STEP_RUN, .stream = ZR_STREAM_COMPUTE, .waits = 0, .n_waits = 1}, /* 2 s */
        {.kind = ZR_STEP_GATHER,
         .stream = ZR_STREAM_COMM,
         .group = ZR_GROUP_DATA,
         .range.count = 50}, /* 0.6 s beside the op */
        {.kind = ZR_STEP_REDUCE_SCATTER,
         .stream = ZR_STREAM_COMM,
         .group = ZR_GROUP_DATA,
         .range.count = 25,
         .waits = 1,
         .n_waits = 1}, /* 0.3 s after the op */
        {.kind = ZR_STEP_END, .stream = ZR_STREAM_COMPUTE},
        {.kind = ZR_STEP_RUN, .stream = ZR_STREAM_COMPUTE, .waits = 2, .n_waits = 1},
    };
    for (int accum = 1; accum <= 3; accum++) {
        zr_plan plan = *real;
        step[0].rounds = accum;
        plan.schedule[ZR_SCHEDULE_FLUSH] = (zr_schedule){0};
        plan.schedule[ZR_SCHEDULE_TRAIN] =
            (zr_schedule){.step = step, .n_steps = 7, .use = (zr_use *)use, .n_uses = 2, .wait = wait, .n_waits = 3};
        zr_price price = price_of(&plan, (zr_machine){.flops_f32 = flops / 2, LINK(1000)});
        close_to(price.step_sec, accum * (1.2 + 2 + 0.3) + 2);
        close_to(price.compute_sec, accum * 2 + 2);
        close_to(price.comm_sec, accum * (1.2 + 0.6 + 0.3));
        close_to(price.exposed_sec, accum * (1.2 + 0.3));
        price = price_of(&plan, (zr_machine){.flops_f32 = flops / 2, LINK(1000), .link_copies = true});
        close_to(price.step_sec, accum * (1.2 + 2 + 0.6 + 0.3) + 2);
        close_to(price.exposed_sec, price.comm_sec);
        check_times(&plan, flops / 2);
    }
    zr_plan_destroy(&real);
}

/* ---- any plan --------------------------------------------------------------------------------- */

/* Check that the comm stream takes the time of the plan's traffic and the compute stream the time of its FLOPs, and
 * that the streams overlap. */
static void check_plan(const zr_layout *layout)
{
    zr_model model = zr_gpt2(&plan_small);
    zr_plan *plan = plan_of(&model, layout);
    double moved =
        (double)(plan->traffic.bytes[ZR_TRAFFIC_REDUCE_SCATTER] + plan->traffic.bytes[ZR_TRAFFIC_ALL_GATHER]);
    zr_price link = price_of(plan, (zr_machine){LINK(1e6)});
    close_to(link.comm_sec, moved / 1e6);
    close_to(link.step_sec, link.comm_sec);
    assert_true(link.compute_sec == 0);

    zr_price work = price_of(plan, (zr_machine){.flops_f32 = 1e9});
    close_to(work.compute_sec, plan->flops_hardware / layout->ranks / 1e9);
    close_to(work.step_sec, work.compute_sec);
    assert_true(work.comm_sec == 0 && work.exposed_sec == 0);

    zr_price all = price_of(plan, (zr_machine){.flops_f32 = 1e9, .memory_bytes_sec = 1e9, LINK(1e6)});
    assert_true(all.compute_sec > work.compute_sec);
    if (layout->states == ZR_STATES_PAPER)
        close_to(all.comm_sec, link.comm_sec);
    else /* casts from the master run on the comm stream */
        assert_true(all.comm_sec >= link.comm_sec);
    assert_true(all.step_sec >= all.compute_sec && all.step_sec >= all.comm_sec);
    assert_true(all.step_sec <= (all.compute_sec + all.comm_sec) * (1 + 1e-12));
    close_to(all.exposed_sec, all.step_sec - all.compute_sec);
    zr_price twice = price_of(plan, (zr_machine){.flops_f32 = 2e9, .memory_bytes_sec = 2e9, LINK(2e6)});
    close_to(2 * twice.step_sec, all.step_sec);
    zr_plan_destroy(&plan);
}

static void test_any_plan(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++)
        for (int ranks = 1; ranks <= 6; ranks++)
            for (int64_t accum = 1; accum <= 3; accum += 2)
                for (int bf16 = 0; bf16 <= 1; bf16++) {
                    zr_layout layout = layout_of(stage, ranks, bf16 ? ZR_BF16 : ZR_F32, accum);
                    check_plan(&layout);
                    layout.states = ZR_STATES_LEAN;
                    check_plan(&layout);
                    layout.recompute = ZR_RECOMPUTE_UNIT;
                    check_plan(&layout);
                }
}

/* Check that Adam moves 28 bytes a parameter: the gradient is read (4), parameter, momentum and variance are read and
 * written. */
static void test_update_is_bound_by_memory(void **state)
{
    (void)state;
    zr_model model = zr_gpt2(&plan_small);
    zr_layout layout = layout_of(0, 1, ZR_F32, 1);
    zr_plan *plan = plan_of(&model, &layout);
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    const zr_machine machine = {.memory_bytes_sec = 1e9};
    double whole = price_of(plan, machine).step_sec, padded = (double)(plan->params + plan->padding_elems);
    int32_t all = s->n_steps, updates = 0;
    while (s->step[s->n_steps - 1].kind == ZR_STEP_UPDATE) s->n_steps--, updates++;
    assert_int_equal(updates, plan->n_units);
    double without = price_of(plan, machine).step_sec;
    close_to(1e9 * (whole - without), 28 * padded);
    s->n_steps = all;
    zr_plan_destroy(&plan);
}

/* Return the FLOPs of a rank's step in ops that multiply in fp32 whatever the graph's type. */
static double flops_in_f32(const zr_plan *plan)
{
    const zr_graph *graph = plan->graph[ZR_SCHEDULE_TRAIN];
    double flops = 0;
    for (int32_t i = 0; i < plan->schedule[ZR_SCHEDULE_TRAIN].n_steps; i++) {
        const zr_step *step = &plan->schedule[ZR_SCHEDULE_TRAIN].step[i];
        if (step->kind != ZR_STEP_RUN) continue;
        const zr_op *op = zr_graph_get_op(graph, step->op);
        if (op->def->in_f32) flops += op->def->cost(graph, op).flops;
    }
    return flops;
}

/* Check that a machine's faster 16-bit rate is used only in 16-bit runs, and there not in ops that widen their
 * operands. Whether attention widens them is a fact of the device. */
static void test_narrow_products(void **state)
{
    (void)state;
    zr_model model = zr_gpt2(&plan_small);
    zr_layout f32 = layout_of(1, 2, ZR_F32, 1), bf16 = layout_of(1, 2, ZR_BF16, 1);
    zr_plan *wide = plan_of(&model, &f32), *narrow = plan_of(&model, &bf16);
    zr_machine machine = {.flops_f32 = 1e9, .flops_bf16 = 4e9};
    double all = wide->flops_hardware / 2, attention = flops_in_f32(narrow);
    assert_true(attention > 0 && attention < all);
    close_to(price_of(wide, machine).compute_sec, all / 1e9);
    close_to(price_of(narrow, machine).compute_sec, attention / 1e9 + (all - attention) / 4e9);
    narrow->profile.facts.narrow_attention = wide->profile.facts.narrow_attention = true;
    close_to(price_of(wide, machine).compute_sec, all / 1e9);
    close_to(price_of(narrow, machine).compute_sec, all / 4e9);
    machine.flops_bf16 = 0;
    close_to(price_of(wide, machine).compute_sec, price_of(narrow, machine).compute_sec);
    zr_plan_destroy(&wide);
    zr_plan_destroy(&narrow);
}

static void test_sizes_in_order(void **state)
{
    (void)state;
    static const int64_t any[][3] = {{1, 2, 3}, {1, 3, 2}, {2, 1, 3}, {2, 3, 1}, {3, 1, 2}, {3, 2, 1}};
    for (int i = 0; i < 6; i++) {
        zr_product_sizes s = zr__product_sizes_of(any[i][0], any[i][1], any[i][2]);
        assert_true(s.size[0] == 1 && s.size[1] == 2 && s.size[2] == 3);
    }
    zr_product_sizes same = zr__product_sizes_of(5, 4, 5);
    assert_true(same.size[0] == 4 && same.size[1] == 5 && same.size[2] == 5);
}

/* Check that the rate of a product is the rate measured, in the same type, at the nearest sizes by ratio; without a
 * measurement, the peak. */
static void test_rates_by_size(void **state)
{
    (void)state;
    const zr_machine machine = {.flops_f32 = 100,
                                .flops_bf16 = 400,
                                .product = {{false, zr__product_sizes_of(64, 64, 64), 50},
                                            {false, zr__product_sizes_of(1024, 4096, 1024), 90},
                                            {true, zr__product_sizes_of(2, 2, 2), 7}},
                                .n_products = 3};
    assert_true(zr__machine_flops(&machine, false, zr__product_sizes_of(4096, 1024, 1024)) == 90);
    assert_true(zr__machine_flops(&machine, false, zr__product_sizes_of(1, 1, 1)) == 50);
    assert_true(zr__machine_flops(&machine, false, zr__product_sizes_of(260, 260, 260)) == 50);
    assert_true(zr__machine_flops(&machine, false, zr__product_sizes_of(512, 512, 512)) == 90);
    assert_true(zr__machine_flops(&machine, true, zr__product_sizes_of(512, 512, 512)) == 7);
    assert_true(zr__machine_flops(&machine, false, (zr_product_sizes){{0}}) == 100);
    assert_true(zr__machine_flops(&machine, true, (zr_product_sizes){{0}}) == 400);
    const zr_machine none = {.flops_bf16 = 3};
    assert_true(zr__machine_flops(&none, true, zr__product_sizes_of(1, 1, 1)) == 3);
    assert_true(zr__machine_flops(&none, false, zr__product_sizes_of(1, 1, 1)) == 0);
}

/* Check that the whole price follows the measured rates of products: bf16 measured at half of fp32's rate costs twice
 * the price of fp32, whatever the peaks say; attention, which has no product sizes, runs at the peak. */
static void test_priced_as_measured(void **state)
{
    (void)state;
    zr_model model = zr_gpt2(&plan_small);
    zr_layout f32 = layout_of(1, 2, ZR_F32, 1), bf16 = layout_of(1, 2, ZR_BF16, 1);
    zr_plan *wide = plan_of(&model, &f32), *narrow = plan_of(&model, &bf16);
    zr_machine machine = {
        .flops_f32 = 1e9,
        .flops_bf16 = 4e9,
        .product = {{false, zr__product_sizes_of(32, 57, 171), 8e8}, {true, zr__product_sizes_of(32, 57, 171), 4e8}},
        .n_products = 2};
    double attention = flops_in_f32(wide), products = wide->flops_hardware / 2 - attention;
    close_to(price_of(wide, machine).compute_sec, attention / 1e9 + products / 8e8);
    close_to(price_of(narrow, machine).compute_sec, attention / 1e9 + products / 4e8);
    zr_plan_destroy(&wide);
    zr_plan_destroy(&narrow);
}

static void test_no_training(void **state)
{
    (void)state;
    zr_model model = zr_gpt2(&plan_small);
    zr_layout l = zr_layout_default();
    l.train = false;
    l.seq = 16;
    zr_profile profile = {.facts = {.threads = 1, .scratch_bytes = zr_device_cpu_scratch}};
    zr_plan *plan = NULL;
    zr_price price;
    assert_int_equal(zr_plan_create(&model, &l, &profile, &plan), ZR_OK);
    assert_int_equal(zr_plans_price(&ZR__ALONE(plan), &profile, &price), ZR_ERR_STATE);
    assert_int_equal(zr_plans_times(&ZR__ALONE(plan), &profile, (zr_step_time *[]){NULL}), ZR_ERR_STATE);
    zr_plan_destroy(&plan);
}

/* ---- copies ----------------------------------------------------------------------------------- */

/* Check that one rank's checkpoints move to the host and back on streams of their own, and that the price counts these
 * copies as communication. */
static void test_copies_move(void **state)
{
    (void)state;
    zr_model model = zr_gpt2(&plan_small);
    zr_layout layout = plan_layout(2, 1, ZR_F32, 1);
    layout.recompute = ZR_RECOMPUTE_UNIT;
    layout.checkpoint_home = ZR_SPACE_HOST;
    zr_plan *plan = plan_of(&model, &layout);
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    const zr_profile profile = {.machine = {.flops_f32 = 1e9, .memory_bytes_sec = 1e6}};
    zr_step_time *time = zr_alloc(sizeof *time * (size_t)s->n_steps);
    const double comm_sec = price_of(plan, profile.machine).comm_sec;
    double copies = 0;
    assert_int_equal(zr_plans_times(&ZR__ALONE(plan), &profile, (zr_step_time *[]){time}), ZR_OK);
    for (int32_t i = 0; i < s->n_steps; i++)
        if (s->step[i].kind == ZR_STEP_COPY) copies += time[i].end_sec - time[i].begin_sec;
    assert_true(copies > 0);
    close_to(comm_sec, copies);
    zr_free(time);
    zr_plan_destroy(&plan);
}

/* Bytes of a price without the padding at its end. */
#define PRICE_BYTES (offsetof(zr_price, role) + sizeof(int32_t))

/* ---- links ------------------------------------------------------------------------------------ */

/* Check that exchanges are priced at one link, whatever its level; of several known levels, at the widest. */
static void test_levels_of_links(void **state)
{
    (void)state;
    zr_model model = zr_gpt2(&plan_small);
    zr_layout layout = layout_of(2, 4, ZR_F32, 1);
    zr_plan *plan = plan_of(&model, &layout);
    const zr_price want = price_of(plan, (zr_machine){.flops_f32 = 1e9, LINK(1e6)});
    zr_machine all = {.flops_f32 = 1e9};
    for (int level = 0; level < ZR_LINK_LEVELS; level++) {
        zr_machine one = {.flops_f32 = 1e9};
        one.link[level].bytes_sec = 1e6;
        one.link[level].latency_sec = 1; /* latency is not modelled */
        const zr_price price = price_of(plan, one);
        assert_memory_equal(&price, &want, PRICE_BYTES);
        all.link[level].bytes_sec = 1e8 / pow(10, level);
        assert_true(zr__machine_link(&all).bytes_sec == all.link[level].bytes_sec);
    }
    const zr_price price = price_of(plan, all);
    assert_memory_equal(&price, &want, PRICE_BYTES);
    assert_true(zr__machine_link(&(zr_machine){.flops_f32 = 1e9}).bytes_sec == 0);
    zr_plan_destroy(&plan);
}

/* ---- machines --------------------------------------------------------------------------------- */

static void test_profiles(void **state)
{
    (void)state;
    zr_profile profile;
    zr_status unknown = zr_profile_named("abacus", &profile);
    assert_int_equal(unknown, ZR_ERR_NOT_FOUND);
    int n = 0;
    for (const char *const *name = zr__profile_names(); *name; name++, n++) {
        assert_non_null(strstr(zr_error_message(), *name));
        assert_int_equal(zr_profile_named(*name, &profile), ZR_OK);
        assert_string_equal(profile.facts.name, *name);
        assert_true(profile.facts.own_memory == (strcmp(*name, "zen3") != 0));
        assert_true(profile.facts.narrow_attention == profile.facts.own_memory);
        assert_true(profile.facts.threads >= 1 && profile.facts.panel_bytes == 0);
        const zr_machine *machine = &profile.machine;
        assert_true(machine->flops_f32 > 0 && machine->memory_bytes_sec > 0 && zr__machine_link(machine).bytes_sec > 0);
        assert_true(profile.facts.bf16_products == (machine->flops_bf16 > 0));
    }
    assert_int_equal(n, 27);
    assert_int_equal(zr_profile_named("h300", &profile), ZR_ERR_NOT_FOUND);
    assert_non_null(strstr(zr_error_message(), "did you mean h100?"));
}

/* ---- waits -------------------------------------------------------------------------------------- */

enum { WAIT_STEPS = 10 };

typedef struct wait_pricer {
    zr__pricer base;
    const double *sec;  /* time of each step, in seconds */
    double *waited_sec; /* time for which other steps waited for each step, in seconds */
} wait_pricer;

static double wait_step_sec(const zr__pricer *base, const zr_plan *plan, zr_schedule_kind kind, int32_t step)
{
    (void)plan, (void)kind;
    return ((const wait_pricer *)base)->sec[step];
}

static void wait_told(const zr__pricer *base, const zr_plan *plan, zr_schedule_kind kind, int32_t waiting,
                      int32_t awaited, bool roles, double sec)
{
    (void)plan, (void)kind, (void)waiting, (void)roles;
    ((const wait_pricer *)base)->waited_sec[awaited] += sec;
}

static zr_step step_on(zr_stream stream, int32_t first_wait, int32_t n_waits)
{
    return (zr_step){.kind = ZR_STEP_RUN, .stream = stream, .waits = first_wait, .n_waits = n_waits};
}

/* Price a schedule written by hand, in a plan whose graph is otherwise unused. */
static zr_price price_steps(zr_step *steps, int32_t n, zr_wait *waits, const double *sec, zr_queues queues,
                            double *waited_sec)
{
    const zr_layout layout = plan_layout(0, 1, ZR_F32, 1);
    zr_plan *made = plan_gpt2(&plan_small, &layout, &plan_profile), plan = *made;
    const wait_pricer pricer = {
        {.step_sec = wait_step_sec, .waited = wait_told, .queues = queues}, .sec = sec, .waited_sec = waited_sec};
    zr_price price;
    plan.schedule[ZR_SCHEDULE_TRAIN] = (zr_schedule){.step = steps, .n_steps = n, .wait = waits};
    memset(waited_sec, 0, (size_t)n * sizeof(*waited_sec));
    assert_int_equal(zr__plans_price_by(&ZR__ALONE(&plan), &pricer.base, &price), ZR_OK);
    zr_plan_destroy(&made);
    return price;
}

/* Check waits for a step that is queued behind others of its stream, also of the round before. In each round the
 * compute stream runs (1) for 2 s, while the comm stream runs (2) for 5 s and (3) for 1 s; the compute stream waits for
 * (3) before it runs (4) for 1 s, and the comm stream runs (5) for 4 s, for which nobody waits. In the first round, the
 * compute stream waits from 2 s to 6 s: 3 s for (2) and 1 s for (3). In each later round it waits 7 s: 1 s for (5), 5 s
 * for (2) and 1 s for (3). After the rounds the compute stream is at 27 s and the comm stream at 30 s; the compute
 * stream waits 3 s for (5) and 2 s for (7). (9), 3 s, overlaps with (8), 1 s, so that 2 s of (9) remain when computing
 * has ended. */
static void test_waits_in_line(void **state)
{
    (void)state;
    zr_wait waits[] = {{.step = 3}, {.step = 7}};
    zr_step steps[WAIT_STEPS] = {step_on(ZR_STREAM_COMPUTE, 0, 0), step_on(ZR_STREAM_COMPUTE, 0, 0),
                                 step_on(ZR_STREAM_COMM, 0, 0),    step_on(ZR_STREAM_COMM, 0, 0),
                                 step_on(ZR_STREAM_COMPUTE, 0, 1), step_on(ZR_STREAM_COMM, 0, 0),
                                 step_on(ZR_STREAM_COMPUTE, 0, 0), step_on(ZR_STREAM_COMM, 0, 0),
                                 step_on(ZR_STREAM_COMPUTE, 1, 1), step_on(ZR_STREAM_COMM, 0, 0)};
    const double sec[WAIT_STEPS] = {0, 2, 5, 1, 1, 4, 0, 2, 1, 3};
    const double wanted[WAIT_STEPS] = {[2] = 3 + 2 * 5, [3] = 1 + 2 * 1, [5] = 2 * 1 + 3, [7] = 2, [9] = 2};
    double waited[WAIT_STEPS];
    steps[0].kind = ZR_STEP_REPEAT;
    steps[0].rounds = 3;
    steps[6].kind = ZR_STEP_END;
    const zr_price price = price_steps(steps, WAIT_STEPS, waits, sec, zr__queues_of(true, true, true), waited);
    assert_true(price.step_sec == 35 && price.compute_sec == 10 && price.exposed_sec == 25);
    for (int i = 0; i < WAIT_STEPS; i++)
        if (waited[i] != wanted[i]) fail_msg("step %d: waits of %g s, wanted %g", i, waited[i], wanted[i]);
}

/* Check waits for a stream that itself waits: (3) waits until (2), a copy, ends at 6 s, and the compute stream waits
 * for (3) from 1 s to 8 s: 2 s for (1), which (3) is queued behind, and 5 s for (3), including the time in which (3)
 * itself waits. When all streams run in turn, each waits for everything before it. When only exchanges and copies share
 * a queue, the copy begins at 3 s. */
static void test_waits_for_who_waits(void **state)
{
    (void)state;
    zr_wait waits[] = {{.step = 0}, {.step = 2}, {.step = 3}};
    zr_step steps[] = {step_on(ZR_STREAM_COMPUTE, 0, 0), step_on(ZR_STREAM_COMM, 0, 0), step_on(ZR_STREAM_COPY, 0, 1),
                       step_on(ZR_STREAM_COMM, 1, 1), step_on(ZR_STREAM_COMPUTE, 2, 1)};
    const double sec[] = {1, 3, 5, 2, 1};
    double waited[5];
    const zr_price price = price_steps(steps, 5, waits, sec, zr__queues_of(true, true, true), waited);
    assert_true(price.step_sec == 9 && price.exposed_sec == 7);
    assert_true(waited[0] == 0 && waited[1] == 2 && waited[2] == 0 && waited[3] == 5 && waited[4] == 0);
    const zr_price turn = price_steps(steps, 5, waits, sec, zr__queues_of(false, false, true), waited);
    assert_true(turn.step_sec == 12 && turn.exposed_sec == 10);
    assert_true(waited[0] == 0 && waited[1] == 3 && waited[2] == 5 && waited[3] == 2 && waited[4] == 0);
    const zr_queues moves = {.of = {[ZR_STREAM_COMM] = ZR_STREAM_COMM, [ZR_STREAM_COPY] = ZR_STREAM_COMM}};
    assert_true(price_steps(steps, 5, waits, sec, moves, waited).step_sec == 11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clocks),
        cmocka_unit_test(test_any_plan),
        cmocka_unit_test(test_update_is_bound_by_memory),
        cmocka_unit_test(test_narrow_products),
        cmocka_unit_test(test_no_training),
        cmocka_unit_test(test_sizes_in_order),
        cmocka_unit_test(test_rates_by_size),
        cmocka_unit_test(test_priced_as_measured),
        cmocka_unit_test(test_copies_move),
        cmocka_unit_test(test_levels_of_links),
        cmocka_unit_test(test_profiles),
        cmocka_unit_test(test_waits_in_line),
        cmocka_unit_test(test_waits_for_who_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
