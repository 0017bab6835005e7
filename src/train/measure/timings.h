/** Times of schedule steps, added up for each kind of step. Each rank records times while it trains. Afterwards the
 * times of all ranks are combined. */
#ifndef ZR_TRAIN_TIMINGS_H
#define ZR_TRAIN_TIMINGS_H

#include "zr/run.h"

/** Rate that a kind of step achieves: in FLOP/s if it has FLOPs, otherwise in bytes/s, of the link or of memory. */
typedef struct zr__timing_rate {
    bool flops;
    double per_sec; /* the rate; NaN if the kind has neither FLOPs nor bytes */
    double of_peak; /* the rate as a fraction of the peak; NaN if the peak is unknown */
} zr__timing_rate;
zr__timing_rate zr__timing_rate_of(const zr_timings *timings, const zr_timing *kind);

/** Write timings as a JSON object to *text, for the member "timings" of run.json. Free the text with zr_free. */
ZR_NODISCARD zr_status zr__timings_json(const zr_timings *timings, char **text);

/** Return rate / peak, or NaN if the peak is unknown or below the rate. A measured peak may be too low because the
 * machine was busy. It may also not apply, because data came from caches and not from memory. */
double zr__share_of_peak(double rate, double peak);

typedef struct zr__timings zr__timings;

/** Create the timings of this rank, whose plan is plans->own. Errors: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__timings_create(const zr_plans *plans, zr__timings **timings);
void zr__timings_destroy(zr__timings **timings);

/** Record optimizer steps and their schedule steps. zr__timings_begin begins an optimizer step. zr__timings_event
 * records one execution of a schedule step; any stream's thread may call it. zr__timings_end ends the optimizer step,
 * which took wall_sec seconds. */
void zr__timings_begin(zr__timings *timings);
void zr__timings_event(zr__timings *timings, const zr_event *event);
void zr__timings_end(zr__timings *timings, double wall_sec);
/** Discard the optimizer step that has just ended, because it was aborted. */
void zr__timings_drop(zr__timings *timings);

/** Compute the mean, the minimum and the maximum of each of n numbers over the ranks. `least` and `most` may be NULL.
 * Collective; overwrites comm->table. */
ZR_NODISCARD zr_status zr__over_ranks(zr_comm *comm, const double *mine, int64_t n, double *mean, double *least,
                                      double *most);

/** Combine the timings of all ranks into `out`. The peaks are not set. Collective; overwrites comm->table. */
ZR_NODISCARD zr_status zr__timings_collect(const zr__timings *timings, zr_comm *comm, zr_timings *out);

#endif
