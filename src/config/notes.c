/* Adds notes about an accepted file: which keys have no effect, and which values were chosen for "auto". */
#include "config/internal.h"
#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 400, MOST_NAMES = 8 };

/* ---- keys without a meaning ------------------------------------------------------------------- */

static size_t section_bytes(const char *path)
{
    return strcspn(path, ".");
}

static bool in_one_section(const char *a, const char *b)
{
    size_t n = section_bytes(a);
    return a[n] && n == section_bytes(b) && strncmp(a, b, n) == 0;
}

static const zr_key *key_at(const zr_config *config, const char *path)
{
    char own[128];
    return zr__key_find(zr__keys_of(config), zr__key_own_name(path, own, sizeof(own)));
}

/* Return whether no key of the section of `path` has an effect. */
static bool is_idle_section(const zr_config *config, const char *path)
{
    for (const zr_key *key = zr__keys_of(config); key->path; key++)
        if (in_one_section(key->path, path) && key->state != ZR_KEY_NO_MEANING) return false;
    return true;
}

/* Add one note on all unused keys in the section of `first`. Do nothing if an earlier key is in this section, because
 * its note covers the whole section. */
static zr_status note_unused_section(zr_config *config, const zr__string *first)
{
    char names[LINE_BYTES];
    int n = 0, used = 0;
    bool alike = true, whole = true; /* whether all have the same reason; whether all match a key such as "aio.*" */
    const char *path = first->text, *help = key_at(config, path)->help;
    const int section = (int)section_bytes(path);
    for (const zr__string *v = config->state->unused; v != first; v = v->next)
        if (in_one_section(v->text, path)) return ZR_OK;
    for (const zr__string *v = first; v; v = v->next) {
        if (v != first && !in_one_section(v->text, path)) continue;
        if (n++ < MOST_NAMES && used < LINE_BYTES)
            used += snprintf(names + used, (size_t)(LINE_BYTES - used), "%s%s", n > 1 ? ", " : "",
                             zr__key_in_section(v->text));
        const zr_key *key = key_at(config, v->text);
        alike &= strcmp(key->help, help) == 0;
        whole &= key->path[strlen(key->path) - 1] == '*';
    }
    if (n == 1) return zr__config_note(config, "%s has no effect in zr: %s", path, help);
    if (alike && (whole || is_idle_section(config, path)))
        return zr__config_note(config, "%.*s has no effect in zr: %s", section, path, help);
    return zr__config_note(config, "%.*s: these keys have no effect in zr (%s): %s%s", section, path,
                           alike ? help : "docs/config.md says why", names, n > MOST_NAMES ? " ..." : "");
}

/* ---- "auto" ----------------------------------------------------------------------------------- */

/* Find the value that Hugging Face's Trainer would put in place of "auto". Write its origin in words, such as "the
 * learning rate", to `from`. Return false if Trainer does not replace the "auto" of this key. */
static bool trainers_value(const zr_config *config, const zr_key *key, double *value, char from[LINE_BYTES])
{
    static const char zero[] = "zero_optimization.";
    const double h = (double)zr_config_sizes(config).width;
    const char *width = zr__config_key_of(config, "width") + strlen(ZR_MODEL_SECTION);
    const char *name = strncmp(key->path, zero, strlen(zero)) == 0 ? key->path + strlen(zero) : key->path;
    const struct {
        const char *name, *begin, *from, *end;
        double value;
    } values[] = {{"reduce_bucket_size", "", width, NULL, h * h},
                  {"stage3_prefetch_bucket_size", "0.9 x ", width, NULL, (double)(int64_t)(0.9 * h * h)},
                  {"stage3_param_persistence_threshold", "10 x ", width, "", 10 * h},
                  {"scheduler.params.total_num_steps", "the steps of the run", "", "", (double)config->train.steps},
                  {"scheduler.params.warmup_max_lr", "the learning rate", "", "", config->optimizer.lr},
                  {"gradient_clipping", "its max_grad_norm when not given", "", "", 1}};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        if (strcmp(name, values[i].name) != 0) continue;
        *value = values[i].value;
        snprintf(from, LINE_BYTES, "%s%s%s%s", values[i].begin, values[i].from, values[i].end ? "" : " x ",
                 values[i].end ? "" : values[i].from);
        return true;
    }
    return false;
}

static size_t parent_bytes(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? (size_t)(dot - path) : 0;
}

static bool in_one_parent(const char *a, const char *b)
{
    size_t n = parent_bytes(a);
    return n > 0 && n == parent_bytes(b) && strncmp(a, b, n) == 0;
}

/* Return whether zr__train_choose will choose the key's value and report it. */
static bool is_open_key(const zr_config *config, const zr_key *key)
{
    const zr__config_open open = zr__config_get_open(config);
    const bool rows = strcmp(key->path, "train_micro_batch_size_per_gpu") == 0,
               accum = strcmp(key->path, "gradient_accumulation_steps") == 0,
               all = strcmp(key->path, "train_batch_size") == 0;
    return (open.stage && strcmp(key->path, "zero_optimization.stage") == 0) || (open.split && (rows || accum)) ||
           (open.batch && (rows || all)) ||
           (open.offload && strcmp(key->path, "zero_optimization.offload_optimizer.device") == 0) ||
           (open.optim_ratio && strcmp(key->path, "zero_optimization.offload_optimizer.ratio") == 0) ||
           (open.param_ratio && strcmp(key->path, "zero_optimization.offload_param.ratio") == 0) ||
           (open.weights && strcmp(key->path, "zero_optimization.zero_quantized_weights") == 0) ||
           (open.gradients && strcmp(key->path, "zero_optimization.zero_quantized_gradients") == 0) ||
           (open.order && strcmp(key->path, "train.accumulation_order") == 0);
}

