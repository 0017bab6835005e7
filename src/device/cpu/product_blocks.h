/**
 * product_blocks: the scratch of a matrix product C (m,n) = A (m,k) B (k,n) that the device makes by itself, from
 * packed operands. A kernel's scratch_bytes and the product itself use this one layout.
 *
 * The operand on the shorter side of C is packed for all threads, the other by each thread for itself, a block at a
 * time; both in stretches of k. Where the sums of several stretches are to be rounded to 16 bits at the end, a part of
 * C is kept in fp32 until then.
 */
#ifndef ZR_DEVICE_CPU_PRODUCT_BLOCKS_H
#define ZR_DEVICE_CPU_PRODUCT_BLOCKS_H

#include "zr/tensor.h"

#define ZR__PRODUCT_DEPTH 768                  /* longest stretch of k, at any level */
#define ZR__PRODUCT_SHORT 384                  /* with a k up to this, no level takes two */
#define ZR__PRODUCT_BLOCK ((int64_t)640 << 10) /* bytes of a thread's own block: it stays in its cache */
#define ZR__PRODUCT_UNIT 48                    /* rows or columns: blocks are whole units of all levels */
#define ZR__PRODUCT_SIDE ((int64_t)1024)       /* rows or columns of a part of C that waits, at most */

/** Bytes, and offsets in bytes from the start of the scratch; each a multiple of 64. */
typedef struct zr__product_layout {
    int64_t shared_bytes, own_bytes; /* bytes of the shared operand, and of one thread's block of the other */
    int64_t own, sums; /* offsets of the threads' blocks, one after the other, and of the part of C in fp32 */
    int64_t bytes;     /* all of it */
} zr__product_layout;

/** Return the bytes for `length` rows or columns: at most `most`, but at least the bytes of one unit. */
static inline int64_t zr__product_room(int64_t length, int64_t depth, int64_t most)
{
    const int64_t each = depth * zr_dtype_bytes(ZR_F32), whole = (length + ZR__PRODUCT_UNIT) * each,
                  least = ZR__PRODUCT_UNIT * each,
                  room = whole < most   ? whole
                         : most > least ? most
                                        : least;
    return (room + 63) / 64 * 64;
}

/** Compute the layout. c: C's dtype. panel_bytes: the device's limit for the shared operand. */
static inline zr__product_layout zr__product_layout_make(int64_t m, int64_t n, int64_t k, zr_dtype c, int threads,
                                                         int64_t panel_bytes)
{
    const int64_t depth = k < ZR__PRODUCT_DEPTH ? k : ZR__PRODUCT_DEPTH, side = ZR__PRODUCT_SIDE;
    const int64_t shorter = m < n ? m : n, longer = m < n ? n : m;
    zr__product_layout l = {.shared_bytes = zr__product_room(shorter, depth, panel_bytes)};
    l.own_bytes = zr__product_room((longer + threads - 1) / threads, depth, ZR__PRODUCT_BLOCK);
    l.own = l.shared_bytes;
    l.sums = l.own + threads * l.own_bytes;
    l.bytes = l.sums;
    if (c != ZR_F32 && k > ZR__PRODUCT_SHORT) {
        const int64_t rows = m < side ? m : side, cols = n < side ? n : side;
        l.bytes += (rows * cols * zr_dtype_bytes(ZR_F32) + 63) / 64 * 64;
    }
    return l;
}

#endif
