/* PyTorch's DistributedDataParallel with a model of transformers. */
#include "systems/model.h"

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

static zr_status check(const zr__run *run)
{
    const zr_config *c = run->config;
    ZR_CHECK(zr__with_word(run, "dtype", "float32") || c->bf16 || c->fp16, ZR_ERR_ARG,
             "a dtype of 16 bit needs bf16.enabled or fp16.enabled too");
    ZR_CHECK(c->parallel.tensor == 1 && c->parallel.pipeline == 1, ZR_ERR_UNSUPPORTED,
             "DDP has no tensor or pipeline parallelism; leave out parallel.tensor and parallel.pipeline, or give "
             "--system megatron");
    ZR_CHECK(c->zero.optim.device == ZR_HOME_NONE && c->zero.param.device == ZR_HOME_NONE, ZR_ERR_UNSUPPORTED,
             "DDP offloads nothing; leave out zero_optimization.offload_..., or give --system deepspeed");
    return ZR_OK;
}

static bool is_autocast(const zr__run *run)
{
    return zr__with_word(run, "dtype", "float32") && (run->config->bf16 || run->config->fp16);
}

static zr_status keeps(const zr__run *run, zr__keeps *k, zr__decoder *room)
{
    (void)room;
    k->autocast = is_autocast(run);
    return zr__torch_keeps(run, k);
}

static void memory(const zr__run *run, const zr__model *model, int64_t r, zr__rank_memory *rank)
{
    (void)r;
    const double weight = zr__with_word(run, "dtype", "float32") ? 4 : 2;
    const zr__replicated s = {.weight_bytes = weight,
                              .moments_bytes = zr__moments(run->config) * weight,
                              .autocast = is_autocast(run),
                              .buckets = zr__with(run, "gradient_as_bucket_view") == 0,
                              .foreach = zr__with_word(run, "optimizer", "foreach"),
                              .loop = zr__with_word(run, "optimizer", "for-loop"),
                              .head = zr__torch_head(run)};
    zr__replicated_memory(run, &s, model, rank);
}

static zr__range fragmentation(const zr__run *run)
{
    return zr__torch_fragmentation(zr__with(run, "torch_compile") > 0,
                                   run->config->recompute.policy == ZR_RECOMPUTE_UNIT);
}

static void speed(const zr__run *run, zr__speed *s)
{
    s->pass_factor = zr__with(run, "torch_compile") > 0 ? 1.5 : 2.7;
    s->reduce_f32 = zr__with_word(run, "dtype", "float32");
    if (zr__with_word(run, "attn_implementation", "eager")) s->scores_bytes = 13;
}

const zr__system zr__system_ddp = {
    .name = "ddp",
    .why = {[ZR__PART_GRADS] = "whole",
            [ZR__PART_BUCKETS] = "beside the gradients",
            [ZR__PART_GATHERED] = "16-bit copies that autocast keeps",
            [ZR__PART_TEMPS] = "foreach",
            [ZR__PART_ACTIVATIONS] = "eager ops of transformers keep more",
            [ZR__PART_HEAD] = "all logits, in fp32 too, and their gradients"},
    .title = "DDP",
    .stages = 1 << 0,
    .other_stages = "DDP shards nothing: give --stage 0, or --system fsdp2",
    .version = "torch 2.15, transformers 5.24",
    .option = options,
    .unproved =
        "no measured row of a GPU proves the formulas of models of transformers; they were counted on a processor",
    .check = check,
    .keeps = keeps,
    .memory = memory,
    .speed = speed,
    .timed = "none",
    .fragmentation = fragmentation};
