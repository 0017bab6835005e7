/*
 * Micro-kernels of products on AMX tiles. A whole tile of C has 32 x 32 elements, in four AMX tiles. Two more hold rows
 * of A, and two columns of B, so that a multiplication needs at most one load of a tile.
 *
 * Products of bf16 are one multiplication for each block of k. Products of fp32 are six: with parts a0, a1, a2 and b0,
 * b1, b2 (amx_pack.h), a b is a0 b0 + a0 b1 + a1 b0 + a0 b2 + a1 b1 + a2 b0, up to 2^-22 |a b|. (The three other terms
 * are smaller. Parts 1 and 2 are at most 2^-7 and 2^-16 of a.) An error of this size also comes from the sum in fp32.
 * Henry, Tang and Heinecke 2019 describe this method.
 */
#ifndef ZR_DEVICE_CPU_AMX_PRODUCT_H
#define ZR_DEVICE_CPU_AMX_PRODUCT_H

#include "device/cpu/shared/amx_row.h"
#include "device/cpu/shared/product_blocks.h"

#if defined(__AMX_BF16__)

/* Panels of a tile of C. Each has a second half, `half` floats after the first, if two_rows or two_cols. */
typedef struct zr__amx_panels {
    const float *a, *b;
    int64_t half;
    bool two_rows, two_cols;
} zr__amx_panels;

/* Prefetch eight lines of an operand, because a tile is loaded faster from the L1 cache than from the L2 cache. On a
 * shared core in a slow period, products of fp32 become half as fast again (docs/performance.md). */
__attribute__((always_inline)) static inline void zr__amx_prefetch(const float *from)
{
    enum { LINE = 64 / sizeof(float) };
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) __builtin_prefetch(from + i * LINE);
}

/* Add the product of two blocks of bf16 to the tiles of C. The blocks are at offsets a and b of the panels. If a (or b)
 * is negative, use the block that is loaded. If `ahead` is not negative, prefetch from that offset of both panels. */
__attribute__((always_inline)) static inline void zr__amx_add(const zr__amx_panels *p, int64_t a, int64_t b,
                                                              int64_t ahead)
{
    if (a >= 0) ZR_AMX_LOAD(4, p->a + a, ZR_AMX_ROW_BYTES);
    if (b >= 0) ZR_AMX_LOAD(6, p->b + b, ZR_AMX_ROW_BYTES);
    ZR_AMX_MULTIPLY(0, 4, 6);
    if (ahead >= 0) zr__amx_prefetch(p->a + ahead);
    if (b >= 0 && p->two_cols) ZR_AMX_LOAD(7, p->b + p->half + b, ZR_AMX_ROW_BYTES);
    if (p->two_cols) ZR_AMX_MULTIPLY(1, 4, 7);
    if (ahead >= 0) zr__amx_prefetch(p->b + ahead);
    if (a >= 0 && p->two_rows) ZR_AMX_LOAD(5, p->a + p->half + a, ZR_AMX_ROW_BYTES);
    if (p->two_rows) ZR_AMX_MULTIPLY(2, 5, 6);
    if (ahead >= 0 && p->two_rows) zr__amx_prefetch(p->a + p->half + ahead);
    if (p->two_rows && p->two_cols) ZR_AMX_MULTIPLY(3, 5, 7);
    if (ahead >= 0 && p->two_cols) zr__amx_prefetch(p->b + p->half + ahead);
}

/* Add the product of two blocks of fp32 at offset `at` of the panels. A part that the product of parts before it used
 * is not loaded again. Each of the six products prefetches a sixth of the next blocks. */
__attribute__((always_inline)) static inline void zr__amx_add_f32(const zr__amx_panels *p, int64_t at)
{
    enum { PART = ZR_AMX_TILE_WORDS, BLOCK = ZR_AMX_PARTS * PART };
    const int *of_a = zr__amx_term_a, *of_b = zr__amx_term_b;
#pragma GCC unroll 6
    for (int t = 0; t < ZR_AMX_TERMS; t++) {
        const bool has_a = t > 0 && of_a[t] == of_a[t - 1], has_b = t > 0 && of_b[t] == of_b[t - 1];
        zr__amx_add(p, has_a ? -1 : at + of_a[t] * PART, has_b ? -1 : at + of_b[t] * PART,
                    at + BLOCK + t * BLOCK / ZR_AMX_TERMS);
    }
}

