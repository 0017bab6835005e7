/** Growing arrays. For a growing string use zr__text instead. */
#ifndef ZR_BASE_GROW_H
#define ZR_BASE_GROW_H

#include "base/core/scope.h"

/** Return `array` with capacity for at least `n` elements of `each` bytes. If the current capacity *room is too small,
 * allocate a new array at least twice as large, copy the old elements, set the rest to zero, and free the old array. A
 * NULL array has capacity 0. If memory is short, return NULL and leave the old array unchanged. */
void *zr__enlarge(void *array, int64_t *room, int64_t n, size_t each);

/** Give `array` capacity for n elements. The capacity is stored in the int64_t variable `room`. If memory is short,
 * return ZR_ERR_MEMORY from the enclosing function; the message calls the elements `what`. */
#define ZR_GROW(array, room, n, what)                                                                                  \
    do {                                                                                                               \
        const int64_t zr_wanted_ = (n);                                                                                \
        if (zr_wanted_ <= (room)) break;                                                                               \
        void *zr_grown_ = zr__enlarge((array), &(room), zr_wanted_, sizeof(*(array)));                                 \
        ZR_CHECK(zr_grown_, ZR_ERR_MEMORY, "no memory for %lld %s", (long long)zr_wanted_, (what));                    \
        (array) = zr_grown_;                                                                                           \
    } while (0)

#endif
