/* PyTorch's FSDP2 (fully_shard): torchtitan, accelerate with fsdp_version 2, litgpt. */
#include "systems/model.h"

#include <inttypes.h>

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
               .help = "another name of activation_checkpointing.policy, where full is unit; selective keeps every "
                       "second product (torchtitan)"),
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
    ZR__CHOICE("float8", "none", "none|tensorwise|rowwise", .help = "8-bit products of layers; only for times"),
    ZR__BOOL("async_tensor_parallel", "false",
             .help = "exchanges of tensor ranks overlap with products; only for times"),
    ZR__TRANSFORMERS_OPTIONS,
    ZR__TORCH_OPTIONS,
    {0},
};

static double type_bytes(const zr__run *run, const char *option)
{
    return zr__with_word(run, option, "float32") ? 4 : 2;
}

static bool is_compiled(const zr__run *run)
{
    return zr__with_word(run, "compile", "model") || zr__with(run, "torch_compile") > 0;
}

static bool is_transformers(const zr__run *run)
{
    return zr__with_word(run, "model_code", "transformers");
}

static bool is_full(const zr__run *run)
{
    return run->config->recompute.policy == ZR_RECOMPUTE_UNIT || run->config->recompute.policy == ZR_RECOMPUTE_PAPER;
}

static zr_status check(const zr__run *run)
{
    const zr__degrees d = zr__degrees_of(run);
    const int64_t replicas = (int64_t)zr__with(run, "data_parallel_replicate_degree");
    ZR_CHECK(d.dp % replicas == 0, ZR_ERR_ARG,
             "data_parallel_replicate_degree %" PRId64 " does not divide the %" PRId64 " data-parallel ranks", replicas,
             d.dp);
    ZR_CHECK(zr__with_word(run, "dtype", "float32") || run->config->bf16, ZR_ERR_ARG,
             "dtype=bfloat16 needs bf16.enabled too");
    ZR_TRY(zr__fsdp_check(run));
    ZR_CHECK(!is_transformers(run) || d.pp == 1, ZR_ERR_UNSUPPORTED,
             "accelerate has no pipelines; leave out parallel.pipeline, or give model_code=torchtitan");
    return ZR_OK;
}

static zr_status keeps(const zr__run *run, zr__keeps *k, zr__decoder *room)
{
    (void)room;
    const bool thunder = zr__with_word(run, "compile_backend", "thunder");
    if (is_transformers(run)) return zr__torch_keeps(run, k);
    ZR_TRY(zr__single_blocks(run));
    k->sequence = zr__with(run, "enable_sequence_parallel") > 0;
    if (is_full(run)) k->recompute = ZR__REDO_BLOCKS;
    if (run->config->recompute.policy == ZR_RECOMPUTE_SELECTIVE) k->recompute = ZR__REDO_HALF;
    k->redo_norms = is_compiled(run);
    k->redo_gates = is_compiled(run) && !thunder;
    k->gate_copies = !is_compiled(run);
    return ZR_OK;
}

static zr__head head_of(const zr__run *run)
{
    const bool cut = run->config->parallel.tensor > 1 && zr__with(run, "loss_parallel") > 0;
    const double chunks = zr__with(run, "loss_chunks");
    zr__head head = zr__torch_head(run);
    /* torchtitan frees the logits before the backward pass of the model; its rows of 2024 have 14 bytes at the loss */
    if (!is_transformers(run)) head.held = 0;
    /* exponentials and products of a loss on cut logits are new tensors (tensor/parallel/loss.py) */
    if (cut) head.loss = 22;
    if (zr__with_word(run, "compile", "loss") || zr__with_word(run, "loss_dtype", "bfloat16")) head.loss = 6;
    return (zr__head){head.loss / chunks, head.held / chunks};
}

