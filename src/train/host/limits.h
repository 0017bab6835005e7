/**
 * Memory limits of a rank: memory.limit or its default, in bytes of a process; and zr_layout.limit_bytes, the part of
 * it that is left for a plan's arena. Policy auto and the choice of the stage search plans against it.
 */
#ifndef ZR_TRAIN_LIMITS_H
#define ZR_TRAIN_LIMITS_H

#include "zr/plan.h"

/** Return the bytes that a process of `ranks` ranks, each of total_bytes (zr_memory_taken), may take by the promise of
 *  the run report: 1.03 ranks x total + 48 MiB, and 384 KiB for each rank beyond the first. */
int64_t zr__process_bytes(int64_t total_bytes, int ranks);

/** Return the bytes of memory.limit that a rank uses for a plan of limited_bytes (zr__memory_limited):
 *  zr__process_bytes; or, on a device with memory of its own, limited_bytes and 1 GiB for CUDA and its libraries.
 */
int64_t zr__rank_bytes(int64_t limited_bytes, const zr_device_facts *facts);

/** Return the bytes of memory.limit that a rank uses for a plan with this memory. */
int64_t zr__rank_needs(const zr_memory *memory, const zr_device_facts *facts);

/** Return the limit of a rank where memory.limit is not set: its share of this host's memory (zr__train_host_limit), or
 *  of a GPU that ranks of this process share; 0: not known. */
int64_t zr__train_limit(const zr_profile *profile, int local_ranks, int in_process);

/** Return a memory.limit for each of local_ranks ranks on this host where none is given: nine tenths of the available
 *  memory, shared; the rest is for other programs. 0: unknown. */
int64_t zr__train_host_limit(int local_ranks);

/** Check that a plan stays within memory.limit (limit_bytes per rank, 0: none) and within this host's available memory
 *  for local_ranks ranks, in one process (threads) or each in its own. ZR_ERR_MEMORY with the plan's numbers. */
ZR_NODISCARD zr_status zr__train_memory_check(const zr_plan *plan, int64_t limit_bytes, int local_ranks, bool threads);

/** Return the bytes of a rank's staging memory that lie in host memory, with `ranks` ranks in one process: with
 * several processes on GPUs only a small part. */
int64_t zr__plan_staging_bytes(const zr_plan *plan, int ranks);

/** Bytes of GPU memory that a rank takes beside its plan, for the context and the libraries' code: a bound, not
 * measured yet. */
#define ZR__GPU_EXTRA_BYTES (1LL << 30)

/** Return the bytes that a process of `ranks` ranks of a plan may take (zr__process_bytes). */
int64_t zr__plan_process_bytes(const zr_plan *plan, int ranks);

/** Return the largest arena with which a rank stays within `limit_bytes` (zr__rank_bytes); 0: no limit. apart: on a
 * device with memory of its own. */
int64_t zr__arena_limit(int64_t limit_bytes, bool apart);

#endif
