//TEST timeout=200 tsan=1 long=more
/* Pipelines: losses, norms and weights have the bits of one pipeline rank, in every schedule and at every stage. Each
 * run also compares planned with measured memory and traffic on every rank (trainer.h). */
#include "engine/layout_variants.h"
#include "engine/terms_model.h"
#include "support/long.h"

#include <string.h>

/* In a short run each schedule has two of four stages on 2 and the other two on 3 ranks, and each table two stages. */
static void every_schedule(void **state)
{
    (void)state;
    for (int P = 2; P <= 3; P++)
        for (int stage = 0; stage <= 3; stage++) {
            trainer want = layout_trainer(stage % 2 + 1, stage == 1 ? ZR_F32 : ZR_BF16, 2 * P, 0.5);
            want.config.n_layer = 5;
            want.layout.stage = stage;
            want.steps = 2;
            trainer_run(&want);
            for (int s = 0; s <= ZR_PIPELINE_ZB_V; s++) {
                if (!is_long_run() && (s + stage + P) % 2) continue;
                const bool chunks = s == ZR_PIPELINE_INTERLEAVED || s == ZR_PIPELINE_BREADTH || s == ZR_PIPELINE_ZB_V;
                trainer got = want;
                got.layout.eval = false; /* it is not run here, and may need more gathered parameters */
                got.layout.pipeline = P;
                got.layout.chunks = chunks ? 2 : 1;
                got.layout.pipeline_schedule = (zr_pipe_schedule)s;
                got.layout.recompute = (s + stage) % 2 ? ZR_RECOMPUTE_UNIT : ZR_RECOMPUTE_NONE;
                trainer_run(&got);
                layout_assert_same(&want, &got, "a pipeline");
            }
        }
}

/* Check a table that is on two ranks, which the first trains: in every schedule, at every stage, with whole tables and
 * shards, and with evaluations, which read the copy. */
static void tied_apart(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        trainer want = layout_trainer(stage % 2 + 1, stage % 2 ? ZR_F32 : ZR_BF16, 6, 0.5);
        want.config.n_layer = 5;
        want.layout.stage = stage;
        want.steps = 3;
        trainer_run(&want);
        for (int s = 0; s < ZR_PIPELINE_ZB_V; s++) {
            if (!is_long_run() && (s / 2 + stage) % 2) continue;
            const bool chunks = s == ZR_PIPELINE_INTERLEAVED || s == ZR_PIPELINE_BREADTH;
            trainer got = want;
            got.layout.eval = (s + stage) % 2;
            got.layout.pipeline = 2 + (s + stage / 2) % 2;
            got.layout.chunks = chunks ? 2 : 1;
            got.layout.pipeline_schedule = (zr_pipe_schedule)s;
            got.layout.recompute = s % 2 ? ZR_RECOMPUTE_UNIT : ZR_RECOMPUTE_NONE;
            got.layout.states = s < 2 ? ZR_STATES_LEAN : ZR_STATES_PAPER;
            got.layout.tied_apart = true;
            trainer_run(&got);
            layout_assert_same(&want, &got, "a table on two ranks");
        }
    }
    for (int stage = 1; stage <= 3; stage++) {
        trainer want = layout_trainer(4, ZR_BF16, 2, 0.5);
        want.layout.stage = stage;
        want.layout.host_ranks = 2;
        want.layout.hierarchical = true;
        trainer_run(&want);
        trainer got = want;
        got.layout.pipeline = 2;
        got.layout.tied_apart = true;
        trainer_run(&got);
        layout_assert_same(&want, &got, "a table on two ranks of two levels");
    }
}

