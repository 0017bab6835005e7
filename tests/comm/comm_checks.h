/* Checks that every transport must pass, as one function over a communicator: each transport's test runs it on its own
 * ranks. A failed check is a failed status with its message. Link with --wrap=zr__traffic_count. */
#ifndef COMM_CHECKS_H
#define COMM_CHECKS_H

#include "base/core/core.h"
#include "base/number/rng.h"
#include "zr/comm.h"
#include "comm/comm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHECK_PIECE_MAX = 20011 };

/* Bytes added to every traffic count, to prove that the checks notice a wrong count; 0: counts are right. */
static _Atomic int64_t miscounted_bytes;
void __real_zr__traffic_count(zr_traffic *traffic, zr_traffic_kind kind, int64_t bytes);
void __wrap_zr__traffic_count(zr_traffic *traffic, zr_traffic_kind kind, int64_t bytes);
void __wrap_zr__traffic_count(zr_traffic *traffic, zr_traffic_kind kind, int64_t bytes)
{
    __real_zr__traffic_count(traffic, kind, bytes + miscounted_bytes);
}

/* Return byte i of the data that rank `from` of the world sends to rank `to` in a round. Any two byte sequences soon
 * differ. */
static unsigned char check_byte(int from, int to, int round, int64_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u + (uint32_t)(from * 131 + to * 17 + round * 7919);
    return (unsigned char)((x ^ x >> 15) * 2246822519u >> 24);
}

static void check_fill(unsigned char *bytes, int from, int to, int round, int64_t n)
{
    for (int64_t i = 0; i < n; i++) bytes[i] = check_byte(from, to, round, i);
}

/* Check that `bytes` holds bytes [first, first + n) of check_byte's sequence. */
static zr_status check_stretch(const unsigned char *bytes, int from, int to, int round, int64_t first, int64_t n,
                               const char *what)
{
    for (int64_t i = 0; i < n; i++) {
        if (bytes[i] == check_byte(from, to, round, first + i)) continue;
        return ZR_FAIL(ZR_ERR_INTERNAL, "%s, round %d, bytes %lld + %lld: byte %lld from rank %d for rank %d is wrong",
                       what, round, (long long)first, (long long)n, (long long)i, from, to);
    }
    return ZR_OK;
}

static zr_status check_bytes(const unsigned char *bytes, int from, int to, int round, int64_t n, const char *what)
{
    return check_stretch(bytes, from, to, round, 0, n, what);
}

/* Return rank r's number in the world, so that data from another group's ranks is not mistaken for this group's. */
static int check_name(const zr_comm *comm, int r)
{
    return comm->world_ranks[r];
}

/* One rank's view of the checks, and the traffic that it should have counted. */
typedef struct checker {
    zr_comm *comm;
    unsigned char *send, *mine, *out; /* size * (CHECK_PIECE_MAX + 64) bytes each */
    zr_traffic expected;
} checker;

/* The parameters of one call, equal on every rank. */
typedef struct check_call {
    int round, kind;
    int64_t piece, stride, grain;
} check_call;

static check_call check_draw(int round)
{
    static const int64_t pieces[] = {0, 1, 7, 64, 1000, 4097, CHECK_PIECE_MAX};
    uint32_t random[4];
    zr__rng_block(&(zr_rng){.purpose = ZR_RNG_SHUFFLE}, (uint64_t)round, random);
    check_call call = {.round = round, .kind = (int)(random[0] >> 8), .grain = 1};
    call.piece = pieces[random[2] % 7];
    call.stride = call.piece + random[3] % 3 * 13;
    return call;
}

/* Delay one rank per round, sometimes by much, while its peers go on to the next call. It sleeps instead of yielding,
 * because a core that is yielded to other processes is lost for whole time slices. */
static void check_dawdle(const zr_comm *comm, int round)
{
    if ((round + comm->rank) % comm->size == 0) usleep(round % 16 == 0 ? 2000 : 50);
}

/* An exchange from the point of view of its receiver. */
typedef struct check_taken {
    zr_comm *comm;
    unsigned char *own; /* the piece in `send` that receives the result */
    int to, round;      /* the receiving rank, in the communicator */
    int64_t grain;
    int64_t bytes; /* bytes received so far */
    int calls;
    bool fails; /* fail at the first stretch */
    const char *what;
} check_taken;

