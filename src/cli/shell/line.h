/** A line of progress on stderr. On a terminal, the line is fitted to the terminal's width and redrawn in place. */
#ifndef ZR_CLI_SHELL_LINE_H
#define ZR_CLI_SHELL_LINE_H

#include "zr/base.h"

#define CLI_REFRESH_SEC 0.1 /* minimum seconds between redraws */

/* A field of a line. On a narrow terminal, fields with the highest `rank` are dropped first. */
typedef struct cli_line_field {
    int rank; /* order of dropping; a field with rank 0 is never dropped */
    char text[64];
} cli_line_field;

#define CLI_LINE_FIELDS 12
/** A line of fields, such as "step 5/100" and "loss 3.2". Zero-initialise. */
typedef struct cli_line {
    cli_line_field field[CLI_LINE_FIELDS];
    int n;
} cli_line;

void cli_line_add(cli_line *line, int rank, const char *format, ...) ZR_PRINTF(3, 4);
/** Write a line over the previous line of the terminal. */
void cli_line_rewrite(const cli_line *line);
/** Print a permanent line. If `live`, stderr is a terminal, and the line is cut to the terminal's width. Otherwise the
 * line has its full length. */
void cli_line_leave(const cli_line *line, bool live);
/** Write bytes to stderr. Ignore a failure, so that a run goes on if its terminal is closed. */
void cli_put_stderr(const char *text, size_t length);

/** Estimate the remaining time of a task that began at `begin` and has done `done` of `of` units. Write the time, such
 * as 12:05, into `text`. Return `text`. */
const char *cli_time_left(double begin, int64_t done, int64_t of, char text[32]);
#define CLI_TIME_LEFT(begin, done, of) cli_time_left((begin), (done), (of), (char[32]){0})

/** Return whether stderr is a terminal on which lines can be redrawn. */
bool cli_live(void);
void cli_line_clear(void);

/** State of a redrawn line that shows a task's progress and remaining time. Set `what`, and set all other fields to
 * zero. */
typedef struct cli_amount_done {
    const char *what;    /* unit of the amount, such as "tok" */
    int64_t first;       /* amount done at the start of the rate measurement */
    double begin, shown; /* time of that start; time of the last redraw; both in seconds by zr_clock_sec */
} cli_amount_done;

/** Show that `done` of `of` units of a task are done. `arg` is a cli_amount_done. */
void cli_show_done(void *arg, int64_t done, int64_t of);

#endif
