/**
 * base: the foundation of every layer: status codes, error text, counter-based random numbers, memory and traffic
 * ledgers, and the plain description of a machine (zr_profile): what its kernels need and the rates that it reaches.
 *
 * Errors: every fallible function returns a must-use zr_status. The message of the last failure of this thread, with
 * the trace of calls it passed, is kept thread-locally (zr_error_message).
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

/* Inline functions that kernels of a GPU call as well. */
#ifdef __CUDACC__
#define ZR_INLINE static inline __host__ __device__
#else
#define ZR_INLINE static inline
#endif

/* ---- status ---------------------------------------------------------------------------------- */

/** All status codes: name, text. */
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

/** Return the constant text of a code, "success" ... ; never NULL. */
ZR_API const char *zr_status_text(zr_status status);

/** Return the message of this thread's last failure ("" without one), valid until its next failure. */
ZR_API const char *zr_error_message(void);

/** Return the calls that the last failure passed, innermost first, one "function (file:line)" a line. */
ZR_API const char *zr_error_trace(void);

/** Record a failure: set this thread's message, start its trace, return `status`. */
ZR_API zr_status zr_error_set(zr_status status, const char *function, const char *file, int line, const char *format,
                              ...) ZR_PRINTF(5, 6);

/** Add a frame to the trace of the failure in progress; return `status`. */
ZR_API zr_status zr_error_frame(zr_status status, const char *function, const char *file, int line);

/** Fail with a message: `return ZR_FAIL(ZR_ERR_SHAPE, "width %d ...", w);` */
#define ZR_FAIL(status, ...) zr_error_set((status), __func__, __FILE__, __LINE__, __VA_ARGS__)

/** Check for a mistake of the user's, in every build. The message says which value was given, which was wanted and how
 *  to correct it. */
#define ZR_CHECK(cond, status, ...)                                                                                    \
    do {                                                                                                               \
        if (!(cond)) return ZR_FAIL((status), __VA_ARGS__);                                                            \
    } while (0)

/** Check for a bug of zr's own: return ZR_ERR_INTERNAL, never abort. */
#define ZR_ASSERT(cond) ZR_CHECK(cond, ZR_ERR_INTERNAL, "assertion failed: %s", #cond)

/** Pass a failure on, adding a frame to its trace. */
#define ZR_TRY(call)                                                                                                   \
    do {                                                                                                               \
        zr_status zr_try_status_ = (call);                                                                             \
        if (zr_try_status_ != ZR_OK) return zr_error_frame(zr_try_status_, __func__, __FILE__, __LINE__);              \
    } while (0)

/** ZR_TRY with a jump to a cleanup label: `zr_status st = ZR_OK; ZR_TRY_GOTO(st, call, done);` */
#define ZR_TRY_GOTO(st, call, label)                                                                                   \
    do {                                                                                                               \
        (st) = (call);                                                                                                 \
        if ((st) != ZR_OK) {                                                                                           \
            (st) = zr_error_frame((st), __func__, __FILE__, __LINE__);                                                 \
            goto label;                                                                                                \
        }                                                                                                              \
    } while (0)

/** Library version, "0.1.0". */
ZR_API const char *zr_version(void);

/* ---- memory and traffic ---------------------------------------------------------------------- */

/** Uses of a rank's memory (docs/memory.md). */
#define ZR_CATEGORY_LIST(X)                                                                                            \
    X(PARAM, "param")           /* parameter shards, and whole units while gathered */                                 \
    X(GRAD, "grad")             /* gradients: shards, accumulators, a unit before reduction */                         \
    X(OPTIM, "optim")           /* fp32 master, momentum, variance ... */                                              \
    X(ACT, "act")               /* activations, inputs, per-row statistics */                                          \
    X(CHECKPOINT, "checkpoint") /* activation checkpoints (recompute) */                                               \
    X(BUFFER, "buffer")         /* staging memory, of constant size */                                                 \
    X(WORK, "work")             /* scratch of one step */

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

/** Bytes received by this rank from others, counted once, where they are moved. */
typedef enum zr_traffic_kind {
    ZR_TRAFFIC_REDUCE_SCATTER,
    ZR_TRAFFIC_ALL_GATHER,
    ZR_TRAFFIC_ALL_REDUCE,
    ZR_TRAFFIC_KINDS
} zr_traffic_kind;
typedef struct zr_traffic {
    int64_t bytes[ZR_TRAFFIC_KINDS];
} zr_traffic;

/** Charge `bytes` to `kind`: the only place where traffic is counted. Transports call it where bytes move. */
ZR_API void zr_traffic_count(zr_traffic *traffic, zr_traffic_kind kind, int64_t bytes);

/** Return zeroed host memory, 64-byte aligned, or NULL. All of zr's own allocations are made here. */
ZR_API void *zr_alloc(size_t bytes);
ZR_API void zr_free(void *memory);

/* ---- time ------------------------------------------------------------------------------------ */

/** Seconds of a monotonic clock. */
ZR_API double zr_clock_sec(void);

/** Callback for the progress of a long call: `done` of `all` bytes. Called about once a megabyte. */
typedef void (*zr_progress_fn)(void *arg, int64_t done, int64_t all);

/* ---- exact sums ------------------------------------------------------------------------------ */

/** A sum of F32 values, or of squares of F32 values, without any rounding, so it does not depend on the order in which
 *  its terms are added or on the number of ranks that add them. A fixed-point number of 20 x 32 bits: the sum is
 *  limb[0] 2^-298 + limb[1] 2^-266 + ...; carried, all limbs but the last lie in [0, 2^32). Zero-initialise. (Kulisch's
 *  accumulator.) */
