/**
 * Channels of ranks that are processes. For memory of GPUs they are NCCL's (nccl_channel.c).
 *
 * Within a node a message passes through a mailbox: a part of a shared window of the sender, with room for `depth`
 * messages, which are used in turn. The sender copies a message in, the receiver copies it out, and each publishes the
 * number of its messages. MPI takes no part in it.
 *
 * Between nodes MPI sends a message from where it is, and receives it where it is wanted. The ranks of a channel
 * compute meanwhile, and many MPI libraries move bytes only during calls. Therefore a thread of the world's
 * communicator, the courier, polls MPI as long as a message is on its way. It polls for all threads, which sleep until
 * it has seen their message: their polls would take processor time from the ranks that compute. Only one thread may be
 * in MPI at a time (zr__mpi_enter).
 */
#include "base/core/core.h"
#include "base/core/thread.h"
#include "comm/mpi_comm.h"

#include <string.h>
#include <time.h>

#define COURIER_STACK_BYTES ((size_t)256 << 10)

/* The courier pauses between two polls, from the first to the last number of microseconds: longer from poll to poll
 * until a message has moved. A poll takes about 10. */
#define FIRST_PAUSE_USEC 50
#define LAST_PAUSE_USEC 400

/* First tag of channels. Lower tags are of pieces. */
#define CHANNEL_TAG 2

typedef struct mailbox {
    uint64_t id;
    int64_t bytes;
    int32_t to;
    _Atomic int32_t depth;                                /* 0 until the mailbox is open */
    _Atomic int64_t sent;                                 /* number of messages copied in */
    _Alignas(ZR__COMM_ALIGN_BYTES) _Atomic int64_t taken; /* number of messages copied out */
    _Alignas(ZR__COMM_ALIGN_BYTES) unsigned char message[];
} mailbox;
_Static_assert(sizeof(mailbox) == ZR__MAILBOX_HEAD, "the plan counts the head of a mailbox");

/* Mailboxes lie one after the other. Behind the last is a head of zeros. */
typedef struct mail_mpi {
    zr__mail mail;
    MPI_Win window;        /* MPI_WIN_NULL if this rank is alone on its node */
    int64_t used;          /* bytes of this rank's open mailboxes */
    zr__nccl_lines *lines; /* NULL unless channels are NCCL's */
    unsigned char *part[]; /* array of `size` addresses: the mailboxes of each rank of the node */
} mail_mpi;

/* An end of a channel within a node. */
typedef struct near_end {
    zr__channel channel;
    zr__comm_mpi *me;
    const mail_mpi *mail;
    zr__route route;
    mailbox *box; /* NULL at the receiver until it waits for the first message */
    int64_t begun, ended;
    void *place[]; /* used by the receiver only: array of `depth` addresses for messages, used in turn */
} near_end;

/* An end of a channel between nodes. Two threads use it: the rank's own and the courier, in MPI's turn. */
typedef struct zr__far_end {
    zr__channel channel;
    zr__comm_mpi *me;
    const mail_mpi *mail;
    zr__route route;
    struct zr__far_end *next; /* next in the world's list */
    int tag;                  /* 0 until the first message begins */
    int parts;                /* number of MPI's messages that carry a message */
    int64_t begun, ended;
    int64_t moved;         /* number of messages that the courier has seen complete */
    MPI_Request request[]; /* array of depth * parts requests, used in turn */
} far_end;

static bool sends(const zr__comm_mpi *me, const zr__route *route)
{
    return route->from == me->comm.rank;
}

static int peer_of(const zr__comm_mpi *me, const zr__route *route)
{
    return sends(me, route) ? route->to : route->from;
}

static zr_status check_room(const zr__route *route, int64_t begun, int64_t ended)
{
    ZR_CHECK(begun - ended < route->depth, ZR_ERR_INTERNAL, "a channel of depth %d has %lld messages on their way",
             route->depth, (long long)(begun - ended));
    return ZR_OK;
}

/* ---- mailboxes ------------------------------------------------------------------------------- */

