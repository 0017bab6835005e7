/* Matrix products by oneDNN, version 2 or 3. Only onednn.c includes oneDNN's headers. */
#ifndef ZR_DEVICE_CPU_ONEDNN_H
#define ZR_DEVICE_CPU_ONEDNN_H

#include "zr/tensor.h"

/* Layout of a matrix in memory: element (i, j) is at i * row + j * col. Either row or col is 1. */
typedef struct zr__strides {
    int64_t row, col;
} zr__strides;

/* Shapes and options of a product C (m,n) = A (m,k) B (k,n) + bias + earlier, or C += A B. `bias` (n) is optional and
 * has A's dtype. `earlier` (m,n) is optional, has dtype F32 and is not C itself. */
typedef struct zr__product_spec {
    int64_t m, n, k;
    zr_dtype dtype, /* dtype of A and B */
        out_dtype;  /* dtype of C */
    zr__strides a, b;
    bool bias, earlier;
    bool accumulate; /* whether to compute C += A B; then C must be F32, and `earlier` must be false */
    int threads;
    int64_t ld; /* row stride of C and of the operand `earlier`, in elements; 0 means n */
} zr__product_spec;

/* A product ready to run. Create, run and destroy a product on the same thread, because oneDNN's scratch belongs to a
 * thread. */
typedef struct zr__product zr__product;

ZR_NODISCARD zr_status zr__product_create(const zr__product_spec *spec, zr__product **product);
void zr__product_destroy(zr__product **product);
/* Run a product. `bias` or `earlier` is NULL if the spec does not have it. */
ZR_NODISCARD zr_status zr__product_run(const zr__product *product, const void *a, const void *b, const void *bias,
                                       const void *earlier, void *c);
/* Maximum bytes of oneDNN's internal scratch in a product. A product that would need more runs on fewer threads. */
#define ZR__PRODUCT_SCRATCH ((int64_t)16 << 20)
/* Return the bytes of internal scratch that oneDNN allocates to run the product. */
int64_t zr__product_scratch_bytes(const zr__product *product);
/* Return the name of the implementation that oneDNN chose. */
const char *zr__product_implementation(const zr__product *product);

/* Limit oneDNN to the instructions of a level, such as "v3". Return ZR_ERR_CONFIG if the process has already used
 * oneDNN with another limit. */
ZR_NODISCARD zr_status zr__onednn_cap(const char *level);
/* Return whether oneDNN may use the processor's bf16 instructions. zr__onednn_cap or the environment may forbid them.
 */
bool zr__onednn_has_bf16(void);

#endif
