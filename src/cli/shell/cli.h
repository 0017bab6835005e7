/** The command `zr`: what its files share. Statuses come back to main, which alone turns them into exit codes. */
#ifndef ZR_CLI_CLI_H
#define ZR_CLI_CLI_H

#include "base/output.h"
#include "base/text.h"
#include "zr/train.h"

#include <stdio.h>

/* ---- options --------------------------------------------------------------------------------- */

typedef enum cli_kind {
    CLI_FLAG, /* bool */
    CLI_TEXT, /* const char * */
    CLI_INT,  /* int64_t */
    CLI_REAL, /* double */
    CLI_LIST, /* cli_list: once for each time that it is given */
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
    const char *value; /* "N" in the help; NULL: none */
    const char *help;
} cli_option;

typedef enum cli_color { CLI_COLOR_AUTO, CLI_COLOR_ALWAYS, CLI_COLOR_NEVER } cli_color;

#define CLI_MAX_OPERANDS 256 /* runs in one picture */
#define CLI_MAX_OVERRIDES 256

/** A command line, taken apart. */
typedef struct cli_args {
    const char *command;
    const cli_option *options; /* the command's own */
    bool keys;                 /* --key.path=value goes to the configuration */
    int max_operands;
    bool help, json, quiet;
    bool by_memory; /* what is not given is left to --memory */
    bool recipe;    /* a preset trains by the recipe for its size (zr_config_take_recipe) */
    cli_color color;
    const char *operand[CLI_MAX_OPERANDS];
    int n_operands;
    const char *override[CLI_MAX_OVERRIDES];
    int n_overrides;
} cli_args;

typedef struct cli_command cli_command;

/** ZR_ERR_ARG (usage), ZR_ERR_UNSUPPORTED. */
ZR_NODISCARD zr_status cli_parse(cli_args *args, int argc, char **argv);
/** Likewise for a command that needs all of args->max_operands, which `what` names; where help was asked for it is
 *  printed, and args->help is set. */
ZR_NODISCARD zr_status cli_parse_operands(cli_args *args, const cli_command *command, const char *what, int argc,
                                          char **argv);
/** Put an override before those of the command line, which win; its text lives in `room`. */
ZR_NODISCARD zr_status cli_override(cli_args *args, char room[256], const char *format, ...) ZR_PRINTF(3, 4);

/** "5400", "90m", "3h", "1d12h" in seconds; ZR_ERR_ARG naming the option. */
ZR_NODISCARD zr_status cli_duration(const char *option, const char *text, double *sec);

/** The exit code of a status, as docs and scripts know it. */
int cli_exit_code(zr_status status);

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

/** The keys of the configuration in the help of a command. */
typedef enum cli_help_keys {
    CLI_KEYS_NONE,  /* it takes none */
    CLI_KEYS_NAMED, /* where they are told */
    CLI_KEYS_ALL    /* they alone: `zr train -h keys` */
} cli_help_keys;

/** Find whether the word behind -h asks for the keys, in the help of a command that takes them. */
cli_help_keys cli_help_asked(const cli_args *args);
/** Help of one command on stdout: examples first, then options; or the configuration's table. */
void cli_help(const cli_command *command, const cli_option *options, cli_help_keys keys);
/** From now on cli_help gives what it was given to `form` (NULL: prints it for people): so shells and manuals learn of
 *  options that only the command itself knows. */
typedef void cli_help_form(const cli_command *command, const cli_option *options, bool keys);
void cli_help_as(cli_help_form *form);

/** The configuration of a command line, not settled yet: operand 0 (or none) and its overrides. */
ZR_NODISCARD zr_status cli_config_load(const cli_args *args, zr_config **config);
/** Load and settle the configuration of a command line: operand 0 (or none) and its overrides. *own_dir (may
 *  be NULL): none was given to the run. */
ZR_NODISCARD zr_status cli_config(const cli_args *args, int ranks, int64_t unix_sec, zr_config **config, bool *own_dir);
/** Make the directory of a run that was given none (it has its name from zr_train_prepare): the first of that name,
 * name-2, name-3 ... that is not there; the configuration then names it. Collective, comm NULL: one process.
 * ZR_ERR_CREATE. */
ZR_NODISCARD zr_status cli_own_dir_make(zr_config *config, zr_comm *comm);
/** On the process that made it: remove it when the run left nothing in it. */
void cli_own_dir_drop(const zr_config *config);
/** Of parameters and activations. */
const char *cli_type_name(const zr_config *config);

/* ---- messages -------------------------------------------------------------------------------- */

/** "zr: " and a message on stderr, control bytes escaped, at most 12 lines. */
void cli_say(const char *format, ...) ZR_PRINTF(1, 2);
/** The last failure of this thread. */
void cli_say_error(void);
/** Flush stdout; ZR_ERR_IO when something could not be written. */
ZR_NODISCARD zr_status cli_flush(void);
/** Did that fail because who reads stdout has seen enough, as `head` does? Then the command ends quietly, with 0. */
bool cli_reader_left(void);
/** ZR_ERR_CREATE when stdout goes to a file that is read (zr__output_open says how `inputs` name them): asked before
 *  anything is written. */
