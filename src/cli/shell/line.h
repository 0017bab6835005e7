/** A line of progress on stderr. If stderr is a terminal, the line is fitted to its width and redrawn in place. */
#ifndef ZR_CLI_SHELL_LINE_H
#define ZR_CLI_SHELL_LINE_H

#include "zr/base.h"

#define CLI_REFRESH_SEC 0.1 /* minimum seconds between redraws, as faster redraws would not be seen */

/* A field of a line. On a narrow terminal, the fields with the highest `rank` are dropped first. */
typedef struct cli_line_field {
    int rank; /* 0 if the field is never dropped */
    char text[64];
} cli_line_field;

#define CLI_LINE_FIELDS 12
/** A line of fields. Zero-initialise. */
typedef struct cli_line {
    cli_line_field field[CLI_LINE_FIELDS];
    int n;
} cli_line;

void cli_line_add(cli_line *line, int rank, const char *format, ...) ZR_PRINTF(3, 4);
/** Write a line over the line that was written before. */
void cli_line_rewrite(const cli_line *line);
/** Print a line that stays. If `live`, stderr is a terminal, and the line is cut to its width. In a file, the line has
 * its full length. */
void cli_line_leave(const cli_line *line, bool live);
/** Write bytes to stderr. Ignore a failure, so that a run goes on if its terminal is closed. */
void cli_put_stderr(const char *text, size_t length);

/** Estimate the time left of a task that began at `begin` and has done `done` of `of` units. Write the time into
 * `text`. Return `text`. */
const char *cli_time_left(double begin, int64_t done, int64_t of, char text[32]);
#define CLI_TIME_LEFT(begin, done, of) cli_time_left((begin), (done), (of), (char[32]){0})

/** Return whether stderr is a terminal on which lines can be redrawn. */
bool cli_live(void);
void cli_line_clear(void);

/** Progress of a task, shown as one redrawn line with the time left. Set `what`, and set all other fields to zero. */
typedef struct cli_amount_done {
    const char *what;    /* unit of the amount, such as "tok" */
    int64_t first;       /* amount that was done at the first call */
    double begin, shown; /* times by zr_clock_sec: of the first call, and of the last redraw */
} cli_amount_done;

/** Show the progress of a task. `arg` is a cli_amount_done. */
void cli_show_done(void *arg, int64_t done, int64_t of);

#endif
