/* Finds given keys without effect, because another key is missing or has another value. A key is refused if the user
 * surely meant it to have an effect; otherwise a note names it. */
#include "config/internal.h"
#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ZERO "zero_optimization."
#define STATES ZERO "offload_optimizer.device!=none|" ZERO "offload_param.device!=none"
#define DISK                                                                                                           \
    ZERO "offload_optimizer.device=nvme|" ZERO "offload_param.device=nvme|activation_checkpointing.offload=disk"
#define ADAPTERS "model.lora.rank|model.lora.init", "give model.lora.rank or model.lora.init too", true
#define SPARE "|data.train=null" /* another part of `on`: a plan without data */

/* A key has an effect if any part of `on` holds. Parts are separated by |. The part KEY holds unless the value is 0,
 * false, null or "none". KEY=A,B holds if the value is in the list, and KEY!=A,B if it is not. */
typedef struct requirement {
    const char *key, *on;
    const char *why; /* reason in the note, or advice in the refusal; if NULL, made from the first part of `on` */
    bool fails;      /* whether the key is refused; with its default value a note names it instead */
} requirement;

static const requirement needs[] = {
    {"model.lora.alpha", ADAPTERS},
    {"model.lora.targets", ADAPTERS},
    {"model.lora.dropout", ADAPTERS},
    {"train.sample_prompt", "train.sample_tokens", NULL, false},
    {"model.num_labels", "model.task=sequence_classification,token_classification", NULL, false},
    {"data.val", "train.eval_interval|train.keep_best", NULL, false},
    {"train.eval_interval", "data.val|train.sample_tokens|train.eval_interval=0" SPARE, "there is no data.val", false},
    {"train.early_stopping_threshold", "train.early_stopping_patience", "give train.early_stopping_patience too", true},
    {"train.eval_batches", "data.val" SPARE, "there is no data.val", false},
    {"train.eval_batches", "train.eval_interval", NULL, false},
    {"parallel.sequence", "parallel.tensor!=1", "with parallel.tensor 1 there are no ranks to divide tokens among",
     false},
    {"parallel.schedule", "parallel.pipeline!=1", "with parallel.pipeline 1 all layers are on one rank", false},
    {"parallel.schedule", "parallel.schedule_file=null", "parallel.schedule_file is given", false},
    {"parallel.schedule_file", "parallel.pipeline!=1", "with parallel.pipeline 1 all layers are on one rank", false},
    {"parallel.pipeline_units", "parallel.pipeline!=1", "with parallel.pipeline 1 all layers are on one rank", false},
    {"parallel.tied_apart", "parallel.pipeline!=1", "with parallel.pipeline 1 all layers are on one rank", false},
    {"parallel.chunks", "parallel.pipeline!=1", "with parallel.pipeline 1 all layers are on one rank", false},
    {"fp16.initial_scale_power", "fp16.loss_scale=0", "fp16.loss_scale makes the loss scale constant", false},
    {"fp16.loss_scale_window", "fp16.loss_scale=0", "fp16.loss_scale makes the loss scale constant", false},
    {"fp16.hysteresis", "fp16.loss_scale=0", "fp16.loss_scale makes the loss scale constant", false},
    {"fp16.consecutive_hysteresis", "fp16.loss_scale=0", "fp16.loss_scale makes the loss scale constant", false},
    {"fp16.min_loss_scale", "fp16.loss_scale=0", "fp16.loss_scale makes the loss scale constant", false},
    {"scheduler.params.decay_lr_rate", "scheduler.params.decay_step_size", NULL, false},
    {"scheduler.params.decay_step_size", "scheduler.params.decay_lr_rate", "scheduler.params.decay_lr_rate is 0",
     false},
    {ZERO "allgather_bucket_size", ZERO "stage!=0", NULL, false},
    {ZERO "stage3_prefetch_bucket_size", ZERO "stage=3", NULL, false},
    {ZERO "stage3_prefetch_bucket_size", ZERO "overlap_comm|" ZERO "stage!=3", NULL, false},
    {ZERO "stage3_param_persistence_threshold", ZERO "stage=3", NULL, false},
    {ZERO "stage3_model_persistence_threshold", ZERO "stage=3", NULL, false},
    {ZERO "stage3_model_persistence_threshold", ZERO "stage3_param_persistence_threshold|" ZERO "stage!=3", NULL,
     false},
    {ZERO "stage3_max_live_parameters", ZERO "stage=3", NULL, false},
    {ZERO "stage3_max_reuse_distance", ZERO "stage=3", NULL, false},
    {ZERO "offload_optimizer.ratio", ZERO "offload_optimizer.device", NULL, false},
    {ZERO "offload_optimizer.gradients", ZERO "offload_optimizer.device", NULL, false},
    {ZERO "offload_optimizer.buffer_count", ZERO "offload_optimizer.device", NULL, false},
    {ZERO "offload_optimizer.device", ZERO "offload_optimizer.ratio", "offload_optimizer.ratio is 0", false},
    {ZERO "offload_param.device", ZERO "offload_param.ratio", "offload_param.ratio is 0", false},
    {ZERO "offload_param.ratio", ZERO "stage=3", NULL, false},
    {ZERO "offload_param.ratio", ZERO "offload_param.device|" ZERO "stage!=3", NULL, false},
    {ZERO "sub_group_size", STATES, "no states are offloaded", false},
    {ZERO "offload_optimizer.nvme_path", DISK, "nothing is stored on disk", false},
    {ZERO "offload_param.nvme_path", DISK, "nothing is stored on disk", false},
    {"aio.block_size", DISK, "nothing is stored on disk", false},
    {"aio.queue_depth", DISK, "nothing is stored on disk", false},
    {"quantization.weights", ZERO "zero_quantized_weights|" ZERO "zero_quantized_nontrainable_weights", NULL, false},
    {"quantization.weight_differences", ZERO "zero_quantized_weights", NULL, false},
    {ZERO "zero_quantized_nontrainable_weights", ZERO "stage=3", NULL, false},
    {ZERO "zero_quantized_nontrainable_weights", "model.lora.rank|model.lora.init|model.frozen",
     "no parameters are frozen", false},
    {"quantization.gradients", ZERO "zero_quantized_gradients", NULL, false},
    {ZERO "zeropp_loco_param.reset_T", ZERO "zero_quantized_gradients", "give zero_quantized_gradients true too", true},
    {ZERO "zeropp_loco_param.err_beta", ZERO "zeropp_loco_param.reset_T", "give reset_T too, such as 1024", true},
    {"quantization.rounding", ZERO "zero_quantized_weights|" ZERO "zero_quantized_gradients", NULL, false},
    {"quantization.any_ranks", ZERO "zero_quantized_gradients", NULL, false},
    {"quantization.block",
     ZERO "zero_quantized_weights|" ZERO "zero_quantized_gradients|" ZERO "zero_quantized_nontrainable_weights", NULL,
     false},
    {"checkpoint.async", "train.save_interval|checkpoint.async=false", NULL, false},
};
enum { NEEDS = sizeof(needs) / sizeof(needs[0]) };

