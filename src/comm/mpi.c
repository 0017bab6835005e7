/**
 * Moves bytes between ranks that are processes, by MPI-3.1. mpi_window.c manages the shared memory. mpi_create.c
 * creates and destroys communicators. mpi_channel.c has the channels. Of all files, only these four include mpi.h.
 *
 * Ranks of a node read each other's staging through a shared window. Ranks of other nodes ("remote" ranks) get
 * point-to-point messages. Pieces are moved in chunks. Successive chunks alternate between the two halves of the
 * staging, also from one call to the next. The halves form a pipeline: while the receivers read chunk c, the messages
 * of chunk c+1 are in flight, and chunk c+1 is written to the node's staging.
 *
 * Each chunk has one barrier of the node. A rank that has passed the barrier of chunk c knows that all ranks have read
 * chunk c-1. Therefore chunk c+1 may overwrite chunk c-1.
 *
 * A wait inside MPI occupies a core. There may be more ranks than cores, so waits in this file poll MPI and yield the
 * core. If one node holds the whole world, barriers of the world and of all groups sleep instead.
 */
#include "base/core/core.h"
#include "comm/mpi_comm.h"

#include <string.h>

#define PIECE_TAG 1

/* ---- errors and waits ------------------------------------------------------------------------ */

zr_status zr__mpi_fail(int code, const char *call, zr_status status)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    return ZR_FAIL(status, "%.*s: %s", (int)strcspn(call, "("), call, text);
}

/* If another thread of this rank computes, sleep briefly to leave the core to it. Bytes that arrive during the sleep
 * (12 KB at 1 Gbit/s) wait in the sockets' buffers. */
