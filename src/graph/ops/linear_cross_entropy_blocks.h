/**
 * linear_cross_entropy_blocks: how the rows are cut into blocks and what lies in the scratch of one. The op
 * declares the bytes and the kernel carves them, so both read this one layout.
 *
 * The logits exist for one block at a time. A longer block makes better products, a shorter one takes less memory: 512
 * rows of GPT-2's vocabulary are 103 MB in fp32, and its products are as fast as those of all rows.
 */
#ifndef ZR_GRAPH_OPS_LINEAR_CROSS_ENTROPY_BLOCKS_H
#define ZR_GRAPH_OPS_LINEAR_CROSS_ENTROPY_BLOCKS_H

#include "zr/tensor.h"

#define ZR__HEAD_ROWS 512
#define ZR__HEAD_GRAIN 16 /* rows: blocks of about equal length, in what products like */

/** Offsets in bytes from the start of the scratch, each a multiple of 64. */
typedef struct zr__head_layout {
    int64_t rows;   /* of a block; the last may have fewer */
    int64_t blocks; /* how many there are */
    int64_t sum; /* behind the logits: (V,C) F32, what the blocks so far add up to; empty where dw itself can hold it */
    bool sum_in_dw;
    int64_t panels; /* the rest is the products' own */
} zr__head_layout;

/** rows of logits (V) in dtype g; dw (V,C) in dtype w, ZR_F32 where there is none. */
static inline zr__head_layout zr__head_layout_make(int64_t rows, int64_t V, int64_t C, zr_dtype g, zr_dtype w)
{
    zr__head_layout l = {0};
    int64_t wanted = (rows + ZR__HEAD_ROWS - 1) / ZR__HEAD_ROWS, even = (rows + wanted - 1) / wanted;
    l.rows = (even + ZR__HEAD_GRAIN - 1) / ZR__HEAD_GRAIN * ZR__HEAD_GRAIN;
    if (l.rows > rows) l.rows = rows;
    l.blocks = (rows + l.rows - 1) / l.rows;
    l.sum_in_dw = w == ZR_F32 || (l.blocks == 1 && w == g); /* one block's product is rounded once as it is */
    l.sum = (l.rows * V * zr_dtype_bytes(g) + 63) / 64 * 64;
    l.panels = l.sum + (l.sum_in_dw ? 0 : (V * C * zr_dtype_bytes(ZR_F32) + 63) / 64 * 64);
    return l;
}

#endif
