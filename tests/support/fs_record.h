/* Records calls of the file system and tracks which data are on disk and which only in memory. After each call it
 * checks that a watched file or folder would be complete if the machine stopped there. For a test that links with
 * FS_RECORD_LINK's flags:
 *
 *   //LINK
 * -Wl,--wrap=open,--wrap=write,--wrap=pwrite,--wrap=fsync,--wrap=rename,--wrap=mkdir,--wrap=fallocate,--wrap=ftruncate
 *
 * The worst case is assumed: names reach the disk at once, the contents of files and folders only by fsync. Calls can
 * be made to fail (fs_record_fail). */
#ifndef FS_RECORD_H
#define FS_RECORD_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int __real_open(const char *path, int flags, ...);
ssize_t __real_write(int fd, const void *bytes, size_t n);
ssize_t __real_pwrite(int fd, const void *bytes, size_t n, off_t at);
int __real_rename(const char *from, const char *to);
int __real_mkdir(const char *path, mode_t mode);
int __real_fallocate(int fd, int mode, off_t at, off_t n);
int __real_ftruncate(int fd, off_t n);
int __wrap_open(const char *path, int flags, ...);
ssize_t __wrap_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t n, off_t at);
int __wrap_fsync(int fd);
int __wrap_rename(const char *from, const char *to);
int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_fallocate(int fd, int mode, off_t at, off_t n);
int __wrap_ftruncate(int fd, off_t n);

/* A file or folder. A folder also has the entries that it held at its last sync. */
typedef struct fs_node {
    ino_t number;
    bool unsynced;
    ino_t held[16];
    int n_held;
} fs_node;

typedef enum fs_call { FS_NONE, FS_FSYNC, FS_PWRITE, FS_FALLOCATE, FS_RENAME } fs_call;

static struct fs_record {
    pthread_mutex_t lock;
    fs_node node[256];
    int n_nodes;
    const char *watched;      /* file or folder that must be complete if it exists; NULL if nothing is recorded */
    const char *const *names; /* entries that a watched folder must have, ended by NULL */
    int calls;                /* number of calls recorded */
    char fault[256];          /* description of the first moment at which `watched` was incomplete, or "" */
    fs_call failing;          /* kind of the call that fails, the fail_at-th from now; FS_NONE if no call fails */
    int fail_at, error;
    int failures;
} fs = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A successful call, passed to tests that keep more than the record does (fs_replay.h). */
typedef struct fs_event {
    enum { FS_MAKE, FS_WRITE, FS_SIZE, FS_SYNC, FS_MOVE, FS_DROP } kind;
    int fd;                /* for MAKE of a file, WRITE, SIZE, SYNC */
    int folder;            /* for MAKE, MOVE, DROP: the folder that the paths are relative to */
    const char *path, *to; /* for MAKE and DROP; `to` for MOVE */
    const void *bytes;     /* for WRITE: n bytes */
    off_t at, n;           /* for WRITE; n for SIZE too */
} fs_event;
static void (*fs_told)(const fs_event *event);

static inline void fs_tell(bool good, fs_event event)
{
    int error = errno;
    if (!good || !fs_told) return;
    pthread_mutex_lock(&fs.lock);
    fs_told(&event);
    pthread_mutex_unlock(&fs.lock);
    errno = error;
}

static inline fs_node *fs_find(ino_t number)
{
    for (int i = 0; i < fs.n_nodes; i++)
        if (fs.node[i].number == number) return &fs.node[i];
    if (fs.n_nodes == (int)(sizeof fs.node / sizeof fs.node[0])) abort();
    fs.node[fs.n_nodes] = (fs_node){.number = number, .unsynced = true};
    return &fs.node[fs.n_nodes++];
}

/* Return the hash of a folder's entry: a node and its name. */
static inline ino_t fs_entry(ino_t number, const char *name)
{
    ino_t sum = number;
    while (*name) sum = sum * 1099511628211u + (unsigned char)*name++;
    return sum;
}

static inline bool fs_holds(ino_t folder, ino_t number, const char *name)
{
    const fs_node *f = fs_find(folder);
    for (int i = 0; i < f->n_held; i++)
        if (f->held[i] == fs_entry(number, name)) return true;
    return false;
}

/* Return the path of a part of the watched file or folder that would be lost if the machine stopped now; NULL if it is
 * complete or does not exist. */
static inline const char *fs_missing(void)
{
    static char path[4200];
    struct stat whole, part;
    if (stat(fs.watched, &whole) != 0) return NULL;
    if (!S_ISDIR(whole.st_mode)) return fs_find(whole.st_ino)->unsynced ? fs.watched : NULL;
    for (int i = 0; fs.names[i]; i++) {
        snprintf(path, sizeof path, "%s/%s", fs.watched, fs.names[i]);
        if (stat(path, &part) != 0 || fs_find(part.st_ino)->unsynced ||
            !fs_holds(whole.st_ino, part.st_ino, fs.names[i]))
            return fs.names[i];
    }
    return NULL;
}

static inline void fs_look(const char *call, const char *what)
{
    fs.calls++;
    const char *missing = fs_missing();
    if (missing && !fs.fault[0])
        snprintf(fs.fault, sizeof fs.fault, "after call %d, %s of %.80s: %.80s is not on the disk", fs.calls, call,
                 what, missing);
}

