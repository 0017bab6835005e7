/**
 * plan: computes, from a model and a zr_layout, the schedule of one training step and the memory map, before anything
 * is allocated. It is pure arithmetic, for any number of ranks and any size of model.
 *
 * One plan serves every data-parallel rank: ranks differ in which shard they own, never in the list of steps. A ZeRO
 * stage is three groups of ranks (zr_plan.optim_group ...) and the positions of a few steps in the list. Source: ZeRO
 * (Rajbhandari et al. 2020), sections 5 and 7; bytes and traffic as in docs/memory.md.
 */
#ifndef ZR_PLAN_H
#define ZR_PLAN_H

#include "zr/models.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Alignment of shards and buckets on each rank, in elements of any dtype. */
#define ZR_SHARD_ALIGN 32

/** Layout of the model states in memory. The training results have the same bits with either layout. */
typedef enum zr_states {
    ZR_STATES_PAPER, /* 16-bit parameters and gradients, and fp32 states of the optimizer: 2 + 2 + K bytes per
                        parameter */
    ZR_STATES_LEAN   /* no 16-bit copy at stage 3: parameters are cast from the fp32 master while they are gathered.
                        With one micro-batch per step, and unless the whole gradient's norm is needed first, a unit's
                        gradient is freed in its update. 12 bytes per parameter, divided among all ranks */
} zr_states;

/** Recompute policy: which activations are computed again in the backward pass instead of being kept (Chen et al.
 * 2016). Every policy recomputes outputs of cheap ops (zr_op_def.cheap: norms, GELU) that only their own unit reads
 * and whose operands are kept anyway; this costs one more pass over memory and no FLOPs. */
typedef enum zr_recompute {
    ZR_RECOMPUTE_NONE,      /* recompute no matrix product and no attention */
    ZR_RECOMPUTE_UNIT,      /* keep the input of every `recompute_every`-th unit and recompute everything between */
    ZR_RECOMPUTE_SELECTIVE, /* recompute attention, and activations wider than the unit's input (Korthikanti et al.
                               2022) */
    ZR_RECOMPUTE_AUTO,      /* choose a policy for each unit: the mix with the least work whose total is at most
                               limit_bytes, or the smallest mix if no mix fits. Tensor-parallel ranks without sequence
                               parallelism also try activation checkpoints in pieces, on the device and on the host,
                               unless the layout requests pieces or host. Of the choices that fit, the fastest is taken,
                               and of equally fast ones the choice with whole checkpoints */
    ZR_RECOMPUTE_PAPER /* like UNIT with recompute_every 1, but run the whole unit again, including its last product,
                          whose result is not needed: this is how the papers count (ZeRO section 7, Megatron-LM) */
} zr_recompute;

/** Sequence parallelism: which tokens a tensor-parallel rank has between layers (Korthikanti et al. 2022). */
typedef enum zr_sequence {
    ZR_SEQUENCE_OFF,     /* all tokens */
    ZR_SEQUENCE_KEEP,    /* its own tokens, so that norms, dropout and residuals run only once over all ranks.
                            Without recompute, the gathered input of a product is kept for its gradient */
    ZR_SEQUENCE_REGATHER /* its own tokens; the inputs of products are gathered again in the backward pass */
} zr_sequence;

/** Collectives for gradients and for parameters. ZeRO uses the first collective of each list. All collectives give the
 * same sums, except NCCL's. */
typedef enum zr_reduce {
    ZR_REDUCE_TO_SHARDS,  /* each rank receives its shard of the sums */
    ZR_REDUCE_ALL_REDUCE, /* stage 1 in its first form: all ranks receive all sums, which takes 1.5 times the volume */
    ZR_REDUCE_TO_OWNER,   /* one reduction to each owner, in turn */
    ZR_REDUCE_NCCL /* to shards by NCCL's reduce-scatter, a whole unit at once; NCCL adds in the communicated type
                      and in its own order. For processes on GPUs */
} zr_reduce;
typedef enum zr_gather {
    ZR_GATHER_ALL,      /* one all-gather */
    ZR_GATHER_BROADCAST /* one broadcast from each owner, in turn */
} zr_gather;

/** Asynchronous saves, which write states out during the following training steps (zr_engine_save). */
typedef enum zr_save {
    ZR_SAVE_NONE,     /* no asynchronous save; states are read between steps (zr_engine_read) */
    ZR_SAVE_COPY,     /* the next training step first copies the states to the host's space; from there they are written
                         out during that and later training steps */
    ZR_SAVE_IN_PLACE, /* states are written out from where they are: in the next training step a unit's update waits
                         until its states are written */
    ZR_SAVE_AUTO      /* COPY if it fits limit_bytes without more recompute, else IN_PLACE */
} zr_save;

