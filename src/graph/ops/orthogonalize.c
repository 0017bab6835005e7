/* orthogonalize: y = the orthogonalised direction of x (zr_ortho), for the step ORTHO of a schedule. The op has no
 * adjoint, because no model uses it. A kernel may be given the same memory for x and y. */
#include "graph/graph.h"
#include "base/core/core.h"
#include "graph/internal.h"

#include <inttypes.h>

/* Return the smaller and the larger side of the matrix. */
static void sides_of(const zr_graph *graph, const zr_op *op, double *least, double *most)
{
    const zr_shape *x = &zr__in(graph, op, 0)->shape;
    const bool tall = x->dim[0] > x->dim[1];
    *least = (double)x->dim[tall];
    *most = (double)x->dim[!tall];
}

static zr_status orthogonalize_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(zr__want_in(op, 0, "x"));
    out[0] = *zr__in(graph, op, 0);
    ZR_CHECK(out[0].shape.ndim == 2 && (out[0].dtype == ZR_F32 || out[0].dtype == ZR_BF16), ZR_ERR_SHAPE,
             "orthogonalize: x is %s of %d dimensions; wanted a matrix of F32 or BF16", zr_dtype_name(out[0].dtype),
             out[0].shape.ndim);
    ZR_CHECK(op->attr.i[0] >= 0 && op->attr.i[1] >= out[0].shape.dim[1], ZR_ERR_ARG,
             "orthogonalize: %" PRId64 " iterations, and rows %" PRId64
             " elements apart; wanted 0 or more, and %" PRId64 " or more",
             op->attr.i[0], op->attr.i[1], out[0].shape.dim[1]);
    return ZR_OK;
}

/* Return the cost. In each iteration, with r the smaller side of x, the products X X^T and B X have 2 r^2 c FLOPs each,
 * and A A has 2 r^3. */
static zr_cost orthogonalize_cost(const zr_graph *graph, const zr_op *op)
{
    double r, c;
    sides_of(graph, op, &r, &c);
    return (zr_cost){.flops = (double)op->attr.i[0] * (4 * r * r * c + 2 * r * r * r),
                     .bytes = zr__bytes(graph, op) * (1 + 2 * (double)op->attr.i[0]),
                     .product = zr__product_sizes_of((int64_t)r, (int64_t)r, (int64_t)c)};
}

static const zr_op_def orthogonalize = {
    .name = "orthogonalize",
    .n_out = 1,
    .infer = orthogonalize_infer,
    .cost = orthogonalize_cost,
};

int32_t zr__orthogonalize(zr_graph *graph, const zr_ortho *ortho, int64_t rows, int64_t cols, int64_t apart)
{
    const zr_op_attr attr = {.i = {ortho->steps, apart, ortho->eps_added},
                             .f = {ortho->a, ortho->b, ortho->c, ortho->eps}};
    const zr_value x = zr_input(graph, "direction", ortho->dtype, ZR_SHAPE(rows, cols));
    const int32_t index = graph->n_ops;
    (void)zr__apply(graph, &orthogonalize, &attr, 1, &x);
    return index;
}
