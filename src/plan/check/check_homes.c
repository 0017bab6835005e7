/* Part of the proof of a plan: the buffers of model states. The home of a state is its own buffer, as opposed to a copy
 * on the device.
 *
 * A step that computes with a state must read the elements of its range on the device, from the home or from a copy. If
 * an update changes a copy, the copy must be copied home. No other step may write a state. A schedule that saves must
 * save every state, from its home or from a copy. check_order.c proves that conflicting uses happen in the order of the
 * list of steps. */
#include "plan/check/check.h"

/* A copy of a range of a state, in a buffer other than the state's home. */
typedef struct copied {
    int32_t state; /* home of the copied state, or -1 if the buffer holds no copy */
    zr_range range;
    zr_when when; /* rounds in which the step runs that makes the copy */
    bool changed; /* whether an update has changed the copy, and the change is not yet copied home */
} copied;

/* The state of this check. Arrays have one entry for each buffer unless noted. */
typedef struct homes {
    const zr__proof *p;
    copied *held;
    int32_t *unit; /* unit of the state whose home is this buffer, or -1 */
    bool *saved; /* saved[unit][1 + slot], as one array: whether a SAVE step saves this state; slot -1 is the parameters
                  */
} homes;

static void add_strides(int64_t by[ZR_GROUPS_MAX], const zr_range *range, int sign)
{
    by[range->by.group] += sign * range->by.elems;
    by[range->outer.group] += sign * range->outer.elems;
}

bool zr__names(const zr_use *use, const zr_range *kept, const zr_range *wanted)
{
    /* for each group: stride of `wanted` minus the strides of `kept` and of the use, in elements */
    int64_t by[ZR_GROUPS_MAX] = {0};
    add_strides(by, wanted, 1);
    add_strides(by, kept, -1);
    add_strides(by, &use->range, -1);
    for (int g = 0; g < ZR_GROUPS_MAX; g++)
        if (by[g] != 0) return false;
    return use->range.count == wanted->count && use->range.first == wanted->first - kept->first;
}

/* number of states of a unit: the master (0) and the optimizer states (1 to 4) */
enum { STATES = 5 };
static const zr_state *kept_state(const zr_plan_unit *u, int number)
{
    return number == 0 ? &u->master : &u->slot[number - 1];
}

/* Return the fp32 state that is saved under a number. Number 0 is the master parameters, or the parameters themselves
 * if the unit has no master. Numbers 1 to 4 are the optimizer states. */
static const zr_state *saved_state(const zr_plan_unit *u, int number)
{
    return number == 0 && u->master.buffer == ZR_NONE ? &u->param : kept_state(u, number);
}

/* Return the state whose home is this buffer, or NULL. */
static const zr_state *kept_by(const homes *h, int32_t buffer)
{
    const int32_t unit = buffer == ZR_NONE ? -1 : h->unit[buffer];
    for (int i = 0; unit >= 0 && i < STATES; i++)
        if (kept_state(&h->p->plan->unit[unit], i)->buffer == buffer) return kept_state(&h->p->plan->unit[unit], i);
    return NULL;
}

static bool same_range(const zr_range *a, const zr_range *b)
{
    const zr_use use = {.range = *a};
    return zr__names(&use, &(zr_range){0}, b);
}

/* Return whether a use covers all elements of a copy of `range`. A copy begins at the first element of its buffer. */
static bool is_copy_of(const zr_use *use, const zr_range *range)
{
    const zr_range all = {.count = range->count};
    return same_range(&use->range, &all);
}

/* ---- steps ------------------------------------------------------------------------------------- */

/* Check that an operand is on the device, and that it holds exactly the elements of a state that the step's range
 * selects. */
static zr_status check_operand(const homes *h, int32_t index, const zr_use *use, const zr_state *kept, bool changes)
{
    const zr_step *step = &h->p->s->step[index];
    if (use->buffer == ZR_NONE && kept->buffer == ZR_NONE) return ZR_OK;
    bool there = use->buffer != ZR_NONE && kept->buffer != ZR_NONE && use->reads && use->writes == changes &&
                 h->p->s->buffer[use->buffer].space == ZR_SPACE_DEVICE;
    if (there && use->buffer == kept->buffer) {
        there = zr__names(use, &kept->range, &step->range);
    } else if (there) {
        copied *its = &h->held[use->buffer];
        there = its->state == kept->buffer && its->when == step->when && same_range(&its->range, &step->range) &&
                is_copy_of(use, &step->range);
        its->changed |= changes;
    }
    ZR_CHECK(there, ZR_ERR_INTERNAL, "step %d computes with other elements of a state than it names", index);
    return ZR_OK;
}

