/**
 * Constants of dropout and of the built-in optimizers. The host computes them in double precision, so that all devices
 * use the same bits. The header is plain C, and CUDA kernels include it as C++.
 */
#ifndef ZR_DEVICE_RULES_H
#define ZR_DEVICE_RULES_H

#include <math.h>

#include "base/number/rng.h"
#include "zr/device.h"

/** Parameters of dropout in one training step. An element's factor is 0 or 1/(1-p), depending on its random number. */
typedef struct zr__dropout {
    zr_rng rng;
    uint32_t threshold; /* minimum u for which an element is kept; u is the element's 32-bit random number >> 8 */
    float scale;        /* factor of kept elements, 1/(1-p) */
} zr__dropout;

static inline zr__dropout zr__dropout_make(const zr_runtime *runtime, int64_t stream, double p)
{
    zr__dropout d;
    d.rng.seed = runtime->seed;
    d.rng.purpose = ZR_RNG_DROPOUT;
    d.rng.stream = (uint32_t)stream;
    d.rng.step = (uint32_t)runtime->step;
    /* For a 24-bit integer u, the comparison u >= threshold is equivalent to u * 2^-24 >= p. */
    d.threshold = (uint32_t)ceil(p * 0x1p24);
    d.scale = (float)(1.0 / (1.0 - p));
    return d;
}

typedef struct zr__adam {
    float beta1_rest, beta2, beta2_rest, eps, step_size, denom_scale;
    float grad_scale;
    float decay; /* adamw: factor of the weight, 1 - lr * weight_decay; adam: coefficient of the L2 penalty */
} zr__adam;

/** Compute the constants of one training step for adamw (if `decoupled`) or adam. */
static inline zr__adam zr__adam_make(const zr_update_args *args, bool decoupled)
{
    const double beta1 = args->hyper[0], beta2 = args->hyper[1];
    const bool corrects = args->hyper[3] == 0;
    const double correction1 = corrects ? 1 - pow(beta1, (double)args->step) : 1,
                 correction2 = corrects ? 1 - pow(beta2, (double)args->step) : 1;
    const zr__adam c = {.beta1_rest = (float)(1 - beta1),
                        .beta2 = (float)beta2,
                        .beta2_rest = (float)(1 - beta2),
                        .eps = (float)args->hyper[2],
                        .step_size = (float)(args->lr / correction1),
                        .denom_scale = (float)(1 / sqrt(correction2)),
                        .grad_scale = args->grad_scale,
                        .decay = (float)(decoupled ? 1 - args->lr * args->weight_decay : args->weight_decay)};
    return c;
}

typedef struct zr__sgd {
    float lr, decay, momentum, grad_scale;
    float own, /* factor of the gradient in the weight's update: 1 with Nesterov, else 0 */
        look;  /* factor of the velocity in the weight's update: momentum with Nesterov, else 1 */
} zr__sgd;

static inline zr__sgd zr__sgd_make(const zr_update_args *args)
{
    const bool nesterov = args->hyper[1] != 0;
    const float momentum = (float)args->hyper[0];
    const zr__sgd c = {.lr = (float)args->lr,
                       .decay = (float)args->weight_decay,
                       .momentum = momentum,
                       .grad_scale = args->grad_scale,
                       .own = nesterov ? 1.0f : 0.0f,
                       .look = nesterov ? momentum : 1.0f};
    return c;
}

/** Constants of Lion: w = decay w - lr sign(beta1 m + beta1_rest g), then m = beta2 m + beta2_rest g, with
 * g = grad_scale * gradient. */
typedef struct zr__lion {
    float grad_scale, beta1, beta1_rest, beta2, beta2_rest, lr, decay;
} zr__lion;

static inline zr__lion zr__lion_make(const zr_update_args *args)
{
    const double beta1 = args->hyper[0], beta2 = args->hyper[1], lr = args->lr;
    const zr__lion c = {.grad_scale = args->grad_scale,
                        .beta1 = (float)beta1,
                        .beta1_rest = (float)(1 - beta1),
                        .beta2 = (float)beta2,
                        .beta2_rest = (float)(1 - beta2),
                        .lr = (float)lr,
                        .decay = (float)(1 - lr * args->weight_decay)};
    return c;
}

