/* Matrix products for kernels. zr's own code (kernels/product.c) computes products in fp32, and widens 16-bit operands
 * while packing them. Levels with bf16 products are exceptions. On AMX tiles zr's own code multiplies bf16 operands
 * directly, and fp32 operands in bf16 parts (amx_pack.h). If the level has only dot products of bf16, oneDNN multiplies
 * bf16 operands. */
#ifndef ZR_DEVICE_CPU_MATMUL_H
#define ZR_DEVICE_CPU_MATMUL_H

#include "device/cpu/onednn.h"
#include "zr/device.h"

typedef struct zr__matmul_operands {
    const void *a, *b, *bias; /* bias and earlier are ignored if the spec does not have them */
    const float *earlier;
    void *c;
    void *panels; /* buffer of zr__matmul_scratch bytes for packed operands, in the kernel's scratch */
} zr__matmul_operands;

/* Matrix product compiled for one processor level. */
typedef struct zr__panel_ops {
    bool bf16_products; /* whether the level multiplies bf16 operands without widening them */
    /* whether `multiply` uses AMX tiles, for bf16 and fp32; otherwise oneDNN multiplies bf16, if bf16_products */
    bool tiles;
    void (*multiply)(const zr__product_spec *spec, const zr__matmul_operands *operands);
} zr__panel_ops;

/* Maximum bytes of the packed operand that all threads of a product share. This operand and a part of C together fit
 * into the last-level cache. */
#define ZR__PANEL_BYTES ((int64_t)4 << 20)

/* Return the scratch bytes of a product C (m,n) = A (m,k) B (k,n). A and B have `dtype`, C has `out_dtype`. Return 0 if
 * oneDNN computes the product, or if facts->panel_bytes is 0, because operands are not packed then. */
int64_t zr__matmul_scratch(const zr_device_facts *facts, int64_t m, int64_t n, int64_t k, zr_dtype dtype,
                           zr_dtype out_dtype);

/* A matrix product ready to run. C is contiguous, so spec.ld must be 0. Create, run and destroy a product on the same
 * thread. */
typedef struct zr__matmul zr__matmul;
ZR_NODISCARD zr_status zr__matmul_create(const zr__product_spec *spec, const zr__panel_ops *level, zr__matmul **matmul);
void zr__matmul_destroy(zr__matmul **matmul);
ZR_NODISCARD zr_status zr__matmul_run(const zr__matmul *matmul, const zr__matmul_operands *operands);

#endif
