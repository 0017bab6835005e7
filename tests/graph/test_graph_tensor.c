//TEST timeout=20
/* Weights cut over tensor-parallel ranks, and tokens shared by them (sequence parallelism): the graphs that are
 * refused, and the ops in the graph of one rank. */
#include "graph_new.h"

#include <string.h>

static zr_graph *shared(bool sequence)
{
    zr_graph_spec spec = {.mode = ZR_MODE_TRAIN,
                          .batch = 2,
                          .seq = 6,
                          .dtype = ZR_F32,
                          .grad_dtype = ZR_F32,
                          .tensor = 2,
                          .sequence = sequence};
    zr_graph *g = NULL;
    assert_int_equal(zr_graph_create(&spec, &g), ZR_OK);
    zr_graph_unit(g, "u");
    return g;
}

static zr_value tokens(zr_graph *g, const char *name)
{
    return zr_input(g, name, ZR_I32, SHAPE(2, 2, 6));
}

static zr_value weight(zr_graph *g, int64_t rows, int64_t cols, int dim, int parts, const char *name)
{
    return zr_param_cut(g, NORMAL, SHAPE(2, rows, cols), (zr_cut){dim, parts}, "%s", name);
}

/* Return the embedding, of shape (2, 6, 8), by a table that is cut; with sequence parallelism, this rank's 6 of the 12
 * tokens. */
static zr_value embedded(zr_graph *g)
{
    return zr_embedding(g, tokens(g, "ids"), weight(g, 10, 8, 0, 1, "table"));
}

static void refused(zr_graph *g, zr_value losses, const char *why)
{
    zr_graph_losses(g, losses);
    assert_int_not_equal(zr_graph_finish(g), ZR_OK);
    if (!strstr(zr_error_message(), why)) fail_msg("\"%s\" does not say \"%s\"", zr_error_message(), why);
    zr_graph_destroy(&g);
}

static void weights_that_are_cut(void **state)
{
    (void)state;
    zr_graph *g = shared(false);
    zr_value x = zr_position(g, embedded(g), weight(g, 6, 8, 0, 1, "places"));
    refused(g, zr_mean(g, x, ZR_F32),
            "each tensor-parallel rank has only a piece of places; wanted a weight that is not cut");

    g = shared(false);
    x = zr_embedding(g, tokens(g, "ids"), weight(g, 10, 8, 1, 1, "table"));
    refused(g, zr_mean(g, x, ZR_F32), "embedding: table is cut in 1 parts of dimension 1; wanted one part, of rows");

    g = shared(false);
    x = zr_linear_cross_entropy(g, embedded(g), weight(g, 12, 8, 0, 3, "head"), tokens(g, "targets"));
    refused(g, x, "linear_cross_entropy: head is cut in 3 parts of dimension 0");

    g = shared(false);
    x = zr_linear(g, embedded(g), weight(g, 8, 12, 1, 3, "in"), ZR_NONE, false);
    x = zr_linear(g, x, weight(g, 12, 8, 0, 1, "out"), ZR_NONE, false);
    refused(g, zr_mean(g, x, ZR_F32), "the weight's rows are cut in 1 parts, but the columns of x in 3 ");

    g = shared(false);
    x = zr_linear(g, embedded(g), weight(g, 8, 12, 0, 1, "out"), ZR_NONE, false);
    refused(g, zr_mean(g, x, ZR_F32), "the columns of x in 0 (0: not cut)");

    g = shared(false);
    zr_value bias = zr_param_cut(g, NORMAL, SHAPE(1, 12), (zr_cut){0, 1}, "bias");
    x = zr_linear(g, embedded(g), weight(g, 8, 12, 1, 3, "in"), bias, false);
    refused(g, zr_mean(g, x, ZR_F32), "the columns of w are cut in 3 parts, b in 1");

    g = shared(false);
    x = zr_attention(g, zr_linear(g, embedded(g), weight(g, 8, 24, 1, 1, "in"), ZR_NONE, false), 2, 0);
    refused(g, zr_mean(g, x, ZR_F32), "attention: the columns of qkv are cut in 1 parts; wanted 3");

    g = shared(false);
    x = zr_softmax(g, zr_linear(g, embedded(g), weight(g, 8, 12, 1, 1, "in"), ZR_NONE, false));
    refused(g, zr_mean(g, x, ZR_F32), "softmax: each tensor-parallel rank has only its own columns of an operand");
}

