/** One line of progress on stderr, fitted to the terminal. If stderr is a terminal, the line is redrawn in place. */
#ifndef ZR_CLI_SHELL_LINE_H
#define ZR_CLI_SHELL_LINE_H

#include "zr/base.h"

#define CLI_REFRESH_SEC 0.1 /* least seconds between redraws; faster redraws would not be seen */

/* One field of a line. On a narrow terminal, fields with the highest `rank` are dropped first. */
typedef struct cli_line_field {
    int rank; /* 0 for a field that is never dropped */
    char text[64];
} cli_line_field;

#define CLI_LINE_FIELDS 12
/** A line. Zero-initialise. */
typedef struct cli_line {
    cli_line_field field[CLI_LINE_FIELDS];
    int n;
} cli_line;

void cli_line_add(cli_line *line, int rank, const char *format, ...) ZR_PRINTF(3, 4);
/** Write a line over the previous one. */
void cli_line_rewrite(const cli_line *line);
/** Print a line that stays. In a file it has its full length; on a terminal (`live`) it is cut to the terminal's width.
 * */
void cli_line_leave(const cli_line *line, bool live);
/** Write bytes to stderr; a closed terminal does not stop a run. */
void cli_put_stderr(const char *text, size_t length);

/** Estimate the time left from the time since `begin`, in which `done` of `of` units were done. Write it into `text`.
 * Return `text`. */
const char *cli_time_left(double begin, int64_t done, int64_t of, char text[32]);
#define CLI_TIME_LEFT(begin, done, of) cli_time_left((begin), (done), (of), (char[32]){0})

/** Return whether stderr is a terminal on which a line can be redrawn. */
bool cli_live(void);
void cli_line_clear(void);

/** Progress of a task, shown as one refreshing line with the time left. Set `what`; set all other fields to zero. */
typedef struct cli_amount_done {
    const char *what;    /* unit of the amount, such as "tok" */
    int64_t first;       /* amount done at the first call */
    double begin, shown; /* zr_clock_sec at the first call and when the line was last shown */
} cli_amount_done;

/** Show the progress. `arg` is a cli_amount_done. */
void cli_show_done(void *arg, int64_t done, int64_t of);

#endif
