/* Sets the values that no key gives, and checks values that depend on the number of ranks. */
#include "config/internal.h"
#include "config/config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Alignment of each rank's part of a shard or bucket, in elements. It must equal ZR_SHARD_ALIGN of zr/layout.h. config
 * cannot include that header, because config is a layer below plan. */
enum { SHARD_ALIGN_ELEMS = 32 };

/* Fail if a size that preset or init should give is still unknown, because zr__config_adopt was not called. */
static zr_status check_adopted(const zr_config *config)
{
    const zr_model_sizes sizes = zr_config_sizes(config);
    const char *source = config->model.preset ? "model.preset" : "model.init";
    const char *means = !sizes.layers      ? "layers"
                        : !sizes.heads     ? "heads"
                        : !sizes.width     ? "width"
                        : !sizes.positions ? "positions"
                                           : "vocabulary";
    const bool all = sizes.layers && sizes.heads && sizes.width && sizes.positions && sizes.vocabulary;
    ZR_CHECK(all || (!config->model.preset && !config->model.init), ZR_ERR_STATE,
             "%s: %s gives it, and zr__config_adopt was not called", zr__config_key_of(config, means), source);
    return ZR_OK;
}

/* Set keys that follow from others. A model whose samples have no labels gets the default number of labels and label
 * dropout, whatever model.init has. If data.max_predictions is not given, it is at most data.seq_length. */
static void settle_encoder(zr_config *config)
{
    const zr_samples samples = zr__config_samples(config);
    const zr_field *labels = zr_family_meaning(config->model.family, "labels");
    const zr_field *dropout = zr_family_meaning(config->model.family, "label dropout");
    const zr_key *most = zr__key_find(zr__keys_of(config), "data.max_predictions");
    if (labels && !zr__samples_have_labels(samples)) {
        const int64_t standard = strtoll(labels->standard, NULL, 10);
        memcpy(config->model.config.bytes + labels->offset, &standard, sizeof(standard));
    }
    if (dropout && !zr__samples_have_labels(samples)) {
        const double standard = NAN;
        memcpy(config->model.config.bytes + dropout->offset, &standard, sizeof(standard));
    }
    if (zr__samples_are_masked(samples) && !zr__origin_of(config, most)->given && zr__value_is_standard(config, most) &&
        config->data.max_predictions > config->data.seq_length)
        config->data.max_predictions = config->data.seq_length;
}

/* Refuse keys that the model's task does not have, rows of an encoder that are too short for a pair, [CLS] A [SEP] B
 * [SEP], and sizes that do not fit into data.seq_length. */
static zr_status check_encoder(zr_config *config)
{
    enum { LEAST = 5 };
    char why[ZR__FOREIGN_BYTES];
    const char *path = zr__config_foreign_key(config, 1U << zr__config_samples(config), why);
    if (path) return zr__config_refuse(config, "%s: %s", path, why);
    const bool masked = zr__samples_are_masked(zr__config_samples(config));
    if (config->data.seq_length < LEAST)
        return zr__config_refuse(config,
                                 "data.seq_length: %" PRId64
                                 " is too short for a pair of sentences, [CLS] A [SEP] B [SEP]; wanted %d or more",
                                 config->data.seq_length, LEAST);
    settle_encoder(config);
    const struct {
        const char *path;
        int64_t value;
    } key[] = {{"data.max_predictions", config->data.max_predictions}, {"data.max_samples", config->data.max_samples}};
    for (size_t i = masked ? 0 : 1; i < sizeof(key) / sizeof(key[0]); i++)
        if (key[i].value > config->data.seq_length)
            return zr__config_refuse(config, "%s: %" PRId64 " is more than data.seq_length %" PRId64, key[i].path,
                                     key[i].value, config->data.seq_length);
    return ZR_OK;
}

static zr_status resolve_model(zr_config *config)
{
    const zr_family *family = config->model.family;
    int64_t value, multiple;
    ZR_TRY(check_adopted(config));
    const bool bytes = config->data.tokenizer && strcmp(config->data.tokenizer, "bytes") == 0;
    if (bytes && zr_config_sizes(config).vocabulary == 0) {
        value = 256;
        memcpy(config->model.config.bytes + zr_family_meaning(family, "vocabulary")->offset, &value, sizeof(value));
    }
    if (family->complete) family->complete(&config->model.config);
    const zr_field *field = zr__config_undivided(config, &value, &multiple);
    if (field)
        return zr__config_refuse(config, ZR_MODEL_SECTION "%s: %" PRId64 " does not divide %s %" PRId64, field->key,
                                 value, field->divides, multiple);
    if (family->check(&config->model.config) != ZR_OK)
        return zr__config_refuse(config, "model: %s", zr_error_message());
    const int64_t positions = zr_config_sizes(config).positions;
    if (config->data.seq_length == 0) config->data.seq_length = positions;
    if (config->data.seq_length > positions)
        return zr__config_refuse(config,
                                 "data.seq_length: %" PRId64 " is longer than %s %" PRId64 "; give at most that",
                                 config->data.seq_length, zr__config_key_of(config, "positions"), positions);
    return zr__config_samples(config) == ZR_SAMPLES_NEXT ? ZR_OK : check_encoder(config);
}

