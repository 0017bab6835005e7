/*
 * Common beginning of every file of src/device/cuda/kernels/: launching kernels, elements of the three types, and sums
 * over a warp and a block.
 *
 * Each file is compiled twice: by nvcc, and for the tests as C++ against tests/cuda/cuda_runtime.h, a stand-in that
 * runs blocks on the processor. Two rules make this possible, and make results independent of the places where a range
 * is cut:
 *   - Launch a kernel by ZR_LAUNCH, declare its dynamic shared memory by ZR_SHARED and arrays in shared memory by
 *     ZR_SHARED_ARRAY, and use only the parts of CUDA that the stand-in has.
 *   - Contraction is off (-fmad=false): write fmaf for a fused operation. The order of a sum must depend only on the
 *     values and their number: use no floating-point atomics.
 */
#ifndef ZR_DEVICE_CUDA_LAUNCH_H
#define ZR_DEVICE_CUDA_LAUNCH_H

#include <type_traits>

#include "device/cuda/cuda.h"

#ifdef __CUDACC__
#define ZR_LAUNCH(stream, kernel, blocks, threads, shared_bytes, ...)                                                  \
    kernel<<<(blocks), (threads), (shared_bytes), (stream)>>>(__VA_ARGS__)
#define ZR_SHARED(type, name)                                                                                          \
    extern __shared__ __align__(16) unsigned char zr__shared[];                                                        \
    type *name = (type *)zr__shared
#define ZR_SHARED_ARRAY(type, name, lengths) __shared__ type name lengths
#else
/* Launch a kernel of a file on the stand-in. The arguments are copied when the kernel is launched, as CUDA does. */
template <typename... Params, typename... Args>
void zr__launch(const char *file, cudaStream_t stream, dim3 blocks, dim3 threads, size_t shared_bytes,
                void (*kernel)(Params...), Args... args)
{
    static_assert((sizeof(Params) + ... + 0) <= 4096, "a kernel's parameters have at most 4 KB");
    zr_stand_in_launch(file, stream, blocks, threads, shared_bytes, (const void *)kernel, [=] { kernel(args...); });
}
#define ZR_LAUNCH(stream, kernel, blocks, threads, shared_bytes, ...)                                                  \
    zr__launch(__BASE_FILE__, (stream), (blocks), (threads), (shared_bytes), kernel, __VA_ARGS__)
#define ZR_SHARED(type, name) type *name = (type *)zr_stand_in_shared()
#define ZR_SHARED_ARRAY(type, name, lengths)                                                                           \
    static char zr__site_##name;                                                                                       \
    type(&name) lengths = *(type(*) lengths)zr_stand_in_shared_array(&zr__site_##name, sizeof(type lengths))
#endif

constexpr int ZR__WARP = 32;
constexpr unsigned ZR__ALL_LANES = 0xffffffffu;

/* Define the table of a family of kernels: `ZR_CUDA_KERNELS(softmax) = {zr__kernel(...), {}};`. An empty entry {} ends
 * the table. */
#define ZR_CUDA_KERNELS(family)                                                                                        \
    extern "C" const zr_kernel zr__cuda_kernels_##family[];                                                            \
    extern "C" const zr_kernel zr__cuda_kernels_##family[]

/* Return an entry of a family's table. The entry has no function for scratch, since zr_device_cuda_scratch computes the
 * scratch of all kernels. */
constexpr zr_kernel zr__kernel(const char *op, zr_status (*run)(const zr_kernel_args *args),
                               zr_status (*prepare)(const zr_kernel_args *args, void **state) = nullptr,
                               void (*release)(void *state) = nullptr)
{
    return {op, prepare, run, release, nullptr};
}

/* ---- elements ---------------------------------------------------------------------------------- */

/* bf16 and fp16 are formats for storage only: values are widened to fp32 when they are read, and rounded to nearest
 * even when they are written. The result has the bits of zr_bf16_from_f32 and zr_f16_from_f32, except that the GPU's
 * instructions give every NaN the same bits. */
struct zr__bf16 {
    uint16_t bits;
};
struct zr__f16 {
    uint16_t bits;
};

__device__ __forceinline__ float zr__get(const float *x, int64_t i)
{
    return x[i];
}

__device__ __forceinline__ float zr__get(const zr__bf16 *x, int64_t i)
{
    return __uint_as_float((uint32_t)x[i].bits << 16);
}

__device__ __forceinline__ float zr__get(const zr__f16 *x, int64_t i)
{
#ifdef __CUDACC__
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x[i].bits));
    return value;
#else
    return zr_f32_from_f16(x[i].bits);
#endif
}

/* Round two values to T, and return them as neighbours in a word, the first in the low half. */
template <typename T> __device__ __forceinline__ uint32_t zr__neighbours(float first, float second)
{
#ifdef __CUDACC__
    uint32_t word;
    if constexpr (std::is_same_v<T, zr__bf16>)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
    else
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
    return word;
#else
    uint16_t (*round)(float) = std::is_same_v<T, zr__bf16> ? zr_bf16_from_f32 : zr_f16_from_f32;
    return round(first) | (uint32_t)round(second) << 16;
#endif
}

