//TEST timeout=120 tsan=1
/* A user's own models, with shapes that GPT-2 does not have: units without parameters, without gradient or without
 * anything, weights shared over units and read after their gradient is complete, a single unit, values and gradients
 * used several times and over several units, losses that are a sum, inputs of other types; and the ops that GPT-2 does
 * not use. */
#include "engine/engine_truth.h"
#include "engine/layout_variants.h"
#include "base/number/exact.h"

enum { T = 5, C = 12, V = 11, ROWS = 6, MODELS = 11 };

static const zr_init NORMAL = {ZR_INIT_NORMAL, 0.3}, ONE = {ZR_INIT_ONE, 0};

static zr_shape shape(int ndim, int64_t a, int64_t b, int64_t c)
{
    return (zr_shape){ndim, {a, b, c}};
}

static zr_value matrix(zr_graph *g, int64_t rows, int64_t cols, const char *name)
{
    return zr_param(g, NORMAL, shape(2, rows, cols, 0), "%s", name);
}

static zr_value vector(zr_graph *g, const char *name)
{
    return zr_param(g, ONE, shape(1, C, 0, 0), "%s", name);
}

static zr_value ids(zr_graph *g, const char *name)
{
    return zr_input(g, name, ZR_I32, shape(2, zr_graph_get_spec(g)->batch, T, 0));
}

static zr_value features(zr_graph *g, const char *name)
{
    return zr_input(g, name, zr_graph_get_spec(g)->dtype, shape(3, zr_graph_get_spec(g)->batch, T, C));
}

/* Add a head with a separate weight, not tied to any table. */
static void head(zr_graph *g, zr_value x)
{
    zr_graph_unit(g, "head");
    zr_value logits = zr_linear(g, x, matrix(g, C, V, "head"), ZR_NONE, false);
    zr_graph_losses(g, zr_cross_entropy(g, logits, ids(g, "targets")));
}

/* Build a model whose first unit, a middle unit and an empty unit have no parameters; the first op reads only an input.
 */
static void build_bare(zr_graph *g, const void *config)
{
    (void)config;
    zr_graph_unit(g, "stem");
    zr_value raw = features(g, "raw"), x = zr_add(g, zr_gelu(g, raw), raw);
    zr_graph_unit(g, "body");
    x = zr_linear(g, x, matrix(g, C, C, "body.w"), vector(g, "body.b"), false);
    zr_graph_unit(g, "glue");
    x = zr_add(g, zr_gelu(g, x), x);
    zr_graph_unit(g, "nothing");
    head(g, zr_add(g, x, features(g, "late")));
}

/* Build a model with one weight and one gain used in three consecutive units, the weight once transposed. */
static void build_shared(zr_graph *g, const void *config)
{
    (void)config;
    zr_graph_unit(g, "tables");
    zr_value table = matrix(g, V, C, "table"), w = matrix(g, C, C, "w"), gain = vector(g, "gain"),
             bias = vector(g, "bias");
    zr_value x = zr_embedding(g, ids(g, "tokens"), table);
    for (int i = 0; i < 3; i++) {
        zr_graph_unit(g, "block.%d", i);
        zr_value own = matrix(g, C, C, (const char *[]){"own.0", "own.1", "own.2"}[i]);
        zr_value h = zr_linear(g, zr_layernorm(g, x, gain, bias, 1e-5), w, ZR_NONE, i == 1);
        x = zr_add(g, x, zr_linear(g, zr_gelu(g, h), own, ZR_NONE, false));
    }
    head(g, x);
}

/* Build a model with parameters that get no gradient: a whole unit that is not used, a unit whose output is not read,
 * and single parameters between others. */
