/* Ops layernorm and rmsnorm with their gradients (_dx and _dw). An rmsnorm is a layernorm with mean 0 and without bias.
 * Its rows may be groups of columns, each with the width of the gain. */
#include <math.h>

#include "device/cpu/shared/rows.h"
#include "device/operands.h"

/* Number of partial sums over rows in layernorm_dw. The number is fixed, so that results do not depend on the number of
 * threads. */
#define ROW_CHUNKS 16

/* Return the sum of (x - mean)^2 over n elements. */
static float square_centred(const float *x, float mean, int64_t n)
{
    zr__vec acc[ZR_ACCS] = {{0}};
    int64_t i = 0;
    for (; i + ZR_ACCS * ZR_VEC <= n; i += ZR_ACCS * ZR_VEC)
        for (int a = 0; a < ZR_ACCS; a++) {
            zr__vec d = zr__vec_load(x + i + a * ZR_VEC) - mean;
            acc[a] = zr__vec_fma(d, d, acc[a]);
        }
    for (int a = 0; i < n; a++, i += ZR_VEC) {
        zr__vec d = zr__vec_load_part(x + i, n - i, mean) - mean;
        acc[a] = zr__vec_fma(d, d, acc[a]);
    }
    return zr__vec_reduce(acc);
}

/* Return row `row` of x (rows, C) as a tensor of its own. A row of 16-bit elements that fits into `buffer` is widened,
 * so that all passes over the row read fp32. */
static zr_tensor row_of(float buffer[ZR_CHUNK], const zr_tensor *x, int64_t row, int64_t C)
{
    const bool widens = x->dtype != ZR_F32 && C <= ZR_CHUNK;
    if (widens) zr__widen(buffer, (const uint16_t *)x->data + row * C, x->dtype, C);
    return (zr_tensor){widens ? (void *)buffer : (char *)x->data + row * C * zr_dtype_bytes(x->dtype),
                       widens ? ZR_F32 : x->dtype,
                       {1, {C}}};
}

/* Compute the mean and the reciprocal standard deviation of a row. The variance takes a second pass over the row,
 * because E[x^2] - E[x]^2 loses precision if the mean is far from 0. `mean` is NULL for rmsnorm. */
static void row_moments(const zr_tensor *x, int64_t C, double eps, float *mean, float *rstd)
{
    float buffer[ZR_CHUNK];
    float square = 0.0f;
    if (mean) *mean = zr__row_mean(x, 0, C);
    for (int64_t c0 = 0; c0 < C; c0 += ZR_CHUNK) {
        int64_t n = zr__min64(ZR_CHUNK, C - c0);
        const float *v = zr__view(buffer, x->data, x->dtype, c0, n);
        square += mean ? square_centred(v, *mean, n) : zr__dot(v, v, n);
    }
    *rstd = (float)(1.0 / sqrt((double)(square / (float)C) + eps));
}

static void normalise(float *y, const float *x, const float *gain, const float *bias, float mean, float rstd, int64_t n)
{
    ZR_STREAM_LOOP
    for (int64_t c = 0; c < n; c++) y[c] = ZR_FMA((x[c] - mean) * rstd, gain[c], bias[c]);
}

/* Round n elements to `dtype`, in place. */
static void round_to(float *x, zr_dtype dtype, int64_t n)
{
    uint16_t rounded[ZR_CHUNK];
    if (dtype == ZR_F32) return;
    zr__round(rounded, dtype, x, n);
    zr__widen(x, rounded, dtype, n);
}

/* Return whether the op rounds x * rstd to the type of x before it multiplies by the gain. */
static bool rounds(const zr_kernel_args *args, const zr_tensor *x)
{
    return args->op->attr.i[0] && x->dtype != ZR_F32;
}

/* Compute y = x * rstd, rounded to `dtype`. */
static void scale_rounded(float *y, const float *x, float rstd, zr_dtype dtype, int64_t n)
{
    if (dtype == ZR_BF16) {
        ZR_WIDE_LOOP
        for (int64_t c = 0; c < n; c++) y[c] = zr_f32_from_bf16(zr_bf16_from_f32(x[c] * rstd));
        return;
    }
    for (int64_t c = 0; c < n; c++) y[c] = x[c] * rstd;
    round_to(y, dtype, n);
}

/* Compute y = x * rstd, rounded to `dtype`, * gain. */
static void normalise_rounded(float *y, const float *x, const float *gain, float rstd, zr_dtype dtype, int64_t n)
{
    scale_rounded(y, x, rstd, dtype, n);
    ZR_STREAM_LOOP
    for (int64_t c = 0; c < n; c++) y[c] *= gain[c];
}

