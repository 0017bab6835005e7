//TEST np=1,2,3,4 timeout=60
//LINK -Wl,--wrap=zr__traffic_count,--wrap=zr_alloc,--wrap=madvise
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* A build without MPI has no mpi.h in its search path. */
#if __has_include(<mpi.h>)
#include "base/core/core.h"
#include "comm/mpi_create.h"
#include "comm_group_checks.h"
#include "comm/comm.h"

#include <errno.h>
#include <mpi.h>
#include <sys/statvfs.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Whether pages of the memory shared by a node are refused. */
static bool pages_are_out;
int __real_madvise(void *memory, size_t bytes, int advice);
int __wrap_madvise(void *memory, size_t bytes, int advice);
int __wrap_madvise(void *memory, size_t bytes, int advice)
{
    if (!pages_are_out) return __real_madvise(memory, bytes, advice);
    errno = EFAULT;
    return -1;
}

/* ---- bytes passed to MPI --------------------------------------------------------------------- */

static int64_t sent_bytes, received_bytes;
static int longest_message;

static int64_t message_bytes(int count, MPI_Datatype type)
{
    int unit = 0;
    MPI_Type_size(type, &unit);
    if (count * unit > longest_message) longest_message = count * unit;
    return (int64_t)count * unit;
}

int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
    sent_bytes += message_bytes(count, type);
    return PMPI_Isend(buffer, count, type, to, tag, comm, request);
}

int MPI_Send(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    sent_bytes += message_bytes(count, type);
    return PMPI_Send(buffer, count, type, to, tag, comm);
}

int MPI_Irecv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request)
{
    received_bytes += message_bytes(count, type);
    return PMPI_Irecv(buffer, count, type, from, tag, comm, request);
}

int MPI_Recv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status *status)
{
    received_bytes += message_bytes(count, type);
    return PMPI_Recv(buffer, count, type, from, tag, comm, status);
}

/* ---- ranks and failures ---------------------------------------------------------------------- */

static int world_rank, world_size;

/* Few chunks for the checks' megabytes: each chunk waits until all ranks get a core, which takes long on a busy
 * machine. */
enum { FEW_CHUNKS = 1 << 16 };

