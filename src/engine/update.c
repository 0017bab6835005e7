/*
 * The end of a step: where shards lie, the global gradient norm, and the update of what a rank owns.
 */
#include "engine/internal.h"

#include <math.h>

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

zr__sums zr__gradient_sums(const zr_engine *e, int32_t unit)
{
    const zr_plan *p = e->plan;
    if (p->layout.accum > 1) return (zr__sums){p->unit[unit].accum, p->shard_optim, ZR_F32};
    return (zr__sums){p->unit[unit].grad, p->shard_grad, p->layout.wire_dtype};
}

/* First parameter with an element that is not finite in this rank's shard of a unit, or -1. */
static int32_t bad_param(const zr_engine *e, int32_t unit)
{
    zr__sums sums = zr__gradient_sums(e, unit);
    zr__range shard = zr__shard(e, unit);
    const char *x = zr__element(e, sums.buffer, sums.shard, unit, shard.first, sums.dtype);
    int64_t at = e->device->ops->first_bad(e->device, x, sums.dtype, shard.end - shard.first);
    if (at < 0) return -1;
    const zr_graph *g = e->plan->graph[ZR_TRAIN];
    const zr_unit_info *info = zr_graph_unit_info(g, unit);
    for (int32_t p = info->first_param + info->n_params - 1; p >= info->first_param; p--)
        if (zr_graph_param(g, p)->unit_offset <= shard.first + at) return p;
    return -1;
}

/* Squares are summed shard by shard in double, then over the ranks in order: the same sum at every
 * stage, for all own the same shards. One exchange of three numbers tells everyone everything. */
zr_status zr__norm(zr_engine *e)
{
    const zr_layout *l = &e->plan->layout;
    double mine[ZR_NORM_SCALARS] = {0, e->loss_sum, INFINITY};
    for (int32_t u = 0; u < e->plan->n_units; u++) {
        zr__sums sums = zr__gradient_sums(e, u);
        zr__range shard = zr__shard(e, u);
        const char *x = zr__element(e, sums.buffer, sums.shard, u, shard.first, sums.dtype);
        double squares;
        ZR_TRY(e->device->ops->square_sum(e->device, x, sums.dtype, shard.end - shard.first, &squares));
        mine[0] += squares;
        if (!isfinite(squares) && mine[2] == INFINITY) mine[2] = bad_param(e, u);
    }
    double *all = e->scalars;
    ZR_TRY(zr_comm_scalars(e->comm, mine, ZR_NORM_SCALARS, all));
    double squares = 0, loss = 0, bad = INFINITY;
    for (int r = 0; r < l->ranks; r++) {
        squares += all[ZR_NORM_SCALARS * r];
        loss += all[ZR_NORM_SCALARS * r + 1];
        bad = fmin(bad, all[ZR_NORM_SCALARS * r + 2]);
    }
    e->result.grad_norm = sqrt(squares);
    e->result.loss = loss * e->loss_scale;
    e->result.skipped = !isfinite(squares) || !isfinite(loss);
    e->result.bad_param = e->result.skipped && bad < INFINITY ? (int32_t)bad : -1;
    e->grad_scale = 1.0f;
    double clip = e->step->clip;
    /* As torch.nn.utils.clip_grad_norm_, whose 1e-6 the reference losses contain. */
    if (clip > 0 && clip / (e->result.grad_norm + 1e-6) < 1.0)
        e->grad_scale = (float)(clip / (e->result.grad_norm + 1e-6));
    return ZR_OK;
}

/* One stretch for each parameter that the range meets: weight decay differs between them. */
zr_status zr__update(zr_engine *e, int32_t unit)
{
    const zr_plan *p = e->plan;
    const zr_plan_unit *u = &p->unit[unit];
    const zr_graph *g = p->graph[ZR_TRAIN];
    const zr_unit_info *info = zr_graph_unit_info(g, unit);
    const zr_optimizer *optimizer = &p->layout.optimizer;
    zr__sums sums = zr__gradient_sums(e, unit);
    zr__range own = p->shard_optim ? zr__shard(e, unit) : (zr__range){0, u->padded_elems};
    for (int32_t i = info->first_param; i < info->first_param + info->n_params; i++) {
        const zr_param_info *param = zr_graph_param(g, i);
        int64_t first = param->unit_offset, end = first + zr_shape_elems(&param->shape);
        if (first < own.first) first = own.first;
        if (end > own.end) end = own.end;
        if (first >= end) continue;
        char *weight = zr__element(e, u->param, p->shard_param, unit, first, p->layout.dtype);
        bool mixed = u->master != ZR_NONE;
        zr_update_args args = {
            .n = end - first,
            .weight = (float *)(mixed ? zr__element(e, u->master, p->shard_optim, unit, first, ZR_F32) : weight),
            .param16 = mixed ? (uint16_t *)weight : NULL,
            .grad = zr__element(e, sums.buffer, sums.shard, unit, first, sums.dtype),
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
