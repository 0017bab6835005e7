//TEST timeout=60
/* The simulator: exchanges by hand, a step beside the prices of a profile, what moves a step, what is refused. */
#include <math.h>
#include <string.h>

#include "plan_make.h"
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
    l.reduce_bucket_elems = l.gather_bucket_elems = 10000; /* several a unit */
    return l;
}

static const zr_gpt2_config sizes = {.n_layer = 2,
                                     .n_head = 4,
                                     .n_embd = 32,
                                     .n_positions = 16,
                                     .vocab_size = 64,
                                     .layer_norm_epsilon = 1e-5,
                                     .initializer_range = 0.02};

static zr_plan *plan_of(const zr_layout *layout)
{
    const zr_model model = zr_gpt2(&sizes);
    zr_profile profile = {.facts = {.name = "test", .threads = 1}};
    return plan_make(&model, layout, &profile);
}

/* 4 hosts of 4 devices. */
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

/* 16 ranks, 2 to a layer: 8 data-parallel ones, 2 of them on each host, two such groups at once. */
static void test_places(void **state)
{
    (void)state;
    const zr_layout layout = layout_of(2, 8, 2);
    zr_plan *plan = plan_of(&layout);
    const zr_cluster c = cluster_of(ZR_ALGORITHM_RING);
    const zr__spot data = zr__spot_of(plan, ZR_GROUP_DATA, &c, 4), tensor = zr__spot_of(plan, ZR_GROUP_TENSOR, &c, 4);
    static const int32_t members[] = {1, 2, 8}, groups[] = {1, 2, 2}, layer_members[] = {1, 2, 2}, layers[] = {1, 2, 8};
    assert_memory_equal(data.members, members, sizeof(members));
    assert_memory_equal(data.groups, groups, sizeof(groups));
    assert_memory_equal(tensor.members, layer_members, sizeof(layer_members));
    assert_memory_equal(tensor.groups, layers, sizeof(layers));
    assert_int_equal(data.size, 8);
    /* Hosts half full: the group has one rank on each. */
    zr_cluster wide = c;
    wide.devices = wide.link[1].devices = 64;
    const zr__spot half = zr__spot_of(plan, ZR_GROUP_DATA, &wide, 2);
    assert_int_equal(half.members[1], 1);
    assert_int_equal(half.groups[1], 2);
    assert_int_equal(half.members[2], 8);
    zr_plan_destroy(&plan);
    /* Three ranks on a host: ranks 2 and 3 share layers across a border, and all wait for them. */
    const zr_layout odd = layout_of(2, 3, 2);
    plan = plan_of(&odd);
    const zr__spot apart = zr__spot_of(plan, ZR_GROUP_TENSOR, &c, 3),
                   together = zr__spot_of(plan, ZR_GROUP_TENSOR, &c, 4);
    assert_int_equal(apart.members[1], 1);
    assert_int_equal(apart.members[2], 2);
    assert_int_equal(together.members[1], 2);
    assert_true(zr__exchange_sec(&c, &apart, 100) > 4 * zr__exchange_sec(&c, &together, 100));
    zr_plan_destroy(&plan);
}

static void test_exchanges(void **state)
{
    (void)state;
    const zr_layout layout = layout_of(2, 8, 2);
    zr_plan *plan = plan_of(&layout);
    zr_cluster c = cluster_of(ZR_ALGORITHM_RING);
    const zr__spot data = zr__spot_of(plan, ZR_GROUP_DATA, &c, 4), tensor = zr__spot_of(plan, ZR_GROUP_TENSOR, &c, 4);
    /* Network: two members have 2 x 20, but half of the host's 40: 20. 7 hops of 2 s. */
    close_to(zr__exchange_sec(&c, &data, 700), 700 / 20.0 + 7 * 2);
    close_to(zr__exchange_sec(&c, &tensor, 700), 700 / 100.0 + 0.5);
    close_to(zr__broadcast_sec(&c, &tensor, 700), 700 / 100.0 + 0.5);
    c.step_sec = 3;
    c.link_share = 0.5;
    close_to(zr__exchange_sec(&c, &data, 700), 700 / 10.0 + 7 * 2 + 3);
    c = cluster_of(ZR_ALGORITHM_EXCHANGE);
    /* Of 700 bytes 600 come from other hosts to each of two members: 1200 over 20. */
    close_to(zr__exchange_sec(&c, &data, 700), 1200 / 20.0 + 7 * 2);
    c.algorithm = ZR_ALGORITHM_TREE;
    close_to(zr__exchange_sec(&c, &data, 700), 1200 / 20.0 + 3 * 2);
    c.algorithm = ZR_ALGORITHM_AUTO;
    close_to(zr__exchange_sec(&c, &data, 700), 700 / 20.0 + 7 * 2); /* the ring */
    close_to(zr__exchange_sec(&c, &data, 7), 12 / 20.0 + 3 * 2);    /* the tree */
    zr_plan_destroy(&plan);
}

/* ---- a whole step ------------------------------------------------------------------------------- */

