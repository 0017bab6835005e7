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

/** Shards and buckets are cut at multiples of so many elements a rank, in every dtype. */
#define ZR_SHARD_ALIGN 32

/** Which model states stay between their uses. Both give the same bits. */
typedef enum zr_states {
    ZR_STATES_PAPER, /* 16-bit parameters and gradients, and the optimizer's fp32: 2 + 2 + K bytes a parameter */
    ZR_STATES_LEAN   /* what exact Adam needs: at stage 3 parameters are cast from the fp32 master while they are
                        gathered; with one micro-batch a step and no need of the whole gradient's norm beforehand,
                        a unit's gradient is used up as it is reduced. 12 bytes a parameter, shared by all ranks */
} zr_states;

/** Which activations are computed again in the backward pass instead of being kept (Chen et al. 2016). With every
 * policy the outputs of cheap ops are (zr_op_def.cheap: norms, GELU), where their operands are kept anyway and their
 * own unit alone reads them: one more pass over memory and no FLOPs. */
typedef enum zr_recompute {
    ZR_RECOMPUTE_NONE,      /* no product and no attention runs again */
    ZR_RECOMPUTE_UNIT,      /* of each `recompute_every` units in a row the input of the first is kept */
    ZR_RECOMPUTE_SELECTIVE, /* attention, and what is wider than the unit's input (Korthikanti et al. 2022) */
    ZR_RECOMPUTE_AUTO,      /* unit by unit, the mix of the least work whose total is at most limit_bytes; when none is,
                               the smallest. Where ranks share layers and all have all tokens, mixes whose checkpoints
                               are kept in pieces, on the device and on the host, are tried as well, unless the layout
                               asks for one of these: of these the best by zr_plan_better, of equals whole ones */
    ZR_RECOMPUTE_PAPER      /* as UNIT, each unit by itself, and all of it runs again, also what nothing needs: its last
                               product. So the papers count (ZeRO section 7, Megatron-LM) */
} zr_recompute;

/** What ranks that share layers have between these (Korthikanti et al. 2022). */
typedef enum zr_sequence {
    ZR_SEQUENCE_OFF,     /* all tokens */
    ZR_SEQUENCE_KEEP,    /* each its own: norms, dropout and residuals run once over all of them. What is gathered
                            before a product is kept for its gradient where nothing is computed again */
    ZR_SEQUENCE_REGATHER /* likewise, but gathered again in the backward pass */
} zr_sequence;

/** How gradients are reduced and parameters gathered. All sums but NCCL's are the same; the first of each is ZeRO's. */
typedef enum zr_reduce {
    ZR_REDUCE_TO_SHARDS,  /* each rank receives its shard */
    ZR_REDUCE_ALL_REDUCE, /* stage 1 as it was first built: all receive all sums, 1.5 times the volume */
    ZR_REDUCE_TO_OWNER,   /* one reduction for each owner, in turn */
    ZR_REDUCE_NCCL /* to shards by NCCL's reduce-scatter, a whole unit in one: it adds in the wire's type and in an
                      order of its own. Processes on GPUs */
} zr_reduce;
typedef enum zr_gather {
    ZR_GATHER_ALL,      /* one all-gather */
    ZR_GATHER_BROADCAST /* one broadcast from each owner, in turn */
} zr_gather;

/** How the states of a step are saved behind the next one (zr_engine_save). */
typedef enum zr_save {
    ZR_SAVE_NONE,     /* not at all: they are read between steps (zr_engine_read) */
    ZR_SAVE_COPY,     /* the next step first copies them to the host's space, from where they go out behind it and
                         behind later ones */
    ZR_SAVE_IN_PLACE, /* they go out from where they are: the next step's update of a unit waits until its states have
                       */
    ZR_SAVE_AUTO      /* a copy where limit_bytes says that there is room for it, and nothing more is computed; else in
                         place */
} zr_save;

