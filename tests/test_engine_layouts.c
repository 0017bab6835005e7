//TEST timeout=120
/* Every way to keep, move and compute again gives the same bits: recompute policies, layouts, buckets, gathers ahead,
 * thresholds and the papers' baselines, at every stage, in every number type, on 1 to 4 ranks, with dropout. Each run
 * also holds planned against measured (trainer.h), and its plan against the independent proof. */
#include "trainer.h"

static trainer deep(int ranks, int stage, zr_dtype dtype, int64_t accum, double clip)
{
    trainer run = trainer_odd();
    run.config.n_layer = 5;
    run.config.embd_pdrop = run.config.resid_pdrop = run.config.attn_pdrop = 0.1;
    run.steps = 3;
    run.clip = clip;
    run.layout.ranks = ranks;
    run.layout.stage = stage;
    run.layout.dtype = run.layout.wire_dtype = dtype;
    run.layout.accum = accum;
    run.layout.norm_first = clip > 0;
    if (dtype == ZR_F16) run.scaler.scale = 4096; /* static */
    return run;
}

static void assert_same(const trainer *want, const trainer *got, const char *what)
{
    bool same = want->weights == got->weights;
    for (int i = 0; i < want->steps; i++)
        same = same && want->loss[i] == got->loss[i] && want->norm[i] == got->norm[i] && !got->skipped[i];
    if (!same)
        fail_msg("%s: stage %d, %d ranks, %s, %lld micro-batches, clip %g: loss %.9g %.9g %.9g, wanted %.9g %.9g %.9g",
                 what, got->layout.stage, got->layout.ranks, zr_dtype_name(got->layout.dtype),
                 (long long)got->layout.accum, got->clip, got->loss[0], got->loss[1], got->loss[2], want->loss[0],
                 want->loss[1], want->loss[2]);
}

/* What is varied beside the stage. */
typedef struct variant {
    const char *name;
    zr_layout set;
} variant;

#define SMALL .reduce_bucket_elems = 1000, .gather_bucket_elems = 500
#define WIDE .reduce_bucket_elems = 1 << 20, .gather_bucket_elems = 1 << 20
#define ANY_WAY .recompute_every = 1

static const variant variants[] = {
    {"paper", {WIDE, .prefetch_elems = 1, ANY_WAY}},
    {"lean", {SMALL, .states = ZR_STATES_LEAN, .prefetch_elems = 1, ANY_WAY}},
    {"paper, unit", {SMALL, .recompute = ZR_RECOMPUTE_UNIT, ANY_WAY}},
    {"lean, every 2 units", {WIDE, .states = ZR_STATES_LEAN, .recompute = ZR_RECOMPUTE_UNIT, .recompute_every = 2}},
    {"lean, every 4 units, far ahead",
     {SMALL, .states = ZR_STATES_LEAN, .recompute = ZR_RECOMPUTE_UNIT, .recompute_every = 4, .prefetch_elems = 100000,
      .live_elems = 150000}},
    {"paper, selective, reuse",
     {WIDE, .recompute = ZR_RECOMPUTE_SELECTIVE, .reuse_elems = 60000, .prefetch_elems = 1, ANY_WAY}},
    {"lean, auto, small units whole",
     {SMALL, .states = ZR_STATES_LEAN, .recompute = ZR_RECOMPUTE_AUTO, .limit_bytes = 1, .persist_elems = 1000, ANY_WAY}},
    {"all units whole", {WIDE, .persist_elems = 1 << 30, ANY_WAY}},
    {"fused buffer", {SMALL, .fused_buffer = true, .prefetch_elems = 1, ANY_WAY}},
    {"lean, fused, selective",
     {WIDE, .states = ZR_STATES_LEAN, .fused_buffer = true, .recompute = ZR_RECOMPUTE_SELECTIVE, ANY_WAY}},
    {"to the owners, by broadcasts", {SMALL, .reduce = ZR_REDUCE_TO_OWNER, .gather = ZR_GATHER_BROADCAST, ANY_WAY}},
    {"lean, to the owners, by broadcasts, unit",
     {WIDE, .states = ZR_STATES_LEAN, .reduce = ZR_REDUCE_TO_OWNER, .gather = ZR_GATHER_BROADCAST,
      .recompute = ZR_RECOMPUTE_UNIT, ANY_WAY}},
};
#define VARIANTS ((int)(sizeof variants / sizeof *variants))

