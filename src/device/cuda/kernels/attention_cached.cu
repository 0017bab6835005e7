/* attention_cached: attention of one token to a cache of keys and values. Each block of threads processes a range of
 * the keys for one query head; ranges are the same on all GPUs. A block's results are relative to the maximum of the
 * block's scores; a second kernel combines them. */
#include "device/cuda/attention.h"
#include "device/cuda/scratch.h"

namespace
{

constexpr int KEYS = ZR__CUDA_CACHED_KEYS, THREADS = 256, WARPS = THREADS / ZR__WARP, COLUMNS = 256;

template <typename T> struct cached {
    const T *q, *k, *v; /* (heads * D) query, and (kv_heads * D) key and value of the token */
    T *cache;           /* (2, length, kv_heads * D) keys and values */
    T *y;               /* (heads * D) result */
    /* Partial results for each query head and range: weighted sum of values, maximum of the scores, sum of the weights.
     */
    float *values, *max, *sum;
    int64_t length, D, position;
    int64_t kv_cols; /* kv_heads * D */
    int64_t first;   /* first key that the token sees */
    int stretches;
    int heads, group, offset; /* as in zr__attention */
    float to_log2;
};

/* Range of keys of a block. The token's own key and value are read from the operands, since another block may be
 * storing them in the cache. */
struct key_range {
    int64_t column, first; /* first column of the head's keys and values, and first key */
    int n, cached;         /* number of keys, and number of keys without the token's own */
};

template <typename T> __device__ __forceinline__ key_range keys_of(const cached<T> &c, int64_t head, int64_t stretch)
{
    const int64_t first = c.first + stretch * KEYS, left = c.position + 1 - first;
    const int n = left < KEYS ? (int)left : KEYS;
    return {(head + c.offset) / c.group * c.D, first, n, left <= KEYS ? n - 1 : n};
}

/* Store the token's key and value in the cache. Each query head's block stores a part of the columns. */
template <typename T> __device__ __forceinline__ void keep_token(const cached<T> &c, int64_t head)
{
    for (int64_t d = head * THREADS + threadIdx.x; d < c.kv_cols; d += (int64_t)c.heads * THREADS) {
        c.cache[c.position * c.kv_cols + d] = c.k[d];
        c.cache[(c.length + c.position) * c.kv_cols + d] = c.v[d];
    }
}

/* Set *weight to to_log2 times the score of a key, so that 2^weight = e^(scale * score). All lanes of a warp call this
 * function together. */
template <typename T>
__device__ __forceinline__ void score_key(const cached<T> &c, float *weight, const T *q, const T *key)
{
    const int lane = (int)threadIdx.x % ZR__WARP;
    float part = 0.0f;
    for (int64_t d = lane; d < c.D; d += ZR__WARP) part = fmaf(zr__get(q, d), zr__get(key, d), part);
    part = zr__warp_all(part, zr__plus());
    if (lane == 0) *weight = part * c.to_log2;
}

/* Score a range of keys. Each warp computes one key at a time. */
template <typename T>
__device__ __forceinline__ void score_keys(const cached<T> &c, float *weight, int64_t head, const key_range &range)
{
    const int warp = (int)threadIdx.x / ZR__WARP;
    const T *q = c.q + head * c.D, *all = c.cache + range.first * c.kv_cols + range.column;
    for (int j = warp; j < range.cached; j += WARPS) score_key(c, weight + j, q, all + j * c.kv_cols);
    if (range.cached < range.n && warp == 0) score_key(c, weight + range.cached, q, c.k + range.column);
    __syncthreads();
}

/* Add to a lane's sums its columns of a value, times a weight. */
template <int N, typename T>
__device__ __forceinline__ void add_value(float (&sum)[N], float weight, const T *value, int64_t width)
{
    const int lane = (int)threadIdx.x % ZR__WARP;
#pragma unroll
    for (int e = 0; e < N; e++)
        if (lane + e * ZR__WARP < width) sum[e] = fmaf(weight, zr__get(value, lane + e * ZR__WARP), sum[e]);
}

/* Compute columns [d0, d0 + COLUMNS) of a head's weighted sum of values. Each warp sums over some of the keys. The
 * warps' sums are then added in the order of the warps. */
template <typename T>
__device__ __forceinline__ void sum_values(const cached<T> &c, const float *weight, float (*part)[COLUMNS],
                                           const key_range &range, int64_t d0, float *out)
{
    constexpr int each = COLUMNS / ZR__WARP;
    const int lane = (int)threadIdx.x % ZR__WARP, warp = (int)threadIdx.x / ZR__WARP;
    const int64_t width = c.D - d0, column = range.column + d0;
    const T *all = c.cache + (c.length + range.first) * c.kv_cols + column;
    float sum[each] = {};
    for (int j = warp; j < range.cached; j += WARPS) add_value(sum, weight[j], all + j * c.kv_cols, width);
    if (range.cached < range.n && warp == range.cached % WARPS)
        add_value(sum, weight[range.cached], c.v + column, width);
    for (int e = 0; e < each; e++) part[warp][lane + e * ZR__WARP] = sum[e];
    __syncthreads();
    for (int d = (int)threadIdx.x; d < COLUMNS && d < width; d += THREADS) {
        float all_warps = 0.0f;
        for (int w = 0; w < WARPS; w++) all_warps += part[w][d];
        out[d0 + d] = all_warps;
    }
    __syncthreads();
}

/* Compute the partial results of a range of keys for a query head. Each block of threads has one range. */
template <typename T> __global__ void __launch_bounds__(THREADS) attend(cached<T> c)
{
    ZR_SHARED_ARRAY(float, weight, [KEYS]);
    ZR_SHARED_ARRAY(float, part, [WARPS][COLUMNS]);
    const int64_t index = blockIdx.x, head = index / c.stretches;
    const key_range range = keys_of(c, head, index % c.stretches);
    const int n = range.n;
    if (range.cached < n) keep_token(c, head);
    score_keys(c, weight, head, range);
    float max = -INFINITY, sum = 0.0f;
    for (int j = (int)threadIdx.x; j < n; j += THREADS) max = fmaxf(max, weight[j]);
    max = zr__block_all(max, zr__larger(), -INFINITY);
    for (int j = (int)threadIdx.x; j < n; j += THREADS) {
        weight[j] = zr__exp2(weight[j] - max);
        sum += weight[j];
    }
    sum = zr__block_all(sum, zr__plus(), 0.0f);
    if (threadIdx.x == 0) c.max[index] = max, c.sum[index] = sum;
    for (int64_t d0 = 0; d0 < c.D; d0 += COLUMNS) sum_values(c, weight, part, range, d0, c.values + index * c.D);
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

/* Return the addresses and sizes for a call of the kernels. */
template <typename T> cached<T> describe(const zr_kernel_args *args)
{
    const zr_tensor *q = &args->in[0], *cache = &args->in[args->n_in - 1];
    const zr__attention_sizes s = zr__attention_sizes_at(args, q, args->n_in == 2);
    const zr__attention_operands o = zr__attention_operands_of(&s, q);
    const zr__attention a = zr__attention_make(args, s, q, nullptr);
    cached<T> c = {};
    c.q = zr__columns_begin<const T>(o.q);
    c.k = zr__columns_begin<const T>(o.k);
    c.v = zr__columns_begin<const T>(o.v);
    c.cache = (T *)cache->data;
    c.y = (T *)args->out[0].data;
    c.length = cache->shape.dim[1];
    c.D = s.D;
    c.position = args->runtime->position;
    c.kv_cols = s.K * s.D;
    c.first = s.window > 0 && c.position >= s.window ? c.position - s.window + 1 : 0;
    c.stretches = (int)zr__ceil_div(c.position + 1 - c.first, KEYS);
    c.heads = a.heads;
    c.group = a.group;
    c.offset = a.offset;
    c.to_log2 = a.scale * ZR__LOG2_E;
    c.values = (float *)args->scratch;
    c.max = c.values + c.stretches * s.H * s.D;
    c.sum = c.max + c.stretches * s.H;
    return c;
}

template <typename T> zr_status run_as(const zr_kernel_args *args)
{
    const cached<T> c = describe<T>(args);
    ZR_CHECK(c.position >= 0 && c.position < c.length, ZR_ERR_DATA,
             "token %lld does not fit a cache of %lld: make cache_len longer", (long long)c.position,
             (long long)c.length);
    ZR_LAUNCH(zr__stream_of(args), attend<T>, (unsigned)(c.heads * c.stretches), THREADS, 0, c);
    ZR_TRY(zr__launched());
    ZR_LAUNCH(zr__stream_of(args), combine<T>, (unsigned)c.heads, THREADS, 0, c);
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
