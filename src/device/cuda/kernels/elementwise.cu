/* gelu, gelu_erf, relu, silu, tanh and swiglu with their gradients (_dx), add, mul, scale, dropout, fill. The
 * processor's kernels use the same formulas. */
#include "device/cuda/dropout.h"
#include "device/operands.h"

namespace
{

constexpr float gelu_a = 0.7978845608028654f; /* sqrt(2/pi) */
constexpr float gelu_b = 0.044715f;

/* Return e^(-2u), u = sqrt(2/pi) (x + 0.044715 x^3). Callers compute (1 + tanh u)/2 as 1/(1 + e^(-2u)), which keeps its
 * relative precision where tanh u is near -1. */
__device__ __forceinline__ float gelu_exp(float x)
{
    constexpr float slope = -2.0f * gelu_a * ZR__LOG2_E;
    return zr__exp2(x * fmaf(slope * gelu_b * x, x, slope));
}

/* Limit x to [-END, END]. At the limits the slope is 0 or 1, with an error below 1e-36; within them, the exponential is
 * finite. NaN stays NaN. */
template <int END> __device__ __forceinline__ float within(float x)
{
    return x > (float)END ? (float)END : x < (float)-END ? (float)-END : x;
}

struct gelu {
    __device__ float operator()(float x) const
    {
        const float v = x < -10.0f ? -10.0f : x;
        return v * zr__logistic(gelu_exp(v));
    }
};

/* Compute dy * the slope of gelu. With e = e^(-2u) and s = 1/(1 + e), s (1 - s) is computed as e s^2, since subtracting
 * s from 1 would lose precision. */
struct gelu_dx {
    __device__ float operator()(float dy, float x) const
    {
        const float v = within<10>(x), e = gelu_exp(v), s = zr__logistic(e);
        const float slope = fmaf(6.0f * gelu_a * gelu_b * v, v, 2.0f * gelu_a); /* derivative of 2u */
        return dy * fmaf(v * slope, e * s * s, s);
    }
};

/* Return P(X < x) of the normal distribution. */
__device__ __forceinline__ float normal_below(float x)
{
    return 0.5f * erfcf(x * -0.70710678118654752f);
}

struct gelu_erf {
    __device__ float operator()(float x) const
    {
        const float v = x < -13.0f ? -13.0f : x;
        return v * normal_below(v);
    }
};

/* Compute dy * the slope of gelu_erf: the probability plus x times the density. */
struct gelu_erf_dx {
    __device__ float operator()(float dy, float x) const
    {
        const float v = within<13>(x), density = 0.3989422804014327f * zr__exp2(-0.5f * ZR__LOG2_E * v * v);
        return dy * fmaf(v, density, normal_below(v));
    }
};

struct relu {
    __device__ float operator()(float x) const
    {
        return x <= 0.0f ? 0.0f : x;
    }
};

struct relu_dx {
    __device__ float operator()(float dy, float x) const
    {
        return x <= 0.0f ? 0.0f : dy;
    }
};

struct silu {
    __device__ float operator()(float x) const
    {
        const float v = x < -88.0f ? -88.0f : x;
        return v * zr__logistic(zr__exp2(-ZR__LOG2_E * v));
    }
};

struct silu_dx {
    __device__ float operator()(float dy, float x) const
    {
        const float v = within<88>(x), e = zr__exp2(-ZR__LOG2_E * v), s = zr__logistic(e);
        return dy * fmaf(v, e * s * s, s);
    }
};

struct tanh_of {
    __device__ float operator()(float x) const
    {
        return tanhf(x);
    }
};

/* Compute dy * the slope of tanh, 4 e / (1 + e)^2 with e = e^(-2|x|), which keeps its relative precision where tanh is
 * near 1. */
struct tanh_dx {
    __device__ float operator()(float dy, float x) const
    {
        const float e = zr__exp2(-2.0f * ZR__LOG2_E * fabsf(within<20>(x))), s = zr__logistic(e);
        return dy * (4.0f * e * s * s);
    }
};

struct swiglu {
    __device__ float operator()(float gate, float up) const
    {
        return silu()(gate) * up;
    }
};

struct scaled {
    float factor;
    __device__ float operator()(float x) const
    {
        return x * factor;
    }
};

struct same {
    __device__ float operator()(float x) const
    {
        return x;
    }
};

struct times {
    __device__ float operator()(float a, float b) const
    {
        return a * b;
    }
};

/* ---- over arrays ------------------------------------------------------------------------------- */

template <typename F> struct unary_each {
    zr__array y, x;
    F f;

    template <int V> __device__ void run(int64_t i) const
    {
        float values[V];
        zr__get_all<V>(values, x, i);
        for (int v = 0; v < V; v++) values[v] = f(values[v]);
        zr__put_all<V>(y, i, values);
    }
};

template <typename F> struct binary_each {
    zr__array y, a, b;
    F f;

    template <int V> __device__ void run(int64_t i) const
    {
        float left[V], right[V];
        zr__get_all<V>(left, a, i);
        zr__get_all<V>(right, b, i);
        for (int v = 0; v < V; v++) left[v] = f(left[v], right[v]);
        zr__put_all<V>(y, i, left);
    }
};

template <typename F> zr_status unary(const zr_kernel_args *args, F f)
{
    const unary_each<F> each = {zr__array_of(&args->out[0]), zr__array_of(&args->in[0]), f};
    return zr__each(zr__stream_of(args), zr_shape_elems(&args->in[0].shape), zr__are_aligned(each.y, each.x), each);
}

/* Compute y = f(a, b) for all elements. Each element of a and b is read before the same element of y is written, so y
 * may share the memory of an operand. */
template <typename F> zr_status binary(const zr_kernel_args *args, F f)
{
    const binary_each<F> each = {zr__array_of(&args->out[0]), zr__array_of(&args->in[0]), zr__array_of(&args->in[1]),
                                 f};
    return zr__each(zr__stream_of(args), zr_shape_elems(&args->in[0].shape), zr__are_aligned(each.y, each.a, each.b),
                    each);
}

template <typename F> zr_status run_unary(const zr_kernel_args *args)
{
    return unary(args, F());
}

template <typename F> zr_status run_binary(const zr_kernel_args *args)
{
    return binary(args, F());
}

zr_status run_scale(const zr_kernel_args *args)
{
    return unary(args, scaled{(float)args->op->attr.f[0]});
}

zr_status run_add(const zr_kernel_args *args)
{
    return args->n_in > 1 && args->in[1].data ? binary(args, zr__plus()) : unary(args, same());
}

/* ---- the gradients of swiglu ------------------------------------------------------------------- */

struct swiglu_dx_each {
    zr__array dgate, dup, dy, gate, up;

