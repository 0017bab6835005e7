/*
 * The end of a step: where shards lie, the global gradient norm, and the update of what a rank owns.
 */
#include "engine/internal.h"

#include <math.h>
#include <stdio.h>

zr__range zr__shard(const zr_engine *e, int32_t unit)
{
    int64_t elems = e->plan->unit[unit].shard_elems;
    return (zr__range){e->comm->rank * elems, (e->comm->rank + 1) * elems};
}

char *zr__element(const zr_engine *e, int32_t buffer, bool shard, int32_t unit, int64_t element, zr_dtype dtype)
{
    int64_t first = shard ? zr__shard(e, unit).first : 0;
    return zr__buffer(e, &e->plan->persistent[buffer]) + (element - first) * zr_dtype_bytes(dtype);
}

zr__sums zr__gradient_sums(const zr_engine *e, int32_t unit, int32_t buffer)
{
    const zr_plan *p = e->plan;
    bool shard = p->sum_f32 ? p->shard_optim : p->shard_grad && !p->consume_grad;
    return (zr__sums){.data = zr__buffer(e, &p->schedule[ZR_TRAIN].buffer[buffer]),
                      .first = shard ? zr__shard(e, unit).first : 0,
                      .dtype = p->sum_f32 ? ZR_F32 : p->layout.wire_dtype};
}

char *zr__sums_at(const zr__sums *sums, int64_t element)
{
    return sums->data + (element - sums->first) * zr_dtype_bytes(sums->dtype);
}

/* First parameter with an element that is not finite in this rank's shard of a unit, or -1. */
static int32_t bad_param(const zr_engine *e, int32_t unit, const zr__sums *sums)
{
    zr__range shard = zr__shard(e, unit);
    int64_t at =
        e->device->ops->first_bad(e->device, zr__sums_at(sums, shard.first), sums->dtype, shard.end - shard.first);
    if (at < 0) return -1;
    const zr_graph *g = e->plan->graph[ZR_TRAIN];
    const zr_unit_info *info = zr_graph_unit_info(g, unit);
    for (int32_t p = info->first_param + info->n_params - 1; p >= info->first_param; p--)
        if (zr_graph_param(g, p)->unit_offset <= shard.first + at) return p;
    return -1;
}

zr_status zr__square(zr_engine *e, int32_t unit, int32_t buffer)
{
    zr__sums sums = zr__gradient_sums(e, unit, buffer);
    zr__range shard = zr__shard(e, unit);
    const char *x = zr__sums_at(&sums, shard.first);
    int64_t n = shard.end - shard.first;
    zr_exact exact = {0};
    double *squares = &e->squares[unit];
    if (e->plan->layout.world)
        ZR_TRY(e->device->ops->square_exact(e->device, x, sums.dtype, n, &exact));
    else
        ZR_TRY(e->device->ops->square_sum(e->device, x, sums.dtype, n, squares));
    zr_exact_merge(&e->exact_squares, &exact);
    bool finite = e->plan->layout.world ? !exact.not_finite : isfinite(*squares);
    e->bad[unit] = finite ? -1 : bad_param(e, unit, &sums);
    return ZR_OK;
}

/* The first parameter that is bad on this rank, infinity when none is. */
static double first_bad(const zr_engine *e)
{
    for (int32_t u = 0; u < e->plan->n_units; u++)
        if (e->bad[u] >= 0) return e->bad[u];
    return INFINITY;
}

/* "final, h.11, h.10 ..." of what the step has updated so far. */
static const char *list_updated(const zr_engine *e, char *list, size_t bytes)
{
    const zr_schedule *s = &e->plan->schedule[ZR_TRAIN];
    size_t used = 0;
    int32_t left = e->updated;
    list[0] = '\0';
    for (int32_t i = 0; i < s->n_steps && left > 0 && used + ZR_NAME_MAX + 8 < bytes; i++) {
        if (s->step[i].kind != ZR_STEP_UPDATE) continue;
        left--;
        used += (size_t)snprintf(list + used, bytes - used, "%s%s", used ? ", " : "",
                                 zr_graph_unit_info(e->plan->graph[ZR_TRAIN], s->step[i].unit)->name);
    }
    if (left > 0) snprintf(list + used, bytes - used, " and %d more", left);
    return list;
}

/* Here an update follows at once and cannot be taken back: one bad number anywhere ends the run. */
zr_status zr__agree(zr_engine *e, int32_t unit)
{
    const zr_graph *g = e->plan->graph[ZR_TRAIN];
    double mine[ZR_AGREE_SCALARS] = {e->bad[unit] >= 0 ? e->bad[unit] : INFINITY, e->loss.not_finite};
    ZR_TRY(zr_comm_scalars(e->comm, mine, ZR_AGREE_SCALARS, e->scalars));
    double bad = INFINITY, loss = 0;
    for (int r = 0; r < e->comm->size; r++) {
        bad = fmin(bad, e->scalars[ZR_AGREE_SCALARS * r]);
        loss += e->scalars[ZR_AGREE_SCALARS * r + 1];
    }
    if (e->dry || (bad == INFINITY && loss == 0)) return ZR_OK;
    char list[512];
    const char *gradient = bad < INFINITY ? "the gradient of " : "the loss";
    return ZR_FAIL(ZR_ERR_DIVERGED,
                   "%s%s is not finite in step %lld; the layout lean updates each unit as its gradient arrives, so the "
                   "step cannot be skipped: %d of %d units are updated already (%s)",
                   gradient, bad < INFINITY ? zr_graph_param(g, (int32_t)bad)->name : "", (long long)e->step->step + 1,
                   e->updated, e->plan->n_units, e->updated ? list_updated(e, list, sizeof list) : "none");
}

