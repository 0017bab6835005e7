/**
 * graph: values, ops and reverse-mode differentiation. A model's author writes the forward pass with the functions of
 * zr/ops.h. The graph knows shapes, costs and adjoints. It knows nothing of ZeRO, ranks or devices.
 *
 * Tensor parallelism (Shoeybi et al. 2019). The author declares how a weight may be cut (zr_param_cut). A graph of
 * degree M is the computation of one of M ranks, and all M ranks have the same graph. The graph has only an M-th of
 * each cut weight. If a product with a cut weight gives only a partial sum, an op is inserted that adds the partial
 * sums of all M ranks. The model's code does not know M.
 *
 * Sequence parallelism (Korthikanti et al. 2022). Each rank stores only an M-th of the rows (tokens) of each sum over
 * the M ranks, and of all values that are computed row by row from this sum. Before the next cut weight, the tokens of
 * all ranks are gathered.
 *
 * Every value is written once (SSA). If a builder function fails, it stores its error in the graph and returns
 * ZR_NONE. Later calls then do nothing, and zr_graph_finish returns the first error. Model code therefore needs no
 * error checks.
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
/** Maximum number of loss terms of a graph. */
#define ZR_LOSS_TERMS 4
#define ZR_OP_INS 8
#define ZR_OP_OUTS 4
/** Maximum number of tiles of a table. A plan has a unit for each tile, so the size of the plan grows with their
 * number. */
#define ZR_TILES_MOST 4096

typedef enum zr_mode {
    ZR_MODE_TRAIN, /* forward and backward passes, with dropout */
    ZR_MODE_EVAL,  /* forward pass up to the losses, without dropout */
    ZR_MODE_DECODE /* forward pass of one token (batch 1, seq 1), with a key-value cache of cache_len tokens */
} zr_mode;

typedef struct zr_graph_spec {
    zr_mode mode;
    int64_t batch;       /* B, rows per micro-batch on one rank */
    int64_t seq;         /* T, tokens per row */
    int64_t cache_len;   /* maximum length of a sequence in tokens, for DECODE; otherwise 0 */
    zr_dtype dtype;      /* type of parameters and activations: F32, BF16 or F16 */
    zr_dtype grad_dtype; /* type of parameter gradients in communication: F32, BF16 or F16 */
    int64_t tensor;      /* M, number of tensor-parallel ranks; 0 or 1 for no tensor parallelism */
    /* whether to use sequence parallelism (if M > 1): each rank then has only its own tokens between layers */
    bool sequence;
    /* maximum bytes of the logits that zr_linear_cross_entropy computes at a time, but at least 16 rows; 0 for 512 rows
     * (zr_graph_head_bytes) */
    int64_t head_bytes;
    /* whether a row holds several documents. The graph then has a further input, after the inputs that the model
     * declares: (B,T) I32, for each token the index in its row of its document's first token. zr_attend, zr_rotary and
     * zr_position read it: a token sees only its own document, and positions start again at each document. Not for
     * DECODE */
    bool documents;
    /* whether a unit with matrices and vectors (parameters of one dimension) is split into a unit of matrices and a
     * unit of vectors, its trained and its frozen parameters alike */
    bool vectors_apart;
    /* whether hidden matrices (zr_param_info.hidden) have units of their own, apart from the other trained parameters
     * of their units, whatever vectors_apart says. Then `hidden` has name patterns of the hidden matrices, one per
     * line, or is NULL for the matrices that zr_param_info.hidden describes. A graph keeps the pointer only while it is
     * built */
    bool hidden_apart;
    const char *hidden;
    /* alignment of matrices (parameters of several dimensions) in elements: each begins at a multiple of it in its
     * unit, so that a record of that many elements has elements of one matrix only; 0 for none */
    int64_t matrix_align;
    /* Sizes of the inputs of models that are trained on pairs of sentences (zr_family.samples); 0 for other models. */
    int64_t predictions; /* P, maximum number of tokens of a row that are predicted */
    int64_t samples;     /* S, maximum number of samples in a row */
    /* maximum number of elements of a tile; 0 for whole tables. A larger table (zr_param_table) is divided into at most
     * ZR_TILES_MOST tiles of rows. Each tile is a parameter and a unit */
    int64_t tile_elems;
} zr_graph_spec;

/** Return zr_graph_spec.head_bytes for a device. A device with its own memory (facts->own_memory) reads the weights of
 * the head and the sum of their gradient from memory for every block of logits, so its blocks are long: 512 MiB. */
static inline int64_t zr_graph_head_bytes(const zr_device_facts *facts)
{
    return facts->own_memory ? (int64_t)512 << 20 : 0;
}

