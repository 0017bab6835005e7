/**
 * simulate: what a plan would take on a cluster that is not here. The cluster is a few numbers; every step of the
 * schedule is priced by what it computes, touches and moves, and the schedule's own streams and waits put the steps
 * together. Nothing is allocated but the plan. docs/simulate.md has the model with its formulas.
 */
#ifndef ZR_SIMULATE_H
#define ZR_SIMULATE_H

#include "zr/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- clusters --------------------------------------------------------------------------------- */

#define ZR_CLUSTER_LINKS 4

/** One level of links. Two devices talk over the first level that connects both; the levels below do not count. */
typedef struct zr_cluster_link {
    char name[32];
    int32_t devices;         /* consecutive ones that it connects: a multiple of the level's below, at least 2 */
    double bytes_sec;        /* into one device, and as much out of it */
    double shared_bytes_sec; /* into all devices of one unit of the level below together (a node), and as much out of
                                them; 0: no less than its devices' own */
    double latency_sec;      /* of one message */
    double share;            /* of these rates that exchanges reach; 0: the cluster's link_share */
} zr_cluster_link;

/** How ranks of a group exchange. */
typedef enum zr_algorithm {
    ZR_ALGORITHM_AUTO,    /* as NCCL: of ring and tree what takes less for so many bytes */
    ZR_ALGORITHM_RING,    /* each passes on what it has to its neighbour */
    ZR_ALGORITHM_TREE,    /* halving and doubling */
    ZR_ALGORITHM_EXCHANGE /* zr's own: each reads from every other what it needs (src/comm) */
} zr_algorithm;

/* ---- measured steps --------------------------------------------------------------------------- */

/** A step of a schedule as it ran, of a move one exchange: what it is, what it costs, how long it took. */
typedef struct zr_step_sample {
    char kind[32]; /* its op's name, or its own kind */
    bool narrow;   /* of a run in bf16; processors multiply fp16 as fp32 */
    int32_t ranks; /* of an exchange: of its group; otherwise 0 */
    bool across;   /* ... which are on several hosts */
    zr_step_cost cost;
    double sec;
} zr_step_sample;

/** Step number `index`, without seconds. Whether its ranks are on several hosts is known by zr_layout.host_ranks. */
ZR_API zr_step_sample zr_step_sample_of(const zr_plan *plan, zr_schedule_kind kind, int32_t index);

/** How long the ranks of a model waited for each other where exchanges and computing follow each other. */
typedef struct zr_wait_sample {
    double computed_sec; /* between two exchanges, mean */
    double share;        /* of that time, what a rank waited for the last one, mean */
} zr_wait_sample;

#define ZR_LAUNCH_WAITS 32

/** Training steps of so many ranks together, each with so many threads, as zr_launch_measure (zr/train.h) ran them. */
typedef struct zr_launch {
    char transport[12]; /* "threads", "mpi" */
    int32_t ranks, hosts, threads;
    int32_t cores;     /* of each host, that its ranks may use */
    double around_sec; /* of a training step, beside the steps of its schedule */
    zr_step_sample *sample;
    int32_t n_samples;
    bool beside;                          /* exchanges run beside computing; samples are of steps alone */
    double lost, late;                    /* ... then, of the time in which both run, what computing and what exchanges
                                             lose: shares below 1 */
    double spread;                        /* ... and the standard deviation of an exchange's time, as a share of it */
    double across_bytes_sec;              /* from other hosts into a rank, where all ranks exchange one exchange after
                                             the other; 0: there is one host */
    zr_wait_sample wait[ZR_LAUNCH_WAITS]; /* ... otherwise; samples of exchanges are without */
    int32_t n_waits;
} zr_launch;

typedef struct zr_cluster {
    char name[48];
    /** One device: peaks, memory and its rate. Its products reach `product` where sizes are near, else the share
     *  product_share * s / (s + product_half) of the peak, where s is the smallest of a product's three sizes. Its
     *  links are not used, but link_copies. */
    zr_machine device;
    double product_share, product_half;
    double attention_share;                 /* share of the peak that attention's kernels reach, with all pairs of
                                               queries and keys counted, masked ones too; 0: as products, by the width
                                               of a head */
    double memory_share;                    /* of memory_bytes_sec that kernels reach */
    double launch_sec;                      /* of a kernel, before it begins */
    double link_share;                      /* of a link's rate that exchanges reach */
    double step_sec;                        /* of a collective, before it begins, beside its messages */
    zr_cluster_link link[ZR_CLUSTER_LINKS]; /* narrowest first; the last connects all devices */
    int32_t n_links;                        /* 0: one device */
    int32_t devices;                        /* of the cluster */
    bool any_hosts;                         /* its number of hosts may grow: zr_cluster_widen */
    int32_t host_devices;                   /* that one host has, consecutive ones */
    int64_t host_memory_bytes;
    double host_bytes_sec; /* between one device and its host's memory, each way; 0: not known */
    double disk_bytes_sec; /* of a host; 0: not known */
    zr_algorithm algorithm;
    /** What was measured there, NULL: nothing was. Borrowed. Steps of a plan are then priced by steps of their kind;
     *  the numbers above price only kinds that are not there, and between hosts the links are a bound: no measured
     *  exchange is faster than they would be. */
    const zr_launch *measured;
} zr_cluster;

