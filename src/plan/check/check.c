/* Proves a plan independently of the code that writes and packs plans. check_order.c checks order and offsets.
 * check_reads.c and check_values.c check reads. This file runs all checks. It also checks the remaining properties:
 * that each unit is updated exactly once and after all ranks have agreed on its gradient, that gradients are summed
 * over all data-parallel ranks, and that collectives are on the comm stream and have enough staging memory. */
#include "plan/check/check.h"
#include "base/core/scope.h"
#include "plan/list/place.h"

/* Return whether a SQUARE of a unit happens before `step`. */
static bool is_squared(const zr__proof *p, int32_t unit, int32_t step)
{
    for (int32_t i = 0; i < step; i++)
        if (p->s->step[i].kind == ZR_STEP_SQUARE && p->s->step[i].unit == unit && zr__happens_before(p, i, step))
            return true;
    return false;
}

/* Return whether the LOSS of every term and of every micro-batch of a round happens before `step`. Other roles add the
 * losses that their ops compute. */
static bool has_losses(const zr__proof *p, int32_t step)
{
    for (int t = 0; t < zr_graph_loss_terms(p->graph); t++) {
        int32_t happened = 0;
        if (!zr__is_own(p, zr_graph_value(p->graph, zr_graph_get_loss_term(p->graph, t))->producer)) continue;
        for (int32_t i = 0; i < step; i++)
            happened += p->s->step[i].kind == ZR_STEP_LOSS && p->s->step[i].term == t &&
                        p->s->step[i].micro == happened && zr__happens_before(p, i, step);
        if (happened != zr__micros(p)) return false;
    }
    return true;
}

bool zr__is_agreed(const zr__proof *p, int32_t update)
{
    int32_t unit = p->s->step[update].unit;
    for (int32_t i = 0; i < update; i++) {
        const zr_step *step = &p->s->step[i];
        const bool concerns =
            step->unit < 0 ? step->kind == ZR_STEP_NORM : step->kind == ZR_STEP_AGREE && step->unit == unit;
        if (concerns && zr__happens_before(p, i, update) && has_losses(p, i) && is_squared(p, unit, i)) return true;
    }
    return false;
}

/* Return whether a use and an update may touch the same elements of a state on one rank. The result is false only if
 * their elements are disjoint on every rank. */
static bool may_meet(const zr_plan *plan, const zr_use *use, const zr_range *kept, const zr_range *updated)
{
    /* elements of the unit that the use covers, on the same rank as the update */
    zr_range part = *updated;
    part.first = kept->first + use->range.first;
    part.count = use->range.count;
    return part.count == 0 || !zr__names(plan, use, kept, &part) ||
           (part.first < updated->first + updated->count && updated->first < part.first + part.count);
}

/* Check that no later step in the schedule uses elements of a state that `update` has changed. `update` may also be the
 * copy that writes the updated elements to the state's home. */
static zr_status check_last_use(const zr__proof *p, int32_t update, const zr_state *kept)
{
    const int32_t b = kept->buffer;
    const zr_step *updates = &p->s->step[update];
    bool writes = false;
    for (int32_t u = updates->uses; u < updates->uses + updates->n_uses; u++)
        writes |= b != ZR_NONE && p->s->use[u].buffer == b && p->s->use[u].writes;
    if (!writes) return ZR_OK;
    for (int32_t i = p->first[b]; i < p->first[b + 1]; i++) {
        const int32_t time = p->use[i].time;
        if (time == update || zr__never_meet(p, time, update) || zr__happens_before(p, time, update)) continue;
        const zr_step *step = &p->s->step[zr__step_at(p, time)];
        for (int32_t u = step->uses; u < step->uses + step->n_uses; u++)
            ZR_CHECK(p->s->use[u].buffer != b || !may_meet(p->plan, &p->s->use[u], &kept->range, &updates->range),
                     ZR_ERR_INTERNAL, "step %d uses buffer %d (%s), which step %d may have updated",
                     zr__step_at(p, time), b, p->s->buffer[b].what, update);
    }
    return ZR_OK;
}

