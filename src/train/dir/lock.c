#include "train/dir/lock.h"

#include "base/core/core.h"
#include "base/file/folder.h"
#include "base/text/text.h"
#include "train/host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

enum { TEXT_BYTES = 512, HOST_BYTES = 80, WORD_BYTES = 64 };

/* Age in seconds from which an empty lock file counts as abandoned. A running process writes its name into the file
 * immediately after it has created the file. */
enum { EMPTY_SEC = 10 };

/** Identity of a process. Its process number is not enough, since the system reuses process numbers. */
typedef struct holder {
    char host[HOST_BYTES];
    long process;
    uint64_t started;       /* start time in clock ticks since boot; 0 if unknown */
    uint64_t machine;       /* hash of the machine id, which distinguishes hosts of the same name; 0 if unknown */
    char boot[WORD_BYTES];  /* boot id of the running kernel; "" if unknown */
    char space[WORD_BYTES]; /* PID namespace, of the host or of a container; "" if unknown */
    uint64_t key;
} holder;

/* ---- processes -------------------------------------------------------------------------------- */

/** Return a process's start time in clock ticks since boot, or 0 if the process does not exist or is a zombie. */
static uint64_t start_of(long process)
{
    char path[64], text[1024] = "", state = 'Z';
    unsigned long long ticks = 0;
    snprintf(path, sizeof(path), "/proc/%ld/stat", process);
    FILE *file = fopen(path, "re");
    size_t n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
    if (file) fclose(file);
    text[n] = '\0';
    const char *name_end = strrchr(text, ')'); /* skip the process's name, which may contain spaces and parentheses */
    if (!name_end || sscanf(name_end + 1, " %c", &state) != 1 || state == 'Z' || state == 'X') return 0;
    /* In /proc/PID/stat, the state is field 3 and the start time is field 22. */
    const char *at = name_end + 1;
    for (int field = 3; at && field < 22; field++) at = strchr(at + 1, ' ');
    return at && sscanf(at, " %llu", &ticks) == 1 ? (uint64_t)ticks : 0;
}

static holder myself(void)
{
    char machine[WORD_BYTES]; /* machine id; only its hash is written, since the id is confidential */
    holder me = {.process = (long)getpid(), .started = start_of((long)getpid())};
    zr__host_name(me.host, sizeof(me.host));
    zr__host_line("/proc/sys/kernel/random/boot_id", "", me.boot, sizeof(me.boot));
    if (zr__host_line("/etc/machine-id", "", machine, sizeof(machine)) && machine[0])
        me.machine = XXH3_64bits(machine, strlen(machine));
    const ssize_t n = readlink("/proc/self/ns/pid", me.space, sizeof(me.space) - 1);
    me.space[n > 0 ? n : 0] = '\0';
    /* Without random bytes, build the key from start time and process number. No two processes of a host share both. */
    if (getrandom(&me.key, sizeof(me.key), GRND_NONBLOCK) != sizeof(me.key) || me.key == 0)
        me.key = me.started << 24 ^ (uint64_t)me.process ^ 1;
    return me;
}

/** Return whether the process `its` has certainly ended: its host has rebooted since, or the host has no process with
 * this number and start time. Processes of other hosts, and of other containers without a reboot, may still be alive,
 * so the result is false for them. */
static bool is_gone(const holder *its, const holder *mine)
{
    if (its->process <= 0 || strcmp(its->host, mine->host) != 0) return false;
    if (its->machine && mine->machine && its->machine != mine->machine) return false;
    if (its->boot[0] && mine->boot[0] && strcmp(its->boot, mine->boot) != 0) return true;
    if (strcmp(its->space, mine->space) != 0) return false;
    if (kill((pid_t)its->process, 0) != 0 && errno == ESRCH) return true;
    return its->started > 0 && mine->started > 0 && start_of(its->process) != its->started;
}

/* ---- the file --------------------------------------------------------------------------------- */

/** Write the lock's text: one line for human readers, and one line that other processes parse. */
static int print_lock(const holder *h, char text[TEXT_BYTES])
{
    const char *job = getenv("SLURM_JOB_ID");
    return snprintf(text, TEXT_BYTES,
                    "host %s, process %ld%s%.32s\nstarted %" PRIu64 ", boot %s, space %s, key %016" PRIx64
                    ", machine %016" PRIx64 "\n",
                    h->host, h->process, job ? ", job " : "", job ? job : "", h->started, h->boot[0] ? h->boot : "-",
                    h->space[0] ? h->space : "-", h->key, h->machine);
}

/** Parse the lock's text. Fields that the text lacks are 0 or "". */
static holder parse_lock(const char *text)
{
    holder h = {0};
    char boot[WORD_BYTES] = "-", space[WORD_BYTES] = "-";
    const char *second = strchr(text, '\n');
    sscanf(text, "host %79[^,\n], process %ld", h.host, &h.process);
    if (second)
        sscanf(second + 1, "started %" SCNu64 ", boot %63[^,], space %63[^,], key %" SCNx64 ", machine %" SCNx64,
               &h.started, boot, space, &h.key, &h.machine);
    if (strcmp(boot, "-") != 0) memcpy(h.boot, boot, sizeof(boot));
    if (strcmp(space, "-") != 0) memcpy(h.space, space, sizeof(space));
    return h;
}

