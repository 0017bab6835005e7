/* The checkpoints in a run's directory: their names, and creating and removing them atomically. No symbolic link
 * below that directory is followed. */
#include "base/file/file.h"
#include "base/text/text.h"
#include "checkpoint/hf.h"
#include "checkpoint/manifest.h"
#include "checkpoint/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TMP_NAME_BYTES = ZR_CHECKPOINT_NAME_BYTES + 4 };

/* ---- names ----------------------------------------------------------------------------------- */

void zr_checkpoint_name(int64_t step, char name[ZR_CHECKPOINT_NAME_BYTES])
{
    snprintf(name, ZR_CHECKPOINT_NAME_BYTES, "step-%08" PRId64, step);
}

int64_t zr__checkpoint_step(const char *name)
{
    char canonical[ZR_CHECKPOINT_NAME_BYTES];
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9') return -1;
    int64_t step = strtoll(name + 5, NULL, 10);
    zr_checkpoint_name(step, canonical);
    return step <= ZR_MANIFEST_STEP_MAX && strcmp(name, canonical) == 0 ? step : -1;
}

static void name_both(int64_t step, char name[ZR_CHECKPOINT_NAME_BYTES], char tmp[TMP_NAME_BYTES])
{
    zr_checkpoint_name(step, name);
    snprintf(tmp, TMP_NAME_BYTES, "%s.tmp", name);
}

static zr_status open_dir(const char *path, int *fd)
{
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd < 0) return zr__file_missing(path, errno);
    return ZR_OK;
}

/* ---- the list -------------------------------------------------------------------------------- */

static int newest_first(const void *a, const void *b)
{
    int64_t x, y;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x < y) - (x > y);
}

/* Scan the directory for checkpoints. It is called twice: `step` NULL counts them, then `step` takes at most `room`
 * of them. */
static zr_status scan(DIR *dir, const char *run_dir, int64_t *step, int64_t room, int64_t *n)
{
    char shown[ZR_FILE_NAME_BYTES];
    struct dirent *entry;
    *n = 0;
    rewinddir(dir);
    for (errno = 0; (entry = readdir(dir)); errno = 0) {
        int64_t found = zr__checkpoint_step(entry->d_name);
        if (found < 0 || (step && *n == room)) continue;
        if (step) step[*n] = found;
        ++*n;
    }
    ZR_CHECK(errno == 0, ZR_ERR_IO, "%s: cannot read this directory: %s",
             zr__text_escape(run_dir, shown, sizeof(shown)), strerror(errno));
    return ZR_OK;
}

zr_status zr_checkpoint_list(const char *run_dir, int64_t **step, int64_t *n)
{
    int64_t *found = NULL, room = 0;
    zr_status st = ZR_OK;
    *step = NULL;
    *n = 0;
    DIR *dir = opendir(run_dir);
    if (!dir) return zr__file_missing(run_dir, errno);
    ZR_TRY_GOTO(st, scan(dir, run_dir, NULL, 0, &room), done);
    if (room == 0) goto done;
    found = zr_alloc((size_t)room * sizeof(*found));
    if (!found) {
        st = ZR_FAIL(ZR_ERR_MEMORY, "no memory for %" PRId64 " names", room);
        goto done;
    }
    ZR_TRY_GOTO(st, scan(dir, run_dir, found, room, n), done);
    qsort(found, (size_t)*n, sizeof(*found), newest_first);
    *step = found;
    found = NULL;
done:
    if (st != ZR_OK) *n = 0;
    zr_free(found);
    closedir(dir);
    return st;
}

/* ---- removing -------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

/* Return whether the name is one that a save creates, finished or not. */
static bool own_name(const char *name)
{
    return ends_with(name, ".safetensors") || ends_with(name, ".json") || ends_with(name, ".safetensors.tmp") ||
           ends_with(name, ".json.tmp");
}

/* Remove our files from an open directory, and close it; `foreign`: the name of another file, or "". */
static zr_status empty(int fd, const char *shown, char *foreign, size_t size)
{
    DIR *dir = fdopendir(fd);
    int error = errno;
    if (!dir) close(fd);
    ZR_CHECK(dir, ZR_ERR_IO, "%s: cannot read: %s", shown, strerror(error));
    struct dirent *entry;
    zr_status st = ZR_OK;
    foreign[0] = '\0';
    for (errno = 0; st == ZR_OK && (entry = readdir(dir)); errno = 0) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
        if (own_name(name) && (unlinkat(dirfd(dir), name, 0) == 0 || errno == ENOENT)) continue;
        if (own_name(name) && errno != EISDIR)
            st = ZR_FAIL(ZR_ERR_IO, "%s: cannot remove its %s: %s", shown, name, strerror(errno));
        else
            zr__text_escape(name, foreign, size);
    }
    if (st == ZR_OK && errno) st = ZR_FAIL(ZR_ERR_IO, "%s: cannot read: %s", shown, strerror(errno));
    closedir(dir);
    return st;
}

