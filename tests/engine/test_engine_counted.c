//TEST timeout=60 tsan=1
/* Steps in which some targets do not count: loss and gradient are means over only the targets that count, in all ranks
 * and micro-batches together. */
#include "engine_truth.h"
#include "layout_variants.h"

#include <math.h>

/* The targets that a step leaves out. */
static enum {
    THIRDS,      /* a random two of three, and all of the second row */
    LATER_ROWS,  /* all rows except the first */
    SECOND_STEP, /* THIRDS, and in the second step all targets */
} left_out;

static bool is_out(int64_t step, int64_t row, int64_t t)
{
    const zr_rng rng = {.seed = 11, .purpose = ZR_RNG_SHUFFLE, .stream = 98, .step = (uint32_t)step};
    if (left_out == LATER_ROWS) return row > 0;
    if (row == 1 || (left_out == SECOND_STEP && step == 1)) return true;
    return zr_rng_u32(&rng, (uint64_t)(row * 1000 + t)) % 3 != 0;
}

/* Fill a batch with pseudo-random tokens, some of whose targets are -1. */
static zr_status some_targets(void *arg, const zr_batch *batch, void *const *input)
{
    const trainer *run = arg;
    const int64_t seq = run->layout.seq;
    int32_t *targets = input[1];
    ZR_TRY(trainer_batch(arg, batch, input));
    for (int64_t i = 0; i < run->layout.batch * seq; i++)
        if (is_out(batch->step, batch->first_row + i / seq, i % seq)) {
            targets[i] = -1;
            --*batch->counted;
        }
    return ZR_OK;
}

/* Fill a batch with targets that do not count, but leave its number of losses as it is. */
static zr_status untold_targets(void *arg, const zr_batch *batch, void *const *input)
{
    zr_batch untold = *batch;
    int64_t counted = 0;
    untold.counted = &counted;
    return some_targets(arg, &untold, input);
}

static trainer counting(int ranks, int64_t accum)
{
    trainer run = layout_trainer(ranks, ZR_F32, accum, 0);
    left_out = THIRDS;
    run.batch = some_targets;
    run.lanes = ranks == 2; /* one thread counts, and the other exchanges the number */
    return run;
}

/* ---- the mean over the targets that count ------------------------------------------------------- */

/* Check that loss, norm and gradients of a step are right however its rows are divided, also where a rank or a
 * micro-batch has no target at all. */
static void test_truth(void **state)
{
    (void)state;
    static const truth_cut cut[] = {{1, 1, 6}, {1, 3, 2}, {2, 1, 3}, {3, 1, 2}, {3, 2, 1}};
    trainer run = trainer_odd();
    left_out = THIRDS;
    run.batch = some_targets;
    run.steps = 1;
    truth_check_cuts(&run, cut, sizeof cut / sizeof *cut);
    assert_in_range(run.counted[0], 1, 5 * run.layout.seq);
    run.layout.reduce_once = true;
    truth_check_cuts(&run, cut + 1, 1);
    truth_check_cuts(&run, cut + 4, 1);
}

/* Run the rows of `alone`, padded to n micro-batches with rows that do not count. Check that all bits are the same:
 * since n is a power of two, no factor rounds. */
static void check_with_empty_rows(const trainer *alone, int ranks, int64_t accum, int stage)
{
    const double n = ranks * (double)accum;
    trainer run = *alone;
    run.layout.ranks = ranks;
    run.layout.accum = accum;
    run.layout.stage = stage;
    run.layout.micro_squares = true;
    trainer_run(&run);
    layout_assert_same(alone, &run, "rows that do not count");
    assert_int_equal(run.counted[0], run.layout.seq);
    for (int i = 0; i < run.steps; i++)
        assert_float_equal(run.micro[i], n * run.norm[i] * run.norm[i], 1e-9 * run.micro[i]);
}

/* Check that rows that do not count change no bit of losses, norms and weights, with and without clipping. Norms are
 * summed exactly, since otherwise their last bit depends on the number of ranks. */
