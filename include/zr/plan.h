/**
 * plan: computes the schedule of one training step and a memory map from a model and a zr_layout, before anything is
 * allocated. Planning is pure arithmetic, for any number of ranks and any size of model.
 *
 * One plan serves every data-parallel rank. Ranks own different shards, but have the same list of steps. The ZeRO
 * stage determines three groups of ranks (zr_plan.optim_group, grad_group, param_group) and the places of a few steps
 * in the list. Source: ZeRO (Rajbhandari et al. 2020), sections 5 and 7. docs/memory.md has formulas for bytes and
 * traffic.
 */
#ifndef ZR_PLAN_H
#define ZR_PLAN_H

#include "zr/models.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Alignment of shards and buckets on each rank, in elements of any dtype. */
#define ZR_SHARD_ALIGN 32

/** Layout of the model states in memory. Training results have the same bits with either layout. */
typedef enum zr_states {
    ZR_STATES_PAPER, /* 16-bit parameters and gradients, and fp32 optimizer states: 2 + 2 + K bytes per parameter */
    ZR_STATES_LEAN   /* 12 bytes per parameter, divided among all ranks. Stage 3 has no 16-bit copy of the parameters:
                        they are cast from the fp32 master when they are gathered. A unit's update frees the unit's
                        gradient, except in training steps with several micro-batches, and in training steps
                        that need the norm of the whole gradient before the first update */
} zr_states;

/** Recompute policy: determines which activations are recomputed in the backward pass instead of being stored (Chen et
 * al. 2016). Every policy but KEEP recomputes outputs of cheap ops (zr_op_def.cheap: norms, GELU) if only their own
 * unit reads them and their operands are stored anyway. Recomputing such an output costs one more pass over memory, but
 * hardly any FLOPs. */
typedef enum zr_recompute {
    ZR_RECOMPUTE_NONE, /* recompute neither matrix products nor attention */
    ZR_RECOMPUTE_UNIT, /* store only the input of every recompute_every-th unit, and recompute all other activations */
    ZR_RECOMPUTE_SELECTIVE, /* recompute attention, and activations that are wider than the unit's input (Korthikanti et
                               al. 2022) */
    ZR_RECOMPUTE_AUTO,  /* choose the policy of each unit: the combination with the least work that fits limit_bytes, or
                           if none fits, the combination with the least memory. On a device with its own memory
                           (facts.apart), the remaining memory is used for KEEP in as many units as fit. With tensor
                           parallelism, without sequence parallelism and without partition_checkpoints and with
                           checkpoint_home DEVICE, also choose how activation checkpoints are stored: whole on the
                           device, in pieces on the device, or in pieces on the host. Take the fastest choice that fits;
                           if several are equally fast, take the first in this order */
    ZR_RECOMPUTE_PAPER, /* like UNIT with recompute_every 1, but run the whole unit again, even its last product, whose
                           result is not needed. The papers count FLOPs in this way (ZeRO section 7, Megatron-LM) */
    ZR_RECOMPUTE_KEEP   /* recompute nothing: store outputs of cheap ops too */
} zr_recompute;

/** Return whether a unit's policy recomputes more than outputs of cheap ops. */
static inline bool zr_recomputes(zr_recompute policy)
{
    return policy != ZR_RECOMPUTE_NONE && policy != ZR_RECOMPUTE_KEEP;
}

/** Sequence parallelism: the tokens that a tensor-parallel rank stores between layers (Korthikanti et al. 2022). */
typedef enum zr_sequence {
    ZR_SEQUENCE_OFF,     /* every rank has all tokens */
    ZR_SEQUENCE_KEEP,    /* each rank has its own tokens, so that norms, dropout and residuals are not computed on every
                            rank. Without recompute, the gathered input of a product is stored for the backward pass */
    ZR_SEQUENCE_REGATHER /* each rank has its own tokens, and the inputs of products are gathered again in the backward
                            pass */
} zr_sequence;

/** Collectives for gradients (zr_reduce) and for parameters (zr_gather). The first collective of each list is the usual
 * choice for ZeRO. All collectives give the same sums, except NCCL's. */
typedef enum zr_reduce {
    ZR_REDUCE_TO_SHARDS,  /* reduce-scatter: each rank receives its shard of the sums */
    ZR_REDUCE_ALL_REDUCE, /* all-reduce: all ranks receive all sums, with 1.5 times the traffic. The first version of
                             ZeRO stage 1 used it */
    ZR_REDUCE_TO_OWNER,   /* reduce: one reduction for each owner of a shard, one after another */
    ZR_REDUCE_NCCL /* NCCL's reduce-scatter of a whole unit at once. NCCL adds in the communicated type and in its own
                      order. Requires one process per rank, and GPUs */
} zr_reduce;
typedef enum zr_gather {
    ZR_GATHER_ALL,      /* one all-gather */
    ZR_GATHER_BROADCAST /* one broadcast from each owner of a shard, one after another */
} zr_gather;

/** Order in which a training step runs its micro-batches. Both orders give the same bits. */
typedef enum zr_accum_order {
    ZR_ACCUM_MICRO, /* one micro-batch after the other: its forward pass, then its backward pass */
    ZR_ACCUM_LAYER  /* layer-major: all micro-batches pass through a segment of the model before the next segment runs,
                       in the forward and in the backward pass. Stage 3 then gathers a unit twice per training step
                       instead of twice per micro-batch, but the values between segments are stored for all
                       micro-batches ("vertical" in GreedySnake, arXiv 2512.17570). No effect with one micro-batch */
} zr_accum_order;

/** Kinds of asynchronous saves, which write the states during the following training steps (zr_engine_save). */
typedef enum zr_save {
    ZR_SAVE_NONE, /* no asynchronous save; states are read between training steps (zr_engine_read) */
    ZR_SAVE_COPY, /* asynchronous save from copies in host memory. The next training step first makes the copies; this
                     step and later ones write them to files */
    ZR_SAVE_IN_PLACE, /* asynchronous save without copies. In the next training step, the update of a unit waits until
                         the unit's states are written to files */
    ZR_SAVE_AUTO      /* COPY if it fits limit_bytes without more recompute, otherwise IN_PLACE */
} zr_save;

