#include "train/weights/export.h"

#include "base/core/core.h"
#include "base/file/folder.h"
#include "base/number/finite.h"
#include "data/tokenizer/tokenizer.h"
#include "train/family/adapter.h"
#include "train/family/inputs.h"
#include "train/tokenizer/tokenize.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/** The weights to write. */
typedef struct writing {
    zr_weights *weights;
    bool adapters; /* whether the weights are only adapters */
} writing;

static zr_status write_range(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    const writing *w = arg;
    return w->adapters && !param->adapter ? ZR_OK : zr__weights_write(w->weights, param->name, first, n, in);
}

/* Suffix of the weights file, of the index of several weights files, or of the file of adapters, until all weights are
 * on disk. */
#define UNFINISHED ".tmp"

/** Paths used by the export of a directory. */
typedef struct paths {
    char tmp[PATH_MAX];    /* temporary path of the new directory */
    char old[PATH_MAX];    /* path to which an existing directory `dir` is moved */
    char config[PATH_MAX]; /* config.json in tmp */
} paths;

static zr_status name_parts(const char *dir, paths *p)
{
    ZR_TRY(zr__path_format(p->tmp, "%s.tmp", dir));
    ZR_TRY(zr__path_format(p->old, "%s.old", dir));
    ZR_TRY(zr__path_join(p->config, p->tmp, ZR_RUN_CONFIG));
    if (zr__path_is_in(p->tmp, ZR_ADAPTER_CONFIG)) ZR_TRY(zr__path_join(p->config, p->tmp, ZR_ADAPTER_CONFIG));
    return ZR_OK;
}

static void release_export(paths *p)
{
    zr__weights_remove(p->tmp, UNFINISHED);
    if (zr__weights_in(p->tmp, "")) return;
    unlink(p->config);
    zr__path_remove(p->tmp, ZR_TRAINED_NAME);
    zr__tokenizer_files_remove(p->tmp, NULL);
    rmdir(p->tmp);
}

void zr__export_release(const char *dir)
{
    paths p;
    if (name_parts(dir, &p) == ZR_OK) release_export(&p);
}

static const zr_graph *graph_of(const zr_plan *plan)
{
    return plan->graph[plan->layout.train ? ZR_SCHEDULE_TRAIN : ZR_SCHEDULE_EVAL];
}

/** Create the file of adapters, and adapter_config.json. */
static zr_status make_adapter(paths *p, const zr__exported *what)
{
    char weights[PATH_MAX];
    ZR_AUTO(zr__adapter_clear) zr__adapter adapter = {0};
    ZR_AUTO_FREE zr__tensor_spec *specs = NULL;
    int64_t n = 0;
    ZR_TRY(zr__path_join(weights, p->tmp, ZR_ADAPTER_SINGLE UNFINISHED));
    ZR_TRY(zr__path_join(p->config, p->tmp, ZR_ADAPTER_CONFIG));
    ZR_TRY(zr__adapter_specs(graph_of(what->plan), &specs, &n));
    ZR_TRY(zr__safetensors_create(weights, NULL, specs, n));
    ZR_TRY(zr__adapter_describe(graph_of(what->plan), what->model, what->init, &adapter));
    return zr__adapter_write(p->tmp, &adapter);
}

/** Create config.json and the weights files, with the names and files of the directory that the weights come from. All
 * tensors are F32, like the masters, because updates are often smaller than the rounding error of 16-bit types. */
static zr_status make_weights(paths *p, const zr__exported *what)
{
    if (zr__has_adapters(graph_of(what->plan))) return make_adapter(p, what);
    const zr_family *family = what->model->family;
    const zr__weights_form form = {.names = &family->names, .source = what->source};
    ZR_AUTO_FREE zr__tensor_spec *specs = NULL;
    ZR_AUTO(zr__weights_out_close) zr__weights_out *out = NULL;
    int64_t n = 0;
    ZR_TRY(zr__param_specs(graph_of(what->plan), ZR_PARAMS_ALL, &specs, &n));
    ZR_TRY(zr__weights_create(p->tmp, &form, specs, n, &out));
    ZR_TRY(zr__weights_make(out, UNFINISHED));
    return zr__hf_write_like(p->tmp, family, &what->model->config, what->source, zr__weights_out_dtype(out), false);
}

