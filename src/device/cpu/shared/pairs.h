/*
 * Products of bf16 operands, for attention. A pair of bf16 values is one word of 32 bits, stored in an array of floats,
 * with the first value in the lower half. An instruction multiplies pairs by pairs, and adds both products to a lane in
 * fp32. The two values of a pair are neighbours along the depth of a product, the dimension that is summed: two
 * elements of a row, or the same column of two rows.
 */
#ifndef ZR_DEVICE_CPU_PAIRS_H
#define ZR_DEVICE_CPU_PAIRS_H

#include "device/cpu/shared/level.h"

/* Whether attention of this level multiplies bf16. */
#if defined(__AVX512BF16__) || defined(__AMX_BF16__)
#define ZR_PAIRS true
#else
#define ZR_PAIRS false
#endif

/* Return c + a_0 b_0 + a_1 b_1 in every lane, for pairs a and b. */
static inline zr__vec zr__vec_dot_pairs(zr__vec a, zr__vec b, zr__vec c)
{
#if defined(__AVX512BF16__)
    return (zr__vec)_mm512_dpbf16_ps((__m512)c, (__m512bh)a, (__m512bh)b);
#else
    const zr__mask x = (zr__mask)a, y = (zr__mask)b, upper = (zr__mask){0} - 65536;
    c = zr__vec_fma((zr__vec)(x << 16), (zr__vec)(y << 16), c);
    return zr__vec_fma((zr__vec)(x & upper), (zr__vec)(y & upper), c);
#endif
}

/* Round two vectors to bf16, and store them one after the other, in ZR_VEC words. */
static inline void zr__narrow_two(float *out, zr__vec a, zr__vec b)
{
#if defined(__AVX512BF16__)
    const __m512bh both = _mm512_cvtne2ps_pbh((__m512)b, (__m512)a);
    memcpy(out, &both, sizeof both);
#else
    float x[2 * ZR_VEC];
    uint16_t narrow[2 * ZR_VEC];
    zr__vec_store(x, a);
    zr__vec_store(x + ZR_VEC, b);
    for (int l = 0; l < 2 * ZR_VEC; l++) narrow[l] = zr_bf16_from_f32(x[l]);
    memcpy(out, narrow, sizeof narrow);
#endif
}

/* Round a run to bf16: out has n / 2 words. n is a multiple of 2 ZR_VEC. out may be x. */
static inline void zr__narrow_run(float *out, const float *x, int64_t n)
{
    for (int64_t j = 0; j < n; j += 2 * ZR_VEC)
        zr__narrow_two(out + j / 2, zr__vec_load(x + j), zr__vec_load(x + j + ZR_VEC));
}

/* Round two runs to bf16 and pair their elements: word j of out is (a[j], b[j]). n is a multiple of ZR_VEC. out may be
 * a or b. */
static inline void zr__narrow_pairs(float *out, const float *a, const float *b, int64_t n)
{
    int64_t j = 0;
#if defined(__AVX512BF16__)
#define ZR_PAIR_OF(l) (16 + (l)) << 16 | (l)
    const __m512i order =
        _mm512_setr_epi32(ZR_PAIR_OF(0), ZR_PAIR_OF(1), ZR_PAIR_OF(2), ZR_PAIR_OF(3), ZR_PAIR_OF(4), ZR_PAIR_OF(5),
                          ZR_PAIR_OF(6), ZR_PAIR_OF(7), ZR_PAIR_OF(8), ZR_PAIR_OF(9), ZR_PAIR_OF(10), ZR_PAIR_OF(11),
                          ZR_PAIR_OF(12), ZR_PAIR_OF(13), ZR_PAIR_OF(14), ZR_PAIR_OF(15));
    for (; j + ZR_VEC <= n; j += ZR_VEC) {
        const __m512bh both = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(b + j), _mm512_loadu_ps(a + j));
        _mm512_storeu_si512(out + j, _mm512_permutexvar_epi16(order, (__m512i)both));
    }
#endif
    for (; j < n; j++) {
        const uint32_t word = zr_bf16_from_f32(a[j]) | (uint32_t)zr_bf16_from_f32(b[j]) << 16;
        memcpy(out + j, &word, sizeof word);
    }
}

/* Pair the elements of two rows of bf16: word j of out is (a[j], b[j]), for j < n. a and b are rows of bf16 stored in
 * arrays of floats. */
static inline void zr__pair_rows(float *restrict out, const float *restrict a, const float *restrict b, int64_t n)
{
    for (int64_t j = 0; j < n; j += 4) {
        uint16_t x[4], y[4];
        uint32_t word[4];
        memcpy(x, (const char *)a + 2 * j, sizeof x);
        memcpy(y, (const char *)b + 2 * j, sizeof y);
        for (int l = 0; l < 4; l++) word[l] = x[l] | (uint32_t)y[l] << 16;
        memcpy(out + j, word, sizeof word);
    }
}

#endif