/** Low-rank adapters (LoRA, Hu et al. 2021): each adapted layer computes y + (alpha / rank) * dropout(x) A^T B^T, and
 * only A (rank, inputs) and B (outputs, rank) are trained. */
typedef struct zr_lora {
    int64_t rank;   /* rows of A and columns of B; 0 for no adapters */
    double alpha;   /* numerator of the factor alpha / rank */
    double dropout; /* dropout probability of an adapter's input */
    /* name patterns of the adapted linear layers, one per line, such as "q_proj"; NULL for all linear layers of
     * numbered blocks, whose names have a number between two dots */
    const char *targets;
} zr_lora;

typedef enum zr_value_kind {
    ZR_VALUE_PARAM, /* parameter: read-only, in the graph's dtype */
    ZR_VALUE_INPUT, /* input: filled by the caller for each micro-batch */
    ZR_VALUE_ACT,   /* activation: written by an op */
    ZR_VALUE_GRAD,  /* complete gradient of a parameter: in grad_dtype, rounded once */
    ZR_VALUE_CACHE  /* cache for decoding: zero at start, kept from one decode step to the next */
} zr_value_kind;

typedef struct zr_type {
    zr_dtype dtype;
    zr_shape shape;
} zr_type;

typedef struct zr_value_info {
    zr_value_kind kind;
    zr_type type;
    /* unit of the op that writes the value; for a parameter, unit in which it was declared; -1 for inputs */
    int32_t unit;
    /* index of the parameter, if the value is a parameter, its gradient or a part of its gradient; otherwise -1 */
    int32_t param;
    int32_t producer; /* index of the op that writes the value; -1 for parameters, inputs and caches */
    /* number of equal parts of the columns, if each part is cut into M pieces, one for each rank; 0 if every rank has
     * all columns */
    int32_t cut;
    bool tokens; /* whether a rank has only the rows of its own tokens, in shape (B T / M, ...) */
} zr_value_info;

typedef enum zr_init_kind { ZR_INIT_ZERO, ZR_INIT_ONE, ZR_INIT_NORMAL, ZR_INIT_UNIFORM } zr_init_kind;
typedef struct zr_init {
    zr_init_kind kind;
    /* standard deviation for ZR_INIT_NORMAL and ZR_INIT_UNIFORM, with mean 0. A uniform value lies between -sqrt(3) std
     * and sqrt(3) std */
    double std;
} zr_init;

/** Cut of a parameter over M tensor-parallel ranks. Dimension `dim` consists of `parts` equal parts, for example 3 for
 * queries, keys and values, but usually 1. Each part is divided into M equal pieces. Rank i has piece i of each part.
 */
typedef struct zr_cut {
    /* dimension that is cut, and its number of parts; parts is 0 if every rank has the whole parameter */
    int32_t dim, parts;
} zr_cut;

/** Tile of a table: consecutive rows, which are a parameter of their own. All tiles have the name of the table. */
typedef struct zr_tile {
    /* index of the tile, and number of tiles of the table; a parameter without tiles has index 0 and count 1 */
    int32_t index, count;
    int64_t first; /* index of the tile's first row in the rank's part of the table */
} zr_tile;

typedef struct zr_param_info {
    char name[ZR_NAME_MAX];
    /* shape of the parameter (of the tile) on one rank; if M does not divide a dimension, the last rank's piece ends
     * with padding */
    zr_shape shape;
    zr_shape whole; /* shape in the whole model, used in files and for initial values */
    zr_cut cut;
    /* place in a table that is divided into tiles. `whole`, `name` and `first` are the same for all tiles of the table
     */
    zr_tile tile;
    zr_init init;
    bool frozen;  /* whether the parameter is frozen, that is, not trained (zr_graph_freeze, zr_graph_adapt) */
    bool adapter; /* whether the parameter is a factor of a low-rank adapter (zr_graph_adapt) */
    /* for a factor of an adapter: whether the adapted weight has the shape (inputs, outputs), as in GPT-2, and not
     * (outputs, inputs) */
    bool by_columns;
    /* for a matrix that fuses several, such as queries, keys and values: its parts, as declared for a cut
     * (zr_param_cut), on any number of ranks; parts is 0 or 1 for a single matrix */
    zr_cut fused;
    bool inputs_first; /* whether a linear layer reads the matrix as (inputs, outputs), not as (outputs, inputs) */
    /* whether the parameter is a hidden matrix, which is trained by orthogonalised directions (zr_muon): a trained
     * matrix of a block, that is, of a unit between the first and the last unit that the model declares, or of a linear
     * layer of the last unit whose outputs pass through another matrix; or a trained matrix that zr_graph_spec.hidden
     * names. Set only with zr_graph_spec.hidden_apart */
    bool hidden;
    /* index of the parameter's unit. Valid only after zr_graph_finish, which moves some parameters to other units */
    int32_t unit;
    int64_t unit_offset; /* offset in elements of the parameter in its unit's flat buffer, on one rank */
    int64_t first;       /* index of the parameter's first element in the whole model, used for random numbers */
    zr_value value;
    /* gradient, or ZR_NONE if updates never change the parameter, because it is frozen or no op contributes to its
     * gradient */
    zr_value grad;
} zr_param_info;

