/**
 * device: what executes. A device has kernels for ops, found by the op's name, and the three steps
 * of ZeRO that compute: sum pieces, square norm, update. It knows no rank.
 */
#ifndef ZR_DEVICE_H
#define ZR_DEVICE_H

#include "zr/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zr_device zr_device;

/* ---- queues ----------------------------------------------------------------------------------- */

/** Where work is issued: tasks run in the order in which they were issued; zr_queue_runs says on which thread. One
 * thread issues to all queues of a device. */
typedef struct zr_queue {
    zr_device *device; /* what tasks of this queue are given: its operations run in this queue's order */
} zr_queue;

/** What a queue is given: run is called once, with the queue's own device, and calls that device's operations. */
typedef struct zr_task {
    zr_status (*run)(void *arg, zr_device *device, int64_t index);
    /** NULL: no times are wanted. Called when it has ended: when the queue was free for it, when it began (in between,
     *  the queue waited for others), when it ended; zr_clock_sec. */
    void (*ended)(void *arg, int64_t index, double free_sec, double begin_sec, double end_sec);
    void *arg;
    int64_t index;
} zr_task;

/** All that was issued to a queue up to some moment. */
typedef struct zr_mark {
    zr_queue *queue; /* NULL: nothing */
    int64_t ticket;
} zr_mark;

/** How a queue runs its tasks. A device that works later (a GPU) has a stream for each of them: what tasks of one ask
 * for happens beside what those of another do. */
typedef enum zr_queue_runs {
    ZR_QUEUE_AT_ONCE, /* at once, on the thread that issues, in the device's own stream */
    ZR_QUEUE_STREAM,  /* at once as well, in a stream of its own: for tasks that only ask */
    ZR_QUEUE_THREAD   /* on a thread of its own, in a stream of its own; it computes with one thread of the processor */
} zr_queue_runs;

typedef struct zr_queue_config {
    zr_queue_runs runs;
    int32_t most; /* THREAD: tasks and waits that may be issued and not yet ended */
} zr_queue_config;

/** What changes from step to step; all that a kernel may depend on beside its operands. */
typedef struct zr_runtime {
    uint64_t seed;
    int64_t step;      /* from 0: random numbers of dropout */
    int64_t first_row; /* index of this micro-batch's first row in the global batch */
    int64_t position;  /* DECODE: tokens already in the cache */
    int64_t place;     /* of the ranks that share a layer (zr_graph_spec.tensor): which this one is */
    float loss_seed;   /* loss scale / losses of the global batch: the gradient of each loss */
} zr_runtime;

typedef struct zr_kernel_args {
    zr_device *device; /* that of the task's queue */
    const zr_op *op;
    int32_t n_in, n_out;
    const zr_tensor *in; /* absent optional operands have data NULL */
    const zr_tensor *out;
    void *scratch; /* the kernel's scratch_bytes, 64-byte aligned */
    const zr_runtime *runtime;
    int threads;
    void *state; /* what prepare made */
} zr_kernel_args;

/** A kernel. prepare (optional) is called once per op at start with the final operands: everything
 *  that allocates belongs there. run may not allocate. All three are called on one thread. */
typedef struct zr_kernel {
    const char *op;
    zr_status (*prepare)(const zr_kernel_args *args, void **state);
    zr_status (*run)(const zr_kernel_args *args);
    void (*release)(void *state);
    /** Scratch of one run, by the facts alone: plans are made where no device is. NULL: none, also where the kernel
     *  takes the place of one that has some. */
    int64_t (*scratch_bytes)(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op);
} zr_kernel;

typedef struct zr_device_config {
    int threads;              /* 0: one */
    const zr_kernel *kernels; /* the user's own, searched first; op NULL ends the list; or NULL */
    int gpu;                  /* zr_device_create_cuda: which one, from 0 */
} zr_device_config;

#define ZR_DEVICE_CONFIG_INIT                                                                                          \
    {                                                                                                                  \
        1, NULL, 0                                                                                                     \
    }

/** A rate of one thread alone, and of all threads together while all work; 0: not possible here. */
typedef struct zr_rate {
    double one, all;
} zr_rate;

/** Operations between registers, FLOP/s: what no kernel exceeds. */
typedef struct zr_peak {
    char level[12];   /* processor level, "v3" */
    zr_rate fma_f32;  /* fused multiply-adds; multiplications and additions where the level has none */
    zr_rate dot_bf16; /* dot products of bf16, added in F32; 0: the level has none */
} zr_peak;

#define ZR_PEAKS 8

/** The one level of GPUs in zr_rates: their peaks are what products reach. */
#define ZR_CUDA_LEVEL "cuda"