/** Memory spaces. Each space has its own memory map and its own total. */
#define ZR_SPACE_LIST(X)                                                                                               \
    X(DEVICE, "device")   /* device memory in one block (the arena), which ops read and write */                       \
    X(HOST, "host")       /* host memory: batches, results that control later steps, offloaded states */               \
    X(STAGING, "staging") /* memory that other ranks can access and through which communicated pieces pass */          \
    X(DISK, "disk")       /* files of this rank, which hold offloaded states and activation checkpoints */

/** Alignment of the buffers in the space DISK, and of buffers from or to which they are copied, in bytes. */
#define ZR_DISK_ALIGN 4096

typedef enum zr_space {
#define ZR_SPACE_ENUM(name, text) ZR_SPACE_##name,
    ZR_SPACE_LIST(ZR_SPACE_ENUM)
#undef ZR_SPACE_ENUM
        ZR_SPACES
} zr_space;

ZR_API const char *zr_space_name(zr_space space);

/** Offload: spaces in which model states are stored between the steps that compute with them. DEVICE means no offload.
 * Sources: ZeRO-Offload (Ren et al. 2021), ZeRO-Infinity (Rajbhandari et al. 2021). */
typedef struct zr_homes {
    zr_space param; /* space of the parameter shards; other than DEVICE only at stage 3 */
    zr_space grad;  /* space of the gradients that outlive their reduction */
    zr_space optim; /* space of the fp32 masters and optimizer states */
    /* Shares of the elements whose states are stored in the spaces `param` and `optim`, from 0 to 1, rounded up to
     * whole units. The states of the other units, which are the first units of the model, stay on the device: their
     * parameters are needed first in a training step, and their gradients are computed last, when no computation is
     * left to hide a copy. */
    double param_share, optim_share;
    int64_t bucket_elems; /* bucket size for offloaded states: number of elements of a rank's part that one step
                             processes, rounded up to a multiple of ZR_SHARD_ALIGN, or of ZR_DISK_ALIGN / 2 with states
                             on disk; 0 to leave the choice to the planner */
    int buckets; /* number of buckets of each state that are on the device at the same time; 0 to leave the choice to
                    the planner */
    int64_t block_bytes; /* maximum bytes of a single transfer from or to disk, a multiple of ZR_DISK_ALIGN; 0 to leave
                            the choice to the planner */
    int depth; /* maximum number of transfers in flight in each direction; 0 to leave the choice to the planner */
} zr_homes;

/** Sizes that the planner uses for fields of zr_homes that are 0. It plans at least ZR_HOMES_BUCKETS buckets, and more
 * if the states of an ordinary unit need more, but at most 256 MiB of buckets. */
#define ZR_HOMES_BUCKET_ELEMS (1 << 20)
#define ZR_HOMES_BUCKETS 3
#define ZR_HOMES_BLOCK_BYTES (1 << 20)
#define ZR_HOMES_DEPTH 8

/** Layout of training over ranks: all settings from which a plan is made. Initialise with ZR_LAYOUT_INIT. */
typedef struct zr_layout {
    size_t size; /* sizeof(zr_layout) */
    int ranks;   /* N, data-parallel degree */
    int tensor;  /* M, tensor-parallel degree: each group of M consecutive ranks shares the layers, and N * M ranks are
                    needed */
    zr_sequence sequence;        /* sequence parallelism; no effect if M is 1 */
    int stage;                   /* ZeRO stage, 0 to 3 */
    zr_dtype dtype;              /* type of parameters and activations */
    zr_dtype wire_dtype;         /* type of gradients in communication; F32 if dtype is F32 */
    int64_t batch;               /* B, rows per micro-batch on one rank */
    int64_t seq;                 /* T, tokens per row */
    int64_t accum;               /* k, micro-batches per training step */
    zr_accum_order accum_order;  /* order in which they run */
    int64_t reduce_bucket_elems; /* bucket size of gradient reductions in elements, rounded up to a multiple of N *
                                    ZR_SHARD_ALIGN */
    int64_t gather_bucket_elems; /* bucket size of parameter gathers in elements, rounded up to a multiple of N *
                                    ZR_SHARD_ALIGN */
    int shard_ranks; /* MiCS: number of consecutive data-parallel ranks over which states are sharded. Each group of
                        this size has a full copy; 0 for one group of all ranks */
    int hpz_ranks; /* hpZ of ZeRO++ at stage 3: number of data-parallel ranks over which a second copy of the parameters
                      is sharded; 0 for no copy */
    int host_ranks; /* number of ranks per host, which are consecutive among the N * M ranks; 0 if all ranks are on one
                       host */
    bool hierarchical; /* whether collectives run in two levels: within each host and between hosts */
    bool fused_buffer; /* whether one buffer for the whole model replaces the buckets; gradients are then reduced after
                          the whole backward pass */
    bool overlap; /* whether communication overlaps computation: a unit's gradient is reduced during the backward pass
                     of the next unit, so it stays in memory longer */
    zr_reduce reduce;
    zr_gather gather;
    zr_states states;
    bool norm_first; /* whether the norm of the whole gradient must be known before the first update. Clipping and a
                        loss scale need this */
    bool two_pass; /* whether the backward pass runs twice, the first time only for the norm, so that gradients need not
                      be stored (layout lean) */
    bool rank_free_sums; /* whether sums have the same bits for any number of ranks that is a power of two
                            (ARCHITECTURE.md, section 3) */
    bool reduce_once;    /* whether gradients are reduced over ranks only once per step, at every stage. Each rank first
                            sums whole gradients over its micro-batches in fp32. No effect with one micro-batch or one
                            data-parallel rank */
    zr_recompute recompute;
    int64_t recompute_every;
    int64_t limit_bytes; /* for ZR_RECOMPUTE_AUTO and ZR_SAVE_AUTO: limit in bytes of a rank's arena or, on a GPU, of
                            its device memory; 0 for no limit. ZR_SAVE_AUTO also counts the copy of the states */
    /* Storage of activation checkpoints (ZeRO section 6.1). With partition_checkpoints each tensor-parallel rank
     * stores one piece of every checkpoint (P_a). checkpoint_home is the space in which they are stored from the
     * forward to the backward pass: DEVICE, HOST (P_a+cpu) or DISK (ZeRO-Infinity, section 5). */
    bool partition_checkpoints;
    zr_space checkpoint_home;
    zr_save save; /* kind of asynchronous save; requires `train` */
    /* Limits for stage 3, in elements. They have the meaning of DeepSpeed's thresholds, but apply to whole units. */
    int64_t prefetch_elems; /* prefetch size: units are prefetched until the prefetched units that are not in use yet
                               have this many elements; 0 for no prefetch */
    int64_t live_elems; /* maximum number of gathered elements: a unit is not prefetched if the number would exceed this
                           limit. 0 to prefetch only units of the next segment of the program */
    int64_t reuse_elems;   /* reuse distance: a gathered unit stays in memory if its next use comes within this many
                              elements of other units */
    int64_t persist_elems; /* persistence threshold: a unit is not sharded if each of its parameters has fewer elements
                              than this */
    int64_t persist_model_elems; /* maximum number of elements of all units that are not sharded; 0 for no limit */
    bool micro_squares; /* whether to compute the square norm of each micro-batch's own gradient before its reduction
                           (zr_step_result.micro_square); requires at least two micro-batches per step */
    bool train;         /* whether to plan the schedules "train" and "flush", with gradients and optimizer states */
    bool eval;          /* whether to plan the schedule "eval" */
    bool documents;     /* whether rows hold several documents (zr_graph_spec.documents), in "train" and "eval" */
    int64_t predictions, samples; /* P and S of zr_graph_spec, in "train" and "eval" */
    int64_t decode_len; /* size of the key-value cache in tokens for the schedule "decode"; 0 to not plan it */
    int64_t tile_elems; /* maximum number of elements of a tile of a table (zr_graph_spec.tile_elems), at every stage
                           and in every schedule; 0 for whole tables */
    zr_homes home;      /* offload */
    zr_optimizer optimizer;
} zr_layout;

