/** A training run, from the checks of its inputs to the final weights. All ranks first check everything, then create
 * the outputs, then train. */
#include "train/run/agree.h"
#include "train/run/offload.h"
#include "train/run/resume.h"
#include "train/run/sample.h"
#include "train/run/save.h"
#include "train/run/tell.h"

#include "base/text/text.h"
#include "plan/cost/cost.h"
#include "train/dir/metrics.h"
#include "train/host/host.h"
#include "train/measure/measure.h"
#include "train/weights/evaluate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SCALE_BYTES = 128 };

static void log_line(zr__run *r, zr__metrics_file *m, const char *line, int bytes)
{
    char lost[48] = "";
    switch (zr__metrics_write(m, line, (size_t)bytes)) {
    case ZR_METRICS_KEPT:
        zr__run_warn(r, "%s cannot be written: %s; its %ss are kept in memory until it can be", m->name,
                     strerror(m->error), m->line);
        break;
    case ZR_METRICS_LOST:
        zr__run_warn(r, "%s still cannot be written: %s; from step %lld on its %ss are lost", m->name,
                     strerror(m->error), (long long)r->result->steps, m->line);
        break;
    case ZR_METRICS_AGAIN:
        if (m->outage.n_lost > 0) snprintf(lost, sizeof(lost), "; %lld are lost", (long long)m->outage.n_lost);
        zr__run_warn(r, "%s can be written again: %lld %s%s, kept in memory meanwhile, are now in it%s", m->name,
                     (long long)m->outage.n_late, m->line, m->outage.n_late == 1 ? "" : "s", lost);
        break;
    default:
        break;
    }
}

/** Write scalars of the current step into metrics.jsonl, with `prefix` before their names, and into the event file,
 * under the group `group`. */
static void log_scalars(zr__run *r, const char *prefix, const char *group, const zr__scalar *scalar, int n)
{
    char line[ZR_METRICS_LINE_BYTES], record[ZR_EVENT_BYTES];
    const int64_t step = r->result->steps;
    log_line(r, &r->dir.metrics, line, zr__metrics_line(step, prefix, scalar, n, line));
    if (r->dir.events.fd >= 0)
        log_line(r, &r->dir.events, record, zr__event_scalars(zr__event_now(), step, group, scalar, n, record));
}

/** Begin the event file. For a resumed run, also record its first step. TensorBoard then drops the data that earlier
 * event files have for this step and later steps. */
static void log_events_begin(zr__run *r)
{
    char record[ZR_EVENT_BYTES];
    const double now = zr__event_now();
    log_line(r, &r->dir.events, record, zr__event_version(now, record));
    if (r->resume.there) log_line(r, &r->dir.events, record, zr__event_start(now, r->from_step + 1, record));
}

/* ---- facts ----------------------------------------------------------------------------------- */

zr_config zr__run_given(const zr__run *r)
{
    zr_config given = r->given ? *r->given : *r->config;
    given.zero.stage = r->config->zero.stage;
    given.recompute.policy = r->config->recompute.policy;
    given.micro_batch_size = r->config->micro_batch_size;
    given.accumulation_steps = r->config->accumulation_steps;
    given.train_batch_size = r->config->train_batch_size;
    given.train.layer_major = r->config->train.layer_major;
    given.zero.optim = r->config->zero.optim;
    given.zero.param = r->config->zero.param;
    given.zero.offload_gradients = r->config->zero.offload_gradients;
    given.recompute.offload = r->config->recompute.offload;
    return given;
}

/** Return the dtype whose peak rate is the reference for this rank's matrix products. For fp16 this is F32 on
 * processors, since they compute fp16 products in fp32. On GPUs it is BF16, since fp16 products are as fast as bf16
 * products. */
static zr_dtype rate_dtype(const zr__run *r)
{
    const zr_device_facts *facts = &r->device->profile.facts;
    const zr_dtype dtype = r->plan->layout.dtype;
    if (facts->apart) return dtype == ZR_F32 ? ZR_F32 : ZR_BF16;
    return dtype == ZR_BF16 && facts->bf16_products ? ZR_BF16 : ZR_F32;
}

double zr__run_peak_flops(const zr__run *r)
{
    const zr_machine *machine = &r->device->profile.machine;
    return rate_dtype(r) == ZR_BF16 ? machine->flops_bf16 : machine->flops_f32;
}

