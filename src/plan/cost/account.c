/* Computes the accounts of a plan: memory by category, bytes sent between ranks, and FLOPs. All numbers come from the
 * schedules, without formulas for ZeRO stages. */
#include "base/core/core.h"
#include "plan/cost/cost.h"
#include "plan/list/list.h"
#include "plan/list/place.h"

#include <stdlib.h>

static int by_first_step(const void *x, const void *y)
{
    const zr_buffer *a = *(const zr_buffer *const *)x, *b = *(const zr_buffer *const *)y;
    return (a->first_step > b->first_step) - (a->first_step < b->first_step);
}

static int by_last_step(const void *x, const void *y)
{
    const zr_buffer *a = *(const zr_buffer *const *)x, *b = *(const zr_buffer *const *)y;
    return (a->last_step > b->last_step) - (a->last_step < b->last_step);
}

/* Raise the peaks in `memory` to the peaks of one schedule. At each step, first add the buffers that begin there, then
 * remove the buffers that end there. The engine does the same. */
static zr_status account_memory(const zr_plan *plan, const zr_schedule *s, zr_memory *memory)
{
    const int32_t n = s->n_buffers - plan->n_persistent;
    const zr_buffer **begins = zr_alloc(sizeof(zr_buffer *) * 2 * (size_t)(n + 1));
    ZR_CHECK(begins, ZR_ERR_MEMORY, "no memory to account for %d buffers", n);
    const zr_buffer **ends = begins + n;
    zr_ledger ledger[ZR_SPACES] = {0};
    for (int32_t b = 0; b < plan->n_persistent; b++) {
        const zr_buffer *buffer = &plan->persistent[b];
        zr__ledger_take(&ledger[buffer->space], buffer->category, buffer->bytes);
    }
    for (int32_t i = 0; i < n; i++) begins[i] = ends[i] = &s->buffer[plan->n_persistent + i];
    qsort(begins, (size_t)n, sizeof(zr_buffer *), by_first_step);
    qsort(ends, (size_t)n, sizeof(zr_buffer *), by_last_step);
    for (int32_t i = 0, ended = 0; i < n; i++) {
        for (; ends[ended]->last_step < begins[i]->first_step; ended++)
            zr__ledger_give(&ledger[ends[ended]->space], ends[ended]->category, ends[ended]->bytes);
        zr__ledger_take(&ledger[begins[i]->space], begins[i]->category, begins[i]->bytes);
    }
    zr_free(begins);
    for (int space = 0; space < ZR_SPACES; space++)
        for (int c = 0; c < ZR_CATEGORIES; c++) {
            int64_t *most = &memory->space[space].category_bytes[c];
            if (ledger[space].peak_bytes[c] > *most) *most = ledger[space].peak_bytes[c];
        }
    return ZR_OK;
}

int64_t zr__memory_taken(const zr_memory *memory)
{
    const int64_t *host = memory->space[ZR_SPACE_HOST].category_bytes;
    const int64_t states = host[ZR_CATEGORY_PARAM] + host[ZR_CATEGORY_GRAD] + host[ZR_CATEGORY_OPTIM];
    /* also count the buffers through which states pass from and to disk, since the layout chooses their sizes */
    const int64_t passing = memory->space[ZR_SPACE_DISK].total_bytes > 0 ? host[ZR_CATEGORY_WORK] : 0;
    return memory->total_bytes + host[ZR_CATEGORY_CHECKPOINT] + states + passing;
}

int64_t zr__memory_limited(const zr_memory *memory, const zr_device_facts *facts)
{
    return facts->own_memory ? memory->total_bytes : zr__memory_taken(memory);
}

void zr__memory_sum(zr_memory *memory)
{
    const zr_space_memory *device = &memory->space[ZR_SPACE_DEVICE], *staging = &memory->space[ZR_SPACE_STAGING];
    for (int c = 0; c < ZR_CATEGORIES; c++)
        memory->category_bytes[c] = device->category_bytes[c] + staging->category_bytes[c];
    memory->total_bytes = device->total_bytes + staging->total_bytes;
}

