//TEST np=2 timeout=60
//LINK -Wl,--wrap=zr__traffic_count,--wrap=zr_alloc,--wrap=zr_comm_split
//STAND_IN
/* Faults of order that the recorder of tests/cuda must see between ranks that use NCCL: calls that differ, and ranks
 * that wait for each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* A build without MPI has no mpi.h in its search path; on real GPUs NCCL would wait forever. */
#if __has_include(<mpi.h>) && !defined(ZR_GPU)
#include "comm_nccl.h"
#include "cuda/recorder.h"

enum { BYTES = 400 };

/* Check that a rank has seen a fault, which begins with `text`; the texts of ranks differ. */
static void expect_fault(const char *text)
{
    const char *fault = zr_stand_in_fault();
    int mine = fault && strncmp(fault, text, strlen(text)) == 0, any = 0;
    if (fault && !mine) fprintf(stderr, "rank %d: %s\n", world_rank, fault);
    MPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    EXPECT(any);
}

/* Check that no rank has seen a fault. */
static void expect_none(void)
{
    EXPECT(zr_stand_in_fault() == NULL);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void gather(zr_comm *comm, unsigned char *memory, int64_t bytes)
{
    expect_ok(zr_comm_all_gather(comm, memory + comm->rank * bytes, memory, bytes, bytes));
}

static void calls_that_differ(void **state)
{
    (void)state;
    zr_comm *comm = create(0);
    unsigned char *memory = take(2 * BYTES);
    stage(comm, 256);
    gather(comm, memory, BYTES);
    expect_none();
    gather(comm, memory, world_rank == 0 ? BYTES : BYTES - 4);
    expect_fault("NCCL's calls differ: rank ");
    if (world_rank == 0)
        gather(comm, memory, BYTES);
    else
        expect_ok(zr_comm_reduce_scatter(comm, memory, ZR_F32, BYTES / 4));
    expect_fault("NCCL's calls differ: rank ");
    gather(comm, memory, BYTES);
    expect_none();
    EXPECT(cudaFree(memory) == cudaSuccess);
    destroy(&comm);
}

/* Check that ranks that call two communicators in different orders are found, and not waited for until a timeout. */
static void ranks_that_wait_for_each_other(void **state)
{
    (void)state;
    zr_comm *comm = create(0), *sub = NULL;
    unsigned char *memory = take(2 * BYTES), *other = take(2 * BYTES);
    expect_ok(zr_comm_split(comm, 0, world_rank, &sub));
    stage(comm, 256);
    stage(sub, 256);
    gather(comm, memory, BYTES);
    gather(sub, other, BYTES);
    expect_none();
    gather(world_rank == 0 ? comm : sub, memory, BYTES);
    gather(world_rank == 0 ? sub : comm, other, BYTES);
    expect_fault("ranks wait for each other: rank ");
    EXPECT(cudaFree(memory) == cudaSuccess && cudaFree(other) == cudaSuccess);
    zr_comm_destroy(&sub);
    zr_comm_destroy(&comm);
}

int main(int argc, char **argv)
{
    begin_all(&argc, &argv);
    zr_stand_in_collect(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_that_differ),
        cmocka_unit_test(ranks_that_wait_for_each_other),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    end_all();
    return failed;
}

#else

int main(void)
{
    return 1; /* never run: without MPI there is no mpirun */
}

#endif
