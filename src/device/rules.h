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
    const double correction1 = 1 - pow(beta1, (double)args->step), correction2 = 1 - pow(beta2, (double)args->step);
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

#endif
