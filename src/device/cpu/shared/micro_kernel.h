/*
 * A micro-kernel packs the operands of a matrix product into panels, and multiplies a panel of A by a panel of B (the
 * structure of BLIS: Van Zee and van de Geijn 2015). The loops around it (kernels/product.c) are the same for all
 * micro-kernels.
 *
 * Panels consist of words of 4 bytes: an fp32 value, or a pair of bf16 values that are neighbours along k
 * (product_blocks.h).
 */
#ifndef ZR_DEVICE_CPU_MICRO_KERNEL_H
#define ZR_DEVICE_CPU_MICRO_KERNEL_H

#include "device/cpu/shared/level.h"

/* An operand, A or B. p is the index of a row of A or of a column of B. Element (p, k) is at offset p * along + k *
 * depth, where along or depth is 1. */
typedef struct zr__side {
    const void *data;
    zr_dtype dtype;
    bool is_a;
    int64_t along, depth;
    int64_t n;     /* number of rows of A or columns of B */
    int64_t width; /* number of rows or columns in a panel */
    int64_t unit;  /* rows or columns that are packed at a time: a multiple of a vector's and of a panel's width */
} zr__side;

/* Destination of packed panels. `out` receives the panels from row or column `first` on, for `depth` values of k, which
 * take `words` words of each row or column. */
typedef struct zr__panels_at {
    float *out;
    int64_t first, depth, words;
} zr__panels_at;

/* A tile of C: c = base + a b, with panels a and b of `words` words. `base` has the shape of c. If base_ld is 0, all
 * rows of c use the same row of `base`. If `base` is NULL, nothing is added. */
typedef struct zr__product_tile {
    int64_t words;
    const float *a, *b, *base;
    int64_t base_ld;
    float *c;
    int64_t ld;
} zr__product_tile;

typedef struct zr__micro_kernel {
    int64_t rows, cols;         /* size of a whole tile, which is the width of a panel of A and of a panel of B */
    int64_t row_unit, col_unit; /* granularities of packing A and B */
    int64_t row_grain;          /* granularity of rows that `multiply` writes */
    int64_t step, step_words;   /* panels pad k to a multiple of `step` elements, which take `step_words` words */
    int64_t depth;              /* maximum length of a range of k, in elements */
    int64_t own_words;          /* maximum number of words in a thread's own block */
    int64_t pack_cost;          /* multiply-adds that take as long as packing an element */
    int64_t share;              /* least work of a thread, packing included, in multiply-adds */
    /* Prepare the calling thread's registers before the first tile, and release them after the last one; NULL if there
     * is nothing to do. */
    void (*begin)(void), (*end)(void);
    /* Pack n rows of A (or columns of B) from to.first on, for to.depth values of k from k0 on. to.first is a multiple
     * of the side's unit. */
    void (*pack)(const zr__side *side, zr__panels_at to, int64_t n, int64_t k0);
    /* Compute a tile of `rows` x `cols` elements. It writes rows up to a multiple of row_grain, and columns up to whole
     * vectors. */
    void (*multiply)(const zr__product_tile *tile, int64_t rows, int64_t cols);
    /* Multiply a row `a` of `depth` elements by columns [col, col + cols) of B without packing, with the bits of a
     * tile: sum[j] = sum over k < depth of a[k] * B[k0 + k][col + j]. `sum` has room for cols rounded up to whole
     * vectors. If the pointer is NULL, a single row is multiplied like many rows. */
    void (*row)(const zr__side *b, const float *a, int64_t k0, int64_t depth, int64_t col, int64_t cols, float *sum);
} zr__micro_kernel;

/* Return the number of words of a panel's row or column for `depth` elements of k. */
static inline int64_t zr__micro_words(const zr__micro_kernel *kernel, int64_t depth)
{
    return (depth + kernel->step - 1) / kernel->step * kernel->step_words;
}

#endif
