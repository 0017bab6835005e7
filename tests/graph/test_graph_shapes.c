//TEST timeout=20
/* The operands that ops demand, the costs of ops, and the graphs that are refused. */
#include <string.h>

#include "graph/internal.h"
#include "graph_new.h"

/* Return an input of any shape to feed an op with. */
static zr_value f32(zr_graph *graph, zr_shape shape)
{
    return zr_input(graph, "x", ZR_F32, shape);
}

static zr_value i32(zr_graph *graph, zr_shape shape)
{
    return zr_input(graph, "ids", ZR_I32, shape);
}

static void expect(zr_graph *graph, zr_status status, const char *text)
{
    zr_status given = zr_graph_finish(graph);
    if (given != status || (text && !strstr(zr_error_message(), text)))
        print_message("%s: %s\n", zr_status_text(given), zr_error_message());
    assert_int_equal(given, status);
    if (text) assert_non_null(strstr(zr_error_message(), text));
    zr_graph_destroy(&graph);
    assert_null(graph);
}

/* Run one case: statements that build in a fresh F32 EVAL graph, then the status and message of finishing it. */
#define CASE(status, text, ...)                                                                                        \
    do {                                                                                                               \
        zr_graph *g = graph_new(ZR_MODE_EVAL, ZR_F32);                                                                 \
        __VA_ARGS__;                                                                                                   \
        expect(g, status, text);                                                                                       \
    } while (0)

/* ---- operands -------------------------------------------------------------------------------- */

static void test_embedding(void **state)
{
    (void)state;
    CASE(ZR_ERR_DTYPE, "unit \"u\": embedding: operand ids is F32 (2, 4); wanted I32 (*, *)",
         zr_embedding(g, f32(g, SHAPE(2, B, T)), f32(g, SHAPE(2, V, C))));
    CASE(ZR_ERR_SHAPE, "operand ids is I32 (4); wanted I32 (*, *)",
         zr_embedding(g, i32(g, SHAPE(1, T)), f32(g, SHAPE(2, V, C))));
    CASE(ZR_ERR_SHAPE, "operand table is F32 (9); wanted F32 (*, *) for a first operand I32 (2, 4)",
         zr_embedding(g, i32(g, SHAPE(2, B, T)), f32(g, SHAPE(1, V))));
    CASE(ZR_ERR_ARG, "embedding: operand table (number 1) is missing",
         zr_embedding(g, i32(g, SHAPE(2, B, T)), ZR_NONE));
}

static void test_position(void **state)
{
    (void)state;
    CASE(ZR_ERR_SHAPE, "position: operand x is F32 (2, 6); wanted F32 (*, *, *)",
         zr_position(g, f32(g, SHAPE(2, B, C)), f32(g, SHAPE(2, T, C))));
    CASE(ZR_ERR_SHAPE, "position: operand table is F32 (4, 7); wanted F32 (*, 6)",
         zr_position(g, f32(g, SHAPE(3, B, T, C)), f32(g, SHAPE(2, T, C + 1))));
    CASE(ZR_ERR_SHAPE, "position: a sequence of 4 tokens needs as many rows; the table has 3",
         zr_position(g, f32(g, SHAPE(3, B, T, C)), f32(g, SHAPE(2, T - 1, C))));
    zr_graph *g = graph_new(ZR_MODE_DECODE, ZR_F32);
    zr_position(g, f32(g, SHAPE(3, 1, 1, C)), f32(g, SHAPE(2, T - 1, C)));
    expect(g, ZR_ERR_SHAPE, "a sequence of 4 tokens");
}

