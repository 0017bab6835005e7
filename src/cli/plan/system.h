/** `zr plan --system`: memory of a run of another training system, beside zr's. */
#ifndef ZR_CLI_PLAN_SYSTEM_H
#define ZR_CLI_PLAN_SYSTEM_H

#include "cli/plan/choices.h"

/** Return whether --system names another system than zr. */
bool cli_system_asked(const cli_plan_options *o);
/** Check --system and --with before a configuration is read. */
ZR_NODISCARD zr_status cli_system_check(const cli_plan_options *o);
/** Plan the configuration for the system of --system, and print the plan as text or JSON. */
ZR_NODISCARD zr_status cli_system_plan(cli_choices *choices);

#endif
