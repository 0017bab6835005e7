/** Where the time of training steps goes, by kind of step: what one rank gathers while it trains, and what all ranks
 *  make of it. */
#ifndef ZR_TRAIN_TIMINGS_H
#define ZR_TRAIN_TIMINGS_H

#include "zr/train.h"

/** NaN where the peak is not known, also because the rate is above it: then it was measured too low (on a busy machine)
 *  or is not this work's (memory's, for what stays in caches). A share of such a peak would say nothing. */
double zr__share_of_peak(double rate, double peak);

typedef struct zr__timings zr__timings;

/** The plan is borrowed. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__timings_create(const zr_plan *plan, zr__timings **timings);
void zr__timings_destroy(zr__timings **timings);

/** An optimizer step begins; one of its steps has run, on either stream's thread; it has ended after so long. */
void zr__timings_begin(zr__timings *timings);
void zr__timings_event(zr__timings *timings, const zr_event *event);
void zr__timings_end(zr__timings *timings, double wall_sec);
/** The step that has just ended was broken off: it counts for nothing. */
void zr__timings_drop(zr__timings *timings);

/** Of n numbers of each rank the mean over the ranks, the least and the highest (NULL: not wanted). Collective;
 *  comm->table is overwritten. */
ZR_NODISCARD zr_status zr__over_ranks(zr_comm *comm, const double *mine, int64_t n, double *mean, double *least,
                                      double *most);

/** All ranks' steps as one, peaks left out. Collective; comm->table is overwritten. */
ZR_NODISCARD zr_status zr__timings_collect(const zr__timings *timings, zr_comm *comm, zr_timings *out);

#endif
