/**
 * plan/program: the runs of a micro-batch before any step is written.
 * An op runs in the forward pass, in the backward pass, or again for recompute; activation checkpoints are kept and
 * restored. The program is cut into segments, and segments.c decides how long each value lives and when a unit's
 * gradient is complete. No buffers and no streams here.
 */
#ifndef ZR_PLAN_PROGRAM_H
#define ZR_PLAN_PROGRAM_H

#include "zr/plan.h"

/* ---- runs (program.c, recompute.c, checkpoints.c) -------------------------------------------------------------- */

typedef enum zr__role { ZR__FORWARD, ZR__REPLAY, ZR__BACKWARD, ZR__KEEP, ZR__RESTORE } zr__role;
/* A run: an op; or KEEP, which stores a value until the backward pass; or RESTORE, which fetches the value back into a
 * new instance. */
typedef struct zr__run_of {
    int32_t op; /* KEEP, RESTORE: -1 */
    zr__role role;
    zr_value value; /* KEEP, RESTORE */
    int32_t unit;   /* unit of the segment that the run belongs to */
    bool pieces;    /* KEEP, RESTORE: each tensor-parallel rank keeps only its piece */
} zr__run_of;

/* The program of one micro-batch: its runs in order. The backward pass runs once or, where lean needs the norm first,
 * twice. */
typedef struct zr__program {
    zr__run_of *run;
    int32_t n;
    int64_t room;
    int32_t pass_end[2]; /* the first pass holds the forward as well */
    int passes;
    zr_status status;
} zr__program;

zr_status zr__program_make(zr__program *program, const zr_plan *plan, zr_schedule_kind kind);
void zr__program_free(zr__program *program);
void zr__program_emit(zr__program *program, zr__run_of run);
/* Return the op of a run; NULL for KEEP and RESTORE. */
const zr_op *zr__program_op(const zr__program *program, const zr_graph *graph, int32_t run);

/* Rewrite the program so that activation checkpoints are kept from the forward to the backward pass, in pieces or
 * whole, on the device or on the host (checkpoints.c). */
zr_status zr__keep_checkpoints(zr__program *program, const zr_plan *plan, const zr_graph *graph);
/* Return the elements of one tensor-parallel rank's piece of a value; the last rank's piece ends in padding. */
int64_t zr__piece_elems(const zr_plan *plan, const zr_value_info *value);

/* Recompute policies of the first n_first units and of the rest, and how their checkpoints are kept. */
typedef struct zr__mix {
    zr_recompute first, rest;
    int32_t n_first;
    int64_t every;
    bool partition, offload; /* zr_plan's */
} zr__mix;

/* Return how many units, counted from the first, may be recomputed. */
int32_t zr__recompute_units(const zr_plan *plan, const zr_graph *graph);
void zr__recompute_assign(zr_plan *plan, const zr_graph *graph, const zr__mix *mix);
/* Find the values of the forward pass that are not kept for the backward pass: dropped[value]. */
zr_status zr__find_dropped(const zr_plan *plan, const zr_graph *graph, bool *dropped);

/* ---- decisions (segments.c) ------------------------------------------------------------------------------------ */

/* Consecutive runs of one unit. */
typedef struct zr__segment {
    int32_t first, end; /* runs of the program */
    int pass;
} zr__segment;

/* Decisions on a program before its steps are written. Each time that a value is written makes an instance of it, with
 * a place of its own; instances are numbered in the order of writing. */
typedef struct zr__decided {
    const zr_plan *plan;
    const zr_graph *graph;
    zr__program program;
    zr__segment *segment;
    int32_t n_segments, n_instances;
    int32_t *last_use; /* instance -> last run that reads it; the number of runs: used after all runs; -1: no run */
    bool *checkpoint;  /* instance -> written by the forward pass and read by a replay that the policy asks for */
    int32_t *due;      /* (passes, units): segment at whose end the unit is reduced in that pass; -1: never */
    int32_t *consumed; /* (passes, units): segment at whose end the unit's update consumes its gradient
                          (zr_plan.consume_grad); -1: never */
} zr__decided;

zr_status zr__decide(zr__decided *d, const zr_plan *plan, zr_schedule_kind kind);
void zr__decided_free(zr__decided *d);
/* Return the op of a run; NULL for KEEP and RESTORE. */
const zr_op *zr__op_of(const zr__decided *d, int32_t run);
/* Return the unit of a parameter; -1 for any other value. */
int32_t zr__param_unit(const zr_graph *graph, zr_value value);

#endif
