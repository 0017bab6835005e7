/*
 * Task queues on CPU threads. A queue runs a task either at once, on the thread that issues it, or later, on the
 * queue's own thread. On an asynchronous device (a GPU), a task only launches work. A queue with its own thread waits
 * for this work before the task counts as ended, and stores its entries in a ring buffer of fixed size.
 *
 * A ticket is the number of an entry, counted in the order in which the queue's entries are issued. The end of an entry
 * does not wake threads that wait for a later ticket, because on a busy host each wake-up takes CPU time from
 * computation.
 */
#include "device/queue.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 512 };

/* An entry of a queue: a task, or a wait for another queue. */
typedef struct entry {
    zr_task task; /* task to run; task.run is NULL if the entry is a wait */
    zr_mark mark;
    double asked_sec; /* time when the task was issued, in seconds; set only if the task's times are reported */
} entry;

typedef struct host_queue {
    zr_queue base; /* base.device is `owner`, or a device created for this queue */
    const zr__queue_kind *kind;
    zr_device *owner;
    bool threaded;
    bool issues; /* whether the thread only issues work: marks are then marks of the device, as without a thread */
    entry *ring;
    int32_t room;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t issued,  /* ticket of the last issued entry */
        ended;       /* ticket of the last entry that has ended */
    int64_t reached; /* ticket of the last entry that ended before a failure or a cancel; sync sets it to `ended` */
    int64_t awaited; /* lowest ticket for which a thread sleeps; meaningless if this ticket has ended */
    double free_sec; /* end time of the last task since the last sync, in seconds; 0 before the first task ends */
    bool quit;
    bool dropping;    /* whether tasks are skipped until the next sync, after a failure or a cancel */
    bool cancelled;   /* whether the queue was cancelled, so that the next sync reports no failure */
    zr_status status; /* first failure since the last sync */
    char text[TEXT_BYTES];
} host_queue;

static host_queue *host_of(zr_queue *queue)
{
    return (host_queue *)queue;
}

/* ---- the end of a task ------------------------------------------------------------------------- */

static void end_entry(host_queue *q, zr_status status)
{
    if (q->issues) q->kind->mark(q->base.device, q->ended + 1); /* only this thread writes `ended` */
    pthread_mutex_lock(&q->lock);
    if (status != ZR_OK && q->status == ZR_OK) {
        q->status = status;
        snprintf(q->text, sizeof q->text, "%s", zr_error_message());
    }
    if (status != ZR_OK) q->dropping = true;
    q->ended++;
    if (!q->dropping) q->reached = q->ended;
    bool wakes = q->dropping || q->awaited == q->ended;
    pthread_mutex_unlock(&q->lock);
    if (wakes) pthread_cond_broadcast(&q->changed);
}

/* Sleep until `changed` is signalled, at the latest when this ticket ends. If the ticket `awaited` has ended, it may be
 * overwritten: the thread that waits for it is being woken, and will call this function again if necessary. */
static void sleep_for(host_queue *q, int64_t ticket)
{
    if (q->awaited <= q->ended || ticket < q->awaited) q->awaited = ticket;
    pthread_cond_wait(&q->changed, &q->lock);
}

/* Wait until all entries up to this ticket have ended. Return false at once if the queue drops tasks before then. */
static bool await_ticket(host_queue *q, int64_t ticket)
{
    pthread_mutex_lock(&q->lock);
    while (q->reached < ticket && !q->dropping) sleep_for(q, ticket);
    bool reached = q->reached >= ticket;
    pthread_mutex_unlock(&q->lock);
    return reached;
}

/* Return whether the work before a mark of the queue has completed when the mark's ticket has ended. */
static bool completes(const host_queue *q)
{
    return q->issues ? false : q->threaded || !q->kind->reach;
}

/* Make the queue `q`, on its own thread, wait for a mark: its stream if it only issues work, otherwise the thread.
 * Return false if the mark's queue has failed or was cancelled. */
