//TEST np=1,2,3 timeout=60
//LINK -Wl,--wrap=zr__traffic_count,--wrap=zr_alloc,--wrap=zr_comm_split
//STAND_IN
/* NCCL that is missing, refuses or fails, on the stand-ins of tests/cuda: all ranks get an error with helpful words,
 * and nothing is left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

/* A build without MPI has no mpi.h in its search path. */
#if __has_include(<mpi.h>) && !defined ZR_GPU
#include "base/core/core.h"
#include "comm_nccl.h"
#include "comm/comm.h"

/* ---- refused communicators --------------------------------------------------------------------- */

/* Check that all ranks are refused alike, and that host memory still works. */
static void refused(zr_status status, const char *text)
{
    zr_comm *comm = create_host(0);
    zr_comm_copier gpu = copier();
    stage(comm, world_size * 1000);
    const zr_status st = zr__comm_copy_with(comm, &gpu);
    zr_stand_in_fail(NULL, 0, cudaSuccess);
    EXPECT(st == (world_size > 1 ? status : ZR_OK));
    if (world_size > 1) {
        EXPECT_TEXT(text);
        EXPECT(clean() && comm->staging_bytes == world_size * 1000);
        gather_host(comm, 1);
    }
    destroy(&comm);
}

static void no_library(void **state)
{
    (void)state;
    if (world_rank == world_size - 1) zr_stand_in_fail("zr__library_open", 0, cudaErrorInvalidValue);
    refused(ZR_ERR_UNSUPPORTED, "NCCL, which GPUs need for ranks of several processes, cannot be loaded: no such file");
    if (world_rank == world_size - 1) zr_stand_in_fail("zr__library_open", 0, cudaErrorInvalidValue);
    refused(ZR_ERR_UNSUPPORTED, "; or run ranks as threads of one process (--ranks), or compute on processors "
                                "(\"device\": \"cpu\")");
}

static void failures_at_the_beginning(void **state)
{
    (void)state;
    if (world_rank == 0) zr_stand_in_fail("ncclGetUniqueId", 0, (cudaError_t)ncclSystemError);
    refused(ZR_ERR_COMM, "rank 0: ncclGetUniqueId: unhandled system error");
    zr_stand_in_fail("ncclCommInitRankConfig", 0, (cudaError_t)ncclSystemError);
    refused(ZR_ERR_COMM,
            "ncclCommInitRankConfig: unhandled system error (run with NCCL_DEBUG=INFO for details): as was");
    zr_stand_in_fail("ncclCommGetAsyncError", 2, (cudaError_t)ncclRemoteError);
    refused(ZR_ERR_PEER, "ncclCommInitRankConfig: remote process exited");
    if (world_rank == world_size - 1) zr_stand_in_fail("ncclCommGetAsyncError", 1, (cudaError_t)ncclRemoteError);
    refused(ZR_ERR_PEER, "ncclCommInitRankConfig: remote process exited"); /* the remaining ranks have begun already */
    if (world_rank == world_size - 1) zr_stand_in_fail("cudaGetDevice", 0, cudaErrorInvalidDevice);
    refused(ZR_ERR_COMM, "the GPU: ");
}

/* Check that two processes on one GPU are refused, by NCCL's own identification of GPUs. */
static void one_gpu(void **state)
{
    (void)state;
    char wanted[96];
    const char *usual = getenv("NCCL_HOSTID");
    char *kept = strdup(usual ? usual : "");
    setenv("NCCL_HOSTID", world_rank == 0 ? "first" : "other", 1);
    cudaSetDevice(0);
    snprintf(wanted, sizeof wanted, "ranks 1 and 2 are processes on the same GPU (0000:00:00.0 of other)");
    if (world_size > 2) refused(ZR_ERR_UNSUPPORTED, wanted);
    unsetenv("NCCL_HOSTID");
    refused(ZR_ERR_UNSUPPORTED, "ranks 0 and 1 are processes on the same GPU (0000:00:00.0 of ");
    setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1); /* not supported by the stand-in */
    refused(ZR_ERR_COMM, "ncclCommInitRankConfig: invalid usage (run with NCCL_DEBUG=WARN for details): Duplicate GPU");
    unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
    setenv("NCCL_HOSTID", kept, 1);
    free(kept);
    take_gpu();
}

