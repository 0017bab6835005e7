/* Matrix products of kernels: bf16 products through oneDNN where the processor multiplies bf16, all others by this
 * level's own code, in fp32 (kernels/product.c): 16-bit operands are widened as they are packed. */
#ifndef ZR_DEVICE_CPU_MATMUL_H
#define ZR_DEVICE_CPU_MATMUL_H

#include "device/cpu/onednn.h"
#include "zr/device.h"

typedef struct zr__matmul_operands {
    const void *a, *b, *bias; /* bias, earlier: not read when the spec has none */
    const float *earlier;
    void *c;
    void *panels; /* zr__matmul_scratch of the kernel's scratch */
} zr__matmul_operands;

/* A level's matrix product. */
typedef struct zr__panel_ops {
    bool bf16_products; /* the level multiplies bf16 itself */
    void (*multiply)(const zr__product_spec *spec, const zr__matmul_operands *operands);
} zr__panel_ops;

/* Most bytes of an operand that threads share in a product: with a part of C they fit a last-level cache. */
#define ZR__PANEL_BYTES ((int64_t)4 << 20)

/* Scratch of a product C (m,n) = A (m,k) B (k,n) of A's dtype `dtype` and C's `out_dtype`: none where the device leaves
 * it to a library, or packs nothing. */
int64_t zr__matmul_scratch(const zr_device_facts *facts, int64_t m, int64_t n, int64_t k, zr_dtype dtype,
                           zr_dtype out_dtype);

/* A product of this level. C is dense: spec.ld is 0. Create, run and destroy it on one thread. */
typedef struct zr__matmul zr__matmul;
ZR_NODISCARD zr_status zr__matmul_create(const zr__product_spec *spec, const zr__panel_ops *level, zr__matmul **matmul);
void zr__matmul_destroy(zr__matmul **matmul);
ZR_NODISCARD zr_status zr__matmul_run(const zr__matmul *matmul, const zr__matmul_operands *operands);

#endif
