/* Runs the blocks of a kernel on one thread of the processor. */
#ifndef ZR_TESTS_CUDA_BLOCKS_H
#define ZR_TESTS_CUDA_BLOCKS_H

#include "cuda_runtime.h"
#include "order.h"

constexpr int most_threads = 1024; /* of a block */
/* The shared memory that a kernel may use without request, and the most that a kernel may request on the smallest GPU
 * zr runs on (compute capability 8.6; 8.0 allows 163 KiB, 9.0 227 KiB). */
constexpr int shared_usual = 48 << 10, shared_most = 99 << 10;

/* A kernel launch: its sizes, its order and the call that runs it. */
struct launch {
    dim3 blocks, threads;
    size_t shared_bytes;
    bool backward; /* whether blocks and threads begin with the last */
    bool sparse;   /* whether only the first block, the middle one and the last two run */
    lot order;
    std::function<void()> run;
};

void run_blocks(const launch &l);

#endif