/** Counts of the values that each rank passes to the steps NORM and AGREE. NORM gets four: the gradient's sum of
 * squares, the loss, the first parameter with a bad gradient, and the number of losses that count. With rank_free_sums,
 * the first two are exact sums. AGREE gets three: the first parameter with a bad gradient, whether the loss is bad, and
 * the number of losses that count. (COUNT gets one number for each loss term.) */
#define ZR_NORM_SCALARS 4
#define ZR_NORM_SCALARS_RANK_FREE (2 * ZR_EXACT_LIMBS + 2)
#define ZR_AGREE_SCALARS 3
/** Return the number of values that each rank passes to the step NORM in a plan with this many loss terms. With
 * `micro`, the squares of micro-gradients follow, in the same form as the squares of the gradient. Last come the losses
 * of further terms, in the same form as the loss. */
static inline int zr_norm_scalars(bool rank_free_sums, bool micro, int terms)
{
    const int more = rank_free_sums ? ZR_EXACT_LIMBS : 1;
    return (rank_free_sums ? ZR_NORM_SCALARS_RANK_FREE : ZR_NORM_SCALARS) + (micro + terms - 1) * more;
}

/** Maximum number of values that each rank passes to one call of the step TRUST. With more values the step makes
 * several calls. */
#define ZR_TRUST_CALL 48
/** Return the number of values that each rank passes to TRUST for each parameter: two sums of squares, which are exact
 * with rank_free_sums. */
static inline int zr_trust_scalars(bool rank_free_sums)
{
    return rank_free_sums ? 2 * ZR_EXACT_LIMBS : 2;
}

/** Minimum bytes of staging memory per rank. Pieces pass through staging memory in chunks, which alternate between two
 * halves. Each half needs at least 64 bytes, so that an element always fits. */
#define ZR_STAGING_LEAST 128

/** Size in F32 elements of the host buffer through which states are filled and read. */
#define ZR_PASSING_ELEMS 16384

#define ZR_DEFAULT_BUCKET_ELEMS (16 << 20)
/* Values in the order of the fields of zr_layout, because C++ has no designated initializers before C++20. */
#define ZR_LAYOUT_INIT                                                                                                 \
    {                                                                                                                  \
        sizeof(zr_layout), 1, 1, ZR_SEQUENCE_OFF, 0, ZR_F32, ZR_F32, 1, 1, 1, ZR_ACCUM_MICRO, ZR_DEFAULT_BUCKET_ELEMS, \
            ZR_DEFAULT_BUCKET_ELEMS, 0, 0, 0, false, false, true, ZR_REDUCE_TO_SHARDS, ZR_GATHER_ALL, ZR_STATES_PAPER, \
            false, false, false, false, ZR_RECOMPUTE_NONE, 1, 0, false, ZR_SPACE_DEVICE, ZR_SAVE_NONE, 1, 0, 0, 0, 0,  \
            false, true, true, false, 0, 0, 0, 0,                                                                      \
            {ZR_SPACE_DEVICE, ZR_SPACE_DEVICE, ZR_SPACE_DEVICE, 1, 1, 0, 0, 0, 0}, ZR_OPTIMIZER_INIT                   \
    }

/* ---- the grid -------------------------------------------------------------------------------- */

/** Axis of the grid in which ranks are arranged. A rank's coordinate on the axis is (rank / step) % size. */
typedef struct zr_axis {
    const char *name; /* name of the axis, such as "data" */
    int32_t size;
    int32_t step; /* difference between the numbers of neighbouring ranks on this axis */
} zr_axis;

#define ZR_AXES_MAX 4
/** Group of ranks that differ only in their coordinates on some axes. These coordinates form the rank's place in its
 * group, with the first axis as the most significant. */
typedef struct zr_group {
    const char *name;
    int32_t axis[ZR_AXES_MAX]; /* axes of the group, as indices in zr_plan.axis */
    int32_t n_axes;            /* number of axes; 0 for groups of one rank */
    int32_t size;              /* number of ranks in the group */
} zr_group;

