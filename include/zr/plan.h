/**
 * plan: from a model and a zr_layout, the schedule of one training step and the memory map, before
 * anything is allocated. Pure arithmetic: any number of ranks, any size of model.
 *
 * One plan serves every data-parallel rank: ranks differ in which shard they own, never in the list of
 * steps. A ZeRO stage is three groups of ranks (zr_plan.optim_group ...) and where a few steps stand in the list.
 * Source: ZeRO (Rajbhandari et al. 2020) sections 5 and 7; bytes and traffic as in docs/memory.md.
 */
#ifndef ZR_PLAN_H
#define ZR_PLAN_H

#include "zr/models.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Alignment of shards and buckets, in elements on each rank, in every dtype. */
#define ZR_SHARD_ALIGN 32

/** Layout of the model states in memory. Both give the same bits. */
typedef enum zr_states {
    ZR_STATES_PAPER, /* 16-bit parameters and gradients, and the optimizer's fp32: 2 + 2 + K bytes a parameter */
    ZR_STATES_LEAN /* no 16-bit copy at stage 3: parameters are cast from the fp32 master while they are gathered. With
                      one micro-batch a step, and where the whole gradient's norm is not needed first, a unit's gradient
                      dies in its update. 12 bytes a parameter, shared by all ranks */
} zr_states;

/** Recompute policy: activations that are computed again in the backward pass instead of being kept (Chen et al. 2016).
 * Every policy recomputes the outputs of cheap ops (zr_op_def.cheap: norms, GELU) whose operands are kept anyway and
 * which their own unit alone reads: one more pass over memory, no FLOPs. */
typedef enum zr_recompute {
    ZR_RECOMPUTE_NONE,      /* no product and no attention runs again */
    ZR_RECOMPUTE_UNIT,      /* the input of every `recompute_every`-th unit is kept, everything between is recomputed */
    ZR_RECOMPUTE_SELECTIVE, /* attention and activations wider than the unit's input are recomputed (Korthikanti et al.
                               2022) */
    ZR_RECOMPUTE_AUTO, /* a policy for each unit: the mix with the least work whose total is at most limit_bytes, or the
                          smallest where nothing fits. Without sequence parallelism, tensor-parallel ranks also try
                          checkpoints in pieces, on the device and on the host, unless the layout asks for either; the
                          one that fits the limit and takes the least time wins, whole checkpoints among equals */
    ZR_RECOMPUTE_PAPER /* UNIT with recompute_every 1 where the whole unit runs again, including its last product, which
                          nothing needs: as the papers count (ZeRO section 7, Megatron-LM) */
} zr_recompute;

/** Sequence parallelism: the tokens that a tensor-parallel rank has between layers (Korthikanti et al. 2022). */
typedef enum zr_sequence {
    ZR_SEQUENCE_OFF,     /* all tokens */
    ZR_SEQUENCE_KEEP,    /* its own tokens: norms, dropout and residuals run once over all ranks. Without recompute the
                            gathered input of a product is kept for its gradient */
    ZR_SEQUENCE_REGATHER /* its own tokens; inputs of products are gathered again in the backward pass */
} zr_sequence;

/** Collectives for gradients and parameters; the first of each is ZeRO's. All but NCCL's give the same sums. */
typedef enum zr_reduce {
    ZR_REDUCE_TO_SHARDS,  /* each rank receives its shard */
    ZR_REDUCE_ALL_REDUCE, /* stage 1 as it was first built: all receive all sums, 1.5 times the volume */
    ZR_REDUCE_TO_OWNER,   /* one reduction for each owner, in turn */
    ZR_REDUCE_NCCL /* to shards by NCCL's reduce-scatter, a whole unit at once, added in the wire's type and in NCCL's
                      order. Processes on GPUs */
} zr_reduce;
typedef enum zr_gather {
    ZR_GATHER_ALL,      /* one all-gather */
    ZR_GATHER_BROADCAST /* one broadcast from each owner, in turn */
} zr_gather;

/** Asynchronous saves: states go out behind the next training step (zr_engine_save). */
typedef enum zr_save {
    ZR_SAVE_NONE, /* no asynchronous save: states are read between steps (zr_engine_read) */
    ZR_SAVE_COPY, /* the next training step first copies states to the host's space; they go out from there behind it
                     and behind later ones */
    ZR_SAVE_IN_PLACE, /* states go out from where they are: in the next training step a unit's update waits until its
                         states are out */
    ZR_SAVE_AUTO      /* COPY where it fits limit_bytes without more recompute, else IN_PLACE */
} zr_save;

