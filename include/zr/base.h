/**
 * base: definitions that every other layer uses. They include status codes, error messages, random numbers, counts of
 * bytes of memory and traffic, and the description of a machine (zr_profile).
 *
 * Every function that can fail returns a zr_status, which the caller must use. Each thread keeps the message of its
 * last failure (zr_error_message) and the functions through which this failure passed (zr_error_trace).
 */
#ifndef ZR_BASE_H
#define ZR_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ZR_API __attribute__((visibility("default")))
#define ZR_NODISCARD __attribute__((warn_unused_result))
#define ZR_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define ZR_API
#define ZR_NODISCARD
#define ZR_PRINTF(fmt, args)
#endif

/* Mark an inline function that GPU kernels can call too. */
#ifdef __CUDACC__
#define ZR_INLINE static inline __host__ __device__
#else
#define ZR_INLINE static inline
#endif

/* ---- status ---------------------------------------------------------------------------------- */

/** List of all status codes, each with its name and text. */
#define ZR_STATUS_LIST(X)                                                                                              \
    X(OK, "success")                                                                                                   \
    X(ERR_ARG, "bad argument")                                                                                         \
    X(ERR_SHAPE, "shapes do not fit")                                                                                  \
    X(ERR_DTYPE, "data type does not fit")                                                                             \
    X(ERR_CONFIG, "bad configuration")                                                                                 \
    X(ERR_DATA, "bad data")                                                                                            \
    X(ERR_NOT_FOUND, "input missing")                                                                                  \
    X(ERR_UNSUPPORTED, "unavailable")                                                                                  \
    X(ERR_MEMORY, "out of memory")                                                                                     \
    X(ERR_CREATE, "cannot create output")                                                                              \
    X(ERR_IO, "input/output error")                                                                                    \
    X(ERR_STOPPED, "stopped on request")                                                                               \
    X(ERR_DIVERGED, "training diverged")                                                                               \
    X(ERR_HANG, "a rank does not answer")                                                                              \
    X(ERR_PEER, "another rank failed")                                                                                 \
    X(ERR_COMM, "communication failed")                                                                                \
    X(ERR_STATE, "call out of order")                                                                                  \
    X(ERR_INTERNAL, "internal error")

typedef enum zr_status {
#define ZR_STATUS_ENUM(name, text) ZR_##name,
    ZR_STATUS_LIST(ZR_STATUS_ENUM)
#undef ZR_STATUS_ENUM
        ZR_STATUS_COUNT
} zr_status;

/** Return the constant text of a status code, such as "success"; never NULL. */
ZR_API const char *zr_status_text(zr_status status);

/** Return the message of this thread's last failure, or "" if no call has failed. The string is valid until the next
 * failure. */
ZR_API const char *zr_error_message(void);

/** Return the functions through which this thread's last failure passed, innermost first. Each line is "function
 * (file:line)". */
ZR_API const char *zr_error_trace(void);

/** Store a failure's message for this thread, start its trace and return `status`. ZR_FAIL calls this function. */
ZR_API zr_status zr_error_set(zr_status status, const char *function, const char *file, int line, const char *format,
                              ...) ZR_PRINTF(5, 6);

/** Add a function to the trace of the current failure and return `status`. ZR_TRY calls this function. */
ZR_API zr_status zr_error_frame(zr_status status, const char *function, const char *file, int line);

/** Fail with a message: `return ZR_FAIL(ZR_ERR_SHAPE, "width %d ...", w);` */
#define ZR_FAIL(status, ...) zr_error_set((status), __func__, __FILE__, __LINE__, __VA_ARGS__)

/** Return from the current function with a failure if `cond` is false because of a mistake of the user. The check is
 * made in every build. The message must give the actual value, the expected value and a way to correct the mistake. */
#define ZR_CHECK(cond, status, ...)                                                                                    \
    do {                                                                                                               \
        if (!(cond)) return ZR_FAIL((status), __VA_ARGS__);                                                            \
    } while (0)

