/* Defines the built-in optimizers: their states have PyTorch's names, and the device's kernels implement their update
 * rules. */
#include "zr/graph.h"

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
