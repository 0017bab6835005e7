/** Commands and their help, for people, shells and manuals. */
#ifndef ZR_CLI_SHELL_HELP_H
#define ZR_CLI_SHELL_HELP_H

#include "cli/shell/args.h"
#include "zr/comm.h"

struct cli_command {
    const char *name, *summary;
    const char *usage;    /* one line */
    const char *examples; /* lines */
    zr_status (*run)(const struct cli_command *command, zr_comm *comm, int argc, char **argv);
    bool all_ranks; /* under a launcher every rank runs it; otherwise rank 0 alone */
    bool computes;  /* runs kernels, so libgomp's settings matter */
};
extern const cli_command cli_train, cli_plan, cli_eval, cli_generate, cli_plot, cli_inspect, cli_verify, cli_convert,
    cli_info, cli_simulate, cli_report_command, cli_tokenize, cli_init;

/** Keys of the configuration in the help of a command. */
typedef enum cli_help_keys {
    CLI_KEYS_NONE,  /* the command takes no keys */
    CLI_KEYS_NAMED, /* the help says how to list them */
    CLI_KEYS_ALL    /* the keys alone: `zr train -h keys` */
} cli_help_keys;

/** Find whether the word after -h asks for the keys, in the help of a command that takes them. */
cli_help_keys cli_help_asked(const cli_args *args);

/** Print the help of one command on stdout: examples first, then options; or the configuration's table. */
void cli_help(const cli_command *command, const cli_option *options, cli_help_keys keys);

/** Let cli_help call `form` from now on (NULL: print for people), so that shells and manuals learn of options that only
 * the command itself knows. */
typedef void cli_help_form(const cli_command *command, const cli_option *options, bool keys);
void cli_help_as(cli_help_form *form);

#endif
