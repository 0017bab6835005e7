/*
 * Product c (n) = a (k) B (k,n) of one row and a matrix. Generation of single tokens uses it, for example. Memory
 * bandwidth limits its speed. B is not packed, because each element is used only once, and packing would read and write
 * all of B once more.
 *
 * An element of c is summed in the same order as in a larger product (kernels/product.c), so that both give the same
 * bits.
 */
#ifndef ZR_DEVICE_CPU_ROW_PRODUCT_H
#define ZR_DEVICE_CPU_ROW_PRODUCT_H

#include "device/cpu/shared/pack.h"

/* ZR__ROW_COLS: number of columns whose sums stay in the L1 cache during the loop over k. ZR__ROW_STEP: number of rows
 * of B that one pass over the columns reads. */
#define ZR__ROW_COLS ((int64_t)1024)
#define ZR__ROW_STEP 8

/* Add the product of a (rows) and `rows` rows of B to `sum`, in order of k. The rows of B are contiguous. `sum` has
 * `cols` elements, rounded up to whole vectors. */
__attribute__((always_inline)) static inline void zr__row_add(int rows, const zr__side *b, zr_dtype dtype,
                                                              const float *a, int64_t at, int64_t cols, float *sum)
{
    zr__vec left[ZR__ROW_STEP];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) left[r] = zr__vec_splat(a[r]);
    for (int64_t j = 0; j < cols; j += ZR_VEC) {
        zr__vec acc = zr__vec_load(sum + j);
        if (cols - j >= ZR_VEC) {
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++)
                acc = zr__vec_fma(left[r], zr__pack_load(b->data, dtype, at + r * b->depth + j, ZR_VEC), acc);
        } else {
            for (int r = 0; r < rows; r++)
                acc = zr__vec_fma(left[r], zr__pack_load(b->data, dtype, at + r * b->depth + j, cols - j), acc);
        }
        zr__vec_store(sum + j, acc);
    }
}

__attribute__((always_inline)) static inline void zr__row_along(const zr__side *b, zr_dtype dtype, const float *a,
                                                                int64_t k0, int64_t depth, int64_t col, int64_t cols,
                                                                float *sum)
{
    int64_t k = 0;
    memset(sum, 0, (size_t)((cols + ZR_VEC - 1) / ZR_VEC * ZR_VEC) * sizeof(float));
    for (; k + ZR__ROW_STEP <= depth; k += ZR__ROW_STEP)
        zr__row_add(ZR__ROW_STEP, b, dtype, a + k, col + (k0 + k) * b->depth, cols, sum);
    for (; k < depth; k++) zr__row_add(1, b, dtype, a + k, col + (k0 + k) * b->depth, cols, sum);
}

/* Multiply a row by B, whose columns are contiguous. Square blocks of B are transposed in registers. The next block is
 * prefetched by software, because hardware prefetchers cannot follow a stream for each of ZR_VEC columns. */
__attribute__((always_inline)) static inline void zr__row_turned(const zr__side *b, zr_dtype dtype, const float *a,
                                                                 int64_t k0, int64_t depth, int64_t col, int64_t cols,
                                                                 float *sum)
{
    for (int64_t j = 0; j < cols; j += ZR_VEC) {
        const bool more = col + j + 2 * ZR_VEC <= b->n;
        const int64_t next = more ? ZR_VEC * b->along * zr_dtype_bytes(dtype) : 0;
        int64_t row[ZR_VEC];
        for (int64_t r = 0; r < ZR_VEC; r++) row[r] = zr__min64(col + j + r, b->n - 1) * b->along + k0;
        zr__vec acc = zr__vec_splat(0.0f), v[ZR_VEC];
        int64_t k = 0;
        for (; k + ZR_VEC <= depth; k += ZR_VEC) {
#pragma GCC unroll 16
            for (int r = 0; r < ZR_VEC; r++) {
                __builtin_prefetch((const char *)b->data + (row[r] + k) * zr_dtype_bytes(dtype) + next);
                v[r] = zr__pack_load(b->data, dtype, row[r] + k, ZR_VEC);
            }
            zr__vec_transpose(v);
#pragma GCC unroll 16
            for (int i = 0; i < ZR_VEC; i++) acc = zr__vec_fma(zr__vec_splat(a[k + i]), v[i], acc);
        }
        if (k < depth) {
            for (int r = 0; r < ZR_VEC; r++) v[r] = zr__pack_load(b->data, dtype, row[r] + k, depth - k);
            zr__vec_transpose(v);
            for (int i = 0; i < depth - k; i++) acc = zr__vec_fma(zr__vec_splat(a[k + i]), v[i], acc);
        }
        zr__vec_store(sum + j, acc);
    }
}

#define ZR_ROW_AS(b, dtype, ...)                                                                                       \
    ((b)->along == 1 ? zr__row_along(b, dtype, __VA_ARGS__) : zr__row_turned(b, dtype, __VA_ARGS__))

/* Multiply a row by a block of B: sum[j] = sum over k < depth of a[k] * B[k0 + k][col + j], for j < cols. cols is at
 * most ZR__ROW_COLS. `sum` must have room for cols rounded up to whole vectors. */
static void zr__row_stretch(const zr__side *b, const float *a, int64_t k0, int64_t depth, int64_t col, int64_t cols,
                            float *sum)
{
    if (b->dtype == ZR_F32)
        ZR_ROW_AS(b, ZR_F32, a, k0, depth, col, cols, sum);
    else if (b->dtype == ZR_BF16)
        ZR_ROW_AS(b, ZR_BF16, a, k0, depth, col, cols, sum);
    else
        ZR_ROW_AS(b, ZR_F16, a, k0, depth, col, cols, sum);
}

#endif
