/* Adapter directories of peft: adapter_config.json, and adapter_model.safetensors with the factors of LoRA. */
#include "base/file/folder.h"
#include "base/text/text.h"
#include "checkpoint/hf.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Members of adapter_config.json that zr reads, or that alone do not change the results of a loaded adapter. peft sets
 * fan_in_fan_out itself, by the type of the layer. It reads megatron_core, qalora_group_size and the configurations of
 * initializations only together with other members. Any member that is not listed must be null, false or empty. */
static const char *const known[] = {"peft_type",      "r",
                                    "lora_alpha",     "lora_dropout",
                                    "bias",           "init_lora_weights",
                                    "target_modules", "base_model_name_or_path",
                                    "task_type",      "inference_mode",
                                    "revision",       "auto_mapping",
                                    "peft_version",   "fan_in_fan_out",
                                    "megatron_core",  "qalora_group_size",
                                    "loftq_config",   "eva_config",
                                    "corda_config",   "lora_ga_config",
                                    "runtime_config"};

/* Initializations with which a loaded adapter computes W + alpha / r B A, where W is a weight of the base model.
 * "gaussian", in small or capital letters, is a further one (check_start). With any other initialization, peft changes
 * W when it loads the adapter, or the adapter belongs to a changed base. */
static const char *const plain[] = {"orthogonal", "eva"};

bool zr__adapter_is_in(const char *dir)
{
    return zr__path_is_in(dir, ZR_ADAPTER_CONFIG);
}

const char *zr__adapter_weights(const char *dir)
{
    return zr__path_is_in(dir, ZR_ADAPTER_SINGLE) ? ZR_ADAPTER_SINGLE : ZR_WEIGHTS_SINGLE;
}

void zr__adapter_clear(zr__adapter *adapter)
{
    zr_free(adapter->targets);
    *adapter = (zr__adapter){0};
}

/* ---- reading ----------------------------------------------------------------------------------- */

static bool is_nothing(const json_t *value)
{
    if (!value || json_is_null(value) || json_is_false(value)) return true;
    return (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

/* Return whether a list of n words contains `word`. */
static bool is_in(const char *const *list, size_t n, const char *word)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], word) == 0) return true;
    return false;
}
#define IS_IN(list, word) is_in(list, sizeof(list) / sizeof(*(list)), word)

/* Refuse an adapter that belongs to a changed base. For example, peft adds a PiSSA adapter to the base minus the
 * product of the initial factors. */
static zr_status check_start(const char *file, const json_t *start)
{
    const char *way = json_string_value(start);
    ZR_CHECK(
        !start || json_is_null(start) || json_is_boolean(start) ||
            (way && (IS_IN(plain, way) || strcasecmp(way, "gaussian") == 0)),
        ZR_ERR_DATA,
        "%s: init_lora_weights is %s; zr computes only true, false, \"gaussian\", \"orthogonal\" and \"eva\", which "
        "leave the base as it is. Save the adapter as a plain one with peft: save_pretrained(DIR, "
        "path_initial_model_for_weight_conversion=START), where START has the adapter before training; or merge "
        "it into its base: merge_and_unload().save_pretrained(DIR)",
        file, ZR_JSON_SHOWN(start));
    return ZR_OK;
}

/* Refuse an adapter that is not LoRA, or that uses a feature that zr lacks. */
static zr_status check_kind(const char *file, const json_t *root)
{
    const json_t *type = json_object_get(root, "peft_type"), *bias = json_object_get(root, "bias");
    const char *named = json_string_value(type), *name;
    json_t *value;
    ZR_CHECK(named && strcmp(named, "LORA") == 0, ZR_ERR_DATA, "%s: peft_type is %s; zr reads only \"LORA\"", file,
             ZR_JSON_SHOWN(type));
    json_object_foreach((json_t *)root, name, value)
        ZR_CHECK(is_nothing(value) || IS_IN(known, name), ZR_ERR_DATA,
                 "%s: %s is %s, which zr does not compute; wanted an adapter without it", file, ZR_SHOWN(name),
                 ZR_JSON_SHOWN(value));
    ZR_CHECK(!bias || (json_is_string(bias) && strcmp(json_string_value(bias), "none") == 0), ZR_ERR_DATA,
             "%s: bias is %s; zr computes only \"none\"", file, ZR_JSON_SHOWN(bias));
    return check_start(file, json_object_get(root, "init_lora_weights"));
}

