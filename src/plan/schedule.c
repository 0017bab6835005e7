/*
 * The schedules. Ops of one unit that follow each other are a segment; a segment gathers the units
 * it reads (stage 3) and, when it holds the last contribution to a unit's gradient, reduces that
 * unit. So GPT-2's blocks are gathered twice (forward, backward), the embedding twice (look-up; head
 * forward and backward, which are one segment) and the final norm once.
 */
#include "plan/internal.h"

#include <string.h>

typedef struct segment {
    int32_t first_op, end_op;
    int32_t end_step; /* last compute step, -1: not written yet */
} segment;

typedef struct writing {
    zr__writer w;
    zr_schedule_kind kind;
    segment *segment;
    int32_t n_segments;
    int32_t *last_use;    /* value -> last op that reads it; n_ops: needed after the last op; -1 */
    int32_t *unit_buffer; /* unit -> whole parameters for the current segment */
    int32_t *next_buffer; /* the same for the segment gathered ahead, ZR_NONE: not gathered */
    int32_t *gathered;    /* unit -> last gather step of unit_buffer */
    int32_t *next_gathered;
    int32_t *grad_buffer; /* unit -> whole gradient of this micro-batch, ZR_NONE: not begun */
    int32_t *grad_end;    /* unit -> segment that completes its gradient */
} writing;

static void find_segments(writing *s)
{
    const zr_graph *g = s->w.graph;
    int32_t unit = -1;
    for (int32_t op = 0; op < zr_graph_ops(g); op++) {
        int32_t its = zr_graph_get_op(g, op)->unit;
        if (s->n_segments == 0 || (its >= 0 && its != unit)) {
            s->segment[s->n_segments++] = (segment){.first_op = op, .end_step = -1};
            if (its >= 0) unit = its;
        }
        s->segment[s->n_segments - 1].end_op = op + 1;
    }
}

/* Lifetimes of values, and the segment in which each unit's gradient is complete. */
static void find_uses(writing *s)
{
    const zr_graph *g = s->w.graph;
    int32_t seg = 0, n_ops = zr_graph_ops(g);
    for (int32_t u = 0; u < s->w.plan->n_units; u++) s->grad_end[u] = s->n_segments - 1;
    for (int32_t v = 0; v < zr_graph_values(g); v++) s->last_use[v] = -1;
    for (int32_t i = 0; i < n_ops; i++) {
        const zr_op *op = zr_graph_get_op(g, i);
        if (i >= s->segment[seg].end_op) seg++;
        for (int j = 0; j < op->n_in; j++)
            if (op->in[j] != ZR_NONE) s->last_use[op->in[j]] = i;
        for (int j = 0; j < op->n_out; j++) {
            const zr_value_info *v = zr_graph_value(g, op->out[j]);
            if (v->kind == ZR_VALUE_GRAD) s->grad_end[zr_graph_param(g, v->param)->unit] = seg;
        }
    }
    if (zr_graph_get_losses(g) != ZR_NONE) s->last_use[zr_graph_get_losses(g)] = n_ops;
    if (zr_graph_get_output(g) != ZR_NONE) s->last_use[zr_graph_get_output(g)] = n_ops;
}

/* Gather what segment `index` reads, in order of use, into buffers of its own. It may begin once the
 * segment before the running one has ended: at most two segments' units are whole at a time. */
static void gather_segment(writing *s, int32_t index, int32_t *buffer, int32_t *gathered)
{
    zr__writer *w = &s->w;
    int32_t before = index - (w->plan->layout.prefetch ? 2 : 1);
    int32_t wait = before >= 0 ? s->segment[before].end_step : -1;
    for (int32_t u = 0; u < w->plan->n_units; u++) buffer[u] = ZR_NONE;
    for (int32_t i = s->segment[index].first_op; i < s->segment[index].end_op; i++) {
        const zr_op *op = zr_graph_get_op(w->graph, i);
        for (int j = 0; j < op->n_in; j++) {
            const zr_value_info *v = op->in[j] == ZR_NONE ? NULL : zr_graph_value(w->graph, op->in[j]);
            int32_t u = v && v->kind == ZR_VALUE_PARAM ? zr_graph_param(w->graph, v->param)->unit : -1;
            if (u < 0 || buffer[u] != ZR_NONE || w->status != ZR_OK) continue;
            int64_t bytes = w->plan->unit[u].padded_elems * zr_dtype_bytes(w->plan->layout.dtype);
            buffer[u] = zr__writer_buffer(w, ZR_PARAM, u, "gathered parameters", bytes);
            gathered[u] = zr__write_gather(w, u, buffer[u], wait);
        }
    }
}

