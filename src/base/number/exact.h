/**
 * Exact sums. Some functions are inline, for kernels that count squares by exponent and then add each count to the sum
 * with zr__exact_term.
 */
#ifndef ZR_BASE_EXACT_H
#define ZR_BASE_EXACT_H

#include "zr/base.h"

/** Add n F32 values. */
void zr__exact_add(zr_exact *sum, const float *x, int64_t n);

/** Add a double that is a multiple of 2^-298, with a magnitude below 2^330. Sums of squares of F32 values are such
 * doubles, however they were rounded. */
void zr__exact_add_double(zr_exact *sum, double x);

/** Add `other` to `sum`. */
void zr__exact_merge(zr_exact *sum, const zr_exact *other);

/** Return the sum rounded to the nearest double, or a non-finite value if any term was not finite. */
double zr__exact_value(const zr_exact *sum);

/** Convert a sum to doubles that ranks can exchange (_pack), and add such doubles to *sum (_unpack). _unpack accepts
 * the doubles of one rank, or the elementwise sum of the doubles of up to 2^20 ranks. This sum is exact, since each
 * double is a small integer. If a term is not finite, one double is NaN. */
void zr__exact_pack(const zr_exact *sum, double out[ZR_EXACT_LIMBS]);
void zr__exact_unpack(zr_exact *sum, const double in[ZR_EXACT_LIMBS]);

/** The unit of limb[0] is 2^-298, the square of the smallest F32. */
#define ZR__EXACT_UNIT (-298)

#define ZR__EXACT_LIMB_BITS 32
#define ZR__EXACT_LIMB_MASK 0xffffffff

/** Add sign * bits * 2^shift units to *sum, with sign 1 or -1 and shift in [0, 575]. Carries are not propagated: call
 * zr__exact_carry after at most 2^30 terms, before a limb overflows. */
ZR_INLINE void zr__exact_term(zr_exact *sum, int sign, uint64_t bits, int shift)
{
    int64_t *limb = sum->limb + shift / ZR__EXACT_LIMB_BITS;
    int low = shift % ZR__EXACT_LIMB_BITS;
    limb[0] += sign * (int64_t)(bits << low & ZR__EXACT_LIMB_MASK);
    limb[1] += sign * (int64_t)(bits >> (ZR__EXACT_LIMB_BITS - low) & ZR__EXACT_LIMB_MASK);
    limb[2] += sign * (int64_t)(bits >> ZR__EXACT_LIMB_BITS >> (ZR__EXACT_LIMB_BITS - low));
}

/** Propagate carries until all limbs but the last are in [0, 2^32). Then equal sums have equal limbs, in whatever order
 * their terms were added. */
ZR_INLINE void zr__exact_carry(zr_exact *sum)
{
    /* The right shift of a negative limb rounds down, so the remainder that the mask leaves is never negative. */
    for (int i = 0; i < ZR_EXACT_LIMBS - 1; i++) {
        sum->limb[i + 1] += sum->limb[i] >> ZR__EXACT_LIMB_BITS;
        sum->limb[i] &= ZR__EXACT_LIMB_MASK;
    }
}

#endif
