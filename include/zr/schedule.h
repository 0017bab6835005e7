/**
 * schedule: the list of steps of a training step. Each step names the ranges of buffers that it uses, the group of
 * ranks that takes part, its stream, and the steps for which it waits. Groups of ranks are defined on a grid of ranks.
 */
#ifndef ZR_SCHEDULE_H
#define ZR_SCHEDULE_H

#include "zr/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the grid -------------------------------------------------------------------------------- */

/** Axes of the grid in which ranks are arranged, at most 6, fastest first: neighbours on the first axis have
 * consecutive numbers. `rows` is 1 if ranks along the axis have different rows of the global batch (today LOCAL and
 * ACROSS, whose product is zr_layout.ranks), and 0 if they have the same rows. */
#define ZR_AXIS_LIST(X)                                                                                                \
    X(TENSOR, "tensor", 0) /* tensor-parallel ranks, which share each layer */                                         \
    X(LOCAL, "local", 1)   /* neighbouring data-parallel ranks, for example of one host. If data-parallel ranks are    \
                              not divided in this way, all of them are on this axis */                                 \
    X(ACROSS, "across", 1) /* data-parallel ranks with the same place in their LOCAL groups */                         \
    X(PIPELINE, "pipeline", 0) /* pipeline ranks, which have different stages of the model */

typedef enum zr_axis {
#define ZR_AXIS_ENUM(name, text, rows) ZR_AXIS_##name,
    ZR_AXIS_LIST(ZR_AXIS_ENUM)
#undef ZR_AXIS_ENUM
        ZR_AXES
} zr_axis;

/** Groups of ranks. A group is a set of axes, with the bit 1 << axis for each: its ranks differ only in their
 * coordinates on these axes. The coordinates form a rank's place in its group, with the slowest axis as the most
 * significant. Each axis alone is a group, such as ZR_GROUP_TENSOR. */
enum {
#define ZR_GROUP_ENUM(name, text, rows) ZR_GROUP_##name = 1 << ZR_AXIS_##name,
    ZR_AXIS_LIST(ZR_GROUP_ENUM)
#undef ZR_GROUP_ENUM
#define ZR_GROUP_ROWS(name, text, rows) +((rows) << ZR_AXIS_##name)
        ZR_GROUP_DATA = 0 ZR_AXIS_LIST(ZR_GROUP_ROWS), /* ranks with different rows of the global batch */
#undef ZR_GROUP_ROWS
    ZR_GROUP_SELF = 0, /* a rank alone */
    ZR_GROUPS = 1 << ZR_AXES,
    ZR_GROUP_ALL = ZR_GROUPS - 1
};

/** Facts about a group in the grid of a plan. */
typedef struct zr_group {
    int32_t size; /* number of ranks in the group */
    int32_t same; /* group of the same ranks, without the axes along which there is only one rank */
    /* whether the group's ranks exchange anything, according to the layout; always false if `same` is another group */
    bool exchanges;
} zr_group;

/* ---- buffers and streams --------------------------------------------------------------------- */

/** Buffer: a range of bytes of a memory space, with a lifetime. Persistent buffers, such as the buffers of model
 * states, are always alive. */
