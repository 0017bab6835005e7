/* Names and values that DeepSpeed's files have for keys of zr: older names, names without "stage3_", and values that
 * mean another value here. The key keeps its place in the file, so that messages show the user's name. */
#include "config/internal.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define ZERO "zero_optimization."
#define AUTO "\"auto\""

/* Each name stands for a key, or for a section with all its keys. */
static const struct {
    const char *other, *own;
} name[] = {
    {"bfloat16", "bf16"},
    {ZERO "prefetch_bucket_size", ZERO "stage3_prefetch_bucket_size"},
    {ZERO "param_persistence_threshold", ZERO "stage3_param_persistence_threshold"},
    {ZERO "model_persistence_threshold", ZERO "stage3_model_persistence_threshold"},
    {ZERO "max_live_parameters", ZERO "stage3_max_live_parameters"},
    {ZERO "max_reuse_distance", ZERO "stage3_max_reuse_distance"},
    {ZERO "gather_16bit_weights_on_model_save", ZERO "stage3_gather_16bit_weights_on_model_save"},
    {ZERO "module_granularity_threshold", ZERO "stage3_module_granularity_threshold"},
    {ZERO "use_all_reduce_for_fetch_params", ZERO "stage3_use_all_reduce_for_fetch_params"},
    {ZERO "allgather_sequential", ZERO "stage3_allgather_sequential"},
    {ZERO "cpu_offload", ZERO "offload_optimizer.device"},
    {ZERO "cpu_offload_param", ZERO "offload_param.device"},
    {"optimizer.params.adam_lr", "optimizer.params.adamw.lr"},
};
enum { NAMES = sizeof(name) / sizeof(name[0]) };

/* `key` is the key's own name or its name in the file. Texts are compared without regard to case. */
static const struct {
    const char *key, *given, *meant;
    const char *note; /* or NULL */
} value[] = {
    {"optimizer.type", "\"FusedAdam\"", "\"Adam\"",
     "FusedAdam is DeepSpeed's implementation of Adam; zr uses its own Adam"},
    {"optimizer.type", "\"FusedLamb\"", "\"Lamb\"",
     "FusedLamb is DeepSpeed's implementation of Lamb; zr uses its own Lamb, with optimizer.params.variant nvidia that "
     "of apex's FusedLAMB"},
    {ZERO "sub_group_size", "0", "1000000000", NULL},
    {ZERO "reduce_bucket_size", "0", "1", NULL}, /* the smallest buckets */
    {ZERO "allgather_bucket_size", "0", "1", NULL},
    {ZERO "stage3_max_live_parameters", "0", "1", NULL},                            /* no prefetch */
    {ZERO "stage3_model_persistence_threshold", "0", "1", NULL},                    /* no unit stays whole */
    {ZERO "stage3_model_persistence_threshold", "9223372036854775807", AUTO, NULL}, /* sys.maxsize of Python */
    {ZERO "zero_hpz_partition_size", "0", "1", NULL},
    {ZERO "cpu_offload", "true", "\"cpu\"", NULL},
    {ZERO "cpu_offload", "false", "\"none\"", NULL},
    {ZERO "cpu_offload_param", "true", "\"cpu\"", NULL},
    {ZERO "cpu_offload_param", "false", "\"none\"", NULL},
    {"activation_checkpointing.number_checkpoints", "false", "null", NULL},
    {"fp16.auto_cast", "false", "null", NULL},
    {"steps_per_print", "null", "9007199254740992", NULL}, /* no progress lines */
};
enum { VALUES = sizeof(value) / sizeof(value[0]) };

/* If `path` is `from` or lies in the section `from`, replace this beginning by `to` and write the result to `out`.
 * Otherwise return false. */
static bool renamed(const char *path, const char *from, const char *to, char *out, size_t size)
{
    const size_t n = strlen(from);
    if (strncmp(path, from, n) != 0 || (path[n] && path[n] != '.')) return false;
    snprintf(out, size, "%s%s", to, path + n);
    return true;
}

const char *zr__key_own_name(const char *path, char *out, size_t size)
{
    for (int i = 0; i < NAMES; i++)
        if (renamed(path, name[i].other, name[i].own, out, size)) return out;
    snprintf(out, size, "%s", path);
    return out;
}

static void remove_member(json_t *root, const char *path)
{
    json_t *object = root;
    for (const char *dot; (dot = strchr(path, '.')); path = dot + 1) {
        char part[128];
        snprintf(part, sizeof(part), "%.*s", (int)(dot - path), path);
        object = json_object_get(object, part);
    }
    json_object_del(object, path);
}

void zr__key_remove_others(json_t *root, const char *path)
{
    char own[256], other[256];
    zr__key_own_name(path, own, sizeof(own));
    if (strcmp(own, path) != 0) remove_member(root, own);
    for (int i = 0; i < NAMES; i++)
        if (renamed(own, name[i].own, name[i].other, other, sizeof(other)) && strcmp(other, path) != 0)
            remove_member(root, other);
}

static bool same_value(const json_t *a, const json_t *b)
{
    if (json_is_string(a) && json_is_string(b)) return strcasecmp(json_string_value(a), json_string_value(b)) == 0;
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
    return json_equal(a, b);
}

json_t *zr__value_meant(const char *path, const json_t *given, const char **note)
{
    char own[256];
    *note = NULL;
    zr__key_own_name(path, own, sizeof(own));
    for (int i = 0; i < VALUES; i++) {
        if (strcmp(path, value[i].key) != 0 && strcmp(own, value[i].key) != 0) continue;
        json_auto_t *one = zr__json_constant(value[i].given);
        if (!same_value(given, one)) continue;
        *note = value[i].note;
        return zr__json_constant(value[i].meant);
    }
    return json_incref((json_t *)given);
}

void zr__key_list_names(zr__text *out)
{
    for (int i = 0; i < NAMES; i++)
        zr__text_add(out, "%s`%s`%s", i ? ", " : "", name[i].other, i + 1 == NAMES ? "." : "");
}
