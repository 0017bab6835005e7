/* The progress of a run on stderr: a banner, a line for every n-th step and, on a terminal, a line that is redrawn. */
#include "cli/runs/runs.h"
#include "base/text/text.h"
#include "cli/plan/table.h"
#include "cli/shell/config.h"
#include "cli/shell/message.h"
#include "cli/shell/line.h"
#include "cli/draw/curve.h"
#include "comm/comm.h"
#include "config/config.h"
#include "plan/cost/cost.h"
#include "zr/checkpoint.h"
#include "zr/run.h"

#include <stdio.h>
#include <math.h>
#include <string.h>

/* Plural names of the targets whose losses zr_train_eval.val_tokens counts. An answer has two targets, its first and
 * its last token. */
static const char *const counted[] = {[ZR_SAMPLES_NEXT] = "tokens",          [ZR_SAMPLES_PAIRS] = "masked tokens",
                                      [ZR_SAMPLES_LABELS] = "labels",        [ZR_SAMPLES_ANSWERS] = "ends of answers",
                                      [ZR_SAMPLES_MASKED] = "masked tokens", [ZR_SAMPLES_TAGS] = "words"};

#define LOSS_STEP_SEC 60.0 /* minimum seconds from a drawing of loss.svg to a redraw after a training step */
#define LOSS_EVAL_SEC 10.0 /* minimum seconds from a drawing of loss.svg to a redraw after an evaluation */

static void add_share(cli_line *line, int rank, double mfu)
{
    if (mfu > 0.0 && mfu < 0.005)
        cli_line_add(line, rank, "<1%% of peak");
    else if (isfinite(mfu))
        cli_line_add(line, rank, "%.0f%% of peak", 100.0 * mfu);
    else
        cli_line_add(line, rank, "peak n/a");
}

static void refresh_step(cli_progress *progress, const zr_train_step *step)
{
    cli_line l = {0};
    double now = zr_clock_sec();
    if (now - progress->shown < CLI_REFRESH_SEC) return;
    progress->shown = now;
    cli_line_add(&l, 0, "step %lld/%lld", (long long)step->step, (long long)step->steps);
    cli_line_add(&l, 1, "loss %.4f", step->loss);
    cli_line_add(&l, 3, "%stok/s", ZR_AMOUNT(step->tokens_per_sec));
    add_share(&l, 4, step->mfu);
    cli_line_add(&l, 5, "%s a rank", ZR_SIZE((double)progress->peak_bytes));
    cli_line_add(&l, 2, "left %s",
                 CLI_TIME_LEFT(progress->begin, step->step - progress->from, step->steps - progress->from));
    cli_line_rewrite(&l);
}

/** Print the line of a step. If stderr is no terminal, leave out two fields to keep the line at about 100 columns:
 * TFLOP/s, which are also in metrics.jsonl, and the memory, which is also in the run's first lines. */
static void leave_step(const cli_progress *progress, const zr_train_step *step)
{
    cli_line l = {0};
    cli_line_add(&l, 0, "step %lld/%lld", (long long)step->step, (long long)step->steps);
    cli_line_add(&l, 1, "loss %.5f", step->loss);
    for (int t = 0; t < step->terms; t++) cli_line_add(&l, 6, "%s %.5f", step->term[t].name, step->term[t].loss);
    if (isfinite(step->grad_norm))
        cli_line_add(&l, 3, "grad %.4g", step->grad_norm);
    else
        cli_line_add(&l, 3, "grad not finite");
    if (step->muon)
        cli_line_add(&l, 4, "lr %.3g (AdamW %.3g)", step->lr, step->adamw_lr);
    else
        cli_line_add(&l, 4, "lr %.3g", step->lr);
    cli_line_add(&l, 7, "%.1f ms", 1e3 * step->step_sec);
    cli_line_add(&l, 5, "%stok/s", ZR_AMOUNT(step->tokens_per_sec));
    if (progress->live) cli_line_add(&l, 10, "%.3g TFLOP/s a rank", step->tflops);
    add_share(&l, 8, step->mfu);
    if (progress->live) cli_line_add(&l, 9, "%s a rank", ZR_SIZE((double)progress->peak_bytes));
    cli_line_add(&l, 6, "left %s",
                 CLI_TIME_LEFT(progress->begin, step->step - progress->from, step->steps - progress->from));
    if (step->skipped) cli_line_add(&l, 2, "skipped %lld", (long long)step->skipped);
    cli_line_leave(&l, progress->live);
}

static void on_step(void *arg, const zr_train_step *step)
{
    cli_progress *progress = arg;
    bool last = step->step == step->steps;
    cli_loss_redraw(progress->loss, LOSS_STEP_SEC);
    if (progress->quiet) return;
    if (step->step == progress->from + 1 || last || step->step % progress->every == 0) leave_step(progress, step);
    if (progress->live && !last) refresh_step(progress, step);
}

static void on_eval(void *arg, const zr_train_eval *eval)
{
    const cli_progress *progress = arg;
    cli_line l = {0};
    cli_loss_redraw(progress->loss, LOSS_EVAL_SEC);
    if (progress->quiet) return;
    cli_line_add(&l, 0, "step %lld", (long long)eval->step);
    cli_line_add(&l, 1, "val_loss %.5f", eval->val_loss);
    for (int t = 0; t < eval->terms; t++) cli_line_add(&l, 3, "%s %.5f", eval->term[t].name, eval->term[t].loss);
    cli_line_add(&l, 2, "%lld %s", (long long)eval->val_tokens, progress->counted);
    cli_line_leave(&l, progress->live);
}

static void on_saved(void *arg, const zr_train_save *save)
{
    const cli_progress *progress = arg;
    char name[ZR_CHECKPOINT_NAME_BYTES];
    cli_line l = {0};
    if (progress->quiet) return;
    zr_checkpoint_name(save->step, name);
    cli_line_add(&l, 0, "step %lld", (long long)save->step);
    cli_line_add(&l, 1, "saved %s", name);
    cli_line_add(&l, 2, "%s", ZR_SIZE((double)save->bytes));
    cli_line_add(&l, 3, "waited %.3g s", save->sec);
    cli_line_leave(&l, progress->live);
}

/** Print a warning as a note, even with --quiet. */
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
            facts->own_memory ? facts->name : zr_device_cpu_level(), info->comm->size, info->comm->size == 1 ? "" : "s",
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
    progress->counted = counted[zr__config_samples(info->config)];
    progress->peak_bytes = zr__fullest_role(info->plans)->memory.total_bytes;
    cli_loss_start(progress->loss, info->output_dir);
    if (progress->quiet) return;
    FILE *out = fmemopen(text, sizeof(text), "w");
    if (!out) return;
    print_banner(out, info);
    cli_table_fill(&table, info->config, info->plans);
    cli_table_print(out, &table, progress->color);
    long length = ftell(out);
    fclose(out);
    cli_put_stderr(text, (size_t)length);
    for (int i = 0; i < zr_config_notes(info->config); i++) cli_say("note: %s", zr_config_note(info->config, i));
    if (!info->config->data.val)
        cli_say("note: no validation data (data.val) is given, so the run measures no validation loss");
    else if (info->config->train.eval_interval == 0)
        cli_say("note: train.eval_interval is 0, so the run measures no validation loss on data.val");
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
