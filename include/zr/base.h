/**
 * base: the foundation of every layer: status codes, error text, counter-based random numbers, memory and traffic
 * ledgers, and the plain description of a machine (zr_profile): what its kernels need and the rates that it reaches.
 *
 * Errors: every fallible function returns a must-use zr_status. Each thread keeps the message of its last failure, and
 * the trace of the calls through which the failure passed (zr_error_message).
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

/* Marks inline functions that GPU kernels call as well. */
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

/** Return the message of this thread's last failure, or "" if there was none. It is valid until the next failure. */
ZR_API const char *zr_error_message(void);

/** Return the functions that the last failure passed through, innermost first, one "function (file:line)" per line. */
ZR_API const char *zr_error_trace(void);

/** Record a failure: set this thread's message, start its trace and return `status`. */
ZR_API zr_status zr_error_set(zr_status status, const char *function, const char *file, int line, const char *format,
                              ...) ZR_PRINTF(5, 6);

/** Add a frame to the trace of the failure in progress; return `status`. */
ZR_API zr_status zr_error_frame(zr_status status, const char *function, const char *file, int line);

/** Fail with a message: `return ZR_FAIL(ZR_ERR_SHAPE, "width %d ...", w);` */
#define ZR_FAIL(status, ...) zr_error_set((status), __func__, __FILE__, __LINE__, __VA_ARGS__)

/** Check for a mistake of the user, in every build. The message must name the value given, the value wanted and how to
 * correct it. */
#define ZR_CHECK(cond, status, ...)                                                                                    \
    do {                                                                                                               \
        if (!(cond)) return ZR_FAIL((status), __VA_ARGS__);                                                            \
    } while (0)

/** Check for a bug in zr itself: return ZR_ERR_INTERNAL rather than abort. */
#define ZR_ASSERT(cond) ZR_CHECK(cond, ZR_ERR_INTERNAL, "assertion failed: %s", #cond)

/** Return from this function if `call` fails, with its status, and add this function to the failure's trace. */
#define ZR_TRY(call)                                                                                                   \
    do {                                                                                                               \
        zr_status zr_try_status_ = (call);                                                                             \
        if (zr_try_status_ != ZR_OK) return zr_error_frame(zr_try_status_, __func__, __FILE__, __LINE__);              \
    } while (0)

/** Do the same as ZR_TRY, but jump to a cleanup label: `zr_status st = ZR_OK; ZR_TRY_GOTO(st, call, done);` */
#define ZR_TRY_GOTO(st, call, label)                                                                                   \
    do {                                                                                                               \
        (st) = (call);                                                                                                 \
        if ((st) != ZR_OK) {                                                                                           \
            (st) = zr_error_frame((st), __func__, __FILE__, __LINE__);                                                 \
            goto label;                                                                                                \
        }                                                                                                              \
    } while (0)

/** Return the library version, such as "0.1.0". */
ZR_API const char *zr_version(void);

/* ---- memory and traffic ---------------------------------------------------------------------- */

/** Uses of a rank's memory (docs/memory.md). */
#define ZR_CATEGORY_LIST(X)                                                                                            \
    X(PARAM, "param")           /* parameter shards, and whole units while gathered */                                 \
    X(GRAD, "grad")             /* gradients: shards, accumulators, and units before reduction */                      \
    X(OPTIM, "optim")           /* optimizer states: fp32 master, momentum, variance */                                \
    X(ACT, "act")               /* activations, inputs, per-row statistics */                                          \
    X(CHECKPOINT, "checkpoint") /* activation checkpoints (recompute) */                                               \
    X(BUFFER, "buffer")         /* staging memory, whose size is constant */                                           \
    X(WORK, "work")             /* scratch memory of one step */

typedef enum zr_category {
#define ZR_CATEGORY_ENUM(name, text) ZR_CATEGORY_##name,
    ZR_CATEGORY_LIST(ZR_CATEGORY_ENUM)
#undef ZR_CATEGORY_ENUM
        ZR_CATEGORIES
} zr_category;

ZR_API const char *zr_category_name(zr_category category);

