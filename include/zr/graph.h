/**
 * graph: values, ops and reverse-mode differentiation. A model's author writes the forward pass with the functions of
 * zr/ops.h. The graph knows shapes, costs and adjoints, and nothing of ZeRO, ranks or devices.
 *
 * Tensor parallelism (Shoeybi et al. 2019): the author declares how a weight may be cut (zr_param_cut). A graph of
 * degree M is the computation of one of M ranks: it holds an M-th of such weights, and where a product gives a partial
 * sum, ops are inserted that add the parts of all M ranks. All M ranks have the same graph; the model's code does not
 * know M. With sequence parallelism (Korthikanti et al. 2022) each rank has an M-th of the tokens of such a sum, and of
 * all values computed from it row by row; before the next cut weight the tokens of all ranks are gathered.
 *
 * Values are written once (SSA). A failing builder call stores its error in the graph and returns ZR_NONE; later calls
 * do nothing, and zr_graph_finish reports the first error. So model code needs no check per line.
 */
#ifndef ZR_GRAPH_H
#define ZR_GRAPH_H

#include "zr/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zr_graph zr_graph;
typedef struct zr_op zr_op;
typedef struct zr_op_def zr_op_def;

/** Index of a value in its graph. */
typedef int32_t zr_value;
#define ZR_NONE (-1)

#define ZR_NAME_MAX 96
#define ZR_OP_INS 8
#define ZR_OP_OUTS 4

typedef enum zr_mode {
    ZR_MODE_TRAIN, /* forward and backward passes, with dropout */
    ZR_MODE_EVAL,  /* forward pass up to the losses, without dropout */
    ZR_MODE_DECODE /* forward pass of one token (batch 1, seq 1) with a key-value cache of cache_len tokens */
} zr_mode;

typedef struct zr_graph_spec {
    zr_mode mode;
    int64_t batch;       /* B, rows of one micro-batch on one rank */
    int64_t seq;         /* T, tokens per row */
    int64_t cache_len;   /* for DECODE: longest sequence in tokens; otherwise 0 */
    zr_dtype dtype;      /* type of parameters and activations: F32, BF16 or F16 */
    zr_dtype grad_dtype; /* type of parameters' gradients while they are communicated: F32, BF16 or F16 */
    int64_t tensor;      /* M, number of tensor-parallel ranks; 0 and 1 mean no tensor parallelism */
    bool sequence;       /* whether to use sequence parallelism, with M > 1: between layers each rank has only its
                            own tokens */
} zr_graph_spec;

typedef enum zr_value_kind {
    ZR_VALUE_PARAM, /* a parameter: read only, in the graph's dtype */
    ZR_VALUE_INPUT, /* an input: filled by the caller for each micro-batch */
    ZR_VALUE_ACT,   /* an activation: written by an op */
    ZR_VALUE_GRAD,  /* the complete gradient of a parameter: in grad_dtype, rounded once */
    ZR_VALUE_CACHE  /* a cache for DECODE: kept from step to step, zero at start */
} zr_value_kind;

typedef struct zr_type {
    zr_dtype dtype;
    zr_shape shape;
} zr_type;

typedef struct zr_value_info {
    zr_value_kind kind;
    zr_type type;
    int32_t unit;     /* unit of the op that writes the value, or unit in which a parameter was declared; -1 for
                         inputs */
    int32_t param;    /* index of the parameter, for a PARAM, for its GRAD and for an ACT that is a part of its
                         gradient; otherwise -1 */
    int32_t producer; /* op that writes the value; -1 for parameters, inputs and caches */
    int32_t cut;      /* number of equal parts of the columns if they are cut, so that each rank has one piece of
                         each part; 0 if each rank has all columns */
    bool tokens;      /* whether each rank has only its own rows, an M-th of the micro-batch's tokens: (B T / M, ...) */
} zr_value_info;

