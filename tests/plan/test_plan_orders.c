//TEST timeout=60
/* The orders of micro-batches (zr_layout.accum_order): the order in which passes begin and end, the rounds of a
 * training step, and the micro-batches of which values are stored. */
#include <stdio.h>

#include "plan_ways.h"

enum { ACCUM = 5 };

static zr_plan *plan_in_order(zr_accum_order order, int64_t ahead, zr_recompute recompute)
{
    zr_layout l = layout_of(2, 2, ZR_BF16, ACCUM);
    l.accum_order = order;
    l.accum_ahead = ahead;
    l.recompute = recompute;
    return plan_of(&l);
}

/* Write the order of passes: "F" at the beginning of a forward pass and "B" at the end of a backward pass, each with
 * the micro-batch. A backward pass ends with the reduction of the first unit. */
static void passes_of(const zr_plan *plan, char *text)
{
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    for (int32_t i = 0; i < s->n_steps; i++) {
        const zr_step *step = &s->step[i];
        const bool ends = step->kind == ZR_STEP_REDUCE_SCATTER && step->unit == 0;
        if (step->kind == ZR_STEP_BATCH || ends) text += sprintf(text, "%c%d ", ends ? 'B' : 'F', (int)step->micro);
    }
}

static void test_order_of_passes(void **state)
{
    (void)state;
    static const struct {
        zr_accum_order order;
        int64_t ahead;
        const char *passes;
    } of[] = {{ZR_ACCUM_MICRO, 0, "F0 B0 "},
              {ZR_ACCUM_AHEAD, 1, "F0 B0 "},
              {ZR_ACCUM_LAYER, 0, "F0 F1 F2 F3 F4 B0 B1 B2 B3 B4 "},
              {ZR_ACCUM_AHEAD, 2, "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4 "},
              {ZR_ACCUM_AHEAD, 4, "F0 F1 F2 F3 B0 F4 B1 B2 B3 B4 "},
              {ZR_ACCUM_AHEAD, 5, "F0 F1 F2 F3 F4 B0 B1 B2 B3 B4 "},
              {ZR_ACCUM_AHEAD, INT64_MAX, "F0 F1 F2 F3 F4 B0 B1 B2 B3 B4 "}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char passes[200] = "";
        zr_plan *plan = plan_in_order(of[i].order, of[i].ahead, ZR_RECOMPUTE_NONE);
        passes_of(plan, passes);
        assert_string_equal(passes, of[i].passes);
        assert_int_equal(plan->rounds, strlen(of[i].passes) == 6 ? ACCUM : 1);
        assert_int_equal(zr_plan_check(plan), ZR_OK);
        zr_plan_destroy(&plan);
    }
}

/* Check that n forward passes ahead store the checkpoints of n micro-batches at a time, and the layer-major order those
 * of all. Whole gradients take no more memory than with one micro-batch after the other. */
static void test_memory(void **state)
{
    (void)state;
    zr_plan *one = plan_in_order(ZR_ACCUM_MICRO, 0, ZR_RECOMPUTE_UNIT),
            *all = plan_in_order(ZR_ACCUM_LAYER, 0, ZR_RECOMPUTE_UNIT);
    const int64_t *want = one->memory.category_bytes, *layer = all->memory.category_bytes;
    assert_true(want[ZR_CATEGORY_CHECKPOINT] > 0);
    assert_int_equal(layer[ZR_CATEGORY_CHECKPOINT], ACCUM * want[ZR_CATEGORY_CHECKPOINT]);
    for (int64_t n = 1; n <= ACCUM + 1; n++) {
        zr_plan *plan = plan_in_order(ZR_ACCUM_AHEAD, n, ZR_RECOMPUTE_UNIT);
        const int64_t *got = plan->memory.category_bytes;
        assert_int_equal(got[ZR_CATEGORY_CHECKPOINT], (n < ACCUM ? n : ACCUM) * want[ZR_CATEGORY_CHECKPOINT]);
        assert_int_equal(got[ZR_CATEGORY_GRAD], want[ZR_CATEGORY_GRAD]);
        if (n == 1) assert_int_equal(plan->memory.total_bytes, one->memory.total_bytes);
        zr_plan_destroy(&plan);
    }
    zr_plan_destroy(&one);
    zr_plan_destroy(&all);
}

/* Check that in the layer-major order the next unit's gather is in flight while the first micro-batch computes, not
 * only while the last one does. */
static void test_gathers_ahead(void **state)
{
    (void)state;
    zr_layout l = layout_of(3, 2, ZR_BF16, ACCUM);
    l.accum_order = ZR_ACCUM_LAYER;
    zr_plan *plan = plan_of(&l);
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int gathers = 0;
    for (int32_t i = 0; i < s->n_steps; i++) {
        if (s->step[i].kind != ZR_STEP_GATHER) continue;
        assert_int_equal(s->step[i].micro, 0);
        gathers++;
    }
    assert_true(gathers > plan->n_units);
    zr_plan_destroy(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order_of_passes), cmocka_unit_test(test_memory),
                                       cmocka_unit_test(test_gathers_ahead)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
