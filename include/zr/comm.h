/**
 * comm: moves bytes between ranks. It does not add numbers: a reduce-scatter is an exchange here, and the caller sums
 * the pieces as they arrive. The exception is one baseline, in which NCCL adds (zr_comm_reduce_scatter). There is one
 * interface and several transports (threads, MPI). All calls are collective over the communicator and block; every rank
 * makes them in the same order with the same sizes.
 *
 * Any thread may call, but two threads must not call at once in a communicator and the communicators split off it.
 * Under MPI two threads must never call at once. Ranks that share several communicators must make all their calls in
 * the same order: two ranks that begin with different communicators wait for each other forever.
 *
 * Failure of a peer is fatal: calls return ZR_ERR_PEER or ZR_ERR_COMM, after which only abort and destroy are allowed,
 * in every communicator. Arguments give a rank's number in its communicator; messages give its number in the world.
 */
#ifndef ZR_COMM_H
#define ZR_COMM_H

#include "zr/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Maximum count of numbers that a rank passes to one call of zr_comm_scalars. */
#define ZR_COMM_SCALARS 48

typedef struct zr_comm zr_comm;
struct zr__group;

/** Callback of an exchange. It runs on the calling thread, once for each range of the piece, in order:
 *       pieces[r] -> rank r's bytes [first_byte, first_byte + bytes) of its piece for this rank
 *  (this rank's own bytes lie in `send`). first_byte and bytes are multiples of the call's grain. first_byte is also a
 *  multiple of 64, unless the staging memory is too small for a chunk that is a multiple of both. The ranges together
 *  are the piece, so there is no call for a piece of 0 bytes. The pointers are valid during the callback, which must
 * not call comm. The callback may overwrite this rank's own piece up to the end of the range, since no peer reads it.
 * If the callback fails it is not called again; the exchange still runs to its end, so that the ranks stay in step, and
 * then returns the failure. */
typedef zr_status (*zr_comm_arrived_fn)(void *arg, int64_t first_byte, int64_t bytes, const void *const *pieces);

/** Copy functions used in place of memcpy if ranks share memory that the processor cannot access (a GPU's). A copy may
 * complete after `copy` returns; `finish` waits for all copies. */
typedef struct zr_comm_copier {
    zr_status (*copy)(void *arg, void *to, const void *from, int64_t bytes);
    zr_status (*finish)(void *arg);
    void *arg;
    void *stream; /* the cudaStream_t that orders the device's work, or NULL if the device has none */
} zr_comm_copier;

/** Functions of a transport, one table per transport; see src/comm/transport.h. */
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
    uint64_t waits;                /* incremented when a wait for other ranks begins and when it ends, so it is odd
                                      during a wait. Ranks with the same groups wait in the same order, so the rank
                                      with the lowest value is behind */
    int64_t process;               /* process ID, as valid on this host */
    uint64_t told;                 /* nonzero once a rank has claimed the right to report why the job ends */
    uint64_t awaited;              /* during a long wait, 1 + world number of a rank for which this rank waits; 0 if not
                                      known */
    uint64_t shown[ZR_COMM_SHOWN]; /* values by which a rank shows its progress */
} zr_comm_board;

struct zr_comm {
    const zr_comm_ops *ops;
    const char *transport; /* "self", "threads" or "mpi" */
    int rank, size;
    int local_rank, local_size; /* this rank's number, and the number of ranks, within this host */
    const int *world_ranks;     /* (size) world numbers of the ranks; all ranks of a process share one table */
    unsigned char *staging;     /* (staging_bytes) this rank's own staging memory */
    int64_t staging_bytes;
    int64_t staging_taken_bytes; /* bytes actually allocated for `staging` */
    bool concurrent;             /* whether calls wait for a link, so that making calls on a second thread beside the
                                    computing thread saves time */
    zr_traffic traffic;          /* counted where bytes move; the owner may reset it at any time */
    zr_comm_copier copier;       /* functions that copy in shared memory; `copy` is NULL if memcpy is used */
    zr_status copied;            /* status of the first copy that failed during the current call */
    const double *table; /* (size, n) numbers of all ranks from the last call of scalars, agree, same or split, valid
                            until the next of these calls; all ranks of a process share one table */
    double alone[ZR_COMM_SCALARS]; /* memory of `table` if there is only one rank */
    const void **pieces;           /* (size) scratch for the argument `pieces` of zr_comm_arrived_fn */
    zr_comm_board *board;          /* board of this rank, which is the same one in the world and in all its groups */
    zr_comm_board **boards;        /* boards of the world's `n_boards` ranks; NULL for a rank whose board is not
                                      visible, as on another host */
    int n_boards;
    bool processes_seen; /* whether process IDs are valid for all ranks of the host, that is, the ranks are not in
                            separate containers */
};