typedef enum zr_init_kind { ZR_INIT_ZERO, ZR_INIT_ONE, ZR_INIT_NORMAL } zr_init_kind;
typedef struct zr_init {
    zr_init_kind kind;
    double std; /* for NORMAL: standard deviation; the mean is 0 */
} zr_init;

/** How a parameter is cut over M ranks. Dimension `dim` consists of `parts` equal parts one after the other (3 for
 * queries, keys and values, otherwise 1). Each part is divided into M equal pieces, and rank i has piece i of each
 * part. */
typedef struct zr_cut {
    int32_t dim, parts; /* dimension that is cut, and its number of parts; parts is 0 if every rank has the whole
                           parameter */
} zr_cut;

typedef struct zr_param_info {
    char name[ZR_NAME_MAX];
    zr_shape shape; /* shape on one rank; if M does not divide a dimension, the last rank's piece ends in padding */
    zr_shape whole; /* shape in the whole model, as used in files and for initial values */
    zr_cut cut;
    zr_init init;
    bool frozen;  /* whether the parameter is not trained (zr_graph_freeze) */
    int32_t unit; /* index of its unit; valid only in a finished graph, since zr_graph_finish moves frozen parameters
                     to other units */
    int64_t unit_offset; /* offset of the rank's first element in its unit's flat buffer */
    int64_t first;       /* index of the whole parameter's first element in the whole model (for random numbers) */
    zr_value value;
    zr_value grad; /* gradient, or ZR_NONE if the parameter is frozen or no op contributes to its gradient; no update
                      then changes the parameter */
} zr_param_info;

/** A unit, such as a transformer block: parameters that ZeRO gathers together, and ops that recomputation repeats
 * together. Frozen parameters of a unit form a unit of their own, after all units that have ops, so that a unit's
 * parameters are either all trained or all frozen. */
typedef struct zr_unit_info {
    char name[ZR_NAME_MAX];
    int32_t first_param, n_params;
    int64_t elems; /* number of parameter elements on one rank, without padding */
    bool frozen;   /* whether this is a unit of frozen parameters, which has no ops and a name such as "h.0, frozen" */
} zr_unit_info;

/** Attributes of an op. Each op's comment in zr/ops.h gives the meaning of its numbers. */
typedef struct zr_op_attr {
    int64_t i[4];
    double f[4];
} zr_op_attr;

/** Communication of an op between tensor-parallel ranks. The planner turns it into moves instead of a kernel's run. */
typedef enum zr_join {
    ZR_JOIN_NONE,
    ZR_JOIN_SUM,     /* output: the sum of all ranks' operands, in a fixed binary tree over the ranks, rounded once */
    ZR_JOIN_SCATTER, /* output: this rank's piece of the sum of ZR_JOIN_SUM, which is divided into M equal pieces */
    ZR_JOIN_GATHER   /* output: all ranks' operands, one after the other */
} zr_join;

struct zr_op {
    const zr_op_def *def;
    zr_op_attr attr;
    int32_t n_in, n_out;
    zr_value in[ZR_OP_INS]; /* operands; ZR_NONE for an optional operand that is absent */
    zr_value out[ZR_OP_OUTS];
    int32_t unit;
    bool backward;
};

typedef struct zr_cost {
    double flops;             /* FLOPs, with a multiplication and an addition counted as two */
    double again;             /* part of `flops` that repeats work of another op of the model */
    double bytes;             /* bytes of memory read and written */
    zr_product_sizes product; /* sizes of the matrix products that make up the FLOPs; zeros if there are no products,
                                 or none with measured rates */
    double pairs;             /* for attention: number of query-key pairs in all heads; otherwise 0 */
    int64_t head;             /* for attention: width of a head */
} zr_cost;

/** Definition of a kind of op. A user's own op consists of a zr_op_def, defined anywhere, and a kernel of the same name
 *  given to the device (zr/device.h). */
