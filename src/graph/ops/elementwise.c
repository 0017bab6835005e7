/* Elementwise ops: gelu, gelu_erf, relu, silu, tanh, swiglu, add, mul, scale, dropout and fill. */
#include "graph/internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- functions of one operand ---------------------------------------------------------------- */

static zr_status unary_dx_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    return zr__map_infer(graph, op, 2, (const char *[]){"dy", "x"}, out);
}

static zr_status unary_adjoint(zr_graph *graph, const zr_op *op);

/* A function of one operand, and the op that computes its gradient dx from dy and x. */
typedef struct unary {
    zr_op_def forward, dx;
} unary;

#define UNARY(text)                                                                                                    \
    {                                                                                                                  \
        .forward = ZR__OP(text, .infer = zr__unary_infer, .adjoint = unary_adjoint, .cheap = true, .keeps_cut = true,  \
                          .keeps_tokens = true),                                                                       \
        .dx = ZR__OP(text "_dx", .infer = unary_dx_infer, .in_place = {1}),                                            \
    }
enum { GELU, GELU_ERF, RELU, SILU, TANH };
static const unary unaries[] = {[GELU] = UNARY("gelu"),
                                [GELU_ERF] = UNARY("gelu_erf"),
                                [RELU] = UNARY("relu"),
                                [SILU] = UNARY("silu"),
                                [TANH] = UNARY("tanh")};

/* Contribute the gradient of a function of one operand. Find the function by the op's name, so that a copy of the op's
 * definition also works. */
static zr_status unary_adjoint(zr_graph *graph, const zr_op *op)
{
    const unary *function = unaries, *end = unaries + sizeof unaries / sizeof *unaries;
    while (function < end && strcmp(function->forward.name, op->def->name) != 0) function++;
    ZR_CHECK(function < end, ZR_ERR_UNSUPPORTED, "%s: no gradient is known for a function of this name", op->def->name);
    const zr_value in[] = {zr_grad_of(graph, op->out[0]), op->in[0]};
    return zr__contribute(graph, op->in[0], &function->dx, NULL, 2, in);
}

zr_value zr_gelu(zr_graph *graph, zr_value x)
{
    return zr__apply(graph, &unaries[GELU].forward, NULL, 1, &x);
}

zr_value zr_gelu_erf(zr_graph *graph, zr_value x)
{
    return zr__apply(graph, &unaries[GELU_ERF].forward, NULL, 1, &x);
}

zr_value zr_relu(zr_graph *graph, zr_value x)
{
    return zr__apply(graph, &unaries[RELU].forward, NULL, 1, &x);
}

zr_value zr_silu(zr_graph *graph, zr_value x)
{
    return zr__apply(graph, &unaries[SILU].forward, NULL, 1, &x);
}

zr_value zr_tanh(zr_graph *graph, zr_value x)
{
    return zr__apply(graph, &unaries[TANH].forward, NULL, 1, &x);
}

/* ---- swiglu ---------------------------------------------------------------------------------- */

static zr_status swiglu_dx_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(zr__map_infer(graph, op, 3, (const char *[]){"dy", "gate", "up"}, out));
    out[1] = (zr_type){zr__out_dtype(graph, op, 1, graph->spec.dtype), out[0].shape};
    return ZR_OK;
}

static const zr_op_def swiglu_dx = {
    .name = "swiglu_dx",
    .n_out = 2,
    .infer = swiglu_dx_infer,
    .cost = zr__cost_bytes,
    .in_place = {1, 3},
};

static zr_status swiglu_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    return zr__map_infer(graph, op, 2, (const char *[]){"gate", "up"}, out);
}

/* Contribute both gradients with one op. The op is also added if only one gradient is needed. */
static zr_status swiglu_adjoint(zr_graph *graph, const zr_op *op)
{
    zr_value dx[2] = {ZR_NONE, ZR_NONE};
    for (int i = 0; i < 2; i++)
        if (zr_grad_needed(graph, op->in[i])) dx[i] = zr_grad_begin(graph, op->in[i], NULL);
    zr_graph_op(graph, &swiglu_dx, NULL, 3, (zr_value[]){zr_grad_of(graph, op->out[0]), op->in[0], op->in[1]}, dx);
    for (int i = 0; i < 2; i++)
        if (zr_grad_needed(graph, op->in[i])) zr_grad_end(graph, op->in[i], dx[i]);
    return ZR_OK;
}

static const zr_op_def swiglu = ZR__OP("swiglu", .infer = swiglu_infer, .adjoint = swiglu_adjoint, .cheap = true,
                                       .in_place = {1}, .keeps_cut = true, .keeps_tokens = true);

zr_value zr_swiglu(zr_graph *graph, zr_value gate, zr_value up)
{
    return zr__apply(graph, &swiglu, NULL, 2, (zr_value[]){gate, up});
}

/* ---- scale ----------------------------------------------------------------------------------- */

/* Contribute the gradient of an op that multiplies each element by a factor independent of x: apply the same op to
 * dy. */
