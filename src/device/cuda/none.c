/* Replacements of the GPU functions in builds without CUDA. */
#include "zr/device.h"
#include "device/device.h"

static const char reason[] = "zr was built without CUDA; `make info` shows what the build looked for";

const char *zr__device_cuda_built(void)
{
    return "";
}

const char *zr__device_cuda_trouble(void)
{
    return "";
}

void zr__device_cuda_matmul(char *text, int64_t bytes)
{
    if (bytes > 0) text[0] = '\0';
}

int zr_device_cuda_count(const char **why)
{
    if (why) *why = reason;
    return 0;
}

zr_status zr__device_cuda_gpu(int gpu, zr__gpu *found)
{
    (void)gpu, (void)found;
    return ZR_FAIL(ZR_ERR_UNSUPPORTED, "no GPU: %s", reason);
}

zr_status zr__device_cuda_free(int gpu, int64_t *bytes)
{
    (void)gpu, (void)bytes;
    return ZR_FAIL(ZR_ERR_UNSUPPORTED, "no GPU: %s", reason);
}

zr_status zr_device_create_cuda(const zr_device_config *config, zr_device **device)
{
    (void)config, (void)device;
    return ZR_FAIL(ZR_ERR_UNSUPPORTED, "no GPU: %s", reason);
}
