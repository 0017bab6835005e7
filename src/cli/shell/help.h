/** Commands, and their help for people, shells and manuals. */
#ifndef ZR_CLI_SHELL_HELP_H
#define ZR_CLI_SHELL_HELP_H

#include "cli/shell/args.h"
#include "zr/comm.h"

struct cli_command {
    const char *name, *summary;
    const char *usage;    /* one line */
    const char *examples; /* one example per line */
    zr_status (*run)(const struct cli_command *command, zr_comm *comm, int argc, char **argv);
    bool all_ranks; /* whether all ranks of a launcher run the command; otherwise only rank 0 runs it */
    bool computes;  /* whether the command runs kernels, so that libgomp's settings matter */
};
extern const cli_command cli_train, cli_plan, cli_eval, cli_generate, cli_plot, cli_inspect, cli_verify, cli_convert,
    cli_info, cli_simulate, cli_report_command, cli_tokenize, cli_init;

/** Selection of the configuration keys that the help of a command lists. */
typedef enum cli_help_keys {
    CLI_KEYS_NONE,  /* no keys, because the command takes none */
    CLI_KEYS_NAMED, /* no keys, but the help tells how to list them */
    CLI_KEYS_ALL    /* only the keys, and no other help: `zr train -h keys` */
} cli_help_keys;

/** Return which help a command that takes keys should print: CLI_KEYS_ALL if the word after -h is "keys", else
 * CLI_KEYS_NAMED. */
cli_help_keys cli_help_asked(const cli_args *args);

/** Print the help of a command on stdout: first examples, then options. With CLI_KEYS_ALL, print the configuration
 * keys instead. */
void cli_help(const cli_command *command, const cli_option *options, cli_help_keys keys);

/** Make cli_help call `form` from now on instead of printing. If `form` is NULL, cli_help prints for people again. In
 * this way, `form` learns the options of a command, which only the command knows, for shells and manuals. */
typedef void cli_help_form(const cli_command *command, const cli_option *options, bool keys);
void cli_help_as(cli_help_form *form);

#endif
