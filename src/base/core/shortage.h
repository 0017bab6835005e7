/**
 * A record of allocations that failed inside a library that does not report failures. oneDNN, for example, throws a C++
 * exception into C, or continues with a wrong result. The command's allocators record each failure with
 * zr__shortage_note. After a call of the library, zr__shortage_check tells whether an allocation failed.
 */
#ifndef ZR_BASE_SHORTAGE_H
#define ZR_BASE_SHORTAGE_H

#include "zr/base.h"

/** Record that a library's allocation failed on this thread. The record lasts until the thread ends. */
void zr__shortage_note(void);
/** Return ZR_ERR_MEMORY if a library's allocation has failed on this thread. Results that the library returned
 * afterwards may be wrong. */
ZR_NODISCARD zr_status zr__shortage_check(void);

#endif
