/*
 * Recompute policy auto: the least work that fits. Units are taken to be alike, so that the best mix has at most two
 * policies (a linear programme with two constraints), the heavier one in the first units, whose
 * activations would be kept longest; the fewest units for it are found by bisection over whole plans.
 */
#include "plan/internal.h"

typedef struct search {
    const zr_model *model;
    const zr_layout *layout;
    const zr_profile *profile;
    int32_t units; /* that may be computed again */
    zr_plan *best;
} search;

static bool fits(const search *s, const zr_plan *plan)
{
    return zr_memory_taken(&plan->memory) <= s->layout->limit_bytes;
}

/* Is `plan` to be had rather than the best so far: it fits and that does not, or it is less work; neither fits:
 * smaller. */
static bool better(const search *s, const zr_plan *plan)
{
    if (!s->best || fits(s, plan) != fits(s, s->best)) return !s->best || fits(s, plan);
    if (fits(s, plan)) return plan->flops_hardware < s->best->flops_hardware;
    return zr_memory_taken(&plan->memory) < zr_memory_taken(&s->best->memory);
}

static zr_status try_mix(search *s, zr_recompute first, zr_recompute rest, int32_t n_first, int64_t every,
                         int64_t *bytes)
{
    zr__mix mix = {.first = first, .rest = rest, .n_first = n_first, .every = every};
    zr_plan *plan = NULL;
    ZR_TRY(zr__plan_create_mix(s->model, s->layout, s->profile, &mix, &plan));
    *bytes = zr_memory_taken(&plan->memory);
    if (better(s, plan)) {
        zr_plan *worse = s->best;
        s->best = plan;
        plan = worse;
    }
    zr_plan_destroy(&plan);
    return ZR_OK;
}

/* The fewest first units with the heavier policy. */
static zr_status bisect(search *s, zr_recompute heavy, zr_recompute light)
{
    int32_t low = 0, high = s->units;
    int64_t bytes = 0, fewer = 0, limit = s->layout->limit_bytes;
    ZR_TRY(try_mix(s, heavy, light, high, 1, &bytes));
    while (bytes > limit && high > 0) { /* the last units can use the room in which the others are computed again */
        ZR_TRY(try_mix(s, heavy, light, high - 1, 1, &fewer));
        if (fewer > bytes) return ZR_OK;
        bytes = fewer;
        high--;
    }
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        ZR_TRY(try_mix(s, heavy, light, middle, 1, &bytes));
        if (bytes <= limit)
            high = middle;
        else
            low = middle + 1;
    }
    return ZR_OK;
}

static zr_status find(search *s)
{
    int64_t bytes = 0, before = INT64_MAX;
    ZR_TRY(try_mix(s, ZR_RECOMPUTE_NONE, ZR_RECOMPUTE_NONE, 0, 1, &bytes));
    if (fits(s, s->best) || s->layout->limit_bytes == 0) return ZR_OK;
    s->units = s->best->graph[ZR_SCHEDULE_TRAIN] ? zr__recompute_units(s->best, s->best->graph[ZR_SCHEDULE_TRAIN]) : 0;
    ZR_TRY(bisect(s, ZR_RECOMPUTE_SELECTIVE, ZR_RECOMPUTE_NONE));
    ZR_TRY(bisect(s, ZR_RECOMPUTE_UNIT, ZR_RECOMPUTE_NONE));
    ZR_TRY(bisect(s, ZR_RECOMPUTE_UNIT, ZR_RECOMPUTE_SELECTIVE));
    /* Fewer checkpoints, more to compute again at once: from where it grows it only grows. */
    bytes = INT64_MAX;
    for (int64_t every = 2; !fits(s, s->best) && every <= s->units && bytes <= before; every++) {
        before = bytes;
        ZR_TRY(try_mix(s, ZR_RECOMPUTE_UNIT, ZR_RECOMPUTE_UNIT, s->units, every, &bytes));
    }
    return ZR_OK;
}

zr_status zr__plan_create_auto(const zr_model *model, const zr_layout *layout, const zr_profile *profile,
                               zr_plan **plan)
{
    search s = {.model = model, .layout = layout, .profile = profile};
    zr_status st = find(&s);
    if (st != ZR_OK)
        zr_plan_destroy(&s.best);
    else
        *plan = s.best;
    return st == ZR_OK ? ZR_OK : zr_error_frame(st, __func__, __FILE__, __LINE__);
}
