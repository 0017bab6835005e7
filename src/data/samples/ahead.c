#include "data/samples/ahead.h"

#include "base/core/core.h"
#include "base/core/thread.h"

#include <string.h>

#define STACK_BYTES ((size_t)256 << 10)

struct zr__ahead {
    zr__ahead_fn read;
    void *arg;
    int64_t room, window_tokens;
    int32_t *window; /* prefetched windows; shape (room, window_tokens) */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;

    /* Fields protected by `lock`: */
    /* Samples to prefetch: [first, first + n). The windows of the first `done` samples have been read. */
    int64_t first, n, done;
    bool quit;
    zr__failure failed; /* error of the window that could not be read */
};

static bool is_resting(const zr__ahead *a)
{
    return a->done == a->n || a->failed.status != ZR_OK;
}

static void *read_stretches(void *arg)
{
    zr__ahead *a = arg;
    pthread_mutex_lock(&a->lock);
    while (!a->quit) {
        if (is_resting(a)) {
            pthread_cond_wait(&a->changed, &a->lock);
            continue;
        }
        const int64_t i = a->done, sample = a->first + i;
        pthread_mutex_unlock(&a->lock);
        const zr_status st = a->read(a->arg, sample, a->window + i * a->window_tokens);
        pthread_mutex_lock(&a->lock);
        zr__failure_note(&a->failed, st);
        a->done += st == ZR_OK;
        pthread_cond_broadcast(&a->changed);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

static void free_ahead(zr__ahead *a)
{
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    zr_free(a->window);
    zr_free(a);
}

zr_status zr__ahead_create(zr__ahead_fn read, void *arg, int64_t room, int64_t window_tokens, zr__ahead **ahead)
{
    zr__ahead *a = zr_alloc(sizeof(*a));
    ZR_CHECK(a, ZR_ERR_MEMORY, "no memory for %zu bytes to read data ahead", sizeof(*a));
    *a = (zr__ahead){.read = read, .arg = arg, .room = room, .window_tokens = window_tokens};
    a->window = zr_alloc((size_t)(room * window_tokens) * sizeof(*a->window));
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
    if (a->window && zr__thread_start(&a->thread, STACK_BYTES, read_stretches, a) == 0) {
        *ahead = a;
        return ZR_OK;
    }
    const bool memory = a->window != NULL;
    free_ahead(a);
    return ZR_FAIL(ZR_ERR_MEMORY, "no %s available to read data ahead", memory ? "thread" : "memory");
}

void zr__ahead_destroy(zr__ahead **ahead)
{
    zr__ahead *a = *ahead;
    if (!a) return;
    pthread_mutex_lock(&a->lock);
    a->quit = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    pthread_join(a->thread, NULL);
    free_ahead(a);
    *ahead = NULL;
}

/* Drop the part of the range that the thread has not begun to read. Wait until the thread has read its current window.
 */
static void rest_after_window(zr__ahead *a)
{
    if (!is_resting(a)) a->n = a->done + 1;
    while (!is_resting(a)) pthread_cond_wait(&a->changed, &a->lock);
}

void zr__ahead_want(zr__ahead *a, int64_t first, int64_t n)
{
    pthread_mutex_lock(&a->lock);
    if (a->first != first || a->n == 0 || a->failed.status != ZR_OK) {
        rest_after_window(a);
        a->first = first;
        a->n = n < a->room ? n : a->room;
        a->done = 0;
        a->failed.status = ZR_OK;
        pthread_cond_broadcast(&a->changed);
    }
    pthread_mutex_unlock(&a->lock);
}

zr_status zr__ahead_take(zr__ahead *a, int64_t sample, int32_t *window, bool *there)
{
    zr_status st = ZR_OK;
    pthread_mutex_lock(&a->lock);
    const int64_t i = sample - a->first;
    *there = i >= 0 && i < a->n;
    while (*there && a->done <= i && a->failed.status == ZR_OK) pthread_cond_wait(&a->changed, &a->lock);
    if (*there && a->done <= i) st = zr__failure_tell(&a->failed);
    if (*there && st == ZR_OK)
        memcpy(window, a->window + i * a->window_tokens, (size_t)a->window_tokens * sizeof(*window));
    if (!*there) rest_after_window(a);
    pthread_mutex_unlock(&a->lock);
    return st;
}
