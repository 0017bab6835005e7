/**
 * Layout of the scratch memory of zr's own matrix product C (m,n) = A (m,k) B (k,n), which packs its operands. A
 * kernel's scratch_bytes and the product (kernels/product.c) both use this layout.
 *
 * One operand, called shared, is packed once for all threads: A if m <= n, else B. Each thread packs the other operand
 * for itself, a block at a time. Both operands are packed for one range of k at a time. A 16-bit C must be rounded only
 * once. If k has several ranges, a part of C is therefore stored in fp32 until the last range is added.
 */
#ifndef ZR_DEVICE_CPU_PRODUCT_BLOCKS_H
#define ZR_DEVICE_CPU_PRODUCT_BLOCKS_H

#include "zr/tensor.h"

#define ZR__PRODUCT_DEPTH 768                  /* maximum length of a range of k, at any level */
#define ZR__PRODUCT_SHORT 384                  /* maximum k for which every level uses a single range of k */
#define ZR__PRODUCT_BLOCK ((int64_t)640 << 10) /* maximum bytes of a thread's own block, which stays in its cache */
#define ZR__PRODUCT_UNIT 48                    /* number of rows or columns in a unit; blocks consist of units */
#define ZR__PRODUCT_SIDE ((int64_t)1024) /* maximum number of rows or columns of a part of C that is stored in fp32 */

/** Sizes in bytes, and offsets in bytes from the start of the scratch. All are multiples of 64. */
typedef struct zr__product_layout {
    int64_t shared_bytes, /* size of the shared operand's buffer */
        own_bytes;        /* size of the block that each thread packs */
    int64_t own,          /* offset of the threads' blocks, which are contiguous */
        sums;             /* offset of the part of C in fp32, which is last */
    int64_t bytes;        /* size of the whole scratch */
} zr__product_layout;

/** Return the bytes of a buffer for `length` rows or columns of `depth` elements. The buffer has at most `most` bytes,
 * but at least the bytes of one unit. */
static inline int64_t zr__product_room(int64_t length, int64_t depth, int64_t most)
{
    const int64_t each = depth * zr_dtype_bytes(ZR_F32), whole = (length + ZR__PRODUCT_UNIT) * each,
                  least = ZR__PRODUCT_UNIT * each,
                  room = whole < most   ? whole
                         : most > least ? most
                                        : least;
    return (room + 63) / 64 * 64;
}

/** Return the number of words of 4 bytes for k elements of bf16 in pairs, which are padded to whole AMX tiles. */
static inline int64_t zr__product_pairs(int64_t k)
{
    return (k + 31) / 32 * 16;
}

/** Compute the layout. k counts words: elements of fp32, or pairs of bf16. c is the dtype of C. panel_bytes is the
 * maximum size of the shared operand's buffer. */
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
