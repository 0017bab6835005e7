/* A library for LD_PRELOAD that makes one call of the file system fail: the FS_FAULT_AT-th call (from 1) of the kind
 * FS_FAULT_CALL on a file or folder below FS_FAULT_UNDER (an absolute path; with * at its end, every path that begins
 * with it). FS_FAULT_ERROR is EIO, ENOSPC, EINTR, or "short", a write of only half of its bytes. With FS_FAULT_CALL
 * "count" no call fails. At its end the process appends to the file FS_FAULT_LOG how many calls of each kind there
 * were, and whether one has failed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum kind { OPEN, READ, WRITE, FSYNC, RENAME, UNLINK, FTRUNCATE, FALLOCATE, MKDIR, KINDS };
static const char *const names[] = {"open",   "read",      "write",     "fsync", "rename",
                                    "unlink", "ftruncate", "fallocate", "mkdir"};

static atomic_int calls[KINDS], failures;
static const char *under = "", *failing = "", *error = "EIO";
static int fail_at;

__attribute__((constructor)) static void begin(void)
{
    const char *at = getenv("FS_FAULT_AT");
    if (getenv("FS_FAULT_UNDER")) under = getenv("FS_FAULT_UNDER");
    if (getenv("FS_FAULT_CALL")) failing = getenv("FS_FAULT_CALL");
    if (getenv("FS_FAULT_ERROR")) error = getenv("FS_FAULT_ERROR");
    fail_at = at ? atoi(at) : 0;
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("FS_FAULT_LOG");
    FILE *log = path ? fopen(path, "a") : NULL;
    if (!log) return;
    for (int k = 0; k < KINDS; k++) fprintf(log, "%s %d\n", names[k], calls[k]);
    fprintf(log, "failures %d\n", failures);
    fclose(log);
}

static bool is_below(const char *path)
{
    size_t n = strlen(under);
    if (n > 0 && under[n - 1] == '*') return strncmp(path, under, n - 1) == 0;
    return n > 0 && strncmp(path, under, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* Return whether a descriptor, or a name relative to it, is below the watched path. */
static bool is_below_fd(int fd, const char *name)
{
    char link[40], path[2 * PATH_MAX];
    if (name && name[0] == '/') return is_below(name);
    if (fd == AT_FDCWD) {
        if (!getcwd(path, PATH_MAX)) return false;
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, path, PATH_MAX - 1);
        if (n < 0) return false;
        path[n] = '\0';
    }
    if (name) snprintf(path + strlen(path), PATH_MAX, "/%s", name);
    return is_below(path);
}

static bool is_due(enum kind kind)
{
    if (atomic_fetch_add(&calls[kind], 1) + 1 != fail_at || strcmp(failing, names[kind]) != 0) return false;
    atomic_fetch_add(&failures, 1);
    errno = strcmp(error, "ENOSPC") == 0 ? ENOSPC : strcmp(error, "EINTR") == 0 ? EINTR : EIO;
    return true;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    if (is_below_fd(AT_FDCWD, path) && is_due(OPEN)) return -1;
    return NEXT(open)(path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    if (is_below_fd(folder, path) && is_due(OPEN)) return -1;
    return NEXT(openat)(folder, path, flags, mode);
}

ssize_t pread(int fd, void *bytes, size_t n, off_t at)
{
    return is_below_fd(fd, NULL) && is_due(READ) ? -1 : NEXT(pread)(fd, bytes, n, at);
}

ssize_t write(int fd, const void *bytes, size_t n)
{
    if (is_below_fd(fd, NULL) && is_due(WRITE)) {
        if (strcmp(error, "short") != 0 || n < 2) return -1;
        n /= 2;
    }
    return NEXT(write)(fd, bytes, n);
}

ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at)
{
    if (is_below_fd(fd, NULL) && is_due(WRITE)) {
        if (strcmp(error, "short") != 0 || n < 2) return -1;
        n /= 2;
    }
    return NEXT(pwrite)(fd, bytes, n, at);
}

int fsync(int fd)
{
    return is_below_fd(fd, NULL) && is_due(FSYNC) ? -1 : NEXT(fsync)(fd);
}

int rename(const char *from, const char *to)
{
    return is_below_fd(AT_FDCWD, to) && is_due(RENAME) ? -1 : NEXT(rename)(from, to);
}

int renameat(int a, const char *from, int b, const char *to)
{
    return is_below_fd(b, to) && is_due(RENAME) ? -1 : NEXT(renameat)(a, from, b, to);
}

int unlink(const char *path)
{
    return is_below_fd(AT_FDCWD, path) && is_due(UNLINK) ? -1 : NEXT(unlink)(path);
}

int unlinkat(int folder, const char *path, int flags)
{
    return is_below_fd(folder, path) && is_due(UNLINK) ? -1 : NEXT(unlinkat)(folder, path, flags);
}

int rmdir(const char *path)
{
    return is_below_fd(AT_FDCWD, path) && is_due(UNLINK) ? -1 : NEXT(rmdir)(path);
}

int ftruncate(int fd, off_t n)
{
    return is_below_fd(fd, NULL) && is_due(FTRUNCATE) ? -1 : NEXT(ftruncate)(fd, n);
}

int fallocate(int fd, int mode, off_t at, off_t n)
{
    return is_below_fd(fd, NULL) && is_due(FALLOCATE) ? -1 : NEXT(fallocate)(fd, mode, at, n);
}

int mkdir(const char *path, mode_t mode)
{
    return is_below_fd(AT_FDCWD, path) && is_due(MKDIR) ? -1 : NEXT(mkdir)(path, mode);
}
