/*
 * The walk: one case for each kind of step. Nothing is decided here but whether an update is skipped;
 * nothing is allocated. A lane walks the steps of one stream, or of both.
 */
#include "engine/internal.h"

#include <stdio.h>
#include <string.h>

zr__lane zr__lane_make(zr_engine *engine, zr__lanes *lanes, zr_stream stream, zr_device *device, zr_schedule_kind kind)
{
    return (zr__lane){.engine = engine,
                      .bound = &engine->bound[kind],
                      .lanes = lanes,
                      .stream = stream,
                      .device = device,
                      .first_row = engine->comm->rank * engine->plan->layout.batch};
}

/* Without a second lane this one does everything. */
static bool is_mine(const zr__lane *lane, const zr_step *step)
{
    return !lane->lanes || step->stream == lane->stream;
}

/* The ledger charges a buffer when its life begins, exactly where it is used. One lane keeps it, in the order of the
 * list, whoever runs the step. */
static void take_buffers(const zr__lane *lane, int32_t step)
{
    const zr__bound *b = lane->bound;
    for (int32_t i = step ? b->take_end[step - 1] : 0; i < b->take_end[step]; i++) {
        const zr_buffer *buffer = &b->schedule->buffer[b->take[i]];
        if (lane->stream == ZR_STREAM_COMPUTE) zr_ledger_take(&lane->engine->ledger, buffer->category, buffer->bytes);
    }
}

/* NaN in every float type: what is read unwritten shows. Not before the step has waited: its bytes may have been those
 * of a buffer that the other lane still read. */
static void poison(const zr__lane *lane, int32_t step)
{
#ifdef ZR_DEBUG
    const zr__bound *b = lane->bound;
    for (int32_t i = step ? b->take_end[step - 1] : 0; i < b->take_end[step]; i++) {
        const zr_buffer *buffer = &b->schedule->buffer[b->take[i]];
        memset(zr__buffer(lane->engine, buffer), 0xff, (size_t)buffer->bytes);
    }
#else
    (void)lane, (void)step;
#endif
}

static void give_buffers(const zr__lane *lane, int32_t step)
{
    const zr__bound *b = lane->bound;
    for (int32_t i = step ? b->give_end[step - 1] : 0; i < b->give_end[step]; i++) {
        const zr_buffer *buffer = &b->schedule->buffer[b->give[i]];
        if (lane->stream == ZR_STREAM_COMPUTE) zr_ledger_give(&lane->engine->ledger, buffer->category, buffer->bytes);
    }
}

char *zr__used(const zr__lane *lane, const zr_step *step, int use)
{
    const zr_schedule *s = lane->bound->schedule;
    return zr__buffer(lane->engine, &s->buffer[s->use[step->uses + use].buffer]);
}

/* A rank that stopped here would leave the others waiting. So it goes on, with zeros, and as one whose loss is not
 * finite: that all ranks hear before anything is updated. */
static void replace_batch(const zr__lane *lane)
{
    zr_engine *e = lane->engine;
    const zr_graph *g = e->plan->graph[lane->bound - e->bound];
    for (int32_t i = 0; i < zr_graph_inputs(g); i++) {
        const zr_type *type = &zr_graph_value(g, zr_graph_input(g, i))->type;
        memset(lane->bound->input[i], 0, (size_t)(zr_shape_elems(&type->shape) * zr_dtype_bytes(type->dtype)));
    }
    e->loss.not_finite = true;
}

static zr_status run_batch(const zr__lane *lane)
{
    zr_engine *e = lane->engine;
    e->batch.micro = lane->micro;
    if (lane->bound == &e->bound[ZR_TRAIN]) e->batch.first_row = lane->first_row;
    e->runtime.first_row = e->batch.first_row;
    zr_status st = e->batch_fn(e->batch_arg, &e->batch, lane->bound->input);
    if (st == ZR_OK || st == ZR_ERR_STOPPED) return st;
    if (e->batch_status == ZR_OK) snprintf(e->batch_text, sizeof e->batch_text, "%s", zr_error_message());
    if (e->batch_status == ZR_OK) e->batch_status = st;
    replace_batch(lane);
    return ZR_OK;
}

static zr_status run_loss(const zr__lane *lane, const zr_step *step)
{
    zr_engine *e = lane->engine;
    const zr_graph *g = e->plan->graph[lane->bound - e->bound];
    int64_t n = zr_shape_elems(&zr_graph_value(g, zr_graph_get_losses(g))->type.shape);
    return lane->device->ops->total(lane->device, (const float *)zr__used(lane, step, 0), n, &e->loss);
}

static zr_status run_zero(const zr__lane *lane, const zr_step *step)
{
    int64_t wire = zr_dtype_bytes(lane->engine->plan->layout.wire_dtype);
    return lane->device->ops->zero(lane->device, zr__used(lane, step, 0) + step->first * wire, step->count * wire);
}

