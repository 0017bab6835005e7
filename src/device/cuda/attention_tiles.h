/*
 * Attention on tensor cores: tiles of tokens in shared memory, and the products of a warp with them.
 *
 * A block of four warps holds some tokens of a head, called rows; each warp has 16 * M rows. For y and dq the rows
 * are queries and the columns keys; for dk and dv the rows are keys and the columns queries. Columns are loaded one
 * tile at a time. A warp needs no data of another warp: its scores become weights in its registers, and the weights
 * multiply the tile of columns.
 *
 * T is zr__bf16 or zr__f16. W is the width of a head, rounded up to a width for which kernels exist.
 */
#ifndef ZR_DEVICE_CUDA_ATTENTION_TILES_H
#define ZR_DEVICE_CUDA_ATTENTION_TILES_H

#include "device/cuda/attention.h"
#include "device/cuda/mma.h"

constexpr int ZR__ATTENTION_THREADS = 128, ZR__ATTENTION_WARPS = ZR__ATTENTION_THREADS / ZR__WARP;

/* Return whether the kernels on tensor cores support this attention. Its heads must not be too wide. Its scale must be
 * positive, since these kernels compute maxima of scores before they scale them. */
static inline bool zr__suits_tiles(const zr__attention *a)
{
    return a->D <= (a->drops ? 128 : 256) && a->scale > 0.0f;
}

/* Call f(W, DROPS) with two compile-time constants. W is the smallest width of the kernels that is at least the heads'
 * width. DROPS says whether weights are dropped. There are fewer widths with dropout than without, because the kernels
 * take long to compile. */
template <typename F> zr_status zr__with_tiles(const zr__attention *a, F f)
{
    const auto with = [&]<int W>(std::integral_constant<int, W> width) {
        if constexpr (W == 64 || W == 128)
            if (a->drops) return f(width, std::true_type());
        return f(width, std::false_type());
    };
    if (a->D <= 64) return with(std::integral_constant<int, 64>());
    if (a->D <= 96 && !a->drops) return with(std::integral_constant<int, 96>());
    if (a->D <= 128) return with(std::integral_constant<int, 128>());
    return with(std::integral_constant<int, 256>());
}

/* Distance between consecutive tokens of a tile, in elements. The distance is an odd multiple of 16 bytes, so that
 * 16-byte reads of eight consecutive tokens use different banks. */
template <int W> constexpr int zr__tile_stride = W + 8;

struct zr__lane {
    int g, t; /* the lane's g and t, as mma.h defines them */
};

__device__ __forceinline__ zr__lane zr__lane_here()
{
    const int lane = (int)threadIdx.x % ZR__WARP;
    return {lane / 4, lane % 4};
}

/* Return the index of the thread's warp in its block. The shuffle tells the compiler that all lanes have the same
 * result. */
__device__ __forceinline__ int zr__warp_here()
{
    return __shfl_sync(ZR__ALL_LANES, (int)threadIdx.x / ZR__WARP, 0);
}

/* ---- tiles in shared memory ---------------------------------------------------------------------- */

/* Load the tokens [first, first + N) of x to tile (N, W). Elements beyond the tokens and beyond their width become 0.
 * The tile is complete after a wait for the copies and a barrier of the block. */
template <int N, int W, typename T>
__device__ __forceinline__ void zr__load_tile(zr__copies &copies, T *tile, const zr__tokens<const T> &x, int first)
{
    /* rows: number of rows that all threads load at once */
    constexpr int chunk = 8, side = W / chunk & -(W / chunk), rows = ZR__ATTENTION_THREADS / side;
    static_assert(N % rows == 0 && W % (chunk * side) == 0, "threads have equally many chunks");
    if (!x.wide) {
        for (int i = (int)threadIdx.x; i < N * W; i += ZR__ATTENTION_THREADS) {
            const int token = first + i / W, d = i % W;
            const bool there = token < x.n && d < x.width;
            tile[i / W * zr__tile_stride<W> + d].bits = there ? x.data[token * x.stride + d].bits : (uint16_t)0;
        }
        return;
    }
    const int row = (int)threadIdx.x / side, d = (int)threadIdx.x % side * chunk;
    const T *from = x.data + (first + row) * x.stride + d;
    T *to = tile + row * zr__tile_stride<W> + d;
#pragma unroll
    for (int r = 0; r < N; r += rows, from += rows * x.stride, to += rows * zr__tile_stride<W>)
#pragma unroll
        for (int e = 0; e < W; e += chunk * side)
            copies.add<16>(to + e, from + e, first + row + r < x.n && d + e < x.width);
}

/* Store a warp's sums, times a factor for each row, to the tokens [first, first + 16 * M) of x, elements from `column`
 * on. `rows` is a buffer: 16 * M rows of a tile that no other warp uses. */