/** Unit, for example a transformer block. ZeRO gathers the parameters of a unit together, and recomputation runs its
 * ops together. A unit's parameters are either all trained or all frozen. Therefore frozen parameters form separate
 * units, after all units that have ops. */
typedef struct zr_unit_info {
    char name[ZR_NAME_MAX];
    int32_t first_param, n_params;
    int64_t elems; /* number of parameter elements on one rank, with the gaps between matrices that are aligned
                      (zr_graph_spec.matrix_align), without padding at the end */
    int32_t
        declared; /* index of the unit in which the model declared the parameters; this unit's own if it is declared */
    /* whether this unit has only frozen parameters. It then has a name such as "h.0, frozen", and no ops unless it is a
     * tile */
    bool frozen;
    bool tile; /* whether this unit is a tile of a table, with a name such as "embedding, tile 3" */
    /* whether this unit has the vectors of another unit (zr_graph_spec.vectors_apart), with a name such as "h.0,
     * vectors", or its parameters that are not hidden matrices (zr_graph_spec.hidden_apart), as in "h.0, rest" */
    bool vectors;
} zr_unit_info;

/** Attributes of an op. Their meaning is given in the op's comment in zr/ops.h. */
typedef struct zr_op_attr {
    int64_t i[8];
    double f[8];
} zr_op_attr;

/** Communication between tensor-parallel ranks that replaces the kernel of an op. The planner emits collectives for
 * such ops. */
typedef enum zr_join {
    ZR_JOIN_NONE,
    /* the output is the sum of all ranks' operands, added in a fixed binary tree over the ranks and rounded once */
    ZR_JOIN_SUM,
    /* the output is this rank's piece of the sum, which is divided into M equal pieces, one for each rank */
    ZR_JOIN_SCATTER,
    ZR_JOIN_GATHER /* the output is the operands of all ranks, one after the other */
} zr_join;

struct zr_op {
    const zr_op_def *def;
    zr_op_attr attr;
    int32_t n_in, n_out;
    zr_value in[ZR_OP_INS]; /* operands; ZR_NONE for an optional operand that is absent */
    zr_value out[ZR_OP_OUTS];
    int32_t unit;
    bool backward;
    int32_t of; /* for a backward op: index of the forward op whose adjoint it belongs to; for others their own index */
};

typedef struct zr_cost {
    double flops; /* number of FLOPs; a multiplication and an addition count as two */
    double again; /* number of FLOPs in `flops` that repeat work of another op of the model */
    double bytes; /* bytes of memory that are read and written */
    /* sizes of the matrix products that perform the FLOPs; zeros if there are no products, or no measured rates for
     * them */
    zr_product_sizes product;
    double pairs; /* for attention: number of query-key pairs in all heads; otherwise 0 */
    int64_t head; /* for attention: width of a head in elements */
} zr_cost;

/** Definition of a kind of op. A user-defined op consists of a zr_op_def, anywhere in the user's code, and of a kernel
 * with the same name that is given to the device (zr/device.h). */
