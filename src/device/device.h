/*
 * device, internal: calls that layers above need beside zr/device.h, and the look-up of kernels. All devices share
 * operands.h (operands and attributes of ops), rules.h (constants of dropout and optimizers) and queue.h (queues of
 * tasks). Each device has a folder: cpu/cpu.h, cuda/cuda.h.
 */
#ifndef ZR_DEVICE_DEVICE_H
#define ZR_DEVICE_DEVICE_H

#include "zr/device.h"
#include "zr/graph.h"

/** Return the name and version of the processor's library of matrix products, "oneDNN 2.6.3". */
const char *zr__device_cpu_matmul(void);

/** Write the name and version of the library of matrix products, "cuBLASLt 13.1.0", cut to `bytes`; "" where it cannot
 *  be loaded, or zr was built without CUDA. */
void zr__device_cuda_matmul(char *text, int64_t bytes);

/** Return the GPUs that zr was built for ("sm_80 sm_90, PTX 90"); "" where it was built without CUDA. Constant. */
const char *zr__device_cuda_built(void);

/** Describe a GPU, without taking memory of it or making it the thread's current GPU. */
ZR_NODISCARD zr_status zr__device_cuda_gpu(int gpu, zr_gpu *found);

/** Find the free bytes of a GPU's memory. The query itself creates a context, whose memory stays taken until the
 *  process ends. */
ZR_NODISCARD zr_status zr__device_cuda_free(int gpu, int64_t *bytes);

/** Return the kernel of this op in a list ended by op NULL; NULL: the list, or the kernel in it, does not exist. */
const zr_kernel *zr__kernel_find(const zr_kernel *list, const char *op);
/** Search the user's list, then the families (NULL last). */
const zr_kernel *zr__kernel_first(const zr_kernel *user, const zr_kernel *const *family, const char *op);
/** Return whether the op's operands have few enough elements for the kernels' counters. */
bool zr__op_is_counted(const zr_graph *graph, const zr_op *op);

#endif
