#include "train/weights/export.h"

#include "base/file/commit.h"
#include "base/file/folder.h"
#include "base/number/finite.h"
#include "data/tokenizer/tokenizer.h"
#include "train/dir/run_files.h"
#include "train/family/adapter.h"
#include "train/family/inputs.h"
#include "train/tokenizer/tokenizer_files.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/** File of weights that is written. */
typedef struct writing {
    zr_safetensors *file;
    bool adapter; /* whether it has only adapters */
} writing;

static zr_status write_range(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    const writing *w = arg;
    char name[ZR_NAME_MAX + 32];
    if (w->adapter && !param->adapter) return ZR_OK;
    snprintf(name, sizeof(name), "%s%s", w->adapter ? ZR_ADAPTER_PREFIX : "", param->name);
    const zr_safetensors_tensor *tensor = zr_safetensors_find(w->file, name);
    ZR_ASSERT(tensor);
    return zr_safetensors_write(w->file, tensor, first, n, in);
}

/** Paths used by the export of a directory. */
typedef struct paths {
    bool adapter;              /* whether the weights are adapters */
    char tmp[PATH_MAX];        /* temporary path of the new directory */
    char old[PATH_MAX];        /* path to which an existing directory `dir` is moved */
    char config[PATH_MAX];     /* config.json in tmp */
    char unfinished[PATH_MAX]; /* temporary path of the weights file in tmp, until its data is on disk */
    char finished[PATH_MAX];   /* path to which the weights file in `tmp` is renamed when it is complete */
} paths;

static zr_status name_parts(const char *dir, bool adapter, paths *p)
{
    p->adapter = adapter;
    ZR_TRY(zr__path_format(p->tmp, "%s.tmp", dir));
    ZR_TRY(zr__path_format(p->old, "%s.old", dir));
    ZR_TRY(zr__path_join(p->config, p->tmp, adapter ? ZR_ADAPTER_CONFIG : ZR_RUN_CONFIG));
    ZR_TRY(zr__path_join(p->finished, p->tmp, adapter ? ZR_ADAPTER_SINGLE : ZR_RUN_WEIGHTS));
    return zr__path_join(p->unfinished, p->tmp, adapter ? ZR_ADAPTER_SINGLE ".tmp" : ZR_RUN_WEIGHTS ".tmp");
}

/** Name the parts of a directory that a run has begun to write. */
static zr_status name_begun(const char *dir, paths *p)
{
    ZR_TRY(name_parts(dir, false, p));
    return zr__path_is_in(p->tmp, ZR_ADAPTER_CONFIG) ? name_parts(dir, true, p) : ZR_OK;
}

static void remove_in(const char *dir, const char *name)
{
    char path[PATH_MAX];
    if (zr__path_join(path, dir, name) == ZR_OK) unlink(path);
}

static void release_export(const paths *p)
{
    struct stat st;
    unlink(p->unfinished);
    if (lstat(p->finished, &st) == 0) return;
    unlink(p->config);
    remove_in(p->tmp, ZR_TRAINED_NAME);
    zr__tokenizer_files_remove(p->tmp, NULL);
    rmdir(p->tmp);
}

void zr__export_release(const char *dir)
{
    paths p;
    if (name_begun(dir, &p) == ZR_OK) release_export(&p);
}

static zr_status make_weights(const paths *p, const zr_graph *graph)
{
    zr_tensor_spec *specs = NULL;
    int64_t n = 0;
    ZR_TRY(p->adapter ? zr__adapter_specs(graph, &specs, &n) : zr__param_specs(graph, ZR_PARAMS_ALL, &specs, &n));
    zr_status st = zr_safetensors_create(p->unfinished, specs, n);
    zr_free(specs);
    return st;
}

static const zr_graph *graph_of(const zr_plan *plan)
{
    return plan->graph[plan->layout.train ? ZR_SCHEDULE_TRAIN : ZR_SCHEDULE_EVAL];
}