static void test_linear(void **state)
{
    (void)state;
    CASE(ZR_ERR_SHAPE, "linear: operand w is F32 (5, 9); wanted F32 (6, *) for a first operand F32 (2, 4, 6)",
         zr_linear(g, f32(g, SHAPE(3, B, T, C)), f32(g, SHAPE(2, 5, V)), ZR_NONE, false));
    CASE(ZR_ERR_SHAPE, "linear: operand w is F32 (6, 9); wanted F32 (*, 6)",
         zr_linear(g, f32(g, SHAPE(3, B, T, C)), f32(g, SHAPE(2, C, V)), ZR_NONE, true));
    CASE(ZR_ERR_SHAPE, "linear: operand b is F32 (6); wanted F32 (9)",
         zr_linear(g, f32(g, SHAPE(3, B, T, C)), f32(g, SHAPE(2, C, V)), f32(g, SHAPE(1, C)), false));
    CASE(ZR_ERR_DTYPE, "linear: operand x is I32 (2, 4); wanted F32 of 1 dimensions or more",
         zr_linear(g, i32(g, SHAPE(2, B, T)), f32(g, SHAPE(2, T, V)), ZR_NONE, false));
    CASE(ZR_ERR_DTYPE, "linear: operand w is BF16 (6, 9); wanted F32 (6, *)",
         zr_linear(g, f32(g, SHAPE(2, B, C)), zr_input(g, "w", ZR_BF16, SHAPE(2, C, V)), ZR_NONE, false));
}

static void test_layernorm(void **state)
{
    (void)state;
    CASE(ZR_ERR_SHAPE, "layernorm: operand gain is F32 (5); wanted F32 (6)",
         zr_layernorm(g, f32(g, SHAPE(3, B, T, C)), f32(g, SHAPE(1, 5)), f32(g, SHAPE(1, C)), 1e-5));
    CASE(ZR_ERR_SHAPE, "layernorm: operand bias is F32 (1, 6); wanted F32 (6)",
         zr_layernorm(g, f32(g, SHAPE(3, B, T, C)), f32(g, SHAPE(1, C)), f32(g, SHAPE(2, 1, C)), 1e-5));
    CASE(ZR_ERR_ARG, "layernorm: eps is 0; wanted above 0",
         zr_layernorm(g, f32(g, SHAPE(3, B, T, C)), f32(g, SHAPE(1, C)), f32(g, SHAPE(1, C)), 0));
}

static void test_elementwise(void **state)
{
    (void)state;
    CASE(ZR_ERR_DTYPE, "gelu: operand x is I32 (4); wanted F32", zr_gelu(g, i32(g, SHAPE(1, T))));
    CASE(ZR_ERR_SHAPE, "add: operand b is F32 (4, 2); wanted F32 (2, 4)",
         zr_add(g, f32(g, SHAPE(2, B, T)), f32(g, SHAPE(2, T, B))));
    CASE(ZR_ERR_DTYPE, "add: operands are F32 and I32; wanted F32, BF16 or F16",
         zr_add(g, f32(g, SHAPE(2, B, T)), i32(g, SHAPE(2, B, T))));
    CASE(ZR_ERR_ARG, "add: operand b is missing", zr_add(g, f32(g, SHAPE(2, B, T)), ZR_NONE));
    CASE(ZR_ERR_ARG, "dropout: dropout is 1; wanted 0 <= p < 1", zr_dropout(g, f32(g, SHAPE(2, B, T)), 1));
    zr_graph *g = graph_new(ZR_MODE_TRAIN, ZR_F32);
    zr_dropout(g, f32(g, SHAPE(2, T, C)), 0.5);
    expect(g, ZR_ERR_SHAPE, "dropout: x's first dimension is 4; wanted the batch, 2");
}

