/* softmax, softmax_dx, mean and mean_dx over the last dimension. */
#include "device/cuda/rows.h"

namespace
{

/* ---- softmax ----------------------------------------------------------------------------------- */

template <typename T> struct softmax {
    T *y;
    const T *x;
    int64_t rows, C;
};

/* Compute the softmax of rows. If the row is packed, its exponentials stay in registers. Otherwise the exponentials are
 * computed twice: if they were stored in a 16-bit output first, the results would be rounded twice. */
template <typename T, bool PACKED>
__global__ void __launch_bounds__(ZR__ROW_LANES) softmax_rows(softmax<T> s, int lanes)
{
    constexpr int V = zr__chunk_elems<T>, kept = PACKED ? ZR__ROW_KEPT / V : 1;
    for (zr__row_place at = zr__row_place_of(lanes); at.row < s.rows; at.row += at.step) {
        zr__row_kept<T, PACKED> x = {s.x + at.row * s.C, {}};
        float top = -INFINITY, sum = 0.0f, values[V], e[kept][V];
        x.read(at, s.C);
        zr__row_chunks<T, PACKED>(at, s.C, [&](int k, int64_t c) {
            x.get(values, k, c, s.C);
            for (int v = 0; v < V; v++)
                if (zr__row_has<PACKED>(c + v, s.C)) top = zr__larger()(values[v], top);
        });
        top = zr__row_all(at, top, zr__larger(), -INFINITY);
        zr__row_chunks<T, PACKED>(at, s.C, [&](int k, int64_t c) {
            x.get(values, k, c, s.C);
            for (int v = 0; v < V; v++) {
                e[k][v] = expf(values[v] - top);
                if (zr__row_has<PACKED>(c + v, s.C)) sum += e[k][v];
            }
        });
        const float factor = 1.0f / zr__row_all(at, sum, zr__plus(), 0.0f);
        zr__row_chunks<T, PACKED>(at, s.C, [&](int k, int64_t c) {
            if constexpr (!PACKED) x.get(values, k, c, s.C);
            for (int v = 0; v < V; v++) values[v] = (PACKED ? e[k][v] : expf(values[v] - top)) * factor;
            zr__row_put<PACKED>(s.y + at.row * s.C, c, s.C, values);
        });
    }
}

zr_status run_softmax(const zr_kernel_args *args)
{
    const zr_tensor *x = &args->in[0];
    return zr__typed(x->dtype, [&]<typename T>(T *) {
        const softmax<T> s = {(T *)args->out[0].data, (const T *)x->data, zr_shape_rows(&x->shape),
                              zr_shape_cols(&x->shape)};
        return zr__each_row<T>(zr__stream_of(args), s.rows, s.C, zr__are_aligned(s.y, s.x), softmax_rows<T, true>,
                               softmax_rows<T, false>, s);
    });
}

/* Arrays of dx = y * (dy - a), where a is the sum of dy * y. dx may share the memory of dy. */
template <typename T> struct softmax_dx {
    zr__array dx;
    const T *dy, *y;
    int64_t rows, C;
};

/* Store a chunk of dx. If dx and dy have different types, the caller sets PACKED to false, and dx is written one
 * element at a time. */
template <bool PACKED, typename T, int V>
__device__ __forceinline__ void put_dx(zr__array dx, T *, int64_t row, int64_t c, int64_t C, const float (&in)[V])
{
    if constexpr (PACKED)
        zr__row_put<true>((T *)dx.data + row * C, c, C, in);
    else
        for (int v = 0; v < V; v++)
            if (c + v < C) zr__put(dx, row * C + c + v, in[v]);
}

template <typename T, bool PACKED>
__global__ void __launch_bounds__(ZR__ROW_LANES) softmax_dx_rows(softmax_dx<T> s, int lanes)
{
    constexpr int V = zr__chunk_elems<T>;
    for (zr__row_place at = zr__row_place_of(lanes); at.row < s.rows; at.row += at.step) {
        zr__row_kept<T, PACKED> dy = {s.dy + at.row * s.C, {}}, y = {s.y + at.row * s.C, {}};
        float sum = 0.0f, d[V], values[V];
        dy.read(at, s.C);
        y.read(at, s.C);
        zr__row_chunks<T, PACKED>(at, s.C, [&](int k, int64_t c) {
            dy.get(d, k, c, s.C);
            y.get(values, k, c, s.C);
            for (int v = 0; v < V; v++)
                if (zr__row_has<PACKED>(c + v, s.C)) sum = fmaf(d[v], values[v], sum);
        });
        const float a = zr__row_all(at, sum, zr__plus(), 0.0f);
        zr__row_chunks<T, PACKED>(at, s.C, [&](int k, int64_t c) {
            dy.get(d, k, c, s.C);
            y.get(values, k, c, s.C);
            for (int v = 0; v < V; v++) d[v] = values[v] * (d[v] - a);
            put_dx<PACKED>(s.dx, (T *)nullptr, at.row, c, s.C, d);
        });
    }
}

zr_status run_softmax_dx(const zr_kernel_args *args)
{
    const zr_tensor *dy = &args->in[0], *y = &args->in[1], *dx = &args->out[0];
    return zr__typed(dy->dtype, [&]<typename T>(T *) {
        const softmax_dx<T> s = {zr__array_of(dx), (const T *)dy->data, (const T *)y->data, zr_shape_rows(&dy->shape),
                                 zr_shape_cols(&dy->shape)};
        const bool aligned = zr__are_aligned(s.dx, s.dy, s.y) && dx->dtype == dy->dtype;
        return zr__each_row<T>(zr__stream_of(args), s.rows, s.C, aligned, softmax_dx_rows<T, true>,
                               softmax_dx_rows<T, false>, s);
    });
}

/* ---- mean -------------------------------------------------------------------------------------- */

template <typename T, bool PACKED>
__global__ void __launch_bounds__(ZR__ROW_LANES) mean_rows(zr__array y, const T *x, int64_t rows, int64_t C, int lanes)
{
    constexpr int V = zr__chunk_elems<T>;
    for (zr__row_place at = zr__row_place_of(lanes); at.row < rows; at.row += at.step) {
        zr__row_kept<T, PACKED> kept = {x + at.row * C, {}};
        float sum = 0.0f, values[V];
        kept.read(at, C);
        zr__row_chunks<T, PACKED>(at, C, [&](int k, int64_t c) {
            kept.get(values, k, c, C);
            for (int v = 0; v < V; v++) sum += values[v];
        });
        sum = zr__row_all(at, sum, zr__plus(), 0.0f);
        if (at.lane == 0) zr__put(y, at.row, sum / (float)C);
    }
}

zr_status run_mean(const zr_kernel_args *args)
{
    const zr_tensor *x = &args->in[0];
    const int64_t rows = zr_shape_rows(&x->shape), C = zr_shape_cols(&x->shape);
    const zr__array y = zr__array_of(&args->out[0]);
    return zr__typed(x->dtype, [&]<typename T>(T *) {
        const T *data = (const T *)x->data;
        return zr__each_row<T>(zr__stream_of(args), rows, C, zr__is_aligned(data), mean_rows<T, true>,
                               mean_rows<T, false>, y, data, rows, C);
    });
}

/* Functor that sets every element of a row of dx to the row's gradient divided by the number of elements. */
template <int V> struct mean_dx {
    zr__array dx, dy;
    int64_t C;

    struct place {
        int64_t first;
        float part;
    };
    __device__ place row(int64_t r) const
    {
        return {r * C, zr__get(dy, r) / (float)C};
    }
    __device__ void piece(place at, int64_t i) const
    {
        float values[V];
        for (int v = 0; v < V; v++) values[v] = at.part;
        zr__put_all<V>(dx, at.first + i * V, values);
    }
};

zr_status run_mean_dx(const zr_kernel_args *args)
{
    const zr_shape *shape = &args->out[0].shape;
    const zr__array dx = zr__array_of(&args->out[0]), dy = zr__array_of(&args->in[0]);
    const int64_t rows = zr_shape_rows(shape), C = zr_shape_cols(shape);
    if (zr__is_aligned(dx) && C % ZR__PACK == 0)
        return zr__each_piece(zr__stream_of(args), rows, C / ZR__PACK, mean_dx<ZR__PACK>{dx, dy, C});
    return zr__each_piece(zr__stream_of(args), rows, C, mean_dx<1>{dx, dy, C});
}

} // namespace

ZR_CUDA_KERNELS(softmax) = {
    zr__kernel("softmax", run_softmax),
    zr__kernel("softmax_dx", run_softmax_dx),
    zr__kernel("mean", run_mean),
    zr__kernel("mean_dx", run_mean_dx),
    {},
};
