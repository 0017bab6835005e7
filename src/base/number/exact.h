/**
 * Functions with which kernels add to a zr_exact directly: they count squares by exponent.
 */
#ifndef ZR_BASE_EXACT_H
#define ZR_BASE_EXACT_H

#include "zr/base.h"

/** limb[0] counts units of 2^-298, the square of the smallest F32. */
#define ZR__EXACT_UNIT (-298)

#define ZR__EXACT_LIMB_BITS 32
#define ZR__EXACT_LIMB_MASK 0xffffffff

/** *sum += sign * bits * 2^shift units, sign 1 or -1, shift in [0, 575]. Not carried: limbs hold 2^30 such terms
 *  before zr__exact_carry must come. */
ZR_INLINE void zr__exact_term(zr_exact *sum, int sign, uint64_t bits, int shift)
{
    int64_t *limb = sum->limb + shift / ZR__EXACT_LIMB_BITS;
    int low = shift % ZR__EXACT_LIMB_BITS;
    limb[0] += sign * (int64_t)(bits << low & ZR__EXACT_LIMB_MASK);
    limb[1] += sign * (int64_t)(bits >> (ZR__EXACT_LIMB_BITS - low) & ZR__EXACT_LIMB_MASK);
    limb[2] += sign * (int64_t)(bits >> ZR__EXACT_LIMB_BITS >> (ZR__EXACT_LIMB_BITS - low));
}

/** Bring all limbs but the last into [0, 2^32): a sum has one form, whatever it was added from. */
ZR_INLINE void zr__exact_carry(zr_exact *sum)
{
    /* Shifts of negative limbs round down, so the remainder that the mask leaves is never negative. */
    for (int i = 0; i < ZR_EXACT_LIMBS - 1; i++) {
        sum->limb[i + 1] += sum->limb[i] >> ZR__EXACT_LIMB_BITS;
        sum->limb[i] &= ZR__EXACT_LIMB_MASK;
    }
}

#endif
