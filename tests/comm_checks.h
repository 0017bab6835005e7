/* What every transport must do, as one function over a communicator: the tests of each transport
 * run it on their own ranks. A failed check is a failed status with its message. */
#ifndef COMM_CHECKS_H
#define COMM_CHECKS_H

#include "zr/comm.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

enum { CHECK_PIECE_MAX = 20011, CHECK_ROUNDS = 60 };

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

static int64_t check_piece(int round)
{
    static const int64_t pieces[] = {0, 1, 7, 64, 1000, 4097, CHECK_PIECE_MAX};
    return pieces[round % 7];
}

/* One rank a round reads late, while its peers hurry into the next call. */
static void check_dawdle(const zr_comm *comm, int round)
{
    for (int i = 0; (round + comm->rank) % comm->size == 0 && i < 50; i++) sched_yield();
}

static zr_status check_exchange(zr_comm *comm, unsigned char *send, int round)
{
    const void *pieces[16];
    int64_t piece = check_piece(round), stride = piece + round % 3 * 13;
    for (int r = 0; r < comm->size; r++) check_fill(send + r * stride, comm->rank, r, round, piece);
    ZR_TRY(zr_comm_exchange(comm, send, stride, piece, pieces));
    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank) memset(send + r * stride, 0xee, (size_t)piece);
    check_dawdle(comm, round);
    for (int r = 0; r < comm->size; r++) ZR_TRY(check_bytes(pieces[r], r, comm->rank, round, piece, "exchange"));
    ZR_CHECK(pieces[comm->rank] == send + comm->rank * stride || piece == 0, ZR_ERR_INTERNAL,
             "the own piece is not in send");
    return ZR_OK;
}

static zr_status check_all_gather(zr_comm *comm, unsigned char *mine, unsigned char *out, int round)
{
    int64_t piece = check_piece(round), stride = piece + round % 3 * 13;
    bool in_place = round % 2;
    unsigned char *from = in_place ? out + comm->rank * stride : mine;
    check_fill(from, comm->rank, -1, round, piece);
    ZR_TRY(zr_comm_all_gather(comm, from, out, stride, piece));
    check_dawdle(comm, round);
    for (int r = 0; r < comm->size; r++)
        ZR_TRY(check_bytes(out + r * stride, r, -1, round, piece, in_place ? "all_gather in place" : "all_gather"));
    memset(from, 0xee, (size_t)piece); /* a peer that still reads it would see this */
    return ZR_OK;
}

static zr_status check_scalars(zr_comm *comm, int round)
{
    double mine[ZR_COMM_SCALARS], all[16 * ZR_COMM_SCALARS];
    int n = 1 + round % ZR_COMM_SCALARS;
    for (int i = 0; i < n; i++) mine[i] = comm->rank + 1.0 / (round + i + 3);
    ZR_TRY(zr_comm_scalars(comm, mine, n, all));
    for (int r = 0; r < comm->size; r++)
        for (int i = 0; i < n; i++)
            ZR_CHECK(all[r * n + i] == r + 1.0 / (round + i + 3), ZR_ERR_INTERNAL, "scalar %d of rank %d is wrong", i,
                     r);
    return ZR_OK;
}

/* Nobody leaves before the last has come; the clock is one for all processes of a host. */
static zr_status check_barrier(zr_comm *comm, int round)
{
    double times[2], all[32];
    check_dawdle(comm, round);
    times[0] = zr_clock_sec();
    ZR_TRY(zr_comm_barrier(comm));
    times[1] = zr_clock_sec();
    ZR_TRY(zr_comm_scalars(comm, times, 2, all));
    for (int r = 0; r < comm->size; r++)
        ZR_CHECK(all[2 * r] <= times[1], ZR_ERR_INTERNAL, "left a barrier before rank %d had come", r);
    return ZR_OK;
}

