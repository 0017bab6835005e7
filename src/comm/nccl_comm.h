/**
 * Moves data in GPU memory between processes by NCCL. Functions named like members of zr_comm_ops (transport.h) do the
 * same work, but on GPU memory. Messages between two ranks (zr__comm_channel) move by NCCL too.
 */
#ifndef ZR_COMM_NCCL_COMM_H
#define ZR_COMM_NCCL_COMM_H

#include "comm/transport.h"

typedef struct zr__nccl zr__nccl;

/** Advice in error messages on systems without NCCL. */
#define ZR__NCCL_INSTEAD "run ranks as threads of one process (--ranks), or compute on processors (\"device\": \"cpu\")"

/** Callback that every wait calls repeatedly. With `progress` the MPI transport makes progress with its own messages. A
 * failure means that this rank was stopped, and ends the wait. */
typedef zr_status (*zr__nccl_poll_fn)(zr_comm *comm, bool progress);

/** Initialise NCCL for the ranks of `comm` (two or more), on the calling thread's current GPU. Collective. The ranks
 * exchange their hosts and GPUs, and rank 0's NCCL id, with the transport's function `scalars`. All ranks return the
 * same status. Return ZR_ERR_UNSUPPORTED if NCCL is missing or two ranks use the same GPU. */
zr_status zr__nccl_create(zr_comm *comm, const zr_comm_copier *copier, zr__nccl_poll_fn poll, zr__nccl **nccl);

/** Use the stream of `copier` from now on. */
zr_status zr__nccl_copy_with(zr__nccl *nccl, const zr_comm_copier *copier);

/** Return the first failure so far, of a call or of its work in the stream. */
zr_status zr__nccl_failure(zr__nccl *nccl);

/** Destroy NCCL's communicator and free the staging. Ranks may call this at different times. */
void zr__nccl_destroy(zr__nccl **nccl);

/** Return whether `memory` is GPU memory. If so, NCCL must move its pieces. */
bool zr__nccl_takes(const zr__nccl *nccl, const void *memory);

/** Allocate the staging in GPU memory. Free the previous staging, even if the allocation fails. Not collective. */
zr_status zr__nccl_staging(zr__nccl *nccl, int64_t bytes, unsigned char **staging);
zr_status zr__nccl_exchange(zr__nccl *nccl, const void *send, int64_t stride_bytes, int64_t piece_bytes,
                            int64_t grain_bytes, zr_comm_arrived_fn fn, void *arg);
zr_status zr__nccl_gather(zr__nccl *nccl, const void *mine, void *out, int64_t stride_bytes, int64_t piece_bytes);
zr_status zr__nccl_reduce_scatter(zr__nccl *nccl, void *data, zr_dtype dtype, int64_t piece_elems);

/* ---- channels (nccl_channel.c) ------------------------------------------------------------------- */

/** The channels of a rank that were opened together. */
typedef struct zr__nccl_lines zr__nccl_lines;

/** Open this rank's end of a channel, whose messages move in the order of the stream of `copier`. The first call
 * creates *lines. */
zr_status zr__nccl_channel(zr_comm *comm, zr__nccl_lines **lines, const zr__route *route, const zr_comm_copier *copier,
                           zr__nccl_poll_fn poll, zr__channel **channel);
/** Do the work of zr__comm_connect. */
zr_status zr__nccl_connect(zr_comm *comm, zr__nccl_lines *lines, void *memory);
/** Return the first failure so far of the channels' work. */
zr_status zr__nccl_lines_failure(const zr__nccl_lines *lines);
/** Destroy the communicators of channels, which were closed. */
void zr__nccl_lines_destroy(zr__nccl_lines **lines);

#endif
