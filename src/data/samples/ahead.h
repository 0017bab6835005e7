/** Prefetch of windows: a thread reads one stretch of samples at a time while the caller does something else. */
#ifndef ZR_DATA_AHEAD_H
#define ZR_DATA_AHEAD_H

#include "zr/base.h"

typedef struct zr__ahead zr__ahead;

/** Read a sample's window; called on the thread, never while the caller reads by itself. */
typedef zr_status (*zr__ahead_fn)(void *arg, int64_t sample, int32_t *window);

/** Start the thread, with room for `room` windows of window_tokens each. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__ahead_create(zr__ahead_fn read, void *arg, int64_t room, int64_t window_tokens,
                                        zr__ahead **ahead);
/** Stop the thread after the window that it is reading, and free everything. */
void zr__ahead_destroy(zr__ahead **ahead);

/** Prefetch samples first .. first+n, but no more than `room`. The windows of the stretch before are dropped; a
 * stretch that begins with the same sample stays as it is. */
void zr__ahead_want(zr__ahead *ahead, int64_t first, int64_t n);

/** Copy a sample's window, waiting until it is read, and return the error of reading it. *there false: the sample is
 * not in the stretch, and the thread has stopped, so that the caller may read. */
ZR_NODISCARD zr_status zr__ahead_take(zr__ahead *ahead, int64_t sample, int32_t *window, bool *there);

#endif
