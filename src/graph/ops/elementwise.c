/* gelu, add, dropout and fill: one output element from one of each operand. */
#include "graph/internal.h"

#include <inttypes.h>

/* ---- gelu ------------------------------------------------------------------------------------ */

static zr_status gelu_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(zr__want_at_most(op, 1));
    ZR_TRY(zr__want_ndim(graph, op, 0, "x", zr_graph_get_spec(graph)->dtype, 1));
    out[0] = *zr__in(graph, op, 0);
    return ZR_OK;
}

static zr_status gelu_dx_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    zr_dtype g = zr_graph_get_spec(graph)->dtype;
    ZR_TRY(zr__want_ndim(graph, op, 0, "dy", g, 1));
    ZR_TRY(zr__want(graph, op, 1, "x", g, zr__in(graph, op, 0)->shape));
    out[0] = *zr__in(graph, op, 0);
    return ZR_OK;
}

static const zr_op_def gelu_dx = {
    .name = "gelu_dx",
    .n_out = 1,
    .infer = gelu_dx_infer,
    .cost = zr__cost_bytes,
    .in_place = {1},
};

static zr_status gelu_adjoint(zr_graph *graph, const zr_op *op)
{
    zr_value x = op->in[0], dy = zr_grad_of(graph, op->out[0]);
    zr_value dx = zr_grad_begin(graph, x, NULL);
    zr_graph_op(graph, &gelu_dx, NULL, 2, (zr_value[]){dy, x}, &dx);
    zr_grad_end(graph, x, dx);
    return ZR_OK;
}

static const zr_op_def gelu = {
    .name = "gelu",
    .n_out = 1,
    .infer = gelu_infer,
    .adjoint = gelu_adjoint,
    .cost = zr__cost_bytes,
    .cheap = true,
};

zr_value zr_gelu(zr_graph *graph, zr_value x)
{
    zr_value y = ZR_NONE;
    zr_graph_op(graph, &gelu, NULL, 1, &x, &y);
    return y;
}

/* ---- add ------------------------------------------------------------------------------------- */

static zr_status add_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(zr__want_at_most(op, 2));
    ZR_TRY(zr__want_in(graph, op, 0, "a"));
    zr_type a = *zr__in(graph, op, 0);
    zr_dtype b_dtype = zr__in_has(op, 1) ? zr__in(graph, op, 1)->dtype : a.dtype;
    ZR_CHECK(zr_dtype_is_float(a.dtype) && zr_dtype_is_float(b_dtype), ZR_ERR_DTYPE,
             "add: operands are %s and %s; wanted F32, BF16 or F16", zr_dtype_name(a.dtype), zr_dtype_name(b_dtype));
    ZR_TRY(zr__want_optional(graph, op, 1, "b", b_dtype, a.shape));
    zr_dtype dtype = op->attr.i[0] == -1 ? a.dtype : (zr_dtype)op->attr.i[0];
    ZR_CHECK(zr_dtype_is_float(dtype), ZR_ERR_DTYPE, "add: output dtype is %s; wanted F32, BF16 or F16",
             zr_dtype_name(dtype));
    out[0] = (zr_type){dtype, a.shape};
    return ZR_OK;
}

static zr_status add_adjoint(zr_graph *graph, const zr_op *op)
{
    zr_value dy = zr_grad_of(graph, op->out[0]);
    for (int i = 0; i < op->n_in; i++)
        if (zr_grad_needed(graph, op->in[i])) zr_grad_pass(graph, op->in[i], dy);
    return ZR_OK;
}

static const zr_op_def add = {
    .name = "add",
    .n_out = 1,
    .infer = add_infer,
    .adjoint = add_adjoint,
    .cost = zr__cost_bytes,
    .in_place = {1},
};

zr_value zr_add(zr_graph *graph, zr_value a, zr_value b)
{
    zr_value y = ZR_NONE;
    zr_op_attr attr = {.i = {-1}};
    if (!zr__graph_closed(graph) && b == ZR_NONE) zr_graph_error(graph, ZR_ERR_ARG, "add: operand b is missing");
    zr_graph_op(graph, &add, &attr, 2, (zr_value[]){a, b}, &y);
    return y;
}

zr_value zr__add(zr_graph *graph, zr_value a, zr_value b, zr_dtype dtype, zr_value out)
{
    zr_op_attr attr = {.i = {(int64_t)dtype}};
    zr_graph_op(graph, &add, &attr, 2, (zr_value[]){a, b}, &out);
    return out;
}

/* ---- dropout --------------------------------------------------------------------------------- */

static zr_status dropout_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    const zr_graph_spec *spec = zr_graph_get_spec(graph);
    ZR_TRY(zr__want_at_most(op, 1));
    ZR_TRY(zr__want_ndim(graph, op, 0, "x", spec->dtype, 1));
    const zr_type *x = zr__in(graph, op, 0);
    /* Random numbers are counted by the row of the global batch. */
    ZR_CHECK(x->shape.dim[0] == spec->batch, ZR_ERR_SHAPE,
             "dropout: x's first dimension is %" PRId64 "; wanted the batch, %" PRId64, x->shape.dim[0], spec->batch);
    out[0] = *x;
    return ZR_OK;
}

static zr_status dropout_adjoint(zr_graph *graph, const zr_op *op)
{
    zr_value dy = zr_grad_of(graph, op->out[0]);
    zr_value dx = zr_grad_begin(graph, op->in[0], NULL);
    zr_graph_op(graph, op->def, &op->attr, 1, &dy, &dx); /* the same mask on the gradient */
    zr_grad_end(graph, op->in[0], dx);
    return ZR_OK;
}

static const zr_op_def dropout = {
    .name = "dropout",
    .n_out = 1,
    .infer = dropout_infer,
    .adjoint = dropout_adjoint,
    .cost = zr__cost_bytes,
    .in_place = {1},
};

zr_value zr_dropout(zr_graph *graph, zr_value x, double p)
{
    if (!zr__probability_ok(graph, "dropout", p)) return ZR_NONE;
    int32_t stream = zr__graph_stream(graph);
    if (p == 0 || zr_graph_get_spec(graph)->mode != ZR_MODE_TRAIN) return x;
    zr_value y = ZR_NONE;
    zr_op_attr attr = {.i = {stream}, .f = {p}};
    zr_graph_op(graph, &dropout, &attr, 1, &x, &y);
    return y;
}

/* ---- fill ------------------------------------------------------------------------------------ */

static zr_status fill_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_CHECK(op->out[0] != ZR_NONE, ZR_ERR_ARG, "fill: the value to fill is missing");
    out[0] = *zr__out(graph, op, 0);
    return ZR_OK;
}

static const zr_op_def fill = {
    .name = "fill",
    .n_out = 1,
    .infer = fill_infer,
    .cost = zr__cost_bytes,
};

void zr__fill(zr_graph *graph, zr_value out)
{
    zr_graph_op(graph, &fill, NULL, 0, NULL, &out);
}
