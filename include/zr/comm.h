/**
 * comm: bytes between ranks. It moves bytes and never adds them (a reduce-scatter is an exchange
 * here, whose sum the caller makes as the pieces come), but for one baseline, in which NCCL adds
 * (zr_comm_reduce_scatter). One interface; transports: threads, mpi.
 * All calls are collective over the communicator, in the same order with the same sizes on every
 * rank, and block.
 *
 * Any thread may call, but never two at once in a communicator and all that were split off it (nor in
 * any two of MPI); only zr_comm_cancel may come beside a call. Ranks that share several communicators
 * make the calls of all of them in one order: two that begin with different ones wait for each other.
 *
 * Failure of a peer is fatal: ZR_ERR_PEER or ZR_ERR_COMM, after which only abort and destroy are
 * allowed, in every communicator. Arguments number ranks as their communicator does, messages by
 * their numbers in the world.
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

/** Called during an exchange, on the calling thread, for one stretch of the piece after the other:
 *      pieces[r] -> rank r's bytes [first_byte, first_byte + bytes) of its piece for this rank
 *  (the own ones in `send`). first_byte and bytes are multiples of the call's grain; first_byte is one
 *  of 64, too, unless the staging has no room for a chunk that is a multiple of both. Together the
 *  stretches are the piece, so one of 0 bytes brings no call. The pointers are valid during the call, which must not
 *  call comm. It may write the own piece up to the end of this stretch: no peer reads that.
 *  When it fails it is not called again; the exchange goes on to its end (the ranks stay in step)
 *  and returns that failure. */
typedef zr_status (*zr_comm_arrived_fn)(void *arg, int64_t first_byte, int64_t bytes, const void *const *pieces);

/** Who copies where ranks share their memory, in place of the processor: a device whose memory that cannot touch. A
 * copy may happen after it returns; finish waits for all. */
typedef struct zr_comm_copier {
    zr_status (*copy)(void *arg, void *to, const void *from, int64_t bytes);
    zr_status (*finish)(void *arg);
    void *arg;
    void *stream; /* what the device's work is ordered by: a cudaStream_t; NULL: nothing such */
} zr_comm_copier;

/** A transport is one table; see src/comm/transport.h. */
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

/** What a rank shows of itself to the ranks of its host, which may look at any time. */
#define ZR_COMM_SHOWN 4
typedef struct zr_comm_board {
    uint64_t waits;                /* one more when a wait for other ranks begins, and when it ends: odd, it waits.
                                      Ranks whose groups are alike wait in one order: the least is behind */
    int64_t process;               /* its number on this host */
    uint64_t told;                 /* zr_comm_first: not 0 once it is */
    uint64_t awaited;              /* in a long wait 1 + the world's number of a rank that it is for; 0: not known */
    uint64_t shown[ZR_COMM_SHOWN]; /* zr_comm_show */
} zr_comm_board;

struct zr_comm {
    const zr_comm_ops *ops;
    const char *transport; /* "self", "threads", "mpi" */
    int rank, size;
    int local_rank, local_size; /* among its ranks on this host */
    const int *world_ranks;     /* (size): their numbers in the world; all ranks of a process have one table */
    unsigned char *staging;     /* (staging_bytes), this rank's own */
    int64_t staging_bytes;
    int64_t staging_taken_bytes; /* what was really taken for it */
    bool concurrent;       /* calls wait for a link: it pays to make them on a second thread beside the computing one */
    zr_traffic traffic;    /* counted where bytes move, reset freely by the owner */
    zr_comm_copier copier; /* copy NULL: the processor */
    zr_status copied;      /* of the call in progress: its first copy that failed */
    const double *table;   /* (size, n): everyone's numbers of the last call of scalars, agree, same or split, until the
                              next; all ranks of a process have one */
    double alone[ZR_COMM_SCALARS]; /* the table at size 1 */
    const void **pieces;           /* (size): what zr_comm_arrived_fn is given */
    zr_comm_board *board;          /* this rank's; a group's ranks have the world's */
    zr_comm_board **boards;        /* of the world's `n_boards` ranks; NULL: of another host, not seen from here */
    int n_boards;
    bool processes_seen; /* their numbers mean the same here: not in containers apart */
};

/** Make this rank's staging memory: `bytes`, zeroed, 64-byte aligned, freed with the communicator or
 *  by the next call. Pieces pass through it in chunks, in two halves by turns, so its size bounds
 *  no piece: at least ZR_COMM_STAGING_LEAST * size bytes (none at size 1) serve any whose grain has
 *  64 bytes or less. A longer grain wants 2 * size times its bytes, rounded up to 64. More makes
 *  fewer and longer chunks; a piece goes in one from 2 * size * piece_bytes (rounded up to 64) on, and
 *      min(2 * size * the largest piece_bytes, max(4 MiB, size * 128 KiB))
 *  is a buffer of constant size. On a host whose ranks outnumber its cores each chunk costs a
 *  change of turns, and more staging pays. */
