//TEST timeout=120
/* The proof of plans whose rounds have several micro-batches refuses a plan in which a step uses the values, the
 * gradients or the place in order of another micro-batch. */
#include "plan/plan_ways.h"

/* Layouts whose rounds have several micro-batches, which together have every kind of step that belongs to one. */
enum { LAYOUTS = 8 };
static zr_layout micros_layout(int i)
{
    static const struct {
        int stage, ranks;
        int64_t accum;
    } of[LAYOUTS] = {{0, 2, 3}, {1, 4, 2}, {2, 2, 2}, {3, 4, 2}, {3, 2, 3}, {3, 1, 2}, {3, 2, 3}, {1, 1, 4}};
    zr_layout l = layout_of(of[i].stage, of[i].ranks, i % 2 ? ZR_F32 : ZR_BF16, of[i].accum);
    l.accum_order = i < 6 ? ZR_ACCUM_LAYER : ZR_ACCUM_AHEAD;
    l.accum_ahead = 2;
    l.micro_squares = i != 2;
    l.prefetch_elems = i % 2;
    l.states = i < 3 ? ZR_STATES_PAPER : ZR_STATES_LEAN;
    l.recompute = i % 3 == 0 ? ZR_RECOMPUTE_UNIT : i % 3 == 1 ? ZR_RECOMPUTE_SELECTIVE : ZR_RECOMPUTE_NONE;
    l.reduce_once = i == 1;
    l.rank_free_sums = i == 4;
    if (i == 5) l.home.grad = ZR_SPACE_HOST; /* squares are computed when the sums are complete */
    if (i == 3) {                            /* reductions in two levels, with partial sums */
        l.host_ranks = 2;
        l.hierarchical = true;
        l.checkpoint_home = ZR_SPACE_HOST;
    }
    return l;
}

/* Return whether two steps are equal apart from their micro-batch. */
static bool alike(const zr_step *a, const zr_step *b)
{
    return a->kind == b->kind && a->op == b->op && a->unit == b->unit && a->group == b->group &&
           a->replay == b->replay && a->range.first == b->range.first && a->range.count == b->range.count &&
           a->n_uses == b->n_uses;
}

/* Return the step of micro-batch `micro` that is equal to step i, or -1. Of several copies of a kind, the n-th
 * corresponds to the n-th. */
static int32_t like(const zr_schedule *s, int32_t i, int32_t micro)
{
    int32_t left = 0;
    for (int32_t j = 0; j < i; j++) left += alike(&s->step[i], &s->step[j]) && s->step[j].micro == s->step[i].micro;
    for (int32_t j = 0; j < s->n_steps; j++)
        if (alike(&s->step[i], &s->step[j]) && s->step[j].micro == micro && left-- == 0) return j;
    return -1;
}

static bool belongs(const zr_schedule *s, int32_t i)
{
    const zr_step_kind kind = s->step[i].kind;
    return s->step[i].op >= 0 || kind == ZR_STEP_BATCH || kind == ZR_STEP_LOSS || kind == ZR_STEP_REDUCE_SCATTER ||
           kind == ZR_STEP_SQUARE_MICRO || kind == ZR_STEP_SQUARE;
}

static void test_holds_and_every_turn_is_needed(void **state)
{
    (void)state;
    int tried[ZR_STEP_KINDS] = {0};
    for (int i = 0; i < LAYOUTS; i++) {
        const zr_layout l = micros_layout(i);
        zr_plan *plan = plan_of(&l);
        zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
        bool ended = false;
        if (zr_plan_check(plan) != ZR_OK) fail_msg("layout %d: %s", i, zr_error_message());
        for (int32_t j = 0; j < s->n_steps; j++) {
            ended |= s->step[j].kind == ZR_STEP_END;
            if (ended || !belongs(s, j)) continue;
            const int32_t had = s->step[j].micro;
            for (int32_t micro = 0; micro <= l.accum; micro++) {
                s->step[j].micro = micro;
                if (micro != had && zr_plan_check(plan) == ZR_OK)
                    fail_msg("layout %d: step %d (%s) may be of micro-batch %d", i, j,
                             zr_step_kind_name(s->step[j].kind), micro);
            }
            s->step[j].micro = had;
            tried[s->step[j].kind]++;
        }
        s->step[s->n_steps - 1].micro = 1;
        expect_broken(plan, "but of no round");
        zr_plan_destroy(&plan);
    }
    assert_true(tried[ZR_STEP_BATCH] && tried[ZR_STEP_RUN] && tried[ZR_STEP_LOSS] && tried[ZR_STEP_SQUARE_MICRO] &&
                tried[ZR_STEP_REDUCE_SCATTER]);
}

