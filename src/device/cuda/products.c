/*
 * Products by cuBLASLt. cuBLASLt stores matrices by columns, zr by rows. For cuBLASLt, zr's C (m,n) in memory is
 * therefore C^T (n,m) = B^T A^T. B is passed as the left matrix and A as the right matrix, and no data is moved.
 */
#include "device/cuda/products.h"

#include <cublasLt.h>
#include <stdio.h>

#include "base/core/library.h"
#include "base/core/scope.h"
#include "device/device.h"

/* Maximum alignment in bytes that affects cuBLASLt's choice of kernels; no kernel loads more bytes at a time. */
enum { ALIGNED = 16 };

/* ---- the library ------------------------------------------------------------------------------- */

#define FUNCTIONS(X)                                                                                                   \
    X(cublasLtCreate)                                                                                                  \
    X(cublasLtDestroy)                                                                                                 \
    X(cublasLtGetStatusString)                                                                                         \
    X(cublasLtGetVersion)                                                                                              \
    X(cublasLtMatmul)                                                                                                  \
    X(cublasLtMatmulAlgoGetHeuristic)                                                                                  \
    X(cublasLtMatmulDescCreate)                                                                                        \
    X(cublasLtMatmulDescDestroy)                                                                                       \
    X(cublasLtMatmulDescSetAttribute)                                                                                  \
    X(cublasLtMatmulPreferenceCreate)                                                                                  \
    X(cublasLtMatmulPreferenceDestroy)                                                                                 \
    X(cublasLtMatmulPreferenceSetAttribute)                                                                            \
    X(cublasLtMatrixLayoutCreate)                                                                                      \
    X(cublasLtMatrixLayoutDestroy)

#define FIELD(function) __typeof__(function) *function;
typedef struct functions {
    FUNCTIONS(FIELD)
} functions;

/* Open cuBLASLt. First try the version of the CUDA with which zr was built, because zr uses its header. Then try other
 * versions. */
static zr_status open_library(functions *lt)
{
#define NAME(function) #function,
    char own[32];
    const char *const files[] = {own, "libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", NULL};
    static const char *const names[] = {FUNCTIONS(NAME) NULL};
    const zr__library cublaslt = {"cuBLASLt", "products of matrices", files, names};
    snprintf(own, sizeof own, "libcublasLt.so.%d", CUDART_VERSION / 1000);
    ZR_TRY(zr__library_open(&cublaslt, lt));
    return ZR_OK;
}

