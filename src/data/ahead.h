/** Windows that a thread reads while the caller does something else: one stretch of samples at a time. */
#ifndef ZR_DATA_AHEAD_H
#define ZR_DATA_AHEAD_H

#include "zr/base.h"

typedef struct zr__ahead zr__ahead;

/** Read a sample's window; called on the thread, never while the caller reads by itself. */
typedef zr_status (*zr__ahead_fn)(void *arg, int64_t sample, int32_t *window);

/** Start the thread, with room for so many windows of so many tokens. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__ahead_create(zr__ahead_fn read, void *arg, int64_t room, int64_t window_tokens,
                                        zr__ahead **ahead);
/** The thread ends, with the window that it reads. */
void zr__ahead_destroy(zr__ahead **ahead);

/** Samples first .. first+n are needed next (of these as many as there is room for). Those of before are forgotten, but
 *  for a stretch that begins with the same sample. */
void zr__ahead_want(zr__ahead *ahead, int64_t first, int64_t n);

/** Copy a sample's window, waiting for it; *there is false where it was not wanted, and the thread rests then, so that
 *  the caller may read. What reading it made of it. */
ZR_NODISCARD zr_status zr__ahead_take(zr__ahead *ahead, int64_t sample, int32_t *window, bool *there);

#endif
