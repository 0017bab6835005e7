/**
 * Transport of ranks that are threads of one process. Ranks read and write each other's memory directly. Staging is
 * allocated on request, but never used. Each group has one barrier, which orders all calls.
 *
 * During a call, between its two barriers, peers may access a rank's memory. After the call, the rank may free this
 * memory. Therefore a call that fails between the barriers first waits for peers that still use the memory.
 */
#include "base/core/core.h"
#include "comm/barrier.h"
#include "comm/transport.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

/* Minimum stack of a rank's thread, in bytes. A rank runs whole programs, but the default stack of threads is far
 * smaller on some systems. */
#define STACK_BYTES ((size_t)8 << 20)
#define TEXT_BYTES 512

/* Bytes of a piece that a rank copies to all ranks at a time. Only the first copy reads the bytes from memory. Later
 * copies read them from the nearest cache. */
#define PART_BYTES ((int64_t)16 << 10)

typedef struct group group;
typedef struct team team;

/* One rank's communicator of a group. */
typedef struct comm_threads {
    zr_comm comm;
    group *group;
    unsigned turn; /* number of calls of scalars so far, equal on all ranks; its lowest bit selects the group's table */
    bool failed;   /* whether a call has failed */
    void *lent;    /* memory that peers access between a call's two barriers: in a gather they write to it, otherwise
                      they only read it */
} comm_threads;

/* The ranks of one communicator: the whole team, or a group split off another communicator. */
struct group {
    team *team;
    group *next; /* next in the team's list of groups */
    zr__barrier barrier;
    _Atomic int borrowers; /* number of ranks that use their peers' memory or are about to use it */
    int size;
    int *names; /* array of `size` world numbers of the ranks */
    /* two arrays of size * ZR_COMM_SCALARS scalars, of all ranks; successive calls alternate between the arrays */
    double *table[2];
    comm_threads ranks[]; /* communicators of the `size` ranks */
};

typedef struct member {
    pthread_t thread;
    zr_status status;      /* status that fn returned */
    _Atomic bool returned; /* whether fn has returned ZR_OK */
    char text[TEXT_BYTES];
} member;

/* A line from one rank to another, which carries the messages of a channel. The sender shows where its messages are,
 * and the receiver copies them. */
typedef struct line {
    struct line *next; /* next in the team's list */
    uint64_t id;
    int from, to; /* world numbers of its ranks */
    int depth;
    int64_t bytes;
    int ends;                    /* number of open ends; the team's mutex protects it */
    _Atomic int64_t sent, taken; /* number of messages that were begun, and that were copied */
    _Atomic bool copying;        /* whether the receiver reads a message */
    _Atomic bool closed;         /* whether the sender has closed its end, after which its memory may be freed */
    const void *message[];       /* array of `depth` addresses, used in turn */
} line;

/* An end of a channel. */
typedef struct channel_threads {
    zr__channel channel;
    comm_threads *me;
    line *line;
    zr_comm_copier copier;
    bool sends;
    int peer; /* world number of the rank at the other end */
    int64_t begun, ended;
    void *place[]; /* used by the receiver only: array of `depth` addresses for messages, used in turn */
} channel_threads;

/* State of one zr_comm_threads_run. Its ranks are the ranks of the world. */
struct team {
    zr_rank_fn fn;
    void *arg;
    _Atomic int first_failed; /* the rank that failed first, or -1 if none has */
    pthread_mutex_t
        lock; /* mutex for the lists `groups` and `lines`; the groups are freed when all ranks have returned */
    group *groups;
    line *lines; /* the lines with an open end */
    int size;
    member *ranks;          /* array of `size` threads, one for each rank */
    zr_comm_board *board;   /* array of `size` boards, one for each rank */
    zr_comm_board **boards; /* array of `size` addresses of the boards */
};

