//TEST timeout=60
/* Bytes of the layout choices other than the stage: lean states, stage 3's thresholds, buffers, the papers' baselines,
 * accumulators of `world`; and choices that exclude each other are refused. */
#include <stdio.h>
#include <string.h>

#include "plan/gpt2_sizes.h"
#include "plan/plan_make.h"

static zr_layout layout_of(int ranks, int stage, zr_dtype dtype)
{
    zr_layout l = zr_layout_default();
    l.ranks = ranks;
    l.stage = stage;
    l.seq = 64;
    l.dtype = l.wire_dtype = dtype;
    l.eval = false;
    l.optimizer = zr_adamw(0.9, 0.95, 1e-8, 0.1);
    return l;
}

static zr_gpt2_config config_of(const char *preset)
{
    zr_gpt2_config config;
    assert_int_equal(zr_gpt2_preset(preset, &config), ZR_OK);
    return config;
}

static zr_plan *plan_of(const char *preset, const zr_layout *layout)
{
    zr_gpt2_config config = config_of(preset);
    return plan_gpt2(&config, layout, &plan_profile);
}

static int64_t padded_of(const char *preset, int ranks)
{
    zr_gpt2_config config = config_of(preset);
    gpt2_sizes sizes = gpt2_count(&config);
    return gpt2_padded(&sizes, ranks);
}

static int64_t states_of(const zr_layout *l)
{
    zr_plan *plan = plan_of("gpt2-124m", l);
    int64_t bytes = plan->memory.states_bytes;
    zr_plan_destroy(&plan);
    return bytes;
}

/* Check the bytes per parameter that stay through the step; at stage 3 all ranks share them. */
static void test_states(void **state)
{
    (void)state;
    const struct {
        zr_states states;
        zr_dtype dtype;
        bool norm_first, two_pass;
        int64_t accum, bytes;
    } cases[] = {
        {ZR_STATES_PAPER, ZR_BF16, false, false, 1, 16}, {ZR_STATES_PAPER, ZR_BF16, true, false, 1, 16},
        {ZR_STATES_PAPER, ZR_BF16, true, false, 4, 18},  {ZR_STATES_PAPER, ZR_F32, true, false, 1, 16},
        {ZR_STATES_LEAN, ZR_BF16, false, false, 1, 12},  {ZR_STATES_LEAN, ZR_F16, true, false, 1, 14},
        {ZR_STATES_LEAN, ZR_BF16, true, true, 1, 12},    {ZR_STATES_LEAN, ZR_BF16, false, false, 4, 16},
        {ZR_STATES_LEAN, ZR_F32, false, false, 1, 12},   {ZR_STATES_LEAN, ZR_F32, true, false, 1, 16},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int ranks = 1; ranks <= 4; ranks += 3) {
            zr_layout l = layout_of(ranks, 3, cases[c].dtype);
            l.states = cases[c].states;
            l.norm_first = cases[c].norm_first;
            l.two_pass = cases[c].two_pass;
            l.accum = cases[c].accum;
            int64_t want = cases[c].bytes * padded_of("gpt2-124m", ranks) / ranks;
            assert_int_equal(states_of(&l), want);
        }
    /* Below stage 3 the 16-bit parameters stay whole: 2 + 12 / N bytes. */
    zr_layout l = layout_of(4, 2, ZR_BF16);
    l.states = ZR_STATES_LEAN;
    assert_int_equal(states_of(&l), (2 + 3) * padded_of("gpt2-124m", 4));
}

/* Check the cost of two passes: the backward pass runs twice, with the head's logits, and the forward pass once;
 * gradients are reduced twice and, at stage 3, parameters gathered once more. */
static void test_two_passes(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        zr_layout l = layout_of(2, stage, ZR_BF16);
        l.states = ZR_STATES_LEAN;
        zr_plan *one = plan_of("gpt2-124m", &l);
        l.norm_first = l.two_pass = true;
        zr_plan *two = plan_of("gpt2-124m", &l);
        /* 2 bytes an element, half of the elements on each rank */
        int64_t again = stage == 3 ? padded_of("gpt2-124m", 2) : 0;
        double logits = 2.0 * (double)(l.ranks * l.batch * l.seq) * 50257 * 768;
        assert_float_equal(two->flops_hardware, one->flops_hardware * 5 / 3 + logits, one->flops_hardware * 1e-9);
        assert_float_equal(two->flops_model, one->flops_model, 0);
        assert_int_equal(two->traffic.bytes[ZR_TRAFFIC_REDUCE_SCATTER],
                         2 * one->traffic.bytes[ZR_TRAFFIC_REDUCE_SCATTER]);
        assert_int_equal(two->traffic.bytes[ZR_TRAFFIC_ALL_GATHER], one->traffic.bytes[ZR_TRAFFIC_ALL_GATHER] + again);
        zr_plan_destroy(&one);
        zr_plan_destroy(&two);
    }
}

/* ---- stage 3 ---- */

