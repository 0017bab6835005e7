/**
 * comm: moves bytes between ranks. It does not add numbers: a reduce-scatter is an exchange here, and its caller sums
 * the pieces as they arrive. The exception is one baseline, in which NCCL adds (zr_comm_reduce_scatter). One interface;
 * transports: threads, mpi. All calls are collective over the communicator, in the same order with the same sizes on
 * every rank, and block.
 *
 * Any thread may call, but never two at once in a communicator and all communicators split off it (under MPI: in any
 * two communicators). Ranks that share several communicators make all their calls
 * in one order: two ranks that begin with different communicators wait for each other forever.
 *
 * Failure of a peer is fatal: ZR_ERR_PEER or ZR_ERR_COMM, after which only abort and destroy are allowed, in every
 * communicator. Arguments number ranks as their communicator does, messages by their numbers in the world.
 */
#ifndef ZR_COMM_H
#define ZR_COMM_H

#include "zr/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Numbers of a rank in one call of zr_comm_scalars, at most. */
#define ZR_COMM_SCALARS 48

typedef struct zr_comm zr_comm;
struct zr__group;

/** Callback of an exchange, run on the calling thread for one stretch of the piece after the other:
 *       pieces[r] -> rank r's bytes [first_byte, first_byte + bytes) of its piece for this rank
 *  (this rank's own bytes lie in `send`). first_byte and bytes are multiples of the call's grain; first_byte is a
 *  multiple of 64, too, unless the staging memory has no room for a chunk that is a multiple of both. Together the
 *  stretches are the piece, so a piece of 0 bytes brings no call. The pointers are valid during the call, which must
 *  not call comm. It may write this rank's own piece up to the end of the stretch: no peer reads it. After a failure it
 *  is not called again; the exchange goes on to its end, so that the ranks stay in step, and returns the failure. */
typedef zr_status (*zr_comm_arrived_fn)(void *arg, int64_t first_byte, int64_t bytes, const void *const *pieces);

/** Copy functions used in place of memcpy where ranks share a memory that the processor cannot access (a GPU's). A copy
 *  may complete after `copy` returns; `finish` waits for all copies. */
typedef struct zr_comm_copier {
    zr_status (*copy)(void *arg, void *to, const void *from, int64_t bytes);
    zr_status (*finish)(void *arg);
    void *arg;
    void *stream; /* the cudaStream_t that orders the device's work; NULL: the device has none */
} zr_comm_copier;

/** Functions of a transport, one table for each; see src/comm/transport.h. */
typedef struct zr_comm_ops {
    void (*destroy)(zr_comm *comm);
    zr_status (*split)(zr_comm *comm, const struct zr__group *group, zr_comm **sub);
    zr_status (*staging)(zr_comm *comm, int64_t bytes);
    zr_status (*exchange)(zr_comm *comm, int to, const void *send, int64_t stride_bytes, int64_t piece_bytes,
                          int64_t grain_bytes, zr_comm_arrived_fn fn, void *arg);
    zr_status (*gather)(zr_comm *comm, int from, const void *mine, void *out, int64_t stride_bytes,
                        int64_t piece_bytes);
    zr_status (*reduce_scatter)(zr_comm *comm, void *data, zr_dtype dtype, int64_t piece_elems);
    zr_status (*scalars)(zr_comm *comm, const double *mine, int n);
    zr_status (*barrier)(zr_comm *comm);
    void (*cancel)(zr_comm *comm);
    void (*abort)(zr_comm *comm, int code);
    zr_status (*devices)(zr_comm *comm, const zr_comm_copier *copier);
} zr_comm_ops;

/** State of a rank that the other ranks of its host can read at any time. */
#define ZR_COMM_SHOWN 4
typedef struct zr_comm_board {
    uint64_t waits;                /* one more when a wait for other ranks begins, and when it ends: odd, it waits.
                                      Ranks whose groups are alike wait in one order: the least is behind */
    int64_t process;               /* process number on this host */
    uint64_t told;                 /* nonzero once a rank has claimed to tell why the job ends */
    uint64_t awaited;              /* in a long wait 1 + the world's number of a rank that it is for; 0: not known */
    uint64_t shown[ZR_COMM_SHOWN]; /* by index: what a rank shows of its progress */
} zr_comm_board;