struct zr_op_def {
    const char *name; /* name of the op and of its kernel */
    int n_out;
    /** Check the operands, and compute the types of the n_out outputs. */
    zr_status (*infer)(const zr_graph *graph, const zr_op *op, zr_type *out);
    /** Add the ops that compute the gradients of the op's inputs, with the functions zr_grad_*. NULL if no gradients
     * flow through the op. */
    zr_status (*adjoint)(zr_graph *graph, const zr_op *op);
    zr_cost (*cost)(const zr_graph *graph, const zr_op *op);
    /** Whether the outputs are large compared to the work of computing them, as in attention. The policy "selective"
     * recomputes such outputs. */
    bool selective;
    /** Whether the outputs are cheap to recompute, as in norms and activation functions: little more than one pass
     * over memory. Every policy but "keep" recomputes such outputs in the backward pass if recomputation saves memory.
     * It saves memory if the operands are kept in memory anyway. If the backward pass of another unit reads the
     * outputs, recomputation also requires that the op reads no parameter that would have to be gathered for it. The op
     * must give the same bits when it runs again. */
    bool cheap;
    /** Whether the op is attention that multiplies in F32 even if its operands have 16 bits. Its FLOPs are then
     * compared with the F32 peak. On devices with zr_device_facts.narrow_attention, attention multiplies in the type of
     * its operands instead. */
    bool in_f32;
    /** 1 + index of an input whose memory output i may reuse, or 0 for none. The memory is reused only if the input is
     * not needed afterwards. The input must have the same size in bytes, and the kernel must allow the reuse. If output
     * i is a parameter's gradient and the input is an earlier partial sum of it, the partial sum is computed in the
     * gradient's memory. */
    int8_t in_place[ZR_OP_OUTS];
    zr_join join; /* communication that replaces the op's kernel */
    /** Whether the output may be cut like the operands, as in elementwise functions and attention heads. This requires
     * that a rank's columns of the output depend only on its own columns of the operands. If the op also reads a whole
     * parameter, each rank computes a part of the parameter's gradient, and the parts are summed over the ranks. Other
     * ops refuse operands that are cut. */
    bool keeps_cut;
    /** Whether the op accepts a cut weight (each rank has only one piece of the weight) and a tile of a table. The op's
     * builder may allow only some cases. */
    bool takes_pieces;
    /** Whether a tile as an operand stands for all tiles of its table. The adjoint then contributes to the gradient of
     * each tile. */
    bool all_tiles;
    /** Whether the op works row by row, so that its operands may be only a rank's own tokens. The output then has the
     * same tokens. Each rank computes a part of every parameter's gradient, and the parts are summed over the ranks.
     * Other ops refuse such operands. */
    bool keeps_tokens;
    /** Whether the kernel reads zr_runtime.loss_seed, which a training step of several loss terms computes before its
     * first backward op. */
    bool reads_seeds;
};

/* ---- building -------------------------------------------------------------------------------- */

ZR_API ZR_NODISCARD zr_status zr_graph_create(const zr_graph_spec *spec, zr_graph **graph);
ZR_API void zr_graph_destroy(zr_graph **graph);

/** Begin a new unit. Parameters declared from now on belong to it. Later units may use them too. */
ZR_API void zr_graph_unit(zr_graph *graph, const char *format, ...) ZR_PRINTF(2, 3);

/** Declare a parameter. Weight decay applies to parameters of two or more dimensions. */
ZR_API zr_value zr_param(zr_graph *graph, zr_init init, zr_shape shape, const char *format, ...) ZR_PRINTF(4, 5);

/** Declare a parameter that may be cut over M tensor-parallel ranks. `shape` is the shape of the whole parameter. With
 * M = 1 the function is the same as zr_param. Store ZR_ERR_CONFIG in the graph if M does not divide the length of a
 * part. There is one exception: a first dimension that is a single part, such as a vocabulary, is padded. */
ZR_API zr_value zr_param_cut(zr_graph *graph, zr_init init, zr_shape shape, zr_cut cut, const char *format, ...)
    ZR_PRINTF(5, 6);

/** Declare a table with a row for each word of a vocabulary, of shape (rows, cols). Its rows may be cut over M
 * tensor-parallel ranks, as by zr_param_cut, and they may be divided into tiles (zr_graph_spec.tile_elems). The value
 * returned stands for the whole table. With tiles, this value may only be an operand of zr_embedding,
 * zr_linear_cross_entropy and zr_linear (transposed), each without a bias. */
ZR_API zr_value zr_param_table(zr_graph *graph, zr_init init, int64_t rows, int64_t cols, const char *format, ...)
    ZR_PRINTF(5, 6);

/** Declare an input, which the caller fills. Inputs are numbered in the order of their declarations. */
ZR_API zr_value zr_input(zr_graph *graph, const char *name, zr_dtype dtype, zr_shape shape);

/** Add an op. On entry, out[i] is ZR_NONE to create a new value, or a value from zr_grad_begin. If `out` is NULL, all
 * outputs are new values, which are not returned. Errors are stored in the graph. */
ZR_API void zr_graph_op(zr_graph *graph, const zr_op_def *def, const zr_op_attr *attr, int n_in, const zr_value *in,
                        zr_value *out);

/** Add a term to the training objective. Its losses are the elements of a value, which must be F32, of any shape, and
 * written by an op. The objective is the sum of the terms. The value of a term is the mean over its losses in the
 * global batch that count (zr_batch.counted), or 0 if no loss counts. `name` consists of letters, digits and
 * underscores, and names the term in metrics, such as "masked_lm". A graph has up to ZR_LOSS_TERMS terms, the same in
 * training and evaluation.
 *
 * With one term, ranks exchange the number of losses that count together with the gradient norm. With several terms,
 * whose losses have different weights in the gradient, ranks exchange the numbers before the first backward op
 * (zr_step_args.count). */
