/** What shells and `man` are told of the command, from the same tables as the help. */
#ifndef ZR_CLI_REFERENCE_H
#define ZR_CLI_REFERENCE_H

#include "cli/shell/cli.h"

/** `zr help --list`, `--completion bash|zsh`, `--man [COMMAND|config]`, on stdout. ZR_ERR_ARG. */
ZR_NODISCARD zr_status cli_reference(const cli_command *const *commands, int n, int argc, char **argv);

/** Completion for a shell: "bash", "zsh". ZR_ERR_ARG. */
ZR_NODISCARD zr_status cli_completion(const cli_command *const *commands, int n, const char *shell);
/** A page for man: NULL: of zr itself; of a command; "config": of the keys. ZR_ERR_ARG. */
ZR_NODISCARD zr_status cli_man(const cli_command *const *commands, int n, const char *name);

/** Give a command's options to a form, by asking for its help. */
ZR_NODISCARD zr_status cli_options_of(const cli_command *command, cli_help_form *form);
/** Those that every command has. */
extern const cli_option cli_common_options[];
/** The words that a key takes, "0 1 2 3"; "" where they cannot be counted. Returns words. */
const char *cli_key_words(const zr_key *key, char words[256]);

#endif
