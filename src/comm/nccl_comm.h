/**
 * Memory of GPUs between ranks that are processes: what a transport of such ranks hands to NCCL. The functions do what
 * the rows of zr_comm_ops of the same names do (transport.h), with memory that the GPU reads and writes.
 */
#ifndef ZR_COMM_NCCL_COMM_H
#define ZR_COMM_NCCL_COMM_H

#include "comm/transport.h"

typedef struct zr__nccl zr__nccl;

/** What is left to those who cannot have it, for messages. */
#define ZR__NCCL_INSTEAD "run ranks as threads of one process (--ranks), or compute on processors (\"device\": \"cpu\")"

/** Is called in every wait: the transport goes on with what it has on its way; a failure ends the wait (this rank was
 *  stopped). */
typedef zr_status (*zr__nccl_poll_fn)(zr_comm *comm);

/** For the ranks of `comm`, of which there are several, and for the GPU that is the calling thread's current one.
 *  Collective; ranks find each other by the transport's scalars. All ranks return the same status: ZR_ERR_UNSUPPORTED
 *  where there is no NCCL, or where two of them have one GPU. */
zr_status zr__nccl_create(zr_comm *comm, const zr_comm_copier *copier, zr__nccl_poll_fn poll, zr__nccl **nccl);

/** From now on in order of this one's stream. */
void zr__nccl_copy_with(zr__nccl *nccl, const zr_comm_copier *copier);

/** Frees the staging as well. Ranks need not come at the same time. */
void zr__nccl_destroy(zr__nccl **nccl);

/** Is this memory of a GPU, and a piece there NCCL's? */
bool zr__nccl_takes(const zr__nccl *nccl, const void *memory);

/** Not collective. What there was is freed, in any case. */
zr_status zr__nccl_staging(zr__nccl *nccl, int64_t bytes, unsigned char **staging);
zr_status zr__nccl_exchange(zr__nccl *nccl, int to, const void *send, int64_t stride_bytes, int64_t piece_bytes,
                            int64_t grain_bytes, zr_comm_arrived_fn fn, void *arg);
zr_status zr__nccl_gather(zr__nccl *nccl, int from, const void *mine, void *out, int64_t stride_bytes,
                          int64_t piece_bytes);
zr_status zr__nccl_reduce_scatter(zr__nccl *nccl, void *data, zr_dtype dtype, int64_t piece_elems);

#endif
