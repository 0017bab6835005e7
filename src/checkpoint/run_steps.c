/* Checkpoints in a run's directory: their names, and how they are created and removed atomically. Symbolic links below
 * the directory are never followed. */
#include "base/core/core.h"
#include "base/core/grow.h"
#include "base/file/folder.h"
#include "base/text/text.h"
#include "checkpoint/manifest.h"

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
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

zr_status zr_checkpoint_list(const char *run_dir, int64_t **step, int64_t *n)
{
    const struct dirent *entry;
    ZR_AUTO_FREE int64_t *found = NULL;
    int64_t room = 0, count = 0;
    *step = NULL;
    *n = 0;
    ZR_AUTO(zr__close_dir) DIR *dir = opendir(run_dir);
    if (!dir) return zr__file_missing(run_dir, errno);
    for (errno = 0; (entry = readdir(dir)); errno = 0) {
        const int64_t its = zr__checkpoint_step(entry->d_name);
        if (its < 0) continue;
        ZR_GROW(found, room, count + 1, "names of checkpoints");
        found[count++] = its;
    }
    ZR_CHECK(errno == 0, ZR_ERR_IO, "%s: cannot read this directory: %s", ZR_SHOWN(run_dir), strerror(errno));
    if (count > 0) qsort(found, (size_t)count, sizeof(*found), newest_first);
    *step = ZR_TAKE(found);
    *n = count;
    return ZR_OK;
}

/* ---- removing -------------------------------------------------------------------------------- */

/* Return whether `name` may be a complete or incomplete file of a save: a nonempty name followed by one of the endings
 * in the list. */
static bool own_name(const char *name)
{
    static const char *const ends[] = {".safetensors", ".json", ".safetensors.tmp", ".json.tmp"};
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (zr__text_ends(name + 1, ends[i])) return true;
    return false;
}

/* Remove zr's own files from an open directory, and close the directory. If it contains a file that is not zr's,
 * `foreign` receives that file's name, otherwise "". */
static zr_status remove_own_files(int fd, const char *shown, char *foreign, size_t size)
{
    ZR_AUTO(zr__close_dir) DIR *dir = fdopendir(fd);
    int error = errno;
    if (!dir) close(fd);
    ZR_CHECK(dir, ZR_ERR_IO, "%s: cannot read: %s", shown, zr__error_text(error));
    struct dirent *entry;
    foreign[0] = '\0';
    for (errno = 0; (entry = readdir(dir)); errno = 0) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
        if (own_name(name) && (unlinkat(dirfd(dir), name, 0) == 0 || errno == ENOENT)) continue;
        ZR_CHECK(!own_name(name) || errno == EISDIR, ZR_ERR_IO, "%s: cannot remove its %s: %s", shown, name,
                 strerror(errno));
        zr__text_escape(name, foreign, size);
    }
    ZR_CHECK(errno == 0, ZR_ERR_IO, "%s: cannot read: %s", shown, strerror(errno));
    return ZR_OK;
}