static zr_status read_number(const char *file, const json_t *root, const char *key, double fallback, double *number)
{
    const json_t *value = json_object_get(root, key);
    *number = value ? json_number_value(value) : fallback;
    ZR_CHECK(!value || json_is_number(value), ZR_ERR_DATA, "%s: %s is %s; wanted a number", file, key,
             ZR_JSON_SHOWN(value));
    return ZR_OK;
}

static zr_status read_config(const char *file, const json_t *root, zr__adapter *adapter)
{
    const char *base = json_string_value(json_object_get(root, "base_model_name_or_path"));
    double rank;
    ZR_TRY(check_kind(file, root));
    ZR_TRY(read_number(file, root, "r", 8, &rank));
    ZR_TRY(read_number(file, root, "lora_alpha", 8, &adapter->lora.alpha));
    ZR_TRY(read_number(file, root, "lora_dropout", 0, &adapter->lora.dropout));
    ZR_CHECK(rank >= 1 && rank <= INT_MAX && rank == (double)(int64_t)rank, ZR_ERR_DATA,
             "%s: r is %s; wanted an integer of at least 1", file, ZR_SHORTEST(rank));
    ZR_CHECK(adapter->lora.alpha > 0, ZR_ERR_DATA, "%s: lora_alpha is %s; wanted above 0", file,
             ZR_SHORTEST(adapter->lora.alpha));
    ZR_CHECK(adapter->lora.dropout >= 0 && adapter->lora.dropout < 1, ZR_ERR_DATA,
             "%s: lora_dropout is %s; wanted 0 or above, and below 1", file, ZR_SHORTEST(adapter->lora.dropout));
    adapter->lora.rank = (int64_t)rank;
    snprintf(adapter->base, sizeof(adapter->base), "%s", base ? base : "");
    return ZR_OK;
}

/* Check that target_modules, if it is a list, names `layer`. peft ignores the factors of layers that the list does not
 * name. */
static zr_status check_target(const char *dir, const json_t *targets, const char *layer)
{
    size_t i;
    const json_t *one;
    bool found = !json_is_array(targets) || json_array_size(targets) == 0;
    json_array_foreach(targets, i, one)
    {
        const char *target = json_string_value(one);
        const size_t n = strlen(layer), its = target ? json_string_length(one) : n + 1;
        found |= its <= n && strcmp(layer + n - its, target) == 0 && (its == n || layer[n - its - 1] == '.');
    }
    ZR_CHECK(found, ZR_ERR_DATA,
             "%s/" ZR_ADAPTER_CONFIG ": target_modules is %s, without the layer %s, whose factors are in %s; peft "
             "ignores them, so name the layer or remove its tensors",
             ZR_SHOWN(dir), ZR_JSON_SHOWN(targets), ZR_SHOWN(layer), zr__adapter_weights(dir));
    return ZR_OK;
}

static zr_status check_targets(const char *dir, const json_t *targets, const char *layers)
{
    char layer[ZR_FILE_NAME_BYTES];
    for (size_t n; *layers; layers += n + (layers[n] != '\0')) {
        n = strcspn(layers, "\n");
        snprintf(layer, sizeof(layer), "%.*s", (int)n, layers);
        ZR_TRY(check_target(dir, targets, layer));
    }
    return ZR_OK;
}

