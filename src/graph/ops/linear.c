/* linear: y = x w + b, with w of shape (K, N), or (N, K) if transposed. */
#include "graph/internal.h"
#include "base/core/core.h"

#include <inttypes.h>

static zr_shape weight_shape(const zr_op *op, int64_t K, int64_t N)
{
    return op->attr.i[0] ? ZR_SHAPE(N, K) : ZR_SHAPE(K, N);
}

/* Return the cost of a matrix product whose input rows have the width of x and whose output rows have the width of
 * y. */
static zr_cost product_cost(const zr_graph *graph, const zr_op *op, const zr_type *x, const zr_type *y)
{
    const int64_t rows = zr_shape_rows(&x->shape), K = zr_shape_cols(&x->shape), N = zr_shape_cols(&y->shape);
    return (zr_cost){.flops = 2.0 * (double)rows * (double)K * (double)N,
                     .bytes = zr__bytes(graph, op),
                     .product = zr__product_sizes_of(rows, N, K)};
}

/* ---- adjoint's ops ---------------------------------------------------------------------------- */

static zr_status linear_dx_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(zr__want_ndim(graph, op, 0, "dy", graph->spec.dtype, 1));
    const zr_shape *dy = &zr__in(graph, op, 0)->shape;
    ZR_TRY(zr__want(graph, op, 1, "w", graph->spec.dtype, weight_shape(op, ZR__ANY, zr_shape_cols(dy))));
    int64_t K = zr__in(graph, op, 1)->shape.dim[op->attr.i[0] ? 1 : 0];
    out[0] = (zr_type){graph->spec.dtype, zr__with_cols(*dy, K)};
    return ZR_OK;
}

static zr_cost linear_dx_cost(const zr_graph *graph, const zr_op *op)
{
    return product_cost(graph, op, zr__out(graph, op, 0), zr__in(graph, op, 0));
}

static const zr_op_def linear_dx = {.name = "linear_dx", .n_out = 1, .infer = linear_dx_infer, .cost = linear_dx_cost};

static zr_status linear_dw_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(zr__want_ndim(graph, op, 0, "x", graph->spec.dtype, 1));
    const zr_shape *x = &zr__in(graph, op, 0)->shape;
    ZR_TRY(zr__want(graph, op, 1, "dy", graph->spec.dtype, zr__with_cols(*x, ZR__ANY)));
    zr_shape dw = weight_shape(op, zr_shape_cols(x), zr_shape_cols(&zr__in(graph, op, 1)->shape));
    ZR_TRY(zr__want_optional(graph, op, 2, "earlier", ZR_F32, dw));
    out[0] = (zr_type){zr__sum_dtype(graph, op, 0), dw};
    return ZR_OK;
}

static zr_cost linear_dw_cost(const zr_graph *graph, const zr_op *op)
{
    return product_cost(graph, op, zr__in(graph, op, 0), zr__in(graph, op, 1));
}

static const zr_op_def linear_dw = {.name = "linear_dw", .n_out = 1, .infer = linear_dw_infer, .cost = linear_dw_cost};

static zr_status linear_db_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(zr__want_ndim(graph, op, 0, "dy", graph->spec.dtype, 1));
    zr_shape db = ZR_SHAPE(zr_shape_cols(&zr__in(graph, op, 0)->shape));
    ZR_TRY(zr__want_optional(graph, op, 1, "earlier", ZR_F32, db));
    out[0] = (zr_type){zr__sum_dtype(graph, op, 0), db};
    return ZR_OK;
}

static const zr_op_def linear_db = ZR__OP("linear_db", .infer = linear_db_infer);

/* ---- linear ---------------------------------------------------------------------------------- */

static zr_status linear_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_CHECK(op->attr.i[0] == 0 || op->attr.i[0] == 1, ZR_ERR_ARG, "linear: transposed is %" PRId64 "; wanted 0 or 1",
             op->attr.i[0]);
    ZR_TRY(zr__want_at_most(op, 3));
    ZR_TRY(zr__want_ndim(graph, op, 0, "x", graph->spec.dtype, 1));
    const zr_shape *x = &zr__in(graph, op, 0)->shape;
    ZR_TRY(zr__want(graph, op, 1, "w", graph->spec.dtype, weight_shape(op, zr_shape_cols(x), ZR__ANY)));
    int64_t N = zr__in(graph, op, 1)->shape.dim[op->attr.i[0] ? 0 : 1];
    ZR_TRY(zr__want_optional(graph, op, 2, "b", graph->spec.dtype, ZR_SHAPE(N)));
    out[0] = (zr_type){graph->spec.dtype, zr__with_cols(*x, N)};
    return ZR_OK;
}

