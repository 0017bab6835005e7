/** Stop texts, which end a text that arrives in pieces. Bytes that may be the beginning of a stop text are held back
 * until later bytes decide. */
#ifndef ZR_TRAIN_STOPS_H
#define ZR_TRAIN_STOPS_H

#include "base/text/text.h"
#include "zr/base.h"

typedef struct zr__stops {
    const char *const *stop; /* n non-empty texts; borrowed */
    int64_t n;
    zr__text held; /* text that is not emitted yet */
} zr__stops;

/** Append a piece to stops->held. *ready receives the number of its first bytes that can be emitted. *found receives
 * whether a stop text follows these bytes; if several stop texts occur, the earliest one counts. Errors: ZR_ERR_MEMORY.
 */
ZR_NODISCARD zr_status zr__stops_add(zr__stops *stops, const char *piece, int64_t bytes, int64_t *ready, bool *found);
/** Remove the first `bytes` bytes of stops->held, because they were emitted or are not wanted. */
void zr__stops_told(zr__stops *stops, int64_t bytes);
void zr__stops_free(zr__stops *stops);

#endif
