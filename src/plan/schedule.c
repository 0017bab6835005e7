/*
 * The schedules. Runs of one unit that follow each other in the program are a segment; a segment gathers the
 * units it reads (stage 3) and, when it holds the last contribution to a unit's gradient, reduces that
 * unit. So GPT-2's blocks are gathered twice (forward, backward), the embedding twice (look-up; head
 * forward and backward, which are one segment) and the final norm once.
 *
 * A value that is computed again has a place for each time it is written: an instance, numbered in the
 * order of writing. Lifetimes and places are kept by instance.
 */
#include "plan/internal.h"

#include <string.h>

typedef struct segment {
    int32_t first, end; /* runs of the program */
    int pass;
    int32_t end_step; /* last compute step, -1: not written yet */
} segment;

typedef struct writing {
    zr__writer w;
    zr_schedule_kind kind;
    zr__program program;
    zr__gathers gathers;
    segment *segment;
    int32_t n_segments;
    int32_t *instance; /* value -> its newest instance, -1: not written */
    int32_t n_instances;
    int32_t *last_use;    /* instance -> last run that reads it; the program's end: needed after it; -1 */
    bool *checkpoint;     /* instance -> written by the forward pass and read by a replay that the policy asks for */
    int32_t *place;       /* instance -> buffer */
    int32_t *grad_buffer; /* unit -> whole gradient of this pass, ZR_NONE: not begun */
    int32_t *reduce_at;   /* unit -> segment at whose end it is reduced in this pass */
    int32_t *first_due;   /* segment -> the first unit that is reduced at its end, ZR_NONE; then by next_due */
    int32_t *next_due;
    int32_t *moved;     /* unit -> the step after which its sums are there, -1: at once */
    int32_t *refreshed; /* unit -> the step after which it is what all ranks have updated, -1: always */
    bool pending;       /* the units reduced at the end of the segment before are still to be consumed */
} writing;

static const zr_op *op_of(const writing *s, int32_t run)
{
    return zr_graph_get_op(s->w.graph, s->program.run[run].op);
}

static void find_segments(writing *s)
{
    int32_t unit = -1;
    int pass = 0;
    for (int32_t i = 0; i < s->program.n; i++) {
        int32_t its = op_of(s, i)->unit;
        bool turn = i == s->program.pass_end[pass];
        pass += turn;
        if (s->n_segments == 0 || its != unit || turn)
            s->segment[s->n_segments++] = (segment){.first = i, .pass = pass, .end_step = -1};
        unit = its;
        s->segment[s->n_segments - 1].end = i + 1;
    }
}

/* ---- lifetimes ------------------------------------------------------------------------------- */

static void forget_instances(writing *s)
{
    s->n_instances = 0;
    for (int32_t v = 0; v < zr_graph_values(s->w.graph); v++) s->instance[v] = -1;
    for (int32_t i = 0; i < zr_graph_inputs(s->w.graph); i++)
        s->instance[zr_graph_input(s->w.graph, i)] = s->n_instances++;
}

/* Parameters and caches have none. */
static int32_t instance_of(const writing *s, zr_value value)
{
    return value == ZR_NONE ? -1 : s->instance[value];
}

static void find_lifetimes(writing *s)
{
    const zr_graph *g = s->w.graph;
    forget_instances(s);
    const int32_t inputs = s->n_instances;
    int32_t forward = inputs; /* instances below it, but the inputs, are the forward pass's */
    for (int32_t i = 0; i < s->n_instances; i++) s->last_use[i] = -1;
    for (int32_t i = 0; i < s->program.n; i++) {
        const zr_op *op = op_of(s, i);
        bool by_policy =
            s->program.run[i].role == ZR__REPLAY && s->w.plan->unit[op->unit].recompute != ZR_RECOMPUTE_NONE;
        for (int j = 0; j < op->n_in; j++) {
            int32_t read = instance_of(s, op->in[j]);
            if (read < 0) continue;
            s->last_use[read] = i;
            if (by_policy && read >= inputs && read < forward) s->checkpoint[read] = true;
        }
        for (int j = 0; j < op->n_out; j++) {
            s->last_use[s->n_instances] = -1;
            s->instance[op->out[j]] = s->n_instances++;
        }
        if (s->program.run[i].role == ZR__FORWARD) forward = s->n_instances;
    }
    int32_t losses = instance_of(s, zr_graph_get_losses(g)), output = instance_of(s, zr_graph_get_output(g));
    if (losses >= 0) s->last_use[losses] = s->program.n;
    if (output >= 0) s->last_use[output] = s->program.n;
}

