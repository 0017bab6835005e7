/**
 * engine: the state of an engine, a step while it runs, and the functions that the files of this layer share. walk.c
 * issues the steps of a schedule to queues; bind.c gives them their memory, move.c and update.c run the steps of ZeRO,
 * save.c the asynchronous saves.
 */
#ifndef ZR_ENGINE_WALK_H
#define ZR_ENGINE_WALK_H

#include "base/core/core.h"
#include "engine/engine.h"

/* An op with its operands bound to memory. */
typedef struct zr__run {
    const zr_kernel *kernel; /* NULL: not prepared */
    zr_kernel_args args;
} zr__run;

/* A schedule with its operands bound to memory, made once at creation. */
typedef struct zr__bound {
    const zr_schedule *schedule;
    int32_t *run_of; /* per RUN step: its index in `run` */
    zr__run *run;
    int32_t n_runs;
    zr_tensor *tensor;        /* operands and outputs of all runs, run by run */
    void **input;             /* host memory of the graph's inputs */
    int32_t *take, *take_end; /* buffers whose life begins at step i: take[take_end[i-1]] .. take[take_end[i]-1] */
    int32_t *give, *give_end; /* buffers whose life ends at step i */
    int32_t *awaited; /* per step: its number among the steps that another stream waits for; -1: no stream does */
    zr_mark *mark[2]; /* by that number: marks of the step's end, in even and odd rounds */
} zr__bound;

/* Bytes that came from other ranks. */
typedef struct zr__moved {
    zr_traffic traffic, across[ZR_BORDERS];
} zr__moved;

/* An asynchronous save of states. */
typedef struct zr__saving {
    zr_sink sink;
    bool prepared;     /* zr__save_prepare was called */
    bool now;          /* the training step in progress issues the saving steps */
    bool cut;          /* the training step that issues the saving steps failed: the next one drains the save first */
    _Atomic bool gone; /* the engine is being destroyed: nothing is put any more */
    int32_t next;      /* first step of the schedule whose saving steps are still to be issued */
    _Atomic int32_t left; /* SAVE steps that have not ended; 0: no save is in progress */
    zr__failure failed;   /* the sink's first failure; the saving queue's own while left > 0 */
} zr__saving;

struct zr_engine {
    const zr_plan *plan;
    zr_device *device;
    zr_comm *comm;
    zr_comm *group_comm[ZR_GROUPS_MAX]; /* communicators of groups that move bytes; of all ranks: comm */
    char *memory[ZR_SPACES];            /* STAGING: NULL, since only comm uses it */
    int64_t taken_bytes[ZR_SPACES];     /* bytes allocated for each space */
    int place[ZR_GROUPS_MAX];           /* the rank's position within each group */
    zr_queues queues;                   /* numbers of the streams' queues */
    zr_queue *queue[ZR_STREAMS];
    zr__bound bound[ZR_SCHEDULES];
    zr_runtime runtime;
    bool stale;   /* copies of other ranks' shards are older than the last update */
    bool refresh; /* the training step in progress gathers the stale parameters */
    bool stopped; /* a collective was cut short: it may still read and write memory */

    /* the step in progress */
    zr_schedule_kind kind; /* the schedule that is walked, or was last */
    bool walked;           /* the last walk reached its end */
    bool failed_elsewhere; /* the walk was stopped by the failure of the comm stream's queue, for which a step waits */
    zr_batch batch;
    zr_batch_fn batch_fn;
    void *batch_arg;
    const zr_step_args *step;
    double mean, scale;       /* 1 / losses of the global batch; the loss scale */
    int32_t updated;          /* units updated in this step */
    bool probing;             /* a probe is in progress: a step without updates */
    zr__failure batch_failed; /* the first failure of batch_fn in this walk */
    int64_t updates;          /* steps that were not skipped, as the optimizer counts them */

    zr__watch_fn watch; /* NULL: the engine is not watched */
    void *watch_arg;

