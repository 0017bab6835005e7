/* Command lines of torchtitan 0.3.0: torchtitan.train --module NAME --config NAME --section.option VALUE, and its older
 * TOML files. Shapes are those of its registry (torchtitan/models), each with the options of its configuration. */
#include "systems/formats/formats.h"

#define SHARDED "zero_optimization.stage="
#define PIPED "?parallel.pipeline ?parallel.pipeline!=1 "
#define POLICY "activation_checkpointing.policy="
#define PARALLEL "parallelism."
#define TRAINING "training."
/* a configuration of the registry, which is a shape with defaults */
#define SHAPE(module_name, config_name, preset)                                                                        \
    ZR__BOTH("module=" module_name " config=" config_name, "model.preset=" preset)
#define BATCH(config_name, samples, tokens)                                                                            \
    ZR__STANDARD("?config=" config_name, "train_micro_batch_size_per_gpu=" samples " data.seq_length=" tokens)

static const zr__rule rules[] = {
    ZR__STANDARD("", "system=fsdp2 with.model_code=torchtitan with.loss_chunks=8"),

    SHAPE("llama3", "llama3_8b", "llama3.1-8b"),
    SHAPE("llama3", "llama3_70b", "llama3.1-70b"),
    SHAPE("qwen3", "qwen3_0_6b", "qwen3-0.6b"),
    SHAPE("qwen3", "qwen3_1_7b", "qwen3-1.7b"),
    SHAPE("qwen3", "qwen3_14b", "qwen3-14b"),
    SHAPE("qwen3", "qwen3_32b", "qwen3-32b"),
    ZR__REFUSED("module=llama3 config=llama3_405b",
                "its linear layers are in float8, and zr plans 16-bit and 32-bit training"),
    ZR__NEAREST("module=llama3 config=llama3_8b", "model.preset=llama3-8b",
                "torchtitan's 8B has the rotary embedding of Llama 3.1; memory and time are those of Llama 3"),
    ZR__NEAREST("module=llama3 config=llama3_70b", "model.preset=llama3-70b",
                "torchtitan's 70B has the rotary embedding of Llama 3.1; memory and time are those of Llama 3"),
    ZR__READ("model.name=llama3 model.flavor=8B", "model.preset=llama3.1-8b"),
    ZR__READ("model.name=llama3 model.flavor=70B", "model.preset=llama3.1-70b"),

    /* ranks */
    ZR__BOTH("nnodes=*", "hosts=*"),
    ZR__BOTH("nproc_per_node=*", "per_host=*"),
    ZR__BOTH(PARALLEL "tensor_parallel_degree=*", "parallel.tensor=*"),
    ZR__STANDARD("?config=llama3_70b", "parallel.tensor=8"),
    ZR__BOTH(PARALLEL "no-enable-sequence-parallel=true", "with.enable_sequence_parallel=false"),
    ZR__READ(PARALLEL "enable_sequence_parallel=*", "with.enable_sequence_parallel=*"),
    ZR__BOTH(PARALLEL "context_parallel_degree=*", "with.context_parallel_degree=*"),
    ZR__BOTH(PARALLEL "data_parallel_replicate_degree=*", "with.data_parallel_replicate_degree=*"),
    ZR__BOTH(PARALLEL "data_parallel_shard_degree=-1", ""),
    ZR__READ(PARALLEL "data_parallel_shard_degree=*", "shard=*"),
    ZR__BOTH(PARALLEL "pipeline_parallel_degree=*", "parallel.pipeline=*"),
    ZR__BOTH(PARALLEL "pipeline_parallel_schedule=1F1B", "?parallel.pipeline parallel.schedule=1f1b"),
    ZR__BOTH(PARALLEL "pipeline_parallel_schedule=GPipe", "parallel.schedule=gpipe"),
    ZR__BOTH(PARALLEL "pipeline_parallel_schedule=Interleaved1F1B " PARALLEL "pipeline_parallel_layers_per_stage=*",
             "parallel.schedule=interleaved layers_per_chunk=*"),
    ZR__BOTH(PARALLEL "pipeline_parallel_schedule=LoopedBFS " PARALLEL "pipeline_parallel_layers_per_stage=*",
             "parallel.schedule=breadth_first layers_per_chunk=*"),
    ZR__BOTH(PARALLEL "pipeline_parallel_schedule=ZBVZeroBubble", "parallel.schedule=zb_v"),
    ZR__STANDARD("", "parallel.schedule=1f1b"),
    ZR__WRITE("", "parallel.chunks=*"), /* follows from the layers of a stage */

    /* stages: with pipelines torchtitan keeps gathered units, unless it is told otherwise */
    ZR__BOTH(PARALLEL "fsdp_reshard_after_forward=always", SHARDED "3"),
    ZR__BOTH(PARALLEL "fsdp_reshard_after_forward=never", SHARDED "2"),
    ZR__READ(PARALLEL "fsdp_reshard_after_forward=default", PIPED SHARDED "2"),
    ZR__READ(PARALLEL "fsdp_reshard_after_forward=default", SHARDED "3"),
    ZR__STANDARD("", PIPED SHARDED "2"),
    ZR__STANDARD("", SHARDED "3"),

    /* batch, types */
    ZR__BOTH(PARALLEL "pipeline_parallel_microbatch_size=*", PIPED "train_micro_batch_size_per_gpu=*"),
    ZR__STANDARD("", PIPED "train_micro_batch_size_per_gpu=1"),
    ZR__BOTH(TRAINING "local_batch_size=*", PIPED "local=*"),
    ZR__BOTH(TRAINING "local_batch_size=*", "train_micro_batch_size_per_gpu=*"),
    ZR__READ(TRAINING "global_batch_size=-1", ""),
    ZR__BOTH(TRAINING "global_batch_size=*", "global=*"),
    ZR__WRITE("", "gradient_accumulation_steps=*"), /* follows from the three */
    ZR__BOTH(TRAINING "seq_len=*", "data.seq_length=*"),
    BATCH("llama3_8b", "1", "8192"),
    BATCH("llama3_70b", "8", "8192"),
    BATCH("qwen3_0_6b", "4", "4096"),
    BATCH("qwen3_1_7b", "4", "4096"),
    BATCH("qwen3_14b", "4", "4096"),
    BATCH("qwen3_32b", "2", "4096"),
    ZR__BOTH(TRAINING "max_norm=*", "gradient_clipping=*"),
    ZR__STANDARD("", "gradient_clipping=1"),
    ZR__BOTH(TRAINING "dtype=*", "with.dtype=*"),
    ZR__BOTH(TRAINING "mixed_precision_param=bfloat16", "bf16.enabled=true"),
    ZR__READ(TRAINING "mixed_precision_param=float32", "?!bf16.enabled bf16.enabled=false"),
    ZR__WRITE(TRAINING "mixed_precision_param=float32", "bf16.enabled=false"),
    ZR__STANDARD("", "bf16.enabled=true"),
    ZR__BOTH(TRAINING "mixed_precision_reduce=*", "with.reduce_dtype=*"),
    ZR__BOTH(TRAINING "enable_cpu_offload=true",
             "zero_optimization.offload_param.device=cpu zero_optimization.offload_optimizer.device=cpu"),
    ZR__BOTH(TRAINING "disable_cuda_graphs=true", "with.gradients_persist=false"),
    ZR__NEAREST(TRAINING "disable_cuda_graphs=true", PIPED,
                "torchtitan has no pipelines with CUDA graphs, so gradients do not persist between steps: --with "
                "gradients_persist=false plans that"),

    /* recompute, implementation */
    ZR__BOTH("activation-checkpoint=selective", POLICY "selective"),
    ZR__BOTH("activation-checkpoint=full", POLICY "unit"),
    ZR__READ("activation_checkpoint.mode=full", POLICY "unit"),
    ZR__READ("activation_checkpoint.mode=none", POLICY "none"),
    ZR__READ("activation_checkpoint.mode=selective activation_checkpoint.selective_ac_option=2|op", POLICY "selective"),
    ZR__BOTH("activation-checkpoint=none", POLICY "none"),
    ZR__STANDARD("?config=llama3_8b|qwen3_0_6b|qwen3_1_7b ?!activation-checkpoint",
                 "?!"
                 "activation_checkpointing.policy " POLICY "selective"),
    ZR__STANDARD("", POLICY "unit"),
    ZR__BOTH("optimizer.implementation=fused_opt_states_bf16", "with.optimizer=fused with.bf16_optimizer_states=true"),
    ZR__WRITE("optimizer.implementation=fused_opt_states_bf16", "with.bf16_optimizer_states=true"),
    ZR__BOTH("optimizer.implementation=*", "with.optimizer=*"),
    ZR__BOTH("compile.enable=true compile.components=*", "with.compile=*"),
    ZR__READ("compile.enable=true", "with.compile=model,loss"),
    ZR__READ("?compile.enable=false compile.components=*", ""),
    ZR__READ("compile.enable=false", ""),
    ZR__READ("compile.no-enable=true", ""),
    ZR__BOTH("compile.backend=*", "with.compile_backend=*"),
    {0}};