static zr_simulation simulate(const zr_plan *plan, const zr_cluster *cluster, zr_simulate_options options)
{
    zr_simulation made;
    if (zr_simulate(plan, cluster, &options, &made, NULL) != ZR_OK) fail_msg("%s", zr_error_message());
    double waits = 0;
    for (int c = 0; c < ZR_CAUSES; c++) waits += made.exposed_sec[c];
    close_to(waits, made.price.exposed_sec);
    close_to(made.product_sec + made.memory_sec + made.launch_sec, made.price.compute_sec);
    assert_true(made.bound_by[0] != '\0');
    return made;
}

/* One level of links, no shares and no latencies: the prices of a profile. */
static void test_as_a_profile(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++)
        for (int64_t accum = 1; accum <= 3; accum++) {
            zr_layout layout = layout_of(stage, 4, 1);
            layout.accum = accum;
            zr_plan *plan = plan_of(&layout);
            zr_cluster c = cluster_of(ZR_ALGORITHM_EXCHANGE);
            c.link[0].latency_sec = 0;
            const zr_simulation made = simulate(plan, &c, (zr_simulate_options){0});
            zr_profile profile = {.machine = c.device};
            profile.machine.link[ZR_LINK_HOST].bytes_sec = 100;
            zr_price price;
            assert_int_equal(zr_plan_price(plan, &profile, &price), ZR_OK);
            close_to(made.price.step_sec, price.step_sec);
            close_to(made.price.comm_sec, price.comm_sec);
            close_to(made.samples_sec, 8.0 * (double)accum / price.step_sec);
            close_to(made.flops_sec, plan->flops_hardware / 4 / price.step_sec);
            zr_plan_destroy(&plan);
        }
}

static double with_change(const zr_plan *plan, void (*change)(zr_cluster *cluster))
{
    zr_cluster c = cluster_of(ZR_ALGORITHM_RING);
    c.product_share = c.memory_share = c.link_share = 0.5;
    c.product_half = 8;
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
CHANGE(memory_share, memory_share)
CHANGE(link_share, link_share)
CHANGE(launch, launch_sec)
CHANGE(collective, step_sec)
CHANGE(latency, link[0].latency_sec)
CHANGE(network_latency, link[1].latency_sec)
CHANGE(network, link[1].bytes_sec)

/* A fifth more of each number moves the steps that it belongs to, in its direction, and no others. */
static void test_what_moves_a_step(void **state)
{
    (void)state;
    static const struct {
        void (*change)(zr_cluster *c);
        int alone, host, hosts; /* a rank alone, ranks of one host, of several: -1 faster, 0 the same, 1 slower */
    } all[] = {{product_share, -1, -1, -1}, {product_half, 1, 1, 1},    {memory_share, -1, -1, -1},
               {link_share, 0, -1, -1},     {launch, 1, 1, 1},          {collective, 0, 1, 1},
               {latency, 0, 1, 0},          {network_latency, 0, 0, 1}, {network, 0, 0, -1}};
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

/* Checkpoints on the host, in pieces, tensor parallelism: each wait has its cause. */
static void test_causes(void **state)
{
    (void)state;
    zr_layout layout = layout_of(2, 4, 4);
    layout.recompute = ZR_RECOMPUTE_UNIT;
    layout.partition_checkpoints = layout.offload_checkpoints = true;
    zr_plan *plan = plan_of(&layout);
    zr_cluster c = cluster_of(ZR_ALGORITHM_RING);
    c.host_bytes_sec = 1;
    const zr_simulation beside = simulate(plan, &c, (zr_simulate_options){0}),
                        held = simulate(plan, &c, (zr_simulate_options){.copies_hold = true}),
                        slow = simulate(plan, &c, (zr_simulate_options){.straggler = 2}),
                        scores = simulate(plan, &c, (zr_simulate_options){.scores_bytes = 1000});
    assert_true(beside.exposed_sec[ZR_CAUSE_STAGE] > 0 && beside.exposed_sec[ZR_CAUSE_TENSOR] > 0);
    assert_true(beside.exposed_sec[ZR_CAUSE_PIECES] + beside.exposed_sec[ZR_CAUSE_HOST] > 0);
    assert_true(held.price.step_sec > beside.price.step_sec);
    close_to(slow.product_sec, 2 * beside.product_sec);
    assert_true(slow.price.step_sec > beside.price.step_sec && scores.memory_sec > beside.memory_sec);
    zr_plan_destroy(&plan);
}

/* ---- refusals ----------------------------------------------------------------------------------- */

static void refused(const zr_plan *plan, const zr_cluster *c, int32_t ranks_per_host, const char *says)
{
    zr_simulation made;
    const zr_simulate_options options = {.ranks_per_host = ranks_per_host};
    assert_int_equal(zr_simulate(plan, c, &options, &made, NULL), ZR_ERR_CONFIG);
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
    layout.offload_checkpoints = true;
    plan = plan_of(&layout);
    refused(plan, &c, 0, "host.device_bytes_per_sec of test is not known");
    zr_plan_destroy(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places), cmocka_unit_test(test_exchanges),         cmocka_unit_test(test_as_a_profile),
        cmocka_unit_test(test_causes), cmocka_unit_test(test_what_moves_a_step), cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
