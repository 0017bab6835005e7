/* The progress of a run on stderr: its banner, a line for some of its steps, and on a terminal one that is redrawn. */
#include "cli/draw/curve.h"
#include "comm/comm.h"
#include "zr/checkpoint.h"
#include "zr/run.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define LINE_BYTES 512
#define REFRESH_SEC 0.1 /* seconds; no eye follows faster */

static void put_stderr(const char *text, size_t length)
{
    if (write(STDERR_FILENO, text, length) < 0) return; /* a closed terminal does not stop a run */
}

static int terminal_columns(void)
{
    const char *given = getenv("COLUMNS");
    struct winsize size;
    int wide = given ? atoi(given) : 0;
    if (wide <= 0 && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0) wide = size.ws_col;
    return wide <= 1 ? 80 : wide < LINE_BYTES ? wide : LINE_BYTES;
}

/* Write the time that the rest of `of` takes at the rate of the first `done` since `begin`. Returns text. */
static const char *time_left(double begin, int64_t done, int64_t of, char text[32])
{
    double sec = (zr_clock_sec() - begin) / (double)done * (double)(of - done);
    long s = (long)(sec + 0.5);
    if (s >= 3600)
        snprintf(text, 32, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, 32, "%ld:%02ld", s / 60, s % 60);
    return text;
}
#define TIME_LEFT(begin, done, of) time_left((begin), (done), (of), (char[32]){0})

/* One part of a step's line. On a narrow terminal the field with the highest `rank` is dropped first. */
typedef struct field {
    int rank; /* 0: never dropped */
    char text[64];
} field;

#define MOST_FIELDS 12

typedef struct step_line {
    field field[MOST_FIELDS];
    int n;
} step_line;

static void add_field(step_line *line, int rank, const char *format, ...) ZR_PRINTF(3, 4);
static void add_field(step_line *line, int rank, const char *format, ...)
{
    va_list list;
    field *f = &line->field[line->n++];
    f->rank = rank;
    va_start(list, format);
    vsnprintf(f->text, sizeof(f->text), format, list);
    va_end(list);
}

/** Fit a line into `wide` columns, with `between` between its fields: drop fields from the highest rank on, then cut.
 */
