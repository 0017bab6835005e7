/*
 * attention_dx. The weights are recomputed twice from q, k and lse: in blocks that hold queries and sum dq over the
 * keys, and in blocks that hold keys and sum dk and dv over the queries of all heads that use the keys. Each sum is
 * therefore computed by one block, in a fixed order. With P for the weights before dropout and `kept` for the factors
 * of dropout:
 *   - dv = (kept P)^T dy, dS = P (kept dy v^T - delta), dq = scale dS k, dk = scale dS^T q
 *   - delta = sum of dy y over the width of a head, for each query
 */
#include "device/cuda/attention_plain.h"
#include "device/cuda/attention_tiles.h"

namespace
{

/* Statistics of a query: its log-sum-exp times log2(e), because the kernels compute powers of 2, and its delta. */
struct stat {
    float lse, delta;
};

template <typename T> struct operands {
    const T *dy, *q, *k, *v, *y;
    T *dq, *dk, *dv;
    const float *lse;
    float *delta; /* (B, heads, T) deltas, in the scratch */
};

__device__ __forceinline__ stat stat_of(const float *lse, const float *delta, int query, int n)
{
    stat of = {0.0f, 0.0f};
    if (query < n) of = {lse[query] * ZR__LOG2_E, delta[query]};
    return of;
}

/* Compute a weight and the gradient of its score, in place. On entry, `score` is the score and `gradient` is the
 * gradient of the weight. On return, `score` is the weight after dropout and `gradient` is the gradient of the score.
 * `factor` is the factor of dropout. */
__device__ __forceinline__ void score_backward(float &score, float &gradient, float factor, float to_log2, stat of)
{
    const float p = zr__exp2(fmaf(score, to_log2, -of.lse));
    gradient = p * fmaf(factor, gradient, -of.delta);
    score = p * factor;
}

/* ---- delta --------------------------------------------------------------------------------------- */

constexpr int DELTA_THREADS = 256, DELTA_LANES = 8, DELTA_PACK = 8;

/* Compute delta. Eight lanes process a token of a head; each lane loads eight elements at a time. packed: whether one
 * access can load eight elements. */
template <typename T>
__global__ void __launch_bounds__(DELTA_THREADS) make_delta(zr__attention a, operands<T> o, bool packed)
{
    const int64_t n = a.B * a.T * a.heads, index = zr__first() / DELTA_LANES;
    const int lane = (int)threadIdx.x % DELTA_LANES;
    float sum = 0.0f;
    for (int d = lane * DELTA_PACK; index < n && d < a.D; d += DELTA_LANES * DELTA_PACK) {
        float dy[DELTA_PACK], y[DELTA_PACK];
        if (packed) {
            zr__get_all<DELTA_PACK>(dy, o.dy, index * a.D + d);
            zr__get_all<DELTA_PACK>(y, o.y, index * a.D + d);
        } else {
            for (int i = 0; i < DELTA_PACK; i++) {
                dy[i] = d + i < a.D ? zr__get(o.dy, index * a.D + d + i) : 0.0f;
                y[i] = d + i < a.D ? zr__get(o.y, index * a.D + d + i) : 0.0f;
            }
        }
        for (int i = 0; i < DELTA_PACK; i++) sum = fmaf(dy[i], y[i], sum);
    }
    for (int mask = DELTA_LANES / 2; mask > 0; mask /= 2) sum += __shfl_xor_sync(ZR__ALL_LANES, sum, mask);
    const int64_t row = index / a.heads, head = index % a.heads;
    if (index < n && lane == 0) o.delta[(row / a.T * a.heads + head) * a.T + row % a.T] = sum;
}

/* ---- dq on tensor cores -------------------------------------------------------------------------- */

/* Sizes of the tiles. There are two buffers for tiles of columns: one buffer is filled while the other is used. */
template <int W> struct dq_tiles {
    static constexpr int M = W <= 64 ? 2 : 1, keys = W <= 128 ? 32 : 16, N = keys / 8;
    /* pair: number of elements of a tile of k and a tile of v together */
    static constexpr int queries = 16 * M * ZR__ATTENTION_WARPS, pair = 2 * keys * zr__tile_stride<W>;
    static constexpr bool kept = W <= 128; /* whether registers hold q and dy */
    static constexpr int shared = (2 * queries * zr__tile_stride<W> + 2 * pair) * 2;
    static_assert(shared <= ZR__SHARED_MOST, "the tiles fit");
};

/* Replace scores by weights, and gradients of weights by gradients of scores. `first` is the index of the random number
 * of the warp's first query and the tile's first key. */
template <bool DROPS, int M, int N>
__device__ __forceinline__ void backward_by_query(float (&score)[M][N][4], float (&gradient)[M][N][4],
                                                  const zr__attention &a, uint64_t first, const stat (&of)[M][2])
{
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < N; n++) {
            float factor[4] = {1.0f, 1.0f, 1.0f, 1.0f};
            if (DROPS) zr__factors_by_query(factor, a, first + (uint64_t)(16 * m) * (uint64_t)a.T + 8 * n);
#pragma unroll
            for (int i = 0; i < 4; i++)
                score_backward(score[m][n][i], gradient[m][n][i], factor[i], a.scale * ZR__LOG2_E, of[m][i / 2]);
        }
}