/* Wait for the group's ranks. Fail if a rank has left the barrier. A rank leaves when it fails or returns. */
static zr_status meet_group(comm_threads *me)
{
    zr__comm_wait(&me->comm);
    int gone =
        zr__barrier_wait(&me->group->barrier, zr__comm_late, me) - 1; /* rank that has failed or returned, or -1 */
    zr__comm_wait(&me->comm);
    if (gone < 0) return ZR_OK;
    me->failed = true;
    int failed = atomic_load(&me->group->team->first_failed), mine = zr__comm_name(&me->comm);
    ZR_CHECK(failed != mine, ZR_ERR_PEER, "rank %d was stopped", failed);
    ZR_CHECK(failed < 0, ZR_ERR_PEER, "rank %d failed, so rank %d stops too", failed, mine);
    return ZR_FAIL(ZR_ERR_PEER, "rank %d has returned, but rank %d still waits for it", me->comm.world_ranks[gone],
                   mine);
}

/* Wait, after a failure, until no peer uses this rank's memory any more. Some peer may still use the memory, because
 * the barrier may have completed for this peer before it failed for other ranks. */
static void await_borrowers(const comm_threads *me)
{
    while (atomic_load(&me->group->borrowers) > 0) sched_yield();
}

/* Let peers access `mine`, and let this rank access the peers' memory, until take_back. A rank counts itself as a
 * borrower before the barrier. Therefore the count is never zero while a peer is about to borrow. */
static zr_status lend(comm_threads *me, const void *mine)
{
    me->lent = (void *)mine;
    atomic_fetch_add(&me->group->borrowers, 1);
    zr_status st = meet_group(me);
    if (st == ZR_OK) return ZR_OK;
    atomic_fetch_sub(&me->group->borrowers, 1);
    await_borrowers(me);
    return st;
}

static zr_status take_back(comm_threads *me)
{
    atomic_fetch_sub(&me->group->borrowers, 1);
    zr_status st = meet_group(me);
    if (st != ZR_OK) await_borrowers(me);
    return st;
}

/* Exchange in one chunk, directly from the peers' memory. Fail if a grain exceeds the staging, although this function
 * uses no staging. A program then fails in the same way with ranks as threads and with ranks as processes. */
static zr_status exchange_threads(zr_comm *comm, const void *send, int64_t stride_bytes, int64_t piece_bytes,
                                  int64_t grain_bytes, zr_comm_arrived_fn fn, void *arg)
{
    comm_threads *me = (comm_threads *)comm;
    int64_t chunk_bytes;
    ZR_TRY(zr__comm_chunk(comm, zr__comm_slot(comm->staging_bytes, comm->size), grain_bytes, &chunk_bytes));
    ZR_TRY(lend(me, send));
    for (int r = 0; r < comm->size; r++)
        comm->pieces[r] = (const unsigned char *)me->group->ranks[r].lent + comm->rank * stride_bytes;
    zr__traffic_count(&comm->traffic, ZR_TRAFFIC_REDUCE_SCATTER, (comm->size - 1) * piece_bytes);
    (void)fn(arg, 0, piece_bytes, comm->pieces); /* the callback never fails, see transport.h */
    return take_back(me);
}

/* Copy this rank's piece to every rank, including itself, part by part. Each of N ranks thus reads its own piece from
 * memory once and writes it N times. If each peer fetched the piece itself, the piece would also be read N times from
 * memory. */
static void copy_to_all(comm_threads *me, const unsigned char *mine, int64_t stride_bytes, int64_t piece_bytes)
{
    const int64_t part_bytes = me->comm.copier.copy ? piece_bytes : PART_BYTES;
    int64_t sent = 0;
    for (int64_t at = 0, bytes; at < piece_bytes; at += bytes) {
        bytes = piece_bytes - at < part_bytes ? piece_bytes - at : part_bytes;
        for (int i = 0; i < me->comm.size; i++) {
            /* Begin with this rank. Otherwise all ranks would write to the same rank at once. */
            int r = (me->comm.rank + i) % me->comm.size;
            unsigned char *out = me->group->ranks[r].lent;
            zr__comm_copy(&me->comm, out + me->comm.rank * stride_bytes + at, mine + at, bytes, piece_bytes);
            if (r != me->comm.rank) sent += bytes;
        }
    }
    zr__traffic_count(&me->comm.traffic, ZR_TRAFFIC_ALL_GATHER, sent);
}