/** Return ZR_ERR_INTERNAL from the current function if `cond` is false because of a bug in zr. The process does not
 * abort. */
#define ZR_ASSERT(cond) ZR_CHECK(cond, ZR_ERR_INTERNAL, "assertion failed: %s", #cond)

/** Evaluate `call`. If it fails, add the current function to the failure's trace, and return the failure's status from
 * the current function. */
#define ZR_TRY(call)                                                                                                   \
    do {                                                                                                               \
        zr_status zr_try_status_ = (call);                                                                             \
        if (zr_try_status_ != ZR_OK) return zr_error_frame(zr_try_status_, __func__, __FILE__, __LINE__);              \
    } while (0)

/** Return the library version, such as "0.1.0". */
ZR_API const char *zr_version(void);

/* ---- memory and traffic ---------------------------------------------------------------------- */

/** Categories of a rank's memory (docs/memory.md). */
#define ZR_CATEGORY_LIST(X)                                                                                            \
    X(PARAM, "param")           /* parameters: shards, and whole units while they are gathered */                      \
    X(GRAD, "grad")             /* gradients: shards, accumulators, and whole units before reduction */                \
    X(OPTIM, "optim")           /* optimizer states: fp32 master, momentum, variance */                                \
    X(ACT, "act")               /* activations, inputs, statistics of rows (mean, rstd, lse) */                        \
    X(CHECKPOINT, "checkpoint") /* activation checkpoints, from which other activations are recomputed */              \
    X(BUFFER, "buffer")         /* staging memory for communication, of constant size */                               \
    X(WORK, "work")             /* scratch memory of kernels, and small results */

typedef enum zr_category {
#define ZR_CATEGORY_ENUM(name, text) ZR_CATEGORY_##name,
    ZR_CATEGORY_LIST(ZR_CATEGORY_ENUM)
#undef ZR_CATEGORY_ENUM
        ZR_CATEGORIES
} zr_category;

/** Memory in use: for each category, the bytes in use now (live_bytes) and their maximum so far (peak_bytes).
 * Zero-initialise. */
typedef struct zr_ledger {
    int64_t live_bytes[ZR_CATEGORIES];
    int64_t peak_bytes[ZR_CATEGORIES];
} zr_ledger;

/** Kinds of traffic, one for each collective. Traffic is the number of bytes that this rank receives from other ranks.
 * Each byte is counted once, by the transport that moves it. */
typedef enum zr_traffic_kind {
    ZR_TRAFFIC_REDUCE_SCATTER,
    ZR_TRAFFIC_ALL_GATHER,
    ZR_TRAFFIC_ALL_REDUCE,
    ZR_TRAFFIC_PIPELINE, /* values from other pipeline ranks */
    ZR_TRAFFIC_KINDS
} zr_traffic_kind;
typedef struct zr_traffic {
    int64_t bytes[ZR_TRAFFIC_KINDS];
} zr_traffic;

/** Return zeroed, 64-byte aligned host memory, or NULL if no memory is available. zr allocates ordinary host memory
 * only with this function. */
ZR_API void *zr_alloc(size_t bytes);
ZR_API void zr_free(void *memory);

/* ---- time ------------------------------------------------------------------------------------ */

/** Return the time of a monotonic clock in seconds. */
ZR_API double zr_clock_sec(void);

/** Callback that reports the progress of a long call: `done` of `all` bytes are processed. It is called about once per
 * megabyte. */
typedef void (*zr_progress_fn)(void *arg, int64_t done, int64_t all);

/* ---- exact sums ------------------------------------------------------------------------------ */

/** Exact sum of F32 values or of their squares (Kulisch's accumulator). The sum does not depend on the order of its
 * terms, nor on the number of ranks that add them. It is a fixed-point number of 20 x 32 bits: limb[0] * 2^-298 +
 * limb[1] * 2^-266 + ... When all carries are propagated, every limb but the last is in [0, 2^32). Zero-initialise. */