static zr_status check_take(void *arg, int64_t first, int64_t bytes, const void *const *pieces)
{
    check_taken *t = arg;
    int size = t->comm->size, rank = t->comm->rank, to = check_name(t->comm, t->to);
    ZR_CHECK(first == t->bytes && first % (t->grain > 1 ? t->grain : 64) == 0 && bytes > 0 && bytes % t->grain == 0,
             ZR_ERR_INTERNAL, "%s: %lld bytes came at %lld, after %lld, in grains of %lld", t->what, (long long)bytes,
             (long long)first, (long long)t->bytes, (long long)t->grain);
    t->bytes += bytes;
    t->calls++;
    ZR_CHECK(!t->fails, ZR_ERR_DATA, "this rank cannot take it");
    ZR_CHECK(pieces[rank] == t->own + first, ZR_ERR_INTERNAL, "%s: the own piece is not in send", t->what);
    for (int r = 0; r < size; r++)
        ZR_TRY(check_stretch(pieces[r], check_name(t->comm, r), to, t->round, first, bytes, t->what));
    if (first % 5 == 0) check_dawdle(t->comm, t->round + (int)(first / 64));
    /* Peers are still reading their own pieces: changing this rank's piece must not change theirs. */
    for (int r = 0; r < size; r++)
        ZR_TRY(check_stretch(r == rank ? t->own + first : pieces[r], check_name(t->comm, r), to, t->round, first, bytes,
                             t->what));
    for (int64_t i = 0; i < bytes; i++) t->own[first + i] = (unsigned char)~t->own[first + i];
    return ZR_OK;
}

/* Check that the whole piece has arrived and that the bytes written in place are still there. */
static zr_status check_taken_all(const check_taken *t, int64_t piece)
{
    ZR_CHECK(t->bytes == piece, ZR_ERR_INTERNAL, "%s: %lld of %lld bytes came", t->what, (long long)t->bytes,
             (long long)piece);
    for (int64_t i = 0; i < piece; i++) t->own[i] = (unsigned char)~t->own[i];
    return check_bytes(t->own, check_name(t->comm, t->comm->rank), check_name(t->comm, t->to), t->round, piece,
                       "in place");
}

/* Fill `send` with this rank's piece for each rank. */
static void check_fill_all(checker *c, check_call call)
{
    int mine = check_name(c->comm, c->comm->rank);
    for (int r = 0; r < c->comm->size; r++)
        check_fill(c->send + r * call.stride, mine, check_name(c->comm, r), call.round, call.piece);
}

static zr_status check_exchange(checker *c, check_call call)
{
    int rank = c->comm->rank, size = c->comm->size;
    check_taken t = {c->comm, c->send + rank * call.stride, rank, call.round, call.grain, 0, 0, false, "exchange"};
    check_fill_all(c, call);
    ZR_TRY(zr_comm_exchange(c->comm, c->send, call.stride, call.piece, call.grain, check_take, &t));
    ZR_TRY(check_taken_all(&t, call.piece));
    memset(c->send, 0xee, (size_t)(size * call.stride)); /* seen by a peer still reading */
    c->expected.bytes[ZR_TRAFFIC_REDUCE_SCATTER] += (size - 1) * call.piece;
    return ZR_OK;
}

static zr_status check_all_gather(checker *c, check_call call)
{
    int rank = c->comm->rank, size = c->comm->size;
    bool in_place = call.round % 2;
    unsigned char *from = in_place ? c->out + rank * call.stride : c->mine;
    check_fill(from, check_name(c->comm, rank), -1, call.round, call.piece);
    ZR_TRY(zr_comm_all_gather(c->comm, from, c->out, call.stride, call.piece));
    check_dawdle(c->comm, call.round);
    for (int r = 0; r < size; r++)
        ZR_TRY(check_bytes(c->out + r * call.stride, check_name(c->comm, r), -1, call.round, call.piece,
                           in_place ? "all_gather in place" : "all_gather"));
    /* A peer that is still reading its piece would see these bytes, and a peer that is still writing would spoil the
     * next call's. */
    memset(from, 0xee, (size_t)call.piece);
    c->expected.bytes[ZR_TRAFFIC_ALL_GATHER] += (size - 1) * call.piece;
    return ZR_OK;
}