/* ---- gathers and reductions ------------------------------------------------------------------ */

static int32_t param_unit(const zr_graph *g, zr_value value)
{
    const zr_value_info *v = value == ZR_NONE ? NULL : zr_graph_value(g, value);
    return v && v->kind == ZR_VALUE_PARAM ? zr_graph_param(g, v->param)->unit : -1;
}

static void find_gathers(writing *s)
{
    for (int32_t k = 0; k < s->n_segments; k++)
        for (int32_t i = s->segment[k].first; i < s->segment[k].end; i++)
            for (int j = 0; j < op_of(s, i)->n_in; j++) {
                int32_t unit = param_unit(s->w.graph, op_of(s, i)->in[j]);
                if (unit >= 0) zr__gathers_add(&s->gathers, s->w.plan, k, unit);
            }
}

/* A unit is reduced when its gradient is whole; where it is updated then, no later segment may still read it. */
static void find_reductions(writing *s, int pass)
{
    const zr_plan *plan = s->w.plan;
    int32_t last = 0;
    for (int32_t k = 0; k < s->n_segments; k++)
        if (s->segment[k].pass == pass) last = k;
    for (int32_t u = 0; u < plan->n_units; u++) s->reduce_at[u] = -1;
    for (int32_t k = 0; k <= last; k++)
        for (int32_t i = s->segment[k].first; s->segment[k].pass == pass && i < s->segment[k].end; i++) {
            const zr_op *op = op_of(s, i);
            for (int j = 0; j < op->n_in && plan->consume_grad; j++) {
                int32_t unit = param_unit(s->w.graph, op->in[j]);
                if (unit >= 0 && s->reduce_at[unit] >= 0) s->reduce_at[unit] = k;
            }
            for (int j = 0; j < op->n_out; j++) {
                const zr_value_info *v = zr_graph_value(s->w.graph, op->out[j]);
                if (v->kind == ZR_VALUE_GRAD) s->reduce_at[zr_graph_param(s->w.graph, v->param)->unit] = k;
            }
        }
    for (int32_t k = 0; k < s->n_segments; k++) s->first_due[k] = ZR_NONE;
    for (int32_t u = plan->n_units - 1; u >= 0; u--) {
        if (plan->unit[u].elems == 0) continue;
        if (s->reduce_at[u] < 0 || plan->layout.fused_buffer) s->reduce_at[u] = last;
        s->next_due[u] = s->first_due[s->reduce_at[u]];
        s->first_due[s->reduce_at[u]] = u;
    }
}

/* The whole gradient of a unit in this pass. */
static int32_t unit_gradient(writing *s, int32_t unit)
{
    const zr_plan *plan = s->w.plan;
    if (s->grad_buffer[unit] == ZR_NONE) {
        int64_t bytes = plan->unit[unit].padded_elems * zr_dtype_bytes(plan->layout.wire_dtype);
        s->grad_buffer[unit] = zr__grad_transient(plan)
                                   ? zr__writer_buffer(&s->w, ZR_GRAD, unit, "unit gradient", bytes)
                                   : plan->unit[unit].grad;
    }
    return s->grad_buffer[unit];
}

/* Lean: the units that were reduced at the end of `index` are updated, at the end of the next segment where they may
 * travel meanwhile. */
static void consume_units(writing *s, int32_t index)
{
    bool norm = s->segment[index].pass + 1 < s->program.passes;
    for (int32_t u = s->first_due[index]; u != ZR_NONE; u = s->next_due[u])
        zr__write_consume(&s->w, u, s->grad_buffer[u], s->moved[u], norm);
}