static void normalise_by_rms(float *y, const float *x, const float *gain, float rstd, int64_t n)
{
    ZR_STREAM_LOOP
    for (int64_t c = 0; c < n; c++) y[c] = x[c] * rstd * gain[c];
}

/* Normalise the row x with number `row`. The gain and the bias are rows too. `bias` is NULL for rmsnorm. */
static void row_norm(const zr_kernel_args *args, const zr_tensor *x, const zr_tensor *gain, const zr_tensor *bias,
                     int64_t row, int64_t C, float mean, float rstd)
{
    const zr_tensor *out = &args->out[0];
    float xbuf[ZR_CHUNK], gbuf[ZR_CHUNK], bbuf[ZR_CHUNK], ybuf[ZR_CHUNK];
    for (int64_t c0 = 0; c0 < C; c0 += ZR_CHUNK) {
        int64_t n = zr__min64(ZR_CHUNK, C - c0);
        const float *v = zr__view(xbuf, x->data, x->dtype, c0, n);
        const float *g = zr__view(gbuf, gain->data, gain->dtype, c0, n);
        float *y = zr__target(ybuf, out->data, out->dtype, row * C + c0);
        if (bias)
            normalise(y, v, g, zr__view(bbuf, bias->data, bias->dtype, c0, n), mean, rstd, n);
        else if (rounds(args, &args->in[0]))
            normalise_rounded(y, v, g, rstd, args->in[0].dtype, n);
        else
            normalise_by_rms(y, v, g, rstd, n);
        zr__settle(out->data, out->dtype, row * C + c0, y, n);
    }
}

static zr_status norm(const zr_kernel_args *args, float *means, float *rstds, const zr_tensor *bias)
{
    const int64_t C = zr_shape_elems(&args->in[1].shape), rows = zr_shape_elems(&args->in[0].shape) / C;
#pragma omp parallel num_threads(zr__team(args, rows *C))
    {
        float xbuf[ZR_CHUNK], gbuf[ZR_CHUNK], bbuf[ZR_CHUNK];
        const zr_tensor gain = row_of(gbuf, &args->in[1], 0, C);
        zr_tensor added;
        if (bias) added = row_of(bbuf, bias, 0, C);
#pragma omp for schedule(static)
        for (int64_t r = 0; r < rows; r++) {
            const zr_tensor x = row_of(xbuf, &args->in[0], r, C);
            row_moments(&x, C, args->op->attr.f[0], means ? &means[r] : NULL, &rstds[r]);
            row_norm(args, &x, &gain, bias ? &added : NULL, r, C, means ? means[r] : 0.0f, rstds[r]);
        }
    }
    return ZR_OK;
}

static zr_status layernorm(const zr_kernel_args *args)
{
    return norm(args, args->out[1].data, args->out[2].data, &args->in[2]);
}

static zr_status rmsnorm(const zr_kernel_args *args)
{
    return norm(args, NULL, args->out[1].data, NULL);
}

/* Moments of all rows, saved by the forward pass for the gradients. `mean` is NULL for rmsnorm, whose mean counts as 0.
 */
typedef struct norm_saved {
    const float *mean, *rstd;
} norm_saved;

/* Operands of the gradient of one row: one row each of dy and x, and the gain. */
typedef struct row_operands {
    zr_tensor dy, x, gain;
    float mean, rstd;
} row_operands;

/* A part of a row in fp32. Two values are computed from it: xhat = (x - mean) * rstd and dxhat = dy * gain. */
typedef struct row_part {
    const float *dy, *x, *gain;
    float mean, rstd;
    int64_t n;
} row_part;

typedef struct row_buffers {
    float dy[ZR_CHUNK], x[ZR_CHUNK], gain[ZR_CHUNK];
} row_buffers;

static row_part row_view(const row_operands *o, row_buffers *buffer, int64_t C, int64_t c0)
{
    const int64_t n = zr__min64(ZR_CHUNK, C - c0);
    return (row_part){.dy = zr__view(buffer->dy, o->dy.data, o->dy.dtype, c0, n),
                      .x = zr__view(buffer->x, o->x.data, o->x.dtype, c0, n),
                      .gain = zr__view(buffer->gain, o->gain.data, o->gain.dtype, c0, n),
                      .mean = o->mean,
                      .rstd = o->rstd,
                      .n = n};
}

