/*
 * Channels between processes with GPUs.
 *
 * A line goes from one rank to another. It has a stream, and an NCCL communicator of the two ranks. Messages of a line
 * pass one after the other, in the order in which both ranks begin them, and no line waits for another one: the
 * order in which a rank sends on two lines need not be the order in which the other rank receives. So the proof of the
 * lists (src/plan/check/check_roles.c) holds for them, too, as long as a GPU has room for the kernels of all lines and
 * of one collective at the same time. A kernel of a line that waits for its peer keeps few blocks busy.
 *
 * A message begins when the stream of the caller has come to it: the line's stream waits for an event of the caller's.
 * The end of a message is an event of the line's stream, for which the caller's stream waits. So the host waits for
 * nothing. Memory, connections and kernels that NCCL loads at its first call are taken by zr__nccl_connect.
 */
#include "base/core/core.h"
#include "comm/nccl_ranks.h"

#include <stdio.h>
#include <string.h>

/* Largest number of thread blocks of one line's kernel, and of the kernels of all lines of a rank. A few blocks have
 * the bandwidth of a link. */
enum { BLOCKS = 4, ALL_BLOCKS = 32 };

typedef struct line {
    struct line *next; /* next in the rank's list, which is sorted by `from`, `to` and `number` */
    int from, to;
    int number; /* number of the line among those from the same rank to the same other one */
    bool sends;
    int64_t bytes; /* bytes of its longest message */
    bool known;    /* whether `id` is known, which the sender gets */
    zr__nccl *nccl;
    cudaStream_t stream;
    ncclUniqueId id;
    ncclResult_t state;   /* NCCL's result when the communicator was created */
    char what[64];        /* name of the line's messages in error messages */
    uint64_t *awaits;     /* field of the board that shows for whom the rank waits */
    uint64_t shown;       /* what this line has written there; 0: nothing */
    int64_t begun, ended; /* messages whose begin, and whose end, was asked for; nccl->lock protects both */
} line;

/* An end of a channel. */
typedef struct end {
    zr__channel channel;
    struct end *next; /* next in the list of ends that are open */
    zr__nccl_lines *lines;
    line *line; /* NULL until zr__nccl_connect; channels that are not used at the same time may have the same */
    zr__route route;
    void *stream; /* the caller's */
    int64_t begun, ended;
    cudaEvent_t ready;    /* the caller's stream has come to the message that begins */
    cudaEvent_t passed[]; /* array of `depth` events, used in turn: a message has passed */
} end;

struct zr__nccl_lines {
    zr_comm *comm;
    zr__nccl_poll_fn poll;
    end *ends;
    line *list;
    int most; /* the largest number of lines that a rank has */
};

static int name_of(const line *l, int rank)
{
    return l->from == rank ? l->to : l->from;
}

/* ---- messages ------------------------------------------------------------------------------------ */

/* Issue a message to the line's stream, after all work that the caller's stream has. */
static zr_status issue(end *c, void *memory)
{
    line *l = c->line;
    zr__nccl *me = l->nccl;
    const size_t bytes = (size_t)c->route.bytes;
    ZR__TRY_GPU(me, cudaEventRecord(c->ready, c->stream));
    ZR__TRY_GPU(me, cudaStreamWaitEvent(l->stream, c->ready, 0));
    const ncclResult_t result = l->sends ? me->f.ncclSend(memory, bytes, ncclInt8, 1, me->ranks, l->stream)
                                         : me->f.ncclRecv(memory, bytes, ncclInt8, 0, me->ranks, l->stream);
    ZR_TRY(zr__nccl_await(me, result, l->what));
    ZR__TRY_GPU(me, cudaEventRecord(c->passed[c->begun % c->route.depth], l->stream));
    c->begun++;
    l->begun++;
    return ZR_OK;
}

static zr_status begin_message(zr__channel *channel, void *memory)
{
    end *c = (end *)channel;
    ZR_CHECK(c->begun - c->ended < c->route.depth, ZR_ERR_INTERNAL,
             "a channel of depth %d has %lld messages on their way", c->route.depth, (long long)(c->begun - c->ended));
    ZR_TRY(zr__nccl_begin_call(c->line->nccl));
    const zr_status st = issue(c, memory);
    pthread_mutex_unlock(&c->line->nccl->lock);
    return st;
}

