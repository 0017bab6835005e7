/* The Trainer of transformers, alone or with FSDP2 (TrainingArguments.fsdp). */
#include "systems/model.h"

#include <inttypes.h>

static const zr__option options[] = {
    ZR__CHOICE("torch_dtype", "auto", "float32|bfloat16|float16",
               .help = "type with which the model is loaded; auto: the checkpoint's, mostly bfloat16 (transformers 5)"),
    ZR__BOOL("fsdp", "auto", .help = "FSDP2 instead of DDP; auto: from stage 2 on"),
    ZR__BOOL("reshard_after_forward", "auto", .help = "of fsdp_config: free units after the forward; auto: at stage 3"),
    ZR__CHOICE("optim", "adamw_torch_fused", "adamw_torch_fused|adamw_torch|adamw_bnb_8bit|adafactor",
               .help = "adamw_torch_fused with torch >= 2.8, adamw_torch before"),
    ZR__INT("ddp_bucket_cap_mb", "25", 1, 1e6, .help = "MiB of a bucket of DDP"),
    ZR__TRANSFORMERS_OPTIONS,
    ZR__TORCH_OPTIONS,
    {0},
};

static bool is_fsdp(const zr__run *run)
{
    const double asked = zr__with(run, "fsdp");
    return asked == ZR__OPTION_AUTO ? run->stage >= 2 : asked > 0;
}

static zr_status check(const zr__run *run)
{
    const zr_config *c = run->config;
    ZR_CHECK(run->stage == 0 || is_fsdp(run), ZR_ERR_ARG,
             "zero_optimization.stage is %" PRId64 " and fsdp is false; leave out one of them", run->stage);
    ZR_CHECK(c->parallel.tensor == 1 && c->parallel.pipeline == 1, ZR_ERR_UNSUPPORTED,
             "--system trainer plans no tensor or pipeline parallelism; leave out parallel.tensor and "
             "parallel.pipeline, or give --system fsdp2 or megatron");
    ZR_CHECK((c->zero.optim.device == ZR_HOME_NONE && c->zero.param.device == ZR_HOME_NONE) || is_fsdp(run),
             ZR_ERR_UNSUPPORTED,
             "the Trainer offloads only with FSDP or DeepSpeed; give --stage 3, or --system "
             "deepspeed");
    return is_fsdp(run) ? zr__fsdp_check(run) : ZR_OK;
}

/* Return the bytes of a weight: FSDP2 in mixed precision keeps fp32 shards, whatever the checkpoint (accelerate/utils/
 * fsdp_utils.py). */
static double weight_bytes(const zr__run *run)
{
    const bool mixed = run->config->bf16 || run->config->fp16;
    if (is_fsdp(run) && mixed) return 4;
    return zr__with_word(run, "torch_dtype", "float32") || !mixed ? 4 : 2;
}

static zr_status keeps(const zr__run *run, zr__keeps *k, zr__decoder *room)
{
    (void)room;
    k->autocast = !is_fsdp(run) && weight_bytes(run) == 4 && (run->config->bf16 || run->config->fp16);
    return zr__torch_keeps(run, k);
}

/* Return the bytes of the states that an optimizer has beside a weight. */
static double moments_bytes(const zr__run *run)
{
    if (zr__with_word(run, "optim", "adafactor")) return 0; /* rows and columns only */
    if (zr__with_word(run, "optim", "adamw_bnb_8bit")) return 2;
    if (run->config->optimizer.type == ZR_OPTIMIZER_ADAMW8BIT) return 2;
    return zr__moments(run->config) * weight_bytes(run);
}

static void memory(const zr__run *run, const zr__model *model, int64_t r, zr__rank_memory *rank)
{
    const zr_config *c = run->config;
    const bool mixed = c->bf16 || c->fp16;
    const double weight = weight_bytes(run), reshard = zr__with(run, "reshard_after_forward");
    const zr__head head = {zr__torch_head(run).loss - zr__torch_head(run).held, 0}; /* compute_loss drops the output */
    if (!is_fsdp(run)) {
        const zr__replicated s = {.weight_bytes = weight,
                                  .moments_bytes = moments_bytes(run),
                                  .autocast = mixed && weight == 4,
                                  .buckets = true,
                                  .foreach = zr__with_word(run, "optim", "adamw_torch"),
                                  .head = head};
        zr__replicated_memory(run, &s, model, rank);
        return;
    }
    /* mixed precision of accelerate: parameters, reduction and output are all 16 bit (utils/dataclasses.py), and
     * gradients stay unreduced until the last micro-batch */
    const zr__fsdp f = {.shard_bytes = weight,
                        .unsharded_bytes = mixed ? 2 : 4,
                        .reduce_bytes = mixed ? 2 : 4,
                        .moments_bytes = moments_bytes(run),
                        .replicas = 1,
                        .reshard = reshard == ZR__OPTION_AUTO ? run->stage != 2 : reshard > 0,
                        .foreach = zr__with_word(run, "optim", "adamw_torch"),
                        .offload = c->zero.param.device != ZR_HOME_NONE,
                        .head = head};
    zr__fsdp_memory(run, &f, model, r, rank);
}

static zr__range fragmentation(const zr__run *run)
{
    return zr__torch_fragmentation(zr__with(run, "torch_compile") > 0,
                                   run->config->recompute.policy == ZR_RECOMPUTE_UNIT);
}

static void speed(const zr__run *run, zr__speed *s)
{
    s->pass_factor = zr__with(run, "torch_compile") > 0 ? 1.5 : 2.7;
    s->each_micro = run->stage >= 2;
    s->reduce_f32 = zr__with_word(run, "torch_dtype", "float32");
    if (zr__with_word(run, "attn_implementation", "eager")) s->scores_bytes = 13;
}

const zr__system zr__system_trainer = {
    .name = "trainer",
    .title = "the Trainer of transformers",
    .stages = 1 << 0 | 1 << 2 | 1 << 3,
    .other_stages = "the Trainer has it only with DeepSpeed: give --system deepspeed, "
                    "or --stage 0, 2 or 3",
    .version = "transformers 5.24, accelerate 1.15, torch 2.15",
    .option = options,
    .unproved = "no measured row of allocated bytes proves the formulas of models of "
                "transformers; they are read from source and counted on a processor",
    .check = check,
    .keeps = keeps,
    .memory = memory,
    .speed = speed,
    .timed = "none",
    .fragmentation = fragmentation};
