/* Checks keys against each other, except checks that depend on the number of ranks. The checks run while the file's
 * text is in memory, so that an error can name the line and column of its key. */
#include "config/internal.h"
#include "config/config.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Report an error at the key `path`, because its value contradicts the values of other keys. */
static zr_status fail_key(const zr__source *source, const char *path, zr_status status, const char *format, ...)
    ZR_PRINTF(4, 5);
static zr_status fail_key(const zr__source *source, const char *path, zr_status status, const char *format, ...)
{
    char message[512];
    zr__key_place place;
    ZR_PRINT_ARGS(message, format);
    const zr_key *key = zr__key_find(zr__keys_of(source->config), path);
    if (key) path = zr__key_shown(source->config, key);
    return zr__config_fail(source, zr__key_place_of(path, &place), status, "%s", message);
}

/* Report an error at a key if `wrong`. */
#define REFUSE(wrong, path, status, ...)                                                                               \
    do {                                                                                                               \
        if (wrong) return fail_key(source, path, status, __VA_ARGS__);                                                 \
    } while (0)

const char *zr__config_foreign_param(const zr_config *config, const char **type)
{
    static const char *const optimizer[] = {"AdamW", "Adam", "SGD", "Lamb", "Lars", "Muon", "Lion", "AdamW8bit"};
    static const char *const scheduler[] = {"a constant learning rate (no scheduler.type)",
                                            "WarmupLR",
                                            "WarmupDecayLR",
                                            "WarmupCosineLR",
                                            "WarmupExpDecayLR",
                                            "WarmupPolyDecayLR",
                                            "OneCycle"};
    for (const zr_key *key = zr__keys_of(config); key->path; key++) {
        const bool schedules = strncmp(key->path, "scheduler.", strlen("scheduler.")) == 0;
        if (zr__key_is_read(config, key) || !key->only || !zr__origin_of(config, key)->given) continue;
        *type = schedules ? scheduler[config->scheduler.type] : optimizer[config->optimizer.type];
        return key->path;
    }
    return NULL;
}

/* Refuse parameters that the configured optimizer or scheduler ignores. If a recipe may still give the scheduler's
 * type, leave this to zr_config_resolve. */
static zr_status check_params(const zr_config *config, const zr__source *source)
{
    const char *type, *path = zr__config_foreign_param(config, &type);
    const bool recipe = (config->model.init || config->model.preset) && config->scheduler.type == ZR_SCHEDULER_NONE &&
                        !zr__config_given(config, "scheduler.type");
    if (!path || (recipe && strncmp(path, "scheduler.", strlen("scheduler.")) == 0)) return ZR_OK;
    return fail_key(source, path, ZR_ERR_CONFIG, ZR__FOREIGN_PARAM, type);
}

/* Refuse settings of LAMB that its variant does not have. */
static zr_status check_lamb(const zr_config *config, const zr__source *source)
{
    static const char *const name[] = {"deepspeed", "nvidia", "paper"};
    const struct {
        const char *key;
        zr_lamb_variant variant;
        bool changed;
    } setting[] = {{"min_coeff", ZR_LAMB_DEEPSPEED, config->optimizer.min_coeff != 0.01},
                   {"max_coeff", ZR_LAMB_DEEPSPEED, config->optimizer.max_coeff != 10},
                   {"eps_inside_sqrt", ZR_LAMB_DEEPSPEED, config->optimizer.eps_inside_sqrt},
                   {"adam_w_mode", ZR_LAMB_NVIDIA, !config->optimizer.adam_w_mode},
                   {"grad_averaging", ZR_LAMB_NVIDIA, !config->optimizer.grad_averaging},
                   {"use_nvlamb", ZR_LAMB_NVIDIA, config->optimizer.use_nvlamb}};
    if (config->optimizer.type != ZR_OPTIMIZER_LAMB) return ZR_OK;
    for (size_t i = 0; i < sizeof(setting) / sizeof(setting[0]); i++) {
        char path[64];
        snprintf(path, sizeof(path), "optimizer.params.%s", setting[i].key);
        REFUSE(setting[i].changed && setting[i].variant != config->optimizer.variant, path, ZR_ERR_CONFIG,
               "it is a setting of variant %s, but optimizer.params.variant is %s; change the variant, or leave it out",
               name[setting[i].variant], name[config->optimizer.variant]);
    }
    REFUSE(config->optimizer.min_coeff > config->optimizer.max_coeff, "optimizer.params.min_coeff", ZR_ERR_CONFIG,
           ZR__LOW_ABOVE, config->optimizer.min_coeff, "max_coeff", config->optimizer.max_coeff,
           config->optimizer.max_coeff);
    return ZR_OK;
}

