//TEST timeout=60
/* The simulator: exchanges calculated by hand, a step against the prices of a profile, the numbers that a step's time
 * depends on, refusals. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan/plan_make.h"
#include "simulate/simulate.h"

static void close_to(double have, double want)
{
    if (!(fabs(have - want) <= 1e-9 * fabs(want) + 1e-15)) fail_msg("have %.17g, want %.17g", have, want);
}

static zr_layout layout_of(int stage, int ranks, int tensor)
{
    zr_layout l = plan_layout(stage, ranks, ZR_F32, 1);
    l.tensor = tensor;
    l.batch = 2;
    l.reduce_bucket_elems = l.gather_bucket_elems = 10000; /* several buckets a unit */
    return l;
}

static const zr_gpt2_config sizes = {.n_layer = 2,
                                     .n_head = 12,
                                     .n_embd = 48,
                                     .n_positions = 16,
                                     .vocab_size = 96,
                                     .layer_norm_epsilon = 1e-5,
                                     .initializer_range = 0.02};

static zr_plan *plan_of(const zr_layout *layout)
{
    const zr_model model = zr_gpt2(&sizes);
    zr_profile profile = {.facts = {.name = "test", .threads = 1, .own_memory = true}};
    return plan_make(&model, layout, &profile);
}

/* Make a cluster of 4 hosts of 4 devices. */
static zr_cluster cluster_of(zr_algorithm algorithm)
{
    return (zr_cluster){.name = "test",
                        .device = {.flops_f32 = 1e9, .memory_bytes_sec = 1e9, .memory_bytes = 1000000000},
                        .product_share = 1,
                        .memory_share = 1,
                        .link_share = 1,
                        .link = {{"inside", 4, 100, 0, 0.5}, {"network", 16, 20, 40, 2}},
                        .n_links = 2,
                        .devices = 16,
                        .host_devices = 4,
                        .algorithm = algorithm};
}

/* ---- exchanges by hand ------------------------------------------------------------------------- */

static double exchange_sec(const zr_layout *layout, int32_t group, const zr_cluster *c, int32_t host, double bytes)
{
    zr_plan *plan = plan_of(layout);
    const zr__spot spot = zr__spot_of(plan, group, c, host);
    zr_plan_destroy(&plan);
    return zr__exchange_sec(c, &spot, bytes);
}

/* Check exchanges where every host is half full, with two ranks to a layer. */
static void test_few_on_each_host(void **state)
{
    (void)state;
    zr_layout layout = layout_of(2, 8, 2);
    zr_cluster c = cluster_of(ZR_ALGORITHM_RING);
    c.devices = c.link[1].devices = 64;
    /* each group has one rank on a host */
    close_to(exchange_sec(&layout, ZR_GROUP_DATA, &c, 2, 700), 700 / 20.0 + 7 * 2);
    close_to(exchange_sec(&layout, ZR_GROUP_TENSOR, &c, 2, 700), 700 / 100.0 + 0.5);
    /* With three ranks on a host, ranks 2 and 3 share layers across the border between two hosts; no other ranks use
     * its links, and all others wait for them. */
    layout = layout_of(2, 3, 2);
    close_to(exchange_sec(&layout, ZR_GROUP_TENSOR, &c, 3, 700), 700 / 20.0 + 2);
    close_to(exchange_sec(&layout, ZR_GROUP_TENSOR, &c, 4, 700), 700 / 100.0 + 0.5);
}

/* Check exchanges of 24 ranks on hosts of 16: the second host is half full. */
static void test_last_host_half_full(void **state)
{
    (void)state;
    zr_cluster c = cluster_of(ZR_ALGORITHM_RING);
    c.devices = c.link[1].devices = 32;
    c.host_devices = c.link[0].devices = 16;
    c.link[1].shared_bytes_sec = 100;
    zr_layout layout = layout_of(2, 24, 1);
    /* One group: 8 rings, one for each rank of the second host, but no faster together than a host's 100 bytes a
     * second. */
    close_to(exchange_sec(&layout, ZR_GROUP_DATA, &c, 16, 700), 700 / 100.0 + 23 * 2);
    /* The second host has two ranks: two rings of 20 each. */
    layout = layout_of(2, 18, 1);
    close_to(exchange_sec(&layout, ZR_GROUP_DATA, &c, 16, 700), 700 / 40.0 + 17 * 2);
    /* Three ranks share layers; only the group of ranks 15 to 17 crosses the border. */
    layout = layout_of(2, 8, 3);
    close_to(exchange_sec(&layout, ZR_GROUP_TENSOR, &c, 16, 700), 700 / 20.0 + 2 * 2);
    /* One of the three data-parallel groups has 6 and 2 ranks on the hosts, the others have 5 and 3. */
    close_to(exchange_sec(&layout, ZR_GROUP_DATA, &c, 16, 700), 700 / (100.0 / 3) + 7 * 2);
    c.algorithm = ZR_ALGORITHM_EXCHANGE;
    close_to(exchange_sec(&layout, ZR_GROUP_DATA, &c, 16, 700), 700 / 7.0 * 5 * 3 / (100.0 / 3) + 7 * 2);
}