typedef struct zr_buffer {
    zr_category category;
    zr_space space;
    bool persistent;
    int32_t unit; /* index of the buffer's unit, or -1 */
    /* contents, such as "parameters", "gradient" or "h.0 attention"; a constant string, or a string of the graph */
    const char *what;
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
    X(RETURN, "return") /* copies of the results of HOST to the device */                                              \
    X(SEND, "send")     /* values that pass to other pipeline ranks */                                                 \
    X(RECV, "recv")     /* values that come from other pipeline ranks */

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

/* ---- steps ----------------------------------------------------------------------------------- */

/** Kinds of steps of a schedule, each with its action. "Uses" lists the buffers that a step uses (zr_step.uses), in
 * order. "mine" means this rank's range of a buffer. "each" means the ranges of all ranks of the step's group. Brackets
 * mark optional uses. */
#define ZR_STEP_LIST(X)                                                                                                \
    X(BATCH, "batch") /* let the caller fill a micro-batch. Uses: for each graph input, the input and the host memory  \
                         that the caller fills; then the loss. The step's range is the rows of the first micro-batch   \
                         in the global batch. For later micro-batches, add the rows of all ranks of the group */       \
    X(RUN, "run")     /* run an op of the graph. Uses: inputs, outputs, [scratch], [the sums of COUNT] */              \
    X(ZERO, "zero")   /* write zeros to a range that no op writes, for example a part of a unit's gradient or the      \
                         padding after a value */                                                                      \
    X(CAST, "cast")   /* cast elements of a unit to another type: parameters from the fp32 master or from records,     \
                         gradients to records. Uses: the elements, the elements in the other type, [parameters that    \
                         are subtracted before records are made, or to which records are added; or the errors of       \
                         gradients, which are added and renewed: zr_plan_unit.error] */                                \
    X(COPY, "copy")   /* copy bytes between buffers, usually of different spaces */                                    \
    X(GATHER, "gather")           /* all-gather parameters. Uses: own range (mine), all ranges (each), staging */      \
    X(GATHER_GRAD, "gather_grad") /* all-gather sums of gradients. Uses: as in GATHER */                               \
    X(REDUCE_SCATTER, "reduce_scatter") /* sum the pieces of all ranks for this rank's range, in a binary tree.        \
                                           Uses: each, [staging], sums (mine), [further accumulators:                  \
                                           zr_plan_unit.open_sums]. With one rank its piece is the sum. With           \
                                           `nccl`, NCCL first sums the pieces into this rank's piece of "each" */      \
    X(COUNT, "count") /* with several loss terms, before the first backward op: for each term, sum over the            \
                         data-parallel ranks the number of the step's losses that count. Uses: numbers of all ranks,   \
                         their sums, which the ops that set the gradients of losses read */                            \
    X(LOSS, "loss")   /* add a term's losses of this micro-batch to the loss of this rank. Uses: the losses, the loss  \
                         of each term */                                                                               \
    X(REPEAT, "repeat") /* run the following steps, up to END, `rounds` times */                                       \
    X(END, "end")                                                                                                      \
    X(SQUARE_MICRO, "square_micro") /* add the squares of a micro-batch's gradient to a sum; the first round           \
                                       sets the sum. Uses: the whole gradient of this rank's micro-batch               \
                                       before its reduction, the sum */                                                \
    X(SQUARE, "square") /* write the sum of squares of a gradient. Uses: sums (mine), the sum of squares */            \
    X(AGREE, "agree")   /* end the run unless a unit's gradient is finite on all ranks. Uses: the loss,                \
                           numbers of all ranks, the unit's verdict, the unit's sum of squares, [the sums of COUNT] */ \
    X(NORM, "norm")     /* agree on the gradient norm, the loss and the factor for gradients. Also agree whether the   \
                           gradient is finite. Uses: the loss, numbers of all ranks, the verdict, each unit's sum of   \
                           squares, [each unit's sum of squares of the gradients of micro-batches], [the sums of       \
                           COUNT] */                                                                                   \
    X(SQUARE_UPDATE, "square_update") /* write sums of squares of each parameter of a unit, and of the optimizer's     \
                                         direction for it (zr_optimizer.trust). Uses: sums (mine), master (mine) or    \
                                         none, each optimizer state (mine), parameters (mine) if there is no master,   \
                                         otherwise none, the verdict, the sums of squares (zr_trust) */                \
    X(DIRECTION, "direction") /* update the momentum of hidden matrices, and write their directions (zr_muon), or      \
                                 zeros if the training step is skipped. Uses: sums (mine), each optimizer state        \
                                 (mine), the verdict, the directions (mine) */                                         \
    X(GATHER_DIRECTION, "gather_direction") /* all-gather directions, before or after ORTHO. Uses: as in GATHER */     \
    X(ORTHO, "ortho") /* make the directions of this rank's hidden matrices orthogonal, and set all other directions   \
                         to zero. Uses: the directions of the whole unit, scratch, the verdict */                      \
    X(SCATTER_DIRECTION, "scatter_direction") /* sum the results of ORTHO over the ranks for this rank's range. They   \
                                                 are zero except on the owner of a matrix. Uses: each, [staging],      \
                                                 directions (mine) */                                                  \
    X(SEND, "send") /* begin to pass a value to another role, without waiting. The messages of a value between two     \
                       roles have the order of the micro-batches. Uses: the value, or the part of a unit that this     \
                       rank has updated, which is passed once a step */                                                \
    X(SENT, "sent") /* wait until a value that SEND has begun to pass may change. Uses: the value */                   \
    X(RECV, "recv") /* begin to receive a value, without waiting. Uses: the value's buffer */                          \
    X(RECEIVED, "received") /* wait until a value has come. Uses: the value's buffer */                                \
    X(TRUST, "trust") /* add the sums of squares of all ranks, and write the norms. Uses: numbers of all ranks, then   \
                         for each unit its sums of squares and its norms (zr_norms) */                                 \
    X(SAVE, "save") /* save a state of a unit. Uses: the state (mine), [host memory through which the state passes, if \
                       it is not stored in host memory] */                                                             \
    X(UPDATE, "update") /* update a range of a unit, except parameters without gradient. Uses: sums (mine), master     \
                           (mine) or none, each optimizer state (mine), parameters (mine) or none, the verdict,        \
                           [the norms, with trust ratios]. Hidden matrices are updated by their directions (mine) in   \
                           place of sums, and without optimizer states */

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
    ZR_MOVE_GATHER,  /* all-gather: each rank receives the pieces of all ranks */
    ZR_MOVE_REDUCE,  /* reduce-scatter: each rank receives its part of the sum over all ranks */
    ZR_MOVE_SCALARS, /* all-gather of a few numbers from each rank */
    ZR_MOVE_RECEIVE  /* no collective: a value comes from another role */
} zr_move;

