/** Descriptions of the command for shells and `man`, built from the same tables as the help. */
#ifndef ZR_CLI_REFERENCE_H
#define ZR_CLI_REFERENCE_H

#include "cli/shell/args.h"
#include "cli/shell/help.h"
#include "zr/config.h"

/** Print `zr help --list`, `--completion bash|zsh` or `--man [COMMAND|config]` on stdout. Return ZR_ERR_ARG for other
 * arguments. */
ZR_NODISCARD zr_status cli_reference(const cli_command *const *commands, int n, int argc, char **argv);

/** Print the completion for a shell, "bash" or "zsh". Return ZR_ERR_ARG for another shell. */
ZR_NODISCARD zr_status cli_completion(const cli_command *const *commands, int n, const char *shell);
/** Print a page for man. `name` is a command, "config" for the page of the keys, or NULL for the page of zr itself.
 * Return ZR_ERR_ARG for another name. */
ZR_NODISCARD zr_status cli_man(const cli_command *const *commands, int n, const char *name);

/** Number of exit codes. They are in the order of the manual. */
enum { CLI_EXITS = 14 };
typedef struct cli_exit {
    int code;
    zr_status status; /* ZR_ERR_COMM counts as ZR_ERR_PEER, any other status without a row as ZR_ERR_INTERNAL */
    const char *words;
} cli_exit;
extern const cli_exit cli_exits[CLI_EXITS];

/** Ask a command for its help, so that it passes its options to `form`. */
ZR_NODISCARD zr_status cli_options_of(const cli_command *command, cli_help_form *form);
/** Options that every command has. */
extern const cli_option cli_common_options[];
/** Write the values that a key takes, such as "0 1 2 3", or "" if there is no short list, into `words`. Return `words`.
 * */
const char *cli_key_words(const zr_key *key, char words[256]);

#endif