/** Memory spaces. Each has a map and a total of its own. */
#define ZR_SPACE_LIST(X)                                                                                               \
    X(DEVICE, "device")   /* the arena: what ops read and write */                                                     \
    X(HOST, "host")       /* memory of the host: batches, results that steer later steps, states off the device */     \
    X(STAGING, "staging") /* memory visible to other ranks: pieces pass through it */                                  \
    X(DISK, "disk")

typedef enum zr_space {
#define ZR_SPACE_ENUM(name, text) ZR_SPACE_##name,
    ZR_SPACE_LIST(ZR_SPACE_ENUM)
#undef ZR_SPACE_ENUM
        ZR_SPACES
} zr_space;

ZR_API const char *zr_space_name(zr_space space);

/** Homes of model states: the spaces in which they stay between the steps that compute with them. */
typedef struct zr_homes {
    zr_space param; /* DEVICE */
    zr_space grad;  /* DEVICE */
    zr_space optim; /* masters and states of the optimizer: DEVICE, HOST */
} zr_homes;

/** Layout of a training step over ranks. Start from ZR_LAYOUT_INIT. */
typedef struct zr_layout {
    size_t size;          /* sizeof(zr_layout) */
    int ranks;            /* N, data-parallel degree */
    int tensor;           /* M, tensor-parallel degree: M neighbouring ranks share each layer; there are N * M ranks */
    zr_sequence sequence; /* with M > 1 */
    int stage;            /* ZeRO stage 0 .. 3 */
    zr_dtype dtype;       /* parameters and activations */
    zr_dtype wire_dtype;  /* gradients on the wire; F32 when dtype is F32 */
    int64_t batch;        /* B, rows of a micro-batch on one rank */
    int64_t seq;          /* T */
    int64_t accum;        /* k, micro-batches of a step */
    int64_t reduce_bucket_elems; /* largest exchange, rounded up to N * ZR_SHARD_ALIGN */
    int64_t gather_bucket_elems; /* largest gather, rounded up in the same way */
    int shard_ranks;   /* MiCS: consecutive data-parallel ranks that states are sharded over, and replicated across; 0:
                          all */
    int hpz_ranks;     /* ZeRO++'s hpZ, at stage 3: data-parallel ranks that a second copy of the parameters is sharded
                          over; 0: no copy */
    int host_ranks;    /* ranks of a host, consecutive among all N * M; 0: all */
    bool hierarchical; /* collectives first within a host, then across */
    bool fused_buffer; /* one buffer of the whole model in place of buckets: gradients travel at the end */
    bool overlap;      /* communication beside computation: a unit is reduced while the next one's backward
                          runs, its gradient lives that much longer */
    zr_reduce reduce;
    zr_gather gather;
    zr_states states;
    bool norm_first;     /* the whole gradient's norm must be known before the first update: clipping, loss scale */
    bool two_pass;       /* lean: run the backward twice, first for the norm, so that no gradient is kept for it */
    bool rank_free_sums; /* sums that do not depend on the number of ranks, a power of two (ARCHITECTURE.md, section 3)
                          */
    bool reduce_once; /* gradients are summed over micro-batches first, whole and in fp32 on each rank, and over ranks
                         once a step, at every stage; no difference with one micro-batch or one data-parallel rank */
    zr_recompute recompute;
    int64_t recompute_every;
    int64_t limit_bytes; /* most bytes of a rank's arena, on a GPU of its memory alone, for ZR_RECOMPUTE_AUTO and,
                            the copy included, for ZR_SAVE_AUTO; 0: no limit */
    /* Activation checkpoints (ZeRO section 6.1): in pieces, one on each tensor-parallel rank (P_a); in the host's space
     * (P_a+cpu). */
    bool partition_checkpoints, offload_checkpoints;
    zr_save save; /* only with `train` */
    /* Stage 3, in elements. DeepSpeed's thresholds, by units: a unit is gathered, kept and freed as a whole. */
    int64_t prefetch_elems; /* prefetch: units are gathered ahead until this many elements are on their way; 0: none */
    int64_t live_elems;     /* no unit is gathered ahead beyond this many gathered elements; 0: one segment ahead */
    int64_t reuse_elems;    /* a unit stays gathered when it is used again within this many elements of other units */
    int64_t persist_elems;  /* a unit whose parameters are all smaller stays whole */
    int64_t persist_model_elems; /* most elements of the units that stay whole; 0: any */
    bool micro_squares;          /* the square norm of each micro-batch's own gradient is taken as well, before the
                                    reduction (zr_step_result.micro_square): of two a step at least */
    bool train;                  /* the schedules train and flush, gradients and optimizer states */
    bool eval;                   /* the schedule eval */
    int64_t decode_len;          /* tokens of the key-value cache of the schedule decode; 0: without decode */
    zr_homes home; /* homes of states; of a state that is not on the device, at most two buckets are there at a time */
    zr_optimizer optimizer;
} zr_layout;

