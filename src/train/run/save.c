/** Writing of checkpoints. Training stops during a synchronous save, and continues during an asynchronous save. A
 * checkpoint gets its final name only when it is complete. */
#include "train/run/run.h"

#include "config/config.h"
#include "plan/cost/cost.h"
#include "train/host/host.h"
#include "train/run/save_files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- the directory, by rank 0 ----------------------------------------------------------------- */

/** Return whether a file or directory has the final path of this step's checkpoint. `path` receives this path. */
static bool has_name(const zr__save *s, char path[PATH_MAX])
{
    struct stat st;
    return zr__checkpoint_path(path, s->run_dir, s->step) == ZR_OK && (lstat(path, &st) == 0 || errno != ENOENT);
}

/** Rename an existing checkpoint of this step. The checkpoint must be unusable, since the run did not resume from it.
 * Do not remove it, since a user may repair it, or another version of zr may be able to read it. */
static zr_status move_aside(const zr__save *s)
{
    enum { SUFFIX_BYTES = 16 };
    struct stat st;
    char from[PATH_MAX], to[PATH_MAX + SUFFIX_BYTES];
    if (!has_name(s, from)) return ZR_OK;
    snprintf(to, sizeof(to), "%s.old", from);
    for (int i = 2; lstat(to, &st) == 0; i++) snprintf(to, sizeof(to), "%s.old%d", from, i);
    ZR_CHECK(rename(from, to) == 0, ZR_ERR_IO,
             "the directory with the name of this checkpoint cannot be renamed to %s: %s", ZR_SHOWN(to),
             strerror(errno));
    zr__run_note(s->ranks, "step %lld: the directory that had the name of this checkpoint is kept as %s",
                 (long long)s->step, ZR_SHOWN(to));
    return ZR_OK;
}

/** Fill save->about, the record of the run at the checkpoint's step. Rank 0 only. */
static zr_status describe_run(const zr__run *r, zr__save *s)
{
    const zr_config c = zr__run_given(r);
    s->about = (zr__checkpoint_run){.seed = c.train.seed,
                                    .updates = zr_engine_updates(r->engine),
                                    .samples = zr__run_sample(r, s->step),
                                    .skipped = r->ranks.result->skipped,
                                    .skipped_in_row = r->training.skipped_in_row,
                                    .loss = r->ranks.result->loss,
                                    .scaler = r->training.scaler,
                                    .noise = r->training.noise,
                                    .early = r->training.early,
                                    .ranks = r->ranks.comm->size,
                                    .prints = r->data.prints};
    zr__checkpoint_run_sums(&s->about, &r->plan->layout);
    snprintf(s->about.optimizer, sizeof(s->about.optimizer), "%s", r->plan->optimizer.name);
    snprintf(s->about.tokenizer, sizeof(s->about.tokenizer), "%s", c.data.tokenizer ? c.data.tokenizer : "");
    return zr_config_to_json(&c, &s->about.config);
}

static zr_status make_place(zr__run *r, zr__save *s)
{
    int64_t *skipped = zr__resume_find(&r->resume, r->resume.next, s->step);
    ZR_TRY(move_aside(s));
    if (skipped) *skipped = -1; /* the new checkpoint of this step replaces a damaged one */
    ZR_TRY(zr__checkpoint_begin(s->run_dir, s->step));
    ZR_TRY(describe_run(r, s));
    return zr__save_make_files(s, &r->model, r->config->model.init, r->source);
}

/* ---- older checkpoints ------------------------------------------------------------------------ */

/** Return whether a checkpoint is complete according to its manifest. */
static bool is_whole(const zr__resume *resume, const char *run_dir, int64_t step)
{
    char path[PATH_MAX];
    ZR_AUTO(zr__manifest_free) zr__manifest *manifest = NULL;
    if (zr__resume_find(resume, resume->next, step)) return false; /* it was skipped */
    return zr__checkpoint_path(path, run_dir, step) == ZR_OK && zr__manifest_read(path, &manifest) == ZR_OK;
}

/** Remove old checkpoints beyond train.keep_last. Keep every checkpoint whose step is a multiple of checkpoint.every.
 * Keep checkpoints of later steps, which an earlier run left. Keep incomplete checkpoints, which do not count towards
 * train.keep_last. */
