/**
 * simulate: predicts the time of a plan on a cluster that a few numbers describe. Every step of the schedule gets a
 * time from its FLOPs, memory traffic and communication, and the schedule's streams and waits combine the steps.
 * Nothing but the plan is allocated. docs/simulate.md describes the model with its formulas.
 */
#ifndef ZR_SIMULATE_H
#define ZR_SIMULATE_H

#include "zr/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- clusters --------------------------------------------------------------------------------- */

#define ZR_CLUSTER_LINKS 4

/** One level of links. Two devices communicate over the lowest level that connects them; lower levels do not matter. */
typedef struct zr_cluster_link {
    char name[32];
    int32_t devices;         /* number of consecutive devices that it connects: a multiple of the next lower level's,
                                at least 2 */
    double bytes_sec;        /* rate into one device, and also out of it */
    double shared_bytes_sec; /* total rate into all devices of one unit of the next lower level, such as a node, and
                                also out of them; 0 if this rate does not limit the devices' own rates */
    double latency_sec;      /* latency of one message */
    double share;            /* share of the level's rates that exchanges reach; 0 for the cluster's link_share */
} zr_cluster_link;

/** Algorithms of collectives. */
typedef enum zr_algorithm {
    ZR_ALGORITHM_AUTO,    /* like NCCL, the faster of ring and tree for a message's size */
    ZR_ALGORITHM_RING,    /* each rank passes the pieces that it has on to its neighbour */
    ZR_ALGORITHM_TREE,    /* recursive halving and doubling */
    ZR_ALGORITHM_EXCHANGE /* zr's own: each rank reads its pieces from every other rank directly (src/comm) */
} zr_algorithm;

/* ---- measured steps --------------------------------------------------------------------------- */

/** A measured step of a schedule: its kind, cost and time. The time of a move is the time of one exchange. */
typedef struct zr_step_sample {
    char kind[32]; /* name of the op, or of the kind of step */
    bool narrow;   /* whether the run was in bf16; fp16 counts as fp32 on processors, which widen it */
    int32_t ranks; /* number of ranks in an exchange's group; otherwise 0 */
    bool across;   /* whether these ranks are on several hosts */
    zr_step_cost cost;
    double sec;
} zr_step_sample;

/** How long the ranks of a model waited for each other when exchanges and computation alternated. */
typedef struct zr_wait_sample {
    double computed_sec; /* mean computation time between two exchanges */
    double share;        /* mean time that a rank waited for the slowest rank, as a share of computed_sec */
} zr_wait_sample;

#define ZR_LAUNCH_WAITS 32

/** Training steps of `ranks` ranks with `threads` threads each, measured together by `zr info --bench`. */
typedef struct zr_launch {
    char transport[12]; /* "threads" or "mpi" */
    int32_t ranks, hosts, threads;
    int32_t cores;     /* cores of each host that its ranks may use */
    double around_sec; /* time of a training step outside the steps of its schedule */
    zr_step_sample *sample;
    int32_t n_samples;
    bool beside;             /* whether exchanges overlap with computation; every sample was measured without overlap */
    double lost, late;       /* with overlap: shares below 1 by which overlapping slows down computation (lost) and
                                exchanges (late) */
    double spread;           /* with overlap: standard deviation of an exchange's time, as a share of that time */
    double across_bytes_sec; /* rate into a rank from other hosts while all ranks run one exchange after another; 0
                                if there is only one host */
    zr_wait_sample wait[ZR_LAUNCH_WAITS]; /* without overlap: waits, which the samples of exchanges do not include */
    int32_t n_waits;
} zr_launch;

typedef struct zr_cluster {
    char name[48];
    /** One device: peak rates, memory and the memory's rate. A product runs at the rate that device.product has for
     * nearby sizes, or, if there is none, at the share product_share * s / (s + product_half) of the peak, where s is
     * the smallest of the product's three sizes. Of the device's link fields only link_copies is used. */
    zr_machine device;
    double product_share, product_half;
    double attention_share; /* share of the peak that attention's kernels reach, counting all query-key pairs, even
                               masked ones; 0 to treat attention as products, by the width of a head */
    double memory_share;    /* share of memory_bytes_sec that kernels reach */
    double launch_sec;      /* launch time of a kernel */
    double link_share;      /* share of a link's rate that exchanges reach */
    double step_sec;        /* start-up time of a collective, in addition to its messages */
    zr_cluster_link link[ZR_CLUSTER_LINKS]; /* levels of links, narrowest first; the last connects all devices */
    int32_t n_links;                        /* number of levels; 0 if there is only one device */
    int32_t devices;                        /* number of devices in the cluster */
    bool any_hosts;                         /* whether the number of hosts may grow with the number of ranks */
    int32_t host_devices;                   /* number of consecutive devices in one host */
    int64_t host_memory_bytes;
    double host_bytes_sec; /* rate between one device and its host's memory in each direction; 0 if not known */
    double disk_bytes_sec; /* rate of a host's disk; 0 if not known */
    zr_algorithm algorithm;
    /** Steps measured on this cluster, or NULL if none; borrowed. Times of a plan's steps are then estimated from
     * measured steps of the same kind. The numbers above are used only for kinds that were not measured, and for the
     * links between hosts as a bound: no exchange is estimated to be faster than they allow. */
    const zr_launch *measured;
} zr_cluster;

