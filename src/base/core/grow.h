/** Arrays that grow. (A string that grows is zr__text.) */
#ifndef ZR_BASE_GROW_H
#define ZR_BASE_GROW_H

#include "zr/base.h"

/** Return `array` with room for at least `n` elements of `each` bytes. If *room is less, the result is a new array
 * at least twice as large, with the old elements, zeros after them, and the old array freed. A NULL array has no room.
 * NULL: no memory; the old array is unchanged. */
void *zr__enlarge(void *array, int64_t *room, int64_t n, size_t each);

/** Make room for n elements in `array`, whose room is the int64_t `room`. Leaves the function with ZR_ERR_MEMORY;
 * `what` names the elements. */
#define ZR_GROW(array, room, n, what)                                                                                  \
    do {                                                                                                               \
        const int64_t zr_wanted_ = (n);                                                                                \
        if (zr_wanted_ <= (room)) break;                                                                               \
        void *zr_grown_ = zr__enlarge((array), &(room), zr_wanted_, sizeof(*(array)));                                 \
        ZR_CHECK(zr_grown_, ZR_ERR_MEMORY, "no memory for %lld %s", (long long)zr_wanted_, (what));                    \
        (array) = zr_grown_;                                                                                           \
    } while (0)

#endif
