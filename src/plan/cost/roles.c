/* Combines the numbers of the plans of all roles (zr__totals). */
#include "plan/cost/cost.h"
#include "plan/program/pipeline.h"

/* Raise each of the n numbers `most` to at least the corresponding number of `its`. */
static void raise(int64_t *most, const int64_t *its, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (its[i] > most[i]) most[i] = its[i];
}

/* Raise each number in a member of `totals` to at least the same number of `plan`. The member consists of int64_t
 * only. */
#define RAISE(member)                                                                                                  \
    raise((int64_t *)&totals.member, (const int64_t *)&plan->member, sizeof(totals.member) / (sizeof(int64_t)))

zr__totals zr__plans_total(const zr_plans *plans)
{
    zr__totals totals = {0};
    for (int32_t r = 0; r < plans->n; r++) {
        const zr_plan *plan = plans->role[r];
        RAISE(memory);
        RAISE(traffic);
        RAISE(across);
        RAISE(copied);
        totals.flops_model += plan->flops_model;
        totals.flops_hardware += plan->flops_hardware;
    }
    return totals;
}

const zr_plan *zr__fullest_role(const zr_plans *plans)
{
    const zr_plan *fullest = plans->role[0];
    for (int32_t r = 1; r < plans->n; r++) {
        const zr_plan *plan = plans->role[r];
        if (zr__memory_limited(&plan->memory, &plan->profile.facts) >
            zr__memory_limited(&fullest->memory, &fullest->profile.facts))
            fullest = plan;
    }
    return fullest;
}

zr__copied_bytes zr__plans_copied(const zr_plans *plans)
{
    zr__copied_bytes sum = {0, 0};
    for (int32_t r = 0; r < plans->n; r++) {
        const zr_plan *plan = plans->role[r];
        const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
        for (int32_t i = 0; i < s->n_steps; i++) {
            const zr_step *step = &s->step[i];
            if (step->kind != ZR_STEP_RECEIVED || step->micro > 0) continue;
            const bool part = zr_graph_value(plan->graph[ZR_SCHEDULE_TRAIN], step->value)->param >= 0;
            if (step->when == ZR_WHEN_STALE)
                sum.step_bytes += zr__wire_bytes(plan, s, step);
            else if (part)
                sum.micro_bytes += zr__wire_bytes(plan, s, step);
        }
    }
    return sum;
}

double zr__layout_bubble(const zr_layout *layout)
{
    zr__pipe pipe = zr__pipe_of(layout);
    if (pipe.chunks == 0) pipe.chunks = zr__pipe_chunks(layout);
    return zr__pipe_bubble(&pipe);
}

double zr__plan_bubble(const zr_plan *plan)
{
    return zr__layout_bubble(&plan->layout);
}

bool zr__plan_splits(const zr_plan *plan)
{
    const zr__pipe pipe = zr__pipe_of(&plan->layout);
    return zr__pipe_splits(&pipe);
}

void zr__plans_clear(zr_plans *plans)
{
    for (int32_t r = 0; r < plans->n; r++) zr_plan_destroy(&plans->role[r]);
}
