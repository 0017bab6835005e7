/**
 * graph, internal: the contents of a graph, and helpers of its files and ops. graph.c builds, freeze.c gives frozen
 * parameters units of their own, autodiff.c adds the backward pass, read.c answers questions. An op's builder, shape
 * rule, adjoint and cost are in ops/, by family; check.c and share.c help all ops. Kernels are the device's.
 */
#ifndef ZR_GRAPH_INTERNAL_H
#define ZR_GRAPH_INTERNAL_H

#include "zr/ops.h"

#define ZR__GRAPH_TEXT 512

/** A value with the state of its differentiation. A use is one operand of one op. */
typedef struct zr__value {
    zr_value_info info;
    bool needed;      /* depends on a parameter that trains; set before adjoints run */
    zr_value grad;    /* sum of the contributions so far; ZR_NONE: no contribution */
    int32_t expected; /* number of contributions in all: uses by ops whose adjoints will run */
    int32_t begun, ended;
    bool read, parts; /* a parameter that an op reads; whose gradient each of the M ranks makes only a part of */
    zr_value whole;   /* the gather of a value whose tokens are split over the ranks; ZR_NONE: not gathered yet */
} zr__value;

struct zr_graph {
    zr_graph_spec spec;
    zr__value *value;
    zr_op *op;
    zr_param_info *param;
    zr_unit_info *unit;
    zr_value *input;
    int32_t n_values, n_ops, n_params, n_units, n_inputs;
    int64_t value_room, op_room, param_room, unit_room, input_room;
    int64_t param_elems;
    zr_value losses, output;
    int32_t streams;      /* random streams given out so far */
    int32_t current_unit; /* unit of the ops being added; -1 before the first unit */
    bool backward;        /* adjoints are adding ops */
    bool finished;
    zr_status latched; /* the first error of building, ZR_OK: none */
    char message[ZR__GRAPH_TEXT];
};

/* ---- graph.c --------------------------------------------------------------------------------- */

/** Return whether the graph has a value of this number. */
static inline bool zr__graph_has(const zr_graph *graph, zr_value value)
{
    return value >= 0 && value < graph->n_values;
}
/** Return whether building is over, by an error or by zr_graph_finish. */
bool zr__graph_closed(const zr_graph *graph);
/** Keep the failure of a call that returned `status` (its message is this thread's). */
void zr__graph_latch(zr_graph *graph, zr_status status);
/** Add a value that no op writes yet; ZR_NONE with a latched error. */
zr_value zr__graph_value_add(zr_graph *graph, zr_value_kind kind, zr_type type, int32_t param);
/** Make room for one more item. Items move: no pointer to one survives an addition. */
zr_status zr__graph_grow(void **items, int64_t *room, int32_t count, size_t item_bytes);
/** Return the number of the next stream of random numbers. Take one even if the mode or the probability makes it
 * unused, so that the numbers of later streams do not depend on either. */
int32_t zr__graph_stream(zr_graph *graph);

/* ---- freeze.c --------------------------------------------------------------------------------- */

/** Give frozen parameters units of their own. */
zr_status zr__part_units(zr_graph *graph);

/* ---- autodiff.c ------------------------------------------------------------------------------ */

/** Add the gradient of the losses and the backward ops, and find the parameters' gradients. */
void zr__differentiate(zr_graph *graph);

/* ---- ops, for autodiff ------------------------------------------------------------------------ */

/** Add the op y = a + b as `dtype`; b ZR_NONE: y = a. Into `out`, or a new value when that is ZR_NONE. */
zr_value zr__add(zr_graph *graph, zr_value a, zr_value b, zr_dtype dtype, zr_value out);
/** Add the op out = the run-time loss seed. */
void zr__fill(zr_graph *graph, zr_value out);

/* ---- check.c: for infer and cost functions ---------------------------------------------------- */

/** Stands for any dimension, in a wanted shape. */
#define ZR__ANY (-1)

/** A shape by its dimensions: ZR__SHAPE(B, T, C). */
#define ZR__SHAPE(...) ((zr_shape){(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})

bool zr__in_has(const zr_op *op, int i);
/** Return the type of a present operand or output. */
const zr_type *zr__in(const zr_graph *graph, const zr_op *op, int i);
const zr_type *zr__out(const zr_graph *graph, const zr_op *op, int i);
/** Check that operand i, called `name` in messages, is present. */
zr_status zr__want_in(const zr_op *op, int i, const char *name);
/** Check that operand i is present and of this type; shape may hold ZR__ANY. */
zr_status zr__want(const zr_graph *graph, const zr_op *op, int i, const char *name, zr_dtype dtype, zr_shape shape);
/** Check that operand i is present and of this dtype, with at least `ndim` dimensions. */
zr_status zr__want_ndim(const zr_graph *graph, const zr_op *op, int i, const char *name, zr_dtype dtype, int ndim);
/** Check operand i with zr__want if it is present. */
zr_status zr__want_optional(const zr_graph *graph, const zr_op *op, int i, const char *name, zr_dtype dtype,
                            zr_shape shape);
