/* DeepSpeed 0.19 with a model of transformers. Sources: deepspeed/runtime/engine.py, zero/config.py,
 * zero/stage_1_and_2.py, zero/stage3.py, zero/partition_parameters.py, bf16_optimizer.py. */
#include "systems/model.h"

#include <inttypes.h>
#include <math.h>

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
            .help = "no effect on planned bytes: max_live_parameters is the limit"),
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
    ZR__BOOL("check_grad_overflow", "true",
             .help = "of bf16: no effect on planned bytes, since the copy for the norm is larger"),
    ZR__INT("sequence_parallel_size", "1", 1, 1e6, .help = "Ulysses: ranks that share the tokens of a sample"),
    ZR__TRANSFORMERS_OPTIONS,
    ZR__TORCH_OPTIONS,
    {0},
};

static bool is_mixed(const zr__run *run)
{
    return run->config->bf16 || run->config->fp16;
}

/* BF16_Optimizer is taken for stage 1 with gradients in fp32 (engine.py, _do_optimizer_sanity_check). */
static bool is_bf16_optimizer(const zr__run *run)
{
    const zr_config *c = run->config;
    return run->stage == 1 && c->bf16 && c->zero.optim.device == ZR_HOME_NONE &&
           zr__with_word(run, "grad_accum_dtype", "fp32");
}

static zr_status check(const zr__run *run)
{
    const zr_config *c = run->config;
    const zr__degrees d = zr__degrees_of(run);
    const bool narrow = zr__with(run, "bf16_master_weights_and_grads") > 0;
    ZR_CHECK(d.pp == 1 || run->stage <= 1, ZR_ERR_UNSUPPORTED,
             "zero_optimization.stage is %" PRId64 " with parallel.pipeline %" PRId64
             "; DeepSpeed's pipelines have stages 0 and 1: give --stage 1, or --system fsdp2",
             run->stage, d.pp);
    ZR_CHECK(d.tp == 1 || run->stage <= 2, ZR_ERR_UNSUPPORTED,
             "zero_optimization.stage is 3 with parallel.tensor %" PRId64
             "; DeepSpeed's autotp_size works with stages 0 to 2: give --stage 2, or --system fsdp2",
             d.tp);
    ZR_CHECK(run->stage > 0 || c->zero.optim.device == ZR_HOME_NONE, ZR_ERR_UNSUPPORTED,
             "zero_optimization.offload_optimizer needs stage 1, 2 or 3 in DeepSpeed; give --stage 2");
    ZR_CHECK(run->stage == 3 || c->zero.param.device == ZR_HOME_NONE, ZR_ERR_UNSUPPORTED,
             "zero_optimization.offload_param needs stage 3 in DeepSpeed; give --stage 3");
    ZR_CHECK(!narrow || (run->stage > 0 && c->bf16), ZR_ERR_ARG,
             "bf16_master_weights_and_grads needs bf16.enabled and stage 1, 2 or 3");
    return ZR_OK;
}

