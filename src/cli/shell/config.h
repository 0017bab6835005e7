/** Load the configuration that a command line gives. */
#ifndef ZR_CLI_SHELL_CONFIG_H
#define ZR_CLI_SHELL_CONFIG_H

#include "cli/shell/args.h"
#include "zr/config.h"

/** Load the configuration of a command line without resolving it: operand 0, if there is one, and the overrides. */
ZR_NODISCARD zr_status cli_config_load(const cli_args *args, zr_config **config);

/** Load and resolve the configuration of a command line: operand 0, if there is one, and the overrides. Unless
 * `own_dir` is NULL, *own_dir tells whether no directory was given for the run. */
ZR_NODISCARD zr_status cli_config(const cli_args *args, int ranks, int64_t unix_sec, zr_config **config, bool *own_dir);

/** Return the name of the type of parameters and activations. */
const char *cli_type_name(const zr_config *config);

#endif