static zr_status lt_failed(const functions *lt, cublasStatus_t status, const char *what)
{
    const zr_status st = status == CUBLAS_STATUS_ALLOC_FAILED    ? ZR_ERR_MEMORY
                         : status == CUBLAS_STATUS_NOT_SUPPORTED ? ZR_ERR_UNSUPPORTED
                         : status == CUBLAS_STATUS_ARCH_MISMATCH ? ZR_ERR_UNSUPPORTED
                                                                 : ZR_ERR_IO;
    return ZR_FAIL(st, "cuBLASLt: %s (in %.60s)", lt->cublasLtGetStatusString(status), what);
}
#define TRY_LT(lt, call)                                                                                               \
    do {                                                                                                               \
        const cublasStatus_t status_ = (lt)->call;                                                                     \
        if (status_ != CUBLAS_STATUS_SUCCESS) return lt_failed((lt), status_, #call);                                  \
    } while (0)

void zr__device_cuda_matmul(char *text, int64_t bytes)
{
    functions lt;
    if (bytes > 0) text[0] = '\0';
    if (open_library(&lt) != ZR_OK) return;
    const int version = (int)lt.cublasLtGetVersion();
    snprintf(text, (size_t)bytes, "cuBLASLt %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

/* Data that all products of a device share. */
struct zr__cuda_products {
    functions lt;
    cublasLtHandle_t handle;
};

static zr_status open_handle(zr__cuda_products *shared)
{
    ZR_TRY(open_library(&shared->lt));
    TRY_LT(&shared->lt, cublasLtCreate(&shared->handle));
    return ZR_OK;
}

static zr_status share_library(zr__cuda_device *cuda)
{
    if (cuda->products) return ZR_OK;
    ZR_AUTO_FREE zr__cuda_products *shared = zr_alloc(sizeof *shared);
    ZR_CHECK(shared, ZR_ERR_MEMORY, "no memory for a library's %zu bytes", sizeof *shared);
    ZR_TRY(open_handle(shared));
    cuda->products = ZR_TAKE(shared);
    return ZR_OK;
}

void zr__cuda_products_close(zr__cuda_device *cuda)
{
    if (cuda->products) (void)cuda->products->lt.cublasLtDestroy(cuda->products->handle);
    zr_free(cuda->products);
    cuda->products = NULL;
}

/* ---- making one -------------------------------------------------------------------------------- */

struct zr__cuda_product {
    const functions *lt;
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t left, right, result; /* cuBLASLt's matrices: B, A and C */
    cublasLtMatmulAlgo_t algo;
    bool bias;
    size_t workspace_bytes;
    uint32_t left_aligned, right_aligned, earlier_aligned, result_aligned, bias_aligned;
};

/* Return the largest power of two that divides the address, or ALIGNED if that is smaller. */
static uint32_t alignment(const void *x)
{
    const uintptr_t low = (uintptr_t)x & (0 - (uintptr_t)x);
    return low == 0 || low > ALIGNED ? ALIGNED : (uint32_t)low;
}

static cudaDataType_t type_of(zr_dtype dtype)
{
    return dtype == ZR_BF16 ? CUDA_R_16BF : dtype == ZR_F16 ? CUDA_R_16F : CUDA_R_32F;
}

static zr_status check_types(const zr__cuda_product_spec *s)
{
    ZR_CHECK(zr_dtype_is_float(s->dtype), ZR_ERR_DTYPE, "a product of %s matrices; wanted F32, BF16 or F16",
             zr_dtype_name(s->dtype));
    ZR_CHECK(s->out_dtype == ZR_F32 || s->out_dtype == s->dtype, ZR_ERR_UNSUPPORTED,
             "the product of %s matrices is to be %s, wanted F32 or their type", zr_dtype_name(s->dtype),
             zr_dtype_name(s->out_dtype));
    return ZR_OK;
}

/* Describe a row-major matrix (rows, cols) to cuBLASLt. ld is the row stride in elements; 0 means cols. */
static zr_status create_layout(const functions *lt, zr_dtype dtype, int64_t rows, int64_t cols, int64_t ld,
                               cublasLtMatrixLayout_t *layout)
{
    TRY_LT(lt, cublasLtMatrixLayoutCreate(layout, type_of(dtype), (uint64_t)cols, (uint64_t)rows, ld ? ld : cols));
    return ZR_OK;
}

static zr_status create_layouts(const zr__cuda_product_spec *s, zr__cuda_product *p)
{
    const bool a_t = s->a_transposed, b_t = s->b_transposed;
    ZR_TRY(create_layout(p->lt, s->dtype, b_t ? s->n : s->k, b_t ? s->k : s->n, 0, &p->left));
    ZR_TRY(create_layout(p->lt, s->dtype, a_t ? s->k : s->m, a_t ? s->m : s->k, s->a_ld, &p->right));
    return create_layout(p->lt, s->out_dtype, s->m, s->n, s->c_ld, &p->result);
}

static zr_status set_bias(const zr__cuda_product *p, const void *bias)
{
    TRY_LT(p->lt, cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
    return ZR_OK;
}

static zr_status create_desc(const zr__cuda_product_spec *s, zr__cuda_product *p)
{
    const functions *lt = p->lt;
    const int32_t left = s->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                  right = s->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    TRY_LT(lt, cublasLtMatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    TRY_LT(lt, cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &left, sizeof left));
    TRY_LT(lt, cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &right, sizeof right));
    if (!s->bias) return ZR_OK;
    TRY_LT(lt, cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    /* The address is not read: the heuristic uses only its alignment. */
    return set_bias(p, (const void *)(uintptr_t)p->bias_aligned);
}

static zr_status set_preferences(const zr__cuda_product *p, cublasLtMatmulPreference_t preference)
{
    const functions *lt = p->lt;
    const uint64_t workspace = p->workspace_bytes;
    /* Allow only this way to add partial sums: they are stored separately in fp32, then added in order. */
    const uint32_t sums = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        const void *value;
        size_t bytes;
    } all[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums, sizeof sums},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &p->left_aligned, sizeof p->left_aligned},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &p->right_aligned, sizeof p->right_aligned},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &p->earlier_aligned, sizeof p->earlier_aligned},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &p->result_aligned, sizeof p->result_aligned},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        TRY_LT(lt, cublasLtMatmulPreferenceSetAttribute(preference, all[i].attribute, all[i].value, all[i].bytes));
    return ZR_OK;
}