/* Attend with q, k and v from weights of the given numbers of columns, cut in the given parts along dimension 1. */
static zr_value attend(zr_graph *g, const zr_attention_spec *spec, const int64_t *cols, const int *parts)
{
    static const char *const names[] = {"q", "k", "v"};
    zr_value x = embedded(g), y[3];
    for (int i = 0; i < 3; i++) y[i] = zr_linear(g, x, weight(g, 8, cols[i], 1, parts[i], names[i]), ZR_NONE, false);
    return zr_attend(g, y[0], y[1], y[2], spec);
}

static void heads_that_are_cut(void **state)
{
    (void)state;
    static const struct {
        zr_attention_spec spec;
        int64_t cols[3];
        int parts[3];
        const char *why;
    } some[] = {
        {{.heads = 3, .kv_heads = 3}, {12, 12, 12}, {1, 0, 0}, "attention: 3 heads over 2 tensor-parallel ranks"},
        {{.heads = 2, .kv_heads = 1},
         {8, 4, 4},
         {1, 1, 1},
         "attention: 1 key-value heads over 2 tensor-parallel ranks"},
        {{.heads = 2, .kv_heads = 2}, {8, 8, 8}, {1, 1, 0}, "the columns of k are cut in 1 parts, of v in 0"},
        {{.heads = 2, .kv_heads = 2}, {8, 8, 8}, {1, 2, 2}, "the columns of k are cut in 2 parts, of v in 2"},
        {{.heads = 2, .kv_heads = 2}, {8, 8, 8}, {0, 1, 1}, "k and v are cut among the tensor-parallel ranks, but q"},
        {{.heads = 2, .kv_heads = 2},
         {12, 12, 12},
         {3, 0, 0},
         "attention: the columns of q are cut in 3 parts; wanted 1"},
        {{.heads = 4, .kv_heads = 2}, {8, 8, 8}, {1, 0, 0}, "attention: k has 8 columns; wanted 4"},
    };
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        zr_graph *g = shared(false);
        refused(g, zr_mean(g, attend(g, &some[i].spec, some[i].cols, some[i].parts), ZR_F32), some[i].why);
    }
    const zr_attention_spec few = {.heads = 4, .kv_heads = 2};
    zr_graph *g = shared(false);
    zr_value x = zr_linear(g, embedded(g), weight(g, 8, 24, 1, 3, "in"), ZR_NONE, false);
    refused(g, zr_mean(g, zr_attend(g, x, ZR_NONE, ZR_NONE, &few), ZR_F32),
            "qkv is cut, and its 4 query heads share 2 key-value heads; wanted q, k and v as separate values");
}

/* Count the ops of a finished graph that join values of tensor-parallel ranks. */
static int joins(const zr_graph *g, zr_join join)
{
    int n = 0;
    for (int32_t i = 0; i < zr_graph_ops(g); i++) n += zr_graph_get_op(g, i)->def->join == join;
    return n;
}

/* Check key-value heads that each rank has whole: without sequence parallelism their gradients are summed; with it
 * their values are gathered, and the adjoint of the gather sums the gradients. */
