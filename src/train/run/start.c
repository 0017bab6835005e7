/** The start of a run after all checks: rates of the device, the engine, its states, and the outputs. */
#include "train/run/run.h"

#include "comm/comm.h"
#include "train/host/limits.h"
#include "train/measure/measure.h"

#include <unistd.h>

/* ---- the device and the engine ------------------------------------------------------------------- */

/** Return the dtype whose peak rate is the reference for matrix products of `dtype` on a device. For fp16 this is F32
 * on processors, since they compute fp16 products in fp32. On GPUs it is BF16, since fp16 products are as fast as bf16
 * products. */
static zr_dtype rate_dtype(const zr_device *device, zr_dtype dtype)
{
    const zr_device_facts *facts = &device->profile.facts;
    if (facts->own_memory) return dtype == ZR_F32 ? ZR_F32 : ZR_BF16;
    return dtype == ZR_BF16 && facts->bf16_products ? ZR_BF16 : ZR_F32;
}

double zr__run_peak_flops(const zr_device *device, zr_dtype dtype)
{
    const zr_machine *machine = &device->profile.machine;
    return rate_dtype(device, dtype) == ZR_BF16 ? machine->flops_bf16 : machine->flops_f32;
}

/** Set the peak rates of the device. Read the peak that `zr info --bench` has recorded. If none is recorded, measure
 * the peak in a few milliseconds, while the other ranks wait and do not disturb the measurement. Rank 0 only. */
static void set_peak(zr_device *device, zr_dtype dtype, const zr_comm *comm)
{
    const zr_dtype rate = rate_dtype(device, dtype);
    zr_rates rates;
    if (zr__rates_recall(&device->profile.facts, &rates) == ZR_OK)
        zr__rates_profile(&rates, rate, comm->size, comm->local_size, &device->profile);
    else
        device->ops->measure(device, rate);
    zr__disk_profile(comm->local_size, &device->profile);
}

/** Create the run's engine: allocate its memory and, if states are on disk, reserve their bytes in the folders that the
 * configuration names. Check the GPU memory that was taken beside the plan. Collective. Errors: ZR_ERR_CREATE for a
 * folder, ZR_ERR_MEMORY, and the errors of zr_engine_create_on. */
static zr_status create_engine(zr__run *r)
{
    ZR_AUTO(zr__folders_free) zr__folders folders = {0};
    const uint64_t seed = (uint64_t)r->config->train.seed;
    const zr_comm *comm = r->ranks.comm;
    /* Between threads no library takes memory, and several of them may share a GPU. */
    const bool measures = r->plan->profile.facts.own_memory && zr__comm_process_ranks(comm) < comm->size;
    const int64_t before = measures ? zr__train_gpu_free(comm->local_rank) : 0;
    ZR_TRY(zr__run_agree(&r->ranks, zr__train_folders(r->config, &folders)));
    ZR_TRY(zr__run_agreed(&r->ranks, zr_engine_create_on(r->plan, r->device, r->ranks.comm, seed,
                                                         (const char *const *)folders.path, folders.n, &r->engine)));
    if (!measures) return ZR_OK;
    const int64_t taken = before - zr__train_gpu_free(comm->local_rank) - r->plan->memory.total_bytes;
    const zr_config *given = r->settled.given ? r->settled.given : r->config;
    return zr__run_agree(&r->ranks, zr__train_taken_check(r->plan, given->memory.limit_bytes, taken));
}

/* ---- the outputs, by rank 0 ---------------------------------------------------------------------- */

/** Return the configuration as JSON for the file config.json in the run's directory. */
static zr_status written_config(const zr_config *config, const zr_config *given, char **json)
{
    char here[PATH_MAX];
    zr_config written = *config; /* copy with started_in, which makes relative paths usable elsewhere */
    if (given) written.parallel.ranks_per_host = given->parallel.ranks_per_host;
    written.train.started_in = getcwd(here, sizeof(here));
    return zr_config_to_json(&written, json);
}

static zr_status open_rest(zr__run *r)
{
    ZR_TRY(zr__run_reserve(r));
    if (r->watching.watch.trace) ZR_TRY(zr__trace_open(r->watching.watch.trace, &r->dir, r->config));
    return r->config->train.tensorboard ? zr__run_dir_add_events(&r->dir) : ZR_OK;
}