/* ---- start ----------------------------------------------------------------------------------- */

/** Return the configuration as JSON for the file config.json in the run's directory. */
static zr_status written_config(const zr__run *r, char **json)
{
    char here[PATH_MAX];
    zr_config written = *r->config; /* copy with started_in, which makes relative paths usable elsewhere */
    if (r->given) written.parallel.ranks_per_host = r->given->parallel.ranks_per_host;
    written.train.started_in = getcwd(here, sizeof(here));
    return zr_config_to_json(&written, json);
}

static zr_status open_rest(zr__run *r)
{
    ZR_TRY(zr__run_reserve(r));
    if (r->watch.trace) ZR_TRY(zr__trace_open(r->watch.trace, &r->dir, r->config));
    return r->config->train.tensorboard ? zr__run_dir_add_events(&r->dir) : ZR_OK;
}

/** Create the directory and the outputs of a new run. On failure, remove all of them. */
static zr_status open_new(zr__run *r, const char *json)
{
    /* Open the directory first, since the other outputs may be in it. */
    ZR_TRY(zr__run_dir_open(&r->dir, r->config->train.output_dir, json));
    zr_status st = open_rest(r);
    if (st == ZR_OK) return ZR_OK;
    zr__run_release(r);
    zr__run_dir_undo(&r->dir);
    return st;
}

/** Open the outputs in the directory of a resumed run. Change metrics.jsonl and config.json only after all other
 * outputs are open. */
static zr_status open_again(zr__run *r, const char *json)
{
    zr__resume_clean(r); /* this frees disk space for the files that are written below */
    ZR_TRY(zr__run_complete_weights(r));
    ZR_TRY(open_rest(r));
    zr_status st = zr__run_dir_continue(&r->dir, r->from_step, json, &r->made);
    if (st == ZR_OK) st = zr__run_know_best(r);
    if (st != ZR_OK) zr__run_dir_drop_events(&r->dir);
    return st;
}

/** Read the record of the Hugging Face directory that the weights come from; the weights are written in the same form.
 * A resumed run finds the record in its checkpoint. If an earlier version of zr wrote the checkpoint, the record is
 * made from model.init. */
static zr_status read_source(zr__run *r)
{
    char path[PATH_MAX];
    if (r->resume.step < 0 && !r->inputs.weights) return ZR_OK;
    if (r->resume.step >= 0)
        ZR_TRY(zr__checkpoint_path(path, r->config->train.output_dir, r->resume.step));
    else
        ZR_TRY(zr__path_format(path, "%s", r->config->model.init));
    return zr__hf_source_read(path, r->inputs.weights, &r->source);
}

static zr_status open_outputs(zr__run *r)
{
    char *json = NULL;
    if (r->comm->rank != 0) return ZR_OK;
    ZR_TRY(read_source(r));
    ZR_TRY(written_config(r, &json));
    zr_status st = r->resume.there ? open_again(r, json) : open_new(r, json);
    zr_free(json);
    return st;
}

/** For a new run, check that all ranks see its directory. For a resumed run, send the earlier results in the directory
 * from rank 0 to all ranks. */
static zr_status share_outputs(zr__run *r)
{
    if (r->resume.there) return zr__run_share(r, &r->made, sizeof(r->made));
    zr_status st = zr__run_same_dir(r);
    if (st == ZR_OK || r->comm->rank != 0) return st;
    zr__run_release(r);
    zr__run_dir_undo(&r->dir);
    return st;
}

/** Report the memory limit of recompute policy auto, if the run chose this limit itself. */
static void note_limit(const zr__run *r)
{
    const int64_t limit_bytes = r->settled.memory.limit_bytes;
    if (!r->given || r->given->memory.limit_bytes == r->config->memory.limit_bytes) return;
    if (limit_bytes > 0)
        zr__run_note(r, "activation_checkpointing.policy auto: memory.limit is set to %s, a rank's share of %s",
                     ZR_SIZE((double)limit_bytes),
                     r->plan->profile.facts.apart ? "its GPU" : "nine tenths of the free memory of the host");
    else
        zr__run_note(r, "activation_checkpointing.policy auto: the free memory of the host is unknown, so nothing is "
                        "recomputed; set memory.limit");
}

