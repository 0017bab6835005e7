/* Queues of tasks for devices of all kinds. zr_device_ops describes the functions of queues. */
#ifndef ZR_DEVICE_QUEUE_H
#define ZR_DEVICE_QUEUE_H

#include "zr/device.h"

/* Functions of a kind of device that its queues call. For a synchronous device, all but `side` are NULL. */
typedef struct zr__queue_kind {
    /* Create a device on which the tasks of a queue run. A queue that is ZR_QUEUE_AT_ONCE needs none. Destroy the
     * device by zr_device_destroy. */
    zr_status (*side)(zr_device *device, zr_queue_runs runs, zr_device **side);
    /* Prepare the thread of a queue. The thread calls this function first. */
    zr_status (*enter)(zr_device *side);
    /* Run a task of a queue that has no thread. Report the task's times when they are known. */
    zr_status (*run)(zr_device *device, const zr_task *task);
    /* `mark` assigns this ticket to all work launched on the device so far. `reach` waits, on any thread, until that
     * work has completed. */
    void (*mark)(zr_device *device, int64_t ticket);
    zr_status (*reach)(zr_device *device, int64_t ticket);
    /* Let all later work of `device` start after `other` has reached the ticket, without making the caller wait. */
    zr_status (*follow)(zr_device *device, zr_device *other, int64_t ticket);
} zr__queue_kind;

ZR_NODISCARD zr_status zr__queue_create(const zr__queue_kind *kind, zr_device *device, const zr_queue_config *config,
                                        zr_queue **queue);
void zr__queue_destroy(zr_queue *queue);
ZR_NODISCARD zr_status zr__queue_issue(zr_queue *queue, const zr_task *task);
zr_mark zr__queue_mark(zr_queue *queue);
ZR_NODISCARD zr_status zr__queue_await(zr_queue *queue, zr_mark mark);
ZR_NODISCARD zr_status zr__queue_sync(zr_queue *queue);
void zr__queue_cancel(zr_queue *queue);

#endif
