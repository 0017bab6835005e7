#include "cli/plan/profile.h"
#include "cli/plan/target.h"

#include "base/json/json.h"
#include "base/text/text.h"
#include "config/config.h"
#include "train/host/host.h"
#include "train/host/limits.h"

#include <stdio.h>
#include <math.h>

/* ---- device and rates ---------------------------------------------------------------------------- */

zr_status cli_target_profile(const char *name, cli_target *target)
{
    zr_cluster host;
    ZR_TRY(cli_profile(name, &target->profile));
    target->chooser = target->profile;
    /* If `name` is a file, the number of devices is unknown, and any number of ranks is allowed. A device alone is one
     * of a host, and a cluster's name tells its hosts. */
    if (zr__json_is_file_name(name)) return ZR_OK;
    if (zr_cluster_of_device(name, &host) == ZR_OK) {
        ZR_CHECK(host.processors || target->ranks <= host.host_devices, ZR_ERR_ARG,
                 "--profile %s is one host of %d devices, and there are %d ranks: give --cluster %s, which has a "
                 "network between hosts, or fewer ranks",
                 name, host.host_devices, target->ranks, host.name);
        return ZR_OK;
    }
    ZR_TRY(zr_cluster_read(name, &host));
    ZR_CHECK(host.any_hosts || target->ranks <= host.devices, ZR_ERR_ARG,
             "--profile %s has %d device%s, and there are %d ranks: give fewer ranks", name, host.devices,
             host.devices == 1 ? "" : "s", target->ranks);
    return ZR_OK;
}

void cli_target_efficiency(cli_target *target, double part)
{
    zr_machine *const machines[] = {&target->profile.machine, &target->chooser.machine};
    target->efficiency = part;
    for (int k = 0; k < 2; k++) {
        machines[k]->flops_f32 *= part;
        machines[k]->flops_bf16 *= part;
        machines[k]->flops_fp8 *= part;
        machines[k]->flops_fp4 *= part;
        for (int i = 0; i < machines[k]->n_products; i++) machines[k]->product[i].flops *= part;
    }
}

/* ---- limit and open keys -------------------------------------------------------------------------- */

/** Set the memory limit of a rank: memory.limit or, if not given, the memory of the device. On a cluster, the limit is
 * at most the device's memory. Policy auto always needs a limit. Without memory.limit it gets the limit of `zr train`
 * on this machine: the host's free memory, or the rank's share of the GPU. */
static zr_status settle_target_limit(zr_config *config, cli_target *t)
{
    const bool must = zr__train_lacks_limit(config);
    const int64_t device = t->simulated ? t->cluster.device.memory_bytes : t->profile.machine.memory_bytes;
    t->limit_bytes = config->memory.limit_bytes;
    if (must && (t->here || device == 0)) {
        t->limit_bytes = zr__train_limit(&t->profile, t->local_ranks, t->in_process);
        t->own_limit = t->limit_bytes > 0;
    }
    const bool lower = t->simulated && device > 0 && device < t->limit_bytes;
    if (lower && !must)
        ZR_TRY(zr__config_note(config, "memory.limit %s is more than a device of %s has; its %s are the limit",
                               ZR_SIZE((double)t->limit_bytes), t->cluster.name, ZR_SIZE((double)device)));
    if (t->limit_bytes == 0 || lower) t->limit_bytes = device;
    if (must || lower) config->memory.limit_bytes = t->limit_bytes; /* zr__train_choose and policy auto read this key */
    return ZR_OK;
}

zr_status cli_settle_place(zr_config *config, cli_target *target)
{
    const int32_t host = target->simulated ? target->cluster.host_devices : 0;
    const zr_launch *measured = target->simulated ? target->cluster.measured : NULL;
    if (config->parallel.ranks_per_host == 0 && host > 0 && host < target->ranks && target->ranks % host == 0)
        config->parallel.ranks_per_host = host;
    target->options.ranks_per_host = (int32_t)config->parallel.ranks_per_host;
    if (measured && measured->ranks != target->ranks)
        ZR_TRY(zr__config_note(
            config, "training steps of %d thread ranks were not measured; the steps of %d ranks are used instead",
            target->ranks, measured->ranks));
    return settle_target_limit(config, target);
}

zr__train_target cli_train_target(const cli_target *t)
{
    const bool gpu = t->here && t->profile.facts.own_memory;
    return (zr__train_target){.ranks = t->ranks,
                              .host_ranks = cli_host_ranks(t),
                              .disk_bytes = t->disk_bytes,
                              .any_disk = true,
                              .memory_bytes = t->limit_bytes,
                              .host_bytes = t->simulated ? t->host_bytes
                                            : gpu        ? zr__host_available_bytes()
                                                         : 0,
                              .profile = &t->profile,
                              .rates = &t->chooser,
                              .cluster = t->simulated ? &t->cluster : NULL,
                              .options = &t->options,
                              .trying = t->other.system ? cli_try_other : NULL,
                              .other = &t->other};
}

