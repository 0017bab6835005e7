/* Part of the proof of a plan: derives the order of steps from streams and waits alone. Checks that this order allows
 * the buffers to share bytes as they do. Steps of one stream run in order, so a vector clock describes the order of
 * all steps. The clock of a step has, for each stream, the last step that happens before it. */
#include "base/core/grow.h"
#include "base/number/sorted.h"
#include "plan/check/check.h"

#include <stdlib.h>
#include <string.h>

int32_t zr__step_at(const zr__proof *p, int32_t time)
{
    return time < p->s->n_steps ? time : p->repeat + 1 + time - p->s->n_steps;
}

static bool follows_end(const zr__proof *p, int32_t time)
{
    return time < p->s->n_steps && time >= p->end;
}

bool zr__never_meet(const zr__proof *p, int32_t a, int32_t b)
{
    return (a >= p->s->n_steps && follows_end(p, b)) || (b >= p->s->n_steps && follows_end(p, a));
}

/* Return whether the clock of b has reached a in the stream of a. This comparison is enough, since a stream runs its
 * steps in the order of their time points. */
bool zr__happens_before(const zr__proof *p, int32_t a, int32_t b)
{
    return p->clock[b][p->s->step[zr__step_at(p, a)].stream] >= a && !zr__never_meet(p, a, b);
}

zr_status zr__proof_begin(zr__proof *p, const zr_plan *plan, zr_schedule_kind kind)
{
    *p = (zr__proof){.plan = plan, .graph = plan->graph[kind], .s = &plan->schedule[kind], .kind = kind};
    int32_t open = 0;
    p->repeat = p->end = -1;
    for (int32_t i = 0; i < p->s->n_steps; i++) {
        const zr_step *step = &p->s->step[i];
        p->has_when[step->when] = true;
        if (step->kind == ZR_STEP_REPEAT) p->repeat = i;
        if (step->kind == ZR_STEP_END) p->end = i;
        open += step->kind == ZR_STEP_REPEAT ? 1 : step->kind == ZR_STEP_END ? -1 : 0;
        ZR_CHECK(open == 0 || open == 1, ZR_ERR_INTERNAL, "step %d: REPEAT and END do not match", i);
    }
    ZR_CHECK(open == 0, ZR_ERR_INTERNAL, "a REPEAT has no END");
    bool again = p->repeat >= 0 && p->s->step[p->repeat].rounds > 1;
    for (int32_t i = p->end + 1; p->end >= 0 && i < p->s->n_steps; i++)
        ZR_CHECK(p->s->step[i].when == ZR_WHEN_ALWAYS, ZR_ERR_INTERNAL, "step %d follows END, but not in every round",
                 i);
    p->times = p->s->n_steps + (again ? p->end - p->repeat - 1 : 0);
    return ZR_OK;
}

void zr__proof_end(zr__proof *p)
{
    zr_free(p->clock);
    zr_free(p->use);
    zr_free(p->first);
}

/* ---- the order of steps ------------------------------------------------------------------------ */

/* Return whether a time point is in the first round of a training step. */
static bool is_first(const zr__proof *p, int32_t time)
{
    return time < p->s->n_steps && p->pair != ZR__PAIR_LATER;
}

/* Return whether the step at a time point is skipped. A ZR_WHEN_LATER step never counts as skipped. It does nothing in
 * the first round, but its place in the stream is after the step that it replaces. Therefore a wait for the
 * ZR_WHEN_LATER step is correct in all rounds. */
static bool is_idle(const zr__proof *p, int32_t time)
{
    const zr_step *step = &p->s->step[zr__step_at(p, time)];
    const bool stale = p->pair != ZR__PAIR_FLUSHED;
    return step->when != ZR_WHEN_LATER && !zr__runs(step, is_first(p, time), stale, p->asked);
}

static void order_after(const zr__proof *p, int32_t time, int32_t earlier)
{
    int32_t *mine = p->clock[time];
    const int32_t *its = p->clock[earlier];
    for (int k = 0; k < ZR_STREAMS; k++)
        if (its[k] > mine[k]) mine[k] = its[k];
    const zr_stream stream = p->s->step[zr__step_at(p, earlier)].stream;
    if (earlier > mine[stream]) mine[stream] = earlier;
}

