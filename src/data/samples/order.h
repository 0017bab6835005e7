/**
 * Computes the order of windows from the seed, instead of storing a permutation. A sample of any epoch takes the same
 * time, and resuming needs no saved state.
 */
#ifndef ZR_DATA_ORDER_H
#define ZR_DATA_ORDER_H

#include "zr/base.h"

/** Return the offset of an epoch's first window, in [0, range). range must be at least 1. */
int64_t zr__order_offset(uint64_t seed, uint32_t epoch, int64_t range);

/** Map i to a number in [0, n) by a permutation that depends on seed and epoch. Required: 0 <= i < n. */
int64_t zr__order_permute(uint64_t seed, uint32_t epoch, int64_t n, int64_t i);

/** Map i to a number in [0, n) by a permutation that depends on seed and block. In a block of n samples, this
 * permutation shuffles the sources from which the samples are drawn. */
int64_t zr__order_mix(uint64_t seed, uint32_t block, int64_t n, int64_t i);

#endif
