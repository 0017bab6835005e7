/*
 * Activation checkpointing: which values of the forward pass are not kept for the backward but computed
 * again. The policy says what may go; what is needed again, and only that, program.c runs again.
 *
 * Units are replayed in groups: with `every` k, k units in a row. What another group reads (its
 * input, above all) is kept, so that a replay never reaches beyond its own group.
 * Source: Chen et al. 2016; Korthikanti et al. 2022 (selective).
 */
#include "plan/internal.h"

/* The unit whose backward follows its forward at once: nothing is gained by running it again. */
static int32_t last_unit(const zr_graph *g)
{
    int32_t unit = -1;
    for (int32_t i = 0; i < zr_graph_ops(g); i++)
        if (!zr_graph_get_op(g, i)->backward) unit = zr_graph_get_op(g, i)->unit;
    return unit;
}

int32_t zr__recompute_units(const zr_plan *plan, const zr_graph *g)
{
    int32_t last = last_unit(g);
    return last >= 0 ? last : plan->n_units;
}

void zr__recompute_assign(zr_plan *plan, const zr_graph *g, const zr__mix *mix)
{
    int32_t eligible = zr__recompute_units(plan, g);
    for (int32_t u = 0; u < plan->n_units; u++) {
        zr_recompute policy = u < mix->n_first ? mix->first : mix->rest;
        plan->unit[u].recompute = u < eligible ? policy : ZR_RECOMPUTE_NONE;
    }
}

/* Numbers of the groups, by unit. */
static void find_groups(const zr_plan *plan, int32_t *group)
{
    int32_t number = -1;
    int64_t length = 0;
    for (int32_t u = 0; u < plan->n_units; u++) {
        bool replayed = plan->unit[u].recompute == ZR_RECOMPUTE_UNIT;
        if (!replayed || length == 0 || length == plan->recompute_every) {
            number++;
            length = 0;
        }
        length = replayed ? length + 1 : 0;
        group[u] = number;
    }
}

static int64_t bytes_of(const zr_value_info *v)
{
    return zr_shape_elems(&v->type.shape) * zr_dtype_bytes(v->type.dtype);
}

/* Did the forward pass write it? */
static bool is_forward(const zr_graph *g, const zr_value_info *v)
{
    return v->kind == ZR_VALUE_ACT && !zr_graph_get_op(g, v->producer)->backward;
}

/* The widest value that each unit's forward pass takes from another. */
static void find_inputs(const zr_graph *g, int64_t *input_bytes)
{
    for (int32_t i = 0; i < zr_graph_ops(g); i++) {
        const zr_op *op = zr_graph_get_op(g, i);
        for (int j = 0; j < op->n_in && !op->backward; j++) {
            const zr_value_info *v = op->in[j] == ZR_NONE ? NULL : zr_graph_value(g, op->in[j]);
            if (!v || v->kind != ZR_VALUE_ACT || v->unit == op->unit) continue;
            if (bytes_of(v) > input_bytes[op->unit]) input_bytes[op->unit] = bytes_of(v);
        }
    }
}

static bool may_go(const zr_plan *plan, const zr_graph *g, const zr_value_info *v, const int64_t *input_bytes)
{
    if (!is_forward(g, v)) return false;
    switch (plan->unit[v->unit].recompute) {
    case ZR_RECOMPUTE_UNIT:
        return true;
    case ZR_RECOMPUTE_SELECTIVE:
        return zr_graph_get_op(g, v->producer)->def->selective || bytes_of(v) > input_bytes[v->unit];
    case ZR_RECOMPUTE_NONE:
    case ZR_RECOMPUTE_AUTO:
        break;
    }
    return false;
}

zr_status zr__find_dropped(const zr_plan *plan, const zr_graph *g, bool *dropped)
{
    size_t units = (size_t)plan->n_units;
    int32_t *group = zr_alloc(sizeof *group * (units + 1));
    int64_t *input_bytes = zr_alloc(sizeof *input_bytes * (units + 1));
    zr_status st = ZR_OK;
    if (!group || !input_bytes) {
        st = ZR_FAIL(ZR_ERR_MEMORY, "no memory to group %zu units", units);
        goto done;
    }
    find_groups(plan, group);
    find_inputs(g, input_bytes);
    for (int32_t v = 0; v < zr_graph_values(g); v++)
        dropped[v] = may_go(plan, g, zr_graph_value(g, v), input_bytes);
    for (int32_t i = 0; i < zr_graph_ops(g); i++) {
        const zr_op *op = zr_graph_get_op(g, i);
        for (int j = 0; j < op->n_in; j++)
            if (op->in[j] != ZR_NONE && dropped[op->in[j]] && group[zr_graph_value(g, op->in[j])->unit] != group[op->unit])
                dropped[op->in[j]] = false;
    }
done:
    zr_free(group);
    zr_free(input_bytes);
    return st;
}
