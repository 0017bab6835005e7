/*
 * Loops that memory bounds.
 *
 * Loads of at most 32 bytes (ZR_STREAM_LOOP before a loop): on Zen 4 one core reads a quarter faster with two loads a
 * cache line than with one of 64 bytes, since the prefetcher is led by loads.
 *
 * Stores past the caches (zr__stream): a plain store first reads the line that it overwrites, and pushes out another.
 * Only for results that are too large to be read from a cache afterwards, and not in place of an operand: those lines
 * are in the cache already.
 */
#ifndef ZR_DEVICE_CPU_STREAM_H
#define ZR_DEVICE_CPU_STREAM_H

#include "device/cpu/level.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if ZR_VEC > 8
#define ZR_STREAM_LANES 8
#else
#define ZR_STREAM_LANES ZR_VEC
#endif
#define ZR_STREAM_LOOP _Pragma("omp simd simdlen(ZR_STREAM_LANES)")
#define ZR_WIDE_LOOP _Pragma("omp simd") /* where arithmetic bounds, the level's whole vector */

#define ZR_LINE_BYTES 64

/* Results from here on go past the caches: several times a second-level cache, of which every core has one. */
#define ZR_STREAM_BYTES ((int64_t)4 << 20)

static inline void zr__stream_line(char *out, const char *in)
{
#if defined(__AVX512F__)
    _mm512_stream_si512((void *)out, _mm512_loadu_si512(in));
#elif defined(__x86_64__)
    for (int i = 0; i < ZR_LINE_BYTES; i += 16)
        _mm_stream_si128((__m128i *)(void *)(out + i), _mm_loadu_si128((const void *)(in + i)));
#else
    memcpy(out, in, ZR_LINE_BYTES);
#endif
}

/* As memcpy: whole lines past the caches, what lies before and behind them as usual. zr__stream_end must follow on the
 * same thread before others may read `out`. */
static inline void zr__stream(void *out, const void *in, int64_t bytes)
{
    char *to = out;
    const char *from = in;
    int64_t head = zr__min64(bytes, (int64_t)(-(uintptr_t)to % ZR_LINE_BYTES)), i = head;
    memcpy(to, from, (size_t)head);
    for (; i + ZR_LINE_BYTES <= bytes; i += ZR_LINE_BYTES) zr__stream_line(to + i, from + i);
    memcpy(to + i, from + i, (size_t)(bytes - i));
}

/* Such stores reach memory in no order: a lock or a barrier alone does not publish them. */
static inline void zr__stream_end(void)
{
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

#endif
