/* Hidden matrices: the matrices that an optimizer with orthogonalised directions trains (zr_muon). By default these are
 * the trained matrices of blocks, chosen by their place in the model and not by their names. */
#include "graph/internal.h"

/* Return whether a parameter is declared in a block: a unit between the first one, with the tables, and the last one,
 * with the head. */
static bool is_in_block(const zr_graph *graph, const zr_param_info *param)
{
    return param->unit > 0 && param->unit < graph->n_units - 1;
}

static bool is_trained_matrix(const zr_param_info *param)
{
    return !param->frozen && param->whole.ndim == 2 && param->tile.count == 1;
}

/* Mark the trained matrices that a pattern matches. Fail if there are none. */
static zr_status mark_matches(zr_graph *graph, const char *pattern)
{
    const zr_param_info *first = NULL;
    bool any = false;
    for (int32_t p = 0; p < graph->n_params; p++) {
        zr_param_info *param = &graph->param[p];
        if (!is_trained_matrix(param)) continue;
        if (!first) first = param;
        const bool matches = zr__layer_matches(pattern, param->name);
        param->hidden |= matches;
        any |= matches;
    }
    ZR_CHECK(any, ZR_ERR_CONFIG, "optimizer.params.matrices: \"%s\" matches no trained matrix; the first is %s",
             pattern, first ? first->name : "none");
    return ZR_OK;
}

zr_status zr__hidden_end(zr_graph *graph)
{
    char pattern[ZR_NAME_MAX];
    if (!graph->spec.hidden_apart) return ZR_OK;
    for (const char *list = graph->spec.hidden; (list = zr__pattern_next(list, pattern));)
        ZR_TRY(mark_matches(graph, pattern));
    bool any = false;
    for (int32_t p = 0; p < graph->n_params; p++) {
        zr_param_info *param = &graph->param[p];
        if (!graph->spec.hidden) param->hidden = is_trained_matrix(param) && is_in_block(graph, param);
        any |= param->hidden;
    }
    graph->spec.hidden = NULL; /* the caller's pointer is not kept */
    ZR_CHECK(any, ZR_ERR_CONFIG,
             "optimizer.type Muon: the model has no trained matrix in a block, between its tables and its head; choose "
             "AdamW, or name matrices by optimizer.params.matrices");
    return ZR_OK;
}
