/**
 * A record of allocations that failed inside a library which does not report the failure: oneDNN throws a C++ exception
 * into C, or continues with a wrong result. The command's allocators note each failure here, and callers of such a
 * library check for it.
 */
#ifndef ZR_BASE_SHORTAGE_H
#define ZR_BASE_SHORTAGE_H

#include "zr/base.h"

/** Note that a library's allocation failed on this thread. The note lasts until the thread ends. */
void zr__shortage_note(void);
/** Return ZR_ERR_MEMORY if a library's allocation has failed on this thread, since its later results may be wrong. */
ZR_NODISCARD zr_status zr__shortage_check(void);

#endif
