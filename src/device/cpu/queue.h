/* Queues of the processor: see zr_device_ops. */
#ifndef ZR_DEVICE_CPU_QUEUE_H
#define ZR_DEVICE_CPU_QUEUE_H

#include "zr/device.h"

ZR_NODISCARD zr_status zr__queue_create(zr_device *device, const zr_queue_config *config, zr_queue **queue);
void zr__queue_destroy(zr_queue *queue);
ZR_NODISCARD zr_status zr__queue_issue(zr_queue *queue, const zr_task *task);
zr_mark zr__queue_mark(zr_queue *queue);
ZR_NODISCARD zr_status zr__queue_await(zr_queue *queue, zr_mark mark);
ZR_NODISCARD zr_status zr__queue_sync(zr_queue *queue);
void zr__queue_cancel(zr_queue *queue);

#endif