static zr_status share_mail(zr__comm_mpi *me, mail_mpi *made)
{
    const int64_t wanted = made->mail.bytes + ZR__MAILBOX_HEAD;
    ZR_TRY(zr__mpi_open_window(me, wanted, &made->window));
    for (int r = 0; r < me->comm.size; r++)
        if (me->node_rank[r] >= 0) ZR_TRY(zr__mpi_window_part(made->window, me->node_rank[r], &made->part[r]));
    ZR_TRY(zr__mpi_take_pages(me, made->part[me->comm.rank], ZR__MAILBOX_HEAD));
    ZR_TRY(zr__mpi_window_bytes(made->window, me->node_rank[me->comm.rank], wanted, &made->mail.taken_bytes));
    made->mail.taken_bytes -= ZR__MAILBOX_HEAD;
    return ZR_OK;
}

zr_status zr__mpi_mail(zr_comm *comm, int64_t bytes, zr__mail **mail)
{
    zr__comm_mpi *me = (zr__comm_mpi *)comm;
    ZR_AUTO_FREE mail_mpi *room = zr_alloc(sizeof *room + (size_t)comm->size * sizeof *room->part);
    /* No rank may begin to open the window if another has no memory and does not come. */
    ZR_TRY(zr_comm_agree(comm, room ? ZR_OK : ZR_FAIL(ZR_ERR_MEMORY, "no memory for channels")));
    mail_mpi *made = ZR_TAKE(room);
    made->mail = (zr__mail){.comm = comm, .bytes = bytes};
    made->window = MPI_WIN_NULL;
    *mail = &made->mail;
    return me->node_size > 1 ? share_mail(me, made)
                             : zr__comm_alloc_staging(bytes, &made->mail.memory, &made->mail.taken_bytes);
}

void zr__mpi_end_mail(zr__mail *mail)
{
    mail_mpi *m = (mail_mpi *)mail;
    zr__comm_mpi *me = (zr__comm_mpi *)mail->comm;
    zr__nccl_lines *const lines = m->lines;
    pthread_mutex_lock(&me->world->lock);
    if (me->lines == lines) me->lines = NULL;
    pthread_mutex_unlock(&me->world->lock);
    zr__nccl_lines_destroy(&m->lines);
    /* a rank that is alone does not wait for the others: destroy_mpi */
    if (zr__mpi_runs() && !zr__mpi_is_alone(me)) zr__mpi_close_window(me, &m->window);
    zr_free(mail->memory);
    zr_free(m);
}

static int64_t room_of(const mailbox *box)
{
    const zr__route route = {.bytes = box->bytes, .depth = atomic_load_explicit(&box->depth, memory_order_acquire)};
    return route.depth > 0 ? zr__mailbox_bytes(&route) : 0;
}

static unsigned char *message_of(const near_end *c, int64_t number)
{
    const int64_t each = (zr__mailbox_bytes(&c->route) - ZR__MAILBOX_HEAD) / c->route.depth;
    return c->box->message + number % c->route.depth * each;
}

static zr_status open_mailbox(near_end *c, mail_mpi *m)
{
    const int64_t bytes = zr__mailbox_bytes(&c->route);
    ZR_CHECK(bytes <= m->mail.bytes - m->used, ZR_ERR_INTERNAL, "a mailbox of %lld bytes, but %lld are left",
             (long long)bytes, (long long)(m->mail.bytes - m->used));
    unsigned char *at = m->part[c->me->comm.rank] + m->used;
    ZR_TRY(zr__mpi_take_pages(c->me, at, bytes + ZR__MAILBOX_HEAD));
    m->used += bytes;
    c->box = (mailbox *)at;
    c->box->id = c->route.id;
    c->box->bytes = c->route.bytes;
    c->box->to = c->route.to;
    atomic_store_explicit(&c->box->depth, c->route.depth, memory_order_release);
    return ZR_OK;
}

/* Find the sender's mailbox. It is open, since all ranks have opened their ends. */
static zr_status find_mailbox(near_end *c)
{
    mailbox *box = (mailbox *)c->mail->part[c->route.from];
    int64_t room;
    while ((room = room_of(box)) > 0 && (box->id != c->route.id || box->to != c->route.to))
        box = (mailbox *)((unsigned char *)box + room);
    ZR_CHECK(room == zr__mailbox_bytes(&c->route) && box->bytes == c->route.bytes, ZR_ERR_INTERNAL,
             "ranks %d and %d open a channel with other sizes", c->me->comm.world_ranks[c->route.from],
             zr__comm_name(&c->me->comm));
    c->box = box;
    return ZR_OK;
}

