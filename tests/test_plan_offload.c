//TEST timeout=60 tsan=1
/* Activation checkpoints kept in the host's space between forward and backward pass: where each buffer lies, and that
 * nothing else changes. */
#include "layout_variants.h"

static void same_steps(const trainer *a, const trainer *b)
{
    for (int i = 0; i < a->steps; i++) {
        assert_memory_equal(&a->loss[i], &b->loss[i], sizeof a->loss[i]);
        assert_memory_equal(&a->norm[i], &b->norm[i], sizeof a->norm[i]);
    }
    assert_true(a->weights == b->weights);
}

/* Check that offloaded checkpoints change no bit of losses, norms and weights, at every stage, with every policy, in
 * one pass and in two. The trainer checks the plan, and that measured bytes equal planned ones. */
static void test_same_bits(void **state)
{
    (void)state;
    const zr_recompute policies[] = {ZR_RECOMPUTE_UNIT, ZR_RECOMPUTE_SELECTIVE};
    for (int stage = 0; stage <= 3; stage += 3)
        for (int policy = 0; policy < 2; policy++)
            for (int way = 0; way < 3; way++) {
                trainer run = layout_trainer(2, ZR_BF16, way == 0 ? 2 : 1, way == 2 ? 0.5 : 0);
                run.layout.stage = stage;
                run.layout.recompute = policies[policy];
                run.layout.recompute_every = policy == 0 ? 1 + way : 1;
                if (way > 0) run.layout.states = ZR_STATES_LEAN;
                run.layout.two_pass = way == 2;
                trainer there = run;
                there.layout.checkpoint_home = ZR_SPACE_HOST;
                trainer_run(&run);
                trainer_run(&there);
                same_steps(&run, &there);
                assert_true(there.planned.space[ZR_SPACE_HOST].category_bytes[ZR_CATEGORY_CHECKPOINT] > 0);
                assert_int_equal(there.planned.category_bytes[ZR_CATEGORY_CHECKPOINT], 0);
            }
}

static zr_plan *plan_of(int64_t layers, bool offload)
{
    trainer run = trainer_odd();
    run.config.n_layer = layers;
    run.layout.recompute = ZR_RECOMPUTE_UNIT;
    run.layout.recompute_every = 1;
    run.layout.checkpoint_home = offload ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
    zr_model model = trainer_model(&run);
    zr_profile profile = {0};
    profile.facts.threads = 1;
    zr_plan *plan = NULL;
    if (zr_plan_create(&model, &run.layout, &profile, &plan) != ZR_OK) fail_msg("%s", zr_error_message());
    assert_int_equal(zr_plan_check(plan), ZR_OK);
    return plan;
}

/* Check the bytes of checkpoints: the input of every block but the first's, which is the embedding's output as well, B
 * x T x C values each. They are on the host instead of the device, whose memory then grows with the layers only by
 * their states. */
static void test_bytes(void **state)
{
    (void)state;
    int64_t grows[2];
    for (int offload = 0; offload < 2; offload++) {
        zr_plan *few = plan_of(4, offload), *many = plan_of(12, offload);
        const int64_t checkpoint = (4 * 2 * 17 * 57 + 63) / 64 * 64;
        const zr_space space = offload ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
        assert_int_equal(few->memory.space[space].category_bytes[ZR_CATEGORY_CHECKPOINT], 4 * checkpoint);
        assert_int_equal(many->memory.space[space].category_bytes[ZR_CATEGORY_CHECKPOINT], 12 * checkpoint);
        assert_int_equal(
            many->memory.space[!offload ? ZR_SPACE_HOST : ZR_SPACE_DEVICE].category_bytes[ZR_CATEGORY_CHECKPOINT], 0);
        grows[offload] = (many->memory.total_bytes - many->memory.states_bytes) -
                         (few->memory.total_bytes - few->memory.states_bytes);
        zr_plan_destroy(&few);
        zr_plan_destroy(&many);
    }
    assert_true(grows[0] > 0);
    assert_int_equal(grows[1], 0);
}

/* Check that policy auto fits its limit when checkpoints on the host count as the same memory. */
static void test_auto(void **state)
{
    (void)state;
    for (int percent = 60; percent <= 100; percent += 20) {
        trainer run = trainer_odd();
        run.config.n_layer = 8;
        run.layout.batch = 16;
        zr_model model = trainer_model(&run);
        zr_profile profile = {0};
        profile.facts.threads = 1;
        zr_plan *unit = NULL, *chosen = NULL;
        run.layout.recompute = ZR_RECOMPUTE_UNIT;
        run.layout.recompute_every = 1;
        run.layout.checkpoint_home = ZR_SPACE_HOST;
        assert_int_equal(zr_plan_create(&model, &run.layout, &profile, &unit), ZR_OK);
        const int64_t least = zr_memory_taken(&unit->memory);
        assert_true(least > unit->memory.total_bytes);
        run.layout.recompute = ZR_RECOMPUTE_AUTO;
        run.layout.limit_bytes = least * 100 / percent;
        assert_int_equal(zr_plan_create(&model, &run.layout, &profile, &chosen), ZR_OK);
        assert_in_range(zr_memory_taken(&chosen->memory), 1, run.layout.limit_bytes);
        zr_plan_destroy(&unit);
        zr_plan_destroy(&chosen);
    }
}

/* Check that copies have a stream of their own, and that a copy to the host waits for its input. */
static void test_copies(void **state)
{
    (void)state;
    zr_plan *plan = plan_of(4, true);
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    int away = 0, back = 0;
    for (int32_t i = 0; i < s->n_steps; i++) {
        if (s->step[i].kind != ZR_STEP_COPY) continue;
        const zr_buffer *from = &s->buffer[s->use[s->step[i].uses].buffer];
        assert_int_equal(s->step[i].stream, ZR_STREAM_COPY);
        away += from->space == ZR_SPACE_DEVICE;
        back += from->space == ZR_SPACE_HOST;
        assert_true(s->step[i].n_waits > 0 || from->space == ZR_SPACE_HOST);
    }
    assert_int_equal(away, 4);
    assert_int_equal(back, 4);
    zr_plan_destroy(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_auto),
        cmocka_unit_test(test_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
