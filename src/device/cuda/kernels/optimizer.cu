/*
 * The built-in optimizers: one pass over the parameters that unscales, clips, updates and casts. The operations are the
 * same as in src/device/cpu/kernels/optimizer.c, whose comments give the formulas and the memory traffic.
 */
#include "device/cuda/launch.h"
#include "device/rules.h"

namespace
{

/* Arrays of the range of parameters that is updated. */
template <typename Grad, typename Param> struct arrays {
    float *weight;
    Param *param; /* the weights' 16-bit copy, or NULL without a copy */
    const Grad *grad;
    float *slot[2];
};

struct adam_rule : zr__adam {
    static constexpr int slots = 2;
    bool decoupled; /* adamw */

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

template <int SLOTS> struct sgd_rule : zr__sgd {
    static constexpr int slots = SLOTS; /* number of state arrays besides the weight: 1 with momentum, else 0 */

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
            w[v] = rule.step(w[v], g[v] * rule.grad_scale, own);
            for (int s = 0; s < Rule::slots; s++) slot[s][v] = own[s];
        }
        zr__put_all<V>(a.weight, i, w);
        for (int s = 0; s < Rule::slots; s++) zr__put_all<V>(a.slot[s], i, slot[s]);
        if (a.param) zr__put_all<V>(a.param, i, w);
    }
};

template <typename Rule> zr_status update(zr_device *device, const zr_update_args *args, const Rule &rule)
{
    return zr__typed2(
        args->grad_dtype, args->param16 ? args->param_dtype : ZR_BF16,
        [&]<typename Grad, typename Param>(Grad *, Param *) {
            const arrays<Grad, Param> a = {
                args->weight, (Param *)args->param16, (const Grad *)args->grad, {args->slot[0], args->slot[1]}};
            bool packed = zr__is_aligned(a.weight) && zr__is_aligned(a.param) && zr__is_aligned(a.grad);
            for (int s = 0; s < Rule::slots; s++) packed = packed && zr__is_aligned(a.slot[s]);
            return zr__each(zr__cuda(device)->stream, args->n, packed, update_each<Rule, Grad, Param>{rule, a});
        });
}

zr_status adamw(zr_device *device, const zr_update_args *args)
{
    return update(device, args, adam_rule{zr__adam_make(args, true), true});
}

zr_status adam(zr_device *device, const zr_update_args *args)
{
    return update(device, args, adam_rule{zr__adam_make(args, false), false});
}

zr_status sgd(zr_device *device, const zr_update_args *args)
{
    const zr__sgd c = zr__sgd_make(args);
    return c.momentum == 0 ? update(device, args, sgd_rule<0>{c}) : update(device, args, sgd_rule<1>{c});
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

ZR_CUDA_KERNELS(optimizer) = {{}};