/** How a step is laid out over ranks. Start from ZR_LAYOUT_INIT. */
typedef struct zr_layout {
    size_t size;          /* sizeof(zr_layout) */
    int ranks;            /* N, data-parallel degree */
    int tensor;           /* M, ranks that share each layer, neighbours: there are N * M ranks. With 1, none do */
    zr_sequence sequence; /* with M > 1 */
    int stage;            /* ZeRO stage 0 .. 3 */
    zr_dtype dtype;       /* parameters and activations */
    zr_dtype wire_dtype;  /* gradients on the wire; F32 when dtype is F32 */
    int64_t batch;        /* B, rows of a micro-batch on one rank */
    int64_t seq;          /* T */
    int64_t accum;        /* k, micro-batches of a step */
    int64_t reduce_bucket_elems; /* largest exchange, rounded up to N * ZR_SHARD_ALIGN */
    int64_t gather_bucket_elems; /* largest gather, likewise */
    int shard_ranks;   /* MiCS: states are sharded over so many consecutive data-parallel ranks and replicated across;
                        0: all */
    int hpz_ranks;     /* ZeRO++: a second copy of the parameters, sharded over so many; 0: none. Stage 3 */
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
    bool reduce_once; /* gradients are added up over the micro-batches first, whole and in fp32 on each rank, and over
                         ranks once a step, whatever the stage; with one micro-batch or one rank no difference */
    zr_recompute recompute;
    int64_t recompute_every;
    int64_t limit_bytes; /* of zr_memory_limited, for ZR_RECOMPUTE_AUTO; with a copy, for ZR_SAVE_AUTO, of
                            zr_memory_taken; 0: none */
    /* What recompute keeps of the forward pass (ZeRO section 6.1): in pieces, one of each rank that shares the layer
     * (P_a); in the host's space (P_a+cpu). */
    bool partition_checkpoints, offload_checkpoints;
    zr_save save; /* only with `train` */
    /* Stage 3, in elements. DeepSpeed's thresholds, by units: a unit is gathered, kept and freed as a whole. */
    int64_t prefetch_elems;      /* further units are gathered ahead until so many are on their way; 0: none */
    int64_t live_elems;          /* no unit is gathered ahead beyond so many whole ones; 0: one segment ahead */
    int64_t reuse_elems;         /* a unit stays whole when it is used again within so many elements of others */
    int64_t persist_elems;       /* a unit whose parameters are all smaller than this stays whole */
    int64_t persist_model_elems; /* most elements of units that do; 0: any */
    bool micro_squares;          /* the square norm of each micro-batch's own gradient is taken as well, before the
                                    reduction (zr_step_result.micro_square): of two a step at least */
    bool train;                  /* the schedules train and flush, gradients and optimizer states */
    bool eval;                   /* the schedule eval */
    int64_t decode_len;          /* > 0: the schedule decode, with a cache of so many tokens */
    zr_optimizer optimizer;
} zr_layout;

/** Numbers of a rank that NORM exchanges: squares of the gradient, loss, first parameter with a bad gradient; of
 * rank_free_sums the first two as exact sums. Numbers that AGREE exchanges: that parameter, whether the loss is bad. */
#define ZR_NORM_SCALARS 3
#define ZR_NORM_SCALARS_RANK_FREE (2 * ZR_EXACT_LIMBS + 1)
#define ZR_AGREE_SCALARS 2
/** Those of NORM, with the squares of micro-gradients where these are taken, last and like the first. */
static inline int zr_norm_scalars(bool rank_free_sums, bool micro)
{
    const int more = rank_free_sums ? ZR_EXACT_LIMBS : 1;
    return (rank_free_sums ? ZR_NORM_SCALARS_RANK_FREE : ZR_NORM_SCALARS) + (micro ? more : 0);
}

/** Bytes of the staging memory for each rank, at least: comm moves pieces through it in chunks, in two halves by
 *  turns, each of 64 bytes or more. */
#define ZR_STAGING_LEAST 128

/** Elements, F32, of the host's memory through which states are filled and read. */
#define ZR_PASSING_ELEMS 16384

