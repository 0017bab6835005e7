/** graph, internal: the contents of a graph, and helpers for the files and ops of this folder. graph.c builds a graph,
 * adapt.c declares low-rank adapters, freeze.c marks frozen parameters, hidden.c hidden matrices, parts.c divides
 * parameters into pieces, tiles and units, layers.c builds layers of ops and parameters, autodiff.c adds the backward
 * pass, read.c answers questions about a finished graph; check.c and share.c help all ops.
 *
 * graph/ops: each op's builder, shape rule, adjoint and cost, in one file for each family. Kernels are in src/device.
 */
#ifndef ZR_GRAPH_INTERNAL_H
#define ZR_GRAPH_INTERNAL_H

#include "zr/ops.h"

#define ZR__GRAPH_TEXT 512

/** A value and the state of its differentiation. A "use" of a value is one operand of one op. */
typedef struct zr__value {
    zr_value_info info;
    bool needed;      /* whether the value depends on a parameter that trains; set before the adjoints run */
    zr_value grad;    /* sum of the contributions added so far, or ZR_NONE before the first contribution */
    int32_t expected; /* total number of contributions: the value's uses by ops whose adjoints will run */
    int32_t begun, ended;
    /* read: whether an op reads this parameter. parts: whether each of the M tensor-parallel ranks computes only a part
     * of the parameter's gradient. */
    bool read, parts;
    zr_value whole;     /* result of gathering all ranks' tokens of this value, or ZR_NONE if they are not gathered */
    zr_value factor[2]; /* factors A and B of the adapter of this weight, or ZR_NONE */
    int32_t late;       /* op whose contribution to this tile's gradient is postponed (zr__grad_postpone), or -1 */
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
    struct {
        char name[ZR_NAME_MAX];
        zr_value losses;
    } term[ZR_LOSS_TERMS]; /* loss terms */
    int n_terms;
    zr_value output;
    zr_value documents;   /* input with the beginnings of documents, or ZR_NONE as long as no op reads it */
    bool attends;         /* whether an attention reads `documents` */
    zr_lora lora;         /* adapters of linear layers; rank 0 for none */
    int32_t streams;      /* number of random streams given out so far */
    int32_t adjoint_of;   /* in the backward pass: forward op whose adjoint is being run */
    int32_t current_unit; /* unit of the ops being added, or -1 before the first unit */
    bool backward;        /* whether the ops being added come from adjoints */
    bool finished;
    zr_status latched; /* first error while building, or ZR_OK */
    char message[ZR__GRAPH_TEXT];
};

/* ---- graph.c --------------------------------------------------------------------------------- */

/** Return whether `value` is the number of a value of the graph. */
static inline bool zr__graph_has(const zr_graph *graph, zr_value value)
{
    return value >= 0 && value < graph->n_values;
}
/** Return whether building has ended, by an error or by zr_graph_finish. */
bool zr__graph_closed(const zr_graph *graph);
/** Latch a failed `status` with this thread's error message, unless building has already ended. If `status` is ZR_OK,
 * do nothing. */
void zr__graph_latch(zr_graph *graph, zr_status status);
/** Add a value that no op writes yet. Return ZR_NONE on failure, with the error latched, or if building has ended. */
zr_value zr__graph_value_add(zr_graph *graph, zr_value_kind kind, zr_type type, int32_t param);
/** Add a unit. The units may move, so a pointer to a unit is invalid after the call. */
zr_status zr__graph_unit_add(zr_graph *graph, const zr_unit_info *unit);
/** Return the number of the next random stream. Call this even if the mode or the probability makes the stream
 * unnecessary, so that later streams keep their numbers. */
int32_t zr__graph_stream(zr_graph *graph);

/** Return the input with the beginnings of documents, or ZR_NONE if rows have no documents (zr_graph_spec.documents).
 */
zr_value zr__graph_documents(zr_graph *graph);

/* ---- freeze.c --------------------------------------------------------------------------------- */

/** Return whether a pattern matches a name, or matches the name without its first component. Files of Hugging Face may
 * omit this component. */
