/*
 * Products of small packed fp32 blocks, c = a b or c += a b, for attention. A tile of ZR_TILE_ROWS x ZR_TILE_VECS
 * vectors stays in registers during the loop over the depth, the summed dimension. Functions are inlined, so that sizes
 * of tiles are compile-time constants.
 *
 * b and c are row-major, and their rows are whole vectors. a has one stride for rows and one for the depth, so that a
 * transposed block needs no copy. In a block on the diagonal of the causal mask, tiles that are fully masked are
 * skipped.
 *
 * With `pairs`, which is a constant of the call, a and b hold pairs of bf16 (pairs.h) along the depth: strides and rows
 * of a and b count pairs. The depth and bands still count elements. Rows of a are contiguous along the depth, which is
 * padded with zeros to a multiple of ZR_PAIR_DEPTH in memory. a and c have memory for a multiple of ZR_PAIR_EXTRA rows.
 */
#ifndef ZR_DEVICE_CPU_TILE_H
#define ZR_DEVICE_CPU_TILE_H

#include "device/cpu/shared/amx_multiply.h"
#include "device/cpu/shared/pairs.h"

/* Size of a tile. Besides its accumulators, vector registers must remain for b and for a broadcast element of a. A
 * processor with vectors of 16 floats has 32 vector registers, others have 16. */
#if defined(__AVX512F__)
#define ZR_TILE_ROWS 8
#elif defined(__AVX2__)
#define ZR_TILE_ROWS 6
#else
#define ZR_TILE_ROWS 4
#endif
#define ZR_TILE_VECS 2

/* Sizes for products of pairs: rows of a tile (ROWS), elements of the depth that are read at a time (DEPTH), and rows
 * of the smaller tiles that process the remaining rows (EXTRA). */
#if defined(__AMX_BF16__)
#define ZR_PAIR_ROWS (2 * ZR_AMX_SIDE)
#define ZR_PAIR_DEPTH ZR_AMX_DEPTH
#define ZR_PAIR_EXTRA ZR_AMX_SIDE
#else
#define ZR_PAIR_ROWS ZR_TILE_ROWS
#define ZR_PAIR_DEPTH 2
#define ZR_PAIR_EXTRA 1
#endif

/* Begin or end products of pairs in a thread. */
static inline void zr__pairs_begin(void)
{
#if defined(__AMX_BF16__)
    zr__amx_begin();
#endif
}

static inline void zr__pairs_end(void)
{
#if defined(__AMX_BF16__)
    zr__amx_end();
#endif
}

typedef struct zr__tile_a {
    const float *data;
    int64_t row, depth; /* strides of rows and of the depth, in elements */
} zr__tile_a;

#if defined(__AMX_BF16__)
/* Compute a tile of a product of pairs in AMX tiles: c (rows, vecs vectors) = a (rows, depth) b (depth, vecs vectors),
 * or add the product to c if `add`. The rows are 16 or 32, and the depth is a multiple of 16 pairs. */
__attribute__((always_inline)) static inline void zr__tile_amx(int rows, int vecs, int64_t depth, zr__tile_a a,
                                                               const float *b, int64_t ldb, float *c, int64_t ldc,
                                                               bool add)
{
    const bool low = rows > ZR_AMX_SIDE, right = vecs > 1;
    const zr__amx_operands o = {.a = a.data,
                                .b = b,
                                .a_row = sizeof *a.data * (size_t)a.row,
                                .b_row = sizeof *b * (size_t)ldb,
                                .a_half = ZR_AMX_SIDE * a.row,
                                .b_half = ZR_AMX_SIDE,
                                .a_block = ZR_AMX_SIDE,
                                .b_block = ZR_AMX_SIDE * ldb,
                                .two_rows = low,
                                .two_cols = right};
    if (add)
        zr__amx_load(low, right, c, ldc);
    else
        zr__amx_zero(low, right);
    if (depth > 0) zr__amx_add(&o, false, depth / ZR_AMX_SIDE);
    zr__amx_store(low, right, c, ldc);
}
#endif

