/*
 * Product of one row and a matrix of fp32 with the bits of a product on AMX tiles (amx_product.h), for generation of
 * single tokens. As in row_product.h, B is not packed. The parts of its elements are multiplied in vectors, in the
 * order of the tile instruction: for each of the six products of parts, the even and the odd k of a block are summed
 * separately.
 */
#ifndef ZR_DEVICE_CPU_AMX_ROW_H
#define ZR_DEVICE_CPU_AMX_ROW_H

#include "device/cpu/shared/amx_multiply.h"
#include "device/cpu/shared/amx_pack.h"
#include "device/cpu/shared/product_blocks.h"
#include "device/cpu/shared/row_product.h"

#if defined(__AMX_BF16__)

/* Parts of a row's elements. */
typedef struct zr__amx_row_parts {
    float part[ZR_AMX_PARTS][ZR__PRODUCT_DEPTH];
} zr__amx_row_parts;

/* Multiply element `at` of the row by vector x of B, and add each of the six products of parts (terms) to its own sum.
 */
__attribute__((always_inline)) static inline void zr__amx_row_terms(const zr__amx_row_parts *a, int64_t at, zr__vec x,
                                                                    zr__vec sum[ZR_AMX_TERMS])
{
    zr__vec b[ZR_AMX_PARTS];
#pragma GCC unroll 3
    for (int part = 0; part < ZR_AMX_PARTS; part++) b[part] = zr__amx_take_part(&x, part);
#pragma GCC unroll 6
    for (int t = 0; t < ZR_AMX_TERMS; t++)
        sum[t] = zr__vec_fma(zr__vec_splat(a->part[zr__amx_term_a[t]][at]), b[zr__amx_term_b[t]], sum[t]);
}

/* Return acc plus the sums of a block, in order of the terms. */
__attribute__((always_inline)) static inline zr__vec zr__amx_row_add(zr__vec acc, const zr__vec even[ZR_AMX_TERMS],
                                                                     const zr__vec odd[ZR_AMX_TERMS])
{
#pragma GCC unroll 6
    for (int t = 0; t < ZR_AMX_TERMS; t++) acc += even[t] + odd[t];
    return acc;
}

/* Multiply by B whose rows are contiguous. Each pass over the columns reads a block of rows. The rows are prefetched by
 * software, because hardware prefetchers follow fewer streams than a block has rows. */
__attribute__((noinline)) static void zr__amx_row_along(const zr__side *b, const zr__amx_row_parts *a, int64_t k0,
                                                        int64_t depth, int64_t col, int64_t cols, float *sum)
{
    enum { AHEAD = 4 * ZR_VEC };
    memset(sum, 0, (size_t)((cols + ZR_VEC - 1) / ZR_VEC * ZR_VEC) * sizeof(float));
    for (int64_t k = 0; k < depth; k += ZR_AMX_DEPTH) {
        const int64_t rows = zr__min64(ZR_AMX_DEPTH, depth - k);
        const float *from = (const float *)b->data + (k0 + k) * b->depth + col;
        for (int64_t j = 0; j < cols; j += ZR_VEC) {
            const __mmask16 mask = (__mmask16)zr__amx_mask(zr__min64(cols - j, ZR_VEC));
            zr__vec even[ZR_AMX_TERMS] = {{0}}, odd[ZR_AMX_TERMS] = {{0}};
            for (int64_t r = 0; r < rows; r += 2) {
                const float *x = from + r * b->depth + j;
                __builtin_prefetch(x + AHEAD);
                __builtin_prefetch(x + b->depth + AHEAD);
                zr__amx_row_terms(a, k + r, (zr__vec)_mm512_maskz_loadu_ps(mask, x), even);
                if (r + 1 < rows)
                    zr__amx_row_terms(a, k + r + 1, (zr__vec)_mm512_maskz_loadu_ps(mask, x + b->depth), odd);
            }
            zr__vec_store(sum + j, zr__amx_row_add(zr__vec_load(sum + j), even, odd));
        }
    }
}

/* Load 16 elements of k of 16 columns from `from` on, and transpose them. Elements from `left` on, and columns from n
 * on, are 0. Prefetch the same elements of the columns that are `next` elements further. */
__attribute__((always_inline)) static inline void zr__amx_row_turn(zr__vec v[ZR_VEC], const float *from, int64_t ld,
                                                                   int64_t n, int64_t left, int64_t next)
{
    const __mmask16 mask = (__mmask16)zr__amx_mask(zr__min64(left, ZR_VEC));
#pragma GCC unroll 16
    for (int c = 0; c < ZR_VEC; c++) {
        __builtin_prefetch(from + c * ld + next);
        v[c] = c < n ? (zr__vec)_mm512_maskz_loadu_ps(mask, from + c * ld) : zr__vec_splat(0.0f);
    }
    zr__vec_transpose(v);
}

/* Multiply by B whose columns are contiguous. */
__attribute__((noinline)) static void zr__amx_row_turned(const zr__side *b, const zr__amx_row_parts *a, int64_t k0,
                                                         int64_t depth, int64_t col, int64_t cols, float *sum)
{
    for (int64_t j = 0; j < cols; j += ZR_VEC) {
        const float *from = (const float *)b->data + (col + j) * b->along + k0;
        const int64_t next = col + j + 2 * ZR_VEC <= b->n ? ZR_VEC * b->along : 0;
        zr__vec acc = zr__vec_splat(0.0f);
        for (int64_t k = 0; k < depth; k += ZR_AMX_DEPTH) {
            zr__vec even[ZR_AMX_TERMS] = {{0}}, odd[ZR_AMX_TERMS] = {{0}}, v[ZR_VEC];
            for (int64_t h = 0; h < ZR_AMX_DEPTH && k + h < depth; h += ZR_VEC) {
                zr__amx_row_turn(v, from + k + h, b->along, cols - j, depth - k - h, next);
                for (int r = 0; r < ZR_VEC; r += 2) {
                    zr__amx_row_terms(a, k + h + r, v[r], even);
                    zr__amx_row_terms(a, k + h + r + 1, v[r + 1], odd);
                }
            }
            acc = zr__amx_row_add(acc, even, odd);
        }
        zr__vec_store(sum + j, acc);
    }
}

/* Split the elements of a row. Elements up to the next multiple of a vector are 0. */
__attribute__((noinline)) static void zr__amx_row_split(zr__amx_row_parts *parts, const float *a, int64_t depth)
{
    for (int64_t k = 0; k < depth; k += ZR_VEC) {
        zr__vec rest = zr__vec_load_part(a + k, depth - k, 0.0f);
        for (int part = 0; part < ZR_AMX_PARTS; part++)
            zr__vec_store(parts->part[part] + k, zr__amx_take_part(&rest, part));
    }
}

/* Multiply a row by a block of B (zr__micro_kernel.row). */
static void zr__amx_row(const zr__side *b, const float *a, int64_t k0, int64_t depth, int64_t col, int64_t cols,
                        float *sum)
{
    zr__amx_row_parts parts;
    const unsigned mode = zr__amx_flush_denormals();
    zr__amx_row_split(&parts, a, depth);
    if (b->along == 1)
        zr__amx_row_along(b, &parts, k0, depth, col, cols, sum);
    else
        zr__amx_row_turned(b, &parts, k0, depth, col, cols, sum);
    _mm_setcsr(mode);
}

#endif

#endif
