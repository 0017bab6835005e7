/* Matrix products of kernels. If the processor has bf16 products, oneDNN multiplies bf16. All other products are
 * computed in fp32 by this level's own code (kernels/product.c), which widens 16-bit operands when it packs them. */
#ifndef ZR_DEVICE_CPU_MATMUL_H
#define ZR_DEVICE_CPU_MATMUL_H

#include "device/cpu/onednn.h"
#include "zr/device.h"

typedef struct zr__matmul_operands {
    const void *a, *b, *bias; /* bias and earlier are read only if the spec has them */
    const float *earlier;
    void *c;
    void *panels; /* part of the kernel's scratch, of zr__matmul_scratch bytes */
} zr__matmul_operands;

/* The matrix product of a level. */
typedef struct zr__panel_ops {
    bool bf16_products; /* whether the level has bf16 products */
    void (*multiply)(const zr__product_spec *spec, const zr__matmul_operands *operands);
} zr__panel_ops;

/* Maximum bytes of the operand that threads share in a product. This operand and a part of C fit into a last-level
 * cache together. */
#define ZR__PANEL_BYTES ((int64_t)4 << 20)

/* Return the scratch bytes of a product C (m,n) = A (m,k) B (k,n). A has `dtype`, C has `out_dtype`. Return 0 if a
 * library computes the product, or if the device packs nothing. */
int64_t zr__matmul_scratch(const zr_device_facts *facts, int64_t m, int64_t n, int64_t k, zr_dtype dtype,
                           zr_dtype out_dtype);

/* A matrix product of this level. C is dense: spec.ld must be 0. Create, run and destroy a product on one thread. */
typedef struct zr__matmul zr__matmul;
ZR_NODISCARD zr_status zr__matmul_create(const zr__product_spec *spec, const zr__panel_ops *level, zr__matmul **matmul);
void zr__matmul_destroy(zr__matmul **matmul);
ZR_NODISCARD zr_status zr__matmul_run(const zr__matmul *matmul, const zr__matmul_operands *operands);

#endif
