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

/* Prefetch eight lines of an operand. Tiles are loaded faster from the L1 cache than from the L2 cache, above all while
 * another hardware thread of the core uses AMX too. */
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
    if (a >= 0) _tile_loadd(4, p->a + a, ZR_AMX_ROW_BYTES);
    if (b >= 0) _tile_loadd(6, p->b + b, ZR_AMX_ROW_BYTES);
    _tile_dpbf16ps(0, 4, 6);
    if (ahead >= 0) zr__amx_prefetch(p->a + ahead);
    if (b >= 0 && p->two_cols) _tile_loadd(7, p->b + p->half + b, ZR_AMX_ROW_BYTES);
    if (p->two_cols) _tile_dpbf16ps(1, 4, 7);
    if (ahead >= 0) zr__amx_prefetch(p->b + ahead);
    if (a >= 0 && p->two_rows) _tile_loadd(5, p->a + p->half + a, ZR_AMX_ROW_BYTES);
    if (p->two_rows) _tile_dpbf16ps(2, 5, 6);
    if (ahead >= 0 && p->two_rows) zr__amx_prefetch(p->a + p->half + ahead);
    if (p->two_rows && p->two_cols) _tile_dpbf16ps(3, 5, 7);
    if (ahead >= 0 && p->two_cols) zr__amx_prefetch(p->b + p->half + ahead);
}

/* Add the product of two blocks of fp32 at offset `at` of the panels: six products of their parts, in an order in which
 * two neighbours share an operand. Each of the six prefetches a sixth of the next blocks. */
__attribute__((always_inline)) static inline void zr__amx_add_f32(const zr__amx_panels *p, int64_t at)
{
    enum { PART = ZR_AMX_TILE_WORDS, SIXTH = ZR_AMX_PARTS * PART / 6, LOADED = -1 };
    const int64_t ahead = at + ZR_AMX_PARTS * PART;
    zr__amx_add(p, at + 2 * PART, at, ahead);
    zr__amx_add(p, at + PART, LOADED, ahead + SIXTH);
    zr__amx_add(p, LOADED, at + PART, ahead + 2 * SIXTH);
    zr__amx_add(p, at, LOADED, ahead + 3 * SIXTH);
    zr__amx_add(p, LOADED, at + 2 * PART, ahead + 4 * SIXTH);
    zr__amx_add(p, LOADED, at, ahead + 5 * SIXTH);
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