/** Numbers of a rank that NORM exchanges: squares of the gradient, loss, first parameter with a bad gradient; with
 * rank_free_sums the first two are exact sums. Numbers that AGREE exchanges: first parameter with a bad gradient,
 * whether the loss is bad. */
#define ZR_NORM_SCALARS 3
#define ZR_NORM_SCALARS_RANK_FREE (2 * ZR_EXACT_LIMBS + 1)
#define ZR_AGREE_SCALARS 2
/** Return how many numbers NORM exchanges; micro: squares of micro-gradients too, last, in the form of the first. */
static inline int zr_norm_scalars(bool rank_free_sums, bool micro)
{
    const int more = rank_free_sums ? ZR_EXACT_LIMBS : 1;
    return (rank_free_sums ? ZR_NORM_SCALARS_RANK_FREE : ZR_NORM_SCALARS) + (micro ? more : 0);
}

/** Bytes of the staging memory for each rank, at least: comm moves pieces through it in chunks, in two halves by
 *  turns, each of 64 bytes or more: there is room for a grain of comm's calls, which is an element here. */
#define ZR_STAGING_LEAST 128

/** F32 elements of the host's memory through which states are filled and read. */
#define ZR_PASSING_ELEMS 16384

#define ZR_DEFAULT_BUCKET_ELEMS (16 << 20)
/* In the order of the fields: C++ before C++20 has no designated initializers. */
#define ZR_LAYOUT_INIT                                                                                                 \
    {                                                                                                                  \
        sizeof(zr_layout), 1, 1, ZR_SEQUENCE_OFF, 0, ZR_F32, ZR_F32, 1, 1, 1, ZR_DEFAULT_BUCKET_ELEMS,                 \
            ZR_DEFAULT_BUCKET_ELEMS, 0, 0, 0, false, false, true, ZR_REDUCE_TO_SHARDS, ZR_GATHER_ALL, ZR_STATES_PAPER, \
            false, false, false, false, ZR_RECOMPUTE_NONE, 1, 0, false, false, ZR_SAVE_NONE, 1, 0, 0, 0, 0, false,     \
            true, true, 0, {ZR_SPACE_DEVICE, ZR_SPACE_DEVICE, ZR_SPACE_DEVICE}, ZR_OPTIMIZER_INIT                      \
    }

/* ---- the grid -------------------------------------------------------------------------------- */

/** Ranks stand in a grid of named axes; a rank's coordinate on an axis is (rank / step) % size. */
typedef struct zr_axis {
    const char *name; /* "data" */
    int32_t size;
    int32_t step; /* from a rank to the next one on this axis */
} zr_axis;

#define ZR_AXES_MAX 4
/** Ranks that differ only in their coordinates on the group's axes. A rank's place in its group counts these
 * coordinates, the first axis slowest. */
typedef struct zr_group {
    const char *name;
    int32_t axis[ZR_AXES_MAX]; /* of zr_plan.axis */
    int32_t n_axes;            /* 0: a group of one rank */
    int32_t size;              /* ranks of the group */
} zr_group;

/** Every plan has SELF and DATA. Where the data axis is split: LOCAL, consecutive data-parallel ranks (of a host, of a
 * shard group), and ACROSS, ranks with the same place in their LOCAL groups. With tensor parallelism: TENSOR and ALL.
 */
enum {
    ZR_GROUP_SELF,
    ZR_GROUP_DATA,
    ZR_GROUP_LOCAL,
    ZR_GROUP_ACROSS,
    ZR_GROUP_TENSOR, /* tensor-parallel ranks: they share each layer and see the same data */
    ZR_GROUP_ALL,
    ZR_GROUPS_MAX = 8
};

/* ---- what a plan is made of ------------------------------------------------------------------ */

