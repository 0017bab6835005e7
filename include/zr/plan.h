/**
 * plan: from a model and a layout, the schedule of one training step and the memory map, before
 * anything is allocated. Pure arithmetic: any number of ranks, any size of model.
 *
 * One plan serves every data-parallel rank: ranks differ in which shard they own, never in the list of
 * steps. A ZeRO stage is three booleans (zr_plan.shard_optim ...) and where a few steps stand in the list.
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
    ZR_RECOMPUTE_AUTO       /* unit by unit, the mix of the least work whose total is at most limit_bytes; when none is,
                               the smallest */
} zr_recompute;

/** How gradients are reduced and parameters gathered. The sums are the same; the first of each is ZeRO's. */
typedef enum zr_reduce {
    ZR_REDUCE_TO_SHARDS,  /* each rank receives its shard */
    ZR_REDUCE_ALL_REDUCE, /* stage 1 as it was first built: all receive all sums, 1.5 times the volume */
    ZR_REDUCE_TO_OWNER    /* one reduction for each owner, in turn */
} zr_reduce;
typedef enum zr_gather {
    ZR_GATHER_ALL,      /* one all-gather */
    ZR_GATHER_BROADCAST /* one broadcast from each owner, in turn */
} zr_gather;

/** How a step is laid out over ranks. Start from ZR_LAYOUT_INIT. */
typedef struct zr_layout {
    size_t size;                 /* sizeof(zr_layout) */
    int ranks;                   /* N, data-parallel degree */
    int stage;                   /* ZeRO stage 0 .. 3 */
    zr_dtype dtype;              /* parameters and activations */
    zr_dtype wire_dtype;         /* gradients on the wire; F32 when dtype is F32 */
    int64_t batch;               /* B, rows of a micro-batch on one rank */
    int64_t seq;                 /* T */
    int64_t accum;               /* k, micro-batches of a step */
    int64_t reduce_bucket_elems; /* largest exchange, rounded up to N * ZR_SHARD_ALIGN */
    int64_t gather_bucket_elems; /* largest gather, likewise */
    bool fused_buffer;           /* one buffer of the whole model in place of buckets: gradients travel at the end */
    bool overlap;                /* communication beside computation: a unit is reduced while the next one's backward
                                    runs, its gradient lives that much longer */
    zr_reduce reduce;
    zr_gather gather;
    zr_states states;
    bool norm_first; /* the whole gradient's norm must be known before the first update: clipping, loss scale */
    bool two_pass;   /* lean: run the backward twice, first for the norm, so that no gradient is kept for it */
    bool world;      /* sums that do not depend on the number of ranks, a power of two (design, section 2) */
    zr_recompute recompute;
    int64_t recompute_every;
    int64_t limit_bytes; /* of memory.total_bytes, for ZR_RECOMPUTE_AUTO; 0: none */
    /* Stage 3, in elements. DeepSpeed's thresholds, by units: a unit is gathered, kept and freed as a whole. */
    int64_t prefetch_elems;      /* further units are gathered ahead until so many are on their way; 0: none */
    int64_t live_elems;          /* no unit is gathered ahead beyond so many whole ones; 0: one segment ahead */
    int64_t reuse_elems;         /* a unit stays whole when it is used again within so many elements of others */
    int64_t persist_elems;       /* a unit whose parameters are all smaller than this stays whole */
    int64_t persist_model_elems; /* most elements of units that do; 0: any */
    bool train;                  /* the schedules train and flush, gradients and optimizer states */
    bool eval;                   /* the schedule eval */
    int64_t decode_len;          /* > 0: the schedule decode, with a cache of so many tokens */
    zr_optimizer optimizer;
} zr_layout;

/** Numbers that NORM exchanges: squares of the gradient, loss, first parameter with a bad gradient; of `world`
 *  the first two as exact sums. Numbers that AGREE exchanges: that parameter, whether the loss is bad. */
#define ZR_NORM_SCALARS 3
#define ZR_NORM_SCALARS_WORLD (2 * ZR_EXACT_LIMBS + 1)
#define ZR_AGREE_SCALARS 2

/** Bytes of the exchange stage for each rank, at least: comm moves pieces through it in two parts of
 *  64 bytes or more, by turns. */
#define ZR_STAGE_LEAST 128

#define ZR_DEFAULT_BUCKET_ELEMS (16 << 20)
/* By place, in the order of the fields: C++ before C++20 knows no names here. */
#define ZR_LAYOUT_INIT                                                                                                 \
    {                                                                                                                  \
        sizeof(zr_layout), 1, 0, ZR_F32, ZR_F32, 1, 1, 1, ZR_DEFAULT_BUCKET_ELEMS, ZR_DEFAULT_BUCKET_ELEMS, false,     \
            true, ZR_REDUCE_TO_SHARDS, ZR_GATHER_ALL, ZR_STATES_PAPER, false, false, false, ZR_RECOMPUTE_NONE, 1, 0,   \
            1, 0, 0, 0, 0, true, true, 0, ZR_OPTIMIZER_INIT                                                            \
    }