/* Check that a step that uses the buffer of another micro-batch is noticed, whatever the operand is. */
static void test_every_operand_is_its_own(void **state)
{
    (void)state;
    int tried = 0;
    for (int i = 0; i < LAYOUTS; i++) {
        const zr_layout l = micros_layout(i);
        zr_plan *plan = plan_of(&l);
        zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
        for (int32_t j = 0; j < s->n_steps; j++)
            for (int32_t micro = 0; micro < l.accum && belongs(s, j); micro++) {
                const int32_t other = micro == s->step[j].micro ? -1 : like(s, j, micro);
                for (int32_t u = 0; other >= 0 && u < s->step[j].n_uses; u++) {
                    zr_use *use = &s->use[s->step[j].uses + u], had = *use;
                    const zr_use its = s->use[s->step[other].uses + u];
                    if (had.buffer == its.buffer || had.buffer == ZR_NONE || had.range.count == 0) continue;
                    /* the caller may fill a micro-batch in the memory of another micro-batch that is copied already */
                    if (s->step[j].kind == ZR_STEP_BATCH && s->buffer[had.buffer].space == ZR_SPACE_HOST) continue;
                    use->buffer = its.buffer;
                    if (zr_plan_check(plan) == ZR_OK)
                        fail_msg("layout %d: step %d (%s of micro-batch %d) may use buffer %s of micro-batch %d", i, j,
                                 zr_step_kind_name(s->step[j].kind), s->step[j].micro, s->buffer[its.buffer].what,
                                 micro);
                    *use = had;
                    tried++;
                }
            }
        assert_int_equal(zr_plan_check(plan), ZR_OK);
        zr_plan_destroy(&plan);
    }
    assert_true(tried > 1000);
}

/* Check that sums that leave out a micro-batch, or with a wrong number of micro-batches, are noticed. */
static void test_sums(void **state)
{
    (void)state;
    for (int i = 0; i < LAYOUTS; i++) {
        const zr_layout l = micros_layout(i);
        zr_plan *plan = plan_of(&l);
        zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
        for (int32_t j = 0; s->step[j].kind != ZR_STEP_END; j++) {
            zr_step *step = &s->step[j], had = *step;
            if (step->kind != ZR_STEP_REDUCE_SCATTER || !step->adds) continue;
            step->adds = false;
            if (l.home.grad == ZR_SPACE_DEVICE)
                expect_broken(plan, "does not add to them");
            else
                expect_broken(plan, "squares the sums of");
            *step = had;
            step->rounds--;
            expect_broken(plan, "but a training step has");
            *step = had;
        }
        for (int32_t j = 0; j < s->n_steps; j++)
            if (s->step[j].kind == ZR_STEP_REPEAT) s->step[j].rounds = l.accum;
        assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
        zr_plan_destroy(&plan);
    }
}

/* Check that sums in another order are noticed. The gradients of a tied embedding are in memory for all micro-batches
 * at once, so that only the rule about the order of sums forbids adding the third before the second. */
static void test_order_of_sums(void **state)
{
    (void)state;
    zr_layout l = layout_of(2, 1, ZR_F32, 3);
    l.accum_order = ZR_ACCUM_LAYER;
    zr_plan *plan = plan_of(&l);
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int32_t first = 0;
    while (s->step[first].kind != ZR_STEP_REDUCE_SCATTER || s->step[first].unit != 0) first++;
    const int32_t second = like(s, first, 1), third = like(s, first, 2);
    assert_true(first < second && second < third);
    for (int32_t i = second; i < third; i++) {
        assert_int_equal(zr_plan_check(plan), ZR_OK);
        swap_with_next(s, i);
    }
    expect_broken(plan, "but it is the turn of");
    zr_plan_destroy(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_holds_and_every_turn_is_needed),
        cmocka_unit_test(test_every_operand_is_its_own),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_order_of_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