/* Check exchanges of 16 ranks, 2 to a layer: two data-parallel groups of 8 at a time, each with 2 ranks on each
 * host. */
static void test_exchanges(void **state)
{
    (void)state;
    const zr_layout layout = layout_of(2, 8, 2);
    zr_plan *plan = plan_of(&layout);
    zr_cluster c = cluster_of(ZR_ALGORITHM_RING);
    zr__spot data = zr__spot_of(plan, ZR_GROUP_DATA, &c, 4);
    zr__spot tensor = zr__spot_of(plan, ZR_GROUP_TENSOR, &c, 4);
    /* Two members have 2 x 20 on the network, but only half of the host's 40: 20. There are 7 hops of 2 s. */
    close_to(zr__exchange_sec(&c, &data, 700), 700 / 20.0 + 7 * 2);
    close_to(zr__exchange_sec(&c, &tensor, 700), 700 / 100.0 + 0.5);
    c.step_sec = 3;
    c.link_share = 0.5;
    data = zr__spot_of(plan, ZR_GROUP_DATA, &c, 4);
    close_to(zr__exchange_sec(&c, &data, 700), 700 / 10.0 + 7 * 2 + 3);
    c.link[0].share = 0.25; /* the level's own share; the other level keeps the cluster's */
    tensor = zr__spot_of(plan, ZR_GROUP_TENSOR, &c, 4);
    data = zr__spot_of(plan, ZR_GROUP_DATA, &c, 4);
    close_to(zr__exchange_sec(&c, &tensor, 700), 700 / 25.0 + 0.5 + 3);
    close_to(zr__exchange_sec(&c, &data, 700), 700 / 10.0 + 7 * 2 + 3);
    c = cluster_of(ZR_ALGORITHM_EXCHANGE);
    data = zr__spot_of(plan, ZR_GROUP_DATA, &c, 4);
    /* Each of two members receives 600 of its 700 bytes from other hosts: 1200 over 20. */
    close_to(zr__exchange_sec(&c, &data, 700), 1200 / 20.0 + 7 * 2);
    c.algorithm = ZR_ALGORITHM_TREE;
    close_to(zr__exchange_sec(&c, &data, 700), 1200 / 20.0 + 3 * 2);
    c.algorithm = ZR_ALGORITHM_AUTO;
    close_to(zr__exchange_sec(&c, &data, 700), 700 / 20.0 + 7 * 2); /* the ring */
    close_to(zr__exchange_sec(&c, &data, 7), 12 / 20.0 + 3 * 2);    /* the tree */
    zr_plan_destroy(&plan);
}

/* Check that the depth of a tree is rounded up where the number of ranks is no power of two: 5 ranks have 3 hops, not
 * 2. */
static void test_trees_of_any_size(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 9; ranks++) {
        const zr_layout layout = layout_of(2, ranks, 1);
        const zr_cluster tree = cluster_of(ZR_ALGORITHM_TREE), exchange = cluster_of(ZR_ALGORITHM_EXCHANGE);
        const double hop_sec = ranks > 4 ? 2 : 0.5;
        int hops = 0;
        while (1 << hops < ranks) hops++;
        close_to(exchange_sec(&layout, ZR_GROUP_DATA, &tree, 4, 700),
                 exchange_sec(&layout, ZR_GROUP_DATA, &exchange, 4, 700) - (ranks - 1 - hops) * hop_sec);
    }
}

/* Check that bytes from other hosts pass PCI Express as well where devices have no other link: two ranks on different
 * hosts. */
static void test_network_behind_pcie(void **state)
{
    (void)state;
    const zr_layout layout = layout_of(2, 2, 1);
    zr_cluster c = cluster_of(ZR_ALGORITHM_RING);
    c.link[1].bytes_sec = 500;
    c.link[1].shared_bytes_sec = 0;
    close_to(exchange_sec(&layout, ZR_GROUP_DATA, &c, 1, 700), 350 / 500.0 * 2 + 2);
    snprintf(c.link[0].name, sizeof(c.link[0].name), "PCIe");
    close_to(exchange_sec(&layout, ZR_GROUP_DATA, &c, 1, 700), 700 / 100.0 + 2);
    c.link[0].share = 0.25;
    close_to(exchange_sec(&layout, ZR_GROUP_DATA, &c, 1, 700), 700 / 25.0 + 2);
    c.link[1].bytes_sec = 20; /* the network is slower */
    close_to(exchange_sec(&layout, ZR_GROUP_DATA, &c, 1, 700), 700 / 20.0 + 2);
}

