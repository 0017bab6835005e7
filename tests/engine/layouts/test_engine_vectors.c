//TEST timeout=120
/* Vectors in units of their own (zr_layout.vectors_apart) change no bit of training: without clipping losses and
 * weights are the same at every stage, and with exact sums (rank_free_sums) norms, clipping and trust ratios too. Each
 * run also compares planned with measured memory and traffic (trainer.h), and runs zr_plan_check on its plan. */
#include "engine/layout_variants.h"
#include "plan/cost/cost.h"

#include <string.h>

/* Check that a run has the same bits with and without vectors apart. Norms are compared if `norms` is true, since
 * without exact sums their last bits depend on the units. */
static void same(trainer want, bool norms, const char *what)
{
    trainer got = want;
    got.layout.vectors_apart = true;
    trainer_run(&want);
    trainer_run(&got);
    for (int i = 0; i < want.steps && !norms; i++) {
        assert_true(want.norm[i] > 0 && got.norm[i] > want.norm[i] * (1 - 1e-12) &&
                    got.norm[i] < want.norm[i] * (1 + 1e-12));
        got.norm[i] = want.norm[i];
    }
    layout_assert_same(&want, &got, what);
}

static void every_stage(void **state)
{
    (void)state;
    for (int way = 0; way < 24; way++) {
        const zr_dtype dtype = way % 3 ? ZR_BF16 : ZR_F32;
        const bool world = way / 4 % 2;
        trainer run = layout_trainer(1 << way / 8, dtype, 1 + way % 3, world ? 0.5 : 0);
        run.steps = 2;
        run.layout.stage = way % 4;
        run.layout.rank_free_sums = world;
        run.layout.states = way / 4 % 3 == 1 ? ZR_STATES_LEAN : ZR_STATES_PAPER;
        run.layout.recompute = way % 5 ? ZR_RECOMPUTE_UNIT : ZR_RECOMPUTE_NONE;
        run.layout.persist_elems = way % 7 == 3 ? 300 : 0; /* units of vectors stay whole, units of matrices do not */
        run.layout.tile_elems = way % 6 == 5 ? 400 : 0;
        run.layout.home.optim = way % 5 == 2 ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
        run.layout.accum_order = (zr_accum_order)(way / 2 % 3);
        run.layout.accum_ahead = 2;
        same(run, world, "vectors apart");
    }
}

static void other_ways(void **state)
{
    (void)state;
    trainer run = layout_trainer(2, ZR_BF16, 2, 0.5);
    run.layout.rank_free_sums = true;
    run.layout.stage = 3;
    run.layout.optimizer = zr_lamb(ZR_LAMB_DEEPSPEED, NULL);
    same(run, true, "trust ratios");

    run = layout_trainer(1, ZR_F32, 2, 0);
    run.config.n_head = 2;
    run.config.n_embd = 24;
    run.layout.tensor = 2;
    run.layout.stage = 2;
    same(run, false, "ranks that share layers");

    run = layout_trainer(4, ZR_F32, 1, 0);
    run.layout.stage = 3;
    run.layout.host_ranks = run.layout.hpz_ranks = 2;
    run.layout.states = ZR_STATES_LEAN; /* updates consume gradients */
    same(run, false, "a second partition");
}

/* Check that each of the blocks is divided, and that a plan's layer in the middle of the model is still the same block.
 */
static void units(void **state)
{
    (void)state;
    const zr_profile profile = {.facts.threads = 1};
    int32_t n_units[2], middle[2];
    trainer run = layout_trainer(2, ZR_BF16, 1, 0);
    for (int apart = 0; apart < 2; apart++) {
        zr_model model = trainer_model(&run);
        zr_plan *plan = NULL;
        zr__layer layer;
        run.layout.vectors_apart = apart;
        assert_int_equal(zr_plan_create(&model, &run.layout, &profile, &plan), ZR_OK);
        assert_int_equal(zr__plan_layer(plan, &layer), ZR_OK);
        n_units[apart] = plan->n_units;
        middle[apart] = layer.unit;
        zr_plan_destroy(&plan);
    }
    assert_int_equal(n_units[1], n_units[0] + run.config.n_layer);
    assert_true(middle[0] > 0 && middle[1] == middle[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_stage), cmocka_unit_test(other_ways),
                                       cmocka_unit_test(units)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
