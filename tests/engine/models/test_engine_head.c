//TEST timeout=120 tsan=1
/* A fused head, whose logits are never stored whole, in training runs: several blocks of rows; a separate weight or the
 * tied table; its losses being the graph's, read by another op, or read by an op without effect. In an evaluation it
 * says which targets have the largest logit. */
#include "engine/walk.h"
#include "engine/engine_truth.h"
#include "graph/internal.h"
#include "engine/layout_variants.h"
#include "base/number/exact.h"

enum { T = 301, C = 12, V = 37, MODELS = 4 };

typedef struct head_config {
    bool tied, read, unread;
} head_config;

static zr_value matrix(zr_graph *g, int64_t rows, int64_t cols, const char *name)
{
    return zr_param(g, (zr_init){ZR_INIT_NORMAL, 0.3}, (zr_shape){2, {rows, cols}}, "%s", name);
}

static void build(zr_graph *g, const void *config)
{
    const head_config *c = config;
    zr_shape ids = {2, {zr_graph_get_spec(g)->batch, T}};
    zr_value tokens = zr_input(g, "tokens", ZR_I32, ids), targets = zr_input(g, "targets", ZR_I32, ids);
    zr_graph_unit(g, "tables");
    zr_value table = matrix(g, V, C, "table"), x = zr_embedding(g, tokens, table);
    zr_graph_unit(g, "body");
    x = zr_add(g, x, zr_gelu(g, zr_linear(g, x, matrix(g, C, C, "body"), ZR_NONE, false)));
    zr_graph_unit(g, "head");
    zr_value losses = zr_linear_cross_entropy(g, x, c->tied ? table : matrix(g, V, C, "head"), targets);
    zr_value twice = c->read || c->unread ? zr_add(g, losses, losses) : losses;
    zr_graph_losses(g, c->read ? twice : losses);
}

static const head_config configs[MODELS] = {{0}, {.tied = true}, {.tied = true, .read = true}, {.unread = true}};
static const zr_model models[MODELS] = {{.name = "untied", .build = build, .config = &configs[0]},
                                        {.name = "tied", .build = build, .config = &configs[1]},
                                        {.name = "read", .build = build, .config = &configs[2]},
                                        {.name = "unread", .build = build, .config = &configs[3]}};

static int32_t token(void *arg, int64_t step, int64_t row, int64_t t)
{
    (void)arg;
    zr_rng rng = {.seed = 5, .purpose = ZR_RNG_SHUFFLE, .step = (uint32_t)step};
    return (int32_t)(zr_rng_u32(&rng, (uint64_t)(row * (T + 1) + t)) % V);
}

static trainer head_trainer(const zr_model *model, int64_t batch)
{
    trainer run = trainer_small(model, batch, T);
    run.token = token;
    return run;
}

static void test_truth(void **state)
{
    (void)state;
    static const truth_cut cut[] = {{1, 1, 4}, {1, 2, 2}, {2, 1, 2}};
    assert_true(zr__head_block(&(zr_graph_spec){.dtype = ZR_F32}, 2 * T, V) < 2 * T);
    for (int m = 0; m < MODELS; m++) {
        trainer run = head_trainer(&models[m], 4);
        truth_check_cuts(&run, cut, sizeof cut / sizeof *cut);
    }
}

/* Check that an evaluation gives a training step's losses, although it runs another op. */
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
    for (int m = 0; m < MODELS; m++)
        for (zr_dtype dtype = ZR_F32; dtype <= ZR_F16; dtype++) {
            double loss = 0;
            trainer run = head_trainer(&models[m], 2), trained = run;
            run.layout.dtype = run.layout.wire_dtype = trained.layout.dtype = trained.layout.wire_dtype = dtype;
            run.steps = 0;
            run.after = evaluate;
            run.arg = &loss;
            trainer_run(&run);
            trainer_run(&trained);
            assert_float_equal(loss, trained.loss[0], 1e-12 * loss);
        }
}

/* Check that the bits are the same in every way to keep, move and recompute. A separate weight has a 16-bit gradient,
 * too. */
static void test_layouts(void **state)
{
    (void)state;
    static const zr_dtype type[] = {ZR_F32, ZR_BF16, ZR_F16};
    for (int m = 0; m < MODELS; m++)
        for (int64_t accum = 1; accum <= 2; accum++) {
            trainer run = head_trainer(&models[m], 2);
            run.layout.ranks = 2;
            run.layout.accum = accum;
            run.layout.dtype = run.layout.wire_dtype = type[(m + accum) % 3];
            run.clip = 0;
            run.steps = 2;
            trainer_run(&run);
            layout_check(&run, m, 4);
        }
}