#define ZR_EXACT_LIMBS 20
typedef struct zr_exact {
    int64_t limb[ZR_EXACT_LIMBS];
    bool not_finite; /* whether any term was infinite or NaN */
} zr_exact;

/* ---- random numbers -------------------------------------------------------------------------- */

/** Purposes of random numbers. Every random number is a pure function of (seed, purpose, stream, step, element index),
 * computed with Philox-4x32-10 (Salmon et al., SC11). The generator has no state, so random numbers do not depend on
 * ranks, threads or the order of calls. */
typedef enum zr_rng_purpose {
    ZR_RNG_INIT,    /* initial parameter values; the element is the index of a parameter element in the whole model */
    ZR_RNG_DROPOUT, /* dropout; the stream is the index of the dropout op among all dropouts of the graph */
    ZR_RNG_SHUFFLE, /* random order of the data */
    ZR_RNG_SAMPLE,  /* sampling of tokens when text is generated */
    /* random speeds of simulated ranks, with the rank as element; random times of simulated exchanges, with the index
     * of the exchange's step in its schedule as element */
    ZR_RNG_JITTER,
    ZR_RNG_MIX,      /* random order of data sources in a block of samples; the step is the index of the block */
    ZR_RNG_PAIRS,    /* sentence pairs and masks; the step is the epoch */
    ZR_RNG_ROUND,    /* stochastic rounding of records (zr_rounding) */
    ZR_RNG_HOLD_OUT, /* records that are held out for validation */
    /* stochastic rounding of states in records; the stream is the unit, the element its element, and the step the
     * number of earlier updates */
    ZR_RNG_STATES
} zr_rng_purpose;

typedef struct zr_rng {
    uint64_t seed;
    uint32_t purpose;
    uint32_t stream; /* below 2^24 */
    uint32_t step;
} zr_rng;

/** Return element `index` of a random sequence as a uniform 32-bit number. */
ZR_API uint32_t zr_rng_u32(const zr_rng *rng, uint64_t index);
/** Return element `index` of a random sequence as a uniform number in [0, 1). */
ZR_API double zr_rng_uniform(const zr_rng *rng, uint64_t index);
/** Write n standard normal numbers to `out`, beginning with element `first` of a random sequence. The Box-Muller
 * method in fp32 gives each number within 3e-6 of its exact value. No absolute value exceeds 6.7. A number depends
 * only on its index, not on the range that a call asks for. */
ZR_API void zr_rng_normal(const zr_rng *rng, uint64_t first, int64_t n, float *out);

/* ---- machine --------------------------------------------------------------------------------- */

/** Sizes m, n and k of a matrix product, sorted in ascending order, so that the forward product of a weight and its two
 * backward products have equal sizes. */
typedef struct zr_product_sizes {
    int64_t size[3]; /* all 0 if there is no product */
} zr_product_sizes;

/** Measured rate of one kind of matrix products: products of the same sizes with operands of the same type. */
typedef struct zr_product_rate {
    bool bf16; /* whether both operands are bf16; otherwise both are fp32 */
    zr_product_sizes sizes;
    double flops; /* FLOPs per second */
} zr_product_rate;

#define ZR_PRODUCT_RATES 16

struct zr_graph;
struct zr_op;
struct zr_kernel;

/** Properties of a device on which plans depend, such as the scratch memory of its kernels. The device fills them in.
 */
typedef struct zr_device_facts {
    char name[48];      /* name of the device, which plans print, such as "this machine (v4)" */
    int threads;        /* compute threads per rank */
    bool own_memory;    /* whether the device has its own memory, which the processor cannot access */
    bool bf16_products; /* whether matrix products multiply bf16 operands directly, without widening them to fp32 */
    /* whether zr's own kernels multiply on matrix tiles (AMX): bf16 operands directly, and fp32 operands as sums of
     * bf16 parts. If false and bf16_products is true, a library multiplies bf16 operands */
    bool tiles;
    /* whether attention multiplies 16-bit operands directly, without widening them to fp32; on a processor this is
     * possible only for bf16 */
    bool narrow_attention;
    int64_t panel_bytes; /* maximum bytes of a packed operand of a matrix product, or 0 if operands are not packed */
    const struct zr_kernel *kernels; /* user-defined kernels (zr_device_config), or NULL */
    /** Return the scratch bytes that an op's kernel needs, or 0 if the op has no kernel. If an operand has too many
     * elements for the kernel, return more bytes than any plan can provide. The function pointer is NULL if no op
     * needs scratch. */
    int64_t (*scratch_bytes)(const struct zr_device_facts *facts, const struct zr_graph *graph, const struct zr_op *op);
} zr_device_facts;