/* Gather between two barriers. The second barrier costs less than a second copy of the piece. */
static zr_status gather_threads(zr_comm *comm, const void *mine, void *out, int64_t stride_bytes, int64_t piece_bytes)
{
    comm_threads *me = (comm_threads *)comm;
    ZR_TRY(lend(me, out));
    copy_to_all(me, mine, stride_bytes, piece_bytes);
    zr__comm_copied(comm);
    return take_back(me);
}

/* Exchange numbers through two shared tables, which successive calls use alternately. Two calls that write to the same
 * table have another call between them. Every rank has read the table before it enters the barrier of that other call,
 * so the table may be overwritten afterwards. After a failure the barrier does not block, so nothing is written. */
static zr_status scalars_threads(zr_comm *comm, const double *mine, int n)
{
    comm_threads *me = (comm_threads *)comm;
    double *table = me->group->table[me->turn++ & 1];
    if (me->failed) return meet_group(me);
    memcpy(table + comm->rank * n, mine, (size_t)n * sizeof *mine);
    ZR_TRY(meet_group(me));
    comm->table = table;
    return ZR_OK;
}

static zr_status barrier_threads(zr_comm *comm)
{
    return meet_group((comm_threads *)comm);
}

/* Leave all groups of a rank, so that no other rank waits for it any more. `rank` is its number in the world. */
static void leave_groups(team *t, int rank)
{
    pthread_mutex_lock(&t->lock);
    for (group *g = t->groups; g; g = g->next)
        for (int r = 0; r < g->size; r++)
            if (g->names[r] == rank) zr__barrier_leave(&g->barrier, r);
    pthread_mutex_unlock(&t->lock);
}

static void leave_failed(team *t, int rank)
{
    int none = -1;
    atomic_compare_exchange_strong(&t->first_failed, &none, rank);
    leave_groups(t, rank);
}

static void cancel_threads(zr_comm *comm)
{
    leave_failed(((comm_threads *)comm)->group->team, zr__comm_name(comm));
}

static void abort_threads(zr_comm *comm, int code)
{
    (void)code; /* do nothing: the process goes on, and the status that fn returns describes the failure */
    cancel_threads(comm);
}

static void destroy_threads(zr_comm *comm)
{
    /* Free nothing here, because peers may still read the communicator. zr_comm_threads_run frees it after the last
     * rank has returned. */
    (void)comm;
}

/* ---- channels -------------------------------------------------------------------------------- */

/* Wait until *count is greater than `n`. Fail if any rank has failed, or if the rank at the other end has returned. */
static zr_status await_count(const channel_threads *c, const _Atomic int64_t *count, int64_t n)
{
    const team *t = c->me->group->team;
    const int mine = zr__comm_name(&c->me->comm);
    for (int polls = 0; atomic_load_explicit(count, memory_order_acquire) <= n; polls++) {
        const int failed = atomic_load(&t->first_failed);
        ZR_CHECK(failed != mine, ZR_ERR_PEER, "rank %d was stopped", failed);
        ZR_CHECK(failed < 0, ZR_ERR_PEER, "rank %d failed, so rank %d stops too", failed, mine);
        ZR_CHECK(!atomic_load(&t->ranks[c->peer].returned) || atomic_load(count) > n, ZR_ERR_PEER,
                 "rank %d has returned, but rank %d still waits for it", c->peer, mine);
        zr__comm_relax(polls);
    }
    return ZR_OK;
}

static zr_status begin_message(zr__channel *channel, void *memory)
{
    channel_threads *c = (channel_threads *)channel;
    line *p = c->line;
    ZR_CHECK(c->begun - c->ended < p->depth, ZR_ERR_INTERNAL, "a channel of depth %d has %lld messages on their way",
             p->depth, (long long)(c->begun - c->ended));
    const int64_t at = c->begun++ % p->depth;
    if (!c->sends) {
        c->place[at] = memory;
        return ZR_OK;
    }
    p->message[at] = memory;
    atomic_store_explicit(&p->sent, c->begun, memory_order_release);
    return ZR_OK;
}

