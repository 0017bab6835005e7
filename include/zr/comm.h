/**
 * comm: moves bytes between ranks over several transports (threads, MPI) with one interface. It does not add numbers.
 * In a reduce-scatter, for example, comm exchanges the pieces and the caller sums them as they arrive. The only
 * exception is a baseline in which NCCL adds (zr_comm_reduce_scatter). Calls are collective and blocking, unless
 * their comments say otherwise: every rank of a communicator makes them in the same order with the same sizes.
 *
 * Any thread may make a call. Two threads must not make calls at the same time in one communicator or in communicators
 * split off it; under MPI, not even in different communicators. Ranks that share several communicators must make all
 * their calls in the same order. Otherwise two ranks could wait for each other forever in different communicators.
 *
 * A failure of one rank is fatal: the others may wait for it, and it must not wait for them. If a call returns
 * ZR_ERR_PEER or ZR_ERR_COMM, or if a collective call of the engine or of a training run fails on this rank alone, only
 * zr_comm_abort and zr_comm_destroy are allowed afterwards, in every communicator. Under MPI, report the failure and
 * call zr_comm_abort: other ranks may wait until then. Arguments identify a rank by its number in the communicator.
 * Error messages identify it by its number in the world.
 */
#ifndef ZR_COMM_H
#define ZR_COMM_H

#include "zr/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Maximum number of values that a rank passes to one call of zr_comm_scalars. */
#define ZR_COMM_SCALARS 48

typedef struct zr_comm zr_comm;
struct zr__group;
struct zr__channel;
struct zr__mail;
struct zr__route;

/** Callback of an exchange, in which every rank sends this rank a piece. A call receives the same range of bytes of all
 * pieces: pieces[r] points to bytes [first_byte, first_byte + bytes) of the piece from rank r. Successive calls receive
 * ascending ranges. This rank's own piece is read directly from `send`. The callback runs on the calling thread.
 * first_byte and bytes are multiples of the exchange's grain_bytes. first_byte is also a multiple of 64, unless the
 * staging memory is too small for this. The callback is not called for a piece of 0 bytes.
 *
 * The pointers are valid only during the callback, which must not call comm. The callback may overwrite this rank's own
 * piece up to the end of the range, because no peer reads it. If the callback fails, it is not called again. The
 * exchange then still completes, because the other ranks need it, and returns the failure. */
typedef zr_status (*zr_comm_arrived_fn)(void *arg, int64_t first_byte, int64_t bytes, const void *const *pieces);

/** Copy functions that replace memcpy if ranks share memory that the processor cannot access (GPU memory). A copy may
 * complete after `copy` returns. `finish` waits for all copies. */
typedef struct zr_comm_copier {
    zr_status (*copy)(void *arg, void *to, const void *from, int64_t bytes);
    zr_status (*finish)(void *arg);
    void *arg;
    void *stream; /* cudaStream_t to which the device's work is issued, or NULL if the device has no stream */
    /* whether the caller orders its own work by the stream. A call on pieces in GPU memory between processes then
     * returns when its work is in the stream. A failure of this work, such as a lost peer, makes a later call fail,
     * including every call that exchanges numbers */
    bool in_stream;
} zr_comm_copier;