/* Check that a unit which the plan's role does not hold has no states, and that no op reads its parameters. */
static zr_status check_held(const zr__proof *p)
{
    const zr_plan_unit *unit = p->plan->unit;
    for (int32_t i = 0; i < p->s->n_steps; i++) {
        const zr_op *op = p->s->step[i].op >= 0 ? zr_graph_get_op(p->graph, p->s->step[i].op) : NULL;
        for (int k = 0; op && k < op->n_in; k++) {
            const zr_value_info *in = op->in[k] == ZR_NONE ? NULL : zr_graph_value(p->graph, op->in[k]);
            const int32_t its = in && in->kind == ZR_VALUE_PARAM ? zr_graph_param(p->graph, in->param)->unit : -1;
            ZR_CHECK(its < 0 || unit[its].held, ZR_ERR_INTERNAL, "step %d reads unit %d, which this role does not hold",
                     i, its);
        }
    }
    for (int32_t b = 0; b < p->plan->n_persistent; b++) {
        const zr_buffer *buffer = &p->plan->persistent[b];
        ZR_CHECK(buffer->unit < 0 || unit[buffer->unit].held, ZR_ERR_INTERNAL,
                 "%s are planned for unit %d, which this role does not hold", buffer->what, buffer->unit);
    }
    return ZR_OK;
}

/* Check that each element of a unit is updated exactly once. Before the update, all ranks must have agreed on the
 * unit's gradient. After the update, no step may use the states from before it. */
static zr_status check_updates(const zr__proof *p)
{
    for (int32_t u = 0; u < p->plan->n_units && p->kind == ZR_SCHEDULE_TRAIN; u++) {
        int64_t open = zr__trains(p, u) ? p->plan->unit[u].update.count : 0;
        for (int32_t i = 0; i < p->s->n_steps; i++)
            if (p->s->step[i].kind == ZR_STEP_UPDATE && p->s->step[i].unit == u) open -= p->s->step[i].range.count;
        ZR_CHECK(open == 0, ZR_ERR_INTERNAL, "%lld elements of unit %d are not updated", (long long)open, u);
    }
    for (int32_t i = 0; i < p->s->n_steps; i++) {
        const zr_step_kind kind = p->s->step[i].kind;
        int32_t unit = p->s->step[i].unit;
        if (unit < 0 || (kind != ZR_STEP_UPDATE && kind != ZR_STEP_DIRECTION && kind != ZR_STEP_COPY)) continue;
        ZR_CHECK(kind == ZR_STEP_COPY || zr__is_agreed(p, i), ZR_ERR_INTERNAL,
                 "step %d updates unit %d before all ranks have agreed on it", i, unit);
        const zr_plan_unit *u = &p->plan->unit[unit];
        ZR_TRY(check_last_use(p, i, &u->param));
        ZR_TRY(check_last_use(p, i, &u->master));
        for (int k = 0; k < ZR_OPTIMIZER_SLOTS; k++) ZR_TRY(check_last_use(p, i, &u->slot[k]));
    }
    return ZR_OK;
}

/* Check that a unit's gradient is summed over all data-parallel ranks: the product of the sizes of the groups that
 * reduce it is the number of data-parallel ranks. With reduce_once, check that all reductions between ranks come after
 * the last micro-batch; with reduces_early zr__check_micros does so. */
static zr_status check_sums(const zr__proof *p)
{
    if (p->kind != ZR_SCHEDULE_TRAIN || !p->plan->moves) return ZR_OK;
    for (int32_t u = 0; u < p->plan->n_units; u++) {
        int64_t summed = 1;
        uint64_t groups = 0; /* bit set of the groups that reduce the unit */
        _Static_assert(ZR_GROUPS <= 64, "a group is a bit of the set");
        for (int32_t i = 0; i < p->s->n_steps; i++) {
            const zr_step *step = &p->s->step[i];
            if (!zr__reduces(step) || step->op >= 0 || step->unit != u) continue;
            const int ranks = p->plan->group[step->group].size;
            ZR_CHECK(ranks == 1 || !p->plan->reduce_once || p->plan->reduces_early || i >= p->end, ZR_ERR_INTERNAL,
                     "step %d reduces unit %d before the last micro-batch has ended", i, u);
            const zr_dtype records = p->plan->unit[u].grad_records, reduced = p->s->use[step->uses].dtype;
            ZR_CHECK(ranks == 1 || reduced == records || !(zr_dtype_is_record(records) || zr_dtype_is_record(reduced)),
                     ZR_ERR_INTERNAL, "step %d reduces unit %d as %s, not as %s", i, u, zr_dtype_name(reduced),
                     zr_dtype_name(records));
            if (!(groups >> step->group & 1)) summed *= ranks;
            groups |= UINT64_C(1) << step->group;
        }
        ZR_CHECK(!p->plan->unit[u].trains || summed == p->plan->group[p->plan->unit[u].sum_group].size, ZR_ERR_INTERNAL,
                 "the gradient of unit %d is summed over %lld of %d ranks", u, (long long)summed,
                 p->plan->group[p->plan->unit[u].sum_group].size);
    }
    return ZR_OK;
}