/** Report the values chosen for keys that the configuration left open, and how recompute policy auto stores activation
 * checkpoints. */
static void note_choices(const zr__run *r)
{
    if (r->chosen_note[0]) zr__run_note(r, "%s", r->chosen_note);
    if (r->config->recompute.policy != ZR_POLICY_AUTO || !r->plan->partition_checkpoints ||
        r->config->recompute.partition)
        return;
    zr__run_note(r,
                 "activation_checkpointing.policy auto keeps checkpoints in pieces%s, as with "
                 "partition_activations%s",
                 r->plan->checkpoint_home == ZR_SPACE_HOST ? " on the host" : "",
                 r->plan->checkpoint_home == ZR_SPACE_HOST ? " and cpu_checkpointing" : "");
}

/** Report how checkpoints are saved, if they are saved asynchronously. */
static void note_saving(const zr__run *r)
{
    zr_save_price price;
    if (r->plan->save == ZR_SAVE_NONE) return;
    if (zr__plan_price_save(r->plan, &r->plan->profile, ZR_TRAIN_DISK_BYTES_SEC, &price) != ZR_OK) return;
    if (r->plan->save == ZR_SAVE_COPY)
        zr__run_note(r,
                     "checkpoints are written asynchronously, during the next steps, from a copy of %s a rank in the "
                     "host's memory",
                     ZR_SIZE((double)price.bytes));
    else
        zr__run_note(r,
                     "checkpoints are written asynchronously, during the next step, %s a rank from where the states "
                     "are: updates wait for the disk%s",
                     ZR_SIZE((double)price.bytes),
                     r->plan->layout.home.optim == ZR_SPACE_DISK
                         ? ""
                         : " (a memory.limit with room for as much again gives a copy, and no wait)");
}

/** Report skipped lines and cut documents of a text. Other irregularities of the text were already reported when the
 * configuration was completed (train/setup/prepare.c). */
static void note_lines(const zr__run *r, const zr__samples *samples)
{
    zr_data_info info = {0};
    if (zr__samples_are_open(samples)) info = zr__samples_info(samples);
    const bool wrong = info.skipped_lines > 0 || (samples->labelled && info.note[0]); /* lines, or answers */
    if (wrong) zr__run_note(r, "%s", info.note);
    if (info.cut_documents > 0) zr__run_note(r, "%s", info.cut);
}

/** Report that the training data consist largely of padding. Rows of several documents would avoid it. */
static void note_padding(const zr__run *r)
{
    const zr_data_info info = zr__samples_info(&r->inputs.train);
    const bool pairs = !r->inputs.train.tokens, packs = pairs && strcmp(info.format, "safetensors") != 0;
    const bool packed = pairs ? r->config->data.max_samples > 1 : r->config->data.packing == ZR_PACKING_WHOLE;
    if (packed || 1 - info.filled < 0.25 || (pairs && !packs)) return;
    zr__run_note(r,
                 "%.0f %% of the tokens of data.train are padding; %s puts several %s into a "
                 "%s, each with the losses that it has alone",
                 100 * (1 - info.filled), pairs ? "data.max_samples above 1" : "data.packing whole",
                 pairs ? "samples" : "lines", pairs ? "row" : "sample");
}

static void announce(zr__run *r)
{
    if (r->comm->rank == 0 && r->observer->start) r->observer->start(r->observer->arg, &r->info);
    if (r->dir.gone[0])
        zr__run_note(r, "took over the lock of the directory from a process that no longer exists (%s)", r->dir.gone);
    zr__resume_announce(r);
    note_limit(r);
    note_choices(r);
    zr__run_tell_offload(r);
    note_saving(r);
    char limits[ZR__LIMITS_BYTES];
    if (zr__hang_limits(r->hang, limits)[0]) zr__run_note(r, "%s", limits);
    int cores = zr__host_cores(), wanted = r->info.threads * r->comm->local_size;
    if (wanted > cores)
        zr__run_note(r, "%d ranks x %d threads are more than %d cores, so training will be slow", r->comm->local_size,
                     r->info.threads, cores);
    note_lines(r, &r->inputs.train);
    note_padding(r);
    note_lines(r, &r->inputs.val);
    if (r->inputs.note[0]) zr__run_note(r, "%s", r->inputs.note);
    if (r->inputs.fresh[0])
        zr__run_note(r, "%s has another task; new tensors, which begin with random values: %s", r->config->model.init,
                     r->inputs.fresh);
}

