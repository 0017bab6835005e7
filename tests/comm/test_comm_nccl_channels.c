//TEST np=2,3 timeout=60
//LINK -Wl,--wrap=zr__traffic_count,--wrap=zr_alloc,--wrap=zr_comm_split
//STAND_IN
/* Channels between processes with GPUs, by NCCL: messages arrive whole and in order, in the order of streams alone, and
 * no rank waits forever for a rank that has stopped or failed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* A build without MPI has no mpi.h in its search path. */
#if __has_include(<mpi.h>)
#include "comm_nccl.h"

enum { DEPTH = 3, MESSAGES = 8, MORE = 300 };

/* A rank's channels to and from each other rank, two in each direction, and a stream for each direction. */
typedef struct lines {
    zr__mail *mail;
    zr__channel *end[2][4][2]; /* [0]: to the rank, [1]: from it */
    cudaStream_t stream[2];
} lines;

static zr__route route(int from, int to, int which, int64_t bytes)
{
    return (zr__route){from, to, .id = which ? 7 : 900, .bytes = bytes + MORE * which, .depth = DEPTH - which};
}

/* Open the channels, those of each rank in another order. */
static void open_all(const zr_comm *comm, lines *l, int64_t bytes)
{
    for (int in = 0; in < 2; in++)
        EXPECT(cudaStreamCreateWithFlags(&l->stream[in], cudaStreamNonBlocking) == cudaSuccess);
    expect_ok(zr__comm_mail((zr_comm *)comm, 0, &l->mail));
    for (int i = 0; i < 4 * comm->size; i++) {
        const int r = i / 4, in = i % 2, which = (i / 2 + comm->rank) % 2;
        const zr__route its = in ? route(r, comm->rank, which, bytes) : route(comm->rank, r, which, bytes);
        zr_comm_copier gpu = copier();
        gpu.stream = l->stream[in];
        gpu.in_stream = true;
        if (r != comm->rank) expect_ok(zr__comm_channel((zr_comm *)comm, l->mail, &its, &gpu, &l->end[in][r][which]));
    }
}

static void close_all(lines *l)
{
    for (int i = 0; i < 16; i++) zr__channel_close(l->end[i / 8][i / 2 % 4][i % 2]);
    zr__comm_end_mail(&l->mail);
    for (int in = 0; in < 2; in++) EXPECT(cudaStreamDestroy(l->stream[in]) == cudaSuccess);
}

static unsigned char content(int from, int to, int which, int number)
{
    return (unsigned char)(1 + from * 89 + to * 41 + which * 17 + number);
}

/* Pass messages in one direction on all channels of a rank, with as many on their way as the depth allows. Neighbours
 * use the channels between them in another order. The memory of a message that was sent is overwritten as soon as the
 * stream may, and one that has come is copied to `come`. */
static void pass(const zr_comm *comm, lines *l, int in, int64_t bytes, unsigned char *memory, unsigned char *come)
{
    const int64_t most = bytes + MORE;
    for (int m = 0; m < MESSAGES + DEPTH; m++)
        for (int i = 0; i < 2 * comm->size; i++) {
            const int r = i / 2, which = (i + comm->rank) % 2, depth = DEPTH - which, ended = m - depth;
            const size_t its = (size_t)(bytes + MORE * which);
            unsigned char *at = memory + ((2 * r + which) * DEPTH + m % depth) * most;
            if (r == comm->rank) continue;
            if (ended >= 0 && ended < MESSAGES) {
                expect_ok(zr__channel_end(l->end[in][r][which]));
                if (in)
                    EXPECT(cudaMemcpyAsync(come + ((2 * r + which) * MESSAGES + ended) * most, at, its,
                                           cudaMemcpyDefault, l->stream[in]) == cudaSuccess);
                else
                    EXPECT(cudaMemsetAsync(at, 0, its, l->stream[in]) == cudaSuccess);
            }
            if (m >= MESSAGES) continue;
            const int byte = content(comm->rank, r, which, m);
            if (!in) EXPECT(cudaMemsetAsync(at, byte, its, l->stream[in]) == cudaSuccess);
            expect_ok(zr__channel_begin(l->end[in][r][which], at));
        }
}

static void check(const zr_comm *comm, const unsigned char *come, int64_t bytes)
{
    const int64_t most = bytes + MORE;
    for (int i = 0; i < 2 * MESSAGES * comm->size; i++) {
        const int r = i / MESSAGES / 2, which = i / MESSAGES % 2, m = i % MESSAGES;
        for (int64_t b = 0; b < bytes + MORE * which && r != comm->rank; b++)
            EXPECT(come[i * most + b] == content(r, comm->rank, which, m));
    }
}

