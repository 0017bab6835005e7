/*
 * Model states: the units' flat buffers and what of them a rank keeps. This is all that a ZeRO stage
 * is in terms of bytes (ZeRO section 5): a whole unit, or one shard of it.
 */
#include "plan/internal.h"

zr_status zr__plan_persistent(zr_plan *plan, zr_category category, int32_t unit, const char *what, int64_t bytes,
                              int32_t *index)
{
    ZR_ASSERT(plan->n_persistent < plan->persistent_room);
    zr_buffer *b = &plan->persistent[plan->n_persistent];
    *b = (zr_buffer){.category = category,
                     .persistent = true,
                     .unit = unit,
                     .what = what,
                     .bytes = zr__round_bytes(bytes),
                     .offset = plan->persistent_bytes};
    ZR_TRY(zr__add_bytes(&plan->persistent_bytes, b->bytes));
    *index = plan->n_persistent++;
    return ZR_OK;
}

int64_t zr_plan_bucket_elems(int64_t wanted_elems, int ranks)
{
    int64_t grain = (int64_t)ranks * ZR_SHARD_ALIGN;
    if (wanted_elems < 1) wanted_elems = 1;
    if (wanted_elems > INT64_MAX - grain) wanted_elems = INT64_MAX - grain;
    return (wanted_elems + grain - 1) / grain * grain;
}

/* Gradients, and with accumulation the owner's fp32 sums. */
static zr_status grad_states(zr_plan *plan, int32_t index)
{
    zr_plan_unit *u = &plan->unit[index];
    const zr_layout *l = &plan->layout;
    int64_t wire = zr_dtype_bytes(l->wire_dtype);
    if (!plan->shard_grad)
        ZR_TRY(zr__plan_persistent(plan, ZR_GRAD, index, "gradients", u->padded_elems * wire, &u->grad));
    else if (l->accum == 1)
        ZR_TRY(zr__plan_persistent(plan, ZR_GRAD, index, "gradient shards", u->shard_elems * wire, &u->grad));
    if (l->accum > 1) {
        int64_t elems = plan->shard_optim ? u->shard_elems : u->padded_elems;
        ZR_TRY(zr__plan_persistent(plan, ZR_GRAD, index, "gradient accumulators (fp32)", 4 * elems, &u->accum));
    }
    return ZR_OK;
}

static zr_status optim_states(zr_plan *plan, int32_t index)
{
    zr_plan_unit *u = &plan->unit[index];
    int64_t bytes = 4 * (plan->shard_optim ? u->shard_elems : u->padded_elems);
    /* In fp32 the parameters are their own master. */
    if (plan->layout.dtype != ZR_F32)
        ZR_TRY(zr__plan_persistent(plan, ZR_OPTIM, index, "master parameters (fp32)", bytes, &u->master));
    for (int i = 0; i < plan->layout.optimizer.n_slots; i++)
        ZR_TRY(zr__plan_persistent(plan, ZR_OPTIM, index, "optimizer states (fp32)", bytes, &u->slot[i]));
    return ZR_OK;
}

zr_status zr__plan_states(zr_plan *plan, const zr_graph *graph)
{
    const zr_layout *l = &plan->layout;
    int64_t grain = (int64_t)l->ranks * ZR_SHARD_ALIGN;
    ZR_CHECK(zr_graph_param_elems(graph) <= INT64_MAX / 64, ZR_ERR_CONFIG,
             "%lld parameters: their states do not fit 63 bits of bytes, a smaller model is needed",
             (long long)zr_graph_param_elems(graph));
    for (int32_t i = 0; i < plan->n_units; i++) {
        zr_plan_unit *u = &plan->unit[i];
        u->elems = zr_graph_unit_info(graph, i)->elems;
        u->padded_elems = (u->elems + grain - 1) / grain * grain;
        u->shard_elems = u->padded_elems / l->ranks;
        u->grad = u->accum = u->master = ZR_NONE;
        for (int s = 0; s < 4; s++) u->slot[s] = ZR_NONE;
        plan->params += u->elems;
        plan->padding_elems += u->padded_elems - u->elems;
        int64_t kept = plan->shard_param ? u->shard_elems : u->padded_elems;
        ZR_TRY(zr__plan_persistent(plan, ZR_PARAM, i, plan->shard_param ? "parameter shards" : "parameters",
                                   kept * zr_dtype_bytes(l->dtype), &u->param));
        if (!l->train) continue;
        ZR_TRY(grad_states(plan, i));
        ZR_TRY(optim_states(plan, i));
    }
    return ZR_OK;
}