/** Set the peak FLOP/s, the reference for mfu. Read the peak that `zr info --bench` has recorded. If it has not,
 * measure the peak in a few milliseconds, while the other ranks wait and do not disturb the measurement. Rank 0 only.
 */
static void know_peak(zr__run *r)
{
    zr_rates rates;
    if (zr__rates_recall(&r->device->profile.facts, &rates) == ZR_OK)
        zr__rates_profile(&rates, rate_dtype(r), r->comm->size, r->comm->local_size, &r->device->profile);
    else
        r->device->ops->measure(r->device, rate_dtype(r));
    zr__disk_profile(r->comm->local_size, &r->device->profile);
}

/** Read elements of model.init, or of model.lora.init. Generate them for adapters that no directory gives, and for the
 * new head of another task. */
static zr_status fill_start(void *arg, const zr_param_info *param, int64_t first, int64_t n, float *out)
{
    const zr__run *r = arg;
    const bool adapter = param->adapter && !r->config->model.lora_init;
    if (adapter || zr__inputs_lack(&r->inputs, param->name)) return zr__engine_initial(r->engine, param, first, n, out);
    return zr__weights_fill(r->inputs.weights, param, first, n, out);
}

/** Allocate memory, fill the states and create the outputs. Allocate first, so that a run with too little memory
 * creates no directory. */
static zr_status start_run(zr__run *r)
{
    if (r->comm->rank == 0) know_peak(r);
    ZR_TRY(zr__run_create_engine(r));
    if (r->rows_ahead > 0)
        ZR_TRY(zr__run_agree(r, zr__rows_ahead_create(&r->inputs.train, r->plan, r->rows_ahead, &r->ahead)));
    if (r->resume.step >= 0)
        ZR_TRY(zr__resume_fill(r));
    else
        ZR_TRY(zr__run_agreed(r, zr_engine_fill(r->engine, ZR_STATE_PARAM, r->inputs.weights ? fill_start : NULL, r)));
    ZR_TRY(zr__run_agree(r, open_outputs(r)));
    ZR_TRY(share_outputs(r));
    r->info.from_step = r->from_step;
    announce(r);
    log_events_begin(r);
    if (r->watch.trace) ZR_TRY(zr__run_agreed(r, zr__trace_align(r->watch.trace, r->comm)));
    return ZR_OK;
}

/* ---- steps ----------------------------------------------------------------------------------- */

int64_t zr__run_sample(const zr__run *r, int64_t step)
{
    return r->from_sample + (step - r->from_step) * r->config->train_batch_size;
}

/** Return the index of the sample in a micro-batch's first row. */
static int64_t first_sample(const zr__run *r, const zr_batch *batch)
{
    return zr__run_sample(r, batch->step) + batch->first_row;
}

zr_status zr__run_read(void *arg, const zr_batch *batch, void *const *input)
{
    zr__run *r = arg;
    const double begin = zr_clock_sec();
    const int64_t rows = r->plan->layout.batch;
    const int64_t first = first_sample(r, batch);
    zr_status st = ZR_OK;
    for (int64_t b = 0; b < rows && st == ZR_OK; b++) {
        const zr__row row = zr__row_at(r->inputs.train.kind, &r->plan->layout, b, input);
        st = r->ahead ? zr__rows_ahead_read(r->ahead, first + b, b, input)
                      : zr__samples_read(&r->inputs.train, first + b, &row);
        if (st == ZR_OK) zr__row_count(&r->plan->layout, &row, batch->counted);
    }
    /* The next micro-batch begins after the samples that all ranks together read in this one. */
    const int64_t all = r->config->train_batch_size / r->plan->layout.accum;
    if (st == ZR_OK && r->ahead) zr__rows_ahead_want(r->ahead, first + all, all);
    r->data_wait_sec += zr_clock_sec() - begin;
    if (r->batch_failed == ZR_OK) r->batch_failed = st; /* keep the first failure, which the engine also returns */
    return st;
}