static int count_steps(const zr_plan *plan, zr_schedule_kind kind, zr_step_kind step, const char *op)
{
    const zr_schedule *s = &plan->schedule[kind];
    int n = 0;
    for (int32_t i = 0; i < s->n_steps; i++)
        n += s->step[i].kind == step &&
             (!op || strcmp(zr_graph_get_op(plan->graph[kind], s->step[i].op)->def->name, op) == 0);
    return n;
}

/* Check the program: the forward op runs where its losses are read, and in evaluation; every product is counted each
 * time it is computed; the losses are added once, also with two passes. */
static void test_program(void **state)
{
    (void)state;
    const zr_profile profile = {.facts = {.name = "test",
                                          .threads = 1,
                                          .bf16_products = true,
                                          .panel_bytes = 1 << 16,
                                          .scratch_bytes = zr_device_cpu_scratch}};
    for (int m = 0; m < MODELS; m++)
        for (int two_pass = 0; two_pass <= 1; two_pass++) {
            zr_layout layout = head_trainer(&models[m], 2).layout;
            zr_plan *plan = NULL;
            layout.states = two_pass ? ZR_STATES_LEAN : ZR_STATES_PAPER;
            layout.two_pass = layout.norm_first = two_pass;
            if (zr_plan_create(&models[m], &layout, &profile, &plan) != ZR_OK) fail_msg("%s", zr_error_message());
            assert_int_equal(zr_plan_check(plan), ZR_OK);
            int forward = configs[m].read, backward = 1 + two_pass;
            assert_int_equal(count_steps(plan, ZR_SCHEDULE_TRAIN, ZR_STEP_RUN, "linear_cross_entropy"), forward);
            assert_int_equal(count_steps(plan, ZR_SCHEDULE_TRAIN, ZR_STEP_RUN, "linear_cross_entropy_dx"), backward);
            assert_int_equal(count_steps(plan, ZR_SCHEDULE_EVAL, ZR_STEP_RUN, "linear_cross_entropy"), 1);
            assert_int_equal(count_steps(plan, ZR_SCHEDULE_TRAIN, ZR_STEP_LOSS, NULL), 1);
            assert_int_equal(count_steps(plan, ZR_SCHEDULE_EVAL, ZR_STEP_LOSS, NULL), 1);
            double head = 2.0 * 2 * T * V * C, body = 2.0 * 2 * T * C * C;
            assert_float_equal(plan->flops_model, (3 + forward) * head + 3 * body, 0);
            assert_float_equal(plan->flops_hardware, (3 * backward + forward) * head + (1 + 2 * backward) * body, 0);
            zr_plan_destroy(&plan);
        }
}

/* Check the bytes of memory traffic. With two blocks, w is read two more times, and the sum of dw is read and written
 * once more. If the sum is separate from dw, in fp32, it is also written for the first block, and read once more to be
 * rounded. */
static void test_bytes(void **state)
{
    (void)state;
    static const zr_dtype type[][2] = {{ZR_F32, ZR_F32}, {ZR_BF16, ZR_F32}, {ZR_BF16, ZR_BF16}};
    for (int i = 0; i < 3; i++) {
        zr_graph *graph = NULL;
        zr_graph_spec spec = {
            .mode = ZR_MODE_TRAIN, .batch = 2, .seq = T, .dtype = type[i][0], .grad_dtype = type[i][1]};
        assert_int_equal(zr_graph_create(&spec, &graph), ZR_OK);
        build(graph, &configs[0]);
        assert_int_equal(zr_graph_finish(graph), ZR_OK);
        const zr_op *op = zr_graph_get_op(graph, 0);
        for (int32_t k = 1; strcmp(op->def->name, "linear_cross_entropy_dx") != 0; k++) op = zr_graph_get_op(graph, k);
        double g = (double)zr_dtype_bytes(type[i][0]), rows = 2 * T, table = V * C;
        zr_dtype w = zr_graph_value(graph, op->out[1])->type.dtype;
        double dw = (double)zr_dtype_bytes(w);
        assert_int_equal(w, type[i][1]);
        double operands = 2 * rows * C * g + table * (g + dw) + 3 * rows * 4; /* dlosses, targets, losses */
        double sum = w == ZR_F32 ? 2 : 4;
        assert_float_equal(op->def->cost(graph, op).bytes,
                           operands + 5 * rows * V * g + 2 * table * g + sum * table * 4, 0);
        zr_graph_destroy(&graph);
    }
}

