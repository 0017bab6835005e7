#include "cli/cli.h"

#include "base/text.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define LINE_BYTES 512
#define REFRESH_SEC 0.1 /* no eye follows more */

static void put(const char *text, size_t length)
{
    if (write(STDERR_FILENO, text, length) < 0) return; /* a closed terminal does not stop a run */
}

static int columns(void)
{
    const char *given = getenv("COLUMNS");
    struct winsize size;
    int wide = given ? atoi(given) : 0;
    if (wide <= 0 && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0) wide = size.ws_col;
    return wide > 0 ? wide : 80;
}

static const char *time_left(const cli_progress *progress, const zr_train_step *step, char text[32])
{
    double sec = (zr_clock_sec() - progress->begin) / (double)step->step * (double)(step->steps - step->step);
    long s = (long)(sec + 0.5);
    if (s >= 3600) {
        snprintf(text, 32, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    } else {
        snprintf(text, 32, "%ld:%02ld", s / 60, s % 60);
    }
    return text;
}

static const char *share_of_peak(double mfu, char text[32])
{
    if (isfinite(mfu)) {
        snprintf(text, 32, "%.0f%% of peak", 100.0 * mfu);
    } else {
        snprintf(text, 32, "peak n/a");
    }
    return text;
}

static void refresh(cli_progress *progress, const zr_train_step *step)
{
    char line[LINE_BYTES], out[LINE_BYTES + 16], rate[32], peak[32], memory[32], left[32];
    double now = zr_clock_sec();
    if (now - progress->shown < REFRESH_SEC && step->step < step->steps) return;
    progress->shown = now;
    snprintf(line, sizeof(line), "step %lld/%lld  loss %.4f  %stok/s  %s  %s a rank  left %s", (long long)step->step,
             (long long)step->steps, step->loss, cli_amount(step->tokens_per_sec, rate), share_of_peak(step->mfu, peak),
             cli_bytes((double)progress->peak_bytes, memory), time_left(progress, step, left));
    /* One column stays free: some terminals wrap when the last is written. */
    int n = snprintf(out, sizeof(out), "\r%.*s\033[K", columns() - 1, line);
    put(out, (size_t)n);
}

static void print_line(const cli_progress *progress, const zr_train_step *step)
{
    char line[LINE_BYTES], rate[32], peak[32], memory[32], left[32], norm[32] = "not finite", skipped[48] = "";
    if (isfinite(step->grad_norm)) snprintf(norm, sizeof(norm), "%.4g", step->grad_norm);
    if (step->skipped) snprintf(skipped, sizeof(skipped), " | skipped %lld", (long long)step->skipped);
    int n = snprintf(line, sizeof(line),
                     "step %lld/%lld | loss %.5f | grad %s | lr %.3g | %.1f ms | %stok/s | %.3g TFLOP/s a rank | %s | "
                     "%s a rank | left %s%s\n",
                     (long long)step->step, (long long)step->steps, step->loss, norm, step->lr, 1e3 * step->step_sec,
                     cli_amount(step->tokens_per_sec, rate), step->tflops, share_of_peak(step->mfu, peak),
                     cli_bytes((double)progress->peak_bytes, memory), time_left(progress, step, left), skipped);
    put(line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
}

static void on_step(void *arg, const zr_train_step *step)
{
    cli_progress *progress = arg;
    bool last = step->step == step->steps;
    if (progress->quiet) return;
    if (progress->live) refresh(progress, step);
    if (progress->live && last) put("\n", 1);
    if (!progress->live && (step->step == 1 || last || step->step % progress->every == 0)) print_line(progress, step);
}

static void on_eval(void *arg, const zr_train_eval *eval)
{
    const cli_progress *progress = arg;
    char line[LINE_BYTES];
    if (progress->quiet) return;
    int n =
        snprintf(line, sizeof(line), "%sstep %lld | val_loss %.5f over %lld tokens\n", progress->live ? "\r\033[K" : "",
                 (long long)eval->step, eval->val_loss, (long long)eval->val_tokens);
    put(line, (size_t)n);
}

static void on_note(void *arg, const char *text)
{
    const cli_progress *progress = arg;
    if (progress->quiet) return;
    cli_progress_end(progress);
    cli_say("note: %s", text);
}

static void print_banner(FILE *out, const zr_train_info *info)
{
    char params[32], dir[PATH_MAX];
    const char *mpi = strcmp(info->comm->transport, "mpi") == 0 ? zr_comm_mpi_version() : "";
    int end = (int)strcspn(mpi, ",\n");
    fprintf(out, "zr %s, kernels %s, %d rank%s x %d thread%s (%s%s%.*s)\n", zr_version(), zr_device_cpu_level(),
            info->comm->size, info->comm->size == 1 ? "" : "s", info->threads, info->threads == 1 ? "" : "s",
            info->comm->transport, end ? ", " : "", end, mpi);
    fprintf(out, "parameters: %s, %s, ZeRO stage %d, %lld steps of %lld x %lld tokens, to %s\n",
            cli_amount((double)info->plan->params, params), cli_type_name(info->config), info->plan->layout.stage,
            (long long)info->config->train.steps, (long long)info->config->train_batch_size,
            (long long)info->plan->layout.seq, zr__text_escape(info->output_dir, dir, sizeof(dir)));
}

static void on_start(void *arg, const zr_train_info *info)
{
    cli_progress *progress = arg;
    char text[8192];
    cli_table table = {0};
    progress->begin = zr_clock_sec();
    progress->every = info->config->steps_per_print > 0 ? info->config->steps_per_print : 1;
    progress->peak_bytes = info->plan->memory.total_bytes;
    if (progress->quiet) return;
    FILE *out = fmemopen(text, sizeof(text), "w");
    if (!out) return;
    print_banner(out, info);
    cli_table_fill(&table, info->config, info->plan);
    cli_table_print(out, &table, progress->color);
    long length = ftell(out);
    fclose(out);
    put(text, (size_t)length);
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
    const char *term = getenv("TERM");
    progress->live = isatty(STDERR_FILENO) && !cli_launched() && term && strcmp(term, "dumb") != 0 && !progress->quiet;
    progress->every = 1;
    return (zr_observer){.arg = progress,
                         .start = on_start,
                         .step = on_step,
                         .eval = on_eval,
                         .note = on_note,
                         .timings = progress->timed ? on_timings : NULL};
}

void cli_progress_end(const cli_progress *progress)
{
    if (progress->live) put("\r\033[K", 4);
}
