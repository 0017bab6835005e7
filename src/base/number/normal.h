/**
 * Standard normal numbers by the Box-Muller method, inline so that each processor level (set of vector instructions)
 * has its own compiled version.
 *
 * Only integer operations and fp32 +, -, *, / and sqrt are used, each rounded as IEEE 754 prescribes and never
 * contracted (fused), so the bits are the same at every level. Each series ends where the next term is below a quarter
 * of an fp32 ulp.
 */
#ifndef ZR_BASE_NORMAL_H
#define ZR_BASE_NORMAL_H

#include "base/number/rng.h"

#include <math.h>
#include <string.h>

#define ZR__NORMAL_GROUP (4 * ZR__RNG_BLOCKS)

/** Return ln(1 + f) = 2 atanh(f / (2 + f)) for f in [sqrt(1/2) - 1, sqrt(2) - 1]. */
ZR_INLINE float zr__log1p(float f)
{
    float s = f / (2.0f + f), t = s * s;
    float series = t * (1.0f / 3 + t * (1.0f / 5 + t * (1.0f / 7 + t * (1.0f / 9))));
    return 2.0f * (s + s * series);
}

/** Return `yes` if mask is all ones, or `no` if mask is 0. The selection uses bit operations, because compilers do not
 * vectorise a conditional between floats: the branch that is not chosen could trap. */
ZR_INLINE float zr__choose(uint32_t mask, float yes, float no)
{
    uint32_t a, b;
    memcpy(&a, &yes, sizeof a);
    memcpy(&b, &no, sizeof b);
    a = (a & mask) | (b & ~mask);
    memcpy(&yes, &a, sizeof a);
    return yes;
}

/** Return sqrt(-2 ln u), where u = (h + 1/2) / 2^31 and h is the upper 31 bits of `word`. If u >= sqrt(1/2), 1 - u is
 * computed from the integer, so that small radii are as precise as large ones. Otherwise ln u is computed from u = 2^k
 * (1 + f). */
ZR_INLINE float zr__normal_radius(uint32_t word)
{
    const uint32_t sqrt_half = 0x3F3504F3u, one = 0x3F800000u; /* bit patterns of the floats sqrt(1/2) and 1 */
    int32_t h = (int32_t)(word >> 1);
    float x = (float)h + 0.5f, m;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits += one - sqrt_half;
    int32_t k = (int32_t)(bits >> 23) - 127 - 31;
    bits = (bits & 0x7FFFFFu) + sqrt_half;
    memcpy(&m, &bits, sizeof m);
    float near = ((float)(INT32_MAX - h) + 0.5f) * -0x1p-31f;
    float f = zr__choose(0u - ((uint32_t)k >> 31), m - 1.0f, near);
    float log = (float)k * 0.693147181f + zr__log1p(f);
    return sqrtf(-2.0f * log);
}

/** Compute cosine and sine of the angle 2 pi word / 2^32. Subtract the nearest multiple of a quarter turn, evaluate
 * both series for the rest, and rotate the result by the multiple. */
ZR_INLINE void zr__normal_direction(uint32_t word, float *cosine, float *sine)
{
    uint32_t quarters = (word + 0x20000000u) >> 30, odd = 0u - (quarters & 1);
    float r = (float)(int32_t)(word - (quarters << 30)) * (6.283185307f * 0x1p-32f), t = r * r;
    float c = 1.0f + t * (-1.0f / 2 + t * (1.0f / 24 + t * (-1.0f / 720 + t * (1.0f / 40320 - t * (1.0f / 3628800)))));
    float s = r + r * t * (-1.0f / 6 + t * (1.0f / 120 + t * (-1.0f / 5040 + t * (1.0f / 362880))));
    *cosine = zr__choose(odd, s, c) * (float)(1 - (int32_t)((quarters + 1) & 2));
    *sine = zr__choose(odd, c, s) * (float)(1 - (int32_t)(quarters & 2));
}

/** Write one group of elements, multiplied by `std`, to `out`. Group number `group` begins at element group *
 * ZR__NORMAL_GROUP. Each random block gives four numbers: two from its words 0 and 1, and two from words 2 and 3. `out`
 * receives the first numbers of all blocks, then the second numbers of all blocks, and so on. Vector instructions
 * compute them in this order. */
ZR_INLINE void zr__normal_group(const zr_rng *rng, uint64_t group, float std, float *__restrict out)
{
    uint32_t word[4][ZR__RNG_BLOCKS];
    zr__rng_words(rng, group * ZR__RNG_BLOCKS, word);
    for (int pair = 0; pair < 4; pair += 2) {
        float *first = out + pair * ZR__RNG_BLOCKS, *second = first + ZR__RNG_BLOCKS;
        for (int i = 0; i < ZR__RNG_BLOCKS; i++) {
            float radius = zr__normal_radius(word[pair][i]), c, s;
            zr__normal_direction(word[pair + 1][i], &c, &s);
            first[i] = radius * c * std;
            second[i] = radius * s * std;
        }
    }
}

/** Return std times one element of the standard normal sequence, with the same bits as in zr__normal_group. */
ZR_INLINE float zr__normal_at(const zr_rng *rng, uint64_t element, float std)
{
    uint32_t word[4];
    const uint32_t at = (uint32_t)(element % ZR__NORMAL_GROUP), pair = at / (2 * ZR__RNG_BLOCKS) * 2;
    float c, s;
    zr__rng_block(rng, element / ZR__NORMAL_GROUP * ZR__RNG_BLOCKS + at % ZR__RNG_BLOCKS, word);
    zr__normal_direction(word[pair + 1], &c, &s);
    return zr__normal_radius(word[pair]) * (at / ZR__RNG_BLOCKS % 2 ? s : c) * std;
}

/** Write out[i] = std times element first + i of the standard normal sequence. The bits do not depend on how a range is
 * divided into calls. */
ZR_INLINE void zr__normal(const zr_rng *rng, uint64_t first, int64_t n, float std, float *out)
{
    float made[ZR__NORMAL_GROUP];
    int64_t skip = (int64_t)(first % ZR__NORMAL_GROUP), done = 0;
    for (uint64_t group = first / ZR__NORMAL_GROUP; done < n; group++) {
        int64_t take = ZR__NORMAL_GROUP - skip < n - done ? ZR__NORMAL_GROUP - skip : n - done;
        bool whole = take == ZR__NORMAL_GROUP;
        zr__normal_group(rng, group, std, whole ? out + done : made);
        if (!whole) memcpy(out + done, made + skip, (size_t)take * sizeof(float));
        done += take;
        skip = 0;
    }
}

#endif