static void no_stream(void **state)
{
    (void)state;
    zr_comm *comm = create_host(0);
    zr_comm_copier gpu = copier();
    gpu.stream = NULL;
    EXPECT(zr__comm_copy_with(comm, &gpu) == (world_size > 1 ? ZR_ERR_UNSUPPORTED : ZR_OK));
    if (world_size > 1)
        EXPECT_TEXT("the transport mpi cannot copy this memory: it moves memory of the host, or of GPUs in the order "
                    "of a stream");
    destroy(&comm);
}

/* Check that a rank without memory for staging fails on all ranks, and later staging works. */
static void no_memory_for_staging(void **state)
{
    (void)state;
    zr_comm *comm = create(0);
    void *staging = NULL;
    if (world_rank == 0) zr_stand_in_fail("cudaMalloc", 0, cudaErrorMemoryAllocation);
    const zr_status st = zr_comm_staging(comm, 100000, &staging);
    zr_stand_in_fail(NULL, 0, cudaSuccess);
    EXPECT(st == (world_size > 1 ? ZR_ERR_MEMORY : ZR_OK));
    if (world_size > 1) EXPECT_TEXT("no memory on the GPU for 100000 bytes of staging");
    EXPECT(cudaGetLastError() == cudaSuccess);
    stage(comm, world_size * 1000);
    gather_once(comm, PIECE, false, 1);
    destroy(&comm);
}

static void nccl_fails(void **state)
{
    (void)state;
    static const struct {
        const char *function;
        int skip, error, status;
        const char *text;
    } ways[] = {
        {"nccl", 0, ncclSystemError, ZR_ERR_COMM, "by NCCL: unhandled system error (run with NCCL_DEBUG=INFO for"},
        {"ncclCommGetAsyncError", 0, ncclRemoteError, ZR_ERR_PEER, "by NCCL: remote process exited"},
        {"ncclCommGetAsyncError", 1, ncclRemoteError, ZR_ERR_PEER, "as was asked for"},
        {"cudaStreamQuery", 0, cudaErrorECCUncorrectable, ZR_ERR_COMM, "the GPU: uncorrectable ECC error"},
    };
    for (int way = 0; way < 4 && world_size > 1; way++)
        for (int call = 0; call < CALLS; call++) {
            zr_comm *comm = create(0);
            stage(comm, world_size * 1000);
            zr_stand_in_fail(ways[way].function, ways[way].skip, (cudaError_t)ways[way].error);
            const zr_status st = failing_call(comm, call);
            zr_stand_in_fail(NULL, 0, cudaSuccess);
            EXPECT((int)st == ways[way].status);
            EXPECT_TEXT(ways[way].text);
            EXPECT(zr_stand_in_nccl_alive() == 0 && strchr(zr_error_message(), '\n') == NULL);
            EXPECT((int)failing_call(comm, call) == ways[way].status); /* later calls tell the cause again */
            EXPECT_TEXT(ways[way].text);
            EXPECT(cudaGetLastError() == cudaSuccess);
            destroy(&comm);
        }
}

/* Check that a peer that fails in the middle of a call is reported. */
static void a_peer_is_gone(void **state)
{
    (void)state;
    for (int call = 0; call < CALLS && world_size > 1; call++) {
        zr_comm *comm = create(0);
        stage(comm, world_size * 1000);
        if (world_rank != 0) {
            zr_stand_in_fail("ncclCommGetAsyncError", 5, (cudaError_t)ncclRemoteError);
            EXPECT(failing_call(comm, call) == ZR_ERR_PEER);
            zr_stand_in_fail(NULL, 0, cudaSuccess);
            EXPECT_TEXT("by NCCL: remote process exited");
            EXPECT(cudaStreamQuery(stream) == cudaSuccess && zr_stand_in_nccl_alive() == 0);
        }
        destroy(&comm);
    }
}

/* Check that work in the stream ends if NCCL fails, or if this rank is stopped, although no call waits for it. Later
 * calls tell the cause. */