static bool await_mark(host_queue *q, const zr_mark *mark)
{
    host_queue *other = host_of(mark->queue);
    if (!await_ticket(other, mark->ticket)) return false;
    if (completes(other)) return true;
    return (q->issues ? q->kind->follow(q->base.device, other->base.device, mark->ticket)
                      : other->kind->reach(other->base.device, mark->ticket)) == ZR_OK;
}

/* Return the failure of a queue for which another queue waits. */
static zr_status fail_like(host_queue *q)
{
    char text[TEXT_BYTES];
    pthread_mutex_lock(&q->lock);
    const zr_status status = q->status;
    memcpy(text, q->text, sizeof text);
    pthread_mutex_unlock(&q->lock);
    return status == ZR_OK ? ZR_FAIL(ZR_ERR_PEER, "the queue that this one waits for has failed, or was cancelled")
                           : ZR_FAIL(status, "%s", text);
}

static zr_status run_task(host_queue *q, const zr_task *task, double asked_sec)
{
    zr_device *device = q->base.device;
    if ((!q->threaded || q->issues) && q->kind->run) return q->kind->run(device, task);
    double begin = task->ended ? zr_clock_sec() : 0, free = q->free_sec > 0 ? q->free_sec : asked_sec;
    ZR_TRY(task->run(task->arg, device, task->index));
    if (q->threaded) ZR_TRY(device->ops->finish(device));
    if (!task->ended) return ZR_OK;
    q->free_sec = zr_clock_sec();
    task->ended(task->arg, task->index, free < begin ? free : begin, begin, q->free_sec);
    return ZR_OK;
}

/* ---- a queue with a thread --------------------------------------------------------------------- */

/* Wait for the next entry and copy it to *next. Return false if the queue is being destroyed. Set *drop to whether the
 * entry must be skipped. */
static bool take_entry(host_queue *q, entry *next, bool *drop)
{
    pthread_mutex_lock(&q->lock);
    while (q->ended == q->issued && !q->quit) pthread_cond_wait(&q->changed, &q->lock);
    bool there = q->ended < q->issued;
    if (there) *next = q->ring[q->ended % q->room];
    *drop = q->dropping;
    pthread_mutex_unlock(&q->lock);
    return there;
}

static void *run_queue(void *arg)
{
    host_queue *q = arg;
    entry next;
    bool drop;
    zr_status entered = q->kind->enter ? q->kind->enter(q->base.device) : ZR_OK;
    while (take_entry(q, &next, &drop)) {
        zr_status st = drop ? ZR_OK : entered;
        if (st != ZR_OK) drop = true;
        if (!drop && !next.task.run && !await_mark(q, &next.mark)) st = fail_like(host_of(next.mark.queue));
        if (!drop && next.task.run) st = run_task(q, &next.task, next.asked_sec);
        end_entry(q, st);
    }
    return NULL;
}

static void put_entry(host_queue *q, const entry *new)
{
    /* Wait for room in the ring buffer. If the queue drops tasks, discard the entry; sync then reports the failure. */
    if (!await_ticket(q, q->issued + 1 - q->room)) return;
    pthread_mutex_lock(&q->lock);
    q->ring[q->issued++ % q->room] = *new;
    pthread_mutex_unlock(&q->lock);
    pthread_cond_broadcast(&q->changed);
}

/* ---- the table --------------------------------------------------------------------------------- */

zr_status zr__queue_issue(zr_queue *queue, const zr_task *task)
{
    host_queue *q = host_of(queue);
    double asked = task->ended ? zr_clock_sec() : 0;
    if (q->threaded) {
        put_entry(q, &(entry){.task = *task, .asked_sec = asked});
        return ZR_OK;
    }
    q->issued++;
    zr_status st = run_task(q, task, asked);
    end_entry(q, st);
    return st;
}

zr_mark zr__queue_mark(zr_queue *queue)
{
    host_queue *q = host_of(queue);
    if (!q->threaded && q->kind->mark) q->kind->mark(q->base.device, q->issued);
    return (zr_mark){queue, q->issued};
}

