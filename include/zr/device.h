/**
 * device: the interface of a processor or GPU that executes a plan's steps. A device finds the kernel of an op by the
 * op's name. It also has three operations of ZeRO: the sum of gradient pieces, the square norm and the optimizer
 * update. A device does not know its rank.
 */
#ifndef ZR_DEVICE_H
#define ZR_DEVICE_H

#include "zr/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zr_device zr_device;

/* ---- queues ----------------------------------------------------------------------------------- */

/** Queue of tasks, which run in the order in which they are issued. zr_queue_runs determines the thread that runs
 * them. Only one thread may issue tasks to the queues of a device. */
typedef struct zr_queue {
    /* device that the queue passes to its tasks; operations on it are executed in the queue's order */
    zr_device *device;
} zr_queue;

/** Task of a queue. The queue calls `run` once. `run` calls operations on its argument `device`, which is the queue's
 * own device. */
typedef struct zr_task {
    zr_status (*run)(void *arg, zr_device *device, int64_t index);
    /** Callback after the task, with three times in seconds of zr_clock_sec. The queue became free for the task at
     * free_sec. It then waited for other queues until the task began at begin_sec. The task ended at end_sec. NULL if
     * the times are not needed. */
    void (*ended)(void *arg, int64_t index, double free_sec, double begin_sec, double end_sec);
    void *arg;
    int64_t index;
} zr_task;

/** Point in a queue, set by zr_device_ops.mark. The mark covers all tasks that were issued to the queue before it was
 * set. */
typedef struct zr_mark {
    zr_queue *queue; /* queue of the mark; NULL if the mark needs no wait */
    int64_t ticket;
} zr_mark;

/** Ways in which a queue runs its tasks. On an asynchronous device (a GPU) each queue may have its own stream. Work of
 * different streams may overlap. */
typedef enum zr_queue_runs {
    ZR_QUEUE_AT_ONCE, /* tasks run immediately, on the thread that issues them, in the device's stream */
    /* tasks run immediately, on the thread that issues them, but in the queue's own stream; for tasks that only launch
     * asynchronous work */
    ZR_QUEUE_STREAM,
    /* tasks run on a thread of the queue, in the queue's own stream; their operations use one processor thread */
    ZR_QUEUE_THREAD,
    /* tasks run on a thread of the queue, which only issues their work to the queue's own stream: a wait for a mark is
     * a wait of the stream. For calls that wait for other processes until their work is issued. On a synchronous device
     * like ZR_QUEUE_THREAD */
    ZR_QUEUE_ISSUE,
    /* tasks run on a thread of the queue, for computation in host memory. Their operations run on the host's processors
     * with zr_device_config.threads threads */
    ZR_QUEUE_HOST
} zr_queue_runs;

typedef struct zr_queue_config {
    zr_queue_runs runs;
    int32_t most; /* for queues with a thread: maximum number of issued tasks and waits that have not ended */
    bool urgent;  /* whether the device prefers the queue's work, if the queue has its own stream */
} zr_queue_config;

/** Values that change during training. A kernel may depend only on these values and on its operands. */
typedef struct zr_runtime {
    uint64_t seed;
    int64_t step;      /* index of the training step, from 0, used for dropout's random numbers */
    int64_t first_row; /* index of the first row of this micro-batch in the global batch */
    int64_t position;  /* number of tokens in the key-value cache, for decoding */
    int64_t place;     /* index of this rank among the tensor-parallel ranks of its group (zr_graph_spec.tensor) */
    /* for each loss term: gradient of the objective with respect to one of its losses. With one term: loss scale /
     * number of losses in the global batch. With several terms: loss scale / number of the term's losses in the global
     * batch that count, or 0 if that number is 0 */
    float loss_seed[ZR_LOSS_TERMS];
} zr_runtime;

