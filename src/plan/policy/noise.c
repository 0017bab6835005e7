/* The policy of the gradient noise scale (McCandlish et al. 2018). It computes the squared norm of each micro-batch's
 * own gradient before a reduction may overwrite this gradient with sums over ranks. The step NORM sends the sum of a
 * rank's squared norms to all ranks, together with NORM's other scalars. */
#include "plan/policy/policy.h"

static zr_status check_micro_gradients(const zr_layout *l)
{
    ZR_CHECK(
        !l->micro_squares || !l->train || l->ranks > 1 || l->accum > 1, ZR_ERR_CONFIG,
        "train.gradient_noise_scale with one micro-batch on one data-parallel rank a step: it compares the gradients "
        "of at least two micro-batches; set gradient_accumulation_steps to 2 or more, or use more ranks");
    return ZR_OK;
}

/* Return whether the plan computes the squared norm of a unit's gradient in each micro-batch. */
static bool is_taken(const zr_plan *plan, int32_t unit)
{
    return plan->layout.train && plan->layout.micro_squares && plan->unit[unit].trains;
}

static zr_status add_square_buffers(zr_plan *plan)
{
    for (int32_t i = 0; i < plan->n_units; i++) {
        plan->unit[i].micro_square = ZR_NONE;
        if (is_taken(plan, i))
            ZR_TRY(zr__plan_persistent(plan, ZR_SPACE_HOST, ZR_CATEGORY_WORK, i, "squares of micro-gradients",
                                       sizeof(zr_square), &plan->unit[i].micro_square));
    }
    return ZR_OK;
}

static void write_micro_square(zr__list *l, int32_t unit, const zr_state *gradient)
{
    const zr_plan_unit *u = &l->plan->unit[unit];
    if (!is_taken(l->plan, unit)) return;
    const zr_range all = {.count = u->padded_elems};
    zr__id step = zr__list_step(l, ZR_STEP_SQUARE_MICRO, ZR_STREAM_COMPUTE, unit);
    zr__list_newest(l)->range = all;
    zr__list_newest(l)->adds = true;
    zr__list_newest(l)->rank_free_sums = l->plan->layout.rank_free_sums;
    zr__list_use(l, step, zr__use_state(gradient, all, true, false));
    zr__list_use(l, step, zr__use_all(u->micro_square, true, true));
}

static void add_to_norm(zr__list *l, zr__id norm)
{
    const zr_layout *layout = &l->plan->layout;
    if (layout->micro_squares) zr__list_newest(l)->rounds = layout->ranks * layout->accum;
    for (int32_t u = 0; u < l->plan->n_units; u++)
        if (is_taken(l->plan, u)) zr__list_use(l, norm, zr__use_all(l->plan->unit[u].micro_square, true, false));
}

const zr__policy zr__policy_noise = {.check = check_micro_gradients,
                                     .add_buffers = add_square_buffers,
                                     .gradient = write_micro_square,
                                     .norm = add_to_norm};
