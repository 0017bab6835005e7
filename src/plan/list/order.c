/* Finds the waits that follow from uses of buffers. A step that reads a buffer waits for the steps of other streams
 * that wrote it. A step that writes a buffer waits for the steps of other streams that wrote or read it. The first use
 * of a buffer in a round of REPEAT also waits for the previous round's last uses of the same bytes. A wait is omitted
 * if the order of a stream or another wait implies it.
 *
 * Each run of a step has a number, its time point. Steps of the first round are numbered first, then steps of a second
 * round. The vector clock of a time point has, for each stream, the last time point that comes before it. */
#include "plan/list/list.h"

/* The constraints of one step. `at[stream]`: latest time point of the stream that the step must follow, or -1.
 * `pace[stream]`: whether this constraint is no data dependency but a throttle (zr__pace), which keeps the step from
 * running too far ahead. */
typedef struct earlier {
    int32_t at[ZR_STREAMS];
    bool pace[ZR_STREAMS];
} earlier;

static int32_t later(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* Return the step that runs at a time point. */
static const zr_step *step_at(const zr__order *o, int32_t time)
{
    const int32_t n = o->schedule->n_steps;
    return &o->schedule->step[time < n ? time : time - n];
}

/* Return whether the step `by` may rely on the waits of `step`. The result is false if `step` runs only on request
 * (zr_when_asked) and `by` always runs. */
static bool is_known(const zr_step *step, const zr_step *by)
{
    return !zr_when_asked(step->when) || zr_when_asked(by->when);
}

/* Raise the vector clock of the step `by` to include the time point `time`. If `by` may rely on the step at `time`,
 * include that step's clock too. */
static void follow_clock(const zr__order *o, const zr_step *by, int32_t *clock, int32_t time)
{
    const zr_step *step = step_at(o, time);
    if (is_known(step, by)) zr__raise(clock, o->clock[time]);
    clock[step->stream] = later(clock[step->stream], time);
}

/* ---- what a step comes after ----------------------------------------------------------------- */

/* Collect the earlier uses that conflict with the step's uses. In the second round, a first use also conflicts with the
 * last uses of the same bytes in the first round. */
static void after_uses(const zr__order *o, const zr_step *step, int32_t round, earlier *e)
{
    for (int32_t u = step->uses; u < step->uses + step->n_uses; u++) {
        const zr_use *use = &o->schedule->use[u];
        if (use->buffer == ZR_NONE) continue;
        const zr_buffer *buffer = &o->schedule->buffer[use->buffer];
        const zr__touched *touched = &o->touched[use->buffer];
        zr__raise(e->at, touched->written);
        if (use->writes) zr__raise(e->at, touched->read);
        if (round > 0 && !buffer->persistent && !touched->again)
            zr__painted_latest(&o->painted[buffer->space], buffer, e->at);
    }
}

static void after_paces(const zr__order *o, int32_t step, int32_t round, earlier *e)
{
    const zr__list *l = o->list;
    for (int32_t p = l->link[o->id[step]].pace; p != ZR_NONE; p = l->pace[p].next) {
        int32_t time = o->position[l->pace[p].step] + round * o->schedule->n_steps;
        const zr_stream stream = step_at(o, time)->stream;
        if (time <= e->at[stream]) continue;
        e->at[stream] = time;
        e->pace[stream] = true;
    }
}

/* ---- clocks and waits ------------------------------------------------------------------------ */

/* Set the vector clock of a step's time point. If `record` is true, record the step's waits that no other wait implies.
 */
static void settle_waits(zr__order *o, int32_t step, int32_t time, const earlier *e, bool record)
{
    const zr_step *its = &o->schedule->step[step];
    int32_t *clock = o->clock[time], n = o->schedule->n_steps;
    for (int s = 0; s < ZR_STREAMS && record; s++) {
        bool implied = e->at[s] < 0 || clock[s] >= e->at[s], before = time >= n && e->at[s] < n;
        for (int k = 0; k < ZR_STREAMS && !implied; k++)
            implied =
                k != s && e->at[k] >= 0 && is_known(step_at(o, e->at[k]), its) && o->clock[e->at[k]][s] >= e->at[s];
        /* A wait within a round is recorded once, in the first round in which the step runs. */
        const int32_t first_round = its->when == ZR_WHEN_LATER ? 1 : 0;
        if (implied || (!before && time / n != first_round)) continue;
        if (zr__grow(&o->status, (void **)&o->found, o->n_found, &o->found_room, sizeof *o->found))
            o->found[o->n_found++] = (zr__found){step, {.step = e->at[s] % n, .before = before, .pace = e->pace[s]}};
    }
    for (int s = 0; s < ZR_STREAMS; s++)
        if (e->at[s] >= 0) follow_clock(o, its, clock, e->at[s]);
}

static void note_uses(const zr__order *o, const zr_step *step, int32_t time)
{
    for (int32_t u = step->uses; u < step->uses + step->n_uses; u++) {
        const zr_use *use = &o->schedule->use[u];
        if (use->buffer == ZR_NONE) continue;
        zr_buffer *buffer = &o->schedule->buffer[use->buffer];
        zr__touched *touched = &o->touched[use->buffer];
        if (use->reads) touched->read[step->stream] = time;
        if (use->writes) touched->written[step->stream] = time;
        touched->again = time >= o->schedule->n_steps;
        if (touched->again || buffer->persistent) continue;
        if (buffer->first_step < 0) buffer->first_step = time;
        if (buffer->last_step < time) buffer->last_step = time;
    }
}

/* Walk through steps [begin, end) of a round. A ZR_WHEN_FIRST step does nothing in the second round. A ZR_WHEN_LATER
 * step counts as run in the first round too, after the step that it replaces. Therefore a wait for it is correct in
 * both rounds. */
static void walk_round(zr__order *o, int32_t begin, int32_t end, int32_t round, bool record)
{
    for (int32_t i = begin; i < end && o->status == ZR_OK; i++) {
        const zr_step *step = &o->schedule->step[i];
        int32_t time = round * o->schedule->n_steps + i, *last = &o->last[step->stream];
        earlier e;
        for (int s = 0; s < ZR_STREAMS; s++) {
            e.at[s] = o->clock[time][s] = -1;
            e.pace[s] = false;
        }
        if (*last >= 0) follow_clock(o, step, o->clock[time], *last);
        if (round > 0 && !zr_when_runs(step->when, round, true, true)) continue;
        after_uses(o, step, round, &e);
        after_paces(o, i, round, &e);
        e.at[step->stream] = -1; /* steps of one stream run in order without a wait */
        settle_waits(o, i, time, &e, record);
        note_uses(o, step, time);
        *last = time;
    }
}

static void forget_uses(zr__order *o)
{
    for (int32_t b = 0; b < o->schedule->n_buffers; b++) {
        o->touched[b].again = false;
        for (int s = 0; s < ZR_STREAMS; s++) o->touched[b].read[s] = o->touched[b].written[s] = -1;
    }
    for (int s = 0; s < ZR_STREAMS; s++) o->last[s] = -1;
}

/* List the steps of each stream. Each list has room for all steps. Its unused memory is never touched. */
static zr_status sort_streams(zr__order *o)
{
    const int32_t n = o->schedule->n_steps;
    o->of_all[0] = zr_alloc(sizeof(int32_t) * ZR_STREAMS * ((size_t)n + 1));
    ZR_CHECK(o->of_all[0], ZR_ERR_MEMORY, "no memory to order %d steps", n);
    for (int s = 1; s < ZR_STREAMS; s++) o->of_all[s] = o->of_all[s - 1] + n + 1;
    for (int32_t i = 0; i < n; i++) {
        const int s = (int)o->schedule->step[i].stream;
        o->of_all[s][o->n_of[s]++] = i;
    }
    return ZR_OK;
}

/* Extend the lifetime of an evaluation's output to the end of the schedule. The caller reads this output after all
 * steps (zr_engine_value). A decoding output is copied to the host instead. */
static void keep_output(zr__order *o)
{
    const zr_graph *g = o->list->graph;
    if (!g || zr_graph_get_spec(g)->mode != ZR_MODE_EVAL || zr_graph_get_output(g) == ZR_NONE) return;
    const int32_t b = o->schedule->value[zr_graph_get_output(g)].buffer;
    if (b == ZR_NONE || o->schedule->buffer[b].persistent) return;
    for (int s = 0; s < ZR_STREAMS; s++)
        if (o->last[s] > o->touched[b].read[s]) o->touched[b].read[s] = o->last[s];
    o->schedule->buffer[b].last_step = o->schedule->n_steps - 1;
}

zr_status zr__order_steps(zr__order *o)
{
    size_t n = (size_t)o->schedule->n_steps;
    o->clock = zr_alloc(sizeof *o->clock * ((o->rounds > 1 ? 2 : 1) * n + 1));
    o->touched = zr_alloc(sizeof *o->touched * (size_t)(o->schedule->n_buffers + 1));
    ZR_CHECK(o->clock && o->touched, ZR_ERR_MEMORY, "no memory to order %zu steps", n);
    ZR_TRY(sort_streams(o));
    forget_uses(o);
    walk_round(o, 0, o->schedule->n_steps, 0, true);
    if (o->status == ZR_OK) keep_output(o);
    return o->status;
}

/* For each transient buffer, record when each stream last used its bytes in the first round. */
static zr_status paint_first_round(zr__order *o)
{
    for (int space = 0; space < ZR_SPACES; space++)
        ZR_TRY(zr__painted_begin(&o->painted[space], o->schedule, (zr_space)space));
    for (int32_t b = o->plan->n_persistent; b < o->schedule->n_buffers; b++) {
        const zr_buffer *buffer = &o->schedule->buffer[b];
        int32_t last[ZR_STREAMS];
        for (int k = 0; k < ZR_STREAMS; k++) last[k] = later(o->touched[b].read[k], o->touched[b].written[k]);
        zr__painted_add(&o->painted[buffer->space], buffer, last);
    }
    return ZR_OK;
}

/* ---- the schedule's list --------------------------------------------------------------------- */

/* Write the waits, step by step. A step's waits within a round come before its waits for the previous round. */
static zr_status write_waits(const zr__order *o)
{
    zr_schedule *s = o->schedule;
    s->wait = zr_alloc(sizeof *s->wait * (size_t)(o->n_found + 1));
    ZR_CHECK(s->wait, ZR_ERR_MEMORY, "no memory for %d waits", o->n_found);
    for (int32_t i = 0; i < o->n_found; i++) s->step[o->found[i].step].n_waits++;
    for (int32_t i = 0; i < s->n_steps; i++) {
        s->step[i].waits = s->n_waits;
        s->n_waits += s->step[i].n_waits;
        s->step[i].n_waits = 0;
    }
    for (int32_t i = 0; i < o->n_found; i++) {
        zr_step *step = &s->step[o->found[i].step];
        s->wait[step->waits + step->n_waits++] = o->found[i].wait;
    }
    return ZR_OK;
}

zr_status zr__order_rounds(zr__order *o)
{
    if (o->rounds > 1) {
        forget_uses(o);
        walk_round(o, 0, o->end + 1, 0, false);
        ZR_TRY(paint_first_round(o));
        walk_round(o, o->repeat + 1, o->end, 1, true);
        ZR_TRY(o->status);
    }
    return write_waits(o);
}

void zr__order_end(zr__order *o)
{
    zr_free(o->clock);
    zr_free(o->touched);
    zr_free(o->of_all[0]);
    zr_free(o->found);
    for (int space = 0; space < ZR_SPACES; space++) zr__painted_end(&o->painted[space]);
}
