/*
 * The schedule under construction: growing arrays, and the happens-before clocks that tell which
 * waits are needed and which buffers may share bytes.
 */
#include "plan/internal.h"

#include <string.h>

static void *grown(zr__writer *w, void *array, int32_t n, int32_t *room, size_t each)
{
    if (n < *room) return array;
    if (*room > INT32_MAX / 2) {
        w->status = ZR_FAIL(ZR_ERR_CONFIG, "a schedule of more than %d entries: ask for larger buckets", *room);
        return array;
    }
    int32_t wanted = *room ? 2 * *room : 256;
    void *bigger = zr_alloc((size_t)wanted * each);
    if (!bigger) {
        w->status = ZR_FAIL(ZR_ERR_MEMORY, "no memory for a schedule of %d entries", wanted);
        return array;
    }
    if (array) memcpy(bigger, array, (size_t)n * each);
    zr_free(array);
    *room = wanted;
    return bigger;
}

#define GROW(w, array, n, room) ((array) = grown((w), (array), (n), &(w)->room, sizeof *(array)))

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

zr_status zr__writer_begin(zr__writer *w, zr_plan *plan, const zr_graph *graph, zr_schedule *schedule)
{
    memset(w, 0, sizeof *w);
    w->plan = plan;
    w->graph = graph;
    w->schedule = schedule;
    w->reduced[0] = w->reduced[1] = w->last_norm = -1;
    w->bytes = plan->persistent_bytes;
    for (int s = 0; s < ZR_STREAMS; s++) w->last[s] = -1;
    int32_t n = plan->n_persistent;
    schedule->buffer = zr_alloc((size_t)(n + 256) * sizeof *schedule->buffer);
    ZR_CHECK(schedule->buffer, ZR_ERR_MEMORY, "no memory for %d buffers of a plan", n);
    memcpy(schedule->buffer, plan->persistent, (size_t)n * sizeof *schedule->buffer);
    schedule->n_buffers = n;
    w->buffer_room = n + 256;
    return ZR_OK;
}

zr_status zr__writer_end(zr__writer *w)
{
    zr_free(w->clock);
    w->clock = NULL;
    return w->status;
}

/* Everything that happens before `earlier`, and `earlier` itself, happens before the newest step. */
static void follow(zr__writer *w, int32_t earlier)
{
    int32_t *mine = w->clock[w->schedule->n_steps - 1];
    const int32_t *its = w->clock[earlier];
    for (int s = 0; s < ZR_STREAMS; s++)
        if (its[s] > mine[s]) mine[s] = its[s];
    int stream = (int)w->schedule->step[earlier].stream;
    if (earlier > mine[stream]) mine[stream] = earlier;
}

int32_t zr__writer_step(zr__writer *w, zr_step_kind kind, zr_stream stream, int32_t unit, int32_t op)
{
    zr_schedule *s = w->schedule;
    if (w->status == ZR_OK && s->n_steps == ZR__STEPS_MAX)
        w->status = ZR_FAIL(ZR_ERR_CONFIG, "a schedule of more than %d steps: ask for larger buckets, or fewer layers",
                            ZR__STEPS_MAX);
    if (w->status != ZR_OK) return -1;
    GROW(w, s->step, s->n_steps, step_room);
    GROW(w, w->clock, s->n_steps, clock_room);
    if (w->status != ZR_OK) return -1;
    int32_t index = s->n_steps++;
    s->step[index] = (zr_step){
        .kind = kind, .stream = stream, .unit = unit, .op = op, .owner = -1, .uses = s->n_uses, .waits = s->n_waits};
    for (int i = 0; i < ZR_STREAMS; i++) w->clock[index][i] = -1;

    bool barrier = kind == ZR_STEP_REPEAT || kind == ZR_STEP_END;
    for (int i = 0; i < ZR_STREAMS; i++) {
        if (w->last[i] >= 0 && (barrier || i == (int)stream)) follow(w, w->last[i]);
        if (barrier) w->last[i] = index;
    }
    w->last[stream] = index;
    return index;
}

void zr__writer_range(zr__writer *w, int64_t first, int64_t count)
{
    if (w->status != ZR_OK) return;
    zr_step *step = &w->schedule->step[w->schedule->n_steps - 1];
    step->first = first;
    step->count = count;
}

void zr__writer_owner(zr__writer *w, int32_t owner)
{
    if (w->status == ZR_OK) w->schedule->step[w->schedule->n_steps - 1].owner = owner;
}

void zr__writer_use(zr__writer *w, int32_t buffer, bool reads, bool writes)
{
    zr_schedule *s = w->schedule;
    if (w->status != ZR_OK) return;
    GROW(w, s->use, s->n_uses, use_room);
    if (w->status != ZR_OK) return;
    s->use[s->n_uses++] = (zr_use){buffer, reads, writes};
    s->step[s->n_steps - 1].n_uses++;
    if (buffer < 0 || s->buffer[buffer].persistent) return;
    zr_buffer *b = &s->buffer[buffer];
    if (b->first_step < 0) b->first_step = s->n_steps - 1;
    b->last_step = s->n_steps - 1;
}

void zr__writer_wait(zr__writer *w, int32_t step)
{
    zr_schedule *s = w->schedule;
    if (w->status != ZR_OK || step < 0) return;
    if (w->clock[s->n_steps - 1][s->step[step].stream] >= step) return;
    GROW(w, s->wait, s->n_waits, wait_room);
    if (w->status != ZR_OK) return;
    s->wait[s->n_waits++] = step;
    s->step[s->n_steps - 1].n_waits++;
    follow(w, step);
}

int32_t zr__writer_buffer(zr__writer *w, zr_category category, int32_t unit, const char *what, int64_t bytes)
{
    zr_schedule *s = w->schedule;
    if (w->status != ZR_OK) return -1;
    GROW(w, s->buffer, s->n_buffers, buffer_room);
    if (w->status == ZR_OK) w->status = zr__add_bytes(&w->bytes, zr__round_bytes(bytes));
    if (w->status != ZR_OK) return -1;
    s->buffer[s->n_buffers] = (zr_buffer){.category = category,
                                          .unit = unit,
                                          .what = what,
                                          .bytes = zr__round_bytes(bytes),
                                          .first_step = -1,
                                          .last_step = -1};
    return s->n_buffers++;
}
