/** Load the configuration that is given on a command line. */
#ifndef ZR_CLI_SHELL_CONFIG_H
#define ZR_CLI_SHELL_CONFIG_H

#include "cli/shell/args.h"
#include "zr/config.h"

/** Load the configuration of a command line, without resolving it: the file that operand 0 names, if there is an
 * operand, and the overrides. */
ZR_NODISCARD zr_status cli_config_load(const cli_args *args, zr_config **config);

/** Load and resolve the configuration of a command line: the file that operand 0 names, if there is an operand, and
 * the overrides. Unless `own_dir` is NULL, set *own_dir to whether no directory was given for the run. */
ZR_NODISCARD zr_status cli_config(const cli_args *args, int ranks, int64_t unix_sec, zr_config **config, bool *own_dir);

/** Return the name of the data type of parameters and activations. */
const char *cli_type_name(const zr_config *config);

#endif
