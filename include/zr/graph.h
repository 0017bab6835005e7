/**
 * graph: values, ops and reverse-mode differentiation. A model's author writes the forward pass with the functions of
 * zr/ops.h; the graph knows shapes, costs and adjoints, and nothing of ZeRO, ranks or devices.
 *
 * Tensor parallelism (Shoeybi et al. 2019): the author declares how a weight may be cut (zr_param_cut). A graph of
 * degree M is the computation of one of M ranks: it holds an M-th of such weights, and where a product gives a partial
 * sum, ops that add the parts of all M ranks are inserted. All M ranks have the same graph; the model's code does not
 * know M. With sequence parallelism (Korthikanti et al. 2022) each rank has an M-th of the tokens of such a sum, and
 * of all values computed from it row by row; before the next cut weight the tokens of all ranks are gathered.
 *
 * Values are written once (SSA). A failing builder call latches its error in the graph and returns ZR_NONE, later
 * calls do nothing, and zr_graph_finish reports the first error: model code needs no check per line.
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

/** A value's index in its graph. */
typedef int32_t zr_value;
#define ZR_NONE (-1)

#define ZR_NAME_MAX 96
#define ZR_OP_INS 8
#define ZR_OP_OUTS 4

typedef enum zr_mode {
    ZR_MODE_TRAIN, /* forward and backward, dropout on */
    ZR_MODE_EVAL,  /* forward to the losses, dropout off */
    ZR_MODE_DECODE /* one token (batch 1, seq 1) against a key-value cache of cache_len tokens */
} zr_mode;

typedef struct zr_graph_spec {
    zr_mode mode;
    int64_t batch;       /* B, rows of one micro-batch on one rank */
    int64_t seq;         /* T, tokens of a row */
    int64_t cache_len;   /* DECODE: longest sequence; otherwise 0 */
    zr_dtype dtype;      /* parameters and activations: F32, BF16 or F16 */
    zr_dtype grad_dtype; /* parameters' gradients as they go on the wire: F32, BF16 or F16 */
    int64_t tensor;      /* M, tensor-parallel ranks; 0 and 1: no tensor parallelism */
    bool sequence;       /* sequence parallelism, with M > 1: between layers each rank has its own tokens */
} zr_graph_spec;

typedef enum zr_value_kind {
    ZR_VALUE_PARAM, /* read only, graph dtype */
    ZR_VALUE_INPUT, /* filled by the caller for each micro-batch */
    ZR_VALUE_ACT,   /* written by an op */
    ZR_VALUE_GRAD,  /* a parameter's whole gradient, grad_dtype, rounded once */
    ZR_VALUE_CACHE  /* DECODE: lives between steps, zero at start */
} zr_value_kind;

typedef struct zr_type {
    zr_dtype dtype;
    zr_shape shape;
} zr_type;

typedef struct zr_value_info {
    zr_value_kind kind;
    zr_type type;
    int32_t unit;     /* unit of the op that writes it, or that a parameter was declared in; -1 for inputs */
    int32_t param;    /* parameter of a PARAM or GRAD, or of an ACT that is a part of its gradient; otherwise -1 */
    int32_t producer; /* op that writes it; -1 for parameters, inputs and caches */
    int32_t cut;      /* parts of the columns, of each of which a rank has its own piece; 0: a rank has all columns */
    bool tokens;      /* each rank has its own rows, an M-th of the micro-batch's tokens: (B T / M, ...) */
} zr_value_info;

typedef enum zr_init_kind { ZR_INIT_ZERO, ZR_INIT_ONE, ZR_INIT_NORMAL } zr_init_kind;
typedef struct zr_init {
    zr_init_kind kind;
    double std; /* NORMAL: standard deviation, mean 0 */
} zr_init;

/** Way to cut a parameter: dimension `dim` is `parts` equal parts one after the other (3 of queries, keys and values,
 *  else 1), and each of the M ranks has one of M equal pieces of each part, in the order of the ranks. */
typedef struct zr_cut {
    int32_t dim, parts; /* parts 0: it is not cut, and every rank has all of it */
} zr_cut;