static void fit_line(const step_line *line, int wide, const char *between, char out[LINE_BYTES])
{
    for (int rank = MOST_FIELDS; rank >= 0; rank--) {
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

static void add_share(step_line *line, int rank, double mfu)
{
    if (isfinite(mfu))
        add_field(line, rank, "%.0f%% of peak", 100.0 * mfu);
    else
        add_field(line, rank, "peak n/a");
}

/** Write a line over the previous one. */
static void rewrite_line(const step_line *l)
{
    char line[LINE_BYTES], out[LINE_BYTES + 16];
    /* One column stays free: some terminals wrap when the last is written. */
    fit_line(l, terminal_columns() - 1, "  ", line);
    int n = snprintf(out, sizeof(out), "\r%s\033[K", line);
    put_stderr(out, (size_t)n);
}

static void refresh_step(cli_progress *progress, const zr_train_step *step)
{
    step_line l = {0};
    double now = zr_clock_sec();
    if (now - progress->shown < REFRESH_SEC) return;
    progress->shown = now;
    add_field(&l, 0, "step %lld/%lld", (long long)step->step, (long long)step->steps);
    add_field(&l, 1, "loss %.4f", step->loss);
    add_field(&l, 3, "%stok/s", ZR_AMOUNT(step->tokens_per_sec));
    add_share(&l, 4, step->mfu);
    add_field(&l, 5, "%s a rank", ZR_SIZE((double)progress->peak_bytes));
    add_field(&l, 2, "left %s", TIME_LEFT(progress->begin, step->step - progress->from, step->steps - progress->from));
    rewrite_line(&l);
}

void cli_show_done(void *arg, int64_t done, int64_t of)
{
    cli_amount_done *d = arg;
    step_line l = {0};
    double now = zr_clock_sec();
    if (now - d->shown < REFRESH_SEC) return;
    d->shown = now;
    add_field(&l, 0, "%s of %s%s", ZR_AMOUNT((double)done), ZR_AMOUNT((double)of), d->what);
    if (d->first > 0) add_field(&l, 1, "left %s", TIME_LEFT(d->begin, done - d->first, of - d->first));
    rewrite_line(&l);
    if (d->first > 0) return;
    d->begin = now; /* the time before the first call includes setup: the rate is measured from here */
    d->first = done;
}

/** Leave a line in place: whole in a file, as wide as the terminal on a terminal. */
static void leave_line(const cli_progress *progress, const step_line *l)
{
    char line[LINE_BYTES], out[LINE_BYTES + 16];
    fit_line(l, progress->live ? terminal_columns() - 1 : LINE_BYTES - 1, " | ", line);
    int n = snprintf(out, sizeof(out), "%s%s\n", progress->live ? "\r\033[K" : "", line);
    put_stderr(out, (size_t)n);
}

/** Write the line of a step, of about 100 columns in a file: the rate is in metrics.jsonl as well, the memory in the
 * run's first lines. */
static void leave_step(const cli_progress *progress, const zr_train_step *step)
{
    step_line l = {0};
    add_field(&l, 0, "step %lld/%lld", (long long)step->step, (long long)step->steps);
    add_field(&l, 1, "loss %.5f", step->loss);
    if (isfinite(step->grad_norm))
        add_field(&l, 3, "grad %.4g", step->grad_norm);
    else
        add_field(&l, 3, "grad not finite");
    add_field(&l, 4, "lr %.3g", step->lr);
    add_field(&l, 7, "%.1f ms", 1e3 * step->step_sec);
    add_field(&l, 5, "%stok/s", ZR_AMOUNT(step->tokens_per_sec));
    if (progress->live) add_field(&l, 10, "%.3g TFLOP/s a rank", step->tflops);
    add_share(&l, 8, step->mfu);
    if (progress->live) add_field(&l, 9, "%s a rank", ZR_SIZE((double)progress->peak_bytes));
    add_field(&l, 6, "left %s", TIME_LEFT(progress->begin, step->step - progress->from, step->steps - progress->from));
    if (step->skipped) add_field(&l, 2, "skipped %lld", (long long)step->skipped);
    leave_line(progress, &l);
}

static void on_step(void *arg, const zr_train_step *step)
{
    cli_progress *progress = arg;
    bool last = step->step == step->steps;
    cli_loss_step(progress->loss);
    if (progress->quiet) return;
    if (step->step == progress->from + 1 || last || step->step % progress->every == 0) leave_step(progress, step);
    if (progress->live && !last) refresh_step(progress, step);
}

static void on_eval(void *arg, const zr_train_eval *eval)
{
    const cli_progress *progress = arg;
    step_line l = {0};
    cli_loss_eval(progress->loss);
    if (progress->quiet) return;
    add_field(&l, 0, "step %lld", (long long)eval->step);
    add_field(&l, 1, "val_loss %.5f", eval->val_loss);
    add_field(&l, 2, "%lld tokens", (long long)eval->val_tokens);
    leave_line(progress, &l);
}

static void on_saved(void *arg, const zr_train_save *save)
{
    const cli_progress *progress = arg;
    char name[ZR_CHECKPOINT_NAME_BYTES];
    step_line l = {0};
    if (progress->quiet) return;
    zr_checkpoint_name(save->step, name);
    add_field(&l, 0, "step %lld", (long long)save->step);
    add_field(&l, 1, "saved %s", name);
    add_field(&l, 2, "%s", ZR_SIZE((double)save->bytes));
    add_field(&l, 3, "waited %.3g s", save->sec);
    leave_line(progress, &l);
}

/** Say a note, also with --quiet. */
static void on_warn(void *arg, const char *text)
{
    cli_progress_end(arg);
    cli_say("note: %s", text);
}

static void on_note(void *arg, const char *text)
{
    const cli_progress *progress = arg;
    if (!progress->quiet) on_warn(arg, text);
}

static void print_banner(FILE *out, const zr_train_info *info)
{
    char params[80];
    const char *mpi = strcmp(info->comm->transport, "mpi") == 0 ? zr__comm_mpi_version() : "";
    int end = (int)strcspn(mpi, ",\n");
    const zr_device_facts *facts = &info->plan->profile.facts;
    fprintf(out, "zr %s, kernels %s, %d rank%s x %d thread%s (%s%s%.*s)\n", zr_version(),
            facts->apart ? facts->name : zr_device_cpu_level(), info->comm->size, info->comm->size == 1 ? "" : "s",
            info->threads, info->threads == 1 ? "" : "s", info->comm->transport, end ? ", " : "", end, mpi);
    fprintf(out, "parameters: %s, %s, ZeRO stage %d, %lld steps of %lld x %lld tokens, to %s\n",
            cli_params(info->plan->params, info->plan->trained, params), cli_type_name(info->config),
            info->plan->layout.stage, (long long)info->config->train.steps, (long long)info->config->train_batch_size,
            (long long)info->plan->layout.seq, CLI_SHOWN(info->output_dir));
}

static void on_start(void *arg, const zr_train_info *info)
{
    cli_progress *progress = arg;
    char text[8192];
    cli_table table = {0};
    progress->begin = zr_clock_sec();
    progress->from = info->from_step;
    progress->every = info->config->steps_per_print > 0 ? info->config->steps_per_print : 1;
    progress->peak_bytes = info->plan->memory.total_bytes;
    cli_loss_start(progress->loss, info->output_dir);
    if (progress->quiet) return;
    FILE *out = fmemopen(text, sizeof(text), "w");
    if (!out) return;
    print_banner(out, info);
    cli_table_fill(&table, info->config, info->plan);
    cli_table_print(out, &table, progress->color);
    long length = ftell(out);
    fclose(out);
    put_stderr(text, (size_t)length);
    for (int i = 0; i < zr_config_notes(info->config); i++) cli_say("note: %s", zr_config_note(info->config, i));
}

static void on_timings(void *arg, const zr_timings *timings)
{
    cli_progress *progress = arg;
    progress->timings = *timings;
    if (progress->quiet) return;
    cli_progress_end(progress);
    cli_timings_print(stderr, timings);
}

zr_observer cli_progress_observer(cli_progress *progress)
{
    progress->live = cli_live() && !progress->quiet;
    progress->every = 1;
    return (zr_observer){.arg = progress,
                         .start = on_start,
                         .step = on_step,
                         .eval = on_eval,
                         .saved = on_saved,
                         .note = on_note,
                         .warn = on_warn,
                         .timings = progress->timed ? on_timings : NULL};
}

void cli_progress_end(const cli_progress *progress)
{
    if (progress->live) cli_line_clear();
}

bool cli_live(void)
{
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && !cli_launched() && term && strcmp(term, "dumb") != 0;
}

void cli_line_clear(void)
{
    put_stderr("\r\033[K", 4);
}
