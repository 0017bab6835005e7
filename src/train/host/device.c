/*
 * Choice of a run's device, and the memory that a rank may take of it.
 */
#include "train/host/device.h"

#include "base/text/text.h"
#include "zr/train.h"

/** Bytes of host memory that CUDA takes in a process: the driver and the libraries with its first GPU, a context and
 * its pinned memory with each further one. Bounds, not measured yet. */
#define GPU_HOST_BYTES (2LL << 30)
#define GPU_HOST_MORE_BYTES (1LL << 29)

/** Create a rank's GPU device; the ranks of a host are assigned to its GPUs in turn. */
static zr_status create_cuda(zr_device_config *device, int local_rank, int gpus, zr_device **made)
{
    device->gpu = gpus > 0 ? local_rank % gpus : 0;
    ZR_TRY(zr_device_create_cuda(device, made));
    return ZR_OK;
}

/** Count the GPUs that a run uses when no device is named; 0 unless all kernels and the library of matrix products run
 * on them. */
static int usable_gpus(void)
{
    char matmul[64];
    zr_gpu gpu;
    const int gpus = zr_device_cuda_count(NULL);
    if (gpus == 0 || zr_device_cuda_gpu(0, &gpu) != ZR_OK || gpu.major < 8) return 0;
    zr_device_cuda_matmul(matmul, sizeof(matmul)); /* last, since it takes 150 MB of the process */
    return matmul[0] ? gpus : 0;
}

zr_status zr_train_device(zr_config_device kind, int threads, int local_rank, zr_device **made)
{
    zr_device_config device = ZR_DEVICE_CONFIG_INIT;
    const int gpus = kind == ZR_DEVICE_CPU ? 0 : kind == ZR_DEVICE_AUTO ? usable_gpus() : zr_device_cuda_count(NULL);
    device.threads = threads;
    if (kind == ZR_DEVICE_CUDA || gpus > 0) return create_cuda(&device, local_rank, gpus, made);
    ZR_TRY(zr_device_create_cpu(&device, made));
    return ZR_OK;
}

int64_t zr__train_staging_bytes(const zr_plan *plan, int ranks)
{
    const bool on_gpu = plan->profile.facts.apart && ranks < plan->ranks;
    int64_t all = 0;
    if (!on_gpu) return plan->space_bytes[ZR_SPACE_STAGING];
    for (int32_t g = 0; g < plan->n_groups; g++) {
        if (plan->staging[g] == ZR_NONE) continue;
        const int64_t bytes = plan->persistent[plan->staging[g]].bytes,
                      most = ZR_COMM_STAGING_HOST(plan->group[g].size);
        all += bytes < most ? bytes : most;
    }
    return all;
}

int64_t zr__train_process_bytes(const zr_plan *plan, int ranks)
{
    if (!plan->profile.facts.apart) return zr_train_process_bytes(zr_memory_taken(&plan->memory), ranks);
    const int gpus = zr_device_cuda_count(NULL), used = gpus > 0 && gpus < ranks ? gpus : ranks;
    const int64_t host_bytes = plan->memory.space[ZR_SPACE_HOST].total_bytes + zr__train_staging_bytes(plan, ranks);
    return zr_train_process_bytes(host_bytes, ranks) + GPU_HOST_BYTES + (used - 1) * GPU_HOST_MORE_BYTES;
}

/** Return the number of ranks on one GPU: the ranks of a process are assigned to GPUs in turn, and no two processes
 * share one. */
static int sharers(int in_process)
{
    const int gpus = zr_device_cuda_count(NULL);
    return gpus > 0 ? (in_process + gpus - 1) / gpus : 1;
}

zr_status zr__train_gpu_check(const zr_plan *plan, int64_t limit_bytes, int in_process)
{
    char needs[ZR_SIZE_BYTES], total[ZR_SIZE_BYTES], extra[ZR_SIZE_BYTES], most[ZR_SIZE_BYTES];
    const int64_t there = plan->profile.machine.memory_bytes / sharers(in_process),
                  bytes = zr_train_rank_bytes(plan->memory.total_bytes, &plan->profile.facts);
    const int64_t limit = limit_bytes > 0 && limit_bytes < there ? limit_bytes : there;
    ZR_CHECK(
        bytes <= limit, ZR_ERR_MEMORY,
        "the plan needs %s of GPU memory per rank (total %s, and %s for CUDA and its libraries) but %s %s; use more "
        "ranks or GPUs, a higher zero_optimization.stage or activation_checkpointing.policy unit (`zr plan` shows "
        "each)",
        zr__text_size((double)bytes, needs), zr__text_size((double)plan->memory.total_bytes, total),
        zr__text_size((double)ZR__GPU_EXTRA_BYTES, extra),
        limit == there ? "its part of the GPU is" : "memory.limit is", zr__text_size((double)limit, most));
    return ZR_OK;
}

int64_t zr_train_limit(const zr_profile *profile, int local_ranks, int in_process)
{
    if (!profile->facts.apart) return zr_train_host_limit(local_ranks);
    return profile->machine.memory_bytes / sharers(in_process);
}
