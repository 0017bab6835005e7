/**
 * device: executes a plan's steps. A device has kernels for ops, found by the op's name, and the three computing steps
 * of ZeRO: the sum of pieces, the square norm and the update. It does not know its rank.
 */
#ifndef ZR_DEVICE_H
#define ZR_DEVICE_H

#include "zr/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zr_device zr_device;

/* ---- queues ----------------------------------------------------------------------------------- */

/** Queue of work. Tasks run in the order in which they were issued; zr_queue_runs says on which thread. Only one thread
 * may issue tasks to a device's queues. */
typedef struct zr_queue {
    zr_device *device; /* device passed to the queue's tasks; operations called through it run in this queue's order */
} zr_queue;

/** Task of a queue. `run` is called once with the queue's own device, and calls that device's operations. */
typedef struct zr_task {
    zr_status (*run)(void *arg, zr_device *device, int64_t index);
    /** Called after the task with times of zr_clock_sec: when the queue became free for the task, when the task began
     * (between these times the queue waited for other queues) and when the task ended. NULL if no times are wanted. */
    void (*ended)(void *arg, int64_t index, double free_sec, double begin_sec, double end_sec);
    void *arg;
    int64_t index;
} zr_task;

/** A point in a queue: everything issued to the queue before zr_device_ops.mark was called. */
typedef struct zr_mark {
    zr_queue *queue; /* NULL if there is nothing to wait for */
    int64_t ticket;
} zr_mark;

/** How a queue runs its tasks. An asynchronous device (a GPU) has a stream for each queue, and work of different queues
 * may overlap. */
typedef enum zr_queue_runs {
    ZR_QUEUE_AT_ONCE, /* immediately, on the issuing thread, in the device's own stream */
    ZR_QUEUE_STREAM,  /* immediately, on the issuing thread, in the queue's own stream; for tasks that only launch
                         asynchronous work */
    ZR_QUEUE_THREAD   /* on the queue's own thread and in the queue's own stream; tasks compute with one processor
                         thread */
} zr_queue_runs;

typedef struct zr_queue_config {
    zr_queue_runs runs;
    int32_t most; /* for THREAD: maximum number of tasks and waits that are issued and not yet ended */
} zr_queue_config;

/** Values that change from step to step: everything besides operands that a kernel may depend on. */
typedef struct zr_runtime {
    uint64_t seed;
    int64_t step;      /* index of the step, from 0; dropout's random numbers depend on it */
    int64_t first_row; /* index of this micro-batch's first row in the global batch */
    int64_t position;  /* for DECODE: number of tokens already in the cache */
    int64_t place;     /* index of this rank among its tensor-parallel ranks (zr_graph_spec.tensor) */
    float loss_seed;   /* gradient of each loss: loss scale / number of losses in the global batch */
} zr_runtime;

typedef struct zr_kernel_args {
    zr_device *device; /* device of the task's queue */
    const zr_op *op;
    int32_t n_in, n_out;
    const zr_tensor *in; /* operands; an absent optional operand has data NULL */
    const zr_tensor *out;
    void *scratch; /* memory of the kernel's scratch_bytes, 64-byte aligned */
    const zr_runtime *runtime;
    int threads;
    void *state; /* state that `prepare` returned */
} zr_kernel_args;

/** A kernel. `prepare` (optional) is called once per op at start with the final operands and makes all allocations;
 * `run` must not allocate. All three functions are called on one thread. */
typedef struct zr_kernel {
    const char *op;
    zr_status (*prepare)(const zr_kernel_args *args, void **state);
    zr_status (*run)(const zr_kernel_args *args);
    void (*release)(void *state);
    /** Return the scratch bytes of one run, computed from the facts alone, since plans are made without a device. NULL
     * if the kernel needs no scratch, even if it replaces a kernel that needs some. */
    int64_t (*scratch_bytes)(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op);
} zr_kernel;

typedef struct zr_device_config {
    int threads;              /* 0 for one thread */
    const zr_kernel *kernels; /* user-defined kernels, which are searched before the device's kernels; the list ends
                                 with op NULL; may be NULL */
    int gpu;                  /* for zr_device_create_cuda: index of the GPU, from 0 */
} zr_device_config;

#define ZR_DEVICE_CONFIG_INIT                                                                                          \
    {                                                                                                                  \
        1, NULL, 0                                                                                                     \
    }

/** Rate of one thread alone (`one`) and of all threads together (`all`); 0 if this device cannot do the work. */
typedef struct zr_rate {
    double one, all;
} zr_rate;

