/*
 * The independent proof of a plan. It shares no code with the writer or the packer: it derives
 * reachability between steps anew, as bit sets, and holds every pair of uses against it.
 */
#include "zr/plan.h"

typedef struct proof {
    const zr_plan *plan;
    const zr_graph *graph; /* NULL: FLUSH */
    const zr_schedule *s;
    uint64_t *before; /* n x words: bit j of row i: step j happens before step i */
    int32_t words;
} proof;

static bool is_barrier(const zr_step *step)
{
    return step->kind == ZR_STEP_REPEAT || step->kind == ZR_STEP_END;
}

static bool happens_before(const proof *p, int32_t a, int32_t b)
{
    return (p->before[(size_t)b * (size_t)p->words + (size_t)a / 64] >> (a % 64)) & 1;
}

static void after(proof *p, int32_t step, int32_t earlier)
{
    uint64_t *mine = p->before + (size_t)step * (size_t)p->words;
    const uint64_t *its = p->before + (size_t)earlier * (size_t)p->words;
    for (int32_t w = 0; w < p->words; w++) mine[w] |= its[w];
    mine[earlier / 64] |= (uint64_t)1 << (earlier % 64);
}

static zr_status find_order(proof *p)
{
    int32_t stream_last[ZR_STREAMS], barrier = -1, open = 0;
    for (int k = 0; k < ZR_STREAMS; k++) stream_last[k] = -1;
    for (int32_t i = 0; i < p->s->n_steps; i++) {
        const zr_step *step = &p->s->step[i];
        if (barrier >= 0) after(p, i, barrier);
        for (int k = 0; k < ZR_STREAMS; k++)
            if (stream_last[k] >= 0 && (is_barrier(step) || k == (int)step->stream)) after(p, i, stream_last[k]);
        for (int32_t w = step->waits; w < step->waits + step->n_waits; w++) {
            ZR_CHECK(p->s->wait[w] >= 0 && p->s->wait[w] < i, ZR_ERR_INTERNAL,
                     "step %d waits for step %d, which is not before it", i, p->s->wait[w]);
            after(p, i, p->s->wait[w]);
        }
        stream_last[step->stream] = i;
        if (is_barrier(step)) barrier = i;
        open += step->kind == ZR_STEP_REPEAT ? 1 : step->kind == ZR_STEP_END ? -1 : 0;
        ZR_CHECK(open == 0 || open == 1, ZR_ERR_INTERNAL, "step %d: REPEAT and END do not match", i);
    }
    ZR_CHECK(open == 0, ZR_ERR_INTERNAL, "a REPEAT has no END");
    return ZR_OK;
}

/* All uses, by buffer: list of (step, use) in one array, first[b] .. first[b+1]. */
typedef struct use_of {
    int32_t step;
    bool reads, writes;
} use_of;

static zr_status check_buffer(const proof *p, int32_t b, const use_of *use, int32_t n)
{
    const zr_buffer *buffer = &p->s->buffer[b];
    bool resident = buffer->persistent;
    for (int32_t i = 0; i < n; i++) {
        bool written = resident;
        for (int32_t j = 0; j < n; j++) {
            if (use[j].step == use[i].step) {
                written |= use[i].writes || use[j].writes;
                continue;
            }
            bool ordered = happens_before(p, use[j].step, use[i].step);
            written |= use[j].writes && ordered;
            ZR_CHECK(ordered || happens_before(p, use[i].step, use[j].step) || !(use[i].writes || use[j].writes),
                     ZR_ERR_INTERNAL, "steps %d and %d use buffer %d (%s) in no order", use[i].step, use[j].step, b,
                     buffer->what);
        }
        ZR_CHECK(!use[i].reads || written, ZR_ERR_INTERNAL, "step %d reads buffer %d (%s), which nothing has written",
                 use[i].step, b, buffer->what);
    }
    return ZR_OK;
}

static bool all_before(const proof *p, const use_of *a, int32_t na, const use_of *b, int32_t nb)
{
    for (int32_t i = 0; i < na; i++)
        for (int32_t j = 0; j < nb; j++)
            if (!happens_before(p, a[i].step, b[j].step)) return false;
    return true;
}

