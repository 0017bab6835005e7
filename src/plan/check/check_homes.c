/* Part of the proof of a plan: the buffers of model states. The home of a state is the buffer that stores it
 * permanently. Other buffers have copies of it, on the device or in host memory.
 *
 * A step that computes with a state must read the elements of its range from the home or from a copy in the memory in
 * which it computes. Updates on the stream HOST compute in host memory, all other steps on the device. If a step
 * changes a copy, the copy must be copied home before the same elements are copied from home again. No other step may
 * write a state. A gathered unit gets its elements from their homes. Only copies and saves access the disk. A schedule
 * that saves must save every state, from its home or from a copy. check_order.c proves that conflicting uses happen in
 * the order of the list of steps. */
#include "base/core/scope.h"
#include "plan/check/check.h"

/* A copy of a range of a state, in a buffer other than the state's home. */
typedef struct copied {
    int32_t state;      /* home of the copied state, or -1 if the buffer holds no copy */
    zr_range range, at; /* range of the copied elements in the unit, and their range in the buffer */
    zr_when when;       /* rounds in which the step that makes the copy runs */
    bool changed;       /* whether a step has changed the copy, and the copy has not been written home since */
    /* for a copy of a gradient on the device: homes.writes[gradient's buffer] when the copy was made */
    int64_t writes;
} copied;

/* The state of this check. Arrays have one entry for each buffer unless noted. */
typedef struct homes {
    const zr__proof *p;
    copied *held;
    int64_t *writes; /* number of uses up to the current step that have written this buffer */
    int32_t *unit;   /* unit of the state whose home is this buffer, or -1 */
    int32_t *open;   /* buffers with a changed copy, unordered */
    int32_t *n_open;
    /* saved[unit][1 + slot], as one array: whether a SAVE step saves this state (zr_step.slot) */
    bool *saved;
} homes;

/* Add a range's strides to `by`, or subtract them if `sign` is -1. Leave out strides over groups of one rank, which
 * have no effect. */
static void add_strides(const zr_plan *plan, int64_t by[ZR_GROUPS], const zr_range *range, int sign)
{
    const zr_stride stride[] = {range->by, range->outer};
    for (int i = 0; i < 2; i++)
        if (plan->group[stride[i].group].size > 1) by[stride[i].group] += sign * stride[i].elems;
}

bool zr__names(const zr_plan *plan, const zr_use *use, const zr_range *kept, const zr_range *wanted)
{
    /* for each group: stride of `wanted` minus the strides of `kept` and of the use, in elements */
    int64_t by[ZR_GROUPS] = {0};
    add_strides(plan, by, wanted, 1);
    add_strides(plan, by, kept, -1);
    add_strides(plan, by, &use->range, -1);
    for (int g = 0; g < ZR_GROUPS; g++)
        if (by[g] != 0) return false;
    return use->range.count == wanted->count && use->range.first == wanted->first - kept->first;
}

/* number of states of a unit: the master (0) and the optimizer states (from 1) */
enum { STATES = 1 + ZR_OPTIMIZER_SLOTS };
static const zr_state *kept_state(const zr_plan_unit *u, int number)
{
    return number == 0 ? &u->master : &u->slot[number - 1];
}

/* number of states of a unit that may be saved: kept states, the parameters that ops read, and errors */
enum { SAVED = 1 + ZR_SLOT_ERROR + ZR_ERROR_LEVELS };

/* Return the state that is saved under a number, 1 + zr_step.slot, or a state without a buffer. Number 0 is the master
 * parameters, or the model's parameters if the unit has no master. */
static const zr_state *saved_state(const zr_plan_unit *u, int number)
{
    static const zr_state none = {.buffer = ZR_NONE};
    if (number > ZR_SLOT_ERROR) return &u->error[number - 1 - ZR_SLOT_ERROR];
    if (number == 1 + ZR_SLOT_SENT) return u->differs ? &u->param : &none;
    if (number == 0) return u->master.buffer == ZR_NONE ? &u->param : &u->master;
    const int slot = number - 1 - u->first_slot;
    return slot >= 0 && slot < u->n_slots ? &u->slot[slot] : &none;
}

static bool is_off_device(const homes *h, int32_t buffer)
{
    return buffer != ZR_NONE && h->p->s->buffer[buffer].space != ZR_SPACE_DEVICE;
}

/* Find the state whose home is this buffer. Return false if the buffer is not a home. Sums of gradients have a home
 * only if they are stored off the device. Parameters have a home only if they are stored off the device or updated by
 * the host's processors. */
static bool find_kept(const homes *h, int32_t buffer, zr_state *kept)
{
    const int32_t index = buffer == ZR_NONE ? -1 : h->unit[buffer];
    if (index < 0) return false;
    const zr_plan_unit *u = &h->p->plan->unit[index];
    for (int i = 0; i < STATES; i++)
        if (kept_state(u, i)->buffer == buffer) *kept = *kept_state(u, i);
    if (u->param.buffer == buffer) *kept = u->param;
    if (u->sums.buffer == buffer) *kept = u->sums;
    if (buffer >= u->open_sums && buffer < u->open_sums + u->n_open_sums) *kept = (zr_state){buffer, ZR_F32, u->own};
    return true;
}