/** Rate of operations between registers in FLOP/s: an upper bound for kernels. */
typedef struct zr_peak {
    char level[12];   /* processor level, such as "v3" */
    zr_rate fma_f32;  /* fused multiply-adds, or multiplications and additions if the level has no fused ones */
    zr_rate dot_bf16; /* dot products of bf16 accumulated in F32, or 0 if the level has none */
} zr_peak;

#define ZR_PEAKS 8

/** Name that zr_rates uses as the level of a GPU, whose peaks are the rates of matrix products. */
#define ZR_CUDA_LEVEL "cuda"

/** Measured rates of a device (zr_device_ops.bench). */
typedef struct zr_rates {
    int threads;
    zr_peak peak;            /* peak of the processor level in use */
    zr_peak level[ZR_PEAKS]; /* peaks of every level that the processor supports, lowest first */
    int n_levels;
    double matmul_f32, matmul_bf16; /* FLOP/s of small square matrix products: the rate of one thread times the
                                       number of threads */
    zr_rate triad;                  /* bytes/s of the loop a = b + s * c on arrays in memory, counting 12 bytes per
                                       element */
    zr_rate link; /* bytes/s received by one-thread ranks that read each other's memory; `all` is the sum over all
                     ranks */
    /* Rates that bench does not measure: products computed by all threads, and the fastest product in each type. */
    zr_product_rate product[ZR_PRODUCT_RATES];
    int n_products;
    double best_f32, best_bf16;
} zr_rates;

/** Operations of a device, one table for each kind of device (processors, CUDA).
 *
 * Arrays lie in memory from alloc or alloc_host; the pieces of `sum` may also lie in comm's staging memory. Single
 * results (zr_square, zr_exact) lie in memory from alloc_host. Operations called in a task are executed in the order of
 * the task's queue and may complete after the call returns: marks cover them, and `finish` and `sync` wait for them.
 * Arguments other than arrays are read before the call returns. Operations called outside a task complete before they
 * return. Functions allocate nothing unless their comments say so. */
typedef struct zr_device_ops {
    void (*destroy)(zr_device *device);
    /** Create a queue, which must be destroyed before the device. */
    zr_status (*queue_create)(zr_device *device, const zr_queue_config *config, zr_queue **queue);
    void (*queue_destroy)(zr_queue *queue);
    /** Issue a task. If the queue runs tasks immediately, return the task's status. Otherwise `sync` reports a failure,
     * and later tasks do not run. */
    zr_status (*issue)(zr_queue *queue, const zr_task *task);
    zr_mark (*mark)(zr_queue *queue);
    /** Make all tasks issued to `queue` from now on run after the mark. If `queue` has no thread but the mark's queue
     * has one, this call waits for that thread and returns its failure; if neither has a thread, only the stream of
     * `queue` waits. */
    zr_status (*await)(zr_queue *queue, zr_mark mark);
    /** Wait for everything issued. Return the first failure since the last sync; its message becomes this thread's. */
    zr_status (*sync)(zr_queue *queue);
    /** Cancel all tasks that have not begun. */
    void (*cancel)(zr_queue *queue);
    /** Wait until all operations called in the current task's queue, and everything that the queue awaits, have
     * completed. Call it in a task. Afterwards the host and other ranks may read the operations' results and overwrite
     * their inputs. */
    zr_status (*finish)(zr_device *device);
    /** Allocate zeroed device memory, 64-byte aligned. The host may access it only through the device's operations in a
     * queue. Fail with ZR_ERR_MEMORY and the number of bytes in the message; this failure is fatal. */
    zr_status (*alloc)(zr_device *device, int64_t bytes, void **memory);
    void (*free)(zr_device *device, void *memory);
    /** Allocate memory that both host and device can access; otherwise like alloc. */
    zr_status (*alloc_host)(zr_device *device, int64_t bytes, void **memory);
    void (*free_host)(zr_device *device, void *memory);
    /** Copy bytes between device and host memory, or within either. The two ranges must not overlap. */
    zr_status (*copy)(zr_device *device, void *to, const void *from, int64_t bytes);
    const zr_kernel *(*kernel)(zr_device *device, const char *op);
    /** Compute out[i] = [out[i] +] sum over r of piece[r][i], in F32 in a fixed binary tree over r (pairs (0,1), (2,3)
     * ..., then pairs of pairs; an operand without a partner moves up unchanged), rounded once to out's dtype. With
     * `accumulate`, out is F32 and the tree's sum is added to it. `pieces` has n_pieces arrays (n). */
    zr_status (*sum)(zr_device *device, void *out, zr_dtype out_dtype, bool accumulate, const void *const *pieces,
                     int n_pieces, zr_dtype dtype, int64_t n);
    /** Add the squares of x (n), of type F32, BF16 or F16, to square->sum or, with `exact`, to square->exact.
     * square->sum is a double, computed in blocks of fixed size, so its bits do not depend on the number of threads.
     * x[0] is element `first` of its unit. If an element is not finite and square->bad is -1, square->bad becomes the
     * first such element's index in the unit. */
    zr_status (*square)(zr_device *device, const void *x, zr_dtype dtype, int64_t n, bool exact, int64_t first,
                        zr_square *square);
    /** Unscale, clip, update and cast in one pass. Fail with ZR_ERR_UNSUPPORTED if the device lacks the optimizer's
     * rule. */
    zr_status (*update)(zr_device *device, const zr_optimizer *optimizer, const zr_update_args *args);
    /** Set each byte of x to `byte`. */
    zr_status (*fill)(zr_device *device, void *x, int byte, int64_t bytes);
    /** Map the pages of memory that will be written soon, if the system otherwise maps a page at its first access. The
     * memory's contents do not change. */
    void (*populate)(zr_device *device, void *memory, int64_t bytes);
    /** Convert between F32, BF16 and F16, or copy if the types are equal. */
    zr_status (*cast)(zr_device *device, void *out, zr_dtype out_dtype, const void *in, zr_dtype dtype, int64_t n);
    /** Add x (n) F32 to *sum exactly. */
    zr_status (*total)(zr_device *device, const float *x, int64_t n, zr_exact *sum);
    /** Write std times element first+i of zr_rng_normal's sequence to out[i], rounded to F32 once more; out is (n). The
     * bits are the same at every processor level and for any number of threads. */
    void (*normal)(zr_device *device, const zr_rng *rng, uint64_t first, int64_t n, float std, float *out);
    /** Measure the peak rate in this type: the rate of operations between registers or of a matrix product, whichever
     * is higher. Store the rate in profile.machine.flops_f32 for F32 and flops_bf16 for BF16. For F16, store it in
     * flops_f32 on processors, which widen F16, and in flops_bf16 on GPUs. flops_bf16 becomes 0 if the device widens
     * BF16 too. Takes about 50 ms, and allocates memory meanwhile. */
    void (*measure)(zr_device *device, zr_dtype dtype);
    /** Measure all rates of zr_rates, except `product`, best_f32 and best_bf16, with the device's threads. Takes 1 to 2
     * seconds and allocates memory meanwhile: on processors three arrays, each four times as large as the last-level
     * cache, but at least 64 and at most 256 MiB. Error: ZR_ERR_MEMORY. */
    zr_status (*bench)(zr_device *device, zr_rates *rates);
} zr_device_ops;