static zr_status await_passed(end *c)
{
    ZR__TRY_GPU(c->line->nccl, cudaStreamWaitEvent(c->stream, c->passed[c->ended % c->route.depth], 0));
    c->ended++;
    c->line->ended++;
    return ZR_OK;
}

static zr_status end_message(zr__channel *channel)
{
    end *c = (end *)channel;
    ZR_TRY(zr__nccl_begin_call(c->line->nccl));
    const zr_status st = await_passed(c);
    pthread_mutex_unlock(&c->line->nccl->lock);
    if (st == ZR_OK && !c->line->sends)
        zr__traffic_count(&c->lines->comm->traffic, ZR_TRAFFIC_PIPELINE, c->route.bytes);
    return st;
}

/* Show on the board for whom the stream waits: all messages that have begun are awaited, and one has not passed. */
static void show_wait(void *arg)
{
    line *l = arg;
    if (!l->awaits) return;
    const bool waits = l->begun > 0 && l->begun == l->ended && cudaStreamQuery(l->stream) == cudaErrorNotReady;
    (void)cudaGetLastError();
    if (waits) {
        l->shown = ZR__STREAM_AWAITS | (1 + (uint64_t)l->nccl->comm->world_ranks[name_of(l, l->nccl->comm->rank)]);
        __atomic_store_n(l->awaits, l->shown, __ATOMIC_RELAXED);
    } else if (l->shown) {
        (void)__atomic_compare_exchange_n(l->awaits, &l->shown, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
        l->shown = 0;
    }
}

/* Close an end. A message is on its way only after a failure. Abort it then, so that the stream, and what waits for it,
 * goes on. */
static void close_end(zr__channel *channel)
{
    end *c = (end *)channel, **at = &c->lines->ends;
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    if (c->line && c->line->stream) {
        zr__nccl *me = c->line->nccl;
        pthread_mutex_lock(&me->lock);
        if (cudaStreamQuery(c->line->stream) == cudaErrorNotReady)
            (void)!zr__nccl_lose(me, ZR_FAIL(ZR_ERR_PEER, "a channel was closed with a message on its way"));
        (void)cudaGetLastError();
        c->line->awaits = NULL;
        pthread_mutex_unlock(&me->lock);
        (void)cudaStreamSynchronize(c->line->stream);
    }
    for (int i = 0; i < c->route.depth; i++)
        if (c->passed[i]) (void)cudaEventDestroy(c->passed[i]);
    if (c->ready) (void)cudaEventDestroy(c->ready);
    zr_free(c);
}

static bool make_event(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDisableTiming) == cudaSuccess;
}

zr_status zr__nccl_channel(zr_comm *comm, zr__nccl_lines **lines, const zr__route *route, const zr_comm_copier *copier,
                           zr__nccl_poll_fn poll, zr__channel **channel)
{
    if (!*lines) *lines = zr_alloc(sizeof **lines);
    end *c = *lines ? zr_alloc(sizeof *c + (size_t)route->depth * sizeof *c->passed) : NULL;
    ZR_CHECK(c, ZR_ERR_MEMORY, "no memory for a channel of %d messages", route->depth);
    (*lines)->comm = comm;
    (*lines)->poll = poll;
    c->channel = (zr__channel){.begin = begin_message, .end = end_message, .close = close_end};
    c->lines = *lines;
    c->route = *route;
    c->stream = copier->stream;
    c->next = (*lines)->ends;
    (*lines)->ends = c;
    bool made = make_event(&c->ready);
    for (int i = 0; i < route->depth && made; i++) made = make_event(&c->passed[i]);
    if (!made) close_end(&c->channel);
    ZR_CHECK(made, ZR_ERR_COMM, "rank %d: the GPU has no events for a channel", zr__comm_name(comm));
    *channel = &c->channel;
    return ZR_OK;
}

/* ---- lines --------------------------------------------------------------------------------------- */

/* Return the number of a channel's line. Both ends find the same: of the channels from one rank to the other with the
 * same walk, it counts those with a lower id. */
static int find_number(const end *c)
{
    int number = 0;
    for (const end *p = c->lines->ends; p; p = p->next)
        number += p->route.from == c->route.from && p->route.to == c->route.to && p->route.walk == c->route.walk &&
                  p->route.id < c->route.id;
    return number;
}