/* Check a level of links wider than a host: ranks of two hosts that it joins do not use the next level. */
static void test_level_wider_than_a_host(void **state)
{
    (void)state;
    const zr_layout layout = layout_of(2, 4, 1);
    zr_cluster c = cluster_of(ZR_ALGORITHM_RING);
    c.host_devices = 2;
    close_to(exchange_sec(&layout, ZR_GROUP_DATA, &c, 2, 700), 700 / 100.0 + 3 * 0.5);
}

/* Check messages between pipeline ranks: within a host, and to all ranks of a host at the same time. */
static void test_messages(void **state)
{
    (void)state;
    const zr_cluster c = cluster_of(ZR_ALGORITHM_RING);
    static const struct {
        int ranks, tensor, host;
        double latency, rate;
    } cases[] = {{4, 1, 4, 2, 10}, {2, 2, 4, 2, 10}, {4, 1, 2, 2, 20}, {2, 1, 4, 0.5, 100}, {4, 1, 1, 2, 20}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        zr_layout layout = layout_of(1, cases[i].ranks, cases[i].tensor);
        layout.pipeline = 2;
        for (layout.role = 0; layout.role < 2; layout.role++) {
            zr_plan *plan = plan_of(&layout);
            const zr__path path = zr__path_of(plan, 1 - layout.role, &c, cases[i].host);
            close_to(path.latency_sec, cases[i].latency);
            close_to(path.byte_sec, 1 / cases[i].rate);
            zr_plan_destroy(&plan);
        }
    }
}

/* ---- a whole step ------------------------------------------------------------------------------- */

static zr_simulation simulate_all(const zr_plans *plans, const zr_cluster *cluster, zr_simulate_options options)
{
    zr_simulation made;
    if (zr_simulate(plans, cluster, &options, &made, NULL) != ZR_OK) fail_msg("%s", zr_error_message());
    double waits = 0;
    for (int c = 0; c < ZR_CAUSES; c++) waits += made.exposed_sec[c];
    close_to(waits, made.price.exposed_sec);
    close_to(made.product_sec + made.memory_sec + made.launch_sec, made.price.compute_sec);
    assert_true(made.bound_by[0] != '\0');
    return made;
}

static zr_simulation simulate(const zr_plan *plan, const zr_cluster *cluster, zr_simulate_options options)
{
    return simulate_all(&ZR__ALONE(plan), cluster, options);
}

/* Check a pipeline: computing waits for other ranks, a slower network and a slower rank make it wait longer, and the
 * work of all ranks counts. */
static void test_pipeline(void **state)
{
    (void)state;
    zr_layout layout = layout_of(1, 4, 1);
    zr_cluster c = cluster_of(ZR_ALGORITHM_RING);
    zr_plans plans = {.n = 2};
    c.link[0].bytes_sec = c.link[1].bytes_sec = 1e9;
    c.link[1].shared_bytes_sec = 0;
    c.link[0].latency_sec = c.link[1].latency_sec = 0;
    layout.accum = 8;
    layout.pipeline = 2;
    for (; layout.role < 2; layout.role++) plans.role[layout.role] = plan_of(&layout);
    const zr_simulation fast = simulate_all(&plans, &c, (zr_simulate_options){0});
    close_to(fast.exposed_sec[ZR_CAUSE_PIPELINE], fast.price.bubble_sec);
    assert_true(fast.price.bubble_sec > 0);
    close_to(fast.flops_sec, (plans.role[0]->flops_hardware + plans.role[1]->flops_hardware) / 8 / fast.price.step_sec);
    c.link[1].bytes_sec = 1e5;
    const zr_simulation slow = simulate_all(&plans, &c, (zr_simulate_options){0});
    assert_true(slow.price.bubble_sec > 1.5 * fast.price.bubble_sec);
    /* rank 0 is on pipeline rank 0 */
    const zr_simulation straggles = simulate_all(&plans, &c, (zr_simulate_options){.straggler = 3});
    assert_int_equal(straggles.price.role, 0);
    close_to(straggles.price.compute_sec, 3 * simulate(plans.role[0], &c, (zr_simulate_options){0}).price.compute_sec);
    assert_true(straggles.price.step_sec > slow.price.step_sec && straggles.slowest == 3);
    zr_plan_destroy(&plans.role[0]);
    zr_plan_destroy(&plans.role[1]);
}

/* Check that with one level of links, no shares and no latencies, the prices equal a profile's, also of records. FLOPs
 * of a micro-batch follow the formula of Narayanan et al. (2021, equation 3, without recompute). */
