/* What every transport must do, as one function over a communicator: the tests of each transport
 * run it on their own ranks. A failed check is a failed status with its message. */
#ifndef COMM_CHECKS_H
#define COMM_CHECKS_H

#include "zr/comm.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

enum { CHECK_PIECE_MAX = 20011, CHECK_ROUNDS = 300 };

/* Byte i of what rank `from` has for rank `to` in a round: no two of these look alike for long. */
static unsigned char check_byte(int from, int to, int round, int64_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u + (uint32_t)(from * 131 + to * 17 + round * 7919);
    return (unsigned char)((x ^ x >> 15) * 2246822519u >> 24);
}

static void check_fill(unsigned char *bytes, int from, int to, int round, int64_t n)
{
    for (int64_t i = 0; i < n; i++) bytes[i] = check_byte(from, to, round, i);
}

static zr_status check_bytes(const unsigned char *bytes, int from, int to, int round, int64_t n, const char *what)
{
    for (int64_t i = 0; i < n; i++) {
        if (bytes[i] == check_byte(from, to, round, i)) continue;
        return ZR_FAIL(ZR_ERR_INTERNAL, "%s, round %d, %lld bytes: byte %lld from rank %d for rank %d is wrong", what,
                       round, (long long)n, (long long)i, from, to);
    }
    return ZR_OK;
}

/* One rank's view of the checks, and what its traffic should come to. */
typedef struct checker {
    zr_comm *comm;
    unsigned char *send, *mine, *out; /* (size * (CHECK_PIECE_MAX + 64)) */
    zr_traffic expected;
} checker;

/* One call's choices, the same on every rank. */
typedef struct check_call {
    int round, kind, owner;
    int64_t piece, stride;
} check_call;

static check_call check_draw(const zr_comm *comm, int round)
{
    static const int64_t pieces[] = {0, 1, 7, 64, 1000, 4097, CHECK_PIECE_MAX};
    uint32_t random[4];
    zr_rng_block(&(zr_rng){.purpose = ZR_RNG_SHUFFLE}, (uint64_t)round, random);
    check_call call = {.round = round, .kind = (int)(random[0] >> 8), .owner = (int)(random[1] >> 8) % comm->size};
    call.piece = pieces[random[2] % 7];
    call.stride = call.piece + random[3] % 3 * 13;
    return call;
}

/* One rank a round reads late, while its peers hurry into the next call. */
static void check_dawdle(const zr_comm *comm, int round)
{
    for (int i = 0; (round + comm->rank) % comm->size == 0 && i < 50; i++) sched_yield();
}

static zr_status check_exchange(checker *c, check_call call)
{
    const void *pieces[16];
    int rank = c->comm->rank, size = c->comm->size;
    for (int r = 0; r < size; r++) check_fill(c->send + r * call.stride, rank, r, call.round, call.piece);
    ZR_TRY(zr_comm_exchange(c->comm, c->send, call.stride, call.piece, pieces));
    for (int r = 0; r < size; r++)
        if (r != rank) memset(c->send + r * call.stride, 0xee, (size_t)call.piece);
    check_dawdle(c->comm, call.round);
    for (int r = 0; r < size; r++) ZR_TRY(check_bytes(pieces[r], r, rank, call.round, call.piece, "exchange"));
    ZR_CHECK(pieces[rank] == c->send + rank * call.stride || call.piece == 0, ZR_ERR_INTERNAL,
             "the own piece is not in send");
    c->expected.bytes[ZR_REDUCE_SCATTER] += (size - 1) * call.piece;
    return ZR_OK;
}

/* Three parts at strides of their own, one of them often empty; joined, a rank's pieces are one text. */
static zr_status check_exchange_parts(checker *c, check_call call)
{
    enum { PARTS = 3 };
    const void *pieces[16];
    int rank = c->comm->rank, size = c->comm->size;
    int64_t first = call.piece / 3, second = call.round % 2 ? (call.piece - first) / 2 : 0, at = 0;
    zr_comm_part part[PARTS] = {{.piece_bytes = first}, {.piece_bytes = second}};
    part[2].piece_bytes = call.piece - first - second;
    unsigned char *send = c->send;
    for (int p = 0; p < PARTS; p++) {
        part[p].send = part[p].piece_bytes > 0 ? send : NULL;
        part[p].stride_bytes = part[p].piece_bytes + 7 * p;
        for (int r = 0; r < size; r++) {
            check_fill(c->mine, rank, r, call.round, call.piece);
            memcpy(send, c->mine + at, (size_t)part[p].piece_bytes);
            send += part[p].stride_bytes;
        }
        at += part[p].piece_bytes;
    }
    ZR_TRY(zr_comm_exchange_parts(c->comm, part, PARTS, pieces));
    memset(c->send, 0xee, (size_t)(send - c->send));
    check_dawdle(c->comm, call.round);
    for (int r = 0; r < size; r++) ZR_TRY(check_bytes(pieces[r], r, rank, call.round, call.piece, "exchange_parts"));
    c->expected.bytes[ZR_REDUCE_SCATTER] += (size - 1) * call.piece;
    return ZR_OK;
}

