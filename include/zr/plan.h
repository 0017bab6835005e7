/**
 * plan: computes the schedule of one training step and a memory map from a model and a zr_layout, before anything is
 * allocated. Planning is pure arithmetic, for any number of ranks and any size of model.
 *
 * One plan serves every rank of a role (zr_plans). Ranks own different shards, but have the same list of steps. The
 * ZeRO stage determines which states are sharded (zr_plan.shards_optim, shards_grad, shards_param) and the places of a
 * few steps in the list. zr/layout.h has the settings of a plan, zr/schedule.h its steps, and zr/price.h its times.
 * Source: ZeRO (Rajbhandari et al. 2020), sections 5 and 7. docs/memory.md has formulas for bytes and traffic.
 */
#ifndef ZR_PLAN_H
#define ZR_PLAN_H

#include "zr/layout.h"
#include "zr/models.h"
#include "zr/price.h"
#include "zr/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Size in F32 elements of the host buffer through which states are filled and read. */
#define ZR_PASSING_ELEMS 16384

/** State of a unit on one rank: contiguous elements of the unit, stored in a persistent buffer. */
typedef struct zr_state {
    int32_t buffer; /* index of the buffer, or ZR_NONE if the state is not stored */
    zr_dtype dtype;
    zr_range range; /* range of the unit that is stored */
} zr_state;

/** Levels at which gradients are cast to records: the whole gradient of a rank, and its partial sums before the second
 * level of a reduction. */
enum { ZR_ERROR_WHOLE, ZR_ERROR_PARTIAL, ZR_ERROR_LEVELS };

/** States of a unit on one rank. */
typedef struct zr_plan_unit {
    int64_t elems; /* number of parameter elements, with gaps between matrices; 0 if the unit is not held */
    /* group of N ranks over which the unit's gradient is summed. Its ranks have the same parameters, but different
     * rows */
    int32_t sum_group;
    /* group over which the unit's states are sharded, if the stage shards them: sum_group, or a part of it (MiCS) */
    int32_t shard_group;
    /* record types in which the unit's parameters and gradients pass between ranks, or F32 for none. Trained parameters
     * are cast to them from the master, frozen ones are stored in them */
    zr_dtype weight_records, grad_records;
    bool differs;         /* whether the unit's records have differences to `param` (zr_layout.weight_differences) */
    int64_t align_elems;  /* alignment of shards and buckets: ZR_SHARD_ALIGN, or a multiple of it that records need */
    int64_t padded_elems; /* elems rounded up to a multiple of N * align_elems */
    int64_t shard_elems;  /* padded_elems / N */
    zr_range own;         /* range of the unit whose gradient sums this rank computes */
    /* range of the unit that this rank updates: its shard, or the whole unit at stage 0. For a frozen unit, the range
     * that the rank stores */
    zr_range update;
    /* whether the plan's role (zr_plans) holds the unit. A unit that is not held has no states, and no op of the role
     * reads its parameters. Parameters have the same names and numbers in the plans of all roles */
    bool held;
    /* set of the roles that hold the unit, a bit for each; and the role that trains it, or the first role that holds a
     * frozen unit. Only the owner saves the unit */
    uint64_t roles;
    int32_t owner;
    bool owned; /* whether the plan's role is the owner */
    /* whether another role, the owner, trains the unit. This role has only a copy of the parameters, and `update` is
     * the range of it that the owner's rank with the same place passes on after each update */
    bool copied;
    bool trains;                     /* whether the unit is trained; a frozen unit has only parameters as its state */
    bool gathered;                   /* whether the unit is sharded and gathered only while it is used, as at stage 3 */
    zr_space param_home, optim_home; /* spaces of `param` and of the fp32 states */
    zr_recompute recompute;          /* policy of this unit, any but AUTO */
    zr_state param;                  /* parameters; ZR_NONE if they are cast from the master for each gather */
    /* second copy of the parameters (hpZ), or of their records, valid after the first gather of a training step */
    zr_state hpz_shard;
    /* gradient of a micro-batch in the communicated type; ZR_NONE if it is a transient buffer of a schedule */
    zr_state grad;
    /* gradient of a training step, which the update reads: fp32 accumulators, or the same buffer as grad */
    zr_state sums;
    zr_state master; /* fp32 master parameters for 16-bit training; absent for a frozen unit */
    /* whether the unit has hidden matrices, whose directions are orthogonalised (zr_muon) */
    bool orthogonal;
    zr_state slot[ZR_OPTIMIZER_SLOTS]; /* fp32 states of the unit's optimizer (zr_plan_optimizer) */
    int n_slots;                       /* number of entries of `slot`; 0 if the unit is not trained */
    /* index of slot[0] among the states of all optimizers: slot[i] is saved as state first_slot + i */
    int first_slot;
    /* For an orthogonal unit: its matrices are n_matrices entries of zr_plan.matrix from first_matrix on. ortho_group:
     * group of ranks that share the work of the iteration. ortho_batch: units with the same number are iterated between
     * the same two exchanges */
    int32_t first_matrix, n_matrices, ortho_group, ortho_batch;
    /* FLOPs of the busiest rank in this batch, divided by the FLOPs of all ranks */
    double ortho_share;
    /* errors of this rank's gradient after it is cast to records at a level, as records of 8-bit integers, without the
     * loss scale (zr_layout.error_steps); ZR_NONE where nothing is cast, or without error feedback */
    zr_state error[ZR_ERROR_LEVELS];
    /* index of the first of n_open_sums buffers. Each buffer holds a further accumulator of this rank's shard
     * (rank_free_sums) */
    int32_t open_sums;
    int32_t n_open_sums;
    /* index of the first buffer with copies of this rank's parameters and states (ZR_SAVE_COPY) */
    int32_t saved;
    int32_t square; /* buffer of the gradient's zr_square, or ZR_NONE without training */
    /* buffer of the zr_square of single micro-batches' gradients, or ZR_NONE without zr_layout.micro_squares */
    int32_t micro_square;
    int32_t verdict; /* buffer of the zr_verdict on which the unit's update depends */
    /* buffers with a zr_trust, and with a zr_norms, for each parameter of the unit; ZR_NONE without zr_optimizer.trust
     */
    int32_t trust, norms;
} zr_plan_unit;

