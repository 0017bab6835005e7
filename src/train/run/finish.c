/** Helpers for all parts of a training run, and the run's end: saved weights and the report of its measurements. */
#include "train/run/save.h"

#include "base/text/text.h"
#include "train/host/limits.h"
#include "train/weights/export.h"
#include "train/host/host.h"
#include "train/dir/metrics.h"
#include "base/core/core.h"
#include "comm/comm.h"
#include "engine/engine.h"
#include "train/dir/report.h"
#include "train/control/control.h"
#include "zr/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- between ranks ---------------------------------------------------------------------------- */

void zr__run_enter(const zr__run *r, zr__phase phase)
{
    zr__comm_show(r->comm, ZR__PHASE_SHOWN, zr__phase_shown(phase, r->result->steps));
    if (r->observer->reached && phase != ZR__PHASE_TRAIN && phase != ZR__PHASE_TRAIN_AND_SAVE)
        r->observer->reached(r->observer->arg, r->comm->rank, zr__phase_name(phase), r->result->steps);
}

void zr__run_note(const zr__run *r, const char *text)
{
    if (r->comm->rank == 0 && r->observer->note) r->observer->note(r->observer->arg, text);
}

void zr__run_warn(const zr__run *r, const char *text)
{
    if (r->comm->rank == 0 && r->observer->warn)
        r->observer->warn(r->observer->arg, text);
    else
        zr__run_note(r, text);
}

zr_status zr__run_agreed(zr__run *r, zr_status st)
{
    r->result->agreed = st != ZR_ERR_PEER && st != ZR_ERR_COMM && st != ZR_ERR_HANG && st != ZR_ERR_INTERNAL;
    return st;
}

zr_status zr__run_agree(zr__run *r, zr_status mine)
{
    return zr__run_agreed(r, zr_comm_agree(r->comm, mine));
}

zr_status zr__run_highest(zr__run *r, double *number, int n)
{
    ZR_TRY(zr__run_agreed(r, zr_comm_scalars(r->comm, number, n, NULL)));
    for (int i = 0; i < n * r->comm->size; i++) number[i % n] = fmax(number[i % n], r->comm->table[i]);
    return ZR_OK;
}

zr_config zr__run_given(const zr__run *r)
{
    zr_config given = r->given ? *r->given : *r->config;
    given.zero.stage = r->config->zero.stage;
    given.recompute.policy = r->config->recompute.policy;
    given.micro_batch_size = r->config->micro_batch_size;
    given.accumulation_steps = r->config->accumulation_steps;
    given.train_batch_size = r->config->train_batch_size;
    return given;
}

zr_dtype zr__run_dtype(const zr__run *r)
{
    const zr_device_facts *facts = &r->device->profile.facts;
    const zr_dtype dtype = r->plan->layout.dtype;
    if (facts->apart) return dtype == ZR_F32 ? ZR_F32 : ZR_BF16;
    return dtype == ZR_BF16 && facts->bf16_products ? ZR_BF16 : ZR_F32;
}

double zr__run_peak_flops(const zr__run *r)
{
    const zr_machine *machine = &r->device->profile.machine;
    return zr__run_dtype(r) == ZR_BF16 ? machine->flops_bf16 : machine->flops_f32;
}

/* ---- end -------------------------------------------------------------------------------------- */

/** Set the peak memory of a process, the maximum over all processes, and the promised one. The peak is anonymous memory
 * and, where ranks are processes, the process's own windows. */
static zr_status measure_peak(zr__run *r)
{
    const int in_process = zr__comm_process_ranks(r->comm);
    double mine = (double)zr__host_peak_bytes();
    if (mine >= 0.0 && in_process < r->comm->size) mine += (double)zr__plan_staging_bytes(r->plan, in_process);
    ZR_TRY(zr__run_highest(r, &mine, 1));
    r->result->peak_rss_bytes = (int64_t)mine;
    r->result->promised_rss_bytes = zr__plan_process_bytes(r->plan, in_process) + in_process * r->ahead_bytes;
    return ZR_OK;
}

/** Report a peak above the promise, unless the process had reached it before the run. */
static void hold_to_promise(zr__run *r)
{
    char text[256], took[ZR_SIZE_BYTES], may[ZR_SIZE_BYTES];
    const zr_train_result *result = r->result;
    if (result->peak_rss_bytes <= result->promised_rss_bytes || result->peak_rss_bytes <= r->peak_before_bytes) return;
    snprintf(
        text, sizeof(text),
        "a process took %s of memory at its peak, more than the %s that the plan promises (1.03 x the ranks' total "
        "+ 50.33 MB, and 0.39 MB for each rank after the first; run.json has both)",
        zr__text_size((double)result->peak_rss_bytes, took), zr__text_size((double)result->promised_rss_bytes, may));
    zr__run_note(r, text);
}

