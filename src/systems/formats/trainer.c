/* Arguments of the Trainer of transformers 5.24 (TrainingArguments), as YAML, JSON or a command line. */
#include "systems/formats/formats.h"

#define POLICY "activation_checkpointing.policy="
#define STAGE "zero_optimization.stage="
#define SAME(name) ZR__BOTH(name "=*", "with." name "=*")

static const zr__rule rules[] = {
    ZR__READ("deepspeed=*", "system=deepspeed file=*"),
    ZR__STANDARD("", "system=trainer"),
    ZR__BOTH("per_device_train_batch_size=*", "train_micro_batch_size_per_gpu=*"),
    ZR__STANDARD("", "train_micro_batch_size_per_gpu=8"),
    ZR__BOTH("gradient_accumulation_steps=*", "gradient_accumulation_steps=*"),
    ZR__STANDARD("", "gradient_accumulation_steps=1"),
    ZR__BOTH("bf16=*", "bf16.enabled=*"),
    ZR__BOTH("fp16=*", "fp16.enabled=*"),
    ZR__STANDARD("", "bf16.enabled=false fp16.enabled=false"),
    ZR__BOTH("max_grad_norm=*", "gradient_clipping=*"),
    ZR__STANDARD("", "gradient_clipping=1"),
    ZR__BOTH("gradient_checkpointing=true", POLICY "unit"),
    ZR__READ("activation_checkpointing=true", POLICY "unit"),
    ZR__READ("fsdp_config.activation_checkpointing=true", POLICY "unit"),
    ZR__READ("gradient_checkpointing=false", POLICY "none"),
    ZR__STANDARD("", POLICY "none"),

    ZR__BOTH("fsdp=true|full_shard|full_shard,auto_wrap fsdp_config.reshard_after_forward=true", "?!file " STAGE "3"),
    ZR__BOTH("fsdp=true|full_shard|full_shard,auto_wrap fsdp_config.reshard_after_forward=false", "?!file " STAGE "2"),
    ZR__READ("fsdp=shard_grad_op|shard_grad_op,auto_wrap", STAGE "2"),
    ZR__READ("fsdp=true|full_shard|full_shard,auto_wrap", STAGE "3"),
    ZR__REFUSED("fsdp_config.fsdp_version=1", "it is FSDP1, which zr does not plan; leave it out for FSDP2"),
    ZR__READ("fsdp_config.fsdp_version=2", ""),
    ZR__READ("fsdp_config.version=2", ""),
    ZR__STANDARD("", "?!file " STAGE "0"),

    ZR__READ("label_smoothing_factor=0", ""),
    ZR__READ("optim=lion_32bit", "optimizer.type=Lion"),
    ZR__READ("optim=adamw_8bit", "with.optim=adamw_bnb_8bit"), /* another name of it */
    ZR__BOTH("optim=*", "with.optim=*"),
    ZR__WRITE("optim=adamw_bnb_8bit", "?!with.optim ?optimizer.type=AdamW8bit ?system=trainer"),
    ZR__WRITE("optim=lion_32bit", "?!with.optim ?optimizer.type=Lion ?system=trainer"),
    ZR__WRITE("optim=adamw_torch_fused", "?!with.optim ?optimizer.type!=AdamW8bit|Lion ?system=trainer"),
    SAME("ddp_bucket_cap_mb"),
    SAME("torch_compile"),
    SAME("use_liger_kernel"),
    /* arguments of scripts, which TrainingArguments does not have */
    ZR__READ("attn_implementation=*", "with.attn_implementation=*"),
    ZR__READ("torch_dtype=*", "with.torch_dtype=*"),
    ZR__READ("dtype=*", "with.torch_dtype=*"),

    /* names of scripts for the length of samples and the model */
    ZR__READ("max_length=*", "data.seq_length=*"),
    ZR__READ("max_seq_length=*", "data.seq_length=*"),
    ZR__READ("model_max_length=*", "data.seq_length=*"),
    ZR__READ("block_size=*", "data.seq_length=*"),
    ZR__READ("cutoff_len=*", "data.seq_length=*"),
    ZR__READ("model_name_or_path=*", "model=*"),
    ZR__READ("nnodes=*", "hosts=*"),
    ZR__READ("nproc_per_node=*", "per_host=*"),
    ZR__READ("num_processes=*", "ranks=*"),
    {0}};

const zr__format zr__format_trainer = {
    .name = "trainer",
    .title = "the Trainer's arguments",
    .syntax = ZR__SYNTAX_YAML,
    .systems = "trainer",
    .signs = "per_device_train_batch_size gradient_checkpointing learning_rate num_train_epochs output_dir "
             "max_grad_norm lr_scheduler_type optim fsdp deepspeed warmup_ratio warmup_steps save_strategy "
             "logging_steps",
    .idle = "output_dir overwrite_output_dir do_train do_eval do_predict eval_* evaluation_strategy per_device_eval_* "
            "learning_rate weight_decay adam_* lr_scheduler_* num_train_epochs max_steps warmup_* log_* logging_* "
            "save_* seed data_seed dataloader_* run_name report_to disable_tqdm remove_unused_columns label_names "
            "load_best_model_at_end metric_for_best_model greater_is_better ignore_data_skip push_to_hub hub_* "
            "resume_from_checkpoint include_* prediction_loss_only torch_empty_cache_steps project trackio_* "
            "full_determinism tf32 ddp_timeout ddp_find_unused_parameters ddp_broadcast_buffers ddp_backend local_rank "
            "length_column_name train_sampling_strategy group_by_length average_tokens_across_devices use_cpu "
            "restore_callback_states_from_checkpoint skip_memory_metrics past_index jit_mode_eval "
            "fsdp_transformer_layer_cls_to_wrap fsdp_config.transformer_layer_cls_to_wrap "
            "fsdp_config.fsdp_transformer_layer_cls_to_wrap "
            "fsdp_config.cpu_ram_efficient_loading fsdp_config.state_dict_type fsdp_config.sync_module_states "
            "fsdp_config.use_orig_params gradient_checkpointing_kwargs.* node_rank master_addr master_port rdzv* "
            "dataset_* train_file validation_file tokenizer_* trust_remote_code cache_dir token use_fast_tokenizer "
            "preprocessing_num_workers overwrite_cache low_cpu_mem_usage",
    .timing = "fsdp_config.backward_prefetch fsdp_config.forward_prefetch fsdp_config.limit_all_gathers",
    .rule = rules};
