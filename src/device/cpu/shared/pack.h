/* Packed operands of a matrix product, stored in the order in which the inner loop reads them. A panel holds a fixed
 * number of rows of A (or columns of B): first their values at k = 0, then at k = 1, and so on. 16-bit values are
 * widened to fp32 during packing. */
#ifndef ZR_DEVICE_CPU_PACK_H
#define ZR_DEVICE_CPU_PACK_H

#include "device/cpu/shared/micro_kernel.h"
#include "device/cpu/shared/transpose.h"

/* Size of the tile of C that stays in registers during the loop over k: ZR_PRODUCT_ROWS rows of ZR_PRODUCT_VECS
 * vectors. A processor with vectors of 16 floats has 32 vector registers, others have 16. A tile with rows of three
 * vectors (48, 24 or 8 columns) needs fewer loads per multiply-add than a square tile, and its columns divide the usual
 * widths of models. One vector holds the rows of one or two panels of A. */
#if ZR_VEC > 4
#define ZR_PRODUCT_ROWS (ZR_VEC / 2)
#define ZR_PRODUCT_VECS 3
#else
#define ZR_PRODUCT_ROWS 4
#define ZR_PRODUCT_VECS 2
#endif
#define ZR_PRODUCT_COLS (ZR_PRODUCT_VECS * ZR_VEC)

/* Load n >= 1 elements from index `at` on into a vector, widened to fp32. If n is less than ZR_VEC, the remaining lanes
 * are 0. */
__attribute__((always_inline)) static inline zr__vec zr__pack_load(const void *data, zr_dtype dtype, int64_t at,
                                                                   int64_t n)
{
    float lane[ZR_VEC] = {0};
    if (n < ZR_VEC) {
        zr__load(lane, data, dtype, at, n);
        return zr__vec_load(lane);
    }
    if (dtype == ZR_F32) return zr__vec_load((const float *)data + at);
#if ZR_VEC >= 8 && defined(__F16C__)
    if (dtype == ZR_F16) return zr__vec_from_f16((const uint16_t *)data + at);
#endif
    if (dtype == ZR_BF16) {
        typedef uint16_t narrow __attribute__((vector_size(ZR_VEC * 2)));
        typedef uint32_t wide __attribute__((vector_size(ZR_VEC * 4)));
        narrow x;
        memcpy(&x, (const uint16_t *)data + at, sizeof x);
        return (zr__vec)(__builtin_convertvector(x, wide) << 16);
    }
    zr__widen(lane, (const uint16_t *)data + at, dtype, ZR_VEC);
    return zr__vec_load(lane);
}

/* Store a vector of rows or columns in the panels. `chunk` is the vector's index along the rows or columns, and k its
 * index along the depth. */
__attribute__((always_inline)) static inline void zr__pack_put(zr__panels_at to, bool is_a, int64_t chunk, int64_t k,
                                                               zr__vec v)
{
    if (!is_a) {
        float *panel = to.out + chunk / ZR_PRODUCT_VECS * ZR_PRODUCT_COLS * to.depth;
        zr__vec_store(panel + k * ZR_PRODUCT_COLS + chunk % ZR_PRODUCT_VECS * ZR_VEC, v);
        return;
    }
    float *panel = to.out + chunk * ZR_VEC * to.depth + k * ZR_PRODUCT_ROWS;
#if ZR_VEC == 16
    _mm256_storeu_ps(panel, _mm512_castps512_ps256((__m512)v));
    _mm256_storeu_ps(panel + ZR_PRODUCT_ROWS * to.depth, _mm512_extractf32x8_ps((__m512)v, 1));
#elif ZR_VEC == 8
    _mm_storeu_ps(panel, _mm256_castps256_ps128((__m256)v));
    _mm_storeu_ps(panel + ZR_PRODUCT_ROWS * to.depth, _mm256_extractf128_ps((__m256)v, 1));
#else
    zr__vec_store(panel, v);
#endif
}

/* Pack an operand that is contiguous along p, the rows of A or the columns of B. Each loop over k packs only a few
 * vectors, so that the processor has few concurrent streams of writes. */
