/* A recorder of the calls to the stand-ins, which proves their order.
 *
 * The stand-in runs work in one order of many that a GPU may take. The recorder proves the order of all: for each two
 * accesses to the same bytes, of which one writes, it checks that calls order them, whatever the time that they take.
 * It keeps a vector clock for each thread of the host and each stream. A launch takes the thread's clock over to the
 * stream; events take it from stream to stream; cudaStreamSynchronize, cudaEventSynchronize and a cudaStreamQuery that
 * succeeds take it to a thread. Queues' tasks and the barriers of ranks that are threads take it from thread to thread.
 * A fault is printed with both accesses, and ends the program.
 *
 * Accesses come from where they are really known, not from the plan whose order they must realise:
 *   - Operations of a device (recorder_device.cc): a wrapper around zr_device_ops sees the arrays of each operation and
 *     of each kernel (zr_kernel_args), and they are the accesses of all kernels that the operation launches. This needs
 *     no hook in src, takes a few accesses a launch, and also sees the host's processors (ZR_QUEUE_HOST).
 *   - Copies, fills and NCCL's calls name their bytes themselves.
 *   - The host's own accesses to pinned memory (squares, verdicts, losses, batches): src/engine and the host's part of
 *     src/device/cuda are compiled for the stand-in so that each load and store calls the recorder (recorder_host.cc).
 *     Batches are filled by others' code. So if a copy from pinned memory finds other bytes than the last copy, and no
 *     write was recorded in between, the thread that copies is taken to have written them just before.
 *
 * Also reported: a copy from or to memory of the host that is not pinned, which CUDA makes wait; an NCCL group that is
 * not ordered after the last group of the process; NCCL's calls that differ between ranks; and a task that runs before
 * a task that it waits for has ended.
 *
 * ZR_STAND_IN_ORDER=0 turns it off. */
#ifndef ZR_TESTS_CUDA_RECORDER_H
#define ZR_TESTS_CUDA_RECORDER_H

#include "cuda_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif
/** Collect faults (1) instead of ending the program at the first (0). */
void zr_stand_in_collect(int collect);
/** Return the text of the first fault since the last call of this function, or NULL. */
const char *zr_stand_in_fault(void);
#ifdef __cplusplus
}

#include <string>
#include <vector>

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

/** Bytes that work accesses. */
struct recorded_range {
    const void *at;
    size_t bytes;
    bool writes;
};

/** What a thread or a stream knows of each other: for each chain (thread or stream), a time. */
using recorded_clock = std::vector<uint32_t>;

/* Each function below counts its call. */

/** Record a kernel or a product, which accesses what the operation around it declared (record_op). */
void record_launch(recorded kind, cudaStream_t stream);
/** Record other work in a stream and its accesses. `name` must stay valid. */
void record_work(recorded kind, cudaStream_t stream, const char *name, std::vector<recorded_range> ranges);
void record_copy(cudaStream_t stream, void *to, const void *from, size_t bytes, bool staged);
void record_event(cudaEvent_t event, cudaStream_t stream);
void record_follow(cudaStream_t stream, cudaEvent_t event);
void record_stream_wait(cudaStream_t stream);
void record_event_wait(cudaEvent_t event);
/** Count a call that accesses nothing. */
void record_count(recorded kind);

/** Record that memory was allocated, on a device or pinned (-1), or freed. -2: the bytes stand for NCCL, of which only
 * one group may be in flight. */
void record_memory(void *memory, size_t bytes, int device);
void record_freed(void *memory);
/** Record that a stream or an event was destroyed. */
void record_gone(cudaStream_t stream);
void record_gone(cudaEvent_t event);

/** Record an access of this thread, if the bytes are in recorded memory. */
void record_host(const char *name, const void *at, size_t bytes, bool writes);
/** Return whether an address may be in pinned memory; quick. */
bool record_is_pinned(uintptr_t at);

/** Return this thread's clock, for another thread that goes on after this; `record_acquire` takes a clock over. */
recorded_clock record_release();
void record_acquire(const recorded_clock &clock);

/** What the event that this thread recorded last lets others know. */
recorded_clock &record_last_event();

/** Report a fault. */
void record_fault(const std::string &text);

/** The accesses of the launches of this thread, while it lives. */
struct record_op {
    record_op(const char *name, std::vector<recorded_range> ranges);
    ~record_op();
    record_op(const record_op &) = delete;

    const char *name;
    std::vector<recorded_range> ranges;
    cudaStream_t stream = nullptr; /* the stream and its time at which the accesses were recorded last */
    uint32_t time = 0;
    record_op *outer;
};

/** Return a name that stays valid. */
const char *record_name(const std::string &name);
/** Show the step that this thread runs, for faults' texts; 0: none. */
void record_step(uint64_t number);

/* Of the stand-in: the device of a stream, and whether all memory is treated as device memory. */
extern "C" int zr_stand_in_device(cudaStream_t stream);
extern "C" bool zr_stand_in_is_touchable(void);
#endif
#endif
