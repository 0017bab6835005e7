/**
 * The order of windows, computed rather than stored: any sample of any epoch costs the same, and resuming needs no
 * state.
 */
#ifndef ZR_DATA_ORDER_H
#define ZR_DATA_ORDER_H

#include "zr/base.h"

/** Return where an epoch's first window begins, in [0, range). range >= 1. */
int64_t zr__order_offset(uint64_t seed, uint32_t epoch, int64_t range);

/** Map i by a bijection of [0, n) keyed by (seed, epoch). 1 <= n, 0 <= i < n. */
int64_t zr__order_permute(uint64_t seed, uint32_t epoch, int64_t n, int64_t i);

/** Map i in the same way, for the order in which a block of n samples takes them from several sources. */
int64_t zr__order_mix(uint64_t seed, uint32_t block, int64_t n, int64_t i);

#endif