template <typename T, int W, bool DROPS>
__global__ void __launch_bounds__(ZR__ATTENTION_THREADS, 2) make_dq(zr__attention a, operands<T> o)
{
    using tile = dq_tiles<W>;
    constexpr int M = tile::M, N = tile::N, keys = tile::keys, queries = tile::queries;
    ZR_SHARED(T, q_tile);
    T *dy_tile = q_tile + queries * zr__tile_stride<W>, *columns = dy_tile + queries * zr__tile_stride<W>;
    /* Start with the blocks of the last queries, since these queries see the most keys and take longest. */
    const int blocks = (a.T + queries - 1) / queries,
              i0 = (blocks - 1 - (int)(blockIdx.x % (unsigned)blocks)) * queries;
    const zr__head head = zr__query_head(a, blockIdx.x / (unsigned)blocks);
    const zr__tokens<const T> k = zr__key(a, head, o.k), v = zr__key(a, head, o.v);
    const zr__range seen = zr__keys_of(a, head.row, i0, queries, keys);
    const int own = zr__warp_here() * 16 * M;
    zr__left<T, M, W, tile::kept> q = {{}, q_tile + own * zr__tile_stride<W>};
    zr__left<T, M, W, tile::kept> dy = {{}, dy_tile + own * zr__tile_stride<W>};
    float sum[M][W / 8][4], score[M][N][4], gradient[M][N][4], factor[M][2];
    uint32_t weight[M][N / 2][4];
    stat of[M][2];
    zr__copies copies;

    for (int m = 0; m < M; m++)
        for (int h = 0; h < 2; h++)
            of[m][h] = stat_of(zr__stats(a, head, o.lse), zr__stats(a, head, o.delta),
                               i0 + own + 16 * m + 8 * h + zr__lane_here().g, a.T);
    zr__clear(sum);
    zr__load_tile<queries, W>(copies, q_tile, zr__query(a, head, o.q), i0);
    zr__load_tile<queries, W>(copies, dy_tile, zr__result(a, head, o.dy), i0);
    zr__load_tile<keys, W>(copies, columns, k, seen.begin);
    zr__load_tile<keys, W>(copies, columns + tile::pair / 2, v, seen.begin);
    copies.close();
    for (int j0 = seen.begin, turn = 0; j0 < seen.end; j0 += keys, turn ^= 1) {
        T *here = columns + turn * tile::pair, *next = columns + (turn ^ 1) * tile::pair;
        copies.wait<0>();
        __syncthreads();
        if (j0 + keys < seen.end) {
            zr__load_tile<keys, W>(copies, next, k, j0 + keys);
            zr__load_tile<keys, W>(copies, next + tile::pair / 2, v, j0 + keys);
        }
        copies.close();
        if (j0 == seen.begin) q.take(), dy.take();
        if (!zr__any_seen(a, head.row, i0 + own, 16 * M, j0, keys))
            continue; /* no query of this warp sees these keys */
        zr__score(score, q, (const T *)here);
        zr__score(gradient, dy, (const T *)(here + tile::pair / 2));
        backward_by_query<DROPS>(score, gradient, a,
                                 zr__first_element(a, head) + (uint64_t)(i0 + own) * (uint64_t)a.T + j0, of);
        if (!zr__all_seen(a, head.row, i0 + own, 16 * M, j0, keys) || j0 + keys > a.T)
            zr__hide_keys(gradient, a, head.row, i0 + own, j0, 0.0f);
        zr__round<T>(weight, gradient);
        zr__add_weighted<T, W>(sum, weight, (const T *)here);
    }
    for (int m = 0; m < M; m++) factor[m][0] = factor[m][1] = a.scale;
    zr__store_rows<W>(zr__query(a, head, o.dq), i0 + own, 0, q_tile + own * zr__tile_stride<W>, sum, factor);
}