static bool same_range(const homes *h, const zr_range *a, const zr_range *b)
{
    const zr_use use = {.range = *a};
    return zr__names(h->p->plan, &use, &(zr_range){0}, b);
}

/* Return whether a use covers a whole copy of `range`. The copy begins at the first element of its buffer. */
static bool is_copy_of(const homes *h, const zr_use *use, const zr_range *range)
{
    const zr_range all = {.count = range->count};
    return same_range(h, &use->range, &all);
}

/* Return whether a buffer holds a copy of exactly this range of a state, at the elements that the use names. */
static bool holds(const homes *h, const zr_use *use, int32_t state, const zr_range *range)
{
    const copied *its = &h->held[use->buffer];
    return its->state == state && same_range(h, &its->range, range) && same_range(h, &its->at, &use->range);
}

static void set_changed(const homes *h, int32_t buffer, bool changed)
{
    if (h->held[buffer].changed == changed) return;
    h->held[buffer].changed = changed;
    if (changed) {
        h->open[(*h->n_open)++] = buffer;
        return;
    }
    int32_t i = 0;
    while (h->open[i] != buffer) i++;
    h->open[i] = h->open[--*h->n_open];
}

/* Return whether two ranges of a unit may have elements in common. */
static bool may_overlap(const homes *h, const zr_range *a, const zr_range *b)
{
    zr_range moved = *b;
    moved.first = a->first;
    moved.count = a->count;
    return !same_range(h, a, &moved) || (a->first < b->first + b->count && b->first < a->first + a->count);
}

/* ---- steps ------------------------------------------------------------------------------------- */

static zr_status note_written(const homes *h, int32_t index, int32_t buffer)
{
    ZR_CHECK(!h->held[buffer].changed, ZR_ERR_INTERNAL, "step %d writes over an update that has not gone home", index);
    const int32_t unit = h->unit[buffer]; /* a gather writes the parameters of a unit that every rank stores whole */
    const bool gathered = unit >= 0 && buffer == h->p->plan->unit[unit].param.buffer && !is_off_device(h, buffer);
    ZR_CHECK(unit < 0 || gathered, ZR_ERR_INTERNAL, "step %d writes a state of unit %d, but is no update of it", index,
             unit);
    h->held[buffer].state = -1;
    return ZR_OK;
}

/* Return the memory space in which a step computes. */
static zr_space space_of(const zr_step *step)
{
    return step->stream == ZR_STREAM_HOST ? ZR_SPACE_HOST : ZR_SPACE_DEVICE;
}

/* Check that an operand is in the memory in which the step computes, and that it holds exactly the elements of a state
 * that the step's range selects. */
static zr_status check_operand(const homes *h, int32_t index, const zr_use *use, const zr_state *kept, bool reads,
                               bool changes)
{
    const zr_step *step = &h->p->s->step[index];
    if (use->buffer == ZR_NONE && kept->buffer == ZR_NONE) return ZR_OK;
    bool there = use->buffer != ZR_NONE && kept->buffer != ZR_NONE && use->reads == reads && use->writes == changes &&
                 h->p->s->buffer[use->buffer].space == space_of(step);
    if (there && use->buffer == kept->buffer) {
        there = zr__names(h->p->plan, use, &kept->range, &step->range);
    } else if (there && !reads && space_of(step) == ZR_SPACE_HOST) {
        /* an update on the host writes every element of this operand and reads none, so the copy need not hold earlier
         * values */
        ZR_TRY(note_written(h, index, use->buffer));
        h->held[use->buffer] = (copied){kept->buffer, step->range, use->range, step->when, false, 0};
        set_changed(h, use->buffer, true);
    } else if (there) {
        there = h->held[use->buffer].when == step->when && holds(h, use, kept->buffer, &step->range);
        if (there && changes) set_changed(h, use->buffer, true);
    }
    ZR_CHECK(there, ZR_ERR_INTERNAL, "step %d computes with other elements of a state than it names", index);
    return ZR_OK;
}

/* Return whether a use is in the whole gradient of the step's unit, in the case of one rank and one micro-batch. This
 * gradient needs no reduction, because it is already the sum. */
static bool is_own_sum(const homes *h, const zr_step *step, const zr_use *use)
{
    const zr_buffer *b = &h->p->s->buffer[use->buffer];
    const zr_range unit = {0};
    return !h->p->plan->moves && !h->p->plan->sum_f32 && b->category == ZR_CATEGORY_GRAD && !b->persistent &&
           b->unit == step->unit && b->space == ZR_SPACE_DEVICE && zr__names(h->p->plan, use, &unit, &step->range);
}

/* Return whether a use is in the summed gradient on the device that the update of the step's unit applies: the unit's
 * persistent sums, or a transient gradient that is freed after the update. */
static bool is_sum_there(const homes *h, const zr_step *step, const zr_use *use)
{
    const zr_buffer *b = &h->p->s->buffer[use->buffer];
    if (step->unit < 0 || b->space != ZR_SPACE_DEVICE || b->category != ZR_CATEGORY_GRAD) return false;
    const zr_state *sums = &h->p->plan->unit[step->unit].sums;
    const zr_range unit = {0};
    if (sums->buffer != ZR_NONE)
        return use->buffer == sums->buffer && zr__names(h->p->plan, use, &sums->range, &step->range);
    return !b->persistent && b->unit == step->unit && zr__names(h->p->plan, use, &unit, &step->range);
}

