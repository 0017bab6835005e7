#include "train/dir/run_dir.h"

#include "base/file/commit.h"
#include "base/json/json.h"
#include "base/paths/shards.h"
#include "checkpoint/checkpoint.h"
#include "zr/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TMP_SUFFIX ".tmp" /* suffix of the temporary file that zr__file_put creates */

/* Names of files and folders that a run writes. The first TRACES show that a directory belongs to a run. */
static const char *const own_names[] = {ZR_RUN_CONFIG,    ZR_RUN_METRICS, ZR_RUN_REPORT, ZR_RUN_MODEL, ZR_RUN_MODEL_NEW,
                                        ZR_RUN_MODEL_OLD, ZR_RUN_LATEST,  ZR_RUN_BEST,   ZR_RUN_LOCK,  ZR_RUN_PICTURE};
enum { TRACES = 8, OWN_NAMES = sizeof(own_names) / sizeof(own_names[0]) };
_Static_assert(OWN_NAMES == TRACES + 2, "the lock and the picture, which are no traces, come last");

static bool has_entry(const char *dir, const char *name)
{
    struct stat st;
    char path[PATH_MAX];
    return zr__path_join(path, dir, name) == ZR_OK && lstat(path, &st) == 0;
}

const char *zr__weights_in(const char *dir, const char *suffix)
{
    static const char *const names[] = {ZR_RUN_WEIGHTS, ZR_RUN_WEIGHTS_INDEX, ZR_ADAPTER_SINGLE};
    char name[64];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), "%s%s", names[i], suffix);
        if (has_entry(dir, name)) return names[i];
    }
    return NULL;
}

bool zr__run_dir_has_checkpoint(const char *path)
{
    ZR_AUTO_FREE int64_t *step = NULL;
    int64_t n = 0;
    return zr_checkpoint_list(path, &step, &n) == ZR_OK && n > 0;
}

/** Return the first trace of a run in the directory: "a checkpoint", or one of the first names in `own_names`. Return
 * NULL if there is no trace. */
static const char *trace_in(const char *path)
{
    if (zr__run_dir_has_checkpoint(path)) return "a checkpoint";
    for (int i = 0; i < TRACES; i++)
        if (has_entry(path, own_names[i])) return own_names[i];
    return NULL;
}

/** Check that `path` is a writable directory, or that it can be created. */
static zr_status check_place(const char *path)
{
    struct stat st;
    char parent[PATH_MAX];
    ZR_CHECK(path[0], ZR_ERR_CREATE, "train.output_dir is empty; name a directory");
    ZR_CHECK(strlen(path) < PATH_MAX - 64, ZR_ERR_CREATE, "train.output_dir has %zu bytes; the limit is %d",
             strlen(path), PATH_MAX - 65);
    zr__path_existing(path, parent);
    ZR_CHECK(stat(parent, &st) == 0 && S_ISDIR(st.st_mode), ZR_ERR_CREATE,
             "train.output_dir %s cannot be created: %s is not a directory", ZR_SHOWN(path), ZR_SHOWN(parent));
    ZR_CHECK(access(parent, W_OK | X_OK) == 0, ZR_ERR_CREATE,
             "train.output_dir %s cannot be written: %s: %s; choose another directory", ZR_SHOWN(path),
             ZR_SHOWN(parent), strerror(errno));
    return ZR_OK;
}

zr_status zr__run_dir_check(const char *path)
{
    ZR_TRY(check_place(path));
    const char *trace = trace_in(path);
    ZR_CHECK(!trace, ZR_ERR_CREATE,
             "train.output_dir %s holds another run (%s is there); continue that (--resume), name another directory "
             "(--train.output_dir=DIR) or remove it",
             ZR_SHOWN(path), trace);
    return ZR_OK;
}

static zr_status take_lock(zr__run_dir *dir)
{
    char lock[PATH_MAX];
    ZR_TRY(zr__path_join(lock, dir->path, ZR_RUN_LOCK));
    ZR_TRY(zr__lock_take(lock, dir->gone));
    dir->key = zr__lock_key(lock);
    dir->locked = true;
    return ZR_OK;
}

zr_status zr__checkpoint_path(char path[PATH_MAX], const char *run_dir, int64_t step)
{
    char name[ZR_CHECKPOINT_NAME_BYTES];
    zr_checkpoint_name(step, name);
    return zr__path_join(path, run_dir, name);
}

uint64_t zr__run_dir_key(const char *path)
{
    char lock[PATH_MAX];
    return zr__path_join(lock, path, ZR_RUN_LOCK) == ZR_OK ? zr__lock_key(lock) : 0;
}

zr_status zr__run_dir_write(const zr__run_dir *dir, const char *name, const char *text)
{
    char path[PATH_MAX];
    ZR_TRY(zr__path_join(path, dir->path, name));
    return zr__file_put(path, text, (int64_t)strlen(text));
}

/** Return whether `name`, n bytes long, is the name of a file that the run itself writes. */
static bool is_own_name(const char *name, size_t n)
{
    for (int i = 0; i < OWN_NAMES; i++)
        if (n == strlen(own_names[i]) && strncmp(name, own_names[i], n) == 0) return true;
    return false;
}

