/** The end of a training run: write the final weights and the best weights, and report the run's measurements. */

#include "train/run/run.h"

#include "comm/comm.h"
#include "train/dir/report.h"
#include "train/host/host.h"
#include "train/host/limits.h"
#include "train/weights/export.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the report ------------------------------------------------------------------------------- */

/** Set the measured and the promised peak memory of a process. The measured peak is the maximum of anonymous memory
 * over all processes. If ranks are separate processes, the shared windows of a process count too. */
static zr_status measure_peak(const zr__ranks *r, const zr_plans *plans, int64_t ahead_bytes)
{
    const int in_process = zr__comm_process_ranks(r->comm);
    int64_t mine = zr__host_peak_bytes();
    if (mine >= 0 && in_process < r->comm->size) mine += zr__plan_staging_bytes(plans->role[plans->own], in_process);
    ZR_TRY(zr__run_most(r, &mine, 1));
    r->result->peak_rss_bytes = mine;
    r->result->promised_rss_bytes =
        zr__plan_process_bytes(zr__fullest_role(plans), in_process) + in_process * ahead_bytes;
    return ZR_OK;
}

zr_status zr__run_highest_report(const zr__ranks *r, zr_report *report)
{
    int64_t *memory = (void *)&report->memory; /* a zr_memory consists of int64_t values only */
    _Static_assert(sizeof(zr_memory) % sizeof(int64_t) == 0 && sizeof(zr_memory) <= ZR_COMM_SCALARS * sizeof(double),
                   "a report's memory is agreed on in one call");
    ZR_TRY(zr__run_most(r, memory, sizeof(report->memory) / sizeof(*memory)));
    ZR_TRY(zr__run_most(r, report->traffic.bytes, ZR_TRAFFIC_KINDS));
    for (int b = 0; b < ZR_BORDERS; b++) ZR_TRY(zr__run_most(r, report->across[b].bytes, ZR_TRAFFIC_KINDS));
    for (int from = 0; from < ZR_SPACES; from++) ZR_TRY(zr__run_most(r, report->copied[from], ZR_SPACES));
    return ZR_OK;
}

/** Add a note if the measured memory or traffic differs from the plan. Also add a note if the peak memory exceeds the
 * promised peak, unless the process had already reached this peak before the run began. */
static void note_broken_promises(const zr__ranks *r, int64_t from_step, int64_t before_bytes)
{
    const zr_train_result *result = r->result;
    const zr_report *planned = &result->planned, *measured = &result->measured;
    const bool stepped = result->steps > from_step; /* without new steps nothing was measured */
    if (stepped && (memcmp(&planned->memory, &measured->memory, sizeof(planned->memory)) != 0 ||
                    memcmp(&planned->traffic, &measured->traffic, sizeof(planned->traffic)) != 0 ||
                    memcmp(planned->across, measured->across, sizeof(planned->across)) != 0 ||
                    memcmp(planned->copied, measured->copied, sizeof(planned->copied)) != 0))
        zr__run_note(r, "measured memory or traffic is not what was planned (run.json has both): please report this");
    if (result->peak_rss_bytes > result->promised_rss_bytes && result->peak_rss_bytes > before_bytes)
        zr__run_note(r,
                     "a process took %s of memory at its peak, more than the %s that the plan promises (1.03 x the "
                     "ranks' total + 50.33 MB, and 0.39 MB for each rank after the first; run.json has both)",
                     ZR_SIZE((double)result->peak_rss_bytes), ZR_SIZE((double)result->promised_rss_bytes));
}

static zr_status collect_timings(const zr__ranks *r, const zr_device *device, zr_dtype dtype, zr__watching *watching)
{
    const zr_machine *machine = &device->profile.machine;
    if (!watching->watch.timings) return ZR_OK;
    ZR_TRY(zr__run_agreed(r, zr__timings_collect(watching->watch.timings, r->comm, &watching->timings)));
    watching->timings.peak_flops = zr__run_peak_flops(device, dtype);
    watching->timings.peak_f32_flops = machine->flops_f32;
    watching->timings.peak_memory_bytes_sec = machine->memory_bytes_sec;
    watching->timings.peak_disk_read_bytes_sec = machine->disk_read_bytes_sec;
    watching->timings.peak_disk_write_bytes_sec = machine->disk_write_bytes_sec;
    watching->timings.peak_link_bytes_sec = zr__machine_link(machine).bytes_sec;
    if (r->comm->rank == 0) r->observer->timings(r->observer->arg, &watching->timings);
    return ZR_OK;
}

