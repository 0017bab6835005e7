#include "train/run_dir.h"

#include "base/text.h"
#include "train/host.h"
#include "zr/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_NAME "lock"
#define METRICS_NAME "metrics.jsonl"
#define PICTURE_NAME "loss.svg"
#define TMP_SUFFIX ".tmp" /* of zr_file_write */

/* A path in a message. */
#define SHOWN_BYTES 512

/* Any of these means that a run has been here. In model.tmp there may be weights that are whole. */
static const char *const traces[] = {"config.json", METRICS_NAME, "run.json", "model", "model.tmp", "latest"};

zr_status zr__path_join(char path[PATH_MAX], const char *dir, const char *name)
{
    int n = snprintf(path, PATH_MAX, "%s/%s", dir, name);
    ZR_CHECK(n >= 0 && n < PATH_MAX, ZR_ERR_CREATE, "the path %.60s... is longer than %d bytes; choose a shorter one",
             dir, PATH_MAX - 1);
    return ZR_OK;
}

/** Longest part of `path` that exists, into `parent`. */
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

zr_status zr__run_dir_check(const char *path)
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
    for (size_t i = 0; i < sizeof(traces) / sizeof(traces[0]); i++) {
        char trace[PATH_MAX];
        ZR_TRY(zr__path_join(trace, path, traces[i]));
        ZR_CHECK(
            lstat(trace, &st) != 0, ZR_ERR_CREATE,
            "train.output_dir %s holds another run (%s is there); name another (--train.output_dir=DIR) or remove it",
            shown, traces[i]);
    }
    return ZR_OK;
}

zr_status zr__make_folders(const char *path)
{
    char part[PATH_MAX], shown[SHOWN_BYTES];
    snprintf(part, sizeof(part), "%s", path);
    for (char *c = part + 1;; c++) {
        if (*c != '/' && *c != '\0') continue;
        char keep = *c;
        *c = '\0';
        ZR_CHECK(mkdir(part, 0777) == 0 || errno == EEXIST, ZR_ERR_CREATE, "cannot make the directory %s: %s",
                 zr__text_escape(part, shown, sizeof(shown)), strerror(errno));
        *c = keep;
        if (!keep) return ZR_OK;
    }
}

