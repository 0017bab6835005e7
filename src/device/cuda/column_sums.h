/* Sums over the rows of a matrix, for gradients of biases. */
#ifndef ZR_DEVICE_CUDA_COLUMN_SUMS_H
#define ZR_DEVICE_CUDA_COLUMN_SUMS_H

#include "device/cuda/launch.h"
#include "device/cuda/scratch.h"

/* Numbers of threads of a block: ACROSS side by side along a row, DOWN along a column. */
constexpr int ZR__SUM_ACROSS = 32, ZR__SUM_DOWN = 8;

/* A matrix whose rows begin `ld` elements apart. */
struct zr__summed {
    const void *data;
    zr_dtype dtype;
    int64_t rows, cols, ld;
};

namespace
{

/* Compute part[run] = the sums of columns over the run's rows. A thread adds every ZR__SUM_DOWN-th row of the run, in V
 * columns. The sums of a column's threads are then added in the order of the threads. The sums do not depend on V. */
template <int V, typename T>
__global__ void __launch_bounds__(ZR__SUM_ACROSS *ZR__SUM_DOWN)
    zr__sum_runs(float *part, const T *x, int64_t rows, int64_t cols, int64_t ld, int64_t run)
{
    constexpr int across = ZR__SUM_ACROSS, down = ZR__SUM_DOWN;
    ZR_SHARED_ARRAY(float, all, [down][across * V]);
    const int64_t first = (int64_t)blockIdx.x * across * V, col = first + (int64_t)threadIdx.x * V;
    const int64_t begin = (int64_t)blockIdx.y * run, end = begin + run < rows ? begin + run : rows;
    float sum[V], value[V];
    for (int v = 0; v < V; v++) sum[v] = 0;
#pragma unroll 4
    for (int64_t row = begin + threadIdx.y; row < end && col < cols; row += down) {
        zr__get_all<V>(value, x, row * ld + col);
        for (int v = 0; v < V; v++) sum[v] += value[v];
    }
    for (int v = 0; v < V; v++) all[threadIdx.y][threadIdx.x * V + v] = sum[v];
    __syncthreads();
    for (int c = (int)(threadIdx.y * across + threadIdx.x); c < across * V && first + c < cols; c += across * down) {
        float total = all[0][c];
        for (int i = 1; i < down; i++) total += all[i][c];
        part[blockIdx.y * cols + first + c] = total;
    }
}

/* Compute out = earlier + the sums of all runs. Each of eight groups of threads adds some of the runs, in the order of
 * the runs. The groups' sums are then added in the order of the groups. */
__global__ void __launch_bounds__(ZR__SUM_ACROSS *ZR__SUM_DOWN)
    zr__sum_join(zr__array out, const float *earlier, const float *part, int64_t runs, int64_t cols)
{
    constexpr int across = ZR__SUM_ACROSS, down = ZR__SUM_DOWN;
    ZR_SHARED_ARRAY(float, all, [down][across]);
    const int64_t col = (int64_t)blockIdx.x * across + threadIdx.x, each = (runs + down - 1) / down;
    const int64_t begin = threadIdx.y * each, end = begin + each < runs ? begin + each : runs;
    float sum = 0;
#pragma unroll 16
    for (int64_t r = begin; r < end && col < cols; r++) sum += part[r * cols + col];
    all[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y != 0 || col >= cols) return;
    for (int i = 1; i < down; i++) sum += all[i][threadIdx.x];
    if (earlier) sum += earlier[col];
    zr__put(out, col, sum);
}

} // namespace

/* Compute out = earlier + the sums of the columns of x. `earlier` may be NULL, or the data of an F32 `out`. `part` has
 * room for the columns of each run of rows (zr__cuda_row_run). */
static inline zr_status zr__column_sums(cudaStream_t stream, const zr__summed &x, const float *earlier, zr__array out,
                                        float *part)
{
    const int64_t run = zr__cuda_row_run(x.rows), runs = zr__ceil_div(x.rows, run);
    const bool packed = x.cols % ZR__PACK == 0 && x.ld % ZR__PACK == 0 && zr__is_aligned(x.data);
    const int64_t tile = ZR__SUM_ACROSS * (packed ? ZR__PACK : 1);
    const dim3 blocks((unsigned)zr__ceil_div(x.cols, tile), (unsigned)runs), threads(ZR__SUM_ACROSS, ZR__SUM_DOWN);
    ZR_TRY(zr__typed(x.dtype, [&]<typename T>(T *) -> zr_status {
        const auto kernel = packed ? zr__sum_runs<ZR__PACK, T> : zr__sum_runs<1, T>;
        ZR_LAUNCH(stream, kernel, blocks, threads, 0, part, (const T *)x.data, x.rows, x.cols, x.ld, run);
        return zr__launched();
    }));
    ZR_LAUNCH(stream, zr__sum_join, dim3((unsigned)zr__ceil_div(x.cols, ZR__SUM_ACROSS)), threads, 0, out, earlier,
              part, runs, x.cols);
    return zr__launched();
}

#endif
