/*
 * The independent proof of a plan. It shares no code with the writer or the packer: it derives
 * reachability between steps anew, as bit sets, and holds every pair of uses against it.
 */
#include "zr/plan.h"

/* A schedule with a body that is repeated is proved over two rounds of it: times count the steps of the first round and
 * of what follows END, then those of a second round. Each round has transient buffers of its own. */
typedef struct proof {
    const zr_plan *plan;
    const zr_graph *graph; /* NULL: FLUSH */
    const zr_schedule *s;
    int32_t repeat, end, times; /* body: steps between repeat and end; times: all */
    uint64_t *before;           /* times x words: bit j of row i: time j comes before time i */
    int32_t words;
} proof;

static int32_t step_at(const proof *p, int32_t time)
{
    return time < p->s->n_steps ? time : p->repeat + 1 + time - p->s->n_steps;
}

static int32_t second(const proof *p, int32_t step)
{
    return p->s->n_steps + step - p->repeat - 1;
}

static bool happens_before(const proof *p, int32_t a, int32_t b)
{
    return (p->before[(size_t)b * (size_t)p->words + (size_t)a / 64] >> (a % 64)) & 1;
}

static void after(proof *p, int32_t time, int32_t earlier)
{
    uint64_t *mine = p->before + (size_t)time * (size_t)p->words;
    const uint64_t *its = p->before + (size_t)earlier * (size_t)p->words;
    for (int32_t w = 0; w < p->words; w++) mine[w] |= its[w];
    mine[earlier / 64] |= (uint64_t)1 << (earlier % 64);
}

static zr_status find_body(proof *p)
{
    int32_t open = 0;
    p->repeat = p->end = -1;
    for (int32_t i = 0; i < p->s->n_steps; i++) {
        if (p->s->step[i].kind == ZR_STEP_REPEAT) p->repeat = i;
        if (p->s->step[i].kind == ZR_STEP_END) p->end = i;
        open += p->s->step[i].kind == ZR_STEP_REPEAT ? 1 : p->s->step[i].kind == ZR_STEP_END ? -1 : 0;
        ZR_CHECK(open == 0 || open == 1, ZR_ERR_INTERNAL, "step %d: REPEAT and END do not match", i);
    }
    ZR_CHECK(open == 0, ZR_ERR_INTERNAL, "a REPEAT has no END");
    bool again = p->repeat >= 0 && p->s->step[p->repeat].rounds > 1;
    p->times = p->s->n_steps + (again ? p->end - p->repeat - 1 : 0);
    p->words = (p->times + 63) / 64;
    return ZR_OK;
}

/* In a second round: what runs in the first alone. (What runs in later ones stands in the first behind what it
 * replaces.) */
static bool is_idle(const proof *p, int32_t time)
{
    const zr_when when = p->s->step[step_at(p, time)].when;
    return time >= p->s->n_steps && (when == ZR_WHEN_STALE || when == ZR_WHEN_FIRST);
}

/* The order of streams and waits. last: of each stream. */
static zr_status order_time(proof *p, int32_t time, int32_t last[ZR_STREAMS])
{
    const zr_step *step = &p->s->step[step_at(p, time)];
    bool again = time >= p->s->n_steps;
    if (is_idle(p, time)) return ZR_OK;
    if (last[step->stream] >= 0) after(p, time, last[step->stream]);
    last[step->stream] = time;
    for (int32_t w = step->waits; w < step->waits + step->n_waits; w++) {
        const zr_wait *wait = &p->s->wait[w];
        const int32_t on_step = wait->step, at = step_at(p, time);
        bool body = on_step > p->repeat && on_step < p->end && at > p->repeat && at < p->end;
        bool there = on_step >= 0 && on_step < p->s->n_steps && (wait->before ? body : on_step < at) &&
                     on_step != p->repeat && on_step != p->end;
        ZR_CHECK(there, ZR_ERR_INTERNAL, "step %d waits for step %d, which is not before it", step_at(p, time),
                 wait->step);
        if (wait->before && !again) continue;
        const int32_t on = again && !wait->before && wait->step > p->repeat ? second(p, wait->step) : wait->step;
        if (!is_idle(p, on)) after(p, time, on);
    }
    return ZR_OK;
}

static zr_status find_order(proof *p)
{
    int32_t last[ZR_STREAMS], body_last[ZR_STREAMS];
    for (int k = 0; k < ZR_STREAMS; k++) last[k] = body_last[k] = -1;
    for (int32_t i = 0; i < p->s->n_steps; i++) {
        ZR_TRY(order_time(p, i, last));
        for (int k = 0; k < ZR_STREAMS && i == p->end; k++) body_last[k] = last[k];
    }
    for (int32_t i = p->s->n_steps; i < p->times; i++) ZR_TRY(order_time(p, i, body_last));
    return ZR_OK;
}