static zr_status remove_old(const zr__resume *resume, const zr_config *c, const zr__save *s)
{
    ZR_AUTO_FREE int64_t *step = NULL;
    int64_t n = 0, kept = 0;
    ZR_TRY(zr_checkpoint_list(s->run_dir, &step, &n));
    for (int64_t i = 0; i < n; i++) {
        const bool for_good = c->checkpoint.every > 0 && step[i] % c->checkpoint.every == 0;
        if (step[i] > s->step || (for_good && kept >= c->train.keep_last)) continue;
        if (!is_whole(resume, s->run_dir, step[i]) || kept++ < c->train.keep_last) continue;
        ZR_TRY(zr__checkpoint_remove(s->run_dir, step[i]));
    }
    return ZR_OK;
}

/* ---- begin and end ---------------------------------------------------------------------------- */

/** Remove the remains of a failed checkpoint, to free disk space. If a directory has the checkpoint's final name,
 * remove nothing, because that directory may be a complete checkpoint that is not confirmed on disk, or an earlier
 * checkpoint that could not be renamed. */
static void give_up(const zr__save *s)
{
    char path[PATH_MAX];
    if (!s->run_dir[0] || has_name(s, path)) return;
    const char *why = ZR__WHY();
    if (zr__checkpoint_remove(s->run_dir, s->step) != ZR_OK && why[0]) (void)ZR_FAIL(ZR_ERR_IO, "%s", why);
}

/** Commit the checkpoint. First sync metrics.jsonl, so that the lines up to this step survive a power failure. If the
 * file `latest` cannot be written, only add a note, since zr does not read that file. */
static zr_status commit_save(const zr__save *s, zr__run_dir *dir)
{
    const long long step = s->step;
    if (zr__run_dir_sync(dir) != ZR_OK)
        zr__run_warn(s->ranks, "the checkpoint of step %lld: %.1000s", step, zr_error_message());
    zr_status st = zr__checkpoint_commit(s->run_dir, s->step);
    if (st != ZR_ERR_CREATE) return st;
    zr__run_note(s->ranks, "the checkpoint of step %lld is written, but latest could not be: %.1000s", step,
                 zr_error_message());
    return ZR_OK;
}

static zr_status name_place(const zr__ranks *r, zr__run_dir *dir, zr__save *s)
{
    char name[ZR_CHECKPOINT_NAME_BYTES];
    zr__save_names(s);
    if (r->comm->rank != 0) return ZR_OK;
    ZR_TRY(zr__run_dir_find(dir));
    snprintf(s->run_dir, sizeof(s->run_dir), "%s", dir->path);
    zr_checkpoint_name(s->step, name);
    return zr__path_format(s->tmp, "%s/%s.tmp", s->run_dir, name);
}

/** Complete the checkpoint after all ranks have written their elements. `written` is the status of this rank's writes.
 */
static zr_status finish_files(zr__run *r, zr__save *s, zr_status written)
{
    const bool first = r->ranks.comm->rank == 0;
    ZR_TRY(zr__run_agree(&r->ranks, written));
    ZR_TRY(zr__save_gather(s));
    ZR_TRY(zr__run_agree(&r->ranks, first ? zr__save_describe(s) : ZR_OK));
    ZR_TRY(zr__run_agree(&r->ranks, first ? commit_save(s, &r->dir) : ZR_OK));
    if (first && remove_old(&r->resume, r->config, s) != ZR_OK)
        zr__run_note(&r->ranks, "an older checkpoint could not be removed: %.1000s", zr_error_message());
    return ZR_OK;
}

void zr__run_save_drop(zr__save **s)
{
    if (!*s) return;
    zr__save_clear(*s);
    zr_free(*s);
    *s = NULL;
}

/** Begin a checkpoint, and create the files into which all ranks write. If parameters are saved as they are sent, bring
 * them up to date. *save may be set even after a failure; free it with end_save or zr__run_save_drop. */
