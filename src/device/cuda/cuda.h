/**
 * device/cuda: the CUDA device, for NVIDIA GPUs. This header declares the device and its failures. cuda.c is the
 * table of operations, queue.c marks and times tasks, products.[ch] multiply matrices by cuBLASLt, rates.c measures
 * rates, and scratch.[ch] compute the kernels' scratch, also in builds without CUDA. Headers of kernels: launch.h (read
 * it first), rows.h (loops over rows), indices.h, exact_sums.h, records.h, dropout.h, cross_entropy_rows.h, and
 * attention*.h, which use mma.h and copies.h. All of it is compiled, not yet run on a GPU (docs/gpu.md).
 *
 * device/cuda/kernels: the kernels, one file for each family of ops.
 */
#ifndef ZR_DEVICE_CUDA_H
#define ZR_DEVICE_CUDA_H

#include <cuda_runtime.h>
#include <pthread.h>

#include "zr/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Number of partial sums of a square norm or a total. Each block of threads computes one partial sum. The number of
 * partial sums, and the elements that each sum covers, are the same on every GPU. */
#define ZR__CUDA_PARTS 1024

/** Number of values that the exponent of an F32 can have. */
#define ZR__CUDA_EXACT_BINS 256

/** Maximum number of pieces that zr__cuda_sum can add. */
#define ZR__CUDA_PIECES 2048

/** Memory on the GPU through which the kernels of ZeRO's steps (kernels/shards.cu) pass results to each other. The
 * device of each queue has separate memory. */
typedef struct zr__cuda_room {
    double part[ZR__CUDA_PARTS];       /* partial sum of each block */
    double other_part[ZR__CUDA_PARTS]; /* partial sum of each block, of a second sum */
    int64_t bad[ZR__CUDA_PARTS]; /* index of each block's first element that is not finite, or -1 if all are finite */
    /* for each exponent: bin[0] is the sum of the low 32 bits of each run's sum, and bin[1] of the high 32 bits */
    unsigned long long bin[2][ZR__CUDA_EXACT_BINS];
    const void *piece[ZR__CUDA_PIECES]; /* addresses of the pieces of a sum */
} zr__cuda_room;

/** The first index in an operand that is outside its table. A kernel records the index, and the next `finish` fails
 * with it. */
typedef struct zr__cuda_outside {
    /* name of the index for messages, such as "target" or "token id"; NULL if all indices are inside their tables */
    const char *what;
    int64_t at,  /* position of the index in the operand */
        cols;    /* number of columns of the operand */
    int64_t end; /* number of rows of the table */
    int32_t index;
    bool in_row; /* whether the index selects a token in a row of the batch, and not a token id of a vocabulary */
} zr__cuda_outside;

typedef struct zr__cuda_times zr__cuda_times;
typedef struct zr__cuda_marks zr__cuda_marks;
typedef struct zr__cuda_products zr__cuda_products;

/** First failure of functions that cannot return a status. The next `finish` returns the failure. */
typedef struct zr__cuda_lost {
    pthread_mutex_t lock; /* a lock, since a thread may store a failure while another thread waits for a mark */
    zr_status status;
    char text[256];
} zr__cuda_lost;

/** A device, or the copy of a device that a queue uses: the same GPU with another stream. */
typedef struct zr__cuda_device {
    zr_device base;
    int ordinal;
    int host_threads; /* number of threads with which a queue of ZR_QUEUE_HOST computes on the host */
    cudaStream_t stream;
    zr__cuda_room *room;
    zr__cuda_outside *outside;   /* record of an index outside its table, written by kernels, in host memory */
    zr__cuda_products *products; /* cuBLASLt's products (products.c), or NULL until the first one is prepared */
    zr__cuda_marks *marks;       /* events that mark the stream, or NULL if the queue waits for the work of each task */
    cudaEvent_t noted;           /* event of the point that zr_device_ops.note noted */
    cudaEvent_t ended; /* event by which the queue's thread waits for the end of a task, or NULL without a thread */
    zr__cuda_times *times;
    zr__cuda_lost lost;
    /* whether operations belong to a task, so that they may return before they complete; other operations complete
     * before they return */
    bool in_task;
} zr__cuda_device;

static inline zr__cuda_device *zr__cuda(zr_device *device)
{
    return (zr__cuda_device *)device;
}

