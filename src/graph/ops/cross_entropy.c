/* cross_entropy: the losses of predicting a token id or a label. place_cross_entropy: the losses of predicting a place,
 * which is one of the tokens of a document. */
#include "graph/internal.h"

static zr_status cross_entropy_dx_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(zr__want(graph, op, 0, "dlosses", ZR_F32, ZR_SHAPE(ZR__ANY, ZR__ANY)));
    const int64_t *losses = zr__in(graph, op, 0)->shape.dim;
    ZR_TRY(zr__want(graph, op, 1, "logits", graph->spec.dtype, ZR_SHAPE(losses[0], losses[1], ZR__ANY)));
    ZR_TRY(zr__want(graph, op, 2, "targets", ZR_I32, ZR_SHAPE(losses[0], losses[1])));
    ZR_TRY(zr__want(graph, op, 3, "lse", ZR_F32, ZR_SHAPE(losses[0], losses[1])));
    out[0] = *zr__in(graph, op, 1);
    return ZR_OK;
}

/* The gradient overwrites the logits, so that the largest activation exists only once. */
static const zr_op_def cross_entropy_dx = ZR__OP("cross_entropy_dx", .infer = cross_entropy_dx_infer, .in_place = {2});

static zr_status cross_entropy_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(zr__want_at_most(op, 2));
    ZR_TRY(zr__want(graph, op, 0, "logits", graph->spec.dtype, ZR_SHAPE(ZR__ANY, ZR__ANY, ZR__ANY)));
    const int64_t *logits = zr__in(graph, op, 0)->shape.dim;
    ZR_TRY(zr__want(graph, op, 1, "targets", ZR_I32, ZR_SHAPE(logits[0], logits[1])));
    out[0] = out[1] = (zr_type){ZR_F32, ZR_SHAPE(logits[0], logits[1])};
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

/* ---- places ------------------------------------------------------------------------------------ */

/* Check the operands from number `first` on: logits, targets, perhaps lse, and perhaps documents. Return the shape of
 * the losses. */
static zr_status places_want(const zr_graph *graph, const zr_op *op, int first, bool lse, zr_shape *losses)
{
    const int last = first + (lse ? 3 : 2);
    ZR_TRY(zr__want(graph, op, first, "logits", graph->spec.dtype, ZR_SHAPE(ZR__ANY, ZR__ANY, ZR__ANY)));
    const int64_t *logits = zr__in(graph, op, first)->shape.dim;
    ZR_TRY(zr__want(graph, op, first + 1, "targets", ZR_I32, ZR_SHAPE(logits[0], ZR__ANY, logits[2])));
    *losses = zr__in(graph, op, first + 1)->shape;
    if (lse) ZR_TRY(zr__want(graph, op, first + 2, "lse", ZR_F32, *losses));
    return zr__want_optional(graph, op, last, "documents", ZR_I32, ZR_SHAPE(logits[0], logits[1]));
}

static zr_status place_dx_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    zr_shape losses;
    ZR_TRY(places_want(graph, op, 1, true, &losses));
    ZR_TRY(zr__want(graph, op, 0, "dlosses", ZR_F32, losses));
    out[0] = *zr__in(graph, op, 1);
    return ZR_OK;
}

static const zr_op_def place_cross_entropy_dx = ZR__OP("place_cross_entropy_dx", .infer = place_dx_infer);

static zr_status place_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    zr_shape losses;
    ZR_TRY(zr__want_at_most(op, 3));
    ZR_TRY(places_want(graph, op, 0, false, &losses));
    out[0] = out[1] = (zr_type){ZR_F32, losses};
    return ZR_OK;
}

/* Contribute the gradient of the logits. If the logits' tokens were gathered, all ranks compute the same losses, and
 * each contributes the gradient of only its own tokens, because the adjoint of the gather sums the contributions. */
static zr_status place_adjoint(zr_graph *graph, const zr_op *op)
{
    const zr_value in[] = {zr_grad_of(graph, op->out[0]), op->in[0], op->in[1], op->out[1], op->in[2]};
    const int64_t *dim = zr__in(graph, op, 0)->shape.dim;
    const bool gathered = zr__is_gathered(graph, op->in[0]);
    const zr_op_attr attr = {.i = {gathered ? dim[0] * dim[1] / graph->spec.tensor : 0}};
    return zr__contribute(graph, op->in[0], &place_cross_entropy_dx, &attr, zr__in_has(op, 2) ? 5 : 4, in);
}

static const zr_op_def place_cross_entropy = {
    .name = "place_cross_entropy",
    .n_out = 2,
    .infer = place_infer,
    .adjoint = place_adjoint,
    .cost = zr__cost_bytes,
};

zr_value zr_place_cross_entropy(zr_graph *graph, zr_value logits, zr_value targets)
{
    const zr_value documents = zr__graph_documents(graph), whole = zr__all_tokens(graph, logits);
    zr_value out[2] = {ZR_NONE, ZR_NONE};
    zr_graph_op(graph, &place_cross_entropy, NULL, documents == ZR_NONE ? 2 : 3,
                (zr_value[]){whole, targets, documents}, out);
    return out[0];
}
