/* Ops gelu, gelu_erf, relu, silu, tanh and swiglu with their gradients (_dx), add, mul, scale, dropout and fill. */
#include "device/cpu/shared/dropout.h"
#include "device/cpu/shared/rows.h"
#include "device/operands.h"

#define GELU_A 0.7978845608028654f /* sqrt(2/pi) */
#define GELU_B 0.044715f
/* For x < -10, gelu and its slope are 0. For x > 10, gelu is x and its slope is 1. The errors are below 1e-36. */
#define GELU_END 10.0f

/* Limit x to at least `low`. NaN stays NaN. */
static inline float at_least(float low, float x)
{
    return zr__select(x < low, low, x);
}

/* Limit x to at most `high`. NaN stays NaN. */
static inline float at_most(float high, float x)
{
    return zr__select(x > high, high, x);
}

/* Return e^(-2u) for |x| <= GELU_END, where u = GELU_A (x + GELU_B x^3). Callers compute (1 + tanh u)/2 as 1/(1 +
 * e^(-2u)), which stays accurate where tanh u is near -1. The result is computed as 2^n 2^r, with an integer n and |r|
 * <= 1/2. A polynomial that interpolates at Chebyshev points gives 2^r (error 9e-9). n is in the low bits of t, and is
 * added to the exponent. */
static inline float gelu_exp(float x)
{
    const float a = -2.0f * GELU_A * 0x1.715476p+0f, shift = 0x1.8p23f;
    float w = x * ZR_FMA(a * GELU_B * x, x, a);
    float t = w + shift;
    float r = w - (t - shift);
    float p = ZR_FMA(1.54531634e-4f, r, 1.33908633e-3f);
    p = ZR_FMA(p, r, 9.61808302e-3f);
    p = ZR_FMA(p, r, 5.55035695e-2f);
    p = ZR_FMA(p, r, 2.40226507e-1f);
    p = ZR_FMA(p, r, 6.93147182e-1f);
    return zr__float(zr__bits(ZR_FMA(p, r, 1.0f)) + (zr__bits(t) << 23));
}

static void gelu_run(float *y, const float *x, int64_t n)
{
    ZR_WIDE_LOOP
    for (int64_t i = 0; i < n; i++) {
        float v = at_least(-GELU_END, x[i]);
        y[i] = v / (1.0f + gelu_exp(at_most(GELU_END, v)));
    }
}

/* Compute dx = dy * the slope of gelu. With e = e^(-2u) and s = 1/(1 + e), the product s (1 - s) is computed as e s^2,
 * because 1 - s would lose precision. */
static void gelu_dx_run(float *dx, const float *dy, const float *x, int64_t n)
{
    ZR_WIDE_LOOP
    for (int64_t i = 0; i < n; i++) {
        float v = at_most(GELU_END, at_least(-GELU_END, x[i]));
        float e = gelu_exp(v);
        float s = 1.0f / (1.0f + e);
        float slope = ZR_FMA(6.0f * GELU_A * GELU_B * v, v, 2.0f * GELU_A); /* derivative of 2u */
        dx[i] = dy[i] * ZR_FMA(v * slope, e * s * s, s);
    }
}

/* For x < -13, gelu_erf and its slope are 0. For x > 13, gelu_erf is x and its slope is 1. The errors are below 1e-36.
 */
#define ERF_END 13.0f

/* Return e^(-x^2/2) for |x| <= ERF_END. The rounding error of x^2 is added to the exponent where fused multiply-add
 * gives it, because a large exponent would magnify it. */
static inline float bell(float x)
{
    const float square = x * x, rest = ZR_FMA(x, x, -square);
    const float e = zr__expf_low(-0.5f * square);
    return ZR_FMA(-0.5f * rest, e, e);
}

/* Return P(X < x) of the normal distribution, (1 + erf(x / sqrt 2)) / 2, from e = bell(x). For x < 0 it is e t q(t)
 * with t = 1 / (1 + 0.35 |x|), which keeps its relative precision. The polynomial q interpolates at Chebyshev points
 * (relative error 4e-8). */
static inline float normal_below(float x, float e)
{
    const float t = 1.0f / ZR_FMA(0.35f, x < 0.0f ? -x : x, 1.0f);
    float q = ZR_FMA(-2.95203086e-2f, t, 1.45804673e-1f);
    q = ZR_FMA(q, t, -2.59508669e-1f);
    q = ZR_FMA(q, t, 1.63493261e-1f);
    q = ZR_FMA(q, t, -2.60523651e-2f);
    q = ZR_FMA(q, t, 1.06730178e-1f);
    q = ZR_FMA(q, t, 1.19532287e-1f);
    q = ZR_FMA(q, t, 1.39901683e-1f);
    q = ZR_FMA(q, t, 1.39619231e-1f);
    const float tail = e * (t * q);
    return zr__select(x < 0.0f, tail, 1.0f - tail);
}

