/* A line of progress on stderr, fitted to the width of the terminal and redrawn in place. */
#include "cli/shell/line.h"

#include "base/text/text.h"
#include "cli/shell/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define LINE_BYTES 512

void cli_put_stderr(const char *text, size_t length)
{
    /* ignore a failure, because a run goes on if its terminal is closed */
    if (write(STDERR_FILENO, text, length) < 0) return;
}

static int terminal_columns(void)
{
    const char *given = getenv("COLUMNS");
    struct winsize size;
    int wide = given ? atoi(given) : 0;
    if (wide <= 0 && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0) wide = size.ws_col;
    return wide <= 1 ? 80 : wide < LINE_BYTES ? wide : LINE_BYTES;
}

const char *cli_time_left(double begin, int64_t done, int64_t of, char text[32])
{
    double sec = (zr_clock_sec() - begin) / (double)done * (double)(of - done);
    long s = (long)(sec + 0.5);
    if (s >= 3600)
        snprintf(text, 32, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, 32, "%ld:%02ld", s / 60, s % 60);
    return text;
}

void cli_line_add(cli_line *line, int rank, const char *format, ...)
{
    cli_line_field *f = &line->field[line->n++];
    f->rank = rank;
    ZR_PRINT_ARGS(f->text, format);
}

/** Join the fields of a line, separated by `between`, to a text of at most `wide` columns. If the text is too long,
 * drop the fields with the highest `rank` first, but never a field with rank 0. If the text is still too long, cut it.
 * */
static void fit_line(const cli_line *line, int wide, const char *between, char out[LINE_BYTES])
{
    for (int rank = CLI_LINE_FIELDS; rank >= 0; rank--) {
        int n = 0;
        out[0] = '\0';
        for (int i = 0; i < line->n; i++) {
            if (line->field[i].rank > rank) continue;
            n += snprintf(out + n, (size_t)(LINE_BYTES - n), "%s%s", n ? between : "", line->field[i].text);
        }
        if (n <= wide) return;
    }
    out[wide] = '\0';
}

void cli_line_rewrite(const cli_line *l)
{
    char line[LINE_BYTES], out[LINE_BYTES + 16];
    /* Leave the last column empty, because some terminals start a new line when this column is written. */
    fit_line(l, terminal_columns() - 1, "  ", line);
    int n = snprintf(out, sizeof(out), "\r%s\033[K", line);
    cli_put_stderr(out, (size_t)n);
}

void cli_line_leave(const cli_line *l, bool live)
{
    char line[LINE_BYTES], out[LINE_BYTES + 16];
    fit_line(l, live ? terminal_columns() - 1 : LINE_BYTES - 1, " | ", line);
    int n = snprintf(out, sizeof(out), "%s%s\n", live ? "\r\033[K" : "", line);
    cli_put_stderr(out, (size_t)n);
}

void cli_show_done(void *arg, int64_t done, int64_t of)
{
    cli_amount_done *d = arg;
    cli_line l = {0};
    double now = zr_clock_sec();
    if (now - d->shown < CLI_REFRESH_SEC) return;
    d->shown = now;
    cli_line_add(&l, 0, "%s of %s%s", ZR_AMOUNT((double)done), ZR_AMOUNT((double)of), d->what);
    if (d->first > 0) cli_line_add(&l, 1, "left %s", CLI_TIME_LEFT(d->begin, done - d->first, of - d->first));
    cli_line_rewrite(&l);
    if (d->first > 0) return;
    d->begin = now; /* measure the rate from here on, because the time before includes setup */
    d->first = done;
}

bool cli_live(void)
{
    return cli_is_terminal(STDERR_FILENO);
}

void cli_line_clear(void)
{
    cli_put_stderr("\r\033[K", 4);
}