/* Check schedules as tables, with stages in another order than the rows, and units by hand. */
static void tables(void **state)
{
    (void)state;
    static const char *const text[] = {
        /* 1F1B, from the last row to the first */
        ",1F0,1B0,1F1,1B1,1F2,1B2\n0F0,0F1,,0B0,0F2,0B1,0B2\n",
        /* neighbours on one rank; whole and split backward passes */
        "1F0,2F0,1F1,2F1,2B0,2I1,1I0,1I1,1F2,2F2,2W1,1W0,2B2,1W1,1I2,1W2\n"
        "0F0,0F1,3F0,3B0,3F1,3B1,0B0,0B1,0F2,3F2,3I2,3W2,0I2,0W2\n",
    };
    static const int32_t units[2][4] = {{4, 1}, {1, 1, 2, 1}};
    for (int i = 0; i < 2; i++)
        for (int stage = 0; stage <= 3; stage++) {
            zr_pipe_table *table = NULL;
            assert_int_equal(zr_pipe_table_read(text[i], strlen(text[i]), &table), ZR_OK);
            trainer want = layout_trainer(2, ZR_BF16, 3, 0.5);
            want.config.n_layer = 5;
            want.layout.stage = stage;
            want.layout.eval = false;
            want.steps = 2;
            trainer_run(&want);
            trainer got = want;
            got.layout.pipeline = 2;
            got.layout.chunks = i + 1;
            got.layout.pipeline_schedule = ZR_PIPELINE_TABLE;
            got.layout.pipeline_table = table;
            got.layout.pipeline_units = units[i];
            got.layout.n_pipeline_units = 2 * (i + 1);
            trainer_run(&got);
            layout_assert_same(&want, &got, "a table");
            zr_pipe_table_destroy(&table);
        }
}

/* Check breadth-first with one reduction a step, also with groups of ranks. */
static void breadth_once(void **state)
{
    (void)state;
    for (int way = 0; way < 6; way++) {
        trainer want = layout_trainer(4, way % 2 ? ZR_BF16 : ZR_F32, 3, 0.5);
        want.config.n_layer = 5;
        want.layout.reduce_once = true;
        want.layout.eval = false;
        want.steps = 2;
        trainer_run(&want);
        trainer got = want;
        got.layout.stage = 1 + way % 3;
        got.layout.pipeline = 2;
        got.layout.chunks = 2;
        got.layout.pipeline_schedule = ZR_PIPELINE_BREADTH;
        got.layout.shard_ranks = way == 4 ? 2 : 0;
        got.layout.hpz_ranks = way == 5 ? 2 : 0;
        got.layout.micro_squares = way == 1;
        got.layout.tied_apart = way > 2;
        got.layout.home.grad = way == 2 ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
        trainer_run(&got);
        layout_assert_same(&want, &got, "breadth-first with one reduction");
    }
}

/* Check that a model has the bits of one pipeline rank on 2 and 3 ranks, in schedules with whole and split backward
 * passes. */
static void check_model(trainer want, const char *name)
{
    static const zr_pipe_schedule way[] = {ZR_PIPELINE_ZB_H1, ZR_PIPELINE_BREADTH, ZR_PIPELINE_GPIPE, ZR_PIPELINE_1F1B};
    want.layout.eval = false;
    want.steps = 2;
    trainer_run(&want);
    for (int i = 0; i < 4; i++) {
        trainer got = want;
        got.layout.stage = i;
        got.layout.pipeline = 2 + i % 2;
        got.layout.pipeline_schedule = way[i];
        got.layout.chunks = 1;
        got.layout.recompute = i % 2 ? ZR_RECOMPUTE_UNIT : ZR_RECOMPUTE_NONE;
        trainer_run(&got);
        layout_assert_same(&want, &got, name);
        for (int t = 0; t < ZR_LOSS_TERMS; t++) assert_true(got.term[1][t].counted == want.term[1][t].counted);
    }
}

/* A model whose blocks share a weight. */
static void build_shared(zr_graph *graph, const void *config)
{
    (void)config;
    const zr_graph_spec *spec = zr_graph_get_spec(graph);
    const zr_init init = {.kind = ZR_INIT_NORMAL, .std = 0.1};
    zr_value tokens = zr_input(graph, "tokens", ZR_I32, ZR_SHAPE(spec->batch, spec->seq)),
             targets = zr_input(graph, "targets", ZR_I32, ZR_SHAPE(spec->batch, spec->seq));
    zr_graph_unit(graph, "embedding");
    zr_value x = zr_embedding(graph, tokens, zr_param(graph, init, ZR_SHAPE(131, 24), "table")), shared = ZR_NONE;
    for (int i = 0; i < 9; i++) {
        zr_graph_unit(graph, "h.%d", i);
        if (i == 0) shared = zr_param(graph, init, ZR_SHAPE(24, 24), "shared");
        x = zr_add(graph, x, zr_linear(graph, x, shared, ZR_NONE, false));
    }
    zr_graph_unit(graph, "final");
    zr_graph_losses(graph,
                    zr_linear_cross_entropy(graph, x, zr_param(graph, init, ZR_SHAPE(131, 24), "head"), targets));
}