static zr_status check_scalars(checker *c, check_call call)
{
    double mine[ZR_COMM_SCALARS], all[16 * ZR_COMM_SCALARS];
    int size = c->comm->size, n = 1 + (int)(call.piece + 46) % ZR_COMM_SCALARS;
    for (int i = 0; i < n; i++) mine[i] = check_name(c->comm, c->comm->rank) + 1.0 / (call.round + i + 3);
    ZR_TRY(zr_comm_scalars(c->comm, mine, n, call.round % 2 ? all : NULL));
    check_dawdle(c->comm, call.round); /* scalars stay in the table until this rank's next call */
    for (int r = 0; r < size; r++)
        for (int i = 0; i < n; i++) {
            const double wanted = check_name(c->comm, r) + 1.0 / (call.round + i + 3);
            ZR_CHECK(c->comm->table[r * n + i] == wanted && (call.round % 2 == 0 || all[r * n + i] == wanted),
                     ZR_ERR_INTERNAL, "scalar %d of rank %d is wrong", i, r);
        }
    c->expected.bytes[ZR_TRAFFIC_ALL_REDUCE] += (size - 1) * n * 8;
    return ZR_OK;
}

/* Check that no rank leaves a barrier before the last has entered it. All processes of a host share one clock. */
static zr_status check_barrier(checker *c, check_call call)
{
    double times[2], all[32];
    check_dawdle(c->comm, call.round);
    times[0] = zr_clock_sec();
    ZR_TRY(zr_comm_barrier(c->comm));
    times[1] = zr_clock_sec();
    ZR_TRY(zr_comm_scalars(c->comm, times, 2, all));
    for (int r = 0; r < c->comm->size; r++)
        ZR_CHECK(all[2 * r] <= times[1], ZR_ERR_INTERNAL, "left a barrier before rank %d had come", r);
    c->expected.bytes[ZR_TRAFFIC_ALL_REDUCE] += (c->comm->size - 1) * 16;
    return ZR_OK;
}

static zr_status check_consent(checker *c, check_call call)
{
    ZR_TRY(zr_comm_agree(c->comm, ZR_OK));
    return zr__comm_same(c->comm, "round", (uint64_t)call.round << 40);
}

static zr_status check_round(checker *c, int round)
{
    static zr_status (*const checks[])(checker *, check_call) = {
        check_exchange,   check_exchange, check_exchange, check_all_gather,
        check_all_gather, check_scalars,  check_barrier,  check_consent,
    };
    check_call call = check_draw(round);
    return checks[call.kind % (int)(sizeof checks / sizeof checks[0])](c, call);
}

static void check_count_anew(checker *c)
{
    c->comm->traffic = c->expected = (zr_traffic){{0}};
}

static zr_status check_counted(const checker *c)
{
    ZR_CHECK(memcmp(&c->comm->traffic, &c->expected, sizeof c->expected) == 0, ZR_ERR_INTERNAL,
             "traffic is not what the formulas say");
    return ZR_OK;
}

/* Check all kinds of calls in random order, so that each kind follows each other with changing sizes. */
static zr_status check_rounds(checker *c, int rounds)
{
    check_count_anew(c);
    for (int round = 0; round < rounds; round++) ZR_TRY(check_round(c, round));
    return check_counted(c);
}

/* Check an agreement in which rank 1 and the last rank fail: both keep their own messages, the other ranks get rank
 * 1's, and all ranks return its status. */
static zr_status check_agree(zr_comm *comm)
{
    if (comm->size < 2) return ZR_OK;
    zr_status mine = ZR_OK;
    char heard[64];
    const char *text = heard;
    snprintf(heard, sizeof heard, "rank %d: token 77 is out of range", check_name(comm, 1));
    if (comm->rank == comm->size - 1) {
        text = "the disk is gone";
        mine = ZR_FAIL(ZR_ERR_IO, "the disk is gone");
    }
    if (comm->rank == 1) {
        text = "token 77 is out of range";
        mine = ZR_FAIL(ZR_ERR_DATA, "token %d is out of range", 77);
    }
    zr_status all = zr_comm_agree(comm, mine);
    ZR_CHECK(all == ZR_ERR_DATA && strcmp(zr_error_message(), text) == 0, ZR_ERR_INTERNAL, "agreed on %d, '%s'", all,
             zr_error_message());
    return ZR_OK;
}