static bool share_bytes(const zr_buffer *a, const zr_buffer *b)
{
    return a->staging == b->staging && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static zr_status check_places(const proof *p, const use_of *use, const int32_t *first)
{
    const zr_schedule *s = p->s;
    for (int32_t a = 0; a < s->n_buffers; a++) {
        int64_t room = s->buffer[a].staging ? p->plan->stage_bytes : p->plan->arena_bytes;
        ZR_CHECK(s->buffer[a].offset >= 0 && s->buffer[a].bytes >= 0 &&
                     s->buffer[a].offset + s->buffer[a].bytes <= room,
                 ZR_ERR_INTERNAL, "buffer %d (%s) ends outside its %lld bytes", a, s->buffer[a].what, (long long)room);
        for (int32_t b = 0; b < a; b++) {
            if (!share_bytes(&s->buffer[a], &s->buffer[b])) continue;
            int32_t na = first[a + 1] - first[a], nb = first[b + 1] - first[b];
            bool apart = !s->buffer[a].persistent && !s->buffer[b].persistent &&
                         (all_before(p, use + first[a], na, use + first[b], nb) ||
                          all_before(p, use + first[b], nb, use + first[a], na));
            ZR_CHECK(apart, ZR_ERR_INTERNAL, "buffers %d (%s) and %d (%s) share bytes while both may be in use", b,
                     s->buffer[b].what, a, s->buffer[a].what);
        }
    }
    return ZR_OK;
}

/* Of a part of a parameter's gradient, which stands among others in their unit's: did no step before this one write
 * there since? */
static bool was_last(const proof *p, int32_t step, zr_value value, int32_t buffer)
{
    const zr_value_info *info = zr_graph_value(p->graph, value);
    const int64_t first = p->s->value_offset[value];
    const int64_t end = first + zr_shape_elems(&info->type.shape) * zr_dtype_bytes(info->type.dtype);
    for (int32_t i = step - 1; i >= 0 && info->param >= 0; i--) {
        if (p->s->step[i].kind != ZR_STEP_RUN) continue;
        const zr_op *op = zr_graph_get_op(p->graph, p->s->step[i].op);
        for (int j = 0; j < op->n_out; j++) {
            const zr_type *type = &zr_graph_value(p->graph, op->out[j])->type;
            int64_t at = p->s->value_offset[op->out[j]];
            bool here = p->s->use[p->s->step[i].uses + op->n_in + j].buffer == buffer && at < end &&
                        first < at + zr_shape_elems(&type->shape) * zr_dtype_bytes(type->dtype);
            if (here) return op->out[j] == value;
        }
    }
    return false;
}

/* Is `value` still what its place holds, and the place the one that the step names? */
static zr_status check_held(const proof *p, const zr_value *holder, int32_t step, zr_value value, int32_t buffer)
{
    const zr_value_info *info = zr_graph_value(p->graph, value);
    int64_t bytes = zr_shape_elems(&info->type.shape) * zr_dtype_bytes(info->type.dtype);
    const zr_buffer *b = &p->s->buffer[buffer];
    ZR_CHECK(p->s->value_offset[value] + bytes <= b->bytes, ZR_ERR_INTERNAL,
             "step %d: value %d ends outside buffer %d (%s)", step, value, buffer, b->what);
    if (info->kind == ZR_VALUE_PARAM || info->kind == ZR_VALUE_GRAD) {
        const zr_param_info *param = zr_graph_param(p->graph, info->param);
        bool placed = b->category == (info->kind == ZR_VALUE_PARAM ? ZR_PARAM : ZR_GRAD) && b->unit == param->unit &&
                      p->s->value_offset[value] == param->unit_offset * zr_dtype_bytes(info->type.dtype);
        ZR_CHECK(placed, ZR_ERR_INTERNAL, "step %d looks for %s or its gradient at byte %lld of buffer %d (%s)", step,
                 param->name, (long long)p->s->value_offset[value], buffer, b->what);
        return ZR_OK;
    }
    bool fixed = info->kind == ZR_VALUE_INPUT || info->kind == ZR_VALUE_CACHE;
    bool held =
        fixed ? buffer == p->s->value_buffer[value] : holder[buffer] == value || was_last(p, step, value, buffer);
    ZR_CHECK(held, ZR_ERR_INTERNAL, "step %d reads value %d, but its place, buffer %d (%s), was given to value %d",
             step, value, buffer, b->what, holder[buffer]);
    return ZR_OK;
}

/* A place may pass from an input to an output (in_place). Uses that conflict are in the order of the list, as
 * check_buffer has shown; so whoever reads a value must find it the last that was written to its place. */
static zr_status check_values(const proof *p, zr_value *holder)
{
    const zr_schedule *s = p->s;
    for (int32_t b = 0; b < s->n_buffers; b++) holder[b] = ZR_NONE;
    for (int32_t i = 0; i < s->n_steps; i++) {
        const zr_use *use = s->use + s->step[i].uses;
        if (s->step[i].kind == ZR_STEP_LOSS)
            ZR_TRY(check_held(p, holder, i, zr_graph_get_losses(p->graph), use[0].buffer));
        if (s->step[i].kind != ZR_STEP_RUN) continue;
        const zr_op *op = zr_graph_get_op(p->graph, s->step[i].op);
        for (int j = 0; j < op->n_in; j++)
            if (op->in[j] != ZR_NONE) ZR_TRY(check_held(p, holder, i, op->in[j], use[j].buffer));
        for (int j = 0; j < op->n_out; j++) {
            holder[use[op->n_in + j].buffer] = op->out[j];
        }
        for (int j = 0; j < op->n_out; j++) ZR_TRY(check_held(p, holder, i, op->out[j], use[op->n_in + j].buffer));
    }
    return ZR_OK;
}

/* The output of decoding is read when the last step has ended. */
static zr_status check_output(const proof *p, const zr_value *holder)
{
    const zr_schedule *s = p->s;
    zr_value output = zr_graph_get_output(p->graph);
    int32_t kept = s->value_buffer[output];
    ZR_TRY(check_held(p, holder, s->n_steps, output, kept));
    for (int32_t b = p->plan->n_persistent; b < s->n_buffers; b++)
        ZR_CHECK(b == kept || !share_bytes(&s->buffer[b], &s->buffer[kept]) ||
                     s->buffer[b].last_step < s->buffer[kept].first_step,
                 ZR_ERR_INTERNAL, "buffer %d (%s) is written over the output", b, s->buffer[b].what);
    return ZR_OK;
}

/* Did a step of this kind, of this unit or of none in particular, happen before `step`? */
static bool happened(const proof *p, zr_step_kind kind, int32_t unit, int32_t step)
{
    for (int32_t i = 0; i < step; i++)
        if (p->s->step[i].kind == kind && (unit < 0 || p->s->step[i].unit == unit) && happens_before(p, i, step))
            return true;
    return false;
}

/* Have all ranks agreed on the gradient that this step applies, knowing its squares and the loss? */
static bool is_agreed(const proof *p, int32_t update)
{
    int32_t unit = p->s->step[update].unit;
    for (int32_t i = 0; i < update; i++) {
        const zr_step *step = &p->s->step[i];
        bool concerns = step->kind == ZR_STEP_NORM || (step->kind == ZR_STEP_AGREE && step->unit == unit);
        if (concerns && happens_before(p, i, update) && happened(p, ZR_STEP_LOSS, -1, i) &&
            happened(p, ZR_STEP_SQUARE, unit, i))
            return true;
    }
    return false;
}

/* An update is the last use of a buffer that keeps its unit. */
static zr_status check_last_use(const proof *p, int32_t update, int32_t b, const use_of *use, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        ZR_CHECK(use[i].step == update || happens_before(p, use[i].step, update), ZR_ERR_INTERNAL,
                 "step %d uses buffer %d (%s), which step %d may have updated", use[i].step, b, p->s->buffer[b].what,
                 update);
    return ZR_OK;
}

/* What no buffer shows: an update comes when it may, and after all that needs the unit as it was. */
static zr_status check_updates(const proof *p, const use_of *use, const int32_t *first)
{
    for (int32_t i = 0; i < p->s->n_steps; i++) {
        int32_t unit = p->s->step[i].unit;
        if (p->s->step[i].kind != ZR_STEP_UPDATE) continue;
        ZR_CHECK(is_agreed(p, i), ZR_ERR_INTERNAL, "step %d updates unit %d before all ranks have agreed on it", i,
                 unit);
        const int32_t kept[] = {p->plan->unit[unit].param, p->plan->unit[unit].master};
        for (int k = 0; k < 2; k++)
            if (kept[k] != ZR_NONE)
                ZR_TRY(check_last_use(p, i, kept[k], use + first[kept[k]], first[kept[k] + 1] - first[kept[k]]));
    }
    return ZR_OK;
}

/* All calls between ranks are on one stream, since no two may be made at once; whatever moves passes through the
 * exchange stage in parts, which must hold the least ones. */
static zr_status check_comm(const proof *p)
{
    int32_t stage = p->plan->stage_buffer;
    if (p->plan->layout.ranks == 1) return ZR_OK;
    for (int32_t i = 0; i < p->s->n_steps; i++) {
        const zr_step *step = &p->s->step[i];
        bool moves = step->kind == ZR_STEP_GATHER || step->kind == ZR_STEP_BROADCAST ||
                     step->kind == ZR_STEP_GATHER_GRAD || step->kind == ZR_STEP_REDUCE_SCATTER ||
                     step->kind == ZR_STEP_REDUCE;
        bool asks = step->kind == ZR_STEP_NORM || step->kind == ZR_STEP_AGREE, staged = !moves;
        ZR_CHECK(!(moves || asks) || step->stream == ZR_STREAM_COMM, ZR_ERR_INTERNAL,
                 "step %d is a call between ranks, but not on the comm stream", i);
        for (int32_t u = step->uses; u < step->uses + step->n_uses; u++) staged |= p->s->use[u].buffer == stage;
        ZR_CHECK(staged, ZR_ERR_INTERNAL, "step %d moves bytes between ranks, but not through the exchange stage", i);
    }
    ZR_CHECK(stage == ZR_NONE || p->plan->stage_bytes >= p->plan->layout.ranks * ZR_STAGE_LEAST, ZR_ERR_INTERNAL,
             "an exchange stage of %lld bytes for %d ranks", (long long)p->plan->stage_bytes, p->plan->layout.ranks);
    return ZR_OK;
}

/* What runs once a step may not stand in an order that others rely on: it is skipped where nothing is left to do. So it
 * waits for nothing, and all it does is bring a unit that stays whole up to date, which then no one does later. */
static zr_status check_once(const proof *p, int kind)
{
    for (int32_t u = 0; u < p->plan->n_units; u++) {
        const zr_plan_unit *unit = &p->plan->unit[u];
        int64_t gathered = 0;
        for (int32_t i = 0; i < p->s->n_steps; i++) {
            const zr_step *step = &p->s->step[i];
            if (step->unit != u || (kind == ZR_TRAIN && !step->once)) continue;
            bool whole = step->kind == ZR_STEP_GATHER || step->kind == ZR_STEP_BROADCAST;
            ZR_CHECK(whole && step->n_waits == 0 && !unit->gathered && p->s->use[step->uses + 1].buffer == unit->param,
                     ZR_ERR_INTERNAL, "step %d runs once, but is no gather of a unit that stays whole", i);
            gathered += step->owner <= 0 ? step->count : 0;
        }
        bool wanted = p->plan->shard_optim && p->plan->stage_buffer != ZR_NONE && !unit->gathered;
        ZR_CHECK(gathered == (wanted ? unit->shard_elems : 0), ZR_ERR_INTERNAL,
                 "%lld of %lld elements of a shard of unit %d are gathered after an update", (long long)gathered,
                 (long long)unit->shard_elems, u);
    }
    return ZR_OK;
}

static void sort_uses(const zr_schedule *s, use_of *use, int32_t *first)
{
    for (int32_t u = 0; u < s->n_uses; u++)
        if (s->use[u].buffer >= 0) first[s->use[u].buffer + 1]++;
    for (int32_t b = 0; b < s->n_buffers; b++) first[b + 1] += first[b];
    int32_t *next = first + s->n_buffers + 1;
    for (int32_t b = 0; b < s->n_buffers; b++) next[b] = first[b];
    for (int32_t i = 0; i < s->n_steps; i++)
        for (int32_t u = s->step[i].uses; u < s->step[i].uses + s->step[i].n_uses; u++)
            if (s->use[u].buffer >= 0) use[next[s->use[u].buffer]++] = (use_of){i, s->use[u].reads, s->use[u].writes};
}

static zr_status check_schedule(const zr_plan *plan, int kind)
{
    const zr_schedule *s = &plan->schedule[kind];
    proof p = {.plan = plan, .graph = plan->graph[kind], .s = s, .words = (s->n_steps + 63) / 64};
    zr_status st = ZR_OK;
    p.before = zr_alloc(sizeof(uint64_t) * (size_t)p.words * (size_t)s->n_steps + 64);
    use_of *use = zr_alloc(sizeof *use * (size_t)(s->n_uses + 1));
    int32_t *first = zr_alloc(sizeof *first * 2 * (size_t)(s->n_buffers + 2));
    if (!p.before || !use || !first) {
        st = ZR_FAIL(ZR_ERR_MEMORY, "no memory to check %d steps", s->n_steps);
        goto done;
    }
    ZR_TRY_GOTO(st, check_comm(&p), done);
    ZR_TRY_GOTO(st, find_order(&p), done);
    sort_uses(s, use, first);
    for (int32_t b = 0; b < s->n_buffers; b++)
        ZR_TRY_GOTO(st, check_buffer(&p, b, use + first[b], first[b + 1] - first[b]), done);
    ZR_TRY_GOTO(st, check_places(&p, use, first), done);
    if (kind == ZR_TRAIN || kind == ZR_FLUSH) ZR_TRY_GOTO(st, check_once(&p, kind), done);
    ZR_TRY_GOTO(st, check_updates(&p, use, first), done);
    if (p.graph) ZR_TRY_GOTO(st, check_values(&p, first), done); /* first is not needed any more */
    if (kind == ZR_DECODE) ZR_TRY_GOTO(st, check_output(&p, first), done);
done:
    zr_free(p.before);
    zr_free(use);
    zr_free(first);
    return st;
}

zr_status zr_plan_check(const zr_plan *plan)
{
    for (int k = 0; k < ZR_SCHEDULES; k++)
        if (plan->schedule[k].buffer) ZR_TRY(check_schedule(plan, k));
    return ZR_OK;
}
