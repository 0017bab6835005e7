//TEST timeout=60
/* Plans with frozen parameters: states follow the formulas over the trainable parameters, traffic and work shrink, and
 * the proof holds in every layout. */
#include "plan/plan_ways.h"

#include <stdio.h>

static const char *const patterns[] = {"wte.*\n*.ln_?.*", "wte.*\nwpe.*\nh.[01].*", "*.attn.*"};
enum { PATTERNS = sizeof patterns / sizeof *patterns };

static zr_plan *freeze(const zr_gpt2_config *config, const zr_layout *layout, const char *frozen)
{
    zr_model model = zr_gpt2(config);
    model.frozen = frozen;
    return plan_make(&model, layout, &plan_profile);
}

static int64_t padded(int64_t elems, int64_t ranks)
{
    const int64_t grain = ranks * ZR_SHARD_ALIGN;
    return (elems + grain - 1) / grain * grain;
}

/* Padded elements of the trainable and of the frozen units. */
typedef struct parts {
    int64_t trained, frozen;
} parts;

static parts count(const zr_plan *plan)
{
    const zr_graph *g = plan->graph[ZR_SCHEDULE_TRAIN];
    parts all = {0};
    for (int32_t u = 0; u < zr_graph_units(g); u++) {
        int64_t elems[2] = {0};
        const zr_unit_info *info = zr_graph_unit_info(g, u);
        for (int32_t p = info->first_param; p < info->first_param + info->n_params; p++)
            elems[zr_graph_param(g, p)->frozen] += zr_shape_elems(&zr_graph_param(g, p)->shape);
        assert_int_equal(elems[!info->frozen], 0);
        all.trained += padded(elems[0], plan->layout.ranks);
        all.frozen += padded(elems[1], plan->layout.ranks);
    }
    return all;
}

/* Check the bytes of T trainable elements at stages 0 to 3, 16T, 4T + 12T/N, 2T + 14T/N, 16T/N, and of F frozen
 * elements, 2F, at stage 3 2F/N. */
static void test_states(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++)
        for (int i = 0; i < PATTERNS; i++)
            for (int64_t N = 1; N <= 6; N++) {
                zr_layout l = plan_layout(stage, (int)N, ZR_BF16, 1);
                zr_plan *plan = freeze(&plan_small, &l, patterns[i]);
                const parts n = count(plan);
                const int64_t T = n.trained, F = n.frozen;
                const int64_t want[] = {16 * T, 4 * T + 12 * T / N, 2 * T + 14 * T / N, 16 * T / N};
                assert_true(T > 0 && F > 0);
                assert_int_equal(plan->memory.states_bytes, want[stage] + (stage < 3 ? 2 * F : 2 * F / N));
                assert_int_equal(plan->memory.category_bytes[ZR_CATEGORY_OPTIM], stage < 1 ? 12 * T : 12 * T / N);
                zr_plan_destroy(&plan);
            }
}

/* Check the bytes in fp32, 16T (4 + 4 + 8) and 4F, and that a frozen unit has no buffers except its parameters. */
static void test_nothing_but_parameters(void **state)
{
    (void)state;
    zr_layout l = plan_layout(0, 1, ZR_F32, 1);
    zr_plan *plan = freeze(&plan_small, &l, patterns[0]);
    const parts n = count(plan);
    assert_int_equal(plan->memory.states_bytes, 16 * n.trained + 4 * n.frozen);
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    const zr_graph *g = plan->graph[ZR_SCHEDULE_TRAIN];
    for (int32_t b = 0; b < s->n_buffers; b++) {
        const int32_t unit = s->buffer[b].unit;
        if (unit < 0 || !zr_graph_unit_info(g, unit)->frozen) continue;
        assert_int_equal(s->buffer[b].category, ZR_CATEGORY_PARAM);
    }
    int64_t whole = 0, trained = 0;
    for (int32_t p = 0; p < zr_graph_params(g); p++) {
        const int64_t elems = zr_shape_elems(&zr_graph_param(g, p)->whole);
        whole += elems;
        trained += zr_graph_param(g, p)->frozen ? 0 : elems;
    }
    assert_int_equal(plan->params, whole);
    assert_int_equal(plan->trained, trained);
    zr_plan_destroy(&plan);
}