/* Check that an error message longer than the transport carries is truncated, not lost. */
static zr_status check_long_text(zr_comm *comm)
{
    if (comm->size < 2) return ZR_OK;
    zr_status mine = comm->rank == 1 ? ZR_FAIL(ZR_ERR_DATA, "%0500d", 7) : ZR_OK;
    zr_status all = zr_comm_agree(comm, mine);
    size_t wanted = comm->rank == 1 ? 500 : strlen("rank 1: ") + 8 * ZR_COMM_SCALARS - 1; /* at most 10: one digit */
    ZR_CHECK(all == ZR_ERR_DATA && strlen(zr_error_message()) == wanted, ZR_ERR_INTERNAL, "agreed on %d, '%s'", all,
             zr_error_message());
    return ZR_OK;
}

/* Check that zr_comm_same names the rank that differs: the last rank's number differs in its upper half only. */
static zr_status check_same(zr_comm *comm)
{
    if (comm->size < 2) return ZR_OK;
    char wanted[160];
    int odd = check_name(comm, comm->size - 1), first = check_name(comm, 0);
    snprintf(wanted, sizeof wanted,
             "hash differs between ranks: rank %d differs from rank %d (rank %d has 7ff0000100000001, rank %d has "
             "7ff0000000000001)",
             odd, first, odd, first);
    bool differs = comm->rank == comm->size - 1;
    zr_status st = zr__comm_same(comm, "hash", 0x7ff0000000000001u + ((uint64_t)differs << 32));
    ZR_CHECK(st == ZR_ERR_CONFIG && strstr(zr_error_message(), wanted), ZR_ERR_INTERNAL, "same gave %d, '%s'", st,
             zr_error_message());
    return ZR_OK;
}

static zr_status check_staging(zr_comm *comm, int64_t bytes)
{
    void *staging = NULL;
    ZR_TRY(zr_comm_staging(comm, bytes, &staging));
    ZR_CHECK((staging == NULL) == (bytes == 0) && (uintptr_t)staging % 64 == 0, ZR_ERR_INTERNAL,
             "staging is not aligned");
    for (int64_t i = 0; i < bytes; i++)
        ZR_CHECK(((unsigned char *)staging)[i] == 0, ZR_ERR_INTERNAL, "staging is not zero");
    return ZR_OK;
}

static zr_status check_refused(zr_status st, const char *wanted)
{
    ZR_CHECK(st == ZR_ERR_ARG && strstr(zr_error_message(), wanted), ZR_ERR_INTERNAL, "wanted '%s', got %d, '%s'",
             wanted, st, zr_error_message());
    return ZR_OK;
}

/* Check that invalid calls are refused before any byte is moved, so that ranks which are all refused stay in step. */
static zr_status check_refusals(checker *c)
{
    zr_comm *comm = c->comm;
    double one = 1, all[16];
    ZR_TRY(check_refused(zr_comm_exchange(comm, c->send, 8, -1, 1, check_take, NULL), "the piece size is -1 bytes"));
    ZR_TRY(check_refused(zr_comm_all_gather(comm, c->send, c->out, 64, -1), "the piece size is -1 bytes"));
    ZR_TRY(check_refused(zr_comm_exchange(comm, c->send, 8, 8, 1, NULL, NULL), "zr_comm_exchange was given a NULL"));
    ZR_TRY(check_refused(zr_comm_exchange(comm, NULL, 8, 8, 1, check_take, NULL), "zr_comm_exchange was given a NULL"));
    ZR_TRY(check_refused(zr_comm_scalars(comm, &one, ZR_COMM_SCALARS + 1, all),
                         "49 scalars were given in one call; it must be 1 to 48"));
    ZR_TRY(check_refused(zr_comm_scalars(comm, &one, 0, all), "0 scalars were given in one call"));
    if (comm->size == 1) return ZR_OK;
    unsigned char *others = c->out + (comm->rank + 1) % comm->size * 64;
    ZR_TRY(check_refused(zr_comm_all_gather(comm, others, c->out, 64, 64), "not at its own place"));
    ZR_TRY(check_refused(zr_comm_all_gather(comm, c->out + comm->rank * 64 + 1, c->out, 64, 64), "its own place"));
    return check_refused(zr_comm_exchange(comm, c->send, 8, 9, 1, check_take, NULL),
                         "pieces of 9 bytes overlap at a stride of 8");
}