static void build_idle(zr_graph *g, const void *config)
{
    (void)config;
    zr_graph_unit(g, "unused");
    matrix(g, 3, 7, "unused");
    zr_graph_unit(g, "tables");
    vector(g, "idle.first");
    zr_value x = zr_embedding(g, ids(g, "tokens"), matrix(g, V, C, "table"));
    matrix(g, 5, 3, "idle.middle");
    x = zr_position(g, x, matrix(g, T + 4, C, "places"));
    vector(g, "idle.last");
    zr_graph_unit(g, "unread");
    zr_linear(g, zr_gelu(g, x), matrix(g, C, 3, "unread"), ZR_NONE, false);
    head(g, x);
}

/* Build a model whose losses are the sum of two, each with its own targets; another op reads them too. */
static void build_two_losses(zr_graph *g, const void *config)
{
    (void)config;
    zr_graph_unit(g, "tables");
    zr_value left = ids(g, "left"), right = ids(g, "right"), table = matrix(g, V, C, "table");
    zr_value x = zr_add(g, zr_embedding(g, left, table), zr_embedding(g, right, table));
    zr_graph_unit(g, "heads");
    zr_value near = zr_linear(g, x, table, ZR_NONE, true),
             far = zr_linear(g, x, matrix(g, C, V, "far"), ZR_NONE, false);
    zr_value losses = zr_add(g, zr_cross_entropy(g, near, ids(g, "near")), zr_cross_entropy(g, far, ids(g, "far")));
    zr_graph_losses(g, losses);
    zr_graph_unit(g, "after");
    zr_add(g, losses, losses);
}

/* Build a model with values used twice by one op and by several ops, with gradients passed unchanged to several places,
 * and with dropout. */
static void build_twice(zr_graph *g, const void *config)
{
    (void)config;
    zr_graph_unit(g, "tables");
    zr_value x = zr_embedding(g, ids(g, "tokens"), matrix(g, V, C, "table"));
    zr_value gain = vector(g, "gain"), w = zr_add(g, matrix(g, C, C, "p"), matrix(g, C, C, "q"));
    zr_graph_unit(g, "mix");
    x = zr_add(g, x, zr_layernorm(g, x, gain, gain, 1e-5));
    x = zr_add(g, x, x);
    x = zr_add(g, zr_dropout(g, x, 0.2), zr_linear(g, x, w, ZR_NONE, false));
    zr_value y = zr_dropout(g, zr_gelu(g, x), 0.1);
    zr_graph_unit(g, "again");
    head(g, zr_add(g, zr_add(g, y, x), zr_add(g, x, y)));
}

/* Build a model with an attention of separate width in a unit, read by the units before and after it through a shared
 * projection. */
static void build_attention(zr_graph *g, const void *config)
{
    (void)config;
    zr_graph_unit(g, "in");
    zr_value x = zr_embedding(g, ids(g, "tokens"), matrix(g, V, C, "table")), w = matrix(g, C, 3 * C, "qkv");
    x = zr_add(g, x, zr_attention(g, zr_linear(g, x, w, ZR_NONE, false), 3, 0.1));
    zr_graph_unit(g, "out");
    x = zr_add(g, x, zr_attention(g, zr_linear(g, x, w, ZR_NONE, false), 2, 0));
    head(g, x);
}

/* Build a model of one unit. */
static void build_one(zr_graph *g, const void *config)
{
    (void)config;
    zr_graph_unit(g, "all");
    zr_value table = matrix(g, V, C, "table"), x = zr_embedding(g, ids(g, "tokens"), table);
    x = zr_add(g, x, zr_gelu(g, zr_linear(g, x, matrix(g, C, C, "w"), vector(g, "b"), false)));
    zr_graph_losses(g, zr_cross_entropy(g, zr_linear(g, x, table, ZR_NONE, true), ids(g, "targets")));
}

