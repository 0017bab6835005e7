//TEST timeout=60
/* The proof of the memory map: it holds for every layout, and it fails when a plan is broken. */
#include "plan/plan_ways.h"

/* ---- plans that hold --------------------------------------------------------------------------- */

static void test_all_layouts_hold(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++)
        for (int ranks = 1; ranks <= 6; ranks++)
            for (int variant = 0; variant < 8; variant++) {
                zr_layout l = layout_of(stage, ranks, variant & 1 ? ZR_BF16 : ZR_F32, variant & 2 ? 3 : 1);
                if (variant & 1) l.reduce_bucket_elems = l.gather_bucket_elems = 20000;
                l.prefetch_elems = variant >> 2;
                l.decode_len = 16;
                zr_plan *plan = plan_of(&l);
                if (zr_plan_check(plan) != ZR_OK)
                    fail_msg("stage %d, %d ranks, variant %d: %s", stage, ranks, variant, zr_error_message());
                zr_plan_destroy(&plan);
            }
}

static void test_all_ways_hold(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++)
        for (int ranks = 1; ranks <= 4; ranks++)
            for (int way = 0; way < WAYS; way++) {
                zr_layout l = layout_of(stage, ranks, ZR_BF16, 1);
                l.decode_len = 16;
                if (!choose(&l, way)) continue;
                zr_plan *plan = plan_of(&l);
                if (zr_plan_check(plan) != ZR_OK)
                    fail_msg("stage %d, %d ranks, way %d: %s", stage, ranks, way, zr_error_message());
                zr_plan_destroy(&plan);
            }
}

/* ---- plans that are broken --------------------------------------------------------------------- */

/* Remove one wait at a time and check that the proof notices each removed wait that orders two uses of a buffer. It
 * need not notice waits that only limit memory: at stage 3 a wait delays a gather so that no more units than wanted are
 * whole at a time, and another wait delays a unit's first gradient so that no more gradients are in flight. */
static void lose_each_wait(zr_plan *plan, int way)
{
    for (int k = 0; k < ZR_SCHEDULES; k++) {
        zr_schedule *s = &plan->schedule[k];
        for (int32_t i = 0; i < s->n_steps; i++)
            for (int32_t w = 0; w < s->step[i].n_waits; w++) {
                zr_wait *list = s->wait + s->step[i].waits, gone = list[w];
                const int32_t last = s->step[i].n_waits - 1;
                list[w] = list[last];
                s->step[i].n_waits--;
                bool seen = zr_plan_check(plan) != ZR_OK;
                s->step[i].n_waits++;
                list[last] = list[w];
                list[w] = gone;
                if (!seen && !gone.pace)
                    fail_msg("stage %d, %d ranks, way %d: step %d (%s) need not wait for step %d (%s)%s",
                             plan->layout.stage, plan->layout.ranks, way, i, zr_step_kind_name(s->step[i].kind),
                             gone.step, zr_step_kind_name(s->step[gone.step].kind),
                             gone.before ? " of the round before" : "");
            }
    }
    assert_int_equal(zr_plan_check(plan), ZR_OK);
}

static void test_every_wait_is_needed(void **state)
{
    (void)state;
    int tried[2] = {0};
    for (int many = 0; many < 2; many++)
        for (int stage = 0; stage <= 3; stage++)
            for (int ranks = 1; ranks <= 2; ranks++)
                for (int way = 0; way < WAYS; way++) {
                    zr_layout l = layout_of(stage, ranks, ZR_BF16, many ? 4 : 1);
                    l.eval = false;
                    if (!choose(&l, way) || (l.accum > 1 && (l.two_pass || (l.stage == 1 && way == 5)))) continue;
                    zr_plan *plan = plan_of(&l);
                    lose_each_wait(plan, way);
                    for (int32_t w = 0; w < plan->schedule[ZR_SCHEDULE_TRAIN].n_waits; w++)
                        tried[l.accum > 1] += plan->schedule[ZR_SCHEDULE_TRAIN].wait[w].before;
                    zr_plan_destroy(&plan);
                }
    assert_int_equal(tried[0], 0);
    assert_true(tried[1] > 0);
}

/* Check that moving a transient buffer onto another buffer that is alive with it is noticed. */
static void test_overlap_is_noticed(void **state)
{
    (void)state;
    zr_layout l = layout_of(3, 3, ZR_F32, 1);
    zr_plan *plan = plan_of(&l);
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int tried = 0;
    for (int32_t a = plan->n_persistent; a < s->n_buffers; a++)
        for (int32_t b = 0; b < s->n_buffers; b++) {
            zr_buffer *x = &s->buffer[a], *y = &s->buffer[b];
            bool together = y->persistent || (x->first_step <= y->last_step && y->first_step <= x->last_step);
            if (a == b || y->space != x->space || !together ||
                y->offset + x->bytes > plan->space_bytes[ZR_SPACE_DEVICE])
                continue;
            int64_t kept = x->offset;
            x->offset = y->offset;
            if (zr_plan_check(plan) == ZR_OK) fail_msg("%s on %s was not noticed", x->what, y->what);
            x->offset = kept;
            tried++;
            b += 7; /* a sample is enough */
        }
    assert_true(tried > 100);
    assert_int_equal(zr_plan_check(plan), ZR_OK);
    zr_plan_destroy(&plan);
}

