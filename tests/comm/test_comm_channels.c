//TEST np=2,4 timeout=100
/* Channels between ranks: messages of all sizes arrive whole and in order, a message moves while its ranks do something
 * else, and no rank waits forever for a rank that has stopped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* A build without MPI has no mpi.h in its search path. */
#if __has_include(<mpi.h>)
#include "base/core/core.h"
#include "comm/comm.h"
#include "comm/mpi_create.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { DEPTH = 3, MESSAGES = 20, BIG = 12 << 20 };

static zr_comm *comm;

/* End all ranks if a check failed: the peers of the failed rank wait for it. */
static void expect(bool truth, int line, const char *what)
{
    if (truth) return;
    fprintf(stderr, "rank %d, line %d: not so: %s (%s)\n", comm->rank, line, what, zr_error_message());
    MPI_Abort(MPI_COMM_WORLD, 1);
}
#define EXPECT(cond) expect((cond), __LINE__, #cond)

static void create(int ranks_per_node)
{
    const zr__mpi_options options = {.ranks_per_node = ranks_per_node, .chunk_bytes = 1 << 16};
    if (zr__comm_mpi_create(&options, &comm) != ZR_OK) MPI_Abort(MPI_COMM_WORLD, 1);
}

/* A rank's channels to and from each other rank, two in each direction. */
typedef struct lines {
    zr__mail *mail;
    zr__channel *in[8][2], *out[8][2];
} lines;

static zr__route route(int from, int to, int which, int64_t bytes)
{
    return (zr__route){from, to, .id = which ? 7 : 900, .bytes = bytes + 4000 * which, .depth = DEPTH - which};
}

/* Open the channels, those of each rank in another order. */
static void open_all(lines *l, int64_t bytes)
{
    int64_t all = 0;
    for (int i = 0; i < 2 * (comm->size - 1); i++) {
        const zr__route its = route(comm->rank, 0, i % 2, bytes);
        all += zr__mailbox_bytes(&its);
    }
    EXPECT(zr__comm_mail(comm, all, &l->mail) == ZR_OK);
    EXPECT(zr__mail_taken(l->mail) == all);
    for (int r = 0; r < comm->size; r++)
        for (int i = 0; i < 2 && r != comm->rank; i++) {
            const int which = (i + comm->rank) % 2;
            const zr__route in = route(r, comm->rank, which, bytes), out = route(comm->rank, r, which, bytes);
            EXPECT(zr__comm_channel(comm, l->mail, &in, NULL, &l->in[r][which]) == ZR_OK);
            EXPECT(zr__comm_channel(comm, l->mail, &out, NULL, &l->out[r][which]) == ZR_OK);
        }
    EXPECT(zr_comm_barrier(comm) == ZR_OK);
}

static void close_all(lines *l)
{
    for (int r = 0; r < comm->size; r++)
        for (int i = 0; i < 2; i++) {
            zr__channel_close(l->in[r][i]);
            zr__channel_close(l->out[r][i]);
        }
    zr__comm_end_mail(&l->mail);
    EXPECT(l->mail == NULL);
}

/* Fill a message, or check it. It begins with its number. */
static void fill(unsigned char *message, int64_t bytes, int from, int which, int number)
{
    for (int64_t i = 0; i < bytes; i++) message[i] = (unsigned char)(i * 31 + i / 256 + from * 7 + which * 5 + number);
}

static void check(const unsigned char *message, int64_t bytes, int from, int which, int number)
{
    bool same = true;
    for (int64_t i = 0; i < bytes; i++)
        same &= message[i] == (unsigned char)(i * 31 + i / 256 + from * 7 + which * 5 + number);
    EXPECT(same);
}

/* Pass messages from each rank to each other, with as many on their way as the depth allows. Neighbours use the two
 * channels between them in another order. The memory of a message is
 * overwritten as soon as it is passed on. */
static void pass(lines *l, int64_t bytes)
{
    const int64_t most = bytes + 4000;
    unsigned char *memory = zr_alloc((size_t)(2 * 8 * 2 * DEPTH * most));
    EXPECT(memory != NULL);
    enum { TAKE, FREE, BEGIN, PHASES }; /* a rank takes all messages before it waits until its own are taken */
    for (int m = 0; m < MESSAGES + DEPTH; m++)
        for (int i = 0; i < PHASES * 2 * comm->size; i++) {
            const int phase = i / (2 * comm->size), at = i % (2 * comm->size), r = at / 2,
                      which = (at + comm->rank) % 2, depth = DEPTH - which, ended = m - depth;
            const zr__route its = route(comm->rank, r, which, bytes);
            if (r == comm->rank || (phase == BEGIN ? m >= MESSAGES : ended < 0 || ended >= MESSAGES)) continue;
            unsigned char *out = memory + (at * DEPTH + m % depth) * most, *in = out + 8 * 2 * DEPTH * most;
            if (phase == TAKE) {
                EXPECT(zr__channel_end(l->in[r][which]) == ZR_OK);
                check(in, its.bytes, r, which, ended);
            } else if (phase == FREE) {
                EXPECT(zr__channel_end(l->out[r][which]) == ZR_OK);
                memset(out, 0, (size_t)its.bytes);
            } else {
                fill(out, its.bytes, comm->rank, which, m);
                EXPECT(zr__channel_begin(l->out[r][which], out) == ZR_OK);
                EXPECT(zr__channel_begin(l->in[r][which], in) == ZR_OK);
            }
        }
    zr_free(memory);
}

