/* The op orthogonalize: Newton-Schulz iterations (zr_ortho) of a matrix, as in src/device/cpu/kernels/orthogonalize.c.
 * The matrix is first copied to scratch memory, where products read and write it. */
#include "device/cuda/launch.h"
#include "device/cuda/products.h"
#include "device/cuda/scratch.h"

namespace
{

/* Elements of a block of the sum of squares, and threads that add them. */
constexpr int64_t square_elems = ZR__CUDA_SQUARE_ELEMS;
constexpr int square_threads = 256;

/* Products of an iteration: A = X X^T or X^T X, A A, and B X or X B. */
enum { GRAM, SQUARE, APPLY, PRODUCTS };

struct state {
    zr__cuda_product *product[PRODUCTS];
};

void release_ortho(void *made)
{
    auto *k = (state *)made;
    if (!k) return;
    for (int i = 0; i < PRODUCTS; i++) zr__cuda_product_destroy(&k->product[i]);
    zr_free(k);
}

/* The matrix, its sides, and the parts of its scratch. */
struct matrix {
    int64_t rows, cols, apart, least, elems;
    bool tall;
    zr_dtype dtype;
    zr__cuda_ortho at;
    char *scratch;
    zr__cuda_product_operands used[PRODUCTS];
};

matrix matrix_of(const zr_kernel_args *args)
{
    matrix m = {};
    m.rows = args->in[0].shape.dim[0];
    m.cols = args->in[0].shape.dim[1];
    m.apart = args->op->attr.i[1];
    m.tall = m.rows > m.cols;
    m.least = m.tall ? m.cols : m.rows;
    m.elems = m.rows * m.cols;
    m.dtype = args->in[0].dtype;
    m.at = zr__cuda_ortho_make(m.rows, m.cols, m.dtype);
    m.scratch = (char *)args->scratch;
    char *x = m.scratch + m.at.matrix, *a = m.scratch + m.at.symmetric, *wide = m.scratch + m.at.wide,
         *workspace = m.scratch + m.at.workspace;
    m.used[GRAM] = {x, x, nullptr, nullptr, a, workspace};
    m.used[SQUARE] = {a, a, nullptr, nullptr, wide, workspace};
    m.used[APPLY] = {m.tall ? x : a, m.tall ? a : x, nullptr, nullptr, wide, workspace};
    return m;
}

zr_status make_products(const zr_kernel_args *args, state *k)
{
    const matrix m = matrix_of(args);
    const int64_t r = m.least, c = m.tall ? m.rows : m.cols;
    zr__cuda_product_spec spec[PRODUCTS] = {zr__cuda_product_spec_make(r, r, c, m.dtype, m.dtype),
                                            zr__cuda_product_spec_make(r, r, r, m.dtype, ZR_F32),
                                            zr__cuda_product_spec_make(m.rows, m.cols, r, m.dtype, ZR_F32)};
    spec[GRAM].a_transposed = m.tall;
    spec[GRAM].b_transposed = !m.tall;
    for (int i = 0; i < PRODUCTS; i++)
        ZR_TRY(zr__cuda_product_create(args->device, &spec[i], &m.used[i], &k->product[i]));
    return ZR_OK;
}

zr_status prepare_ortho(const zr_kernel_args *args, void **made)
{
    auto *k = (state *)zr_alloc(sizeof(state));
    ZR_CHECK(k, ZR_ERR_MEMORY, "no memory for an iteration's %zu bytes", sizeof *k);
    const zr_status st = make_products(args, k);
    if (st != ZR_OK) {
        release_ortho(k);
        return zr_error_frame(st, __func__, __FILE__, __LINE__);
    }
    *made = k;
    return ZR_OK;
}

/* ---- elements ---------------------------------------------------------------------------------- */

/* Copy rows that are apart in memory to rows that follow each other. */
__global__ void take_rows(zr__array to, zr__array from, int64_t rows, int64_t cols, int64_t apart)
{
    for (int64_t i = zr__first(); i < rows * cols; i += zr__step())
        zr__put(to, i, zr__get(from, i / cols * apart + i % cols));
}

/* Copy the result back. Write 0 for -0, because a sum of results and zeros over ranks gives 0. */
__global__ void put_rows(zr__array to, zr__array from, int64_t rows, int64_t cols, int64_t apart)
{
    for (int64_t i = zr__first(); i < rows * cols; i += zr__step()) {
        const float x = zr__get(from, i);
        zr__put(to, i / cols * apart + i % cols, x == 0.0f ? 0.0f : x);
    }
}

/* Each block of threads adds the squares of one block of elements. */
__global__ void square_parts(double *part, zr__array x, int64_t n)
{
    const int64_t begin = (int64_t)blockIdx.x * square_elems;
    double sum = 0;
    for (int64_t i = begin + threadIdx.x; i < begin + square_elems && i < n; i += square_threads) {
        const double value = zr__get(x, i);
        sum += value * value;
    }
    sum = zr__block_all(sum, zr__plus(), 0.0);
    if (threadIdx.x == 0) part[blockIdx.x] = sum;
}

/* Add the sums of the blocks, and write the number by which the matrix is divided; 1 for a zero matrix without eps. */
__global__ void square_join(float *by, const double *part, int64_t parts, double eps, bool added)
{
    double sum = 0;
    for (int64_t i = threadIdx.x; i < parts; i += square_threads) sum += part[i];
    sum = sqrt(zr__block_all(sum, zr__plus(), 0.0));
    const double norm = added ? sum + eps : fmax(sum, eps);
    if (threadIdx.x == 0) *by = norm > 0 ? (float)norm : 1.0f;
}

__global__ void divide(zr__array x, const float *by, int64_t n)
{
    for (int64_t i = zr__first(); i < n; i += zr__step()) zr__put(x, i, zr__get(x, i) / *by);
}

/* Compute x = x_factor x + y_factor y. */
__global__ void combine(zr__array x, float x_factor, const float *y, float y_factor, int64_t n)
{
    for (int64_t i = zr__first(); i < n; i += zr__step()) zr__put(x, i, fmaf(x_factor, zr__get(x, i), y_factor * y[i]));
}

constexpr int threads = 256;

zr_status run_ortho(const zr_kernel_args *args)
{
    const matrix m = matrix_of(args);
    const zr_op_attr *attr = &args->op->attr;
    const auto *k = (const state *)args->state;
    const cudaStream_t stream = zr__stream_of(args);
    const zr__array x = {m.scratch + m.at.matrix, m.dtype}, a = {m.scratch + m.at.symmetric, m.dtype};
    const float *wide = (const float *)(m.scratch + m.at.wide);
    double *part = (double *)(m.scratch + m.at.sums);
    float *by = (float *)(m.scratch + m.at.norm);
    const int64_t square = m.least * m.least, parts = zr__ceil_div(m.elems, square_elems);
    const unsigned blocks = zr__blocks(m.elems, threads);
    ZR_LAUNCH(stream, take_rows, blocks, threads, 0, x, zr__array_of(&args->in[0]), m.rows, m.cols, m.apart);
    ZR_LAUNCH(stream, square_parts, (unsigned)parts, square_threads, 0, part, x, m.elems);
    ZR_LAUNCH(stream, square_join, 1, square_threads, 0, by, part, parts, attr->f[3], attr->i[2] != 0);
    ZR_LAUNCH(stream, divide, blocks, threads, 0, x, by, m.elems);
    ZR_TRY(zr__launched());
    for (int64_t i = 0; i < attr->i[0]; i++) {
        ZR_TRY(zr__cuda_product_run(k->product[GRAM], args->device, &m.used[GRAM]));
        ZR_TRY(zr__cuda_product_run(k->product[SQUARE], args->device, &m.used[SQUARE]));
        ZR_LAUNCH(stream, combine, zr__blocks(square, threads), threads, 0, a, (float)attr->f[1], wide,
                  (float)attr->f[2], square);
        ZR_TRY(zr__cuda_product_run(k->product[APPLY], args->device, &m.used[APPLY]));
        ZR_LAUNCH(stream, combine, blocks, threads, 0, x, (float)attr->f[0], wide, 1.0f, m.elems);
        ZR_TRY(zr__launched());
    }
    ZR_LAUNCH(stream, put_rows, blocks, threads, 0, zr__array_of(&args->out[0]), x, m.rows, m.cols, m.apart);
    return zr__launched();
}

} // namespace

ZR_CUDA_KERNELS(orthogonalize) = {zr__kernel("orthogonalize", run_ortho, prepare_ortho, release_ortho), {}};