/* Check that a step that reads unwritten bytes and a buffer outside the arena are noticed. */
static void test_broken_plans(void **state)
{
    (void)state;
    zr_layout l = layout_of(2, 2, ZR_F32, 1);
    zr_plan *plan = plan_of(&l);
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int32_t batch = -1;
    for (int32_t i = 0; i < s->n_steps; i++)
        if (s->step[i].kind == ZR_STEP_BATCH) batch = i;
    assert_true(batch >= 0);
    int32_t uses = s->step[batch].n_uses;
    s->step[batch].n_uses = 0;
    assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
    assert_non_null(strstr(zr_error_message(), "nothing has written"));
    s->step[batch].n_uses = uses;
    s->buffer[plan->n_persistent].offset = plan->space_bytes[ZR_SPACE_DEVICE];
    assert_int_equal(zr_plan_check(plan), ZR_ERR_INTERNAL);
    zr_plan_destroy(&plan);
}

static zr_step *step_of(zr_plan *plan, zr_step_kind kind)
{
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    for (int32_t i = 0; i < s->n_steps; i++)
        if (s->step[i].kind == kind) return &s->step[i];
    fail_msg("there is no step %s", zr_step_kind_name(kind));
    return NULL;
}

/* Check a plan that updates each unit at the end of its own backward: an update too early, or one whose old parameters
 * are still read, is noticed. */
static void test_broken_updates(void **state)
{
    (void)state;
    zr_layout l = layout_of(3, 2, ZR_BF16, 1);
    l.states = ZR_STATES_LEAN;
    l.prefetch_elems = 0;
    zr_plan *plan = plan_of(&l);
    const zr_step_kind kinds[] = {ZR_STEP_AGREE, ZR_STEP_SQUARE};
    for (int k = 0; k < 2; k++) {
        zr_step *step = step_of(plan, kinds[k]);
        step->unit--;
        expect_broken(plan, "before all ranks have agreed");
        step->unit++;
    }
    /* The first unit is cast again after the last one is updated: cast the updated unit instead. */
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int32_t update = 0, cast = s->n_steps;
    while (s->step[update].kind != ZR_STEP_UPDATE) update++;
    while (s->step[--cast].kind != ZR_STEP_CAST) continue;
    assert_true(cast > update && s->step[cast].unit != s->step[update].unit);
    zr_use *use = &s->use[s->step[cast].uses], of_update = s->use[s->step[update].uses + 1];
    const zr_step had = s->step[cast];
    const zr_use had_use[2] = {use[0], use[1]};
    s->step[cast].unit = s->step[update].unit;
    s->step[cast].range = s->step[update].range;
    use[0] = of_update;
    use[0].writes = false;
    use[1].range.count = s->step[update].range.count;
    expect_broken(plan, "may have updated");
    s->step[cast] = had;
    use[0] = had_use[0];
    use[1] = had_use[1];
    assert_int_equal(zr_plan_check(plan), ZR_OK);
    zr_plan_destroy(&plan);
}

/* Check that reading the part of a whole unit that another rank has updated is noticed. */
static void test_broken_updates_of_others(void **state)
{
    (void)state;
    zr_layout l = layout_of(1, 2, ZR_BF16, 1);
    zr_plan *plan = plan_of(&l);
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int32_t of[2], n = 0; /* steps that update two units, the larger unit first */
    for (int32_t i = 0; i < s->n_steps && n < 2; i++)
        if (s->step[i].kind == ZR_STEP_UPDATE && (n == 0 || s->step[i].range.count < s->step[of[0]].range.count))
            of[n++] = i;
    assert_int_equal(n, 2);
    const zr_plan_unit *u = &plan->unit[s->step[of[0]].unit];
    zr_use *verdict = &s->use[s->step[of[1]].uses + s->step[of[1]].n_uses - 1], had = *verdict;
    *verdict = (zr_use){u->param.buffer, u->param.dtype, .reads = true};
    /* rank 1's shard, which lies on all ranks */
    verdict->range = (zr_range){.first = u->shard_elems, .count = s->step[of[1]].range.count};
    expect_broken(plan, "may have updated");
    *verdict = had;
    assert_int_equal(zr_plan_check(plan), ZR_OK);
    zr_plan_destroy(&plan);
}