static void test_rows_without_targets(void **state)
{
    (void)state;
    const int cut[][2] = {{2, 1}, {4, 1}, {2, 2}, {1, 4}}; /* ranks, micro-batches */
    for (int way = 0; way < 8; way++) {
        trainer alone = counting(1, 1);
        left_out = LATER_ROWS;
        alone.layout.batch = 1;
        alone.layout.rank_free_sums = true;
        alone.layout.states = way & 1 ? ZR_STATES_LEAN : ZR_STATES_PAPER;
        alone.layout.norm_first = way & 2;
        alone.clip = way & 2 ? 0.5 : 0;
        if (way & 4) alone.layout.dtype = alone.layout.wire_dtype = ZR_BF16;
        trainer_run(&alone);
        assert_true(alone.norm[0] > 0.5); /* clipping has an effect */
        for (int i = 0; i < 4; i++) check_with_empty_rows(&alone, cut[i][0], cut[i][1], (way + i) % 4);
    }
}

/* ---- independence of the layout ----------------------------------------------------------------- */

static void test_layouts(void **state)
{
    (void)state;
    static const struct {
        int ranks;
        zr_dtype dtype;
        int64_t accum;
        double clip;
    } way[] = {{1, ZR_F32, 1, 0}, {2, ZR_F32, 2, 0.5}, {3, ZR_F32, 1, 0}, {2, ZR_BF16, 1, 0.5}, {2, ZR_F16, 1, 0}};
    trainer first = counting(1, 1);
    for (int i = 0; i < 5; i++) {
        trainer want = layout_trainer(way[i].ranks, way[i].dtype, way[i].accum, way[i].clip);
        want.batch = some_targets;
        trainer_run(&want);
        layout_check(&want, i, 7);
        if (i == 0) first = want;
    }
    trainer half = first; /* in fp16, with a loss scale that is no power of two */
    half.layout.dtype = half.layout.wire_dtype = ZR_F16;
    half.scaler.scale = 3000;
    trainer_run(&half);
    assert_float_equal(half.loss[2], first.loss[2], 1e-2 * first.loss[2]);
    assert_float_equal(half.norm[2], first.norm[2], 3e-2 * first.norm[2]);
}

/* Check that with reproducible "world", 1, 2 and 4 ranks give the same bits. */
static void test_any_ranks(void **state)
{
    (void)state;
    trainer one = counting(1, 4);
    one.layout.rank_free_sums = one.layout.micro_squares = true;
    trainer_run(&one);
    assert_true(one.counted[0] > 0 && one.counted[0] < 8 * one.layout.seq);
    for (int ranks = 2; ranks <= 4; ranks *= 2) {
        trainer run = one;
        run.layout.ranks = ranks;
        run.layout.accum = 4 / ranks;
        run.layout.stage = ranks - 1;
        trainer_run(&run);
        layout_assert_same(&one, &run, "more ranks");
        assert_memory_equal(one.counted, run.counted, sizeof one.counted);
        assert_memory_equal(one.micro, run.micro, sizeof one.micro);
    }
}

/* Check that tensor-parallel ranks have the same targets, which count once. */
static void test_shared_layers(void **state)
{
    (void)state;
    for (int rank_free = 0; rank_free <= 1; rank_free++)
        for (int lean = 0; lean <= 1; lean++) {
            trainer whole = counting(2, 1);
            whole.config.n_head = 4;
            whole.config.n_embd = 32;
            whole.config.embd_pdrop = whole.config.resid_pdrop = whole.config.attn_pdrop = 0;
            whole.layout.seq = 16;
            whole.layout.optimizer = zr_sgd(0, false, 0); /* unlike Adam's, SGD's steps are as long as the gradient */
            whole.lr = 0.5;
            whole.layout.rank_free_sums = rank_free;
            whole.layout.states = lean ? ZR_STATES_LEAN : ZR_STATES_PAPER;
            trainer_run(&whole);
            for (int tokens = 0; tokens <= 1; tokens++) {
                trainer run = whole;
                run.layout.tensor = 2;
                run.layout.sequence = tokens ? ZR_SEQUENCE_KEEP : ZR_SEQUENCE_OFF;
                trainer_run(&run);
                assert_memory_equal(run.counted, whole.counted, sizeof run.counted);
                for (int i = 0; i < run.steps; i++) {
                    assert_float_equal(run.loss[i], whole.loss[i], 1e-4 * whole.loss[i]);
                    assert_float_equal(run.norm[i], whole.norm[i], 1e-3 * whole.norm[i]);
                }
            }
        }
}

