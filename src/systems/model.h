/** What a system's rank has of a model: parameters and kept activations, unit by unit, from the model's graph. */
#ifndef ZR_SYSTEMS_MODEL_H
#define ZR_SYSTEMS_MODEL_H

#include "systems/systems.h"

/* ---- decoders that no family has ------------------------------------------------------------- */

/** Sizes of a decoder with pre-norm blocks, whose parts may be those of any family. */
struct zr__decoder {
    int64_t layers, heads, kv_heads, width, head_width, inner, positions, vocabulary;
    bool gated, rms_norm, rotary, learned, biased, tied;
    double dropout, attention_dropout;
};

/** Read the sizes of a configuration's model. Fail with ZR_ERR_UNSUPPORTED if it is no decoder. */
ZR_NODISCARD zr_status zr__decoder_of(const zr_config *config, zr__decoder *decoder);
/** Return the builder of a decoder, which is borrowed. */
zr_model zr__decoder_model(const zr__decoder *decoder);

/* ---- what ops keep --------------------------------------------------------------------------- */

typedef enum zr__recompute {
    ZR__REDO_NOTHING,
    ZR__REDO_BLOCKS, /* keep the inputs of blocks */
    ZR__REDO_HALF    /* keep inputs of blocks, outputs of attention, and of every second product (torchtitan) */
} zr__recompute;

/** How a system runs a model, which decides what its ops keep for the backward pass. */
struct zr__keeps {
    bool sequence;               /* with tensor parallelism: norms on a rank's own tokens */
    int64_t context;             /* ranks that share the tokens of a sample */
    int64_t vocabulary_multiple; /* the vocabulary is padded to a multiple of this; 0 for no padding */
    const zr__decoder *decoder;  /* model instead of the configuration's, or NULL */
    bool other_weights;          /* whether its weights differ from those of the configuration's model */
    zr__recompute recompute;
    int64_t every; /* ZR__REDO_BLOCKS: blocks of a checkpoint */
    /* ZR__REDO_BLOCKS: if `first` is above 0, only the first blocks of each stage of stage_blocks blocks are redone */
    int64_t first, stage_blocks;
    /* Python code of transformers: norms keep an fp32 copy and the normalised input, and gates their SiLU */
    bool transformers;
    bool autocast;      /* fp32 weights: residuals are fp32, and each product keeps a 16-bit copy of a norm's output */
    bool redo_norms;    /* outputs of norms are computed again (compiled) */
    bool redo_gates;    /* outputs of activation functions are computed again (compiled) */
    bool redo_mlp;      /* of the feed-forward part only the input is kept */
    bool gate_copies;   /* gates keep their SiLU */
    bool rotary_inputs; /* queries and keys are kept before and after rotary positions */
    bool gathered;      /* inputs of products are kept as gathered over tensor ranks, not as pieces */
    double scores;      /* bytes for each query, key and head of attention that is not fused; 0 if it is */
    bool expanded;      /* keys and values are expanded to all heads, and a mask of 2 bytes a pair is kept */
};

/* ---- models ---------------------------------------------------------------------------------- */

/** Unit of a model on one tensor rank: the embedding, a block, or the head. Bytes are of one micro-batch. */
typedef struct zr__unit {
    double trained, frozen; /* elements of parameters */
    double input;           /* bytes of values from units before */
    double kept;            /* bytes kept, as zr__keeps says */
    double all;             /* bytes kept without recompute */
} zr__unit;

typedef struct zr__weight {
    int32_t unit;
    bool trained;
    double elems, rows; /* elements, and length of the first dimension */
} zr__weight;

struct zr__model {
    int64_t blocks; /* units 1 to `blocks` are blocks; unit 0 is the embedding, unit `blocks` + 1 the head */
    zr__unit *unit;
    zr__weight *weight;
    int32_t n_weights;
    double shared;      /* elements of the embedding that the head uses too; 0 if it has weights of its own */
    double waiting;     /* shared elements that are trained: the head's gradient waits for that of the embedding */
    double head;        /* elements of the head's weight on one tensor rank */
    double logits;      /* number of logits of a micro-batch on one tensor rank */
    double hidden;      /* bytes of the head's input */
    double tokens;      /* tokens of a micro-batch on a rank */
    double value_bytes; /* bytes of an element of parameters and activations: 2 or 4 */
    double params;      /* of the whole model */
    double redone;      /* bytes that are kept while blocks are redone, or 0 */
};

