/*
 * Attention in plain fp32: for operands in fp32, whose products must not be rounded to TF32, and for heads of any
 * width. The kernels test at run time whether dropout is used. All threads take the same branch, which costs little
 * compared to the products.
 *
 * For y and dq, rows are queries and columns are keys; for dk and dv, rows are keys and columns are queries. A block of
 * threads computes a tile of 64 rows x 64 columns of scores, and each thread 8 x 4 scores of the tile. A score is a sum
 * over the head's width, and the block adds ZR__PLAIN_STRETCH elements of the width at a time. The block then stores
 * the weights in shared memory, and multiplies them by PART elements of each column's token. A wide head is divided
 * into several such parts. Each part has its own block, which recomputes the scores.
 */
#ifndef ZR_DEVICE_CUDA_ATTENTION_PLAIN_H
#define ZR_DEVICE_CUDA_ATTENTION_PLAIN_H

#include "device/cuda/attention.h"

constexpr int ZR__PLAIN_TILE = 64, ZR__PLAIN_STRETCH = 32, ZR__PLAIN_THREADS = 128;
constexpr int ZR__PLAIN_ROWS = 8, ZR__PLAIN_COLUMNS = 4; /* numbers of rows and of columns of a thread's scores */
/* Row strides in shared memory, in floats. Row i begins at bank 4 * i mod 32, so that 16-byte accesses to eight
 * consecutive rows use different banks. */
constexpr int ZR__PLAIN_STRIDE = ZR__PLAIN_TILE + 4, ZR__STRETCH_STRIDE = ZR__PLAIN_STRETCH + 4;
/* Number of floats in shared memory for computing a tile's scores. The memory holds ZR__PLAIN_STRETCH elements of each
 * of the tile's 64 row tokens and 64 column tokens. When the scores are complete, the tile's weights overwrite this
 * memory. The operand that the weights multiply has separate memory (see zr__plain_shared). */
constexpr int ZR__PLAIN_SCORES = 2 * ZR__PLAIN_TILE * ZR__STRETCH_STRIDE;
static_assert(ZR__PLAIN_SCORES >= ZR__PLAIN_TILE * ZR__PLAIN_STRIDE, "the weights fit where the stretches were");

constexpr int zr__plain_shared(int part)
{
    return (ZR__PLAIN_SCORES + ZR__PLAIN_TILE * (part + 4)) * (int)sizeof(float);
}

struct alignas(16) zr__four {
    float x[4];
};

/* The scores of a thread. With tx = threadIdx.x % 16 and ty = threadIdx.x / 16, element [r][c] is the score of row 4 ty
 * + r % 4 + r / 4 * 32 and column 4 tx + c of the tile. */
using zr__plain_scores = float[ZR__PLAIN_ROWS][ZR__PLAIN_COLUMNS];

__device__ __forceinline__ int zr__plain_row(int r)
{
    return (int)threadIdx.x / 16 * 4 + r % 4 + r / 4 * 32;
}

__device__ __forceinline__ int zr__plain_column(int c)
{
    return (int)threadIdx.x % 16 * 4 + c;
}

/* Reduce x over the 16 lanes that share a row. */
template <typename Op> __device__ __forceinline__ float zr__row_all(float x, Op op)
{
    for (int mask = 8; mask > 0; mask /= 2) x = op(x, __shfl_xor_sync(ZR__ALL_LANES, x, mask));
    return x;
}

/* Load the elements [d0, d0 + WIDTH) of the tokens [first, first + 64) of x to tile (64, WIDTH), whose row stride is
 * `stride`. Elements beyond the end of x become 0. If PERMUTED, token first + 4 a + b goes to row a + 16 b, so that a
 * thread's columns are 16 rows apart. */
template <int WIDTH, bool PERMUTED, typename T>
__device__ __forceinline__ void zr__plain_load(float *tile, int stride, const zr__tokens<const T> &x, int first, int d0)
{
    for (int i = (int)threadIdx.x; i < ZR__PLAIN_TILE * WIDTH; i += ZR__PLAIN_THREADS) {
        const int row = i / WIDTH, d = i % WIDTH, token = first + (PERMUTED ? row % 16 * 4 + row / 16 : row);
        const bool there = token < x.n && d0 + d < x.width;
        tile[row * stride + d] = there ? zr__get(x.data, token * x.stride + d0 + d) : 0.0f;
    }
}

/* Compute score = rows times columns^T. `shared` has room for ZR__PLAIN_SCORES floats. The block of threads
 * synchronizes before it writes to `shared`. */
