/*
 * device, internal: calls that higher layers need besides zr/device.h, and the look-up of kernels. All devices share
 * operands.h (operands and attributes of ops), rules.h (constants of dropout and optimizers) and queue.h (queues of
 * tasks). Each device has a folder: cpu/cpu.h, cuda/cuda.h.
 */
#ifndef ZR_DEVICE_DEVICE_H
#define ZR_DEVICE_DEVICE_H

#include "zr/device.h"
#include "zr/graph.h"

/** Return the name and version of the processor's library of matrix products, such as "oneDNN 2.6.3". */
const char *zr__device_cpu_matmul(void);

/** Write the name and version of the GPU's library of matrix products, such as "cuBLASLt 13.1.0", cut to `bytes`. Write
 * "" if the library cannot be loaded, or if zr was built without CUDA. */
void zr__device_cuda_matmul(char *text, int64_t bytes);

/** Return the GPUs for which zr was built, such as "sm_80 sm_90, PTX 90", or "" if zr was built without CUDA. */
const char *zr__device_cuda_built(void);

typedef struct zr__gpu {
    char name[64];
    int64_t memory_bytes;
    int major, minor; /* compute capability */
} zr__gpu;

/** Describe a GPU, without allocating its memory or making it the thread's current GPU. */
ZR_NODISCARD zr_status zr__device_cuda_gpu(int gpu, zr__gpu *found);

/** Find the free bytes of a GPU's memory. The query creates a context, whose memory stays allocated until the process
 * ends. */
ZR_NODISCARD zr_status zr__device_cuda_free(int gpu, int64_t *bytes);

/** Return the kernel of an op in a list whose last entry has a NULL op. Return NULL if the list is NULL or has no
 * kernel of the op. */
const zr_kernel *zr__kernel_find(const zr_kernel *list, const char *op);
/** Return the first kernel of an op in the user's list, or else in the families (NULL-terminated). Return NULL if there
 * is no kernel of the op. */
const zr_kernel *zr__kernel_first(const zr_kernel *user, const zr_kernel *const *family, const char *op);
/** Return whether each operand of the op has few enough elements for the kernels' counters. */
bool zr__op_is_counted(const zr_graph *graph, const zr_op *op);

#endif
