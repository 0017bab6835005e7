/*
 * The memory map: offsets for the transient buffers of a schedule, in each space. Largest first, each at the
 * lowest offset where it does not meet a buffer that may be alive at the same time. Two buffers may
 * share bytes only when every use of one happens before the first write of the other in the order of
 * streams and waits; the position in the list proves nothing.
 *
 * Most pairs are far apart in the schedule. It is cut into stretches, and a buffer is held only
 * against those that share a stretch with it.
 */
#include "base/grow.h"
#include "base/sorted.h"
#include "plan/internal.h"

#include <stdlib.h>
#include <string.h>

/* More stretches leave fewer neighbours in each, but a buffer is put into all that it lives in: the most stretches of
 * which a buffer lives in at most STRETCHES_LIVED on average. */
enum { STRETCHES_MOST = 64, STRETCHES_LIVED = 4 };

typedef struct span {
    int64_t bytes, offset;
    int32_t first[ZR_STREAMS]; /* the last step of each stream that comes before its first one, which writes it */
    int32_t last[ZR_STREAMS];  /* last step of each stream that uses it, -1: none */
    int32_t buffer, from, to;  /* from, to: steps, then stretches, that it may be alive in */
    zr_space space;
} span;

typedef struct placed {
    int64_t offset, end; /* span's */
    int64_t reach;       /* the highest end of this and all before it */
    const span *span;
} placed;

/* What is placed and may be alive in one stretch, by offset. */
typedef struct stretch {
    placed *placed;
    int32_t n;
    int64_t room;
} stretch;

typedef struct packing {
    span *span; /* by space, largest first */
    int64_t looks;
    int32_t n_stretches;
    stretch stretch[STRETCHES_MOST];
} packing;

/* Without a branch a stream: the two are held against each other more often than anything else is done here. */
static bool before(const span *a, const span *b)
{
    int32_t later = 0;
    for (int s = 0; s < ZR_STREAMS; s++) later |= a->last[s] > b->first[s];
    return !later;
}

static int by_size(const void *x, const void *y)
{
    const span *a = x, *b = y;
    if (a->space != b->space) return a->space < b->space ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    return a->buffer - b->buffer;
}

