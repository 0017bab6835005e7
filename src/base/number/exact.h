/**
 * Functions with which kernels add to a zr_exact directly: they count squares by exponent.
 */
#ifndef ZR_BASE_EXACT_H
#define ZR_BASE_EXACT_H

#include "zr/base.h"

/** Add n F32 values. */
void zr__exact_add(zr_exact *sum, const float *x, int64_t n);

/** Add another sum. */
void zr__exact_merge(zr_exact *sum, const zr_exact *other);

/** Return the nearest double; not finite when a term was not. */
double zr__exact_value(const zr_exact *sum);

/** Convert a sum to doubles that ranks can exchange, and back. unpack adds to *sum the doubles of one rank, or the
 *  element-wise sum of the doubles of up to 2^20 ranks, which is exact since they are small integers. A term that is
 *  not finite makes one double NaN. */
void zr__exact_pack(const zr_exact *sum, double out[ZR_EXACT_LIMBS]);
void zr__exact_unpack(zr_exact *sum, const double in[ZR_EXACT_LIMBS]);

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
