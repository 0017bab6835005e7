/* Writes the steps that move a unit between ranks: gathers of parameters and reductions of gradients. A bucket is the
 * same sub-range of all N shards of a unit, so that each reduced bucket completes a part of every shard. */
#include "plan/write/write.h"

/* One level of a hierarchical collective. Each rank of the level's group has `elems` consecutive elements, in rank
 * order. */
typedef struct level {
    int64_t elems;
    zr_stride by, outer;
} level;

static bool has_stride(const zr_range *range, zr_stride stride)
{
    return stride.group == ZR_GROUP_SELF || stride.group == range->by.group || stride.group == range->outer.group;
}

/* Find the levels of the gather that extends one rank's part of a unit to the range `known`. Each stride that the part
 * has and `known` lacks gives one level, which gathers over the group of ranks of this stride. A reduction uses the
 * levels in reverse order. */
static int levels_of(const zr_range *part, const zr_range *known, level found[2])
{
    int n = 0;
    if (!has_stride(known, part->by)) found[n++] = (level){part->count, part->by, part->outer};
    if (!has_stride(known, part->outer)) found[n++] = (level){part->outer.elems, part->outer, {0}};
    return n;
}

static const zr_range whole = {0};

/* Return the number of elements of one rank's shard in a bucket of `bucket_elems` elements. The shard is the rank's
 * part at the level `v`. */
static int64_t bucket_range(const zr_plan *plan, int32_t unit, int64_t bucket_elems, const level *v)
{
    int ranks = plan->group[v->by.group].size;
    int64_t range = zr__plan_bucket_elems(bucket_elems, ranks, plan->unit[unit].align_elems) / ranks;
    return range < v->elems ? range : v->elems;
}

/* Return the range of each rank's part at a level of a collective. */
static zr_range level_range(const level *v)
{
    return (zr_range){.count = v->elems, .by = v->by, .outer = v->outer};
}

/* Return the state of a whole unit that is stored in `buffer`. */
static zr_state whole_in(const zr_plan_unit *u, int32_t buffer, zr_dtype dtype)
{
    return (zr_state){buffer, dtype, {.count = u->padded_elems}};
}

/* Add a step that moves a unit between ranks in buckets. */
static zr__id move_step(zr__list *l, zr_step_kind kind, int32_t unit, const level *v, int64_t bucket_elems)
{
    zr__id step = zr__list_step(l, kind, ZR_STREAM_COMM, unit);
    zr_step *made = zr__list_newest(l);
    made->group = v->by.group;
    made->range = level_range(v);
    made->bucket_elems = bucket_elems;
    return step;
}

/* Return a use of all ranks' parts. */
static zr_use parts_use(const level *v, const zr_state *state, bool reads, bool writes)
{
    zr_use use = zr__use_state(state, level_range(v), reads, writes);
    use.each = true;
    return use;
}

/* Between devices with their own memory, pieces go directly to the gathered unit, so one exchange moves the whole
 * unit. */
static zr__id gather_step(zr__list *l, zr_step_kind kind, int32_t unit, const level *v, const zr_state *source,
                          const zr_state *target)
{
    const bool in_place = source->buffer == target->buffer, direct = l->plan->profile.facts.own_memory;
    const int64_t bucket = direct ? v->elems : bucket_range(l->plan, unit, l->plan->layout.gather_bucket_elems, v);
    zr__id step = move_step(l, kind, unit, v, bucket);
    zr__list_use(l, step, zr__use_state(source, level_range(v), true, in_place));
    zr__list_use(l, step, parts_use(v, target, in_place, true));
    zr__list_use(l, step, zr__use_all(zr_plan_staging(l->plan, v->by.group), true, true));
    return step;
}

/* Return whether a unit's parameters are cast from its fp32 master before they pass between ranks: with lean states, or
 * as records. */
static bool is_cast(const zr_plan_unit *u)
{
    return u->param.buffer == ZR_NONE || (u->trains && zr_dtype_is_record(u->weight_records));
}

/* Write this rank's part of a unit into a buffer of the whole unit: cast it, or its difference to the parameters that
 * ops read, from the fp32 master, or copy it from its home off the device. */
static void write_own_part(zr__list *l, int32_t unit, const level *v, const zr_state *target, zr__id pace)
{
    const zr_plan_unit *u = &l->plan->unit[unit];
    const zr_range range = level_range(v);
    const zr_use to = zr__use_state(target, range, false, true);
    zr__id step;
    if (v->elems == 0) return;
    if (!is_cast(u)) {
        step = zr__list_copy(l, zr__copy_stream(u->param_home, ZR_SPACE_DEVICE), unit, range,
                             zr__use_state(&u->param, range, true, false), to);
    } else {
        step = zr__list_step(l, ZR_STEP_CAST, ZR_STREAM_COMM, unit);
        zr__list_newest(l)->range = range;
        zr__list_use(l, step, zr__use_state(&u->master, range, true, false));
        zr__list_use(l, step, to);
        if (u->differs) zr__list_use(l, step, zr__use_state(&u->param, range, true, false));
    }
    zr__list_pace(l, step, pace);
}

