/*
 * Non-temporal stores, which bypass the caches. An ordinary store first reads the cache line that it overwrites, and
 * evicts another line. Non-temporal stores are faster only for arrays that are too large to be read from a cache
 * afterwards. These functions are compiled for the instruction set of the including file.
 */
#ifndef ZR_BASE_STREAM_H
#define ZR_BASE_STREAM_H

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define ZR_LINE_BYTES 64

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

/* Copy like memcpy, but write whole cache lines by non-temporal stores, and the bytes before and after them by ordinary
 * stores. This thread must call zr__stream_end before another thread reads `out`. */
static inline void zr__stream(void *out, const void *in, int64_t bytes)
{
    char *to = out;
    const char *from = in;
    int64_t head = (int64_t)(-(uintptr_t)to % ZR_LINE_BYTES);
    if (head > bytes) head = bytes;
    int64_t i = head;
    memcpy(to, from, (size_t)head);
    for (; i + ZR_LINE_BYTES <= bytes; i += ZR_LINE_BYTES) zr__stream_line(to + i, from + i);
    memcpy(to + i, from + i, (size_t)(bytes - i));
}

/* Order the preceding stores before later ones. Non-temporal stores are unordered, so a lock or a barrier alone does
 * not make them visible to other threads. */
static inline void zr__stream_end(void)
{
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

#endif
