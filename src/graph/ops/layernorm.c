/* layernorm over the last dimension. */
#include "graph/internal.h"

/* dgain and dbias are summed over rows in so many slices, whatever the number of threads, so that
 * the bits do not depend on it. */
enum { SLICES = 16 };

static zr_shape row_shape(zr_shape shape)
{
    /* (B, T, C) -> (B, T); a single vector has one row. */
    if (shape.ndim > 1)
        shape.ndim--;
    else
        shape.dim[0] = 1;
    shape.dim[shape.ndim] = 0;
    return shape;
}

/* ---- adjoint's ops ---------------------------------------------------------------------------- */

static zr_status dx_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    zr_dtype g = zr_graph_get_spec(graph)->dtype;
    ZR_TRY(zr__want_ndim(graph, op, 0, "dy", g, 1));
    zr_shape dy = zr__in(graph, op, 0)->shape, rows = row_shape(dy);
    ZR_TRY(zr__want(graph, op, 1, "x", g, dy));
    ZR_TRY(zr__want(graph, op, 2, "gain", g, ZR__SHAPE(zr_shape_cols(&dy))));
    ZR_TRY(zr__want(graph, op, 3, "mean", ZR_F32, rows));
    ZR_TRY(zr__want(graph, op, 4, "rstd", ZR_F32, rows));
    ZR_TRY(zr__want_optional(graph, op, 5, "earlier", g, dy));
    out[0] = (zr_type){g, dy};
    return ZR_OK;
}

static const zr_op_def layernorm_dx = {
    .name = "layernorm_dx",
    .n_out = 1,
    .infer = dx_infer,
    .cost = zr__cost_bytes,
    .in_place = {1}, /* dy, which is always there; earlier is not */
};

static zr_status dw_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    zr_dtype g = zr_graph_get_spec(graph)->dtype;
    ZR_TRY(zr__want_ndim(graph, op, 0, "dy", g, 1));
    zr_shape dy = zr__in(graph, op, 0)->shape, rows = row_shape(dy);
    ZR_TRY(zr__want(graph, op, 1, "x", g, dy));
    ZR_TRY(zr__want(graph, op, 2, "mean", ZR_F32, rows));
    ZR_TRY(zr__want(graph, op, 3, "rstd", ZR_F32, rows));
    for (int i = 0; i < 2; i++) out[i] = (zr_type){zr__sum_dtype(graph, op, i), ZR__SHAPE(zr_shape_cols(&dy))};
    return ZR_OK;
}

static int64_t dw_scratch(const zr_graph *graph, const zr_op *op, const zr_profile *profile)
{
    (void)profile;
    return SLICES * 2 * 4 * zr_shape_cols(&zr__in(graph, op, 0)->shape);
}

static const zr_op_def layernorm_dw = {
    .name = "layernorm_dw",
    .n_out = 2,
    .infer = dw_infer,
    .cost = zr__cost_bytes,
    .scratch_bytes = dw_scratch,
};

/* ---- layernorm ------------------------------------------------------------------------------- */

static zr_status layernorm_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    zr_dtype g = zr_graph_get_spec(graph)->dtype;
    ZR_CHECK(op->attr.f[0] > 0, ZR_ERR_ARG, "layernorm: eps is %g; wanted above 0", op->attr.f[0]);
    ZR_TRY(zr__want_at_most(op, 3));
    ZR_TRY(zr__want_ndim(graph, op, 0, "x", g, 1));
    zr_shape x = zr__in(graph, op, 0)->shape;
    ZR_TRY(zr__want(graph, op, 1, "gain", g, ZR__SHAPE(zr_shape_cols(&x))));
    ZR_TRY(zr__want(graph, op, 2, "bias", g, ZR__SHAPE(zr_shape_cols(&x))));
    out[0] = (zr_type){g, x};
    out[1] = out[2] = (zr_type){ZR_F32, row_shape(x)};
    return ZR_OK;
}

/* dw first: then dy dies at dx, which can take its place. */
static zr_status layernorm_adjoint(zr_graph *graph, const zr_op *op)
{
    zr_value x = op->in[0], gain = op->in[1], bias = op->in[2], mean = op->out[1], rstd = op->out[2];
    zr_value dy = zr_grad_of(graph, op->out[0]), earlier = ZR_NONE;
    bool needs_gain = zr_grad_needed(graph, gain), needs_bias = zr_grad_needed(graph, bias);
    if (needs_gain || needs_bias) {
        zr_value dw[2] = {ZR_NONE, ZR_NONE};
        if (needs_gain) dw[0] = zr_grad_begin(graph, gain, NULL);
        if (needs_bias) dw[1] = zr_grad_begin(graph, bias, NULL);
        zr_graph_op(graph, &layernorm_dw, NULL, 4, (zr_value[]){dy, x, mean, rstd}, dw);
        if (needs_gain) zr_grad_end(graph, gain, dw[0]);
        if (needs_bias) zr_grad_end(graph, bias, dw[1]);
    }
    if (zr_grad_needed(graph, x)) {
        zr_value dx = zr_grad_begin(graph, x, &earlier);
        zr_graph_op(graph, &layernorm_dx, NULL, 6, (zr_value[]){dy, x, gain, mean, rstd, earlier}, &dx);
        zr_grad_end(graph, x, dx);
    }
    return ZR_OK;
}

static const zr_op_def layernorm = {
    .name = "layernorm",
    .n_out = 3,
    .infer = layernorm_infer,
    .adjoint = layernorm_adjoint,
    .cost = zr__cost_bytes,
    .cheap = true,
};

zr_value zr_layernorm(zr_graph *graph, zr_value x, zr_value gain, zr_value bias, double eps)
{
    zr_value out[3] = {ZR_NONE, ZR_NONE, ZR_NONE};
    zr_op_attr attr = {.f = {eps}};
    zr_graph_op(graph, &layernorm, &attr, 3, (zr_value[]){x, gain, bias}, out);
    return out[0];
}
