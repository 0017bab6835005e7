/*
 * Macros for memory-bound loops.
 *
 * ZR_STREAM_LOOP before a loop limits its vectors to 32 bytes. On Zen 4, a core reads a quarter faster with two 32-byte
 * loads for each cache line than with one 64-byte load, since the prefetcher follows loads.
 *
 * Non-temporal stores (base/number/stream.h) bypass the caches. They are useful only for results that do not overwrite
 * an operand, because the cache lines of an operand are already in the caches.
 */
#ifndef ZR_DEVICE_CPU_STREAM_H
#define ZR_DEVICE_CPU_STREAM_H

#include "base/number/stream.h"
#include "device/cpu/shared/level.h"

#if ZR_VEC > 8
#define ZR_STREAM_LANES 8
#else
#define ZR_STREAM_LANES ZR_VEC
#endif
#define ZR_STREAM_LOOP _Pragma("omp simd simdlen(ZR_STREAM_LANES)")
/* ZR_WIDE_LOOP before a compute-bound loop lets it use vectors of full width. */
#define ZR_WIDE_LOOP _Pragma("omp simd")

/* Minimum bytes of a result that is written by non-temporal stores: several times the size of an L2 cache. */
#define ZR_STREAM_BYTES ((int64_t)4 << 20)

#endif
