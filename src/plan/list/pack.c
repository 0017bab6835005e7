/* The memory map: assigns offsets to the transient buffers of a schedule, in each memory space. The largest buffers are
 * placed first. Each buffer gets the lowest offset at which it overlaps no placed buffer that may be alive at the same
 * time. Two buffers may share bytes only if all uses of one happen before the first write of the other. The order of
 * streams and waits must guarantee this. The order of steps in the list is not enough, since streams run at the same
 * time.
 *
 * Most pairs of buffers are far apart in the schedule. Therefore a buffer is compared only with buffers in the same
 * slices of time. Placed buffers with neighbouring offsets are grouped into blocks. In most cases a buffer is alive
 * together with all buffers of a block or with none. One comparison with the block then decides. */
#include "base/core/grow.h"
#include "plan/list/list.h"

#include <stdlib.h>
#include <string.h>

/* At level l, the schedule is divided into 4^l slices of time. A buffer belongs to the finest level at which its
 * lifetime touches at most two slices. A short-lived buffer is therefore compared with few others. */
enum { LEVELS_MOST = 7, SLICE_LEAST = 192 }; /* SLICE_LEAST: minimum average number of buffers per slice */

typedef struct span {
    int64_t bytes, offset;
    int32_t first[ZR_STREAMS]; /* for each stream: its last step that happens before the buffer's first step */
    int32_t last[ZR_STREAMS];  /* for each stream: its last step that uses the buffer, or -1 */
    int32_t buffer, from, to;  /* from, to: first and last step at which the buffer may be alive */
    zr_space space;
    /* whether the buffer is read from or written to disk, so that it begins at a multiple of ZR_DISK_ALIGN */
    bool on_page;
} span;

typedef struct placed {
    int64_t offset, end; /* copies from the span, for faster comparison */
    int32_t from, to;    /* copies too; one of two spans that do not overlap ends before the other begins */
    const span *span;
} placed;

/* maximum number of buffers in a block */
enum { BLOCK = 64 };
typedef struct block {
    placed item[BLOCK];
    int32_t n;
    int64_t reach; /* highest end of an item */
    int64_t hole;  /* bytes of the largest gap between the items */
    int32_t least_first[ZR_STREAMS], most_first[ZR_STREAMS], least_last[ZR_STREAMS], most_last[ZR_STREAMS];
} block;

/* The placed buffers of one level that may be alive in one slice of time, in order of offset. */
typedef struct slice {
    block **block;
    int32_t n;
    int64_t room, reach; /* `reach`: highest offset at which a buffer ends */
} slice;

typedef struct packing {
    span *span; /* spans of all buffers, ordered by memory space and then by decreasing size */
    int64_t looks;
    int32_t n_steps, levels, n_slices; /* `n_slices`: total over all levels */
    slice *slice;                      /* slices of all levels, level by level */
} packing;

/* Return whether all uses of a's buffer happen before the first step that uses b's buffer. The loop has no branch,
 * because it is the innermost loop of packing. */
static bool is_before(const span *a, const span *b)
{
    int32_t later = 0;
    for (int s = 0; s < ZR_STREAMS; s++) later |= a->last[s] > b->first[s];
    return !later;
}

static int by_span_size(const void *x, const void *y)
{
    const span *a = x, *b = y;
    if (a->space != b->space) return a->space < b->space ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    return a->buffer - b->buffer;
}

/* Return the position of a stream's first step after `step`. After the stream's last step, return the number of all
 * steps. */
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

/* Find a buffer's span: the steps at which the buffer may be alive. The span begins at the first step that is not known
 * to happen before the buffer's first use. It ends at the buffer's last use. Two buffers whose spans do not overlap are
 * never alive together. */
static span find_span(const zr__order *o, int32_t buffer)
{
    const zr_buffer *b = &o->schedule->buffer[buffer];
    const zr__touched *touched = &o->touched[buffer];
    span x = {.buffer = buffer, .bytes = b->bytes, .space = b->space, .from = b->first_step, .to = b->first_step};
    for (int s = 0; s < ZR_STREAMS; s++) {
        x.first[s] = o->clock[b->first_step][s];
        x.last[s] = touched->read[s] > touched->written[s] ? touched->read[s] : touched->written[s];
        const int32_t open = next_of(o, s, x.first[s]);
        if (open < x.from) x.from = open;
        if (x.last[s] > x.to) x.to = x.last[s];
    }
    return x;
}

/* Return the slice of time, of the slices at `level`, that contains a step. */
static slice *slice_at(const packing *k, int level, int32_t step)
{
    const int64_t slices = (int64_t)1 << 2 * level;
    return &k->slice[(slices - 1) / 3 + step * slices / k->n_steps];
}