typedef struct zr_param_info {
    char name[ZR_NAME_MAX];
    zr_shape shape; /* shape on one rank; the last rank's piece of a dimension that M does not divide ends in padding */
    zr_shape whole; /* shape in the whole model, in files and of initial values */
    zr_cut cut;
    zr_init init;
    bool frozen;  /* it does not train (zr_graph_freeze) */
    int32_t unit; /* valid once the graph is finished, when a frozen parameter has moved to a unit of frozen ones */
    int64_t unit_offset; /* offset of the rank's first element within its unit's flat buffer */
    int64_t first;       /* first element of the whole within the whole model (random numbers) */
    zr_value value;
    zr_value grad; /* ZR_NONE when it is frozen or nothing contributes: no update then touches the parameter */
} zr_param_info;

/** A unit: parameters that ZeRO gathers, and ops that recompute replays, together (a transformer block). Its frozen
 *  parameters are a unit of their own, after all units that have ops: all parameters of a unit train, or none do. */
typedef struct zr_unit_info {
    char name[ZR_NAME_MAX];
    int32_t first_param, n_params;
    int64_t elems; /* parameters on one rank; unpadded */
    bool frozen;   /* "h.0, frozen": it has no ops */
} zr_unit_info;

/** Attributes of an op; each op's comment in zr/ops.h says what its numbers mean. */
typedef struct zr_op_attr {
    int64_t i[4];
    double f[4];
} zr_op_attr;

/** Communication of an op between tensor-parallel ranks. The planner writes it as moves in place of a kernel's run. */
typedef enum zr_join {
    ZR_JOIN_NONE,
    ZR_JOIN_SUM,     /* output: the sum of all ranks' operands, in a fixed binary tree over the ranks, rounded once */
    ZR_JOIN_SCATTER, /* output: this rank's piece, of M equal pieces of the sum of ZR_JOIN_SUM */
    ZR_JOIN_GATHER   /* output: all ranks' operands, one after the other */
} zr_join;

struct zr_op {
    const zr_op_def *def;
    zr_op_attr attr;
    int32_t n_in, n_out;
    zr_value in[ZR_OP_INS]; /* ZR_NONE: optional operand, absent */
    zr_value out[ZR_OP_OUTS];
    int32_t unit;
    bool backward;
};

typedef struct zr_cost {
    double flops;             /* multiply and add count as two */
    double again;             /* part of the FLOPs that repeats the work of another op of the model */
    double bytes;             /* read and written */
    zr_product_sizes product; /* sizes of the matrix products that make up the FLOPs; zeros: no products, or none that
                                 are measured */
    double pairs;             /* attention: queries times keys, of all heads; else 0 */
    int64_t head;             /* attention: width of a head */
} zr_cost;

/** Definition of a kind of op. A user's own op consists of a zr_op_def, defined anywhere, and a kernel of the same name
 *  given to the device (zr/device.h). */
struct zr_op_def {
    const char *name; /* also the kernel's name */
    int n_out;
    /** Check operands, give the types of the n_out outputs. */
    zr_status (*infer)(const zr_graph *graph, const zr_op *op, zr_type *out);
    /** Add the ops that compute the gradients of op's inputs, with zr_grad_*. NULL: no gradients flow. */
    zr_status (*adjoint)(zr_graph *graph, const zr_op *op);
    zr_cost (*cost)(const zr_graph *graph, const zr_op *op);
    /** Its outputs are large for the work that makes them (attention): selective recompute recomputes them. */
    bool selective;
    /** Its outputs cost little more than one pass over memory (norms, activation functions): every policy recomputes
     *  them in the backward pass where that saves memory, that is where no other unit reads them and the operands are
     *  kept anyway. It must give the same bits again. */
    bool cheap;
    /** The op is attention. It multiplies in F32, whatever the type of its operands, and its FLOPs are held against
     * that peak; on devices with zr_device_facts.narrow_attention in the operands' type. */
    bool in_f32;
    /** 1 + index of the input whose memory output i may reuse when that input dies here; 0: none. Only inputs of the
     *  same byte size are taken, and the kernel must allow it. Where output i is a parameter's gradient and the input
     *  an earlier part of it, that part is made in the gradient's memory. */
    int8_t in_place[ZR_OP_OUTS];
    zr_join join; /* communication in place of a kernel */
    /** The output is cut where the operands are (elementwise functions, heads): a rank's columns of the output depend
     *  on its columns of the operands alone. Other ops refuse a cut operand. */
    bool keeps_cut;
    /** It may read a weight of which a rank has only a piece, as its builder allows. */
    bool takes_pieces;
    /** It works row by row: where a rank has its own tokens of the operands that are no parameters, it has the same
     *  tokens of the output, and a part of a parameter's gradient, which is summed over the ranks. Other ops refuse
     *  such operands. */
    bool keeps_tokens;
};

