/**
 * train/watch: observation of training steps while they run. Observers do not change the run. timings.h adds up the
 * times of steps, and trace.h writes these times into a file. After each schedule step the callback zr_observer.reached
 * is called; tests use it to kill a rank in a given phase, such as the backward pass. hang.h finds ranks that are stuck
 * or have ended.
 */
#ifndef ZR_TRAIN_WATCH_H
#define ZR_TRAIN_WATCH_H

#include "train/measure/timings.h"
#include "train/watch/trace.h"

/** Observers of a rank's steps. A zero-initialised struct observes nothing and reads no clock. */
typedef struct zr__watch {
    zr__timings *timings;
    zr__trace *trace;
    bool tracing;                /* whether the current step is traced */
    const zr_observer *observer; /* observer whose callback `reached` is set, or NULL */
    const zr_plan *plan;
    int rank;
    int64_t step;
} zr__watch;

/** Check that all ranks request the same timings and trace. Collective. */
ZR_NODISCARD zr_status zr__watch_same(const zr_observer *observer, zr_comm *comm);
/** Create the timings and the trace that the observer requests. */
ZR_NODISCARD zr_status zr__watch_create(zr__watch *watch, const zr_observer *observer, const zr_plans *plans, int rank);
void zr__watch_destroy(zr__watch *watch);

/** Begin and end the observation of a training step, counted from 0. Evaluations are not observed. */
void zr__watch_begin(zr__watch *watch, zr_engine *engine, int64_t step);
void zr__watch_end(zr__watch *watch, zr_engine *engine, double wall_sec);
/** Discard the records of an aborted step. Call this after zr__watch_end, on every rank. */
void zr__watch_drop(zr__watch *watch);

#endif
