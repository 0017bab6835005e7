/* Runs of another system as a target: its memory by src/systems, its time by zr's plan and simulation of the system's
 * layout. */
#include "cli/plan/target.h"

#include <string.h>

/* ---- the target ---------------------------------------------------------------------------------- */

bool cli_other_system(const char *name)
{
    return name && strcmp(name, "zr") != 0;
}

/** Return whether a device is of the generation of H100 or later, from its name or the name of its cluster. */
static bool is_hopper(const char *name)
{
    static const char *const names[] = {"h20", "h100", "h200", "gh200", "b200", "gb200", "b300", "gb300"};
    bool found = false;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) found |= strstr(name, names[i]) != NULL;
    return found;
}

static void take_usable(zr_machine *machine)
{
    if (machine->usable_bytes > 0) machine->memory_bytes = machine->usable_bytes;
}

zr_status cli_target_system(const char *name, const cli_list *with, zr_config *config, cli_target *target)
{
    const zr__system *system;
    if (!cli_other_system(name)) return ZR_OK;
    ZR_TRY(zr__system_find(name, &system));
    take_usable(&target->profile.machine);
    take_usable(&target->cluster.device);
    target->other = (zr__run){.hopper = is_hopper(target->profile.facts.name)};
    return zr__run_begin(&target->other, system, config, target->ranks, with->text, with->n);
}

/* ---- a trial ------------------------------------------------------------------------------------- */

static const zr_category category_of[ZR__PARTS] = {
    [ZR__PART_PARAMS] = ZR_CATEGORY_PARAM,    [ZR__PART_GRADS] = ZR_CATEGORY_GRAD,
    [ZR__PART_STATES] = ZR_CATEGORY_OPTIM,    [ZR__PART_BUCKETS] = ZR_CATEGORY_BUFFER,
    [ZR__PART_GATHERED] = ZR_CATEGORY_BUFFER, [ZR__PART_ACTIVATIONS] = ZR_CATEGORY_ACT,
    [ZR__PART_REDONE] = ZR_CATEGORY_ACT,      [ZR__PART_HEAD] = ZR_CATEGORY_ACT,
    [ZR__PART_TEMPS] = ZR_CATEGORY_WORK,      [ZR__PART_WORKSPACE] = ZR_CATEGORY_WORK};

/** Set the memory of the fullest rank at its fullest moment. Bytes on disk stay as zr plans them. */
static void set_memory(const zr__train_target *target, const zr__run_memory *from, zr__trial *made)
{
    zr_memory *memory = &made->report.memory;
    const zr__rank_memory *rank = &from->rank[from->fullest];
    const double *part = rank->part[zr__peak_moment(rank)];
    const zr_space_memory disk = memory->space[ZR_SPACE_DISK];
    *memory = (zr_memory){.states_bytes = (int64_t)zr__moment_bytes(rank, ZR__MOMENT_BETWEEN),
                          .total_bytes = (int64_t)from->allocated};
    for (int i = 0; i < ZR__PARTS; i++) memory->category_bytes[category_of[i]] += (int64_t)part[i];
    memory->space[ZR_SPACE_DEVICE].total_bytes = memory->total_bytes;
    memory->space[ZR_SPACE_HOST].total_bytes = (int64_t)rank->host;
    memory->space[ZR_SPACE_HOST].category_bytes[ZR_CATEGORY_OPTIM] = (int64_t)rank->host;
    memory->space[ZR_SPACE_DISK] = disk;
    made->needs_bytes = (int64_t)from->used.bytes;
    made->host_bytes = (int64_t)rank->host * zr__ranks_on_host(target);
    made->fullest_role = from->fullest;
}

/** Find the time of a step. */
static zr_status find_time(const zr__train_target *target, const zr__run *run, zr__trial *made, zr_plans *plans)
{
    zr__speed speed;
    zr__train_target on = *target;
    zr_config config = *run->config;
    zr_cluster cluster = *target->cluster;
    on.trying = NULL;
    on.cluster = &cluster;
    on.memory_bytes = config.memory.limit_bytes = 0; /* zr's plan need not fit */
    ZR_TRY(zr__run_place(run, &speed, &config, &cluster));
    ZR_TRY(zr__try(&on, &config, made, plans));
    zr__run_timed(&speed, config.accumulation_steps, &made->simulation);
    return ZR_OK;
}

zr_status cli_try_other(const zr__train_target *target, const zr_config *config, zr__trial *made, zr_plans *plans)
{
    ZR_AUTO(zr__run_memory_clear) zr__run_memory memory = {0};
    zr__run run = *(const zr__run *)target->other;
    *made = (zr__trial){0};
    zr__run_follow(&run, config);
    ZR_TRY(zr__run_measure(&run, &memory));
    if (target->cluster) ZR_TRY(find_time(target, &run, made, plans));
    set_memory(target, &memory, made);
    zr__trial_share(target, config, made);
    return ZR_OK;
}
