/*
 * Products of small packed fp32 blocks, for attention: c += a b. A register tile of ZR_TILE_ROWS x
 * ZR_TILE_VECS vectors stays in registers while it walks the depth; sizes are constants after inlining.
 *
 * b and c are row-major with rows of whole vectors. a has a stride for rows and one for depth, so a
 * transposed block needs no copy.
 */
#ifndef ZR_DEVICE_CPU_TILE_H
#define ZR_DEVICE_CPU_TILE_H

#include "device/cpu/level.h"

/* As many accumulators as leave registers for b and a broadcast: of 32, 16 and 16 registers. */
#if defined(__AVX512F__)
#define ZR_TILE_ROWS 8
#elif defined(__AVX2__)
#define ZR_TILE_ROWS 6
#else
#define ZR_TILE_ROWS 4
#endif
#define ZR_TILE_VECS 2

typedef struct zr__tile_a {
    const float *data;
    int64_t row, depth; /* strides in elements */
} zr__tile_a;

static inline zr__vec zr__vec_all(float x)
{
    const zr__vec zero = {0};
    return x - zero; /* x + zero would be an addition: it turns -0 into 0 */
}

/* c (rows, vecs vectors) [+]= a (rows, depth) b (depth, vecs vectors) */
__attribute__((always_inline)) static inline void zr__tile(int rows, int vecs, int64_t depth, zr__tile_a a,
                                                           const float *b, int64_t ldb, float *c, int64_t ldc, bool add)
{
    zr__vec acc[ZR_TILE_ROWS][ZR_TILE_VECS];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < vecs; v++) acc[r][v] = add ? zr__vec_load(c + r * ldc + v * ZR_VEC) : zr__vec_all(0.0f);
    for (int64_t k = 0; k < depth; k++) {
        zr__vec right[ZR_TILE_VECS];
#pragma GCC unroll 2
        for (int v = 0; v < vecs; v++) right[v] = zr__vec_load(b + k * ldb + v * ZR_VEC);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            zr__vec left = zr__vec_all(a.data[r * a.row + k * a.depth]);
#pragma GCC unroll 2
            for (int v = 0; v < vecs; v++) acc[r][v] = zr__vec_fma(left, right[v], acc[r][v]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < vecs; v++) zr__vec_store(c + r * ldc + v * ZR_VEC, acc[r][v]);
}

/* The last rows of a block, fewer than a tile. */
__attribute__((always_inline)) static inline void zr__tile_rest(int rows, int vecs, int64_t depth, zr__tile_a a,
                                                                const float *b, int64_t ldb, float *c, int64_t ldc,
                                                                bool add)
{
    for (int r = 0; r < rows; r++) {
        zr__tile_a one = {a.data + r * a.row, a.row, a.depth};
        zr__tile(1, vecs, depth, one, b, ldb, c + r * ldc, ldc, add);
    }
}

__attribute__((always_inline)) static inline void zr__tile_column(int vecs, int64_t m, int64_t depth, zr__tile_a a,
                                                                  const float *b, int64_t ldb, float *c, int64_t ldc,
                                                                  bool add)
{
    int64_t i = 0;
    for (; i + ZR_TILE_ROWS <= m; i += ZR_TILE_ROWS) {
        zr__tile_a part = {a.data + i * a.row, a.row, a.depth};
        zr__tile(ZR_TILE_ROWS, vecs, depth, part, b, ldb, c + i * ldc, ldc, add);
    }
    zr__tile_a part = {a.data + i * a.row, a.row, a.depth};
    zr__tile_rest((int)(m - i), vecs, depth, part, b, ldb, c + i * ldc, ldc, add);
}

/* c (m, n) [+]= a (m, depth) b (depth, n); n is a multiple of ZR_VEC. */
__attribute__((always_inline)) static inline void zr__tile_product(int64_t m, int64_t n, int64_t depth, zr__tile_a a,
                                                                   const float *b, int64_t ldb, float *c, int64_t ldc,
                                                                   bool add)
{
    int64_t j = 0;
    for (; j + ZR_TILE_VECS * ZR_VEC <= n; j += ZR_TILE_VECS * ZR_VEC)
        zr__tile_column(ZR_TILE_VECS, m, depth, a, b + j, ldb, c + j, ldc, add);
    if (j < n) zr__tile_column(1, m, depth, a, b + j, ldb, c + j, ldc, add);
}

#endif