/* Check a head that is not tied, adapters, ranks that train nothing, several loss terms, and weights on several ranks:
 * a frozen table, and a weight of all blocks. */
static void models(void **state)
{
    (void)state;
    zr_llama_config llama = {.num_hidden_layers = 4,
                             .num_attention_heads = 2,
                             .num_key_value_heads = 1,
                             .head_dim = 8,
                             .hidden_size = 16,
                             .intermediate_size = 24,
                             .max_position_embeddings = 64,
                             .rms_norm_eps = 1e-5,
                             .initializer_range = 0.1,
                             .rotary = {.width = 8, .theta = 10000}};
    trainer run = layout_trainer(2, ZR_BF16, 4, 0.5);
    llama.vocab_size = run.config.vocab_size;
    zr_model model = zr_llama(&llama);
    run.model = &model;
    check_model(run, "a head that is not tied");
    llama.tie_word_embeddings = true;
    model.lora = (zr_lora){.targets = "q_proj\ndown_proj", .rank = 2, .alpha = 4, .dropout = 0.1};
    check_model(run, "adapters");
    run.layout.tied_apart = true;
    check_model(run, "adapters beside a frozen table on two ranks");
    model = (zr_model){.name = "shared", .build = build_shared};
    check_model(run, "a weight of all blocks");
    run.layout.tied_apart = false;
    run.config.n_layer = 5;
    model = zr_gpt2(&run.config);
    model.frozen = "wte.*\nwpe.*\nh.3.*\nh.4.*\nln_f.*";
    check_model(run, "ranks that train nothing");
    trainer terms = terms_trainer(&model, 3, 2, 4);
    check_model(terms, "several loss terms");
}

static uint32_t drawn;

static int draw(int n)
{
    zr_rng rng = {.seed = 11, .purpose = ZR_RNG_SHUFFLE};
    return (int)(zr_rng_u32(&rng, drawn++) % (uint32_t)n);
}

/* Check drawn pipelines with all other choices: variants of layouts, tensor and sequence parallelism, homes, LAMB, sums
 * for any number of ranks, one reduction a step, squares of micro-gradients, exchanges of records. */
