/*
 * Support for memory-bound loops.
 *
 * ZR_STREAM_LOOP before a loop limits its loads to 32 bytes. On Zen 4 a core reads a quarter faster with two loads of
 * 32 bytes for each cache line than with one load of 64 bytes, since the prefetcher follows loads.
 *
 * Stores that bypass the caches (base/number/stream.h) are for results that do not overwrite an operand: an operand's
 * lines are in the cache already.
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
/* Before a loop whose speed arithmetic limits, let the loop use vectors of full width. */
#define ZR_WIDE_LOOP _Pragma("omp simd")

/* Minimum bytes of a result that is stored past the caches: several times a core's second-level cache. */
#define ZR_STREAM_BYTES ((int64_t)4 << 20)

#endif
