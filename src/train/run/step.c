/** A training step: the rows of its micro-batches, its arguments, the agreement of all ranks on its outcome, and its
 * report. */
#include "train/run/run.h"

#include <math.h>
#include <stdio.h>

enum { SCALE_BYTES = 128 };

/* ---- the rows of micro-batches -------------------------------------------------------------------- */

int64_t zr__run_sample(const zr__run *r, int64_t step)
{
    return r->resume.from_sample + (step - r->resume.from_step) * r->config->train_batch_size;
}

/** Return the index of the sample in a micro-batch's first row. */
static int64_t first_sample(const zr__run *r, const zr_batch *batch)
{
    return zr__run_sample(r, batch->step) + batch->first_row;
}

static zr_status begin_batch(zr__run *r, const zr_batch *batch)
{
    return zr__samples_begin(&r->data.inputs.train, zr__run_sample(r, batch->step), r->config->train_batch_size);
}

/** Read the data of one micro-batch. This is a zr_batch_fn whose `arg` is the run. On failure, also store the status in
 * `data.failed`. */
static zr_status read_batch(void *arg, const zr_batch *batch, void *const *input)
{
    zr__run *r = arg;
    const double begin = zr_clock_sec();
    const int64_t rows = r->plan->layout.batch;
    const int64_t first = first_sample(r, batch);
    zr_status st = begin_batch(r, batch);
    for (int64_t b = 0; b < rows && st == ZR_OK; b++) {
        const zr__row row = zr__row_at(r->data.inputs.train.kind, &r->plan->layout, b, input);
        st = zr__rows_ahead_read(r->data.ahead, first + b, b, input);
        if (st == ZR_OK) zr__row_count(&r->plan->layout, &row, batch->counted);
    }
    /* The next micro-batch begins after the samples that all ranks together read in this one. */
    const int64_t all = r->config->train_batch_size / r->plan->layout.accum;
    if (st == ZR_OK) zr__rows_ahead_want(r->data.ahead, first + all, all);
    r->data.wait_sec += zr_clock_sec() - begin;
    if (r->data.failed == ZR_OK) r->data.failed = st; /* keep the first failure, which the engine also returns */
    return st;
}

/** Count the losses in a micro-batch of a model with several loss terms, before the step reads the micro-batch. This is
 * a zr_count_fn; it treats failures like read_batch. */
static zr_status count_batch(void *arg, const zr_batch *batch)
{
    zr__run *r = arg;
    const double begin = zr_clock_sec();
    const int64_t first = first_sample(r, batch);
    zr_status st = ZR_OK;
    for (int64_t b = 0; b < r->plan->layout.batch && st == ZR_OK; b++)
        st = zr__rows_ahead_count(r->data.ahead, first + b, batch->counted);
    r->data.wait_sec += zr_clock_sec() - begin;
    if (r->data.failed == ZR_OK) r->data.failed = st;
    return st;
}

/* ---- the outcome of a step ------------------------------------------------------------------------ */

/** Return whether a step updated nothing because all its targets are excluded from the loss. */
static bool is_uncounted(const zr_step_result *did)
{
    return did->counted == 0 && did->bad_param < 0 && isfinite(did->loss);
}

static void report_step(zr__run *r, const zr_step_result *did, double lr, double scale, double sec)
{
    if (r->ranks.comm->rank != 0) return;
    zr_train_step line = {.step = r->ranks.result->steps,
                          .steps = r->config->train.steps,
                          .loss = is_uncounted(did) ? NAN : did->loss,
                          .grad_norm = did->grad_norm,
                          .lr = lr,
                          .tokens = r->config->train_batch_size * r->plan->layout.seq,
                          .step_sec = sec,
                          .data_wait_sec = r->data.wait_sec,
                          .skipped = r->ranks.result->skipped,
                          .loss_scale = r->config->fp16 ? scale : 0.0,
                          .noise = r->config->train.noise_scale,
                          .noise_scale = r->ranks.result->noise_scale,
                          .muon = r->config->optimizer.type == ZR_OPTIMIZER_MUON,
                          .adamw_lr = lr * r->plan->rest.lr_factor};
    line.terms = zr__run_name_terms(r->plan, did->term, line.term);
    const double least_sec = sec > 0.0 ? sec : 1e-9;
    line.tokens_per_sec = (double)line.tokens / least_sec;
    line.samples_per_sec = (double)r->config->train_batch_size / least_sec;
    line.tflops = r->ranks.result->planned.flops_hardware / r->ranks.comm->size / least_sec / 1e12;
    line.mfu = zr__share_of_peak(r->ranks.result->planned.flops_model / r->ranks.comm->size / least_sec,
                                 zr__run_peak_flops(r->device, r->plan->layout.dtype));
    zr__run_log_step(&r->ranks, &r->dir, &line);
}

