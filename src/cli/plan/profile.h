/** Machines and model shapes by name. */
#ifndef ZR_CLI_PLAN_PROFILE_H
#define ZR_CLI_PLAN_PROFILE_H

#include "zr/plan.h"

#include <stdio.h>

/** Find the profile that --profile names: a machine that zr knows, or a file. A name with a slash or ending in .json is
 * a file, which has the user's own rates or the document of `zr info --bench --json`. Return ZR_ERR_ARG for an unknown
 * machine; for a file ZR_ERR_NOT_FOUND, ZR_ERR_CONFIG or ZR_ERR_DATA. */
ZR_NODISCARD zr_status cli_profile(const char *name, zr_profile *profile);

/** Check the name of a shape. Return ZR_ERR_ARG for an unknown name, which is a mistake on the command line. */
ZR_NODISCARD zr_status cli_preset(const char *name);

/** Print the shapes that have a name, with sizes and parameters. */
ZR_NODISCARD zr_status cli_shapes_print(FILE *out, bool json);

#endif
