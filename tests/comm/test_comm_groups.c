//TEST timeout=60 tsan=1
//LINK -Wl,--wrap=zr__traffic_count,--wrap=zr__barrier_init,--wrap=zr_alloc
#include "base/core/core.h"
#include "comm_group_checks.h"
#include "comm_threads.h"
#include "comm/comm.h"

/* ---- bytes ------------------------------------------------------------------------------------- */

static zr_status grid_of_ranks(zr_comm *comm, void *width)
{
    return check_grid(comm, *(int *)width);
}

static void rows_and_columns_move_the_right_bytes(void **state)
{
    (void)state;
    static const int grids[][2] = {{4, 2}, {8, 4}, {6, 3}};
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++) {
        int width = grids[i][1];
        expect_ok(zr_comm_threads_run(grids[i][0], grid_of_ranks, &width));
    }
}

static void colors_and_keys_decide_who_is_where(void **state)
{
    (void)state;
    for (int size = 1; size <= 4; size++) expect_ok(zr_comm_threads_run(size, check_groups, NULL));
}

static void a_wrong_count_in_a_group_is_noticed(void **state)
{
    (void)state;
    int width = 2;
    miscounted_bytes = 1;
    zr_status st = zr_comm_threads_run(4, grid_of_ranks, &width);
    miscounted_bytes = 0;
    assert_int_equal(st, ZR_ERR_INTERNAL);
    assert_non_null(strstr(zr_error_message(), "traffic"));
}

static void one_rank_alone_is_a_group(void **state)
{
    (void)state;
    zr_comm *self = NULL;
    expect_ok(zr_comm_create_self(&self));
    expect_ok(check_groups(self, NULL));
    zr_comm_destroy(&self);
}

static zr_status pairs_beside(zr_comm *comm, void *arg)
{
    zr_comm *pair;
    ZR_TRY(zr_comm_split(comm, comm->rank / 2, 0, &pair));
    return check_comm_beside(pair, arg);
}

static void calls_may_come_from_a_second_thread(void **state)
{
    (void)state;
    expect_ok(zr_comm_threads_run(4, pairs_beside, NULL));
}

/* ---- cancellation and failures ----------------------------------------------------------------- */

/* Wait in calls of a group of all ranks that are cancelled through the communicator it was split from. */
static zr_status cancel_in_group(zr_comm *comm, void *arg)
{
    zr_comm *all;
    ZR_TRY(zr_comm_split(comm, 0, 0, &all));
    return cancel_all_but_0(all, comm, arg);
}

static void a_call_can_be_stopped(void **state)
{
    (void)state;
    expect_two_stopped(cancel_in_group);
}

/* A departure of the last of 2 x 2 ranks while rank 2 waits for it in their row, rank 1 in their column, and rank 0 for
 * rank 1 in its own row. */
enum { LEAVES_FAILED, LEAVES_WELL, LEAVES_ABORTED, LEAVES_STOPPED };
typedef struct departure {
    int way;
    int call;         /* the call in which the others wait */
    _Atomic int told; /* ranks told that rank 3 failed, in the expected words */
} departure;

static zr_status depart(const departure *d, zr_comm *row)
{
    if (d->way == LEAVES_ABORTED) zr_comm_abort(row, 71);
    if (d->way == LEAVES_STOPPED) zr__comm_cancel(row);
    return d->way == LEAVES_FAILED ? ZR_FAIL(ZR_ERR_IO, "the disk of this rank is gone") : ZR_OK;
}

static zr_status wait_in_groups(zr_comm *comm, void *arg)
{
    departure *d = arg;
    zr_comm *row, *column;
    void *staging;
    ZR_TRY(zr_comm_split(comm, comm->rank / 2, 0, &row));
    ZR_TRY(zr_comm_split(comm, comm->rank % 2, 0, &column));
    ZR_TRY(zr_comm_staging(row, 2 * ZR_COMM_STAGING_LEAST, &staging));
    ZR_TRY(zr_comm_staging(column, 2 * ZR_COMM_STAGING_LEAST, &staging));
    if (comm->rank == 3) return depart(d, row);
    zr_status st = check_wait(comm->rank == 1 ? column : row, &d->call);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "rank 3 failed, so rank %d stops too", comm->rank);
    /* If rank 3 returned without failing, the others hear only of the rank that it left waiting, which then fails. */
    d->told += st == ZR_ERR_PEER && (d->way == LEAVES_WELL || strcmp(zr_error_message(), wanted) == 0);
    return st;
}

static void a_failing_rank_wakes_its_peers_in_every_group(void **state)
{
    (void)state;
    static const zr_status wanted[] = {ZR_ERR_IO, ZR_ERR_PEER, ZR_ERR_PEER, ZR_ERR_PEER};
    for (int round = 0; round < 84; round++) {
        departure d = {.way = round % 4, .call = round % 5};
        assert_int_equal(zr_comm_threads_run(4, wait_in_groups, &d), wanted[d.way]);
        const char *text = d.way == LEAVES_FAILED ? "rank 3: the disk of this rank is gone"
                           : d.way == LEAVES_WELL ? "rank 3 has returned, but rank "
                                                  : "rank 3 aborted";
        assert_non_null(strstr(zr_error_message(), text));
        assert_int_equal(d.told, 3);
    }
}

