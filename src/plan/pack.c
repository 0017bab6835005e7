/*
 * The memory map: offsets for the transient buffers of a schedule. Largest first, each at the
 * lowest offset where it does not meet a buffer that may be alive at the same time. Two buffers may
 * share bytes only when every use of one happens before the first write of the other in the order of
 * streams and waits; the position in the list proves nothing.
 */
#include "plan/internal.h"

#include <stdlib.h>

typedef struct span {
    int32_t buffer, first;            /* first: its first step, which writes it */
    int32_t last[ZR_STREAMS];         /* last step of each stream that uses it, -1: none */
    int64_t bytes, offset;
} span;

static bool before(const span *a, const span *b, int32_t (*clock)[ZR_STREAMS])
{
    for (int s = 0; s < ZR_STREAMS; s++)
        if (a->last[s] > clock[b->first][s]) return false;
    return true;
}

static int by_size(const void *x, const void *y)
{
    const span *a = x, *b = y;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    return a->buffer - b->buffer;
}

static void find_spans(const zr_plan *plan, const zr_schedule *s, span *spans, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const zr_buffer *b = &s->buffer[plan->n_persistent + i];
        spans[i] = (span){.buffer = plan->n_persistent + i, .first = b->first_step, .bytes = b->bytes};
        for (int k = 0; k < ZR_STREAMS; k++) spans[i].last[k] = -1;
    }
    for (int32_t i = 0; i < s->n_steps; i++) {
        const zr_step *step = &s->step[i];
        for (int32_t u = step->uses; u < step->uses + step->n_uses; u++) {
            int32_t b = s->use[u].buffer - plan->n_persistent;
            if (b >= 0) spans[b].last[step->stream] = i;
        }
    }
}

/* Lowest offset for `item` among the placed, which are sorted by offset. */
static int64_t lowest(const span *item, const span *const *placed, int32_t n, int32_t (*clock)[ZR_STREAMS])
{
    int64_t offset = 0;
    for (int32_t i = 0; i < n; i++) {
        const span *p = placed[i];
        if (p->offset + p->bytes <= offset || before(p, item, clock) || before(item, p, clock)) continue;
        if (p->offset >= offset + item->bytes) break;
        offset = p->offset + p->bytes;
    }
    return offset;
}

zr_status zr__pack(const zr_plan *plan, zr_schedule *schedule, int32_t (*clock)[ZR_STREAMS], int64_t *bytes)
{
    int32_t n = schedule->n_buffers - plan->n_persistent;
    *bytes = plan->persistent_bytes;
    if (n == 0) return ZR_OK;
    span *spans = zr_alloc(sizeof *spans * (size_t)n);
    const span **placed = zr_alloc(sizeof *placed * (size_t)n);
    if (!spans || !placed) {
        zr_free(spans);
        zr_free(placed);
        return ZR_FAIL(ZR_ERR_MEMORY, "no memory to place %d buffers", n);
    }
    find_spans(plan, schedule, spans, n);
    qsort(spans, (size_t)n, sizeof *spans, by_size);
    for (int32_t i = 0; i < n; i++) {
        span *item = &spans[i];
        item->offset = lowest(item, placed, i, clock);
        int32_t at = i;
        for (; at > 0 && placed[at - 1]->offset > item->offset; at--) placed[at] = placed[at - 1];
        placed[at] = item;
        schedule->buffer[item->buffer].offset = plan->persistent_bytes + item->offset;
        int64_t end = plan->persistent_bytes + item->offset + item->bytes;
        if (end > *bytes) *bytes = end;
    }
    zr_free(spans);
    zr_free(placed);
    return ZR_OK;
}
