/*
 * attention: attention in tiles of queries x keys, with a running maximum and sum for each query (Milakov and
 * Gimelshein 2018; Dao et al. 2022), so no T x T array exists. Tiles in which no query sees a key are skipped: tiles of
 * keys after the queries, before their windows, or of other documents. bf16 and fp16 use tensor cores, where the
 * weights are rounded to the type of v. fp32, and heads that are too wide for the tiles of tensor cores, use plain
 * fp32.
 */
#include "device/cuda/attention_plain.h"
#include "device/cuda/attention_tiles.h"

namespace
{

template <typename T> struct operands {
    const T *q, *k, *v;
    T *y;
    float *lse;
};

/* Return the number to subtract from scores before their powers are computed: the maximum of the scores, or 0 as long
 * as the query has seen no key. */
__device__ __forceinline__ float base_of(float max)
{
    return max == -INFINITY ? 0.0f : max;
}

/* ---- on tensor cores --------------------------------------------------------------------------- */

/* Sizes of the tiles, chosen so that a lane's part of a tile fits into the lane's 255 registers. */
template <int W, bool DROPS> struct tiles {
    static constexpr int M = W <= 128 ? 2 : 1, keys = W <= (DROPS ? 64 : 128) ? 64 : 32, N = keys / 8;
    static constexpr int queries = 16 * M * ZR__ATTENTION_WARPS;
    static constexpr bool kept = W <= 64; /* whether registers hold the queries */
    static constexpr int shared = (queries + 2 * keys) * zr__tile_stride<W> * 2;
    static_assert(shared <= ZR__SHARED_MOST, "the tiles fit");
};

/* Running softmax of a lane's queries: maximum of the scores so far, before scaling, and this lane's part of the sum.
 */
template <int M> struct online {
    float max[M][2], sum[M][2];
};

/* Reduce x over the four lanes that share a query's scores. */
template <typename Op> __device__ __forceinline__ float quad_all(float x, Op op)
{
    x = op(x, __shfl_xor_sync(ZR__ALL_LANES, x, 1));
    return op(x, __shfl_xor_sync(ZR__ALL_LANES, x, 2));
}

/* Replace scores by weights relative to the running maxima of their queries. If a query's maximum grows, rescale its y
 * and its sum. to_log2 is scale * log2(e), so that 2^(to_log2 * score) = e^(scale * score). */
template <int M, int N, int NY>
__device__ __forceinline__ void weigh(float (&score)[M][N][4], float (&y)[M][NY][4], online<M> &so_far, float to_log2)
{
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float before = so_far.max[m][h];
            float max = before, sum = 0.0f;
#pragma unroll
            for (int n = 0; n < N; n++) max = fmaxf(max, fmaxf(score[m][n][2 * h], score[m][n][2 * h + 1]));
            max = quad_all(max, zr__larger());
            const float base = base_of(max), shrink = zr__exp2((before - base) * to_log2), shift = base * to_log2;
#pragma unroll
            for (int n = 0; n < N; n++)
#pragma unroll
                for (int i = 2 * h; i < 2 * h + 2; i++) {
                    score[m][n][i] = zr__exp2(fmaf(score[m][n][i], to_log2, -shift));
                    sum += score[m][n][i];
                }
#pragma unroll
            for (int n = 0; n < NY; n++) {
                y[m][n][2 * h] *= shrink;
                y[m][n][2 * h + 1] *= shrink;
            }
            so_far.max[m][h] = max;
            so_far.sum[m][h] = fmaf(so_far.sum[m][h], shrink, sum);
        }
}

/* Multiply weights by their factors of dropout. `first` is the index of the random number of the warp's first query and
 * the tile's first key. */
template <int M, int N>
__device__ __forceinline__ void drop_weights(float (&weight)[M][N][4], const zr__attention &a, uint64_t first)
{
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < N; n++) {
            float factor[4];
            zr__factors_by_query(factor, a, first + (uint64_t)(16 * m) * (uint64_t)a.T + 8 * n);
#pragma unroll
            for (int i = 0; i < 4; i++) weight[m][n][i] *= factor[i];
        }
}

