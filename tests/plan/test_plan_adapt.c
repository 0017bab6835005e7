//TEST timeout=60 tsan=1
/* Policy auto with tensor-parallel ranks also chooses how checkpoints are kept: whole, in pieces (P_a) or in pieces on
 * the host (P_a+cpu), by the memory limit and the time of a step. */
#include "plan/cost/cost.h"
#include "engine/trainer.h"

static trainer model_of(int tensor, zr_recompute recompute)
{
    trainer run = trainer_small(NULL, 2, 16);
    run.config = (zr_gpt2_config){.n_layer = 8,
                                  .n_head = 4,
                                  .n_embd = 32,
                                  .n_positions = 16,
                                  .vocab_size = 61,
                                  .layer_norm_epsilon = 1e-5,
                                  .initializer_range = 0.3,
                                  .resid_pdrop = 0.1};
    run.layout.tensor = tensor;
    run.layout.batch = 16;
    run.layout.recompute = recompute;
    run.steps = 2;
    return run;
}

static zr_plan *plan_with(const trainer *run, const zr_machine *machine)
{
    zr_model model = trainer_model(run);
    zr_profile profile = {0};
    zr_plan *plan = NULL;
    profile.facts.threads = 1;
    if (machine) profile.machine = *machine;
    if (zr_plan_create(&model, &run->layout, &profile, &plan) != ZR_OK) fail_msg("%s", zr_error_message());
    assert_int_equal(zr_plan_check(plan), ZR_OK);
    return plan;
}

static zr_plan *plan_of(const trainer *run)
{
    return plan_with(run, NULL);
}

static int64_t taken_by(const trainer *run)
{
    zr_plan *plan = plan_of(run);
    const int64_t bytes = zr__memory_taken(&plan->memory);
    zr_plan_destroy(&plan);
    return bytes;
}

/* Return a run limited to the memory that policy unit takes with whole checkpoints; checkpoints in pieces leave room to
 * keep some units instead of recomputing them. */
static trainer tight(int tensor)
{
    trainer run = model_of(tensor, ZR_RECOMPUTE_UNIT);
    run.layout.limit_bytes = taken_by(&run);
    run.layout.recompute = ZR_RECOMPUTE_AUTO;
    return run;
}

static int64_t kept_bytes(const zr_plan *plan, zr_space space)
{
    return plan->memory.space[space].category_bytes[ZR_CATEGORY_CHECKPOINT];
}

static void pieces_are_taken_where_they_help(void **state)
{
    (void)state;
    trainer run = tight(4), unit = model_of(4, ZR_RECOMPUTE_UNIT);
    zr_plan *chosen = plan_of(&run), *again = plan_of(&unit);
    assert_true(chosen->partition_checkpoints && !chosen->layout.partition_checkpoints);
    assert_in_range(zr__memory_taken(&chosen->memory), 1, run.layout.limit_bytes);
    assert_true(chosen->flops_hardware < again->flops_hardware);
    zr_plan_destroy(&again);

    run.layout.partition_checkpoints = true; /* when pieces are requested, the recompute work is the same */
    zr_plan *asked = plan_of(&run);
    assert_true(asked->partition_checkpoints && asked->checkpoint_home == ZR_SPACE_DEVICE);
    assert_true(asked->flops_hardware == chosen->flops_hardware);
    zr_plan_destroy(&asked);
    zr_plan_destroy(&chosen);
}

/* Check that pieces are chosen under a limit below the memory that whole checkpoints take in any mix. */
static void pieces_fit_where_whole_ones_do_not(void **state)
{
    (void)state;
    trainer run = model_of(4, ZR_RECOMPUTE_UNIT);
    run.layout.partition_checkpoints = true;
    const int64_t least = taken_by(&run);
    for (int every = 1; every <= 8; every++) { /* fewer checkpoints, and more units recomputed at a time */
        trainer whole = model_of(4, ZR_RECOMPUTE_UNIT);
        whole.layout.recompute_every = every;
        assert_true(taken_by(&whole) > least);
    }
    run.layout.partition_checkpoints = false;
    run.layout.recompute = ZR_RECOMPUTE_AUTO;
    run.layout.limit_bytes = least;
    zr_plan *plan = plan_of(&run);
    assert_in_range(zr__memory_taken(&plan->memory), 1, least);
    assert_true(plan->partition_checkpoints);
    assert_true(kept_bytes(plan, ZR_SPACE_DEVICE) > 0 && kept_bytes(plan, ZR_SPACE_HOST) == 0);
    zr_plan_destroy(&plan);
}