/* Compute the vector clock of a time point from its stream's previous step and from its waits. A wait for a skipped
 * step has no effect. last[stream] is the stream's last time point so far. */
static zr_status order_time(const zr__proof *p, int32_t time, int32_t last[ZR_STREAMS])
{
    const int32_t at = zr__step_at(p, time);
    const zr_step *step = &p->s->step[at];
    bool again = time >= p->s->n_steps;
    for (int k = 0; k < ZR_STREAMS; k++) p->clock[time][k] = -1;
    for (int32_t w = step->waits; w < step->waits + step->n_waits; w++) {
        const zr_wait *wait = &p->s->wait[w];
        const int32_t on_step = wait->step;
        bool body = on_step > p->repeat && on_step < p->end && at > p->repeat && at < p->end;
        bool there = on_step >= 0 && on_step < p->s->n_steps && (wait->before ? body : on_step < at) &&
                     on_step != p->repeat && on_step != p->end;
        ZR_CHECK(there, ZR_ERR_INTERNAL, "step %d waits for step %d, which is not before it", at, on_step);
        if ((wait->before && !again) || is_idle(p, time)) continue;
        const bool second = again && !wait->before && on_step > p->repeat;
        const int32_t on = second ? p->s->n_steps + on_step - p->repeat - 1 : on_step;
        if (!is_idle(p, on)) order_after(p, time, on);
    }
    if (is_idle(p, time)) return ZR_OK;
    if (last[step->stream] >= 0) order_after(p, time, last[step->stream]);
    last[step->stream] = time;
    return ZR_OK;
}

static zr_status find_order(const zr__proof *p)
{
    int32_t last[ZR_STREAMS], body_last[ZR_STREAMS];
    for (int k = 0; k < ZR_STREAMS; k++) last[k] = body_last[k] = -1;
    for (int32_t i = 0; i < p->s->n_steps; i++) {
        ZR_TRY(order_time(p, i, last));
        if (i == p->end) memcpy(body_last, last, sizeof last);
    }
    for (int32_t i = p->s->n_steps; i < p->times; i++) ZR_TRY(order_time(p, i, body_last));
    return ZR_OK;
}

/* ---- uses of buffers --------------------------------------------------------------------------- */

/* Return the number of buffer instances. A persistent buffer has one instance, a transient buffer one per round.
 * Instances of the second round are numbered after all buffers. */
static int32_t instances(const zr__proof *p)
{
    return p->s->n_buffers + (p->times > p->s->n_steps ? p->s->n_buffers - p->plan->n_persistent : 0);
}

static int32_t instance_at(const zr__proof *p, int32_t time, int32_t buffer)
{
    bool own = time >= p->s->n_steps && buffer >= p->plan->n_persistent;
    return own ? buffer - p->plan->n_persistent + p->s->n_buffers : buffer;
}

static const zr_buffer *buffer_of(const zr__proof *p, int32_t instance)
{
    return &p->s->buffer[instance < p->s->n_buffers ? instance : instance - p->s->n_buffers + p->plan->n_persistent];
}

/* Return the step at a time point. If that step does not run, return a step without uses. */
static const zr_step *using_step(const zr__proof *p, int32_t time)
{
    static const zr_step none = {0};
    const zr_step *step = &p->s->step[zr__step_at(p, time)];
    const bool not_yet = step->when == ZR_WHEN_LATER && is_first(p, time);
    return is_idle(p, time) || not_yet ? &none : step;
}

static zr_status list_uses(zr__proof *p)
{
    const int32_t n = instances(p);
    int64_t uses = 0;
    for (int32_t i = 0; i < p->s->n_steps; i++) uses += p->s->step[i].n_uses;
    if (!p->use) p->use = zr_alloc(sizeof *p->use * (size_t)(2 * uses + 1));
    if (!p->first) p->first = zr_alloc(sizeof *p->first * 2 * (size_t)(n + 2));
    ZR_CHECK(p->use && p->first, ZR_ERR_MEMORY, "no memory to check %lld uses", (long long)uses);
    int32_t *first = p->first, *next = first + n + 1;
    for (int32_t b = 0; b <= n; b++) first[b] = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t t = 0; t < p->times; t++) {
            const zr_step *step = using_step(p, t);
            for (int32_t u = step->uses; u < step->uses + step->n_uses; u++) {
                if (p->s->use[u].buffer < 0) continue;
                int32_t b = instance_at(p, t, p->s->use[u].buffer);
                if (pass == 0)
                    first[b + 1]++;
                else
                    p->use[next[b]++] = (zr__use_of){t, p->s->use[u].reads, p->s->use[u].writes};
            }
        }
        for (int32_t b = 0; b < n && pass == 0; b++) {
            first[b + 1] += first[b];
            next[b] = first[b];
        }
    }
    return ZR_OK;
}