/* ---- dk and dv on tensor cores ------------------------------------------------------------------- */

template <int W, bool DROPS> struct dk_tiles {
    static constexpr int M = W <= 64 && !DROPS ? 2 : 1, queries = W <= 128 ? 32 : 16, N = queries / 8;
    /* `pair`: number of elements of a tile of q and a tile of dy together */
    static constexpr int keys = 16 * M * ZR__ATTENTION_WARPS, pair = 2 * queries * zr__tile_stride<W>;
    static constexpr bool kept = M == 1 && W <= 96; /* whether registers hold k and v */
    /* Number of elements of each token's dk and dv that a block computes. */
    static constexpr int part = W <= 128 ? W : 128;
    static constexpr int turns = W <= 128 ? 2 : 1; /* number of buffers for tiles of columns */
    static constexpr int stats = 2 * queries;      /* number of floats for the lse and delta of a tile's queries */
    static constexpr int shared = turns * stats * 4 + (2 * keys * zr__tile_stride<W> + turns * pair) * 2;
    static_assert(shared <= ZR__SHARED_MOST && stats % 4 == 0, "the tiles fit");
};

/* Set scores and gradients to 0 for queries that do not see the key, and for queries beyond the last one. i0 is the
 * tile's first query of a row of the batch, j0 the warp's first key. */
template <int M, int N>
__device__ __forceinline__ void hide_queries(float (&score)[M][N][4], float (&gradient)[M][N][4],
                                             const zr__attention &a, int row, int i0, int j0)
{
    const zr__lane at = zr__lane_here();
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int q = 0; q < 2; q++) {
            const int query = i0 + 8 * n + 2 * at.t + q;
            const zr__range document = zr__document_of(a, row, query);
#pragma unroll
            for (int m = 0; m < M; m++)
#pragma unroll
                for (int i = q; i < 4; i += 2) {
                    const int key = j0 + 16 * m + at.g + i / 2 * 8;
                    if (!zr__sees(a, query, key, document) || query >= a.T) score[m][n][i] = gradient[m][n][i] = 0.0f;
                }
        }
}

/* Replace scores by weights, and gradients of weights by gradients of scores. `first` is the index of the random number
 * of the tile's first query and the warp's first key. lse and delta belong to the tile's queries. */
template <bool DROPS, int M, int N>
__device__ __forceinline__ void backward_by_key(float (&score)[M][N][4], float (&gradient)[M][N][4],
                                                const zr__attention &a, uint64_t first, const float *lse,
                                                const float *delta)
{
    const zr__lane at = zr__lane_here();
#pragma unroll
    for (int n = 0; n < N; n++) {
        const int query = 8 * n + 2 * at.t;
        const stat two[2] = {{lse[query] * ZR__LOG2_E, delta[query]}, {lse[query + 1] * ZR__LOG2_E, delta[query + 1]}};
#pragma unroll
        for (int m = 0; m < M; m++) {
            float factor[4] = {1.0f, 1.0f, 1.0f, 1.0f};
            if (DROPS) zr__factors_by_key(factor, a, first + (uint64_t)(8 * n) * (uint64_t)a.T + 16 * m);
#pragma unroll
            for (int i = 0; i < 4; i++)
                score_backward(score[m][n][i], gradient[m][n][i], factor[i], a.scale * ZR__LOG2_E, two[i % 2]);
        }
    }
}

/* Position of a block of threads in its loop over the query heads, and over the tiles of queries that see its keys. */
struct walk {
    zr__range queries; /* queries that see the keys */
    int end_head;      /* end of the query heads */
    int head, i0;      /* query head and first query of the tile */

