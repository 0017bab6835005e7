/* Code that all attention kernels share: the heads, the addresses of their tokens, and the dropout factors. A block of
 * threads works on one head of one row of the batch. Only the scores of a tile of queries x keys exist at a time (Dao
 * et al. 2022), never all T x T scores. */
#ifndef ZR_DEVICE_CUDA_ATTENTION_H
#define ZR_DEVICE_CUDA_ATTENTION_H

#include "device/cuda/dropout.h"
#include "device/cuda/launch.h"

constexpr float ZR__LN_2 = 0.69314718055994530942f;

/* Maximum bytes of shared memory that a block of threads can have on every GPU of compute capability 8.0 or higher. */
constexpr int ZR__SHARED_MOST = 99 << 10;

/* One head of an array: q, k, v, y or a gradient. Token t is at data + t * stride. */
template <typename T> struct zr__tokens {
    T *data;
    int64_t stride;
    int n, width; /* number of tokens, and number of elements in a token */
    bool wide;    /* whether tokens can be read in aligned pieces of 16 bytes */
};

struct zr__attention {
    int T, D;
    int64_t B, C, n_head;
    float scale;
    bool wide; /* whether tokens of all arrays can be read in aligned pieces of 16 bytes */
    bool drops;
    bool fours; /* whether random numbers of keys 0, 4, 8 ... have indices that are multiples of 4 */
    zr__dropout dropout;
    int64_t first_head, /* number of heads before this rank's first head, counted over all batch rows; used by
                           dropout */
        all_heads;      /* total number of heads of one batch row, over all tensor-parallel ranks; used by dropout */
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
    a.fours = a.T % 4 == 0;
    if (a.drops) a.dropout = zr__dropout_make(now, attr->i[1], attr->f[1]);
    /* If ranks share the heads of a sequence, i[2] is the number of heads of all ranks together. */
    const bool shared = attr->i[2] > a.n_head;
    a.all_heads = shared ? attr->i[2] : a.n_head;
    a.first_head = now->first_row * a.all_heads + (shared ? now->place * a.n_head : 0);
    a.wide = a.D * zr_dtype_bytes(qkv->dtype) % (int64_t)sizeof(zr__chunk) == 0;
    for (int i = 0; i < args->n_in; i++) a.wide = a.wide && zr__is_aligned(args->in[i].data);
    a.wide = a.wide && zr__is_aligned(args->out[0].data);
    return a;
}

/* Return the number of blocks of threads, if each block works on `tokens` tokens of one head. The blocks of a head are
 * consecutive. */
static inline int64_t zr__attention_blocks(const zr__attention *a, int tokens)
{
    return a->B * a->n_head * zr__ceil_div(a->T, tokens);
}

/* ---- in kernels -------------------------------------------------------------------------------- */

struct zr__head {
    int64_t index, /* index of the head among the heads of all rows */
        row,       /* row of the batch */
        head;      /* index of the head among the heads of its row */
};

__device__ __forceinline__ zr__head zr__head_at(const zr__attention &a, int64_t index)
{
    return {index, index / a.n_head, index % a.n_head};
}

/* Return one head's q (part 0), k (part 1) or v (part 2) in an array with the layout of qkv. */
template <typename T>
__device__ __forceinline__ zr__tokens<T> zr__part(const zr__attention &a, const zr__head &h, T *qkv, int part)
{
    return {qkv + (h.row * a.T * 3 + part) * a.C + h.head * a.D, 3 * a.C, a.T, a.D, a.wide};
}

/* Return one head in an array with the layout of y. */
template <typename T>
__device__ __forceinline__ zr__tokens<T> zr__result(const zr__attention &a, const zr__head &h, T *y)
{
    return {y + h.row * a.T * a.C + h.head * a.D, a.C, a.T, a.D, a.wide};
}

/* Return the index of the random number that decides whether the weight of query 0 and key 0 is dropped. */
__device__ __forceinline__ uint64_t zr__first_element(const zr__attention &a, const zr__head &h)
{
    return (uint64_t)(a.first_head + h.row * a.all_heads + h.head) * (uint64_t)a.T * (uint64_t)a.T;
}

__device__ __forceinline__ float zr__factor(const zr__dropout &dropout, uint32_t word)
{
    return (word >> 8) >= dropout.threshold ? dropout.scale : 0.0f;
}

/* ---- launching --------------------------------------------------------------------------------- */

/* Let a kernel use `bytes` of dynamic shared memory. Without this call, a kernel can use at most 48 KiB. */
template <typename... Params> zr_status zr__allow_shared(void (*kernel)(Params...), int bytes)
{
    if (bytes > 48 << 10) ZR_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    return ZR_OK;
}

#endif