    zr_ledger ledger[ZR_SPACES];
    int64_t states_bytes;
    zr__moved moved;
    _Atomic uint64_t parts; /* parts of states filled, read or saved so far, shown on the board */
    int64_t steps;
    zr__saving saving;
};

zr_status zr__bind(zr_engine *engine, zr_schedule_kind kind);
void zr__unbind(zr__bound *bound);

/* Return the address of a buffer; of a use on this rank (with `each`: of the range of the group's first rank). */
char *zr__buffer(const zr_engine *engine, const zr_buffer *buffer);
char *zr__use_at(const zr_engine *engine, const zr_schedule *schedule, const zr_use *use);
/* Return the first element of a range on this rank. */
int64_t zr__first(const zr_engine *engine, const zr_range *range);
/* Return a result in host memory; index: a persistent buffer. */
void *zr__result(const zr_engine *engine, int32_t index);

/* ---- the walk (walk.c) ------------------------------------------------------------------------- */

/* Walk a schedule once, and wait for all queues except SAVE's. */
zr_status zr__walk(zr_engine *engine, zr_schedule_kind kind);
/* Run a task on the compute queue, and wait for it. */
zr_status zr__call(zr_engine *engine, zr_status (*run)(void *arg, zr_device *device, int64_t index), void *arg);

/* A step that runs, on the device of its stream's queue. */
typedef struct zr__running {
    zr_engine *engine;
    const zr__bound *bound;
    const zr_step *step;
    const zr_use *use; /* the step's */
    zr_device *device;
    int64_t micro;
    int64_t first, count; /* elements of the step's range: the bucket of a move, else the whole range */
} zr__running;

/* Return the address of a use of the step; for a move, of its bucket. */
char *zr__at(const zr__running *r, int use);

/* Show on the board that a part of a state was filled, read or saved. */
void zr__moved_part(zr_engine *engine);

/* A span of elements of a unit. */
typedef struct zr__span {
    int64_t begin, end;
} zr__span;
/* Return the elements of a parameter that are in a range of its unit. */
zr__span zr__meet(const zr_engine *engine, const zr_param_info *param, const zr_range *range);
/* Return the element of the whole parameter that is at an element of its unit on this rank; -1: padding. *n: the number
 * of elements wanted; lowered to the number that are contiguous in both. */
int64_t zr__whole_of(const zr_engine *engine, const zr_param_info *param, int64_t element, int64_t *n);
/* Return the elements of a parameter in a range of its unit that this rank reads and saves, of its piece of a cut
 * parameter; elements that all tensor-parallel ranks have, on the first one alone. Empty: begin >= end. */
zr__span zr__passed(const zr_engine *engine, const zr_param_info *param, const zr_range *range);

/* Steps that move a unit (move.c). */
zr_status zr__cast(const zr__running *r);
zr_status zr__gather(const zr__running *r);
zr_status zr__broadcast(const zr__running *r);
zr_status zr__reduce(const zr__running *r);

/* Steps that end a unit, and a step (update.c). */
zr_status zr__square(const zr__running *r);
zr_status zr__agree(const zr__running *r);
zr_status zr__norm(const zr__running *r);
zr_status zr__update(const zr__running *r);

/* ---- saving (save.c) --------------------------------------------------------------------------- */

/* Issue a ZR_WHEN_SAVE step with its waits; alone: no walk is in progress, so it waits for other ZR_WHEN_SAVE steps
 * only. */
zr_status zr__issue_saving(zr_engine *engine, int32_t step, bool alone);
/* Run a SAVE step: a task of the saving queue. */
zr_status zr__engine_put(void *engine, zr_device *device, int64_t step);
/* Count the SAVE steps of a plan. */
int32_t zr__count_puts(const zr_plan *plan);
/* Populate the copies' buffers on the saving queue, during the first step, so that the first save does not wait for
 * page faults. */
zr_status zr__save_prepare(zr_engine *engine);
/* Issue the saving steps that are left, and wait until the save has ended. */
zr_status zr__save_drain(zr_engine *engine);

#endif