/* Check the traffic: (N-1)/N of 2T is reduced and, below stage 3, the same number of bytes gathered after the updates;
 * frozen parameters are not moved before stage 3. */
static void test_traffic(void **state)
{
    (void)state;
    const int64_t N = 4;
    for (int stage = 0; stage <= 2; stage++) {
        zr_layout l = plan_layout(stage, (int)N, ZR_BF16, 1);
        zr_plan *plan = freeze(&plan_small, &l, patterns[0]);
        const int64_t moved = 2 * count(plan).trained / N * (N - 1);
        assert_int_equal(plan->traffic.bytes[ZR_TRAFFIC_REDUCE_SCATTER], moved);
        assert_int_equal(plan->traffic.bytes[ZR_TRAFFIC_ALL_GATHER], moved);
        zr_plan_destroy(&plan);
    }
    zr_layout l = plan_layout(3, (int)N, ZR_BF16, 1);
    zr_plan *plan = freeze(&plan_small, &l, patterns[0]);
    assert_int_equal(plan->traffic.bytes[ZR_TRAFFIC_REDUCE_SCATTER], 2 * count(plan).trained / N * (N - 1));
    zr_plan_destroy(&plan);
}

static int steps_of(const zr_plan *plan, const char *op)
{
    const zr_graph *g = plan->graph[ZR_SCHEDULE_TRAIN];
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int n = 0;
    for (int32_t i = 0; i < s->n_steps; i++)
        n += s->step[i].kind == ZR_STEP_RUN && strcmp(zr_graph_get_op(g, s->step[i].op)->def->name, op) == 0;
    return n;
}

/* Check that no backward op runs below the lowest trainable parameter, that each trainable weight has one product for
 * its gradient, and that the frozen tied table has none. */
static void test_work(void **state)
{
    (void)state;
    const double C = 57, V = 131, rows = 2 * 16, blocks = 12 * C * C, all = 3 * blocks;
    zr_layout l = plan_layout(0, 1, ZR_F32, 1);
    l.batch = 2;
    zr_plan *whole = freeze(&plan_small, &l, NULL), *upper = freeze(&plan_small, &l, patterns[1]),
            *norms = freeze(&plan_small, &l, "*.ln_*"), *table = freeze(&plan_small, &l, "wte.*");
    assert_int_equal(steps_of(whole, "linear_dw"), 12);
    assert_int_equal(steps_of(upper, "linear_dw"), 4);
    assert_int_equal(steps_of(upper, "attention_dx"), 1);
    assert_int_equal(steps_of(upper, "embedding_dw") + steps_of(upper, "position_dw"), 0);
    assert_int_equal(steps_of(norms, "layernorm_dw"), 0);
    assert_int_equal(steps_of(norms, "layernorm_dx"), 7);
    assert_true(norms->flops_hardware == whole->flops_hardware);
    /* A frozen table saves one product of the head. With a frozen lower half, the backward pass also saves two blocks'
     * products, two for each weight, and their attention. */
    assert_true(whole->flops_hardware - table->flops_hardware == 2 * rows * V * C);
    assert_true(upper->flops_hardware <= whole->flops_hardware - 2 * rows * (V * C + 2 * 2 * all / 3));
    assert_true(upper->flops_model == upper->flops_hardware);
    assert_true(upper->memory.category_bytes[ZR_CATEGORY_ACT] < whole->memory.category_bytes[ZR_CATEGORY_ACT]);
    zr_plan_destroy(&whole);
    zr_plan_destroy(&upper);
    zr_plan_destroy(&norms);
    zr_plan_destroy(&table);
}

