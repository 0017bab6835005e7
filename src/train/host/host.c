#include "train/host/host.h"
#include "base/text/text.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

bool zr__host_line(const char *path, const char *key, char *line, int size)
{
    FILE *file = fopen(path, "re");
    const size_t skip = strlen(key);
    bool found = false;
    while (file && !found && fgets(line, size, file)) found = strncmp(line, key, skip) == 0;
    if (file) fclose(file);
    if (found) memmove(line, line + skip, strlen(line + skip) + 1);
    line[found ? strcspn(line, "\n") : 0] = '\0';
    return found;
}

/** Return the number at the beginning of a file. If `key` is not empty, return the number after `key` in the line that
 * begins with `key`. Return -1 if there is no file or no number, for example if the text is "max". */
static int64_t read_number(const char *path, const char *key)
{
    char line[512], *end = line;
    long long value = zr__host_line(path, key, line, sizeof(line)) ? strtoll(line, &end, 10) : -1;
    return end != line && value >= 0 ? value : -1;
}

static int64_t smaller(int64_t a, int64_t b)
{
    if (a < 0) return b;
    if (b < 0) return a;
    return a < b ? a : b;
}

int64_t zr__host_group_left(const char *group)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof(path), "%s/memory.max", group);
    int64_t limit = read_number(path, "");
    if (limit < 0) return -1;
    snprintf(path, sizeof(path), "%s/memory.current", group);
    int64_t used = read_number(path, "");
    snprintf(path, sizeof(path), "%s/memory.stat", group);
    int64_t files = read_number(path, "inactive_file ");
    if (used < 0) used = 0;
    if (files > 0) used -= files;
    return limit > used ? limit - used : 0;
}

/** Return the CPU quota of a control group in whole processors, at least 1. Return -1 if the group has no quota. */
static int64_t group_cores(const char *group)
{
    char path[PATH_MAX + 16], line[512];
    long long quota = 0, period = 0;
    snprintf(path, sizeof(path), "%s/cpu.max", group);
    zr__host_line(path, "", line, sizeof(line));
    if (sscanf(line, "%lld %lld", &quota, &period) != 2 || quota <= 0 || period <= 0) return -1;
    return quota < period ? 1 : quota / period;
}

/** Return the minimum of the function `number` over this process's control group and its ancestors in the unified
 * hierarchy. Return -1 if no group has this number, or if the process is in no group. */
static int64_t least_of_groups(int64_t (*number)(const char *group))
{
    static const char root[] = "/sys/fs/cgroup";
    char line[PATH_MAX], path[PATH_MAX];
    int64_t least = -1;
    if (!zr__host_line("/proc/self/cgroup", "0::", line, sizeof(line))) return -1;
    snprintf(path, sizeof(path), "%s%.*s", root, (int)sizeof(path) - 32, line);
    while (strlen(path) >= strlen(root)) {
        least = smaller(least, number(path));
        *strrchr(path, '/') = '\0';
    }
    return least;
}

int64_t zr__host_available_bytes(void)
{
    int64_t kib = read_number("/proc/meminfo", "MemAvailable:");
    int64_t left = smaller(kib < 0 ? -1 : kib * 1024, least_of_groups(zr__host_group_left));
    /* Also consider the memory limit of control groups version 1. */
    int64_t limit = read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes", "");
    int64_t used = read_number("/sys/fs/cgroup/memory/memory.usage_in_bytes", "");
    if (limit >= 0 && used >= 0) left = smaller(left, limit > used ? limit - used : 0);
    return left;
}

int zr__host_cores(void)
{
    cpu_set_t set;
    int64_t cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
    cores = smaller(cores, least_of_groups(group_cores));
    return cores < 1 ? 1 : (int)cores;
}

