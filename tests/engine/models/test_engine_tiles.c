//TEST timeout=120 tsan=1 long=more
/* Tables in tiles: the embedding and the head, tied or not, trained or frozen, with tiles that do not divide the table.
 * Gradients equal those of the model with whole tables; bits are the same at every stage and in every way to keep and
 * move states; no buffer is as large as the table. */
#include "engine/engine_truth.h"
#include "engine/layout_variants.h"
#include "support/long.h"
#include "base/number/exact.h"

#include <math.h>

enum { T = 9, C = 12, V = 37, TILE = 10 * C }; /* tiles of 10 and of 7 rows */

typedef struct model_config {
    bool tied, logits;  /* logits: the model computes its losses from logits that are stored as a whole */
    const char *frozen; /* pattern of frozen parameters, or NULL */
} model_config;

static const zr_init normal = {ZR_INIT_NORMAL, 0.3};

static void build(zr_graph *g, const void *config)
{
    const model_config *c = config;
    zr_shape ids = {2, {zr_graph_get_spec(g)->batch, T}}, square = {2, {C, C}};
    zr_value tokens = zr_input(g, "tokens", ZR_I32, ids), targets = zr_input(g, "targets", ZR_I32, ids);
    zr_graph_unit(g, "tables");
    zr_value table = zr_param_table(g, normal, V, C, "table");
    zr_value gain = zr_param(g, (zr_init){.kind = ZR_INIT_ONE}, (zr_shape){1, {C}}, "gain"), head = table;
    zr_value x = zr_rmsnorm(g, zr_embedding(g, tokens, table), gain, 1e-5);
    for (int i = 0; i < 2; i++) {
        zr_graph_unit(g, "body.%d", i);
        zr_value in = zr_param_cut(g, normal, square, (zr_cut){1, 1}, "in.%d", i);
        zr_value out = zr_param_cut(g, normal, square, (zr_cut){0, 1}, "out.%d", i);
        x = zr_add(g, x, zr_linear(g, zr_gelu(g, zr_linear(g, x, in, ZR_NONE, false)), out, ZR_NONE, false));
    }
    zr_graph_unit(g, "head");
    if (!c->tied) head = zr_param_table(g, normal, V, C, "head");
    zr_graph_freeze(g, c->frozen);
    if (c->logits)
        zr_graph_losses(g, zr_cross_entropy(g, zr_linear(g, x, head, ZR_NONE, true), targets));
    else
        zr_graph_losses(g, zr_linear_cross_entropy(g, x, head, targets));
}

static const model_config configs[] = {
    {0}, {.tied = true}, {.tied = true, .logits = true}, {.tied = true, .frozen = "table"}, {.frozen = "head"},
};
enum { UNTIED, TIED, LOGITS, FROZEN, FROZEN_HEAD, MODELS };
#define MODEL(i)                                                                                                       \
    {                                                                                                                  \
        .name = "model " #i, .build = build, .config = &configs[i]                                                     \
    }
static const zr_model models[MODELS] = {MODEL(0), MODEL(1), MODEL(2), MODEL(3), MODEL(4)};

static int32_t token(void *arg, int64_t step, int64_t row, int64_t t)
{
    (void)arg;
    zr_rng rng = {.seed = 5, .purpose = ZR_RNG_SHUFFLE, .step = (uint32_t)step};
    return (int32_t)(zr_rng_u32(&rng, (uint64_t)(row * (T + 1) + t)) % V);
}

static trainer tiles_trainer(int model, int64_t batch)
{
    trainer run = trainer_small(&models[model], batch, T);
    run.token = token;
    run.layout.tile_elems = TILE;
    return run;
}

static void test_truth(void **state)
{
    (void)state;
    static const truth_cut cut[] = {{1, 1, 4}, {1, 2, 2}, {2, 1, 2}};
    for (int m = 0; m < MODELS; m++) {
        trainer run = tiles_trainer(m, 4);
        truth_check_cuts(&run, cut, sizeof cut / sizeof *cut);
    }
}

static void test_layouts(void **state)
{
    (void)state;
    static const zr_dtype type[] = {ZR_F32, ZR_BF16, ZR_F16};
    for (int m = 0; m < MODELS; m++)
        for (int64_t accum = 1; accum <= 2; accum++) {
            trainer run = tiles_trainer(m, 2);
            run.layout.ranks = 2;
            run.layout.accum = accum;
            run.layout.dtype = run.layout.wire_dtype = type[(m + accum) % 3];
            run.clip = 0;
            run.steps = 2;
            trainer_run(&run);
            layout_check(&run, m, is_long_run() ? 1 : 6);
        }
}

/* ---- with other features ------------------------------------------------------------------------ */

static void assert_close_runs(const trainer *have, const trainer *want, double tolerance)
{
    for (int i = 0; i < want->steps; i++)
        if (!(fabs(have->loss[i] - want->loss[i]) <= tolerance * want->loss[i]))
            fail_msg("%s: loss %.9g, wanted %.9g", trainer_model(want).name, have->loss[i], want->loss[i]);
}