#define ZR_EXACT_LIMBS 20
typedef struct zr_exact {
    int64_t limb[ZR_EXACT_LIMBS];
    bool not_finite; /* a term was not finite */
} zr_exact;

/* ---- random numbers -------------------------------------------------------------------------- */

/** Every random number is a pure function of (seed, purpose, stream, step, element index):
 *  Philox-4x32-10 (Salmon et al., SC11). No state, so no rank, thread or order can change it. */
typedef enum zr_rng_purpose {
    ZR_RNG_INIT,    /* stream 0, element = index over all parameters of the model */
    ZR_RNG_DROPOUT, /* stream = the dropout's number in the graph */
    ZR_RNG_SHUFFLE, /* data order */
    ZR_RNG_SAMPLE,  /* generation */
    ZR_RNG_JITTER,  /* simulated devices: element = rank */
    ZR_RNG_MIX      /* element = sample: the source that it is drawn from */
} zr_rng_purpose;

typedef struct zr_rng {
    uint64_t seed;
    uint32_t purpose;
    uint32_t stream; /* below 2^24 */
    uint32_t step;
} zr_rng;

/** Write elements 4*block .. 4*block+3 of the sequence, uniform 32-bit. */
ZR_API void zr_rng_block(const zr_rng *rng, uint64_t block, uint32_t out[4]);
/** Return element `index`, uniform 32-bit. */
ZR_API uint32_t zr_rng_u32(const zr_rng *rng, uint64_t index);
/** Return element `index`, uniform in [0, 1). */
ZR_API double zr_rng_uniform(const zr_rng *rng, uint64_t index);
/** Write elements first .. first+n-1 of the standard normal sequence into out, (n) F32 (Box-Muller in fp32, within 3e-6
 *  of the exact value, at most 6.7 from 0). The values do not depend on how a range is cut into calls. */
ZR_API void zr_rng_normal(const zr_rng *rng, uint64_t first, int64_t n, float *out);

/* ---- machine --------------------------------------------------------------------------------- */

/** Sizes m, n and k of a matrix product, ascending. A weight's forward product and its two backward products have the
 *  same three sizes. */
typedef struct zr_product_sizes {
    int64_t size[3]; /* 0: no product */
} zr_product_sizes;

/** Measured rate of matrix products of given sizes. */
typedef struct zr_product_rate {
    bool bf16; /* multiplied in bf16; otherwise in fp32 */
    zr_product_sizes sizes;
    double flops; /* per second */
} zr_product_rate;

#define ZR_PRODUCT_RATES 16

struct zr_graph;
struct zr_op;
struct zr_kernel;

/** Facts about a device that a plan depends on: the scratch memory of its kernels and the types in which they multiply.
 *  Filled by the device. A plan prints the name of the device that it was made for. */
typedef struct zr_device_facts {
    char name[48];                   /* "this machine (v4)" */
    int threads;                     /* compute threads of a rank */
    bool apart;                      /* its memory is not the host's: the processor cannot touch it */
    bool bf16_products;              /* bf16 is multiplied as such; otherwise it is widened to fp32 */
    bool narrow_attention;           /* attention multiplies 16-bit operands as such; otherwise it widens them */
    int64_t panel_bytes;             /* most room for an operand of a matrix product, packed; 0: none is packed */
    const struct zr_kernel *kernels; /* the user's own, which go before the device's (zr_device_config); or NULL */
    /** Return the scratch bytes of one run of an op's kernel: 0 also without a kernel; more than any plan has room for
     *  where an operand has more elements than kernels can count. NULL: no op needs scratch. */
    int64_t (*scratch_bytes)(const struct zr_device_facts *facts, const struct zr_graph *graph, const struct zr_op *op);
} zr_device_facts;

/** Return the scratch bytes of one run of an op on a device with these facts. */
ZR_API int64_t zr_device_facts_scratch(const zr_device_facts *facts, const struct zr_graph *graph,
                                       const struct zr_op *op);

/** Levels of links between ranks, narrowest first. */
typedef enum zr_link_level {
    ZR_LINK_PROCESS, /* threads of one process, which read each other's memory: what `zr info --bench` measures */
    ZR_LINK_HOST,    /* within a host: memory that processes share, or the link between accelerators (NVLink) */
    ZR_LINK_HOSTS,   /* across hosts: the network */
    ZR_LINK_LEVELS
} zr_link_level;

/** Rates of a link; 0: not known. */
typedef struct zr_link {
    double bytes_sec;   /* into one rank from the others, while all ranks of the level exchange */
    double latency_sec; /* before the first byte of an exchange arrives; nothing is priced by it yet */
} zr_link;

/** Rates of one rank's hardware; 0: not measured or not known. */
typedef struct zr_machine {
    double flops_f32, flops_bf16; /* peaks, per second */
    double memory_bytes_sec;
    int64_t memory_bytes; /* capacity */
    zr_link link[ZR_LINK_LEVELS];
    bool link_copies; /* exchanges are copies in memory: a rank computes nothing meanwhile */
    /** Measured rates of matrix products. Other products are taken to run at the rate of the nearest sizes; without any
     *  entry, at the peak. */
    zr_product_rate product[ZR_PRODUCT_RATES];
    int n_products;
} zr_machine;

/** A device for the planner: plans are made by its facts and priced by its rates. */
typedef struct zr_profile {
    zr_device_facts facts;
    zr_machine machine;
} zr_profile;

#ifdef __cplusplus
}
#endif
#endif
