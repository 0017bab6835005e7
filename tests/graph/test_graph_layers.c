//TEST timeout=20
/* Layers: the parameters that they declare, their shapes, and the specs that are refused. */
#include <math.h>
#include <string.h>

#include "graph_new.h"
#include "zr/layers.h"

enum { HEADS = 2, INNER = 10 };

static zr_value wide(zr_graph *graph)
{
    return zr_input(graph, "x", ZR_F32, SHAPE(3, B, T, C));
}

static const zr_param_info *param(const zr_graph *graph, const char *name)
{
    for (int32_t i = 0; i < zr_graph_params(graph); i++)
        if (strcmp(zr_graph_param(graph, i)->name, name) == 0) return zr_graph_param(graph, i);
    fail_msg("no parameter %s", name);
    return NULL;
}

static void assert_shape(const zr_graph *graph, const char *name, zr_shape shape)
{
    assert_true(zr_shape_equal(&param(graph, name)->shape, &shape));
}

/* ---- parameters ------------------------------------------------------------------------------ */

static void test_parts(void **state)
{
    (void)state;
    zr_graph *g = graph_new(ZR_MODE_EVAL, ZR_F32);
    const zr_value y = zr_layer_linear(g, wide(g), C, V, (zr_cut){0, 1}, 0.5, "head");
    zr_layer_norm(g, y, 1e-5, "norm");
    assert_int_equal(zr_graph_params(g), 4);
    assert_shape(g, "head.weight", SHAPE(2, V, C));
    assert_shape(g, "head.bias", SHAPE(1, V));
    assert_shape(g, "norm.weight", SHAPE(1, V));
    assert_int_equal(param(g, "head.weight")->init.kind, ZR_INIT_NORMAL);
    assert_float_equal(param(g, "head.weight")->init.std, 0.5, 0);
    assert_int_equal(param(g, "norm.weight")->init.kind, ZR_INIT_ONE);
    assert_int_equal(param(g, "norm.bias")->init.kind, ZR_INIT_ZERO);
    zr_graph_destroy(&g);
}

/* Check BERT's names and a user's own names, and that a size of 0 stands for 4 C and a deviation of 0 for `std`. */
static void test_encoder(void **state)
{
    (void)state;
    zr_graph *g = graph_new(ZR_MODE_EVAL, ZR_F32);
    zr_encoder_spec spec = {.heads = HEADS, .inner = INNER, .eps = 1e-5, .std = 0.5, .residual_std = 0.25};
    zr_value x = zr_layer_encoder(g, wide(g), &spec);
    const zr_shape same = SHAPE(3, B, T, C);
    assert_true(zr_shape_equal(&zr_graph_value(g, x)->type.shape, &same));
    assert_int_equal(zr_graph_params(g), 16);
    assert_shape(g, "attention.self.query.weight", SHAPE(2, C, C));
    assert_shape(g, "intermediate.dense.weight", SHAPE(2, INNER, C));
    assert_shape(g, "output.dense.weight", SHAPE(2, C, INNER));
    assert_shape(g, "attention.output.LayerNorm.bias", SHAPE(1, C));
    assert_float_equal(param(g, "intermediate.dense.weight")->init.std, 0.5, 0);
    assert_float_equal(param(g, "output.dense.weight")->init.std, 0.25, 0);
    assert_float_equal(param(g, "attention.output.dense.weight")->init.std, 0.25, 0);
    assert_string_equal(zr_graph_get_op(g, zr_graph_value(g, x)->producer)->def->name, "layernorm");

    spec = (zr_encoder_spec){.heads = HEADS,
                             .eps = 1e-5,
                             .std = 0.5,
                             .pre_layer_norm = true,
                             .prefix = "mine.1.",
                             .name[ZR_ENCODER_INNER] = "up"};
    x = zr_layer_encoder(g, x, &spec);
    assert_int_equal(zr_graph_params(g), 32);
    assert_shape(g, "mine.1.up.weight", SHAPE(2, 4 * C, C));
    assert_shape(g, "mine.1.PreAttentionLayerNorm.weight", SHAPE(1, C));
    assert_shape(g, "mine.1.PostAttentionLayerNorm.weight", SHAPE(1, C));
    assert_float_equal(param(g, "mine.1.output.dense.weight")->init.std, 0.5, 0);
    assert_string_equal(zr_graph_get_op(g, zr_graph_value(g, x)->producer)->def->name, "add");
    assert_int_equal(zr_graph_finish(g), ZR_OK);
    zr_graph_destroy(&g);
}

/* ---- specs that are refused ------------------------------------------------------------------- */

static void refuse_graph(zr_graph *g, zr_status status, const char *text)
{
    const zr_status given = zr_graph_finish(g);
    if (given != status || !strstr(zr_error_message(), text)) fail_msg("%s; wanted %s", zr_error_message(), text);
    zr_graph_destroy(&g);
}

