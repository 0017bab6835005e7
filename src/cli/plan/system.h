/** `zr plan --system`: memory of a run of another training system, beside zr's. */
#ifndef ZR_CLI_PLAN_SYSTEM_H
#define ZR_CLI_PLAN_SYSTEM_H

#include "cli/plan/choices.h"
#include "systems/systems.h"

/** Return whether --system names another system than zr. */
bool cli_system_asked(const cli_plan_options *o);
/** Check --system and --with before a configuration is read. */
ZR_NODISCARD zr_status cli_system_check(const cli_plan_options *o);
/** Plan the configuration for the system of --system, and print the plan as text or JSON. */
ZR_NODISCARD zr_status cli_system_plan(cli_choices *choices);

/** A run of another system with the time of its step. */
typedef struct cli_timed {
    zr__run run;
    zr__run_memory memory;
    cli_trial made;       /* zr's plan of the system's layout, priced as the system computes and communicates */
    int64_t usable_bytes; /* memory of a device */
} cli_timed;

/** Find the time of a step, and the memory, of the system `name` with the options `with` on a cluster, which is
 * target->cluster. `plans` may be NULL, as for cli_try. Clear timed->memory with zr__run_memory_clear, also after a
 * failure. */
ZR_NODISCARD zr_status cli_system_time(const char *name, const cli_list *with, zr_config *config, cli_target *target,
                                       cli_timed *timed, zr_plans *plans);
/** Return whether a device is of the generation of H100 or later, from its name or the name of its cluster. */
bool cli_is_hopper(const char *name);
/** Return the bytes that a device has for a process, as its driver reports them, or else as its maker states them. */
int64_t cli_usable_bytes(const zr_machine *machine);

#endif
