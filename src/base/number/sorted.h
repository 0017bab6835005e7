/** Binary search for a number in a sorted array. */
#ifndef ZR_BASE_SORTED_H
#define ZR_BASE_SORTED_H

#include <stddef.h>
#include <stdint.h>

/** Count the elements whose key is below `number`, in an array sorted by this key in ascending order. The array has n
 * elements of `each` bytes, and the key is the int64_t at offset `at` (offsetof) of an element. */
static inline int64_t zr__sorted_below(const void *array, int64_t n, size_t each, size_t at, int64_t number)
{
    int64_t begin = 0, end = n;
    while (begin < end) {
        const int64_t middle = begin + (end - begin) / 2;
        const int64_t *there = (const void *)((const char *)array + (size_t)middle * each + at);
        if (*there < number)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

#endif
