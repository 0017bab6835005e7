/**
 * Layout of a thread's scratch memory in the attention kernels, which pack blocks of their operands to fp32. The
 * kernels' functions scratch_bytes and run both use this layout.
 *
 * A thread works on one query head of one sequence at a time. If query heads share a key-value head, the thread also
 * sums the gradients of the shared head. Scratch grows linearly with T, because only one block of scores
 * exists at a time: ZR__ATTENTION_BLOCK x ZR__ATTENTION_BLOCK.
 */
#ifndef ZR_DEVICE_CPU_ATTENTION_BLOCKS_H
#define ZR_DEVICE_CPU_ATTENTION_BLOCKS_H

#include "zr/tensor.h"

/* Number of queries in a block, which is also the number of keys in a block. The number is a multiple of
 * ZR__ATTENTION_LANES. With 64, the blocks of a head of width 64 fit into the L2 cache. Numbers from 48 to 128 give
 * nearly the same speed. */
#define ZR__ATTENTION_BLOCK 64
#define ZR__ATTENTION_LANES 16
/* Number of tokens that products of bf16 read at a time. */
#define ZR__ATTENTION_PAIRED 32

/** Offsets of blocks from the start of a thread's scratch, in floats. An offset is a multiple of 16 (64 bytes), or -1
 * if the pass does not use the block. The comments give the shapes of the blocks. */
typedef struct zr__attention_layout {
    /* row stride of q, k, v, y and gradients, in floats: D rounded up to a multiple of ZR__ATTENTION_LANES */
    int64_t width;
    /* offset of transposed keys, in blocks (D, BLOCK): all blocks of the head in the forward pass, one block in the
     * backward pass */
    int64_t keys_t;
    /* offset of one block's keys (BLOCK, width), backward only; for products of bf16: pairs of tokens (BLOCK / 2,
     * width) */
    int64_t keys;
    int64_t values_t; /* offset of one block's transposed values (D, BLOCK), backward only */
    /* offset of values. Forward pass: all values of the head, (T rounded up to lanes, width), or pairs of tokens.
     * Backward pass: one block, (BLOCK, width), which may share memory with dv, because the rows of values are not
     * needed when dv is computed */
    int64_t values;
    int64_t q;  /* offset of scaled queries; forward: (BLOCK, q_row); backward: (T, q_row) */
    int64_t y;  /* offset of the attention output (BLOCK, width), forward only */
    int64_t dy; /* offset of the output's gradient (T, q_row), backward only */
    int64_t dq; /* offset of the queries' gradient (T, width), backward only */
    /* offsets of the gradients of keys and values, backward only. Each has (BLOCK, width) elements for one block, or
     * (T, width) for the whole head if query heads share the head. For products of bf16, each block is transposed:
     * (width, BLOCK) */
    int64_t dk, dv;
    /* distance between two tokens in dk and dv: `width` if dk and dv have all tokens, 0 if they have only one block */
    int64_t gradient_row;
    int64_t p;    /* offset of the scores (BLOCK, BLOCK), which the probabilities replace later */
    int64_t ds;   /* offset of the scores' gradient (BLOCK, BLOCK), backward only */
    int64_t kept; /* offset of the dropout factors (BLOCK, BLOCK), backward only */
    /* offset of statistics. Forward pass: maximum and sum of each query (BLOCK each). Backward pass: sum of dy * y of
     * each query (T) */
    int64_t stat;
    /* offset of the ends of the documents of a row (T, int32); only if queries see later keys of their documents */
    int64_t ends;
    /* offsets of q and dy as the products that sum over queries read them, backward only. For products of bf16 these
     * are transposed pairs of tokens, (width, BLOCK / 2) for each block of tokens. Otherwise they are `q` and `dy` */
    int64_t q_pairs, dy_pairs;
    /* row strides in floats: q_row of q and dy, kv_row of k and v. For products of bf16, a stride is the memory of a
     * row of bf16, rounded up to a multiple of ZR__ATTENTION_LANES floats. Otherwise it is `width` */
    int64_t q_row, kv_row;
    int64_t depth;  /* rows of transposed keys and values: D, or the number of pairs in a row for products of bf16 */
    int64_t floats; /* length of the whole scratch, in floats */
} zr__attention_layout;