/* Remove the file or directory `name` from the open directory `run`. Do nothing if `name` is missing. */
static zr_status remove_tmp(int run, const char *run_dir, const char *name)
{
    char shown[ZR_SHOWN_BYTES + TMP_NAME_BYTES], foreign[ZR_QUOTE_BYTES];
    struct stat info;
    snprintf(shown, sizeof(shown), "%s/%s", ZR_SHOWN(run_dir), name);
    if (fstatat(run, name, &info, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT) return ZR_OK;
    int fd = openat(run, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    /* If `name` is not a directory, remove the file, or the symbolic link itself. */
    if (fd < 0 && (errno == ENOTDIR || errno == ELOOP)) {
        ZR_CHECK(unlinkat(run, name, 0) == 0, ZR_ERR_IO, "%s: cannot remove: %s", shown, strerror(errno));
        return ZR_OK;
    }
    ZR_CHECK(fd >= 0, ZR_ERR_IO, "%s: cannot open to remove: %s", shown, zr__error_text(errno));
    ZR_TRY(remove_own_files(fd, shown, foreign, sizeof(foreign)));
    ZR_CHECK(!foreign[0], ZR_ERR_IO,
             "%s: it holds %s, which is not a file of a checkpoint; move that away, then remove the directory", shown,
             foreign);
    ZR_CHECK(unlinkat(run, name, AT_REMOVEDIR) == 0, ZR_ERR_IO, "%s: cannot remove: %s", shown, strerror(errno));
    return ZR_OK;
}

zr_status zr__checkpoint_remove(const char *run_dir, int64_t step)
{
    char name[ZR_CHECKPOINT_NAME_BYTES], tmp[TMP_NAME_BYTES];
    ZR_AUTO(zr__close_fd) int run = -1;
    ZR_TRY(open_dir(run_dir, &run));
    name_both(step, name, tmp);
    ZR_TRY(remove_tmp(run, run_dir, tmp));
    if (renameat(run, name, run, tmp) != 0) {
        ZR_CHECK(errno == ENOENT, ZR_ERR_IO, "%s/%s: cannot rename to %s: %s", ZR_SHOWN(run_dir), name, tmp,
                 strerror(errno));
        return ZR_OK;
    }
    /* Sync the directory after the rename. Otherwise, after a crash the checkpoint could have its old name but no
     * files. Some file systems cannot sync a directory and return EINVAL. */
    ZR_CHECK(fsync(run) == 0 || errno == EINVAL, ZR_ERR_IO, "%s: cannot sync this directory: %s", ZR_SHOWN(run_dir),
             strerror(errno));
    return remove_tmp(run, run_dir, tmp);
}

/* ---- saving ---------------------------------------------------------------------------------- */

zr_status zr__checkpoint_begin(const char *run_dir, int64_t step)
{
    char name[ZR_CHECKPOINT_NAME_BYTES], tmp[TMP_NAME_BYTES], path[PATH_MAX];
    struct stat info;
    ZR_AUTO(zr__close_fd) int run = -1;
    ZR_CHECK(step >= 0 && step <= ZR_MANIFEST_STEP_MAX, ZR_ERR_ARG,
             "cannot write a checkpoint of step %" PRId64 "; the step must be from 0 to 2^53", step);
    ZR_TRY(open_dir(run_dir, &run));
    name_both(step, name, tmp);
    ZR_CHECK(fstatat(run, name, &info, AT_SYMLINK_NOFOLLOW) != 0, ZR_ERR_STATE,
             "%s/%s: it exists already, and zr never overwrites a checkpoint", ZR_SHOWN(run_dir), name);
    ZR_TRY(remove_tmp(run, run_dir, tmp));
    ZR_TRY(zr__path_join(path, run_dir, tmp));
    ZR_CHECK(mkdir(path, 0777) == 0, ZR_ERR_CREATE, "%s/%s: cannot create this directory: %s", ZR_SHOWN(run_dir), tmp,
             strerror(errno));
    return ZR_OK;
}

zr_status zr__checkpoint_commit(const char *run_dir, int64_t step)
{
    char name[ZR_CHECKPOINT_NAME_BYTES], tmp[TMP_NAME_BYTES], line[ZR_CHECKPOINT_NAME_BYTES + 1];
    char from[PATH_MAX], to[PATH_MAX];
    name_both(step, name, tmp);
    ZR_TRY(zr__path_join(from, run_dir, tmp));
    ZR_TRY(zr__path_join(to, run_dir, name));
    ZR_TRY(zr__dir_commit(from, to));
    ZR_TRY(zr__path_join(to, run_dir, "latest"));
    int n = snprintf(line, sizeof(line), "%s\n", name);
    return zr__file_put(to, line, n) == ZR_OK ? ZR_OK : ZR_FAIL(ZR_ERR_CREATE, "%s", zr_error_message());
}
