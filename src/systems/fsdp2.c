/* PyTorch's FSDP2 (fully_shard): torchtitan, accelerate with fsdp_version 2, litgpt. */
#include "systems/systems.h"

static const zr__option options[] = {
    ZR__CHOICE("model_code", "torchtitan", "torchtitan|transformers|litgpt",
               .help = "whose implementation of the model"),
    ZR__CHOICE("dtype", "float32", "float32|bfloat16", .help = "type of the shards, and so of gradients and moments"),
    ZR__CHOICE("param_dtype", "auto", "float32|bfloat16|float16",
               .help = "of MixedPrecisionPolicy: type of gathered parameters; auto: bf16.enabled or fp16.enabled"),
    ZR__CHOICE("reduce_dtype", "float32", "float32|bfloat16|float16",
               .help =
                   "of MixedPrecisionPolicy. Without it torch takes param_dtype, and from 2.15 on that of the shards"),
    ZR__BOOL("reshard_after_forward", "auto", .help = "free gathered units after the forward pass; auto: at stage 3"),
    ZR__BOOL("sync_each_batch", "true",
             .help = "reduce gradients in each micro-batch; false: accumulate whole ones (accelerate's default)"),
    ZR__BOOL("gradients_persist", "true",
             .help = "whether gradients stay until the next backward pass (CUDA graphs; zero_grad after the forward)"),
    ZR__CHOICE("optimizer", "fused", "fused|foreach|for-loop", .help = "implementation of AdamW"),
    ZR__BOOL("bf16_optimizer_states", "false", .help = "fused_opt_states_bf16 of torchtitan"),
    ZR__CHOICE("activation_checkpoint", "auto", "none|selective|full",
               .help = "recompute; selective keeps every second product (torchtitan); auto: "
                       "activation_checkpointing.policy"),
    ZR__WORDS("compile", "none", "model|loss", .help = "parts that are compiled"),
    ZR__CHOICE("compile_backend", "inductor", "inductor|thunder", .help = "compiler of the model"),
    ZR__CHOICE("loss_dtype", "float32", "float32|bfloat16", .help = "type of the logits in the cross-entropy"),
    ZR__INT("loss_chunks", "1", 1, 1e6,
            .help = "pieces of the tokens for which logits exist (torchtitan from 2026: 8)"),
    ZR__BOOL("loss_parallel", "true", .help = "with tensor parallelism: the loss of logits that are cut"),
    ZR__BOOL("enable_sequence_parallel", "true", .help = "with tensor parallelism: norms on a rank's own tokens"),
    ZR__INT("context_parallel_degree", "1", 1, 1e6, .help = "ranks that share the tokens of a sample"),
    ZR__INT("data_parallel_replicate_degree", "1", 1, 1e6, .help = "copies of the shards (HSDP)"),
    ZR__BOOL("cpu_offload", "auto", .help = "parameters, gradients and states in host memory; auto: offload_param"),
    ZR__TRANSFORMERS_OPTIONS,
    ZR__TORCH_OPTIONS,
    {0},
};

const zr__system zr__system_fsdp2 = {.name = "fsdp2",
                                     .title = "FSDP2",
                                     .version = "torch 2.15, torchtitan 0.3.0, accelerate 1.15",
                                     .option = options,
                                     .context_option = "context_parallel_degree"};