static void test_as_a_profile(void **state)
{
    (void)state;
    const double rows = 2 * 16, C = 48, L = 2, T = 16, V = 96;
    const double model_flops = 72 * rows * L * C * C * (1 + T / (6 * C) + V / (12 * L * C));
    for (int stage = 0; stage <= 3; stage++)
        for (int64_t accum = 1; accum <= 3; accum++) {
            zr_layout layout = layout_of(stage, 4, 1);
            layout.accum = accum;
            if (accum == 2) layout.recompute = ZR_RECOMPUTE_UNIT; /* recompute adds no FLOPs to the model's */
            if (accum == 3) {
                layout.weight_records = ZR_I8X128;
                layout.grad_records = ZR_I4X128;
                layout.reduce_once = true;
            }
            zr_plan *plan = plan_of(&layout);
            assert_true((plan->flops_hardware > plan->flops_model) == (accum == 2));
            zr_cluster c = cluster_of(ZR_ALGORITHM_EXCHANGE);
            c.link[0].latency_sec = 0;
            c.device.records[0] = (zr_record_rate){.encode = 50, .decode = 100};
            c.device.records[1] = (zr_record_rate){.encode = 200, .decode = 400};
            const zr_simulation made = simulate(plan, &c, (zr_simulate_options){0});
            zr_profile profile = {.machine = c.device};
            profile.machine.link[ZR_LINK_HOST].bytes_sec = 100;
            zr_price price;
            assert_int_equal(zr_plans_price(&ZR__ALONE(plan), &profile, &price), ZR_OK);
            close_to(made.price.step_sec, price.step_sec);
            close_to(made.price.comm_sec, price.comm_sec);
            close_to(made.samples_sec, 8.0 * (double)accum / price.step_sec);
            const double again_flops = (plan->flops_hardware - plan->flops_model) / 4;
            close_to(made.flops_sec, (model_flops * (double)accum + again_flops) / price.step_sec);
            close_to(made.mfu, model_flops * (double)accum / price.step_sec / 1e9);
            zr_plan_destroy(&plan);
        }
}

static double with_change(const zr_plan *plan, void (*change)(zr_cluster *cluster))
{
    zr_cluster c = cluster_of(ZR_ALGORITHM_RING);
    c.product_share = c.memory_share = c.link_share = 0.5;
    c.product_half = 8;
    c.attention_share = 0.3;
    c.launch_sec = c.step_sec = 1e-6;
    c.link[0].bytes_sec = 1e7;
    c.link[1].bytes_sec = 1e6;
    c.link[1].shared_bytes_sec = 0;
    c.link[0].latency_sec = 1e-4;
    c.link[1].latency_sec = 2e-4;
    if (change) change(&c);
    return simulate(plan, &c, (zr_simulate_options){0}).price.step_sec;
}

#define CHANGE(name, field)                                                                                            \
    static void name(zr_cluster *c)                                                                                    \
    {                                                                                                                  \
        c->field *= 1.2;                                                                                               \
    }
CHANGE(product_share, product_share)
CHANGE(product_half, product_half)
CHANGE(attention_share, attention_share)
CHANGE(memory_share, memory_share)
CHANGE(link_share, link_share)
CHANGE(launch, launch_sec)
CHANGE(collective, step_sec)
CHANGE(latency, link[0].latency_sec)
CHANGE(network_latency, link[1].latency_sec)
CHANGE(network, link[1].bytes_sec)

/* Check that attention has its own share of the peak where one is given, whatever the width of its heads, and that
 * products keep theirs. */
static void test_attention_share(void **state)
{
    (void)state;
    const zr_layout layout = layout_of(2, 1, 1);
    zr_plan *plan = plan_of(&layout);
    zr_cluster c = cluster_of(ZR_ALGORITHM_RING);
    c.device.memory_bytes_sec = 1e18; /* products take all the time */
    c.product_share = 0.5;
    const zr_simulation as_products = simulate(plan, &c, (zr_simulate_options){0});
    c.attention_share = 0.25;
    const zr_simulation slower = simulate(plan, &c, (zr_simulate_options){0});
    c.product_half = 1e9;
    const zr_simulation small = simulate(plan, &c, (zr_simulate_options){0});
    c.attention_share = 0.125;
    const zr_simulation slowest = simulate(plan, &c, (zr_simulate_options){0});
    /* time at the peak, in seconds */
    const double rows = 2 * 16, C = 48, L = 2, T = 16, attention = 12 * rows * L * C * T / 1e9;
    close_to(slower.product_sec - as_products.product_sec, attention * (1 / 0.25 - 1 / 0.5));
    assert_true(fabs((slowest.product_sec - small.product_sec) / (attention * (1 / 0.125 - 1 / 0.25)) - 1) < 1e-3);
    zr_plan_destroy(&plan);
}

/* Check that raising a number by a fifth changes the times of the steps that depend on it, in the right direction, and
 * no others. */