/* Check that with error feedback, each element of a unit's gradient is cast with its error once in a training step, and
 * that no later step uses the error. check_homes.c checks which elements a CAST names. */
static zr_status check_errors(const zr__proof *p)
{
    for (int32_t i = 0; i < p->plan->n_units * ZR_ERROR_LEVELS && p->kind == ZR_SCHEDULE_TRAIN; i++) {
        const zr_state *error = &p->plan->unit[i / ZR_ERROR_LEVELS].error[i % ZR_ERROR_LEVELS];
        int64_t open = error->buffer == ZR_NONE ? 0 : error->range.count;
        for (int32_t k = 0; k < p->s->n_steps && error->buffer != ZR_NONE; k++) {
            const zr_step *step = &p->s->step[k];
            if (step->kind != ZR_STEP_CAST || step->n_uses < 3 || p->s->use[step->uses + 2].buffer != error->buffer)
                continue;
            const bool often = k < p->end && p->s->step[p->repeat].rounds > 1;
            ZR_CHECK(step->when == ZR_WHEN_ALWAYS && !often, ZR_ERR_INTERNAL,
                     "step %d does not renew the errors of unit %d once a training step", k, step->unit);
            ZR_TRY(check_last_use(p, k, error));
            open -= step->range.count;
        }
        ZR_CHECK(open == 0, ZR_ERR_INTERNAL, "%lld errors of the gradient of unit %d are not renewed", (long long)open,
                 i / ZR_ERROR_LEVELS);
    }
    return ZR_OK;
}

/* Check that each unit's whole gradient is squared once in each micro-batch, before a reduction. A reduction may
 * overwrite a piece of the gradient with sums. No other check would notice if these sums were squared instead. */
static zr_status check_micro_squares(const zr__proof *p)
{
    const int32_t rest = p->end >= 0 ? p->end : p->s->n_steps;
    bool wanted = p->kind == ZR_SCHEDULE_TRAIN && p->plan->layout.micro_squares;
    for (int32_t u = 0; u < p->plan->n_units && wanted; u++) {
        int32_t square = -1, taken = 0;
        for (int32_t i = 0; i < rest; i++) {
            const zr_step *step = &p->s->step[i];
            const zr_use *use = &p->s->use[step->uses];
            if (step->unit != u || step->op >= 0) continue;
            bool changes = zr__reduces(step) && use[0].writes;
            if (step->kind == ZR_STEP_SQUARE_MICRO) {
                square = i;
                taken += step->when == ZR_WHEN_ALWAYS && use[0].range.first == 0 &&
                         use[0].range.count == p->plan->unit[u].padded_elems;
            }
            const bool own = square >= 0 && p->s->step[square].micro == step->micro;
            ZR_CHECK(!changes || (own && zr__happens_before(p, square, i)), ZR_ERR_INTERNAL,
                     "step %d reduces the gradient of unit %d before its squares are taken", i, u);
        }
        ZR_CHECK(taken == (zr__trains(p, u) ? zr__micros(p) : 0), ZR_ERR_INTERNAL,
                 "the squares of the micro-gradients of unit %d are taken %d times a round", u, taken);
    }
    return ZR_OK;
}

/* Return whether the last use of a step reads the sums that the step COUNT writes. */
static bool reads_counted(const zr__proof *p, const zr_step *step)
{
    const zr_use *last = &p->s->use[step->uses + step->n_uses - 1];
    return step->n_uses > 0 && p->plan->counted != ZR_NONE && last->buffer == p->plan->counted && last->reads;
}

/* With several loss terms, check that the ranks add up their numbers of counted losses exactly once in a training step,
 * and that every step which needs the sums reads them. check_order.c and check_reads.c prove that the sums are written
 * before. */
