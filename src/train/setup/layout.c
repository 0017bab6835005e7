/** Translation of a configuration into a layout. This file copies every key that the planner uses into a zr_layout. */
#include "train/setup/setup.h"

#include "base/json/json.h"
#include "config/config.h"
#include "plan/cost/cost.h"
#include "train/family/samples.h"
#include "train/host/limits.h"

#include <string.h>

const char *zr__recompute_name(zr_recompute recompute)
{
    static const char *const name[] = {
        [ZR_RECOMPUTE_NONE] = "none", [ZR_RECOMPUTE_UNIT] = "unit",   [ZR_RECOMPUTE_SELECTIVE] = "selective",
        [ZR_RECOMPUTE_AUTO] = "auto", [ZR_RECOMPUTE_PAPER] = "paper", [ZR_RECOMPUTE_KEEP] = "keep"};
    return name[recompute];
}

void zr__train_set_batch(zr_config *config, int ranks, int64_t rows, int64_t accum)
{
    config->micro_batch_size = rows;
    config->accumulation_steps = accum;
    config->train_batch_size = rows * accum * (ranks / (config->parallel.tensor * config->parallel.pipeline));
}

bool zr__train_lacks_limit(const zr_config *config)
{
    return config->recompute.policy == ZR_RECOMPUTE_AUTO && config->memory.limit_bytes == 0;
}

bool zr__train_saves_async(const zr_config *config)
{
    return config->train.save_interval > 0 && config->checkpoint.async != ZR_SWITCH_OFF;
}

static zr_optimizer optimizer_of(const zr_config *config)
{
    const double beta1 = config->optimizer.betas[0], beta2 = config->optimizer.betas[1];
    const double eps = config->optimizer.eps, decay = config->optimizer.weight_decay;
    const bool decoupled = config->optimizer.type != ZR_OPTIMIZER_ADAM || config->optimizer.adam_w_mode;
    switch (config->optimizer.type) {
    case ZR_OPTIMIZER_SGD:
        return zr_sgd(config->optimizer.momentum, config->optimizer.nesterov, decay);
    case ZR_OPTIMIZER_LION:
        return zr_lion(beta1, beta2, decay);
    case ZR_OPTIMIZER_LARS:
        return zr_lars(config->optimizer.momentum, config->optimizer.trust_coefficient, eps, decay);
    case ZR_OPTIMIZER_LAMB: {
        const zr_lamb_args lamb = {.beta1 = beta1,
                                   .beta2 = beta2,
                                   .eps = eps,
                                   .weight_decay = decay,
                                   .bias_correction = config->optimizer.bias_correction,
                                   .min_coeff = config->optimizer.min_coeff,
                                   .max_coeff = config->optimizer.max_coeff,
                                   .eps_inside_sqrt = config->optimizer.eps_inside_sqrt,
                                   .adam_w_mode = config->optimizer.adam_w_mode,
                                   .grad_averaging = config->optimizer.grad_averaging,
                                   .use_nvlamb = config->optimizer.use_nvlamb};
        return zr_lamb(config->optimizer.variant, &lamb);
    }
    case ZR_OPTIMIZER_MUON: {
        const zr_muon_args muon = {.momentum = config->optimizer.momentum,
                                   .weight_decay = decay,
                                   .nesterov = config->optimizer.nesterov,
                                   .sums = config->optimizer.momentum_sums,
                                   .ortho = {.steps = (int)config->optimizer.ns_steps,
                                             .a = config->optimizer.ns_coefficients[0],
                                             .b = config->optimizer.ns_coefficients[1],
                                             .c = config->optimizer.ns_coefficients[2],
                                             .eps = config->optimizer.ns_eps,
                                             .eps_added = config->optimizer.ns_eps_added,
                                             .dtype = config->optimizer.ns_f32 ? ZR_F32 : ZR_BF16,
                                             .scale = config->optimizer.scale}};
        return zr_muon(&muon);
    }
    case ZR_OPTIMIZER_ADAMW:
    case ZR_OPTIMIZER_ADAM:
    case ZR_OPTIMIZER_ADAMW8BIT:
        break;
    }
    zr_optimizer adam = (decoupled ? zr_adamw : zr_adam)(beta1, beta2, eps, decay);
    adam.hyper[3] = !config->optimizer.bias_correction;
    if (config->optimizer.type == ZR_OPTIMIZER_ADAMW8BIT) {
        adam.slot_records[0] = ZR_E4M3X256;
        adam.slot_records[1] = ZR_E5M2X256;
    }
    return adam;
}

