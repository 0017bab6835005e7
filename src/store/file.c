#include "store/file.h"

#include "base/core/core.h"
#include "base/file/folder.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { RESERVE_BYTES = 1 << 30 }; /* maximum bytes that one call reserves, since a signal may interrupt the call */

/* ---- a file without a name -------------------------------------------------------------------- */

/* Create a file with a random name and remove the name at once. This is for file systems without O_TMPFILE. */
static int create_and_unlink(const char *folder)
{
    char path[PATH_MAX];
    if (zr__path_join(path, folder, ".zr-store-XXXXXX") != ZR_OK) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0 && unlink(path) != 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static int create_nameless(const char *folder)
{
    int fd = open(folder, O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    return fd >= 0 ? fd : create_and_unlink(folder);
}

/* ---- its bytes --------------------------------------------------------------------------------- */

/* Return the bytes that are free for this user, or INT64_MAX if the file system does not report them. */
static int64_t free_bytes(int fd)
{
    struct statvfs disk;
    if (fstatvfs(fd, &disk) != 0 || disk.f_blocks == 0) return INT64_MAX;
    return (int64_t)disk.f_bavail * (int64_t)disk.f_frsize;
}

/* Reserve the file's bytes by writing zeros. Return 0 or an errno. */
static int write_zeros(int fd, int64_t bytes, void *spare, int64_t spare_bytes)
{
    memset(spare, 0, (size_t)spare_bytes);
    for (int64_t done = 0; done < bytes;) {
        ssize_t put = pwrite(fd, spare, (size_t)(bytes - done < spare_bytes ? bytes - done : spare_bytes), done);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return put < 0 ? errno : EIO;
        done += put;
    }
    if (fdatasync(fd) != 0) return errno;
    (void)posix_fadvise(fd, 0, bytes, POSIX_FADV_DONTNEED);
    return 0;
}

/* Reserve the file's bytes. Return 0 or an errno. If the file does not fit, fail before the disk is full. */
static int reserve(int fd, int64_t bytes, void *spare, int64_t spare_bytes)
{
    if (free_bytes(fd) < bytes) return ENOSPC;
    for (int64_t done = 0; done < bytes;) {
        const int64_t piece = bytes - done < RESERVE_BYTES ? bytes - done : RESERVE_BYTES;
        if (fallocate(fd, 0, done, piece) == 0) {
            done += piece;
        } else if (errno == EOPNOTSUPP || errno == ENOSYS) {
            return write_zeros(fd, bytes, spare, spare_bytes);
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

/* Bypass the page cache if the file system supports it. Test this by a transfer, since some file systems accept the
 * flag and then refuse each transfer. */
static bool go_direct(const zr__store_file *file, void *spare)
{
    const int flags = fcntl(file->fd, F_GETFL);
    if (flags < 0 || fcntl(file->fd, F_SETFL, flags | O_DIRECT) != 0) return false;
    ssize_t got;
    do got = pread(file->fd, spare, ZR_STORE_ALIGN, 0);
    while (got < 0 && errno == EINTR);
    if (got == ZR_STORE_ALIGN) return true;
    (void)fcntl(file->fd, F_SETFL, flags);
    return false;
}

static bool is_in_memory(int fd)
{
    struct statfs system;
    return fstatfs(fd, &system) == 0 && (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC);
}

zr_status zr__store_file_create(const char *folder, int64_t bytes, void *spare, int64_t spare_bytes, const char *owner,
                                zr__store_file *file)
{
    *file = (zr__store_file){.fd = create_nameless(folder), .bytes = bytes};
    int error = errno;
    zr__text_escape(folder, file->folder, sizeof file->folder);
    ZR_CHECK(file->fd >= 0, ZR_ERR_CREATE, "%s: cannot create a file for states on disk in the folder %s: %s%s", owner,
             file->folder, zr__error_text(error),
             error == EMFILE ? "" : "; name an existing folder in which you may write");
    error = reserve(file->fd, bytes, spare, spare_bytes);
    if (error) {
        /* Release the reserved bytes, so that the message can state the folder's free bytes. */
        const int64_t left = ftruncate(file->fd, 0) == 0 ? free_bytes(file->fd) : INT64_MAX;
        zr_status st = ZR_FAIL(error == EIO ? ZR_ERR_IO : ZR_ERR_MEMORY,
                               "%s: cannot reserve %s for states on disk in the folder %s, which has %s free: %s; %s",
                               owner, ZR_SIZE((double)bytes), file->folder,
                               left < INT64_MAX ? ZR_SIZE((double)left) : "an unknown amount", strerror(error),
                               error == EFBIG ? "raise the limit of the size of a file (ulimit -f), or name several "
                                                "folders"
                                              : "free space there, or name a folder on a larger disk");
        zr__store_file_close(file);
        return st;
    }
    const bool in_memory = is_in_memory(file->fd);
    file->direct = bytes > 0 && !in_memory && go_direct(file, spare);
    file->cached = !file->direct && !in_memory;
    return ZR_OK;
}

void zr__store_file_close(zr__store_file *file)
{
    if (file->fd >= 0) close(file->fd);
    file->fd = -1;
}

/* ---- the page cache ---------------------------------------------------------------------------- */

void zr__store_file_push(const zr__store_file *file, int64_t at, int64_t bytes)
{
    (void)sync_file_range(file->fd, at, bytes, SYNC_FILE_RANGE_WRITE);
}

int zr__store_file_drop(const zr__store_file *file, int64_t at, int64_t bytes, bool written)
{
    const unsigned how = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    int failed = 0;
    if (written) {
        do failed = sync_file_range(file->fd, at, bytes, how) == 0 ? 0 : -errno;
        while (failed == -EINTR);
    }
    (void)posix_fadvise(file->fd, at, bytes, POSIX_FADV_DONTNEED);
    return failed == -EINVAL || failed == -ENOSYS || failed == -ESPIPE ? 0 : failed;
}