static void test_attention(void **state)
{
    (void)state;
    CASE(ZR_ERR_SHAPE, "attention: operand qkv is F32 (2, 18); wanted F32 (*, *, *)",
         zr_attention(g, f32(g, SHAPE(2, B, 3 * C)), 2, 0));
    CASE(ZR_ERR_SHAPE, "attention: qkv's last dimension, 19, is no multiple of 3",
         zr_attention(g, f32(g, SHAPE(3, B, T, 3 * C + 1)), 2, 0));
    CASE(ZR_ERR_SHAPE, "attention: 4 heads do not divide the width 6",
         zr_attention(g, f32(g, SHAPE(3, B, T, 3 * C)), 4, 0));
    CASE(ZR_ERR_SHAPE, "attention: 0 heads do not divide the width 6",
         zr_attention(g, f32(g, SHAPE(3, B, T, 3 * C)), 0, 0));
    CASE(ZR_ERR_ARG, "attention: dropout is -1; wanted 0 <= p < 1",
         zr_attention(g, f32(g, SHAPE(3, B, T, 3 * C)), 2, -1));
    zr_graph *g = graph_new(ZR_MODE_DECODE, ZR_F32);
    zr_attention(g, f32(g, SHAPE(3, 1, 2, 3 * C)), 2, 0);
    expect(g, ZR_ERR_SHAPE, "attention_cached: operand qkv is F32 (1, 2, 18); wanted F32 (1, 1, 18)");
}

static void test_cross_entropy(void **state)
{
    (void)state;
    CASE(ZR_ERR_SHAPE, "cross_entropy: operand logits is F32 (4, 9); wanted F32 (*, *, *)",
         zr_cross_entropy(g, f32(g, SHAPE(2, T, V)), i32(g, SHAPE(2, B, T))));
    CASE(ZR_ERR_SHAPE, "cross_entropy: operand targets is I32 (4, 2); wanted I32 (2, 4)",
         zr_cross_entropy(g, f32(g, SHAPE(3, B, T, V)), i32(g, SHAPE(2, T, B))));
    CASE(ZR_ERR_DTYPE, "cross_entropy: operand targets is F32 (2, 4); wanted I32 (2, 4)",
         zr_cross_entropy(g, f32(g, SHAPE(3, B, T, V)), f32(g, SHAPE(2, B, T))));
}

static void test_linear_cross_entropy(void **state)
{
    (void)state;
    CASE(ZR_ERR_SHAPE, "linear_cross_entropy: operand x is F32 (4, 6); wanted F32 (*, *, *)",
         zr_linear_cross_entropy(g, f32(g, SHAPE(2, T, C)), f32(g, SHAPE(2, V, C)), i32(g, SHAPE(2, B, T))));
    CASE(ZR_ERR_SHAPE, "linear_cross_entropy: operand w is F32 (6, 9); wanted F32 (*, 6)",
         zr_linear_cross_entropy(g, f32(g, SHAPE(3, B, T, C)), f32(g, SHAPE(2, C, V)), i32(g, SHAPE(2, B, T))));
    CASE(ZR_ERR_SHAPE, "linear_cross_entropy: operand targets is I32 (4, 2); wanted I32 (2, 4)",
         zr_linear_cross_entropy(g, f32(g, SHAPE(3, B, T, C)), f32(g, SHAPE(2, V, C)), i32(g, SHAPE(2, T, B))));
    zr_graph *g = graph_new(ZR_MODE_EVAL, ZR_F32);
    zr_value losses =
        zr_linear_cross_entropy(g, f32(g, SHAPE(3, B, T, C)), f32(g, SHAPE(2, V, C)), i32(g, SHAPE(2, B, T)));
    const zr_shape wanted = SHAPE(2, B, T);
    assert_true(zr_shape_equal(&zr_graph_value(g, losses)->type.shape, &wanted));
    expect(g, ZR_OK, NULL);
}

/* ---- outputs --------------------------------------------------------------------------------- */

static void check_value(const zr_graph *graph, zr_value value, zr_dtype dtype, zr_shape shape)
{
    const zr_value_info *info = zr_graph_value(graph, value);
    assert_non_null(info);
    assert_int_equal(info->type.dtype, dtype);
    assert_true(zr_shape_equal(&info->type.shape, &shape));
}

