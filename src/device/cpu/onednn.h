/* Matrix products of oneDNN. Only onednn.c includes oneDNN's headers; it handles versions 2 and 3. */
#ifndef ZR_DEVICE_CPU_ONEDNN_H
#define ZR_DEVICE_CPU_ONEDNN_H

#include "zr/tensor.h"

/* Layout of a matrix in memory: element (i, j) is at i * row + j * col. Either row or col is 1. */
typedef struct zr__strides {
    int64_t row, col;
} zr__strides;

/* The product C (m,n) = A (m,k) B (k,n) + bias + earlier, or C += A B. bias (n) is optional and has A's dtype. earlier
 * (m,n) is optional, F32, and not C itself. */
typedef struct zr__product_spec {
    int64_t m, n, k;
    zr_dtype dtype, out_dtype; /* dtype of A and B, and dtype of C */
    zr__strides a, b;
    bool bias, earlier;
    bool accumulate; /* whether to compute C += A B; C must be F32, and the product has no earlier */
    int threads;
    int64_t ld; /* row stride of C and of earlier, in elements; 0 means n */
} zr__product_spec;

/* A product ready to run. Create, run and destroy a product on one thread, which owns oneDNN's scratch. */
typedef struct zr__product zr__product;

ZR_NODISCARD zr_status zr__product_create(const zr__product_spec *spec, zr__product **product);
void zr__product_destroy(zr__product **product);
/* Run a product. bias and earlier are NULL if the spec has none. */
ZR_NODISCARD zr_status zr__product_run(const zr__product *product, const void *a, const void *b, const void *bias,
                                       const void *earlier, void *c);
/* Limit of oneDNN's own scratch in a product, in bytes. If oneDNN would need more, the product runs on fewer threads.
 */
#define ZR__PRODUCT_SCRATCH ((int64_t)16 << 20)
/* Return the bytes that oneDNN allocates for a run besides the operands, and the name of the implementation that oneDNN
 * chose. */
int64_t zr__product_scratch_bytes(const zr__product *product);
const char *zr__product_implementation(const zr__product *product);

/* Limit oneDNN to the instructions of a level. The call has an effect only before oneDNN is first used in the process.
 */
ZR_NODISCARD zr_status zr__onednn_cap(const char *level);
/* Return whether oneDNN multiplies bf16 by the processor's bf16 instructions. A limit set by zr__onednn_cap or by the
 * environment may forbid these instructions. */
bool zr__onednn_has_bf16(void);

#endif
