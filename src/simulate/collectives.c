/*
 * Prices the collectives of a group, and messages between roles. The price depends on the links that the collectives
 * cross, on the number of groups that share these links, and on the algorithm.
 *
 * The formulas of ring and tree are from Thakur, Rabenseifner, Gropp (2005), with the bytes that cross each level of a
 * cluster. docs/simulate.md derives them.
 */
#include "simulate/simulate.h"
#include "plan/list/place.h"

#include <math.h>

/* ---- where ranks are ---------------------------------------------------------------------------- */

/* A kind of group, such as all tensor-parallel groups, with all facts that determine the devices of its ranks. */
typedef struct placing {
    const zr_plan *plan;
    const zr_cluster *cluster;
    int32_t ranks_per_host;
    int32_t index; /* index of the group in the plan */
    const zr_group *group;
} placing;

/* Return the rank of member number `place` of a group, relative to the rank of the group's first member. */
static int64_t rank_at(const placing *p, int32_t place)
{
    return zr__plan_member(p->plan, p->index, place);
}

static int64_t unit_of(const placing *p, int64_t rank, int32_t devices)
{
    return zr__device_of(p->cluster, p->ranks_per_host, rank) / devices;
}

/* A unit is a block of `devices` consecutive devices. Return the number of the first member after `place` that is in
 * another unit than member `place`. If all later members are in the same unit, return the group's size. */
static int32_t unit_end(const placing *p, int64_t first, int32_t place, int32_t devices)
{
    const int64_t unit = unit_of(p, first + rank_at(p, place), devices);
    while (++place < p->group->size && unit_of(p, first + rank_at(p, place), devices) == unit) continue;
    return place;
}

/* Return the first rank on this device or on a later device. */
static int64_t rank_from(const placing *p, int64_t device)
{
    const int32_t host = p->cluster->host_devices, rest = (int32_t)(device % host);
    const int64_t rank = device / host * p->ranks_per_host + (rest < p->ranks_per_host ? rest : p->ranks_per_host);
    return rank < p->plan->ranks ? rank : p->plan->ranks;
}

/* Count the groups of this kind that have members both inside and outside a unit, a block of `devices` consecutive
 * devices. These groups share the links into the unit. */
static int32_t groups_across(const placing *p, int64_t unit, int32_t devices)
{
    const int64_t first = rank_from(p, unit * devices), end = rank_from(p, (unit + 1) * devices);
    int32_t n = 0;
    for (int64_t rank = first; rank < end; rank++) {
        const int32_t place = zr__plan_place(p->plan, p->index, (int)rank);
        const int64_t zeroth = rank - rank_at(p, place), last = zeroth + rank_at(p, p->group->size - 1);
        const bool counted = place > 0 && zeroth + rank_at(p, place - 1) >= first;
        n += !counted && (zeroth < first || last >= end);
    }
    return n;
}

/* Return the bytes per second into a device over a level of links. Within a host linked by PCI Express, traffic of
 * outer levels also passes through these PCI Express links, and perhaps through the memory of the host. */
static double level_rate(const zr_cluster *cluster, int level)
{
    const zr_cluster_link *link = &cluster->link[level];
    const double rate = link->bytes_sec * (link->share > 0 ? link->share : cluster->link_share);
    if (!zr__through_pcie(cluster)) return rate;
    return level > 0 ? fmin(rate, level_rate(cluster, 0)) : zr__through_host_rate(&cluster->device, rate);
}

/* Raise the times in `spot` to at least the times over one level of links. `first` is the first rank of the group. A
 * ring enters each unit of the level below once. As many rings run in parallel as the unit with the fewest members of
 * the group has members. */
