//TEST timeout=240 tsan=1 long=more
/* Every way to keep, move and recompute gives the same bits: recompute policies, layouts, buckets, prefetch, thresholds
 * and the papers' baselines, at every stage, in every number type, on 1 to 4 ranks, with dropout. Each run also
 * compares planned with measured memory (trainer.h), and runs zr_plan_check on its plan. */
#include "plan/cheap_kept.h"
#include "engine/layout_variants.h"
#include "support/long.h"
#include "base/number/exact.h"

#include <math.h>

/* Return the number of parts into which the layout variants are divided: three runs with one micro-batch together cover
 * all variants at all stages, and so do three runs with several. */
static int shares(void)
{
#ifdef __SANITIZE_THREAD__
    return 11; /* the sanitizer is slow */
#else
    return is_long_run() ? 1 : 3;
#endif
}

/* Check that an evaluation between two steps gives the same value in every way; the trainer shows that it leaves no
 * trace. */
static zr_status evaluate(trainer *run, zr_engine *engine, zr_comm *comm)
{
    zr_batch batch = {.step = 9, .first_row = comm->rank * run->layout.batch};
    zr_exact sum = {0};
    ZR_TRY(zr_engine_eval(engine, &batch, trainer_batch, run, &sum));
    double value = zr__exact_value(&sum), *first = run->arg;
    if (comm->rank != 0) return ZR_OK;
    if (isnan(*first)) *first = value;
    ZR_CHECK(value == *first, ZR_ERR_INTERNAL, "an evaluation gave %.17g, wanted %.17g", value, *first);
    return ZR_OK;
}

static void check_run(trainer want)
{
    static int share;
    double value = NAN;
    want.after_first = evaluate;
    want.arg = &value;
    trainer_run(&want);
    assert_true(want.loss[0] > 0 && want.loss[2] < want.loss[0] + 1);
    layout_check(&want, share++ % shares(), shares());
}

static void check(int ranks, zr_dtype dtype, int64_t accum, double clip)
{
    check_run(layout_trainer(ranks, dtype, accum, clip));
}

static void test_one_rank(void **state)
{
    (void)state;
    check(1, ZR_F32, 1, 0);
    check(1, ZR_BF16, 1, 0.5);
    check(1, ZR_F16, 2, 0);
}

static void test_two_ranks(void **state)
{
    (void)state;
    check(2, ZR_F32, 2, 0.5);
    check(2, ZR_BF16, 1, 0);
    check(2, ZR_F16, 1, 0.5);
}

static void test_three_ranks(void **state)
{
    (void)state;
    trainer wide_wire = layout_trainer(3, ZR_BF16, 1, 0);
    wide_wire.layout.wire_dtype = ZR_F32;
    check_run(wide_wire);
    check(3, ZR_F32, 1, 0.5);
    check(3, ZR_F16, 1, 0);
}

static void test_four_ranks(void **state)
{
    (void)state;
    check(4, ZR_F32, 1, 0);
    check(4, ZR_BF16, 3, 0);
}

/* Check that keeping the results of cheap ops for the backward pass, instead of recomputing them, changes no bit. */
static void test_cheap_ops_kept(void **state)
{
    (void)state;
    static const zr_dtype type[] = {ZR_F32, ZR_BF16, ZR_F16};
    for (int d = 0; d < 3; d++) {
        trainer want = layout_trainer(1 + d % 2, type[d], 1, 0.5), got = want;
        zr_model model = zr_gpt2(&want.config), kept = cheap_kept(&model);
        trainer_run(&want);
        got.model = &kept;
        trainer_run(&got);
        layout_assert_same(&want, &got, "cheap ops kept");
        assert_true(want.planned.category_bytes[ZR_CATEGORY_ACT] < got.planned.category_bytes[ZR_CATEGORY_ACT]);
        layout_check(&got, d, 5);
    }
}

/* Check that sums in the other order are equal up to rounding, which shows that the tree leaves out no micro-batch. */
static void check_near_layout(const trainer *world)
{
    trainer layout = *world;
    layout.layout.rank_free_sums = false;
    trainer_run(&layout);
    for (int i = 0; i < layout.steps; i++) {
        assert_float_equal(world->loss[i], layout.loss[i], 1e-4 * layout.loss[i]);
        assert_float_equal(world->norm[i], layout.norm[i], 1e-3 * layout.norm[i]);
    }
}

/* Check `world` reproducibility: 1, 2, 4 and 8 ranks, with 8, 4, 2, 1 or 12, 6, 3 micro-batches a step, at every stage,
 * each with another layout variant, give the same bits. */
static void check_world(zr_dtype dtype, int64_t micro_batches, double clip)
{
    trainer want = {0};
    int turn = 0;
    for (int ranks = 1; ranks <= 8 && micro_batches % ranks == 0; ranks *= 2)
        for (int stage = 0; stage <= 3; stage++) {
            trainer got = layout_trainer(ranks, dtype, micro_batches / ranks, clip);
            got.layout.stage = stage;
            got.layout.rank_free_sums = true;
            got.layout.batch = 1;
            while (!layout_vary(&got, &layout_variants[turn++ % LAYOUT_VARIANTS])) continue;
            trainer_run(&got);
            if (want.steps == 0) want = got;
            layout_assert_same(&want, &got, "world");
        }
    check_near_layout(&want);
}

static void test_world(void **state)
{
    (void)state;
    check_world(ZR_F32, 8, 0.5);
    check_world(ZR_BF16, 8, 0);
    check_world(ZR_F16, 12, 0.5);
    check_world(ZR_F32, 7, 0);
    check_world(ZR_F32, 1, 0.5);
}

/* Check that the tree over eight leaves gives other bits than the sum in order, so that a comparison of bits would also
 * show a wrong tree. */
static void test_world_is_not_layout(void **state)
{
    (void)state;
    trainer layout = layout_trainer(1, ZR_F32, 8, 0), world = layout;
    world.layout.rank_free_sums = true;
    trainer_run(&layout);
    trainer_run(&world);
    assert_true(layout.weights != world.weights);
    assert_float_equal(layout.loss[2], world.loss[2], 1e-5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_rank),
        cmocka_unit_test(test_two_ranks),
        cmocka_unit_test(test_three_ranks),
        cmocka_unit_test(test_four_ranks),
        cmocka_unit_test(test_cheap_ops_kept),
        cmocka_unit_test(test_world),
        cmocka_unit_test(test_world_is_not_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