/* Check that a copy to a state's home moves all elements of a bucket that an update has changed. */
static zr_status check_home(const homes *h, int32_t index, const zr_state *target)
{
    const zr_step *step = &h->p->s->step[index];
    const zr_use *from = &h->p->s->use[step->uses], *to = from + 1;
    copied *its = &h->held[from->buffer];
    const bool known = its->changed && its->state == to->buffer && its->when == step->when &&
                       same_range(&its->range, &step->range) && is_copy_of(from, &step->range) && to->writes &&
                       zr__names(to, &target->range, &step->range) && step->unit == h->unit[to->buffer];
    ZR_CHECK(known, ZR_ERR_INTERNAL, "step %d copies elements to a state that no update has changed", index);
    its->changed = false;
    return ZR_OK;
}

static zr_status note_written(const homes *h, int32_t index, int32_t buffer)
{
    ZR_CHECK(!h->held[buffer].changed, ZR_ERR_INTERNAL, "step %d writes over an update that has not gone home", index);
    ZR_CHECK(h->unit[buffer] < 0, ZR_ERR_INTERNAL, "step %d writes a state of unit %d, but is no update of it", index,
             h->unit[buffer]);
    h->held[buffer].state = -1;
    return ZR_OK;
}

/* Check a copy of a state, from its home to another buffer or back. */
static zr_status check_state_copy(const homes *h, int32_t index)
{
    const zr_step *step = &h->p->s->step[index];
    const zr_use *from = &h->p->s->use[step->uses], *to = from + 1;
    const zr_state *source = kept_by(h, from->buffer), *target = kept_by(h, to->buffer);
    if (target) return check_home(h, index, target);
    ZR_TRY(note_written(h, index, to->buffer));
    if (step->when == ZR_WHEN_SAVE) {
        const zr_plan_unit *u = &h->p->plan->unit[step->unit];
        source = NULL;
        for (int i = 0; i <= h->p->plan->optimizer.n_slots && !source; i++)
            if (saved_state(u, i)->buffer == from->buffer) source = saved_state(u, i);
        ZR_CHECK(source && same_range(&step->range, &u->own) && zr__names(from, &source->range, &u->own) &&
                     is_copy_of(to, &u->own),
                 ZR_ERR_INTERNAL, "step %d copies something else than the own shard of a state", index);
    }
    if (source && zr__names(from, &source->range, &step->range) && is_copy_of(to, &step->range))
        h->held[to->buffer] = (copied){from->buffer, step->range, step->when, false};
    return ZR_OK;
}

/* Check that an update uses the same elements of the sums, the master, the optimizer states and the parameters. */
static zr_status check_update(const homes *h, int32_t index)
{
    const zr_step *step = &h->p->s->step[index];
    const zr_use *use = &h->p->s->use[step->uses];
    const zr_plan_unit *u = &h->p->plan->unit[step->unit];
    const int n_slots = h->p->plan->optimizer.n_slots;
    const zr_range whole = {.count = u->padded_elems};
    const zr_use *sums = &use[0], *param = &use[2 + n_slots];
    const bool summed = zr__names(sums, u->sums.buffer == ZR_NONE ? &whole : &u->sums.range, &step->range) &&
                        (u->sums.buffer == ZR_NONE || sums->buffer == u->sums.buffer);
    const bool written =
        param->buffer == u->param.buffer &&
        (param->buffer == ZR_NONE || (param->writes && zr__names(param, &u->param.range, &step->range)));
    ZR_CHECK(summed && written && step->when == ZR_WHEN_ALWAYS, ZR_ERR_INTERNAL,
             "step %d updates other elements of parameters than it names, or by other sums", index);
    for (int i = 0; i <= n_slots; i++) ZR_TRY(check_operand(h, index, &use[1 + i], kept_state(u, i), true));
    return u->param.buffer == ZR_NONE ? ZR_OK : note_written(h, index, u->param.buffer);
}

/* Check that SAVE writes this rank's shard of the state that the step names, from its home or from a copy. */
static zr_status check_save(const homes *h, int32_t index)
{
    const zr_step *step = &h->p->s->step[index];
    const zr_use *use = &h->p->s->use[step->uses];
    const zr_plan_unit *u = &h->p->plan->unit[step->unit];
    const zr_state *kept = saved_state(u, 1 + step->slot);
    const copied *its = &h->held[use->buffer];
    bool there = use->buffer == kept->buffer && zr__names(use, &kept->range, &u->own);
    there |= its->state == kept->buffer && its->when == step->when && same_range(&its->range, &u->own) &&
             is_copy_of(use, &u->own);
    ZR_CHECK(there, ZR_ERR_INTERNAL, "step %d saves buffer %s, which is not the own shard of the state that it names",
             index, h->p->s->buffer[use->buffer].what);
    h->saved[(int64_t)step->unit * (1 + h->p->plan->optimizer.n_slots) + 1 + step->slot] = true;
    return ZR_OK;
}