/* Return the dimension of w that corresponds to the columns of y. */
static int output_dim(const zr_op_attr *attr)
{
    return attr->i[0] ? 0 : 1;
}

/* Add the ops for dw and db before the op for dx. Then the last use of x precedes the allocation of its gradient, and
 * the parameters' gradients can be reduced while dx is computed. In either order, dy is needed until the last op. */
static zr_status linear_adjoint(zr_graph *graph, const zr_op *op)
{
    zr_value x = op->in[0], w = op->in[1], b = op->in[2], dy = zr_grad_of(graph, op->out[0]);
    ZR_TRY(zr__accumulate(graph, w, &linear_dw, &op->attr, 2, (zr_value[]){x, dy}));
    ZR_TRY(zr__accumulate(graph, b, &linear_db, NULL, 1, &dy));
    if (zr_grad_needed(graph, x)) {
        zr_value dx = zr_grad_begin(graph, x, NULL), part = ZR_NONE;
        /* If w is cut by columns, each rank computes only a part of dx. Sum the parts, unless zr__all_tokens gathered
         * x. In that case the adjoint of the gather sums the parts. */
        const bool cut = zr__is_cut(graph, w, output_dim(&op->attr)) && !zr__is_gathered(graph, x);
        zr_graph_op(graph, &linear_dx, &op->attr, 2, (zr_value[]){dy, w}, cut ? &part : &dx);
        if (cut) zr__tensor_sum(graph, part, &dx);
        zr_grad_end(graph, x, dx);
    }
    return ZR_OK;
}

static zr_cost linear_cost(const zr_graph *graph, const zr_op *op)
{
    return product_cost(graph, op, zr__in(graph, op, 0), zr__out(graph, op, 0));
}

static const zr_op_def linear = {
    .name = "linear",
    .n_out = 1,
    .infer = linear_infer,
    .adjoint = linear_adjoint,
    .cost = linear_cost,
    .keeps_cut = true,
    .takes_pieces = true,
    .keeps_tokens = true,
};

/* ---- bias ------------------------------------------------------------------------------------ */

static zr_status bias_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(zr__want_at_most(op, 2));
    ZR_TRY(zr__want_ndim(graph, op, 0, "x", graph->spec.dtype, 1));
    out[0] = *zr__in(graph, op, 0);
    return zr__want(graph, op, 1, "b", graph->spec.dtype, ZR_SHAPE(zr_shape_cols(&out[0].shape)));
}

static zr_status bias_adjoint(zr_graph *graph, const zr_op *op)
{
    zr_value x = op->in[0], dy = zr_grad_of(graph, op->out[0]);
    ZR_TRY(zr__accumulate(graph, op->in[1], &linear_db, NULL, 1, &dy));
    if (zr_grad_needed(graph, x)) zr_grad_pass(graph, x, dy);
    return ZR_OK;
}

static const zr_op_def bias =
    ZR__OP("bias", .infer = bias_infer, .adjoint = bias_adjoint, .in_place = {1}, .keeps_tokens = true);

/* ---- builder --------------------------------------------------------------------------------- */

/* Return (alpha / rank) * dropout(x) A^T, where `a` is the factor A of an adapter (zr_lora). */
static zr_value adapter_inputs(zr_graph *graph, zr_value x, zr_value a, bool partial)
{
    const zr_lora *lora = &graph->lora;
    const zr_op_attr transposed = {.i = {1}};
    x = zr_dropout(graph, x, lora->dropout);
    const zr_value h =
        partial ? zr__apply(graph, &linear, &transposed, 2, (zr_value[]){x, a}) : zr_linear(graph, x, a, ZR_NONE, true);
    return lora->alpha == (double)lora->rank ? h : zr_scale(graph, h, lora->alpha / (double)lora->rank);
}

/* Build a product with a weight that is cut by rows. Each rank computes a partial sum. b is added once, to the sum over
 * the ranks. An adapter's A is cut like the weight, and its B is whole. Therefore the adapter's partial sum can be
 * added to the weight's before the sum over the ranks. */
