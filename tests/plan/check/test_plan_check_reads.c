//TEST timeout=60
/* The proof of reads refuses a plan without any one of the steps that bring a value to its place, in any round. */
#include "plan/plan_ways.h"
#include "engine/terms_model.h"

/* Return whether an op reads a part of the range of `of`. */
static bool op_reads(const zr_schedule *s, const zr_use *of)
{
    for (int32_t i = 0; i < s->n_steps; i++)
        for (int32_t u = s->step[i].uses; s->step[i].kind == ZR_STEP_RUN && u < s->step[i].uses + s->step[i].n_uses;
             u++) {
            const zr_range *r = &s->use[u].range;
            if (s->use[u].reads && s->use[u].buffer == of->buffer && r->first < of->range.first + of->range.count &&
                of->range.first < r->first + r->count)
                return true;
        }
    return false;
}

/* Return whether a step copies elements that its target already holds from an earlier copy. */
static bool is_repeated(const zr_schedule *s, const zr_step *step)
{
    const zr_use *to = &s->use[step->uses + 1];
    for (int32_t i = (int32_t)(step - s->step) - 1; i >= 0 && step->kind == ZR_STEP_COPY; i--)
        for (int32_t u = s->step[i].uses; u < s->step[i].uses + s->step[i].n_uses; u++)
            if (s->use[u].buffer == to->buffer && s->use[u].writes)
                return s->step[i].kind == ZR_STEP_COPY && memcmp(&s->use[u - 1], to - 1, 2 * sizeof *to) == 0;
    return false;
}

/* Return whether the proof accepts a plan without this step. A bucket of a cast may move only padding, or parameters
 * that are read elsewhere, unless it makes records, which are exchanged. A bucket of a master may still be in its place
 * in the ring. The loss of an evaluation is read by the caller, who notices that no micro-batch has added to it. */
static bool is_idle(const zr_schedule *s, zr_schedule_kind kind, const zr_step *step)
{
    if (step->kind == ZR_STEP_REPEAT || step->kind == ZR_STEP_END) return true;
    if (is_repeated(s, step)) return true;
    const zr_use *to = &s->use[step->uses + 1];
    if (step->kind == ZR_STEP_CAST) return !zr_dtype_is_record(to->dtype) && !op_reads(s, to);
    return step->kind == ZR_STEP_LOSS && kind == ZR_SCHEDULE_EVAL;
}

/* Replace the step by one that does nothing. */
static void leave_out(zr_step *step)
{
    step->kind = ZR_STEP_ZERO;
    step->n_uses = 0;
    step->unit = -1;
    step->range = (zr_range){0};
    step->bucket_elems = 0;
}

/* Return a plan of a model of several loss terms. */
static zr_plan *terms_plan(void)
{
    zr_model model;
    zr_plan *plan = NULL;
    const trainer run = terms_trainer(&model, 2, 2, 2);
    const zr_profile profile = {
        .facts = {.name = "test", .threads = 1, .panel_bytes = 1 << 16, .scratch_bytes = zr_device_cpu_scratch}};
    if (zr_plan_create(&model, &run.layout, &profile, &plan) != ZR_OK) fail_msg("plan: %s", zr_error_message());
    return plan;
}

static void test_every_step_is_needed(void **state)
{
    (void)state;
    int tried[ZR_STEP_KINDS] = {0};
    for (int i = 0; i <= MIXED; i++) {
        const zr_layout l = mixed_layout(i);
        zr_plan *plan = i < MIXED ? plan_of(&l) : terms_plan();
        if (zr_plan_check(plan) != ZR_OK) fail_msg("layout %d: %s", i, zr_error_message());
        for (zr_schedule_kind k = 0; k < ZR_SCHEDULES; k++)
            for (int32_t s = 0; s < plan->schedule[k].n_steps; s++) {
                zr_step *step = &plan->schedule[k].step[s], had = *step;
                if (is_idle(&plan->schedule[k], k, step)) continue;
                leave_out(step);
                if (zr_plan_check(plan) == ZR_OK)
                    fail_msg("layout %d, schedule %d: step %d (%s of unit %d) may be missing", i, (int)k, s,
                             zr_step_kind_name(had.kind), had.unit);
                *step = had;
                tried[had.kind]++;
            }
        assert_int_equal(zr_plan_check(plan), ZR_OK);
        zr_plan_destroy(&plan);
    }
    for (int k = 0; k < ZR_STEP_KINDS; k++)
        if (tried[k] == 0 && k != ZR_STEP_REPEAT && k != ZR_STEP_END &&
            !(k >= ZR_STEP_SEND && k <= ZR_STEP_RECEIVED)) /* between roles: test_plan_pipeline */
            fail_msg("no layout has a step %s", zr_step_kind_name((zr_step_kind)k));
}

