#include "cli/plan/target.h"
#include "config/config.h"
#include "plan/cost/cost.h"
#include "train/dir/report.h"
#include "train/host/limits.h"
#include "train/setup/setup.h"

#include <math.h>
#include <stdarg.h>

/* ---- device and rates ---------------------------------------------------------------------------- */

zr_status cli_target_profile(const char *name, cli_target *target)
{
    zr_cluster host;
    ZR_TRY(cli_profile(name, &target->profile));
    target->chooser = target->profile;
    if (zr_cluster_of_device(name, &host) != ZR_OK) return ZR_OK; /* a file does not say how many devices a host has */
    ZR_CHECK(target->ranks <= host.host_devices, ZR_ERR_ARG,
             "--profile %s is one host of %d devices, and there are %d ranks: give --cluster %s, which has a network "
             "between hosts, or fewer ranks",
             name, host.host_devices, target->ranks, host.name);
    return ZR_OK;
}

/** Scale the FLOP/s: no product reaches the peak of a data sheet. */
static void take_part(zr_machine *machine, double part)
{
    machine->flops_f32 *= part;
    machine->flops_bf16 *= part;
    for (int i = 0; i < machine->n_products; i++) machine->product[i].flops *= part;
}

void cli_target_efficiency(cli_target *target, double part)
{
    target->efficiency = part;
    take_part(&target->profile.machine, part);
    take_part(&target->chooser.machine, part);
}

/* ---- limit and open keys -------------------------------------------------------------------------- */

static zr_status note(zr_config *config, const char *format, ...) ZR_PRINTF(2, 3);

static zr_status note(zr_config *config, const char *format, ...)
{
    char text[ZR_TRAIN_NOTE_BYTES];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    return zr__config_add_note(config, text);
}

/** Settle the limit: the smaller of a given limit and the memory of a cluster's device; without both, the profile's
 * memory. Policy auto, which needs a limit, takes on this machine the limit of `zr train`: the host's free memory, or
 * its share of the GPU. */
static zr_status settle_limit(zr_config *config, cli_target *t)
{
    char given[32], has[32];
    const bool must = config->recompute.policy == ZR_POLICY_AUTO && config->memory.limit_bytes == 0;
    const int64_t device = t->simulated ? t->cluster.device.memory_bytes : t->profile.machine.memory_bytes;
    t->limit_bytes = config->memory.limit_bytes;
    if (must && (t->here || device == 0)) {
        t->limit_bytes = zr__train_limit(&t->profile, t->local_ranks, t->in_process);
        t->own_limit = t->limit_bytes > 0;
    }
    const bool lower = t->simulated && device > 0 && device < t->limit_bytes;
    if (lower && !must)
        ZR_TRY(note(config, "memory.limit %s is more than a device of %s has; its %s are the limit",
                    cli_bytes((double)t->limit_bytes, given), t->cluster.name, cli_bytes((double)device, has)));
    if (t->limit_bytes == 0 || lower) t->limit_bytes = device;
    if (must || lower) config->memory.limit_bytes = t->limit_bytes; /* zr__train_choose and policy auto read it there */
    return ZR_OK;
}

/** Note that measured training steps of another number of ranks are used. */
static zr_status note_ranks(zr_config *config, const cli_target *t)
{
    const zr_launch *measured = t->simulated ? t->cluster.measured : NULL;
    if (!measured || measured->ranks == t->ranks) return ZR_OK;
    return note(config, "training steps of %d thread ranks were not measured; those of %d stand in", t->ranks,
                measured->ranks);
}

zr_status cli_settle_place(zr_config *config, cli_target *target)
{
    const int32_t host = target->simulated ? target->cluster.host_devices : 0;
    if (config->parallel.ranks_per_host == 0 && host > 0 && host < target->ranks && target->ranks % host == 0)
        config->parallel.ranks_per_host = host;
    target->options.ranks_per_host = (int32_t)config->parallel.ranks_per_host;
    ZR_TRY(note_ranks(config, target));
    ZR_TRY(settle_limit(config, target));
    return ZR_OK;
}

/** Price a plan on the cluster, for zr__train_choose. */
static zr_status price(void *arg, const zr_plan *plan, zr_price *made)
{
    const cli_target *t = arg;
    zr_simulation simulation;
    ZR_TRY(zr_simulate(plan, &t->cluster, &t->options, &simulation, NULL));
    *made = simulation.price;
    return ZR_OK;
}