/** Describe the loss scale after a step without an update. Without fp16 the description is "". */
static void scale_text(bool fp16, const zr__loss_scaler *scaler, double before, char out[SCALE_BYTES])
{
    out[0] = '\0';
    if (!fp16) return;
    if (scaler->scale < before)
        snprintf(out, SCALE_BYTES, ", the loss scale goes from %s to %s", ZR_SHORTEST(before),
                 ZR_SHORTEST(scaler->scale));
    else
        snprintf(out, SCALE_BYTES, ", the loss scale stays %s", ZR_SHORTEST(before));
}

/** Count a step that did not update the weights. Fail with ZR_ERR_DIVERGED after ZR_TRAIN_MAX_SKIPPED skipped steps in
 * a row, not counting steps that lowered the loss scale. The result is the same on all ranks. */
static zr_status count_skipped(zr__run *r, const zr_step_result *did)
{
    char scale[SCALE_BYTES];
    if (is_uncounted(did)) {
        /* The loss scale does not change, since the step gives no information about it. */
        r->ranks.result->skipped++;
        if (r->training.uncounted++ == 0)
            zr__run_note(
                &r->ranks,
                "step %lld updated nothing, because no target of it counts; later steps of this kind have no note",
                (long long)r->ranks.result->steps);
        return ZR_OK;
    }
    bool skipped = did->skipped || !isfinite(did->loss);
    double before = r->training.scaler.scale;
    zr__loss_scaler_update(&r->training.scaler, skipped);
    if (!skipped) r->training.skipped_in_row = 0;
    if (!skipped) return ZR_OK;
    if (r->training.scaler.scale >= before) r->training.skipped_in_row++;
    r->ranks.result->skipped++;
    const char *name =
        did->bad_param >= 0 ? zr_graph_param(r->plan->graph[ZR_SCHEDULE_TRAIN], did->bad_param)->name : "";
    scale_text(r->config->fp16, &r->training.scaler, before, scale);
    zr__run_note(&r->ranks, "step %lld updated nothing: %s%s is not finite%s (%lld skipped so far)",
                 (long long)r->ranks.result->steps, name[0] ? "the gradient of " : "the loss", name, scale,
                 (long long)r->ranks.result->skipped);
    ZR_CHECK(r->training.skipped_in_row < ZR_TRAIN_MAX_SKIPPED, ZR_ERR_DIVERGED,
             "training diverged: %d steps in a row had no finite gradient, the last at step %lld (%s%s); lower the "
             "learning rate%s, lengthen the warm-up or %s gradient_clipping",
             ZR_TRAIN_MAX_SKIPPED, (long long)r->ranks.result->steps, name[0] ? name : "loss", scale,
             !r->config->fp16             ? ""
             : r->training.scaler.dynamic ? " or fp16.min_loss_scale"
                                          : " or fp16.loss_scale",
             r->config->gradient_clipping > 0.0 ? "lower" : "set");
    return ZR_OK;
}

/** Add the squared gradient norms of a step to the noise scale. Ignore a skipped step. The result is the same on all
 * ranks. */
