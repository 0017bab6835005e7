//TEST np=2 timeout=60
//LINK -Wl,--wrap=zr__traffic_count,--wrap=zr_alloc,--wrap=zr_comm_split
//STAND_IN
/* The order of NCCL's calls on several communicators, and the faults that the recorder of tests/cuda must see between
 * ranks: calls that differ, and ranks that wait for each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* A build without MPI has no mpi.h in its search path. */
#if __has_include(<mpi.h>)
#include "comm_nccl.h"

enum { BYTES = 400 };

static void gather(zr_comm *comm, unsigned char *memory, int64_t bytes)
{
    expect_ok(zr_comm_all_gather(comm, memory + comm->rank * bytes, memory, bytes, bytes));
}

/* Gather on two communicators in the same order on all ranks. */
static void the_same_order(void **state)
{
    (void)state;
    zr_comm *comm = create(0), *sub = NULL;
    unsigned char *memory = take(2 * BYTES);
    expect_ok(zr_comm_split(comm, 0, world_rank, &sub));
    stage(comm, 256);
    stage(sub, 256);
    for (int i = 0; i < 3; i++) gather(i == 1 ? sub : comm, memory, BYTES);
    EXPECT(cudaFree(memory) == cudaSuccess);
    zr_comm_destroy(&sub);
    destroy(&comm);
}

#ifndef ZR_GPU /* real ranks would wait forever */
#include "cuda/recorder.h"

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

static void calls_that_differ(void **state)
{
    (void)state;
    zr_comm *comm = create(0);
    unsigned char *memory = take(2 * BYTES);
    stage(comm, 256);
    zr_stand_in_collect(1);
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
    zr_stand_in_collect(0);
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
    zr_stand_in_collect(1);
    gather(world_rank == 0 ? comm : sub, memory, BYTES);
    gather(world_rank == 0 ? sub : comm, other, BYTES);
    expect_fault("ranks wait for each other: rank ");
    zr_stand_in_collect(0);
    EXPECT(cudaFree(memory) == cudaSuccess && cudaFree(other) == cudaSuccess);
    zr_comm_destroy(&sub);
    zr_comm_destroy(&comm);
}

static void await_nccl(ncclComm_t comm)
{
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) EXPECT(ncclCommGetAsyncError(comm, &state) == ncclSuccess);
    EXPECT(state == ncclSuccess);
}

/* Check that two groups in streams without an order between them are found, and no fault if an event orders them. */
static void two_groups_in_flight(void **state)
{
    (void)state;
    ncclComm_t comm[2];
    cudaStream_t queue[2];
    cudaEvent_t event;
    unsigned char *memory[2];
    take_gpu();
    EXPECT(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
    for (int i = 0; i < 2; i++) {
        ncclUniqueId id;
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        if (world_rank == 0) EXPECT(ncclGetUniqueId(&id) == ncclSuccess);
        MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
        EXPECT(ncclCommInitRankConfig(&comm[i], 2, id, world_rank, &config) == ncclInProgress);
        await_nccl(comm[i]);
        EXPECT(cudaStreamCreateWithFlags(&queue[i], cudaStreamNonBlocking) == cudaSuccess);
        memory[i] = take(2 * BYTES);
    }
    zr_stand_in_collect(1);
    for (int ordered = 1; ordered >= 0; ordered--) {
        for (int i = 0; i < 2; i++) {
            if (i == 1 && ordered) EXPECT(cudaStreamWaitEvent(queue[1], event, 0) == cudaSuccess);
            (void)ncclAllGather(memory[i] + world_rank * BYTES, memory[i], BYTES, ncclInt8, comm[i], queue[i]);
            await_nccl(comm[i]);
            if (i == 0) EXPECT(cudaEventRecord(event, queue[0]) == cudaSuccess);
        }
        for (int i = 0; i < 2; i++) EXPECT(cudaStreamSynchronize(queue[i]) == cudaSuccess);
        if (ordered) expect_none();
    }
    const char *fault = zr_stand_in_fault();
    EXPECT(fault && strstr(fault, "NCCL has two groups in flight at once"));
    zr_stand_in_collect(0);
    for (int i = 0; i < 2; i++) {
        EXPECT(ncclCommAbort(comm[i]) == ncclSuccess);
        EXPECT(cudaStreamDestroy(queue[i]) == cudaSuccess && cudaFree(memory[i]) == cudaSuccess);
    }
    EXPECT(cudaEventDestroy(event) == cudaSuccess);
}
#endif

int main(int argc, char **argv)
{
    begin_all(&argc, &argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_order),
#ifndef ZR_GPU
        cmocka_unit_test(calls_that_differ),
        cmocka_unit_test(ranks_that_wait_for_each_other),
        cmocka_unit_test(two_groups_in_flight),
#endif
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