/** Return the optimizer of the parameters that Muon does not train. The schedule changes both learning rates by the
 * same factor. */
static zr_optimizer rest_of(const zr_config *config)
{
    if (config->optimizer.type != ZR_OPTIMIZER_MUON) return (zr_optimizer){0};
    zr_optimizer adamw = zr_adamw(config->optimizer.adamw.betas[0], config->optimizer.adamw.betas[1],
                                  config->optimizer.adamw.eps, config->optimizer.adamw.weight_decay);
    adamw.lr_factor = config->optimizer.lr > 0 ? config->optimizer.adamw.lr / config->optimizer.lr : 1;
    return adamw;
}

/** Set the layout's fields for states, recompute and saves. */
static void set_states(const zr_config *config, zr_layout *layout)
{
    bool lean = config->memory.layout == ZR_LAYOUT_LEAN;
    layout->states = lean ? ZR_STATES_LEAN : ZR_STATES_PAPER;
    layout->tile_elems = config->memory.tile_elems;
    layout->norm_first = config->gradient_clipping > 0.0 || config->fp16;
    layout->rank_free_sums = config->train.rank_free_sums;
    layout->reduce_once = config->reduce_once;
    /* Leave micro_squares off if all ranks together have only one micro-batch in a training step. This may happen in a
     * plan for fewer ranks than the run has. */
    layout->micro_squares = config->train.noise_scale && layout->ranks * config->accumulation_steps > 1;
    /* whether sums of gradients persist between micro-batches */
    bool summed = config->accumulation_steps > 1 || layout->rank_free_sums;
    layout->two_pass = lean && !summed && config->memory.norm == ZR_NORM_TWO_PASS;
    layout->recompute = config->recompute.policy;
    layout->recompute_every = config->recompute.every;
    layout->partition_checkpoints = config->recompute.partition;
    const bool disk = config->recompute.offload == ZR_OFFLOAD_DISK,
               host = config->recompute.cpu || config->recompute.offload == ZR_OFFLOAD_HOST;
    layout->checkpoint_home = disk ? ZR_SPACE_DISK : host ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
    /* Allow saves from a copy only if the user gave memory.limit. The copy takes memory that a run without memory.limit
     * does not promise. */
    if (zr__train_saves_async(config))
        layout->save = zr__config_given(config, "memory.limit") ? ZR_SAVE_AUTO : ZR_SAVE_IN_PLACE;
    /* This limit applies to an arena in host memory. If the device has its own memory, zr__train_plan_layout replaces
     * it. */
    if (layout->recompute == ZR_RECOMPUTE_AUTO || layout->save == ZR_SAVE_AUTO)
        layout->limit_bytes = zr__arena_limit(config->memory.limit_bytes, false);
}

/** Return the number of ranks of a group as an int. Return 0 if it is below `least`. If it is too large, return
 * INT32_MAX, which no layout accepts. */
static int group_ranks(int64_t ranks, int least)
{
    return ranks < least ? 0 : ranks < INT32_MAX ? (int)ranks : INT32_MAX;
}

/** Return whether collectives can have two levels, within hosts and between hosts, with host_ranks ranks on each
 * host. */
static bool has_levels(const zr_layout *l, int64_t host_ranks)
{
    bool cut = l->tensor == 1 && host_ranks > 1 && host_ranks < l->ranks && l->ranks % host_ranks == 0;
    bool alike =
        (l->shard_ranks == 0 || l->shard_ranks == host_ranks) && (l->hpz_ranks == 0 || l->hpz_ranks == host_ranks);
    return cut && (host_ranks & (host_ranks - 1)) == 0 && l->reduce != ZR_REDUCE_NCCL && alike;
}

