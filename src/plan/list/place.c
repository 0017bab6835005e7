/* The grid of ranks: a rank's number within a group, its shard, and the number of bytes or group members beyond a
 * border, such as the border of a host. */
#include "plan/list/place.h"

int zr__plan_place(const zr_plan *plan, int32_t group, int rank)
{
    int place = 0;
    const zr_group *g = &plan->group[group];
    for (int32_t i = 0; i < g->n_axes; i++) {
        const zr_axis *axis = &plan->axis[g->axis[i]];
        place = place * axis->size + rank / axis->step % axis->size;
    }
    return place;
}

int zr__plan_shard(const zr_plan *plan, int rank)
{
    if (!plan->two_levels) return zr__plan_place(plan, ZR_GROUP_DATA, rank);
    return zr__plan_place(plan, ZR_GROUP_LOCAL, rank) * plan->group[ZR_GROUP_ACROSS].size +
           zr__plan_place(plan, ZR_GROUP_ACROSS, rank);
}

/* Return the number of consecutive ranks within a border, or 0 if the layout does not have the border. */
static int border_ranks(const zr_layout *l, zr_border border)
{
    if (border == ZR_BORDER_HOST) return l->host_ranks;
    return (l->shard_ranks > 0 ? l->shard_ranks : l->hpz_ranks) * l->tensor;
}

/* Count how many of the n ranks first, first + step, first + 2 step, ... are in [begin, end). */
static int count_between(int first, int step, int n, int begin, int end)
{
    const int below_begin = begin <= first ? 0 : (begin - first + step - 1) / step;
    const int below_end = end <= first ? 0 : (end - first + step - 1) / step;
    return (below_end < n ? below_end : n) - (below_begin < n ? below_begin : n);
}

/* Count the members of a rank's group outside the block of `width` consecutive ranks that contains the rank. */
static int count_beyond(const zr_plan *plan, int32_t group, int width, int rank)
{
    const zr_group *g = &plan->group[group];
    const zr_axis *last = g->n_axes ? &plan->axis[g->axis[g->n_axes - 1]] : NULL;
    const int step = last ? last->step : 1, place = zr__plan_place(plan, group, rank);
    return g->size -
           count_between(rank - place * step, step, g->size, rank / width * width, (rank / width + 1) * width);
}

int64_t zr__plan_across(const zr_plan *plan, int32_t group, zr_border border, int rank, int64_t bytes)
{
    if (border == ZR_BORDER_TENSOR) return group == ZR_GROUP_TENSOR ? bytes : 0;
    const int width = border_ranks(&plan->layout, border), size = plan->group[group].size;
    return width > 0 && size > 1 ? bytes / (size - 1) * count_beyond(plan, group, width, rank) : 0;
}

/* Return a rank with the largest number of group members beyond a border. The numbers repeat from rank to rank with a
 * period that divides `all`, so it is enough to search the ranks below `all`. */
int zr__plan_most_across(const zr_plan *plan, int32_t group, zr_border border)
{
    if (border == ZR_BORDER_TENSOR) return 0;
    const int width = border_ranks(&plan->layout, border);
    const int64_t all = zr_plan_shares_layers(plan) ? plan->ranks : (int64_t)width * plan->group[ZR_GROUP_LOCAL].size;
    int rank = 0;
    for (int r = 1; width > 0 && r < plan->ranks && r < all; r++)
        if (count_beyond(plan, group, width, r) > count_beyond(plan, group, width, rank)) rank = r;
    return rank;
}
