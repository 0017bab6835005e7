/** Memory through which bytes pass that a disk cannot transfer directly. A plan contains it, and a store divides it. */
#ifndef ZR_BASE_PASSING_H
#define ZR_BASE_PASSING_H

#include <stdint.h>

/* Transfers in flight in each direction that may go through the passing memory. */
#define ZR_PASSING_SLOTS 2

/* Return the number of such transfers, of `depth` transfers in flight in each direction. */
static inline int zr__passing_slots(int depth)
{
    return depth < ZR_PASSING_SLOTS ? depth : ZR_PASSING_SLOTS;
}

/* Return the bytes of the passing memory of both directions, for transfers of at most `block_bytes`. */
static inline int64_t zr__passing_bytes(int64_t block_bytes, int depth)
{
    return 2 * zr__passing_slots(depth) * block_bytes;
}

#endif