    __device__ __forceinline__ bool goes_on() const
    {
        return head < end_head;
    }
    __device__ __forceinline__ void step(int tile_queries)
    {
        i0 += tile_queries;
        if (i0 >= queries.end) {
            i0 = queries.begin;
            head++;
        }
    }
};

/* Return the walk of the block with the keys [j0, j0 + keys) of a key-value head. */
__device__ __forceinline__ walk walk_of(const zr__attention &a, const zr__head &kv, int j0, int keys)
{
    const zr__range queries = zr__queries_of(a, kv.row, j0, keys);
    return {queries, zr__query_heads_end(a, kv.kv), kv.query, queries.begin};
}

/* Load q, dy, lse and delta of a walk's tile of queries, into `columns` and `stats`. Elements beyond the last query
 * become 0. */
template <typename tile, int W, typename T>
__device__ __forceinline__ void load_queries(zr__copies &copies, T *columns, float *stats, const zr__attention &a,
                                             const operands<T> &o, int64_t row, const walk &at)
{
    constexpr int queries = tile::queries;
    const zr__head head = {row, at.head, 0};
    zr__load_tile<queries, W>(copies, columns, zr__query(a, head, o.q), at.i0);
    zr__load_tile<queries, W>(copies, columns + tile::pair / 2, zr__result(a, head, o.dy), at.i0);
    const int own = (int)threadIdx.x, query = at.i0 + own;
    if (own < queries) {
        copies.add<4>(stats + own, zr__stats(a, head, o.lse) + query, query < a.T);
        copies.add<4>(stats + queries + own, zr__stats(a, head, (const float *)o.delta) + query, query < a.T);
    }
    copies.close();
}

/* Compute dk and dv of a tile of keys: sums over the queries of all query heads that use the keys. Each block computes
 * only tile::part elements of each dk and dv, from element blockIdx.y * tile::part on. */
template <typename T, int W, bool DROPS>
__global__ void __launch_bounds__(ZR__ATTENTION_THREADS, 2) make_dk_dv(zr__attention a, operands<T> o)
{
    using tile = dk_tiles<W, DROPS>;
    constexpr int M = tile::M, N = tile::N, keys = tile::keys, queries = tile::queries;
    ZR_SHARED(float, stats);
    T *k_tile = (T *)(stats + tile::turns * tile::stats), *v_tile = k_tile + keys * zr__tile_stride<W>;
    T *columns = v_tile + keys * zr__tile_stride<W>;
    /* Start with the blocks of the first keys, since the most queries see these keys, so that they take longest. */
    const int blocks = (a.T + keys - 1) / keys, j0 = (int)(blockIdx.x % (unsigned)blocks) * keys;
    const zr__head head = zr__kv_head(a, blockIdx.x / (unsigned)blocks);
    const int own = zr__warp_here() * 16 * M, d0 = (int)blockIdx.y * tile::part;
    T *k_rows = k_tile + own * zr__tile_stride<W>, *v_rows = v_tile + own * zr__tile_stride<W>;
    zr__left<T, M, W, tile::kept> k = {{}, k_rows}, v = {{}, v_rows};
    float dk[M][tile::part / 8][4], dv[M][tile::part / 8][4], score[M][N][4], gradient[M][N][4], factor[M][2];
    uint32_t weight[M][N / 2][4];
    zr__copies copies;
    walk at = walk_of(a, head, j0, keys);

    zr__clear(dk);
    zr__clear(dv);
    zr__load_tile<keys, W>(copies, k_tile, zr__key(a, head, o.k), j0);
    zr__load_tile<keys, W>(copies, v_tile, zr__key(a, head, o.v), j0);
    copies.close();
    if (tile::turns == 2 && at.goes_on()) load_queries<tile, W>(copies, columns, stats, a, o, head.row, at);
    copies.wait<0>();
    __syncthreads();
    k.take(), v.take();
    for (int turn = 0; at.goes_on(); turn = tile::turns - 1 - turn) {
        const T *q_tile = columns + turn * tile::pair, *dy_tile = q_tile + tile::pair / 2;
        const float *of = stats + turn * tile::stats;
        const int i0 = at.i0;
        const uint64_t first = zr__first_element(a, {head.row, at.head, 0}) + (uint64_t)i0 * (uint64_t)a.T;
        if (tile::turns == 1) {
            __syncthreads();
            load_queries<tile, W>(copies, columns, stats, a, o, head.row, at);
        }
        copies.wait<0>();
        __syncthreads();
        at.step(queries);
        if (tile::turns == 2 && at.goes_on())
            load_queries<tile, W>(copies, columns + (turn ^ 1) * tile::pair, stats + (turn ^ 1) * tile::stats, a, o,
                                  head.row, at);
        if (!zr__any_seen(a, head.row, i0, queries, j0 + own, 16 * M))
            continue; /* no query of the tile sees a key of the warp */
        zr__score(score, k, q_tile);
        zr__score(gradient, v, dy_tile);
        backward_by_key<DROPS>(score, gradient, a, first + (uint64_t)(j0 + own), of, of + queries);
        if (!zr__all_seen(a, head.row, i0, queries, j0 + own, 16 * M) || i0 + queries > a.T)
            hide_queries(score, gradient, a, head.row, i0, j0 + own);
        zr__round<T>(weight, score);
        zr__add_weighted<T, W>(dv, weight, dy_tile + d0);
        zr__round<T>(weight, gradient);
        zr__add_weighted<T, W>(dk, weight, q_tile + d0);
    }
    for (int m = 0; m < M; m++) factor[m][0] = factor[m][1] = a.scale;
    zr__store_rows<W>(zr__key(a, head, o.dk), j0 + own, d0, k_rows, dk, factor);
    for (int m = 0; m < M; m++) factor[m][0] = factor[m][1] = 1.0f;
    zr__store_rows<W>(zr__key(a, head, o.dv), j0 + own, d0, v_rows, dv, factor);
}

