/** cli/report: the commands `zr report` (cmd_report.c) and `zr plot` (cmd_plot.c), which show runs. report_read.c
 * finds the figures of a run from metrics.jsonl, run.json and config.json alone, and adds a note on a missing or
 * damaged file. report_html.c, report_json.c and report_terminal.c show the figures. cli/draw draws the curves. */
#ifndef ZR_CLI_REPORT_H
#define ZR_CLI_REPORT_H

#include "cli/shell/args.h"
#include "cli/draw/panel.h"

#include <jansson.h>

/** The first lines of every HTML report. */
#define REPORT_HEAD "<!doctype html>\n<!-- zr report -->\n"

/** A figure of a run: a number or a text, and its label. */
typedef struct cli_fact {
    const char *key, *label; /* `key` is the figure's key in JSON; `label` is for people */
    char text[160];          /* text of the figure, or "" if unknown */
    double value;            /* NAN if the figure is a text or unknown */
} cli_fact;
#define REPORT_FACTS 24
#define REPORT_NOTES 12
#define REPORT_SAMPLES 20

typedef struct cli_report_run {
    const char *dir;
    cli_curve *curve;
    json_t *config, *facts; /* contents of config.json and run.json; NULL if the file is missing or damaged */
    json_t *samples;        /* the last lines of metrics.jsonl that have a sample text, at most REPORT_SAMPLES lines */
    cli_fact fact[REPORT_FACTS];
    int n_facts;
    char note[REPORT_NOTES][512]; /* notes on unexpected facts that the reader should know */
    int n_notes;
} cli_report_run;

typedef struct cli_report {
    cli_report_run *run;
    int n;
    cli_curve **curve;       /* (n) the runs' curves */
    const char *const *name; /* (n) */
    json_t *different; /* configuration keys whose values differ between several runs; each key has an array with a
                          value for each run, or null if the run has none */
} cli_report;

/** A row of memory or traffic in run.json, with planned and measured bytes. */
typedef struct cli_bytes_row {
    char path[96], words[96]; /* path in run.json and words for people, for example "memory.param" and "parameters" */
    json_int_t planned, measured;
    bool total;
} cli_bytes_row;
#define REPORT_ROWS 64
/** Fill in the rows of `part`, which is "memory" or "traffic", in the order of run.json. Return the number of rows. */
int cli_report_rows(const cli_report_run *run, const char *part, cli_bytes_row row[REPORT_ROWS]);

/** Parse a command line that names at least one run. With --help, print the help and set args->help. Return ZR_ERR_ARG
 * if the command line is wrong. */
ZR_NODISCARD zr_status cli_parse_runs(cli_args *args, const cli_command *command, int argc, char **argv);
/** Name each run by its path, without the leading folders that all paths share and without trailing slashes. A single
 * run keeps its whole path. The names are stored in `room`, which has `n` buffers. */
void cli_runs_name(const char *const *run, int n, char (*room)[PATH_MAX], const char **name);

/** Read the runs in the directories `dir`. It is enough that a directory has metrics.jsonl. Return ZR_ERR_NOT_FOUND if
 * a directory has no file of a run, or ZR_ERR_MEMORY. `name` is borrowed. Free the report with cli_report_clear, even
 * after a failure. */
ZR_NODISCARD zr_status cli_report_read(cli_report *report, const char *const *dir, const char *const *name, int n);
void cli_report_clear(cli_report *report);

/** Return the value at a path in an object, such as "measured.memory.total". Return NULL if the path is missing. */
const json_t *cli_json_at(const json_t *object, const char *path);

/** Write the report as one HTML page that includes its pictures and style. The caller releases *html with free().
 * Return ZR_ERR_MEMORY on failure. */
ZR_NODISCARD zr_status cli_report_html(const cli_report *report, char **html, size_t *bytes);
/** Write the figures of the report as one JSON document. Return ZR_ERR_MEMORY on failure. */
ZR_NODISCARD zr_status cli_report_json(FILE *out, const cli_report *report, const char *file);
/** Write a short summary of the report, with the losses as a curve of characters. */
void cli_report_terminal(FILE *out, const cli_report *report);

#endif
