//TEST timeout=60
/* The fullest moment of a step, checked by a walk over the lifetimes of buffers. */
#include "plan_bound.h"
#include "plan/plan_make.h"
#include "plan/cost/cost.h"

static const zr_profile profile = {
    .facts = {.name = "test", .threads = 1, .panel_bytes = 1 << 20, .scratch_bytes = zr_device_cpu_scratch}};

static zr_plan *plan_of(const zr_layout *layout)
{
    zr_gpt2_config config;
    assert_int_equal(zr_gpt2_preset("gpt2-124m", &config), ZR_OK);
    config.n_layer = 3;
    return plan_gpt2(&config, layout, &profile);
}

/* Return the bytes that are live at one step. */
static int64_t live_at(const zr_plan *plan, int32_t step)
{
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int64_t live = 0;
    for (int32_t b = 0; b < s->n_buffers; b++)
        if (s->buffer[b].space != ZR_SPACE_HOST &&
            (s->buffer[b].persistent || (s->buffer[b].first_step <= step && step <= s->buffer[b].last_step)))
            live += s->buffer[b].bytes;
    return live;
}

static void check(const zr_plan *plan)
{
    zr__fullest fullest;
    int64_t sum = 0, persistent = 0;
    assert_int_equal(zr__plan_fullest(plan, &fullest), ZR_OK);
    for (int c = 0; c < ZR_CATEGORIES; c++) {
        assert_in_range(fullest.category_bytes[c], 0, plan->memory.category_bytes[c]);
        sum += fullest.category_bytes[c];
    }
    for (int32_t b = 0; b < plan->n_persistent; b++)
        if (plan->persistent[b].space != ZR_SPACE_HOST) persistent += plan->persistent[b].bytes;
    assert_int_equal(fullest.live_bytes, sum);
    assert_int_equal(fullest.live_bytes, persistent + plan_bound(plan, ZR_SCHEDULE_TRAIN));
    assert_int_equal(fullest.live_bytes, live_at(plan, fullest.step));
    for (int32_t i = 0; i < fullest.step; i++) assert_true(live_at(plan, i) < fullest.live_bytes); /* the earliest */
}

static void test_fullest(void **state)
{
    (void)state;
    const zr_recompute recompute[] = {ZR_RECOMPUTE_NONE, ZR_RECOMPUTE_SELECTIVE, ZR_RECOMPUTE_UNIT};
    for (int stage = 0; stage <= 3; stage++)
        for (int r = 0; r < 3; r++)
            for (int ranks = 1; ranks <= 3; ranks += 2) {
                zr_layout l = zr_layout_default();
                l.stage = stage;
                l.ranks = ranks;
                l.recompute = recompute[r];
                l.seq = 16;
                l.optimizer = zr_adamw(0.9, 0.999, 1e-8, 0);
                zr_plan *plan = plan_of(&l);
                check(plan);
                zr_plan_destroy(&plan);
            }
}

static void test_without_training(void **state)
{
    (void)state;
    zr__fullest fullest;
    zr_layout l = zr_layout_default();
    l.train = false;
    zr_plan *plan = plan_of(&l);
    assert_int_equal(zr__plan_fullest(plan, &fullest), ZR_ERR_STATE);
    zr_plan_destroy(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fullest),
        cmocka_unit_test(test_without_training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
