/* The orders of micro-batches: each lists the segments of all micro-batches of a round, as cells. All give the same
 * bits, because each segment runs for the micro-batches in ascending order, so that gradients are summed in this
 * order. */
#include "base/core/scope.h"
#include "plan/list/list.h"
#include "plan/program/pipeline.h"
#include "plan/program/program.h"

bool zr__micros_alike(const zr_layout *l)
{
    if (l->pipeline > 1) return false;
    return l->accum_order == ZR_ACCUM_MICRO || (l->accum_order == ZR_ACCUM_AHEAD && l->accum_ahead == 1);
}

static void layer_major(zr__decided *d)
{
    for (int32_t k = 0; k < d->n_segments; k++)
        for (int32_t m = 0; m < d->n_micros; m++) d->cell[d->n_cells++] = (zr__cell){k, m, k};
}

/* Add the segments [first, end) of a micro-batch. */
static void add_segments(zr__decided *d, int32_t first, int32_t end, int32_t micro)
{
    for (int32_t k = first; k < end; k++, d->n_cells++) d->cell[d->n_cells] = (zr__cell){k, micro, d->n_cells};
}

/* Return the number of segments before the first segment of the backward pass. A segment with ops of both passes,
 * usually the segment of the head, belongs to the backward pass. */
static int32_t forward_segments(const zr__decided *d)
{
    const zr__run_of *run = d->program.run;
    int32_t i = 0, k = 0;
    while (i < d->program.n && (run[i].role == ZR__FORWARD || run[i].role == ZR__KEEP)) i++;
    while (k < d->n_segments && d->segment[k].end <= i) k++;
    return k;
}

/* Run `ahead` forward passes, then in turn a backward pass and the next forward pass. With ahead 1 this is one
 * micro-batch after the other. */
static void forwards_ahead(zr__decided *d, int32_t ahead)
{
    const int32_t turn = forward_segments(d);
    for (int32_t m = 0; m < d->n_micros + ahead; m++) {
        if (m >= ahead) add_segments(d, turn, d->n_segments, m - ahead);
        if (m < d->n_micros) add_segments(d, 0, turn, m);
    }
}

/* ---- pipelines -------------------------------------------------------------------------------- */

/* Add a stage's segments of the phases [from, to] for a micro-batch. */
static void add_stage(zr__decided *d, int32_t stage, zr__phase from, zr__phase to, int32_t micro, bool same_visit)
{
    for (int32_t k = 0; k < d->n_segments; k++) {
        const zr__segment *s = &d->segment[k];
        if (s->stage != stage || s->phase < from || s->phase > to) continue;
        const int32_t visit = d->n_cells == 0 ? 0 : d->cell[d->n_cells - 1].visit + !same_visit;
        d->cell[d->n_cells++] = (zr__cell){k, micro, visit};
        same_visit = d->plan->layout.pipeline_schedule == ZR_PIPELINE_BREADTH;
    }
}

static void add_action(zr__decided *d, const zr_pipe_action *a, const zr_pipe_action *before)
{
    static const zr__phase from[] = {ZR__PHASE_F, ZR__PHASE_B, ZR__PHASE_B, ZR__PHASE_W};
    static const zr__phase to[] = {ZR__PHASE_F, ZR__PHASE_W, ZR__PHASE_B, ZR__PHASE_W};
    /* Breadth-first, a stage stays gathered while all micro-batches pass through it. */
    const bool same = d->plan->layout.pipeline_schedule == ZR_PIPELINE_BREADTH && before && before->kind == a->kind &&
                      before->stage == a->stage;
    add_stage(d, a->stage, from[a->kind], to[a->kind], a->micro, same);
}

/* Add the passes through the look-up of a tied table that are due before the time `now`: the forward pass just before
 * the first stage needs its output, the backward pass when the first stage has passed on its gradient. Breadth-first,
 * all forward passes come first, so that stage 3 gathers the table once for them. counts[0] and counts[1] are the
 * numbers of forward and backward passes so far. */
