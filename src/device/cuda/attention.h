/* Code that all attention kernels share: the heads, the addresses of their tokens, the keys that a query sees, and the
 * dropout factors. A block of threads works on one head of one row of the batch. Only the scores of a tile of queries x
 * keys exist at a time (Dao et al. 2022), never all T x T scores. */
#ifndef ZR_DEVICE_CUDA_ATTENTION_H
#define ZR_DEVICE_CUDA_ATTENTION_H

#include <limits.h>

#include "device/attention_operands.h"
#include "device/cuda/dropout.h"
#include "device/cuda/launch.h"

constexpr float ZR__LN_2 = 0.69314718055994530942f;

/* Maximum bytes of shared memory that a block of threads can have on every GPU of compute capability 8.0 or higher. */
constexpr int ZR__SHARED_MOST = 99 << 10;

/* One head of an array q, k, v, y or of a gradient. Token t is at data + t * stride. */
template <typename T> struct zr__tokens {
    T *data;
    int64_t stride;
    int n, width; /* number of tokens, and number of elements in a token */
    bool wide;    /* whether tokens can be read in aligned pieces of 16 bytes */
};

struct zr__attention {
    int T, D;
    int64_t B;
    int heads, kv_heads; /* numbers of query heads and of key-value heads on this rank */
    int group, offset;   /* query head h uses key-value head (h + offset) / group; both are indices on this rank */
    /* Distances between two tokens, in elements: of q and dq, of k, v and their gradients, and of y and dy. */
    int64_t q_stride, kv_stride, y_stride;
    int earlier, later; /* maximum numbers of keys before and after its own that a query sees */
    /* beginnings of the documents of all rows (B,T), before which no query sees a key; or nullptr */
    const int32_t *documents;
    /* ends of the documents (B,T), from which on no query sees a key; or nullptr if a query sees no later keys */
    const int32_t *ends;
    float scale;
    bool wide; /* whether tokens of all arrays can be read in aligned pieces of 16 bytes */
    bool drops;
    bool fours; /* whether the random numbers of keys 0, 4, 8 ... have indices that are multiples of 4 */
    zr__dropout dropout;
    /* number of heads before this rank's first head, counted over all batch rows; used by dropout */
    int64_t first_head,
        /* total number of query heads of one batch row, over all tensor-parallel ranks; used by dropout */
        all_heads;
};

/* Return the sizes of an op. q is its operand q, followed by k and v, or its operand qkv if `fused`. */
static inline zr__attention_sizes zr__attention_sizes_at(const zr_kernel_args *args, const zr_tensor *q, bool fused)
{
    return zr__attention_sizes_of(&args->op->attr, &q->shape, fused ? nullptr : &q[1].shape);
}

/* Describe an op for its kernels. q is the operand q, followed by k and v, or the operand qkv. `documents` may be NULL.
 */
static inline zr__attention zr__attention_make(const zr_kernel_args *args, const zr__attention_sizes &s,
                                               const zr_tensor *q, const zr_tensor *documents)
{
    const zr_op_attr *attr = &args->op->attr;
    const zr__attention_operands o = zr__attention_operands_of(&s, q);
    const int64_t first = zr__attention_first_head(&s, args->runtime->place);
    zr__attention a = {};
    a.B = s.B;
    a.T = (int)s.T;
    a.D = (int)s.D;
    a.heads = (int)s.H;
    a.kv_heads = (int)s.K;
    a.group = (int)s.group;
    a.offset = (int)(first - zr__attention_first_kv(&s, args->runtime->place) * s.group);
    a.q_stride = o.q.stride;
    a.kv_stride = o.k.stride;
    a.y_stride = s.H * s.D;
    a.earlier = s.window > 0 && s.window < s.T ? (int)s.window - 1 : a.T;
    a.later = s.causal ? 0 : a.T;
    a.documents = documents ? (const int32_t *)documents->data : nullptr;
    a.scale = (float)attr->f[0];
    a.drops = attr->f[1] > 0.0;
    a.fours = a.T % 4 == 0;
    if (a.drops) a.dropout = zr__dropout_make(args->runtime, attr->i[1], attr->f[1]);
    a.all_heads = s.all;
    a.first_head = args->runtime->first_row * s.all + first;
    a.wide = a.D * zr_dtype_bytes(q->dtype) % (int64_t)sizeof(zr__chunk) == 0;
    for (int i = 0; i < args->n_in; i++) a.wide = a.wide && zr__is_aligned(args->in[i].data);
    for (int i = 0; i < args->n_out; i++) a.wide = a.wide && zr__is_aligned(args->out[i].data);
    return a;
}

/* Return the address of the first element of an operand or gradient. */
template <typename T> T *zr__columns_begin(const zr__head_columns &x)
{
    return (T *)x.x->data + x.first;
}