const zr__format zr__format_torchtitan = {
    .name = "torchtitan",
    .title = "torchtitan's command line",
    .syntax = ZR__SYNTAX_SHELL,
    .systems = "fsdp2",
    .needs = "model.preset model.init model.type with.* activation_checkpointing.policy fp16.enabled",
    .signs = "module config training.* parallelism.* activation-checkpoint compile.* job.* model.flavor",
    .idle = "job.* profiling.* profiler.* metrics.* checkpoint.* training.steps training.dataset* training.gc-* "
            "dataloader.* validation.* validator.* comm.* debug.* lr-scheduler.* lr_scheduler.* optimizer.lr "
            "optimizer.eps optimizer.beta* optimizer.weight-decay optimizer.name hf-assets-path tokenizer.* "
            "model.hf-assets-path model.tokenizer-path dump-folder rdzv* local-ranks-filter role tee node_rank "
            "master_addr master_port fault-tolerance.* experimental.*",
    .timing = "parallelism.context-parallel-load-balancer compile.enable-async-tensor-parallel "
              "parallelism.enable-async-tensor-parallel parallelism.enable-fsdp-symm-mem parallelism.spmd-backend",
    .launch = "nnodes nproc_per_node",
    .commas = true,
    .command = "torchrun \"${launch[@]}\" -m torchtitan.train \"${args[@]}\" \"$@\"",
    .rule = rules};