/** Groups of ranks. Every plan has SELF and DATA. With tensor parallelism it also has TENSOR and ALL. If the data axis
 * is split, it also has LOCAL and ACROSS. LOCAL consists of consecutive data-parallel ranks, for example of one host.
 * ACROSS consists of ranks with the same place in their LOCAL groups. */
enum {
    ZR_GROUP_SELF,
    ZR_GROUP_DATA,
    ZR_GROUP_LOCAL,
    ZR_GROUP_ACROSS,
    ZR_GROUP_TENSOR, /* tensor-parallel ranks, which share each layer and get the same data */
    ZR_GROUP_ALL,
    ZR_GROUPS_MAX = 8
};

/* ---- contents of a plan ---------------------------------------------------------------------- */

/** Buffer: a range of bytes of a memory space, with a lifetime. Persistent buffers, such as the buffers of model
 * states, are always alive. */
typedef struct zr_buffer {
    zr_category category;
    zr_space space;
    bool persistent;
    int32_t unit;     /* index of the buffer's unit, or -1 */
    const char *what; /* contents, such as "parameters", "gradient" or "h.0 attention"; a constant string, or a string
                         of the graph */
    int64_t bytes;
    int64_t offset;                /* byte offset in its space */
    int32_t first_step, last_step; /* lifetime: first and last step that use the buffer */
} zr_buffer;

/** Streams of steps. The steps of one stream run in order. */
#define ZR_STREAM_LIST(X)                                                                                              \
    X(COMPUTE, "compute")                                                                                              \
    X(COMM, "comm")     /* communication between ranks, and steps that prepare it */                                   \
    X(COPY, "copy")     /* copies between memory spaces, except from and to disk */                                    \
    X(SAVE, "save")     /* writes to files, for which the end of a schedule does not wait */                           \
    X(FETCH, "fetch")   /* copies from disk */                                                                         \
    X(STORE, "store")   /* copies to disk */                                                                           \
    X(HOST, "host")     /* updates by the host's processors, if the device has its own memory */                       \
    X(RETURN, "return") /* copies of the results of HOST to the device */

typedef enum zr_stream {
#define ZR_STREAM_ENUM(name, text) ZR_STREAM_##name,
    ZR_STREAM_LIST(ZR_STREAM_ENUM)
#undef ZR_STREAM_ENUM
        ZR_STREAMS
} zr_stream;

ZR_API const char *zr_stream_name(zr_stream stream);

/** Queue of each stream. Streams with the same number share a queue, in which their steps run in the order of the
 * schedule. A queue has the number of the first stream that uses it. For example, 0 is the queue of COMPUTE. */
typedef struct zr_queues {
    int8_t of[ZR_STREAMS];
} zr_queues;

/** Return whether a stream has a different queue than COMPUTE. */
static inline bool zr_queues_apart(const zr_queues *queues, zr_stream stream)
{
    return queues->of[stream] != queues->of[ZR_STREAM_COMPUTE];
}

/** Kinds of steps of a schedule, each with its action. "Uses" lists the buffers that a step uses (zr_step.uses), in
 * order. "mine" means this rank's range of a buffer. "each" means the ranges of all ranks of the step's group. Brackets
 * mark optional uses. */
#define ZR_STEP_LIST(X)                                                                                                \
    X(BATCH, "batch") /* let the caller fill a micro-batch. Uses: for each graph input, the input and the host memory  \
                         that the caller fills; then the loss. The step's range is the rows of the first micro-batch   \
                         in the global batch. For each later one it moves on by the rows of all ranks of the group */  \
    X(RUN, "run")     /* run an op of the graph. Uses: inputs, outputs, [scratch], [the sums of COUNT] */              \
    X(ZERO, "zero")   /* write zeros to a range that no op writes, for example a part of a unit's gradient or the      \
                         padding after a value */                                                                      \
    X(CAST, "cast")   /* cast this rank's range of the fp32 master. Uses: master (mine), unit (mine) */                \
    X(COPY, "copy")   /* copy bytes between buffers, usually of different spaces */                                    \
    X(GATHER, "gather")           /* all-gather parameters. Uses: own range (mine), all ranges (each), staging */      \
    X(BROADCAST, "broadcast")     /* broadcast parameters from one owner. Uses: as in GATHER */                        \
    X(GATHER_GRAD, "gather_grad") /* all-gather sums of gradients. Uses: as in GATHER */                               \
    X(REDUCE_SCATTER, "reduce_scatter") /* sum the pieces of all ranks for this rank's range, in a binary tree.        \
                                           Uses: each, [staging], sums (mine), [further accumulators:                  \
                                           zr_plan_unit.open_sums]. With one rank its piece is the sum. With           \
                                           `nccl`, NCCL first sums the pieces into this rank's piece of "each" */      \
    X(REDUCE, "reduce")                 /* sum as in REDUCE_SCATTER, but only on one owner */                          \
    X(COUNT, "count") /* with several loss terms: add the ranks' numbers of losses that count, before the first        \
                         backward op. Uses: numbers of all ranks, the sums, which ops read that set gradients of       \
                         losses */                                                                                     \
    X(LOSS, "loss")   /* add a term's losses of this micro-batch to the loss of this rank. Uses: the losses, the loss  \
                         of each term */                                                                               \
    X(REPEAT, "repeat") /* run the following steps, up to END, `rounds` times */                                       \
    X(END, "end")                                                                                                      \
    X(SQUARE_MICRO, "square_micro") /* add the squares of a micro-batch's gradient to a sum; the first round           \
                                       sets the sum. Uses: the whole gradient of this rank's micro-batch               \
                                       before its reduction, the sum */                                                \
    X(SQUARE, "square") /* write the sum of squares of a gradient. Uses: sums (mine), the sum of squares */            \
    X(AGREE, "agree")   /* check that a unit's gradient is finite on all ranks, otherwise end the run. Uses: the loss, \
                           numbers of all ranks, the unit's verdict, the unit's sum of squares, [the sums of COUNT] */ \
    X(NORM, "norm")     /* agree on the gradient norm, the loss and the factor for gradients. Also agree whether the   \
                           gradient is finite. Uses: the loss, numbers of all ranks, the verdict, each unit's sum of   \
                           squares, [each unit's sum of squares of micro-gradients], [the sums of COUNT] */            \
    X(SQUARE_UPDATE, "square_update") /* write sums of squares of each parameter of a unit, and of the optimizer's     \
                                         direction for it (zr_optimizer.trust). Uses: sums (mine), master (mine) or    \
                                         none, each optimizer state (mine), parameters (mine) if there is no master,   \
                                         otherwise none, the verdict, the sums of squares (zr_trust) */                \
    X(TRUST, "trust") /* add the sums of squares of all ranks, and write the norms. Uses: numbers of all ranks, then   \
                         for each unit its sums of squares and its norms (zr_norms) */                                 \
    X(SAVE, "save") /* save a state of a unit. Uses: the state (mine), [host memory through which the state passes, if \
                       it is not stored in host memory] */                                                             \
    X(UPDATE, "update") /* update a range of a unit, except parameters without gradient. Uses: sums (mine), master     \
                           (mine) or none, each optimizer state (mine), parameters (mine) or none, the verdict,        \
                           [the norms, with trust ratios] */