/* ---- what a plan is made of ------------------------------------------------------------------ */

/** A stretch of bytes with a lifetime. Persistent buffers hold the model states and live always. */
typedef struct zr_buffer {
    zr_category category;
    bool persistent;
    bool staging;     /* lies in the exchange stage (shared between processes), not in the arena */
    int32_t unit;     /* -1: none */
    const char *what; /* "parameters", "gradient", "h.0 attention" ... constant or the graph's */
    int64_t bytes;
    int64_t offset;                /* in the arena, or in the stage */
    int32_t first_step, last_step; /* positions in the schedule that it is alive in */
} zr_buffer;

typedef enum zr_stream { ZR_STREAM_COMPUTE, ZR_STREAM_COMM, ZR_STREAMS } zr_stream;
/** "compute", "comm". */
ZR_API const char *zr_stream_name(zr_stream stream);

#define ZR_STEP_LIST(X)                                                                                                \
    X(BATCH, "batch")                   /* the caller fills the inputs of a micro-batch */                             \
    X(RUN, "run")                       /* op of the graph; uses: its inputs, outputs, scratch, in order */            \
    X(ZERO, "zero")                     /* clear elements [first, first+count) of a whole unit's gradient that         \
                                           no op writes: padding, parameters without gradient */                       \
    X(CAST, "cast")                     /* a range of my shard, from the master into its place in the whole unit */    \
    X(GATHER, "gather")                 /* all-gather of a range of a unit's parameters; uses: mine, whole, stage */   \
    X(BROADCAST, "broadcast")           /* the same from one owner */                                                  \
    X(GATHER_GRAD, "gather_grad")       /* stage 0: all-gather of a range of a unit's gradient */                      \
    X(REDUCE_SCATTER, "reduce_scatter") /* a range of a unit's gradient: everyone's pieces of my shard are summed in a \
                                     tree into the shard or its accumulator; uses: gradient, [stage], sums. With one   \
                                     rank the one piece is the sum */                                                  \
    X(REDUCE, "reduce")                 /* the same to one owner; elsewhere nothing is summed */                       \
    X(LOSS, "loss")                     /* this micro-batch's losses are added up */                                   \
    X(REPEAT, "repeat")                 /* what follows, to END, runs accum times */                                   \
    X(END, "end")                                                                                                      \
    X(SQUARE, "square") /* squares of my shard of a unit's gradient are summed */                                      \
    X(AGREE, "agree")   /* is the unit's gradient finite on all ranks? If not the run ends */                          \
    X(NORM, "norm")     /* all ranks agree on norm and health of the gradient, and on the loss */                      \
    X(UPDATE, "update") /* optimizer on what this rank updates of a unit, but on what has no gradient; uses: gradient, \
                           [master], states, [parameters] */

typedef enum zr_step_kind {
#define ZR_STEP_ENUM(name, text) ZR_STEP_##name,
    ZR_STEP_LIST(ZR_STEP_ENUM)
#undef ZR_STEP_ENUM
        ZR_STEP_KINDS
} zr_step_kind;

ZR_API const char *zr_step_kind_name(zr_step_kind kind);

/** A use of a buffer by a step. */
typedef struct zr_use {
    int32_t buffer; /* ZR_NONE: an optional operand that is absent */
    bool reads, writes;
} zr_use;

/** One step. Ranges are elements of ONE shard: [first, first+count) of each of the N shards (but ZERO, and UPDATE of a
 *  whole unit). */
typedef struct zr_step {
    zr_step_kind kind;
    zr_stream stream;
    int32_t unit;
    int32_t op;
    int32_t owner; /* REDUCE, BROADCAST: the rank; -1 */
    bool replay;   /* RUN: computed again in the backward, by the policy or because it is cheap */
    bool once; /* GATHER, BROADCAST: of what the step before has updated (stages 1, 2); in the first micro-batch, and
                  only where `flush` has not done it. Its bytes belong to the step that updated */
    int64_t first, count;
    int32_t uses, n_uses;   /* in the schedule's use list */
    int32_t waits, n_waits; /* in the schedule's wait list: steps that must have ended */
} zr_step;

/** A list of steps with what they use and wait for. Steps of one stream run in order. REPEAT and END
 *  wait for, and hold back, all streams. */
typedef struct zr_schedule {
    zr_step *step;
    int32_t n_steps;
    zr_use *use;
    int32_t n_uses;
    int32_t *wait;
    int32_t n_waits;
    zr_buffer *buffer;     /* transient ones of this schedule, after the plan's persistent ones */
    int32_t n_buffers;     /* persistent ones included */
    int32_t *value_buffer; /* graph value -> buffer, where it was written last; ZR_NONE: parameters, which a step's
                              uses name */
    int64_t *value_offset; /* bytes within the buffer */
} zr_schedule;