zr_status cli_settle(zr_config *config, cli_target *target, zr_config *asked, zr__choices *found)
{
    char chosen[ZR_TRAIN_NOTE_BYTES];
    ZR_TRY(cli_settle_place(config, target));
    if (asked) *asked = *config;
    zr__train_target where = cli_train_target(target);
    if (where.memory_bytes == 0 && target->here)
        where.memory_bytes = zr__train_limit(&target->profile, target->local_ranks, target->in_process);
    ZR_TRY(zr__train_choose(config, &where, (zr__train_kept){0}, found, chosen));
    if (chosen[0]) ZR_TRY(zr__config_note(config, "%s", chosen));
    const bool away = config->zero.optim.device != ZR_HOME_NONE || config->zero.param.device != ZR_HOME_NONE ||
                      config->recompute.cpu || config->recompute.offload != ZR_OFFLOAD_NONE;
    const bool saves = zr__train_saves_async(config), disk = saves || config->zero.optim.device == ZR_HOME_NVME ||
                                                             config->zero.param.device == ZR_HOME_NVME ||
                                                             config->recompute.offload == ZR_OFFLOAD_DISK;
    if (target->links[0]) ZR_TRY(zr__config_note(config, "%s", target->links));
    const char *assumed = target->assumed[disk];
    if (!assumed[0] || !(away || saves)) return ZR_OK;
    return zr__config_note(config, "assumed: %s", assumed);
}

/* ---- one trial ------------------------------------------------------------------------------------ */

int32_t cli_host_ranks(const cli_target *target)
{
    const int32_t given = target->options.ranks_per_host;
    return given > 0 ? given : target->simulated ? target->cluster.host_devices : target->local_ranks;
}

bool cli_target_computed(const cli_target *target)
{
    const bool measured = target->here || target->cluster.measured || target->profile.machine.n_products > 0;
    return target->profile.facts.own_memory && !measured;
}

zr_status cli_try(const cli_target *target, const zr_config *config, cli_trial *made, zr_plans *plans)
{
    zr__train_target where = cli_train_target(target);
    if (target->simulated) where.host_bytes = target->cluster.host_memory_bytes;
    return zr__try(&where, config, made, plans);
}

static double bubble_of(const cli_trial *made)
{
    const zr_price *price = &made->simulation.price;
    return price->step_sec > 0 ? price->bubble_sec / price->step_sec : 0;
}

void cli_pipeline_print(const char *head, const cli_trial *made, bool timed)
{
    if (made->roles == 1) return;
    printf("%srank %d of %d needs the most memory", head, made->fullest_role, made->roles);
    if (timed)
        printf("; rank %d computes longest and waits %.1f %% of a step for others", made->simulation.price.role,
               100 * bubble_of(made));
    if (isfinite(made->formula_bubble))
        printf(timed ? " (%.1f %% by the formula)" : "; bubble %.1f %% by the formula", 100 * made->formula_bubble);
    putchar('\n');
    if (made->copied.step_bytes > 0)
        printf("%sthe head's rank passes on %s of the table's gradient a micro-batch, and receives %s of its "
               "parameters a step\n",
               head, ZR_SIZE((double)made->copied.micro_bytes), ZR_SIZE((double)made->copied.step_bytes));
}

void cli_pipeline_json(zr__json_out *out, const cli_trial *made, bool timed)
{
    if (made->roles == 1) return;
    zr__json_open(out, "pipeline", '{');
    zr__json_add(out, "ranks", made->roles, "fullest_rank", made->fullest_role);
    zr__json_add(out, "bubble", timed ? bubble_of(made) : NAN, "formula_bubble", made->formula_bubble);
    if (made->copied.step_bytes > 0)
        zr__json_add(out, "tied_gradient_bytes", made->copied.micro_bytes, "tied_parameter_bytes",
                     made->copied.step_bytes);
    zr__json_close(out, '}');
}

double cli_days(double tokens, double step_tokens, double step_sec)
{
    return ceil(tokens / step_tokens) * step_sec / 86400;
}

/* ---- output -------------------------------------------------------------------------------------- */

zr_status cli_check_outputs(const zr_config *config, const char *svg)
{
    const char *inputs[ZR_CONFIG_INPUTS + 1];
    zr__config_inputs(config, inputs);
    ZR_TRY(cli_check_stdout(inputs));
    return svg ? zr__output_check(svg, &cli_svg_kind, inputs) : ZR_OK;
}
