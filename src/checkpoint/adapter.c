/* Adapter directories of peft: adapter_config.json, and adapter_model.safetensors with the factors of LoRA. */
#include "base/file/commit.h"
#include "base/file/folder.h"
#include "base/json/json.h"
#include "base/text/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/hf.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Keys of adapter_config.json for features that zr lacks. Each key must be missing, null, false or empty. */
static const char *const absent[] = {"use_dora",
                                     "use_rslora",
                                     "use_qalora",
                                     "lora_bias",
                                     "modules_to_save",
                                     "exclude_modules",
                                     "layers_to_transform",
                                     "layers_pattern",
                                     "rank_pattern",
                                     "alpha_pattern",
                                     "layer_replication",
                                     "trainable_token_indices",
                                     "target_parameters",
                                     "alora_invocation_tokens",
                                     "use_bdlora",
                                     "arrow_config",
                                     "kasa_config",
                                     "velora_config",
                                     "monteclora_config",
                                     "megatron_config"};

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

/* Refuse an adapter of another kind, or one that uses a feature that zr lacks. */
static zr_status check_kind(const char *file, const json_t *root)
{
    const json_t *type = json_object_get(root, "peft_type"), *bias = json_object_get(root, "bias");
    const char *named = json_string_value(type);
    ZR_CHECK(named && strcmp(named, "LORA") == 0, ZR_ERR_DATA, "%s: peft_type is %s; zr reads only \"LORA\"", file,
             ZR_JSON_SHOWN(type));
    for (size_t i = 0; i < sizeof(absent) / sizeof(*absent); i++) {
        const json_t *value = json_object_get(root, absent[i]);
        ZR_CHECK(is_nothing(value), ZR_ERR_DATA,
                 "%s: %s is %s, which zr does not compute; wanted an adapter without it", file, absent[i],
                 ZR_JSON_SHOWN(value));
    }
    ZR_CHECK(!bias || (json_is_string(bias) && strcmp(json_string_value(bias), "none") == 0), ZR_ERR_DATA,
             "%s: bias is %s; zr computes only \"none\"", file, ZR_JSON_SHOWN(bias));
    return ZR_OK;
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

/* List the layers for which the file has a factor A. Fail if the file has a tensor that is not a factor. */
static zr_status read_layers(const char *dir, zr__adapter *adapter)
{
    char path[PATH_MAX];
    zr_safetensors *file = NULL;
    zr__text layers = {0};
    const size_t prefix = strlen(ZR_ADAPTER_PREFIX);
    zr_status st = ZR_OK;
    ZR_TRY(zr__path_of_input(path, dir, zr__adapter_weights(dir)));
    ZR_TRY(zr_safetensors_open(path, &file));
    adapter->tensors = zr_safetensors_count(file);
    for (int64_t i = 0; i < adapter->tensors && st == ZR_OK; i++) {
        const char *full = zr_safetensors_get(file, i)->name;
        const char *name = strncmp(full, ZR_ADAPTER_PREFIX, prefix) == 0 ? full + prefix : full;
        const bool a = zr__text_ends(name, ".lora_A.weight"), b = zr__text_ends(name, ".lora_B.weight");
        if (!a && !b)
            st = ZR_FAIL(ZR_ERR_DATA, "%s: tensor %s is no factor of LoRA (lora_A.weight, lora_B.weight)",
                         ZR_SHOWN(path), ZR_SHOWN(full));
        const size_t n = strlen(name) - (a ? strlen(".lora_A.weight") : 0);
        if (a) zr__text_add(&layers, "%s%.*s", layers.length ? "\n" : "", (int)n, name);
    }
    zr_safetensors_close(&file);
    if (st == ZR_OK && layers.length == 0)
        st = ZR_FAIL(ZR_ERR_DATA, "%s: it has no factors of LoRA (lora_A.weight)", ZR_SHOWN(path));
    if (st == ZR_OK) return zr__text_take(&layers, &adapter->targets);
    zr__text_clear(&layers);
    return st;
}

zr_status zr__adapter_read(const char *dir, zr__adapter *adapter)
{
    char path[PATH_MAX], *text = NULL;
    size_t bytes = 0;
    json_t *root = NULL;
    *adapter = (zr__adapter){0};
    ZR_TRY(zr__path_of_input(path, dir, ZR_ADAPTER_CONFIG));
    zr_status st = zr__json_read_file(path, &text, &bytes);
    if (st == ZR_OK) st = zr__json_parse(text, bytes, path, &root);
    if (st == ZR_OK) st = read_config(ZR_SHOWN(path), root, adapter);
    if (st == ZR_OK) st = read_layers(dir, adapter);
    adapter->lora.targets = adapter->targets;
    json_decref(root);
    zr_free(text);
    return st == ZR_ERR_CONFIG ? ZR_FAIL(ZR_ERR_DATA, "%s", zr_error_message()) : st;
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
    char path[PATH_MAX], *text = NULL;
    const zr_lora *lora = &adapter->lora;
    ZR_TRY(zr__path_join(path, dir, ZR_ADAPTER_CONFIG));
    /* With the type of a task of encoders, peft would expect a trained head in the file; without a type it does not. */
    const char *task = adapter->predicts_next ? "CAUSAL_LM" : NULL;
    const double whole = (double)(int64_t)lora->alpha;
    json_t *alpha = lora->alpha == whole ? json_integer((json_int_t)lora->alpha) : json_real(lora->alpha);
    json_t *root = json_pack("{s:s, s:s?, s:I, s:o, s:f, s:s, s:o, s:b, s:s?, s:b, s:b}", "peft_type", "LORA",
                             "task_type", task, "r", (json_int_t)lora->rank, "lora_alpha", alpha, "lora_dropout",
                             lora->dropout, "bias", "none", "target_modules", names_json(lora->targets),
                             "fan_in_fan_out", (int)adapter->by_columns, "base_model_name_or_path",
                             adapter->base[0] ? adapter->base : NULL, "inference_mode", 1, "init_lora_weights", 1);
    ZR_CHECK(root, ZR_ERR_MEMORY, "no memory for the text of " ZR_ADAPTER_CONFIG);
    zr_status st = zr__json_print(root, &text);
    json_decref(root);
    if (st == ZR_OK) st = zr__file_put(path, text, (int64_t)strlen(text));
    zr_free(text);
    return st;
}
