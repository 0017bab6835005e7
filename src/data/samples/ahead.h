/** Prefetching of training windows by a background thread, which reads one range of samples at a time. */
#ifndef ZR_DATA_AHEAD_H
#define ZR_DATA_AHEAD_H

#include "zr/base.h"

typedef struct zr__ahead zr__ahead;

/** Read a sample's window. The prefetching thread calls this function, but never while the caller itself is reading. */
typedef zr_status (*zr__ahead_fn)(void *arg, int64_t sample, int32_t *window);

/** Start the prefetching thread, with buffers for `room` windows of window_tokens tokens each. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__ahead_create(zr__ahead_fn read, void *arg, int64_t room, int64_t window_tokens,
                                        zr__ahead **ahead);
/** Stop the thread after it has read its current window. Free everything. */
void zr__ahead_destroy(zr__ahead **ahead);

/** Prefetch the windows of n samples from `first` on, but at most `room` windows. If the previous range begins with the
 * same sample and had no error, it continues unchanged. Otherwise its windows are dropped. */
void zr__ahead_want(zr__ahead *ahead, int64_t first, int64_t n);

/** Copy a prefetched window, after waiting until it is read. Return the error if it could not be read. If the sample is
 * outside the range, set *there to false. The thread then reads nothing, so the caller may read the window itself. */
ZR_NODISCARD zr_status zr__ahead_take(zr__ahead *ahead, int64_t sample, int32_t *window, bool *there);

#endif