/** Memory spaces. Each has a map and a total of its own. */
#define ZR_SPACE_LIST(X)                                                                                               \
    X(DEVICE, "device")   /* the arena, which ops read and write */                                                    \
    X(HOST, "host")       /* host memory: batches, results that control later steps, states kept off the device */     \
    X(STAGING, "staging") /* memory visible to other ranks, through which pieces pass */                               \
    X(DISK, "disk")

typedef enum zr_space {
#define ZR_SPACE_ENUM(name, text) ZR_SPACE_##name,
    ZR_SPACE_LIST(ZR_SPACE_ENUM)
#undef ZR_SPACE_ENUM
        ZR_SPACES
} zr_space;

ZR_API const char *zr_space_name(zr_space space);

/** Home spaces of model states, in which they stay between the steps that compute with them. */
typedef struct zr_homes {
    zr_space param; /* always DEVICE */
    zr_space grad;  /* always DEVICE */
    zr_space optim; /* space of masters and optimizer states: DEVICE or HOST */
} zr_homes;

/** Layout of a training step over ranks. Initialise with ZR_LAYOUT_INIT. */
typedef struct zr_layout {
    size_t size;                 /* sizeof(zr_layout) */
    int ranks;                   /* N, data-parallel degree */
    int tensor;                  /* M, tensor-parallel degree: M neighbouring ranks share each layer, so there are N * M
                                    ranks */
    zr_sequence sequence;        /* sequence parallelism, used if M > 1 */
    int stage;                   /* ZeRO stage, 0 to 3 */
    zr_dtype dtype;              /* type of parameters and activations */
    zr_dtype wire_dtype;         /* type of gradients while they are communicated; F32 if dtype is F32 */
    int64_t batch;               /* B, rows of a micro-batch on one rank */
    int64_t seq;                 /* T, tokens per row */
    int64_t accum;               /* k, micro-batches per step */
    int64_t reduce_bucket_elems; /* largest exchange in elements, rounded up to a multiple of N * ZR_SHARD_ALIGN */
    int64_t gather_bucket_elems; /* largest gather in elements, rounded up to a multiple of N * ZR_SHARD_ALIGN */
    int shard_ranks;   /* MiCS: states are sharded over groups of this many consecutive data-parallel ranks, and each
                          group has a full copy; 0 for one group of all ranks */
    int hpz_ranks;     /* ZeRO++'s hpZ at stage 3: number of data-parallel ranks over which a second copy of the
                          parameters is sharded; 0 for no copy */
    int host_ranks;    /* number of ranks per host, which are consecutive among all N * M ranks; 0 if all are on one
                          host */
    bool hierarchical; /* whether collectives run first within each host, then between hosts */
    bool fused_buffer; /* whether to use one buffer for the whole model instead of buckets; gradients are then
                          reduced at the end */
    bool overlap;      /* whether to communicate during computation: a unit is reduced while the next one's backward
                          pass runs, and its gradient is kept that much longer */
    zr_reduce reduce;
    zr_gather gather;
    zr_states states;
    bool norm_first;     /* whether the whole gradient's norm must be known before the first update, as for clipping
                            and loss scale */
    bool two_pass;       /* for layout lean: whether to run the backward pass twice, first for the norm, so that no
                            gradient is kept for it */
    bool rank_free_sums; /* whether sums are independent of the number of ranks, which must be a power of two
                            (ARCHITECTURE.md, section 3) */
    bool reduce_once;    /* whether gradients are first summed over micro-batches, whole and in fp32 on each rank, and
                            then over ranks once per step, at every stage; no difference with one micro-batch or one
                            data-parallel rank */
    zr_recompute recompute;
    int64_t recompute_every;
    int64_t limit_bytes; /* limit in bytes for a rank's arena (on a GPU, for its device memory alone), used by
                            ZR_RECOMPUTE_AUTO and, with the copy included, by ZR_SAVE_AUTO; 0 for no limit */
    /* Whether to keep each activation checkpoint in pieces, one on each tensor-parallel rank (P_a), and whether to keep
     * checkpoints in the host's space (P_a+cpu), as in ZeRO section 6.1. */
    bool partition_checkpoints, offload_checkpoints;
    zr_save save; /* requires `train` */
    /* Limits for stage 3, in elements: DeepSpeed's thresholds, applied to units, which are gathered, kept and freed as
     * a whole. */
    int64_t prefetch_elems; /* prefetch: units are gathered ahead until this many elements are being transferred; 0
                               for no prefetch */
    int64_t live_elems;     /* maximum number of gathered elements; a unit that would exceed this maximum is not
                               gathered ahead; 0 to gather one segment ahead */
    int64_t reuse_elems;    /* a unit stays gathered if it is used again within this many elements of other units */
    int64_t persist_elems;  /* a unit stays whole if each of its parameters has fewer elements than this */
    int64_t persist_model_elems; /* maximum elements of all units that stay whole; 0 for no limit */
    bool micro_squares;          /* whether to compute the square norm of each micro-batch's own gradient before the
                                    reduction too (zr_step_result.micro_square); requires at least two micro-batches
                                    per step */
    bool train;                  /* whether to plan the schedules train and flush, with gradients and optimizer
                                    states */
    bool eval;                   /* whether to plan the schedule eval */
    int64_t decode_len;          /* key-value cache size in tokens for the schedule decode, or 0 to not plan it */
    zr_homes home; /* home spaces of the states; a state whose home is not the device has at most two buckets on the
                      device at a time */
    zr_optimizer optimizer;
} zr_layout;