/* A group's creation, during which rank 1 is cancelled at a given point. */
enum { BEFORE_IT_IS_MADE, WHILE_IT_IS_MADE, WHEN_ALL_HAVE_IT, SOME_TIME };
typedef struct birth {
    int when;
    int usec;            /* for SOME_TIME */
    _Atomic int making;  /* rank 0 is about to create the group */
    _Atomic int stopped; /* rank 1 has been cancelled */
    _Atomic int split;   /* ranks that have the group */
    _Atomic int told;    /* ranks told of the cancellation */
} birth;

static birth *born;               /* the birth under test, else NULL */
static _Thread_local bool births; /* whether the thread is splitting a communicator */

static void until_count(_Atomic int *count, int wanted)
{
    while (atomic_load(count) < wanted) usleep(100);
}

void __real_zr__barrier_init(zr__barrier *barrier, int size, int host_ranks);
void __wrap_zr__barrier_init(zr__barrier *barrier, int size, int host_ranks);
void __wrap_zr__barrier_init(zr__barrier *barrier, int size, int host_ranks)
{
    __real_zr__barrier_init(barrier, size, host_ranks);
    if (!born || !births) return;
    born->making = 1;
    if (born->when == WHILE_IT_IS_MADE) until_count(&born->stopped, 1);
}

static zr_status call_for_group(zr_comm *comm, void *arg)
{
    birth *b = arg;
    zr_comm *group = NULL;
    births = true;
    zr_status st = zr_comm_split(comm, comm->rank == 2, 0, &group);
    births = false;
    if (st == ZR_OK) b->split++;
    while (st == ZR_OK) st = zr_comm_barrier(group);
    b->told += st == ZR_ERR_PEER && strstr(zr_error_message(), "rank 1 ") != NULL;
    return st;
}

/* Split so that ranks 0 and 1 form a group and rank 2 another one: rank 2 waits for no rank of its group, only for rank
 * 1 in the world. */
static zr_status stop_during_birth(zr_comm *comm, void *arg)
{
    birth *b = arg;
    check_beside_args beside = {.comm = comm, .run = call_for_group, .arg = b};
    if (comm->rank == 2) {
        zr_comm *alone;
        zr_status st = zr_comm_split(comm, 1, 0, &alone);
        if (st == ZR_OK) b->split++;
        return st;
    }
    if (comm->rank == 1 && b->when == BEFORE_IT_IS_MADE) {
        zr__comm_cancel(comm);
        b->stopped = 1;
    }
    check_beside_start(&beside);
    if (comm->rank == 1 && b->when != BEFORE_IT_IS_MADE) {
        if (b->when == WHILE_IT_IS_MADE) until_count(&b->making, 1);
        if (b->when == WHEN_ALL_HAVE_IT) until_count(&b->split, 3);
        if (b->when == SOME_TIME) usleep((useconds_t)b->usec);
        zr__comm_cancel(comm);
        b->stopped = 1;
    }
    return check_beside_join(&beside);
}

static void a_rank_that_is_stopped_while_a_group_is_made_hangs_nobody(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        birth b = {.when = round < SOME_TIME ? round : SOME_TIME, .usec = round * 3};
        born = &b;
        assert_int_equal(zr_comm_threads_run(3, stop_during_birth, &b), ZR_ERR_PEER);
        born = NULL;
        assert_string_equal(zr_error_message(), "rank 1 was stopped");
        assert_int_equal(b.told, 2);
        if (b.when <= WHILE_IT_IS_MADE) assert_int_equal(b.split, 0);
    }
}

/* Check a split in which rank 0, which creates its group, has no memory for it. */
static zr_status split_without_memory(zr_comm *comm, void *arg)
{
    (void)arg;
    zr_comm *group = comm;
    memory_is_out = comm->rank == 0;
    zr_status st = zr_comm_split(comm, comm->rank % 2, 0, &group);
    memory_is_out = false;
    ZR_CHECK(st == ZR_ERR_MEMORY && group == NULL, ZR_ERR_INTERNAL, "no memory gave %d", st);
    ZR_CHECK(comm->rank == 0 || strncmp(zr_error_message(), "rank 0: no memory", 17) == 0, ZR_ERR_INTERNAL, "%s",
             zr_error_message());
    return check_groups(comm, NULL);
}

static void a_group_without_memory_fails_on_all(void **state)
{
    (void)state;
    expect_ok(zr_comm_threads_run(3, split_without_memory, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_and_columns_move_the_right_bytes),
        cmocka_unit_test(colors_and_keys_decide_who_is_where),
        cmocka_unit_test(a_wrong_count_in_a_group_is_noticed),
        cmocka_unit_test(one_rank_alone_is_a_group),
        cmocka_unit_test(calls_may_come_from_a_second_thread),
        cmocka_unit_test(a_call_can_be_stopped),
        cmocka_unit_test(a_failing_rank_wakes_its_peers_in_every_group),
        cmocka_unit_test(a_rank_that_is_stopped_while_a_group_is_made_hangs_nobody),
        cmocka_unit_test(a_group_without_memory_fails_on_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