/* Check that the losses equal those of whole tables up to rounding, and that their bits do not depend on the stage. */
static void test_tensor(void **state)
{
    (void)state;
    for (int m = 0; m < MODELS; m++)
        for (int i = 0; i < 6; i++) {
            const int tensor = 1 + i / 2;
            trainer whole = tiles_trainer(m, 4), first, run;
            if (C % tensor != 0 || (tensor > 1 && m == LOGITS)) continue;
            whole.layout.tensor = tensor;
            whole.layout.sequence = i % 2 ? ZR_SEQUENCE_REGATHER : ZR_SEQUENCE_OFF;
            whole.layout.dtype = whole.layout.wire_dtype = i % 3 ? ZR_F32 : ZR_BF16;
            whole.steps = 3;
            first = run = whole;
            first.layout.tile_elems = run.layout.tile_elems = 5 * C;
            whole.layout.tile_elems = 0;
            run.layout.stage = 3;
            run.layout.ranks = 2;
            run.layout.batch = 2;
            run.layout.recompute = ZR_RECOMPUTE_SELECTIVE;
            run.layout.prefetch_elems = 1;
            first.layout.ranks = 2;
            first.layout.batch = 2;
            trainer_run(&whole);
            trainer_run(&first);
            trainer_run(&run);
            assert_close_runs(&first, &whole, i % 3 ? 2e-6 : 2e-3);
            layout_assert_same(&first, &run, "tensor parallelism");
        }
}

static void test_homes(void **state)
{
    (void)state;
    for (int m = 0; m <= TIED; m++)
        for (int ranks = 1; ranks <= 2; ranks++) {
            trainer here = tiles_trainer(m, 2), away;
            here.layout.ranks = ranks;
            here.layout.dtype = here.layout.wire_dtype = m == TIED ? ZR_BF16 : ZR_F32;
            here.layout.norm_first = true;
            here.steps = 3;
            away = here;
            away.layout.stage = 3;
            away.layout.states = ranks == 1 ? ZR_STATES_LEAN : ZR_STATES_PAPER;
            away.layout.home.param = away.layout.home.grad = away.layout.home.optim = ZR_SPACE_DISK;
            away.layout.home.bucket_elems = 1024;
            trainer_run(&here);
            trainer_run(&away);
            layout_assert_same(&here, &away, "on disk");
        }
}

static zr_status evaluate(trainer *run, zr_engine *engine, zr_comm *comm)
{
    zr_batch batch = {.step = 0, .first_row = comm->rank * run->layout.batch};
    zr_exact sum = {0};
    ZR_TRY(zr_engine_eval(engine, &batch, trainer_batch, run, &sum));
    *(double *)run->arg = zr__exact_value(&sum) / (double)(run->layout.batch * T);
    return ZR_OK;
}

static void test_evaluation(void **state)
{
    (void)state;
    for (int m = 0; m < MODELS; m++) {
        double loss = 0;
        trainer run = tiles_trainer(m, 2), trained = run;
        run.layout.stage = 3;
        run.steps = 0;
        run.after = evaluate;
        run.arg = &loss;
        trainer_run(&run);
        trainer_run(&trained);
        assert_float_equal(loss, trained.loss[0], 1e-12 * loss);
    }
}

typedef struct decoded {
    float logits[131];
} decoded;

static zr_status decode(trainer *run, zr_engine *engine, zr_comm *comm)
{
    zr_tensor logits;
    ZR_TRY(zr_engine_decode(engine, 7, 0, &logits));
    if (comm->rank == 0) memcpy(run->arg, logits.data, sizeof(decoded));
    return ZR_OK;
}

/* Check that decoding gives the logits of a whole table, to the bit. */
static void test_decoding(void **state)
{
    (void)state;
    decoded got[2];
    for (int i = 0; i < 2; i++) {
        trainer run = trainer_odd();
        run.layout.stage = 3;
        run.layout.ranks = 2;
        run.layout.decode_len = 4;
        run.layout.tile_elems = i * 30 * run.config.n_embd;
        run.steps = 0;
        run.after = decode;
        run.arg = &got[i];
        trainer_run(&run);
    }
    assert_memory_equal(&got[0], &got[1], sizeof got[0]);
}

/* ---- memory ------------------------------------------------------------------------------------- */