static zr_status run_step(const zr__lane *lane, int32_t index)
{
    zr_engine *e = lane->engine;
    const zr__bound *b = lane->bound;
    const zr_step *step = &b->schedule->step[index];
    const zr_use *use = b->schedule->use + step->uses;
    switch (step->kind) {
    case ZR_STEP_RUN:
        return b->run[b->run_of[index]].kernel->run(&b->run[b->run_of[index]].args);
    case ZR_STEP_BATCH:
        return run_batch(lane);
    case ZR_STEP_ZERO:
        return run_zero(lane, step);
    case ZR_STEP_CAST:
        return zr__cast(lane, step);
    case ZR_STEP_GATHER:
    case ZR_STEP_BROADCAST:
        return zr__gather(lane, step);
    case ZR_STEP_GATHER_GRAD:
        return zr__gather_grad(lane, step);
    case ZR_STEP_REDUCE_SCATTER:
    case ZR_STEP_REDUCE:
        return zr__reduce(lane, step);
    case ZR_STEP_LOSS:
        return run_loss(lane, step);
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

/* Grows along a walk, turn by turn of its body. */
static int64_t ticket_of(const zr__lane *lane, int32_t step)
{
    return lane->micro * (lane->bound->schedule->n_steps + 1) + step + 1;
}

static zr_status await_steps(const zr__lane *lane, const zr_step *step)
{
    const zr_schedule *s = lane->bound->schedule;
    for (int32_t w = step->waits; lane->lanes && w < step->waits + step->n_waits; w++)
        if (s->step[s->wait[w]].stream != lane->stream)
            ZR_TRY(zr__lane_await(lane, s->step[s->wait[w]].stream, ticket_of(lane, s->wait[w])));
    return ZR_OK;
}

static zr_status run_watched(const zr__lane *lane, int32_t index)
{
    zr_engine *e = lane->engine;
    const zr_step *step = &lane->bound->schedule->step[index];
    zr_event event = {.schedule = (zr_schedule_kind)(lane->bound - e->bound),
                      .step = index,
                      .stream = step->stream,
                      .micro = lane->micro};
    if (e->watch) event.wait_sec = zr_clock_sec();
    ZR_TRY(await_steps(lane, step));
    poison(lane, index);
    if (e->watch) event.begin_sec = zr_clock_sec();
    ZR_TRY(run_step(lane, index));
    if (e->watch) event.end_sec = zr_clock_sec();
    if (e->watch) e->watch(e->watch_arg, &event);
    return ZR_OK;
}

/* REPEAT and END hold all streams. */
static zr_status meet(const zr__lane *lane, int32_t index)
{
    zr_stream other = lane->stream == ZR_STREAM_COMPUTE ? ZR_STREAM_COMM : ZR_STREAM_COMPUTE;
    zr__lane_publish(lane, ticket_of(lane, index));
    return zr__lane_await(lane, other, ticket_of(lane, index));
}

/* Is it left to do? What other ranks have updated is gathered once, and not when a flush has done it. */
static bool is_due(const zr__lane *lane, const zr_step *step)
{
    return !step->once || (lane->engine->refresh && lane->micro == 0);
}

zr_status zr__lane_walk(zr__lane *lane)
{
    const zr_schedule *s = lane->bound->schedule;
    const zr_layout *l = &lane->engine->plan->layout;
    int32_t body = 0;
    for (int32_t i = 0; i < s->n_steps; i++) {
        const zr_step *step = &s->step[i];
        bool mine = is_mine(lane, step);
        if (step->kind == ZR_STEP_REPEAT) {
            ZR_TRY(meet(lane, i));
            body = i;
        } else if (step->kind == ZR_STEP_END) {
            ZR_TRY(meet(lane, i));
            if (lane->micro + 1 == l->accum) continue;
            lane->micro++;
            lane->first_row += l->ranks * l->batch;
            i = body;
        } else {
            take_buffers(lane, i);
            if (mine && is_due(lane, step)) ZR_TRY(run_watched(lane, i));
            if (mine) zr__lane_publish(lane, ticket_of(lane, i));
            give_buffers(lane, i);
        }
    }
    return ZR_OK;
}

zr_status zr__walk(zr_engine *e, zr_schedule_kind kind)
{
    zr__lane lane = zr__lane_make(e, NULL, ZR_STREAM_COMPUTE, e->device, kind);
    zr_ledger before = e->ledger;
    e->batch_status = ZR_OK;
    zr_status st = e->lanes ? zr__lanes_walk(e->lanes, kind) : zr__lane_walk(&lane);
    if (st == ZR_ERR_PEER || st == ZR_ERR_COMM) e->stopped = true;
    if (st != ZR_OK)
        memcpy(e->ledger.live_bytes, before.live_bytes, sizeof before.live_bytes); /* of a walk cut short */
    return st;
}