typedef struct zr_kernel_args {
    zr_device *device; /* device of the task's queue */
    const zr_op *op;
    int32_t n_in, n_out;
    const zr_tensor *in; /* operands; an optional operand that is absent has data NULL */
    const zr_tensor *out;
    void *scratch; /* scratch memory, 64-byte aligned, of the size that scratch_bytes returned */
    const zr_runtime *runtime;
    int threads;
    void *state; /* state of the op, made by zr_kernel.prepare */
} zr_kernel_args;

/** Kernel of an op. `prepare` may be NULL. `prepare` is called at start, once for each op, with the final operands, and
 * makes all allocations. `run` must not allocate. The functions prepare, run and release are called on the same thread,
 * except that an engine of a pipeline may have another thread that calls run. */
typedef struct zr_kernel {
    const char *op;
    zr_status (*prepare)(const zr_kernel_args *args, void **state);
    zr_status (*run)(const zr_kernel_args *args);
    void (*release)(void *state);
    /** Return the scratch bytes of one run. The result may depend only on the facts, the graph and the op, because
     * plans are made without a device. NULL if the kernel needs no scratch. A kernel that replaces another gets only
     * the scratch that it asks for here. */
    int64_t (*scratch_bytes)(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op);
} zr_kernel;

typedef struct zr_device_config {
    /* number of compute threads; on a GPU, number of threads for its queues of the kind ZR_QUEUE_HOST; 0 means one
     * thread */
    int threads;
    /* user-defined kernels, which replace the device's own, or NULL. The last entry has op NULL */
    const zr_kernel *kernels;
    int gpu; /* index of the GPU, from 0, for zr_device_create_cuda */
} zr_device_config;

#define ZR_DEVICE_CONFIG_INIT                                                                                          \
    {                                                                                                                  \
        1, NULL, 0                                                                                                     \
    }

/** Rate of one thread alone (`one`) and total rate of all threads together (`all`). 0 if the device cannot do this
 * work. */
typedef struct zr_rate {
    double one, all;
} zr_rate;

/** Peak rates of arithmetic in registers in FLOP/s, an upper bound for the rates of kernels. */
typedef struct zr_peak {
    char level[12]; /* processor level, such as "v3" for x86-64-v3 */
    /* rate of fused multiply-adds, or of separate multiplications and additions if the level has no fused ones */
    zr_rate fma_f32;
    zr_rate dot_bf16; /* bf16 dot products accumulated in F32; 0 if the level has no instruction for them */
} zr_peak;

#define ZR_PEAKS 8

/** Random numbers of stochastic rounding. Element i of a cast is rounded up with the probability that makes the mean of
 * the result equal to the element, within 2^-20 of a code's unit. The decision depends only on random number `first`
 * + i (zr__record_random in src/device/records.h), so that the result does not depend on how a range is divided into
 * casts. */
typedef struct zr_rounding {
    zr_rng rng;     /* of the purpose ZR_RNG_ROUND */
    uint64_t first; /* index of the random number of element 0 */
} zr_rounding;

/** Error feedback (LoCo: Xie et al. 2024): a cast adds the errors of an earlier cast to its elements x, and renews
 * them:
 *
 *     y = x + scale * error
 *     error = (beta * scale * error + (1 - beta) * (y - value of y's record)) / scale
 *
 * All operations round to F32. The new errors are rounded to nearest. They become 0 where the errors of a record would
 * not be finite, or would have a subnormal scale, so that a decoded error is always encoded again without a change. */
typedef struct zr_feedback {
    void *error; /* the error of each element, I8X128 or I8X256, of the same block as the records that the cast makes */
    bool anew;   /* whether errors before the cast are 0, whatever is in `error` */
    float beta;  /* from 0 to below 1 */
    float scale; /* factor of the elements, such as the loss scale, that the errors do not have; above 0 */
} zr_feedback;