ZR_NODISCARD zr_status cli_check_stdout(const char *const *inputs);
/** The pictures that commands draw. */
extern const zr__output_kind cli_svg_kind;
/** Does a launcher (MPI, Slurm) run this process? Then stderr is no terminal, whatever isatty says. */
bool cli_launched(void);
#define CLI_BOLD "\033[1m"
#define CLI_PLAIN "\033[0m"
/** Colours on stderr? */
bool cli_colored(cli_color color);
/** Colours on stdout? */
bool cli_colored_out(cli_color color);

/** "1.23 GB" (10^9 bytes) into text; returns it. */
const char *cli_bytes(double bytes, char text[32]);
/** A number up to its unit, "1.23 T" or "12 "; returns text. */
const char *cli_amount(double amount, char text[32]);
/** How many parameters, and where not all train how many do: "1.2 M (300 k train)"; returns text. */
const char *cli_params(int64_t params, int64_t trained, char text[80]);
/** "12.3 ms", "2.5 h"; returns text. */
const char *cli_seconds(double sec, char text[32]);

/** Text as a JSON string; bytes that are not UTF-8 become U+FFFD, what a terminal would obey is escaped. */
void cli_json_print(FILE *out, const char *text, int64_t bytes);
/** Print JSON that is a text already, as jansson writes it: what a terminal would obey is escaped. */
void cli_json_put_text(FILE *out, const char *json);
/** As a JSON number, null when it is not finite. Returns `text` or a constant. */
const char *cli_json_number(double x, char text[ZR_NUMBER_BYTES]);

/* ---- plans ----------------------------------------------------------------------------------- */

/** Memory by category, traffic and FLOPs of stages 0-3 side by side. */
typedef struct cli_table {
    zr_report report[4];
    bool planned[4];
    int chosen;           /* its column is marked */
    int64_t memory_bytes; /* of a rank, to say what fits on a device of these facts; 0: not asked */
    const zr_device_facts *facts;
} cli_table;

/** What a rank takes beside its plan's total, in words (zr_train_rank_bytes). */
const char *cli_beside(const zr_device_facts *facts);
/** What a category holds, in words. */
const char *cli_category_words(zr_category category);
/** "none", "unit/4"; returns text. */
const char *cli_recompute_name(zr_recompute recompute, int64_t every, char text[32]);
/** Of one rank and step, all kinds. */
double cli_traffic_bytes(const zr_report *report);
/** Reports of every stage of a resolved configuration, whose plan is `chosen`; stages that cannot be planned are left
 *  out. */
void cli_table_fill(cli_table *table, const zr_config *config, const zr_plan *chosen);
void cli_table_print(FILE *out, const cli_table *table, bool color);
/** With parallel.tensor above 1, else nothing: what the ranks that share layers receive from each other in a step, over
 *  what stage 3 would move if each of these ranks had every layer instead (the papers' b s / (3 h) is that of the
 * blocks alone, with 12 b s h a block, as policy paper counts), by what it is for, and the parameters that each of them
 * has. */
ZR_NODISCARD zr_status cli_within_print(FILE *out, const zr_config *config, const zr_plan *plan,
                                        const zr_profile *profile);
/** The same as members of a JSON object: tensor_to_stage3 (null: there is no such layout), within_layers, replicated.
 */
ZR_NODISCARD zr_status cli_within_json(FILE *out, const zr_config *config, const zr_plan *plan,
                                       const zr_profile *profile);
/** The train schedule, a step a line. */
void cli_schedule_print(FILE *out, const zr_plan *plan);

/** What --profile names: a machine that zr knows, or a file (with a slash, or ending in .json) with its rates, one's
 * own or the document of `zr info --bench --json`. ZR_ERR_ARG; of a file ZR_ERR_NOT_FOUND, ZR_ERR_CONFIG, ZR_ERR_DATA.
 */
ZR_NODISCARD zr_status cli_profile(const char *name, zr_profile *profile);
/** Is there a shape of that name? ZR_ERR_ARG: an unknown name is a mistake of the command line. */
ZR_NODISCARD zr_status cli_preset(const char *name);

/** The shapes that have a name, with sizes and parameters. */
ZR_NODISCARD zr_status cli_shapes_print(FILE *out, bool json);

/** Tables 1 and 2 of the ZeRO paper: what zr plans beside what the paper prints, and the deviation; as aligned text or
 *  one JSON document. */
