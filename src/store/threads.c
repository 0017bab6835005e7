/*
 * Transfers by threads that call pread and pwrite. If no transfer has ended, the thread that waits for one makes a
 * transfer itself. Therefore depth - 1 helper threads are enough for `depth` transfers in flight. At most
 * ZR_STORE_THREADS are started.
 */
#include "store/transfer.h"

#include "base/core/thread.h"
#include "store/store.h"

#include <errno.h>
#include <unistd.h>

enum { STACK_BYTES = 128 << 10 };

typedef struct pool {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* signal for helpers: a transfer was added, or the pool is being destroyed */
    pthread_cond_t ended;   /* signal for the waiting thread: a transfer has ended */
    zr__transfer *waiting, **last;
    zr__transfer *done;
    bool quit;
    int n_helpers;
    pthread_t helper[ZR_STORE_THREADS];
} pool;

/* Take the transfer that has waited longest, or return NULL. The lock is held. */
static zr__transfer *take_waiting(pool *p)
{
    zr__transfer *t = p->waiting;
    if (!t) return NULL;
    p->waiting = t->next;
    if (!p->waiting) p->last = &p->waiting;
    return t;
}

static void make(zr__transfer *t)
{
    t->result = t->writes ? pwrite(t->fd, t->memory, (size_t)t->bytes, t->at)
                          : pread(t->fd, t->memory, (size_t)t->bytes, t->at);
    if (t->result < 0) t->result = -errno;
}

static void *help(void *arg)
{
    pool *p = arg;
    pthread_mutex_lock(&p->lock);
    while (!p->quit) {
        zr__transfer *t = take_waiting(p);
        if (!t) {
            pthread_cond_wait(&p->changed, &p->lock);
            continue;
        }
        pthread_mutex_unlock(&p->lock);
        make(t);
        pthread_mutex_lock(&p->lock);
        t->next = p->done;
        p->done = t;
        pthread_cond_signal(&p->ended);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

zr_status zr__threads_create(int depth, void **object)
{
    *object = NULL;
    pool *p = zr_alloc(sizeof(*p));
    ZR_CHECK(p, ZR_ERR_MEMORY, "no memory for the threads that read and write states on disk");
    p->last = &p->waiting;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    pthread_cond_init(&p->ended, NULL);
    /* If fewer helpers start, transfers are only slower. */
    while (p->n_helpers < ZR_STORE_THREADS && p->n_helpers + 1 < depth &&
           zr__thread_start(&p->helper[p->n_helpers], STACK_BYTES, help, p) == 0)
        p->n_helpers++;
    *object = p;
    return ZR_OK;
}

void zr__threads_destroy(void *object)
{
    pool *p = object;
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->quit = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->n_helpers; i++) pthread_join(p->helper[i], NULL);
    pthread_cond_destroy(&p->ended);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    zr_free(p);
}

int zr__threads_begin(void *object, zr__transfer *transfer)
{
    pool *p = object;
    transfer->next = NULL;
    pthread_mutex_lock(&p->lock);
    *p->last = transfer;
    p->last = &transfer->next;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return 0;
}

zr__transfer *zr__threads_await(void *object)
{
    pool *p = object;
    zr__transfer *done, *mine = NULL;
    pthread_mutex_lock(&p->lock);
    while (!p->done && !(mine = take_waiting(p))) pthread_cond_wait(&p->ended, &p->lock);
    done = p->done;
    if (!mine) p->done = done->next;
    pthread_mutex_unlock(&p->lock);
    if (!mine) return done;
    make(mine);
    return mine;
}

bool zr__threads_pin(void *object, void *memory, int64_t bytes)
{
    (void)object, (void)memory, (void)bytes;
    return false;
}