struct zr_device {
    const zr_device_ops *ops;
    zr_profile profile; /* facts of the device, and the rates measured so far */
    void *stream;       /* the cudaStream_t that orders the device's work, or NULL if it has none */
};

/** Create the device of the processor. Its kernels are those of one processor level: x86-64-v2, v3, v4, v4 with bf16,
 * v4 with bf16 tiles (which the operating system must permit on request), or NEON. The level is the highest that the
 * processor has and ONEDNN_MAX_CPU_ISA allows, except that v4 is used instead of v4bf16 if bf16 is multiplied at half
 * the rate of fp32. If ZR_KERNELS names a level ("v2", "v3", "v4", "v4bf16", "v4amx"), that level is used; fail with
 * ZR_ERR_CONFIG if the processor lacks the level. */
ZR_API ZR_NODISCARD zr_status zr_device_create_cpu(const zr_device_config *config, zr_device **device);
ZR_API void zr_device_destroy(zr_device **device);
/** Return zr_device_facts.scratch_bytes for processors, which is the same at every level. For plans made without a
 * device. */
ZR_API int64_t zr_device_cpu_scratch(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op);
/** Return the name of the level in use, such as "v4bf16". The string is constant. */
ZR_API const char *zr_device_cpu_level(void);

/** Create a device for an NVIDIA GPU of compute capability 8.0 or higher, with its own stream, so that several devices
 * may share one GPU. Products of bf16 and fp16 operands are summed in fp32; fp32 products use fp32, not TF32.
 * User-defined kernels are called as on a processor, but their arrays are GPU memory, and args->device has the stream.
 * Fail with ZR_ERR_UNSUPPORTED if zr was built without CUDA, the driver or a library is missing, or the GPU does not
 * exist. */
ZR_API ZR_NODISCARD zr_status zr_device_create_cuda(const zr_device_config *config, zr_device **device);
/** Return zr_device_facts.scratch_bytes for GPUs. For plans made without a GPU. */
ZR_API int64_t zr_device_cuda_scratch(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op);

/** Return the number of GPUs that this process may use. If it is 0, *why (unless `why` is NULL) receives the reason
 * in a few words of constant text. */
ZR_API int zr_device_cuda_count(const char **why);

#ifdef __cplusplus
}
#endif
#endif