/** A stretch of bytes with a lifetime. Persistent buffers hold the model states and live always. */
typedef struct zr_buffer {
    zr_category category;
    zr_space space;
    bool persistent;
    int32_t unit;     /* -1: none */
    const char *what; /* "parameters", "gradient", "h.0 attention" ... constant or the graph's */
    int64_t bytes;
    int64_t offset;                /* in its space */
    int32_t first_step, last_step; /* first and last position in the schedule at which it is alive */
} zr_buffer;

/** Steps of one stream run in order. */
#define ZR_STREAM_LIST(X)                                                                                              \
    X(COMPUTE, "compute")                                                                                              \
    X(COMM, "comm") /* calls between ranks, and what prepares them */                                                  \
    X(COPY, "copy") /* between spaces */                                                                               \
    X(SAVE, "save") /* out to files; a schedule's end does not wait for it */

typedef enum zr_stream {
#define ZR_STREAM_ENUM(name, text) ZR_STREAM_##name,
    ZR_STREAM_LIST(ZR_STREAM_ENUM)
#undef ZR_STREAM_ENUM
        ZR_STREAMS
} zr_stream;

ZR_API const char *zr_stream_name(zr_stream stream);

/** Queue of each stream. Streams with the same number share a queue: their steps run in turn, in the order of the list.
 *  A queue has the number of its first stream; 0: the stream shares the queue of COMPUTE. */
typedef struct zr_queues {
    int8_t of[ZR_STREAMS];
} zr_queues;

/** Return whether a stream has another queue than COMPUTE. */
static inline bool zr_queues_apart(const zr_queues *queues, zr_stream stream)
{
    return queues->of[stream] != queues->of[ZR_STREAM_COMPUTE];
}

/** Kinds of steps: the action, and the uses in their order. "Mine": this rank's range. "Each": a range for every rank
 *  of the step's group. */
#define ZR_STEP_LIST(X)                                                                                                \
    X(BATCH, "batch")                   /* the caller fills a micro-batch: for each input of the graph its place, and  \
                                           the memory of the host that the caller is given; loss. The step's range:    \
                                           rows of the global batch, in the first round; the next round takes those    \
                                           that follow the group's */                                                  \
    X(RUN, "run")                       /* op of the graph; uses: its inputs, outputs, scratch, in order */            \
    X(ZERO, "zero")                     /* clear a range that no op writes: of a unit's gradient, behind a value */    \
    X(CAST, "cast")                     /* from the master (mine) into the whole unit (mine) */                        \
    X(COPY, "copy")                     /* bytes from one buffer to another, in most cases of another space */         \
    X(GATHER, "gather")                 /* all-gather of parameters: mine, each, staging */                            \
    X(BROADCAST, "broadcast")           /* the same from one owner */                                                  \
    X(GATHER_GRAD, "gather_grad")       /* all-gather of sums: mine, each, staging */                                  \
    X(REDUCE_SCATTER, "reduce_scatter") /* each rank's piece of mine is summed in a tree: each, [staging], sums        \
                                           (mine), [the accumulators above]. With one rank the one piece is the sum.   \
                                           nccl: first NCCL sums it into my piece of "each" */                         \
    X(REDUCE, "reduce")                 /* the same to one owner; elsewhere nothing is summed */                       \
    X(LOSS, "loss")                     /* losses of this micro-batch; adds to the loss of this rank */                \
    X(REPEAT, "repeat")                 /* the following steps, to END, run `rounds` times */                          \
    X(END, "end")                                                                                                      \
    X(SQUARE_MICRO, "square_micro") /* the gradient of this rank's micro-batch, whole, before it is reduced; its       \
                                       squares: a sum that begins in the first round */                                \
    X(SQUARE, "square")             /* sums (mine); writes the sum of their squares */                                 \
    X(AGREE, "agree")   /* loss, numbers of all ranks, the unit's verdict, its square: is its gradient finite on all   \
                           ranks? If not the run ends */                                                               \
    X(NORM, "norm")     /* loss, numbers of all ranks, the verdict, the square of each unit, [of its micro-gradients]: \
                           all ranks agree on norm and health of the gradient, the loss, what gradients are multiplied \
                           with */                                                                                     \
    X(SAVE, "save")     /* a state of a unit (mine) goes out; [memory of the host through which it does, where it      \
                           stands elsewhere] */                                                                        \
    X(UPDATE, "update") /* optimizer on a range of a unit, but on what has no gradient: sums (mine), master (mine) or  \
                           none, each state (mine), parameters (mine) or none, what was agreed on */

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
    ZR_MOVE_GATHER,    /* each rank gets the pieces of all */
    ZR_MOVE_REDUCE,    /* each rank gets the sum of everyone's pieces of its part */
    ZR_MOVE_BROADCAST, /* all ranks get the piece of one, the step's owner */
    ZR_MOVE_COLLECT,   /* the owner gets the sum of everyone's pieces */
    ZR_MOVE_SCALARS    /* all ranks get a few numbers of each */
} zr_move;