typedef enum zr_step_kind {
#define ZR_STEP_ENUM(name, text) ZR_STEP_##name,
    ZR_STEP_LIST(ZR_STEP_ENUM)
#undef ZR_STEP_ENUM
        ZR_STEP_KINDS
} zr_step_kind;

ZR_API const char *zr_step_kind_name(zr_step_kind kind);

/** Collectives that a step performs between the ranks of its group. */
typedef enum zr_move {
    ZR_MOVE_NONE,
    ZR_MOVE_GATHER,    /* all-gather: each rank receives the pieces of all ranks */
    ZR_MOVE_REDUCE,    /* reduce-scatter: each rank receives its part of the sum over all ranks */
    ZR_MOVE_BROADCAST, /* broadcast: all ranks receive the piece of one rank, the step's owner */
    ZR_MOVE_COLLECT,   /* reduce: the owner receives the sum of all ranks' pieces */
    ZR_MOVE_SCALARS    /* all-gather of a few numbers from each rank */
} zr_move;

/** Properties of a kind of step. All code that treats kinds of steps differently reads these properties; only the proof
 * of a plan has its own list. */
typedef struct zr_step_traits {
    zr_move move;
    int pieces; /* for moves other than SCALARS: index, among the step's uses, of the use with the communicated range
                   and type */
    zr_traffic_kind traffic; /* kind of traffic that counts the moved bytes */
} zr_step_traits;

ZR_API zr_step_traits zr_step_traits_of(zr_step_kind kind);

/** Distance in elements between the ranges of neighbouring ranks of a group. */
typedef struct zr_stride {
    int64_t elems;
    int32_t group;
} zr_stride;

/** Range of `count` elements that depends on the rank. It begins at element first + by.elems * (the rank's place in
 * by.group) + outer.elems * (the rank's place in outer.group). Steps of different ranks differ only in these offsets.
 */
typedef struct zr_range {
    int64_t first, count;
    zr_stride by, outer;
} zr_range;

/** Use of elements of a buffer by a step. */
typedef struct zr_use {
    int32_t buffer; /* index of the buffer, or ZR_NONE for an optional operand that is absent */
    zr_dtype dtype : 8;
    bool reads : 1, writes : 1;
    bool each : 1;  /* whether the use covers the ranges of all ranks of range.by, not only this rank's range */
    zr_range range; /* range in elements of dtype; a count of 0 means the whole buffer, without a type */
} zr_use;

/** Rounds in which a step runs. A round is one iteration of REPEAT, that is, one micro-batch. With ZR_ACCUM_LAYER a
 * training step is one round of all micro-batches. */
typedef enum zr_when {
    ZR_WHEN_ALWAYS,
    ZR_WHEN_STALE, /* in the first round, if the parameters that the previous training step updated are not yet gathered
                      (stages 1, 2). The gathered bytes count as traffic of the previous step */
    ZR_WHEN_FIRST,
    ZR_WHEN_LATER, /* in all rounds except the first */
    ZR_WHEN_SAVE   /* in the first round of a training step that saves states */
} zr_when;

/** Return whether a step of the schedule runs in a round, counted from 0. `stale` is true if parameters that the
 * previous training step updated are not gathered yet. `saves` is true if this training step saves states. */
static inline bool zr_when_runs(zr_when when, int64_t round, bool stale, bool saves)
{
    if (when == ZR_WHEN_ALWAYS) return true;
    if (when == ZR_WHEN_LATER) return round > 0;
    return round == 0 && (when == ZR_WHEN_FIRST || (when == ZR_WHEN_STALE ? stale : saves));
}
/** Return whether a step of the schedule runs only in training steps for which the caller requests it. Nothing in other
 * training steps may depend on the order of this step. */
static inline bool zr_when_asked(zr_when when)
{
    return when == ZR_WHEN_SAVE;
}
/** Return the number of a training step's `rounds` rounds in which a step of the schedule runs. */
static inline int64_t zr_when_rounds(zr_when when, int64_t rounds, bool stale, bool saves)
{
    return zr_when_runs(when, 0, stale, saves) + (rounds - 1) * zr_when_runs(when, 1, stale, saves);
}

