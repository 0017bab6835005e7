/** plan/program: the ops of one micro-batch in order, and the order of micro-batches, before any step is written.
 *
 * An op of the forward pass may run a second time in the backward pass, for recompute. Entries that are not ops store
 * and restore activation checkpoints. segments.c divides the program into segments. It also decides how long each value
 * lives and when a unit's gradient is complete. orders.c lists the segments of all micro-batches in the order in which
 * they are written. This folder does not use buffers or streams. */
#ifndef ZR_PLAN_PROGRAM_H
#define ZR_PLAN_PROGRAM_H

#include "zr/plan.h"

/* ---- runs (program.c, recompute.c, checkpoints.c) -------------------------------------------------------------- */

typedef enum zr__role { ZR__FORWARD, ZR__REPLAY, ZR__BACKWARD, ZR__KEEP, ZR__RESTORE, ZR__SEND, ZR__RECV } zr__role;

/* Part of a stage's passes that runs as a whole for a micro-batch. */
typedef enum zr__phase {
    ZR__PHASE_F, /* forward pass */
    ZR__PHASE_B, /* backward pass, without W if the schedule runs it apart */
    ZR__PHASE_W  /* gradients of parameters, which no other stage needs */
} zr__phase;

/* An entry of the program. FORWARD, REPLAY and BACKWARD run an op. KEEP copies a value to the home of its checkpoint.
 * RESTORE copies it back into a new instance of the value. SEND passes a value to another role, RECV receives one in a
 * new instance. */
typedef struct zr__run_of {
    int32_t op; /* -1 if the entry runs no op */
    zr__role role;
    zr_value value;     /* value of an entry that runs no op */
    int32_t unit;       /* unit of the run's segment */
    bool pieces;        /* for KEEP and RESTORE: whether a tensor-parallel rank stores only its piece of the value */
    int32_t peer;       /* for SEND and RECV: the other role */
    int32_t peer_stage; /* for SEND: stage that first reads the value; for RECV: stage that makes it */
    int32_t stage;      /* stage of a pipeline, else 0 */
    zr__phase phase;
} zr__run_of;

/* The program of one micro-batch: its runs in order. With lean updates that need the norm first, the backward pass
 * runs twice. */
typedef struct zr__program {
    zr__run_of *run;
    int32_t n;
    int64_t room;
    /* for each pass: index in `run` after its last run; the first pass includes the forward pass */
    int32_t pass_end[2];
    int passes;
    zr__run_of now; /* stage and phase of the runs that are being emitted */
    zr_status status;
} zr__program;

zr_status zr__program_make(zr__program *program, const zr_plan *plan, zr_schedule_kind kind);
void zr__program_free(zr__program *program);
void zr__program_emit(zr__program *program, zr__run_of run);
/* Return the op of a run, or NULL for KEEP and RESTORE. */
const zr_op *zr__program_op(const zr__program *program, const zr_graph *graph, int32_t run);

/* Rewrite the program so that activation checkpoints are stored from the forward to the backward pass. They are stored
 * in pieces or whole, on the device or on the host (checkpoints.c). */
zr_status zr__keep_checkpoints(zr__program *program, const zr_plan *plan, const zr_graph *graph);
/* Return the number of ranks over which values of a layer are cut. */
static inline int64_t zr__cut_ranks(const zr_plan *plan)
{
    return plan->group[ZR_GROUP_TENSOR].size;
}
/* Return the number of elements in one tensor-parallel rank's piece of a value. The last rank's piece may have padding
 * at its end. */
int64_t zr__piece_elems(const zr_plan *plan, const zr_value_info *value);

/* The recompute policies of a plan, and the storage of checkpoints. The first n_first units have the policy `first`,
 * the other units the policy `rest`. */
typedef struct zr__mix {
    zr_recompute first, rest;
    int32_t n_first;
    int64_t every;
    bool partition; /* setting of zr_plan.partition_checkpoints */
    zr_space home;  /* setting of zr_plan.checkpoint_home */
} zr__mix;

/* Return the number of units that may be recomputed: all units before the last unit of the forward pass. */
int32_t zr__recompute_units(const zr_plan *plan, const zr_graph *graph);
void zr__recompute_assign(zr_plan *plan, const zr_graph *graph, const zr__mix *mix);
/* Set dropped[value] to true for each forward value that is not stored for the backward pass. */
zr_status zr__find_dropped(const zr_plan *plan, const zr_graph *graph, bool *dropped);

/* ---- decisions (segments.c) ------------------------------------------------------------------------------------ */

/* A sequence of consecutive runs of one unit, in one phase of a stage. */
typedef struct zr__segment {
    int32_t first, end; /* runs [first, end) of the program */
    int pass;
    int32_t stage;
    zr__phase phase;
    /* [first_unit, end_unit) contains all units whose gradient is reduced or consumed at the end of this segment */
    int32_t first_unit, end_unit;
} zr__segment;

/* A segment of the program for one micro-batch of a round. */
typedef struct zr__cell {
    int32_t segment, micro;
    int32_t visit; /* cells with the same number follow each other, and use the same gathered parameters */
} zr__cell;

/* Decisions about a program, made before its steps are written. Each write of a value makes a new instance, which has
 * its own buffer. Instances are numbered in the order of writing. */
typedef struct zr__decided {
    const zr_plan *plan;
    const zr_graph *graph;
    zr__program program;
    zr__segment *segment;
    int32_t n_segments, n_instances;
    zr__cell *cell; /* in the order in which they are written */
    int32_t n_cells;
    int32_t n_micros; /* number of micro-batches in a round */
    bool splits;      /* whether the pipeline's schedule runs W apart from the rest of a backward pass */
    /* for each instance: last run that reads it; -1 if no run reads it; the number of runs if it is needed after the
     * last run */
    int32_t *last_use;
    int32_t *depth; /* for each run SEND or RECV: number of messages that may be on their way at the same time */
    int32_t *made;  /* for each run: number of the first instance that it writes, or would write */
    /* for each instance: whether it is an activation checkpoint, which means that the forward pass writes it and a
     * replay under a recompute policy reads it */
    bool *checkpoint;
    /* `due[pass][unit]`, as one array: segment at whose end the unit's gradient is reduced, or -1 for never */
    int32_t *due;
    /* `consumed[pass][unit]`, as one array: segment at whose end the unit's update consumes its gradient
     * (zr_plan.consume_grad), or -1 for never */
    int32_t *consumed;
} zr__decided;

zr_status zr__decide(zr__decided *d, const zr_plan *plan, zr_schedule_kind kind);
void zr__decided_free(zr__decided *d);
/* List the cells of a round (orders.c). */
zr_status zr__make_cells(zr__decided *d, zr_schedule_kind kind);
/* Return whether the order runs one micro-batch after the other, so that each may be a round of REPEAT. */
bool zr__micros_alike(const zr_layout *layout);
/* Return the op of a run, or NULL for KEEP and RESTORE. */
const zr_op *zr__op_of(const zr__decided *d, int32_t run);
/* Divide the graph of a schedule into the stages of a pipeline (stages.c), and fill plan->stage[kind]. end[stage]
 * receives the end of the stage's forward segments in the first call, and gives it in later calls. */
zr_status zr__plan_stages(zr_plan *plan, zr_schedule_kind kind, int32_t *end);
/* Return the role that runs an op. */
int32_t zr__op_role(const zr_plan *plan, zr_schedule_kind kind, int32_t op);
/* Return the unit of a value that is a parameter, or -1 for any other value. */
int32_t zr__param_unit(const zr_graph *graph, zr_value value);

#endif