/** Allocate this rank's staging memory: `bytes`, zeroed, 64-byte aligned. It is freed with the communicator or by the
 * next call. Pieces pass through it in chunks, in two alternating halves, so its size does not limit the size of a
 * piece: ZR_COMM_STAGING_LEAST * size bytes (none if size is 1) are enough for any piece whose grain has at most 64
 * bytes. A larger grain needs 2 * size * grain_bytes, with grain_bytes rounded up to 64. More staging means fewer and
 * longer chunks. With 2 * size * piece_bytes or more, where piece_bytes is rounded up to 64, a piece moves in one
 * chunk.
 *      min(2 * size * the largest piece_bytes, max(4 MiB, size * 128 KiB))
 *  is a good choice of bounded size. On a host with more ranks than cores each chunk costs a context switch, so more
 *  staging pays. */
#define ZR_COMM_STAGING_LEAST 128
/** Maximum bytes of staging memory that lie in host memory when `ranks` processes exchange pieces in GPU memory. The
 * rest of their staging memory is GPU memory. */
#define ZR_COMM_STAGING_HOST(ranks) (((int64_t)1 << 20) + (int64_t)(ranks)*ZR_COMM_STAGING_LEAST)
ZR_API ZR_NODISCARD zr_status zr_comm_staging(zr_comm *comm, int64_t bytes, void **staging);

/** Give every rank its piece of every rank's buffer: this rank's piece of rank r's buffer is the piece_bytes bytes of
 * r's `send` at offset rank * stride_bytes. fn receives these pieces of all ranks, one range at a time, while the next
 * ranges are being transferred. A grain is the unit that fn reads: an element, or a record of several elements. Pieces
 * and ranges are whole numbers of grains. No peer reads a rank's own piece of `send`, so fn may write its result there;
 * the pieces for the peers must not change until the call returns. Needs staging. Traffic: (size-1) * piece_bytes,
 * counted as reduce_scatter. */
ZR_API ZR_NODISCARD zr_status zr_comm_exchange(zr_comm *comm, const void *send, int64_t stride_bytes,
                                               int64_t piece_bytes, int64_t grain_bytes, zr_comm_arrived_fn fn,
                                               void *arg);

/** Give every rank's `send` (piece) to the owner only, in grains as in zr_comm_exchange. fn is called only on the owner
 * and may be NULL elsewhere. No peer reads the owner's `send`; every other rank's `send` must not change until the call
 * returns. Needs staging. Traffic: (size-1) * piece_bytes on the owner, counted as reduce_scatter. */
ZR_API ZR_NODISCARD zr_status zr_comm_collect(zr_comm *comm, int owner, const void *send, int64_t piece_bytes,
                                              int64_t grain_bytes, zr_comm_arrived_fn fn, void *arg);

/** Run NCCL's own reduce-scatter, as a baseline for zr_comm_exchange with a sum: row r of every rank's `data` (size,
 * piece_elems) is summed into row r of rank r; other rows do not change. NCCL adds in the given type (F32, BF16, F16)
 * and in an order of its choice, so the bits of the sum are not guaranteed. For GPU memory and ranks that are
 * processes; otherwise ZR_ERR_UNSUPPORTED. With one rank nothing is summed. Needs no staging. Traffic: (size-1) *
 * piece_elems * the type's bytes, counted as reduce_scatter, as in a ring. */
ZR_API ZR_NODISCARD zr_status zr_comm_reduce_scatter(zr_comm *comm, void *data, zr_dtype dtype, int64_t piece_elems);

/** Copy the owner's `data` (bytes) into every rank's `data`. Needs staging. Traffic: `bytes` on all ranks but the
 * owner, counted as all_gather. */
ZR_API ZR_NODISCARD zr_status zr_comm_broadcast(zr_comm *comm, int owner, void *data, int64_t bytes);

