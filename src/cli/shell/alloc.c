/* Allocators for the libraries that the command calls. The libraries cannot handle a failed allocation: C code cannot
 * catch the exception of a C++ library, and oneDNN (2.6) does not check its allocations. Therefore the first failure
 * frees a reserve of memory and tries again. The library can then return, and its caller learns of the shortage from
 * base/core/shortage.h. */
#include "base/core/shortage.h"
#include "base/json/json.h"
#include "cli/shell/process.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* Size of the reserve in bytes. oneDNN needs this much to create a matrix product. The reserve is never written, so it
 * occupies no physical memory. */
enum { RESERVE_BYTES = 2 << 20 };

static void *_Atomic reserve;
static atomic_bool lacked; /* whether an allocation for a library has failed in any thread */

static bool fails_on_request(void)
{
    return cli_faults.allocation && cli_faults.allocation();
}

/** Allocate memory for jansson. Without memory, jansson stops parsing. */
static void *allocate_json(size_t bytes)
{
    void *memory = fails_on_request() ? NULL : malloc(bytes);
    if (!memory) atomic_store(&lacked, true);
    return zr__json_allocated(memory);
}

zr_status cli_alloc_check(void)
{
    ZR_CHECK(!atomic_load(&lacked), ZR_ERR_MEMORY,
             "no memory was left for a library that zr uses, so the result may be incomplete or wrong; give the "
             "process more memory, or do less at a time");
    return ZR_OK;
}

void cli_alloc_begin(void)
{
    atomic_store(&reserve, malloc(RESERVE_BYTES));
    json_set_alloc_funcs(allocate_json, free);
}

/** Allocate memory for C++ libraries and oneDNN. If even the reserve is not enough, end the process, because the caller
 * cannot handle a failure. */
static void *allocate_for_library(size_t align, size_t wanted)
{
    static const char last[] = "zr: a library that zr uses ran out of memory, and zr cannot shut down cleanly\n";
    const size_t bytes =
        /* rounded up to a multiple of `align`, as C11 requires */
        wanted <= SIZE_MAX - align ? (wanted + align - 1) / align * align : wanted;
    void *memory = fails_on_request() ? NULL : aligned_alloc(align, bytes);
    if (memory) return memory;
    atomic_store(&lacked, true);
    zr__shortage_note();
    free(atomic_exchange(&reserve, NULL));
    memory = aligned_alloc(align, bytes);
    if (memory) return memory;
    (void)!write(STDERR_FILENO, last, sizeof(last) - 1);
    _exit(cli_exit_code(ZR_ERR_MEMORY));
}

/* Operators new and delete of C++, and oneDNN's allocator. The program defines these symbols, so the libraries call
 * these functions instead of their own. */
ZR_API void *_Znwm(size_t bytes);
ZR_API void *_Znwm(size_t bytes)
{
    return allocate_for_library(sizeof(max_align_t), bytes ? bytes : 1);
}

ZR_API void _ZdlPv(void *memory);
ZR_API void _ZdlPv(void *memory)
{
    free(memory);
}

ZR_API void _ZdlPvm(void *memory, size_t bytes);
ZR_API void _ZdlPvm(void *memory, size_t bytes)
{
    (void)bytes;
    free(memory);
}

ZR_API int posix_memalign(void **memory, size_t align, size_t bytes)
{
    if (align < sizeof(void *) || (align & (align - 1)) != 0) return EINVAL;
    *memory = allocate_for_library(align, bytes);
    return 0;
}