/** Replace each of n whole numbers by its maximum over the ranks. */
static zr_status highest_bytes(zr__run *r, int64_t *bytes, int n)
{
    double number[ZR_COMM_SCALARS];
    for (int i = 0; i < n; i++) number[i] = (double)bytes[i];
    ZR_TRY(zr__run_highest(r, number, n));
    for (int i = 0; i < n; i++) bytes[i] = (int64_t)number[i];
    return ZR_OK;
}

zr_status zr__run_highest_report(zr__run *r, zr_report *report)
{
    union {
        zr_memory memory;
        int64_t bytes[sizeof(zr_memory) / sizeof(int64_t)];
    } all = {.memory = report->memory};
    _Static_assert(sizeof(all) <= ZR_COMM_SCALARS * sizeof(int64_t), "memory travels in one call");
    ZR_TRY(highest_bytes(r, all.bytes, sizeof(all) / sizeof(int64_t)));
    report->memory = all.memory;
    ZR_TRY(highest_bytes(r, report->traffic.bytes, ZR_TRAFFIC_KINDS));
    for (int b = 0; b < ZR_BORDERS; b++) ZR_TRY(highest_bytes(r, report->across[b].bytes, ZR_TRAFFIC_KINDS));
    return ZR_OK;
}

/** Measure memory and traffic as maxima over the ranks. */
static zr_status measure_ranks(zr__run *r)
{
    zr_measured measured;
    zr_engine_measured(r->engine, &measured);
    ZR_TRY(zr__run_agree(r, zr__report_measured(r->plan, &measured, &r->result->measured)));
    ZR_TRY(zr__run_highest_report(r, &r->result->measured));
    return ZR_OK;
}

static void compare_with_plan(zr__run *r)
{
    const zr_report *planned = &r->result->planned, *measured = &r->result->measured;
    if (r->result->steps == r->from_step) return; /* only steps are planned, and this run made none */
    if (memcmp(&planned->memory, &measured->memory, sizeof(planned->memory)) != 0 ||
        memcmp(&planned->traffic, &measured->traffic, sizeof(planned->traffic)) != 0 ||
        memcmp(planned->across, measured->across, sizeof(planned->across)) != 0) {
        zr__run_note(r, "measured memory or traffic is not what was planned (run.json has both): please report this");
    }
}

static zr_status collect_timings(zr__run *r)
{
    const zr_machine *machine = &r->device->profile.machine;
    if (!r->watch.timings) return ZR_OK;
    ZR_TRY(zr__run_agreed(r, zr__timings_collect(r->watch.timings, r->comm, &r->timings)));
    r->timings.peak_flops = zr__run_peak_flops(r);
    r->timings.peak_f32_flops = machine->flops_f32;
    r->timings.peak_memory_bytes_sec = machine->memory_bytes_sec;
    r->timings.peak_link_bytes_sec = zr__machine_link(machine).bytes_sec;
    if (r->comm->rank == 0) r->observer->timings(r->observer->arg, &r->timings);
    return ZR_OK;
}

static zr_status write_run_json(zr__run *r)
{
    char *json = NULL;
    if (r->comm->rank != 0) return ZR_OK;
    ZR_TRY(zr__metrics_run(&r->info, r->result, r->watch.timings ? &r->timings : NULL, &json));
    zr_status st = zr__run_dir_write(&r->dir, "run.json", json);
    zr_free(json);
    return st;
}

static zr_status report(zr__run *r, double begin)
{
    zr__run_enter(r, ZR__PHASE_END);
    ZR_TRY(measure_ranks(r));
    ZR_TRY(collect_timings(r));
    ZR_TRY(measure_peak(r));
    r->result->wall_sec = zr_clock_sec() - begin;
    ZR_TRY(zr__run_agree(r, write_run_json(r)));
    char words[ZR_NOISE_SCALE_BYTES];
    if (r->config->train.noise_scale)
        zr__run_note(
            r, zr__noise_scale_words(r->result->noise_scale, r->config->train_batch_size * r->plan->layout.seq, words));
    if (r->comm->rank == 0) compare_with_plan(r);
    if (r->comm->rank == 0) hold_to_promise(r);
    return ZR_OK;
}

#define WHY_BYTES 2048