ZR_API void zr_graph_loss_term(zr_graph *graph, const char *name, zr_value losses);
/** Declare the losses of an objective with a single term, which gets the name "loss" (zr_graph_loss_term). */
ZR_API void zr_graph_losses(zr_graph *graph, zr_value losses);
/** Declare the model's output. In decode mode it is the result of zr_engine_decode, of shape (1, 1, V). In evaluation
 * mode the output may be any value, such as the logits. The output's memory is then not reused before the end of the
 * schedule, so that zr_engine_value can read it. */
ZR_API void zr_graph_output(zr_graph *graph, zr_value output);

/** Freeze the parameters declared so far whose names match a pattern. Frozen parameters keep the exact values with
 * which they are filled. No gradients are computed for them, nor for values that depend on no trained parameter.
 * `patterns` has one fnmatch pattern per line. A pattern must match a whole name, or the part after its first dot:
 * "h.0.*" has the same effect as "transformer.h.0.*". NULL freezes no parameter. Store ZR_ERR_CONFIG in the graph if
 * a pattern matches no parameter, or if all parameters would be frozen. */
ZR_API void zr_graph_freeze(zr_graph *graph, const char *patterns);

/** Add low-rank adapters to the model that is built afterwards. zr_linear then adds an adapter to each layer that a
 * pattern of lora->targets matches. For a weight "NAME.weight" the parameters of the adapter are "NAME.lora_A.weight",
 * whose initial values are uniform in +-1/sqrt(inputs), and "NAME.lora_B.weight", which begins with zeros. All other
 * parameters are frozen. A pattern matches a name as in zr_graph_freeze, with or without ".weight", or the end of a
 * name after any dot. lora->targets is borrowed until zr_graph_finish, which fails with ZR_ERR_CONFIG if a pattern
 * matches no layer. Do nothing if `lora` is NULL or its rank is 0. */
ZR_API void zr_graph_adapt(zr_graph *graph, const zr_lora *lora);

/** Store an error of model code in the graph. */
ZR_API void zr_graph_error(zr_graph *graph, zr_status status, const char *format, ...) ZR_PRINTF(3, 4);

/** Finish building. Return the first stored error. Move tiles and frozen parameters to units of their own, after all
 * other units, and the ops that read a tile to the unit of the tile. In TRAIN mode also add the backward pass: ops
 * "fill" that set the gradients of the losses, and the backward ops in reverse order. */
ZR_API ZR_NODISCARD zr_status zr_graph_finish(zr_graph *graph);

/* ---- for adjoints ---------------------------------------------------------------------------- */

/* For each operand that needs a gradient, an adjoint must add exactly one contribution. If a value is used as two
 * operands, the adjoint must add two contributions. The graph counts the contributions, and rounds a gradient after the
 * last one. */

/** Return the gradient of an op's output, or ZR_NONE if no gradient flows back to the output. */
ZR_API zr_value zr_grad_of(const zr_graph *graph, zr_value value);
/** Return whether a value needs a gradient, because it depends on a trained parameter. Call this function only in
 * adjoints. Before zr_graph_finish the result is false for every value. */
ZR_API bool zr_grad_needed(const zr_graph *graph, zr_value value);
/** Return the value to which an adjoint's op must write its contribution to the gradient of `value`. If the op can add
 * earlier contributions itself, pass a pointer as `earlier`. *earlier receives the sum of the earlier contributions,
 * which is then an operand of the op, or ZR_NONE if there are no earlier contributions. Afterwards add the op, and then
 * call zr_grad_end, which adds any contributions that the op did not add. Contributions to a parameter's gradient are
 * F32. Their sum is rounded once to grad_dtype. */
ZR_API zr_value zr_grad_begin(zr_graph *graph, zr_value value, zr_value *earlier);
ZR_API void zr_grad_end(zr_graph *graph, zr_value value, zr_value contribution);
/** Add an existing value as a contribution to the gradient of `value`. A copy of it is made only if necessary. */
ZR_API void zr_grad_pass(zr_graph *graph, zr_value value, zr_value contribution);
/** Declare that an adjoint's op computes the losses again: `again` has the type and contents of `losses`, an output of
 * the forward op. If `losses` belong to a loss term, `again` replaces them, and the forward op need not run. */
ZR_API void zr_grad_losses(zr_graph *graph, zr_value losses, zr_value again);

/* ---- reading --------------------------------------------------------------------------------- */

/* Functions that read a graph. They return NULL if an index is out of range. Pointers are valid until ops or values
 * are added to the graph. */

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
/** Return the number of loss terms. */
ZR_API int zr_graph_loss_terms(const zr_graph *graph);
/** Return the losses of a term, or ZR_NONE if `term` is out of range. In TRAIN mode a backward op may compute them
 * instead of the forward op (zr_grad_losses). */