static zr_status write_run_json(zr__run *r)
{
    ZR_AUTO_FREE char *json = NULL;
    if (r->ranks.comm->rank != 0) return ZR_OK;
    ZR_TRY(zr__metrics_run(&r->info, r->ranks.result, r->watching.watch.timings ? &r->watching.timings : NULL, &json));
    return zr__run_dir_write(&r->dir, ZR_RUN_REPORT, json);
}

static zr_status report_run(zr__run *r, double begin)
{
    zr_measured measured;
    char words[ZR_NOISE_SCALE_BYTES];
    zr__run_enter(&r->ranks, ZR__PHASE_END);
    zr_engine_measured(r->engine, &measured);
    zr_report *report = &r->ranks.result->measured;
    ZR_TRY(zr__run_agree(&r->ranks, zr__report_measured(&r->ranks.result->planned, &measured, report)));
    ZR_TRY(zr__run_highest_report(&r->ranks, report));
    ZR_TRY(collect_timings(&r->ranks, r->device, r->plan->layout.dtype, &r->watching));
    ZR_TRY(measure_peak(&r->ranks, &r->plans, r->data.ahead_bytes));
    r->ranks.result->wall_sec = zr_clock_sec() - begin;
    ZR_TRY(zr__run_agree(&r->ranks, write_run_json(r)));
    if (r->config->train.noise_scale) {
        const int64_t tokens = r->config->train_batch_size * r->plan->layout.seq;
        zr__run_note(&r->ranks, "%s", zr__noise_scale_words(r->ranks.result->noise_scale, tokens, words));
    }
    if (r->ranks.result->steps > r->resume.from_step && r->training.highest_lr == 0)
        zr__run_note(&r->ranks, "the learning rate was 0 in every step of this run, so the weights have not changed");
    note_broken_promises(&r->ranks, r->resume.from_step, r->watching.peak_before_bytes);
    return ZR_OK;
}

/* ---- the weights ------------------------------------------------------------------------------ */

/** On rank 0, write the path of `name` in the run's directory to `path`. Do nothing on other ranks. */
static zr_status find_path(const zr__ranks *r, zr__run_dir *dir, const char *name, char path[PATH_MAX])
{
    if (r->comm->rank != 0) return ZR_OK;
    ZR_TRY(zr__run_dir_find(dir));
    return zr__path_join(path, dir->path, name);
}

static zr__exported exported_of(const zr__run *r, double val_loss)
{
    return (zr__exported){.model = &r->model,
                          .plan = r->plan,
                          .tokenizer = r->config->data.tokenizer,
                          .init = r->config->model.init,
                          .source = r->source,
                          .trained = {r->ranks.result->steps, val_loss}};
}

zr_status zr__run_reserve(zr__run *r)
{
    char path[PATH_MAX];
    if (!r->config->train.save_model) return ZR_OK;
    ZR_TRY(find_path(&r->ranks, &r->dir, ZR_RUN_MODEL, path));
    const zr__exported weights = exported_of(r, INFINITY);
    ZR_TRY(zr__export_reserve(path, &weights));
    r->saving.reserved = true;
    return ZR_OK;
}

void zr__run_release(zr__run *r)
{
    char path[PATH_MAX];
    if (r->saving.reserved && find_path(&r->ranks, &r->dir, ZR_RUN_MODEL, path) == ZR_OK) zr__export_release(path);
    r->saving.reserved = false;
}

/** If the last loss was not finite, compute the loss of another batch, to decide whether the batch or the weights
 * caused this. Fail with ZR_ERR_DIVERGED if the other loss is not finite either. */
