/**
 * Ranks as processes under MPI-3.1; the only file that knows mpi.h.
 *
 * Ranks of a node read each other's staging through a shared window; all others ("remote") are
 * sent to, point to point. Pieces go in chunks, each through one half of the staging, by turns
 * over all calls:
 *
 *     chunk c+1    sent and received for, and filled in for the node, while
 *     chunk c      is read by its receivers
 *
 * with one meeting of the node for each chunk. Whoever has met the node for chunk c knows that
 * all have read chunk c-1, whose half c+1 takes.
 *
 * MPI's own waits burn a core each. Ranks may outnumber cores, so waits here poll and yield, and
 * where a node holds the whole world its barrier sleeps.
 */
#include "comm/barrier.h"
#include "comm/mpi_create.h"
#include "comm/transport.h"

#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define ALIGN_BYTES 64
#define CHUNK_BYTES ((int64_t)1 << 20)     /* long beside a round trip, short beside what waits for the first one */
#define CHUNK_BYTES_MAX ((int64_t)1 << 30) /* MPI-3.1 counts are int */
#define PIECE_TAG 1

/* What is on its way for one chunk. */
typedef struct flight {
    MPI_Request *request; /* (2 * size) */
    int n;
} flight;

typedef struct comm_mpi {
    zr_comm comm;
    MPI_Comm world, node; /* node: the ranks that share a window with this one */
    int node_size;
    int *node_rank; /* (size): a rank's number in my node, -1 when remote */
    flight flight[2];
    MPI_Status *statuses; /* (2 * size) */
    double *scalars;      /* (1 + size, ZR_COMM_SCALARS): this rank's, then everyone's */
    bool unfinished;      /* a collective of MPI's that was stopped may still come into `scalars` */
    int64_t chunk_bytes;  /* the longest message */
    MPI_Win barrier_window;
    zr__barrier *barrier;   /* NULL when there are remote ranks */
    MPI_Win stage_window;   /* MPI_WIN_NULL when the node is this rank alone */
    unsigned char **stages; /* (size): node peers' staging as this process sees it */
    int half;               /* of the staging, which the next chunk takes; equal on all ranks */
    _Atomic bool cancelled;
} comm_mpi;

/* ---- errors and waits ------------------------------------------------------------------------ */

static zr_status fail_mpi(int code, const char *call, zr_status status)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    return ZR_FAIL(status, "%.*s: %s", (int)strcspn(call, "("), call, text);
}

