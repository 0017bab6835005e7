/* Heads of attention, the places of their tokens and their factors of dropout, for all kernels of attention. A block of
 * threads works on one head of one row of the batch. Scores exist for a tile of queries x keys at a time (Dao et al.
 * 2022), never for T x T. */
#ifndef ZR_DEVICE_CUDA_ATTENTION_H
#define ZR_DEVICE_CUDA_ATTENTION_H

#include "device/cuda/dropout.h"
#include "device/cuda/launch.h"

constexpr float ZR__LOG2_E = 1.44269504088896340736f;
constexpr float ZR__LN_2 = 0.69314718055994530942f;

/* Bytes of shared memory that a block of threads may have on every GPU of compute capability 8.0 or more. */
constexpr int ZR__SHARED_MOST = 99 << 10;

/* Where one of q, k, v or y, or a gradient, of a head lies: token t at data + t * stride. */
template <typename T> struct zr__tokens {
    T *data;
    int64_t stride;
    int n, width; /* tokens, elements of one */
    bool wide;    /* 16 bytes at a time lie on 16 bytes, and so do the ends of tokens */
    bool f16;     /* zr__narrow: fp16, else bf16 */
};

/* An element of bf16 or fp16, for kernels that are used too rarely to be there for both. */
struct zr__narrow {
    uint16_t bits;
};

/* Element i of the array that the tokens are in. */
template <typename T> __device__ __forceinline__ float zr__get(const zr__tokens<T> &x, int64_t i)
{
    return zr__get(x.data, i);
}

__device__ __forceinline__ float zr__get(const zr__tokens<const zr__narrow> &x, int64_t i)
{
    return x.f16 ? zr__get((const zr__f16 *)x.data, i) : zr__get((const zr__bf16 *)x.data, i);
}

template <typename T> __device__ __forceinline__ void zr__put(const zr__tokens<T> &x, int64_t i, float value)
{
    zr__put(x.data, i, value);
}

__device__ __forceinline__ void zr__put(const zr__tokens<zr__narrow> &x, int64_t i, float value)
{
    if (x.f16)
        zr__put((zr__f16 *)x.data, i, value);
    else
        zr__put((zr__bf16 *)x.data, i, value);
}

struct zr__attention {
    int T, D;
    int64_t B, C, n_head;
    float scale;
    bool wide; /* of all arrays */
    bool drops;
    bool fours; /* the element of a score whose key is a multiple of 4 is one as well */
    zr__dropout dropout;
    int64_t first_head, all_heads; /* dropout: the elements of row b and head h follow the elements of */
                                   /* first_head + b * all_heads + h other heads */
    bool f16;                      /* zr__narrow: fp16, else bf16 */
};

static inline zr__attention zr__attention_make(const zr_kernel_args *args, const zr_tensor *qkv)
{
    const zr_op_attr *attr = &args->op->attr;
    const zr_runtime *now = args->runtime;
    zr__attention a = {};
    a.B = qkv->shape.dim[0];
    a.T = (int)qkv->shape.dim[1];
    a.C = qkv->shape.dim[2] / 3;
    a.n_head = attr->i[0];
    a.D = (int)(a.C / a.n_head);
    a.scale = (float)attr->f[0];
    a.drops = attr->f[1] > 0.0;
    a.f16 = qkv->dtype == ZR_F16;
    a.fours = a.T % 4 == 0;
    if (a.drops) a.dropout = zr__dropout_make(now, attr->i[1], attr->f[1]);
    /* Where other ranks have some of the heads, i[2] is the number of all. */
    const bool shared = attr->i[2] > a.n_head;
    a.all_heads = shared ? attr->i[2] : a.n_head;
    a.first_head = now->first_row * a.all_heads + (shared ? now->place * a.n_head : 0);
    a.wide = a.D * zr_dtype_bytes(qkv->dtype) % (int64_t)sizeof(zr__chunk) == 0;
    for (int i = 0; i < args->n_in; i++) a.wide = a.wide && zr__is_aligned(args->in[i].data);
    a.wide = a.wide && zr__is_aligned(args->out[0].data);
    return a;
}

/* Blocks of threads where each has `tokens` tokens of one head; the heads stand one behind the other. */
static inline int64_t zr__attention_blocks(const zr__attention *a, int tokens)
{
    return a->B * a->n_head * zr__ceil_div(a->T, tokens);
}

/* ---- in kernels -------------------------------------------------------------------------------- */

struct zr__head {
    int64_t index, row, head; /* index counts heads of all rows */
};

__device__ __forceinline__ zr__head zr__head_at(const zr__attention &a, int64_t index)
{
    return {index, index / a.n_head, index % a.n_head};
}

/* q (part 0), k (1) or v (2) of an array like qkv. */
template <typename T>
__device__ __forceinline__ zr__tokens<T> zr__part(const zr__attention &a, const zr__head &h, T *qkv, int part)
{
    return {qkv + (h.row * a.T * 3 + part) * a.C + h.head * a.D, 3 * a.C, a.T, a.D, a.wide, a.f16};
}

/* A head of an array like y. */
template <typename T>
__device__ __forceinline__ zr__tokens<T> zr__result(const zr__attention &a, const zr__head &h, T *y)
{
    return {y + h.row * a.T * a.C + h.head * a.D, a.C, a.T, a.D, a.wide, a.f16};
}

/* Element of dropout that the score of query 0 and key 0 has. */
__device__ __forceinline__ uint64_t zr__first_element(const zr__attention &a, const zr__head &h)
{
    return (uint64_t)(a.first_head + h.row * a.all_heads + h.head) * (uint64_t)a.T * (uint64_t)a.T;
}

__device__ __forceinline__ float zr__factor(const zr__dropout &dropout, uint32_t word)
{
    return (word >> 8) >= dropout.threshold ? dropout.scale : 0.0f;
}

/* 2^x, to within some 2^-22 of it; below 2^-126 it is 0. */
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

/* ---- launching --------------------------------------------------------------------------------- */

/* Let a kernel have more than the 48 KiB of shared memory that each may have. */
template <typename... Params> zr_status zr__allow_shared(void (*kernel)(Params...), int bytes)
{
    if (bytes > 48 << 10) ZR_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    return ZR_OK;
}

#endif