static void messages_arrive(void **state)
{
    (void)state;
    for (int64_t bytes = 1; bytes < 100000; bytes = bytes * 199 + 1) {
        const size_t all = (size_t)(2 * MESSAGES * world_size * (bytes + MORE));
        zr_comm *comm = create_host(0);
        unsigned char *memory[2] = {take(all), take(all)}, *come = take(all), *host = zr_alloc(all);
        lines l = {0};
        EXPECT(host != NULL);
        open_all(comm, &l, bytes);
        expect_ok(zr__comm_connect(l.mail, memory[0]));
        EXPECT(alive(4 * (world_size - 1)));
#ifndef ZR_GPU
        const size_t taken = zr_stand_in_taken();
#endif
        /* Rank 0 makes all its calls before the other ranks make theirs: no call waits for another rank. */
        if (comm->rank > 0) MPI_Barrier(MPI_COMM_WORLD);
        for (int in = 0; in < 2; in++) pass(comm, &l, in, bytes, memory[in], come);
        if (comm->rank == 0) MPI_Barrier(MPI_COMM_WORLD);
        for (int in = 0; in < 2; in++) EXPECT(cudaStreamSynchronize(l.stream[in]) == cudaSuccess);
#ifndef ZR_GPU
        EXPECT(zr_stand_in_taken() == taken); /* NCCL has taken its memory before */
#endif
        transfer(host, come, all);
        check(comm, host, bytes);
        EXPECT(comm->traffic.bytes[ZR_TRAFFIC_PIPELINE] == MESSAGES * (2 * bytes + MORE) * (world_size - 1));
        close_all(&l);
        for (int in = 0; in < 2; in++) EXPECT(cudaFree(memory[in]) == cudaSuccess);
        EXPECT(cudaFree(come) == cudaSuccess);
        zr_free(host);
        destroy(&comm);
    }
}

/* Check that channels of different walks share communicators. */
static void walks_share(void **state)
{
    (void)state;
    zr_comm *comm = create_host(0);
    unsigned char *memory = take(200);
    zr__mail *mail = NULL;
    zr__channel *channel[3] = {NULL};
    expect_ok(zr__comm_mail(comm, 0, &mail));
    for (int i = 0; i < 3; i++) {
        const zr__route its = {0, 1, .id = (uint64_t)i, .walk = i / 2, .bytes = 100 + i, .depth = 1};
        zr_comm_copier gpu = copier();
        gpu.in_stream = true;
        if (comm->rank < 2) expect_ok(zr__comm_channel(comm, mail, &its, &gpu, &channel[i]));
    }
    expect_ok(zr__comm_connect(mail, memory));
    if (comm->rank < 2) EXPECT(alive(2));
    for (int i = 0; i < 3 && comm->rank < 2; i++) {
        expect_ok(zr__channel_begin(channel[i], memory));
        EXPECT(zr__channel_begin(channel[i], memory) == ZR_ERR_INTERNAL); /* deeper than the channel */
        expect_ok(zr__channel_end(channel[i]));
    }
    EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
    for (int i = 0; i < 3; i++) zr__channel_close(channel[i]);
    zr__comm_end_mail(&mail);
    EXPECT(cudaFree(memory) == cudaSuccess);
    destroy(&comm);
}

/* Check that two ends with other sizes are refused on all ranks. */
static void other_sizes(void **state)
{
    (void)state;
    zr_comm *comm = create_host(0);
    unsigned char *memory = take(200);
    zr__mail *mail = NULL;
    zr__channel *channel = NULL;
    zr_comm_copier gpu = copier();
    gpu.in_stream = true;
    const zr__route its = {0, 1, .id = 1, .bytes = 100 + (comm->rank == 1), .depth = 1};
    expect_ok(zr__comm_mail(comm, 0, &mail));
    if (comm->rank < 2) expect_ok(zr__comm_channel(comm, mail, &its, &gpu, &channel));
    EXPECT(zr__comm_connect(mail, memory) == ZR_ERR_INTERNAL);
    EXPECT_TEXT("ranks 0 and 1 open a channel with other sizes");
    zr__channel_close(channel);
    zr__comm_end_mail(&mail);
    EXPECT(cudaFree(memory) == cudaSuccess);
    destroy(&comm);
}