/** Set the layout's groups of data-parallel ranks. */
static void set_groups(const zr_config *config, zr_layout *layout)
{
    const int64_t host = config->parallel.ranks_per_host;
    layout->shard_ranks = group_ranks(config->zero.mics_shard_ranks, 1);
    layout->hpz_ranks = group_ranks(config->zero.hpz_partition_ranks, 2);
    const int64_t all = (int64_t)layout->ranks * layout->tensor * layout->pipeline;
    const bool levels = config->collectives.hierarchical == ZR_SWITCH_ON; /* planning fails if the hosts differ */
    const bool hosts =
        host > 0 && host < all && ((layout->tensor == 1 && layout->pipeline == 1) || levels || all % host == 0);
    layout->host_ranks = hosts ? (int)host : 0;
    layout->hierarchical = levels || (config->collectives.hierarchical == ZR_SWITCH_AUTO && has_levels(layout, host));
}

/** Return the type of records of quantised values. */
static zr_dtype records_of(const zr_config *config, zr_config_codes codes)
{
    static const zr_dtype types[][2] = {[ZR_CODES_INT8] = {ZR_I8X128, ZR_I8X256},
                                        [ZR_CODES_INT4] = {ZR_I4X128, ZR_I4X256},
                                        [ZR_CODES_E4M3] = {ZR_E4M3X128, ZR_E4M3X256},
                                        [ZR_CODES_E5M2] = {ZR_E5M2X128, ZR_E5M2X256},
                                        [ZR_CODES_H4] = {ZR_H4X128, ZR_H4X256}};
    return types[codes][config->quantization.block_elems == 256];
}

/** Set the layout's fields for communication: dtype, buckets, collectives, overlap and prefetch. */
static void set_movement(const zr_config *config, zr_layout *layout)
{
    const zr_config_dtype wire = config->communication_dtype;
    layout->wire_dtype = wire == ZR_CONFIG_BF16 ? ZR_BF16 : wire == ZR_CONFIG_FP16 ? ZR_F16 : ZR_F32;
    layout->reduce_bucket_elems = config->zero.reduce_bucket_elems;
    layout->gather_bucket_elems = config->zero.allgather_bucket_elems;
    layout->reduce = config->collectives.reduce;
    const bool weights = config->zero.quantized_weights == ZR_SWITCH_ON;
    if (weights) layout->weight_records = records_of(config, config->quantization.weights);
    layout->weight_differences = weights && config->quantization.weight_differences;
    if (config->zero.quantized_frozen) layout->frozen_records = records_of(config, config->quantization.weights);
    const bool gradients = config->zero.quantized_gradients == ZR_SWITCH_ON;
    if (gradients) layout->grad_records = records_of(config, config->quantization.gradients);
    if (gradients && config->zero.loco_reset_steps > 0) {
        layout->error_steps = config->zero.loco_reset_steps;
        layout->error_beta = config->zero.loco_beta;
    }
    layout->stochastic = config->quantization.stochastic;
    /* a way that is tried may accumulate where the configuration does not */
    if (gradients) layout->reduce_once = true;
    layout->overlap = config->zero.overlap_comm == ZR_SWITCH_ON;
    set_groups(config, layout);
    layout->prefetch_elems = layout->overlap ? config->zero.prefetch_bucket_elems : 0;
    layout->live_elems = config->zero.max_live_elems;
    layout->reuse_elems = config->zero.max_reuse_elems;
    layout->persist_elems = config->zero.persistence_elems;
    layout->persist_model_elems = config->zero.model_persistence_elems;
}

/** Return the number of buckets for the configured number of buffers. Adam needs four buffers for a bucket. Return 0 to
 * leave the choice to the planner. */
static int buckets_of(int64_t buffers)
{
    if (buffers == ZR_CONFIG_BUFFERS) return 0;
    const int64_t buckets = (buffers + ZR_CONFIG_BUFFERS - 1) / ZR_CONFIG_BUFFERS;
    return buckets < INT32_MAX ? (int)buckets : INT32_MAX;
}

