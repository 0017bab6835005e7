/* The policy of asynchronous saves during a training step. The stream SAVE writes a rank's shards of the states to the
 * checkpoint, from their own buffers or from copies. An update writes to the same buffers, so it waits until its
 * states are saved or copied. */
#include "base/core/scope.h"
#include "plan/cost/cost.h"
#include "plan/policy/policy.h"

/* Numbers of states, 1 + zr_step.slot: 0 for a unit's parameters, 1 and higher for the states of all optimizers, SENT
 * for the parameters that ops read, and ERRORS and higher for the errors of its gradient. */
enum { SENT = 1 + ZR_SLOT_SENT, ERRORS = 1 + ZR_SLOT_ERROR, STATES = ERRORS + ZR_ERROR_LEVELS };

static const zr_state *saved_state_of(const zr_plan_unit *u, int state)
{
    if (state >= ERRORS) return &u->error[state - ERRORS];
    if (state == SENT) return &u->param;
    if (state > 0) return &u->slot[state - 1 - u->first_slot];
    return u->master.buffer != ZR_NONE ? &u->master : &u->param;
}

/* Return whether a state of a unit is saved by this role. A frozen unit has only parameters. */
static bool is_saved(const zr_plan_unit *u, int state)
{
    if (u->elems == 0 || !u->owned) return false;
    if (state == 0 || !u->trains) return state == 0;
    if (state == SENT) return u->differs;
    if (state > SENT) return saved_state_of(u, state)->buffer != ZR_NONE;
    return state > u->first_slot && state <= u->first_slot + u->n_slots;
}

/* Return whether a state is saved from a copy. A frozen unit needs no copy, since no update waits for its save. A copy
 * of errors would be as large as all gradients. */
static bool is_copied(const zr_plan *plan, const zr_plan_unit *u, int state)
{
    return plan->save == ZR_SAVE_COPY && u->trains && state < ERRORS && is_saved(u, state);
}

/* Return the copy of a state that is saved in its place. Copies of a unit's states follow each other. */
static zr_state copy_of(const zr_plan_unit *u, int state)
{
    const int index = state == SENT ? 1 + u->n_slots : state > 0 ? state - u->first_slot : 0;
    return (zr_state){u->saved + index, saved_state_of(u, state)->dtype, u->own};
}

static zr_status check_save_trains(const zr_layout *l)
{
    ZR_CHECK(l->save == ZR_SAVE_NONE || l->train, ZR_ERR_CONFIG,
             "zr_layout.save without zr_layout.train: states are saved behind a training step");
    return ZR_OK;
}

static zr_status add_save_buffers(zr_plan *plan)
{
    plan->save = plan->layout.save;
    plan->saving = ZR_NONE;
    bool in_place = plan->save == ZR_SAVE_IN_PLACE;
    for (int32_t i = 0; plan->save == ZR_SAVE_COPY && i < plan->n_units; i++) {
        const zr_plan_unit *u = &plan->unit[i];
        plan->unit[i].saved = plan->n_persistent;
        for (int s = 0; s < STATES; s++) {
            if (!is_saved(u, s)) continue;
            const bool slot = s > 0 && s < SENT, copied = is_copied(plan, u, s);
            const zr_dtype dtype = saved_state_of(u, s)->dtype;
            int32_t index;
            in_place |= !copied || dtype != ZR_F32;
            if (copied)
                ZR_TRY(zr__plan_persistent(plan, ZR_SPACE_HOST, slot ? ZR_CATEGORY_OPTIM : ZR_CATEGORY_PARAM, i,
                                           "copy that is saved", zr_dtype_span(dtype, u->own.count), &index));
        }
    }
    if (!in_place) return ZR_OK;
    return zr__plan_persistent(plan, ZR_SPACE_HOST, ZR_CATEGORY_WORK, -1, "states that go out",
                               ZR_PASSING_ELEMS * (int64_t)sizeof(float), &plan->saving);
}

static void write_copy(zr__list *l, int32_t unit, int state)
{
    const zr_plan_unit *u = &l->plan->unit[unit];
    const zr_state copy = copy_of(u, state);
    (void)zr__list_copy(l, ZR_STREAM_COPY, unit, u->own, zr__use_state(saved_state_of(u, state), u->own, true, false),
                        zr__use_state(&copy, u->own, false, true));
}