/** Properties of a kind of step. All code that treats kinds of steps differently reads these properties; only the proof
 * of a plan has its own list. */
typedef struct zr_step_traits {
    zr_move move;
    /* index of the use, among the step's uses, that has the range and type of the communicated data; not for SCALARS */
    int pieces;
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

/** Rounds in which a step runs. A round is one iteration of REPEAT, that is, one micro-batch. In an order in which
 * micro-batches mix (ZR_ACCUM_LAYER, ZR_ACCUM_AHEAD) a training step is one round of all micro-batches. */
typedef enum zr_when {
    ZR_WHEN_ALWAYS,
    /* in the first round, if the parameters that the previous training step updated are not yet gathered (stages 1, 2)
     * or passed to other roles (zr_plan_unit.copied). Their bytes count as traffic of the previous step */
    ZR_WHEN_STALE,
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
/** Return whether a step of the schedule runs only in training steps for which the caller requests it. The step is
 * missing in other training steps, so no other step may depend on its order. */
static inline bool zr_when_asked(zr_when when)
{
    return when == ZR_WHEN_SAVE;
}
/** Return the number of a training step's `rounds` rounds in which a step of the schedule runs. */
static inline int64_t zr_when_rounds(zr_when when, int64_t rounds, bool stale, bool saves)
{
    return zr_when_runs(when, 0, stale, saves) + (rounds - 1) * zr_when_runs(when, 1, stale, saves);
}

/** Numbers (zr_step.slot) of a unit's states that are saved behind the states of the optimizer: the parameters that
 * ops read (zr_layout.weight_differences), and the first error of gradients (zr_layout.error_steps). */
enum { ZR_SLOT_SENT = ZR_OPTIMIZER_SLOTS, ZR_SLOT_ERROR };

/** Step of a schedule. */
typedef struct zr_step {
    zr_step_kind kind : 8;
    zr_stream stream : 8;
    zr_when when : 8;
    /* for RUN: whether the op runs again in the backward pass, because of the recompute policy or because the op is
     * cheap */
    bool replay;
    /* for REDUCE_SCATTER and SQUARE_MICRO: whether later rounds add to the sums of the first round */
    bool adds;
    /* for reductions, SQUARE, SQUARE_MICRO, SQUARE_UPDATE and TRUST: whether the bits of sums are independent of the
     * number of ranks */
    bool rank_free_sums;
    bool nccl; /* for REDUCE_SCATTER: whether NCCL adds */
    /* for GATHER: whether it restores an activation checkpoint that tensor-parallel ranks store in pieces */
    bool restores;
    int32_t group; /* group of ranks that take part in the step */
    int32_t unit;
    /* index of the op that a RUN runs, that a collective replaces (zr_op_def.join), or that computed a gathered
     * checkpoint; otherwise -1 */
    int32_t op;
    /* for SAVE: index of the saved optimizer state; -1 if the step saves parameters, ZR_SLOT_SENT if it saves those
     * that ops read, ZR_SLOT_ERROR plus the level if it saves errors of gradients */
    int32_t slot;
    int32_t term;  /* for LOSS: index of the loss term; otherwise 0 */
    int32_t micro; /* index of the step's micro-batch within the round; 0 if a round is one micro-batch */
    /* for SEND, SENT, RECV and RECEIVED: the value of the graph, or the first parameter of the unit of which a part is
     * passed; otherwise ZR_NONE */
    int32_t value;
    int32_t peer;    /* for SEND, SENT, RECV and RECEIVED: the role at the other end; otherwise -1 */
    int32_t channel; /* for SEND, SENT, RECV and RECEIVED: number of the channel in the schedule; otherwise -1 */
    /* in a pipeline, the step's cell: its stage, and 'F' for the forward pass, 'B' for the backward pass, or 'I' and
     * 'W' for the parts of a backward pass that is split. The look-up of a tied table that runs beside the head has the
     * number of all stages. `action` is 0 for steps that belong to no cell */
    int32_t stage;
    char action;
    /* for REPEAT: number of rounds. For SEND and RECV: the channel's depth, the number of messages that may be on
     * their way at the same time. If the depth is d, SENT of message n precedes SEND of message n + d. For a reduction:
     * number of micro-batches that it sums. For NORM: number of micro-batches on all ranks together, if it averages the
     * square norms of their gradients; otherwise 0 */
    int64_t rounds;
    /* for ZERO, CAST, moves, SQUARE, SQUARE_MICRO, SQUARE_UPDATE, UPDATE, SAVE and copies of a state: range of the
     * unit. For BATCH: range of rows */
    zr_range range;
    /* for moves of a unit: bucket size, the elements of the range that one exchange moves; 0 to move the whole range at
     * once */
    int64_t bucket_elems;
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
    /* whether the wait is a throttle (pace): no data dependency needs it, but it delays the step so that fewer buffers
     * are in memory at the same time */
    bool pace;
} zr_wait;

/** List of steps with their uses and waits. Steps of one stream run in order. */
typedef struct zr_schedule {
    zr_step *step;
    int32_t n_steps;
    zr_use *use;
    int32_t n_uses;
    zr_wait *wait;
    int32_t n_waits;
    int32_t n_channels; /* number of channels to other roles; a channel carries one value in one direction */
    zr_buffer *buffer;  /* persistent buffers of the plan, followed by transient buffers of this schedule */
    int32_t n_buffers;  /* number of buffers, persistent and transient */
    /* for each graph value, the last use that writes it. For a parameter, the use's buffer is ZR_NONE; see the uses of
     * the steps that read the parameter */
    zr_use *value;
} zr_schedule;

typedef enum zr_schedule_kind {
    ZR_SCHEDULE_TRAIN,
    ZR_SCHEDULE_EVAL,
    ZR_SCHEDULE_DECODE,
    ZR_SCHEDULE_FLUSH, /* brings parameters up to date after an update */
    ZR_SCHEDULE_FILL,  /* with zr_layout.weight_differences, does so after zr_engine_fill, without a rounding */
    ZR_SCHEDULES
} zr_schedule_kind;

/* ---- values that ranks exchange --------------------------------------------------------------- */

/** Counts of the values that each rank passes to the steps NORM and AGREE. NORM gets two exact sums, of the gradient's
 * squares and of the losses, then the first parameter with a bad gradient, and the number of losses that count. AGREE
 * gets three: the first parameter with a bad gradient, whether the loss is bad, and the number of losses that count.
 * (COUNT gets one number for each loss term.) */
#define ZR_NORM_SCALARS (2 * ZR_EXACT_LIMBS + 2)
#define ZR_AGREE_SCALARS 3
/** Return the number of values that each rank passes to the step NORM in a plan with `terms` loss terms. With `micro`,
 * ZR_NORM_SCALARS values are followed by an exact sum of the squares of micro-batches' gradients. The exact sums of the
 * losses of further terms come last. */
static inline int zr_norm_scalars(bool micro, int terms)
{
    return ZR_NORM_SCALARS + (micro + terms - 1) * ZR_EXACT_LIMBS;
}

/** Maximum number of values that each rank passes to one call of the step TRUST. With more values the step makes
 * several calls. */
#define ZR_TRUST_CALL 48
/** Return the number of values that each rank passes to TRUST for each parameter: two sums of squares, which are
 * doubles, or exact sums with rank_free_sums. TRUST adds the doubles of all ranks exactly. */
static inline int zr_trust_scalars(bool rank_free_sums)
{
    return rank_free_sums ? 2 * ZR_EXACT_LIMBS : 2;
}

/** Minimum bytes of staging memory per rank. Pieces pass through staging memory in chunks, which alternate between two
 * halves. Each half needs at least 64 bytes, so that an element always fits. */
#define ZR_STAGING_LEAST 128

#ifdef __cplusplus
}
#endif
#endif
