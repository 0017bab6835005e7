/** The keys and values of --sweep, and rows of CSV for their combinations. `zr train` has this option too. */
#ifndef ZR_CLI_SWEPT_H
#define ZR_CLI_SWEPT_H

#include "cli/plan/brief.h"

/** A swept key and its values. */
typedef struct cli_swept_key {
    char name[96];         /* name on the command line, such as "batch" */
    const char *key;       /* the swept key of the configuration, or "ranks" */
    const char **value;    /* the axis's `n` values, which point into `override` */
    char (*override)[256]; /* `n` texts of the form "key=value" */
    int n;
} cli_swept_key;

typedef struct cli_swept {
    cli_swept_key axis[CLI_LIST_MOST];
    int n;
    int ranks;    /* index of the axis that varies the number of ranks, or -1 */
    int64_t rows; /* number of combinations; the value on the last axis changes from row to row */
} cli_swept;

/** Read the texts of --sweep. `typed` has the keys of the command line before brief options become keys, and `ranks`
 * the value of --ranks, or 0. There may be `most` combinations. Clear the axes even after a failure. On ZR_ERR_ARG the
 * message names an unknown key, an empty value, one that is given twice, or a key that is given elsewhere too. */
ZR_NODISCARD zr_status cli_swept_read(const cli_list *sweep, const cli_args *typed, const cli_brief *brief,
                                      int64_t ranks, int64_t most, cli_swept *axes);
void cli_swept_clear(cli_swept *axes);

/** Return the value of a row on axis `index`, or the index of that value. */
const char *cli_swept_value(const cli_swept *axes, int64_t row, int index);
int cli_swept_index(const cli_swept *axes, int64_t row, int index);

/** Add the keys of a row to the overrides of a command line. If ranks are swept, set *ranks. */
ZR_NODISCARD zr_status cli_swept_apply(const cli_swept *axes, int64_t row, cli_args *args, int *ranks);
/** Check the swept numbers of ranks. *most receives the largest, or 0 if ranks are not swept. */
ZR_NODISCARD zr_status cli_swept_most_ranks(const cli_swept *axes, int *most);

/** Return the short name of a key for people: the last part of its path. */
const char *cli_swept_word(const cli_swept_key *axis);

/** Print a field of CSV, in quotes if `quotes` is set or if the text needs quotes. */
void cli_csv_field(const char *text, bool quotes);
/** Print a number and a comma: a whole number, such as bytes, with all its digits. Print nothing before the comma
 * unless the number is known. */
void cli_csv_number(double x, bool known);

#endif