bool zr__name_matches(const char *pattern, const char *name);

/* ---- parts.c ---------------------------------------------------------------------------------- */

/** Set info->shape, the shape of one rank's piece of a parameter, from info->whole and info->cut. */
zr_status zr__cut_shape(const zr_graph *graph, zr_param_info *info);
/** Compute the number of rows of a tile. The rows of the table are divided evenly among the smallest number of tiles
 * that zr_graph_spec.tile_elems allows. The last tile may have fewer rows. */
zr_status zr__tile_rows(const zr_graph *graph, const zr_param_info *info, int64_t *rows);
/** Return the number of tiles of a table if `param` is one of its tiles. Return 1 for any other value. The values of
 * the tiles of a table are consecutive. */
int32_t zr__tiles(const zr_graph *graph, zr_value param);
/** Write the attributes by which kernels find the rows of a table's piece or tile: i[0], the rows of the whole table;
 * i[1], the rows of each rank's piece; and i[2], the first row of the tile in the piece. */
void zr__table_rows(const zr_graph *graph, zr_value tile, int64_t i[3]);
/** Return the element of `unit` at which a new parameter begins. */
static inline int64_t zr__param_begin(const zr_graph *graph, const zr_unit_info *unit, const zr_param_info *param)
{
    const int64_t align = graph->spec.matrix_align, end = unit->elems;
    return align > 1 && param->shape.ndim > 1 ? (end + align - 1) / align * align : end;
}

/** Move tiles, frozen parameters and, on request (zr_graph_spec.vectors_apart, hidden_apart), vectors or parameters
 * that are not hidden matrices to separate units. Move the ops that read a tile to the tile's unit. */
zr_status zr__part_units(zr_graph *graph);

/* ---- adapt.c ---------------------------------------------------------------------------------- */

/** Return whether a linear layer with the weight `w` has an adapter. If so, declare the factors of the adapter, unless
 * an earlier layer with this weight has done so, and store them in factor[0] (A) and factor[1] (B). */
bool zr__adapter_of(zr_graph *graph, zr_value w, bool transposed, zr_value factor[2]);
/** Latch an error if a target matches the weights of an output head, which takes no adapter. */
void zr__adapter_refuse(zr_graph *graph, zr_value head);
/** Return whether a pattern matches the name of a weight or of its layer, or the end of the layer's name after a dot.
 */
bool zr__layer_matches(const char *pattern, const char *weight);
/** Copy the first pattern of a list to `pattern`. Return the rest of the list, or NULL if the list is empty. */
const char *zr__pattern_next(const char *list, char pattern[ZR_NAME_MAX]);
/** Freeze all parameters but adapters. Fail if a target matches no layer. Do nothing in a graph without adapters. */
zr_status zr__adapters_end(zr_graph *graph);

/* ---- hidden.c -------------------------------------------------------------------------------- */

/** Mark the hidden matrices (zr_param_info.hidden). Fail if the model has no hidden matrix, or if a pattern matches no
 * matrix. Do nothing without zr_graph_spec.hidden_apart. */
zr_status zr__hidden_end(zr_graph *graph);

/* ---- autodiff.c ------------------------------------------------------------------------------ */

/** Add the gradient of the losses and the backward ops, and find each parameter's gradient. */
void zr__differentiate(zr_graph *graph);
/** Postpone the contribution of a head (the op with the output `losses`) to the gradient of a tile until just before
 * the next contribution. Do nothing and return false if no contribution follows, or if there are earlier contributions.
 */
bool zr__grad_postpone(zr_graph *graph, zr_value tile, zr_value losses);

/* ---- ops, for autodiff ------------------------------------------------------------------------ */

/** Add the op y = a + b, or y = a if b is ZR_NONE, with y of type `dtype`. Write y into `out`, or into a new value if
 * `out` is ZR_NONE. Return y. */
zr_value zr__add(zr_graph *graph, zr_value a, zr_value b, zr_dtype dtype, zr_value out);
/** Add the op that fills `out` with the loss seed of a term, which is given at run time. */
void zr__fill(zr_graph *graph, int term, zr_value out);