static void heads_that_are_whole(void **state)
{
    (void)state;
    const zr_attention_spec spec = {.heads = 2, .kv_heads = 1};
    for (int whole = 0; whole < 2; whole++)
        for (int sequence = 0; sequence < 2; sequence++) {
            const zr_attention_spec *of = whole ? &spec : &(zr_attention_spec){.heads = 2, .kv_heads = 2};
            zr_graph *g = shared(sequence);
            zr_value y = attend(g, of, (int64_t[]){12, whole ? 6 : 12, whole ? 6 : 12}, (int[]){1, !whole, !whole});
            assert_int_equal(zr_graph_value(g, y)->cut, 1);
            assert_true(zr_shape_equal(&zr_graph_value(g, y)->type.shape, &SHAPE(3, 2, 6, 6)));
            y = zr_linear(g, y, weight(g, 12, 8, 0, 1, "out"), ZR_NONE, false);
            zr_graph_losses(g, zr_linear_cross_entropy(g, y, weight(g, 10, 8, 0, 1, "head"), tokens(g, "targets")));
            if (zr_graph_finish(g) != ZR_OK) fail_msg("%s", zr_error_message());
            if (sequence) {
                /* gathers: input of the products, input of the head, gradients of out and of the table; k and v */
                assert_int_equal(joins(g, ZR_JOIN_SCATTER), 4 + 2 * whole);
                assert_int_equal(joins(g, ZR_JOIN_SUM), 2 * whole); /* gradients of the weights of k and v */
            } else {
                /* sums: table, out, dx of the head, dx of q; dx of k and of v, or dk and dv */
                assert_int_equal(joins(g, ZR_JOIN_SCATTER), 0);
                assert_int_equal(joins(g, ZR_JOIN_SUM), 6);
            }
            zr_graph_destroy(&g);
        }
}

static void tokens_that_are_shared(void **state)
{
    (void)state;
    zr_graph *g = shared(true);
    zr_value x = embedded(g), gain = zr_param(g, NORMAL, SHAPE(1, 8), "gain"), norm = zr_rmsnorm(g, x, gain, 1e-5);
    assert_true(zr_graph_value(g, norm)->tokens);
    assert_true(zr_shape_equal(&zr_graph_value(g, norm)->type.shape, &SHAPE(2, 6, 8)));
    zr_value hidden = zr_linear(g, norm, weight(g, 8, 12, 1, 1, "in"), ZR_NONE, false);
    assert_true(zr_shape_equal(&zr_graph_value(g, hidden)->type.shape, &SHAPE(3, 2, 6, 6)));
    zr_value gate = zr_linear(g, norm, weight(g, 8, 12, 1, 1, "gate"), ZR_NONE, false);
    x = zr_add(g, x, zr_linear(g, zr_mul(g, hidden, zr_silu(g, gate)), weight(g, 12, 8, 0, 1, "out"), ZR_NONE, false));
    zr_graph_losses(g, zr_linear_cross_entropy(g, x, weight(g, 10, 8, 0, 1, "head"), tokens(g, "targets")));
    if (zr_graph_finish(g) != ZR_OK) fail_msg("%s", zr_error_message());
    int gathers = 0, scatters = 0, sums = 0;
    for (int32_t i = 0; i < zr_graph_ops(g); i++) {
        const zr_op *op = zr_graph_get_op(g, i);
        gathers += strcmp(op->def->name, "tensor_tokens") == 0;
        scatters += strcmp(op->def->name, "tensor_scatter") == 0;
        sums += op->def->join == ZR_JOIN_SUM;
    }
    assert_int_equal(gathers, 4);  /* norm, once for both products; head; gradients of out and of the table */
    assert_int_equal(scatters, 4); /* adjoints of the four gathers */
    assert_int_equal(sums, 1);     /* for the gain's gradient */
    zr_graph_destroy(&g);

    g = shared(true);
    refused(g, zr_mean(g, embedded(g), ZR_F32),
            "mean: each tensor-parallel rank has only its own tokens of an operand");

    g = shared(true);
    gain = zr_param(g, NORMAL, SHAPE(1, 8), "gain");
    x = zr_rmsnorm(g, embedded(g), gain, 1e-5);
    zr_value whole =
        zr_rmsnorm(g, zr_embedding(g, tokens(g, "more"), zr_param(g, NORMAL, SHAPE(2, 10, 8), "uncut")), gain, 1e-5);
    (void)whole;
    refused(g, zr_mean(g, x, ZR_F32), "gain is applied here to all columns and tokens and elsewhere to a rank's own");

    g = shared(true);
    gain = zr_param(g, NORMAL, SHAPE(1, 8), "gain");
    x = zr_rmsnorm(g, embedded(g), zr_scale(g, gain, 2), 1e-5);
    refused(g, x,
            "rmsnorm: each tensor-parallel rank has only its own tokens of one operand (parallel.sequence), but all "
            "tokens of operand 1");

    g = shared(true);
    x = zr_add(g, embedded(g), zr_embedding(g, tokens(g, "more"), zr_param(g, NORMAL, SHAPE(2, 10, 8), "uncut")));
    refused(g, x, "add: each tensor-parallel rank has only its own tokens of one operand");

    g = shared(true);
    x = embedded(g);
    refused(g, zr_mul(g, x, x), "has only a part of the losses");

    g = shared(true);
    x = zr_linear(g, embedded(g), weight(g, 8, 12, 1, 1, "in"), ZR_NONE, false);
    refused(g, x, "has only a part of the losses");

    g = shared(true);
    x = zr_linear(g, embedded(g), zr_param(g, NORMAL, SHAPE(2, 8, 7), "uncut"),
                  zr_param(g, NORMAL, SHAPE(1, 7), "seven"), false);
    x = zr_linear(g, x, zr_param(g, NORMAL, SHAPE(2, 7, 3), "odd"), ZR_NONE, false);
    x = zr_linear(g, x, zr_param(g, NORMAL, SHAPE(2, 3, 8), "back"), ZR_NONE, false);
    refused(
        g, zr_linear_cross_entropy(g, x, weight(g, 10, 8, 0, 1, "head"), tokens(g, "targets")),
        "gradient of odd: its 21 elements cannot be summed in equal pieces by 2 tensor-parallel ranks; a degree that "
        "divides them would do, or parallel.sequence off");

    zr_graph_spec spec = {.mode = ZR_MODE_TRAIN,
                          .batch = 1,
                          .seq = 7,
                          .dtype = ZR_F32,
                          .grad_dtype = ZR_F32,
                          .tensor = 2,
                          .sequence = true};
    assert_int_equal(zr_graph_create(&spec, &g), ZR_OK);
    zr_graph_unit(g, "u");
    x = zr_embedding(g, zr_input(g, "ids", ZR_I32, SHAPE(2, 1, 7)), weight(g, 10, 8, 0, 1, "table"));
    refused(g, x, "1 x 7 tokens of a micro-batch cannot be shared by 2 tensor-parallel ranks (parallel.sequence)");
}