static void drawn_layouts(void **state)
{
    (void)state;
    const int runs = is_long_run() ? 500 : 24;
    int ran = 0, refused = 0;
    for (int i = 0; i < runs; i++) {
        drawn = (uint32_t)i * 64;
        const zr_dtype dtypes[] = {ZR_F32, ZR_BF16, ZR_F16};
        trainer want = layout_trainer(1 + draw(2), dtypes[draw(3)], 1 + draw(7), draw(2) ? 0.5 : 0);
        want.config.n_layer = 2 + draw(5);
        want.steps = 2;
        want.layout.stage = draw(4);
        want.layout.tensor = draw(3) == 0 ? 3 : 1;
        want.layout.sequence = want.layout.tensor > 1 && draw(2) ? ZR_SEQUENCE_KEEP : ZR_SEQUENCE_OFF;
        if (want.layout.sequence) want.layout.seq = 15;
        want.layout.vectors_apart = draw(4) == 0;
        if (draw(3) == 0) want.layout.optimizer = zr_lamb(ZR_LAMB_DEEPSPEED, NULL);
        want.layout.rank_free_sums = draw(5) == 0;
        if (draw(3) == 0) want.layout.weight_records = draw(2) ? ZR_I8X128 : ZR_I4X256;
        want.layout.weight_differences =
            zr_dtype_is_record(want.layout.weight_records) && want.layout.stage < 3 && draw(2);
        if (!want.layout.rank_free_sums && draw(4) == 0) {
            want.layout.grad_records = ZR_I4X128;
            want.layout.error_steps = draw(2) ? 1024 : 0;
            want.layout.error_beta = 0.8;
        }
        trainer got = want;
        got.lanes = draw(3) == 0;
        const bool varies = layout_vary(&got, &layout_variants[draw(LAYOUT_VARIANTS)]);
        got.layout.sequence = want.layout.sequence;
        got.layout.reduce_once =
            !want.layout.rank_free_sums && (draw(5) == 0 || zr_dtype_is_record(want.layout.grad_records));
        want.layout.reduce_once = got.layout.reduce_once;
        if (draw(3) == 0) got.layout.home = (zr_homes){.optim = ZR_SPACE_HOST, .grad = ZR_SPACE_HOST};
        got.layout.home.param_share = got.layout.home.optim_share = draw(2) ? 1 : 0.5;
        got.layout.partition_checkpoints = want.layout.tensor > 1 && draw(2);
        got.layout.checkpoint_home = draw(3) == 0 ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
        got.layout.eval = false;
        got.layout.pipeline = 2 + draw(3);
        got.layout.pipeline_schedule = (zr_pipe_schedule)draw(ZR_PIPELINE_ZB_V + 1);
        const zr_pipe_schedule way = got.layout.pipeline_schedule;
        const bool chunks = way == ZR_PIPELINE_INTERLEAVED || way == ZR_PIPELINE_BREADTH || way == ZR_PIPELINE_ZB_V;
        got.layout.chunks = chunks ? 2 : 1;
        want.layout.eval = false;
        got.layout.tied_apart = way != ZR_PIPELINE_ZB_V && draw(3) == 0;
        const int ranks = got.layout.ranks * got.layout.tensor * got.layout.pipeline;
        if (!varies) continue;
        const zr_status st = zr_comm_threads_run(ranks, trainer_rank, &got);
        refused += st == ZR_ERR_CONFIG || st == ZR_ERR_UNSUPPORTED;
        if (st == ZR_ERR_CONFIG || st == ZR_ERR_UNSUPPORTED) continue;
        if (st != ZR_OK) fail_msg("run %d: %s\n%s", i, zr_error_message(), zr_error_trace());
        trainer_run(&want);
        if (!layout_same(&want, &got)) printf("# run %d\n", i);
        layout_assert_same(&want, &got, "a drawn pipeline");
        ran++;
    }
    printf("# %d pipelines trained, %d refused\n", ran, refused);
    assert_true(ran > runs / 5);
}

/* Train with one engine, then with another of other sizes on the same communicator. */
static zr_status two_engines(zr_comm *comm, void *arg)
{
    trainer *run = arg;
    ZR_TRY(trainer_rank(comm, &run[0]));
    return trainer_rank(comm, &run[1]);
}

static void engines(void **state)
{
    (void)state;
    trainer run[2], want = layout_trainer(1, ZR_F32, 4, 0.5);
    want.layout.eval = false;
    run[0] = run[1] = want;
    run[0].layout.pipeline = run[1].layout.pipeline = 2;
    run[1].layout.pipeline_schedule = ZR_PIPELINE_GPIPE;
    run[1].layout.batch = 3;
    assert_int_equal(zr_comm_threads_run(2, two_engines, run), ZR_OK);
    for (int i = 0; i < 2; i++) {
        want.layout.batch = run[i].layout.batch;
        trainer_run(&want);
        layout_assert_same(&want, &run[i], "one of two engines");
    }
}

/* Check that no rank waits forever for a rank that has failed or returned in the middle of a step. */
static zr_status leave_early(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)engine;
    return comm->rank == *(int *)run->arg ? ZR_FAIL(ZR_ERR_DATA, "this rank leaves") : ZR_OK;
}

static void leaves(void **state)
{
    (void)state;
    for (int rank = 0; rank < 3; rank++) {
        trainer run = layout_trainer(1, ZR_F32, 4, 0.5);
        run.layout.pipeline = 3;
        run.after_first = leave_early;
        run.arg = &rank;
        assert_int_equal(zr_comm_threads_run(3, trainer_rank, &run), ZR_ERR_DATA);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_schedule), cmocka_unit_test(tied_apart),
                                       cmocka_unit_test(tables),         cmocka_unit_test(models),
                                       cmocka_unit_test(breadth_once),   cmocka_unit_test(drawn_layouts),
                                       cmocka_unit_test(engines),        cmocka_unit_test(leaves)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
