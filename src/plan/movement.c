/*
 * The steps that move a unit between ranks: gathers of parameters, reduction of gradients. A bucket
 * is the same sub-range of all N shards of one unit, so that a reduced bucket lands in shards.
 */
#include "plan/internal.h"

/* Elements of one shard that a bucket of `bucket_elems` covers. */
static int64_t shard_range(const zr_plan *plan, int64_t bucket_elems, const zr_plan_unit *u)
{
    int64_t range = zr_plan_bucket_elems(bucket_elems, plan->layout.ranks) / plan->layout.ranks;
    return range < u->shard_elems ? range : u->shard_elems;
}

/* One step on the exchange stage: whoever still reads it goes first. */
static int32_t staged_step(zr__writer *w, zr_step_kind kind, int32_t unit, int64_t first, int64_t count, int32_t wait)
{
    int32_t step = zr__writer_step(w, kind, ZR_STREAM_COMM, unit, -1);
    zr__writer_range(w, first, count);
    zr__writer_wait(w, wait);
    zr__writer_wait(w, w->last_sum);
    return step;
}

int32_t zr__write_gather(zr__writer *w, int32_t unit, int32_t target, int32_t wait)
{
    const zr_plan_unit *u = &w->plan->unit[unit];
    int64_t range = shard_range(w->plan, w->plan->layout.gather_bucket_elems, u);
    int32_t step = -1;
    for (int64_t first = 0; first < u->shard_elems; first += range) {
        int64_t count = u->shard_elems - first < range ? u->shard_elems - first : range;
        step = staged_step(w, ZR_STEP_GATHER, unit, first, count, wait);
        zr__writer_use(w, u->param, true, target == u->param);
        if (target != u->param) zr__writer_use(w, target, false, true);
        zr__writer_use(w, w->plan->stage_buffer, true, true);
    }
    return step;
}

/* Stage 0 ends an all-reduce with the all-gather of the sums, wherever they stand. */
void zr__write_gather_grad(zr__writer *w, int32_t unit, int32_t sums, int32_t wait)
{
    const zr_plan_unit *u = &w->plan->unit[unit];
    int64_t range = shard_range(w->plan, w->plan->layout.gather_bucket_elems, u);
    for (int64_t first = 0; first < u->shard_elems; first += range) {
        int64_t count = u->shard_elems - first < range ? u->shard_elems - first : range;
        staged_step(w, ZR_STEP_GATHER_GRAD, unit, first, count, wait);
        zr__writer_use(w, sums, true, true);
        zr__writer_use(w, w->plan->stage_buffer, true, true);
    }
}

/* What no op writes of a transient unit gradient: padding, and parameters without a gradient. */
static void zero_gaps(zr__writer *w, int32_t unit, int32_t grad)
{
    const zr_unit_info *info = zr_graph_unit_info(w->graph, unit);
    int64_t written = 0, end = w->plan->unit[unit].padded_elems;
    for (int32_t p = info->first_param; p <= info->first_param + info->n_params; p++) {
        const zr_param_info *param = p < info->first_param + info->n_params ? zr_graph_param(w->graph, p) : NULL;
        if (param && param->grad == ZR_NONE) continue;
        int64_t next = param ? param->unit_offset : end;
        if (next > written) {
            zr__writer_step(w, ZR_STEP_ZERO, ZR_STREAM_COMPUTE, unit, -1);
            zr__writer_range(w, written, next - written);
            zr__writer_use(w, grad, false, true);
        }
        if (param) written = next + zr_shape_elems(&param->shape);
    }
}

void zr__write_reduce(zr__writer *w, int32_t unit, int32_t grad)
{
    const zr_plan *plan = w->plan;
    const zr_plan_unit *u = &plan->unit[unit];
    int32_t target = u->accum != ZR_NONE ? u->accum : u->grad;
    bool staged = plan->stage_buffer != ZR_NONE;
    if (plan->shard_grad) zero_gaps(w, unit, grad);
    if (!staged && target == grad) return; /* one rank: the gradient is its own sum */

    int64_t range = shard_range(plan, plan->layout.reduce_bucket_elems, u);
    int64_t last = (u->shard_elems - 1) / range * range;
    for (int64_t first = last; first >= 0; first -= range) { /* the backward ends at the unit's first parameters */
        int64_t count = u->shard_elems - first < range ? u->shard_elems - first : range;
        int32_t exchange = -1;
        if (staged) {
            exchange = staged_step(w, ZR_STEP_EXCHANGE, unit, first, count, w->last[ZR_STREAM_COMPUTE]);
            zr__writer_use(w, grad, true, false);
            zr__writer_use(w, plan->stage_buffer, true, true);
        }
        w->last_sum = zr__writer_step(w, ZR_STEP_SUM, ZR_STREAM_COMPUTE, unit, -1);
        zr__writer_range(w, first, count);
        zr__writer_wait(w, exchange);
        zr__writer_use(w, grad, true, target == grad);
        if (staged) zr__writer_use(w, plan->stage_buffer, true, false);
        if (target != grad) zr__writer_use(w, target, u->accum != ZR_NONE, true);
    }
    if (plan->layout.accum == 1 && !plan->shard_optim && staged) zr__write_gather_grad(w, unit, u->grad, w->last_sum);
}