/** Bytes in use now and their high-water mark, per category. Zero-initialise. */
typedef struct zr_ledger {
    int64_t live_bytes[ZR_CATEGORIES];
    int64_t peak_bytes[ZR_CATEGORIES];
} zr_ledger;

ZR_API void zr_ledger_take(zr_ledger *ledger, zr_category category, int64_t bytes);
ZR_API void zr_ledger_give(zr_ledger *ledger, zr_category category, int64_t bytes);

/** Kinds of traffic, one for each collective. Traffic is the bytes that this rank receives from other ranks. Each byte
 * is counted once, by the transport that moves it. */
typedef enum zr_traffic_kind {
    ZR_TRAFFIC_REDUCE_SCATTER,
    ZR_TRAFFIC_ALL_GATHER,
    ZR_TRAFFIC_ALL_REDUCE,
    ZR_TRAFFIC_KINDS
} zr_traffic_kind;
typedef struct zr_traffic {
    int64_t bytes[ZR_TRAFFIC_KINDS];
} zr_traffic;

/** Add `bytes` to the count of `kind`. Transports call this where bytes move; traffic is counted nowhere else. */
ZR_API void zr_traffic_count(zr_traffic *traffic, zr_traffic_kind kind, int64_t bytes);

/** Return zeroed host memory, 64-byte aligned, or NULL if memory is short. zr allocates all of its memory here. */
ZR_API void *zr_alloc(size_t bytes);
ZR_API void zr_free(void *memory);

/* ---- time ------------------------------------------------------------------------------------ */

/** Return the time of a monotonic clock in seconds. */
ZR_API double zr_clock_sec(void);

/** Callback that reports the progress of a long call: `done` of `all` bytes. It is called about once per megabyte. */
typedef void (*zr_progress_fn)(void *arg, int64_t done, int64_t all);

/* ---- exact sums ------------------------------------------------------------------------------ */

/** A sum of F32 values, or of squares of F32 values, computed without rounding (Kulisch's accumulator). It does not
 * depend on the order in which terms are added or on the number of ranks that add them. It is a fixed-point number of
 * 20 x 32 bits: limb[0] 2^-298 + limb[1] 2^-266 + .... After a carry all limbs but the last lie in [0, 2^32).
 * Zero-initialise. */
#define ZR_EXACT_LIMBS 20
typedef struct zr_exact {
    int64_t limb[ZR_EXACT_LIMBS];
    bool not_finite; /* whether any term was infinite or NaN */
} zr_exact;

/* ---- random numbers -------------------------------------------------------------------------- */

/** Purposes of random numbers. Every random number is a pure function of (seed, purpose, stream, step, element index),
 * computed with Philox-4x32-10 (Salmon et al., SC11). There is no state, so numbers do not depend on ranks, threads or
 * order. */
typedef enum zr_rng_purpose {
    ZR_RNG_INIT,    /* initial values: stream 0, element = index over all parameters of the model */
    ZR_RNG_DROPOUT, /* dropout: stream = the dropout's number in the graph */
    ZR_RNG_SHUFFLE, /* order of the data */
    ZR_RNG_SAMPLE,  /* sampling of tokens in text generation */
    ZR_RNG_JITTER,  /* speed of simulated devices: element = rank */
    ZR_RNG_MIX      /* choice of the data source of a sample: element = sample */
} zr_rng_purpose;

typedef struct zr_rng {
    uint64_t seed;
    uint32_t purpose;
    uint32_t stream; /* below 2^24 */
    uint32_t step;
} zr_rng;

/** Write elements 4*block to 4*block+3 of the sequence, as uniform 32-bit numbers. */
ZR_API void zr_rng_block(const zr_rng *rng, uint64_t block, uint32_t out[4]);
/** Return element `index` as a uniform 32-bit number. */
ZR_API uint32_t zr_rng_u32(const zr_rng *rng, uint64_t index);
/** Return element `index` as a uniform number in [0, 1). */
ZR_API double zr_rng_uniform(const zr_rng *rng, uint64_t index);
/** Write elements first to first+n-1 of the standard normal sequence to out, (n) F32. They are computed by
 * Box-Muller in fp32, within 3e-6 of the exact value, and their absolute value is at most 6.7. They do not depend
 * on how a range is divided into calls. */
