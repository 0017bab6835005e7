/* Checks that every transport must pass with groups of its ranks, as functions over a communicator. Link with
 * --wrap=zr_alloc as well. */
#ifndef COMM_GROUP_CHECKS_H
#define COMM_GROUP_CHECKS_H

#include "comm_checks.h"
#include "zr/comm.h"

/* Whether allocations fail on this rank. */
static _Thread_local bool memory_is_out;
void *__real_zr_alloc(size_t bytes);
void *__wrap_zr_alloc(size_t bytes);
void *__wrap_zr_alloc(size_t bytes)
{
    return memory_is_out ? NULL : __real_zr_alloc(bytes);
}

/* Check that a group consists of `size` ranks of the world: `first` and every `step`th rank from it. The group is NULL
 * for size 0. */
static zr_status check_members(const zr_comm *group, int world_rank, int first, int step, int size)
{
    ZR_CHECK((group == NULL) == (size == 0), ZR_ERR_INTERNAL, "a group where there is none, or none");
    if (!group) return ZR_OK;
    ZR_CHECK(group->size == size, ZR_ERR_INTERNAL, "a group of %d ranks, not %d", group->size, size);
    ZR_CHECK(group->staging == NULL && group->staging_bytes == 0, ZR_ERR_INTERNAL, "a new group has staging");
    for (int r = 0; r < size; r++)
        ZR_CHECK(group->world_ranks[r] == first + r * step, ZR_ERR_INTERNAL, "rank %d of a group is %d, not %d", r,
                 group->world_ranks[r], first + r * step);
    ZR_CHECK(group->world_ranks[group->rank] == world_rank, ZR_ERR_INTERNAL, "rank %d has another's place", world_rank);
    return ZR_OK;
}

/* Check the members of a new group, given as above, and its calls. */
static zr_status check_group(zr_comm *comm, int color, int key, int first, int step, int size)
{
    zr_comm *group = comm;
    zr_traffic before = comm->traffic;
    ZR_TRY(zr_comm_split(comm, color, key, &group));
    ZR_CHECK(memcmp(&before, &comm->traffic, sizeof before) == 0, ZR_ERR_INTERNAL, "a split counts as traffic");
    ZR_TRY(check_members(group, check_name(comm, comm->rank), first, step, size));
    if (group) ZR_TRY(check_comm(group, NULL));
    zr_comm_destroy(&group);
    return zr_comm_barrier(comm);
}

/* Check calls that alternate between several communicators: each has its own staging and counters. */
static zr_status check_turns(checker *c, int n, int rounds)
{
    for (int i = 0; i < n; i++) {
        ZR_TRY(check_staging(c[i].comm, (int64_t)c[i].comm->size * (1 + i) * 5 * ZR_COMM_STAGING_LEAST));
        check_count_anew(&c[i]);
    }
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < n; i++) ZR_TRY(check_round(&c[i], round + i));
    for (int i = 0; i < n; i++) ZR_TRY(check_counted(&c[i]));
    return ZR_OK;
}

static zr_status check_by_turns(zr_comm *a, zr_comm *b, zr_comm *world)
{
    zr_comm *comms[3] = {a, b, world};
    checker c[3] = {{0}};
    zr_status st = ZR_OK;
    for (int i = 0; i < 3 && st == ZR_OK; i++) st = check_open(&c[i], comms[i]);
    if (st == ZR_OK) st = check_turns(c, 3, 60);
    for (int i = 0; i < 3; i++) check_close(&c[i]);
    return st;
}

/* Check rows of `width` ranks and their columns, alone and alternating; then each row split in two. */
static inline zr_status check_grid(zr_comm *world, int width)
{
    zr_comm *row = NULL, *column = NULL;
    int rank = world->rank, height = world->size / width, x = rank % width, y = rank / width, half = (width + 1) / 2;
    ZR_TRY(zr_comm_split(world, y, rank, &row));
    ZR_TRY(zr_comm_split(world, 3 + 2 * x, rank, &column));
    ZR_TRY(check_members(row, rank, y * width, 1, width));
    ZR_TRY(check_members(column, rank, x, width, height));
    ZR_TRY(check_comm(row, NULL));
    ZR_TRY(check_comm(column, NULL));
    ZR_TRY(check_by_turns(row, column, world));
    ZR_TRY(check_group(row, x / half, 0, y * width + x / half * half, 1, x < half ? half : width - half));
    ZR_TRY(check_by_turns(column, row, world));
    zr_comm_destroy(&column);
    zr_comm_destroy(&row);
    return ZR_OK;
}

/* Check splits with colors and keys of all kinds. */
static inline zr_status check_groups(zr_comm *world, void *unused)
{
    (void)unused;
    int rank = world->rank, size = world->size;
    ZR_TRY(check_refused(zr_comm_split(world, 0, 0, NULL), "zr_comm_split needs"));
    ZR_TRY(check_group(world, -1, 0, 0, 0, 0));
    ZR_TRY(check_group(world, rank, 0, rank, 1, 1));
    ZR_TRY(check_group(world, 7, 0, 0, 1, size)); /* equal keys keep the world's order */
    ZR_TRY(check_group(world, INT32_MAX, INT32_MIN + size - rank, size - 1, -1, size)); /* reversed order */
    /* A group of all ranks but rank 0, which is in no group. */
    return check_group(world, rank == 0 ? INT32_MIN : 0, -rank, size - 1, -1, rank == 0 ? 0 : size - 1);
}

#endif
