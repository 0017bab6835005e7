/* A made-up policy: when a micro-batch's gradient of a unit is finished, it is copied to host memory, by a kind of step
 * and on a stream that only this build has (rows.sh). Only this build also has the axis TEAM. */
#include "made_up/echo.h"

bool made_up_echoes;
int32_t made_up_teams = 1, made_up_near = -1, made_up_lacked = -1;

static zr_status add_buffers(zr_plan *plan)
{
    for (int32_t i = 0; made_up_echoes && i < plan->n_units; i++) {
        int32_t index;
        const int64_t bytes = zr_dtype_span(plan->layout.wire_dtype, plan->unit[i].padded_elems);
        ZR_TRY(zr__plan_persistent(plan, ZR_SPACE_HOST, ZR_CATEGORY_GRAD, i, MADE_UP_ECHO, bytes, &index));
    }
    return ZR_OK;
}

int32_t made_up_echo_of(const zr_plan *plan, int32_t unit)
{
    for (int32_t b = 0; b < plan->n_persistent; b++)
        if (strcmp(plan->persistent[b].what, MADE_UP_ECHO) == 0 && plan->persistent[b].unit == unit) return b;
    return ZR_NONE;
}

static void gradient(zr__list *l, int32_t unit, const zr_state *gradient)
{
    if (!made_up_echoes) return;
    const zr_range all = {.count = l->plan->unit[unit].padded_elems};
    const zr_state echo = {made_up_echo_of(l->plan, unit), gradient->dtype, all};
    zr__id step = zr__list_step(l, ZR_STEP_ECHO, ZR_STREAM_SIDE, unit);
    zr__list_newest(l)->range = all;
    zr__list_use(l, step, zr__use_state(gradient, all, true, false));
    zr__list_use(l, step, zr__use_state(&echo, all, false, true));
}

const zr__policy zr__policy_echo = {.add_buffers = add_buffers, .gradient = gradient};
