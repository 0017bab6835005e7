/**
 * What fills a zr_exact beside the functions of zr/base.h: kernels that count squares by exponent.
 */
#ifndef ZR_BASE_EXACT_H
#define ZR_BASE_EXACT_H

#include "zr/base.h"

/** limb[0] counts units of 2^-298, the square of the smallest F32. */
#define ZR__EXACT_UNIT (-298)

/** *sum += sign * bits * 2^shift units, sign 1 or -1, shift in [0, 575]. Not carried: limbs hold 2^30 such terms
 *  before zr__exact_carry must come. */
void zr__exact_term(zr_exact *sum, int sign, uint64_t bits, int shift);

/** Bring all limbs but the last into [0, 2^32): a sum has one form, whatever it was added from. */
void zr__exact_carry(zr_exact *sum);

#endif
