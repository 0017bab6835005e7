/* Muon in double precision, by the formulas of torch.optim.Muon, Keller Jordan and Moonlight. */
#ifndef ZR_TESTS_MUON_REFERENCE_H
#define ZR_TESTS_MUON_REFERENCE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "zr/graph.h"

/* Compute C (m,n) = A B, where element (i, k) of A is a[i * ai + k * ak], and element (k, j) of B is b[k * bk + j *
 * bj]. */
static inline void muon_multiply(int64_t m, int64_t n, int64_t k, const double *a, int64_t ai, int64_t ak,
                                 const double *b, int64_t bk, int64_t bj, double *c)
{
    memset(c, 0, sizeof *c * (size_t)(m * n));
    for (int64_t i = 0; i < m; i++)
        for (int64_t l = 0; l < k; l++)
            for (int64_t j = 0; j < n; j++) c[i * n + j] += a[i * ai + l * ak] * b[l * bk + j * bj];
}

/* Make x (rows, cols) orthogonal by Newton-Schulz iterations. */
static inline void muon_orthogonalize(const zr_ortho *ortho, int64_t rows, int64_t cols, double *x)
{
    const bool tall = rows > cols;
    const int64_t r = tall ? cols : rows, c = tall ? rows : cols, n = rows * cols;
    double *t = malloc(sizeof *t * (size_t)(2 * n + 3 * r * r)), *y = t + n, *a = y + n, *square = a + r * r, sum = 0;
    for (int64_t i = 0; i < rows; i++) /* transposed if it is tall */
        for (int64_t j = 0; j < cols; j++) t[tall ? j * rows + i : i * cols + j] = x[i * cols + j];
    for (int64_t i = 0; i < n; i++) sum += t[i] * t[i];
    const double norm = ortho->eps_added ? sqrt(sum) + ortho->eps : fmax(sqrt(sum), ortho->eps);
    for (int64_t i = 0; i < n; i++) t[i] = norm > 0 ? t[i] / norm : 0;
    for (int s = 0; s < ortho->steps; s++) {
        muon_multiply(r, r, c, t, c, 1, t, 1, c, a);
        muon_multiply(r, r, r, a, r, 1, a, r, 1, square);
        for (int64_t i = 0; i < r * r; i++) a[i] = ortho->b * a[i] + ortho->c * square[i];
        muon_multiply(r, c, r, a, r, 1, t, c, 1, y);
        for (int64_t i = 0; i < n; i++) t[i] = ortho->a * t[i] + y[i];
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) x[i * cols + j] = t[tall ? j * rows + i : i * cols + j];
    free(t);
}

/* Return the relative distance of x from y in the Frobenius norm. */
static inline double muon_distance(const double *x, const double *y, int64_t n)
{
    double off = 0, all = 0;
    for (int64_t i = 0; i < n; i++) {
        off += (x[i] - y[i]) * (x[i] - y[i]);
        all += y[i] * y[i];
    }
    return sqrt(off / all);
}

#endif