/* Gather over one group of ranks. */
static void gather_level(zr__list *l, int32_t unit, const level *v, const zr_state *source, const zr_state *target,
                         zr__id pace)
{
    if (v->elems == 0 || !l->plan->moves) return;
    zr__list_pace(l, gather_step(l, ZR_STEP_GATHER, unit, v, source, target), pace);
}

/* Return whether this rank's part of a unit must be cast or copied into the gathered unit, because it is not on the
 * device in the dtype that passes between ranks. */
static bool is_brought(const zr_plan_unit *u)
{
    return is_cast(u) || u->param_home != ZR_SPACE_DEVICE;
}

/* Return the state of a whole unit as it passes between ranks, before it is in `target`: records in a buffer of their
 * own, or the target itself. One rank has frozen records already. */
static zr_state passed_to(zr__list *l, int32_t unit, const zr_state *target)
{
    const zr_plan_unit *u = &l->plan->unit[unit];
    const zr_dtype records = u->weight_records;
    if (!zr_dtype_is_record(records)) return *target;
    if (!is_brought(u) && !l->plan->moves) return u->param;
    return whole_in(u,
                    zr__list_buffer(l, ZR_SPACE_DEVICE, ZR_CATEGORY_PARAM, unit, "records of parameters",
                                    zr_dtype_span(records, u->padded_elems)),
                    records);
}

/* If a unit has passed as records, cast them to the type that ops read, or add them to what ops have read. */
static void write_decode(zr__list *l, int32_t unit, const zr_state *passed, const zr_state *target)
{
    if (passed->buffer == target->buffer) return;
    const zr__id step = zr__list_step(l, ZR_STEP_CAST, ZR_STREAM_COMM, unit);
    zr__list_newest(l)->range = target->range;
    zr__list_use(l, step, zr__use_state(passed, target->range, true, false));
    zr__list_use(l, step, zr__use_state(target, target->range, false, true));
    if (l->plan->unit[unit].differs) zr__list_use(l, step, zr__use_state(target, target->range, true, false));
}

/* Write the gather of a whole unit into `target`, or only one half of it: the step that writes this rank's part
 * (`brings`), or the exchange with the other ranks (`exchanges`). */
static void write_gather(zr__list *l, int32_t unit, const zr_state *target, bool brings, bool exchanges, zr__id pace)
{
    const zr_plan_unit *u = &l->plan->unit[unit];
    const bool in_place = is_brought(u);
    const level own = {u->update.count, u->update.by, u->update.outer};
    level v[2];
    const int n = levels_of(&u->update, &whole, v);
    if (in_place && brings) write_own_part(l, unit, &own, target, pace);
    for (int i = 0; i < n && exchanges; i++)
        gather_level(l, unit, &v[i], i > 0 || in_place ? target : &u->param, target, pace);
}

zr_use zr__write_updated_part(zr__list *l, int32_t unit, zr_when when)
{
    const zr_plan_unit *u = &l->plan->unit[unit];
    if (!is_brought(u)) return zr__use_state(&u->param, u->update, true, false);
    const zr_dtype dtype = l->plan->layout.dtype;
    const zr_state target = whole_in(u,
                                     zr__list_buffer(l, ZR_SPACE_DEVICE, ZR_CATEGORY_PARAM, unit, "parameters to pass",
                                                     zr_dtype_span(dtype, u->padded_elems)),
                                     dtype);
    const level own = {u->update.count, u->update.by, u->update.outer};
    l->when = when;
    write_own_part(l, unit, &own, &target, ZR_NONE);
    l->when = ZR_WHEN_ALWAYS;
    return zr__use_state(&target, u->update, true, false);
}

/* Split gathers only on processors, and only of parameters on disk. There, exchanges use the cores that compute, so
 * parameters are not prefetched from other ranks. Reads from disk do not use the cores, so they are prefetched. */
bool zr__fetch_in_halves(const zr_plan *plan, int32_t unit)
{
    return plan->moves && plan->unit[unit].param_home == ZR_SPACE_DISK && !plan->profile.facts.own_memory;
}

