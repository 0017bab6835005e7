/** Check, before a run starts, that the system grants the run its memory and threads. Without this check, a compute
 * library that fails to get memory or a thread would end the program. */
#include "base/text/text.h"
#include "train/host/host.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

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
    pthread_t *thread = zr_alloc((size_t)threads * sizeof(*thread));
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
    zr_free(thread);
    ZR_CHECK(
        error == 0, ZR_ERR_MEMORY,
        "cannot start all threads: %d of %d started%s: %s; raise the system's limits (ulimit -v, ulimit -u), or lower "
        "train.threads or the number of ranks",
        started, threads, limit_text(limit), strerror(error));
    return ZR_OK;
}

zr_status zr__host_room(int64_t bytes, int threads)
{
    char limit[LIMIT_BYTES];
    size_t wanted = bytes > 0 ? (size_t)bytes : 1;
    void *memory = mmap(NULL, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ZR_CHECK(memory != MAP_FAILED, ZR_ERR_MEMORY,
             "cannot allocate %s of memory for this process%s: %s; raise the limit, or use a smaller model or "
             "fewer ranks",
             ZR_SIZE((double)wanted), limit_text(limit), strerror(errno));
    /* start the threads while the memory is allocated, since their stacks need memory too */
    zr_status st = try_threads(threads);
    munmap(memory, wanted);
    return st;
}