static void check_output_types(zr_dtype dtype)
{
    zr_graph *g = graph_new(ZR_MODE_EVAL, dtype);
    zr_value table = zr_param(g, NORMAL, SHAPE(2, V, C), "table"), gain = zr_param(g, NORMAL, SHAPE(1, C), "gain");
    zr_value w = zr_param(g, NORMAL, SHAPE(2, C, 3 * C), "w");
    zr_value x = zr_position(g, zr_embedding(g, i32(g, SHAPE(2, B, T)), table), table);
    check_value(g, x, dtype, SHAPE(3, B, T, C));
    x = zr_layernorm(g, x, gain, gain, 1e-5);
    const zr_op *norm = zr_graph_get_op(g, zr_graph_value(g, x)->producer);
    check_value(g, norm->out[1], ZR_F32, SHAPE(2, B, T));
    check_value(g, norm->out[2], ZR_F32, SHAPE(2, B, T));
    x = zr_linear(g, x, w, ZR_NONE, false);
    check_value(g, x, dtype, SHAPE(3, B, T, 3 * C));
    x = zr_attention(g, x, 2, 0.5);
    const zr_op *attention = zr_graph_get_op(g, zr_graph_value(g, x)->producer);
    assert_true(attention->attr.f[1] == 0); /* EVAL has no dropout */
    check_value(g, attention->out[0], dtype, SHAPE(3, B, T, C));
    check_value(g, attention->out[1], ZR_F32, SHAPE(3, B, 2, T));
    assert_int_equal(zr_dropout(g, x, 0.5), x);
    x = zr_cross_entropy(g, zr_linear(g, x, table, ZR_NONE, true), i32(g, SHAPE(2, B, T)));
    check_value(g, x, ZR_F32, SHAPE(2, B, T));
    expect(g, ZR_OK, NULL);
}

static void test_output_types(void **state)
{
    (void)state;
    check_output_types(ZR_BF16);
    check_output_types(ZR_F16);
}

/* Check that dropout streams are numbered in order, whether or not a dropout is on. */
static void test_dropout_streams(void **state)
{
    (void)state;
    zr_graph *g = graph_new(ZR_MODE_TRAIN, ZR_F32);
    zr_value x = f32(g, SHAPE(3, B, T, 3 * C));
    assert_int_equal(zr_dropout(g, x, 0), x);
    zr_value a = zr_attention(g, x, 2, 0.5), d = zr_dropout(g, a, 0.25);
    assert_int_equal(zr_graph_get_op(g, zr_graph_value(g, a)->producer)->attr.i[1], 1);
    const zr_op *dropout = zr_graph_get_op(g, zr_graph_value(g, d)->producer);
    assert_int_equal(dropout->attr.i[0], 2);
    assert_true(dropout->attr.f[0] == 0.25);
    zr_graph_destroy(&g);
}

static void test_decode_cache(void **state)
{
    (void)state;
    zr_graph *g = graph_new(ZR_MODE_DECODE, ZR_BF16);
    zr_value y = zr_attention(g, zr_input(g, "qkv", ZR_BF16, SHAPE(3, 1, 1, 3 * C)), 2, 0.5);
    const zr_op *op = zr_graph_get_op(g, zr_graph_value(g, y)->producer);
    assert_string_equal(op->def->name, "attention_cached");
    check_value(g, op->in[1], ZR_BF16, SHAPE(3, 2, T, C));
    assert_int_equal(zr_graph_value(g, op->in[1])->kind, ZR_VALUE_CACHE);
    expect(g, ZR_OK, NULL);
}

/* ---- cost -------------------------------------------------------------------------------------- */

static const zr_op *find(const zr_graph *graph, const char *name)
{
    for (int32_t i = 0; i < zr_graph_ops(graph); i++)
        if (strcmp(zr_graph_get_op(graph, i)->def->name, name) == 0) return zr_graph_get_op(graph, i);
    return NULL;
}

static double flops(const zr_graph *graph, const char *name)
{
    const zr_op *op = find(graph, name);
    assert_non_null(op);
    return op->def->cost(graph, op).flops;
}

