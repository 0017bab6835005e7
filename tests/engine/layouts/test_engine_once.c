//TEST timeout=120 tsan=1
/* Gradients reduced once a step (zr_layout.reduce_once) are added up over micro-batches on each rank, then over ranks.
 * All layouts and groups give the same bits at every stage; a single rank has the sums of a reduction after every
 * micro-batch; the bytes are one reduction's, in fp32. */
#include "engine/layout_variants.h"

#include <math.h>

static trainer once(int ranks, zr_dtype dtype, int64_t accum)
{
    trainer run = layout_trainer(ranks, dtype, accum, 0.5);
    run.layout.reduce_once = true;
    return run;
}

static void all_layouts(void **state)
{
    (void)state;
    static const struct {
        int ranks;
        zr_dtype dtype;
        int64_t accum;
    } runs[] = {{2, ZR_F32, 2}, {3, ZR_BF16, 3}, {4, ZR_F16, 2}};
    for (int i = 0; i < 3; i++) {
        trainer want = once(runs[i].ranks, runs[i].dtype, runs[i].accum);
        trainer_run(&want);
        layout_check(&want, i, 3);
    }
}

static void groups(void **state)
{
    (void)state;
    trainer flat = once(4, ZR_BF16, 2);
    trainer_run(&flat);
    for (int way = 0; way < 6; way++) {
        trainer run = flat;
        run.layout.stage = way < 3 ? way : 3;
        run.layout.host_ranks = 2;
        run.layout.hierarchical = way % 2 == 0;
        run.layout.shard_ranks = way == 2 || way == 3 ? 2 : 0;
        run.layout.hpz_ranks = way == 4 ? 2 : 0;
        trainer_run(&run);
        layout_assert_same(&flat, &run, "groups");
    }
}

static void shared_layers(void **state)
{
    (void)state;
    trainer want = once(2, ZR_F32, 2);
    want.config.n_head = 2;
    want.config.n_embd = 24;
    want.layout.tensor = 2;
    want.layout.batch = 2;
    trainer_run(&want);
    for (int stage = 1; stage <= 3; stage++) {
        trainer run = want;
        run.layout.stage = stage;
        trainer_run(&run);
        layout_assert_same(&want, &run, "ranks that share layers");
    }
}

/* Check that the results equal the results of a reduction after every micro-batch, up to the order of sums. */
static void near_the_other(void **state)
{
    (void)state;
    trainer want = layout_trainer(2, ZR_F32, 4, 0.5), got = once(2, ZR_F32, 4), one = once(1, ZR_F32, 4), alone = one;
    trainer_run(&want);
    trainer_run(&got);
    for (int i = 0; i < want.steps; i++) assert_true(fabs(got.loss[i] - want.loss[i]) <= 1e-5 * want.loss[i]);
    assert_true(fabs(got.norm[0] - want.norm[0]) <= 1e-5 * want.norm[0]);
    assert_true(got.weights != want.weights);
    alone.layout.reduce_once = false;
    trainer_run(&one);
    trainer_run(&alone);
    layout_assert_same(&alone, &one, "a rank alone");
}

/* Check that the squares of micro-gradients equal the squares with a reduction after every micro-batch. */
static void micro_squares(void **state)
{
    (void)state;
    trainer want = layout_trainer(2, ZR_F32, 2, 0.5);
    want.layout.micro_squares = true;
    want.steps = 1;
    trainer got = want;
    got.layout.reduce_once = true;
    got.layout.stage = 2;
    trainer_run(&want);
    trainer_run(&got);
    assert_true(want.micro[0] > 0 && got.micro[0] == want.micro[0]);
}

/* Check that each rank receives (N - 1) / N of the Psi elements from the others, in fp32, for any number of
 * micro-batches. */
static void traffic(void **state)
{
    (void)state;
    int64_t before = 0;
    for (int64_t accum = 2; accum <= 8; accum *= 2) {
        trainer run = once(4, ZR_BF16, accum);
        run.steps = 1;
        trainer_run(&run);
        const int64_t bytes = run.traffic.bytes[ZR_TRAFFIC_REDUCE_SCATTER];
        assert_true(before == 0 || bytes == before);
        assert_int_equal(bytes % (3 * 4 * ZR_SHARD_ALIGN), 0);
        trainer other = run;
        other.layout.reduce_once = false;
        trainer_run(&other);
        assert_int_equal(2 * other.traffic.bytes[ZR_TRAFFIC_REDUCE_SCATTER], bytes * accum); /* in bf16 */
        before = bytes;
    }
}

static void refused(void **state)
{
    (void)state;
    trainer run = once(2, ZR_F32, 2);
    run.layout.rank_free_sums = true;
    assert_int_equal(zr_comm_threads_run(2, trainer_rank, &run), ZR_ERR_UNSUPPORTED);
    assert_non_null(strstr(zr_error_message(), "once a step"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_layouts),    cmocka_unit_test(groups),        cmocka_unit_test(shared_layers),
        cmocka_unit_test(near_the_other), cmocka_unit_test(micro_squares), cmocka_unit_test(traffic),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
