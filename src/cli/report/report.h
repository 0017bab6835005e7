/** cli/report: commands that look at runs, `zr report` (cmd_report.c) and `zr plot` (cmd_plot.c). report_read.c finds
 * the figures of a run, from metrics.jsonl, run.json and config.json alone; a missing or damaged figure is a note.
 * report_html.c, report_json.c and report_terminal.c show them; curves are cli/draw's. */
#ifndef ZR_CLI_REPORT_H
#define ZR_CLI_REPORT_H

#include "cli/shell/args.h"
#include "cli/draw/panel.h"

#include <jansson.h>

/** Beginning of every report. */
#define REPORT_HEAD "<!doctype html>\n<!-- zr report -->\n"

/** A figure of a run, with its words. */
typedef struct cli_fact {
    const char *key, *label; /* key in JSON; label for people */
    char text[160];          /* "" : not known */
    double value;            /* NAN: the figure is text, or not known */
} cli_fact;
#define REPORT_FACTS 24
#define REPORT_NOTES 12
#define REPORT_SAMPLES 20

typedef struct cli_report_run {
    const char *dir;
    cli_curve *curve;
    json_t *config, *facts; /* config.json, run.json; NULL: missing or damaged */
    json_t *samples;        /* the last lines of metrics.jsonl with a text, at most REPORT_SAMPLES */
    cli_fact fact[REPORT_FACTS];
    int n_facts;
    char note[REPORT_NOTES][512]; /* unexpected facts, for the reader */
    int n_notes;
} cli_report_run;

typedef struct cli_report {
    cli_report_run *run;
    int n;
    cli_curve **curve;       /* (n) the runs' curves */
    const char *const *name; /* (n) */
    json_t *different;       /* with several runs: key to an array of values, null where a run has no value */
} cli_report;

/** A row of the memory or traffic of run.json, planned and measured, bytes. */
typedef struct cli_bytes_row {
    char path[96], words[96]; /* "memory.param", "parameters" */
    json_int_t planned, measured;
    bool total;
} cli_bytes_row;
#define REPORT_ROWS 64
/** Fill the rows of `part` ("memory", "traffic"), largest place first as run.json has them; return their number. */
int cli_report_rows(const cli_report_run *run, const char *part, cli_bytes_row row[REPORT_ROWS]);

/** Parse a command line that names at least one run; with --help print the help and set args->help. ZR_ERR_ARG. */
ZR_NODISCARD zr_status cli_parse_runs(cli_args *args, const cli_command *command, int argc, char **argv);
/** Name each run by its path after the last folder that all paths have in common, without trailing slashes; a single
 * run keeps its whole path. room: (n), storage of the names. */
void cli_runs_name(const char *const *run, int n, char (*room)[PATH_MAX], const char **name);

/** Read the runs in directories (metrics.jsonl alone is enough). ZR_ERR_NOT_FOUND: a directory has no file of a run;
 * ZR_ERR_MEMORY. `name` is borrowed. Free with cli_report_clear in any
 * case. */
ZR_NODISCARD zr_status cli_report_read(cli_report *report, const char *const *dir, const char *const *name, int n);
void cli_report_clear(cli_report *report);

/** Return the value at a path of an object ("measured.memory.total"), NULL if it is missing. */
const json_t *cli_json_at(const json_t *object, const char *path);

/** Write the page: HTML with pictures and style in it, which the caller frees (free). ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status cli_report_html(const cli_report *report, char **html, size_t *bytes);
/** Write the figures as one JSON document. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status cli_report_json(FILE *out, const cli_report *report, const char *file);
/** Write a short summary, with the losses as a curve of characters. */
void cli_report_terminal(FILE *out, const cli_report *report);

#endif