static zr_graph *small_model(zr_dtype dtype)
{
    zr_graph *g = graph_new(ZR_MODE_TRAIN, dtype);
    zr_value table = zr_param(g, NORMAL, SHAPE(2, V, C), "table"), places = zr_param(g, NORMAL, SHAPE(2, T, C), "p");
    zr_value gain = zr_param(g, NORMAL, SHAPE(1, C), "gain"), bias = zr_param(g, NORMAL, SHAPE(1, C), "bias");
    zr_value w = zr_param(g, NORMAL, SHAPE(2, C, 3 * C), "w"), b = zr_param(g, NORMAL, SHAPE(1, 3 * C), "b");
    zr_value head = zr_param(g, NORMAL, SHAPE(2, V, C), "head");
    zr_value x = zr_position(g, zr_embedding(g, i32(g, SHAPE(2, B, T)), table), places);
    x = zr_linear(g, zr_layernorm(g, x, gain, bias, 1e-5), w, b, false);
    x = zr_linear(g, zr_gelu(g, zr_attention(g, x, 2, 0)), head, ZR_NONE, true);
    zr_graph_losses(g, zr_cross_entropy(g, x, i32(g, SHAPE(2, B, T))));
    assert_int_equal(zr_graph_finish(g), ZR_OK);
    return g;
}

static void test_costs(void **state)
{
    (void)state;
    zr_graph *g = small_model(ZR_F32);
    double product = 2.0 * B * T * C * 3 * C, pairs = B * C * T * T; /* the masked half counts, as in the papers */
    assert_true(flops(g, "linear") == product);
    assert_true(flops(g, "attention") == 2 * 2 * pairs);
    assert_true(flops(g, "attention_dx") == 4 * 2 * pairs);
    assert_true(flops(g, "linear_dw") == 2.0 * B * T * C * V); /* the first linear_dw is the head's */
    assert_true(flops(g, "linear_dx") == 2.0 * B * T * C * V);
    assert_true(flops(g, "gelu") == 0);
    const zr_op *op = find(g, "linear");
    assert_true(op->def->cost(g, op).bytes == 4.0 * (B * T * C + C * 3 * C + 3 * C + B * T * 3 * C));
    op = find(g, "embedding");
    assert_true(op->def->cost(g, op).bytes == 4.0 * (B * T + 2 * B * T * C));
    zr_graph_destroy(&g);
}

/* Check the rows of the head's blocks: a multiple of 16 unless one block has all rows, and at most `bytes` of logits
 * unless that is less than 16 rows. */