static zr_status check_collect(checker *c, check_call call)
{
    const void *pieces[16] = {c};
    int rank = c->comm->rank, size = c->comm->size;
    check_fill(c->send, rank, call.owner, call.round, call.piece);
    bool none = rank != call.owner && call.round % 2;
    ZR_TRY(zr_comm_collect(c->comm, call.owner, c->send, call.piece, none ? NULL : pieces));
    if (rank != call.owner) {
        memset(c->send, 0xee, (size_t)call.piece);
        ZR_CHECK(pieces[0] == c, ZR_ERR_INTERNAL, "collect has set pieces of a rank that is not the owner");
        return ZR_OK;
    }
    check_dawdle(c->comm, call.round);
    for (int r = 0; r < size; r++) ZR_TRY(check_bytes(pieces[r], r, rank, call.round, call.piece, "collect"));
    ZR_CHECK(pieces[rank] == c->send || call.piece == 0, ZR_ERR_INTERNAL, "the owner's piece is not in send");
    c->expected.bytes[ZR_REDUCE_SCATTER] += (size - 1) * call.piece;
    return ZR_OK;
}

static zr_status check_broadcast(checker *c, check_call call)
{
    bool gives = c->comm->rank == call.owner;
    memset(c->out, 0xee, (size_t)call.piece);
    if (gives) check_fill(c->out, call.owner, -1, call.round, call.piece);
    ZR_TRY(zr_comm_broadcast(c->comm, call.owner, c->out, call.piece));
    if (gives && call.round % 2) {
        memset(c->out, 0xee, (size_t)call.piece); /* a peer that still reads it would see this */
        return ZR_OK;
    }
    check_dawdle(c->comm, call.round);
    ZR_TRY(check_bytes(c->out, call.owner, -1, call.round, call.piece, "broadcast"));
    if (!gives) c->expected.bytes[ZR_ALL_GATHER] += call.piece;
    return ZR_OK;
}

static zr_status check_all_gather(checker *c, check_call call)
{
    int rank = c->comm->rank, size = c->comm->size;
    bool in_place = call.round % 2;
    unsigned char *from = in_place ? c->out + rank * call.stride : c->mine;
    check_fill(from, rank, -1, call.round, call.piece);
    ZR_TRY(zr_comm_all_gather(c->comm, from, c->out, call.stride, call.piece));
    check_dawdle(c->comm, call.round);
    for (int r = 0; r < size; r++)
        ZR_TRY(check_bytes(c->out + r * call.stride, r, -1, call.round, call.piece,
                           in_place ? "all_gather in place" : "all_gather"));
    memset(from, 0xee, (size_t)call.piece); /* a peer that still reads it would see this */
    c->expected.bytes[ZR_ALL_GATHER] += (size - 1) * call.piece;
    return ZR_OK;
}

static zr_status check_scalars(checker *c, check_call call)
{
    double mine[ZR_COMM_SCALARS], all[16 * ZR_COMM_SCALARS];
    int size = c->comm->size, n = 1 + (int)(call.piece + 46) % ZR_COMM_SCALARS;
    for (int i = 0; i < n; i++) mine[i] = c->comm->rank + 1.0 / (call.round + i + 3);
    ZR_TRY(zr_comm_scalars(c->comm, mine, n, all));
    for (int r = 0; r < size; r++)
        for (int i = 0; i < n; i++)
            ZR_CHECK(all[r * n + i] == r + 1.0 / (call.round + i + 3), ZR_ERR_INTERNAL, "scalar %d of rank %d is wrong",
                     i, r);
    c->expected.bytes[ZR_ALL_REDUCE] += (size - 1) * n * 8;
    return ZR_OK;
}

/* Nobody leaves before the last has come; the clock is one for all processes of a host. */
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
    c->expected.bytes[ZR_ALL_REDUCE] += (c->comm->size - 1) * 16;
    return ZR_OK;
}

static zr_status check_consent(checker *c, check_call call)
{
    ZR_TRY(zr_comm_agree(c->comm, ZR_OK));
    return zr_comm_same(c->comm, "round", (uint64_t)call.round << 40);
}