#define TRY_MPI(call)                                                                                                  \
    do {                                                                                                               \
        int code_ = (call);                                                                                            \
        if (code_ != MPI_SUCCESS) ZR_TRY(fail_mpi(code_, #call, ZR_ERR_COMM));                                         \
    } while (0)

/* On a thread beside the computing one a wait must leave that one its core. What a link brings during a nap
 * (1 Gbit/s: 12 KB) waits in the sockets' buffers. */
static void relax(const comm_mpi *me, int polls)
{
    if (me->comm.concurrent) {
        if (polls >= 100 && polls % 4 == 0) nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    } else if (polls >= 4000) {
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    } else if (polls >= 100) {
        sched_yield();
    }
}

static zr_status check_cancelled(comm_mpi *me)
{
    ZR_CHECK(!atomic_load_explicit(&me->cancelled, memory_order_relaxed), ZR_ERR_PEER, "rank %d was stopped",
             me->comm.rank);
    return ZR_OK;
}

/* A call of MPI_Testall that failed, by the first request that did. */
static int first_error(const comm_mpi *me, int code, int n)
{
    for (int i = 0; code == MPI_ERR_IN_STATUS && i < n; i++) {
        int error = me->statuses[i].MPI_ERROR;
        if (error != MPI_SUCCESS && error != MPI_ERR_PENDING) code = error;
    }
    return code;
}

static zr_status finish(comm_mpi *me, int n, MPI_Request *request)
{
    int done = 0;
    for (int polls = 0; !done; polls++) {
        ZR_TRY(check_cancelled(me));
        int code = MPI_Testall(n, request, &done, me->statuses);
        if (code != MPI_SUCCESS) return fail_mpi(first_error(me, code, n), "MPI_Testall", ZR_ERR_COMM);
        if (!done) relax(me, polls);
    }
    return ZR_OK;
}

/* Every rank of my node has come, and sees what the others have written into the windows. Where
 * there are remote ranks, MPI must be polled meanwhile: a peer may wait for what MPI has yet to send. */
static zr_status meet_node(comm_mpi *me)
{
    if (me->node_size == 1) return ZR_OK;
    if (me->stage_window != MPI_WIN_NULL) TRY_MPI(MPI_Win_sync(me->stage_window));
    if (me->barrier) {
        int leaver = zr__barrier_wait(me->barrier) - 1; /* only a cancelled rank leaves */
        ZR_CHECK(leaver < 0, ZR_ERR_PEER, "rank %d was stopped", leaver);
    } else {
        MPI_Request request;
        TRY_MPI(MPI_Ibarrier(me->node, &request));
        ZR_TRY(finish(me, 1, &request));
    }
    if (me->stage_window != MPI_WIN_NULL) TRY_MPI(MPI_Win_sync(me->stage_window));
    return ZR_OK;
}

/* ---- windows --------------------------------------------------------------------------------- */

/* Rank r's part of a window. A mapping starts on a page, so rounding up gives the same place in
 * every process. */
static zr_status window_part(MPI_Win window, int r, unsigned char **part)
{
    MPI_Aint bytes = 0;
    int unit = 0;
    void *base = NULL;
    TRY_MPI(MPI_Win_shared_query(window, r, &bytes, &unit, &base));
    *part = (unsigned char *)base + (-(uintptr_t)base & (ALIGN_BYTES - 1));
    return ZR_OK;
}

static zr_status open_window(MPI_Comm node, int64_t bytes, MPI_Win *window)
{
    MPI_Info info = MPI_INFO_NULL;
    void *base = NULL;
    TRY_MPI(MPI_Info_create(&info));
    MPI_Info_set(info, "alloc_shared_noncontig", "true"); /* a hint: pages near the rank that touches them */
    MPI_Aint room = (MPI_Aint)((bytes + 2 * ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES);
    int code = MPI_Win_allocate_shared(room, 1, info, node, &base, window);
    MPI_Info_free(&info);
    if (code != MPI_SUCCESS) {
        *window = MPI_WIN_NULL;
        return fail_mpi(code, "MPI_Win_allocate_shared", ZR_ERR_MEMORY);
    }
    TRY_MPI(MPI_Win_set_errhandler(*window, MPI_ERRORS_RETURN));
    /* MPI_Win_sync is allowed within such an epoch only. */
    TRY_MPI(MPI_Win_lock_all(MPI_MODE_NOCHECK, *window));
    return ZR_OK;
}

/* What rank r's part of `wanted` bytes has taken, without the room for its alignment and the rest of its last page,
 * which some MPIs count. */
static zr_status window_bytes(MPI_Win window, int r, int64_t wanted, int64_t *taken)
{
    const int64_t page = sysconf(_SC_PAGESIZE);
    MPI_Aint bytes = 0;
    int unit = 0;
    void *base = NULL;
    TRY_MPI(MPI_Win_shared_query(window, r, &bytes, &unit, &base));
    *taken = (int64_t)bytes - ALIGN_BYTES;
    if (*taken > wanted && *taken - wanted < page) *taken = wanted;
    return ZR_OK;
}

static void close_window(MPI_Win *window)
{
    if (*window == MPI_WIN_NULL) return;
    MPI_Win_unlock_all(*window);
    MPI_Win_free(window);
}

static zr_status open_barrier(comm_mpi *me)
{
    unsigned char *memory = NULL;
    ZR_TRY(open_window(me->node, sizeof(zr__barrier), &me->barrier_window));
    ZR_TRY(window_part(me->barrier_window, 0, &memory));
    if (me->node_rank[me->comm.rank] == 0) zr__barrier_init((zr__barrier *)memory, me->node_size);
    TRY_MPI(MPI_Win_sync(me->barrier_window));
    TRY_MPI(MPI_Barrier(me->node));
    TRY_MPI(MPI_Win_sync(me->barrier_window));
    me->barrier = (zr__barrier *)memory;
    return ZR_OK;
}

/* Windows lie in /dev/shm, which containers often limit to 64 MiB; past its end there is no error
 * but a SIGBUS. All of the node answer alike, so that none waits for another in the allocation. */
static zr_status check_shared_room(comm_mpi *me, int64_t bytes)
{
    struct statvfs shm;
    int64_t room = statvfs("/dev/shm", &shm) == 0 ? (int64_t)(shm.f_bavail * shm.f_frsize) : INT64_MAX;
    int fits = bytes <= room / me->node_size, all_fit = 0;
    MPI_Request request;
    TRY_MPI(MPI_Iallreduce(&fits, &all_fit, 1, MPI_INT, MPI_LAND, me->node, &request));
    ZR_TRY(finish(me, 1, &request));
    ZR_CHECK(all_fit, ZR_ERR_MEMORY,
             "staging of %lld bytes for each of %d ranks, but /dev/shm has %lld bytes left; enlarge it "
             "(docker run --shm-size), make buckets smaller, or set ZR_MPI=p2p",
             (long long)bytes, me->node_size, (long long)room);
    return ZR_OK;
}

/* Needs no barrier before it: MPI_Win_free itself waits for the node, so no peer reads any more. */
static void drop_stage(comm_mpi *me)
{
    if (me->stage_window == MPI_WIN_NULL) zr_free(me->comm.stage);
    close_window(&me->stage_window);
    me->comm.stage = NULL;
}

static zr_status stage_mpi(zr_comm *comm, int64_t bytes)
{
    comm_mpi *me = (comm_mpi *)comm;
    drop_stage(me);
    if (bytes == 0) return ZR_OK;
    if (me->node_size == 1) {
        int64_t before = zr_alloc_taken();
        comm->stage = zr_alloc((size_t)bytes);
        ZR_CHECK(comm->stage, ZR_ERR_MEMORY, "no memory for %lld bytes of staging", (long long)bytes);
        comm->stage_taken_bytes = zr_alloc_taken() - before;
    } else {
        ZR_TRY(check_shared_room(me, bytes));
        ZR_TRY(open_window(me->node, bytes, &me->stage_window));
        for (int r = 0; r < comm->size; r++)
            if (me->node_rank[r] >= 0) ZR_TRY(window_part(me->stage_window, me->node_rank[r], &me->stages[r]));
        comm->stage = me->stages[comm->rank];
        memset(comm->stage, 0, (size_t)bytes);
        ZR_TRY(window_bytes(me->stage_window, me->node_rank[comm->rank], bytes, &comm->stage_taken_bytes));
    }
    return ZR_OK;
}

/* ---- moving bytes ---------------------------------------------------------------------------- */

/* Pieces on their way, in chunks. Each half of the staging has a slot for every rank: an exchange has there what is
 * for node peer r, or came from remote rank r. A gather receives straight into `out`, and has in its own slot what the
 * node peers copy: as no message ever comes into that, nothing of the next call can come over it while they read. */
typedef struct move {
    int from, to; /* the one rank that sends, that receives; or ZR__ALL */
    const unsigned char *send;
    int64_t send_stride;
    unsigned char *out;
    int64_t out_stride;
    int64_t slot_stride, piece_bytes, chunk_bytes;
    zr_comm_arrived_fn fn; /* for pieces in slots */
    void *arg;
} move;

/* One chunk: which bytes, through which half of the staging, with what on its way. */
typedef struct chunk {
    int64_t at, bytes;
    int64_t half; /* where that begins, in bytes */
    flight *flight;
} chunk;

static int64_t floor_aligned(int64_t bytes)
{
    return bytes / ALIGN_BYTES * ALIGN_BYTES;
}

static int64_t half_bytes(const comm_mpi *me)
{
    return floor_aligned(me->comm.stage_bytes / 2);
}

static int64_t slot_bytes(const comm_mpi *me)
{
    return floor_aligned(half_bytes(me) / me->comm.size);
}

/* All ranks or none: a node that is not the world has remote ranks. */
static bool has_remote(const comm_mpi *me)
{
    return me->node_size < me->comm.size;
}

static int64_t at_most(int64_t bytes, int64_t limit)
{
    return bytes < limit ? bytes : limit;
}

static bool is_node_peer(const comm_mpi *me, int r)
{
    return r != me->comm.rank && me->node_rank[r] >= 0;
}

/* Bytes of a peer's piece come to this rank. */
static void count(comm_mpi *me, const move *m, int64_t bytes)
{
    zr_traffic_count(&me->comm.traffic, m->out ? ZR_ALL_GATHER : ZR_REDUCE_SCATTER, bytes);
}

/* All sends of a chunk or all its receives, sends first. Long messages wait for the receiver's leave, and over TCP that
 * leave goes the way of its data: a peer that was here earlier, if it had our leave to send before it saw what we want
 * to, would give its own behind all that it sends, and the link would carry one direction after the other. */
static zr_status start(comm_mpi *me, const move *m, const chunk *c, bool sending)
{
    flight *f = c->flight;
    if (!zr__comm_is(sending ? m->from : m->to, me->comm.rank)) return ZR_OK;
    for (int i = 1; i < me->comm.size; i++) {
        int r = (me->comm.rank + i) % me->comm.size, bytes = (int)c->bytes; /* not all to the same rank at once */
        if (me->node_rank[r] >= 0 || !zr__comm_is(sending ? m->to : m->from, r)) continue;
        const unsigned char *piece = m->send + r * m->send_stride + c->at;
        unsigned char *slot = me->comm.stage + c->half + r * m->slot_stride,
                      *into = m->out ? m->out + r * m->out_stride + c->at : slot;
        MPI_Request *request = &f->request[f->n++];
        TRY_MPI(sending ? MPI_Isend(piece, bytes, MPI_BYTE, r, PIECE_TAG, me->world, request)
                        : MPI_Irecv(into, bytes, MPI_BYTE, r, PIECE_TAG, me->world, request));
        if (!sending) count(me, m, bytes);
    }
    return ZR_OK;
}

static void fill_node(comm_mpi *me, const move *m, const chunk *c)
{
    int rank = me->comm.rank;
    unsigned char *half = me->comm.stage + c->half;
    if (me->node_size == 1 || !zr__comm_is(m->from, rank)) return;
    if (m->out) memcpy(half + rank * m->slot_stride, m->send + c->at, (size_t)c->bytes);
    for (int r = 0; r < me->comm.size && !m->out; r++)
        if (is_node_peer(me, r) && zr__comm_is(m->to, r))
            memcpy(half + r * m->slot_stride, m->send + r * m->send_stride + c->at, (size_t)c->bytes);
}

static void take_gathered(comm_mpi *me, const move *m, const chunk *c)
{
    for (int r = 0; r < me->comm.size; r++) {
        if (is_node_peer(me, r) && zr__comm_is(m->from, r)) {
            zr__comm_copy(m->out + r * m->out_stride + c->at, me->stages[r] + c->half + r * m->slot_stride, c->bytes,
                          m->piece_bytes);
            count(me, m, c->bytes);
        }
    }
    if (zr__comm_is(m->from, me->comm.rank))
        zr__comm_copy(m->out + me->comm.rank * m->out_stride + c->at, m->send + c->at, c->bytes, m->piece_bytes);
    zr__stream_end();
}

static void take_exchanged(comm_mpi *me, const move *m, const chunk *c)
{
    int rank = me->comm.rank;
    if (!zr__comm_is(m->to, rank)) return;
    for (int r = 0; r < me->comm.size; r++) {
        me->comm.pieces[r] = is_node_peer(me, r) ? me->stages[r] + c->half + rank * m->slot_stride
                                                 : me->comm.stage + c->half + r * m->slot_stride;
        if (is_node_peer(me, r)) count(me, m, c->bytes); /* read from there; what was sent for is counted */
    }
    me->comm.pieces[rank] = m->send + rank * m->send_stride + c->at;
    (void)m->fn(m->arg, c->at, c->bytes, me->comm.pieces); /* never fails, see transport.h */
}

/* The chunk from `at` on takes the half whose turn it is; at the end of the pieces it has no bytes. */
static chunk next_chunk(comm_mpi *me, const move *m, int64_t at)
{
    int64_t left = m->piece_bytes - at;
    chunk c = {.at = at, .bytes = at_most(left, m->chunk_bytes)};
    c.half = me->half * half_bytes(me);
    c.flight = &me->flight[me->half];
    if (left > 0) me->half ^= 1;
    return c;
}

static zr_status move_pieces(comm_mpi *me, const move *m)
{
    ZR_TRY(check_cancelled(me));
    if (m->piece_bytes == 0) return ZR_OK;
    chunk now = next_chunk(me, m, 0);
    ZR_TRY(start(me, m, &now, true));
    fill_node(me, m, &now);
    for (chunk next; now.bytes > 0; now = next) {
        next = next_chunk(me, m, now.at + now.bytes); /* on its way before the wait: the link shall not stand idle */
        if (next.bytes > 0) ZR_TRY(start(me, m, &next, true));
        if (now.at == 0) ZR_TRY(start(me, m, &now, false));
        if (next.bytes > 0) ZR_TRY(start(me, m, &next, false));
        ZR_TRY(finish(me, now.flight->n, now.flight->request));
        now.flight->n = 0;
        ZR_TRY(meet_node(me));
        if (next.bytes > 0) fill_node(me, m, &next);
        if (m->out)
            take_gathered(me, m, &now);
        else
            take_exchanged(me, m, &now);
    }
    return ZR_OK;
}

static zr_status exchange_mpi(zr_comm *comm, int to, const void *send, int64_t stride_bytes, int64_t piece_bytes,
                              zr_comm_arrived_fn fn, void *arg)
{
    comm_mpi *me = (comm_mpi *)comm;
    int64_t slot = slot_bytes(me);
    return move_pieces(me, &(move){.from = ZR__ALL,
                                   .to = to,
                                   .send = send,
                                   .send_stride = stride_bytes,
                                   .slot_stride = slot,
                                   .piece_bytes = piece_bytes,
                                   .chunk_bytes = has_remote(me) ? at_most(slot, me->chunk_bytes) : slot,
                                   .fn = fn,
                                   .arg = arg});
}

/* Node peers read a copy of `mine`, since it may change once we return. With no messages to mind it takes the whole
 * half. */
static zr_status gather_mpi(zr_comm *comm, int from, const void *mine, void *out, int64_t stride_bytes,
                            int64_t piece_bytes)
{
    comm_mpi *me = (comm_mpi *)comm;
    int64_t slot = slot_bytes(me);
    return move_pieces(me, &(move){.from = from,
                                   .to = ZR__ALL,
                                   .send = mine,
                                   .out = out,
                                   .out_stride = stride_bytes,
                                   .slot_stride = has_remote(me) ? slot : 0,
                                   .piece_bytes = piece_bytes,
                                   .chunk_bytes = has_remote(me) ? at_most(slot, me->chunk_bytes) : half_bytes(me)});
}

/* As bytes: agree sends text this way, which must not be taken for numbers. */
static zr_status scalars_mpi(zr_comm *comm, const double *mine, int n, double *all)
{
    comm_mpi *me = (comm_mpi *)comm;
    int bytes = n * (int)sizeof *mine;
    double *sent = me->scalars, *received = me->scalars + ZR_COMM_SCALARS;
    MPI_Request request;
    ZR_TRY(check_cancelled(me));
    memcpy(sent, mine, (size_t)bytes);
    me->unfinished = true; /* if the wait fails: such a call cannot be cancelled */
    TRY_MPI(MPI_Iallgather(sent, bytes, MPI_BYTE, received, bytes, MPI_BYTE, me->world, &request));
    ZR_TRY(finish(me, 1, &request));
    me->unfinished = false;
    memcpy(all, received, (size_t)bytes * (size_t)comm->size);
    return ZR_OK;
}

static zr_status barrier_mpi(zr_comm *comm)
{
    comm_mpi *me = (comm_mpi *)comm;
    ZR_TRY(check_cancelled(me));
    if (me->barrier) return meet_node(me);
    MPI_Request request;
    TRY_MPI(MPI_Ibarrier(me->world, &request));
    return finish(me, 1, &request);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void cancel_mpi(zr_comm *comm)
{
    comm_mpi *me = (comm_mpi *)comm;
    atomic_store(&me->cancelled, true);
    /* A wait in the sleeping barrier sees no flag. Its node is the world: the numbers are the same. */
    if (me->barrier) zr__barrier_leave(me->barrier, comm->rank);
}

static void abort_mpi(zr_comm *comm, int code)
{
    MPI_Abort(((comm_mpi *)comm)->world, code);
}

static bool mpi_runs(void)
{
    int started = 0, finished = 0;
    MPI_Initialized(&started);
    MPI_Finalized(&finished);
    return started && !finished;
}

/* What a cancelled call has left: nothing may come into memory that is about to be freed. */
static void withdraw(flight *f)
{
    for (int i = 0; i < f->n; i++) {
        if (f->request[i] == MPI_REQUEST_NULL) continue;
        MPI_Cancel(&f->request[i]);
        MPI_Request_free(&f->request[i]);
    }
    f->n = 0;
}

static void destroy_mpi(zr_comm *comm)
{
    comm_mpi *me = (comm_mpi *)comm;
    if (mpi_runs()) {
        for (int half = 0; half < 2; half++) withdraw(&me->flight[half]);
        drop_stage(me);
        close_window(&me->barrier_window);
        if (me->node != MPI_COMM_NULL) MPI_Comm_free(&me->node);
        if (me->world != MPI_COMM_NULL) MPI_Comm_free(&me->world);
    }
    zr_free(me->stages);
    zr_free(me->statuses);
    if (!me->unfinished) zr_free(me->scalars);
    for (int half = 0; half < 2; half++) zr_free(me->flight[half].request);
    zr_free(me->node_rank);
    zr__comm_finish(comm);
    zr_free(me);
}

static const zr_comm_ops ops_mpi = {
    .destroy = destroy_mpi,
    .stage = stage_mpi,
    .exchange = exchange_mpi,
    .gather = gather_mpi,
    .scalars = scalars_mpi,
    .barrier = barrier_mpi,
    .cancel = cancel_mpi,
    .abort = abort_mpi,
};

/* me->node and who is in it; the host's numbers are the true ones whatever ranks_per_node is. */
static zr_status find_node(comm_mpi *me, int ranks_per_node)
{
    MPI_Comm host = MPI_COMM_NULL;
    TRY_MPI(MPI_Comm_split_type(me->world, MPI_COMM_TYPE_SHARED, me->comm.rank, MPI_INFO_NULL, &host));
    MPI_Comm_rank(host, &me->comm.local_rank);
    MPI_Comm_size(host, &me->comm.local_size);
    int color = ranks_per_node > 0 ? me->comm.local_rank / ranks_per_node : 0;
    int code = MPI_Comm_split(host, color, me->comm.local_rank, &me->node);
    MPI_Comm_free(&host);
    if (code != MPI_SUCCESS) return fail_mpi(code, "MPI_Comm_split", ZR_ERR_COMM);
    TRY_MPI(MPI_Comm_set_errhandler(me->node, MPI_ERRORS_RETURN));
    TRY_MPI(MPI_Comm_size(me->node, &me->node_size));

    MPI_Group world, node;
    TRY_MPI(MPI_Comm_group(me->world, &world));
    TRY_MPI(MPI_Comm_group(me->node, &node));
    for (int r = 0; r < me->comm.size; r++) {
        TRY_MPI(MPI_Group_translate_ranks(world, 1, &r, node, &me->node_rank[r]));
        if (me->node_rank[r] == MPI_UNDEFINED) me->node_rank[r] = -1;
    }
    MPI_Group_free(&node);
    MPI_Group_free(&world);
    return ZR_OK;
}

static zr_status fill_mpi(comm_mpi *me, const zr__mpi_options *options)
{
    int rank = 0, size = 0;
    TRY_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &me->world));
    TRY_MPI(MPI_Comm_set_errhandler(me->world, MPI_ERRORS_RETURN));
    TRY_MPI(MPI_Comm_rank(me->world, &rank));
    TRY_MPI(MPI_Comm_size(me->world, &size));
    ZR_TRY(zr__comm_init(&me->comm, &ops_mpi, "mpi", rank, size));
    int64_t longest = options->chunk_bytes < CHUNK_BYTES_MAX ? options->chunk_bytes : CHUNK_BYTES_MAX;
    me->chunk_bytes = longest > ALIGN_BYTES ? floor_aligned(longest) : ALIGN_BYTES;
    me->node_rank = zr_alloc((size_t)size * sizeof *me->node_rank);
    for (int half = 0; half < 2; half++) me->flight[half].request = zr_alloc(2 * (size_t)size * sizeof(MPI_Request));
    me->statuses = zr_alloc(2 * (size_t)size * sizeof *me->statuses);
    me->stages = zr_alloc((size_t)size * sizeof *me->stages);
    me->scalars = zr_alloc((1 + (size_t)size) * ZR_COMM_SCALARS * sizeof *me->scalars);
    ZR_CHECK(me->node_rank && me->flight[0].request && me->flight[1].request && me->statuses && me->stages &&
                 me->scalars,
             ZR_ERR_MEMORY, "no memory for the tables of %d ranks", size);
    ZR_TRY(find_node(me, options->ranks_per_node));
    if (size > 1 && me->node_size == size) ZR_TRY(open_barrier(me));
    int level = 0;
    MPI_Query_thread(&level);
    /* Also between ranks of one host that exchange messages because they were told to: these may go over a link. */
    me->comm.concurrent = has_remote(me) && level >= MPI_THREAD_SERIALIZED;
    return ZR_OK;
}

zr_status zr__comm_mpi_create(const zr__mpi_options *options, zr_comm **comm)
{
    *comm = NULL;
    comm_mpi *me = zr_alloc(sizeof *me);
    ZR_CHECK(me, ZR_ERR_MEMORY, "no memory for a communicator");
    me->world = me->node = MPI_COMM_NULL;
    me->barrier_window = me->stage_window = MPI_WIN_NULL;
    zr_status st = fill_mpi(me, options);
    if (st != ZR_OK) {
        destroy_mpi(&me->comm);
        return zr_error_frame(st, __func__, __FILE__, __LINE__);
    }
    *comm = &me->comm;
    return ZR_OK;
}

const char *zr_comm_mpi_version(void)
{
    static _Thread_local char line[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(line, &length);
    line[strcspn(line, "\n,")] = '\0'; /* MPICH goes on with its build, Open MPI with its packager */
    for (char *c = line; *c; c++)
        if (*c == '\t') *c = ' ';
    return line;
}

static zr_status start_library(int *argc, char ***argv)
{
    int started = 0, level = 0;
    MPI_Initialized(&started);
    if (started)
        MPI_Query_thread(&level);
    else
        MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &level);
    ZR_CHECK(level >= MPI_THREAD_FUNNELED, ZR_ERR_UNSUPPORTED,
             "%s was initialised without thread support; MPI_THREAD_FUNNELED is needed", zr_comm_mpi_version());
    return ZR_OK;
}

zr_status zr_comm_mpi_start(int *argc, char ***argv, zr_comm **comm)
{
    ZR_CHECK(comm, ZR_ERR_ARG, "zr_comm_mpi_start needs a place for the communicator");
    *comm = NULL;
    const char *way = getenv("ZR_MPI");
    bool p2p = way && strcmp(way, "p2p") == 0;
    ZR_CHECK(!way || !*way || p2p, ZR_ERR_CONFIG, "ZR_MPI=%s; only p2p is known (no shared windows)", way);
    ZR_TRY(start_library(argc, argv));

    int size = 0, launched = zr_comm_mpi_launched();
    TRY_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
    ZR_CHECK(launched == 0 || launched == size, ZR_ERR_UNSUPPORTED,
             "the launcher started %d ranks, but %s counts %d: it is another MPI's launcher; "
             "use the mpirun that belongs to this library",
             launched, zr_comm_mpi_version(), size);
    zr__mpi_options options = {.ranks_per_node = p2p ? 1 : 0, .chunk_bytes = CHUNK_BYTES};
    ZR_TRY(zr__comm_mpi_create(&options, comm));
    return ZR_OK;
}

void zr_comm_mpi_stop(void)
{
    if (mpi_runs()) MPI_Finalize();
}
