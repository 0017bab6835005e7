/*
 * The steps that move a unit between ranks: gathers of parameters, reduction of gradients. A bucket
 * is the same sub-range of all N shards of one unit, so that a reduced bucket lands in shards.
 *
 * The papers' baselines stand beside ZeRO's own: reduction to one owner after the other, broadcasts
 * from one after the other, all-reduce, and one fused buffer for the whole model.
 */
#include "plan/internal.h"

/* Elements of one shard that a bucket of `bucket_elems` covers. */
static int64_t shard_range(const zr_plan *plan, int64_t bucket_elems, const zr_plan_unit *u)
{
    if (plan->layout.fused_buffer) return u->shard_elems;
    int64_t range = zr_plan_bucket_elems(bucket_elems, plan->layout.ranks) / plan->layout.ranks;
    return range < u->shard_elems ? range : u->shard_elems;
}

/* One step on the exchange stage, which all of them use in the order of their stream. */
static int32_t staged_step(zr__writer *w, zr_step_kind kind, int32_t unit, int64_t first, int64_t count, int32_t wait)
{
    int32_t step = zr__writer_step(w, kind, ZR_STREAM_COMM, unit, -1);
    zr__writer_range(w, first, count);
    zr__writer_wait(w, wait);
    return step;
}

static int32_t gather_step(zr__writer *w, zr_step_kind kind, int32_t owner, int32_t unit, int64_t first, int64_t count,
                           int32_t source, int32_t target, int32_t wait)
{
    int32_t step = staged_step(w, kind, unit, first, count, wait);
    zr__writer_owner(w, owner);
    zr__writer_use(w, source, true, source == target);
    zr__writer_use(w, target, source == target, true);
    zr__writer_use(w, w->plan->stage_buffer, true, true);
    return step;
}

/* Lean: my shard in the 16-bit type, straight into its place. */
static int32_t cast_step(zr__writer *w, int32_t unit, int64_t first, int64_t count, int32_t target, int32_t wait)
{
    int32_t step = zr__writer_step(w, ZR_STEP_CAST, ZR_STREAM_COMM, unit, -1);
    zr__writer_range(w, first, count);
    zr__writer_wait(w, wait);
    zr__writer_use(w, w->plan->unit[unit].master, true, false);
    zr__writer_use(w, target, false, true);
    return step;
}

int32_t zr__write_gather(zr__writer *w, int32_t unit, int32_t target, int32_t wait)
{
    const zr_plan *plan = w->plan;
    const zr_plan_unit *u = &plan->unit[unit];
    int64_t range = shard_range(plan, plan->layout.gather_bucket_elems, u);
    int32_t step = -1, source = u->param == ZR_NONE ? target : u->param;
    for (int64_t first = 0; first < u->shard_elems && w->status == ZR_OK; first += range) {
        int64_t count = u->shard_elems - first < range ? u->shard_elems - first : range;
        if (u->param == ZR_NONE) step = cast_step(w, unit, first, count, target, wait);
        if (plan->stage_buffer == ZR_NONE) continue;
        if (plan->layout.gather == ZR_GATHER_ALL)
            step = gather_step(w, ZR_STEP_GATHER, -1, unit, first, count, source, target, wait);
        for (int32_t r = 0; plan->layout.gather == ZR_GATHER_BROADCAST && r < plan->layout.ranks; r++)
            step = gather_step(w, ZR_STEP_BROADCAST, r, unit, first, count, source, target, wait);
    }
    return step;
}

