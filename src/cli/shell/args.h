/** cli/shell: code that all sub-commands of `zr` share, such as arguments, help, messages and signals. A sub-command
 * returns a status, and main.c turns it into an exit code. This header declares command line options and their parser.
 * */
#ifndef ZR_CLI_SHELL_ARGS_H
#define ZR_CLI_SHELL_ARGS_H

#include "zr/base.h"

typedef enum cli_kind {
    CLI_FLAG, /* option without a value, stored as bool */
    CLI_TEXT, /* text, stored as const char * */
    CLI_INT,  /* integer, stored as int64_t */
    CLI_REAL, /* real number, stored as double */
    CLI_LIST, /* texts, stored as cli_list: one text for each time that the option is given */
} cli_kind;
#define CLI_LIST_MOST 48

typedef struct cli_list {
    const char *text[CLI_LIST_MOST];
    int n;
} cli_list;

typedef struct cli_option {
    const char *name; /* name without dashes; NULL at the end of a list of options */
    cli_kind kind;
    void *out;
    double least;      /* minimum value of a CLI_INT or CLI_REAL */
    const char *value; /* name of the value in the help, such as "N"; NULL for a flag */
    const char *help;
} cli_option;

typedef enum cli_color { CLI_COLOR_AUTO, CLI_COLOR_ALWAYS, CLI_COLOR_NEVER } cli_color;
#define CLI_MAX_OPERANDS 256 /* maximum number of operands, such as runs in one plot */
#define CLI_MAX_OVERRIDES 256
#define CLI_MAX_TOPICS 8

/** A parsed command line. */
typedef struct cli_args {
    const char *command;
    const cli_option *options; /* options that the command takes */
    bool keys;                 /* whether the command takes configuration keys, --key.path=value */
    int max_operands;
    bool help, json, quiet;
    bool by_memory;   /* whether zr chooses the keys that are not given, to fit the size of --memory */
    const char *disk; /* size of --disk, with which zr chooses an offload to disk; NULL if not given */
    bool recipe;      /* whether a preset also sets the training recipe for its size (zr__config_take_recipe) */
    cli_color color;
    const char *operand[CLI_MAX_OPERANDS + 1]; /* operands, followed by NULL */
    int n_operands;
    const char *override[CLI_MAX_OVERRIDES];
    int n_overrides;
    const char *topic[CLI_MAX_TOPICS]; /* words after -h or --help, which select a part of the help */
    int n_topics;
} cli_args;

typedef struct cli_command cli_command;

/** Parse a command line. Return ZR_ERR_ARG if it is wrong. */
ZR_NODISCARD zr_status cli_parse(cli_args *args, int argc, char **argv);

/** Parse the command line of a command. Unless `what` is NULL, require exactly args->max_operands operands, or at least
 * one if this is CLI_MAX_OPERANDS; `what` names them in the error message. If `what` is NULL, allow fewer operands.
 * With --help, print the help and set args->help. */
ZR_NODISCARD zr_status cli_parse_operands(cli_args *args, const cli_command *command, const char *what, int argc,
                                          char **argv);

/** Format an override, such as "train.steps=5", into `room`, and insert it before the overrides of the command line. A
 * later override wins, so the command line takes precedence. */
ZR_NODISCARD zr_status cli_override(cli_args *args, char room[256], const char *format, ...) ZR_PRINTF(3, 4);

/** Find the word `given` in `names`, a list that ends with NULL, and set *index to its index. On ZR_ERR_ARG the message
 * names the option and lists the possible words. */
ZR_NODISCARD zr_status cli_word(const char *option, const char *given, const char *const *names, int *index);

/** Convert a duration such as "5400", "90m", "3h" or "1d12h" to seconds. On ZR_ERR_ARG the message names the option. */
ZR_NODISCARD zr_status cli_duration(const char *option, const char *text, double *sec);

#endif
