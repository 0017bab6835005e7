/** A training run, from the checks of its inputs to the final weights. All ranks first check everything, then create
 * the outputs, then train. */
#include "train/run/run.h"

#include "comm/comm.h"
#include "train/host/host.h"

#include <math.h>

/** Return whether an evaluation and a sample, if enabled, follow the current step. */
static bool is_eval_step(const zr__run *r)
{
    const int64_t step = r->ranks.result->steps, interval = r->config->train.eval_interval;
    return step == r->config->train.steps || (interval > 0 && step % interval == 0);
}

static bool eval_is_due(const zr__run *r)
{
    return zr__samples_are_open(&r->data.inputs.val) && r->config->train.eval_interval > 0 && is_eval_step(r);
}

static bool sample_is_due(const zr__run *r)
{
    return r->config->train.sample_tokens > 0 && is_eval_step(r);
}

/** Return whether all steps of the run updated nothing, because none of their targets counts in the loss. A resumed run
 * begins with the loss of the last earlier step that had such targets. */
static bool is_all_uncounted(const zr__run *r)
{
    const int64_t steps = r->ranks.result->steps - r->resume.from_step;
    return steps > 0 && r->training.uncounted == steps && isnan(r->ranks.result->loss);
}

/** Return whether a checkpoint is written after the current step. With train.save_end it is written after the last step
 * even without an interval, so that the run can be extended. It is not written if nothing was trained and the run is
 * about to fail. */
static bool save_is_due(const zr__run *r)
{
    const int64_t step = r->ranks.result->steps, interval = r->config->train.save_interval;
    if (zr__run_is_last(r)) return (interval > 0 || r->config->train.save_end) && !is_all_uncounted(r);
    return interval > 0 && step % interval == 0;
}

bool zr__run_is_last(const zr__run *r)
{
    return r->ranks.result->stopped_early || r->ranks.result->steps == r->config->train.steps;
}

/** End the run before train.steps: say why, and write the checkpoint of the end. */
static zr_status end_early(zr__run *r)
{
    char words[ZR_EARLY_STOP_BYTES];
    r->ranks.result->stopped_early = true;
    zr__run_note(&r->ranks, "%s", zr__early_stop_words(&r->training.early, r->config, words));
    return save_is_due(r) ? zr__run_save(r) : ZR_OK;
}

/** Perform all steps. After each step, first write a checkpoint if it is due, then handle requests, then evaluate. If a
 * run was stopped between a checkpoint and the evaluation of the same step, the resumed run begins with this
 * evaluation.
 */
static zr_status make_steps(zr__run *r)
{
    if (r->resume.from_step > 0 && !r->resume.made.evaluation && eval_is_due(r)) ZR_TRY(zr__run_validate(r));
    if (r->resume.from_step > 0 && !r->resume.made.sample && sample_is_due(r)) ZR_TRY(zr__sample_write(r));
    while (r->ranks.result->steps < r->config->train.steps && !zr__early_stop_is_due(&r->training.early, r->config)) {
        ZR_TRY(zr__run_step(r));
        if (save_is_due(r)) ZR_TRY(zr__run_save(r));
        if (r->ranks.result->steps < r->config->train.steps) ZR_TRY(zr__run_asked(r));
        if (eval_is_due(r)) ZR_TRY(zr__run_validate(r));
        if (sample_is_due(r)) ZR_TRY(zr__sample_write(r));
    }
    if (r->ranks.result->steps < r->config->train.steps) ZR_TRY(end_early(r));
    ZR_CHECK(!is_all_uncounted(r), ZR_ERR_DATA,
             "%s: no target counts in any of %lld steps; give %s data.seq_length %lld tokens",
             r->config->data.train ? ZR_SHOWN(r->config->data.train) : "the program's samples",
             (long long)(r->ranks.result->steps - r->resume.from_step),
             r->data.inputs.train.pairs      ? "rows with masked tokens within"
             : r->data.inputs.train.labelled ? "samples with labels or answers within"
                                             : "lines with an answer that begins within",
             (long long)r->config->data.seq_length);
    return ZR_OK;
}

static zr_status run_all(zr__run *r)
{
    double begin = zr_clock_sec();
    ZR_TRY(zr__run_agree(&r->ranks, zr__hang_create(r->config, r->ranks.comm, r->ranks.observer, &r->watching.hang)));
    zr__run_enter(&r->ranks, ZR__PHASE_START);
    ZR_TRY(zr__run_check(r));
    ZR_TRY(zr__run_start(r));
    return zr__run_end(r, zr__run_agreed(&r->ranks, make_steps(r)), begin);
}

static zr_status train_or_resume(const zr_config *config, zr_comm *comm, const zr_observer *observer, bool resume,
                                 zr_train_result *result)
{
    static const zr_observer nobody = {0};
    ZR_CHECK(config && comm && result, ZR_ERR_ARG, "zr_train_run was given a NULL pointer");
    zr__run r = {.config = config,
                 .ranks = {comm, observer ? observer : &nobody, result, &r.engine},
                 .training.scaler = zr__loss_scaler_create(config),
                 .resume = {.asked = resume, .step = -1, .made.best_loss = INFINITY},
                 .saving.step = -1,
                 .dir = ZR_RUN_DIR_INIT};
    result->loss = result->val_loss = result->best_val_loss = result->noise_scale = NAN;
    r.watching.peak_before_bytes = zr__host_peak_bytes();
    result->peak_rss_bytes = -1;
    result->agreed = true;
    zr_status st = zr__run_agreed(&r.ranks, run_all(&r));
    const char *why = ZR__WHY(); /* message of run_all; the calls below may fail too */
    if (!result->agreed) zr__comm_fail(comm);
    zr__run_release(&r);
    zr__watch_destroy(&r.watching.watch);
    zr_engine_destroy(&r.engine);
    zr__run_save_drop(&r.saving.now);
    zr__hang_destroy(&r.watching.hang);
    zr__rows_ahead_destroy(&r.data.ahead);
    zr__plans_clear(&r.plans);
    zr_device_destroy(&r.device);
    zr__inputs_close(&r.data.inputs);
    zr__hf_source_free(&r.source);
    zr_tokenizer_close(&r.tokenizer);
    zr__resume_close(&r.resume);
    if (zr__run_dir_end(&r.dir) != ZR_OK) zr__run_warn(&r.ranks, "%s", zr_error_message());
    zr__run_dir_close(&r.dir);
    return st == ZR_OK ? ZR_OK : ZR_FAIL(st, "%s", why);
}

zr_status zr_train_run(const zr_config *config, zr_comm *comm, const zr_observer *observer, zr_train_result *result)
{
    return train_or_resume(config, comm, observer, false, result);
}

zr_status zr_train_resume(const zr_config *config, zr_comm *comm, const zr_observer *observer, zr_train_result *result)
{
    return train_or_resume(config, comm, observer, true, result);
}
