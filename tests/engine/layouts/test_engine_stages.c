//TEST timeout=120 tsan=1
/* Losses, norms and final weights have the same bits at every stage, bucket size and prefetch, for equal ranks and
 * micro-batches. */
#include "engine/trainer.h"

static trainer variant(int stage, int ranks, int64_t accum, zr_dtype dtype, int64_t bucket)
{
    trainer run = trainer_odd();
    run.layout.stage = stage;
    run.layout.ranks = ranks;
    run.layout.accum = accum;
    run.layout.dtype = run.layout.wire_dtype = dtype;
    run.layout.reduce_bucket_elems = run.layout.gather_bucket_elems = bucket;
    return run;
}

static void assert_same(const trainer *a, const trainer *b)
{
    for (int i = 0; i < a->steps; i++)
        if (memcmp(&a->loss[i], &b->loss[i], sizeof(double)) || memcmp(&a->norm[i], &b->norm[i], sizeof(double)))
            fail_msg(
                "stage %d bucket %lld against stage %d, %d ranks, step %d: loss %.17g and %.17g, norm %.17g and %.17g",
                b->layout.stage, (long long)b->layout.reduce_bucket_elems, a->layout.stage, a->layout.ranks, i,
                a->loss[i], b->loss[i], a->norm[i], b->norm[i]);
    assert_int_equal(a->weights, b->weights);
}

static void test_stages(void **state)
{
    (void)state;
    const int ranks[] = {1, 2, 3, 6};
    for (size_t r = 0; r < sizeof ranks / sizeof *ranks; r++)
        for (int64_t accum = 1; accum <= 4; accum += 3)
            for (int bf16 = 0; bf16 <= 1; bf16++) {
                trainer first = variant(0, ranks[r], accum, bf16 ? ZR_BF16 : ZR_F32, ZR_DEFAULT_BUCKET_ELEMS);
                trainer_run(&first);
                for (int stage = 1; stage <= 3; stage++) {
                    trainer other = first;
                    other.layout.stage = stage;
                    trainer_run(&other);
                    assert_same(&first, &other);
                }
            }
}

static void test_buckets(void **state)
{
    (void)state;
    trainer first = variant(0, 2, 1, ZR_BF16, ZR_DEFAULT_BUCKET_ELEMS);
    first.steps = 2;
    trainer_run(&first);
    const int64_t buckets[] = {1, 1000, 1 << 30};
    for (int stage = 0; stage <= 3; stage++)
        for (int b = 0; b < 3; b++) {
            trainer other = variant(stage, 2, 1, ZR_BF16, buckets[b]);
            other.steps = 2;
            other.layout.prefetch_elems = b & 1;
            trainer_run(&other);
            assert_same(&first, &other);
        }
}

/* Check that with dropout the bits are the same too: the mask depends on the global row, not on the rank that computes
 * it. */
static void test_dropout(void **state)
{
    (void)state;
    trainer first = variant(0, 2, 2, ZR_F32, ZR_DEFAULT_BUCKET_ELEMS);
    first.config.embd_pdrop = first.config.resid_pdrop = first.config.attn_pdrop = 0.2;
    trainer_run(&first);
    for (int stage = 1; stage <= 3; stage++) {
        trainer other = first;
        other.layout.stage = stage;
        trainer_run(&other);
        assert_same(&first, &other);
    }
    trainer one =
        variant(0, 1, 1, ZR_F32, ZR_DEFAULT_BUCKET_ELEMS); /* the same global batch on one rank: equal up to rounding */
    one.config = first.config;
    one.layout.batch = 8;
    trainer_run(&one);
    for (int i = 0; i < one.steps; i++) assert_float_equal(one.loss[i], first.loss[i], 1e-5);
    trainer none = variant(0, 1, 1, ZR_F32, ZR_DEFAULT_BUCKET_ELEMS);
    none.layout.batch = 8;
    trainer_run(&none);
    assert_true(none.loss[3] != one.loss[3]);
}

/* Return a token of a batch that is the same in every step, so that its loss falls from any weights. */
static int32_t same_token(void *arg, int64_t step, int64_t row, int64_t t)
{
    (void)arg;
    (void)step;
    return (int32_t)((row * 31 + t * 7) % 61);
}

/* Check that layouts of one global batch agree up to rounding. */
static void test_layouts_agree(void **state)
{
    (void)state;
    trainer one = variant(0, 1, 1, ZR_F32, ZR_DEFAULT_BUCKET_ELEMS);
    one.token = same_token;
    one.layout.batch = 12;
    trainer_run(&one);
    assert_true(one.loss[3] < one.loss[0]);
    const int64_t cut[][3] = {{1, 3, 4}, {2, 1, 6}, {2, 3, 2},
                              {3, 2, 2}, {6, 2, 1}, {4, 1, 3}}; /* ranks, accum, batch */
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        trainer other = variant((int)i % 4, (int)cut[i][0], cut[i][1], ZR_F32, 1000);
        other.token = same_token;
        other.layout.batch = cut[i][2];
        trainer_run(&other);
        for (int s = 0; s < one.steps; s++) {
            assert_float_equal(other.loss[s], one.loss[s], 2e-5 * one.loss[s]);
            assert_float_equal(other.norm[s], one.norm[s], 1e-4 * one.norm[s]);
        }
    }
}

/* Check that two runs have the same bits, also with several compute threads. */
static void test_repeats(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 3; threads += 2) {
        trainer a = variant(3, 2, 2, ZR_BF16, 1000), b;
        a.threads = threads;
        b = a;
        trainer_run(&a);
        trainer_run(&b);
        assert_same(&a, &b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages),        cmocka_unit_test(test_buckets), cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_layouts_agree), cmocka_unit_test(test_repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
