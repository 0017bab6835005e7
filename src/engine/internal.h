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
 * index here: with small buckets they are few among many. */
typedef struct zr__bound {
    const zr_schedule *schedule;
    int32_t *run_of; /* per step: where it stands in `run`; of RUN steps only */
    zr__run *run;
    int32_t n_runs;
    zr_tensor *tensor;        /* operands and outputs of all runs, one after the other */
    void **input;             /* the graph's inputs */
    int32_t *take, *take_end; /* buffers whose life begins at step i: take[take_end[i-1]] .. take[take_end[i]-1] */
    int32_t *give, *give_end; /* whose life ends there */
} zr__bound;

typedef struct zr__lanes zr__lanes;

struct zr_engine {
    const zr_plan *plan;
    zr_device *device;
    zr_comm *comm;
    char *arena;
    int64_t arena_taken_bytes; /* what the allocation of the arena really took */
    int64_t stage_bytes;       /* likewise, of the communicator's stage, which only comm touches */
    zr__bound bound[ZR_SCHEDULES];
    zr__lanes *lanes; /* NULL: one thread runs both streams */
    double *scalars;  /* (ranks, norm_scalars) */
    double *squares;  /* (units): of my shard's gradient */
    int32_t *bad;     /* (units): first parameter with a gradient that is not finite, -1 */
    zr_runtime runtime;
    bool stale;   /* parameters of other ranks' shards are those of before the last update */
    bool refresh; /* this step gathers them */
    bool stopped; /* a call between ranks was cut short: the arena may still be read and written */

    /* the step in progress */
    zr_batch batch;
    zr_batch_fn batch_fn;
    void *batch_arg;
    const zr_step_args *step;
    zr_step_result result;
    zr_exact loss;          /* sum over this rank's losses */
    zr_exact exact_squares; /* of `world` */
    double mean, scale;     /* 1 / losses of the global batch; the loss scale */
    float grad_scale;
    int32_t updated;        /* units, in this step */
    bool dry;               /* this step updates nothing, whatever comes out */
    zr_status batch_status; /* the first failure of batch_fn in this walk, and its message */
    char batch_text[512];
    int64_t updates; /* steps that were not skipped: the optimizer's own count */

    zr_watch_fn watch; /* NULL: nobody does */
    void *watch_arg;

    zr_ledger ledger;
    int64_t states_bytes;
    zr_traffic traffic;
    int64_t steps;
};

/* Address of a buffer of the arena. */
char *zr__buffer(const zr_engine *engine, const zr_buffer *buffer);
zr_status zr__bind(zr_engine *engine, zr_schedule_kind kind);
void zr__unbind(zr__bound *bound);

/* ---- the walk (walk.c, lanes.c) --------------------------------------------------------------- */

/* Who walks: a thread that runs one stream's steps beside the other lane's, or, without lanes, the steps of all. */
typedef struct zr__lane {
    zr_engine *engine;
    const zr__bound *bound;
    zr__lanes *lanes;
    zr_stream stream; /* without lanes: COMPUTE */
    zr_device *device;
    int64_t micro, first_row; /* of the batch */
} zr__lane;

zr__lane zr__lane_make(zr_engine *engine, zr__lanes *lanes, zr_stream stream, zr_device *device, zr_schedule_kind kind);
zr_status zr__lane_walk(zr__lane *lane);
/* Walk a schedule once. */
zr_status zr__walk(zr_engine *engine, zr_schedule_kind kind);

zr_status zr__lanes_start(zr_engine *engine, zr__lanes **lanes);
void zr__lanes_stop(zr__lanes **lanes);
zr_status zr__lanes_walk(zr__lanes *lanes, zr_schedule_kind kind);
/* A step of the lane's stream has ended; wait until one of another stream has. Tickets grow along a walk. */
void zr__lane_publish(const zr__lane *lane, int64_t ticket);
zr_status zr__lane_await(const zr__lane *lane, zr_stream stream, int64_t ticket);

/* What a rank owns of a unit, in elements of the unit: its shard, or the whole. */
typedef struct zr__range {
    int64_t first, end;
} zr__range;
zr__range zr__shard(const zr_engine *engine, int32_t unit);
/* Address of an element of a unit in a persistent buffer which holds the shard or the whole. */
char *zr__element(const zr_engine *engine, int32_t buffer, bool shard, int32_t unit, int64_t element, zr_dtype dtype);
/* The summed gradient of a unit in a buffer of the training schedule: where, which part of the unit, in which type. */
typedef struct zr__sums {
    char *data;
    int64_t first; /* element of the unit that stands at `data` */
    zr_dtype dtype;
} zr__sums;
zr__sums zr__gradient_sums(const zr_engine *engine, int32_t unit, int32_t buffer);
char *zr__sums_at(const zr__sums *sums, int64_t element);

/* Address of the buffer that a step's use names. */
char *zr__used(const zr__lane *lane, const zr_step *step, int use);

/* Steps that move a unit (move.c). */
zr_status zr__cast(const zr__lane *lane, const zr_step *step);
zr_status zr__gather(const zr__lane *lane, const zr_step *step);
zr_status zr__gather_grad(const zr__lane *lane, const zr_step *step);
zr_status zr__reduce(const zr__lane *lane, const zr_step *step);

/* Steps that end a unit, and a step (update.c). `buffer`: the unit's summed gradient. */
zr_status zr__square(zr_engine *engine, int32_t unit, int32_t buffer);
zr_status zr__agree(zr_engine *engine, int32_t unit);
zr_status zr__norm(zr_engine *engine);
zr_status zr__update(zr_engine *engine, int32_t unit, int32_t buffer);

#endif