/* ---- building -------------------------------------------------------------------------------- */

ZR_API ZR_NODISCARD zr_status zr_graph_create(const zr_graph_spec *spec, zr_graph **graph);
ZR_API void zr_graph_destroy(zr_graph **graph);

/** Begin a new unit. Parameters are declared inside the unit that holds them and may be used in any later unit. */
ZR_API void zr_graph_unit(zr_graph *graph, const char *format, ...) ZR_PRINTF(2, 3);

/** Declare a parameter. Weight decay applies to parameters of two and more dimensions. */
ZR_API zr_value zr_param(zr_graph *graph, zr_init init, zr_shape shape, const char *format, ...) ZR_PRINTF(4, 5);

/** Declare a parameter of the whole `shape` that may be cut; with M = 1 the same as zr_param. Latches ZR_ERR_CONFIG
 *  where M does not divide its parts; a first dimension of one part, a vocabulary's, is padded instead. */
ZR_API zr_value zr_param_cut(zr_graph *graph, zr_init init, zr_shape shape, zr_cut cut, const char *format, ...)
    ZR_PRINTF(5, 6);

/** Declare an input, filled by the caller; order of declaration = order in the caller's batch. */
ZR_API zr_value zr_input(zr_graph *graph, const char *name, zr_dtype dtype, zr_shape shape);

/** Add an op. out[i] holds on entry ZR_NONE (a new value is made) or a value from zr_grad_begin; NULL: all values are
 *  new and the caller does not need them. Latches errors. */
ZR_API void zr_graph_op(zr_graph *graph, const zr_op_def *def, const zr_op_attr *attr, int n_in, const zr_value *in,
                        zr_value *out);

/** Name the losses, F32 of any shape, written by an op: the objective is their mean over the global batch. */
ZR_API void zr_graph_losses(zr_graph *graph, zr_value losses);
/** Name the model's output: in decode mode the result of zr_engine_decode, (1, 1, V); in evaluation mode a value of any
 *  shape, such as logits, whose bytes then last to the end of the schedule, so that zr_engine_value can read it. */
ZR_API void zr_graph_output(zr_graph *graph, zr_value output);

/** Freeze the parameters declared so far that match these patterns: neither their gradients are computed nor those of
 *  values that depend on no other parameter, and they keep the bits that they are given. `patterns`: fnmatch's, one a
 *  line, over whole names or the part after their first dot ("h.0.*" is "transformer.h.0.*"); NULL: none. Latches
 *  ZR_ERR_CONFIG for a pattern that matches no parameter, and where all would be frozen. */
ZR_API void zr_graph_freeze(zr_graph *graph, const char *patterns);

/** Latch an error from model code. */
ZR_API void zr_graph_error(zr_graph *graph, zr_status status, const char *format, ...) ZR_PRINTF(3, 4);

/** Finish building: report the first latched error; give frozen parameters units of their own, after all others; in
 *  TRAIN mode differentiate: seed the losses' gradient (op "fill", run-time value) and add the backward ops in reverse
 *  order. */
ZR_API ZR_NODISCARD zr_status zr_graph_finish(zr_graph *graph);

/* ---- for adjoints ---------------------------------------------------------------------------- */

/* An adjoint makes exactly one contribution for each operand that needs a gradient (two when a value
 * is two operands): gradients are rounded at the last contribution, which is known by counting. */

/** Return the gradient of an op's output, or ZR_NONE when nothing flows back into it. */
ZR_API zr_value zr_grad_of(const zr_graph *graph, zr_value value);
/** Return whether a gradient has to be computed for this value (it depends on a parameter that trains). For adjoints:
 *  false for every value until zr_graph_finish has begun. */
ZR_API bool zr_grad_needed(const zr_graph *graph, zr_value value);
/** Return the value into which an adjoint's op writes its contribution to `value`'s gradient. When the op can add
 *  earlier contributions itself, pass `earlier`: it receives their sum (an operand for the op) or ZR_NONE. Then add the
 *  op, then call zr_grad_end, which adds the contributions that the op did not. Contributions to a parameter are F32
 *  until the last, which is rounded once to grad_dtype. */