/* Store y and lse of a warp's queries, which begin with query i0. */
template <typename T, int W, int M, int NY>
__device__ __forceinline__ void store_queries(const zr__tokens<T> &y, float *lse, int i0, T *rows,
                                              const float (&sum)[M][NY][4], const online<M> &all, float to_log2)
{
    const zr__lane at = zr__lane_here();
    float factor[M][2];
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float total = quad_all(all.sum[m][h], zr__plus());
            const int query = i0 + 16 * m + 8 * h + at.g;
            factor[m][h] = 1.0f / total;
            if (at.t == 0 && query < y.n) lse[query] = (fmaf(all.max[m][h], to_log2, log2f(total))) * ZR__LN_2;
        }
    zr__store_rows<W>(y, i0, 0, rows, sum, factor);
}

template <typename T, int W, bool DROPS>
__global__ void __launch_bounds__(ZR__ATTENTION_THREADS, 2) forward(zr__attention a, operands<T> o)
{
    using tile = tiles<W, DROPS>;
    constexpr int M = tile::M, N = tile::N, keys = tile::keys, queries = tile::queries;
    ZR_SHARED(T, q_tile);
    T *k_tile = q_tile + queries * zr__tile_stride<W>, *v_tile = k_tile + keys * zr__tile_stride<W>;
    /* Start with the blocks of the last queries, since these queries see the most keys and take longest. */
    const int blocks = (a.T + queries - 1) / queries,
              i0 = (blocks - 1 - (int)(blockIdx.x % (unsigned)blocks)) * queries;
    const zr__head head = zr__query_head(a, blockIdx.x / (unsigned)blocks);
    const zr__tokens<const T> k = zr__key(a, head, o.k), v = zr__key(a, head, o.v);
    const zr__range seen = zr__keys_of(a, head.row, i0, queries, keys);
    const int own = zr__warp_here() * 16 * M;
    const zr__range some = zr__keys_of(a, head.row, i0 + own, 16 * M, 1),
                    all = zr__keys_of_all(a, head.row, i0 + own, 16 * M);
    const float to_log2 = a.scale * ZR__LOG2_E;
    T *rows = q_tile + own * zr__tile_stride<W>;
    zr__left<T, M, W, tile::kept> q = {{}, rows};
    online<M> so_far;
    float sum[M][W / 8][4], score[M][N][4];
    uint32_t weight[M][N / 2][4];
    zr__copies copies;

    for (int m = 0; m < M; m++)
        for (int h = 0; h < 2; h++) so_far.max[m][h] = -INFINITY, so_far.sum[m][h] = 0.0f;
    zr__clear(sum);
    zr__load_tile<queries, W>(copies, q_tile, zr__query(a, head, o.q), i0);
    zr__load_tile<keys, W>(copies, k_tile, k, seen.begin);
    copies.close();
    for (int j0 = seen.begin; j0 < seen.end; j0 += keys) {
        /* The next v is copied during q k^T, and the next k during the computation of y. Warps whose queries see no key
         * of the tile only synchronize. */
        copies.wait<0>();
        __syncthreads();
        zr__load_tile<keys, W>(copies, v_tile, v, j0);
        copies.close();
        if (j0 == seen.begin) q.take();
        if (j0 < some.end && j0 + keys > some.begin) zr__score(score, q, (const T *)k_tile);
        copies.wait<0>();
        __syncthreads();
        if (j0 + keys < seen.end) zr__load_tile<keys, W>(copies, k_tile, k, j0 + keys);
        copies.close();
        if (j0 >= some.end || j0 + keys <= some.begin) continue;
        if (j0 < all.begin || j0 + keys > all.end) zr__hide_keys(score, a, head.row, i0 + own, j0, -INFINITY);
        weigh(score, sum, so_far, to_log2);
        if (DROPS) drop_weights(score, a, zr__first_element(a, head) + (uint64_t)(i0 + own) * (uint64_t)a.T + j0);
        zr__round<T>(weight, score);
        zr__add_weighted<T, W>(sum, weight, (const T *)v_tile);
    }
    store_queries<T, W>(zr__result(a, head, o.y), zr__stats(a, head, o.lse), i0 + own, rows, sum, so_far, to_log2);
}