/* Return the heads of the embedding: 2 of the 4 heads of 3 columns on each rank. */
static zr_value heads(zr_graph *g)
{
    return zr_linear(g, embedded(g), weight(g, 8, 12, 1, 1, "in"), ZR_NONE, false);
}

static void close_heads(zr_graph *g, zr_value x)
{
    x = zr_linear(g, x, weight(g, 12, 8, 0, 1, "out"), ZR_NONE, false);
    zr_graph_losses(g, zr_linear_cross_entropy(g, x, weight(g, 10, 8, 0, 1, "head"), tokens(g, "targets")));
}

/* Check dropout of a value that is cut by columns: it keeps the cut, and its attributes have the place of this rank's
 * columns. Here a rank has 3 columns of each of 4 parts of 6 columns, in rows of 6 tokens. */
static void dropout_of_columns(void **state)
{
    (void)state;
    for (int sequence = 0; sequence < 2; sequence++) {
        zr_graph *g = shared(sequence);
        const zr_value x = zr_linear(g, embedded(g), weight(g, 8, 24, 1, 4, "in"), ZR_NONE, false);
        const zr_value y = zr_dropout(g, x, 0.25);
        if (y == ZR_NONE) fail_msg("%s", zr_error_message());
        assert_int_equal(zr_graph_value(g, y)->cut, 4);
        const zr_op *op = zr_graph_get_op(g, zr_graph_value(g, y)->producer);
        const int64_t want[] = {0, 6 * 24, 3, 2};
        for (int i = 0; i < 4; i++) assert_int_equal(op->attr.i[i], want[i]);
        zr_graph_destroy(&g);
    }
}

/* Check that a norm of heads and a rotation keep the cut of their operand. Each rank computes a part of the gain's
 * gradient, with and without sequence parallelism. */