static zr_status end_message(zr__channel *channel)
{
    channel_threads *c = (channel_threads *)channel;
    line *p = c->line;
    ZR_TRY(await_count(c, c->sends ? &p->taken : &p->sent, c->ended));
    const int64_t at = c->ended++ % p->depth;
    if (c->sends) return ZR_OK;
    atomic_store(&p->copying, true);
    const bool there = !atomic_load(&p->closed);
    const zr_status st = there ? zr__comm_carry(&c->copier, c->place[at], p->message[at], p->bytes) : ZR_OK;
    atomic_store(&p->copying, false);
    ZR_TRY(st);
    /* The sender has failed or returns. Await which: a failure must be known as the first one before this rank fails.
     */
    if (!there) return await_count(c, &p->sent, INT64_MAX);
    zr__traffic_count(&c->me->comm.traffic, ZR_TRAFFIC_PIPELINE, p->bytes);
    atomic_store_explicit(&p->taken, c->ended, memory_order_release);
    return ZR_OK;
}

static void close_end(zr__channel *channel)
{
    channel_threads *c = (channel_threads *)channel;
    team *t = c->me->group->team;
    if (c->sends) {
        atomic_store(&c->line->closed, true);
        while (atomic_load(&c->line->copying)) sched_yield();
    }
    pthread_mutex_lock(&t->lock);
    if (--c->line->ends == 0) {
        line **at = &t->lines;
        while (*at != c->line) at = &(*at)->next;
        *at = c->line->next;
        zr_free(c->line);
    }
    pthread_mutex_unlock(&t->lock);
    zr_free(c);
}

/* Return the line with this id, which the first of its two ranks creates. Return NULL without memory. */
static line *find_line(team *t, int from, int to, const zr__route *route)
{
    line *p = t->lines;
    while (p && (p->id != route->id || p->from != from || p->to != to)) p = p->next;
    if (p) return p;
    p = zr_alloc(sizeof *p + (size_t)route->depth * sizeof *p->message);
    if (!p) return NULL;
    p->id = route->id;
    p->from = from;
    p->to = to;
    p->depth = route->depth;
    p->bytes = route->bytes;
    p->next = t->lines;
    return t->lines = p;
}

/* Open an end without a mailbox: the receiver reads a message where the sender has it. */
static zr_status channel_of_threads(zr_comm *comm, zr__mail *mail, const zr__route *route, const zr_comm_copier *copier,
                                    zr__channel **channel)
{
    (void)mail;
    comm_threads *me = (comm_threads *)comm;
    team *t = me->group->team;
    const int from = comm->world_ranks[route->from], to = comm->world_ranks[route->to];
    channel_threads *c = zr_alloc(sizeof *c + (size_t)route->depth * sizeof *c->place);
    ZR_CHECK(c, ZR_ERR_MEMORY, "no memory for a channel of %d messages", route->depth);
    c->channel = (zr__channel){.begin = begin_message, .end = end_message, .close = close_end};
    c->me = me;
    c->copier = *copier;
    c->sends = route->from == comm->rank;
    c->peer = c->sends ? to : from;
    pthread_mutex_lock(&t->lock);
    c->line = find_line(t, from, to, route);
    if (c->line) c->line->ends++;
    const bool same = c->line && c->line->bytes == route->bytes && c->line->depth == route->depth;
    pthread_mutex_unlock(&t->lock);
    if (same) {
        *channel = &c->channel;
        return ZR_OK;
    }
    const bool found = c->line != NULL;
    if (found) close_end(&c->channel);
    if (!found) zr_free(c);
    ZR_CHECK(found, ZR_ERR_MEMORY, "no memory for a channel of %d messages", route->depth);
    return ZR_FAIL(ZR_ERR_INTERNAL, "ranks %d and %d open a channel with other sizes", from, to);
}

