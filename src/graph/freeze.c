/* Selects frozen parameters by name patterns. */
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
