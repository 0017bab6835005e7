/* Holds the default training recipe, which `zr init` writes and `zr train` uses for a preset. Betas, weight decay,
 * clipping and schedule (a warm-up, then a cosine down to a tenth) are from appendix B of Brown et al. 2020 (GPT-3).
 * The learning rates by model size are from table 2.1 of the same paper, unless the preset has its own. A run that
 * starts from weights uses the learning rate of Llama 2's fine-tuning (Touvron et al. 2023, section 3.1). */
#include "config/internal.h"
#include "config/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The recipe of `zr init`, with the learning rate of a small model and a warm-up for the default train.steps. */
static const struct {
    const char *path, *value;
} recipe[] = {
    {"gradient_clipping", "1.0"},
    {"optimizer.type", "\"AdamW\""},
    {"optimizer.params.lr", "1e-3"},
    {"optimizer.params.betas", "[0.9, 0.95]"},
    {"optimizer.params.weight_decay", "0.1"},
    {"scheduler.type", "\"WarmupCosineLR\""},
    {"scheduler.params.warmup_num_steps", "50"},
    {"scheduler.params.cos_min_ratio", "0.1"},
};
enum { KEYS = sizeof(recipe) / sizeof(recipe[0]) };

static const struct {
    double params;
    const char *lr;
} rates[] = {{125e6, "6e-4"},   {350e6, "3e-4"},   {760e6, "2.5e-4"}, {1.3e9, "2e-4"},
             {2.7e9, "1.6e-4"}, {6.7e9, "1.2e-4"}, {13e9, "1e-4"},    {175e9, "0.6e-4"}};
enum { RATES = sizeof(rates) / sizeof(rates[0]), WARMUP_PART = 20 };
#define FINE_TUNING_RATE "2e-5"

const char *zr__recipe_value(const char *path)
{
    for (int i = 0; i < KEYS; i++)
        if (strcmp(recipe[i].path, path) == 0) return recipe[i].value;
    return NULL;
}

void zr__config_take_recipe(zr_config *config)
{
    config->state->recipe = true;
}

static const zr_preset *preset_called(const char *name)
{
    const zr_preset *preset;
    const zr_family *family;
    for (int i = 0; (preset = zr_family_preset(i, &family)); i++)
        if (strcmp(preset->name, name) == 0) return preset;
    return NULL;
}

/* Return the learning rate of the model in `rates` whose number of parameters is nearest to this model's. Numbers are
 * compared by their ratio. */
static const char *rate_of_size(zr_model_sizes s)
{
    const double width = (double)s.width;
    const double params = 12 * (double)s.layers * width * width + (double)(s.vocabulary + s.positions) * width;
    int best = 0;
    for (int i = 1; i < RATES; i++)
        if (fabs(log(params / rates[i].params)) < fabs(log(params / rates[best].params))) best = i;
    return rates[best].lr;
}

const char *zr__recipe_lr(const char *preset, zr_model_sizes sizes)
{
    const zr_preset *named = preset_called(preset);
    return named && named->lr ? named->lr : rate_of_size(sizes);
}

static bool has_origin(const zr_config *config, const zr_key *key)
{
    return zr__origin_of(config, key)->given || zr__origin_of(config, key)->automatic;
}

/* Return whether a key belongs to the optimizer or the scheduler. */
static bool is_rule(const zr_key *key)
{
    return strncmp(key->path, "optimizer.", 10) == 0 || strncmp(key->path, "scheduler.", 10) == 0;
}

static bool has_rule(const zr_config *config)
{
    const zr__keys *keys = zr__keys_of(config);
    for (const zr_key *key = keys->key; key < zr__keys_end(keys); key++)
        if (is_rule(key) && has_origin(config, key)) return true;
    return false;
}

zr_status zr__config_keep_rule(zr_config *config, const zr_config *run)
{
    const zr__keys *keys = zr__keys_of(config);
    if (has_rule(config) || !has_rule(run)) return ZR_OK;
    for (const zr_key *key = keys->key; key < zr__keys_end(keys); key++) {
        const zr_key *its = zr__key_find(zr__keys_of(run), key->path);
        const bool wanted = is_rule(key) || strcmp(key->path, "gradient_clipping") == 0;
        if (!wanted || has_origin(config, key) || !its || !has_origin(run, its)) continue;
        json_t *value = zr__value_get(run, its);
        const zr__source source = {0};
        zr__key_place place;
        ZR_CHECK(value, ZR_ERR_MEMORY, "out of memory for the value of %s", key->path);
        const zr_status st = zr__value_set(config, key, value, &source, zr__key_place_of(key->path, &place));
        json_decref(value);
        ZR_TRY(st);
        zr__origin_of(config, key)->given = true;
    }
    return zr__config_note(config,
                           "optimizer, scheduler: not given, so the recipe for %s, with which the run began, is kept",
                           run->state->name);
}

zr_status zr__config_recipe(zr_config *config)
{
    char warmup[24];
    const zr__keys *keys = zr__keys_of(config);
    const bool tunes = config->model.init;
    if (!config->state->recipe || (!tunes && !config->model.preset) || has_rule(config)) return ZR_OK;
    const char *lr = tunes ? FINE_TUNING_RATE : zr__recipe_lr(config->model.preset, zr_config_sizes(config));
    snprintf(warmup, sizeof(warmup), "%lld", (long long)(config->train.steps + WARMUP_PART - 1) / WARMUP_PART);
    for (int i = 0; i < KEYS; i++) {
        const char *path = recipe[i].path, *value = recipe[i].value;
        if (strcmp(path, "optimizer.params.lr") == 0) value = lr;
        if (strcmp(path, "scheduler.params.warmup_num_steps") == 0) value = warmup;
        if (!has_origin(config, zr__key_find(keys, path))) ZR_TRY(zr_config_set(config, path, value));
    }
    return zr__config_note(
        config,
        "%s %s: neither optimizer nor scheduler is given, so the training recipe for %s is used: "
        "AdamW, betas 0.9 and 0.95, weight decay 0.1, lr %s after %s warm-up step%s, cosine decay to a tenth, "
        "gradient_clipping %g; setting any key of optimizer or scheduler replaces the whole recipe",
        tunes ? "model.init" : "model.preset", tunes ? config->model.init : config->model.preset,
        tunes ? "fine-tuning" : "this size", lr, warmup, strcmp(warmup, "1") == 0 ? "" : "s",
        config->gradient_clipping);
}
