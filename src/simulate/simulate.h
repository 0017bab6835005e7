/**
 * simulate, internal: clusters by name, the numbers of the model that no data sheet gives, where ranks of a group are
 * in a cluster, and what they take to exchange.
 */
#ifndef ZR_SIMULATE_INTERNAL_H
#define ZR_SIMULATE_INTERNAL_H

#include "zr/simulate.h"

/** What a group's place in the cluster makes of its exchanges. */
typedef struct zr__spot {
    int32_t size;
    double ring_sec, direct_sec; /* for each byte: along a ring, and straight from every other member */
    double latency_sec;          /* of one message over the slowest links that it crosses */
} zr__spot;

/** Where rank r of so many on each host is. */
static inline int64_t zr__device_of(const zr_cluster *cluster, int32_t ranks_per_host, int64_t rank)
{
    return rank / ranks_per_host * cluster->host_devices + rank % ranks_per_host;
}

/** Of all groups of this kind, what the links serve worst: all ranks meet in the end. Where degrees divide hosts, and
 *  hosts are full, they are all the same; elsewhere some reach over a border, or find fewer links into their host. */
zr__spot zr__spot_of(const zr_plan *plan, int32_t group, const zr_cluster *cluster, int32_t ranks_per_host);

/** Seconds until each of the group has `bytes` from the others, in equal parts: an all-gather, or a reduce-scatter. */
double zr__exchange_sec(const zr_cluster *cluster, const zr__spot *spot, double bytes);
/** Until all have what one of them has, or one has the sum of all. */
double zr__broadcast_sec(const zr_cluster *cluster, const zr__spot *spot, double bytes);

/** How often a step of a schedule runs in a training step that saves nothing. Asked of all steps in order: `rounds`, 1
 * at first, are those of the REPEAT that they stand in. */
static inline double zr__step_runs(const zr_step *step, int64_t *rounds)
{
    if (step->kind == ZR_STEP_REPEAT) *rounds = step->rounds;
    if (step->kind == ZR_STEP_END) *rounds = 1;
    return (double)zr_when_rounds(step->when, *rounds, true, false);
}

/** Seconds that a step would take in a launch, by the steps measured there; its own `sec` is not read. false: none of
 *  its kind were. */
bool zr__measured_sec(const zr_launch *launch, const zr_step_sample *step, double *sec);
/** How much longer than alone each step of training takes in a launch: ranks wait for each other, or streams that run
 *  at once slow each other. `pricer` prices steps alone, and adds `longer_sec`, which is zeros at first. ZR_ERR_MEMORY.
 */
ZR_NODISCARD zr_status zr__find_longer(const zr_plan *plan, const zr_launch *launch, const zr_pricer *pricer,
                                       double *longer_sec);

/** Is everything there that pricing such a plan needs, and do its ranks fit? */
ZR_NODISCARD zr_status zr__simulate_check(const zr_plan *plan, const zr_cluster *cluster, int32_t ranks_per_host);
/** In the plan's type. */
double zr__peak_of(const zr_plan *plan, const zr_machine *device);
/** Does a step copy to the host's memory or back? Those that save are asked for by themselves. */
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
    ZR__NVLINK_SHARE, /* zr_cluster_link.share, of links in a host that pass it by */
    ZR__NETWORK_SEC,  /* zr_cluster_link.latency_sec, of links between hosts */
    ZR__REACHED
} zr__reached;

typedef struct zr__generation {
    const char *name, *source;
    double value[ZR__REACHED];
    unsigned fitted; /* 1 << zr__reached each: on runs of this generation; the others are taken from elsewhere */
} zr__generation;

/** Find the generation of a device of zr__cluster_device; NULL: it has none that was fitted. */
const zr__generation *zr__generation_of(const char *device);
/** Do bytes to or from other hosts, and those between devices, pass the same PCI Express as copies to the host? */
bool zr__through_pcie(const zr_cluster *cluster);

/** A device of zr_profile_named, without the profile's links: a cluster has its own. */
ZR_NODISCARD zr_status zr__cluster_device(const char *name, zr_machine *device);
/** A cluster of the table. ZR_ERR_NOT_FOUND with the list of names. */
ZR_NODISCARD zr_status zr__cluster_named(const char *name, zr_cluster *cluster);

#endif