static void test_head_block(void **state)
{
    (void)state;
    static const struct {
        int64_t rows, cols, bytes, want;
    } cases[] = {{0, 7, 0, 0},      {200, 7, 0, 200},   {1024, 7, 0, 512},           {1025, 7, 0, 352},
                 {200, 1, 400, 80}, {200, 1000, 1, 16}, {200, 1000, INT64_MAX, 200}, {5, 1000, 1, 5},
                 {64, 10, 1280, 32}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const zr_graph_spec spec = {.dtype = ZR_F32, .head_bytes = cases[i].bytes};
        assert_int_equal(zr__head_block(&spec, cases[i].rows, cases[i].cols), cases[i].want);
    }
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static void test_specs(void **state)
{
    (void)state;
    static const zr_graph_spec bad[] = {
        {.mode = ZR_MODE_EVAL, .seq = T, .dtype = ZR_F32, .grad_dtype = ZR_F32, .tensor = 1},
        {.mode = ZR_MODE_EVAL, .batch = B, .dtype = ZR_F32, .grad_dtype = ZR_F32, .tensor = 1},
        {.mode = ZR_MODE_EVAL,
         .batch = B,
         .seq = T,
         .cache_len = 5,
         .dtype = ZR_F32,
         .grad_dtype = ZR_F32,
         .tensor = 1},
        {.mode = ZR_MODE_DECODE,
         .batch = 2,
         .seq = 1,
         .cache_len = 5,
         .dtype = ZR_F32,
         .grad_dtype = ZR_F32,
         .tensor = 1},
        {.mode = ZR_MODE_DECODE, .batch = 1, .seq = 1, .dtype = ZR_F32, .grad_dtype = ZR_F32, .tensor = 1},
        {.mode = ZR_MODE_TRAIN, .batch = B, .seq = T, .dtype = ZR_I32, .grad_dtype = ZR_F32, .tensor = 1},
        {.mode = ZR_MODE_TRAIN, .batch = B, .seq = T, .dtype = ZR_F32, .grad_dtype = ZR_I32, .tensor = 1},
        {.mode = (zr_mode)9, .batch = B, .seq = T, .dtype = ZR_F32, .grad_dtype = ZR_F32, .tensor = 1},
        {.mode = ZR_MODE_TRAIN,
         .batch = B,
         .seq = T,
         .dtype = ZR_F32,
         .grad_dtype = ZR_F32,
         .tensor = 1,
         .head_bytes = -1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        zr_graph *graph = NULL;
        assert_int_not_equal(zr_graph_create(&bad[i], &graph), ZR_OK);
        assert_null(graph);
    }
}

static void test_first_error_is_kept(void **state)
{
    (void)state;
    zr_graph *g = graph_new(ZR_MODE_EVAL, ZR_F32);
    zr_value bad = zr_gelu(g, i32(g, SHAPE(1, T)));
    assert_int_equal(bad, ZR_NONE);
    int32_t ops = zr_graph_ops(g), values = zr_graph_values(g);
    assert_int_equal(zr_add(g, bad, bad), ZR_NONE);
    zr_graph_error(g, ZR_ERR_DATA, "later");
    assert_int_equal(zr_graph_ops(g), ops);
    assert_int_equal(zr_graph_values(g), values);
    expect(g, ZR_ERR_DTYPE, "gelu");
}

static void test_parameters(void **state)
{
    (void)state;
    CASE(ZR_ERR_CONFIG, "two parameters are called w", zr_param(g, NORMAL, SHAPE(1, 2), "w"),
         zr_param(g, NORMAL, SHAPE(1, 2), "v"), zr_param(g, NORMAL, SHAPE(1, 3), "w"));
    CASE(ZR_ERR_SHAPE, "w: dimension 1 is 0", zr_param(g, NORMAL, SHAPE(2, 3, 0), "w"));
    CASE(ZR_ERR_SHAPE, "do not fit 63 bits", zr_param(g, NORMAL, SHAPE(3, 1 << 30, 1 << 30, 1 << 30), "w"));
    CASE(ZR_ERR_ARG, "the name of a parameter has 0 characters", zr_param(g, NORMAL, SHAPE(1, 1), "%s", ""));
    CASE(ZR_ERR_ARG, "the name of a unit has 120 characters", zr_graph_unit(g, "%120s", "u"));
    zr_graph_spec spec = {
        .mode = ZR_MODE_EVAL, .batch = B, .seq = T, .dtype = ZR_F32, .grad_dtype = ZR_F32, .tensor = 1};
    zr_graph *g = NULL;
    assert_int_equal(zr_graph_create(&spec, &g), ZR_OK);
    zr_param(g, NORMAL, SHAPE(1, 2), "w");
    expect(g, ZR_ERR_STATE, "parameter w: call zr_graph_unit before");
}

static void test_units(void **state)
{
    (void)state;
    zr_graph *g = graph_new(ZR_MODE_EVAL, ZR_F32);
    zr_param(g, NORMAL, SHAPE(2, 3, 5), "a");
    zr_param(g, NORMAL, SHAPE(1, 7), "b");
    zr_graph_unit(g, "v.%d", 1);
    zr_param(g, NORMAL, SHAPE(1, 11), "c");
    assert_int_equal(zr_graph_units(g), 2);
    const zr_unit_info *u = zr_graph_unit_info(g, 0), *v = zr_graph_unit_info(g, 1);
    assert_string_equal(v->name, "v.1");
    assert_true(u->first_param == 0 && u->n_params == 2 && u->elems == 22);
    assert_true(v->first_param == 2 && v->n_params == 1 && v->elems == 11);
    const zr_param_info *b = zr_graph_param(g, 1), *c = zr_graph_param(g, 2);
    assert_true(b->unit == 0 && b->unit_offset == 15 && b->first == 15);
    assert_true(c->unit == 1 && c->unit_offset == 0 && c->first == 22);
    assert_int_equal(zr_graph_param_elems(g), 33);
    assert_null(zr_graph_param(g, 3));
    assert_null(zr_graph_unit_info(g, -1));
    expect(g, ZR_OK, NULL);
}

/* Check that nothing is lost when the graph's storage moves as it grows. */
static void test_many_ops(void **state)
{
    (void)state;
    enum { MANY = 50000 };
    zr_graph *g = graph_new(ZR_MODE_TRAIN, ZR_F32);
    zr_value p = zr_param(g, NORMAL, SHAPE(3, B, T, C), "p"), x = zr_gelu(g, p);
    for (int i = 0; i < MANY; i++) x = zr_gelu(g, x);
    zr_graph_losses(g, zr_cross_entropy(g, x, i32(g, SHAPE(2, B, T))));
    assert_int_equal(zr_graph_finish(g), ZR_OK);
    assert_int_equal(zr_graph_ops(g), 2 * (MANY + 2) + 1);
    const zr_op *last = zr_graph_get_op(g, zr_graph_ops(g) - 1);
    assert_int_equal(last->out[0], zr_graph_param(g, 0)->grad);
    zr_graph_destroy(&g);
}

static void test_finish_ends_building(void **state)
{
    (void)state;
    zr_graph *g = graph_new(ZR_MODE_EVAL, ZR_F32);
    zr_value x = f32(g, SHAPE(1, C));
    assert_int_equal(zr_graph_finish(g), ZR_OK);
    assert_int_equal(zr_gelu(g, x), ZR_NONE);
    assert_int_equal(zr_graph_ops(g), 0);
    expect(g, ZR_ERR_STATE, "already finished");
}

static void test_optimizers(void **state)
{
    (void)state;
    zr_optimizer adamw = zr_adamw(0.9, 0.95, 1e-8, 0.1), adam = zr_adam(0.9, 0.999, 1e-6, 0);
    assert_string_equal(adamw.name, "adamw");
    assert_true(adamw.n_slots == 2 && adamw.hyper[0] == 0.9 && adamw.hyper[1] == 0.95 && adamw.hyper[2] == 1e-8);
    assert_true(adamw.weight_decay == 0.1 && adamw.rule == NULL);
    assert_string_equal(adam.name, "adam");
    assert_true(adam.n_slots == 2 && adam.hyper[2] == 1e-6);
    assert_int_equal(zr_sgd(0, false, 0).n_slots, 0);
    zr_optimizer sgd = zr_sgd(0.9, true, 0.01);
    assert_true(sgd.n_slots == 1 && sgd.hyper[0] == 0.9 && sgd.hyper[1] == 1 && sgd.weight_decay == 0.01);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_position),
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_layernorm),
        cmocka_unit_test(test_elementwise),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_cross_entropy),
        cmocka_unit_test(test_linear_cross_entropy),
        cmocka_unit_test(test_output_types),
        cmocka_unit_test(test_dropout_streams),
        cmocka_unit_test(test_decode_cache),
        cmocka_unit_test(test_costs),
        cmocka_unit_test(test_head_block),
        cmocka_unit_test(test_specs),
        cmocka_unit_test(test_first_error_is_kept),
        cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_many_ops),
        cmocka_unit_test(test_finish_ends_building),
        cmocka_unit_test(test_optimizers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
