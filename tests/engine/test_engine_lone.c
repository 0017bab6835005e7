//TEST np=4 timeout=20
/* A rank of several processes that fails alone destroys its engine, its groups and its communicator without waiting for
 * the others, which are in other calls. Its later calls of comm fail. */
#include "trainer.h"

/* A build without MPI has no mpi.h in its search path. */
#if __has_include(<mpi.h>)
#include "engine/walk.h"

#include <mpi.h>

enum { TAG = 7 };
static int world_rank, last;

static void expect(bool truth, const char *what)
{
    if (truth) return;
    fprintf(stderr, "rank %d: %s: %s\n", world_rank, what, zr_error_message());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Fail on the last rank, as if its disk had failed in a training step. The others wait until it has destroyed all. */
static zr_status fail_alone(trainer *run, zr_engine *engine, zr_comm *comm)
{
    (void)run;
    int done = 0;
    if (world_rank == last) return zr__lone(engine, ZR_FAIL(ZR_ERR_IO, "the disk of one rank fails"));
    MPI_Recv(&done, 1, MPI_INT, last, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    zr__comm_fail(comm); /* the last rank takes part in no destruction any more */
    return ZR_FAIL(ZR_ERR_PEER, "the last rank is gone");
}

static void test_a_rank_fails_alone(void **state)
{
    zr_comm *comm = *state, *group = NULL;
    trainer run = trainer_odd();
    run.layout.stage = 3;
    run.layout.ranks = comm->size;
    run.layout.shard_ranks = 2;
    run.before = fail_alone;
    expect(zr_comm_split(comm, world_rank % 2, 0, &group) == ZR_OK, "a group of the program itself");
    const zr_status st = trainer_rank(comm, &run);
    expect(st == (world_rank == last ? ZR_ERR_IO : ZR_ERR_PEER), "the engine fails");
    if (world_rank == last) expect(strstr(zr_error_message(), "the disk of one rank fails"), "the message stays");
    expect(zr_comm_barrier(group) == ZR_ERR_PEER && zr_comm_barrier(comm) == ZR_ERR_PEER, "later calls fail");
    zr_comm_destroy(&group);
    zr_comm_destroy(&comm);
    for (int r = 0; r < last && world_rank == last; r++) MPI_Send(&last, 1, MPI_INT, r, TAG, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    zr_comm *comm = NULL;
    if (zr_comm_mpi_start(&argc, &argv, &comm) != ZR_OK) return 1;
    world_rank = comm->rank;
    last = comm->size - 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(test_a_rank_fails_alone, comm)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    zr_comm_mpi_stop(); /* all ranks are here */
    return failed;
}

#else

int main(void)
{
    return 1; /* never run: without MPI there is no mpirun */
}

#endif
