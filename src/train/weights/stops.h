/** Texts at which a text that comes in pieces ends: what may be the beginning of one is held back until it is none. */
#ifndef ZR_TRAIN_STOPS_H
#define ZR_TRAIN_STOPS_H

#include "base/text.h"

typedef struct zr__stops {
    const char *const *stop; /* (n) texts, none of them empty; borrowed */
    int64_t n;
    zr__text held; /* what is not told yet */
} zr__stops;

/** Add a piece. The first *ready bytes of stops->held can be told; *found: behind them stands one of the texts, of
 *  several that which begins first. ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__stops_add(zr__stops *stops, const char *piece, int64_t bytes, int64_t *ready, bool *found);
/** The first so many bytes have been told, or are not wanted. */
void zr__stops_told(zr__stops *stops, int64_t bytes);
void zr__stops_free(zr__stops *stops);

#endif
