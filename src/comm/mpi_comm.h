/** Internal header of the MPI transport: the communicator, errors and waits that its files share. */
#ifndef ZR_COMM_MPI_COMM_H
#define ZR_COMM_MPI_COMM_H

#include "comm/barrier.h"
#include "comm/nccl_comm.h"
#include "comm/transport.h"

#include <mpi.h>
#include <pthread.h>

/* Messages of one chunk that have not completed. */
typedef struct zr__flight {
    MPI_Request *request; /* array of 2 * size requests of sends and receives */
    int *peer;            /* array of 2 * size ranks: source or destination of each message */
    int n;
} zr__flight;

typedef struct zr__comm_mpi {
    zr_comm comm;
    MPI_Comm all, node; /* MPI communicators: of all ranks, and of the ranks that share a window with this rank */
    int node_size;
    int *node_rank; /* array of `size` numbers: each rank's number within this rank's node; -1 for remote ranks */
    int *names;     /* array of `size` world numbers of the ranks; comm.world_ranks points here */
    zr__flight flight[2];
    MPI_Status *statuses;  /* array of 2 * size statuses, one for each request */
    double *scalars;       /* array of (1 + size) * ZR_COMM_SCALARS numbers: this rank's numbers, then comm.table */
    bool unfinished;       /* whether a call of zr__mpi_scalars has failed; MPI may then still write to `scalars` */
    int64_t chunk_bytes;   /* maximum length of a message, in bytes */
    MPI_Win shared_window; /* window of the sleeping barrier; the world's window also contains the boards */
    /* The node's sleeping barrier. NULL if the world has remote ranks, or if the node has only one rank. */
    zr__barrier *barrier;
    /* Boards of the world's ranks. If this rank shares no memory with other ranks, its board is `own_board`. */
    zr_comm_board **boards;
    zr_comm_board own_board;
    char folder[256];       /* in the world: the folder of the windows' files, or "" if they have none */
    MPI_Win staging_window; /* window of the staging; MPI_WIN_NULL if this rank is alone on the node */
    /* staging_bytes bytes of staging in the host's memory; comm.staging may instead be NCCL's staging */
    unsigned char *staging;
    int64_t staging_bytes;
    unsigned char **stagings; /* array of `size` addresses in this process: the staging of each rank of the node */
    int half;                 /* half of the staging that the next chunk uses, 0 or 1; equal on all ranks */
    /* whether this rank no longer waits in this communicator: zr__comm_cancel was called, or a call has lost a peer */
    _Atomic bool cancelled;
    zr__nccl *nccl;              /* NCCL state for pieces in memory of GPUs, or NULL */
    zr__nccl_lines *lines;       /* NCCL's channels that were connected last, or NULL; the world's `lock` protects it */
    int node_number;             /* index of this node within its host; split communicators copy the world's index */
    struct zr__comm_mpi *parent; /* communicator from which this one was split; NULL for the world */
    struct zr__comm_mpi *parts;  /* head of the list of communicators split off this one */
    struct zr__comm_mpi *sibling; /* next communicator in the parent's list `parts` */
    struct zr__comm_mpi *world;   /* the world's communicator, from which this one was split directly or indirectly */
    pthread_mutex_t lock;         /* mutex for `parts` of all communicators; only the world's mutex is used */
    /* The following fields are used only in the world's communicator. */
    pthread_mutex_t turn;         /* held by the thread that is in MPI (zr__mpi_enter); mutex for the fields below */
    pthread_cond_t more;          /* signal to the courier: a message has begun, or `courier_runs` has changed */
    pthread_cond_t moved;         /* the courier's signal: a message has completed */
    struct zr__far_end *far_ends; /* list of the open ends of channels to other nodes */
    pthread_t courier;
    bool courier_runs;
} zr__comm_mpi;

/** Return whether some ranks are outside this rank's node. The result is the same on all ranks. */
static inline bool zr__mpi_has_remote(const zr__comm_mpi *me)
{
    return me->node_size < me->comm.size;
}

/** Return whether this rank no longer waits for other ranks in this communicator: it was cancelled, or the rank has
 * failed alone (zr__comm_fail). */
static inline bool zr__mpi_is_alone(const zr__comm_mpi *me)
{
    return atomic_load_explicit(&me->cancelled, memory_order_relaxed) ||
           __atomic_load_n(&me->comm.board->failed, __ATOMIC_RELAXED) != 0;
}

/** Fail with `status` and MPI's text for an error code. */
zr_status zr__mpi_fail(int code, const char *call, zr_status status);

/** Take turns in MPI: most MPI libraries are started for one call at a time, but queues of steps and the courier
 * (mpi_channel.c) are threads. Calls that only begin and end engines and communicators need no turn, since no message
 * is on its way during them. */
static inline void zr__mpi_enter(zr__comm_mpi *me)
{
    pthread_mutex_lock(&me->world->turn);
}