static const char *error_text(char text[WHY_BYTES])
{
    snprintf(text, WHY_BYTES, "%s", zr_error_message());
    return text;
}

/* ---- the weights ------------------------------------------------------------------------------ */

static zr_status name_weights(zr__run *r, const char *name, char path[PATH_MAX])
{
    if (r->comm->rank != 0) return ZR_OK;
    ZR_TRY(zr__run_dir_find(&r->dir));
    return zr__path_join(path, r->dir.path, name);
}

static zr__exported exported(const zr__run *r, double val_loss)
{
    return (zr__exported){&r->model, r->plan, r->config->data.tokenizer, {r->result->steps, val_loss}};
}

zr_status zr__run_reserve(zr__run *r)
{
    char path[PATH_MAX];
    ZR_TRY(name_weights(r, "model", path));
    const zr__exported what = exported(r, INFINITY);
    ZR_TRY(zr__export_reserve(path, &what));
    r->reserved = true;
    return ZR_OK;
}

void zr__run_release(zr__run *r)
{
    char path[PATH_MAX];
    if (r->reserved && name_weights(r, "model", path) == ZR_OK) zr__export_release(path);
    r->reserved = false;
}

/** Compute the loss of another batch if the last loss was not finite, to tell a bad batch from bad weights.
 * ZR_ERR_DIVERGED: the weights are bad. */
static zr_status probe(zr__run *r)
{
    zr_step_result found = {0};
    int64_t step = r->result->steps > r->from_step + 1 ? r->result->steps - 2 : r->from_step;
    if (!r->suspect) return ZR_OK;
    zr_step_args args = zr__run_step_args(r, step, zr__run_read);
    r->batch_failed = ZR_OK;
    r->result->agreed = false;
    zr_status st = zr__engine_probe(r->engine, &args, &found);
    if (st != r->batch_failed) return st; /* aborted on this rank: other ranks may still be in the probe */
    ZR_TRY(zr__run_agree(r, st));
    ZR_CHECK(isfinite(found.loss), ZR_ERR_DIVERGED, "with them the loss of step %lld's batch is %g too",
             (long long)step + 1, found.loss);
    return ZR_OK;
}

/** Check that the weights are worth keeping. ZR_ERR_DIVERGED, with the reason. */
static zr_status judge(zr__run *r)
{
    r->result->agreed = false;
    ZR_TRY(zr_engine_flush(r->engine));
    ZR_TRY(zr__run_agreed(r, zr__export_finite(r->plan, r->engine, r->comm)));
    ZR_TRY(probe(r));
    return ZR_OK;
}

/** Broadcast rank 0's `place`, for the message that all ranks give. Returns `st` with its message unchanged. */
static zr_status share_place(zr__run *r, zr_status st, char place[PATH_MAX])
{
    char why[WHY_BYTES];
    error_text(why);
    ZR_TRY(zr__run_agreed(r, zr_comm_broadcast(r->comm, 0, place, PATH_MAX)));
    return st == ZR_OK ? ZR_OK : ZR_FAIL(st, "%s", why);
}

static void note_rest(const zr__run *r, const char *name, const char *rest)
{
    char text[WHY_BYTES], shown[WHY_BYTES / 2];
    snprintf(text, sizeof(text), "the earlier %s directory held more than zr had written: that is kept in %s", name,
             zr__text_escape(rest, shown, sizeof(shown)));
    zr__run_note(r, text);
}

/** Write the weights into the directory `name`. path: set to where it is to be; place: to where the complete weights
 * are. val_loss: the weights' validation loss, infinity if not evaluated. */
static zr_status export_as(zr__run *r, const char *name, bool replace, double val_loss, char path[PATH_MAX],
                           char place[PATH_MAX])
{
    char rest[PATH_MAX] = "";
    ZR_TRY(zr__run_agree(r, name_weights(r, name, path)));
    ZR_TRY(zr__run_agreed(r, zr_comm_broadcast(r->comm, 0, path, PATH_MAX)));
    const zr__exported what = exported(r, val_loss);
    zr_status st = zr__run_agreed(r, zr__export(path, &what, r->engine, r->comm, replace, rest, place, PATH_MAX));
    if (rest[0]) note_rest(r, name, rest);
    return st;
}

static zr_status save(zr__run *r, char place[PATH_MAX])
{
    char path[PATH_MAX] = "";
    zr_status st = export_as(r, "model", r->resume.there, INFINITY, path, place);
    if (path[0]) r->reserved = false; /* the export has taken it over */
    r->result->saved = st == ZR_OK;
    if (st == ZR_OK) snprintf(r->result->model_dir, sizeof(r->result->model_dir), "%s", path);
    return r->result->agreed ? share_place(r, st, place) : st;
}

