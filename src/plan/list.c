/*
 * A list of steps that rewrites edit: steps keep their ids whatever is put in before and behind them. What follows from
 * the list as a whole (lifetimes, waits) is found when it is finished.
 */
#include "plan/internal.h"

#include <string.h>

/* ---- arrays that grow ------------------------------------------------------------------------ */

bool zr__grow(zr_status *status, void **array, int32_t n, int32_t *room, size_t each)
{
    if (*status != ZR_OK || n < *room) return *status == ZR_OK;
    if (*room > INT32_MAX / 2) {
        *status = ZR_FAIL(ZR_ERR_CONFIG, "a schedule of more than %d entries: ask for larger buckets", *room);
        return false;
    }
    int32_t wanted = *room ? 2 * *room : 256;
    void *bigger = zr_alloc((size_t)wanted * each);
    if (!bigger) {
        *status = ZR_FAIL(ZR_ERR_MEMORY, "no memory for a schedule of %d entries", wanted);
        return false;
    }
    if (*array) memcpy(bigger, *array, (size_t)n * each);
    zr_free(*array);
    *array = bigger;
    *room = wanted;
    return true;
}

#define GROW(l, array, n, room) zr__grow(&(l)->status, (void **)&(array), (n), &(l)->room, sizeof *(array))

int64_t zr__round_bytes(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
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
    /* Room that is not used is not touched; arrays that grow are touched twice. */
    l->room = plan->n_moves + 4 * (graph ? zr_graph_ops(graph) : 0) + 256;
    l->use_room = 4 * l->room;
    l->node = zr_alloc((size_t)l->room * sizeof *l->node);
    l->use = zr_alloc((size_t)l->use_room * sizeof *l->use);
    ZR_CHECK(l->node && l->use, ZR_ERR_MEMORY, "no memory for a schedule of %d steps", l->room);
    return ZR_OK;
}

void zr__list_end(zr__list *l)
{
    zr_free(l->node);
    zr_free(l->use);
    zr_free(l->pace);
    l->node = NULL;
    l->use = NULL;
    l->pace = NULL;
}

void zr__list_seek(zr__list *l, zr__id before)
{
    l->before = before;
}

static void link_in(zr__list *l, zr__id id)
{
    zr__node *node = &l->node[id];
    node->next = l->before;
    node->prev = l->before == ZR_NONE ? l->end : l->node[l->before].prev;
    if (node->prev == ZR_NONE)
        l->first = id;
    else
        l->node[node->prev].next = id;
    if (node->next == ZR_NONE)
        l->end = id;
    else
        l->node[node->next].prev = id;
}

zr__id zr__list_step(zr__list *l, zr_step_kind kind, zr_stream stream, int32_t unit)
{
    if (l->status == ZR_OK && l->n == ZR__STEPS_MAX)
        l->status = ZR_FAIL(ZR_ERR_CONFIG, "a schedule of more than %d steps: ask for larger buckets, or fewer layers",
                            ZR__STEPS_MAX);
    if (!GROW(l, l->node, l->n, room)) return ZR_NONE;
    zr__id id = l->n++;
    l->node[id] = (zr__node){.step = {.kind = kind, .stream = stream, .unit = unit, .op = -1, .owner = -1},
                             .uses = l->n_uses,
                             .pace = ZR_NONE};
    link_in(l, id);
    l->newest = id;
    if (l->before == ZR_NONE) l->last[stream] = id;
    return id;
}

zr_step *zr__list_newest(zr__list *l)
{
    return l->status == ZR_OK ? &l->node[l->newest].step : &l->unused;
}

/* The uses of a step stand one after the other: those of an older step move to the end before one is added. */
static bool uses_at_end(zr__list *l, zr__node *node)
{
    if (node->uses + node->n_uses == l->n_uses) return true;
    for (int32_t i = 0, from = node->uses; i < node->n_uses; i++) {
        if (!GROW(l, l->use, l->n_uses, use_room)) return false;
        if (i == 0) node->uses = l->n_uses;
        l->use[l->n_uses++] = l->use[from + i];
    }
    return true;
}

void zr__list_use(zr__list *l, zr__id step, zr_use use)
{
    if (l->status != ZR_OK || !uses_at_end(l, &l->node[step]) || !GROW(l, l->use, l->n_uses, use_room)) return;
    l->use[l->n_uses++] = use;
    l->node[step].n_uses++;
}