/** Count the losses in a micro-batch of a model with several loss terms, before the step reads the micro-batch. This is
 * a zr_count_fn. */
static zr_status count_batch(void *arg, const zr_batch *batch)
{
    zr__run *r = arg;
    const double begin = zr_clock_sec();
    const int64_t first = first_sample(r, batch);
    zr_status st = ZR_OK;
    for (int64_t b = 0; b < r->plan->layout.batch && st == ZR_OK; b++)
        st = r->ahead ? zr__rows_ahead_count(r->ahead, first + b, batch->counted)
                      : zr__samples_count(&r->inputs.train, &r->plan->layout, first + b, batch->counted);
    r->data_wait_sec += zr_clock_sec() - begin;
    if (r->batch_failed == ZR_OK) r->batch_failed = st;
    return st;
}

/** Read a micro-batch. If it is not the first of its step and the engine allows communication now, first check whether
 * the run must stop. */
static zr_status train_batch(void *arg, const zr_batch *batch, void *const *input)
{
    zr__run *r = arg;
    if (batch->micro > 0 && zr_engine_serial(r->engine)) ZR_TRY(zr__run_stop_asked(r));
    return zr__run_read(arg, batch, input);
}

/** Return whether a step updated nothing because all its targets are excluded from the loss. */
static bool is_uncounted(const zr_step_result *did)
{
    return did->counted == 0 && did->bad_param < 0 && isfinite(did->loss);
}

/** For a model with several loss terms, name the results of the terms, and return the number of terms. Return 0 for a
 * model with one term. */
static int name_terms(const zr_plan *plan, const zr_term_result *result, zr_train_term *term)
{
    for (int t = 0; t < plan->terms && plan->terms > 1; t++)
        term[t] = (zr_train_term){zr_graph_loss_name(plan->graph[ZR_SCHEDULE_TRAIN], t),
                                  result[t].counted > 0 ? result[t].loss : NAN, result[t].counted};
    return plan->terms > 1 ? plan->terms : 0;
}

static void report_step(zr__run *r, const zr_step_result *did, double lr, double scale, double sec)
{
    zr__scalar scalar[ZR_SCALARS];
    if (r->comm->rank != 0) return;
    zr_train_step line = {.step = r->result->steps,
                          .steps = r->config->train.steps,
                          .loss = is_uncounted(did) ? NAN : did->loss,
                          .grad_norm = did->grad_norm,
                          .lr = lr,
                          .tokens = r->config->train_batch_size * r->plan->layout.seq,
                          .step_sec = sec,
                          .data_wait_sec = r->data_wait_sec,
                          .skipped = r->result->skipped,
                          .loss_scale = r->config->fp16 ? scale : 0.0,
                          .noise = r->config->train.noise_scale,
                          .noise_scale = r->result->noise_scale};
    line.terms = name_terms(r->plan, did->term, line.term);
    const double least_sec = sec > 0.0 ? sec : 1e-9;
    line.tokens_per_sec = (double)line.tokens / least_sec;
    line.samples_per_sec = (double)r->config->train_batch_size / least_sec;
    line.tflops = r->plan->flops_hardware / r->comm->size / least_sec / 1e12;
    line.mfu = zr__share_of_peak(r->plan->flops_model / r->comm->size / least_sec, zr__run_peak_flops(r));
    log_scalars(r, "", "train", scalar, zr__metrics_step_scalars(&line, scalar));
    if (r->observer->step) r->observer->step(r->observer->arg, &line);
}

/** Describe the loss scale after a step without an update. Without fp16 the description is "". */
static void scale_text(const zr__run *r, double before, char out[SCALE_BYTES])
{
    out[0] = '\0';
    if (!r->config->fp16) return;
    if (r->scaler.scale < before)
        snprintf(out, SCALE_BYTES, ", the loss scale goes from %s to %s", ZR_SHORTEST(before),
                 ZR_SHORTEST(r->scaler.scale));
    else
        snprintf(out, SCALE_BYTES, ", the loss scale stays %s", ZR_SHORTEST(before));
}

/** Count a step without any target that counts. Report the first one of the process. The loss scale does not change,
 * since the step gives no information about it. */