void zr__write_fetch_half(zr__list *l, int32_t unit, int32_t buffer, bool exchanges, zr__id pace)
{
    const zr_state target = whole_in(&l->plan->unit[unit], buffer, l->plan->layout.dtype);
    write_gather(l, unit, &target, !exchanges, exchanges, pace);
}

/* Write a gather of a unit by hpZ (Wang et al. 2023, ZeRO++ section 3.2): the first gather of a training step is over
 * all ranks. This rank then copies its shard into the secondary partition. Later gathers of the training step read the
 * secondary partition over the group LOCAL. */
static void gather_hpz(zr__list *l, int32_t unit, const zr_state *target, bool first, zr__id pace)
{
    const zr_plan_unit *u = &l->plan->unit[unit];
    const level local = {u->hpz_shard.range.count, u->hpz_shard.range.by, {0}};
    if (first) {
        l->when = ZR_WHEN_FIRST;
        write_gather(l, unit, target, true, true, pace);
        const zr_range shard = u->hpz_shard.range;
        (void)zr__list_copy(l, ZR_STREAM_COMM, unit, shard, zr__use_state(target, shard, true, false),
                            zr__use_state(&u->hpz_shard, shard, false, true));
        l->when = ZR_WHEN_LATER;
    }
    if (!first || l->plan->rounds > 1) gather_level(l, unit, &local, &u->hpz_shard, target, pace);
    l->when = ZR_WHEN_ALWAYS;
}

void zr__write_fetch(zr__list *l, int32_t unit, int32_t buffer, bool first, zr__id pace)
{
    const zr_plan *plan = l->plan;
    const zr_plan_unit *u = &plan->unit[unit];
    const zr_state target = whole_in(u, buffer, plan->layout.dtype), passed = passed_to(l, unit, &target);
    if (u->hpz_shard.buffer == ZR_NONE || l->schedule != &plan->schedule[ZR_SCHEDULE_TRAIN])
        write_gather(l, unit, &passed, true, true, pace);
    else
        gather_hpz(l, unit, &passed, first, pace);
    write_decode(l, unit, &passed, &target);
}

/* Zero the parts of a transient unit gradient that no op writes: padding, and the ranges of parameters without a
 * gradient. */
static void zero_gaps(zr__list *l, int32_t unit, const zr_state *grad)
{
    const zr_unit_info *info = zr_graph_unit_info(l->graph, unit);
    int64_t written = 0, end = l->plan->unit[unit].padded_elems;
    for (int32_t p = info->first_param; p <= info->first_param + info->n_params; p++) {
        const zr_param_info *param = p < info->first_param + info->n_params ? zr_graph_param(l->graph, p) : NULL;
        if (param && param->grad == ZR_NONE) continue;
        int64_t next = param ? param->unit_offset : end;
        if (next > written) {
            const zr_range gap = {.first = written, .count = next - written};
            zr__id step = zr__list_step(l, ZR_STEP_ZERO, ZR_STREAM_COMPUTE, unit);
            zr__list_newest(l)->range = gap;
            zr__list_use(l, step, zr__use_state(grad, gap, false, true));
        }
        if (param) written = next + zr_shape_elems(&param->shape);
    }
}

bool zr__grad_transient(const zr_plan *plan)
{
    return plan->shards_grad || plan->consume_grad || plan->reduce_once;
}

zr_state zr__sums_of(const zr_plan *plan, int32_t unit, int32_t grad)
{
    const zr_plan_unit *u = &plan->unit[unit];
    return u->sums.buffer == ZR_NONE ? whole_in(u, grad, plan->layout.wire_dtype) : u->sums;
}

/* Return whether a level has only one rank. It then needs no communication: the compute stream adds this rank's own
 * gradient to the sums. */
static bool is_alone(const zr_plan *plan, const level *v)
{
    return !plan->moves || v->by.group == ZR_GROUP_SELF;
}

/* Reduce over one group of ranks: each rank receives its part of the sums. If the level has only one rank, the sum is
 * the gradient of that rank. `kept`: whether `sums` may accumulate over micro-batches. It is false for the partial sums
 * between two levels, and for the single reduction after the last micro-batch (zr_plan.reduce_once). */