void zr__mpi_relax(const zr__comm_mpi *me, int polls)
{
    if (!me->world->comm.concurrent)
        zr__comm_relax(polls);
    else if (polls >= 100 && polls % 4 == 0)
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

static zr_status check_cancelled(zr__comm_mpi *me)
{
    ZR_CHECK(!zr__mpi_is_alone(me), ZR_ERR_PEER, "rank %d was stopped", zr__comm_name(&me->comm));
    return ZR_OK;
}

/* Return the error code of the request that failed. `code` is the result of MPI_Testall. */
static int first_error(const zr__comm_mpi *me, int code, int n)
{
    for (int i = 0; code == MPI_ERR_IN_STATUS && i < n; i++) {
        int error = me->statuses[i].MPI_ERROR;
        if (error != MPI_SUCCESS && error != MPI_ERR_PENDING) code = error;
    }
    return code;
}

/* Write to the board the number of a rank whose message has not arrived yet. Other ranks can then find out why the job
 * hangs. */
static void show_awaited(zr__comm_mpi *me, int n, const MPI_Request *request, const int *peer)
{
    int done = 1, i = 0;
    if (!peer) {
        zr__comm_late(me);
        return;
    }
    zr__mpi_enter(me);
    for (; i < n; i++)
        if (MPI_Request_get_status(request[i], &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) break;
    zr__mpi_leave(me);
    uint64_t awaited = done ? 0 : 1 + (uint64_t)me->comm.world_ranks[peer[i]];
    __atomic_store_n(&me->comm.board->awaited, awaited, __ATOMIC_RELAXED);
}

static zr_status poll_all(zr__comm_mpi *me, int n, MPI_Request *request, const int *peer)
{
    /* Number of polls between two readings of the clock. A poll takes microseconds, but on a busy machine it takes
     * milliseconds. */
    enum { CLOCK_POLLS = 128 };
    const double long_sec = 0.25;
    double shown_sec = zr_clock_sec();
    int done = 0;
    for (int polls = 0; !done; polls++) {
        ZR_TRY(check_cancelled(me));
        zr__mpi_enter(me);
        int code = MPI_Testall(n, request, &done, me->statuses);
        zr__mpi_leave(me);
        if (code != MPI_SUCCESS) atomic_store(&me->cancelled, true);
        if (code != MPI_SUCCESS) return zr__mpi_fail(first_error(me, code, n), "MPI_Testall", ZR_ERR_COMM);
        if (!done) zr__mpi_relax(me, polls);
        if (done || polls % CLOCK_POLLS != CLOCK_POLLS - 1 || zr_clock_sec() < shown_sec + long_sec) continue;
        show_awaited(me, n, request, peer);
        shown_sec = zr_clock_sec();
    }
    return ZR_OK;
}

zr_status zr__mpi_finish(zr__comm_mpi *me, int n, MPI_Request *request, const int *peer)
{
    zr__comm_wait(&me->comm);
    zr_status st = poll_all(me, n, request, peer);
    zr__comm_wait(&me->comm);
    return st;
}

zr_status zr__mpi_poll(zr_comm *comm, bool progress)
{
    zr__comm_mpi *me = (zr__comm_mpi *)comm;
    int there;
    ZR_TRY(check_cancelled(me));
    if (progress && zr__mpi_has_remote(me->world))
        ZR__TRY_MPI_TURN(me, MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, me->all, &there, MPI_STATUS_IGNORE));
    return ZR_OK;
}

static zr_status meet_ranks(zr__comm_mpi *me, MPI_Comm ranks)
{
    MPI_Request request;
    ZR__TRY_MPI_TURN(me, MPI_Ibarrier(ranks, &request));
    return zr__mpi_finish(me, 1, &request, NULL);
}

/* Wait until every rank of this node has arrived. Make the bytes that these ranks wrote to the windows visible. If the
 * world has remote ranks, poll MPI while waiting. Otherwise a remote rank could wait forever for a message that MPI has
 * not sent yet. */
static zr_status meet_node(zr__comm_mpi *me)
{
    if (me->node_size == 1) return ZR_OK;
    if (me->staging_window != MPI_WIN_NULL) ZR__TRY_MPI_TURN(me, MPI_Win_sync(me->staging_window));
    if (me->barrier) {
        zr__comm_wait(&me->comm);
        /* A result of 0 or more is a cancelled rank, because only cancelled ranks leave this barrier. */
        int cancelled = zr__barrier_wait(me->barrier, zr__comm_late, me) - 1;
        zr__comm_wait(&me->comm);
        if (cancelled >= 0) atomic_store(&me->cancelled, true);
        ZR_CHECK(cancelled < 0, ZR_ERR_PEER, "rank %d was stopped", me->comm.world_ranks[cancelled]);
    } else {
        ZR_TRY(meet_ranks(me, me->node));
    }
    if (me->staging_window != MPI_WIN_NULL) ZR__TRY_MPI_TURN(me, MPI_Win_sync(me->staging_window));
    return ZR_OK;
}

/* ---- moving bytes ---------------------------------------------------------------------------- */

/* A transfer of pieces in chunks. Each half of the staging has a slot for every rank. In an exchange, slot r holds the
 * bytes for rank r of this node, or the bytes received from remote rank r. In a gather, this rank's own slot holds the
 * bytes that ranks of this node copy; messages are received directly into `out`. No message is ever received into a
 * rank's own slot. Therefore the next call cannot overwrite the slot while peers still read it. */
typedef struct move {
    const unsigned char *send;
    int64_t send_stride;
    unsigned char *out;
    int64_t out_stride;
    int64_t slot_stride, piece_bytes, chunk_bytes;
    zr_comm_arrived_fn fn; /* callback for received pieces; NULL in a gather */
    void *arg;
} move;

/* One chunk of a transfer: `bytes` bytes of every piece, from byte `at` of the piece on. */
typedef struct chunk {
    int64_t at, bytes;
    int64_t half; /* offset of this chunk's half of the staging, in bytes */
    zr__flight *flight;
} chunk;

static int64_t half_bytes(const zr__comm_mpi *me)
{
    return zr__comm_floor_aligned(me->staging_bytes / 2);
}

static int64_t at_most(int64_t bytes, int64_t limit)
{
    return bytes < limit ? bytes : limit;
}

static bool is_node_peer(const zr__comm_mpi *me, int r)
{
    return r != me->comm.rank && me->node_rank[r] >= 0;
}

/* Count `bytes` received of a peer's piece as traffic. */
static void count_received(zr__comm_mpi *me, const move *m, int64_t bytes)
{
    zr__traffic_count(&me->comm.traffic, m->out ? ZR_TRAFFIC_ALL_GATHER : ZR_TRAFFIC_REDUCE_SCATTER, bytes);
}

/* Start all sends, or all receives, of a chunk. Callers start the sends first, because of the rendezvous protocol over
 * TCP: a receiver's clear-to-send for a long message travels in the same stream as data. If receives were started
 * first, a peer would get this rank's clear-to-send early, and send all its data before its own clear-to-send. The link
 * would then carry one direction after the other. */
static zr_status start_messages(zr__comm_mpi *me, const move *m, const chunk *c, bool sending)
{
    zr__flight *f = c->flight;
    for (int i = 1; i < me->comm.size; i++) {
        /* Begin with the next rank. Otherwise all ranks would send to the same rank at once. */
        int r = (me->comm.rank + i) % me->comm.size, bytes = (int)c->bytes;
        if (me->node_rank[r] >= 0) continue;
        const unsigned char *piece = m->send + r * m->send_stride + c->at;
        unsigned char *slot = me->staging + c->half + r * m->slot_stride,
                      *into = m->out ? m->out + r * m->out_stride + c->at : slot;
        f->peer[f->n] = r;
        MPI_Request *request = &f->request[f->n++];
        ZR__TRY_MPI_TURN(me, sending ? MPI_Isend(piece, bytes, MPI_BYTE, r, PIECE_TAG, me->all, request)
                                     : MPI_Irecv(into, bytes, MPI_BYTE, r, PIECE_TAG, me->all, request));
        if (!sending) count_received(me, m, bytes);
    }
    return ZR_OK;
}

/* Copy into this rank's staging the bytes of a chunk that other ranks of this node will read. */
static void fill_staging(zr__comm_mpi *me, const move *m, const chunk *c)
{
    int rank = me->comm.rank;
    unsigned char *half = me->staging + c->half;
    if (me->node_size == 1) return;
    if (m->out) memcpy(half + rank * m->slot_stride, m->send + c->at, (size_t)c->bytes);
    for (int r = 0; r < me->comm.size && !m->out; r++)
        if (is_node_peer(me, r))
            memcpy(half + r * m->slot_stride, m->send + r * m->send_stride + c->at, (size_t)c->bytes);
}

static void take_gathered(zr__comm_mpi *me, const move *m, const chunk *c)
{
    for (int r = 0; r < me->comm.size; r++) {
        if (!is_node_peer(me, r)) continue;
        zr__comm_copy(&me->comm, m->out + r * m->out_stride + c->at, me->stagings[r] + c->half + r * m->slot_stride,
                      c->bytes, m->piece_bytes);
        count_received(me, m, c->bytes);
    }
    zr__comm_copy(&me->comm, m->out + me->comm.rank * m->out_stride + c->at, m->send + c->at, c->bytes, m->piece_bytes);
    zr__comm_copied(&me->comm);
}

static void take_exchanged(zr__comm_mpi *me, const move *m, const chunk *c)
{
    int rank = me->comm.rank;
    for (int r = 0; r < me->comm.size; r++) {
        me->comm.pieces[r] = is_node_peer(me, r) ? me->stagings[r] + c->half + rank * m->slot_stride
                                                 : me->staging + c->half + r * m->slot_stride;
        if (is_node_peer(me, r)) count_received(me, m, c->bytes); /* messages were counted when they were started */
    }
    me->comm.pieces[rank] = m->send + rank * m->send_stride + c->at;
    (void)m->fn(m->arg, c->at, c->bytes, me->comm.pieces); /* the callback never fails, see transport.h */
}

/* Return the chunk that begins at byte `at`. Chunks use the two halves of the staging in turn. After the last chunk,
 * return a chunk of 0 bytes. */
static chunk next_chunk(zr__comm_mpi *me, const move *m, int64_t at)
{
    int64_t left = m->piece_bytes - at;
    chunk c = {.at = at, .bytes = at_most(left, m->chunk_bytes)};
    c.half = me->half * half_bytes(me);
    c.flight = &me->flight[me->half];
    if (left > 0) me->half ^= 1;
    return c;
}

static zr_status move_pieces(zr__comm_mpi *me, const move *m)
{
    ZR_TRY(check_cancelled(me));
    if (m->piece_bytes == 0) return ZR_OK;
    chunk now = next_chunk(me, m, 0);
    ZR_TRY(start_messages(me, m, &now, true));
    fill_staging(me, m, &now);
    for (chunk next; now.bytes > 0; now = next) {
        /* Send the next chunk while waiting for the messages of the current chunk, so that the link is never idle. */
        next = next_chunk(me, m, now.at + now.bytes);
        if (next.bytes > 0) ZR_TRY(start_messages(me, m, &next, true));
        if (now.at == 0) ZR_TRY(start_messages(me, m, &now, false));
        if (next.bytes > 0) ZR_TRY(start_messages(me, m, &next, false));
        ZR_TRY(zr__mpi_finish(me, now.flight->n, now.flight->request, now.flight->peer));
        now.flight->n = 0;
        ZR_TRY(meet_node(me));
        if (next.bytes > 0) fill_staging(me, m, &next);
        if (m->out)
            take_gathered(me, m, &now);
        else
            take_exchanged(me, m, &now);
    }
    return ZR_OK;
}

zr_status zr__mpi_exchange(zr_comm *comm, const void *send, int64_t stride_bytes, int64_t piece_bytes,
                           int64_t grain_bytes, zr_comm_arrived_fn fn, void *arg)
{
    zr__comm_mpi *me = (zr__comm_mpi *)comm;
    if (me->nccl && zr__nccl_takes(me->nccl, send))
        return zr__nccl_exchange(me->nccl, send, stride_bytes, piece_bytes, grain_bytes, fn, arg);
    int64_t slot = zr__comm_slot(me->staging_bytes, comm->size), chunk_bytes;
    ZR_TRY(zr__comm_chunk(comm, zr__mpi_has_remote(me) ? at_most(slot, me->chunk_bytes) : slot, grain_bytes,
                          &chunk_bytes));
    return move_pieces(me, &(move){.send = send,
                                   .send_stride = stride_bytes,
                                   .slot_stride = slot,
                                   .piece_bytes = piece_bytes,
                                   .chunk_bytes = chunk_bytes,
                                   .fn = fn,
                                   .arg = arg});
}

/* Gather pieces. Ranks of this node read a copy of `mine` in the staging, since `mine` may change after the call.
 * Without remote ranks the staging needs no slots, so a chunk of the copy may fill a whole half. */
zr_status zr__mpi_gather(zr_comm *comm, const void *mine, void *out, int64_t stride_bytes, int64_t piece_bytes)
{
    zr__comm_mpi *me = (zr__comm_mpi *)comm;
    if (me->nccl && zr__nccl_takes(me->nccl, out))
        return zr__nccl_gather(me->nccl, mine, out, stride_bytes, piece_bytes);
    const int64_t slot = zr__comm_slot(me->staging_bytes, comm->size);
    return move_pieces(
        me, &(move){.send = mine,
                    .out = out,
                    .out_stride = stride_bytes,
                    .slot_stride = zr__mpi_has_remote(me) ? slot : 0,
                    .piece_bytes = piece_bytes,
                    .chunk_bytes = zr__mpi_has_remote(me) ? at_most(slot, me->chunk_bytes) : half_bytes(me)});
}

zr_status zr__mpi_reduce_scatter(zr_comm *comm, void *data, zr_dtype dtype, int64_t piece_elems)
{
    zr__comm_mpi *me = (zr__comm_mpi *)comm;
    ZR_CHECK(me->nccl && zr__nccl_takes(me->nccl, data), ZR_ERR_UNSUPPORTED,
             "a reduce-scatter by NCCL of memory that is not the GPU's of this rank; exchange it and add");
    ZR_TRY(zr__nccl_reduce_scatter(me->nccl, data, dtype, piece_elems));
    return ZR_OK;
}

/* Return the first failure of NCCL in a communicator or in those split off it. */
static zr_status nccl_failure(const zr__comm_mpi *me)
{
    zr_status st = me->nccl ? zr__nccl_failure(me->nccl) : ZR_OK;
    if (st == ZR_OK) st = zr__nccl_lines_failure(me->lines);
    for (const zr__comm_mpi *part = me->parts; part && st == ZR_OK; part = part->sibling) st = nccl_failure(part);
    return st;
}

/* Check that NCCL has not failed: numbers that follow from its work would be wrong. */
static zr_status check_nccl(zr__comm_mpi *me)
{
    pthread_mutex_lock(&me->world->lock);
    const zr_status st = nccl_failure(me->world);
    pthread_mutex_unlock(&me->world->lock);
    return st == ZR_OK ? ZR_OK : zr_error_frame(st, __func__, __FILE__, __LINE__);
}

/* Exchange numbers as bytes. MPI must not convert the bytes as numbers, because zr_comm_agree sends text by this
 * function. */
zr_status zr__mpi_scalars(zr_comm *comm, const double *mine, int n)
{
    zr__comm_mpi *me = (zr__comm_mpi *)comm;
    int bytes = n * (int)sizeof *mine;
    double *sent = me->scalars, *received = me->scalars + ZR_COMM_SCALARS;
    MPI_Request request;
    ZR_TRY(check_cancelled(me));
    ZR_TRY(check_nccl(me));
    memcpy(sent, mine, (size_t)bytes);
    me->unfinished = true; /* stays true if the wait fails, since a collective call cannot be cancelled */
    ZR__TRY_MPI_TURN(me, MPI_Iallgather(sent, bytes, MPI_BYTE, received, bytes, MPI_BYTE, me->all, &request));
    ZR_TRY(zr__mpi_finish(me, 1, &request, NULL));
    me->unfinished = false;
    comm->table = received;
    return ZR_OK;
}

zr_status zr__mpi_barrier(zr_comm *comm)
{
    zr__comm_mpi *me = (zr__comm_mpi *)comm;
    ZR_TRY(check_cancelled(me));
    return me->barrier ? meet_node(me) : meet_ranks(me, me->all);
}