ZR_NODISCARD zr_status cli_papers_table1(FILE *out, bool json);
ZR_NODISCARD zr_status cli_papers_table2(FILE *out, bool json);
/** Likewise the run configurations of the SC20 paper's appendix, and C1 to C5. */
ZR_NODISCARD zr_status cli_papers_configs(FILE *out, bool json);

/** When the steps of a plan run, and who says so. */
typedef struct cli_times {
    zr_step_time *time; /* of each step of training; NULL: not known */
    zr_price price;
    const char *by; /* a machine or a cluster */
} cli_times;
/** By the rates of `profile`, where it has them; cli_times_clear. */
ZR_NODISCARD zr_status cli_times_make(const zr_plan *plan, const zr_profile *profile, cli_times *times);
void cli_times_clear(cli_times *times);

/** Draw a training step (memory map, streams) as SVG into a file that is none of `inputs` (zr__output_open), over
 *  `times` where they are known. ZR_ERR_CREATE, ZR_ERR_IO. */
ZR_NODISCARD zr_status cli_picture_write(const char *path, const char *const *inputs, const zr_plan *plan,
                                         const cli_times *times, const char *model, int64_t whole_states_bytes);
/** Bytes of model states on a rank at stage 0, for that picture; 0: not known. */
int64_t cli_whole_states_bytes(const zr_config *config, int ranks, const zr_profile *profile);

/** Settings of the libraries that compute, before they do. May start the program again, once. */
void cli_set_process(void);
/** Launchers bind a rank to fewer processors than its share of the host; the share is what is promised. */
void cli_leave_binding(void);

/* ---- timings --------------------------------------------------------------------------------- */

/** A table of where a step's time goes, at most 100 columns. */
void cli_timings_print(FILE *out, const zr_timings *timings);

/* ---- progress -------------------------------------------------------------------------------- */

typedef struct cli_progress {
    bool quiet, color, live;
    int64_t every;         /* steps between plain lines */
    double begin;          /* seconds */
    int64_t from;          /* steps that were done before */
    int64_t peak_bytes;    /* of a rank, planned and therefore true */
    double shown;          /* when the refreshing line was last written */
    bool timed;            /* where the time goes was asked for */
    zr_timings timings;    /* at the end; .steps 0: not there */
    struct cli_loss *loss; /* the run's picture */
    zr_comm *comm;         /* under a launcher; NULL: one process */
} cli_progress;

/** Callbacks that write a run's progress to stderr; `progress` is borrowed. */
zr_observer cli_progress_observer(cli_progress *progress);
/** Is stderr a terminal on which a line may be written again and again? */
bool cli_live(void);
void cli_line_clear(void);
/** How much of something is done: one refreshing line with what is left. Zero but for `what`. */
typedef struct cli_amount_done {
    const char *what;    /* "tok" */
    int64_t first;       /* done at the first call */
    double begin, shown; /* seconds */
} cli_amount_done;
/** arg: a cli_amount_done. */
void cli_show_done(void *arg, int64_t done, int64_t of);

/** End the refreshing line, if there is one. */
void cli_progress_end(const cli_progress *progress);

/** An observer's `hang`; arg: a cli_progress. Ends the job when it is over. */
void cli_hang(void *arg, zr_hang_event event, const char *line);

/** Read ZR_FAULT, by which tests let something fail: (kill|stop|hang):RANK@PHASE[:STEP], alloc:N, write:N. ZR_ERR_ARG.
 */
ZR_NODISCARD zr_status cli_fault_read(void);
/** Is this allocation of a library's to fail? */
bool cli_fault_allocation(void);
/** Put memory by for a library that gets none, and let jansson's allocations be the command's. */
void cli_alloc_begin(void);
/** ZR_ERR_MEMORY once a library has got none: jansson then leaves out a value, or takes a text for no JSON. */
ZR_NODISCARD zr_status cli_alloc_check(void);
/** Is a rank to die? Then this is an observer's `reached`. */
bool cli_fault_asked(void);
void cli_fault_reached(void *arg, int rank, const char *phase, int64_t step);

/** From here on SIGINT, SIGTERM, SIGUSR1 and, unless ignored, SIGHUP ask to stop; a second SIGINT, and SIGTERM some
 *  time after the first signal, end the process. SIGUSR2 asks to save. `speak`: the first is answered at once, over a
 *  line that is redrawn. */
void cli_signals_catch(bool speak, bool on_live_line);
/** A SIGTERM that comes when a process of this communicator is gone or has told that the job ends, as launchers send
 *  it, ends this one at once, with `code`: there is nobody to save anything with. NULL: no more; before the
 * communicator goes. */
void cli_signals_peers(zr_comm *comm, int code);
/** Training begins or has ended: only between the two is a signal answered with the step that the run stops after. */
void cli_signals_training(bool begins);
/** Was one of them received? An observer's `stop`. */
bool cli_signals_asked(void *arg);
/** Was SIGUSR2 received since this was asked last? An observer's `save`. */
bool cli_signals_save(void *arg);

#endif