/* Return the elements gathered in a step, over all units, and the most bytes of whole units. */
static void gathered(const zr_layout *l, int64_t *elems, int64_t *param_bytes)
{
    zr_plan *plan = plan_of("gpt2-124m", l);
    *elems = plan->traffic.bytes[ZR_TRAFFIC_ALL_GATHER] / 2 * l->ranks / (l->ranks - 1);
    *param_bytes = plan->memory.category_bytes[ZR_CATEGORY_PARAM];
    zr_plan_destroy(&plan);
}

static void test_thresholds(void **state)
{
    (void)state;
    const int64_t embedding = (50257 + 1024) * 768, block = 12 * 768 * 768 + 13 * 768, final = 2 * 768;
    const int64_t all = embedding + 12 * block + final; /* padding is not needed on 4 ranks */
    zr_layout l = layout_of(4, 3, ZR_BF16);
    int64_t elems, bytes, usual_bytes;
    gathered(&l, &elems, &usual_bytes);
    assert_int_equal(elems, 2 * all - final);
    assert_int_equal(usual_bytes,
                     2 * (all / 4 + embedding + block + final)); /* the head, while the last block is prefetched */

    /* only the final norm: blocks hold large matrices; gathered once a step, after the update */
    l.persist_elems = 1000;
    gathered(&l, &elems, &bytes);
    assert_int_equal(elems, 2 * all - final);
    l.persist_elems = 3000000; /* the largest matrix of a block has 2,359,296 elements */
    gathered(&l, &elems, &bytes);
    assert_int_equal(elems, 2 * all - final - 12 * block);
    assert_true(bytes > usual_bytes + 12 * block);
    l.persist_model_elems = 3 * block + 100; /* room for three blocks */
    gathered(&l, &elems, &bytes);
    assert_int_equal(elems, 2 * all - final - 3 * block);
    l.persist_elems = INT64_MAX;
    l.persist_model_elems = 0;
    gathered(&l, &elems, &bytes);
    assert_int_equal(elems, all); /* as at stage 2 */
    l.persist_elems = 0;

    l.reuse_elems = embedding + final + 1; /* the last block is needed again after the head */
    gathered(&l, &elems, &bytes);
    assert_int_equal(elems, 2 * all - final - block);
    assert_int_equal(bytes, usual_bytes); /* the last block stays whole during the head instead of being prefetched */
    l.reuse_elems = INT64_MAX;
    gathered(&l, &elems, &bytes);
    assert_int_equal(elems, all);
    l.reuse_elems = 0;

    l.prefetch_elems = 0;
    gathered(&l, &elems, &bytes);
    assert_int_equal(elems, 2 * all - final);
    assert_int_equal(bytes, 2 * (all / 4 + embedding + final));
    l.prefetch_elems = INT64_MAX; /* only the maximum of live elements limits prefetch */
    l.live_elems = embedding + final + 5 * block;
    gathered(&l, &elems, &bytes);
    assert_int_equal(elems, 2 * all - final);
    assert_int_equal(bytes, 2 * (all / 4 + l.live_elems));
    l.prefetch_elems = 2 * block; /* two blocks ahead of the head */
    gathered(&l, &elems, &bytes);
    assert_int_equal(bytes, 2 * (all / 4 + embedding + final + 2 * block));
}

/* ---- buffers and baselines ---- */

static zr_memory memory_of(const char *preset, const zr_layout *l)
{
    zr_plan *plan = plan_of(preset, l);
    zr_memory memory = plan->memory;
    zr_plan_destroy(&plan);
    return memory;
}

/* Check that staging memory does not grow with the model. */
static void test_constant_buffers(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        zr_layout l = layout_of(2, stage, ZR_BF16);
        int64_t small = memory_of("gpt2-124m", &l).category_bytes[ZR_CATEGORY_BUFFER];
        assert_int_equal(small, 4 << 20);
        assert_int_equal(memory_of("gpt2-1.5b", &l).category_bytes[ZR_CATEGORY_BUFFER], small);
    }
}

static zr_traffic traffic_of(const zr_layout *l)
{
    zr_plan *plan = plan_of("gpt2-124m", l);
    zr_traffic traffic = plan->traffic;
    zr_plan_destroy(&plan);
    return traffic;
}

/* Check that NCCL reduces each unit in one step, whatever the bucket's size, and moves the same bytes. */
static void check_nccl(const zr_layout *usual, const zr_traffic *bytes)
{
    zr_layout l = *usual;
    l.reduce = ZR_REDUCE_NCCL;
    l.reduce_bucket_elems = 1000;
    zr_plan *plan = plan_of("gpt2-124m", &l);
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int reduced = 0;
    for (int32_t i = 0; i < s->n_steps; i++) {
        if (s->step[i].kind != ZR_STEP_REDUCE_SCATTER) continue;
        assert_true(s->step[i].nccl && s->step[i].range.count == plan->unit[s->step[i].unit].shard_elems);
        reduced++;
    }
    assert_int_equal(reduced, plan->n_units);
    assert_memory_equal(&plan->traffic, bytes, sizeof *bytes);
    zr_plan_destroy(&plan);
}