static zr_status split_threads(zr_comm *comm, const zr__group *of, zr_comm **sub);

static const zr_comm_ops ops_threads = {
    .destroy = destroy_threads,
    .split = split_threads,
    .staging = zr__comm_own_staging,
    .exchange = exchange_threads,
    .gather = gather_threads,
    .scalars = scalars_threads,
    .barrier = barrier_threads,
    .cancel = cancel_threads,
    .abort = abort_threads,
    .channel = channel_of_threads,
};

/* ---- groups ---------------------------------------------------------------------------------- */

static void free_group(group *g)
{
    for (int r = 0; r < g->size; r++) {
        zr_free(g->ranks[r].comm.staging);
        zr__comm_finish(&g->ranks[r].comm);
    }
    for (int turn = 0; turn < 2; turn++) zr_free(g->table[turn]);
    zr_free(g->names);
    zr_free(g);
}

static zr_status create_group(team *t, int size, group **made)
{
    group *g = zr_alloc(sizeof *g + (size_t)size * sizeof g->ranks[0]);
    ZR_CHECK(g, ZR_ERR_MEMORY, "no memory for %d ranks", size);
    g->team = t;
    g->size = size;
    zr__barrier_init(&g->barrier, size, t->size);
    atomic_init(&g->borrowers, 0);
    g->names = zr_alloc((size_t)size * sizeof *g->names);
    for (int turn = 0; turn < 2; turn++) g->table[turn] = zr_alloc((size_t)size * ZR_COMM_SCALARS * sizeof(double));
    bool room = g->names && g->table[0] && g->table[1];
    zr_status st = room ? ZR_OK : ZR_FAIL(ZR_ERR_MEMORY, "no memory for the tables of %d ranks", size);
    for (int r = 0; r < size && st == ZR_OK; r++) {
        st = zr__comm_init(&g->ranks[r].comm, &ops_threads, "threads", r, size, g->names);
        g->ranks[r].group = g;
        g->ranks[r].comm.second_thread = true;
    }
    if (st == ZR_OK)
        *made = g;
    else
        free_group(g);
    return st;
}

static void show_on_board(comm_threads *me)
{
    team *t = me->group->team;
    zr__comm_set_boards(&me->comm, t->boards[zr__comm_name(&me->comm)], t->boards, t->size);
}

/* Add a group to the team. If a rank leaves the team's groups later, it also leaves this group. If a rank has left
 * before, it has also left the parent group. The agreement of the parent's ranks then fails, so no rank gets the new
 * group. */
static void enlist(team *t, group *g)
{
    pthread_mutex_lock(&t->lock);
    g->next = t->groups;
    t->groups = g;
    pthread_mutex_unlock(&t->lock);
}

/* Create a group for all its ranks. Only the group's first rank calls this function. */
static zr_status make_group(comm_threads *me, const zr__group *of, group **made)
{
    ZR_TRY(create_group(me->group->team, of->size, made));
    zr__group_names(&me->comm, of, (*made)->names);
    for (int r = 0; r < of->size; r++) show_on_board(&(*made)->ranks[r]);
    enlist(me->group->team, *made);
    return ZR_OK;
}

static zr_status split_threads(zr_comm *comm, const zr__group *of, zr_comm **sub)
{
    comm_threads *me = (comm_threads *)comm;
    group *made = NULL;
    double address = 0; /* address of the new group, as the bytes of a double */
    bool first = of->size > 0 && of->rank == 0;
    ZR_TRY(zr_comm_agree(comm, first ? make_group(me, of, &made) : ZR_OK));
    memcpy(&address, &made, sizeof made);
    ZR_TRY(scalars_threads(comm, &address, 1));
    if (of->size == 0) return ZR_OK;
    memcpy(&made, &comm->table[of->first], sizeof made);
    *sub = &made->ranks[of->rank].comm;
    return ZR_OK;
}

/* ---- the team -------------------------------------------------------------------------------- */