__device__ __forceinline__ void zr__put(float *x, int64_t i, float value)
{
    x[i] = value;
}

template <typename T> __device__ __forceinline__ void zr__put(T *x, int64_t i, float value)
{
    x[i].bits = (uint16_t)zr__neighbours<T>(value, 0.0f);
}

/* Call f with a null pointer whose type is the element type of `dtype`: `zr__typed(dtype, [&]<typename T>(T *) { ...
 * })`. */
template <typename F> zr_status zr__typed(zr_dtype dtype, F f)
{
    switch (dtype) {
    case ZR_F32:
        return f((float *)nullptr);
    case ZR_BF16:
        return f((zr__bf16 *)nullptr);
    case ZR_F16:
        return f((zr__f16 *)nullptr);
    default:
        return ZR_FAIL(ZR_ERR_DTYPE, "%s is no type that kernels compute in; wanted F32, BF16 or F16",
                       zr_dtype_name(dtype));
    }
}

/* Call f with two null pointers, whose types are the element types of a and b. */
template <typename F> zr_status zr__typed2(zr_dtype a, zr_dtype b, F f)
{
    return zr__typed(a, [&](auto *x) { return zr__typed(b, [&](auto *y) { return f(x, y); }); });
}

/* ---- approximations ---------------------------------------------------------------------------- */

constexpr float ZR__LOG2_E = 1.44269504088896340736f;

/* Return 2^x with a relative error of about 2^-22, or 0 if the result is below 2^-126. */
__device__ __forceinline__ float zr__exp2(float x)
{
#ifdef __CUDACC__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return x < -126.0f ? 0.0f : exp2f(x);
#endif
}

/* Return 1 / (1 + y) for y >= 0 with a relative error of about 2^-23, or 0 if the result is below 2^-126. */
__device__ __forceinline__ float zr__logistic(float y)
{
#ifdef __CUDACC__
    float s;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(s) : "f"(1.0f + y));
    return s;
#else
    return y > 0x1p126f ? 0.0f : 1.0f / (1.0f + y);
#endif
}

/* ---- sums -------------------------------------------------------------------------------------- */

struct zr__plus {
    template <typename T> __device__ T operator()(T a, T b) const
    {
        return a + b;
    }
};
struct zr__larger {
    __device__ float operator()(float a, float b) const
    {
        return a > b ? a : b;
    }
};

/* Reduce x over the lanes of a warp. Lanes exchange values in the order of a butterfly, so that every lane gets the
 * same bits. */
template <typename T, typename Op> __device__ __forceinline__ T zr__warp_all(T x, Op op)
{
    for (int mask = ZR__WARP / 2; mask > 0; mask /= 2) x = op(x, __shfl_xor_sync(ZR__ALL_LANES, x, mask));
    return x;
}

/* Reduce x over a block of at most 1024 threads in whole warps. Every thread gets the same bits. All threads must call
 * this function. */
template <typename T, typename Op> __device__ __forceinline__ T zr__block_all(T x, Op op, T neutral)
{
    ZR_SHARED_ARRAY(T, part, [ZR__WARP]);
    const int lane = (int)threadIdx.x % ZR__WARP, warp = (int)threadIdx.x / ZR__WARP;
    const int warps = (int)blockDim.x / ZR__WARP;
    x = zr__warp_all(x, op);
    __syncthreads(); /* all threads must have read part[] of an earlier call before it is overwritten */
    if (lane == 0) part[warp] = x;
    __syncthreads();
    x = lane < warps ? part[lane] : neutral;
    return zr__warp_all(x, op);
}

/* ---- several elements at a time ---------------------------------------------------------------- */

/* Elements that a thread reads or writes in a single access. */
struct alignas(16) [[gnu::may_alias]] zr__chunk {
    uint32_t word[4];
};
template <typename T> constexpr int zr__chunk_elems = (int)(sizeof(zr__chunk) / sizeof(T));

/* Load V elements from x[i] on. If V > 1, the size of V elements must be a multiple of 16 bytes, and x[i] must be
 * aligned to 16 bytes. */
template <int V, typename T> __device__ __forceinline__ void zr__get_all(float (&out)[V], const T *x, int64_t i)
{
    if constexpr (V == 1)
        out[0] = zr__get(x, i);
    else {
        constexpr int chunks = V * (int)sizeof(T) / (int)sizeof(zr__chunk);
        static_assert(chunks * (int)sizeof(zr__chunk) == V * (int)sizeof(T), "whole chunks");
        alignas(16) T raw[V] = {};
        for (int c = 0; c < chunks; c++) ((zr__chunk *)raw)[c] = ((const zr__chunk *)(x + i))[c];
        for (int v = 0; v < V; v++) out[v] = zr__get(raw, v);
    }
}