/** Hidden matrix, or one of several that are fused in a parameter. */
typedef struct zr_plan_matrix {
    int32_t param; /* index of the parameter */
    int32_t op;    /* index in the graph zr_plan.ortho of the op that makes its direction orthogonal */
    int64_t first; /* index of its first element in the unit */
    int32_t owner; /* place of the rank in zr_plan_unit.ortho_group that iterates it */
    double scale;  /* factor of its direction in the update (zr_muon_scale) */
} zr_plan_matrix;

/** Result of NORM or AGREE that controls an update. Like a zr_square, it is stored in a buffer in host memory. */
typedef struct zr_verdict {
    double grad_norm, loss;
    double term[ZR_LOSS_TERMS];     /* mean loss of each term */
    double micro_square;            /* mean square norm of micro-batches' gradients (zr_step_result.micro_square) */
    int64_t counted[ZR_LOSS_TERMS]; /* number of losses of each term that count, of all ranks */
    float grad_scale;               /* factor by which an update multiplies gradients */
    int32_t bad_param;              /* index of the first parameter whose gradient is not finite on any rank, or -1 */
    bool skipped;                   /* whether the update is skipped */
} zr_verdict;

/** Memory of one rank in one space, in bytes. */
typedef struct zr_space_memory {
    int64_t category_bytes[ZR_CATEGORIES]; /* maximum bytes of each category; the maxima may be at different times */
    int64_t total_bytes;
} zr_space_memory;

/** Memory of one rank, in bytes. */
typedef struct zr_memory {
    zr_space_memory space[ZR_SPACES];
    int64_t category_bytes[ZR_CATEGORIES]; /* maximum bytes of each category in device and staging memory together */
    /* bytes of persistent parameters, gradients and optimizer states on the device, including padding */
    int64_t states_bytes;
    int64_t total_bytes; /* total of device and staging memory */
} zr_memory;