const char *zr__config_low_above(const zr_config *config, double *low, double *high, const char **high_path)
{
    const bool cycles = config->scheduler.cycle_min_lr > config->scheduler.cycle_max_lr;
    *low = cycles ? config->scheduler.cycle_min_lr : config->scheduler.warmup_min_lr;
    *high = cycles ? config->scheduler.cycle_max_lr : config->scheduler.warmup_max_lr;
    *high_path = cycles ? "scheduler.params.cycle_max_lr" : "scheduler.params.warmup_max_lr";
    if (!(*low > *high)) return NULL;
    return cycles ? "scheduler.params.cycle_min_lr" : "scheduler.params.warmup_min_lr";
}

/* Refuse a schedule whose lowest learning rate is above its highest. If a recipe or optimizer.params.lr may still give
 * the highest rate, leave this to zr_config_resolve. */
static zr_status check_rates(const zr_config *config, const zr__source *source)
{
    double low, high;
    const char *most, *path = zr__config_low_above(config, &low, &high, &most);
    const bool later = config->model.init || config->model.preset || config->scheduler.type == ZR_SCHEDULER_WARMUP ||
                       zr__origin_of(config, zr__key_find(zr__keys_of(config), most))->automatic;
    if (!path || (later && !zr__config_given(config, most))) return ZR_OK;
    return fail_key(source, path, ZR_ERR_CONFIG, ZR__LOW_ABOVE, low, strrchr(most, '.') + 1, high, high);
}

static zr_status check_rules(const zr_config *config, const zr__source *source)
{
    ZR_TRY(check_params(config, source));
    REFUSE((config->optimizer.type == ZR_OPTIMIZER_ADAMW || config->optimizer.type == ZR_OPTIMIZER_ADAMW8BIT) &&
               !config->optimizer.adam_w_mode,
           "optimizer.params.adam_w_mode", ZR_ERR_CONFIG, "false is Adam's, AdamW has decoupled decay");
    REFUSE(config->optimizer.type == ZR_OPTIMIZER_MUON && !config->optimizer.adam_w_mode,
           "optimizer.params.adam_w_mode", ZR_ERR_UNSUPPORTED,
           "the parameters beside Muon's are trained by AdamW, whose decay is decoupled");
    REFUSE(config->optimizer.type == ZR_OPTIMIZER_MUON && config->optimizer.momentum == 1 &&
               !config->optimizer.momentum_sums,
           "optimizer.params.momentum", ZR_ERR_CONFIG,
           "with 1 a moving average stays 0; write a number below 1, or momentum_form sum");
    REFUSE(config->optimizer.nesterov && config->optimizer.momentum == 0 && config->optimizer.type != ZR_OPTIMIZER_MUON,
           "optimizer.params.nesterov", ZR_ERR_CONFIG, "true needs a momentum above 0");
    ZR_TRY(check_lamb(config, source));
    return check_rates(config, source);
}

static zr_status check_number_types(const zr_config *config, const zr__source *source)
{
    static const char *const name[] = {[ZR_CONFIG_BF16] = "bf16", [ZR_CONFIG_FP16] = "fp16"};
    zr_config_dtype used = config->bf16 ? ZR_CONFIG_BF16 : config->fp16 ? ZR_CONFIG_FP16 : ZR_CONFIG_FP32;
    zr_config_dtype wire = config->communication_dtype;
    REFUSE(config->bf16 && config->fp16, "fp16.enabled", ZR_ERR_CONFIG,
           "it is true, and so is bf16.enabled; enable only one of the two");
    REFUSE((wire == ZR_CONFIG_BF16 || wire == ZR_CONFIG_FP16) && wire != used, "communication_data_type",
           ZR_ERR_UNSUPPORTED, "%s needs %s.enabled; available now: fp32%s%s", name[wire], name[wire],
           used == ZR_CONFIG_FP32 ? "" : ", ", used == ZR_CONFIG_FP32 ? "" : name[used]);
    return ZR_OK;
}

/* Minimum loss scale. Updates divide by the scale in fp32, so with a smaller scale the quotient could overflow. */
#define LEAST_LOSS_SCALE 1e-6