static zr_status check_step_homes(const homes *h, int32_t i)
{
    const zr_step *step = &h->p->s->step[i];
    int first = 0; /* number of operands, at the beginning of the step's uses, that are already checked */
    if (step->when == ZR_WHEN_SAVE || step->kind == ZR_STEP_SAVE) {
        const bool known = (step->kind == ZR_STEP_SAVE || step->kind == ZR_STEP_COPY) && step->when == ZR_WHEN_SAVE &&
                           step->unit >= 0 && h->p->s->use[step->uses].buffer >= 0;
        ZR_CHECK(known && step->slot >= -1 && step->slot < h->p->plan->optimizer.n_slots, ZR_ERR_INTERNAL,
                 "step %d saves no state", i);
        if (step->kind == ZR_STEP_SAVE) ZR_TRY(check_save(h, i));
    }
    if (step->kind == ZR_STEP_COPY) return check_state_copy(h, i);
    if (step->kind == ZR_STEP_UPDATE) return check_update(h, i);
    if (step->kind == ZR_STEP_CAST) {
        ZR_TRY(check_operand(h, i, &h->p->s->use[step->uses], &h->p->plan->unit[step->unit].master, false));
        first = 1;
    }
    for (int32_t u = step->uses + first; u < step->uses + step->n_uses; u++)
        if (h->p->s->use[u].buffer != ZR_NONE && h->p->s->use[u].writes)
            ZR_TRY(note_written(h, i, h->p->s->use[u].buffer));
    return ZR_OK;
}

/* Check that a schedule which saves states saves every state. Any other schedule must have no ZR_WHEN_SAVE step. */
static zr_status check_saves(const homes *h)
{
    const zr__proof *p = h->p;
    const int states = 1 + p->plan->optimizer.n_slots;
    const bool saves = p->kind == ZR_SCHEDULE_TRAIN && p->plan->save != ZR_SAVE_NONE;
    ZR_CHECK(saves || !p->has_when[ZR_WHEN_SAVE], ZR_ERR_INTERNAL,
             "a step runs only when states are saved, but this plan saves none");
    for (int64_t i = 0; saves && i < (int64_t)p->plan->n_units * states; i++) {
        const int32_t unit = (int32_t)(i / states);
        const bool kept = i % states == 0 || !zr_graph_unit_info(p->graph, unit)->frozen;
        ZR_CHECK(h->saved[i] || p->plan->unit[unit].own.count == 0 || !kept, ZR_ERR_INTERNAL,
                 "a state of unit %d is not saved", unit);
    }
    return ZR_OK;
}

zr_status zr__check_homes(const zr__proof *p)
{
    const int32_t n = p->s->n_buffers;
    const size_t states = (size_t)p->plan->n_units * (size_t)(1 + p->plan->optimizer.n_slots);
    homes h = {p, zr_alloc(sizeof(copied) * (size_t)(n + 1)), zr_alloc(sizeof(int32_t) * (size_t)(n + 1)),
               zr_alloc(states + 1)};
    zr_status st = h.held && h.unit && h.saved ? ZR_OK : ZR_FAIL(ZR_ERR_MEMORY, "no memory to check %d buffers", n);
    for (int32_t b = 0; b < n && st == ZR_OK; b++) h.held[b].state = h.unit[b] = -1;
    for (int32_t u = 0; u < p->plan->n_units && st == ZR_OK; u++)
        for (int i = 0; i < STATES; i++) {
            const int32_t b = kept_state(&p->plan->unit[u], i)->buffer;
            if (b != ZR_NONE) h.unit[b] = u;
        }
    for (int32_t i = 0; i < p->s->n_steps && st == ZR_OK; i++) st = check_step_homes(&h, i);
    for (int32_t b = 0; b < n && st == ZR_OK; b++)
        if (h.held[b].changed)
            st = ZR_FAIL(ZR_ERR_INTERNAL, "an update's result in buffer %s does not go home", p->s->buffer[b].what);
    if (st == ZR_OK) st = check_saves(&h);
    zr_free(h.held);
    zr_free(h.unit);
    zr_free(h.saved);
    return st;
}
