/**
 * linear_cross_entropy_blocks: layout of the scratch for a block of rows, whose length is an attribute of the op.
 * Shared by the kernel's scratch_bytes and its run.
 */
#ifndef ZR_DEVICE_CPU_LINEAR_CROSS_ENTROPY_BLOCKS_H
#define ZR_DEVICE_CPU_LINEAR_CROSS_ENTROPY_BLOCKS_H

#include "zr/tensor.h"

/** Offsets in bytes from the start of the scratch, each a multiple of 64. */
typedef struct zr__head_layout {
    int64_t rows;   /* rows of a block; the last may have fewer */
    int64_t blocks; /* number of blocks */
    int64_t sum;    /* after the logits: (V,C) F32, the sum over the blocks so far; empty where dw itself can hold it */
    bool sum_in_dw;
    int64_t panels; /* the rest is the products' own */
} zr__head_layout;

/** Compute the layout for rows of logits (V) in dtype g, `block` at a time; dw (V,C) in dtype w, ZR_F32 without a dw.
 */
static inline zr__head_layout zr__head_layout_make(int64_t rows, int64_t block, int64_t V, int64_t C, zr_dtype g,
                                                   zr_dtype w)
{
    zr__head_layout l = {.rows = block, .blocks = (rows + block - 1) / block};
    l.sum_in_dw = w == ZR_F32 || (l.blocks == 1 && w == g); /* one block's product is rounded once as it is */
    l.sum = (l.rows * V * zr_dtype_bytes(g) + 63) / 64 * 64;
    l.panels = l.sum + (l.sum_in_dw ? 0 : (V * C * zr_dtype_bytes(ZR_F32) + 63) / 64 * 64);
    return l;
}

#endif