/* As a sequence of rooted calls is used: each rank is the owner in turn. */
static zr_status check_in_turn(checker *c, check_call call)
{
    for (call.owner = 0; call.owner < c->comm->size; call.owner++) ZR_TRY(check_collect(c, call));
    for (call.owner = 0; call.owner < c->comm->size; call.owner++) ZR_TRY(check_broadcast(c, call));
    return ZR_OK;
}

/* All kinds of calls in an order drawn by lot: each follows each, with other sizes and owners. */
static zr_status check_rounds(checker *c)
{
    static zr_status (*const checks[])(checker *, check_call) = {
        check_exchange, check_exchange,  check_exchange_parts, check_exchange_parts, check_collect,
        check_collect,  check_broadcast, check_broadcast,      check_all_gather,     check_all_gather,
        check_scalars,  check_barrier,   check_consent,        check_in_turn,
    };
    c->comm->traffic = (zr_traffic){{0}};
    for (int round = 0; round < CHECK_ROUNDS; round++) {
        check_call call = check_draw(c->comm, round);
        ZR_TRY(checks[call.kind % (int)(sizeof checks / sizeof checks[0])](c, call));
    }
    ZR_CHECK(memcmp(&c->comm->traffic, &c->expected, sizeof c->expected) == 0, ZR_ERR_INTERNAL,
             "traffic is not what the formulas say");
    return ZR_OK;
}

/* Rank 1 fails: it keeps its own message, the others hear it. */
static zr_status check_agree(zr_comm *comm)
{
    if (comm->size < 2) return ZR_OK;
    zr_status mine = comm->rank == 1 ? ZR_FAIL(ZR_ERR_DATA, "token %d is out of range", 77) : ZR_OK;
    zr_status all = zr_comm_agree(comm, mine);
    const char *wanted = comm->rank == 1 ? "token 77 is out of range" : "rank 1: token 77 is out of range";
    ZR_CHECK(all == ZR_ERR_DATA && strcmp(zr_error_message(), wanted) == 0, ZR_ERR_INTERNAL, "agreed on %d, '%s'", all,
             zr_error_message());
    return ZR_OK;
}

/* A text longer than what travels is cut, not lost. */
static zr_status check_long_text(zr_comm *comm)
{
    if (comm->size < 2) return ZR_OK;
    zr_status mine = comm->rank == 1 ? ZR_FAIL(ZR_ERR_DATA, "%0500d", 7) : ZR_OK;
    zr_status all = zr_comm_agree(comm, mine);
    size_t wanted = comm->rank == 1 ? 500 : strlen("rank 1: ") + 8 * ZR_COMM_SCALARS - 1;
    ZR_CHECK(all == ZR_ERR_DATA && strlen(zr_error_message()) == wanted, ZR_ERR_INTERNAL, "agreed on %d, '%s'", all,
             zr_error_message());
    return ZR_OK;
}

/* The last rank holds another number, different in its upper half only. */
static zr_status check_same(zr_comm *comm)
{
    if (comm->size < 2) return ZR_OK;
    char wanted[160];
    int last = comm->size - 1;
    snprintf(
        wanted, sizeof wanted,
        "hash differs between ranks: rank %d not as rank 0 (rank %d has 7ff0000100000001, rank 0 7ff0000000000001)",
        last, last);
    zr_status st = zr_comm_same(comm, "hash", 0x7ff0000000000001u + ((uint64_t)(comm->rank == last) << 32));
    ZR_CHECK(st == ZR_ERR_CONFIG && strstr(zr_error_message(), wanted), ZR_ERR_INTERNAL, "same gave %d, '%s'", st,
             zr_error_message());
    return ZR_OK;
}

static zr_status check_stage(zr_comm *comm, int64_t bytes)
{
    void *stage = NULL;
    ZR_TRY(zr_comm_stage(comm, bytes, &stage));
    ZR_CHECK((stage == NULL) == (bytes == 0) && (uintptr_t)stage % 64 == 0, ZR_ERR_INTERNAL, "staging is not aligned");
    for (int64_t i = 0; i < bytes; i++)
        ZR_CHECK(((unsigned char *)stage)[i] == 0, ZR_ERR_INTERNAL, "staging is not zero");
    return ZR_OK;
}

static zr_status check_refused(zr_status st, const char *wanted)
{
    ZR_CHECK(st == ZR_ERR_ARG && strstr(zr_error_message(), wanted), ZR_ERR_INTERNAL, "wanted '%s', got %d, '%s'",
             wanted, st, zr_error_message());
    return ZR_OK;
}