#define ZR_DEFAULT_BUCKET_ELEMS (16 << 20)
/* By place, in the order of the fields: C++ before C++20 knows no names here. */
#define ZR_LAYOUT_INIT                                                                                                 \
    {                                                                                                                  \
        sizeof(zr_layout), 1, 1, ZR_SEQUENCE_OFF, 0, ZR_F32, ZR_F32, 1, 1, 1, ZR_DEFAULT_BUCKET_ELEMS,                 \
            ZR_DEFAULT_BUCKET_ELEMS, 0, 0, 0, false, false, true, ZR_REDUCE_TO_SHARDS, ZR_GATHER_ALL, ZR_STATES_PAPER, \
            false, false, false, false, ZR_RECOMPUTE_NONE, 1, 0, false, false, ZR_SAVE_NONE, 1, 0, 0, 0, 0, false,     \
            true, true, 0, ZR_OPTIMIZER_INIT                                                                           \
    }

/* ---- the grid -------------------------------------------------------------------------------- */

/** Ranks stand in a grid of named axes; a rank's coordinate on an axis is (rank / step) % size. */
typedef struct zr_axis {
    const char *name; /* "data" */
    int32_t size;
    int32_t step; /* from a rank to the next one on this axis */
} zr_axis;

#define ZR_AXES_MAX 4
/** Ranks that differ in their coordinates on some axes only. A rank's place in its group counts these coordinates, the
 *  first axis slowest. */
typedef struct zr_group {
    const char *name;
    int32_t axis[ZR_AXES_MAX]; /* of zr_plan.axis */
    int32_t n_axes;            /* 0: the rank alone */
    int32_t size;              /* ranks of one such group */
} zr_group;

/** Every plan has the first two. LOCAL and ACROSS are there where the data axis is split: consecutive ranks (of a host,
 *  of a shard group), and those that have the same place among these; TENSOR and ALL where ranks share layers. */
enum {
    ZR_GROUP_SELF,
    ZR_GROUP_DATA,
    ZR_GROUP_LOCAL,
    ZR_GROUP_ACROSS,
    ZR_GROUP_TENSOR, /* ranks that share each layer; all see the same data */
    ZR_GROUP_ALL,
    ZR_GROUPS_MAX = 8
};

/* ---- what a plan is made of ------------------------------------------------------------------ */

/** Where bytes lie. Each space has a map and a total of its own. */
#define ZR_SPACE_LIST(X)                                                                                               \
    X(DEVICE, "device") /* the arena: what ops read and write */                                                       \
    X(HOST, "host")     /* memory of the host: batches, results that steer later steps, what is kept off the device */ \
    X(STAGING, "staging") /* what other ranks see: pieces pass through it */                                           \
    X(DISK, "disk")

typedef enum zr_space {
#define ZR_SPACE_ENUM(name, text) ZR_SPACE_##name,
    ZR_SPACE_LIST(ZR_SPACE_ENUM)
#undef ZR_SPACE_ENUM
        ZR_SPACES
} zr_space;

ZR_API const char *zr_space_name(zr_space space);

/** A stretch of bytes with a lifetime. Persistent buffers hold the model states and live always. */
typedef struct zr_buffer {
    zr_category category;
    zr_space space;
    bool persistent;
    int32_t unit;     /* -1: none */
    const char *what; /* "parameters", "gradient", "h.0 attention" ... constant or the graph's */
    int64_t bytes;
    int64_t offset;                /* in its space */
    int32_t first_step, last_step; /* positions in the schedule that it is alive in */
} zr_buffer;

/** Steps of one stream run in order. */
#define ZR_STREAM_LIST(X)                                                                                              \
    X(COMPUTE, "compute")                                                                                              \
    X(COMM, "comm") /* calls between ranks, and what prepares them */                                                  \
    X(COPY, "copy") /* between spaces */                                                                               \
    X(SAVE, "save") /* out to files; what it has is not awaited at the end of a schedule */

typedef enum zr_stream {
#define ZR_STREAM_ENUM(name, text) ZR_STREAM_##name,
    ZR_STREAM_LIST(ZR_STREAM_ENUM)
#undef ZR_STREAM_ENUM
        ZR_STREAMS
} zr_stream;

ZR_API const char *zr_stream_name(zr_stream stream);

/** What a step does with its uses, in their order. "Mine": this rank's range. "Each": a range for every rank
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
    X(REPEAT, "repeat")                 /* what follows, to END, runs `rounds` times */                                \
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