/** Options of a cast from or to a type with records. */
typedef struct zr_casting {
    const zr_rounding *rounding; /* random numbers by which records are made, or NULL for rounding to nearest */
    const zr_feedback *feedback; /* errors of the records that are made, or NULL */
    /* array of F32, BF16 or F16, or NULL: element i of the source becomes in[i] + sign * added[i], in F32, before it is
     * converted. May be the output, unless that has records */
    const void *added;
    zr_dtype added_dtype;
    float sign; /* 1 or -1 */
} zr_casting;

/** Level name of GPUs in zr_rates. The peak rates of a GPU are rates of matrix products. */
#define ZR_CUDA_LEVEL "cuda"

/** Measured rates of casts to and from records, as in zr_record_rate. */
typedef struct zr_record_rates {
    zr_rate encode, encode_random, decode;
} zr_record_rates;

/** Measured rates of a device (zr_device_ops.bench). */
typedef struct zr_rates {
    int threads;
    zr_peak peak;            /* peak rates of the processor level in use */
    zr_peak level[ZR_PEAKS]; /* peak rates of all levels that the processor supports, lowest level first */
    int n_levels;
    /* FLOP/s of small square matrix products: rate of one thread times number of threads */
    double matmul_f32, matmul_bf16;
    zr_rate triad; /* memory bandwidth in bytes/s, by the loop a = b + s * c with 12 bytes per element (STREAM triad) */
    /* rate in bytes/s at which threads of one process read each other's memory; `all` is the sum over all threads */
    zr_rate link;
    zr_record_rates records[ZR_RECORD_CODES]; /* zeros if the device does not measure them */
    /* Rates of matrix products with all threads, and the rate of the fastest product in each type. zr_device_ops.bench
     * does not measure these rates. */
    zr_product_rate product[ZR_PRODUCT_RATES];
    int n_products;
    double best_f32, best_bf16;
} zr_rates;

/** Operations of a device. Each kind of device (processors, CUDA) has one table of this type.
 *
 * Arrays must lie in memory from `alloc` or `alloc_host`. The pieces of `sum` may also lie in comm's staging memory.
 * Single results (zr_square, zr_exact) must lie in memory from `alloc_host`.
 *
 * Operations that a task calls are executed in the order of the task's queue. They may complete after the call returns.
 * A later mark includes them, and `finish` and `sync` wait for them. Arguments other than arrays are read before the
 * call returns. Operations called outside a task complete before the call returns. Functions allocate memory only if
 * their comments say so. */