/** What a device reaches, measured (zr_device_ops.bench). */
typedef struct zr_rates {
    int threads;
    zr_peak peak;            /* of the level that is used */
    zr_peak level[ZR_PEAKS]; /* of every level that the processor has, lowest first */
    int n_levels;
    double matmul_f32, matmul_bf16; /* FLOP/s of small square matrix products, one thread's times threads */
    zr_rate triad;                  /* bytes/s of a = b + s c from memory, 12 bytes an element */
    zr_rate link; /* bytes/s into ranks of one thread that read each other's memory; all: of all of them */
    /* What bench leaves out (zr_rates_add_products): products of all threads, and the fastest of those in each type. */
    zr_product_rate product[ZR_PRODUCT_RATES];
    int n_products;
    double best_f32, best_bf16;
} zr_rates;

/** What a device does; one table for each kind of device (processors, CUDA). Arrays lie in memory of the device or of
 *  alloc_host, sum's pieces in comm's staging as well; single results (zr_square, zr_exact) in memory of alloc_host.
 *  What a function is asked for in a task happens in the order of the task's queue, and may happen after it returns:
 *  marks stand for it too, `finish` and `sync` wait for it. What its arguments point to beside arrays is read before it
 *  returns. Outside a task it has happened by then. No function allocates but those that say so. */
typedef struct zr_device_ops {
    void (*destroy)(zr_device *device);
    /** To be destroyed before the device. */
    zr_status (*queue_create)(zr_device *device, const zr_queue_config *config, zr_queue **queue);
    void (*queue_destroy)(zr_queue *queue);
    /** The status of the task where it runs at once; otherwise a failure shows in `sync`, and what was issued
     *  behind it does not run. */
    zr_status (*issue)(zr_queue *queue, const zr_task *task);
    zr_mark (*mark)(zr_queue *queue);
    /** What is issued to `queue` from now on runs when the mark's queue has come so far. A queue that runs at once
     *  waits here until the other's thread has, and returns its failure; where neither has a thread, only its stream
     *  waits. */
    zr_status (*await)(zr_queue *queue, zr_mark mark);
    /** Wait for all that was issued; the first failure since the last sync, whose message is this thread's. */
    zr_status (*sync)(zr_queue *queue);
    /** What has not begun never does. */
    void (*cancel)(zr_queue *queue);
    /** In a task: wait until all that was asked for in its queue has happened, and all that the queue awaits. Then the
     *  host, or other ranks, may go on with what it leaves, or change what it reads. */
    zr_status (*finish)(zr_device *device);
    /** 64-byte aligned, zeroed. Fatal ZR_ERR_MEMORY with the bytes. Memory of the device: the host may not touch it but
     *  through the device's operations in a queue. */
    zr_status (*alloc)(zr_device *device, int64_t bytes, void **memory);
    void (*free)(zr_device *device, void *memory);
    /** Likewise, memory that both touch. */
    zr_status (*alloc_host)(zr_device *device, int64_t bytes, void **memory);
    void (*free_host)(zr_device *device, void *memory);
    /** Bytes between memory of the device and of the host, or within either; the two places do not overlap. */
    zr_status (*copy)(zr_device *device, void *to, const void *from, int64_t bytes);
    const zr_kernel *(*kernel)(zr_device *device, const char *op);
    /** out[i] = [out[i] +] tree sum over r of piece[r][i]: F32, in a fixed binary tree over r
     *  (pairs (0,1), (2,3) ..., then pairs of pairs; an odd one passes up), rounded once to out's
     *  dtype; accumulate: out is F32 and the tree's sum is added to it. pieces: n_pieces arrays (n). */
    zr_status (*sum)(zr_device *device, void *out, zr_dtype out_dtype, bool accumulate, const void *const *pieces,
                     int n_pieces, zr_dtype dtype, int64_t n);
    /** Add the squares of (n) F32, BF16 or F16, the first of which is element `first` of its unit: to square->sum in
     *  double, in blocks of fixed size, so that the bits are the same for any number of threads, or (`exact`) to
     *  square->exact. Where one is not finite and square->bad is -1, that becomes the first such element of the unit.
     */
    zr_status (*square)(zr_device *device, const void *x, zr_dtype dtype, int64_t n, bool exact, int64_t first,
                        zr_square *square);
    /** One pass of unscale, clip, update and cast. ZR_ERR_UNSUPPORTED when there is no such rule. */
    zr_status (*update)(zr_device *device, const zr_optimizer *optimizer, const zr_update_args *args);
    /** Each byte becomes `byte`. */
    zr_status (*fill)(zr_device *device, void *x, int byte, int64_t bytes);
    /** Take the pages of memory that is written soon, where memory gets them only when it is touched; what stands there
     *  stays. */
    void (*populate)(zr_device *device, void *memory, int64_t bytes);
    /** From one of F32, BF16 and F16 to another, or a plain copy. */
    zr_status (*cast)(zr_device *device, void *out, zr_dtype out_dtype, const void *in, zr_dtype dtype, int64_t n);
    /** *sum += (n) F32, exactly. */
    zr_status (*total)(zr_device *device, const float *x, int64_t n, zr_exact *sum);
    /** out[i] = std times element first+i of zr_rng_normal's sequence, rounded once more: (n) F32, the same bits
     *  at every level and number of threads. */
    void (*normal)(zr_device *device, const zr_rng *rng, uint64_t first, int64_t n, float std, float *out);
    /** Measure the peak in this type: profile.machine.flops_f32 (F16: the same, it is widened) or flops_bf16, 0 where
     *  bf16 is widened too; between registers or of a product, whichever is more. Takes some 50 ms, and memory of its
     *  own meanwhile. */
    void (*measure)(zr_device *device, zr_dtype dtype);
    /** Measure all that zr_rates has, with the device's threads. Takes 1 to 2 seconds, and memory of its own
     *  meanwhile: on processors three arrays of four times the last cache each, at least 64 and at most 256 MiB.
     *  ZR_ERR_MEMORY. */
    zr_status (*bench)(zr_device *device, zr_rates *rates);
} zr_device_ops;