/* Run a model whose table has 16 tiles, each larger than everything else in the model. */
static trainer large_table(int ranks, int64_t tile_elems)
{
    trainer run = trainer_odd();
    run.config = (zr_gpt2_config){.n_layer = 1,
                                  .n_head = 1,
                                  .n_embd = 32,
                                  .n_positions = 16,
                                  .vocab_size = 8192,
                                  .layer_norm_epsilon = 1e-5,
                                  .initializer_range = 0.02};
    run.layout.seq = 8;
    run.layout.batch = 1;
    run.layout.ranks = ranks;
    run.layout.stage = 3;
    run.layout.prefetch_elems = 1;
    run.layout.tile_elems = tile_elems;
    run.layout.home.bucket_elems = 512;
    run.layout.home.buckets = 3;
    run.layout.reduce_bucket_elems = run.layout.gather_bucket_elems = 4096;
    run.layout.states = ZR_STATES_LEAN;
    run.clip = 0;
    run.steps = 1;
    if (ranks == 1) run.layout.home.param = run.layout.home.grad = run.layout.home.optim = ZR_SPACE_DISK;
    trainer_run(&run);
    return run;
}

/* Check that at most two gathered tiles and at most two gradients of tiles exist at a time, so that the memory of one
 * rank is smaller than the table. With whole tables, whole parameters and whole gradients are in memory. */
static void test_memory(void **state)
{
    (void)state;
    const int64_t table = 4 * 8192 * 32, tile = table / 16, rest = tile / 2;
    for (int ranks = 1; ranks <= 4; ranks += 3) {
        const trainer tiles = large_table(ranks, 16384), whole = large_table(ranks, 0);
        const int64_t shard = ranks > 1 ? table / ranks : 0;
        const int64_t *has = tiles.measured.memory.category_bytes, *had = whole.measured.memory.category_bytes;
        assert_in_range(has[ZR_CATEGORY_PARAM] - shard, 2 * tile, 2 * tile + rest);
        assert_in_range(has[ZR_CATEGORY_GRAD], tile, 2 * tile + rest);
        assert_true(had[ZR_CATEGORY_PARAM] >= table + shard && had[ZR_CATEGORY_GRAD] >= table);
        if (ranks == 1) assert_true(tiles.measured.memory.space[ZR_SPACE_DEVICE].total_bytes < table);
    }
}

/* ---- refusals ------------------------------------------------------------------------------------ */

static void refused(zr_status want, const char *text, int64_t tile_elems, int64_t tensor, int wrong)
{
    const int64_t rows = wrong == 5 || wrong == 6 ? ZR_TILES_MOST + (wrong == 6) : V;
    zr_graph_spec spec = {.mode = ZR_MODE_EVAL, .batch = 1, .seq = T, .tile_elems = tile_elems, .tensor = tensor};
    zr_graph *g = NULL;
    zr_status st = zr_graph_create(&spec, &g);
    if (st == ZR_OK) {
        zr_value x = zr_input(g, "x", ZR_F32, (zr_shape){3, {1, T, C}});
        zr_graph_unit(g, "tables");
        zr_value table = zr_param_table(g, normal, rows, C, "table");
        zr_value bias = zr_param(g, normal, (zr_shape){1, {V}}, "bias");
        if (wrong == 0) zr_position(g, x, table);
        if (wrong == 1) zr_linear(g, x, table, bias, true);
        if (wrong == 2) zr_linear(g, x, table, ZR_NONE, true);
        if (wrong == 3) zr_param_table(g, normal, V, C, "table");
        if (wrong == 4) {
            zr_value targets = zr_input(g, "targets", ZR_I32, (zr_shape){2, {1, T}});
            zr_linear_cross_entropy_bias(g, x, table, bias, targets);
        }
        st = zr_graph_finish(g);
    }
    zr_graph_destroy(&g);
    assert_int_equal(st, want);
    if (!strstr(zr_error_message(), text)) fail_msg("%s; wanted \"%s\"", zr_error_message(), text);
}

static void test_refusals(void **state)
{
    (void)state;
    refused(ZR_ERR_CONFIG, "tile_elems is -1", -1, 1, -1);
    refused(ZR_ERR_CONFIG, "memory.tile_elems is 11; a row of table has 12 elements", C - 1, 1, -1);
    refused(ZR_ERR_UNSUPPORTED,
            "which cuts table into 4 tiles, but the op position needs it whole; set memory.tile_elems to 0", TILE, 1,
            0);
    refused(ZR_ERR_UNSUPPORTED, "without a bias", TILE, 1, 1);
    refused(ZR_ERR_UNSUPPORTED, "parallel.tensor 1", TILE / 2, 2, 2);
    refused(ZR_ERR_UNSUPPORTED, "into 4 tiles, but the model's head has a bias for this table", TILE, 1, 4);
    refused(ZR_ERR_CONFIG, "two parameters are called table", TILE, 1, 3);
    refused(ZR_OK, "", C, 1, 5);
    refused(ZR_ERR_CONFIG,
            "memory.tile_elems is 12, which divides table into 4097 tiles; wanted at most 4096 tiles, so "
            "24 or more",
            C, 1, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_truth),      cmocka_unit_test(test_layouts),
                                       cmocka_unit_test(test_tensor),     cmocka_unit_test(test_homes),
                                       cmocka_unit_test(test_evaluation), cmocka_unit_test(test_decoding),
                                       cmocka_unit_test(test_memory),     cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