static bool is_before(const line *l, const end *c, int number)
{
    if (l->from != c->route.from) return l->from < c->route.from;
    return l->to != c->route.to ? l->to < c->route.to : l->number < number;
}

/* Find the line of a channel, or create it. */
static zr_status find_line(zr__nccl_lines *all, end *c)
{
    const int number = find_number(c);
    line **at = &all->list;
    while (*at && is_before(*at, c, number)) at = &(*at)->next;
    line *l = *at;
    if (!l || l->from != c->route.from || l->to != c->route.to || l->number != number) {
        ZR_CHECK(l = zr_alloc(sizeof *l), ZR_ERR_MEMORY, "no memory for a channel");
        l->next = *at;
        *at = l;
        l->from = c->route.from;
        l->to = c->route.to;
        l->number = number;
        l->sends = l->from == all->comm->rank;
        snprintf(l->what, sizeof l->what, "a message %s rank %d by NCCL", l->sends ? "to" : "from",
                 all->comm->world_ranks[name_of(l, all->comm->rank)]);
    }
    if (c->route.bytes > l->bytes) l->bytes = c->route.bytes;
    l->awaits = c->channel.awaits;
    c->line = l;
    return ZR_OK;
}

/* Take a line's stream, with the priority of communication, and its state of NCCL. */
static zr_status take_line(zr__nccl_lines *all, line *l, const zr__nccl *met)
{
    int least = 0, greatest = 0;
    zr_comm_copier copier = {.in_stream = true};
    l->nccl = zr__nccl_new(all->comm, &copier, all->poll);
    ZR_CHECK(l->nccl, ZR_ERR_MEMORY, "no memory for a channel");
    l->nccl->f = met->f;
    l->nccl->gpu = met->gpu;
    l->nccl->what = l->what;
    ZR__TRY_GPU(l->nccl, cudaDeviceGetStreamPriorityRange(&least, &greatest));
    ZR__TRY_GPU(l->nccl, cudaStreamCreateWithPriority(&l->stream, cudaStreamNonBlocking, greatest));
    l->nccl->copier.stream = l->stream;
    l->nccl->watched_fn = show_wait;
    l->nccl->watched_arg = l;
    if (!l->sends) return ZR_OK;
    const ncclResult_t got = l->nccl->f.ncclGetUniqueId(&l->id);
    l->known = got == ncclSuccess;
    return zr__nccl_await(l->nccl, got, "ncclGetUniqueId");
}

static zr_status take_lines(zr__nccl_lines *all, const zr__nccl *met)
{
    for (end *c = all->ends; c; c = c->next) ZR_TRY(find_line(all, c));
    for (line *l = all->list; l; l = l->next) {
        ZR_TRY(take_line(all, l, met));
        all->most++;
    }
    return ZR_OK;
}

/* What a rank tells the others of a line on which it sends. */
typedef struct letter {
    int lines;      /* number of the lines of the rank that sends the letter */
    int to, number; /* `to` is -1 if no more lines follow */
    int64_t bytes;
    ncclUniqueId id;
} letter;

enum { LETTER = sizeof(letter) / sizeof(double) };
_Static_assert(sizeof(letter) % sizeof(double) == 0 && LETTER <= ZR_COMM_SCALARS, "one call of scalars");

/* Take the id of a line from the letter of its sender, rank r. */
static zr_status take_id(zr__nccl_lines *all, int r, const letter *its)
{
    line *l = all->list;
    while (l && (l->from != r || l->to != its->to || l->number != its->number)) l = l->next;
    ZR_CHECK(l && l->bytes == its->bytes, ZR_ERR_INTERNAL, "ranks %d and %d open a channel with other sizes",
             all->comm->world_ranks[r], zr__comm_name(all->comm));
    l->id = its->id;
    l->known = true;
    return ZR_OK;
}