struct zr_device {
    const zr_device_ops *ops;
    zr_profile profile; /* its facts; rates as far as they were measured */
    void *stream;       /* what its work is ordered by: a cudaStream_t; NULL: nothing such */
};

/** The processor. Kernels for the best level that it has and that ONEDNN_MAX_CPU_ISA leaves (x86-64-v2, v3, v4, v4
 *  with bf16, v4 with tiles of bf16, for which the kernel is asked; NEON): the highest, but v4 in place of v4bf16 where
 *  bf16 is multiplied at half the rate of fp32. Or the one that ZR_KERNELS names
 * ("v2", "v3", "v4", "v4bf16", "v4amx"); ZR_ERR_CONFIG when it names one that is not there. */
ZR_API ZR_NODISCARD zr_status zr_device_create_cpu(const zr_device_config *config, zr_device **device);
ZR_API void zr_device_destroy(zr_device **device);
/** zr_device_facts.scratch_bytes of processors, the same at every level: for plans where no device is made. */
ZR_API int64_t zr_device_cpu_scratch(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op);
/** Name of the level chosen, "v4bf16"; oneDNN's version. Borrowed, constant. */
ZR_API const char *zr_device_cpu_level(void);
ZR_API const char *zr_device_cpu_matmul(void);

/** A GPU of NVIDIA, of compute capability 8.0 or more, with a stream of its own: several devices may share one GPU.
 * What kernels compute with bf16 and fp16 operands is summed in fp32; fp32 products are fp32's, not TF32's. The user's
 * own kernels are called as on a processor: their arrays are memory of the GPU, and args->device tells the stream.
 *  ZR_ERR_UNSUPPORTED: zr was built without CUDA, no driver or library is there, no such GPU. */
ZR_API ZR_NODISCARD zr_status zr_device_create_cuda(const zr_device_config *config, zr_device **device);
/** zr_device_facts.scratch_bytes of GPUs: for plans where none is. */
ZR_API int64_t zr_device_cuda_scratch(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op);
/** The library of products and its version, "cuBLASLt 13.1.0", in so many bytes; empty where it cannot be loaded, or zr
 *  was built without CUDA. */
ZR_API void zr_device_cuda_matmul(char *text, int64_t bytes);

typedef struct zr_gpu {
    char name[64];
    int64_t memory_bytes;
    int major, minor; /* compute capability */
} zr_gpu;

/** For what GPUs zr was built ("sm_80 sm_90, PTX 90"); "" where it was built without CUDA. Constant. */
ZR_API const char *zr_device_cuda_built(void);
/** How many GPUs this process may use; 0 where there is none, and *why says so in a few words (constant text, NULL: not
 *  asked). */
ZR_API int zr_device_cuda_count(const char **why);
/** Neither takes memory of the GPU nor makes it the thread's own. */
ZR_API ZR_NODISCARD zr_status zr_device_cuda_gpu(int gpu, zr_gpu *found);
/** Memory of it that nobody has taken. To ask takes some, as long as the process runs: a context. */
ZR_API ZR_NODISCARD zr_status zr_device_cuda_free(int gpu, int64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
