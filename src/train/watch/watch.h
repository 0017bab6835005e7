/**
 * Observation of a run's training steps while they run: timings, trace, and the observer's `reached`, at which tests
 * kill a rank. This room holds all that looks on while a run goes and changes nothing of it: trace.h writes a file of
 * the steps' times, hang.h finds ranks that are stuck or gone.
 */
#ifndef ZR_TRAIN_WATCH_H
#define ZR_TRAIN_WATCH_H

#include "train/measure/timings.h"
#include "train/watch/trace.h"
#include "zr/comm.h"
#include "zr/engine.h"
#include "zr/plan.h"
#include "zr/run.h"

/** The observers of a rank's steps. Zero-initialised: no observer, and no clock is read. */
typedef struct zr__watch {
    zr__timings *timings;
    zr__trace *trace;
    bool tracing;                /* the current step is traced */
    const zr_observer *observer; /* NULL: it has no `reached` */
    const zr_plan *plan;
    int rank;
    int64_t step;
} zr__watch;

/** Check that timings and trace are asked for alike on every rank. Collective. */
ZR_NODISCARD zr_status zr__watch_same(const zr_observer *observer, zr_comm *comm);
/** Create the timings and the trace that the observer asks for. */
ZR_NODISCARD zr_status zr__watch_create(zr__watch *watch, const zr_observer *observer, const zr_plan *plan, int rank);
void zr__watch_destroy(zr__watch *watch);

/** Begin and end watching a training step (from 0); evaluations are not watched. */
void zr__watch_begin(zr__watch *watch, zr_engine *engine, int64_t step);
void zr__watch_end(zr__watch *watch, zr_engine *engine, double wall_sec);
/** Discard an aborted step, after zr__watch_end, on every rank. */
void zr__watch_drop(zr__watch *watch);

#endif
