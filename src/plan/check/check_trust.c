/* Part of the proof of a plan: trust ratios (zr_optimizer.trust). Before a unit is updated, each rank must square all
 * elements of its shard once, with the gradient on which all ranks have agreed. All ranks must then add the squares of
 * all ranks. check_homes.c checks that a step squares the elements that the states hold, and check_order.c checks that
 * no state changes between the squares and the update. */
#include "plan/check/check.h"

static bool uses_buffer(const zr__proof *p, const zr_step *step, int32_t buffer, bool reads, bool writes)
{
    for (int32_t u = step->uses; u < step->uses + step->n_uses; u++)
        if (p->s->use[u].buffer == buffer && p->s->use[u].range.count == 0 && p->s->use[u].reads == reads &&
            p->s->use[u].writes == writes)
            return true;
    return false;
}

/* Find the step TRUST of a unit. Check that it reads the unit's squares and writes its norms, once in a training step
 * and after the last micro-batch. */
static zr_status find_trust(const zr__proof *p, int32_t unit, int32_t *trust)
{
    const zr_plan_unit *u = &p->plan->unit[unit];
    *trust = -1;
    for (int32_t i = 0; i < p->s->n_steps; i++) {
        const zr_step *step = &p->s->step[i];
        if (step->kind != ZR_STEP_TRUST || (step->unit >= 0 && step->unit != unit)) continue;
        ZR_CHECK(*trust < 0, ZR_ERR_INTERNAL, "steps %d and %d find the norms of unit %d", *trust, i, unit);
        ZR_CHECK(uses_buffer(p, step, u->trust, true, false) && uses_buffer(p, step, u->norms, false, true) &&
                     uses_buffer(p, step, p->plan->numbers, true, true) && step->when == ZR_WHEN_ALWAYS &&
                     step->rank_free_sums == p->plan->layout.rank_free_sums,
                 ZR_ERR_INTERNAL, "step %d finds norms for trust ratios, but not those of unit %d", i, unit);
        *trust = i;
    }
    ZR_CHECK(*trust >= 0, ZR_ERR_INTERNAL, "nothing finds the norms of unit %d for its trust ratios", unit);
    return ZR_OK;
}

/* Check that the squares of a unit are complete, and computed from an agreed gradient, before its norms, and that the
 * norms are known before each of its updates. */
static zr_status check_unit(const zr__proof *p, int32_t unit)
{
    const zr_plan_unit *u = &p->plan->unit[unit];
    int64_t squared = 0;
    int32_t trust;
    ZR_TRY(find_trust(p, unit, &trust));
    for (int32_t i = 0; i < p->s->n_steps; i++) {
        const zr_step *step = &p->s->step[i];
        if (step->unit != unit) continue;
        if (step->kind == ZR_STEP_SQUARE_UPDATE) {
            /* the parts of the shard are squared in order; the part with the shard's first element starts the sums */
            const zr_use part = {.range = step->range};
            zr_range next = u->own;
            next.first += squared;
            next.count = step->range.count;
            ZR_CHECK(zr__names(p->plan, &part, &(zr_range){0}, &next) && squared % ZR_TRUST_BLOCK == 0 &&
                         step->when == ZR_WHEN_ALWAYS && step->rank_free_sums == p->plan->layout.rank_free_sums,
                     ZR_ERR_INTERNAL, "step %d squares other elements of unit %d than the next of the shard", i, unit);
            squared += step->range.count;
            ZR_CHECK(uses_buffer(p, step, u->trust, false, true) && uses_buffer(p, step, u->verdict, true, false) &&
                         zr__is_agreed(p, i) && zr__happens_before(p, i, trust),
                     ZR_ERR_INTERNAL,
                     "step %d squares the direction of unit %d before all ranks have agreed on its gradient, or after "
                     "its norms are found",
                     i, unit);
        }
        ZR_CHECK(step->kind != ZR_STEP_UPDATE ||
                     (uses_buffer(p, step, u->norms, true, false) && zr__happens_before(p, trust, i)),
                 ZR_ERR_INTERNAL, "step %d updates unit %d before its norms are found", i, unit);
    }
    ZR_CHECK(squared == u->own.count, ZR_ERR_INTERNAL, "%lld of %lld elements of unit %d are squared for trust ratios",
             (long long)squared, (long long)u->own.count, unit);
    return ZR_OK;
}

zr_status zr__check_trust(const zr__proof *p)
{
    if (p->kind != ZR_SCHEDULE_TRAIN || !p->plan->optimizer.trust) return ZR_OK;
    for (int32_t u = 0; u < p->plan->n_units; u++)
        if (zr__trains(p, u)) ZR_TRY(check_unit(p, u));
    return ZR_OK;
}
