/* layernorm, layernorm_dx, layernorm_dw. */
#include <math.h>

#include "device/cpu/rows.h"

#define ROW_CHUNKS 16 /* partial sums of layernorm_dw: fixed, so that threads do not show in the bits */

/* out = x - mean */
static void centre(float *restrict out, const float *restrict x, float mean, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = x[i] - mean;
}

/* Two passes: the variance of rows far from 0 would drown in E[x^2] - E[x]^2. */
static void row_moments(const zr_tensor *x, int64_t row, int64_t C, double eps, float *mean, float *rstd)
{
    float buffer[ZR_CHUNK], centred[ZR_CHUNK];
    float sum = 0.0f, square = 0.0f;
    for (int64_t c0 = 0; c0 < C; c0 += ZR_CHUNK) {
        int64_t n = zr__min64(ZR_CHUNK, C - c0);
        sum += zr__sum(zr__view(buffer, x->data, x->dtype, row * C + c0, n), n);
    }
    *mean = sum / (float)C;
    for (int64_t c0 = 0; c0 < C; c0 += ZR_CHUNK) {
        int64_t n = zr__min64(ZR_CHUNK, C - c0);
        centre(centred, zr__view(buffer, x->data, x->dtype, row * C + c0, n), *mean, n);
        square += zr__dot(centred, centred, n);
    }
    *rstd = (float)(1.0 / sqrt((double)(square / (float)C) + eps));
}

static zr_status layernorm(const zr_kernel_args *args)
{
    const zr_tensor *x = &args->in[0], *gain = &args->in[1], *bias = &args->in[2], *out = &args->out[0];
    const int64_t rows = zr_shape_rows(&x->shape), C = zr_shape_cols(&x->shape);
    float *means = args->out[1].data, *rstds = args->out[2].data;
#pragma omp parallel for num_threads(zr__team(args, rows *C)) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        float xbuf[ZR_CHUNK], gbuf[ZR_CHUNK], bbuf[ZR_CHUNK], y[ZR_CHUNK], mean, rstd;
        row_moments(x, r, C, args->op->attr.f[0], &mean, &rstd);
        for (int64_t c0 = 0; c0 < C; c0 += ZR_CHUNK) {
            int64_t n = zr__min64(ZR_CHUNK, C - c0);
            const float *v = zr__view(xbuf, x->data, x->dtype, r * C + c0, n);
            const float *g = zr__view(gbuf, gain->data, gain->dtype, c0, n);
            const float *b = zr__view(bbuf, bias->data, bias->dtype, c0, n);
            for (int64_t c = 0; c < n; c++) y[c] = ZR_FMA((v[c] - mean) * rstd, g[c], b[c]);
            zr__store(out->data, out->dtype, r * C + c0, y, n);
        }
        means[r] = mean;
        rstds[r] = rstd;
    }
    return ZR_OK;
}

/* xhat = (x - mean) rstd and dxhat = dy gain, of a part of a row. */
static void row_terms(const zr_kernel_args *args, int64_t row, int64_t C, int64_t c0, int64_t n, float *restrict xhat,
                      float *restrict dxhat)
{
    const zr_tensor *dy = &args->in[0], *x = &args->in[1], *gain = &args->in[2];
    const float mean = ((const float *)args->in[3].data)[row], rstd = ((const float *)args->in[4].data)[row];
    float buffer[ZR_CHUNK], gbuf[ZR_CHUNK];
    const float *v = zr__view(buffer, x->data, x->dtype, row * C + c0, n);
    for (int64_t c = 0; c < n; c++) xhat[c] = (v[c] - mean) * rstd;
    const float *d = zr__view(buffer, dy->data, dy->dtype, row * C + c0, n);
    const float *g = zr__view(gbuf, gain->data, gain->dtype, c0, n);
    for (int64_t c = 0; c < n; c++) dxhat[c] = d[c] * g[c];
}

