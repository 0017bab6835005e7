/**
 * graph, inside: what a graph holds, and what its files and the ops share.
 */
#ifndef ZR_GRAPH_INTERNAL_H
#define ZR_GRAPH_INTERNAL_H

#include "zr/ops.h"

#define ZR__GRAPH_TEXT 512

/** A value with what differentiation keeps of it. A use is one operand of one op. */
typedef struct zr__value {
    zr_value_info info;
    bool needed;      /* depends on a parameter that trains; known once adjoints run */
    zr_value grad;    /* sum of the contributions so far, ZR_NONE: none */
    int32_t expected; /* contributions that will come: uses by ops whose adjoints will run */
    int32_t begun, ended;
    bool read, parts; /* of a parameter: an op reads it, and of its gradient each of the M ranks makes a part */
    zr_value whole;   /* of a value of which each rank has its tokens: all of it, ZR_NONE: not gathered yet */
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
    int32_t streams;      /* of random numbers, given out so far */
    int32_t current_unit; /* of the ops being added; -1 before the first */
    bool backward;        /* ops being added are adjoints' */
    bool finished;
    zr_status latched; /* the first error of building, ZR_OK: none */
    char message[ZR__GRAPH_TEXT];
};

/* ---- graph.c --------------------------------------------------------------------------------- */

/** Is building over, by an error or by finish? */
bool zr__graph_closed(const zr_graph *graph);
/** Keep the failure of a call that returned `status` (its message is this thread's). */
void zr__graph_latch(zr_graph *graph, zr_status status);
/** A value that nothing writes yet; ZR_NONE with a latched error. */
zr_value zr__graph_value_add(zr_graph *graph, zr_value_kind kind, zr_type type, int32_t param);
/** Room for one more item. Items move: no pointer to one survives an addition. */
zr_status zr__graph_grow(void **items, int64_t *room, int32_t count, size_t item_bytes);
/** The number of the next stream of random numbers. Taken also where the mode or the probability
 *  makes no use of it, so that neither moves the numbers of those that follow. */
int32_t zr__graph_stream(zr_graph *graph);

/* ---- freeze.c --------------------------------------------------------------------------------- */

/** Give frozen parameters units of their own. */
zr_status zr__part_units(zr_graph *graph);

/* ---- autodiff.c ------------------------------------------------------------------------------ */

/** Seed the losses' gradient, add the backward ops, give parameters their gradients. */
void zr__differentiate(zr_graph *graph);

/* ---- ops, for autodiff ------------------------------------------------------------------------ */

/** y = a + b as `dtype`; b ZR_NONE: y = a. Into `out`, or a new value when that is ZR_NONE. */
zr_value zr__add(zr_graph *graph, zr_value a, zr_value b, zr_dtype dtype, zr_value out);
/** out = the run-time loss seed. */
void zr__fill(zr_graph *graph, zr_value out);

/* ---- check.c: what infer and cost functions need ---------------------------------------------- */

/** Matches any dimension in a wanted shape. */
#define ZR__ANY (-1)

/** Shape from its dimensions: ZR__SHAPE(B, T, C). */
#define ZR__SHAPE(...) ((zr_shape){(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})

bool zr__in_has(const zr_op *op, int i);
/** Type of a present operand or output. */
const zr_type *zr__in(const zr_graph *graph, const zr_op *op, int i);
const zr_type *zr__out(const zr_graph *graph, const zr_op *op, int i);
/** Operand i, called `name` in messages, is there. */
zr_status zr__want_in(const zr_graph *graph, const zr_op *op, int i, const char *name);
/** ... and is of this type; shape may hold ZR__ANY. */
zr_status zr__want(const zr_graph *graph, const zr_op *op, int i, const char *name, zr_dtype dtype, zr_shape shape);
/** ... and is of this dtype with at least `ndim` dimensions. */
zr_status zr__want_ndim(const zr_graph *graph, const zr_op *op, int i, const char *name, zr_dtype dtype, int ndim);
/** As zr__want when the operand is there. */
zr_status zr__want_optional(const zr_graph *graph, const zr_op *op, int i, const char *name, zr_dtype dtype,
                            zr_shape shape);
/** The op has at most n operands. */
zr_status zr__want_at_most(const zr_op *op, int n);
/** Is p a probability of dropout, checked in every mode? Latches an error; false as well when building is over. */
bool zr__probability_ok(zr_graph *graph, const char *what, double p);
/** Dtype of the value that waits for output `out` (a gradient that an adjoint prepared), `otherwise` where none does.
 */
zr_dtype zr__out_dtype(const zr_graph *graph, const zr_op *op, int out, zr_dtype otherwise);
/** Dtype of a parameter's contribution: of the value that waits for it, else F32. */
zr_dtype zr__sum_dtype(const zr_graph *graph, const zr_op *op, int out);
/** One number a row: (B, T, C) -> (B, T); a single vector has one row. */
zr_shape zr__row_shape(zr_shape shape);

/** Bytes of all operands and outputs. */
double zr__bytes(const zr_graph *graph, const zr_op *op);
/** Cost of an op whose time is its bytes. Only the products of matrices count as flops here, as in
 *  the figures that papers give. */
zr_cost zr__cost_bytes(const zr_graph *graph, const zr_op *op);

/* ---- linear_cross_entropy.c: for tests and benchmarks -------------------------------------------- */

/** Rows of each block that a head cuts so many into; the last may have fewer. */
int64_t zr__head_block(int64_t rows);

/* ---- ops/tensor_parallel.c: of graphs of degree M > 1 -------------------------------------------- */

/** *sum (ZR_NONE: a new value; or one from zr_grad_begin) = the sum of all ranks' `part`. */
void zr__tensor_sum(zr_graph *graph, zr_value part, zr_value *sum);
/** The sum of all ranks' `part`, a value between layers: (B,T,C), or with sequence parallelism this rank's tokens of
 * it, (B T / M, C). */
zr_value zr__between_layers(zr_graph *graph, zr_value part);
/** The same value with all tokens, (B,T,C): gathered, once in a unit, where each rank has its own. */
zr_value zr__all_tokens(zr_graph *graph, zr_value x);
/** Was it gathered by zr__all_tokens? Then its gradient is to be this rank's part, whose sum goes back to the tokens.
 */
bool zr__is_gathered(const zr_graph *graph, zr_value x);
/** (M, ...): all ranks' x. */
zr_value zr__tensor_gather(zr_graph *graph, zr_value x);
/** In how many parts is the parameter cut along this dimension? 0: it is not. */
int32_t zr__is_cut(const zr_graph *graph, zr_value param, int dim);
/** A table whose rows the ranks share must be one part; latches an error. */
bool zr__is_cut_table(zr_graph *graph, const char *op, zr_value table);

/* ---- share.c --------------------------------------------------------------------------------- */

/** Shape rule of an op whose n operands, called `names`, are of the graph's dtype and of one shape, as its output. */
zr_status zr__map_infer(const zr_graph *graph, const zr_op *op, int n, const char *const *names, zr_type *out);
/** Add an op of one output. */
zr_value zr__apply(zr_graph *graph, const zr_op_def *def, const zr_op_attr *attr, int n, const zr_value *in);
/** Add the op whose output is an adjoint's contribution to the gradient of `value`, if that needs one. */
zr_status zr__contribute(zr_graph *graph, zr_value value, const zr_op_def *def, const zr_op_attr *attr, int n,
                         const zr_value *in);

#endif