/* Begin all ranges of a step `elems` elements later. */
static void shorten(zr_schedule *s, zr_step *step, int64_t elems)
{
    for (int32_t u = step->uses; u < step->uses + step->n_uses; u++) {
        if (s->use[u].range.count == 0) continue;
        s->use[u].range.first += elems;
        s->use[u].range.count -= elems;
    }
    if (step->range.count == 0) return;
    step->range.first += elems;
    step->range.count -= elems;
}

/* Check that a step that moves one element too few is noticed. The first element is left out, because the last one may
 * be padding. */
static void test_every_element_is_needed(void **state)
{
    (void)state;
    const zr_step_kind kinds[] = {ZR_STEP_GATHER, ZR_STEP_CAST,        ZR_STEP_COPY,
                                  ZR_STEP_ZERO,   ZR_STEP_GATHER_GRAD, ZR_STEP_SAVE};
    int tried = 0;
    for (int i = 0; i < MIXED; i++) {
        const zr_layout l = mixed_layout(i);
        zr_plan *plan = plan_of(&l);
        zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
        for (int32_t j = 0; j < s->n_steps; j++) {
            bool moves = false;
            for (int k = 0; k < 6; k++) moves |= s->step[j].kind == kinds[k];
            if (!moves) continue;
            shorten(s, &s->step[j], 1);
            if (zr_plan_check(plan) == ZR_OK)
                fail_msg("layout %d: step %d (%s) may bring less", i, j, zr_step_kind_name(s->step[j].kind));
            shorten(s, &s->step[j], -1);
            tried++;
        }
        assert_int_equal(zr_plan_check(plan), ZR_OK);
        zr_plan_destroy(&plan);
    }
    assert_true(tried > 100);
}

/* ---- rounds in which steps are skipped --------------------------------------------------------- */

/* Check the round after a flush. Small units that stay whole are gathered at the beginning of a step, unless a flush
 * has gathered them. If such a gather came after another gather, a step that waits only for the first would, after a
 * flush, wait for neither. */
static void test_flushed_round(void **state)
{
    (void)state;
    zr_layout l = mixed_layout(7);
    l.accum = 1; /* later rounds skip the gather as well */
    zr_plan *plan = plan_of(&l);
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int32_t stale = 0;
    while (s->step[stale].when != ZR_WHEN_STALE) stale++;
    zr_wait *wait = NULL; /* a wait for a gather that runs in every round */
    for (int32_t w = 0; w < s->n_waits; w++)
        if (s->step[s->wait[w].step].kind == ZR_STEP_GATHER && s->step[s->wait[w].step].when == ZR_WHEN_ALWAYS &&
            (!wait || s->wait[w].step < wait->step))
            wait = &s->wait[w];
    assert_non_null(wait);
    const int32_t gather = wait->step;
    for (; stale < gather; stale++) swap_with_next(s, stale);
    assert_int_equal(wait->step, gather - 1);
    assert_int_equal(zr_plan_check(plan), ZR_OK);
    wait->step = gather;
    expect_broken(plan, "in no order");
    zr_plan_destroy(&plan);
}

/* Check that a missing gather at the beginning of a step is noticed: without a flush, parameters that other ranks have
 * updated are not there before it. */
static void test_stale_parameters(void **state)
{
    (void)state;
    const zr_layout l = mixed_layout(1);
    zr_plan *plan = plan_of(&l);
    zr_step *step = plan->schedule[ZR_SCHEDULE_TRAIN].step;
    while (step->when != ZR_WHEN_STALE) step++;
    leave_out(step);
    expect_broken(plan, "reads buffer parameters, of which nothing has written");
    zr_plan_destroy(&plan);
}

/* Check that a step that runs only in the first round orders nothing from the third round on, and that the order of the
 * steps before it is then lost too. */
