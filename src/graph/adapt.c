/* Low-rank adapters of linear layers (LoRA, Hu et al. 2021): which layers have an adapter, and the parameters of
 * adapters. ops/linear.c adds the products of an adapter. */
#include "graph/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Pattern of all linear layers of blocks, which are the layers whose names have a number between two dots. */
#define BLOCKS "*.[0-9]*.*"

static zr_status check_lora(const zr_graph *graph, const zr_lora *lora)
{
    ZR_CHECK(graph->n_params == 0, ZR_ERR_STATE, "graph: call zr_graph_adapt before the first parameter");
    ZR_CHECK(lora->rank > 0 && lora->rank <= INT32_MAX, ZR_ERR_CONFIG,
             "model.lora.rank is %" PRId64 "; wanted 0 or above", lora->rank);
    ZR_CHECK(lora->alpha > 0 && isfinite(lora->alpha), ZR_ERR_CONFIG, "model.lora.alpha is %g; wanted above 0",
             lora->alpha);
    ZR_CHECK(lora->dropout >= 0 && lora->dropout < 1, ZR_ERR_CONFIG, "model.lora.dropout is %g; wanted 0 <= p < 1",
             lora->dropout);
    return ZR_OK;
}

void zr_graph_adapt(zr_graph *graph, const zr_lora *lora)
{
    if (!lora || lora->rank == 0 || zr__graph_closed(graph)) return;
    const zr_status st = check_lora(graph, lora);
    zr__graph_latch(graph, st);
    if (st == ZR_OK) graph->lora = *lora;
}

/* ---- names ------------------------------------------------------------------------------------- */

/* Copy the name of a layer, which is the name of its weight without ".weight". */
static void layer_name(const char *weight, char layer[ZR_NAME_MAX])
{
    static const char end[] = ".weight";
    const size_t n = strlen(weight), cut = strlen(end);
    const bool ends = n > cut && strcmp(weight + n - cut, end) == 0;
    snprintf(layer, ZR_NAME_MAX, "%.*s", (int)(ends ? n - cut : n), weight);
}

bool zr__layer_matches(const char *pattern, const char *weight)
{
    char layer[ZR_NAME_MAX];
    layer_name(weight, layer);
    if (zr__name_matches(pattern, weight)) return true;
    for (const char *end = layer; end; end = strchr(end, '.')) {
        end += *end == '.';
        if (zr__name_matches(pattern, end)) return true;
    }
    return false;
}

const char *zr__pattern_next(const char *list, char pattern[ZR_NAME_MAX])
{
    if (!list || !*list) return NULL;
    const size_t n = strcspn(list, "\n");
    snprintf(pattern, ZR_NAME_MAX, "%.*s", (int)n, list);
    return list + n + (list[n] == '\n');
}

static const char *targets_of(const zr_graph *graph)
{
    return graph->lora.targets ? graph->lora.targets : BLOCKS;
}

static bool is_target(const zr_graph *graph, const char *weight)
{
    char pattern[ZR_NAME_MAX];
    for (const char *list = targets_of(graph); (list = zr__pattern_next(list, pattern));)
        if (zr__layer_matches(pattern, weight)) return true;
    return false;
}

/* ---- parameters -------------------------------------------------------------------------------- */

/* Declare the factors of the adapter of a weight. Each factor is cut like the dimension that it shares with the
 * weight. */
