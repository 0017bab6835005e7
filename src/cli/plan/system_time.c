/** The time of a step of another system's run. */
#include "cli/plan/system.h"

#include "plan/cost/cost.h"

#include <string.h>

int64_t cli_usable_bytes(const zr_machine *machine)
{
    return machine->usable_bytes > 0 ? machine->usable_bytes : machine->memory_bytes;
}

zr_status cli_system_time(const char *name, const cli_list *with, zr_config *config, cli_target *target,
                          cli_timed *timed, zr_plans *plans)
{
    const zr__system *system;
    zr__speed speed;
    *timed = (cli_timed){.usable_bytes = cli_usable_bytes(&target->cluster.device),
                         .run.hopper = cli_is_hopper(target->profile.facts.name)};
    ZR_TRY(zr__system_find(name, &system));
    ZR_TRY(zr__run_begin(&timed->run, system, config, target->ranks, with->text, with->n));
    ZR_TRY(zr__run_measure(&timed->run, &timed->memory));
    zr_config planned = *config;
    cli_target on = *target;
    on.limit_bytes = 0;
    planned.memory.limit_bytes = 0;
    ZR_TRY(zr__run_place(&timed->run, &speed, &planned, &on.cluster));
    ZR_TRY(cli_try(&on, &planned, &timed->made, plans));
    zr__run_timed(&speed, planned.accumulation_steps, &timed->made.simulation);
    timed->made.fits = timed->memory.used.bytes <= (double)timed->usable_bytes;
    timed->made.needs_bytes = (int64_t)timed->memory.used.bytes;
    return ZR_OK;
}
