/* DeepSpeed 0.19 with a model of transformers. Sources: deepspeed/runtime/engine.py, zero/config.py,
 * zero/stage_1_and_2.py, zero/stage3.py, zero/partition_parameters.py, bf16_optimizer.py. */
#include "systems/systems.h"

#define ZERO "zero_optimization."
static const zr__option options[] = {
    ZR__INT("reduce_bucket_size", "5e8", 1, 1e12, .key = ZERO "reduce_bucket_size",
            .help = "elements of a bucket of gradients, which is allocated whole"),
    ZR__INT("allgather_bucket_size", "5e8", 1, 1e12, .key = ZERO "allgather_bucket_size",
            .help = "no effect: torch gathers a group in one call, in place"),
    ZR__BOOL("overlap_comm", "auto", .key = ZERO "overlap_comm",
             .help = "a second bucket, which is reduced while the first is filled; auto: only at stage 3"),
    ZR__BOOL("contiguous_gradients", "true", .key = ZERO "contiguous_gradients",
             .help = "whether gradients are copied into the bucket as they are computed"),
    ZR__INT("stage3_prefetch_bucket_size", "5e7", 0, 1e12, .key = ZERO "stage3_prefetch_bucket_size",
            .help = "elements that stage 3 gathers ahead"),
    ZR__INT("stage3_max_live_parameters", "1e9", 0, 1e12, .key = ZERO "stage3_max_live_parameters",
            .help = "gathered elements: a smaller model stays gathered"),
    ZR__INT("stage3_max_reuse_distance", "1e9", 0, 1e12, .key = ZERO "stage3_max_reuse_distance",
            .help = "elements until the next use within which a gathered parameter stays"),
    ZR__INT("stage3_param_persistence_threshold", "1e5", 0, 1e12, .key = ZERO "stage3_param_persistence_threshold",
            .help = "parameters with fewer elements stay whole"),
    ZR__INT("stage3_model_persistence_threshold", "auto", 0, 1e15, .key = ZERO "stage3_model_persistence_threshold",
            .help = "elements that stay whole in all; auto: no limit"),
    ZR__INT("sub_group_size", "1e9", 1, 1e12, .key = ZERO "sub_group_size",
            .help = "elements that stage 3 updates at a time"),
    ZR__INT("zero_hpz_partition_size", "1", 1, 1e6, .key = ZERO "zero_hpz_partition_size",
            .help = "ranks over which a second copy of the 16-bit parameters is sharded"),
    ZR__CHOICE("grad_accum_dtype", "auto", "fp32|bf16|fp16", .key = "data_types.grad_accum_dtype",
               .help = "type of accumulated gradients; auto: that of the parameters. fp32 with bf16 and stage 1 takes "
                       "BF16_Optimizer"),
    ZR__BOOL("torch_adam", "false", .help = "torch's AdamW (foreach) instead of FusedAdam"),
    ZR__BOOL("bf16_master_weights_and_grads", "false", .help = "master weights in bf16; only stages 1 to 3"),
    ZR__BOOL("bf16_optimizer_states", "false", .help = "moments in bf16, with bf16_master_weights_and_grads"),
    ZR__BOOL("check_grad_overflow", "true", .help = "of bf16: look for infinite gradients (default true since 2026)"),
    ZR__INT("sequence_parallel_size", "1", 1, 1e6, .help = "Ulysses: ranks that share the tokens of a sample"),
    ZR__TRANSFORMERS_OPTIONS,
    ZR__TORCH_OPTIONS,
    {0},
};

const zr__system zr__system_deepspeed = {.name = "deepspeed",
                                         .title = "DeepSpeed",
                                         .version = "DeepSpeed 0.19.8, transformers 5.24",
                                         .option = options,
                                         .unproved = "no measured row of allocated bytes proves DeepSpeed's formulas; "
                                                     "they are read from its source",
                                         .context_option = "sequence_parallel_size"};