/* Check records that must not be split between chunks, in chunks with room for exactly one record, or for slightly less
 * than a whole number of records. Gathers move the same bytes, and may cut them anywhere. */
static zr_status check_grains(checker *c)
{
    static const struct {
        int64_t grain, slot;
    } cases[] = {{36, 64},   {36, 1000},  {260, 320},  {260, 5000}, {66, 128},   {66, 2112}, {66, 4160},
                 {130, 192}, {130, 1000}, {130, 4160}, {258, 320},  {258, 1024}, {258, 8256}};
    check_count_anew(c);
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        const int64_t piece = 67 * cases[i].grain;
        check_call call = {.round = i, .piece = piece, .stride = piece + 4, .grain = cases[i].grain};
        ZR_TRY(check_staging(c->comm, 2 * c->comm->size * cases[i].slot));
        ZR_TRY(check_exchange(c, call));
        ZR_TRY(check_all_gather(c, call));
    }
    return check_counted(c);
}

static zr_status check_grain_refusals(checker *c)
{
    zr_comm *comm = c->comm;
    ZR_TRY(check_staging(comm, (int64_t)comm->size * ZR_COMM_STAGING_LEAST));
    ZR_TRY(check_refused(zr_comm_exchange(comm, c->send, 8, 8, 0, check_take, NULL),
                         "the grain is 0 bytes; it must be at least 1"));
    ZR_TRY(check_refused(zr_comm_exchange(comm, c->send, 8, 8, -4, check_take, NULL), "the grain is -4 bytes"));
    ZR_TRY(check_refused(zr_comm_exchange(comm, c->send, 16, 8, 16, check_take, NULL), "8 bytes in grains of 16"));
    ZR_TRY(check_refused(zr_comm_exchange(comm, c->send, 8, 8, 3, check_take, NULL),
                         "a piece of 8 bytes in grains of 3, which do not divide it"));
    if (comm->size == 1) return ZR_OK; /* a single rank has its whole piece at once */
    /* larger than the chunks of every transport in these tests */
    const char *wanted = "a grain of 320 bytes, but chunks have room for ";
    ZR_TRY(check_refused(zr_comm_exchange(comm, c->send, 640, 640, 320, check_take, NULL), wanted));
    return zr_comm_barrier(comm);
}

static zr_status check_least_stage(checker *c)
{
    zr_comm *comm = c->comm;
    int64_t least = (int64_t)comm->size * ZR_COMM_STAGING_LEAST;
    ZR_TRY(check_staging(comm, least - 1));
    if (comm->size == 1) return ZR_OK;
    const char *wanted = "call zr_comm_staging with at least 128 for each";
    ZR_TRY(check_refused(zr_comm_exchange(comm, c->send, 64, 64, 1, check_take, NULL), wanted));
    return check_refused(zr_comm_all_gather(comm, c->mine, c->out, 64, 64), wanted);
}

/* Check that a failure of the last rank's function is reported to that rank alone, and that the ranks stay in step. */
static zr_status check_failing_take(checker *c, check_call call)
{
    zr_comm *comm = c->comm;
    bool fails = comm->rank == comm->size - 1;
    check_taken t = {comm,
                     c->send + comm->rank * call.stride,
                     comm->rank,
                     call.round,
                     call.grain,
                     0,
                     0,
                     fails,
                     "a failing exchange"};
    check_fill_all(c, call);
    zr_status st = zr_comm_exchange(comm, c->send, call.stride, call.piece, call.grain, check_take, &t);
    if (fails) {
        ZR_CHECK(st == ZR_ERR_DATA && strcmp(zr_error_message(), "this rank cannot take it") == 0, ZR_ERR_INTERNAL,
                 "a failing function gave %d, '%s'", st, zr_error_message());
        ZR_CHECK(t.calls == 1, ZR_ERR_INTERNAL, "a function that failed was called %d times", t.calls);
        return ZR_OK;
    }
    ZR_TRY(st);
    return check_taken_all(&t, call.piece);
}

