/* Search for infinities and NaNs by their exponents, in whole blocks so that compilers vectorise the loop. */
#ifndef ZR_BASE_FINITE_H
#define ZR_BASE_FINITE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Return whether all n numbers are finite. */
static inline bool zr__finite_all(const float *x, int64_t n)
{
    const uint32_t exponent = 0x7f800000u;
    uint32_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof(bits));
        bad |= (bits & exponent) == exponent;
    }
    return !bad;
}

/* Return the index of the first of n numbers that is infinite or NaN, or -1 if all are finite. */
static inline int64_t zr__first_bad(const float *x, int64_t n)
{
    enum { BLOCK = 1024 };
    /* Pass a constant length for a whole block, so that the compiler vectorises the block's loop. */
    for (int64_t first = 0, length; first < n; first += length) {
        length = n - first < BLOCK ? n - first : BLOCK;
        if (length == BLOCK ? zr__finite_all(x + first, BLOCK) : zr__finite_all(x + first, length)) continue;
        while (zr__finite_all(x + first, 1)) first++;
        return first;
    }
    return -1;
}

#endif
