//TEST timeout=200 tsan=1 long=more
/* Orders of micro-batches (zr_layout.accum_order): losses, norms, squares of micro-gradients and weights have the bits
 * of one micro-batch after the other, in every layout. In the layer-major order each unit is gathered twice a training
 * step. With n forward passes ahead, checkpoints are stored for n micro-batches. Each run also compares planned with
 * measured memory and traffic (trainer.h), and runs zr_plan_check on its plan. */
#include "engine/layout_variants.h"
#include "support/long.h"

#include <string.h>

/* Return `run` with another order: layer-major, or two forward passes ahead. */
static trainer with_order(const trainer *run, zr_accum_order order)
{
    trainer other = *run;
    other.layout.accum_order = order;
    other.layout.accum_ahead = 2;
    return other;
}

static void all_layouts(void **state)
{
    (void)state;
    static const struct {
        int ranks;
        zr_dtype dtype;
        int64_t accum;
        double clip;
        bool once, world, lanes;
    } runs[] = {{1, ZR_F32, 3, 0.5, 0, 0, 0},  {2, ZR_F32, 2, 0, 0, 0, 1},   {3, ZR_BF16, 3, 0.5, 0, 0, 0},
                {4, ZR_F16, 2, 0, 0, 0, 0},    {2, ZR_F32, 5, 0.5, 0, 1, 0}, {4, ZR_BF16, 3, 0, 0, 1, 0},
                {2, ZR_BF16, 3, 0.5, 1, 0, 0}, {3, ZR_F32, 2, 0, 1, 0, 0}};
    const int shares = is_long_run() ? 1 : 12;
    for (int i = 0; i < (int)(sizeof runs / sizeof *runs); i++) {
        trainer want = layout_trainer(runs[i].ranks, runs[i].dtype, runs[i].accum, runs[i].clip);
        want.layout.reduce_once = runs[i].once;
        want.layout.rank_free_sums = runs[i].world;
        want.lanes = runs[i].lanes;
        trainer_run(&want);
        for (int order = ZR_ACCUM_LAYER; order <= ZR_ACCUM_AHEAD; order++) {
            const trainer got = with_order(&want, (zr_accum_order)order);
            layout_check(&got, i + 5 * order, shares);
        }
    }
}

static void same(trainer want, const char *what)
{
    trainer_run(&want);
    for (int order = ZR_ACCUM_LAYER; order <= ZR_ACCUM_AHEAD; order++) {
        trainer got = with_order(&want, (zr_accum_order)order);
        trainer_run(&got);
        layout_assert_same(&want, &got, what);
        for (int i = 0; i < want.steps; i++) assert_true(want.micro[i] == got.micro[i]);
    }
}

/* Check that weights have one hash at every stage and in every order, on one rank and on two, with dropout. */
static void stages(void **state)
{
    (void)state;
    enum { ACCUM = 5 };
    for (int ranks = 1; ranks <= 2; ranks++) {
        trainer want = layout_trainer(ranks, ZR_BF16, ACCUM, 0.5);
        assert_true(want.config.attn_pdrop > 0 && want.config.resid_pdrop > 0);
        want.layout.micro_squares = true;
        want.steps = 2;
        trainer_run(&want);
        for (int way = 0; way < 4 * (ACCUM + 1); way++) {
            trainer got = want;
            got.layout.stage = way % 4;
            got.layout.accum_order = way < 4 ? ZR_ACCUM_LAYER : ZR_ACCUM_AHEAD;
            got.layout.accum_ahead = 1 + way / 4; /* up to one more than there are micro-batches */
            trainer_run(&got);
            layout_assert_same(&want, &got, "order at a stage");
            for (int i = 0; i < want.steps; i++) assert_true(want.micro[i] == got.micro[i]);
        }
    }
}