/** Counts of the numbers that each rank passes to NORM and AGREE. NORM gets the gradient's sum of squares, the loss,
 * and the first parameter with a bad gradient; with rank_free_sums the sum of squares and the loss are exact sums.
 * AGREE gets the first parameter with a bad gradient, and whether the loss is bad. */
#define ZR_NORM_SCALARS 3
#define ZR_NORM_SCALARS_RANK_FREE (2 * ZR_EXACT_LIMBS + 1)
#define ZR_AGREE_SCALARS 2
/** Return how many numbers NORM exchanges per rank. With `micro`, the squares of micro-gradients come last, in the same
 * form as the squares of the gradient. */
static inline int zr_norm_scalars(bool rank_free_sums, bool micro)
{
    const int more = rank_free_sums ? ZR_EXACT_LIMBS : 1;
    return (rank_free_sums ? ZR_NORM_SCALARS_RANK_FREE : ZR_NORM_SCALARS) + (micro ? more : 0);
}

/** Minimum bytes of staging memory per rank. comm moves pieces through it in chunks, alternating between two halves of
 * at least 64 bytes each, so that a grain of comm's calls (here an element) fits. */
#define ZR_STAGING_LEAST 128

/** Size in F32 elements of the host buffer through which states are filled and read. */
#define ZR_PASSING_ELEMS 16384

#define ZR_DEFAULT_BUCKET_ELEMS (16 << 20)
/* The values are in the order of the fields, because C++ before C++20 has no designated initializers. */
#define ZR_LAYOUT_INIT                                                                                                 \
    {                                                                                                                  \
        sizeof(zr_layout), 1, 1, ZR_SEQUENCE_OFF, 0, ZR_F32, ZR_F32, 1, 1, 1, ZR_DEFAULT_BUCKET_ELEMS,                 \
            ZR_DEFAULT_BUCKET_ELEMS, 0, 0, 0, false, false, true, ZR_REDUCE_TO_SHARDS, ZR_GATHER_ALL, ZR_STATES_PAPER, \
            false, false, false, false, ZR_RECOMPUTE_NONE, 1, 0, false, false, ZR_SAVE_NONE, 1, 0, 0, 0, 0, false,     \
            true, true, 0, {ZR_SPACE_DEVICE, ZR_SPACE_DEVICE, ZR_SPACE_DEVICE}, ZR_OPTIMIZER_INIT                      \
    }

/* ---- the grid -------------------------------------------------------------------------------- */

/** An axis of the grid in which ranks are arranged. A rank's coordinate on the axis is (rank / step) % size. */
typedef struct zr_axis {
    const char *name; /* such as "data" */
    int32_t size;
    int32_t step; /* difference between neighbouring ranks on this axis */
} zr_axis;

#define ZR_AXES_MAX 4
/** Ranks that differ only in their coordinates on the group's axes. A rank's place in its group is the index formed by
 * these coordinates, the first axis varying slowest. */
typedef struct zr_group {
    const char *name;
    int32_t axis[ZR_AXES_MAX]; /* indices in zr_plan.axis */
    int32_t n_axes;            /* number of axes; 0 for a group of one rank */
    int32_t size;              /* number of ranks in the group */
} zr_group;

/** Groups of ranks. Every plan has SELF and DATA. If the data axis is split, it also has LOCAL (consecutive
 * data-parallel ranks, of a host or of a shard group) and ACROSS (ranks with the same place in their LOCAL groups).
 * With tensor parallelism it also has TENSOR and ALL. */
enum {
    ZR_GROUP_SELF,
    ZR_GROUP_DATA,
    ZR_GROUP_LOCAL,
    ZR_GROUP_ACROSS,
    ZR_GROUP_TENSOR, /* tensor-parallel ranks, which share each layer and see the same data */
    ZR_GROUP_ALL,
    ZR_GROUPS_MAX = 8
};

/* ---- what a plan is made of ------------------------------------------------------------------ */