/** Functions of a transport. Each transport has one table of this type (src/comm/transport.h). */
typedef struct zr_comm_ops {
    void (*destroy)(zr_comm *comm);
    zr_status (*split)(zr_comm *comm, const struct zr__group *group, zr_comm **sub);
    zr_status (*staging)(zr_comm *comm, int64_t bytes);
    zr_status (*room)(zr_comm *comm, zr_comm *const *group, const int64_t *bytes, int n);
    zr_status (*exchange)(zr_comm *comm, const void *send, int64_t stride_bytes, int64_t piece_bytes,
                          int64_t grain_bytes, zr_comm_arrived_fn fn, void *arg);
    zr_status (*gather)(zr_comm *comm, const void *mine, void *out, int64_t stride_bytes, int64_t piece_bytes);
    zr_status (*reduce_scatter)(zr_comm *comm, void *data, zr_dtype dtype, int64_t piece_elems);
    zr_status (*scalars)(zr_comm *comm, const double *mine, int n);
    zr_status (*barrier)(zr_comm *comm);
    void (*cancel)(zr_comm *comm);
    void (*abort)(zr_comm *comm, int code);
    zr_status (*devices)(zr_comm *comm, const zr_comm_copier *copier);
    zr_status (*mail)(zr_comm *comm, int64_t bytes, struct zr__mail **mail);
    void (*end_mail)(struct zr__mail *mail);
    zr_status (*channel)(zr_comm *comm, struct zr__mail *mail, const struct zr__route *route,
                         const zr_comm_copier *copier, struct zr__channel **channel);
    zr_status (*connect)(struct zr__mail *mail, void *memory);
} zr_comm_ops;

/** Board: state of a rank that other ranks of the same host can read at any time. */
#define ZR_COMM_SHOWN 10
typedef struct zr_comm_board {
    /* counter, incremented when a wait for other ranks begins and again when it ends, so it is odd during a wait */
    uint64_t waits;
    uint64_t group;  /* during a wait: zr_comm.id of the communicator in which this rank waits */
    int64_t process; /* process ID on this host */
    /* on the board of the host's first rank: nonzero after a rank of the host has claimed the right to report why the
     * job ends; unused on other boards */
    uint64_t told;
    /* during a long wait: 1 + world number of a rank for which this rank waits, or 0 if the rank is unknown */
    uint64_t awaited;
    /* while a thread of this rank ends a message: 1 + world number of the rank at the other end, otherwise 0. [0] is
     * for channels from this rank, [1] for channels to it */
    uint64_t channel[2];
    uint64_t failed; /* nonzero after the rank has failed alone, so that it makes no further collective call */
    uint64_t shown[ZR_COMM_SHOWN]; /* numbers with which the engine and the train layer show the rank's progress */
} zr_comm_board;

struct zr_comm {
    const zr_comm_ops *ops;
    const char *transport; /* "self", "threads" or "mpi" */
    /* ID of the communicator: equal on all its ranks, different for each communicator of a rank, and 0 for the world */
    uint64_t id;
    int splits;       /* number of calls of zr_comm_split so far */
    uint64_t engines; /* number of engines created with the communicator so far, for the ids of their channels */
    int rank, size;
    int local_rank, local_size; /* number of this rank within its host, and number of ranks of the host */
    const int *world_ranks;     /* array of `size` world numbers of the ranks, shared by all ranks of a process */
    unsigned char *staging;     /* staging memory of this rank, of staging_bytes bytes */
    int64_t staging_bytes;
    int64_t staging_taken_bytes; /* bytes that are actually allocated for `staging` */
    /* whether calls spend time waiting for a link, so that a separate thread for communication saves time */
    bool concurrent;
    bool second_thread;    /* whether two threads of a rank may make calls, one call at a time */
    zr_traffic traffic;    /* received bytes; the owner may reset them at any time */
    zr_comm_copier copier; /* copy functions for shared memory; `copy` is NULL if memcpy is used */
    zr_status copied;      /* status of the first failed copy in the current call */
    /* numbers that the last call of zr_comm_scalars, zr_comm_agree or zr_comm_split exchanged: an array of size * n,
     * with n numbers from each rank. Valid until the next call of any of the three. Shared by all ranks of a process */
    const double *table;
    double alone[ZR_COMM_SCALARS]; /* memory of `table` in a communicator of one rank */
    const void **pieces; /* scratch array of `size` pointers, for the argument `pieces` of zr_comm_arrived_fn */
    /* status of this rank that other ranks of its host can read; the world's communicator and all groups split off it
     * use the same board */
    zr_comm_board *board;
    /* boards of all n_boards ranks of the world; NULL for a rank whose board this process cannot read, for example on
     * another host */
    zr_comm_board **boards;
    int n_boards;
    /* whether processes of the host see each other by process ID; false if they run in separate containers */
    bool processes_seen;
};

