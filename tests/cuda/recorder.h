/* A recorder of the calls to the stand-ins. cuda_runtime.cc, cublasLt.cc and nccl.cc tell it of each call. */
#ifndef ZR_TESTS_CUDA_RECORDER_H
#define ZR_TESTS_CUDA_RECORDER_H

#include "cuda_runtime.h"

/** Kinds of calls that are counted, with their names in zr_stand_in_counts and in the file of ZR_STAND_IN_COUNTS. */
#define ZR_RECORDED_KINDS(X)                                                                                           \
    X(launches)   /* kernels, without products */                                                                      \
    X(products)   /* products of cuBLASLt */                                                                           \
    X(copies)     /* cudaMemcpyAsync */                                                                                \
    X(fills)      /* cudaMemsetAsync */                                                                                \
    X(groups)     /* of NCCL, each of which is one kernel; a call outside a group counts as one */                     \
    X(operations) /* of NCCL; sends and receives count one by one */                                                   \
    X(records)    /* cudaEventRecord */                                                                                \
    X(follows)    /* cudaStreamWaitEvent */                                                                            \
    X(waits)      /* of host threads: cudaStreamSynchronize, cudaEventSynchronize, cudaStreamQuery that succeeds */

#define ZR_RECORDED_MEMBER(name) name,
enum class recorded { ZR_RECORDED_KINDS(ZR_RECORDED_MEMBER) kinds };
#undef ZR_RECORDED_MEMBER

/** Count a call. */
void record_count(recorded kind);

#endif
