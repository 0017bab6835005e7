/** Prefetching of training windows by a background thread, which reads samples in the order of their use. */
#ifndef ZR_DATA_AHEAD_H
#define ZR_DATA_AHEAD_H

#include "zr/base.h"

typedef struct zr__ahead zr__ahead;

/** Read a sample's window. The prefetching thread calls this function, but never while the caller itself is reading. */
typedef zr_status (*zr__ahead_fn)(void *arg, int64_t sample, int32_t *window);

/** Samples in the order of their use: blocks of `rows` consecutive samples, without end. A block begins `stride`
 * samples after the block before it. */
typedef struct zr__ahead_order {
    int64_t first, rows, stride;
} zr__ahead_order;

/** Start the prefetching thread, with buffers for `room` windows of window_tokens tokens each. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__ahead_create(zr__ahead_fn read, void *arg, int64_t room, int64_t window_tokens,
                                        zr__ahead **ahead);
/** Stop the thread after it has read its current window. Free everything. */
void zr__ahead_destroy(zr__ahead **ahead);

/** Prefetch samples in this order, at most `room` windows at a time. If `order` is the rest of the previous order and
 * no read has failed, the prefetched windows are kept. Otherwise they are dropped. */
void zr__ahead_want(zr__ahead *ahead, const zr__ahead_order *order);

/** Wait until a prefetched window has been read, and copy it. Unless `keeps`, drop this window and all earlier ones, so
 * that the thread reads on. Return the error if the window could not be read. If the sample is not prefetched, set
 * *there to false. The thread then reads nothing, so the caller may read the window itself. */
ZR_NODISCARD zr_status zr__ahead_take(zr__ahead *ahead, int64_t sample, bool keeps, int32_t *window, bool *there);

#endif
