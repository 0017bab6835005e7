/*
 * The built-in optimizers: one pass of unscale, clip, update and cast, by the operations of the processor's rules
 * (src/device/cpu/kernels/optimizer.c), which says what is computed and how many bytes move.
 */
#include <math.h>

#include "device/cuda/launch.h"

namespace
{

/* The arrays of one stretch. */
template <typename Grad, typename Param> struct arrays {
    float *weight;
    Param *param; /* the 16-bit copy; NULL: none */
    const Grad *grad;
    float *slot[2];
    float grad_scale;
};

struct adam_rule {
    static constexpr int slots = 2;
    float beta1_rest, beta2, beta2_rest, eps, step_size, denom_scale;
    float decay; /* adamw: factor of the weight; adam: L2 coefficient */
    bool decoupled;

    __device__ float step(float w, float g, float (&slot)[2]) const
    {
        float &m = slot[0], &v = slot[1];
        if (decoupled)
            w = w * decay;
        else
            g = fmaf(decay, w, g);
        m = fmaf(beta1_rest, g - m, m);
        v = fmaf(beta2_rest * g, g, beta2 * v);
        const float denom = fmaf(sqrtf(v), denom_scale, eps);
        return w - step_size * (m / denom);
    }
};

template <int SLOTS> struct sgd_rule {
    static constexpr int slots = SLOTS; /* 1: with momentum */
    float lr, decay, momentum;
    float own, look; /* the step is own * gradient + look * velocity */

    __device__ float step(float w, float g, float (&slot)[2]) const
    {
        const float d = fmaf(decay, w, g);
        if (SLOTS == 0) return fmaf(-lr, d, w);
        slot[0] = fmaf(momentum, slot[0], d);
        return fmaf(-lr, fmaf(look, slot[0], own * d), w);
    }
};

template <typename Rule, typename Grad, typename Param> struct update_each {
    Rule rule;
    arrays<Grad, Param> a;

    template <int V> __device__ void run(int64_t i) const
    {
        float w[V], g[V], slot[2][V];
        zr__get_all<V>(w, a.weight, i);
        zr__get_all<V>(g, a.grad, i);
        for (int s = 0; s < Rule::slots; s++) zr__get_all<V>(slot[s], a.slot[s], i);
        for (int v = 0; v < V; v++) {
            float own[2] = {Rule::slots > 0 ? slot[0][v] : 0, Rule::slots > 1 ? slot[1][v] : 0};
            w[v] = rule.step(w[v], g[v] * a.grad_scale, own);
            for (int s = 0; s < Rule::slots; s++) slot[s][v] = own[s];
        }
        zr__put_all<V>(a.weight, i, w);
        for (int s = 0; s < Rule::slots; s++) zr__put_all<V>(a.slot[s], i, slot[s]);
        if (a.param) zr__put_all<V>(a.param, i, w);
    }
};

template <typename Rule> zr_status update(zr_device *device, const zr_update_args *args, const Rule &rule)
{
    return zr__typed2(args->grad_dtype, args->param16 ? args->param_dtype : ZR_BF16, [&](auto *g, auto *p) {
        using Grad = std::remove_pointer_t<decltype(g)>;
        using Param = std::remove_pointer_t<decltype(p)>;
        const arrays<Grad, Param> a = {args->weight,
                                       (Param *)args->param16,
                                       (const Grad *)args->grad,
                                       {args->slot[0], args->slot[1]},
                                       args->grad_scale};
        bool packed = zr__is_aligned(a.weight) && zr__is_aligned(a.param) && zr__is_aligned(a.grad);
        for (int s = 0; s < Rule::slots; s++) packed = packed && zr__is_aligned(a.slot[s]);
        return zr__each(zr__cuda(device)->stream, args->n, packed, update_each<Rule, Grad, Param>{rule, a});
    });
}

adam_rule make_adam(const zr_update_args *args, bool decoupled)
{
    const double beta1 = args->hyper[0], beta2 = args->hyper[1];
    const double correction1 = 1 - pow(beta1, (double)args->step), correction2 = 1 - pow(beta2, (double)args->step);
    return {.beta1_rest = (float)(1 - beta1),
            .beta2 = (float)beta2,
            .beta2_rest = (float)(1 - beta2),
            .eps = (float)args->hyper[2],
            .step_size = (float)(args->lr / correction1),
            .denom_scale = (float)(1 / sqrt(correction2)),
            .decay = (float)(decoupled ? 1 - args->lr * args->weight_decay : args->weight_decay),
            .decoupled = decoupled};
}

zr_status adamw(zr_device *device, const zr_update_args *args)
{
    return update(device, args, make_adam(args, true));
}

zr_status adam(zr_device *device, const zr_update_args *args)
{
    return update(device, args, make_adam(args, false));
}

template <int SLOTS> sgd_rule<SLOTS> make_sgd(const zr_update_args *args)
{
    const bool nesterov = args->hyper[1] != 0;
    const float momentum = (float)args->hyper[0];
    return {.lr = (float)args->lr,
            .decay = (float)args->weight_decay,
            .momentum = momentum,
            .own = nesterov ? 1.0f : 0.0f,
            .look = nesterov ? momentum : 1.0f};
}

zr_status sgd(zr_device *device, const zr_update_args *args)
{
    return args->hyper[0] == 0 ? update(device, args, make_sgd<0>(args)) : update(device, args, make_sgd<1>(args));
}

const struct rule {
    const char *name;
    zr_status (*update)(zr_device *device, const zr_update_args *args);
} rules[] = {{"adamw", adamw}, {"adam", adam}, {"sgd", sgd}};

} // namespace

extern "C" zr_status zr__cuda_update(zr_device *device, const zr_optimizer *optimizer, const zr_update_args *args)
{
    ZR_CHECK(!optimizer->rule, ZR_ERR_UNSUPPORTED,
             "the optimizer \"%s\" is a function of the processor's; on a GPU use adamw, adam or sgd", optimizer->name);
    for (const rule &r : rules)
        if (strcmp(r.name, optimizer->name) == 0) return args->n == 0 ? ZR_OK : r.update(device, args);
    return ZR_FAIL(ZR_ERR_UNSUPPORTED, "no rule for the optimizer \"%s\" on a GPU: use adamw, adam or sgd",
                   optimizer->name);
}

extern "C" const zr_kernel zr__cuda_kernels_optimizer[];
extern "C" const zr_kernel zr__cuda_kernels_optimizer[] = {{}};