/* Fail if this rank is stopped, or if another was stopped and all ranks can see it. */
static zr_status poll_ranks(zr_comm *comm, bool progress)
{
    zr__comm_mpi *me = (zr__comm_mpi *)comm;
    ZR_TRY(zr__mpi_poll(comm, progress));
    const int stopped = me->barrier ? (int)atomic_load(&me->barrier->leaver) - 1 : -1;
    ZR_CHECK(stopped < 0, ZR_ERR_PEER, "rank %d was stopped", me->comm.world_ranks[stopped]);
    return ZR_OK;
}

/* Wait until *count is greater than `n`. */
static zr_status await_count(near_end *c, const _Atomic int64_t *count, int64_t n)
{
    for (int polls = 0; atomic_load_explicit(count, memory_order_acquire) <= n; polls++) {
        ZR_TRY(poll_ranks(&c->me->comm, true));
        zr__comm_relax(polls);
    }
    return ZR_OK;
}

static zr_status begin_near(zr__channel *channel, void *memory)
{
    near_end *c = (near_end *)channel;
    ZR_TRY(check_room(&c->route, c->begun, c->ended));
    if (!sends(c->me, &c->route)) {
        c->place[c->begun++ % c->route.depth] = memory;
        return ZR_OK;
    }
    memcpy(message_of(c, c->begun), memory, (size_t)c->route.bytes);
    atomic_store_explicit(&c->box->sent, ++c->begun, memory_order_release);
    return ZR_OK;
}

static zr_status end_near(zr__channel *channel)
{
    near_end *c = (near_end *)channel;
    if (!c->box) ZR_TRY(find_mailbox(c));
    const bool out = sends(c->me, &c->route);
    ZR_TRY(await_count(c, out ? &c->box->taken : &c->box->sent, c->ended));
    if (!out) {
        ZR_TRY(zr__comm_carry(&(zr_comm_copier){0}, c->place[c->ended % c->route.depth], message_of(c, c->ended),
                              c->route.bytes));
        zr__traffic_count(&c->me->comm.traffic, ZR_TRAFFIC_PIPELINE, c->route.bytes);
        atomic_store_explicit(&c->box->taken, c->ended + 1, memory_order_release);
    }
    c->ended++;
    return ZR_OK;
}

static void close_near(zr__channel *channel)
{
    zr_free(channel);
}

static zr_status open_near(zr__comm_mpi *me, mail_mpi *mail, const zr__route *route, zr__channel **channel)
{
    near_end *c = zr_alloc(sizeof *c + (size_t)route->depth * sizeof *c->place);
    ZR_CHECK(c, ZR_ERR_MEMORY, "no memory for a channel of %d messages", route->depth);
    *c = (near_end){
        {.begin = begin_near, .end = end_near, .close = close_near}, .me = me, .mail = mail, .route = *route};
    const zr_status st = sends(me, route) ? open_mailbox(c, mail) : ZR_OK;
    if (st == ZR_OK)
        *channel = &c->channel;
    else
        zr_free(c);
    return st;
}

/* ---- the courier ----------------------------------------------------------------------------- */

/* Return whether a message has completed. A request that failed counts: the waiting thread reports it. */
static bool is_complete(const far_end *c, int64_t message)
{
    int done = 1;
    for (int i = 0; i < c->parts && done; i++)
        (void)MPI_Request_get_status(c->request[message % c->route.depth * c->parts + i], &done, MPI_STATUS_IGNORE);
    return done;
}

/* Let MPI move bytes of the messages that are on their way, and wake the threads that wait for one. Return whether any
 * is still on its way; set *news to whether one has completed. */
