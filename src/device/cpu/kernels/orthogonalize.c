/* The op orthogonalize: Newton-Schulz iterations (zr_ortho) of a matrix. The matrix is first copied to scratch memory,
 * so the products do not depend on its place, and the result has the same bits on every rank. Sums of squares are
 * doubles, row by row, and do not depend on the number of threads. */
#include "device/cpu/matmul.h"
#include "device/cpu/shared/rows.h"
#include "device/operands.h"

#include <math.h>

extern const zr__panel_ops ZR_LEVEL_NAME(zr__panels);

/* The matrix, of `rows` rows that are `apart` elements apart in memory. least and most: its smaller and larger side */
typedef struct sizes {
    int64_t rows, cols, apart, least, most;
    bool tall; /* whether it has more rows than columns */
    zr_dtype dtype;
} sizes;

static sizes sizes_of(const zr_type *x, const zr_op *op)
{
    const int64_t rows = x->shape.dim[0], cols = x->shape.dim[1];
    const bool tall = rows > cols;
    return (sizes){rows, cols, op->attr.i[1], tall ? cols : rows, tall ? rows : cols, tall, x->dtype};
}

/* Products of an iteration: A = X X^T or X^T X, A A, and B X or X B. */
enum { GRAM, SQUARE, APPLY, PRODUCTS };

static void make_specs(const sizes *s, zr__product_spec spec[PRODUCTS])
{
    const int64_t r = s->least, c = s->most;
    const zr__strides x = {s->cols, 1}, transposed = {1, s->cols}, square = {r, 1};
    spec[GRAM] = (zr__product_spec){
        .m = r, .n = r, .k = c, .out_dtype = s->dtype, .a = s->tall ? transposed : x, .b = s->tall ? x : transposed};
    spec[SQUARE] = (zr__product_spec){.m = r, .n = r, .k = r, .out_dtype = ZR_F32, .a = square, .b = square};
    spec[APPLY] = (zr__product_spec){
        .m = s->rows, .n = s->cols, .k = r, .out_dtype = ZR_F32, .a = s->tall ? x : square, .b = s->tall ? square : x};
    for (int i = 0; i < PRODUCTS; i++) spec[i].dtype = s->dtype;
}

/* Parts of the scratch memory: the matrix X and the symmetric matrix A in their type, the results of products in F32
 * (`wide`), the sums of squares of the rows (`sums`), and the packed operands of products. */
typedef struct layout {
    int64_t matrix, symmetric, wide, sums, panels, bytes;
} layout;

static int64_t place(int64_t *end, int64_t bytes)
{
    const int64_t begin = *end;
    *end += (bytes + 63) / 64 * 64;
    return begin;
}

static layout layout_of(const zr_device_facts *facts, const sizes *s)
{
    layout l = {0};
    int64_t panels = 0;
    zr__product_spec spec[PRODUCTS];
    make_specs(s, spec);
    for (int i = 0; i < PRODUCTS; i++) {
        const int64_t its =
            zr__matmul_scratch(facts, spec[i].m, spec[i].n, spec[i].k, spec[i].dtype, spec[i].out_dtype);
        if (its > panels) panels = its;
    }
    l.matrix = place(&l.bytes, zr_dtype_span(s->dtype, s->rows * s->cols));
    l.symmetric = place(&l.bytes, zr_dtype_span(s->dtype, s->least * s->least));
    l.wide = place(&l.bytes, 4 * s->rows * s->cols);
    l.sums = place(&l.bytes, (int64_t)sizeof(double) * s->rows);
    l.panels = place(&l.bytes, panels);
    return l;
}

static int64_t scratch_bytes(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op)
{
    const sizes s = sizes_of(zr__in_type(graph, op, 0), op);
    return layout_of(facts, &s).bytes;
}

typedef struct state {
    zr__matmul *product[PRODUCTS];
} state;

static void release(void *made)
{
    state *k = made;
    for (int i = 0; k && i < PRODUCTS; i++) zr__matmul_destroy(&k->product[i]);
    zr_free(k);
}

static zr_status prepare(const zr_kernel_args *args, void **made)
{
    const zr_type type = {args->in[0].dtype, args->in[0].shape};
    const sizes s = sizes_of(&type, args->op);
    zr__product_spec spec[PRODUCTS];
    state *k = zr_alloc(sizeof *k);
    ZR_CHECK(k, ZR_ERR_MEMORY, "no memory for an iteration's %zu bytes", sizeof *k);
    make_specs(&s, spec);
    zr_status st = ZR_OK;
    for (int i = 0; i < PRODUCTS && st == ZR_OK; i++) {
        spec[i].threads = args->threads;
        st = zr__matmul_create(&spec[i], &ZR_LEVEL_NAME(zr__panels), &k->product[i]);
    }
    if (st != ZR_OK)
        release(k);
    else
        *made = k;
    return st;
}

