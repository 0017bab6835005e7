/**
 * simulate: predicts the time of a plan on a cluster that is described by a few numbers. Every step of the schedule is
 * priced by its FLOPs, memory traffic and communication, and the schedule's own streams and waits combine the steps.
 * Nothing is allocated but the plan. docs/simulate.md has the model with its formulas.
 */
#ifndef ZR_SIMULATE_H
#define ZR_SIMULATE_H

#include "zr/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- clusters --------------------------------------------------------------------------------- */

#define ZR_CLUSTER_LINKS 4

/** One level of links. Two devices communicate over the first level that connects both; the levels below do not count.
 */
typedef struct zr_cluster_link {
    char name[32];
    int32_t devices;         /* consecutive devices that it connects: a multiple of the level's below, at least 2 */
    double bytes_sec;        /* into one device, and the same rate out of it */
    double shared_bytes_sec; /* into all devices of one unit of the level below together (a node), and the same rate out
                                of them; 0: no less than its devices' own */
    double latency_sec;      /* latency of one message */
    double share;            /* share of the level's rates that exchanges reach; 0: the cluster's link_share */
} zr_cluster_link;

/** Algorithms of collectives. */
typedef enum zr_algorithm {
    ZR_ALGORITHM_AUTO,    /* as NCCL: the faster of ring and tree for a message's size */
    ZR_ALGORITHM_RING,    /* each rank passes the pieces that it has on to its neighbour */
    ZR_ALGORITHM_TREE,    /* halving and doubling */
    ZR_ALGORITHM_EXCHANGE /* zr's own: each rank reads its pieces from every other rank directly (src/comm) */
} zr_algorithm;

/* ---- measured steps --------------------------------------------------------------------------- */

/** A measured step of a schedule: its kind, its cost and its time; for a move, one exchange. */
typedef struct zr_step_sample {
    char kind[32]; /* the op's name, or the kind of step */
    bool narrow;   /* the run was in bf16; fp16 counts as fp32 on processors, which widen it */
    int32_t ranks; /* ranks of an exchange's group; otherwise 0 */
    bool across;   /* these ranks are on several hosts */
    zr_step_cost cost;
    double sec;
} zr_step_sample;

/** Time for which the ranks of a model waited for each other, where exchanges and computation alternate. */
typedef struct zr_wait_sample {
    double computed_sec; /* computation between two exchanges, mean */
    double share;        /* share of that time for which a rank waited for the last rank, mean */
} zr_wait_sample;

#define ZR_LAUNCH_WAITS 32

/** Measured training steps of `ranks` ranks together, with `threads` threads each, by `zr info --bench`.
 */
typedef struct zr_launch {
    char transport[12]; /* "threads", "mpi" */
    int32_t ranks, hosts, threads;
    int32_t cores;     /* cores of each host that its ranks may use */
    double around_sec; /* time of a training step outside the steps of its schedule */
    zr_step_sample *sample;
    int32_t n_samples;
    bool beside;       /* exchanges overlap with computation; samples are of steps alone */
    double lost, late; /* with overlap: shares below 1 of the overlapping time that computation (lost) and exchanges
                          (late) lose */
    double spread;     /* with overlap: standard deviation of an exchange's time, as a share of it */
    double across_bytes_sec; /* from other hosts into a rank, where all ranks exchange one exchange after the other; 0:
                                there is one host */
    zr_wait_sample wait[ZR_LAUNCH_WAITS]; /* without overlap: waits, which the samples of exchanges do not include */
    int32_t n_waits;
} zr_launch;

typedef struct zr_cluster {
    char name[48];
    /** One device: peaks, memory and its rate. Its products run at the rates in `product` where sizes are near, else at
     *  the share product_share * s / (s + product_half) of the peak, where s is the smallest of a product's three
     *  sizes. Its links are not used, but link_copies is. */
    zr_machine device;
    double product_share, product_half;
    double attention_share; /* share of the peak that attention's kernels reach, with all pairs of queries and keys
                               counted, masked ones too; 0: as products, by the width of a head */
    double memory_share;    /* share of memory_bytes_sec that kernels reach */
    double launch_sec;      /* launch time of a kernel */
    double link_share;      /* share of a link's rate that exchanges reach */
    double step_sec;        /* start-up time of a collective, beside its messages */
    zr_cluster_link link[ZR_CLUSTER_LINKS]; /* narrowest first; the last connects all devices */
    int32_t n_links;                        /* 0: one device */
    int32_t devices;                        /* devices of the cluster */
    bool any_hosts;                         /* its number of hosts may grow with the number of ranks */
    int32_t host_devices;                   /* devices of one host, consecutive ones */
    int64_t host_memory_bytes;
    double host_bytes_sec; /* between one device and its host's memory, each way; 0: not known */
    double disk_bytes_sec; /* rate of a host's disk; 0: not known */
    zr_algorithm algorithm;
    /** Steps measured on this cluster; NULL: none. Borrowed. Steps of a plan are then priced by measured steps of their
     *  kind; the numbers above price only kinds that were not measured, and between hosts the links are a bound: no
     *  measured exchange is faster than they would be. */
    const zr_launch *measured;
} zr_cluster;