/** A range of bytes with a lifetime. Persistent buffers hold the model states and live always. */
typedef struct zr_buffer {
    zr_category category;
    zr_space space;
    bool persistent;
    int32_t unit;     /* unit of the buffer, or -1 if none */
    const char *what; /* contents, such as "parameters", "gradient" or "h.0 attention"; the string is constant or the
                         graph's */
    int64_t bytes;
    int64_t offset;                /* byte offset in its space */
    int32_t first_step, last_step; /* indices of the first and last step of the schedule during which it is in use */
} zr_buffer;

/** Streams of steps. Steps of one stream run in order. */
#define ZR_STREAM_LIST(X)                                                                                              \
    X(COMPUTE, "compute")                                                                                              \
    X(COMM, "comm") /* calls between ranks, and steps that prepare them */                                             \
    X(COPY, "copy") /* copies between spaces */                                                                        \
    X(SAVE, "save") /* writes to files; the end of a schedule does not wait for them */

typedef enum zr_stream {
#define ZR_STREAM_ENUM(name, text) ZR_STREAM_##name,
    ZR_STREAM_LIST(ZR_STREAM_ENUM)
#undef ZR_STREAM_ENUM
        ZR_STREAMS
} zr_stream;

ZR_API const char *zr_stream_name(zr_stream stream);

/** Queue of each stream. Streams with the same number share a queue, in which their steps run in the order of the list.
 * A queue has the number of its first stream, so 0 means that the stream shares the queue of COMPUTE. */
typedef struct zr_queues {
    int8_t of[ZR_STREAMS];
} zr_queues;

/** Return whether a stream has a queue other than COMPUTE's. */
static inline bool zr_queues_apart(const zr_queues *queues, zr_stream stream)
{
    return queues->of[stream] != queues->of[ZR_STREAM_COMPUTE];
}

/** Kinds of steps: action and uses, the uses in order. "Mine" is this rank's range; "each" is one range for every rank
 * of the step's group. */
#define ZR_STEP_LIST(X)                                                                                                \
    X(BATCH, "batch")                   /* the caller fills a micro-batch; uses: for each graph input, its value and   \
                                           the host memory passed to the caller; then the loss. The range gives the    \
                                           rows of the global batch in the first round; in each later round it moves   \
                                           on by the rows of all ranks of the group */                                 \
    X(RUN, "run")                       /* run an op of the graph; uses: its inputs, outputs and scratch, in order */  \
    X(ZERO, "zero")                     /* clear a range that no op writes: part of a unit's gradient, or the padding  \
                                           after a value */                                                            \
    X(CAST, "cast")                     /* cast this rank's range of the master into its range of the unit; uses:      \
                                           master (mine), unit (mine) */                                               \
    X(COPY, "copy")                     /* copy bytes between buffers, usually of different spaces */                  \
    X(GATHER, "gather")                 /* all-gather of parameters: mine, each, staging */                            \
    X(BROADCAST, "broadcast")           /* broadcast of parameters from one owner: mine, each, staging */              \
    X(GATHER_GRAD, "gather_grad")       /* all-gather of sums: mine, each, staging */                                  \
    X(REDUCE_SCATTER, "reduce_scatter") /* sum all ranks' pieces for this rank's range in a tree; uses: each,          \
                                           [staging], sums (mine), [further accumulators: open_sums]. With one rank    \
                                           the single piece is the sum. With nccl, NCCL first sums the pieces into     \
                                           this rank's piece of "each" */                                              \
    X(REDUCE, "reduce")                 /* sum as in REDUCE_SCATTER, but only on one owner */                          \
    X(LOSS, "loss")                     /* add this micro-batch's losses to this rank's loss */                        \
    X(REPEAT, "repeat")                 /* run the following steps, up to END, `rounds` times */                       \
    X(END, "end")                                                                                                      \
    X(SQUARE_MICRO, "square_micro") /* add the squares of a micro-gradient to a sum that begins in the first round;    \
                                       uses: the whole gradient of this rank's micro-batch before the reduction, the   \
                                       sum */                                                                          \
    X(SQUARE, "square")             /* write the sum of the squares of a gradient; uses: sums (mine), the sum of       \
                                       squares */                                                                      \
    X(AGREE, "agree")   /* check that a unit's gradient is finite on all ranks, and end the run if not; uses: loss,    \
                           numbers of all ranks, the unit's verdict, the unit's square */                              \
    X(NORM, "norm")     /* agree on the norm of the gradient, on whether it is finite, on the loss and on the factor   \
                           for gradients; uses: loss, numbers of all ranks, the verdict, the square of each unit,      \
                           [the square of each unit's micro-gradients] */                                              \
    X(SAVE, "save")     /* write out a state of a unit; uses: the state (mine), [host memory through which the state   \
                           passes, if its home is not host memory] */                                                  \
    X(UPDATE, "update") /* update a range of a unit, except for parameters without gradient; uses: sums (mine),        \
                           master (mine) or none, each state (mine), parameters (mine) or none, the verdict */