/* Check that a copy to a state's home writes exactly the elements that a step has changed, or a whole gradient. */
static zr_status check_home(const homes *h, int32_t index, const zr_state *target)
{
    const zr_step *step = &h->p->s->step[index];
    const zr_use *from = &h->p->s->use[step->uses], *to = from + 1;
    if (step->unit >= 0 && to->buffer == h->p->plan->unit[step->unit].sums.buffer && is_own_sum(h, step, from)) {
        ZR_CHECK(to->writes && zr__names(h->p->plan, to, &target->range, &step->range), ZR_ERR_INTERNAL,
                 "step %d copies a gradient to other elements of its sums", index);
        return ZR_OK;
    }
    const copied *its = &h->held[from->buffer];
    const bool known = its->changed && its->when == step->when && holds(h, from, to->buffer, &step->range) &&
                       to->writes && zr__names(h->p->plan, to, &target->range, &step->range) &&
                       step->unit == h->unit[to->buffer];
    ZR_CHECK(known, ZR_ERR_INTERNAL, "step %d copies elements to a state that no update has changed", index);
    set_changed(h, from->buffer, false);
    return ZR_OK;
}

/* Check that elements which are copied into a gathered unit get the same position as in the unit. */
static zr_status check_gathered(const homes *h, int32_t index, const zr_use *to)
{
    const zr_step *step = &h->p->s->step[index];
    const zr_buffer *b = &h->p->s->buffer[to->buffer];
    const zr_range unit = {0};
    ZR_CHECK(
        b->category == ZR_CATEGORY_PARAM && b->unit == step->unit && zr__names(h->p->plan, to, &unit, &step->range),
        ZR_ERR_INTERNAL, "step %d writes elements of unit %d to other places of buffer %s", index, step->unit, b->what);
    return ZR_OK;
}

/* Check that a CAST of a gradient adds and renews the errors of the same elements, if the plan has any. */
static zr_status check_error(const homes *h, int32_t index)
{
    const zr_step *step = &h->p->s->step[index];
    const zr_use *use = &h->p->s->use[step->uses + 2];
    const bool partial = h->p->plan->group[step->range.by.group].size > 1;
    const zr_state *error = &h->p->plan->unit[step->unit].error[partial ? ZR_ERROR_PARTIAL : ZR_ERROR_WHOLE];
    const bool kept = error->buffer != ZR_NONE;
    ZR_CHECK(step->n_uses == 2 + kept &&
                 (!kept || (use->buffer == error->buffer && use->dtype == error->dtype && use->reads && use->writes &&
                            zr__names(h->p->plan, use, &error->range, &step->range))),
             ZR_ERR_INTERNAL, "step %d casts a gradient of unit %d without its errors, or with others", index,
             step->unit);
    return ZR_OK;
}

/* Check a CAST. It casts a unit's master to the type in which its parameters pass between ranks, or the records of a
 * whole unit to the type that ops read, or a gradient to the records in which it is reduced. Where records have
 * differences, a third operand is the same elements of the parameters. An element keeps its position in the unit. */
static zr_status check_cast(const homes *h, int32_t index)
{
    const zr_step *step = &h->p->s->step[index];
    const zr_use *from = &h->p->s->use[step->uses], *to = from + 1;
    const zr_plan_unit *u = &h->p->plan->unit[step->unit];
    const zr_buffer *source = &h->p->s->buffer[from->buffer], *target = &h->p->s->buffer[to->buffer];
    const zr_range whole = {.count = u->padded_elems}, unit = {0};
    const zr_dtype read = h->p->plan->layout.dtype, passed = u->weight_records == ZR_F32 ? read : u->weight_records;
    if (source->category == ZR_CATEGORY_GRAD) {
        const bool there = source->unit == step->unit ? same_range(h, &from->range, &to->range)
                                                      : zr__names(h->p->plan, to, &unit, &step->range);
        ZR_CHECK(there && target->category == ZR_CATEGORY_GRAD && target->unit == step->unit && !target->persistent &&
                     to->dtype == u->grad_records,
                 ZR_ERR_INTERNAL, "step %d casts something else than the gradient of unit %d to its records", index,
                 step->unit);
        ZR_TRY(check_error(h, index));
        return source->unit == step->unit ? ZR_OK : check_operand(h, index, from, &u->sums, true, false);
    }
    const bool decodes = source->category == ZR_CATEGORY_PARAM && source->unit == step->unit;
    if (decodes)
        ZR_CHECK(from->dtype == passed && to->dtype == read && same_range(h, &step->range, &whole) &&
                     zr__names(h->p->plan, from, &unit, &whole),
                 ZR_ERR_INTERNAL, "step %d casts something else than the records of unit %d", index, step->unit);
    else
        ZR_TRY(check_operand(h, index, from, &u->master, true, false));
    ZR_CHECK(decodes || to->dtype == passed, ZR_ERR_INTERNAL,
             "step %d casts the master of unit %d to another type than the one that passes between ranks", index,
             step->unit);
    const zr_use *old = from + 2;
    const bool differs = step->n_uses == 3 && old->buffer == u->param.buffer && old->dtype == u->param.dtype &&
                         old->reads && !old->writes && (!decodes || to->buffer == old->buffer) &&
                         zr__names(h->p->plan, old, &u->param.range, &step->range);
    ZR_CHECK(u->differs ? differs : step->n_uses == 2, ZR_ERR_INTERNAL,
             "step %d casts something else than differences to the parameters of unit %d", index, step->unit);
    return check_gathered(h, index, to);
}