static zr_status check_counts(const zr__proof *p)
{
    const bool several = p->graph && p->kind == ZR_SCHEDULE_TRAIN && zr_graph_loss_terms(p->graph) > 1;
    int32_t counts = 0;
    for (int32_t i = 0; i < p->s->n_steps; i++) {
        const zr_step *step = &p->s->step[i];
        const bool seeds = step->kind == ZR_STEP_RUN && zr_graph_get_op(p->graph, step->op)->def->reads_seeds;
        const bool agrees = step->kind == ZR_STEP_NORM || step->kind == ZR_STEP_AGREE;
        ZR_CHECK(!several || !(seeds || agrees) || reads_counted(p, step), ZR_ERR_INTERNAL,
                 "step %d needs the numbers of losses that count, but does not read them", i);
        if (step->kind != ZR_STEP_COUNT) continue;
        const zr_use *made = &p->s->use[step->uses + 1];
        counts++;
        ZR_CHECK(step->when == ZR_WHEN_FIRST && step->n_uses == 2 && made->buffer == p->plan->counted && made->writes,
                 ZR_ERR_INTERNAL, "step %d counts the losses that count, but not once, or nowhere", i);
    }
    ZR_CHECK(counts == several, ZR_ERR_INTERNAL, "the losses that count are counted in %d steps", counts);
    return ZR_OK;
}

/* Check that NCCL's reduce-scatter works in place, on whole pieces that are contiguous in memory. */
static zr_status check_nccl(const zr__proof *p, int32_t index)
{
    const zr_step *step = &p->s->step[index];
    if (!step->nccl) return ZR_OK;
    const zr_use *pieces = &p->s->use[step->uses];
    ZR_CHECK(step->kind == ZR_STEP_REDUCE_SCATTER && step->unit >= 0 && !step->rank_free_sums, ZR_ERR_INTERNAL,
             "step %d is nothing that NCCL sums", index);
    const bool whole = pieces->each && pieces->reads && pieces->writes && pieces->range.first == 0 &&
                       pieces->range.by.elems == pieces->range.count &&
                       (step->bucket_elems == 0 || step->bucket_elems >= pieces->range.count);
    ZR_CHECK(whole, ZR_ERR_INTERNAL, "step %d: NCCL sums what is not whole pieces side by side, to be read and written",
             index);
    return ZR_OK;
}

/* Check that all collectives are on the comm stream, since two collectives must not run at the same time. Check that a
 * step that moves data uses the staging memory of its group, and that this memory has room for the smallest chunk of
 * each rank. */
static zr_status check_comm(const zr__proof *p)
{
    if (p->plan->ranks == 1) return ZR_OK;
    for (int32_t i = 0; i < p->s->n_steps; i++) {
        const zr_step *step = &p->s->step[i];
        ZR_TRY(check_nccl(p, i));
        bool moves = zr__gathers(step) || zr__reduces(step) || zr__scatters(step);
        const bool asks = zr__asks_all(step);
        const bool adds_own = step->kind == ZR_STEP_REDUCE_SCATTER && step->op < 0 && p->plan->reduce_once &&
                              step->stream == ZR_STREAM_COMPUTE && i < p->end;
        if ((step->group != ZR_GROUP_SELF || adds_own) && p->plan->group[step->group].size == 1) moves = false;
        bool staged = !moves;
        const int all = step->kind == ZR_STEP_TRUST ? p->plan->ranks / p->plan->layout.pipeline : p->plan->ranks;
        ZR_CHECK(!asks || p->plan->group[step->group].size == all, ZR_ERR_INTERNAL, "step %d asks %d of %d ranks", i,
                 p->plan->group[step->group].size, all);
        const bool meets = p->plan->group[p->plan->group[step->group].same].exchanges && step->group != ZR_GROUP_SELF;
        ZR_CHECK(!(moves || asks) || (step->stream == ZR_STREAM_COMM && meets), ZR_ERR_INTERNAL,
                 "step %d is a call between ranks, but not on the comm stream or of no group that exchanges", i);
        const int32_t staging = zr_plan_staging(p->plan, step->group);
        for (int32_t u = step->uses; u < step->uses + step->n_uses; u++)
            staged |= staging != ZR_NONE && p->s->use[u].buffer == staging;
        ZR_CHECK(staged, ZR_ERR_INTERNAL, "step %d moves bytes between ranks, but not through the staging memory", i);
    }
    for (int32_t g = 0; g < ZR_GROUPS; g++) {
        if (p->plan->staging[g] == ZR_NONE) continue;
        int64_t bytes = p->s->buffer[p->plan->staging[g]].bytes;
        ZR_CHECK(bytes >= p->plan->group[g].size * ZR_STAGING_LEAST, ZR_ERR_INTERNAL,
                 "the plan has %lld bytes of staging memory for %d ranks, but needs at least %lld", (long long)bytes,
                 p->plan->group[g].size, (long long)p->plan->group[g].size * ZR_STAGING_LEAST);
    }
    return ZR_OK;
}

