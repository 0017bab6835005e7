/* YAML files of accelerate 1.15 (`accelerate config`), with DeepSpeed, FSDP2 or DDP. */
#include "systems/formats/formats.h"

#define DS "deepspeed_config."
#define FSDP "fsdp_config."
#define GRID "parallelism_config.parallelism_config_"
#define ZERO "zero_optimization."
#define IN_DS "?system=deepspeed "
#define IN_FSDP "?system=fsdp2 "
#define POLICY "activation_checkpointing.policy="
#define PLACES ZERO "offload_optimizer.device=cpu " ZERO "offload_param.device=cpu"

static const zr__rule rules[] = {
    ZR__READ("compute_environment=LOCAL_MACHINE", ""),
    ZR__WRITE("compute_environment=LOCAL_MACHINE", "?system"),
    ZR__BOTH("distributed_type=DEEPSPEED", "system=deepspeed"),
    ZR__BOTH("distributed_type=FSDP " FSDP "fsdp_version=2", "system=fsdp2"),
    ZR__REFUSED("distributed_type=FSDP",
                "without fsdp_version: 2 it is FSDP1, which zr does not plan; FSDP2 is the nearest: fsdp_version: 2"),
    ZR__BOTH("distributed_type=MULTI_GPU", "system=ddp"),
    ZR__READ("distributed_type=NO", "system=ddp ranks=1"),
    ZR__REFUSED("distributed_type=MEGATRON_LM", "give Megatron-LM's own options to --from"),
    ZR__REFUSED("distributed_type=*", "zr plans DEEPSPEED, FSDP and MULTI_GPU"),
    ZR__BOTH("num_machines=*", "hosts=*"),
    ZR__BOTH("num_processes=*", "ranks=*"),
    ZR__WRITE("", "per_host=*"),
    ZR__BOTH("mixed_precision=bf16", "bf16.enabled=true"),
    ZR__BOTH("mixed_precision=fp16", "fp16.enabled=true"),
    ZR__REFUSED("mixed_precision=fp8", "zr plans 16-bit and 32-bit training"),
    ZR__BOTH("mixed_precision=no", "bf16.enabled=false fp16.enabled=false"),
    ZR__STANDARD("", "bf16.enabled=false fp16.enabled=false"),

    /* DeepSpeed */
    ZR__BOTH(DS "deepspeed_config_file=*", IN_DS "file=*"),
    ZR__BOTH(DS "zero_stage=*", IN_DS ZERO "stage=*"),
    ZR__BOTH(DS "gradient_accumulation_steps=*", IN_DS "gradient_accumulation_steps=*"),
    ZR__BOTH(DS "gradient_clipping=*", IN_DS "gradient_clipping=*"),
    ZR__BOTH(DS "offload_optimizer_device=*", IN_DS ZERO "offload_optimizer.device=*"),
    ZR__BOTH(DS "offload_optimizer_nvme_path=*", IN_DS ZERO "offload_optimizer.nvme_path=*"),
    ZR__BOTH(DS "offload_param_device=*", IN_DS ZERO "offload_param.device=*"),
    ZR__BOTH(DS "offload_param_nvme_path=*", IN_DS ZERO "offload_param.nvme_path=*"),
    ZR__WRITE(DS "zero3_init_flag=true", IN_DS "?" ZERO "stage=3"),
    ZR__STANDARD("", IN_DS "?!file " ZERO "stage=2"),
    ZR__STANDARD("", IN_DS "?!file gradient_accumulation_steps=1"),

    /* FSDP2 */
    ZR__STANDARD("", "?system=fsdp2 with.model_code=transformers"),
    ZR__STANDARD("", "?system=fsdp2 with.sync_each_batch=false"),
    ZR__STANDARD("", "?system=fsdp2 with.reduce_dtype=bfloat16"),
    ZR__BOTH(FSDP "fsdp_reshard_after_forward=true", IN_FSDP ZERO "stage=3"),
    ZR__BOTH(FSDP "fsdp_reshard_after_forward=false", IN_FSDP ZERO "stage=2"),
    ZR__STANDARD("", IN_FSDP ZERO "stage=3"),
    ZR__BOTH(FSDP "fsdp_offload_params=true", IN_FSDP PLACES),
    ZR__READ(FSDP "fsdp_offload_params=false", ""),
    ZR__BOTH(FSDP "fsdp_activation_checkpointing=true", IN_FSDP POLICY "unit"),
    ZR__READ(FSDP "fsdp_activation_checkpointing=false", ""),
    ZR__READ(FSDP "fsdp_auto_wrap_policy=TRANSFORMER_BASED_WRAP", ""),
    ZR__WRITE(FSDP "fsdp_auto_wrap_policy=TRANSFORMER_BASED_WRAP", IN_FSDP),
    ZR__REFUSED(FSDP "fsdp_auto_wrap_policy=*", "zr plans TRANSFORMER_BASED_WRAP, one unit a transformer block"),
    ZR__READ(GRID "tp_size=*", IN_FSDP "parallel.tensor=*"),
    ZR__WRITE(GRID "tp_size=*", IN_FSDP "?parallel.tensor!=1 parallel.tensor=*"),
    ZR__BOTH(GRID "cp_size=*", IN_FSDP "with.context_parallel_degree=*"),
    ZR__BOTH(GRID "dp_replicate_size=*", IN_FSDP "with.data_parallel_replicate_degree=*"),
    ZR__READ(GRID "dp_shard_size=*", ""), /* follows from the ranks */

    /* DDP */
    ZR__STANDARD("", "?system=ddp " ZERO "stage=0"),
    ZR__STANDARD("", POLICY "none"),
    {0}};

const zr__format zr__format_accelerate = {
    .name = "accelerate",
    .title = "accelerate's YAML file",
    .syntax = ZR__SYNTAX_YAML,
    .systems = "fsdp2 deepspeed ddp",
    .signs = "distributed_type compute_environment machine_rank num_processes num_machines mixed_precision "
             "fsdp_config.* deepspeed_config.* parallelism_config.*",
    .idle = "machine_rank main_process_ip main_process_port main_training_function rdzv_backend same_network tpu_* "
            "use_cpu debug enable_cpu_affinity downcast_bf16 gpu_ids deepspeed_config.zero3_init_flag "
            "deepspeed_config.zero3_save_16bit_model deepspeed_config.deepspeed_multinode_launcher "
            "deepspeed_config.deepspeed_hostfile deepspeed_config.deepspeed_inclusion_filter "
            "deepspeed_config.deepspeed_exclusion_filter fsdp_config.fsdp_state_dict_type "
            "fsdp_config.fsdp_cpu_ram_efficient_loading fsdp_config.fsdp_transformer_layer_cls_to_wrap "
            "fsdp_config.fsdp_use_orig_params fsdp_config.fsdp_sync_module_states commands",
    .timing = "fsdp_config.fsdp_backward_prefetch fsdp_config.fsdp_forward_prefetch",
    .rule = rules};
