#include "train/host/device.h"

#include <stdio.h>
#include <stdlib.h>

#include "device/device.h"
#include "train/host/host.h"

/* Count the GPUs that device "auto" may use. If zr's kernels or the matrix-product library cannot run on them, return 0
 * and write the reason to `why`. If the host has no GPU, return 0 and write "". */
static int usable_gpus(char why[ZR__UNUSED_BYTES])
{
    char matmul[64];
    zr__gpu gpu;
    const int gpus = zr_device_cuda_count(NULL);
    snprintf(why, ZR__UNUSED_BYTES, "%s", zr__device_cuda_trouble());
    if (gpus == 0) return 0;
    if (zr__device_cuda_gpu(0, &gpu) != ZR_OK)
        snprintf(why, ZR__UNUSED_BYTES, "%s", zr_error_message());
    else if (gpu.major < 8)
        snprintf(why, ZR__UNUSED_BYTES, "%s has compute capability %d.%d, wanted 8.0 or more", gpu.name, gpu.major,
                 gpu.minor);
    else { /* this check is the last, since it loads the matrix-product library, which takes 150 MB */
        zr__device_cuda_matmul(matmul, sizeof(matmul));
        if (matmul[0]) return gpus;
        snprintf(why, ZR__UNUSED_BYTES, "%s", zr_error_message());
    }
    return 0;
}

bool zr__train_gpus_unused(zr_config_device kind, char why[ZR__UNUSED_BYTES])
{
    return kind == ZR_DEVICE_AUTO && usable_gpus(why) == 0 && why[0];
}

zr_status zr__train_device(zr_config_device kind, int threads, int local_rank, zr_device **made)
{
    char why[ZR__UNUSED_BYTES];
    zr_device_config device = ZR_DEVICE_CONFIG_INIT;
    const int gpus = kind == ZR_DEVICE_CPU ? 0 : kind == ZR_DEVICE_AUTO ? usable_gpus(why) : zr_device_cuda_count(NULL);
    device.threads = threads;
    device.gpu = gpus > 0 ? local_rank % gpus : 0;
    if (kind == ZR_DEVICE_CUDA || gpus > 0) return zr_device_create_cuda(&device, made);
    return zr_device_create_cpu(&device, made);
}

/* A message that NCCL receives keeps the GPU waiting for another rank, which may wait for what this one computes next.
 * Nothing of that may wait for the message: not the loading of a kernel, for which CUDA waits for all work, so kernels
 * are loaded at the start; nor the work of another stream with the same connection to the GPU, so there are as many
 * connections as CUDA allows. */
void zr__train_prepare_messages(void)
{
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

int zr__train_threads(const zr_config *config, int local_ranks)
{
    if (config->train.threads > 0) return (int)config->train.threads;
    int share = zr__host_cores() / (local_ranks > 0 ? local_ranks : 1);
    return share > 1 ? share : 1;
}