typedef enum zr_step_kind {
#define ZR_STEP_ENUM(name, text) ZR_STEP_##name,
    ZR_STEP_LIST(ZR_STEP_ENUM)
#undef ZR_STEP_ENUM
        ZR_STEP_KINDS
} zr_step_kind;

ZR_API const char *zr_step_kind_name(zr_step_kind kind);

/** Collectives between the ranks of a step's group. */
typedef enum zr_move {
    ZR_MOVE_NONE,
    ZR_MOVE_GATHER,    /* each rank receives the pieces of all ranks */
    ZR_MOVE_REDUCE,    /* each rank receives its part of the sum over all ranks */
    ZR_MOVE_BROADCAST, /* all ranks receive the piece of one rank, the step's owner */
    ZR_MOVE_COLLECT,   /* the owner receives the sum of all ranks' pieces */
    ZR_MOVE_SCALARS    /* all ranks receive a few numbers from each rank */
} zr_move;

/** Traits of a kind of step, for all code that needs to know which kinds move bytes. Only the proof of a plan has a
 * list of its own. */
typedef struct zr_step_traits {
    zr_move move;
    int pieces;              /* for moves other than SCALARS: index of the use that gives the communicated range and
                                type */
    zr_traffic_kind traffic; /* kind of traffic under which the move is counted */
} zr_step_traits;

ZR_API zr_step_traits zr_step_traits_of(zr_step_kind kind);

/** Distance in elements between neighbouring ranks of a group. */
typedef struct zr_stride {
    int64_t elems;
    int32_t group;
} zr_stride;

/** Range of `count` elements from offset `first` + by.elems * (this rank's place in by.group) + outer.elems * (this
 * rank's place in outer.group). Steps of different ranks differ in nothing else. */
typedef struct zr_range {
    int64_t first, count;
    zr_stride by, outer;
} zr_range;

/** Elements of a buffer that a step uses. */
typedef struct zr_use {
    int32_t buffer; /* index of the buffer, or ZR_NONE for an optional operand that is absent */
    zr_dtype dtype : 8;
    bool reads : 1, writes : 1;
    bool each : 1;  /* whether the use covers the ranges of all ranks along range.by, not only this rank's */
    zr_range range; /* range in elements of dtype; count 0 for the whole buffer, untyped */
} zr_use;

/** Rounds of REPEAT in which a step runs. */
typedef enum zr_when {
    ZR_WHEN_ALWAYS,
    ZR_WHEN_STALE, /* in the first round, unless `flush` has run: gathers of parameters that the previous training
                      step has updated (stages 1, 2); their bytes are counted for that previous step */
    ZR_WHEN_FIRST,
    ZR_WHEN_LATER, /* in all rounds but the first */
    ZR_WHEN_SAVE   /* in the first round of a training step during which states are saved */
} zr_when;

/** Return whether a step of the schedule runs in a round of REPEAT, counted from 0. `stale` is whether the parameters
 * that the previous training step updated are still to be gathered; `saves` is whether states are saved during this
 * training step. */
static inline bool zr_when_runs(zr_when when, int64_t round, bool stale, bool saves)
{
    if (when == ZR_WHEN_ALWAYS) return true;
    if (when == ZR_WHEN_LATER) return round > 0;
    return round == 0 && (when == ZR_WHEN_FIRST || (when == ZR_WHEN_STALE ? stale : saves));
}
/** Return whether a step of the schedule runs only in training steps for which the caller requests it. In other
 * training steps nothing may depend on that step's order. */
static inline bool zr_when_asked(zr_when when)
{
    return when == ZR_WHEN_SAVE;
}
/** Return in how many of a training step's `rounds` rounds a step of the schedule runs. */
static inline int64_t zr_when_rounds(zr_when when, int64_t rounds, bool stale, bool saves)
{
    return zr_when_runs(when, 0, stale, saves) + (rounds - 1) * zr_when_runs(when, 1, stale, saves);
}

