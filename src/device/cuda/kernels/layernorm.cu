/* layernorm and rmsnorm with their gradients (_dx and _dw). An rmsnorm is a layernorm with mean 0 and without bias. Its
 * rows may be groups of columns, each with the width of the gain. */
#include "device/cuda/rows.h"
#include "device/cuda/scratch.h"

namespace
{

/* Return x rounded to T. */
template <typename T> __device__ __forceinline__ float rounded_to(float x)
{
    T rounded[1];
    zr__put(rounded, 0, x);
    return zr__get(rounded, 0);
}

/* ---- forward ----------------------------------------------------------------------------------- */

template <typename T> struct norm {
    T *y;
    const T *x, *gain, *bias;
    float *mean, *rstd;
    int64_t rows, C;
    float eps;
    bool rounds; /* whether x * rstd is rounded before the product with the gain */
};

/* Compute the mean and 1 / the standard deviation of a row. The variance needs a second pass over the row: if the mean
 * is far from 0, E[x^2] - E[x]^2 would lose precision. */
template <typename T, bool PACKED, bool CENTRED>
__device__ __forceinline__ void row_moments(const norm<T> &n, const zr__row_place &at, const zr__row_kept<T, PACKED> &x,
                                            float *mean, float *rstd)
{
    constexpr int V = zr__chunk_elems<T>;
    float sum = 0.0f, square = 0.0f, values[V];
    if constexpr (CENTRED) {
        zr__row_chunks<T, PACKED>(at, n.C, [&](int k, int64_t c) {
            x.get(values, k, c, n.C);
            for (int v = 0; v < V; v++) sum += values[v];
        });
        *mean = zr__row_all(at, sum, zr__plus(), 0.0f) / (float)n.C;
    }
    const float centre = CENTRED ? *mean : 0.0f;
    zr__row_chunks<T, PACKED>(at, n.C, [&](int k, int64_t c) {
        x.get(values, k, c, n.C);
        for (int v = 0; v < V; v++) {
            const float d = zr__row_has<PACKED>(c + v, n.C) ? values[v] - centre : 0.0f;
            square = fmaf(d, d, square);
        }
    });
    *rstd = 1.0f / sqrtf(zr__row_all(at, square, zr__plus(), 0.0f) / (float)n.C + n.eps);
}

template <typename T, bool PACKED, bool CENTRED>
__global__ void __launch_bounds__(ZR__ROW_LANES) norm_rows(norm<T> n, int lanes)
{
    constexpr int V = zr__chunk_elems<T>;
    for (zr__row_place at = zr__row_place_of(lanes); at.row < n.rows; at.row += at.step) {
        float mean = 0.0f, rstd, values[V], gain[V], bias[V];
        zr__row_kept<T, PACKED> x = {n.x + at.row * n.C, {}};
        T *y = n.y + at.row * n.C;
        x.read(at, n.C);
        row_moments<T, PACKED, CENTRED>(n, at, x, &mean, &rstd);
        zr__row_chunks<T, PACKED>(at, n.C, [&](int k, int64_t c) {
            x.get(values, k, c, n.C);
            zr__row_get<PACKED>(gain, n.gain, c, n.C);
            if constexpr (CENTRED) zr__row_get<PACKED>(bias, n.bias, c, n.C);
            for (int v = 0; v < V; v++) {
                if constexpr (CENTRED)
                    values[v] = fmaf((values[v] - mean) * rstd, gain[v], bias[v]);
                else if (n.rounds)
                    values[v] = rounded_to<T>(values[v] * rstd) * gain[v];
                else
                    values[v] = values[v] * rstd * gain[v];
            }
            zr__row_put<PACKED>(y, c, n.C, values);
        });
        if (at.lane == 0 && CENTRED) n.mean[at.row] = mean;
        if (at.lane == 0) n.rstd[at.row] = rstd;
    }
}

template <bool CENTRED> zr_status run_norm(const zr_kernel_args *args)
{
    const zr_tensor *in = args->in, *out = args->out;
    return zr__typed(in[0].dtype, [&]<typename T>(T *) {
        const norm<T> n = {.y = (T *)out[0].data,
                           .x = (const T *)in[0].data,
                           .gain = (const T *)in[1].data,
                           .bias = CENTRED ? (const T *)in[2].data : nullptr,
                           .mean = CENTRED ? (float *)out[1].data : nullptr,
                           .rstd = (float *)out[CENTRED ? 2 : 1].data,
                           .rows = zr_shape_elems(&in[0].shape) / zr_shape_elems(&in[1].shape),
                           .C = zr_shape_elems(&in[1].shape),
                           .eps = (float)args->op->attr.f[0],
                           .rounds = args->op->attr.i[0] != 0};
        return zr__each_row<T>(zr__stream_of(args), n.rows, n.C, zr__are_aligned(n.y, n.x, n.gain, n.bias),
                               norm_rows<T, true, CENTRED>, norm_rows<T, false, CENTRED>, n);
    });
}

/* ---- the gradient of x ------------------------------------------------------------------------- */

/* Operands of layernorm_dx and rmsnorm_dx. In comments, xhat = (x - mean) * rstd and dxhat = dy * gain. The gradient
 * array `earlier`, if present, is added to dx. `dx` may share memory with `dy` or with `earlier`. */
template <typename T> struct norm_dx {
    T *dx;
    const T *dy, *x, *gain, *earlier; /* earlier may be NULL */
    const float *mean, *rstd;
    int64_t rows, C;
};

/* Compute *a, the mean of dxhat, and *b, the mean of dxhat * xhat. *a comes from the derivative of the mean, and is 0
 * for rmsnorm. */
template <typename T, bool PACKED, bool CENTRED>
__device__ __forceinline__ void row_averages(const norm_dx<T> &n, const zr__row_place &at,
                                             const zr__row_kept<T, PACKED> &x, const zr__row_kept<T, PACKED> &dy,
                                             float mean, float rstd, float *a, float *b)
{
    constexpr int V = zr__chunk_elems<T>;
    float sum = 0.0f, product = 0.0f, d[V], values[V], gain[V];
    zr__row_chunks<T, PACKED>(at, n.C, [&](int k, int64_t c) {
        dy.get(d, k, c, n.C);
        x.get(values, k, c, n.C);
        zr__row_get<PACKED>(gain, n.gain, c, n.C);
        for (int v = 0; v < V; v++) {
            if (!zr__row_has<PACKED>(c + v, n.C)) continue;
            const float dxhat = d[v] * gain[v];
            sum += dxhat;
            product = fmaf(dxhat, (values[v] - mean) * rstd, product);
        }
    });
    *a = CENTRED ? zr__row_all(at, sum, zr__plus(), 0.0f) / (float)n.C : 0.0f;
    *b = zr__row_all(at, product, zr__plus(), 0.0f) / (float)n.C;
}

/* Compute dx = earlier + rstd * (dxhat - a - xhat * b) for all rows. */
template <typename T, bool PACKED, bool CENTRED>
__global__ void __launch_bounds__(ZR__ROW_LANES) norm_dx_rows(norm_dx<T> n, int lanes)
{
    constexpr int V = zr__chunk_elems<T>;
    /* Whether `earlier` is read together with x and dy: not in fp32, where three rows would exceed a thread's
     * registers. */
    constexpr bool early = sizeof(T) < sizeof(float);
    for (zr__row_place at = zr__row_place_of(lanes); at.row < n.rows; at.row += at.step) {
        const int64_t first = at.row * n.C;
        const float mean = CENTRED ? n.mean[at.row] : 0.0f, rstd = n.rstd[at.row];
        zr__row_kept<T, PACKED> x = {n.x + first, {}}, dy = {n.dy + first, {}}, earlier = {n.earlier, {}};
        float a, b, d[V], values[V], other[V];
        x.read(at, n.C);
        dy.read(at, n.C);
        if (n.earlier) earlier.row += first;
        if (n.earlier && early) earlier.read(at, n.C);
        row_averages<T, PACKED, CENTRED>(n, at, x, dy, mean, rstd, &a, &b);
        zr__row_chunks<T, PACKED>(at, n.C, [&](int k, int64_t c) {
            dy.get(d, k, c, n.C);
            x.get(values, k, c, n.C);
            zr__row_get<PACKED>(other, n.gain, c, n.C);
            for (int v = 0; v < V; v++) d[v] = rstd * (d[v] * other[v] - a - (values[v] - mean) * rstd * b);
            if (n.earlier) {
                if constexpr (early)
                    earlier.get(other, k, c, n.C);
                else
                    zr__row_get<PACKED>(other, earlier.row, c, n.C);
                for (int v = 0; v < V; v++) d[v] = other[v] + d[v];
            }
            zr__row_put<PACKED>(n.dx + first, c, n.C, d);
        });
    }
}

template <bool CENTRED> zr_status run_norm_dx(const zr_kernel_args *args)
{
    const zr_tensor *in = args->in, *earlier = &in[CENTRED ? 5 : 4];
    return zr__typed(in[1].dtype, [&]<typename T>(T *) {
        const norm_dx<T> n = {.dx = (T *)args->out[0].data,
                              .dy = (const T *)in[0].data,
                              .x = (const T *)in[1].data,
                              .gain = (const T *)in[2].data,
                              .earlier = (const T *)earlier->data,
                              .mean = CENTRED ? (const float *)in[3].data : nullptr,
                              .rstd = (const float *)in[CENTRED ? 4 : 3].data,
                              .rows = zr_shape_elems(&in[1].shape) / zr_shape_elems(&in[2].shape),
                              .C = zr_shape_elems(&in[2].shape)};
        const bool aligned = zr__are_aligned(n.dx, n.dy, n.x, n.gain, n.earlier);
        return zr__each_row<T>(zr__stream_of(args), n.rows, n.C, aligned, norm_dx_rows<T, true, CENTRED>,
                               norm_dx_rows<T, false, CENTRED>, n);
    });
}

/* ---- gradients of gain and bias ---------------------------------------------------------------- */

/* dw_warps: number of warps in a block. dw_batch: number of rows that a warp loads before it adds them. */
constexpr int dw_warps = 8, dw_batch = 4;

/* Arrays for the sums over rows: of dy * xhat and, if there is a bias, of dy. */
template <typename T> struct norm_dw {
    const T *dy, *x;
    const float *mean, *rstd;
    int64_t rows, C;
    int64_t run;    /* number of rows in a run; the last run may have fewer */
    float *partial; /* (runs, outs, C) sums of each run */
    bool rounds;    /* whether xhat is rounded, as in the forward pass */
};

/* For the columns of one thread, add the terms of every dw_warps-th row of [begin, end), in ascending order, to dgain
 * and dbias. */
template <typename T, bool PACKED, bool CENTRED>
__device__ __forceinline__ void add_rows(const norm_dw<T> &n, int64_t begin, int64_t end, int64_t c,
                                         float (&dgain)[zr__chunk_elems<T>], float (&dbias)[zr__chunk_elems<T>])
{
    constexpr int V = zr__chunk_elems<T>;
    for (int64_t first = begin; first < end; first += dw_batch * dw_warps) {
        float dy[dw_batch][V], x[dw_batch][V], mean[dw_batch] = {}, rstd[dw_batch];
#pragma unroll
        for (int j = 0; j < dw_batch; j++) {
            /* Beyond the end of the run, read the first row again but do not add it, which saves a branch. */
            const int64_t next = first + j * dw_warps, r = next < end ? next : first;
            zr__row_get<PACKED>(dy[j], n.dy + r * n.C, c, n.C);
            zr__row_get<PACKED>(x[j], n.x + r * n.C, c, n.C);
            if (CENTRED) mean[j] = n.mean[r];
            rstd[j] = n.rstd[r];
        }
#pragma unroll
        for (int j = 0; j < dw_batch; j++) {
            if (first + j * dw_warps >= end) continue;
            for (int v = 0; v < V; v++) {
                const float xhat = (x[j][v] - mean[j]) * rstd[j];
                dgain[v] = fmaf(dy[j][v], !CENTRED && n.rounds ? rounded_to<T>(xhat) : xhat, dgain[v]);
                dbias[v] += dy[j][v];
            }
        }
    }
}

/* Sum the rows in runs. Each block of threads sums one run, for the columns that one warp covers. Each warp sums some
 * of the run's rows. The warps' sums are then added in the order of the warps. */
template <typename T, bool PACKED, bool CENTRED>
__global__ void __launch_bounds__(dw_warps *ZR__WARP) norm_dw_runs(norm_dw<T> n)
{
    constexpr int V = zr__chunk_elems<T>, tile = V * ZR__WARP, outs = CENTRED ? 2 : 1;
    ZR_SHARED_ARRAY(float, part, [outs][dw_warps][tile]);
    const int lane = (int)threadIdx.x % ZR__WARP, warp = (int)threadIdx.x / ZR__WARP;
    const int64_t first = (int64_t)blockIdx.x * tile, run = blockIdx.y;
    float dgain[V] = {}, dbias[V] = {};
    const int64_t begin = run * n.run, end = begin + n.run < n.rows ? begin + n.run : n.rows;
    if (first + lane * V < n.C) add_rows<T, PACKED, CENTRED>(n, begin + warp, end, first + lane * V, dgain, dbias);
    for (int v = 0; v < V; v++) {
        part[0][warp][lane * V + v] = dgain[v];
        if (CENTRED) part[outs - 1][warp][lane * V + v] = dbias[v];
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < outs * tile; i += dw_warps * ZR__WARP) {
        const int out = i / tile, column = i % tile;
        float sum = part[out][0][column];
        for (int w = 1; w < dw_warps; w++) sum += part[out][w][column];
        if (first + column < n.C) n.partial[(run * outs + out) * n.C + first + column] = sum;
    }
}

constexpr int join_groups = 8;

/* Add the runs' sums of output blockIdx.y (0: dgain, 1: dbias). Each group adds consecutive runs in their order. The
 * groups' sums are then added in the order of the groups. */
__global__ void norm_dw_join(const float *partial, int runs, int64_t C, zr__array dgain, zr__array dbias)
{
    ZR_SHARED_ARRAY(float, part, [join_groups][ZR__WARP]);
    const int lane = (int)threadIdx.x % ZR__WARP, group = (int)threadIdx.x / ZR__WARP;
    const int each = (runs + join_groups - 1) / join_groups, begin = group * each;
    const int end = begin + each < runs ? begin + each : runs;
    const int64_t c = (int64_t)blockIdx.x * ZR__WARP + lane, out = blockIdx.y, outs = gridDim.y;
    float sum = 0.0f;
    if (c < C) {
#pragma unroll 8
        for (int run = begin; run < end; run++) sum += partial[(run * outs + out) * C + c];
    }
    part[group][lane] = sum;
    __syncthreads();
    if (group != 0 || c >= C) return;
    for (int g = 1; g < join_groups; g++) sum += part[g][lane];
    zr__put(out == 0 ? dgain : dbias, c, sum);
}

template <bool CENTRED> zr_status run_norm_dw(const zr_kernel_args *args)
{
    const zr_tensor *in = args->in;
    const int64_t C = zr_shape_elems(&args->out[0].shape), rows = zr_shape_elems(&in[1].shape) / C;
    cudaStream_t stream = zr__stream_of(args);
    return zr__typed(in[1].dtype, [&]<typename T>(T *) {
        constexpr int V = zr__chunk_elems<T>, threads = dw_warps * ZR__WARP;
        const norm_dw<T> n = {.dy = (const T *)in[0].data,
                              .x = (const T *)in[1].data,
                              .mean = CENTRED ? (const float *)in[2].data : nullptr,
                              .rstd = (const float *)in[CENTRED ? 3 : 2].data,
                              .rows = rows,
                              .C = C,
                              .run = zr__cuda_row_run(rows),
                              .partial = (float *)args->scratch,
                              .rounds = args->op->attr.i[0] != 0};
        const unsigned runs = (unsigned)zr__ceil_div(rows, n.run);
        const dim3 blocks((unsigned)zr__ceil_div(n.C, V * ZR__WARP), runs);
        const dim3 joins((unsigned)zr__ceil_div(n.C, ZR__WARP), CENTRED ? 2 : 1);
        if (zr__are_aligned(n.dy, n.x) && n.C % V == 0)
            ZR_LAUNCH(stream, (norm_dw_runs<T, true, CENTRED>), blocks, threads, 0, n);
        else
            ZR_LAUNCH(stream, (norm_dw_runs<T, false, CENTRED>), blocks, threads, 0, n);
        ZR_LAUNCH(stream, norm_dw_join, joins, join_groups * ZR__WARP, 0, n.partial, (int)runs, n.C,
                  zr__array_of(&args->out[0]), zr__array_of(&args->out[CENTRED ? 1 : 0]));
        return zr__launched();
    });
}

} // namespace

ZR_CUDA_KERNELS(layernorm) = {
    zr__kernel("layernorm", run_norm<true>),
    zr__kernel("layernorm_dx", run_norm_dx<true>),
    zr__kernel("layernorm_dw", run_norm_dw<true>),
    zr__kernel("rmsnorm", run_norm<false>),
    zr__kernel("rmsnorm_dx", run_norm_dx<false>),
    zr__kernel("rmsnorm_dw", run_norm_dw<false>),
    {},
};