/** Borders between ranks, such as the border of a host. Received bytes are counted for each border that they cross. */
typedef enum zr_border {
    /* border between groups of data-parallel ranks (mics_shard_size, zero_hpz_partition_size); ranks that share a layer
     * are always in one group */
    ZR_BORDER_GROUP,
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
    int32_t axis_ranks[ZR_AXES]; /* number of ranks along each axis of the grid */
    int32_t axis_step[ZR_AXES];  /* difference between the numbers of neighbouring ranks on each axis */
    zr_group group[ZR_GROUPS];
    /* the ZeRO stage: whether optimizer states, gradients and parameters are sharded (zr_plan_unit.shard_group). On a
     * single rank, a state that is sharded is not divided, but may be freed earlier */
    bool shards_optim, shards_grad, shards_param;
    int64_t recompute_every;    /* the layout's value, or the choice of ZR_RECOMPUTE_AUTO */
    bool partition_checkpoints; /* the layout's value, or the choice of ZR_RECOMPUTE_AUTO */
    zr_space checkpoint_home;   /* the layout's value, or the choice of ZR_RECOMPUTE_AUTO */
    zr_save save;               /* the layout's value, or the choice of ZR_SAVE_AUTO */
    int ranks;                  /* number of ranks of the grid */
    bool side_by_side;          /* whether streams can run at the same time */
    bool norm_first;            /* whether the whole gradient's norm is known before the first update */
    bool stochastic;            /* whether casts to records round at random (zr_layout.stochastic) */
    bool differences;           /* whether records of parameters have differences (zr_layout.weight_differences) */
    int64_t error_steps;        /* error feedback, as in zr_layout */
    double error_beta;
    int terms;                    /* number of loss terms of the graphs for training and evaluation */
    double losses[ZR_LOSS_TERMS]; /* number of losses of each term in a training step, over all ranks */
    int64_t decode_len;           /* size of the key-value cache in tokens; 0 without the schedule "decode" */
    zr_optimizer optimizer;       /* optimizer; its name is NULL if the plan does not train */
    zr_optimizer rest;            /* optimizer of units that are not orthogonal, if `optimizer` is zr_muon's */
    int n_slots;                  /* number of states of all optimizers together */
    /* whether a unit's gradient is freed in its update, at the end of the unit's backward pass (layout lean) */
    bool consume_grad;
    bool two_levels;  /* whether gradients are summed in two levels, first over the group LOCAL, then over ACROSS */
    bool sum_f32;     /* whether gradients are summed in fp32 accumulators, which the update reads */
    bool reduce_once; /* whether accumulators hold whole units; ranks sum them after the last micro-batch */
    /* with reduce_once: whether a unit's accumulators exist only from its first to its last micro-batch, and ranks sum
     * them at once (stages 2 and 3, if the order runs all micro-batches of a unit before it goes on) */
    bool reduces_early;
    int64_t rounds; /* rounds of a training step: its micro-batches, or 1 if the order mixes them */
    /* with pipeline parallelism: stage of each op of a graph, 0 to stages - 1, or `stages` for the look-up of a table
     * that the last stage uses too, which is done on the last stage's rank; else NULL */
    int32_t *stage[ZR_SCHEDULES];
    int32_t stages;                /* number of stages of the model, of all pipeline ranks */
    zr_pipe_table *table;          /* copy of zr_layout.pipeline_table, or NULL */
    zr_graph *graph[ZR_SCHEDULES]; /* graph of each schedule; NULL for FLUSH, FILL and schedules not requested */
    zr_schedule schedule[ZR_SCHEDULES];
    zr_plan_unit *unit;
    int32_t n_units;
    zr_graph *ortho; /* graph with an op orthogonalize for each size of hidden matrices, or NULL */
    zr_plan_matrix *matrix;
    int32_t n_matrices;
    int64_t ortho_scratch_bytes; /* scratch memory of the largest op of `ortho` */
    int64_t params;              /* Psi, number of parameters */
    int64_t trained;             /* number of parameters that are trained */
    int64_t padding_elems;       /* padding elements of all units together */
    zr_buffer *persistent;       /* buffers of states, caches and results; the first buffers of every schedule */
    int32_t n_persistent;
    int64_t persistent_room;
    bool moves;                 /* whether units are communicated between ranks */
    int32_t staging[ZR_GROUPS]; /* index of each group's staging buffer, or ZR_NONE; read by zr_plan_staging */
    /* buffers of results, or ZR_NONE if absent. `loss`: this rank's loss of each term (zr_exact). `verdict`: a
     * zr_verdict. `numbers`: the values that ranks exchange. `counted`: with several loss terms, for each term how many
     * of its losses count, summed over all ranks (double). `output`: the output of decoding */
    int32_t loss, verdict, numbers, counted, output;
    bool has_stream[ZR_STREAMS]; /* whether a stream has steps; always true for COMPUTE and COMM */
    int32_t passing;             /* buffer in host memory through which states are filled and read */
    int32_t saving;              /* buffer in host memory through which states are saved in place, or ZR_NONE */
    /* bounce buffer in host memory, or ZR_NONE, for transfers from or to disk whose address or length does not allow
     * direct I/O. It has room for up to two transfers in each direction */
    int32_t passing_disk;
    /* buffer in host memory that holds a window for each zr_plan_window, or ZR_NONE if no state is on disk */
    int32_t windows;
    int64_t window_bytes; /* bytes of a window */
    /* maximum bytes of a single transfer from or to disk (zr_homes.block_bytes, or the planner's choice) */
    int64_t disk_block_bytes;
    int disk_depth; /* number of transfers in flight in each direction (zr_homes.depth, or the planner's choice) */
    int64_t persistent_bytes[ZR_SPACES]; /* bytes of persistent buffers; transient buffers have higher offsets */
    /* bytes of each space: for DEVICE the arena, for STAGING at least ZR_STAGING_LEAST per rank */
    int64_t space_bytes[ZR_SPACES];
    zr_memory memory;
    zr_traffic traffic;            /* traffic of one training step, including its flush */
    zr_traffic across[ZR_BORDERS]; /* traffic received across each border by the rank that receives the most */
    /* copied[from][to]: bytes that the steps COPY of one rank copy from one space to another in a training step,
     * without the copies of a save */
    int64_t copied[ZR_SPACES][ZR_SPACES];
    double flops_model; /* model FLOPs of a training step on all ranks of the role, without recomputation */
    double flops_hardware;
} zr_plan;