static void norms_of_heads_that_are_cut(void **state)
{
    (void)state;
    const zr_rotary_spec rotary = {.width = 2, .theta = 1e4};
    for (int sequence = 0; sequence < 2; sequence++) {
        zr_graph *g = shared(sequence);
        zr_value gain = zr_param(g, NORMAL, SHAPE(1, 2), "gain"), x = zr_rmsnorm(g, heads(g), gain, 1e-5);
        assert_int_equal(zr_graph_value(g, x)->cut, 1);
        x = zr_rotary(g, zr_rmsnorm_rounded(g, x, gain, 1e-5), zr_rotary_table(g, &rotary)); /* one sum for both uses */
        assert_int_equal(zr_graph_value(g, x)->cut, 1);
        close_heads(g, zr_swiglu(g, x, x));
        if (zr_graph_finish(g) != ZR_OK) fail_msg("%s", zr_error_message());
        int sums = 0;
        for (int32_t i = 0; i < zr_graph_ops(g); i++) {
            const zr_op *op = zr_graph_get_op(g, i);
            sums += op->def->join == ZR_JOIN_SUM && zr_graph_value(g, op->out[0])->kind == ZR_VALUE_GRAD;
        }
        assert_int_equal(sums, 1);
        zr_graph_destroy(&g);
    }

    zr_graph *g = shared(false);
    zr_value gain = zr_param(g, NORMAL, SHAPE(1, 2), "gain");
    zr_value whole = zr_rmsnorm(g, embedded(g), gain, 1e-5);
    (void)whole;
    zr_value x = zr_linear(g, whole, weight(g, 8, 12, 1, 1, "in"), ZR_NONE, false);
    refused(g, zr_rmsnorm(g, x, gain, 1e-5),
            "rmsnorm: gain is applied here to a rank's own columns or tokens and elsewhere to all");

    g = shared(false);
    x = zr_rmsnorm(g, heads(g), zr_param(g, NORMAL, SHAPE(1, 12), "gain"), 1e-5);
    refused(g, x, "rmsnorm: operand gain is F32 (12); wanted F32 (6)");

    g = shared(false);
    x = zr_rmsnorm(g, heads(g), zr_scale(g, zr_param(g, NORMAL, SHAPE(1, 2), "gain"), 2), 1e-5);
    refused(
        g, x,
        "rmsnorm: each tensor-parallel rank has other columns of x, and an op computes the gain; wanted a parameter");

    g = shared(false);
    gain = zr_param(g, NORMAL, SHAPE(1, 6), "gain");
    refused(g, zr_layernorm(g, heads(g), gain, gain, 1e-5),
            "layernorm: each tensor-parallel rank has only its own columns of an operand");

    g = shared(false);
    x = zr_rmsnorm(g, heads(g), zr_param(g, NORMAL, SHAPE(1, 3), "gain"), 1e-5);
    close_heads(g, x);
    assert_int_equal(zr_graph_finish(g), ZR_OK);
    int gathers = 0; /* the parts of 3 elements, which two ranks cannot sum in equal pieces, are gathered */
    for (int32_t i = 0; i < zr_graph_ops(g); i++)
        gathers += strcmp(zr_graph_get_op(g, i)->def->name, "tensor_gather") == 0 &&
                   zr_shape_elems(&zr_graph_value(g, zr_graph_get_op(g, i)->in[0])->type.shape) == 3;
    assert_int_equal(gathers, 1);
    zr_graph_destroy(&g);

    g = shared(true); /* this rank has 6 of the 12 rows, which are in a sequence of 6 tokens */
    x = zr_rotary(g, embedded(g), zr_rotary_table(g, &rotary));
    assert_true(zr_graph_value(g, x)->tokens);
    assert_int_equal(zr_graph_get_op(g, zr_graph_value(g, x)->producer)->attr.i[1], 6);
    refused(g, x, "has only a part of the losses");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_that_are_cut),        cmocka_unit_test(heads_that_are_cut),
        cmocka_unit_test(heads_that_are_whole),        cmocka_unit_test(tokens_that_are_shared),
        cmocka_unit_test(norms_of_heads_that_are_cut), cmocka_unit_test(dropout_of_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