static bool is_same_dir(const struct stat *own, const char *path)
{
    struct stat its;
    return stat(path, &its) == 0 && own->st_dev == its.st_dev && own->st_ino == its.st_ino;
}

bool zr__run_dir_writes(const char *dir, const char *path)
{
    struct stat own;
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    zr__path_parent(path, folder);
    if (stat(dir, &own) != 0 || !is_same_dir(&own, folder)) return false;
    size_t n = strlen(name), tmp = strlen(TMP_SUFFIX);
    if (n > tmp && strcmp(name + n - tmp, TMP_SUFFIX) == 0) n -= tmp;
    return is_own_name(name, n);
}

zr_status zr__run_dir_spares(const char *path, const char *const *inputs)
{
    for (; *inputs; inputs++) {
        ZR_AUTO(zr__shards_free) zr__shards shards = {0};
        ZR_TRY(zr__shards_find(*inputs, &shards));
        for (int64_t i = 0; i < shards.n; i++)
            ZR_CHECK(!zr__run_dir_writes(path, shards.path[i]), ZR_ERR_CREATE,
                     "train.output_dir %s: the run would overwrite %s, which it reads; choose another directory",
                     ZR_SHOWN(path), ZR_SHOWN(shards.path[i]));
    }
    return ZR_OK;
}

zr_status zr__run_dir_add_events(zr__run_dir *dir)
{
    char path[PATH_MAX];
    zr__events_name(dir->path, dir->events_name);
    ZR_TRY(zr__path_join(path, dir->path, dir->events_name));
    dir->events = (zr__metrics_file){.name = dir->events_name, .line = "record", .fd = -1};
    return zr__metrics_create(&dir->events, path);
}

void zr__run_dir_drop_events(zr__run_dir *dir)
{
    if (dir->events.fd < 0) return;
    zr__path_remove(dir->path, dir->events_name);
    zr__metrics_close(&dir->events);
}

zr_status zr__run_dir_sync(zr__run_dir *dir)
{
    zr_status st = zr__metrics_sync(&dir->metrics), events = zr__metrics_sync(&dir->events);
    return st != ZR_OK ? st : events;
}

zr_status zr__run_dir_end(zr__run_dir *dir)
{
    zr_status st = zr__metrics_end(&dir->metrics), events = zr__metrics_end(&dir->events);
    return st != ZR_OK ? st : events;
}

/** Remove the files of a run that failed to begin, since the next run would refuse a directory with these files. If
 * metrics.jsonl is not open, this run does not hold the lock, and the files may belong to another run, so they stay. */
void zr__run_dir_undo(zr__run_dir *dir)
{
    zr__run_dir_drop_events(dir);
    if (dir->metrics.fd >= 0) zr__path_remove(dir->path, ZR_RUN_METRICS);
    if (dir->metrics.fd >= 0) zr__path_remove(dir->path, ZR_RUN_CONFIG);
    zr__run_dir_close(dir);
}

zr_status zr__run_dir_open(zr__run_dir *dir, const char *path, const char *config)
{
    char metrics[PATH_MAX];
    ZR_TRY(zr__run_dir_check(path));
    ZR_TRY(zr__path_join(metrics, path, ZR_RUN_METRICS));
    snprintf(dir->path, sizeof(dir->path), "%s", path);
    ZR_TRY(zr__make_folders(path));
    zr_status st = take_lock(dir);
    /* Check again, since another job may have run in this directory between the first check and the lock. */
    if (st == ZR_OK) st = zr__run_dir_check(path);
    if (st == ZR_OK) st = zr__metrics_create(&dir->metrics, metrics);
    if (st == ZR_OK) st = zr__run_dir_write(dir, ZR_RUN_CONFIG, config);
    if (st == ZR_OK) dir->place = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (st != ZR_OK) zr__run_dir_undo(dir);
    return st;
}

/* ---- resuming --------------------------------------------------------------------------------- */

zr_status zr__run_dir_reopen(zr__run_dir *dir, const char *path, bool *there)
{
    ZR_TRY(check_place(path));
    const char *trace = trace_in(path);
    *there = trace != NULL;
    if (!trace) return ZR_OK;
    /* Accept checkpoints without metrics.jsonl, since a user may have copied only the checkpoints. */
    ZR_CHECK(has_entry(path, ZR_RUN_METRICS) || zr__run_dir_has_checkpoint(path), ZR_ERR_CREATE,
             "train.output_dir %s holds no run to continue (%s is there, and neither " ZR_RUN_METRICS
             " nor a checkpoint); name another",
             ZR_SHOWN(path), trace);
    snprintf(dir->path, sizeof(dir->path), "%s", path);
    ZR_TRY(take_lock(dir));
    dir->place = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return ZR_OK;
}

/** Read the number of steps from run.json. It is needed for weights of earlier versions of zr, which wrote no
 * trained.json. */
