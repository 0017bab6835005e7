#include "train/dir/run_dir.h"

#include "base/json/json.h"
#include "base/paths/shards.h"
#include "base/text/text.h"
#include "train/dir/trained.h"
#include "zr/checkpoint.h"
#include "checkpoint/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_NAME "lock"
#define METRICS_NAME "metrics.jsonl"
#define PICTURE_NAME "loss.svg"
#define TMP_SUFFIX ".tmp" /* suffix of zr__file_put's temporary file */

/* Bytes of a path in a message. */
#define SHOWN_BYTES 512

/* Files and folders that a run leaves. model.tmp may hold complete weights. */
static const char *const traces[] = {"config.json", METRICS_NAME, "run.json", "model",
                                     "model.tmp",   "model.old",  "latest",   "best"};

/** Write the longest existing part of `path` to `parent`. */
static void nearest_parent(const char *path, char parent[PATH_MAX])
{
    struct stat st;
    snprintf(parent, PATH_MAX, "%s", path);
    while (stat(parent, &st) != 0) {
        char *slash = strrchr(parent, '/');
        if (!slash) {
            strcpy(parent, ".");
            return;
        }
        if (slash == parent) slash++;
        *slash = '\0';
    }
}

static bool is_there(const char *dir, const char *name)
{
    struct stat st;
    char path[PATH_MAX];
    return zr__path_join(path, dir, name) == ZR_OK && lstat(path, &st) == 0;
}

static bool has_checkpoint(const char *path)
{
    int64_t *step = NULL, n = 0;
    bool found = zr_checkpoint_list(path, &step, &n) == ZR_OK && n > 0;
    zr_free(step);
    return found;
}

/** Return the name of a run's trace in the directory; NULL: the directory holds no trace of a run. */
static const char *trace_in(const char *path)
{
    if (has_checkpoint(path)) return "a checkpoint";
    for (size_t i = 0; i < sizeof(traces) / sizeof(traces[0]); i++)
        if (is_there(path, traces[i])) return traces[i];
    return NULL;
}

/** Check that a run's directory can be made or written at `path`. */
static zr_status check_place(const char *path)
{
    struct stat st;
    char parent[PATH_MAX], shown[SHOWN_BYTES], shown_parent[SHOWN_BYTES];
    ZR_CHECK(path[0], ZR_ERR_CREATE, "train.output_dir is empty; name a directory");
    ZR_CHECK(strlen(path) < PATH_MAX - 64, ZR_ERR_CREATE, "train.output_dir has %zu bytes; at most %d are possible",
             strlen(path), PATH_MAX - 65);
    nearest_parent(path, parent);
    zr__text_escape(path, shown, sizeof(shown));
    zr__text_escape(parent, shown_parent, sizeof(shown_parent));
    ZR_CHECK(stat(parent, &st) == 0 && S_ISDIR(st.st_mode), ZR_ERR_CREATE,
             "train.output_dir %s cannot be made: %s is not a directory", shown, shown_parent);
    ZR_CHECK(access(parent, W_OK | X_OK) == 0, ZR_ERR_CREATE,
             "train.output_dir %s cannot be written: %s: %s; choose another directory", shown, shown_parent,
             strerror(errno));
    return ZR_OK;
}

zr_status zr__run_dir_check(const char *path)
{
    char shown[SHOWN_BYTES];
    ZR_TRY(check_place(path));
    const char *trace = trace_in(path);
    ZR_CHECK(!trace, ZR_ERR_CREATE,
             "train.output_dir %s holds another run (%s is there); continue that (--resume), name another directory "
             "(--train.output_dir=DIR) or remove it",
             zr__text_escape(path, shown, sizeof(shown)), trace);
    return ZR_OK;
}

static zr_status take_lock(zr__run_dir *dir)
{
    char lock[PATH_MAX];
    ZR_TRY(zr__path_join(lock, dir->path, LOCK_NAME));
    ZR_TRY(zr__lock_take(lock, dir->gone));
    dir->key = zr__lock_key(lock);
    dir->locked = true;
    return ZR_OK;
}

uint64_t zr__run_dir_key(const char *path)
{
    char lock[PATH_MAX];
    return zr__path_join(lock, path, LOCK_NAME) == ZR_OK ? zr__lock_key(lock) : 0;
}

