/** plan/program: the runs of one micro-batch, before any step is written.
 *
 * An op runs in the forward pass, in the backward pass, or once more for recompute; activation checkpoints are stored
 * and restored. The program is divided into segments; segments.c decides how long each value lives and when a unit's
 * gradient is complete. This folder knows no buffers and no streams. */
#ifndef ZR_PLAN_PROGRAM_H
#define ZR_PLAN_PROGRAM_H

#include "zr/plan.h"

/* ---- runs (program.c, recompute.c, checkpoints.c) -------------------------------------------------------------- */

typedef enum zr__role { ZR__FORWARD, ZR__REPLAY, ZR__BACKWARD, ZR__KEEP, ZR__RESTORE } zr__role;
/* An entry of the program: an op to run; or KEEP, which stores a value until the backward pass; or RESTORE, which loads
 * the stored value into a new instance. */
typedef struct zr__run_of {
    int32_t op; /* -1 for KEEP and RESTORE */
    zr__role role;
    zr_value value; /* for KEEP and RESTORE: the value to store or load */
    int32_t unit;   /* unit of the run's segment */
    bool pieces;    /* for KEEP and RESTORE: whether each tensor-parallel rank stores only its piece of the value */
} zr__run_of;

/* The program of one micro-batch: its runs in order. The backward pass runs once, or twice if the norm must be known
 * before a lean update. */
typedef struct zr__program {
    zr__run_of *run;
    int32_t n;
    int64_t room;
    int32_t pass_end[2]; /* end of each pass; the first pass includes the forward pass */
    int passes;
    zr_status status;
} zr__program;

zr_status zr__program_make(zr__program *program, const zr_plan *plan, zr_schedule_kind kind);
void zr__program_free(zr__program *program);
void zr__program_emit(zr__program *program, zr__run_of run);
/* Return the op of a run, or NULL for KEEP and RESTORE. */
const zr_op *zr__program_op(const zr__program *program, const zr_graph *graph, int32_t run);

/* Rewrite the program so that activation checkpoints are stored from the forward to the backward pass: in pieces or
 * whole, on the device or on the host (checkpoints.c). */
zr_status zr__keep_checkpoints(zr__program *program, const zr_plan *plan, const zr_graph *graph);
/* Return the number of elements in one tensor-parallel rank's piece of a value. The last rank's piece may end in
 * padding. */
int64_t zr__piece_elems(const zr_plan *plan, const zr_value_info *value);

/* Two recompute policies (for the first n_first units and for the remaining units), and how checkpoints are stored. */
typedef struct zr__mix {
    zr_recompute first, rest;
    int32_t n_first;
    int64_t every;
    bool partition, offload; /* zr_plan.partition_checkpoints and zr_plan.offload_checkpoints */
} zr__mix;

/* Return the number of units, from the first on, that may be recomputed. */
int32_t zr__recompute_units(const zr_plan *plan, const zr_graph *graph);
void zr__recompute_assign(zr_plan *plan, const zr_graph *graph, const zr__mix *mix);
/* Set dropped[value] to true for each value of the forward pass that is not stored for the backward pass. */
zr_status zr__find_dropped(const zr_plan *plan, const zr_graph *graph, bool *dropped);

/* ---- decisions (segments.c) ------------------------------------------------------------------------------------ */

/* A sequence of consecutive runs of one unit. */
typedef struct zr__segment {
    int32_t first, end; /* runs [first, end) of the program */
    int pass;
} zr__segment;

/* Decisions about a program, made before its steps are written. Each write of a value makes a new instance with its own
 * buffer; instances are numbered in the order of writing. */
typedef struct zr__decided {
    const zr_plan *plan;
    const zr_graph *graph;
    zr__program program;
    zr__segment *segment;
    int32_t n_segments, n_instances;
    int32_t *last_use; /* by instance: last run that reads it; the number of runs if the instance is used after all
                          runs; -1 if no run reads it */
    bool *checkpoint; /* by instance: whether the forward pass writes it and a replay required by the policy reads it */
    int32_t *due;     /* [pass][unit]: the unit is reduced at the end of this segment, or never if -1 */
    int32_t *consumed; /* [pass][unit]: the unit's update consumes its gradient (zr_plan.consume_grad) at the end of
                          this segment, or never if -1 */
} zr__decided;

zr_status zr__decide(zr__decided *d, const zr_plan *plan, zr_schedule_kind kind);
void zr__decided_free(zr__decided *d);
/* Return the op of a run, or NULL for KEEP and RESTORE. */
const zr_op *zr__op_of(const zr__decided *d, int32_t run);
/* Return the unit of a value that is a parameter, or -1 for any other value. */
int32_t zr__param_unit(const zr_graph *graph, zr_value value);

#endif