/* Check groups of ranks, the baselines' collectives, and states in host memory. */
static void groups(void **state)
{
    (void)state;
    for (int way = 0; way < 8; way++) {
        trainer run = layout_trainer(4, way % 2 ? ZR_BF16 : ZR_F32, 2, 0.5);
        run.layout.stage = way < 3 ? way : 3;
        run.layout.host_ranks = way < 6 ? 2 : 0;
        run.layout.hierarchical = way % 2 == 0 && way < 6;
        run.layout.shard_ranks = way == 2 || way == 3 ? 2 : 0;
        run.layout.hpz_ranks = way == 4 || way == 5 ? 2 : 0;
        run.layout.states = way > 4 ? ZR_STATES_LEAN : ZR_STATES_PAPER;
        run.layout.home.optim = way % 2 ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
        run.layout.micro_squares = way != 1;
        run.layout.reduce_bucket_elems = run.layout.gather_bucket_elems = 700;
        run.layout.recompute = way % 3 ? ZR_RECOMPUTE_UNIT : ZR_RECOMPUTE_NONE;
        same(run, "groups");
    }
}

/* Check tensor parallelism, with all ways to keep activation checkpoints. */
static void shared_layers(void **state)
{
    (void)state;
    for (int way = 0; way < 6; way++) {
        trainer run = layout_trainer(1 + way % 2, way % 3 ? ZR_F32 : ZR_BF16, 3, 0.5);
        run.config.n_head = 2;
        run.config.n_embd = 24;
        run.layout.tensor = 2;
        run.layout.batch = 1;
        run.layout.stage = way % 4;
        run.layout.seq = 16;
        run.layout.sequence = (zr_sequence)(way % 3);
        run.layout.recompute = way % 2 ? ZR_RECOMPUTE_UNIT : ZR_RECOMPUTE_SELECTIVE;
        run.layout.partition_checkpoints = way > 1;
        run.layout.checkpoint_home = way > 2 ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
        run.layout.overlap = way % 2;
        run.layout.micro_squares = true;
        run.lanes = way == 5;
        same(run, "ranks that share layers");
    }
}

/* Fill a batch in which some targets do not count, a different number in each micro-batch. */
static zr_status some_targets(void *arg, const zr_batch *batch, void *const *input)
{
    const trainer *run = arg;
    ZR_TRY(trainer_batch(arg, batch, input));
    int32_t *targets = input[1];
    for (int64_t i = 0; i < run->layout.batch * run->layout.seq; i++)
        if ((batch->first_row * run->layout.seq + i) % (2 + batch->micro) == 0) targets[i] = -100;
    return ZR_OK;
}

static void targets_that_do_not_count(void **state)
{
    (void)state;
    trainer run = layout_trainer(2, ZR_F32, 3, 0);
    run.batch = some_targets;
    run.layout.stage = 3;
    same(run, "targets that do not count");
}

/* Check that in the layer-major order at stage 3 gathers move the bytes of one micro-batch, however many micro-batches
 * a step has, and reductions the same bytes as in other orders. A unit's input is kept for each micro-batch, or for
 * each of those whose forward pass is ahead. */
static void traffic_and_memory(void **state)
{
    (void)state;
    for (int64_t accum = 2; accum <= 8; accum *= 2) {
        trainer run[3];
        for (int order = 0; order < 3; order++) {
            run[order] = layout_trainer(2, ZR_BF16, accum, 0.5);
            run[order].steps = 1;
            run[order].layout.accum_ahead = 3;
            run[order].layout.stage = 3;
            run[order].layout.states = accum == 4 ? ZR_STATES_LEAN : ZR_STATES_PAPER;
            run[order].layout.recompute = ZR_RECOMPUTE_UNIT;
            run[order].layout.accum_order = (zr_accum_order)order;
            trainer_run(&run[order]);
        }
        const int64_t *micro = run[0].traffic.bytes, *layer = run[1].traffic.bytes;
        assert_true(layer[ZR_TRAFFIC_ALL_GATHER] > 0);
        assert_int_equal(micro[ZR_TRAFFIC_ALL_GATHER], accum * layer[ZR_TRAFFIC_ALL_GATHER]);
        assert_int_equal(micro[ZR_TRAFFIC_REDUCE_SCATTER], layer[ZR_TRAFFIC_REDUCE_SCATTER]);
        assert_int_equal(run[0].measured.traffic.bytes[ZR_TRAFFIC_ALL_GATHER],
                         accum * run[1].measured.traffic.bytes[ZR_TRAFFIC_ALL_GATHER]);
        assert_int_equal(accum * run[0].planned.category_bytes[ZR_CATEGORY_CHECKPOINT],
                         run[1].planned.category_bytes[ZR_CATEGORY_CHECKPOINT]);
        assert_int_equal(run[0].planned.category_bytes[ZR_CATEGORY_PARAM],
                         run[1].planned.category_bytes[ZR_CATEGORY_PARAM]);
        assert_int_equal((accum < 3 ? accum : 3) * run[0].planned.category_bytes[ZR_CATEGORY_CHECKPOINT],
                         run[2].planned.category_bytes[ZR_CATEGORY_CHECKPOINT]);
        assert_memory_equal(micro, run[2].traffic.bytes, sizeof run[2].traffic.bytes);
    }
}