static void count_uncounted(zr__run *r)
{
    r->result->skipped++;
    if (r->uncounted == 0)
        zr__run_note(r,
                     "step %lld updated nothing, because no target of it counts; later steps of this kind have no "
                     "note",
                     (long long)r->result->steps);
    r->uncounted++;
}

/** Count a step that did not update the weights. Fail with ZR_ERR_DIVERGED after ZR_TRAIN_MAX_SKIPPED skipped steps in
 * a row, not counting steps that lowered the loss scale. The result is the same on all ranks. */
static zr_status count_skipped(zr__run *r, const zr_step_result *did)
{
    char scale[SCALE_BYTES];
    if (is_uncounted(did)) {
        count_uncounted(r);
        return ZR_OK;
    }
    bool skipped = did->skipped || !isfinite(did->loss);
    double before = r->scaler.scale;
    zr__loss_scaler_update(&r->scaler, skipped);
    if (!skipped) r->skipped_in_row = 0;
    if (!skipped) return ZR_OK;
    if (r->scaler.scale >= before) r->skipped_in_row++;
    r->result->skipped++;
    const char *name =
        did->bad_param >= 0 ? zr_graph_param(r->plan->graph[ZR_SCHEDULE_TRAIN], did->bad_param)->name : "";
    scale_text(r, before, scale);
    zr__run_note(r, "step %lld updated nothing: %s%s is not finite%s (%lld skipped so far)",
                 (long long)r->result->steps, name[0] ? "the gradient of " : "the loss", name, scale,
                 (long long)r->result->skipped);
    ZR_CHECK(r->skipped_in_row < ZR_TRAIN_MAX_SKIPPED, ZR_ERR_DIVERGED,
             "training diverged: %d steps in a row had no finite gradient, the last at step %lld (%s%s); lower the "
             "learning rate%s, lengthen the warm-up or %s gradient_clipping",
             ZR_TRAIN_MAX_SKIPPED, (long long)r->result->steps, name[0] ? name : "loss", scale,
             !r->config->fp16    ? ""
             : r->scaler.dynamic ? " or fp16.min_loss_scale"
                                 : " or fp16.loss_scale",
             r->config->gradient_clipping > 0.0 ? "lower" : "set");
    return ZR_OK;
}

/** Add the squared gradient norms of a step to the noise scale. Ignore a skipped step. The result is the same on all
 * ranks. */
static void add_noise(zr__run *r, const zr_step_result *did)
{
    const zr_layout *l = &r->plan->layout;
    const double small = (double)(l->batch * l->seq), big = small * (double)l->accum * l->ranks;
    if (!l->micro_squares || did->skipped) return;
    zr__noise_scale_add(&r->noise, did->micro_square, small, did->grad_norm * did->grad_norm, big);
    r->result->noise_scale = zr__noise_scale_value(&r->noise);
}

zr_status zr__run_collect_trace(zr__run *r, int64_t step)
{
    ZR_TRY(zr__run_agreed(r, zr__trace_collect(r->watch.trace, r->comm, step)));
    const char *news = zr__trace_note(r->watch.trace);
    if (news) zr__run_note(r, "%s", news);
    return ZR_OK;
}

zr_step_args zr__run_step_args(zr__run *r, int64_t step, zr_batch_fn batch)
{
    return (zr_step_args){.step = step,
                          .lr = zr__lr(r->config, r->result->steps - r->result->skipped),
                          .clip = r->config->gradient_clipping,
                          .loss_scale = r->scaler.scale,
                          .batch = batch,
                          .count = count_batch,
                          .arg = r};
}

/** Agree with all ranks on the status of a step. `st` is the status on this rank. */
static zr_status agree_on_step(zr__run *r, zr_status st, const zr_step_result *did)
{
    bool diverged = st == ZR_ERR_DIVERGED;
    const char *why = ZR__WHY();
    /* If a step returns ZR_ERR_STOPPED, it does so on all ranks, so no further agreement is needed. */
    if (st == ZR_ERR_STOPPED) return zr__run_agreed(r, st);
    if (st != ZR_OK && !diverged && st != r->batch_failed) return st;
    ZR_TRY(zr__run_agree(r, r->batch_failed == ZR_OK ? ZR_OK : ZR_FAIL(r->batch_failed, "%s", why)));
    if (!diverged) return ZR_OK;
    r->suspect = true;
    r->mixed = !did->skipped;
    /* Add advice to the engine's message here, since the engine does not know configuration keys. */
    return ZR_FAIL(ZR_ERR_DIVERGED,
                   "%s. To skip such steps instead, set gradient_clipping, memory.norm two_pass or memory.layout paper",
                   why);
}

