/** Find the profile of a machine, and the shape of a model, by name. */
#ifndef ZR_CLI_PLAN_PROFILE_H
#define ZR_CLI_PLAN_PROFILE_H

#include "zr/models.h"
#include "zr/plan.h"
#include "zr/simulate.h"

#include <stdio.h>

/** Find the profile of --profile NAME|FILE. NAME is a device or a cluster, as for --cluster. FILE has a slash or ends
 * in .json, and holds the user's own rates or the output of `zr info --bench --json`. Return ZR_ERR_ARG for an unknown
 * machine. For a file, return ZR_ERR_NOT_FOUND, ZR_ERR_CONFIG or ZR_ERR_DATA on failure. */
ZR_NODISCARD zr_status cli_profile(const char *name, zr_profile *profile);

/** Create the profile of a cluster's devices: the scratch memory of kernels, and the rates that policy auto uses. */
void cli_cluster_profile(const zr_cluster *cluster, zr_profile *profile);

/** Check that `name`, the value of --preset, is a known model shape. Return ZR_ERR_ARG if the name is unknown. */
ZR_NODISCARD zr_status cli_preset(const char *name);

/** Return the number of key and value heads of a model, which equals its number of heads without grouped-query
 * attention. */
int64_t cli_kv_heads(const zr_family *family, const void *config);

/** Print the known model shapes: names, sizes and numbers of parameters. */
ZR_NODISCARD zr_status cli_shapes_print(FILE *out, bool json);

#endif
