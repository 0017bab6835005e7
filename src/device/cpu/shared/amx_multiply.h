/*
 * Products on AMX tiles. Up to 32 x 32 elements of C stay in tiles 0 to 3. Tiles 4 and 5 hold 16 rows of A each, and
 * tiles 6 and 7 hold 16 columns of B each. If all are in use, a multiplication needs at most one load of a tile. A
 * block is 32 elements of k, the summed dimension.
 *
 * Products of bf16 are one multiplication for each block. Elements of fp32 are stored in three bf16 parts (amx_pack.h),
 * and their products are six multiplications for each block. With parts a0, a1, a2 and b0, b1, b2, a b is a0 b0 + a0 b1
 * + a1 b0 + a0 b2 + a1 b1 + a2 b0, up to 2^-22 |a b|. (The three other terms are smaller. Parts 1 and 2 are at most
 * 2^-7 and 2^-16 of a.) An error of this size also comes from the sum in fp32. Henry, Tang and Heinecke 2019 describe
 * this method.
 */
#ifndef ZR_DEVICE_CPU_AMX_MULTIPLY_H
#define ZR_DEVICE_CPU_AMX_MULTIPLY_H

#include "device/cpu/shared/amx.h"

#if defined(__AMX_BF16__)

/* Products of parts that are added for a product of fp32, in order: the part of A and the part of B. Consecutive
 * products share an operand. If operands have one part (bf16), only the last product is computed. */
#define ZR_AMX_TERMS 6
static const int zr__amx_term_a[ZR_AMX_TERMS] = {2, 1, 1, 0, 0, 0}, zr__amx_term_b[ZR_AMX_TERMS] = {0, 0, 1, 1, 2, 0};

/* Operands of a product. A has 32 rows if two_rows, else 16, and B has 32 columns if two_cols, else 16. Distances are
 * in floats unless their comments say bytes. */
typedef struct zr__amx_operands {
    const float *a, *b;
    size_t a_row, b_row;      /* distance from a row of a tile to the next, in bytes */
    int64_t a_half, b_half;   /* distance from the first 16 rows or columns to the others */
    int64_t a_block, b_block; /* distance from a block to the next */
    int64_t part;             /* distance from a part of a block to the next, in A and in B; not used for bf16 */
    bool two_rows, two_cols;
} zr__amx_operands;

/* Clear the tiles of C. */
__attribute__((always_inline)) static inline void zr__amx_zero(bool two_rows, bool two_cols)
{
    _tile_zero(0);
    if (two_cols) _tile_zero(1);
    if (two_rows) _tile_zero(2);
    if (two_rows && two_cols) _tile_zero(3);
}

/* Load the tiles of C, whose rows are `ld` floats apart. */
__attribute__((always_inline)) static inline void zr__amx_load(bool two_rows, bool two_cols, const float *c, int64_t ld)
{
    const size_t row = (size_t)ld * sizeof(float);
    ZR_AMX_IN_MEMORY(c);
    ZR_AMX_LOAD(0, c, row);
    if (two_cols) ZR_AMX_LOAD(1, c + ZR_AMX_SIDE, row);
    if (two_rows) ZR_AMX_LOAD(2, c + ZR_AMX_SIDE * ld, row);
    if (two_rows && two_cols) ZR_AMX_LOAD(3, c + ZR_AMX_SIDE * ld + ZR_AMX_SIDE, row);
}

/* Store the tiles of C. */
__attribute__((always_inline)) static inline void zr__amx_store(bool two_rows, bool two_cols, float *c, int64_t ld)
{
    const size_t row = (size_t)ld * sizeof(float);
    ZR_AMX_IN_MEMORY(c);
    _tile_stored(0, c, row);
    if (two_cols) _tile_stored(1, c + ZR_AMX_SIDE, row);
    if (two_rows) _tile_stored(2, c + ZR_AMX_SIDE * ld, row);
    if (two_rows && two_cols) _tile_stored(3, c + ZR_AMX_SIDE * ld + ZR_AMX_SIDE, row);
    ZR_AMX_IN_MEMORY(c);
}

/* Prefetch eight lines. A tile is loaded faster from the L1 cache than from the L2 cache (docs/performance.md). */
__attribute__((always_inline)) static inline void zr__amx_prefetch(const float *from)
{
    enum { LINE = 64 / sizeof(float) };
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) __builtin_prefetch(from + i * LINE);
}