static zr_status begin_save(zr__run *r, zr__save **save)
{
    zr__save *s = *save = zr_alloc(sizeof(*s));
    if (s)
        *s = (zr__save){.ranks = &r->ranks,
                        .plan = r->plan,
                        .step = r->ranks.result->steps,
                        .n_states = zr__state_files(r->plan),
                        .file = -1};
    ZR_TRY(zr__run_agree(&r->ranks, s ? ZR_OK : ZR_FAIL(ZR_ERR_MEMORY, "no memory to write a checkpoint")));
    ZR_TRY(zr__run_agree(&r->ranks, name_place(&r->ranks, &r->dir, s)));
    ZR_TRY(zr__run_share_text(&r->ranks, s->run_dir));
    ZR_TRY(zr__run_share_text(&r->ranks, s->tmp));
    ZR_TRY(zr__run_agree(&r->ranks, r->ranks.comm->rank == 0 ? make_place(r, s) : ZR_OK));
    return r->plan->layout.weight_differences ? zr__run_agreed(&r->ranks, zr_engine_flush(r->engine)) : ZR_OK;
}

/** Report a completed checkpoint. If `st` is an error, remove the remains of the failed checkpoint instead. */
static zr_status tell_end(zr__run *r, const zr__save *s, zr_status st)
{
    if (st != ZR_OK && r->ranks.comm->rank == 0 && r->ranks.result->agreed) give_up(s);
    ZR_TRY(st);
    zr_train_save told = {.step = s->step, .bytes = s->bytes, .sec = s->waited_sec, .dir = s->run_dir};
    r->saving.step = s->step;
    r->saving.sec = s->waited_sec + s->async_sec;
    if (r->ranks.comm->rank == 0 && r->ranks.observer->saved) r->ranks.observer->saved(r->ranks.observer->arg, &told);
    return ZR_OK;
}

static zr_status end_save(zr__run *r, zr__save **s, zr_status st)
{
    if (*s) st = tell_end(r, *s, st);
    zr__run_save_drop(s);
    return st;
}

void zr__run_save_failed(zr__saving *s, zr_status st, const char *why)
{
    if (s->failure[0]) return;
    s->failed = st == ZR_ERR_MEMORY ? st : ZR_ERR_IO;
    snprintf(s->failure, sizeof(s->failure), "%.500s", why);
}

/** Report a failed save. If all ranks know of the failure, training continues without the checkpoint, and the run fails
 * at its end. The run does not fail if only the default of train.save_end requested the checkpoint and the final
 * weights are written anyway. */
static zr_status tell_failure(zr__run *r, int64_t step, zr_status st)
{
    char text[512];
    const bool last = step == r->ranks.result->steps && zr__run_is_last(r), model = r->config->train.save_model;
    const bool wanted =
        !last || !model || r->config->train.save_interval > 0 || zr__config_given(r->config, "train.save_end");
    if (st == ZR_OK || !r->ranks.result->agreed) return st;
    const char *why = ZR__WHY();
    snprintf(text, sizeof(text), "the checkpoint of step %lld could not be written", (long long)step);
    if (last)
        zr__run_warn(&r->ranks, "%s (%.1000s); %s", text, why,
                     model ? "the weights are written without it" : "no weights are saved (train.save_model)");
    else
        zr__run_warn(&r->ranks, "%s; training goes on: %.1000s", text, why);
    snprintf(text + strlen(text), sizeof(text) - strlen(text), ": %.400s", why);
    /* Store the failure for the end of the run, except ZR_ERR_DIVERGED, because the end of the run checks for weights
     * that are not finite anyway. */
    if (wanted && st != ZR_ERR_DIVERGED) zr__run_save_failed(&r->saving, st, text);
    return ZR_OK;
}

/* ---- synchronous ------------------------------------------------------------------------------ */

static zr_status write_now(zr__run *r)
{
    zr__save *s = NULL;
    const double begin_sec = zr_clock_sec();
    zr_status st = begin_save(r, &s);
    if (st == ZR_OK) st = finish_files(r, s, zr__save_put_all(s));
    if (s) s->waited_sec = zr_clock_sec() - begin_sec;
    return end_save(r, &s, st);
}

zr_status zr__run_checkpoint(zr__run *r)
{
    return r->saving.step == r->ranks.result->steps ? ZR_OK : write_now(r);
}

/* ---- asynchronous ----------------------------------------------------------------------------- */