/** Where a unit stands. */
typedef struct zr_plan_unit {
    int64_t elems;          /* parameters */
    int64_t padded_elems;   /* multiple of N * ZR_SHARD_ALIGN */
    int64_t shard_elems;    /* padded / N */
    bool gathered;          /* stage 3: the whole unit exists only around its uses */
    zr_recompute recompute; /* NONE, UNIT or SELECTIVE */
    int32_t param;          /* persistent buffer: whole unit, when gathered its shard; ZR_NONE: cast from master */
    int32_t grad;           /* whole or shard, as zr_plan.shard_grad says; ZR_NONE: nothing of it stays */
    int32_t accum;          /* fp32 sums: shard, at stage 0 the whole; ZR_NONE */
    int32_t accums;         /* of `world`: so many stand one after the other in `accum`; otherwise 1 */
    int32_t master;         /* fp32, 16-bit runs only: shard, at stage 0 the whole; ZR_NONE */
    int32_t slot[4];        /* optimizer states, likewise; ZR_NONE */
} zr_plan_unit;

typedef enum zr_schedule_kind { ZR_TRAIN, ZR_EVAL, ZR_DECODE, ZR_FLUSH, ZR_SCHEDULES } zr_schedule_kind;

/** Bytes of one rank. */
typedef struct zr_memory {
    int64_t category_bytes[ZR_CATEGORIES]; /* each its own high-water mark */
    int64_t states_bytes;                  /* parameters, gradients, optimizer that stay; padding included */
    int64_t total_bytes;                   /* arena and stage */
} zr_memory;

typedef struct zr_plan {
    zr_layout layout;
    zr_profile profile;
    bool shard_optim, shard_grad, shard_param; /* the stage, as three booleans */
    int64_t recompute_every;                   /* the layout's, or what ZR_RECOMPUTE_AUTO chose */
    bool consume_grad;             /* lean: a unit's gradient dies in its update, at the end of the unit's backward */
    bool sum_f32;                  /* gradients are summed into fp32 accumulators, which the update reads */
    int norm_scalars;              /* doubles that NORM exchanges */
    zr_graph *graph[ZR_SCHEDULES]; /* FLUSH has none; NULL when not asked for */
    zr_schedule schedule[ZR_SCHEDULES];
    zr_plan_unit *unit;
    int32_t n_units;
    int64_t params;        /* Psi */
    int64_t padding_elems; /* over all units */
    zr_buffer *persistent; /* model states, caches; first in every schedule's list */
    int32_t n_persistent, persistent_room;
    int32_t stage_buffer;     /* persistent buffer of the exchange stage, ZR_NONE at one rank */
    int64_t persistent_bytes; /* of the arena; transient buffers lie above */
    int64_t arena_bytes;
    int64_t stage_bytes; /* at least ZR_STAGE_LEAST for each rank */
    zr_memory memory;
    zr_traffic traffic; /* of one optimizer step, its flush included */
    double flops_model; /* of one step, all ranks */
    double flops_hardware;
} zr_plan;

/** Plan. ZR_ERR_CONFIG when the layout is impossible, ZR_ERR_UNSUPPORTED when it is not built.
 *  `model` is not kept. Not collective; the same on every rank by construction. */
ZR_API ZR_NODISCARD zr_status zr_plan_create(const zr_model *model, const zr_layout *layout, const zr_profile *profile,
                                             zr_plan **plan);
ZR_API void zr_plan_destroy(zr_plan **plan);

/** An independent proof of a plan: no two buffers share bytes unless every use of one happens before
 *  the first write of the other in the graph of stream order and waits; every read has a writer
 *  before it, and every value is still in its place when it is read; every buffer lies in its arena and every
 *  exchange in the stage; no unit is updated before all ranks have agreed on its gradient, and none is read
 *  from where it stays afterwards.
 *  Quadratic: for tests and debug builds. ZR_ERR_INTERNAL naming the steps and buffers. */
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
    double comm_sec;    /* busy time of the comm stream */
    double exposed_sec; /* step_sec - compute_sec: what communication adds */
} zr_price;
ZR_API ZR_NODISCARD zr_status zr_plan_price(const zr_plan *plan, const zr_profile *profile, zr_price *price);

/** When a step of the schedule runs, by those rates. */
typedef struct zr_step_time {
    double begin_sec, end_sec;
} zr_step_time;
/** Of each step of training, `time` has room for all; of several micro-batches the first, and what follows them as if
 * it were the only one. ZR_ERR_STATE when the plan has no training step. */
ZR_API ZR_NODISCARD zr_status zr_plan_times(const zr_plan *plan, const zr_profile *profile, zr_step_time *time);

/** A machine by name, as "h100": rates of data sheets, 16-bit products dense; ZR_ERR_NOT_FOUND with the list. Of its
 *  kernels nothing is known: one thread, no panels; facts.scratch_bytes is NULL, and may be set to plan others'. */
ZR_API ZR_NODISCARD zr_status zr_profile_named(const char *name, zr_profile *profile);
/** Their names, NULL at the end. */
ZR_API const char *const *zr_profile_names(void);

/** Elements of a bucket of `wanted_elems` after rounding up to a multiple of ranks * ZR_SHARD_ALIGN. */
ZR_API int64_t zr_plan_bucket_elems(int64_t wanted_elems, int ranks);

#ifdef __cplusplus
}
#endif
#endif