/* Add the bytes of all executions of a step to one kind of traffic. The bytes of a kind are limited to 2^61, so that a
 * sum over the kinds fits in 64 bits. */
static zr_status charge(const zr_plan *plan, zr_traffic *traffic, zr_traffic_kind kind, int64_t bytes, int64_t runs)
{
    const bool wraps = __builtin_mul_overflow(bytes, runs, &bytes);
    ZR_CHECK(!wraps && bytes <= INT64_MAX / 4 - traffic->bytes[kind], ZR_ERR_CONFIG,
             "%lld micro-batches a step move more bytes than are counted (2^61): fewer are needed",
             (long long)plan->layout.accum);
    zr__traffic_count(traffic, kind, bytes);
    return ZR_OK;
}

/* Return the number of parameters whose norms a TRUST step computes. */
static int64_t params_of(const zr_plan *plan, const zr_step *step)
{
    int64_t params = 0;
    for (int32_t u = 0; u < plan->n_units; u++)
        if (step->unit == u || (step->unit < 0 && plan->unit[u].trains))
            params += zr_graph_unit_info(plan->graph[ZR_SCHEDULE_TRAIN], u)->n_params;
    return params;
}

/* Return the number of scalars that each rank contributes to a step that exchanges scalars. */
static int64_t scalars_of(const zr_plan *plan, const zr_step *step)
{
    if (step->kind == ZR_STEP_COUNT) return plan->terms;
    if (step->kind == ZR_STEP_AGREE) return ZR_AGREE_SCALARS;
    if (step->kind == ZR_STEP_NORM) return zr_norm_scalars(step->rounds > 0, plan->terms);
    return params_of(plan, step) * zr_trust_scalars(step->rank_free_sums);
}

int64_t zr__plan_calls(const zr_plan *plan, const zr_step *step)
{
    const int64_t each = ZR_TRUST_CALL / zr_trust_scalars(step->rank_free_sums);
    return step->kind == ZR_STEP_TRUST ? (params_of(plan, step) + each - 1) / each : zr_step_buckets(step);
}

int64_t zr__wire_bytes(const zr_plan *plan, const zr_schedule *s, const zr_step *step)
{
    const zr_step_traits traits = zr_step_traits_of(step->kind);
    const int64_t others = plan->group[step->group].size - 1;
    switch (traits.move) {
    case ZR_MOVE_NONE:
        break;
    case ZR_MOVE_RECEIVE:
        return zr_dtype_span(s->use[step->uses].dtype, s->use[step->uses].range.count);
    case ZR_MOVE_GATHER:
    case ZR_MOVE_REDUCE:
        return others * zr_dtype_span(s->use[step->uses + traits.pieces].dtype, step->range.count);
    case ZR_MOVE_SCALARS:
        return others * (int64_t)sizeof(double) * scalars_of(plan, step);
    }
    return 0;
}

zr_status zr__messages_bytes(const zr_plan *plan, int64_t *bytes)
{
    *bytes = 0;
    if (plan->profile.facts.own_memory) return ZR_OK; /* GPUs read messages where they are */
    for (const zr_schedule *s = plan->schedule; s < plan->schedule + ZR_SCHEDULES; s++) {
        ZR_AUTO_FREE bool *seen = zr_alloc((size_t)s->n_channels + 1);
        ZR_CHECK(seen, ZR_ERR_MEMORY, "no memory to account for %d channels", s->n_channels);
        for (int32_t i = 0; i < s->n_steps; i++) {
            const zr_step *step = &s->step[i];
            if (step->kind != ZR_STEP_SEND || seen[step->channel]) continue;
            const zr_use *use = &s->use[step->uses];
            int64_t all;
            const bool wraps = __builtin_mul_overflow(
                zr__round_bytes(ZR_SPACE_STAGING, zr_dtype_span(use->dtype, use->range.count)), step->rounds, &all);
            ZR_TRY(zr__add_bytes(bytes, wraps ? -1 : all));
            ZR_TRY(zr__add_bytes(bytes, ZR__MESSAGES_HEAD));
            seen[step->channel] = true;
        }
    }
    return ZR_OK;
}

