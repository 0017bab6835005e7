/* Layers: parts of models that consist of several ops and declare their own parameters. */
#include "graph/internal.h"
#include "zr/layers.h"

#include <inttypes.h>
#include <stdio.h>

static const zr_init zero = {.kind = ZR_INIT_ZERO}, one = {.kind = ZR_INIT_ONE};

/* Return whether a layer has a name. If not, store an error in the graph. */
static bool is_named(zr_graph *graph, const char *layer, const char *name)
{
    if (!name) zr_graph_error(graph, ZR_ERR_ARG, "%s: its name must not be NULL", layer);
    return name != NULL;
}

zr_value zr_layer_linear(zr_graph *graph, zr_value x, int64_t inputs, int64_t outputs, zr_cut cut, double std,
                         const char *name)
{
    if (!is_named(graph, "linear layer", name)) return ZR_NONE;
    const zr_init init = {.kind = ZR_INIT_NORMAL, .std = std};
    const zr_cut bias_cut = {0, cut.dim == 0 ? cut.parts : 0};
    zr_value w = zr_param_cut(graph, init, ZR_SHAPE(outputs, inputs), cut, "%s.weight", name);
    zr_value b = zr_param_cut(graph, zero, ZR_SHAPE(outputs), bias_cut, "%s.bias", name);
    return zr_linear(graph, x, w, b, true);
}

zr_value zr_layer_norm(zr_graph *graph, zr_value x, double eps, const char *name)
{
    if (!is_named(graph, "layer norm", name)) return ZR_NONE;
    const zr_value_info *info = zr_graph_value(graph, x);
    const int64_t width = info ? zr_shape_cols(&info->type.shape) : 1;
    zr_value gain = zr_param(graph, one, ZR_SHAPE(width), "%s.weight", name);
    zr_value bias = zr_param(graph, zero, ZR_SHAPE(width), "%s.bias", name);
    return zr_layernorm(graph, x, gain, bias, eps);
}

/* ---- encoder ---------------------------------------------------------------------------------- */

/* Cuts of a weight of shape (outputs, inputs), as in Megatron (Shoeybi et al. 2019, section 3). A cut by outputs gives
 * each tensor-parallel rank whole heads or hidden units. The next weight is cut by inputs. */
static const zr_cut by_outputs = {0, 1}, by_inputs = {1, 1};

/* An encoder layer that is being built: its spec, in which `settle` has replaced the zeros, and C, the width of x. */
typedef struct encoder {
    zr_graph *graph;
    zr_encoder_spec spec;
    int64_t C;
} encoder;

/* BERT's names of the parts of a layer, without (index 0) and with (1) pre_layer_norm. */
static const char *const standard_name[2][ZR_ENCODER_PARTS] = {
    {"attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
     "attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm"},
    {"attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
     "PreAttentionLayerNorm", "intermediate.dense", "output.dense", "PostAttentionLayerNorm"},
};

/* Return the name of a part. The text is in a temporary array of the calling block. */
#define NAME(e, part) part_name((char[ZR_NAME_MAX]){0}, e, part)
static const char *part_name(char name[ZR_NAME_MAX], const encoder *e, zr_encoder_part part)
{
    const char *own = e->spec.name[part];
    const int length = snprintf(name, ZR_NAME_MAX, "%s%s", e->spec.prefix ? e->spec.prefix : "",
                                own ? own : standard_name[e->spec.pre_layer_norm][part]);
    if (length >= ZR_NAME_MAX)
        zr_graph_error(e->graph, ZR_ERR_CONFIG,
                       "encoder layer: a name begins with %.40s and has %d characters; wanted at most %d", name, length,
                       ZR_NAME_MAX - 1);
    return name;
}

static zr_value norm(const encoder *e, zr_value x, zr_encoder_part part)
{
    return zr_layer_norm(e->graph, x, e->spec.eps, NAME(e, part));
}

