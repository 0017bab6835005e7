/**
 * simulate, internal: clusters by name, the numbers of the model that no data sheet gives, where ranks of a group are
 * in a cluster, and what they take to exchange.
 */
#ifndef ZR_SIMULATE_INTERNAL_H
#define ZR_SIMULATE_INTERNAL_H

#include "zr/simulate.h"

/** A group in the cluster: of each level of links, and below them of a device (level 0). */
typedef struct zr__spot {
    int32_t members[ZR_CLUSTER_LINKS + 1]; /* of the group, within one unit of the level */
    int32_t groups[ZR_CLUSTER_LINKS + 1];  /* such groups that have members there */
    int32_t size;
} zr__spot;

/** Where rank r of so many on each host is. */
static inline int64_t zr__device_of(const zr_cluster *cluster, int32_t ranks_per_host, int64_t rank)
{
    return rank / ranks_per_host * cluster->host_devices + rank % ranks_per_host;
}

/** Of the group, of all alike, that the links serve worst: all ranks meet in every exchange. Where degrees divide hosts
 *  they are all the same; elsewhere some reach over a border. */
zr__spot zr__spot_of(const zr_plan *plan, int32_t group, const zr_cluster *cluster, int32_t ranks_per_host);

/** Seconds until each of the group has `bytes` from the others, in equal parts: an all-gather, or a reduce-scatter. */
double zr__exchange_sec(const zr_cluster *cluster, const zr__spot *spot, double bytes);
/** Until all have what one of them has, or one has the sum of all. */
double zr__broadcast_sec(const zr_cluster *cluster, const zr__spot *spot, double bytes);

/** A number that was fitted, and by what. */
typedef struct zr__simulate_constant {
    const char *name; /* of the member of zr_cluster, or of its widest link, that it is */
    double value;
    const char *source;
} zr__simulate_constant;

/** They are the same in all clusters that zr knows by name: nothing is fitted to a single cluster. */
typedef enum zr__fitted {
    ZR__FITTED_PRODUCT_SHARE,
    ZR__FITTED_PRODUCT_HALF,
    ZR__FITTED_MEMORY_SHARE,
    ZR__FITTED_LINK_SHARE,
    ZR__FITTED_NETWORK_SEC,
    ZR__FITTED
} zr__fitted;
extern const zr__simulate_constant zr__simulate_constants[ZR__FITTED];

/** A device of zr_profile_named, without the profile's links: a cluster has its own. */
ZR_NODISCARD zr_status zr__cluster_device(const char *name, zr_machine *device);
/** A cluster of the table. ZR_ERR_NOT_FOUND with the list of names. */
ZR_NODISCARD zr_status zr__cluster_named(const char *name, zr_cluster *cluster);

#endif