ZR_API zr_value zr_graph_get_loss_term(const zr_graph *graph, int term);
/** Return the name of a term, or NULL. */
ZR_API const char *zr_graph_loss_name(const zr_graph *graph, int term);
ZR_API zr_value zr_graph_get_output(const zr_graph *graph);
/** Return the input with the beginnings of documents (zr_graph_spec.documents), or ZR_NONE if the graph has no
 * documents. */
ZR_API zr_value zr_graph_get_documents(const zr_graph *graph);
/** Convert an index in one rank's part of a parameter (or of a tile) to an offset in the whole parameter. Return the
 * offset of element `first` of the part of tensor-parallel rank `place`, or -1 if the element is padding. *run receives
 * how many elements from `first` on, at most n, are contiguous in the whole parameter too. n must be at least 1. */
ZR_API int64_t zr_param_place(const zr_graph *graph, int32_t param, int64_t place, int64_t first, int64_t n,
                              int64_t *run);
/** Return the number of parameters of the whole model (Psi), without padding. */
ZR_API int64_t zr_graph_param_elems(const zr_graph *graph);

/* ---- optimizers ------------------------------------------------------------------------------ */

/** Sum of squares of this rank's part of a unit's gradient, and index of the first element that is not finite. The sum
 * is in `sum`, or in `exact` if it must not depend on the number of ranks; the other field is 0. Sums of different
 * ranks and units are always added exactly. */
typedef struct zr_square {
    double sum;
    zr_exact exact;
    int64_t bad; /* index in the unit of the first element that is not finite, or -1 */
} zr_square;

/** Sums of squares of parts of one parameter, for an optimizer with trust ratios (zr_optimizer.trust): of the weights,
 * and of the optimizer's direction. The field `bad` is not used. */
typedef struct zr_trust {
    zr_square weight, direction;
} zr_trust;

/** Number of elements in a block of the sums for trust ratios. The bits of a sum depend on where its blocks begin. */
#define ZR_TRUST_BLOCK 4096

/** Norms of one whole parameter, over all ranks that have parts of it. */
typedef struct zr_norms {
    double weight, direction;
} zr_norms;

/** Maximum number of states of an optimizer. */
#define ZR_OPTIMIZER_SLOTS 4

/** Arguments for the update of n elements of one parameter. All arrays have n elements. They are F32, except grad,
 * param16, and states in records. */
typedef struct zr_update_args {
    int64_t n;
    float *weight;                   /* master weights, read and written */
    uint16_t *param16;               /* 16-bit copy of the weights, which is written; NULL if there is no copy */
    zr_dtype param_dtype;            /* type of param16: BF16 or F16 */
    const void *grad;                /* gradient, in grad_dtype */
    zr_dtype grad_dtype;             /* F32, BF16 or F16 */
    float *slot[ZR_OPTIMIZER_SLOTS]; /* optimizer states, read and written */
    /* type of each state: F32, or one with records, to which `slot` then points. Element 0 begins a record, and behind
     * the last element are zeros */
    zr_dtype slot_dtype[ZR_OPTIMIZER_SLOTS];
    zr_rng rng;       /* random numbers by which records are rounded */
    int64_t first;    /* index of the random number of element 0 */
    float grad_scale; /* factor for the gradient, for clipping and the loss scale: the update uses grad * grad_scale */
    double lr;
    double weight_decay; /* weight decay; 0 for parameters of fewer than two dimensions */
    int64_t step;        /* number of this update, from 1 */
    const double *hyper; /* zr_optimizer.hyper */
    zr_norms norms;      /* with zr_optimizer.trust: norms of the whole parameter and of its direction; otherwise 0 */
    double scale;        /* for "muon": factor of the direction (zr_muon_scale); otherwise 0 */
} zr_update_args;

/** Factors of an orthogonalised direction of a matrix of r outputs and c inputs, with the names of torch.optim.Muon. */
typedef enum zr_muon_scale {
    ZR_MUON_ORIGINAL,           /* sqrt(max(1, r / c)): Keller Jordan's Muon */
    ZR_MUON_MATCH_RMS_ADAMW,    /* 0.2 sqrt(max(r, c)): Moonlight (Liu et al. 2025) */
    ZR_MUON_SPECTRAL_UNCLAMPED, /* sqrt(r / c) */
    ZR_MUON_SPECTRAL            /* sqrt(max(r, c)): Megatron's "spectral" */
} zr_muon_scale;