/** Create the weights files and trained.json, and copy the tokenizer and the other files of the directory that the
 * weights come from. */
static zr_status make_files(paths *p, const zr__exported *what)
{
    ZR_TRY(make_weights(p, what));
    ZR_TRY(zr__tokenizer_files_copy(what->tokenizer, p->tmp));
    if (what->init) ZR_TRY(zr__tokenizer_files_add(what->init, p->tmp, !what->tokenizer));
    return zr__trained_reserve(p->tmp);
}

static zr_status reserve_files(paths *p, const zr__exported *what)
{
    ZR_TRY(zr__make_folder(p->tmp));
    zr__weights_remove(p->tmp, UNFINISHED); /* a killed run may have left these files */
    zr_status st = make_files(p, what);
    if (st == ZR_OK) return ZR_OK;
    zr__failure failed = {0}; /* holds the error message of `st` */
    zr__failure_note(&failed, st);
    release_export(p);
    return zr__failure_tell(&failed);
}

zr_status zr__export_reserve(const char *dir, const zr__exported *what)
{
    paths p;
    ZR_TRY(name_parts(dir, &p));
    zr_status st = reserve_files(&p, what);
    ZR_CHECK(st == ZR_OK, st,
             "the weights that this run is to leave cannot be written: %s; free space, choose another "
             "train.output_dir, or set train.save_model to false if no weights are needed",
             zr_error_message());
    return ZR_OK;
}

/** Reserve all files again if a file was removed in the meantime. In this case set *made to true, since the new weights
 * files are empty. */
static zr_status reserve_again(paths *p, const zr__exported *what, bool *made)
{
    struct stat config;
    ZR_AUTO(zr_weights_close) zr_weights *weights = NULL;
    const bool there = zr__weights_attach(p->tmp, &what->model->family->names, UNFINISHED, &weights) == ZR_OK;
    const bool described = lstat(p->config, &config) == 0 && S_ISREG(config.st_mode);
    const bool spelled = !what->tokenizer || zr__tokenizer_is_in(p->tmp);
    if (there && described && spelled) return ZR_OK;
    *made = true;
    return reserve_files(p, what);
}

/** If a reserved file is missing, reserve all files again. Then write trained.json. If trained.json cannot be written,
 * leave it without values and continue, since the weights are more important than the record of their step. A resumed
 * run then takes their step from run.json. If run.json has no step either, the run regards the weights as later than
 * every checkpoint. */
static zr_status prepare_export(paths *p, const zr__exported *what, bool *made)
{
    ZR_TRY(reserve_again(p, what, made));
    zr_status st = zr__trained_write(p->tmp, &what->trained);
    return st == ZR_ERR_MEMORY ? st : ZR_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

/** Write the elements that this rank owns, then sync the files. Set *written to whether all ranks have written their
 * elements, even if the sync failed. Collective. */
static zr_status write_mine(const paths *p, const zr__exported *what, zr_engine *engine, zr_comm *comm, bool *written)
{
    writing w = {NULL, zr__has_adapters(graph_of(what->plan))};
    zr_status st = zr__weights_attach(p->tmp, &what->model->family->names, UNFINISHED, &w.weights);
    if (st == ZR_OK) st = zr_engine_read(engine, ZR_STATE_PARAM, write_range, &w);
    st = zr_comm_agree(comm, st);
    *written = st == ZR_OK;
    if (st == ZR_OK) st = zr_comm_agree(comm, zr__weights_sync(w.weights));
    zr_weights_close(&w.weights);
    return st;
}

/** Remove the files that zr wrote into p->old, and then the directory if it is empty. Keep tokenizer files that differ
 * from the files in the directory `newer`, since a user may have put them there. If p->old is a symbolic link, remove
 * only the link, since its target does not belong to the run. Return false if p->old still exists. */
static bool remove_old(const paths *p, const char *newer)
{
    static const char *const names[] = {ZR_RUN_CONFIG, ZR_ADAPTER_CONFIG, ZR_TRAINED_NAME};
    struct stat st;
    if (lstat(p->old, &st) != 0) return true;
    if (S_ISLNK(st.st_mode)) return unlink(p->old) == 0;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) zr__path_remove(p->old, names[i]);
    zr__weights_remove(p->old, "");
    zr__tokenizer_files_remove(p->old, newer);
    return rmdir(p->old) == 0;
}

