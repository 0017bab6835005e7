/*
 * The linear ops: products by matmul.c with this level's panels, and the gradient of the bias.
 */
#include "device/cpu/level.h"
#include "device/cpu/matmul.h"

static void widen(int threads, float *panel, const uint16_t *block, zr_dtype dtype, int64_t rows, int64_t cols,
                  int64_t ld)
{
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t r = 0; r < rows; r++) zr__widen(panel + r * cols, block + r * ld, dtype, cols);
}

static void begin(int threads, float *panel, const float *earlier, const uint16_t *bias, zr_dtype dtype, int64_t rows,
                  int64_t cols, int64_t ld)
{
    const size_t bytes = (size_t)cols * sizeof(float);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        float *row = panel + r * cols;
        if (earlier)
            memcpy(row, earlier + r * ld, bytes);
        else if (bias)
            zr__widen(row, bias, dtype, cols);
        else
            memset(row, 0, bytes);
    }
}

static void store(int threads, void *block, zr_dtype dtype, const float *panel, int64_t rows, int64_t cols, int64_t ld)
{
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t r = 0; r < rows; r++) zr__store(block, dtype, r * ld, panel + r * cols, cols);
}

const zr__panel_ops ZR_LEVEL_NAME(zr__panels) = {
#if defined(ZR_LEVEL_v4bf16)
    .bf16_products = true,
#endif
    .widen = widen,
    .begin = begin,
    .store = store,
};

static zr_status prepare_forward(const zr_kernel_args *args, void **state)
{
    return zr__matmul_prepare(args, ZR__LINEAR, &ZR_LEVEL_NAME(zr__panels), state);
}

static zr_status prepare_dx(const zr_kernel_args *args, void **state)
{
    return zr__matmul_prepare(args, ZR__LINEAR_DX, &ZR_LEVEL_NAME(zr__panels), state);
}

static zr_status prepare_dw(const zr_kernel_args *args, void **state)
{
    return zr__matmul_prepare(args, ZR__LINEAR_DW, &ZR_LEVEL_NAME(zr__panels), state);
}

/* Columns summed at a time, and rows whose sum is made apart before it joins the total: the error
 * then grows with the number of groups, not of rows. */
#define DB_COLS 256
#define DB_ROWS 32

static void add_row(float *restrict sum, const void *x, zr_dtype dtype, int64_t first, int64_t n)
{
    float wide[DB_COLS];
    zr__load(wide, x, dtype, first, n);
    for (int64_t i = 0; i < n; i++) sum[i] += wide[i];
}

static void add_group(float *restrict total, const zr_tensor *dy, int64_t row, int64_t rows, int64_t col, int64_t n)
{
    float sum[DB_COLS] = {0};
    int64_t ld = zr_shape_cols(&dy->shape);
    for (int64_t r = row; r < row + rows; r++) add_row(sum, dy->data, dy->dtype, r * ld + col, n);
    for (int64_t i = 0; i < n; i++) total[i] += sum[i];
}

static zr_status run_db(const zr_kernel_args *args)
{
    const zr_tensor *dy = &args->in[0], *db = &args->out[0];
    const float *earlier = args->n_in > 1 ? args->in[1].data : NULL;
    const int64_t rows = zr_shape_rows(&dy->shape), cols = zr_shape_cols(&dy->shape);
#pragma omp parallel for num_threads(args->threads) schedule(static)
    for (int64_t col = 0; col < cols; col += DB_COLS) {
        float total[DB_COLS] = {0};
        int64_t n = zr__min64(DB_COLS, cols - col);
        for (int64_t row = 0; row < rows; row += DB_ROWS)
            add_group(total, dy, row, zr__min64(DB_ROWS, rows - row), col, n);
        for (int64_t i = 0; earlier && i < n; i++) total[i] += earlier[col + i];
        zr__store(db->data, db->dtype, col, total, n);
    }
    return ZR_OK;
}

const zr_kernel ZR_LEVEL_NAME(zr__kernels_linear)[] = {
    {"linear", prepare_forward, zr__matmul_run, zr__matmul_release},
    {"linear_dx", prepare_dx, zr__matmul_run, zr__matmul_release},
    {"linear_dw", prepare_dw, zr__matmul_run, zr__matmul_release},
    {"linear_db", NULL, run_db, NULL},
    {0},
};