/** Write config.json of the model, or adapter_config.json if the weights are adapters. */
static zr_status write_config(const paths *p, const zr__exported *what)
{
    zr__adapter adapter;
    if (!p->adapter) return zr_hf_write(p->tmp, what->model->family, &what->model->config);
    ZR_TRY(zr__adapter_describe(graph_of(what->plan), &what->model->lora, what->base, &adapter));
    zr_status st = zr__adapter_write(p->tmp, &adapter);
    zr__adapter_clear(&adapter);
    return st;
}

static zr_status reserve_files(const paths *p, const zr__exported *what)
{
    ZR_TRY(zr__make_folder(p->tmp));
    unlink(p->unfinished); /* a killed run may have left this file */
    zr_status st = make_weights(p, graph_of(what->plan));
    if (st == ZR_OK) st = write_config(p, what);
    if (st == ZR_OK) st = zr__tokenizer_files_copy(what->tokenizer, p->tmp);
    if (st == ZR_OK) st = zr__trained_reserve(p->tmp);
    if (st != ZR_OK) release_export(p);
    return st;
}

zr_status zr__export_reserve(const char *dir, const zr__exported *what)
{
    paths p;
    ZR_TRY(name_parts(dir, zr__has_adapters(graph_of(what->plan)), &p));
    zr_status st = reserve_files(&p, what);
    ZR_CHECK(st == ZR_OK, st,
             "the weights that this run is to leave cannot be written: %s; free space, or choose another "
             "train.output_dir",
             zr_error_message());
    return ZR_OK;
}

/** Reserve all files again if a file was removed in the meantime. In this case set *made to true, since the new weights
 * file is empty. */
static zr_status reserve_again(const paths *p, const zr__exported *what, bool *made)
{
    struct stat weights, config;
    bool there = lstat(p->unfinished, &weights) == 0 && S_ISREG(weights.st_mode);
    bool described = lstat(p->config, &config) == 0 && S_ISREG(config.st_mode);
    bool spelled = !what->tokenizer || zr__tokenizer_is_in(p->tmp);
    if (there && described && spelled) return ZR_OK;
    *made = true;
    return reserve_files(p, what);
}

/** If a reserved file is missing, reserve all files again. Then write trained.json. If trained.json cannot be written,
 * leave it without values and continue, since the weights are more important than the record of their step. A resumed
 * run then takes their step from run.json. If run.json has no step either, the run regards the weights as later than
 * every checkpoint. */
