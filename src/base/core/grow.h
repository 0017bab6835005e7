/** Growing arrays. (zr__text is a growing string.) */
#ifndef ZR_BASE_GROW_H
#define ZR_BASE_GROW_H

#include "zr/base.h"

/** Return `array` with capacity for at least `n` elements of `each` bytes. If the capacity *room is too small, return a
 * new array at least twice as large that holds the old elements followed by zeros, and free the old array. A NULL array
 * has capacity 0. Return NULL if memory is short; the old array is then unchanged. */
void *zr__enlarge(void *array, int64_t *room, int64_t n, size_t each);

/** Give `array` capacity for n elements; the int64_t variable `room` holds its capacity. On failure the enclosing
 * function returns ZR_ERR_MEMORY, with `what` as the elements' name in the message. */
#define ZR_GROW(array, room, n, what)                                                                                  \
    do {                                                                                                               \
        const int64_t zr_wanted_ = (n);                                                                                \
        if (zr_wanted_ <= (room)) break;                                                                               \
        void *zr_grown_ = zr__enlarge((array), &(room), zr_wanted_, sizeof(*(array)));                                 \
        ZR_CHECK(zr_grown_, ZR_ERR_MEMORY, "no memory for %lld %s", (long long)zr_wanted_, (what));                    \
        (array) = zr_grown_;                                                                                           \
    } while (0)

#endif
