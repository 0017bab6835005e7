/**
 * comm: bytes between ranks. It moves bytes and never adds them (a reduce-scatter is an exchange
 * here and a sum on the device). One interface; transports: threads, mpi. All calls are collective
 * over the communicator, in the same order with the same sizes on every rank, and block.
 *
 * Failure of a peer is fatal: ZR_ERR_PEER or ZR_ERR_COMM, after which only destroy is allowed.
 */
#ifndef ZR_COMM_H
#define ZR_COMM_H

#include "zr/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zr_comm zr_comm;

/** One stretch of what an exchange sends: rank r's piece of it begins at send + r*stride. */
typedef struct zr_comm_part {
    const void *send;
    int64_t stride_bytes, piece_bytes;
} zr_comm_part;

/** A transport is one table; see src/comm/transport.h. */
typedef struct zr_comm_ops {
    void (*destroy)(zr_comm *comm);
    zr_status (*stage)(zr_comm *comm, int64_t bytes);
    zr_status (*exchange)(zr_comm *comm, int to, const zr_comm_part *part, int n_parts, int64_t slot_bytes,
                          const void **pieces);
    zr_status (*gather)(zr_comm *comm, int from, const void *mine, void *out, int64_t stride_bytes,
                        int64_t piece_bytes);
    zr_status (*scalars)(zr_comm *comm, const double *mine, int n, double *all);
    zr_status (*barrier)(zr_comm *comm);
    void (*abort)(zr_comm *comm, int code);
} zr_comm_ops;

struct zr_comm {
    const zr_comm_ops *ops;
    const char *transport; /* "self", "threads", "mpi" */
    int rank, size;
    int local_rank, local_size; /* among the ranks of this host */
    unsigned char *stage;       /* (stage_bytes), this rank's own */
    int64_t stage_bytes;
    zr_traffic traffic; /* counted in the functions below, reset freely by the owner */
    double *table;      /* (size, ZR_COMM_SCALARS): room for any call of scalars; agree and same overwrite it */
};

/** Make this rank's staging memory: `bytes`, zeroed, 64-byte aligned, readable by the ranks of this
 *  host, freed with the communicator or by the next call. What a call needs of it is said there;
 *  at size 1 only an exchange of several parts needs any. */
ZR_API ZR_NODISCARD zr_status zr_comm_stage(zr_comm *comm, int64_t bytes, void **stage);

/** Everyone gets its piece of everyone's buffer:
 *      pieces[r] -> rank r's bytes [send + rank*stride, + piece)   (the own piece: in send itself)
 *  The pointers are valid until the next call on this communicator. `send` may be reused at once
 *  but for its own piece. Staging: size * piece_bytes.
 *  Traffic: (size-1) * piece_bytes, reduce_scatter. */
ZR_API ZR_NODISCARD zr_status zr_comm_exchange(zr_comm *comm, const void *send, int64_t stride_bytes,
                                               int64_t piece_bytes, const void **pieces);

/** As zr_comm_exchange, of several buffers at once: pieces[r] holds rank r's pieces of all parts for this rank, one
 *  after the other (the own ones as well, copied into staging; a single part's stays in `send`).
 *  Staging: size * the sum of piece_bytes.
 *  Traffic: (size-1) * the sum of piece_bytes, reduce_scatter. */
ZR_API ZR_NODISCARD zr_status zr_comm_exchange_parts(zr_comm *comm, const zr_comm_part *part, int n_parts,
                                                     const void **pieces);

/** The owner alone gets everyone's piece: pieces[r] -> rank r's `send` (piece), the own one in `send` itself.
 *  Elsewhere pieces are not set (and may be NULL), and `send` may be reused at once.
 *  Valid until the next call. Staging: size * piece_bytes.
 *  Traffic: (size-1) * piece_bytes on the owner, reduce_scatter. */
ZR_API ZR_NODISCARD zr_status zr_comm_collect(zr_comm *comm, int owner, const void *send, int64_t piece_bytes,
                                              const void **pieces);

/** The owner's `data` (bytes) goes into everyone's. Staging: bytes.
 *  Traffic: bytes on all but the owner, all_gather. */
ZR_API ZR_NODISCARD zr_status zr_comm_broadcast(zr_comm *comm, int owner, void *data, int64_t bytes);

/** Everyone gets everyone's piece: out[r*stride, +piece) = rank r's `mine` (piece). In place when
 *  mine == out + rank*stride. Staging: size * piece_bytes. Traffic: (size-1) * piece_bytes, all_gather. */
ZR_API ZR_NODISCARD zr_status zr_comm_all_gather(zr_comm *comm, const void *mine, void *out, int64_t stride_bytes,
                                                 int64_t piece_bytes);

/** all[r*n + i] = rank r's mine[i]; 1 <= n <= ZR_COMM_SCALARS. Traffic: (size-1)*n*8, all_reduce. */
#define ZR_COMM_SCALARS 48
ZR_API ZR_NODISCARD zr_status zr_comm_scalars(zr_comm *comm, const double *mine, int n, double *all);

/** Wait for all. No traffic is counted. */
ZR_API ZR_NODISCARD zr_status zr_comm_barrier(zr_comm *comm);

/** Do all ranks stand well? Each gives its status; all return the same: ZR_OK when all are, on a rank
 *  that failed its own status (its message kept), elsewhere the first failing rank's status with
 *  the message "rank R: TEXT". Traffic is not counted. Named points only: start, save, end of step. */
ZR_API ZR_NODISCARD zr_status zr_comm_agree(zr_comm *comm, zr_status mine);

/** Do all ranks hold the same 64-bit number? ZR_ERR_CONFIG naming the odd ranks and `what`. */
ZR_API ZR_NODISCARD zr_status zr_comm_same(zr_comm *comm, const char *what, uint64_t mine);

/** Not collective: this rank cannot go on and will make no further call. MPI: ends the job with exit
 *  code `code` and does not return; threads: the others fail with ZR_ERR_PEER. */
ZR_API void zr_comm_abort(zr_comm *comm, int code);

/** Collective, but for communicators lent by zr_comm_threads_run, which are freed when it returns. */
ZR_API void zr_comm_destroy(zr_comm **comm);

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