/* Build a model whose weights are declared first and used in reverse; values are read one, two and four units later. */
static void build_skips(zr_graph *g, const void *config)
{
    (void)config;
    zr_graph_unit(g, "weights");
    zr_value w[4] = {matrix(g, C, C, "w.0"), matrix(g, C, C, "w.1"), matrix(g, C, C, "w.2"), matrix(g, C, C, "w.3")};
    zr_graph_unit(g, "tables");
    zr_value x[5] = {zr_embedding(g, ids(g, "tokens"), matrix(g, V, C, "table"))};
    for (int i = 0; i < 4; i++) {
        zr_graph_unit(g, "block.%d", i);
        zr_value h = zr_gelu(g, zr_linear(g, x[i], w[3 - i], ZR_NONE, i % 2));
        x[i + 1] = zr_add(g, zr_dropout(g, h, 0.1), i % 2 ? x[i - 1] : x[0]);
    }
    head(g, zr_add(g, x[4], x[0]));
}

/* Infer the type of y = gelu(x), through which no gradient flows. */
static zr_status frozen_infer(const zr_graph *g, const zr_op *op, zr_type *out)
{
    out[0] = zr_graph_value(g, op->in[0])->type;
    return ZR_OK;
}

static zr_cost frozen_cost(const zr_graph *g, const zr_op *op)
{
    (void)g;
    (void)op;
    return (zr_cost){0};
}

static const zr_op_def frozen = {.name = "gelu", .n_out = 1, .infer = frozen_infer, .cost = frozen_cost};

/* Build a model in which the gradient of "w" is complete with "late", its last user, but recomputing "early" reads w
 * once more. */
static void build_frozen(zr_graph *g, const void *config)
{
    (void)config;
    zr_graph_unit(g, "weights");
    zr_value w = matrix(g, C, C, "w"), y = ZR_NONE;
    zr_graph_unit(g, "tables");
    zr_value x = zr_embedding(g, ids(g, "tokens"), matrix(g, V, C, "table"));
    zr_graph_unit(g, "early");
    zr_graph_op(g, &frozen, NULL, 1, (zr_value[]){zr_linear(g, x, w, ZR_NONE, false)}, &y);
    x = zr_gelu(g, zr_add(g, x, y));
    zr_graph_unit(g, "late");
    x = zr_add(g, x, zr_linear(g, x, w, ZR_NONE, false));
    head(g, x);
}

/* Build a model with norms without a mean, attention, and a gated product whose two halves one product computes. */
static void build_gated(zr_graph *g, const void *config)
{
    (void)config;
    zr_graph_unit(g, "table");
    zr_value x = zr_embedding(g, ids(g, "tokens"), matrix(g, V, C, "table"));
    for (int i = 0; i < 2; i++) {
        zr_graph_unit(g, "block.%d", i);
        zr_value gain[2], qkv = zr_param(g, NORMAL, shape(2, C, 3 * C, 0), "qkv.%d", i);
        for (int k = 0; k < 2; k++) gain[k] = zr_param(g, ONE, shape(1, C, 0, 0), "gain.%d.%d", i, k);
        zr_value wide = zr_param(g, NORMAL, shape(2, C, 4 * C, 0), "wide.%d", i);
        zr_value down = zr_param(g, NORMAL, shape(2, 2 * C, C, 0), "down.%d", i);
        zr_value h = zr_linear(g, zr_rmsnorm(g, x, gain[0], 1e-5), qkv, ZR_NONE, false);
        x = zr_add(g, x, zr_attention(g, h, 3, 0.1));
        h = zr_linear(g, zr_rmsnorm(g, x, gain[1], 1e-5), wide, ZR_NONE, false);
        h = zr_mul(g, zr_silu(g, zr_slice(g, h, 0, 2 * C)), zr_slice(g, h, 2 * C, 2 * C));
        x = zr_add(g, x, zr_scale(g, zr_dropout(g, zr_linear(g, h, down, ZR_NONE, false), 0.1), 0.5));
    }
    zr_graph_unit(g, "final");
    head(g, zr_rmsnorm(g, x, vector(g, "gain"), 1e-5));
}

