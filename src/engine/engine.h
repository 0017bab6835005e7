/** engine: walks through the schedules of a plan on a device, together with the other ranks. zr/engine.h has the public
 * calls; this header adds the calls that only train needs: a training step without update, and the progress of a walk.
 * engine.c creates engines and has the calls that walk through a schedule, state.c fills and reads states, save.c saves
 * them during training steps. walk.h is private to this folder. */
#ifndef ZR_ENGINE_ENGINE_H
#define ZR_ENGINE_ENGINE_H

#include "zr/engine.h"
#include "zr/plan.h"

/** Compute the loss and gradient norm of a step without updating. The call is collective and is not counted as a
 * step. */
ZR_NODISCARD zr_status zr__engine_probe(zr_engine *engine, const zr_step_args *args, zr_step_result *result);

/** Call fn after every step of every schedule, or stop calling if fn is NULL. The queue that ran the step calls fn:
 * calls for one stream come in order, calls for different streams may come at the same time. fn must be quick. It must
 * not call the engine, comm or MPI, and must not read comm's counters, which another thread may be writing. Without fn
 * no clock is read. */
typedef void (*zr__watch_fn)(void *arg, const zr_event *event);
void zr__engine_watch(zr_engine *engine, zr__watch_fn fn, void *arg);

/** Index on the communicator's board (zr__comm_show) of a number that encodes the step which the computing thread began
 * last; zr__engine_shown decodes the number. If another thread makes the calls between ranks, the next index holds that
 * thread's number. */
#define ZR_ENGINE_SHOWN 0

/** Index on the board of a number that changes whenever a part of a state was filled or read, so that long transfers
 * visibly progress. Between calls of the engine, other code may also increase the number. */
#define ZR_ENGINE_MOVED 3
typedef struct zr__engine_at {
    bool walks; /* whether a schedule is being walked */
    zr_schedule_kind schedule;
    int32_t step;  /* index in plan->schedule[schedule].step */
    int64_t micro; /* index of the micro-batch, from 0 */
} zr__engine_at;
zr__engine_at zr__engine_shown(uint64_t number);

#endif