static zr_status probe_other_batch(zr__run *r)
{
    zr_step_result found = {0};
    int64_t step = r->ranks.result->steps > r->resume.from_step + 1 ? r->ranks.result->steps - 2 : r->resume.from_step;
    if (!r->training.suspect) return ZR_OK;
    zr_step_args args = zr__run_step_args(r, step);
    r->data.failed = ZR_OK;
    zr_status st = zr__run_agreed(&r->ranks, zr__engine_probe(r->engine, &args, &found));
    if (!r->ranks.result->agreed) return st;
    ZR_TRY(zr__run_agree(&r->ranks, st));
    ZR_CHECK(isfinite(found.loss), ZR_ERR_DIVERGED, "with these weights, the loss on the batch of step %lld is %g too",
             (long long)step + 1, found.loss);
    return ZR_OK;
}

/** Check that all weights are finite. If the last loss was not finite, also check that the loss of another batch is
 * finite. Otherwise fail with ZR_ERR_DIVERGED and the reason. */
static zr_status judge_weights(zr__run *r)
{
    ZR_TRY(zr__run_agreed(&r->ranks, zr_engine_flush(r->engine)));
    ZR_TRY(zr__run_agreed(&r->ranks, zr__export_finite(r->plan, r->engine, r->ranks.comm)));
    return probe_other_batch(r);
}

static void note_rest(const zr__ranks *r, const char *name, const char *rest)
{
    if (rest[0])
        zr__run_note(r, "the earlier %s directory held files that zr had not written; it is kept in %s", name,
                     zr__text_escape(rest, (char[ZR__WHY_BYTES / 2]){0}, ZR__WHY_BYTES / 2));
}

/** Write the weights into the folder `name` of the run's directory. `path` receives the path of this folder. `place`
 * receives the path where complete weights are, even after a failure (see zr__export). `val_loss` is the validation
 * loss of the weights, or infinity if they were not evaluated. */
static zr_status export_as(zr__run *r, const char *name, bool replace, double val_loss, char path[PATH_MAX],
                           char place[PATH_MAX])
{
    char rest[PATH_MAX] = "";
    ZR_TRY(zr__run_agree(&r->ranks, find_path(&r->ranks, &r->dir, name, path)));
    ZR_TRY(zr__run_share_text(&r->ranks, path));
    const zr__exported weights = exported_of(r, val_loss);
    zr_status st =
        zr__run_agreed(&r->ranks, zr__export(path, &weights, r->engine, r->ranks.comm, replace, rest, place));
    note_rest(&r->ranks, name, rest);
    return st;
}

/** Write the weights as model/. `place` receives the path of the complete weights on every rank, because every rank
 * puts it into the same message. */
static zr_status export_model(zr__run *r, char place[PATH_MAX])
{
    char path[PATH_MAX] = "";
    zr_status st = export_as(r, ZR_RUN_MODEL, r->resume.there, INFINITY, path, place);
    if (path[0]) r->saving.reserved = false; /* the reserved files now hold the exported weights */
    r->ranks.result->saved = st == ZR_OK;
    if (st == ZR_OK) snprintf(r->ranks.result->model_dir, sizeof(r->ranks.result->model_dir), "%s", path);
    if (!r->ranks.result->agreed) return st;
    const char *why = ZR__WHY();
    ZR_TRY(zr__run_share_text(&r->ranks, place));
    return st == ZR_OK ? ZR_OK : ZR_FAIL(st, "%s", why);
}

zr_status zr__run_keep_best(zr__run *r)
{
    char path[PATH_MAX] = "", place[PATH_MAX] = "", text[ZR__WHY_BYTES];
    const long long step = r->ranks.result->steps;
    zr__run_enter(&r->ranks, ZR__PHASE_SAVE);
    zr_status st = export_as(r, ZR_RUN_BEST, true, r->ranks.result->val_loss, path, place);
    if (st != ZR_OK && !r->ranks.result->agreed) return st;
    const char *why = ZR__WHY();
    int64_t whole = st == ZR_OK || place[0];
    if (st != ZR_OK) ZR_TRY(zr__run_most(&r->ranks, &whole, 1));
    if (whole) {
        r->resume.made.best_loss = r->ranks.result->best_val_loss = r->ranks.result->val_loss;
        r->ranks.result->best_step = step;
    }
    if (st == ZR_OK) return ZR_OK;
    if (place[0])
        snprintf(
            text, sizeof(text),
            "the best weights so far, of step %lld, are all in %s, but could not get the name best for good: %.900s",
            step, ZR_SHOWN(place), why);
    else
        snprintf(text, sizeof(text), "the best weights so far, of step %lld, could not be written: %.900s", step, why);
    zr__run_warn(&r->ranks, "%s", text);
    zr__run_save_failed(&r->saving, st, text);
    return ZR_OK;
}

