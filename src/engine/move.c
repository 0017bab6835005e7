/*
 * The steps that move a unit: casts and gathers of parameters, exchanges of gradients and their sums.
 */
#include "engine/internal.h"

/* Where a rank's range of a unit stands in a buffer of the whole unit. */
static char *place_of(const zr_engine *e, const zr_step *step, char *whole, int rank, int64_t each)
{
    return whole + (rank * e->plan->unit[step->unit].shard_elems + step->first) * each;
}

zr_status zr__cast(zr_engine *e, const zr__bound *b, const zr_step *step)
{
    zr_dtype dtype = e->plan->layout.dtype;
    const float *master = (const float *)zr__used(e, b, step, 0) + step->first;
    char *out = place_of(e, step, zr__used(e, b, step, 1), e->comm->rank, zr_dtype_bytes(dtype));
    return e->device->ops->cast(e->device, out, dtype, master, ZR_F32, step->count);
}

zr_status zr__gather(zr_engine *e, const zr__bound *b, const zr_step *step)
{
    const zr_use *use = b->schedule->use + step->uses;
    zr_dtype dtype = e->plan->layout.dtype;
    int64_t each = zr_dtype_bytes(dtype);
    char *whole = zr__used(e, b, step, 1), *place = place_of(e, step, whole, e->comm->rank, each);
    const char *mine = use[0].buffer == use[1].buffer ? place : zr__used(e, b, step, 0) + step->first * each;
    if (step->kind == ZR_STEP_GATHER)
        return zr_comm_all_gather(e->comm, mine, whole + step->first * each,
                                  e->plan->unit[step->unit].shard_elems * each, step->count * each);
    if (step->owner == e->comm->rank && mine != place)
        ZR_TRY(e->device->ops->cast(e->device, place, dtype, mine, dtype, step->count));
    return zr_comm_broadcast(e->comm, step->owner, place_of(e, step, whole, step->owner, each), step->count * each);
}

zr_status zr__gather_grad(zr_engine *e, const zr__bound *b, const zr_step *step)
{
    zr__sums sums = zr__gradient_sums(e, step->unit, b->schedule->use[step->uses].buffer);
    int64_t each = zr_dtype_bytes(sums.dtype), stride = e->plan->unit[step->unit].shard_elems * each;
    char *out = zr__sums_at(&sums, step->first);
    return zr_comm_all_gather(e->comm, out + e->comm->rank * stride, out, stride, step->count * each);
}

/* The whole shards of all units at once. */
static zr_status exchange_all(zr_engine *e, const zr__bound *b, const zr_step *step)
{
    int64_t wire = zr_dtype_bytes(e->plan->layout.wire_dtype);
    int n = 0;
    for (int32_t u = 0; u < e->plan->n_units; u++) {
        int64_t bytes = e->plan->unit[u].shard_elems * wire;
        if (bytes == 0) continue;
        e->parts[n] = (zr_comm_part){zr__used(e, b, step, n), bytes, bytes};
        n++;
    }
    return zr_comm_exchange_parts(e->comm, e->parts, n, e->pieces);
}

zr_status zr__exchange(zr_engine *e, const zr__bound *b, const zr_step *step)
{
    if (step->unit < 0) return exchange_all(e, b, step);
    int64_t wire = zr_dtype_bytes(e->plan->layout.wire_dtype);
    char *grad = zr__used(e, b, step, 0);
    if (step->kind == ZR_STEP_COLLECT)
        return zr_comm_collect(e->comm, step->owner, place_of(e, step, grad, step->owner, wire), step->count * wire,
                               e->pieces);
    return zr_comm_exchange(e->comm, grad + step->first * wire, e->plan->unit[step->unit].shard_elems * wire,
                            step->count * wire, e->pieces);
}

/* Where everyone's pieces of this range are. */
static const void *const *pieces_of(zr_engine *e, const zr__bound *b, const zr_step *step)
{
    const zr_plan *p = e->plan;
    int64_t wire = zr_dtype_bytes(p->layout.wire_dtype), before = 0;
    if (p->layout.ranks == 1) e->pieces[0] = zr__used(e, b, step, 0) + step->first * wire;
    if (p->layout.ranks == 1 || !p->layout.fused_buffer) return e->pieces;
    for (int32_t u = 0; u < step->unit; u++) before += p->unit[u].shard_elems * wire;
    for (int r = 0; r < p->layout.ranks; r++) e->unit_pieces[r] = (const char *)e->pieces[r] + before;
    return e->unit_pieces;
}

/* Accumulator d of `world`, at the step's range; the lowest is the sum itself. */
static float *accumulator(const zr_engine *e, const zr_step *step, const zr__sums *sums, int d)
{
    const zr_plan_unit *u = &e->plan->unit[step->unit];
    int64_t lowest = e->plan->shard_optim ? u->shard_elems : u->padded_elems;
    if (d == 0) return (float *)zr__sums_at(sums, zr__shard(e, step->unit).first + step->first);
    return (float *)sums->data + lowest + (d - 1) * u->shard_elems + step->first;
}

static zr_status merge(zr_engine *e, const zr_step *step, const zr__sums *sums, int into)
{
    const void *upper = accumulator(e, step, sums, into + 1);
    return e->device->ops->sum(e->device, accumulator(e, step, sums, into), ZR_F32, true, &upper, 1, ZR_F32,
                               step->count);
}

/* The tree over micro-batches, whose leaves are the ranks' sums: accumulators stand for the ones in the binary form
 * of the micro-batches so far, the largest subtree lowest. Two of a size become one at once; at the end
 * what is left is joined from the top down. The same tree as the device's over pieces, so that the
 * whole does not depend on where ranks end and micro-batches begin. */
static zr_status sum_world(zr_engine *e, const zr_step *step, const zr__sums *sums, const void *const *pieces)
{
    const zr_layout *l = &e->plan->layout;
    int64_t micro = e->batch.micro;
    bool odd = micro & 1;
    int top = __builtin_popcountll((unsigned long long)micro) - odd;
    ZR_TRY(e->device->ops->sum(e->device, accumulator(e, step, sums, top), ZR_F32, odd, pieces, l->ranks, l->wire_dtype,
                               step->count));
    for (int64_t ones = micro >> 1; odd && (ones & 1); ones >>= 1) ZR_TRY(merge(e, step, sums, --top));
    while (micro == l->accum - 1 && top > 0) ZR_TRY(merge(e, step, sums, --top));
    return ZR_OK;
}

zr_status zr__sum(zr_engine *e, const zr__bound *b, const zr_step *step)
{
    const zr_layout *l = &e->plan->layout;
    if (step->owner >= 0 && step->owner != e->comm->rank) return ZR_OK;
    zr__sums sums = zr__gradient_sums(e, step->unit, b->schedule->use[step->uses + step->n_uses - 1].buffer);
    const void *const *pieces = pieces_of(e, b, step);
    if (l->world) return sum_world(e, step, &sums, pieces);
    void *out = zr__sums_at(&sums, zr__shard(e, step->unit).first + step->first);
    return e->device->ops->sum(e->device, out, sums.dtype, e->batch.micro > 0, pieces, l->ranks, l->wire_dtype,
                               step->count);
}