__attribute__((always_inline)) static inline void zr__pack_copy(const zr__side *s, zr_dtype dtype, bool is_a,
                                                                zr__panels_at to, int64_t n, int64_t k0)
{
    enum { GROUP = ZR_PRODUCT_VECS };
    for (int64_t chunk = 0; chunk * ZR_VEC < n; chunk += GROUP) {
        const int64_t at = to.first + chunk * ZR_VEC + k0 * s->depth, left = n - chunk * ZR_VEC;
        for (int64_t k = 0; k < to.depth && left >= GROUP * ZR_VEC; k++)
#pragma GCC unroll 4
            for (int g = 0; g < GROUP; g++)
                zr__pack_put(to, is_a, chunk + g, k,
                             zr__pack_load(s->data, dtype, at + k * s->depth + g * ZR_VEC, ZR_VEC));
        for (int64_t k = 0; k < to.depth && left < GROUP * ZR_VEC; k++)
            for (int g = 0; g * ZR_VEC < left; g++)
                zr__pack_put(to, is_a, chunk + g, k,
                             zr__pack_load(s->data, dtype, at + k * s->depth + g * ZR_VEC, left - g * ZR_VEC));
    }
}

/* Pack an operand that is contiguous along k. Square blocks are transposed in registers. Blocks at the edge repeat the
 * last row or column, but no code reads the repeated values. */
__attribute__((always_inline)) static inline void zr__pack_turn(const zr__side *s, zr_dtype dtype, bool is_a,
                                                                zr__panels_at to, int64_t n, int64_t k0)
{
    for (int64_t chunk = 0; chunk * ZR_VEC < n; chunk++) {
        int64_t row[ZR_VEC];
        for (int64_t r = 0; r < ZR_VEC; r++) row[r] = (to.first + zr__min64(chunk * ZR_VEC + r, n - 1)) * s->along + k0;
        for (int64_t k = 0; k < to.depth; k += ZR_VEC) {
            const int64_t left = to.depth - k;
            zr__vec v[ZR_VEC];
            if (left >= ZR_VEC) {
#pragma GCC unroll 16
                for (int r = 0; r < ZR_VEC; r++) v[r] = zr__pack_load(s->data, dtype, row[r] + k, ZR_VEC);
                zr__vec_transpose(v);
#pragma GCC unroll 16
                for (int i = 0; i < ZR_VEC; i++) zr__pack_put(to, is_a, chunk, k + i, v[i]);
            } else {
                for (int r = 0; r < ZR_VEC; r++) v[r] = zr__pack_load(s->data, dtype, row[r] + k, left);
                zr__vec_transpose(v);
                for (int i = 0; i < left; i++) zr__pack_put(to, is_a, chunk, k + i, v[i]);
            }
        }
    }
}

#define ZR_PACK_AS(s, dtype, is_a, to, n, k0)                                                                          \
    ((s)->along == 1 ? zr__pack_copy(s, dtype, is_a, to, n, k0) : zr__pack_turn(s, dtype, is_a, to, n, k0))

/* Pack n rows of A (or columns of B) from to.first on, for to.depth values of k from k0 on. to.first must be a multiple
 * of s->unit. */
static void zr__pack(const zr__side *s, zr__panels_at to, int64_t n, int64_t k0)
{
    if (s->dtype == ZR_F32 && s->is_a)
        ZR_PACK_AS(s, ZR_F32, true, to, n, k0);
    else if (s->dtype == ZR_F32)
        ZR_PACK_AS(s, ZR_F32, false, to, n, k0);
    else if (s->dtype == ZR_BF16 && s->is_a)
        ZR_PACK_AS(s, ZR_BF16, true, to, n, k0);
    else if (s->dtype == ZR_BF16)
        ZR_PACK_AS(s, ZR_BF16, false, to, n, k0);
    else if (s->is_a)
        ZR_PACK_AS(s, ZR_F16, true, to, n, k0);
    else
        ZR_PACK_AS(s, ZR_F16, false, to, n, k0);
}

#endif
