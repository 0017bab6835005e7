/* PyTorch's DistributedDataParallel with a model of transformers. */
#include "systems/systems.h"

static const zr__option options[] = {
    ZR__CHOICE("dtype", "float32", "float32|bfloat16|float16",
               .help = "type of the weights; float32 with bf16.enabled or fp16.enabled means autocast"),
    ZR__BOOL("gradient_as_bucket_view", "false", .help = "gradients in the buckets, not beside them"),
    ZR__INT("bucket_cap_mb", "25", 1, 1e6, .help = "MiB of a bucket; all buckets together have all gradients"),
    ZR__CHOICE("optimizer", "foreach", "fused|foreach|for-loop", .help = "implementation of AdamW"),
    ZR__TRANSFORMERS_OPTIONS,
    ZR__TORCH_OPTIONS,
    {0},
};

const zr__system zr__system_ddp = {.name = "ddp",
                                   .title = "DDP",
                                   .version = "torch 2.15, transformers 5.24",
                                   .option = options,
                                   .unproved = "no measured row of allocated bytes proves the formulas of models of "
                                               "transformers; they are read from source and counted on a processor"};
