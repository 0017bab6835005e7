//TEST timeout=60
/* The steps for trust ratios in a plan: their costs, and that the proof notices each step that is missing, wrong or too
 * late. */
#include "plan/plan_ways.h"
#include "plan/cost/cost.h"

static zr_layout trust_layout(int stage, zr_states states, bool exact)
{
    zr_layout l = layout_of(stage, 2, ZR_BF16, 1);
    l.states = states;
    l.rank_free_sums = exact;
    l.optimizer = zr_lamb(ZR_LAMB_DEEPSPEED, NULL);
    return l;
}

static int32_t step_of(const zr_plan *plan, zr_step_kind kind, int32_t unit)
{
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    for (int32_t i = 0; i < s->n_steps; i++)
        if (s->step[i].kind == kind && s->step[i].unit == unit) return i;
    fail_msg("there is no step %s of unit %d", zr_step_kind_name(kind), unit);
    return -1;
}

static int32_t first_of(const zr_plan *plan, zr_step_kind kind)
{
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    for (int32_t i = 0; i < s->n_steps; i++)
        if (s->step[i].kind == kind) return i;
    fail_msg("there is no step %s", zr_step_kind_name(kind));
    return -1;
}

/* Check the costs: trust ratios exchange two numbers for each parameter, or two exact sums, and keep no array of the
 * size of a state. */
static void test_costs(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        zr_layout l = trust_layout(i % 4, i / 2 == 1 ? ZR_STATES_LEAN : ZR_STATES_PAPER, i >= 4);
        zr_plan *with = plan_of(&l);
        l.optimizer = zr_adamw(0.9, 0.999, 1e-8, 0);
        zr_plan *without = plan_of(&l);
        const int32_t params = zr_graph_params(with->graph[ZR_SCHEDULE_TRAIN]);
        const int64_t each = i >= 4 ? 2 * ZR_EXACT_LIMBS : 2;
        assert_int_equal(with->traffic.bytes[ZR_TRAFFIC_ALL_REDUCE] - without->traffic.bytes[ZR_TRAFFIC_ALL_REDUCE],
                         8 * each * params);
        for (int k = 0; k < ZR_TRAFFIC_KINDS; k++)
            if (k != ZR_TRAFFIC_ALL_REDUCE) assert_int_equal(with->traffic.bytes[k], without->traffic.bytes[k]);
        assert_int_equal(with->space_bytes[ZR_SPACE_DEVICE], without->space_bytes[ZR_SPACE_DEVICE]);
        assert_int_equal(with->memory.states_bytes, without->memory.states_bytes);
        const int64_t more = with->space_bytes[ZR_SPACE_HOST] - without->space_bytes[ZR_SPACE_HOST];
        assert_true(more >= params * (int64_t)(sizeof(zr_trust) + sizeof(zr_norms)) && more < params * 512 + 4096);

        /* the first pass reads the gradient, the master and both moments of this rank's part */
        const int32_t square = step_of(with, ZR_STEP_SQUARE_UPDATE, 1);
        const zr_step_cost cost = zr__plan_step_cost(with, ZR_SCHEDULE_TRAIN, square);
        assert_true(cost.calls == 1);
        const zr_step *trust = &with->schedule[ZR_SCHEDULE_TRAIN].step[first_of(with, ZR_STEP_TRUST)];
        const int64_t named = trust->unit < 0 ? params : zr_graph_unit_info(with->graph[0], trust->unit)->n_params;
        assert_int_equal(zr__plan_calls(with, trust), (8 * each * named - 1) / (8 * (ZR_TRUST_CALL / each * each)) + 1);
        const int64_t sums = with->sum_f32 ? 4 : 2, elems = with->unit[1].own.count;
        assert_true(cost.memory_bytes == (double)(elems * (12 + sums)));
        zr_plan_destroy(&with);
        zr_plan_destroy(&without);
    }
}