static void add_noise(const zr_layout *l, zr__training *training, zr_train_result *result, const zr_step_result *did)
{
    const double small = (double)(l->batch * l->seq), big = small * (double)l->accum * l->ranks;
    if (!l->micro_squares || did->skipped) return;
    zr__noise_scale_add(&training->noise, did->micro_square, small, did->grad_norm * did->grad_norm, big);
    result->noise_scale = zr__noise_scale_value(&training->noise);
}

zr_status zr__run_collect_trace(const zr__ranks *ranks, zr__trace *trace, int64_t step)
{
    ZR_TRY(zr__run_agreed(ranks, zr__trace_collect(trace, ranks->comm, step)));
    const char *news = zr__trace_note(trace);
    if (news) zr__run_note(ranks, "%s", news);
    return ZR_OK;
}

zr_step_args zr__run_step_args(zr__run *r, int64_t step)
{
    return (zr_step_args){.step = step,
                          .lr = zr__lr(r->config, r->ranks.result->steps - r->ranks.result->skipped),
                          .clip = r->config->gradient_clipping,
                          .loss_scale = r->training.scaler.scale,
                          .batch = read_batch,
                          .count = count_batch,
                          .arg = r};
}

/** Agree with all ranks on the status of a step. `st` is the status on this rank. */
static zr_status agree_on_step(zr__run *r, zr_status st, const zr_step_result *did)
{
    bool diverged = st == ZR_ERR_DIVERGED;
    const char *why = ZR__WHY();
    /* If a step returns ZR_ERR_STOPPED, it does so on all ranks, so no further agreement is needed. */
    if (st == ZR_ERR_STOPPED) return st;
    const bool mine = st != ZR_OK && !diverged && st != r->data.failed;
    if (mine) r->ranks.result->agreed = false;
    if (!r->ranks.result->agreed) return st;
    ZR_TRY(zr__run_agree(&r->ranks, r->data.failed == ZR_OK ? ZR_OK : ZR_FAIL(r->data.failed, "%s", why)));
    if (!diverged) return ZR_OK;
    r->training.suspect = true;
    r->training.mixed = !did->skipped;
    /* Add advice to the engine's message here, since the engine does not know configuration keys. */
    return ZR_FAIL(ZR_ERR_DIVERGED,
                   "%s. To skip such steps instead, set gradient_clipping, memory.norm two_pass or memory.layout paper",
                   why);
}

zr_status zr__run_step(zr__run *r)
{
    zr_step_result did = {0};
    zr_step_args args = zr__run_step_args(r, r->ranks.result->steps);
    args.stop = zr__run_stop_asked;
    r->data.wait_sec = 0;
    zr__run_enter(&r->ranks,
                  r->saving.now && r->plan->save == ZR_SAVE_IN_PLACE ? ZR__PHASE_TRAIN_AND_SAVE : ZR__PHASE_TRAIN);
    zr__watch_begin(&r->watching.watch, r->engine, args.step);
    double begin = zr_clock_sec();
    zr_status st = zr__run_agreed(&r->ranks, zr_engine_step(r->engine, &args, &did));
    double sec = zr_clock_sec() - begin;
    zr__watch_end(&r->watching.watch, r->engine, sec);
    zr__hang_took(r->watching.hang, sec);
    /* Let the estimated step time decrease by at most a tenth per step, since a later step may be slow again. */
    r->training.step_sec = fmax(sec, 0.9 * r->training.step_sec);
    st = agree_on_step(r, st, &did);
    if (st != ZR_OK) zr__watch_drop(&r->watching.watch);
    ZR_TRY(st);
    if (r->watching.watch.tracing)
        ZR_TRY(zr__run_collect_trace(&r->ranks, r->watching.watch.trace, r->ranks.result->steps));
    r->ranks.result->steps++;
    if (!is_uncounted(&did)) {
        r->ranks.result->loss = did.loss;
        r->training.suspect = !isfinite(did.loss);
    }
    r->training.highest_lr = fmax(r->training.highest_lr, args.lr);
    add_noise(&r->plan->layout, &r->training, r->ranks.result, &did);
    st = count_skipped(r, &did);
    report_step(r, &did, args.lr, args.loss_scale, sec);
    return st;
}