/** Check that the op has at most n operands. */
zr_status zr__want_at_most(const zr_op *op, int n);
/** Return whether p is a probability of dropout, in every mode; else latch an error. Also false when building is over.
 */
bool zr__probability_ok(zr_graph *graph, const char *what, double p);
/** Return the dtype of the value that an adjoint prepared for output `out` (a gradient), else `otherwise`. */
zr_dtype zr__out_dtype(const zr_graph *graph, const zr_op *op, int out, zr_dtype otherwise);
/** Return the dtype of a contribution to a parameter's gradient: of the value prepared for it, else F32. */
zr_dtype zr__sum_dtype(const zr_graph *graph, const zr_op *op, int out);
/** Return the shape of one number a row: (B, T, C) -> (B, T); a single vector has one row. */
zr_shape zr__row_shape(zr_shape shape);

/** Return the shape with another last dimension. */
zr_shape zr__with_cols(zr_shape shape, int64_t cols);

/** Return the bytes of all operands and outputs. */
double zr__bytes(const zr_graph *graph, const zr_op *op);
/** Return the cost of an op whose time depends on its bytes alone. As in the papers' figures, only matrix products
 * count as FLOPs. */
zr_cost zr__cost_bytes(const zr_graph *graph, const zr_op *op);

/* ---- linear_cross_entropy.c: for tests and benchmarks -------------------------------------------- */

/** Return the rows of each block into which a head cuts `rows` rows; the last block may have fewer. */
int64_t zr__head_block(int64_t rows);

/* ---- ops/tensor_parallel.c: of graphs of degree M > 1 -------------------------------------------- */

/** Sum all ranks' `part` into *sum (ZR_NONE: a new value; or a value from zr_grad_begin). */
void zr__tensor_sum(zr_graph *graph, zr_value part, zr_value *sum);
/** Return the sum of all ranks' `part`, a value between layers: (B,T,C), or with sequence parallelism this rank's
 * tokens, (B T / M, C). */
zr_value zr__between_layers(zr_graph *graph, zr_value part);
/** Return a value with all tokens, (B,T,C): gathered, once in a unit, if each rank has only its own tokens. */
zr_value zr__all_tokens(zr_graph *graph, zr_value x);
/** Return whether zr__all_tokens gathered x. Then an adjoint gives this rank's part of the gradient, and the gather's
 * adjoint sums the parts. */
bool zr__is_gathered(const zr_graph *graph, zr_value x);
/** Return all ranks' x, of shape (M, ...). */
zr_value zr__tensor_gather(zr_graph *graph, zr_value x);
/** Return in how many parts a parameter is cut along this dimension; 0: it is not cut. */
int32_t zr__is_cut(const zr_graph *graph, zr_value param, int dim);
/** Return whether a table is cut among the ranks; latch an error unless it is cut by rows in one part. */
bool zr__is_cut_table(zr_graph *graph, const char *op, zr_value table);

/* ---- share.c --------------------------------------------------------------------------------- */

/** Infer the output of an op of one operand, x, whose type is the output's. */
zr_status zr__unary_infer(const zr_graph *graph, const zr_op *op, zr_type *out);
/** Infer the output of an op whose n operands, called `names`, have the graph's dtype and one shape, which is the
 * output's. */
zr_status zr__map_infer(const zr_graph *graph, const zr_op *op, int n, const char *const *names, zr_type *out);
/** Add an op with one output, and return that. */
zr_value zr__apply(zr_graph *graph, const zr_op_def *def, const zr_op_attr *attr, int n, const zr_value *in);
/** Add the op whose output is an adjoint's contribution to the gradient of `value`, if that needs one. */
zr_status zr__contribute(zr_graph *graph, zr_value value, const zr_op_def *def, const zr_op_attr *attr, int n,
                         const zr_value *in);
/** The same for an op whose last operand, after the n given, is the sum of the contributions so far, if there is one.
 */
zr_status zr__accumulate(zr_graph *graph, zr_value value, const zr_op_def *def, const zr_op_attr *attr, int n,
                         const zr_value *in);

#endif