/** Rename the existing directory `dir` to `dir`.old. If that name is in use, try `dir`.old.2, `dir`.old.3 and so on. */
static zr_status move_old(paths *p, const char *dir)
{
    struct stat st;
    bool taken = !remove_old(p, p->tmp);
    for (int i = 2; taken; i++) {
        ZR_TRY(zr__path_format(p->old, "%s.old.%d", dir, i));
        taken = lstat(p->old, &st) == 0;
    }
    ZR_CHECK(rename(dir, p->old) == 0, ZR_ERR_IO, "cannot rename %s to %s: %s", dir, p->old, strerror(errno));
    return ZR_OK;
}

/** Rename p->tmp to `dir`. If `replace` is set and `dir` exists, rename the old directory first, and remove zr's files
 * in it afterwards. If other files remain in it, `rest` receives its path. */
static zr_status give_name(paths *p, const char *dir, bool replace, char rest[PATH_MAX])
{
    struct stat st;
    bool older = replace && lstat(dir, &st) == 0;
    if (older) ZR_TRY(move_old(p, dir));
    ZR_TRY(zr__dir_commit(p->tmp, dir));
    if (replace && !remove_old(p, dir)) snprintf(rest, PATH_MAX, "%s", p->old);
    return ZR_OK;
}

/** Give the weights file or the index its final name, which shows that the weights are complete. */
static zr_status finish_weights(const paths *p)
{
    char from[PATH_MAX], to[PATH_MAX];
    const char *name = zr__weights_in(p->tmp, UNFINISHED);
    ZR_TRY(zr__path_join(to, p->tmp, name ? name : ZR_RUN_WEIGHTS));
    ZR_TRY(zr__path_format(from, "%s" UNFINISHED, to));
    ZR_CHECK(rename(from, to) == 0, ZR_ERR_IO, "cannot rename %s to %s: %s", from, to, strerror(errno));
    return ZR_OK;
}

/** Rename the weights file and the directory to their final names. Call this on one rank. */
static zr_status commit_export(paths *p, const char *dir, bool replace, char rest[PATH_MAX])
{
    ZR_TRY(finish_weights(p));
    return give_name(p, dir, replace, rest);
}

/** Write the path of the directory with the complete weights, or "", to `place`. Call this on rank 0. */
static void find_complete(paths *p, const char *dir, char place[PATH_MAX])
{
    if (zr__weights_in(p->tmp, UNFINISHED) && finish_weights(p) != ZR_OK) return;
    if (zr__weights_in(p->tmp, ""))
        snprintf(place, PATH_MAX, "%s", p->tmp);
    else if (zr__weights_in(dir, ""))
        snprintf(place, PATH_MAX, "%s", dir);
}

/** Write the weights, and write them again after a disk failure. After a failed sync, the system treats the pages as
 * clean, so only a second write brings them to the disk. */
static zr_status write_twice(paths *p, const zr__exported *what, zr_engine *engine, zr_comm *comm, bool *written)
{
    zr_status st = ZR_OK;
    bool disk = true; /* whether the last attempt failed because of the disk, so that another attempt is useful */
    for (int tries = 0; tries < 2 && disk; tries++) {
        bool complete = false, made = false;
        st = zr_comm_agree(comm, comm->rank == 0 ? prepare_export(p, what, &made) : ZR_OK);
        if (st == ZR_OK) st = write_mine(p, what, engine, comm, &complete);
        *written = complete || (*written && !made);
        disk = st == ZR_ERR_IO || st == ZR_ERR_CREATE || st == ZR_ERR_NOT_FOUND;
    }
    return st == ZR_ERR_NOT_FOUND ? ZR_FAIL(ZR_ERR_IO, "%s", zr_error_message()) : st;
}

