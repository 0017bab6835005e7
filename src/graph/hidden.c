/* Hidden matrices: the matrices that an optimizer with orthogonalised directions trains (zr_muon). By default these are
 * the trained matrices of blocks, and trained matrices of the head's unit that another matrix follows. They are chosen
 * by their place in the model and not by their names. */
#include "graph/internal.h"
#include "base/core/scope.h"

#include <string.h>

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

static zr_param_info *param_of(const zr_graph *graph, zr_value value)
{
    const bool is_param = value != ZR_NONE && graph->value[value].info.kind == ZR_VALUE_PARAM;
    return is_param ? &graph->param[graph->value[value].info.param] : NULL;
}

/* Mark the trained matrices of linear layers in the last unit whose outputs pass through another matrix, such as BERT's
 * pooler. Mark neither the last matrix, whose outputs are logits, nor a factor of its adapter. */
static zr_status mark_before_head(zr_graph *graph)
{
    const int32_t head = graph->n_units - 1;
    ZR_AUTO_FREE bool *passes = zr_alloc((size_t)graph->n_values + 1); /* whether a matrix follows a value */
    ZR_CHECK(passes, ZR_ERR_MEMORY, "graph: no memory to follow %d values", (int)graph->n_values);
    memset(passes, 0, (size_t)graph->n_values);
    for (int32_t i = graph->n_ops - 1; i >= 0; i--) {
        const zr_op *op = &graph->op[i];
        bool later = false, matrix = false;
        for (int k = 0; k < op->n_out; k++) later |= passes[op->out[k]];
        for (int k = 0; k < op->n_in; k++) {
            zr_param_info *param = param_of(graph, op->in[k]);
            if (!param) continue;
            if (later && strcmp(op->def->name, "linear") == 0 && param->unit == head && head > 0)
                param->hidden = is_trained_matrix(param);
            matrix |= param->whole.ndim == 2 && !param->adapter;
        }
        for (int k = 0; k < op->n_in; k++)
            if (op->in[k] != ZR_NONE) passes[op->in[k]] |= later || matrix;
    }
    return ZR_OK;
}

/* Mark the trained matrices that a pattern matches. Fail without a match. */
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
    if (!graph->spec.hidden) ZR_TRY(mark_before_head(graph));
    bool any = false;
    for (int32_t p = 0; p < graph->n_params; p++) {
        zr_param_info *param = &graph->param[p];
        if (!graph->spec.hidden) param->hidden |= is_trained_matrix(param) && is_in_block(graph, param);
        any |= param->hidden;
    }
    graph->spec.hidden = NULL; /* the caller's pointer is not kept */
    ZR_CHECK(
        any, ZR_ERR_CONFIG,
        "optimizer.type Muon: the model has no trained matrix in a block, or in front of its head's last one; choose "
        "AdamW, or name matrices by optimizer.params.matrices");
    return ZR_OK;
}
