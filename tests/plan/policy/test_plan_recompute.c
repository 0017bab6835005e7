//TEST timeout=60
/* Activation checkpointing in the plan: which values are kept, which ops are recomputed, the cost; that the memory map
 * stays at its lower bound; and the search for the cheapest mix. */
#include <stdio.h>
#include <string.h>

#include "plan_bound.h"
#include "plan/plan_make.h"

enum { B = 2, T = 64, C = 96, HEADS = 4 };

static zr_gpt2_config small(int64_t layers)
{
    return (zr_gpt2_config){.n_layer = layers,
                            .n_head = HEADS,
                            .n_embd = C,
                            .n_positions = T,
                            .vocab_size = 300,
                            .resid_pdrop = 0.1,
                            .layer_norm_epsilon = 1e-5,
                            .initializer_range = 0.02};
}

static zr_layout layout_of(zr_recompute policy, int64_t every)
{
    zr_layout l = zr_layout_default();
    l.batch = B;
    l.seq = T;
    l.recompute = policy;
    l.recompute_every = every;
    l.dtype = l.wire_dtype = ZR_BF16;
    l.eval = false;
    l.optimizer = zr_adamw(0.9, 0.95, 1e-8, 0.1);
    return l;
}

static zr_plan *plan_of(const zr_gpt2_config *config, const zr_layout *layout)
{
    zr_plan *plan = plan_gpt2(config, layout, &plan_profile);
    if (zr_plan_check(plan) != ZR_OK) fail_msg("%s", zr_error_message());
    return plan;
}

static int64_t replays(const zr_plan *plan, const char *op, const char *unit)
{
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    const zr_graph *g = plan->graph[ZR_SCHEDULE_TRAIN];
    int64_t n = 0;
    for (int32_t i = 0; i < s->n_steps; i++)
        n += s->step[i].kind == ZR_STEP_RUN && s->step[i].replay &&
             (!op || strcmp(zr_graph_get_op(g, s->step[i].op)->def->name, op) == 0) &&
             (!unit || strcmp(zr_graph_unit_info(g, s->step[i].unit)->name, unit) == 0);
    return n;
}

/* Check policy unit: each block's input is kept, and the rest is recomputed except for the ops that the backward does
 * not need, which are the last product and the dropout and addition after it. The first and the last unit are not
 * recomputed, since that saves nothing. */
static void test_unit(void **state)
{
    (void)state;
    int64_t act[2], layers[2] = {4, 12};
    for (int i = 0; i < 2; i++) {
        zr_gpt2_config config = small(layers[i]);
        zr_layout l = layout_of(ZR_RECOMPUTE_UNIT, 1);
        zr_plan *plan = plan_of(&config, &l);
        assert_int_equal(plan->memory.category_bytes[ZR_CATEGORY_CHECKPOINT], layers[i] * B * T * C * 2);
        act[i] = plan->memory.category_bytes[ZR_CATEGORY_ACT];
        /* qkv, attention's projection, the first product of the MLP */
        assert_int_equal(replays(plan, "linear", "h.2"), 3);
        assert_int_equal(replays(plan, "layernorm", "h.2"), 2);
        assert_int_equal(replays(plan, "attention", "h.2"), 1);
        assert_int_equal(replays(plan, "gelu", "h.2"), 1);
        assert_int_equal(replays(plan, "dropout", "h.2"), 1);
        assert_int_equal(replays(plan, "add", "h.2"), 1);
        assert_int_equal(replays(plan, NULL, "h.2"), 9);
        assert_int_equal(replays(plan, NULL, NULL), 9 * layers[i]);
        /* Attention and 8 C^2 of a block's 12 C^2 multiply-adds for each token are recomputed. */
        double again = 2.0 * B * T * 8.0 * C * C + 4.0 * B * C * T * T;
        assert_float_equal(plan->flops_hardware - plan->flops_model, again * (double)layers[i], 1);
        zr_plan_destroy(&plan);
    }
    assert_int_equal(act[0], act[1]); /* one unit's working set, whatever the number of units */
}

static void test_every(void **state)
{
    (void)state;
    zr_gpt2_config config = small(8);
    for (int64_t every = 1; every <= 9; every++) {
        zr_layout l = layout_of(ZR_RECOMPUTE_UNIT, every);
        l.ranks = 2;
        l.stage = 3;
        l.prefetch_elems = 0;
        zr_plan *plan = plan_of(&config, &l);
        /* Units 0 (embedding) to 8 (the last block) form groups; each group keeps the input of its first unit (for unit
         * 0, the tokens). */
        int64_t groups = (9 + every - 1) / every;
        assert_int_equal(plan->memory.category_bytes[ZR_CATEGORY_CHECKPOINT],
                         (every == 1 ? 8 : groups - 1) * B * T * C * 2);
        int64_t gathers = 0, wanted = 2 * 8 + 2 + 1; /* blocks twice, embedding twice, final once */
        for (int32_t i = 0; i < plan->schedule[ZR_SCHEDULE_TRAIN].n_steps; i++)
            gathers += plan->schedule[ZR_SCHEDULE_TRAIN].step[i].kind == ZR_STEP_GATHER;
        /* All units of a group except the last are recomputed before their own backward, so they are gathered once
         * more, unless no other unit comes between. The embedding, in the first group, needs no parameters in its
         * backward. */
        if (every > 1) assert_true(gathers > wanted && gathers <= wanted + 9);
        if (every == 1) assert_int_equal(gathers, wanted);
        zr_plan_destroy(&plan);
    }
}

