/**
 * cli/shell: `main` and the parts that every command shares. This header has the types and functions that files of the
 * command share; statuses come back to main, which alone turns them into exit codes. main.c picks the command, args.c
 * reads its options, help.c, man.c and completion.c describe it (reference.h), message.c has lines and colours, json.c
 * JSON on stdout, signals.c requests to stop, many.c work on several cores (many.h); process.c and alloc.c set up the
 * process and the memory of libraries.
 */
#ifndef ZR_CLI_CLI_H
#define ZR_CLI_CLI_H

#include "base/json/json_write.h"
#include "base/paths/output.h"
#include "zr/comm.h"
#include "zr/config.h"
#include "zr/plan.h"
#include "zr/run.h"

#include <limits.h>
#include <stdio.h>

/* ---- options --------------------------------------------------------------------------------- */

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

/** Return the exit code of a status, as docs and scripts know it. */
int cli_exit_code(zr_status status);
/** Say the last failure, of this rank alone, and end all ranks of the launcher: the others would wait for this one. */
void cli_end_world(zr_comm *comm, zr_status st);

/* ---- help ------------------------------------------------------------------------------------ */

struct cli_command {
    const char *name, *summary;
    const char *usage;    /* one line */
    const char *examples; /* lines */
    zr_status (*run)(const struct cli_command *command, zr_comm *comm, int argc, char **argv);
    bool all_ranks; /* under a launcher every rank runs it; otherwise rank 0 alone */
    bool computes;  /* runs kernels, so libgomp's settings matter */
};

extern const cli_command cli_train, cli_plan, cli_eval, cli_generate, cli_plot, cli_inspect, cli_verify, cli_convert,
    cli_info, cli_simulate, cli_report_command, cli_tokenize, cli_init;

/** Keys of the configuration in the help of a command. */
typedef enum cli_help_keys {
    CLI_KEYS_NONE,  /* the command takes no keys */
    CLI_KEYS_NAMED, /* the help says how to list them */
    CLI_KEYS_ALL    /* the keys alone: `zr train -h keys` */
} cli_help_keys;

/** Find whether the word after -h asks for the keys, in the help of a command that takes them. */
cli_help_keys cli_help_asked(const cli_args *args);
/** Print the help of one command on stdout: examples first, then options; or the configuration's table. */
void cli_help(const cli_command *command, const cli_option *options, cli_help_keys keys);
/** Let cli_help call `form` from now on (NULL: print for people), so that shells and manuals learn of options that only
 * the command itself knows. */
typedef void cli_help_form(const cli_command *command, const cli_option *options, bool keys);
void cli_help_as(cli_help_form *form);

/** Load the configuration of a command line without settling it: operand 0 (or none) and its overrides. */
ZR_NODISCARD zr_status cli_config_load(const cli_args *args, zr_config **config);
/** Load and settle the configuration of a command line: operand 0 (or none) and its overrides. *own_dir (may be NULL):
 * the run was given no directory. */
ZR_NODISCARD zr_status cli_config(const cli_args *args, int ranks, int64_t unix_sec, zr_config **config, bool *own_dir);
/** Make the directory of a run that was given none (zr_train_prepare names it): the first of name, name-2, name-3 ...
 * that does not exist; the configuration then names it. Collective, comm NULL: one process. ZR_ERR_CREATE. */
ZR_NODISCARD zr_status cli_own_dir_make(zr_config *config, zr_comm *comm);
/** Remove the run's own directory, on the process that made it, if the run left nothing in it. */
void cli_own_dir_drop(const zr_config *config);
/** Return the type of parameters and activations. */
const char *cli_type_name(const zr_config *config);

/* ---- messages -------------------------------------------------------------------------------- */

/** A path in a message, never cut: zr__text_escape in scratch of the enclosing block. */
#define CLI_SHOWN(path) zr__text_escape((path), (char[PATH_MAX]){0}, PATH_MAX)

/** Print "zr: " and a message on stderr, control bytes escaped, at most 12 lines. */
void cli_say(const char *format, ...) ZR_PRINTF(1, 2);
/** Print the last failure of this thread. */
void cli_say_error(void);
/** Flush stdout; ZR_ERR_IO when something could not be written. */
ZR_NODISCARD zr_status cli_flush(void);
/** Return whether cli_flush failed because the reader of stdout has left, as `head` does. The command then ends
 * quietly, with 0. */
bool cli_reader_left(void);
/** Check, before anything is written, that stdout is no file that is read (`inputs` as for zr__output_open).
 * ZR_ERR_CREATE. */