static void gelu_erf_run(float *y, const float *x, int64_t n)
{
    ZR_WIDE_LOOP
    for (int64_t i = 0; i < n; i++) {
        const float low = at_least(-ERF_END, x[i]), v = at_most(ERF_END, low);
        y[i] = low * normal_below(v, bell(v));
    }
}

/* Compute dx = dy * the slope of gelu_erf: the probability plus x times the density. */
static void gelu_erf_dx_run(float *dx, const float *dy, const float *x, int64_t n)
{
    const float density = 0.3989422804014327f; /* 1 / sqrt(2 pi) */
    ZR_WIDE_LOOP
    for (int64_t i = 0; i < n; i++) {
        const float v = at_most(ERF_END, at_least(-ERF_END, x[i])), e = bell(v);
        dx[i] = dy[i] * ZR_FMA(v * density, e, normal_below(v, e));
    }
}

/* Compute y = max(x, 0). The slope at 0 counts as 0. NaN stays NaN. */
static void relu_run(float *y, const float *x, int64_t n)
{
    ZR_STREAM_LOOP
    for (int64_t i = 0; i < n; i++) y[i] = zr__select(x[i] <= 0.0f, 0.0f, x[i]);
}

static void relu_dx_run(float *dx, const float *dy, const float *x, int64_t n)
{
    ZR_STREAM_LOOP
    for (int64_t i = 0; i < n; i++) dx[i] = zr__select(x[i] <= 0.0f, 0.0f, dy[i]);
}

/* For x < -88, silu and its slope are 0. For x > 88, silu is x and its slope is 1. The errors are below 1e-36. e^88 is
 * finite in fp32. */
#define SILU_END 88.0f

static void silu_run(float *y, const float *x, int64_t n)
{
    ZR_WIDE_LOOP
    for (int64_t i = 0; i < n; i++) {
        float v = at_least(-SILU_END, x[i]);
        y[i] = v / (1.0f + zr__expf_low(-v));
    }
}

/* Compute dx = dy * the slope of silu. With e = e^(-x) and s = 1/(1 + e), the product s (1 - s) is computed as e s^2,
 * because 1 - s would lose precision. */
static void silu_dx_run(float *dx, const float *dy, const float *x, int64_t n)
{
    ZR_WIDE_LOOP
    for (int64_t i = 0; i < n; i++) {
        float v = at_most(SILU_END, at_least(-SILU_END, x[i]));
        float e = zr__expf_low(-v);
        float s = 1.0f / (1.0f + e);
        dx[i] = dy[i] * ZR_FMA(v, e * s * s, s);
    }
}

/* For |x| > 20, tanh is 1 or -1 in fp32, and its slope is below 1e-16. */
#define TANH_END 20.0f

/* Return e^(-2|x|) for |x| <= TANH_END. */
static inline float tanh_exp(float x)
{
    return zr__expf_low(-2.0f * (x < 0.0f ? -x : x));
}

/* Compute tanh x = (1 - e) / (1 + e) with e = e^(-2|x|) and the sign of x. Near 0, where 1 - e loses precision, the
 * first terms of the Taylor series are precise. */
static void tanh_run(float *y, const float *x, int64_t n)
{
    ZR_WIDE_LOOP
    for (int64_t i = 0; i < n; i++) {
        const float v = at_most(TANH_END, at_least(-TANH_END, x[i])), e = tanh_exp(v), square = v * v;
        float series = ZR_FMA(62.0f / 2835.0f, square, -17.0f / 315.0f);
        series = ZR_FMA(series, square, 2.0f / 15.0f);
        series = ZR_FMA(series, square, -1.0f / 3.0f);
        series = ZR_FMA(series * square, v, v);
        const float far = (1.0f - e) / (1.0f + e);
        y[i] = zr__select(square < 0.0625f, series, zr__select(v < 0.0f, -far, far));
    }
}

/* Compute dx = dy * the slope of tanh, 4 e / (1 + e)^2, which keeps its relative precision where tanh is near 1. */
static void tanh_dx_run(float *dx, const float *dy, const float *x, int64_t n)
{
    ZR_WIDE_LOOP
    for (int64_t i = 0; i < n; i++) {
        const float e = tanh_exp(at_most(TANH_END, at_least(-TANH_END, x[i]))), s = 1.0f / (1.0f + e);
        dx[i] = dy[i] * (4.0f * e * s * s);
    }
}

