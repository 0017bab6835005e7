/**
 * base/number: random numbers (rng.h), normally distributed random numbers (normal.h), exact sums (exact.h), search for
 * NaN (finite.h), search in sorted arrays (sorted.h), and copies that bypass the caches (stream.h).
 *
 * This header has the generator Philox-4x32-10 (Salmon et al., SC11), inline so that kernels can vectorise over blocks.
 *
 * The counter has the words block low, block high, step, and purpose << 24 | stream. The key has the words seed low and
 * seed high.
 */
#ifndef ZR_BASE_RNG_H
#define ZR_BASE_RNG_H

#include "zr/base.h"

/** Compute out = Philox(counter, key). The rounds are unrolled, so a loop over blocks becomes SIMD. */
ZR_INLINE void zr__philox(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t key0, uint32_t key1,
                          uint32_t out[4])
{
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#pragma GCC unroll 10
#endif
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ key0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ key1;
        c3 = (uint32_t)p0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/** Write elements 4*block to 4*block+3 of a random sequence to `out`, as uniform 32-bit numbers. */
ZR_INLINE void zr__rng_block(const zr_rng *rng, uint64_t block, uint32_t out[4])
{
    zr__philox((uint32_t)block, (uint32_t)(block >> 32), rng->step, rng->purpose << 24 | (rng->stream & 0xFFFFFFu),
               (uint32_t)rng->seed, (uint32_t)(rng->seed >> 32), out);
}

/** Number of blocks computed at a time. It equals the number of 32-bit elements in the widest vector, of 512 bits. */
#define ZR__RNG_BLOCKS 16

/** Compute word[w][i] = word w of block number `block` + i. */
ZR_INLINE void zr__rng_words(const zr_rng *rng, uint64_t block, uint32_t word[4][ZR__RNG_BLOCKS])
{
    const zr_rng copy = *rng; /* local copy, because the compiler knows that `word` cannot alias it */
    for (int i = 0; i < ZR__RNG_BLOCKS; i++) {
        uint32_t out[4];
        zr__rng_block(&copy, block + (uint64_t)i, out);
        word[0][i] = out[0];
        word[1][i] = out[1];
        word[2][i] = out[2];
        word[3][i] = out[3];
    }
}

#endif