/* dx = rstd (dxhat - average of dxhat - xhat * average of dxhat xhat) */
static void row_dx(const zr_kernel_args *args, int64_t row, int64_t C)
{
    const zr_tensor *earlier = &args->in[5], *out = &args->out[0];
    const float rstd = ((const float *)args->in[4].data)[row];
    float xhat[ZR_CHUNK], dxhat[ZR_CHUNK], dx[ZR_CHUNK];
    float sum = 0.0f, product = 0.0f;
    for (int64_t c0 = 0; c0 < C; c0 += ZR_CHUNK) {
        int64_t n = zr__min64(ZR_CHUNK, C - c0);
        row_terms(args, row, C, c0, n, xhat, dxhat);
        sum += zr__sum(dxhat, n);
        product += zr__dot(dxhat, xhat, n);
    }
    const float a = sum / (float)C, b = product / (float)C;
    for (int64_t c0 = 0; c0 < C; c0 += ZR_CHUNK) {
        int64_t n = zr__min64(ZR_CHUNK, C - c0);
        if (C > ZR_CHUNK) row_terms(args, row, C, c0, n, xhat, dxhat);
        for (int64_t c = 0; c < n; c++) dx[c] = rstd * (dxhat[c] - a - xhat[c] * b);
        if (earlier->data) {
            const float *e = zr__view(xhat, earlier->data, earlier->dtype, row * C + c0, n);
            for (int64_t c = 0; c < n; c++) dx[c] = e[c] + dx[c];
        }
        zr__store(out->data, out->dtype, row * C + c0, dx, n);
    }
}

static zr_status layernorm_dx(const zr_kernel_args *args)
{
    const int64_t rows = zr_shape_rows(&args->in[1].shape), C = zr_shape_cols(&args->in[1].shape);
#pragma omp parallel for num_threads(zr__team(args, rows *C)) schedule(static)
    for (int64_t r = 0; r < rows; r++) row_dx(args, r, C);
    return ZR_OK;
}

/* Sums of dy xhat and of dy over rows [begin, end), of columns [c0, c0+n). */
static void chunk_dw(const zr_kernel_args *args, int64_t C, int64_t begin, int64_t end, int64_t c0, int64_t n,
                     float *restrict dgain, float *restrict dbias)
{
    const zr_tensor *dy = &args->in[0], *x = &args->in[1];
    const float *mean = args->in[2].data, *rstd = args->in[3].data;
    float dbuf[ZR_CHUNK], xbuf[ZR_CHUNK];
    memset(dgain, 0, (size_t)n * sizeof(float));
    memset(dbias, 0, (size_t)n * sizeof(float));
    for (int64_t r = begin; r < end; r++) {
        const float *d = zr__view(dbuf, dy->data, dy->dtype, r * C + c0, n);
        const float *v = zr__view(xbuf, x->data, x->dtype, r * C + c0, n);
        const float m = mean[r], s = rstd[r];
        for (int64_t c = 0; c < n; c++) {
            dgain[c] = ZR_FMA(d[c], (v[c] - m) * s, dgain[c]);
            dbias[c] += d[c];
        }
    }
}

static zr_status layernorm_dw(const zr_kernel_args *args)
{
    const int64_t rows = zr_shape_rows(&args->in[1].shape), C = zr_shape_cols(&args->in[1].shape);
    const int64_t pieces = (C + ZR_CHUNK - 1) / ZR_CHUNK;
    float *partial = args->scratch; /* (ROW_CHUNKS, 2, C) */
#pragma omp parallel num_threads(zr__team(args, rows *C))
    {
#pragma omp for collapse(2) schedule(static)
        for (int64_t k = 0; k < ROW_CHUNKS; k++)
            for (int64_t piece = 0; piece < pieces; piece++) {
                int64_t c0 = piece * ZR_CHUNK;
                float *dgain = partial + 2 * k * C + c0;
                chunk_dw(args, C, rows * k / ROW_CHUNKS, rows * (k + 1) / ROW_CHUNKS, c0, zr__min64(ZR_CHUNK, C - c0),
                         dgain, dgain + C);
            }
            /* The two outputs' pieces one after the other, chunks added in order. */
#pragma omp for schedule(static)
        for (int64_t piece = 0; piece < 2 * pieces; piece++) {
            const zr_tensor *out = &args->out[piece / pieces];
            int64_t c0 = piece % pieces * ZR_CHUNK, n = zr__min64(ZR_CHUNK, C - c0);
            const float *first = partial + piece / pieces * C + c0;
            float sum[ZR_CHUNK];
            memcpy(sum, first, (size_t)n * sizeof(float));
            for (int64_t k = 1; k < ROW_CHUNKS; k++)
                for (int64_t c = 0; c < n; c++) sum[c] += first[2 * k * C + c];
            zr__store(out->data, out->dtype, c0, sum, n);
        }
    }
    return ZR_OK;
}

extern const zr_kernel ZR_LEVEL_NAME(zr__kernels_layernorm)[];
const zr_kernel ZR_LEVEL_NAME(zr__kernels_layernorm)[] = {
    {"layernorm", NULL, layernorm, NULL},
    {"layernorm_dx", NULL, layernorm_dx, NULL},
    {"layernorm_dw", NULL, layernorm_dw, NULL},
    {NULL, NULL, NULL, NULL},
};
