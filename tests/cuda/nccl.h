/* A stand-in for NCCL over MPI messages: its operations are work in the stand-in's streams (cuda_runtime.h).
 *
 * It is strict where NCCL trusts the caller. Communicators are non-blocking: nothing is issued to the stream before
 * ncclCommGetAsyncError has reported twice that the communicator is in progress, and earlier operations are refused, as
 * are two ranks on one GPU of a host (NCCL_HOSTID tells hosts apart). An operation ends when its peers have come, and
 * its bytes arrive only then. A reduce-scatter adds one piece after the other, from the rank's own downwards, and
 * rounds each sum to the type of the pieces: zr never adds in this order, so the bits tell whether zr or NCCL has
 * added. A communicator takes GPU memory at its creation and at the first call of each kind (sends and receives,
 * gathers, sums): 1 MiB each time, or the bytes in the environment variable ZR_STAND_IN_NCCL_BYTES.
 *
 * Names, numbers and meanings follow the library's reference, limited to the functions that src/comm/nccl.c uses. */
#ifndef ZR_TESTS_NCCL_H
#define ZR_TESTS_NCCL_H

#include "cuda_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ncclComm *ncclComm_t;

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
    char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7
} ncclResult_t;

typedef enum { ncclInt8 = 0, ncclFloat16 = 6, ncclFloat32 = 7, ncclBfloat16 = 9 } ncclDataType_t;
typedef enum { ncclSum = 0 } ncclRedOp_t;

typedef struct ncclConfig_t {
    int blocking, maxCTAs; /* maxCTAs: 0 if no number was given */
} ncclConfig_t;
#define NCCL_CONFIG_INITIALIZER                                                                                        \
    {                                                                                                                  \
        1, 0                                                                                                           \
    }

ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state);
const char *ncclGetErrorString(ncclResult_t result);
const char *ncclGetLastError(ncclComm_t comm);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);
ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream);

/* ---- functions of the stand-in only ------------------------------------------------------------ */

/** Return the number of communicators of this process that were created and not destroyed; that were aborted; and of
 * operations requested. */
int zr_stand_in_nccl_alive(void);
int zr_stand_in_nccl_aborted(void);
long zr_stand_in_nccl_operations(void);

#ifdef __cplusplus
}
#endif
#endif