/* Tiles to load for the next product: rows of A at offset a if new_a, and columns of B at offset b if new_b. The other
 * tiles stay loaded. */
typedef struct zr__amx_next {
    bool new_a, new_b;
    int64_t a, b;
} zr__amx_next;

/* Add the product of the tiles of A and B to the tiles of C, and load the next tiles. A register is loaded as soon as
 * the last multiplication that reads it is issued, so that loads overlap with multiplications. If `ahead` is not
 * negative, prefetch from that offset of both operands. */
__attribute__((always_inline)) static inline void zr__amx_term(const zr__amx_operands *o, zr__amx_next next,
                                                               int64_t ahead)
{
    const bool by_columns = !next.new_a; /* whether the first columns of B are used up before the first rows of A */
    const bool rows = o->two_rows, cols = o->two_cols;
    ZR_AMX_MULTIPLY(0, 4, 6);
    if (ahead >= 0) zr__amx_prefetch(o->a + ahead);
    if (cols && !by_columns) ZR_AMX_MULTIPLY(1, 4, 7);
    if (rows && by_columns) ZR_AMX_MULTIPLY(2, 5, 6);
    if (ahead >= 0) zr__amx_prefetch(o->b + ahead);
    if (next.new_a) ZR_AMX_LOAD(4, o->a + next.a, o->a_row);
    if (next.new_b && by_columns) ZR_AMX_LOAD(6, o->b + next.b, o->b_row);
    if (rows && !by_columns) ZR_AMX_MULTIPLY(2, 5, 6);
    if (cols && by_columns) ZR_AMX_MULTIPLY(1, 4, 7);
    if (ahead >= 0 && rows) zr__amx_prefetch(o->a + o->a_half + ahead);
    if (next.new_b && !by_columns) ZR_AMX_LOAD(6, o->b + next.b, o->b_row);
    if (rows && cols) ZR_AMX_MULTIPLY(3, 5, 7);
    if (ahead >= 0 && cols) zr__amx_prefetch(o->b + o->b_half + ahead);
    if (next.new_a && rows) ZR_AMX_LOAD(5, o->a + o->a_half + next.a, o->a_row);
    if (next.new_b && cols) ZR_AMX_LOAD(7, o->b + o->b_half + next.b, o->b_row);
}

/* Add the product of two operands over `blocks` >= 1 blocks to the tiles of C. `wide` tells whether elements are fp32,
 * stored in parts. A part that the next product also uses stays loaded. Each product of parts prefetches a share of the
 * next block. In the last block, the prefetches go beyond the panels, but nothing is loaded there. */
__attribute__((always_inline)) static inline void zr__amx_add(const zr__amx_operands *o, bool wide, int64_t blocks)
{
    const int *of_a = zr__amx_term_a, *of_b = zr__amx_term_b, first = wide ? 0 : ZR_AMX_TERMS - 1;
    const float *a = o->a + of_a[first] * o->part, *b = o->b + of_b[first] * o->part;
    ZR_AMX_IN_MEMORY(a);
    ZR_AMX_LOAD(4, a, o->a_row);
    ZR_AMX_LOAD(6, b, o->b_row);
    if (o->two_cols) ZR_AMX_LOAD(7, b + o->b_half, o->b_row);
    if (o->two_rows) ZR_AMX_LOAD(5, a + o->a_half, o->a_row);
    for (int64_t i = 0; i < blocks; i++) {
        const int64_t a_at = i * o->a_block, b_at = i * o->b_block, share = o->a_block / ZR_AMX_TERMS;
#pragma GCC unroll 6
        for (int t = first; t < ZR_AMX_TERMS - 1; t++)
            zr__amx_term(o,
                         (zr__amx_next){of_a[t + 1] != of_a[t], of_b[t + 1] != of_b[t], a_at + of_a[t + 1] * o->part,
                                        b_at + of_b[t + 1] * o->part},
                         wide ? a_at + o->a_block + t * share : -1);
        /* The last product of a block is outside the loop, because fp32 is slower by a twentieth with it inside. */
        const zr__amx_next block = {true, true, a_at + o->a_block + of_a[first] * o->part,
                                    b_at + o->b_block + of_b[first] * o->part};
        if (i + 1 < blocks)
            zr__amx_term(o, block, wide ? a_at + 2 * o->a_block - share : -1);
        else
            zr__amx_term(o, (zr__amx_next){0}, -1);
    }
}

#endif

#endif