/* Return whether the value chosen for the key's "auto" is reported in one line with other keys of its section. */
static bool is_plain_auto(const zr_config *config, const zr_key *key)
{
    double value;
    char text[64], from[LINE_BYTES];
    return zr__origin_of(config, key)->automatic && !is_open_key(config, key) && zr__key_is_read(config, key) &&
           !trainers_value(config, key, &value, from) && zr__value_text(config, key, text, sizeof(text));
}

/* Add one note on all keys in the section of `first` that satisfy is_plain_auto. Do nothing if an earlier key of the
 * section satisfies it, because that key's note covers the section. */
static zr_status note_plain_autos(zr_config *config, const zr_key *first)
{
    int members = 0, used = 0;
    char line[LINE_BYTES], text[64];
    const char *path = zr__key_shown(config, first);
    for (const zr_key *key = zr__keys_of(config); key->path; key++) {
        const char *name = zr__key_shown(config, key);
        if (!in_one_parent(name, path) || !is_plain_auto(config, key)) continue;
        if (key < first) return ZR_OK;
        zr__value_text(config, key, text, sizeof(text));
        if (used < LINE_BYTES)
            used += snprintf(line + used, (size_t)(LINE_BYTES - used), "%s%s %s", members++ ? ", " : "",
                             name + parent_bytes(name) + 1, text);
    }
    zr__value_text(config, first, text, sizeof(text));
    if (members == 1) return zr__config_note(config, "%s: auto, set to %s", path, text);
    return zr__config_note(config, "%.*s: auto, set to %s", (int)parent_bytes(path), path, line);
}

static zr_status note_autos(zr_config *config)
{
    for (const zr_key *key = zr__keys_of(config); key->path; key++) {
        char text[64], from[LINE_BYTES];
        double value;
        if (!zr__origin_of(config, key)->automatic || !zr__key_is_read(config, key) || is_open_key(config, key))
            continue;
        if (!zr__value_text(config, key, text, sizeof(text))) continue;
        const char *path = zr__key_shown(config, key);
        const bool trainers = trainers_value(config, key, &value, from);
        if (trainers && strtod(text, NULL) == value)
            ZR_TRY(
                zr__config_note(config, "%s: auto, set to %s, as Hugging Face's Trainer does (%s)", path, text, from));
        else if (trainers)
            ZR_TRY(zr__config_note(config,
                                   "%s: auto, set to %s; Hugging Face's Trainer uses %s (%s), which --%s=%s sets", path,
                                   text, ZR_SHORTEST(value), from, path, ZR_SHORTEST(value)));
        else if (parent_bytes(path) == 0)
            ZR_TRY(zr__config_note(config, "%s: auto, set to %s", path, text));
        else
            ZR_TRY(note_plain_autos(config, key));
    }
    return ZR_OK;
}

/* Add notes on given keys of activation checkpointing that have no effect, because nothing is recomputed or there are
 * no tensor-parallel ranks. (In DeepSpeed, the model's code decides whether to checkpoint.) */
static zr_status note_checkpointing(zr_config *config)
{
    static const char section[] = "activation_checkpointing";
    const bool host = config->recompute.cpu || config->recompute.offload == ZR_OFFLOAD_HOST;
    const bool disk = config->recompute.offload == ZR_OFFLOAD_DISK;
    const bool any = config->recompute.partition || host || disk ||
                     zr__config_given(config, "activation_checkpointing.number_checkpoints");
    const bool keeps = config->recompute.policy == ZR_RECOMPUTE_KEEP;
    if ((keeps || config->recompute.policy == ZR_RECOMPUTE_NONE) && any)
        return zr__config_note(config,
                               "%s: nothing is checkpointed%s, because policy is %s; --%s.policy=unit keeps the "
                               "input of each block and recomputes the rest",
                               section,
                               host   ? ", and nothing kept on the host"
                               : disk ? ", and nothing kept on disk"
                                      : "",
                               keeps ? "keep" : "none", section);
    if (config->recompute.partition && config->parallel.tensor == 1)
        return zr__config_note(config,
                               "%s.partition_activations has no effect: with parallel.tensor 1 there are no ranks to "
                               "divide checkpoints among",
                               section);
    return ZR_OK;
}

zr_status zr__config_note_all(zr_config *config)
{
    const bool narrow = config->bf16 || config->fp16, frozen = config->model.frozen || config->model.lora.rank > 0;
    for (const zr__string *u = config->state->unused; u; u = u->next) ZR_TRY(note_unused_section(config, u));
    ZR_TRY(note_autos(config));
    ZR_TRY(note_checkpointing(config));
    ZR_TRY(zr__config_note_needs(config));
    if (zr__config_get_open(config).offload || config->zero.param.device == ZR_HOME_NONE || !narrow || frozen ||
        config->memory.layout != ZR_LAYOUT_LEAN)
        return ZR_OK;
    return zr__config_note(config, "zero_optimization.offload_param has no effect with memory.layout lean in 16 bits: "
                                   "parameters are cast from the fp32 masters, which offload_optimizer places");
}
