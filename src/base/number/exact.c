#include "base/number/exact.h"

#include <math.h>
#include <string.h>

#define LIMB_BITS ZR__EXACT_LIMB_BITS
#define LIMB_MASK ZR__EXACT_LIMB_MASK
/* Number of terms after which carries are propagated. A limb could hold 2^30 terms. */
#define TERMS_A_CARRY 4096

/* Add a double as an integer of 53 bits times a power of two. `x` is a multiple of the sum's unit
 * (zr__exact_add_double). Subnormal doubles are below this unit, so the only one here is zero. */
static void add_one(zr_exact *sum, double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    const int exponent = (int)(u >> 52 & 0x7ff), shift = exponent - 1075 - ZR__EXACT_UNIT;
    const uint64_t bits = (u & 0xfffffffffffff) | (uint64_t)1 << 52;
    if (exponent == 0x7ff)
        sum->not_finite = true;
    else if (exponent > 0)
        zr__exact_term(sum, u >> 63 ? -1 : 1, shift < 0 ? bits >> -shift : bits, shift < 0 ? 0 : shift);
}

void zr__exact_add_double(zr_exact *sum, double x)
{
    add_one(sum, x);
    zr__exact_carry(sum);
}

void zr__exact_add(zr_exact *sum, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        add_one(sum, x[i]);
        if ((i + 1) % TERMS_A_CARRY == 0) zr__exact_carry(sum);
    }
    zr__exact_carry(sum);
}

void zr__exact_merge(zr_exact *sum, const zr_exact *other)
{
    for (int i = 0; i < ZR_EXACT_LIMBS; i++) sum->limb[i] += other->limb[i];
    sum->not_finite |= other->not_finite;
    zr__exact_carry(sum);
}

/* Write the magnitude of a sum as 32-bit digits, lowest first; the last limb may need two digits. Return whether the
 * sum is negative. */
static bool digits_of(const zr_exact *sum, uint32_t digit[ZR_EXACT_LIMBS + 1])
{
    zr_exact copy = *sum;
    zr__exact_carry(&copy);
    bool negative = copy.limb[ZR_EXACT_LIMBS - 1] < 0;
    if (negative) {
        for (int i = 0; i < ZR_EXACT_LIMBS; i++) copy.limb[i] = -copy.limb[i];
        zr__exact_carry(&copy);
    }
    for (int i = 0; i < ZR_EXACT_LIMBS; i++) digit[i] = (uint32_t)copy.limb[i];
    digit[ZR_EXACT_LIMBS] = (uint32_t)(copy.limb[ZR_EXACT_LIMBS - 1] >> LIMB_BITS);
    return negative;
}

double zr__exact_value(const zr_exact *sum)
{
    /* Begin with two zero digits, so that at least two digits are below the highest nonzero digit. */
    uint32_t digit[2 + ZR_EXACT_LIMBS + 1] = {0};
    if (sum->not_finite) return NAN;
    bool negative = digits_of(sum, digit + 2);
    int top = ZR_EXACT_LIMBS + 2;
    while (top > 2 && digit[top] == 0) top--;

    uint64_t high = (uint64_t)digit[top] << LIMB_BITS | digit[top - 1];
    if (high == 0) return 0;
    int up = __builtin_clzll(high);
    uint64_t rest = (uint64_t)digit[top - 2] << up;
    bool inexact = (rest & LIMB_MASK) != 0;
    for (int i = 0; i < top - 2; i++) inexact |= digit[i] != 0;

    /* The mantissa holds the 64 highest bits of the sum. Its last bit is also set if any lower bit is set (a sticky
     * bit). Therefore the conversion to the 53 bits of a double rounds to nearest as if it saw all bits. */
    uint64_t mantissa = high << up | rest >> LIMB_BITS | inexact;
    double value = ldexp((double)mantissa, ZR__EXACT_UNIT + LIMB_BITS * (top - 3) - up);
    return negative ? -value : value;
}

void zr__exact_pack(const zr_exact *sum, double out[ZR_EXACT_LIMBS])
{
    zr_exact copy = *sum;
    zr__exact_carry(&copy);
    for (int i = 0; i < ZR_EXACT_LIMBS; i++) out[i] = (double)copy.limb[i];
    if (sum->not_finite) out[0] = NAN;
}

void zr__exact_unpack(zr_exact *sum, const double in[ZR_EXACT_LIMBS])
{
    for (int i = 0; i < ZR_EXACT_LIMBS; i++) {
        if (isfinite(in[i]))
            sum->limb[i] += (int64_t)in[i];
        else
            sum->not_finite = true;
    }
    zr__exact_carry(sum);
}
