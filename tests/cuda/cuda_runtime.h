/* A stand-in for CUDA's runtime, with which src/device/cuda is compiled for the processor and tested without a GPU.
 *
 * Work issued to a stream runs only when a thread waits for it or asks whether it has finished, and runs on that
 * thread: code that forgets to wait gets other bits. A device's memory is protected except against work in streams of
 * that device, or of a device that was given access to it. A kernel's blocks run one after the other, and the threads
 * of a block are coroutines that meet where the kernel synchronizes them. The order of blocks and threads is reversed
 * from one launch of a kernel to the next, so that a kernel that depends on the order shows it. The environment
 * variable ZR_STAND_IN_SEED draws lots instead (order.h); then memory is not protected.
 *
 * Streams, events and memory belong to the device that was current when they were created. As on GPUs, a kernel can be
 * launched only in a stream of the current device, and an event recorded only in a stream of its own device.
 *
 * The environment variable ZR_STAND_IN_FAULT plants a fault in all kernels of a family, a file of
 * src/device/cuda/kernels: "wrong:softmax" (they write nothing), "fault:softmax" (they access memory that is not
 * theirs, after which all calls fail) or "hang:softmax" (they never end). Commas separate several faults. With
 * CUDA_LAUNCH_BLOCKING=1 a launch waits for its kernel. ZR_STAND_IN_COUNTS names a file to which each process appends
 * how often it launched a kernel, called NCCL, waited, and so on (recorder.h).
 *
 * Names and meanings follow the reference of the CUDA Runtime API, limited to the functions that src/device/cuda uses.
 */
#ifndef ZR_TESTS_CUDA_RUNTIME_H
#define ZR_TESTS_CUDA_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#define CUDART_VERSION 13000

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cudaError {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorECCUncorrectable = 214,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorNotReady = 600,
    cudaErrorIllegalAddress = 700,
    cudaErrorPeerAccessAlreadyEnabled = 704,
    cudaErrorLaunchFailure = 719
} cudaError_t;

typedef struct zr_stand_in_stream *cudaStream_t;
typedef struct zr_stand_in_event *cudaEvent_t;
/* HostToDevice is only used with pageable host memory, which is read before the call returns. */
typedef enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDefault = 4 } cudaMemcpyKind;

enum {
    cudaStreamNonBlocking = 1,
    cudaEventDefault = 0,
    cudaEventBlockingSync = 1,
    cudaEventDisableTiming = 2,
    cudaHostAllocMapped = 2
};
typedef enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 } cudaFuncAttribute;

typedef struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem;
    int major, minor;
    int multiProcessorCount;
    int pciBusID, pciDeviceID, pciDomainID;
} cudaDeviceProp;

typedef enum cudaMemoryType {
    cudaMemoryTypeUnregistered = 0,
    cudaMemoryTypeHost = 1,
    cudaMemoryTypeDevice = 2
} cudaMemoryType;
struct cudaPointerAttributes {
    cudaMemoryType type;
    int device;
};

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *prop, int device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaDeviceGetPCIBusId(char *id, int bytes, int device);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);
cudaError_t cudaMalloc(void **memory, size_t bytes);
cudaError_t cudaFree(void *memory);
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority);
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority);
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *memory, int byte, size_t bytes, cudaStream_t stream);
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer);
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *memory);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);
cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute attribute, int value);
cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t error);

/* ---- functions of the stand-in only ------------------------------------------------------------ */

/** Issue a function to a stream; stand-ins of libraries are built on it. `arg` is copied. */
cudaError_t zr_stand_in_issue(cudaStream_t stream, void (*run)(void *arg), const void *arg, size_t bytes);
/** Issue a function that itself waits: `run` is called again and again until it returns 1. */
cudaError_t zr_stand_in_issue_wait(cudaStream_t stream, int (*run)(void *arg), void *arg);
/** Make calls of `function` fail with `error`, after `skip` calls that succeed; NULL: no call fails. */
void zr_stand_in_fail(const char *function, int skip, cudaError_t error);
/** Return the number of calls that failed this way since the last zr_stand_in_fail. */
int zr_stand_in_failed(void);
/** Return the error that a call of this function shall return; for stand-ins of libraries. */
cudaError_t zr_stand_in_failure(const char *function);
/** Register a function of a library that zr loads at run time (src/base/core/library.h): in these tests it is linked
 * into the program. */
void zr_stand_in_function(const char *name, void (*function)(void));
/** Start (1) or stop (0) letting any code touch device memory and treating all memory as device memory. */
void zr_stand_in_touchable(int touchable);
/** Return whether a stream belongs to the current device; for stand-ins of libraries that launch kernels. */
int zr_stand_in_current(cudaStream_t stream);
/** Return how many items of work have ended, in all streams. */
long zr_stand_in_ended(void);
/** Return whether streams run late, blocks and threads in order: not with a seed. */
int zr_stand_in_late(void);
/** Start (1) or stop (0) simulating arrays that are larger than this machine's memory: what is allocated is 0, and
 * takes memory only where it is written, and of the blocks of a launch only the first, the middle and the last two run.
 */
void zr_stand_in_sparse(int sparse);
/** Return the bytes of device memory allocated and not freed. */
size_t zr_stand_in_taken(void);