/** How bytes go between the ranks of a step's group. */
typedef enum zr_move {
    ZR_MOVE_NONE,
    ZR_MOVE_GATHER,    /* each rank gets the pieces of all */
    ZR_MOVE_REDUCE,    /* each rank gets the sum of everyone's pieces of its part */
    ZR_MOVE_BROADCAST, /* all ranks get the piece of one, the step's owner */
    ZR_MOVE_COLLECT,   /* the owner gets the sum of everyone's pieces */
    ZR_MOVE_SCALARS    /* all ranks get a few numbers of each */
} zr_move;

/** What holds for all steps of a kind. Whoever asks which kinds move asks here; the proof of a plan alone has an
 * opinion of its own. */
typedef struct zr_step_traits {
    zr_move move;
    int pieces;              /* of a move but SCALARS: the use whose range and type are what crosses the wire */
    zr_traffic_kind traffic; /* of a move: what it counts as */
} zr_step_traits;

ZR_API zr_step_traits zr_step_traits_of(zr_step_kind kind);

/** From one rank of a group to the next: so many elements further. Packed, since a schedule may have millions of these:
 *  copy elems rather than point to it. */
typedef struct __attribute__((packed, aligned(4))) zr_stride {
    int64_t elems;
    int32_t group;
} zr_stride;

/** `count` elements from `first` + by.elems times this rank's place in by.group, likewise for outer: that is all by
 *  which ranks differ. */
typedef struct zr_range {
    int64_t first, count;
    zr_stride by, outer;
} zr_range;

/** A use of a buffer by a step: these elements of it. */
typedef struct zr_use {
    int32_t buffer; /* ZR_NONE: an optional operand that is absent */
    zr_dtype dtype : 8;
    bool reads : 1, writes : 1;
    bool each : 1;      /* the ranges of all ranks along range.by, not this rank's alone */
    bool in_bucket : 1; /* range.first counts from the step's range.first: buckets of one move share their uses */
    zr_range range;     /* in elements of dtype; count 0: all of the buffer, of no type */
} zr_use;

/** First element of a use by a step of this range, on ranks at place 0. */
static inline int64_t zr_use_first(const zr_use *use, const zr_range *step)
{
    return use->range.first + (use->in_bucket ? step->first : 0);
}

/** In which rounds of REPEAT a step runs. */
typedef enum zr_when {
    ZR_WHEN_ALWAYS,
    ZR_WHEN_STALE, /* the first, and only where `flush` has not done it: gathers of what the step before has updated
                      (stages 1, 2). Its bytes belong to the step that updated */
    ZR_WHEN_FIRST,
    ZR_WHEN_LATER, /* all but the first */
    ZR_WHEN_SAVE   /* the first, of a training step behind which states are saved */
} zr_when;

/** Does a step run in a round of REPEAT, the first being 0? stale: no flush has gathered what the training step before
 *  has updated. saves: states are saved behind this training step. */
static inline bool zr_when_runs(zr_when when, int64_t round, bool stale, bool saves)
{
    if (when == ZR_WHEN_ALWAYS) return true;
    if (when == ZR_WHEN_LATER) return round > 0;
    return round == 0 && (when == ZR_WHEN_FIRST || (when == ZR_WHEN_STALE ? stale : saves));
}
/** In how many of a training step's rounds? */
static inline int64_t zr_when_rounds(zr_when when, int64_t rounds, bool stale, bool saves)
{
    return zr_when_runs(when, 0, stale, saves) + (rounds - 1) * zr_when_runs(when, 1, stale, saves);
}