/* Check that a step that asks all ranks must be on the comm stream. */
static void test_broken_calls(void **state)
{
    (void)state;
    const zr_step_kind kinds[] = {ZR_STEP_NORM, ZR_STEP_AGREE};
    const zr_states states[] = {ZR_STATES_PAPER, ZR_STATES_LEAN};
    for (int k = 0; k < 2; k++) {
        zr_layout l = layout_of(3, 2, ZR_F32, 1);
        l.states = states[k];
        zr_plan *plan = plan_of(&l);
        step_of(plan, kinds[k])->stream = ZR_STREAM_COMPUTE;
        expect_broken(plan, "not on the comm stream");
        zr_plan_destroy(&plan);
    }
}

/* Check that NCCL may sum only whole adjacent pieces of a unit, which it reads and writes. */
static void test_broken_nccl(void **state)
{
    (void)state;
    zr_layout l = layout_of(2, 2, ZR_BF16, 1);
    l.reduce = ZR_REDUCE_NCCL;
    zr_plan *plan = plan_of(&l);
    zr_step *step = step_of(plan, ZR_STEP_REDUCE_SCATTER), *update = step_of(plan, ZR_STEP_UPDATE);
    zr_use *pieces = &plan->schedule[ZR_SCHEDULE_TRAIN].use[step->uses];
    assert_true(step->nccl && pieces->range.count == plan->unit[step->unit].shard_elems);
    pieces->writes = false;
    expect_broken(plan, "to be read and written");
    pieces->writes = true;
    pieces->range.by.elems += 32;
    expect_broken(plan, "whole pieces side by side");
    pieces->range.by.elems -= 32;
    pieces->range.first = 32;
    expect_broken(plan, "whole pieces side by side");
    pieces->range.first = 0;
    step->rank_free_sums = true;
    expect_broken(plan, "nothing that NCCL sums");
    step->rank_free_sums = false;
    update->nccl = true;
    expect_broken(plan, "nothing that NCCL sums");
    update->nccl = false;
    const int64_t bucket = step->bucket_elems;
    step->bucket_elems = 32;
    expect_broken(plan, "whole pieces side by side");
    step->bucket_elems = bucket;
    update->bucket_elems = 32;
    expect_broken(plan, "is no move of a unit");
    update->bucket_elems = 0;
    assert_int_equal(zr_plan_check(plan), ZR_OK);
    zr_plan_destroy(&plan);
}

/* Check that a gradient at another place than its parameter and a staging memory without room for two parts of each
 * rank are noticed. */
static void test_broken_places(void **state)
{
    (void)state;
    zr_layout l = layout_of(2, 2, ZR_F32, 1);
    zr_plan *plan = plan_of(&l);
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    zr_value grad = zr_graph_param(plan->graph[ZR_SCHEDULE_TRAIN], 2)->grad;
    const zr_use *place = &s->value[grad];
    for (int32_t u = 0; u < s->n_uses; u++)
        if (s->use[u].buffer == place->buffer && s->use[u].range.first == place->range.first && s->use[u].writes) {
            s->use[u].range.first += 16;
            expect_broken(plan, "or its gradient at element");
            s->use[u].range.first -= 16;
            break;
        }
    plan->space_bytes[ZR_SPACE_STAGING] = 192;
    for (int k = 0; k < ZR_SCHEDULES; k++)
        if (plan->schedule[k].buffer) plan->schedule[k].buffer[zr_plan_staging(plan, ZR_GROUP_DATA)].bytes = 192;
    expect_broken(plan, "192 bytes of staging memory for 2 ranks, but needs at least 256");
    zr_plan_destroy(&plan);
}

/* Check wrong counts that the uses in a plan do not show: number of ranks that agree, rounds of a step that runs once a
 * step, updated elements. */
