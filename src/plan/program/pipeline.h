/** The schedules of pipeline parallelism, as lists of actions: one list for each pipeline rank. A list says what the
 * rank does, for which stage of the model and which micro-batch; it knows neither ops nor times. */
#ifndef ZR_PLAN_PIPELINE_H
#define ZR_PLAN_PIPELINE_H

#include "zr/plan.h"

/* Shape of a pipeline. */
typedef struct zr__pipe {
    zr_pipe_schedule schedule;
    int32_t ranks, chunks, micros;
    const zr_pipe_table *table; /* with ZR_PIPELINE_TABLE */
} zr__pipe;

/* Return the pipeline of a layout. */
zr__pipe zr__pipe_of(const zr_layout *layout);
/* Return the number of chunks of a rank if the layout leaves it open. */
int32_t zr__pipe_chunks(const zr_layout *layout);
/* Return whether the schedule runs W apart from the rest of a backward pass. */
bool zr__pipe_splits(const zr__pipe *pipe);
/* Return the pipeline rank that runs a stage. */
int32_t zr__pipe_rank(const zr__pipe *pipe, int32_t stage);
/* Return the stage of a rank's chunk. */
int32_t zr__pipe_stage(const zr__pipe *pipe, int32_t rank, int32_t chunk);
/* Check that the schedule exists for this shape. Errors: ZR_ERR_CONFIG, naming the keys. */
zr_status zr__pipe_check(const zr__pipe *pipe);
/* Return the part of a training step in which a rank is idle by the formula of the schedule, if F, I and W of a stage
 * take the same time and messages none; or NAN where no formula holds. */
double zr__pipe_bubble(const zr__pipe *pipe);
/* Write a rank's actions into `list`, which has room for 3 * micros * chunks. Return their number. */
int32_t zr__pipe_list(const zr__pipe *pipe, int32_t rank, zr_pipe_action *list);

/* ---- tables (table.c) ------------------------------------------------------------------------------------------ */

/* Check that a user's table is a schedule for this shape. Errors: ZR_ERR_CONFIG, naming cells. */
zr_status zr__pipe_check_table(const zr__pipe *pipe);

/* ---- times (times.c) ------------------------------------------------------------------------------------------- */

/* The lists of all ranks with the times of their actions, in units of a forward pass of a stage, if each kind of action
 * but B takes one unit. */
typedef struct zr__timed {
    zr__pipe pipe;
    zr_pipe_action *list; /* lists of all ranks, each with room for `room` actions */
    int32_t room;
    int32_t *begin;       /* for each action of `list`: time at which it begins */
    int32_t *n;           /* for each rank: number of its actions */
    int32_t *timed, *now; /* for each rank: number of actions that have a time, and the time when the last one ends */
    int32_t *ended;       /* read by zr__timed_ended */
} zr__timed;

/* Find the times. If lists wait for each other in a circle, `timed` is less than `n` for some ranks. */
zr_status zr__timed_begin(zr__timed *timed, const zr__pipe *pipe);
void zr__timed_end(zr__timed *timed);
/* Return the time at which the forward or backward pass of a stage for a micro-batch ends; 0 if it has none. For a
 * split backward pass this is the time of I. */
int32_t *zr__timed_ended(const zr__timed *timed, bool forward, int32_t stage, int32_t micro);

#endif