template <int W, int M, int N, typename T>
__device__ __forceinline__ void zr__store_rows(const zr__tokens<T> &x, int first, int column, T *rows,
                                               const float (&sum)[M][N][4], const float (&factor)[M][2])
{
    constexpr int stride = zr__tile_stride<W>, chunk = 8, width = 8 * N;
    const zr__lane at = zr__lane_here();
    const int lane = (int)threadIdx.x % ZR__WARP;
    __syncwarp(); /* all lanes must have read the rows before they are overwritten */
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                *(uint32_t *)(rows + (16 * m + 8 * h + at.g) * stride + 8 * n + 2 * at.t) =
                    zr__neighbours<T>(sum[m][n][2 * h] * factor[m][h], sum[m][n][2 * h + 1] * factor[m][h]);
    __syncwarp(); /* all rows must be complete before other lanes read them */
    const int step = x.wide ? chunk : 1;
    for (int i = lane * step; i < 16 * M * width; i += ZR__WARP * step) {
        const int row = i / width, d = i % width, token = first + row;
        if (token >= x.n || column + d >= x.width) continue;
        T *to = x.data + token * x.stride + column + d;
        if (x.wide)
            *(zr__chunk *)to = *(const zr__chunk *)(rows + row * stride + d);
        else
            *to = rows[row * stride + d];
    }
}

/* ---- products ------------------------------------------------------------------------------------ */

/* The 16 * M rows of a warp as the left operand of products. If KEPT, registers hold the rows; otherwise each product
 * reads them from the tile again. */
template <typename T, int M, int W, bool KEPT> struct zr__left {
    uint32_t kept[KEPT ? M : 1][KEPT ? W / 16 : 1][4];
    const T *rows;

    __device__ __forceinline__ void read(uint32_t (&a)[4], int m, int k) const
    {
        const int lane = (int)threadIdx.x % ZR__WARP;
        zr__matrices<false>(a, rows + (16 * m + lane % 16) * zr__tile_stride<W> + 16 * k + lane / 16 * 8);
    }
    /* Read the operand into registers if KEPT. The tile must be complete. */
    __device__ __forceinline__ void take()
    {
        if constexpr (KEPT) {
#pragma unroll
            for (int m = 0; m < M; m++)
#pragma unroll
                for (int k = 0; k < W / 16; k++) read(kept[m][k], m, k);
        }
    }
    __device__ __forceinline__ void get(uint32_t (&a)[4], int m, int k) const
    {
        if constexpr (KEPT) {
#pragma unroll
            for (int i = 0; i < 4; i++) a[i] = kept[m][k][i];
        } else
            read(a, m, k);
    }
};

template <int M, int N> __device__ __forceinline__ void zr__clear(float (&x)[M][N][4])
{
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) x[m][n][i] = 0.0f;
}

/* Compute score (16 * M rows, 8 * N columns) = rows times columns^T. The columns are the first 8 * N tokens of a tile.
 */
