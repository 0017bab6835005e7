/**
 * The order of windows, computed rather than stored: every sample of every epoch costs the same, and resuming needs no
 * saved state.
 */
#ifndef ZR_DATA_ORDER_H
#define ZR_DATA_ORDER_H

#include "zr/base.h"

/** Return the offset of an epoch's first window, in [0, range). range must be at least 1. */
int64_t zr__order_offset(uint64_t seed, uint32_t epoch, int64_t range);

/** Map i to a number in [0, n) by a bijection keyed by (seed, epoch). 1 <= n, 0 <= i < n. */
int64_t zr__order_permute(uint64_t seed, uint32_t epoch, int64_t n, int64_t i);

/** Map i by a bijection keyed by (seed, block), for the order in which a block of n samples draws from several
 * sources. */
int64_t zr__order_mix(uint64_t seed, uint32_t block, int64_t n, int64_t i);

#endif
