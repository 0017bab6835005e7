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
    bool computes;  /* whether the command runs kernels, for which main.c calls cli_set_process */
};
extern const cli_command cli_train, cli_plan, cli_eval, cli_generate, cli_plot, cli_inspect, cli_verify, cli_convert,
    cli_info, cli_simulate, cli_report_command, cli_tokenize, cli_init;

/** Print the help of a command on stdout, beginning with examples. If words follow --help (args->topic), print only the
 * options and configuration keys that have all these words in their names or explanations. The word "keys" selects all
 * configuration keys. Return ZR_ERR_ARG if nothing has the words. */
ZR_NODISCARD zr_status cli_help(const cli_command *command, const cli_args *args);

/** Print the configuration keys that have all `n` words: `zr help keys WORD...`. Without words, print all keys. Return
 * ZR_ERR_ARG if no key has them. */
ZR_NODISCARD zr_status cli_help_keys(char **word, int n);

/** Make cli_help call `form` instead of printing, until cli_help_as(NULL) is called. Shell completion and man pages use
 * this function to get the options of a command, because only the command itself knows its options. */
typedef void cli_help_form(const cli_command *command, const cli_option *options, bool keys);
void cli_help_as(cli_help_form *form);

#endif