/* Compute x = x_factor x + y_factor y for n elements, where y is F32. */
static void combine(const zr_kernel_args *args, void *x, zr_dtype dtype, float x_factor, const float *y, float y_factor,
                    int64_t n)
{
#pragma omp parallel for num_threads(zr__team(args, n)) schedule(static)
    for (int64_t i = 0; i < n; i += ZR_CHUNK) {
        float buffer[ZR_CHUNK], *to = zr__target(buffer, x, dtype, i);
        const int64_t part = zr__min64(ZR_CHUNK, n - i);
        const float *from = zr__view(buffer, x, dtype, i, part);
        for (int64_t k = 0; k < part; k++) to[k] = ZR_FMA(x_factor, from[k], y_factor * y[i + k]);
        zr__settle(x, dtype, i, to, part);
    }
}

/* Copy the matrix's rows to `to`, where they follow each other, and return its Frobenius norm. */
static double take(const zr_kernel_args *args, const sizes *s, void *to, double *sums)
{
    enum { LANES = 8 };
    double all = 0;
#pragma omp parallel for num_threads(zr__team(args, s->rows * s->cols)) schedule(static)
    for (int64_t r = 0; r < s->rows; r++) {
        double lane[LANES] = {0};
        memcpy((char *)to + zr_dtype_span(s->dtype, r * s->cols),
               (const char *)args->in[0].data + zr_dtype_span(s->dtype, r * s->apart),
               (size_t)zr_dtype_span(s->dtype, s->cols));
        for (int64_t i = 0; i < s->cols; i += ZR_CHUNK) {
            float buffer[ZR_CHUNK];
            const int64_t part = zr__min64(ZR_CHUNK, s->cols - i);
            const float *x = zr__view(buffer, to, s->dtype, r * s->cols + i, part);
            for (int64_t k = 0; k < part; k++) lane[k % LANES] += (double)x[k] * x[k];
        }
        sums[r] = ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
    }
    for (int64_t r = 0; r < s->rows; r++) all += sums[r];
    return sqrt(all);
}

/* Divide the n elements of x. */
static void divide(const zr_kernel_args *args, void *x, zr_dtype dtype, float by, int64_t n)
{
#pragma omp parallel for num_threads(zr__team(args, n)) schedule(static)
    for (int64_t i = 0; i < n; i += ZR_CHUNK) {
        float buffer[ZR_CHUNK], *to = zr__target(buffer, x, dtype, i);
        const int64_t part = zr__min64(ZR_CHUNK, n - i);
        const float *from = zr__view(buffer, x, dtype, i, part);
        for (int64_t k = 0; k < part; k++) to[k] = from[k] / by;
        zr__settle(x, dtype, i, to, part);
    }
}

/* Write the result to the matrix's rows. Write 0 for -0, because a sum of results and zeros over ranks gives 0. */
static void put(const zr_kernel_args *args, const sizes *s, const void *from)
{
#pragma omp parallel for num_threads(zr__team(args, s->rows * s->cols)) schedule(static)
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t i = 0; i < s->cols; i += ZR_CHUNK) {
            float buffer[ZR_CHUNK], *to = zr__target(buffer, args->out[0].data, s->dtype, r * s->apart + i);
            const int64_t part = zr__min64(ZR_CHUNK, s->cols - i);
            const float *x = zr__view(buffer, from, s->dtype, r * s->cols + i, part);
            for (int64_t k = 0; k < part; k++) to[k] = x[k] == 0 ? 0 : x[k];
            zr__settle(args->out[0].data, s->dtype, r * s->apart + i, to, part);
        }
}

static zr_status orthogonalize(const zr_kernel_args *args)
{
    const zr_type type = {args->in[0].dtype, args->in[0].shape};
    const sizes s = sizes_of(&type, args->op);
    const zr_op_attr *attr = &args->op->attr;
    const state *k = args->state;
    const layout l = layout_of(&args->device->profile.facts, &s);
    const int64_t elems = s.rows * s.cols, square = s.least * s.least;
    char *at = args->scratch, *x = at + l.matrix, *a = at + l.symmetric;
    float *wide = (float *)(at + l.wide);
    const double norm = take(args, &s, x, (double *)(at + l.sums)), eps = attr->f[3];
    const double by = attr->i[2] ? norm + eps : fmax(norm, eps);
    const zr__matmul_operands gram = {.a = x, .b = x, .c = a, .panels = at + l.panels},
                              squared = {.a = a, .b = a, .c = wide, .panels = at + l.panels},
                              apply = {.a = s.tall ? x : a, .b = s.tall ? a : x, .c = wide, .panels = at + l.panels};
    if (by > 0) divide(args, x, s.dtype, (float)by, elems); /* a matrix of zeros stays zero */
    for (int64_t i = 0; i < attr->i[0]; i++) {
        ZR_TRY(zr__matmul_run(k->product[GRAM], &gram));
        ZR_TRY(zr__matmul_run(k->product[SQUARE], &squared));
        combine(args, a, s.dtype, (float)attr->f[1], wide, (float)attr->f[2], square);
        ZR_TRY(zr__matmul_run(k->product[APPLY], &apply));
        combine(args, x, s.dtype, (float)attr->f[0], wide, 1.0f, elems);
    }
    put(args, &s, x);
    return ZR_OK;
}

const zr_kernel ZR_LEVEL_NAME(zr__kernels_orthogonalize)[] = {
    {"orthogonalize", .prepare = prepare, .run = orthogonalize, .release = release, .scratch_bytes = scratch_bytes},
    {0}};
