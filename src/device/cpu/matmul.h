/*
 * The linear ops as matrix products: through oneDNN directly, or, for fp16 (which oneDNN 2.6 does not multiply
 * on processors) and where the processor does not multiply bf16, by panels widened to fp32 on their way into
 * the product.
 */
#ifndef ZR_DEVICE_CPU_MATMUL_H
#define ZR_DEVICE_CPU_MATMUL_H

#include "zr/device.h"

typedef enum zr__linear_kind { ZR__LINEAR, ZR__LINEAR_DX, ZR__LINEAR_DW } zr__linear_kind;

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

ZR_NODISCARD zr_status zr__matmul_prepare(const zr_kernel_args *args, zr__linear_kind kind, const zr__panel_ops *panel,
                                          void **state);
ZR_NODISCARD zr_status zr__matmul_run(const zr_kernel_args *args);
void zr__matmul_release(void *state);

#endif