/* ---- buffers ----------------------------------------------------------------------------------- */

/* A buffer that stays is one; of another each round has its own: those of a second round stand behind all buffers. */
static int32_t instances(const proof *p)
{
    return p->s->n_buffers + (p->times > p->s->n_steps ? p->s->n_buffers - p->plan->n_persistent : 0);
}

static int32_t instance_at(const proof *p, int32_t time, int32_t buffer)
{
    bool own = time >= p->s->n_steps && buffer >= p->plan->n_persistent;
    return own ? buffer - p->plan->n_persistent + p->s->n_buffers : buffer;
}

static const zr_buffer *buffer_of(const proof *p, int32_t instance)
{
    return &p->s->buffer[instance < p->s->n_buffers ? instance : instance - p->s->n_buffers + p->plan->n_persistent];
}

/* All uses, by instance of a buffer: those of b are [first[b], first[b+1]). */
typedef struct use_of {
    int32_t time;
    bool reads, writes;
} use_of;

/* What follows END comes after the last round, whichever that is: it is proved behind the first. */
static bool never_meet(const proof *p, int32_t a, int32_t b)
{
    bool again = a >= p->s->n_steps || b >= p->s->n_steps;
    return again && ((a < p->s->n_steps && a >= p->end) || (b < p->s->n_steps && b >= p->end));
}

static zr_status check_buffer(const proof *p, int32_t instance, const use_of *use, int32_t n)
{
    const zr_buffer *buffer = buffer_of(p, instance);
    for (int32_t i = 0; i < n; i++) {
        bool written = buffer->persistent;
        for (int32_t j = 0; j < n; j++) {
            if (never_meet(p, use[i].time, use[j].time)) continue;
            if (use[j].time == use[i].time) {
                written |= use[i].writes || use[j].writes;
                continue;
            }
            bool ordered = happens_before(p, use[j].time, use[i].time);
            written |= use[j].writes && ordered;
            ZR_CHECK(ordered || happens_before(p, use[i].time, use[j].time) || !(use[i].writes || use[j].writes),
                     ZR_ERR_INTERNAL, "steps %d and %d use buffer %s in no order", step_at(p, use[i].time),
                     step_at(p, use[j].time), buffer->what);
        }
        ZR_CHECK(!use[i].reads || written, ZR_ERR_INTERNAL, "step %d reads buffer %s, which nothing has written",
                 step_at(p, use[i].time), buffer->what);
    }
    return ZR_OK;
}

static bool all_before(const proof *p, const use_of *a, int32_t na, const use_of *b, int32_t nb)
{
    for (int32_t i = 0; i < na; i++)
        for (int32_t j = 0; j < nb; j++)
            if (!happens_before(p, a[i].time, b[j].time)) return false;
    return true;
}