/** Return n rounded up to a multiple of ZR__ATTENTION_LANES. */
static inline int64_t zr__attention_lanes(int64_t n)
{
    return (n + ZR__ATTENTION_LANES - 1) / ZR__ATTENTION_LANES * ZR__ATTENTION_LANES;
}

static inline int64_t zr__attention_take(int64_t *used, int64_t floats)
{
    int64_t offset = *used;
    *used += zr__attention_lanes(floats);
    return offset;
}

/** Add the parts of the backward pass to a layout, for T tokens, or for T rounded up to whole blocks if `narrow`. */
static inline void zr__attention_backward_parts(zr__attention_layout *l, int64_t T, bool shared, bool narrow)
{
    const int64_t n = ZR__ATTENTION_BLOCK, w = l->width;
    int64_t *used = &l->floats;
    l->keys = zr__attention_take(used, (narrow ? n / 2 : n) * w);
    l->values_t = zr__attention_take(used, n * l->depth);
    l->dy = zr__attention_take(used, T * l->q_row);
    l->dq = zr__attention_take(used, T * w);
    l->dk = zr__attention_take(used, (shared ? T : n) * w);
    l->dv = zr__attention_take(used, (shared ? T : n) * w);
    l->gradient_row = shared ? w : 0;
    l->values = shared ? zr__attention_take(used, n * w) : l->dv;
    l->ds = zr__attention_take(used, n * n);
    l->kept = zr__attention_take(used, n * n);
    l->q_pairs = narrow ? zr__attention_take(used, T / 2 * w) : l->q;
    l->dy_pairs = narrow ? zr__attention_take(used, T / 2 * w) : l->dy;
}

/** Return the layout for T tokens and heads of width D, for the backward pass if `backward`, else for the forward pass.
 * `ends` tells whether the kernel needs the ends of documents. `shared` tells whether several query heads share a
 * key-value head; only the backward pass depends on it. `narrow` tells whether products have bf16 operands, in pairs.
 * In pairs, q, k, v and dy take half the memory. But the backward pass then needs q and dy in two forms, and all four
 * have zeros after the last token up to the end of its block. */
static inline zr__attention_layout zr__attention_layout_make(int64_t T, int64_t D, bool backward, bool shared,
                                                             bool ends, bool narrow)
{
    const int64_t n = ZR__ATTENTION_BLOCK, w = zr__attention_lanes(D), whole = (T + n - 1) / n * n;
    const int64_t tokens = narrow ? whole : T;
    zr__attention_layout l = {w, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, -1, -1, -1, -1, -1, -1, -1, w, w, D, 0};
    int64_t *used = &l.floats;
    if (narrow) l.q_row = l.kv_row = l.depth = zr__attention_lanes((D + 1) / 2);
    l.p = zr__attention_take(used, n * n);
    l.stat = zr__attention_take(used, backward ? T : 2 * n);
    if (ends) l.ends = zr__attention_take(used, T);
    l.q = zr__attention_take(used, (backward ? tokens : n) * l.q_row);
    l.keys_t = zr__attention_take(used, (backward ? n : whole) * l.depth);
    if (backward) {
        zr__attention_backward_parts(&l, tokens, shared, narrow);
        return l;
    }
    l.values = zr__attention_take(used, narrow ? whole / 2 * w : zr__attention_lanes(T) * w);
    l.y = zr__attention_take(used, n * w);
    return l;
}

/** Return the scratch bytes of one thread for operands of a dtype. For bf16 the bytes suffice for products of fp32 and
 * of bf16, because a plan does not depend on the level of the processor. */
static inline int64_t zr__attention_scratch_bytes(int64_t T, int64_t D, zr_dtype dtype, bool backward, bool shared,
                                                  bool ends)
{
    const int64_t wide = zr__attention_layout_make(T, D, backward, shared, ends, false).floats;
    const int64_t narrow = zr__attention_layout_make(T, D, backward, shared, ends, true).floats;
    return 4 * (dtype == ZR_BF16 && narrow > wide ? narrow : wide);
}

#endif
