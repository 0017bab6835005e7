/** Internal header of the files that call NCCL: nccl.c, for pieces, and nccl_channel.c, for messages between two ranks.
 * It declares NCCL's communicator, its failures and its waits. */
#ifndef ZR_COMM_NCCL_RANKS_H
#define ZR_COMM_NCCL_RANKS_H

#include "comm/nccl_comm.h"

#include <nccl.h>
#include <pthread.h>

#define ZR__NCCL_FUNCTIONS(X)                                                                                          \
    X(ncclGetUniqueId)                                                                                                 \
    X(ncclCommInitRankConfig)                                                                                          \
    X(ncclCommFinalize)                                                                                                \
    X(ncclCommDestroy)                                                                                                 \
    X(ncclCommAbort)                                                                                                   \
    X(ncclCommGetAsyncError)                                                                                           \
    X(ncclGetErrorString)                                                                                              \
    X(ncclGetLastError)                                                                                                \
    X(ncclGroupStart)                                                                                                  \
    X(ncclGroupEnd)                                                                                                    \
    X(ncclSend)                                                                                                        \
    X(ncclRecv)                                                                                                        \
    X(ncclAllGather)                                                                                                   \
    X(ncclReduceScatter)

#define ZR__NCCL_FIELD(function) __typeof__(function) *function;
typedef struct zr__nccl_functions {
    ZR__NCCL_FUNCTIONS(ZR__NCCL_FIELD)
} zr__nccl_functions;

struct zr__nccl {
    zr_comm *comm;
    zr_comm_copier copier;
    zr__nccl_poll_fn poll;
    zr__nccl_functions f;
    unsigned char *staging; /* staging_bytes bytes of staging in GPU memory */
    int64_t staging_bytes;
    ncclComm_t ranks; /* NCCL's communicator; NULL before its creation and after an abort */
    int gpu;
    const char *what;              /* what its work in the stream is, for failures */
    void (*watched_fn)(void *arg); /* function that `watch` calls repeatedly, with `lock` held; NULL: none */
    void *watched_arg;
    zr__failure failed;   /* failure for which the communicator was aborted */
    pthread_mutex_t lock; /* mutex for `ranks`, `failed`, `ends` and all calls of NCCL */
    pthread_cond_t ended; /* signal that `ends` is set */
    pthread_t watch;      /* thread that looks for failures, if `watched` */
    bool watched, ends;
};

/** Allocate the state of a communicator that does not exist yet. Return NULL without memory. */
zr__nccl *zr__nccl_new(zr_comm *comm, const zr_comm_copier *copier, zr__nccl_poll_fn poll);
/** Load NCCL, and check that no two ranks of `comm` use the same GPU. `me` is NULL if this rank has no memory for it.
 * Collective; all ranks return the same status. `together`: whether rank 0 also gets an id, for a communicator of all
 * ranks. */
ZR_NODISCARD zr_status zr__nccl_meet(zr_comm *comm, zr__nccl *me, bool together);
/** Begin to create NCCL's communicator. With `most_blocks` > 0, NCCL uses at most so many blocks of threads for it. */
ncclResult_t zr__nccl_init(zr__nccl *me, int size, int rank, const ncclUniqueId *id, int most_blocks);
/** Start the thread that looks for failures, unless it runs. */
ZR_NODISCARD zr_status zr__nccl_watch(zr__nccl *me);

/** Begin a call: check that this rank was not stopped and that NCCL has not failed. If so, `lock` is held afterwards,
 * which the caller releases. */
ZR_NODISCARD zr_status zr__nccl_begin_call(zr__nccl *me);
/** Return whether NCCL works on a call, or its failure. */
ncclResult_t zr__nccl_state(const zr__nccl *me);
/** Wait until NCCL has completed a non-blocking call. Before that, NCCL allows no other call on the communicator. */
ZR_NODISCARD zr_status zr__nccl_await(zr__nccl *me, ncclResult_t result, const char *call);
/** Wait until the stream has completed all work issued to it. */
ZR_NODISCARD zr_status zr__nccl_await_stream(zr__nccl *me, const char *call);
/** Note a failure and abort the communicator, in this order: waits for the stream end by the abort. Return it. */
zr_status zr__nccl_lose(zr__nccl *me, zr_status st);
/** Fail with the GPU's error, and abort the communicator. */
zr_status zr__nccl_gpu_failed(zr__nccl *me, cudaError_t error, const char *call);

#define ZR__TRY_GPU(me, call)                                                                                          \
    do {                                                                                                               \
        const cudaError_t error_ = (call);                                                                             \
        if (error_ != cudaSuccess) ZR_TRY(zr__nccl_gpu_failed((me), error_, #call));                                   \
    } while (0)

#endif
