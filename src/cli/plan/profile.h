/** Machines and model shapes by name. */
#ifndef ZR_CLI_PLAN_PROFILE_H
#define ZR_CLI_PLAN_PROFILE_H

#include "zr/plan.h"

#include <stdio.h>

/** Find the profile that --profile names: a machine that zr knows, or a file with the user's own rates or with the
 * output of `zr info --bench --json`. A name is a file's if it has a slash or ends in .json. Return ZR_ERR_ARG for an
 * unknown machine. For a file, return ZR_ERR_NOT_FOUND, ZR_ERR_CONFIG or ZR_ERR_DATA on failure. */
ZR_NODISCARD zr_status cli_profile(const char *name, zr_profile *profile);

/** Check the name of a model shape. Return ZR_ERR_ARG if it is unknown, as the name is an argument of the command
 * line. */
ZR_NODISCARD zr_status cli_preset(const char *name);

/** Print the model shapes that have a name, with their sizes and numbers of parameters. */
ZR_NODISCARD zr_status cli_shapes_print(FILE *out, bool json);

#endif
