/** cli/shell: the parts of the command line program that all commands share: arguments, help, messages, JSON, signals,
 * the process. Commands return a status to main.c, which turns it into an exit code. This header declares options and
 * their parser. */
#ifndef ZR_CLI_SHELL_ARGS_H
#define ZR_CLI_SHELL_ARGS_H

#include "zr/base.h"

typedef enum cli_kind {
    CLI_FLAG, /* bool */
    CLI_TEXT, /* the value is a const char * */
    CLI_INT,  /* int64_t */
    CLI_REAL, /* double */
    CLI_LIST, /* the value is a cli_list, with a text for each time that the option is given */
} cli_kind;
#define CLI_LIST_MOST 16

typedef struct cli_list {
    const char *text[CLI_LIST_MOST];
    int n;
} cli_list;

typedef struct cli_option {
    const char *name; /* name without dashes; NULL marks the end of a list */
    cli_kind kind;
    void *out;
    double least;      /* minimum value, for an INT or a REAL */
    const char *value; /* name of the value in the help, such as "N"; NULL if the option takes no value */
    const char *help;
} cli_option;

typedef enum cli_color { CLI_COLOR_AUTO, CLI_COLOR_ALWAYS, CLI_COLOR_NEVER } cli_color;
#define CLI_MAX_OPERANDS 256 /* maximum number of operands, such as the runs in one picture */
#define CLI_MAX_OVERRIDES 256

/** A parsed command line. */
typedef struct cli_args {
    const char *command;
    const cli_option *options; /* the options that this command takes */
    bool keys;                 /* whether the command takes --key.path=value, which sets a configuration key */
    int max_operands;
    bool help, json, quiet;
    bool by_memory; /* whether --memory makes zr choose the keys that are not given */
    bool recipe;    /* whether a preset is trained by the recipe for its size (zr__config_take_recipe) */
    cli_color color;
    const char *operand[CLI_MAX_OPERANDS + 1]; /* operands, followed by NULL */
    int n_operands;
    const char *override[CLI_MAX_OVERRIDES];
    int n_overrides;
} cli_args;

typedef struct cli_command cli_command;

/** Parse a command line. Return ZR_ERR_ARG if it is wrong, or ZR_ERR_UNSUPPORTED. */
ZR_NODISCARD zr_status cli_parse(cli_args *args, int argc, char **argv);

/** Parse the command line of a command that takes args->max_operands operands. `what` names the operands in an error
 * message. If `what` is NULL, fewer operands may be given. With --help, print the help and set args->help. */
ZR_NODISCARD zr_status cli_parse_operands(cli_args *args, const cli_command *command, const char *what, int argc,
                                          char **argv);

/** Insert an override before the overrides of the command line, which win because they come later. The text of the
 * inserted override is stored in `room`. */
ZR_NODISCARD zr_status cli_override(cli_args *args, char room[256], const char *format, ...) ZR_PRINTF(3, 4);

/** Find the value of an option in `names`, a list that ends with NULL, and set *index to its index. On ZR_ERR_ARG the
 * message lists the possible values. */
ZR_NODISCARD zr_status cli_word(const char *option, const char *given, const char *const *names, int *index);

/** Convert a duration such as "5400", "90m", "3h" or "1d12h" to seconds. On ZR_ERR_ARG the message names the option. */
ZR_NODISCARD zr_status cli_duration(const char *option, const char *text, double *sec);

#endif
