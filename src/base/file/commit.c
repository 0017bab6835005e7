#include "base/file/commit.h"

#include "base/core/core.h"
#include "base/file/folder.h"
#include "base/text/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Sync a folder, so that files created or renamed in it keep their names after a crash. */
static zr_status sync_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Some file systems cannot sync a folder and return EINVAL. Ignore that error, as nothing else can be done. */
    bool synced = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);
    int error = errno;
    if (fd >= 0) close(fd);
    ZR_CHECK(synced, ZR_ERR_IO, "%s: cannot sync this directory to disk: %s", ZR_SHOWN(folder), zr__error_text(error));
    return ZR_OK;
}

zr_status zr__file_commit(const char *tmp, const char *final)
{
    char folder[PATH_MAX];
    ZR_CHECK(rename(tmp, final) == 0, ZR_ERR_IO, "%s: cannot rename to %s: %s", ZR_SHOWN(tmp), ZR_SHOWN(final),
             strerror(errno));
    zr__path_parent(final, folder);
    return sync_folder(folder);
}

zr_status zr__dir_commit(const char *tmp, const char *final)
{
    ZR_TRY(sync_folder(tmp)); /* otherwise a crash after the rename could lose the folder's files */
    return zr__file_commit(tmp, final);
}

zr_status zr__file_write_new(const char *path, const void *bytes, int64_t n)
{
    ZR_AUTO(zr__file_close) zr__file file = {.fd = -1};
    ZR_TRY(zr__file_create(path, &file));
    ZR_TRY(zr__file_write(&file, 0, bytes, n));
    return zr__file_sync(&file);
}

zr_status zr__new_file_begin(const char *path, bool anew, zr__new_file *made)
{
    made->file.fd = -1;
    ZR_TRY(zr__path_format(made->path, "%s", path));
    ZR_TRY(zr__path_format(made->tmp, "%s.tmp", path));
    if (anew) unlink(made->tmp); /* unlink removes a symbolic link itself, never its target */
    return zr__file_create(made->tmp, &made->file);
}

zr_status zr__new_file_end(zr__new_file *made, zr_status st)
{
    if (st == ZR_OK) st = zr__file_sync(&made->file);
    zr__file_close(&made->file);
    if (st == ZR_OK) st = zr__file_commit(made->tmp, made->path);
    if (st != ZR_OK) unlink(made->tmp);
    return st;
}

zr_status zr__file_put(const char *path, const void *bytes, int64_t n)
{
    zr__new_file made;
    ZR_CHECK(n >= 0, ZR_ERR_ARG, "%s: cannot write %lld bytes: the number must be 0 or more", path, (long long)n);
    ZR_TRY(zr__new_file_begin(path, true, &made));
    return zr__new_file_end(&made, zr__file_write(&made.file, 0, bytes, n));
}