/* Return whether a step waits for no other, or, if a unit has copies or records, only for steps that run in the same
 * rounds. */
static bool waits_alike(const zr__proof *p, const zr_step *step)
{
    const zr_plan_unit *u = &p->plan->unit[step->unit];
    if ((u->roles & (u->roles - 1)) == 0 && !zr_dtype_is_record(u->weight_records)) return step->n_waits == 0;
    for (int32_t w = step->waits; w < step->waits + step->n_waits; w++)
        if (p->s->step[p->s->wait[w].step].when != step->when) return false;
    return true;
}

/* Check a step that passes a part of a unit to roles with copies, or receives or brings it: only the owner passes it
 * on, the part that the rank updates, from its place or from a place like it in a whole unit. A copy receives it in its
 * own parameters. check_reads.c proves that all of a copy comes anew after an update. */
static zr_status check_part(const zr__proof *p, int32_t index)
{
    const zr_step *step = &p->s->step[index];
    const zr_use *use = &p->s->use[step->uses];
    const zr_plan_unit *u = &p->plan->unit[step->unit];
    const bool others = u->trains && (u->roles & (u->roles - 1)) != 0, there = use->buffer == u->param.buffer;
    if (!zr__passes(step)) { /* check_homes.c checks which elements it brings */
        ZR_CHECK(others && (step->kind == ZR_STEP_CAST || step->kind == ZR_STEP_COPY), ZR_ERR_INTERNAL,
                 "step %d runs once, but brings no parameters for copies", index);
        return ZR_OK;
    }
    const bool comes = step->kind == ZR_STEP_RECV || step->kind == ZR_STEP_RECEIVED;
    const zr_buffer *b = &p->s->buffer[use->buffer];
    const zr_range kept = there ? u->param.range : (zr_range){0};
    ZR_CHECK((comes ? u->copied && step->peer == u->owner && there : others) && b->unit == step->unit &&
                 b->category == ZR_CATEGORY_PARAM && use->dtype == p->plan->layout.dtype &&
                 zr__names(p->plan, use, &kept, &u->update),
             ZR_ERR_INTERNAL, "step %d passes something else than the updated part of unit %d", index, step->unit);
    return ZR_OK;
}

/* Check the ZR_WHEN_STALE steps, which are skipped if a flush has run before, and so must wait for no others. Each must
 * gather parts of a unit that is stored whole, cast its records, or pass a part to or from another role. Together the
 * steps of a unit must gather all its parameters that other ranks have updated. Check the schedules FLUSH and FILL in
 * the same way. */
static zr_status check_once(const zr__proof *p)
{
    for (int32_t u = 0; u < p->plan->n_units; u++) {
        const zr_plan_unit *unit = &p->plan->unit[u];
        int64_t known = unit->update.count, gathered = 0;
        for (int32_t i = 0; i < p->s->n_steps; i++) {
            const zr_step *step = &p->s->step[i];
            if (step->unit != u || (p->kind == ZR_SCHEDULE_TRAIN && step->when != ZR_WHEN_STALE)) continue;
            ZR_CHECK(waits_alike(p, step), ZR_ERR_INTERNAL, "step %d runs once, but waits for others", i);
            const bool records = zr_dtype_is_record(unit->weight_records) && !unit->gathered;
            if (!zr__gathers(step)) {
                /* check_homes.c checks which elements are cast, and check_reads.c that all are */
                if (!records) ZR_TRY(check_part(p, i));
                continue;
            }
            const int32_t into = p->s->use[step->uses + 1].buffer;
            ZR_CHECK(!unit->gathered && (records || into == unit->param.buffer), ZR_ERR_INTERNAL,
                     "step %d runs once, but is no gather of a unit that stays whole", i);
            gathered += step->range.count;
            if (gathered < known) continue;
            /* after the gather, every member of the group has the parts of all members */
            known *= p->plan->group[step->group].size;
            gathered = 0;
        }
        bool wanted = p->plan->shards_optim && p->plan->moves && !unit->gathered;
        ZR_CHECK(gathered == 0 && known == (wanted ? unit->padded_elems : unit->update.count), ZR_ERR_INTERNAL,
                 "%lld of %lld elements of unit %d are known to all after an update", (long long)known,
                 (long long)unit->padded_elems, u);
    }
    return ZR_OK;
}