/* Tell all ranks the ids of this rank's lines, one after the other, and take those of lines on which it receives. */
static zr_status share_ids(zr__nccl_lines *all)
{
    const line *l = all->list;
    const int lines = all->most;
    zr_status st = ZR_OK;
    for (bool more = true; more;) {
        double words[LETTER];
        letter mine = {.lines = lines, .to = -1};
        while (l && !l->sends) l = l->next;
        if (l) mine = (letter){lines, l->to, l->number, l->bytes, l->id};
        if (l) l = l->next;
        memcpy(words, &mine, sizeof mine);
        ZR_TRY(all->comm->ops->scalars(all->comm, words, LETTER));
        more = false;
        for (int r = 0; r < all->comm->size; r++) {
            letter its;
            memcpy(&its, all->comm->table + r * LETTER, sizeof its);
            more |= its.to >= 0;
            if (its.lines > all->most) all->most = its.lines;
            if (st == ZR_OK && its.to == all->comm->rank) st = take_id(all, r, &its);
        }
    }
    for (l = all->list; l && st == ZR_OK; l = l->next)
        if (!l->known) st = ZR_FAIL(ZR_ERR_INTERNAL, "rank %d opens no channel to rank %d", l->from, l->to);
    return st;
}

/* Create the communicators of all lines at once, because ranks have them in different orders. */
static zr_status create_all(zr__nccl_lines *all)
{
    const int each = ALL_BLOCKS / all->most;
    const int blocks = each < 1 ? 1 : each < BLOCKS ? each : BLOCKS;
    bool waits = true;
    for (line *l = all->list; l; l = l->next) l->state = zr__nccl_init(l->nccl, 2, l->sends ? 0 : 1, &l->id, blocks);
    for (int polls = 0; waits; polls++) {
        waits = false;
        for (line *l = all->list; l; l = l->next) {
            if (l->state == ncclInProgress) l->state = zr__nccl_state(l->nccl);
            if (l->state != ncclInProgress) ZR_TRY(zr__nccl_await(l->nccl, l->state, "ncclCommInitRankConfig"));
            waits |= l->state == ncclInProgress;
        }
        ZR_TRY(all->poll(all->comm, true));
        zr__comm_relax(polls);
    }
    return ZR_OK;
}

/* Pass a longest message on each line, so that NCCL takes its memory now. All ranks go through their lines in the same
 * order, so the first line that has not passed its message is the next one of both its ranks. */
static zr_status pass_first(zr__nccl_lines *all, void *memory)
{
    for (line *l = all->list; l; l = l->next) {
        zr__nccl *me = l->nccl;
        const size_t bytes = (size_t)l->bytes;
        const ncclResult_t result = l->sends ? me->f.ncclSend(memory, bytes, ncclInt8, 1, me->ranks, l->stream)
                                             : me->f.ncclRecv(memory, bytes, ncclInt8, 0, me->ranks, l->stream);
        ZR_TRY(zr__nccl_await(me, result, l->what));
        ZR_TRY(zr__nccl_await_stream(me, l->what));
        ZR_TRY(zr__nccl_watch(me));
    }
    return ZR_OK;
}

zr_status zr__nccl_connect(zr_comm *comm, zr__nccl_lines *lines, void *memory)
{
    const zr_comm_copier none = {0};
    zr__nccl_lines empty = {.comm = comm}, *all = lines ? lines : &empty;
    ZR_AUTO(zr__nccl_destroy) zr__nccl *met = zr__nccl_new(comm, &none, all->poll);
    ZR_TRY(zr__nccl_meet(comm, met, false));
    ZR_TRY(zr_comm_agree(comm, take_lines(all, met)));
    ZR_TRY(zr_comm_agree(comm, share_ids(all)));
    ZR_TRY(zr_comm_agree(comm, lines ? create_all(all) : ZR_OK));
    return zr_comm_agree(comm, pass_first(all, memory));
}

zr_status zr__nccl_lines_failure(const zr__nccl_lines *lines)
{
    zr_status st = ZR_OK;
    for (const line *l = lines ? lines->list : NULL; l && st == ZR_OK; l = l->next)
        if (l->nccl) st = zr__nccl_failure(l->nccl);
    return st;
}

void zr__nccl_lines_destroy(zr__nccl_lines **lines)
{
    if (!*lines) return;
    for (line *l = (*lines)->list, *next; l; l = next) {
        next = l->next;
        zr__nccl_destroy(&l->nccl);
        if (l->stream) (void)cudaStreamDestroy(l->stream);
        zr_free(l);
    }
    zr_free(*lines);
    *lines = NULL;
}
