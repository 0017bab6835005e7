/* Searching for what is not finite: whole blocks by their exponents, which compilers make vectors of. */
#ifndef ZR_BASE_FINITE_H
#define ZR_BASE_FINITE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

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

/* The index of the first of (n) that is infinite or not a number; -1: none. */
static inline int64_t zr__first_bad(const float *x, int64_t n)
{
    enum { BLOCK = 1024 };
    /* The length of a whole block is a constant: compilers make vectors of that. */
    for (int64_t first = 0, length; first < n; first += length) {
        length = n - first < BLOCK ? n - first : BLOCK;
        if (length == BLOCK ? zr__finite_all(x + first, BLOCK) : zr__finite_all(x + first, length)) continue;
        while (zr__finite_all(x + first, 1)) first++;
        return first;
    }
    return -1;
}

#endif