/** One step. */
typedef struct zr_step {
    zr_step_kind kind : 8;
    zr_stream stream : 8;
    zr_when when : 8;
    bool replay;         /* RUN: computed again in the backward, by the policy or because it is cheap */
    bool adds;           /* REDUCE_SCATTER, REDUCE, SQUARE_MICRO: from the second round on to the sums that are there */
    bool rank_free_sums; /* reductions, SQUARE, SQUARE_MICRO, NORM: sums that do not depend on the number of ranks */
    bool nccl;           /* REDUCE_SCATTER: NCCL adds */
    bool restores;       /* GATHER: of a checkpoint that the ranks of a layer keep in pieces */
    int32_t group;       /* the ranks that take part */
    int32_t unit;
    int32_t op;           /* RUN; also GATHER and REDUCE_SCATTER that are written for an op (zr_op_def.join), GATHER of
                             a checkpoint: which has made it; else -1 */
    int32_t owner;        /* REDUCE, BROADCAST: the place in the group; -1 */
    int32_t slot;         /* SAVE: which state of the optimizer; -1: the parameters */
    int64_t rounds;       /* REPEAT; reductions: so many add up; NORM: so many micro-gradients, over all ranks, have
                             their squares there, 0: none */
    zr_range range;       /* of the unit: ZERO, CAST, moves, SQUARE, SQUARE_MICRO, UPDATE; of rows: BATCH */
    int32_t uses, n_uses; /* in the schedule's use list, maybe another step's as well */
    int32_t waits, n_waits; /* in the schedule's wait list */
} zr_step;

/** A step of another stream that must have ended, in this round of REPEAT or in the one before. */
typedef struct zr_wait {
    int32_t step;
    bool before; /* in the round before; in the first round there is nothing to wait for */
    bool pace;   /* no use asks for it: it keeps memory from being taken too early */
} zr_wait;

/** A list of steps with what they use and wait for. Steps of one stream run in order. */
typedef struct zr_schedule {
    zr_step *step;
    int32_t n_steps;
    zr_use *use;
    int32_t n_uses;
    zr_wait *wait;
    int32_t n_waits;
    zr_buffer *buffer; /* transient ones of this schedule, after the plan's persistent ones */
    int32_t n_buffers; /* persistent ones included */
    zr_use *value;     /* graph value -> where it was written last; buffer ZR_NONE: parameters, which a step's uses
                          name */
} zr_schedule;

/** What of a unit a rank keeps in a persistent buffer: these elements of the unit, one after the other. */
typedef struct zr_state {
    int32_t buffer; /* ZR_NONE: it is not kept */
    zr_dtype dtype;
    zr_range range; /* of the unit */
} zr_state;

/** Where a unit stands. */
typedef struct zr_plan_unit {
    int64_t elems;          /* parameters */
    int64_t padded_elems;   /* multiple of N * ZR_SHARD_ALIGN */
    int64_t shard_elems;    /* padded / N */
    zr_range own;           /* the shard of it whose gradients this rank sums */
    zr_range update;        /* what of it this rank updates: the shard, or at stage 0 all; what it keeps of one that
                               does not train */
    bool trains;            /* it has parameters that an update changes; else nothing but them is kept */
    bool gathered;          /* stage 3: the whole unit exists only around its uses */
    zr_recompute recompute; /* NONE, UNIT or SELECTIVE */
    zr_state param;         /* not kept where it is cast from the master */
    zr_state hpz_shard;     /* hpZ: of the parameters, fresh from a step's first gather on */
    zr_state grad;          /* of a micro-batch, in the wire type; not kept where it lives in a schedule */
    zr_state sums;          /* of a step, which the update reads: fp32 accumulators, or grad */
    zr_state master;        /* fp32, of 16-bit runs; none of a unit that does not train */
    zr_state slot[4];       /* states of the optimizer, fp32 */
    int32_t open_sums; /* of rank_free_sums: n_open_sums accumulators of the own shard, one buffer after the other */
    int32_t n_open_sums;
    int32_t saved;        /* ZR_SAVE_COPY: buffers of the own shard's parameters and states, one after the other */
    int32_t square;       /* buffer of a zr_square, ZR_NONE without training */
    int32_t micro_square; /* of another, ZR_NONE without zr_layout.micro_squares */
    int32_t verdict;      /* buffer of the zr_verdict by which it is updated */
} zr_plan_unit;

/** What steers an update. Lies, as a zr_square does, in a buffer of the host's space. */
typedef struct zr_verdict {
    double grad_norm, loss;
    double micro_square; /* zr_step_result.micro_square */
    float grad_scale;    /* what gradients are multiplied with in an update */
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
    int64_t category_bytes[ZR_CATEGORIES]; /* of the device and the staging memory together */
    int64_t states_bytes;                  /* parameters, gradients, optimizer that stay; padding included */
    int64_t total_bytes;                   /* of the device and the staging memory */
} zr_memory;