static void test_broken_counts(void **state)
{
    (void)state;
    zr_layout l = mixed_layout(8); /* groups of two among eight ranks */
    zr_plan *plan = plan_of(&l);
    zr_step *norm = step_of(plan, ZR_STEP_NORM);
    const int32_t all = norm->group;
    norm->group = ZR_GROUP_LOCAL;
    expect_broken(plan, "asks 2 of 8 ranks");
    norm->group = all;
    plan->group[plan->group[all].same].exchanges = false;
    expect_broken(plan, "of no group that exchanges");
    plan->group[plan->group[all].same].exchanges = true;
    /* the ranks of a group LOCAL are neighbours no more */
    plan->axis_step[ZR_AXIS_LOCAL] = 4;
    plan->axis_step[ZR_AXIS_ACROSS] = 1;
    expect_broken(plan, "rank 1 of 8 has shard");
    plan->axis_step[ZR_AXIS_LOCAL] = 1;
    plan->axis_step[ZR_AXIS_ACROSS] = 2;
    /* Unit 1 is updated twice, and unit 2 of the same size is not updated. */
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    assert_true(plan->unit[1].update.count == plan->unit[2].update.count);
    zr_step *second = NULL;
    for (int32_t i = 0; i < s->n_steps; i++)
        if (s->step[i].kind == ZR_STEP_UPDATE && s->step[i].unit == 2) second = &s->step[i];
    assert_non_null(second);
    second->unit = 1;
    expect_broken(plan, "elements of unit 1 are not updated");
    second->unit = 2;
    assert_int_equal(zr_plan_check(plan), ZR_OK);
    zr_plan_destroy(&plan);

    /* Reductions run in every round instead of once a step; then unit 1 is reduced as unit 2, and not at all. */
    l = mixed_layout(7);
    l.home.grad = ZR_SPACE_DEVICE;
    plan = plan_of(&l);
    s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    plan->reduce_once = true;
    expect_broken(plan, "before the last micro-batch has ended");
    plan->reduce_once = false;
    for (int32_t i = 0; i < s->n_steps; i++) {
        if (s->step[i].kind != ZR_STEP_REDUCE_SCATTER || s->step[i].unit != 1) continue;
        s->step[i].unit = 2;
        expect_broken(plan, "takes the gradient of");
        s->step[i].unit = -1;
        s->step[i].bucket_elems = 0;
    }
    expect_broken(plan, "the gradient of unit 1 is summed over 1 of 4 ranks");
    zr_plan_destroy(&plan);

    l = layout_of(1, 2, ZR_F32, 1);
    plan = plan_of(&l);
    s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    zr_step *once = NULL;
    for (int32_t i = 0; i < s->n_steps; i++)
        if (s->step[i].when == ZR_WHEN_STALE) once = &s->step[i];
    assert_non_null(once);
    const int32_t waits = once->waits, n_waits = once->n_waits;
    for (int32_t w = 0; w < s->n_waits; w++) {
        if (s->wait[w].step >= once - s->step || s->wait[w].before) continue;
        once->waits = w;
        once->n_waits = 1;
        expect_broken(plan, "runs once, but waits for others");
        break;
    }
    assert_int_equal(once->n_waits, 1);
    once->waits = waits;
    once->n_waits = n_waits;
    assert_int_equal(zr_plan_check(plan), ZR_OK);
    zr_plan_destroy(&plan);
}

/* Check that a step that saves less than the shard, from its buffer or from a copy, is noticed. */
static void test_broken_saves(void **state)
{
    (void)state;
    for (zr_save save = ZR_SAVE_COPY; save <= ZR_SAVE_IN_PLACE; save++) {
        zr_layout l = layout_of(2, 2, ZR_F32, 1);
        l.save = save;
        zr_plan *plan = plan_of(&l);
        zr_step *step = step_of(plan, ZR_STEP_SAVE);
        zr_use *use = &plan->schedule[ZR_SCHEDULE_TRAIN].use[step->uses];
        use->range.count -= 32;
        step->range.count -= 32;
        expect_broken(plan, "which is not the own shard");
        use->range.count += 32;
        step->range.count += 32;
        assert_int_equal(zr_plan_check(plan), ZR_OK);
        zr_plan_destroy(&plan);
    }
}

/* Check that a step after all rounds may not wait for a step of the round before, as a step inside the rounds may. */
static void test_broken_rounds(void **state)
{
    (void)state;
    zr_layout l = layout_of(2, 2, ZR_F32, 3);
    zr_plan *plan = plan_of(&l);
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    bool ended = false, tried = false;
    for (int32_t i = 0; i < s->n_steps && !tried; i++) {
        ended |= s->step[i].kind == ZR_STEP_END;
        if (!ended || s->step[i].n_waits == 0) continue;
        zr_wait *wait = &s->wait[s->step[i].waits];
        tried = true;
        wait->before = true;
        expect_broken(plan, "which is not before it");
        wait->before = false;
    }
    assert_true(tried);
    assert_int_equal(zr_plan_check(plan), ZR_OK);
    zr_plan_destroy(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_layouts_hold),
        cmocka_unit_test(test_all_ways_hold),
        cmocka_unit_test(test_every_wait_is_needed),
        cmocka_unit_test(test_overlap_is_noticed),
        cmocka_unit_test(test_broken_plans),
        cmocka_unit_test(test_broken_updates),
        cmocka_unit_test(test_broken_updates_of_others),
        cmocka_unit_test(test_broken_calls),
        cmocka_unit_test(test_broken_places),
        cmocka_unit_test(test_broken_nccl),
        cmocka_unit_test(test_broken_counts),
        cmocka_unit_test(test_broken_saves),
        cmocka_unit_test(test_broken_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