#ifndef ZR_GPU
/* Check that a stream does not wait forever for a rank that never sends, if NCCL reports a failure, or if a rank is
 * stopped: this one, or another one of the host. Until then the board shows for whom it waits. Later calls tell the
 * cause. */
static void waits_end(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        zr_comm *comm = create_host(0);
        unsigned char *memory = take(1000);
        lines l = {0};
        zr_comm_board board;
        open_all(comm, &l, 10);
        expect_ok(zr__comm_connect(l.mail, memory));
        if (comm->rank == 0) {
            expect_ok(zr__channel_begin(l.end[1][1][0], memory));
            expect_ok(zr__channel_end(l.end[1][1][0]));
            do {
                EXPECT(cudaStreamQuery(l.stream[1]) == cudaErrorNotReady);
                usleep(1000);
                EXPECT(zr__comm_look(comm, 0, &board));
            } while (board.channel[1] != (ZR__STREAM_AWAITS | 2));
            if (way == 0) zr_stand_in_fail("ncclCommGetAsyncError", 0, (cudaError_t)ncclRemoteError);
            if (way == 1) zr__comm_cancel(comm);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (way == 2 && comm->rank == 1) zr__comm_cancel(comm);
        if (comm->rank == 0) {
            EXPECT(cudaStreamSynchronize(l.stream[1]) == cudaSuccess);
            zr_stand_in_fail(NULL, 0, cudaSuccess);
            const double number = 1;
            EXPECT(zr__channel_begin(l.end[1][1][0], memory) == ZR_ERR_PEER);
            EXPECT_TEXT(way == 0   ? "rank 0: a message from rank 1 by NCCL: remote process exited"
                        : way == 1 ? "rank 0 was stopped"
                                   : "rank 1 was stopped");
            if (way == 0) EXPECT(zr_comm_scalars(comm, &number, 1, NULL) == ZR_ERR_PEER);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        zr__comm_fail(comm); /* no rank waits for others any more */
        close_all(&l);
        zr_comm_destroy(&comm);
        EXPECT(cudaFree(memory) == cudaSuccess && zr_stand_in_taken() == 0);
    }
}

/* Check that a failure to create a communicator is told on all ranks. */
static void a_beginning_fails(void **state)
{
    (void)state;
    static const char *const function[] = {"ncclCommInitRankConfig", "ncclCommGetAsyncError"};
    for (int way = 0; way < 2; way++) {
        zr_comm *comm = create_host(0);
        unsigned char *memory = take(1000);
        lines l = {0};
        open_all(comm, &l, 10);
        zr_stand_in_fail(function[way], way, (cudaError_t)ncclSystemError);
        EXPECT(zr__comm_connect(l.mail, memory) == ZR_ERR_COMM);
        zr_stand_in_fail(NULL, 0, cudaSuccess);
        EXPECT_TEXT("ncclCommInitRankConfig: unhandled system error");
        close_all(&l);
        zr_comm_destroy(&comm);
        EXPECT(cudaFree(memory) == cudaSuccess && clean());
    }
}

static void a_call_fails(void **state)
{
    (void)state;
    zr_comm *comm = create_host(0);
    unsigned char *memory = take(1000);
    lines l = {0};
    open_all(comm, &l, 10);
    expect_ok(zr__comm_connect(l.mail, memory));
    const int other = comm->rank == 0;
    zr_stand_in_fail("nccl", 0, (cudaError_t)ncclSystemError);
    EXPECT(zr__channel_begin(l.end[0][other][1], memory) == ZR_ERR_COMM);
    zr_stand_in_fail(NULL, 0, cudaSuccess);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "rank %d: a message to rank %d by NCCL: unhandled system error", comm->rank, other);
    EXPECT_TEXT(wanted);
    MPI_Barrier(MPI_COMM_WORLD);
    zr__comm_fail(comm);
    close_all(&l);
    zr_comm_destroy(&comm);
    EXPECT(cudaFree(memory) == cudaSuccess && zr_stand_in_taken() == 0);
}
#endif

int main(int argc, char **argv)
{
    begin_all(&argc, &argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_arrive), cmocka_unit_test(walks_share),       cmocka_unit_test(other_sizes),
#ifndef ZR_GPU
        cmocka_unit_test(waits_end),       cmocka_unit_test(a_beginning_fails), cmocka_unit_test(a_call_fails),
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