/* Return the number of blocks of threads, if each block works on `tokens` tokens of one of `heads` heads. The blocks of
 * a head are consecutive. */
static inline int64_t zr__attention_blocks(const zr__attention *a, int heads, int tokens)
{
    return a->B * heads * zr__ceil_div(a->T, tokens);
}

/* ---- in kernels: heads -------------------------------------------------------------------------- */

struct zr__head {
    int64_t row; /* row of the batch */
    int query,   /* index of the query head among this rank's query heads */
        kv;      /* index of the query head's key-value head among this rank's key-value heads */
};

/* Return a query head, from its index among the query heads of all rows. */
__device__ __forceinline__ zr__head zr__query_head(const zr__attention &a, unsigned index)
{
    const int query = (int)(index % (unsigned)a.heads);
    return {index / (unsigned)a.heads, query, (query + a.offset) / a.group};
}

/* Return a key-value head with the first query head that uses it, from its index among the key-value heads of all rows.
 */
__device__ __forceinline__ zr__head zr__kv_head(const zr__attention &a, unsigned index)
{
    const int kv = (int)(index % (unsigned)a.kv_heads), first = kv * a.group - a.offset;
    return {index / (unsigned)a.kv_heads, first > 0 ? first : 0, kv};
}

/* Return the index after the last query head that uses a key-value head. */
__device__ __forceinline__ int zr__query_heads_end(const zr__attention &a, int kv)
{
    const int end = (kv + 1) * a.group - a.offset;
    return end < a.heads ? end : a.heads;
}

/* Return one head of q or dq. */
template <typename T>
__device__ __forceinline__ zr__tokens<T> zr__query(const zr__attention &a, const zr__head &h, T *q)
{
    return {q + h.row * a.T * a.q_stride + h.query * a.D, a.q_stride, a.T, a.D, a.wide};
}

/* Return one head of k, v, dk or dv. */
template <typename T> __device__ __forceinline__ zr__tokens<T> zr__key(const zr__attention &a, const zr__head &h, T *k)
{
    return {k + h.row * a.T * a.kv_stride + h.kv * a.D, a.kv_stride, a.T, a.D, a.wide};
}

/* Return one head of y or dy. */
template <typename T>
__device__ __forceinline__ zr__tokens<T> zr__result(const zr__attention &a, const zr__head &h, T *y)
{
    return {y + h.row * a.T * a.y_stride + h.query * a.D, a.y_stride, a.T, a.D, a.wide};
}

/* Return the address of one head in lse or delta, arrays (B, heads, T). */
__device__ __forceinline__ float *zr__stats(const zr__attention &a, const zr__head &h, float *x)
{
    return x + (h.row * a.heads + h.query) * a.T;
}

__device__ __forceinline__ const float *zr__stats(const zr__attention &a, const zr__head &h, const float *x)
{
    return x + (h.row * a.heads + h.query) * a.T;
}

/* Return the index of the random number that decides whether the weight of query 0 and key 0 is dropped. */
__device__ __forceinline__ uint64_t zr__first_element(const zr__attention &a, const zr__head &h)
{
    return (uint64_t)(a.first_head + h.row * a.all_heads + h.query) * (uint64_t)a.T * (uint64_t)a.T;
}

/* ---- in kernels: which keys a query sees -------------------------------------------------------- */

/* Return the first token of the document to which a query of a row belongs, or 0 without documents. A query beyond the
 * last one belongs to the document of the last one. The result does not decrease when the query grows. */
__device__ __forceinline__ int zr__document(const zr__attention &a, int row, int query)
{
    return a.documents ? a.documents[(int64_t)row * a.T + (query < a.T ? query : a.T - 1)] : 0;
}

/* Return the token after the document to which a query of a row belongs, or INT_MAX if `ends` is nullptr. A query
 * beyond the last one belongs to the document of the last one. The result does not decrease when the query grows. */
__device__ __forceinline__ int zr__document_end(const zr__attention &a, int row, int query)
{
    return a.ends ? a.ends[(int64_t)row * a.T + (query < a.T ? query : a.T - 1)] : INT_MAX;
}

/* A range of keys or of queries. */
struct zr__range {
    int begin, end;
};

/* Return the range of keys in the document to which a query of a row belongs. */
__device__ __forceinline__ zr__range zr__document_of(const zr__attention &a, int row, int query)
{
    return {zr__document(a, row, query), zr__document_end(a, row, query)};
}

/* Return whether a query sees a key, which may be beyond the last key. `document` is the query's zr__document_of. */
__device__ __forceinline__ bool zr__sees(const zr__attention &a, int query, int key, zr__range document)
{
    return (unsigned)(key - query + a.earlier) <= (unsigned)(a.earlier + a.later) && key >= document.begin &&
           key < document.end;
}