zr_status zr__run_complete_weights(const zr__ranks *r, const zr__run_dir *dir)
{
    static const char *const names[] = {ZR_RUN_MODEL, ZR_RUN_BEST};
    char path[PATH_MAX], rest[PATH_MAX];
    for (int i = 0; i < 2; i++) {
        const char *name = names[i], *from = NULL;
        ZR_TRY(zr__path_join(path, dir->path, name));
        ZR_TRY(zr__export_complete(path, &from, rest));
        note_rest(r, name, rest);
        if (from)
            zr__run_note(
                r, "an earlier run was interrupted while it wrote %s; its complete files were recovered from %s%s",
                name, name, from);
    }
    return ZR_OK;
}

zr_status zr__run_set_best(zr__run *r)
{
    zr__trained best;
    char path[PATH_MAX];
    const double lowest = r->resume.made.best_loss;
    ZR_TRY(zr__path_join(path, r->dir.path, ZR_RUN_BEST));
    if (zr__weights_in(path, "")) {
        ZR_TRY(zr__trained_read(path, &best));
        if (best.step >= 0) r->resume.made.best_loss = best.val_loss;
        r->resume.made.best_step = best.step > 0 ? best.step : 0;
        return ZR_OK;
    }
    r->resume.made.best_loss = INFINITY;
    if (r->config->train.keep_best && isfinite(lowest))
        zr__run_note(&r->ranks,
                     "there is no best/ yet: the weights of the best evaluation before this run, with val_loss %s, "
                     "were not kept; the next evaluation writes best/",
                     ZR_G9(lowest));
    return ZR_OK;
}

/* ---- the status of the run -------------------------------------------------------------------- */

/** Write the path of the checkpoint of the last step to `place`, on all ranks. */
static zr_status find_saved(zr__run *r, char place[PATH_MAX])
{
    char name[ZR_CHECKPOINT_NAME_BYTES];
    zr_checkpoint_name(r->saving.step, name);
    ZR_TRY(zr__run_agree(&r->ranks, find_path(&r->ranks, &r->dir, name, place)));
    return zr__run_share_text(&r->ranks, place);
}

/** Write the weights as model/, unless train.save_model is false. `text` receives a sentence that tells where they are,
 * or why they were not saved. */
static zr_status keep_weights(zr__run *r, char text[ZR__WHY_BYTES])
{
    char place[PATH_MAX] = "";
    long long steps = r->ranks.result->steps;
    const bool wanted = r->config->train.save_model, saved = !wanted && r->saving.step == steps;
    zr_status st = wanted ? export_model(r, place) : saved ? find_saved(r, place) : ZR_OK;
    if (st == ZR_OK && !place[0])
        snprintf(text, ZR__WHY_BYTES, "the weights after step %lld are not saved, since train.save_model is false",
                 steps);
    else if (st == ZR_OK)
        snprintf(text, ZR__WHY_BYTES, "the weights after step %lld are in %.1500s", steps, place);
    else if (place[0])
        snprintf(text, ZR__WHY_BYTES,
                 "the weights after step %lld are all in %.900s, but the system did not confirm that they are on the "
                 "disk: %.900s",
                 steps, place, zr_error_message());
    else
        snprintf(text, ZR__WHY_BYTES, "the weights after step %lld could not be saved: %.1500s", steps,
                 zr_error_message());
    return st;
}

/** Save a checkpoint. If that fails, save only the weights, for which disk space is still reserved. */
static zr_status keep_checkpoint(zr__run *r, char text[ZR__WHY_BYTES])
{
    char place[PATH_MAX] = "", weights[ZR__WHY_BYTES];
    zr_status st = zr__run_checkpoint(r);
    const zr_status failed = st == ZR_ERR_MEMORY ? st : ZR_ERR_IO;
    const char *why = ZR__WHY();
    if (st == ZR_OK) {
        ZR_TRY(find_saved(r, place));
        snprintf(text, ZR__WHY_BYTES,
                 "the checkpoint is in %.900s, continue with --resume: zr train %.900s/config.json --resume", place,
                 ZR_WORD(r->config->train.output_dir));
        return ZR_OK;
    }
    if (!r->ranks.result->agreed) return st;
    st = keep_weights(r, weights);
    if (!r->ranks.result->agreed) return st;
    snprintf(text, ZR__WHY_BYTES, "the checkpoint could not be written: %.700s; %.1200s", why, weights);
    return failed;
}

