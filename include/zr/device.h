/**
 * device: executes a plan's steps. A device has kernels for ops, found by the op's name, and the three computing steps
 * of ZeRO: sum of pieces, square norm, update. It does not know its rank.
 */
#ifndef ZR_DEVICE_H
#define ZR_DEVICE_H

#include "zr/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zr_device zr_device;

/* ---- queues ----------------------------------------------------------------------------------- */

/** Queue of work: tasks run in the order in which they were issued; zr_queue_runs says on which thread. One thread
 *  issues to all queues of a device. */
typedef struct zr_queue {
    zr_device *device; /* device handed to the queue's tasks: its operations run in this queue's order */
} zr_queue;

/** Task of a queue: run is called once, with the queue's own device, and calls that device's operations. */
typedef struct zr_task {
    zr_status (*run)(void *arg, zr_device *device, int64_t index);
    /** Callback after the task, with zr_clock_sec's times: when the queue was free for it, when it began (in between,
     *  the queue waited for others), when it ended. NULL: no times are wanted. */
    void (*ended)(void *arg, int64_t index, double free_sec, double begin_sec, double end_sec);
    void *arg;
    int64_t index;
} zr_task;

/** Everything issued to a queue up to some moment. */
typedef struct zr_mark {
    zr_queue *queue; /* NULL: nothing */
    int64_t ticket;
} zr_mark;

/** Ways in which a queue runs its tasks. An asynchronous device (a GPU) has a stream for each queue, and work of
 *  different queues may overlap. */
typedef enum zr_queue_runs {
    ZR_QUEUE_AT_ONCE, /* at once, on the thread that issues, in the device's own stream */
    ZR_QUEUE_STREAM,  /* at once as well, in a stream of its own: for tasks that only launch asynchronous work */
    ZR_QUEUE_THREAD   /* on a thread of its own, in a stream of its own; it computes with one thread of the processor */
} zr_queue_runs;

typedef struct zr_queue_config {
    zr_queue_runs runs;
    int32_t most; /* THREAD: most tasks and waits that may be issued and not yet ended */
} zr_queue_config;

/** Values that change from step to step: everything that a kernel may depend on beside its operands. */
typedef struct zr_runtime {
    uint64_t seed;
    int64_t step;      /* from 0: random numbers of dropout */
    int64_t first_row; /* index of this micro-batch's first row in the global batch */
    int64_t position;  /* DECODE: tokens already in the cache */
    int64_t place;     /* index of this rank among its tensor-parallel ranks (zr_graph_spec.tensor) */
    float loss_seed;   /* loss scale / losses of the global batch: the gradient of each loss */
} zr_runtime;

typedef struct zr_kernel_args {
    zr_device *device; /* device of the task's queue */
    const zr_op *op;
    int32_t n_in, n_out;
    const zr_tensor *in; /* absent optional operands have data NULL */
    const zr_tensor *out;
    void *scratch; /* the kernel's scratch_bytes, 64-byte aligned */
    const zr_runtime *runtime;
    int threads;
    void *state; /* result of `prepare` */
} zr_kernel_args;

/** A kernel. prepare (optional) is called once per op at start with the final operands; all allocations belong there.
 *  run may not allocate. All three functions are called on one thread. */
typedef struct zr_kernel {
    const char *op;
    zr_status (*prepare)(const zr_kernel_args *args, void **state);
    zr_status (*run)(const zr_kernel_args *args);
    void (*release)(void *state);
    /** Return the scratch bytes of one run, from the facts alone, since plans are made without a device. NULL: no
     *  scratch, even where the kernel replaces one that has some. */
    int64_t (*scratch_bytes)(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op);
} zr_kernel;

typedef struct zr_device_config {
    int threads;              /* 0: one */
    const zr_kernel *kernels; /* the user's own, searched first; op NULL ends the list; or NULL */
    int gpu;                  /* zr_device_create_cuda: index of the GPU, from 0 */
} zr_device_config;

#define ZR_DEVICE_CONFIG_INIT                                                                                          \
    {                                                                                                                  \
        1, NULL, 0                                                                                                     \
    }

/** A rate of one thread alone, and of all threads working at once; 0: not possible on this device. */
typedef struct zr_rate {
    double one, all;
} zr_rate;

/** Rate of operations between registers, FLOP/s: an upper bound for kernels. */
typedef struct zr_peak {
    char level[12];   /* processor level, "v3" */
    zr_rate fma_f32;  /* fused multiply-adds; multiplications and additions where the level has none */
    zr_rate dot_bf16; /* dot products of bf16, added in F32; 0: the level has none */
} zr_peak;

