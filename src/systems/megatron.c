/* Megatron-LM: DDP with or without the distributed optimizer. Sources:
 * megatron/core/distributed/param_and_grad_buffer.py, megatron/core/optimizer/distrib_optimizer.py,
 * megatron/training/arguments.py. */
#include "systems/model.h"

#include <inttypes.h>
#include <math.h>

static const zr__option options[] = {
    ZR__BOOL("use-distributed-optimizer", "auto", .help = "shard master weights and moments; auto: at stage 1"),
    ZR__INT("num-distributed-optimizer-instances", "1", 1, 1e6, .help = "copies of these shards"),
    ZR__BOOL("grad-reduce-in-bf16", "false", .help = "gradients in bf16 instead of fp32"),
    ZR__BOOL("accumulate-allreduce-grads-in-fp32", "auto", .help = "gradients in fp32; auto: with --bf16"),
    ZR__BOOL("use-precision-aware-optimizer", "false", .help = "master weights as 16-bit remainders (TE >= 2.1)"),
    ZR__CHOICE("main-grads-dtype", "fp32", "fp32|bf16", .help = "with use-precision-aware-optimizer"),
    ZR__CHOICE("main-params-dtype", "fp32", "fp32|fp16", .help = "with use-precision-aware-optimizer"),
    ZR__CHOICE("exp-avg-dtype", "fp32", "fp32|fp16|bf16|fp8", .help = "with use-precision-aware-optimizer"),
    ZR__CHOICE("exp-avg-sq-dtype", "fp32", "fp32|fp16|bf16|fp8", .help = "with use-precision-aware-optimizer"),
    ZR__BOOL("no-gradient-accumulation-fusion", "false",
             .help = "a weight's 16-bit gradient exists beside the fp32 buffer"),
    ZR__BOOL("sequence-parallel", "false", .help = "norms and residuals on a rank's own tokens"),
    ZR__INT("context-parallel-size", "1", 1, 1e6, .help = "ranks that share the tokens of a sample"),
    ZR__INT("num-virtual-stages-per-pipeline-rank", "1", 1, 1e4, .key = "parallel.chunks",
            .help = "stages of a pipeline rank (interleaved schedule)"),
    ZR__INT("microbatch-group-size-per-virtual-pipeline-stage", "auto", 1, 1e6,
            .help = "micro-batches that pass through a stage before the next one runs; auto: pipeline ranks"),
    ZR__CHOICE("transformer-impl", "transformer_engine", "transformer_engine|local",
               .help = "implementation of layers"),
    ZR__CHOICE("attention-backend", "auto", "flash|fused|unfused|local", .help = "auto: not unfused"),
    ZR__BOOL("cross-entropy-loss-fusion", "false",
             .help = "the native fused loss keeps one more fp32 copy of the logits"),
    ZR__CHOICE("recompute-granularity", "auto", "none|full|selective",
               .help = "another name of activation_checkpointing.policy, where full is unit"),
    ZR__CHOICE("recompute-method", "uniform", "uniform|block", .help = "of full recompute"),
    ZR__INT("recompute-num-layers", "auto", 1, 1e6,
            .help = "uniform: layers of a checkpoint, auto: activation_checkpointing.every; block: layers that are "
                    "redone, auto: 1"),
    ZR__WORDS("recompute-modules", "core_attn", "core_attn|mlp|layernorm", .help = "of selective recompute"),
    ZR__REAL("hidden-dropout", "auto", 0, 0.999, .help = "auto: the model's dropout"),
    ZR__REAL("attention-dropout", "auto", 0, 0.999, .help = "auto: the model's dropout of attention"),
    ZR__BOOL("no-create-attention-mask-in-dataloader", "false",
             .help = "no mask of b x s x s bytes beside a micro-batch"),
    ZR__INT("make-vocab-size-divisible-by", "128", 1, 1e6,
            .help = "vocabularies are padded to this times tensor ranks"),
    /* only for the time of a step */
    ZR__BOOL("overlap-grad-reduce", "false", .help = "gradients are reduced during the backward pass; only for times"),
    ZR__BOOL("overlap-param-gather", "false",
             .help = "parameters are gathered during the next forward pass; only for times"),
    ZR__BOOL("tp-comm-overlap", "false", .help = "exchanges of tensor ranks overlap with products; only for times"),
    ZR__CHOICE("fp8-format", "none", "none|e4m3|hybrid", .help = "8-bit products of layers; only for times"),
    ZR__CHOICE("fp4-format", "none", "none|e2m1", .help = "4-bit products of layers; only for times"),
    /* shapes of models that no family of zr has */
    ZR__INT("ffn-hidden-size", "auto", 1, 1e9, .help = "width of the feed-forward part; auto: the model's"),
    ZR__BOOL("swiglu", "auto", .help = "gated feed-forward part; auto: the model's"),
    ZR__CHOICE("normalization", "auto", "LayerNorm|RMSNorm", .help = "auto: the model's"),
    ZR__CHOICE("position-embedding-type", "auto", "learned_absolute|rope|none", .help = "auto: the model's"),
    ZR__BOOL("untie-embeddings-and-output-weights", "auto", .help = "a head of its own; auto: the model's"),
    ZR__BOOL("disable-bias-linear", "auto", .help = "no biases; auto: the model's"),
    ZR__INT("num-query-groups", "auto", 1, 1e6, .help = "heads of keys and values; auto: the model's"),
    ZR__TORCH_OPTIONS,
    {0},
};

