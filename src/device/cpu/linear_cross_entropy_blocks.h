/**
 * Layout of the scratch memory of linear_cross_entropy, which processes one block of rows at a time. Attribute 0 of the
 * op is the number of rows in a block. The kernel's functions scratch_bytes and run both use this layout.
 */
#ifndef ZR_DEVICE_CPU_LINEAR_CROSS_ENTROPY_BLOCKS_H
#define ZR_DEVICE_CPU_LINEAR_CROSS_ENTROPY_BLOCKS_H

#include "zr/tensor.h"

/** Block sizes, and offsets in bytes from the start of the scratch. Offsets are multiples of 64. */
typedef struct zr__head_layout {
    int64_t rows; /* number of rows in a block; the last block may have fewer */
    int64_t blocks;
    int64_t sum; /* offset of the fp32 accumulator (V,C) of dw; it takes no bytes if sum_in_dw */
    bool sum_in_dw;
    int64_t bias_sum; /* offset of the fp32 accumulator (V) of db; it takes no bytes if db is not computed */
    int64_t panels;   /* offset of the scratch for the matrix products, which comes last */
} zr__head_layout;

/** Compute the layout for rows of V logits in dtype g, with `block` rows in a block. w is the dtype of dw (V,C), or
 * ZR_F32 if dw is not computed. with_db tells whether db is computed. */
static inline zr__head_layout zr__head_layout_make(int64_t rows, int64_t block, int64_t V, int64_t C, zr_dtype g,
                                                   zr_dtype w, bool with_db)
{
    zr__head_layout l = {.rows = block, .blocks = (rows + block - 1) / block};
    /* With a single block, dw is rounded only once, so it needs no fp32 accumulator. */
    l.sum_in_dw = w == ZR_F32 || (l.blocks == 1 && w == g);
    l.sum = (l.rows * V * zr_dtype_bytes(g) + 63) / 64 * 64;
    l.bias_sum = l.sum + (l.sum_in_dw ? 0 : (V * C * zr_dtype_bytes(ZR_F32) + 63) / 64 * 64);
    l.panels = l.bias_sum + (with_db ? (V * zr_dtype_bytes(ZR_F32) + 63) / 64 * 64 : 0);
    return l;
}

#endif