static zr_status steps_of_run(const zr__run_dir *dir, int64_t *steps)
{
    char path[PATH_MAX];
    json_auto_t *root = NULL;
    *steps = ZR_STEP_UNKNOWN;
    ZR_TRY(zr__path_join(path, dir->path, ZR_RUN_REPORT));
    zr_status st = zr__json_load_data(path, &root);
    if (st == ZR_OK && json_is_integer(json_object_get(root, "steps")))
        *steps = json_integer_value(json_object_get(root, "steps"));
    return st == ZR_ERR_IO || st == ZR_ERR_MEMORY ? st : ZR_OK;
}

static zr_status step_of_weights(const zr__run_dir *dir, const char *folder, int64_t *step)
{
    char path[PATH_MAX];
    zr__trained trained;
    ZR_TRY(zr__path_join(path, dir->path, folder));
    ZR_TRY(zr__trained_read(path, &trained));
    *step = trained.step;
    if (trained.step >= 0) return ZR_OK;
    ZR_TRY(steps_of_run(dir, step));
    /* Ignore a folder model/ without weights. zr__convert_dir creates one that has only a tokenizer. */
    if (*step == ZR_STEP_UNKNOWN && !zr__weights_in(path, "")) *step = -1;
    return ZR_OK;
}

zr_status zr__run_dir_weights(const zr__run_dir *dir, const char **name, int64_t *step)
{
    static const struct {
        const char *folder, *name, *file;
    } places[] = {
        {ZR_RUN_MODEL, ZR_RUN_MODEL, ZR_RUN_MODEL},
        {ZR_RUN_MODEL_NEW, ZR_RUN_MODEL_NEW "/" ZR_RUN_WEIGHTS, ZR_RUN_MODEL_NEW "/" ZR_RUN_WEIGHTS},
        {ZR_RUN_MODEL_NEW, ZR_RUN_MODEL_NEW "/" ZR_RUN_WEIGHTS_INDEX, ZR_RUN_MODEL_NEW "/" ZR_RUN_WEIGHTS_INDEX},
        {ZR_RUN_MODEL_NEW, ZR_RUN_MODEL_NEW "/" ZR_ADAPTER_SINGLE, ZR_RUN_MODEL_NEW "/" ZR_ADAPTER_SINGLE},
        {ZR_RUN_MODEL_OLD, ZR_RUN_MODEL_OLD, ZR_RUN_MODEL_OLD "/" ZR_RUN_WEIGHTS},
        {ZR_RUN_MODEL_OLD, ZR_RUN_MODEL_OLD, ZR_RUN_MODEL_OLD "/" ZR_ADAPTER_SINGLE},
        {ZR_RUN_MODEL_OLD, ZR_RUN_MODEL_OLD, ZR_RUN_MODEL_OLD "/" ZR_RUN_WEIGHTS_INDEX}};
    int64_t its;
    *name = NULL;
    *step = -1;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        /* If weights were already found, accept model.old only with a weights file. Without one, it may hold only files
         * that the user put there. */
        if (!has_entry(dir->path, *name ? places[i].file : places[i].name)) continue;
        ZR_TRY(step_of_weights(dir, places[i].folder, &its));
        if (*name && its <= *step) continue;
        *name = places[i].name;
        *step = its;
    }
    return ZR_OK;
}

zr_status zr__run_dir_continue(zr__run_dir *dir, int64_t step, const char *config, zr__run_made *made)
{
    char path[PATH_MAX];
    ZR_TRY(zr__path_join(path, dir->path, ZR_RUN_METRICS));
    ZR_TRY(zr__metrics_continue(&dir->metrics, path, step, made));
    ZR_TRY(zr__run_dir_write(dir, ZR_RUN_CONFIG, config));
    return zr__metrics_cut(&dir->metrics, path, step);
}

/** Return whether the directory still exists. If it was renamed, set dir->path to its new path. */
static bool follow_rename(zr__run_dir *dir)
{
    struct stat own;
    char link[48], now[PATH_MAX];
    if (dir->place < 0 || fstat(dir->place, &own) != 0 || is_same_dir(&own, dir->path)) return true;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", dir->place);
    ssize_t n = readlink(link, now, sizeof(now) - 1);
    now[n > 0 ? n : 0] = '\0';
    if (!is_same_dir(&own, now)) return false;
    memcpy(dir->path, now, (size_t)n + 1);
    return true;
}

zr_status zr__run_dir_find(zr__run_dir *dir)
{
    if (follow_rename(dir)) return ZR_OK;
    ZR_TRY(zr__make_folders(dir->path));
    close(dir->place);
    dir->place = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return ZR_OK;
}

void zr__run_dir_close(zr__run_dir *dir)
{
    char lock[PATH_MAX];
    zr__metrics_close(&dir->metrics);
    zr__metrics_close(&dir->events);
    if (dir->locked && follow_rename(dir) && zr__run_dir_key(dir->path) == dir->key &&
        zr__path_join(lock, dir->path, ZR_RUN_LOCK) == ZR_OK)
        zr__lock_release(lock);
    dir->locked = false;
    if (dir->place >= 0) close(dir->place);
    dir->place = -1;
}
