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

static zr_status account_traffic(zr_plan *plan, const zr_schedule *s)
{
    int64_t times = 1, others = plan->layout.ranks - 1;
    int64_t dtype = zr_dtype_bytes(plan->layout.dtype), wire = zr_dtype_bytes(plan->layout.wire_dtype);
    int64_t sums = plan->layout.accum > 1 ? zr_dtype_bytes(ZR_F32) : wire;
    for (int32_t i = 0; i < s->n_steps; i++) {
        const zr_step *step = &s->step[i];
        int64_t elems = others * step->count;
        switch (step->kind) {
        case ZR_STEP_REPEAT:
            times = plan->layout.accum;
            break;
        case ZR_STEP_END:
            times = 1;
            break;
        case ZR_STEP_EXCHANGE:
            ZR_TRY(charge(plan, ZR_REDUCE_SCATTER, elems * wire, times));
            break;
        case ZR_STEP_GATHER:
            ZR_TRY(charge(plan, ZR_ALL_GATHER, elems * dtype, times));
            break;
        case ZR_STEP_GATHER_GRAD:
            ZR_TRY(charge(plan, ZR_ALL_GATHER, elems * sums, times));
            break;
        case ZR_STEP_NORM:
            ZR_TRY(charge(plan, ZR_ALL_REDUCE, others * ZR_NORM_SCALARS * (int64_t)sizeof(double), times));
            break;
        default:
            break;
        }
    }
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
    const zr_graph *g = plan->graph[ZR_TRAIN];
    for (int32_t i = 0; i < zr_graph_ops(g); i++) {
        const zr_op *op = zr_graph_get_op(g, i);
        plan->flops_model += op->def->cost(g, op).flops;
    }
    plan->flops_model *= (double)l->accum * l->ranks;
    plan->flops_hardware = plan->flops_model; /* nothing is recomputed yet */
    return ZR_OK;
}
