/**
 * Libraries that get no memory and do not say so: oneDNN throws where C called it, or goes on without. A program whose
 * allocators they call notes here that one failed, and whoever relies on what they made asks.
 */
#ifndef ZR_BASE_SHORTAGE_H
#define ZR_BASE_SHORTAGE_H

#include "zr/base.h"

/** Note that a library got no memory on this thread. It stays noted as long as the thread runs. */
void zr__shortage_note(void);
/** ZR_ERR_MEMORY once that was noted: what a library has made on this thread since cannot be relied on. */
ZR_NODISCARD zr_status zr__shortage_check(void);

#endif