ZR_API zr_value zr_grad_begin(zr_graph *graph, zr_value value, zr_value *earlier);
ZR_API void zr_grad_end(zr_graph *graph, zr_value value, zr_value contribution);
/** Add the existing value `contribution` to the gradient of `value` as a term (no copy is made). */
ZR_API void zr_grad_pass(zr_graph *graph, zr_value value, zr_value contribution);
/** Tell that an adjoint's op recomputes `losses`, an output of its forward op, as `again` (of the same type). If
 *  `losses` are the graph's losses, `again` takes their place, and the forward op need not run. */
ZR_API void zr_grad_losses(zr_graph *graph, zr_value losses, zr_value again);

/* ---- reading --------------------------------------------------------------------------------- */

/* These return NULL for an index out of range. Pointers are valid until the graph is built further. */

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
/** Return the losses; ZR_NONE when not named. In TRAIN mode a backward op may compute them in place of the forward op
 *  (zr_grad_losses). */
ZR_API zr_value zr_graph_get_losses(const zr_graph *graph);
ZR_API zr_value zr_graph_get_output(const zr_graph *graph);
/** Return where elements of a parameter stand in the whole: for elements [first, first + n) of the part of rank `place`
 *  of M, the whole's element at which the first stands, and in *run how many of them are contiguous there as well; -1:
 *  padding. n >= 1. */
ZR_API int64_t zr_param_place(const zr_graph *graph, int32_t param, int64_t place, int64_t first, int64_t n,
                              int64_t *run);
/** Return the number of parameters of the whole model (Psi), unpadded. */
ZR_API int64_t zr_graph_param_elems(const zr_graph *graph);

/* ---- optimizers ------------------------------------------------------------------------------ */

/** Sum of squares of a gradient, and its first element that is not finite. */
typedef struct zr_square {
    double sum;
    zr_exact exact; /* the sum without rounding, used in place of `sum` for rank-free sums */
    int64_t bad;    /* first element of the unit that is not finite; -1: all are finite */
} zr_square;

/** Arguments of an update of one stretch of one parameter; all arrays are (n) F32 but grad and param16. */
typedef struct zr_update_args {
    int64_t n;
    float *weight;        /* master, in and out */
    uint16_t *param16;    /* 16-bit copy, out; NULL: none is kept */
    zr_dtype param_dtype; /* type of param16: BF16 or F16 */
    const void *grad;     /* grad_dtype */
    zr_dtype grad_dtype;  /* F32, BF16 or F16 */
    float *slot[4];       /* the optimizer's states, in and out */
    float grad_scale;     /* clipping and loss scale: the gradient is grad * grad_scale */
    double lr;
    double weight_decay; /* 0 for parameters of fewer than two dimensions */
    int64_t step;        /* from 1 */
    const double *hyper; /* the optimizer's own numbers */
} zr_update_args;

/** An optimizer: n_slots fp32 states a parameter and one element-wise rule. K (bytes a parameter, with the fp32 master
 *  of mixed precision) is 4 + 4*n_slots: 12 for Adam, 8 and 4 for SGD. */
typedef struct zr_optimizer {
    const char *name; /* built in: the device has a kernel of this name ("adamw", "adam", "sgd") */
    int n_slots;      /* 0 .. 4, zero at start */
    double hyper[8];  /* adamw, adam: beta1, beta2, eps; sgd: momentum, nesterov */
    double weight_decay;
    /** The update rule; must treat every element alike. NULL: the device's own kernel. */
    void (*rule)(const zr_update_args *args);
    const char *slot_name[4]; /* names of its states in a checkpoint ("exp_avg"); letters, digits and '_' */
} zr_optimizer;

#define ZR_OPTIMIZER_INIT                                                                                              \
    {                                                                                                                  \
        NULL, 0, {0}, 0, NULL,                                                                                         \
        {                                                                                                              \
            0                                                                                                          \
        }                                                                                                              \
    }

/** Return AdamW: weight_decay decoupled (Loshchilov and Hutter 2019); n_slots 2. */
ZR_API zr_optimizer zr_adamw(double beta1, double beta2, double eps, double weight_decay);
/** Return Adam: weight_decay as an L2 term of the gradient; n_slots 2. */
ZR_API zr_optimizer zr_adam(double beta1, double beta2, double eps, double weight_decay);
/** Return SGD: weight_decay as an L2 term; momentum 0: no slot; otherwise one (v = momentum v + g, as torch). */
ZR_API zr_optimizer zr_sgd(double momentum, bool nesterov, double weight_decay);

#ifdef __cplusplus
}
#endif
#endif