static zr_status check_loss_scale(const zr_config *config, const zr__source *source)
{
    int64_t power = config->scale.initial_scale_power;
    REFUSE(config->scale.loss_scale > 0 && config->scale.loss_scale < LEAST_LOSS_SCALE, "fp16.loss_scale",
           ZR_ERR_CONFIG, "found %g, wanted 0 (a dynamic scale) or a number of at least %g", config->scale.loss_scale,
           LEAST_LOSS_SCALE);
    bool dynamic = config->fp16 && config->scale.loss_scale == 0;
    if (!dynamic || config->scale.min_loss_scale <= ldexp(1, (int)power)) return ZR_OK;
    return fail_key(source, "fp16.min_loss_scale", ZR_ERR_CONFIG,
                    "%g is above the initial loss scale, 2 to the power %" PRId64 " (initial_scale_power)",
                    config->scale.min_loss_scale, power);
}

/* Refuse settings that NCCL's own reduce-scatter does not support or does not guarantee. */
static zr_status check_nccl_keys(const zr_config *config, const zr__source *source)
{
    if (config->collectives.reduce != ZR_REDUCE_NCCL) return ZR_OK;
    REFUSE(config->device != ZR_DEVICE_CUDA, "collectives.reduce", ZR_ERR_CONFIG,
           "nccl works only between processes on GPUs; set \"device\" to \"cuda\" too, or use reduce_scatter");
    REFUSE(config->train.rank_free_sums, "collectives.reduce", ZR_ERR_CONFIG,
           "nccl cannot be used with train.reproducible world, because NCCL chooses the order of sums; leave out one "
           "of the two");
    return ZR_OK;
}

/* Refuse quantised exchanges that contradict other keys. */
static zr_status check_quantization(const zr_config *config, const zr__source *source)
{
    const int64_t block = config->quantization.block_elems;
    const char *gradients = "zero_optimization.zero_quantized_gradients";
    REFUSE(block != 128 && block != 256, "quantization.block", ZR_ERR_CONFIG,
           "found %" PRId64 ", wanted 128 or 256 elements", block);
    REFUSE(config->quantization.weight_differences && config->zero.quantized_weights != ZR_SWITCH_OFF &&
               config->zero.stage == 3,
           "quantization.weight_differences", ZR_ERR_CONFIG,
           "it cannot be used with zero_optimization.stage 3, where no rank has all parameters, to which differences "
           "could be added; leave it out, or use stage 2");
    const char *frozen = "zero_optimization.zero_quantized_nontrainable_weights";
    REFUSE(config->zero.quantized_frozen && config->parallel.tensor > 1, frozen, ZR_ERR_UNSUPPORTED,
           "it cannot be used with parallel.tensor %" PRId64
           ", which cuts matrices within blocks; leave out one of the two",
           config->parallel.tensor);
    REFUSE(config->zero.quantized_frozen && config->zero.param.device == ZR_HOME_NVME, frozen, ZR_ERR_UNSUPPORTED,
           "it cannot be used with offload_param.device nvme; leave out one of the two");
    /* with "auto", options that exclude quantised gradients set it to false */
    const bool on = config->zero.quantized_gradients == ZR_SWITCH_ON;
    REFUSE(on && config->train.rank_free_sums, gradients, ZR_ERR_CONFIG,
           "it cannot be used with train.reproducible world: each rank quantises its own sums, so values depend on the "
           "number of ranks; leave out one of the two");
    REFUSE(on && config->collectives.reduce == ZR_REDUCE_NCCL, gradients, ZR_ERR_CONFIG,
           "it cannot be used with collectives.reduce nccl, which cannot add quantised values; use reduce_scatter");
    if (config->zero.quantized_gradients == ZR_SWITCH_OFF || config->zero.loco_reset_steps == 0) return ZR_OK;
    REFUSE(config->zero.loco_beta >= 1, "zero_optimization.zeropp_loco_param.err_beta", ZR_ERR_CONFIG,
           "found %g, wanted a number from 0 to below 1, or errors would never change", config->zero.loco_beta);
    REFUSE(
        config->memory.norm == ZR_NORM_TWO_PASS, "zero_optimization.zeropp_loco_param.reset_T", ZR_ERR_UNSUPPORTED,
        "it cannot be used with memory.norm two_pass, which quantises each gradient twice; leave out one of the two");
    return ZR_OK;
}