/* Return whether it is certain that an item is alive at the same time as each buffer of a block (meets_all), or at the
 * same time as no buffer of the block (meets_none). */
static bool meets_all(const block *b, const span *item)
{
    bool none_before = false, none_behind = false;
    for (int s = 0; s < ZR_STREAMS; s++) {
        none_before |= b->least_last[s] > item->first[s];
        none_behind |= item->last[s] > b->most_first[s];
    }
    return none_before && none_behind;
}

static bool meets_none(const block *b, const span *item)
{
    bool all_before = true, all_behind = true;
    for (int s = 0; s < ZR_STREAMS; s++) {
        all_before &= b->most_last[s] <= item->first[s];
        all_behind &= item->last[s] <= b->least_first[s];
    }
    return all_before || all_behind;
}

/* Return the lowest offset, from `offset` on, at which `item` fits among the buffers of one block. */
static int64_t lowest_in(packing *k, const block *b, const span *item, int64_t offset)
{
    if (meets_none(b, item)) return offset;
    if (b->hole < item->bytes && meets_all(b, item)) return b->reach;
    for (const placed *p = b->item; p < b->item + b->n; p++) {
        k->looks++;
        if (p->offset >= offset + item->bytes) break; /* the item fits between the previous buffer and this one */
        if (p->end <= offset || p->to < item->from || item->to < p->from) continue;
        if (is_before(p->span, item) || is_before(item, p->span)) continue;
        offset = p->end;
    }
    return offset;
}

/* Return the lowest offset, from `offset` on, at which `item` fits among the buffers of one slice of time. */
static int64_t lowest(packing *k, const slice *s, const span *item, int64_t offset)
{
    if (s->reach <= offset) return offset;
    for (int32_t i = 0; i < s->n && s->block[i]->item[0].offset < offset + item->bytes; i++) {
        k->looks++;
        if (s->block[i]->reach > offset) offset = lowest_in(k, s->block[i], item, offset);
    }
    return offset;
}

/* Find the highest end of a block's items and the largest gap between them. */
static void find_holes(block *b)
{
    b->reach = b->item[0].offset;
    b->hole = 0;
    for (const placed *p = b->item; p < b->item + b->n; p++) {
        if (p->offset - b->reach > b->hole) b->hole = p->offset - b->reach;
        if (p->end > b->reach) b->reach = p->end;
    }
}

/* Widen the bounds of a block to include a span. */
static void widen(block *b, const span *item)
{
    for (int s = 0; s < ZR_STREAMS; s++) {
        const int32_t first = item->first[s], last = item->last[s];
        if (first < b->least_first[s]) b->least_first[s] = first;
        if (first > b->most_first[s]) b->most_first[s] = first;
        if (last < b->least_last[s]) b->least_last[s] = last;
        if (last > b->most_last[s]) b->most_last[s] = last;
    }
}

/* Recompute the bounds and holes of a block from all its spans. */
static void sum_up(block *b)
{
    for (int s = 0; s < ZR_STREAMS; s++) {
        b->least_first[s] = b->least_last[s] = INT32_MAX;
        b->most_first[s] = b->most_last[s] = -1;
    }
    for (const placed *p = b->item; p < b->item + b->n; p++) widen(b, p->span);
    find_holes(b);
}

/* Insert a new block after block `at`, and move the upper half of that block's items into it. In an empty slice, only
 * insert the first block. */
static zr_status split_block(slice *s, int32_t at)
{
    ZR_GROW(s->block, s->room, s->n + 1, "blocks of buffers to place");
    block *upper = zr_alloc(sizeof *upper);
    ZR_CHECK(upper, ZR_ERR_MEMORY, "no memory for %zu bytes to place buffers", sizeof *upper);
    const int32_t behind = at + 1 < s->n ? at + 1 : s->n;
    memmove(s->block + behind + 1, s->block + behind, (size_t)(s->n - behind) * sizeof *s->block);
    s->block[behind] = upper;
    if (s->n++ == 0) return ZR_OK;
    block *lower = s->block[at];
    upper->n = BLOCK / 2;
    lower->n = BLOCK - upper->n;
    memcpy(upper->item, lower->item + lower->n, (size_t)upper->n * sizeof *upper->item);
    sum_up(upper);
    sum_up(lower);
    return ZR_OK;
}