/* An all-reduce ends with the all-gather of the sums, wherever they stand. */
int32_t zr__write_gather_grad(zr__writer *w, int32_t unit, int32_t sums, int32_t wait)
{
    const zr_plan_unit *u = &w->plan->unit[unit];
    int64_t range = shard_range(w->plan, w->plan->layout.gather_bucket_elems, u);
    int32_t step = -1;
    for (int64_t first = 0; first < u->shard_elems; first += range) {
        int64_t count = u->shard_elems - first < range ? u->shard_elems - first : range;
        step = staged_step(w, ZR_STEP_GATHER_GRAD, unit, first, count, wait);
        zr__writer_use(w, sums, true, true);
        zr__writer_use(w, w->plan->stage_buffer, true, true);
    }
    return step;
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

bool zr__grad_transient(const zr_plan *plan)
{
    return plan->shard_grad || plan->consume_grad;
}

int32_t zr__sums_buffer(const zr_plan *plan, int32_t unit, int32_t grad)
{
    if (plan->sum_f32) return plan->unit[unit].accum;
    return plan->consume_grad ? grad : plan->unit[unit].grad;
}

/* A range of every shard to its owner and into the sums. With one rank nothing moves: the computing stream adds. */
static int32_t reduce_range(zr__writer *w, int32_t unit, int32_t owner, int64_t first, int64_t count, int32_t grad)
{
    const zr_plan *plan = w->plan;
    bool alone = plan->stage_buffer == ZR_NONE;
    int32_t sums = zr__sums_buffer(plan, unit, grad), complete = w->last[ZR_STREAM_COMPUTE];
    int32_t step = zr__writer_step(w, owner < 0 ? ZR_STEP_REDUCE_SCATTER : ZR_STEP_REDUCE,
                                   alone ? ZR_STREAM_COMPUTE : ZR_STREAM_COMM, unit, -1);
    zr__writer_range(w, first, count);
    zr__writer_owner(w, owner);
    zr__writer_wait(w, complete);
    zr__writer_use(w, grad, true, sums == grad);
    if (!alone) zr__writer_use(w, plan->stage_buffer, true, true);
    zr__writer_use(w, sums, plan->sum_f32 || sums == grad, true);
    return step;
}

bool zr__all_get_sums(const zr_plan *plan)
{
    return !plan->shard_optim || plan->layout.reduce == ZR_REDUCE_ALL_REDUCE;
}

int32_t zr__write_gather_sums(zr__writer *w, int32_t unit, int32_t grad)
{
    const zr_plan *plan = w->plan;
    if (!zr__all_get_sums(plan) || plan->sum_f32 || plan->stage_buffer == ZR_NONE) return -1;
    return zr__write_gather_grad(w, unit, zr__sums_buffer(plan, unit, grad), -1);
}

void zr__write_reduce(zr__writer *w, int32_t unit, int32_t grad)
{
    const zr_plan *plan = w->plan;
    const zr_plan_unit *u = &plan->unit[unit];
    bool in_turn = plan->layout.reduce == ZR_REDUCE_TO_OWNER && plan->stage_buffer != ZR_NONE;
    int32_t step = -1;
    if (zr__grad_transient(plan)) zero_gaps(w, unit, grad);
    if (plan->stage_buffer == ZR_NONE && zr__sums_buffer(plan, unit, grad) == grad)
        return; /* one rank: the gradient is its own sum */

    int64_t range = shard_range(plan, plan->layout.reduce_bucket_elems, u);
    int64_t last = (u->shard_elems - 1) / range * range;
    for (int64_t first = last; first >= 0 && w->status == ZR_OK; first -= range) { /* the backward ends at the first */
        int64_t count = u->shard_elems - first < range ? u->shard_elems - first : range;
        for (int32_t r = 0; r < (in_turn ? plan->layout.ranks : 1); r++)
            step = reduce_range(w, unit, in_turn ? r : -1, first, count, grad);
    }
    w->reduced[1] = w->reduced[0];
    w->reduced[0] = step;
}

bool zr__refreshed(const zr_plan *plan, int32_t unit)
{
    return plan->shard_optim && plan->stage_buffer != ZR_NONE && !plan->unit[unit].gathered;
}

int32_t zr__write_refresh(zr__writer *w, int32_t unit)
{
    int32_t before = w->schedule->n_steps, last = zr__write_gather(w, unit, w->plan->unit[unit].param, -1);
    for (int32_t i = before; w->status == ZR_OK && i < w->schedule->n_steps; i++) w->schedule->step[i].once = true;
    return last;
}

/* Steps that move `elems` of every shard at a time, of all units. */
static double pieces(const zr_plan *plan, int64_t bucket_elems)
{
    double n = 0;
    for (int32_t i = 0; i < plan->n_units; i++) {
        int64_t range = shard_range(plan, bucket_elems, &plan->unit[i]);
        if (range > 0) n += (double)((plan->unit[i].shard_elems + range - 1) / range);
    }
    return n;
}

zr_status zr__check_pieces(const zr_plan *plan)
{
    const zr_layout *l = &plan->layout;
    bool moves = plan->stage_buffer != ZR_NONE;
    double reduced = l->train && (moves || plan->sum_f32) ? pieces(plan, l->reduce_bucket_elems) : 0;
    double gathered = moves && (plan->shard_optim || !l->train) ? pieces(plan, l->gather_bucket_elems) : 0;
    if (plan->shard_param && l->train) gathered *= 2; /* before the forward and before the backward pass */
    if (l->reduce == ZR_REDUCE_TO_OWNER) reduced *= l->ranks;
    if (l->gather == ZR_GATHER_BROADCAST) gathered *= l->ranks;
    ZR_CHECK(
        reduced + gathered <= ZR__STEPS_MAX, ZR_ERR_CONFIG,
        "%.0f steps to reduce and %.0f to gather the %lld parameters, in buckets of %lld and %lld elements over %d "
        "ranks: a schedule has room for %d; raise reduce_bucket_size and allgather_bucket_size",
        reduced, gathered, (long long)plan->params, (long long)l->reduce_bucket_elems,
        (long long)l->gather_bucket_elems, l->ranks, ZR__STEPS_MAX);
    return ZR_OK;
}