int zr__config_units(const char *text, int32_t *units)
{
    int n = 0;
    if (strcmp(text, "auto") == 0) return 0;
    for (const char *at = text;; at++) {
        char *end;
        const long value = strtol(at, &end, 10);
        if (end == at || !isdigit((unsigned char)*at) || value < 0 || value > INT32_MAX || n == ZR_CONFIG_UNITS)
            return -1;
        units[n++] = (int32_t)value;
        while (*end == ' ') end++;
        if (!*end) return n;
        if (*end != ',') return -1;
        while (end[1] == ' ') end++;
        at = end;
    }
}

/* Refuse keys about pipelines that contradict each other or cannot be read. */
static zr_status check_pipeline(const zr_config *config, const zr__source *source)
{
    int32_t units[ZR_CONFIG_UNITS];
    const char *text = config->parallel.units;
    REFUSE(text && zr__config_units(text, units) < 0, "parallel.pipeline_units", ZR_ERR_CONFIG,
           "found \"%s\", wanted the number of layers of each stage with commas between, such as \"3,4,4,3\", of at "
           "most %d stages",
           ZR_SHOWN(text), ZR_CONFIG_UNITS);
    return ZR_OK;
}

/* Refuse keys about the norm, recomputation and collectives that contradict each other. */
static zr_status check_schedule_keys(const zr_config *config, const zr__source *source)
{
    int64_t stage = config->zero.stage;
    REFUSE(config->memory.norm == ZR_NORM_TWO_PASS && config->memory.layout != ZR_LAYOUT_LEAN, "memory.norm",
           ZR_ERR_CONFIG, "two_pass works only with memory.layout lean, but the layout is paper; leave it out");
    REFUSE(config->recompute.every != 1 && config->recompute.policy != ZR_RECOMPUTE_UNIT,
           "activation_checkpointing.every", ZR_ERR_CONFIG,
           "it works only with activation_checkpointing.policy unit; leave it out");
    REFUSE(config->recompute.cpu && config->recompute.offload == ZR_OFFLOAD_DISK, "activation_checkpointing.offload",
           ZR_ERR_CONFIG,
           "disk cannot be used together with cpu_checkpointing true, which keeps checkpoints in the host's memory; "
           "leave out one of the two");
    const bool keeps = config->recompute.policy == ZR_RECOMPUTE_KEEP;
    REFUSE(config->recompute.partition && (keeps || config->recompute.policy == ZR_RECOMPUTE_NONE) &&
               config->parallel.tensor > 1,
           "activation_checkpointing.partition_activations", ZR_ERR_CONFIG,
           "it needs checkpoints, but activation_checkpointing.policy is %s; use policy unit, selective or auto",
           keeps ? "keep" : "none");
    REFUSE(config->collectives.reduce == ZR_REDUCE_ALL_REDUCE && stage > 1, "collectives.reduce", ZR_ERR_CONFIG,
           "all_reduce cannot be used with zero_optimization.stage %" PRId64
           ", where a rank keeps only its own sums; use stage 0 or 1, or reduce_scatter",
           stage);
    REFUSE(config->reduce_once && config->train.rank_free_sums, "gradient_reduction", ZR_ERR_UNSUPPORTED,
           "step cannot be used with train.reproducible world, which needs another order of sums; leave out one of the "
           "two");
    ZR_TRY(check_quantization(config, source));
    return check_nccl_keys(config, source);
}

static zr_status check_lora(const zr_config *config, const zr__source *source)
{
    const zr_lora *lora = &config->model.lora;
    if (lora->rank == 0 && !config->model.lora_init) return ZR_OK;
    REFUSE(lora->alpha == 0, "model.lora.alpha", ZR_ERR_CONFIG, "found 0, wanted above 0");
    REFUSE(lora->dropout >= 1, "model.lora.dropout", ZR_ERR_CONFIG, "found 1, wanted below 1");
    REFUSE(config->model.frozen, "model.frozen", ZR_ERR_CONFIG,
           "with model.lora all parameters but the adapters are frozen; leave it out");
    return ZR_OK;
}

#define ZERO "zero_optimization."

/* Return the first key that puts model states or activation checkpoints on disk, or NULL. */
static const char *key_on_disk(const zr_config *config)
{
    if (config->zero.optim.device == ZR_HOME_NVME) return ZERO "offload_optimizer.device";
    if (config->zero.param.device == ZR_HOME_NVME) return ZERO "offload_param.device";
    return config->recompute.offload == ZR_OFFLOAD_DISK ? "activation_checkpointing.offload" : NULL;
}

