/* Helpers shared by the builders and adjoints of ops. */
#include "graph/internal.h"

zr_status zr__map_infer(const zr_graph *graph, const zr_op *op, int n, const char *const *names, zr_type *out)
{
    ZR_TRY(zr__want_at_most(op, n));
    ZR_TRY(zr__want_ndim(graph, op, 0, names[0], graph->spec.dtype, 1));
    zr_shape shape = zr__in(graph, op, 0)->shape;
    for (int i = 1; i < n; i++) ZR_TRY(zr__want(graph, op, i, names[i], graph->spec.dtype, shape));
    out[0] = (zr_type){zr__out_dtype(graph, op, 0, graph->spec.dtype), shape};
    return ZR_OK;
}

zr_status zr__unary_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    return zr__map_infer(graph, op, 1, (const char *[]){"x"}, out);
}

zr_value zr__apply(zr_graph *graph, const zr_op_def *def, const zr_op_attr *attr, int n, const zr_value *in)
{
    zr_value y = ZR_NONE;
    zr_graph_op(graph, def, attr, n, in, &y);
    return y;
}

zr_status zr__contribute(zr_graph *graph, zr_value value, const zr_op_def *def, const zr_op_attr *attr, int n,
                         const zr_value *in)
{
    if (!zr_grad_needed(graph, value)) return ZR_OK;
    zr_value dx = zr_grad_begin(graph, value, NULL);
    zr_graph_op(graph, def, attr, n, in, &dx);
    zr_grad_end(graph, value, dx);
    return ZR_OK;
}

zr_status zr__accumulate(zr_graph *graph, zr_value value, const zr_op_def *def, const zr_op_attr *attr, int n,
                         const zr_value *in)
{
    zr_value with[ZR_OP_INS];
    if (!zr_grad_needed(graph, value)) return ZR_OK;
    for (int i = 0; i < n; i++) with[i] = in[i];
    zr_value sum = zr_grad_begin(graph, value, &with[n]);
    zr_graph_op(graph, def, attr, n + 1, with, &sum);
    zr_grad_end(graph, value, sum);
    return ZR_OK;
}