/* Check a copy of a state: from its home to another buffer, between two other buffers, or back to its home. */
static zr_status check_state_copy(const homes *h, int32_t index)
{
    const zr_step *step = &h->p->s->step[index];
    const zr_use *from = &h->p->s->use[step->uses], *to = from + 1;
    zr_state source, target;
    bool kept = find_kept(h, from->buffer, &source);
    if (find_kept(h, to->buffer, &target)) return check_home(h, index, &target);
    ZR_TRY(note_written(h, index, to->buffer));
    if (step->when == ZR_WHEN_SAVE) {
        const zr_plan_unit *u = &h->p->plan->unit[step->unit];
        kept = false;
        for (int i = 0; i < SAVED && !kept; i++) {
            kept = saved_state(u, i)->buffer == from->buffer;
            if (kept) source = *saved_state(u, i);
        }
        ZR_CHECK(kept && same_range(h, &step->range, &u->own) && zr__names(h->p->plan, from, &source.range, &u->own) &&
                     is_copy_of(h, to, &u->own),
                 ZR_ERR_INTERNAL, "step %d copies something else than the own shard of a state", index);
    }
    const copied *passed = &h->held[from->buffer];
    const bool on_way = !kept && passed->state >= 0;
    if (step->unit >= 0 && is_off_device(h, h->p->plan->unit[step->unit].sums.buffer) && is_own_sum(h, step, from)) {
        h->held[to->buffer] =
            (copied){h->p->plan->unit[step->unit].sums.buffer, step->range, to->range, step->when, false, 0};
        set_changed(h, to->buffer, true);
        return ZR_OK;
    }
    if (!kept && !on_way && is_sum_there(h, step, from))
        h->held[to->buffer] =
            (copied){from->buffer, step->range, to->range, step->when, false, h->writes[from->buffer]};
    if (!kept && !on_way) return ZR_OK;
    const bool there = on_way ? passed->when == step->when && holds(h, from, passed->state, &step->range)
                              : zr__names(h->p->plan, from, &source.range, &step->range);
    ZR_CHECK(there, ZR_ERR_INTERNAL, "step %d copies other elements of a state than it names", index);
    for (int32_t i = 0; i < *h->n_open && kept; i++) {
        const copied *its = &h->held[h->open[i]];
        ZR_CHECK(its->state != from->buffer || !may_overlap(h, &its->range, &step->range), ZR_ERR_INTERNAL,
                 "step %d copies elements of buffer %s that have changed elsewhere", index,
                 h->p->s->buffer[from->buffer].what);
    }
    const bool changed = on_way && passed->changed;
    if (changed) set_changed(h, from->buffer, false);
    h->held[to->buffer] = (copied){on_way ? passed->state : from->buffer, step->range, to->range, step->when, false, 0};
    if (changed) set_changed(h, to->buffer, true);
    return h->p->s->buffer[to->buffer].unit >= 0 && step->when != ZR_WHEN_SAVE ? check_gathered(h, index, to) : ZR_OK;
}

/* Check that an update on the host reads a copy of its unit's summed gradient on the device. No step may have written
 * that gradient after the copy. */
static zr_status check_sum_copy(const homes *h, int32_t index, const zr_use *use)
{
    const zr_step *step = &h->p->s->step[index];
    const copied *its = use->buffer == ZR_NONE ? NULL : &h->held[use->buffer];
    bool there = its && h->p->s->buffer[use->buffer].space == ZR_SPACE_HOST && its->state >= 0 &&
                 holds(h, use, its->state, &step->range) && its->when == step->when &&
                 its->writes == h->writes[its->state];
    if (there) {
        const zr_buffer *b = &h->p->s->buffer[its->state];
        there = b->category == ZR_CATEGORY_GRAD && b->unit == step->unit && b->space == ZR_SPACE_DEVICE;
    }
    ZR_CHECK(there, ZR_ERR_INTERNAL, "step %d updates unit %d on the host by other sums than the unit's own", index,
             step->unit);
    return ZR_OK;
}

/* Check that a step uses the directions of the elements in its range. check_ortho.c checks which buffer has them. */
static zr_status check_directions(const homes *h, int32_t index, const zr_use *use, bool writes)
{
    const zr_step *step = &h->p->s->step[index];
    const zr_buffer *b = &h->p->s->buffer[use->buffer];
    const zr_range unit = {0};
    ZR_CHECK(b->category == ZR_CATEGORY_WORK && b->unit == step->unit && b->space == ZR_SPACE_DEVICE &&
                 step->stream == ZR_STREAM_COMPUTE && use->dtype == h->p->plan->optimizer.ortho.dtype &&
                 use->writes == writes && use->reads == !writes && zr__names(h->p->plan, use, &unit, &step->range),
             ZR_ERR_INTERNAL, "step %d computes with other directions of unit %d than it names", index, step->unit);
    return ZR_OK;
}

/* Check that UPDATE, SQUARE_UPDATE or DIRECTION reads the summed gradient of the elements in its range, and an update
 * of hidden matrices their directions. */
