/** Who looks at the steps of a training run while they run: timings, trace, and a test that lets a rank die there. */
#ifndef ZR_TRAIN_WATCH_H
#define ZR_TRAIN_WATCH_H

#include "train/measure/timings.h"
#include "train/watch/trace.h"

/** Zero-initialise: nobody looks, and no clock is read. */
typedef struct zr__watch {
    zr__timings *timings;
    zr__trace *trace;
    bool tracing;                /* this step */
    const zr_observer *observer; /* with `reached`; NULL: without */
    const zr_plan *plan;
    int rank;
    int64_t step;
} zr__watch;

/** Is the same asked for on every rank? Collective. */
ZR_NODISCARD zr_status zr__watch_same(const zr_observer *observer, zr_comm *comm);
/** Make what the observer asks for. */
ZR_NODISCARD zr_status zr__watch_create(zr__watch *watch, const zr_observer *observer, const zr_plan *plan, int rank);
void zr__watch_destroy(zr__watch *watch);

/** Around each optimizer step, from 0; evaluations are not watched. */
void zr__watch_begin(zr__watch *watch, zr_engine *engine, int64_t step);
void zr__watch_end(zr__watch *watch, zr_engine *engine, double wall_sec);
/** After it, on every rank: the step was broken off and counts for nothing. */
void zr__watch_drop(zr__watch *watch);

#endif
