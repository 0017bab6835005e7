/**
 * Products of matrices on a GPU, by cuBLASLt: C = op(A) op(B), rows behind each other, in memory of the GPU.
 *
 * Operands are F32, multiplied and added in fp32 (no TF32), or BF16 or F16, added in fp32; the result is of their type
 * or F32, rounded once. The algorithm is the first that the library's heuristic names for the shapes, the types and how
 * the operands lie on 16 bytes: nothing is timed. Parts of a sum are only ever added in fp32 and in one order, so that
 * a product has the same bits whenever it is run on GPUs of one model with one version of the library.
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
    bool a_transposed;       /* A (m,k) lies as (k,m) */
    bool b_transposed;       /* B (k,n) lies as (n,k) */
    int64_t a_ld, c_ld;      /* elements from a row to the next as A and C lie; 0: one follows the other */
    zr_dtype dtype;          /* of A and B */
    zr_dtype out_dtype;      /* of C */
    bool bias;               /* (n) of C's type, added to each row before it is rounded */
    int64_t workspace_bytes; /* result of zr__cuda_workspace, or more */
} zr__cuda_product_spec;

/** Return the spec of a product of dense matrices as they are, without a bias. */
static inline zr__cuda_product_spec zr__cuda_product_spec_make(int64_t m, int64_t n, int64_t k, zr_dtype dtype,
                                                               zr_dtype out_dtype)
{
    const zr__cuda_product_spec s = {m, n, k, false, false, 0, 0, dtype, out_dtype, false, zr__cuda_workspace(m, n)};
    return s;
}

/** Addresses. A product is chosen for the 16-byte alignment of the addresses at its creation: later ones may not be
 *  less aligned. */
typedef struct zr__cuda_product_operands {
    const void *a, *b;
    const void *bias;    /* where the spec has one */
    const void *earlier; /* layout and type of C, added before the rounding; may be C itself; NULL: none */
    void *c;
    void *workspace;
} zr__cuda_product_operands;

typedef struct zr__cuda_product zr__cuda_product;

/** Return whether a bias at this address can be added by the product. Otherwise it is written to C first, as `earlier`.
 */
bool zr__cuda_product_takes_bias(const void *bias);
/** ZR_ERR_DTYPE, ZR_ERR_UNSUPPORTED: types, or sizes, that have no product. `used` has the operands of a run, those
 *  with which it is made. */
ZR_NODISCARD zr_status zr__cuda_product_create(zr_device *device, const zr__cuda_product_spec *spec,
                                               const zr__cuda_product_operands *used, zr__cuda_product **product);
void zr__cuda_product_destroy(zr__cuda_product **product);
ZR_NODISCARD zr_status zr__cuda_product_run(const zr__cuda_product *product, zr_device *device,
                                            const zr__cuda_product_operands *at);

/** Give back the library's handle, which the device's first product has made. */
void zr__cuda_products_close(zr__cuda_device *cuda);

#ifdef __cplusplus
}
#endif
#endif