static zr_status check_sums_operand(const homes *h, int32_t index)
{
    const zr_step *step = &h->p->s->step[index];
    const zr_use *sums = &h->p->s->use[step->uses];
    const zr_plan_unit *u = &h->p->plan->unit[step->unit];
    const zr_range whole = {.count = u->padded_elems};
    if (u->orthogonal && step->kind == ZR_STEP_UPDATE) return check_directions(h, index, sums, false);
    if (is_off_device(h, u->sums.buffer)) return check_operand(h, index, sums, &u->sums, true, false);
    if (step->stream == ZR_STREAM_HOST) return check_sum_copy(h, index, sums);
    const bool summed =
        zr__names(h->p->plan, sums, u->sums.buffer == ZR_NONE ? &whole : &u->sums.range, &step->range) &&
        (u->sums.buffer == ZR_NONE || sums->buffer == u->sums.buffer);
    ZR_CHECK(summed, ZR_ERR_INTERNAL, "step %d updates by other sums than it names", index);
    return ZR_OK;
}

/* Check that SQUARE_UPDATE reads the same elements of the summed gradient, of the master (or the parameters) and of the
 * optimizer states. */
static zr_status check_square_update(const homes *h, int32_t index)
{
    const zr_step *step = &h->p->s->step[index];
    const zr_use *use = &h->p->s->use[step->uses];
    const zr_plan_unit *u = &h->p->plan->unit[step->unit];
    const int n_slots = u->n_slots;
    const bool no_master = u->master.buffer == ZR_NONE;
    ZR_TRY(check_sums_operand(h, index));
    for (int i = 0; i <= n_slots; i++) ZR_TRY(check_operand(h, index, &use[1 + i], kept_state(u, i), true, false));
    ZR_CHECK(no_master || use[2 + n_slots].buffer == ZR_NONE, ZR_ERR_INTERNAL,
             "step %d squares parameters that have a master", index);
    return no_master ? check_operand(h, index, &use[2 + n_slots], &u->param, true, false) : ZR_OK;
}

/* Check that DIRECTION reads the summed gradient of its range, and updates the optimizer's states and writes the
 * directions of the same range. */
static zr_status check_direction(const homes *h, int32_t index)
{
    const zr_step *step = &h->p->s->step[index];
    const zr_use *use = &h->p->s->use[step->uses];
    const zr_plan_unit *u = &h->p->plan->unit[step->unit];
    ZR_CHECK(step->n_uses == u->n_slots + 3 && use[u->n_slots + 1].buffer == u->verdict && step->when == ZR_WHEN_ALWAYS,
             ZR_ERR_INTERNAL, "step %d computes directions without the states of unit %d", index, step->unit);
    ZR_TRY(check_sums_operand(h, index));
    for (int i = 0; i < u->n_slots; i++) ZR_TRY(check_operand(h, index, &use[1 + i], &u->slot[i], true, true));
    return check_directions(h, index, &use[u->n_slots + 2], true);
}

/* Check that an update uses the same elements of the summed gradient, the master, the optimizer states and the
 * parameters. */
static zr_status check_update(const homes *h, int32_t index)
{
    const zr_step *step = &h->p->s->step[index];
    const zr_use *use = &h->p->s->use[step->uses];
    const zr_plan_unit *u = &h->p->plan->unit[step->unit];
    const int n_slots = u->orthogonal ? 0 : u->n_slots;
    const zr_use *param = &use[2 + n_slots];
    /* parameters that pass as records are cast from the master later */
    const zr_state none = {.buffer = ZR_NONE}, *kept = zr_dtype_is_record(u->weight_records) ? &none : &u->param;
    ZR_TRY(check_sums_operand(h, index));
    const bool off = step->stream == ZR_STREAM_HOST || is_off_device(h, kept->buffer);
    if (off) ZR_TRY(check_operand(h, index, param, kept, u->master.buffer == ZR_NONE, true));
    const bool written =
        off ||
        (param->buffer == kept->buffer &&
         (param->buffer == ZR_NONE || (param->writes && zr__names(h->p->plan, param, &kept->range, &step->range))));
    ZR_CHECK(written && step->when == ZR_WHEN_ALWAYS, ZR_ERR_INTERNAL,
             "step %d updates other elements of parameters than it names", index);
    for (int i = 0; i <= n_slots; i++) ZR_TRY(check_operand(h, index, &use[1 + i], kept_state(u, i), true, true));
    return kept->buffer == ZR_NONE || off ? ZR_OK : note_written(h, index, kept->buffer);
}

/* ---- sums of gradients off the device ---------------------------------------------------------- */

/* Return the range of a unit that a rank has after all members of a group have gathered their parts. */
static zr_range gathered_range(const homes *h, const zr_range *part)
{
    return (zr_range){.count = part->by.elems * h->p->plan->group[part->by.group].size, .by = part->outer};
}

/* Check that a reduction writes sums on the device. In later rounds it must add to a copy of the sums that are stored
 * in their home. */
