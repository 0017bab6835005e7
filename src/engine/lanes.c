/*
 * A second thread for the comm stream, where a call between ranks leaves the processor free: between hosts. The two
 * lanes walk the same list, each its own stream's steps, and meet where the plan has waits, at REPEAT and at END. What
 * the planner proved of the order of streams and waits is then all the order there is.
 *
 * Elsewhere one thread runs both streams in the order of the list, which satisfies every wait: a core that
 * computes cannot also copy.
 */
#include "engine/internal.h"

#include <pthread.h>
#include <stdio.h>

enum { TEXT_BYTES = 512 };

struct zr__lanes {
    zr_engine *engine;
    zr_device *device; /* the comm lane's view of it */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t done[ZR_STREAMS];    /* ticket of the last step that each stream has ended in this walk */
    int64_t awaited[ZR_STREAMS]; /* ticket of the stream that the other lane sleeps for, 0: none */
    zr_schedule_kind kind;       /* what the comm lane walks */
    bool walking, quit;
    bool failed; /* a lane has: the other stops as soon as it looks */
    zr_stream first_failed;
    zr_status status;      /* that lane's */
    char text[TEXT_BYTES]; /* the comm lane's, should it be that: messages belong to threads */
};

/* The other lane is woken for the ticket that it waits for and for no earlier one: on a busy host each waking takes the
 * processor from the lane that computes. */
void zr__lane_publish(const zr__lane *lane, int64_t ticket)
{
    zr__lanes *l = lane->lanes;
    if (!l) return;
    pthread_mutex_lock(&l->lock);
    l->done[lane->stream] = ticket;
    bool wakes = l->awaited[lane->stream] > 0 && l->awaited[lane->stream] <= ticket;
    pthread_mutex_unlock(&l->lock);
    if (wakes) pthread_cond_broadcast(&l->changed);
}

zr_status zr__lane_await(const zr__lane *lane, zr_stream stream, int64_t ticket)
{
    zr__lanes *l = lane->lanes;
    if (!l) return ZR_OK;
    pthread_mutex_lock(&l->lock);
    l->awaited[stream] = ticket;
    while (l->done[stream] < ticket && !l->failed) pthread_cond_wait(&l->changed, &l->lock);
    l->awaited[stream] = 0;
    bool reached = l->done[stream] >= ticket;
    pthread_mutex_unlock(&l->lock);
    ZR_CHECK(reached, ZR_ERR_PEER, "the other stream has failed");
    return ZR_OK;
}

/* The first failure counts; the other lane's is its echo. */
static void lane_ended(zr__lanes *l, zr_stream stream, zr_status status)
{
    pthread_mutex_lock(&l->lock);
    bool first = status != ZR_OK && !l->failed;
    if (first) {
        l->failed = true;
        l->first_failed = stream;
        l->status = status;
        if (stream == ZR_STREAM_COMM) snprintf(l->text, sizeof l->text, "%s", zr_error_message());
    }
    if (stream == ZR_STREAM_COMM) l->walking = false;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    if (!first || stream != ZR_STREAM_COMPUTE) return;
    l->engine->stopped = true;
    zr_comm_cancel(l->engine->comm); /* it may wait for a peer for ever */
}

static void *run_comm_lane(void *arg)
{
    zr__lanes *l = arg;
    pthread_mutex_lock(&l->lock);
    for (;;) {
        while (!l->walking && !l->quit) pthread_cond_wait(&l->changed, &l->lock);
        if (l->quit) break;
        zr_schedule_kind kind = l->kind;
        pthread_mutex_unlock(&l->lock);
        zr__lane lane = zr__lane_make(l->engine, l, ZR_STREAM_COMM, l->device, kind);
        lane_ended(l, ZR_STREAM_COMM, zr__lane_walk(&lane));
        pthread_mutex_lock(&l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

zr_status zr__lanes_walk(zr__lanes *l, zr_schedule_kind kind)
{
    pthread_mutex_lock(&l->lock);
    for (int s = 0; s < ZR_STREAMS; s++) l->done[s] = 0;
    l->failed = false;
    l->kind = kind;
    l->walking = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);

    zr__lane lane = zr__lane_make(l->engine, l, ZR_STREAM_COMPUTE, l->engine->device, kind);
    zr_status st = zr__lane_walk(&lane);
    lane_ended(l, ZR_STREAM_COMPUTE, st);
    pthread_mutex_lock(&l->lock);
    while (l->walking) pthread_cond_wait(&l->changed, &l->lock);
    pthread_mutex_unlock(&l->lock);
    if (l->failed && l->first_failed == ZR_STREAM_COMM) return ZR_FAIL(l->status, "%s", l->text);
    return st;
}

zr_status zr__lanes_start(zr_engine *engine, zr__lanes **lanes)
{
    zr__lanes *l = zr_alloc(sizeof *l);
    ZR_CHECK(l, ZR_ERR_MEMORY, "no memory for a second stream's %zu bytes", sizeof *l);
    l->engine = engine;
    zr_status st = engine->device->ops->fork(engine->device, &l->device);
    if (st != ZR_OK) {
        zr_free(l);
        return zr_error_frame(st, __func__, __FILE__, __LINE__);
    }
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    if (pthread_create(&l->thread, NULL, run_comm_lane, l) != 0) {
        pthread_cond_destroy(&l->changed);
        pthread_mutex_destroy(&l->lock);
        zr_device_destroy(&l->device);
        zr_free(l);
        return ZR_FAIL(ZR_ERR_MEMORY, "cannot start the thread of the comm stream");
    }
    *lanes = l;
    return ZR_OK;
}

void zr__lanes_stop(zr__lanes **lanes)
{
    zr__lanes *l = *lanes;
    if (!l) return;
    *lanes = NULL;
    pthread_mutex_lock(&l->lock);
    l->quit = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    zr_device_destroy(&l->device);
    zr_free(l);
}
