/**
 * Products of matrices on a GPU, by cuBLASLt: C = op(A) op(B), row-major, in memory of the GPU.
 *
 * F32 operands are multiplied and added in fp32, without TF32. Products of BF16 and F16 operands are added in fp32. The
 * result has the operands' type or F32, and is rounded once. The algorithm is the first one that cuBLASLt's heuristic
 * names for the shapes, the types and the operands' alignment up to 16 bytes; nothing is timed. Partial sums are added
 * only in fp32 and in one order, so a product always has the same bits on GPUs of one model with one version of
 * cuBLASLt.
 */
#ifndef ZR_DEVICE_CUDA_PRODUCTS_H
#define ZR_DEVICE_CUDA_PRODUCTS_H

#include "device/cuda/cuda.h"
#include "device/cuda/scratch.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zr__cuda_product_spec {
    int64_t m, n, k;
    bool a_transposed;  /* whether A (m,k) is stored as (k,m) */
    bool b_transposed;  /* whether B (k,n) is stored as (n,k) */
    int64_t a_ld,       /* row stride of A as stored, in elements; 0 if the rows are contiguous */
        c_ld;           /* row stride of C, in elements; 0 if the rows are contiguous */
    zr_dtype dtype;     /* dtype of A and B */
    zr_dtype out_dtype; /* dtype of C */
    bool bias;          /* whether to add a bias (n), which has C's dtype, to each row before rounding */
    /* size of the workspace in bytes, with padding for its alignment; at least the result of zr__cuda_workspace */
    int64_t workspace_bytes;
} zr__cuda_product_spec;

/** Return the spec of a product of dense matrices, without transposes and without a bias. */
static inline zr__cuda_product_spec zr__cuda_product_spec_make(int64_t m, int64_t n, int64_t k, zr_dtype dtype,
                                                               zr_dtype out_dtype)
{
    const zr__cuda_product_spec s = {m, n, k, false, false, 0, 0, dtype, out_dtype, false, zr__cuda_workspace(m, n)};
    return s;
}

/** Addresses of the operands. The algorithm of a product depends on the alignment, up to 16 bytes, of the addresses at
 * its creation. The addresses of each run must have at least this alignment. */
typedef struct zr__cuda_product_operands {
    const void *a, *b;
    const void *bias;    /* bias to add; not used if the spec has no bias */
    const void *earlier; /* array to add before rounding, with the layout and type of C, or NULL; may be C itself */
    void *c;
    void *workspace;
} zr__cuda_product_operands;

typedef struct zr__cuda_product zr__cuda_product;

/** Return whether a product can add the bias at this address. If not, write the bias to C before the run, and pass C as
 * `earlier`. */
bool zr__cuda_product_takes_bias(const void *bias);
/** Create a product. `used` are the operands of a later run, whose alignment the product assumes. Return ZR_ERR_DTYPE
 * or ZR_ERR_UNSUPPORTED if there is no product for the types or sizes. */
ZR_NODISCARD zr_status zr__cuda_product_create(zr_device *device, const zr__cuda_product_spec *spec,
                                               const zr__cuda_product_operands *used, zr__cuda_product **product);
void zr__cuda_product_destroy(zr__cuda_product **product);
ZR_NODISCARD zr_status zr__cuda_product_run(const zr__cuda_product *product, zr_device *device,
                                            const zr__cuda_product_operands *at);

/** Destroy cuBLASLt's handle, which the device's first product created. */
void zr__cuda_products_close(zr__cuda_device *cuda);

#ifdef __cplusplus
}
#endif
#endif