/** Read a cluster by name ("dgx2x25"), or from a file (its name has a '/' or ends in .json): keys, units and `include`
 *  are in docs/simulate.md. ZR_ERR_NOT_FOUND with the list of names; ZR_ERR_DATA as "file:line:column: key: reason";
 *  ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_cluster_read(const char *name, zr_cluster *cluster);
/** Find the first known cluster with devices of a name that zr_profile_named knows ("h100"). ZR_ERR_NOT_FOUND. */
ZR_API ZR_NODISCARD zr_status zr_cluster_of_device(const char *device, zr_cluster *cluster);
/** Return the names of the built-in clusters, NULL at the end. */
ZR_API const char *const *zr_cluster_names(void);

/* ---- pricing ---------------------------------------------------------------------------------- */

/** Causes of waiting of the compute stream. */
#define ZR_CAUSE_LIST(X)                                                                                               \
    X(STAGE, "stage")   /* ZeRO's own gathers and reductions */                                                        \
    X(TENSOR, "tensor") /* tensor parallelism */                                                                       \
    X(PIECES, "Pa")     /* checkpoints in pieces */                                                                    \
    X(HOST, "Pa+cpu")   /* checkpoints on the host */

typedef enum zr_cause {
#define ZR_CAUSE_ENUM(name, text) ZR_CAUSE_##name,
    ZR_CAUSE_LIST(ZR_CAUSE_ENUM)
#undef ZR_CAUSE_ENUM
        ZR_CAUSES
} zr_cause;

typedef struct zr_simulation {
    zr_price price; /* of one training step */
    double exposed_sec[ZR_CAUSES];
    /** Busy time of the compute stream: matrix products, memory, kernel launches. */
    double product_sec, memory_sec, launch_sec;
    const char *bound_by; /* largest of these times and exposed_sec: "products", "memory", "launches", or a cause */
    double samples_sec, tokens_sec;
    double flops_sec; /* FLOP/s of a device, recomputation included */
    double mfu;       /* share of its peak, without recomputation */
    double slowest;   /* factor by which the slowest rank's kernels take longer than the cluster's numbers say; 1: not
                         slower */
    /** Cost of a save during a training step, through the disk of a host that its ranks share; zeros where the plan
     *  saves nothing. Seconds are NAN where the cluster lacks the rate of its disks, or of copies to its hosts that the
     *  plan needs. */
    zr_save_price save;
} zr_simulation;

typedef struct zr_simulate_options {
    int32_t ranks_per_host; /* 0: one for each device of the host */
    double straggler;       /* factor by which rank 0 computes slower, at least 1; 0: as the others */
    double jitter; /* rank r computes 1 + jitter * |n| times slower, n its number of the standard normal sequence of
                      ZR_RNG_JITTER by `seed` */
    uint64_t seed;
    bool copies_hold;    /* computation stops while checkpoints are copied to the host and back */
    bool comm_beside;    /* exchanges overlap with computation, also without zr_layout.overlap */
    double scores_bytes; /* bytes of memory that attention reads and writes for each pair of a query and a key in the
                            forward pass, where kernels between its products write the scores out; in the backward pass
                            twice that. 0: scores stay on the chip */
    int32_t product_multiple; /* 16-bit products with a size that is no multiple of this number (attention: the width of
                                 a head) run at the rate of fp32; 0: all run alike */
} zr_simulate_options;

/** Simulate a training step. `options` NULL: zeros. `time`, NULL or room for each step, as zr_plan_times. ZR_ERR_CONFIG
 *  where the plan's ranks do not fit the cluster, or naming the key of a number that the plan needs and the cluster
 *  lacks; ZR_ERR_ARG for an option; ZR_ERR_STATE without a training step. */
ZR_API ZR_NODISCARD zr_status zr_simulate(const zr_plan *plan, const zr_cluster *cluster,
                                          const zr_simulate_options *options, zr_simulation *simulation,
                                          zr_step_time *time);

#ifdef __cplusplus
}
#endif
#endif