/** Set the spaces in which states are stored. settle_homes adapts them to the device and the stage of a plan. */
static void set_homes(const zr_config *config, zr_layout *layout)
{
    static const zr_space space[] = {
        [ZR_HOME_NONE] = ZR_SPACE_DEVICE, [ZR_HOME_CPU] = ZR_SPACE_HOST, [ZR_HOME_NVME] = ZR_SPACE_DISK};
    const zr_config_offloaded *optim = &config->zero.optim, *param = &config->zero.param;
    zr_homes *home = &layout->home;
    if (optim->ratio > 0) home->optim = space[optim->device];
    if (param->ratio > 0) home->param = space[param->device];
    if (config->zero.offload_gradients) home->grad = home->optim;
    home->optim_share = optim->ratio;
    home->param_share = param->ratio;
    home->bucket_elems = config->zero.sub_group_elems == ZR_CONFIG_SUB_GROUP ? 0 : config->zero.sub_group_elems;
    home->buckets = buckets_of(optim->buffers);
    home->block_bytes = config->aio.block_bytes;
    home->depth = (int)config->aio.depth;
}

/** Return the maximum number of tokens of a sample with its prompt. A prompt has at most one token per byte. An empty
 * prompt becomes one token. */
static int64_t sample_room(const zr_config *config)
{
    const char *prompt = config->train.sample_prompt;
    const int64_t room = (prompt ? (int64_t)strlen(prompt) : 0) + 1 + config->train.sample_tokens;
    const int64_t positions = zr_config_sizes(config).positions;
    return room < positions ? room : positions;
}

zr_layout zr__train_layout(const zr_config *config, int ranks)
{
    zr_layout layout = zr_layout_default();
    layout.tensor = config->parallel.tensor < ranks ? (int)config->parallel.tensor : ranks;
    const int rest = ranks / layout.tensor;
    layout.pipeline = config->parallel.pipeline < rest ? (int)config->parallel.pipeline : rest;
    layout.ranks = rest / layout.pipeline;
    layout.pipeline_schedule = config->parallel.schedule;
    layout.chunks = config->parallel.chunks < INT32_MAX ? (int)config->parallel.chunks : INT32_MAX;
    layout.tied_apart = config->parallel.tied_apart;
    layout.sequence = config->parallel.sequence;
    layout.stage = (int)config->zero.stage;
    layout.dtype = config->bf16 ? ZR_BF16 : config->fp16 ? ZR_F16 : ZR_F32;
    layout.batch = config->micro_batch_size;
    layout.seq = config->data.seq_length;
    layout.accum = config->accumulation_steps;
    layout.accum_order = config->train.layer_major ? ZR_ACCUM_LAYER : ZR_ACCUM_MICRO;
    set_states(config, &layout);
    set_movement(config, &layout);
    set_homes(config, &layout);
    layout.eval = config->data.val || config->data.val_source;
    zr__samples_layout(zr__config_samples(config), config, &layout);
    if (config->train.sample_tokens > 0) layout.decode_len = sample_room(config);
    layout.optimizer = optimizer_of(config);
    layout.rest = rest_of(config);
    layout.hidden = config->optimizer.type == ZR_OPTIMIZER_MUON ? config->optimizer.matrices : NULL;
    return layout;
}

/** Adapt the homes of states to the device and the stage. Only gradients that outlive their reduction have a home: fp32
 * sums over micro-batches, and at stages 2 and 3 shards that wait for the norm. Ops write whole gradients (stages 0 and
 * 1), so these stay on the device. Sums that are larger than a rank's own part also stay on the device, because the
 * disk cannot hold them. If the device's memory is the host's, HOST is replaced by DEVICE. */
static void settle_homes(zr_layout *l, const zr_device_facts *facts)
{
    zr_space *const space[] = {&l->home.param, &l->home.grad, &l->home.optim};
    const bool groups = l->shard_ranks > 0 && l->shard_ranks < l->ranks;
    const bool larger = l->ranks > 1 && (l->stage == 0 || groups || (l->reduce_once && l->accum > 1));
    const bool outlives = l->stage >= 2 || l->accum > 1 || l->rank_free_sums;
    if (!outlives || (larger && l->home.grad == ZR_SPACE_DISK)) l->home.grad = ZR_SPACE_DEVICE;
    for (int i = 0; i < 3; i++)
        if (!facts->own_memory && *space[i] == ZR_SPACE_HOST) *space[i] = ZR_SPACE_DEVICE;
}

