/* Matrix products of oneDNN. Only onednn.c includes the library's headers; it handles versions 2 and 3. */
#ifndef ZR_DEVICE_CPU_ONEDNN_H
#define ZR_DEVICE_CPU_ONEDNN_H

#include "zr/tensor.h"

/* Layout of a matrix in memory: element (i, j) at i * row + j * col; row or col is 1. */
typedef struct zr__strides {
    int64_t row, col;
} zr__strides;

/* C (m,n) = A (m,k) B (k,n) [+ bias (n), in A's dtype] [+ earlier (m,n), F32, not C itself]; or C += A B. */
typedef struct zr__product_spec {
    int64_t m, n, k;
    zr_dtype dtype, out_dtype; /* of A and B; of C */
    zr__strides a, b;
    bool bias, earlier;
    bool accumulate; /* C, F32, is added to; then no earlier */
    int threads;
    int64_t ld; /* elements from row to row of C and of earlier; 0: n */
} zr__product_spec;

/* A product ready to run. Create, run and destroy it on one thread: the library's scratch is
 * that thread's. */
typedef struct zr__product zr__product;

ZR_NODISCARD zr_status zr__product_create(const zr__product_spec *spec, zr__product **product);
void zr__product_destroy(zr__product **product);
/* bias and earlier: NULL when the spec has none. */
ZR_NODISCARD zr_status zr__product_run(const zr__product *product, const void *a, const void *b, const void *bias,
                                       const void *earlier, void *c);
/* Most that the library may take for itself in a product; where it wants more, fewer threads are used. */
#define ZR__PRODUCT_SCRATCH ((int64_t)16 << 20)
/* Return the bytes that the library allocates for a run beside the operands, and the implementation that it chose. */
int64_t zr__product_scratch_bytes(const zr__product *product);
const char *zr__product_implementation(const zr__product *product);

/* Keep the library to the instructions of a level. Works until its first use in the process. */
ZR_NODISCARD zr_status zr__onednn_cap(const char *level);
/* Return whether it multiplies bf16 by the processor's instructions, which a cap, this one's or the environment's,
 * forbids. */
bool zr__onednn_has_bf16(void);

#endif