/* Add the messages to other roles to the staging memory. */
static zr_status account_messages(zr_plan *plan)
{
    int64_t bytes;
    ZR_TRY(zr__messages_bytes(plan, &bytes));
    ZR_TRY(zr__add_bytes(&plan->space_bytes[ZR_SPACE_STAGING], bytes));
    plan->memory.space[ZR_SPACE_STAGING].category_bytes[ZR_CATEGORY_BUFFER] += bytes;
    return ZR_OK;
}

/* For each border, count the bytes of messages that cross it to the rank of the role that receives the most. */
static zr_status account_messages_across(zr_plan *plan)
{
    const int ranks = plan->ranks / plan->layout.pipeline, first = plan->layout.role * ranks;
    int64_t from[ZR_ROLES] = {0}; /* bytes of the messages from each role */
    for (int flush = 0; flush < 2; flush++) {
        const zr_schedule *s = &plan->schedule[flush ? ZR_SCHEDULE_FLUSH : ZR_SCHEDULE_TRAIN];
        int64_t times = 1;
        for (int32_t i = 0; i < s->n_steps; i++)
            if (s->step[i].kind == ZR_STEP_RECEIVED && zr__step_runs(&s->step[i], false, &times) > 0)
                ZR_TRY(zr__add_bytes(&from[s->step[i].peer], zr__wire_bytes(plan, s, &s->step[i])));
    }
    for (int b = 0; b < ZR_BORDERS; b++) {
        int64_t most = 0;
        for (int rank = first; rank < first + ranks && plan->layout.pipeline > 1; rank++) {
            int64_t across = 0;
            for (int32_t role = 0; role < plan->layout.pipeline; role++)
                if (from[role] > 0 && zr__plan_peer_beyond(plan, rank, role, (zr_border)b)) across += from[role];
            if (across > most) most = across;
        }
        ZR_TRY(charge(plan, &plan->across[b], ZR_TRAFFIC_PIPELINE, most, 1));
    }
    return ZR_OK;
}

static zr_status account_traffic(zr_plan *plan, const zr_schedule *s)
{
    int64_t times = 1;
    /* rank[group][border]: rank whose received bytes across the border are counted: the rank that receives most */
    int rank[ZR_GROUPS][ZR_BORDERS] = {{0}};
    for (int32_t g = 0; g < ZR_GROUPS; g++)
        for (int b = 0; b < ZR_BORDERS && plan->group[g].exchanges; b++)
            rank[g][b] = zr__plan_most_across(plan, g, (zr_border)b);
    for (int32_t i = 0; i < s->n_steps; i++) {
        const zr_step *step = &s->step[i];
        /* Count ZR_WHEN_STALE steps as not run, since the flush schedule already counts their gathers. */
        const int64_t runs = zr__step_runs(step, false, &times);
        const int64_t bytes = zr__wire_bytes(plan, s, step);
        const zr_step_traits traits = zr_step_traits_of(step->kind);
        if (bytes == 0) continue;
        ZR_TRY(charge(plan, &plan->traffic, traits.traffic, bytes, runs));
        for (int b = 0; b < ZR_BORDERS; b++) {
            const int receiver = rank[plan->group[step->group].same][b];
            const int64_t across = zr__plan_across(plan, step->group, (zr_border)b, receiver, bytes);
            ZR_TRY(charge(plan, &plan->across[b], traits.traffic, across, runs));
        }
    }
    return ZR_OK;
}

/* Count the bytes that COPY steps move from one space to another. */
static zr_status account_copies(zr_plan *plan, const zr_schedule *s)
{
    int64_t times = 1;
    for (int32_t i = 0; i < s->n_steps; i++) {
        const zr_step *step = &s->step[i];
        const int64_t copies = zr__step_runs(step, false, &times);
        if (step->kind != ZR_STEP_COPY) continue;
        const zr_use *from = &s->use[step->uses], *to = from + 1;
        int64_t *sum = &plan->copied[s->buffer[from->buffer].space][s->buffer[to->buffer].space], bytes;
        const bool wraps = __builtin_mul_overflow(zr_dtype_span(from->dtype, from->range.count), copies, &bytes);
        ZR_TRY(zr__add_bytes(sum, wraps ? -1 : bytes));
    }
    return ZR_OK;
}