#define ZR_COMM_STAGING_LEAST 128
/** Where the pieces of `ranks` processes are in memory of GPUs, so is the staging, but for at most so much. */
#define ZR_COMM_STAGING_HOST(ranks) (((int64_t)1 << 20) + (int64_t)(ranks)*ZR_COMM_STAGING_LEAST)
ZR_API ZR_NODISCARD zr_status zr_comm_staging(zr_comm *comm, int64_t bytes, void **staging);

/** From now on the pieces of this rank's calls are copied so; NULL: by the processor again. All ranks do it or none.
 *  Where some are of other processes, pieces in memory of GPUs go by NCCL from now on, those in the host's memory as
 *  before. Each communicator has NCCL begin anew: the first call with a copier is collective then, takes seconds,
 *  wants a stream of the calling thread's current GPU, and leaves no staging (staging_bytes 0). Staging is then
 *  memory of the GPU, but for ZR_COMM_STAGING_HOST: a piece goes through it in one chunk from (size - 1) * piece_bytes
 *  on. Later copiers are of the same GPU. The call with NULL is not collective; it leaves the small part, as
 *  staging_bytes says. ZR_ERR_UNSUPPORTED, on all ranks alike: NCCL is not there, or two of the processes have one
 *  GPU. What is split off begins without. */
ZR_API ZR_NODISCARD zr_status zr_comm_copy_with(zr_comm *comm, const zr_comm_copier *copier);

/** Everyone gets its piece of everyone's buffer: fn is given rank r's bytes
 *  [send + rank*stride, + piece) of every r, stretch by stretch, while the next ones are on their
 *  way. A grain is what fn reads as one: an element, or a record of several. A piece has a whole
 *  number of them, and so has each stretch. No rank's own piece of `send` is read by a peer, so fn
 *  may write its result there; what is for the peers must stay until the call returns, and no longer.
 *  Needs staging.
 *  Traffic: (size-1) * piece_bytes, reduce_scatter. */
ZR_API ZR_NODISCARD zr_status zr_comm_exchange(zr_comm *comm, const void *send, int64_t stride_bytes,
                                               int64_t piece_bytes, int64_t grain_bytes, zr_comm_arrived_fn fn,
                                               void *arg);

/** The owner alone gets everyone's `send` (piece), in grains as in an exchange. fn is called there only, and may be
 *  NULL elsewhere. Its own `send` is read by no peer; the others' must stay until the call returns. Needs staging.
 *  Traffic: (size-1) * piece_bytes on the owner, reduce_scatter. */
ZR_API ZR_NODISCARD zr_status zr_comm_collect(zr_comm *comm, int owner, const void *send, int64_t piece_bytes,
                                              int64_t grain_bytes, zr_comm_arrived_fn fn, void *arg);

/** What others call a reduce-scatter: NCCL's own, to measure an exchange and its sum against. Of everyone's `data`
 *  (size, piece_elems) row r is summed into rank r's; the other rows stay as they are. NCCL adds in this type
 *  (F32, BF16, F16) and in an order that it chooses, so the bits are not promised. In memory of GPUs, of ranks that
 *  are processes (zr_comm_copy_with); ZR_ERR_UNSUPPORTED elsewhere. One rank alone has its sum. No staging.
 *  Traffic: (size-1) * piece_elems * the type's bytes, reduce_scatter: as a ring receives it. */
ZR_API ZR_NODISCARD zr_status zr_comm_reduce_scatter(zr_comm *comm, void *data, zr_dtype dtype, int64_t piece_elems);

/** The owner's `data` (bytes) goes into everyone's. Needs staging.
 *  Traffic: bytes on all but the owner, all_gather. */
ZR_API ZR_NODISCARD zr_status zr_comm_broadcast(zr_comm *comm, int owner, void *data, int64_t bytes);

/** Everyone gets everyone's piece: out[r*stride, +piece) = rank r's `mine` (piece). In place when
 *  mine == out + rank*stride; elsewhere in `out` it may not lie. Needs staging.
 *  Traffic: (size-1) * piece_bytes, all_gather. */
ZR_API ZR_NODISCARD zr_status zr_comm_all_gather(zr_comm *comm, const void *mine, void *out, int64_t stride_bytes,
                                                 int64_t piece_bytes);

/** all[r*n + i] = rank r's mine[i]; 1 <= n <= ZR_COMM_SCALARS. comm->table has the same, and NULL for `all` leaves them
 *  there alone. Traffic: (size-1)*n*8, all_reduce. */
ZR_API ZR_NODISCARD zr_status zr_comm_scalars(zr_comm *comm, const double *mine, int n, double *all);

/** Wait for all. No traffic is counted. */
ZR_API ZR_NODISCARD zr_status zr_comm_barrier(zr_comm *comm);

/** Do all ranks stand well? Each gives its status; all return the same: ZR_OK when all are, else the
 *  status of the lowest rank that failed. A rank that failed keeps its message, elsewhere that rank's
 *  is given, as "rank R: TEXT". Traffic is not counted. Named points only: start, save, end of step. */