/** Traits of a kind of step, for everyone who asks which kinds move bytes; only the proof of a plan has its own list.
 */
typedef struct zr_step_traits {
    zr_move move;
    int pieces;              /* index of the use whose range and type cross the wire; of moves other than SCALARS */
    zr_traffic_kind traffic; /* traffic that a move is counted as */
} zr_step_traits;

ZR_API zr_step_traits zr_step_traits_of(zr_step_kind kind);

/** Distance in elements from one rank of a group to the next. */
typedef struct zr_stride {
    int64_t elems;
    int32_t group;
} zr_stride;

/** `count` elements from `first` + by.elems * (this rank's place in by.group) + outer.elems * (its place in
 * outer.group). Ranks differ in nothing else. */
typedef struct zr_range {
    int64_t first, count;
    zr_stride by, outer;
} zr_range;

/** Elements of a buffer that a step uses. */
typedef struct zr_use {
    int32_t buffer; /* ZR_NONE: the optional operand is absent */
    zr_dtype dtype : 8;
    bool reads : 1, writes : 1;
    bool each : 1;  /* the ranges of all ranks along range.by, not this rank's alone */
    zr_range range; /* in elements of dtype; count 0: the whole buffer, untyped */
} zr_use;

/** Rounds of REPEAT in which a step runs. */
typedef enum zr_when {
    ZR_WHEN_ALWAYS,
    ZR_WHEN_STALE, /* the first, unless `flush` has run: gathers of parameters that the training step before has updated
                      (stages 1, 2). Its bytes count for that training step */
    ZR_WHEN_FIRST,
    ZR_WHEN_LATER, /* all but the first */
    ZR_WHEN_SAVE   /* the first, in a training step behind which states are saved */
} zr_when;

/** Return whether a step runs in a round of REPEAT, the first being 0. stale: no flush has gathered the parameters that
 *  the training step before has updated. saves: states are saved during this training step. */
static inline bool zr_when_runs(zr_when when, int64_t round, bool stale, bool saves)
{
    if (when == ZR_WHEN_ALWAYS) return true;
    if (when == ZR_WHEN_LATER) return round > 0;
    return round == 0 && (when == ZR_WHEN_FIRST || (when == ZR_WHEN_STALE ? stale : saves));
}
/** Return whether a step runs only in training steps for which the caller asks for it. In other training steps nothing
 *  may depend on its order. */
static inline bool zr_when_asked(zr_when when)
{
    return when == ZR_WHEN_SAVE;
}
/** Return in how many of a training step's rounds a step runs. */
static inline int64_t zr_when_rounds(zr_when when, int64_t rounds, bool stale, bool saves)
{
    return zr_when_runs(when, 0, stale, saves) + (rounds - 1) * zr_when_runs(when, 1, stale, saves);
}

/** One step. */
typedef struct zr_step {
    zr_step_kind kind : 8;
    zr_stream stream : 8;
    zr_when when : 8;
    bool replay; /* RUN: recomputed in the backward pass, by the policy or because it is cheap */
    bool adds;   /* REDUCE_SCATTER, REDUCE, SQUARE_MICRO: from the second round on, add to the sums that are there */
    bool rank_free_sums; /* reductions, SQUARE, SQUARE_MICRO, NORM: sums that do not depend on the number of ranks */
    bool nccl;           /* REDUCE_SCATTER: NCCL adds */
    bool restores;       /* GATHER: of an activation checkpoint that tensor-parallel ranks keep in pieces */
    int32_t group;       /* ranks that take part */
    int32_t unit;
    int32_t op;     /* op of a RUN, of a GATHER or REDUCE_SCATTER written for an op (zr_op_def.join), or that made a
                       gathered checkpoint; else -1 */
    int32_t owner;  /* REDUCE, BROADCAST: the owner's place in the group; else -1 */
    int32_t slot;   /* SAVE: index of the optimizer's state; -1: the parameters */
    int64_t rounds; /* rounds of REPEAT; micro-batches that a reduction adds up; micro-gradients of all ranks whose
                       squares NORM gets, 0: none */
    zr_range range; /* range of the unit (ZERO, CAST, moves, SQUARE, SQUARE_MICRO, UPDATE, SAVE, copies of a state) or
                       of rows (BATCH) */
    int64_t bucket_elems;   /* moves of a unit: elements of the range that one exchange moves, the last maybe fewer;
                               0: all at once */
    int32_t uses, n_uses;   /* in the schedule's use list */
    int32_t waits, n_waits; /* in the schedule's wait list */
} zr_step;

