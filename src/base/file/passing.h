/** Passing memory: a bounce buffer for transfers from or to disk whose address or length does not allow direct I/O. A
 * plan reserves it, and a store divides it into slots. */
#ifndef ZR_BASE_PASSING_H
#define ZR_BASE_PASSING_H

#include <stdint.h>

/* maximum number of transfers in flight in each direction that use the passing memory */
#define ZR_PASSING_SLOTS 2

/* Return the number of slots of the passing memory in each direction, for `depth` transfers in flight in each
 * direction. */
static inline int zr__passing_slots(int depth)
{
    return depth < ZR_PASSING_SLOTS ? depth : ZR_PASSING_SLOTS;
}

/* Return the bytes of the passing memory for both directions, with transfers of at most `block_bytes`. */
static inline int64_t zr__passing_bytes(int64_t block_bytes, int depth)
{
    return 2 * zr__passing_slots(depth) * block_bytes;
}

#endif