/* Check pieces large enough for non-temporal stores, at addresses that are not aligned to a cache line. */
static zr_status check_streamed(zr_comm *comm)
{
    check_call call = {.piece = (1 << 20) + 4097, .stride = (1 << 20) + 4099};
    int64_t bytes = comm->size * call.stride + 64;
    checker c = {.comm = comm, .mine = zr_alloc((size_t)bytes), .out = zr_alloc((size_t)bytes)};
    zr_status st = c.mine && c.out ? ZR_OK : ZR_ERR_MEMORY;
    c.mine += 5;
    c.out += 27;
    for (call.round = 0; call.round < 2 && st == ZR_OK; call.round++) st = check_all_gather(&c, call);
    zr_free(c.mine - 5);
    zr_free(c.out - 27);
    return st;
}

/* Check that a rank which has not reached a barrier sees the boards of the ranks waiting there, each with one wait
 * begun since. */
static zr_status check_board(zr_comm *comm)
{
    zr_comm_board mine = {0}, other = {0};
    ZR_TRY(zr_comm_barrier(comm));
    if (!zr__comm_look(comm, check_name(comm, comm->rank), &mine))
        return ZR_FAIL(ZR_ERR_INTERNAL, "a rank cannot see its own board");
    ZR_CHECK(mine.waits % 2 == 0, ZR_ERR_INTERNAL, "a rank that works shows %llu waits",
             (unsigned long long)mine.waits);
    zr__comm_show(comm, 2, 1000 + (uint64_t)check_name(comm, comm->rank));
    zr__comm_show(comm, 3, mine.waits);
    for (int r = 1; r < comm->size && comm->rank == 0; r++) {
        bool waits = !zr__comm_look(comm, check_name(comm, r), &other); /* a rank of another host cannot be seen */
        for (int tries = 0; !waits && tries < 60000; tries++) {
            zr__comm_look(comm, check_name(comm, r), &other);
            waits = other.shown[2] == 1000 + (uint64_t)check_name(comm, r) && other.waits == other.shown[3] + 1;
            if (!waits) usleep(1000);
        }
        ZR_CHECK(waits, ZR_ERR_INTERNAL, "rank %d shows %llu, %llu and %llu waits", r,
                 (unsigned long long)other.shown[2], (unsigned long long)other.shown[3],
                 (unsigned long long)other.waits);
    }
    ZR_TRY(zr_comm_barrier(comm));
    ZR_CHECK(zr__comm_gone(comm) < 0, ZR_ERR_INTERNAL, "rank %d is said to be gone", zr__comm_gone(comm));
    return ZR_OK;
}

static zr_status check_all(checker *c)
{
    zr_comm *comm = c->comm;
    int64_t least = (int64_t)comm->size * ZR_COMM_STAGING_LEAST, most = 2 * (int64_t)comm->size * CHECK_PIECE_MAX;
    check_call large = {.round = 1, .piece = CHECK_PIECE_MAX, .stride = CHECK_PIECE_MAX, .grain = 1};
    ZR_TRY(check_least_stage(c));
    ZR_TRY(check_staging(comm, least));
    ZR_TRY(check_rounds(c, 20));
    ZR_TRY(check_failing_take(c, large));
    ZR_TRY(check_grains(c));
    ZR_TRY(check_grain_refusals(c));
    ZR_TRY(check_staging(comm, 11 * least + 72));
    ZR_TRY(check_rounds(c, 60));
    ZR_TRY(check_staging(comm, most + 64 * least));
    ZR_TRY(check_rounds(c, 150));
    ZR_TRY(check_failing_take(c, large));
    ZR_TRY(check_streamed(comm));
    ZR_TRY(check_refusals(c));
    /* Staging is replaced while peers may still be finishing the last call. */
    ZR_TRY(check_exchange(c, large));
    ZR_TRY(check_staging(comm, 0));
    ZR_TRY(check_staging(comm, most));
    ZR_TRY(check_exchange(c, large));
    ZR_TRY(check_staging(comm, most / 2));
    ZR_TRY(check_exchange(c, large));
    ZR_TRY(check_agree(comm));
    ZR_TRY(check_long_text(comm));
    ZR_TRY(check_same(comm));
    ZR_TRY(check_board(comm));
    return ZR_OK;
}