static void gather_for(writing *s, int32_t index)
{
    if (!s->w.plan->shard_param) return;
    bool ahead = s->w.plan->layout.prefetch;
    if (index == 0 || !ahead) {
        gather_segment(s, index, s->unit_buffer, s->gathered);
    } else {
        size_t bytes = (size_t)s->w.plan->n_units * sizeof(int32_t);
        memcpy(s->unit_buffer, s->next_buffer, bytes);
        memcpy(s->gathered, s->next_gathered, bytes);
    }
    if (ahead && index + 1 < s->n_segments) gather_segment(s, index + 1, s->next_buffer, s->next_gathered);
}

/* The whole gradient of a unit in this micro-batch. */
static int32_t unit_gradient(writing *s, int32_t unit)
{
    const zr_plan *plan = s->w.plan;
    if (s->grad_buffer[unit] == ZR_NONE) {
        int64_t bytes = plan->unit[unit].padded_elems * zr_dtype_bytes(plan->layout.wire_dtype);
        s->grad_buffer[unit] =
            plan->shard_grad ? zr__writer_buffer(&s->w, ZR_GRAD, unit, "unit gradient", bytes) : plan->unit[unit].grad;
    }
    return s->grad_buffer[unit];
}

/* The place of the input that output `out` may take over, ZR_NONE: there is none. The input must be of this size, die
 * here, be no other operand as well, and not have been given to an earlier output. */
static int32_t donated(const writing *s, int32_t index, int out, int64_t bytes)
{
    const zr_graph *g = s->w.graph;
    const zr_op *op = zr_graph_get_op(g, index);
    int donor = op->def->in_place[out] - 1;
    if (donor < 0 || donor >= op->n_in || op->in[donor] == ZR_NONE || s->last_use[op->in[donor]] != index)
        return ZR_NONE;
    for (int j = 0; j < op->n_in; j++)
        if (j != donor && op->in[j] == op->in[donor]) return ZR_NONE;
    for (int j = 0; j < out; j++)
        if (op->def->in_place[j] == op->def->in_place[out]) return ZR_NONE;
    const zr_value_info *d = zr_graph_value(g, op->in[donor]);
    bool fits = d->kind == ZR_VALUE_ACT && zr_shape_elems(&d->type.shape) * zr_dtype_bytes(d->type.dtype) == bytes;
    return fits ? s->w.schedule->value_buffer[op->in[donor]] : ZR_NONE;
}

/* A new value's place: a view of its unit's gradient, the place of an input that dies here, or its own. */
static int32_t place_output(writing *s, int32_t index, int out)
{
    zr__writer *w = &s->w;
    const zr_op *op = zr_graph_get_op(w->graph, index);
    zr_value value = op->out[out];
    const zr_value_info *v = zr_graph_value(w->graph, value);
    int64_t bytes = zr_shape_elems(&v->type.shape) * zr_dtype_bytes(v->type.dtype);
    if (v->kind == ZR_VALUE_GRAD) {
        const zr_param_info *p = zr_graph_param(w->graph, v->param);
        w->schedule->value_offset[value] = p->unit_offset * zr_dtype_bytes(w->plan->layout.wire_dtype);
        return unit_gradient(s, p->unit);
    }
    int32_t place = donated(s, index, out, bytes);
    zr_category category = v->param >= 0 ? ZR_GRAD : ZR_ACT; /* a part of a parameter's gradient, or an activation */
    return place != ZR_NONE ? place : zr__writer_buffer(w, category, op->unit, op->def->name, bytes);
}

static void write_inputs_of(writing *s, const zr_op *op)
{
    zr__writer *w = &s->w;
    for (int j = 0; j < op->n_in; j++) {
        int32_t buffer = ZR_NONE;
        if (op->in[j] != ZR_NONE) {
            const zr_value_info *v = zr_graph_value(w->graph, op->in[j]);
            buffer = w->schedule->value_buffer[op->in[j]];
            if (v->kind == ZR_VALUE_PARAM) {
                int32_t unit = zr_graph_param(w->graph, v->param)->unit;
                buffer = w->plan->shard_param ? s->unit_buffer[unit] : w->plan->unit[unit].param;
                if (w->plan->shard_param) zr__writer_wait(w, s->gathered[unit]);
            }
        }
        zr__writer_use(w, buffer, true,
                       buffer >= 0 && w->plan->n_persistent > buffer && w->schedule->buffer[buffer].category == ZR_ACT);
    }
}

