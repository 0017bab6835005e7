#include "train/host/limits.h"

#include "base/text/text.h"
#include "device/device.h"
#include "train/host/host.h"
#include "zr/comm.h"
#include "zr/device.h"

#include <stdio.h>

/* The memory that the run report promises for a process: PROCESS_SHARE times its arenas, plus PROCESS_EXTRA_BYTES,
 * plus RANK_EXTRA_BYTES for each rank after the first. RANK_EXTRA_BYTES covers a rank's stack and the memory that the
 * allocator and libraries reserve for its thread (measured: 240 to 310 KiB with 400 and 1,000 ranks). */
#define PROCESS_EXTRA_BYTES (48LL << 20)
#define RANK_EXTRA_BYTES (384 << 10)
#define PROCESS_SHARE 1.03
#define HOST_SHARE 0.9

/** Upper bounds of the host memory that CUDA takes in a process, in bytes, not measured yet. GPU_HOST_BYTES is for the
 * driver, the libraries and the first GPU. GPU_HOST_MORE_BYTES is for the context and pinned memory of each further
 * GPU. */
#define GPU_HOST_BYTES (2LL << 30)
#define GPU_HOST_MORE_BYTES (1LL << 29)

enum { REMEDIES_BYTES = 256 };

int64_t zr__arena_limit(int64_t limit_bytes, bool own_memory)
{
    if (limit_bytes == 0) return 0;
    double bytes = own_memory ? (double)(limit_bytes - ZR__GPU_EXTRA_BYTES)
                              : ((double)limit_bytes - PROCESS_EXTRA_BYTES) / PROCESS_SHARE;
    return bytes > 1.0 ? (int64_t)bytes : 1;
}

int64_t zr__process_bytes(int64_t total_bytes, int ranks)
{
    const double extra = (double)PROCESS_EXTRA_BYTES + (double)RANK_EXTRA_BYTES * (ranks - 1);
    const double bytes = PROCESS_SHARE * (double)total_bytes * ranks + extra;
    return bytes < 0x1p62 ? (int64_t)bytes : INT64_MAX;
}

int64_t zr__rank_bytes(int64_t limited_bytes, const zr_device_facts *facts)
{
    return facts->own_memory ? limited_bytes + ZR__GPU_EXTRA_BYTES : zr__process_bytes(limited_bytes, 1);
}

int64_t zr__rank_needs(const zr_memory *memory, const zr_device_facts *facts)
{
    return zr__rank_bytes(zr__memory_limited(memory, facts), facts);
}

int64_t zr__train_host_limit(int local_ranks)
{
    int64_t left = zr__host_available_bytes();
    return left > 0 ? (int64_t)(HOST_SHARE * (double)left / local_ranks) : 0;
}

/** List the settings, neither used nor tried yet, that would make the plan smaller. The caller appends one more setting
 * to this text. */
static const char *remedies(const zr_layout *l, const zr__config_open *tried, char text[REMEDIES_BYTES])
{
    static const zr__config_open nothing = {0};
    const zr__config_open *t = tried ? tried : &nothing;
    bool lean = l->states == ZR_STATES_LEAN;
    bool kept = lean && l->norm_first && l->accum == 1 && !l->rank_free_sums && !l->two_pass;
    bool again = zr_recomputes(l->recompute) && l->recompute != ZR_RECOMPUTE_SELECTIVE;
    bool shards = l->ranks > 1 && l->shard_ranks != 1; /* whether a stage divides states at all */
    text[0] = '\0';
    if (!l->train) return text;
    snprintf(text, REMEDIES_BYTES, "%s%s%s%s%s, %sor ",
             l->stage < 3 && shards && !t->stage ? "a higher zero_optimization.stage, " : "",
             again || t->policy ? "" : "activation_checkpointing.policy unit, ", lean ? "" : "memory.layout lean, ",
             kept ? "memory.norm two_pass, " : "", t->batch ? "a smaller seq_length" : "a smaller batch or seq_length",
             l->home.optim == ZR_SPACE_DEVICE && !t->offload ? "offload_optimizer.device nvme, " : "");
    return text;
}

/** Return the maximum number of ranks on one GPU. GPUs are assigned round-robin to the ranks of a process. Two
 * processes never share a GPU. */
static int sharers(int in_process)
{
    const int gpus = zr_device_cuda_count(NULL);
    return gpus > 0 ? (in_process + gpus - 1) / gpus : 1;
}

/** Check that each rank of this process fits on its GPU with the plan, and within memory.limit (limit_bytes, 0 for no
 * limit). If not, fail with ZR_ERR_MEMORY. The message has the plan's numbers. */
static zr_status check_gpu_memory(const zr_plan *plan, int64_t limit_bytes, int in_process,
                                  const zr__config_open *tried)
{
    char use[REMEDIES_BYTES];
    const int64_t there = plan->profile.machine.memory_bytes / sharers(in_process),
                  bytes = zr__rank_bytes(plan->memory.total_bytes, &plan->profile.facts);
    const int64_t limit = limit_bytes > 0 && limit_bytes < there ? limit_bytes : there;
    ZR_CHECK(bytes <= limit, ZR_ERR_MEMORY,
             "the plan needs %s of GPU memory per rank (%s, plus %s for CUDA and its libraries), but %s %s; use %smore "
             "ranks or GPUs (`zr plan` shows each)",
             ZR_SIZE((double)bytes), ZR_SIZE((double)plan->memory.total_bytes), ZR_SIZE((double)ZR__GPU_EXTRA_BYTES),
             limit == there ? "its share of the GPU is" : "memory.limit is", ZR_SIZE((double)limit),
             remedies(&plan->layout, tried, use));
    return ZR_OK;
}

