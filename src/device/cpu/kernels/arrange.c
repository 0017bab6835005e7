/* Ops slice, slice_dx, concat, transpose, split_heads and merge_heads. They copy elements unchanged, or convert them if
 * the output is a gradient of another dtype. */
#include "device/cpu/shared/rows.h"

/* Copy n elements, out[to + i] = in[from + i]. Convert them if the dtypes differ. */
static void copy_elems(const zr_tensor *out, int64_t to, const zr_tensor *in, int64_t from, int64_t n)
{
    if (out->dtype == in->dtype) {
        const int64_t width = zr_dtype_bytes(in->dtype);
        memcpy((char *)out->data + to * width, (const char *)in->data + from * width, (size_t)(n * width));
        return;
    }
    for (int64_t i = 0; i < n; i += ZR_CHUNK) {
        float buffer[ZR_CHUNK];
        int64_t part = zr__min64(ZR_CHUNK, n - i);
        zr__store(out->data, out->dtype, to + i, zr__view(buffer, in->data, in->dtype, from + i, part), part);
    }
}

/* ---- columns --------------------------------------------------------------------------------- */

static zr_status slice(const zr_kernel_args *args)
{
    const zr_tensor *x = &args->in[0], *out = &args->out[0];
    const int64_t rows = zr_shape_rows(&x->shape), C = zr_shape_cols(&x->shape), n = zr_shape_cols(&out->shape);
    const int64_t first = args->op->attr.i[0];
#pragma omp parallel for num_threads(zr__team(args, rows *n)) schedule(static)
    for (int64_t r = 0; r < rows; r++) copy_elems(out, r * n, x, r * C + first, n);
    return ZR_OK;
}

/* Copy the elements [to, to + n) of `earlier` to the same elements of `out`. If `earlier` is NULL, set these elements
 * of `out` to 0. */
static void keep_elems(const zr_tensor *out, int64_t to, const zr_tensor *earlier, int64_t n)
{
    const int64_t width = zr_dtype_bytes(out->dtype);
    if (!earlier)
        memset((char *)out->data + to * width, 0, (size_t)(n * width));
    else if (earlier->data != out->data)
        copy_elems(out, to, earlier, to, n);
}

static zr_status slice_dx(const zr_kernel_args *args)
{
    const zr_tensor *dy = &args->in[0], *out = &args->out[0];
    const zr_tensor *earlier = args->n_in > 1 && args->in[1].data ? &args->in[1] : NULL;
    const int64_t rows = zr_shape_rows(&out->shape), C = zr_shape_cols(&out->shape), n = zr_shape_cols(&dy->shape);
    const int64_t first = args->op->attr.i[0];
#pragma omp parallel for num_threads(zr__team(args, rows *C)) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        keep_elems(out, r * C, earlier, first);
        if (earlier)
            zr__add_elems(out, r * C + first, dy, r * n, earlier, r * C + first, n);
        else
            copy_elems(out, r * C + first, dy, r * n, n);
        keep_elems(out, r * C + first + n, earlier, C - first - n);
    }
    return ZR_OK;
}

static zr_status concat(const zr_kernel_args *args)
{
    const zr_tensor *a = &args->in[0], *b = &args->in[1], *out = &args->out[0];
    const int64_t rows = zr_shape_rows(&a->shape), M = zr_shape_cols(&a->shape), N = zr_shape_cols(&b->shape);
#pragma omp parallel for num_threads(zr__team(args, rows *(M + N))) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        copy_elems(out, r * (M + N), a, r * M, M);
        copy_elems(out, r * (M + N) + M, b, r * N, N);
    }
    return ZR_OK;
}

/* ---- swapped dimensions ---------------------------------------------------------------------- */

/* Sizes of a swap of dimensions: in (outer, a, b, inner) -> out (outer, b, a, inner). */
typedef struct swap_sizes {
    int64_t outer, a, b, inner;
} swap_sizes;

/* Edge of a tile, in elements. A copy by tiles uses all elements of a cache line while the line is in the cache. */
enum { TILE = 32 };

#define TILE_LOOP(type)                                                                                                \
    for (int64_t j = j0; j < j1; j++)                                                                                  \
        for (int64_t i = i0; i < i1; i++)                                                                              \
    ((type *)out->data)[at + j * s.a + i] = ((const type *)in->data)[at + i * s.b + j]

/* Transpose the tile with first row i0 and first column j0 of the s.a x s.b matrix that begins at element `at`. */
static void swap_tile(const zr_tensor *out, const zr_tensor *in, swap_sizes s, int64_t at, int64_t i0, int64_t j0)
{
    const int64_t i1 = zr__min64(i0 + TILE, s.a), j1 = zr__min64(j0 + TILE, s.b);
    if (out->dtype != in->dtype)
        for (int64_t j = j0; j < j1; j++)
            for (int64_t i = i0; i < i1; i++) copy_elems(out, at + j * s.a + i, in, at + i * s.b + j, 1);
    else if (in->dtype == ZR_F32)
        TILE_LOOP(float);
    else
        TILE_LOOP(uint16_t);
}

static zr_status swap_single(const zr_kernel_args *args, swap_sizes s)
{
    const int64_t down = (s.a + TILE - 1) / TILE, across = (s.b + TILE - 1) / TILE;
#pragma omp parallel for num_threads(zr__team(args, s.outer *s.a *s.b)) schedule(static)
    for (int64_t t = 0; t < s.outer * down * across; t++) {
        const int64_t matrix = t / (down * across), tile = t % (down * across);
        swap_tile(&args->out[0], &args->in[0], s, matrix * s.a * s.b, tile % down * TILE, tile / down * TILE);
    }
    return ZR_OK;
}

static zr_status swap_dims(const zr_kernel_args *args, swap_sizes s)
{
    if (s.inner == 1) return swap_single(args, s);
    const int64_t rows = s.outer * s.a * s.b;
#pragma omp parallel for num_threads(zr__team(args, rows *s.inner)) schedule(static)
    for (int64_t r = 0; r < rows; r++) { /* row r of the result */
        const int64_t i = r % s.a, j = r / s.a % s.b, o = r / (s.a * s.b);
        copy_elems(&args->out[0], r * s.inner, &args->in[0], ((o * s.a + i) * s.b + j) * s.inner, s.inner);
    }
    return ZR_OK;
}

static zr_status transpose(const zr_kernel_args *args)
{
    const zr_shape *x = &args->in[0].shape;
    const int64_t a = x->dim[x->ndim - 2], b = x->dim[x->ndim - 1];
    return swap_dims(args, (swap_sizes){zr_shape_elems(x) / (a * b), a, b, 1});
}

static zr_status split_heads(const zr_kernel_args *args)
{
    const int64_t *y = args->out[0].shape.dim;
    return swap_dims(args, (swap_sizes){y[0], y[2], y[1], y[3]});
}

static zr_status merge_heads(const zr_kernel_args *args)
{
    const int64_t *x = args->in[0].shape.dim;
    return swap_dims(args, (swap_sizes){x[0], x[1], x[2], x[3]});
}

const zr_kernel ZR_LEVEL_NAME(zr__kernels_arrange)[] = {
    {"slice", .run = slice},
    {"slice_dx", .run = slice_dx},
    {"concat", .run = concat},
    {"transpose", .run = transpose},
    {"split_heads", .run = split_heads},
    {"merge_heads", .run = merge_heads},
    {0},
};