template <typename T, int W, bool DROPS>
zr_status launch_tiles(const zr_kernel_args *args, const zr__attention &a, const operands<T> &o)
{
    using of_q = dq_tiles<W>;
    using of_k = dk_tiles<W, DROPS>;
    const dim3 q_blocks((unsigned)zr__attention_blocks(&a, a.heads, of_q::queries));
    const dim3 k_blocks((unsigned)zr__attention_blocks(&a, a.kv_heads, of_k::keys), W / of_k::part);
    constexpr unsigned threads = ZR__ATTENTION_THREADS;
    ZR_TRY(zr__attention_launch(args, make_dk_dv<T, W, DROPS>, k_blocks, threads, of_k::shared, a, o));
    return zr__attention_launch(args, make_dq<T, W, DROPS>, q_blocks, threads, of_q::shared, a, o);
}

/* ---- in plain fp32 ------------------------------------------------------------------------------- */

/* Compute dq of a tile of queries in plain fp32. Each block computes only PART elements of each dq, from element
 * blockIdx.y * PART on. */
template <typename T, int PART>
__global__ void __launch_bounds__(ZR__PLAIN_THREADS) make_dq_plain(zr__attention a, operands<T> o)
{
    ZR_SHARED(float, shared);
    const int blocks = (a.T + ZR__PLAIN_TILE - 1) / ZR__PLAIN_TILE, d0 = (int)blockIdx.y * PART;
    const int i0 = (blocks - 1 - (int)(blockIdx.x % (unsigned)blocks)) * ZR__PLAIN_TILE;
    const zr__head head = zr__query_head(a, blockIdx.x / (unsigned)blocks);
    const zr__tokens<const T> q = zr__query(a, head, o.q), k = zr__key(a, head, o.k);
    const zr__tokens<const T> v = zr__key(a, head, o.v), dy = zr__result(a, head, o.dy);
    const zr__range seen = zr__keys_of(a, head.row, i0, ZR__PLAIN_TILE, ZR__PLAIN_TILE);
    zr__plain_scores score, gradient;
    zr__plain_sums<PART> sum;
    float scale[ZR__PLAIN_ROWS];
    zr__plain_clear<PART>(sum);
    for (int j0 = seen.begin; j0 < seen.end; j0 += ZR__PLAIN_TILE) {
        zr__plain_score(score, shared, q, i0, k, j0);
        zr__plain_score(gradient, shared, dy, i0, v, j0);
#pragma unroll
        for (int r = 0; r < ZR__PLAIN_ROWS; r++) {
            const int query = i0 + zr__plain_row(r), key = j0 + zr__plain_column(0);
            const zr__range document = zr__document_of(a, head.row, query);
            const stat of = stat_of(zr__stats(a, head, o.lse), zr__stats(a, head, o.delta), query, a.T);
            float factor[ZR__PLAIN_COLUMNS] = {1.0f, 1.0f, 1.0f, 1.0f};
            if (a.drops)
                zr__dropout_factors<ZR__PLAIN_COLUMNS>(
                    a.dropout, zr__first_element(a, head) + (uint64_t)query * (uint64_t)a.T + (uint64_t)key, factor);
#pragma unroll
            for (int c = 0; c < ZR__PLAIN_COLUMNS; c++) {
                score_backward(score[r][c], gradient[r][c], factor[c], a.scale * ZR__LOG2_E, of);
                if (!zr__sees(a, query, key + c, document) || key + c >= a.T) gradient[r][c] = 0.0f;
            }
        }
        zr__plain_weighted<PART>(sum, shared, gradient, k, j0, d0);
    }
    for (int r = 0; r < ZR__PLAIN_ROWS; r++) scale[r] = a.scale;
    zr__plain_store<PART>(zr__query(a, head, o.dq), i0, d0, sum, scale);
}