zr_status zr__train_taken_check(const zr_plan *plan, int64_t limit_bytes, int64_t taken_bytes)
{
    const int64_t there = plan->profile.machine.memory_bytes, context = ZR__GPU_EXTRA_BYTES / 2,
                  planned = plan->memory.total_bytes;
    const int64_t limit = limit_bytes > 0 && limit_bytes < there ? limit_bytes : there;
    ZR_CHECK(
        planned + taken_bytes + context <= limit, ZR_ERR_MEMORY,
        "NCCL's communicators and CUDA's libraries have taken %s of GPU memory beside the plan's %s and %s for the "
        "context, but %s %s; let NCCL take less (environment: NCCL_BUFFSIZE=1048576 or NCCL_MAX_CTAS=8), or plan "
        "for less (%s memory.limit)",
        ZR_SIZE((double)taken_bytes), ZR_SIZE((double)planned), ZR_SIZE((double)context),
        limit == there ? "the GPU has" : "memory.limit is", ZR_SIZE((double)limit),
        limit == there ? "with a" : "a lower");
    return ZR_OK;
}

int64_t zr__train_gpu_free(int local_rank)
{
    const int gpus = zr_device_cuda_count(NULL);
    int64_t bytes = 0;
    return gpus > 0 && zr__device_cuda_free(local_rank % gpus, &bytes) == ZR_OK ? bytes : 0;
}

zr_status zr__train_memory_check(const zr_plan *plan, int64_t limit_bytes, int local_ranks, bool threads,
                                 const zr__config_open *tried)
{
    char use[REMEDIES_BYTES];
    const zr_memory *memory = &plan->memory;
    const bool own_memory = plan->profile.facts.own_memory;
    int64_t rank_bytes = zr__plan_process_bytes(plan, 1);
    if (own_memory) ZR_TRY(check_gpu_memory(plan, limit_bytes, threads ? local_ranks : 1, tried));
    const char *total = ZR_SIZE((double)memory->total_bytes), *states = ZR_SIZE((double)memory->states_bytes);
    ZR_CHECK(own_memory || limit_bytes == 0 || rank_bytes <= limit_bytes, ZR_ERR_MEMORY,
             "the plan needs %s per rank (%s, including %s of model states, plus 3 %% and 50.33 MB for the program and "
             "its libraries), but memory.limit is %s; use %smore ranks (`zr plan` shows each)",
             ZR_SIZE((double)rank_bytes), total, states, ZR_SIZE((double)limit_bytes),
             remedies(&plan->layout, tried, use));
    double host_bytes = threads ? (double)zr__plan_process_bytes(plan, local_ranks) : (double)rank_bytes * local_ranks;
    int64_t left = zr__host_available_bytes();
    ZR_CHECK(left < 0 || host_bytes <= (double)left, ZR_ERR_MEMORY,
             "the plan needs %s on this machine (%d rank%s of %s, including %s of model states), but %s are available; "
             "use %sa smaller model",
             ZR_SIZE(host_bytes), local_ranks, local_ranks == 1 ? "" : "s", total, states, ZR_SIZE((double)left),
             remedies(&plan->layout, tried, use));
    return ZR_OK;
}

int64_t zr__plan_staging_bytes(const zr_plan *plan, int ranks)
{
    const bool on_gpu = plan->profile.facts.own_memory && ranks < plan->ranks;
    int64_t all = 0;
    if (!on_gpu) return plan->space_bytes[ZR_SPACE_STAGING];
    for (int32_t g = 0; g < ZR_GROUPS; g++) {
        if (plan->staging[g] == ZR_NONE) continue;
        const int64_t bytes = plan->persistent[plan->staging[g]].bytes,
                      most = ZR_COMM_STAGING_HOST(plan->group[g].size);
        all += bytes < most ? bytes : most;
    }
    return all;
}

int64_t zr__plan_process_bytes(const zr_plan *plan, int ranks)
{
    if (!plan->profile.facts.own_memory) return zr__process_bytes(zr__memory_taken(&plan->memory), ranks);
    const int gpus = zr_device_cuda_count(NULL), used = gpus > 0 && gpus < ranks ? gpus : ranks;
    const int64_t host_bytes = plan->memory.space[ZR_SPACE_HOST].total_bytes + zr__plan_staging_bytes(plan, ranks);
    return zr__process_bytes(host_bytes, ranks) + GPU_HOST_BYTES + (used - 1) * GPU_HOST_MORE_BYTES;
}

int64_t zr__train_limit(const zr_profile *profile, int local_ranks, int in_process)
{
    if (!profile->facts.own_memory) return zr__train_host_limit(local_ranks);
    return profile->machine.memory_bytes / sharers(in_process);
}
