/** Prefetching of windows: a thread reads one range of samples at a time while the caller does something else. */
#ifndef ZR_DATA_AHEAD_H
#define ZR_DATA_AHEAD_H

#include "zr/base.h"

typedef struct zr__ahead zr__ahead;

/** Read a sample's window. Called on the prefetching thread, and never while the caller itself is reading. */
typedef zr_status (*zr__ahead_fn)(void *arg, int64_t sample, int32_t *window);

/** Start the thread, with buffers for `room` windows of window_tokens tokens each. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__ahead_create(zr__ahead_fn read, void *arg, int64_t room, int64_t window_tokens,
                                        zr__ahead **ahead);
/** Stop the thread after the window that it is reading, and free everything. */
void zr__ahead_destroy(zr__ahead **ahead);

/** Prefetch n samples from `first` on, but at most `room`. The previous range's windows are dropped, unless that range
 * begins with the same sample, in which case it continues unchanged. */
void zr__ahead_want(zr__ahead *ahead, int64_t first, int64_t n);

/** Wait until a sample's window is read, copy it, and return the error of reading it. If the sample is not in the
 * range, set *there to false; the thread then reads nothing, so the caller may read the window itself. */
ZR_NODISCARD zr_status zr__ahead_take(zr__ahead *ahead, int64_t sample, int32_t *window, bool *there);

#endif