/* Return the key at the beginning of a part of `on`, and set *rest to what follows its path. */
static const zr_key *key_of_part(const zr_config *config, const char *part, const char **rest)
{
    char path[128];
    const size_t n = strcspn(part, "!=|");
    snprintf(path, sizeof(path), "%.*s", (int)n, part);
    *rest = part + n;
    return zr__key_find(zr__keys_of(config), path);
}

/* Return whether a later choice (zr__train_choose) may change the key's value. */
static bool is_undecided(const zr_config *config, const zr_key *key)
{
    const zr__config_open open = zr__config_get_open(config);
    return (open.stage && strcmp(key->path, ZERO "stage") == 0) ||
           (open.offload && strncmp(key->path, ZERO "offload_", strlen(ZERO "offload_")) == 0);
}

/* Return whether a value is one of the words. A list or an object never is. */
static bool is_listed(const json_t *value, const char *words)
{
    for (size_t n; *words && *words != '|'; words += n + (words[n] == ',')) {
        n = strcspn(words, ",|");
        const char *text = json_string_value(value);
        if (json_is_number(value)    ? strtod(words, NULL) == json_number_value(value)
            : json_is_null(value)    ? strncmp(words, "null", n) == 0
            : json_is_boolean(value) ? strncmp(words, json_is_true(value) ? "true" : "false", n) == 0
                                     : text && strlen(text) == n && strncmp(words, text, n) == 0)
            return true;
    }
    return false;
}

/* Return whether the program gives the data of a key. */
static bool is_made(const zr_config *config, const zr_key *key)
{
    return (config->data.source && strcmp(key->path, "data.train") == 0) ||
           (config->data.val_source && strcmp(key->path, "data.val") == 0);
}