static void reduce_units(writing *s, int32_t index)
{
    zr__writer *w = &s->w;
    bool norm = s->segment[index].pass + 1 < s->program.passes, travels = w->plan->stage_buffer != ZR_NONE;
    bool last = index + 1 == s->n_segments || s->segment[index + 1].pass != s->segment[index].pass;
    /* First, or what all ranks agree on about the unit before would stand behind this one's way. */
    if (s->pending) consume_units(s, index - 1);
    for (int32_t u = s->first_due[index]; u != ZR_NONE && w->status == ZR_OK; u = s->next_due[u]) {
        zr__write_reduce(w, u, unit_gradient(s, u));
        s->moved[u] = norm ? -1 : zr__write_gather_sums(w, u, s->grad_buffer[u]); /* a norm is of shards */
        if (s->moved[u] < 0 && travels) s->moved[u] = w->reduced[0];
    }
    s->pending = w->plan->consume_grad && w->plan->layout.overlap && travels && !last;
    if (!s->pending) consume_units(s, index);
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* The place of the input that output `out` may take over, ZR_NONE: there is none. The input must be of this size, die
 * here, be no other operand as well, and not have been given to an earlier output. */
static int32_t donated(const writing *s, int32_t run, int out, int64_t bytes)
{
    const zr_graph *g = s->w.graph;
    const zr_op *op = op_of(s, run);
    int donor = op->def->in_place[out] - 1;
    int32_t given = donor >= 0 && donor < op->n_in ? instance_of(s, op->in[donor]) : -1;
    if (given < 0 || s->last_use[given] != run) return ZR_NONE;
    for (int j = 0; j < op->n_in; j++)
        if (j != donor && op->in[j] == op->in[donor]) return ZR_NONE;
    for (int j = 0; j < out; j++)
        if (op->def->in_place[j] == op->def->in_place[out]) return ZR_NONE;
    const zr_value_info *d = zr_graph_value(g, op->in[donor]);
    bool fits = d->kind == ZR_VALUE_ACT && zr_shape_elems(&d->type.shape) * zr_dtype_bytes(d->type.dtype) == bytes;
    return fits ? s->place[given] : ZR_NONE;
}

/* The place of a parameter's gradient, in its unit's. */
static int32_t place_gradient(writing *s, zr_value value, int32_t param)
{
    zr__writer *w = &s->w;
    const zr_param_info *p = zr_graph_param(w->graph, param);
    w->schedule->value_offset[value] = p->unit_offset * zr_dtype_bytes(w->plan->layout.wire_dtype);
    /* Else nothing would keep the gradients of all units from being on their way at once. */
    if (s->grad_buffer[p->unit] == ZR_NONE && zr__grad_transient(w->plan))
        zr__writer_wait(w, w->reduced[w->plan->layout.overlap]);
    return unit_gradient(s, p->unit);
}

/* Is this a part of a parameter's gradient to which its only reader adds the rest in place? Then it is made in the
 * gradient's place. `run` writes it. */
static bool grows_in_place(const writing *s, int32_t run, int out)
{
    zr_value value = op_of(s, run)->out[out];
    const zr_value_info *v = zr_graph_value(s->w.graph, value);
    int32_t last = s->last_use[s->n_instances + out];
    if (v->param < 0 || v->type.dtype != s->w.plan->layout.wire_dtype || last < 0 || last >= s->program.n) return false;
    const zr_op *reader = op_of(s, last);
    int donor = reader->def->in_place[0] - 1;
    const zr_value_info *whole = zr_graph_value(s->w.graph, reader->out[0]);
    if (donor < 0 || donor >= reader->n_in || reader->in[donor] != value || whole->kind != ZR_VALUE_GRAD ||
        whole->param != v->param)
        return false;
    int reads = 0;
    for (int32_t i = run + 1; i <= last; i++)
        for (int j = 0; j < op_of(s, i)->n_in; j++) reads += op_of(s, i)->in[j] == value;
    return reads == 1;
}

/* A new instance's place: a view of its unit's gradient, the place of an input that dies here, or its own. */
static int32_t place_output(writing *s, int32_t run, int out)
{
    zr__writer *w = &s->w;
    const zr_op *op = op_of(s, run);
    zr_value value = op->out[out];
    const zr_value_info *v = zr_graph_value(w->graph, value);
    int64_t bytes = zr_shape_elems(&v->type.shape) * zr_dtype_bytes(v->type.dtype);
    if (v->kind == ZR_VALUE_GRAD || grows_in_place(s, run, out)) return place_gradient(s, value, v->param);
    zr_category category = v->param >= 0 ? ZR_GRAD : ZR_ACT; /* a part of a parameter's gradient, or an activation */
    if (s->checkpoint[s->n_instances + out]) category = ZR_CHECKPOINT;
    int32_t place = donated(s, run, out, bytes);
    if (place != ZR_NONE && w->schedule->buffer[place].category == category) return place;
    return zr__writer_buffer(w, category, op->unit, op->def->name, bytes);
}

static void write_inputs_of(writing *s, const zr_op *op)
{
    zr__writer *w = &s->w;
    for (int j = 0; j < op->n_in; j++) {
        int32_t buffer = ZR_NONE, unit = param_unit(w->graph, op->in[j]), instance = instance_of(s, op->in[j]);
        bool cache = op->in[j] != ZR_NONE && zr_graph_value(w->graph, op->in[j])->kind == ZR_VALUE_CACHE;
        if (unit >= 0 && w->plan->unit[unit].gathered) {
            const zr__fetch *fetch = &s->gathers.fetch[s->gathers.of[unit]];
            buffer = fetch->buffer;
            zr__writer_wait(w, fetch->step);
        } else if (unit >= 0) {
            buffer = w->plan->unit[unit].param;
            zr__writer_wait(w, s->refreshed[unit]);
        } else if (cache) {
            buffer = w->schedule->value_buffer[op->in[j]];
        } else if (instance >= 0) {
            buffer = s->place[instance];
        }
        zr__writer_use(w, buffer, true, cache);
    }
}

/* Once a micro-batch: by the first run of the op that makes them, forward or backward. */
static void write_losses(writing *s, int32_t run)
{
    zr__writer *w = &s->w;
    zr_value losses = zr_graph_get_losses(w->graph);
    if (losses == ZR_NONE || s->program.run[run].role == ZR__REPLAY || run >= s->program.pass_end[0]) return;
    if (zr_graph_value(w->graph, losses)->producer != s->program.run[run].op) return;
    zr__writer_step(w, ZR_STEP_LOSS, ZR_STREAM_COMPUTE, op_of(s, run)->unit, -1);
    zr__writer_use(w, w->schedule->value_buffer[losses], true, false);
}

static void write_run(writing *s, int32_t run)
{
    zr__writer *w = &s->w;
    const zr_op *op = op_of(s, run);
    int32_t step = zr__writer_step(w, ZR_STEP_RUN, ZR_STREAM_COMPUTE, op->unit, s->program.run[run].op);
    if (w->status != ZR_OK) return;
    w->schedule->step[step].replay = s->program.run[run].role == ZR__REPLAY;
    write_inputs_of(s, op);
    int32_t buffer[ZR_OP_OUTS] = {0};
    for (int j = 0; j < op->n_out && w->status == ZR_OK; j++) {
        buffer[j] = place_output(s, run, j);
        zr__writer_use(w, buffer[j], false, true);
    }
    for (int j = 0; j < op->n_out && w->status == ZR_OK; j++) {
        w->schedule->value_buffer[op->out[j]] = s->place[s->n_instances] = buffer[j];
        s->instance[op->out[j]] = s->n_instances++;
    }
    int64_t scratch = zr_device_facts_scratch(&w->plan->profile.facts, w->graph, op);
    if (scratch > 0) zr__writer_use(w, zr__writer_buffer(w, ZR_WORK, op->unit, "scratch", scratch), true, true);
    write_losses(s, run);
}

static void write_batch(writing *s)
{
    zr__writer *w = &s->w;
    zr__writer_step(w, ZR_STEP_BATCH, ZR_STREAM_COMPUTE, -1, -1);
    forget_instances(s);
    for (int32_t i = 0; i < zr_graph_inputs(w->graph); i++) {
        zr_value input = zr_graph_input(w->graph, i);
        const zr_type *type = &zr_graph_value(w->graph, input)->type;
        int64_t bytes = zr_shape_elems(&type->shape) * zr_dtype_bytes(type->dtype);
        s->place[i] = w->schedule->value_buffer[input] = zr__writer_buffer(w, ZR_ACT, -1, "input", bytes);
        zr__writer_use(w, s->place[i], false, true);
    }
}

/* Stages 1 and 2: parameters that the step before has updated arrive unit by unit, ahead of their first use. */
static void refresh_units(writing *s)
{
    zr__writer *w = &s->w;
    for (int32_t u = 0; u < w->plan->n_units; u++) s->refreshed[u] = -1;
    if (s->kind != ZR_TRAIN) return;
    for (int32_t i = 0; i < s->program.n; i++) {
        const zr_op *op = op_of(s, i);
        for (int j = 0; j < op->n_in; j++) {
            int32_t unit = param_unit(w->graph, op->in[j]);
            if (unit >= 0 && s->refreshed[unit] < 0 && zr__refreshed(w->plan, unit))
                s->refreshed[unit] = zr__write_refresh(w, unit);
        }
    }
    for (int32_t u = 0; u < w->plan->n_units; u++) /* parameters that no op reads */
        if (s->refreshed[u] < 0 && zr__refreshed(w->plan, u)) s->refreshed[u] = zr__write_refresh(w, u);
}

static void write_segments(writing *s)
{
    zr__writer *w = &s->w;
    int pass = -1;
    for (int32_t i = 0; i < s->n_segments && w->status == ZR_OK; i++) {
        if (s->segment[i].pass != pass && s->kind == ZR_TRAIN) {
            if (pass >= 0) zr__write_norm(w);
            find_reductions(s, s->segment[i].pass);
            for (int32_t u = 0; u < w->plan->n_units; u++) s->grad_buffer[u] = ZR_NONE;
        }
        pass = s->segment[i].pass;
        zr__gathers_issue(&s->gathers, w, i, i > 0 ? s->segment[i - 1].end_step : -1);
        for (int32_t run = s->segment[i].first; run < s->segment[i].end; run++) write_run(s, run);
        s->segment[i].end_step = w->last[ZR_STREAM_COMPUTE];
        if (s->kind == ZR_TRAIN) reduce_units(s, i);
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

/* ---- beginning and end ------------------------------------------------------------------------ */

static zr_status take_tables(writing *s, const zr_graph *g, zr_schedule *schedule)
{
    size_t units = (size_t)s->w.plan->n_units, values = (size_t)zr_graph_values(g), runs = (size_t)s->program.n;
    size_t instances = (size_t)zr_graph_inputs(g) + runs * ZR_OP_OUTS;
    s->segment = zr_alloc(sizeof *s->segment * (runs + 1));
    s->instance = zr_alloc(sizeof(int32_t) * (values + 2 * instances + 5 * units + runs + 1));
    s->checkpoint = zr_alloc(instances + 1);
    schedule->value_buffer = zr_alloc(sizeof *schedule->value_buffer * (values + 1));
    schedule->value_offset = zr_alloc(sizeof *schedule->value_offset * (values + 1));
    ZR_CHECK(s->segment && s->instance && s->checkpoint && schedule->value_buffer && schedule->value_offset,
             ZR_ERR_MEMORY, "no memory to plan %zu values", values);
    s->last_use = s->instance + values;
    s->place = s->last_use + instances;
    s->grad_buffer = s->place + instances;
    s->reduce_at = s->grad_buffer + units;
    s->next_due = s->reduce_at + units;
    s->moved = s->next_due + units;
    s->refreshed = s->moved + units;
    s->first_due = s->refreshed + units;
    return ZR_OK;
}

static zr_status writing_begin(writing *s, zr_plan *plan, zr_schedule_kind kind)
{
    const zr_graph *g = plan->graph[kind];
    zr_schedule *schedule = &plan->schedule[kind];
    s->kind = kind;
    ZR_TRY(zr__writer_begin(&s->w, plan, g, schedule));
    ZR_TRY(zr__program_make(&s->program, plan, kind));
    ZR_TRY(take_tables(s, g, schedule));
    for (int32_t v = 0; v < zr_graph_values(g); v++) schedule->value_buffer[v] = ZR_NONE;
    for (int32_t p = 0; p < zr_graph_params(g); p++) {
        const zr_param_info *param = zr_graph_param(g, p);
        schedule->value_offset[param->value] = param->unit_offset * zr_dtype_bytes(plan->layout.dtype);
    }
    find_segments(s);
    find_lifetimes(s);
    ZR_TRY(zr__gathers_begin(&s->gathers, plan, s->n_segments));
    find_gathers(s);
    ZR_TRY(s->gathers.status);
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
    if (kind == ZR_TRAIN) zr__writer_step(&s.w, ZR_STEP_REPEAT, ZR_STREAM_COMPUTE, -1, -1);
    refresh_units(&s);
    write_batch(&s);
    write_segments(&s);
    keep_output(&s);
    if (kind == ZR_TRAIN) {
        zr__writer_step(&s.w, ZR_STEP_END, ZR_STREAM_COMPUTE, -1, -1);
        zr__write_update(&s.w);
    }
    zr__packed packed;
    ZR_TRY_GOTO(st, s.w.status, done);
    ZR_TRY_GOTO(st, zr__pack(plan, &plan->schedule[kind], s.w.clock, &packed), done);
    if (packed.bytes > plan->arena_bytes) plan->arena_bytes = packed.bytes;
done:
    zr__writer_end(&s.w);
    zr__program_free(&s.program);
    zr__gathers_end(&s.gathers);
    zr_free(s.segment);
    zr_free(s.instance);
    zr_free(s.checkpoint);
    return st;
}

/* Parameters that others updated and that this rank keeps whole, unit by unit in order of use. */
zr_status zr__write_flush(zr_plan *plan)
{
    zr__writer w;
    ZR_TRY(zr__writer_begin(&w, plan, NULL, &plan->schedule[ZR_FLUSH]));
    for (int32_t u = 0; u < plan->n_units; u++)
        if (zr__refreshed(plan, u)) zr__write_gather(&w, u, plan->unit[u].param, -1);
    return zr__writer_end(&w);
}
