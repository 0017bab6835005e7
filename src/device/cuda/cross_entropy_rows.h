/* The cross entropy of rows of logits and its gradient, for cross_entropy and linear_cross_entropy. Each row has a
 * block of threads. */
#ifndef ZR_DEVICE_CUDA_CROSS_ENTROPY_ROWS_H
#define ZR_DEVICE_CUDA_CROSS_ENTROPY_ROWS_H

#include <float.h>

#include "device/cuda/launch.h"

/* Rows of logits whose losses or gradients are computed. Pointers that are not used are null. */
struct zr__loss_rows {
    const void *logits;
    const void *bias; /* bias (V) to add to each row, with the type of the logits */
    void *dlogits;    /* gradient of the logits; may be the same array as `logits` */
    int64_t ld,       /* row stride in elements */
        V;            /* number of columns */
    int64_t width;    /* number of columns of dlogits; columns from V on become 0 */
    int64_t first;    /* token id of the first column */
    /* target tokens; a row with a negative target has loss and gradient 0; a target in another part of the vocabulary
     * adds no term */
    const int32_t *target;
    const float *dlosses;
    const float *lse; /* log-sum-exps for the gradient, used if the kernel does not compute them from the logits */
    float *losses, *lses;
    float *hits; /* 1 where the target has the largest logit, the first of several equal ones, and else 0 */
    /* Output that replaces losses, lses and hits, (rows,numbers): log-sum-exp of the row's columns; the target's logit,
     * or 0 if another part has the target; and if `numbers` is 3 the threshold (zr__loss_threshold). */
    float *part;
    int64_t numbers;
};

