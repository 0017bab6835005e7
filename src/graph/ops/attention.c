/* attention: causal multi-head self-attention, over a whole sequence or, when decoding, one token at a time. */
#include "graph/internal.h"

#include <inttypes.h>
#include <math.h>

/* Set *C to a third of the last dimension of qkv, 3C, and check that the number of heads divides *C. */
static zr_status check_heads(const zr_graph *graph, const zr_op *op, int operand, int64_t *C)
{
    zr_dtype g = zr_graph_get_spec(graph)->dtype;
    int64_t n_head = op->attr.i[0];
    ZR_TRY(zr__want(graph, op, operand, "qkv", g, ZR__SHAPE(ZR__ANY, ZR__ANY, ZR__ANY)));
    int64_t cols = zr__in(graph, op, operand)->shape.dim[2];
    ZR_CHECK(cols % 3 == 0, ZR_ERR_SHAPE,
             "%s: qkv's last dimension, %" PRId64 ", is no multiple of 3; wanted q, k and v side by side",
             op->def->name, cols);
    ZR_CHECK(n_head >= 1 && cols / 3 % n_head == 0, ZR_ERR_SHAPE,
             "%s: %" PRId64 " heads do not divide the width %" PRId64, op->def->name, n_head, cols / 3);
    *C = cols / 3;
    return ZR_OK;
}

/* Return the cost with model FLOPs counted as in the papers (ZeRO SC20 artifact; Narayanan et al. 2021, appendix). Each
 * product takes D multiply-adds for each of a head's T x T pairs of tokens, including the masked half. D is the width
 * of a head, and all heads together have width C. Scores that the backward pass recomputes are not counted. */
static zr_cost pairs_cost(const zr_graph *graph, const zr_op *op, int products, const zr_shape *y)
{
    double B = (double)y->dim[0], T = (double)y->dim[1], C = (double)y->dim[2];
    const double heads = (double)op->attr.i[0];
    return (zr_cost){.flops = 2.0 * products * B * C * T * T,
                     .bytes = zr__bytes(graph, op),
                     .pairs = B * heads * T * T,
                     .head = y->dim[2] / op->attr.i[0]};
}

/* ---- attention_dx ---------------------------------------------------------------------------- */

static zr_status attention_dx_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    zr_dtype g = zr_graph_get_spec(graph)->dtype;
    int64_t C = 0;
    ZR_TRY(check_heads(graph, op, 1, &C));
    const zr_type *qkv = zr__in(graph, op, 1);
    zr_shape y = ZR__SHAPE(qkv->shape.dim[0], qkv->shape.dim[1], C);
    ZR_TRY(zr__want(graph, op, 0, "dy", g, y));
    ZR_TRY(zr__want(graph, op, 2, "y", g, y));
    ZR_TRY(zr__want(graph, op, 3, "lse", ZR_F32, ZR__SHAPE(y.dim[0], op->attr.i[0], y.dim[1])));
    out[0] = *qkv;
    return ZR_OK;
}

/* Count four products: dp, dq, dk and dv. */
static zr_cost attention_dx_cost(const zr_graph *graph, const zr_op *op)
{
    return pairs_cost(graph, op, 4, &zr__in(graph, op, 0)->shape);
}

static const zr_op_def attention_dx = {
    .name = "attention_dx",
    .in_f32 = true,
    .n_out = 1,
    .infer = attention_dx_infer,
    .cost = attention_dx_cost,
};

/* ---- attention ------------------------------------------------------------------------------- */

static zr_status attention_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    const zr_graph_spec *spec = zr_graph_get_spec(graph);
    int64_t C = 0;
    ZR_TRY(zr__want_at_most(op, 1));
    ZR_TRY(check_heads(graph, op, 0, &C));
    const int64_t *qkv = zr__in(graph, op, 0)->shape.dim;
    /* With dropout, the first dimension must be the batch, whose rows index the random numbers. */
    ZR_CHECK(op->attr.f[1] == 0 || qkv[0] == spec->batch, ZR_ERR_SHAPE,
             "attention: qkv's first dimension is %" PRId64 "; with dropout wanted the batch, %" PRId64, qkv[0],
             spec->batch);
    out[0] = (zr_type){spec->dtype, ZR__SHAPE(qkv[0], qkv[1], C)};
    out[1] = (zr_type){ZR_F32, ZR__SHAPE(qkv[0], op->attr.i[0], qkv[1])};
    return ZR_OK;
}

