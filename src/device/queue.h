/* Task queues for all kinds of devices. zr_device_ops documents the functions of queues. */
#ifndef ZR_DEVICE_QUEUE_H
#define ZR_DEVICE_QUEUE_H

#include "zr/device.h"

/* Device-specific functions that queues call. For a synchronous device (the CPU), all except `side` are NULL. */
typedef struct zr__queue_kind {
    /* Create a second device, on which a queue runs its tasks. The caller destroys the second device with
     * zr_device_destroy. A queue that is ZR_QUEUE_AT_ONCE uses the original device, and does not call this function. */
    zr_status (*side)(zr_device *device, const zr_queue_config *config, zr_device **side);
    /* Prepare a queue's own thread. The thread calls this function before it runs any task. */
    zr_status (*enter)(zr_device *side);
    /* Run a task without waiting for its work. Report the task's times as soon as they are known. */
    zr_status (*run)(zr_device *device, const zr_task *task);
    /* `mark` assigns a ticket to all work launched on the device so far. `reach` waits until the work with this ticket
     * has completed, and may be called on any thread. */
    void (*mark)(zr_device *device, int64_t ticket);
    zr_status (*reach)(zr_device *device, int64_t ticket);
    /* Make all later work of `device` start only after `other` has completed the work with this ticket. The call itself
     * does not wait. */
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