/** Newton-Schulz iteration that makes a matrix nearly orthogonal: X = u / max(|u|, eps), or u / (|u| + eps), with the
 * Frobenius norm, then `steps` times X = a X + (b A + c A^2) X, where A = X X^T, or X = a X + X (b A + c A^2) with
 * A = X^T X, whichever A is smaller. A zero matrix stays zero. */
typedef struct zr_ortho {
    int steps;      /* number of iterations; 0 for an optimizer without orthogonal directions */
    double a, b, c; /* coefficients */
    double eps;     /* epsilon of the norm */
    bool eps_added; /* whether eps is added to the norm, and is not its lower bound */
    zr_dtype dtype; /* type of X and A, in which directions also pass between ranks: BF16 or F32 */
    zr_muon_scale scale;
} zr_ortho;

/** Optimizer, with n_slots states per parameter, in fp32 unless slot_records says otherwise, and an elementwise update
 * rule. In mixed precision it needs K = 4
 * + 4*n_slots bytes per parameter, including the fp32 master. For example, K is 12 for Adam and LAMB, 8 for Lion,
 * and 8 or 4 for SGD with or without momentum.
 *
 * A rule may use trust ratios, such as |w| / |u| in LAMB, where w is a whole parameter and u the direction of its
 * update. A training step then computes `direction` for each rank's shards without storing it, and sums the squares of
 * the direction and of the weights. All ranks exchange these two sums for each parameter. Then `rule` gets both norms,
 * and computes the direction again. The bits of the norms do not depend on the stage or on the homes of states. */
typedef struct zr_optimizer {
    /* name; built-in optimizers ("adamw", "adam", "sgd", "lamb", "lars", "muon", "lion") have a kernel of this name in
     * the device */
    const char *name;
    int n_slots; /* number of states, from 0 to ZR_OPTIMIZER_SLOTS; they are zero at start */
    /* constants of the rule: beta1, beta2, eps, and 1 for no bias correction, for adamw and adam; momentum, nesterov
     * for sgd; beta1, beta2, eps, lowest and highest trust ratio, zr_lamb_flags for lamb; momentum, trust coefficient,
     * eps for lars; momentum, nesterov, sums for muon; beta1, beta2 for lion */
    double hyper[8];
    double weight_decay;
    /** Update rule, which must treat all elements equally. NULL to use the device's kernel. */
    void (*rule)(const zr_update_args *args);
    /* names of the states in checkpoints, such as "exp_avg", of letters, digits and '_' */
    const char *slot_name[ZR_OPTIMIZER_SLOTS];
    bool trust; /* whether the rule uses norms of whole parameters (zr_update_args.norms) */
    /** Write to `out` (n elements) the direction whose norm the rule needs, and change nothing else. Needed if `trust`
     * is true and `rule` is not NULL. All elements must be treated equally. args->norms is not set. */
    void (*direction)(const zr_update_args *args, float *out);
    zr_ortho ortho; /* for "muon": how directions become orthogonal; otherwise `steps` is 0 */
    /* types with records in which states of the matrices of blocks are kept, or F32 (0). Of "adamw": E4M3 for the first
     * moment, rounded to nearest, and E5M2 for the second, rounded at random */
    zr_dtype slot_records[ZR_OPTIMIZER_SLOTS];
    double lr_factor; /* factor of the learning rate of a training step (zr_step_args.lr); 0 stands for 1 */
} zr_optimizer;

/** Return AdamW, which has decoupled weight decay and two states (Loshchilov and Hutter 2019). */
ZR_API zr_optimizer zr_adamw(double beta1, double beta2, double eps, double weight_decay);
/** Return Adam, which has two states. weight_decay is an L2 term of the gradient. */
ZR_API zr_optimizer zr_adam(double beta1, double beta2, double eps, double weight_decay);
/** Return SGD. weight_decay is an L2 term of the gradient. The state is v = momentum v + g, as in PyTorch. If momentum
 * is 0, there is no state. */
ZR_API zr_optimizer zr_sgd(double momentum, bool nesterov, double weight_decay);
/** Return Lion (Chen et al. 2023), whose updates have one size. With the gradient g and the state, the momentum m,
 * w = (1 - lr weight_decay) w - lr sign(beta1 m + (1 - beta1) g), where sign(0) is 0; then m = beta2 m + (1 - beta2) g.
 */
ZR_API zr_optimizer zr_lion(double beta1, double beta2, double weight_decay);