static void write_save(zr__list *l, int32_t unit, int state)
{
    const zr_plan_unit *u = &l->plan->unit[unit];
    const bool copied = is_copied(l->plan, u, state);
    const zr_state copy = copied ? copy_of(u, state) : *saved_state_of(u, state);
    const zr_range range = state < ERRORS ? u->own : copy.range;
    zr__id step = zr__list_step(l, ZR_STEP_SAVE, ZR_STREAM_SAVE, unit);
    zr__list_newest(l)->range = range;
    zr__list_newest(l)->slot = state - 1;
    zr__list_use(l, step, zr__use_state(&copy, range, true, false));
    zr__list_use(l, step, zr__use_all(copied && copy.dtype == ZR_F32 ? ZR_NONE : l->plan->saving, true, true));
}

/* Write the copies of the states that are saved from a copy, then the SAVE steps, one state after the other. All are at
 * the beginning of a micro-batch, after the gathers of parameters that other ranks have updated. The last state comes
 * first: casts of the step wait for saves of errors, but not for copies; no update waits for a save of the parameters
 * that ops read, but for the saves behind it. */
static void write_saves(zr__list *l)
{
    const zr_plan *plan = l->plan;
    l->when = ZR_WHEN_SAVE;
    for (int s = STATES - 1; plan->save == ZR_SAVE_COPY && s >= 0; s--)
        for (int32_t i = 0; i < plan->n_units && l->status == ZR_OK; i++)
            if (is_copied(plan, &plan->unit[i], s)) write_copy(l, i, s);
    for (int s = STATES - 1; plan->save != ZR_SAVE_NONE && s >= 0; s--)
        for (int32_t i = 0; i < plan->n_units && l->status == ZR_OK; i++)
            if (is_saved(&plan->unit[i], s)) write_save(l, i, s);
    l->when = ZR_WHEN_ALWAYS;
}

/* Return whether a plan stores activation checkpoints at least as simply as another plan. Whole checkpoints are simpler
 * than pieces, and device memory is simpler than host memory. The plans may differ because policy auto chooses how
 * checkpoints are stored. */
static bool kept_as_simply(const zr_plan *plan, const zr_plan *other)
{
    return plan->partition_checkpoints <= other->partition_checkpoints &&
           plan->checkpoint_home <= other->checkpoint_home;
}

/* Choose between saving from copies and saving in place. Prefer copies if three conditions hold: they fit; they require
 * no more recompute than saving in place; and activation checkpoints stay whole and on the device. */
static zr_status choose_save(const zr_model *model, const zr_layout *layout, const zr_profile *profile, zr_plan **plan)
{
    zr_layout l = *layout;
    ZR_AUTO(zr_plan_destroy) zr_plan *in_place = NULL;
    ZR_AUTO(zr_plan_destroy) zr_plan *copy = NULL;
    /* A copy in memory of states on disk would use the memory that offloading to disk saves. */
    if (layout->home.optim == ZR_SPACE_DISK || layout->home.param == ZR_SPACE_DISK) {
        l.save = ZR_SAVE_IN_PLACE;
        return zr_plan_create(model, &l, profile, plan);
    }
    l.save = ZR_SAVE_COPY;
    ZR_TRY(zr_plan_create(model, &l, profile, &copy));
    /* zr__memory_taken counts the copies even if they are in host memory, whose size is unknown. Without a limit (0),
     * save in place. */
    bool fits = zr__memory_taken(&copy->memory) <= layout->limit_bytes;
    if (!fits || layout->recompute == ZR_RECOMPUTE_AUTO) {
        l.save = ZR_SAVE_IN_PLACE;
        ZR_TRY(zr_plan_create(model, &l, profile, &in_place));
        fits = fits && copy->flops_hardware <= in_place->flops_hardware && kept_as_simply(copy, in_place);
    }
    *plan = fits ? ZR_TAKE(copy) : ZR_TAKE(in_place);
    return ZR_OK;
}

static bool leaves_save_open(const zr_layout *l)
{
    return l->save == ZR_SAVE_AUTO;
}

const zr__policy zr__policy_save = {.check = check_save_trains,
                                    .chooses = leaves_save_open,
                                    .create = choose_save,
                                    .add_buffers = add_save_buffers,
                                    .round = write_saves};
