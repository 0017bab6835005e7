/** Memory limits of a rank. memory.limit, or its default, is the number of bytes that a rank may use. A part of these
 * bytes is for the program and its libraries. The rest is zr_layout.limit_bytes, the limit of a plan's arena. Policy
 * auto and the choice of the stage compare plans with this limit. */
#ifndef ZR_TRAIN_LIMITS_H
#define ZR_TRAIN_LIMITS_H

#include "config/config.h"
#include "plan/cost/cost.h"

/** Return the bytes of memory that a process with `ranks` ranks uses at most, as promised in the run report. Each rank
 * has total_bytes (zr__memory_taken). The number is 1.03 x ranks x total_bytes + 48 MiB, plus 384 KiB for each rank
 * after the first. */
int64_t zr__process_bytes(int64_t total_bytes, int ranks);

/** Return the number of bytes of memory.limit that a rank uses for a plan of limited_bytes (zr__memory_limited). On a
 * processor it is zr__process_bytes of one rank. On a device with its own memory, 1 GiB is added for CUDA and its
 * libraries. */
int64_t zr__rank_bytes(int64_t limited_bytes, const zr_device_facts *facts);

/** Return the number of bytes of memory.limit that a rank uses for a plan with the given memory. */
int64_t zr__rank_needs(const zr_memory *memory, const zr_device_facts *facts);

/** Return the default of memory.limit for a rank. On the processor, return the rank's share of the host's memory
 * (zr__train_host_limit). With a GPU, return the GPU's memory divided by the maximum number of ranks on one GPU. Return
 * 0 if unknown. */
int64_t zr__train_limit(const zr_profile *profile, int local_ranks, int in_process);

/** Return the default of memory.limit for each of local_ranks ranks on this host: an equal share of nine tenths of the
 * available memory. The last tenth is for other programs. Return 0 if unknown. */
int64_t zr__train_host_limit(int local_ranks);

/** Check that a plan is within memory.limit (limit_bytes per rank, 0 for no limit), and that local_ranks ranks with
 * this plan fit into the available memory of this host. If not, fail with ZR_ERR_MEMORY and a message with the plan's
 * numbers. `threads` tells whether the ranks are threads of one process. `tried` has the choices that were open, which
 * the message does not advise, or is NULL. */
ZR_NODISCARD zr_status zr__train_memory_check(const zr_plan *plan, int64_t limit_bytes, int local_ranks, bool threads,
                                              const zr__config_open *tried);

/** Check that the GPU memory that NCCL's communicators and CUDA's libraries have taken beside the plan (taken_bytes)
 * leaves room for the context, of half of ZR__GPU_EXTRA_BYTES, within memory.limit (limit_bytes, 0 for no limit) and
 * the GPU's memory. If not, fail with ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__train_taken_check(const zr_plan *plan, int64_t limit_bytes, int64_t taken_bytes);

/** Return the free bytes of the GPU of a rank, by its number on the host, or 0 if they are unknown. */
int64_t zr__train_gpu_free(int local_rank);

/** Return the number of bytes of a rank's staging memory that are in host memory. The rank belongs to a process with
 * `ranks` ranks of the plan. If several processes use GPUs, most of the staging memory is in GPU memory. */
int64_t zr__plan_staging_bytes(const zr_plan *plan, int ranks);

/** Upper bound in bytes of the GPU memory that a rank takes besides its plan, for the context and the libraries' code.
 * The bound is not measured yet. */
#define ZR__GPU_EXTRA_BYTES (1LL << 30)

/** Return the maximum bytes of host memory of a process with `ranks` ranks of a plan. With GPUs it is zr__process_bytes
 * plus the host memory that CUDA takes. */
int64_t zr__plan_process_bytes(const zr_plan *plan, int ranks);

/** Return the largest arena in bytes with which a rank stays within `limit_bytes` (zr__rank_bytes). `own_memory` tells
 * whether the device has its own memory. Without a limit (limit_bytes 0), return 0. */
int64_t zr__arena_limit(int64_t limit_bytes, bool own_memory);

#endif