static zr_status one_step(zr__run *r)
{
    zr_step_result did = {0};
    zr_step_args args = zr__run_step_args(r, r->result->steps, train_batch);
    r->result->agreed = false;
    r->data_wait_sec = 0;
    zr__run_enter(r, r->saving && r->plan->save == ZR_SAVE_IN_PLACE ? ZR__PHASE_TRAIN_AND_SAVE : ZR__PHASE_TRAIN);
    zr__watch_begin(&r->watch, r->engine, args.step);
    double begin = zr_clock_sec();
    zr_status st = zr_engine_step(r->engine, &args, &did);
    double sec = zr_clock_sec() - begin;
    zr__watch_end(&r->watch, r->engine, sec);
    zr__hang_took(r->hang, sec);
    /* Let the estimated step time decrease by at most a tenth per step, since a later step may be slow again. */
    r->step_sec = fmax(sec, 0.9 * r->step_sec);
    st = agree_on_step(r, st, &did);
    if (st != ZR_OK) zr__watch_drop(&r->watch);
    ZR_TRY(st);
    if (r->watch.tracing) ZR_TRY(zr__run_collect_trace(r, r->result->steps));
    r->result->steps++;
    if (!is_uncounted(&did)) {
        r->result->loss = did.loss;
        r->suspect = !isfinite(did.loss);
    }
    add_noise(r, &did);
    st = count_skipped(r, &did);
    report_step(r, &did, args.lr, args.loss_scale, sec);
    return st;
}

static zr_status after_batch(void *arg, int64_t windows)
{
    (void)windows;
    return zr__run_stop_asked(arg);
}

static zr_status evaluate_now(zr__run *r)
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
    r->result->agreed = false;
    zr__run_enter(r, ZR__PHASE_EVALUATE);
    ZR_TRY(zr__evaluate(r->engine, r->comm, &r->plan->layout, &val, &watch, &part));
    ZR_TRY(zr__run_agree(r, part.data));
    ZR_TRY(zr__run_agreed(r, zr__evaluate_mean(r->comm, &part, r->plan->terms, &mean)));
    line.val_loss = mean.loss;
    line.val_tokens = mean.term[0].counted;
    line.terms = name_terms(r->plan, mean.term, line.term);
    r->result->val_loss = line.val_loss;
    r->suspect |= !isfinite(line.val_loss);
    if (r->comm->rank == 0) {
        zr__scalar scalar[ZR_SCALARS];
        log_scalars(r, "val_", "val", scalar, zr__metrics_eval_scalars(&line, scalar));
        if (r->observer->eval) r->observer->eval(r->observer->arg, &line);
    }
    if (!r->config->train.keep_best || !(line.val_loss < r->made.best_loss)) return ZR_OK;
    return zr__run_keep_best(r);
}

/** Return whether an evaluation and a sample, if enabled, follow the current step. */
static bool is_eval_step(const zr__run *r)
{
    const int64_t step = r->result->steps, interval = r->config->train.eval_interval;
    return step == r->config->train.steps || (interval > 0 && step % interval == 0);
}

static bool eval_is_due(const zr__run *r)
{
    return zr__samples_are_open(&r->inputs.val) && r->config->train.eval_interval > 0 && is_eval_step(r);
}

static bool sample_is_due(const zr__run *r)
{
    return r->config->train.sample_tokens > 0 && is_eval_step(r);
}

static zr_status write_sample_line(zr__run *r)
{
    char *line = NULL;
    zr__run_enter(r, ZR__PHASE_EVALUATE);
    ZR_TRY(zr__sample_write(r, &line));
    if (line) log_line(r, &r->dir.metrics, line, (int)strlen(line));
    zr_free(line);
    return ZR_OK;
}

/** Return whether all steps of this process updated nothing, because none of their targets counts in the loss. */
static bool is_all_uncounted(const zr__run *r)
{
    const int64_t steps = r->result->steps - r->from_step;
    return steps > 0 && r->uncounted == steps;
}