static void keep_saving_event(void *arg, const zr_event *event)
{
    zr__save *s = arg;
    if (s->n_events < s->event_room) s->event[s->n_events++] = *event;
}

/** Write elements of an asynchronous save. If the save reads a copy, no training step waits for it, so this thread gets
 * a lower priority than computation. Errors of gradients are not read from a copy. */
static zr_status put_async(void *arg, int state, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    const zr__save *s = arg;
    if (s->begin_sec == 0 && s->plan->save == ZR_SAVE_COPY && s->plan->layout.error_steps == 0) zr__host_step_back();
    return zr__save_put(arg, state, param, first, n, in);
}

static zr_status make_room_for_events(zr__save *s, const zr__trace *trace)
{
    if (!trace || !zr__trace_wants(trace, s->step)) return ZR_OK;
    s->event_room = s->plan->schedule[ZR_SCHEDULE_TRAIN].n_steps;
    s->event = zr_alloc(sizeof(*s->event) * (size_t)s->event_room);
    ZR_CHECK(s->event, ZR_ERR_MEMORY, "no memory to trace a checkpoint");
    return ZR_OK;
}

/** Begin an asynchronous checkpoint. All ranks agree before the engine begins to write. Otherwise some ranks would
 * write although others have given up. */
static zr_status write_async(zr__run *r)
{
    zr__save *s = NULL;
    const double begin_sec = zr_clock_sec();
    zr_status st = begin_save(r, &s);
    if (st == ZR_OK) st = zr__run_agree(&r->ranks, make_room_for_events(s, r->watching.watch.trace));
    if (st != ZR_OK) return end_save(r, &s, st);
    const zr_sink sink = {put_async, zr__save_put_end, s->event ? keep_saving_event : NULL, s};
    r->saving.now = s;
    ZR_TRY(zr_engine_save(r->engine, &sink));
    s->waited_sec = zr_clock_sec() - begin_sec;
    return ZR_OK;
}

zr_status zr__run_save_end(zr__run *r)
{
    zr__save *s = r->saving.now;
    if (!s) return ZR_OK;
    zr__run_enter(&r->ranks, ZR__PHASE_SAVE);
    const double begin_sec = zr_clock_sec();
    zr_status st = finish_files(r, s, zr_engine_save_end(r->engine));
    s->waited_sec += zr_clock_sec() - begin_sec;
    s->async_sec = s->put_sec;
    st = tell_failure(r, s->step, tell_end(r, s, st));
    if (st == ZR_OK && s->event) {
        /* Add the events that the engine's thread has stored during the save to the trace. Only the run's thread (this
         * one) may write to the trace. */
        for (int32_t i = 0; i < s->n_events; i++) zr__trace_event(r->watching.watch.trace, &s->event[i]);
        st = zr__run_collect_trace(&r->ranks, r->watching.watch.trace, s->step);
    }
    zr__run_save_drop(&r->saving.now);
    return st;
}

/** Finish the asynchronous checkpoint of an earlier step, if it is still being written. */
static zr_status finish_earlier(zr__run *r)
{
    int64_t on_its_way = !zr_engine_saved(r->engine);
    if (!r->saving.now || r->saving.now->step == r->ranks.result->steps) return ZR_OK;
    ZR_TRY(zr__run_most(&r->ranks, &on_its_way, 1));
    if (on_its_way)
        zr__run_note(&r->ranks, "the checkpoint of step %lld waits for that of step %lld, which is still being written",
                     (long long)r->ranks.result->steps, (long long)r->saving.now->step);
    return zr__run_save_end(r);
}

zr_status zr__run_save(zr__run *r)
{
    const int64_t step = r->ranks.result->steps;
    const bool asynchronous = r->plan->save != ZR_SAVE_NONE && !zr__run_is_last(r);
    if (r->training.suspect) {
        zr__run_note(&r->ranks, "step %lld: no checkpoint was written, because the loss is not finite",
                     (long long)step);
        return ZR_OK;
    }
    zr__run_enter(&r->ranks, ZR__PHASE_SAVE);
    ZR_TRY(finish_earlier(r));
    /* Return if a checkpoint of this step is complete or being written. */
    if (r->saving.step == step || r->saving.now) return ZR_OK;
    return tell_failure(r, step, asynchronous ? write_async(r) : write_now(r));
}