/* ---- hits -------------------------------------------------------------------------------------- */

static const bool stores_logits[2] = {false, true};

/* Build a head on a table that may be cut or in tiles. The output of an evaluation is its hits, or else the logits. */
static void build_hits(zr_graph *g, const void *logits)
{
    zr_shape ids = {2, {zr_graph_get_spec(g)->batch, T}};
    zr_value tokens = zr_input(g, "tokens", ZR_I32, ids), targets = zr_input(g, "targets", ZR_I32, ids), out;
    zr_graph_unit(g, "tables");
    zr_value x = zr_embedding(g, tokens, zr_param_table(g, (zr_init){ZR_INIT_NORMAL, 0.3}, V, C, "table"));
    zr_value head = zr_param_table(g, (zr_init){ZR_INIT_NORMAL, 0.3}, V, C, "head");
    const bool eval = zr_graph_get_spec(g)->mode == ZR_MODE_EVAL;
    if (*(const bool *)logits) {
        out = zr_linear(g, x, head, ZR_NONE, true);
        zr_graph_losses(g, zr_cross_entropy(g, out, targets));
    } else {
        zr_graph_losses(g, zr_linear_cross_entropy_hits(g, x, head, ZR_NONE, targets, eval ? &out : NULL));
    }
    if (eval) zr_graph_output(g, out);
}

/* Keep the output of an evaluation, of rank 0. */
static zr_status keep_output(trainer *run, zr_engine *engine, zr_comm *comm)
{
    static float spare[4][2 * T * V];
    const zr_batch batch = {.step = 0};
    const zr_graph *graph = engine->plan->graph[ZR_SCHEDULE_EVAL];
    zr_exact sum = {0};
    ZR_TRY(zr_engine_eval(engine, &batch, trainer_batch, run, &sum));
    return zr_engine_value(engine, ZR_SCHEDULE_EVAL, zr_graph_get_output(graph),
                           comm->rank == 0 ? run->arg : spare[comm->rank]);
}

/* Return a token's target. In half of the rows it depends only on the token, so many targets have the largest logit. */
static int32_t next_token(void *arg, int64_t step, int64_t row, int64_t t)
{
    const int32_t *best = arg;
    return t % 2 && best ? best[token(NULL, step, row, t - 1)] : token(NULL, step, row, t);
}

/* Check the hits of a head beside stored logits: with the head on one rank, on two and three ranks with and without
 * sequence parallelism, in tiles, and both on ranks and in tiles. */
static void test_hits(void **state)
{
    (void)state;
    static float logits[2 * T * V], hits[2 * T];
    static const struct {
        int tensor, sequence, tile;
    } cut[] = {{1, 0, 0}, {3, 0, 0}, {2, 1, 0}, {1, 0, 10}, {2, 1, 5}, {2, 0, 7}};
    const zr_model model[2] = {{.name = "hits", .build = build_hits, .config = &stores_logits[0]},
                               {.name = "logits", .build = build_hits, .config = &stores_logits[1]}};
    int32_t best[V] = {0};
    trainer whole = head_trainer(&model[1], 2);
    whole.steps = 0;
    whole.after = keep_output;
    whole.arg = logits;
    trainer_run(&whole); /* logits of a token depend on the token alone */
    int found = 0;
    for (int r = 0; r < 2 * T; r++) {
        int32_t first = 0;
        for (int32_t v = 1; v < V; v++)
            if (logits[r * V + v] > logits[r * V + first]) first = v;
        best[token(NULL, 0, r / T, r % T)] = first;
    }
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        trainer run = head_trainer(&model[0], 2);
        run.layout.tensor = cut[i].tensor;
        run.layout.sequence = cut[i].sequence ? ZR_SEQUENCE_REGATHER : ZR_SEQUENCE_OFF;
        run.layout.tile_elems = cut[i].tile * C;
        run.steps = 0;
        run.after = keep_output;
        run.arg = hits;
        run.token = next_token;
        run.token_arg = best;
        trainer_run(&run);
        found = 0;
        for (int r = 0; r < 2 * T; r++) {
            const int32_t in = next_token(best, 0, r / T, r % T), target = next_token(best, 0, r / T, r % T + 1);
            assert_true(hits[r] == (best[in] == target));
            found += hits[r] == 1;
        }
        assert_in_range(found, T / 4, 2 * T - T / 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_truth),   cmocka_unit_test(test_evaluation),
                                       cmocka_unit_test(test_layouts), cmocka_unit_test(test_program),
                                       cmocka_unit_test(test_bytes),   cmocka_unit_test(test_hits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
