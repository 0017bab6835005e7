/*
 * Micro-kernel of bf16 products on AMX tiles. A whole tile of C has 32 x 32 elements, in four AMX tiles. Two more hold
 * rows of A, and two columns of B, so that a multiplication needs only one load of a tile.
 *
 * A panel consists of halves of 16 rows of A (or columns of B). A half consists of blocks of 32 elements of k. A
 * block is an AMX tile in memory: 16 rows x 16 words for A, 16 words x 16 columns for B. Elements beyond the edges are
 * 0.
 */
#ifndef ZR_DEVICE_CPU_AMX_PRODUCT_H
#define ZR_DEVICE_CPU_AMX_PRODUCT_H

#include "device/cpu/shared/amx.h"
#include "device/cpu/shared/micro_kernel.h"
#include "device/cpu/shared/transpose.h"

#if defined(__AMX_BF16__)

#define ZR_AMX_WORDS (ZR_AMX_DEPTH / 2)                /* words in a row of a tile */
#define ZR_AMX_TILE_WORDS (ZR_AMX_SIDE * ZR_AMX_WORDS) /* words in a tile */

/* ---- packing --------------------------------------------------------------------------------- */

static inline __mmask32 zr__amx_mask(int64_t n)
{
    return n >= 32 ? ~(__mmask32)0 : n <= 0 ? 0 : ((__mmask32)1 << n) - 1;
}

/* Load a block of an operand that is contiguous along k: vector r holds the words of row r. Rows from n on and elements
 * from `left` on are 0. */
__attribute__((always_inline)) static inline void zr__amx_load_rows(zr__vec v[ZR_VEC], const uint16_t *from, int64_t ld,
                                                                    int64_t n, int64_t left)
{
    const __mmask32 mask = zr__amx_mask(left);
#pragma GCC unroll 16
    for (int r = 0; r < ZR_AMX_SIDE; r++)
        v[r] = r < n ? (zr__vec)_mm512_maskz_loadu_epi16(mask, from + r * ld) : zr__vec_splat(0.0f);
}

/* Load a block of an operand whose rows are k: vector w holds pair w of each of the n columns. */
__attribute__((always_inline)) static inline void zr__amx_load_pairs(zr__vec v[ZR_VEC], const uint16_t *from,
                                                                     int64_t ld, int64_t n, int64_t left)
{
    const __mmask16 mask = (__mmask16)zr__amx_mask(zr__min64(n, ZR_AMX_SIDE));
#pragma GCC unroll 16
    for (int w = 0; w < ZR_AMX_WORDS; w++) {
        const int64_t k = 2 * w;
        const __m512i even = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(k < left ? mask : 0, from + k * ld)),
                      odd =
                          _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(k + 1 < left ? mask : 0, from + (k + 1) * ld));
        v[w] = (zr__vec)_mm512_or_si512(even, _mm512_slli_epi32(odd, 16));
    }
}

/* Pack the block of 16 rows of A (or columns of B) from to.first + p on, and of 32 elements from k0 + k on. */
__attribute__((always_inline)) static inline void zr__amx_pack_block(const zr__side *s, bool is_a, bool paired,
                                                                     zr__panels_at to, int64_t n, int64_t k0, int64_t p,
                                                                     int64_t k)
{
    const uint16_t *from = (const uint16_t *)s->data + (to.first + p) * s->along + (k0 + k) * s->depth;
    float *out = to.out + p * to.words + k / ZR_AMX_DEPTH * ZR_AMX_TILE_WORDS;
    zr__vec v[ZR_VEC];
    if (paired)
        zr__amx_load_pairs(v, from, s->depth, n - p, to.depth - k);
    else
        zr__amx_load_rows(v, from, s->along, n - p, to.depth - k);
    if (paired == is_a) zr__vec_transpose(v);
#pragma GCC unroll 16
    for (int i = 0; i < ZR_VEC; i++) zr__vec_store(out + i * ZR_AMX_WORDS, v[i]);
}

/* Pack all blocks. The inner loop follows the dimension in which the operand is contiguous. */
__attribute__((always_inline)) static inline void zr__amx_pack_as(const zr__side *s, bool is_a, bool paired,
                                                                  zr__panels_at to, int64_t n, int64_t k0)
{
    const int64_t outer = paired ? to.depth : n, inner = paired ? n : to.depth;
    const int64_t outer_step = paired ? ZR_AMX_DEPTH : ZR_AMX_SIDE, inner_step = paired ? ZR_AMX_SIDE : ZR_AMX_DEPTH;
    for (int64_t i = 0; i < outer; i += outer_step)
        for (int64_t j = 0; j < inner; j += inner_step)
            zr__amx_pack_block(s, is_a, paired, to, n, k0, paired ? j : i, paired ? i : j);
}