static void whole_ones_are_taken_where_there_is_room(void **state)
{
    (void)state;
    for (int limited = 0; limited < 2; limited++) {
        trainer none = model_of(4, ZR_RECOMPUTE_NONE), run = model_of(4, ZR_RECOMPUTE_AUTO);
        run.layout.limit_bytes = limited ? taken_by(&none) : 0;
        zr_plan *plan = plan_of(&run), *kept = plan_of(&none);
        assert_false(plan->partition_checkpoints || plan->checkpoint_home != ZR_SPACE_DEVICE);
        assert_true(plan->flops_hardware == kept->flops_hardware);
        assert_int_equal(plan->memory.total_bytes, kept->memory.total_bytes);
        zr_plan_destroy(&kept);
        zr_plan_destroy(&plan);
    }
}

/* Check that policy auto keeps checkpoints whole, on the device, where no layer is cut over ranks or each rank has its
 * own tokens, and that it does not change a way that the layout requests. */
static void what_is_settled_is_kept(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        trainer run = tight(way == 0 ? 1 : 4);
        if (way == 1) run.layout.sequence = ZR_SEQUENCE_KEEP;
        if (way == 2) run.layout.checkpoint_home = ZR_SPACE_HOST;
        run.layout.limit_bytes = 1;
        zr_plan *plan = plan_of(&run);
        assert_false(plan->partition_checkpoints);
        assert_int_equal(plan->checkpoint_home, way == 2 ? ZR_SPACE_HOST : ZR_SPACE_DEVICE);
        zr_plan_destroy(&plan);
    }
}

/* Check that a machine's rates decide: pieces cost more than recompute over very slow links, and less where moving
 * bytes costs nothing. */
static void rates_decide(void **state)
{
    (void)state;
    for (int fast = 0; fast < 2; fast++) {
        zr_machine machine = {.flops_f32 = 1e9, .memory_bytes_sec = 1e15};
        machine.link[ZR_LINK_PROCESS].bytes_sec = fast ? 1e15 : 1e5;
        trainer run = tight(4);
        zr_plan *plan = plan_with(&run, &machine);
        assert_int_equal(plan->partition_checkpoints, fast);
        assert_in_range(zr__memory_taken(&plan->memory), 1, run.layout.limit_bytes);
        zr_plan_destroy(&plan);
    }
}

/* Check that policy auto makes no room for a save's copy by keeping checkpoints in pieces or by more recompute. */
static void a_copy_takes_no_room_from_checkpoints(void **state)
{
    (void)state;
    trainer run = model_of(4, ZR_RECOMPUTE_NONE);
    run.layout.save = ZR_SAVE_COPY;
    const int64_t most = taken_by(&run);
    run.layout.recompute = ZR_RECOMPUTE_AUTO;
    int copies = 0;
    for (int percent = 60; percent <= 100; percent += 4) {
        run.layout.limit_bytes = most * percent / 100;
        run.layout.save = ZR_SAVE_AUTO;
        zr_plan *plan = plan_of(&run);
        run.layout.save = ZR_SAVE_IN_PLACE;
        zr_plan *in_place = plan_of(&run);
        copies += plan->save == ZR_SAVE_COPY;
        assert_true(plan->flops_hardware <= in_place->flops_hardware);
        assert_true(plan->partition_checkpoints <= in_place->partition_checkpoints);
        zr_plan_destroy(&in_place);
        zr_plan_destroy(&plan);
    }
    assert_in_range(copies, 1, 10);
}

/* Check that losses and weights do not depend on the choice, to the bit, and that the trainer measures the planned
 * bytes. */
static void losses_are_the_same(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage += 3) {
        trainer chosen = tight(2), none = model_of(2, ZR_RECOMPUTE_NONE), unit = model_of(2, ZR_RECOMPUTE_UNIT);
        chosen.layout.stage = none.layout.stage = unit.layout.stage = stage;
        chosen.layout.ranks = none.layout.ranks = unit.layout.ranks = 2;
        unit.layout.partition_checkpoints = true;
        chosen.layout.limit_bytes = taken_by(&unit);
        zr_plan *plan = plan_of(&chosen);
        assert_true(plan->partition_checkpoints);
        zr_plan_destroy(&plan);
        trainer_run(&none);
        trainer_run(&chosen);
        for (int i = 0; i < none.steps; i++) assert_true(chosen.loss[i] == none.loss[i]);
        assert_true(chosen.weights == none.weights);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_taken_where_they_help),
        cmocka_unit_test(pieces_fit_where_whole_ones_do_not),
        cmocka_unit_test(whole_ones_are_taken_where_there_is_room),
        cmocka_unit_test(what_is_settled_is_kept),
        cmocka_unit_test(rates_decide),
        cmocka_unit_test(a_copy_takes_no_room_from_checkpoints),
        cmocka_unit_test(losses_are_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