/* Remove `name` of the open directory, whatever it is; it may be missing. */
static zr_status remove_tmp(int run, const char *run_dir, const char *name)
{
    char where[ZR_FILE_NAME_BYTES], shown[ZR_FILE_NAME_BYTES + TMP_NAME_BYTES], foreign[ZR_QUOTE_BYTES];
    struct stat info;
    snprintf(shown, sizeof(shown), "%s/%s", zr__text_escape(run_dir, where, sizeof(where)), name);
    if (fstatat(run, name, &info, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT) return ZR_OK;
    int fd = openat(run, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && (errno == ENOTDIR || errno == ELOOP)) { /* a file, or a link, which goes as such */
        ZR_CHECK(unlinkat(run, name, 0) == 0, ZR_ERR_IO, "%s: cannot remove: %s", shown, strerror(errno));
        return ZR_OK;
    }
    ZR_CHECK(fd >= 0, ZR_ERR_IO, "%s: cannot open to remove: %s", shown, strerror(errno));
    ZR_TRY(empty(fd, shown, foreign, sizeof(foreign)));
    ZR_CHECK(!foreign[0], ZR_ERR_IO,
             "%s: holds %s, which is no file of a checkpoint; move it away, then remove the "
             "directory",
             shown, foreign);
    ZR_CHECK(unlinkat(run, name, AT_REMOVEDIR) == 0, ZR_ERR_IO, "%s: cannot remove: %s", shown, strerror(errno));
    return ZR_OK;
}

static zr_status remove_step(int run, const char *run_dir, int64_t step)
{
    char name[ZR_CHECKPOINT_NAME_BYTES], tmp[TMP_NAME_BYTES], where[ZR_FILE_NAME_BYTES];
    name_both(step, name, tmp);
    ZR_TRY(remove_tmp(run, run_dir, tmp));
    if (renameat(run, name, run, tmp) != 0) {
        ZR_CHECK(errno == ENOENT, ZR_ERR_IO, "%s/%s: cannot rename to %s: %s",
                 zr__text_escape(run_dir, where, sizeof(where)), name, tmp, strerror(errno));
        return ZR_OK;
    }
    /* Sync, or a crash could remove the files and keep the name. Some file systems cannot sync a directory. */
    ZR_CHECK(fsync(run) == 0 || errno == EINVAL, ZR_ERR_IO, "%s: cannot sync this directory: %s",
             zr__text_escape(run_dir, where, sizeof(where)), strerror(errno));
    ZR_TRY(remove_tmp(run, run_dir, tmp));
    return ZR_OK;
}

zr_status zr_checkpoint_remove(const char *run_dir, int64_t step)
{
    int run;
    ZR_TRY(open_dir(run_dir, &run));
    zr_status st = remove_step(run, run_dir, step);
    close(run);
    ZR_TRY(st);
    return ZR_OK;
}

/* ---- saving ---------------------------------------------------------------------------------- */

static zr_status begin(int run, const char *run_dir, int64_t step)
{
    char name[ZR_CHECKPOINT_NAME_BYTES], tmp[TMP_NAME_BYTES], shown[ZR_FILE_NAME_BYTES], *path = NULL;
    struct stat info;
    name_both(step, name, tmp);
    zr__text_escape(run_dir, shown, sizeof(shown));
    ZR_CHECK(fstatat(run, name, &info, AT_SYMLINK_NOFOLLOW) != 0, ZR_ERR_STATE,
             "%s/%s: there already; a checkpoint is never written over", shown, name);
    ZR_TRY(remove_tmp(run, run_dir, tmp));
    ZR_TRY(zr__hf_path(run_dir, tmp, &path));
    int failed = mkdir(path, 0777), error = errno;
    zr_free(path);
    ZR_CHECK(!failed, ZR_ERR_CREATE, "%s/%s: cannot make this directory: %s", shown, tmp, strerror(error));
    return ZR_OK;
}

zr_status zr_checkpoint_begin(const char *run_dir, int64_t step)
{
    int run;
    ZR_CHECK(step >= 0 && step <= ZR_MANIFEST_STEP_MAX, ZR_ERR_ARG, "a checkpoint of step %" PRId64, step);
    ZR_TRY(open_dir(run_dir, &run));
    zr_status st = begin(run, run_dir, step);
    close(run);
    ZR_TRY(st);
    return ZR_OK;
}

zr_status zr_checkpoint_commit(const char *run_dir, int64_t step)
{
    char name[ZR_CHECKPOINT_NAME_BYTES], tmp[TMP_NAME_BYTES], line[ZR_CHECKPOINT_NAME_BYTES + 1];
    char *from = NULL, *to = NULL, *latest = NULL;
    zr_status st = ZR_OK;
    name_both(step, name, tmp);
    ZR_TRY_GOTO(st, zr__hf_path(run_dir, tmp, &from), done);
    ZR_TRY_GOTO(st, zr__hf_path(run_dir, name, &to), done);
    ZR_TRY_GOTO(st, zr__hf_path(run_dir, "latest", &latest), done);
    ZR_TRY_GOTO(st, zr__dir_commit(from, to), done);
    int n = snprintf(line, sizeof(line), "%s\n", name);
    if (zr__file_put(latest, line, n) != ZR_OK) st = ZR_FAIL(ZR_ERR_CREATE, "%s", zr_error_message());
done:
    zr_free(from);
    zr_free(to);
    zr_free(latest);
    return st;
}
