/* Holds the default training recipe, which `zr init` writes and `zr train` uses for a preset. Betas, weight decay,
 * clipping and schedule (a warm-up, then a cosine down to a tenth) are from appendix B of Brown et al. 2020 (GPT-3).
 * The learning rates by model size are from table 2.1 of the same paper, unless the preset has its own. A run that
 * starts from weights uses the learning rate of Llama 2's fine-tuning (Touvron et al. 2023, section 3.1). All this is
 * for AdamW. Lion has its own betas, a third of the learning rate, and three times the weight decay: Chen et al.
 * 2023 (section 5) found factors of 3 to 10, and short runs of small models need the least. */
#include "config/internal.h"
#include "config/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The recipe of `zr init`, with the learning rate of a small model and a warm-up for the default train.steps. NULL
 * stands for the value of optimizer.params.lr: these keys are the highest learning rate of other values of
 * scheduler.type. */
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
    {"scheduler.params.warmup_type", "\"linear_from_1\""},
    {"scheduler.params.warmup_max_lr", NULL},
    {"scheduler.params.cycle_max_lr", NULL},
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

static bool is_scheduler(const char *path)
{
    return strncmp(path, "scheduler.", 10) == 0;
}

/* Return whether a recipe or a resumed run sets the keys of a section that are not given. It does not if the file gives
 * the section a type. It does not set the scheduler either if the file gives a type of optimizer and no key of the
 * scheduler: the learning rate is then constant. gradient_clipping counts as a key of the optimizer. */
static bool is_open(const zr_config *config, const char *path)
{
    bool any = !config->state->writes_optimizer;
    if (!is_scheduler(path)) return any;
    for (const zr_key *key = zr__keys_of(config); key->path && !any; key++)
        any = is_scheduler(key->path) && has_origin(config, key);
    return any && !config->state->writes_scheduler;
}

zr_status zr__config_keep_rule(zr_config *config, const zr_config *run)
{
    bool kept = false;
    for (const zr_key *key = zr__keys_of(config); key->path; key++) {
        const zr_key *its = zr__key_find(zr__keys_of(run), key->path);
        const bool wanted = is_scheduler(key->path) || strncmp(key->path, "optimizer.", 10) == 0 ||
                            strcmp(key->path, "gradient_clipping") == 0;
        if (!wanted || has_origin(config, key) || !its || !has_origin(run, its)) continue;
        /* a type stands before its parameters, so the type is known here */
        if (!is_open(config, key->path) || !zr__key_is_read(config, key)) continue;
        json_auto_t *value = zr__value_get(run, its);
        const zr__source source = {0};
        zr__key_place place;
        ZR_CHECK(value, ZR_ERR_MEMORY, "out of memory for the value of %s", key->path);
        ZR_TRY(zr__value_set(config, key, value, &source, zr__key_place_of(key->path, &place)));
        zr__origin_of(config, key)->given = kept = true;
    }
    if (!kept) return ZR_OK;
    return zr__config_note(config,
                           "optimizer, scheduler: keys that are not given are kept from %s, with which the run began",
                           run->state->name);
}

/* Return the JSON text of a row's value for this configuration. `room` is memory for the text. */
static const char *value_for(const zr_config *config, int row, char room[ZR_NUMBER_BYTES])
{
    const char *path = recipe[row].path;
    if (!recipe[row].value) return zr__text_shortest(config->optimizer.lr, room);
    if (strcmp(path, "optimizer.params.lr") == 0 && config->model.init) return FINE_TUNING_RATE;
    if (strcmp(path, "optimizer.params.lr") == 0 && config->model.preset)
        return zr__recipe_lr(config->model.preset, zr_config_sizes(config));
    if (strcmp(path, "scheduler.params.warmup_num_steps") != 0) return recipe[row].value;
    return zr__text_shortest((double)((config->train.steps + WARMUP_PART - 1) / WARMUP_PART), room);
}

/* Return Lion's value of a parameter for which AdamW has `value`, or NULL if its default stands. */
static const char *for_lion(const char *path, const char *value, char room[ZR_NUMBER_BYTES])
{
    const bool rate = strcmp(path, "optimizer.params.lr") == 0;
    if (strcmp(path, "optimizer.params.betas") == 0) return NULL;
    if (!rate && strcmp(path, "optimizer.params.weight_decay") != 0) return value;
    snprintf(room, ZR_NUMBER_BYTES, "%.9g", strtod(value, NULL) * (rate ? 1.0 / 3 : 3));
    return room;
}

/* Add a key's value to a list. Of a parameter add only the last part of its path. */
static void add_value(zr__text *list, const char *path, const char *value)
{
    const char *params = strstr(path, ".params.");
    const int quoted = *value == '"';
    zr__text_add(list, "%s%s %.*s", list->length ? ", " : "", params ? params + strlen(".params.") : path,
                 (int)strlen(value) - 2 * quoted, value + quoted);
}

zr_status zr__config_recipe(zr_config *config)
{
    char room[ZR_NUMBER_BYTES];
    ZR_AUTO(zr__text_clear) zr__text added = {0};
    const bool tunes = config->model.init, any = tunes || config->model.preset;
    if (!config->state->recipe) return ZR_OK;
    for (int i = 0; i < KEYS; i++) {
        const zr_key *key = zr__key_find(zr__keys_of(config), recipe[i].path);
        const zr__origin had = *zr__origin_of(config, key);
        if (had.given || !zr__key_is_read(config, key)) continue;
        if (!had.automatic && !(any && is_open(config, key->path))) continue;
        const char *value = value_for(config, i, room);
        if (config->optimizer.type == ZR_OPTIMIZER_LION) value = for_lion(key->path, value, room);
        if (!value) continue;
        ZR_TRY(zr_config_set(config, key->path, value));
        if (had.automatic)
            *zr__origin_of(config, key) = had;
        else
            add_value(&added, key->path, value);
    }
    ZR_CHECK(!added.failed, ZR_ERR_MEMORY, "out of memory for a notice");
    if (added.length)
        ZR_TRY(zr__config_note(config,
                               "%s %s: the training recipe for %s sets what is not given: %s; an optimizer or "
                               "scheduler that a file gives with a type stands as written",
                               tunes ? "model.init" : "model.preset", tunes ? config->model.init : config->model.preset,
                               tunes ? "fine-tuning" : "this size", added.data));
    return ZR_OK;
}
