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
    zr__ahead_order order; /* its rows are 0 while nothing is to be read */
    /* Positions in the order. `begin`: of the first sample that has not been dropped; `done`: of the first sample that
     * has not been read. The window of the sample at position i is in buffer i % room. */
    int64_t begin, done;
    bool reading, quit;
    zr__failure failed; /* error of the window that could not be read */
};

static bool can_read(const zr__ahead *a)
{
    return a->order.rows > 0 && a->done - a->begin < a->room && a->failed.status == ZR_OK;
}

static int64_t sample_of(const zr__ahead_order *order, int64_t i)
{
    return order->first + i / order->rows * order->stride + i % order->rows;
}

static int32_t *window_of(const zr__ahead *a, int64_t i)
{
    return a->window + i % a->room * a->window_tokens;
}

/* Return the position of a sample in the order, or -1 if it is not in the order or dropped. */
static int64_t find(const zr__ahead *a, int64_t sample)
{
    const zr__ahead_order *order = &a->order;
    const int64_t from = sample - order->first;
    if (order->rows == 0 || from < 0 || from % order->stride >= order->rows) return -1;
    const int64_t i = from / order->stride * order->rows + from % order->stride;
    return i >= a->begin ? i : -1;
}

static void *read_windows(void *arg)
{
    zr__ahead *a = arg;
    pthread_mutex_lock(&a->lock);
    while (!a->quit) {
        if (!can_read(a)) {
            pthread_cond_wait(&a->changed, &a->lock);
            continue;
        }
        const int64_t i = a->done, sample = sample_of(&a->order, i);
        a->reading = true;
        pthread_mutex_unlock(&a->lock);
        const zr_status st = a->read(a->arg, sample, window_of(a, i));
        pthread_mutex_lock(&a->lock);
        a->reading = false;
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
    if (a->window && zr__thread_start(&a->thread, STACK_BYTES, read_windows, a) == 0) {
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

/* Drop all samples. Wait until the thread has read its current window. */
static void rest(zr__ahead *a)
{
    a->order.rows = 0;
    while (a->reading) pthread_cond_wait(&a->changed, &a->lock);
}

/* Return whether an order is the rest of the current one. */
static bool goes_on(const zr__ahead *a, const zr__ahead_order *order)
{
    const zr__ahead_order *old = &a->order;
    const int64_t i = find(a, order->first);
    return i >= 0 && i % old->rows == 0 && old->rows == order->rows && old->stride == order->stride &&
           a->failed.status == ZR_OK;
}

void zr__ahead_want(zr__ahead *a, const zr__ahead_order *order)
{
    pthread_mutex_lock(&a->lock);
    if (!goes_on(a, order)) {
        rest(a);
        a->order = *order;
        a->begin = a->done = 0;
        a->failed.status = ZR_OK;
        pthread_cond_broadcast(&a->changed);
    }
    pthread_mutex_unlock(&a->lock);
}

zr_status zr__ahead_take(zr__ahead *a, int64_t sample, bool keeps, int32_t *window, bool *there)
{
    zr_status st = ZR_OK;
    pthread_mutex_lock(&a->lock);
    const int64_t i = find(a, sample);
    *there = i >= 0 && i < a->begin + a->room;
    while (*there && a->done <= i && a->failed.status == ZR_OK) pthread_cond_wait(&a->changed, &a->lock);
    if (*there && a->done <= i) st = zr__failure_tell(&a->failed);
    if (*there && st == ZR_OK) {
        memcpy(window, window_of(a, i), (size_t)a->window_tokens * sizeof(*window));
        if (!keeps) a->begin = i + 1;
        pthread_cond_broadcast(&a->changed);
    }
    if (!*there) rest(a);
    pthread_mutex_unlock(&a->lock);
    return st;
}
