/*
 * Micro-kernels of products of bf16 and of fp32 on AMX tiles (amx_multiply.h). A whole tile of C has 32 x 32 elements.
 * Products of fp32 prefetch the next block.
 */
#ifndef ZR_DEVICE_CPU_AMX_PRODUCT_H
#define ZR_DEVICE_CPU_AMX_PRODUCT_H

#include "device/cpu/shared/amx_multiply.h"
#include "device/cpu/shared/amx_row.h"
#include "device/cpu/shared/product_blocks.h"

#if defined(__AMX_BF16__)

/* Multiply panels of up to 32 rows and 32 columns, and store the AMX tiles of the product at c. */
__attribute__((always_inline)) static inline void zr__amx_tile(bool wide, bool two_rows, bool two_cols,
                                                               const zr__product_tile *t, float *c, int64_t ld)
{
    const int64_t half = ZR_AMX_SIDE * t->words, block = (wide ? ZR_AMX_PARTS : 1) * ZR_AMX_TILE_WORDS;
    const zr__amx_operands o = {.a = t->a,
                                .b = t->b,
                                .a_row = ZR_AMX_ROW_BYTES,
                                .b_row = ZR_AMX_ROW_BYTES,
                                .a_half = half,
                                .b_half = half,
                                .a_block = block,
                                .b_block = block,
                                .part = ZR_AMX_TILE_WORDS,
                                .two_rows = two_rows,
                                .two_cols = two_cols};
    zr__amx_zero(two_rows, two_cols);
    zr__amx_add(&o, wide, half / block);
    zr__amx_store(two_rows, two_cols, c, ld);
}

__attribute__((always_inline)) static inline void zr__amx_tile_any(bool wide, const zr__product_tile *t, bool two_rows,
                                                                   bool two_cols, float *c, int64_t ld)
{
    if (two_rows && two_cols)
        zr__amx_tile(wide, true, true, t, c, ld);
    else if (two_rows)
        zr__amx_tile(wide, true, false, t, c, ld);
    else if (two_cols)
        zr__amx_tile(wide, false, true, t, c, ld);
    else
        zr__amx_tile(wide, false, false, t, c, ld);
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