static zr_status keeps(const zr__run *run, zr__keeps *k, zr__decoder *room)
{
    (void)room;
    return zr__torch_keeps(run, k);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* What the three stages and stage 0 start from. */
typedef struct share {
    double n;       /* ranks over which states are sharded */
    double p, all;  /* trained elements, and all, of a rank */
    double own;     /* trained elements of its shard */
    double value;   /* bytes of a parameter and of its gradient */
    double sum;     /* bytes of an accumulated gradient */
    double states;  /* bytes of master and moments */
    double largest; /* elements of the largest parameter */
    double shared;  /* elements of a table that the head uses too: two gradients, and their sum */
    double bucket;  /* elements of a bucket */
    bool several;   /* whether a step has several micro-batches */
    double away;    /* share of the states that is offloaded: only stage 3 takes a part (ratio) */
    bool on_host;   /* whether it is in the host's memory, and not on disk */
} share;

static share share_of(const zr__run *run, const zr__model *model, int64_t r)
{
    const zr_config *c = run->config;
    const zr__degrees d = zr__degrees_of(run);
    const bool narrow = zr__with(run, "bf16_master_weights_and_grads") > 0;
    const double moment = zr__with(run, "bf16_optimizer_states") > 0 ? 2 : 4;
    const double master = narrow ? 2 : is_mixed(run) || run->stage > 0 ? 4 : 0;
    share s = {.n = (double)(d.dp * d.cp),
               .p = zr__rank_elems(model, r, d.pp, 1, true),
               .all = zr__rank_elems(model, r, d.pp, 1, false),
               .value = model->value_bytes,
               .states = master + moment * zr__moments(c),
               .largest = zr__largest_weight(model),
               .shared = model->waiting,
               .bucket = zr__with(run, "reduce_bucket_size"),
               .several = c->accumulation_steps > 1,
               .on_host = c->zero.optim.device == ZR_HOME_CPU};
    if (c->zero.optim.device != ZR_HOME_NONE) s.away = run->stage == 3 ? c->zero.optim.ratio : 1;
    s.own = s.p / s.n;
    s.sum = zr__with(run, "grad_accum_dtype") == ZR__OPTION_AUTO ? s.value
            : zr__with_word(run, "grad_accum_dtype", "fp32")     ? 4
                                                                 : 2;
    return s;
}

/* Return the elements of gradients that a rank has of its shard: whole parameters, where a border cuts one. */
static double whole_own(const share *s)
{
    return fmin(s->p, fmax(s->own, s->largest));
}

/* The norm makes a copy in double of a gradient (runtime/utils.py), before shards are flattened, cast to fp32 and
 * updated: a list, a flat copy and an fp32 copy. Torch's AdamW adds the root of the second moment. */
static double step_temps(const zr__run *run, const share *s)
{
    const double list = s->sum * (s->sum > s->value ? s->own : whole_own(s));
    const double flat = s->sum > s->value ? 0 : s->value * s->own;
    const double copies = list + flat + (s->sum < 4 ? 4 * s->own : 0);
    const double norm = list + 8 * fmin(s->largest, s->own);
    return fmax(copies, norm) + (zr__with(run, "torch_adam") > 0 ? 4 * s->own : 0);
}

static void stage_0(const share *s, zr__rank_memory *rank)
{
    double *const end = rank->part[ZR__MOMENT_END], *const step = rank->part[ZR__MOMENT_STEP];
    const double grads = s->value * s->p;
    zr__part_set(rank, ZR__PART_STATES, s->p * s->states);
    step[ZR__PART_GRADS] = grads;
    /* all gradients are flattened in buckets of MEMORY_OPT_ALLREDUCE_SIZE elements (engine.py) */
    end[ZR__PART_GRADS] = grads;
    if (s->n > 1) end[ZR__PART_BUCKETS] = s->value * fmin(s->p, fmax(500e6, s->largest));
    rank->part[ZR__MOMENT_BACKWARD][ZR__PART_GRADS] = s->value * s->largest;
    if (s->several)
        rank->part[ZR__MOMENT_LOSS][ZR__PART_GRADS] = rank->part[ZR__MOMENT_BACKWARD][ZR__PART_GRADS] = grads;
    if (s->value < 4) step[ZR__PART_TEMPS] = 8 * s->p; /* copies in fp32, and flattened (fp16/fused_optimizer.py) */
}

/* Put the states of stages 1 to 3 into their place. Gradients of offloaded states are in the host's memory in fp32. */
static void put_states(const share *s, zr__rank_memory *rank)
{
    zr__part_set(rank, ZR__PART_STATES, (1 - s->away) * s->own * s->states);
    rank->host += s->away * s->own * ((s->on_host ? s->states : 0) + 4);
}

static void stages_1_and_2(const zr__run *run, const share *s, bool second, zr__rank_memory *rank)
{
    double *const loss = rank->part[ZR__MOMENT_LOSS], *const backward = rank->part[ZR__MOMENT_BACKWARD],
                  *const end = rank->part[ZR__MOMENT_END], *const step = rank->part[ZR__MOMENT_STEP];
    put_states(s, rank);
    rank->host += s->away * s->own * s->value; /* staging of gradients */
    if (is_bf16_optimizer(run)) {
        /* fp32 sums of the whole model, and 16-bit gradients that the engine frees after a step (bf16_optimizer.py);
         * sums are cast for the all-reduce */
        const double sums = 4 * s->p, grads = s->value * s->p;
        zr__part_set(rank, ZR__PART_GRADS, sums);
        end[ZR__PART_GRADS] = step[ZR__PART_GRADS] = sums + grads;
        backward[ZR__PART_GRADS] = sums + (s->several ? grads : s->value * s->largest);
        if (s->several) loss[ZR__PART_GRADS] = sums + grads;
        if (s->n > 1) end[ZR__PART_BUCKETS] = grads;
        return;
    }
    /* Buckets are allocated whole by the first gradient, and flattened once more for the all-reduce. A gradient that is
     * larger than a bucket is reduced apart. Stage 1 keeps gradients where they are until the end, unless overlap_comm
     * is on. */
    const double copies = zr__with(run, "contiguous_gradients") == 0 ? 0 : zr__with(run, "overlap_comm") > 0 ? 2 : 1;
    const double buckets = s->value * s->bucket * copies;
    const bool fills = s->p > s->bucket, large = s->largest > s->bucket;
    const double flat = s->value * (large ? s->largest : fmin(s->bucket, s->p)), largest = s->value * s->largest;
    const double own = s->away > 0 ? largest : s->sum * (s->sum > s->value ? s->own : whole_own(s));
    const double whole = s->value * s->p;
    backward[ZR__PART_BUCKETS] = end[ZR__PART_BUCKETS] = buckets;
    backward[ZR__PART_GRADS] = largest;
    if (second || copies > 1) {
        end[ZR__PART_BUCKETS] += flat;
        if (fills) backward[ZR__PART_BUCKETS] += flat;
        if (large) end[ZR__PART_GRADS] += largest;
        if (fills || s->sum > s->value) end[ZR__PART_GRADS] += own;
    } else {
        /* gradients in the bucket are not kept elsewhere, and the flat copy of the bucket replaces them */
        end[ZR__PART_GRADS] = whole + (large ? largest : 0) + (fills ? fmax(0, own - s->value * s->bucket) : 0);
        if (!fills) end[ZR__PART_GRADS] += 2 * s->value * s->shared;
    }
    if (s->several && second) {
        loss[ZR__PART_GRADS] = own;
        backward[ZR__PART_GRADS] += own;
        end[ZR__PART_GRADS] += own;
    } else if (s->several) {
        loss[ZR__PART_GRADS] = whole;
        loss[ZR__PART_BUCKETS] = buckets;
        backward[ZR__PART_GRADS] += whole;
    }
    step[ZR__PART_TEMPS] = (1 - s->away) * step_temps(run, s);
}

static void stage_3(const zr__run *run, const zr__model *model, share *s, zr__rank_memory *rank)
{
    double *const backward = rank->part[ZR__MOMENT_BACKWARD], *const end = rank->part[ZR__MOMENT_END];
    const int64_t units = model->blocks + 2, ranks = (int64_t)s->n;
    const double small = zr__with(run, "stage3_param_persistence_threshold");
    const double limit = zr__with(run, "stage3_model_persistence_threshold");
    const double cut = zr__shard_elems(model, 0, units, ranks, false, 0);
    /* small parameters are whole beside their shards */
    double kept = 0;
    for (int32_t i = 0; i < model->n_weights && s->n > 1; i++)
        if (model->weight[i].elems < small) kept += model->weight[i].elems;
    if (limit != ZR__OPTION_AUTO) kept = fmin(kept, limit);
    const double ahead = zr__with(run, "stage3_prefetch_bucket_size");
    const double most = zr__with(run, "stage3_max_live_parameters"), others = s->all - kept;
    const double copies = zr__with(run, "zero_hpz_partition_size");
    s->own = cut * s->p / s->all;
    put_states(s, rank);
    const bool params_away = run->config->zero.param.device != ZR_HOME_NONE;
    zr__part_set(rank, ZR__PART_PARAMS, s->value * (params_away ? kept : cut + kept));
    if (run->config->zero.param.device == ZR_HOME_CPU) rank->host += s->value * cut;
    /* the gradients of a shard are kept for ever (grad_partitions_flat_buffer) */
    zr__part_set(rank, ZR__PART_GRADS, (1 - s->away) * s->sum * s->own);
    /* the bucket is flattened once more for the reduce-scatter (comm/coalesced_collectives.py) */
    const double flat = s->n > 1 ? s->value * fmin(s->p, fmax(s->bucket, s->largest)) : 0;
    zr__part_set(rank, ZR__PART_BUCKETS, s->value * s->bucket);
    end[ZR__PART_BUCKETS] += flat;
    if (s->p > s->bucket) backward[ZR__PART_BUCKETS] += flat;
    const double second = copies > 1 ? s->value * s->all / copies : 0;
    zr__part_set(rank, ZR__PART_GATHERED, second);
    /* A model below the limit stays gathered until the backward pass has used it. Above, parameters gathered ahead
     * exist twice for a moment. */
    const double gathered = second + s->value * (others <= most ? others : most + 2 * fmin(others - most, ahead));
    for (int m = 0; m < ZR__MOMENT_END && (s->n > 1 || params_away); m++) rank->part[m][ZR__PART_GATHERED] = gathered;
    if (s->p > s->bucket) end[ZR__PART_GATHERED] = gathered;
    backward[ZR__PART_GRADS] += s->value * s->largest;
    const double group = fmin(s->own, zr__with(run, "sub_group_size"));
    rank->part[ZR__MOMENT_STEP][ZR__PART_TEMPS] =
        (1 - s->away) * fmax((s->value + (s->value < 4 ? 4 : 0)) * group, 8 * fmin(s->largest / s->n, s->own));
}

static void memory(const zr__run *run, const zr__model *model, int64_t r, zr__rank_memory *rank)
{
    const int64_t stage = run->stage;
    share s = share_of(run, model, r);
    zr__part_set(rank, ZR__PART_PARAMS, s.value * s.all);
    if (stage < 3) rank->part[ZR__MOMENT_START][ZR__PART_TEMPS] = s.value * s.all; /* flattened on the device */
    zr__torch_activations(run, model, r, zr__torch_head(run), rank);
    if (stage == 0)
        stage_0(&s, rank);
    else if (stage == 3)
        stage_3(run, model, &s, rank);
    else
        stages_1_and_2(run, &s, stage == 2, rank);
    /* states are made after the flattening, and gradients by the first backward pass */
    if (stage < 3) rank->part[ZR__MOMENT_START][ZR__PART_STATES] = 0;
}

/* Measured: 1.006 to 1.02 (stage 2, 8 A100). Stage 3 frees parameters that other streams use. */
static zr__range fragmentation(const zr__run *run)
{
    const bool third = run->stage == 3;
    return (zr__range){1.006, third ? 1.1 : 1.02, 1.25};
}

/* What a step reads and writes in DeepSpeed's optimizer, relative to zr's update (docs/simulate.md). Stage 3 gathers
 * each parameter apart; its share of the network and its latency are fitted to two runs of 2021. */
static void speed(const zr__run *run, zr__speed *s)
{
    const bool compiled = zr__with(run, "torch_compile") > 0,
               eager = zr__with_word(run, "attn_implementation", "eager");
    s->pass_factor = compiled ? 1.5 : 2.7;
    s->update_factor = 1.7;
    if (eager) s->scores_bytes = 13;
    s->each_micro = run->stage >= 2;
    s->reduce_f32 = zr__with_word(run, "grad_accum_dtype", "fp32");
    if (run->stage < 3) {
        s->reduce_factor = run->stage > 0 ? 2 : 1; /* all-reduce instead of reduce-scatter */
        s->exposed = zr__with(run, "overlap_comm") <= 0;
        return;
    }
    s->exposed = true;
    s->network_share = 0.24;
    s->hop_sec = 7e-5;
}

const zr__system zr__system_deepspeed = {
    .name = "deepspeed",
    .why = {[ZR__PART_PARAMS] = "at stage 3 small ones stay whole",
            [ZR__PART_GRADS] = "kept beside the states",
            [ZR__PART_BUCKETS] = "reduce_bucket_size, allocated whole",
            [ZR__PART_GATHERED] = "stage3_max_live_parameters",
            [ZR__PART_TEMPS] = "flat and fp32 copies of gradients",
            [ZR__PART_ACTIVATIONS] = "eager ops of transformers keep more",
            [ZR__PART_HEAD] = "all logits, in fp32 too, and their gradients"},
    .title = "DeepSpeed",
    .stages = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3,
    .schedules = 1 << ZR_PIPELINE_1F1B,
    .version = "DeepSpeed 0.19.8, transformers 5.24",
    .option = options,
    .unproved =
        "no measured row of a GPU proves DeepSpeed's formulas; its stages were counted on a processor with GPT-2 124M",
    .context_option = "sequence_parallel_size",
    .check = check,
    .keeps = keeps,
    .memory = memory,
    .speed = speed,
    .timed = "2 published runs of stage 3 from 2021",
    .fragmentation = fragmentation};
