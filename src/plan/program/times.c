/* Finds the times at which the actions of a pipeline's lists begin, if none begins later than it must. */
#include "base/core/scope.h"
#include "plan/program/pipeline.h"

int32_t *zr__timed_ended(const zr__timed *t, bool forward, int32_t stage, int32_t micro)
{
    const int32_t stages = t->pipe.ranks * t->pipe.chunks;
    return &t->ended[((ptrdiff_t)(forward ? 0 : stages) + stage) * t->pipe.micros + micro];
}

/* Return the time at which an action may begin, or -1 while an action on which it depends has no time. */
static int32_t may_begin(const zr__timed *t, const zr_pipe_action *a)
{
    const int32_t stages = t->pipe.ranks * t->pipe.chunks;
    int32_t needs[2] = {0, 0};
    if (a->kind == ZR_PIPE_F) {
        if (a->stage > 0) needs[0] = *zr__timed_ended(t, true, a->stage - 1, a->micro);
        return a->stage > 0 && needs[0] == 0 ? -1 : needs[0];
    }
    needs[0] = *zr__timed_ended(t, a->kind != ZR_PIPE_W, a->stage, a->micro);
    if (a->kind == ZR_PIPE_W) return needs[0];
    needs[1] = a->stage + 1 < stages ? *zr__timed_ended(t, false, a->stage + 1, a->micro) : needs[0];
    return needs[0] == 0 || needs[1] == 0 ? -1 : needs[0] > needs[1] ? needs[0] : needs[1];
}

/* Give each action the time at which it begins at the earliest. */
static void find_times(zr__timed *t)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t r = 0; r < t->pipe.ranks; r++)
            for (int32_t now = t->now[r]; t->timed[r] < t->n[r]; t->timed[r]++, t->now[r] = now, moved = true) {
                const ptrdiff_t i = (ptrdiff_t)r * t->room + t->timed[r];
                const zr_pipe_action *a = &t->list[i];
                const int32_t at = may_begin(t, a);
                if (at < 0) break;
                t->begin[i] = at > now ? at : now;
                now = t->begin[i] + (a->kind == ZR_PIPE_B ? 2 : 1);
                if (a->kind != ZR_PIPE_W) *zr__timed_ended(t, a->kind == ZR_PIPE_F, a->stage, a->micro) = now;
            }
    }
}

zr_status zr__timed_begin(zr__timed *t, const zr__pipe *pipe)
{
    const size_t ranks = (size_t)pipe->ranks, stages = ranks * (size_t)pipe->chunks, micros = (size_t)pipe->micros;
    const size_t room = 3 * micros * (size_t)pipe->chunks;
    *t = (zr__timed){.pipe = *pipe, .room = (int32_t)room};
    t->list = zr_alloc(sizeof *t->list * ranks * room);
    t->begin = zr_alloc(sizeof *t->begin * (ranks * room + 3 * ranks + 2 * stages * micros));
    ZR_CHECK(t->list && t->begin, ZR_ERR_MEMORY, "no memory to order %zu micro-batches of %zu stages", micros, stages);
    t->n = t->begin + ranks * room;
    t->timed = t->n + ranks;
    t->now = t->timed + ranks;
    t->ended = t->now + ranks;
    for (int32_t r = 0; r < pipe->ranks; r++) t->n[r] = zr__pipe_list(pipe, r, t->list + (size_t)r * room);
    find_times(t);
    return ZR_OK;
}

void zr__timed_end(zr__timed *t)
{
    zr_free(t->list);
    zr_free(t->begin);
}
