/**
 * cli/shell: the parts of a command line program that all commands share: arguments, help, messages, JSON, signals, the
 * process. Statuses come back to main.c, which alone turns them into exit codes. This header: options and their parser.
 */
#ifndef ZR_CLI_SHELL_ARGS_H
#define ZR_CLI_SHELL_ARGS_H

#include "zr/base.h"

typedef enum cli_kind {
    CLI_FLAG, /* bool */
    CLI_TEXT, /* const char * */
    CLI_INT,  /* int64_t */
    CLI_REAL, /* double */
    CLI_LIST, /* cli_list: a text for each time that the option is given */
} cli_kind;
#define CLI_LIST_MOST 16

typedef struct cli_list {
    const char *text[CLI_LIST_MOST];
    int n;
} cli_list;

typedef struct cli_option {
    const char *name; /* without dashes; NULL ends a list */
    cli_kind kind;
    void *out;
    double least;      /* INT, REAL */
    const char *value; /* "N" in the help; NULL: the option takes no value */
    const char *help;
} cli_option;

typedef enum cli_color { CLI_COLOR_AUTO, CLI_COLOR_ALWAYS, CLI_COLOR_NEVER } cli_color;
#define CLI_MAX_OPERANDS 256 /* at most, such as runs in one picture */
#define CLI_MAX_OVERRIDES 256

/** A parsed command line. */
typedef struct cli_args {
    const char *command;
    const cli_option *options; /* the command's own */
    bool keys;                 /* --key.path=value goes to the configuration */
    int max_operands;
    bool help, json, quiet;
    bool by_memory; /* keys that are not given are left to --memory */
    bool recipe;    /* a preset trains by the recipe for its size (zr__config_take_recipe) */
    cli_color color;
    const char *operand[CLI_MAX_OPERANDS + 1]; /* then NULL */
    int n_operands;
    const char *override[CLI_MAX_OVERRIDES];
    int n_overrides;
} cli_args;

typedef struct cli_command cli_command;

/** Parse a command line. ZR_ERR_ARG (usage), ZR_ERR_UNSUPPORTED. */
ZR_NODISCARD zr_status cli_parse(cli_args *args, int argc, char **argv);

/** Parse the command line of a command that needs all of args->max_operands, which `what` names (NULL: it does not need
 * them); with --help print the help and set args->help. */
ZR_NODISCARD zr_status cli_parse_operands(cli_args *args, const cli_command *command, const char *what, int argc,
                                          char **argv);

/** Put an override before the overrides of the command line, which win; its text lives in `room`. */
ZR_NODISCARD zr_status cli_override(cli_args *args, char room[256], const char *format, ...) ZR_PRINTF(3, 4);

/** Find the value of an option among the words that it takes, a list that NULL ends. ZR_ERR_ARG names option and words.
 */
ZR_NODISCARD zr_status cli_word(const char *option, const char *given, const char *const *names, int *index);

/** Read "5400", "90m", "3h", "1d12h" as seconds. ZR_ERR_ARG names the option. */
ZR_NODISCARD zr_status cli_duration(const char *option, const char *text, double *sec);

#endif