/* Workspace of TransformerEngine's cuBLASLt: 32 MiB on H100 and later, else 4 MiB (transformer_engine/pytorch/module/
 * base.py, get_cublas_workspace_size_bytes). */
enum { TE_LARGE = 32 << 20, TE_SMALL = 4 << 20, MASKS = 2 };

static bool is_local(const zr__run *run)
{
    return zr__with_word(run, "transformer-impl", "local");
}

static bool is_unfused(const zr__run *run)
{
    return is_local(run) || zr__with_word(run, "attention-backend", "unfused") ||
           zr__with_word(run, "attention-backend", "local");
}

static bool is_sharded(const zr__run *run)
{
    const double asked = zr__with(run, "use-distributed-optimizer");
    return asked == ZR__OPTION_AUTO ? run->stage == 1 : asked > 0;
}

static zr_status check(const zr__run *run)
{
    const zr_config *c = run->config;
    const zr__degrees d = zr__degrees_of(run);
    const int64_t layers = zr_config_sizes(c).layers;
    ZR_CHECK(zr_family_samples(c->model.family, &c->model.config) == ZR_SAMPLES_NEXT, ZR_ERR_UNSUPPORTED,
             "%s is an encoder; --system megatron plans decoders", c->model.family->title);
    ZR_CHECK(d.chunks == 1 || d.pp > 1, ZR_ERR_UNSUPPORTED,
             "num-virtual-stages-per-pipeline-rank is %" PRId64 " without a pipeline; give parallel.pipeline too",
             d.chunks);
    ZR_CHECK(layers % (d.pp * d.chunks) == 0, ZR_ERR_UNSUPPORTED,
             "%" PRId64 " layers cannot be divided evenly among %" PRId64 " pipeline ranks with %" PRId64
             " stages each; the product of parallel.pipeline and num-virtual-stages-per-pipeline-rank must divide them",
             layers, d.pp, d.chunks);
    ZR_CHECK(
        c->zero.param.device == ZR_HOME_NONE && c->zero.optim.device == ZR_HOME_NONE, ZR_ERR_UNSUPPORTED,
        "zero_optimization.offload_... is given, and zr does not plan the offload of Megatron-LM; leave it out, or "
        "give --system deepspeed");
    return ZR_OK;
}

/* ---- the model ------------------------------------------------------------------------------- */

/* Return whether an option is not "auto", and set *value to its value if so. */
static bool take(const zr__run *run, const char *name, double *value)
{
    const double given = zr__with(run, name);
    if (given != ZR__OPTION_AUTO) *value = given;
    return given != ZR__OPTION_AUTO;
}