/* Check that all conflicting uses of a buffer are ordered. `both` selects the uses in both rounds of the pair;
 * otherwise the uses in the first round and after END are checked. It is enough to compare a use with each stream's
 * last read and last write, since that stream's earlier uses come before these two. */
static zr_status check_conflicts(const zr__proof *p, int32_t instance, bool both)
{
    int32_t read[ZR_STREAMS], written[ZR_STREAMS];
    for (int k = 0; k < ZR_STREAMS; k++) read[k] = written[k] = -1;
    for (int32_t i = p->first[instance]; i < p->first[instance + 1]; i++) {
        const zr__use_of *use = &p->use[i];
        if (both ? follows_end(p, use->time) : use->time >= p->s->n_steps) continue;
        for (int k = 0; k < ZR_STREAMS; k++) {
            const int32_t other[] = {written[k], use->writes ? read[k] : -1};
            for (int j = 0; j < 2; j++)
                ZR_CHECK(other[j] < 0 || other[j] == use->time || zr__happens_before(p, other[j], use->time),
                         ZR_ERR_INTERNAL, "steps %d and %d use buffer %s in no order", zr__step_at(p, other[j]),
                         zr__step_at(p, use->time), buffer_of(p, instance)->what);
        }
        const zr_stream stream = p->s->step[zr__step_at(p, use->time)].stream;
        if (use->reads) read[stream] = use->time;
        if (use->writes) written[stream] = use->time;
    }
    return ZR_OK;
}

/* ---- bytes that buffers share ------------------------------------------------------------------ */

/* The bytes that a buffer occupies, and the time points of its first and last use on each stream, or -1. */
typedef struct placed {
    const zr_buffer *buffer;
    int64_t begin, end;
    int32_t first[ZR_STREAMS], last[ZR_STREAMS];
    int32_t begins; /* time point of the buffer's first use on any stream; -1 for a persistent buffer */
} placed;

/* Find a buffer's bytes and the time points of its uses, in the rounds that `both` selects (see check_conflicts).
 * Return false if the buffer is empty, or if it is transient and these rounds do not use it. */
static bool find_placed(const zr__proof *p, int32_t instance, bool both, placed *x)
{
    *x = (placed){.buffer = buffer_of(p, instance), .begins = -1};
    x->begin = x->buffer->offset;
    x->end = x->begin + x->buffer->bytes;
    for (int k = 0; k < ZR_STREAMS; k++) x->first[k] = x->last[k] = -1;
    if (x->end == x->begin || x->buffer->persistent) return x->end > x->begin;
    for (int32_t i = p->first[instance]; i < p->first[instance + 1]; i++) {
        const int32_t time = p->use[i].time;
        const zr_stream stream = p->s->step[zr__step_at(p, time)].stream;
        if (both ? follows_end(p, time) : time >= p->s->n_steps) continue;
        if (x->begins < 0) x->begins = time;
        if (x->first[stream] < 0) x->first[stream] = time;
        x->last[stream] = time;
    }
    return x->begins >= 0;
}

static bool all_before(const zr__proof *p, const placed *a, const placed *b)
{
    for (int i = 0; i < ZR_STREAMS; i++)
        for (int j = 0; j < ZR_STREAMS; j++)
            if (a->last[i] >= 0 && b->first[j] >= 0 && !zr__happens_before(p, a->last[i], b->first[j])) return false;
    return true;
}

