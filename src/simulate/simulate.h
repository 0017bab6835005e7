/** simulate, internal: prices a plan on a cluster, without the cluster's hardware. clusters.c defines clusters by name,
 * and cluster.c reads clusters from files. check.c rejects plans that cannot be priced. simulate.c prices steps and
 * training steps. collectives.c prices exchanges by the devices of a group's ranks. measured.c and contention.c price
 * steps from measurements on this machine. The public API is in zr/simulate.h. */
#ifndef ZR_SIMULATE_INTERNAL_H
#define ZR_SIMULATE_INTERNAL_H

#include "zr/simulate.h"
#include "plan/cost/cost.h"

/** Return step number `index` as a sample that can be compared with measured steps, without seconds.
 * zr_layout.host_ranks determines whether the step's ranks are on several hosts. */
zr_step_sample zr__step_sample_of(const zr_plan *plan, zr_schedule_kind kind, int32_t index);

/** Add hosts to a cluster with a network, until it has at least `devices` devices. */
void zr__cluster_widen(zr_cluster *cluster, int32_t devices);
const char *zr__cause_name(zr_cause cause);
/** Return zr_simulation.bound_by for the times of a simulation. */
const char *zr__bound_of(const zr_simulation *made);

/** Cost of the collectives of a group. The cost depends on the devices of the group's ranks. */
typedef struct zr__spot {
    int32_t size;
    /* seconds per received byte: along a ring (ring_sec), and directly from all other members (direct_sec) */
    double ring_sec, direct_sec;
    double latency_sec; /* latency of a message over the slowest link on its path, in seconds */
} zr__spot;

/** Return the device of a rank, if each host has ranks_per_host ranks. */
static inline int64_t zr__device_of(const zr_cluster *cluster, int32_t ranks_per_host, int64_t rank)
{
    return rank / ranks_per_host * cluster->host_devices + rank % ranks_per_host;
}

/** Return the worst cost among all groups of the kind `group`, because all ranks wait for the slowest group. If the
 * groups divide hosts evenly, their costs are equal. Otherwise some groups cross a border between hosts, or have fewer
 * links into their host than others. */
zr__spot zr__spot_of(const zr_plan *plan, int32_t group, const zr_cluster *cluster, int32_t ranks_per_host);

/** Return the seconds of an all-gather or reduce-scatter in which each rank receives `bytes`, in equal parts from all
 * other ranks of the group. */
double zr__exchange_sec(const zr_cluster *cluster, const zr__spot *spot, double bytes);

/** Cost of a message between two roles: its latency, and the seconds for each byte. */
typedef struct zr__path {
    double latency_sec, byte_sec;
} zr__path;

/** Return the cost of a message from the role `from` to a rank of the plan's role: the highest among these ranks, which
 * all receive such messages at the same time. */
zr__path zr__path_of(const zr_plan *plan, int32_t from, const zr_cluster *cluster, int32_t ranks_per_host);

/** Estimate the seconds of a step in a measured launch (zr_launch) from similar measured steps. step->sec is ignored.
 * Return false if no similar step was measured. */
bool zr__measured_sec(const zr_launch *launch, const zr_step_sample *step, double *sec);
/** For each step of the training schedules in a launch, find how many seconds longer the step takes than alone. The
 * causes are ranks that wait for each other, and streams that overlap. `pricer` must return the time that a step takes
 * alone plus the step's entry of longer_sec[role]. All entries must be 0 at the call. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__find_longer(const zr_plans *plans, const zr_launch *launch, const zr__pricer *pricer,
                                       double *const *longer_sec);

/** Check that the cluster has enough devices for the ranks. */
ZR_NODISCARD zr_status zr__simulate_room(const zr_cluster *cluster, int32_t ranks_per_host, int32_t ranks);
/** Check that the cluster has all numbers needed to price the plan, and enough devices for its ranks. */
ZR_NODISCARD zr_status zr__simulate_check(const zr_plan *plan, const zr_cluster *cluster, int32_t ranks_per_host);
/** Return a device's peak FLOP/s in the plan's dtype. */
double zr__peak_of(const zr_plan *plan, const zr_machine *device);
/** Return whether a plan's training schedule has copies to or from host memory. If `saves`, consider only steps that
 * save; otherwise consider only other steps. */
bool zr__copies_to_host(const zr_plan *plan, bool saves);
/** Return whether a step is a copy to or from host memory. */
bool zr__is_host_copy(const zr_plan *plan, zr_schedule_kind kind, const zr_step *step);

/** Shares of data-sheet rates that devices of one generation reach in training. Each entry belongs to a member of
 * zr_cluster. */
typedef enum zr__reached {
    ZR__PRODUCT_SHARE,
    ZR__PRODUCT_HALF,
    ZR__ATTENTION_SHARE,
    ZR__MEMORY_SHARE,
    ZR__LINK_SHARE,
    ZR__NVLINK_SHARE, /* zr_cluster_link.share of links within a host that bypass the host's processor */
    ZR__NETWORK_SEC,  /* zr_cluster_link.latency_sec of links between hosts */
    ZR__REACHED
} zr__reached;

typedef struct zr__generation {
    const char *name, *source;
    double value[ZR__REACHED];
    /* part of the data sheet's FLOP/s that products sustain within the device's power, relative to H100 and A100;
     * product_share is multiplied by it */
    double sustained;
    /* bit set: bit 1 << v is set if value[v] was fitted on runs on devices of this generation; the other values have
     * another source */
    unsigned fitted;
} zr__generation;

/** Return the generation of a device that zr__cluster_device knows, or NULL if the device has no generation. */
const zr__generation *zr__generation_of(const char *device);
/** Return whether traffic between devices and between hosts uses the same PCI Express links as copies to the host. */
bool zr__through_pcie(const zr_cluster *cluster);

/** Find a device by name (zr_profile_named). Drop the links of the profile, since a cluster has its own links. */
ZR_NODISCARD zr_status zr__cluster_device(const char *name, zr_machine *device);
/** Find a cluster by name: a built-in cluster, a device, or numbers of devices (see zr_cluster_read). If the name is
 * unknown, return ZR_ERR_NOT_FOUND with a message that lists the names. */
ZR_NODISCARD zr_status zr__cluster_named(const char *name, zr_cluster *cluster);

/** Return the names of the built-in clusters, ending with NULL. */
const char *const *zr__cluster_names(void);
/** Write the names of the built-in clusters and of all devices to `all`. Return their number. */
#define ZR__NAMES_MOST 96
int zr__machine_names(const char *all[ZR__NAMES_MOST]);

/** Set the rates of host memory, PCI Express and disk that a cluster does not give to usual values for its kind of
 * hosts. Return the bytes of a host's memory, or a usual value if the cluster does not give them. */
int64_t zr__cluster_assume(zr_cluster *cluster);
#define ZR__ASSUMED_BYTES 256
/** Write what zr__cluster_assume would assume for a cluster to `note`, such as "host.disk_bytes_per_sec 8.00 GB/s (mine
 * gives none; usual for a server)", or "". Name the disk's rate only with `disk`. Return `note`. */
const char *zr__cluster_assumed(const zr_cluster *cluster, bool disk, char note[ZR__ASSUMED_BYTES]);
/** Write what links the devices of a cluster to `text`, in words. Return `text`. */
const char *zr__cluster_links(const zr_cluster *cluster, char text[ZR__ASSUMED_BYTES]);

#endif
