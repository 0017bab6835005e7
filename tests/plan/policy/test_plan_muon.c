//TEST timeout=60
/* Muon in a plan: the matrices and their owners, FLOPs, times and memory, and that the proof notices each step of
 * directions that is missing, wrong or too late. */
#include "plan/plan_ways.h"
#include "plan/cost/cost.h"

#include <math.h>

static const zr_gpt2_config gpt2_124m = {.n_layer = 12,
                                         .n_head = 12,
                                         .n_embd = 768,
                                         .n_positions = 1024,
                                         .vocab_size = 50257,
                                         .layer_norm_epsilon = 1e-5,
                                         .initializer_range = 0.02};

/* Return the FLOPs of a block of GPT-2 in five iterations: for r <= c, 5 (4 r^2 c + 2 r^3) for each matrix. */
static double block_flops(double width)
{
    const double cube = width * width * width;
    return 5 * (4 * 6 * cube + 2 * (4 * 4 + 2) * cube);
}

/* Check that the FLOPs of the iterations are the formula's, and that ranks share them evenly. */
static void test_shares(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 8; ranks *= 2) {
        zr_layout l = plan_layout(ranks > 2 ? 3 : 1, ranks, ZR_BF16, 1);
        zr_plan *without = plan_gpt2(&gpt2_124m, &l, &plan_profile);
        use_muon(&l, ZR_BF16);
        zr_plan *plan = plan_gpt2(&gpt2_124m, &l, &plan_profile);
        const double all = 12 * block_flops(768), more = plan->flops_hardware - without->flops_hardware;
        assert_true(fabs(more / all - 1) < 1e-9);
        assert_true(plan->flops_model == without->flops_model);
        assert_int_equal(plan->n_matrices, 12 * 6);
        double waited = 0;
        for (int32_t i = 0; i < plan->schedule[ZR_SCHEDULE_TRAIN].n_steps; i++)
            if (plan->schedule[ZR_SCHEDULE_TRAIN].step[i].kind == ZR_STEP_ORTHO)
                waited += zr__plan_step_cost(plan, ZR_SCHEDULE_TRAIN, i).flops;
        /* ranks wait for the busiest of a batch */
        assert_true(waited >= all / ranks * (1 - 1e-9) && waited <= 1.1 * all / ranks);
        zr_plan_destroy(&without);
        zr_plan_destroy(&plan);
    }
}

/* Check that the time of a step has the iterations at the rate of products of their type. */
static void test_times(void **state)
{
    (void)state;
    zr_profile profile = plan_profile;
    profile.machine = (zr_machine){.flops_f32 = 1e9, .flops_bf16 = 4e9, .memory_bytes_sec = 1e15};
    zr_layout l = plan_layout(0, 1, ZR_BF16, 1);
    zr_price price[3];
    for (int i = 0; i < 3; i++) {
        if (i > 0) use_muon(&l, i == 1 ? ZR_BF16 : ZR_F32);
        zr_plan *plan = plan_gpt2(&gpt2_124m, &l, &profile);
        assert_int_equal(zr_plans_price(&ZR__ALONE(plan), &profile, &price[i]), ZR_OK);
        zr_plan_destroy(&plan);
    }
    const double all = 12 * block_flops(768);
    assert_true(fabs((price[1].step_sec - price[0].step_sec) / (all / 4e9) - 1) < 1e-3);
    assert_true(fabs((price[2].step_sec - price[0].step_sec) / (all / 1e9) - 1) < 1e-3);
    assert_true(price[0].ortho_sec == 0);
    assert_true(fabs(price[1].ortho_sec / (all / 4e9) - 1) < 1e-9);
    assert_true(fabs(price[2].ortho_sec / (all / 1e9) - 1) < 1e-9);
}

/* Check that queries, keys and values are matrices of their own with one owner, and the scales of all matrices. */
static void test_matrices(void **state)
{
    (void)state;
    zr_layout l = layout_of(2, 4, ZR_F32, 1);
    use_muon(&l, ZR_F32);
    zr_plan *plan = plan_of(&l);
    const zr_graph *g = plan->graph[ZR_SCHEDULE_TRAIN];
    int fused = 0, owned[4] = {0};
    for (int32_t i = 0; i < plan->n_matrices; i++) {
        const zr_plan_matrix *m = &plan->matrix[i];
        const zr_param_info *param = zr_graph_param(g, m->param);
        const bool qkv = strstr(param->name, "c_attn"), up = strstr(param->name, "c_fc");
        if (qkv) assert_int_equal(m->first - param->unit_offset, 57 * (fused++ % 3));
        if (qkv && fused % 3 > 0) assert_int_equal(m->owner, m[1].owner);
        assert_true(fabs(m->scale - (up ? 2 : 1)) < 1e-12);
        assert_true(plan->unit[param->unit].orthogonal && strstr(param->name, ".h."));
        owned[m->owner]++;
    }
    assert_int_equal(plan->n_matrices, 2 * 6);
    assert_int_equal(fused, 2 * 3);
    for (int r = 0; r < 4; r++) assert_true(owned[r] > 0);
    for (int32_t u = 0; u < plan->n_units; u++) {
        const zr_plan_unit *unit = &plan->unit[u];
        assert_int_equal(unit->n_slots, unit->orthogonal ? 1 : 2);
        assert_int_equal(unit->first_slot, unit->orthogonal ? 0 : 1);
    }
    zr_plan_destroy(&plan);
}