/* Check that at stage 3 with shard groups of one rank, each rank holds all frozen parameters, and none is gathered. */
static void test_alone(void **state)
{
    (void)state;
    zr_layout l = plan_layout(3, 4, ZR_BF16, 1);
    for (int shard = 1; shard <= 2; shard++) {
        l.host_ranks = l.shard_ranks = shard;
        l.micro_squares = false;
        zr_plan *plan = freeze(&plan_small, &l, patterns[1]);
        const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
        int gathers = 0;
        for (int32_t i = 0; i < s->n_steps; i++)
            gathers += s->step[i].kind == ZR_STEP_GATHER && !plan->unit[s->step[i].unit].trains;
        if ((gathers > 0) != (shard > 1)) fail_msg("%d gathers among %d", gathers, shard);
        assert_int_equal(zr_plan_check(plan), ZR_OK);
        zr_plan_destroy(&plan);
    }
}

/* ---- the proof --------------------------------------------------------------------------------- */

static void check(const zr_layout *l, const char *frozen, int way)
{
    zr_plan *plan = freeze(&ways_config, l, frozen);
    if (zr_plan_check(plan) != ZR_OK)
        fail_msg("stage %d, %d ranks, way %d, %s: %s", l->stage, l->ranks, way, frozen, zr_error_message());
    zr_plan_destroy(&plan);
}

static void test_all_ways_hold(void **state)
{
    (void)state;
    static const char *const frozen[] = {"wte.*\n*.ln_?.*", "w?e.*\nh.0.*"};
    for (int stage = 0; stage <= 3; stage++)
        for (int ranks = 1; ranks <= 4; ranks++)
            for (int way = 0; way < WAYS; way++)
                for (int i = 0; i < 2; i++) {
                    zr_layout l = layout_of(stage, ranks, way % 2 ? ZR_BF16 : ZR_F32, 1);
                    l.decode_len = 16;
                    if (choose(&l, way)) check(&l, frozen[i], way);
                }
    for (int i = 0; i < MIXED; i++) {
        const zr_layout l = mixed_layout(i);
        check(&l, frozen[i % 2], i);
    }
}

/* Check that the proof notices an update of a frozen unit, and a trainable unit without an update. */
static void test_proof_sees_updates(void **state)
{
    char wrong[64];
    (void)state;
    zr_layout l = layout_of(1, 2, ZR_BF16, 1);
    zr_plan *plan = freeze(&ways_config, &l, "h.0.*");
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int32_t frozen = plan->n_units - 1, trained = -1;
    assert_true(zr_graph_unit_info(plan->graph[ZR_SCHEDULE_TRAIN], frozen)->frozen);
    for (int32_t i = 0; i < s->n_steps; i++) {
        if (s->step[i].kind != ZR_STEP_UPDATE) continue;
        trained = s->step[i].unit;
        s->step[i].unit = frozen;
        expect_broken(plan, "are not updated");
        s->step[i].unit = trained;
    }
    assert_true(trained >= 0);
    snprintf(wrong, sizeof wrong, "elements of unit %d are not updated", (int)frozen);
    for (int32_t i = 0; i < s->n_steps; i++) {
        const zr_step was = s->step[i];
        if (was.kind != ZR_STEP_REDUCE_SCATTER) continue;
        s->step[i].kind = ZR_STEP_UPDATE;
        s->step[i].unit = frozen;
        s->step[i].bucket_elems = 0;
        expect_broken(plan, wrong);
        s->step[i] = was;
    }
    assert_int_equal(zr_plan_check(plan), ZR_OK);
    zr_plan_destroy(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states),        cmocka_unit_test(test_nothing_but_parameters),
        cmocka_unit_test(test_traffic),       cmocka_unit_test(test_work),
        cmocka_unit_test(test_all_ways_hold), cmocka_unit_test(test_proof_sees_updates),
        cmocka_unit_test(test_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