/** Return whether a checkpoint is written after the current step. After the last step it is written even without an
 * interval, so that the run can be extended, except if nothing was trained and the run is about to fail. */
static bool save_is_due(const zr__run *r)
{
    const int64_t step = r->result->steps, interval = r->config->train.save_interval;
    if (step == r->config->train.steps) return (interval > 0 || r->config->train.save_end) && !is_all_uncounted(r);
    return interval > 0 && step % interval == 0;
}

/** Perform all steps. After each step, first write a checkpoint if it is due, then handle requests, then evaluate. If a
 * run was stopped between a checkpoint and the evaluation of the same step, the resumed run begins with this
 * evaluation.
 */
static zr_status make_steps(zr__run *r)
{
    if (r->from_step > 0 && !r->made.evaluation && eval_is_due(r)) ZR_TRY(evaluate_now(r));
    if (r->from_step > 0 && !r->made.sample && sample_is_due(r)) ZR_TRY(write_sample_line(r));
    while (r->result->steps < r->config->train.steps) {
        ZR_TRY(one_step(r));
        if (save_is_due(r)) ZR_TRY(zr__run_save(r));
        if (r->result->steps < r->config->train.steps) ZR_TRY(zr__run_asked(r));
        if (eval_is_due(r)) ZR_TRY(evaluate_now(r));
        if (sample_is_due(r)) ZR_TRY(write_sample_line(r));
    }
    ZR_CHECK(!is_all_uncounted(r), ZR_ERR_DATA,
             "%s: no target counts in any of %lld steps; give %s data.seq_length %lld tokens",
             ZR_SHOWN(r->config->data.train), (long long)(r->result->steps - r->from_step),
             r->inputs.train.pairs      ? "rows with masked tokens within"
             : r->inputs.train.labelled ? "samples with labels or answers within"
                                        : "lines with an answer that begins within",
             (long long)r->config->data.seq_length);
    return ZR_OK;
}

static zr_status run_all(zr__run *r)
{
    double begin = zr_clock_sec();
    ZR_TRY(zr__run_agree(r, zr__hang_create(r->config, r->comm, r->observer, &r->hang)));
    zr__run_enter(r, ZR__PHASE_START);
    ZR_TRY(zr__run_check(r));
    ZR_TRY(start_run(r));
    return zr__run_end(r, make_steps(r), begin);
}

static zr_status train_or_resume(const zr_config *config, zr_comm *comm, const zr_observer *observer, bool resume,
                                 zr_train_result *result)
{
    static const zr_observer nobody = {0};
    ZR_CHECK(config && comm && result, ZR_ERR_ARG, "zr_train_run was given a NULL pointer");
    zr__run r = {.config = config,
                 .comm = comm,
                 .observer = observer ? observer : &nobody,
                 .result = result,
                 .scaler = zr__loss_scaler_create(config),
                 .resume = {.asked = resume, .step = -1},
                 .saved_step = -1,
                 .made = {.best_loss = INFINITY},
                 .dir = ZR_RUN_DIR_INIT};
    result->loss = result->val_loss = result->noise_scale = NAN;
    r.peak_before_bytes = zr__host_peak_bytes();
    result->peak_rss_bytes = -1;
    zr_status st = run_all(&r);
    zr__run_release(&r);
    zr__watch_destroy(&r.watch);
    zr_engine_destroy(&r.engine);
    zr__run_save_drop(&r);
    zr__hang_destroy(&r.hang);
    zr__rows_ahead_destroy(&r.ahead);
    zr_plan_destroy(&r.plan);
    zr_device_destroy(&r.device);
    zr__inputs_close(&r.inputs);
    zr__hf_source_free(&r.source);
    zr_tokenizer_close(&r.tokenizer);
    zr__resume_close(&r);
    zr__run_tell_metrics(&r, st);
    zr__run_dir_close(&r.dir);
    return st;
}

zr_status zr_train_run(const zr_config *config, zr_comm *comm, const zr_observer *observer, zr_train_result *result)
{
    return train_or_resume(config, comm, observer, false, result);
}

zr_status zr_train_resume(const zr_config *config, zr_comm *comm, const zr_observer *observer, zr_train_result *result)
{
    return train_or_resume(config, comm, observer, true, result);
}
