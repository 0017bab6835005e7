/**
 * device/cuda, internal: GPUs of NVIDIA. This header has the device and its failures; cuda.c is its table of
 * operations, queue.c its marks and times, products.[ch] matrix products by cuBLASLt, rates.c measurement, scratch.[ch]
 * the kernels' scratch, in every build. Headers of kernels: launch.h (begin there), rows.h (loops over rows),
 * indices.h, dropout.h, cross_entropy_rows.h, attention*.h over mma.h and copies.h. kernels/ has a file for each family
 * of ops.
 */
#ifndef ZR_DEVICE_CUDA_H
#define ZR_DEVICE_CUDA_H

#include <cuda_runtime.h>
#include <pthread.h>

#include "zr/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Partial sums of one square or total: blocks of fixed size, whatever the GPU. */
#define ZR__CUDA_PARTS 1024

/** Exponents of an F32. */
#define ZR__CUDA_EXACT_BINS 256

/** Memory of the device that its own steps pass results through; each queue's device has one. */
typedef struct zr__cuda_room {
    double part[ZR__CUDA_PARTS];                    /* sums of a block */
    int64_t bad[ZR__CUDA_PARTS];                    /* the first element of a block that is not finite, -1: none */
    unsigned long long bin[2][ZR__CUDA_EXACT_BINS]; /* exact sums by exponent: low 32 bits of runs' sums, rest */
} zr__cuda_room;

/** The first index of a table, in an operand, that lies outside it. A kernel finds it; `finish` fails with it. */
typedef struct zr__cuda_outside {
    const char *what; /* "target", "token id"; NULL: all lie inside */
    int64_t at, cols; /* its place in the operand, whose rows have `cols` */
    int64_t end;      /* of the table */
    int32_t index;
} zr__cuda_outside;

typedef struct zr__cuda_times zr__cuda_times;
typedef struct zr__cuda_marks zr__cuda_marks;
typedef struct zr__cuda_products zr__cuda_products;

/** First failure of functions that return no status; the next `finish` returns it. */
typedef struct zr__cuda_lost {
    pthread_mutex_t lock; /* one thread fails, another waits for a mark */
    zr_status status;
    char text[256];
} zr__cuda_lost;

/** A device, or the side of one that a queue has: the same GPU, another stream. */
typedef struct zr__cuda_device {
    zr_device base;
    int ordinal;
    cudaStream_t stream;
    zr__cuda_room *room;
    zr__cuda_outside *outside;   /* in memory of the host that the GPU writes to */
    zr__cuda_products *products; /* the library; NULL until a product is prepared (products.c) */
    zr__cuda_marks *marks;       /* NULL where the queue has a thread, which waits for each task's end ... */
    cudaEvent_t ended;           /* ... by this; else NULL */
    zr__cuda_times *times;
    zr__cuda_lost lost;
    bool in_task; /* operations are asynchronous; otherwise they complete before they return */
} zr__cuda_device;

static inline zr__cuda_device *zr__cuda(zr_device *device)
{
    return (zr__cuda_device *)device;
}

/** A failure of the runtime as a status: ZR_ERR_MEMORY where memory is out, ZR_ERR_UNSUPPORTED where the driver or the
 *  GPU does not do, else ZR_ERR_IO: a device of this machine failed. `what` was being done. */
zr_status zr__cuda_failed(cudaError_t error, const char *what);
/** Keep a failure, and its message, that cannot be returned now. */
void zr__cuda_lose(zr__cuda_device *cuda, zr_status status);
/** Return the first failure that was kept; ZR_OK: none. forget: clear it. */
ZR_NODISCARD zr_status zr__cuda_lost_failure(zr__cuda_device *cuda, bool forget);
#define ZR_CUDA(call)                                                                                                  \
    do {                                                                                                               \
        const cudaError_t zr__error = (call);                                                                          \
        if (zr__error != cudaSuccess)                                                                                  \
            return zr_error_frame(zr__cuda_failed(zr__error, #call), __func__, __FILE__, __LINE__);                    \
    } while (0)

/** Make the device's GPU current on the calling thread. Every task begins with it, and so does every operation outside
 *  tasks: a thread may have several devices. */
ZR_NODISCARD zr_status zr__cuda_enter(zr_device *device);

/* ---- queues (queue.c) -------------------------------------------------------------------------- */

zr_status zr__cuda_queue_create(zr_device *device, const zr_queue_config *config, zr_queue **queue);
zr_status zr__cuda_marks_create(zr__cuda_device *cuda);
void zr__cuda_marks_destroy(zr__cuda_device *cuda);
/** Report the times of tasks that have ended; all work launched so far must have completed. */
zr_status zr__cuda_tell_times(zr__cuda_device *cuda);
/* Discard all times that were not reported, after a failure. */
void zr__cuda_forget_times(zr__cuda_device *cuda);

/** Make the same GPU with a stream and a room of its own; destroyed as a device. */
zr_status zr__cuda_side(zr_device *device, zr_queue_runs runs, zr_device **side);

/* ---- rates (rates.c) --------------------------------------------------------------------------- */

void zr__cuda_measure(zr_device *device, zr_dtype dtype);
zr_status zr__cuda_bench(zr_device *device, zr_rates *rates);

/* ---- steps of ZeRO that compute (kernels/shards.cu, optimizer.cu) ------------------------------ */

zr_status zr__cuda_sum(zr_device *device, void *out, zr_dtype out_dtype, bool accumulate, const void *const *pieces,
                       int n_pieces, zr_dtype dtype, int64_t n);
zr_status zr__cuda_square(zr_device *device, const void *x, zr_dtype dtype, int64_t n, bool exact, int64_t first,
                          zr_square *square);
zr_status zr__cuda_total(zr_device *device, const float *x, int64_t n, zr_exact *sum);
zr_status zr__cuda_cast(zr_device *device, void *out, zr_dtype out_dtype, const void *in, zr_dtype dtype, int64_t n);
zr_status zr__cuda_normal(zr_device *device, const zr_rng *rng, uint64_t first, int64_t n, float std, float *out);
zr_status zr__cuda_update(zr_device *device, const zr_optimizer *optimizer, const zr_update_args *args);

#ifdef __cplusplus
}
#endif
#endif