static void write_op(writing *s, int32_t index)
{
    zr__writer *w = &s->w;
    const zr_op *op = zr_graph_get_op(w->graph, index);
    zr__writer_step(w, ZR_STEP_RUN, ZR_STREAM_COMPUTE, op->unit, index);
    write_inputs_of(s, op);
    for (int j = 0; j < op->n_out; j++) {
        int32_t buffer = w->status == ZR_OK ? place_output(s, index, j) : -1;
        w->schedule->value_buffer[op->out[j]] = buffer;
        zr__writer_use(w, buffer, false, true);
    }
    int64_t scratch = op->def->scratch_bytes ? op->def->scratch_bytes(w->graph, op, &w->plan->profile) : 0;
    if (scratch > 0) zr__writer_use(w, zr__writer_buffer(w, ZR_WORK, op->unit, "scratch", scratch), true, true);

    zr_value losses = zr_graph_get_losses(w->graph);
    if (losses != ZR_NONE && zr_graph_value(w->graph, losses)->producer == index) {
        zr__writer_step(w, ZR_STEP_LOSS, ZR_STREAM_COMPUTE, op->unit, -1);
        zr__writer_use(w, w->schedule->value_buffer[losses], true, false);
    }
}

static void write_batch(writing *s)
{
    zr__writer *w = &s->w;
    zr__writer_step(w, ZR_STEP_BATCH, ZR_STREAM_COMPUTE, -1, -1);
    for (int32_t i = 0; i < zr_graph_inputs(w->graph); i++) {
        zr_value input = zr_graph_input(w->graph, i);
        const zr_type *type = &zr_graph_value(w->graph, input)->type;
        int64_t bytes = zr_shape_elems(&type->shape) * zr_dtype_bytes(type->dtype);
        w->schedule->value_buffer[input] = zr__writer_buffer(w, ZR_ACT, -1, "input", bytes);
        zr__writer_use(w, w->schedule->value_buffer[input], false, true);
    }
}

static void write_segments(writing *s)
{
    zr__writer *w = &s->w;
    for (int32_t i = 0; i < s->n_segments; i++) {
        gather_for(s, i);
        for (int32_t op = s->segment[i].first_op; op < s->segment[i].end_op; op++) write_op(s, op);
        s->segment[i].end_step = w->last[ZR_STREAM_COMPUTE];
        if (s->kind != ZR_TRAIN) continue;
        for (int32_t u = 0; u < w->plan->n_units; u++)
            if (s->grad_end[u] == i && w->plan->unit[u].elems > 0) zr__write_reduce(w, u, unit_gradient(s, u));
    }
}

/* What decoding returns is read after the last step. */
static void keep_output(writing *s)
{
    const zr_schedule *schedule = s->w.schedule;
    zr_value output = zr_graph_get_output(s->w.graph);
    if (s->kind != ZR_DECODE || output == ZR_NONE || s->w.status != ZR_OK) return;
    schedule->buffer[schedule->value_buffer[output]].last_step = schedule->n_steps - 1;
}

/* Once a step: agree on norm and health, then update what this rank owns. */
static void write_update(writing *s)
{
    zr__writer *w = &s->w;
    const zr_plan *plan = w->plan;
    if (plan->layout.accum > 1 && !plan->shard_optim && plan->stage_buffer != ZR_NONE)
        for (int32_t u = 0; u < plan->n_units; u++) zr__write_gather_grad(w, u, plan->unit[u].accum, -1);
    zr__writer_step(w, ZR_STEP_NORM, ZR_STREAM_COMPUTE, -1, -1);
    zr__writer_wait(w, w->last[ZR_STREAM_COMM]);
    for (int32_t u = 0; u < plan->n_units; u++)
        zr__writer_use(w, plan->layout.accum > 1 ? plan->unit[u].accum : plan->unit[u].grad, true, false);
    for (int32_t u = 0; u < plan->n_units; u++) {
        const zr_plan_unit *unit = &plan->unit[u];
        zr__writer_step(w, ZR_STEP_UPDATE, ZR_STREAM_COMPUTE, u, -1);
        zr__writer_range(w, 0, plan->shard_optim ? unit->shard_elems : unit->padded_elems);
        zr__writer_use(w, plan->layout.accum > 1 ? unit->accum : unit->grad, true, false);
        if (unit->master != ZR_NONE) zr__writer_use(w, unit->master, true, true);
        for (int i = 0; i < plan->layout.optimizer.n_slots; i++) zr__writer_use(w, unit->slot[i], true, true);
        zr__writer_use(w, unit->param, true, true);
    }
}

