/** Load the configuration that is given on a command line. */
#ifndef ZR_CLI_SHELL_CONFIG_H
#define ZR_CLI_SHELL_CONFIG_H

#include "cli/shell/args.h"
#include "zr/config.h"

/** Load the configuration of a command line, without resolving it. Read the file that operand 0 names, if there is an
 * operand, and apply the overrides. */
ZR_NODISCARD zr_status cli_config_load(const cli_args *args, zr_config **config);

/** Load the configuration of a command line as cli_config_load does, and resolve it. Unless `own_dir` is NULL, set
 * *own_dir to whether train.output_dir was missing. If so, zr chooses the directory. */
ZR_NODISCARD zr_status cli_config(const cli_args *args, int ranks, int64_t unix_sec, zr_config **config, bool *own_dir);

/** Return the data type of parameters and activations: "bf16", "fp16" or "fp32". */
const char *cli_type_name(const zr_config *config);

#endif
