/** engine: walks through the schedules of a plan on a device, together with the other ranks. The public calls are in
 * zr/engine.h. This header adds calls for train: a training step without update, and the progress of a walk. engine.c
 * creates engines and walks through schedules. state.c fills and reads states, and save.c saves them during training
 * steps. walk.h is private to this folder. */
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

/** Slot of a rank's board (zr__comm_show). It shows the step that the computing thread began last, as a number that
 * zr__engine_shown decodes. If a second thread makes the calls of comm, the next slot shows the second thread's step.
 */
#define ZR_ENGINE_SHOWN 0

/** Slot of a rank's board for a counter of the parts of model states that the rank has filled, read or saved. Other
 * ranks can thus see that a long transfer progresses. Between calls of the engine, other code may also increase the
 * counter. */
#define ZR_ENGINE_MOVED 3
typedef struct zr__engine_at {
    bool walks; /* whether a schedule is being walked */
    zr_schedule_kind schedule;
    int32_t step;  /* index in plan->schedule[schedule].step */
    int64_t micro; /* index of the micro-batch, from 0 */
} zr__engine_at;
zr__engine_at zr__engine_shown(uint64_t number);

/* Return the name of the way in which disk transfers are made. Set *direct to whether they bypass the page cache.
 * Return NULL if the engine stores nothing on disk. */
const char *zr__engine_transfers(const zr_engine *engine, bool *direct);

/** Return the part of a parameter that this rank passes to callbacks of zr_engine_read and zr_engine_save. The part
 * consists of elements [*first, *first + *n) of the parameter's shape on one rank (zr_param_info.shape). zr_param_place
 * converts such indices to offsets in the whole parameter. Ranks whose elements do not count (zr__counts in walk.h)
 * pass nothing: *n is 0. May be called on any thread. */
void zr__engine_part(const zr_engine *engine, const zr_param_info *param, int64_t *first, int64_t *n);

/** Return whether a single thread makes all calls of comm, in the order of the schedule. If so, batch callbacks may
 * call comm too, if every rank makes the same calls. The result is the same on every rank. */
bool zr__engine_serial(const zr_engine *engine);

#endif