/* Check that states in host memory are copied once for each use of their unit: shards of parameters for each gather,
 * fp32 accumulators home once and back twice (for the norm and the update), whatever the number of micro-batches. A
 * single rank squares the accumulators before they are copied home. */
static void copies(void **state)
{
    (void)state;
    enum { ACCUM = 4 };
    for (int what = 0; what < 3; what++) {
        trainer run[2];
        for (int order = 0; order < 2; order++) {
            run[order] = layout_trainer(what < 2 ? 2 : 1, ZR_BF16, ACCUM, 0.5);
            run[order].steps = 1;
            run[order].layout.stage = 3;
            run[order].layout.accum_order = (zr_accum_order)order;
            *(what ? &run[order].layout.home.grad : &run[order].layout.home.param) = ZR_SPACE_HOST;
            trainer_run(&run[order]);
        }
        layout_assert_same(&run[0], &run[1], what ? "accumulators in host memory" : "parameters in host memory");
        int64_t(*micro)[ZR_SPACES] = run[0].measured.copied, (*layer)[ZR_SPACES] = run[1].measured.copied;
        const int64_t fetched = layer[ZR_SPACE_HOST][ZR_SPACE_DEVICE], stored = layer[ZR_SPACE_DEVICE][ZR_SPACE_HOST];
        assert_true(fetched > 0);
        if (what == 0) {
            /* the update also fetches the parameters that it writes */
            assert_int_equal(micro[ZR_SPACE_HOST][ZR_SPACE_DEVICE], ACCUM * (fetched - stored) + stored);
        } else {
            assert_int_equal(fetched, (what < 2 ? 2 : 1) * stored);
            assert_int_equal(micro[ZR_SPACE_DEVICE][ZR_SPACE_HOST], ACCUM * stored);
            assert_int_equal(micro[ZR_SPACE_HOST][ZR_SPACE_DEVICE], (ACCUM - 1 + 2) * stored);
        }
    }
}

/* Check that with one micro-batch the order has no effect on the plan; with too many, the schedule is refused. */
static void one_and_many(void **state)
{
    (void)state;
    trainer one = layout_trainer(2, ZR_F32, 1, 0);
    same(one, "one micro-batch");
    trainer many = layout_trainer(1, ZR_F32, 1 << 20, 0);
    many = with_order(&many, ZR_ACCUM_LAYER);
    assert_int_equal(zr_comm_threads_run(1, trainer_rank, &many), ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "use fewer micro-batches a step"));
    many = with_order(&many, ZR_ACCUM_AHEAD);
    many.layout.accum_ahead = 0;
    assert_int_equal(zr_comm_threads_run(1, trainer_rank, &many), ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "zr_layout.accum_ahead is 0, wanted at least 1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_layouts),        cmocka_unit_test(groups),
        cmocka_unit_test(shared_layers),      cmocka_unit_test(targets_that_do_not_count),
        cmocka_unit_test(traffic_and_memory), cmocka_unit_test(copies),
        cmocka_unit_test(one_and_many),       cmocka_unit_test(stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
