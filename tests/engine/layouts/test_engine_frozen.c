//TEST timeout=200 tsan=1
/* Frozen parameters keep their bits and do not change the bits of others: at every stage, in every way to keep, move
 * and recompute, in every number type, on 1 to 4 ranks, in groups and with tensor parallelism. The trained parameters
 * get exactly the gradient that they get where all are trained. Each run compares planned with measured memory and runs
 * zr_plan_check on its plan. */
#include "engine/layout_variants.h"

#ifdef __SANITIZE_THREAD__
enum { SHARES = 11 };
#else
enum { SHARES = 3 };
#endif

/* The tied table, norms of all blocks, one whole block and part of another; the lower half; all but the last norm. */
static const char *const patterns[] = {
    "wte.*\n*.ln_[12].*\nh.2.*\nh.1.mlp.c_fc.weight",
    "wpe.*\ntransformer.wte.weight\nh.[01].*",
    "w?e.*\nh.*",
};
enum { PATTERNS = sizeof patterns / sizeof *patterns };

/* Hashes of weights by parameter, which is identified by its first element in the whole model: freezing does not change
 * it. */
enum { PARAMS = 64 };
typedef struct weights {
    int64_t first[PARAMS];
    uint64_t hash[PARAMS];
    bool frozen[PARAMS];
    int n;
} weights;

static zr_status hash_param(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    weights *w = arg;
    int i = 0;
    while (i < w->n && w->first[i] != param->first) i++;
    w->n += i == w->n;
    w->first[i] = param->first;
    w->frozen[i] = param->frozen;
    return trainer_hash(&w->hash[i], param, first, n, in);
}

/* Hash all weights, on a single rank, which has them. */
static zr_status keep_weights(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)comm;
    return zr_engine_read(engine, ZR_STATE_PARAM, hash_param, run->arg);
}

static uint64_t hash_of(const weights *w, int64_t first)
{
    int i = 0;
    while (i < w->n && w->first[i] != first) i++;
    assert_true(i < w->n);
    return w->hash[i];
}

/* Check one step without clipping: frozen parameters are unchanged, trained ones have moved exactly as if all were
 * trained. */
static void check_one_step(zr_dtype dtype, const char *frozen)
{
    trainer run = layout_trainer(1, dtype, 1, 0);
    zr_model model = zr_gpt2(&run.config);
    weights before = {0}, all = {0}, some = {0};
    int n_frozen = 0;
    run.model = &model;
    run.after = keep_weights;
    run.steps = 0;
    run.arg = &before;
    model.frozen = frozen;
    trainer_run(&run);
    run.steps = 1;
    run.arg = &some;
    trainer_run(&run);
    run.arg = &all;
    model.frozen = NULL;
    trainer_run(&run);
    for (int k = 0; k < some.n; k++) {
        const uint64_t was = hash_of(&before, some.first[k]), as = hash_of(&all, some.first[k]);
        if (some.hash[k] != (some.frozen[k] ? was : as))
            fail_msg("%s, %s: parameter %d", zr_dtype_name(dtype), frozen, k);
        if (!some.frozen[k] && some.hash[k] == was)
            fail_msg("%s, %s: parameter %d has not moved", zr_dtype_name(dtype), frozen, k);
        n_frozen += some.frozen[k];
    }
    assert_true(some.n == all.n && n_frozen > 0 && n_frozen < some.n);
}

static void test_one_step(void **state)
{
    (void)state;
    for (int p = 0; p < PATTERNS; p++) {
        check_one_step(ZR_F32, patterns[p]);
        check_one_step(ZR_BF16, patterns[p]);
    }
    check_one_step(ZR_F16, patterns[0]);
}

/* ---- the same bits in every way ---------------------------------------------------------------- */

/* The hash of the frozen parameters over all ranks, set at the first check. */
typedef struct still {
    uint64_t hash;
    bool known;
} still;

static zr_status hash_frozen(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    return param->frozen ? trainer_hash(arg, param, first, n, in) : ZR_OK;
}

static zr_status check_still(trainer *run, zr_engine *engine, zr_comm *comm)
{
    uint64_t hash = 0, total = 0;
    double part[4], all[4 * 16];
    still *s = run->arg;
    ZR_TRY(zr_engine_read(engine, ZR_STATE_PARAM, hash_frozen, &hash));
    for (int k = 0; k < 4; k++) part[k] = (double)(hash >> 16 * k & 0xffff);
    ZR_TRY(zr_comm_scalars(comm, part, 4, all));
    for (int r = 0; r < comm->size; r++)
        for (int k = 0; k < 4; k++) total += (uint64_t)all[4 * r + k] << 16 * k;
    if (comm->rank != 0) return ZR_OK;
    if (!s->known) *s = (still){total, true};
    ZR_CHECK(s->hash == total && total != 0, ZR_ERR_INTERNAL, "frozen parameters have moved");
    return ZR_OK;
}