/* Compute the weights and the gradients of scores of one query and four consecutive keys. The query is column c of a
 * thread, and the keys are the thread's rows r to r + 3. */
__device__ __forceinline__ void plain_by_key(zr__plain_scores &score, zr__plain_scores &gradient, int r, int c, stat of,
                                             const zr__attention &a, uint64_t element, int query, int key,
                                             zr__range document)
{
    float factor[4] = {1.0f, 1.0f, 1.0f, 1.0f};
    if (a.drops) zr__dropout_factors<4>(a.dropout, element, factor);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        score_backward(score[r + i][c], gradient[r + i][c], factor[i], a.scale * ZR__LOG2_E, of);
        if (!zr__sees(a, query, key + i, document) || query >= a.T) score[r + i][c] = gradient[r + i][c] = 0.0f;
    }
}

/* Add the part of a tile of queries to dk and dv of a tile of keys. head names the query head and its key-value head.
 */
template <typename T, int PART>
__device__ __forceinline__ void plain_add_queries(zr__plain_sums<PART> &dk, zr__plain_sums<PART> &dv, float *shared,
                                                  const zr__attention &a, const operands<T> &o, const zr__head &head,
                                                  int i0, int j0, int d0)
{
    const zr__tokens<const T> q = zr__query(a, head, o.q), k = zr__key(a, head, o.k);
    const zr__tokens<const T> v = zr__key(a, head, o.v), dy = zr__result(a, head, o.dy);
    zr__plain_scores score, gradient;
    zr__plain_score(score, shared, k, j0, q, i0);
    zr__plain_score(gradient, shared, v, j0, dy, i0);
#pragma unroll
    for (int c = 0; c < ZR__PLAIN_COLUMNS; c++) {
        const int query = i0 + zr__plain_column(c);
        const zr__range document = zr__document_of(a, head.row, query);
        const stat of = stat_of(zr__stats(a, head, o.lse), zr__stats(a, head, o.delta), query, a.T);
        const uint64_t element = zr__first_element(a, head) + (uint64_t)query * (uint64_t)a.T;
#pragma unroll
        for (int r = 0; r < ZR__PLAIN_ROWS; r += 4) {
            const int key = j0 + zr__plain_row(r);
            plain_by_key(score, gradient, r, c, of, a, element + (uint64_t)key, query, key, document);
        }
    }
    zr__plain_weighted<PART>(dv, shared, score, dy, i0, d0);
    zr__plain_weighted<PART>(dk, shared, gradient, q, i0, d0);
}

