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

static char *used(const zr_engine *e, const zr__bound *b, const zr_step *step, int use)
{
    return zr__buffer(e, &b->schedule->buffer[b->schedule->use[step->uses + use].buffer]);
}

static zr_status run_exchange(zr_engine *e, const zr__bound *b, const zr_step *step)
{
    int64_t wire = zr_dtype_bytes(e->plan->layout.wire_dtype);
    const zr_plan_unit *u = &e->plan->unit[step->unit];
    return zr_comm_exchange(e->comm, used(e, b, step, 0) + step->first * wire, u->shard_elems * wire,
                            step->count * wire, e->pieces);
}

static zr_status run_sum(zr_engine *e, const zr__bound *b, const zr_step *step)
{
    const zr_layout *l = &e->plan->layout;
    zr__sums sums = zr__gradient_sums(e, step->unit);
    int64_t element = zr__shard(e, step->unit).first + step->first;
    if (l->ranks == 1) e->pieces[0] = used(e, b, step, 0) + step->first * zr_dtype_bytes(l->wire_dtype);
    void *out = zr__element(e, sums.buffer, sums.shard, step->unit, element, sums.dtype);
    return e->device->ops->sum(e->device, out, sums.dtype, e->batch.micro > 0, e->pieces, l->ranks, l->wire_dtype,
                               step->count);
}

static zr_status run_gather(zr_engine *e, const zr__bound *b, const zr_step *step)
{
    int64_t each = zr_dtype_bytes(e->plan->layout.dtype);
    const zr_plan_unit *u = &e->plan->unit[step->unit];
    int64_t element = (int64_t)e->comm->rank * u->shard_elems + step->first;
    const char *mine = zr__element(e, u->param, e->plan->shard_param, step->unit, element, e->plan->layout.dtype);
    char *whole = used(e, b, step, e->plan->shard_param ? 1 : 0);
    return zr_comm_all_gather(e->comm, mine, whole + step->first * each, u->shard_elems * each, step->count * each);
}

static zr_status run_gather_grad(zr_engine *e, const zr__bound *b, const zr_step *step)
{
    int64_t each = zr_dtype_bytes(zr__gradient_sums(e, step->unit).dtype);
    int64_t stride = e->plan->unit[step->unit].shard_elems * each;
    char *out = used(e, b, step, 0) + step->first * each;
    return zr_comm_all_gather(e->comm, out + e->comm->rank * stride, out, stride, step->count * each);
}

static zr_status run_batch(zr_engine *e, const zr__bound *b)
{
    e->runtime.first_row = e->batch.first_row;
    return e->batch_fn(e->batch_arg, &e->batch, b->input);
}

static zr_status run_loss(zr_engine *e, const zr__bound *b, const zr_step *step)
{
    const zr_buffer *buffer = &b->schedule->buffer[b->schedule->use[step->uses].buffer];
    const zr_graph *g = e->plan->graph[b - e->bound];
    int64_t n = zr_shape_elems(&zr_graph_value(g, zr_graph_get_losses(g))->type.shape);
    double sum;
    ZR_TRY(e->device->ops->total(e->device, (const float *)zr__buffer(e, buffer), n, &sum));
    e->loss_sum += sum;
    return ZR_OK;
}

static zr_status run_step(zr_engine *e, const zr__bound *b, int32_t index)
{
    const zr_step *step = &b->schedule->step[index];
    switch (step->kind) {
    case ZR_STEP_RUN:
        return b->run[b->run_of[index]].kernel->run(&b->run[b->run_of[index]].args);
    case ZR_STEP_BATCH:
        return run_batch(e, b);
    case ZR_STEP_ZERO: {
        int64_t wire = zr_dtype_bytes(e->plan->layout.wire_dtype);
        return e->device->ops->zero(e->device, used(e, b, step, 0) + step->first * wire, step->count * wire);
    }
    case ZR_STEP_GATHER:
        return run_gather(e, b, step);
    case ZR_STEP_GATHER_GRAD:
        return run_gather_grad(e, b, step);
    case ZR_STEP_EXCHANGE:
        return run_exchange(e, b, step);
    case ZR_STEP_SUM:
        return run_sum(e, b, step);
    case ZR_STEP_LOSS:
        return run_loss(e, b, step);
    case ZR_STEP_NORM:
        return zr__norm(e);
    case ZR_STEP_UPDATE:
        return e->result.skipped ? ZR_OK : zr__update(e, step->unit);
    case ZR_STEP_REPEAT:
    case ZR_STEP_END:
    case ZR_STEP_KINDS:
        break;
    }
    return ZR_FAIL(ZR_ERR_INTERNAL, "step %d of kind %d cannot run", index, (int)step->kind);
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
            ZR_TRY(run_step(e, b, i));
            give_buffers(e, b, i);
        }
    }
    return ZR_OK;
}