/** Step of a schedule. */
typedef struct zr_step {
    zr_step_kind kind : 8;
    zr_stream stream : 8;
    zr_when when : 8;
    bool replay; /* for RUN: whether the op runs again in the backward pass, because of the recompute policy or because
                    the op is cheap */
    bool adds;   /* for REDUCE_SCATTER, REDUCE and SQUARE_MICRO: whether later rounds add to the sums of the first
                    round */
    bool rank_free_sums; /* for reductions, SQUARE, SQUARE_MICRO, NORM, SQUARE_UPDATE and TRUST: whether the bits of
                            sums are independent of the number of ranks */
    bool nccl;           /* for REDUCE_SCATTER: whether NCCL adds */
    bool restores;       /* for GATHER: whether it restores an activation checkpoint that tensor-parallel ranks store in
                            pieces */
    int32_t group;       /* group of ranks that take part in the step */
    int32_t unit;
    int32_t op;     /* index of the op that a RUN runs, that a collective replaces (zr_op_def.join), or that computed a
                       gathered checkpoint; otherwise -1 */
    int32_t owner;  /* for REDUCE and BROADCAST: place of the owner in the group; otherwise -1 */
    int32_t slot;   /* for SAVE: index of the saved optimizer state, or -1 if the step saves parameters */
    int32_t term;   /* for LOSS: index of the loss term; otherwise 0 */
    int32_t micro;  /* index of the step's micro-batch within the round; 0 except with ZR_ACCUM_LAYER */
    int64_t rounds; /* for REPEAT: number of rounds. For a reduction: number of micro-batches that it sums. For NORM:
                       number of micro-gradients, over all ranks, whose squares are passed, or 0 */
    zr_range range; /* for ZERO, CAST, moves, SQUARE, SQUARE_MICRO, SQUARE_UPDATE, UPDATE, SAVE and copies of a state:
                       range of the unit. For BATCH: range of rows */
    int64_t bucket_elems;   /* for moves of a unit: bucket size, the elements of the range that one exchange moves; 0 to
                               move the whole range at once */
    int32_t uses, n_uses;   /* index of the first use in the schedule's list, and number of uses */
    int32_t waits, n_waits; /* index of the first wait in the schedule's list, and number of waits */
} zr_step;

/** Return the number of exchanges of a step that moves data, one for each bucket of its range. For any other step
 * return 1. */
static inline int64_t zr_step_buckets(const zr_step *step)
{
    return step->bucket_elems > 0 ? (step->range.count + step->bucket_elems - 1) / step->bucket_elems : 1;
}

/** Wait for a step of another stream, in this round or in the previous round. */
typedef struct zr_wait {
    int32_t step;
    bool before; /* whether to wait for the step in the previous round; the first round then does not wait */
    bool pace;   /* whether the wait is a throttle (pace): no data dependency needs it, but it delays the step so that
                    fewer buffers are in memory at the same time */
} zr_wait;

/** List of steps with their uses and waits. Steps of one stream run in order. */
typedef struct zr_schedule {
    zr_step *step;
    int32_t n_steps;
    zr_use *use;
    int32_t n_uses;
    zr_wait *wait;
    int32_t n_waits;
    zr_buffer *buffer; /* persistent buffers of the plan, followed by transient buffers of this schedule */
    int32_t n_buffers; /* number of buffers, persistent and transient */
    zr_use *value; /* for each graph value, the last use that writes it. For a parameter, its buffer is ZR_NONE; see the
                      uses of the steps that read it */
} zr_schedule;

/** State of a unit on one rank: contiguous elements of the unit, stored in a persistent buffer. */
typedef struct zr_state {
    int32_t buffer; /* index of the buffer, or ZR_NONE if the state is not stored */
    zr_dtype dtype;
    zr_range range; /* range of the unit that is stored */
} zr_state;

/** States of a unit on one rank. */
typedef struct zr_plan_unit {
    int64_t elems;        /* number of parameter elements */
    int64_t padded_elems; /* elems rounded up to a multiple of N * ZR_SHARD_ALIGN */
    int64_t shard_elems;  /* padded_elems / N */
    zr_range own;         /* range of the unit whose gradient sums this rank computes */
    zr_range update; /* range of the unit that this rank updates: its shard, or the whole unit at stage 0. For a frozen
                        unit, the range that the rank stores */
    bool trains;     /* whether the unit is trained; a frozen unit has only parameters as its state */
    bool gathered;   /* whether the unit is sharded and gathered only while it is used, as at stage 3 */
    zr_space param_home, optim_home; /* spaces of `param` and of the fp32 states */
    zr_recompute recompute;          /* policy of this unit: NONE, UNIT or SELECTIVE */
    zr_state param;                  /* parameters; ZR_NONE if they are cast from the master */
    zr_state hpz_shard; /* second copy of the parameters (hpZ), valid after the first gather of a training step */
    zr_state grad;      /* gradient of a micro-batch in the communicated type; ZR_NONE if it is a transient buffer of a
                           schedule */
    /* gradient of a training step, which the update reads: fp32 accumulators, or the same buffer as grad */
    zr_state sums;
    zr_state master;   /* fp32 master parameters for 16-bit training; absent for a frozen unit */
    zr_state slot[4];  /* fp32 states of the optimizer */
    int32_t open_sums; /* first of n_open_sums buffers, each with a further accumulator of this rank's shard
                          (rank_free_sums) */
    int32_t n_open_sums;
    int32_t saved;        /* first of the buffers with copies of this rank's parameters and states (ZR_SAVE_COPY) */
    int32_t square;       /* buffer of the gradient's zr_square, or ZR_NONE without training */
    int32_t micro_square; /* buffer of the zr_square of micro-gradients, or ZR_NONE without zr_layout.micro_squares */
    int32_t verdict;      /* buffer of the zr_verdict on which the unit's update depends */
    int32_t trust, norms; /* buffers of a zr_trust and of the zr_norms for each of the unit's parameters; ZR_NONE
                             without zr_optimizer.trust */
} zr_plan_unit;

/** Result of NORM or AGREE that controls an update. Like a zr_square, it is stored in a buffer in host memory. */
typedef struct zr_verdict {
    double grad_norm, loss;
    double term[ZR_LOSS_TERMS];     /* mean loss of each term */
    double micro_square;            /* mean square norm of micro-gradients, as in zr_step_result.micro_square */
    int64_t counted[ZR_LOSS_TERMS]; /* number of losses of each term that count, of all ranks */
    float grad_scale;               /* factor by which an update multiplies gradients */
    int32_t bad_param;              /* index of the first parameter whose gradient is not finite on any rank, or -1 */
    bool skipped;                   /* whether the update is skipped */
} zr_verdict;