typedef struct zr_device_ops {
    void (*destroy)(zr_device *device);
    /** Create a queue, which must be destroyed before the device. */
    zr_status (*queue_create)(zr_device *device, const zr_queue_config *config, zr_queue **queue);
    void (*queue_destroy)(zr_queue *queue);
    /** Issue a task. If the queue runs tasks immediately, return the task's status. Otherwise a failure is returned by
     * the next `sync`, and later tasks do not run. */
    zr_status (*issue)(zr_queue *queue, const zr_task *task);
    zr_mark (*mark)(zr_queue *queue);
    /** Make all later tasks of `queue` run after a mark. If both queues run tasks immediately, only the stream of
     * `queue` waits, not the calling thread. If only the mark's queue has a thread, the call waits for that thread
     * and returns its failure. */
    zr_status (*await)(zr_queue *queue, zr_mark mark);
    /** Wait for all issued tasks. Return the first failure since the last sync, and store its message for this thread.
     */
    zr_status (*sync)(zr_queue *queue);
    /** Cancel all tasks that have not begun. */
    void (*cancel)(zr_queue *queue);
    /** Wait until all operations of the current queue, and all work for which the queue waits, have completed. Call
     * this in a task. Afterwards the host and other ranks may read the results and overwrite the inputs. */
    zr_status (*finish)(zr_device *device);
    /** Note the current point of this device's work, in place of the point noted before. Call this in a task. */
    zr_status (*note)(zr_device *device);
    /** Wait until the work before the noted point has completed. Return at once if no point was noted. */
    zr_status (*reach)(zr_device *device);
    /** Allocate zeroed, 64-byte aligned device memory. The host may access it only through operations in a queue. Fail
     * with ZR_ERR_MEMORY and the number of bytes in the message. This failure is fatal. */
    zr_status (*alloc)(zr_device *device, int64_t bytes, void **memory);
    void (*free)(zr_device *device, void *memory);
    /** Allocate memory that both the host and the device can access. In all other respects the function is like
     * `alloc`. */
    zr_status (*alloc_host)(zr_device *device, int64_t bytes, void **memory);
    void (*free_host)(zr_device *device, void *memory);
    /** Copy bytes within or between device memory and host memory. The two ranges must not overlap. */
    zr_status (*copy)(zr_device *device, void *to, const void *from, int64_t bytes);
    const zr_kernel *(*kernel)(zr_device *device, const char *op);
    /** Compute out[i] = sum over r of pieces[r][i] in F32, and round it once to out_dtype. The additions form a fixed
     * binary tree over r: first over the pairs (0,1), (2,3) ..., then over pairs of the sums, and so on. A sum without
     * a partner is passed to the next level unchanged. Pieces in a type with records are decoded first; out_dtype is
     * F32, BF16 or F16. With `accumulate`, `out` is F32 and the sum is added to it.
     * `pieces` has n_pieces arrays of n elements. */
    zr_status (*sum)(zr_device *device, void *out, zr_dtype out_dtype, bool accumulate, const void *const *pieces,
                     int n_pieces, zr_dtype dtype, int64_t n);
    /** Add the squares of the n elements of x to square->sum, or to square->exact if `exact` is true. x is F32, BF16
     * or F16. square->sum is a double that is computed in blocks of fixed size, so its bits do not depend on the
     * number of threads. x[0] is element `first` of its unit. If an element is not finite and square->bad is -1, set
     * square->bad to the index in the unit of the first such element. */
    zr_status (*square)(zr_device *device, const void *x, zr_dtype dtype, int64_t n, bool exact, int64_t first,
                        zr_square *square);
    /** Add the squares of args->weight to trust->weight, and the squares of the update's direction (computed from args)
     * to trust->direction (zr_optimizer.trust). With `exact`, add to the member `exact` of each sum. Write nothing
     * else. `first` is the index of the first element in this rank's shard. The sums add blocks of ZR_TRUST_BLOCK
     * elements of the shard one after the other, so their bits do not depend on the number of threads. They also do not
     * change if a range is divided into several calls at multiples of ZR_TRUST_BLOCK. Errors: as `update`. */
    zr_status (*square_update)(zr_device *device, const zr_optimizer *optimizer, const zr_update_args *args, bool exact,
                               int64_t first, zr_trust *trust);
    /** Run the optimizer: unscale and clip the gradient, update the weights and cast them, in one pass over memory.
     * Fail with ZR_ERR_UNSUPPORTED if the device lacks the optimizer's rule. */
    zr_status (*update)(zr_device *device, const zr_optimizer *optimizer, const zr_update_args *args);
    /** Set each byte of x to `byte`. */
    zr_status (*fill)(zr_device *device, void *x, int byte, int64_t bytes);
    /** Map the pages of memory that will be written soon, so that the first write to a page takes less time. The
     * contents do not change. Do nothing if the system does not map pages at their first access. */
    void (*populate)(zr_device *device, void *memory, int64_t bytes);
    /** Convert n elements between F32, BF16, F16 and types with records, or copy them if the types are equal. Elements
     * of a record from n on are set to 0. Records may not overlap the other array. Codes of records are rounded to
     * nearest, ties to even, without casting->rounding, else up or down at random. Other types are always rounded to
     * nearest. `casting` may be NULL, for a conversion alone. */
    zr_status (*cast)(zr_device *device, void *out, zr_dtype out_dtype, const void *in, zr_dtype dtype, int64_t n,
                      const zr_casting *casting);
    /** Add the elements of x (n) to *sum exactly. */
    zr_status (*total)(zr_device *device, const float *x, int64_t n, zr_exact *sum);
    /** Write n normal numbers with standard deviation `std` to `out`. out[i] is std times element first+i of
     * zr_rng_normal's sequence, rounded to F32 again. The bits are the same at every processor level and for any
     * number of threads. */
    void (*normal)(zr_device *device, const zr_rng *rng, uint64_t first, int64_t n, float std, float *out);
    /** Measure the peak FLOP/s for a type, by operations on registers or by a matrix product, whichever is faster.
     * Store the rate in profile.machine: in flops_f32 for F32, and in flops_bf16 for BF16. For F16 it is stored in
     * flops_bf16 on GPUs, and in flops_f32 on processors, because they widen F16 to F32. flops_bf16 becomes 0 if the
     * device widens BF16 to F32. The call takes about 50 ms, and allocates memory for this time. */
    void (*measure)(zr_device *device, zr_dtype dtype);
    /** Measure all rates of zr_rates except `product`, best_f32 and best_bf16, with the device's threads. The call
     * takes 1 to 2 seconds, and allocates memory for this time. Processors allocate three arrays, each four times as
     * large as the last-level cache, but at least 64 MiB and at most 256 MiB. Error: ZR_ERR_MEMORY. */
    zr_status (*bench)(zr_device *device, zr_rates *rates);
} zr_device_ops;

