//TEST timeout=120 tsan=1
/* Squares of micro-gradients equal the norms of runs of single micro-batches, are the same at every stage and in every
 * layout, and change nothing else. */
#include "trainer.h"
#include "train/control/control.h"

#include <math.h>

static trainer noisy(int ranks, int64_t accum)
{
    trainer run = trainer_odd();
    run.steps = 2;
    run.layout.ranks = ranks;
    run.layout.accum = accum;
    run.layout.micro_squares = ranks * accum > 1;
    run.layout.reduce_bucket_elems = run.layout.gather_bucket_elems = 5000;
    return run;
}

static void assert_same_squares(const trainer *a, const trainer *b)
{
    for (int i = 0; i < a->steps; i++)
        if (!(a->micro[i] > 0) || memcmp(&a->micro[i], &b->micro[i], sizeof(double)))
            fail_msg("stage %d, %s, %d ranks, %lld micro-batches: step %d has %.17g, wanted %.17g", b->layout.stage,
                     b->layout.states == ZR_STATES_LEAN ? "lean" : "paper", b->layout.ranks, (long long)b->layout.accum,
                     i, b->micro[i], a->micro[i]);
}

static void assert_near(double a, double b, double share)
{
    if (!(fabs(a - b) <= share * fabs(b))) fail_msg("%.17g is not near %.17g", a, b);
}

/* ---- definition -------------------------------------------------------------------------------- */

/* Return a token of a row whose number is shifted by *arg, the first row of the micro-batch among all micro-batches. */
static int32_t shifted(void *arg, int64_t step, int64_t row, int64_t t)
{
    trainer plain = trainer_odd();
    return trainer_token(&plain, step, row + *(const int64_t *)arg, t);
}

/* Return the mean of the squared gradient norms of all micro-batches, each run alone on one rank with the same weights.
 * The initial gradients of the losses differ by a power of two, so the gradients have the same bits up to that factor.
 */
static double by_hand(const trainer *all)
{
    const int64_t n = all->layout.ranks * all->layout.accum;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t first = i * all->layout.batch;
        trainer one = *all;
        one.layout.ranks = 1;
        one.layout.accum = 1;
        one.layout.micro_squares = false;
        one.layout.stage = 0;
        one.token = shifted;
        one.token_arg = &first;
        one.steps = 1;
        trainer_run(&one);
        sum += one.norm[0] * one.norm[0];
    }
    return sum / (double)n;
}

static void test_by_hand(void **state)
{
    (void)state;
    const int cut[][2] = {{4, 1}, {2, 2}, {1, 4}, {2, 4}}; /* ranks, micro-batches */
    const zr_dtype dtype[] = {ZR_F32, ZR_BF16};
    for (int d = 0; d < 2; d++)
        for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
            trainer run = noisy(cut[i][0], cut[i][1]);
            run.layout.stage = (int)i;
            run.layout.dtype = run.layout.wire_dtype = dtype[d];
            run.steps = 1;
            trainer_run(&run);
            assert_near(run.micro[0], by_hand(&run), 1e-12);
            assert_true(run.micro[0] > run.norm[0] * run.norm[0]); /* the mean's norm is smaller */
        }
}

/* Check that the same micro-batches give the same squares, whether several ranks or several rounds compute them. */
static void test_ranks_or_rounds(void **state)
{
    (void)state;
    trainer ranks = noisy(4, 1), rounds = noisy(1, 4);
    trainer_run(&ranks);
    trainer_run(&rounds);
    assert_near(ranks.micro[0], rounds.micro[0], 1e-12);
    assert_near(ranks.micro[1], rounds.micro[1],
                1e-4); /* the second step follows an update whose gradient was summed in another order */
}

/* ---- independence of the layout ---------------------------------------------------------------- */

/* Check that the squares are the same at every stage, lean and paper, with and without a second pass. Without squares,
 * a run has the same losses, norms and weights, and receives one exact sum less from each other rank. */
static void test_stages(void **state)
{
    (void)state;
    for (int64_t accum = 1; accum <= 3; accum += 2)
        for (int bf16 = 0; bf16 <= 1; bf16++) {
            trainer first = noisy(3, accum);
            if (bf16) first.layout.dtype = first.layout.wire_dtype = ZR_BF16;
            first.layout.norm_first = true;
            trainer_run(&first);
            for (int way = 0; way < 12; way++) {
                trainer other = first, off;
                other.layout.stage = way % 4;
                other.layout.states = way >= 4 ? ZR_STATES_LEAN : ZR_STATES_PAPER;
                other.layout.two_pass = way >= 8;
                if (other.layout.two_pass && accum > 1) continue;
                off = other;
                off.layout.micro_squares = false;
                trainer_run(&other);
                trainer_run(&off);
                assert_same_squares(&first, &other);
                assert_memory_equal(off.loss, other.loss, sizeof off.loss);
                assert_memory_equal(off.norm, other.norm, sizeof off.norm);
                assert_int_equal(off.weights, other.weights);
                assert_true(off.micro[0] == 0);
                for (int k = 0; k < ZR_TRAFFIC_KINDS; k++)
                    assert_int_equal(other.traffic.bytes[k] - off.traffic.bytes[k],
                                     k == ZR_TRAFFIC_ALL_REDUCE ? 2 * 8 * ZR_EXACT_LIMBS : 0);
                assert_true(other.planned.total_bytes <= 1.01 * off.planned.total_bytes);
            }
        }
}

