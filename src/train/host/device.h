/** The device that a rank computes on, and its threads. */
#ifndef ZR_TRAIN_DEVICE_H
#define ZR_TRAIN_DEVICE_H

#include "zr/config.h"
#include "zr/device.h"

/** Create the device that a rank computes on: the processor with `threads` threads, or the GPU assigned to it, in turn
 *  among the ranks of its host. auto: the processor where no GPU can be used. ZR_ERR_UNSUPPORTED: a GPU was asked for,
 *  and the host lacks one. */
ZR_NODISCARD zr_status zr__train_device(zr_config_device kind, int threads, int local_rank, zr_device **device);

/** Return the compute threads of a rank: train.threads, or auto = max(1, processors of this host / local_ranks). */
int zr__train_threads(const zr_config *config, int local_ranks);

#endif
