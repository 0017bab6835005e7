/* slice, slice_dx, concat, transpose, split_heads and merge_heads. These ops copy elements unchanged, or convert them
 * when a gradient of another type is written. */
#include "device/cuda/rows.h"

namespace
{

/* ---- columns ----------------------------------------------------------------------------------- */

/* Offsets of a row, in pieces: `to` in the destination, and `from` in the source. */
struct row_ends {
    int64_t to, from;
};

/* Functor that copies columns of a matrix to columns of another matrix. Widths and first columns are in pieces. */
template <typename M> struct move_columns {
    M mover;
    int64_t to_width, to_first, from_width, from_first;

    __device__ row_ends row(int64_t r) const
    {
        return {r * to_width + to_first, r * from_width + from_first};
    }
    __device__ auto get(row_ends at, int64_t i) const
    {
        return mover.get(at.from + i);
    }
    template <typename E> __device__ void put(row_ends at, int64_t i, const E &value) const
    {
        mover.put(at.to + i, value);
    }
};

/* Copy columns [from_first, from_first + n) of `in` to columns [to_first, to_first + n) of `out`. */
zr_status copy_columns(const zr_kernel_args *args, const zr_tensor *out, int64_t to_first, const zr_tensor *in,
                       int64_t from_first, int64_t n)
{
    const int64_t rows = zr_shape_rows(&out->shape), to_width = zr_shape_cols(&out->shape),
                  from_width = zr_shape_cols(&in->shape);
    return zr__with_mover(out, in, {to_width, to_first, from_width, from_first, n}, [&](auto mover, int64_t V) {
        const move_columns<decltype(mover)> f = {mover, to_width / V, to_first / V, from_width / V, from_first / V};
        return zr__each_move(zr__stream_of(args), rows, n / V, f);
    });
}

zr_status run_slice(const zr_kernel_args *args)
{
    const zr_tensor *out = &args->out[0];
    return copy_columns(args, out, 0, &args->in[0], args->op->attr.i[0], zr_shape_cols(&out->shape));
}

zr_status run_concat(const zr_kernel_args *args)
{
    const zr_tensor *a = &args->in[0], *b = &args->in[1], *out = &args->out[0];
    const int64_t M = zr_shape_cols(&a->shape), N = zr_shape_cols(&b->shape);
    ZR_TRY(copy_columns(args, out, 0, a, 0, M));
    return copy_columns(args, out, M, b, 0, N);
}

/* Functor that computes dx = earlier, or 0 if there is no `earlier`, and adds dy to columns [first, first + n). Lengths
 * are in pieces of V elements. */
template <int V> struct slice_dx {
    zr__array dx, dy, earlier;
    int64_t C, n, first;
    int64_t skipped; /* number of pieces at the start of each row that need not be written */

    __device__ row_ends row(int64_t r) const
    {
        return {r * C + skipped, r * n + skipped - first};
    }
    __device__ zr__values<V> get(row_ends at, int64_t i) const
    {
        const bool inside = skipped + i >= first && skipped + i < first + n;
        zr__values<V> value = {}, d;
        if (earlier.data) zr__get_all<V>(value.of, earlier, (at.to + i) * V);
        if (!inside) return value;
        zr__get_all<V>(d.of, dy, (at.from + i) * V);
        for (int v = 0; v < V; v++) value.of[v] = earlier.data ? d.of[v] + value.of[v] : d.of[v];
        return value;
    }
    __device__ void put(row_ends at, int64_t i, const zr__values<V> &value) const
    {
        zr__put_all<V>(dx, (at.to + i) * V, value.of);
    }
};

template <int V>
zr_status slice_dx_by(const zr_kernel_args *args, zr__array earlier, int64_t C, int64_t n, int64_t first)
{
    const zr__array dx = zr__array_of(&args->out[0]), dy = zr__array_of(&args->in[0]);
    const int64_t rows = zr_shape_rows(&args->out[0].shape);
    /* If dx overwrites `earlier`, write only the columns to which dy is added. The other columns already have their
     * results. */
    const bool in_place = dx.data == earlier.data;
    const slice_dx<V> f = {dx, dy, earlier, C / V, n / V, first / V, in_place ? first / V : 0};
    return zr__each_move(zr__stream_of(args), rows, (in_place ? n : C) / V, f);
}

zr_status run_slice_dx(const zr_kernel_args *args)
{
    const zr_tensor *dy = &args->in[0], *dx = &args->out[0];
    const zr__array earlier = args->n_in > 1 ? zr__array_of(&args->in[1]) : zr__array{nullptr, ZR_F32};
    const int64_t C = zr_shape_cols(&dx->shape), n = zr_shape_cols(&dy->shape), first = args->op->attr.i[0];
    const bool aligned = zr__are_aligned(dx->data, dy->data, earlier);
    if (aligned && C % ZR__PACK == 0 && n % ZR__PACK == 0 && first % ZR__PACK == 0)
        return slice_dx_by<ZR__PACK>(args, earlier, C, n, first);
    return slice_dx_by<1>(args, earlier, C, n, first);
}

/* ---- swapped dimensions ------------------------------------------------------------------------ */

/* Functor that swaps two dimensions: (outer, a, b, inner) to (outer, b, a, inner). A row of the result is `inner`
 * pieces. */
template <typename M> struct swap_rows {
    M mover;
    int64_t a, b, inner;

    __device__ row_ends row(int64_t r) const
    {
        const int64_t column = zr__divide(r, a), outer = zr__divide(column, b);
        const int64_t i = r - column * a, j = column - outer * b;
        return {r * inner, ((outer * a + i) * b + j) * inner};
    }
    __device__ auto get(row_ends at, int64_t i) const
    {
        return mover.get(at.from + i);
    }
    template <typename E> __device__ void put(row_ends at, int64_t i, const E &value) const
    {
        mover.put(at.to + i, value);
    }
};

zr_status swap_dims(const zr_kernel_args *args, int64_t a, int64_t b, int64_t inner)
{
    const zr_tensor *out = &args->out[0], *in = &args->in[0];
    const int64_t rows = zr_shape_elems(&in->shape) / inner;
    return zr__with_mover(out, in, {inner}, [&](auto mover, int64_t V) {
        return zr__each_move(zr__stream_of(args), rows, inner / V, swap_rows<decltype(mover)>{mover, a, b, inner / V});
    });
}

zr_status run_split_heads(const zr_kernel_args *args)
{
    const int64_t *y = args->out[0].shape.dim;
    return swap_dims(args, y[2], y[1], y[3]);
}

zr_status run_merge_heads(const zr_kernel_args *args)
{
    const int64_t *x = args->in[0].shape.dim;
    return swap_dims(args, x[1], x[2], x[3]);
}

/* ---- transpose --------------------------------------------------------------------------------- */

/* Mover of elements whose type does not change; it copies their bits. */
template <typename E> struct element_bytes {
    using type = E;
    E *out;
    const E *in;

    __device__ E get(int64_t i) const
    {
        return in[i];
    }
    __device__ void put(int64_t i, E value) const
    {
        out[i] = value;
    }
};

struct element_values {
    using type = float;
    zr__array out, in;

