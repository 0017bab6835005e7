/** An evaluation on data.val during a run. */

#include "train/run/run.h"

#include "train/evaluate/evaluate.h"

#include <math.h>

static zr_status after_batch(void *arg, int64_t windows)
{
    (void)windows;
    return zr__run_stop_asked(arg);
}

zr_status zr__run_validate(zr__run *r)
{
    int64_t windows = zr__samples_info(&r->data.inputs.val).windows;
    int64_t batches = r->config->train.eval_batches, batch = r->config->train_batch_size;
    if (batches > 0 && batches <= windows / batch) windows = batches * batch;
    zr_train_eval line = {.step = r->ranks.result->steps};
    zr__eval_part part;
    zr__eval_watch watch = {.done = after_batch, .arg = r};
    zr__eval_mean mean;
    const zr__eval_text val = {
        .kind = r->data.inputs.val.kind, .source = &r->data.inputs.val, .read = zr__samples_window, .windows = windows};
    zr__run_enter(&r->ranks, ZR__PHASE_EVALUATE);
    ZR_TRY(zr__run_agreed(&r->ranks, zr__evaluate(r->engine, r->ranks.comm, r->plan, &val, &watch, &part)));
    ZR_TRY(zr__run_agree(&r->ranks, part.data));
    ZR_TRY(zr__run_agreed(&r->ranks, zr__evaluate_mean(r->ranks.comm, &part, r->plan->terms, &mean)));
    line.val_loss = mean.loss;
    line.val_tokens = mean.term[0].counted;
    line.terms = zr__run_name_terms(r->plan, mean.term, line.term);
    r->ranks.result->val_loss = line.val_loss;
    r->training.suspect |= !isfinite(line.val_loss);
    zr__early_stop_add(&r->training.early, line.step, line.val_loss, r->config->train.threshold);
    if (r->ranks.comm->rank == 0) zr__run_log_eval(&r->ranks, &r->dir, &line);
    if (!r->config->train.keep_best || !(line.val_loss < r->resume.made.best_loss)) return ZR_OK;
    return zr__run_keep_best(r);
}
