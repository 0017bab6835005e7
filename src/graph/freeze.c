/* Selects frozen parameters by name patterns, and moves them to units of their own. They need separate units because
 * ZeRO shards gradients and optimizer states, and forms buckets, by whole units. */
#include "graph/internal.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

bool zr__name_matches(const char *pattern, const char *name)
{
    const char *dot = strchr(name, '.');
    return fnmatch(pattern, name, 0) == 0 || (dot && fnmatch(pattern, dot + 1, 0) == 0);
}

/* Return a hint for a pattern that matches no parameter: that it contains a comma, or that it names a tied head. Return
 * "" if neither is the case. */
static const char *pattern_hint(const char *pattern)
{
    if (strchr(pattern, ',')) return "; several patterns are a JSON list";
    return strncmp(pattern, "lm_head", strlen("lm_head")) == 0 ? "; a tied head is its table" : "";
}

static void freeze_one(zr_graph *graph, const char *pattern)
{
    int32_t found = 0;
    for (int32_t p = 0; p < graph->n_params; p++) {
        if (!zr__name_matches(pattern, graph->param[p].name)) continue;
        graph->param[p].frozen = true;
        found++;
    }
    if (found == 0)
        zr_graph_error(graph, ZR_ERR_CONFIG, "model.frozen: \"%s\" matches no parameter; the first is %s%s", pattern,
                       graph->n_params > 0 ? graph->param[0].name : "none", pattern_hint(pattern));
}

void zr_graph_freeze(zr_graph *graph, const char *patterns)
{
    char pattern[ZR_NAME_MAX];
    int32_t left = 0;
    while (patterns && *patterns && !zr__graph_closed(graph)) {
        const size_t n = strcspn(patterns, "\n");
        if (n >= sizeof(pattern))
            zr_graph_error(graph, ZR_ERR_CONFIG, "model.frozen: a pattern of %zu characters; wanted at most %d", n,
                           ZR_NAME_MAX - 1);
        snprintf(pattern, sizeof(pattern), "%.*s", (int)n, patterns);
        freeze_one(graph, pattern);
        patterns += n + (patterns[n] == '\n');
    }
    for (int32_t p = 0; p < graph->n_params; p++) left += !graph->param[p].frozen;
    if (left == 0 && graph->n_params > 0)
        zr_graph_error(graph, ZR_ERR_CONFIG, "model.frozen: its patterns match all %d parameters; nothing would train",
                       (int)graph->n_params);
}

/* ---- units ------------------------------------------------------------------------------------- */

/* Store `param` as the parameter of index `place`, at the end of the unit `unit`. */
static void place_param(zr_graph *graph, int32_t place, zr_param_info param, int32_t unit)
{
    zr_unit_info *its = &graph->unit[unit];
    if (its->n_params++ == 0) its->first_param = place;
    param.unit = unit;
    param.unit_offset = its->elems;
    its->elems += zr_shape_elems(&param.shape);
    graph->value[param.value].info.param = place;
    graph->param[place] = param;
}

static zr_status place_params(zr_graph *graph, const zr_param_info *was, int32_t n)
{
    int32_t place = 0, from = -1;
    for (int32_t u = 0; u < graph->n_units; u++) {
        graph->unit[u].first_param = graph->unit[u].n_params = 0;
        graph->unit[u].elems = 0;
    }
    for (int32_t i = 0; i < n; i++)
        if (!was[i].frozen) place_param(graph, place++, was[i], was[i].unit);
    for (int32_t i = 0; i < n; i++) {
        if (!was[i].frozen) continue;
        if (was[i].unit != from) {
            zr_unit_info unit = {.frozen = true};
            snprintf(unit.name, sizeof(unit.name), "%.80s, frozen", graph->unit[was[i].unit].name);
            ZR_TRY(zr__graph_grow((void **)&graph->unit, &graph->unit_room, graph->n_units, sizeof *graph->unit));
            graph->unit[graph->n_units++] = unit;
        }
        from = was[i].unit;
        place_param(graph, place++, was[i], graph->n_units - 1);
    }
    return ZR_OK;
}

zr_status zr__part_units(zr_graph *graph)
{
    const int32_t n = graph->n_params;
    int32_t frozen = 0;
    for (int32_t p = 0; p < n; p++) frozen += graph->param[p].frozen;
    if (frozen == 0) return ZR_OK;
    zr_param_info *was = zr_alloc(sizeof *was * (size_t)n);
    ZR_CHECK(was, ZR_ERR_MEMORY, "graph: no memory for %d parameters", (int)n);
    memcpy(was, graph->param, sizeof *was * (size_t)n);
    zr_status st = place_params(graph, was, n);
    zr_free(was);
    return st;
}