    /* Compute dgate = dy * up * the slope of silu, and dup = dy * silu(gate), as silu_dx and silu do. */
    template <int V> __device__ void run(int64_t i) const
    {
        float d[V], g[V], u[V];
        zr__get_all<V>(d, dy, i);
        zr__get_all<V>(g, gate, i);
        zr__get_all<V>(u, up, i);
        for (int v = 0; v < V; v++) {
            const float low = g[v] < -88.0f ? -88.0f : g[v], x = within<88>(g[v]);
            const float e = zr__exp2(-ZR__LOG2_E * x), s = zr__logistic(e);
            g[v] = d[v] * u[v] * fmaf(x, e * s * s, s);
            u[v] = d[v] * (low * s);
        }
        zr__put_all<V>(dgate, i, g);
        zr__put_all<V>(dup, i, u);
    }
};

/* Compute the gradients of swiglu. Each gradient may share the memory of an operand, since an element of all operands
 * is read before the same element of the results is written. */
zr_status run_swiglu_dx(const zr_kernel_args *args)
{
    const swiglu_dx_each each = {zr__array_of(&args->out[0]), zr__array_of(&args->out[1]), zr__array_of(&args->in[0]),
                                 zr__array_of(&args->in[1]), zr__array_of(&args->in[2])};
    const bool aligned = zr__are_aligned(each.dgate, each.dup, each.dy, each.gate, each.up);
    return zr__each(zr__stream_of(args), zr_shape_elems(&args->in[0].shape), aligned, each);
}

/* ---- dropout, fill ----------------------------------------------------------------------------- */

/* Functor that computes y = dropout(x). If CUT, x consists of several runs (zr__dropout_runs), and V divides their
 * length. */
template <bool CUT> struct dropout_each {
    zr__array y, x;
    zr__dropout rule;
    zr__dropout_runs runs;

    template <int V> __device__ void run(int64_t i) const
    {
        float values[V], factor[V];
        zr__get_all<V>(values, x, i);
        zr__dropout_factors<V>(rule, CUT ? zr__dropout_element(&runs, i) : runs.first + (uint64_t)i, factor);
        for (int v = 0; v < V; v++) values[v] *= factor[v];
        zr__put_all<V>(y, i, values);
    }
};

template <bool CUT> zr_status run_dropout_of(const zr_kernel_args *args, const zr__dropout_runs &runs, int64_t elems)
{
    const dropout_each<CUT> each = {zr__array_of(&args->out[0]), zr__array_of(&args->in[0]),
                                    zr__dropout_make(args->runtime, args->op->attr.i[0], args->op->attr.f[0]), runs};
    const bool packs = !CUT || runs.length % ZR__PACK == 0;
    return zr__each(zr__stream_of(args), elems, packs && zr__are_aligned(each.y, each.x), each);
}

zr_status run_dropout(const zr_kernel_args *args)
{
    const int64_t elems = zr_shape_elems(&args->in[0].shape);
    const zr__dropout_runs runs = zr__dropout_runs_of(args, elems);
    return runs.length < elems ? run_dropout_of<true>(args, runs, elems) : run_dropout_of<false>(args, runs, elems);
}

struct fill_each {
    zr__array y;
    float value;

    template <int V> __device__ void run(int64_t i) const
    {
        float values[V];
        for (int v = 0; v < V; v++) values[v] = value;
        zr__put_all<V>(y, i, values);
    }
};

zr_status run_fill(const zr_kernel_args *args)
{
    const fill_each each = {zr__array_of(&args->out[0]), args->runtime->loss_seed[args->op->attr.i[0]]};
    return zr__each(zr__stream_of(args), zr_shape_elems(&args->out[0].shape), zr__is_aligned(each.y), each);
}

} // namespace

ZR_CUDA_KERNELS(elementwise) = {
    zr__kernel("gelu", run_unary<gelu>),
    zr__kernel("gelu_dx", run_binary<gelu_dx>),
    zr__kernel("gelu_erf", run_unary<gelu_erf>),
    zr__kernel("gelu_erf_dx", run_binary<gelu_erf_dx>),
    zr__kernel("relu", run_unary<relu>),
    zr__kernel("relu_dx", run_binary<relu_dx>),
    zr__kernel("silu", run_unary<silu>),
    zr__kernel("silu_dx", run_binary<silu_dx>),
    zr__kernel("tanh", run_unary<tanh_of>),
    zr__kernel("tanh_dx", run_binary<tanh_dx>),
    zr__kernel("swiglu", run_binary<swiglu>),
    zr__kernel("swiglu_dx", run_swiglu_dx),
    zr__kernel("add", run_add),
    zr__kernel("mul", run_binary<times>),
    zr__kernel("scale", run_scale),
    zr__kernel("dropout", run_dropout),
    zr__kernel("fill", run_fill),
    {},
};