struct zr_op_def {
    const char *name; /* name of the op and of its kernel */
    int n_out;
    /** Check the operands and compute the types of the n_out outputs. */
    zr_status (*infer)(const zr_graph *graph, const zr_op *op, zr_type *out);
    /** Add the ops that compute the gradients of op's inputs, using the zr_grad_ functions. NULL if no gradients flow
     * through the op. */
    zr_status (*adjoint)(zr_graph *graph, const zr_op *op);
    zr_cost (*cost)(const zr_graph *graph, const zr_op *op);
    /** Whether the op's outputs are large compared to the work that computes them, as in attention. Selective recompute
     * recomputes such outputs. */
    bool selective;
    /** Whether the outputs cost little more than one pass over memory, as norms and activation functions do. Every
     * policy recomputes such outputs in the backward pass if that saves memory, that is, if no other unit reads them
     * and the operands are kept anyway. The op must give the same bits again. */
    bool cheap;
    /** Whether the op is attention that multiplies in F32, whatever the type of its operands, so that its FLOPs are
     * compared with the F32 peak. On devices with zr_device_facts.narrow_attention it multiplies in the operands' type
     * instead. */
    bool in_f32;
    /** 1 + index of the input whose memory output i may reuse if the input is not needed afterwards, or 0 if none. The
     * input must have the same size in bytes, and the kernel must allow the reuse. If output i is a parameter's
     * gradient and the input an earlier part of it, that part is computed in the gradient's memory. */
    int8_t in_place[ZR_OP_OUTS];
    zr_join join; /* communication that replaces a kernel */
    /** Whether the output is cut where the operands are (elementwise functions, heads), because a rank's columns of the
     * output depend only on its columns of the operands. Other ops refuse a cut operand. */
    bool keeps_cut;
    /** Whether the op can read a weight of which a rank has only a piece, in the cases that its builder allows. */
    bool takes_pieces;
    /** Whether the op works row by row. If a rank has only its own tokens of the non-parameter operands, it then has
     * the same tokens of the output, and a part of each parameter's gradient, which is summed over the ranks. Other
     * ops refuse such operands. */
    bool keeps_tokens;
};

/* ---- building -------------------------------------------------------------------------------- */

ZR_API ZR_NODISCARD zr_status zr_graph_create(const zr_graph_spec *spec, zr_graph **graph);
ZR_API void zr_graph_destroy(zr_graph **graph);

/** Begin a new unit. A parameter belongs to the unit in which it is declared, and later units may use it too. */
ZR_API void zr_graph_unit(zr_graph *graph, const char *format, ...) ZR_PRINTF(2, 3);

/** Declare a parameter. Weight decay applies to parameters of two or more dimensions. */
ZR_API zr_value zr_param(zr_graph *graph, zr_init init, zr_shape shape, const char *format, ...) ZR_PRINTF(4, 5);

/** Declare a parameter of the whole `shape` that may be cut; with M = 1 this is the same as zr_param. If M does not
 * divide the length of a part, store ZR_ERR_CONFIG in the graph, except that a first dimension of one part (a
 * vocabulary) is padded instead. */
ZR_API zr_value zr_param_cut(zr_graph *graph, zr_init init, zr_shape shape, zr_cut cut, const char *format, ...)
    ZR_PRINTF(5, 6);

/** Declare an input, which the caller fills. Inputs are numbered in the order of their declaration. */
ZR_API zr_value zr_input(zr_graph *graph, const char *name, zr_dtype dtype, zr_shape shape);

/** Add an op. On entry out[i] is ZR_NONE to create a new value, or a value from zr_grad_begin. If `out` is NULL, all
 * values are new and the caller does not need them. Errors are stored in the graph. */
ZR_API void zr_graph_op(zr_graph *graph, const zr_op_def *def, const zr_op_attr *attr, int n_in, const zr_value *in,
                        zr_value *out);

/** Declare which value holds the losses, F32 of any shape, written by an op. The objective is their mean over the
 * global batch. */
ZR_API void zr_graph_losses(zr_graph *graph, zr_value losses);
/** Declare the model's output. In decode mode it is the result of zr_engine_decode, (1, 1, V). In evaluation mode it is
 * a value of any shape, such as logits, whose memory is then kept to the end of the schedule, for zr_engine_value. */
