/**
 * The grid of ranks: a rank's place in a group, its shard, and the bytes that cross a border.
 */
#ifndef ZR_PLAN_LIST_PLACE_H
#define ZR_PLAN_LIST_PLACE_H

#include "zr/plan.h"

/** Return a rank's place in a group, 0 .. size-1. */
int zr__plan_place(const zr_plan *plan, int32_t group, int rank);

/** Return the index of a rank's own shard among a unit's N. */
int zr__plan_shard(const zr_plan *plan, int rank);

/** Return the rank that owns a shard. With tensor parallelism M ranks own it, each for its own part of the layers; the
 *  rank at `place` in ZR_GROUP_TENSOR is returned. */
int zr__plan_rank_of(const zr_plan *plan, int shard, int place);

/** Return how many of the bytes that a rank receives in equal parts from the others of a group come from beyond a
 * border; 0 where the layout has not that border. */
int64_t zr__plan_across(const zr_plan *plan, int32_t group, zr_border border, int rank, int64_t bytes);

/** Return a rank with the most members of its group beyond a border. */
int zr__plan_most_across(const zr_plan *plan, int32_t group, zr_border border);

#endif