void zr__host_processor(char *name, size_t size)
{
    char line[512];
    const char *colon = zr__host_line("/proc/cpuinfo", "model name", line, sizeof(line)) ? strchr(line, ':') : NULL;
    snprintf(name, size, "%s", colon && colon[1] ? colon + 2 : "unknown");
    for (char *c = name; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?';
}

int64_t zr__host_peak_bytes(void)
{
    return zr__host_peak_of("/proc/self/status");
}

int64_t zr__host_peak_of(const char *status_path)
{
    int64_t peak = read_number(status_path, "VmHWM:");
    int64_t file = read_number(status_path, "RssFile:");
    int64_t shared = read_number(status_path, "RssShmem:");
    int64_t now = read_number(status_path, "RssAnon:");
    if (peak < 0 || file < 0 || shared < 0 || now < 0) return -1;
    int64_t anonymous = peak - file - shared;
    return (anonymous > now ? anonymous : now) * 1024;
}

void zr__host_name(char *name, int size)
{
    if (gethostname(name, (size_t)size) != 0) snprintf(name, (size_t)size, "unknown");
    name[size - 1] = '\0';
}

/* Lower the priority of this thread only. On Linux each thread has its own priority. Threads that this thread starts
 * inherit its priority. */
void zr__host_step_back(void)
{
    enum { LOW = 15 };
    (void)setpriority(PRIO_PROCESS, 0, LOW);
}

/* ---- memory and threads that the system grants ---------------------------------------------------------------- */

enum { LIMIT_BYTES = 96 };

/** Return a text for messages with the limit of address space (ulimit -v), or "" without a limit. */
static const char *limit_text(char text[LIMIT_BYTES])
{
    struct rlimit limit;
    text[0] = '\0';
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        snprintf(text, LIMIT_BYTES, " (its addresses are limited, ulimit -v, to %s)", ZR_SIZE((double)limit.rlim_cur));
    return text;
}

/** Shared state of the test threads. A thread lives until `leave` is set, so that all exist at the same time. */
typedef struct crowd {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool leave;
} crowd;

static void *stay_in_crowd(void *arg)
{
    crowd *c = arg;
    pthread_mutex_lock(&c->mutex);
    while (!c->leave) pthread_cond_wait(&c->changed, &c->mutex);
    pthread_mutex_unlock(&c->mutex);
    return NULL;
}

static zr_status try_threads(int threads)
{
    crowd c = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    char limit[LIMIT_BYTES];
    int started = 0, error = 0;
    if (threads <= 0) return ZR_OK;
    ZR_AUTO_FREE pthread_t *thread = zr_alloc((size_t)threads * sizeof(*thread));
    ZR_CHECK(thread, ZR_ERR_MEMORY, "no memory to start %d threads", threads);
    while (started < threads && error == 0) {
        error = pthread_create(&thread[started], NULL, stay_in_crowd, &c);
        started += error == 0;
    }
    pthread_mutex_lock(&c.mutex);
    c.leave = true;
    pthread_cond_broadcast(&c.changed);
    pthread_mutex_unlock(&c.mutex);
    for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
    ZR_CHECK(error == 0, ZR_ERR_MEMORY,
             "cannot start all threads: %d of %d started%s: %s; raise the system's limits (ulimit -v, ulimit -u), or "
             "lower train.threads or the number of ranks",
             started, threads, limit_text(limit), strerror(error));
    return ZR_OK;
}

zr_status zr__host_room(int64_t bytes, int threads)
{
    char limit[LIMIT_BYTES];
    size_t wanted = bytes > 0 ? (size_t)bytes : 1;
    void *memory = mmap(NULL, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ZR_CHECK(
        memory != MAP_FAILED, ZR_ERR_MEMORY,
        "cannot allocate %s of memory for this process%s: %s; raise the limit, or use a smaller model or fewer ranks",
        ZR_SIZE((double)wanted), limit_text(limit), strerror(errno));
    /* start the threads while the memory is allocated, since their stacks need memory too */
    zr_status st = try_threads(threads);
    munmap(memory, wanted);
    return st;
}
