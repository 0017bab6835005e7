/**
 * layout: the settings from which a plan is made. They say how a model is trained over ranks: the ZeRO stage, groups of
 * ranks, types, micro-batches, collectives, recompute, and the memory spaces in which states are stored.
 */
#ifndef ZR_LAYOUT_H
#define ZR_LAYOUT_H

#include "zr/graph.h"

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
                           (facts.own_memory), the remaining memory is used for KEEP in as many units as fit. With tensor
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

#ifdef __cplusplus
}
#endif
#endif
