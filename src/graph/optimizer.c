/* Defines the built-in optimizers: their states have PyTorch's names, and the device's kernels implement their update
 * rules. */
#include "graph/graph.h"

#include <math.h>

zr_optimizer zr_adamw(double beta1, double beta2, double eps, double weight_decay)
{
    return (zr_optimizer){.name = "adamw",
                          .n_slots = 2,
                          .hyper = {beta1, beta2, eps},
                          .weight_decay = weight_decay,
                          .slot_name = {"exp_avg", "exp_avg_sq"}};
}

zr_optimizer zr_adam(double beta1, double beta2, double eps, double weight_decay)
{
    zr_optimizer adam = zr_adamw(beta1, beta2, eps, weight_decay);
    adam.name = "adam";
    return adam;
}

zr_optimizer zr_sgd(double momentum, bool nesterov, double weight_decay)
{
    return (zr_optimizer){.name = "sgd",
                          .n_slots = momentum == 0 ? 0 : 1,
                          .hyper = {momentum, nesterov ? 1 : 0},
                          .weight_decay = weight_decay,
                          .slot_name = {"momentum_buffer"}};
}

zr_optimizer zr_lion(double beta1, double beta2, double weight_decay)
{
    return (zr_optimizer){
        .name = "lion", .n_slots = 1, .hyper = {beta1, beta2}, .weight_decay = weight_decay, .slot_name = {"exp_avg"}};
}

zr_lamb_args zr_lamb_defaults(zr_lamb_variant variant)
{
    const bool deepspeed = variant == ZR_LAMB_DEEPSPEED;
    return (zr_lamb_args){.beta1 = 0.9,
                          .beta2 = 0.999,
                          .eps = deepspeed ? 1e-8 : 1e-6,
                          .weight_decay = deepspeed ? 0 : 0.01,
                          .bias_correction = true,
                          .min_coeff = 0.01,
                          .max_coeff = 10,
                          .adam_w_mode = true,
                          .grad_averaging = true};
}

/* Return the optimizer LAMB. Its `hyper` contains only the settings that the variant uses, so kernels need not know the
 * variants. */
zr_optimizer zr_lamb(zr_lamb_variant variant, const zr_lamb_args *args)
{
    const zr_lamb_args standard = zr_lamb_defaults(variant), *a = args ? args : &standard;
    const bool deepspeed = variant == ZR_LAMB_DEEPSPEED, nvidia = variant == ZR_LAMB_NVIDIA;
    const int flags = (a->bias_correction ? deepspeed ? ZR_LAMB_CORRECTS_LR : ZR_LAMB_CORRECTS_MOMENTS : 0) |
                      (deepspeed && a->eps_inside_sqrt ? ZR_LAMB_EPS_INSIDE : 0) |
                      (nvidia && !a->adam_w_mode ? ZR_LAMB_L2 : 0) |
                      (nvidia && !a->grad_averaging ? ZR_LAMB_SUMS_GRADIENTS : 0) |
                      (nvidia && !a->use_nvlamb ? ZR_LAMB_DECAYED_ONLY : 0);
    zr_optimizer lamb = zr_adamw(a->beta1, a->beta2, a->eps, a->weight_decay);
    lamb.name = "lamb";
    lamb.trust = true;
    lamb.hyper[3] = deepspeed ? a->min_coeff : 0;
    lamb.hyper[4] = deepspeed ? a->max_coeff : INFINITY;
    lamb.hyper[5] = flags;
    return lamb;
}

zr_optimizer zr_lars(double momentum, double trust_coefficient, double eps, double weight_decay)
{
    zr_optimizer lars = zr_sgd(momentum, false, weight_decay);
    lars.name = "lars";
    lars.trust = true;
    lars.hyper[1] = trust_coefficient;
    lars.hyper[2] = eps;
    return lars;
}

zr_muon_args zr_muon_defaults(void)
{
    return (zr_muon_args){.momentum = 0.95,
                          .weight_decay = 0.1,
                          .nesterov = true,
                          .ortho = {.steps = 5,
                                    .a = 3.4445,
                                    .b = -4.7750,
                                    .c = 2.0315,
                                    .eps = 1e-7,
                                    .dtype = ZR_BF16,
                                    .scale = ZR_MUON_ORIGINAL}};
}

zr_optimizer zr_muon(const zr_muon_args *args)
{
    const zr_muon_args standard = zr_muon_defaults(), *a = args ? args : &standard;
    return (zr_optimizer){.name = "muon",
                          .n_slots = 1,
                          .hyper = {a->momentum, a->nesterov ? 1 : 0, a->sums ? 1 : 0},
                          .weight_decay = a->weight_decay,
                          .slot_name = {"momentum_buffer"},
                          .ortho = a->ortho};
}

double zr__muon_factor(zr_muon_scale scale, int64_t outputs, int64_t inputs)
{
    const double r = (double)outputs, c = (double)inputs;
    switch (scale) {
    case ZR_MUON_MATCH_RMS_ADAMW:
        return 0.2 * sqrt(fmax(r, c));
    case ZR_MUON_SPECTRAL_UNCLAMPED:
        return sqrt(r / c);
    case ZR_MUON_SPECTRAL:
        return sqrt(fmax(r, c));
    case ZR_MUON_ORIGINAL:
        break;
    }
    return sqrt(fmax(1, r / c));
}