/* What NORM learns from all ranks. */
typedef struct agreed {
    double squares, loss;
    double bad; /* first bad parameter; behind the last one: the loss; infinity: all is finite */
} agreed;

/* Squares are summed shard by shard in double, then over the ranks in order: the same sum at every
 * stage, for all own the same shards. */
static agreed agree_by_layout(const zr_engine *e, const double *all)
{
    agreed sum = {.bad = INFINITY};
    for (int r = 0; r < e->comm->size; r++) {
        sum.squares += all[ZR_NORM_SCALARS * r];
        sum.loss += all[ZR_NORM_SCALARS * r + 1];
        sum.bad = fmin(sum.bad, all[ZR_NORM_SCALARS * r + 2]);
    }
    return sum;
}

/* Shards end elsewhere with another number of ranks: these sums do not feel it. */
static agreed agree_by_world(const zr_engine *e, const double *all)
{
    agreed sum = {.bad = INFINITY};
    zr_exact squares = {0}, loss = {0};
    for (int r = 0; r < e->comm->size; r++) {
        const double *its = all + (ptrdiff_t)ZR_NORM_SCALARS_WORLD * r;
        zr_exact_unpack(&squares, its);
        zr_exact_unpack(&loss, its + ZR_EXACT_LIMBS);
        sum.bad = fmin(sum.bad, its[2 * ZR_EXACT_LIMBS]);
    }
    sum.squares = zr_exact_value(&squares);
    sum.loss = zr_exact_value(&loss);
    return sum;
}

/* One exchange tells everyone everything. */
zr_status zr__norm(zr_engine *e)
{
    double mine[ZR_NORM_SCALARS_WORLD] = {0}, params = zr_graph_params(e->plan->graph[ZR_TRAIN]);
    double bad = fmin(first_bad(e), e->loss.not_finite ? params : INFINITY);
    bool world = e->plan->layout.world;
    if (world) {
        zr_exact_pack(&e->exact_squares, mine);
        zr_exact_pack(&e->loss, mine + ZR_EXACT_LIMBS);
    } else {
        for (int32_t u = 0; u < e->plan->n_units; u++) mine[0] += e->squares[u];
        mine[1] = zr_exact_value(&e->loss);
    }
    mine[e->plan->norm_scalars - 1] = bad;
    ZR_TRY(zr_comm_scalars(e->comm, mine, e->plan->norm_scalars, e->scalars));
    agreed all = world ? agree_by_world(e, e->scalars) : agree_by_layout(e, e->scalars);
    e->result.grad_norm = sqrt(all.squares) / e->scale;
    e->result.loss = all.loss * e->mean;
    e->result.skipped = e->dry || all.bad < INFINITY || !isfinite(all.squares) || !isfinite(all.loss);
    e->result.bad_param = all.bad < params ? (int32_t)all.bad : -1;
    double clip = e->step->clip, ratio = 1.0;
    /* As torch.nn.utils.clip_grad_norm_, whose 1e-6 the reference losses contain. */
    if (clip > 0 && clip / (e->result.grad_norm + 1e-6) < 1.0) ratio = clip / (e->result.grad_norm + 1e-6);
    e->grad_scale = (float)(ratio / e->scale);
    return ZR_OK;
}

/* One stretch for each parameter that the range meets: weight decay differs between them. A parameter that the graph
 * makes no gradient for stays as it is, with every rule and decay, as torch.optim leaves one whose grad is None. */
zr_status zr__update(zr_engine *e, int32_t unit, int32_t buffer)
{
    const zr_plan *p = e->plan;
    const zr_plan_unit *u = &p->unit[unit];
    const zr_graph *g = p->graph[ZR_TRAIN];
    const zr_unit_info *info = zr_graph_unit_info(g, unit);
    const zr_optimizer *optimizer = &p->layout.optimizer;
    zr__sums sums = zr__gradient_sums(e, unit, buffer);
    e->updated++;
    zr__range own = p->shard_optim ? zr__shard(e, unit) : (zr__range){0, u->padded_elems};
    for (int32_t i = info->first_param; i < info->first_param + info->n_params; i++) {
        const zr_param_info *param = zr_graph_param(g, i);
        if (param->grad == ZR_NONE) continue;
        int64_t first = param->unit_offset, end = first + zr_shape_elems(&param->shape);
        if (first < own.first) first = own.first;
        if (end > own.end) end = own.end;
        if (first >= end) continue;
        char *param_place =
            u->param == ZR_NONE ? NULL : zr__element(e, u->param, u->gathered, unit, first, p->layout.dtype);
        bool mixed = u->master != ZR_NONE;
        zr_update_args args = {
            .n = end - first,
            .weight = (float *)(mixed ? zr__element(e, u->master, p->shard_optim, unit, first, ZR_F32) : param_place),
            .param16 = mixed ? (uint16_t *)param_place : NULL,
            .param_dtype = p->layout.dtype,
            .grad = zr__sums_at(&sums, first),
            .grad_dtype = sums.dtype,
            .grad_scale = e->grad_scale,
            .lr = e->step->lr,
            .weight_decay = param->shape.ndim >= 2 ? optimizer->weight_decay : 0,
            .step = e->updates + 1,
            .hyper = optimizer->hyper};
        for (int s = 0; s < optimizer->n_slots; s++)
            args.slot[s] = (float *)zr__element(e, u->slot[s], p->shard_optim, unit, first, ZR_F32);
        ZR_TRY(e->device->ops->update(e->device, optimizer, &args));
    }
    return ZR_OK;
}