static zr_status check_rounds(zr_comm *comm, unsigned char *send, unsigned char *mine, unsigned char *out)
{
    int64_t exchanged = 0, gathered = 0, reduced = 0, peers = comm->size - 1;
    comm->traffic = (zr_traffic){{0}};
    for (int round = 0; round < CHECK_ROUNDS; round++) {
        ZR_TRY(check_exchange(comm, send, round));
        if (round % 4 != 1) {
            /* Of another size, so that its staging overlaps what the exchange has lent. */
            ZR_TRY(check_all_gather(comm, mine, out, round + 6));
            gathered += peers * check_piece(round + 6);
        }
        /* Back to back, too: the second overwrites what the first has lent. */
        ZR_TRY(check_exchange(comm, send, round + 5));
        exchanged += peers * (check_piece(round) + check_piece(round + 5));
        if (round % 3 == 0) {
            ZR_TRY(check_scalars(comm, round));
            ZR_TRY(check_scalars(comm, round + 1));
            reduced += peers * 8 * (2 + round % ZR_COMM_SCALARS + (round + 1) % ZR_COMM_SCALARS);
        }
        if (round % 5 == 0) {
            ZR_TRY(check_barrier(comm, round));
            reduced += peers * 16;
        }
        ZR_TRY(zr_comm_agree(comm, ZR_OK));
        ZR_TRY(zr_comm_same(comm, "round", (uint64_t)round << 40));
    }
    ZR_CHECK(comm->traffic.bytes[ZR_REDUCE_SCATTER] == exchanged && comm->traffic.bytes[ZR_ALL_GATHER] == gathered &&
                 comm->traffic.bytes[ZR_ALL_REDUCE] == reduced,
             ZR_ERR_INTERNAL, "traffic is not what the formulas say");
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

static zr_status check_refusals(zr_comm *comm, unsigned char *send, unsigned char *out)
{
    const void *pieces[16];
    double one = 1, all[16];
    if (comm->size == 1) return ZR_OK;
    bool refused = zr_comm_exchange(comm, send, 8, CHECK_PIECE_MAX + 1, pieces) == ZR_ERR_ARG &&
                   zr_comm_exchange(comm, send, 1 << 20, CHECK_PIECE_MAX + 64, pieces) == ZR_ERR_ARG &&
                   zr_comm_all_gather(comm, send, out, 64, -1) == ZR_ERR_ARG &&
                   zr_comm_scalars(comm, &one, ZR_COMM_SCALARS + 1, all) == ZR_ERR_ARG &&
                   zr_comm_scalars(comm, &one, 0, all) == ZR_ERR_ARG;
    ZR_CHECK(refused, ZR_ERR_INTERNAL, "bad arguments were accepted");
    return ZR_OK;
}

static zr_status check_all(zr_comm *comm, unsigned char *send, unsigned char *mine, unsigned char *out)
{
    ZR_TRY(check_stage(comm, 4096));
    ZR_TRY(check_stage(comm, (int64_t)comm->size * CHECK_PIECE_MAX));
    ZR_TRY(check_rounds(comm, send, mine, out));
    ZR_TRY(check_refusals(comm, send, out));
    /* Renewed while peers may still be reading what the last exchange has lent. */
    ZR_TRY(check_exchange(comm, send, 6));
    ZR_TRY(check_stage(comm, 0));
    ZR_TRY(check_stage(comm, (int64_t)comm->size * CHECK_PIECE_MAX));
    ZR_TRY(check_exchange(comm, send, 6));
    ZR_TRY(check_agree(comm));
    ZR_TRY(check_same(comm));
    return ZR_OK;
}

static zr_status check_comm(zr_comm *comm, void *unused)
{
    (void)unused;
    size_t bytes = (size_t)comm->size * (CHECK_PIECE_MAX + 64);
    unsigned char *send = zr_alloc(bytes), *mine = zr_alloc(bytes), *out = zr_alloc(bytes);
    zr_status st = send && mine && out ? check_all(comm, send, mine, out) : ZR_ERR_MEMORY;
    zr_free(out);
    zr_free(mine);
    zr_free(send);
    return st;
}

#endif
