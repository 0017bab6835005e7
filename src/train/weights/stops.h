/** Stop texts, at which a text that comes in pieces ends: a possible beginning of one is held back until it is
 * decided. */
#ifndef ZR_TRAIN_STOPS_H
#define ZR_TRAIN_STOPS_H

#include "base/text/text.h"
#include "zr/base.h"

typedef struct zr__stops {
    const char *const *stop; /* (n) non-empty texts; borrowed */
    int64_t n;
    zr__text held; /* text that is not emitted yet */
} zr__stops;

/** Add a piece. The first *ready bytes of stops->held can be emitted; *found: a stop text follows them, the earliest
 * if there are several. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__stops_add(zr__stops *stops, const char *piece, int64_t bytes, int64_t *ready, bool *found);
/** Drop the first `bytes` bytes of stops->held: they were emitted, or are not wanted. */
void zr__stops_told(zr__stops *stops, int64_t bytes);
void zr__stops_free(zr__stops *stops);

#endif