static void add_level(const placing *p, int64_t first, int level, zr__spot *spot)
{
    const zr_cluster_link *link = &p->cluster->link[level];
    /* A unit of this level is a block of the devices that its links connect. A unit of the level below has `below`
     * devices. */
    const int32_t below = level == 0 ? 1 : link[-1].devices, size = p->group->size;
    const double share = link->share > 0 ? link->share : p->cluster->link_share, rate = level_rate(p->cluster, level),
                 shared = link->shared_bytes_sec * share;
    int32_t fewest = 0;
    for (int32_t place = 0, end; place < size; place = end) {
        end = unit_end(p, first, place, link->devices);
        for (int32_t in = place, out; in < end; in = out) {
            out = unit_end(p, first, in, below);
            const int32_t members = out - in, others = end - place - members;
            /* the members in this unit are all in one unit of the level below, so they do not use the links of this
             * level */
            if (others == 0) continue;
            if (fewest == 0 || members < fewest) fewest = members;
            spot->direct_sec = fmax(spot->direct_sec, others / (rate * (size - 1)));
            if (shared <= 0) continue;
            const double each = groups_across(p, unit_of(p, first + rank_at(p, in), below), below) / shared;
            spot->ring_sec = fmax(spot->ring_sec, each);
            spot->direct_sec = fmax(spot->direct_sec, each * others * members / (size - 1));
        }
    }
    if (fewest == 0) return;
    spot->ring_sec = fmax(spot->ring_sec, 1 / (rate * fewest));
    spot->latency_sec = fmax(spot->latency_sec, link->latency_sec);
}

zr__spot zr__spot_of(const zr_plan *plan, int32_t index, const zr_cluster *cluster, int32_t ranks_per_host)
{
    const placing p = {plan, cluster, ranks_per_host, index, &plan->group[index]};
    zr__spot spot = {.size = p.group->size};
    for (int rank = 0; spot.size > 1 && rank < plan->ranks; rank++)
        for (int level = 0; level < cluster->n_links && zr__plan_place(plan, index, rank) == 0; level++)
            add_level(&p, rank, level, &spot);
    return spot;
}

/* ---- messages ----------------------------------------------------------------------------------- */

/* Count the ranks of a role in a unit, a block of `devices` consecutive devices, that receive from outside it. They
 * share the links into the unit. `by` is the distance from a receiver to its sender. */
static int32_t messages_into(const placing *p, int32_t by, int64_t unit, int32_t devices)
{
    const int64_t first = rank_from(p, unit * devices), end = rank_from(p, (unit + 1) * devices);
    int32_t n = 0;
    for (int64_t r = first; r < end; r++) n += zr__plan_is_for(p->plan, (int)r) && unit_of(p, r + by, devices) != unit;
    return n;
}

zr__path zr__path_of(const zr_plan *plan, int32_t from, const zr_cluster *cluster, int32_t ranks_per_host)
{
    const placing p = {.plan = plan, .cluster = cluster, .ranks_per_host = ranks_per_host};
    const int32_t by = (from - plan->layout.role) * plan->axis_step[ZR_AXIS_PIPELINE];
    zr__path path = {0};
    for (int32_t r = 0; r < plan->ranks; r++) {
        if (!zr__plan_is_for(plan, r)) continue;
        int level = 0;
        while (level + 1 < cluster->n_links &&
               unit_of(&p, r, cluster->link[level].devices) != unit_of(&p, r + by, cluster->link[level].devices))
            level++;
        const zr_cluster_link *link = &cluster->link[level];
        const double share = link->share > 0 ? link->share : cluster->link_share;
        const int32_t below = level == 0 ? 1 : link[-1].devices;
        double rate = level_rate(cluster, level);
        if (link->shared_bytes_sec > 0)
            rate = fmin(rate, link->shared_bytes_sec * share / messages_into(&p, by, unit_of(&p, r, below), below));
        path.latency_sec = fmax(path.latency_sec, link->latency_sec);
        path.byte_sec = fmax(path.byte_sec, 1 / rate);
    }
    return path;
}

/* ---- their times -------------------------------------------------------------------------------- */

double zr__exchange_sec(const zr_cluster *cluster, const zr__spot *spot, double bytes)
{
    const double ring = bytes * spot->ring_sec + (spot->size - 1) * spot->latency_sec, step = cluster->step_sec,
                 tree = bytes * spot->direct_sec + ceil(log2(spot->size)) * spot->latency_sec;
    if (spot->size < 2) return 0;
    switch (cluster->algorithm) {
    case ZR_ALGORITHM_RING:
        return ring + step;
    case ZR_ALGORITHM_TREE:
        return tree + step;
    case ZR_ALGORITHM_EXCHANGE:
        return bytes * spot->direct_sec + (spot->size - 1) * spot->latency_sec + step;
    case ZR_ALGORITHM_AUTO:
        break;
    }
    return fmin(ring, tree) + step;
}