/** What of a rank's memory grows with model and batch, where the device's memory is the host's: its total, and what is
 *  kept or copied to the host's space. */
ZR_API int64_t zr_memory_taken(const zr_memory *memory);
/** What of it counts against a limit: that, or of a device with memory of its own (facts.apart) the total alone. */
ZR_API int64_t zr_memory_limited(const zr_memory *memory, const zr_device_facts *facts);

/** From the spaces to what device and staging take together. */
ZR_API void zr_memory_sum(zr_memory *memory);

/** What bytes cross on their way from another rank. */
typedef enum zr_border {
    ZR_BORDER_GROUP, /* between groups of mics_shard_size, or of zero_hpz_partition_size: so many data-parallel ranks,
                        with all that share their layers */
    ZR_BORDER_HOST,
    ZR_BORDER_TENSOR, /* between ranks that share layers, for these: no step for ZeRO's sake counts */
    ZR_BORDERS
} zr_border;

typedef struct zr_plan {
    zr_layout layout;
    zr_profile profile;
    zr_axis axis[ZR_AXES_MAX];
    int32_t n_axes;
    zr_group group[ZR_GROUPS_MAX];
    int32_t n_groups;
    int32_t optim_group, grad_group, param_group; /* the stage: ranks that share one copy of each; SELF: not sharded */
    int64_t recompute_every;                      /* the layout's, or what ZR_RECOMPUTE_AUTO chose */
    bool partition_checkpoints, offload_checkpoints; /* likewise */
    zr_save save;                                    /* the layout's, or what ZR_SAVE_AUTO chose */
    int ranks;                                       /* all of them, N * M */
    bool side_by_side;                               /* streams may run at the same time */
    bool norm_first;                                 /* the whole gradient's norm is known before the first update */
    double losses;                                   /* of a step, over all ranks */
    int64_t decode_len;                              /* tokens of the cache; 0: it does not decode */
    zr_optimizer optimizer;                          /* name NULL: it does not train */
    bool consume_grad;             /* lean: a unit's gradient dies in its update, at the end of the unit's backward */
    bool two_levels;               /* gradients are summed first over the group LOCAL, then over ACROSS */
    bool sum_f32;                  /* gradients are summed into fp32 accumulators, which the update reads */
    bool reduce_once;              /* these are of whole units, and summed over ranks behind the last micro-batch */
    zr_graph *graph[ZR_SCHEDULES]; /* FLUSH has none; NULL when not asked for */
    zr_schedule schedule[ZR_SCHEDULES];
    zr_plan_unit *unit;
    int32_t n_units;
    int64_t params;        /* Psi */
    int64_t trained;       /* of these, that train */
    int64_t padding_elems; /* over all units */
    zr_buffer *persistent; /* model states, caches, results; first in every schedule's list */
    int32_t n_persistent;
    int64_t persistent_room;
    bool moves;                             /* units go between ranks */
    int32_t n_moves;                        /* steps of a micro-batch that move units, about */
    int32_t staging[ZR_GROUPS_MAX];         /* persistent buffer of each group's staging memory, ZR_NONE: it has none */
    int32_t loss, verdict, numbers, output; /* of results: this rank's loss (zr_exact), a zr_verdict, what ranks
                                               exchange, what decoding gives; ZR_NONE: there is none */
    bool has_stream[ZR_STREAMS];            /* which have steps; compute and comm always count as such */
    int32_t passing;                        /* host memory by which states are filled and read */
    int32_t saving;                         /* likewise those that are saved in place; ZR_NONE: none are */
    int64_t persistent_bytes[ZR_SPACES];    /* transient buffers lie above */
    int64_t space_bytes[ZR_SPACES];         /* DEVICE: the arena; STAGING: at least ZR_STAGING_LEAST for each rank */
    zr_memory memory;
    zr_traffic traffic;            /* of one optimizer step, its flush included */
    zr_traffic across[ZR_BORDERS]; /* of the traffic, from beyond each border; of the rank that has most of it */
    double flops_model;            /* of one step, all ranks */
    double flops_hardware;
} zr_plan;