/* On one host, on two, on as many as ranks. */
static void messages_arrive(void **state)
{
    (void)state;
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int host_ranks = size; host_ranks >= 1; host_ranks /= 2)
        for (int64_t bytes = 1; bytes <= 300000; bytes = bytes * 67 + 1) {
            lines l = {0};
            create(host_ranks);
            open_all(&l, bytes);
            pass(&l, bytes);
            const int64_t each = MESSAGES * (2 * bytes + 4000) * (comm->size - 1);
            EXPECT(comm->traffic.bytes[ZR_TRAFFIC_PIPELINE] == each);
            close_all(&l);
            zr_comm_destroy(&comm);
        }
}

/* Begin a big message on both sides. It arrives although neither rank makes another call. A second one waits for its
 * receiver, and the sender's calls do not. */
static void messages_move_alone(void **state)
{
    (void)state;
    for (int host_ranks = 1; host_ranks <= 2; host_ranks++) {
        lines l = {0};
        create(host_ranks);
        if (comm->size == 2) {
            const int other = 1 - comm->rank;
            unsigned char *out = zr_alloc(2 * BIG), *in = out + BIG;
            EXPECT(out != NULL);
            open_all(&l, BIG - 4000);
            fill(out, BIG, comm->rank, 1, 0);
            if (comm->rank == 0) EXPECT(zr__channel_begin(l.out[other][1], out) == ZR_OK);
            if (comm->rank == 0) EXPECT(zr__channel_begin(l.out[other][1], out) == ZR_OK);
            if (comm->rank == 1) EXPECT(zr__channel_begin(l.in[other][1], in) == ZR_OK);
            const volatile unsigned char *last = &in[BIG - 1];
            unsigned char want[2];
            fill(want, 1, 0, 1, 0);
            want[0] = out[BIG - 1]; /* of rank 1's own message */
            want[1] = (unsigned char)(want[0] - 7);
            for (int i = 0; i < 2000 && comm->rank == 1 && host_ranks == 1 && *last != want[1]; i++)
                nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
            if (comm->rank == 1 && host_ranks == 1) EXPECT(*last == want[1]);
            EXPECT(zr_comm_barrier(comm) == ZR_OK);
            for (int m = 0; m < 2 && comm->rank == 1; m++) {
                if (m == 1) EXPECT(zr__channel_begin(l.in[other][1], in) == ZR_OK);
                EXPECT(zr__channel_end(l.in[other][1]) == ZR_OK);
                check(in, BIG, 0, 1, 0);
            }
            for (int m = 0; m < 2 && comm->rank == 0; m++) EXPECT(zr__channel_end(l.out[other][1]) == ZR_OK);
            close_all(&l);
            zr_free(out);
        }
        zr_comm_destroy(&comm);
    }
}

/* On one host a rank stops, and its peers' waits end. Between hosts the rank itself ends its wait. */
static void stops_are_noticed(void **state)
{
    (void)state;
    char byte[8][DEPTH] = {{0}};
    for (int host_ranks = 0; host_ranks <= 1; host_ranks++) {
        lines l = {0};
        create(host_ranks);
        open_all(&l, 1);
        const bool stops = host_ranks == 1 || comm->rank == 1;
        if (stops) zr__comm_cancel(comm);
        for (int r = 0; r < comm->size && !stops; r++)
            if (r != comm->rank) EXPECT(zr__channel_begin(l.in[r][0], byte[r]) == ZR_OK);
        EXPECT(zr__channel_end(l.in[!comm->rank][0]) == ZR_ERR_PEER);
        EXPECT(strstr(zr_error_message(), "was stopped"));
        MPI_Barrier(MPI_COMM_WORLD);
        if (!stops) zr__comm_fail(comm); /* the rank that stopped does not come any more */
        close_all(&l);
        zr_comm_destroy(&comm);
    }
}

/* Two ends with other sizes are refused. */
static void other_sizes(void **state)
{
    (void)state;
    zr__mail *mail = NULL;
    zr__channel *channel = NULL;
    char message[200];
    create(0);
    const zr__route its = {0, 1, .id = 1, .bytes = 100 + (comm->rank == 1), .depth = 1};
    EXPECT(zr__comm_mail(comm, 1000, &mail) == ZR_OK);
    if (comm->rank < 2) EXPECT(zr__comm_channel(comm, mail, &its, NULL, &channel) == ZR_OK);
    EXPECT(zr_comm_barrier(comm) == ZR_OK);
    if (comm->rank < 2) EXPECT(zr__channel_begin(channel, message) == ZR_OK);
    if (comm->rank < 2) EXPECT(zr__channel_begin(channel, message) == ZR_ERR_INTERNAL);
    if (comm->rank == 1) EXPECT(zr__channel_end(channel) == ZR_ERR_INTERNAL);
    zr__channel_close(channel);
    zr__comm_end_mail(&mail);
    zr_comm_destroy(&comm);
}

int main(int argc, char **argv)
{
    zr_comm *usual = NULL;
    if (zr_comm_mpi_start(&argc, &argv, &usual) != ZR_OK) return 1;
    zr_comm_destroy(&usual);
    const struct CMUnitTest tests[] = {cmocka_unit_test(messages_arrive), cmocka_unit_test(messages_move_alone),
                                       cmocka_unit_test(other_sizes), cmocka_unit_test(stops_are_noticed)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    zr_comm_mpi_stop();
    return failed;
}

#else

int main(void)
{
    return 1; /* never run: without MPI there is no mpirun */
}

#endif