/** Return how many exchanges a move makes, one for each bucket of its range; 1 of any other step. */
static inline int64_t zr_step_buckets(const zr_step *step)
{
    return step->bucket_elems > 0 ? (step->range.count + step->bucket_elems - 1) / step->bucket_elems : 1;
}

/** A wait for a step of another stream, which must have ended in this round of REPEAT or in the one before. */
typedef struct zr_wait {
    int32_t step;
    bool before; /* the step of the round before; in the first round nothing is awaited */
    bool pace;   /* no use asks for the wait: it keeps memory from being taken too early */
} zr_wait;

/** A list of steps with their uses and waits. Steps of one stream run in order. */
typedef struct zr_schedule {
    zr_step *step;
    int32_t n_steps;
    zr_use *use;
    int32_t n_uses;
    zr_wait *wait;
    int32_t n_waits;
    zr_buffer *buffer; /* the plan's persistent buffers, then this schedule's transient ones */
    int32_t n_buffers; /* of both */
    zr_use *value;     /* graph value -> where it was written last; buffer ZR_NONE: parameters, which a step's uses
                          name */
} zr_schedule;

/** Elements of a unit that a rank keeps in a persistent buffer, one after the other. */
typedef struct zr_state {
    int32_t buffer; /* ZR_NONE: it is not kept */
    zr_dtype dtype;
    zr_range range; /* of the unit */
} zr_state;

/** States of a unit on a rank. */
typedef struct zr_plan_unit {
    int64_t elems;        /* parameters */
    int64_t padded_elems; /* multiple of N * ZR_SHARD_ALIGN */
    int64_t shard_elems;  /* padded / N */
    zr_range own;         /* shard whose gradients this rank sums */
    zr_range
        update;    /* part that this rank updates: its shard, at stage 0 all; of a frozen unit the part that it keeps */
    bool trains;   /* an update changes it; of a frozen unit only parameters are kept */
    bool gathered; /* at stage 3: whole only around its uses */
    zr_recompute recompute; /* NONE, UNIT or SELECTIVE */
    zr_state param;         /* parameters; ZR_NONE where they are cast from the master */
    zr_state hpz_shard;     /* hpZ's second copy of the parameters, valid from a training step's first gather on */
    zr_state grad;          /* gradient of a micro-batch, in the wire type; ZR_NONE where it lives in a schedule */
    zr_state sums;          /* gradient of a training step, which the update reads: fp32 accumulators, or grad */
    zr_state master;        /* fp32 master parameters of 16-bit runs; none of a frozen unit */
    zr_state slot[4];       /* fp32 states of the optimizer */
    int32_t open_sums;      /* first of n_open_sums buffers, accumulators of the own shard for rank_free_sums */
    int32_t n_open_sums;
    int32_t saved;        /* ZR_SAVE_COPY: first of the buffers for the own shard's parameters and states */
    int32_t square;       /* buffer of a zr_square, ZR_NONE without training */
    int32_t micro_square; /* buffer of the zr_square of micro-gradients, ZR_NONE without zr_layout.micro_squares */
    int32_t verdict;      /* buffer of the zr_verdict by which it is updated */
} zr_plan_unit;

/** Result that steers an update. Lies, as a zr_square does, in a buffer of the host's space. */
typedef struct zr_verdict {
    double grad_norm, loss;
    double micro_square; /* zr_step_result.micro_square */
    float grad_scale;    /* factor of gradients in an update */
    int32_t bad_param;   /* first parameter with a gradient that is not finite on any rank, -1 */
    bool skipped;        /* nothing may be updated */
} zr_verdict;

typedef enum zr_schedule_kind {
    ZR_SCHEDULE_TRAIN,
    ZR_SCHEDULE_EVAL,
    ZR_SCHEDULE_DECODE,
    ZR_SCHEDULE_FLUSH,
    ZR_SCHEDULES
} zr_schedule_kind;

