/* Decides which forward values are dropped and recomputed in the backward pass (activation checkpointing). The policy
 * determines which values may be dropped. program.c then replays only the ops that are needed again. Every policy
 * except keep drops the outputs of cheap ops if their operands are available anyway.
 *
 * Units are replayed in groups of `recompute_every` consecutive units. A value that another group reads is stored, for
 * example a group's input. Therefore a replay never needs ops of another group. Sources: Chen et al. 2016; Korthikanti
 * et al. 2022 (selective). */
#include "base/core/scope.h"
#include "plan/list/list.h"
#include "plan/program/program.h"

/* Return the last unit of the forward pass, or -1. Recompute would save no memory in this unit, because its backward
 * pass immediately follows its forward pass. Tiles of tables, which follow all units of the model, do not count. */
static int32_t last_unit(const zr_graph *g)
{
    int32_t unit = -1;
    for (int32_t i = 0; i < zr_graph_ops(g); i++) {
        const zr_op *op = zr_graph_get_op(g, i);
        if (!op->backward && !zr_graph_unit_info(g, op->unit)->tile) unit = op->unit;
    }
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

/* Give each unit the number of its group. The units of a group are replayed together. */
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

/* Return a value's total bytes over all tensor-parallel ranks. Using the total makes the choice of recompute
 * independent of the number of ranks. */
static int64_t layer_bytes(const zr_plan *plan, const zr_value_info *v)
{
    return zr__value_bytes(v) * (v->cut || v->tokens ? zr__cut_ranks(plan) : 1);
}

/* Return whether a value is the output of an all-gather of tokens (sequence parallelism). */
static bool gathers_tokens(const zr_graph *g, const zr_value_info *v)
{
    return v->producer >= 0 && zr_graph_get_op(g, v->producer)->def->join == ZR_JOIN_GATHER &&
           zr_graph_value(g, zr_graph_get_op(g, v->producer)->in[0])->tokens;
}

/* For each unit, find the bytes of the largest value that its forward pass reads from another unit. */
static void find_inputs(const zr_plan *plan, const zr_graph *g, int64_t *input_bytes)
{
    for (int32_t i = 0; i < zr_graph_ops(g); i++) {
        const zr_op *op = zr_graph_get_op(g, i);
        for (int j = 0; j < op->n_in && !op->backward; j++) {
            const zr_value_info *v = op->in[j] == ZR_NONE ? NULL : zr_graph_value(g, op->in[j]);
            if (!v || v->kind != ZR_VALUE_ACT || v->unit == op->unit) continue;
            if (layer_bytes(plan, v) > input_bytes[op->unit]) input_bytes[op->unit] = layer_bytes(plan, v);
        }
    }
}

static bool may_drop(const zr_plan *plan, const zr_graph *g, const zr_value_info *v, const int64_t *input_bytes)
{
    /* Only activations of the forward pass can be recomputed. */
    if (v->kind != ZR_VALUE_ACT || zr_graph_get_op(g, v->producer)->backward) return false;
    switch (plan->unit[v->unit].recompute) {
    case ZR_RECOMPUTE_UNIT:
    case ZR_RECOMPUTE_PAPER:
        return true;
    case ZR_RECOMPUTE_SELECTIVE:
        return zr_graph_get_op(g, v->producer)->def->selective || gathers_tokens(g, v) ||
               layer_bytes(plan, v) > input_bytes[v->unit];
    case ZR_RECOMPUTE_NONE:
    case ZR_RECOMPUTE_KEEP:
        return plan->layout.sequence == ZR_SEQUENCE_REGATHER && gathers_tokens(g, v) && v->unit != last_unit(g);
    case ZR_RECOMPUTE_AUTO:
        break;
    }
    return false;
}

static void drop_by_policy(const zr_plan *plan, const zr_graph *g, const int32_t *group, const int64_t *input_bytes,
                           bool *dropped)
{
    for (int32_t v = 0; v < zr_graph_values(g); v++) dropped[v] = may_drop(plan, g, zr_graph_value(g, v), input_bytes);
    for (int32_t i = 0; i < zr_graph_ops(g); i++) {
        const zr_op *op = zr_graph_get_op(g, i);
        for (int j = 0; j < op->n_in; j++)
            if (op->in[j] != ZR_NONE && dropped[op->in[j]] &&
                group[zr_graph_value(g, op->in[j])->unit] != group[op->unit])
                dropped[op->in[j]] = false;
    }
}

/* ---- cheap ops ------------------------------------------------------------------------------- */

typedef struct readers {
    int32_t *first, *last; /* indexed by zr_value: first and last backward op that reads the value, or -1 */
    bool *elsewhere;       /* indexed by zr_value: whether an op of another unit reads the value */
    /* for each unit: whether its backward ops read its parameters, so that stage 3 gathers them in the backward pass
     * anyway */
    bool *whole;
} readers;

static void find_readers(const zr_graph *g, const bool *dropped, readers *r)
{
    for (int32_t v = 0; v < zr_graph_values(g); v++) r->first[v] = r->last[v] = -1;
    for (int32_t i = 0; i < zr_graph_ops(g); i++) {
        const zr_op *op = zr_graph_get_op(g, i);
        for (int j = 0; j < op->n_in; j++) {
            zr_value in = op->in[j];
            if (in == ZR_NONE) continue;
            const zr_value_info *v = zr_graph_value(g, in);
            if (v->unit != op->unit) r->elsewhere[in] = true;
            /* If a gather's output is dropped, the gather is replayed before this op. Its operand must be available
             * then. */
            if (op->backward && dropped[in] && gathers_tokens(g, v)) {
                in = zr_graph_get_op(g, v->producer)->in[0];
                v = zr_graph_value(g, in);
            }
            if (!op->backward) continue;
            if (r->first[in] < 0) r->first[in] = i;
            r->last[in] = i;
            if (v->kind == ZR_VALUE_PARAM && v->unit == op->unit) r->whole[op->unit] = true;
        }
    }
}

/* Return whether an output of `op` may be recomputed for backward ops [first, last] although another unit reads it.
 * These ops must be of one unit, in which the replay then runs. Neither this unit nor the unit of `op` may have a
 * recompute policy, since the policy would store the output as a checkpoint. */
static bool may_cross(const zr_plan *plan, const zr_graph *g, const zr_op *op, int32_t first, int32_t last)
{
    const int32_t unit = zr_graph_get_op(g, first)->unit;
    return plan->layout.sequence == ZR_SEQUENCE_OFF && unit == zr_graph_get_op(g, last)->unit &&
           plan->unit[unit].recompute == ZR_RECOMPUTE_NONE && plan->unit[op->unit].recompute == ZR_RECOMPUTE_NONE;
}

/* Return the backward op before which `op` would be recomputed, or -1 if recompute does not pay. It pays only if the
 * backward pass reads more than half of the bytes that `op` writes. For example, a norm is not recomputed if the
 * backward pass reads only its two statistics per row. */
static int32_t wanted_at(const zr_plan *plan, const zr_graph *g, const zr_op *op, const readers *r)
{
    double written = 0, read = 0; /* double instead of int64_t, since impossibly large sizes are rejected only later */
    int32_t at = -1;
    for (int j = 0; j < op->n_out; j++) {
        zr_value out = op->out[j];
        double bytes = (double)zr__value_bytes(zr_graph_value(g, out));
        written += bytes;
        if (r->first[out] < 0) continue;
        if (r->elsewhere[out] && !may_cross(plan, g, op, r->first[out], r->last[out])) return -1;
        read += bytes;
        if (at < 0 || r->first[out] < at) at = r->first[out];
    }
    return 2 * read > written ? at : -1;
}

/* Return whether a parameter of `unit` that `op` reads is available at backward op `at` without a gather for the replay
 * alone. It must be a parameter of the unit of `op`, whose backward ops read parameters too. And `at` must be of this
 * unit, or the unit must not be gathered. */
static bool is_whole(const zr_plan *plan, const zr_graph *g, const zr_op *op, const readers *r, int32_t unit,
                     int32_t at)
{
    if (unit != op->unit) return false;
    return r->whole[unit] && (zr_graph_get_op(g, at)->unit == unit || !plan->unit[unit].gathered);
}

/* Return whether all operands of `op` are in memory at backward op `at` without a replay. Dropped operands are not.
 * Therefore no replay depends on another replay, and no value has to be stored longer because another value is dropped.
 */
static bool has_operands(const zr_plan *plan, const zr_graph *g, const zr_op *op, const readers *r, const bool *dropped,
                         int32_t at)
{
    for (int j = 0; j < op->n_in; j++) {
        zr_value in = op->in[j];
        if (in == ZR_NONE) continue;
        const zr_value_info *v = zr_graph_value(g, in);
        bool there = v->kind == ZR_VALUE_PARAM ? is_whole(plan, g, op, r, v->unit, at) : r->last[in] >= at;
        if (!there || dropped[in]) return false;
    }
    return true;
}

static void drop_cheap(const zr_plan *plan, const zr_graph *g, const readers *r, bool *dropped)
{
    int32_t last = last_unit(g);
    for (int32_t i = 0; i < zr_graph_ops(g); i++) {
        const zr_op *op = zr_graph_get_op(g, i);
        if (op->backward || !op->def->cheap || op->unit == last) continue;
        if (plan->unit[op->unit].recompute == ZR_RECOMPUTE_KEEP) continue;
        int32_t at = wanted_at(plan, g, op, r);
        if (at < 0 || !has_operands(plan, g, op, r, dropped, at)) continue;
        for (int j = 0; j < op->n_out; j++) dropped[op->out[j]] = true;
    }
}

zr_status zr__find_dropped(const zr_plan *plan, const zr_graph *g, bool *dropped)
{
    size_t units = (size_t)plan->n_units, values = (size_t)zr_graph_values(g);
    ZR_AUTO_FREE int64_t *input_bytes = zr_alloc(sizeof *input_bytes * (units + 1));
    /* One allocation holds the group numbers and then the two index tables of `readers`. */
    ZR_AUTO_FREE int32_t *index = zr_alloc(sizeof *index * (units + 2 * values + 1));
    ZR_AUTO_FREE bool *flag = zr_alloc(sizeof *flag * (units + values + 1));
    ZR_CHECK(input_bytes && index && flag, ZR_ERR_MEMORY, "no memory to choose which of %zu values are recomputed",
             values);
    readers r = {index + units, index + units + values, flag + units, flag};
    find_groups(plan, index);
    find_inputs(plan, g, input_bytes);
    drop_by_policy(plan, g, index, input_bytes, dropped);
    find_readers(g, dropped, &r);
    drop_cheap(plan, g, &r, dropped);
    return ZR_OK;
}
