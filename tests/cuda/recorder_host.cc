/* Tells the recorder of the host's accesses to pinned memory. The Makefile compiles src/engine and the host's part of
 * src/device/cuda for the stand-in with gcc's address checks of kernels (-fsanitize=kernel-address), which call these
 * functions at each load and store, and nothing else. Under sanitizers of programs, and with clang, it does not.
 */
#include "recorder.h"

namespace
{

inline void saw(uintptr_t at, size_t bytes, bool writes)
{
    if (record_is_pinned(at)) record_host("code of the engine", (const void *)at, bytes, writes);
}

} // namespace

#ifndef __SANITIZE_ADDRESS__
extern "C" {
#define ACCESSES(bytes)                                                                                                \
    void __asan_load##bytes##_noabort(uintptr_t at)                                                                    \
    {                                                                                                                  \
        saw(at, bytes, false);                                                                                         \
    }                                                                                                                  \
    void __asan_store##bytes##_noabort(uintptr_t at)                                                                   \
    {                                                                                                                  \
        saw(at, bytes, true);                                                                                          \
    }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

void __asan_loadN_noabort(uintptr_t at, size_t bytes)
{
    saw(at, bytes, false);
}

void __asan_storeN_noabort(uintptr_t at, size_t bytes)
{
    saw(at, bytes, true);
}

void __asan_handle_no_return(void)
{
}
}
#endif
