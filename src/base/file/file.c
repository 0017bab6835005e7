#include "base/file/file.h"

#include "base/core/core.h"
#include "base/text/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* maximum bytes per system call, because some systems refuse more */
enum { CALL_BYTES = 1 << 26 };

zr_status zr__file_missing(const char *path, int error)
{
    char here[512];
    bool told = error == ENOENT && path[0] != '/' && getcwd(here, sizeof(here));
    /* After these errors the file may exist, so do not report it as missing: callers may go on without a missing
     * file. */
    const bool fails = error == EMFILE || error == ENFILE || error == EIO;
    return ZR_FAIL(fails ? ZR_ERR_IO : ZR_ERR_NOT_FOUND, "%s: cannot open: %s%s%s%s", ZR_SHOWN(path),
                   zr__error_text(error), told ? " (in " : "", told ? ZR_SHOWN(here) : "", told ? ")" : "");
}

/* Store the open descriptor in *file if it refers to a regular file. Otherwise close it and fail with `otherwise`. */
static zr_status take_regular(int fd, zr_status otherwise, zr__file *file)
{
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        return ZR_FAIL(otherwise, "%s: it is %s, not a regular file", file->name,
                       S_ISDIR(info.st_mode) ? "a directory" : "a special file");
    }
    file->fd = fd;
    file->bytes = info.st_size;
    file->modified = info.st_mtim;
    return ZR_OK;
}

zr_status zr__file_open(const char *path, bool writable, zr__file *file)
{
    /* O_NONBLOCK keeps open from hanging if the path is a fifo; it has no effect on regular files. */
    int flags = (writable ? O_RDWR | O_NOFOLLOW : O_RDONLY) | O_CLOEXEC | O_NONBLOCK;
    *file = (zr__file){.fd = -1};
    zr__text_escape(path, file->name, sizeof(file->name));
    int fd = open(path, flags);
    if (fd < 0) return zr__file_missing(path, errno);
    return take_regular(fd, ZR_ERR_NOT_FOUND, file);
}

/* Fail for a path that could not be opened. Errors: ZR_ERR_DATA if the path is a symbolic link, or is not a directory
 * although it should be; ZR_ERR_NOT_FOUND if the path does not exist; ZR_ERR_IO otherwise. */
static zr_status refuse_link(int folder, const char *path, const char *shown, int error)
{
    struct stat info;
    if (fstatat(folder, path, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode))
        return ZR_FAIL(ZR_ERR_DATA, "%s: it is a symbolic link, which zr does not follow here", shown);
    return ZR_FAIL(error == ENOTDIR  ? ZR_ERR_DATA
                   : error == ENOENT ? ZR_ERR_NOT_FOUND
                                     : ZR_ERR_IO,
                   "%s: cannot open: %s", shown, zr__error_text(error));
}

zr_status zr__file_open_in(const char *dir, const char *name, zr__file *file)
{
    char shown[ZR_FILE_NAME_BYTES], plain[PATH_MAX];
    *file = (zr__file){.fd = -1};
    /* Strip trailing slashes: O_NOFOLLOW follows a link whose path ends with a slash, such as "dir/". */
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/') n--;
    ZR_CHECK(n < sizeof(plain), ZR_ERR_NOT_FOUND, "the path %.60s... is too long", dir);
    memcpy(plain, dir, n);
    plain[n] = '\0';
    zr__text_escape(plain, shown, sizeof(shown));
    int used = snprintf(file->name, sizeof(file->name), "%s/", shown);
    if (used < (int)sizeof(file->name)) zr__text_escape(name, file->name + used, sizeof(file->name) - (size_t)used);
    int folder = open(plain, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) return refuse_link(AT_FDCWD, plain, shown, errno);
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK), error = errno;
    zr_status st = fd < 0 ? refuse_link(folder, name, file->name, error) : ZR_OK;
    close(folder);
    ZR_TRY(st);
    return take_regular(fd, ZR_ERR_DATA, file);
}