zr_status zr__run_dir_write(const zr__run_dir *dir, const char *name, const char *text)
{
    char path[PATH_MAX];
    ZR_TRY(zr__path_join(path, dir->path, name));
    ZR_TRY(zr__file_put(path, text, (int64_t)strlen(text)));
    return ZR_OK;
}

static zr_status metrics_path(const zr__run_dir *dir, char path[PATH_MAX])
{
    return zr__path_join(path, dir->path, METRICS_NAME);
}

static zr_status open_metrics(zr__run_dir *dir)
{
    char path[PATH_MAX];
    ZR_TRY(metrics_path(dir, path));
    return zr__metrics_create(&dir->metrics, path);
}

bool zr__run_dir_writes(const zr__run_dir *dir, const char *path)
{
    struct stat own, its;
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(name - path) : 1, slash ? path : ".");
    if (stat(dir->path, &own) != 0 || stat(folder, &its) != 0) return false;
    if (own.st_dev != its.st_dev || own.st_ino != its.st_ino) return false;
    size_t n = strlen(name), tmp = strlen(TMP_SUFFIX);
    if (n > tmp && strcmp(name + n - tmp, TMP_SUFFIX) == 0) n -= tmp;
    bool found = n == strlen(LOCK_NAME) && strncmp(name, LOCK_NAME, n) == 0;
    found |= n == strlen(PICTURE_NAME) && strncmp(name, PICTURE_NAME, n) == 0; /* an observer of the run may draw it */
    for (size_t i = 0; i < sizeof(traces) / sizeof(traces[0]); i++)
        found |= n == strlen(traces[i]) && strncmp(name, traces[i], n) == 0;
    return found;
}

static zr_status spares(const zr__run_dir *dir, const char *input)
{
    char shown[SHOWN_BYTES], shown_input[SHOWN_BYTES];
    ZR_CHECK(!zr__run_dir_writes(dir, input), ZR_ERR_CREATE,
             "train.output_dir %s: the run would write over %s, which it reads; choose another directory",
             zr__text_escape(dir->path, shown, sizeof(shown)),
             zr__text_escape(input, shown_input, sizeof(shown_input)));
    return ZR_OK;
}