/** Allocate `bytes` of zeroed, 64-byte aligned staging memory for this rank. It is freed with the communicator or by
 * the next call.
 *
 * Pieces pass through staging memory in chunks, in two alternating halves. A piece may therefore be larger than the
 * staging memory. More staging memory means fewer and longer chunks. With `size` ranks the minimum is
 * ZR_COMM_STAGING_LEAST * size bytes, or 0 if size is 1. For a grain of more than 64 bytes, the minimum is 2 * size *
 * grain_bytes, with grain_bytes rounded up to a multiple of 64. If the size is 2 * size * piece_bytes, with piece_bytes
 * rounded up to a multiple of 64, each piece moves in one chunk.
 *
 * This is a good size:
 *     min(2 * size * the largest piece_bytes, max(4 MiB, size * 128 KiB))
 * More memory is useful on a host with more ranks than cores, because each chunk then costs a context switch. */
#define ZR_COMM_STAGING_LEAST 128
/** Maximum bytes of host memory used as staging memory when `ranks` processes exchange pieces in GPU memory. The rest
 * of the staging memory is GPU memory. */
#define ZR_COMM_STAGING_HOST(ranks) (((int64_t)1 << 20) + (int64_t)(ranks)*ZR_COMM_STAGING_LEAST)
ZR_API ZR_NODISCARD zr_status zr_comm_staging(zr_comm *comm, int64_t bytes, void **staging);

/** Exchange pieces: every rank sends one piece to each rank. The piece for rank r is the piece_bytes bytes of `send`
 * at offset r * stride_bytes. fn receives the pieces for this rank, one range at a time, while the next ranges are
 * being transferred. A grain is the smallest unit that fn reads, for example an element. Pieces and ranges are whole
 * numbers of grains. fn may write its result over this rank's own piece in `send`, because no peer reads that piece.
 * The pieces for peers must not change until the call returns. Needs staging memory. Traffic: (size-1) * piece_bytes,
 * counted as reduce_scatter. */
ZR_API ZR_NODISCARD zr_status zr_comm_exchange(zr_comm *comm, const void *send, int64_t stride_bytes,
                                               int64_t piece_bytes, int64_t grain_bytes, zr_comm_arrived_fn fn,
                                               void *arg);

/** Run NCCL's reduce-scatter, as a baseline for zr_comm_exchange with a sum. `data` has `size` rows of piece_elems
 * elements. Row r of rank r receives the sum of row r over all ranks, and other rows do not change. NCCL adds in the
 * given type (F32, BF16 or F16) and in its own order, so the bits of the sum are not guaranteed. Requires GPU memory
 * and one process per rank; otherwise fail with ZR_ERR_UNSUPPORTED. With one rank nothing is summed. Needs no staging
 * memory. Traffic: (size-1) * piece_elems * bytes per element, as in a ring, counted as reduce_scatter. */
ZR_API ZR_NODISCARD zr_status zr_comm_reduce_scatter(zr_comm *comm, void *data, zr_dtype dtype, int64_t piece_elems);

/** Gather the pieces of all ranks on every rank: out[r*stride_bytes, +piece_bytes) = rank r's `mine`. The call is in
 * place if mine == out + rank*stride_bytes; otherwise `mine` must not overlap `out`. Needs staging memory. Traffic:
 * (size-1) * piece_bytes, counted as all_gather. */
ZR_API ZR_NODISCARD zr_status zr_comm_all_gather(zr_comm *comm, const void *mine, void *out, int64_t stride_bytes,
                                                 int64_t piece_bytes);

/** Gather the numbers of all ranks on every rank: all[r*n + i] = rank r's mine[i]. n is at least 1 and at most
 * ZR_COMM_SCALARS. The numbers are also stored in comm->table, so `all` may be NULL. Traffic: (size-1) * n * 8,
 * counted as all_reduce. */
