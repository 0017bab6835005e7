/** engine: walks through the schedules of a plan on a device, together with the other ranks. The public calls are in
 * zr/engine.h. This header adds calls for train: a training step without update, and the progress of a walk. engine.c
 * creates engines and walks through schedules. state.c fills and reads states, and save.c saves them during training
 * steps. shown.c shows the steps on the board. walk.h is private to this folder. */
#ifndef ZR_ENGINE_ENGINE_H
#define ZR_ENGINE_ENGINE_H

#include "zr/engine.h"
#include "zr/plan.h"

/** Compute the loss and the gradient norm of a training step without an update. The call does not count as a training
 * step. Collective. */
ZR_NODISCARD zr_status zr__engine_probe(zr_engine *engine, const zr_step_args *args, zr_step_result *result);

/** Return whether a collective call of the engine has failed on this rank alone. The states may then be updated in
 * part. */
bool zr__engine_failed(const zr_engine *engine);

/** Generate elements of a parameter's initial values (zr_init). A value depends only on the seed and on the element's
 * index in the whole model. This is a zr_fill_fn whose `arg` is the engine, for callers that fill other parameters
 * differently. */
zr_status zr__engine_initial(void *arg, const zr_param_info *param, int64_t first, int64_t n, float *out);

/** Function that the engine calls after every step of every schedule; NULL for no calls. The queue that ran the step
 * makes the call. Calls for one stream come in order, but calls for different streams may come at the same time. fn
 * must be quick, and must not call the engine, comm or MPI. It must not read comm's counters, since another thread may
 * be writing them. If fn is NULL, the engine does not read the clock for each step. */
typedef void (*zr__watch_fn)(void *arg, const zr_event *event);
void zr__engine_watch(zr_engine *engine, zr__watch_fn fn, void *arg);

/** First slot of a rank's board (zr__comm_show) with the steps that its threads began last. Each thread has two
 * slots, which zr__engine_shown decodes. A stream without a thread of its own is shown as the computing thread. */
#define ZR_ENGINE_SHOWN 0
enum { ZR_SHOWN_COMPUTE, ZR_SHOWN_COMM, ZR_SHOWN_SEND, ZR_SHOWN_RECV, ZR_SHOWN_THREADS };

/** Slot of a rank's board for a counter of the parts of model states that the rank has filled, read or saved. Other
 * ranks can thus see that a long transfer progresses. Between calls of the engine, other code may also increase the
 * counter. */
#define ZR_ENGINE_MOVED (ZR_ENGINE_SHOWN + 2 * ZR_SHOWN_THREADS + 1)
typedef struct zr__engine_at {
    bool walks; /* whether a schedule is being walked */
    bool ended; /* if SEND or RECV has a thread: whether the step has ended, and this thread waits for its next one */
    zr_schedule_kind schedule;
    int32_t step;  /* index in plan->schedule[schedule].step of the rank's own plan */
    int64_t micro; /* index of the micro-batch, from 0 */
    zr_step_kind kind;
    int32_t about; /* for RUN: the op; otherwise the unit, or -1 */
    int32_t peer, stage;
    char action; /* zr_step.peer, .stage and .action */
} zr__engine_at;
/** Decode the slots `shown` of a board (zr_comm_board) for one of the threads. */
zr__engine_at zr__engine_shown(const uint64_t *shown, int thread);

/** Write the name of a cell of a pipeline, in the notation of a table, such as "cell 1B3" for the backward pass of
 * stage 1 for micro-batch 3, counted from 0. Without a pipeline (`action` is 0) write the micro-batch, counted from 1.
 * Return `text`. */
#define ZR__CELL_BYTES 48
const char *zr__engine_cell(int32_t stage, char action, int64_t micro, char text[ZR__CELL_BYTES]);

/* Return the name of the way in which disk transfers are made. Set *direct to whether they bypass the page cache.
 * Return NULL if the engine stores nothing on disk. */
const char *zr__engine_transfers(const zr_engine *engine, bool *direct);

/** Return the part of a parameter that this rank passes to callbacks of zr_engine_read and zr_engine_save, for a state
 * such as ZR_STATE_PARAM. The part consists of elements [*first, *first + *n) of the parameter's shape on one rank
 * (zr_param_info.shape). zr_param_place converts such indices to offsets in the whole parameter. Ranks whose elements
 * do not count (zr__counts in walk.h) pass nothing: *n is 0. May be called on any thread. */
void zr__engine_part(const zr_engine *engine, const zr_param_info *param, int state, int64_t *first, int64_t *n);

/** Return whether a single thread makes all calls of comm, in the order of the schedule. If so, batch callbacks may
 * call comm too, if every rank makes the same calls. The result is the same on every rank. */
bool zr__engine_serial(const zr_engine *engine);

#endif