/* List the layers for which the file has a factor A. Fail if the file has a tensor that is not a factor. */
static zr_status read_layers(const char *dir, zr__adapter *adapter)
{
    char path[PATH_MAX];
    ZR_AUTO(zr_safetensors_close) zr_safetensors *file = NULL;
    ZR_AUTO(zr__text_clear) zr__text layers = {0};
    const size_t prefix = strlen(ZR_ADAPTER_PREFIX);
    const bool pickled = zr__path_is_in(dir, ZR_ADAPTER_PICKLED), has = zr__path_is_in(dir, zr__adapter_weights(dir));
    ZR_CHECK(zr__path_is_in(dir, ZR_ADAPTER_SINGLE) || (has && !pickled), ZR_ERR_NOT_FOUND,
             "%s: it holds no " ZR_ADAPTER_SINGLE "; %s", ZR_SHOWN(dir),
             pickled ? ZR_ADAPTER_PICKLED_REMEDY
                     : "copy the weights of the adapter into it, or give another directory");
    ZR_TRY(zr__path_of_input(path, dir, zr__adapter_weights(dir)));
    ZR_TRY(zr_safetensors_open(path, &file));
    adapter->tensors = zr_safetensors_count(file);
    for (int64_t i = 0; i < adapter->tensors; i++) {
        const char *full = zr_safetensors_get(file, i)->name;
        const char *name = strncmp(full, ZR_ADAPTER_PREFIX, prefix) == 0 ? full + prefix : full;
        const bool a = zr__text_ends(name, ".lora_A.weight"), b = zr__text_ends(name, ".lora_B.weight");
        ZR_CHECK(a || b, ZR_ERR_DATA, "%s: tensor %s is no factor of LoRA (lora_A.weight, lora_B.weight)",
                 ZR_SHOWN(path), ZR_SHOWN(full));
        const size_t n = strlen(name) - (a ? strlen(".lora_A.weight") : 0);
        if (a) zr__text_add(&layers, "%s%.*s", layers.length ? "\n" : "", (int)n, name);
    }
    ZR_CHECK(layers.length > 0, ZR_ERR_DATA, "%s: it has no factors of LoRA (lora_A.weight)", ZR_SHOWN(path));
    return zr__text_take(&layers, &adapter->targets);
}

zr_status zr__adapter_read(const char *dir, zr__adapter *adapter)
{
    char path[PATH_MAX];
    json_auto_t *root = NULL;
    *adapter = (zr__adapter){0};
    ZR_TRY(zr__path_of_input(path, dir, ZR_ADAPTER_CONFIG));
    ZR_TRY(zr__json_load_data(path, &root));
    ZR_TRY(read_config(ZR_SHOWN(path), root, adapter));
    ZR_TRY(read_layers(dir, adapter));
    adapter->lora.targets = adapter->targets;
    return check_targets(dir, json_object_get(root, "target_modules"), adapter->targets);
}

/* ---- writing ----------------------------------------------------------------------------------- */

static json_t *names_json(const char *names)
{
    json_t *list = json_array();
    for (size_t n; names && *names; names += n + (names[n] != '\0')) {
        n = strcspn(names, "\n");
        json_array_append_new(list, json_stringn(names, n));
    }
    return list;
}

zr_status zr__adapter_write(const char *dir, const zr__adapter *adapter)
{
    char path[PATH_MAX];
    const zr_lora *lora = &adapter->lora;
    ZR_TRY(zr__path_join(path, dir, ZR_ADAPTER_CONFIG));
    /* Write no task_type for an encoder: with an encoder's task_type, peft would expect a trained head in the file. */
    const char *task = adapter->predicts_next ? "CAUSAL_LM" : NULL;
    const double whole = (double)(int64_t)lora->alpha;
    json_t *alpha = lora->alpha == whole ? json_integer((json_int_t)lora->alpha) : json_real(lora->alpha);
    json_auto_t *root = json_pack("{s:s, s:s?, s:I, s:o, s:f, s:s, s:o, s:b, s:s?, s:b, s:b}", "peft_type", "LORA",
                                  "task_type", task, "r", (json_int_t)lora->rank, "lora_alpha", alpha, "lora_dropout",
                                  lora->dropout, "bias", "none", "target_modules", names_json(lora->targets),
                                  "fan_in_fan_out", (int)adapter->by_columns, "base_model_name_or_path",
                                  adapter->base[0] ? adapter->base : NULL, "inference_mode", 1, "init_lora_weights", 1);
    ZR_CHECK(root, ZR_ERR_MEMORY, "no memory for the text of " ZR_ADAPTER_CONFIG);
    return zr__json_put(path, root);
}