/** Levels of links between ranks, from near to distant ranks. */
typedef enum zr_link_level {
    /* between threads of one process, which read each other's memory; `zr info --bench` measures this level */
    ZR_LINK_PROCESS,
    ZR_LINK_HOST,  /* between processes of a host through shared memory, or between accelerators of a host (NVLink) */
    ZR_LINK_HOSTS, /* between hosts over the network */
    ZR_LINK_LEVELS
} zr_link_level;

/** Rates of a link. A value of 0 is unknown. */
typedef struct zr_link {
    /* rate at which each rank receives while all ranks of this level communicate, in bytes per second */
    double bytes_sec;
    double latency_sec; /* latency of the first byte of a message, in seconds; not used by estimates yet */
} zr_link;

/** Number of kinds of codes in records (zr/tensor.h): integers of 8 bits, of 4 bits, E4M3, E5M2, and integers of 4 bits
 * that are rotated. Records of 128 and of 256 elements have the same rates. */
#define ZR_RECORD_CODES 5

/** Rates at which kernels make records, with rounding to nearest or at random, and read them, in elements per second.
 * A value of 0 is unknown. */
typedef struct zr_record_rate {
    double encode, encode_random, decode;
} zr_record_rate;

/** Rates of the hardware that one rank uses. A value of 0 is unknown. */
typedef struct zr_machine {
    double flops_f32, flops_bf16; /* peak FLOPs per second */
    /* peak FLOPs per second of 8-bit and 4-bit products, without sparsity; 0 if the device has no such products. zr
     * prices them (zr_cluster.product_bits), but does not compute them */
    double flops_fp8, flops_fp4;
    double memory_bytes_sec;
    int64_t memory_bytes; /* memory capacity, as the maker states it */
    int64_t usable_bytes; /* memory capacity that the device's driver reports */
    zr_link link[ZR_LINK_LEVELS];
    /* whether the devices of a host have no access to each other's memory, so that messages between them pass through
     * the memory of their host (GeForce) */
    bool through_host;
    /* whether ranks communicate by copying memory with their own processor cores, which then cannot compute */
    bool link_copies;
    /** Rates of one rank's disk with offloaded states, in bytes per second; 0 if unknown. `both` is the total rate when
     * reads and writes run at the same time with equal numbers of bytes. */
    double disk_read_bytes_sec, disk_write_bytes_sec, disk_both_bytes_sec;
    /* rate of copies between device memory and host memory, in each direction; 0 if it equals the rate of the device's
     * memory */
    double host_bytes_sec;
    /* for a device with its own memory: rate at which one rank's share of the host's processors reads and writes host
     * memory */
    double host_memory_bytes_sec;
    /** Measured rates of matrix products. A product of other sizes is assumed to run at the rate of the nearest
     * measured sizes. If the array is empty, every product is assumed to run at the peak rate. */
    zr_product_rate product[ZR_PRODUCT_RATES];
    int n_products;
    /** Rates of casts to and from records, in the order of zr_dtype. A cast whose rate is 0 is priced by the bytes that
     * it reads and writes, as on GPUs. */
    zr_record_rate records[ZR_RECORD_CODES];
} zr_machine;

/** Description of a device for the planner. Plans depend on `facts`, and estimated times depend on `machine`. */
typedef struct zr_profile {
    zr_device_facts facts;
    zr_machine machine;
} zr_profile;

#ifdef __cplusplus
}
#endif
#endif