struct zr_comm {
    const zr_comm_ops *ops;
    const char *transport; /* "self", "threads", "mpi" */
    int rank, size;
    int local_rank, local_size; /* rank and size within this host */
    const int *world_ranks;     /* (size): the ranks' numbers in the world; all ranks of a process share one table */
    unsigned char *staging;     /* (staging_bytes), this rank's own */
    int64_t staging_bytes;
    int64_t staging_taken_bytes; /* bytes really allocated for it */
    bool concurrent;       /* calls wait for a link: it pays to make them on a second thread beside the computing one */
    zr_traffic traffic;    /* counted where bytes move, reset freely by the owner */
    zr_comm_copier copier; /* copy NULL: the processor */
    zr_status copied;      /* status of the first copy that failed in the call in progress */
    const double *table;   /* (size, n): the numbers of all ranks from the last call of scalars, agree, same or split,
                              until the next; all ranks of a process share one table */
    double alone[ZR_COMM_SCALARS]; /* the table at size 1 */
    const void **pieces;           /* (size): scratch for the argument `pieces` of zr_comm_arrived_fn */
    zr_comm_board *board;          /* board of this rank; a group's ranks use their boards of the world */
    zr_comm_board **boards;        /* boards of the world's `n_boards` ranks; NULL: not seen, on another host */
    int n_boards;
    bool processes_seen; /* process numbers are valid across the host's ranks: these are not in separate containers */
};

/** Allocate this rank's staging memory: `bytes`, zeroed, 64-byte aligned, freed with the communicator or by the next
 *  call. Pieces pass through it in chunks, in two alternating halves, so its size does not bound the size of a piece:
 *  at least ZR_COMM_STAGING_LEAST * size bytes (none at size 1) serve any piece whose grain has 64 bytes or less. A
 *  longer grain needs 2 * size times its bytes, rounded up to 64. More staging makes fewer and longer chunks; a piece
 *  moves in one chunk from 2 * size * piece_bytes (rounded up to 64) on, and
 *      min(2 * size * the largest piece_bytes, max(4 MiB, size * 128 KiB))
 *  is a buffer of constant size. On a host with more ranks than cores each chunk costs a context switch, and more
 *  staging pays. */
#define ZR_COMM_STAGING_LEAST 128
/** Limit of the staging bytes in the host's memory where the pieces of `ranks` processes, and so the rest of the
 *  staging, are in memory of GPUs. */
#define ZR_COMM_STAGING_HOST(ranks) (((int64_t)1 << 20) + (int64_t)(ranks)*ZR_COMM_STAGING_LEAST)
ZR_API ZR_NODISCARD zr_status zr_comm_staging(zr_comm *comm, int64_t bytes, void **staging);

/** Give every rank its piece of every rank's buffer: fn gets rank r's bytes [send + rank*stride, + piece) of every r,
 *  stretch by stretch, while the next stretches are on their way. A grain is the unit that fn reads: an element, or a
 *  record of several. A piece is a whole number of grains, and so is each stretch. No peer reads a rank's own piece of
 *  `send`, so fn may write its result there; the pieces for the peers must stay unchanged until the call returns, and
 *  no longer. Needs staging. Traffic: (size-1) * piece_bytes, reduce_scatter. */
ZR_API ZR_NODISCARD zr_status zr_comm_exchange(zr_comm *comm, const void *send, int64_t stride_bytes,
                                               int64_t piece_bytes, int64_t grain_bytes, zr_comm_arrived_fn fn,
                                               void *arg);

/** Give the owner alone every rank's `send` (piece), in grains as in an exchange. fn is called on the owner only, and
 *  may be NULL elsewhere. No peer reads the owner's `send`; the others' must stay unchanged until the call returns.
 *  Needs staging. Traffic: (size-1) * piece_bytes on the owner, reduce_scatter. */
ZR_API ZR_NODISCARD zr_status zr_comm_collect(zr_comm *comm, int owner, const void *send, int64_t piece_bytes,
                                              int64_t grain_bytes, zr_comm_arrived_fn fn, void *arg);

/** Run NCCL's own reduce-scatter, as a baseline for an exchange and its sum: row r of every rank's `data` (size,
 *  piece_elems) is summed into row r of rank r; the other rows do not change. NCCL adds in this type (F32, BF16, F16)
 *  and in an order that it chooses, so the bits are not promised. For memory of GPUs and ranks that are processes;
 *  ZR_ERR_UNSUPPORTED elsewhere. With one rank nothing is left to sum. Needs no staging. Traffic:
 *  (size-1) * piece_elems * the type's bytes, reduce_scatter: as a ring receives it. */
ZR_API ZR_NODISCARD zr_status zr_comm_reduce_scatter(zr_comm *comm, void *data, zr_dtype dtype, int64_t piece_elems);

/** Copy the owner's `data` (bytes) into every rank's. Needs staging. Traffic: bytes on all ranks but the owner,
 *  all_gather. */
