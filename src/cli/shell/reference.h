/** Descriptions of the command for shells and for `man`, built from the tables from which the help is built. */
#ifndef ZR_CLI_REFERENCE_H
#define ZR_CLI_REFERENCE_H

#include "cli/shell/args.h"
#include "cli/shell/help.h"
#include "zr/config.h"

/** Print `zr help --list`, `--completion bash|zsh` or `--man [COMMAND|config]` on stdout. Return ZR_ERR_ARG for any
 * other arguments. */
ZR_NODISCARD zr_status cli_reference(const cli_command *const *commands, int n, int argc, char **argv);

/** Print the completion script for a shell, "bash" or "zsh". Return ZR_ERR_ARG for any other shell. */
ZR_NODISCARD zr_status cli_completion(const cli_command *const *commands, int n, const char *shell);
/** Print a page for man. `name` is the name of a command, "config" for the page of the configuration keys, or NULL for
 * the page of zr itself. Return ZR_ERR_ARG for any other name. */
ZR_NODISCARD zr_status cli_man(const cli_command *const *commands, int n, const char *name);

/** Number of exit codes, which are listed in the order of the manual. */
enum { CLI_EXITS = 14 };
typedef struct cli_exit {
    int code;
    zr_status status; /* status with this exit code; ZR_ERR_COMM counts as ZR_ERR_PEER, and any other status without a
                         row as ZR_ERR_INTERNAL */
    const char *words;
} cli_exit;
extern const cli_exit cli_exits[CLI_EXITS];

/** Make a command pass its options to `form`, by asking the command for its help. */
ZR_NODISCARD zr_status cli_options_of(const cli_command *command, cli_help_form *form);
/** Options that every command has. */
extern const cli_option cli_common_options[];
/** Write the values that a key can have into `words`, such as "0 1 2 3". Write "" if there is no short list of values.
 * Return `words`. */
const char *cli_key_words(const zr_key *key, char words[256]);

#endif
