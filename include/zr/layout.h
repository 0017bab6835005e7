/**
 * layout: the settings from which a plan is made. They say how a model is trained over ranks: the ZeRO stage, groups of
 * ranks, types, micro-batches, collectives, recompute, and the memory spaces in which states are stored.
 */
#ifndef ZR_LAYOUT_H
#define ZR_LAYOUT_H

#include "zr/choices.h"
#include "zr/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Maximum number of roles (zr_plans), and of chunks of a pipeline rank. */
#define ZR_ROLES 64
#define ZR_CHUNKS 63

/** Alignment of shards and buckets on each rank, in elements of any dtype. */
#define ZR_SHARD_ALIGN 32

/** Layout of the model states in memory. Training results have the same bits with either layout. */
typedef enum zr_states {
    ZR_STATES_PAPER, /* 16-bit parameters and gradients, and fp32 optimizer states: 2 + 2 + K bytes per parameter */
    /* 12 bytes per parameter, divided among all ranks. Stage 3 has no 16-bit copy of the parameters: they are cast from
     * the fp32 master when they are gathered. A unit's update frees the unit's gradient, except in training steps with
     * several micro-batches, and in training steps that need the norm of the whole gradient before the first update */
    ZR_STATES_LEAN
} zr_states;

/** Return whether a unit's policy recomputes more than outputs of cheap ops. */
static inline bool zr_recomputes(zr_recompute policy)
{
    return policy != ZR_RECOMPUTE_NONE && policy != ZR_RECOMPUTE_KEEP;
}

/** Order in which a training step runs its micro-batches. All orders give the same bits. */
typedef enum zr_accum_order {
    ZR_ACCUM_MICRO, /* one micro-batch after the other: its forward pass, then its backward pass */
    /* layer-major: all micro-batches pass through a segment of the model before the next segment runs, in the forward
     * and in the backward pass. Stage 3 then gathers a unit twice per training step instead of twice per micro-batch,
     * but the values between segments are stored for all micro-batches ("vertical" in GreedySnake, arXiv 2512.17570).
     * No effect with one micro-batch */
    ZR_ACCUM_LAYER,
    /* forward passes ahead: first accum_ahead forward passes, then in turn the backward pass of the oldest micro-batch
     * and the next forward pass (1F1B). The values that backward passes need are stored for accum_ahead micro-batches.
     * Stage 3 gathers as with MICRO, and with accum_ahead 1 the order is that of MICRO */
    ZR_ACCUM_AHEAD
} zr_accum_order;

/** Kinds of actions of a pipeline rank, as zr_pipe_schedule has them. REST is an empty cell of a table. */
typedef enum zr_pipe_kind { ZR_PIPE_F, ZR_PIPE_B, ZR_PIPE_I, ZR_PIPE_W, ZR_PIPE_REST } zr_pipe_kind;

/** Action of a pipeline rank: a pass of a stage for a micro-batch. */
typedef struct zr_pipe_action {
    zr_pipe_kind kind;
    int32_t stage, micro;
} zr_pipe_action;

/** A user's pipeline schedule: a row for each pipeline rank, with its actions in the order in which they run. A stage
 * may be on any rank, but each rank has the same number of stages. The columns are not times. */
typedef struct zr_pipe_table {
    int32_t rows, columns;
    zr_pipe_action *cell; /* rows * columns, row after row */
} zr_pipe_table;

/** Read a table in CSV, as torch.distributed.pipelining writes it. A line is a row, and a cell is empty or STAGE,
 * ACTION, MICRO, such as 2F0; actions are F, B, I and W (zr_pipe_schedule), and stages and micro-batches are counted
 * from 0. Cells with the actions by which torch moves values and parameters (SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD,
 * RESHARD, REDUCE_GRAD) are taken for empty, because zr derives these moves. Fail with ZR_ERR_CONFIG, naming the cell.
 */
ZR_API ZR_NODISCARD zr_status zr_pipe_table_read(const char *text, size_t length, zr_pipe_table **table);
ZR_API void zr_pipe_table_destroy(zr_pipe_table **table);

/** Kinds of asynchronous saves, which write the states during the following training steps (zr_engine_save). */
typedef enum zr_save {
    ZR_SAVE_NONE, /* no asynchronous save; states are read between training steps (zr_engine_read) */
    /* asynchronous save from copies in host memory. The next training step first makes the copies; this step and later
     * ones write them to files */
    ZR_SAVE_COPY,
    /* asynchronous save without copies. In the next training step, the update of a unit waits until the unit's states
     * are written to files */
    ZR_SAVE_IN_PLACE,
    ZR_SAVE_AUTO /* COPY if it fits limit_bytes without more recompute, otherwise IN_PLACE */
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
    zr_space grad;  /* space of the gradients that are kept after their reduction */
    zr_space optim; /* space of the fp32 masters and optimizer states */
    /* Shares of the elements whose states are stored in the spaces `param` and `optim`, from 0 to 1, rounded up to
     * whole units. The states of the other units, which are the first units of the model, stay on the device: their
     * parameters are needed first in a training step, and their gradients are computed last, when no computation is
     * left to hide a copy. */
    double param_share, optim_share;
    /* bucket size for offloaded states: number of elements of a rank's part that one step processes, rounded up to a
     * multiple of ZR_SHARD_ALIGN, or of ZR_DISK_ALIGN / 2 with states on disk; 0 to leave the choice to the planner */
    int64_t bucket_elems;
    /* number of buckets of each state that are on the device at the same time; 0 to leave the choice to the planner */
    int buckets;
    /* maximum bytes of a single transfer from or to disk, a multiple of ZR_DISK_ALIGN; 0 to leave the choice to the
     * planner */
    int64_t block_bytes;
    int depth; /* maximum number of transfers in flight in each direction; 0 to leave the choice to the planner */
} zr_homes;

