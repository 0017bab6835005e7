/** Resumption of a run: the choice of a checkpoint, its check against the run, and the states in it. */
#include "train/run/run.h"

#include "train/family/adapter.h"
#include "train/host/host.h"
#include "train/run/save_files.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- the directory ---------------------------------------------------------------------------- */

/** Check that the lock in `path` has this key. Before each try the directory is opened, because this refreshes a stale
 * view of a shared file system. */
static zr_status find_key(const char *path, uint64_t key, const char *host, const char *first_host)
{
    enum { TRIES = 10 };
    int error = 0;
    for (int i = 0; i < TRIES; i++) {
        zr__close_dir(&(DIR *){opendir(path)});
        if (zr__run_dir_key(path) == key) return ZR_OK;
        error = errno;
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    ZR_CHECK(error != EMFILE && error != ENFILE, ZR_ERR_CREATE, "cannot open train.output_dir %s: %s", ZR_SHOWN(path),
             zr__error_text(error));
    return ZR_FAIL(ZR_ERR_CREATE,
                   "train.output_dir %s on host %s is not the directory of that name on host %s, where rank 0 is; all "
                   "ranks write into one, on a file system that all hosts share",
                   ZR_SHOWN(path), host, first_host);
}

zr_status zr__run_same_dir(const zr__ranks *r, const zr__run_dir *dir, const char *path)
{
    struct {
        uint64_t key;
        char host[80];
    } first = {0}; /* key of the lock that rank 0 holds, and name of rank 0's host */
    char host[sizeof(first.host)];
    if (r->comm->size == 1) return ZR_OK;
    if (r->comm->rank == 0) first.key = dir->key;
    zr__host_name(host, sizeof(host));
    memcpy(first.host, host, sizeof(host));
    ZR_TRY(zr__run_share(r, &first, sizeof(first)));
    return zr__run_agree(r, r->comm->rank == 0 ? ZR_OK : find_key(path, first.key, host, first.host));
}

/* ---- is the checkpoint compatible? ------------------------------------------------------------ */

/** The checkpoint whose configuration is compared with the run's configuration. */
typedef struct compared {
    const char *name;
    const zr_family *family;
    bool begun; /* whether a training run wrote the checkpoint, not zr__convert_dir */
    bool muon;  /* whether Muon has trained the checkpoint, and is to go on */
} compared;

/** Return whether `name` is in a list that ends with NULL. */
static bool is_in(const char *const *names, const char *name)
{
    while (*names && strcmp(*names, name) != 0) names++;
    return *names != NULL;
}

/** Return whether a key may change when a run resumes. A key of the model may change only if neither the shape nor the
 * meaning of the weights depends on it. */
static bool may_change(const zr_family *family, const char *key)
{
    static const char section[] = "model.";
    if (strncmp(key, section, strlen(section)) != 0) return true;
    const zr_field *field = zr_family_field(family, key + strlen(section));
    return strcmp(key, "model.preset") == 0 || strcmp(key, "model.init") == 0 || strcmp(key, "model.lora.init") == 0 ||
           strcmp(key, "model.lora.dropout") == 0 ||
           (field && (field->role == ZR_FIELD_DROPOUT || field->role == ZR_FIELD_START));
}

static zr_status refuse_model(void *arg, const char *key, const char *was, const char *is)
{
    const compared *with = arg;
    const bool open = !with->begun && strcmp(key, "model.frozen") == 0;
    ZR_CHECK(open || may_change(with->family, key), ZR_ERR_CONFIG,
             "%s is %s, but %s in %s; a resumed run keeps its model: give the same value, or another train.output_dir",
             key, is ? is : "not given", was ? was : "not given", with->name);
    ZR_CHECK(!with->muon || strcmp(key, "optimizer.params.matrices") != 0, ZR_ERR_CONFIG,
             "%s is %s, but %s in %s, which has a momentum only for its matrices; give the same value, or another "
             "train.output_dir",
             key, is ? is : "not given", was ? was : "not given", with->name);
    const bool share = (is && isdigit((unsigned char)*is)) || (was && isdigit((unsigned char)*was));
    ZR_CHECK(!with->begun || !share || strcmp(key, "data.val") != 0, ZR_ERR_CONFIG,
             "data.val is %s, but %s in %s; a resumed run holds out the same share of data.train, since it has been "
             "trained on the rest: give the same value, or another train.output_dir",
             is ? is : "not given", was ? was : "not given", with->name);
    return ZR_OK;
}

/** Check that files have the size and the hash that the checkpoint `name` records. For the message, `what` names the
 * files, and `also` names further causes of a change. */
static zr_status same_files(const char *key, const char *what, const char *also, const char *name,
                            const zr__file_print *was, const zr__file_print *is)
{
    if (was->bytes < 0 || is->bytes < 0) return ZR_OK;
    ZR_CHECK(was->bytes == is->bytes, ZR_ERR_DATA,
             "%s: the file has %lld bytes, but had %lld when %s was written%s%s; a resumed run needs the same %s", key,
             (long long)is->bytes, (long long)was->bytes, name, also[0] ? "; it has changed" : "", also, what);
    ZR_CHECK(
        was->hash == is->hash, ZR_ERR_DATA,
        "%s: the file has changed since %s was written%s (hash %016llx, not %016llx); a resumed run needs the same %s",
        key, name, also, (unsigned long long)is->hash, (unsigned long long)was->hash, what);
    return ZR_OK;
}

/** Return whether two tokenizers may be the same. Two paths are not compared, since a tokenizer's directory may have
 * been moved. A different tokenizer is still detected, because it changes the hashes of the data. */
static bool same_tokenizer(const char *was, const char *is)
{
    const bool names = !was[0] || !is[0] || strcmp(was, "bytes") == 0 || strcmp(is, "bytes") == 0;
    return !names || strcmp(was, is) == 0;
}

/** Return in words on which ranks a run sums quantised gradients, such as "8 data-parallel ranks, 4 in the first
 * level". */
static const char *sums_in_words(const zr__checkpoint_run *run, char text[80])
{
    char near[40] = "";
    if (run->near_ranks > 0) snprintf(near, sizeof(near), ", %d in the first level", run->near_ranks);
    snprintf(text, 80, "%d data-parallel rank%s%s", run->summing_ranks, run->summing_ranks == 1 ? "" : "s", near);
    return text;
}

static zr_status check_run(const zr_config *config, const zr__input_prints *prints, const char *name, int64_t step,
                           const zr__checkpoint_run *from)
{
    static const char read_with[] = ", or the tokenizer, the names of labels or the keys of data with which it is read";
    ZR_AUTO_FREE char *now = NULL;
    const char *tokenizer = config->data.tokenizer ? config->data.tokenizer : "";
    const bool muon = config->optimizer.type == ZR_OPTIMIZER_MUON && strcmp(from->optimizer, "muon") == 0;
    compared with = {name, config->model.family, from->ranks > 0, muon};
    ZR_TRY(zr_config_to_json(config, &now));
    ZR_TRY(zr__checkpoint_config_differs(from->config, now, refuse_model, &with));
    ZR_TRY(same_files("data.train", "data", read_with, name, &from->prints.train, &prints->train));
    ZR_TRY(same_files("data.val", "data", read_with, name, &from->prints.val, &prints->val));
    ZR_TRY(same_files("model.init", "base of its adapters", "", name, &from->prints.base, &prints->base));
    ZR_CHECK(from->ranks == 0 || same_tokenizer(from->tokenizer, tokenizer), ZR_ERR_DATA,
             "data.tokenizer is \"%s\", but was \"%s\" when %s was written; a resumed run needs the same tokens",
             tokenizer, from->tokenizer, name);
    ZR_CHECK(
        step <= config->train.steps, ZR_ERR_CONFIG,
        "train.steps is %lld, but %s has done %lld steps already; raise train.steps, or give another train.output_dir",
        (long long)config->train.steps, name, (long long)step);
    return ZR_OK;
}

/* ---- choosing a checkpoint -------------------------------------------------------------------- */

static zr_status checkpoint_dir(const zr__run *r, char path[PATH_MAX])
{
    return zr__checkpoint_path(path, r->config->train.output_dir, r->resume.step);
}

/** Return whether a failure means that a checkpoint is damaged and may be skipped. ZR_ERR_IO does not count as damage:
 * the checkpoint may be readable later, and skipping it would lose steps. (train/weights/stored.c only reads weights,
 * so it skips a checkpoint on any failure except ZR_ERR_MEMORY.) */
static bool is_damage(zr_status st)
{
    return st == ZR_ERR_DATA || st == ZR_ERR_NOT_FOUND;
}

/** Read a checkpoint's record of its run into r->resume.from. Rank 0 only. */
static zr_status read_run_record(zr__run *r, int64_t step)
{
    char path[PATH_MAX];
    ZR_AUTO(zr__manifest_free) zr__manifest *manifest = NULL;
    zr__checkpoint_run_clear(&r->resume.from);
    r->resume.step = step;
    ZR_TRY(checkpoint_dir(r, path));
    ZR_TRY(zr__manifest_read(path, &manifest));
    return zr__checkpoint_run_read(manifest->run, path, &r->resume.from);
}

/** Skip the current checkpoint, and add a note with the last error message. Rank 0 only. */
static void pass_over_checkpoint(zr__resume *resume, const zr__ranks *ranks)
{
    char name[ZR_CHECKPOINT_NAME_BYTES];
    zr_checkpoint_name(resume->step, name);
    zr__run_note(ranks, "%s is skipped: %.1000s", name, zr_error_message());
    resume->next++;
}

/** Refuse to resume from a checkpoint if the run has weights of a later step. The resumed run would replace these
 * weights and remove the metrics of the steps after the checkpoint. */
static zr_status check_later(const zr__run_dir *dir, const char *path, const char *name, int64_t step)
{
    char after[64];
    const char *weights = NULL;
    int64_t steps = -1;
    ZR_TRY(zr__run_dir_weights(dir, &weights, &steps));
    if (steps == ZR_STEP_UNKNOWN)
        snprintf(after, sizeof(after), "of an unknown step");
    else
        snprintf(after, sizeof(after), "after step %lld", (long long)steps);
    ZR_CHECK(!weights || steps <= step, ZR_ERR_CREATE,
             "train.output_dir %s holds weights %s (%s), and its newest checkpoint that can be used is %s: going on "
             "from that would replace them. Move %s elsewhere to do so; or go on from the weights themselves "
             "(model.init) in another train.output_dir",
             ZR_SHOWN(path), after, weights, name, weights);
    return ZR_OK;
}

/** Choose the newest readable checkpoint, beginning at index `next` of the list. If the directory has no checkpoint,
 * set resume.step to -1. Rank 0 only. */
static zr_status choose_checkpoint(zr__run *r)
{
    char name[ZR_CHECKPOINT_NAME_BYTES];
    const char *shown = ZR_SHOWN(r->config->train.output_dir);
    while (r->resume.next < r->resume.n) {
        const int64_t step = r->resume.steps[r->resume.next];
        zr_status st = read_run_record(r, step);
        if (is_damage(st)) {
            pass_over_checkpoint(&r->resume, &r->ranks);
            continue;
        }
        ZR_TRY(st);
        zr_checkpoint_name(step, name);
        ZR_TRY(check_run(r->config, &r->data.prints, name, step, &r->resume.from));
        return check_later(&r->dir, r->config->train.output_dir, name, step);
    }
    r->resume.step = -1;
    ZR_CHECK(r->resume.n == 0, ZR_ERR_DATA, "train.output_dir %s: none of its %lld checkpoints is complete", shown,
             (long long)r->resume.n);
    const char *weights = NULL;
    int64_t steps = -1;
    ZR_TRY(zr__run_dir_weights(&r->dir, &weights, &steps));
    ZR_CHECK(!weights, ZR_ERR_CREATE,
             "train.output_dir %s holds a run that ended and left no checkpoint to continue from; to go on from its "
             "weights (%s), name their directory in model.init and another train.output_dir",
             shown, weights);
    return ZR_OK;
}

/** Choose a checkpoint on rank 0, and copy its record to all ranks. Other ranks do not get the configuration in the
 * record, because the record has only a pointer to it. */
static zr_status choose_together(zr__run *r)
{
    zr__checkpoint_run *from = &r->resume.from;
    ZR_TRY(zr__run_agree(&r->ranks, r->ranks.comm->rank == 0 ? choose_checkpoint(r) : ZR_OK));
    ZR_TRY(zr__run_share(&r->ranks, &r->resume.step, sizeof(r->resume.step)));
    char *own = from->config;
    zr_status st = zr__run_share(&r->ranks, from, sizeof(*from));
    from->config = own;
    return st;
}

static zr_status open_dir(zr__run *r)
{
    ZR_TRY(zr__run_dir_reopen(&r->dir, r->config->train.output_dir, &r->resume.there));
    if (!r->resume.there) return ZR_OK;
    return zr_checkpoint_list(r->dir.path, &r->resume.steps, &r->resume.n);
}

zr_status zr__resume_open(zr__run *r)
{
    r->resume.step = -1;
    ZR_TRY(zr__run_agree(&r->ranks, r->ranks.comm->rank == 0 ? open_dir(r) : ZR_OK));
    ZR_TRY(zr__run_share(&r->ranks, &r->resume.there, sizeof(r->resume.there)));
    if (!r->resume.there) return ZR_OK;
    ZR_TRY(zr__run_same_dir(&r->ranks, &r->dir, r->config->train.output_dir));
    return choose_together(r);
}

/** Return whether quantised gradients are summed on the same ranks. */
static bool same_sums(const zr__checkpoint_run *a, const zr__checkpoint_run *b)
{
    return a->summing_ranks == b->summing_ranks && a->near_ranks == b->near_ranks;
}

/** Refuse to go on with quantised gradients on other ranks than the checkpoint's, on which other values would follow,
 * or say that they do. */
zr_status zr__resume_check_sums(zr__run *r)
{
    char is[80], was[80], name[ZR_CHECKPOINT_NAME_BYTES];
    const zr__checkpoint_run *from = &r->resume.from;
    zr__checkpoint_run now = {.config = NULL};
    if (!r->resume.asked || r->resume.step < 0) return ZR_OK;
    zr__checkpoint_run_sums(&now, &r->plan->layout);
    if (now.summing_ranks == 0 || from->summing_ranks == 0 || same_sums(&now, from)) return ZR_OK;
    zr_checkpoint_name(r->resume.step, name);
    ZR_CHECK(r->config->quantization.any_ranks, ZR_ERR_CONFIG,
             "zero_quantized_gradients on %s, but on %s when %s was written: each rank quantises its own sums, so "
             "values would differ; give the same ranks, or quantization.any_ranks true",
             sums_in_words(&now, is), sums_in_words(from, was), name);
    if (r->ranks.comm->rank == 0)
        zr__run_note(&r->ranks,
                     "quantization.any_ranks: gradients are quantised on %s, but were on %s when %s was written, so "
                     "losses differ from those of a run without a stop",
                     sums_in_words(&now, is), sums_in_words(from, was), name);
    return ZR_OK;
}

/* ---- restoring the state ---------------------------------------------------------------------- */

/** Argument of fill_elements. */
typedef struct filling {
    bool weights;             /* whether the state is the parameters, not a state of the optimizer */
    zr__chunk_reader *reader; /* file of the state; NULL to fill the state with zeros */
    zr_weights *base;         /* weights of model.init, if the checkpoint has only adapters */
} filling;

static zr_status fill_elements(void *arg, const zr_param_info *param, int64_t first, int64_t n, float *out)
{
    const filling *from = arg;
    if (!from->reader) {
        memset(out, 0, sizeof(*out) * (size_t)n);
        return ZR_OK;
    }
    if (from->weights && from->base && !param->adapter) return zr__weights_fill(from->base, param, first, n, out);
    ZR_TRY(zr__chunk_reader_f32(from->reader, param->name, first, n, out));
    return from->weights ? zr__weights_finite("", param->name, first, out, n) : ZR_OK;
}

/** Check that a file with a state has every tensor in its shape. */
static zr_status check_shapes(const zr_plan *plan, int index, const zr_safetensors *file)
{
    char have[ZR_QUOTE_BYTES], wanted[ZR_QUOTE_BYTES];
    ZR_AUTO_FREE zr__tensor_spec *specs = NULL;
    int64_t n;
    ZR_TRY(zr__state_specs(plan, index, &specs, &n));
    for (int64_t i = 0; i < n; i++) {
        const char *name = specs[i].name;
        const zr_safetensors_tensor *tensor = zr_safetensors_find(file, name);
        zr_shape_print(&specs[i].shape, wanted, sizeof(wanted));
        ZR_CHECK(tensor, ZR_ERR_DATA, "%s: there is no tensor %s; wanted: F32 %s", zr__safetensors_path(file), name,
                 wanted);
        const bool same = zr__safetensors_has_shape(tensor, &specs[i].shape) && strcmp(tensor->dtype, "F32") == 0;
        ZR_CHECK(same, ZR_ERR_DATA, "%s: tensor %s is %s %s; wanted: F32 %s", zr__safetensors_path(file), name,
                 tensor->dtype, zr__safetensors_print_dims(tensor, have), wanted);
    }
    return ZR_OK;
}

/** Return whether a file has errors of gradients, which a run takes over only on the same ranks. */
static bool has_errors(const zr__run *r, int file)
{
    return zr__state_of_file(r->plan, file) >= ZR_STATE_ERROR;
}

/** Return whether the optimizers of a checkpoint and of the run have different states: the checkpoint lacks a state of
 * the run, without which the other states would make wrong updates, or only one of the two has hidden matrices. */
static bool has_other_states(const zr__run *r, const zr__manifest *manifest)
{
    char name[ZR_STATE_FILE_BYTES];
    for (int file = 1; file <= r->plan->n_slots; file++) {
        zr__state_file(r->plan, file, name);
        if (!zr__manifest_find(manifest, name)) return true;
    }
    return (strcmp(r->resume.from.optimizer, "muon") == 0) != (strcmp(r->plan->optimizer.name, "muon") == 0);
}

/** Open the file of a state. If the checkpoint lacks this file, or has errors of other ranks in it, set *reader to NULL
 * and succeed. */
static zr_status open_state(const zr__run *r, const zr__manifest *manifest, int file, zr__chunk_reader **reader)
{
    char path[PATH_MAX], name[ZR_STATE_FILE_BYTES];
    zr__checkpoint_run now = {.config = NULL};
    *reader = NULL;
    zr__state_file(r->plan, file, name);
    zr__checkpoint_run_sums(&now, &r->plan->layout);
    if (file > 0 && !zr__manifest_find(manifest, name)) return ZR_OK;
    const int state = zr__state_of_file(r->plan, file);
    if (state >= ZR_STATE_SLOT && state < ZR_STATE_SENT && has_other_states(r, manifest)) return ZR_OK;
    if (has_errors(r, file) && !same_sums(&now, &r->resume.from)) return ZR_OK;
    ZR_TRY(checkpoint_dir(r, path));
    ZR_TRY(zr__chunk_reader_open(path, manifest, name, r->ranks.comm->local_size, reader));
    return check_shapes(r->plan, file, zr__chunk_reader_tensors(*reader));
}

static zr_status fill_state(zr__run *r, const zr__manifest *manifest, int file)
{
    ZR_AUTO(zr__chunk_reader_close) zr__chunk_reader *reader = NULL;
    const int state = zr__state_of_file(r->plan, file);
    ZR_TRY(zr__run_agree(&r->ranks, open_state(r, manifest, file, &reader)));
    filling from = {file == 0, reader, r->config->model.lora.rank > 0 ? r->data.inputs.weights : NULL};
    if (state == ZR_STATE_SENT) r->resume.unsent = !reader;
    if (state == ZR_STATE_SENT && !reader) return ZR_OK;
    if (!reader && has_errors(r, file))
        r->resume.errors_anew = true;
    else if (!reader)
        r->resume.anew = true;
    return zr__run_agreed(&r->ranks, zr_engine_fill(r->engine, state, fill_elements, &from));
}

static zr_status fill_all(zr__run *r)
{
    char path[PATH_MAX];
    ZR_AUTO(zr__manifest_free) zr__manifest *manifest = NULL;
    zr_status st = checkpoint_dir(r, path);
    if (st == ZR_OK) st = zr__manifest_read(path, &manifest);
    r->resume.anew = r->resume.errors_anew = false;
    ZR_TRY(zr__run_agree(&r->ranks, st));
    /* Fill the parameters after the states of the optimizer, because the engine then also gathers them. Then fill in
     * their place the parameters as they were sent. */
    for (int file = zr__state_files(r->plan) - 1; file >= 0; file--)
        if (zr__state_of_file(r->plan, file) != ZR_STATE_SENT) ZR_TRY(fill_state(r, manifest, file));
    return r->plan->layout.weight_differences ? fill_state(r, manifest, 1 + r->plan->n_slots) : ZR_OK;
}

/** Initialise the run's counters, such as the number of completed steps, with the values in the checkpoint. */
static void take_over(zr__run *r)
{
    const zr__checkpoint_run *from = &r->resume.from;
    r->ranks.result->steps = r->resume.from_step = r->saving.step = r->resume.step;
    r->resume.from_sample = from->samples;
    r->ranks.result->skipped = from->skipped;
    r->training.skipped_in_row = from->skipped_in_row;
    r->ranks.result->loss = from->loss;
    r->training.early = from->early;
    if (r->config->train.noise_scale) r->training.noise = from->noise;
    r->ranks.result->noise_scale = zr__noise_scale_value(&r->training.noise);
    if (!r->training.scaler.dynamic || !from->scaler.dynamic) return;
    r->training.scaler.scale = fmax(from->scaler.scale, r->training.scaler.min_scale);
    r->training.scaler.step = from->scaler.step;
    r->training.scaler.last_overflow = from->scaler.last_overflow;
    r->training.scaler.hysteresis_left = from->scaler.hysteresis_left;
}

zr_status zr__resume_fill(zr__run *r)
{
    const double begin_sec = zr_clock_sec();
    for (;;) {
        zr_status st = fill_all(r);
        if (st == ZR_OK) break;
        if (!r->ranks.result->agreed || !is_damage(st)) return st;
        if (r->ranks.comm->rank == 0) pass_over_checkpoint(&r->resume, &r->ranks);
        ZR_TRY(choose_together(r));
        ZR_TRY(zr__run_agree(&r->ranks, zr__resume_check_sums(r)));
    }
    ZR_TRY(zr_engine_resume(r->engine, r->resume.anew ? 0 : r->resume.from.updates));
    take_over(r);
    r->resume.read_sec = zr_clock_sec() - begin_sec;
    return ZR_OK;
}

int64_t *zr__resume_find(const zr__resume *r, int64_t n, int64_t step)
{
    for (int64_t i = 0; i < n; i++)
        if (r->steps[i] == step) return &r->steps[i];
    return NULL;
}

void zr__resume_clean(const zr__resume *resume, const zr__ranks *ranks, const char *run_dir)
{
    char name[ZR_CHECKPOINT_NAME_BYTES], tmp[ZR_CHECKPOINT_NAME_BYTES + 4];
    ZR_AUTO(zr__close_dir) DIR *dir = opendir(run_dir);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        long long step = -1;
        if (sscanf(entry->d_name, "step-%18lld.tmp", &step) != 1 || step < 0 ||
            zr__resume_find(resume, resume->n, step))
            continue;
        zr_checkpoint_name(step, name);
        snprintf(tmp, sizeof(tmp), "%s.tmp", name);
        if (strcmp(tmp, entry->d_name) == 0 && zr__checkpoint_remove(run_dir, step) != ZR_OK)
            zr__run_note(ranks, "%s", zr_error_message());
    }
}