/** A cluster by name ("dgx2x25"), or from a file (its name has a '/' or ends in .json): keys, units and `include` are
 *  in docs/simulate.md. ZR_ERR_NOT_FOUND with the list of names; ZR_ERR_DATA as "file:line:column: key: reason";
 *  ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_cluster_read(const char *name, zr_cluster *cluster);
/** Find the first known cluster with devices of a name that zr_profile_named knows ("h100"). ZR_ERR_NOT_FOUND. */
ZR_API ZR_NODISCARD zr_status zr_cluster_of_device(const char *device, zr_cluster *cluster);
/** Names of those that zr knows, NULL at the end. */
ZR_API const char *const *zr_cluster_names(void);
/** Add hosts to a cluster that has a network until it has at least `devices` devices. */
ZR_API void zr_cluster_widen(zr_cluster *cluster, int32_t devices);

/* ---- pricing ---------------------------------------------------------------------------------- */

/** For what the computing stream waits. */
#define ZR_CAUSE_LIST(X)                                                                                               \
    X(STAGE, "stage")   /* ZeRO's own gathers and reductions */                                                        \
    X(TENSOR, "tensor") /* ranks that share layers */                                                                  \
    X(PIECES, "Pa")     /* checkpoints in pieces */                                                                    \
    X(HOST, "Pa+cpu")   /* checkpoints on the host */

typedef enum zr_cause {
#define ZR_CAUSE_ENUM(name, text) ZR_CAUSE_##name,
    ZR_CAUSE_LIST(ZR_CAUSE_ENUM)
#undef ZR_CAUSE_ENUM
        ZR_CAUSES
} zr_cause;
ZR_API const char *zr_cause_name(zr_cause cause);

typedef struct zr_simulation {
    zr_price price; /* of one training step */
    double exposed_sec[ZR_CAUSES];
    /** Of the computing stream's busy time: what products, memory and the begin of kernels took. */
    double product_sec, memory_sec, launch_sec;
    const char *bound_by; /* the largest of these and of exposed_sec: "products", "memory", "launches", or a cause */
    double samples_sec, tokens_sec;
    double flops_sec; /* of a device, with what is computed again */
    double mfu;       /* of its peak, without */
    double slowest;   /* the slowest rank's kernels take so many times longer than the cluster's numbers say; 1 */
    /** Behind a step, by the disk of a host that its ranks share; zeros where the plan saves nothing. Seconds are NAN
     *  where the cluster does not say how fast its disks are, or copies to its hosts that the plan needs. */
    zr_save_price save;
} zr_simulation;

typedef struct zr_simulate_options {
    int32_t ranks_per_host; /* 0: as many as the host has devices */
    double straggler;       /* rank 0 computes so many times slower, at least 1; 0: as the others */
    double jitter;          /* rank r computes 1 + jitter * |n| times slower, n its number of the standard normal
                               sequence of ZR_RNG_JITTER by `seed` */
    uint64_t seed;
    bool copies_hold;         /* nothing is computed while checkpoints go to the host and back */
    bool comm_beside;         /* exchanges run beside computing, also without zr_layout.overlap */
    double scores_bytes;      /* of memory that attention reads and writes for each pair of a query and a key, forward,
                                 where kernels between its products write the scores out; backward twice as much. 0:
                                 scores stay on the chip */
    int32_t product_multiple; /* 16-bit products that have a size which is no multiple of it (attention: the width of
                                 a head) run at the rate of fp32; 0: all are alike */
} zr_simulate_options;

/** `options` NULL: zeros. `time`, NULL or room for each step, as zr_plan_times. ZR_ERR_CONFIG where the plan's ranks do
 *  not fit the cluster, or a number of the cluster that the plan needs is not there, by its key; ZR_ERR_ARG for an
 *  option; ZR_ERR_STATE without a training step. */
ZR_API ZR_NODISCARD zr_status zr_simulate(const zr_plan *plan, const zr_cluster *cluster,
                                          const zr_simulate_options *options, zr_simulation *simulation,
                                          zr_step_time *time);

#ifdef __cplusplus
}
#endif
#endif