/* Replace sizes of a decoder by options that are given. Return whether one differs. *weights receives whether its
 * weights do, and not only its dropout. */
static bool take_shape(const zr__run *run, zr__decoder *d, bool *weights)
{
    const zr__decoder was = *d;
    double value;
    if (take(run, "ffn-hidden-size", &value)) d->inner = (int64_t)value;
    if (take(run, "num-query-groups", &value)) d->kv_heads = (int64_t)value;
    if (take(run, "swiglu", &value)) d->gated = value > 0;
    if (take(run, "untie-embeddings-and-output-weights", &value)) d->tied = value == 0;
    if (take(run, "disable-bias-linear", &value)) d->biased = value == 0;
    if (take(run, "hidden-dropout", &value)) d->dropout = value;
    if (take(run, "attention-dropout", &value)) d->attention_dropout = value;
    if (take(run, "normalization", &value)) d->rms_norm = zr__with_word(run, "normalization", "RMSNorm");
    if (take(run, "position-embedding-type", &value)) {
        d->rotary = zr__with_word(run, "position-embedding-type", "rope");
        d->learned = zr__with_word(run, "position-embedding-type", "learned_absolute");
    }
    const bool sizes = was.inner == d->inner && was.kv_heads == d->kv_heads && was.gated == d->gated;
    const bool parts = was.rms_norm == d->rms_norm && was.rotary == d->rotary && was.learned == d->learned;
    const bool rest = was.tied == d->tied && was.biased == d->biased;
    *weights = !sizes || !parts || !rest;
    return *weights || was.dropout != d->dropout || was.attention_dropout != d->attention_dropout;
}