/** Bytes of one rank in one space. */
typedef struct zr_space_memory {
    int64_t category_bytes[ZR_CATEGORIES]; /* each its own high-water mark */
    int64_t total_bytes;
} zr_space_memory;

/** Bytes of one rank. */
typedef struct zr_memory {
    zr_space_memory space[ZR_SPACES];
    int64_t category_bytes[ZR_CATEGORIES]; /* high-water marks of device and staging memory together */
    int64_t states_bytes;                  /* parameters, gradients, optimizer that stay; padding included */
    int64_t total_bytes;                   /* device and staging memory together */
} zr_memory;

/** Return the bytes of a rank that grow with model and batch where the device's memory is the host's: the total, and
 * checkpoints and copies in the host's space. */
ZR_API int64_t zr_memory_taken(const zr_memory *memory);

/** Borders that bytes cross on their way from another rank. */
typedef enum zr_border {
    ZR_BORDER_GROUP, /* between groups of mics_shard_size or zero_hpz_partition_size data-parallel ranks, each with all
                        ranks that share its layers */
    ZR_BORDER_HOST,
    ZR_BORDER_TENSOR, /* between tensor-parallel ranks, for tensor parallelism; ZeRO's own steps do not count */
    ZR_BORDERS
} zr_border;

typedef struct zr_plan {
    zr_layout layout;
    zr_profile profile;
    zr_axis axis[ZR_AXES_MAX];
    int32_t n_axes;
    zr_group group[ZR_GROUPS_MAX];
    int32_t n_groups;
    int32_t optim_group, grad_group,
        param_group;         /* the ZeRO stage: groups of ranks that share one copy of each; SELF: not sharded */
    int64_t recompute_every; /* the layout's, or what ZR_RECOMPUTE_AUTO chose */
    bool partition_checkpoints, offload_checkpoints; /* likewise */
    zr_save save;                                    /* the layout's, or what ZR_SAVE_AUTO chose */
    int ranks;                                       /* N * M */
    bool side_by_side;                               /* streams may run at the same time */
    bool norm_first;                                 /* the whole gradient's norm is known before the first update */
    double losses;                                   /* losses of a training step, over all ranks */
    int64_t decode_len;                              /* tokens of the cache; 0: it does not decode */
    zr_optimizer optimizer;                          /* name NULL: it does not train */
    bool consume_grad; /* lean: a unit's gradient dies in its update, at the end of the unit's backward */
    bool two_levels;   /* gradients are summed first over the group LOCAL, then over ACROSS */
    bool sum_f32;      /* gradients are summed into fp32 accumulators, which the update reads */
    bool reduce_once;  /* accumulators are of whole units, and summed over ranks behind the last micro-batch */
    zr_graph *graph[ZR_SCHEDULES]; /* FLUSH has none; NULL when not asked for */
    zr_schedule schedule[ZR_SCHEDULES];
    zr_plan_unit *unit;
    int32_t n_units;
    int64_t params;        /* Psi */
    int64_t trained;       /* parameters that train, among Psi */
    int64_t padding_elems; /* over all units */
    zr_buffer *persistent; /* model states, caches, results; first in every schedule's list */
    int32_t n_persistent;
    int64_t persistent_room;
    bool moves;                     /* units go between ranks */
    int32_t staging[ZR_GROUPS_MAX]; /* persistent buffer of each group's staging memory; ZR_NONE: no staging memory */
    int32_t loss, verdict, numbers, output; /* buffers of results: this rank's loss (zr_exact), a zr_verdict, numbers
                                               that ranks exchange, output of decoding; ZR_NONE: absent */
    bool has_stream[ZR_STREAMS];            /* streams that have steps; always true of compute and comm */
    int32_t passing;                        /* host memory by which states are filled and read */
    int32_t saving;                         /* host memory by which states are saved in place; ZR_NONE: none are */
    int64_t persistent_bytes[ZR_SPACES];    /* transient buffers lie above */
    int64_t space_bytes[ZR_SPACES];         /* DEVICE: the arena; STAGING: at least ZR_STAGING_LEAST for each rank */
    zr_memory memory;
    zr_traffic traffic;            /* traffic of one training step, its flush included */
    zr_traffic across[ZR_BORDERS]; /* traffic from beyond each border, of the rank that has most of it */
    double flops_model;            /* FLOPs of a training step, all ranks */
    double flops_hardware;
} zr_plan;