/* Compute y = silu(gate) * up. */
static void swiglu_run(float *y, const float *gate, const float *up, int64_t n)
{
    ZR_WIDE_LOOP
    for (int64_t i = 0; i < n; i++) {
        float v = at_least(-SILU_END, gate[i]);
        y[i] = v / (1.0f + zr__expf_low(-v)) * up[i];
    }
}

/* Compute dgate = dy * up * the slope of silu, and dup = dy * silu(gate), as silu_dx_run and silu_run do. */
static void swiglu_dx_run(float *dgate, float *dup, const float *dy, const float *gate, const float *up, int64_t n)
{
    ZR_WIDE_LOOP
    for (int64_t i = 0; i < n; i++) {
        float low = at_least(-SILU_END, gate[i]), v = at_most(SILU_END, low);
        float e = zr__expf_low(-v);
        float s = 1.0f / (1.0f + e), d = dy[i];
        dgate[i] = d * up[i] * ZR_FMA(v, e * s * s, s);
        dup[i] = d * (low * s);
    }
}

/* Compute y = run(x) for all elements. y never shares memory with x. */
static zr_status unary(const zr_kernel_args *args, void (*run)(float *y, const float *x, int64_t n))
{
    const zr_tensor *x = &args->in[0], *out = &args->out[0];
    const int64_t elems = zr_shape_elems(&x->shape);
#pragma omp parallel for num_threads(zr__team(args, elems)) schedule(static)
    for (int64_t i = 0; i < elems; i += ZR_CHUNK) {
        float xbuf[ZR_CHUNK], ybuf[ZR_CHUNK], *y = zr__target(ybuf, out->data, out->dtype, i);
        int64_t n = zr__min64(ZR_CHUNK, elems - i);
        run(y, zr__view(xbuf, x->data, x->dtype, i, n), n);
        zr__settle(out->data, out->dtype, i, y, n);
    }
    return ZR_OK;
}

/* Compute y = run(a, b) for all elements. y may share memory with a. */
static zr_status binary(const zr_kernel_args *args, void (*run)(float *y, const float *a, const float *b, int64_t n))
{
    const zr_tensor *a = &args->in[0], *b = &args->in[1], *out = &args->out[0];
    const int64_t elems = zr_shape_elems(&a->shape);
#pragma omp parallel for num_threads(zr__team(args, elems)) schedule(static)
    for (int64_t i = 0; i < elems; i += ZR_CHUNK) {
        float abuf[ZR_CHUNK], bbuf[ZR_CHUNK], ybuf[ZR_CHUNK], *y = zr__target(ybuf, out->data, out->dtype, i);
        int64_t n = zr__min64(ZR_CHUNK, elems - i);
        run(y, zr__view(abuf, a->data, a->dtype, i, n), zr__view(bbuf, b->data, b->dtype, i, n), n);
        zr__settle(out->data, out->dtype, i, y, n);
    }
    return ZR_OK;
}

static void mul_run(float *y, const float *a, const float *b, int64_t n)
{
    ZR_STREAM_LOOP
    for (int64_t i = 0; i < n; i++) y[i] = a[i] * b[i];
}