static void declare(zr_graph *graph, const zr_param_info *w, bool transposed, zr_value factor[2])
{
    const int inputs_dim = transposed ? 1 : 0;
    const int64_t rank = graph->lora.rank, inputs = w->whole.dim[inputs_dim], outputs = w->whole.dim[1 - inputs_dim];
    const zr_cut a_cut = {1, w->fused.dim == inputs_dim ? w->fused.parts : 0};
    const zr_cut b_cut = {0, w->fused.dim == inputs_dim ? 0 : w->fused.parts};
    const zr_init uniform = {.kind = ZR_INIT_UNIFORM, .std = 1 / sqrt(3.0 * (double)inputs)};
    const zr_init zero = {.kind = ZR_INIT_ZERO};
    const int32_t before = graph->n_params;
    char name[ZR_NAME_MAX];
    layer_name(w->name, name);
    factor[0] = zr_param_cut(graph, uniform, ZR_SHAPE(rank, inputs), a_cut, "%s.lora_A.weight", name);
    factor[1] = zr_param_cut(graph, zero, ZR_SHAPE(outputs, rank), b_cut, "%s.lora_B.weight", name);
    for (int32_t p = before; p < graph->n_params; p++) {
        graph->param[p].adapter = true;
        graph->param[p].by_columns = !transposed;
    }
}

bool zr__adapter_of(zr_graph *graph, zr_value w, bool transposed, zr_value factor[2])
{
    const zr_value_info *info = zr_graph_value(graph, w);
    if (graph->lora.rank == 0 || zr__graph_closed(graph) || !info || info->kind != ZR_VALUE_PARAM) return false;
    const zr_param_info param = graph->param[info->param]; /* a copy, because graph->param may move */
    if (param.adapter || param.whole.ndim != 2 || !is_target(graph, param.name)) return false;
    if (graph->value[w].factor[0] == ZR_NONE) {
        declare(graph, &param, transposed, factor);
        memcpy(graph->value[w].factor, factor, sizeof(graph->value[w].factor));
    }
    memcpy(factor, graph->value[w].factor, sizeof(graph->value[w].factor));
    return !zr__graph_closed(graph);
}

void zr__adapter_refuse(zr_graph *graph, zr_value head)
{
    const zr_value_info *info = zr_graph_value(graph, head);
    if (graph->lora.rank == 0 || !info || info->kind != ZR_VALUE_PARAM) return;
    if (!is_target(graph, graph->param[info->param].name)) return;
    zr_graph_error(graph, ZR_ERR_UNSUPPORTED,
                   "model.lora.targets: they match %s, the weights of the head, which takes no adapter; name layers of "
                   "blocks, as in docs/config.md",
                   graph->param[info->param].name);
}

/* ---- end --------------------------------------------------------------------------------------- */

/* Check that a pattern matches a layer with an adapter. */
static zr_status check_pattern(const zr_graph *graph, const char *pattern)
{
    const zr_param_info *first = NULL;
    for (int32_t p = 0; p < graph->n_params; p++) {
        const zr_param_info *param = &graph->param[p];
        if (!first && param->whole.ndim == 2 && !param->adapter) first = param;
        if (graph->value[param->value].factor[0] != ZR_NONE && zr__layer_matches(pattern, param->name)) return ZR_OK;
    }
    return ZR_FAIL(ZR_ERR_CONFIG, "model.lora.targets: \"%s\" matches no linear layer; the first matrix is %s", pattern,
                   first ? first->name : "none");
}

/* Number the elements of adapters after the elements of all other parameters. Random initial values of the model then
 * do not depend on its adapters. */
static void number_elems(zr_graph *graph)
{
    int64_t next = 0;
    for (int adapter = 0; adapter < 2; adapter++)
        for (int32_t p = 0; p < graph->n_params; p++) {
            zr_param_info *param = &graph->param[p];
            if (param->adapter != (adapter != 0)) continue;
            if (param->tile.index == 0) next += zr_shape_elems(&param->whole);
            param->first = next - zr_shape_elems(&param->whole);
        }
}

zr_status zr__adapters_end(zr_graph *graph)
{
    char pattern[ZR_NAME_MAX];
    if (graph->lora.rank == 0) return ZR_OK;
    for (const char *list = targets_of(graph); (list = zr__pattern_next(list, pattern));)
        ZR_TRY(check_pattern(graph, pattern));
    for (int32_t p = 0; p < graph->n_params; p++) graph->param[p].frozen |= !graph->param[p].adapter;
    number_elems(graph);
    graph->lora.targets = NULL; /* the caller's pointer is not kept */
    return ZR_OK;
}