static zr_status check_reduced(const homes *h, int32_t index)
{
    const zr_step *step = &h->p->s->step[index];
    const zr_use *use = &h->p->s->use[step->uses];
    const zr_plan_unit *u = &h->p->plan->unit[step->unit];
    const int32_t from = use[0].buffer;
    const bool later = h->p->s->step[h->p->repeat].rounds > 1; /* whether there are later rounds */
    const bool in_place = from == use[2].buffer; /* whether ranks reduce their own sums over micro-batches in place */
    if (in_place)
        ZR_CHECK(h->held[from].state == u->sums.buffer && same_range(h, &h->held[from].range, &u->sums.range) &&
                     use[2].writes,
                 ZR_ERR_INTERNAL, "step %d reduces something else than the sums of unit %d", index, step->unit);
    for (int i = 2; i < step->n_uses; i++) {
        const int32_t home = i == 2 ? u->sums.buffer : u->open_sums + i - 3, b = use[i].buffer;
        const copied *its = &h->held[b];
        const bool on_device = h->p->s->buffer[b].space == ZR_SPACE_DEVICE && b != home;
        const bool same = holds(h, &use[i], home, &step->range);
        const bool added = !step->adds || !later || (same && (its->when == ZR_WHEN_LATER || its->changed));
        ZR_CHECK(on_device && use[i].writes && added && (!its->changed || same), ZR_ERR_INTERNAL,
                 "step %d reduces unit %d into other sums than its own", index, step->unit);
        if (its->changed) set_changed(h, b, false);
        h->held[b] = (copied){home, step->range, use[i].range, step->when, false, 0};
        set_changed(h, b, true);
    }
    return ZR_OK;
}

static zr_status check_gathered_sums(const homes *h, int32_t index)
{
    const zr_step *step = &h->p->s->step[index];
    const zr_use *use = &h->p->s->use[step->uses];
    const int32_t home = h->p->plan->unit[step->unit].sums.buffer, b = use[0].buffer;
    const bool there = h->p->s->buffer[b].space == ZR_SPACE_DEVICE && holds(h, &use[0], home, &step->range) &&
                       use[1].buffer == b && use[1].each;
    ZR_CHECK(there, ZR_ERR_INTERNAL, "step %d gathers something else than sums of unit %d", index, step->unit);
    h->held[b].range = gathered_range(h, &step->range);
    h->held[b].at = gathered_range(h, &use[1].range);
    h->held[b].when = step->when;
    set_changed(h, b, true);
    return ZR_OK;
}

/* Check a step that computes with a unit's summed gradients, if their home is off the device. *checked receives whether
 * the step is of this kind. */
static zr_status check_sums_off(const homes *h, int32_t index, bool *checked)
{
    const zr_step *step = &h->p->s->step[index];
    const zr_use *use = &h->p->s->use[step->uses];
    const bool into_sums = zr__reduces(step) && step->n_uses > 2;
    *checked = step->unit >= 0 && step->op < 0 && is_off_device(h, h->p->plan->unit[step->unit].sums.buffer) &&
               (into_sums || step->kind == ZR_STEP_GATHER_GRAD || step->kind == ZR_STEP_SQUARE);
    if (!*checked) return ZR_OK;
    if (step->kind == ZR_STEP_GATHER_GRAD) return check_gathered_sums(h, index);
    if (step->kind == ZR_STEP_SQUARE && is_own_sum(h, step, &use[0])) return ZR_OK;
    if (step->kind == ZR_STEP_SQUARE)
        return check_operand(h, index, &use[0], &h->p->plan->unit[step->unit].sums, true, false);
    /* the first of two levels of a reduction writes partial sums, whose home is the device */
    const bool partial =
        h->p->s->buffer[use[2].buffer].unit == step->unit && h->p->s->buffer[use[2].buffer].space == ZR_SPACE_DEVICE;
    if (partial) *checked = false;
    return partial ? ZR_OK : check_reduced(h, index);
}

/* Return whether a range with this stride begins at different elements on different ranks. */
static bool differs(const homes *h, zr_stride by)
{
    return by.elems != 0 && h->p->plan->group[by.group].size > 1;
}

/* Check that only copies and saves access the disk, in whole disk blocks, and that copies from and to disk are on the
 * streams FETCH and STORE. On a device with its own memory, they must copy from and to host memory. */
static zr_status check_disk(const homes *h, int32_t index)
{
    const zr_step *step = &h->p->s->step[index];
    const bool own_memory = h->p->plan->profile.facts.own_memory;
    zr_stream wanted = ZR_STREAM_COPY;
    for (int32_t u = step->uses; u < step->uses + step->n_uses; u++) {
        const zr_use *use = &h->p->s->use[u];
        if (use->buffer == ZR_NONE || h->p->s->buffer[use->buffer].space != ZR_SPACE_DISK) continue;
        ZR_CHECK(step->kind == ZR_STEP_COPY || step->kind == ZR_STEP_SAVE, ZR_ERR_INTERNAL,
                 "step %d uses buffer %s on disk, but is no copy", index, h->p->s->buffer[use->buffer].what);
        if (step->kind == ZR_STEP_SAVE) continue;
        const zr_buffer *other = &h->p->s->buffer[h->p->s->use[u == step->uses ? u + 1 : step->uses].buffer];
        wanted = u == step->uses ? ZR_STREAM_FETCH : ZR_STREAM_STORE;
        const bool blocks = zr_dtype_span(use->dtype, use->range.first) % ZR_DISK_ALIGN == 0 &&
                            !differs(h, use->range.by) && !differs(h, use->range.outer) &&
                            h->p->s->buffer[use->buffer].offset % ZR_DISK_ALIGN == 0 &&
                            other->offset % ZR_DISK_ALIGN == 0;
        ZR_CHECK(other->space == ZR_SPACE_HOST || (other->space == ZR_SPACE_DEVICE && !own_memory), ZR_ERR_INTERNAL,
                 "step %d copies between disk and buffer %s in space %s", index, other->what,
                 zr_space_name(other->space));
        ZR_CHECK(blocks, ZR_ERR_INTERNAL, "step %d copies from or to disk, but not from the beginning of a block",
                 index);
    }
    const bool beside = step->stream == ZR_STREAM_FETCH || step->stream == ZR_STREAM_STORE;
    ZR_CHECK(wanted == ZR_STREAM_COPY ? !beside : step->stream == wanted, ZR_ERR_INTERNAL,
             "step %d is on stream %s, which is for copies %s disk", index, zr_stream_name(step->stream),
             step->stream == ZR_STREAM_FETCH   ? "from"
             : step->stream == ZR_STREAM_STORE ? "to"
                                               : "within memory, not with");
    return ZR_OK;
}