    __device__ float get(int64_t i) const
    {
        return zr__get(in, i);
    }
    __device__ void put(int64_t i, float value) const
    {
        zr__put(out, i, value);
    }
};

constexpr int tile = 64, tile_threads = 256, tile_rows = tile_threads / tile, tile_turns = tile / tile_rows;

struct matrices {
    int64_t count, a, b;  /* number of matrices, and rows and columns of each */
    int64_t down, across; /* number of tiles along a, and along b */
};

/* Transpose matrices by tiles. A tile is read along rows of the source and written along rows of the result, so that a
 * warp always accesses neighbouring elements. In between, the tile is in shared memory, where a row is one word longer
 * than the tile, so that the elements of a column are in different banks. */
template <typename M> __global__ void __launch_bounds__(tile_threads) transpose_tiles(M mover, matrices m)
{
    using E = typename M::type;
    ZR_SHARED_ARRAY(E, held, [tile][tile + (int)(4 / sizeof(E))]);
    const int x = (int)threadIdx.x % tile, y = (int)threadIdx.x / tile;
    for (int64_t t = blockIdx.x; t < m.count * m.down * m.across; t += gridDim.x) {
        const int64_t line = zr__divide(t, m.across), matrix = zr__divide(line, m.down);
        const int64_t i0 = (line - matrix * m.down) * tile, j0 = (t - line * m.across) * tile;
        const int64_t at = matrix * m.a * m.b;
        E values[tile_turns] = {};
#pragma unroll
        for (int k = 0; k < tile_turns; k++) {
            const int64_t i = i0 + y + k * tile_rows, j = j0 + x;
            if (i < m.a && j < m.b) values[k] = mover.get(at + i * m.b + j);
        }
        for (int k = 0; k < tile_turns; k++) held[y + k * tile_rows][x] = values[k];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < tile_turns; k++) {
            const int64_t j = j0 + y + k * tile_rows, i = i0 + x;
            if (i < m.a && j < m.b) mover.put(at + j * m.a + i, held[x][y + k * tile_rows]);
        }
        __syncthreads(); /* all threads must have read this tile before the next tile is written */
    }
}

template <typename M> zr_status transpose_by(const zr_kernel_args *args, M mover)
{
    const zr_shape *x = &args->in[0].shape;
    const int64_t a = x->dim[x->ndim - 2], b = x->dim[x->ndim - 1];
    const matrices m = {zr_shape_elems(x) / (a * b), a, b, zr__ceil_div(a, tile), zr__ceil_div(b, tile)};
    ZR_LAUNCH(zr__stream_of(args), transpose_tiles<M>, zr__blocks(m.count * m.down * m.across, 1), tile_threads, 0,
              mover, m);
    return zr__launched();
}

zr_status run_transpose(const zr_kernel_args *args)
{
    const zr_tensor *in = &args->in[0], *out = &args->out[0];
    if (in->dtype != out->dtype) return transpose_by(args, element_values{zr__array_of(out), zr__array_of(in)});
    if (in->dtype == ZR_F32)
        return transpose_by(args, element_bytes<uint32_t>{(uint32_t *)out->data, (const uint32_t *)in->data});
    return transpose_by(args, element_bytes<uint16_t>{(uint16_t *)out->data, (const uint16_t *)in->data});
}

} // namespace

ZR_CUDA_KERNELS(arrange) = {
    zr__kernel("slice", run_slice),
    zr__kernel("slice_dx", run_slice_dx),
    zr__kernel("concat", run_concat),
    zr__kernel("transpose", run_transpose),
    zr__kernel("split_heads", run_split_heads),
    zr__kernel("merge_heads", run_merge_heads),
    {},
};