/* Check that each fault is noticed. Each one is repaired before the next one. */
static void test_broken(void **state)
{
    (void)state;
    for (int lean = 0; lean <= 1; lean++) {
        zr_layout l = trust_layout(lean ? 3 : 1, lean ? ZR_STATES_LEAN : ZR_STATES_PAPER, false);
        zr_plan *plan = plan_of(&l);
        zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
        zr_step *trust = &s->step[step_of(plan, ZR_STEP_TRUST, lean ? 1 : -1)];
        zr_step *square = &s->step[step_of(plan, ZR_STEP_SQUARE_UPDATE, 1)];
        zr_step *update = &s->step[step_of(plan, ZR_STEP_UPDATE, 1)];
        assert_int_equal(zr_plan_check(plan), ZR_OK);

        trust->kind = ZR_STEP_AGREE;
        expect_broken(plan, lean ? "nothing finds the norms of unit 1" : "nothing finds the norms of unit 0");
        trust->kind = ZR_STEP_TRUST;
        trust->stream = ZR_STREAM_COMPUTE;
        expect_broken(plan, "not on the comm stream");
        trust->stream = ZR_STREAM_COMM;
        const int32_t group = trust->group;
        trust->group = ZR_GROUP_SELF;
        expect_broken(plan, "asks 1 of 2 ranks");
        trust->group = group;
        trust->rank_free_sums = true;
        expect_broken(plan, "but not those of unit");
        trust->rank_free_sums = false;
        trust->n_uses -= 1; /* the last unit's norms are not written */
        expect_broken(plan, "but not those of unit");
        trust->n_uses += 1;

        square->unit = 2;
        assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
        square->unit = 1;
        square->range.count -= ZR_SHARD_ALIGN;
        assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
        square->range.count += ZR_SHARD_ALIGN;
        square->when = ZR_WHEN_FIRST;
        assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
        square->when = ZR_WHEN_ALWAYS;
        zr_use *states = &s->use[square->uses + 1], had = *states; /* another moment instead of the master */
        *states = s->use[square->uses + 2];
        assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
        *states = had;
        zr_use *verdict = &s->use[square->uses + 5];
        verdict->reads = false;
        expect_broken(plan, "before all ranks have agreed on its gradient");
        verdict->reads = true;

        zr_use *norms = &s->use[update->uses + update->n_uses - 1];
        had = *norms;
        norms->buffer = plan->unit[2].norms;
        expect_broken(plan, "before its norms are found");
        *norms = had;
        for (int32_t w = update->waits; w < update->waits + update->n_waits; w++)
            if (&s->step[s->wait[w].step] == trust) {
                s->wait[w].step = 0;
                assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
                s->wait[w].step = (int32_t)(trust - s->step);
            }
        assert_int_equal(zr_plan_check(plan), ZR_OK);
        zr_plan_destroy(&plan);
    }
}

/* Check that a part that is squared in buckets must be squared completely, once and in order. */
static void test_broken_buckets(void **state)
{
    (void)state;
    zr_layout l = trust_layout(3, ZR_STATES_PAPER, false);
    l.home.optim = ZR_SPACE_HOST;
    l.home.bucket_elems = 32; /* rounded up to a block */
    zr_plan *plan = plan_of(&l);
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int32_t of[8], n = 0;
    for (int32_t i = 0; i < s->n_steps; i++)
        if (s->step[i].kind == ZR_STEP_SQUARE_UPDATE && s->step[i].unit == 1) of[n++] = i;
    assert_true(n == (plan->unit[1].own.count - 1) / ZR_TRUST_BLOCK + 1 && n > 2);
    assert_int_equal(s->step[of[1]].range.first, ZR_TRUST_BLOCK);
    assert_int_equal(zr_plan_check(plan), ZR_OK);
    s->step[of[1]].range.first += ZR_TRUST_BLOCK;
    assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
    s->step[of[1]].range.first -= ZR_TRUST_BLOCK;
    s->step[of[n - 1]].kind = ZR_STEP_ZERO;
    assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
    zr_plan_destroy(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_costs),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_broken_buckets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