static void test_what_moves_a_step(void **state)
{
    (void)state;
    static const struct {
        void (*change)(zr_cluster *c);
        /* change of the time of a rank alone, of ranks of one host, and of ranks of several hosts: -1 faster, 0
         * unchanged, 1 slower */
        int alone, host, hosts;
    } all[] = {{product_share, -1, -1, -1}, {product_half, 1, 1, 1}, {attention_share, -1, -1, -1},
               {memory_share, -1, -1, -1},  {link_share, 0, -1, -1}, {launch, 1, 1, 1},
               {collective, 0, 1, 1},       {latency, 0, 1, 0},      {network_latency, 0, 0, 1},
               {network, 0, 0, -1}};
    static const int ranks[] = {1, 4, 16};
    for (int i = 0; i < 3; i++) {
        const zr_layout layout = layout_of(2, ranks[i], 1);
        zr_plan *plan = plan_of(&layout);
        const double before = with_change(plan, NULL);
        for (size_t k = 0; k < sizeof(all) / sizeof(*all); k++) {
            const int wanted = i == 0 ? all[k].alone : i == 1 ? all[k].host : all[k].hosts;
            const double now = with_change(plan, all[k].change);
            if ((now > before) - (now < before) != wanted)
                fail_msg("%d ranks, change %zu: %.9g after %.9g, wanted %d", ranks[i], k, now, before, wanted);
        }
        zr_plan_destroy(&plan);
    }
}

/* Check that each wait has its cause, with checkpoints on the host, checkpoints in pieces and tensor parallelism. */
static void test_causes(void **state)
{
    (void)state;
    zr_layout layout = layout_of(2, 4, 4);
    layout.recompute = ZR_RECOMPUTE_UNIT;
    layout.partition_checkpoints = true;
    layout.checkpoint_home = ZR_SPACE_HOST;
    zr_plan *plan = plan_of(&layout);
    zr_cluster c = cluster_of(ZR_ALGORITHM_RING);
    c.host_bytes_sec = 1;
    const zr_simulation beside = simulate(plan, &c, (zr_simulate_options){0}),
                        slow = simulate(plan, &c, (zr_simulate_options){.straggler = 2});
    c.copies_hold = true;
    const zr_simulation held = simulate(plan, &c, (zr_simulate_options){0});
    c.copies_hold = false;
    c.scores_bytes = 1000;
    const zr_simulation scores = simulate(plan, &c, (zr_simulate_options){0});
    assert_true(beside.exposed_sec[ZR_CAUSE_STAGE] > 0 && beside.exposed_sec[ZR_CAUSE_TENSOR] > 0);
    assert_true(beside.exposed_sec[ZR_CAUSE_PIECES] + beside.exposed_sec[ZR_CAUSE_HOST] > 0);
    assert_true(held.price.step_sec > beside.price.step_sec);
    close_to(slow.product_sec, 2 * beside.product_sec);
    assert_true(slow.price.step_sec > beside.price.step_sec && scores.memory_sec > beside.memory_sec);
    zr_plan_destroy(&plan);
}

/* ---- ranks that differ --------------------------------------------------------------------------- */

static bool exchanges(const zr_plan *plan, const zr_step *step)
{
    return step->kind == ZR_STEP_NORM || step->kind == ZR_STEP_AGREE ||
           (plan->group[step->group].size > 1 && (step->kind == ZR_STEP_GATHER || step->kind == ZR_STEP_GATHER_GRAD ||
                                                  step->kind == ZR_STEP_REDUCE_SCATTER));
}

/* Return whether ranks a and b are in the same group of a step; `tensor` ranks share each layer. */
static bool same_group(const zr_step *step, int tensor, int a, int b)
{
    if (step->group == ZR_GROUP_TENSOR) return a / tensor == b / tensor;
    return step->group == ZR_GROUP_DATA ? a % tensor == b % tensor : step->group == ZR_GROUP_ALL || a == b;
}

enum { RANKS = 8, STEPS = 2000 };

/* Walk all ranks, each with its own clocks, and return when the last rank ends: an exchange begins when the last rank
 * of its group is there, and kernels of rank r take `factor[r]` times as long as in `time`. */
static double walk_all(const zr_plan *plan, const zr_step_time *time, const double factor[RANKS])
{
    static double end[STEPS][RANKS], clock[ZR_STREAMS][RANKS];
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    double last = 0;
    assert_true(s->n_steps <= STEPS);
    memset(clock, 0, sizeof(clock));
    for (int32_t i = 0; i < s->n_steps; i++) {
        const zr_step *step = &s->step[i];
        double start[RANKS], takes = time[i].end_sec - time[i].begin_sec;
        for (int r = 0; r < RANKS; r++) {
            start[r] = clock[step->stream][r];
            for (int32_t w = step->waits; w < step->waits + step->n_waits && step->when != ZR_WHEN_LATER; w++)
                if (!s->wait[w].before) start[r] = fmax(start[r], end[s->wait[w].step][r]);
        }
        for (int r = 0; r < RANKS; r++) {
            double begin = start[r];
            for (int other = 0; other < RANKS && exchanges(plan, step); other++)
                if (same_group(step, (int)plan->layout.tensor, r, other)) begin = fmax(begin, start[other]);
            end[i][r] = clock[step->stream][r] = begin + takes * (exchanges(plan, step) ? 1 : factor[r]);
            last = fmax(last, end[i][r]);
        }
    }
    return last;
}