template <typename T, int W, bool DROPS>
zr_status launch_tiles(const zr_kernel_args *args, const zr__attention &a, const operands<T> &o)
{
    using tile = tiles<W, DROPS>;
    const dim3 blocks((unsigned)zr__attention_blocks(&a, a.heads, tile::queries));
    return zr__attention_launch(args, forward<T, W, DROPS>, blocks, ZR__ATTENTION_THREADS, tile::shared, a, o);
}

/* ---- in plain fp32 ----------------------------------------------------------------------------- */

struct plain_online {
    float max[ZR__PLAIN_ROWS], sum[ZR__PLAIN_ROWS];
};

/* Hide the keys that are not in their query's document: set their scores to the infinity that plain_weigh scales to
 * -infinity. This work is not part of plain_weigh, which has no registers left. */
__device__ __forceinline__ void plain_hide(zr__plain_scores &score, const zr__attention &a, int row, int i0, int j0)
{
    const float hidden = a.scale < 0.0f ? INFINITY : -INFINITY;
#pragma unroll
    for (int r = 0; r < ZR__PLAIN_ROWS; r++) {
        const zr__range document = zr__document_of(a, row, i0 + zr__plain_row(r));
#pragma unroll
        for (int c = 0; c < ZR__PLAIN_COLUMNS; c++)
            if (j0 + zr__plain_column(c) < document.begin || j0 + zr__plain_column(c) >= document.end)
                score[r][c] = hidden;
    }
}

/* Update the running softmax like `weigh`. Unlike `weigh`, scale the scores first, because the scale may be any number
 * in these kernels. */
template <int PART>
__device__ __forceinline__ void plain_weigh(zr__plain_scores &score, zr__plain_sums<PART> &y, plain_online &so_far,
                                            const zr__attention &a, int i0, int j0, int end)
{
    const float to_log2 = a.scale * ZR__LOG2_E;
#pragma unroll
    for (int r = 0; r < ZR__PLAIN_ROWS; r++) {
        const float before = so_far.max[r];
        float max = before, sum = 0.0f;
#pragma unroll
        for (int c = 0; c < ZR__PLAIN_COLUMNS; c++) {
            const int key = j0 + zr__plain_column(c);
            const bool sees = zr__sees(a, i0 + zr__plain_row(r), key, {0, INT_MAX}) && key < end;
            score[r][c] = sees ? score[r][c] * to_log2 : -INFINITY;
            max = fmaxf(max, score[r][c]);
        }
        max = zr__row_all(max, zr__larger());
        const float base = base_of(max), shrink = zr__exp2(before - base);
#pragma unroll
        for (int c = 0; c < ZR__PLAIN_COLUMNS; c++) {
            score[r][c] = zr__exp2(score[r][c] - base);
            sum += score[r][c];
        }
#pragma unroll
        for (int p = 0; p < PART / 64; p++)
#pragma unroll
            for (int c = 0; c < 4; c++) y[r][p].x[c] *= shrink;
        so_far.max[r] = max;
        so_far.sum[r] = fmaf(so_far.sum[r], shrink, sum);
    }
}

/* Multiply weights by their factors of dropout. `first` is the index of the random number of the tile's first query and
 * key. */
__device__ __forceinline__ void plain_drop(zr__plain_scores &weight, const zr__attention &a, uint64_t first)
{
    for (int r = 0; r < ZR__PLAIN_ROWS; r++) {
        float factor[ZR__PLAIN_COLUMNS];
        zr__dropout_factors<ZR__PLAIN_COLUMNS>(
            a.dropout, first + (uint64_t)zr__plain_row(r) * (uint64_t)a.T + zr__plain_column(0), factor);
        for (int c = 0; c < ZR__PLAIN_COLUMNS; c++) weight[r][c] *= factor[c];
    }
}

/* Compute y and lse of a tile of queries in plain fp32. Each block computes only PART elements of each y, from element
 * blockIdx.y * PART on. The blocks with blockIdx.y = 0 also write lse. */