static zr_status keeps(const zr__run *run, zr__keeps *k, zr__decoder *room)
{
    const zr_config *c = run->config;
    const zr__degrees d = zr__degrees_of(run);
    const int64_t multiple = (int64_t)zr__with(run, "make-vocab-size-divisible-by") * d.tp;
    ZR_TRY(zr__decoder_of(c, room));
    if (take_shape(run, room, &k->other_weights)) {
        room->vocabulary = (room->vocabulary + multiple - 1) / multiple * multiple;
        k->decoder = room;
    }
    k->vocabulary_multiple = multiple;
    k->sequence = zr__with(run, "sequence-parallel") > 0;
    const zr_recompute policy = c->recompute.policy;
    const bool full = policy == ZR_RECOMPUTE_UNIT || policy == ZR_RECOMPUTE_PAPER,
               some = policy == ZR_RECOMPUTE_SELECTIVE;
    const bool core = some && zr__with_word(run, "recompute-modules", "core_attn");
    /* of a score: softmax 2 bytes, with dropout its mask 1 and its result 2 */
    if (is_unfused(run) && !core) k->scores = room->attention_dropout > 0 ? 5 : 2;
    k->redo_mlp = some && zr__with_word(run, "recompute-modules", "mlp");
    k->redo_norms = some && zr__with_word(run, "recompute-modules", "layernorm");
    k->gate_copies = is_local(run);
    if (full) {
        const bool block = zr__with_word(run, "recompute-method", "block");
        double layers = block ? 1 : (double)c->recompute.every;
        (void)take(run, "recompute-num-layers", &layers);
        k->recompute = ZR__REDO_BLOCKS;
        k->every = block ? 1 : (int64_t)layers;
        k->first = block ? (int64_t)layers : 0;
        k->stage_blocks = room->layers / (d.pp * d.chunks);
    }
    return ZR_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Return the bytes of a state by the option with its type. */
static double state_bytes(const zr__run *run, const char *option)
{
    return zr__with_word(run, option, "fp32") ? 4 : zr__with_word(run, option, "fp8") ? 1 : 2;
}

/* Return the bytes of a parameter's gradient. */
static double gradient_bytes(const zr__run *run)
{
    const zr_config *c = run->config;
    const double asked = zr__with(run, "accumulate-allreduce-grads-in-fp32");
    if (zr__with(run, "grad-reduce-in-bf16") > 0) return 2;
    if (zr__with(run, "use-precision-aware-optimizer") > 0) return state_bytes(run, "main-grads-dtype");
    return !c->fp16 || asked > 0 ? 4 : 2;
}

/* Return the bytes of a parameter's master and moments. */
static double optimizer_bytes(const zr__run *run)
{
    const zr_config *c = run->config;
    const double master = c->bf16 || c->fp16 ? 4 : 0;
    if (zr__with(run, "use-precision-aware-optimizer") == 0) return master + 4 * zr__moments(c);
    /* bf16 parameters and a 16-bit remainder make up the fp32 master */
    const double remainder = c->bf16 || zr__with_word(run, "main-params-dtype", "fp16") ? 2 : 4;
    return remainder + state_bytes(run, "exp-avg-dtype") + state_bytes(run, "exp-avg-sq-dtype");
}

/* Return the micro-batches of a stage that a pipeline rank holds at its fullest, counted in stages. */
static double in_flight(const zr__run *run, int64_t rank)
{
    const zr__degrees d = zr__degrees_of(run);
    const double m = (double)run->config->accumulation_steps;
    const double asked = zr__with(run, "microbatch-group-size-per-virtual-pipeline-stage");
    const double group = asked == ZR__OPTION_AUTO ? (double)d.pp : asked, after = (double)(d.pp - 1 - rank);
    const double warm_up = d.chunks == 1 ? after + 1 : 2 * after + (double)(d.chunks - 1) * group + 1;
    return fmin(m * (double)d.chunks, warm_up);
}

static void memory(const zr__run *run, const zr__model *model, int64_t r, zr__rank_memory *rank)
{
    const zr_config *c = run->config;
    const zr__degrees d = zr__degrees_of(run);
    const double p = zr__rank_elems(model, r, d.pp, d.chunks, true),
                 all = zr__rank_elems(model, r, d.pp, d.chunks, false);
    const double shards =
        is_sharded(run) ? (double)(d.dp * d.cp) / zr__with(run, "num-distributed-optimizer-instances") : 1;
    const double n = shards > 1 ? shards : 1, flight = in_flight(run, r);
    const bool first = r == 0, last = r == d.pp - 1;
    zr__part_set(rank, ZR__PART_PARAMS, all * model->value_bytes);
    zr__part_set(rank, ZR__PART_GRADS, p * gradient_bytes(run));
    zr__part_set(rank, ZR__PART_STATES, p * optimizer_bytes(run) / n);
    /* local layers multiply with cuBLASLt too, which has workspaces of its own */
    zr__part_set(rank, ZR__PART_WORKSPACE, is_local(run) ? zr__cublas_bytes(run) : run->hopper ? TE_LARGE : TE_SMALL);
    /* gradients that are not fp32 are cast, a shard at a time */
    if (gradient_bytes(run) < 4) rank->part[ZR__MOMENT_STEP][ZR__PART_TEMPS] = 4 * p / n;

    double kept = flight * zr__rank_kept(model, r, d.pp, d.chunks) / (double)d.chunks;
    if (first) kept += model->unit[0].kept * fmin(flight, (double)c->accumulation_steps);
    if (last) kept += model->unit[model->blocks + 1].kept;
    /* the mask of the data loader, a byte for each pair of tokens of a micro-batch. In pipelines two of each stage stay
     * alive between steps (measured with 1, 3 and 8 stages) */
    const double seq = (double)c->data.seq_length, mask = (double)c->micro_batch_size * seq * seq;
    const bool masked = (first || last) && zr__with(run, "no-create-attention-mask-in-dataloader") == 0;
    if (masked && d.pp > 1) zr__part_set(rank, ZR__PART_ACTIVATIONS, MASKS * (double)d.chunks * mask);
    if (masked && d.pp == 1) kept += mask;
    rank->part[ZR__MOMENT_LOSS][ZR__PART_ACTIVATIONS] += kept;
    rank->part[ZR__MOMENT_BACKWARD][ZR__PART_ACTIVATIONS] += kept;
    rank->part[ZR__MOMENT_BACKWARD][ZR__PART_REDONE] = model->redone;
    if (!last) return;
    /* logits in 16 bit and their softmax in fp32, in place; the native fusion keeps one more fp32 copy. Then the
     * gradient in 16 bit and, without fused accumulation, the 16-bit gradient of the head's weight */
    const double wide = zr__with(run, "cross-entropy-loss-fusion") > 0 ? 8 : 4;
    const double alone = zr__with(run, "no-gradient-accumulation-fusion") > 0 ? model->head * model->value_bytes : 0;
    rank->part[ZR__MOMENT_LOSS][ZR__PART_HEAD] =
        fmax(model->logits * (model->value_bytes + wide), model->logits * model->value_bytes + alone);
}

static zr__range fragmentation(const zr__run *run)
{
    (void)run;
    return (zr__range){1.02, 1.1, 1.25};
}

/* The grid has groups for data, for data with context, tensor, pipeline, embedding, context, and the model. */
static int32_t communicators(const zr__run *run)
{
    const zr__degrees d = zr__degrees_of(run);
    return (d.dp * d.cp > 1) + 2 * (d.cp > 1) + (d.tp > 1) + 2 * (d.pp > 1) + (d.tp * d.pp > 1);
}

/* Shares of the peak are fitted to runs of NeMo with TransformerEngine on H100 (bench/planner_steps.py), and so are the
 * passes of its fused kernels and the part of tensor parallelism that its overlap leaves. The 13 bytes a score of
 * attention that is not fused are those of Megatron-LM's fused softmax: written, read and masked in 16 bits. */
static void speed(const zr__run *run, zr__speed *s)
{
    const bool local = zr__with_word(run, "transformer-impl", "local");
    s->product_share = 0.8;
    s->attention_share = 0.5;
    s->pass_factor = local ? 2 : 1.1;
    s->tensor_factor = zr__with(run, "tp-comm-overlap") > 0 ? 0.25 : 1;
    if (local || zr__with_word(run, "attention-backend", "unfused")) s->scores_bytes = 13;
    s->sequence = zr__with(run, "sequence-parallel") > 0;
    s->reduce_f32 = zr__with(run, "grad-reduce-in-bf16") <= 0;
    s->exposed = zr__with(run, "overlap-grad-reduce") <= 0;
    s->hides_gather = zr__with(run, "overlap-param-gather") > 0;
    if (!zr__with_word(run, "fp8-format", "none")) s->product_bits = 8;
    if (!zr__with_word(run, "fp4-format", "none")) s->product_bits = 4;
}

const zr__system zr__system_megatron = {.name = "megatron",
                                        .why = {[ZR__PART_GRADS] = "one buffer, whole",
                                                [ZR__PART_STATES] = "sharded at stage 1",
                                                [ZR__PART_ACTIVATIONS] = "with outputs of norms and GELU",
                                                [ZR__PART_HEAD] = "logits and fp32 softmax",
                                                [ZR__PART_WORKSPACE] = "cuBLAS, TransformerEngine"},
                                        .title = "Megatron-LM",
                                        .stages = 1 << 0 | 1 << 1,
                                        .schedules = 1 << ZR_PIPELINE_1F1B | 1 << ZR_PIPELINE_INTERLEAVED,
                                        .other_stages =
                                            "Megatron-LM's distributed optimizer is stage 1, and its FSDP is "
                                            "not planned: give --stage 1, or --system fsdp2",
                                        .version = "Megatron-LM d98e8a64 (megatron-core 0.16.1), TransformerEngine 2",
                                        .option = options,
                                        .context_option = "context-parallel-size",
                                        .recompute_option = "recompute-granularity",
                                        .chunks_option = "num-virtual-stages-per-pipeline-rank",
                                        .check = check,
                                        .keeps = keeps,
                                        .memory = memory,
                                        .speed = speed,
                                        .timed = "53 published runs of NeMo and 6 of Megatron-LM",
                                        .fragmentation = fragmentation,
                                        .communicators = communicators};