ZR_API void zr_graph_output(zr_graph *graph, zr_value output);

/** Freeze the parameters declared so far that match these patterns. Frozen parameters keep the bits with which they are
 * filled. No gradient is computed for them or for values that depend on no trained parameter. `patterns` are fnmatch
 * patterns, one per line, for a whole name or the part after its first dot ("h.0.*" matches like "transformer.h.0.*");
 * NULL freezes none. Store ZR_ERR_CONFIG in the graph if a pattern matches no parameter or all parameters would be
 * frozen.
 */
ZR_API void zr_graph_freeze(zr_graph *graph, const char *patterns);

/** Store an error from model code in the graph. */
ZR_API void zr_graph_error(zr_graph *graph, zr_status status, const char *format, ...) ZR_PRINTF(3, 4);

/** Finish building: report the first stored error, and move frozen parameters to units of their own, after all others.
 * In TRAIN mode also differentiate: set the losses' gradient (op "fill", a run-time value) and add the backward ops in
 * reverse order. */
ZR_API ZR_NODISCARD zr_status zr_graph_finish(zr_graph *graph);

/* ---- for adjoints ---------------------------------------------------------------------------- */

/* An adjoint must make exactly one contribution for each operand that needs a gradient (two if a value is used as two
 * operands). A gradient is rounded after its last contribution, which is recognised by counting. */

/** Return the gradient of an op's output, or ZR_NONE if nothing flows back into it. */
ZR_API zr_value zr_grad_of(const zr_graph *graph, zr_value value);
/** Return whether a gradient must be computed for this value, that is, whether it depends on a trained parameter. For
 * adjoints only: before zr_graph_finish the result is false for every value. */
ZR_API bool zr_grad_needed(const zr_graph *graph, zr_value value);
/** Return the value into which an adjoint's op must write its contribution to the gradient of `value`. If the op can
 * add earlier contributions itself, pass `earlier`: it receives their sum as an operand for the op, or ZR_NONE.
 * Then add the op and call zr_grad_end, which adds the contributions that the op did not add. Contributions to a
 * parameter are F32; the last result is rounded once to grad_dtype. */
ZR_API zr_value zr_grad_begin(zr_graph *graph, zr_value value, zr_value *earlier);
ZR_API void zr_grad_end(zr_graph *graph, zr_value value, zr_value contribution);
/** Add the existing value `contribution` to the gradient of `value` as a term, without a copy. */
ZR_API void zr_grad_pass(zr_graph *graph, zr_value value, zr_value contribution);
/** Declare that an adjoint's op recomputes `losses`, an output of its forward op, as `again` (of the same type). If
 * `losses` are the graph's losses, `again` replaces them, and the forward op need not run. */
ZR_API void zr_grad_losses(zr_graph *graph, zr_value losses, zr_value again);

/* ---- reading --------------------------------------------------------------------------------- */

/* The functions below return NULL for an index out of range. Pointers are valid until more is added to the graph. */

ZR_API const zr_graph_spec *zr_graph_get_spec(const zr_graph *graph);
ZR_API int32_t zr_graph_ops(const zr_graph *graph);
ZR_API const zr_op *zr_graph_get_op(const zr_graph *graph, int32_t op);
ZR_API int32_t zr_graph_values(const zr_graph *graph);
ZR_API const zr_value_info *zr_graph_value(const zr_graph *graph, zr_value value);
ZR_API int32_t zr_graph_params(const zr_graph *graph);
ZR_API const zr_param_info *zr_graph_param(const zr_graph *graph, int32_t param);
ZR_API int32_t zr_graph_units(const zr_graph *graph);
ZR_API const zr_unit_info *zr_graph_unit_info(const zr_graph *graph, int32_t unit);
ZR_API int32_t zr_graph_inputs(const zr_graph *graph);
ZR_API zr_value zr_graph_input(const zr_graph *graph, int32_t input);
/** Return the losses, or ZR_NONE if none are declared. In TRAIN mode a backward op may compute them instead of the
 * forward op (zr_grad_losses). */