/* Check the folders of an offload to disk. */
static zr_status check_folders(const zr_config *config, const zr__source *source)
{
    static const char *const key[2] = {ZERO "offload_optimizer.nvme_path", ZERO "offload_param.nvme_path"};
    const char *const folders[2] = {config->zero.optim.folders, config->zero.param.folders};
    const char *on_disk = key_on_disk(config);
    const bool optim = config->zero.optim.device == ZR_HOME_NVME, param = config->zero.param.device == ZR_HOME_NVME,
               checkpoints = config->recompute.offload == ZR_OFFLOAD_DISK;
    REFUSE(on_disk && !folders[0] && !folders[1], on_disk, ZR_ERR_CONFIG,
           "%s needs a folder on a fast local disk; give its path as %s, or write \"none\"",
           optim || param ? "nvme" : "disk", key[param && !optim]);
    REFUSE(((optim && param) || checkpoints) && folders[0] && folders[1] && strcmp(folders[0], folders[1]) != 0, key[1],
           ZR_ERR_UNSUPPORTED,
           "it differs from nvme_path of offload_optimizer, but all %s of a rank are in the same files; give the same "
           "path in both sections (a list of folders stripes over several disks)",
           optim && param ? "states" : "bytes");
    return ZR_OK;
}

/* Refuse an offload that contradicts other keys. */
static zr_status check_offload(const zr_config *config, const zr__source *source)
{
    const char *param = ZERO "offload_param.device";
    ZR_TRY(check_folders(config, source));
    REFUSE(config->aio.block_bytes % 4096 != 0, "aio.block_size", ZR_ERR_CONFIG,
           "%" PRId64 " is not a multiple of 4096, the block of a disk; use %" PRId64, config->aio.block_bytes,
           config->aio.block_bytes / 4096 * 4096 + 4096);
    if (config->zero.param.device == ZR_HOME_NONE) return ZR_OK;
    /* below stage 3 an offload of parameters has no effect, and resolve.c adds a note */
    if (config->zero.stage < 3 && zr__config_given(config, ZERO "stage")) return ZR_OK;
    REFUSE(config->zero.hpz_partition_ranks > 1, param, ZR_ERR_UNSUPPORTED,
           "it cannot be used with zero_hpz_partition_size %" PRId64
           ", which keeps a second copy of the parameters on the device; leave out one of the two",
           config->zero.hpz_partition_ranks);
    return ZR_OK;
}

static zr_status check_model(const zr_config *config, const zr__source *source)
{
    const int64_t positions = zr_config_sizes(config).positions;
    int64_t value, multiple;
    char path[128];
    REFUSE(config->model.preset && config->model.init, "model.preset", ZR_ERR_CONFIG,
           "it cannot be given together with model.init, since each sets all sizes; leave out one of the two");
    ZR_TRY(check_lora(config, source));
    const zr_field *field = zr__config_undivided(config, &value, &multiple);
    if (field) {
        snprintf(path, sizeof(path), ZR_MODEL_SECTION "%s", field->key);
        return fail_key(source, path, ZR_ERR_CONFIG, "%" PRId64 " does not divide %s %" PRId64, value, field->divides,
                        multiple);
    }
    REFUSE(positions && config->data.seq_length > positions, "data.seq_length", ZR_ERR_CONFIG,
           "%" PRId64 " is longer than %s %" PRId64 "; give at most that", config->data.seq_length,
           zr__config_key_of(config, "positions"), positions);
    return ZR_OK;
}

/* Kinds of samples (zr_samples) as bits, for sets of kinds. */
enum {
    NEXT = 1 << ZR_SAMPLES_NEXT,
    PAIRS = 1 << ZR_SAMPLES_PAIRS,
    LABELS = 1 << ZR_SAMPLES_LABELS,
    ANSWERS = 1 << ZR_SAMPLES_ANSWERS,
    MASKED = 1 << ZR_SAMPLES_MASKED,
    TAGS = 1 << ZR_SAMPLES_TAGS
};

