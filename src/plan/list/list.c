/* Holds the list of steps while a plan is written and rewritten. A step keeps its id when other steps are inserted.
 * Buffer lifetimes and waits depend on the whole list, so they are computed when the list is finished. */
#include "base/core/grow.h"
#include "plan/list/list.h"

#include <string.h>

/* ---- arrays that grow ------------------------------------------------------------------------ */

bool zr__grow_now(zr_status *status, void **array, int32_t n, int64_t *room, size_t each)
{
    if (*status != ZR_OK) return false;
    if (n == INT32_MAX) {
        *status = ZR_FAIL(ZR_ERR_CONFIG, "a schedule of more than %d entries: use fewer layers", n);
        return false;
    }
    void *larger = zr__enlarge(*array, room, (int64_t)n + 1, each);
    if (!larger) {
        *status = ZR_FAIL(ZR_ERR_MEMORY, "no memory for a schedule of more than %d entries", n);
        return false;
    }
    *array = larger;
    return true;
}

#define GROW(l, array, n, room) zr__grow(&(l)->status, (void **)&(array), (n), &(l)->room, sizeof *(array))

int64_t zr__round_bytes(zr_space space, int64_t bytes)
{
    /* Align buffers in memory to a cache line. Align buffers on disk to a page, as direct I/O requires. */
    const int64_t alignment = space == ZR_SPACE_DISK ? ZR_DISK_ALIGN : 64;
    return (bytes + alignment - 1) / alignment * alignment;
}

zr_status zr__add_bytes(int64_t *sum, int64_t bytes)
{
    ZR_CHECK(
        bytes >= 0 && !__builtin_add_overflow(*sum, bytes, sum), ZR_ERR_CONFIG,
        "the bytes of a rank do not fit 63 bits: a smaller model or batch (train_micro_batch_size_per_gpu) is needed");
    return ZR_OK;
}

/* ---- steps ----------------------------------------------------------------------------------- */

zr_status zr__list_begin(zr__list *l, zr_plan *plan, const zr_graph *graph, zr_schedule *schedule)
{
    memset(l, 0, sizeof *l);
    l->plan = plan;
    l->graph = graph;
    l->schedule = schedule;
    l->first = l->end = l->newest = l->before = ZR_NONE;
    l->reduced[0] = l->reduced[1] = ZR_NONE;
    for (int s = 0; s < ZR_STREAMS; s++) l->last[s] = ZR_NONE;
    for (int s = 0; s < ZR_SPACES; s++) l->bytes[s] = plan->persistent_bytes[s];
    int32_t n = plan->n_persistent;
    schedule->buffer = zr_alloc((size_t)(n + 256) * sizeof *schedule->buffer);
    ZR_CHECK(schedule->buffer, ZR_ERR_MEMORY, "no memory for %d buffers of a plan", n);
    memcpy(schedule->buffer, plan->persistent, (size_t)n * sizeof *schedule->buffer);
    schedule->n_buffers = n;
    l->buffer_room = n + 256;
    /* Reserve enough entries for most schedules, since growing an array means copying it. */
    const int32_t ops = graph ? zr_graph_ops(graph) : 0;
    l->step_room = l->link_room = 2 * ops + 4 * plan->n_units + 64;
    l->use_room = 5 * ops + 12 * plan->n_units + 128;
    l->step = zr_alloc((size_t)l->step_room * sizeof *l->step);
    l->link = zr_alloc((size_t)l->link_room * sizeof *l->link);
    l->use = zr_alloc((size_t)l->use_room * sizeof *l->use);
    ZR_CHECK(l->step && l->link && l->use, ZR_ERR_MEMORY, "no memory for a schedule of %lld steps",
             (long long)l->step_room);
    return ZR_OK;
}

void zr__list_end(zr__list *l)
{
    zr_free(l->step);
    zr_free(l->link);
    zr_free(l->use);
    zr_free(l->pace);
}

void zr__list_seek(zr__list *l, zr__id before)
{
    l->before = before;
}

zr__id zr__list_step(zr__list *l, zr_step_kind kind, zr_stream stream, int32_t unit)
{
    if (l->status == ZR_OK && l->n == ZR__STEPS_MAX)
        l->status = ZR_FAIL(ZR_ERR_CONFIG,
                            "a schedule of more than %d steps: use fewer layers; with train.accumulation_order layer, "
                            "fewer micro-batches a step; with offloaded states, larger buckets (sub_group_size)",
                            ZR__STEPS_MAX);
    if (!GROW(l, l->step, l->n, step_room) || !GROW(l, l->link, l->n, link_room)) return ZR_NONE;
    const zr__id id = l->n++, before = l->before, prev = before == ZR_NONE ? l->end : l->link[before].prev;
    l->step[id] = (zr_step){.kind = kind,
                            .stream = stream,
                            .when = l->when,
                            .unit = unit,
                            .op = -1,
                            .slot = -1,
                            .value = ZR_NONE,
                            .peer = -1,
                            .channel = -1,
                            .micro = l->micro,
                            .stage = l->stage,
                            .action = l->action,
                            .uses = l->n_uses};
    l->link[id] = (zr__link){before, prev, ZR_NONE};
    *(prev == ZR_NONE ? &l->first : &l->link[prev].next) = id;
    *(before == ZR_NONE ? &l->end : &l->link[before].prev) = id;
    l->edited |= before != ZR_NONE;
    l->newest = id;
    if (before == ZR_NONE) l->last[stream] = id;
    return id;
}