static void add_front(zr__decided *d, const zr__timed *t, int32_t now, int32_t counts[2])
{
    const int32_t front = d->plan->stages, micros = t->pipe.micros;
    const bool breadth = t->pipe.schedule == ZR_PIPELINE_BREADTH;
    for (; counts[0] < micros && (breadth || *zr__timed_ended(t, true, 0, counts[0]) - 2 <= now); counts[0]++)
        add_stage(d, front, ZR__PHASE_F, ZR__PHASE_F, counts[0], false);
    for (; counts[1] < micros && *zr__timed_ended(t, false, 0, counts[1]) <= now; counts[1]++)
        add_stage(d, front, ZR__PHASE_B, ZR__PHASE_W, counts[1], false);
}

/* Return how many messages of a SEND or RECV are on their way at the same time: passed on, but not taken by the stage
 * that reads them. In a user's table a message counts as taken only if its reader begins before the writer's part of
 * the action does. Otherwise channels of both directions could wait for each other where actions begin at the same
 * time. */
static int32_t depth_of(const zr__decided *d, const zr__timed *t, const zr__run_of *of)
{
    const bool forward = of->phase == ZR__PHASE_F;
    const int32_t takes = forward || zr__pipe_splits(&t->pipe) ? 1 : 2;
    const int32_t from = of->role == ZR__SEND ? of->stage : of->peer_stage,
                  to = from == of->stage ? of->peer_stage : of->stage;
    const int32_t before = t->pipe.table ? 2 : 0;
    int32_t most = 2, taken = 0;
    if (from == d->plan->stages && t->pipe.schedule == ZR_PIPELINE_BREADTH) return t->pipe.micros;
    if (from == d->plan->stages || to == d->plan->stages) return most; /* passed at once (add_front) */
    for (int32_t m = 0; m < t->pipe.micros; m++) {
        while (taken < m &&
               *zr__timed_ended(t, forward, to, taken) - takes + before <= *zr__timed_ended(t, forward, from, m))
            taken++;
        if (m + 1 - taken > most) most = m + 1 - taken;
    }
    return most;
}

static zr_status pipeline(zr__decided *d)
{
    const zr__pipe pipe = zr__pipe_of(&d->plan->layout);
    ZR_AUTO(zr__timed_end) zr__timed t = {0};
    ZR_TRY(zr__timed_begin(&t, &pipe));
    for (int32_t i = 0; i < d->program.n; i++)
        if (d->program.run[i].role == ZR__SEND || d->program.run[i].role == ZR__RECV)
            d->depth[i] = depth_of(d, &t, &d->program.run[i]);
    const int32_t role = d->plan->layout.role;
    const zr_pipe_action *own = t.list + (ptrdiff_t)role * t.room;
    int32_t front[2] = {0, 0};
    for (int32_t i = 0; i < t.n[role]; i++) {
        add_front(d, &t, t.begin[(ptrdiff_t)role * t.room + i], front);
        add_action(d, &own[i], i > 0 ? &own[i - 1] : NULL);
    }
    add_front(d, &t, INT32_MAX, front);
    return ZR_OK;
}

zr_status zr__make_cells(zr__decided *d, zr_schedule_kind kind)
{
    const zr_layout *l = &d->plan->layout;
    const int64_t micros = kind == ZR_SCHEDULE_TRAIN ? l->accum / d->plan->rounds : 1;
    ZR_CHECK(micros == 1 || micros <= ZR__STEPS_MAX / (d->program.n + 1), ZR_ERR_CONFIG,
             "%lld micro-batches of %d ops each in one round are a schedule of more than %d steps: use fewer "
             "micro-batches a step (gradient_accumulation_steps), or train.accumulation_order micro",
             (long long)micros, d->program.n, ZR__STEPS_MAX);
    d->n_micros = (int32_t)micros;
    d->cell = zr_alloc(sizeof *d->cell * ((size_t)d->n_segments * (size_t)micros + 1));
    ZR_CHECK(d->cell, ZR_ERR_MEMORY, "no memory to order %d segments", d->n_segments);
    if (l->pipeline > 1 && kind == ZR_SCHEDULE_TRAIN) return pipeline(d);
    if (l->accum_order == ZR_ACCUM_LAYER)
        layer_major(d);
    else
        forwards_ahead(d, micros > 1 && l->accum_ahead < micros ? (int32_t)l->accum_ahead : d->n_micros);
    return ZR_OK;
}
