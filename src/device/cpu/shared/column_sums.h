/* Sums over the rows of a matrix, for gradients of biases. */
#ifndef ZR_DEVICE_CPU_COLUMN_SUMS_H
#define ZR_DEVICE_CPU_COLUMN_SUMS_H

#include "device/cpu/shared/rows.h"

/* SUM_COLS: maximum number of columns summed at a time. SUM_ROWS: number of rows in a group. Each group is summed
 * first, and its sum is added to the total. The rounding error then grows with the number of groups and not with the
 * number of rows. */
#define ZR_SUM_COLS 256
#define ZR_SUM_ROWS 32
#define ZR_SUM_STEP 4 /* number of rows added in one pass, in order, with the sums in registers */

static inline void zr__sum_step(float *restrict sum, const zr_tensor *x, int64_t first, int64_t ld, int64_t n)
{
    float wide[ZR_SUM_STEP][ZR_SUM_COLS];
    const float *row[ZR_SUM_STEP];
    for (int r = 0; r < ZR_SUM_STEP; r++) row[r] = zr__view(wide[r], x->data, x->dtype, first + r * ld, n);
    for (int64_t i = 0; i < n; i++) sum[i] = (((sum[i] + row[0][i]) + row[1][i]) + row[2][i]) + row[3][i];
}

static inline void zr__sum_group(float *restrict total, const zr_tensor *x, int64_t row, int64_t rows, int64_t ld,
                                 int64_t col, int64_t n)
{
    float sum[ZR_SUM_COLS] = {0};
    const int64_t end = row + rows;
    for (; row + ZR_SUM_STEP <= end; row += ZR_SUM_STEP) zr__sum_step(sum, x, row * ld + col, ld, n);
    for (; row < end; row++) zr__add_to(sum, x, row * ld + col, n);
    for (int64_t i = 0; i < n; i++) total[i] += sum[i];
}

/* Return the number of columns that a thread sums at a time. The columns are divided evenly among the threads, in whole
 * cache lines of 16 floats, but a thread sums at most ZR_SUM_COLS columns at a time. */
static inline int64_t zr__sum_piece(int64_t cols, int threads)
{
    const int64_t line = 16, lines = (cols + line * threads - 1) / (line * threads);
    return zr__min64(ZR_SUM_COLS, lines * line);
}

/* Compute out = earlier + the sums of the columns of x (rows, cols). `earlier` may be NULL, or the data of an F32
 * `out`. */
static inline void zr__column_sums(const zr_kernel_args *args, const zr_tensor *x, int64_t rows, int64_t cols,
                                   const float *earlier, const zr_tensor *out)
{
    const int threads = zr__team(args, rows * cols);
    const int64_t piece = zr__sum_piece(cols, threads);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t col = 0; col < cols; col += piece) {
        float total[ZR_SUM_COLS] = {0};
        const int64_t n = zr__min64(piece, cols - col);
        for (int64_t row = 0; row < rows; row += ZR_SUM_ROWS)
            zr__sum_group(total, x, row, zr__min64(ZR_SUM_ROWS, rows - row), cols, col, n);
        for (int64_t i = 0; earlier && i < n; i++) total[i] += earlier[col + i];
        zr__store(out->data, out->dtype, col, total, n);
    }
}

#endif