static bool move_messages(zr__comm_mpi *world, bool *news)
{
    bool moves = false;
    *news = false;
    for (far_end *c = world->far_ends; c; c = c->next) {
        if (c->moved < c->ended) c->moved = c->ended;
        for (; c->moved < c->begun && is_complete(c, c->moved); c->moved++) *news = true;
        moves |= c->moved < c->begun;
    }
    if (*news) pthread_cond_broadcast(&world->moved);
    return moves;
}

static void *carry(void *arg)
{
    zr__comm_mpi *world = arg;
    long pause_usec = FIRST_PAUSE_USEC;
    bool news;
    zr__mpi_enter(world);
    while (world->courier_runs) {
        if (zr__mpi_is_alone(world) || !move_messages(world, &news)) {
            pthread_cond_wait(&world->more, &world->turn);
            pause_usec = FIRST_PAUSE_USEC;
            continue;
        }
        zr__mpi_leave(world);
        nanosleep(&(struct timespec){.tv_nsec = pause_usec * 1000}, NULL);
        pause_usec = news ? FIRST_PAUSE_USEC : pause_usec + pause_usec / 8;
        if (pause_usec > LAST_PAUSE_USEC) pause_usec = LAST_PAUSE_USEC;
        zr__mpi_enter(world);
    }
    zr__mpi_leave(world);
    return NULL;
}

/* Add an end to the world's list. Start the courier for the first one, unless MPI allows calls of one thread only. */
static zr_status enlist(far_end *c)
{
    zr__comm_mpi *world = c->me->world;
    int error = 0;
    zr__mpi_enter(world);
    if (!world->far_ends && world->comm.second_thread) {
        world->courier_runs = true;
        error = zr__thread_start(&world->courier, COURIER_STACK_BYTES, carry, world);
        world->courier_runs = error == 0;
    }
    if (error == 0) {
        c->next = world->far_ends;
        world->far_ends = c;
    }
    zr__mpi_leave(world);
    ZR_CHECK(error == 0, ZR_ERR_MEMORY, "cannot start a thread for messages between hosts: %s", strerror(error));
    return ZR_OK;
}

static void delist(far_end *c)
{
    zr__comm_mpi *world = c->me->world;
    zr__mpi_enter(world);
    far_end **at = &world->far_ends;
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    const bool ends = !world->far_ends && world->courier_runs;
    if (ends) world->courier_runs = false;
    pthread_cond_signal(&world->more);
    zr__mpi_leave(world);
    if (ends) pthread_join(world->courier, NULL);
}

/* ---- between nodes --------------------------------------------------------------------------- */

/* Return the tag of a channel. Both ends find the same: of the channels that were opened together from one rank to the
 * other, the tag counts those with a lower id. */
static int find_tag(const far_end *c)
{
    int tag = CHANNEL_TAG;
    for (const far_end *p = c->me->world->far_ends; p; p = p->next)
        tag += p->mail == c->mail && p->route.from == c->route.from && p->route.to == c->route.to &&
               p->route.id < c->route.id;
    return tag;
}

/* Begin to send or to receive the parts of a message. */
static zr_status start_parts(far_end *c, unsigned char *memory)
{
    zr__comm_mpi *me = c->me;
    const int peer = peer_of(me, &c->route);
    MPI_Request *request = &c->request[c->begun % c->route.depth * c->parts];
    if (c->tag == 0) c->tag = find_tag(c);
    for (int64_t i = 0, at = 0; i < c->parts; i++, at += me->chunk_bytes) {
        const int64_t left = c->route.bytes - at;
        const int bytes = (int)(left < me->chunk_bytes ? left : me->chunk_bytes);
        const int code = sends(me, &c->route)
                             ? MPI_Isend(memory + at, bytes, MPI_BYTE, peer, c->tag, me->all, &request[i])
                             : MPI_Irecv(memory + at, bytes, MPI_BYTE, peer, c->tag, me->all, &request[i]);
        if (code != MPI_SUCCESS) return zr__mpi_fail(code, "a message between hosts", ZR_ERR_COMM);
    }
    c->begun++;
    return ZR_OK;
}

static zr_status begin_far(zr__channel *channel, void *memory)
{
    far_end *c = (far_end *)channel;
    ZR_TRY(check_room(&c->route, c->begun, c->ended));
    ZR_TRY(zr__mpi_poll(&c->me->comm, false));
    zr__mpi_enter(c->me);
    const zr_status st = start_parts(c, memory);
    pthread_cond_signal(&c->me->world->more);
    zr__mpi_leave(c->me);
    return st;
}

