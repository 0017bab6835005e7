/**
 * Memory limits of a rank. memory.limit, or its default, is the number of bytes that a rank may use of its process's
 * memory. zr_layout.limit_bytes is the part of memory.limit that is left for a plan's arena. Policy auto and the choice
 * of the stage compare plans with it.
 */
#ifndef ZR_TRAIN_LIMITS_H
#define ZR_TRAIN_LIMITS_H

#include "zr/plan.h"

/** Return the maximum memory in bytes that the run report promises for a process with `ranks` ranks. Each rank has
 * total_bytes (zr_memory_taken). The promise is 1.03 x ranks x total_bytes + 48 MiB, plus 384 KiB for each rank after
 * the first. */
int64_t zr__process_bytes(int64_t total_bytes, int ranks);

/** Return how many bytes of memory.limit a rank uses for a plan of limited_bytes (zr__memory_limited). On the host this
 * is zr__process_bytes of one rank. On a device with its own memory it is limited_bytes plus 1 GiB for CUDA and its
 * libraries. */
int64_t zr__rank_bytes(int64_t limited_bytes, const zr_device_facts *facts);

/** Return how many bytes of memory.limit a rank uses for a plan with the given memory. */
int64_t zr__rank_needs(const zr_memory *memory, const zr_device_facts *facts);

/** Return a rank's default limit, for an unset memory.limit. It is the rank's share of this host's memory
 * (zr__train_host_limit), or of the memory of the GPU that it shares with other ranks of its process. Return 0 if
 * unknown. */
int64_t zr__train_limit(const zr_profile *profile, int local_ranks, int in_process);

/** Return the default memory.limit of each of local_ranks ranks on this host: an equal share of nine tenths of the
 * available memory. The last tenth is for other programs. Return 0 if unknown. */
int64_t zr__train_host_limit(int local_ranks);

/** Check that a plan stays within memory.limit (limit_bytes per rank, 0 for no limit) and that local_ranks ranks with
 * this plan stay within this host's available memory. `threads` tells whether the ranks are threads of one process.
 * Fail with ZR_ERR_MEMORY and the plan's numbers if the plan exceeds a limit. */
ZR_NODISCARD zr_status zr__train_memory_check(const zr_plan *plan, int64_t limit_bytes, int local_ranks, bool threads);

/** Return how many bytes of a rank's staging memory are in host memory, if a process has `ranks` ranks. If several
 * processes use GPUs, this is only a small part of the staging memory. */
int64_t zr__plan_staging_bytes(const zr_plan *plan, int ranks);

/** Upper bound of the GPU memory in bytes that a rank takes besides its plan, for the context and the libraries' code.
 * It has not been measured yet. */
#define ZR__GPU_EXTRA_BYTES (1LL << 30)

/** Return the maximum memory in bytes of a process with `ranks` ranks of a plan: zr__process_bytes and, with GPUs, the
 * host memory that CUDA takes. */
int64_t zr__plan_process_bytes(const zr_plan *plan, int ranks);

/** Return the maximum size of an arena in bytes with which a rank stays within `limit_bytes` (zr__rank_bytes). Return 0
 * if limit_bytes is 0, which means no limit. `apart` tells whether the device has its own memory. */
int64_t zr__arena_limit(int64_t limit_bytes, bool apart);

#endif