zr_status zr__run_dir_spares(const char *path, const char *const *inputs)
{
    zr__run_dir dir = ZR_RUN_DIR_INIT;
    snprintf(dir.path, sizeof(dir.path), "%s", path);
    for (; *inputs; inputs++) {
        zr__shards shards;
        zr_status st = zr__shards_find(*inputs, &shards);
        for (int64_t i = 0; i < shards.n && st == ZR_OK; i++) st = spares(&dir, shards.path[i]);
        zr__shards_free(&shards);
        ZR_TRY(st);
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
    char path[PATH_MAX];
    if (dir->events.fd < 0) return;
    if (zr__path_join(path, dir->path, dir->events_name) == ZR_OK) unlink(path);
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

/** Remove this run's files, so that a run that did not begin leaves nothing that would refuse the next one.
 * metrics.jsonl is open only under the lock: without it, all files are another run's. */
void zr__run_dir_undo(zr__run_dir *dir)
{
    char path[PATH_MAX];
    zr__run_dir_drop_events(dir);
    if (dir->metrics.fd >= 0 && zr__path_join(path, dir->path, METRICS_NAME) == ZR_OK) unlink(path);
    if (dir->metrics.fd >= 0 && zr__path_join(path, dir->path, "config.json") == ZR_OK) unlink(path);
    zr__run_dir_close(dir);
}

zr_status zr__run_dir_open(zr__run_dir *dir, const char *path, const char *config)
{
    zr_status st = ZR_OK;
    ZR_TRY(zr__run_dir_check(path));
    snprintf(dir->path, sizeof(dir->path), "%s", path);
    ZR_TRY(zr__make_folders(path));
    ZR_TRY_GOTO(st, take_lock(dir), fail);
    /* Another job may have run here between the check and the lock. */
    ZR_TRY_GOTO(st, zr__run_dir_check(path), fail);
    dir->place = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ZR_TRY_GOTO(st, open_metrics(dir), fail);
    ZR_TRY_GOTO(st, zr__run_dir_write(dir, "config.json", config), fail);
    return ZR_OK;
fail:
    zr__run_dir_undo(dir);
    return st;
}

/* ---- going on --------------------------------------------------------------------------------- */

zr_status zr__run_dir_reopen(zr__run_dir *dir, const char *path, bool *there)
{
    char shown[SHOWN_BYTES];
    ZR_TRY(check_place(path));
    const char *trace = trace_in(path);
    *there = trace != NULL;
    if (!trace) return ZR_OK;
    /* Checkpoints may have been copied here without metrics.jsonl. */
    ZR_CHECK(is_there(path, METRICS_NAME) || has_checkpoint(path), ZR_ERR_CREATE,
             "train.output_dir %s holds no run to continue (%s is there, and neither " METRICS_NAME
             " nor a checkpoint); name another",
             zr__text_escape(path, shown, sizeof(shown)), trace);
    snprintf(dir->path, sizeof(dir->path), "%s", path);
    ZR_TRY(take_lock(dir));
    dir->place = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return ZR_OK;
}

/** Read the number of steps from run.json, for weights without a trained.json, as earlier versions left them. */
static zr_status steps_of_run(const zr__run_dir *dir, int64_t *steps)
{
    char path[PATH_MAX], *text = NULL;
    size_t bytes = 0;
    json_t *root = NULL;
    *steps = ZR_STEP_UNKNOWN;
    ZR_TRY(zr__path_join(path, dir->path, "run.json"));
    zr_status st = zr__json_read_file(path, &text, &bytes);
    if (st == ZR_OK) st = zr__json_parse(text, bytes, path, &root);
    if (st == ZR_OK && json_is_integer(json_object_get(root, "steps")))
        *steps = json_integer_value(json_object_get(root, "steps"));
    json_decref(root);
    zr_free(text);
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
    /* zr__convert_dir makes a run whose model/ has only the tokenizer. */
    const bool empty = !is_there(path, "model.safetensors") && !is_there(path, "model.safetensors.index.json");
    if (*step == ZR_STEP_UNKNOWN && empty) *step = -1;
    return ZR_OK;
}

zr_status zr__run_dir_weights(const zr__run_dir *dir, const char **name, int64_t *step)
{
    static const struct {
        const char *folder, *name, *file;
    } places[] = {{"model", "model", "model"},
                  {"model.tmp", "model.tmp/model.safetensors", "model.tmp/model.safetensors"},
                  {"model.old", "model.old", "model.old/model.safetensors"}};
    int64_t its;
    *name = NULL;
    *step = -1;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        /* Where other weights exist, model.old needs a weights file to count: it may hold only files of the user. */
        if (!is_there(dir->path, *name ? places[i].file : places[i].name)) continue;
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
    ZR_TRY(metrics_path(dir, path));
    ZR_TRY(zr__metrics_continue(&dir->metrics, path, step, made));
    ZR_TRY(zr__run_dir_write(dir, "config.json", config));
    return zr__metrics_cut(&dir->metrics, path, step);
}

static bool is_same(const struct stat *own, const char *path)
{
    struct stat its;
    return stat(path, &its) == 0 && own->st_dev == its.st_dev && own->st_ino == its.st_ino;
}

/** Return whether the directory still exists, and set dir->path to its current name. */
static bool follow(zr__run_dir *dir)
{
    struct stat own;
    char link[48], now[PATH_MAX];
    if (dir->place < 0 || fstat(dir->place, &own) != 0 || is_same(&own, dir->path)) return true;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", dir->place);
    ssize_t n = readlink(link, now, sizeof(now) - 1);
    now[n > 0 ? n : 0] = '\0';
    if (!is_same(&own, now)) return false;
    memcpy(dir->path, now, (size_t)n + 1);
    return true;
}

zr_status zr__run_dir_find(zr__run_dir *dir)
{
    if (follow(dir)) return ZR_OK;
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
    if (dir->locked && follow(dir) && zr__run_dir_key(dir->path) == dir->key &&
        zr__path_join(lock, dir->path, LOCK_NAME) == ZR_OK)
        zr__lock_release(lock);
    dir->locked = false;
    if (dir->place >= 0) close(dir->place);
    dir->place = -1;
}