/** Add to a layout what a user gives of a pipeline: the schedule in parallel.schedule_file, which *table receives, and
 * the numbers of layers of its stages, which `units` receives. */
static zr_status set_pipeline(const zr_config *config, zr_layout *l, zr_pipe_table **table, int32_t *units)
{
    const char *path = config->parallel.schedule_file;
    ZR_AUTO_FREE char *text = NULL;
    size_t bytes = 0;
    _Static_assert(ZR_CONFIG_UNITS == ZR_ROLES * ZR_CHUNKS, "config has room for the units of every pipeline");
    if (l->pipeline == 1) return ZR_OK;
    if (config->parallel.units) {
        l->n_pipeline_units = zr__config_units(config->parallel.units, units);
        l->pipeline_units = l->n_pipeline_units > 0 ? units : NULL;
    }
    if (!path) return ZR_OK;
    zr_status st = zr__json_read(path, &text, &bytes);
    ZR_CHECK(st == ZR_OK, st, "parallel.schedule_file: %s", zr_error_message());
    ZR_TRY(zr_pipe_table_read(text, bytes, table));
    l->pipeline_schedule = ZR_PIPELINE_TABLE;
    l->pipeline_table = *table;
    return ZR_OK;
}

zr_status zr__train_plan_layout(const zr_config *config, const zr_layout *layout, const zr_profile *profile,
                                zr_plan **plan)
{
    zr__family_model model;
    zr_layout l = *layout;
    ZR_TRY(zr__train_model(config, &model));
    zr_model builder = zr__family_builder(&model);
    int32_t units[ZR_CONFIG_UNITS];
    ZR_AUTO(zr_pipe_table_destroy) zr_pipe_table *table = NULL;
    ZR_TRY(set_pipeline(config, &l, &table, units));
    settle_homes(&l, &profile->facts);
    if (l.limit_bytes > 0 && profile->facts.own_memory)
        l.limit_bytes = zr__arena_limit(config->memory.limit_bytes, true);
    zr_status st = zr_plan_create(&builder, &l, profile, plan);
    if (st != ZR_ERR_SHAPE) return st;
    /* each size is in its range, but the product of the sizes overflows */
    return ZR_FAIL(ZR_ERR_CONFIG,
                   "train_micro_batch_size_per_gpu %lld with data.seq_length %lld, %s %lld and %s %lld is more than "
                   "can be counted (%s); lower the largest of them",
                   (long long)l.batch, (long long)l.seq, zr__config_key_of(config, "width"),
                   (long long)model.sizes.width, zr__config_key_of(config, "vocabulary"),
                   (long long)model.sizes.vocabulary, zr_error_message());
}

zr_status zr__train_plan(const zr_config *config, int ranks, int stage, const zr_profile *profile, zr_plan **plan)
{
    zr_layout layout = zr__train_layout(config, ranks);
    if (stage >= 0) layout.stage = stage;
    return zr__train_plan_layout(config, &layout, profile, plan);
}

zr_status zr__train_plans(const zr_config *config, int ranks, int stage, const zr_profile *profile, zr_plans *plans)
{
    zr_layout layout = zr__train_layout(config, ranks);
    if (stage >= 0) layout.stage = stage;
    *plans = (zr_plans){.n = layout.pipeline <= ZR_ROLES ? layout.pipeline : 1};
    for (int32_t r = 0; r < plans->n; r++) {
        layout.role = r;
        ZR_TRY(zr__train_plan_layout(config, &layout, profile, &plans->role[r]));
        if (plans->role[r]->save == plans->role[0]->save || layout.save == ZR_SAVE_IN_PLACE) continue;
        /* all ranks save in the same way, so a copy must fit on each */
        layout.save = ZR_SAVE_IN_PLACE;
        zr__plans_clear(plans);
        r = -1;
    }
    return zr__plans_fit(plans);
}