/* Return the index of the last block that begins at or below an offset. Return 0 if all blocks begin above it. */
static int32_t block_at(const slice *s, int64_t offset)
{
    int32_t begin = 0, end = s->n;
    while (begin < end) {
        const int32_t middle = begin + (end - begin) / 2;
        if (s->block[middle]->item[0].offset <= offset)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin > 0 ? begin - 1 : 0;
}

static zr_status insert_span(slice *s, const span *item)
{
    int32_t i = block_at(s, item->offset);
    if (s->n == 0 || s->block[i]->n == BLOCK) {
        ZR_TRY(split_block(s, i));
        i = block_at(s, item->offset);
    }
    block *b = s->block[i];
    int32_t at = b->n++;
    for (; at > 0 && b->item[at - 1].offset > item->offset; at--) b->item[at] = b->item[at - 1];
    b->item[at] = (placed){item->offset, item->offset + item->bytes, item->from, item->to, item};
    if (b->n == 1) sum_up(b);
    widen(b, item);
    find_holes(b);
    if (b->reach > s->reach) s->reach = b->reach;
    return ZR_OK;
}

static void empty_slice(slice *s)
{
    for (int32_t i = 0; i < s->n; i++) zr_free(s->block[i]);
    s->n = 0;
    s->reach = 0;
}

/* Mark the buffers that are read from or written to disk. span[i] is the span of buffer n_persistent + i. */
static void mark_pages(const zr_plan *plan, const zr_schedule *s, span *list)
{
    const bool any = plan->persistent_bytes[ZR_SPACE_DISK] > 0 || plan->checkpoint_home == ZR_SPACE_DISK;
    for (int32_t i = 0; i < s->n_steps && any; i++) {
        const zr_use *use = &s->use[s->step[i].uses];
        if (s->step[i].kind != ZR_STEP_COPY) continue;
        for (int side = 0; side < 2; side++)
            if (s->buffer[use[side].buffer].space == ZR_SPACE_DISK && use[!side].buffer >= plan->n_persistent)
                list[use[!side].buffer - plan->n_persistent].on_page = true;
    }
}

/* Place a buffer at the lowest free offset. Buffers are placed from the offset `begin` of the memory space on. */
static zr_status place_span(packing *k, int64_t begin, span *item)
{
    int level = k->levels - 1;
    for (int64_t tried = -1; tried != item->offset;) { /* repeat until the same offset fits in all slices */
        if (item->on_page) item->offset += (ZR_DISK_ALIGN - (begin + item->offset) % ZR_DISK_ALIGN) % ZR_DISK_ALIGN;
        tried = item->offset;
        for (int l = 0; l < k->levels; l++)
            for (const slice *s = slice_at(k, l, item->from); s <= slice_at(k, l, item->to); s++)
                item->offset = lowest(k, s, item, item->offset);
    }
    while (slice_at(k, level, item->to) - slice_at(k, level, item->from) > 1) level--;
    for (slice *s = slice_at(k, level, item->from); s <= slice_at(k, level, item->to); s++)
        ZR_TRY(insert_span(s, item));
    return ZR_OK;
}

static void packing_end(packing *k)
{
    for (int i = 0; k->slice && i < k->n_slices; i++) {
        empty_slice(&k->slice[i]);
        zr_free(k->slice[i].block);
    }
    zr_free(k->slice);
    zr_free(k->span);
}

zr_status zr__pack(const zr__order *order, zr__packed *packed)
{
    const zr_plan *plan = order->plan;
    zr_schedule *schedule = order->schedule;
    const int32_t n = schedule->n_buffers - plan->n_persistent;
    *packed = (zr__packed){0};
    for (int s = 0; s < ZR_SPACES; s++) packed->bytes[s] = plan->persistent_bytes[s];
    if (n == 0) return ZR_OK;
    ZR_AUTO(packing_end) packing k = {.n_steps = schedule->n_steps, .levels = 1, .n_slices = 1};
    while (k.levels < LEVELS_MOST && n >> 2 * k.levels >= SLICE_LEAST) k.n_slices += 1 << 2 * k.levels++;
    k.slice = zr_alloc(sizeof *k.slice * (size_t)k.n_slices);
    k.span = zr_alloc(sizeof *k.span * (size_t)n);
    ZR_CHECK(k.slice && k.span, ZR_ERR_MEMORY, "no memory to place %d buffers", n);
    for (int32_t i = 0; i < n; i++) k.span[i] = find_span(order, plan->n_persistent + i);
    mark_pages(plan, schedule, k.span);
    qsort(k.span, (size_t)n, sizeof *k.span, by_span_size);
    for (int32_t i = 0; i < n; i++) {
        span *item = &k.span[i];
        for (int j = 0; j < k.n_slices && i > 0 && item->space != k.span[i - 1].space; j++) empty_slice(&k.slice[j]);
        const int64_t begin = plan->persistent_bytes[item->space];
        ZR_TRY(place_span(&k, begin, item));
        const int64_t offset = begin + item->offset, end = offset + item->bytes;
        schedule->buffer[item->buffer].offset = offset;
        if (end > packed->bytes[item->space]) packed->bytes[item->space] = end;
    }
    packed->looks = k.looks;
    return ZR_OK;
}