template <typename T, int PART>
__global__ void __launch_bounds__(ZR__PLAIN_THREADS, PART <= 64 ? 3 : 2) forward_plain(zr__attention a, operands<T> o)
{
    ZR_SHARED(float, shared);
    const int blocks = (a.T + ZR__PLAIN_TILE - 1) / ZR__PLAIN_TILE, d0 = (int)blockIdx.y * PART;
    const int i0 = (blocks - 1 - (int)(blockIdx.x % (unsigned)blocks)) * ZR__PLAIN_TILE;
    const zr__head head = zr__query_head(a, blockIdx.x / (unsigned)blocks);
    const zr__tokens<const T> q = zr__query(a, head, o.q), k = zr__key(a, head, o.k), v = zr__key(a, head, o.v);
    const zr__range seen = zr__keys_of(a, head.row, i0, ZR__PLAIN_TILE, ZR__PLAIN_TILE);
    plain_online so_far;
    zr__plain_scores score;
    zr__plain_sums<PART> sum;
    float factor[ZR__PLAIN_ROWS];

    for (int r = 0; r < ZR__PLAIN_ROWS; r++) so_far.max[r] = -INFINITY, so_far.sum[r] = 0.0f;
    zr__plain_clear<PART>(sum);
    for (int j0 = seen.begin; j0 < seen.end; j0 += ZR__PLAIN_TILE) {
        zr__plain_score(score, shared, q, i0, k, j0);
        if (a.documents) plain_hide(score, a, head.row, i0, j0);
        plain_weigh<PART>(score, sum, so_far, a, i0, j0, seen.end);
        if (a.drops) plain_drop(score, a, zr__first_element(a, head) + (uint64_t)i0 * (uint64_t)a.T + j0);
        zr__plain_weighted<PART>(sum, shared, score, v, j0, d0);
    }
    for (int r = 0; r < ZR__PLAIN_ROWS; r++) {
        const float total = zr__row_all(so_far.sum[r], zr__plus());
        const int query = i0 + zr__plain_row(r);
        factor[r] = 1.0f / total;
        if (d0 == 0 && threadIdx.x % 16 == 0 && query < a.T)
            zr__stats(a, head, o.lse)[query] = (so_far.max[r] + log2f(total)) * ZR__LN_2;
    }
    zr__plain_store<PART>(zr__result(a, head, o.y), i0, d0, sum, factor);
}

template <typename T, int PART>
zr_status launch_plain(const zr_kernel_args *args, const zr__attention &a, const operands<T> &o)
{
    const dim3 blocks((unsigned)zr__attention_blocks(&a, a.heads, ZR__PLAIN_TILE), (unsigned)zr__ceil_div(a.D, PART));
    return zr__attention_launch(args, forward_plain<T, PART>, blocks, ZR__PLAIN_THREADS, zr__plain_shared(PART), a, o);
}

/* ---- the op ------------------------------------------------------------------------------------ */

/* Choose the kernels. fp32 has no kernels on tensor cores, because tensor cores would round fp32 operands to TF32. */
template <typename T> zr_status run_with(const zr_kernel_args *args, const zr__attention &a, const operands<T> &o)
{
    if constexpr (!std::is_same_v<T, float>)
        if (zr__suits_tiles(&a))
            return zr__with_tiles(&a, [&](auto W, auto drops) { return launch_tiles<T, W, drops>(args, a, o); });
    return a.D <= 64 ? launch_plain<T, 64>(args, a, o) : launch_plain<T, 128>(args, a, o);
}

zr_status run_attention(const zr_kernel_args *args)
{
    const zr__attention_sizes sizes = zr__attention_sizes_at(args, &args->in[0], zr__attention_is_fused(args->n_in));
    const zr__attention_operands in = zr__attention_operands_of(&sizes, &args->in[0]);
    zr__attention a = zr__attention_make(args, sizes, &args->in[0], zr__attention_documents(args->in, args->n_in));
    ZR_TRY(zr__attention_find_ends(args, &a, args->scratch));
    return zr__typed(args->in[0].dtype, [&]<typename T>(T *) {
        const operands<T> o = {zr__columns_begin<const T>(in.q), zr__columns_begin<const T>(in.k),
                               zr__columns_begin<const T>(in.v), (T *)args->out[0].data, (float *)args->out[1].data};
        return run_with<T>(args, a, o);
    });
}

} // namespace

ZR_CUDA_KERNELS(attention) = {
    zr__kernel("attention", run_attention),
    {},
};