/* End all ranks, from any rank, if a check failed: the peers of the failed rank wait in a collective call. */
static void expect_ok(zr_status st)
{
    if (st == ZR_OK) return;
    fprintf(stderr, "rank %d: %s: %s\n", world_rank, zr_status_text(st), zr_error_message());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

#define EXPECT(cond) expect_ok((cond) ? ZR_OK : ZR_FAIL(ZR_ERR_INTERNAL, "line %d: not so: %s", __LINE__, #cond))

static zr_comm *create(int ranks_per_node, int64_t chunk_bytes)
{
    zr_comm *comm = NULL;
    zr__mpi_options options = {.ranks_per_node = ranks_per_node, .chunk_bytes = chunk_bytes};
    expect_ok(zr__comm_mpi_create(&options, &comm));
    EXPECT(comm->rank == world_rank && comm->size == world_size);
    EXPECT(comm->local_rank == world_rank && comm->local_size == world_size);
    EXPECT(comm->concurrent == (ranks_per_node > 0 && ranks_per_node < world_size));
    sent_bytes = received_bytes = longest_message = 0;
    return comm;
}

static void check_with(int ranks_per_node, int64_t chunk_bytes)
{
    zr_comm *comm = create(ranks_per_node, chunk_bytes);
    expect_ok(check_comm(comm, NULL));
    zr_comm_destroy(&comm);
    EXPECT(comm == NULL);
}

/* Return whether MPI messages carried exactly the bytes that zr_comm counted (`all`), or no bytes. */
static bool messages_are(const zr_comm *comm, bool all)
{
    int64_t counted =
        all ? comm->traffic.bytes[ZR_TRAFFIC_REDUCE_SCATTER] + comm->traffic.bytes[ZR_TRAFFIC_ALL_GATHER] : 0;
    return sent_bytes == counted && received_bytes == counted;
}

static zr_status look_away(void *arg, int64_t first, int64_t bytes, const void *const *pieces)
{
    (void)arg, (void)first, (void)bytes, (void)pieces;
    return ZR_OK;
}

static void move_some(zr_comm *comm)
{
    enum { PIECE = 1003 };
    unsigned char *bytes = zr_alloc((size_t)comm->size * PIECE);
    void *staging;
    EXPECT(bytes != NULL);
    expect_ok(zr_comm_staging(comm, (int64_t)comm->size * PIECE, &staging));
    for (int i = 0; i < 3; i++) {
        expect_ok(zr_comm_exchange(comm, bytes, PIECE, PIECE, 1, look_away, NULL));
        expect_ok(zr_comm_all_gather(comm, bytes + comm->rank * PIECE, bytes, PIECE, PIECE));
    }
    zr_free(bytes);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void through_windows(void **state)
{
    (void)state;
    check_with(0, 1 << 30);
    EXPECT(sent_bytes == 0 && received_bytes == 0);
}

static void point_to_point(void **state)
{
    (void)state;
    check_with(1, 1 << 30);
    EXPECT(world_size == 1 || sent_bytes > 0);
}

static void windows_and_messages_together(void **state)
{
    (void)state;
    check_with(2, 1 << 30);
    EXPECT((world_size > 2) == (sent_bytes > 0));
}

static void long_pieces_go_in_chunks(void **state)
{
    (void)state;
    check_with(1, 1000);
    EXPECT(longest_message == (world_size > 1 ? 960 : 0));
}

/* The expected messages of an exchange: while a chunk is processed, the next one has been requested, and no further
 * one, for which there would be no room. */
typedef struct overlap {
    int64_t chunk_bytes, piece_bytes;
    int calls;
} overlap;

static zr_status look_at_messages(void *arg, int64_t first, int64_t bytes, const void *const *pieces)
{
    overlap *o = arg;
    int64_t asked = first + bytes + o->chunk_bytes;
    if (asked > o->piece_bytes) asked = o->piece_bytes;
    EXPECT(bytes == o->chunk_bytes || first + bytes == o->piece_bytes);
    EXPECT(sent_bytes == asked * (world_size - 1) && received_bytes == sent_bytes);
    EXPECT(pieces[world_rank] != NULL);
    o->calls++;
    return ZR_OK;
}

/* Check that the next chunk is requested early. A chunk is a multiple of the grain and of 64 bytes or, where there is
 * no room for both, of the grain alone. */
static void the_next_chunk_is_on_its_way(void **state)
{
    (void)state;
    static const struct {
        int grain, slot, chunk;
    } cases[] = {{1, 192, 192},     {2, 192, 192},     {4, 192, 192},   {36, 64, 36},
                 {36, 640, 576},    {36, 576, 576},    {36, 512, 504},  {260, 320, 260},
                 {260, 4096, 3900}, {260, 8384, 8320}, {66, 128, 66},   {66, 4288, 4224},
                 {130, 192, 130},   {130, 1000, 910},  {258, 320, 258}, {258, 8384, 8256}};
    static unsigned char bytes[4 * 6 * 8384];
    zr_comm *comm = create(1, 1 << 30);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int piece = 5 * cases[i].chunk + cases[i].grain;
        void *staging;
        expect_ok(zr_comm_staging(comm, world_size * 2 * cases[i].slot, &staging));
        overlap o = {.chunk_bytes = world_size > 1 ? cases[i].chunk : piece, .piece_bytes = piece};
        sent_bytes = received_bytes = 0;
        expect_ok(zr_comm_exchange(comm, bytes, piece, piece, cases[i].grain, look_at_messages, &o));
        EXPECT(o.calls == (world_size > 1 ? 6 : 1));
    }
    zr_comm_destroy(&comm);
}

static void calls_may_come_from_a_second_thread(void **state)
{
    (void)state;
    zr_comm *comm = create(1, FEW_CHUNKS);
    expect_ok(check_comm_beside(comm, NULL));
    zr_comm_destroy(&comm);
}

/* Check that calls that wait for rank 0 can be cancelled. Rank 0 comes only when all others have stopped waiting for
 * it. */
static void a_call_can_be_stopped(void **state)
{
    (void)state;
    for (int ranks_per_node = 0; ranks_per_node <= 2; ranks_per_node++) {
        zr_comm *comm = create(ranks_per_node, 1000);
        void *staging;
        expect_ok(zr_comm_staging(comm, world_size * 1000, &staging));
        if (world_rank != 0) expect_ok(check_cancel(comm, comm));
        MPI_Barrier(MPI_COMM_WORLD);
        zr__comm_cancel(comm);
        EXPECT(world_size == 1 || check_wait(comm, NULL) == ZR_ERR_PEER);
        zr_comm_destroy(&comm);
    }
}

/* Check that calls of a group that wait for its rank 0 (the last rank of the world) can be cancelled, together with the
 * world or alone. */
static void stop_group(int ranks_per_node, bool alone)
{
    zr_comm *comm = create(ranks_per_node, alone ? FEW_CHUNKS : 1000), *group, *other;
    zr_comm **stopped = alone ? &group : &comm;
    void *staging;
    char wanted[64];
    snprintf(wanted, sizeof wanted, "rank %d was stopped", world_rank);
    expect_ok(zr_comm_split(comm, 0, -world_rank, &group));
    expect_ok(zr_comm_staging(group, world_size * 1000, &staging));
    if (group->rank != 0) expect_ok(check_cancel(group, *stopped));
    MPI_Barrier(MPI_COMM_WORLD);
    zr__comm_cancel(*stopped);
    EXPECT(world_size == 1 || check_wait(group, NULL) == ZR_ERR_PEER);
    EXPECT(world_size == 1 || strcmp(zr_error_message(), wanted) == 0);
    if (!alone && world_size > 1) {
        EXPECT(zr_comm_barrier(comm) == ZR_ERR_PEER);
        EXPECT(zr_comm_split(comm, 0, 0, &other) == ZR_ERR_PEER && other == NULL);
    }
    zr_comm_destroy(&group);
    if (alone) expect_ok(check_comm(comm, NULL));
    zr_comm_destroy(&comm);
}

static void a_call_in_a_group_can_be_stopped(void **state)
{
    (void)state;
    for (int ranks_per_node = 0; ranks_per_node <= 2; ranks_per_node++) {
        stop_group(ranks_per_node, false);
        stop_group(ranks_per_node, true);
    }
}

static void groups_move_the_right_bytes(void **state)
{
    (void)state;
    for (int ranks_per_node = 0; ranks_per_node <= 2; ranks_per_node++) {
        zr_comm *comm = create(ranks_per_node, 1000);
        if (ranks_per_node == 0) expect_ok(check_groups(comm, NULL));
        expect_ok(check_grid(comm, world_size == 4 ? 2 : world_size));
        zr_comm_destroy(&comm);
    }
}

/* Check that a group's counted bytes went through messages, or through shared windows. */
static void check_way(zr_comm *group, bool messages)
{
    sent_bytes = received_bytes = longest_message = 0;
    move_some(group);
    EXPECT(group->traffic.bytes[ZR_TRAFFIC_ALL_GATHER] == 3 * 1003 * (group->size - 1));
    EXPECT(messages_are(group, messages));
    EXPECT(longest_message == (messages && group->size > 1 ? 256 : 0));
    EXPECT(group->concurrent == (messages && group->size > 1));
    EXPECT(group->local_rank == group->rank && group->local_size == group->size);
}

static void a_group_shares_windows_where_its_world_does(void **state)
{
    (void)state;
    for (int ranks_per_node = 0; ranks_per_node <= 2; ranks_per_node++) {
        zr_comm *comm = create(ranks_per_node, 300), *near, *far, *again;
        expect_ok(zr_comm_split(comm, world_rank / 2, 0, &near));
        expect_ok(zr_comm_split(comm, world_rank % 2, 0, &far));
        expect_ok(zr_comm_split(far, 0, -world_rank, &again));
        check_way(near, ranks_per_node == 1);
        check_way(far, ranks_per_node > 0);
        check_way(again, ranks_per_node > 0);
        zr_comm_destroy(&again);
        zr_comm_destroy(&far);
        zr_comm_destroy(&near);
        zr_comm_destroy(&comm);
    }
}

static void a_group_without_memory_fails_on_all(void **state)
{
    (void)state;
    zr_comm *comm = create(0, 1000), *group;
    char wanted[64];
    snprintf(wanted, sizeof wanted, "rank %d: no memory", world_size - 1);
    memory_is_out = world_rank == world_size - 1;
    EXPECT(zr_comm_split(comm, world_rank % 2, 0, &group) == ZR_ERR_MEMORY && group == NULL);
    EXPECT(memory_is_out || strncmp(zr_error_message(), wanted, strlen(wanted)) == 0);
    memory_is_out = false;
    expect_ok(check_groups(comm, NULL));
    zr_comm_destroy(&comm);
}

static void messages_carry_what_is_counted(void **state)
{
    (void)state;
    zr_comm *comm = create(1, 700);
    move_some(comm);
    EXPECT(comm->traffic.bytes[ZR_TRAFFIC_REDUCE_SCATTER] == 3 * 1003 * (world_size - 1));
    EXPECT(comm->traffic.bytes[ZR_TRAFFIC_ALL_GATHER] == 3 * 1003 * (world_size - 1));
    EXPECT(messages_are(comm, true));
    zr_comm_destroy(&comm);

    comm = create(0, 700);
    move_some(comm);
    EXPECT(messages_are(comm, false));
    zr_comm_destroy(&comm);
}

static void a_wrong_count_is_noticed(void **state)
{
    (void)state;
    zr_comm *comm = create(1, 1 << 30);
    miscounted_bytes = 1;
    move_some(comm);
    miscounted_bytes = 0;
    EXPECT(world_size == 1 || !messages_are(comm, true));
    zr_comm_destroy(&comm);
}

static void several_communicators_live_together(void **state)
{
    (void)state;
    zr_comm *a = create(0, 1 << 30), *b = create(1, 1 << 30);
    expect_ok(check_comm(a, NULL));
    expect_ok(check_comm(b, NULL));
    expect_ok(check_comm(a, NULL));
    zr_comm_destroy(&a);
    zr_comm_destroy(&b);
}

static void staging_beyond_shared_memory_is_refused(void **state)
{
    (void)state;
    zr_comm *comm = create(0, 1 << 30);
    void *staging;
    EXPECT(zr_comm_staging(comm, INT64_MAX, &staging) == ZR_ERR_MEMORY);
    EXPECT(staging == NULL && comm->staging_bytes == 0);
    expect_ok(check_comm(comm, NULL));
    zr_comm_destroy(&comm);
}

/* Check that the staging of two groups is refused before any is made, if there is room for each, but not for both. */
static void staging_of_groups_beyond_shared_memory(void **state)
{
    (void)state;
    zr_comm *comm = create(0, 1 << 30), *group = NULL;
    struct statvfs shm;
    expect_ok(zr_comm_split(comm, 0, 0, &group));
    assert_int_equal(statvfs("/dev/shm", &shm), 0);
    const int64_t most = (int64_t)(shm.f_bavail * shm.f_frsize) / world_size;
    zr_comm *const both[] = {comm, group};
    expect_ok(zr__comm_room(comm, both, (int64_t[]){most / 4, most / 4}, 2));
    const zr_status st = zr__comm_room(comm, both, (int64_t[]){most / 2 + most / 10, most / 2}, 2);
    EXPECT(st == (world_size > 1 ? ZR_ERR_MEMORY : ZR_OK));
    EXPECT(world_size == 1 || strstr(zr_error_message(), "ranks on this host takes "));
    zr_comm_destroy(&group);
    zr_comm_destroy(&comm);
}

/* Check that missing pages of shared memory are an error: two groups that create their staging at the same time may
 * each have found room for one alone. */
static void pages_that_another_took_are_refused(void **state)
{
    (void)state;
    zr_comm *comm = create(0, 1 << 30);
    void *staging;
    pages_are_out = world_rank == 0;
    EXPECT(zr_comm_staging(comm, 1 << 20, &staging) == (world_size > 1 ? ZR_ERR_MEMORY : ZR_OK));
    EXPECT(world_size == 1 || strstr(zr_error_message(), "/dev/shm has no space left for 1048576 bytes"));
    pages_are_out = false;
    expect_ok(check_comm(comm, NULL));
    zr_comm_destroy(&comm);
}

/* Check that zr_comm_mpi_start works where MPI is already running, and reads its settings from the environment. */
static void start_reads_its_settings(void **state)
{
    (void)state;
    zr_comm *comm = NULL;
    char other[16];
    setenv("ZR_MPI", "p2p", 1);
    expect_ok(zr_comm_mpi_start(NULL, NULL, &comm));
    sent_bytes = received_bytes = 0;
    move_some(comm);
    EXPECT(messages_are(comm, true));
    zr_comm_destroy(&comm);
    setenv("ZR_MPI", "tcp", 1);
    EXPECT(zr_comm_mpi_start(NULL, NULL, &comm) == ZR_ERR_CONFIG);
    unsetenv("ZR_MPI");

    char *launched = getenv("OMPI_COMM_WORLD_SIZE");
    char *kept = launched ? strdup(launched) : NULL;
    snprintf(other, sizeof other, "%d", world_size + 1);
    setenv("OMPI_COMM_WORLD_SIZE", other, 1);
    EXPECT(zr_comm_mpi_start(NULL, NULL, &comm) == ZR_ERR_UNSUPPORTED && comm == NULL);
    EXPECT(strstr(zr_error_message(), other) && strstr(zr_error_message(), zr__comm_mpi_version()));
    if (kept)
        setenv("OMPI_COMM_WORLD_SIZE", kept, 1);
    else
        unsetenv("OMPI_COMM_WORLD_SIZE");
    free(kept);
}

int main(int argc, char **argv)
{
    zr_comm *comm = NULL;
    expect_ok(zr_comm_mpi_start(&argc, &argv, &comm));
    world_rank = comm->rank;
    world_size = comm->size;
    zr_comm_destroy(&comm);

    const struct CMUnitTest tests[] = {
        cmocka_unit_test(through_windows),
        cmocka_unit_test(point_to_point),
        cmocka_unit_test(windows_and_messages_together),
        cmocka_unit_test(long_pieces_go_in_chunks),
        cmocka_unit_test(the_next_chunk_is_on_its_way),
        cmocka_unit_test(calls_may_come_from_a_second_thread),
        cmocka_unit_test(messages_carry_what_is_counted),
        cmocka_unit_test(a_wrong_count_is_noticed),
        cmocka_unit_test(several_communicators_live_together),
        cmocka_unit_test(staging_beyond_shared_memory_is_refused),
        cmocka_unit_test(staging_of_groups_beyond_shared_memory),
        cmocka_unit_test(pages_that_another_took_are_refused),
        cmocka_unit_test(start_reads_its_settings),
        cmocka_unit_test(groups_move_the_right_bytes),
        cmocka_unit_test(a_group_shares_windows_where_its_world_does),
        cmocka_unit_test(a_group_without_memory_fails_on_all),
        cmocka_unit_test(a_call_can_be_stopped),
        cmocka_unit_test(a_call_in_a_group_can_be_stopped),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    zr_comm_mpi_stop();
    zr_comm_mpi_stop();
    return failed;
}

#else

int main(void)
{
    return 1; /* never run: without MPI there is no mpirun; see test_comm_mpi_none.c */
}

#endif