static zr_status prepare_export(const paths *p, const zr__exported *what, bool *made)
{
    ZR_TRY(reserve_again(p, what, made));
    zr_status st = zr__trained_write(p->tmp, &what->trained);
    return st == ZR_ERR_MEMORY ? st : ZR_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

/** Write the elements that this rank owns, then sync the file. Set *written to whether all ranks have written their
 * elements, even if the sync failed. Collective. */
static zr_status write_mine(const paths *p, zr_engine *engine, zr_comm *comm, bool *written)
{
    writing w = {NULL, p->adapter};
    zr_status st = zr_safetensors_attach(p->unfinished, &w.file);
    if (st == ZR_OK) st = zr_engine_read(engine, ZR_STATE_PARAM, write_range, &w);
    st = zr_comm_agree(comm, st);
    *written = st == ZR_OK;
    if (st == ZR_OK) st = zr_comm_agree(comm, zr_safetensors_sync(w.file));
    zr_safetensors_close(&w.file);
    return st;
}

/** Remove the files that zr wrote into p->old, and then the directory if it is empty. Keep tokenizer files that differ
 * from the files in the directory `newer`, since a user may have put them there. If p->old is a symbolic link, remove
 * only the link, since its target does not belong to the run. Return false if p->old still exists. */
static bool remove_old(const paths *p, const char *newer)
{
    static const char *const names[] = {ZR_RUN_CONFIG, ZR_RUN_WEIGHTS, ZR_ADAPTER_CONFIG, ZR_ADAPTER_SINGLE,
                                        ZR_TRAINED_NAME};
    struct stat st;
    if (lstat(p->old, &st) != 0) return true;
    if (S_ISLNK(st.st_mode)) return unlink(p->old) == 0;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) remove_in(p->old, names[i]);
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

/** Rename the weights file and the directory to their final names. Call this on one rank. */
static zr_status commit_export(paths *p, const char *dir, bool replace, char rest[PATH_MAX])
{
    ZR_CHECK(rename(p->unfinished, p->finished) == 0, ZR_ERR_IO, "cannot rename %s to %s: %s", p->unfinished,
             p->finished, strerror(errno));
    return give_name(p, dir, replace, rest);
}

bool zr__export_is_there(const char *dir)
{
    static const char *const names[] = {ZR_RUN_WEIGHTS, ZR_ADAPTER_SINGLE};
    char path[PATH_MAX];
    struct stat st;
    for (int i = 0; i < 2; i++)
        if (zr__path_join(path, dir, names[i]) == ZR_OK && lstat(path, &st) == 0) return true;
    return false;
}

/** Write the path of the directory with the complete weights, or "", to `place`. Call this on rank 0. */
static void find_complete(const paths *p, const char *dir, char *place, size_t size)
{
    struct stat st;
    if (lstat(p->unfinished, &st) == 0 && rename(p->unfinished, p->finished) != 0) return;
    if (lstat(p->finished, &st) == 0)
        snprintf(place, size, "%s", p->tmp);
    else if (zr__export_is_there(dir))
        snprintf(place, size, "%s", dir);
}

/** Write the weights, and write them again after a disk failure. After a failed sync, the system treats the pages as
 * clean, so only a second write brings them to the disk. */
static zr_status write_twice(const paths *p, const zr__exported *what, zr_engine *engine, zr_comm *comm, bool *written)
{
    zr_status st = ZR_OK;
    bool disk = true; /* whether the last attempt failed because of the disk, so that another attempt may succeed */
    for (int tries = 0; tries < 2 && disk; tries++) {
        bool complete = false, made = false;
        st = zr_comm_agree(comm, comm->rank == 0 ? prepare_export(p, what, &made) : ZR_OK);
        if (st == ZR_OK) st = write_mine(p, engine, comm, &complete);
        *written = complete || (*written && !made);
        disk = st == ZR_ERR_IO || st == ZR_ERR_CREATE || st == ZR_ERR_NOT_FOUND;
    }
    return st == ZR_ERR_NOT_FOUND ? ZR_FAIL(ZR_ERR_IO, "%s", zr_error_message()) : st;
}

zr_status zr__export(const char *dir, const zr__exported *what, zr_engine *engine, zr_comm *comm, bool replace,
                     char rest[PATH_MAX], char *place, size_t size)
{
    paths p;
    bool written = false, first = comm->rank == 0;
    place[0] = rest[0] = '\0';
    ZR_TRY(zr_comm_agree(comm, name_parts(dir, zr__has_adapters(graph_of(what->plan)), &p)));
    zr_status st = write_twice(&p, what, engine, comm, &written);
    if (st == ZR_OK) st = zr_comm_agree(comm, first ? commit_export(&p, dir, replace, rest) : ZR_OK);
    if (!first) return st;
    if (written) find_complete(&p, dir, place, size);
    if (!written) release_export(&p);
    return st;
}

/* ---- recovery after a killed run ------------------------------------------------------------- */

/** Return whether `dir` is a directory with weights. Return false for a symbolic link, since its target does not belong
 * to the run. */
static bool holds_weights(const char *dir)
{
    struct stat st;
    return lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) && zr__export_is_there(dir);
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
    ZR_TRY(name_begun(dir, &p));
    if (holds_weights(p.tmp)) {
        ZR_TRY(zr__trained_read(p.tmp, &finished));
        if (there) ZR_TRY(zr__trained_read(dir, &its));
        if (there && !is_newer(&finished, &its)) return ZR_OK;
        unlink(p.unfinished);
        ZR_TRY(give_name(&p, dir, true, rest));
        *from = ".tmp";
    } else if (!there && holds_weights(p.old)) {
        ZR_CHECK(rename(p.old, dir) == 0, ZR_ERR_IO, "cannot rename %s to %s: %s", p.old, dir, strerror(errno));
        *from = ".old";
    }
    return ZR_OK;
}

/* ---- checking weights before the export ------------------------------------------------------ */

/** State of the search for this rank's first parameter that is not finite. `bad` is the parameter's index in the graph,
 * or infinity if all parameters are finite. */
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
