/** Stop texts, which end a text that arrives in pieces. Bytes that may begin a stop text are held back until later
 * bytes decide. */
#ifndef ZR_TRAIN_STOPS_H
#define ZR_TRAIN_STOPS_H

#include "base/text/text.h"
#include "zr/base.h"

typedef struct zr__stops {
    const char *const *stop; /* array of n texts that are not empty; borrowed */
    int64_t n;
    zr__text held; /* text that is not emitted yet */
} zr__stops;

/** Append a piece to stops->held. *ready receives the number of bytes at the beginning of stops->held that can be
 * emitted. *found receives whether a stop text follows these bytes. If there are several stop texts, the earliest
 * counts. Errors: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__stops_add(zr__stops *stops, const char *piece, int64_t bytes, int64_t *ready, bool *found);
/** Remove the first `bytes` bytes of stops->held, because they were emitted or must not be emitted. */
void zr__stops_told(zr__stops *stops, int64_t bytes);
void zr__stops_free(zr__stops *stops);

#endif