static void test_later_rounds(void **state)
{
    (void)state;
    zr_layout l = mixed_layout(5);
    l.recompute = ZR_RECOMPUTE_UNIT;
    l.prefetch_elems = l.host_ranks = l.hpz_ranks = 0;
    zr_plan *plan = plan_of(&l);
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int32_t reduction = -1, late = -1; /* the last two reductions of a round; the next round waits for the first */
    for (int32_t i = 0; s->step[i].kind != ZR_STEP_END; i++) {
        if (s->step[i].kind != ZR_STEP_REDUCE_SCATTER) continue;
        reduction = late;
        late = i;
    }
    for (int32_t w = 0; w < s->n_waits; w++) /* waiting for the last one is as good, as both are on one stream */
        if (s->wait[w].step == reduction) s->wait[w].step = late;
    assert_int_equal(zr_plan_check(plan), ZR_OK);
    leave_out(&s->step[late]);
    expect_broken(plan, "nothing has written"); /* the replacement step keeps its place in the order */
    s->step[late].when = ZR_WHEN_FIRST;
    expect_broken(plan, "use buffer gradient accumulators (fp32) in no order");
    zr_plan_destroy(&plan);
}

/* ---- squares of micro-gradients ---------------------------------------------------------------- */

/* Check that squares of micro-gradients are refused if they cover only a part of the gradient, or are computed only in
 * the first round. */
static void test_micro_squares_are_whole(void **state)
{
    (void)state;
    const zr_layout l = mixed_layout(4);
    zr_plan *plan = plan_of(&l);
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    zr_step *step = s->step;
    while (step->kind != ZR_STEP_SQUARE_MICRO) step++;
    shorten(s, step, 32);
    expect_broken(plan, "are taken 0 times a round");
    shorten(s, step, -32);
    step->when = ZR_WHEN_FIRST;
    expect_broken(plan, "are taken 0 times a round");
    step->when = ZR_WHEN_ALWAYS;
    assert_int_equal(zr_plan_check(plan), ZR_OK);
    zr_plan_destroy(&plan);
}

/* Check that squares computed after the sum has replaced this rank's own piece are noticed, even if that order has all
 * its waits. */
static void test_micro_squares_come_first(void **state)
{
    (void)state;
    zr_layout l = mixed_layout(0);
    l.reduce_bucket_elems = ZR_DEFAULT_BUCKET_ELEMS;
    zr_plan *plan = plan_of(&l);
    zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int32_t i = 0;
    while (s->step[i].kind != ZR_STEP_SQUARE_MICRO || s->step[i - 1].kind != ZR_STEP_RUN) i++;
    assert_int_equal(s->step[i + 1].kind, ZR_STEP_REDUCE_SCATTER);
    swap_with_next(s, i);
    s->step[i + 1].stream = ZR_STREAM_COMM; /* after the reduction, which waits for the step that made the gradient */
    for (int32_t w = s->step[i].waits; w < s->step[i].waits + s->step[i].n_waits; w++)
        if (s->wait[w].step == i + 1) s->wait[w].step = i - 1;
    expect_broken(plan, "before its squares are taken");
    zr_plan_destroy(&plan);
}

/* Check a plan of 96 layers as wide as GPT-3's, each gathered in more than a hundred exchanges of one step. */
static void test_large_model_holds(void **state)
{
    (void)state;
    const zr_gpt2_config large = {.n_layer = 96,
                                  .n_head = 96,
                                  .n_embd = 12288,
                                  .n_positions = 2048,
                                  .vocab_size = 50257,
                                  .layer_norm_epsilon = 1e-5,
                                  .initializer_range = 0.02};
    for (int stage = 2; stage <= 3; stage++) {
        zr_layout l = layout_of(stage, 64, ZR_BF16, 4);
        l.seq = 2048;
        zr_plan *plan = plan_gpt2(&large, &l, &plan_profile);
        int64_t most = 0;
        for (int32_t i = 0; i < plan->schedule[ZR_SCHEDULE_TRAIN].n_steps; i++) {
            const int64_t n = zr_step_buckets(&plan->schedule[ZR_SCHEDULE_TRAIN].step[i]);
            if (n > most) most = n;
        }
        assert_true(most > 100);
        if (zr_plan_check(plan) != ZR_OK) fail_msg("stage %d: %s", stage, zr_error_message());
        zr_plan_destroy(&plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_step_is_needed),
        cmocka_unit_test(test_every_element_is_needed),
        cmocka_unit_test(test_flushed_round),
        cmocka_unit_test(test_stale_parameters),
        cmocka_unit_test(test_later_rounds),
        cmocka_unit_test(test_large_model_holds),
        cmocka_unit_test(test_micro_squares_are_whole),
        cmocka_unit_test(test_micro_squares_come_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
