/**
 * The order of windows as arithmetic: no table, so any sample of any epoch costs the same and resuming
 * needs no state.
 */
#ifndef ZR_DATA_ORDER_H
#define ZR_DATA_ORDER_H

#include "zr/base.h"

/** In [0, range): where an epoch's first window begins. range >= 1. */
int64_t zr__order_offset(uint64_t seed, uint32_t epoch, int64_t range);

/** A bijection of [0, n) keyed by (seed, epoch). 1 <= n, 0 <= i < n. */
int64_t zr__order_permute(uint64_t seed, uint32_t epoch, int64_t n, int64_t i);

/** The same as the order in which a block of n samples takes them from several sources. */
int64_t zr__order_mix(uint64_t seed, uint32_t block, int64_t n, int64_t i);

#endif
