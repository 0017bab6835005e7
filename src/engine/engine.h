/**
 * engine: walks the schedules of a plan on a device, with the other ranks. The public calls are in zr/engine.h; this
 * header adds what train needs besides: a step without update, and the progress of a walk. engine.c creates engines and
 * has the calls that walk a schedule, state.c fills and reads states, save.c saves them during training steps; walk.h
 * is for this layer's files.
 */
#ifndef ZR_ENGINE_ENGINE_H
#define ZR_ENGINE_ENGINE_H

#include "zr/engine.h"
#include "zr/plan.h"

/** Compute the loss and gradient norm of a step, without an update. It is not counted as a step. Collective. */
ZR_NODISCARD zr_status zr__engine_probe(zr_engine *engine, const zr_step_args *args, zr_step_result *result);

/** Call fn after every step of every schedule; NULL: stop calling. The queue that ran the step calls it: calls for one
 *  stream come in order, calls for different streams may come at once. fn must be quick, and may call neither the
 *  engine nor comm or MPI, nor read comm's counters, which another thread may be writing. Without fn no clock is read.
 */
typedef void (*zr__watch_fn)(void *arg, const zr_event *event);
void zr__engine_watch(zr_engine *engine, zr__watch_fn fn, void *arg);

/** Index on the communicator's board (zr__comm_show) of the step that has begun last, for the computing thread; where
 *  calls between ranks run on another thread, the next index is that thread's. zr__engine_shown decodes the number. */
#define ZR_ENGINE_SHOWN 0

/** Index on the board of a number that changes whenever a part of a state was filled or read, so that long transfers
 *  are seen to progress; others may count on it between calls of the engine. */
#define ZR_ENGINE_MOVED 3
typedef struct zr__engine_at {
    bool walks; /* false: in no schedule */
    zr_schedule_kind schedule;
    int32_t step;  /* in plan->schedule[schedule].step */
    int64_t micro; /* micro-batch, from 0 */
} zr__engine_at;
zr__engine_at zr__engine_shown(uint64_t number);

#endif
