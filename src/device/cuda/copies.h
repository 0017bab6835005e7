/* Copies from global to shared memory that run while a kernel does other work (cp.async). */
#ifndef ZR_DEVICE_CUDA_COPIES_H
#define ZR_DEVICE_CUDA_COPIES_H

#include "device/cuda/launch.h"

#ifdef __CUDACC__

__device__ __forceinline__ uint32_t zr__shared_address(const void *x)
{
    return (uint32_t)__cvta_generic_to_shared(x);
}

/* Asynchronous copies of 16 or 4 bytes from global to shared memory. Each `close` ends a group, which consists of all
 * copies since the previous `close`. After `wait<N>`, the copies of all groups but the last N are complete for this
 * thread. A barrier then makes them visible to other threads. */
struct zr__copies {
    /* Start one copy. If `there` is false, read nothing and write zeros. */
    template <int BYTES> __device__ __forceinline__ void add(void *to, const void *from, bool there)
    {
        const int bytes = there ? BYTES : 0;
        if constexpr (BYTES == 16)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                         :
                         : "r"(zr__shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes)
                         : "memory");
        else
            asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                         :
                         : "r"(zr__shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes)
                         : "memory");
    }
    __device__ __forceinline__ void close()
    {
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    template <int N> __device__ __forceinline__ void wait()
    {
        asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
    }
};

#else /* stand-in for tests without a GPU */

/* Copies of the stand-in. Blocks of threads with even indices do a copy at once. Blocks with odd indices delay the copy
 * until the kernel waits for it. A missing wait or barrier therefore gives a wrong result in one of the two kinds of
 * blocks. */
struct zr__copies {
    struct copy {
        void *to;
        const void *from;
        int bytes, group;
    } list[96];
    int n = 0, group = 0;

    template <int BYTES> void add(void *to, const void *from, bool there)
    {
        zr_stand_in_check((uintptr_t)to % BYTES == 0 && (uintptr_t)from % BYTES == 0 && n < 96);
        list[n++] = {to, there ? from : nullptr, BYTES, group};
        if (blockIdx.x % 2 == 0) run(group);
    }
    void close()
    {
        group++;
    }
    template <int N> void wait()
    {
        run(group - N - 1);
    }
    /* Do the copies of all groups up to `last`. */
    void run(int last)
    {
        int left = 0;
        for (int i = 0; i < n; i++) {
            if (list[i].group > last)
                list[left++] = list[i];
            else if (list[i].from)
                memcpy(list[i].to, list[i].from, (size_t)list[i].bytes);
            else
                memset(list[i].to, 0, (size_t)list[i].bytes);
        }
        n = left;
    }
};
#endif

#endif