static bool share_bytes(const zr_buffer *a, const zr_buffer *b)
{
    return a->space == b->space && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static zr_status check_places(const proof *p, const use_of *use, const int32_t *first)
{
    for (int32_t a = 0; a < instances(p); a++) {
        const zr_buffer *x = buffer_of(p, a);
        int64_t room = p->plan->space_bytes[x->space];
        ZR_CHECK(x->offset >= 0 && x->bytes >= 0 && x->offset + x->bytes <= room, ZR_ERR_INTERNAL,
                 "buffer %s ends outside the %lld bytes of its space", x->what, (long long)room);
        for (int32_t b = 0; b < a; b++) {
            const zr_buffer *y = buffer_of(p, b);
            if (!share_bytes(x, y)) continue;
            int32_t na = first[a + 1] - first[a], nb = first[b + 1] - first[b];
            bool apart = !x->persistent && !y->persistent &&
                         (all_before(p, use + first[a], na, use + first[b], nb) ||
                          all_before(p, use + first[b], nb, use + first[a], na));
            ZR_CHECK(apart, ZR_ERR_INTERNAL, "buffers %s and %s share bytes while both may be in use", y->what,
                     x->what);
        }
    }
    return ZR_OK;
}

/* Where a range begins on the rank with the highest places. */
static int64_t last_first(const zr_plan *plan, const zr_range *r)
{
    return r->first + (plan->group[r->by.group].size - 1) * r->by.elems +
           (plan->group[r->base.group].size - 1) * r->base.elems;
}

/* On every rank a use lies in its buffer, and what moves or changes a part of a unit uses that much of each. */
static zr_status check_ranges(const proof *p)
{
    for (int32_t i = 0; i < p->s->n_steps; i++) {
        const zr_step *step = &p->s->step[i];
        for (int32_t u = step->uses; u < step->uses + step->n_uses; u++) {
            const zr_use *use = &p->s->use[u];
            if (use->buffer == ZR_NONE || use->range.count == 0) continue;
            const zr_buffer *buffer = &p->s->buffer[use->buffer];
            int64_t end = (last_first(p->plan, &use->range) + use->range.count) * zr_dtype_bytes(use->dtype);
            ZR_CHECK(use->range.first >= 0 && end <= buffer->bytes, ZR_ERR_INTERNAL,
                     "step %d uses %lld bytes of buffer %s, which has %lld", i, (long long)end, buffer->what,
                     (long long)buffer->bytes);
            bool in_unit = step->unit >= 0 && step->range.count > 0;
            ZR_CHECK(!in_unit || use->range.count == step->range.count, ZR_ERR_INTERNAL,
                     "step %d is of %lld elements of a unit, but uses %lld of buffer %s", i,
                     (long long)step->range.count, (long long)use->range.count, buffer->what);
        }
    }
    return ZR_OK;
}

/* ---- values ------------------------------------------------------------------------------------ */

/* The bytes of a use. */
static void bytes_used(const zr_use *use, int64_t *begin, int64_t *end)
{
    *begin = use->range.first * zr_dtype_bytes(use->dtype);
    *end = *begin + use->range.count * zr_dtype_bytes(use->dtype);
}

/* Of a part of a parameter's gradient, which stands among others in their unit's: did no step before this one write
 * there since? */
static bool was_last(const proof *p, int32_t step, zr_value value, const zr_use *use)
{
    int64_t first, end, at, stop;
    bytes_used(use, &first, &end);
    for (int32_t i = step - 1; i >= 0 && zr_graph_value(p->graph, value)->param >= 0; i--) {
        if (p->s->step[i].kind != ZR_STEP_RUN) continue;
        const zr_op *op = zr_graph_get_op(p->graph, p->s->step[i].op);
        for (int j = 0; j < op->n_out; j++) {
            const zr_use *out = &p->s->use[p->s->step[i].uses + op->n_in + j];
            bytes_used(out, &at, &stop);
            if (out->buffer == use->buffer && at < end && first < stop) return op->out[j] == value;
        }
    }
    return false;
}

/* Is `value` still what its place holds, and the place the one that the step names? */
static zr_status check_held(const proof *p, const zr_value *holder, int32_t step, zr_value value, const zr_use *use)
{
    const zr_value_info *info = zr_graph_value(p->graph, value);
    const zr_buffer *b = &p->s->buffer[use->buffer];
    ZR_CHECK(use->dtype == info->type.dtype && use->range.count == zr_shape_elems(&info->type.shape), ZR_ERR_INTERNAL,
             "step %d: value %d is used as %lld elements of another type or shape", step, value,
             (long long)use->range.count);
    if (info->kind == ZR_VALUE_PARAM || info->kind == ZR_VALUE_GRAD) {
        const zr_param_info *param = zr_graph_param(p->graph, info->param);
        bool placed = b->category == (info->kind == ZR_VALUE_PARAM ? ZR_CATEGORY_PARAM : ZR_CATEGORY_GRAD) &&
                      b->unit == param->unit && use->range.first == param->unit_offset;
        ZR_CHECK(placed, ZR_ERR_INTERNAL, "step %d looks for %s or its gradient at element %lld of buffer %d (%s)",
                 step, param->name, (long long)use->range.first, use->buffer, b->what);
        return ZR_OK;
    }
    bool fixed = info->kind == ZR_VALUE_INPUT || info->kind == ZR_VALUE_CACHE;
    bool held = fixed ? use->buffer == p->s->value[value].buffer
                      : holder[use->buffer] == value || was_last(p, step, value, use);
    ZR_CHECK(held, ZR_ERR_INTERNAL, "step %d reads value %d, but its place, buffer %d (%s), was given to value %d",
             step, value, use->buffer, b->what, holder[use->buffer]);
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
        if (s->step[i].kind == ZR_STEP_LOSS) ZR_TRY(check_held(p, holder, i, zr_graph_get_losses(p->graph), &use[0]));
        if (s->step[i].kind == ZR_STEP_COPY && use[1].buffer == p->plan->output)
            ZR_TRY(check_held(p, holder, i, zr_graph_get_output(p->graph), &use[0]));
        if (s->step[i].kind == ZR_STEP_COPY) holder[use[1].buffer] = holder[use[0].buffer];
        if (s->step[i].kind != ZR_STEP_RUN) continue;
        const zr_op *op = zr_graph_get_op(p->graph, s->step[i].op);
        for (int j = 0; j < op->n_in; j++)
            if (op->in[j] != ZR_NONE) ZR_TRY(check_held(p, holder, i, op->in[j], &use[j]));
        for (int j = 0; j < op->n_out; j++) {
            holder[use[op->n_in + j].buffer] = op->out[j];
        }
        for (int j = 0; j < op->n_out; j++) ZR_TRY(check_held(p, holder, i, op->out[j], &use[op->n_in + j]));
    }
    return ZR_OK;
}

