/** A plan's memory that counts to the process: all of it or, with a device of its own memory, only the host's. */
#ifndef ZR_TRAIN_DEVICE_H
#define ZR_TRAIN_DEVICE_H

#include "zr/plan.h"

/** Return the bytes of a rank's staging memory that lie in host memory, with `ranks` ranks in one process: with
 * several processes on GPUs only a small part. */
int64_t zr__train_staging_bytes(const zr_plan *plan, int ranks);
/** Bytes of GPU memory that a rank takes beside its plan, for the context and the libraries' code: a bound, not
 * measured yet. */
#define ZR__GPU_EXTRA_BYTES (1LL << 30)

/** Return the bytes that a process of `ranks` ranks of a plan may take (zr_train_process_bytes). */
int64_t zr__train_process_bytes(const zr_plan *plan, int ranks);
/** Check that each of a process's ranks of the plan fits on its GPU, and within memory.limit (0: no limit).
 * ZR_ERR_MEMORY with the plan's numbers. */
ZR_NODISCARD zr_status zr__train_gpu_check(const zr_plan *plan, int64_t limit_bytes, int in_process);

#endif