/* Build a model with values rearranged within and between units, a sliced parameter, and losses that are means. */
static void build_arranged(zr_graph *g, const void *config)
{
    (void)config;
    zr_dtype dtype = zr_graph_get_spec(g)->dtype;
    zr_graph_unit(g, "table");
    zr_value both = matrix(g, C, 2 * C, "both"), x = zr_embedding(g, ids(g, "tokens"), matrix(g, V, C, "table"));
    zr_graph_unit(g, "heads");
    zr_value h = zr_split_heads(g, zr_linear(g, x, zr_slice(g, both, 0, C), ZR_NONE, false), 4);
    zr_value y = zr_merge_heads(g, zr_softmax(g, h));
    zr_graph_unit(g, "tokens");
    zr_value w = zr_transpose(g, zr_slice(g, both, C - 2, C)), mixed = zr_relu(g, zr_linear(g, y, w, ZR_NONE, true));
    x = zr_concat(g, zr_add(g, x, mixed), zr_slice(g, zr_mul(g, y, x), 3, 5));
    zr_graph_unit(g, "losses");
    zr_value means = zr_mean(g, zr_transpose(g, x), dtype); /* (B, C + 5) */
    zr_value out = zr_linear(g, means, matrix(g, C + 5, V, "out"), ZR_NONE, false);
    zr_graph_losses(g, zr_mean(g, zr_mul(g, out, zr_scale(g, out, 3)), ZR_F32));
}

static const zr_model models[MODELS] = {
    {.name = "bare", .build = build_bare},
    {.name = "shared", .build = build_shared},
    {.name = "idle", .build = build_idle},
    {.name = "twice", .build = build_twice},
    {.name = "two losses", .build = build_two_losses},
    {.name = "attention", .build = build_attention},
    {.name = "one", .build = build_one},
    {.name = "skips", .build = build_skips},
    {.name = "frozen", .build = build_frozen},
    {.name = "gated", .build = build_gated},
    {.name = "arranged", .build = build_arranged},
};

/* ---- inputs ---- */

/* Return element i of a row of input number `input`, which depends on the global row alone. */
static double element(int64_t step, int64_t row, int32_t input, int64_t i)
{
    zr_rng rng = {.seed = 11, .purpose = ZR_RNG_SHUFFLE, .stream = (uint32_t)input, .step = (uint32_t)step};
    return zr_rng_uniform(&rng, (uint64_t)(row * T * C + i));
}

static zr_status fill_batch(void *arg, const zr_batch *batch, void *const *input)
{
    const trainer *run = arg;
    zr_graph_spec spec = {.mode = ZR_MODE_EVAL, .batch = run->layout.batch, .seq = T, .dtype = run->layout.dtype};
    zr_graph *g = NULL; /* build the graph to find the types of the inputs */
    ZR_TRY(zr_graph_create(&spec, &g));
    run->model->build(g, NULL);
    for (int32_t k = 0; k < zr_graph_inputs(g); k++) {
        zr_type type = zr_graph_value(g, zr_graph_input(g, k))->type;
        int64_t n = zr_shape_elems(&type.shape), row = n / run->layout.batch;
        for (int64_t i = 0; i < n; i++) {
            double x = element(batch->step, batch->first_row + i / row, k, i % row);
            if (type.dtype == ZR_I32) ((int32_t *)input[k])[i] = (int32_t)(x * V);
            if (type.dtype == ZR_F32) ((float *)input[k])[i] = (float)(x - 0.5);
            if (type.dtype == ZR_BF16) ((uint16_t *)input[k])[i] = zr_bf16_from_f32((float)(x - 0.5));
            if (type.dtype == ZR_F16) ((uint16_t *)input[k])[i] = zr_f16_from_f32((float)(x - 0.5));
        }
    }
    zr_graph_destroy(&g);
    return ZR_OK;
}

static trainer odd_trainer(const zr_model *model)
{
    trainer run = trainer_small(model, ROWS, T);
    run.batch = fill_batch;
    return run;
}

/* ---- tests ---- */