static void test_baselines(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        zr_layout l = layout_of(4, stage, ZR_BF16);
        zr_traffic usual = traffic_of(&l);
        check_nccl(&l, &usual);
        int64_t psi = padded_of("gpt2-124m", 4) * 3 / 4 * 2; /* bytes of (N-1)/N of the model */
        l.reduce = ZR_REDUCE_ALL_REDUCE;
        if (stage > 1) continue;
        zr_traffic first = traffic_of(&l);
        assert_int_equal(first.bytes[ZR_TRAFFIC_REDUCE_SCATTER] + first.bytes[ZR_TRAFFIC_ALL_GATHER],
                         (2 + stage) * psi);
    }
}

/* Check that `world` needs log2(k + 1) accumulators, rounded down, for k micro-batches: the maximum number of partial
 * sums of a binary tree that exist at a time. */
static void test_world_accumulators(void **state)
{
    (void)state;
    const int64_t k[] = {1, 2, 3, 4, 6, 7, 8, 14, 15, 1 << 20}, n[] = {1, 1, 2, 2, 2, 3, 3, 3, 4, 20};
    for (int i = 0; i < 10; i++)
        for (int stage = 0; stage <= 3; stage += 3) {
            zr_layout l = layout_of(4, stage, ZR_F32);
            l.accum = k[i];
            l.rank_free_sums = true;
            zr_plan *plan = plan_of("gpt2-124m", &l);
            const zr_plan_unit *u = &plan->unit[1];
            assert_int_equal(u->n_open_sums + 1, n[i]);
            int64_t lowest = stage == 0 ? u->padded_elems : u->shard_elems;
            assert_int_equal(plan->persistent[u->sums.buffer].bytes, 4 * lowest);
            for (int32_t a = 0; a < u->n_open_sums; a++)
                assert_int_equal(plan->persistent[u->open_sums + a].bytes, 4 * u->shard_elems);
            zr_plan_destroy(&plan);
        }
}

static void test_excluded(void **state)
{
    (void)state;
    const struct {
        zr_layout set;
        zr_status status;
        const char *names;
    } cases[] = {
        {{.two_pass = true, .accum = 1, .ranks = 1}, ZR_ERR_CONFIG, "two passes"},
        {{.two_pass = true, .states = ZR_STATES_LEAN, .accum = 2, .ranks = 1}, ZR_ERR_CONFIG, "two passes"},
        {{.rank_free_sums = true, .accum = 1, .ranks = 3}, ZR_ERR_CONFIG, "power of two"},
        {{.reduce = ZR_REDUCE_ALL_REDUCE, .stage = 2, .accum = 1, .ranks = 2}, ZR_ERR_CONFIG, "stages 0 and 1"},
        {{.reduce = ZR_REDUCE_ALL_REDUCE, .stage = 1, .accum = 2, .ranks = 2}, ZR_ERR_UNSUPPORTED, "2 micro-batches"},
        {{.reduce = ZR_REDUCE_ALL_REDUCE, .stage = 1, .accum = 1, .ranks = 2, .rank_free_sums = true},
         ZR_ERR_UNSUPPORTED,
         "step, train.reproducible world"},
        {{.reduce = ZR_REDUCE_NCCL, .accum = 1, .ranks = 2, .rank_free_sums = true},
         ZR_ERR_CONFIG,
         "an order of its own"},
        {{.reduce = ZR_REDUCE_NCCL, .accum = 1, .ranks = 4, .shard_ranks = 2}, ZR_ERR_UNSUPPORTED, "groups within"},
        {{.rank_free_sums = true, .accum = INT64_MAX, .ranks = 2}, ZR_ERR_CONFIG, "micro-batches a step move"},
        {{.accum = 1, .ranks = 2, .recompute_every = -1}, ZR_ERR_CONFIG, "zr_layout.recompute_every is 0"},
        {{.accum = 1, .ranks = 2, .live_elems = -7}, ZR_ERR_CONFIG, "zr_layout.live_elems is -7"},
    };
    zr_gpt2_config config = config_of("gpt2-124m");
    zr_model model = zr_gpt2(&config);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        zr_layout l = layout_of(cases[c].set.ranks, cases[c].set.stage, ZR_BF16);
        l.two_pass = cases[c].set.two_pass;
        l.states = cases[c].set.states;
        l.accum = cases[c].set.accum;
        l.rank_free_sums = cases[c].set.rank_free_sums;
        l.reduce = cases[c].set.reduce;
        l.shard_ranks = cases[c].set.shard_ranks;
        l.recompute_every += cases[c].set.recompute_every;
        l.live_elems = cases[c].set.live_elems;
        zr_plan *plan = NULL;
        assert_int_equal(zr_plan_create(&model, &l, &plan_profile, &plan), cases[c].status);
        assert_null(plan);
        if (!strstr(zr_error_message(), cases[c].names)) fail_msg("%s", zr_error_message());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states),     cmocka_unit_test(test_two_passes),
        cmocka_unit_test(test_thresholds), cmocka_unit_test(test_constant_buffers),
        cmocka_unit_test(test_baselines),  cmocka_unit_test(test_world_accumulators),
        cmocka_unit_test(test_excluded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