static void vary(trainer *run, const variant *v)
{
    zr_layout l = v->set;
    const zr_layout *had = &run->layout;
    l.size = sizeof l;
    l.ranks = had->ranks;
    l.stage = had->stage;
    l.dtype = had->dtype;
    l.wire_dtype = had->wire_dtype;
    l.batch = had->batch;
    l.seq = had->seq;
    l.accum = had->accum;
    l.norm_first = had->norm_first;
    l.train = l.eval = true;
    l.optimizer = had->optimizer;
    run->layout = l;
}

static void check_all(int ranks, zr_dtype dtype, int64_t accum, double clip)
{
    trainer want = deep(ranks, 0, dtype, accum, clip);
    trainer_run(&want);
    assert_true(want.loss[2] < want.loss[0] + 1);
    for (int stage = 0; stage <= 3; stage++)
        for (int v = 0; v < VARIANTS; v++) {
            trainer got = deep(ranks, stage, dtype, accum, clip);
            vary(&got, &variants[v]);
            trainer_run(&got);
            assert_same(&want, &got, variants[v].name);
            if (got.layout.states != ZR_STATES_LEAN || accum > 1) continue;
            got.layout.two_pass = true;
            trainer_run(&got);
            assert_same(&want, &got, "two passes");
        }
    trainer got = deep(ranks, 1, dtype, accum, clip);
    got.layout.reduce = ZR_REDUCE_ALL_REDUCE;
    if (accum == 1) {
        trainer_run(&got);
        assert_same(&want, &got, "all-reduce");
    }
}

static void test_one_rank(void **state)
{
    (void)state;
    check_all(1, ZR_F32, 1, 0);
    check_all(1, ZR_BF16, 1, 0.5);
    check_all(1, ZR_F16, 2, 0);
}

static void test_two_ranks(void **state)
{
    (void)state;
    check_all(2, ZR_F32, 2, 0.5);
    check_all(2, ZR_BF16, 1, 0);
    check_all(2, ZR_F16, 1, 0.5);
}

static void test_three_ranks(void **state)
{
    (void)state;
    check_all(3, ZR_F32, 1, 0.5);
    check_all(3, ZR_F16, 1, 0);
}

static void test_four_ranks(void **state)
{
    (void)state;
    check_all(4, ZR_BF16, 3, 0);
    check_all(4, ZR_F32, 1, 0);
}

/* `world`: 1, 2, 4 and 8 ranks, with 8, 4, 2, 1 or 12, 6, 3 micro-batches a step, at every stage and in both layouts. */
static void check_world(zr_dtype dtype, int64_t micro_batches, double clip)
{
    trainer want = {0};
    for (int ranks = 1; ranks <= 8 && micro_batches % ranks == 0; ranks *= 2)
        for (int stage = 0; stage <= 3; stage++) {
            trainer got = deep(ranks, stage, dtype, micro_batches / ranks, clip);
            got.layout.world = true;
            got.layout.batch = 1;
            got.layout.states = stage % 2 ? ZR_STATES_LEAN : ZR_STATES_PAPER;
            got.layout.recompute = ranks % 2 ? ZR_RECOMPUTE_NONE : ZR_RECOMPUTE_UNIT;
            trainer_run(&got);
            if (want.steps == 0) want = got;
            assert_same(&want, &got, "world");
        }
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

/* The tree over seven leaves is not the sum in order: were it another tree, some bits would differ. */
static void test_world_is_not_layout(void **state)
{
    (void)state;
    trainer layout = deep(1, 0, ZR_F32, 8, 0), world = layout;
    world.layout.world = true;
    trainer_run(&layout);
    trainer_run(&world);
    assert_true(layout.weights != world.weights);
    assert_float_equal(layout.loss[2], world.loss[2], 1e-5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_rank),   cmocka_unit_test(test_two_ranks), cmocka_unit_test(test_three_ranks),
        cmocka_unit_test(test_four_ranks), cmocka_unit_test(test_world),     cmocka_unit_test(test_world_is_not_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