typedef enum zr_schedule_kind {
    ZR_SCHEDULE_TRAIN,
    ZR_SCHEDULE_EVAL,
    ZR_SCHEDULE_DECODE,
    ZR_SCHEDULE_FLUSH,
    ZR_SCHEDULES
} zr_schedule_kind;

/** Memory of one rank in one space, in bytes. */
typedef struct zr_space_memory {
    int64_t category_bytes[ZR_CATEGORIES]; /* maximum bytes of each category, not necessarily at the same time */
    int64_t total_bytes;
} zr_space_memory;

/** Memory of one rank, in bytes. */
typedef struct zr_memory {
    zr_space_memory space[ZR_SPACES];
    int64_t category_bytes[ZR_CATEGORIES]; /* maximum bytes of each category in device and staging memory together */
    int64_t states_bytes; /* bytes of persistent parameters, gradients and optimizer states on the device, including
                             padding */
    int64_t total_bytes;  /* total of device and staging memory */
} zr_memory;

/** Return the bytes of one rank's memory that grow with model and batch, for a device that uses host memory. The
 * result is total_bytes plus activation checkpoints, states and copies of states in host memory and, with states on
 * disk, the working memory there. */
ZR_API int64_t zr_memory_taken(const zr_memory *memory);

/** Borders between ranks, such as the border of a host. Received bytes are counted for each border that they cross. */
typedef enum zr_border {
    ZR_BORDER_GROUP, /* border between groups of data-parallel ranks (mics_shard_size, zero_hpz_partition_size); ranks
                        that share a layer are always in one group */
    ZR_BORDER_HOST,
    ZR_BORDER_TENSOR, /* border between tensor-parallel ranks; only traffic of tensor parallelism is counted */
    ZR_BORDERS
} zr_border;

/** Windows in host memory through which states on disk pass when they are filled, read or saved: one for the state, one
 * for the parameters that are rounded from it, and one for saves. */
typedef enum zr_plan_window { ZR_WINDOW_STATE, ZR_WINDOW_PARAM, ZR_WINDOW_SAVE, ZR_WINDOWS } zr_plan_window;

typedef struct zr_plan {
    zr_layout layout;
    zr_profile profile;
    zr_axis axis[ZR_AXES_MAX];
    int32_t n_axes;
    zr_group group[ZR_GROUPS_MAX];
    int32_t n_groups;
    int32_t optim_group, grad_group, param_group; /* groups that define the ZeRO stage. The optimizer states, the
                                                     gradients and the parameters are each sharded over the ranks
                                                     of one group. SELF means that a state is not sharded */
    int64_t recompute_every;                      /* from the layout, or chosen by ZR_RECOMPUTE_AUTO */
    bool partition_checkpoints;                   /* from the layout, or chosen by ZR_RECOMPUTE_AUTO */
    zr_space checkpoint_home;                     /* from the layout, or chosen by ZR_RECOMPUTE_AUTO */
    zr_save save;                                 /* from the layout, or chosen by ZR_SAVE_AUTO */
    int ranks;                                    /* N * M */
    bool side_by_side;                            /* whether streams can run at the same time */
    bool norm_first;              /* whether the whole gradient's norm is known before the first update */
    int terms;                    /* number of loss terms of the graphs for training and evaluation */
    double losses[ZR_LOSS_TERMS]; /* number of losses of each term in a training step, over all ranks */
    int64_t decode_len;           /* size of the key-value cache in tokens; 0 without the schedule "decode" */
    zr_optimizer optimizer;       /* optimizer; its name is NULL if the plan does not train */
    bool consume_grad; /* whether a unit's gradient is freed in its update, at the end of the unit's backward pass
                          (layout lean) */
    bool two_levels;   /* whether gradients are summed in two levels, first over the group LOCAL, then over ACROSS */
    bool sum_f32;      /* whether gradients are summed in fp32 accumulators, which the update reads */
    bool reduce_once;  /* whether accumulators hold whole units; ranks sum them after the last micro-batch */
    int64_t rounds;    /* rounds of a training step: its micro-batches, or 1 with ZR_ACCUM_LAYER */
    zr_graph *graph[ZR_SCHEDULES]; /* graph of each schedule; NULL for FLUSH and for schedules not requested */
    zr_schedule schedule[ZR_SCHEDULES];
    zr_plan_unit *unit;
    int32_t n_units;
    int64_t params;        /* Psi, number of parameters */
    int64_t trained;       /* number of parameters that are trained */
    int64_t padding_elems; /* padding elements of all units together */
    zr_buffer *persistent; /* buffers of states, caches and results; the first buffers of every schedule */
    int32_t n_persistent;
    int64_t persistent_room;
    bool moves;                                      /* whether units are communicated between ranks */
    int32_t staging[ZR_GROUPS_MAX];                  /* staging buffer of each group, or ZR_NONE if a group has none */
    int32_t loss, verdict, numbers, counted, output; /* buffers of results, or ZR_NONE if absent. loss: this rank's loss
                                                        of each term (zr_exact). verdict: a zr_verdict. numbers: the
                                                        values that ranks exchange. counted: with several loss terms,
                                                        the number of losses of each term that count, of all ranks
                                                        (double). output: the output of decoding */
    bool has_stream[ZR_STREAMS];                     /* whether a stream has steps; always true for COMPUTE and COMM */
    int32_t passing;      /* buffer in host memory through which states are filled and read */
    int32_t saving;       /* buffer in host memory through which states are saved in place, or ZR_NONE */
    int32_t passing_disk; /* buffer in host memory for bytes that cannot be transferred from or to disk directly, with
                             room for two transfers in each direction; or ZR_NONE */
    int32_t windows; /* buffer in host memory that holds a window for each zr_plan_window, or ZR_NONE if no state is on
                        disk */
    int64_t window_bytes;     /* bytes of a window */
    int64_t disk_block_bytes; /* maximum bytes of a single transfer from or to disk (zr_homes.block_bytes, or the
                                 planner's choice) */
    int disk_depth; /* number of transfers in flight in each direction (zr_homes.depth, or the planner's choice) */
    int64_t persistent_bytes[ZR_SPACES]; /* bytes of persistent buffers; transient buffers have higher offsets */
    int64_t space_bytes[ZR_SPACES]; /* bytes of each space: for DEVICE the arena, for STAGING at least ZR_STAGING_LEAST
                                       per rank */
    zr_memory memory;
    zr_traffic traffic;            /* traffic of one training step, including its flush */
    zr_traffic across[ZR_BORDERS]; /* traffic received across each border by the rank that receives the most */
    /* copied[from][to]: bytes that the steps COPY of one rank copy from one space to another in a training step,
     * without the copies of a save */
    int64_t copied[ZR_SPACES][ZR_SPACES];
    double flops_model; /* model FLOPs of a training step on all ranks, without recomputation */
    double flops_hardware;
} zr_plan;