/* Multiply panels of up to 32 rows and 32 columns, and store the AMX tiles of the product at c. */
__attribute__((always_inline)) static inline void zr__amx_tile(bool wide, bool two_rows, bool two_cols,
                                                               const zr__product_tile *t, float *c, int64_t ld)
{
    const zr__amx_panels p = {t->a, t->b, ZR_AMX_SIDE * t->words, two_rows, two_cols};
    const size_t row = (size_t)ld * sizeof(float);
    _tile_zero(0);
    if (two_cols) _tile_zero(1);
    if (two_rows) _tile_zero(2);
    if (two_rows && two_cols) _tile_zero(3);
    for (int64_t at = 0; at < p.half; at += (wide ? ZR_AMX_PARTS : 1) * ZR_AMX_TILE_WORDS)
        if (wide)
            zr__amx_add_f32(&p, at);
        else
            zr__amx_add(&p, at, at, -1);
    _tile_stored(0, c, row);
    if (two_cols) _tile_stored(1, c + ZR_AMX_SIDE, row);
    if (two_rows) _tile_stored(2, c + ZR_AMX_SIDE * ld, row);
    if (two_rows && two_cols) _tile_stored(3, c + ZR_AMX_SIDE * ld + ZR_AMX_SIDE, row);
}

__attribute__((always_inline)) static inline void zr__amx_tile_any(bool wide, const zr__product_tile *t, bool two_rows,
                                                                   bool two_cols, float *c, int64_t ld)
{
    ZR_AMX_IN_MEMORY(t->a);
    if (two_rows && two_cols)
        zr__amx_tile(wide, true, true, t, c, ld);
    else if (two_rows)
        zr__amx_tile(wide, true, false, t, c, ld);
    else if (two_cols)
        zr__amx_tile(wide, false, true, t, c, ld);
    else
        zr__amx_tile(wide, false, false, t, c, ld);
    ZR_AMX_IN_MEMORY(c);
}

__attribute__((always_inline)) static inline void zr__amx_multiply(bool wide, const zr__product_tile *t, int64_t rows,
                                                                   int64_t cols)
{
    enum { ROWS = 2 * ZR_AMX_SIDE, COLS = 2 * ZR_AMX_SIDE };
    const bool two_rows = rows > ZR_AMX_SIDE, two_cols = cols > ZR_AMX_SIDE;
    if (!t->base) {
        zr__amx_tile_any(wide, t, two_rows, two_cols, t->c, t->ld);
        return;
    }
    float sum[ROWS * COLS] __attribute__((aligned(64)));
    zr__amx_tile_any(wide, t, two_rows, two_cols, sum, COLS);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < cols; j += ZR_VEC)
            zr__vec_store(t->c + r * t->ld + j,
                          zr__vec_load(t->base + r * t->base_ld + j) + zr__vec_load(sum + r * COLS + j));
}

static void zr__amx_multiply_bf16(const zr__product_tile *t, int64_t rows, int64_t cols)
{
    zr__amx_multiply(false, t, rows, cols);
}

static void zr__amx_multiply_f32(const zr__product_tile *t, int64_t rows, int64_t cols)
{
    zr__amx_multiply(true, t, rows, cols);
}

#define ZR_AMX_KERNEL                                                                                                  \
    .rows = 2 * ZR_AMX_SIDE, .cols = 2 * ZR_AMX_SIDE, .row_unit = 2 * ZR_AMX_SIDE, .col_unit = 2 * ZR_AMX_SIDE,        \
    .row_grain = ZR_AMX_SIDE, .step = ZR_AMX_DEPTH, .depth = ZR__PRODUCT_DEPTH, .own_words = ZR__PRODUCT_BLOCK / 4,    \
    .pack_cost = 64, .share = 1 << 20, .begin = zr__amx_begin, .end = zr__amx_end

static const zr__micro_kernel zr__amx_bf16_kernel = {
    ZR_AMX_KERNEL,
    .step_words = ZR_AMX_WORDS,
    .pack = zr__amx_pack_bf16_side,
    .multiply = zr__amx_multiply_bf16,
};

static const zr__micro_kernel zr__amx_f32_kernel = {
    ZR_AMX_KERNEL,
    .step_words = ZR_AMX_PARTS * ZR_AMX_WORDS,
    .pack = zr__amx_pack_f32_side,
    .multiply = zr__amx_multiply_f32,
    .row = zr__amx_row,
};

#endif

#endif
