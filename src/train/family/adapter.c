#include "train/family/adapter.h"

#include "base/file/folder.h"
#include "base/text/text.h"
#include "train/family/inputs.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define A_END ".lora_A.weight"

bool zr__has_adapters(const zr_graph *graph)
{
    for (int32_t p = 0; p < zr_graph_params(graph); p++)
        if (zr_graph_param(graph, p)->adapter) return true;
    return false;
}

/* ---- opening ----------------------------------------------------------------------------------- */

/** Find the directory of an adapter's base. If its path does not exist, look for the path or its last component in the
 * adapter's directory and in up to three directories above, since both may have been moved together. */
static zr_status find_base(const char *dir, const zr__adapter *adapter, char found[PATH_MAX])
{
    char above[PATH_MAX], next[PATH_MAX];
    const char *base = adapter->base, *slash = strrchr(base, '/');
    ZR_CHECK(base[0], ZR_ERR_NOT_FOUND, "%s/" ZR_ADAPTER_CONFIG ": base_model_name_or_path is missing", ZR_SHOWN(dir));
    snprintf(found, PATH_MAX, "%s", base);
    if (zr__path_is_in(found, "config.json")) return ZR_OK;
    snprintf(above, sizeof(above), "%s", dir);
    for (int up = 0; up < 4; up++) {
        ZR_TRY(zr__path_join(found, above, base));
        if (base[0] != '/' && zr__path_is_in(found, "config.json")) return ZR_OK;
        ZR_TRY(zr__path_join(found, above, slash ? slash + 1 : base));
        if (slash && slash[1] && zr__path_is_in(found, "config.json")) return ZR_OK;
        zr__path_parent(above, next);
        snprintf(above, sizeof(above), "%s", next);
    }
    return ZR_FAIL(ZR_ERR_NOT_FOUND,
                   "%s: the base of this adapter, %s (base_model_name_or_path in " ZR_ADAPTER_CONFIG
                   "), is not a directory with a config.json here; put the base there, or correct the path",
                   ZR_SHOWN(dir), ZR_SHOWN(adapter->base));
}

/** Return the number of factors (A and B) of a graph's adapters. */
static int64_t count_factors(const zr_graph *graph)
{
    int64_t n = 0;
    for (int32_t p = 0; p < zr_graph_params(graph); p++) n += zr_graph_param(graph, p)->adapter;
    return n;
}

zr_status zr__adapter_fits(const zr_weights *weights, const zr__family_model *model, const zr__adapter *adapter,
                           char *note, size_t size)
{
    ZR_AUTO(zr_graph_destroy) zr_graph *graph = NULL;
    ZR_AUTO_FREE zr__tensor_spec *specs = NULL;
    int64_t n = 0;
    ZR_TRY(zr__param_graph(model, &graph));
    ZR_TRY(zr__param_specs(graph, adapter ? ZR_PARAMS_ALL : ZR_PARAMS_BASE, &specs, &n));
    ZR_TRY(zr__weights_check(weights, specs, n, note, size));
    ZR_CHECK(!adapter || adapter->tensors == count_factors(graph), ZR_ERR_DATA,
             "the adapter has %lld tensors, of which the model uses only %lld", (long long)adapter->tensors,
             (long long)count_factors(graph));
    return ZR_OK;
}

zr_status zr__body_fits(const zr_weights *weights, const zr__family_model *model, char *note, char *fresh, size_t size)
{
    ZR_AUTO(zr_graph_destroy) zr_graph *graph = NULL;
    ZR_AUTO_FREE zr__tensor_spec *specs = NULL;
    int64_t n = 0, had = 0;
    size_t used = 0;
    fresh[0] = '\0';
    ZR_TRY(zr__param_graph(model, &graph));
    ZR_TRY(zr__param_specs(graph, ZR_PARAMS_BASE, &specs, &n));
    for (int64_t i = 0; i < n; i++) {
        if (!zr__hf_is_of_head(&model->family->names, specs[i].name) || zr__weights_share(weights, specs[i].name))
            specs[had++] = specs[i];
        else if (used < size)
            used += (size_t)snprintf(fresh + used, size - used, "%s%s", used ? ", " : "", specs[i].name);
    }
    return zr__weights_check(weights, specs, had, note, size);
}

zr_status zr__adapter_open(const char *dir, char base[PATH_MAX], zr__family_model *model, zr_weights **weights,
                           char *note, size_t size)
{
    ZR_AUTO(zr__adapter_clear) zr__adapter adapter = {0};
    *weights = NULL;
    ZR_TRY(zr__adapter_read(dir, &adapter));
    if (!base[0]) ZR_TRY(find_base(dir, &adapter, base));
    ZR_TRY(zr__family_read(base, model));
    model->lora = adapter.lora;
    ZR_TRY(zr_weights_open(base, &model->family->names, weights));
    ZR_TRY(zr__weights_adapt(*weights, dir, &adapter));
    zr_status st = zr__adapter_fits(*weights, model, &adapter, note, size);
    ZR_CHECK(st == ZR_OK, st == ZR_ERR_MEMORY ? st : ZR_ERR_DATA, "%s: the adapter does not fit its base %s: %s",
             ZR_SHOWN(dir), ZR_SHOWN(base), zr_error_message());
    return ZR_OK;
}