/** Return whether tensor-parallel ranks share each layer. */
static inline bool zr_plan_shares_layers(const zr_plan *plan)
{
    return plan->layout.tensor > 1;
}

/** Compute a plan. Not collective, since the result is the same on every rank. `model` is used only during the call.
 * Fail with ZR_ERR_CONFIG if the layout is impossible, or with ZR_ERR_UNSUPPORTED if it is not implemented. */
ZR_API ZR_NODISCARD zr_status zr_plan_create(const zr_model *model, const zr_layout *layout, const zr_profile *profile,
                                             zr_plan **plan);
ZR_API void zr_plan_destroy(zr_plan **plan);

/** Prove that a plan is correct, independently of the planner:
 * - If two buffers share bytes, stream order and waits put every use of one before the first write of the other.
 * - Every byte that a rank reads has been written before, with and without a preceding flush.
 * - Every value is still in memory when it is read.
 * - Every buffer lies inside its space, and all bytes between ranks pass through staging memory.
 * - Every unit is updated, but only after all ranks have agreed on its gradient. With trust ratios, each rank has
 *   squared all its elements before, and all ranks have added the squares.
 * - With several loss terms, all ranks have exchanged the numbers of losses that count before an op reads them.
 * - After an update no step uses the unit's parameters in the space where they are stored.
 * - Squares of micro-gradients are computed from whole gradients that no reduction has changed.
 * - A save writes all elements of each state before the state is updated.
 * - A step computes only with device memory; an update by the host's processors, only with host memory. Changes to an
 *   offloaded state are copied home.
 *
 * The proof takes about as long as planning. It is for tests and debug builds. Fail with ZR_ERR_INTERNAL naming the
 * steps and the buffers. */
ZR_API ZR_NODISCARD zr_status zr_plan_check(const zr_plan *plan);

/** Cost of one step of a schedule on one rank. A RUN has the cost of its op. A step that moves data has the bytes that
 * a receiving rank gets from other ranks. Any other step, and also NORM and AGREE, has the bytes of memory that it
 * reads and writes. REPEAT and END cost nothing. */
typedef struct zr_step_cost {
    double flops;
    zr_product_sizes product; /* sizes of the matrix product that performs the FLOPs; zeros if there is no product */
    double pairs;             /* number of query-key pairs of attention, as in zr_cost */
    int64_t head;
    double memory_bytes;
    double wire_bytes;
    double calls; /* number of exchanges: for a step that moves data one per bucket, which share wire_bytes; for TRUST
                     one or more; 1 for any other step */
} zr_step_cost;

/** Estimated time of one training step, by the rates of a profile. A step of the schedule takes as long as its FLOPs
 * or its bytes, whichever takes longer. Streams run in parallel and observe waits. Matrix products run at the
 * machine's rate for their sizes and operand type. Bytes between ranks move at the rate of the slowest link. Work
 * with an unknown rate (0) takes no time. */
typedef struct zr_price {
    double step_sec;
    double compute_sec; /* busy time of the compute stream */
    double comm_sec;    /* busy time of the comm, copy and return streams */
    double exposed_sec; /* exposed communication time: step_sec - compute_sec */
    double disk_sec;    /* busy time of the fetch stream or of the store stream, whichever is longer */
    double host_sec;    /* busy time of the host stream */
} zr_price;
ZR_API ZR_NODISCARD zr_status zr_plan_price(const zr_plan *plan, const zr_profile *profile, zr_price *price);

/** Cost of an asynchronous save on one rank. */
typedef struct zr_save_price {
    int64_t bytes;    /* number of bytes that are written to files */
    double write_sec; /* time to write these bytes */
    double stall_sec; /* time by which the save prolongs the training step in which it begins */
} zr_save_price;

/** Estimated times at which a step of the schedule begins and ends, by the same rates as zr_price. */
typedef struct zr_step_time {
    double begin_sec, end_sec;
} zr_step_time;
/** Estimate the begin and the end of each step of the training schedule. `time` has an entry for each step. With
 * several micro-batches, only the first micro-batch is timed. The steps after all micro-batches are timed as if there
 * were only this one. Fail with ZR_ERR_STATE if the plan has no training schedule. */
ZR_API ZR_NODISCARD zr_status zr_plan_times(const zr_plan *plan, const zr_profile *profile, zr_step_time *time);

/** Find the profile of a machine by its name, such as "h100". Its rates are from data sheets, for 16-bit products
 * without sparsity. For a GPU, facts.apart is true. Facts about kernels are not known: the profile has one thread, no
 * packed operands, and facts.scratch_bytes NULL. The caller sets scratch_bytes to the device's function
 * (zr_device_cuda_scratch, zr_device_cpu_scratch). For an unknown name fail with ZR_ERR_NOT_FOUND and the known names
 * in the message. */
ZR_API ZR_NODISCARD zr_status zr_profile_named(const char *name, zr_profile *profile);
/** Return the names of the known machines, ending with NULL. */
ZR_API const char *const *zr_profile_names(void);

/** Return the bucket size in elements: wanted_elems rounded up to a multiple of ranks * ZR_SHARD_ALIGN. */
ZR_API int64_t zr_plan_bucket_elems(int64_t wanted_elems, int ranks);

#ifdef __cplusplus
}
#endif
#endif