/* Check policy selective: values as wide as the block's input are kept. Attention, the products and GELU that widen,
 * and the norms are recomputed; norms are cheap and recomputed without any policy too. */
static void test_selective(void **state)
{
    (void)state;
    zr_gpt2_config config = small(6);
    zr_layout none = layout_of(ZR_RECOMPUTE_NONE, 1), some = layout_of(ZR_RECOMPUTE_SELECTIVE, 1),
              unit = layout_of(ZR_RECOMPUTE_UNIT, 1);
    zr_plan *plan = plan_of(&config, &some), *all = plan_of(&config, &none), *least = plan_of(&config, &unit);
    assert_int_equal(replays(plan, "linear", "h.3"), 2);
    assert_int_equal(replays(plan, "attention", "h.3"), 1);
    assert_int_equal(replays(plan, "gelu", "h.3"), 1);
    assert_int_equal(replays(plan, "layernorm", "h.3"), 2);
    assert_int_equal(replays(plan, NULL, "h.3"), 6);
    assert_int_equal(plan->memory.category_bytes[ZR_CATEGORY_CHECKPOINT], 2 * 6 * B * T * C * 2);
    assert_int_equal(replays(all, NULL, NULL), 3 * 6); /* two norms and the GELU of each block */
    assert_true(plan->memory.total_bytes < all->memory.total_bytes);
    assert_true(plan->memory.total_bytes > least->memory.total_bytes);
    assert_true(plan->flops_hardware < least->flops_hardware);
    assert_float_equal(all->flops_hardware, all->flops_model, 0);
    zr_plan_destroy(&plan);
    zr_plan_destroy(&all);
    zr_plan_destroy(&least);
}

/* Check under any limit that the plan fits when one can, and that a larger limit never costs more work. */
static void test_auto(void **state)
{
    (void)state;
    zr_gpt2_config config = small(12);
    zr_layout none = layout_of(ZR_RECOMPUTE_NONE, 1), unit = layout_of(ZR_RECOMPUTE_UNIT, 1),
              l = layout_of(ZR_RECOMPUTE_AUTO, 1);
    zr_plan *most = plan_of(&config, &none), *least = plan_of(&config, &unit);
    int64_t high = most->memory.total_bytes, low = least->memory.total_bytes;
    double before = 1e300;
    for (int i = 0; i <= 10; i++) {
        l.limit_bytes = low + (high - low) / 10 * i + (i == 10 ? 10 : 0);
        zr_plan *plan = plan_of(&config, &l);
        assert_true(plan->memory.total_bytes <= l.limit_bytes);
        assert_true(plan->flops_hardware <= before);
        before = plan->flops_hardware;
        if (i == 0) assert_true(plan->flops_hardware <= least->flops_hardware);
        if (i == 10) assert_float_equal(plan->flops_hardware, plan->flops_model, 0);
        if (i > 0 && i < 10) assert_true(plan->flops_hardware < least->flops_hardware);
        zr_plan_destroy(&plan);
    }
    l.limit_bytes =
        low / 2; /* no plan fits: the result is the smallest plan, whose numbers show that it does not fit */
    zr_plan *plan = plan_of(&config, &l);
    assert_true(plan->memory.total_bytes > l.limit_bytes && plan->memory.total_bytes <= low);
    zr_plan_destroy(&plan);
    zr_plan_destroy(&most);
    zr_plan_destroy(&least);
}

/* Check that policy auto uses the memory that policy none leaves free to keep outputs of cheap ops, if the machine's
 * rates say that keeping is faster: the larger the limit the more outputs, and never more than the limit. */