/** Save the weights if judge_weights accepts them. Write a checkpoint if the run was asked to stop (`stopped`), and
 * model/ if not. */
static zr_status keep_result(zr__run *r, bool stopped, char text[ZR__WHY_BYTES])
{
    zr_status st = judge_weights(r);
    if (st == ZR_OK) return stopped ? keep_checkpoint(r, text) : keep_weights(r, text);
    snprintf(text, ZR__WHY_BYTES, "the weights after step %lld were not saved: %.1500s",
             (long long)r->ranks.result->steps, zr_error_message());
    return st;
}

/** Return the final status of a run that completed all steps or was asked to stop. `kept` and `saved` are the status
 * and the text of keep_result. */
static zr_status end_of_training(zr__run *r, zr_status st, zr_status kept, const char *saved)
{
    long long steps = r->ranks.result->steps, all = r->config->train.steps;
    if (kept == ZR_ERR_DIVERGED) return ZR_FAIL(kept, "training diverged: %s; lower the learning rate", saved);
    if (kept != ZR_OK) return ZR_FAIL(kept, "%s", saved);
    ZR_CHECK(!r->training.suspect, ZR_ERR_DIVERGED,
             "the last loss of the run is not finite, but the loss on another batch is: %s", saved);
    ZR_CHECK(st == ZR_OK, st, "stopped %s after step %lld of %lld; %s",
             r->training.out_of_time ? "as --max-time asked" : "on request", steps, all, saved);
    ZR_CHECK(!r->saving.failure[0], r->saving.failed, "%s; %s", r->saving.failure, saved);
    return ZR_OK;
}

/** End the run, except for closing metrics.jsonl. `saved` receives a sentence that tells where the weights are, or why
 * they were not saved. */
static zr_status end_run(zr__run *r, zr_status st, double begin, char saved[ZR__WHY_BYTES])
{
    const bool stopped = st == ZR_ERR_STOPPED, asked = st == ZR_OK || stopped;
    const char *why = ZR__WHY();
    /* Return at once if ranks have failed to agree, since a collective call might wait forever. */
    if (st != ZR_OK && !r->ranks.result->agreed) return st;
    ZR_TRY(zr__run_save_end(r));
    if (r->training.mixed) return ZR_FAIL(st, "%s. The weights are a mixture of two steps and are not saved", why);
    if (!asked && r->ranks.result->steps == r->ranks.result->skipped)
        return ZR_FAIL(st, "%s; nothing was trained yet", why);
    zr__run_enter(&r->ranks, ZR__PHASE_SAVE);
    zr_status kept = keep_result(r, stopped, saved);
    if (!r->ranks.result->agreed) return kept;
    zr_status told = kept == ZR_OK ? report_run(r, begin) : ZR_OK;
    if (told != ZR_OK) snprintf(saved + strlen(saved), ZR__WHY_BYTES - strlen(saved), "; %.400s", zr_error_message());
    if (!asked) return ZR_FAIL(st, "%s; %s", why, saved);
    ZR_TRY(end_of_training(r, st, kept, saved));
    ZR_CHECK(told == ZR_OK, told, "%s", saved);
    return ZR_OK;
}

zr_status zr__run_end(zr__run *r, zr_status st, double begin)
{
    char saved[ZR__WHY_BYTES] = "";
    st = end_run(r, st, begin, saved);
    const char *why = st == ZR_OK ? saved : ZR__WHY();
    if (!r->ranks.result->agreed) return st;
    zr_status told = zr__run_agree(&r->ranks, zr__run_dir_end(&r->dir));
    if (!r->ranks.result->agreed) return told;
    ZR_CHECK(told == ZR_OK, st == ZR_OK ? told : st, "%s; %.400s", why, zr_error_message());
    return st == ZR_OK ? ZR_OK : ZR_FAIL(st, "%s", why);
}