static bool holds(const zr_config *config, const char *part)
{
    const char *rest;
    const zr_key *key = key_of_part(config, part, &rest);
    if (!key || is_undecided(config, key)) return true; /* the model's family lacks the key */
    if (is_made(config, key)) return *rest != '=';
    json_auto_t *value = zr__value_get(config, key);
    const bool other = *rest == '!', off = json_is_null(value) || is_listed(value, "0,false,none");
    return *rest == '\0' || *rest == '|' ? !off : is_listed(value, rest + other + 1) != other;
}

/* Return whether a key is given and has no effect. A key with its default value counts only if an override gives it, or
 * if it can be refused and no key in `on` is given: the config.json that a run writes gives all keys. */
static bool is_idle(const zr_config *config, const requirement *r)
{
    const zr_key *key = zr__key_find(zr__keys_of(config), r->key);
    bool any = false;
    if (!key || !zr__key_is_read(config, key)) return false;
    const bool made = is_made(config, key);
    if (!made && !zr__origin_of(config, key)->given) return false;
    if (strcmp(r->key, "data.val") == 0 && zr__config_val_share(config) > 0) return false; /* it shortens data.train */
    for (const char *part = r->on, *rest = part; part; part = strchr(part, '|') ? strchr(part, '|') + 1 : NULL) {
        const zr_key *needed = key_of_part(config, part, &rest);
        if (holds(config, part)) return false;
        any |= zr__origin_of(config, needed)->given;
    }
    return made || zr__origin_of(config, key)->overridden || !zr__value_is_standard(config, key) || (r->fails && !any);
}

const char *zr__config_needy(const zr_config *config, const char **advice)
{
    for (const requirement *r = needs; r < needs + NEEDS; r++) {
        *advice = r->why;
        if (r->fails && is_idle(config, r) && !zr__value_is_standard(config, zr__key_find(zr__keys_of(config), r->key)))
            return r->key;
    }
    return NULL;
}

static size_t section_bytes(const char *path)
{
    return (size_t)(zr__key_in_section(path) - path);
}

static const char *reason(const zr_config *config, const requirement *r, char *out, size_t size)
{
    char value[64] = "";
    const char *rest, *path = r->on;
    if (r->why) return r->why;
    const zr_key *key = key_of_part(config, path, &rest);
    const size_t n = section_bytes(r->key);
    const bool same = n == section_bytes(path) && strncmp(path, r->key, n) == 0;
    zr__value_text(config, key, value, sizeof(value));
    const int quoted = value[0] == '"';
    path = zr__key_shown(config, key);
    snprintf(out, size, "%s is %.*s", same ? zr__key_in_section(path) : path, (int)strlen(value) - 2 * quoted,
             value + quoted);
    return out;
}

static const char *shown(const zr_config *config, const requirement *r)
{
    return zr__key_shown(config, zr__key_find(zr__keys_of(config), r->key));
}

zr_status zr__config_note_needs(zr_config *config)
{
    bool idle[NEEDS];
    char a[192], b[192];
    for (int i = 0; i < NEEDS; i++) idle[i] = is_idle(config, &needs[i]);
    for (int i = 0; i < NEEDS; i++) {
        if (!idle[i]) continue;
        int members = 0;
        ZR_AUTO(zr__text_clear) zr__text names = {0};
        const char *path = shown(config, &needs[i]), *why = reason(config, &needs[i], a, sizeof(a));
        const size_t section = section_bytes(path);
        for (int k = i; k < NEEDS; k++) {
            if (!idle[k] || section != section_bytes(needs[k].key) || strncmp(path, needs[k].key, section) != 0 ||
                strcmp(why, reason(config, &needs[k], b, sizeof(b))) != 0)
                continue;
            idle[k] = false;
            zr__text_add(&names, "%s%s", members++ ? ", " : "", zr__key_in_section(shown(config, &needs[k])));
        }
        ZR_CHECK(!names.failed, ZR_ERR_MEMORY, "out of memory for a notice");
        ZR_TRY(members == 1 ? zr__config_note(config, "%s has no effect: %s", path, why)
                            : zr__config_note(config, "%.*s: these keys have no effect: %s: %s", (int)section - 1, path,
                                              names.data, why));
    }
    return ZR_OK;
}
