/* Allocation of host memory. All of zr allocates here, so that tests can count and fail allocations. */
#include "zr/base.h"
#include "base/core/core.h"

#include <stdlib.h>
#include <sys/mman.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

enum { ALIGN_BYTES = 64, LARGE_BYTES = 8 << 20 };

static _Thread_local int64_t taken_bytes;

int64_t zr__alloc_taken(void)
{
    return taken_bytes;
}

/* Use calloc: it returns a large block as fresh zero pages, which the system allocates when a thread first touches
 * them. Store the address that calloc returned just before the aligned address, for zr_free. */
void *zr_alloc(size_t bytes)
{
    const size_t extra = ALIGN_BYTES + sizeof(void *);
    if (bytes > (size_t)PTRDIFF_MAX - extra) return NULL;
    char *block = calloc(1, bytes + extra);
    if (!block) return NULL;
    char *memory = block + sizeof(void *);
    memory += (ALIGN_BYTES - (uintptr_t)memory % ALIGN_BYTES) % ALIGN_BYTES;
    ((void **)memory)[-1] = block;
    taken_bytes += (int64_t)bytes;
#ifdef __SANITIZE_ADDRESS__
    /* Poison the alignment padding after the memory, so that a read past the end is reported. */
    ASAN_POISON_MEMORY_REGION(memory + bytes, (size_t)(block + bytes + extra - (memory + bytes)));
#endif
#ifdef MADV_HUGEPAGE
    /* Ask for huge pages, which reduce page faults and TLB misses. If the system refuses, ordinary pages remain. */
    if (bytes >= LARGE_BYTES) {
        const uintptr_t page = 4096, begin = ((uintptr_t)memory + page - 1) / page * page;
        (void)madvise((void *)begin, ((uintptr_t)memory + bytes - begin) / page * page, MADV_HUGEPAGE);
    }
#endif
    return memory;
}

/* Populate in pieces, because no other thread can change the address space while madvise runs. */
void zr__alloc_populate(void *memory, int64_t bytes)
{
#ifdef MADV_POPULATE_WRITE
    const uintptr_t piece = 16 << 20, page = 4096, end = (uintptr_t)memory + (uintptr_t)bytes;
    for (uintptr_t at = ((uintptr_t)memory + page - 1) / page * page; at + page <= end; at += piece) {
        const uintptr_t left = (end - at) / page * page;
        if (madvise((void *)at, left < piece ? left : piece, MADV_POPULATE_WRITE) != 0) return;
    }
#else
    (void)memory, (void)bytes;
#endif
}

void zr_free(void *memory)
{
    if (memory) free(((void **)memory)[-1]);
}
