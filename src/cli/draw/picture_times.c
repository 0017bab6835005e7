/* Begin and end of each step in the picture of a plan, computed from a machine's rates or by simulating a cluster. */
#include "base/core/core.h"
#include "base/paths/output.h"
#include "cli/draw/picture.h"
#include "cli/plan/target.h"
#include "config/config.h"
#include "train/setup/setup.h"
#include "zr/simulate.h"

#include <string.h>

/** Make room for the times of all roles. */
static zr_status make_room(const zr_plans *plans, cli_times *times)
{
    for (int32_t r = 0; r < plans->n; r++) {
        const size_t steps = (size_t)plans->role[r]->schedule[ZR_SCHEDULE_TRAIN].n_steps + 1;
        times->time[r] = zr_alloc(steps * sizeof(zr_step_time));
        ZR_CHECK(times->time[r], ZR_ERR_MEMORY, "no memory for the times of a plan's steps");
    }
    return ZR_OK;
}

zr_status cli_times_make(const zr_plans *plans, const zr_profile *profile, cli_times *times)
{
    const zr_plan *plan = plans->role[0];
    const zr_machine *m = &profile->machine;
    const bool narrow = plan->layout.dtype != ZR_F32 && m->flops_bf16 > 0;
    const bool link = plan->layout.ranks == 1 || zr__machine_link(m).bytes_sec > 0;
    const bool known = (narrow ? m->flops_bf16 : m->flops_f32) > 0 && m->memory_bytes_sec > 0 && link;
    *times = (cli_times){.by = profile->facts.name};
    if (!known) return ZR_OK;
    ZR_TRY(zr_plans_price(plans, profile, &times->price));
    ZR_TRY(make_room(plans, times));
    return zr_plans_times(plans, profile, times->time);
}

void cli_times_clear(cli_times *times)
{
    for (int32_t r = 0; r < ZR_ROLES; r++) {
        zr_free(times->time[r]);
        times->time[r] = NULL;
    }
}

/** Return the bytes of a rank's model states at stage 0, or 0 if unknown. Plan without recomputation, which does not
 * change the model states. */
static int64_t whole_states_bytes(const zr_config *config, int ranks, const zr_profile *profile)
{
    ZR_AUTO(zr_plan_destroy) zr_plan *whole = NULL;
    zr_layout layout = zr__train_layout(config, ranks);
    layout.stage = 0;
    layout.recompute = ZR_RECOMPUTE_NONE;
    layout.partition_checkpoints = false;
    layout.shard_ranks = layout.hpz_ranks = 0;
    layout.home = (zr_homes){.param_share = 1, .optim_share = 1}; /* without offload */
    return zr__train_plan_layout(config, &layout, profile, &whole) == ZR_OK ? whole->memory.states_bytes : 0;
}

/** Compute the begin and end of each step of all roles. Free the times with cli_times_clear. */
static zr_status times_on(const cli_target *target, const zr_plans *plans, cli_times *times)
{
    zr_simulation simulation;
    if (!target->simulated) return cli_times_make(plans, &target->profile, times);
    *times = (cli_times){.by = target->cluster.name};
    ZR_TRY(make_room(plans, times));
    ZR_TRY(zr_simulate(plans, &target->cluster, &target->options, &simulation, times->time));
    times->price = simulation.price;
    return ZR_OK;
}

zr_status cli_target_picture(const cli_target *target, const zr_config *config, const zr_plans *plans,
                             const char *model, char **picture)
{
    ZR_AUTO(cli_times_clear) cli_times times = {0};
    ZR_TRY(times_on(target, plans, &times));
    return cli_picture_draw(plans, &times, model, whole_states_bytes(config, target->ranks, &target->profile), picture);
}

zr_status cli_target_draw(const cli_target *target, const zr_config *config, const zr_plans *plans, const char *model,
                          const char *svg)
{
    const char *inputs[ZR_CONFIG_INPUTS + 1];
    ZR_AUTO(svg_page_free) char *picture = NULL;
    zr__config_inputs(config, inputs);
    ZR_TRY(cli_target_picture(target, config, plans, model, &picture));
    return zr__output_write(svg, &cli_svg_kind, inputs, picture, strlen(picture));
}
