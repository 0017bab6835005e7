/** The MPI transport, internal: the communicator, errors and waits that its files share. */
#ifndef ZR_COMM_MPI_COMM_H
#define ZR_COMM_MPI_COMM_H

#include "comm/barrier.h"
#include "comm/nccl_comm.h"
#include "comm/transport.h"

#include <mpi.h>
#include <pthread.h>

/* The messages of one chunk that have not completed. */
typedef struct zr__flight {
    MPI_Request *request; /* (2 * size) sends and receives */
    int *peer;            /* (2 * size) source or destination rank of each message */
    int n;
} zr__flight;

typedef struct zr__comm_mpi {
    zr_comm comm;
    MPI_Comm all, node; /* MPI's communicators: all ranks, and the ranks that share a window with this one */
    int node_size;
    int *node_rank; /* (size) each rank's number within this rank's node, or -1 if that rank is remote */
    int *names;     /* (size) the ranks' numbers in the world, to which comm.world_ranks points */
    zr__flight flight[2];
    MPI_Status *statuses;  /* (2 * size) statuses of the requests */
    double *scalars;       /* (1 + size, ZR_COMM_SCALARS) this rank's numbers, then comm.table */
    bool unfinished;       /* whether a call of scalars has failed, so that MPI may still write to `scalars` */
    int64_t chunk_bytes;   /* length of the longest message, in bytes */
    MPI_Win shared_window; /* window of the sleeping barrier and, in the world's communicator, of the boards */
    /* The node's sleeping barrier. NULL if the world has remote ranks, or if the node has only one rank. */
    zr__barrier *barrier;
    zr_comm_board **boards; /* the world's boards; this rank's is `own_board` if no other rank shares its memory */
    zr_comm_board own_board;
    MPI_Win staging_window; /* window of the staging, or MPI_WIN_NULL when the node is this rank alone */
    unsigned char *staging; /* (staging_bytes) staging in the host's memory; comm.staging may be NCCL's instead */
    int64_t staging_bytes;
    unsigned char **stagings; /* (size) address of each node peer's staging in this process */
    int half;                 /* half of the staging for the next chunk, 0 or 1; equal on all ranks */
    _Atomic bool cancelled;
    zr__nccl *nccl;  /* NCCL for pieces in memory of GPUs, or NULL without GPUs */
    int node_number; /* index of this node among its host's nodes; a split communicator has the world's index */
    struct zr__comm_mpi *parent;  /* communicator that this one was split off, or NULL if this one is the world */
    struct zr__comm_mpi *parts;   /* first in the list of communicators split off this one */
    struct zr__comm_mpi *sibling; /* next communicator in the parent's list of `parts` */
    struct zr__comm_mpi *world;   /* the world that this communicator is, or was split from */
    pthread_mutex_t lock;         /* guards `parts` of all communicators; only the world's lock is used */
} zr__comm_mpi;

/** Return whether some ranks are outside this rank's node. All ranks get the same result. */
static inline bool zr__mpi_has_remote(const zr__comm_mpi *me)
{
    return me->node_size < me->comm.size;
}

/** Fail with `status` and the text of an MPI error. */
zr_status zr__mpi_fail(int code, const char *call, zr_status status);

/** Make an MPI call that waits for other ranks, and mark the wait on the board. */
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

/** Open the memory that a node's ranks share from the start: the boards if `me` is the world, and the sleeping barrier
 * if the world has no remote ranks. Collective. */
zr_status zr__mpi_open_shared(zr__comm_mpi *me);
void zr__mpi_close_shared(zr__comm_mpi *me);

/** Let MPI make progress during a wait outside MPI. Return ZR_ERR_PEER if this rank is cancelled. */
zr_status zr__mpi_poll(zr_comm *comm);

/** Free the staging. Collective over the node. */
void zr__mpi_drop_staging(zr__comm_mpi *me);
void zr__mpi_close_window(zr__comm_mpi *me, MPI_Win *window);

/* Functions for the transport's table of operations (zr_comm_ops). */
zr_status zr__mpi_staging(zr_comm *comm, int64_t bytes);
zr_status zr__mpi_exchange(zr_comm *comm, int to, const void *send, int64_t stride_bytes, int64_t piece_bytes,
                           int64_t grain_bytes, zr_comm_arrived_fn fn, void *arg);
zr_status zr__mpi_gather(zr_comm *comm, int from, const void *mine, void *out, int64_t stride_bytes,
                         int64_t piece_bytes);
zr_status zr__mpi_reduce_scatter(zr_comm *comm, void *data, zr_dtype dtype, int64_t piece_elems);
zr_status zr__mpi_scalars(zr_comm *comm, const double *mine, int n);
zr_status zr__mpi_barrier(zr_comm *comm);

#endif