namespace
{

/* Number of elements that a thread processes at a time. A thread gets the same elements whether or not the row is
 * aligned. */
constexpr int zr__loss_pack = 8;

/* Load the elements [i, i + pack) of a row of n elements, and add the bias, unless it is null. Elements beyond the
 * row's end are -inf, which adds nothing to a sum of exponentials. */
template <typename T>
__device__ __forceinline__ void zr__loss_get(float (&x)[zr__loss_pack], const T *row, const T *bias, int64_t i,
                                             int64_t n, bool packed)
{
    if (packed && i + zr__loss_pack <= n)
        zr__get_all<zr__loss_pack>(x, row, i);
    else
        for (int v = 0; v < zr__loss_pack; v++) x[v] = i + v < n ? zr__get(row, i + v) : -INFINITY;
    for (int v = 0; v < zr__loss_pack && bias; v++)
        if (i + v < n) x[v] += zr__get(bias, i + v);
}

template <typename T>
__device__ __forceinline__ void zr__loss_put(T *row, int64_t i, int64_t n, bool packed, const float (&x)[zr__loss_pack])
{
    if (packed && i + zr__loss_pack <= n) {
        zr__put_all<zr__loss_pack>(row, i, x);
        return;
    }
    for (int v = 0; v < zr__loss_pack; v++)
        if (i + v < n) zr__put(row, i + v, x[v]);
}

/* Compute the largest logit and the sum of exp(logit - largest), which every thread gets. The maximum starts at the
 * lowest finite number, not at -inf, so that masked logits (-inf) never give -inf - -inf. A NaN makes the sum NaN. */
template <typename T>
__device__ __forceinline__ void zr__loss_softmax(const T *row, const T *bias, int64_t n, bool packed, float *largest,
                                                 float *total)
{
    float max = -FLT_MAX, sum = 0, x[zr__loss_pack];
    for (int64_t i = (int64_t)threadIdx.x * zr__loss_pack; i < n; i += (int64_t)blockDim.x * zr__loss_pack) {
        zr__loss_get(x, row, bias, i, n, packed);
        float here = x[0], add = 0;
        for (int v = 1; v < zr__loss_pack; v++) here = x[v] > here ? x[v] : here;
        if (here > max) {
            sum *= expf(max - here);
            max = here;
        }
        for (int v = 0; v < zr__loss_pack; v++) add += expf(x[v] - max);
        sum += add;
    }
    *largest = zr__block_all(max, zr__larger(), -FLT_MAX);
    *total = zr__block_all(sum * expf(max - *largest), zr__plus(), 0.0f);
}

/* Return the threshold of column `own`: the smallest logit with which the column would be the first column that has the
 * row's largest logit. `own` may be before or beyond the row. Every thread gets the threshold, which is unspecified if
 * a logit is NaN. */
template <typename T>
__device__ __forceinline__ float zr__loss_threshold(const T *row, const T *bias, int64_t n, bool packed, int64_t own)
{
    float before = -INFINITY, after = -INFINITY, x[zr__loss_pack];
    for (int64_t i = (int64_t)threadIdx.x * zr__loss_pack; i < n; i += (int64_t)blockDim.x * zr__loss_pack) {
        zr__loss_get(x, row, bias, i, n, packed);
        for (int v = 0; v < zr__loss_pack; v++) {
            if (i + v < own) before = x[v] > before ? x[v] : before;
            if (i + v > own) after = x[v] > after ? x[v] : after;
        }
    }
    before = zr__block_all(before, zr__larger(), -INFINITY);
    after = zr__block_all(after, zr__larger(), -INFINITY);
    return fmaxf(nextafterf(before, INFINITY), after);
}

/* Return the column of the target, or -1 if the target is not in this part of the vocabulary. */
__device__ __forceinline__ int64_t zr__loss_own(const zr__loss_rows &r, int64_t row)
{
    const int64_t own = r.target[row] - r.first;
    return r.target[row] >= 0 && own >= 0 && own < r.V ? own : -1;
}

/* Store a row's results, and return the row's log-sum-exp. One thread calls this function. The loss is not computed
 * from the stored log-sum-exp, whose rounding error grows with the logits. A NaN in the row makes the log-sum-exp NaN,
 * and then no target is a hit. */
template <typename T>
__device__ float zr__loss_tell(const zr__loss_rows &r, int64_t row, const T *logits, float max, float sum,
                               float threshold)
{
    const int64_t own = zr__loss_own(r, row);
    const double tail = log((double)sum);
    const float lse = (float)((double)max + tail), added = r.bias && own >= 0 ? zr__get((const T *)r.bias, own) : 0;
    const float x = own >= 0 ? zr__get(logits, own) + added : 0;
    if (isnan(lse)) threshold = lse;
    if (r.part) {
        float *part = r.part + r.numbers * row;
        part[0] = r.V > 0 ? lse : -INFINITY;
        part[1] = x;
        if (r.numbers > 2) part[2] = threshold;
    }
    if (r.hits) r.hits[row] = own >= 0 && x >= threshold ? 1.0f : 0.0f;
    if (r.losses) r.losses[row] = own < 0 ? 0.0f : (float)((double)max - (double)x + tail);
    if (r.lses) r.lses[row] = lse;
    return lse;
}

template <typename T>
__device__ __forceinline__ void zr__loss_gradient(const zr__loss_rows &r, int64_t row, const T *logits, bool packed,
                                                  float lse)
{
    T *out = (T *)r.dlogits + row * r.ld;
    const int64_t own = zr__loss_own(r, row);
    const bool none = r.target[row] < 0;
    const float dloss = r.dlosses[row];
    float x[zr__loss_pack];
    for (int64_t i = (int64_t)threadIdx.x * zr__loss_pack; i < r.width; i += (int64_t)blockDim.x * zr__loss_pack) {
        zr__loss_get(x, logits, (const T *)r.bias, i, r.V, packed);
        for (int v = 0; v < zr__loss_pack; v++) {
            const float e = expf(x[v] - lse);
            x[v] = none || i + v >= r.V ? 0 : dloss * (i + v == own ? e - 1.0f : e);
        }
        zr__loss_put(out, i, r.width, packed, x);
    }
}

/* Process one row in each block of threads. If SOFTMAX, compute losses and lses, or `part`. If GRADIENT, compute
 * dlogits. */
template <bool SOFTMAX, bool GRADIENT, typename T>
__global__ void __launch_bounds__(512) zr__loss_kernel(zr__loss_rows r, bool packed)
{
    const int64_t row = blockIdx.x;
    const T *logits = (const T *)r.logits + row * r.ld;
    float lse = 0;
    if constexpr (SOFTMAX) {
        ZR_SHARED_ARRAY(float, told, [1]);
        float max, sum, threshold = 0;
        zr__loss_softmax(logits, (const T *)r.bias, r.V, packed, &max, &sum);
        if constexpr (!GRADIENT)
            if (r.hits || r.numbers > 2)
                threshold = zr__loss_threshold(logits, (const T *)r.bias, r.V, packed, r.target[row] - r.first);
        if (threadIdx.x == 0) told[0] = zr__loss_tell(r, row, logits, max, sum, threshold);
        __syncthreads();
        lse = told[0];
    }
    if constexpr (GRADIENT) zr__loss_gradient(r, row, logits, packed, SOFTMAX ? lse : r.lse[row]);
}

} // namespace

/* Return the number of threads in the block that processes a row. */
static inline unsigned zr__loss_threads(int64_t width)
{
    const int64_t wanted = zr__ceil_div(zr__ceil_div(width, zr__loss_pack), ZR__WARP) * ZR__WARP;
    return (unsigned)(wanted < ZR__WARP ? ZR__WARP : wanted > 512 ? 512 : wanted);
}

template <bool SOFTMAX, bool GRADIENT>
zr_status zr__loss_launch(cudaStream_t stream, zr_dtype dtype, int64_t rows, const zr__loss_rows &r)
{
    const bool lines = r.ld * zr_dtype_bytes(dtype) % (int64_t)sizeof(zr__chunk) == 0;
    const bool packed = lines && zr__are_aligned(r.logits, r.dlogits);
    return zr__typed(dtype, [&]<typename T>(T *) {
        ZR_LAUNCH(stream, (zr__loss_kernel<SOFTMAX, GRADIENT, T>), (unsigned)rows, zr__loss_threads(r.width), 0, r,
                  packed);
        return zr__launched();
    });
}

#endif