static void test_slowest_is_last(void **state)
{
    (void)state;
    static zr_step_time time[STEPS];
    for (int stage = 0; stage <= 3; stage++)
        for (int tensor = 1; tensor <= 4; tensor *= 2) {
            const zr_layout layout = layout_of(stage, RANKS / tensor, tensor);
            zr_plan *plan = plan_of(&layout);
            zr_cluster c = cluster_of(ZR_ALGORITHM_RING);
            zr_simulate_options o = {.jitter = 0.5, .seed = 7, .straggler = 1.25};
            zr_simulation made;
            double factor[RANKS], all[RANKS];
            c.link[0].latency_sec = c.link[1].latency_sec = 1e-6;
            c.link[0].bytes_sec = c.link[1].bytes_sec = 1e8;
            for (int r = 0; r < RANKS; r++) {
                float n;
                zr_rng_normal(&(zr_rng){.seed = 7, .purpose = ZR_RNG_JITTER}, (uint64_t)r, 1, &n);
                factor[r] = (r == 0 ? 1.25 : 1) * (1 + 0.5 * fabs((double)n));
                all[r] = 1;
            }
            assert_int_equal(zr_simulate(&ZR__ALONE(plan), &c, NULL, &made, (zr_step_time *[]){time}), ZR_OK);
            close_to(walk_all(plan, time, all), made.price.step_sec);
            close_to(walk_all(plan, time, factor), simulate(plan, &c, o).price.step_sec);
            zr_plan_destroy(&plan);
        }
}

static void test_jitter(void **state)
{
    (void)state;
    const zr_cluster c = cluster_of(ZR_ALGORITHM_RING);
    double alone = 0, before = 0;
    for (int ranks = 1; ranks <= 16; ranks *= 4) {
        const zr_layout layout = layout_of(1, ranks, 1);
        zr_plan *plan = plan_of(&layout);
        const zr_simulation none = simulate(plan, &c, (zr_simulate_options){0}),
                            seeded = simulate(plan, &c, (zr_simulate_options){.seed = 3}),
                            some = simulate(plan, &c, (zr_simulate_options){.jitter = 0.1, .seed = 3}),
                            again = simulate(plan, &c, (zr_simulate_options){.jitter = 0.1, .seed = 3}),
                            more = simulate(plan, &c, (zr_simulate_options){.jitter = 0.2, .seed = 3}),
                            other = simulate(plan, &c, (zr_simulate_options){.jitter = 0.1, .seed = 4});
        zr_plan_destroy(&plan);
        assert_true(none.slowest == 1 && seeded.price.step_sec == none.price.step_sec);
        assert_true(some.price.step_sec > none.price.step_sec && more.price.step_sec > some.price.step_sec);
        assert_true(some.price.step_sec == again.price.step_sec && some.slowest == again.slowest);
        assert_true(some.slowest != other.slowest);
        close_to(more.slowest - 1, 2 * (some.slowest - 1));
        assert_true(some.slowest >= before); /* with more ranks the slowest is no faster */
        before = some.slowest;
        if (ranks == 1) alone = before;
    }
    assert_true(before > alone);
}

/* ---- saving --------------------------------------------------------------------------------------- */

static void test_saves(void **state)
{
    (void)state;
    zr_layout layout = layout_of(2, 4, 1);
    zr_plan *without = plan_of(&layout);
    layout.save = ZR_SAVE_IN_PLACE;
    zr_plan *in_place = plan_of(&layout);
    layout.save = ZR_SAVE_COPY;
    layout.ranks = 1; /* with one rank, no exchange hides the copy */
    zr_plan *copy = plan_of(&layout);
    zr_cluster c = cluster_of(ZR_ALGORITHM_RING);
    const zr_simulate_options none = {0}, two = {.ranks_per_host = 2};
    assert_int_equal(simulate(without, &c, none).save.bytes, 0);
    const zr_save_price unknown = simulate(in_place, &c, none).save;
    /* Parameters and two moments in fp32, a quarter on each rank. */
    assert_true(unknown.bytes >= 3 * 4 * in_place->params / 4 && unknown.bytes < 3 * 4 * in_place->params / 4 + 2000);
    assert_true(isnan(unknown.write_sec) && isnan(unknown.stall_sec));
    c.disk_bytes_sec = 10; /* a save takes longer than a step */
    const zr_save_price alone = simulate(in_place, &c, none).save, shared = simulate(in_place, &c, two).save;
    close_to(alone.write_sec, 4 * (double)alone.bytes / 10); /* four ranks of a host share its disk */
    close_to(shared.write_sec, 2 * (double)alone.bytes / 10);
    assert_true(alone.stall_sec > shared.stall_sec && alone.stall_sec < alone.write_sec);
    assert_true(isnan(simulate(copy, &c, none).save.stall_sec)); /* the speed of the copy is unknown */
    c.host_bytes_sec = 500;
    const zr_save_price copied = simulate(copy, &c, none).save;
    const double copies_sec =
        (double)copied.bytes / 500; /* the first pass, which overlaps with the copy, takes much less time */
    assert_true(copied.stall_sec <= copies_sec && copied.stall_sec > 0.999 * copies_sec);
    zr_plan_destroy(&without);
    zr_plan_destroy(&in_place);
    zr_plan_destroy(&copy);
}

