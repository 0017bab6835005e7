/*
 * The end of a step: norm, health and updates. They stand after the last micro-batch, or, where lean
 * lets a unit's gradient die in its update, at the end of each unit's backward.
 */
#include "plan/internal.h"

static void write_square(zr__writer *w, int32_t unit, int32_t sums, int32_t wait)
{
    zr__writer_step(w, ZR_STEP_SQUARE, ZR_STREAM_COMPUTE, unit, -1);
    zr__writer_range(w, 0, w->plan->unit[unit].shard_elems);
    zr__writer_wait(w, wait);
    zr__writer_use(w, sums, true, false);
}

static void write_unit_update(zr__writer *w, int32_t unit, int32_t sums, int32_t wait)
{
    const zr_plan *plan = w->plan;
    const zr_plan_unit *u = &plan->unit[unit];
    zr__writer_step(w, ZR_STEP_UPDATE, ZR_STREAM_COMPUTE, unit, -1);
    zr__writer_range(w, 0, plan->shard_optim ? u->shard_elems : u->padded_elems);
    zr__writer_wait(w, wait);
    zr__writer_wait(w, w->last_norm);
    zr__writer_use(w, sums, true, false);
    if (u->master != ZR_NONE) zr__writer_use(w, u->master, true, true);
    for (int i = 0; i < plan->layout.optimizer.n_slots; i++) zr__writer_use(w, u->slot[i], true, true);
    if (u->param != ZR_NONE) zr__writer_use(w, u->param, u->master == ZR_NONE, true);
}

/* All ranks take part, so it stands among what else they do together: on the comm stream, as AGREE does. */
static int32_t verdict(zr__writer *w, zr_step_kind kind, int32_t unit)
{
    int32_t squared = w->last[ZR_STREAM_COMPUTE];
    int32_t step = zr__writer_step(w, kind, ZR_STREAM_COMM, unit, -1);
    zr__writer_wait(w, squared);
    return step;
}

void zr__write_norm(zr__writer *w)
{
    w->last_norm = verdict(w, ZR_STEP_NORM, -1);
}

void zr__write_consume(zr__writer *w, int32_t unit, int32_t grad, int32_t wait, bool norm)
{
    if (!w->plan->consume_grad) return;
    bool two_pass = w->plan->layout.two_pass;
    if (norm || !two_pass) write_square(w, unit, grad, wait);
    if (norm) return;
    write_unit_update(w, unit, grad, two_pass ? wait : verdict(w, ZR_STEP_AGREE, unit));
}

void zr__write_update(zr__writer *w)
{
    const zr_plan *plan = w->plan;
    if (plan->consume_grad) {
        if (!plan->layout.two_pass) zr__write_norm(w);
        return;
    }
    if (plan->sum_f32 && !plan->shard_optim && plan->stage_buffer != ZR_NONE)
        for (int32_t u = 0; u < plan->n_units; u++) zr__write_gather_grad(w, u, plan->unit[u].accum, -1);
    int32_t moved = w->last[ZR_STREAM_COMM];
    for (int32_t u = 0; u < plan->n_units; u++) write_square(w, u, zr__sums_buffer(plan, u, ZR_NONE), moved);
    zr__write_norm(w);
    for (int32_t u = 0; u < plan->n_units; u++) write_unit_update(w, u, zr__sums_buffer(plan, u, ZR_NONE), -1);
}