/* Refused before anything is moved, so ranks that are refused alike stay in step. */
static zr_status check_refusals(checker *c)
{
    enum { N = CHECK_PIECE_MAX };
    zr_comm *comm = c->comm;
    const void *pieces[16];
    double one = 1, all[16];
    zr_comm_part part[2] = {{c->send, 8, 8}, {c->send, N, N}}, none = {NULL, 8, 8},
                 huge = {c->send, INT64_MAX, INT64_MAX};
    zr_comm_part sum[2] = {huge, huge};
    char owner[64];
    snprintf(owner, sizeof owner, "owner %d of %d ranks; 0 to %d", comm->size, comm->size, comm->size - 1);

    ZR_TRY(check_refused(zr_comm_collect(comm, comm->size, c->send, 8, pieces), owner));
    ZR_TRY(check_refused(zr_comm_collect(comm, -1, c->send, 8, pieces), "owner -1 of"));
    ZR_TRY(check_refused(zr_comm_broadcast(comm, comm->size, c->send, 8), owner));
    ZR_TRY(check_refused(zr_comm_broadcast(comm, -1, c->send, 8), "owner -1 of"));
    ZR_TRY(check_refused(zr_comm_collect(comm, 0, c->send, -1, pieces), "a piece of -1 bytes"));
    ZR_TRY(check_refused(zr_comm_broadcast(comm, 0, c->send, -1), "a piece of -1 bytes"));
    ZR_TRY(check_refused(zr_comm_all_gather(comm, c->send, c->out, 64, -1), "a piece of -1 bytes"));
    ZR_TRY(check_refused(zr_comm_collect(comm, comm->rank, c->send, 8, NULL), "zr_comm_collect was given a NULL"));
    ZR_TRY(check_refused(zr_comm_broadcast(comm, 0, NULL, 8), "zr_comm_broadcast was given a NULL"));
    ZR_TRY(check_refused(zr_comm_exchange_parts(comm, part, 0, pieces), "an exchange of 0 parts"));
    ZR_TRY(check_refused(zr_comm_exchange_parts(comm, &none, 1, pieces), "part 0 of an exchange is NULL"));
    ZR_TRY(check_refused(zr_comm_exchange_parts(comm, part, 2, pieces), "do not fit into"));
    ZR_TRY(check_refused(zr_comm_exchange_parts(comm, sum, 2, pieces), "beyond 2^63"));
    ZR_TRY(check_refused(zr_comm_scalars(comm, &one, ZR_COMM_SCALARS + 1, all), "49 scalars in one call; 1 to 48"));
    ZR_TRY(check_refused(zr_comm_scalars(comm, &one, 0, all), "0 scalars in one call"));
    if (comm->size == 1) return ZR_OK;
    ZR_TRY(check_refused(zr_comm_exchange(comm, c->send, 8, 9, pieces), "pieces of 9 bytes at a stride of 8"));
    ZR_TRY(check_refused(zr_comm_exchange(comm, c->send, N + 64, N + 1, pieces), "call zr_comm_stage with more"));
    ZR_TRY(check_refused(zr_comm_collect(comm, 0, c->send, N + 1, pieces), "call zr_comm_stage with more"));
    ZR_TRY(check_refused(zr_comm_broadcast(comm, 0, c->send, comm->size * N + 1), "call zr_comm_stage with more"));
    return ZR_OK;
}

static zr_status check_all(checker *c)
{
    zr_comm *comm = c->comm;
    check_call large = {.round = 1, .owner = comm->size - 1, .piece = CHECK_PIECE_MAX, .stride = CHECK_PIECE_MAX};
    ZR_TRY(check_stage(comm, 4096));
    ZR_TRY(check_stage(comm, (int64_t)comm->size * CHECK_PIECE_MAX));
    ZR_TRY(check_rounds(c));
    ZR_TRY(check_refusals(c));
    /* Renewed while peers may still be reading what the last call has lent. */
    ZR_TRY(check_exchange(c, large));
    ZR_TRY(check_stage(comm, 0));
    ZR_TRY(check_stage(comm, (int64_t)comm->size * CHECK_PIECE_MAX));
    ZR_TRY(check_collect(c, large));
    ZR_TRY(check_stage(comm, (int64_t)comm->size * CHECK_PIECE_MAX));
    ZR_TRY(check_exchange_parts(c, large));
    ZR_TRY(check_agree(comm));
    ZR_TRY(check_long_text(comm));
    ZR_TRY(check_same(comm));
    return ZR_OK;
}

static zr_status check_comm(zr_comm *comm, void *unused)
{
    (void)unused;
    size_t bytes = (size_t)comm->size * (CHECK_PIECE_MAX + 64);
    checker c = {.comm = comm, .send = zr_alloc(bytes), .mine = zr_alloc(bytes), .out = zr_alloc(bytes)};
    zr_status st = c.send && c.mine && c.out ? check_all(&c) : ZR_ERR_MEMORY;
    zr_free(c.out);
    zr_free(c.mine);
    zr_free(c.send);
    return st;
}

#endif