/* Compute dk and dv like make_dk_dv, in plain fp32. */
template <typename T, int PART>
__global__ void __launch_bounds__(ZR__PLAIN_THREADS) make_dk_dv_plain(zr__attention a, operands<T> o)
{
    ZR_SHARED(float, shared);
    const int blocks = (a.T + ZR__PLAIN_TILE - 1) / ZR__PLAIN_TILE, d0 = (int)blockIdx.y * PART;
    const int j0 = (int)(blockIdx.x % (unsigned)blocks) * ZR__PLAIN_TILE;
    const zr__head head = zr__kv_head(a, blockIdx.x / (unsigned)blocks);
    zr__plain_sums<PART> dk, dv;
    float factor[ZR__PLAIN_ROWS];
    zr__plain_clear<PART>(dk);
    zr__plain_clear<PART>(dv);
    for (walk at = walk_of(a, head, j0, ZR__PLAIN_TILE); at.goes_on(); at.step(ZR__PLAIN_TILE))
        plain_add_queries<T, PART>(dk, dv, shared, a, o, {head.row, at.head, head.kv}, at.i0, j0, d0);
    for (int r = 0; r < ZR__PLAIN_ROWS; r++) factor[r] = a.scale;
    zr__plain_store<PART>(zr__key(a, head, o.dk), j0, d0, dk, factor);
    for (int r = 0; r < ZR__PLAIN_ROWS; r++) factor[r] = 1.0f;
    zr__plain_store<PART>(zr__key(a, head, o.dv), j0, d0, dv, factor);
}

template <typename T> zr_status launch_plain(const zr_kernel_args *args, const zr__attention &a, const operands<T> &o)
{
    constexpr int part = 64, shared = zr__plain_shared(part);
    const unsigned parts = (unsigned)zr__ceil_div(a.D, part);
    const dim3 q_blocks((unsigned)zr__attention_blocks(&a, a.heads, ZR__PLAIN_TILE), parts);
    const dim3 k_blocks((unsigned)zr__attention_blocks(&a, a.kv_heads, ZR__PLAIN_TILE), parts);
    ZR_TRY(zr__attention_launch(args, make_dk_dv_plain<T, part>, k_blocks, ZR__PLAIN_THREADS, shared, a, o));
    return zr__attention_launch(args, make_dq_plain<T, part>, q_blocks, ZR__PLAIN_THREADS, shared, a, o);
}

/* ---- the op -------------------------------------------------------------------------------------- */

template <typename T> zr_status launch_delta(const zr_kernel_args *args, const zr__attention &a, const operands<T> &o)
{
    const int64_t blocks = zr__ceil_div(a.B * a.T * a.heads * DELTA_LANES, DELTA_THREADS);
    ZR_LAUNCH(zr__stream_of(args), make_delta<T>, (unsigned)blocks, DELTA_THREADS, 0, a, o,
              a.wide && a.D % DELTA_PACK == 0);
    return zr__launched();
}

/* Choose the kernels, by the same rules as in the forward pass. */
template <typename T> zr_status run_with(const zr_kernel_args *args, const zr__attention &a, const operands<T> &o)
{
    ZR_TRY(launch_delta(args, a, o));
    if constexpr (!std::is_same_v<T, float>)
        if (zr__suits_tiles(&a))
            return zr__with_tiles(&a, [&](auto W, auto drops) { return launch_tiles<T, W, drops>(args, a, o); });
    return launch_plain(args, a, o);
}

zr_status run_attention_dx(const zr_kernel_args *args)
{
    const zr_tensor *q = &args->in[1];
    const zr__attention_dx_operands others = zr__attention_dx_operands_of(args->in, args->n_in, args->n_out);
    const zr__attention_sizes sizes = zr__attention_sizes_at(args, q, args->n_out == 1);
    const zr__attention_operands in = zr__attention_operands_of(&sizes, q);
    const zr__attention_operands out = zr__attention_operands_of(&sizes, &args->out[0]);
    zr__attention a = zr__attention_make(args, sizes, q, others.documents);
    ZR_TRY(zr__attention_find_ends(args, &a, (float *)args->scratch + a.B * a.T * a.heads));
    return zr__typed(q->dtype, [&]<typename T>(T *) {
        const operands<T> o = {(const T *)others.dy->data,       zr__columns_begin<const T>(in.q),
                               zr__columns_begin<const T>(in.k), zr__columns_begin<const T>(in.v),
                               (const T *)others.y->data,        zr__columns_begin<T>(out.q),
                               zr__columns_begin<T>(out.k),      zr__columns_begin<T>(out.v),
                               (const float *)others.lse->data,  (float *)args->scratch};
        return run_with<T>(args, a, o);
    });
}

} // namespace

ZR_CUDA_KERNELS(attention_dx) = {
    zr__kernel("attention_dx", run_attention_dx),
    {},
};