#define ZR_PEAKS 8

/** Name of the level of GPUs in zr_rates; its peaks are the rates of matrix products. */
#define ZR_CUDA_LEVEL "cuda"

/** Measured rates of a device (zr_device_ops.bench). */
typedef struct zr_rates {
    int threads;
    zr_peak peak;            /* peak of the level in use */
    zr_peak level[ZR_PEAKS]; /* peaks of every level that the processor has, lowest first */
    int n_levels;
    double matmul_f32, matmul_bf16; /* FLOP/s of small square matrix products, one thread's times threads */
    zr_rate triad;                  /* bytes/s of a = b + s c from memory, 12 bytes an element */
    zr_rate link; /* bytes/s into ranks of one thread that read each other's memory; all: summed over all ranks */
    /* Rates that bench does not measure: of products on all threads, and of the fastest product
     * in each type. */
    zr_product_rate product[ZR_PRODUCT_RATES];
    int n_products;
    double best_f32, best_bf16;
} zr_rates;

/** Operations of a device, one table for each kind of device (processors, CUDA). Arrays lie in memory of the device or
 *  of alloc_host, sum's pieces also in comm's staging; single results (zr_square, zr_exact) in memory of alloc_host.
 *  Operations called in a task are executed in the order of the task's queue, and may complete after the call returns:
 *  marks cover them, `finish` and `sync` wait for them. Arguments other than arrays are read before the call returns.
 *  Operations called outside a task complete before they return. Functions do not allocate unless they say so. */
typedef struct zr_device_ops {
    void (*destroy)(zr_device *device);
    /** Create a queue, to be destroyed before the device. */
    zr_status (*queue_create)(zr_device *device, const zr_queue_config *config, zr_queue **queue);
    void (*queue_destroy)(zr_queue *queue);
    /** Issue a task. Return its status where it runs at once; otherwise a failure shows in `sync`, and later tasks do
     *  not run. */
    zr_status (*issue)(zr_queue *queue, const zr_task *task);
    zr_mark (*mark)(zr_queue *queue);
    /** Have all tasks issued to `queue` from now on run after the mark. A queue that runs at once waits here for the
     *  other queue's thread, and returns its failure; where neither has a thread, only its stream waits. */
    zr_status (*await)(zr_queue *queue, zr_mark mark);
    /** Wait for everything issued; return the first failure since the last sync, with its message on this thread. */
    zr_status (*sync)(zr_queue *queue);
    /** Cancel all tasks that have not begun. */
    void (*cancel)(zr_queue *queue);
    /** In a task: wait until all operations called in its queue, and everything that the queue awaits, have completed.
     *  Then the host, or other ranks, may read their results and overwrite their inputs. */
    zr_status (*finish)(zr_device *device);
    /** Allocate zeroed memory of the device, 64-byte aligned; the host may access it only through the device's
     *  operations in a queue. Fatal ZR_ERR_MEMORY with the bytes. */
    zr_status (*alloc)(zr_device *device, int64_t bytes, void **memory);
    void (*free)(zr_device *device, void *memory);
    /** Allocate memory that both host and device access, otherwise as alloc. */
    zr_status (*alloc_host)(zr_device *device, int64_t bytes, void **memory);
    void (*free_host)(zr_device *device, void *memory);
    /** Copy bytes between memory of the device and of the host, or within either; the two ranges do not overlap. */
    zr_status (*copy)(zr_device *device, void *to, const void *from, int64_t bytes);
    const zr_kernel *(*kernel)(zr_device *device, const char *op);
    /** out[i] = [out[i] +] tree sum over r of piece[r][i]: F32, in a fixed binary tree over r
     *  (pairs (0,1), (2,3) ..., then pairs of pairs; an odd one passes up), rounded once to out's
     *  dtype; accumulate: out is F32 and the tree's sum is added to it. pieces: n_pieces arrays (n). */
    zr_status (*sum)(zr_device *device, void *out, zr_dtype out_dtype, bool accumulate, const void *const *pieces,
                     int n_pieces, zr_dtype dtype, int64_t n);
    /** Add the squares of x (n), F32, BF16 or F16, whose first element is element `first` of its unit: to square->sum
     * in double, in blocks of fixed size, so that the bits are the same for any number of threads, or (`exact`) to
     *  square->exact. Where one is not finite and square->bad is -1, that becomes the first such element of the unit.
     */
    zr_status (*square)(zr_device *device, const void *x, zr_dtype dtype, int64_t n, bool exact, int64_t first,
                        zr_square *square);
    /** Run unscale, clip, update and cast in one pass. ZR_ERR_UNSUPPORTED when the device does not have the rule. */
    zr_status (*update)(zr_device *device, const zr_optimizer *optimizer, const zr_update_args *args);
    /** Set each byte to `byte`. */
    zr_status (*fill)(zr_device *device, void *x, int byte, int64_t bytes);
    /** Back memory that is written soon with pages, where memory gets them only when it is touched; its contents stay.
     */
    void (*populate)(zr_device *device, void *memory, int64_t bytes);
    /** Convert between F32, BF16 and F16, or copy. */
    zr_status (*cast)(zr_device *device, void *out, zr_dtype out_dtype, const void *in, zr_dtype dtype, int64_t n);
    /** Add (n) F32 to *sum, exactly. */
    zr_status (*total)(zr_device *device, const float *x, int64_t n, zr_exact *sum);
    /** out[i] = std times element first+i of zr_rng_normal's sequence, rounded once more: (n) F32, the same bits
     *  at every level and number of threads. */
    void (*normal)(zr_device *device, const zr_rng *rng, uint64_t first, int64_t n, float std, float *out);
    /** Measure the peak in this type: profile.machine.flops_f32 (also for F16, which is widened) or flops_bf16, 0 where
     *  bf16 is widened too; the higher of the rates between registers and of a product. Takes some 50 ms, and memory of
     *  its own meanwhile. */
    void (*measure)(zr_device *device, zr_dtype dtype);
    /** Measure all rates of zr_rates with the device's threads, except the last ones. Takes 1 to 2
     *  seconds, and memory of its own meanwhile: on processors three arrays of four times the last cache each, at least
     *  64 and at most 256 MiB. ZR_ERR_MEMORY. */
    zr_status (*bench)(zr_device *device, zr_rates *rates);
} zr_device_ops;