static zr_status attention_adjoint(zr_graph *graph, const zr_op *op)
{
    const zr_value in[] = {zr_grad_of(graph, op->out[0]), op->in[0], op->out[0], op->out[1]};
    return zr__contribute(graph, op->in[0], &attention_dx, &op->attr, 4, in);
}

static zr_cost attention_cost(const zr_graph *graph, const zr_op *op)
{
    return pairs_cost(graph, op, 2, &zr__out(graph, op, 0)->shape);
}

static const zr_op_def attention = {
    .name = "attention",
    .in_f32 = true,
    .selective = true,
    .keeps_cut = true,
    .n_out = 2,
    .infer = attention_infer,
    .adjoint = attention_adjoint,
    .cost = attention_cost,
};

/* ---- attention_cached ------------------------------------------------------------------------ */

static zr_status cached_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    const zr_graph_spec *spec = zr_graph_get_spec(graph);
    int64_t C = 0;
    ZR_TRY(check_heads(graph, op, 0, &C));
    ZR_TRY(zr__want(graph, op, 0, "qkv", spec->dtype, ZR__SHAPE(1, 1, 3 * C)));
    ZR_TRY(zr__want(graph, op, 1, "cache", spec->dtype, ZR__SHAPE(2, spec->cache_len, C)));
    out[0] = (zr_type){spec->dtype, ZR__SHAPE(1, 1, C)};
    return ZR_OK;
}

/* Return the cost for the longest sequence, as an upper bound, because the position is known only at run time. */
static zr_cost cached_cost(const zr_graph *graph, const zr_op *op)
{
    const int64_t *cache = zr__in(graph, op, 1)->shape.dim;
    return (zr_cost){.flops = 4.0 * (double)cache[1] * (double)cache[2], .bytes = zr__bytes(graph, op)};
}

static const zr_op_def attention_cached = {
    .name = "attention_cached",
    .in_f32 = true,
    .n_out = 1,
    .infer = cached_infer,
    .cost = cached_cost,
};

/* ---- builder --------------------------------------------------------------------------------- */

zr_value zr_attention(zr_graph *graph, zr_value qkv, int64_t n_head, double dropout)
{
    if (!zr__probability_ok(graph, "attention", dropout)) return ZR_NONE;
    const zr_graph_spec *spec = zr_graph_get_spec(graph);
    const zr_value_info *info = zr_graph_value(graph, qkv);
    if (info && info->cut) {
        if (info->cut != 3)
            zr_graph_error(graph, ZR_ERR_UNSUPPORTED,
                           "attention: the columns of qkv are cut in %d parts; wanted 3, queries, keys and values",
                           info->cut);
        if (n_head % spec->tensor != 0)
            zr_graph_error(graph, ZR_ERR_CONFIG,
                           "attention: %" PRId64 " heads over %" PRId64 " tensor-parallel ranks: a degree that divides "
                           "the heads is wanted",
                           n_head, spec->tensor);
    }
    const int64_t all_heads = n_head;
    if (info && info->cut) n_head /= spec->tensor; /* a rank has only its own heads */
    int64_t width = info ? zr_shape_cols(&info->type.shape) / 3 : 0;
    if (n_head < 1 || width < n_head) {
        zr_graph_error(graph, ZR_ERR_SHAPE, "attention: %" PRId64 " heads do not divide the width %" PRId64, n_head,
                       width);
        return ZR_NONE;
    }
    zr_op_attr attr = {
        .i = {n_head, zr__graph_stream(graph), all_heads},
        .f = {1.0 / sqrt((double)(width / n_head)), spec->mode == ZR_MODE_TRAIN ? dropout : 0},
    };
    if (spec->mode == ZR_MODE_DECODE) {
        zr_type type = {spec->dtype, ZR__SHAPE(2, spec->cache_len, width)};
        zr_value cache = zr__graph_value_add(graph, ZR_VALUE_CACHE, type, -1);
        return zr__apply(graph, &attention_cached, &attr, 2, (zr_value[]){qkv, cache});
    }
    const bool cut = info && info->cut; /* whether y is cut: a rank's heads produce only the rank's own columns of y */
    zr_value out[2] = {ZR_NONE, ZR_NONE};
    zr_graph_op(graph, &attention, &attr, 1, &qkv, out);
    for (int i = 0; i < 2 && cut; i++)
        if (out[i] != ZR_NONE) graph->value[out[i]].info.cut = 1;
    return out[0];
}