/* Check all different pairs of consecutive rounds: the first two rounds of a training step with a flush before it, the
 * first two rounds without a flush, and two later rounds if these run other steps. Check the first two rounds both with
 * and without the steps of a save. */
static zr_status check_rounds(zr__proof *p)
{
    /* Whether a training step has several rounds. Even with two rounds, the pair of later rounds must be checked: the
     * steps after END follow its first round, which stands for the last round of the training step. */
    const bool more = p->repeat >= 0 && p->s->step[p->repeat].rounds > 1;
    const bool differ = p->has_when[ZR_WHEN_FIRST] || p->has_when[ZR_WHEN_LATER];
    const bool wanted[] = {true, p->has_when[ZR_WHEN_STALE], more && differ};
    for (int pair = ZR__PAIR_STALE; pair <= ZR__PAIR_LATER; pair++) {
        const int both = p->has_when[ZR_WHEN_SAVE] && pair != ZR__PAIR_LATER;
        for (int asked = 0; wanted[pair] && asked <= both; asked++) {
            ZR_TRY(zr__check_order(p, (zr__pair)pair, asked > 0));
            ZR_TRY(check_updates(p));
            ZR_TRY(check_errors(p));
            ZR_TRY(check_micro_squares(p));
            ZR_TRY(zr__check_trust(p));
            ZR_TRY(zr__check_ortho(p));
        }
    }
    return ZR_OK;
}

static zr_status check_schedule(const zr_plan *plan, zr_schedule_kind kind)
{
    ZR_AUTO(zr__proof_end) zr__proof p = {0};
    ZR_TRY(zr__proof_begin(&p, plan, kind));
    ZR_TRY(check_comm(&p));
    ZR_TRY(check_held(&p));
    ZR_TRY(zr__check_ranges(&p));
    ZR_TRY(check_rounds(&p));
    if (p.graph) ZR_TRY(zr__check_values(&p));
    ZR_TRY(zr__check_homes(&p));
    ZR_TRY(zr__check_reads(&p));
    ZR_TRY(check_sums(&p));
    ZR_TRY(check_counts(&p));
    ZR_TRY(zr__check_micros(&p));
    return kind != ZR_SCHEDULE_EVAL && kind != ZR_SCHEDULE_DECODE ? check_once(&p) : ZR_OK;
}

/* Check that each rank has its own place in the grid of ranks, and that no place is empty. Check the size of each
 * group, and that zr_group.same has the same ranks. */
static zr_status check_grid(const zr_plan *plan)
{
    const int n = plan->layout.ranks, all = plan->ranks, copies = all / n;
    ZR_AUTO_FREE bool *taken = zr_alloc((size_t)all);
    ZR_CHECK(taken, ZR_ERR_MEMORY, "no memory to check %d ranks", all);
    for (int r = 0; r < all; r++) {
        const int shard = zr__plan_shard(plan, r), copy = zr__plan_place(plan, ZR_GROUP_ALL & ~ZR_GROUP_DATA, r);
        bool one = shard >= 0 && shard < n && !taken[shard * copies + copy];
        for (int a = 0, rest = r; a < ZR_AXES; rest /= plan->axis_ranks[a++])
            one = one && zr__plan_place(plan, 1 << a, r) == rest % plan->axis_ranks[a];
        ZR_CHECK(one, ZR_ERR_INTERNAL, "rank %d of %d has shard %d", r, all, shard);
        taken[shard * copies + copy] = true;
    }
    for (int32_t g = 0; g < ZR_GROUPS; g++) {
        const zr_group *its = &plan->group[g], *same = &plan->group[its->same];
        ZR_CHECK(zr__plan_place(plan, g, all - 1) == its->size - 1 && its->size == same->size && (its->same & ~g) == 0,
                 ZR_ERR_INTERNAL, "group %d has %d ranks, group %d has %d", g, its->size, its->same, same->size);
    }
    const int32_t data = plan->group[ZR_GROUP_DATA].size, tensor = plan->group[ZR_GROUP_TENSOR].size;
    ZR_CHECK(data == n && tensor == plan->layout.tensor, ZR_ERR_INTERNAL,
             "the grid has %d data-parallel and %d tensor-parallel ranks", data, tensor);
    return ZR_OK;
}

zr_status zr_plan_check(const zr_plan *plan)
{
    ZR_TRY(check_grid(plan));
    for (int k = 0; k < ZR_SCHEDULES; k++)
        if (plan->schedule[k].buffer) ZR_TRY(check_schedule(plan, (zr_schedule_kind)k));
    return ZR_OK;
}