/* ---- check.c: for infer and cost functions ---------------------------------------------------- */

/** wildcard for a dimension of an expected shape; any size matches */
#define ZR__ANY (-1)

bool zr__in_has(const zr_op *op, int i);
/** Return the type of operand i or output i, which must be present. */
const zr_type *zr__in(const zr_graph *graph, const zr_op *op, int i);
const zr_type *zr__out(const zr_graph *graph, const zr_op *op, int i);
/** Check that operand i, called `name` in messages, is present. */
zr_status zr__want_in(const zr_op *op, int i, const char *name);
/** Check that operand i is present and has this dtype and shape; ZR__ANY in `shape` matches any size. */
zr_status zr__want(const zr_graph *graph, const zr_op *op, int i, const char *name, zr_dtype dtype, zr_shape shape);
/** Check that operand i is present and of this dtype, with at least `ndim` dimensions. */
zr_status zr__want_ndim(const zr_graph *graph, const zr_op *op, int i, const char *name, zr_dtype dtype, int ndim);
/** Check operand i as zr__want does, but only if the operand is present. */
zr_status zr__want_optional(const zr_graph *graph, const zr_op *op, int i, const char *name, zr_dtype dtype,
                            zr_shape shape);
/** Check that the op has at most n operands. */
zr_status zr__want_at_most(const zr_op *op, int n);
/** Check that an adjoint has prepared output 0 with zr_grad_begin, and set *out to its type. For ops whose operands do
 * not show the whole shape of the output. */
zr_status zr__want_prepared(const zr_graph *graph, const zr_op *op, zr_type *out);
/** Return whether p is a valid probability of dropout, 0 <= p < 1; latch an error if p is invalid. Also return false if
 * building has ended. */
bool zr__probability_ok(zr_graph *graph, const char *what, double p);
/** Return the dtype of the value that an adjoint prepared for output `out`. If it prepared no value, return
 * `otherwise`. */
zr_dtype zr__out_dtype(const zr_graph *graph, const zr_op *op, int out, zr_dtype otherwise);
/** Return the dtype of a contribution to a parameter's gradient: the dtype of the value prepared for output `out`, or
 * F32 if no value is prepared. */
zr_dtype zr__sum_dtype(const zr_graph *graph, const zr_op *op, int out);
/** Return the shape that holds one number per row: (B, T, C) -> (B, T). A vector is a single row. */
zr_shape zr__row_shape(zr_shape shape);

/** Return `shape` with its last dimension replaced by `cols`. */
zr_shape zr__with_cols(zr_shape shape, int64_t cols);

/** Return the total bytes of all operands and outputs. */
double zr__bytes(const zr_graph *graph, const zr_op *op);
/** Return the cost of an op whose time depends only on the bytes that it reads and writes. Its FLOPs are 0, because the
 * papers count only the FLOPs of matrix products. */
zr_cost zr__cost_bytes(const zr_graph *graph, const zr_op *op);
/** Initialise a zr_op_def of an op with the name `text`, one output and the cost function zr__cost_bytes. The other
 * arguments set further members. */
#define ZR__OP(text, ...)                                                                                              \
    {                                                                                                                  \
        .name = text, .n_out = 1, .cost = zr__cost_bytes, __VA_ARGS__                                                  \
    }

/* ---- linear_cross_entropy.c ---------------------------------------------------------------------- */

/** Add the op that computes the contribution of a head, the op number `head`, to the gradient of a tile. Write it into
 * `dw`. */
void zr__head_dw(zr_graph *graph, int32_t head, zr_value tile, zr_value dw);

/** Return the block length, in rows, with which the op linear_cross_entropy processes `rows` rows of logits in a graph
 * of this spec. `cols` is the number of logits in a row. The last block may be shorter. */
int64_t zr__head_block(const zr_graph_spec *spec, int64_t rows, int64_t cols);

