/* Ops in which tensor-parallel ranks exchange values: sums of partial values, and gathers. The planner recognises these
 * ops by zr_op_def.join, and adds a collective for each. */
#include "graph/internal.h"

/* ---- sums ------------------------------------------------------------------------------------ */

static zr_status sum_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(zr__want_at_most(op, 1));
    ZR_TRY(zr__want_in(op, 0, "x"));
    const zr_type *x = zr__in(graph, op, 0);
    ZR_CHECK(zr_dtype_is_float(x->dtype), ZR_ERR_DTYPE, "%s: x is %s; wanted F32, BF16 or F16", op->def->name,
             zr_dtype_name(x->dtype));
    out[0] = (zr_type){zr__out_dtype(graph, op, 0, x->dtype), x->shape};
    const zr_graph_spec *spec = zr_graph_get_spec(graph);
    const int64_t elems = zr_shape_elems(&x->shape), rows = spec->batch * spec->seq;
    ZR_CHECK(elems % spec->tensor == 0, ZR_ERR_CONFIG,
             "parallel.tensor is %lld, but that many ranks cannot share the sums of %lld x %lld x %lld numbers equally "
             "(train_micro_batch_size_per_gpu x data.seq_length x width); choose another degree, or change one of the "
             "three so that the degree divides their product",
             (long long)spec->tensor, (long long)spec->batch, (long long)spec->seq, (long long)(elems / rows));
    return ZR_OK;
}

/* Pass the gradient of the sum unchanged to each part. */
static zr_status sum_adjoint(zr_graph *graph, const zr_op *op)
{
    if (zr_grad_needed(graph, op->in[0])) zr_grad_pass(graph, op->in[0], zr_grad_of(graph, op->out[0]));
    return ZR_OK;
}

static const zr_op_def tensor_sum = ZR__OP("tensor_sum", .infer = sum_infer, .adjoint = sum_adjoint, .in_place = {1},
                                           .join = ZR_JOIN_SUM, .keeps_cut = true);

void zr__tensor_sum(zr_graph *graph, zr_value part, zr_value *sum)
{
    zr_graph_op(graph, &tensor_sum, NULL, 1, &part, sum);
}

static zr_status parts_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(zr__want_at_most(op, 1));
    ZR_TRY(zr__want_in(op, 0, "parts"));
    const zr_type *parts = zr__in(graph, op, 0);
    ZR_CHECK(parts->shape.ndim == 2, ZR_ERR_SHAPE, "%s: parts have %d dimensions; wanted (M,n)", op->def->name,
             parts->shape.ndim);
    out[0] = (zr_type){zr__out_dtype(graph, op, 0, parts->dtype), ZR_SHAPE(parts->shape.dim[1])};
    return ZR_OK;
}

/* Op that sums the ranks' parts. Its kernel is the kernel of linear_db, which sums the columns of a matrix. */
static const zr_op_def sum_of_parts = ZR__OP("linear_db", .infer = parts_infer);

void zr__tensor_sum_vector(zr_graph *graph, zr_value part, zr_value *sum)
{
    const zr_value parts = zr__tensor_gather(graph, part);
    zr_graph_op(graph, &sum_of_parts, NULL, 1, &parts, sum);
}

/* ---- tokens ----------------------------------------------------------------------------------- */

static zr_status scatter_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(zr__want_at_most(op, 1));
    ZR_TRY(zr__want(graph, op, 0, "x", graph->spec.dtype, ZR_SHAPE(ZR__ANY, ZR__ANY, ZR__ANY)));
    const zr_type *x = zr__in(graph, op, 0);
    const zr_graph_spec *spec = zr_graph_get_spec(graph);
    const int64_t *dim = x->shape.dim, ranks = spec->tensor;
    ZR_CHECK(dim[0] == spec->batch && dim[1] == spec->seq, ZR_ERR_SHAPE,
             "%s: x has %lld x %lld tokens; wanted those of a micro-batch, %lld x %lld", op->def->name,
             (long long)dim[0], (long long)dim[1], (long long)spec->batch, (long long)spec->seq);
    ZR_CHECK(
        dim[0] * dim[1] % ranks == 0, ZR_ERR_CONFIG,
        "%lld x %lld tokens of a micro-batch cannot be shared by %lld tensor-parallel ranks (parallel.sequence): a "
        "multiple of %lld is wanted",
        (long long)dim[0], (long long)dim[1], (long long)ranks, (long long)ranks);
    out[0] = (zr_type){x->dtype, ZR_SHAPE(dim[0] * dim[1] / ranks, dim[2])};
    return ZR_OK;
}

/* Infer the type of the gathered value (B,T,C). attr.i[0] is B, attr.i[1] is T. */
static zr_status tokens_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    const int64_t B = op->attr.i[0], T = op->attr.i[1];
    ZR_TRY(zr__want_at_most(op, 1));
    ZR_TRY(zr__want(graph, op, 0, "x", graph->spec.dtype, ZR_SHAPE(B * T / graph->spec.tensor, ZR__ANY)));
    const zr_type *x = zr__in(graph, op, 0);
    out[0] = (zr_type){x->dtype, ZR_SHAPE(B, T, x->shape.dim[1])};
    return ZR_OK;
}

/* Contribute the gradient of tensor_scatter, a reduce-scatter of partial sums over tokens, and of tensor_tokens, an
 * all-gather of tokens. Each of the two ops computes the gradient of the other. */
