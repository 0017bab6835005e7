/** The configuration of a command line. */
#ifndef ZR_CLI_SHELL_CONFIG_H
#define ZR_CLI_SHELL_CONFIG_H

#include "cli/shell/args.h"
#include "zr/config.h"

/** Load the configuration of a command line without settling it: operand 0 (or none) and its overrides. */
ZR_NODISCARD zr_status cli_config_load(const cli_args *args, zr_config **config);

/** Load and settle the configuration of a command line: operand 0 (or none) and its overrides. *own_dir (may be NULL):
 * the run was given no directory. */
ZR_NODISCARD zr_status cli_config(const cli_args *args, int ranks, int64_t unix_sec, zr_config **config, bool *own_dir);

/** Return the type of parameters and activations. */
const char *cli_type_name(const zr_config *config);

#endif
