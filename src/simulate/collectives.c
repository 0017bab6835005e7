/*
 * Exchanges between the ranks of a group: which links they cross, how many groups cross them at the same time, and how
 * long each algorithm takes. Formulas of ring and tree: Thakur, Rabenseifner, Gropp (2005), with the bytes that cross
 * each level of a cluster; docs/simulate.md derives them.
 */
#include "simulate/simulate.h"

#include <math.h>

/* ---- where ranks are ---------------------------------------------------------------------------- */

/* Devices of one unit of a level; level 0 is a device, level l the links[l - 1]. */
static int32_t unit_devices(const zr_cluster *cluster, int level)
{
    return level == 0 ? 1 : cluster->link[level - 1].devices;
}

/* From a group's first rank to that at a place: the first axis of the group counts slowest. */
static int64_t rank_at(const zr_plan *plan, const zr_group *group, int32_t place)
{
    int64_t rank = 0;
    for (int32_t i = group->n_axes - 1; i >= 0; i--) {
        const zr_axis *axis = &plan->axis[group->axis[i]];
        rank += (int64_t)(place % axis->size) * axis->step;
        place /= axis->size;
    }
    return rank;
}

/* Ranks of all on the devices of the first unit. */
static int32_t ranks_within(const zr_plan *plan, const zr_cluster *cluster, int32_t ranks_per_host, int32_t devices)
{
    int32_t n = 0;
    while (n < plan->ranks && zr__device_of(cluster, ranks_per_host, n) < devices) n++;
    return n;
}

/* The fewest members that the group of `first` (at place 0) has in one of the units that it touches: the links into
 * that unit are the slowest for it. */
static int32_t fewest_within(const zr_plan *plan, const zr_group *group, const zr_cluster *cluster,
                             int32_t ranks_per_host, int64_t first, int32_t devices)
{
    int32_t fewest = group->size, here = 0;
    int64_t unit = -1;
    for (int32_t place = 0; place < group->size; place++) {
        const int64_t now = zr__device_of(cluster, ranks_per_host, first + rank_at(plan, group, place)) / devices;
        if (now != unit && here > 0 && here < fewest) fewest = here;
        here = now == unit ? here + 1 : 1;
        unit = now;
    }
    return here < fewest ? here : fewest;
}

zr__spot zr__spot_of(const zr_plan *plan, int32_t index, const zr_cluster *cluster, int32_t ranks_per_host)
{
    const zr_group *group = &plan->group[index];
    zr__spot spot = {.size = group->size};
    for (int level = 0; level <= cluster->n_links; level++) {
        const int32_t devices = unit_devices(cluster, level);
        const int32_t within = ranks_within(plan, cluster, ranks_per_host, devices);
        spot.members[level] = group->size;
        for (int rank = 0; rank < plan->ranks; rank++) {
            if (zr_plan_place(plan, index, rank) != 0) continue;
            const int32_t fewest = fewest_within(plan, group, cluster, ranks_per_host, rank, devices);
            if (fewest < spot.members[level]) spot.members[level] = fewest;
        }
        spot.groups[level] = (within + spot.members[level] - 1) / spot.members[level];
    }
    return spot;
}

/* ---- what they take ----------------------------------------------------------------------------- */

/* Does the group cross the links of this level? */
static bool crosses(const zr__spot *spot, int level)
{
    return spot->members[level + 1] > spot->members[level];
}

static double device_rate(const zr_cluster *cluster, int level)
{
    return cluster->link[level].bytes_sec * cluster->link_share;
}

/* Of the links into one unit below this level, for one of the groups that cross at the same time. */
static double unit_rate(const zr_cluster *cluster, const zr__spot *spot, int level)
{
    const double own = device_rate(cluster, level) * spot->members[level];
    const double shared = cluster->link[level].shared_bytes_sec * cluster->link_share / spot->groups[level];
    return shared > 0 ? fmin(own, shared) : own;
}

static double latency(const zr_cluster *cluster, const zr__spot *spot)
{
    double most = 0;
    for (int level = 0; level < cluster->n_links; level++)
        if (crosses(spot, level)) most = fmax(most, cluster->link[level].latency_sec);
    return most;
}

/* As many rings as a unit has members of the group share the bytes; all of them enter each unit once. */
static double ring_sec(const zr_cluster *cluster, const zr__spot *spot, double bytes)
{
    double sec = 0;
    for (int level = 0; level < cluster->n_links; level++)
        if (crosses(spot, level)) sec = fmax(sec, bytes / unit_rate(cluster, spot, level));
    return sec + (spot->size - 1) * latency(cluster, spot);
}

/* Each member gets from beyond its unit what those there have. */
static double direct_sec(const zr_cluster *cluster, const zr__spot *spot, double bytes)
{
    double sec = 0;
    for (int level = 0; level < cluster->n_links; level++) {
        const int32_t others = spot->members[level + 1] - spot->members[level];
        const double into_unit = bytes * others / (spot->size - 1) * spot->members[level];
        if (others > 0) sec = fmax(sec, into_unit / unit_rate(cluster, spot, level));
    }
    return sec;
}

static double tree_sec(const zr_cluster *cluster, const zr__spot *spot, double bytes)
{
    return direct_sec(cluster, spot, bytes) + ceil(log2(spot->size)) * latency(cluster, spot);
}

double zr__exchange_sec(const zr_cluster *cluster, const zr__spot *spot, double bytes)
{
    double sec = 0;
    if (spot->size < 2) return 0;
    switch (cluster->algorithm) {
    case ZR_ALGORITHM_RING:
        sec = ring_sec(cluster, spot, bytes);
        break;
    case ZR_ALGORITHM_TREE:
        sec = tree_sec(cluster, spot, bytes);
        break;
    case ZR_ALGORITHM_EXCHANGE:
        sec = direct_sec(cluster, spot, bytes) + (spot->size - 1) * latency(cluster, spot);
        break;
    case ZR_ALGORITHM_AUTO:
        sec = fmin(ring_sec(cluster, spot, bytes), tree_sec(cluster, spot, bytes));
        break;
    }
    return sec + cluster->step_sec;
}

/* Along the ring, in pieces that follow one another. */
double zr__broadcast_sec(const zr_cluster *cluster, const zr__spot *spot, double bytes)
{
    return spot->size < 2 ? 0 : ring_sec(cluster, spot, bytes) + cluster->step_sec;
}
