/* Memory that ends at a page that no access may touch. Sanitizers miss accesses of tile instructions and of masked
 * vectors. */
#ifndef ZR_TESTS_FENCE_H
#define ZR_TESTS_FENCE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

/* FENCE_GUARD: number of bytes before the memory that are filled with FENCE_FILL and checked. FENCE_KEPT: number of
 * freed mappings that a thread keeps to use again. FENCE_KEPT_BYTES: maximum size of such a mapping. */
enum { FENCE_GUARD = 64, FENCE_FILL = 0xa5, FENCE_KEPT = 16, FENCE_KEPT_BYTES = 16 << 20 };

/* Memory of `bytes` at `memory`, in a mapping of `open` bytes with a protected page before and after it. */
typedef struct fence {
    unsigned char *memory, *mapped;
    int64_t bytes, open;
} fence;

static _Thread_local fence fence_kept[FENCE_KEPT];

/* Map `open` bytes, or take a mapping that was kept: the smallest one that is large enough. */
static inline fence fence_map(int64_t open)
{
    const int64_t page = (int64_t)sysconf(_SC_PAGESIZE);
    fence *best = NULL;
    for (fence *k = fence_kept; k < fence_kept + FENCE_KEPT; k++)
        if (k->mapped && k->open >= open && (!best || k->open < best->open)) best = k;
    if (best) {
        const fence taken = *best;
        *best = (fence){0};
        return taken;
    }
    fence f = {.open = (open + page - 1) / page * page};
    unsigned char *all = mmap(NULL, (size_t)(f.open + 2 * page), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(all, MAP_FAILED);
    f.mapped = all + page;
    assert_int_equal(mprotect(f.mapped, (size_t)f.open, PROT_READ | PROT_WRITE), 0);
    return f;
}

/* Return `bytes` of memory. Its end is `gap` bytes before the protected page, or up to `align` - 1 more, so that it
 * begins at a multiple of `align`. */
static inline fence fence_new(int64_t bytes, int64_t gap, int64_t align)
{
    fence f = fence_map(bytes + gap + align + FENCE_GUARD);
    unsigned char *end = f.mapped + f.open;
    f.bytes = bytes;
    f.memory = f.mapped + (f.open - gap - bytes) / align * align;
    memset(f.memory - FENCE_GUARD, FENCE_FILL, FENCE_GUARD);
    memset(f.memory + bytes, FENCE_FILL, (size_t)(end - f.memory - bytes));
#ifdef __SANITIZE_ADDRESS__
    ASAN_POISON_MEMORY_REGION(f.mapped, (size_t)(f.memory - f.mapped));
    ASAN_POISON_MEMORY_REGION(f.memory + bytes, (size_t)(end - f.memory - bytes));
#endif
    return f;
}

/* Free the memory, and check that the bytes beside it are intact. */
static inline void fence_free(fence *f)
{
    const int64_t page = (int64_t)sysconf(_SC_PAGESIZE);
    if (!f->mapped) return;
#ifdef __SANITIZE_ADDRESS__
    ASAN_UNPOISON_MEMORY_REGION(f->mapped, (size_t)f->open);
#endif
    for (int i = 1; i <= FENCE_GUARD; i++) assert_int_equal(f->memory[-i], FENCE_FILL);
    for (const unsigned char *at = f->memory + f->bytes; at < f->mapped + f->open; at++)
        assert_int_equal(*at, FENCE_FILL);
    for (int i = 0; i < FENCE_KEPT && f->open <= FENCE_KEPT_BYTES; i++) {
        if (fence_kept[i].mapped) continue;
        fence_kept[i] = *f;
        *f = (fence){0};
        return;
    }
    assert_int_equal(munmap(f->mapped - page, (size_t)(f->open + 2 * page)), 0);
    *f = (fence){0};
}

#endif
