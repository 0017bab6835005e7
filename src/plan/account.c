/*
 * What a plan costs: memory by category, bytes on the wire, FLOPs. All of it is read off the
 * schedules; no formula of a ZeRO stage stands here.
 */
#include "plan/internal.h"

/* High-water marks of one schedule, walked in list order as the engine does. */
static void account_memory(const zr_plan *plan, const zr_schedule *s, zr_memory *memory)
{
    zr_ledger ledger = {0};
    for (int32_t b = 0; b < plan->n_persistent; b++)
        zr_ledger_take(&ledger, plan->persistent[b].category, plan->persistent[b].bytes);
    /* A buffer lives from its first use to its last, so the uses of each step tell what begins and ends there; looking
     * through all buffers at each step would be quadratic. */
    for (int32_t i = 0; i < s->n_steps; i++) {
        const zr_step *step = &s->step[i];
        for (int32_t pass = 0; pass < 2; pass++)
            for (int32_t u = step->uses; u < step->uses + step->n_uses; u++) {
                int32_t b = s->use[u].buffer;
                bool seen = b < plan->n_persistent; /* persistent, absent, or named twice by this step */
                for (int32_t v = step->uses; v < u && !seen; v++) seen = s->use[v].buffer == b;
                if (seen) continue;
                const zr_buffer *buffer = &s->buffer[b];
                if (pass == 0 && buffer->first_step == i) zr_ledger_take(&ledger, buffer->category, buffer->bytes);
                if (pass == 1 && buffer->last_step == i) zr_ledger_give(&ledger, buffer->category, buffer->bytes);
            }
    }
    for (int c = 0; c < ZR_CATEGORIES; c++)
        if (ledger.peak_bytes[c] > memory->category_bytes[c]) memory->category_bytes[c] = ledger.peak_bytes[c];
}

/* `times` a step. A quarter of the range is left, so that kinds can be added. */
static zr_status charge(zr_plan *plan, zr_traffic_kind kind, int64_t bytes, int64_t times)
{
    ZR_CHECK(!__builtin_mul_overflow(bytes, times, &bytes) && bytes <= INT64_MAX / 4 - plan->traffic.bytes[kind],
             ZR_ERR_CONFIG, "%lld micro-batches a step move more bytes than are counted (2^61): fewer are needed",
             (long long)plan->layout.accum);
    zr_traffic_count(&plan->traffic, kind, bytes);
    return ZR_OK;
}

int64_t zr__wire_bytes(const zr_plan *plan, const zr_step *step)
{
    int64_t others = plan->layout.ranks - 1;
    int64_t wire = zr_dtype_bytes(plan->layout.wire_dtype), sums = plan->sum_f32 ? zr_dtype_bytes(ZR_F32) : wire;
    switch (step->kind) {
    case ZR_STEP_REDUCE_SCATTER:
    case ZR_STEP_REDUCE:
        return others * step->count * wire;
    case ZR_STEP_GATHER:
        return others * step->count * zr_dtype_bytes(plan->layout.dtype);
    case ZR_STEP_BROADCAST:
        return step->count * zr_dtype_bytes(plan->layout.dtype);
    case ZR_STEP_GATHER_GRAD:
        return others * step->count * sums;
    case ZR_STEP_NORM:
        return others * plan->norm_scalars * (int64_t)sizeof(double);
    case ZR_STEP_AGREE:
        return others * ZR_AGREE_SCALARS * (int64_t)sizeof(double);
    default:
        return 0;
    }
}

static zr_traffic_kind traffic_kind(const zr_step *step)
{
    if (step->kind == ZR_STEP_NORM || step->kind == ZR_STEP_AGREE) return ZR_ALL_REDUCE;
    return step->kind == ZR_STEP_REDUCE_SCATTER || step->kind == ZR_STEP_REDUCE ? ZR_REDUCE_SCATTER : ZR_ALL_GATHER;
}

/* Does rank 0 receive? All ranks receive the same over a step: of one owner's steps they are on one side or the other.
 */
static bool receives(const zr_step *step)
{
    return step->owner < 0 || (step->owner == 0) == (step->kind == ZR_STEP_REDUCE);
}

static zr_status account_traffic(zr_plan *plan, const zr_schedule *s)
{
    int64_t times = 1;
    for (int32_t i = 0; i < s->n_steps; i++) {
        const zr_step *step = &s->step[i];
        if (step->kind == ZR_STEP_REPEAT) times = plan->layout.accum;
        if (step->kind == ZR_STEP_END) times = 1;
        int64_t bytes = zr__wire_bytes(plan, step);
        /* What is done once, flush has charged. */
        if (bytes > 0 && !step->once && receives(step)) ZR_TRY(charge(plan, traffic_kind(step), bytes, times));
    }
    return ZR_OK;
}

/* The hardware's: ops as often as the schedule runs them. The model's: each of them once. */
static zr_status account_flops(zr_plan *plan)
{
    const zr_graph *g = plan->graph[ZR_TRAIN];
    const zr_schedule *s = &plan->schedule[ZR_TRAIN];
    double times = (double)plan->layout.accum * plan->layout.ranks;
    bool *ran = zr_alloc((size_t)zr_graph_ops(g) + 1);
    ZR_CHECK(ran, ZR_ERR_MEMORY, "no memory to count the work of %d ops", (int)zr_graph_ops(g));
    for (int32_t i = 0; i < s->n_steps; i++) {
        if (s->step[i].kind != ZR_STEP_RUN) continue;
        const zr_op *op = zr_graph_get_op(g, s->step[i].op);
        double flops = op->def->cost(g, op).flops * times;
        plan->flops_hardware += flops;
        if (!ran[s->step[i].op]) plan->flops_model += flops;
        ran[s->step[i].op] = true;
    }
    zr_free(ran);
    return ZR_OK;
}

zr_status zr__account(zr_plan *plan)
{
    const zr_layout *l = &plan->layout;
    for (int k = 0; k < ZR_SCHEDULES; k++)
        if (plan->schedule[k].buffer) account_memory(plan, &plan->schedule[k], &plan->memory);
    for (int32_t b = 0; b < plan->n_persistent; b++) {
        zr_category c = plan->persistent[b].category;
        if (c == ZR_PARAM || c == ZR_GRAD || c == ZR_OPTIM) plan->memory.states_bytes += plan->persistent[b].bytes;
    }
    plan->memory.total_bytes = plan->arena_bytes;
    ZR_TRY(zr__add_bytes(&plan->memory.total_bytes, plan->stage_bytes));
    if (!l->train) return ZR_OK;
    ZR_TRY(account_traffic(plan, &plan->schedule[ZR_TRAIN]));
    ZR_TRY(account_traffic(plan, &plan->schedule[ZR_FLUSH]));
    return account_flops(plan);
}