static void *run_rank(void *arg)
{
    comm_threads *me = arg;
    team *t = me->group->team;
    member *rank = &t->ranks[me->comm.rank];
    rank->status = t->fn(&me->comm, t->arg);
    if (rank->status == ZR_OK) {
        /* Let no rank wait forever for a rank that has returned. In a correct program no rank waits here, because calls
         * are collective. */
        leave_groups(t, me->comm.rank);
    } else {
        snprintf(rank->text, sizeof rank->text, "%s", zr_error_message());
        leave_failed(t, me->comm.rank);
    }
    return NULL;
}

/* Start the ranks' threads, in order. Return how many were started. If a thread cannot be created, no later thread is
 * started. */
static int start_ranks(team *t, group *world, pthread_attr_t *attr)
{
    for (int r = 0; r < t->size; r++) {
        member *rank = &t->ranks[r];
        int error = pthread_create(&rank->thread, attr, run_rank, &world->ranks[r]);
        if (error == 0) continue;
        rank->status = ZR_ERR_MEMORY;
        snprintf(rank->text, sizeof rank->text, "cannot start a thread for this one of %d ranks: %s", t->size,
                 strerror(error));
        leave_failed(t, r);
        return r;
    }
    return t->size;
}

static zr_status run_team(team *t, group *world)
{
    pthread_attr_t attr;
    size_t stack_bytes = 0;
    ZR_CHECK(pthread_attr_init(&attr) == 0, ZR_ERR_MEMORY, "no memory for thread attributes");
    pthread_attr_getstacksize(&attr, &stack_bytes);
    if (stack_bytes < STACK_BYTES) pthread_attr_setstacksize(&attr, STACK_BYTES);
    int started = start_ranks(t, world, &attr);
    pthread_attr_destroy(&attr);
    for (int r = 0; r < started; r++) pthread_join(t->ranks[r].thread, NULL);

    int first = atomic_load(&t->first_failed);
    if (first < 0) return ZR_OK;
    const member *failed = &t->ranks[first];
    /* A rank that called zr_comm_abort has failed, even if it returned ZR_OK. */
    if (failed->status == ZR_OK) return ZR_FAIL(ZR_ERR_PEER, "rank %d aborted", first);
    /* Do not add the rank's number again to a failure on which the ranks have agreed. */
    if (t->size == 1 || strncmp(failed->text, "rank ", 5) == 0) return ZR_FAIL(failed->status, "%s", failed->text);
    return ZR_FAIL(failed->status, "rank %d: %s", first, failed->text);
}

static void end_team(team *t)
{
    for (group *g = t->groups, *next; g; g = next) {
        next = g->next;
        free_group(g);
    }
    pthread_mutex_destroy(&t->lock);
    zr_free(t->ranks);
    zr_free(t->board);
    zr_free(t->boards);
}

zr_status zr_comm_threads_run(int size, zr_rank_fn fn, void *arg)
{
    ZR_CHECK(size >= 1, ZR_ERR_ARG, "the number of ranks is %d; it must be at least 1", size);
    ZR_CHECK(fn, ZR_ERR_ARG, "zr_comm_threads_run needs a function to run");
    ZR_AUTO(end_team) team t = {.fn = fn, .arg = arg, .size = size, .lock = PTHREAD_MUTEX_INITIALIZER};
    group *world = NULL;
    atomic_init(&t.first_failed, -1);
    t.ranks = zr_alloc((size_t)size * sizeof *t.ranks);
    t.board = zr_alloc((size_t)size * sizeof *t.board);
    t.boards = zr_alloc((size_t)size * sizeof *t.boards);
    ZR_CHECK(t.ranks && t.board && t.boards, ZR_ERR_MEMORY, "no memory for %d ranks", size);
    ZR_TRY(create_group(&t, size, &world));
    for (int r = 0; r < size; r++) {
        t.boards[r] = &t.board[r];
        world->names[r] = r;
        show_on_board(&world->ranks[r]);
    }
    enlist(&t, world);
    ZR_TRY(run_team(&t, world));
    return ZR_OK;
}