/* Check product_multiple, the multiple that product sizes must be for the full rate. Sizes are multiples of 16, except
 * for the width of a head, 4: at 16 only attention is slow, at 64 all products are. */
static void test_sizes_that_do_not_suit(void **state)
{
    (void)state;
    zr_layout layout = layout_of(0, 1, 1);
    layout.dtype = layout.wire_dtype = ZR_BF16;
    zr_plan *plan = plan_of(&layout);
    zr_cluster c = cluster_of(ZR_ALGORITHM_RING);
    c.device.memory_bytes_sec = 1e15;
    c.device.flops_bf16 = 8 * c.device.flops_f32;
    static const int multiples[] = {0, 4, 16, 64};
    double sec[4];
    for (int i = 0; i < 4; i++) {
        c.product_multiple = multiples[i];
        sec[i] = simulate(plan, &c, (zr_simulate_options){0}).product_sec;
    }
    const double fast = sec[0], suits = sec[1], heads = sec[2], none = sec[3];
    c.product_multiple = 0;
    c.device.flops_bf16 = c.device.flops_f32;
    const double slow = simulate(plan, &c, (zr_simulate_options){0}).product_sec;
    close_to(suits, fast);
    assert_true(heads > 1.01 * fast && heads < 0.5 * slow);
    assert_true(none <= slow * (1 + 1e-12) && none > 0.9 * slow);
    zr_plan_destroy(&plan);
}

/* ---- refusals ----------------------------------------------------------------------------------- */

static void refused(const zr_plan *plan, const zr_cluster *c, int32_t ranks_per_host, const char *says)
{
    zr_simulation made;
    const zr_simulate_options options = {.ranks_per_host = ranks_per_host};
    assert_int_equal(zr_simulate(&ZR__ALONE(plan), c, &options, &made, NULL), ZR_ERR_CONFIG);
    if (!strstr(zr_error_message(), says)) fail_msg("says: %s\nwanted: %s", zr_error_message(), says);
}

static void test_refusals(void **state)
{
    (void)state;
    zr_cluster c = cluster_of(ZR_ALGORITHM_RING);
    zr_layout layout = layout_of(2, 17, 1);
    zr_plan *plan = plan_of(&layout);
    refused(plan, &c, 0, "17 ranks, 4 on a host, do not fit the 16 devices of test");
    zr_plan_destroy(&plan);
    layout = layout_of(2, 4, 2);
    plan = plan_of(&layout);
    refused(plan, &c, 5, "5 ranks on a host of test, which has 4 devices");
    refused(plan, &c, 1, "8 ranks, 1 on a host, do not fit");
    zr_plan_destroy(&plan);
    layout.recompute = ZR_RECOMPUTE_UNIT;
    layout.checkpoint_home = ZR_SPACE_HOST;
    plan = plan_of(&layout);
    refused(plan, &c, 0, "host.device_bytes_per_sec of test is not known");
    zr_plan_destroy(&plan);
    layout.checkpoint_home = ZR_SPACE_DEVICE;
    layout.home.optim = ZR_SPACE_HOST;
    plan = plan_of(&layout);
    c.host_bytes_sec = 1e9;
    refused(plan, &c, 0, "host.memory_bytes_per_sec of test is not known");
    zr_plan_destroy(&plan);
}

/* Check that updates by the host's processors take the time of the host's memory; waits for them count as offload. */
static void test_host_updates(void **state)
{
    (void)state;
    zr_cluster c = cluster_of(ZR_ALGORITHM_RING);
    zr_layout layout = layout_of(2, 4, 1);
    layout.home.optim = ZR_SPACE_HOST;
    layout.states = ZR_STATES_PAPER;
    zr_plan *plan = plan_of(&layout);
    c.host_bytes_sec = 1e12;
    zr_simulation made[2];
    for (int i = 0; i < 2; i++) {
        c.device.host_memory_bytes_sec = i ? 1e3 : 2e3;
        made[i] = simulate(plan, &c, (zr_simulate_options){0});
    }
    assert_true(made[0].price.host_sec > 0);
    close_to(made[1].price.host_sec, 2 * made[0].price.host_sec);
    /* updates follow the norm, and no computing overlaps with them */
    close_to(made[1].exposed_sec[ZR_CAUSE_STATES] - made[0].exposed_sec[ZR_CAUSE_STATES], made[0].price.host_sec);
    assert_true(made[0].price.disk_sec == 0);
    zr_plan_destroy(&plan);
    layout.home.optim = ZR_SPACE_DISK;
    plan = plan_of(&layout);
    c.disk_bytes_sec = 1e3;
    made[0] = simulate(plan, &c, (zr_simulate_options){0});
    assert_true(made[0].price.disk_sec > 0 && made[0].price.host_sec > 0);
    zr_plan_destroy(&plan);
}

