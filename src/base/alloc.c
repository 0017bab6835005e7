/* The one door to host memory, so that tests can count and fail allocations. */
#include "zr/base.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN_BYTES = 64 };

void *zr_alloc(size_t bytes)
{
    if (bytes > (size_t)PTRDIFF_MAX - ALIGN_BYTES) return NULL;
    /* aligned_alloc wants a multiple; no bytes still give a pointer of their own. */
    size_t rounded = bytes ? (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES : ALIGN_BYTES;
    void *memory = aligned_alloc(ALIGN_BYTES, rounded);
    if (memory) memset(memory, 0, rounded);
    return memory;
}

void zr_free(void *memory)
{
    free(memory);
}