/* Check that the streams HOST and RETURN are used only on a device with its own memory. HOST may have only updates, and
 * RETURN only copies of their results to the device. */
static zr_status check_beside(const homes *h, int32_t index)
{
    const zr_step *step = &h->p->s->step[index];
    if (step->stream != ZR_STREAM_HOST && step->stream != ZR_STREAM_RETURN) return ZR_OK;
    const zr_use *use = &h->p->s->use[step->uses];
    const bool returns = step->kind == ZR_STEP_COPY && h->p->s->buffer[use[0].buffer].space == ZR_SPACE_HOST &&
                         h->p->s->buffer[use[1].buffer].space == ZR_SPACE_DEVICE;
    const bool known = step->stream == ZR_STREAM_HOST ? step->kind == ZR_STEP_UPDATE : returns;
    ZR_CHECK(known && h->p->plan->profile.facts.own_memory, ZR_ERR_INTERNAL, "step %d is not for stream %s", index,
             zr_stream_name(step->stream));
    return ZR_OK;
}

/* Check that the model states with which a step computes are on the device. Only results may be in host memory.
 * (check_update checks updates, which may compute in host memory.) */
static zr_status check_computes(const homes *h, int32_t index)
{
    const zr_step *step = &h->p->s->step[index];
    if (!zr__computes(step)) return ZR_OK;
    for (int32_t u = step->uses; u < step->uses + step->n_uses; u++) {
        if (!is_off_device(h, h->p->s->use[u].buffer)) continue;
        const zr_buffer *b = &h->p->s->buffer[h->p->s->use[u].buffer];
        ZR_CHECK(
            b->category != ZR_CATEGORY_PARAM && b->category != ZR_CATEGORY_GRAD && b->category != ZR_CATEGORY_OPTIM,
            ZR_ERR_INTERNAL, "step %d computes with buffer %s in space %s", index, b->what, zr_space_name(b->space));
    }
    return ZR_OK;
}

/* Check that SAVE writes this rank's shard of the state named by the step, from the state's home or from a copy. */
static zr_status check_save(const homes *h, int32_t index)
{
    const zr_step *step = &h->p->s->step[index];
    const zr_use *use = &h->p->s->use[step->uses];
    const zr_plan_unit *u = &h->p->plan->unit[step->unit];
    const zr_state *kept = saved_state(u, 1 + step->slot);
    ZR_CHECK(kept->buffer != ZR_NONE, ZR_ERR_INTERNAL, "step %d saves a state that unit %d does not have", index,
             step->unit);
    const copied *its = &h->held[use->buffer];
    const zr_range *range = step->slot < ZR_SLOT_ERROR ? &u->own : &kept->range;
    bool there = use->buffer == kept->buffer && zr__names(h->p->plan, use, &kept->range, range);
    there |= its->when == step->when && holds(h, use, kept->buffer, &u->own);
    ZR_CHECK(there, ZR_ERR_INTERNAL, "step %d saves buffer %s, which is not the own shard of the state that it names",
             index, h->p->s->buffer[use->buffer].what);
    bool *saved = &h->saved[(int64_t)step->unit * SAVED];
    /* no update waits for the save of parameters that ops read, but for saves that follow it on the stream */
    bool behind = step->slot != ZR_SLOT_SENT;
    for (int i = 0; i <= ZR_OPTIMIZER_SLOTS; i++) behind |= saved_state(u, i)->buffer != ZR_NONE && !saved[i];
    ZR_CHECK(behind, ZR_ERR_INTERNAL, "step %d saves parameters that ops read, but no other state of its unit follows",
             index);
    saved[1 + step->slot] = true;
    return ZR_OK;
}