/** Calls of all threads of this process so far. recorder.h says what each number counts. */
typedef struct zr_stand_in_counts {
    long launches, products, copies, fills, groups, operations, records, follows, waits;
} zr_stand_in_counts;
void zr_stand_in_count(zr_stand_in_counts *counts);

#ifdef __cplusplus
}

/** End the program where a GPU would fault. */
inline void zr_stand_in_check(bool holds)
{
    if (!holds) __builtin_trap();
}

/* ---- the language of kernels ------------------------------------------------------------------- */

#include <math.h>
#include <string.h>
#include <functional>

#define __global__ static
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};

struct zr_stand_in_place {
    dim3 thread, block, threads, blocks;
};
extern thread_local constinit zr_stand_in_place zr_stand_in_here;
#define threadIdx (zr_stand_in_here.thread)
#define blockIdx (zr_stand_in_here.block)
#define blockDim (zr_stand_in_here.threads)
#define gridDim (zr_stand_in_here.blocks)

/** Launch a kernel of the source file `file`: `kernel` is the function, `run` calls it with its operands. */
void zr_stand_in_launch(const char *file, cudaStream_t stream, dim3 blocks, dim3 threads, size_t shared_bytes,
                        const void *kernel, std::function<void()> run);

template <typename... Params>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Params...), cudaFuncAttribute attribute, int value)
{
    return cudaFuncSetAttribute((const void *)kernel, attribute, value);
}
/** Return the block's shared memory, of the size that the launch requested. */
void *zr_stand_in_shared();
/** Return the block's memory for an array that a kernel declares as shared; `site` stands for the declaration. */
void *zr_stand_in_shared_array(const void *site, size_t bytes);
/** Wait for all threads of the block, or for all threads of the warp. */
void zr_stand_in_meet_block();
void zr_stand_in_meet_warp();
/** The values that each lane of the warp passed in the same call, up to zr_stand_in_words each. */
constexpr int zr_stand_in_words = 12;
extern thread_local constinit const uint32_t *zr_stand_in_warp; /* lane 0's words, followed by the other lanes' */
void zr_stand_in_exchange(const uint32_t *mine, int words);

/* Code that the thread sanitizer does not see, because it reads what other lanes have passed: that is no access to
 * memory. */
#define ZR_STAND_IN_UNSEEN __attribute__((no_sanitize_thread))

ZR_STAND_IN_UNSEEN inline const uint32_t *zr_stand_in_given(int lane)
{
    return zr_stand_in_warp + lane * zr_stand_in_words;
}

ZR_STAND_IN_UNSEEN inline uint32_t zr_stand_in_word(int lane, int i)
{
    return zr_stand_in_given(lane)[i];
}

inline void __syncthreads()
{
    zr_stand_in_meet_block();
}

/* Only masks of all lanes are here. */
inline void zr_stand_in_check_mask(unsigned mask)
{
    zr_stand_in_check(mask == 0xffffffffu);
}

inline void __syncwarp(unsigned mask = 0xffffffffu)
{
    zr_stand_in_check_mask(mask);
    zr_stand_in_meet_warp();
}

template <typename T> T zr_stand_in_shuffle(unsigned mask, T value, int lane)
{
    uint32_t words[2] = {0, 0};
    static_assert(sizeof(T) <= sizeof words, "at most 8 bytes a lane");
    zr_stand_in_check_mask(mask);
    memcpy(words, &value, sizeof value);
    zr_stand_in_exchange(words, 2);
    for (int i = 0; i < 2; i++) words[i] = zr_stand_in_word(lane, i);
    memcpy(&value, words, sizeof value);
    return value;
}

inline int zr_stand_in_lane()
{
    return (int)((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32);
}

template <typename T> T __shfl_sync(unsigned mask, T value, int lane, int width = 32)
{
    const int first = zr_stand_in_lane() / width * width;
    return zr_stand_in_shuffle(mask, value, first + lane % width);
}

template <typename T> T __shfl_xor_sync(unsigned mask, T value, int flips, int = 32)
{
    return zr_stand_in_shuffle(mask, value, zr_stand_in_lane() ^ flips);
}

template <typename T> T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32)
{
    const int lane = zr_stand_in_lane(), to = lane + (int)delta;
    return zr_stand_in_shuffle(mask, value, to / width == lane / width ? to : lane);
}

inline unsigned __ballot_sync(unsigned mask, int predicate)
{
    const uint32_t mine = predicate != 0;
    unsigned votes = 0;
    zr_stand_in_check_mask(mask);
    zr_stand_in_exchange(&mine, 1);
    for (int lane = 0; lane < 32; lane++) votes |= (zr_stand_in_word(lane, 0) & 1) << lane;
    return votes;
}

inline uint32_t __float_as_uint(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

inline float __uint_as_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

inline int __ffs(int x)
{
    return __builtin_ffs(x);
}

inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}

/* Atomic, though threads of a block take turns here: so the thread sanitizer sees that they may meet. */
template <typename T> T atomicAdd(T *to, T value)
{
    return __atomic_fetch_add(to, value, __ATOMIC_RELAXED);
}
#endif
#endif