/* Return whether the name itself is on disk. */
static inline bool fs_named(const char *path)
{
    struct stat own, up;
    char folder[4200];
    snprintf(folder, sizeof folder, "%s/..", path);
    if (stat(path, &own) != 0) return false;
    if (!S_ISDIR(own.st_mode)) snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    return stat(folder, &up) == 0 && fs_holds(up.st_ino, own.st_ino, strrchr(path, '/') + 1);
}

/* Start recording; `names` is for a folder. */
static inline void fs_record_start(const char *watched, const char *const *names)
{
    fs.n_nodes = fs.calls = fs.failures = 0;
    fs.fault[0] = '\0';
    fs.failing = FS_NONE;
    fs.names = names;
    fs.watched = watched;
}

/* Make the at-th call of this kind from now fail with `error`, once. */
static inline void fs_record_fail(fs_call call, int at, int error)
{
    fs.failing = call;
    fs.fail_at = at;
    fs.error = error;
    fs.failures = 0;
}

static inline bool fs_fails(fs_call call)
{
    if (fs.failing != call) return false;
    pthread_mutex_lock(&fs.lock);
    bool now = --fs.fail_at == 0;
    fs.failures += now;
    pthread_mutex_unlock(&fs.lock);
    if (now) errno = fs.error;
    return now;
}

/* Record a successful call that wrote or created the file open as fd, or synced it. */
static inline void fs_done(const char *call, int fd, bool synced)
{
    struct stat st;
    int error = errno;
    if (!fs.watched || fstat(fd, &st) != 0) return;
    pthread_mutex_lock(&fs.lock);
    fs_node *node = fs_find(st.st_ino);
    node->unsynced = !synced;
    if (synced && S_ISDIR(st.st_mode)) {
        DIR *dir = fdopendir(dup(fd));
        node->n_held = 0;
        if (dir) rewinddir(dir);
        for (struct dirent *e; dir && (e = readdir(dir));)
            if (node->n_held < 16) node->held[node->n_held++] = fs_entry(e->d_ino, e->d_name);
        if (dir) closedir(dir);
    }
    fs_look(call, "a descriptor");
    pthread_mutex_unlock(&fs.lock);
    errno = error;
}

int __wrap_open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    int fd = __real_open(path, flags, mode);
    if (fd >= 0 && flags & (O_CREAT | O_TRUNC)) fs_done("open", fd, false);
    fs_tell(fd >= 0 && flags & O_CREAT, (fs_event){FS_MAKE, .fd = fd, .folder = AT_FDCWD, .path = path});
    return fd;
}

ssize_t __wrap_write(int fd, const void *bytes, size_t n)
{
    ssize_t put = __real_write(fd, bytes, n);
    fs_done("write", fd, false);
    return put;
}

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t n, off_t at)
{
    if (fs_fails(FS_PWRITE)) return -1;
    ssize_t put = __real_pwrite(fd, bytes, n, at);
    fs_done("pwrite", fd, false);
    fs_tell(put > 0, (fs_event){FS_WRITE, .fd = fd, .bytes = bytes, .at = at, .n = put});
    return put;
}

int __wrap_fallocate(int fd, int mode, off_t at, off_t n)
{
    if (fs_fails(FS_FALLOCATE)) return -1;
    int failed = __real_fallocate(fd, mode, at, n);
    fs_done("fallocate", fd, false);
    fs_tell(!failed, (fs_event){FS_SIZE, .fd = fd, .n = at + n});
    return failed;
}

int __wrap_ftruncate(int fd, off_t n)
{
    int failed = __real_ftruncate(fd, n);
    fs_done("ftruncate", fd, false);
    fs_tell(!failed, (fs_event){FS_SIZE, .fd = fd, .n = n});
    return failed;
}

int __wrap_fsync(int fd)
{
    if (fs_fails(FS_FSYNC)) return -1;
    fs_done("fsync", fd, true); /* only recorded: real syncs would take most of the test's time */
    fs_tell(true, (fs_event){FS_SYNC, .fd = fd});
    return 0;
}

int __wrap_mkdir(const char *path, mode_t mode)
{
    struct stat st;
    int failed = __real_mkdir(path, mode), error = errno;
    if (fs.watched && !failed && stat(path, &st) == 0) {
        pthread_mutex_lock(&fs.lock);
        *fs_find(st.st_ino) = (fs_node){.number = st.st_ino, .unsynced = true};
        pthread_mutex_unlock(&fs.lock);
    }
    errno = error;
    fs_tell(!failed, (fs_event){FS_MAKE, .fd = -1, .folder = AT_FDCWD, .path = path});
    return failed;
}

int __wrap_rename(const char *from, const char *to)
{
    if (fs_fails(FS_RENAME)) return -1;
    int failed = __real_rename(from, to), error = errno;
    if (fs.watched) {
        pthread_mutex_lock(&fs.lock);
        fs_look("rename", from);
        pthread_mutex_unlock(&fs.lock);
    }
    errno = error;
    fs_tell(!failed, (fs_event){FS_MOVE, .folder = AT_FDCWD, .path = from, .to = to});
    return failed;
}

#endif