zr_status zr__queue_await(zr_queue *queue, zr_mark mark)
{
    host_queue *q = host_of(queue), *other = mark.queue ? host_of(mark.queue) : q;
    if (other == q) return ZR_OK;
    /* A queue without a thread on a synchronous device has no unfinished work, so its marks need no wait. */
    const bool there = !other->threaded && !other->kind->reach;
    if (q->threaded && !there) put_entry(q, &(entry){.mark = mark});
    if (q->threaded) return ZR_OK;
    if (!await_ticket(other, mark.ticket)) return fail_like(other);
    return completes(other) ? ZR_OK : q->kind->follow(q->base.device, other->base.device, mark.ticket);
}

zr_status zr__queue_sync(zr_queue *queue)
{
    host_queue *q = host_of(queue);
    pthread_mutex_lock(&q->lock);
    while (q->ended < q->issued) sleep_for(q, q->issued);
    pthread_mutex_unlock(&q->lock);
    const bool works = !q->threaded || q->issues; /* whether work of ended tasks may not have completed */
    const zr_status finished = works ? q->base.device->ops->finish(q->base.device) : ZR_OK;
    pthread_mutex_lock(&q->lock);
    bool failed = q->status != ZR_OK && !q->cancelled;
    zr_status status = q->status;
    q->status = ZR_OK;
    q->dropping = q->cancelled = false;
    q->reached = q->ended;
    q->free_sec = 0;
    pthread_mutex_unlock(&q->lock);
    return failed ? ZR_FAIL(status, "%s", q->text) : finished;
}

void zr__queue_cancel(zr_queue *queue)
{
    host_queue *q = host_of(queue);
    pthread_mutex_lock(&q->lock);
    q->dropping = q->cancelled = true;
    pthread_mutex_unlock(&q->lock);
    pthread_cond_broadcast(&q->changed);
}

static zr_status start_thread(host_queue *q, int32_t room)
{
    q->room = room > 0 ? room : 1;
    q->ring = zr_alloc(sizeof *q->ring * (size_t)q->room);
    ZR_CHECK(q->ring, ZR_ERR_MEMORY, "no memory for a queue of %d tasks", q->room);
    q->threaded = pthread_create(&q->thread, NULL, run_queue, q) == 0;
    ZR_CHECK(q->threaded, ZR_ERR_MEMORY, "cannot start the thread of a queue");
    return ZR_OK;
}

zr_status zr__queue_create(const zr__queue_kind *kind, zr_device *device, const zr_queue_config *config,
                           zr_queue **queue)
{
    host_queue *q = zr_alloc(sizeof *q);
    ZR_CHECK(q, ZR_ERR_MEMORY, "no memory for a queue's %zu bytes", sizeof *q);
    q->base.device = q->owner = device;
    q->kind = kind;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, NULL);
    zr_status st = config->runs == ZR_QUEUE_AT_ONCE ? ZR_OK : kind->side(device, config, &q->base.device);
    const bool threaded = config->runs >= ZR_QUEUE_THREAD;
    q->issues = config->runs == ZR_QUEUE_ISSUE && kind->follow;
    if (st == ZR_OK && threaded) st = start_thread(q, config->most);
    if (st != ZR_OK) {
        zr__queue_destroy(&q->base);
        return zr_error_frame(st, __func__, __FILE__, __LINE__);
    }
    *queue = &q->base;
    return ZR_OK;
}

void zr__queue_destroy(zr_queue *queue)
{
    host_queue *q = queue ? host_of(queue) : NULL;
    if (!q) return;
    if (q->threaded) {
        pthread_mutex_lock(&q->lock);
        q->quit = true;
        pthread_mutex_unlock(&q->lock);
        pthread_cond_broadcast(&q->changed);
        pthread_join(q->thread, NULL);
    }
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
    if (q->base.device != q->owner) zr_device_destroy(&q->base.device);
    zr_free(q->ring);
    zr_free(q);
}
