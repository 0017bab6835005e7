/** engine, internal. */
#ifndef ZR_ENGINE_INTERNAL_H
#define ZR_ENGINE_INTERNAL_H

#include "zr/engine.h"

/* An op with its operands bound to memory. */
typedef struct zr__run {
    const zr_kernel *kernel; /* NULL: not prepared */
    zr_kernel_args args;
} zr__run;

/* A schedule with its operands bound to memory: made once, so that a step only walks. Only RUN steps have more than an
 * index here. */
typedef struct zr__bound {
    const zr_schedule *schedule;
    int32_t *run_of; /* per step: where it stands in `run`; of RUN steps only */
    zr__run *run;
    int32_t n_runs;
    zr_tensor *tensor;        /* operands and outputs of all runs, one after the other */
    void **input;             /* the memory of the host for the graph's inputs */
    int32_t *take, *take_end; /* buffers whose life begins at step i: take[take_end[i-1]] .. take[take_end[i]-1] */
    int32_t *give, *give_end; /* whose life ends there */
    int32_t *awaited;         /* per step: its number among those that another stream waits for; -1: it is none */
    zr_mark *mark[2];         /* by that number: marks of the step's end in this round and in the previous round */
} zr__bound;

/* Bytes that came from other ranks. */
typedef struct zr__moved {
    zr_traffic traffic, across[ZR_BORDERS];
} zr__moved;

/* States on their way out behind a step. */
typedef struct zr__saving {
    zr_sink sink;
    bool prepared;        /* zr__save_prepare was called */
    bool now;             /* behind this training step */
    bool cut;             /* the training step was cut short: later ones do not know that a save goes on */
    _Atomic bool gone;    /* the engine is: nothing is put any more */
    int32_t next;         /* first step of the schedule whose saving steps are still to be issued */
    _Atomic int32_t left; /* steps that put something and have not ended; 0: nothing is on its way */
    /* The saving queue's, while some are left: */
    zr_status status; /* the sink's first failure */
    char text[512];
} zr__saving;

struct zr_engine {
    const zr_plan *plan;
    zr_device *device;
    zr_comm *comm;
    zr_comm *group_comm[ZR_GROUPS_MAX]; /* DATA: comm; of groups that move bytes */
    char *memory[ZR_SPACES];            /* STAGING: NULL, only comm touches it */
    int64_t taken_bytes[ZR_SPACES];     /* bytes really allocated for each */
    int place[ZR_GROUPS_MAX];           /* this rank's place in each group */
    zr_queues queues;                   /* which streams share one */
    zr_queue *queue[ZR_STREAMS];
    zr__bound bound[ZR_SCHEDULES];
    zr_runtime runtime;
    bool stale;   /* parameters in other ranks' shards are from before the last update */
    bool refresh; /* this training step gathers those parameters */
    bool stopped; /* a call between ranks was cut short: memory may still be read and written */

    /* the step in progress */
    zr_schedule_kind kind; /* the schedule that is walked, or was last */
    bool walked;           /* to its end */
    bool failed_elsewhere; /* the walk was stopped by the failure of the comm stream's queue, for which a step waits */
    zr_batch batch;
    zr_batch_fn batch_fn;
    void *batch_arg;
    const zr_step_args *step;
    double mean, scale;     /* 1 / losses of the global batch; the loss scale */
    int32_t updated;        /* units, in this step */
    bool probing;           /* a probe is in progress: the step updates nothing */
    zr_status batch_status; /* the first failure of batch_fn in this walk, and its message */
    char batch_text[512];
    int64_t updates; /* steps that were not skipped: the optimizer's own count */

    zr_watch_fn watch; /* NULL: nobody does */
    void *watch_arg;

    zr_ledger ledger[ZR_SPACES];
    int64_t states_bytes;
    zr__moved moved;
    _Atomic uint64_t parts; /* of states that were filled or read, as the board shows */
    int64_t steps;
    zr__saving saving;
};

zr_status zr__bind(zr_engine *engine, zr_schedule_kind kind);
void zr__unbind(zr__bound *bound);

/* Address of a buffer; of a use on this rank (with `each`: of the range of the group's first rank). */
char *zr__buffer(const zr_engine *engine, const zr_buffer *buffer);
char *zr__use_at(const zr_engine *engine, const zr_schedule *schedule, const zr_use *use);
/* First element of a range on this rank. */
int64_t zr__first(const zr_engine *engine, const zr_range *range);
/* A result in the host's memory; index: a persistent buffer. */
void *zr__result(const zr_engine *engine, int32_t index);

/* ---- the walk (walk.c) ------------------------------------------------------------------------- */

/* Walk a schedule once; all queues but that of SAVE have ended then. */
zr_status zr__walk(zr_engine *engine, zr_schedule_kind kind);
/* Run a task where ops compute, and wait for it. */
zr_status zr__call(zr_engine *engine, zr_status (*run)(void *arg, zr_device *device, int64_t index), void *arg);

/* A step that runs, on the device of its stream's queue. */
typedef struct zr__running {
    zr_engine *engine;
    const zr__bound *bound;
    const zr_step *step;
    const zr_use *use; /* the step's */
    zr_device *device;
    int64_t micro;
    int64_t first, count; /* elements of the step's range: a move's bucket, all of it in any other step */
} zr__running;

/* Address of the step's use, of a move that of the bucket. */
char *zr__at(const zr__running *r, int use);

/* A part of a state was filled, read or saved, as the board shows. */
void zr__moved_part(zr_engine *engine);

/* Elements of a parameter that are in a range of its unit, counted in the unit. */
typedef struct zr__span {
    int64_t begin, end;
} zr__span;
zr__span zr__meet(const zr_engine *engine, const zr_param_info *param, const zr_range *range);
/* The element of the whole parameter that stands at an element of its unit on this rank; -1: padding. *n: at most so
 * many, as many as follow there as well. */
int64_t zr__whole_of(const zr_engine *engine, const zr_param_info *param, int64_t element, int64_t *n);
/* Does this rank read and save it? What all ranks that share a layer have, the first of them does. */
bool zr__passes_param(const zr_engine *engine, const zr_param_info *param);

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

/* Issue a step that is ZR_WHEN_SAVE, with its waits; alone: no walk is in progress, so it waits for steps that save
 * only. */
zr_status zr__issue_saving(zr_engine *engine, int32_t step, bool alone);
/* One that puts something (save.c); how many there are. */
zr_status zr__issue_put(zr_engine *engine, int32_t step);
int32_t zr__count_puts(const zr_plan *plan);
/* Behind the first step memory is taken where copies will go: the first of them does not have to wait for that. */
zr_status zr__save_prepare(zr_engine *engine);
/* Wait until all has gone, whether it was issued or not. */
zr_status zr__save_drain(zr_engine *engine);

#endif
