/*
 * The walk: one case for each kind of step. Nothing is decided here but whether an update is skipped;
 * nothing is allocated.
 */
#include "engine/internal.h"

#ifdef ZR_DEBUG
#include <string.h>
#endif

/* The ledger charges a buffer when its life begins, exactly where it is used. */
static void take_buffers(zr_engine *e, const zr__bound *b, int32_t step)
{
    for (int32_t i = step ? b->take_end[step - 1] : 0; i < b->take_end[step]; i++) {
        const zr_buffer *buffer = &b->schedule->buffer[b->take[i]];
        zr_ledger_take(&e->ledger, buffer->category, buffer->bytes);
#ifdef ZR_DEBUG
        /* NaN in every float type: what is read unwritten shows. */
        memset(zr__buffer(e, buffer), 0xff, (size_t)buffer->bytes);
#endif
    }
}

static void give_buffers(zr_engine *e, const zr__bound *b, int32_t step)
{
    for (int32_t i = step ? b->give_end[step - 1] : 0; i < b->give_end[step]; i++) {
        const zr_buffer *buffer = &b->schedule->buffer[b->give[i]];
        zr_ledger_give(&e->ledger, buffer->category, buffer->bytes);
    }
}

char *zr__used(const zr_engine *e, const zr__bound *b, const zr_step *step, int use)
{
    return zr__buffer(e, &b->schedule->buffer[b->schedule->use[step->uses + use].buffer]);
}

static zr_status run_batch(zr_engine *e, const zr__bound *b)
{
    e->runtime.first_row = e->batch.first_row;
    return e->batch_fn(e->batch_arg, &e->batch, b->input);
}

static zr_status run_loss(zr_engine *e, const zr__bound *b, const zr_step *step)
{
    const zr_graph *g = e->plan->graph[b - e->bound];
    int64_t n = zr_shape_elems(&zr_graph_value(g, zr_graph_get_losses(g))->type.shape);
    return e->device->ops->total(e->device, (const float *)zr__used(e, b, step, 0), n, &e->loss);
}

static zr_status run_zero(zr_engine *e, const zr__bound *b, const zr_step *step)
{
    int64_t wire = zr_dtype_bytes(e->plan->layout.wire_dtype);
    return e->device->ops->zero(e->device, zr__used(e, b, step, 0) + step->first * wire, step->count * wire);
}

static zr_status run_step(zr_engine *e, const zr__bound *b, int32_t index)
{
    const zr_step *step = &b->schedule->step[index];
    const zr_use *use = b->schedule->use + step->uses;
    switch (step->kind) {
    case ZR_STEP_RUN:
        return b->run[b->run_of[index]].kernel->run(&b->run[b->run_of[index]].args);
    case ZR_STEP_BATCH:
        return run_batch(e, b);
    case ZR_STEP_ZERO:
        return run_zero(e, b, step);
    case ZR_STEP_CAST:
        return zr__cast(e, b, step);
    case ZR_STEP_GATHER:
    case ZR_STEP_BROADCAST:
        return zr__gather(e, b, step);
    case ZR_STEP_GATHER_GRAD:
        return zr__gather_grad(e, b, step);
    case ZR_STEP_EXCHANGE:
    case ZR_STEP_COLLECT:
        return zr__exchange(e, b, step);
    case ZR_STEP_SUM:
        return zr__sum(e, b, step);
    case ZR_STEP_LOSS:
        return run_loss(e, b, step);
    case ZR_STEP_SQUARE:
        return zr__square(e, step->unit, use[0].buffer);
    case ZR_STEP_AGREE:
        return zr__agree(e, step->unit);
    case ZR_STEP_NORM:
        return zr__norm(e);
    case ZR_STEP_UPDATE:
        return e->result.skipped ? ZR_OK : zr__update(e, step->unit, use[0].buffer);
    case ZR_STEP_REPEAT:
    case ZR_STEP_END:
    case ZR_STEP_KINDS:
        break;
    }
    return ZR_FAIL(ZR_ERR_INTERNAL, "step %d of kind %d cannot run", index, (int)step->kind);
}

static zr_status run_watched(zr_engine *e, const zr__bound *b, int32_t index)
{
    if (!e->watch) return run_step(e, b, index);
    zr_event event = {.schedule = (zr_schedule_kind)(b - e->bound),
                      .step = index,
                      .stream = b->schedule->step[index].stream,
                      .micro = e->batch.micro};
    event.wait_sec = event.begin_sec = zr_clock_sec();
    ZR_TRY(run_step(e, b, index));
    event.end_sec = zr_clock_sec();
    e->watch(e->watch_arg, &event);
    return ZR_OK;
}

zr_status zr__walk(zr_engine *e, zr_schedule_kind kind)
{
    const zr__bound *b = &e->bound[kind];
    const zr_layout *l = &e->plan->layout;
    int32_t body = 0;
    for (int32_t i = 0; i < b->schedule->n_steps; i++) {
        const zr_step *step = &b->schedule->step[i];
        if (step->kind == ZR_STEP_REPEAT) {
            body = i;
            e->batch.micro = 0;
            e->batch.first_row = e->comm->rank * l->batch;
        } else if (step->kind == ZR_STEP_END) {
            if (++e->batch.micro == l->accum) continue;
            e->batch.first_row += l->ranks * l->batch;
            i = body;
        } else {
            take_buffers(e, b, i);
            ZR_TRY(run_watched(e, b, i));
            give_buffers(e, b, i);
        }
    }
    return ZR_OK;
}