static void memory(const zr__run *run, const zr__model *model, int64_t r, zr__rank_memory *rank)
{
    const zr_config *c = run->config;
    const double reshard = zr__with(run, "reshard_after_forward"), offload = zr__with(run, "cpu_offload");
    zr__fsdp f = {.shard_bytes = type_bytes(run, "dtype"),
                  .unsharded_bytes = model->value_bytes,
                  .reduce_bytes = type_bytes(run, "reduce_dtype"),
                  .replicas = (int64_t)zr__with(run, "data_parallel_replicate_degree"),
                  .sync = zr__with(run, "sync_each_batch") > 0,
                  .persist = zr__with(run, "gradients_persist") > 0,
                  .foreach = zr__with_word(run, "optimizer", "foreach"),
                  .in_place = zr__with_word(run, "model_code", "litgpt"),
                  .head = head_of(run)};
    if (zr__with(run, "param_dtype") != ZR__OPTION_AUTO) f.unsharded_bytes = type_bytes(run, "param_dtype");
    f.moments_bytes = zr__moments(c) * (zr__with(run, "bf16_optimizer_states") > 0 ? 2 : f.shard_bytes);
    /* torchtitan's default is not to reshard in pipelines */
    f.reshard = reshard == ZR__OPTION_AUTO ? c->parallel.pipeline == 1 && run->stage == 3 : reshard > 0;
    f.offload = offload == ZR__OPTION_AUTO ? c->zero.param.device != ZR_HOME_NONE : offload > 0;
    zr__fsdp_memory(run, &f, model, r, rank);
    /* chunks of the loss: the gradient of the hidden states is whole */
    if (zr__with(run, "loss_chunks") > 1 && r == c->parallel.pipeline - 1)
        rank->part[ZR__MOMENT_LOSS][ZR__PART_HEAD] += 2 * model->hidden;
}

static zr__range fragmentation(const zr__run *run)
{
    return zr__torch_fragmentation(is_compiled(run), is_full(run));
}

static int32_t communicators(const zr__run *run)
{
    const zr__degrees d = zr__degrees_of(run);
    return (d.dp * d.cp > 1) + (zr__with(run, "data_parallel_replicate_degree") > 1) + (d.cp > 1) + (d.tp > 1) +
           (d.pp > 1);
}

/* Eager ops of PyTorch move 2.7 times the bytes of zr's (bench/published.py), compiled ones 1.5 times. Casts to 8 bits
 * are fitted to torchtitan's runs with tensor parallelism (bench/planner_steps.py). */
static void speed(const zr__run *run, zr__speed *s)
{
    s->attention_share = 0.5;
    s->pass_factor = is_compiled(run) ? 1.5 : 2.7;
    s->tensor_factor = zr__with(run, "async_tensor_parallel") > 0 ? 0.7 : 1;
    s->sequence = zr__with(run, "enable_sequence_parallel") > 0;
    s->each_micro = zr__with(run, "sync_each_batch") > 0;
    s->reduce_f32 = zr__with_word(run, "reduce_dtype", "float32");
    s->cast_factor = 2.4;
    if (!zr__with_word(run, "float8", "none")) s->product_bits = 8;
}

const zr__system zr__system_fsdp2 = {
    .name = "fsdp2",
    .why = {[ZR__PART_PARAMS] = "shards",
            [ZR__PART_GRADS] = "shards, until the next backward pass",
            [ZR__PART_BUCKETS] = "gradients of a block, copied",
            [ZR__PART_GATHERED] = "two blocks and the head, or all",
            [ZR__PART_HEAD] = "all logits at once",
            [ZR__PART_TEMPS] = "foreach"},
    .title = "FSDP2",
    .stages = 1 << 3 | 1 << 2,
    .usual_stage = 3,
    .schedules = 1 << ZR_PIPELINE_1F1B | 1 << ZR_PIPELINE_GPIPE | 1 << ZR_PIPELINE_INTERLEAVED |
                 1 << ZR_PIPELINE_BREADTH | 1 << ZR_PIPELINE_ZB_V,
    .other_stages = "FSDP2 shards parameters (stage 3), or keeps them gathered from the "
                    "forward pass on (stage 2): give --stage 3, or --system ddp",
    .version = "torch 2.15, torchtitan 0.3.0, accelerate 1.15",
    .option = options,
    .unproved = "rows of torchtitan and litgpt prove what is compiled; GPT-2 of transformers was counted on a "
                "processor, and no row proves other eager code",
    .context_option = "context_parallel_degree",
    .recompute_option = "activation_checkpoint",
    .check = check,
    .keeps = keeps,
    .memory = memory,
    .speed = speed,
    .timed = "10 published runs of torchtitan on one kind of H100",
    .fragmentation = fragmentation,
    .communicators = communicators};