static void work_fails(void **state)
{
    (void)state;
    for (int stopped = 0; stopped < 2 && world_size > 1; stopped++) {
        zr_comm *comm = create_host(0);
        zr_comm_copier gpu = copier();
        gpu.in_stream = true;
        expect_ok(zr__comm_copy_with(comm, &gpu));
        stage(comm, world_size * 1000);
        arrays a = take_arrays(comm);
        if (world_rank != 0) { /* rank 0 never comes */
            const double number = 1;
            expect_ok(zr_comm_all_gather(comm, a.gpu + comm->rank * PIECE, a.gpu, PIECE, PIECE));
            if (stopped)
                zr__comm_cancel(comm);
            else
                zr_stand_in_fail("ncclCommGetAsyncError", 0, (cudaError_t)ncclRemoteError);
            for (int polls = 0; polls < 10000 && cudaStreamQuery(stream) == cudaErrorNotReady; polls++) usleep(1000);
            EXPECT(cudaStreamQuery(stream) == cudaSuccess && zr_stand_in_nccl_alive() == 0);
            zr_stand_in_fail(NULL, 0, cudaSuccess);
            EXPECT(zr_comm_scalars(comm, &number, 1, NULL) == ZR_ERR_PEER);
            EXPECT_TEXT(stopped ? "was stopped" : "an exchange by NCCL: remote process exited");
            EXPECT(failing_call(comm, 1) == ZR_ERR_PEER);
        } else if (stopped) {
            zr__comm_cancel(comm); /* the others do not wait for it when they destroy theirs */
            while (zr_stand_in_nccl_alive()) usleep(1000);
        }
        drop_arrays(&a);
        destroy(&comm);
    }
}

static zr_status begin(zr_comm *comm, void *gpu)
{
    take_gpu();
    return zr__comm_copy_with(comm, gpu);
}

/* Check that the creation of an NCCL communicator can be cancelled: rank 0 fails in it, and the others are not told. */
static void a_beginning_can_be_stopped(void **state)
{
    (void)state;
    if (world_size == 1) return;
    zr_comm *comm = create_host(1);
    zr_comm_copier gpu = copier();
    check_beside_args beside = {.comm = comm, .run = begin, .arg = &gpu};
    if (world_rank == 0) zr_stand_in_fail("ncclCommInitRankConfig", 0, (cudaError_t)ncclSystemError);
    check_beside_start(&beside);
    /* Each rank must reach the creation first: a rank cancelled before it would leave the others waiting for its part.
     * Rank 0 may have left, and this rank's creation have ended, before the first look. */
    while (!(world_rank == 0 ? zr_stand_in_failed() : zr_stand_in_nccl_alive()) && !atomic_load(&beside.ended))
        usleep(1000);
    usleep(5000);
    zr__comm_cancel(comm);
    const zr_status st = check_beside_join(&beside);
    zr_stand_in_fail(NULL, 0, cudaSuccess);
    EXPECT(st == ZR_ERR_PEER || (world_rank == 0 && st == ZR_ERR_COMM));
    destroy(&comm);
}

/* Check that a communicator can be destroyed after MPI has ended. This test runs last. */
static void after_mpi(void)
{
    zr_comm *comm = create(1);
    stage(comm, world_size * 1000);
    gather_once(comm, APART, false, 1);
    zr_comm_mpi_stop();
    zr_comm_destroy(&comm);
    if (!clean()) {
        fprintf(stderr, "rank %d: what NCCL had is still there\n", world_rank);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    begin_all(&argc, &argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_library),     cmocka_unit_test(failures_at_the_beginning),
        cmocka_unit_test(one_gpu),        cmocka_unit_test(no_stream),
        cmocka_unit_test(nccl_fails),     cmocka_unit_test(no_memory_for_staging),
        cmocka_unit_test(a_peer_is_gone), cmocka_unit_test(a_beginning_can_be_stopped),
        cmocka_unit_test(work_fails),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    after_mpi();
    end_all();
    return failed;
}

#else

int main(void)
{
#ifdef ZR_GPU
    puts("ok 1 - what no real NCCL does on request # SKIP");
    return 0;
#else
    return 1; /* never run: without MPI there is no mpirun */
#endif
}

#endif