static void zr__amx_pack(const zr__side *s, zr__panels_at to, int64_t n, int64_t k0)
{
    const bool paired = s->along == 1 && s->depth != 1;
    if (s->is_a && paired)
        zr__amx_pack_as(s, true, true, to, n, k0);
    else if (s->is_a)
        zr__amx_pack_as(s, true, false, to, n, k0);
    else if (paired)
        zr__amx_pack_as(s, false, true, to, n, k0);
    else
        zr__amx_pack_as(s, false, false, to, n, k0);
}

/* ---- a tile ---------------------------------------------------------------------------------- */

/* Multiply panels of up to 32 rows and 32 columns, and store the AMX tiles of the product at c. */
__attribute__((always_inline)) static inline void zr__amx_tile(bool two_rows, bool two_cols, const float *a,
                                                               const float *b, int64_t words, float *c, int64_t ld)
{
    const float *a1 = a + ZR_AMX_SIDE * words, *b1 = b + ZR_AMX_SIDE * words;
    const size_t row = (size_t)ld * sizeof(float);
    _tile_zero(0);
    if (two_cols) _tile_zero(1);
    if (two_rows) _tile_zero(2);
    if (two_rows && two_cols) _tile_zero(3);
    for (int64_t at = 0; at < words * ZR_AMX_SIDE; at += ZR_AMX_TILE_WORDS) {
        _tile_loadd(4, a + at, ZR_AMX_ROW_BYTES);
        _tile_loadd(6, b + at, ZR_AMX_ROW_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        if (two_cols) _tile_loadd(7, b1 + at, ZR_AMX_ROW_BYTES);
        if (two_cols) _tile_dpbf16ps(1, 4, 7);
        if (two_rows) _tile_loadd(5, a1 + at, ZR_AMX_ROW_BYTES);
        if (two_rows) _tile_dpbf16ps(2, 5, 6);
        if (two_rows && two_cols) _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, row);
    if (two_cols) _tile_stored(1, c + ZR_AMX_SIDE, row);
    if (two_rows) _tile_stored(2, c + ZR_AMX_SIDE * ld, row);
    if (two_rows && two_cols) _tile_stored(3, c + ZR_AMX_SIDE * ld + ZR_AMX_SIDE, row);
}

static void zr__amx_tile_any(const zr__product_tile *t, bool two_rows, bool two_cols, float *c, int64_t ld)
{
    ZR_AMX_IN_MEMORY(t->a);
    if (two_rows && two_cols)
        zr__amx_tile(true, true, t->a, t->b, t->words, c, ld);
    else if (two_rows)
        zr__amx_tile(true, false, t->a, t->b, t->words, c, ld);
    else if (two_cols)
        zr__amx_tile(false, true, t->a, t->b, t->words, c, ld);
    else
        zr__amx_tile(false, false, t->a, t->b, t->words, c, ld);
    ZR_AMX_IN_MEMORY(c);
}

static void zr__amx_multiply(const zr__product_tile *t, int64_t rows, int64_t cols)
{
    enum { ROWS = 2 * ZR_AMX_SIDE, COLS = 2 * ZR_AMX_SIDE };
    const bool two_rows = rows > ZR_AMX_SIDE, two_cols = cols > ZR_AMX_SIDE;
    if (!t->base) {
        zr__amx_tile_any(t, two_rows, two_cols, t->c, t->ld);
        return;
    }
    float sum[ROWS * COLS] __attribute__((aligned(64)));
    zr__amx_tile_any(t, two_rows, two_cols, sum, COLS);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < cols; j += ZR_VEC)
            zr__vec_store(t->c + r * t->ld + j,
                          zr__vec_load(t->base + r * t->base_ld + j) + zr__vec_load(sum + r * COLS + j));
}

static const zr__micro_kernel zr__amx_kernel = {
    .rows = 2 * ZR_AMX_SIDE,
    .cols = 2 * ZR_AMX_SIDE,
    .row_unit = 2 * ZR_AMX_SIDE,
    .col_unit = 2 * ZR_AMX_SIDE,
    .row_grain = ZR_AMX_SIDE,
    .word = 2,
    .step = ZR_AMX_DEPTH,
    .depth = 768,
    .own_words = (int64_t)160 << 10,
    .pack_cost = 64,
    .share = 1 << 20,
    .begin = zr__amx_begin,
    .end = zr__amx_end,
    .pack = zr__amx_pack,
    .multiply = zr__amx_multiply,
};

#endif

#endif