/* ---- updates and calls ------------------------------------------------------------------------- */

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
        ZR_CHECK(use[i].time == update || never_meet(p, use[i].time, update) || happens_before(p, use[i].time, update),
                 ZR_ERR_INTERNAL, "step %d uses buffer %d (%s), which step %d may have updated",
                 step_at(p, use[i].time), b, p->s->buffer[b].what, update);
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
        const int32_t kept[] = {p->plan->unit[unit].param.buffer, p->plan->unit[unit].master.buffer};
        for (int k = 0; k < 2; k++)
            if (kept[k] != ZR_NONE)
                ZR_TRY(check_last_use(p, i, kept[k], use + first[kept[k]], first[kept[k] + 1] - first[kept[k]]));
    }
    return ZR_OK;
}

/* All calls between ranks are on one stream, since no two may be made at once; whatever moves passes through the
 * staging memory in parts, which must hold the least ones. */
static zr_status check_comm(const proof *p)
{
    if (p->plan->layout.ranks == 1) return ZR_OK;
    for (int32_t i = 0; i < p->s->n_steps; i++) {
        const zr_step *step = &p->s->step[i];
        bool moves = step->kind == ZR_STEP_GATHER || step->kind == ZR_STEP_BROADCAST ||
                     step->kind == ZR_STEP_GATHER_GRAD || step->kind == ZR_STEP_REDUCE_SCATTER ||
                     step->kind == ZR_STEP_REDUCE;
        bool asks = step->kind == ZR_STEP_NORM || step->kind == ZR_STEP_AGREE, staged = !moves;
        ZR_CHECK(!(moves || asks) || (step->stream == ZR_STREAM_COMM && step->group != ZR_GROUP_SELF), ZR_ERR_INTERNAL,
                 "step %d is a call between ranks, but not on the comm stream or of no group", i);
        const int32_t staging = p->plan->staging[step->group];
        for (int32_t u = step->uses; u < step->uses + step->n_uses; u++)
            staged |= staging != ZR_NONE && p->s->use[u].buffer == staging;
        ZR_CHECK(staged, ZR_ERR_INTERNAL, "step %d moves bytes between ranks, but not through the staging memory", i);
    }
    for (int32_t g = 0; g < p->plan->n_groups; g++) {
        if (p->plan->staging[g] == ZR_NONE) continue;
        int64_t bytes = p->s->buffer[p->plan->staging[g]].bytes;
        ZR_CHECK(bytes >= p->plan->group[g].size * ZR_STAGING_LEAST, ZR_ERR_INTERNAL,
                 "staging memory of %lld bytes for %d ranks", (long long)bytes, p->plan->group[g].size);
    }
    return ZR_OK;
}

/* What runs once a step may not stand in an order that others rely on: it is skipped where nothing is left to do. So it
 * waits for nothing, and all it does is bring a unit that stays whole up to date, which then no one does later. */
static zr_status check_once(const proof *p, int kind)
{
    for (int32_t u = 0; u < p->plan->n_units; u++) {
        const zr_plan_unit *unit = &p->plan->unit[u];
        int64_t known = unit->update.count, gathered = 0;
        for (int32_t i = 0; i < p->s->n_steps; i++) {
            const zr_step *step = &p->s->step[i];
            if (step->unit != u || (kind == ZR_SCHEDULE_TRAIN && step->when != ZR_WHEN_STALE)) continue;
            bool whole = step->kind == ZR_STEP_GATHER || step->kind == ZR_STEP_BROADCAST;
            ZR_CHECK(whole && step->n_waits == 0 && !unit->gathered &&
                         p->s->use[step->uses + 1].buffer == unit->param.buffer,
                     ZR_ERR_INTERNAL, "step %d runs once, but is no gather of a unit that stays whole", i);
            gathered += step->owner <= 0 ? step->range.count : 0;
            if (gathered < known) continue;
            known *= p->plan->group[step->group].size; /* each rank's part is known to all of the group */
            gathered = 0;
        }
        bool wanted = p->plan->optim_group != ZR_GROUP_SELF && p->plan->moves && !unit->gathered;
        ZR_CHECK(gathered == 0 && known == (wanted ? unit->padded_elems : unit->update.count), ZR_ERR_INTERNAL,
                 "%lld of %lld elements of unit %d are known to all after an update", (long long)known,
                 (long long)unit->padded_elems, u);
    }
    return ZR_OK;
}

