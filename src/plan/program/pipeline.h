/** The schedules of pipeline parallelism, as lists of actions: one list for each pipeline rank. A list says what the
 * rank does, for which stage of the model and which micro-batch; it knows neither ops nor times. */
#ifndef ZR_PLAN_PIPELINE_H
#define ZR_PLAN_PIPELINE_H

#include "zr/plan.h"

/* Shape of a pipeline. */
typedef struct zr__pipe {
    zr_pipe_schedule schedule;
    int32_t ranks, chunks, micros;
} zr__pipe;

/* Return the pipeline of a plan. */
zr__pipe zr__pipe_of(const zr_plan *plan);
/* Return whether a rank can have several chunks with the schedule. */
static inline bool zr__pipe_has_chunks(zr_pipe_schedule schedule)
{
    return schedule == ZR_PIPELINE_INTERLEAVED || schedule == ZR_PIPELINE_BREADTH || schedule == ZR_PIPELINE_ZB_V;
}
/* Return whether the schedule runs W apart from the rest of a backward pass. */
static inline bool zr__pipe_splits(const zr__pipe *pipe)
{
    return pipe->schedule == ZR_PIPELINE_ZB_H1 || pipe->schedule == ZR_PIPELINE_ZB_V;
}
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

#endif
