/** The grid of ranks: a rank's number (place) in a group, its shard, the groups of errors, and the bytes that cross a
 * border, such as the border of a host. */
#ifndef ZR_PLAN_LIST_PLACE_H
#define ZR_PLAN_LIST_PLACE_H

#include "zr/plan.h"

/** Return a rank's number within a group, from 0 to size - 1. */
int zr__plan_place(const zr_plan *plan, int32_t group, int rank);

/** Return whether a rank has the role for which the plan is made. */
bool zr__plan_is_for(const zr_plan *plan, int rank);

/** Return the index of a rank's own shard among the N shards of a unit. */
int zr__plan_shard(const zr_plan *plan, int rank);

/** Return the rank of member `place` of a group minus the rank of the group's first member. */
int zr__plan_member(const zr_plan *plan, int32_t group, int place);

/** Return the group whose ranks each have errors of the same elements at a level (zr_plan_unit.error), or ZR_GROUP_SELF
 * if no rank has errors at this level (states.c). */
int32_t zr__error_group(const zr_plan *plan, int level);

/** Return whether a unit's parameters or gradients may pass between ranks as records, whatever role trains the unit
 * (states.c). */
bool zr__unit_has_records(const zr_plan *plan, const zr_graph *graph, int32_t unit);

/** Return whether a rank is the first of the ranks with the same rows of the global batch. Their losses are the same,
 * so only the first counts. */
bool zr__plan_first_of_rows(const zr_plan *plan, int rank);

/** Return the number of bytes that a rank receives from members of its group beyond a border. The rank receives `bytes`
 * in total, in equal parts from the other members. Return 0 if the layout does not have the border. */
int64_t zr__plan_across(const zr_plan *plan, int32_t group, zr_border border, int rank, int64_t bytes);

/** Return whether a border is between a rank and its peer in another role. */
bool zr__plan_peer_beyond(const zr_plan *plan, int rank, int32_t role, zr_border border);

/** Return a rank with the largest number of group members beyond a border. */
int zr__plan_most_across(const zr_plan *plan, int32_t group, zr_border border);

#endif
