/* cross_entropy: the losses of next-token prediction. */
#include "graph/internal.h"

static zr_status cross_entropy_dx_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    zr_dtype g = zr_graph_get_spec(graph)->dtype;
    ZR_TRY(zr__want(graph, op, 0, "dlosses", ZR_F32, ZR__SHAPE(ZR__ANY, ZR__ANY)));
    const int64_t *losses = zr__in(graph, op, 0)->shape.dim;
    ZR_TRY(zr__want(graph, op, 1, "logits", g, ZR__SHAPE(losses[0], losses[1], ZR__ANY)));
    ZR_TRY(zr__want(graph, op, 2, "targets", ZR_I32, ZR__SHAPE(losses[0], losses[1])));
    ZR_TRY(zr__want(graph, op, 3, "lse", ZR_F32, ZR__SHAPE(losses[0], losses[1])));
    out[0] = *zr__in(graph, op, 1);
    return ZR_OK;
}

static const zr_op_def cross_entropy_dx = {
    .name = "cross_entropy_dx",
    .n_out = 1,
    .infer = cross_entropy_dx_infer,
    .cost = zr__cost_bytes,
    .in_place = {2}, /* the gradient overwrites the logits, so that the largest activation exists only once */
};

static zr_status cross_entropy_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    zr_dtype g = zr_graph_get_spec(graph)->dtype;
    ZR_TRY(zr__want_at_most(op, 2));
    ZR_TRY(zr__want(graph, op, 0, "logits", g, ZR__SHAPE(ZR__ANY, ZR__ANY, ZR__ANY)));
    const int64_t *logits = zr__in(graph, op, 0)->shape.dim;
    ZR_TRY(zr__want(graph, op, 1, "targets", ZR_I32, ZR__SHAPE(logits[0], logits[1])));
    out[0] = out[1] = (zr_type){ZR_F32, ZR__SHAPE(logits[0], logits[1])};
    return ZR_OK;
}

static zr_status cross_entropy_adjoint(zr_graph *graph, const zr_op *op)
{
    const zr_value in[] = {zr_grad_of(graph, op->out[0]), op->in[0], op->in[1], op->out[1]};
    return zr__contribute(graph, op->in[0], &cross_entropy_dx, NULL, 4, in);
}

static const zr_op_def cross_entropy = {
    .name = "cross_entropy",
    .n_out = 2,
    .infer = cross_entropy_infer,
    .adjoint = cross_entropy_adjoint,
    .cost = zr__cost_bytes,
};

zr_value zr_cross_entropy(zr_graph *graph, zr_value logits, zr_value targets)
{
    zr_value out[2] = {ZR_NONE, ZR_NONE};
    zr_graph_op(graph, &cross_entropy, NULL, 2, (zr_value[]){logits, targets}, out);
    return out[0];
}
