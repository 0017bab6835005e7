/** Runs whose ranks are threads of the process, with texts in place of structs: what programs in other languages
 * call. */
#include "train/run/run.h"

#include "base/json/json_write.h"
#include "comm/comm.h"
#include "config/config.h"
#include "train/dir/report.h"
#include "train/family/paths.h"
#include "train/setup/setup.h"

#include <stdio.h>
#include <string.h>

zr_status zr_train_config(const char *path, const char *const *overrides, int n_overrides, int ranks, unsigned how,
                          int64_t unix_sec, const zr_source *train, const zr_source *val, zr_config **config)
{
    ZR_AUTO(zr_config_destroy) zr_config *read = NULL;
    ZR_CHECK(config, ZR_ERR_ARG, "zr_train_config needs a place for the configuration");
    ZR_CHECK(ranks >= 1 && ranks <= ZR_TRAIN_MOST_THREADS, ZR_ERR_ARG,
             "ranks is %d; 1 to %d ranks can run as threads of a process", ranks, ZR_TRAIN_MOST_THREADS);
    *config = NULL;
    ZR_TRY(zr_config_load(path, overrides, n_overrides, &read));
    if (how & ZR_TRAIN_CHOOSES) zr__config_leave_open(read);
    if (!(how & ZR_TRAIN_PLAIN)) zr__config_take_recipe(read);
    if (how & ZR_TRAIN_RESUMES) ZR_TRY(zr__train_go_on(read));
    read->data.source = train;
    read->data.val_source = val;
    ZR_TRY(zr_train_prepare(read, ranks, unix_sec));
    *config = ZR_TAKE(read);
    return ZR_OK;
}

/** A run on threads. */
typedef struct job {
    const zr_config *config;
    bool resume;
    const int *asked;
    zr_train_event_fn event;
    void *arg;
    zr_train_result result; /* of rank 0, as are the following members */
    bool uncertain;         /* whether an event could not be reported, because memory was short */
    char why[ZR__WHY_BYTES];
} job;

/* ---- events: rank 0's observer as JSON ----------------------------------------------------------------------- */

static void report(job *j, const char *kind, zr__json_out *out)
{
    ZR_AUTO_FREE char *text = NULL;
    zr__json_close(out, '}');
    if (zr__text_take(&out->text, &text) == ZR_OK)
        j->event(j->arg, kind, text);
    else
        j->uncertain = true;
}

static void on_start(void *arg, const zr_train_info *info)
{
    const zr_config *c = info->config;
    zr__json_out out = {0};
    zr__json_open(&out, NULL, '{');
    zr__json_add(&out, "output_dir", info->output_dir, "from_step", info->from_step, "steps", c->train.steps,
                 "train_batch_size", c->train_batch_size, "seq_length", c->data.seq_length, "threads", info->threads);
    zr__json_add(&out, "ranks", info->comm->size, "params", info->plan->params);
    report(arg, "start", &out);
}

static void report_line(const job *j, const char *kind, int64_t step, const char *prefix, const zr__scalar *scalar,
                        int n)
{
    char line[ZR_METRICS_LINE_BYTES];
    zr__metrics_line(step, prefix, scalar, n, line);
    j->event(j->arg, kind, line);
}

static void on_step(void *arg, const zr_train_step *step)
{
    zr__scalar scalar[ZR_SCALARS];
    report_line(arg, "step", step->step, "", scalar, zr__metrics_step_scalars(step, scalar));
}

static void on_eval(void *arg, const zr_train_eval *eval)
{
    zr__scalar scalar[ZR_SCALARS];
    report_line(arg, "eval", eval->step, "val_", scalar, zr__metrics_eval_scalars(eval, scalar));
}

static void on_saved(void *arg, const zr_train_save *save)
{
    zr__json_out out = {0};
    zr__json_open(&out, NULL, '{');
    zr__json_add(&out, "step", save->step, "bytes", save->bytes, "sec", save->sec, "dir", save->dir);
    report(arg, "saved", &out);
}

static void on_note(void *arg, const char *text)
{
    const job *j = arg;
    j->event(j->arg, "note", text);
}

static void on_warning(void *arg, const char *text)
{
    const job *j = arg;
    j->event(j->arg, "warn", text);
}

/* ---- requests ------------------------------------------------------------------------------------------------- */

static bool is_asked(const job *j, int bit)
{
    return j->asked && (__atomic_load_n(j->asked, __ATOMIC_RELAXED) & bit);
}

static bool asks_to_stop(void *arg)
{
    return is_asked(arg, 1);
}

static bool asks_to_save(void *arg)
{
    return is_asked(arg, 2);
}

/* ---- the run -------------------------------------------------------------------------------------------------- */

static zr_status train_rank(zr_comm *comm, void *arg)
{
    job *j = arg;
    zr_train_result result = {0};
    zr_observer observer = {.arg = j, .stop = asks_to_stop, .save = asks_to_save};
    if (j->event) {
        observer.start = on_start;
        observer.step = on_step;
        observer.eval = on_eval;
        observer.saved = on_saved;
        observer.note = on_note;
        observer.warn = on_warning;
    }
    zr_status st = (j->resume ? zr_train_resume : zr_train_run)(j->config, comm, &observer, &result);
    if (comm->rank == 0) j->result = result;
    if (comm->rank == 0 && st != ZR_OK) zr__run_why(j->why);
    return st;
}

zr_status zr_train_threads(const zr_config *config, int ranks, bool resume, zr_train_event_fn event, void *arg,
                           const int *asked, char **json)
{
    ZR_CHECK(config && json, ZR_ERR_ARG, "zr_train_threads was given a NULL pointer");
    job j = {.config = config, .resume = resume, .asked = asked, .event = event, .arg = arg};
    *json = NULL;
    zr_status st = zr_comm_threads_run(ranks, train_rank, &j);
    if (st != ZR_OK && j.result.agreed && j.why[0]) st = ZR_FAIL(st, "%s", j.why);
    if (st != ZR_OK && st != ZR_ERR_STOPPED) return st;
    ZR_TRY(zr__result_json(config, &j.result, NULL, json));
    ZR_CHECK(!j.uncertain, ZR_ERR_MEMORY, "no memory to report an event of the run");
    return st == ZR_OK ? ZR_OK : ZR_FAIL(st, "%s", j.why);
}