/** Create the directory and the outputs of a new run. On failure, remove the outputs, but not the directory. */
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
    zr__resume_clean(&r->resume, &r->ranks, r->dir.path); /* frees disk space for the files that are written below */
    ZR_TRY(zr__run_complete_weights(&r->ranks, &r->dir));
    ZR_TRY(open_rest(r));
    zr_status st = zr__run_dir_continue(&r->dir, r->resume.from_step, json, &r->resume.made);
    if (st == ZR_OK) st = zr__run_set_best(r);
    if (st != ZR_OK) zr__run_dir_drop_events(&r->dir);
    return st;
}

/** Read the record of the Hugging Face directory that the weights come from; the weights are written in the same form.
 * A resumed run finds the record in its checkpoint. If an earlier version of zr wrote the checkpoint, the record is
 * made from model.init. If the configuration has names of labels, take these. */
static zr_status read_source(zr__run *r)
{
    char path[PATH_MAX];
    const char *names = r->config->model.label_names;
    if (r->resume.step < 0 && !r->data.inputs.weights) return names ? zr__hf_source_label(&r->source, names) : ZR_OK;
    ZR_TRY(r->resume.step >= 0 ? zr__checkpoint_path(path, r->config->train.output_dir, r->resume.step)
                               : zr__path_format(path, "%s", r->config->model.init));
    ZR_TRY(zr__hf_source_read(path, r->data.inputs.weights, &r->source));
    return names ? zr__hf_source_label(&r->source, names) : ZR_OK;
}

static zr_status open_outputs(zr__run *r)
{
    ZR_AUTO_FREE char *json = NULL;
    if (r->ranks.comm->rank != 0) return ZR_OK;
    ZR_TRY(read_source(r));
    ZR_TRY(written_config(r->config, r->settled.given, &json));
    return r->resume.there ? open_again(r, json) : open_new(r, json);
}

/** For a new run, check that all ranks see its directory. For a resumed run, send the earlier results in the directory
 * from rank 0 to all ranks. */
static zr_status share_outputs(zr__run *r)
{
    if (r->resume.there) return zr__run_share(&r->ranks, &r->resume.made, sizeof(r->resume.made));
    zr_status st = zr__run_same_dir(&r->ranks, &r->dir, r->config->train.output_dir);
    if (st == ZR_OK || r->ranks.comm->rank != 0) return st;
    zr__run_release(r);
    zr__run_dir_undo(&r->dir);
    return st;
}

/** Take over results of earlier starts: the evaluation of the step from which the run resumes, if the checkpoint was
 * written before the evaluation, and the best weights. */
static void take_results(zr__run *r)
{
    const zr__run_made *made = &r->resume.made;
    if (made->evaluation)
        zr__early_stop_add(&r->training.early, r->resume.from_step, made->val_loss, r->config->train.threshold);
    if (made->best_step == 0) return;
    r->ranks.result->best_step = made->best_step;
    r->ranks.result->best_val_loss = made->best_loss;
}

/** Read elements of model.init, or of model.lora.init. Generate them for adapters that no directory gives, and for the
 * new head of another task. */
static zr_status fill_start(void *arg, const zr_param_info *param, int64_t first, int64_t n, float *out)
{
    const zr__run *r = arg;
    const bool adapter = param->adapter && !r->config->model.lora_init;
    if (adapter || zr__inputs_lack(&r->data.inputs, param->name))
        return zr__engine_initial(r->engine, param, first, n, out);
    return zr__weights_fill(r->data.inputs.weights, param, first, n, out);
}

zr_status zr__run_start(zr__run *r)
{
    if (r->ranks.comm->rank == 0) set_peak(r->device, r->plan->layout.dtype, r->ranks.comm);
    ZR_TRY(create_engine(r));
    ZR_TRY(zr__run_agree(&r->ranks,
                         zr__rows_ahead_create(&r->data.inputs.train, r->plan, r->data.ahead_rows, &r->data.ahead)));
    if (r->resume.step >= 0)
        ZR_TRY(zr__resume_fill(r));
    else
        ZR_TRY(zr__run_agreed(
            &r->ranks, zr_engine_fill(r->engine, ZR_STATE_PARAM, r->data.inputs.weights ? fill_start : NULL, r)));
    ZR_TRY(zr__run_agree(&r->ranks, open_outputs(r)));
    ZR_TRY(share_outputs(r));
    take_results(r);
    r->info.from_step = r->resume.from_step;
    zr__run_announce(r);
    zr__run_log_begin(&r->ranks, &r->dir, r->resume.there ? r->resume.from_step : -1);
    if (r->watching.watch.trace)
        ZR_TRY(zr__run_agreed(&r->ranks, zr__trace_align(r->watching.watch.trace, r->ranks.comm)));
    return ZR_OK;
}
