/** One line of progress on stderr: fitted to the terminal, and redrawn in place where stderr is one. */
#ifndef ZR_CLI_SHELL_LINE_H
#define ZR_CLI_SHELL_LINE_H

#include "zr/base.h"

#define CLI_REFRESH_SEC 0.1 /* seconds between redraws; no eye follows faster */

/* One part of a line. On a narrow terminal the field with the highest `rank` is dropped first. */
typedef struct cli_line_field {
    int rank; /* 0: never dropped */
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
/** Leave a line in place: whole in a file, as wide as the terminal on a terminal (`live`). */
void cli_line_leave(const cli_line *line, bool live);
/** Write bytes to stderr; a closed terminal does not stop a run. */
void cli_put_stderr(const char *text, size_t length);

/** Write the time that the rest of `of` takes at the rate of the first `done` since `begin`. Returns text. */
const char *cli_time_left(double begin, int64_t done, int64_t of, char text[32]);
#define CLI_TIME_LEFT(begin, done, of) cli_time_left((begin), (done), (of), (char[32]){0})

/** Return whether stderr is a terminal on which a line can be redrawn. */
bool cli_live(void);
void cli_line_clear(void);

/** Progress of some task: one refreshing line with the time left. Zero but for `what`. */
typedef struct cli_amount_done {
    const char *what;    /* "tok" */
    int64_t first;       /* amount done at the first call */
    double begin, shown; /* seconds */
} cli_amount_done;

/** Show the progress. arg: a cli_amount_done. */
void cli_show_done(void *arg, int64_t done, int64_t of);

#endif
