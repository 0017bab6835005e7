/**
 * simulate: predicts the time of a plan on a cluster that is described by a few numbers. Each step of the schedule gets
 * a time from its FLOPs, memory traffic and communication. The times are combined by the schedule's streams and waits.
 * No memory is allocated except the plan. docs/simulate.md has the model's formulas.
 */
#ifndef ZR_SIMULATE_H
#define ZR_SIMULATE_H

#include "zr/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- clusters --------------------------------------------------------------------------------- */

#define ZR_CLUSTER_LINKS 4

/** One level of links of a cluster. Two devices communicate over the lowest level that connects them, which alone
 * limits their rate, with one exception: if the first level is named "PCIe", messages between hosts also pass through
 * its links. */
typedef struct zr_cluster_link {
    char name[32];
    /* number of consecutive devices that the level connects, at least 2; a multiple of the number of the next lower
     * level */
    int32_t devices;
    double bytes_sec; /* bytes per second into one device, and at the same time the same rate out of it */
    /* limit for each block of devices that the next lower level connects, such as a host, in bytes per second: total
     * rate into the block, and at the same time the same total rate out of it; 0 for no limit */
    double shared_bytes_sec;
    double latency_sec; /* latency of one message */
    double share;       /* fraction of this level's rates that exchanges reach; 0 to use the cluster's link_share */
} zr_cluster_link;

/** Algorithms of collectives. */
typedef enum zr_algorithm {
    ZR_ALGORITHM_AUTO,    /* the faster of ring and tree for the size of a message, as NCCL chooses */
    ZR_ALGORITHM_RING,    /* each rank repeatedly passes pieces to its neighbour */
    ZR_ALGORITHM_TREE,    /* recursive halving and doubling */
    ZR_ALGORITHM_EXCHANGE /* zr's own algorithm: each rank reads its pieces directly from every other rank (src/comm) */
} zr_algorithm;

/* ---- measured steps --------------------------------------------------------------------------- */

/** Measured step of a schedule: kind, cost and time. The time of a collective covers only one exchange. */
typedef struct zr_step_sample {
    char kind[32]; /* name of the op or of the kind of step */
    bool narrow; /* whether the step was measured in bf16. On processors fp16 counts as fp32, to which it is widened */
    int32_t ranks; /* number of ranks in the group of an exchange; otherwise 0 */
    bool across;   /* whether the group's ranks are on several hosts */
    zr_step_cost cost;
    double sec;
} zr_step_sample;

/** Measured time for which ranks waited for each other when exchanges and computation alternated, as in training. */
typedef struct zr_wait_sample {
    double computed_sec; /* mean computation time between two exchanges */
    double share;        /* mean time for which a rank waited for the slowest rank, as a fraction of computed_sec */
} zr_wait_sample;

#define ZR_LAUNCH_WAITS 32

/** Measurements of training steps that `zr info --bench` makes with `ranks` ranks of `threads` threads each. */
typedef struct zr_launch {
    char transport[12]; /* "threads" or "mpi" */
    int32_t ranks, hosts, threads;
    int32_t cores;     /* number of cores of each host that its ranks may use */
    double around_sec; /* seconds of a training step that are not spent in steps of its schedule */
    zr_step_sample *sample;
    int32_t n_samples;
    /* whether exchanges overlap with computation in training. The samples were measured without overlap in any case */
    bool beside;
    /* slow-down by overlap, below 1: while computation and an exchange overlap for t seconds, computation takes lost *
     * t seconds longer, and the exchange late * t seconds */
    double lost, late;
    double spread; /* relative standard deviation of exchange times, with overlap */
    /* rate from other hosts into one rank while all ranks run exchanges; 0 if there is only one host */
    double across_bytes_sec;
    /* waits measured without overlap; the samples of exchanges do not include them */
    zr_wait_sample wait[ZR_LAUNCH_WAITS];
    int32_t n_waits;
} zr_launch;