template <int V, typename T> __device__ __forceinline__ void zr__put_all(T *x, int64_t i, const float (&in)[V])
{
    if constexpr (V == 1)
        zr__put(x, i, in[0]);
    else
        for (int v = 0; v < V; v += zr__chunk_elems<T>) {
            zr__chunk raw;
            for (int w = 0; w < 4; w++) {
                if constexpr (sizeof(T) == sizeof(float))
                    raw.word[w] = __float_as_uint(in[v + w]);
                else
                    raw.word[w] = zr__neighbours<T>(in[v + 2 * w], in[v + 2 * w + 1]);
            }
            *(zr__chunk *)(x + i + v) = raw;
        }
}

/* An array whose type is known only when the kernel runs. Branches on the type are cheap if all threads take the same
 * branch and memory limits the speed, so such kernels need not be compiled for each of the three types. */
struct zr__array {
    void *data; /* NULL if the array is absent */
    zr_dtype dtype;
};

static inline zr__array zr__array_of(const zr_tensor *x)
{
    return {x->data, x->dtype};
}

template <int V> __device__ __forceinline__ void zr__get_all(float (&out)[V], zr__array x, int64_t i)
{
    if (x.dtype == ZR_F32)
        zr__get_all<V>(out, (const float *)x.data, i);
    else if (x.dtype == ZR_BF16)
        zr__get_all<V>(out, (const zr__bf16 *)x.data, i);
    else
        zr__get_all<V>(out, (const zr__f16 *)x.data, i);
}

template <int V> __device__ __forceinline__ void zr__put_all(zr__array x, int64_t i, const float (&in)[V])
{
    if (x.dtype == ZR_F32)
        zr__put_all<V>((float *)x.data, i, in);
    else if (x.dtype == ZR_BF16)
        zr__put_all<V>((zr__bf16 *)x.data, i, in);
    else
        zr__put_all<V>((zr__f16 *)x.data, i, in);
}

__device__ __forceinline__ float zr__get(zr__array x, int64_t i)
{
    float value[1];
    zr__get_all<1>(value, x, i);
    return value[0];
}

__device__ __forceinline__ void zr__put(zr__array x, int64_t i, float value)
{
    const float values[1] = {value};
    zr__put_all<1>(x, i, values);
}

/* ---- launching --------------------------------------------------------------------------------- */

static inline int64_t zr__ceil_div(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

/* Return the number of blocks of `threads` threads for n elements. The number is limited, so kernels must loop over the
 * grid. */
static inline unsigned zr__blocks(int64_t n, int64_t threads)
{
    const int64_t most = 1 << 16, blocks = zr__ceil_div(n, threads);
    return (unsigned)(blocks < 1 ? 1 : blocks > most ? most : blocks);
}

/* Return a thread's first element. Use it in a kernel as `for (int64_t i = zr__first(); i < n; i += zr__step())`. */
__device__ __forceinline__ int64_t zr__first()
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ __forceinline__ int64_t zr__step()
{
    return (int64_t)gridDim.x * blockDim.x;
}

/* Return the stream to which a kernel's work is issued. */
static inline cudaStream_t zr__stream_of(const zr_kernel_args *args)
{
    return zr__cuda(args->device)->stream;
}

/* Return the status of the last launch. */
static inline zr_status zr__launched(void)
{
    ZR_CUDA(cudaGetLastError());
    return ZR_OK;
}

/* Number of elements that zr__each gives a thread at a time if all arrays are aligned. */
constexpr int ZR__PACK = 8;

template <int V, typename F> __global__ void zr__each_kernel(int64_t n, F f)
{
    for (int64_t i = zr__first() * V; i < n; i += zr__step() * V) {
        if (i + V <= n) {
            f.template run<V>(i);
            continue;
        }
        for (int64_t j = i; j < n; j++) f.template run<1>(j);
    }
}

static inline bool zr__is_aligned(const void *x)
{
    return (uintptr_t)x % sizeof(zr__chunk) == 0;
}

static inline bool zr__is_aligned(zr__array x)
{
    return zr__is_aligned(x.data);
}

template <typename... Arrays> bool zr__are_aligned(const Arrays &...x)
{
    return (zr__is_aligned(x) && ...);
}

/* Run f.run<V>(i) on the GPU for each range [i, i + V) of n elements, where V is ZR__PACK or 1. packed: whether every
 * array that f reads or writes is aligned to 16 bytes. An element gets the same operations for either V. */
template <typename F> zr_status zr__each(cudaStream_t stream, int64_t n, bool packed, F f)
{
    constexpr int threads = 256;
    if (n <= 0) return ZR_OK;
    if (packed)
        ZR_LAUNCH(stream, (zr__each_kernel<ZR__PACK, F>), zr__blocks(zr__ceil_div(n, ZR__PACK), threads), threads, 0, n,
                  f);
    else
        ZR_LAUNCH(stream, (zr__each_kernel<1, F>), zr__blocks(n, threads), threads, 0, n, f);
    return zr__launched();
}

#endif