const char *zr__config_foreign_key(const zr_config *config, unsigned samples, char why[ZR__FOREIGN_BYTES])
{
    static const struct {
        const char *path;
        unsigned samples;  /* set of the kinds of samples that use the key */
        const char *owner; /* models that use the key */
    } keys[] = {{"data.packing", NEXT, "decoders"},
                {"data.chat_template", NEXT, "decoders"},
                {"data.chat_date", NEXT, "decoders"},
                {"data.chat_template_kwargs", NEXT, "decoders"},
                {"data.columns", NEXT, "decoders"},
                {"data.text_key", NEXT, "decoders"},
                {"data.loss_on", NEXT, "decoders"},
                {"data.token_bytes", NEXT, "decoders"},
                {"data.format", NEXT | PAIRS | MASKED, "decoders"},
                {"train.sample_tokens", NEXT, "decoders"},
                {"data.bad_lines", NEXT | LABELS, "decoders"},
                {"data.max_samples", (unsigned)~NEXT, "encoders"},
                {"data.max_predictions", PAIRS | MASKED, "encoders"},
                {"data.masked_lm_prob", PAIRS | MASKED, "encoders"},
                {"data.short_seq_prob", PAIRS | MASKED, "encoders"},
                {"data.whole_words", PAIRS | MASKED, "encoders"},
                {"data.doc_stride", ANSWERS, "encoders"},
                {"data.max_query_length", ANSWERS, "encoders"},
                {ZR_MODEL_SECTION "label_names", LABELS | TAGS, "encoders"},
                {ZR_MODEL_SECTION "num_labels", LABELS | TAGS, "encoders"},
                {ZR_MODEL_SECTION "classifier_dropout", LABELS | TAGS, "encoders"}};
    const zr_family *family = config->model.family;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const zr_key *key = zr__key_find(zr__keys_of(config), keys[i].path);
        if (keys[i].samples & samples || !key || zr__value_is_standard(config, key)) continue;
        /* In a family without tasks, a key of this name has another meaning. A value that is not given came from
         * model.init. */
        if (key->field && (!family->task || !zr__origin_of(config, key)->given)) continue;
        const bool encoder = samples != NEXT, task = encoder && keys[i].samples != NEXT;
        if (task)
            snprintf(why, ZR__FOREIGN_BYTES, "it is for another model.task; leave it out");
        else
            snprintf(why, ZR__FOREIGN_BYTES, "it is for %s, but model.type %s is %s; leave it out", keys[i].owner,
                     family->name, encoder ? "an encoder" : "a decoder");
        return keys[i].path;
    }
    return NULL;
}

/* Return the set of kinds of samples that the model may have. Without model.task, the directory model.init determines
 * the kind. */
static unsigned possible_samples(const zr_config *config)
{
    const zr_family *family = config->model.family;
    const zr_key *task = family->task ? zr__key_find(zr__keys_of(config), zr__config_key_of(config, "task")) : NULL;
    unsigned all = 1U << zr__config_samples(config);
    if (!task || zr__origin_of(config, task)->given || !config->model.init) return all;
    for (const zr_family_task *further = family->task; further->architecture; further++) all |= 1U << further->samples;
    return all;
}

/* Refuse a key that the model's kind of samples does not use, unless it has its default value. */
static zr_status check_samples(const zr_config *config, const zr__source *source)
{
    char why[ZR__FOREIGN_BYTES];
    const char *path = zr__config_foreign_key(config, possible_samples(config), why);
    REFUSE(path, path, ZR_ERR_CONFIG, "%s", why);
    REFUSE(config->data.masked_lm_prob == 0, "data.masked_lm_prob", ZR_ERR_CONFIG, "found 0, wanted above 0");
    return ZR_OK;
}

/* Refuse sampling weights in data.val, because an evaluation reads all of its data. Also refuse tokens of 3 bytes. */
static zr_status check_data(const zr_config *config, const zr__source *source)
{
    json_auto_t *val = config->data.val ? zr__shards_list(config->data.val) : NULL;
    REFUSE(json_is_object(json_array_get(val, 0)), "data.val", ZR_ERR_CONFIG,
           "evaluation data cannot have weights; write a path or a list of paths");
    REFUSE(config->data.token_bytes == 3, "data.token_bytes", ZR_ERR_CONFIG,
           "found 3, wanted 2 (uint16) or 4 (uint32)");
    return check_samples(config, source);
}

zr_status zr__config_check(const zr_config *config, const zr__source *source)
{
    ZR_TRY(check_rules(config, source));
    ZR_TRY(check_number_types(config, source));
    ZR_TRY(check_loss_scale(config, source));
    ZR_TRY(check_schedule_keys(config, source));
    ZR_TRY(check_pipeline(config, source));
    ZR_TRY(check_offload(config, source));
    ZR_TRY(check_model(config, source));
    ZR_TRY(check_data(config, source));
    const char *advice, *path = zr__config_needy(config, &advice);
    REFUSE(path, path, ZR_ERR_CONFIG, "it has no effect alone; %s, or leave it out", advice);
    ZR_CHECK(!config->state->lacks_memory, ZR_ERR_MEMORY, "out of memory for the values of the configuration");
    return ZR_OK;
}
