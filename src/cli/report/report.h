/** The report of runs: the types and functions that its files share. Every figure comes from metrics.jsonl, run.json or
 * config.json; a missing or damaged figure is a note. */
#ifndef ZR_CLI_REPORT_H
#define ZR_CLI_REPORT_H

#include "cli/draw/curve.h"
#include "zr/base.h"

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
    const char *dir, *name;
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
    cli_curve **curve; /* (n) the runs' curves */
    json_t *different; /* with several runs: key to an array of values, null where a run has no value */
} cli_report;

/** A quantity drawn over steps. */
typedef struct cli_quantity {
    const char *key, *title, *unit; /* the key of metrics.jsonl */
    size_t offset;                  /* offset of its series in cli_curve */
    bool may_log, from_zero;
    bool noisy; /* the mean is drawn if there are many steps */
} cli_quantity;
extern const cli_quantity cli_quantities[];
extern const int cli_n_quantities;
const curve_series *cli_series_of(const cli_curve *curve, const cli_quantity *quantity);

/** A row of the memory or traffic of run.json, planned and measured, bytes. */
typedef struct cli_bytes_row {
    char path[96], words[96]; /* "memory.param", "parameters" */
    json_int_t planned, measured;
    bool total;
} cli_bytes_row;
#define REPORT_ROWS 64
/** Fill the rows of `part` ("memory", "traffic"), largest place first as run.json has them; return their number. */
int cli_report_rows(const cli_report_run *run, const char *part, cli_bytes_row row[REPORT_ROWS]);

/** Read the runs in directories (metrics.jsonl alone is enough). ZR_ERR_NOT_FOUND: a directory has no file of a run;
 * ZR_ERR_MEMORY. Free with cli_report_clear in any case. */
ZR_NODISCARD zr_status cli_report_read(cli_report *report, const char *const *dir, const char *const *name, int n);
void cli_report_clear(cli_report *report);

/** Return the value at a path of an object ("measured.memory.total"), NULL if it is missing. */
const json_t *cli_json_at(const json_t *object, const char *path);

/** Write the page: HTML with pictures and style in it, which the caller frees (free). ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status cli_report_html(const cli_report *report, char **html, size_t *bytes);
/** Write the figures as one JSON document. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status cli_report_json(FILE *out, const cli_report *report, const char *file);
/** Write a short summary, with the losses as a small picture of characters. */
void cli_report_text(FILE *out, const cli_report *report);

#endif