/* Add the part's sum of dxhat to *sum, and its sum of dxhat * xhat to *product. */
static void add_sums(const row_part *p, float *sum, float *product)
{
    zr__vec acc[ZR_ACCS] = {{0}}, both[ZR_ACCS] = {{0}};
    int64_t i = 0;
    for (; i + ZR_ACCS * ZR_VEC <= p->n; i += ZR_ACCS * ZR_VEC)
        for (int a = 0; a < ZR_ACCS; a++) {
            const int64_t at = i + a * ZR_VEC;
            zr__vec xhat = (zr__vec_load(p->x + at) - p->mean) * p->rstd;
            zr__vec dxhat = zr__vec_load(p->dy + at) * zr__vec_load(p->gain + at);
            acc[a] += dxhat;
            both[a] = zr__vec_fma(dxhat, xhat, both[a]);
        }
    for (int a = 0; i < p->n; a++, i += ZR_VEC) {
        const int64_t left = p->n - i;
        zr__vec xhat = (zr__vec_load_part(p->x + i, left, p->mean) - p->mean) * p->rstd;
        zr__vec dxhat = zr__vec_load_part(p->dy + i, left, 0.0f) * zr__vec_load_part(p->gain + i, left, 0.0f);
        acc[a] += dxhat;
        both[a] = zr__vec_fma(dxhat, xhat, both[a]);
    }
    *sum += zr__vec_reduce(acc);
    *product += zr__vec_reduce(both);
}

/* Compute dx = rstd * (dxhat - a - xhat * b). */
static void part_dx(float *dx, const row_part *p, float a, float b)
{
    ZR_STREAM_LOOP
    for (int64_t c = 0; c < p->n; c++)
        dx[c] = p->rstd * (p->dy[c] * p->gain[c] - a - (p->x[c] - p->mean) * p->rstd * b);
}

/* Compute dx of a row. part_dx takes two means over the row: a is the mean of dxhat, and b is the mean of dxhat * xhat.
 * For rmsnorm a is 0, because rmsnorm does not subtract the row's mean. */
static void row_dx(const zr_kernel_args *args, const row_operands *o, bool centred, const zr_tensor *earlier,
                   int64_t row, int64_t C)
{
    const zr_tensor *out = &args->out[0];
    row_buffers buffer;
    float made[ZR_CHUNK], sum = 0.0f, product = 0.0f;
    for (int64_t c0 = 0; c0 < C; c0 += ZR_CHUNK) {
        const row_part p = row_view(o, &buffer, C, c0);
        add_sums(&p, &sum, &product);
    }
    const float a = centred ? sum / (float)C : 0.0f, b = product / (float)C;
    for (int64_t c0 = 0; c0 < C; c0 += ZR_CHUNK) {
        const row_part p = row_view(o, &buffer, C, c0);
        float *dx = earlier->data ? made : zr__target(made, out->data, out->dtype, row * C + c0);
        part_dx(dx, &p, a, b);
        if (earlier->data)
            zr__rows_add(dx, zr__view(buffer.x, earlier->data, earlier->dtype, row * C + c0, p.n), dx, p.n);
        if (dx == made) zr__store(out->data, out->dtype, row * C + c0, dx, p.n);
    }
}

static zr_status norm_dx(const zr_kernel_args *args, norm_saved saved, const zr_tensor *earlier)
{
    const int64_t C = zr_shape_elems(&args->in[2].shape), rows = zr_shape_elems(&args->in[1].shape) / C;
#pragma omp parallel num_threads(zr__team(args, rows *C))
    {
        row_buffers buffer;
        row_operands o = {.gain = row_of(buffer.gain, &args->in[2], 0, C)};
#pragma omp for schedule(static)
        for (int64_t r = 0; r < rows; r++) {
            o.dy = row_of(buffer.dy, &args->in[0], r, C);
            o.x = row_of(buffer.x, &args->in[1], r, C);
            o.mean = saved.mean ? saved.mean[r] : 0.0f;
            o.rstd = saved.rstd[r];
            row_dx(args, &o, saved.mean != NULL, earlier, r, C);
        }
    }
    return ZR_OK;
}

static zr_status layernorm_dx(const zr_kernel_args *args)
{
    return norm_dx(args, (norm_saved){args->in[3].data, args->in[4].data}, &args->in[5]);
}

static zr_status rmsnorm_dx(const zr_kernel_args *args)
{
    return norm_dx(args, (norm_saved){NULL, args->in[3].data}, &args->in[4]);
}

/* Add a row's dy * x * rstd to dgain. x * rstd is rounded to `dtype`, as in the forward pass. */
static void add_gain(float *restrict dgain, const float *dy, const float *x, float rstd, zr_dtype dtype, int64_t n)
{
    float xhat[ZR_CHUNK];
    if (dtype == ZR_F32) {
        for (int64_t c = 0; c < n; c++) dgain[c] = ZR_FMA(dy[c], x[c] * rstd, dgain[c]);
        return;
    }
    scale_rounded(xhat, x, rstd, dtype, n);
    for (int64_t c = 0; c < n; c++) dgain[c] = ZR_FMA(dy[c], xhat[c], dgain[c]);
}

