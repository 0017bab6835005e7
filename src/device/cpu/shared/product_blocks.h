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

#define ZR__TILE_DEPTH 32 /* elements of k in an AMX tile */
#define ZR__TILE_PARTS 3  /* bf16 parts of an fp32 element on AMX tiles */

/** Sizes in bytes, and offsets in bytes from the start of the scratch. All are multiples of 64. */
typedef struct zr__product_layout {
    int64_t shared_bytes, /* size of the shared operand's buffer */
        own_bytes;        /* size of the block that each thread packs */
    int64_t own,          /* offset of the threads' blocks, which are contiguous */
        sums;             /* offset of the fp32 copy of a part of C, at the end of the scratch */
    int64_t bytes;        /* size of the whole scratch */
} zr__product_layout;

/** Return the bytes of a buffer for `length` rows or columns of `words` words. The buffer has at most `most` bytes, but
 * at least the bytes of one unit. */
static inline int64_t zr__product_room(int64_t length, int64_t words, int64_t most)
{
    const int64_t each = words * zr_dtype_bytes(ZR_F32), whole = (length + ZR__PRODUCT_UNIT) * each,
                  least = ZR__PRODUCT_UNIT * each,
                  room = whole < most   ? whole
                         : most > least ? most
                                        : least;
    return (room + 63) / 64 * 64;
}

/** Return the number of words of 4 bytes in a row or column of a panel for k elements. On AMX tiles (`tiles`), elements
 * are padded to a multiple of 32. A word there holds a pair of bf16, and an fp32 element consists of three bf16 parts.
 * Otherwise a word is an fp32 element. */
static inline int64_t zr__product_words(zr_dtype dtype, bool tiles, int64_t k)
{
    if (!tiles || dtype == ZR_F16) return k;
    return (k + ZR__TILE_DEPTH - 1) / ZR__TILE_DEPTH * (dtype == ZR_F32 ? ZR__TILE_PARTS : 1) * ZR__TILE_DEPTH / 2;
}

/** A product whose operands are packed. */
typedef struct zr__product_shape {
    int64_t m, n, k;
    zr_dtype dtype, out_dtype; /* of A and B, and of C */
    bool tiles;                /* whether the level multiplies on AMX tiles */
} zr__product_shape;

/** Compute the layout for a number of threads. panel_bytes is the maximum size of the shared operand's buffer. */
static inline zr__product_layout zr__product_layout_make(zr__product_shape s, int threads, int64_t panel_bytes)
{
    const int64_t depth = s.k < ZR__PRODUCT_DEPTH ? s.k : ZR__PRODUCT_DEPTH, side = ZR__PRODUCT_SIDE;
    const int64_t words = zr__product_words(s.dtype, s.tiles, depth);
    const int64_t shorter = s.m < s.n ? s.m : s.n, longer = s.m < s.n ? s.n : s.m;
    zr__product_layout l = {.shared_bytes = zr__product_room(shorter, words, panel_bytes)};
    l.own_bytes = zr__product_room((longer + threads - 1) / threads, words, ZR__PRODUCT_BLOCK);
    l.own = l.shared_bytes;
    l.sums = l.own + threads * l.own_bytes;
    l.bytes = l.sums;
    if (s.out_dtype != ZR_F32 && s.k > ZR__PRODUCT_SHORT) {
        const int64_t rows = s.m < side ? s.m : side, cols = s.n < side ? s.n : side;
        l.bytes += (rows * cols * zr_dtype_bytes(ZR_F32) + 63) / 64 * 64;
    }
    return l;
}

#endif