/** A rank's place in a group, 0 .. size-1. */
ZR_API int zr_plan_place(const zr_plan *plan, int32_t group, int rank);

/** Do layers run on several ranks each? */
static inline bool zr_plan_shares_layers(const zr_plan *plan)
{
    return plan->layout.tensor > 1;
}

/** Which of a unit's N shards a rank's own is. */
ZR_API int zr_plan_shard(const zr_plan *plan, int rank);

/** Of bytes that a rank receives from the others of a group, in equal parts: those from beyond a border; 0 where the
 *  layout has no such border. */
ZR_API int64_t zr_plan_across(const zr_plan *plan, int32_t group, zr_border border, int rank, int64_t bytes);

/** Plan. ZR_ERR_CONFIG when the layout is impossible, ZR_ERR_UNSUPPORTED when it is not built.
 *  `model` is not kept. Not collective; the same on every rank by construction. */
ZR_API ZR_NODISCARD zr_status zr_plan_create(const zr_model *model, const zr_layout *layout, const zr_profile *profile,
                                             zr_plan **plan);
ZR_API void zr_plan_destroy(zr_plan **plan);

/** An independent proof of a plan: no two buffers share bytes unless every use of one happens before
 *  the first write of the other in the graph of stream order and waits; every byte that is read on any rank has been
 *  written before, in a step that follows a flush and in one that does not, and every value is still in its place when
 *  it is read; every buffer lies in its space and what moves between ranks goes through staging memory; every unit is
 *  updated, not before all ranks have agreed on its gradient, and not read afterwards from where it stays; squares of
 *  micro-gradients are taken of whole gradients that no reduction has changed; of what is saved all of each state is,
 *  before it is updated.
 *  Takes about as long as planning: for tests and debug builds. ZR_ERR_INTERNAL naming the steps and buffers. */
ZR_API ZR_NODISCARD zr_status zr_plan_check(const zr_plan *plan);

/** The step of training at which most bytes of a rank are in use, and what they are. */
typedef struct zr_fullest {
    int32_t step;
    int64_t live_bytes;
    int64_t category_bytes[ZR_CATEGORIES];
} zr_fullest;
/** ZR_ERR_STATE when the plan has no training step. */
ZR_API ZR_NODISCARD zr_status zr_plan_fullest(const zr_plan *plan, zr_fullest *fullest);

/** What one step of a schedule does on a rank: an op's own cost; a move's bytes from other ranks (of one owner's steps,
 *  where they arrive), or the bytes of memory that a step without an op reads and writes. REPEAT and END: nothing. */
typedef struct zr_step_cost {
    double flops;
    zr_product_sizes product; /* zeros: the FLOPs are no matrix product's */
    double pairs;             /* of attention, as in zr_cost */
    int64_t head;
    double memory_bytes;
    double wire_bytes;
} zr_step_cost;
ZR_API zr_step_cost zr_plan_step_cost(const zr_plan *plan, zr_schedule_kind kind, int32_t step);

/** Time of one step by a profile's rates: each step takes as long as the slower of its FLOPs and its bytes,
 *  streams run side by side, waits hold. FLOPs of matrix products run at the rates of zr_machine_flops, in the type
 *  that the op multiplies in, bytes between ranks at that of zr_machine_link. A rate of 0 is not known, and costs no
 *  time. */
typedef struct zr_price {
    double step_sec;
    double compute_sec; /* busy time of the compute stream */
    double comm_sec;    /* of comm and copy */
    double exposed_sec; /* step_sec - compute_sec: what these add */
} zr_price;
ZR_API ZR_NODISCARD zr_status zr_plan_price(const zr_plan *plan, const zr_profile *profile, zr_price *price);
/** FLOP/s at which a profile's rates price products of an op, in the type that it multiplies in on the device that the
 *  plan is for (plan->profile.facts). */
ZR_API double zr_plan_op_flops_sec(const zr_plan *plan, const zr_op_def *def, const zr_machine *machine,
                                   zr_product_sizes sizes);
/** Bytes that a SAVE brings out. */
ZR_API int64_t zr_plan_saved_bytes(const zr_plan *plan, const zr_step *step);