/** Read a cluster by name ("dgx2x25"), or from a file if the name has a '/' or ends in .json. docs/simulate.md
 * describes keys, units and `include`. Fail with ZR_ERR_NOT_FOUND and the list of names, ZR_ERR_DATA as
 * "file:line:column: key: reason", or ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_cluster_read(const char *name, zr_cluster *cluster);
/** Find the first known cluster whose devices have a name known to zr_profile_named, such as "h100". Fail with
 * ZR_ERR_NOT_FOUND if there is none. */
ZR_API ZR_NODISCARD zr_status zr_cluster_of_device(const char *device, zr_cluster *cluster);
/** Return the names of the built-in clusters, ending with NULL. */
ZR_API const char *const *zr_cluster_names(void);

/* ---- pricing ---------------------------------------------------------------------------------- */

/** Causes for which the compute stream waits. */
#define ZR_CAUSE_LIST(X)                                                                                               \
    X(STAGE, "stage")   /* ZeRO's own gathers and reductions */                                                        \
    X(TENSOR, "tensor") /* communication of tensor parallelism */                                                      \
    X(PIECES, "Pa")     /* activation checkpoints in pieces */                                                         \
    X(HOST, "Pa+cpu")   /* activation checkpoints on the host */

typedef enum zr_cause {
#define ZR_CAUSE_ENUM(name, text) ZR_CAUSE_##name,
    ZR_CAUSE_LIST(ZR_CAUSE_ENUM)
#undef ZR_CAUSE_ENUM
        ZR_CAUSES
} zr_cause;

typedef struct zr_simulation {
    zr_price price; /* price of one training step */
    double exposed_sec[ZR_CAUSES];
    /** Busy time of the compute stream, by cause: matrix products, memory, kernel launches. */
    double product_sec, memory_sec, launch_sec;
    const char *bound_by; /* name of the largest of the three times above and of exposed_sec: "products", "memory",
                             "launches", or a cause of waiting */
    double samples_sec, tokens_sec;
    double flops_sec; /* FLOP/s of a device, including recomputation */
    double mfu;       /* model FLOPs utilization: share of the device's peak, not counting recomputation */
    double slowest;   /* factor by which the slowest rank's kernels take longer than the cluster's numbers give; 1 if
                         not slower */
    /** Cost of a save during a training step, through the disk that the ranks of a host share; zeros if the plan saves
     * nothing. Times are NAN if the plan needs a rate that the cluster lacks: of its disks, or of copies to its
     * hosts. */
    zr_save_price save;
} zr_simulation;

typedef struct zr_simulate_options {
    int32_t ranks_per_host; /* 0 for one rank per device of the host */
    double straggler;       /* factor of at least 1 by which rank 0 computes more slowly; 0 for no difference */
    double jitter; /* computing takes rank r 1 + jitter * |n| times as long, where n is element r of the standard normal
                      sequence of ZR_RNG_JITTER with `seed` */
    uint64_t seed;
    bool copies_hold;         /* whether computation stops while checkpoints are copied to the host and back */
    bool comm_beside;         /* whether exchanges overlap with computation even without zr_layout.overlap */
    double scores_bytes;      /* memory bytes that attention reads and writes per query-key pair in the forward pass, if
                                 its kernels write the scores to memory; the backward pass takes twice as many. 0 if
                                 scores stay on the chip */
    int32_t product_multiple; /* 16-bit products run at the rate of fp32 if a size (for attention: the width of a
                                 head) is no multiple of this number; 0 if all run alike */
} zr_simulate_options;

/** Simulate a training step. `options` may be NULL for zeros. `time` is NULL or has an entry for each step, to be
 * filled as by zr_plan_times. Errors: ZR_ERR_CONFIG if the plan's ranks do not fit the cluster, or if the cluster lacks
 * a number that the plan needs (the message names its key); ZR_ERR_ARG for an invalid option; ZR_ERR_STATE if the plan
 * has no training step. */
ZR_API ZR_NODISCARD zr_status zr_simulate(const zr_plan *plan, const zr_cluster *cluster,
                                          const zr_simulate_options *options, zr_simulation *simulation,
                                          zr_step_time *time);

#ifdef __cplusplus
}
#endif
#endif