zr_status zr__file_create(const char *path, zr__file *file)
{
    *file = (zr__file){.fd = -1};
    zr__text_escape(path, file->name, sizeof(file->name));
    file->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    ZR_CHECK(file->fd >= 0, ZR_ERR_CREATE, "%s: cannot create: %s", file->name, zr__error_text(errno));
    return ZR_OK;
}

void zr__file_close(zr__file *file)
{
    if (file->fd >= 0) close(file->fd);
    file->fd = -1;
}

zr_status zr__file_unchanged(const zr__file *file)
{
    struct stat info;
    ZR_CHECK(fstat(file->fd, &info) == 0, ZR_ERR_IO, "%s: %s", file->name, strerror(errno));
    ZR_CHECK(info.st_size == file->bytes, ZR_ERR_IO,
             "%s: the file changed while in use: it has %lld bytes, but had %lld when opened", file->name,
             (long long)info.st_size, (long long)file->bytes);
    ZR_CHECK(info.st_mtim.tv_sec == file->modified.tv_sec && info.st_mtim.tv_nsec == file->modified.tv_nsec, ZR_ERR_IO,
             "%s: the file changed while in use: another program wrote to it", file->name);
    return ZR_OK;
}

zr_status zr__file_read(const zr__file *file, int64_t offset, void *out, int64_t bytes, zr_status short_status)
{
    char *to = out;
    for (int64_t done = 0; done < bytes;) {
        int64_t want = bytes - done < CALL_BYTES ? bytes - done : CALL_BYTES;
        ssize_t got = pread(file->fd, to + done, (size_t)want, offset + done);
        if (got < 0 && errno == EINTR) continue;
        ZR_CHECK(got >= 0, ZR_ERR_IO, "%s: cannot read at byte %lld: %s", file->name, (long long)(offset + done),
                 strerror(errno));
        ZR_CHECK(got > 0, short_status, "%s: the file ends at byte %lld, but %lld bytes from byte %lld on are needed",
                 file->name, (long long)(offset + done), (long long)bytes, (long long)offset);
        done += got;
    }
    return ZR_OK;
}

bool zr__file_is_pointer(const void *bytes, size_t n)
{
    static const char begin[] = "version https://git-lfs.github.com/";
    return n >= 8 && memcmp(bytes, begin, n < sizeof(begin) - 1 ? n : sizeof(begin) - 1) == 0;
}

void zr__file_ahead(const zr__file *file, int64_t offset, int64_t bytes)
{
    (void)posix_fadvise(file->fd, offset, bytes, POSIX_FADV_WILLNEED);
}

zr_status zr__file_write(const zr__file *file, int64_t offset, const void *in, int64_t bytes)
{
    const char *from = in;
    for (int64_t done = 0; done < bytes;) {
        int64_t want = bytes - done < CALL_BYTES ? bytes - done : CALL_BYTES;
        ssize_t put = pwrite(file->fd, from + done, (size_t)want, offset + done);
        if (put < 0 && errno == EINTR) continue;
        ZR_CHECK(put > 0, ZR_ERR_IO, "%s: cannot write at byte %lld: %s", file->name, (long long)(offset + done),
                 put < 0 ? strerror(errno) : "no byte was written");
        done += put;
    }
    return ZR_OK;
}

zr_status zr__file_sync(const zr__file *file)
{
    ZR_CHECK(fsync(file->fd) == 0, ZR_ERR_IO, "%s: cannot sync to disk: %s", file->name, strerror(errno));
    return ZR_OK;
}

zr_status zr__file_reserve(const zr__file *file, int64_t bytes)
{
    int failed;
    struct statvfs disk;
    do failed = fallocate(file->fd, 0, 0, bytes);
    while (failed && errno == EINTR);
    if (failed && (errno == EOPNOTSUPP || errno == ENOSYS)) {
        bool full = fstatvfs(file->fd, &disk) == 0 && (double)disk.f_bavail * (double)disk.f_frsize < (double)bytes;
        failed = ftruncate(file->fd, bytes);
        if (full && !failed) errno = failed = ENOSPC;
    }
    ZR_CHECK(!failed, ZR_ERR_IO, "%s: no space on the disk for %lld bytes: %s", file->name, (long long)bytes,
             strerror(errno));
    return ZR_OK;
}