/** Give every rank the pieces of all ranks: out[r*stride, +piece) = rank r's `mine` (piece). The call is in place if
 * mine == out + rank*stride; otherwise `mine` must not lie in `out`. Needs staging. Traffic: (size-1) * piece_bytes,
 * counted as all_gather. */
ZR_API ZR_NODISCARD zr_status zr_comm_all_gather(zr_comm *comm, const void *mine, void *out, int64_t stride_bytes,
                                                 int64_t piece_bytes);

/** Give every rank the numbers of all ranks: all[r*n + i] = rank r's mine[i], with 1 <= n <= ZR_COMM_SCALARS. The
 * numbers are also stored in comm->table; `all` may be NULL if that is enough. Traffic: (size-1)*n*8, counted as
 * all_reduce. */
ZR_API ZR_NODISCARD zr_status zr_comm_scalars(zr_comm *comm, const double *mine, int n, double *all);

/** Wait for all ranks. No traffic is counted. */
ZR_API ZR_NODISCARD zr_status zr_comm_barrier(zr_comm *comm);

/** Agree on a status: every rank passes its own. Return ZR_OK if all ranks passed ZR_OK, else the status of the lowest
 * rank that failed. A rank that failed keeps its message; the others get the message of the lowest failed rank, as
 * "rank R: TEXT". Traffic is not counted. Called only at the start, at a save and at the end of a step. */
ZR_API ZR_NODISCARD zr_status zr_comm_agree(zr_comm *comm, zr_status mine);

/** Split ranks into groups. Ranks that pass the same color (>= 0) form a communicator, numbered by key, or by their
 * rank in `comm` if keys are equal. A rank with a color below 0 is in no group and gets *sub = NULL. Calls work in a
 * group as in the world, and in a group of one as in the communicator of zr_comm_create_self. A group has its own
 * staging (none at first), traffic counters and tables, and may be split again. The ranks of a group share memory if
 * they share it in `comm`. Collective over `comm`; no traffic is counted. All ranks return the same status: if any has
 * no memory (ZR_ERR_MEMORY), no rank gets a group. The caller owns `sub` and destroys it before `comm`; a communicator
 * split off a lent one (zr_comm_threads_run) is lent as well. With threads, a rank that fails, returns, is stopped or
 * aborts in one communicator wakes the ranks that wait for this rank in any communicator. Under MPI the abort of a rank
 * ends the job. */
ZR_API ZR_NODISCARD zr_status zr_comm_split(zr_comm *comm, int color, int key, zr_comm **sub);

/** Withdraw this rank, which will make no further call. Not collective. Under MPI, end the job with exit code `code`
 * and do not return; with threads, the other ranks fail with ZR_ERR_PEER. */
ZR_API void zr_comm_abort(zr_comm *comm, int code);

/** Destroy a communicator. Collective, except for communicators that are lent by zr_comm_threads_run or split off lent
 * ones: those are freed when zr_comm_threads_run returns. */
ZR_API void zr_comm_destroy(zr_comm **comm);

/** Create the communicator of one rank, without a transport. */
ZR_API ZR_NODISCARD zr_status zr_comm_create_self(zr_comm **comm);

/** Run fn on `size` threads of this process, each as one rank. After all have returned, return status and message of
 * the first rank that failed. A rank whose fn fails wakes the others, which then fail with ZR_ERR_PEER. */
typedef zr_status (*zr_rank_fn)(zr_comm *comm, void *arg);
ZR_API ZR_NODISCARD zr_status zr_comm_threads_run(int size, zr_rank_fn fn, void *arg);

/** Return the number of ranks that the MPI launcher's environment variables give, or 0 if this process was not started
 * by an MPI launcher. */
ZR_API int zr_comm_mpi_launched(void);
/** Start MPI (argc and argv are main's) and create the world's communicator. zr_comm_mpi_stop stops MPI; call it at the
 * end, after zr_comm_destroy. It does nothing if MPI is not running. If the program has initialised MPI itself, that
 * MPI is used unchanged, and the program calls MPI_Finalize instead of zr_comm_mpi_stop. Fail with ZR_ERR_UNSUPPORTED
 * if the launcher's number of ranks differs from MPI's or zr was built without MPI. */
ZR_API ZR_NODISCARD zr_status zr_comm_mpi_start(int *argc, char ***argv, zr_comm **comm);
ZR_API void zr_comm_mpi_stop(void);

#ifdef __cplusplus
}
#endif
#endif