/* A call made on a thread other than the communicator's creator. */
typedef struct check_beside_args {
    zr_comm *comm;
    zr_status (*run)(zr_comm *comm, void *arg);
    void *arg;
    zr_status status;
    char text[256];
    pthread_t thread;
    atomic_bool ended;
} check_beside_args;

static void *check_beside_run(void *arg)
{
    check_beside_args *b = arg;
    b->status = b->run(b->comm, b->arg);
    snprintf(b->text, sizeof b->text, "%s", zr_error_message());
    atomic_store(&b->ended, true);
    return NULL;
}

static void check_beside_start(check_beside_args *b)
{
    if (pthread_create(&b->thread, NULL, check_beside_run, b) != 0) abort();
}

static zr_status check_beside_join(check_beside_args *b)
{
    pthread_join(b->thread, NULL);
    return b->status == ZR_OK ? ZR_OK : ZR_FAIL(b->status, "%s", b->text);
}

static zr_status check_open(checker *c, zr_comm *comm)
{
    size_t bytes = (size_t)comm->size * (CHECK_PIECE_MAX + 64);
    *c = (checker){.comm = comm, .send = zr_alloc(bytes), .mine = zr_alloc(bytes), .out = zr_alloc(bytes)};
    ZR_CHECK(c->send && c->mine && c->out, ZR_ERR_MEMORY, "no memory for the checks");
    return ZR_OK;
}

static void check_close(checker *c)
{
    zr_free(c->out);
    zr_free(c->mine);
    zr_free(c->send);
}

static zr_status check_comm(zr_comm *comm, void *unused)
{
    (void)unused;
    checker c;
    zr_status st = check_open(&c, comm);
    if (st == ZR_OK) st = check_all(&c);
    check_close(&c);
    return st;
}

static inline zr_status check_comm_beside(zr_comm *comm, void *unused)
{
    check_beside_args beside = {.comm = comm, .run = check_comm, .arg = unused};
    check_beside_start(&beside);
    return check_beside_join(&beside);
}

/* Wait for peers that never come, in the call numbered 1 to 4; NULL: in an exchange. */
static zr_status check_wait(zr_comm *comm, void *number)
{
    enum { BYTES = 1000 };
    unsigned char bytes[16 * BYTES] = {0}, mine[BYTES] = {0};
    check_taken none = {.comm = comm, .grain = 8, .what = "a call that was stopped"};
    double one = 1, all[16];
    int call = number ? *(int *)number : 0;
    if (call == 1) return zr_comm_scalars(comm, &one, 1, all);
    if (call == 2) return zr_comm_all_gather(comm, mine, bytes, BYTES, BYTES);
    if (call == 3) return zr_comm_barrier(comm);
    if (call == 4) return zr_comm_agree(comm, ZR_OK);
    return zr_comm_exchange(comm, bytes, BYTES, BYTES, 8, check_take, &none);
}

/* Cancel, through `stopped`, this rank's own call in `comm` that waits for rank 0. `stopped` is `comm` or the
 * communicator that it was split from. */
static inline zr_status check_cancel(zr_comm *comm, zr_comm *stopped)
{
    check_beside_args beside = {.comm = comm, .run = check_wait};
    check_beside_start(&beside);
    usleep(5000);
    zr__comm_cancel(stopped);
    zr_status st = check_beside_join(&beside);
    ZR_CHECK(st == ZR_ERR_PEER && strstr(zr_error_message(), "rank "), ZR_ERR_INTERNAL, "a stopped call gave %d, '%s'",
             st, zr_error_message());
    st = check_wait(comm, NULL);
    ZR_CHECK(st == ZR_ERR_PEER, ZR_ERR_INTERNAL, "a call after that gave %d, '%s'", st, zr_error_message());
    return ZR_OK;
}

#endif