static void refuse(const zr_encoder_spec *spec, zr_shape x, zr_status status, const char *text)
{
    zr_graph *g = graph_new(ZR_MODE_EVAL, ZR_F32);
    zr_layer_encoder(g, zr_input(g, "x", ZR_F32, x), spec);
    refuse_graph(g, status, text);
}

static void test_refused(void **state)
{
    (void)state;
    const zr_shape x = SHAPE(3, B, T, C);
    char prefix[ZR_NAME_MAX];
    memset(prefix, 'p', sizeof prefix);
    prefix[ZR_NAME_MAX - 10] = 0;
    refuse(&(zr_encoder_spec){.heads = 4, .eps = 1e-5}, x, ZR_ERR_CONFIG,
           "unit \"u\": encoder layer: 4 heads; wanted a number that divides the width of x, 6");
    refuse(&(zr_encoder_spec){.eps = 1e-5}, x, ZR_ERR_CONFIG, "encoder layer: 0 heads");
    refuse(&(zr_encoder_spec){.heads = 2, .inner = -1, .eps = 1e-5}, x, ZR_ERR_CONFIG, "inner is -1");
    refuse(
        &(zr_encoder_spec){.heads = 2, .std = -1, .eps = 1e-5}, x, ZR_ERR_CONFIG,
        "parameter attention.self.query.weight: the standard deviation of its initial values is -1; wanted a finite");
    refuse(&(zr_encoder_spec){.heads = 2, .std = NAN, .eps = 1e-5}, x, ZR_ERR_CONFIG, "initial values is nan");
    refuse(&(zr_encoder_spec){.heads = 2, .residual_std = INFINITY, .eps = 1e-5}, x, ZR_ERR_CONFIG,
           "parameter attention.output.dense.weight: the standard deviation of its initial values is inf");
    refuse(NULL, x, ZR_ERR_ARG, "encoder layer: the spec must not be NULL");
    refuse(&(zr_encoder_spec){.heads = 2, .eps = 1e-5}, SHAPE(1, C), ZR_ERR_SHAPE,
           "x has 1 dimensions; wanted (B,T,C)");
    refuse(&(zr_encoder_spec){.heads = 2}, x, ZR_ERR_ARG, "layernorm: eps is 0; wanted above 0");
    refuse(&(zr_encoder_spec){.heads = 2, .eps = 1e-5, .dropout = 1}, x, ZR_ERR_ARG, "dropout");
    refuse(&(zr_encoder_spec){.heads = 2, .eps = 1e-5, .prefix = prefix}, x, ZR_ERR_CONFIG, "wanted at most 95");
}

/* Check values that no layer can take: one that is missing, and columns that are cut over two tensor-parallel ranks. */
static void test_operands(void **state)
{
    (void)state;
    const zr_encoder_spec spec = {.heads = 2, .eps = 1e-5, .std = 0.5, .inner = INNER};
    const zr_graph_spec two = {
        .mode = ZR_MODE_EVAL, .batch = B, .seq = T, .dtype = ZR_F32, .grad_dtype = ZR_F32, .tensor = 2};
    zr_graph *g = graph_new(ZR_MODE_EVAL, ZR_F32);
    zr_layer_encoder(g, ZR_NONE, &spec);
    refuse_graph(g, ZR_ERR_ARG, "encoder layer: x is missing");
    g = graph_new(ZR_MODE_EVAL, ZR_F32);
    zr_layer_linear(g, wide(g), C, V, (zr_cut){0, 1}, 0.5, NULL);
    refuse_graph(g, ZR_ERR_ARG, "linear layer: its name must not be NULL");
    g = graph_new(ZR_MODE_EVAL, ZR_F32);
    zr_layer_norm(g, wide(g), 1e-5, NULL);
    refuse_graph(g, ZR_ERR_ARG, "layer norm: its name must not be NULL");

    for (int kind = 0; kind < 3; kind++) {
        assert_int_equal(zr_graph_create(&two, &g), ZR_OK);
        zr_graph_unit(g, "u");
        zr_value x = zr_layer_linear(g, wide(g), C, 2 * C, (zr_cut){0, 1}, 0.5, "cut");
        if (kind == 0) zr_layer_encoder(g, x, &spec);
        if (kind == 1) zr_layer_linear(g, x, C, V, (zr_cut){0, 0}, 0.5, "whole");
        if (kind == 2) zr_layer_linear(g, x, C, 2 * C, (zr_cut){0, 1}, 0.5, "by outputs");
        refuse_graph(g, ZR_ERR_UNSUPPORTED,
                     kind == 0 ? "has only its own columns of x" : "but the weight's rows are not cut");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_encoder),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_operands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
