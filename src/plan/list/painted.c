/* Records when each stream last used each byte of a memory space. The bytes are divided into cells at the offsets where
 * buffers begin or end. A time point is "painted" on all cells of a buffer.
 *
 * The n cells are the leaves n .. 2n-1 of a binary tree, in which node x is the parent of 2x and 2x+1. Painting and
 * look-up therefore take O(log n) time, however many buffers share bytes. */
#include "base/number/sorted.h"
#include "plan/list/list.h"

#include <stdlib.h>

struct zr__cell {
    /* `all[stream]`: latest time point painted on the whole node; `any[stream]`: latest time point painted on any cell
     * below the node */
    int32_t all[ZR_STREAMS], any[ZR_STREAMS];
};

static int by_edge(const void *x, const void *y)
{
    const int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return (a > b) - (a < b);
}

zr_status zr__painted_begin(zr__painted *p, const zr_schedule *s, zr_space space)
{
    *p = (zr__painted){0};
    p->edge = zr_alloc(sizeof *p->edge * 2 * (size_t)(s->n_buffers + 1));
    ZR_CHECK(p->edge, ZR_ERR_MEMORY, "no memory to order %d buffers", s->n_buffers);
    for (int32_t b = 0; b < s->n_buffers; b++) {
        if (s->buffer[b].persistent || s->buffer[b].space != space) continue;
        p->edge[p->n_edges++] = s->buffer[b].offset;
        p->edge[p->n_edges++] = s->buffer[b].offset + s->buffer[b].bytes;
    }
    qsort(p->edge, (size_t)p->n_edges, sizeof *p->edge, by_edge);
    int32_t kept = 0;
    for (int32_t i = 0; i < p->n_edges; i++)
        if (i == 0 || p->edge[i] != p->edge[kept - 1]) p->edge[kept++] = p->edge[i];
    p->n_edges = kept;
    p->cell = zr_alloc(sizeof *p->cell * 2 * (size_t)(kept + 1));
    ZR_CHECK(p->cell, ZR_ERR_MEMORY, "no memory to order %d buffers", s->n_buffers);
    for (int32_t i = 0; i < 2 * kept; i++)
        for (int k = 0; k < ZR_STREAMS; k++) p->cell[i].all[k] = p->cell[i].any[k] = -1;
    return ZR_OK;
}

void zr__painted_end(zr__painted *p)
{
    zr_free(p->edge);
    zr_free(p->cell);
}

/* Return the leaf of the cell that begins at this offset. */
static int32_t leaf_at(const zr__painted *p, int64_t offset)
{
    return p->n_edges + (int32_t)zr__sorted_below(p->edge, p->n_edges, sizeof(*p->edge), 0, offset);
}

/* The nodes that together cover exactly a buffer (`whole`), and the ancestors of the buffer's first and last cell
 * (`above`). */
typedef struct nodes {
    int32_t whole[64], above[64];
    int n_whole, n_above;
} nodes;

static nodes nodes_of(const zr__painted *p, const zr_buffer *buffer)
{
    nodes found = {.n_whole = 0};
    const int32_t first = leaf_at(p, buffer->offset), last = leaf_at(p, buffer->offset + buffer->bytes) - 1;
    if (last < first) return found;
    for (int32_t a = first, b = last; a <= b; a = (a + 1) / 2, b = (b - 1) / 2) {
        if (a % 2 == 1) found.whole[found.n_whole++] = a;
        if (b % 2 == 0) found.whole[found.n_whole++] = b;
    }
    for (int32_t a = first / 2, b = last / 2; a > 0; a /= 2, b /= 2) {
        found.above[found.n_above++] = a;
        if (b > 0 && b != a) found.above[found.n_above++] = b;
    }
    return found;
}

void zr__painted_add(zr__painted *p, const zr_buffer *buffer, const int32_t time[ZR_STREAMS])
{
    const nodes n = nodes_of(p, buffer);
    for (int i = 0; i < n.n_whole; i++) {
        zr__raise(p->cell[n.whole[i]].all, time);
        zr__raise(p->cell[n.whole[i]].any, time);
    }
    for (int i = 0; i < n.n_above; i++) zr__raise(p->cell[n.above[i]].any, time);
}

void zr__painted_latest(const zr__painted *p, const zr_buffer *buffer, int32_t time[ZR_STREAMS])
{
    const nodes n = nodes_of(p, buffer);
    for (int i = 0; i < n.n_whole; i++) zr__raise(time, p->cell[n.whole[i]].any);
    for (int i = 0; i < n.n_above; i++) zr__raise(time, p->cell[n.above[i]].all);
}