/* Check clusters that no file could describe: each missing number is refused with a message about its place. */
static void test_bad_clusters(void **state)
{
    (void)state;
    const zr_layout layout = layout_of(2, 8, 1);
    zr_plan *plan = plan_of(&layout);
    const zr_cluster good = cluster_of(ZR_ALGORITHM_RING);
    zr_cluster c;
#define BAD(change, says) c = good, c.change, refused(plan, &c, 0, says)
    refused(plan, &(zr_cluster){.name = "none"}, 0, "device.flops_f32_per_sec of the cluster none is 0");
    BAD(device.flops_f32 = 0, "device.flops_f32_per_sec of the cluster test is 0; a number above 0 was wanted");
    BAD(device.flops_f32 = NAN, "device.flops_f32_per_sec of the cluster test is nan");
    BAD(device.memory_bytes_sec = 0, "device.memory_bytes_per_sec of");
    BAD(product_share = 0, "device.product_share of");
    BAD(memory_share = -1, "device.memory_share of the cluster test is -1");
    BAD(attention_share = -1, "device.attention_share of the cluster test is -1; a number from 0 was wanted");
    BAD(product_half = -1, "device.product_half_size of the cluster test is -1; a number from 0 was wanted");
    BAD(launch_sec = INFINITY, "device.launch_sec of");
    BAD(devices = 0, "devices of the cluster test is 0");
    BAD(host_devices = 0, "host.devices of the cluster test is 0");
    BAD(host_bytes_sec = -1, "host.device_bytes_per_sec of");
    BAD(disk_bytes_sec = -1, "host.disk_bytes_per_sec of");
    BAD(link_share = 0, "link_share of the cluster test is 0");
    BAD(step_sec = NAN, "collective_sec of");
    BAD(n_links = 0, "links of the cluster test connect 1 of its 16 devices");
    BAD(n_links = 1, "links of the cluster test connect 4 of its 16 devices");
    BAD(n_links = 5, "links of the cluster test: 5 levels");
    BAD(scores_bytes = -1, "software.scores_bytes of the cluster test is -1; a number from 0");
    BAD(link[0].devices = 0, "links[0].devices of the cluster test is 0");
    BAD(link[1].devices = 18, "links[1].devices of the cluster test is 18; a larger multiple of the 4 of");
    BAD(link[1].bytes_sec = 0, "links[1].bytes_per_sec of the cluster test is 0; a number above 0");
    BAD(link[0].shared_bytes_sec = -1, "links[0].shared_bytes_per_sec of the cluster test is -1; a number from 0");
    BAD(link[0].latency_sec = NAN, "links[0].latency_sec of");
#undef BAD
    zr_plan_destroy(&plan);
}

static void test_bad_options(void **state)
{
    (void)state;
    const zr_layout layout = layout_of(2, 4, 1);
    zr_plan *plan = plan_of(&layout);
    const zr_cluster c = cluster_of(ZR_ALGORITHM_RING);
    static const zr_simulate_options bad[] = {
        {.straggler = 0.5}, {.straggler = NAN}, {.jitter = -1}, {.jitter = INFINITY}};
    static const char *const says[] = {"straggler is 0.5", "straggler is nan", "jitter is -1", "jitter is inf"};
    zr_simulation made, without;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(zr_simulate(&ZR__ALONE(plan), &c, &bad[i], &made, NULL), ZR_ERR_ARG);
        assert_non_null(strstr(zr_error_message(), says[i]));
    }
    made = simulate(plan, &c, (zr_simulate_options){0});
    assert_int_equal(zr_simulate(&ZR__ALONE(plan), &c, NULL, &without, NULL), ZR_OK);
    assert_true(without.price.step_sec == made.price.step_sec);
    zr_plan_destroy(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trees_of_any_size),
        cmocka_unit_test(test_exchanges),
        cmocka_unit_test(test_few_on_each_host),
        cmocka_unit_test(test_last_host_half_full),
        cmocka_unit_test(test_network_behind_pcie),
        cmocka_unit_test(test_level_wider_than_a_host),
        cmocka_unit_test(test_attention_share),
        cmocka_unit_test(test_as_a_profile),
        cmocka_unit_test(test_slowest_is_last),
        cmocka_unit_test(test_jitter),
        cmocka_unit_test(test_saves),
        cmocka_unit_test(test_bad_clusters),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_causes),
        cmocka_unit_test(test_sizes_that_do_not_suit),
        cmocka_unit_test(test_what_moves_a_step),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_pipeline),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_host_updates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