typedef struct zr_cluster {
    char name[48];
    /** One device: peak rates, memory size and memory rate. A matrix product runs at the rate that device.product has
     * for nearby sizes. If device.product has no rates, it runs at a share of the peak: product_share * s / (s +
     * product_half). Here s is the smallest of the product's three sizes. device.link_copies is used, and the rates in
     * device.link are ignored. */
    zr_machine device;
    double product_share, product_half;
    /* share of the peak FLOP/s that attention kernels reach if device.product has no rates; FLOPs of masked query-key
     * pairs are counted too. 0 to estimate attention like matrix products with the width of a head */
    double attention_share;
    double memory_share; /* share of memory_bytes_sec that kernels reach */
    double launch_sec;   /* launch time of a kernel */
    double link_share;   /* share of a link's rate that exchanges reach */
    double step_sec;     /* start-up time of a collective, in addition to the times of its messages */
    /* levels of links: the first level connects the nearest devices, the last level connects all devices */
    zr_cluster_link link[ZR_CLUSTER_LINKS];
    int32_t n_links;      /* number of levels; 0 if there is only one device */
    int32_t devices;      /* number of devices in the cluster */
    bool any_hosts;       /* whether hosts are added to the cluster if a plan has more ranks than `devices` */
    int32_t host_devices; /* number of consecutive devices in one host */
    bool processors;      /* whether the devices are processors, which compute in the memory of their host */
    int64_t host_memory_bytes;
    double host_bytes_sec; /* rate between a device and its host's memory, in each direction; 0 if not known */
    /* rate of a host's disk, for the sum of reads and writes; 0 if unknown, and offloaded states then move at the disk
     * rates of `device` */
    double disk_bytes_sec;
    zr_algorithm algorithm;
    /* Software of the runs. In a named cluster these members are 0, which means zr's own kernels and streams on a GPU.
     */
    /* memory bytes per query-key pair that attention kernels read and write in the forward pass to store scores. The
     * backward pass needs twice this number. 0 if scores stay on the chip */
    double scores_bytes;
    /* alignment of sizes for fast 16-bit products: if a size is not a multiple of this number, the product runs at the
     * rate of fp32. For attention the size is the width of a head. 0 for no alignment */
    int32_t product_multiple;
    /* bits of the operands of the layers' matrix products: 8 or 4, or 0 for those of the plan's dtype. Attention and
     * the head multiply in the plan's dtype. Only for estimates */
    int32_t product_bits;
    /* with product_bits: bytes that casts of operands and results move, as a multiple of the bytes of a product in the
     * plan's dtype */
    double cast_factor;
    /* number of ranks that share the tokens of a sample (context parallelism), or 0. The plan's samples are then parts
     * of samples, whose queries see the keys of all parts: attention has this many times the plan's query-key pairs.
     * The exchange of keys and values is assumed to overlap with attention */
    int32_t context_ranks;
    /* factors relative to zr, or 0 for 1: bytes of gradients that ranks exchange; bytes of parameters that they gather;
     * exposed seconds of the exchanges of tensor parallelism; bytes that ops without products move; bytes that updates,
     * casts and norms of gradients move */
    double reduce_factor, gather_factor, tensor_factor, pass_factor, update_factor;
    /* whether computation stops while activation checkpoints are copied to the host and back */
    bool copies_hold;
    bool exchanges_beside; /* whether exchanges overlap with computation even without zr_layout.overlap */
    /** Measurements on this cluster, borrowed, or NULL. With measurements, the time of a step is estimated from
     * measured steps of the same kind. Kinds that were not measured use the rates of this struct. An estimate of an
     * exchange between hosts is never faster than these rates allow. */
    const zr_launch *measured;
} zr_cluster;

/** Read the description of a cluster. `name` is a built-in cluster such as "dgx2x25", or a device such as "h100" in as
 * many of its usual hosts as needed, or "[HOSTSx]DEVICESxNAME", such as "4x4090" or "2x8xh100", with so many devices in
 * a host. A name that has a '/' or ends in .json is the path of a file. docs/simulate.md describes the file's keys,
 * units and `include`. Fail with ZR_ERR_NOT_FOUND and the list of names, with ZR_ERR_DATA as "file:line:column: key:
 * reason", or with ZR_ERR_IO. */