ZR_API ZR_NODISCARD zr_status zr_comm_broadcast(zr_comm *comm, int owner, void *data, int64_t bytes);

/** Give every rank every rank's piece: out[r*stride, +piece) = rank r's `mine` (piece). In place when mine == out +
 *  rank*stride; `mine` may not lie elsewhere in `out`. Needs staging. Traffic: (size-1) * piece_bytes, all_gather. */
ZR_API ZR_NODISCARD zr_status zr_comm_all_gather(zr_comm *comm, const void *mine, void *out, int64_t stride_bytes,
                                                 int64_t piece_bytes);

/** Give every rank the numbers of all: all[r*n + i] = rank r's mine[i]; 1 <= n <= ZR_COMM_SCALARS. comm->table has the
 *  same; with `all` NULL they are only there. Traffic: (size-1)*n*8, all_reduce. */
ZR_API ZR_NODISCARD zr_status zr_comm_scalars(zr_comm *comm, const double *mine, int n, double *all);

/** Wait for all ranks. No traffic is counted. */
ZR_API ZR_NODISCARD zr_status zr_comm_barrier(zr_comm *comm);

/** Agree on a status: each rank gives its own; all return ZR_OK if all gave it, else the status of the lowest rank that
 *  failed. A rank that failed keeps its message; other ranks get the lowest failed rank's, as "rank R: TEXT".
 *  Traffic is not counted. Used at a few points only: start, save, end of a step. */
ZR_API ZR_NODISCARD zr_status zr_comm_agree(zr_comm *comm, zr_status mine);

/** Split ranks into groups: ranks that give the same color (>= 0) form a communicator of their own, numbered by key,
 *  ranks of equal keys by their rank in `comm`. A rank whose color is < 0 is in no group: *sub = NULL. Every call does
 *  in a group the same as in the world, and in a group of one the same as in the communicator of zr_comm_create_self. A
 *  group has its own staging (none at first), traffic counters and tables, and may be split again. Its ranks share
 *  memory where they do in `comm`. Collective over `comm`; no traffic is counted. All ranks return the same status:
 *  where one has no memory (ZR_ERR_MEMORY), no rank gets a group. The caller owns `sub` and destroys it before `comm`;
 *  communicators split off a lent one (zr_comm_threads_run) are lent as well. Failure: a rank that fails, returns, is
 *  stopped or aborts in one of its communicators wakes the ranks that wait for it in any communicator (threads); under
 *  MPI its abort ends the job. */
ZR_API ZR_NODISCARD zr_status zr_comm_split(zr_comm *comm, int color, int key, zr_comm **sub);

/** Give up this rank: it cannot go on and will make no further call. Not collective. MPI: ends the job with exit code
 *  `code` and does not return; threads: the others fail with ZR_ERR_PEER. */
ZR_API void zr_comm_abort(zr_comm *comm, int code);

/** Destroy a communicator. Collective, except for communicators lent by zr_comm_threads_run and those split off them,
 *  which are freed when it returns. */
ZR_API void zr_comm_destroy(zr_comm **comm);

/* The board. These functions are not collective; any thread, and a signal handler too, may call them during any call.
 */

/** Create the communicator of one rank, without a transport. */
ZR_API ZR_NODISCARD zr_status zr_comm_create_self(zr_comm **comm);

/** Run fn on `size` threads of this process, each with its own rank; return, when all have returned, the first failing
 *  rank's status and message. A rank whose fn fails wakes the others, which then fail with ZR_ERR_PEER. */
typedef zr_status (*zr_rank_fn)(zr_comm *comm, void *arg);
ZR_API ZR_NODISCARD zr_status zr_comm_threads_run(int size, zr_rank_fn fn, void *arg);

/** Return the MPI launcher's rank count from its environment; 0: this process is not under an MPI launcher. */
ZR_API int zr_comm_mpi_launched(void);
/** Start MPI (argc, argv as main's) and create the world's communicator; zr_comm_mpi_stop stops MPI, at the end, after
 *  destroy; it does nothing when MPI is not running. An MPI that the program has initialised is used as it is; its
 *  owner then calls MPI_Finalize, not zr_comm_mpi_stop. ZR_ERR_UNSUPPORTED when the launcher's rank count differs from
 *  MPI's own size or zr was built without MPI. */
ZR_API ZR_NODISCARD zr_status zr_comm_mpi_start(int *argc, char ***argv, zr_comm **comm);
ZR_API void zr_comm_mpi_stop(void);

#ifdef __cplusplus
}
#endif
#endif