/** Variants of LAMB (You et al. 2020), three optimizers with one name. m and v are moving averages of the
 * gradient g and of g^2, u is the direction, and the update is w -= lr * r * u, where r depends on the norms of a whole
 * parameter:
 *
 *     DEEPSPEED  u = m / (sqrt(v) + eps) + weight_decay w,   r = |w| / |u| clamped to [min_coeff, max_coeff]
 *                bias_correction: lr is multiplied by sqrt(1 - beta2^t) / (1 - beta1^t); u has no correction
 *     NVIDIA     u = m' / (sqrt(v') + eps) + weight_decay w, r = |w| / |u|, but 1 without weight decay
 *     PAPER      u as in NVIDIA,                             r = |w| / |u|
 *
 * m' = m / (1 - beta1^t) and v' = v / (1 - beta2^t), or m and v without bias_correction. r is 1 if a norm is 0.
 * Sources: FusedLamb of DeepSpeed; FusedLAMB of NVIDIA's apex; algorithm 2 of the paper with phi(z) = z. */
typedef enum zr_lamb_variant { ZR_LAMB_DEEPSPEED, ZR_LAMB_NVIDIA, ZR_LAMB_PAPER } zr_lamb_variant;

typedef struct zr_lamb_args {
    double beta1, beta2, eps, weight_decay;
    bool bias_correction;
    double min_coeff, max_coeff; /* DEEPSPEED: bounds of the trust ratio */
    bool eps_inside_sqrt;        /* DEEPSPEED: whether eps is added to v instead of to its root */
    bool adam_w_mode;            /* NVIDIA: whether weight decay is a term of u and not of the gradient (L2) */
    bool grad_averaging;         /* NVIDIA: whether m = beta1 m + (1 - beta1) g and not beta1 m + g */
    bool use_nvlamb;             /* NVIDIA: whether r is |w| / |u| even without weight decay */
} zr_lamb_args;

/** Flags in zr_optimizer.hyper[5] of "lamb", in which the variants differ. zr_lamb sets them. */
typedef enum zr_lamb_flags {
    ZR_LAMB_CORRECTS_LR = 1,      /* lr is multiplied by sqrt(1 - beta2^t) / (1 - beta1^t) */
    ZR_LAMB_CORRECTS_MOMENTS = 2, /* u has m' and v' instead of m and v */
    ZR_LAMB_EPS_INSIDE = 4,       /* eps is added to v and not to its root */
    ZR_LAMB_L2 = 8,               /* weight decay is a term of the gradient */
    ZR_LAMB_SUMS_GRADIENTS = 16,  /* m = beta1 m + g */
    ZR_LAMB_DECAYED_ONLY = 32     /* r is 1 without weight decay */
} zr_lamb_flags;

/** Return the defaults of a variant: betas 0.9 and 0.999; for DEEPSPEED eps 1e-8, no weight decay and bounds 0.01 and
 * 10, otherwise eps 1e-6 and weight decay 0.01. */
ZR_API zr_lamb_args zr_lamb_defaults(zr_lamb_variant variant);
/** Return LAMB, which has two states and trust ratios. If args is NULL, use the defaults. */
ZR_API zr_optimizer zr_lamb(zr_lamb_variant variant, const zr_lamb_args *args);

/** Return LARS, which has trust ratios (You et al. 2017, algorithm 1). With the gradient g of a whole parameter,
 * r = trust_coefficient |w| / (|g| + weight_decay |w| + eps), or 1 if |w| or |g| is 0. The state is v = momentum v +
 * lr * r * (g + weight_decay w), and the update w -= v. eps comes from LARC in NVIDIA's apex; the paper has no eps. If
 * momentum is 0, there is no state. */
ZR_API zr_optimizer zr_lars(double momentum, double trust_coefficient, double eps, double weight_decay);

typedef struct zr_muon_args {
    double momentum, weight_decay;
    bool nesterov;
    bool sums; /* whether the momentum is m = momentum m + g, and not momentum m + (1 - momentum) g */
    zr_ortho ortho;
} zr_muon_args;

/** Return the defaults of torch.optim.Muon: momentum 0.95, nesterov, weight decay 0.1, five iterations in BF16 with the
 * coefficients 3.4445, -4.7750 and 2.0315, eps 1e-7 as a lower bound, and the scale ZR_MUON_ORIGINAL. */
ZR_API zr_muon_args zr_muon_defaults(void);
/** Return Muon (Jordan et al. 2024) for hidden matrices, with one state, the momentum m. A matrix's direction is
 * u = momentum m + own g with Nesterov momentum, where own is 1 - momentum, or 1 for sums; else it is m. With the
 * orthogonalised direction X of the whole matrix, w = (1 - lr weight_decay) w - lr scale X. All other parameters have
 * another optimizer (zr_layout.rest). If args is NULL, use the defaults. */
ZR_API zr_optimizer zr_muon(const zr_muon_args *args);

#ifdef __cplusplus
}
#endif
#endif
