/** The report of runs: what its files share. Every figure is one of metrics.jsonl, run.json or config.json; what is
 *  missing there, or damaged, is a note. */
#ifndef ZR_CLI_REPORT_H
#define ZR_CLI_REPORT_H

#include "cli/draw/curve.h"

#include <jansson.h>

/** What every report begins with. */
#define REPORT_HEAD "<!doctype html>\n<!-- zr report -->\n"

/** A figure of a run, with its words. */
typedef struct cli_fact {
    const char *key, *label; /* of JSON; for people */
    char text[160];          /* "" : not known */
    double value;            /* NAN: it is text, or not known */
} cli_fact;
#define REPORT_FACTS 24
#define REPORT_NOTES 12
#define REPORT_SAMPLES 20

typedef struct cli_report_run {
    const char *dir, *name;
    cli_curve *curve;
    json_t *config, *facts; /* config.json, run.json; NULL: not there, or damaged */
    json_t *samples;        /* the last lines of metrics.jsonl with a text, at most REPORT_SAMPLES of them */
    cli_fact fact[REPORT_FACTS];
    int n_facts;
    char note[REPORT_NOTES][512]; /* what is not as one would expect */
    int n_notes;
} cli_report_run;

typedef struct cli_report {
    cli_report_run *run;
    int n;
    cli_curve **curve; /* (n) those of the runs */
    json_t *different; /* of several runs: key to an array of values, null where a run has none */
} cli_report;

/** What is drawn over steps. */
typedef struct cli_quantity {
    const char *key, *title, *unit; /* the key of metrics.jsonl */
    size_t offset;                  /* of its series in cli_curve */
    bool may_log, from_zero;
    bool noisy; /* of many steps the mean is drawn */
} cli_quantity;
extern const cli_quantity cli_quantities[];
extern const int cli_n_quantities;
const curve_series *cli_series_of(const cli_curve *curve, const cli_quantity *quantity);

/** A part of a plan or of what was measured: memory or traffic, as run.json has it. */
typedef struct cli_bytes_row {
    char path[96], words[96]; /* "memory.param", "parameters" */
    json_int_t planned, measured;
    bool total;
} cli_bytes_row;
#define REPORT_ROWS 64
/** Rows of `part` ("memory", "traffic"), largest place first as run.json has them; how many. */
int cli_report_rows(const cli_report_run *run, const char *part, cli_bytes_row row[REPORT_ROWS]);

/** Read the runs in directories (metrics.jsonl alone will do). ZR_ERR_NOT_FOUND: nothing of a run is there;
 *  ZR_ERR_MEMORY. cli_report_clear in any case. */
ZR_NODISCARD zr_status cli_report_read(cli_report *report, const char *const *dir, const char *const *name, int n);
void cli_report_clear(cli_report *report);

/** Where a path of an object ("measured.memory.total") leads; NULL. */
const json_t *cli_json_at(const json_t *object, const char *path);

/** The page: HTML with pictures and style in it, which the caller frees (free). ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status cli_report_html(const cli_report *report, char **html, size_t *bytes);
/** The same figures as one JSON document. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status cli_report_json(FILE *out, const cli_report *report, const char *file);
/** A short account, with the losses as a small picture of letters. */
void cli_report_text(FILE *out, const cli_report *report);

#endif