ZR_API ZR_NODISCARD zr_status zr_cluster_read(const char *name, zr_cluster *cluster);
/** Find the first built-in cluster with devices of a given name, such as "h100" (see zr_profile_named). Fail with
 * ZR_ERR_NOT_FOUND if no cluster has them. */
ZR_API ZR_NODISCARD zr_status zr_cluster_of_device(const char *device, zr_cluster *cluster);

/* ---- pricing ---------------------------------------------------------------------------------- */

/** Causes of waits of the compute stream. */
#define ZR_CAUSE_LIST(X)                                                                                               \
    X(STAGE, "stage")       /* gathers and reductions of ZeRO */                                                       \
    X(TENSOR, "tensor")     /* communication of tensor parallelism */                                                  \
    X(PIECES, "Pa")         /* gathers of activation checkpoints that are stored in pieces */                          \
    X(HOST, "Pa+cpu")       /* copies of activation checkpoints to and from the host */                                \
    X(STATES, "offload")    /* copies of model states to and from the host, and updates by its processors */           \
    X(DISK, "disk")         /* copies of model states from and to disk */                                              \
    X(PIPELINE, "pipeline") /* waits for other pipeline ranks: for their values, and until they end the step */

typedef enum zr_cause {
#define ZR_CAUSE_ENUM(name, text) ZR_CAUSE_##name,
    ZR_CAUSE_LIST(ZR_CAUSE_ENUM)
#undef ZR_CAUSE_ENUM
        ZR_CAUSES
} zr_cause;

typedef struct zr_simulation {
    zr_price price;                /* times of one training step */
    double exposed_sec[ZR_CAUSES]; /* exposed time by cause, of role price.role */
    /** Busy time of the compute stream, by cause: matrix products, memory traffic, kernel launches. */
    double product_sec, memory_sec, launch_sec;
    /* name of the largest part of the time: "products", "memory" or "launches" for the three times above, or a cause of
     * exposed_sec */
    const char *bound_by;
    double samples_sec, tokens_sec;
    double flops_sec; /* FLOP/s of a device, including recomputation */
    double mfu;       /* model FLOPs utilization: share of the device's peak rate, without recomputation */
    /* factor, at least 1, by which kernels take longer on the slowest rank than the cluster's rates predict */
    double slowest;
    /** Cost of a save during a training step. All ranks of a host share the host's disk. Zeros if the plan has no save
     * steps. Times are NAN if the save needs a rate that the cluster does not give: disk_bytes_sec or host_bytes_sec.
     */
    zr_save_price save;
} zr_simulation;

typedef struct zr_simulate_options {
    int32_t ranks_per_host; /* ranks per host; 0 for one rank per device of the host */
    double straggler;       /* factor by which rank 0 computes more slowly, at least 1; 0 for no difference */
    /* random slow-down: computation on rank r takes 1 + jitter * |n| times as long, where n is the rank's standard
     * normal number (ZR_RNG_JITTER, `seed`, element r) */
    double jitter;
    uint64_t seed;
} zr_simulate_options;

/** Simulate a training step of the plans of all roles. `options` may be NULL, which means zeros. `time` may be NULL;
 * otherwise it receives the times of each step, as from zr_plans_times. Errors: ZR_ERR_CONFIG if the plan's ranks do
 * not fit the cluster, or if the cluster lacks a number that the plan needs (the message names its key); ZR_ERR_ARG for
 * an invalid option; ZR_ERR_STATE if the plan has no training step. */
ZR_API ZR_NODISCARD zr_status zr_simulate(const zr_plans *plans, const zr_cluster *cluster,
                                          const zr_simulate_options *options, zr_simulation *simulation,
                                          zr_step_time *const *time);

#ifdef __cplusplus
}
#endif
#endif