zr_status zr__export(const char *dir, const zr__exported *what, zr_engine *engine, zr_comm *comm, bool replace,
                     char rest[PATH_MAX], char place[PATH_MAX])
{
    paths p;
    bool written = false, first = comm->rank == 0;
    place[0] = rest[0] = '\0';
    ZR_TRY(zr_comm_agree(comm, name_parts(dir, &p)));
    zr_status st = write_twice(&p, what, engine, comm, &written);
    if (st == ZR_OK) st = zr_comm_agree(comm, first ? commit_export(&p, dir, replace, rest) : ZR_OK);
    if (!first) return st;
    if (written) find_complete(&p, dir, place);
    if (!written) release_export(&p);
    return st;
}

/* ---- recovery after a killed run ------------------------------------------------------------- */

/** Return whether `dir` is a directory with weights. Return false for a symbolic link, since its target does not belong
 * to the run. */
static bool holds_weights(const char *dir)
{
    struct stat st;
    return lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) && zr__weights_in(dir, "");
}

static bool is_newer(const zr__trained *a, const zr__trained *b)
{
    const bool losses = isfinite(a->val_loss) && isfinite(b->val_loss);
    return losses ? a->val_loss < b->val_loss : a->step > b->step;
}

zr_status zr__export_complete(const char *dir, const char **from, char rest[PATH_MAX])
{
    paths p;
    struct stat st;
    zr__trained finished, its = {-1, INFINITY};
    const bool there = lstat(dir, &st) == 0;
    *from = NULL;
    rest[0] = '\0';
    ZR_TRY(name_parts(dir, &p));
    if (holds_weights(p.tmp)) {
        ZR_TRY(zr__trained_read(p.tmp, &finished));
        if (there) ZR_TRY(zr__trained_read(dir, &its));
        if (there && !is_newer(&finished, &its)) return ZR_OK;
        zr__weights_remove(p.tmp, UNFINISHED);
        ZR_TRY(give_name(&p, dir, true, rest));
        *from = ".tmp";
    } else if (!there && holds_weights(p.old)) {
        ZR_CHECK(rename(p.old, dir) == 0, ZR_ERR_IO, "cannot rename %s to %s: %s", p.old, dir, strerror(errno));
        *from = ".old";
    }
    return ZR_OK;
}

/* ---- checking weights before the export ------------------------------------------------------ */

/** State of the search for this rank's first parameter that is not finite. `bad` is its index in the graph, or infinity
 * if all parameters are finite. */
typedef struct seen {
    const zr_graph *graph;
    double bad;
} seen;

static zr_status look_for_bad(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    seen *s = arg;
    const bool bad = zr__first_bad(in, n) >= 0;
    (void)first;
    for (int32_t p = 0; bad && p < s->bad && p < zr_graph_params(s->graph); p++)
        if (zr_graph_param(s->graph, p) == param) s->bad = p;
    return ZR_OK;
}

zr_status zr__export_finite(const zr_plan *plan, zr_engine *engine, zr_comm *comm)
{
    seen s = {graph_of(plan), INFINITY};
    ZR_TRY(zr_comm_agree(comm, zr_engine_read(engine, ZR_STATE_PARAM, look_for_bad, &s)));
    ZR_TRY(zr_comm_scalars(comm, &s.bad, 1, NULL));
    for (int r = 0; r < comm->size; r++) s.bad = fmin(s.bad, comm->table[r]);
    ZR_CHECK(s.bad == INFINITY, ZR_ERR_DIVERGED, "%s is not finite", zr_graph_param(s.graph, (int32_t)s.bad)->name);
    return ZR_OK;
}