static zr_status writing_begin(writing *s, zr_plan *plan, zr_schedule_kind kind)
{
    const zr_graph *g = plan->graph[kind];
    zr_schedule *schedule = &plan->schedule[kind];
    size_t units = (size_t)plan->n_units, values = (size_t)zr_graph_values(g);
    s->kind = kind;
    ZR_TRY(zr__writer_begin(&s->w, plan, g, schedule));
    s->segment = zr_alloc(sizeof *s->segment * (size_t)(zr_graph_ops(g) + 1));
    s->last_use = zr_alloc(sizeof(int32_t) * (values + 6 * units));
    schedule->value_buffer = zr_alloc(sizeof *schedule->value_buffer * (values + 1));
    schedule->value_offset = zr_alloc(sizeof *schedule->value_offset * (values + 1));
    ZR_CHECK(s->segment && s->last_use && schedule->value_buffer && schedule->value_offset, ZR_ERR_MEMORY,
             "no memory to plan %zu values", values);
    s->unit_buffer = s->last_use + values;
    s->next_buffer = s->unit_buffer + units;
    s->gathered = s->next_buffer + units;
    s->next_gathered = s->gathered + units;
    s->grad_buffer = s->next_gathered + units;
    s->grad_end = s->grad_buffer + units;
    for (size_t u = 0; u < units; u++) s->grad_buffer[u] = ZR_NONE;
    for (size_t v = 0; v < values; v++) schedule->value_buffer[v] = ZR_NONE;
    for (int32_t p = 0; p < zr_graph_params(g); p++) {
        const zr_param_info *param = zr_graph_param(g, p);
        schedule->value_offset[param->value] = param->unit_offset * zr_dtype_bytes(plan->layout.dtype);
    }
    if (kind != ZR_DECODE) return ZR_OK;
    for (int32_t b = 0, v = 0; b < plan->n_persistent; b++) { /* caches, in the graph's order */
        if (plan->persistent[b].category != ZR_ACT) continue;
        while (zr_graph_value(g, v)->kind != ZR_VALUE_CACHE) v++;
        schedule->value_buffer[v++] = b;
    }
    return ZR_OK;
}

zr_status zr__write_graph(zr_plan *plan, zr_schedule_kind kind)
{
    writing s = {0};
    zr_status st = ZR_OK;
    ZR_TRY_GOTO(st, writing_begin(&s, plan, kind), done);
    find_segments(&s);
    find_uses(&s);
    if (kind == ZR_TRAIN) zr__writer_step(&s.w, ZR_STEP_REPEAT, ZR_STREAM_COMPUTE, -1, -1);
    write_batch(&s);
    write_segments(&s);
    keep_output(&s);
    if (kind == ZR_TRAIN) {
        zr__writer_step(&s.w, ZR_STEP_END, ZR_STREAM_COMPUTE, -1, -1);
        write_update(&s);
    }
    int64_t bytes = 0;
    ZR_TRY_GOTO(st, s.w.status, done);
    ZR_TRY_GOTO(st, zr__pack(plan, &plan->schedule[kind], s.w.clock, &bytes), done);
    if (bytes > plan->arena_bytes) plan->arena_bytes = bytes;
done:
    zr__writer_end(&s.w);
    zr_free(s.segment);
    zr_free(s.last_use);
    return st;
}

/* Stages 1 and 2: the parameters that others updated, unit by unit in order of use. */
zr_status zr__write_flush(zr_plan *plan)
{
    zr__writer w;
    ZR_TRY(zr__writer_begin(&w, plan, NULL, &plan->schedule[ZR_FLUSH]));
    if (plan->shard_optim && !plan->shard_param && plan->stage_buffer != ZR_NONE)
        for (int32_t u = 0; u < plan->n_units; u++) zr__write_gather(&w, u, plan->unit[u].param, -1);
    return zr__writer_end(&w);
}