zr_step *zr__list_newest(zr__list *l)
{
    return l->status == ZR_OK ? &l->step[l->newest] : &l->unused;
}

void zr__list_use(zr__list *l, zr__id id, zr_use use)
{
    if (l->status != ZR_OK) return;
    zr_step *step = &l->step[id];
    const int32_t from = step->uses;
    /* The uses of a step must be contiguous. If the step is not the newest, first copy its uses to the end of the
     * array. */
    const bool moves = from + step->n_uses != l->n_uses;
    if (moves) step->uses = l->n_uses;
    for (int32_t i = 0; moves && i < step->n_uses; i++) {
        if (!GROW(l, l->use, l->n_uses, use_room)) return;
        l->use[l->n_uses++] = l->use[from + i];
    }
    if (!GROW(l, l->use, l->n_uses, use_room)) return;
    l->use[l->n_uses++] = use;
    step->n_uses++;
}

zr__id zr__list_copy(zr__list *l, zr_stream stream, int32_t unit, zr_range range, zr_use from, zr_use to)
{
    const zr__id copy = zr__list_step(l, ZR_STEP_COPY, stream, unit);
    zr__list_newest(l)->range = range;
    zr__list_use(l, copy, zr__use_as(from, true, false));
    zr__list_use(l, copy, zr__use_as(to, false, true));
    return copy;
}

void zr__list_pace(zr__list *l, zr__id step, zr__id earlier)
{
    if (l->status != ZR_OK || earlier == ZR_NONE || !GROW(l, l->pace, l->n_paces, pace_room)) return;
    l->pace[l->n_paces] = (zr__pace){earlier, l->link[step].pace};
    l->link[step].pace = l->n_paces++;
}

void zr__list_pace_as(zr__list *l, zr__id step, zr__id other)
{
    for (int32_t p = l->status == ZR_OK ? l->link[other].pace : ZR_NONE; p != ZR_NONE; p = l->pace[p].next)
        zr__list_pace(l, step, l->pace[p].step);
}

int32_t zr__list_buffer(zr__list *l, zr_space space, zr_category category, int32_t unit, const char *what,
                        int64_t bytes)
{
    zr_schedule *s = l->schedule;
    if (!GROW(l, s->buffer, s->n_buffers, buffer_room)) return ZR_NONE;
    l->status = zr__add_bytes(&l->bytes[space], zr__round_bytes(space, bytes));
    if (l->status != ZR_OK) return ZR_NONE;
    s->buffer[s->n_buffers] = (zr_buffer){.category = category,
                                          .space = space,
                                          .unit = unit,
                                          .what = what,
                                          .bytes = zr__round_bytes(space, bytes),
                                          .first_step = -1,
                                          .last_step = -1};
    return s->n_buffers++;
}

/* ---- the finished schedule ------------------------------------------------------------------- */

/* Move the steps and their uses into the schedule, in the order of the list. Record the position of each id and the id
 * at each position. Record the positions of REPEAT and END, and the number of rounds. */
static zr_status lay_out(zr__list *l, int32_t *position, int32_t *id_at, zr__order *order)
{
    zr_schedule *s = l->schedule;
    s->use = l->use;
    s->n_uses = l->n_uses;
    s->n_steps = l->n;
    l->use = NULL;
    s->step = l->edited ? zr_alloc(sizeof *s->step * (size_t)(l->n + 1)) : l->step;
    ZR_CHECK(s->step, ZR_ERR_MEMORY, "no memory for a schedule of %d steps", l->n);
    int32_t at = 0;
    for (zr__id id = l->first; id != ZR_NONE; id = l->link[id].next, at++) {
        zr_step *step = &s->step[at];
        if (l->edited) *step = l->step[id];
        if (step->kind == ZR_STEP_REPEAT) order->rounds = step->rounds;
        if (step->kind == ZR_STEP_REPEAT) order->repeat = at;
        if (step->kind == ZR_STEP_END) order->end = at;
        id_at[at] = id;
        position[id] = at;
    }
    if (!l->edited) l->step = NULL;
    return ZR_OK;
}

zr_status zr__list_finish(zr__list *l)
{
    ZR_TRY(l->status);
    ZR_AUTO_FREE int32_t *position = zr_alloc(sizeof *position * 2 * (size_t)(l->n + 1));
    ZR_CHECK(position, ZR_ERR_MEMORY, "no memory for a schedule of %d steps", l->n);
    int32_t *id = position + l->n + 1;
    ZR_AUTO(zr__order_end)
    zr__order order = {
        .plan = l->plan, .schedule = l->schedule, .list = l, .position = position, .id = id, .repeat = -1, .end = -1};
    ZR_TRY(lay_out(l, position, id, &order));
    ZR_TRY(zr__order_steps(&order));
    zr__packed packed;
    ZR_TRY(zr__pack(&order, &packed));
    for (int space = 0; space < ZR_SPACES; space++)
        if (packed.bytes[space] > l->plan->space_bytes[space]) l->plan->space_bytes[space] = packed.bytes[space];
    return zr__order_rounds(&order);
}