/** One step of a schedule. */
typedef struct zr_step {
    zr_step_kind kind : 8;
    zr_stream stream : 8;
    zr_when when : 8;
    bool replay; /* for RUN: whether it is recomputed in the backward pass, by the policy or because it is cheap */
    bool adds;   /* for REDUCE_SCATTER, REDUCE, SQUARE_MICRO: whether rounds after the first add to the existing sums */
    bool rank_free_sums; /* for reductions, SQUARE, SQUARE_MICRO, NORM: whether sums are independent of the number of
                            ranks */
    bool nccl;           /* for REDUCE_SCATTER: whether NCCL adds */
    bool restores;       /* for GATHER: whether it gathers an activation checkpoint that tensor-parallel ranks keep
                            in pieces */
    int32_t group;       /* group of the ranks that take part */
    int32_t unit;
    int32_t op;     /* op of a RUN, of a GATHER or REDUCE_SCATTER written for an op (zr_op_def.join), or op that
                       computed a gathered checkpoint; otherwise -1 */
    int32_t owner;  /* for REDUCE, BROADCAST: the owner's place in the group; otherwise -1 */
    int32_t slot;   /* for SAVE: index of the optimizer's state, or -1 for the parameters */
    int64_t rounds; /* for REPEAT: number of rounds; for a reduction: micro-batches that it adds up; for NORM: number of
                       micro-gradients, over all ranks, whose squares it receives, or 0 if none */
    zr_range range; /* range of the unit (ZERO, CAST, moves, SQUARE, SQUARE_MICRO, UPDATE, SAVE, copies of a state)
                       or of rows (BATCH) */
    int64_t bucket_elems;   /* for moves of a unit: elements of the range that one exchange moves (the last exchange may
                               move fewer); 0 to move all at once */
    int32_t uses, n_uses;   /* range in the schedule's use list */
    int32_t waits, n_waits; /* range in the schedule's wait list */
} zr_step;

/** Return how many exchanges a move makes, one for each bucket of its range; for any other step return 1. */
static inline int64_t zr_step_buckets(const zr_step *step)
{
    return step->bucket_elems > 0 ? (step->range.count + step->bucket_elems - 1) / step->bucket_elems : 1;
}

/** A wait for a step of another stream, which must have ended in this or the previous round of REPEAT. */
typedef struct zr_wait {
    int32_t step;
    bool before; /* whether to wait for the step's run in the previous round; in the first round there is no wait */
    bool pace;   /* whether the wait only keeps memory from being allocated too early, without being needed by a use */
} zr_wait;

/** A list of steps with their uses and waits. Steps of one stream run in order. */
typedef struct zr_schedule {
    zr_step *step;
    int32_t n_steps;
    zr_use *use;
    int32_t n_uses;
    zr_wait *wait;
    int32_t n_waits;
    zr_buffer *buffer; /* the plan's persistent buffers, followed by this schedule's transient ones */
    int32_t n_buffers; /* number of buffers, persistent and transient */
    zr_use *value;     /* for each graph value: the use that last wrote the value; its buffer is ZR_NONE for a
                          parameter, which the steps' own uses name */
} zr_schedule;

/** Elements of a unit that a rank keeps contiguously in a persistent buffer. */
typedef struct zr_state {
    int32_t buffer; /* index of the buffer, or ZR_NONE if the state is not kept */
    zr_dtype dtype;
    zr_range range; /* range of the unit */
} zr_state;

/** States of a unit on a rank. */
typedef struct zr_plan_unit {
    int64_t elems;        /* number of parameter elements */
    int64_t padded_elems; /* elems rounded up to a multiple of N * ZR_SHARD_ALIGN */
    int64_t shard_elems;  /* padded_elems / N */
    zr_range own;         /* shard of the unit for which this rank sums the gradients */
    zr_range update; /* range that this rank updates: its shard, or all at stage 0; for a frozen unit, the range that
                        it keeps */
    bool trains;     /* whether updates change the unit; a frozen unit has only parameters */
    bool gathered;   /* whether the unit is sharded and gathered only around its uses, as at stage 3 */
    zr_recompute recompute; /* NONE, UNIT or SELECTIVE */
    zr_state param;         /* parameters; ZR_NONE if they are cast from the master */
    zr_state hpz_shard;     /* hpZ's second copy of the parameters, valid from a training step's first gather on */
    zr_state grad;          /* gradient of a micro-batch, in the communicated type; ZR_NONE if it is a transient
                               buffer of a schedule */
    zr_state sums;          /* gradient of a training step, which the update reads: fp32 accumulators, or grad */
    zr_state master;        /* fp32 master parameters, for 16-bit training; none for a frozen unit */
    zr_state slot[4];       /* fp32 states of the optimizer */
    int32_t open_sums;      /* first of n_open_sums buffers, which are further accumulators of this rank's shard for
                               rank_free_sums */
    int32_t n_open_sums;
    int32_t saved;        /* for ZR_SAVE_COPY: first of the buffers for the parameters and states of this rank's
                             shard */
    int32_t square;       /* buffer of the zr_square of the unit's gradient, or ZR_NONE without training */
    int32_t micro_square; /* buffer of the zr_square of micro-gradients, or ZR_NONE without zr_layout.micro_squares */
    int32_t verdict;      /* buffer of the zr_verdict that decides about the unit's update */
} zr_plan_unit;

/** Result that controls an update. Like a zr_square, it lies in a buffer of the host's space. */
typedef struct zr_verdict {
    double grad_norm, loss;
    double micro_square; /* mean square of micro-gradients, as in zr_step_result.micro_square */
    float grad_scale;    /* factor for gradients in an update */
    int32_t bad_param;   /* first parameter with a gradient that is not finite on any rank, or -1 if none */
    bool skipped;        /* whether nothing may be updated */
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
    int64_t category_bytes[ZR_CATEGORIES]; /* high-water mark of each category separately */
    int64_t total_bytes;
} zr_space_memory;

