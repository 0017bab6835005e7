/*
 * The steps that move a unit: casts and gathers of parameters, reductions of gradients.
 */
#include "engine/internal.h"

/* Where a rank's range of a unit stands in a buffer of the whole unit. */
static char *place_of(const zr_engine *e, const zr_step *step, char *whole, int rank, int64_t each)
{
    return whole + (rank * e->plan->unit[step->unit].shard_elems + step->first) * each;
}

zr_status zr__cast(const zr__lane *lane, const zr_step *step)
{
    const zr_engine *e = lane->engine;
    zr_dtype dtype = e->plan->layout.dtype;
    const float *master = (const float *)zr__used(lane, step, 0) + step->first;
    char *out = place_of(e, step, zr__used(lane, step, 1), e->comm->rank, zr_dtype_bytes(dtype));
    return lane->device->ops->cast(lane->device, out, dtype, master, ZR_F32, step->count);
}

zr_status zr__gather(const zr__lane *lane, const zr_step *step)
{
    const zr_engine *e = lane->engine;
    const zr_use *use = lane->bound->schedule->use + step->uses;
    zr_dtype dtype = e->plan->layout.dtype;
    int64_t each = zr_dtype_bytes(dtype);
    char *whole = zr__used(lane, step, 1), *place = place_of(e, step, whole, e->comm->rank, each);
    const char *mine = use[0].buffer == use[1].buffer ? place : zr__used(lane, step, 0) + step->first * each;
    if (step->kind == ZR_STEP_GATHER)
        return zr_comm_all_gather(e->comm, mine, whole + step->first * each,
                                  e->plan->unit[step->unit].shard_elems * each, step->count * each);
    if (step->owner == e->comm->rank && mine != place)
        ZR_TRY(lane->device->ops->cast(lane->device, place, dtype, mine, dtype, step->count));
    return zr_comm_broadcast(e->comm, step->owner, place_of(e, step, whole, step->owner, each), step->count * each);
}

zr_status zr__gather_grad(const zr__lane *lane, const zr_step *step)
{
    const zr_engine *e = lane->engine;
    zr__sums sums = zr__gradient_sums(e, step->unit, lane->bound->schedule->use[step->uses].buffer);
    int64_t each = zr_dtype_bytes(sums.dtype), stride = e->plan->unit[step->unit].shard_elems * each;
    char *out = zr__sums_at(&sums, step->first);
    return zr_comm_all_gather(e->comm, out + e->comm->rank * stride, out, stride, step->count * each);
}

/* ---- reductions ------------------------------------------------------------------------------ */

/* A step's range of a shard, on its way into the sums. */
typedef struct reduction {
    const zr__lane *lane;
    const zr_step *step;
    zr__sums sums;
} reduction;

/* Elements [first, first + count) of this rank's shard. */
typedef struct stretch {
    int64_t first, count;
} stretch;

static zr_status add(const reduction *r, void *out, zr_dtype out_dtype, bool accumulate, const void *const *pieces,
                     int n_pieces, zr_dtype dtype, int64_t count)
{
    zr_device *device = r->lane->device;
    return device->ops->sum(device, out, out_dtype, accumulate, pieces, n_pieces, dtype, count);
}

static void *sum_place(const reduction *r, int64_t first)
{
    return zr__sums_at(&r->sums, zr__shard(r->lane->engine, r->step->unit).first + first);
}

/* Accumulator d of `world`; the lowest is the sum itself. */
static float *accumulator(const reduction *r, int64_t first, int d)
{
    const zr_plan *plan = r->lane->engine->plan;
    const zr_plan_unit *u = &plan->unit[r->step->unit];
    int64_t lowest = plan->shard_optim ? u->shard_elems : u->padded_elems;
    if (d == 0) return sum_place(r, first);
    return (float *)r->sums.data + lowest + (d - 1) * u->shard_elems + first;
}

static zr_status merge(const reduction *r, stretch s, int into)
{
    const void *upper = accumulator(r, s.first, into + 1);
    return add(r, accumulator(r, s.first, into), ZR_F32, true, &upper, 1, ZR_F32, s.count);
}

/* The tree over micro-batches, whose leaves are the ranks' sums: accumulators stand for the ones in the binary form
 * of the micro-batches so far, the largest subtree lowest. Two of a size become one at once; at the end
 * what is left is joined from the top down. The same tree as the device's over pieces, so that the
 * whole does not depend on where ranks end and micro-batches begin. */
static zr_status sum_world(const reduction *r, stretch s, const void *const *pieces)
{
    const zr_layout *l = &r->lane->engine->plan->layout;
    int64_t micro = r->lane->micro;
    bool odd = micro & 1;
    int top = __builtin_popcountll((unsigned long long)micro) - odd;
    ZR_TRY(add(r, accumulator(r, s.first, top), ZR_F32, odd, pieces, l->ranks, l->wire_dtype, s.count));
    for (int64_t ones = micro >> 1; odd && (ones & 1); ones >>= 1) ZR_TRY(merge(r, s, --top));
    while (micro == l->accum - 1 && top > 0) ZR_TRY(merge(r, s, --top));
    return ZR_OK;
}

/* A stretch of everyone's pieces is here. */
static zr_status sum_arrived(void *arg, int64_t first_byte, int64_t bytes, const void *const *pieces)
{
    const reduction *r = arg;
    const zr_layout *l = &r->lane->engine->plan->layout;
    int64_t wire = zr_dtype_bytes(l->wire_dtype);
    stretch s = {r->step->first + first_byte / wire, bytes / wire};
    if (l->world) return sum_world(r, s, pieces);
    return add(r, sum_place(r, s.first), r->sums.dtype, r->lane->micro > 0, pieces, l->ranks, l->wire_dtype, s.count);
}

zr_status zr__reduce(const zr__lane *lane, const zr_step *step)
{
    const zr_engine *e = lane->engine;
    const zr_schedule *s = lane->bound->schedule;
    int64_t wire = zr_dtype_bytes(e->plan->layout.wire_dtype), bytes = step->count * wire;
    char *grad = zr__used(lane, step, 0);
    reduction r = {lane, step, zr__gradient_sums(e, step->unit, s->use[step->uses + step->n_uses - 1].buffer)};
    if (step->kind == ZR_STEP_REDUCE)
        return zr_comm_collect(e->comm, step->owner, place_of(e, step, grad, step->owner, wire), bytes, sum_arrived,
                               &r);
    return zr_comm_exchange(e->comm, grad + step->first * wire, e->plan->unit[step->unit].shard_elems * wire, bytes,
                            sum_arrived, &r);
}
