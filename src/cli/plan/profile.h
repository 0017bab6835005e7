/** Machines and model shapes by name. */
#ifndef ZR_CLI_PLAN_PROFILE_H
#define ZR_CLI_PLAN_PROFILE_H

#include "zr/plan.h"

#include <stdio.h>

/** Find the profile that --profile names: a machine that zr knows, or a file (with a slash, or ending in .json) with
 * the user's own rates or the document of `zr info --bench --json`. ZR_ERR_ARG; for a file ZR_ERR_NOT_FOUND,
 * ZR_ERR_CONFIG, ZR_ERR_DATA. */
ZR_NODISCARD zr_status cli_profile(const char *name, zr_profile *profile);

/** Check the name of a shape. ZR_ERR_ARG: an unknown name is a mistake of the command line. */
ZR_NODISCARD zr_status cli_preset(const char *name);

/** Print the shapes that have a name, with sizes and parameters. */
ZR_NODISCARD zr_status cli_shapes_print(FILE *out, bool json);

#endif