/** Return a failure of the CUDA runtime as a status: ZR_ERR_MEMORY if memory is exhausted, ZR_ERR_UNSUPPORTED if the
 * driver or the GPU is not usable, otherwise ZR_ERR_IO (a device of this machine failed). `what` names the failed
 * operation. */
zr_status zr__cuda_failed(cudaError_t error, const char *what);
/** Store a failure and its message until `finish` returns it, since the caller cannot return a status. */
void zr__cuda_lose(zr__cuda_device *cuda, zr_status status);
/** Return the first stored failure, or ZR_OK if no failure is stored. If `forget`, clear the failure. */
ZR_NODISCARD zr_status zr__cuda_lost_failure(zr__cuda_device *cuda, bool forget);
#define ZR_CUDA(call)                                                                                                  \
    do {                                                                                                               \
        const cudaError_t zr__error = (call);                                                                          \
        if (zr__error != cudaSuccess)                                                                                  \
            return zr_error_frame(zr__cuda_failed(zr__error, #call), __func__, __FILE__, __LINE__);                    \
    } while (0)

/** Make the device's GPU current on the calling thread. Tasks and operations outside tasks begin with this call,
 * because a thread may use several devices. */
ZR_NODISCARD zr_status zr__cuda_enter(zr_device *device);
/** Begin an operation. Outside a task, make the GPU current. Inside a task, the task has already done so. */
ZR_NODISCARD zr_status zr__cuda_begin(zr_device *device);
/** End an operation with its status. Outside a task, wait until a successful operation has completed. */
ZR_NODISCARD zr_status zr__cuda_end(zr_device *device, zr_status status);

/* ---- queues (queue.c) -------------------------------------------------------------------------- */

zr_status zr__cuda_queue_create(zr_device *device, const zr_queue_config *config, zr_queue **queue);
zr_status zr__cuda_marks_create(zr__cuda_device *cuda);
void zr__cuda_marks_destroy(zr__cuda_device *cuda);
/** Report the times of the tasks that have ended. All work launched before this call must have completed. */
zr_status zr__cuda_tell_times(zr__cuda_device *cuda);
/* Discard all times that have not been reported, after a failure. */
void zr__cuda_forget_times(zr__cuda_device *cuda);

/** Create a device on the same GPU, with its own stream and memory for results. Destroy it by zr_device_destroy. */
zr_status zr__cuda_side(zr_device *device, const zr_queue_config *config, zr_device **side);
/* Create the device of the host's processors, for a queue of ZR_QUEUE_HOST. */
zr_status zr__cuda_host(zr_device *device, const zr_queue_config *config, zr_device **host);

/* ---- rates (rates.c) --------------------------------------------------------------------------- */

void zr__cuda_measure(zr_device *device, zr_dtype dtype);
zr_status zr__cuda_bench(zr_device *device, zr_rates *rates);

/* ---- steps of ZeRO that compute (kernels/shards.cu, optimizer.cu) ------------------------------ */

/* Operations of zr_device_ops. zr__cuda_cast and zr__cuda_normal only issue work, in a task or between zr__cuda_begin
 * and zr__cuda_end. */

zr_status zr__cuda_sum(zr_device *device, void *out, zr_dtype out_dtype, bool accumulate, const void *const *pieces,
                       int n_pieces, zr_dtype dtype, int64_t n);
zr_status zr__cuda_square(zr_device *device, const void *x, zr_dtype dtype, int64_t n, bool exact, int64_t first,
                          zr_square *square);
zr_status zr__cuda_total(zr_device *device, const float *x, int64_t n, zr_exact *sum);
zr_status zr__cuda_cast(zr_device *device, void *out, zr_dtype out_dtype, const void *in, zr_dtype dtype, int64_t n,
                        const zr_casting *casting);
zr_status zr__cuda_normal(zr_device *device, const zr_rng *rng, uint64_t first, int64_t n, float std, float *out);
zr_status zr__cuda_update(zr_device *device, const zr_optimizer *optimizer, const zr_update_args *args);
zr_status zr__cuda_square_update(zr_device *device, const zr_optimizer *optimizer, const zr_update_args *args,
                                 bool exact, int64_t first, zr_trust *trust);

#ifdef __cplusplus
}
#endif
#endif