static void test_auto_keeps(void **state)
{
    (void)state;
    enum { LAYERS = 12, PARTS = 6 };
    zr_gpt2_config config = small(LAYERS);
    zr_profile timed = plan_profile, unknown = plan_profile, processor;
    timed.machine = (zr_machine){.flops_f32 = 1e12, .flops_bf16 = 1e12, .memory_bytes_sec = 1e11};
    processor = timed;
    timed.facts.own_memory = unknown.facts.own_memory = true;
    zr_layout none = layout_of(ZR_RECOMPUTE_NONE, 1), keep = layout_of(ZR_RECOMPUTE_KEEP, 1),
              l = layout_of(ZR_RECOMPUTE_AUTO, 1);
    zr_plan *least = plan_gpt2(&config, &none, &timed), *most = plan_gpt2(&config, &keep, &timed);
    const int64_t low = least->memory.total_bytes, high = most->memory.total_bytes;
    int before = -1;
    assert_true(low < high);
    for (int i = 0; i <= PARTS; i++) {
        l.limit_bytes = low + (high - low) * i / PARTS;
        zr_plan *plan = plan_gpt2(&config, &l, &timed), *untimed = plan_gpt2(&config, &l, &unknown);
        int kept = 0;
        for (int32_t u = 0; u < plan->n_units; u++) kept += plan->unit[u].recompute == ZR_RECOMPUTE_KEEP;
        assert_int_equal(zr_plan_check(plan), ZR_OK);
        assert_true(plan->memory.total_bytes <= l.limit_bytes);
        assert_true(kept >= before);
        assert_int_equal(replays(plan, "gelu", NULL), LAYERS - (kept > LAYERS ? LAYERS : kept));
        if (i == 0) assert_int_equal(replays(plan, NULL, NULL), 3 * LAYERS);
        if (i == PARTS) assert_int_equal(replays(plan, NULL, NULL), 0);
        assert_int_equal(untimed->memory.total_bytes, low); /* without rates, the smaller plan wins */
        zr_plan *here = plan_gpt2(&config, &l, &processor);
        assert_int_equal(here->memory.total_bytes, low); /* on a processor, keeping saves no time */
        zr_plan_destroy(&here);
        before = kept;
        zr_plan_destroy(&plan);
        zr_plan_destroy(&untimed);
    }
    zr_plan_destroy(&least);
    zr_plan_destroy(&most);
}

/* Check a mix in which the last units keep more, in the memory that recompute uses for the other units: such mixes take
 * less memory than recompute of all units, and are found under a limit below that of recompute of all units. */
static void test_auto_below_the_heaviest(void **state)
{
    (void)state;
    zr_gpt2_config config = small(6);
    config.vocab_size = 20; /* logits are negligible */
    zr_layout l = layout_of(ZR_RECOMPUTE_UNIT, 1);
    l.batch = 8;
    l.ranks = 4;
    l.stage = 3;
    l.states = ZR_STATES_LEAN;
    l.overlap = false; /* no gradient is in flight during recompute */
    zr_plan *all = plan_of(&config, &l);
    l.recompute = ZR_RECOMPUTE_AUTO;
    l.limit_bytes = all->memory.total_bytes - 1;
    zr_plan *mixed = plan_of(&config, &l);
    assert_true(mixed->memory.total_bytes <= l.limit_bytes);
    assert_true(mixed->flops_hardware < all->flops_hardware);
    zr_plan_destroy(&all);
    zr_plan_destroy(&mixed);
}

/* Check that the map is within 3 % of the most bytes alive at once, model states excluded. */
static void test_map(void **state)
{
    (void)state;
    static const char *const preset[] = {"gpt2-124m", "gpt2-350m", "gpt2-1.5b"};
    double worst = 0;
    for (int p = 0; p < 3; p++)
        for (int stage = 0; stage <= 3; stage += 3)
            for (int c = 0; c < 6; c++) {
                zr_gpt2_config config;
                assert_int_equal(zr_gpt2_preset(preset[p], &config), ZR_OK);
                zr_layout l = layout_of(c % 3 == 0 ? ZR_RECOMPUTE_NONE : ZR_RECOMPUTE_UNIT, c % 3 == 2 ? 7 : 1);
                l.ranks = 2;
                l.stage = stage;
                l.batch = 1;
                l.seq = 1024;
                l.states = c < 3 ? ZR_STATES_PAPER : ZR_STATES_LEAN;
                zr_model model = zr_gpt2(&config);
                zr_plan *plan = NULL;
                assert_int_equal(zr_plan_create(&model, &l, &plan_profile, &plan), ZR_OK);
                double bound = (double)plan_bound(plan, ZR_SCHEDULE_TRAIN);
                double ratio =
                    (double)(plan->space_bytes[ZR_SPACE_DEVICE] - plan->persistent_bytes[ZR_SPACE_DEVICE]) / bound;
                if (ratio > worst) worst = ratio;
                assert_true(ratio >= 1);
                zr_plan_destroy(&plan);
            }
    printf("# map / bytes alive at the peak: at most %.4f\n", worst);
    assert_true(worst <= 1.03);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unit),
        cmocka_unit_test(test_every),
        cmocka_unit_test(test_selective),
        cmocka_unit_test(test_auto),
        cmocka_unit_test(test_auto_keeps),
        cmocka_unit_test(test_map),
        cmocka_unit_test(test_auto_below_the_heaviest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
