/*
 * The memory map: offsets for the transient buffers of a schedule, in each space. Largest first, each at the
 * lowest offset where it does not meet a buffer that may be alive at the same time. Two buffers may
 * share bytes only when every use of one happens before the first write of the other in the order of
 * streams and waits; the position in the list proves nothing.
 *
 * Most pairs are far apart in the schedule. It is cut into stretches, and a buffer is held only
 * against those that share a stretch with it.
 */
#include "plan/internal.h"

#include <stdlib.h>
#include <string.h>

enum { STRETCHES = 64 };

typedef struct span {
    int64_t bytes, offset;
    int32_t first[ZR_STREAMS]; /* the last step of each stream that comes before its first one, which writes it */
    int32_t last[ZR_STREAMS];  /* last step of each stream that uses it, -1: none */
    int32_t buffer, from, to;  /* from, to: stretches that it may be alive in */
    zr_space space;
} span;

typedef struct placed {
    const span *span;
    int64_t reach; /* the highest end of this and all before it */
} placed;

/* What is placed and may be alive in one stretch, by offset. */
typedef struct stretch {
    placed *placed;
    int32_t n, room;
} stretch;

typedef struct packing {
    span *span; /* by space, largest first */
    int64_t looks;
    stretch stretch[STRETCHES];
} packing;

static bool before(const span *a, const span *b)
{
    for (int s = 0; s < ZR_STREAMS; s++)
        if (a->last[s] > b->first[s]) return false;
    return true;
}

static int by_size(const void *x, const void *y)
{
    const span *a = x, *b = y;
    if (a->space != b->space) return a->space < b->space ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    return a->buffer - b->buffer;
}

/* From the first step that does not happen before the span's first one, to its last: whoever ends earlier or begins
 * later is ordered with it. next[s][i]: the first step of stream s at i or later. */
static void find_stretches(span *x, int32_t first_step, int32_t n_steps, int32_t *const next[ZR_STREAMS])
{
    int32_t first = first_step, last = first_step;
    for (int s = 0; s < ZR_STREAMS; s++) {
        int32_t open = next[s][x->first[s] + 1];
        if (open < first) first = open;
        if (x->last[s] > last) last = x->last[s];
    }
    x->from = (int32_t)((int64_t)first * STRETCHES / n_steps);
    x->to = (int32_t)((int64_t)last * STRETCHES / n_steps);
}

static zr_status find_spans(span *of, const zr_plan *plan, const zr_schedule *s, int32_t (*clock)[ZR_STREAMS])
{
    int32_t *next[ZR_STREAMS], each = s->n_steps + 1;
    next[0] = zr_alloc(sizeof(int32_t) * ZR_STREAMS * (size_t)each);
    ZR_CHECK(next[0], ZR_ERR_MEMORY, "no memory to order %d steps", s->n_steps);
    for (int i = 1; i < ZR_STREAMS; i++) next[i] = next[0] + (size_t)i * (size_t)each;
    for (int i = 0; i < ZR_STREAMS; i++) next[i][s->n_steps] = s->n_steps;
    for (int32_t at = s->n_steps - 1; at >= 0; at--)
        for (int i = 0; i < ZR_STREAMS; i++) next[i][at] = (int)s->step[at].stream == i ? at : next[i][at + 1];
    for (int32_t i = plan->n_persistent; i < s->n_buffers; i++) {
        const zr_buffer *b = &s->buffer[i];
        span *x = &of[i - plan->n_persistent];
        *x = (span){.buffer = i, .bytes = b->bytes, .space = b->space};
        for (int j = 0; j < ZR_STREAMS; j++) {
            x->first[j] = clock[b->first_step][j];
            x->last[j] = -1;
        }
    }
    for (int32_t i = 0; i < s->n_steps; i++) {
        const zr_step *step = &s->step[i];
        for (int32_t u = step->uses; u < step->uses + step->n_uses; u++)
            if (s->use[u].buffer >= plan->n_persistent)
                of[s->use[u].buffer - plan->n_persistent].last[step->stream] = i;
    }
    for (int32_t i = plan->n_persistent; i < s->n_buffers; i++)
        find_stretches(&of[i - plan->n_persistent], s->buffer[i].first_step, s->n_steps, next);
    zr_free(next[0]);
    return ZR_OK;
}

/* Lowest place for `item` at `offset` or above in one stretch. */
static int64_t lowest(packing *k, const stretch *s, const span *item, int64_t offset)
{
    int32_t begin = 0, end = s->n; /* skip what ends at `offset` or below */
    while (begin < end) {
        int32_t middle = begin + (end - begin) / 2;
        if (s->placed[middle].reach <= offset)
            begin = middle + 1;
        else
            end = middle;
    }
    for (int32_t i = begin; i < s->n; i++) {
        const span *p = s->placed[i].span;
        k->looks++;
        if (p->offset >= offset + item->bytes) break; /* it fits before this one and all that follow */
        if (p->offset + p->bytes <= offset || before(p, item) || before(item, p)) continue;
        offset = p->offset + p->bytes;
    }
    return offset;
}

static zr_status insert(stretch *s, const span *item)
{
    if (s->n == s->room) {
        int32_t room = 2 * s->room + 64;
        placed *more = zr_alloc(sizeof *more * (size_t)room);
        ZR_CHECK(more, ZR_ERR_MEMORY, "no memory to place %d buffers", room);
        if (s->n) memcpy(more, s->placed, sizeof *more * (size_t)s->n);
        zr_free(s->placed);
        s->placed = more;
        s->room = room;
    }
    int32_t at = s->n++;
    int64_t end = item->offset + item->bytes;
    for (; at > 0 && s->placed[at - 1].span->offset > item->offset; at--) {
        s->placed[at] = s->placed[at - 1];
        if (s->placed[at].reach < end) s->placed[at].reach = end;
    }
    s->placed[at] = (placed){item, at > 0 && s->placed[at - 1].reach > end ? s->placed[at - 1].reach : end};
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

zr_status zr__pack(const zr_plan *plan, zr_schedule *schedule, int32_t (*clock)[ZR_STREAMS], zr__packed *packed)
{
    packing k = {0};
    zr_status st = ZR_OK;
    const int32_t n = schedule->n_buffers - plan->n_persistent;
    *packed = (zr__packed){0};
    for (int s = 0; s < ZR_SPACES; s++) packed->bytes[s] = plan->persistent_bytes[s];
    if (n == 0) return ZR_OK;
    k.span = zr_alloc(sizeof *k.span * (size_t)n);
    ZR_CHECK(k.span, ZR_ERR_MEMORY, "no memory to place %d buffers", n);
    ZR_TRY_GOTO(st, find_spans(k.span, plan, schedule, clock), done);
    qsort(k.span, (size_t)n, sizeof *k.span, by_size);
    for (int32_t i = 0; i < n; i++) {
        span *item = &k.span[i];
        for (int j = 0; j < STRETCHES && i > 0 && item->space != k.span[i - 1].space; j++) k.stretch[j].n = 0;
        ZR_TRY_GOTO(st, place(&k, item), done);
        const int64_t offset = plan->persistent_bytes[item->space] + item->offset, end = offset + item->bytes;
        schedule->buffer[item->buffer].offset = offset;
        if (end > packed->bytes[item->space]) packed->bytes[item->space] = end;
    }
    packed->looks = k.looks;
done:
    for (int i = 0; i < STRETCHES; i++) zr_free(k.stretch[i].placed);
    zr_free(k.span);
    return st;
}