ZR_NODISCARD zr_status cli_check_stdout(const char *const *inputs);
/** Output kind of the pictures that commands draw. */
extern const zr__output_kind cli_svg_kind;
/** Return whether a launcher (MPI, Slurm) runs this process. Then stderr is no terminal, whatever isatty says. */
bool cli_launched(void);
#define CLI_BOLD "\033[1m"
#define CLI_PLAIN "\033[0m"
/** Return whether stderr gets colours. */
bool cli_colored(cli_color color);
/** Return whether stdout gets colours. */
bool cli_colored_out(cli_color color);

/* Old names of zr__text_size and zr__text_amount; new code has ZR_SIZE and ZR_AMOUNT. */
#define cli_bytes zr__text_size
#define cli_amount zr__text_amount
/** Write the number of parameters and, where only some train, the number that trains: "1.2 M (300 k train)"; returns
 * text. */
const char *cli_params(int64_t params, int64_t trained, char text[80]);
/** Write seconds as "12.3 ms" or "2.5 h"; returns text. */
const char *cli_seconds(double sec, char text[32]);
/** Seconds for one message, in scratch of the enclosing block. */
#define CLI_SECONDS(sec) cli_seconds((sec), (char[32]){0})

/** Print text as a JSON string; bytes that are not UTF-8 become U+FFFD, characters that a terminal would obey are
 * escaped. */
void cli_json_print(FILE *out, const char *text, int64_t bytes);
/** Print or append JSON text, as jansson writes it, with characters that a terminal would obey escaped. */
void cli_json_put_text(FILE *out, const char *json);
void cli_json_append_shown(zr__text *out, const char *json);
/** Print a finished document with a line break, and free it. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status cli_json_finish(zr__json_out *json, FILE *out);
/** Write a JSON number, null when x is not finite. Returns `text` or a constant. */
const char *cli_json_number(double x, char text[ZR_NUMBER_BYTES]);

/* ---- plans ----------------------------------------------------------------------------------- */

/** Memory by category, traffic and FLOPs of stages 0-3 side by side. */
typedef struct cli_table {
    zr_report report[4];
    bool planned[4];
    int chosen;           /* stage whose column is marked */
    int64_t memory_bytes; /* memory of a rank, to say which stages fit; 0: not asked */
    const zr_device_facts *facts;
} cli_table;

/** Return the bytes that a rank takes beside its plan's total, in words (zr__rank_bytes). */
const char *cli_beside(const zr_device_facts *facts);
/** Return a category's contents, in words. */
const char *cli_category_words(zr_category category);
/** Write a policy, "none" or "unit/4"; returns text. */
const char *cli_recompute_name(zr_recompute recompute, int64_t every, char text[32]);
/** Return the bytes that one rank moves in a step, all kinds. */
double cli_traffic_bytes(const zr_report *report);
/** Fill in the reports of all stages of a resolved configuration, whose own plan is `chosen`; stages that cannot be
 * planned are left out. */
void cli_table_fill(cli_table *table, const zr_config *config, const zr_plan *chosen);
void cli_table_print(FILE *out, const cli_table *table, bool color);
/** Print the train schedule, a step a line. */
void cli_schedule_print(FILE *out, const zr_plan *plan);

/** Find the profile that --profile names: a machine that zr knows, or a file (with a slash, or ending in .json) with
 * the user's own rates or the document of `zr info --bench --json`. ZR_ERR_ARG; for a file ZR_ERR_NOT_FOUND,
 * ZR_ERR_CONFIG, ZR_ERR_DATA. */
ZR_NODISCARD zr_status cli_profile(const char *name, zr_profile *profile);
/** Check the name of a shape. ZR_ERR_ARG: an unknown name is a mistake of the command line. */
ZR_NODISCARD zr_status cli_preset(const char *name);

/** Print the shapes that have a name, with sizes and parameters. */
ZR_NODISCARD zr_status cli_shapes_print(FILE *out, bool json);

/** Print tables 1 and 2 of the ZeRO paper beside zr's plans, with the deviation; as aligned text or one JSON document.
 */
ZR_NODISCARD zr_status cli_papers_table1(FILE *out, bool json);
ZR_NODISCARD zr_status cli_papers_table2(FILE *out, bool json);
/** Print the run configurations of the SC20 paper's appendix, and C1 to C5, in the same way. */
ZR_NODISCARD zr_status cli_papers_configs(FILE *out, bool json);

/** Times of the steps of a plan, and their source. */
typedef struct cli_times {
    zr_step_time *time; /* times of each step of the training schedule; NULL: not known */
    zr_price price;
    const char *by; /* name of the machine or cluster whose rates were used */
} cli_times;
/** Price the steps by the rates of `profile`, if it has them. Free with cli_times_clear. */
ZR_NODISCARD zr_status cli_times_make(const zr_plan *plan, const zr_profile *profile, cli_times *times);
void cli_times_clear(cli_times *times);