/* ---- the number that the batch callback gives --------------------------------------------------- */

static zr_status one_update(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)run;
    (void)comm;
    ZR_CHECK(zr_engine_updates(engine) == 1, ZR_ERR_INTERNAL, "%lld updates", (long long)zr_engine_updates(engine));
    return ZR_OK;
}

/* Check that a step without any target updates nothing, and does not count as an update. */
static void test_step_without_targets(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++)
        for (int way = 0; way < 8; way++) {
            trainer one = counting(ranks, way % 4 == 3 ? 2 : 1), two;
            left_out = SECOND_STEP;
            one.layout.states = way % 4 == 0 ? ZR_STATES_PAPER : ZR_STATES_LEAN;
            one.layout.norm_first = one.layout.two_pass = way % 4 == 2;
            one.layout.rank_free_sums = way >= 4 && way % 4 != 2;
            one.layout.stage = way % 4;
            one.steps = 1;
            one.after = one_update;
            two = one;
            two.steps = 2;
            trainer_run(&one);
            trainer_run(&two);
            assert_true(!two.skipped[0] && two.skipped[1]);
            assert_true(two.loss[1] == 0 && two.norm[1] == 0 && two.bad_param[1] == -1);
            assert_int_equal(two.counted[1], 0);
            assert_int_equal(one.weights, two.weights);
        }
}

/* Check that, if the callback does not set the number, the loss is the sum of losses divided by the number of all
 * targets. */
static void test_untold(void **state)
{
    (void)state;
    trainer told = counting(2, 1), untold;
    told.steps = 1;
    untold = told;
    untold.batch = untold_targets;
    trainer_run(&told);
    trainer_run(&untold);
    const double all = 4.0 * (double)told.layout.seq, share = (double)told.counted[0] / all;
    assert_true(untold.counted[0] == (int64_t)all && share < 0.5);
    assert_float_equal(untold.loss[0], told.loss[0] * share, 1e-9);
    assert_float_equal(untold.norm[0], told.norm[0] * share, 1e-9);
}

/* Check that a probe has the loss and the norm of the step that follows. */
static zr_status probe_second_step(trainer *run, zr_engine *engine, zr_comm *comm)
{
    const zr_step_args args = {.step = 1, .batch = some_targets, .arg = run};
    zr_step_result found = {0};
    ZR_TRY(zr__engine_probe(engine, &args, &found));
    if (comm->rank == 0) *(zr_step_result *)run->arg = found;
    return ZR_OK;
}

static void test_probe(void **state)
{
    (void)state;
    for (int lean = 0; lean <= 1; lean++) {
        zr_step_result found = {0};
        trainer run = counting(2, 1);
        run.layout.states = lean ? ZR_STATES_LEAN : ZR_STATES_PAPER;
        run.after_first = probe_second_step;
        run.arg = &found;
        trainer_run(&run);
        assert_true(found.loss == run.loss[1] && found.grad_norm == run.norm[1]);
        assert_int_equal(found.counted, run.counted[1]);
    }
}

/* Return, on the second rank, an impossible number of losses. */
static zr_status impossible(void *arg, const zr_batch *batch, void *const *input)
{
    const trainer *run = arg;
    ZR_TRY(trainer_batch(arg, batch, input));
    if (batch->first_row > 0) *batch->counted = *(const int64_t *)run->arg;
    return ZR_OK;
}

static void test_impossible_number(void **state)
{
    (void)state;
    const int64_t number[] = {-1, 2 * 17 + 1};
    for (int i = 0; i < 2; i++) {
        trainer run = counting(2, 1);
        int64_t given = number[i];
        run.batch = impossible;
        run.arg = &given;
        assert_int_equal(zr_comm_threads_run(2, trainer_rank, &run), ZR_ERR_ARG);
        assert_non_null(strstr(zr_error_message(), "must be 0 to 34"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_truth),
                                       cmocka_unit_test(test_rows_without_targets),
                                       cmocka_unit_test(test_layouts),
                                       cmocka_unit_test(test_any_ranks),
                                       cmocka_unit_test(test_shared_layers),
                                       cmocka_unit_test(test_step_without_targets),
                                       cmocka_unit_test(test_untold),
                                       cmocka_unit_test(test_probe),
                                       cmocka_unit_test(test_impossible_number)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