void zr__list_pace(zr__list *l, zr__id step, zr__id earlier)
{
    if (l->status != ZR_OK || earlier == ZR_NONE || !GROW(l, l->pace, l->n_paces, pace_room)) return;
    l->pace[l->n_paces] = (zr__pace){earlier, l->node[step].pace};
    l->node[step].pace = l->n_paces++;
}

int32_t zr__list_buffer(zr__list *l, zr_space space, zr_category category, int32_t unit, const char *what,
                        int64_t bytes)
{
    zr_schedule *s = l->schedule;
    if (!GROW(l, s->buffer, s->n_buffers, buffer_room)) return ZR_NONE;
    l->status = zr__add_bytes(&l->bytes[space], zr__round_bytes(bytes));
    if (l->status != ZR_OK) return ZR_NONE;
    s->buffer[s->n_buffers] = (zr_buffer){.category = category,
                                          .space = space,
                                          .unit = unit,
                                          .what = what,
                                          .bytes = zr__round_bytes(bytes),
                                          .first_step = -1,
                                          .last_step = -1};
    return s->n_buffers++;
}

void zr__list_rename(zr__list *l, zr__id from, zr__id to, int32_t buffer, int32_t by)
{
    for (zr__id id = from; l->status == ZR_OK && id != ZR_NONE; id = id == to ? ZR_NONE : l->node[id].next) {
        const zr__node *node = &l->node[id];
        for (int32_t u = node->uses; u < node->uses + node->n_uses; u++)
            if (l->use[u].buffer == buffer) l->use[u].buffer = by;
    }
}

/* ---- the finished schedule ------------------------------------------------------------------- */

static void note_life(zr_schedule *s, int32_t step)
{
    for (int32_t u = s->step[step].uses; u < s->step[step].uses + s->step[step].n_uses; u++) {
        zr_buffer *b = s->use[u].buffer == ZR_NONE ? NULL : &s->buffer[s->use[u].buffer];
        if (!b || b->persistent) continue;
        if (b->first_step < 0) b->first_step = step;
        b->last_step = step;
    }
}

/* Steps in the order of the list, which position each id has, and back; how often the body of REPEAT runs. */
static zr_status lay_out(const zr__list *l, int32_t *position, int32_t *id_at, int64_t *rounds)
{
    zr_schedule *s = l->schedule;
    s->step = zr_alloc(sizeof *s->step * (size_t)(l->n + 1));
    s->use = zr_alloc(sizeof *s->use * (size_t)(l->n_uses + 1));
    ZR_CHECK(s->step && s->use, ZR_ERR_MEMORY, "no memory for a schedule of %d steps", l->n);
    for (zr__id id = l->first; l->n > 0 && id != ZR_NONE; id = l->node[id].next) {
        const zr__node *node = &l->node[id];
        zr_step *step = &s->step[s->n_steps];
        *step = node->step;
        step->uses = s->n_uses;
        step->n_uses = node->n_uses;
        if (node->n_uses) memcpy(s->use + s->n_uses, l->use + node->uses, sizeof *s->use * (size_t)node->n_uses);
        s->n_uses += node->n_uses;
        note_life(s, s->n_steps);
        if (step->kind == ZR_STEP_REPEAT) *rounds = step->rounds;
        id_at[s->n_steps] = id;
        position[id] = s->n_steps++;
    }
    return ZR_OK;
}

zr_status zr__list_finish(zr__list *l)
{
    zr_status st = l->status;
    int32_t *position = zr_alloc(sizeof *position * 2 * (size_t)(l->n + 1)),
            *id = position ? position + l->n + 1 : NULL;
    zr__order order = {.plan = l->plan, .schedule = l->schedule, .list = l, .position = position, .id = id};
    if (st == ZR_OK && !position) st = ZR_FAIL(ZR_ERR_MEMORY, "no memory for a schedule of %d steps", l->n);
    if (st != ZR_OK) goto done;
    ZR_TRY_GOTO(st, lay_out(l, position, id, &order.rounds), done);
    ZR_TRY_GOTO(st, zr__order_steps(&order), done);
    for (int space = 0; space < ZR_SPACES; space++) {
        zr__packed packed;
        ZR_TRY_GOTO(st, zr__pack(l->plan, l->schedule, (zr_space)space, order.clock, &packed), done);
        if (packed.bytes > l->plan->space_bytes[space]) l->plan->space_bytes[space] = packed.bytes;
    }
    ZR_TRY_GOTO(st, zr__order_rounds(&order), done);
done:
    zr__order_end(&order);
    zr_free(position);
    return st;
}