static zr_status scatter_adjoint(zr_graph *graph, const zr_op *op);
static zr_status tokens_adjoint(zr_graph *graph, const zr_op *op);

static const zr_op_def tensor_scatter = ZR__OP("tensor_scatter", .infer = scatter_infer, .adjoint = scatter_adjoint,
                                               .join = ZR_JOIN_SCATTER, .keeps_cut = true);

static const zr_op_def tensor_tokens = ZR__OP("tensor_tokens", .infer = tokens_infer, .adjoint = tokens_adjoint,
                                              .join = ZR_JOIN_GATHER, .keeps_tokens = true);

static zr_status scatter_adjoint(zr_graph *graph, const zr_op *op)
{
    const zr_value dy = zr_grad_of(graph, op->out[0]);
    const int64_t *dim = zr__in(graph, op, 0)->shape.dim;
    return zr__contribute(graph, op->in[0], &tensor_tokens, &(zr_op_attr){.i = {dim[0], dim[1]}}, 1, &dy);
}

static zr_status tokens_adjoint(zr_graph *graph, const zr_op *op)
{
    const zr_value dy = zr_grad_of(graph, op->out[0]);
    return zr__contribute(graph, op->in[0], &tensor_scatter, NULL, 1, &dy);
}

zr_value zr__between_layers(zr_graph *graph, zr_value part)
{
    if (!graph->spec.sequence) return zr__apply(graph, &tensor_sum, NULL, 1, &part);
    zr_value y = zr__apply(graph, &tensor_scatter, NULL, 1, &part);
    if (y != ZR_NONE) graph->value[y].info.tokens = true;
    return y;
}

zr_value zr__all_tokens(zr_graph *graph, zr_value x)
{
    const zr_graph_spec *spec = zr_graph_get_spec(graph);
    const zr_value_info *info = zr_graph_value(graph, x);
    if (!info || !info->tokens) return x;
    /* Reuse a gather only within its unit. If several units shared the gathered value, it would be in memory until the
     * backward pass. */
    const zr_value before = graph->value[x].whole;
    if (before != ZR_NONE && graph->value[before].info.unit == graph->current_unit) return before;
    zr_value whole = zr__apply(graph, &tensor_tokens, &(zr_op_attr){.i = {spec->batch, spec->seq}}, 1, &x);
    graph->value[x].whole = whole;
    return whole;
}

int64_t zr__own_tokens(const zr_graph *graph, zr_value x)
{
    const zr_value_info *info = zr_graph_value(graph, x);
    return info && info->tokens ? graph->spec.seq : 0;
}

zr_shape zr__tokens_shape(int64_t T, int64_t B)
{
    return T ? ZR_SHAPE(ZR__ANY, ZR__ANY) : ZR_SHAPE(B, ZR__ANY, ZR__ANY);
}

zr_shape zr__documents_shape(int64_t T, const zr_shape *x)
{
    return T ? ZR_SHAPE(ZR__ANY, T) : ZR_SHAPE(x->dim[0], x->dim[1]);
}

bool zr__is_gathered(const zr_graph *graph, zr_value x)
{
    const zr_value_info *info = zr_graph_value(graph, x);
    return info && info->producer >= 0 && zr_graph_get_op(graph, info->producer)->def == &tensor_tokens;
}

/* ---- gathers --------------------------------------------------------------------------------- */

static zr_status gather_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(zr__want_at_most(op, 1));
    ZR_TRY(zr__want_in(op, 0, "x"));
    const zr_type *x = zr__in(graph, op, 0);
    ZR_CHECK(x->shape.ndim < ZR_MAX_DIMS, ZR_ERR_SHAPE, "%s: x has %d dimensions, wanted at most %d", op->def->name,
             x->shape.ndim, ZR_MAX_DIMS - 1);
    out[0] = (zr_type){x->dtype, {x->shape.ndim + 1, {graph->spec.tensor}}};
    for (int d = 0; d < x->shape.ndim; d++) out[0].shape.dim[d + 1] = x->shape.dim[d];
    return ZR_OK;
}

static const zr_op_def tensor_gather = ZR__OP("tensor_gather", .infer = gather_infer, .join = ZR_JOIN_GATHER);

zr_value zr__tensor_gather(zr_graph *graph, zr_value x)
{
    return zr__apply(graph, &tensor_gather, NULL, 1, &x);
}

/* ---- how a weight is cut --------------------------------------------------------------------- */

int32_t zr__is_cut(const zr_graph *graph, zr_value param, int dim)
{
    const zr_value_info *info = zr_graph_value(graph, param);
    if (!info || info->kind != ZR_VALUE_PARAM) return 0;
    const zr_cut *cut = &zr_graph_param(graph, info->param)->cut;
    return cut->dim == dim ? cut->parts : 0;
}

bool zr__is_cut_table(zr_graph *graph, const char *op, zr_value table)
{
    const zr_value_info *info = zr_graph_value(graph, table);
    const zr_param_info *param = info && info->kind == ZR_VALUE_PARAM ? zr_graph_param(graph, info->param) : NULL;
    if (!param || param->cut.parts == 0) return false;
    if (param->cut.dim != 0 || param->cut.parts != 1)
        zr_graph_error(graph, ZR_ERR_UNSUPPORTED, "%s: %s is cut in %d parts of dimension %d; wanted one part, of rows",
                       op, param->name, param->cut.parts, param->cut.dim);
    return true;
}