static void test_truth(void **state)
{
    (void)state;
    static const truth_cut cut[] = {{1, 1, 6}, {1, 3, 2}, {2, 1, 3}, {2, 3, 1}, {3, 1, 2}, {3, 2, 1}};
    for (int m = 0; m < MODELS; m++) {
        trainer run = odd_trainer(&models[m]);
        truth_check_cuts(&run, cut, sizeof cut / sizeof *cut);
    }
}

/* Evaluate a batch between two steps, which must leave no trace. */
static zr_status evaluate(trainer *run, zr_engine *engine, zr_comm *comm)
{
    zr_batch batch = {.step = 9, .first_row = comm->rank * run->layout.batch};
    zr_exact sum = {0};
    ZR_TRY(zr_engine_eval(engine, &batch, run->batch, run, &sum));
    ZR_CHECK(zr__exact_value(&sum) > 0, ZR_ERR_INTERNAL, "an evaluation gave %g", zr__exact_value(&sum));
    return ZR_OK;
}

/* Check that the bits are the same at every stage, in every mix of number types, over steps with an evaluation in
 * between; bf16 is close to fp32. */
static void test_stages(void **state)
{
    (void)state;
    static const zr_dtype type[][2] = {{ZR_F32, ZR_F32}, {ZR_BF16, ZR_F32}, {ZR_BF16, ZR_BF16}}; /* parameters, wire */
    for (int m = 0; m < MODELS; m++)
        for (int ranks = 1; ranks <= 3; ranks++)
            for (int64_t accum = 1; accum <= 2; accum++) {
                double loss = 0;
                for (int d = 0; d < 3; d++) {
                    trainer first = odd_trainer(&models[m]);
                    first.layout.ranks = ranks;
                    first.layout.accum = accum;
                    first.layout.batch = 2;
                    first.layout.dtype = type[d][0];
                    first.layout.wire_dtype = type[d][1];
                    first.steps = 3;
                    trainer_run(&first);
                    if (d == 0) loss = first.loss[2];
                    assert_float_equal(first.loss[2], loss, 0.02 * loss);
                    for (int stage = 0; stage <= 3; stage++) {
                        trainer run = first;
                        run.layout.stage = stage;
                        run.after_first = evaluate;
                        trainer_run(&run);
                        assert_memory_equal(run.loss, first.loss, sizeof run.loss);
                        assert_memory_equal(run.norm, first.norm, sizeof run.norm);
                        assert_int_equal(run.weights, first.weights);
                    }
                }
            }
}

/* Check that every way to keep, move and recompute gives the same bits; each number of ranks checks a third of all
 * stages and ways. */
static void test_layouts(void **state)
{
    (void)state;
    static const zr_dtype type[] = {ZR_F32, ZR_BF16, ZR_F16};
    for (int m = 0; m < MODELS; m++)
        for (int ranks = 1; ranks <= 3; ranks++) {
            trainer run = odd_trainer(&models[m]);
            run.layout.ranks = ranks;
            run.layout.batch = 2;
            run.layout.dtype = run.layout.wire_dtype = type[(m + ranks) % 3];
            run.clip = 0;
            run.steps = 3;
            run.after_first = evaluate;
            trainer_run(&run);
            layout_check(&run, ranks, 3);
        }
}

/* ---- parameters without a gradient ---- */

static float first_value(const zr_param_info *param, int64_t i)
{
    return (float)(1 + (param->first + i) % 7) / 8;
}

static zr_status give_first(void *arg, const zr_param_info *param, int64_t first, int64_t n, float *out)
{
    (void)arg;
    for (int64_t i = 0; i < n; i++) out[i] = first_value(param, first + i);
    return ZR_OK;
}

static zr_status has_stayed(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    (void)arg;
    int64_t same = 0;
    for (int64_t i = 0; i < n; i++) same += in[i] == first_value(param, first + i);
    ZR_CHECK(param->grad == ZR_NONE ? same == n : same < n || strcmp(param->name, "places") == 0, ZR_ERR_INTERNAL,
             "%s: %lld of %lld elements are what they were", param->name, (long long)same, (long long)n);
    return ZR_OK;
}