ZR_NODISCARD zr_status zr__model_make(const zr__run *run, const zr__keeps *keeps, zr__model *model);
void zr__model_clear(zr__model *model);

/** Units [first, end) of a model. */
typedef struct zr__span {
    int64_t first, end;
} zr__span;

/** Return the blocks of stage `stage` of `stages`, in equal parts, without embedding and head. */
zr__span zr__span_of(const zr__model *model, int64_t stage, int64_t stages);
/** Return the trained elements (`trained`) or all elements of a pipeline rank with `chunks` stages, of pp ranks. The
 * first stage has the embedding, the last one the head and, if it is shared, a copy of the embedding. */
double zr__rank_elems(const zr__model *model, int64_t rank, int64_t pp, int64_t chunks, bool trained);
/** Return the bytes that the blocks of a pipeline rank keep for one micro-batch. */
double zr__rank_kept(const zr__model *model, int64_t rank, int64_t pp, int64_t chunks);
/** Return the largest number of bytes that a block keeps without recompute. */
double zr__largest_block(const zr__model *model);
/** Return the most elements of a parameter (_weight), or of a block (_block). */
double zr__largest_weight(const zr__model *model);
double zr__largest_block_elems(const zr__model *model);
/** Return the elements that one of n ranks has of the weights of units `first` to `end` - 1, if each weight is cut into
 * n parts: by rows of its first dimension (FSDP2), or by elements (DeepSpeed). Weights with fewer elements than `whole`
 * stay whole. */
double zr__shard_elems(const zr__model *model, int64_t first, int64_t end, int64_t n, bool by_rows, double whole);

/* ---- parts that several systems have --------------------------------------------------------- */

/** Fill what PyTorch and transformers do with a model on their own: recompute of whole blocks, if the configuration
 * asks for it, attention, compilation. Fail with ZR_ERR_UNSUPPORTED if it asks for another recompute. */
ZR_NODISCARD zr_status zr__torch_keeps(const zr__run *run, zr__keeps *keeps);
/** Fail with ZR_ERR_UNSUPPORTED if the configuration recomputes several blocks from one checkpoint. */
ZR_NODISCARD zr_status zr__single_blocks(const zr__run *run);
/** Return the number of moments of the configuration's optimizer; a moment of 8 bits counts as a quarter. */
double zr__moments(const zr_config *config);
/** Bytes of the head for each logit: at the loss, and until the backward pass has ended. */
typedef struct zr__head {
    double loss, held;
} zr__head;
/** Return the head of a model of transformers whose output a training loop keeps. */
zr__head zr__torch_head(const zr__run *run);
/** Set the activations and the head of a rank of a pipeline (1F1B). */
void zr__torch_activations(const zr__run *run, const zr__model *model, int64_t pipe_rank, zr__head head,
                           zr__rank_memory *rank);
/** Return the bytes of the workspaces of cuBLAS. */
double zr__cublas_bytes(const zr__run *run);
/** Return the factors reserved / allocated of PyTorch's allocator, from a run that is compiled or not. */
zr__range zr__torch_fragmentation(bool compiled, bool recomputes);

/** Settings of FSDP2 (fully_shard), however a user gives them. */
typedef struct zr__fsdp {
    double shard_bytes;     /* of an element of shards */
    double unsharded_bytes; /* of an element of gathered units and of their gradients */
    double reduce_bytes;    /* of an element of gradients in communication */
    double moments_bytes;   /* of both moments of an element */
    int64_t replicas;       /* copies of the shards */
    bool reshard, sync, persist, foreach, offload;
    bool in_place; /* a shard is a part of its gathered unit, not beside it (FSDP1, thunder) */
    zr__head head;
} zr__fsdp;
/** Check that the run offloads what FSDP2 can offload. */
ZR_NODISCARD zr_status zr__fsdp_check(const zr__run *run);
void zr__fsdp_memory(const zr__run *run, const zr__fsdp *fsdp, const zr__model *model, int64_t pipe_rank,
                     zr__rank_memory *rank);

/** Settings of DistributedDataParallel. */
typedef struct zr__replicated {
    double weight_bytes, moments_bytes;
    bool autocast, buckets, foreach, loop;
    zr__head head;
} zr__replicated;
void zr__replicated_memory(const zr__run *run, const zr__replicated *settings, const zr__model *model,
                           zr__rank_memory *rank);

#endif