zr_status zr__run_keep_best(zr__run *r)
{
    char path[PATH_MAX] = "", place[PATH_MAX] = "", why[WHY_BYTES], text[WHY_BYTES], shown[WHY_BYTES / 4];
    const long long step = r->result->steps;
    zr__run_enter(r, ZR__PHASE_SAVE);
    zr_status st = export_as(r, "best", true, r->result->val_loss, path, place);
    if (st != ZR_OK && !r->result->agreed) return st;
    error_text(why);
    double whole = st == ZR_OK || place[0];
    if (st != ZR_OK) ZR_TRY(zr__run_highest(r, &whole, 1));
    if (whole > 0) r->made.best_loss = r->result->val_loss;
    if (st == ZR_OK) return ZR_OK;
    if (place[0])
        snprintf(
            text, sizeof(text),
            "the best weights so far, of step %lld, are all in %s, but could not get the name best for good: %.900s",
            step, zr__text_escape(place, shown, sizeof(shown)), why);
    else
        snprintf(text, sizeof(text), "the best weights so far, of step %lld, could not be written: %.900s", step, why);
    zr__run_warn(r, text);
    if (r->save_failure[0]) return ZR_OK;
    r->save_failed = st == ZR_ERR_MEMORY ? st : ZR_ERR_IO;
    snprintf(r->save_failure, sizeof(r->save_failure), "%.500s", text);
    return ZR_OK;
}

static zr_status complete(zr__run *r, const char *name)
{
    const char *from = NULL;
    char path[PATH_MAX], rest[PATH_MAX], text[WHY_BYTES];
    ZR_TRY(zr__path_join(path, r->dir.path, name));
    ZR_TRY(zr__export_complete(path, &from, rest));
    if (rest[0]) note_rest(r, name, rest);
    if (!from) return ZR_OK;
    snprintf(text, sizeof(text), "an earlier run was ended while it wrote %s: what was whole in %s%s is there now",
             name, name, from);
    zr__run_note(r, text);
    return ZR_OK;
}

zr_status zr__run_complete_weights(zr__run *r)
{
    ZR_TRY(complete(r, "model"));
    return complete(r, "best");
}

zr_status zr__run_know_best(zr__run *r)
{
    zr__trained best;
    char path[PATH_MAX], text[WHY_BYTES], loss[ZR_NUMBER_BYTES];
    const double lowest = r->made.best_loss;
    ZR_TRY(zr__path_join(path, r->dir.path, "best"));
    if (zr__export_is_there(path)) {
        ZR_TRY(zr__trained_read(path, &best));
        if (best.step >= 0) r->made.best_loss = best.val_loss;
        return ZR_OK;
    }
    r->made.best_loss = INFINITY;
    if (!r->config->train.keep_best || !isfinite(lowest)) return ZR_OK;
    snprintf(text, sizeof(text),
             "there is no best/ yet, so that of the evaluations before this run, the best with val_loss %s, no weights "
             "are kept; the next evaluation begins it",
             zr__text_g9(lowest, loss));
    zr__run_note(r, text);
    return ZR_OK;
}

/* ---- how it ended ----------------------------------------------------------------------------- */

/** Save good weights; `text` says where they are, or why they are not saved. */
static zr_status keep_weights(zr__run *r, char text[WHY_BYTES])
{
    char place[PATH_MAX] = "", why[WHY_BYTES];
    long long steps = r->result->steps;
    zr_status st = save(r, place);
    if (st == ZR_OK)
        snprintf(text, WHY_BYTES, "the weights after step %lld are in %.1500s", steps, place);
    else if (place[0])
        snprintf(text, WHY_BYTES,
                 "the weights after step %lld are all in %.900s, but the system did not confirm that "
                 "they are on the disk: %.900s",
                 steps, place, error_text(why));
    else
        snprintf(text, WHY_BYTES, "the weights after step %lld could not be saved: %.1500s", steps, error_text(why));
    return st;
}

