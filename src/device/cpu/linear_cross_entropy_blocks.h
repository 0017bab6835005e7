/**
 * linear_cross_entropy_blocks: layout of the scratch for a block of rows. An attribute of the op gives the number of
 * rows. The kernel's scratch_bytes and its run both use this layout.
 */
#ifndef ZR_DEVICE_CPU_LINEAR_CROSS_ENTROPY_BLOCKS_H
#define ZR_DEVICE_CPU_LINEAR_CROSS_ENTROPY_BLOCKS_H

#include "zr/tensor.h"

/** Layout of the scratch. Offsets are in bytes from the scratch's begin, and are multiples of 64. */
typedef struct zr__head_layout {
    int64_t rows;   /* number of rows in a block; the last block may have fewer */
    int64_t blocks; /* number of blocks */
    int64_t sum;    /* offset of the sum of dw over the blocks so far, (V,C) F32, which has no bytes if sum_in_dw */
    bool sum_in_dw;
    int64_t panels; /* offset of the products' own scratch, which comes last */
} zr__head_layout;

/** Compute the layout for rows of V logits in dtype g, `block` rows at a time. w is the dtype of dw (V,C), or ZR_F32 if
 * there is no dw. */
static inline zr__head_layout zr__head_layout_make(int64_t rows, int64_t block, int64_t V, int64_t C, zr_dtype g,
                                                   zr_dtype w)
{
    zr__head_layout l = {.rows = block, .blocks = (rows + block - 1) / block};
    /* With a single block, dw is rounded only once even without a sum in fp32. */
    l.sum_in_dw = w == ZR_F32 || (l.blocks == 1 && w == g);
    l.sum = (l.rows * V * zr_dtype_bytes(g) + 63) / 64 * 64;
    l.panels = l.sum + (l.sum_in_dw ? 0 : (V * C * zr_dtype_bytes(ZR_F32) + 63) / 64 * 64);
    return l;
}

#endif