struct zr_device {
    const zr_device_ops *ops;
    zr_profile profile; /* facts of the device, and the rates measured so far */
    void *stream;       /* the cudaStream_t that orders its work; NULL: it has none */
};

/** Create the device of the processor. It uses the kernels of a level (x86-64-v2, v3, v4, v4 with bf16, v4 with tiles
 *  of bf16, for which the kernel is asked; NEON): the highest that the processor has and ONEDNN_MAX_CPU_ISA allows, but
 *  v4 in place of v4bf16 where bf16 is multiplied at half the rate of fp32; or the level that ZR_KERNELS names ("v2",
 *  "v3", "v4", "v4bf16", "v4amx"), ZR_ERR_CONFIG when the processor does not have it. */
ZR_API ZR_NODISCARD zr_status zr_device_create_cpu(const zr_device_config *config, zr_device **device);
ZR_API void zr_device_destroy(zr_device **device);
/** Return zr_device_facts.scratch_bytes of processors, the same at every level: for plans made without a device. */
ZR_API int64_t zr_device_cpu_scratch(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op);
/** Return the name of the level chosen, "v4bf16". Borrowed, constant. */
ZR_API const char *zr_device_cpu_level(void);

/** Create a device of an NVIDIA GPU of compute capability 8.0 or more, with a stream of its own: several devices may
 *  share one GPU. Products with bf16 and fp16 operands are summed in fp32; fp32 products are fp32's, not TF32's. The
 *  user's own kernels are called as on a processor: their arrays are memory of the GPU, and args->device has the
 *  stream. ZR_ERR_UNSUPPORTED: zr was built without CUDA, the driver or a library is missing, or the GPU does not
 *  exist. */
ZR_API ZR_NODISCARD zr_status zr_device_create_cuda(const zr_device_config *config, zr_device **device);
/** Return zr_device_facts.scratch_bytes of GPUs: for plans made without a GPU. */
ZR_API int64_t zr_device_cuda_scratch(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op);

typedef struct zr_gpu {
    char name[64];
    int64_t memory_bytes;
    int major, minor; /* compute capability */
} zr_gpu;

/** Return how many GPUs this process may use; where 0, *why gets the reason in a few words (constant text; `why` may be
 *  NULL). */
ZR_API int zr_device_cuda_count(const char **why);

#ifdef __cplusplus
}
#endif
#endif
