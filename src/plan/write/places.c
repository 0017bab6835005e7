/* Chooses the buffers of an op's operands and outputs. An output may be written into its unit's gradient. It may also
 * reuse the buffer of an input if this op is the last to use the input. Otherwise the output gets its own buffer. */
#include "plan/write/write.h"

/* Return the size in bytes of a value's buffer. If the value may be stored in pieces, the size includes the padding of
 * the last rank's piece. */
static int64_t room_of(const zr_plan *plan, const zr_value_info *v)
{
    const bool pieces = plan->partition_checkpoints && v->kind == ZR_VALUE_ACT && !v->cut && !v->tokens;
    return pieces ? zr_dtype_span(v->type.dtype, zr__piece_elems(plan, v) * zr__cut_ranks(plan)) : zr__value_bytes(v);
}

zr_use zr__use_value(const zr_graph *g, zr_value value, int32_t buffer, bool reads, bool writes)
{
    const zr_value_info *v = zr_graph_value(g, value);
    zr_use use = {buffer, v->type.dtype, reads, writes, .range = {.count = zr_shape_elems(&v->type.shape)}};
    bool in_unit = v->kind == ZR_VALUE_PARAM || v->kind == ZR_VALUE_GRAD;
    if (in_unit) use.range.first = zr_graph_param(g, v->param)->unit_offset;
    return use;
}

int32_t zr__unit_gradient(zr__writing *w, int32_t unit)
{
    const zr_plan *plan = w->list.plan;
    if (w->now->grad_buffer[unit] == ZR_NONE) {
        int64_t bytes = zr_dtype_span(plan->layout.wire_dtype, plan->unit[unit].padded_elems);
        w->now->grad_buffer[unit] =
            zr__grad_transient(plan)
                ? zr__list_buffer(&w->list, ZR_SPACE_DEVICE, ZR_CATEGORY_GRAD, unit, "unit gradient", bytes)
                : plan->unit[unit].grad.buffer;
    }
    return w->now->grad_buffer[unit];
}

/* Return the buffer of the input that output `out` may overwrite, or ZR_NONE. The input must have the size of the
 * output and be only one operand of this op, which must be its last user. No earlier output of the op may overwrite the
 * same input. */
static int32_t donated(const zr__writing *w, int32_t run, int out)
{
    const zr_graph *g = w->list.graph;
    const zr_op *op = zr__op_of(&w->decided, run);
    int donor = op->def->in_place[out] - 1;
    if (donor < 0 || donor >= op->n_in || op->in[donor] == ZR_NONE) return ZR_NONE;
    int32_t given = w->now->instance[op->in[donor]];
    if (given < 0 || w->decided.last_use[given] != run) return ZR_NONE;
    for (int j = 0; j < op->n_in; j++)
        if (j != donor && op->in[j] == op->in[donor]) return ZR_NONE;
    for (int j = 0; j < out; j++)
        if (op->def->in_place[j] == op->def->in_place[out]) return ZR_NONE;
    const zr_value_info *d = zr_graph_value(g, op->in[donor]), *v = zr_graph_value(g, op->out[out]);
    const zr_plan *plan = w->list.plan;
    const bool fits = zr__value_bytes(d) == zr__value_bytes(v) && room_of(plan, d) >= room_of(plan, v);
    return d->kind == ZR_VALUE_ACT && fits ? w->now->place[given] : ZR_NONE;
}

/* Return whether output `out` of `run` can be written directly into the buffer of a parameter's gradient. It must be a
 * part of this gradient, and its only reader must be the op that adds the remaining part in place. */
static bool grows_in_place(const zr__writing *w, int32_t run, int out)
{
    const zr_graph *g = w->list.graph;
    zr_value value = zr__op_of(&w->decided, run)->out[out];
    const zr_value_info *v = zr_graph_value(g, value);
    int32_t last = w->decided.last_use[w->decided.made[run] + out];
    if (v->param < 0 || v->type.dtype != w->list.plan->layout.wire_dtype || last < 0 || last >= w->decided.program.n)
        return false;
    const zr_op *reader = zr__op_of(&w->decided, last);
    if (!reader) return false;
    int donor = reader->def->in_place[0] - 1;
    const zr_value_info *whole = zr_graph_value(g, reader->out[0]);
    if (donor < 0 || donor >= reader->n_in || reader->in[donor] != value || whole->kind != ZR_VALUE_GRAD ||
        whole->param != v->param)
        return false;
    int reads = 0;
    for (int32_t i = run + 1; i <= last; i++) {
        const zr_op *op = zr__op_of(&w->decided, i);
        for (int j = 0; op && j < op->n_in; j++) reads += op->in[j] == value;
    }
    return reads == 1;
}

zr_use zr__place_output(zr__writing *w, zr__id step, int32_t run, int out)
{
    zr__list *l = &w->list;
    const zr_op *op = zr__op_of(&w->decided, run);
    zr_value value = op->out[out];
    const zr_value_info *v = zr_graph_value(l->graph, value);
    zr_use use = zr__use_value(l->graph, value, ZR_NONE, false, true);
    if (v->kind == ZR_VALUE_GRAD || grows_in_place(w, run, out)) {
        const zr_param_info *param = zr_graph_param(l->graph, v->param);
        use.range.first = param->unit_offset;
        /* Let the first op that writes a unit's gradient wait for an earlier reduction. Otherwise the gradients of all
         * units could be in memory at the same time. */
        if (w->now->grad_buffer[param->unit] == ZR_NONE && zr__grad_transient(l->plan))
            zr__list_pace(l, step, l->reduced[l->plan->layout.overlap]);
        use.buffer = zr__unit_gradient(w, param->unit);
        return use;
    }
    /* GRAD for a contribution to a parameter's gradient, ACT for an activation */
    zr_category category = v->param >= 0 ? ZR_CATEGORY_GRAD : ZR_CATEGORY_ACT;
    if (w->decided.checkpoint[w->decided.made[run] + out]) category = ZR_CATEGORY_CHECKPOINT;
    use.buffer = donated(w, run, out);
    if (use.buffer == ZR_NONE || l->schedule->buffer[use.buffer].category != category)
        use.buffer = zr__list_buffer(l, ZR_SPACE_DEVICE, category, op->unit, op->def->name, room_of(l->plan, v));
    return use;
}

zr_use zr__place_input(const zr__writing *w, zr_value value)
{
    const zr_graph *g = w->list.graph;
    if (value == ZR_NONE) return zr__use_all(ZR_NONE, true, false);
    int32_t buffer = ZR_NONE, unit = zr__param_unit(g, value), instance = w->now->instance[value];
    bool cache = zr_graph_value(g, value)->kind == ZR_VALUE_CACHE;
    if (unit >= 0 && w->list.plan->unit[unit].gathered)
        buffer = w->gathers.fetch[w->gathers.of[unit]].buffer;
    else if (unit >= 0)
        buffer = w->list.plan->unit[unit].param.buffer;
    else if (cache)
        buffer = w->list.schedule->value[value].buffer;
    else if (instance >= 0)
        buffer = w->now->place[instance];
    zr_use use = zr__use_value(g, value, buffer, true, cache);
    if (instance >= 0) use.range.first = w->list.schedule->value[value].range.first;
    return use;
}
