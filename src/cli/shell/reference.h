/** Shell completion and man pages of the command, made from the same tables as its help. */
#ifndef ZR_CLI_REFERENCE_H
#define ZR_CLI_REFERENCE_H

#include "cli/shell/args.h"
#include "cli/shell/help.h"
#include "zr/config.h"

/** Print `zr help --list`, `--completion bash|zsh` or `--man [COMMAND|config]` on stdout. Return ZR_ERR_ARG for any
 * other arguments. */
ZR_NODISCARD zr_status cli_reference(const cli_command *const *commands, int n, int argc, char **argv);

/** Print the completion script for `shell`, "bash" or "zsh". Return ZR_ERR_ARG for any other shell. */
ZR_NODISCARD zr_status cli_completion(const cli_command *const *commands, int n, const char *shell);
/** Print a man page. `name` is a command, "config" for the configuration keys, or NULL for zr itself. Return ZR_ERR_ARG
 * for any other name. */
ZR_NODISCARD zr_status cli_man(const cli_command *const *commands, int n, const char *name);

/** Number of exit codes. cli_exits lists them in the order of the manual. */
enum { CLI_EXITS = 14 };
typedef struct cli_exit {
    int code;
    /* status with this exit code; ZR_ERR_COMM counts as ZR_ERR_PEER, and a status that is not listed counts as
     * ZR_ERR_INTERNAL */
    zr_status status;
    const char *words;
} cli_exit;
extern const cli_exit cli_exits[CLI_EXITS];

/** Call `form` with the options of a command. To get the options, run the command with --help. */
ZR_NODISCARD zr_status cli_options_of(const cli_command *command, cli_help_form *form);
/** Options that every command has. */
extern const cli_option cli_common_options[];
/** Write the possible values of a key into `words`, such as "0 1 2 3", or "" if there is no short list. Return `words`.
 * */
const char *cli_key_words(const zr_key *key, char words[256]);
#define CLI_KEY_HELP_BYTES 1536
/** Write a key's help text into `help`. If only some families have the key, begin with their names. If the key has no
 * effect, begin with a remark. Return `help`. */
const char *cli_key_help(const zr_key *key, char help[CLI_KEY_HELP_BYTES]);
/** Return the next key after `key` in a table (zr_config_keys), or the first key if `key` is NULL. Skip keys without
 * effect, and keys with the path of an earlier key, since families may declare a key differently. Return NULL at the
 * end. */
const zr_key *cli_key_next(const zr_key *keys, const zr_key *key);

#endif
