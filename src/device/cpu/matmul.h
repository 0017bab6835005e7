/*
 * Matrix products of kernels: through oneDNN directly, or, for fp16 (which oneDNN 2.6 does not multiply on
 * processors) and where the processor does not multiply bf16, by panels widened to fp32 on their way into the
 * product.
 */
#ifndef ZR_DEVICE_CPU_MATMUL_H
#define ZR_DEVICE_CPU_MATMUL_H

#include "device/cpu/onednn.h"
#include "zr/device.h"

/* What a level brings to a product by panels (kernels/linear.c). A block is (rows, cols) of a matrix
 * with ld elements from row to row; a panel is a block in F32, contiguous. */
typedef struct zr__panel_ops {
    bool bf16_products; /* the level multiplies bf16 itself: no panels */
    void (*widen)(int threads, float *panel, const uint16_t *block, zr_dtype dtype, int64_t rows, int64_t cols,
                  int64_t ld);
    /* panel = earlier (F32, as ld says), or bias (dtype, cols) in each row, or 0 where both are NULL */
    void (*begin)(int threads, float *panel, const float *earlier, const uint16_t *bias, zr_dtype dtype, int64_t rows,
                  int64_t cols, int64_t ld);
    void (*store)(int threads, void *block, zr_dtype dtype, const float *panel, int64_t rows, int64_t cols, int64_t ld);
} zr__panel_ops;

/* One panel; a product takes three (A, B, C) as scratch. Together they fit a last-level cache. */
#define ZR__PANEL_BYTES ((int64_t)4 << 20)

/* A product whose panels, if any, are this level's. C is dense: spec.ld is 0. Create, run and destroy it on one thread.
 */
typedef struct zr__matmul zr__matmul;
ZR_NODISCARD zr_status zr__matmul_create(const zr__product_spec *spec, const zr__panel_ops *panel, zr__matmul **matmul);
void zr__matmul_destroy(zr__matmul **matmul);

typedef struct zr__matmul_operands {
    const void *a, *b, *bias; /* bias, earlier: not read when the spec has none */
    const float *earlier;
    void *c;
    void *panels; /* three panels; not used where the product goes without */
} zr__matmul_operands;

ZR_NODISCARD zr_status zr__matmul_run(const zr__matmul *matmul, const zr__matmul_operands *operands);

#endif