/** Memory of one rank, in bytes. */
typedef struct zr_memory {
    zr_space_memory space[ZR_SPACES];
    int64_t category_bytes[ZR_CATEGORIES]; /* high-water mark of each category, for device and staging memory
                                              together */
    int64_t states_bytes;                  /* persistent parameters, gradients and optimizer states, padding included */
    int64_t total_bytes;                   /* total of device and staging memory */
} zr_memory;

/** Return the bytes of memory on one rank that grow with model and batch, for a device that uses host memory:
 * total_bytes plus the activation checkpoints and copies in the host's space. */
ZR_API int64_t zr_memory_taken(const zr_memory *memory);

/** Borders that bytes may cross on their way from another rank. */
typedef enum zr_border {
    ZR_BORDER_GROUP, /* between groups of mics_shard_size or zero_hpz_partition_size data-parallel ranks; all ranks that
                        share a layer are in one group */
    ZR_BORDER_HOST,
    ZR_BORDER_TENSOR, /* between tensor-parallel ranks, for tensor parallelism; ZeRO's own steps are not counted */
    ZR_BORDERS
} zr_border;

typedef struct zr_plan {
    zr_layout layout;
    zr_profile profile;
    zr_axis axis[ZR_AXES_MAX];
    int32_t n_axes;
    zr_group group[ZR_GROUPS_MAX];
    int32_t n_groups;
    int32_t optim_group, grad_group, param_group; /* groups that make up the ZeRO stage: the ranks that share one copy
                                                     of the optimizer's states, gradients and parameters; SELF for a
                                                     state that is not sharded */
    int64_t recompute_every;                      /* from the layout, or chosen by ZR_RECOMPUTE_AUTO */
    bool partition_checkpoints, offload_checkpoints; /* from the layout, or chosen by ZR_RECOMPUTE_AUTO */
    zr_save save;                                    /* from the layout, or chosen by ZR_SAVE_AUTO */
    int ranks;                                       /* N * M */
    bool side_by_side;                               /* whether streams may run at the same time */
    bool norm_first;                                 /* whether the whole gradient's norm is known before the first
                                                        update */
    double losses;                                   /* number of losses in a training step, over all ranks */
    int64_t decode_len;                              /* key-value cache size in tokens; 0 if the plan has no decode
                                                        schedule */
    zr_optimizer optimizer;                          /* name is NULL if the plan does not train */
    bool consume_grad; /* for layout lean: whether a unit's gradient is freed in its update, at the end of the unit's
                          backward pass */
    bool two_levels;   /* whether gradients are summed first over the group LOCAL, then over ACROSS */
    bool sum_f32;      /* whether gradients are summed in fp32 accumulators, which the update reads */
    bool reduce_once;  /* whether accumulators hold whole units and are summed over ranks after the last micro-batch */
    zr_graph *graph[ZR_SCHEDULES]; /* graph of each schedule; NULL for FLUSH and for schedules that were not
                                      requested */
    zr_schedule schedule[ZR_SCHEDULES];
    zr_plan_unit *unit;
    int32_t n_units;
    int64_t params;        /* Psi, number of parameters */
    int64_t trained;       /* number of parameters that are trained */
    int64_t padding_elems; /* total padding of all units */
    zr_buffer *persistent; /* buffers of model states, caches and results; they come first in every schedule's list */
    int32_t n_persistent;
    int64_t persistent_room;
    bool moves;                     /* whether units are communicated between ranks */
    int32_t staging[ZR_GROUPS_MAX]; /* persistent buffer of each group's staging memory, or ZR_NONE if it has none */
    int32_t loss, verdict, numbers, output; /* buffers of results, or ZR_NONE if absent: this rank's loss (zr_exact),
                                               a zr_verdict, the numbers that ranks exchange, the output of decoding */
    bool has_stream[ZR_STREAMS];            /* whether a stream has steps; always true for compute and comm */
    int32_t passing;                        /* buffer in host memory through which states are filled and read */
    int32_t saving;                         /* buffer in host memory through which states are saved in place, or
                                               ZR_NONE if none are */
    int64_t persistent_bytes[ZR_SPACES];    /* bytes of persistent buffers; transient buffers have higher offsets */
    int64_t space_bytes[ZR_SPACES];         /* DEVICE: size of the arena; STAGING: at least ZR_STAGING_LEAST per rank */
    zr_memory memory;
    zr_traffic traffic;            /* traffic of one training step, including its flush */
    zr_traffic across[ZR_BORDERS]; /* traffic received across each border, for the rank with the most such traffic */
    double flops_model;            /* FLOPs of a training step on all ranks */
    double flops_hardware;
} zr_plan;