#define UNARY(name)                                                                                                    \
    static zr_status name(const zr_kernel_args *args)                                                                  \
    {                                                                                                                  \
        return unary(args, name##_run);                                                                                \
    }
#define BINARY(name)                                                                                                   \
    static zr_status name(const zr_kernel_args *args)                                                                  \
    {                                                                                                                  \
        return binary(args, name##_run);                                                                               \
    }
UNARY(gelu)
UNARY(gelu_erf)
UNARY(relu)
UNARY(silu)

static zr_status tanh_of(const zr_kernel_args *args)
{
    return unary(args, tanh_run);
}
BINARY(gelu_dx)
BINARY(gelu_erf_dx)
BINARY(relu_dx)
BINARY(silu_dx)
BINARY(tanh_dx)
BINARY(mul)
BINARY(swiglu)

/* Compute both gradients of swiglu. Each gradient may share memory with one operand, but not both with the same
 * operand. */
static zr_status swiglu_dx(const zr_kernel_args *args)
{
    const zr_tensor *dy = &args->in[0], *gate = &args->in[1], *up = &args->in[2];
    const zr_tensor *dgate = &args->out[0], *dup = &args->out[1];
    const int64_t elems = zr_shape_elems(&dy->shape);
#pragma omp parallel for num_threads(zr__team(args, elems)) schedule(static)
    for (int64_t i = 0; i < elems; i += ZR_CHUNK) {
        float dbuf[ZR_CHUNK], gbuf[ZR_CHUNK], ubuf[ZR_CHUNK], made[2][ZR_CHUNK];
        float *g = zr__target(made[0], dgate->data, dgate->dtype, i),
              *u = zr__target(made[1], dup->data, dup->dtype, i);
        int64_t n = zr__min64(ZR_CHUNK, elems - i);
        swiglu_dx_run(g, u, zr__view(dbuf, dy->data, dy->dtype, i, n), zr__view(gbuf, gate->data, gate->dtype, i, n),
                      zr__view(ubuf, up->data, up->dtype, i, n), n);
        zr__settle(dgate->data, dgate->dtype, i, g, n);
        zr__settle(dup->data, dup->dtype, i, u, n);
    }
    return ZR_OK;
}

/* Widen n elements to fp32, multiply them by the n elements of `factor`, and round the products to the type of `out`.
 */
static void store_scaled(const zr_tensor *out, const zr_tensor *x, int64_t first, const float *factor, int64_t n)
{
    float xbuf[ZR_CHUNK], ybuf[ZR_CHUNK], *y = zr__target(ybuf, out->data, out->dtype, first);
    mul_run(y, zr__view(xbuf, x->data, x->dtype, first, n), factor, n);
    zr__settle(out->data, out->dtype, first, y, n);
}

static zr_status scale(const zr_kernel_args *args)
{
    const int64_t elems = zr_shape_elems(&args->in[0].shape);
    float factor[ZR_CHUNK];
    for (int64_t j = 0; j < ZR_CHUNK; j++) factor[j] = (float)args->op->attr.f[0];
#pragma omp parallel for num_threads(zr__team(args, elems)) schedule(static)
    for (int64_t i = 0; i < elems; i += ZR_CHUNK)
        store_scaled(&args->out[0], &args->in[0], i, factor, zr__min64(ZR_CHUNK, elems - i));
    return ZR_OK;
}

static zr_status convert(const zr_kernel_args *args)
{
    const zr_tensor *x = &args->in[0], *out = &args->out[0];
    const int64_t elems = zr_shape_elems(&x->shape);
#pragma omp parallel for num_threads(zr__team(args, elems)) schedule(static)
    for (int64_t i = 0; i < elems; i += ZR_CHUNK) {
        float buffer[ZR_CHUNK];
        int64_t n = zr__min64(ZR_CHUNK, elems - i);
        zr__store(out->data, out->dtype, i, zr__view(buffer, x->data, x->dtype, i, n), n);
    }
    return ZR_OK;
}

static zr_status add(const zr_kernel_args *args)
{
    return args->n_in > 1 && args->in[1].data ? binary(args, zr__rows_add) : convert(args);
}

static zr_status dropout(const zr_kernel_args *args)
{
    const int64_t elems = zr_shape_elems(&args->in[0].shape);
    const zr__dropout_runs runs = zr__dropout_runs_of(args, elems);
    const zr__dropout rule = zr__dropout_make(args->runtime, args->op->attr.i[0], args->op->attr.f[0]);
#pragma omp parallel for num_threads(zr__team(args, elems)) schedule(static)
    for (int64_t i = 0; i < elems; i += ZR_CHUNK) {
        float factor[ZR_CHUNK];
        int64_t n = zr__min64(ZR_CHUNK, elems - i);
        for (int64_t done = 0, m; done < n; done += m) {
            m = zr__min64(runs.length - (i + done) % runs.length, n - done);
            zr__dropout_factors(&rule, zr__dropout_element(&runs, i + done), m, factor + done);
        }
        store_scaled(&args->out[0], &args->in[0], i, factor, n);
    }
    return ZR_OK;
}

static zr_status fill_seed(const zr_kernel_args *args)
{
    const zr_tensor *out = &args->out[0];
    const int64_t elems = zr_shape_elems(&out->shape);
    float y[ZR_CHUNK];
    for (int64_t j = 0; j < ZR_CHUNK; j++) y[j] = args->runtime->loss_seed[args->op->attr.i[0]];
    for (int64_t i = 0; i < elems; i += ZR_CHUNK)
        zr__store(out->data, out->dtype, i, y, zr__min64(ZR_CHUNK, elems - i));
    return ZR_OK;
}

const zr_kernel ZR_LEVEL_NAME(zr__kernels_elementwise)[] = {
    {"gelu", .run = gelu},         {"gelu_dx", .run = gelu_dx},
    {"gelu_erf", .run = gelu_erf}, {"gelu_erf_dx", .run = gelu_erf_dx},
    {"relu", .run = relu},         {"relu_dx", .run = relu_dx},
    {"silu", .run = silu},         {"silu_dx", .run = silu_dx},
    {"tanh", .run = tanh_of},      {"tanh_dx", .run = tanh_dx},
    {"swiglu", .run = swiglu},     {"swiglu_dx", .run = swiglu_dx},
    {"add", .run = add},           {"mul", .run = mul},
    {"scale", .run = scale},       {"dropout", .run = dropout},
    {"fill", .run = fill_seed},    {0},
};