/* Check that factors B of adapters of queries, keys and values are three matrices, below each other, and factors A one.
 */
static void test_adapters(void **state)
{
    (void)state;
    enum { RANK = 4 };
    zr_layout l = layout_of(1, 2, ZR_F32, 1);
    zr_model model = zr_gpt2(&ways_config);
    use_muon(&l, ZR_F32);
    model.lora = (zr_lora){.rank = RANK, .alpha = 8, .targets = "c_attn\nattn.c_proj"};
    zr_plan *plan = plan_make(&model, &l, &plan_profile);
    int fused = 0, whole = 0;
    for (int32_t i = 0; i < plan->n_matrices; i++) {
        const zr_plan_matrix *m = &plan->matrix[i];
        const zr_param_info *param = zr_graph_param(plan->graph[ZR_SCHEDULE_TRAIN], m->param);
        const zr_op *op = zr_graph_get_op(plan->ortho, m->op);
        const zr_shape *shape = &zr_graph_value(plan->ortho, op->in[0])->type.shape;
        const bool b = strstr(param->name, "c_attn.lora_B"), a = strstr(param->name, "lora_A");
        assert_int_equal(m->first - param->unit_offset, b ? 57 * RANK * (fused++ % 3) : 0);
        assert_int_equal(shape->dim[0], a ? RANK : 57);
        assert_int_equal(shape->dim[1], a ? 57 : RANK);
        whole += !b;
    }
    assert_int_equal(fused, 2 * 3);
    assert_int_equal(whole, 2 * 3);
    zr_plan_destroy(&plan);
}

/* ---- the proof --------------------------------------------------------------------------------- */

static int32_t first_of(const zr_plan *plan, zr_step_kind kind)
{
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    for (int32_t i = 0; i < s->n_steps; i++)
        if (s->step[i].kind == kind) return i;
    fail_msg("there is no step %s", zr_step_kind_name(kind));
    return -1;
}

/* Check that the proof accepts a plan, and rejects it with *place changed to another value. */
#define REJECT(plan, place, other)                                                                                     \
    do {                                                                                                               \
        assert_int_equal(zr_plan_check(plan), ZR_OK);                                                                  \
        const int64_t had = (int64_t)(place);                                                                          \
        (place) = (other);                                                                                             \
        assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);                                                        \
        (place) = had;                                                                                                 \
    } while (0)

static void check_faults(zr_plan *plan)
{
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    zr_step *direction = &s->step[first_of(plan, ZR_STEP_DIRECTION)], *ortho = &s->step[first_of(plan, ZR_STEP_ORTHO)];
    zr_step *scatter = &s->step[first_of(plan, ZR_STEP_SCATTER_DIRECTION)];
    zr_step *gather = &s->step[first_of(plan, ZR_STEP_GATHER_DIRECTION)];
    REJECT(plan, ortho->unit, 0);
    REJECT(plan, ortho->kind, ZR_STEP_DIRECTION);
    REJECT(plan, ortho->group, ZR_GROUP_SELF);
    REJECT(plan, scatter->kind, ZR_STEP_ORTHO);
    REJECT(plan, gather->kind, ZR_STEP_ZERO);
    REJECT(plan, direction->kind, ZR_STEP_ZERO);
    REJECT(plan, s->use[direction->uses].range.first, s->use[direction->uses].range.first + 1);
    REJECT(plan, s->use[direction->uses + 3].range.count, s->use[direction->uses + 3].range.count - 1);
    REJECT(plan, s->use[direction->uses + 1].buffer, plan->unit[0].slot[0].buffer);
    REJECT(plan, s->use[ortho->uses].range.count, s->use[ortho->uses].range.count - 1);
    REJECT(plan, s->use[ortho->uses + 2].reads, false);
    REJECT(plan, plan->matrix[0].owner, plan->group[plan->unit[1].ortho_group].size);
    REJECT(plan, plan->matrix[0].first, plan->matrix[0].first - 1);
    REJECT(plan, plan->matrix[1].first, plan->matrix[0].first);
    REJECT(plan, plan->matrix[1].first, plan->matrix[1].first + 1);
    REJECT(plan, plan->matrix[1].owner, (plan->matrix[1].owner + 1) % plan->group[plan->unit[1].ortho_group].size);
    for (int32_t i = 0; i < s->n_steps; i++)
        if (s->step[i].kind == ZR_STEP_UPDATE && plan->unit[s->step[i].unit].orthogonal) {
            REJECT(plan, s->use[s->step[i].uses].buffer, plan->unit[s->step[i].unit].sums.buffer);
            REJECT(plan, s->use[s->step[i].uses].range.first, s->use[s->step[i].uses].range.first + 1);
            break;
        }
    assert_int_equal(zr_plan_check(plan), ZR_OK);
}

static void test_faults(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        zr_layout l = layout_of(i, 4, ZR_BF16, 2);
        use_muon(&l, i % 2 ? ZR_F32 : ZR_BF16);
        if (i == 3) l.host_ranks = 2, l.hierarchical = true;
        zr_plan *plan = plan_of(&l);
        check_faults(plan);
        zr_plan_destroy(&plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shares), cmocka_unit_test(test_times),
                                       cmocka_unit_test(test_matrices), cmocka_unit_test(test_adapters),
                                       cmocka_unit_test(test_faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
