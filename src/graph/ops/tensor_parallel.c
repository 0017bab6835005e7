/*
 * What the ranks that share a layer have of each other: sums of parts, and everyone's numbers. The planner writes moves
 * for these ops (zr_op_def.join).
 */
#include "graph/internal.h"

/* ---- sums ------------------------------------------------------------------------------------ */

static zr_status sum_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(zr__want_at_most(op, 1));
    ZR_TRY(zr__want_ndim(graph, op, 0, "x", zr_graph_get_spec(graph)->dtype, 1));
    out[0] = *zr__in(graph, op, 0);
    const int64_t elems = zr_shape_elems(&out[0].shape), ranks = zr_graph_get_spec(graph)->tensor;
    ZR_CHECK(elems % ranks == 0, ZR_ERR_CONFIG,
             "the sum over %lld tensor-parallel ranks of %lld elements: a degree that divides them is wanted",
             (long long)ranks, (long long)elems);
    return ZR_OK;
}

/* Each rank's part adds to the sum as it is. */
static zr_status sum_adjoint(zr_graph *graph, const zr_op *op)
{
    if (zr_grad_needed(graph, op->in[0])) zr_grad_pass(graph, op->in[0], zr_grad_of(graph, op->out[0]));
    return ZR_OK;
}

static const zr_op_def tensor_sum = {
    .name = "tensor_sum",
    .n_out = 1,
    .infer = sum_infer,
    .adjoint = sum_adjoint,
    .cost = zr__cost_bytes,
    .in_place = {1},
    .join = ZR_JOIN_SUM,
    .keeps_cut = true,
};

void zr__tensor_sum(zr_graph *graph, zr_value part, zr_value *sum)
{
    zr_graph_op(graph, &tensor_sum, NULL, 1, &part, sum);
}

/* ---- everyone's ------------------------------------------------------------------------------ */

static zr_status gather_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(zr__want_at_most(op, 1));
    ZR_TRY(zr__want_in(graph, op, 0, "x"));
    const zr_type *x = zr__in(graph, op, 0);
    ZR_CHECK(x->shape.ndim < ZR_MAX_DIMS, ZR_ERR_SHAPE, "%s: x has %d dimensions, wanted at most %d", op->def->name,
             x->shape.ndim, ZR_MAX_DIMS - 1);
    out[0] = (zr_type){x->dtype, {x->shape.ndim + 1, {zr_graph_get_spec(graph)->tensor}}};
    for (int d = 0; d < x->shape.ndim; d++) out[0].shape.dim[d + 1] = x->shape.dim[d];
    return ZR_OK;
}

static const zr_op_def tensor_gather = {
    .name = "tensor_gather",
    .n_out = 1,
    .infer = gather_infer,
    .cost = zr__cost_bytes,
    .join = ZR_JOIN_GATHER,
};

zr_value zr__tensor_gather(zr_graph *graph, zr_value x)
{
    return zr__apply(graph, &tensor_gather, NULL, 1, &x);
}

/* ---- how a weight is cut --------------------------------------------------------------------- */

bool zr__is_cut(const zr_graph *graph, zr_value param, int dim)
{
    const zr_value_info *info = zr_graph_value(graph, param);
    if (!info || info->kind != ZR_VALUE_PARAM) return false;
    const zr_cut *cut = &zr_graph_param(graph, info->param)->cut;
    return cut->parts > 0 && cut->dim == dim;
}