/* The first step of a stream behind `step`; all steps there are where none is. */
static int32_t next_of(const zr__order *o, int stream, int32_t step)
{
    int32_t begin = 0, end = o->n_of[stream];
    while (begin < end) {
        int32_t middle = begin + (end - begin) / 2;
        if (o->of_all[stream][middle] <= step)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin < o->n_of[stream] ? o->of_all[stream][begin] : o->schedule->n_steps;
}

/* From the first step that does not happen before the span's first one, to its last: whoever ends earlier or begins
 * later is ordered with it. */
static void find_life(const zr__order *o, span *x, int32_t first_step)
{
    x->from = x->to = first_step;
    for (int s = 0; s < ZR_STREAMS; s++) {
        int32_t open = next_of(o, s, x->first[s]);
        if (open < x->from) x->from = open;
        if (x->last[s] > x->to) x->to = x->last[s];
    }
}

static span find_span(const zr__order *o, int32_t buffer)
{
    const zr_buffer *b = &o->schedule->buffer[buffer];
    const zr__touched *touched = &o->touched[buffer];
    span x = {.buffer = buffer, .bytes = b->bytes, .space = b->space};
    for (int s = 0; s < ZR_STREAMS; s++) {
        x.first[s] = o->clock[b->first_step][s];
        x.last[s] = touched->read[s] > touched->written[s] ? touched->read[s] : touched->written[s];
    }
    find_life(o, &x, b->first_step);
    return x;
}

static void cut(packing *k, int32_t n, int32_t n_steps)
{
    int64_t lived = 1, steps = (int64_t)n * n_steps;
    for (int32_t i = 0; i < n; i++) lived += k->span[i].to - k->span[i].from;
    k->n_stretches = 1; /* a power of two: the same for models that differ little in this */
    while (k->n_stretches < STRETCHES_MOST && 2 * k->n_stretches * lived <= STRETCHES_LIVED * steps)
        k->n_stretches *= 2;
    for (int32_t i = 0; i < n; i++) {
        k->span[i].from = (int32_t)((int64_t)k->span[i].from * k->n_stretches / n_steps);
        k->span[i].to = (int32_t)((int64_t)k->span[i].to * k->n_stretches / n_steps);
    }
}

/* Lowest place for `item` at `offset` or above in one stretch. */
static int64_t lowest(packing *k, const stretch *s, const span *item, int64_t offset)
{
    /* What ends at `offset` or below is skipped. */
    const int64_t begin = zr__sorted_below(s->placed, s->n, sizeof(placed), offsetof(placed, reach), offset + 1);
    for (int64_t i = begin; i < s->n; i++) {
        const placed *p = &s->placed[i];
        k->looks++;
        if (p->offset >= offset + item->bytes) break; /* it fits before this one and all that follow */
        if (p->end <= offset || before(p->span, item) || before(item, p->span)) continue;
        offset = p->end;
    }
    return offset;
}

static zr_status insert(stretch *s, const span *item)
{
    ZR_GROW(s->placed, s->room, s->n + 1, "buffers to place");
    int32_t at = s->n++;
    int64_t end = item->offset + item->bytes;
    for (; at > 0 && s->placed[at - 1].offset > item->offset; at--) {
        s->placed[at] = s->placed[at - 1];
        if (s->placed[at].reach < end) s->placed[at].reach = end;
    }
    s->placed[at] = (placed){.offset = item->offset, .end = end, .reach = end, .span = item};
    if (at > 0 && s->placed[at - 1].reach > end) s->placed[at].reach = s->placed[at - 1].reach;
    return ZR_OK;
}

static zr_status place(packing *k, span *item)
{
    for (int64_t tried = -1; tried != item->offset;) { /* until it fits in all its stretches at once */
        tried = item->offset;
        for (int32_t i = item->from; i <= item->to; i++) item->offset = lowest(k, &k->stretch[i], item, item->offset);
    }
    for (int32_t i = item->from; i <= item->to; i++) ZR_TRY(insert(&k->stretch[i], item));
    return ZR_OK;
}

zr_status zr__pack(const zr__order *order, zr__packed *packed)
{
    packing k = {0};
    zr_status st = ZR_OK;
    const zr_plan *plan = order->plan;
    zr_schedule *schedule = order->schedule;
    const int32_t n = schedule->n_buffers - plan->n_persistent;
    *packed = (zr__packed){0};
    for (int s = 0; s < ZR_SPACES; s++) packed->bytes[s] = plan->persistent_bytes[s];
    if (n == 0) return ZR_OK;
    k.span = zr_alloc(sizeof *k.span * (size_t)n);
    ZR_CHECK(k.span, ZR_ERR_MEMORY, "no memory to place %d buffers", n);
    for (int32_t i = 0; i < n; i++) k.span[i] = find_span(order, plan->n_persistent + i);
    cut(&k, n, schedule->n_steps);
    qsort(k.span, (size_t)n, sizeof *k.span, by_size);
    for (int32_t i = 0; i < n; i++) {
        span *item = &k.span[i];
        for (int j = 0; j < k.n_stretches && i > 0 && item->space != k.span[i - 1].space; j++) k.stretch[j].n = 0;
        ZR_TRY_GOTO(st, place(&k, item), done);
        const int64_t offset = plan->persistent_bytes[item->space] + item->offset, end = offset + item->bytes;
        schedule->buffer[item->buffer].offset = offset;
        if (end > packed->bytes[item->space]) packed->bytes[item->space] = end;
    }
    packed->looks = k.looks;
done:
    for (int i = 0; i < k.n_stretches; i++) zr_free(k.stretch[i].placed);
    zr_free(k.span);
    return st;
}