ZR_API zr_value zr_graph_get_losses(const zr_graph *graph);
ZR_API zr_value zr_graph_get_output(const zr_graph *graph);
/** Take element `first` of the part of a parameter that rank `place` of M has. Return the element's offset in the whole
 * parameter, or -1 if the element is padding. *run receives how many of the n >= 1 elements from `first` on are
 * contiguous in the whole parameter too. */
ZR_API int64_t zr_param_place(const zr_graph *graph, int32_t param, int64_t place, int64_t first, int64_t n,
                              int64_t *run);
/** Return the number of parameters of the whole model (Psi), without padding. */
ZR_API int64_t zr_graph_param_elems(const zr_graph *graph);

/* ---- optimizers ------------------------------------------------------------------------------ */

/** Sum of the squares of a gradient, and index of its first element that is not finite. */
typedef struct zr_square {
    double sum;
    zr_exact exact; /* the sum without rounding, used instead of `sum` for rank-free sums */
    int64_t bad;    /* index in the unit of the first element that is not finite, or -1 if all are finite */
} zr_square;

/** Arguments for updating a range of n elements of one parameter. All arrays are (n) F32, except grad and param16. */
typedef struct zr_update_args {
    int64_t n;
    float *weight;        /* master weights, read and written */
    uint16_t *param16;    /* 16-bit copy of the weights, written; NULL if there is no copy */
    zr_dtype param_dtype; /* type of param16: BF16 or F16 */
    const void *grad;     /* gradient, in grad_dtype */
    zr_dtype grad_dtype;  /* F32, BF16 or F16 */
    float *slot[4];       /* the optimizer's states, read and written */
    float grad_scale;     /* factor for clipping and loss scale: the gradient is grad * grad_scale */
    double lr;
    double weight_decay; /* 0 for parameters of fewer than two dimensions */
    int64_t step;        /* number of this update, from 1 */
    const double *hyper; /* zr_optimizer.hyper */
} zr_update_args;

/** An optimizer: n_slots fp32 states per parameter, and one element-wise rule. K, its bytes per parameter with the fp32
 * master of mixed precision, is 4 + 4*n_slots: 12 for Adam, 8 and 4 for SGD. */
typedef struct zr_optimizer {
    const char *name; /* name; for built-in optimizers ("adamw", "adam", "sgd") the device has a kernel of this name */
    int n_slots;      /* number of states, 0 to 4; they are zero at start */
    double hyper[8];  /* for adamw and adam: beta1, beta2, eps; for sgd: momentum, nesterov */
    double weight_decay;
    /** The update rule, which must treat every element alike, or NULL to use the device's own kernel. */
    void (*rule)(const zr_update_args *args);
    const char *slot_name[4]; /* names of the states in a checkpoint, such as "exp_avg": letters, digits and '_' */
} zr_optimizer;

#define ZR_OPTIMIZER_INIT                                                                                              \
    {                                                                                                                  \
        NULL, 0, {0}, 0, NULL,                                                                                         \
        {                                                                                                              \
            0                                                                                                          \
        }                                                                                                              \
    }

/** Return AdamW, with decoupled weight_decay (Loshchilov and Hutter 2019) and 2 states. */
ZR_API zr_optimizer zr_adamw(double beta1, double beta2, double eps, double weight_decay);
/** Return Adam, with weight_decay as an L2 term of the gradient and 2 states. */
ZR_API zr_optimizer zr_adam(double beta1, double beta2, double eps, double weight_decay);
/** Return SGD with weight_decay as an L2 term. It has one state, v = momentum v + g as in torch, or none if momentum is
 * 0. */
ZR_API zr_optimizer zr_sgd(double momentum, bool nesterov, double weight_decay);

#ifdef __cplusplus
}
#endif
#endif