template <typename T, int M, int N, int W, bool KEPT>
__device__ __forceinline__ void zr__score(float (&score)[M][N][4], const zr__left<T, M, W, KEPT> &left,
                                          const T *columns)
{
    const int lane = (int)threadIdx.x % ZR__WARP;
    const T *begin = columns + (lane % 8 + lane / 16 * 8) * zr__tile_stride<W> + lane / 8 % 2 * 8;
    zr__clear(score);
#pragma unroll
    for (int k = 0; k < W / 16; k++) {
        uint32_t a[M][4];
#pragma unroll
        for (int m = 0; m < M; m++) left.get(a[m], m, k);
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            uint32_t b[4];
            zr__matrices<false>(b, begin + 8 * n * zr__tile_stride<W> + 16 * k);
#pragma unroll
            for (int m = 0; m < M; m++) {
                zr__mma<T>(score[m][n], a[m], b[0], b[1]);
                zr__mma<T>(score[m][n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

/* Mask scores: set a score to `value` if its query may not attend to its key, or if the key is beyond the last one. i0
 * is the index of the warp's first query in the row, j0 the index of the tile's first key. */
template <int M, int N>
__device__ __forceinline__ void zr__hide_keys(float (&score)[M][N][4], const zr__attention &a, int row, int i0, int j0,
                                              float value)
{
    const zr__lane at = zr__lane_here();
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int query = i0 + 16 * m + at.g + 8 * h;
            const zr__range document = zr__document_of(a, row, query);
#pragma unroll
            for (int n = 0; n < N; n++)
#pragma unroll
                for (int i = 2 * h; i < 2 * h + 2; i++) {
                    const int key = j0 + 8 * n + 2 * at.t + i % 2;
                    if (!zr__sees(a, query, key, document) || key >= a.T) score[m][n][i] = value;
                }
        }
}

/* Round scores to T, and pack them in words, in the layout of a product's left operand. */
template <typename T, int M, int N>
__device__ __forceinline__ void zr__round(uint32_t (&word)[M][N / 2][4], const float (&score)[M][N][4])
{
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int k = 0; k < N / 2; k++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                word[m][k][i] =
                    zr__neighbours<T>(score[m][2 * k + i / 2][i % 2 * 2], score[m][2 * k + i / 2][i % 2 * 2 + 1]);
}

/* Add to sum (16 * M rows, 8 * N elements) the product of weight (16 * M rows, 16 * K columns) and the first 16 * K
 * tokens of a tile. The product uses 8 * N elements of each token, from `begin` on. */
template <typename T, int W, int M, int N, int K>
__device__ __forceinline__ void zr__add_weighted(float (&sum)[M][N][4], const uint32_t (&weight)[M][K][4],
                                                 const T *begin)
{
    const int lane = (int)threadIdx.x % ZR__WARP;
    begin += lane % 16 * zr__tile_stride<W> + lane / 16 * 8;
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            uint32_t b[4];
            zr__matrices<true>(b, begin + 16 * k * zr__tile_stride<W> + 8 * n);
#pragma unroll
            for (int m = 0; m < M; m++) {
                zr__mma<T>(sum[m][n], weight[m][k], b[0], b[1]);
                zr__mma<T>(sum[m][n + 1], weight[m][k], b[2], b[3]);
            }
        }
}

/* ---- dropout ------------------------------------------------------------------------------------- */

/* Set factor[i] to x. The loop makes all indices constant, since registers cannot be indexed. */
__device__ __forceinline__ void zr__put_factor(float (&factor)[4], int i, float x)
{
#pragma unroll
    for (int j = 0; j < 4; j++) factor[j] = i == j ? x : factor[j];
}

/* Compute the dropout factors of a lane's four scores in a tile of 16 rows x 8 columns one by one. The rows are queries
 * and the columns keys, or the reverse. */
template <bool QUERIES_ARE_ROWS>
__device__ __forceinline__ void zr__factors_singly(float (&factor)[4], const zr__attention &a, uint64_t first)
{
    const zr__lane at = zr__lane_here();
#pragma unroll 1 /* lengths that are no multiple of 4 are rare, so unrolled code would not pay */
    for (int i = 0; i < 4; i++) {
        float one[1];
        const int row = at.g + i / 2 * 8, column = 2 * at.t + i % 2;
        const int query = QUERIES_ARE_ROWS ? row : column, key = QUERIES_ARE_ROWS ? column : row;
        zr__dropout_factors<1>(a.dropout, first + (uint64_t)query * (uint64_t)a.T + key, one);
        zr__put_factor(factor, i, one[0]);
    }
}

/* Compute the dropout factors of a lane's four scores in a tile of 16 queries x 8 keys. `first` is the index of the
 * random number of the tile's first score. A block of random numbers covers four keys of a query, which two lanes
 * share. Each of the two lanes computes the block of a different query, and the lanes exchange numbers. */
__device__ __forceinline__ void zr__factors_by_query(float (&factor)[4], const zr__attention &a, uint64_t first)
{
    const zr__lane at = zr__lane_here();
    if (!a.fours) return zr__factors_singly<true>(factor, a, first);
    const bool odd = at.t % 2;
    uint32_t own[4];
    zr__rng_block(&a.dropout.rng, (first + (uint64_t)(at.g + (odd ? 8 : 0)) * (uint64_t)a.T + at.t / 2 * 4) / 4, own);
    const uint32_t other0 = __shfl_xor_sync(ZR__ALL_LANES, odd ? own[0] : own[2], 1);
    const uint32_t other1 = __shfl_xor_sync(ZR__ALL_LANES, odd ? own[1] : own[3], 1);
    factor[0] = zr__factor(a.dropout, odd ? other0 : own[0]);
    factor[1] = zr__factor(a.dropout, odd ? other1 : own[1]);
    factor[2] = zr__factor(a.dropout, odd ? own[2] : other0);
    factor[3] = zr__factor(a.dropout, odd ? own[3] : other1);
}

/* Compute the dropout factors of a lane's four scores in a tile of 16 keys x 8 queries. Four lanes in consecutive rows
 * share the four keys of a block of random numbers. Each of the four lanes computes the block of one of the four
 * scores, and the lanes exchange numbers. */
__device__ __forceinline__ void zr__factors_by_key(float (&factor)[4], const zr__attention &a, uint64_t first)
{
    const zr__lane at = zr__lane_here();
    if (!a.fours) return zr__factors_singly<false>(factor, a, first);
    const int own = at.g % 4, key = at.g / 4 * 4 + own / 2 * 8, query = 2 * at.t + own % 2;
    uint32_t word[4];
    zr__rng_block(&a.dropout.rng, (first + (uint64_t)query * (uint64_t)a.T + key) / 4, word);
#pragma unroll
    for (int bit = 1; bit <= 2; bit *= 2) {
        const bool high = own & bit;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (i & bit) continue;
            const uint32_t got = __shfl_xor_sync(ZR__ALL_LANES, high ? word[i] : word[i | bit], 4 * bit);
            word[i] = high ? got : word[i];
            word[i | bit] = high ? word[i | bit] : got;
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++) factor[i] = zr__factor(a.dropout, word[i]);
}

#endif