/** The plans of a run. A role is a set of ranks with the same list of steps, and has a plan over the whole model. */
struct zr_plans {
    zr_plan *role[ZR_ROLES]; /* plan of each role */
    int32_t n;               /* number of roles; zr plans one so far */
    int32_t own;             /* role of this rank */
};

/** Return whether tensor-parallel ranks share each layer. */
static inline bool zr_plan_shares_layers(const zr_plan *plan)
{
    return plan->layout.tensor > 1;
}

/** Return the optimizer of a unit. */
static inline const zr_optimizer *zr_plan_optimizer(const zr_plan *plan, const zr_plan_unit *unit)
{
    return plan->optimizer.ortho.steps > 0 && !unit->orthogonal ? &plan->rest : &plan->optimizer;
}

/** Return the name of a state, counted over all optimizers (zr_plan_unit.first_slot). */
static inline const char *zr_plan_slot_name(const zr_plan *plan, int slot)
{
    const int own = plan->optimizer.n_slots;
    return slot < own ? plan->optimizer.slot_name[slot] : plan->rest.slot_name[slot - own];
}

/** Return the staging buffer of a group's ranks, or ZR_NONE. */
static inline int32_t zr_plan_staging(const zr_plan *plan, int32_t group)
{
    return plan->staging[plan->group[group].same];
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
 * - With orthogonalised directions, each matrix is iterated once, whole, by its owner, from the directions of all ranks
 *   of the group, before its elements are updated by the result.
 * - After an update no step uses the unit's parameters in the space where they are stored.
 * - Squares of a micro-batch's gradient are computed from the whole gradient, before a reduction changes it.
 * - A save writes all elements of each state before the state is updated.
 * - With differences (zr_layout.weight_differences), each is taken from the parameters that ops have read, and added to
 *   them once in a training step.
 * - With error feedback, each element of a gradient is cast once in a training step at each level, with its own error.
 * - A step computes only with device memory; an update by the host's processors, only with host memory. Changes to an
 *   offloaded state are copied home.
 *
 * The proof takes about as long as planning. It is for tests and debug builds. Fail with ZR_ERR_INTERNAL naming the
 * steps and the buffers. */
ZR_API ZR_NODISCARD zr_status zr_plan_check(const zr_plan *plan);

/** Prove that the plans of all roles are correct and fit together: each message that a role receives is sent, in the
 * same order and size, and no role waits forever, whatever the times. Not collective. */
ZR_API ZR_NODISCARD zr_status zr_plans_check(const zr_plans *plans);

#ifdef __cplusplus
}
#endif
#endif