/* Return the product of the tensor-parallel and the pipeline-parallel degree: the ranks that compute the same rows. */
static int64_t ranks_of_rows(const zr_config *config)
{
    return config->parallel.tensor * config->parallel.pipeline;
}

static zr_status bad_batch(const zr_config *config, int64_t micro, int64_t accum, int ranks, const char *advice)
{
    const int64_t batch = config->train_batch_size;
    return zr__config_refuse(config,
                             "train_batch_size = train_micro_batch_size_per_gpu x gradient_accumulation_steps x "
                             "%sranks does not hold: %s = %s x %s x %d; %s",
                             ranks_of_rows(config) > 1 ? "data-parallel " : "",
                             batch ? ZR_SHORTEST((double)batch) : "?", micro ? ZR_SHORTEST((double)micro) : "?",
                             accum ? ZR_SHORTEST((double)accum) : "?", ranks, advice);
}

static bool is_automatic(const zr_config *config, const char *path)
{
    return zr__origin_of(config, zr__key_find(zr__keys_of(config), path))->automatic;
}

void zr__config_leave_open(zr_config *config)
{
    config->state->by_memory = true;
}

void zr__config_offer_disk(zr_config *config, int64_t bytes)
{
    config->state->disk_bytes = bytes;
}

int64_t zr__config_disk_bytes(const zr_config *config)
{
    return config->state->disk_bytes;
}

#define ZERO "zero_optimization."

static bool no_device(const zr_config *config)
{
    return !zr__config_given(config, ZERO "offload_optimizer.device") &&
           !zr__config_given(config, ZERO "offload_param.device");
}

static bool is_offload_open(const zr_config *config)
{
    const bool folder = config->zero.optim.folders || config->zero.param.folders;
    const bool asked = config->state->by_memory || is_automatic(config, ZERO "offload_optimizer.device");
    return no_device(config) && (config->state->disk_bytes > 0 || (folder && asked));
}

/* Return the choices that may stay open because memory.limit is given. */
static zr__config_open open_by_limit(const zr_config *config)
{
    static const char rows[] = "train_micro_batch_size_per_gpu", accum[] = "gradient_accumulation_steps";
    const bool any = config->state->by_memory, samples = zr__config_given(config, "train_batch_size");
    if (config->memory.limit_bytes == 0 || !zr__config_given(config, "memory.limit")) return (zr__config_open){0};
    const bool words =
        is_automatic(config, rows) && is_automatic(config, accum) && config->recompute.policy == ZR_RECOMPUTE_AUTO;
    const bool neither = !zr__config_given(config, rows) && !zr__config_given(config, accum);
    return (zr__config_open){.stage = any && !zr__config_given(config, ZERO "stage"),
                             .policy = any && !zr__config_given(config, "activation_checkpointing.policy"),
                             .split = samples && (words || (any && neither)),
                             .batch = any && !samples && !zr__config_given(config, rows),
                             .host = any && no_device(config),
                             .offload = is_offload_open(config)};
}

zr__config_open zr__config_get_open(const zr_config *config)
{
    zr__config_open open = open_by_limit(config);
    open.optim_ratio = (open.offload || config->zero.optim.device != ZR_HOME_NONE) &&
                       is_automatic(config, ZERO "offload_optimizer.ratio");
    open.param_ratio =
        (open.offload || config->zero.param.device != ZR_HOME_NONE) && is_automatic(config, ZERO "offload_param.ratio");
    open.weights = config->zero.quantized_weights == ZR_SWITCH_AUTO;
    open.gradients = config->zero.quantized_gradients == ZR_SWITCH_AUTO;
    open.order = (open.split || open.batch || config->accumulation_steps > 1) &&
                 is_automatic(config, "train.accumulation_order");
    return open;
}

bool zr__config_is_open(const zr_config *config)
{
    const zr__config_open open = zr__config_get_open(config);
    return open.stage || open.policy || open.split || open.batch || open.host || open.offload || open.optim_ratio ||
           open.param_ratio || open.weights || open.gradients || open.order;
}

void zr__config_go_on(zr_config *config)
{
    config->state->goes_on = true;
}

/* Return the number of data-parallel ranks for which the three keys of the batch triple agree, or 0 if they
 * agree for no number of ranks. */
static int64_t ranks_of_batch(const zr_config *config)
{
    const int64_t batch = config->train_batch_size, micro = config->micro_batch_size;
    const int64_t accum = config->accumulation_steps;
    if (!batch || !micro || !accum || micro > batch || accum > batch / micro) return 0;
    return batch % (micro * accum) == 0 ? batch / (micro * accum) : 0;
}