static zr_status check_step_homes(const homes *h, int32_t i)
{
    const zr_step *step = &h->p->s->step[i];
    int first = 0; /* number of leading uses of the step that are already checked */
    if (step->when == ZR_WHEN_SAVE || step->kind == ZR_STEP_SAVE) {
        const bool known = (step->kind == ZR_STEP_SAVE || step->kind == ZR_STEP_COPY) && step->when == ZR_WHEN_SAVE &&
                           step->unit >= 0 && h->p->s->use[step->uses].buffer >= 0;
        ZR_CHECK(known && step->slot >= -1 && 1 + step->slot < SAVED, ZR_ERR_INTERNAL, "step %d saves no state", i);
        if (step->kind == ZR_STEP_SAVE) ZR_TRY(check_save(h, i));
    }
    ZR_TRY(check_disk(h, i));
    ZR_TRY(check_beside(h, i));
    if (step->kind == ZR_STEP_COPY) return check_state_copy(h, i);
    if (step->kind == ZR_STEP_UPDATE) return check_update(h, i);
    if (step->kind == ZR_STEP_SQUARE_UPDATE) return check_square_update(h, i);
    if (step->kind == ZR_STEP_DIRECTION) return check_direction(h, i);
    if (step->kind == ZR_STEP_CAST) {
        ZR_TRY(check_cast(h, i));
        first = 1;
    }
    bool sums = false;
    ZR_TRY(check_sums_off(h, i, &sums));
    ZR_TRY(check_computes(h, i));
    if (sums) return ZR_OK;
    for (int32_t u = step->uses + first; u < step->uses + step->n_uses; u++)
        if (h->p->s->use[u].buffer != ZR_NONE && h->p->s->use[u].writes)
            ZR_TRY(note_written(h, i, h->p->s->use[u].buffer));
    return ZR_OK;
}

/* Check that a schedule with SAVE steps saves every state. Any other schedule must have no ZR_WHEN_SAVE step. */
static zr_status check_saves(const homes *h)
{
    const zr__proof *p = h->p;
    const bool saves = p->kind == ZR_SCHEDULE_TRAIN && p->plan->save != ZR_SAVE_NONE;
    ZR_CHECK(saves || !p->has_when[ZR_WHEN_SAVE], ZR_ERR_INTERNAL,
             "a step runs only when states are saved, but this plan saves none");
    for (int64_t i = 0; saves && i < (int64_t)p->plan->n_units * SAVED; i++) {
        const int32_t unit = (int32_t)(i / SAVED), number = (int32_t)(i % SAVED);
        const zr_plan_unit *u = &p->plan->unit[unit];
        const bool trained = zr__trains(p, unit), there = saved_state(u, number)->buffer != ZR_NONE;
        const bool kept = number == 0 ? trained || u->owned : trained && there;
        ZR_CHECK(h->saved[i] || u->own.count == 0 || !kept, ZR_ERR_INTERNAL, "a state of unit %d is not saved", unit);
    }
    return ZR_OK;
}

zr_status zr__check_homes(const zr__proof *p)
{
    const int32_t n = p->s->n_buffers;
    const size_t states = (size_t)p->plan->n_units * SAVED;
    int32_t n_open = 0;
    ZR_AUTO_FREE copied *held = zr_alloc(sizeof *held * (size_t)(n + 1));
    ZR_AUTO_FREE int64_t *writes = zr_alloc(sizeof *writes * (size_t)(n + 1));
    ZR_AUTO_FREE int32_t *unit_of = zr_alloc(sizeof *unit_of * 2 * (size_t)(n + 1));
    ZR_AUTO_FREE bool *saved = zr_alloc(states + 1);
    ZR_CHECK(held && writes && unit_of && saved, ZR_ERR_MEMORY, "no memory to check %d buffers", n);
    homes h = {p, held, writes, unit_of, unit_of + n + 1, &n_open, saved};
    for (int32_t b = 0; b < n; b++) h.held[b].state = h.unit[b] = -1;
    for (int32_t u = 0; u < p->plan->n_units; u++) {
        const zr_plan_unit *unit = &p->plan->unit[u];
        for (int i = 0; i < STATES; i++) {
            const int32_t b = kept_state(unit, i)->buffer;
            if (b != ZR_NONE) h.unit[b] = u;
        }
        if (is_off_device(&h, unit->param.buffer)) h.unit[unit->param.buffer] = u;
        if (!is_off_device(&h, unit->sums.buffer)) continue;
        h.unit[unit->sums.buffer] = u;
        for (int32_t i = 0; i < unit->n_open_sums; i++) h.unit[unit->open_sums + i] = u;
    }
    for (int32_t i = 0; i < p->s->n_steps; i++) {
        const zr_step *step = &p->s->step[i];
        const zr_plan_unit *unit = step->unit >= 0 ? &p->plan->unit[step->unit] : NULL;
        const bool on_host = step->kind == ZR_STEP_UPDATE && step->stream == ZR_STREAM_HOST;
        if (on_host && unit->param.buffer != ZR_NONE) h.unit[unit->param.buffer] = step->unit;
    }
    for (int32_t i = 0; i < p->s->n_steps; i++) {
        ZR_TRY(check_step_homes(&h, i));
        const zr_step *step = &p->s->step[i];
        for (int32_t u = step->uses; u < step->uses + step->n_uses; u++)
            if (p->s->use[u].buffer != ZR_NONE && p->s->use[u].writes) h.writes[p->s->use[u].buffer]++;
    }
    for (int32_t b = 0; b < n; b++)
        ZR_CHECK(!h.held[b].changed, ZR_ERR_INTERNAL, "an update's result in buffer %s does not go home",
                 p->s->buffer[b].what);
    return check_saves(&h);
}