/* ---- ops/tensor_parallel.c: for graphs with M > 1 tensor-parallel ranks ------------------------- */

/** Add an op that sums `part` over all tensor-parallel ranks, and store the sum in *sum. On entry *sum is a value from
 * zr_grad_begin for the op to write into, or ZR_NONE. */
void zr__tensor_sum(zr_graph *graph, zr_value part, zr_value *sum);
/** Sum a vector of any length: every rank gathers the parts of all ranks, and adds them in the order of the ranks. For
 * few elements, which the ranks cannot share equally. */
void zr__tensor_sum_vector(zr_graph *graph, zr_value part, zr_value *sum);
/** Sum `part` over all tensor-parallel ranks, and return the sum in the form that layers pass on. This form has all
 * tokens, (B,T,C), or with sequence parallelism only this rank's tokens, (B T / M, C). */
zr_value zr__between_layers(zr_graph *graph, zr_value part);
/** Return the value of shape (B,T,C) that holds all tokens of x. If each rank holds only its own tokens, gather the
 * tokens, at most once per unit. */
zr_value zr__all_tokens(zr_graph *graph, zr_value x);
/** Return T, the number of tokens of a row, if each rank has only its own tokens of x. Otherwise return 0. Ops that
 * need T store the result as an attribute. */
int64_t zr__own_tokens(const zr_graph *graph, zr_value x);
/** Return the expected shape of an operand x, where T is the result of zr__own_tokens(x). If T is 0, the shape is
 * (B,T,C), otherwise (R,C) with the rows R of one rank. All dimensions but B are ZR__ANY; B may be ZR__ANY too. */
zr_shape zr__tokens_shape(int64_t T, int64_t B);
/** Return the expected shape (B,T) of the documents of an operand x, where T is the result of zr__own_tokens(x). */
zr_shape zr__documents_shape(int64_t T, const zr_shape *x);
/** Return whether x is the result of a gather by zr__all_tokens. If so, an adjoint returns only this rank's part of the
 * gradient of x, and the adjoint of the gather sums the parts. */
bool zr__is_gathered(const zr_graph *graph, zr_value x);
/** Gather every rank's x into one value of shape (M, ...). */
zr_value zr__tensor_gather(zr_graph *graph, zr_value x);
/** Return the number of parts into which `dim` of a parameter is divided before each part is cut among the
 * tensor-parallel ranks, or 0 if the parameter is not cut along `dim`. For example, a fused weight of q, k and v has 3
 * parts. */
int32_t zr__is_cut(const zr_graph *graph, zr_value param, int dim);
/** Return whether a table is cut among the ranks. A table may only be cut by rows and in one part; for another cut,
 * latch an error. */
bool zr__is_cut_table(zr_graph *graph, const char *op, zr_value table);

/* ---- share.c --------------------------------------------------------------------------------- */

/** Infer the output type of an op with one operand: the type of the operand. */
zr_status zr__unary_infer(const zr_graph *graph, const zr_op *op, zr_type *out);
/** Infer the output type of an op whose n operands must share one shape and have the graph's dtype. The output has the
 * same shape and dtype. `names` holds the operands' names for messages. */
zr_status zr__map_infer(const zr_graph *graph, const zr_op *op, int n, const char *const *names, zr_type *out);
/** Add an op with one output and return the output. */
zr_value zr__apply(zr_graph *graph, const zr_op_def *def, const zr_op_attr *attr, int n, const zr_value *in);
/** If `value` needs a gradient, add an op whose output is an adjoint's contribution to this gradient. */
zr_status zr__contribute(zr_graph *graph, zr_value value, const zr_op_def *def, const zr_op_attr *attr, int n,
                         const zr_value *in);
/** If `value` needs a gradient, add an op whose output is an adjoint's contribution to this gradient. After the n
 * operands given, the op gets the sum of earlier contributions as one more operand (ZR_NONE for the first
 * contribution). */
zr_status zr__accumulate(zr_graph *graph, zr_value value, const zr_op_def *def, const zr_op_attr *attr, int n,
                         const zr_value *in);

#endif