static zr_status check_stayed(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)run;
    (void)comm;
    return zr_engine_read(engine, ZR_STATE_PARAM, has_stayed, NULL);
}

static void shrink(const zr_update_args *args)
{
    for (int64_t i = 0; i < args->n; i++) args->weight[i] *= 0.5f;
}

/* Check that neither weight decay nor an optimizer's rule changes parameters without a gradient; the others move. */
static void test_idle_parameters_stay(void **state)
{
    (void)state;
    const zr_optimizer optimizer[] = {zr_adamw(0.9, 0.95, 1e-8, 0.5),
                                      zr_adam(0.9, 0.95, 1e-8, 0.5),
                                      zr_sgd(0.9, true, 0.5),
                                      zr_sgd(0, false, 0.5),
                                      {.name = "own", .rule = shrink}};
    for (int o = 0; o < (int)(sizeof optimizer / sizeof *optimizer); o++)
        for (int ranks = 1; ranks <= 2; ranks++) {
            trainer run = odd_trainer(&models[2]);
            assert_string_equal(models[2].name, "idle");
            run.layout.ranks = ranks;
            run.layout.optimizer = optimizer[o];
            run.fill = give_first;
            run.after = check_stayed;
            run.clip = 0;
            run.steps = 3;
            for (run.layout.stage = 0; run.layout.stage <= 3; run.layout.stage++)
                for (int lean = 0; lean < 2; lean++) {
                    run.layout.states = lean ? ZR_STATES_LEAN : ZR_STATES_PAPER;
                    trainer_run(&run);
                }
        }
}

/* ---- refused models ---- */

/* Build a model that is refused: with losses in training only and no output, or with an input too many. */
static void build_silent(zr_graph *g, const void *config)
{
    const zr_graph_spec *spec = zr_graph_get_spec(g);
    zr_graph_unit(g, "all");
    zr_shape tokens = shape(2, spec->batch, spec->seq, 0);
    zr_value x = zr_embedding(g, zr_input(g, "tokens", ZR_I32, tokens), matrix(g, V, C, "table"));
    zr_value targets = zr_input(g, "targets", ZR_I32, tokens);
    if (spec->mode == ZR_MODE_TRAIN) zr_graph_losses(g, zr_cross_entropy(g, x, targets));
    if (spec->mode == ZR_MODE_DECODE && config) zr_graph_output(g, x);
}

static void expect_refused(const zr_model *model, zr_layout layout, zr_status status, const char *text)
{
    zr_profile profile = {.facts = {.name = "test", .threads = 1, .scratch_bytes = zr_device_cpu_scratch}};
    zr_plan *plan = NULL;
    assert_int_equal(zr_plan_create(model, &layout, &profile, &plan), status);
    assert_null(plan);
    if (!strstr(zr_error_message(), text)) fail_msg("\"%s\" does not say \"%s\"", zr_error_message(), text);
}

static void test_refusals(void **state)
{
    (void)state;
    zr_model silent = {.name = "silent", .build = build_silent},
             speaking = {.name = "speaking", .build = build_silent, .config = "output"};
    zr_layout layout = odd_trainer(&silent).layout;
    expect_refused(&silent, layout, ZR_ERR_STATE, "model silent names no losses for evaluation");
    layout.eval = false;
    layout.decode_len = 4;
    expect_refused(&silent, layout, ZR_ERR_STATE, "model silent names no output for decoding");
    expect_refused(&speaking, layout, ZR_ERR_UNSUPPORTED, "model speaking has 2 inputs in decoding");
    layout.decode_len = 0;
    layout.optimizer = (zr_optimizer){0};
    expect_refused(&silent, layout, ZR_ERR_CONFIG, "zr_layout.optimizer is not set");
    layout.train = false;
    expect_refused(&silent, layout, ZR_ERR_ARG, "plans nothing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_truth), cmocka_unit_test(test_stages),
                                       cmocka_unit_test(test_layouts), cmocka_unit_test(test_idle_parameters_stay),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