static void read_open_lock(int fd, char text[TEXT_BYTES])
{
    ssize_t n = pread(fd, text, TEXT_BYTES - 1, 0);
    text[n > 0 ? n : 0] = '\0';
}

static void read_lock(const char *path, char text[TEXT_BYTES])
{
    ZR_AUTO(zr__close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    text[0] = '\0';
    if (fd >= 0) read_open_lock(fd, text);
}

/** Write this process's name into the lock. After a complete write, cut off the rest of the earlier text. After a
 * partial write, such as on a full disk, restore the earlier text `before`. The lock therefore never has a partial
 * name. */
static zr_status write_lock(int fd, const char *path, const holder *me, const char *before)
{
    char text[TEXT_BYTES];
    const int n = print_lock(me, text);
    errno = 0;
    /* Write at the file position, which is still 0 because pread does not move it. */
    const ssize_t put = write(fd, text, (size_t)n);
    if (put == n && ftruncate(fd, n) == 0) return ZR_OK;
    const int error = errno;
    const size_t old = strlen(before);
    if (put > 0 && pwrite(fd, before, old, 0) == (ssize_t)old) (void)!ftruncate(fd, (off_t)old);
    return ZR_FAIL(ZR_ERR_CREATE, "cannot write %s: %s", ZR_SHOWN(path), error ? strerror(error) : "no room");
}

/** Return ZR_ERR_CREATE with a message that names the lock's holder. */
static zr_status in_use(const char *path)
{
    char who[TEXT_BYTES], folder[ZR_SHOWN_BYTES];
    const char *slash = strrchr(path, '/');
    struct stat info;
    read_lock(path, who);
    who[strcspn(who, "\n")] = '\0';
    snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    ZR_CHECK(lstat(path, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size > 0, ZR_ERR_CREATE,
             "train.output_dir %s is in use by another job, which has not written its name into %s yet; if it is gone, "
             "start again %d seconds from now, and its lock is taken over",
             ZR_SHOWN(folder), ZR_SHOWN(path), EMPTY_SEC);
    return ZR_FAIL(ZR_ERR_CREATE, "train.output_dir %s is in use by another job (%s); if that job is gone, remove %s",
                   ZR_SHOWN(folder), who[0] ? who : "its lock says no name", ZR_SHOWN(path));
}

static bool is_file(int fd, const char *path)
{
    struct stat opened, named;
    return fstat(fd, &opened) == 0 && S_ISREG(opened.st_mode) && lstat(path, &named) == 0 &&
           opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

/** Return whether the lock file has been empty for so long that its creator must have ended. */
static bool is_abandoned(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 && info.st_size == 0 && difftime(time(NULL), info.st_mtime) > EMPTY_SEC;
}

/** Take over the lock if it is abandoned, and fail otherwise. If two processes try this at the same time, flock admits
 * only one of them, and the other process fails. */
static zr_status take_over(int fd, const char *path, const holder *me, char gone[ZR_LOCK_HOLDER_BYTES])
{
    char text[TEXT_BYTES];
    bool mine = flock(fd, LOCK_EX | LOCK_NB) == 0 && is_file(fd, path);
    read_open_lock(fd, text);
    holder its = parse_lock(text);
    if (!mine || (!is_gone(&its, me) && !is_abandoned(fd))) return in_use(path);
    ZR_TRY(write_lock(fd, path, me, text));
    snprintf(gone, ZR_LOCK_HOLDER_BYTES, "%.*s", text[0] ? (int)strcspn(text, "\n") : TEXT_BYTES,
             text[0] ? text : "its lock has no name");
    return ZR_OK;
}

/** Write this process's name into the lock file that it has just created. Wait for flock, which another process that
 * found the file empty may hold for a moment. Fail if another process has taken over the lock. This is possible if this
 * process was suspended for more than EMPTY_SEC seconds. */
static zr_status name_new_lock(int fd, const char *path, const holder *me)
{
    struct stat info;
    while (flock(fd, LOCK_EX) != 0 && errno == EINTR) continue;
    if (!is_file(fd, path) || fstat(fd, &info) != 0 || info.st_size > 0) return in_use(path);
    zr_status st = write_lock(fd, path, me, "");
    if (st != ZR_OK) unlink(path);
    return st;
}

zr_status zr__lock_take(const char *path, char gone[ZR_LOCK_HOLDER_BYTES])
{
    const holder me = myself();
    gone[0] = '\0';
    ZR_AUTO(zr__close_fd) int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    bool made = fd >= 0;
    if (!made && errno == EEXIST) fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    const int error = errno;
    if (fd < 0 && error != EMFILE && error != ENFILE && access(path, F_OK) == 0) return in_use(path);
    ZR_CHECK(fd >= 0, ZR_ERR_CREATE, "cannot write %s: %s", ZR_SHOWN(path), zr__error_text(error));
    return made ? name_new_lock(fd, path, &me) : take_over(fd, path, &me, gone);
}

void zr__lock_release(const char *path)
{
    if (unlink(path) != 0) (void)!truncate(path, 0);
}

uint64_t zr__lock_key(const char *path)
{
    char text[TEXT_BYTES];
    errno = 0;
    read_lock(path, text);
    const int error = errno;
    const uint64_t key = parse_lock(text).key;
    errno = error;
    return key;
}