/* Compute c (rows, vecs vectors) = a (rows, depth) b (depth, vecs vectors), or add the product to c if `add`. */
__attribute__((always_inline)) static inline void zr__tile(bool pairs, int rows, int vecs, int64_t depth, zr__tile_a a,
                                                           const float *b, int64_t ldb, float *c, int64_t ldc, bool add)
{
#if defined(__AMX_BF16__)
    if (pairs) {
        zr__tile_amx(rows, vecs, depth, a, b, ldb, c, ldc, add);
        return;
    }
#endif
    zr__vec acc[ZR_TILE_ROWS][ZR_TILE_VECS];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < vecs; v++) acc[r][v] = add ? zr__vec_load(c + r * ldc + v * ZR_VEC) : zr__vec_splat(0.0f);
    for (int64_t k = 0; k < depth; k++) {
        zr__vec right[ZR_TILE_VECS];
#pragma GCC unroll 2
        for (int v = 0; v < vecs; v++) right[v] = zr__vec_load(b + k * ldb + v * ZR_VEC);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            zr__vec left = zr__vec_splat(a.data[r * a.row + k * a.depth]);
#pragma GCC unroll 2
            for (int v = 0; v < vecs; v++)
                acc[r][v] =
                    pairs ? zr__vec_dot_pairs(left, right[v], acc[r][v]) : zr__vec_fma(left, right[v], acc[r][v]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < vecs; v++) zr__vec_store(c + r * ldc + v * ZR_VEC, acc[r][v]);
}

/* Band of a that takes part in a product: elements a(i, k) with i - below <= k < i + above. Elements outside the band
 * count as 0. The loops skip a k only if it is outside the band for all rows of a tile. Elements outside the band that
 * are not skipped must therefore be 0 in memory. */
typedef struct zr__tile_band {
    int64_t below, above;
} zr__tile_band;

/* Multiply the rows [i, i + rows) of a by b, over the part of the depth that the band covers. */
__attribute__((always_inline)) static inline void zr__tile_rows(bool pairs, int rows, int vecs, int64_t i,
                                                                int64_t depth, zr__tile_a a, zr__tile_band band,
                                                                const float *b, int64_t ldb, float *c, int64_t ldc,
                                                                bool add)
{
    int64_t begin = i > band.below ? i - band.below : 0, end = zr__min64(depth, i + rows - 1 + band.above);
    if (pairs) {
        begin = begin / ZR_PAIR_DEPTH * (ZR_PAIR_DEPTH / 2);
        end = (end + ZR_PAIR_DEPTH - 1) / ZR_PAIR_DEPTH * (ZR_PAIR_DEPTH / 2);
    }
    zr__tile_a part = {a.data + i * a.row + begin * a.depth, a.row, a.depth};
    zr__tile(pairs, rows, vecs, end - begin, part, b + begin * ldb, ldb, c + i * ldc, ldc, add);
}

/* Multiply the rows [from, m) of a by b. Whole tiles come first, and tiles of ZR_PAIR_EXTRA rows, or of 4, 2 and 1
 * rows, process the remaining rows. */
__attribute__((always_inline)) static inline void zr__tile_column(bool pairs, int vecs, int64_t from, int64_t m,
                                                                  int64_t depth, zr__tile_a a, zr__tile_band band,
                                                                  const float *b, int64_t ldb, float *c, int64_t ldc,
                                                                  bool add)
{
    const int whole = pairs ? ZR_PAIR_ROWS : ZR_TILE_ROWS;
    int64_t i = from;
    for (; i + whole <= m; i += whole) zr__tile_rows(pairs, whole, vecs, i, depth, a, band, b, ldb, c, ldc, add);
    if (pairs && ZR_PAIR_EXTRA > 1) {
        for (; i < m; i += ZR_PAIR_EXTRA)
            zr__tile_rows(pairs, ZR_PAIR_EXTRA, vecs, i, depth, a, band, b, ldb, c, ldc, add);
        return;
    }
#pragma GCC unroll 3
    for (int rows = 4; rows > 0; rows /= 2)
        if (rows < ZR_TILE_ROWS && i + rows <= m) {
            zr__tile_rows(pairs, rows, vecs, i, depth, a, band, b, ldb, c, ldc, add);
            i += rows;
        }
}