/* Return the FLOPs of a step ORTHO of all ranks of the role. Each group that shares the matrices iterates them once. */
static double iteration_flops(const zr_plan *plan, const zr_step *step)
{
    const zr_plan_unit *u = &plan->unit[step->unit];
    const double groups = (double)plan->ranks / plan->layout.pipeline / plan->group[u->ortho_group].size;
    double flops = 0;
    for (int32_t i = u->first_matrix; i < u->first_matrix + u->n_matrices; i++) {
        const zr_op *op = zr_graph_get_op(plan->ortho, plan->matrix[i].op);
        flops += op->def->cost(plan->ortho, op).flops;
    }
    return flops * groups;
}

/* Count FLOPs. Hardware FLOPs count each run of an op in the schedule, and iterations of hidden matrices. Model FLOPs
 * count each op once. */
static zr_status account_flops(zr_plan *plan)
{
    const zr_graph *g = plan->graph[ZR_SCHEDULE_TRAIN];
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    const double ranks = (double)plan->ranks / plan->layout.pipeline; /* of the role */
    const double times = (double)plan->rounds * ranks, all = (double)plan->layout.accum * ranks;
    ZR_AUTO_FREE bool *ran = zr_alloc((size_t)zr_graph_ops(g) + 1);
    ZR_CHECK(ran, ZR_ERR_MEMORY, "no memory to count the work of %d ops", (int)zr_graph_ops(g));
    for (int32_t i = 0; i < s->n_steps; i++) {
        if (s->step[i].kind == ZR_STEP_ORTHO) plan->flops_hardware += iteration_flops(plan, &s->step[i]);
        if (s->step[i].kind != ZR_STEP_RUN) continue;
        const zr_op *op = zr_graph_get_op(g, s->step[i].op);
        const zr_cost cost = op->def->cost(g, op);
        plan->flops_hardware += cost.flops * times;
        if (!ran[s->step[i].op]) plan->flops_model += (cost.flops - cost.again) * all;
        ran[s->step[i].op] = true;
    }
    return ZR_OK;
}

zr_status zr__account(zr_plan *plan)
{
    plan->has_stream[ZR_STREAM_COMPUTE] = plan->has_stream[ZR_STREAM_COMM] = true;
    for (const zr_schedule *s = plan->schedule; s < plan->schedule + ZR_SCHEDULES; s++) {
        for (int32_t i = 0; i < s->n_steps; i++) plan->has_stream[s->step[i].stream] = true;
        if (s->buffer) ZR_TRY(account_memory(plan, s, &plan->memory));
    }
    for (int32_t b = 0; b < plan->n_persistent; b++) {
        zr_category c = plan->persistent[b].category;
        bool state = c == ZR_CATEGORY_PARAM || c == ZR_CATEGORY_GRAD || c == ZR_CATEGORY_OPTIM;
        if (state && plan->persistent[b].space == ZR_SPACE_DEVICE)
            plan->memory.states_bytes += plan->persistent[b].bytes;
    }
    int64_t all = 0;
    ZR_TRY(account_messages(plan));
    for (int s = 0; s < ZR_SPACES; s++) {
        plan->memory.space[s].total_bytes = plan->space_bytes[s];
        ZR_TRY(zr__add_bytes(&all, plan->space_bytes[s]));
    }
    zr__memory_sum(&plan->memory);
    if (!plan->layout.train) return ZR_OK;
    const zr_schedule_kind counted[] = {ZR_SCHEDULE_TRAIN, ZR_SCHEDULE_FLUSH};
    for (int k = 0; k < 2; k++) {
        ZR_TRY(account_traffic(plan, &plan->schedule[counted[k]]));
        ZR_TRY(account_copies(plan, &plan->schedule[counted[k]]));
    }
    ZR_TRY(account_messages_across(plan));
    return account_flops(plan);
}
