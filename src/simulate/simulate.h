/**
 * simulate, internal: pricing a plan on a cluster that is not here. clusters.c has clusters by name, cluster.c reads
 * them from files; check.c refuses what cannot be priced; simulate.c prices steps and a training step, collectives.c
 * exchanges by the places of a group's ranks, measured.c and longer.c steps that were measured here. Clusters of the
 * public API are in zr/simulate.h.
 */
#ifndef ZR_SIMULATE_INTERNAL_H
#define ZR_SIMULATE_INTERNAL_H

#include "zr/simulate.h"
#include "plan/cost/cost.h"

/** Return step number `index` as a sample, without its seconds. zr_layout.host_ranks tells whether its ranks are on
 *  several hosts. */
zr_step_sample zr__step_sample_of(const zr_plan *plan, zr_schedule_kind kind, int32_t index);

/** Add hosts to a cluster that has a network until it has at least `devices` devices. */
void zr__cluster_widen(zr_cluster *cluster, int32_t devices);
const char *zr__cause_name(zr_cause cause);

/** Times of a group's collectives that follow from its place in the cluster. */
typedef struct zr__spot {
    int32_t size;
    double ring_sec, direct_sec; /* seconds per byte: along a ring, and directly from every other member */
    double latency_sec;          /* seconds of latency of one message over the slowest links that it crosses */
} zr__spot;

/** Return the device of a rank, with ranks_per_host ranks on each host. */
static inline int64_t zr__device_of(const zr_cluster *cluster, int32_t ranks_per_host, int64_t rank)
{
    return rank / ranks_per_host * cluster->host_devices + rank % ranks_per_host;
}

/** Return the worst times among all groups of this kind, since all ranks meet in the end. The groups are alike if
 * degrees divide full hosts; otherwise some groups cross a border of hosts, or have fewer links into their host. */
zr__spot zr__spot_of(const zr_plan *plan, int32_t group, const zr_cluster *cluster, int32_t ranks_per_host);

/** Return the seconds of an all-gather or reduce-scatter: each rank receives `bytes` in equal parts from the others. */
double zr__exchange_sec(const zr_cluster *cluster, const zr__spot *spot, double bytes);
/** Return the seconds of a broadcast from one rank, or a reduction to one rank. */
double zr__broadcast_sec(const zr_cluster *cluster, const zr__spot *spot, double bytes);

/** Return how often a step of a schedule runs in a training step without a save. Call it for all steps in order, with
 * *rounds 1 at first: it follows the rounds of REPEAT. */
static inline double zr__step_runs(const zr_step *step, int64_t *rounds)
{
    if (step->kind == ZR_STEP_REPEAT) *rounds = step->rounds;
    if (step->kind == ZR_STEP_END) *rounds = 1;
    return (double)zr_when_rounds(step->when, *rounds, true, false);
}

/** Find the seconds of a step in a launch from the steps measured there (step->sec is not read); return false if no
 * like step was measured. */
bool zr__measured_sec(const zr_launch *launch, const zr_step_sample *step, double *sec);
/** Find the extra seconds of each step of training in a launch over its time alone: ranks wait for each other, or
 * overlapping streams slow each other. `pricer` prices steps alone and adds `longer_sec`, which is all zeros at first.
 * ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__find_longer(const zr_plan *plan, const zr_launch *launch, const zr__pricer *pricer,
                                       double *longer_sec);

/** Check that the cluster has all numbers that pricing the plan needs, and room for its ranks. */
ZR_NODISCARD zr_status zr__simulate_check(const zr_plan *plan, const zr_cluster *cluster, int32_t ranks_per_host);
/** Return a device's peak FLOP/s in the plan's type. */
double zr__peak_of(const zr_plan *plan, const zr_machine *device);
/** Return whether a plan's steps copy to host memory or back: steps that save (`saves`), or all others; return whether
 * one step does. */
bool zr__copies_to_host(const zr_plan *plan, bool saves);
bool zr__is_host_copy(const zr_plan *plan, zr_schedule_kind kind, const zr_step *step);

/** Shares of data sheets' rates that a generation of devices reaches: members of zr_cluster, in the order of this list.
 */
typedef enum zr__reached {
    ZR__PRODUCT_SHARE,
    ZR__PRODUCT_HALF,
    ZR__ATTENTION_SHARE,
    ZR__MEMORY_SHARE,
    ZR__LINK_SHARE,
    ZR__NVLINK_SHARE, /* zr_cluster_link.share, of links between devices of a host that bypass the host */
    ZR__NETWORK_SEC,  /* zr_cluster_link.latency_sec, of links between hosts */
    ZR__REACHED
} zr__reached;

typedef struct zr__generation {
    const char *name, *source;
    double value[ZR__REACHED];
    unsigned fitted; /* bits 1 << zr__reached: values fitted on runs of this generation; other values are taken from
                        elsewhere */
} zr__generation;

/** Return the fitted generation of a device of zr__cluster_device; NULL if it has none. */
const zr__generation *zr__generation_of(const char *device);
/** Return whether traffic between devices and between hosts passes the same PCI Express as copies to the host. */
bool zr__through_pcie(const zr_cluster *cluster);

/** Find a device by name, of the table or of zr_profile_named without the profile's links, since a cluster has its own.
 */
ZR_NODISCARD zr_status zr__cluster_device(const char *name, zr_machine *device);
/** Find a cluster of the table by name. ZR_ERR_NOT_FOUND with the list of names. */
ZR_NODISCARD zr_status zr__cluster_named(const char *name, zr_cluster *cluster);

#endif