/* Refuse a batch triple whose three given keys do not agree. */
static zr_status refuse_three(const zr_config *config, int ranks)
{
    char advice[160] = "leave out one of the three";
    const int64_t had = ranks_of_batch(config);
    if (had)
        snprintf(advice, sizeof(advice),
                 "it holds for %" PRId64
                 " rank%s: use that number, or leave out one of the three (--gradient_accumulation_steps=auto)",
                 had, had == 1 ? "" : "s");
    return bad_batch(config, config->micro_batch_size, config->accumulation_steps, ranks, advice);
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Set the batch triple of a run that resumes on a different number of ranks and whose file gives all three keys. Keep
 * train_batch_size and the values from the command line. If the command line gives neither of the other two keys,
 * replace the micro-batch size by the greatest common divisor of the old size and a rank's samples in a step. Compute
 * the third key from the other two. */
static zr_status keep_batch(zr_config *config, int ranks)
{
    static const char advice[] =
        "a resumed run keeps its train_batch_size; give numbers whose product it is, or another train_batch_size too";
    const bool micro_given = zr__config_overridden(config, "train_micro_batch_size_per_gpu");
    const bool accum_given = zr__config_overridden(config, "gradient_accumulation_steps");
    int64_t *micro = &config->micro_batch_size, *accum = &config->accumulation_steps;
    const int64_t batch = config->train_batch_size, had = ranks_of_batch(config), samples = batch / ranks;
    if (!config->state->goes_on || !batch || !*micro || !*accum || had == ranks) return ZR_OK;
    const bool batch_given = zr__config_overridden(config, "train_batch_size");
    if (micro_given && accum_given && batch_given) return ZR_OK;
    /* If the file's triple fits no number of ranks, no run has written it. Leave it unchanged, and resolve_batch
     * refuses it. */
    if (had == 0 && !micro_given && !accum_given && !batch_given) return ZR_OK;
    if (micro_given && accum_given) return bad_batch(config, *micro, *accum, ranks, advice);
    if (samples * ranks != batch) {
        char before[48] = "";
        if (had && !micro_given && !accum_given)
            snprintf(before, sizeof(before), " (it had %" PRId64 " rank%s)", had, had == 1 ? "" : "s");
        return zr__config_refuse(config,
                                 "train_batch_size: a resumed run keeps its %" PRId64
                                 "%s, which is not a multiple of %d %sranks; use a number of ranks that divides it, or "
                                 "give another train_batch_size",
                                 batch, before, ranks, ranks_of_rows(config) > 1 ? "data-parallel " : "");
    }
    if (accum_given && samples % *accum != 0) return bad_batch(config, 0, *accum, ranks, advice);
    if (micro_given && samples % *micro != 0) return bad_batch(config, *micro, 0, ranks, advice);
    if (accum_given)
        *micro = samples / *accum;
    else if (!micro_given)
        *micro = common_divisor(*micro, samples);
    *accum = samples / *micro;
    return zr__config_note(config,
                           "train_batch_size: still %" PRId64
                           ", on %d rank%s with train_micro_batch_size_per_gpu %" PRId64
                           " and gradient_accumulation_steps %" PRId64,
                           batch, ranks, ranks == 1 ? "" : "s", *micro, *accum);
}

/* Compute the missing values of the batch triple from the given values. If all three are given, they must agree. */
static zr_status resolve_batch(zr_config *config, int ranks)
{
    ZR_TRY(keep_batch(config, ranks));
    int64_t batch = config->train_batch_size, micro = config->micro_batch_size, accum = config->accumulation_steps;
    const zr__config_open open = zr__config_get_open(config);
    if (!batch && !micro && !open.batch && !is_automatic(config, "train_micro_batch_size_per_gpu"))
        ZR_TRY(zr__config_note(config, "train_micro_batch_size_per_gpu: not given, set to 1"));
    if (!batch && !micro) micro = 1;
    if (!accum && !(batch && micro)) accum = 1;
    if (batch && !(micro && accum)) {
        int64_t known = micro ? micro : accum, rest = 0;
        if (known > batch / ranks) return bad_batch(config, micro, accum, ranks, "train_batch_size is too small");
        rest = batch / (known * ranks);
        if (rest * known * ranks != batch)
            return bad_batch(config, micro, accum, ranks, "train_batch_size is not a multiple of the other factors");
        *(micro ? &accum : &micro) = rest;
    }
    const int64_t most = (int64_t)ZR_CONFIG_MAX_INT;
    if (micro > most / ranks || accum > most / (micro * ranks))
        return bad_batch(config, micro, accum, ranks, "the product is too large");
    const int64_t whole = micro * accum * ranks;
    if (batch && batch != whole) return refuse_three(config, ranks);
    config->train_batch_size = whole;
    config->micro_batch_size = micro;
    config->accumulation_steps = accum;
    return ZR_OK;
}

static zr_status note_bucket(zr_config *config, const char *name, int64_t elems, int ranks)
{
    int64_t unit = (int64_t)SHARD_ALIGN_ELEMS * ranks, rest = elems % unit;
    if (rest == 0 || !zr__config_given(config, name)) return ZR_OK;
    return zr__config_note(config, "%s: rounded up to %" PRId64 ", a multiple of %d x %d ranks", name,
                           elems - rest + unit, SHARD_ALIGN_ELEMS, ranks);
}

/* Add a note if reduce_bucket_size will be rounded up, or has no effect. With NCCL the size has no effect, because NCCL
 * divides the buffers itself. For the default size, add no note about NCCL: a run writes this size into its config.json
 * even if the user gave no size. */
static zr_status note_reduce_bucket(zr_config *config, int ranks)
{
    static const char name[] = "zero_optimization.reduce_bucket_size";
    if (config->collectives.reduce != ZR_REDUCE_NCCL)
        return note_bucket(config, name, config->zero.reduce_bucket_elems, ranks);
    if (config->zero.reduce_bucket_elems == strtoll(zr__key_find(zr__keys_of(config), name)->standard, NULL, 10))
        return ZR_OK;
    return zr__config_note(
        config, "%s: it has no effect with collectives.reduce nccl, which reduces a whole unit at once", name);
}

/* Return whether a key has a value neither from the user nor from a recipe. A recipe sets "auto" keys but leaves them
 * marked as not given. */
static bool is_unset(const zr_config *config, const char *path)
{
    return !zr__config_given(config, path) && !(config->state->recipe && is_automatic(config, path));
}

#define PARAMS "optimizer.params."

/* Return whether a schedule has its own highest learning rate, as a number. */
static bool has_own_rate(const zr_config *config)
{
    const zr_config_scheduler type = config->scheduler.type;
    return type == ZR_SCHEDULER_WARMUP_DECAY || type == ZR_SCHEDULER_ONE_CYCLE ||
           (type == ZR_SCHEDULER_WARMUP && zr__config_given(config, "scheduler.params.warmup_max_lr"));
}

/* Set the keys of Muon and of its AdamW that are not given, as DeepSpeed and torch do. From now on optimizer.lr is the
 * learning rate of Muon's matrices, which the schedule changes. */
static zr_status resolve_muon(zr_config *config, bool lr_given)
{
    const bool own = has_own_rate(config), scaled = config->optimizer.scale == ZR_MUON_MATCH_RMS_ADAMW;
    double *muon = &config->optimizer.muon_lr, *adamw = &config->optimizer.adamw.lr;
    const bool muon_given = zr__config_given(config, PARAMS "muon_lr"), took_lr = !muon_given && lr_given;
    const bool adamw_took = !zr__config_given(config, PARAMS "adamw.lr") && lr_given;
    /* the user's names of both rates */
    const char *muon_name = took_lr ? "lr" : "muon_lr", *adamw_name = adamw_took ? "lr" : "adamw.lr (adam_lr)";
    if (!zr__config_given(config, PARAMS "momentum")) config->optimizer.momentum = 0.95;
    if (!zr__config_given(config, PARAMS "nesterov")) config->optimizer.nesterov = config->optimizer.momentum > 0;
    if (!zr__config_given(config, PARAMS "adamw.lr") && !is_unset(config, PARAMS "lr")) *adamw = config->optimizer.lr;
    /* a recipe's lr is AdamW's, and also Muon's if its updates are scaled like AdamW's */
    if (!muon_given && (lr_given || (scaled && !is_unset(config, PARAMS "lr")))) *muon = config->optimizer.lr;
    if (!muon_given && !lr_given && own) *muon = *adamw;
    if (!zr__config_given(config, PARAMS "adamw.betas"))
        memcpy(config->optimizer.adamw.betas, config->optimizer.betas, sizeof(config->optimizer.betas));
    if (!zr__config_given(config, PARAMS "adamw.eps")) config->optimizer.adamw.eps = config->optimizer.eps;
    if (!zr__config_given(config, PARAMS "adamw.weight_decay"))
        config->optimizer.adamw.weight_decay = config->optimizer.weight_decay;
    if (own && *muon != *adamw)
        return zr__config_refuse(config,
                                 "scheduler: it has a highest learning rate of its own for all parameters, but "
                                 "optimizer.params.%s is %g and %s %g; choose WarmupLR without warmup_max_lr, "
                                 "WarmupCosineLR or WarmupPolyDecayLR, which change both by one factor",
                                 muon_name, *muon, adamw_name, *adamw);
    if (*muon != *adamw && config->scheduler.type == ZR_SCHEDULER_WARMUP && config->scheduler.warmup_min_lr > 0)
        return zr__config_refuse(config,
                                 "scheduler.params.warmup_min_lr: %g is the lowest learning rate of all parameters, "
                                 "but optimizer.params.%s is %g and %s %g; leave it out",
                                 config->scheduler.warmup_min_lr, muon_name, *muon, adamw_name, *adamw);
    /* a schedule scales Muon's rate, and AdamW's is a multiple of it */
    if ((*muon > 0) != (*adamw > 0))
        return zr__config_refuse(config,
                                 "optimizer.params: %s is %g and %s %g, but both must be above 0, or both 0; to keep "
                                 "parameters as they are, name them in model.frozen",
                                 muon_name, *muon, adamw_name, *adamw);
    config->optimizer.lr = *muon;
    return ZR_OK;
}

/* Set parameters whose default depends on the type of optimizer. NVIDIA's LAMB clips gradients by itself. `lr_given`:
 * whether the user gave optimizer.params.lr. */
static zr_status resolve_optimizer(zr_config *config, bool lr_given)
{
    const zr_config_optimizer type = config->optimizer.type;
    if (type == ZR_OPTIMIZER_MUON) return resolve_muon(config, lr_given);
    if (type == ZR_OPTIMIZER_LARS && !zr__config_given(config, "optimizer.params.momentum"))
        config->optimizer.momentum = 0.9;
    if (type == ZR_OPTIMIZER_LION && !zr__config_given(config, "optimizer.params.betas"))
        config->optimizer.betas[1] = 0.99;
    if (type != ZR_OPTIMIZER_LAMB) return ZR_OK;
    const zr_lamb_args standard = zr_lamb_defaults(config->optimizer.variant);
    if (!zr__config_given(config, "optimizer.params.eps")) config->optimizer.eps = standard.eps;
    if (is_unset(config, "optimizer.params.weight_decay")) config->optimizer.weight_decay = standard.weight_decay;
    if (config->optimizer.variant != ZR_LAMB_NVIDIA || !is_unset(config, "gradient_clipping")) return ZR_OK;
    config->gradient_clipping = 1;
    return zr__config_note(
        config,
        "gradient_clipping: not given, set to 1, which is max_grad_norm of NVIDIA's LAMB; write 0 for no clipping");
}

/* Refuse parameters of a scheduler to which no recipe has given a type. */
static zr_status check_params(const zr_config *config)
{
    const char *type, *path = zr__config_foreign_param(config, &type);
    return path ? zr__config_refuse(config, "%s: " ZR__FOREIGN_PARAM, path, type) : ZR_OK;
}

/* Refuse a lowest learning rate above the highest, which a recipe or optimizer.params.lr may have given. */
static zr_status check_rates(const zr_config *config)
{
    double low, high;
    const char *most, *path = zr__config_low_above(config, &low, &high, &most);
    return path ? zr__config_refuse(config, "%s: " ZR__LOW_ABOVE, path, low, strrchr(most, '.') + 1, high, high)
                : ZR_OK;
}

/* Add a note if a file of DeepSpeed says nothing about clipping, since DeepSpeed's default has changed. */
static zr_status note_clipping(zr_config *config)
{
    static const char path[] = "gradient_clipping";
    if (!zr__config_from_file(config) || !config->state->is_deepspeeds || config->gradient_clipping > 0 ||
        zr__config_given(config, path) || is_automatic(config, path))
        return ZR_OK;
    return zr__config_note(
        config, "gradient_clipping is not given: gradients are not clipped; DeepSpeed 0.19.x clips at 1.0 by default "
                "since June 2026; write \"gradient_clipping\": 1.0 for that, or 0 for no clipping");
}

/* Add a note if optimizer.params.lr has no effect, because the schedule has its own rates. Also add it for the lr of a
 * recipe, if the user gives neither lr nor the schedule's highest rate. */
static zr_status note_lr(zr_config *config, bool lr_given)
{
    const zr_config_scheduler type = config->scheduler.type;
    const bool warms = type == ZR_SCHEDULER_WARMUP || type == ZR_SCHEDULER_WARMUP_DECAY;
    const bool cycles = type == ZR_SCHEDULER_ONE_CYCLE;
    const double highest = cycles ? config->scheduler.cycle_max_lr : config->scheduler.warmup_max_lr;
    const char *path = cycles ? "scheduler.params.cycle_max_lr" : "scheduler.params.warmup_max_lr";
    if (!(warms || cycles) || config->optimizer.lr == highest || is_unset(config, "optimizer.params.lr")) return ZR_OK;
    /* without file and override, the keys are from the text of a resolved configuration, which has both */
    const bool both = !zr__config_from_file(config) && !zr__config_overridden(config, "optimizer.params.lr");
    if (zr__config_given(config, path) && (both || !lr_given)) return ZR_OK;
    return zr__config_note(config,
                           "optimizer.params.lr has no effect: the highest learning rate of the schedule is %s, %s",
                           path, ZR_SHORTEST(highest));
}

static zr_status resolve_schedule(zr_config *config)
{
    zr_config_scheduler type = config->scheduler.type;
    bool ends =
        type == ZR_SCHEDULER_WARMUP_DECAY || type == ZR_SCHEDULER_WARMUP_COSINE || type == ZR_SCHEDULER_WARMUP_POLY;
    int64_t warmup = config->scheduler.warmup_num_steps, *total = &config->scheduler.total_num_steps;
    if (*total == 0) *total = config->train.steps;
    /* as in DeepSpeed 0.19, whose WarmupDecayLR keeps the default 0.001 instead */
    if (type == ZR_SCHEDULER_WARMUP && !zr__config_given(config, "scheduler.params.warmup_max_lr"))
        config->scheduler.warmup_max_lr = config->optimizer.lr;
    if (config->scheduler.second_step_size == 0) config->scheduler.second_step_size = config->scheduler.first_step_size;
    if (!zr__config_given(config, "scheduler.params.cycle_second_stair_count"))
        config->scheduler.second_stair_count = config->scheduler.first_stair_count;
    if (type == ZR_SCHEDULER_ONE_CYCLE && !zr__config_given(config, "scheduler.params.cycle_momentum"))
        ZR_TRY(zr__config_note(config, "scheduler.params.cycle_momentum: not given, set to false, since zr changes "
                                       "only the learning rate; DeepSpeed's default is true"));
    if (!ends || *total >= warmup) return ZR_OK;
    return zr__config_note(config,
                           "scheduler.params.total_num_steps: %" PRId64 " is less than warmup_num_steps %" PRId64
                           ", so the learning rate does not decay before the warm-up ends",
                           *total, warmup);
}

static void resolve_autos(zr_config *config)
{
    zr_config_dtype used = config->bf16 ? ZR_CONFIG_BF16 : config->fp16 ? ZR_CONFIG_FP16 : ZR_CONFIG_FP32;
    if (config->zero.overlap_comm == ZR_SWITCH_AUTO) config->zero.overlap_comm = ZR_SWITCH_ON;
    if (config->communication_dtype == ZR_CONFIG_AUTO) config->communication_dtype = used;
    if (config->grad_accum_dtype == ZR_CONFIG_AUTO) config->grad_accum_dtype = ZR_CONFIG_FP32;
}

/* Add one note on an fp16 section that is switched off. DeepSpeed's files often contain the whole section. */
static zr_status note_fp16(zr_config *config)
{
    for (const zr_key *key = zr__keys_of(config); key->path; key++)
        if (zr__config_given(config, key->path) && strncmp(key->path, "fp16.", 5) == 0 && !zr__key_is_read(config, key))
            ZR_TRY(zr__config_note(config, "fp16: not enabled, so its other keys have no effect"));
    return ZR_OK;
}

/* Check the number of ranks if sums must not depend on it (train.reproducible world). Gradients of micro-batches are
 * added by a binary tree, which is the same for every power of two. */
static zr_status check_world(const zr_config *config, int ranks)
{
    if (!config->train.rank_free_sums || (ranks & (ranks - 1)) == 0) return ZR_OK;
    int64_t below = 1;
    while (below * 2 < ranks) below *= 2;
    return zr__config_refuse(
        config,
        "train.reproducible: world needs a number of ranks that is a power of two, but there are %d ranks; use %" PRId64
        " or %" PRId64 " ranks, or \"layout\"",
        ranks, below, below * 2);
}

/* Check train.sample_tokens. Training on token files needs no tokenizer, but printing samples as text does. */
static zr_status check_samples(const zr_config *config)
{
    if (config->train.sample_tokens == 0) return ZR_OK;
    ZR_CHECK(config->parallel.tensor == 1, ZR_ERR_UNSUPPORTED,
             "train.sample_tokens cannot be used with parallel.tensor %" PRId64
             ": tensor-parallel ranks cannot generate text yet; leave out one of the two",
             config->parallel.tensor);
    ZR_CHECK(config->parallel.pipeline == 1, ZR_ERR_UNSUPPORTED,
             "train.sample_tokens cannot be used with parallel.pipeline %" PRId64
             ": pipeline ranks cannot generate text; leave it out, and run `zr generate` on a checkpoint",
             config->parallel.pipeline);
    if (config->data.train && !config->data.tokenizer)
        return zr__config_refuse(config, "train.sample_tokens: token files need a tokenizer to write text; give its "
                                         "directory as data.tokenizer, or leave out train.sample_tokens");
    return ZR_OK;
}

/* Check that a training step has at least two micro-batches, since the gradient noise scale compares their gradients.
 * If the number of micro-batches is still open, assume micro-batches of one sample. */
static zr_status check_noise_scale(const zr_config *config, int ranks)
{
    const int64_t micro =
        (zr__config_get_open(config).split ? config->micro_batch_size : 1) * config->accumulation_steps;
    if (!config->train.noise_scale || ranks > 1 || micro > 1) return ZR_OK;
    return zr__config_refuse(
        config,
        "train.gradient_noise_scale: needs at least two micro-batches per step, but there is one (1 data-parallel rank "
        "x gradient_accumulation_steps 1); raise gradient_accumulation_steps, or use more ranks");
}

/* Check the keys that need evaluations. A run that may end early keeps its best weights, unless the user says no. */
static zr_status settle_best(zr_config *config)
{
    const bool planned = !config->data.train && !config->data.source; /* without data */
    const bool val = config->data.val || config->data.val_source;
    const bool evaluated = config->train.eval_interval > 0 && (val || planned);
    const char *key = config->train.patience > 0 ? "train.early_stopping_patience" : "train.keep_best";
    if (!config->train.keep_best && config->train.patience == 0) return ZR_OK;
    if (!evaluated)
        return zr__config_refuse(config, "%s: needs evaluations, but there are none (%s); set that, or leave out %s",
                                 key, val ? "train.eval_interval is 0" : "there is no data.val", key);
    if (config->train.keep_best || zr__config_given(config, "train.keep_best")) return ZR_OK;
    config->train.keep_best = true;
    return zr__config_note(config, "train.keep_best: true, because of train.early_stopping_patience");
}

/* Add a note if memory.norm two_pass has no effect. If the gradient is stored anyway, to accumulate micro-batches, a
 * second pass would only cost time. Then zr__train_layout plans no second pass. */
static zr_status note_two_pass(zr_config *config)
{
    const char *why = config->accumulation_steps > 1 ? "gradient_accumulation_steps above 1"
                      : config->train.rank_free_sums ? "train.reproducible world"
                                                     : NULL;
    if (config->memory.norm != ZR_NORM_TWO_PASS || !why) return ZR_OK;
    return zr__config_note(config, "memory.norm: two_pass has no effect, because with %s the gradient is kept anyway",
                           why);
}

/* Add a note on reduce_once, the reduction of gradients once per step. With one micro-batch per step, it changes
 * nothing. With more, each rank stores whole gradients, although the stage would partition them. */
static zr_status note_reduce_once(zr_config *config, int ranks)
{
    if (!config->reduce_once || ranks == 1 || zr__config_get_open(config).split) return ZR_OK;
    if (config->accumulation_steps == 1 && config->zero.quantized_gradients == ZR_SWITCH_ON)
        return ZR_OK; /* settle_quantised set it */
    if (config->accumulation_steps == 1)
        return zr__config_note(config, "gradient_reduction: step has no effect, because a training step has one "
                                       "micro-batch (gradient_accumulation_steps 1)");
    if (config->zero.stage < 2) return ZR_OK;
    return zr__config_note(config,
                           "gradient_reduction: with step, each rank keeps the whole gradient in fp32, although "
                           "zero_optimization.stage is %" PRId64 "",
                           config->zero.stage);
}

/* Add notes on what zero_quantized_weights leaves as it is. With lean states in 16 bits, zr__config_note_all says that
 * offload_param has no effect. */
static zr_status note_quantised_weights(zr_config *config, int ranks)
{
    const char *key = "zero_optimization.zero_quantized_weights";
    const bool lean = config->memory.layout == ZR_LAYOUT_LEAN && (config->bf16 || config->fp16);
    if (config->zero.quantized_weights != ZR_SWITCH_ON) return ZR_OK;
    if (ranks == 1 || (config->zero.stage == 0 && !zr__config_get_open(config).stage))
        ZR_TRY(zr__config_note(config,
                               "%s: %s no parameters pass between ranks: values are rounded, but nothing is saved", key,
                               ranks == 1 ? "on one data-parallel rank" : "at zero_optimization.stage 0"));
    if (config->optimizer.type == ZR_OPTIMIZER_MUON && config->optimizer.matrices)
        ZR_TRY(
            zr__config_note(config, "optimizer.params.matrices: %s quantises only the matrices that Muon trains", key));
    if (config->model.lora.rank > 0 && !config->zero.quantized_frozen)
        ZR_TRY(
            zr__config_note(config,
                            "%s: with model.lora it quantises only the adapters; zero_quantized_nontrainable_weights "
                            "quantises the frozen matrices",
                            key));
    if (config->zero.param.device == ZR_HOME_NONE || lean) return ZR_OK;
    return zr__config_note(config,
                           "zero_optimization.offload_param: with zero_quantized_weights the trained matrices of "
                           "blocks are cast from their fp32 masters, which offload_optimizer places; only "
                           "other parameters are offloaded");
}

/* If no form is given, differences of parameters are int4: they are small, and errors do not add up. */
static void settle_weight_form(zr_config *config)
{
    const bool given = zr__config_given(config, "quantization.weights");
    const bool records = config->zero.quantized_weights == ZR_SWITCH_ON || zr__config_get_open(config).weights;
    if (records && config->quantization.weight_differences && !given) config->quantization.weights = ZR_CODES_INT4;
}

/* Reduce quantised gradients once per step: a reduction in every micro-batch would round as often. */
static zr_status settle_quantised(zr_config *config, int ranks)
{
    const char *key = "zero_optimization.zero_quantized_gradients";
    if (config->zero.quantized_gradients != ZR_SWITCH_ON) return ZR_OK;
    const bool micro = !config->reduce_once, given = zr__config_given(config, "gradient_reduction");
    if (micro && ranks > 1 && given)
        return zr__config_refuse(config,
                                 "gradient_reduction: micro would quantise the gradients of each micro-batch (%s); use "
                                 "step, or leave it out",
                                 key);
    /* on one rank too, for the file that the run writes, which may be used on several */
    if (!given) config->reduce_once = true;
    if (ranks == 1)
        return zr__config_note(config, "%s has no effect on one data-parallel rank: nothing is reduced%s", key,
                               config->zero.loco_reset_steps > 0 ? ", and zeropp_loco_param keeps no errors" : "");
    if (!micro || config->accumulation_steps == 1) return ZR_OK;
    return zr__config_note(config, "gradient_reduction: step, because of %s", key);
}

/* Add a note if the order of micro-batches has no effect, because a training step has only one. */
static zr_status note_accumulation_order(zr_config *config)
{
    if (!config->train.layer_major || config->accumulation_steps > 1 || zr__config_get_open(config).split) return ZR_OK;
    return zr__config_note(config, "train.accumulation_order: layer has no effect, because a training step has one "
                                   "micro-batch (gradient_accumulation_steps 1)");
}

/* Refuse an all-reduce at stage 1 if micro-batches are accumulated. Each rank then accumulates only its own shard of
 * the gradient sums, in fp32. An all-reduce returns a unit's whole sums, for which there is no buffer. */
static zr_status check_all_reduce(const zr_config *config)
{
    bool added = config->accumulation_steps > 1 || config->train.rank_free_sums;
    ZR_CHECK(config->collectives.reduce != ZR_REDUCE_ALL_REDUCE || config->zero.stage != 1 || !added,
             ZR_ERR_UNSUPPORTED,
             "%s: collectives.reduce: all_reduce at zero_optimization.stage 1 needs one micro-batch per step and "
             "train.reproducible layout, but there are %" PRId64 " with %s; use reduce_scatter or stage 0",
             config->state->name, config->accumulation_steps, config->train.rank_free_sums ? "world" : "layout");
    return ZR_OK;
}

/* Refuse an offload of parameters below stage 3 if neither the user nor the memory limit chooses the stage. If the user
 * gives a stage below 3, the offload has no effect, as in DeepSpeed. */
static zr_status settle_offload_stage(zr_config *config)
{
    static const char why[] = "parameters are whole on every rank at zero_optimization.stage";
    if (config->zero.param.device == ZR_HOME_NONE || config->zero.stage == 3 || zr__config_get_open(config).stage)
        return ZR_OK;
    if (!zr__config_given(config, "zero_optimization.stage"))
        return zr__config_refuse(config,
                                 "zero_optimization.offload_param.device: %s %" PRId64
                                 ", so there are no shards to offload; use stage 3, or offload_optimizer alone",
                                 why, config->zero.stage);
    config->zero.param.device = ZR_HOME_NONE;
    return zr__config_note(
        config, "zero_optimization.offload_param has no effect: %s %" PRId64 ", so there are no shards to offload", why,
        config->zero.stage);
}

/* Check the degrees of tensor and pipeline parallelism. *ranks receives the number of data-parallel ranks. */
static zr_status check_grid(const zr_config *config, int all_ranks, int *ranks)
{
    const int64_t tensor = config->parallel.tensor, pipeline = config->parallel.pipeline;
    const bool fits = tensor <= all_ranks && pipeline <= all_ranks / tensor;
    const char *both = tensor > 1 && pipeline > 1 ? "parallel.tensor x parallel.pipeline"
                       : pipeline > 1             ? "parallel.pipeline"
                                                  : "parallel.tensor";
    const double product = (double)tensor * (double)pipeline;
    if (!fits || all_ranks % (tensor * pipeline) != 0)
        return zr__config_refuse(config,
                                 "%s: %s does not divide the %d ranks; use a number of ranks that is a multiple of %s, "
                                 "or another degree",
                                 both, ZR_SHORTEST(product), all_ranks, ZR_SHORTEST(product));
    *ranks = (int)(all_ranks / (tensor * pipeline));
    return ZR_OK;
}

zr_status zr_config_resolve(zr_config *config, int all_ranks)
{
    int ranks = 0; /* number of data-parallel ranks */
    ZR_CHECK(all_ranks >= 1, ZR_ERR_ARG, "the number of ranks is %d; it must be at least 1", all_ranks);
    ZR_TRY(check_grid(config, all_ranks, &ranks));
    ZR_TRY(check_world(config, ranks));
    ZR_TRY(resolve_model(config)); /* this sets the model's settings and data.seq_length */
    const bool lr_given = zr__config_given(config, "optimizer.params.lr"); /* by the user */
    ZR_TRY(zr__config_recipe(config)); /* this sets the optimizer, scheduler and gradient_clipping of the recipe */
    ZR_TRY(check_params(config));
    ZR_TRY(resolve_batch(config, ranks)); /* sets the batch triple */
    ZR_TRY(check_all_reduce(config));
    ZR_TRY(settle_offload_stage(config));
    ZR_TRY(check_noise_scale(config, ranks));
    ZR_TRY(check_samples(config));
    ZR_TRY(settle_best(config));
    ZR_TRY(note_reduce_bucket(config, ranks));
    ZR_TRY(note_bucket(config, "zero_optimization.allgather_bucket_size", config->zero.allgather_bucket_elems, ranks));
    resolve_autos(config); /* this sets overlap_comm, communication_data_type and grad_accum_dtype */
    ZR_TRY(note_fp16(config));
    ZR_TRY(resolve_optimizer(config, lr_given));
    ZR_TRY(resolve_schedule(config)); /* this sets scheduler.params.total_num_steps */
    ZR_TRY(check_rates(config));
    ZR_TRY(note_lr(config, lr_given));
    ZR_TRY(note_clipping(config));
    ZR_TRY(note_two_pass(config));
    ZR_TRY(note_quantised_weights(config, ranks));
    settle_weight_form(config);
    ZR_TRY(settle_quantised(config, ranks));
    ZR_TRY(note_reduce_once(config, ranks));
    ZR_TRY(note_accumulation_order(config));
    ZR_TRY(zr__config_note_all(config));
    ZR_CHECK(!config->state->lacks_memory, ZR_ERR_MEMORY, "out of memory for the values of the configuration");
    return ZR_OK;
}
