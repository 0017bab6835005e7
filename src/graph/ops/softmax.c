/* softmax and mean over the last dimension. */
#include "graph/internal.h"

/* ---- softmax --------------------------------------------------------------------------------- */

static zr_status softmax_dx_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    return zr__map_infer(graph, op, 2, (const char *[]){"dy", "y"}, out);
}

static const zr_op_def softmax_dx = ZR__OP("softmax_dx", .infer = softmax_dx_infer, .in_place = {1});

static zr_status softmax_adjoint(zr_graph *graph, const zr_op *op)
{
    const zr_value in[] = {zr_grad_of(graph, op->out[0]), op->out[0]};
    return zr__contribute(graph, op->in[0], &softmax_dx, NULL, 2, in);
}

static const zr_op_def softmax = ZR__OP("softmax", .infer = zr__unary_infer, .adjoint = softmax_adjoint, .cheap = true);

zr_value zr_softmax(zr_graph *graph, zr_value x)
{
    return zr__apply(graph, &softmax, NULL, 1, &x);
}

/* ---- mean ------------------------------------------------------------------------------------ */

static zr_status mean_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    const zr_dtype dtype = (zr_dtype)op->attr.i[0], g = graph->spec.dtype;
    ZR_TRY(zr__want_at_most(op, 1));
    ZR_TRY(zr__want_ndim(graph, op, 0, "x", g, 1));
    ZR_CHECK(dtype == ZR_F32 || dtype == g, ZR_ERR_DTYPE, "mean: the result is to be %s; wanted F32 or the graph's %s",
             zr_dtype_name(dtype), zr_dtype_name(g));
    out[0] = (zr_type){dtype, zr__row_shape(zr__in(graph, op, 0)->shape)};
    return ZR_OK;
}

/* Infer the type of dx from the prepared output. dy does not show the width of x, because dy has one number for each
 * row. */
static zr_status mean_dx_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(zr__want_prepared(graph, op, out));
    return zr__want(graph, op, 0, "dy", zr__in(graph, op, 0)->dtype, zr__row_shape(out[0].shape));
}

static const zr_op_def mean_dx = ZR__OP("mean_dx", .infer = mean_dx_infer);

static zr_status mean_adjoint(zr_graph *graph, const zr_op *op)
{
    zr_value dy = zr_grad_of(graph, op->out[0]);
    return zr__contribute(graph, op->in[0], &mean_dx, NULL, 1, &dy);
}

static const zr_op_def mean = ZR__OP("mean", .infer = mean_infer, .adjoint = mean_adjoint);

zr_value zr_mean(zr_graph *graph, zr_value x, zr_dtype dtype)
{
    return zr__apply(graph, &mean, &(zr_op_attr){.i = {(int64_t)dtype}}, 1, &x);
}