zr_status cli_settle(zr_config *config, cli_target *target)
{
    char chosen[ZR_TRAIN_NOTE_BYTES];
    ZR_TRY(cli_settle_place(config, target));
    const zr__train_target where = {
        .ranks = target->ranks, .profile = &target->chooser, .price = target->simulated ? price : NULL, .arg = target};
    ZR_TRY(zr__train_choose(config, &where, (zr__train_kept){0}, chosen));
    if (chosen[0]) ZR_TRY(note(config, "%s", chosen));
    return ZR_OK;
}

/* ---- one trial ------------------------------------------------------------------------------------ */

bool cli_refused(zr_status st)
{
    return st == ZR_ERR_CONFIG || st == ZR_ERR_UNSUPPORTED || st == ZR_ERR_SHAPE || st == ZR_ERR_ARG;
}

int32_t cli_host_ranks(const cli_target *target)
{
    const int32_t given = target->options.ranks_per_host;
    return given > 0 ? given : target->simulated ? target->cluster.host_devices : target->local_ranks;
}

/** Return the bytes that the ranks of a host take of its memory together. */
static int64_t host_bytes_of(const cli_target *t, const zr_plan *plan)
{
    const int32_t host = cli_host_ranks(t);
    return plan->memory.space[ZR_SPACE_HOST].total_bytes * (plan->ranks < host ? plan->ranks : host);
}

static bool fits(const cli_target *t, const cli_trial *made)
{
    const int64_t host = t->simulated ? t->cluster.host_memory_bytes : 0;
    return (t->limit_bytes == 0 || made->needs_bytes <= t->limit_bytes) && (host == 0 || made->host_bytes <= host);
}

static zr_status weigh(const cli_target *t, const zr_plan *plan, cli_trial *made)
{
    const zr_device_facts *facts = &plan->profile.facts;
    *made = (cli_trial){.report = zr__report_planned(plan),
                        .params = plan->params,
                        .needs_bytes = zr__rank_bytes(zr__memory_limited(&plan->memory, facts), facts)};
    if (t->simulated) {
        made->host_bytes = host_bytes_of(t, plan);
        ZR_TRY(zr_simulate(plan, &t->cluster, &t->options, &made->simulation, NULL));
    } else {
        ZR_TRY(zr_plan_price(plan, &t->profile, &made->simulation.price));
    }
    made->fits = fits(t, made);
    return ZR_OK;
}

zr_status cli_try(const cli_target *target, const zr_config *config, const zr_layout *layout, cli_trial *made,
                  zr_plan **plan)
{
    const zr_layout own = layout ? *layout : zr__train_layout(config, target->ranks);
    zr_plan *one = NULL;
    ZR_TRY(zr__train_plan_layout(config, &own, &target->profile, &one));
    const zr_status st = weigh(target, one, made);
    if (st == ZR_OK && plan)
        *plan = one;
    else
        zr_plan_destroy(&one);
    return st;
}

zr_status cli_target_times(const cli_target *target, const zr_plan *plan, cli_times *times)
{
    zr_simulation simulation;
    if (!target->simulated) return cli_times_make(plan, &target->profile, times);
    *times = (cli_times){.by = target->cluster.name};
    times->time = zr_alloc(((size_t)plan->schedule[ZR_SCHEDULE_TRAIN].n_steps + 1) * sizeof(*times->time));
    ZR_CHECK(times->time, ZR_ERR_MEMORY, "no memory for the times of a plan's steps");
    const zr_status st = zr_simulate(plan, &target->cluster, &target->options, &simulation, times->time);
    times->price = simulation.price;
    if (st != ZR_OK) cli_times_clear(times);
    return st;
}

double cli_days(double tokens, double step_tokens, double step_sec)
{
    return ceil(tokens / step_tokens) * step_sec / 86400;
}

const char *cli_save_unknown(const cli_target *target, char text[CLI_SAVE_UNKNOWN_BYTES])
{
    const zr_cluster *c = &target->cluster;
    if (c->measured)
        snprintf(text, CLI_SAVE_UNKNOWN_BYTES, "how long it takes is not known: disks are not measured");
    else
        snprintf(text, CLI_SAVE_UNKNOWN_BYTES, "how long it takes is not known; %s has no host.%s", c->name,
                 c->disk_bytes_sec > 0 ? "device_bytes_per_sec" : "disk_bytes_per_sec");
    return text;
}