static int by_time(const void *x, const void *y)
{
    const placed *a = x, *b = y;
    if (a->buffer->space != b->buffer->space) return a->buffer->space < b->buffer->space ? -1 : 1;
    if (a->begins != b->begins) return a->begins < b->begins ? -1 : 1;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

/* A range of bytes of a memory space, and the buffer that occupied it last. */
typedef struct taken {
    int64_t begin, end;
    const placed *by;
} taken;

typedef struct space_taken {
    taken *list; /* disjoint ranges, in order of offset */
    int32_t n;
    int64_t room;
} space_taken;

/* Check a buffer against the previous buffer at each of its bytes, and record it as the new one. Earlier buffers need
 * no check, because "happens before" is transitive. */
static zr_status take_bytes(const zr__proof *p, space_taken *t, const placed *x)
{
    int32_t from = (int32_t)zr__sorted_below(t->list, t->n, sizeof(taken), offsetof(taken, end), x->begin + 1),
            to = from;
    taken put[3];
    int32_t n = 0;
    for (; to < t->n && t->list[to].begin < x->end; to++) {
        const taken *its = &t->list[to];
        ZR_CHECK(!its->by->buffer->persistent && all_before(p, its->by, x), ZR_ERR_INTERNAL,
                 "buffers %s and %s share bytes while both may be in use", x->buffer->what, its->by->buffer->what);
    }
    if (to > from && t->list[from].begin < x->begin)
        put[n++] = (taken){t->list[from].begin, x->begin, t->list[from].by};
    put[n++] = (taken){x->begin, x->end, x};
    if (to > from && t->list[to - 1].end > x->end) put[n++] = (taken){x->end, t->list[to - 1].end, t->list[to - 1].by};
    ZR_GROW(t->list, t->room, t->n + 2, "bytes to check");
    memmove(t->list + from + n, t->list + to, (size_t)(t->n - to) * sizeof *t->list);
    memcpy(t->list + from, put, (size_t)n * sizeof *put);
    t->n += n - (to - from);
    return ZR_OK;
}

/* Check all buffers that share bytes, in the order of their first uses. `both` selects the rounds (see
 * check_conflicts). */
static zr_status check_sharing(const zr__proof *p, placed *list, bool both)
{
    space_taken t = {0};
    int32_t n = 0;
    zr_status st = ZR_OK;
    for (int32_t b = 0; b < instances(p); b++) n += find_placed(p, b, both, &list[n]);
    qsort(list, (size_t)n, sizeof *list, by_time);
    for (int32_t i = 0; i < n && st == ZR_OK; i++) {
        if (i > 0 && list[i].buffer->space != list[i - 1].buffer->space) t.n = 0;
        st = take_bytes(p, &t, &list[i]);
    }
    zr_free(t.list);
    return st;
}

static zr_status check_places(const zr__proof *p)
{
    const int32_t n = instances(p);
    for (int32_t b = 0; b < n; b++) {
        const zr_buffer *x = buffer_of(p, b);
        const int64_t room = p->plan->space_bytes[x->space];
        ZR_CHECK(x->offset >= 0 && x->bytes >= 0 && x->bytes <= room && x->offset <= room - x->bytes, ZR_ERR_INTERNAL,
                 "buffer %s ends outside the %lld bytes of its space", x->what, (long long)room);
    }
    ZR_AUTO_FREE placed *list = zr_alloc(sizeof *list * (size_t)(n + 1));
    ZR_CHECK(list, ZR_ERR_MEMORY, "no memory to check %d buffers", n);
    ZR_TRY(check_sharing(p, list, false));
    return p->times > p->s->n_steps ? check_sharing(p, list, true) : ZR_OK;
}

/* ---- one pair of rounds ------------------------------------------------------------------------ */

zr_status zr__check_order(zr__proof *p, zr__pair pair, bool asked)
{
    p->pair = pair;
    p->asked = asked;
    if (!p->clock) p->clock = zr_alloc(sizeof *p->clock * (size_t)(p->times + 1));
    ZR_CHECK(p->clock, ZR_ERR_MEMORY, "no memory to check %d steps", p->times);
    ZR_TRY(find_order(p));
    ZR_TRY(list_uses(p));
    for (int32_t b = 0; b < instances(p); b++) {
        ZR_TRY(check_conflicts(p, b, false));
        if (p->times > p->s->n_steps) ZR_TRY(check_conflicts(p, b, true));
    }
    return check_places(p);
}