/* Compute c (m, n) = a (m, depth) b (depth, n) over the band of a, or add the product to c if `add`. n is a multiple of
 * ZR_VEC. */
__attribute__((always_inline)) static inline void zr__tile_product(bool pairs, int64_t m, int64_t n, int64_t depth,
                                                                   zr__tile_a a, zr__tile_band band, const float *b,
                                                                   int64_t ldb, float *c, int64_t ldc, bool add)
{
    int64_t j = 0;
    for (; j + ZR_TILE_VECS * ZR_VEC <= n; j += ZR_TILE_VECS * ZR_VEC)
        zr__tile_column(pairs, ZR_TILE_VECS, 0, m, depth, a, band, b + j, ldb, c + j, ldc, add);
    if (j < n) zr__tile_column(pairs, 1, 0, m, depth, a, band, b + j, ldb, c + j, ldc, add);
}

/* Compute c (m, n) = a (m, depth) b (depth, n), or add the product to c if `add`, where the elements (k, j) of b with j
 * >= k + above count as 0. The loops skip a k only if all columns j of a tile have j >= k + above. Elements that count
 * as 0 but are not skipped must therefore be 0 in memory. n is a multiple of ZR_VEC. */
__attribute__((always_inline)) static inline void zr__tile_upper(bool pairs, int64_t m, int64_t n, int64_t depth,
                                                                 zr__tile_a a, const float *b, int64_t ldb, float *c,
                                                                 int64_t ldc, int64_t above, bool add)
{
    const int64_t step = pairs ? ZR_PAIR_DEPTH : 1;
    const zr__tile_band all = {m, depth};
    for (int64_t j = 0; j < n; j += ZR_TILE_VECS * ZR_VEC) {
        const int64_t first = j < above ? 0 : (j - above + 1) / step * step, row = pairs ? first / 2 : first;
        const zr__tile_a part = {a.data + row * a.depth, a.row, a.depth};
        const float *from = b + row * ldb + j;
        if (j + ZR_TILE_VECS * ZR_VEC <= n)
            zr__tile_column(pairs, ZR_TILE_VECS, 0, m, depth - first, part, all, from, ldb, c + j, ldc, add);
        else
            zr__tile_column(pairs, 1, 0, m, depth - first, part, all, from, ldb, c + j, ldc, add);
    }
}

/* Return the first row of the tile that contains row i, where i is the smallest row with j < i + above. */
static inline int64_t zr__tile_first(bool pairs, int64_t j, int64_t above)
{
    const int64_t i = j - above + 1, rows = pairs ? ZR_PAIR_ROWS : ZR_TILE_ROWS;
    return i > 0 ? i / rows * rows : 0;
}

/* Compute c (m, n) = a (m, depth) b (depth, n) in every tile that contains an element (i, j) with j < i + above. Other
 * tiles of c keep their values. */
__attribute__((always_inline)) static inline void zr__tile_lower(bool pairs, int64_t m, int64_t n, int64_t depth,
                                                                 zr__tile_a a, const float *b, int64_t ldb, float *c,
                                                                 int64_t ldc, int64_t above)
{
    const zr__tile_band all = {m, depth};
    int64_t j = 0;
    for (; j + ZR_TILE_VECS * ZR_VEC <= n; j += ZR_TILE_VECS * ZR_VEC)
        zr__tile_column(pairs, ZR_TILE_VECS, zr__tile_first(pairs, j, above), m, depth, a, all, b + j, ldb, c + j, ldc,
                        false);
    if (j < n)
        zr__tile_column(pairs, 1, zr__tile_first(pairs, j, above), m, depth, a, all, b + j, ldb, c + j, ldc, false);
}

#endif