/** Say whose lock it is. */
static zr_status locked_by_other(const char *path, const char *lock)
{
    char who[128] = "", shown[SHOWN_BYTES], shown_lock[SHOWN_BYTES];
    int fd = open(lock, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = fd < 0 ? 0 : read(fd, who, sizeof(who) - 1);
    if (fd >= 0) close(fd);
    if (n > 0) who[strcspn(who, "\n")] = '\0';
    return ZR_FAIL(ZR_ERR_CREATE, "train.output_dir %s is in use by another job (%s); if that job is gone, remove %s",
                   zr__text_escape(path, shown, sizeof(shown)), who[0] ? who : "its lock says no name",
                   zr__text_escape(lock, shown_lock, sizeof(shown_lock)));
}

static zr_status take_lock(zr__run_dir *dir)
{
    char lock[PATH_MAX], shown[SHOWN_BYTES], host[80], text[192];
    const char *job = getenv("SLURM_JOB_ID");
    ZR_TRY(zr__path_join(lock, dir->path, LOCK_NAME));
    int fd = open(lock, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0 && errno == EEXIST) return locked_by_other(dir->path, lock);
    ZR_CHECK(fd >= 0, ZR_ERR_CREATE, "cannot write in train.output_dir %s: %s",
             zr__text_escape(dir->path, shown, sizeof(shown)), strerror(errno));
    dir->locked = true;
    zr__host_name(host, sizeof(host));
    int n = snprintf(text, sizeof(text), "host %s, process %ld%s%.32s\n", host, (long)getpid(), job ? ", job " : "",
                     job ? job : "");
    ssize_t put = write(fd, text, (size_t)n);
    int failed = put != n ? errno : 0;
    close(fd);
    ZR_CHECK(!failed, ZR_ERR_CREATE, "cannot write %s: %s", zr__text_escape(lock, shown, sizeof(shown)),
             strerror(failed));
    return ZR_OK;
}

zr_status zr__run_dir_write(const zr__run_dir *dir, const char *name, const char *text)
{
    char path[PATH_MAX];
    ZR_TRY(zr__path_join(path, dir->path, name));
    ZR_TRY(zr_file_write(path, text, (int64_t)strlen(text)));
    return ZR_OK;
}

static zr_status open_metrics(zr__run_dir *dir)
{
    char path[PATH_MAX], shown[SHOWN_BYTES];
    ZR_TRY(zr__path_join(path, dir->path, METRICS_NAME));
    dir->metrics = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
    ZR_CHECK(dir->metrics >= 0, ZR_ERR_CREATE, "cannot create %s: %s", zr__text_escape(path, shown, sizeof(shown)),
             strerror(errno));
    return ZR_OK;
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
    found |= n == strlen(PICTURE_NAME) && strncmp(name, PICTURE_NAME, n) == 0; /* who observes the run may draw it */
    for (size_t i = 0; i < sizeof(traces) / sizeof(traces[0]); i++)
        found |= n == strlen(traces[i]) && strncmp(name, traces[i], n) == 0;
    return found;
}

zr_status zr__run_dir_spares(const char *path, const char *const *inputs)
{
    zr__run_dir dir = ZR_RUN_DIR_INIT;
    char shown[SHOWN_BYTES], shown_input[SHOWN_BYTES];
    snprintf(dir.path, sizeof(dir.path), "%s", path);
    for (; *inputs; inputs++)
        ZR_CHECK(!zr__run_dir_writes(&dir, *inputs), ZR_ERR_CREATE,
                 "train.output_dir %s: the run would write over %s, which it reads; choose another directory",
                 zr__text_escape(path, shown, sizeof(shown)),
                 zr__text_escape(*inputs, shown_input, sizeof(shown_input)));
    return ZR_OK;
}

/** A run that did not begin leaves nothing that would refuse the next. What another run has made is not touched:
 * without the lock, none of it is this run's. */
void zr__run_dir_undo(zr__run_dir *dir)
{
    char path[PATH_MAX];
    if (dir->metrics >= 0 && zr__path_join(path, dir->path, METRICS_NAME) == ZR_OK) unlink(path);
    if (dir->metrics >= 0 && zr__path_join(path, dir->path, "config.json") == ZR_OK) unlink(path);
    zr__run_dir_close(dir);
}

zr_status zr__run_dir_open(zr__run_dir *dir, const char *path, const char *config)
{
    zr_status st = ZR_OK;
    ZR_TRY(zr__run_dir_check(path));
    snprintf(dir->path, sizeof(dir->path), "%s", path);
    ZR_TRY(zr__make_folders(path));
    ZR_TRY_GOTO(st, take_lock(dir), fail);
    /* A second job may have come and gone between the look and the lock. */
    ZR_TRY_GOTO(st, zr__run_dir_check(path), fail);
    dir->place = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ZR_TRY_GOTO(st, open_metrics(dir), fail);
    ZR_TRY_GOTO(st, zr__run_dir_write(dir, "config.json", config), fail);
    return ZR_OK;
fail:
    zr__run_dir_undo(dir);
    return st;
}

static bool is_same(const struct stat *own, const char *path)
{
    struct stat its;
    return stat(path, &its) == 0 && own->st_dev == its.st_dev && own->st_ino == its.st_ino;
}

/** Is the directory still there, by whatever name? Then dir->path is that. */
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

/** A line that did not fit on the disk goes whole. */
bool zr__run_dir_log(zr__run_dir *dir, const char *line, size_t bytes)
{
    if (dir->log_failed || dir->metrics < 0) return true;
    ssize_t n = 0;
    do {
        n = write(dir->metrics, line, bytes);
    } while (n < 0 && errno == EINTR);
    dir->log_failed = n != (ssize_t)bytes;
    off_t end = n > 0 && dir->log_failed ? lseek(dir->metrics, 0, SEEK_END) : -1;
    if (end >= n && ftruncate(dir->metrics, end - n) != 0) return false;
    return !dir->log_failed;
}

void zr__run_dir_close(zr__run_dir *dir)
{
    char lock[PATH_MAX];
    if (dir->metrics >= 0) close(dir->metrics);
    dir->metrics = -1;
    if (dir->locked && follow(dir) && zr__path_join(lock, dir->path, LOCK_NAME) == ZR_OK) unlink(lock);
    dir->locked = false;
    if (dir->place >= 0) close(dir->place);
    dir->place = -1;
}