static void reduce_level(zr__list *l, int32_t unit, const level *v, const zr_state *from, const zr_state *sums,
                         bool kept)
{
    const zr_plan *plan = l->plan;
    if (v->elems == 0) return;
    const zr_plan_unit *u = &plan->unit[unit];
    const bool in_place = sums->buffer == from->buffer, adds = kept && plan->sum_f32;
    const bool alone = is_alone(plan, v);
    /* NCCL needs contiguous pieces, one per rank. It divides the pieces into chunks itself. */
    const bool by_nccl = plan->layout.reduce == ZR_REDUCE_NCCL, nccl = by_nccl && !alone;
    const int64_t bucket = by_nccl ? v->elems : bucket_range(plan, unit, plan->layout.reduce_bucket_elems, v);
    zr__id step = move_step(l, ZR_STEP_REDUCE_SCATTER, unit, v, bucket);
    zr_step *made = zr__list_newest(l);
    if (alone) made->stream = ZR_STREAM_COMPUTE;
    made->adds = adds;
    made->rank_free_sums = kept && plan->layout.rank_free_sums;
    made->nccl = nccl;
    made->rounds = plan->layout.accum;
    zr__list_use(l, step, parts_use(v, from, true, in_place || nccl));
    zr__list_use(l, step, zr__use_all(zr_plan_staging(plan, v->by.group), true, true));
    zr__list_use(l, step, zr__use_state(sums, level_range(v), adds || in_place, true));
    for (int32_t i = 0; kept && i < u->n_open_sums; i++) {
        const zr_state open = {u->open_sums + i, ZR_F32, u->own};
        zr__list_use(l, step, zr__use_state(&open, level_range(v), true, true));
    }
    l->reduced[0] = l->newest;
}

void zr__write_gather_sums(zr__list *l, int32_t unit, int32_t grad, bool step)
{
    const zr_plan *plan = l->plan;
    const zr_plan_unit *u = &plan->unit[unit];
    if (!plan->moves || plan->sum_f32 != step || !u->trains) return;
    const zr_state sums = zr__sums_of(plan, unit, grad);
    level v[2];
    const int n = levels_of(&u->own, plan->layout.reduce == ZR_REDUCE_ALL_REDUCE ? &whole : &u->update, v);
    for (int i = 0; i < n; i++) (void)gather_step(l, ZR_STEP_GATHER_GRAD, unit, &v[i], &sums, &sums);
}

/* Cast a gradient, or partial sums of it, to the records in which the unit is reduced over a level's ranks (qgZ; Wang
 * et al. 2023, ZeRO++ section 3.3), with their errors if the plan has any. Return the state to be reduced: the records,
 * or `from` itself. */
static zr_state encoded(zr__list *l, int32_t unit, const level *v, const zr_state *from, const zr_state *error)
{
    const zr_dtype records = l->plan->unit[unit].grad_records;
    if (!zr_dtype_is_record(records) || l->plan->group[v->by.group].size == 1) return *from;
    zr_state to = *from;
    to.dtype = records;
    to.buffer = zr__list_buffer(l, ZR_SPACE_DEVICE, ZR_CATEGORY_GRAD, unit, "records of gradients",
                                zr_dtype_span(records, from->range.count));
    const zr__id step = zr__list_step(l, ZR_STEP_CAST, ZR_STREAM_COMM, unit);
    zr__list_newest(l)->range = from->range;
    zr__list_use(l, step, zr__use_state(from, from->range, true, false));
    zr__list_use(l, step, zr__use_state(&to, from->range, false, true));
    if (error->buffer != ZR_NONE) zr__list_use(l, step, zr__use_state(error, from->range, true, true));
    return to;
}

/* Reduce `source` over all ranks into the sums, in one or two levels. `kept`: see reduce_level. */
static void reduce_ranks(zr__list *l, int32_t unit, const zr_state *source, const zr_state *sums, bool kept)
{
    level v[2];
    const int n = levels_of(&l->plan->unit[unit].own, &whole, v);
    const zr_state *error = l->plan->unit[unit].error;
    zr_state from = encoded(l, unit, &v[n - 1], source, &error[ZR_ERROR_WHOLE]);
    if (n == 1) {
        reduce_level(l, unit, &v[0], &from, sums, kept);
        return;
    }
    /* Partial sums are in fp32, so that both levels together form one summation tree. */
    const zr_state partial = {
        zr__list_buffer(l, ZR_SPACE_DEVICE, ZR_CATEGORY_GRAD, unit, "partial sums (fp32)", 4 * v[1].elems),
        ZR_F32,
        {.count = v[1].elems, .by = v[1].by}};
    reduce_level(l, unit, &v[1], &from, &partial, false);
    const bool again = l->plan->group[v[1].by.group].size > 1; /* whether the partial sums are of records */
    from = encoded(l, unit, &v[0], &partial, &error[again ? ZR_ERROR_PARTIAL : ZR_ERROR_WHOLE]);
    reduce_level(l, unit, &v[0], &from, sums, kept);
}

/* Square a unit's gradient on the device and copy it to its home off the device. These steps replace the reduction if
 * there is one rank and one micro-batch, so that the gradient needs no sum. */
