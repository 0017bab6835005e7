//TEST np=2,3,4 timeout=100 long=more
//STAND_IN
/* Pipelines of processes with GPUs, on the stand-ins of tests/cuda: messages that go through NCCL give the bits of one
 * pipeline rank. Each run also compares planned with measured memory and traffic on every rank (trainer.h), and the
 * recorder proves the order of all accesses, and of NCCL's calls on all ranks. */
#include "layout_variants.h"
#include "support/long.h"

/* A build without MPI has no mpi.h in its search path. */
#if __has_include(<mpi.h>)
#include "comm/mpi_create.h"
#include "engine/walk.h"

#ifndef ZR_GPU
#include "cuda/nccl.h"
#endif

#include <mpi.h>

static zr_comm *comm;

/* End all ranks if a check failed: the peers of the failed rank wait in a collective call. */
static void expect(bool truth, const char *what)
{
    if (truth) return;
    fprintf(stderr, "rank %d: %s: %s\n%s\n", comm->rank, what, zr_error_message(), zr_error_trace());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Create a device on one of the GPUs, which ranks take in turn. */
static zr_status take_gpu(const zr_device_config *config, zr_device **device)
{
    const int gpus = zr_device_cuda_count(NULL);
    zr_device_config wanted = *config;
    wanted.gpu = gpus > 0 ? comm->rank % gpus : 0;
    return zr_device_create_cuda(&wanted, device);
}

/* Return a trainer of one pipeline rank, and run it with threads of rank 0 alone, on one GPU. */
static trainer wanted(int ranks, zr_dtype dtype, int64_t accum, int stage)
{
    trainer run = layout_trainer(ranks, dtype, accum, 0.5);
    run.config.n_layer = 3;
    run.config.n_head = 1;
    run.config.n_embd = 15; /* few numbers, because the stand-in's kernels are slow */
    run.config.vocab_size = 37;
    run.layout.batch = 1;
    run.layout.seq = 5;
    run.layout.eval = false;
    run.layout.stage = stage;
    run.steps = 2;
    run.device = take_gpu;
    if (comm->rank == 0) expect(zr_comm_threads_run(ranks, trainer_rank, &run) == ZR_OK, "threads");
    return run;
}

static trainer piped(const trainer *want, zr_pipe_schedule schedule)
{
    trainer got = *want;
    got.layout.pipeline = comm->size / want->layout.ranks;
    got.layout.chunks = schedule == ZR_PIPELINE_BREADTH || schedule == ZR_PIPELINE_ZB_V ? 2 : 1;
    got.layout.pipeline_schedule = schedule;
    return got;
}

#ifndef ZR_GPU
static size_t taken_at_creation;

static zr_status note_taken(trainer *run, zr_engine *engine, zr_comm *of)
{
    (void)run, (void)engine, (void)of;
    taken_at_creation = zr_stand_in_taken();
    return ZR_OK;
}

static zr_status expect_taken(trainer *run, zr_engine *engine, zr_comm *of)
{
    (void)run, (void)of;
    expect(zr_stand_in_taken() == taken_at_creation, "NCCL has taken its memory at creation");
    expect(zr_queues_apart(&engine->queues, ZR_STREAM_SEND) == engine->plan->side_by_side, "a queue for messages");
    return ZR_OK;
}
#endif

static void compare(const trainer *want, trainer got)
{
#ifndef ZR_GPU
    got.before = note_taken;
    got.after_first = expect_taken;
#endif
    expect(trainer_rank(comm, &got) == ZR_OK, "a pipeline on GPUs");
    expect(comm->rank != 0 || layout_same(want, &got), "a pipeline has the bits of one rank");
#ifndef ZR_GPU
    expect(zr_stand_in_nccl_alive() == 0 && zr_stand_in_nccl_aborted() == 0 && zr_stand_in_taken() == 0, "an end");
#endif
}

/* Check two schedules at two stages; on four ranks with two of data parallelism, which use NCCL too. A short run checks
 * both on two ranks only. */
static void schedules(void **state)
{
    (void)state;
    const int P = comm->size == 3 ? 3 : 2, ranks = comm->size / P;
    if (comm->size < 4 || is_long_run()) {
        const trainer low = wanted(ranks, ZR_F32, 4, 1);
        compare(&low, piped(&low, P == 3 ? ZR_PIPELINE_1F1B : ZR_PIPELINE_ZB_V));
    }
    if (comm->size != 3 || is_long_run()) {
        const trainer high = wanted(ranks, ZR_BF16, 4, 3);
        compare(&high, piped(&high, P == 3 ? ZR_PIPELINE_GPIPE : ZR_PIPELINE_BREADTH));
    }
}

/* Check that messages may share the queue of computation. */
static void one_queue(void **state)
{
    (void)state;
    if (comm->size == 4 || (comm->size == 3 && !is_long_run())) return;
    const trainer want = wanted(1, ZR_F32, 2, 0);
    trainer got = piped(&want, ZR_PIPELINE_1F1B);
    got.layout.overlap = false;
    compare(&want, got);
}

#ifndef ZR_GPU
static zr_status fail_next(trainer *run, zr_engine *engine, zr_comm *of)
{
    (void)run, (void)engine;
    if (of->rank == of->size - 1) zr_stand_in_fail("nccl", 0, (cudaError_t)ncclSystemError);
    return ZR_OK;
}

/* Check that a call of NCCL that fails names rank, step and cell, and that the other ranks do not wait forever. The
 * last rank sends what it has looked up in the tied table, and receives what its blocks read; either comes first. This
 * test is the last: ranks have failed alone in it. */
static void a_message_fails(void **state)
{
    (void)state;
    if (comm->size == 4) return;
    trainer run = wanted(1, ZR_F32, 2, 0);
    run = piped(&run, ZR_PIPELINE_1F1B);
    run.before = fail_next;
    const zr_status st = trainer_rank(comm, &run);
    zr_stand_in_fail(NULL, 0, cudaSuccess);
    const char *text = zr_error_message();
    if (comm->rank == comm->size - 1) {
        char who[32];
        snprintf(who, sizeof who, "rank %d: a message ", comm->rank);
        expect(st == ZR_ERR_COMM && strncmp(text, who, strlen(who)) == 0, "who");
        expect(strstr(text, " by NCCL: unhandled system error"), "what");
        const bool sends = strstr(text, "to rank 0 by") && strstr(text, ", send of embedding, cell ");
        expect(sends || (strstr(text, "from rank ") && strstr(text, ", recv of h.2, cell ")), "where");
    } else {
        expect(st == ZR_ERR_PEER && strstr(text, "was stopped"), "the others");
    }
}
#endif

int main(int argc, char **argv)
{
    char host[32];
    if (zr_comm_mpi_start(&argc, &argv, &comm) != ZR_OK) return 1;
    const int gpus = zr_device_cuda_count(NULL);
    snprintf(host, sizeof host, "host %d", comm->rank / (gpus > 0 ? gpus : 1)); /* hosts with `gpus` ranks each */
    setenv("NCCL_HOSTID", host, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules),
        cmocka_unit_test(one_queue),
#ifndef ZR_GPU
        cmocka_unit_test(a_message_fails),
#endif
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    zr_comm_destroy(&comm);
    zr_comm_mpi_stop();
    return failed;
}

#else

int main(void)
{
    return 1; /* never run: without MPI there is no mpirun */
}

#endif