ZR_API void zr_rng_normal(const zr_rng *rng, uint64_t first, int64_t n, float *out);

/* ---- machine --------------------------------------------------------------------------------- */

/** Sizes m, n and k of a matrix product, in ascending order. A weight's forward product and its two backward products
 * have the same three sizes. */
typedef struct zr_product_sizes {
    int64_t size[3]; /* all 0 if there is no product */
} zr_product_sizes;

/** Measured rate of matrix products of given sizes. */
typedef struct zr_product_rate {
    bool bf16; /* whether the operands are bf16 rather than fp32 */
    zr_product_sizes sizes;
    double flops; /* FLOPs per second */
} zr_product_rate;

#define ZR_PRODUCT_RATES 16

struct zr_graph;
struct zr_op;
struct zr_kernel;

/** Facts about a device on which plans depend: the scratch memory of its kernels and the types in which they multiply.
 * The device fills them in. A plan prints the name of the device that it was made for. */
typedef struct zr_device_facts {
    char name[48];                   /* name of the device, such as "this machine (v4)" */
    int threads;                     /* compute threads per rank */
    bool apart;                      /* whether its memory is separate from the host's, so that the processor cannot
                                        access it */
    bool bf16_products;              /* whether bf16 operands are multiplied directly rather than widened to fp32
                                        first */
    bool narrow_attention;           /* whether attention multiplies 16-bit operands directly rather than widening
                                        them first */
    int64_t panel_bytes;             /* maximum bytes of the packed form of a product's operand, or 0 if no operand is
                                        packed */
    const struct zr_kernel *kernels; /* user kernels that replace the device's kernels (zr_device_config), or NULL */
    /** Return the scratch bytes of one run of an op's kernel, or 0 if the op has no kernel. If an operand has more
     * elements than kernels can count, return more bytes than any plan can provide. The pointer is NULL if no op needs
     * scratch. */
    int64_t (*scratch_bytes)(const struct zr_device_facts *facts, const struct zr_graph *graph, const struct zr_op *op);
} zr_device_facts;

/** Return the scratch bytes of one run of an op on a device with these facts, or 0 if no op needs scratch. */
ZR_API int64_t zr_device_facts_scratch(const zr_device_facts *facts, const struct zr_graph *graph,
                                       const struct zr_op *op);

/** Levels of links between ranks, narrowest first. */
typedef enum zr_link_level {
    ZR_LINK_PROCESS, /* threads of one process, which read each other's memory; `zr info --bench` measures this level */
    ZR_LINK_HOST,    /* within a host: shared memory between processes, or the link between accelerators (NVLink) */
    ZR_LINK_HOSTS,   /* between hosts: the network */
    ZR_LINK_LEVELS
} zr_link_level;

/** Rates of a link; 0 if not known. */
typedef struct zr_link {
    double bytes_sec;   /* bytes per second that one rank receives from others while all ranks of the level exchange */
    double latency_sec; /* latency before the first byte of an exchange arrives; not used in estimates yet */
} zr_link;

/** Rates of one rank's hardware; 0 if not measured or not known. */
typedef struct zr_machine {
    double flops_f32, flops_bf16; /* peak FLOPs per second */
    double memory_bytes_sec;
    int64_t memory_bytes; /* memory capacity */
    zr_link link[ZR_LINK_LEVELS];
    bool link_copies; /* whether exchanges are copies in memory, during which a rank computes nothing */
    /** Measured rates of matrix products. Products of other sizes are assumed to run at the rate of the nearest sizes,
     * or at the peak if there are no entries. */
    zr_product_rate product[ZR_PRODUCT_RATES];
    int n_products;
} zr_machine;

/** Description of a device for the planner: plans depend on its facts, and estimated times on its rates. */
typedef struct zr_profile {
    zr_device_facts facts;
    zr_machine machine;
} zr_profile;

#ifdef __cplusplus
}
#endif
#endif