/* Check that the squares are right where a gradient is freed by its update, long before the norm is known. */
static void test_consumed(void **state)
{
    (void)state;
    trainer kept = noisy(2, 1);
    kept.clip = 0;
    trainer_run(&kept);
    for (int stage = 0; stage <= 3; stage++) {
        trainer consumed = kept;
        consumed.layout.stage = stage;
        consumed.layout.states = ZR_STATES_LEAN;
        trainer_run(&consumed);
        assert_same_squares(&kept, &consumed);
    }
}

/* Check that the squares are the same with groups of ranks and with every other way to sum. */
static void test_groups(void **state)
{
    (void)state;
    trainer flat = noisy(4, 2);
    trainer_run(&flat);
    for (int way = 0; way < 5; way++) {
        trainer other = flat;
        other.layout.stage = way == 4 ? 3 : way;
        if (way == 0) other.layout.reduce = ZR_REDUCE_ALL_REDUCE;
        if (way == 3) other.layout.shard_ranks = 2;
        if (way == 4) {
            other.layout.host_ranks = 2;
            other.layout.hierarchical = true;
        }
        trainer_run(&other);
        assert_same_squares(&flat, &other);
    }
}

/* Check that with tensor parallelism, parameters that each rank has whole count once, also with sharded tokens. */
static void test_shared_layers(void **state)
{
    (void)state;
    trainer whole = noisy(2, 1);
    whole.config.n_embd = 64;
    whole.config.n_head = 4;
    whole.config.vocab_size = 132;
    whole.config.n_positions = 18;
    whole.layout.seq = 16;
    trainer_run(&whole);
    for (int way = 0; way < 4; way++) {
        trainer cut = whole;
        cut.layout.tensor = 2;
        cut.layout.stage = way;
        cut.layout.sequence = way == 3 ? ZR_SEQUENCE_KEEP : ZR_SEQUENCE_OFF;
        trainer_run(&cut);
        for (int i = 0; i < cut.steps; i++) assert_near(cut.micro[i], whole.micro[i], 1e-4);
    }
}

/* Check that with sums independent of the number of ranks, the squares are too. */
static void test_any_ranks(void **state)
{
    (void)state;
    trainer one = noisy(1, 4);
    one.layout.rank_free_sums = true;
    trainer_run(&one);
    assert_near(one.micro[0], by_hand(&one), 1e-12);
    for (int ranks = 2; ranks <= 4; ranks *= 2) {
        trainer other = one;
        other.layout.ranks = ranks;
        other.layout.accum = 4 / ranks;
        other.layout.stage = ranks - 1;
        trainer_run(&other);
        assert_same_squares(&one, &other);
        assert_int_equal(other.weights, one.weights);
    }
}

/* ---- scales and exclusions --------------------------------------------------------------------- */

/* Check that the squares do not include a loss scale or clipping. */
static void test_scale_and_clipping(void **state)
{
    (void)state;
    trainer plain = noisy(2, 2);
    plain.layout.norm_first = true;
    plain.steps = 1;
    trainer_run(&plain);
    trainer scaled = plain;
    scaled.scaler = (zr__loss_scaler){.scale = 1024};
    scaled.clip = 1e-3;
    trainer_run(&scaled);
    assert_same_squares(&plain, &scaled);
}

/* Check that a single micro-batch a step is refused, because its gradient is the mean itself. */
static void test_one_is_refused(void **state)
{
    (void)state;
    zr_plan *plan = NULL;
    trainer run = noisy(1, 1);
    zr_model model = trainer_model(&run);
    const zr_profile profile = {.facts = {.name = "test", .threads = 1, .scratch_bytes = zr_device_cpu_scratch}};
    run.layout.micro_squares = true;
    assert_int_equal(zr_plan_create(&model, &run.layout, &profile, &plan), ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "at least two micro-batches"));
    assert_null(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),        cmocka_unit_test(test_ranks_or_rounds),
        cmocka_unit_test(test_stages),         cmocka_unit_test(test_consumed),
        cmocka_unit_test(test_groups),         cmocka_unit_test(test_shared_layers),
        cmocka_unit_test(test_any_ranks),      cmocka_unit_test(test_scale_and_clipping),
        cmocka_unit_test(test_one_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
