/**
 * Notes of allocations that fail inside a library which does not report it: oneDNN throws a C++ exception into C, or
 * goes on with a wrong result. The command's allocators note the failure here, and callers of the library check for
 * it.
 */
#ifndef ZR_BASE_SHORTAGE_H
#define ZR_BASE_SHORTAGE_H

#include "zr/base.h"

/** Note that a library got no memory on this thread. It stays noted as long as the thread runs. */
void zr__shortage_note(void);
/** Return ZR_ERR_MEMORY once a failure was noted on this thread: results of libraries may be wrong since. */
ZR_NODISCARD zr_status zr__shortage_check(void);

#endif