/** Return whether each layer runs on several ranks (tensor parallelism). */
static inline bool zr_plan_shares_layers(const zr_plan *plan)
{
    return plan->layout.tensor > 1;
}

/** Compute a plan. Not collective: by construction the result is the same on every rank. `model` is not kept. Fail with
 * ZR_ERR_CONFIG if the layout is impossible, or ZR_ERR_UNSUPPORTED if it is not implemented. */
ZR_API ZR_NODISCARD zr_status zr_plan_create(const zr_model *model, const zr_layout *layout, const zr_profile *profile,
                                             zr_plan **plan);
ZR_API void zr_plan_destroy(zr_plan **plan);

/** Prove that a plan is correct, independently of the planner:
 *  - no two buffers share bytes, unless stream order and waits put every use of one buffer before the first write of
 * the other;
 *  - every byte that is read on any rank has been written before, with and without a preceding flush, and every value
 * is still in memory when it is read;
 *  - every buffer lies in its space, and all bytes between ranks go through staging memory;
 *  - every unit is updated, only after all ranks have agreed on its gradient, and is not read from its home afterwards;
 *  - squares of micro-gradients are computed from whole gradients that no reduction has changed;
 *  - a save writes all of each state before it is updated.
 *
 *  Takes about as long as planning; for tests and debug builds. Fail with ZR_ERR_INTERNAL naming the steps and
 * buffers. */
ZR_API ZR_NODISCARD zr_status zr_plan_check(const zr_plan *plan);

/** Cost of one step of a schedule on a rank: the cost of an op; the bytes of a move from other ranks (for steps with
 * one owner, counted where they arrive); the memory bytes that any other step reads and writes. REPEAT and END cost
 * nothing. */
typedef struct zr_step_cost {
    double flops;
    zr_product_sizes product; /* sizes of the matrix product that makes up the FLOPs, or zeros if there is none */
    double pairs;             /* query-key pairs of attention, as in zr_cost */
    int64_t head;
    double memory_bytes;
    double wire_bytes;
    double calls; /* for a move: number of exchanges, one per bucket, which share wire_bytes; 1 for any other step */
} zr_step_cost;

/** Estimated time of one training step by a profile's rates. Each step of the schedule takes as long as the slower of
 * its FLOPs and its bytes; streams run in parallel and observe waits. FLOPs of matrix products run at the machine's
 * rate for their sizes in the type that the op multiplies in; bytes between ranks at the rate of the machine's slowest
 * link. A rate of 0 is unknown, and its work takes no time. */
typedef struct zr_price {
    double step_sec;
    double compute_sec; /* busy time of the compute stream */
    double comm_sec;    /* busy time of the comm and copy streams */
    double exposed_sec; /* exposed communication time: step_sec - compute_sec */
} zr_price;
ZR_API ZR_NODISCARD zr_status zr_plan_price(const zr_plan *plan, const zr_profile *profile, zr_price *price);

/** Cost of an asynchronous save during a training step, on one rank. */
typedef struct zr_save_price {
    int64_t bytes;    /* bytes that are written to files */
    double write_sec; /* time to write them */
    double stall_sec; /* seconds by which the save prolongs the training step in which it begins */
} zr_save_price;

/** Estimated time at which a step of the schedule begins and ends, by the rates used for zr_price. */
typedef struct zr_step_time {
    double begin_sec, end_sec;
} zr_step_time;
/** Compute when each step of training runs; `time` has an entry for each step. With several micro-batches, only the
 * first is timed, and the steps after the micro-batches are timed as if the first were the only one. Fail with
 * ZR_ERR_STATE if the plan has no training step. */
ZR_API ZR_NODISCARD zr_status zr_plan_times(const zr_plan *plan, const zr_profile *profile, zr_step_time *time);

/** Find a machine by name, such as "h100". Its rates come from data sheets, for 16-bit products without sparsity. For
 * an unknown name fail with ZR_ERR_NOT_FOUND, with the known names in the message. A GPU has facts.apart. Facts about
 * kernels are not known: one thread, no panels, and facts.scratch_bytes NULL, which the caller sets to the device's
 * function (zr_device_cuda_scratch, zr_device_cpu_scratch). */
ZR_API ZR_NODISCARD zr_status zr_profile_named(const char *name, zr_profile *profile);
/** Return the names of machines, ending with NULL. */
ZR_API const char *const *zr_profile_names(void);

/** Return the number of elements of a bucket: `wanted_elems` rounded up to a multiple of ranks * ZR_SHARD_ALIGN. */
ZR_API int64_t zr_plan_bucket_elems(int64_t wanted_elems, int ranks);

#ifdef __cplusplus
}
#endif
#endif