/* Set *done to whether the oldest message is passed on, or has come. */
static zr_status test_parts(far_end *c, int *done)
{
    MPI_Request *request = &c->request[c->ended % c->route.depth * c->parts];
    *done = 1;
    for (int i = 0; i < c->parts && *done; i++) {
        const int code = MPI_Test(&request[i], done, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS) return zr__mpi_fail(code, "a message between hosts", ZR_ERR_COMM);
    }
    c->ended += *done;
    return ZR_OK;
}

/* Sleep until the courier has seen the oldest message, but at most some milliseconds, since the rank may be stopped. */
static void await_courier(far_end *c)
{
    zr__comm_mpi *world = c->me->world;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 20000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    zr__mpi_enter(world);
    if (c->moved <= c->ended) pthread_cond_timedwait(&world->moved, &world->turn, &until);
    zr__mpi_leave(world);
}

static zr_status end_far(zr__channel *channel)
{
    far_end *c = (far_end *)channel;
    for (int polls = 0;; polls++) {
        int done;
        ZR_TRY(zr__mpi_poll(&c->me->comm, false));
        zr__mpi_enter(c->me);
        const zr_status st = test_parts(c, &done);
        zr__mpi_leave(c->me);
        if (st != ZR_OK) atomic_store(&c->me->cancelled, true);
        ZR_TRY(st);
        if (done) break;
        if (c->me->world->comm.second_thread)
            await_courier(c);
        else
            zr__mpi_relax(c->me, polls);
    }
    if (!sends(c->me, &c->route)) zr__traffic_count(&c->me->comm.traffic, ZR_TRAFFIC_PIPELINE, c->route.bytes);
    return ZR_OK;
}

/* Close an end. Requests are left only after a failure. */
static void close_far(zr__channel *channel)
{
    far_end *c = (far_end *)channel;
    delist(c);
    zr__mpi_enter(c->me);
    zr__mpi_cancel(c->route.depth * c->parts, c->request);
    zr__mpi_leave(c->me);
    zr_free(c);
}

static zr_status open_far(zr__comm_mpi *me, const mail_mpi *mail, const zr__route *route, zr__channel **channel)
{
    const int parts = (int)((route->bytes + me->chunk_bytes - 1) / me->chunk_bytes), all = route->depth * parts;
    far_end *c = zr_alloc(sizeof *c + (size_t)all * sizeof *c->request);
    ZR_CHECK(c, ZR_ERR_MEMORY, "no memory for a channel of %d messages", route->depth);
    *c = (far_end){{.begin = begin_far, .end = end_far, .close = close_far},
                   .me = me,
                   .mail = mail,
                   .route = *route,
                   .parts = parts};
    for (int i = 0; i < all; i++) c->request[i] = MPI_REQUEST_NULL;
    const zr_status st = enlist(c);
    if (st == ZR_OK)
        *channel = &c->channel;
    else
        zr_free(c);
    return st;
}

zr_status zr__mpi_channel(zr_comm *comm, zr__mail *mail, const zr__route *route, const zr_comm_copier *copier,
                          zr__channel **channel)
{
    zr__comm_mpi *me = (zr__comm_mpi *)comm;
    mail_mpi *m = (mail_mpi *)mail;
    if (copier->copy) return zr__nccl_channel(comm, &m->lines, route, copier, poll_ranks, channel);
    return me->node_rank[peer_of(me, route)] >= 0 ? open_near(me, m, route, channel) : open_far(me, m, route, channel);
}

zr_status zr__mpi_connect(zr__mail *mail, void *memory)
{
    zr__comm_mpi *me = (zr__comm_mpi *)mail->comm;
    mail_mpi *m = (mail_mpi *)mail;
    ZR_TRY(zr__nccl_connect(mail->comm, m->lines, memory));
    pthread_mutex_lock(&me->world->lock);
    me->lines = m->lines;
    pthread_mutex_unlock(&me->world->lock);
    return ZR_OK;
}
