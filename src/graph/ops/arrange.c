/* Ops that move elements without changing them: slice, concat, transpose, split_heads and merge_heads. */
#include "graph/internal.h"

#include <inttypes.h>

/* ---- columns: slice and concat --------------------------------------------------------------- */

static zr_status slice_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(zr__want_at_most(op, 1));
    ZR_TRY(zr__want_ndim(graph, op, 0, "x", graph->spec.dtype, 1));
    const zr_shape *x = &zr__in(graph, op, 0)->shape;
    int64_t first = op->attr.i[0], n = op->attr.i[1], C = zr_shape_cols(x);
    ZR_CHECK(first >= 0 && n >= 1 && first <= C - n, ZR_ERR_SHAPE,
             "slice: %" PRId64 " columns from %" PRId64 " on; x has %" PRId64, n, first, C);
    out[0] = (zr_type){zr__out_dtype(graph, op, 0, graph->spec.dtype), zr__with_cols(*x, n)};
    return ZR_OK;
}

/* Count only the bytes of the columns in the slice. */
static zr_cost slice_cost(const zr_graph *graph, const zr_op *op)
{
    const zr_type *y = zr__out(graph, op, 0), *x = zr__in(graph, op, 0);
    double bytes = (double)(zr_dtype_bytes(y->dtype) + zr_dtype_bytes(x->dtype));
    return (zr_cost){.flops = 0, .bytes = bytes * (double)zr_shape_elems(&y->shape)};
}

/* Infer the type of dx from the prepared output. dy does not show the width of x, because dy has only the columns of
 * the slice. */
static zr_status slice_dx_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(zr__want_prepared(graph, op, out));
    ZR_TRY(zr__want(graph, op, 0, "dy", graph->spec.dtype, zr__with_cols(out[0].shape, op->attr.i[1])));
    return zr__in_has(op, 1) ? zr__want(graph, op, 1, "earlier", zr__in(graph, op, 1)->dtype, out[0].shape) : ZR_OK;
}

static const zr_op_def slice_dx = ZR__OP("slice_dx", .infer = slice_dx_infer, .in_place = {2});

static zr_status slice_adjoint(zr_graph *graph, const zr_op *op)
{
    zr_value dy = zr_grad_of(graph, op->out[0]);
    return zr__accumulate(graph, op->in[0], &slice_dx, &op->attr, 1, &dy);
}

static const zr_op_def slice = {
    .name = "slice",
    .n_out = 1,
    .infer = slice_infer,
    .adjoint = slice_adjoint,
    .cost = slice_cost,
};

zr_value zr_slice(zr_graph *graph, zr_value x, int64_t first, int64_t n)
{
    return zr__apply(graph, &slice, &(zr_op_attr){.i = {first, n}}, 1, &x);
}

static zr_status concat_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(zr__want_at_most(op, 2));
    ZR_TRY(zr__want_ndim(graph, op, 0, "a", graph->spec.dtype, 1));
    const zr_shape *a = &zr__in(graph, op, 0)->shape;
    ZR_TRY(zr__want(graph, op, 1, "b", graph->spec.dtype, zr__with_cols(*a, ZR__ANY)));
    int64_t cols = zr_shape_cols(&zr__in(graph, op, 1)->shape);
    ZR_CHECK(cols <= INT64_MAX - zr_shape_cols(a), ZR_ERR_SHAPE, "concat: the columns do not fit 63 bits");
    out[0] = (zr_type){graph->spec.dtype, zr__with_cols(*a, zr_shape_cols(a) + cols)};
    return ZR_OK;
}

static zr_status concat_adjoint(zr_graph *graph, const zr_op *op)
{
    zr_value dy = zr_grad_of(graph, op->out[0]);
    int64_t first = 0;
    for (int i = 0; i < 2; i++) {
        int64_t cols = zr_shape_cols(&zr_graph_value(graph, op->in[i])->type.shape);
        ZR_TRY(zr__contribute(graph, op->in[i], &slice, &(zr_op_attr){.i = {first, cols}}, 1, &dy));
        first += cols;
    }
    return ZR_OK;
}

