/* JSON files of DeepSpeed 0.19. Most of its names are keys of zr's configuration, which reads them itself. */
#include "systems/formats/formats.h"

#define ZERO "zero_optimization."
#define OPTIMIZER "optimizer.params."
/* a key that means the same to zr */
#define KEY(name) ZR__WRITE(name "=*", name "=*")
/* a key that means the same to zr, and has no effect in DeepSpeed below stage 3 */
#define STAGE_3(name) ZR__WRITE(name "=*", "?" ZERO "stage=3 " name "=*")
/* an option of the system that is a key of DeepSpeed in a section */
#define OPTION(path, name) ZR__BOTH(path name "=*", "with." name "=*")

static const zr__rule rules[] = {
    ZR__STANDARD("", "system=deepspeed"),
    ZR__WRITE("train_batch_size=*", "global=*"),
    ZR__READ(ZERO "stage3_model_persistence_threshold=9223372036854775807", ""), /* sys.maxsize: no limit */
    KEY("train_micro_batch_size_per_gpu"),
    KEY("gradient_accumulation_steps"),
    KEY("gradient_clipping"),
    KEY("bf16.enabled"),
    KEY("fp16.enabled"),
    KEY("communication_data_type"),
    ZR__BOTH("data_types.grad_accum_dtype=fp32", "with.grad_accum_dtype=fp32"),
    ZR__BOTH("data_types.grad_accum_dtype=bf16", "with.grad_accum_dtype=bf16"),
    ZR__BOTH("data_types.grad_accum_dtype=fp16", "with.grad_accum_dtype=fp16"),
    ZR__READ("tensor_parallel.autotp_size=*", "parallel.tensor=*"),
    ZR__WRITE("tensor_parallel.autotp_size=*", "?parallel.tensor!=1 parallel.tensor=*"),
    OPTION("", "sequence_parallel_size"),

    KEY(ZERO "stage"),
    KEY(ZERO "mics_shard_size"),
    OPTION(ZERO, "reduce_bucket_size"),
    OPTION(ZERO, "allgather_bucket_size"),
    OPTION(ZERO, "overlap_comm"),
    OPTION(ZERO, "contiguous_gradients"),
    OPTION(ZERO, "stage3_prefetch_bucket_size"),
    OPTION(ZERO, "stage3_max_live_parameters"),
    OPTION(ZERO, "stage3_max_reuse_distance"),
    OPTION(ZERO, "stage3_param_persistence_threshold"),
    OPTION(ZERO, "stage3_model_persistence_threshold"),
    OPTION(ZERO, "sub_group_size"),
    OPTION(ZERO, "zero_hpz_partition_size"),
    STAGE_3(ZERO "zero_quantized_weights"),
    STAGE_3(ZERO "zero_quantized_nontrainable_weights"),
    STAGE_3(ZERO "zero_quantized_gradients"),
    STAGE_3(ZERO "zeropp_loco_param.reset_T"),
    STAGE_3(ZERO "zeropp_loco_param.err_beta"),
    KEY(ZERO "offload_optimizer.device"),
    KEY(ZERO "offload_optimizer.nvme_path"),
    KEY(ZERO "offload_optimizer.ratio"),
    KEY(ZERO "offload_param.device"),
    KEY(ZERO "offload_param.nvme_path"),

    KEY("optimizer.type"),
    KEY(OPTIMIZER "lr"),
    KEY(OPTIMIZER "betas"),
    KEY(OPTIMIZER "eps"),
    KEY(OPTIMIZER "weight_decay"),
    OPTION(OPTIMIZER, "torch_adam"),
    OPTION("bf16.", "bf16_master_weights_and_grads"),
    OPTION("bf16.", "bf16_optimizer_states"),
    OPTION("bf16.", "check_grad_overflow"),
    KEY("activation_checkpointing.partition_activations"),
    KEY("activation_checkpointing.cpu_checkpointing"),
    {0}};

const zr__format zr__format_deepspeed = {
    .name = "deepspeed",
    .title = "DeepSpeed's JSON file",
    .syntax = ZR__SYNTAX_JSON,
    .systems = "deepspeed",
    .signs = "zero_optimization.* train_micro_batch_size_per_gpu train_batch_size optimizer.type bf16.enabled "
             "fp16.enabled activation_checkpointing.* wall_clock_breakdown zero_allow_untested_optimizer",
    .idle = "wall_clock_breakdown steps_per_print memory_breakdown dump_state tensorboard.* wandb.* csv_monitor.* "
            "comet.* flops_profiler.* comms_logger.* autotuning.* nebula.* zero_allow_untested_optimizer "
            "zero_force_ds_cpu_optimizer dataloader_drop_last",
    .passes = true,
    .rule = rules};
