/** The start of a run after all checks: the engine, its states, and the outputs. */
#include "train/run/agree.h"
#include "train/run/log.h"
#include "train/run/offload.h"
#include "train/run/resume.h"
#include "train/run/run.h"

#include <unistd.h>

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

/** Create the directory and the outputs of a new run. On failure, remove the directory and its outputs. */
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
    zr__resume_clean(r); /* frees disk space for the files that are written below */
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

/** Read elements of model.init, or of model.lora.init. Generate them for adapters that no directory gives, and for the
 * new head of another task. */
static zr_status fill_start(void *arg, const zr_param_info *param, int64_t first, int64_t n, float *out)
{
    const zr__run *r = arg;
    const bool adapter = param->adapter && !r->config->model.lora_init;
    if (adapter || zr__inputs_lack(&r->inputs, param->name)) return zr__engine_initial(r->engine, param, first, n, out);
    return zr__weights_fill(r->inputs.weights, param, first, n, out);
}

zr_status zr__run_start(zr__run *r)
{
    if (r->comm->rank == 0) zr__run_know_peak(r);
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
    zr__run_announce(r);
    zr__run_log_begin(r);
    if (r->watch.trace) ZR_TRY(zr__run_agreed(r, zr__trace_align(r->watch.trace, r->comm)));
    return ZR_OK;
}