static zr_value linear_by_rows(zr_graph *graph, zr_value x, zr_value w, zr_value b, const zr_op_attr *attr,
                               const zr_value factor[2])
{
    const zr_value_info *info = zr_graph_value(graph, x);
    const int32_t parts = zr__is_cut(graph, w, 1 - output_dim(attr));
    if (info && info->cut != parts)
        zr_graph_error(graph, ZR_ERR_UNSUPPORTED,
                       "linear: the weight's rows are cut in %d parts, but the columns of x in %d (0: not cut); both "
                       "must be cut in "
                       "the same way: compute x with a weight whose columns are cut in this number of parts",
                       parts, info->cut);
    zr_value part = zr__apply(graph, &linear, attr, 3, (zr_value[]){x, w, ZR_NONE});
    if (factor) {
        const zr_value h = adapter_inputs(graph, x, factor[0], true);
        const zr_op_attr transposed = {.i = {1}};
        part = zr_add(graph, part, zr__apply(graph, &linear, &transposed, 2, (zr_value[]){h, factor[1]}));
    }
    const zr_value y = zr__between_layers(graph, part);
    return b == ZR_NONE ? y : zr__apply(graph, &bias, NULL, 2, (zr_value[]){y, b});
}

/* Build a product with each tile of a table, and concatenate the outputs. */
static zr_value linear_by_tiles(zr_graph *graph, zr_value x, zr_value w, zr_value b, bool transposed)
{
    const int32_t tiles = zr__tiles(graph, w);
    if (!transposed || b != ZR_NONE || zr__is_cut(graph, w, 0)) {
        zr_graph_error(graph, ZR_ERR_UNSUPPORTED,
                       "linear: its weight is in %d tiles (memory.tile_elems); wanted transposed, without a bias, and "
                       "parallel.tensor 1, or memory.tile_elems 0",
                       tiles);
        return ZR_NONE;
    }
    zr__adapter_refuse(graph, w);
    const zr_op_attr attr = {.i = {transposed}};
    zr_value y = zr__apply(graph, &linear, &attr, 2, (zr_value[]){x, w});
    for (int32_t i = 1; i < tiles; i++)
        y = zr_concat(graph, y, zr__apply(graph, &linear, &attr, 2, (zr_value[]){x, w + i}));
    return y;
}

zr_value zr_linear(zr_graph *graph, zr_value x, zr_value w, zr_value b, bool transposed)
{
    zr_op_attr attr = {.i = {transposed}};
    zr_value factor[2];
    const zr_value_info *weight = zr_graph_value(graph, w);
    if (weight && weight->kind == ZR_VALUE_PARAM) graph->param[weight->param].inputs_first = !transposed;
    if (zr__tiles(graph, w) > 1) return linear_by_tiles(graph, x, w, b, transposed);
    const bool adapted = zr__adapter_of(graph, w, transposed, factor);
    if (zr__is_cut(graph, w, 1 - output_dim(&attr)))
        return linear_by_rows(graph, x, w, b, &attr, adapted ? factor : NULL);
    const zr_value_info *info = zr_graph_value(graph, x);
    if (info && info->cut != 0)
        zr_graph_error(
            graph, ZR_ERR_UNSUPPORTED,
            "linear: the columns of x are cut in %d parts, but the weight's rows are not cut; wanted a weight "
            "whose rows are cut in the same way, so that the ranks' products can be summed",
            info->cut);
    const int32_t cut = zr__is_cut(graph, w, output_dim(&attr));
    if (b != ZR_NONE && zr__is_cut(graph, b, 0) != cut)
        zr_graph_error(graph, ZR_ERR_UNSUPPORTED, "linear: the columns of w are cut in %d parts, b in %d (0: not)", cut,
                       zr__is_cut(graph, b, 0));
    const zr_value all = cut ? zr__all_tokens(graph, x) : x;
    zr_value y = zr__apply(graph, &linear, &attr, 3, (zr_value[]){all, w, b});
    if (y != ZR_NONE) graph->value[y].info.cut = cut;
    if (!adapted) return y;
    /* With sequence parallelism, LoRA's A is applied to this rank's own tokens only. The result has few columns (the
     * rank of the adapter), so gathering it for B is cheap. */
    const zr_value h = adapter_inputs(graph, x, factor[0], false);
    return zr_add(graph, y, zr_linear(graph, h, factor[1], ZR_NONE, true));
}
