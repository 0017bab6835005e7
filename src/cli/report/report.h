/** cli/report: the commands `zr report` (cmd_report.c) and `zr plot` (cmd_plot.c), which show runs. report_read.c reads
 * the figures of a run from metrics.jsonl, run.json and config.json, and adds a note on each missing or damaged file.
 * report_html.c, report_json.c and report_terminal.c show the figures. cli/draw draws the curves. */
#ifndef ZR_CLI_REPORT_H
#define ZR_CLI_REPORT_H

#include "cli/shell/args.h"
#include "cli/draw/page.h"
#include "cli/draw/panel.h"
#include "cli/shell/message.h"

#include <jansson.h>

/** The first lines of every HTML report. */
#define REPORT_HEAD "<!doctype html>\n<!-- zr report -->\n"

/** File type of HTML reports, for zr__output_check. */
extern const zr__output_kind cli_report_kind;

#define REPORT_FACTS 24
#define REPORT_NOTES 12
#define REPORT_SAMPLES 20

typedef struct cli_report_run {
    const char *dir;
    cli_curve *curve;
    json_t *config, *facts; /* contents of config.json and run.json; NULL if the file is missing or damaged */
    json_t *samples;        /* last REPORT_SAMPLES lines of metrics.jsonl that have a sample text */
    cli_fact fact[REPORT_FACTS];
    int n_facts;
    char note[REPORT_NOTES][512]; /* notes for the reader on unexpected facts, such as a missing file */
    int n_notes;
} cli_report_run;

typedef struct cli_report {
    cli_report_run *run;
    int n;
    cli_curve **curve;       /* `n` curves, one for each run */
    const char *const *name; /* `n` names, one for each run */
    /* configuration keys that differ between runs; for each key an array of one value per run, null for a run without
     * the key */
    json_t *different;
} cli_report;

/** A row of the table of memory or traffic: planned and measured bytes from run.json. */
typedef struct cli_bytes_row {
    /* `path`: path in run.json, such as "memory.param"; `words`: label for people, such as "parameters" */
    char path[96], words[96];
    json_int_t planned, measured;
    bool total;
} cli_bytes_row;
#define REPORT_ROWS 64
/** Fill in the rows of `part`, which is "memory", "traffic" or "copied", in the order of run.json. Return the number of
 * rows. */
int cli_report_rows(const cli_report_run *run, const char *part, cli_bytes_row row[REPORT_ROWS]);

/** Name each run by its path, without trailing slashes and without the leading folders that all paths share. For
 * example, "out/a" and "out/b" become "a" and "b". A single run keeps its whole path. The names are stored in `room`,
 * which has `n` buffers. */
void cli_runs_name(const char *const *run, int n, char (*room)[PATH_MAX], const char **name);

/** Fail with ZR_ERR_NOT_FOUND, because a directory holds no run. The message says which directory is wanted. */
ZR_NODISCARD zr_status cli_refuse_run(const char *dir);

/** Read the runs in the directories `dir`. Return ZR_ERR_NOT_FOUND if a directory contains neither metrics.jsonl nor
 * the run.json or config.json that a run writes, and ZR_ERR_DATA if its metrics.jsonl has no line that a run writes.
 * Return ZR_ERR_MEMORY if memory is lacking. `name` must outlive the report. Free the report with cli_report_clear,
 * even after a failure. */
ZR_NODISCARD zr_status cli_report_read(cli_report *report, const char *const *dir, const char *const *name, int n);
void cli_report_clear(cli_report *report);

/** Return the value at a path in an object, such as "measured.memory.total". Return NULL if the path is missing. */
const json_t *cli_json_at(const json_t *object, const char *path);

/** Write the report as one HTML page, which includes its pictures and its CSS. The caller releases *html with free().
 * Return ZR_ERR_MEMORY on failure. */
ZR_NODISCARD zr_status cli_report_html(const cli_report *report, char **html, size_t *bytes);
/** Write the HTML page to the file `out`. `inputs` are the directories of the runs, followed by NULL. */
ZR_NODISCARD zr_status cli_report_write(const cli_report *report, const char *out, const char *const *inputs);
/** Write the figures of the report as one JSON document. `file` is the path of the HTML page, for the member "file".
 * Return ZR_ERR_MEMORY on failure. */
ZR_NODISCARD zr_status cli_report_json(FILE *out, const cli_report *report, const char *file);
/** Write a short summary of the report, with the loss curve drawn in characters. */
void cli_report_terminal(FILE *out, const cli_report *report);

#endif