/* The steps that use buffers at a time. */
static const zr_step *using_step(const proof *p, int32_t time)
{
    static const zr_step none = {0};
    bool not_yet = time < p->s->n_steps && p->s->step[step_at(p, time)].when == ZR_WHEN_LATER;
    return is_idle(p, time) || not_yet ? &none : &p->s->step[step_at(p, time)];
}

static void sort_uses(const proof *p, use_of *use, int32_t *first)
{
    int32_t n = instances(p), *next = first + n + 1;
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t t = 0; t < p->times; t++) {
            const zr_step *step = using_step(p, t);
            for (int32_t u = step->uses; u < step->uses + step->n_uses; u++) {
                if (p->s->use[u].buffer < 0) continue;
                int32_t b = instance_at(p, t, p->s->use[u].buffer);
                if (pass == 0)
                    first[b + 1]++;
                else
                    use[next[b]++] = (use_of){t, p->s->use[u].reads, p->s->use[u].writes};
            }
        }
        for (int32_t b = 0; b < n && pass == 0; b++) {
            first[b + 1] += first[b];
            next[b] = first[b];
        }
    }
}

static zr_status check_schedule(const zr_plan *plan, int kind)
{
    const zr_schedule *s = &plan->schedule[kind];
    proof p = {.plan = plan, .graph = plan->graph[kind], .s = s};
    zr_status st = ZR_OK;
    ZR_TRY(find_body(&p));
    p.before = zr_alloc(sizeof(uint64_t) * (size_t)p.words * (size_t)p.times + 64);
    use_of *use = zr_alloc(sizeof *use * (size_t)(2 * s->n_uses + 1));
    int32_t *first = zr_alloc(sizeof *first * 2 * (size_t)(instances(&p) + 2));
    if (!p.before || !use || !first) {
        st = ZR_FAIL(ZR_ERR_MEMORY, "no memory to check %d steps", s->n_steps);
        goto done;
    }
    ZR_TRY_GOTO(st, check_comm(&p), done);
    ZR_TRY_GOTO(st, check_ranges(&p), done);
    ZR_TRY_GOTO(st, find_order(&p), done);
    sort_uses(&p, use, first);
    for (int32_t b = 0; b < instances(&p); b++)
        ZR_TRY_GOTO(st, check_buffer(&p, b, use + first[b], first[b + 1] - first[b]), done);
    ZR_TRY_GOTO(st, check_places(&p, use, first), done);
    if (kind == ZR_SCHEDULE_TRAIN || kind == ZR_SCHEDULE_FLUSH) ZR_TRY_GOTO(st, check_once(&p, kind), done);
    ZR_TRY_GOTO(st, check_updates(&p, use, first), done);
    if (p.graph) ZR_TRY_GOTO(st, check_values(&p, first), done); /* first is not needed any more */
done:
    zr_free(p.before);
    zr_free(use);
    zr_free(first);
    return st;
}

/* Each place of all ranks is one rank's. */
static zr_status check_grid(const zr_plan *plan)
{
    const int n = plan->layout.ranks;
    bool *taken = zr_alloc((size_t)n);
    zr_status st = taken ? ZR_OK : ZR_FAIL(ZR_ERR_MEMORY, "no memory to check %d ranks", n);
    for (int r = 0; r < n && st == ZR_OK; r++) {
        int place = zr_plan_place(plan, ZR_GROUP_DATA, r), shard = zr_plan_shard(plan, r);
        bool one = plan->group[ZR_GROUP_DATA].size == n && place == r && shard >= 0 && shard < n && !taken[shard];
        if (one)
            taken[shard] = true;
        else
            st = ZR_FAIL(ZR_ERR_INTERNAL, "rank %d of %d has place %d and shard %d", r, n, place, shard);
    }
    zr_free(taken);
    return st;
}

zr_status zr_plan_check(const zr_plan *plan)
{
    ZR_TRY(check_grid(plan));
    for (int k = 0; k < ZR_SCHEDULES; k++)
        if (plan->schedule[k].buffer) ZR_TRY(check_schedule(plan, k));
    return ZR_OK;
}