/* ---- messages --------------------------------------------------------------------------------- */

/** Add a note for a changed key. Ignore keys that hold paths, since paths may differ between the starts of a run. */
static zr_status note_changed_key(void *arg, const char *key, const char *was, const char *is)
{
    static const char *const places[] = {
        "data.train", "data.val", "data.tokenizer", "data.cache_dir", "train.output_dir", "train.started_in", NULL};
    const zr__run *r = arg;
    const bool rounds = strcmp(key, "bf16.enabled") == 0 || strcmp(key, "fp16.enabled") == 0;
    if (is_in(places, key)) return ZR_OK;
    zr__run_note(&r->ranks, "changed since the checkpoint: %s was %.160s, and is now %.160s", key,
                 was ? was : "not given", is ? is : "not given");
    if (strcmp(key, "optimizer.type") == 0 && r->config->optimizer.type == ZR_OPTIMIZER_LION)
        zr__run_note(
            &r->ranks,
            "Lion goes on with lr %g, betas [%g, %g] and weight_decay %g (optimizer.params); usual are a third "
            "of AdamW's lr, betas [0.9, 0.99] and three times its weight_decay",
            r->config->optimizer.lr, r->config->optimizer.betas[0], r->config->optimizer.betas[1],
            r->config->optimizer.weight_decay);
    if (rounds && r->config->model.frozen && is && strcmp(is, "true") == 0)
        zr__run_note(&r->ranks,
                     "frozen parameters are rounded to 16 bits, for good: they have no fp32 master (model.frozen)");
    return ZR_OK;
}

