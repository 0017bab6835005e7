/** Descriptions of the command for shells and `man`, from the same tables as the help. */
#ifndef ZR_CLI_REFERENCE_H
#define ZR_CLI_REFERENCE_H

#include "cli/shell/args.h"
#include "cli/shell/help.h"
#include "zr/config.h"

/** Print `zr help --list`, `--completion bash|zsh` or `--man [COMMAND|config]` on stdout. ZR_ERR_ARG. */
ZR_NODISCARD zr_status cli_reference(const cli_command *const *commands, int n, int argc, char **argv);

/** Print the completion for a shell: "bash", "zsh". ZR_ERR_ARG. */
ZR_NODISCARD zr_status cli_completion(const cli_command *const *commands, int n, const char *shell);
/** Print a page for man. NULL: of zr itself; a command's name; "config": of the keys. ZR_ERR_ARG. */
ZR_NODISCARD zr_status cli_man(const cli_command *const *commands, int n, const char *name);

/** Exit codes, in the order of the manual. */
enum { CLI_EXITS = 14 };
typedef struct cli_exit {
    int code;
    zr_status status; /* every status without a row counts as ZR_ERR_INTERNAL, but ZR_ERR_COMM as ZR_ERR_PEER */
    const char *words;
} cli_exit;
extern const cli_exit cli_exits[CLI_EXITS];

/** Give a command's options to a form, by asking for its help. */
ZR_NODISCARD zr_status cli_options_of(const cli_command *command, cli_help_form *form);
/** Options of every command. */
extern const cli_option cli_common_options[];
/** Write the values that a key takes, "0 1 2 3"; "" where there is no short list. Returns words. */
const char *cli_key_words(const zr_key *key, char words[256]);

#endif
