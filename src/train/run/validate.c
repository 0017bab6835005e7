/** An evaluation on data.val during a run. */
#include "train/run/agree.h"
#include "train/run/log.h"
#include "train/run/run.h"
#include "train/run/notes.h"

#include "train/weights/evaluate.h"

#include <math.h>

static zr_status after_batch(void *arg, int64_t windows)
{
    (void)windows;
    return zr__run_stop_asked(arg);
}

zr_status zr__run_validate(zr__run *r)
{
    int64_t windows = zr__samples_info(&r->inputs.val).windows;
    int64_t batches = r->config->train.eval_batches, batch = r->config->train_batch_size;
    if (batches > 0 && batches <= windows / batch) windows = batches * batch;
    zr_train_eval line = {.step = r->result->steps};
    zr__eval_part part;
    zr__eval_watch watch = {.done = after_batch, .arg = r};
    zr__eval_mean mean;
    const zr__eval_text val = {
        .kind = r->inputs.val.kind, .source = &r->inputs.val, .read = zr__samples_window, .windows = windows};
    zr__run_enter(r, ZR__PHASE_EVALUATE);
    ZR_TRY(zr__run_agreed(r, zr__evaluate(r->engine, r->comm, &r->plan->layout, &val, &watch, &part)));
    ZR_TRY(zr__run_agree(r, part.data));
    ZR_TRY(zr__run_agreed(r, zr__evaluate_mean(r->comm, &part, r->plan->terms, &mean)));
    line.val_loss = mean.loss;
    line.val_tokens = mean.term[0].counted;
    line.terms = zr__run_name_terms(r->plan, mean.term, line.term);
    r->result->val_loss = line.val_loss;
    r->suspect |= !isfinite(line.val_loss);
    if (r->comm->rank == 0) zr__run_log_eval(r, &line);
    if (!r->config->train.keep_best || !(line.val_loss < r->made.best_loss)) return ZR_OK;
    return zr__run_keep_best(r);
}
