/* The grid of ranks: a rank's number within a group, its shard, and the number of bytes or group members beyond a
 * border, such as the border of a host. */
#include "plan/list/place.h"

static bool has_axis(int32_t group, int axis)
{
    return (group >> axis & 1) != 0;
}

int zr__plan_place(const zr_plan *plan, int32_t group, int rank)
{
    int place = 0;
    for (int a = ZR_AXES - 1; a >= 0; a--)
        if (has_axis(group, a)) place = place * plan->axis_ranks[a] + rank / plan->axis_step[a] % plan->axis_ranks[a];
    return place;
}

int zr__plan_member(const zr_plan *plan, int32_t group, int place)
{
    int rank = 0;
    for (int a = 0; a < ZR_AXES; a++) {
        if (!has_axis(group, a)) continue;
        rank += place % plan->axis_ranks[a] * plan->axis_step[a];
        place /= plan->axis_ranks[a];
    }
    return rank;
}

bool zr__plan_is_for(const zr_plan *plan, int rank)
{
    return zr__plan_place(plan, ZR_GROUP_PIPELINE, rank) == plan->layout.role;
}

bool zr__plan_first_of_rows(const zr_plan *plan, int rank)
{
    return zr__plan_place(plan, ZR_GROUP_ALL & ~ZR_GROUP_DATA, rank) == 0;
}

int zr__plan_shard(const zr_plan *plan, int rank)
{
    /* with sums in two levels, consecutive shards are on ranks of different LOCAL groups */
    const int32_t near = plan->two_levels ? ZR_GROUP_LOCAL : ZR_GROUP_SELF, far = ZR_GROUP_DATA & ~near;
    return zr__plan_place(plan, near, rank) * plan->group[far].size + zr__plan_place(plan, far, rank);
}

/* Return the number of consecutive ranks within a border, or 0 if the layout does not have the border. */
static int border_ranks(const zr_plan *plan, zr_border border)
{
    const zr_layout *l = &plan->layout;
    if (border == ZR_BORDER_HOST) return l->host_ranks;
    const bool parts = l->shard_ranks > 0 || l->hpz_ranks > 0;
    return parts ? plan->axis_ranks[ZR_AXIS_LOCAL] * plan->axis_step[ZR_AXIS_LOCAL] : 0;
}

/* Count the members of a group with ranks below `end`. `first` is the rank of the group's first member. Members with
 * higher places have higher ranks. */
static int count_below(const zr_plan *plan, int32_t group, int first, int end)
{
    int place = 0, rest = end - 1 - first; /* place of the last of these members */
    for (int a = ZR_AXES - 1; a >= 0 && rest >= 0; a--) {
        if (!has_axis(group, a)) continue;
        const int last = plan->axis_ranks[a] - 1,
                  at = rest / plan->axis_step[a] < last ? rest / plan->axis_step[a] : last;
        place = place * plan->axis_ranks[a] + at;
        rest -= at * plan->axis_step[a];
    }
    return rest < 0 ? 0 : place + 1;
}

/* Count the members of a rank's group outside the block of `width` consecutive ranks that contains the rank. */
static int count_beyond(const zr_plan *plan, int32_t group, int width, int rank)
{
    const int first = rank - zr__plan_member(plan, group, zr__plan_place(plan, group, rank)),
              begin = rank / width * width;
    return plan->group[group].size - count_below(plan, group, first, begin + width) +
           count_below(plan, group, first, begin);
}

int64_t zr__plan_across(const zr_plan *plan, int32_t group, zr_border border, int rank, int64_t bytes)
{
    if (border == ZR_BORDER_TENSOR) return group == ZR_GROUP_TENSOR ? bytes : 0;
    const int width = border_ranks(plan, border), size = plan->group[group].size;
    return width > 0 && size > 1 ? bytes / (size - 1) * count_beyond(plan, group, width, rank) : 0;
}

bool zr__plan_peer_beyond(const zr_plan *plan, int rank, int32_t role, zr_border border)
{
    const int width = border == ZR_BORDER_TENSOR ? 0 : border_ranks(plan, border);
    const int peer = rank + (role - zr__plan_place(plan, ZR_GROUP_PIPELINE, rank)) * plan->axis_step[ZR_AXIS_PIPELINE];
    return width > 0 && rank / width != peer / width;
}

/* Return a rank with the largest number of group members beyond a border. It is enough to compare `period` ranks, since
 * the numbers repeat after them. */
int zr__plan_most_across(const zr_plan *plan, int32_t group, zr_border border)
{
    if (border == ZR_BORDER_TENSOR) return 0;
    const int width = border_ranks(plan, border);
    int rank = 0, slowest = ZR_AXES - 1;
    while (slowest > 0 && plan->axis_ranks[slowest] == 1) slowest--;
    const int64_t period = (int64_t)width * plan->axis_step[slowest];
    for (int r = 1; width > 0 && r < plan->ranks && r < period; r++)
        if (count_beyond(plan, group, width, r) > count_beyond(plan, group, width, rank)) rank = r;
    return rank;
}
