/** Sub-commands, and their help as text, shell completion and man pages. */
#ifndef ZR_CLI_SHELL_HELP_H
#define ZR_CLI_SHELL_HELP_H

#include "cli/shell/args.h"
#include "zr/comm.h"

struct cli_command {
    const char *name, *summary;
    const char *usage;    /* one line */
    const char *examples; /* one example per line */
    zr_status (*run)(const struct cli_command *command, zr_comm *comm, int argc, char **argv);
    bool all_ranks; /* whether all ranks of a launcher run the command, or only rank 0 */
    bool computes;  /* whether the command runs kernels, which need libgomp's settings */
};
extern const cli_command cli_train, cli_plan, cli_eval, cli_generate, cli_plot, cli_inspect, cli_verify, cli_convert,
    cli_info, cli_simulate, cli_report_command, cli_tokenize, cli_init;

/** Choice of the configuration keys in the help of a command. */
typedef enum cli_help_keys {
    CLI_KEYS_NONE,  /* no keys, because the command takes no keys */
    CLI_KEYS_NAMED, /* no keys, but a hint how to list them */
    CLI_KEYS_ALL    /* all keys, and no other help; printed by `zr train -h keys` */
} cli_help_keys;

/** Return which keys the help of a command lists: CLI_KEYS_ALL if the word after -h is "keys", else CLI_KEYS_NAMED. */
cli_help_keys cli_help_asked(const cli_args *args);

/** Print the help of a command on stdout, beginning with examples. With CLI_KEYS_ALL, print only the configuration
 * keys. */
void cli_help(const cli_command *command, const cli_option *options, cli_help_keys keys);

/** Make cli_help call `form` instead of printing, until cli_help_as(NULL) is called. Shell completion and man pages use
 * this function to get the options of a command, because only the command itself knows its options. */
typedef void cli_help_form(const cli_command *command, const cli_option *options, bool keys);
void cli_help_as(cli_help_form *form);

#endif
