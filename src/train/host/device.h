/** What of a plan's memory counts to the process: all, or with a device of its own memory only the host's. */
#ifndef ZR_TRAIN_DEVICE_H
#define ZR_TRAIN_DEVICE_H

#include "zr/plan.h"

/** Of a rank's staging, what lies in memory of the host, where `ranks` ranks are in one process: with several processes
 *  on GPUs only a small part. */
int64_t zr__train_staging_bytes(const zr_plan *plan, int ranks);
/** What a rank takes of a GPU beside its plan, the context and the libraries' code: a bound that was not measured yet.
 */
#define ZR__GPU_EXTRA_BYTES (1LL << 30)

/** What a process of `ranks` ranks of a plan may take (zr_train_process_bytes). */
int64_t zr__train_process_bytes(const zr_plan *plan, int ranks);
/** Does each of a process's ranks of the plan fit on its GPU, and within memory.limit (0: none)? ZR_ERR_MEMORY with the
 * plan's numbers. */
ZR_NODISCARD zr_status zr__train_gpu_check(const zr_plan *plan, int64_t limit_bytes, int in_process);

#endif