struct zr_device {
    const zr_device_ops *ops;
    zr_profile profile; /* properties of the device, and the rates measured so far */
    void *stream;       /* cudaStream_t of the device's work, or NULL if the device has no stream */
};

/** Create a device for the processor. Its kernels are compiled for one processor level: x86-64-v2, v3, v4, v4 with
 * bf16, v4 with bf16 tiles (AMX), or NEON. To use tiles, the process requests permission from the operating system. By
 * default the level is the highest that the processor has and that ONEDNN_MAX_CPU_ISA allows. However, v4 is used
 * instead of v4bf16 if bf16 products run at half the rate of fp32. ZR_KERNELS selects another level: "v2", "v3", "v4",
 * "v4bf16" or "v4amx". Fail with ZR_ERR_CONFIG if the processor lacks this level. */
ZR_API ZR_NODISCARD zr_status zr_device_create_cpu(const zr_device_config *config, zr_device **device);
ZR_API void zr_device_destroy(zr_device **device);
/** Return the scratch bytes of an op on processors, to plan without a device (zr_device_facts.scratch_bytes). The
 * result is the same at every processor level. */
ZR_API int64_t zr_device_cpu_scratch(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op);
/** Return the name of the processor level in use, such as "v4bf16". The string is constant. */
ZR_API const char *zr_device_cpu_level(void);

/** Create a device for an NVIDIA GPU of compute capability 8.0 or higher. The device has its own stream, so several
 * devices may share one GPU. Products of bf16 or fp16 operands are accumulated in fp32. Products of fp32 operands use
 * fp32, not TF32. User-defined kernels are called as on a processor, but their arrays are in GPU memory, and
 * args->device has the stream. Fail with ZR_ERR_UNSUPPORTED if zr was built without CUDA, if the driver or a library
 * is missing, or if there is no GPU config->gpu. */
ZR_API ZR_NODISCARD zr_status zr_device_create_cuda(const zr_device_config *config, zr_device **device);
/** Return the scratch bytes of an op on GPUs, to plan without a GPU (zr_device_facts.scratch_bytes). */
ZR_API int64_t zr_device_cuda_scratch(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op);

/** Return the number of GPUs that this process may use. If it is 0, *why receives the reason, a constant string of a
 * few words. `why` may be NULL. */
ZR_API int zr_device_cuda_count(const char **why);

#ifdef __cplusplus
}
#endif
#endif