/* Run and check the frozen parameters before any step, after the first, and at the end. */
static void run_still(trainer *run)
{
    trainer start = *run;
    start.steps = 0;
    start.after = run->after = run->after_first = check_still;
    trainer_run(&start);
    trainer_run(run);
    assert_true(run->loss[run->steps - 1] > 0);
}

static void check(int ranks, zr_dtype dtype, int64_t accum, double clip, int pattern)
{
    static int share;
    trainer want = layout_trainer(ranks, dtype, accum, clip);
    zr_model model = zr_gpt2(&want.config);
    still all = {0};
    model.frozen = patterns[pattern];
    want.model = &model;
    want.arg = &all;
    run_still(&want);
    layout_check(&want, share++ % SHARES, SHARES);
}

static void test_one_rank(void **state)
{
    (void)state;
    check(1, ZR_F32, 1, 0, 0);
    check(1, ZR_BF16, 1, 0.5, 1);
    check(1, ZR_F16, 2, 0, 0);
}

static void test_two_ranks(void **state)
{
    (void)state;
    check(2, ZR_F32, 2, 0.5, 0);
    check(2, ZR_BF16, 1, 0, 1);
    check(2, ZR_F16, 1, 0.5, 2);
}

static void test_more_ranks(void **state)
{
    (void)state;
    check(3, ZR_BF16, 1, 0, 0);
    check(4, ZR_BF16, 3, 0.5, 1);
    check(4, ZR_F32, 1, 0, 0);
}

/* Check frozen parameters with groups: states sharded over two ranks and replicated, hierarchical collectives, a
 * secondary partition. */
static void test_groups(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++)
        for (int way = 0; way < 3; way++) {
            trainer run = layout_trainer(4, way == 1 ? ZR_F32 : ZR_BF16, 1 + stage % 2, 0.5);
            zr_model model = zr_gpt2(&run.config);
            still all = {0};
            model.frozen = patterns[0];
            run.model = &model;
            run.arg = &all;
            run.layout.stage = stage;
            run.layout.micro_squares = true;
            trainer flat = run;
            run_still(&flat);
            run.layout.host_ranks = 2;
            run.layout.shard_ranks = way == 0 ? 2 : 0;
            run.layout.hierarchical = way == 1;
            run.layout.hpz_ranks = way == 2 && stage == 3 ? 2 : 0;
            run_still(&run);
            layout_assert_same(&flat, &run, "groups");
        }
}

/* Check that frozen runs have the same bits on 1, 2 and 4 ranks. */
static void test_any_ranks(void **state)
{
    (void)state;
    trainer one = layout_trainer(1, ZR_F32, 4, 0.5);
    zr_model model = zr_gpt2(&one.config);
    still all = {0};
    model.frozen = patterns[1];
    one.model = &model;
    one.arg = &all;
    one.layout.rank_free_sums = true;
    run_still(&one);
    for (int ranks = 2; ranks <= 4; ranks *= 2) {
        trainer run = one;
        run.layout.ranks = ranks;
        run.layout.accum = 4 / ranks;
        run.layout.stage = ranks - 1;
        run_still(&run);
        layout_assert_same(&one, &run, "any ranks");
    }
}

/* Check that with two and three tensor-parallel ranks, sharding tokens between layers or not, every stage has the same
 * bits. */
static void test_tensor(void **state)
{
    (void)state;
    for (int sequence = 0; sequence <= 2; sequence++)
        for (int pattern = 0; pattern < PATTERNS; pattern++) {
            trainer want = layout_trainer(2, sequence == 1 ? ZR_BF16 : ZR_F32, 1, 0.5);
            zr_model model = zr_gpt2(&want.config);
            still all = {0};
            model.frozen = patterns[pattern];
            want.model = &model;
            want.arg = &all;
            want.config.n_embd = 24;
            want.config.n_head = 4;
            want.config.n_positions = want.layout.seq = 16;
            want.layout.tensor = 2;
            want.layout.sequence = (zr_sequence)sequence;
            run_still(&want);
            for (int stage = 1; stage <= 3; stage++) {
                trainer run = want;
                run.layout.stage = stage;
                run.layout.recompute = stage == 2 ? ZR_RECOMPUTE_UNIT : ZR_RECOMPUTE_SELECTIVE;
                run.layout.partition_checkpoints = stage == 2;
                run.layout.states = stage == 3 ? ZR_STATES_LEAN : ZR_STATES_PAPER;
                run_still(&run);
                layout_assert_same(&want, &run, "tensor");
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_step),   cmocka_unit_test(test_one_rank), cmocka_unit_test(test_two_ranks),
        cmocka_unit_test(test_more_ranks), cmocka_unit_test(test_groups),   cmocka_unit_test(test_any_ranks),
        cmocka_unit_test(test_tensor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