/** Draw a training step (memory map, streams) as SVG into a file, over `times` where they are known. The file must not
 * be one of `inputs` (zr__output_open). ZR_ERR_CREATE, ZR_ERR_IO. */
ZR_NODISCARD zr_status cli_picture_write(const char *path, const char *const *inputs, const zr_plan *plan,
                                         const cli_times *times, const char *model, int64_t whole_states_bytes);
/** Return the bytes of model states on a rank at stage 0, for that picture; 0: not known. */
int64_t cli_whole_states_bytes(const zr_config *config, int ranks, const zr_profile *profile);

/** Set up the compute libraries in this process, before they compute. May start the program again, once. */
void cli_set_process(void);
/** Let this process use all processors: launchers bind a rank to fewer than its share of the host, which zr promises.
 */
void cli_leave_binding(void);
/** Run ranks that are threads of this process. One rank runs on this thread, with the worker threads that exist
 * already. Returns as zr_comm_threads_run. */
ZR_NODISCARD zr_status cli_ranks_run(int ranks, zr_status (*rank)(zr_comm *comm, void *arg), void *arg);

/* ---- timings --------------------------------------------------------------------------------- */

/** Print a table of where a step's time goes, at most 100 columns. */
void cli_timings_print(FILE *out, const zr_timings *timings);

/* ---- progress -------------------------------------------------------------------------------- */

typedef struct cli_progress {
    bool quiet, color, live;
    int64_t every;         /* steps between plain lines */
    double begin;          /* seconds */
    int64_t from;          /* steps that the run had done before */
    int64_t peak_bytes;    /* bytes of a rank as planned, and thus as measured */
    double shown;          /* time of the last write of the refreshing line */
    bool timed;            /* --timings was given */
    zr_timings timings;    /* set at the end of the run; .steps 0: not set */
    struct cli_loss *loss; /* the run's picture */
    zr_comm *comm;         /* under a launcher; NULL: one process */
} cli_progress;

/** Return callbacks that write a run's progress to stderr; `progress` is borrowed. */
zr_observer cli_progress_observer(cli_progress *progress);
/** Return whether stderr is a terminal on which a line can be redrawn. */
bool cli_live(void);
void cli_line_clear(void);
/** Progress of some task: one refreshing line with the time left. Zero but for `what`. */
typedef struct cli_amount_done {
    const char *what;    /* "tok" */
    int64_t first;       /* amount done at the first call */
    double begin, shown; /* seconds */
} cli_amount_done;
/** Show the progress. arg: a cli_amount_done. */
void cli_show_done(void *arg, int64_t done, int64_t of);

/** End the refreshing line, if there is one. */
void cli_progress_end(const cli_progress *progress);

/** Report ranks that hang, as an observer's `hang`; arg: a cli_progress. Ends the job when the wait is over. */
void cli_hang(void *arg, zr_hang_event event, const char *line);

/** Reserve memory for a library whose allocation fails, and take over jansson's allocations. */
void cli_alloc_begin(void);
/** Check that no library lacked memory. ZR_ERR_MEMORY: jansson then leaves out a value, or takes a text for no JSON. */
ZR_NODISCARD zr_status cli_alloc_check(void);
/** Hooks by which the program of tests fails on request (tests/fault/fault.c); all NULL in zr itself. */
typedef struct cli_fault_hooks {
    zr_status (*begin)(void); /* called once before a command runs */
    bool (*allocation)(void); /* return whether this allocation of a library is to fail */
    void (*reached)(void *arg, int rank, const char *phase, int64_t step); /* an observer's `reached` */
} cli_fault_hooks;
extern cli_fault_hooks cli_faults;

/** Catch signals from here on: SIGINT, SIGTERM, SIGUSR1 and, unless ignored, SIGHUP ask to stop; a second SIGINT, and
 * SIGTERM some time after the first signal, end the process. SIGUSR2 asks to save. `speak`: the first signal is
 * answered at once, over a line that is redrawn. */
void cli_signals_catch(bool speak, bool on_live_line);
/** Let a SIGTERM end this process at once, with `code`, when a process of this communicator is gone or has told that
 * the job ends: launchers then send one, and there is no peer to save with. NULL: no more; call it before the
 * communicator goes. */
void cli_signals_peers(zr_comm *comm, int code);
/** Tell that training begins or has ended: only in between is a signal answered with the step after which the run
 * stops. */
void cli_signals_training(bool begins);
/** Return whether a signal has asked to stop. An observer's `stop`. */
bool cli_signals_asked(void *arg);
/** Return whether SIGUSR2 was received since the last call. An observer's `save`. */
bool cli_signals_save(void *arg);

#endif
