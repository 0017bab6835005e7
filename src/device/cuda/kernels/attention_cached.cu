/* attention_cached: attention of one token to a cache of keys and values. Each block of threads processes a range of
 * the keys of one head; ranges are the same on all GPUs. A block's results are relative to the maximum of the block's
 * scores; a second kernel combines them. */
#include "device/cuda/attention.h"
#include "device/cuda/scratch.h"

namespace
{

constexpr int KEYS = ZR__CUDA_CACHED_KEYS, THREADS = 256, WARPS = THREADS / ZR__WARP, COLUMNS = 256;

template <typename T> struct cached {
    const T *qkv; /* (3, C) query, key and value of the token */
    T *cache;     /* (2, length, C) keys and values */
    T *y;         /* (C) result */
    /* Partial results for each head and range: weighted sum of values, maximum of the scores, sum of the weights. */
    float *values, *max, *sum;
    int64_t length, C, D, position;
    int stretches;
    float to_log2;
};

/* Store the token's key and value of one head in the cache. The block whose range includes the token stores them, since
 * no other block reads them. */
template <typename T> __device__ __forceinline__ void keep_token(const cached<T> &c, int64_t head)
{
    for (int64_t d = head * c.D + threadIdx.x; d < (head + 1) * c.D; d += THREADS) {
        c.cache[c.position * c.C + d] = c.qkv[c.C + d];
        c.cache[(c.length + c.position) * c.C + d] = c.qkv[2 * c.C + d];
    }
    __syncthreads();
}

/* Set weight[j] to to_log2 times the score of key j0 + j, so that 2^weight[j] = e^(scale * score). Each warp computes
 * one key at a time. */
template <typename T>
__device__ __forceinline__ void score_keys(const cached<T> &c, float *weight, int64_t head, int64_t j0, int n)
{
    const int lane = (int)threadIdx.x % ZR__WARP;
    for (int j = (int)threadIdx.x / ZR__WARP; j < n; j += WARPS) {
        float part = 0.0f;
        for (int64_t d = head * c.D + lane; d < (head + 1) * c.D; d += ZR__WARP)
            part = fmaf(zr__get(c.qkv, d), zr__get((const T *)c.cache, (j0 + j) * c.C + d), part);
        part = zr__warp_all(part, zr__plus());
        if (lane == 0) weight[j] = part * c.to_log2;
    }
    __syncthreads();
}

/* Compute columns [d0, d0 + COLUMNS) of a head's weighted sum of values. Each warp sums over some of the keys. The
 * warps' sums are then added in the order of the warps. */
template <typename T>
__device__ __forceinline__ void sum_values(const cached<T> &c, const float *weight, float (*part)[COLUMNS],
                                           int64_t head, int64_t j0, int n, int64_t d0, float *out)
{
    constexpr int each = COLUMNS / ZR__WARP;
    const int lane = (int)threadIdx.x % ZR__WARP, warp = (int)threadIdx.x / ZR__WARP;
    const int64_t width = c.D - d0;
    const T *values = c.cache + (c.length + j0) * c.C + head * c.D + d0;
    float sum[each] = {};
    for (int j = warp; j < n; j += WARPS)
#pragma unroll
        for (int e = 0; e < each; e++)
            if (lane + e * ZR__WARP < width)
                sum[e] = fmaf(weight[j], zr__get(values, j * c.C + lane + e * ZR__WARP), sum[e]);
    for (int e = 0; e < each; e++) part[warp][lane + e * ZR__WARP] = sum[e];
    __syncthreads();
    for (int d = (int)threadIdx.x; d < COLUMNS && d < width; d += THREADS) {
        float all = 0.0f;
        for (int w = 0; w < WARPS; w++) all += part[w][d];
        out[d0 + d] = all;
    }
    __syncthreads();
}

/* Compute the partial results of a range of keys of a head. Each block of threads has one range. */
template <typename T> __global__ void __launch_bounds__(THREADS) attend(cached<T> c)
{
    __shared__ float weight[KEYS], part[WARPS][COLUMNS];
    const int64_t index = blockIdx.x, head = index / c.stretches, j0 = index % c.stretches * KEYS;
    const int64_t left = c.position + 1 - j0;
    const int n = left < KEYS ? (int)left : KEYS;
    if (left <= KEYS) keep_token(c, head);
    score_keys(c, weight, head, j0, n);
    float max = -INFINITY, sum = 0.0f;
    for (int j = (int)threadIdx.x; j < n; j += THREADS) max = fmaxf(max, weight[j]);
    max = zr__block_all(max, zr__larger(), -INFINITY);
    for (int j = (int)threadIdx.x; j < n; j += THREADS) {
        weight[j] = zr__exp2(weight[j] - max);
        sum += weight[j];
    }
    sum = zr__block_all(sum, zr__plus(), 0.0f);
    if (threadIdx.x == 0) c.max[index] = max, c.sum[index] = sum;
    for (int64_t d0 = 0; d0 < c.D; d0 += COLUMNS) sum_values(c, weight, part, head, j0, n, d0, c.values + index * c.D);
}

/* Combine the partial results of a head. Each block of threads has one head. */
template <typename T> __global__ void __launch_bounds__(THREADS) combine(cached<T> c)
{
    const int64_t head = blockIdx.x, first = head * c.stretches;
    float max = -INFINITY, sum = 0.0f;
    for (int s = 0; s < c.stretches; s++) max = fmaxf(max, c.max[first + s]);
    for (int s = 0; s < c.stretches; s++) sum = fmaf(zr__exp2(c.max[first + s] - max), c.sum[first + s], sum);
    for (int64_t d = threadIdx.x; d < c.D; d += THREADS) {
        float all = 0.0f;
        for (int s = 0; s < c.stretches; s++)
            all = fmaf(zr__exp2(c.max[first + s] - max), c.values[(first + s) * c.D + d], all);
        zr__put(c.y, head * c.D + d, all / sum);
    }
}

template <typename T> zr_status run_as(const zr_kernel_args *args)
{
    const zr_tensor *qkv = &args->in[0], *cache = &args->in[1];
    const int64_t n_head = args->op->attr.i[0], length = cache->shape.dim[1], C = cache->shape.dim[2];
    const int64_t position = args->runtime->position, stretches = zr__ceil_div(position + 1, KEYS);
    float *scratch = (float *)args->scratch, *max = scratch + stretches * C, *sum = max + n_head * stretches;
    ZR_CHECK(position >= 0 && position < length, ZR_ERR_DATA,
             "token %lld does not fit a cache of %lld: make cache_len longer", (long long)position, (long long)length);
    const cached<T> c = {(const T *)qkv->data,
                         (T *)cache->data,
                         (T *)args->out[0].data,
                         scratch,
                         max,
                         sum,
                         length,
                         C,
                         C / n_head,
                         position,
                         (int)stretches,
                         (float)args->op->attr.f[0] * ZR__LOG2_E};
    ZR_LAUNCH(zr__stream_of(args), attend<T>, (unsigned)(n_head * stretches), THREADS, 0, c);
    ZR_TRY(zr__launched());
    ZR_LAUNCH(zr__stream_of(args), combine<T>, (unsigned)n_head, THREADS, 0, c);
    return zr__launched();
}

zr_status run_attention_cached(const zr_kernel_args *args)
{
    return zr__typed(args->in[0].dtype, [&]<typename T>(T *) { return run_as<T>(args); });
}

} // namespace

ZR_CUDA_KERNELS(attention_cached) = {
    zr__kernel("attention_cached", run_attention_cached),
    {},
};
