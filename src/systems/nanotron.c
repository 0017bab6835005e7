/* nanotron: tensor, pipeline and data parallelism with ZeRO-1. */
#include "systems/systems.h"

static const zr__option options[] = {
    ZR__BOOL("accumulate_grad_in_fp32", "true", .help = "gradients are summed in fp32, beside those in bf16"),
    ZR__CHOICE("tp_mode", "REDUCE_SCATTER", "REDUCE_SCATTER|ALL_REDUCE",
               .help = "REDUCE_SCATTER: norms and residuals on a rank's own tokens"),
    ZR__TORCH_OPTIONS,
    {0},
};

const zr__system zr__system_nanotron = {
    .name = "nanotron", .title = "nanotron", .version = "nanotron, February 2025", .option = options};
