/* Implements the stand-in of tests/cuda/cublasLt.h. Matrices are stored column by column. */
#include "cublasLt.h"
#include "recorder.h"

#include <stdio.h>
#include <stdlib.h>

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "zr/tensor.h"

struct cublasLtContext {
    int device; /* the current device at creation */
};

struct zr_stand_in_product {
    cublasComputeType_t compute;
    cudaDataType_t scale;
    int32_t transa, transb;
    uint32_t epilogue;
    const void *bias;
};

struct zr_stand_in_matrix {
    cudaDataType type;
    int64_t rows, cols, ld;
};

struct zr_stand_in_preference {
    uint64_t workspace_bytes;
    uint32_t sums;
    uint32_t aligned[4]; /* alignment of A, B, C and D */
};

namespace
{

/* ---- failures on request, objects alive -------------------------------------------------------- */

std::atomic<int> alive{0};
std::atomic<long> products{0}, biases{0};

struct failure {
    std::string function;
    int skip = 0;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
} asked;
std::mutex asked_lock;

cublasStatus_t fail(const char *function)
{
    std::lock_guard<std::mutex> hold(asked_lock);
    if (asked.status == CUBLAS_STATUS_SUCCESS || asked.function != function) return CUBLAS_STATUS_SUCCESS;
    return asked.skip-- > 0 ? CUBLAS_STATUS_SUCCESS : asked.status;
}

template <typename T> cublasStatus_t make(const char *function, T **made, const T &value)
{
    const cublasStatus_t status = fail(function);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    *made = new T(value);
    alive++;
    return status;
}

template <typename T> cublasStatus_t destroy(T *made)
{
    delete made;
    alive--;
    return CUBLAS_STATUS_SUCCESS;
}

template <typename T> cublasStatus_t set(T *field, const void *value, size_t bytes)
{
    if (bytes != sizeof *field) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

/* Write a product's types and sizes to the file that CUBLASLT_LOG_FILE names, as cuBLASLt does. */
template <typename Problem> void log_product(const Problem &p)
{
    const char *path = getenv("CUBLASLT_LOG_FILE");
    FILE *file = path ? fopen(path, "a") : nullptr;
    if (!file) return;
    fprintf(file, "[cublasLt][Trace][cublasLtMatmul] Adesc=[type=%s rows=%lld cols=%lld] Ddesc=[rows=%lld cols=%lld]\n",
            p.a.type == CUDA_R_32F ? "R_32F" : "R_16", (long long)p.a.rows, (long long)p.a.cols, (long long)p.m(),
            (long long)p.n());
    fclose(file);
}

/* ---- supported products ------------------------------------------------------------------------ */

size_t bytes_of(cudaDataType type)
{
    return type == CUDA_R_32F ? 4 : 2;
}

/* A product's operands and options, as passed to cublasLtMatmul. */
struct problem {
    zr_stand_in_product desc;
    zr_stand_in_matrix a, b, d;

    int64_t m() const
    {
        return d.rows;
    }
    int64_t n() const
    {
        return d.cols;
    }
    int64_t k() const
    {
        return desc.transa ? a.rows : a.cols;
    }
};

bool fits(const zr_stand_in_matrix &x, bool transposed, int64_t rows, int64_t cols)
{
    return (transposed ? x.cols : x.rows) == rows && (transposed ? x.rows : x.cols) == cols && x.ld >= x.rows;
}

bool lies(const void *x, uint64_t aligned)
{
    return (uintptr_t)x % aligned == 0;
}

cublasStatus_t check(const problem &p, const zr_stand_in_matrix &c)
{
    if (p.m() < 1 || p.n() < 1 || p.k() < 1 || !fits(p.a, p.desc.transa, p.m(), p.k()) ||
        !fits(p.b, p.desc.transb, p.k(), p.n()) || !fits(c, false, p.m(), p.n()) || !fits(p.d, false, p.m(), p.n()))
        return CUBLAS_STATUS_INVALID_VALUE;
    const bool types = p.desc.compute == CUBLAS_COMPUTE_32F && p.desc.scale == CUDA_R_32F && p.a.type == p.b.type &&
                       c.type == p.d.type && (p.d.type == p.a.type || p.d.type == CUDA_R_32F);
    return types ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

/* Return whether the product can add its bias, if any: it cannot where D is a single row or column. */
bool takes_bias(const problem &p)
{
    return p.desc.epilogue == CUBLASLT_EPILOGUE_DEFAULT || (p.m() > 1 && p.n() > 1);
}

/* Return whether the bias, if any, is aligned: it is read 16 bytes at a time, and the library does not check that when
 * it chooses an algorithm. */
bool bias_lies(const problem &p)
{
    return p.desc.epilogue == CUBLASLT_EPILOGUE_DEFAULT || lies(p.desc.bias, 16);
}

/* Return whether the handle's device and the stream's are the current one: the library launches kernels like any other
 * code, and a handle belongs to one device. */
bool is_current(cublasLtHandle_t handle, cudaStream_t stream)
{
    int device;
    return zr_stand_in_current(stream) && cudaGetDevice(&device) == cudaSuccess && device == handle->device;
}

/* ---- the algorithm ----------------------------------------------------------------------------- */

/* Indices into the data of cublasLtMatmulAlgo_t. */
enum { WORKSPACE, PARTS, ROUNDED, SHAPE, ALIGNED };

uint64_t shape_of(const problem &p)
{
    return (uint64_t)p.m() * 1000003u + (uint64_t)p.n() * 10007u + (uint64_t)p.k() * 31u + (uint64_t)p.a.type * 7u +
           (uint64_t)p.d.type;
}

/* Choose an algorithm: sums are split into up to 4 parts, limited by the workspace, and rounded to D's type where the
 * preference allows it. */
void choose(const problem &p, const zr_stand_in_preference &preference, cublasLtMatmulHeuristicResult_t *result)
{
    const uint64_t each = (uint64_t)p.m() * (uint64_t)p.n() * 4;
    uint64_t parts = preference.workspace_bytes / each;
    if (parts > 4) parts = 4;
    if (parts < 2 || p.k() < 8 || !(preference.sums & ~(uint32_t)CUBLASLT_REDUCTION_SCHEME_INPLACE)) parts = 1;
    *result = cublasLtMatmulHeuristicResult_t();
    result->workspaceSize = parts > 1 ? parts * each : 0;
    result->wavesCount = 1;
    uint64_t *data = result->algo.data;
    data[WORKSPACE] = result->workspaceSize;
    data[PARTS] = parts;
    data[ROUNDED] = (preference.sums & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE) != 0;
    data[SHAPE] = shape_of(p);
    for (int i = 0; i < 4; i++) data[ALIGNED] |= (uint64_t)preference.aligned[i] << 16 * i;
}

/* ---- the work ---------------------------------------------------------------------------------- */

float get(const void *x, cudaDataType type, int64_t i)
{
    if (type == CUDA_R_16BF) return zr_f32_from_bf16(((const uint16_t *)x)[i]);
    return type == CUDA_R_16F ? zr_f32_from_f16(((const uint16_t *)x)[i]) : ((const float *)x)[i];
}

void put(void *x, cudaDataType type, int64_t i, float value)
{
    if (type == CUDA_R_16BF)
        ((uint16_t *)x)[i] = zr_bf16_from_f32(value);
    else if (type == CUDA_R_16F)
        ((uint16_t *)x)[i] = zr_f16_from_f32(value);
    else
        ((float *)x)[i] = value;
}

struct job {
    problem p;
    const void *a, *b, *c;
    void *d;
    float *workspace;
    float alpha, beta;
    int64_t parts;
    bool rounded;
};

/* Return op(x) as fp32, row by row. */
std::vector<float> widen(const void *x, const zr_stand_in_matrix &layout, bool transposed)
{
    const int64_t rows = transposed ? layout.cols : layout.rows, cols = transposed ? layout.rows : layout.cols;
    std::vector<float> out((size_t)(rows * cols));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            out[(size_t)(r * cols + c)] = get(x, layout.type, transposed ? c + r * layout.ld : r + c * layout.ld);
    return out;
}

/* Add terms [begin, end) of one column of D, in blocks that are summed separately, as on a GPU. */
void add_terms(const job &j, const float *a, const float *b, int64_t begin, int64_t end, float *sum)
{
    constexpr int64_t some = 64;
    const int64_t m = j.p.m();
    std::vector<float> part((size_t)m);
    for (int64_t first = begin; first < end; first += some) {
        for (auto &x : part) x = 0;
        for (int64_t k = first; k < first + some && k < end; k++)
            for (int64_t i = 0; i < m; i++) part[(size_t)i] += a[k * m + i] * b[k];
        for (int64_t i = 0; i < m; i++) sum[i] += part[(size_t)i];
    }
}

/* Finish a column of D: add its parts in order, then the earlier value of C and the bias. */
void finish_column(const job &j, int64_t col, const float *sum, int64_t stride)
{
    const zr_stand_in_product &desc = j.p.desc;
    for (int64_t i = 0; i < j.p.m(); i++) {
        float total = 0;
        for (int64_t s = 0; s < j.parts; s++) {
            float x = sum[s * stride + i];
            if (j.rounded && j.parts > 1) {
                uint32_t place;
                put(&place, j.p.d.type, 0, x);
                x = get(&place, j.p.d.type, 0);
            }
            total += x;
        }
        const int64_t at = col * j.p.d.ld + i;
        total *= j.alpha;
        if (j.beta != 0) total += j.beta * get(j.c, j.p.d.type, at);
        if (desc.epilogue == CUBLASLT_EPILOGUE_BIAS) total += get(desc.bias, j.p.d.type, i);
        put(j.d, j.p.d.type, at, total);
    }
}

void multiply(void *arg)
{
    const job &j = *(const job *)arg;
    const int64_t m = j.p.m(), n = j.p.n(), k = j.p.k(), stride = j.parts > 1 ? m * n : 0;
    const std::vector<float> a = widen(j.a, j.p.a, !j.p.desc.transa); /* (k,m) */
    const std::vector<float> b = widen(j.b, j.p.b, !j.p.desc.transb); /* (n,k) */
    std::vector<float> own(j.parts > 1 ? 0 : (size_t)m);
    for (int64_t col = 0; col < n; col++) {
        float *sum = j.parts > 1 ? j.workspace + col * m : own.data();
        for (int64_t s = 0; s < j.parts; s++) {
            for (int64_t i = 0; i < m; i++) sum[s * stride + i] = 0;
            add_terms(j, a.data(), b.data() + col * k, k * s / j.parts, k * (s + 1) / j.parts, sum + s * stride);
        }
        finish_column(j, col, sum, stride);
    }
}

} // namespace

extern "C" {

void zr_stand_in_cublas_fail(const char *function, int skip, cublasStatus_t status)
{
    std::lock_guard<std::mutex> hold(asked_lock);
    asked = {function ? function : "", skip, function ? status : CUBLAS_STATUS_SUCCESS};
}

int zr_stand_in_cublas_alive(void)
{
    return alive;
}

long zr_stand_in_cublas_products(void)
{
    return products;
}

long zr_stand_in_cublas_biases(void)
{
    return biases;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    int device;
    if (cudaGetDevice(&device) != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
    return make("cublasLtCreate", handle, cublasLtContext{device});
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    return destroy(handle);
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "success" : "an error of the library";
}

size_t cublasLtGetVersion(void)
{
    return 130100;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute, cudaDataType_t scale)
{
    return make("cublasLtMatmulDescCreate", desc,
                zr_stand_in_product{compute, scale, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, nullptr});
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    return destroy(desc);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes)
{
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return set(&desc->transa, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return set(&desc->transb, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return set(&desc->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return set(&desc->bias, value, bytes);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld)
{
    return make("cublasLtMatrixLayoutCreate", layout, zr_stand_in_matrix{type, (int64_t)rows, (int64_t)cols, ld});
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    return destroy(layout);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    return make("cublasLtMatmulPreferenceCreate", preference,
                zr_stand_in_preference{0, CUBLASLT_REDUCTION_SCHEME_MASK, {256, 256, 256, 256}});
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    return destroy(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                    size_t bytes)
{
    switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return set(&preference->workspace_bytes, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        return set(&preference->sums, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return set(&preference->aligned[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, bytes);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *found)
{
    const problem p = {*desc, *a, *b, *d};
    cublasStatus_t status = fail("cublasLtMatmulAlgoGetHeuristic");
    *found = 0;
    if (!handle || wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
    if (status == CUBLAS_STATUS_SUCCESS) status = check(p, *c);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    const cudaDataType types[] = {a->type, b->type, c->type, d->type};
    for (int i = 0; i < 4; i++)
        if (preference->aligned[i] < bytes_of(types[i])) return CUBLAS_STATUS_INVALID_VALUE;
    if (!takes_bias(p)) return CUBLAS_STATUS_NOT_SUPPORTED;
    choose(p, *preference, results);
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *A,
                              cublasLtMatrixLayout_t a, const void *B, cublasLtMatrixLayout_t b, const void *beta,
                              const void *C, cublasLtMatrixLayout_t c, void *D, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes,
                              cudaStream_t stream)
{
    const problem p = {*desc, *a, *b, *d};
    const void *at[] = {A, B, C, D};
    cublasStatus_t status = fail("cublasLtMatmul");
    if (status == CUBLAS_STATUS_SUCCESS) status = handle ? check(p, *c) : CUBLAS_STATUS_NOT_INITIALIZED;
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    log_product(p);
    const uint64_t *data = algo->data;
    for (int i = 0; i < 4; i++)
        if (!at[i] || !lies(at[i], data[ALIGNED] >> 16 * i & 0xffff)) return CUBLAS_STATUS_INVALID_VALUE;
    if (data[SHAPE] != shape_of(p) || !takes_bias(p) || workspace_bytes < data[WORKSPACE] || !lies(workspace, 256))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!bias_lies(p) || !is_current(handle, stream)) return CUBLAS_STATUS_EXECUTION_FAILED;
    const job j = {p,
                   A,
                   B,
                   C,
                   D,
                   (float *)workspace,
                   *(const float *)alpha,
                   *(const float *)beta,
                   (int64_t)data[PARTS],
                   data[ROUNDED] != 0};
    products++;
    record_launch(recorded::products, stream);
    if (desc->epilogue == CUBLASLT_EPILOGUE_BIAS) biases++;
    zr_stand_in_issue(stream, multiply, &j, sizeof j);
    return CUBLAS_STATUS_SUCCESS;
}
}

namespace
{

/* Registers the functions for code that loads the library at run time. */
struct loaded {
    loaded()
    {
#define KNOWN(function) zr_stand_in_function(#function, (void (*)(void))function)
        KNOWN(cublasLtCreate);
        KNOWN(cublasLtDestroy);
        KNOWN(cublasLtGetStatusString);
        KNOWN(cublasLtGetVersion);
        KNOWN(cublasLtMatmul);
        KNOWN(cublasLtMatmulAlgoGetHeuristic);
        KNOWN(cublasLtMatmulDescCreate);
        KNOWN(cublasLtMatmulDescDestroy);
        KNOWN(cublasLtMatmulDescSetAttribute);
        KNOWN(cublasLtMatmulPreferenceCreate);
        KNOWN(cublasLtMatmulPreferenceDestroy);
        KNOWN(cublasLtMatmulPreferenceSetAttribute);
        KNOWN(cublasLtMatrixLayoutCreate);
        KNOWN(cublasLtMatrixLayoutDestroy);
    }
} at_start;

} // namespace