static const zr_op_def concat = ZR__OP("concat", .infer = concat_infer, .adjoint = concat_adjoint);

zr_value zr_concat(zr_graph *graph, zr_value a, zr_value b)
{
    return zr__apply(graph, &concat, NULL, 2, (zr_value[]){a, b});
}

/* ---- swapped dimensions ---------------------------------------------------------------------- */

static zr_status transpose_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(zr__want_at_most(op, 1));
    ZR_TRY(zr__want_ndim(graph, op, 0, "x", graph->spec.dtype, 2));
    zr_shape y = zr__in(graph, op, 0)->shape;
    int64_t last = y.dim[y.ndim - 1];
    y.dim[y.ndim - 1] = y.dim[y.ndim - 2];
    y.dim[y.ndim - 2] = last;
    out[0] = (zr_type){zr__out_dtype(graph, op, 0, graph->spec.dtype), y};
    return ZR_OK;
}

static zr_status split_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(zr__want_at_most(op, 1));
    ZR_TRY(zr__want(graph, op, 0, "x", graph->spec.dtype, ZR_SHAPE(ZR__ANY, ZR__ANY, ZR__ANY)));
    const int64_t *x = zr__in(graph, op, 0)->shape.dim, n_head = op->attr.i[0];
    ZR_CHECK(n_head >= 1 && x[2] % n_head == 0, ZR_ERR_SHAPE,
             "split_heads: %" PRId64 " heads do not divide the width %" PRId64, n_head, x[2]);
    out[0] = (zr_type){zr__out_dtype(graph, op, 0, graph->spec.dtype), ZR_SHAPE(x[0], n_head, x[1], x[2] / n_head)};
    return ZR_OK;
}

static zr_status merge_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(zr__want_at_most(op, 1));
    ZR_TRY(zr__want(graph, op, 0, "x", graph->spec.dtype, ZR_SHAPE(ZR__ANY, ZR__ANY, ZR__ANY, ZR__ANY)));
    const int64_t *x = zr__in(graph, op, 0)->shape.dim;
    out[0] = (zr_type){zr__out_dtype(graph, op, 0, graph->spec.dtype), ZR_SHAPE(x[0], x[2], x[1] * x[3])};
    return ZR_OK;
}

static zr_status transpose_adjoint(zr_graph *graph, const zr_op *op);
static zr_status split_adjoint(zr_graph *graph, const zr_op *op);
static zr_status merge_adjoint(zr_graph *graph, const zr_op *op);

static const zr_op_def transpose = ZR__OP("transpose", .infer = transpose_infer, .adjoint = transpose_adjoint),
                       split = ZR__OP("split_heads", .infer = split_infer, .adjoint = split_adjoint),
                       merge = ZR__OP("merge_heads", .infer = merge_infer, .adjoint = merge_adjoint);

/* Contribute to the gradient by applying the inverse op to dy. */
static zr_status contribute_inverse(zr_graph *graph, const zr_op *op, const zr_op_def *inverse, int64_t n_head)
{
    zr_value dy = zr_grad_of(graph, op->out[0]);
    return zr__contribute(graph, op->in[0], inverse, &(zr_op_attr){.i = {n_head}}, 1, &dy);
}

static zr_status transpose_adjoint(zr_graph *graph, const zr_op *op)
{
    return contribute_inverse(graph, op, &transpose, 0);
}

static zr_status split_adjoint(zr_graph *graph, const zr_op *op)
{
    return contribute_inverse(graph, op, &merge, 0);
}

static zr_status merge_adjoint(zr_graph *graph, const zr_op *op)
{
    return contribute_inverse(graph, op, &split, zr_graph_value(graph, op->in[0])->type.shape.dim[1]);
}

zr_value zr_transpose(zr_graph *graph, zr_value x)
{
    return zr__apply(graph, &transpose, NULL, 1, &x);
}

zr_value zr_split_heads(zr_graph *graph, zr_value x, int64_t n_head)
{
    return zr__apply(graph, &split, &(zr_op_attr){.i = {n_head}}, 1, &x);
}

zr_value zr_merge_heads(zr_graph *graph, zr_value x)
{
    return zr__apply(graph, &merge, NULL, 1, &x);
}