/* Sum over rows [begin, end) for columns [c0, c0 + n). Write the sum of dy * xhat to dgain, and the sum of dy to dbias.
 * dbias is NULL for rmsnorm. */
static void chunk_dw(const zr_kernel_args *args, norm_saved saved, int64_t C, int64_t begin, int64_t end, int64_t c0,
                     int64_t n, float *restrict dgain, float *restrict dbias)
{
    const zr_tensor *dy = &args->in[0], *x = &args->in[1];
    float dbuf[ZR_CHUNK], xbuf[ZR_CHUNK];
    memset(dgain, 0, (size_t)n * sizeof(float));
    if (dbias) memset(dbias, 0, (size_t)n * sizeof(float));
    for (int64_t r = begin; r < end; r++) {
        const float *d = zr__view(dbuf, dy->data, dy->dtype, r * C + c0, n);
        const float *v = zr__view(xbuf, x->data, x->dtype, r * C + c0, n);
        const float m = saved.mean ? saved.mean[r] : 0.0f, s = saved.rstd[r];
        if (!dbias) {
            add_gain(dgain, d, v, s, rounds(args, x) ? x->dtype : ZR_F32, n);
            continue;
        }
        for (int64_t c = 0; c < n; c++) {
            dgain[c] = ZR_FMA(d[c], (v[c] - m) * s, dgain[c]);
            dbias[c] += d[c];
        }
    }
}

/* Compute dgain and, if the op has a second output, dbias. */
static zr_status norm_dw(const zr_kernel_args *args, norm_saved saved)
{
    const int64_t C = zr_shape_elems(&args->out[0].shape), rows = zr_shape_elems(&args->in[1].shape) / C;
    const int64_t pieces = (C + ZR_CHUNK - 1) / ZR_CHUNK, outs = args->n_out;
    float *partial = args->scratch; /* (ROW_CHUNKS, outs, C) partial sums in F32 */
#pragma omp parallel num_threads(zr__team(args, rows *C))
    {
#pragma omp for collapse(2) schedule(static)
        for (int64_t k = 0; k < ROW_CHUNKS; k++)
            for (int64_t piece = 0; piece < pieces; piece++) {
                int64_t c0 = piece * ZR_CHUNK;
                float *dgain = partial + outs * k * C + c0;
                chunk_dw(args, saved, C, rows * k / ROW_CHUNKS, rows * (k + 1) / ROW_CHUNKS, c0,
                         zr__min64(ZR_CHUNK, C - c0), dgain, outs > 1 ? dgain + C : NULL);
            }
            /* Add the partial sums in order, one piece of columns at a time: first all pieces of dgain, then all pieces
             * of dbias. */
#pragma omp for schedule(static)
        for (int64_t piece = 0; piece < outs * pieces; piece++) {
            const zr_tensor *out = &args->out[piece / pieces];
            int64_t c0 = piece % pieces * ZR_CHUNK, n = zr__min64(ZR_CHUNK, C - c0);
            const float *first = partial + piece / pieces * C + c0;
            float sum[ZR_CHUNK];
            memcpy(sum, first, (size_t)n * sizeof(float));
            for (int64_t k = 1; k < ROW_CHUNKS; k++)
                for (int64_t c = 0; c < n; c++) sum[c] += first[outs * k * C + c];
            zr__store(out->data, out->dtype, c0, sum, n);
        }
    }
    return ZR_OK;
}

static zr_status layernorm_dw(const zr_kernel_args *args)
{
    return norm_dw(args, (norm_saved){args->in[2].data, args->in[3].data});
}

static zr_status rmsnorm_dw(const zr_kernel_args *args)
{
    return norm_dw(args, (norm_saved){NULL, args->in[2].data});
}

static int64_t dw_scratch(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op)
{
    (void)facts;
    return ROW_CHUNKS * op->n_out * (int64_t)sizeof(float) * zr_shape_elems(&zr__out_type(graph, op, 0)->shape);
}

const zr_kernel ZR_LEVEL_NAME(zr__kernels_layernorm)[] = {
    {"layernorm", .run = layernorm},
    {"layernorm_dx", .run = layernorm_dx},
    {"layernorm_dw", .run = layernorm_dw, .scratch_bytes = dw_scratch},
    {"rmsnorm", .run = rmsnorm},
    {"rmsnorm_dx", .run = rmsnorm_dx},
    {"rmsnorm_dw", .run = rmsnorm_dw, .scratch_bytes = dw_scratch},
    {0},
};