static zr_status factor_adjoint(zr_graph *graph, const zr_op *op)
{
    zr_value dy = zr_grad_of(graph, op->out[0]);
    return zr__contribute(graph, op->in[0], op->def, &op->attr, 1, &dy);
}

static const zr_op_def scale = ZR__OP("scale", .infer = zr__unary_infer, .adjoint = factor_adjoint, .cheap = true,
                                      .in_place = {1}, .keeps_cut = true, .keeps_tokens = true);

zr_value zr_scale(zr_graph *graph, zr_value x, double factor)
{
    if (!zr__graph_closed(graph) && !isfinite(factor))
        zr_graph_error(graph, ZR_ERR_ARG, "scale: the factor is %g; wanted a finite number", factor);
    return zr__apply(graph, &scale, &(zr_op_attr){.f = {factor}}, 1, &x);
}

/* ---- mul ------------------------------------------------------------------------------------- */

static zr_status mul_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    return zr__map_infer(graph, op, 2, (const char *[]){"a", "b"}, out);
}

/* Contribute the gradients of the product a * b: dy * b to a, and dy * a to b. */
static zr_status mul_adjoint(zr_graph *graph, const zr_op *op)
{
    zr_value dy = zr_grad_of(graph, op->out[0]);
    for (int i = 0; i < 2; i++)
        ZR_TRY(zr__contribute(graph, op->in[i], op->def, NULL, 2, (zr_value[]){dy, op->in[1 - i]}));
    return ZR_OK;
}

static const zr_op_def mul = ZR__OP("mul", .infer = mul_infer, .adjoint = mul_adjoint, .cheap = true, .in_place = {1},
                                    .keeps_cut = true, .keeps_tokens = true);

zr_value zr_mul(zr_graph *graph, zr_value a, zr_value b)
{
    return zr__apply(graph, &mul, NULL, 2, (zr_value[]){a, b});
}

/* ---- add ------------------------------------------------------------------------------------- */

static zr_status add_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_TRY(zr__want_at_most(op, 2));
    ZR_TRY(zr__want_in(op, 0, "a"));
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

static const zr_op_def add =
    ZR__OP("add", .infer = add_infer, .adjoint = add_adjoint, .in_place = {1}, .keeps_cut = true, .keeps_tokens = true);

zr_value zr_add(zr_graph *graph, zr_value a, zr_value b)
{
    if (!zr__graph_closed(graph) && b == ZR_NONE) zr_graph_error(graph, ZR_ERR_ARG, "add: operand b is missing");
    return zr__apply(graph, &add, &(zr_op_attr){.i = {-1}}, 2, (zr_value[]){a, b});
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
    ZR_TRY(zr__unary_infer(graph, op, out));
    /* The first dimension must be the batch, because its rows index the random numbers. */
    const bool tokens = op->attr.i[1] > 0 && op->attr.i[2] == 0;
    ZR_CHECK(tokens || out[0].shape.dim[0] == spec->batch, ZR_ERR_SHAPE,
             "dropout: x's first dimension is %" PRId64 "; wanted the batch, %" PRId64, out[0].shape.dim[0],
             spec->batch);
    return ZR_OK;
}

/* The adjoint applies to dy the mask that the forward op applied to x. */
static const zr_op_def dropout = ZR__OP("dropout", .infer = dropout_infer, .adjoint = factor_adjoint, .in_place = {1},
                                        .keeps_cut = true, .keeps_tokens = true);

zr_value zr_dropout(zr_graph *graph, zr_value x, double p)
{
    if (!zr__probability_ok(graph, "dropout", p)) return ZR_NONE;
    int32_t stream = zr__graph_stream(graph);
    const zr_graph_spec *spec = zr_graph_get_spec(graph);
    if (p == 0 || spec->mode != ZR_MODE_TRAIN) return x;
    zr_op_attr attr = {.i = {stream}, .f = {p}};
    const zr_value_info *info = zr_graph_value(graph, x);
    if (info && info->cut) {
        attr.i[1] = zr_shape_elems(&info->type.shape) / spec->batch * spec->tensor;
        attr.i[2] = zr_shape_cols(&info->type.shape) / info->cut;
        attr.i[3] = spec->tensor;
    } else if (info && info->tokens) {
        attr.i[1] = spec->seq * zr_shape_cols(&info->type.shape);
    }
    return zr__apply(graph, &dropout, &attr, 1, &x);
}

/* ---- fill ------------------------------------------------------------------------------------ */

static zr_status fill_infer(const zr_graph *graph, const zr_op *op, zr_type *out)
{
    ZR_CHECK(op->out[0] != ZR_NONE, ZR_ERR_ARG, "fill: the value to fill is missing");
    out[0] = *zr__out(graph, op, 0);
    return ZR_OK;
}

static const zr_op_def fill = ZR__OP("fill", .infer = fill_infer, .reads_seeds = true);

void zr__fill(zr_graph *graph, int term, zr_value out)
{
    zr_graph_op(graph, &fill, &(zr_op_attr){.i = {term}}, 0, NULL, &out);
}