/** Constants of the direction u = m_scale m / (sqrt(v_scale v + eps_inside) + eps) + decay w and of the update
 * w -= step u, where m = beta1 m + own g, v = beta2 v + beta2_rest g^2 and g = grad_scale * gradient + l2 w. */
typedef struct zr__lamb {
    float grad_scale, l2, beta1, own, beta2, beta2_rest, m_scale, v_scale, eps_inside, eps, decay;
    float step; /* learning rate times trust ratio; not used if only the direction is computed */
} zr__lamb;

static inline double zr__lamb_ratio(const zr_update_args *args)
{
    const double w = args->norms.weight, u = args->norms.direction, least = args->hyper[3], most = args->hyper[4];
    if (w == 0 || u == 0 || (((int)args->hyper[5] & ZR_LAMB_DECAYED_ONLY) && args->weight_decay == 0)) return 1;
    const double ratio = w / u;
    return ratio < least ? least : ratio > most ? most : ratio;
}

/** Compute the constants of LAMB for one parameter in one training step. */
static inline zr__lamb zr__lamb_make(const zr_update_args *args)
{
    const double beta1 = args->hyper[0], beta2 = args->hyper[1], eps = args->hyper[2];
    const double correction1 = 1 - pow(beta1, (double)args->step), correction2 = 1 - pow(beta2, (double)args->step);
    const int flags = (int)args->hyper[5];
    const bool moments = flags & ZR_LAMB_CORRECTS_MOMENTS, l2 = flags & ZR_LAMB_L2, inside = flags & ZR_LAMB_EPS_INSIDE;
    const double lr = flags & ZR_LAMB_CORRECTS_LR ? args->lr * sqrt(correction2) / correction1 : args->lr;
    const zr__lamb c = {.grad_scale = args->grad_scale,
                        .l2 = l2 ? (float)args->weight_decay : 0.0f,
                        .beta1 = (float)beta1,
                        .own = flags & ZR_LAMB_SUMS_GRADIENTS ? 1.0f : (float)(1 - beta1),
                        .beta2 = (float)beta2,
                        .beta2_rest = (float)(1 - beta2),
                        .m_scale = moments ? (float)(1 / correction1) : 1.0f,
                        .v_scale = moments ? (float)(1 / correction2) : 1.0f,
                        .eps_inside = inside ? (float)eps : 0.0f,
                        .eps = inside ? 0.0f : (float)eps,
                        .decay = l2 ? 0.0f : (float)args->weight_decay,
                        .step = (float)(lr * zr__lamb_ratio(args))};
    return c;
}

/** Constants of Muon: the momentum m = momentum m + own g, with g = grad_scale * gradient, the direction
 * u = look m + direct g, and the update w = decay w - step x by the orthogonalised direction x. */
typedef struct zr__muon {
    float grad_scale, momentum, own, look, direct, decay, step;
} zr__muon;

static inline zr__muon zr__muon_make(const zr_update_args *args)
{
    const double momentum = args->hyper[0], own = args->hyper[2] != 0 ? 1 : 1 - momentum;
    const bool nesterov = args->hyper[1] != 0;
    const zr__muon c = {.grad_scale = args->grad_scale,
                        .momentum = (float)momentum,
                        .own = (float)own,
                        .look = nesterov ? (float)momentum : 1.0f,
                        .direct = nesterov ? (float)own : 0.0f,
                        .decay = (float)(1 - args->lr * args->weight_decay),
                        .step = (float)(args->lr * args->scale)};
    return c;
}

/** Constants of LARS: v = momentum v + step (grad_scale * gradient + decay w), then w -= v. */
typedef struct zr__lars {
    float grad_scale, momentum, decay;
    float step; /* learning rate times trust ratio */
} zr__lars;

static inline zr__lars zr__lars_make(const zr_update_args *args)
{
    const double w = args->norms.weight, g = args->norms.direction;
    const double ratio = w == 0 || g == 0 ? 1 : args->hyper[1] * w / (g + args->weight_decay * w + args->hyper[2]);
    const zr__lars c = {.grad_scale = args->grad_scale,
                        .momentum = (float)args->hyper[0],
                        .decay = (float)args->weight_decay,
                        .step = (float)(args->lr * ratio)};
    return c;
}

#endif
