/* Atomic files and directories: they are written under another name, synced and renamed. */
#include "base/file/file.h"
#include "base/text/text.h"
#include "zr/checkpoint.h"
#include "checkpoint/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Return the folder of a path with its slash, "" for a bare name; zr_free it. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) + 1 : 0;
    char *folder = zr_alloc(n + 1);
    if (folder) memcpy(folder, path, n);
    return folder;
}

/* Sync a folder, which makes changes of names in it durable. */
static zr_status sync_folder(const char *folder)
{
    char shown[ZR_FILE_NAME_BYTES];
    int fd = open(folder[0] ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Some file systems cannot sync a folder and return EINVAL; nothing more can be done there. */
    bool synced = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);
    int error = errno;
    if (fd >= 0) close(fd);
    ZR_CHECK(synced, ZR_ERR_IO, "%s: cannot sync this folder: %s",
             zr__text_escape(folder[0] ? folder : ".", shown, sizeof(shown)), strerror(error));
    return ZR_OK;
}

/* Rename, and sync the folder, which makes the rename durable. */
static zr_status rename_synced(const char *tmp, const char *final)
{
    char from[ZR_FILE_NAME_BYTES], to[ZR_FILE_NAME_BYTES], *folder = folder_of(final);
    ZR_CHECK(folder, ZR_ERR_MEMORY, "no memory for a path");
    zr_status st = ZR_OK;
    if (rename(tmp, final) != 0)
        st = ZR_FAIL(ZR_ERR_IO, "%s: cannot rename to %s: %s", zr__text_escape(tmp, from, sizeof(from)),
                     zr__text_escape(final, to, sizeof(to)), strerror(errno));
    else
        st = sync_folder(folder);
    zr_free(folder);
    return st;
}

zr_status zr__file_commit(const char *tmp, const char *final)
{
    ZR_TRY(rename_synced(tmp, final));
    return ZR_OK;
}

zr_status zr__dir_commit(const char *tmp, const char *final)
{
    ZR_TRY(sync_folder(tmp)); /* else a crash could leave the name without its files */
    ZR_TRY(rename_synced(tmp, final));
    return ZR_OK;
}

static zr_status write_synced(const char *path, const void *bytes, int64_t n)
{
    zr__file file;
    zr_status st = ZR_OK;
    ZR_TRY(zr__file_create(path, &file));
    ZR_TRY_GOTO(st, zr__file_write(&file, 0, bytes, n), done);
    ZR_TRY_GOTO(st, zr__file_sync(&file), done);
done:
    zr__file_close(&file);
    return st;
}

zr_status zr__file_put(const char *path, const void *bytes, int64_t n)
{
    ZR_CHECK(n >= 0, ZR_ERR_ARG, "%s: %lld bytes to write", path, (long long)n);
    size_t room = strlen(path) + sizeof(".tmp");
    char *tmp = zr_alloc(room);
    ZR_CHECK(tmp, ZR_ERR_MEMORY, "no memory for a path");
    snprintf(tmp, room, "%s.tmp", path);
    zr_status st = ZR_OK;
    unlink(tmp); /* remove the rest of a killed run; of a symbolic link, the link and not its target */
    ZR_TRY_GOTO(st, write_synced(tmp, bytes, n), done);
    ZR_TRY_GOTO(st, zr__file_commit(tmp, path), done);
done:
    if (st != ZR_OK) unlink(tmp);
    zr_free(tmp);
    return st;
}