/* ---- describing -------------------------------------------------------------------------------- */

/** If a parameter is a factor A, return the number of characters of the name of its layer, which begins the parameter's
 * name. Otherwise return 0. */
static size_t layer_of(const zr_param_info *param)
{
    const bool a = param->adapter && zr__text_ends(param->name, A_END);
    return a ? strlen(param->name) - strlen(A_END) : 0;
}

/** Return the last component of a layer's name, such as "q_proj", and its length. The layer's name has n characters. */
static const char *last_part(const char *name, size_t n, size_t *length)
{
    const char *part = name + n;
    while (part > name && part[-1] != '.') part--;
    *length = (size_t)(name + n - part);
    return part;
}

/** Return whether a list with one name per line contains a name of n characters. */
static bool is_listed(const char *list, const char *name, size_t n)
{
    for (size_t its; list && *list; list += its + (list[its] != '\0')) {
        its = strcspn(list, "\n");
        if (its == n && memcmp(list, name, n) == 0) return true;
    }
    return false;
}

/** Return whether some matrix without an adapter belongs to a layer whose name has one of `parts` as its last
 * component. peft would then adapt this matrix too. */
static bool matches_more(const zr_graph *graph, const char *parts)
{
    char a[ZR_NAME_MAX + sizeof(A_END)];
    for (int32_t p = 0; p < zr_graph_params(graph); p++) {
        const zr_param_info *param = zr_graph_param(graph, p);
        if (param->adapter || param->whole.ndim != 2 || !zr__text_ends(param->name, ".weight")) continue;
        size_t length, n = strlen(param->name) - strlen(".weight");
        const char *part = last_part(param->name, n, &length);
        if (!is_listed(parts, part, length)) continue;
        snprintf(a, sizeof(a), "%.*s%s", (int)n, param->name, A_END);
        if (!zr__param_named(graph, a)) return true;
    }
    return false;
}

/** List the adapted layers by the last components of their names, or by full names. */
static zr_status list_layers(const zr_graph *graph, bool full, char **layers)
{
    zr__text text = {0};
    for (int32_t p = 0; p < zr_graph_params(graph); p++) {
        const char *name = zr_graph_param(graph, p)->name;
        size_t n = layer_of(zr_graph_param(graph, p));
        if (n == 0) continue;
        if (!full) name = last_part(name, n, &n);
        if (!is_listed(text.data, name, n)) zr__text_add(&text, "%s%.*s", text.length ? "\n" : "", (int)n, name);
    }
    return zr__text_take(&text, layers);
}

zr_status zr__adapter_describe(const zr_graph *graph, const zr__family_model *model, const char *base,
                               zr__adapter *adapter)
{
    char found[PATH_MAX];
    *adapter = (zr__adapter){.lora = model->lora, .predicts_next = zr__family_samples(model) == ZR_SAMPLES_NEXT};
    if (base) snprintf(adapter->base, sizeof(adapter->base), "%s", realpath(base, found) ? found : base);
    for (int32_t p = 0; p < zr_graph_params(graph); p++)
        adapter->by_columns |= zr_graph_param(graph, p)->adapter && zr_graph_param(graph, p)->by_columns;
    ZR_TRY(list_layers(graph, false, &adapter->targets));
    if (matches_more(graph, adapter->targets)) {
        zr_free(adapter->targets);
        adapter->targets = NULL;
        ZR_TRY(list_layers(graph, true, &adapter->targets));
    }
    adapter->lora.targets = adapter->targets;
    return ZR_OK;
}

zr_status zr__adapter_specs(const zr_graph *graph, zr__tensor_spec **specs, int64_t *n)
{
    enum { NAME_BYTES = ZR_NAME_MAX + sizeof(ZR_ADAPTER_PREFIX) };
    const size_t most = (size_t)count_factors(graph);
    *n = 0;
    *specs = zr_alloc((sizeof(**specs) + NAME_BYTES) * most);
    ZR_CHECK(*specs, ZR_ERR_MEMORY, "no memory for the names of %zu factors", most);
    char *name = (char *)(*specs + most);
    for (int32_t p = 0; p < zr_graph_params(graph); p++) {
        const zr_param_info *param = zr_graph_param(graph, p);
        if (!param->adapter) continue;
        snprintf(name, NAME_BYTES, "%s%s", ZR_ADAPTER_PREFIX, param->name);
        (*specs)[(*n)++] = (zr__tensor_spec){name, param->whole};
        name += NAME_BYTES;
    }
    return ZR_OK;
}