static void write_grad_home(zr__list *l, int32_t unit, const zr_state *gradient)
{
    const zr_state *sums = &l->plan->unit[unit].sums;
    const zr_range own = l->plan->unit[unit].own;
    const zr_stream stream = zr__copy_stream(ZR_SPACE_DEVICE, l->plan->persistent[sums->buffer].space);
    zr__write_square(l, unit, gradient);
    (void)zr__list_copy(l, stream, unit, own, zr__use_state(gradient, own, true, false),
                        zr__use_state(sums, own, false, true));
    l->reduced[0] = l->newest;
}

void zr__write_reduce(zr__list *l, int32_t unit, int32_t grad, int32_t accumulators, bool again)
{
    const zr_plan *plan = l->plan;
    const zr_state gradient = whole_in(&plan->unit[unit], grad, plan->layout.wire_dtype),
                   sums = zr__sums_of(plan, unit, grad);
    if (zr__grad_transient(plan)) zero_gaps(l, unit, &gradient);
    if (!again) zr__policies_gradient(l, unit, &gradient);
    if (!plan->moves && sums.buffer == grad) return; /* with one data-parallel rank, the gradient is already the sum */

    l->reduced[1] = l->reduced[0];
    if (zr__copies_grad_home(plan, unit)) {
        write_grad_home(l, unit, &gradient);
        return;
    }
    if (!plan->reduce_once) {
        reduce_ranks(l, unit, &gradient, &sums, true);
        return;
    }
    const level own = {.elems = plan->unit[unit].padded_elems};
    const zr_state added = plan->reduces_early ? whole_in(&plan->unit[unit], accumulators, ZR_F32) : sums;
    reduce_level(l, unit, &own, &gradient, &added, true);
    if (plan->reduces_early && l->micro == plan->layout.accum - 1) reduce_ranks(l, unit, &added, &sums, false);
}

void zr__write_reduce_once(zr__list *l, int32_t unit)
{
    const zr_state *sums = &l->plan->unit[unit].sums;
    const zr_plan *plan = l->plan;
    if (plan->reduce_once && !plan->reduces_early && plan->unit[unit].trains) reduce_ranks(l, unit, sums, sums, false);
}

/* Find the levels of the exchanges of a unit's directions: between the shards that ranks update and the whole unit. At
 * stage 0, where ranks update whole units, the results of the iteration take the way of the gradient's sums. */
static int direction_levels(const zr_plan *plan, int32_t unit, level v[2])
{
    const zr_plan_unit *u = &plan->unit[unit];
    return plan->moves ? levels_of(plan->shards_optim ? &u->update : &u->own, &whole, v) : 0;
}

void zr__write_gather_directions(zr__list *l, int32_t unit, const zr_state *directions)
{
    level v[2];
    const int n = direction_levels(l->plan, unit, v);
    for (int i = 0; i < n; i++)
        if (v[i].elems > 0) (void)gather_step(l, ZR_STEP_GATHER_DIRECTION, unit, &v[i], directions, directions);
}

void zr__write_scatter_directions(zr__list *l, int32_t unit, const zr_state *directions)
{
    const zr_plan *plan = l->plan;
    level v[2];
    for (int i = direction_levels(plan, unit, v) - 1; i >= 0; i--) {
        if (v[i].elems == 0) continue;
        const int64_t bucket = bucket_range(plan, unit, plan->layout.reduce_bucket_elems, &v[i]);
        const zr__id step = move_step(l, ZR_STEP_SCATTER_DIRECTION, unit, &v[i], bucket);
        zr__list_use(l, step, parts_use(&v[i], directions, true, true));
        zr__list_use(l, step, zr__use_all(zr_plan_staging(plan, v[i].by.group), true, true));
        zr__list_use(l, step, zr__use_state(directions, level_range(&v[i]), true, true));
    }
}

void zr__write_refresh(zr__list *l, int32_t unit, zr_when when)
{
    const zr_plan *plan = l->plan;
    const zr_plan_unit *u = &plan->unit[unit];
    const bool exchanged = plan->shards_optim && plan->moves;
    if (u->gathered || !(exchanged || zr_dtype_is_record(u->weight_records))) return;
    l->when = when;
    /* after a fill, each rank has its part of the parameters themselves */
    const bool filled = u->differs && l->schedule == &plan->schedule[ZR_SCHEDULE_FILL];
    const zr_state passed = filled ? u->param : passed_to(l, unit, &u->param);
    write_gather(l, unit, &passed, !filled, true, ZR_NONE);
    write_decode(l, unit, &passed, &u->param);
    l->when = ZR_WHEN_ALWAYS;
}
