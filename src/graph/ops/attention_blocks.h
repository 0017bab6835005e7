/**
 * attention_blocks: where the packed fp32 blocks of the attention kernels lie in a thread's scratch.
 * The op declares the bytes and the kernel carves them, so both read this one layout.
 *
 * A thread works on one head of one row at a time. Scratch grows with T, never with T x T: scores
 * exist for ZR__ATTENTION_QUERIES x ZR__ATTENTION_KEYS at a time.
 */
#ifndef ZR_GRAPH_OPS_ATTENTION_BLOCKS_H
#define ZR_GRAPH_OPS_ATTENTION_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

/* Multiples of 4, 6 and 8, the rows of a register tile at the various levels; keys of 16 lanes too. */
#define ZR__ATTENTION_QUERIES 48
#define ZR__ATTENTION_KEYS 96
#define ZR__ATTENTION_LANES 16

/** Offsets in floats from the start of a thread's scratch, each a multiple of 16 (64 bytes); -1: not there. */
typedef struct zr__attention_layout {
    int64_t width;    /* D rounded up to lanes: row stride of q, k, v, y and their gradients */
    int64_t keys_t;   /* forward: all key blocks, backward: one; each (D, KEYS) */
    int64_t keys;     /* backward: (KEYS, width) */
    int64_t values_t; /* backward: (D, KEYS) */
    int64_t values;   /* forward: (T, width) */
    int64_t q;        /* forward: (QUERIES, width), backward: (T, width); scaled */
    int64_t y;        /* forward: (QUERIES, width) */
    int64_t dy;       /* backward: (T, width) */
    int64_t dq;       /* backward: (T, width) */
    int64_t dk, dv;   /* backward: (KEYS, width) */
    int64_t p;        /* (QUERIES, KEYS) scores, then probabilities */
    int64_t ds;       /* backward: (QUERIES, KEYS) */
    int64_t kept;     /* backward: (QUERIES, KEYS) factors of dropout */
    int64_t stat;     /* forward: maximum, sum (QUERIES each); backward: sum of dy y (T) */
    int64_t floats;   /* all of it */
} zr__attention_layout;

static inline int64_t zr__attention_take(int64_t *used, int64_t floats)
{
    int64_t offset = *used;
    *used += (floats + ZR__ATTENTION_LANES - 1) / ZR__ATTENTION_LANES * ZR__ATTENTION_LANES;
    return offset;
}

/** Layout for T tokens and heads of D. */
static inline zr__attention_layout zr__attention_layout_make(int64_t T, int64_t D, bool backward)
{
    const int64_t nq = ZR__ATTENTION_QUERIES, nk = ZR__ATTENTION_KEYS;
    const int64_t w = (D + ZR__ATTENTION_LANES - 1) / ZR__ATTENTION_LANES * ZR__ATTENTION_LANES;
    zr__attention_layout l = {w, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0};
    int64_t *used = &l.floats;
    l.p = zr__attention_take(used, nq * nk);
    l.stat = zr__attention_take(used, backward ? T : 2 * nq);
    l.q = zr__attention_take(used, (backward ? T : nq) * w);
    l.keys_t = zr__attention_take(used, (backward ? 1 : (T + nk - 1) / nk) * nk * D);
    if (!backward) {
        l.values = zr__attention_take(used, T * w);
        l.y = zr__attention_take(used, nq * w);
        return l;
    }
    l.keys = zr__attention_take(used, nk * w);
    l.values_t = zr__attention_take(used, nk * D);
    l.dy = zr__attention_take(used, T * w);
    l.dq = zr__attention_take(used, T * w);
    l.dk = zr__attention_take(used, nk * w);
    l.dv = zr__attention_take(used, nk * w);
    l.ds = zr__attention_take(used, nq * nk);
    l.kept = zr__attention_take(used, nq * nk);
    return l;
}

/** Scratch of one thread. */
static inline int64_t zr__attention_scratch_bytes(int64_t T, int64_t D, bool backward)
{
    return 4 * zr__attention_layout_make(T, D, backward).floats;
}

#endif