/** Save a checkpoint, or the weights alone if that fails: the disk space reserved for them is still there. */
static zr_status keep_checkpoint(zr__run *r, char text[WHY_BYTES])
{
    char place[PATH_MAX] = "", why[WHY_BYTES], weights[WHY_BYTES];
    zr_status st = zr__run_checkpoint(r);
    const zr_status failed = st == ZR_ERR_MEMORY ? st : ZR_ERR_IO;
    error_text(why);
    if (st == ZR_OK) {
        ZR_TRY(zr__run_agree(r, r->comm->rank == 0 ? zr__run_checkpoint_dir(r, place) : ZR_OK));
        ZR_TRY(share_place(r, ZR_OK, place));
        snprintf(text, WHY_BYTES, "the checkpoint is in %.1500s, continue with --resume", place);
        return ZR_OK;
    }
    if (!r->result->agreed) return st;
    st = keep_weights(r, weights);
    if (!r->result->agreed) return st;
    snprintf(text, WHY_BYTES, "the checkpoint could not be written: %.700s; %.1200s", why, weights);
    return failed;
}

/** Save good weights, as a checkpoint if the run was asked to stop (`stopped`). */
static zr_status keep(zr__run *r, bool stopped, char text[WHY_BYTES])
{
    char why[WHY_BYTES];
    zr_status st = judge(r);
    if (st == ZR_OK) return stopped ? keep_checkpoint(r, text) : keep_weights(r, text);
    snprintf(text, WHY_BYTES, "the weights after step %lld are not saved: %.1500s", (long long)r->result->steps,
             error_text(why));
    return st;
}

/** Return the status of a run that made all steps or was asked to stop; `kept` and `saved` come from keep. */
static zr_status end_of_training(zr__run *r, zr_status st, zr_status kept, const char *saved)
{
    long long steps = r->result->steps, all = r->config->train.steps;
    if (kept == ZR_ERR_DIVERGED) return ZR_FAIL(kept, "training diverged: %s; lower the learning rate", saved);
    if (kept != ZR_OK) return ZR_FAIL(kept, "%s", saved);
    ZR_CHECK(!r->suspect, ZR_ERR_DIVERGED, "the last loss of the run is not finite, with another batch it is: %s",
             saved);
    ZR_CHECK(st == ZR_OK, st, "stopped %s after step %lld of %lld; %s",
             r->out_of_time ? "as --max-time asked" : "on request", steps, all, saved);
    ZR_CHECK(!r->save_failure[0], r->save_failed, "%s; %s", r->save_failure, saved);
    return ZR_OK;
}

/** End the run, except for metrics.jsonl. saved: set to where the weights are, or why they are not saved. */
static zr_status end(zr__run *r, zr_status st, double begin, char saved[WHY_BYTES])
{
    char why[WHY_BYTES] = "";
    bool stopped = st == ZR_ERR_STOPPED, asked = st == ZR_OK || stopped;
    if (st != ZR_OK) error_text(why);
    /* Ranks that could not agree may never meet in a collective again. */
    if (st != ZR_OK && !r->result->agreed) return st;
    ZR_TRY(zr__run_save_end(r));
    if (r->mixed) return ZR_FAIL(st, "%s. The weights are a mixture of two steps and are not saved", why);
    if (!asked && r->result->steps == r->result->skipped) return ZR_FAIL(st, "%s; nothing was trained yet", why);
    zr__run_enter(r, ZR__PHASE_SAVE);
    zr_status kept = keep(r, stopped, saved);
    if (!r->result->agreed) return kept;
    zr_status told = kept == ZR_OK ? report(r, begin) : ZR_OK;
    if (told != ZR_OK) snprintf(saved + strlen(saved), WHY_BYTES - strlen(saved), "; %.400s", zr_error_message());
    if (!asked) return ZR_FAIL(st, "%s; %s", why, saved);
    ZR_TRY(end_of_training(r, st, kept, saved));
    ZR_CHECK(told == ZR_OK, told, "%s", saved);
    return ZR_OK;
}

zr_status zr__run_end(zr__run *r, zr_status st, double begin)
{
    char saved[WHY_BYTES] = "", why[WHY_BYTES];
    st = end(r, st, begin, saved);
    snprintf(why, sizeof(why), "%s", st == ZR_OK ? saved : zr_error_message());
    if (!r->result->agreed) return st;
    zr_status told = zr__run_agree(r, zr__run_dir_end(&r->dir));
    if (!r->result->agreed) return told;
    ZR_CHECK(told == ZR_OK, st == ZR_OK ? told : st, "%s; %.400s", why, zr_error_message());
    return st == ZR_OK ? ZR_OK : ZR_FAIL(st, "%s", why);
}

void zr__run_tell_metrics(zr__run *r, zr_status st)
{
    char why[WHY_BYTES];
    error_text(why);
    if (zr__run_dir_end(&r->dir) != ZR_OK) zr__run_warn(r, zr_error_message());
    if (st != ZR_OK) (void)ZR_FAIL(st, "%s", why);
}
