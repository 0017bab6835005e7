/* Recompute policy auto: finds the plan that recomputes least among the plans that fit the memory limit. The units are
 * assumed to be alike. The best plan then mixes at most two recompute policies (a linear programme with two
 * constraints).
 *
 * The heavier policy goes to the first units, because their activations would be stored longest. Bisection over
 * complete plans finds the smallest number of units that need the heavier policy. With tensor parallelism the search
 * also tries checkpoints in pieces (P_a) and pieces in host memory (P_a+cpu). The memory that this saves may allow less
 * recompute.
 *
 * On a device with its own memory, if the plan then recomputes only cheap ops and memory is left, the outputs of the
 * cheap ops are stored too (policy keep), in the largest number of units that fits. */
#include "plan/policy/policy.h"
#include "plan/cost/cost.h"

typedef struct search {
    const zr_model *model;
    const zr_layout *layout;
    const zr_profile *profile;
    bool free;      /* whether the search also chooses how activation checkpoints are stored */
    bool partition; /* whether the plans that are tried now store checkpoints in pieces */
    zr_space home;  /* memory space in which these plans store checkpoints */
    int32_t units;  /* number of units that may be recomputed */
    zr_plan *best;
} search;

/* Create a plan, and keep it if it is better than the best plan so far. In most cases zr__plan_better compares the two
 * plans. If both plans fit and the search chooses only the recompute policies, the plan with fewer hardware FLOPs is
 * better. FLOPs do not include recomputed outputs of cheap ops. If the FLOPs are equal, zr__plan_better decides. */
static zr_status try_mix(search *s, zr_recompute first, zr_recompute rest, int32_t n_first, int64_t every,
                         int64_t *bytes)
{
    zr__mix mix = {first, rest, n_first, every, s->partition, s->home};
    zr_plan *plan = NULL;
    zr_status st = ZR_OK;
    ZR_TRY(zr__plan_create_mix(s->model, s->layout, s->profile, &mix, &plan));
    *bytes = zr__memory_limited(&plan->memory, &plan->profile.facts);
    bool better = !s->best || plan->flops_hardware < s->best->flops_hardware;
    const bool as_much = s->best && plan->flops_hardware == s->best->flops_hardware;
    if (s->best && (s->free || as_much || !zr__plan_fits(plan) || !zr__plan_fits(s->best)))
        st = zr__plan_better(plan, s->best, &better);
    zr_plan *worse = better ? s->best : plan;
    if (better) s->best = plan;
    zr_plan_destroy(&worse);
    return st;
}

/* Find the smallest number n for which the plan fits if the model's first n units have the heavier policy. */
static zr_status bisect(search *s, zr_recompute heavy, zr_recompute light)
{
    int32_t low = 0, high = s->units;
    int64_t bytes = 0, fewer = 0, limit = s->layout->limit_bytes;
    ZR_TRY(try_mix(s, heavy, light, high, 1, &bytes));
    /* If the plan does not fit even with all units heavy, first reduce the number of heavy units one by one, while this
     * saves memory. For example, recompute in the last units may save nothing, because their activations fit into the
     * memory in which other units are recomputed later. */
    while (bytes > limit && high > 0) {
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

/* Search for the best mix of recompute policies. s->partition and s->home say how checkpoints are stored. */
static zr_status find_mix(search *s)
{
    int64_t bytes = INT64_MAX, before = INT64_MAX;
    ZR_TRY(bisect(s, ZR_RECOMPUTE_SELECTIVE, ZR_RECOMPUTE_NONE));
    ZR_TRY(bisect(s, ZR_RECOMPUTE_UNIT, ZR_RECOMPUTE_NONE));
    ZR_TRY(bisect(s, ZR_RECOMPUTE_UNIT, ZR_RECOMPUTE_SELECTIVE));
    /* `every` is the number of units that are replayed together. With a larger number, fewer checkpoints are stored,
     * but a replay needs more memory. Memory first falls as `every` grows, and then rises. Therefore stop at the first
     * rise. */
    for (int64_t every = 2; !zr__plan_fits(s->best) && every <= s->units && bytes <= before; every++) {
        before = bytes;
        ZR_TRY(try_mix(s, ZR_RECOMPUTE_UNIT, ZR_RECOMPUTE_UNIT, s->units, every, &bytes));
    }
    return ZR_OK;
}

static zr_status find_best(search *s)
{
    int64_t bytes = 0;
    ZR_TRY(try_mix(s, ZR_RECOMPUTE_NONE, ZR_RECOMPUTE_NONE, 0, 1, &bytes));
    if (s->layout->limit_bytes == 0) return ZR_OK;
    const bool fits = zr__plan_fits(s->best), own_memory = s->profile->facts.own_memory;
    /* A processor recomputes cheap ops as fast as it would load their stored outputs (fp32: 2 % faster; bf16: equally
     * fast). */
    if (fits && !own_memory) return ZR_OK;
    s->units = s->best->graph[ZR_SCHEDULE_TRAIN] ? zr__recompute_units(s->best, s->best->graph[ZR_SCHEDULE_TRAIN]) : 0;
    if (fits)
        return bisect(s, ZR_RECOMPUTE_NONE,
                      ZR_RECOMPUTE_KEEP); /* use the remaining memory to store the outputs of cheap ops */
    ZR_TRY(find_mix(s));
    /* Try checkpoints in pieces first, then pieces in host memory. A later plan replaces the best plan only if it is
     * better. */
    for (int way = 0; s->free && way < 2; way++) {
        s->partition = true;
        s->home = way > 0 ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
        ZR_TRY(find_mix(s));
    }
    return ZR_OK;
}

static zr_status create_least_work(const zr_model *model, const zr_layout *layout, const zr_profile *profile,
                                   zr_plan **plan)
{
    /* With sequence parallelism the search does not choose how checkpoints are stored, because the checkpoints of a
     * rank then contain only its own tokens. */
    const bool free = layout->train && layout->tensor > 1 && layout->sequence == ZR_SEQUENCE_OFF &&
                      !layout->partition_checkpoints && layout->checkpoint_home == ZR_SPACE_DEVICE;
    search s = {.model = model,
                .layout = layout,
                .profile = profile,
                .free = free,
                .partition = layout->partition_checkpoints,
                .home = layout->checkpoint_home};
    zr_status st = find_best(&s);
    if (st != ZR_OK)
        zr_plan_destroy(&s.best);
    else
        *plan = s.best;
    return st == ZR_OK ? ZR_OK : zr_error_frame(st, __func__, __FILE__, __LINE__);
}

static bool leaves_recompute_open(const zr_layout *l)
{
    return l->recompute == ZR_RECOMPUTE_AUTO;
}

const zr__policy zr__policy_recompute = {.chooses = leaves_recompute_open, .create = create_least_work};
