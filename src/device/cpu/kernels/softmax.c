/* Ops softmax, softmax_dx, mean and mean_dx, over the last dimension. */
#include "device/cpu/shared/rows.h"

/* Compute y = e^(x - top), or y = 0 if the result is below e^-87. */
static void exps(float *restrict y, const float *restrict x, float top, int64_t n)
{
    ZR_WIDE_LOOP
    for (int64_t c = 0; c < n; c++) y[c] = zr__expf_low(x[c] - top);
}

static void times(float *y, const float *x, float factor, int64_t n)
{
    ZR_STREAM_LOOP
    for (int64_t c = 0; c < n; c++) y[c] = x[c] * factor;
}

/* Compute the softmax of a row. The exponentials are computed twice, once for the sum and once for the result, because
 * storing them in a 16-bit output would round the results twice. */
static void row_softmax(const zr_tensor *out, const zr_tensor *x, int64_t row, int64_t C)
{
    float xbuf[ZR_CHUNK], e[ZR_CHUNK], top = 0.0f, sum = 0.0f;
    for (int64_t c0 = 0; c0 < C; c0 += ZR_CHUNK) {
        int64_t n = zr__min64(ZR_CHUNK, C - c0);
        float most = zr__max(zr__view(xbuf, x->data, x->dtype, row * C + c0, n), n);
        top = c0 == 0 || most > top ? most : top;
    }
    for (int64_t c0 = 0; c0 < C; c0 += ZR_CHUNK) {
        int64_t n = zr__min64(ZR_CHUNK, C - c0);
        exps(e, zr__view(xbuf, x->data, x->dtype, row * C + c0, n), top, n);
        sum += zr__sum(e, n);
    }
    for (int64_t c0 = 0; c0 < C; c0 += ZR_CHUNK) {
        int64_t n = zr__min64(ZR_CHUNK, C - c0);
        float ybuf[ZR_CHUNK], *y = zr__target(ybuf, out->data, out->dtype, row * C + c0);
        exps(e, zr__view(xbuf, x->data, x->dtype, row * C + c0, n), top, n);
        times(y, e, 1.0f / sum, n);
        zr__settle(out->data, out->dtype, row * C + c0, y, n);
    }
}

static zr_status softmax(const zr_kernel_args *args)
{
    const int64_t rows = zr_shape_rows(&args->in[0].shape), C = zr_shape_cols(&args->in[0].shape);
#pragma omp parallel for num_threads(zr__team(args, rows *C)) schedule(static)
    for (int64_t r = 0; r < rows; r++) row_softmax(&args->out[0], &args->in[0], r, C);
    return ZR_OK;
}

/* Compute dx = y * (dy - a), where a is the row's sum of dy * y. */
static void part_dx(float *dx, const float *dy, const float *y, float a, int64_t n)
{
    ZR_STREAM_LOOP
    for (int64_t c = 0; c < n; c++) dx[c] = y[c] * (dy[c] - a);
}

static void row_softmax_dx(const zr_kernel_args *args, int64_t row, int64_t C)
{
    const zr_tensor *dy = &args->in[0], *y = &args->in[1], *out = &args->out[0];
    float dbuf[ZR_CHUNK], ybuf[ZR_CHUNK], made[ZR_CHUNK], sum = 0.0f;
    for (int64_t c0 = 0; c0 < C; c0 += ZR_CHUNK) {
        int64_t n = zr__min64(ZR_CHUNK, C - c0), at = row * C + c0;
        sum += zr__dot(zr__view(dbuf, dy->data, dy->dtype, at, n), zr__view(ybuf, y->data, y->dtype, at, n), n);
    }
    for (int64_t c0 = 0; c0 < C; c0 += ZR_CHUNK) {
        int64_t n = zr__min64(ZR_CHUNK, C - c0), at = row * C + c0;
        float *dx = zr__target(made, out->data, out->dtype, at);
        part_dx(dx, zr__view(dbuf, dy->data, dy->dtype, at, n), zr__view(ybuf, y->data, y->dtype, at, n), sum, n);
        zr__settle(out->data, out->dtype, at, dx, n);
    }
}

static zr_status softmax_dx(const zr_kernel_args *args)
{
    const int64_t rows = zr_shape_rows(&args->in[0].shape), C = zr_shape_cols(&args->in[0].shape);
#pragma omp parallel for num_threads(zr__team(args, rows *C)) schedule(static)
    for (int64_t r = 0; r < rows; r++) row_softmax_dx(args, r, C);
    return ZR_OK;
}

/* ---- mean ------------------------------------------------------------------------------------ */

static zr_status mean(const zr_kernel_args *args)
{
    const zr_tensor *x = &args->in[0], *out = &args->out[0];
    const int64_t rows = zr_shape_rows(&x->shape), C = zr_shape_cols(&x->shape);
#pragma omp parallel for num_threads(zr__team(args, rows *C)) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        const float y = zr__row_mean(x, r, C);
        zr__store(out->data, out->dtype, r, &y, 1);
    }
    return ZR_OK;
}

static zr_status mean_dx(const zr_kernel_args *args)
{
    const zr_tensor *dy = &args->in[0], *out = &args->out[0];
    const int64_t rows = zr_shape_rows(&out->shape), C = zr_shape_cols(&out->shape);
#pragma omp parallel for num_threads(zr__team(args, rows *C)) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        float d, dx[ZR_CHUNK];
        zr__load(&d, dy->data, dy->dtype, r, 1);
        for (int64_t c = 0; c < zr__min64(ZR_CHUNK, C); c++) dx[c] = d / (float)C;
        for (int64_t c0 = 0; c0 < C; c0 += ZR_CHUNK)
            zr__store(out->data, out->dtype, r * C + c0, dx, zr__min64(ZR_CHUNK, C - c0));
    }
    return ZR_OK;
}

const zr_kernel ZR_LEVEL_NAME(zr__kernels_softmax)[] = {
    {"softmax", .run = softmax},
    {"softmax_dx", .run = softmax_dx},
    {"mean", .run = mean},
    {"mean_dx", .run = mean_dx},
    {0},
};