static inline void zr__mpi_leave(zr__comm_mpi *me)
{
    pthread_mutex_unlock(&me->world->turn);
}

/** Make an MPI call in turn. */
#define ZR__TRY_MPI_TURN(me, call)                                                                                     \
    do {                                                                                                               \
        zr__mpi_enter(me);                                                                                             \
        const int turn_code_ = (call);                                                                                 \
        zr__mpi_leave(me);                                                                                             \
        if (turn_code_ != MPI_SUCCESS) ZR_TRY(zr__mpi_fail(turn_code_, #call, ZR_ERR_COMM));                           \
    } while (0)

/** Make an MPI call that waits for other ranks. Mark the wait on the board. */
#define ZR__MPI_WAIT(me, code, call)                                                                                   \
    do {                                                                                                               \
        zr__comm_wait(&(me)->comm);                                                                                    \
        (code) = (call);                                                                                               \
        zr__comm_wait(&(me)->comm);                                                                                    \
    } while (0)

#define ZR__TRY_MPI(call)                                                                                              \
    do {                                                                                                               \
        int code_ = (call);                                                                                            \
        if (code_ != MPI_SUCCESS) ZR_TRY(zr__mpi_fail(code_, #call, ZR_ERR_COMM));                                     \
    } while (0)

/** Wait for n requests, or until this rank is cancelled. peer[i] is the rank with which request i communicates. `peer`
 * is NULL if the requests have no single peer. */
zr_status zr__mpi_finish(zr__comm_mpi *me, int n, MPI_Request *request, const int *peer);

/** Open the memory that the ranks of a node share. This memory contains the boards if `me` is the world, and the
 * sleeping barrier if the world has no remote ranks. Collective. */
zr_status zr__mpi_open_shared(zr__comm_mpi *me);
void zr__mpi_close_shared(zr__comm_mpi *me);
/** Check that the host has room for the memory of zr__mpi_open_shared in all parts that are about to be split off `me`.
 * `joins` says whether this rank joins a part. Collective over the node. All ranks of the node return the same status.
 */
zr_status zr__mpi_check_parts(zr__comm_mpi *me, bool joins);

/** Return ZR_ERR_PEER if this rank is cancelled. With `progress`, let MPI make progress during a wait outside MPI. */
zr_status zr__mpi_poll(zr_comm *comm, bool progress);

/** Return whether MPI has been started and not stopped. */
bool zr__mpi_runs(void);

/** Pause between two polls of a wait. */
void zr__mpi_relax(const zr__comm_mpi *me, int polls);

/** Cancel n requests of a call that has failed. Otherwise a message could arrive in memory that has been freed. */
void zr__mpi_cancel(int n, MPI_Request *request);

/** Open a window in which each rank of the node has `bytes` bytes. Collective over the node, and so is closing it. */
zr_status zr__mpi_open_window(zr__comm_mpi *me, int64_t bytes, MPI_Win *window);
void zr__mpi_close_window(zr__comm_mpi *me, MPI_Win *window);
/** Find the beginning of a rank's part of a window. `r` is its number in the node. */
zr_status zr__mpi_window_part(MPI_Win window, int r, unsigned char **part);
/** Find the bytes that were allocated for a rank's part of a window. `wanted` bytes were wanted. */
zr_status zr__mpi_window_bytes(MPI_Win window, int r, int64_t wanted, int64_t *taken);
/** Allocate the pages of memory in a window, and fill it with zeros. */
zr_status zr__mpi_take_pages(const zr__comm_mpi *me, unsigned char *memory, int64_t bytes);

/** Free the staging. Collective over the node. */
void zr__mpi_drop_staging(zr__comm_mpi *me);

/* Functions of the MPI transport for zr_comm_ops. */
zr_status zr__mpi_staging(zr_comm *comm, int64_t bytes);
zr_status zr__mpi_room(zr_comm *comm, zr_comm *const *group, const int64_t *bytes, int n);
zr_status zr__mpi_exchange(zr_comm *comm, const void *send, int64_t stride_bytes, int64_t piece_bytes,
                           int64_t grain_bytes, zr_comm_arrived_fn fn, void *arg);
zr_status zr__mpi_gather(zr_comm *comm, const void *mine, void *out, int64_t stride_bytes, int64_t piece_bytes);
zr_status zr__mpi_reduce_scatter(zr_comm *comm, void *data, zr_dtype dtype, int64_t piece_elems);
zr_status zr__mpi_scalars(zr_comm *comm, const double *mine, int n);
zr_status zr__mpi_barrier(zr_comm *comm);
zr_status zr__mpi_mail(zr_comm *comm, int64_t bytes, zr__mail **mail);
void zr__mpi_end_mail(zr__mail *mail);
zr_status zr__mpi_channel(zr_comm *comm, zr__mail *mail, const zr__route *route, const zr_comm_copier *copier,
                          zr__channel **channel);
zr_status zr__mpi_connect(zr__mail *mail, void *memory);

#endif
