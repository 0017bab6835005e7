/** Choice of the device on which a rank computes, and of its number of threads. */
#ifndef ZR_TRAIN_DEVICE_H
#define ZR_TRAIN_DEVICE_H

#include "zr/config.h"
#include "zr/device.h"

/** Create the device on which a rank computes: the processor with `threads` threads, or a GPU. The GPUs of a host are
 * assigned round-robin to its ranks. The kind "auto" selects the processor if no GPU can be used. Fail with
 * ZR_ERR_UNSUPPORTED if a GPU was requested and the host has none. */
ZR_NODISCARD zr_status zr__train_device(zr_config_device kind, int threads, int local_rank, zr_device **device);

/** Set CUDA's environment for a pipeline of processes, unless the user set it. Call this before CUDA is used, while the
 * process has no thread that reads the environment. */
void zr__train_prepare_messages(void);

#define ZR__UNUSED_BYTES 1024
/** Return whether the kind "auto" selects the processor although this host has GPUs, and write why they cannot be used.
 */
bool zr__train_gpus_unused(zr_config_device kind, char why[ZR__UNUSED_BYTES]);

/** Return the number of compute threads of a rank. This is train.threads if it is set. Otherwise it is the number of
 * this host's processors divided by local_ranks, but at least 1. */
int zr__train_threads(const zr_config *config, int local_ranks);

#endif