ZR_API ZR_NODISCARD zr_status zr_comm_scalars(zr_comm *comm, const double *mine, int n, double *all);

/** Wait until all ranks have made this call. No traffic is counted. */
ZR_API ZR_NODISCARD zr_status zr_comm_barrier(zr_comm *comm);

/** Agree on a status: every rank passes its own. Return ZR_OK if all ranks passed ZR_OK, otherwise the status of the
 * lowest failed rank. A failed rank keeps its own message. Other ranks get the message of the lowest failed rank, as
 * "rank R: TEXT". No traffic is counted. All ranks wait for each other, so make this call rarely, for example at the
 * start, after a save or at the end of a training step. */
ZR_API ZR_NODISCARD zr_status zr_comm_agree(zr_comm *comm, zr_status mine);

/** Split a communicator into groups. Ranks with the same color (>= 0) form a new communicator, in which they are
 * numbered by key. Ranks with equal keys keep their order in `comm`. A rank with a negative color is in no group and
 * gets *sub = NULL. A group has its own traffic counters and tables. A new group has no staging memory. A group may be
 * split again. Ranks of a group share memory if they share memory in `comm`. A group of one rank works like the
 * communicator of zr_comm_create_self.
 *
 * Collective over `comm`. No traffic is counted. All ranks return the same status. If one rank runs out of memory
 * (ZR_ERR_MEMORY), no rank gets a group. The caller must destroy `sub` before `comm`, except that a group of a lent
 * communicator (zr_comm_threads_run) is also lent. With threads, a rank that fails, returns, is stopped or aborts wakes
 * all ranks that wait for it in any communicator. Under MPI the abort of a rank ends the job. */
ZR_API ZR_NODISCARD zr_status zr_comm_split(zr_comm *comm, int color, int key, zr_comm **sub);

/** Leave all communication after a failure: this rank will make no further call. Not collective. Under MPI, end the
 * job with exit code `code` and do not return. With threads, the other ranks fail with ZR_ERR_PEER. */
ZR_API void zr_comm_abort(zr_comm *comm, int code);

/** Destroy a communicator. Collective, except if this rank has failed alone, or if the communicator is lent by
 * zr_comm_threads_run or split off a lent communicator. After a failure, memory that MPI shares between ranks is kept
 * until the process ends. For a lent communicator the call frees nothing, because zr_comm_threads_run frees it on
 * return. */
ZR_API void zr_comm_destroy(zr_comm **comm);

/** Create a communicator of one rank, without a transport. */
ZR_API ZR_NODISCARD zr_status zr_comm_create_self(zr_comm **comm);

/** Run fn on `size` threads of this process, each as one rank. `comm` is lent to fn. If fn fails on a rank, the other
 * ranks are woken, and they fail with ZR_ERR_PEER. After all ranks have returned, return the status and the message
 * of the rank that failed first. */
typedef zr_status (*zr_rank_fn)(zr_comm *comm, void *arg);
ZR_API ZR_NODISCARD zr_status zr_comm_threads_run(int size, zr_rank_fn fn, void *arg);

/** Return the number of ranks according to the MPI launcher's environment variables, or 0 if no MPI launcher started
 * this process. */
ZR_API int zr_comm_mpi_launched(void);
/** Start MPI and create the communicator of the world. `argc` and `argv` point to the arguments of main. Call
 * zr_comm_mpi_stop at the end of the program, after zr_comm_destroy. zr_comm_mpi_stop stops MPI, which waits for all
 * ranks, and does nothing if MPI is not running. If the program has already initialised MPI, that MPI is used, and the
 * program must call MPI_Finalize instead of zr_comm_mpi_stop. Fail with ZR_ERR_UNSUPPORTED if zr was built without MPI,
 * or if the launcher's number of ranks differs from MPI's. */
ZR_API ZR_NODISCARD zr_status zr_comm_mpi_start(int *argc, char ***argv, zr_comm **comm);
ZR_API void zr_comm_mpi_stop(void);

#ifdef __cplusplus
}
#endif
#endif