/** Return whether layers run on several ranks each (tensor parallelism). */
static inline bool zr_plan_shares_layers(const zr_plan *plan)
{
    return plan->layout.tensor > 1;
}

/** Plan. ZR_ERR_CONFIG when the layout is impossible, ZR_ERR_UNSUPPORTED when it is not built.
 *  `model` is not kept. Not collective; the same on every rank by construction. */
ZR_API ZR_NODISCARD zr_status zr_plan_create(const zr_model *model, const zr_layout *layout, const zr_profile *profile,
                                             zr_plan **plan);
ZR_API void zr_plan_destroy(zr_plan **plan);

/** Prove a plan independently of the planner: no two buffers share bytes unless every use of one happens before the
 *  first write of the other in the graph of stream order and waits; every byte that is read on any rank has been
 *  written before, in a step that follows a flush and in one that does not, and every value is still in its place when
 *  it is read; every buffer lies in its space and all bytes between ranks go through staging memory; every unit is
 *  updated, only after all ranks have agreed on its gradient, and afterwards not read from its home; squares of
 *  micro-gradients are taken of whole gradients that no reduction has changed; a save writes all of each state, before
 *  it is updated. Takes about as long as planning: for tests and debug builds. ZR_ERR_INTERNAL naming the steps and
 *  buffers. */
ZR_API ZR_NODISCARD zr_status zr_plan_check(const zr_plan *plan);

/** Cost of one step of a schedule on a rank: an op's own cost; a move's bytes from other ranks (of one owner's steps,
 * where they arrive); bytes of memory that any other step reads and writes. REPEAT and END cost nothing. */
typedef struct zr_step_cost {
    double flops;
    zr_product_sizes product; /* zeros: the FLOPs are no matrix product's */
    double pairs;             /* pairs of attention, as in zr_cost */
    int64_t head;
    double memory_bytes;
    double wire_bytes;
    double calls; /* calls of a move, one for each bucket, which share wire_bytes; 1 of any other step */
} zr_step_cost;

/** Time of one training step by a profile's rates: each step of the schedule takes as long as the slower of its FLOPs
 *  and its bytes, streams run side by side, waits hold. FLOPs of matrix products run at the machine's rate for
 *  their sizes in the type that the op multiplies in, bytes between ranks at the rate of its slowest link. A rate of 0
 * is not known, and costs no time. */
typedef struct zr_price {
    double step_sec;
    double compute_sec; /* busy time of the compute stream */
    double comm_sec;    /* busy time of the comm and copy streams */
    double exposed_sec; /* exposed communication: step_sec - compute_sec */
} zr_price;
ZR_API ZR_NODISCARD zr_status zr_plan_price(const zr_plan *plan, const zr_profile *profile, zr_price *price);

/** Cost of an asynchronous save during a training step, on one rank. */
typedef struct zr_save_price {
    int64_t bytes;    /* bytes that are written out */
    double write_sec; /* time to write them */
    double stall_sec; /* by how much the training step in which it begins is longer */
} zr_save_price;

/** Time at which a step of the schedule runs, by those rates. */
typedef struct zr_step_time {
    double begin_sec, end_sec;
} zr_step_time;
/** Find when each step of training runs; `time` has room for all. Of several micro-batches the first is timed, and the
 *  steps after it as if it were the only one. ZR_ERR_STATE when the plan has no training step. */
ZR_API ZR_NODISCARD zr_status zr_plan_times(const zr_plan *plan, const zr_profile *profile, zr_step_time *time);

/** Find a machine by name, as "h100": rates of data sheets, 16-bit products dense; ZR_ERR_NOT_FOUND with the list. A
 *  GPU has facts.apart. Facts about kernels are not known: one thread, no panels; facts.scratch_bytes is NULL, to be
 *  set to the device's function (zr_device_cuda_scratch, zr_device_cpu_scratch). */
ZR_API ZR_NODISCARD zr_status zr_profile_named(const char *name, zr_profile *profile);
/** Return the names of machines, NULL at the end. */
ZR_API const char *const *zr_profile_names(void);

/** Return `wanted_elems` rounded up to a multiple of ranks * ZR_SHARD_ALIGN: the elements of a bucket. */
ZR_API int64_t zr_plan_bucket_elems(int64_t wanted_elems, int ranks);

#ifdef __cplusplus
}
#endif
#endif
