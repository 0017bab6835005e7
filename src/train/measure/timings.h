/** Time of training steps by kind of step: recorded by each rank while it trains, and combined over all ranks. */
#ifndef ZR_TRAIN_TIMINGS_H
#define ZR_TRAIN_TIMINGS_H

#include "zr/comm.h"
#include "zr/engine.h"
#include "zr/plan.h"
#include "zr/run.h"

/** Rate that a kind achieves: FLOP/s when it has FLOPs, otherwise bytes/s, of the link or of memory. */
typedef struct zr__timing_rate {
    bool flops;
    double per_sec; /* NaN: it has no amount */
    double of_peak; /* NaN: the peak is not known */
} zr__timing_rate;
zr__timing_rate zr__timing_rate_of(const zr_timings *timings, const zr_timing *kind);

/** Write timings as one JSON object, "timings" of run.json; zr_free it. */
ZR_NODISCARD zr_status zr__timings_json(const zr_timings *timings, char **text);

/** Return rate / peak; NaN: the peak is unknown, or below the rate. A peak below the rate was measured too low (on a
 * busy machine) or does not bound this work (memory's, for data that stay in caches). */
double zr__share_of_peak(double rate, double peak);

typedef struct zr__timings zr__timings;

/** Create the timings of a plan, which is borrowed. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__timings_create(const zr_plan *plan, zr__timings **timings);
void zr__timings_destroy(zr__timings **timings);

/** Record that an optimizer step begins; that one of its schedule steps has run, on any stream's thread; that the
 * optimizer step has ended after wall_sec seconds. */
void zr__timings_begin(zr__timings *timings);
void zr__timings_event(zr__timings *timings, const zr_event *event);
void zr__timings_end(zr__timings *timings, double wall_sec);
/** Discard the optimizer step that has just ended, since it was broken off. */
void zr__timings_drop(zr__timings *timings);

/** Compute the mean, the least and the highest over the ranks of each of n numbers (least, most NULL: not wanted).
 * Collective; comm->table is overwritten. */
ZR_NODISCARD zr_status zr__over_ranks(zr_comm *comm, const double *mine, int64_t n, double *mean, double *least,
                                      double *most);

/** Combine the timings of all ranks, without peaks. Collective; comm->table is overwritten. */
ZR_NODISCARD zr_status zr__timings_collect(const zr__timings *timings, zr_comm *comm, zr_timings *out);

#endif