ZR_API ZR_NODISCARD zr_status zr_comm_agree(zr_comm *comm, zr_status mine);

/** Do all ranks hold the same 64-bit number? ZR_ERR_CONFIG naming the odd ranks and `what`. */
ZR_API ZR_NODISCARD zr_status zr_comm_same(zr_comm *comm, const char *what, uint64_t mine);

/** Groups of ranks: those that give the same color (>= 0) form a communicator of their own, numbered by
 *  key, ranks of equal keys by their rank in `comm`. A rank whose color is < 0 is in none: *sub = NULL.
 *  Every call does in a group what it does in the world, and in a group of one what it does in
 *  zr_comm_create_self's. A group has its own staging (none at first), traffic counters and tables,
 *  and may be split again. Its ranks share memory where they do in `comm`.
 *  Collective over `comm`; no traffic is counted. All ranks return the same status: where one has no
 *  memory (ZR_ERR_MEMORY), no rank gets a group.
 *  The caller owns `sub` and destroys it before `comm`; what was split off threads is lent as they are.
 *  Failure: a rank that fails, returns, is stopped or aborts (in any of its communicators) wakes those
 *  that wait for it in any of them (threads); its abort in any of them ends the job (MPI). */
ZR_API ZR_NODISCARD zr_status zr_comm_split(zr_comm *comm, int color, int key, zr_comm **sub);

/** Not collective, from any thread: this rank's call that waits now, and every later one, returns
 *  ZR_ERR_PEER soon ("stopped"). It is for a computing thread that failed while another of its rank
 *  is in a call: join that one, then free what the call was given. What was split off `comm` is stopped
 *  with it; under threads everything of this rank is, under MPI nothing else. Peers hear of it as of
 *  an abort (threads; MPI ranks that share a window, in a world where all do), or keep waiting until
 *  this rank aborts (other MPI ranks). Under MPI what has been sent for may still come: abort then,
 *  or leave the memory in place until zr_comm_destroy. One rank alone never waits: nothing happens. */
ZR_API void zr_comm_cancel(zr_comm *comm);

/** Not collective: this rank cannot go on and will make no further call. MPI: ends the job with exit
 *  code `code` and does not return; threads: the others fail with ZR_ERR_PEER. */
ZR_API void zr_comm_abort(zr_comm *comm, int code);

/** Collective, but for communicators lent by zr_comm_threads_run and what was split off them, which are
 *  freed when it returns. */
ZR_API void zr_comm_destroy(zr_comm **comm);

/* The board. None of these is collective, and any thread may call them beside any call, a signal handler too. */

/** Show a number to those who look; costs a store. */
ZR_API void zr_comm_show(zr_comm *comm, int i, uint64_t number);
/** What the world's rank `rank` shows; false: it is of another host and cannot be seen. */
ZR_API bool zr_comm_look(const zr_comm *comm, int rank, zr_comm_board *board);
/** The world's lowest rank whose process has ended, as far as this host's can be seen; -1: none. Nobody should look
 *  once ranks end because all is done. */
ZR_API int zr_comm_gone(const zr_comm *comm);
/** Of its ranks, how many are in this process, this one included: all where ranks are threads, else 1. */
ZR_API int zr_comm_process_ranks(const zr_comm *comm);
/** One rank of a host tells why the job ends: is it this one, the first to ask? */
ZR_API bool zr_comm_first(zr_comm *comm);
/** Has a rank of this host asked so? */
ZR_API bool zr_comm_told(const zr_comm *comm);

/** One rank, no transport. */
ZR_API ZR_NODISCARD zr_status zr_comm_create_self(zr_comm **comm);

/** Run fn on `size` threads of this process, each with its own rank; returns when all have returned:
 *  the first failing rank's status and message. A rank whose fn fails wakes the others, which
 *  then fail with ZR_ERR_PEER. */
typedef zr_status (*zr_rank_fn)(zr_comm *comm, void *arg);
ZR_API ZR_NODISCARD zr_status zr_comm_threads_run(int size, zr_rank_fn fn, void *arg);

/** MPI: start (argc, argv as main's), the world's communicator, stop. Is this process under an MPI
 *  launcher? The launcher's rank count from its environment, 0 when there is none; ZR_ERR_UNSUPPORTED
 *  from create when it differs from MPI's own size or zr was built without MPI. */
ZR_API int zr_comm_mpi_launched(void);
/** An MPI that the program has initialised is used as it is; its owner then calls MPI_Finalize, not
 *  zr_comm_mpi_stop. stop: after destroy, at the end; nothing happens when MPI is not running. */
ZR_API ZR_NODISCARD zr_status zr_comm_mpi_start(int *argc, char ***argv, zr_comm **comm);
ZR_API void zr_comm_mpi_stop(void);
/** The MPI library's version line, "" without MPI. */
ZR_API const char *zr_comm_mpi_version(void);

#ifdef __cplusplus
}
#endif
#endif
