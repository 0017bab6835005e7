/**
 * attention_blocks: where the packed fp32 blocks of the attention kernels lie in a thread's scratch.
 * The kernel's scratch_bytes asks for them and its run carves them, by this one layout.
 *
 * A thread works on one head of one row at a time. Scratch grows with T, never with T x T: scores
 * exist for ZR__ATTENTION_BLOCK x ZR__ATTENTION_BLOCK at a time.
 */
#ifndef ZR_DEVICE_CPU_ATTENTION_BLOCKS_H
#define ZR_DEVICE_CPU_ATTENTION_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

/* Queries, and keys, of a block: a multiple of the lanes. At 64 the blocks of heads of 64 stay in the second-level
 * cache; from 48 to 128 the speed hardly changes. */
#define ZR__ATTENTION_BLOCK 64
#define ZR__ATTENTION_LANES 16

/** Offsets in floats from the start of a thread's scratch, each a multiple of 16 (64 bytes); -1: not there. */
typedef struct zr__attention_layout {
    int64_t width;    /* D rounded up to lanes: row stride of q, k, v, y and their gradients */
    int64_t keys_t;   /* forward: all key blocks, backward: one; each (D, BLOCK) */
    int64_t keys;     /* backward: (BLOCK, width) */
    int64_t values_t; /* backward: (D, BLOCK) */
    int64_t values;   /* forward: (T rounded up to lanes, width) */
    int64_t q;        /* forward: (BLOCK, width), backward: (T, width); scaled */
    int64_t y;        /* forward: (BLOCK, width) */
    int64_t dy;       /* backward: (T, width) */
    int64_t dq;       /* backward: (T, width) */
    int64_t dk, dv;   /* backward: (BLOCK, width) */
    int64_t p;        /* (BLOCK, BLOCK) scores, then probabilities */
    int64_t ds;       /* backward: (BLOCK, BLOCK) */
    int64_t kept;     /* backward: (BLOCK, BLOCK) factors of dropout */
    int64_t stat;     /* forward: maximum, sum (BLOCK each); backward: sum of dy y (T) */
    int64_t floats;   /* all of it */
} zr__attention_layout;

/** n rounded up to whole lanes. */
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

/** Layout for T tokens and heads of D. */
static inline zr__attention_layout zr__attention_layout_make(int64_t T, int64_t D, bool backward)
{
    const int64_t n = ZR__ATTENTION_BLOCK;
    const int64_t w = zr__attention_lanes(D);
    zr__attention_layout l = {w, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0};
    int64_t *used = &l.floats;
    l.p = zr__attention_take(used, n * n);
    l.stat = zr__attention_take(used, backward ? T : 2 * n);
    l.q = zr__attention_take(used, (backward ? T : n) * w);
    l.keys_t = zr__attention_take(used, (backward ? 1 : (T + n - 1) / n) * n * D);
    if (!backward) {
        l.values = zr__attention_take(used, zr__attention_lanes(T) * w);
        l.y = zr__attention_take(used, n * w);
        return l;
    }
    l.keys = zr__attention_take(used, n * w);
    l.values_t = zr__attention_take(used, n * D);
    l.dy = zr__attention_take(used, T * w);
    l.dq = zr__attention_take(used, T * w);
    l.dk = zr__attention_take(used, n * w);
    l.dv = zr__attention_take(used, n * w);
    l.ds = zr__attention_take(used, n * n);
    l.kept = zr__attention_take(used, n * n);
    return l;
}

/** Scratch of one thread. */
static inline int64_t zr__attention_scratch_bytes(int64_t T, int64_t D, bool backward)
{
    return 4 * zr__attention_layout_make(T, D, backward).floats;
}

#endif
