/* The policy of asynchronous saves during a training step. The stream SAVE writes a rank's shards of the states to the
 * checkpoint, from their own buffers or from copies. An update writes to the same buffers, so it waits until its
 * states are saved or copied. */
#include "base/core/scope.h"
#include "plan/cost/cost.h"
#include "plan/policy/policy.h"

/* Return the number of states of a unit that this role saves: its parameters, and its optimizer's states. A frozen unit
 * has no optimizer states. */
static int n_states(const zr_plan_unit *u)
{
    return u->elems == 0 || !u->owned ? 0 : u->trains ? 1 + u->n_slots : 1;
}

/* Return whether a unit's states are saved from a copy. A frozen unit needs no copy, since no update waits for its
 * save. */
static bool is_copied(const zr_plan *plan, const zr_plan_unit *u)
{
    return plan->save == ZR_SAVE_COPY && u->trains;
}

/* Return the fp32 state that is saved under a number: 0 for the unit's parameters, 1 and higher for the optimizer
 * states. */
static const zr_state *saved_state_of(const zr_plan_unit *u, int state)
{
    if (state > 0) return &u->slot[state - 1];
    return u->master.buffer != ZR_NONE ? &u->master : &u->param;
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
        in_place |= !is_copied(plan, u) && n_states(u) > 0;
        plan->unit[i].saved = plan->n_persistent;
        for (int s = 0; is_copied(plan, u) && s < n_states(u); s++) {
            zr_category category = s == 0 ? ZR_CATEGORY_PARAM : ZR_CATEGORY_OPTIM;
            int32_t index;
            ZR_TRY(
                zr__plan_persistent(plan, ZR_SPACE_HOST, category, i, "copy that is saved", 4 * u->own.count, &index));
        }
    }
    if (!in_place) return ZR_OK;
    return zr__plan_persistent(plan, ZR_SPACE_HOST, ZR_CATEGORY_WORK, -1, "states that go out",
                               ZR_PASSING_ELEMS * (int64_t)sizeof(float), &plan->saving);
}

static void write_copy(zr__list *l, int32_t unit, int state)
{
    const zr_plan_unit *u = &l->plan->unit[unit];
    const zr_state copy = {u->saved + state, ZR_F32, u->own};
    (void)zr__list_copy(l, ZR_STREAM_COPY, unit, u->own, zr__use_state(saved_state_of(u, state), u->own, true, false),
                        zr__use_state(&copy, u->own, false, true));
}

static void write_save(zr__list *l, int32_t unit, int state)
{
    const zr_plan_unit *u = &l->plan->unit[unit];
    const bool copied = is_copied(l->plan, u);
    const zr_state copy = {u->saved + state, ZR_F32, u->own};
    zr__id step = zr__list_step(l, ZR_STEP_SAVE, ZR_STREAM_SAVE, unit);
    zr__list_newest(l)->range = u->own;
    zr__list_newest(l)->slot = state > 0 ? u->first_slot + state - 1 : -1;
    zr__list_use(l, step, zr__use_state(copied ? &copy : saved_state_of(u, state), u->own, true, false));
    zr__list_use(l, step, zr__use_all(copied ? ZR_NONE : l->plan->saving, true, true));
}

/* Write the copies of the states that are saved from a copy, then the SAVE steps, in the order of the checkpoint's
 * files. All are at the beginning of a micro-batch, after the gathers of parameters that other ranks have updated. */
static void write_saves(zr__list *l)
{
    const zr_plan *plan = l->plan;
    l->when = ZR_WHEN_SAVE;
    for (int pass = plan->save == ZR_SAVE_COPY ? 0 : 1; plan->save != ZR_SAVE_NONE && pass < 2; pass++)
        for (int s = 0; s <= plan->n_slots; s++)
            for (int32_t i = 0; i < plan->n_units && l->status == ZR_OK; i++) {
                const zr_plan_unit *u = &plan->unit[i];
                const int its = s > 0 ? s - u->first_slot : 0; /* number of the state in the unit */
                const bool has = its < n_states(u) && (s == 0 || its > 0);
                if (has && (pass == 1 || is_copied(plan, u))) (pass == 0 ? write_copy : write_save)(l, i, its);
            }
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