#define ZR_IN_TURN_ALL (1u << ZR_STREAM_COMPUTE | 1u << ZR_STREAM_COMM | 1u << ZR_STREAM_COPY)
/** Whoever else says how long steps take: the same walk, over the same streams and waits. */
typedef struct zr_pricer {
    double (*step_sec)(const struct zr_pricer *me, const zr_plan *plan, zr_schedule_kind kind, int32_t step);
    /** The stream that computes waits so long, over all rounds, before the step `waiting` (ZR_NONE: at the end), while
     *  another stream is busy with the step `awaited`: that which it waits for, or one that stands in line before it;
     *  each is told of by itself. NULL: nobody asks. */
    void (*waited)(const struct zr_pricer *me, const zr_plan *plan, zr_schedule_kind kind, int32_t waiting,
                   int32_t awaited, double sec);
    unsigned in_turn; /* streams, 1 << zr_stream each, that run in turn: a step of one holds the others */
} zr_pricer;
/** ZR_ERR_STATE without a training step; ZR_ERR_MEMORY. */
ZR_API ZR_NODISCARD zr_status zr_plan_price_by(const zr_plan *plan, const zr_pricer *pricer, zr_price *price);

/** Does what a plan takes fit the limit of its layout (zr_layout.limit_bytes)? */
static inline bool zr_plan_fits(const zr_plan *plan)
{
    return zr_memory_limited(&plan->memory, &plan->profile.facts) <= plan->layout.limit_bytes;
}

/** Is `plan` to be had rather than `other`, with the same limit and as many samples a step? What fits is; of what fits,
 * what takes less time by the rates of its profile, or, where a rate that counts is not known (products, memory,
 * between several ranks the link), computes less, or as much and moves less; of what does not fit, what takes less
 * memory. As good is not better. ZR_ERR_STATE without a training step. */
ZR_API ZR_NODISCARD zr_status zr_plan_better(const zr_plan *plan, const zr_plan *other, bool *better);

/** What a save behind a step costs on one rank. */
typedef struct zr_save_price {
    int64_t bytes;    /* that go out */
    double write_sec; /* how long that takes */
    double stall_sec; /* how much longer the training step is behind which it begins */
} zr_save_price;
/** By those rates, where a rank's states go out at disk_bytes_sec. ZR_ERR_STATE where the plan saves nothing. */
ZR_API ZR_NODISCARD zr_status zr_plan_price_save(const zr_plan *plan, const zr_profile *profile, double disk_bytes_sec,
                                                 zr_save_price *price);
ZR_API ZR_NODISCARD zr_status zr_plan_price_save_by(const zr_plan *plan, const zr_pricer *pricer, zr_save_price *price);

/** When a step of the schedule runs, by those rates. */
typedef struct zr_step_time {
    double begin_sec, end_sec;
} zr_step_time;
/** Of each step of training, `time` has room for all; of several micro-batches the first, and what follows them as if
 * it were the only one. ZR_ERR_STATE when the plan has no training step. */
ZR_API ZR_NODISCARD zr_status zr_plan_times(const zr_plan *plan, const zr_profile *profile, zr_step_time *time);
ZR_API ZR_NODISCARD zr_status zr_plan_times_by(const zr_plan *plan, const zr_pricer *pricer, zr_step_time *time);

/** A machine by name, as "h100": rates of data sheets, 16-bit products dense; ZR_ERR_NOT_FOUND with the list. A GPU has
 *  facts.apart. Of kernels nothing is known: one thread, no panels; facts.scratch_bytes is NULL, to be set to that of
 *  the device (zr_device_cuda_scratch, zr_device_cpu_scratch). */
ZR_API ZR_NODISCARD zr_status zr_profile_named(const char *name, zr_profile *profile);
/** Their names, NULL at the end. */
ZR_API const char *const *zr_profile_names(void);

/** Elements of a bucket of `wanted_elems` after rounding up to a multiple of ranks * ZR_SHARD_ALIGN. */
ZR_API int64_t zr_plan_bucket_elems(int64_t wanted_elems, int ranks);

#ifdef __cplusplus
}
#endif
#endif