/* Return whether one of the queries [i0, i0 + queries) of a row sees one of the keys [j0, j0 + keys). Tokens beyond the
 * last one count as well. */
__device__ __forceinline__ bool zr__any_seen(const zr__attention &a, int row, int i0, int queries, int j0, int keys)
{
    return j0 < i0 + queries + a.later && i0 < j0 + keys + a.earlier && zr__document(a, row, i0) < j0 + keys &&
           zr__document_end(a, row, i0 + queries - 1) > j0;
}

/* Return whether each of the queries [i0, i0 + queries) of a row sees each of the keys [j0, j0 + keys). Tokens beyond
 * the last one count as well. */
__device__ __forceinline__ bool zr__all_seen(const zr__attention &a, int row, int i0, int queries, int j0, int keys)
{
    return j0 + keys <= i0 + 1 + a.later && i0 + queries <= j0 + 1 + a.earlier &&
           zr__document(a, row, i0 + queries - 1) <= j0 && zr__document_end(a, row, i0) >= j0 + keys;
}

/* Return a range that contains every key that any of the queries [i0, i0 + queries) of a row sees. The range begins at
 * a multiple of `step`. */
__device__ __forceinline__ zr__range zr__keys_of(const zr__attention &a, int row, int i0, int queries, int step)
{
    const int window = i0 - a.earlier, document = zr__document(a, row, i0), later = i0 + queries + a.later;
    const int last = zr__document_end(a, row, i0 + queries - 1), end = later < last ? later : last;
    const int begin = window > document ? window : document;
    return {begin > 0 ? begin / step * step : 0, end < a.T ? end : a.T};
}

/* Return the range of keys that each of the queries [i0, i0 + queries) of a row sees. Queries beyond the last one count
 * as well. */
__device__ __forceinline__ zr__range zr__keys_of_all(const zr__attention &a, int row, int i0, int queries)
{
    const int window = i0 + queries - 1 - a.earlier, document = zr__document(a, row, i0 + queries - 1);
    const int later = i0 + 1 + a.later, last = zr__document_end(a, row, i0), end = later < last ? later : last;
    return {window > document ? window : document, end < a.T ? end : a.T};
}

/* Return the first query of a row, at `from` or later, whose document begins at `key` or later. Return T if no
 * query fits. */
__device__ __forceinline__ int zr__first_beyond(const zr__attention &a, int row, int from, int key)
{
    int low = from, high = a.T;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (zr__document(a, row, middle) < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Return the range of queries of a row that see one of the keys [j0, j0 + keys). */
__device__ __forceinline__ zr__range zr__queries_of(const zr__attention &a, int row, int j0, int keys)
{
    const int begin = a.ends ? zr__document(a, row, j0) : j0 - a.later;
    const int window = j0 + keys + a.earlier, last = window < a.T ? window : a.T;
    const int end = a.documents ? zr__first_beyond(a, row, j0, j0 + keys) : last;
    return {begin > 0 ? begin : 0, end < last ? end : last};
}

__device__ __forceinline__ float zr__factor(const zr__dropout &dropout, uint32_t word)
{
    return (word >> 8) >= dropout.threshold ? dropout.scale : 0.0f;
}

namespace
{

/* Find the ends of the documents of B rows of T tokens. */
__global__ void zr__find_ends(zr__attention a, int32_t *ends)
{
    for (int64_t i = zr__first(); i < a.B * a.T; i += zr__step()) {
        const int row = (int)(i / a.T), token = (int)(i % a.T);
        ends[i] = zr__first_beyond(a, row, token, zr__document(a, row, token) + 1);
    }
}

} // namespace

/* ---- launching --------------------------------------------------------------------------------- */

/* Launch a kernel with `bytes` of dynamic shared memory. More than 48 KiB must be allowed explicitly for each kernel.
 */
template <typename Operands>
zr_status zr__attention_launch(const zr_kernel_args *args, void (*kernel)(zr__attention, Operands), dim3 blocks,
                               unsigned threads, int bytes, const zr__attention &a, const Operands &o)
{
    if (bytes > 48 << 10) ZR_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    ZR_LAUNCH(zr__stream_of(args), kernel, blocks, threads, (size_t)bytes, a, o);
    return zr__launched();
}

/* Find the ends of documents in the scratch at `ends`, if the op needs them, and set a->ends. */
static inline zr_status zr__attention_find_ends(const zr_kernel_args *args, zr__attention *a, void *ends)
{
    if (!zr__attention_needs_ends(&args->op->attr, a->documents)) return ZR_OK;
    ZR_LAUNCH(zr__stream_of(args), zr__find_ends, zr__blocks(a->B * a->T, 256), 256, 0, *a, (int32_t *)ends);
    a->ends = (const int32_t *)ends;
    return zr__launched();
}

#endif
