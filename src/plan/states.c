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

/* Partial sums of a binary tree over so many micro-batches that exist at once: an even micro-batch j opens one
 * beside those of the ones in j's binary form, an odd one joins the newest. */
static int32_t accumulators(int64_t micro_batches)
{
    int32_t n = 1;
    while (((uint64_t)micro_batches + 1) >> n > 1) n++;
    return n;
}

/* Gradients, and with accumulation the owner's fp32 sums. */
static zr_status grad_states(zr_plan *plan, int32_t index)
{
    zr_plan_unit *u = &plan->unit[index];
    const zr_layout *l = &plan->layout;
    int64_t wire = zr_dtype_bytes(l->wire_dtype);
    if (plan->consume_grad) return ZR_OK;
    if (!plan->shard_grad)
        ZR_TRY(zr__plan_persistent(plan, ZR_GRAD, index, "gradients", u->padded_elems * wire, &u->grad));
    else if (!plan->sum_f32)
        ZR_TRY(zr__plan_persistent(plan, ZR_GRAD, index, "gradient shards", u->shard_elems * wire, &u->grad));
    if (!plan->sum_f32) return ZR_OK;
    /* The lowest becomes the sum, at stage 0 the whole; those above it are of shards. */
    int64_t elems = plan->shard_optim ? u->shard_elems : u->padded_elems;
    u->accums = l->world ? accumulators(l->accum) : 1;
    ZR_CHECK(u->shard_elems <= (INT64_MAX / 8 - elems) / u->accums, ZR_ERR_CONFIG,
             "the accumulators of %lld micro-batches do not fit 63 bits of bytes", (long long)l->accum);
    elems += (u->accums - 1) * u->shard_elems;
    return zr__plan_persistent(plan, ZR_GRAD, index, "gradient accumulators (fp32)", 4 * elems, &u->accum);
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

/* Stage 3: small units may be kept whole, up to so many elements of the model. */
static bool stays_whole(const zr_plan *plan, const zr_graph *graph, int32_t unit, int64_t *persisting)
{
    const zr_layout *l = &plan->layout;
    const zr_unit_info *info = zr_graph_unit_info(graph, unit);
    for (int32_t p = info->first_param; p < info->first_param + info->n_params; p++)
        if (zr_shape_elems(&zr_graph_param(graph, p)->shape) >= l->persist_elems) return false;
    if (l->persist_elems == 0 || (l->persist_model_elems > 0 && info->elems > l->persist_model_elems - *persisting))
        return false;
    *persisting += info->elems;
    return true;
}

zr_status zr__plan_states(zr_plan *plan, const zr_graph *graph)
{
    const zr_layout *l = &plan->layout;
    int64_t persisting = 0;
    int64_t grain = (int64_t)l->ranks * ZR_SHARD_ALIGN;
    ZR_CHECK(zr_graph_param_elems(graph) <= INT64_MAX / 64, ZR_ERR_CONFIG,
             "%lld parameters: their states do not fit 63 bits of bytes, a smaller model is needed",
             (long long)zr_graph_param_elems(graph));
    for (int32_t i = 0; i < plan->n_units; i++) {
        zr_plan_unit *u = &plan->unit[i];
        u->elems = zr_graph_unit_info(graph, i)->elems;
        u->padded_elems = (u->elems + grain - 1) / grain * grain;
        u->shard_elems = u->padded_elems / l->ranks;
        u->param = u->grad = u->accum = u->master = ZR_NONE;
        u->accums = 1;
        u->gathered = plan->shard_param && !stays_whole(plan, graph, i, &persisting);
        for (int s = 0; s < 4; s++) u->slot[s] = ZR_NONE;
        plan->params += u->elems;
        plan->padding_elems += u->padded_elems - u->elems;
        int64_t kept = u->gathered ? u->shard_elems : u->padded_elems;
        bool cast = l->train && u->gathered && l->states == ZR_STATES_LEAN && l->dtype != ZR_F32;
        if (!cast)
            ZR_TRY(zr__plan_persistent(plan, ZR_PARAM, i, u->gathered ? "parameter shards" : "parameters",
                                       kept * zr_dtype_bytes(l->dtype), &u->param));
    }
    /* Kind by kind: a memory map then shows each as one band. */
    for (int32_t i = 0; l->train && i < plan->n_units; i++) ZR_TRY(grad_states(plan, i));
    for (int32_t i = 0; l->train && i < plan->n_units; i++) ZR_TRY(optim_states(plan, i));
    return ZR_OK;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Bytes of an element that is gathered: of parameters, of sums where all ranks get them, or of the larger. */
static int64_t gathered_bytes(const zr_plan *plan)
{
    const zr_layout *l = &plan->layout;
    bool params = plan->shard_optim || !l->train, sums = l->train && zr__all_get_sums(plan);
    int64_t param = zr_dtype_bytes(l->dtype), sum = zr_dtype_bytes(plan->sum_f32 ? ZR_F32 : l->wire_dtype);
    return sums && (!params || sum > param) ? sum : param;
}

/* The bytes of the largest bucket that any step moves, of the gradients of the whole model. */
static void find_moved(const zr_plan *plan, int64_t *largest, int64_t *all)
{
    const zr_layout *l = &plan->layout;
    int64_t wire = zr_dtype_bytes(l->wire_dtype), gathered = gathered_bytes(plan);
    int64_t reduce = zr_plan_bucket_elems(l->reduce_bucket_elems, l->ranks);
    int64_t gather = zr_plan_bucket_elems(l->gather_bucket_elems, l->ranks);
    *largest = *all = 0;
    for (int32_t i = 0; i < plan->n_units; i++) {
        int64_t elems = plan->unit[i].padded_elems;
        int64_t reduced = least(reduce, elems) * wire, whole = least(gather, elems) * gathered;
        *all += elems * wire;
        if (l->train && reduced > *largest) *largest = reduced;
        if ((l->train || plan->shard_param) && whole > *largest) *largest = whole;
    }
}

/* Of the exchange stage: buckets pass through it in parts, so that its size is constant (ZeRO section 6.2, C_B): one
 * part for each rank is filled while another is read. Of this size, more brings no more speed. */
#define STAGE_BYTES ((int64_t)4 << 20)
#define STAGE_LEAST_BYTES ((int64_t)128 << 10) /* a rank's two parts, however many ranks there are */

/* Fused, it holds the gradients of the whole model: what constant-size buffers are measured against. */
zr_status zr__plan_stage(zr_plan *plan)
{
    const zr_layout *l = &plan->layout;
    int64_t largest, all, ranks = l->ranks;
    plan->stage_buffer = ZR_NONE;
    if (ranks == 1) return ZR_OK;
    find_moved(plan, &largest, &all);
    if (largest == 0) return ZR_OK; /* whole parameters and no training: nothing is moved */
    int64_t wanted = ranks * STAGE_LEAST_BYTES > STAGE_BYTES ? ranks * STAGE_LEAST_BYTES : STAGE_BYTES;
    if (2 * largest < wanted) wanted = 2 * largest;
    if (wanted < ranks * ZR_STAGE_LEAST) wanted = ranks * ZR_STAGE_LEAST;
    if (l->train && l->fused_buffer && all > wanted) wanted = all;
    ZR_ASSERT(plan->n_persistent < plan->persistent_room);
    plan->stage_buffer = plan->n_persistent++;
    plan->stage_bytes = zr__round_bytes(wanted);
    plan->persistent[plan->stage_buffer] = (zr_buffer){.category = ZR_BUFFER,
                                                       .persistent = true,
                                                       .staging = true,
                                                       .unit = -1,
                                                       .what = "exchange stage",
                                                       .bytes = plan->stage_bytes};
    return ZR_OK;
}