static zr_status choose_algorithm(const zr__cuda_product_spec *s, zr__cuda_product *p,
                                  cublasLtMatmulPreference_t preference)
{
    cublasLtMatmulHeuristicResult_t found = {.state = CUBLAS_STATUS_NOT_SUPPORTED};
    int n = 0;
    ZR_TRY(set_preferences(p, preference));
    cublasStatus_t status = p->lt->cublasLtMatmulAlgoGetHeuristic(p->handle, p->desc, p->left, p->right, p->result,
                                                                  p->result, preference, 1, &found, &n);
    if (status == CUBLAS_STATUS_SUCCESS) status = n > 0 ? found.state : CUBLAS_STATUS_NOT_SUPPORTED;
    ZR_CHECK(status != CUBLAS_STATUS_NOT_SUPPORTED, ZR_ERR_UNSUPPORTED,
             "cuBLASLt has no product of %lld x %lld and %lld x %lld %s matrices for this GPU", (long long)s->m,
             (long long)s->k, (long long)s->k, (long long)s->n, zr_dtype_name(s->dtype));
    if (status != CUBLAS_STATUS_SUCCESS) return lt_failed(p->lt, status, "cublasLtMatmulAlgoGetHeuristic");
    p->algo = found.algo;
    return ZR_OK;
}

static zr_status create_all(const zr__cuda_product_spec *s, zr__cuda_product *p)
{
    cublasLtMatmulPreference_t preference;
    ZR_TRY(create_layouts(s, p));
    ZR_TRY(create_desc(s, p));
    TRY_LT(p->lt, cublasLtMatmulPreferenceCreate(&preference));
    const zr_status st = choose_algorithm(s, p, preference);
    (void)p->lt->cublasLtMatmulPreferenceDestroy(preference);
    return st;
}

bool zr__cuda_product_takes_bias(const void *bias)
{
    /* Return true only if the bias is aligned to 16 bytes. cuBLASLt reads the bias 16 bytes at a time, although its
     * documentation does not mention it. */
    return alignment(bias) == ALIGNED;
}

zr_status zr__cuda_product_create(zr_device *device, const zr__cuda_product_spec *spec,
                                  const zr__cuda_product_operands *used, zr__cuda_product **product)
{
    ZR_TRY(check_types(spec));
    ZR_TRY(zr__cuda_enter(device)); /* cuBLASLt's handle will belong to the current GPU */
    ZR_TRY(share_library(zr__cuda(device)));
    ZR_AUTO(zr__cuda_product_destroy) zr__cuda_product *p = zr_alloc(sizeof *p);
    ZR_CHECK(p, ZR_ERR_MEMORY, "no memory for a product's %zu bytes", sizeof *p);
    p->lt = &zr__cuda(device)->products->lt;
    p->handle = zr__cuda(device)->products->handle;
    p->bias = spec->bias;
    p->workspace_bytes = (size_t)(spec->workspace_bytes - ZR__CUDA_WORKSPACE_SHIFT);
    p->left_aligned = alignment(used->b);
    p->right_aligned = alignment(used->a);
    p->result_aligned = p->earlier_aligned = alignment(used->c);
    if (used->earlier && alignment(used->earlier) < p->earlier_aligned) p->earlier_aligned = alignment(used->earlier);
    p->bias_aligned = alignment(used->bias);
    ZR_TRY(create_all(spec, p));
    *product = ZR_TAKE(p);
    return ZR_OK;
}

void zr__cuda_product_destroy(zr__cuda_product **product)
{
    zr__cuda_product *p = *product;
    if (!p) return;
    if (p->left) (void)p->lt->cublasLtMatrixLayoutDestroy(p->left);
    if (p->right) (void)p->lt->cublasLtMatrixLayoutDestroy(p->right);
    if (p->result) (void)p->lt->cublasLtMatrixLayoutDestroy(p->result);
    if (p->desc) (void)p->lt->cublasLtMatmulDescDestroy(p->desc);
    zr_free(p);
    *product = NULL;
}

/* ---- running it -------------------------------------------------------------------------------- */

/* Alignment in bytes that cuBLASLt needs for its workspace. Scratch is aligned to only 64 bytes. */
enum { WORKSPACE_ALIGNED = 256 };

zr_status zr__cuda_product_run(const zr__cuda_product *p, zr_device *device, const zr__cuda_product_operands *at)
{
    static const float one = 1, zero = 0;
    const void *earlier = at->earlier ? at->earlier : at->c;
    void *workspace =
        (void *)(((uintptr_t)at->workspace + WORKSPACE_ALIGNED - 1) / WORKSPACE_ALIGNED * WORKSPACE_ALIGNED);
    ZR_ASSERT(alignment(at->b) >= p->left_aligned && alignment(at->a) >= p->right_aligned);
    ZR_ASSERT(alignment(at->c) >= p->result_aligned && alignment(earlier) >= p->earlier_aligned);
    if (p->bias) ZR_TRY(set_bias(p, at->bias));
    TRY_LT(p->lt, cublasLtMatmul(p->handle, p->desc, &one, at->b, p->left, at->a, p->right, at->earlier ? &one : &zero,
                                 earlier, p->result, at->c, p->result, &p->algo, workspace, p->workspace_bytes,
                                 zr__cuda(device)->stream));
    return ZR_OK;
}
