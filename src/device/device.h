/*
 * device: the devices that execute ops. This header has functions for higher layers beyond zr/device.h, and the look-up
 * of kernels.
 *
 * All devices share operands.h (operands and attributes of ops), rules.h (constants of dropout and optimizers),
 * records.h (elements with a common scale) and queue.h (task queues). Each device has its own folder: cpu/ or cuda/.
 */
#ifndef ZR_DEVICE_DEVICE_H
#define ZR_DEVICE_DEVICE_H

#include "zr/device.h"
#include "zr/graph.h"

/** Return the name and version of the CPU's matrix-product library, such as "oneDNN 2.6.3". */
const char *zr__device_cpu_matmul(void);

/** Write the name and version of the GPU's matrix-product library, such as "cuBLASLt 13.1.0", to `text`. A name longer
 * than `bytes` bytes is truncated. Write "" if the library cannot be loaded, or if zr was built without CUDA. */
void zr__device_cuda_matmul(char *text, int64_t bytes);

/** Return the GPU architectures for which zr was built, such as "sm_80 sm_90, PTX 90". Return "" if zr was built
 * without CUDA. */
const char *zr__device_cuda_built(void);

/** Return the reason why GPUs with a driver cannot be used, such as "the driver is older than the CUDA that zr was
 * built with". Return "" if they can be used, or if there is no driver, no GPU or no CUDA. */
const char *zr__device_cuda_trouble(void);

typedef struct zr__gpu {
    char name[64];
    int64_t memory_bytes;
    int major, minor; /* compute capability */
} zr__gpu;

/** Query the name, memory and compute capability of a GPU. The query allocates no GPU memory and does not change the
 * thread's current GPU. */
ZR_NODISCARD zr_status zr__device_cuda_gpu(int gpu, zr__gpu *found);

/** Set *bytes to the free memory of a GPU. The query creates a CUDA context, which occupies GPU memory until the
 * process ends. */
ZR_NODISCARD zr_status zr__device_cuda_free(int gpu, int64_t *bytes);

/** Return the kernel of an op from a list, which ends with an entry whose `op` is NULL. Return NULL if the list is NULL
 * or has no kernel of the op. */
const zr_kernel *zr__kernel_find(const zr_kernel *list, const char *op);
/** Return the kernel of an op: the user's own kernel if there is one, else zr's kernel. `family` is a NULL-terminated
 * array of zr's kernel lists. Return NULL if no list has a kernel of the op. */
const zr_kernel *zr__kernel_first(const zr_kernel *user, const zr_kernel *const *family, const char *op);
/** Check the types of a cast, and what `casting` asks for. */
zr_status zr__check_cast(zr_dtype out_dtype, zr_dtype dtype, const zr_casting *casting);
/** Return whether every operand of the op is small enough that index computations in kernels cannot overflow. */
bool zr__op_is_counted(const zr_graph *graph, const zr_op *op);

#endif
