/** Commands and their help, for people, shells and manuals. */
#ifndef ZR_CLI_SHELL_HELP_H
#define ZR_CLI_SHELL_HELP_H

#include "cli/shell/args.h"
#include "zr/comm.h"

struct cli_command {
    const char *name, *summary;
    const char *usage;    /* one line */
    const char *examples; /* one example per line */
    zr_status (*run)(const struct cli_command *command, zr_comm *comm, int argc, char **argv);
    bool all_ranks; /* whether every rank of a launcher runs it; otherwise only rank 0 does */
    bool computes;  /* whether it runs kernels, so that libgomp's settings matter */
};
extern const cli_command cli_train, cli_plan, cli_eval, cli_generate, cli_plot, cli_inspect, cli_verify, cli_convert,
    cli_info, cli_simulate, cli_report_command, cli_tokenize, cli_init;

/** Part of the configuration's keys in the help of a command. */
typedef enum cli_help_keys {
    CLI_KEYS_NONE,  /* the command takes no keys */
    CLI_KEYS_NAMED, /* the help tells how to list the keys */
    CLI_KEYS_ALL    /* the help lists only the keys: `zr train -h keys` */
} cli_help_keys;

/** Return CLI_KEYS_ALL if the word after -h is "keys", else CLI_KEYS_NAMED. For commands that take keys. */
cli_help_keys cli_help_asked(const cli_args *args);

/** Print the help of one command on stdout: examples first, then options. With CLI_KEYS_ALL print the configuration's
 * keys instead. */
void cli_help(const cli_command *command, const cli_option *options, cli_help_keys keys);

/** Make cli_help call `form` from now on, or print for people if `form` is NULL. Shells and manuals learn through
 * `form` the options that only the command itself knows. */
typedef void cli_help_form(const cli_command *command, const cli_option *options, bool keys);
void cli_help_as(cli_help_form *form);

#endif
