#include "base/core/grow.h"

#include <string.h>

/* minimum size of an array in bytes, equal to the alignment of zr_alloc */
enum { LEAST_BYTES = 64 };

void *zr__enlarge(void *array, int64_t *room, int64_t n, size_t each)
{
    if (n <= *room) return array;
    const int64_t least = LEAST_BYTES / (int64_t)each, most = PTRDIFF_MAX / (int64_t)each;
    int64_t wanted = *room <= most / 2 ? 2 * *room : most;
    if (wanted < least) wanted = least;
    if (wanted < n) wanted = n;
    void *larger = wanted <= most ? zr_alloc((size_t)wanted * each) : NULL;
    if (!larger) return NULL;
    if (*room > 0) memcpy(larger, array, (size_t)*room * each);
    zr_free(array);
    *room = wanted;
    return larger;
}