/** Sizes that the planner uses for fields of zr_homes that are 0. It plans at least ZR_HOMES_BUCKETS buckets, and more
 * if the states of an ordinary unit need more, but at most 256 MiB of buckets. */
#define ZR_HOMES_BUCKET_ELEMS (1 << 20)
#define ZR_HOMES_BUCKETS 3
#define ZR_HOMES_BLOCK_BYTES (1 << 20)
#define ZR_HOMES_DEPTH 8

/** Layout of training over ranks: all settings from which a plan is made. Begin with zr_layout_default. */
typedef struct zr_layout {
    size_t size; /* sizeof(zr_layout) */
    int ranks;   /* N, data-parallel degree */
    /* M, tensor-parallel degree: each group of M consecutive ranks shares the layers, and N * M ranks are needed */
    int tensor;
    /* P, pipeline-parallel degree: the model is divided into P * chunks stages, and N * M * P ranks are needed */
    int pipeline;
    /* v, stages of a pipeline rank; 0 for 2 with schedules that can have several, otherwise 1, or as a table has */
    int chunks;
    zr_pipe_schedule pipeline_schedule; /* order of the passes of stages; no effect if P is 1 */
    int role;                           /* pipeline rank whose list of steps is planned, from 0 */
    zr_sequence sequence;               /* sequence parallelism; no effect if M is 1 */
    int stage;                          /* ZeRO stage, 0 to 3 */
    zr_dtype dtype;                     /* type of parameters and activations */
    zr_dtype wire_dtype;                /* type of gradients in communication; F32 if dtype is F32 */
    int64_t batch;                      /* B, rows per micro-batch on one rank */
    int64_t seq;                        /* T, tokens per row */
    int64_t accum;                      /* k, micro-batches per training step */
    zr_accum_order accum_order;         /* order in which micro-batches run */
    int64_t accum_ahead; /* with ZR_ACCUM_AHEAD: forward passes that run before the first backward pass */
    /* with ZR_PIPELINE_TABLE: the schedule, which a plan copies */
    const zr_pipe_table *pipeline_table;
    /* number of blocks (units between the first and the last one of the model) of each of the P * chunks stages, in the
     * order of the model. The first stage also has the first unit, the last stage the last unit. NULL to let the
     * planner balance the stages. Used only while a plan is made */
    const int32_t *pipeline_units;
    int n_pipeline_units;
    /* whether a table of the first and the last stage may be on two ranks: the first stage's rank trains it, and the
     * last one's has a copy. Otherwise the look-up runs beside the head */
    bool tied_apart;
    /* bucket size of gradient reductions in elements, rounded up to a multiple of N * ZR_SHARD_ALIGN */
    int64_t reduce_bucket_elems;
    /* bucket size of parameter gathers in elements, rounded up to a multiple of N * ZR_SHARD_ALIGN */
    int64_t gather_bucket_elems;
    /* MiCS: number of consecutive data-parallel ranks over which states are sharded. Each group of this size has a full
     * copy; 0 for one group of all ranks */
    int shard_ranks;
    /* hpZ of ZeRO++ at stage 3: number of data-parallel ranks over which a second copy of the parameters is sharded; 0
     * for no copy */
    int hpz_ranks;
    /* number of ranks per host; 0 if all ranks are on one host. Ranks of a host have consecutive numbers */
    int host_ranks;
    bool hierarchical; /* whether collectives run in two levels: within each host and between hosts */
    /* whether communication overlaps computation: a unit's gradient is reduced during the backward pass of the next
     * unit, so it stays in memory longer */
    bool overlap;
    zr_reduce reduce;
    zr_states states;
    /* whether the norm of the whole gradient must be known before the first update. Clipping and a loss scale need this
     */
    bool norm_first;
    /* whether the backward pass runs twice, the first time only for the norm, so that gradients need not be stored
     * (layout lean) */
    bool two_pass;
    /* whether sums have the same bits for any number of ranks that is a power of two (docs/reproducibility.md)
     */
    bool rank_free_sums;
    /* whether gradients are reduced over ranks only once per training step, whatever the stage. Each rank first sums
     * whole gradients over its micro-batches in fp32. No effect with one micro-batch or one data-parallel rank */
    bool reduce_once;
    zr_recompute recompute;
    int64_t recompute_every;
    /* for ZR_RECOMPUTE_AUTO and ZR_SAVE_AUTO: limit in bytes of a rank's arena or, on a GPU, of its device memory; 0
     * for no limit. ZR_SAVE_AUTO also counts the copy of the states */
    int64_t limit_bytes;
    /* Storage of activation checkpoints (ZeRO section 6.1). With partition_checkpoints each tensor-parallel rank stores
     * one piece of every checkpoint (P_a). checkpoint_home is the space in which they are stored from the forward to
     * the backward pass: DEVICE, HOST (P_a+cpu) or DISK (ZeRO-Infinity, section 5). */
    bool partition_checkpoints;
    zr_space checkpoint_home;
    zr_save save; /* kind of asynchronous save; requires `train` */
    /* Limits for stage 3, in elements. They have the meaning of DeepSpeed's thresholds, but apply to whole units. */
    /* prefetch size: units are prefetched until the prefetched units that are not in use yet have this many elements; 0
     * for no prefetch */
    int64_t prefetch_elems;
    /* maximum number of gathered elements: a unit is not prefetched if the number would exceed this limit. 0 to
     * prefetch only units of the next segment of the program */
    int64_t live_elems;
    /* reuse distance: a gathered unit stays in memory if its next use comes within this many elements of other units */
    int64_t reuse_elems;
    /* persistence threshold: a unit is not sharded if each of its parameters has fewer elements than this */
    int64_t persist_elems;
    int64_t persist_model_elems; /* maximum number of elements of all units that are not sharded; 0 for no limit */
    /* whether to compute the square norm of each micro-batch's own gradient (micro-gradient) before its reduction
     * (zr_step_result.micro_square); requires at least two micro-batches per step */
    bool micro_squares;
    bool train;     /* whether to plan the schedules "train" and "flush", with gradients and optimizer states */
    bool eval;      /* whether to plan the schedule "eval" */
    bool documents; /* whether rows hold several documents (zr_graph_spec.documents), in "train" and "eval" */
    /* whether vectors and matrices are in separate units (zr_graph_spec.vectors_apart), for policies that treat whole
     * units of matrices. Bits of training do not change, apart from the last bits of norms */
    bool vectors_apart;
    /* Quantised exchanges (ZeRO++, Wang et al. 2023): types of records (zr_dtype_is_record) in which the matrices of
     * blocks pass between ranks, or F32 for none. Blocks are the units between the model's first and its last one;
     * vectors, tables and heads pass as they are, in units of their own (vectors_apart).
     * weight_records (qwZ): trained parameters are cast from the fp32 master before a gather, and back behind it, also
     * on one rank and at stages without gathers. So ops read the same values at any stage and on any number of ranks. A
     * unit then has an fp32 master even if dtype is F32.
     * frozen_records: frozen parameters are stored as records, and gathered so; only at stage 3.
     * grad_records (qgZ): gradients are cast before each level of a reduction. Each rank quantises its own sums, so
     * values depend on the number of ranks, and on the ranks of a host if there are two levels. Needs reduce_once with
     * several micro-batches; no effect on one rank, where nothing is reduced */
    zr_dtype weight_records, frozen_records, grad_records;
    /* Error feedback of gradients that are cast to records (LoCo): each rank keeps the errors of its casts, and adds
     * them to the gradient of the next step (zr_plan_unit.error). error_steps: number of training steps after which the
     * errors are cleared; 0 for no error feedback. error_beta: share of the earlier errors in the new ones, from 0 to
     * below 1 */
    int64_t error_steps;
    double error_beta;
    /* whether weight_records, at stages 0 to 2, have the differences between the master and the parameters that ops
     * read, which are the same on every rank, and to which every rank adds them. Errors then do not add up: a
     * difference includes the errors of earlier ones. The parameters begin as the master, rounded to dtype */
    bool weight_differences;
    bool stochastic; /* whether records are rounded up or down at random, so that the mean of a value is exact */
    int64_t predictions, samples; /* P and S of zr_graph_spec, in "train" and "eval" */
    int64_t decode_len; /* size of the key-value cache in tokens for the schedule "decode"; 0 to not plan it */
    /* maximum number of elements of a tile of a table (zr_graph_spec.tile_elems), at every stage and in every schedule;
     * 0 for whole tables */
    int64_t tile_elems;
    zr_homes home; /* offload */
    /* optimizer of all trained parameters or, with orthogonalised directions (zr_muon), of the hidden matrices */
    zr_optimizer optimizer;
    zr_optimizer rest; /* with zr_muon: optimizer of all other trained parameters, without trust ratios */
    /* with zr_muon: name patterns of the hidden matrices, one per line, or NULL for the matrices between the tables and
     * the head (zr_graph_spec.hidden). Used only while a plan is made */
    const char *hidden;
} zr_layout;

#define ZR_DEFAULT_BUCKET_ELEMS (16 << 20)

/** Return the layout with which every other layout begins: stage 0 in fp32 on one rank with one row of one token, and
 * the schedules "train" and "eval". The caller must set `optimizer`. */
ZR_API zr_layout zr_layout_default(void);

#ifdef __cplusplus
}
#endif
#endif
