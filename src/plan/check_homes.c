/*
 * Of the proof of a plan: what computes with a state of a unit has the elements that it names, from where the state is
 * kept or from a copy of them, and what an update has written to a copy goes back. Uses that conflict are in the order
 * of the list, as check_order.c has shown.
 */
#include "plan/check.h"

/* Elements of a state that a transient buffer holds, by buffer. */
typedef struct copied {
    int32_t state; /* buffer that keeps the state; -1: it holds none */
    int64_t first; /* of the step's range that it was copied for */
    bool changed;  /* by an update, and not gone home yet */
} copied;

static void add_strides(int64_t by[ZR_GROUPS_MAX], const zr_range *range, int sign)
{
    by[range->by.group] += sign * range->by.elems;
    by[range->outer.group] += sign * range->outer.elems;
}

bool zr__names(const zr_use *use, const zr_range *kept, const zr_range *wanted)
{
    int64_t by[ZR_GROUPS_MAX] = {0}; /* by how much that differs, for each place in a group */
    add_strides(by, wanted, 1);
    add_strides(by, kept, -1);
    add_strides(by, &use->range, -1);
    for (int g = 0; g < ZR_GROUPS_MAX; g++)
        if (by[g] != 0) return false;
    return use->range.count == wanted->count && use->range.first == wanted->first - kept->first;
}

/* A unit's state by its number: the master, the optimizer's. */
enum { STATES = 5 };
static const zr_state *state_of(const zr_plan_unit *u, int number)
{
    return number == 0 ? &u->master : &u->slot[number - 1];
}

static const zr_state *kept_by(const zr_plan_unit *u, int32_t buffer)
{
    for (int i = 0; i < STATES; i++)
        if (buffer != ZR_NONE && state_of(u, i)->buffer == buffer) return state_of(u, i);
    return NULL;
}

/* An operand is the state's elements of the step's range. */
static zr_status check_operand(const zr__proof *p, copied *held, int32_t index, const zr_use *use, const zr_state *kept)
{
    const zr_step *step = &p->s->step[index];
    if (use->buffer == ZR_NONE && kept->buffer == ZR_NONE) return ZR_OK;
    bool there = use->buffer == kept->buffer && zr__names(use, &kept->range, &step->range);
    if (!there && use->buffer >= p->plan->n_persistent) {
        copied *its = &held[use->buffer];
        const zr_range all = {.count = step->range.count};
        there = kept->buffer != ZR_NONE && its->state == kept->buffer && its->first == step->range.first &&
                zr__names(use, &(zr_range){0}, &all);
        its->changed |= use->writes;
    }
    ZR_CHECK(there, ZR_ERR_INTERNAL, "step %d computes with other elements of a state than it names", index);
    return ZR_OK;
}

/* A copy of a state to a transient buffer, or back. Others are none of this proof. */
static zr_status check_copy(const zr__proof *p, copied *held, int32_t index)
{
    const zr_step *step = &p->s->step[index];
    const zr_use *from = &p->s->use[step->uses], *to = from + 1;
    const zr_plan_unit *u = step->unit >= 0 ? &p->plan->unit[step->unit] : NULL;
    const zr_state *source = u ? kept_by(u, from->buffer) : NULL, *target = u ? kept_by(u, to->buffer) : NULL;
    const zr_range all = {.count = step->range.count};
    if (target) {
        copied *its = &held[from->buffer];
        const bool known = from->buffer >= p->plan->n_persistent && its->changed && its->state == to->buffer &&
                           its->first == step->range.first && zr__names(from, &(zr_range){0}, &all) &&
                           zr__names(to, &target->range, &step->range);
        ZR_CHECK(known, ZR_ERR_INTERNAL, "step %d copies to a state what is no update of these elements", index);
        its->changed = false;
    }
    if (to->buffer < p->plan->n_persistent) return ZR_OK;
    ZR_CHECK(!held[to->buffer].changed, ZR_ERR_INTERNAL, "step %d copies over an update that has not gone home", index);
    const bool fetched = source && zr__names(from, &source->range, &step->range) && zr__names(to, &(zr_range){0}, &all);
    held[to->buffer] = (copied){fetched ? from->buffer : -1, step->range.first, false};
    return ZR_OK;
}

/* The operands of an update: sums, master, the optimizer's states. */
static zr_status check_update(const zr__proof *p, copied *held, int32_t index)
{
    const zr_step *step = &p->s->step[index];
    const zr_use *use = &p->s->use[step->uses];
    const zr_plan_unit *u = &p->plan->unit[step->unit];
    for (int i = 0; i <= p->plan->optimizer.n_slots; i++)
        ZR_TRY(check_operand(p, held, index, &use[1 + i], state_of(u, i)));
    return ZR_OK;
}

static zr_status check_step(const zr__proof *p, copied *held, int32_t i)
{
    const zr_step *step = &p->s->step[i];
    if (step->kind == ZR_STEP_COPY) return check_copy(p, held, i);
    if (step->kind == ZR_STEP_UPDATE) return check_update(p, held, i);
    if (step->kind == ZR_STEP_CAST)
        return check_operand(p, held, i, &p->s->use[step->uses], &p->plan->unit[step->unit].master);
    for (int32_t u = step->uses; u < step->uses + step->n_uses; u++) {
        const zr_use *use = &p->s->use[u];
        if (use->buffer == ZR_NONE || !use->writes) continue;
        ZR_CHECK(!held[use->buffer].changed, ZR_ERR_INTERNAL, "step %d writes over an update that has not gone home",
                 i);
        held[use->buffer].state = -1;
    }
    return ZR_OK;
}

zr_status zr__check_homes(const zr__proof *p)
{
    const int32_t n = p->s->n_buffers;
    copied *held = zr_alloc(sizeof *held * (size_t)(n + 1));
    zr_status st = held ? ZR_OK : ZR_FAIL(ZR_ERR_MEMORY, "no memory to check %d buffers", n);
    for (int32_t b = 0; b < n && st == ZR_OK; b++) held[b].state = -1;
    for (int32_t i = 0; i < p->s->n_steps && st == ZR_OK; i++) st = check_step(p, held, i);
    for (int32_t b = 0; b < n && st == ZR_OK; b++)
        if (held[b].changed)
            st = ZR_FAIL(ZR_ERR_INTERNAL, "what an update has written to buffer %s does not go home",
                         p->s->buffer[b].what);
    zr_free(held);
    return st;
}