template <typename T>
__device__ __forceinline__ void zr__plain_score(zr__plain_scores &score, float *shared, const zr__tokens<const T> &rows,
                                                int first_row, const zr__tokens<const T> &columns, int first_column)
{
    float *left = shared, *right = shared + ZR__PLAIN_TILE * ZR__STRETCH_STRIDE;
    const int tx = (int)threadIdx.x % 16;
    for (int r = 0; r < ZR__PLAIN_ROWS; r++)
        for (int c = 0; c < ZR__PLAIN_COLUMNS; c++) score[r][c] = 0.0f;
    for (int d0 = 0; d0 < rows.width; d0 += ZR__PLAIN_STRETCH) {
        __syncthreads();
        zr__plain_load<ZR__PLAIN_STRETCH, false>(left, ZR__STRETCH_STRIDE, rows, first_row, d0);
        zr__plain_load<ZR__PLAIN_STRETCH, true>(right, ZR__STRETCH_STRIDE, columns, first_column, d0);
        __syncthreads();
        for (int d = 0; d < ZR__PLAIN_STRETCH; d += 4) {
            zr__four b[ZR__PLAIN_COLUMNS];
#pragma unroll
            for (int c = 0; c < ZR__PLAIN_COLUMNS; c++)
                b[c] = *(const zr__four *)(right + (tx + 16 * c) * ZR__STRETCH_STRIDE + d);
#pragma unroll
            for (int r = 0; r < ZR__PLAIN_ROWS; r++) {
                const zr__four a = *(const zr__four *)(left + zr__plain_row(r) * ZR__STRETCH_STRIDE + d);
#pragma unroll
                for (int c = 0; c < ZR__PLAIN_COLUMNS; c++)
#pragma unroll
                    for (int i = 0; i < 4; i++) score[r][c] = fmaf(a.x[i], b[c].x[i], score[r][c]);
            }
        }
    }
}

/* Store a thread's scores, which are weights now, in the tile (64, 64) in shared memory. */
__device__ __forceinline__ void zr__plain_put(float *weights, const zr__plain_scores &score)
{
#pragma unroll
    for (int r = 0; r < ZR__PLAIN_ROWS; r++) {
        zr__four four;
        for (int c = 0; c < ZR__PLAIN_COLUMNS; c++) four.x[c] = score[r][c];
        *(zr__four *)(weights + zr__plain_row(r) * ZR__PLAIN_STRIDE + zr__plain_column(0)) = four;
    }
}

/* The sums of a thread: x[c] of element [r][p] is element 4 tx + 64 p + c of the block's part of the width, in row
 * zr__plain_row(r) of the tile. tx is threadIdx.x % 16. */
template <int PART> using zr__plain_sums = zr__four[ZR__PLAIN_ROWS][PART / 64];

/* Add to `sum` the product of weights (64, 64) and elements (64, PART) of the columns' tokens. Weights and elements are
 * in shared memory. */
template <int PART>
__device__ __forceinline__ void zr__plain_add(zr__plain_sums<PART> &sum, const float *weights, const float *elements)
{
    constexpr int P = PART / 64;
    for (int k = 0; k < ZR__PLAIN_TILE; k += 4) {
        zr__four a[ZR__PLAIN_ROWS];
#pragma unroll
        for (int r = 0; r < ZR__PLAIN_ROWS; r++)
            a[r] = *(const zr__four *)(weights + zr__plain_row(r) * ZR__PLAIN_STRIDE + k);
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int p = 0; p < P; p++) {
                const zr__four b = *(const zr__four *)(elements + (k + i) * (PART + 4) + zr__plain_column(64 * p));
#pragma unroll
                for (int r = 0; r < ZR__PLAIN_ROWS; r++)
#pragma unroll
                    for (int c = 0; c < 4; c++) sum[r][p].x[c] = fmaf(a[r].x[i], b.x[c], sum[r][p].x[c]);
            }
    }
}

/* Put two factors into shared memory: the weights, and the elements [d0, d0 + PART) of the tokens [first, first + 64)
 * of `columns`. Add their product to `sum`. The block synchronizes before it writes. The weights overwrite the memory
 * that zr__plain_score used. */
template <int PART, typename T>
__device__ __forceinline__ void zr__plain_weighted(zr__plain_sums<PART> &sum, float *shared,
                                                   const zr__plain_scores &weight, const zr__tokens<const T> &columns,
                                                   int first, int d0)
{
    float *elements = shared + ZR__PLAIN_SCORES;
    __syncthreads();
    zr__plain_put(shared, weight);
    zr__plain_load<PART, false>(elements, PART + 4, columns, first, d0);
    __syncthreads();
    zr__plain_add<PART>(sum, shared, elements);
}

template <int PART> __device__ __forceinline__ void zr__plain_clear(zr__plain_sums<PART> &sum)
{
#pragma unroll
    for (int r = 0; r < ZR__PLAIN_ROWS; r++)
#pragma unroll
        for (int p = 0; p < PART / 64; p++)
#pragma unroll
            for (int c = 0; c < 4; c++) sum[r][p].x[c] = 0.0f;
}

/* Store each row's sums, times the row's factor, to the elements [d0, d0 + PART) of the tokens [first, first + 64) of
 * x. */
template <int PART, typename T>
__device__ __forceinline__ void zr__plain_store(const zr__tokens<T> &x, int first, int d0,
                                                const zr__plain_sums<PART> &sum, const float (&factor)[ZR__PLAIN_ROWS])
{
#pragma unroll
    for (int r = 0; r < ZR__PLAIN_ROWS; r++) {
        const int token = first + zr__plain_row(r);
        if (token >= x.n) continue;
#pragma unroll
        for (int p = 0; p < PART / 64; p++)
#pragma unroll
            for (int c = 0; c < 4; c++) {
                const int d = d0 + zr__plain_column(64 * p + c);
                if (d < x.width) zr__put(x.data, token * x.stride + d, sum[r][p].x[c] * factor[r]);
            }
    }
}

#endif
