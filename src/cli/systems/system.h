/** cli/systems: `zr plan --system`, the memory and the time of a run of another training system, beside zr's. */
#ifndef ZR_CLI_SYSTEM_H
#define ZR_CLI_SYSTEM_H

#include "cli/plan/choices.h"

/** Check --system and --with before a configuration is read. */
ZR_NODISCARD zr_status cli_system_check(const cli_plan_options *o);
/** Plan the configuration for the system of --system, and print the plan as text or JSON. */
ZR_NODISCARD zr_status cli_system_plan(cli_choices *choices);

#endif
