/** Internals that the files of the MPI transport share: its communicator, errors and waits. */
#ifndef ZR_COMM_MPI_COMM_H
#define ZR_COMM_MPI_COMM_H

#include "comm/barrier.h"
#include "comm/nccl_comm.h"
#include "comm/transport.h"

#include <mpi.h>
#include <pthread.h>

/* Messages in flight for one chunk. */
typedef struct zr__flight {
    MPI_Request *request; /* (2 * size) */
    int *peer;            /* (2 * size): source or destination of each message */
    int n;
} zr__flight;

typedef struct zr__comm_mpi {
    zr_comm comm;
    MPI_Comm all, node; /* node: the ranks that share a window with this one */
    int node_size;
    int *node_rank; /* (size): a rank's number in my node, -1 when remote */
    int *names;     /* (size): comm.world_ranks */
    zr__flight flight[2];
    MPI_Status *statuses;  /* (2 * size) */
    double *scalars;       /* (1 + size, ZR_COMM_SCALARS): this rank's numbers, then all ranks', which are comm.table */
    bool unfinished;       /* a call of scalars has failed, and MPI may still write to `scalars` */
    int64_t chunk_bytes;   /* longest message, in bytes */
    MPI_Win shared_window; /* window of the barrier and, in the world's communicator, of the boards */
    zr__barrier *barrier;  /* NULL when the world has remote ranks */
    zr_comm_board **boards; /* the world's boards; `own_board` where no other rank shares this rank's memory */
    zr_comm_board own_board;
    MPI_Win staging_window; /* MPI_WIN_NULL when the node is this rank alone */
    unsigned char *staging; /* (staging_bytes): comm.staging, or for the host's memory alone */
    int64_t staging_bytes;
    unsigned char **stagings; /* (size): node peers' staging as this process sees it */
    int half;                 /* half of the staging for the next chunk; equal on all ranks */
    _Atomic bool cancelled;
    zr__nccl *nccl;               /* NCCL for pieces in memory of GPUs; NULL: without GPUs */
    int node_number;              /* number of this node among its host's nodes; a group's ranks have the world's */
    struct zr__comm_mpi *parent;  /* communicator that this one was split off; NULL: this is the world */
    struct zr__comm_mpi *parts;   /* first of the communicators split off this one */
    struct zr__comm_mpi *sibling; /* the next of the parent's parts */
    struct zr__comm_mpi *world;   /* the world from which this one descends, or this one itself */
    pthread_mutex_t lock;         /* the world's: guards all `parts` */
} zr__comm_mpi;

/** Return whether some ranks are outside this rank's node. The same on all ranks. */
static inline bool zr__mpi_has_remote(const zr__comm_mpi *me)
{
    return me->node_size < me->comm.size;
}

/** Fail with the text of an MPI error. */
zr_status zr__mpi_fail(int code, const char *call, zr_status status);

/** Make an MPI call that waits for other ranks. */
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

/** Wait for n requests, or until this rank is cancelled. peer[i]: rank that request i is for; NULL: no single rank. */
zr_status zr__mpi_finish(zr__comm_mpi *me, int n, MPI_Request *request, const int *peer);

/** Open the memory that a node's ranks share from the start: the boards of a world, and the sleeping barrier, where a
 *  node has all ranks and its world has no remote ranks. Collective. */
zr_status zr__mpi_open_shared(zr__comm_mpi *me);
void zr__mpi_close_shared(zr__comm_mpi *me);

/** Let MPI make progress during other waits. ZR_ERR_PEER when this rank is cancelled. */
zr_status zr__mpi_poll(zr_comm *comm);

/** Free the staging; collective over the node. */
void zr__mpi_drop_staging(zr__comm_mpi *me);
void zr__mpi_close_window(zr__comm_mpi *me, MPI_Win *window);

/* Rows of the transport's table. */
zr_status zr__mpi_staging(zr_comm *comm, int64_t bytes);
zr_status zr__mpi_exchange(zr_comm *comm, int to, const void *send, int64_t stride_bytes, int64_t piece_bytes,
                           int64_t grain_bytes, zr_comm_arrived_fn fn, void *arg);
zr_status zr__mpi_gather(zr_comm *comm, int from, const void *mine, void *out, int64_t stride_bytes,
                         int64_t piece_bytes);
zr_status zr__mpi_reduce_scatter(zr_comm *comm, void *data, zr_dtype dtype, int64_t piece_elems);
zr_status zr__mpi_scalars(zr_comm *comm, const double *mine, int n);
zr_status zr__mpi_barrier(zr_comm *comm);

#endif