static zr_value linear(const encoder *e, zr_value x, zr_encoder_part part)
{
    const int64_t inner = e->spec.inner;
    const bool residual = part == ZR_ENCODER_ATTENTION_OUTPUT || part == ZR_ENCODER_OUTPUT;
    return zr_layer_linear(e->graph, x, part == ZR_ENCODER_OUTPUT ? inner : e->C,
                           part == ZR_ENCODER_INNER ? inner : e->C, residual ? by_inputs : by_outputs,
                           residual ? e->spec.residual_std : e->spec.std, NAME(e, part));
}

static zr_value self_attention(const encoder *e, zr_value x)
{
    const zr_attention_spec spec = {
        .heads = e->spec.heads, .kv_heads = e->spec.heads, .bidirectional = true, .dropout = e->spec.attention_dropout};
    zr_value q = linear(e, x, ZR_ENCODER_QUERY);
    zr_value k = linear(e, x, ZR_ENCODER_KEY);
    zr_value v = linear(e, x, ZR_ENCODER_VALUE);
    zr_value y = linear(e, zr_attend(e->graph, q, k, v, &spec), ZR_ENCODER_ATTENTION_OUTPUT);
    return zr_dropout(e->graph, y, e->spec.dropout);
}

static zr_value mlp(const encoder *e, zr_value x)
{
    zr_value h = zr_gelu_erf(e->graph, linear(e, x, ZR_ENCODER_INNER));
    return zr_dropout(e->graph, linear(e, h, ZR_ENCODER_OUTPUT), e->spec.dropout);
}

/* Replace zeros of the spec by the sizes that they stand for, and check the sizes. */
static zr_status settle(encoder *e, const zr_encoder_spec *spec, const zr_value_info *x)
{
    ZR_CHECK(spec, ZR_ERR_ARG, "encoder layer: the spec must not be NULL");
    ZR_CHECK(x, ZR_ERR_ARG, "encoder layer: x is missing; wanted a value (B,T,C) of this graph");
    ZR_CHECK(x->type.shape.ndim >= 2, ZR_ERR_SHAPE, "encoder layer: x has %d dimensions; wanted (B,T,C)",
             x->type.shape.ndim);
    ZR_CHECK(
        x->cut == 0, ZR_ERR_UNSUPPORTED,
        "encoder layer: each tensor-parallel rank has only its own columns of x; wanted a value that every rank has "
        "whole, such as the result of zr_layer_linear cut by inputs");
    e->C = zr_shape_cols(&x->type.shape);
    e->spec = *spec;
    if (spec->inner == 0) e->spec.inner = 4 * e->C;
    if (spec->residual_std == 0) e->spec.residual_std = spec->std;
    ZR_CHECK(spec->heads >= 1 && e->C % spec->heads == 0, ZR_ERR_CONFIG,
             "encoder layer: %" PRId64 " heads; wanted a number that divides the width of x, %" PRId64, spec->heads,
             e->C);
    ZR_CHECK(e->spec.inner >= 1, ZR_ERR_CONFIG,
             "encoder layer: inner is %" PRId64 "; wanted at least 1, or 0 for 4 "
             "times the width of x",
             spec->inner);
    return ZR_OK;
}

zr_value zr_layer_encoder(zr_graph *graph, zr_value x, const zr_encoder_spec *spec)
{
    encoder e = {.graph = graph};
    if (zr__graph_closed(graph)) return ZR_NONE;
    const zr_status settled = settle(&e, spec, zr_graph_value(graph, x));
    zr__graph_latch(graph, settled);
    if (settled != ZR_OK) return ZR_NONE;
    if (spec->pre_layer_norm) {
        x = zr_add(graph, x, self_attention(&e, norm(&e, x, ZR_ENCODER_ATTENTION_NORM)));
        return zr_add(graph, x, mlp(&e, norm(&e, x, ZR_ENCODER_NORM)));
    }
    x = norm(&e, zr_add(graph, x, self_attention(&e, x)), ZR_ENCODER_ATTENTION_NORM);
    return norm(&e, zr_add(graph, x, mlp(&e, x)), ZR_ENCODER_NORM);
}