static void note_changes(const zr__run *r)
{
    ZR_AUTO_FREE char *now = NULL;
    const zr__checkpoint_run *from = &r->resume.from;
    if (from->ranks != r->ranks.comm->size)
        zr__run_note(&r->ranks, "changed since the checkpoint: the number of ranks was %d, and is now %d", from->ranks,
                     r->ranks.comm->size);
    const zr_config mine = zr__run_given(r);
    zr_status st = zr_config_to_json(&mine, &now);
    if (st == ZR_OK) st = zr__checkpoint_config_differs(from->config, now, note_changed_key, (void *)r);
    if (st != ZR_OK) zr__run_note(&r->ranks, "%s", zr_error_message());
}

void zr__resume_announce(const zr__run *r)
{
    char name[ZR_CHECKPOINT_NAME_BYTES];
    const zr__resume *resume = &r->resume;
    const bool trained = resume->from.ranks > 0; /* whether a training run wrote the checkpoint */
    if (r->ranks.comm->rank != 0 || !resume->asked) return;
    const char *dir = ZR_SHOWN(r->config->train.output_dir);
    if (resume->step < 0) {
        zr__run_note(&r->ranks, "there is no checkpoint in %s yet: the run starts at step 0", dir);
        return;
    }
    zr_checkpoint_name(resume->step, name);
    zr__run_note(&r->ranks, "goes on after step %lld of %lld, from %s/%s, read in %.3g s", (long long)resume->step,
                 (long long)r->config->train.steps, dir, name, resume->read_sec);
    /* Lines of earlier steps may be missing, because the disk was full when the earlier run ended. */
    if (trained && r->resume.made.last_step < resume->step)
        zr__run_note(&r->ranks, "metrics.jsonl lacks the lines of steps %lld to %lld, which were lost",
                     (long long)r->resume.made.last_step + 1, (long long)resume->step);
    if (trained) note_changes(r);
    if (resume->anew)
        zr__run_note(&r->ranks, "the checkpoint has no states of the optimizer %s, so they start at zero",
                     r->plan->optimizer.name);
    if (resume->errors_anew)
        zr__run_note(&r->ranks, "zeropp_loco_param: the checkpoint has no errors of gradients of these ranks, so they "
                                "start at zero");
    if (resume->unsent)
        zr__run_note(&r->ranks, "the checkpoint has no parameters as they were sent (quantization.weight_differences), "
                                "so the first differences are to the rounded ones");
}

void zr__resume_close(zr__resume *r)
{
    zr__checkpoint_run_clear(&r->from);
    zr_free(r->steps);
    r->steps = NULL;
}
