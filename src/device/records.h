/**
 * Records: scales and codes of the types of zr/tensor.h whose elements share a scale. The functions use exact or
 * correctly rounded operations in a fixed order, so that all devices make the same bits. They have no branches on
 * elements, so that compilers vectorise loops over them. The header is plain C, and CUDA kernels include it as C++.
 *
 * The scale is the largest magnitude of the record divided by the largest code Q, in bf16. With rounding to nearest,
 * the scale is rounded to nearest too. The quotient of an element and the scale is then at most Q (1 + 2^-8), and since
 * Q is at most 127 in units of the largest codes, the quotient is rounded to a code that is at most half a unit away.
 * The largest magnitude gets the code Q, so that a record that was decoded is encoded again with the same scale and
 * codes. Stochastic rounding rounds the scale up, because it has no code above Q to which it could round up a larger
 * quotient. Scales that are subnormal are always rounded up, because they have fewer bits.
 *
 * A quotient in fp32 never reaches the point between two codes from either side: this point times the scale has at most
 * 16 bits, so that an element that differs from it does so by more than half an ulp of the quotient.
 *
 * A rotated record has the codes of y = H x / 128, where H is Sylvester's Hadamard matrix, whose entry (i, j) is 1 or
 * -1 for an even or odd number of bits in i & j. H is its own inverse but for the factor 128, so an element's value is
 * the sum over j of H(i, j) code(j), times the scale. This sum is an integer of 10 bits, so that the value is exact, in
 * any order of the additions, and a record that was decoded is again encoded without a change. The sums of y are in
 * fp32: their order is 64, 32, ..., 1 of the distance between the elements that are added.
 *
 * In memory, the scale precedes the codes in element order. Of two codes of 4 bits in a byte, the first is in the low
 * half.
 */
#ifndef ZR_DEVICE_RECORDS_H
#define ZR_DEVICE_RECORDS_H

#include "base/number/rng.h"
#include "tensor/tensor.h"

#define ZR__RECORD_ELEMS 256 /* maximum number of elements of a record */
#define ZR__RECORD_SCALE_BYTES 2
#define ZR__RECORD_TURNED 128 /* number of elements that are rotated together */

typedef struct zr__record {
    int elems, bytes;
    int bits;      /* bits of a code */
    int mantissa;  /* explicit bits of a code's significand, or 0 if codes are integers */
    float largest; /* largest code, Q */
    bool turns;    /* whether codes are those of rotated elements */
} zr__record;

/** Return the properties of a type with records. */
static inline zr__record zr__record_of(zr_dtype dtype)
{
    const bool e4m3 = dtype == ZR_E4M3X128 || dtype == ZR_E4M3X256, e5m2 = dtype == ZR_E5M2X128 || dtype == ZR_E5M2X256;
    zr__record r;
    r.elems = (int)zr__dtype_grain(dtype);
    r.bytes = (int)zr_dtype_bytes(dtype);
    r.bits = (r.bytes - ZR__RECORD_SCALE_BYTES) * 8 / r.elems;
    r.mantissa = e4m3 ? 3 : e5m2 ? 2 : 0;
    r.largest = e4m3 ? 448.0f : e5m2 ? 57344.0f : r.bits == 8 ? 127.0f : 7.0f;
    r.turns = dtype == ZR_H4X128 || dtype == ZR_H4X256;
    return r;
}

ZR_INLINE uint32_t zr__record_bits(float x)
{
    union {
        float f;
        uint32_t u;
    } v = {x};
    return v.u;
}

ZR_INLINE float zr__record_float(uint32_t u)
{
    union {
        uint32_t u;
        float f;
    } v = {u};
    return v.f;
}

/** Return the scale of a record whose largest magnitude has the bits `most`. The scale is NaN if the magnitude is not
 * finite. It is 0 only for a magnitude of 0. The largest code times the scale is finite. */
ZR_INLINE uint16_t zr__record_scale(uint32_t most, float largest, bool up)
{
    const uint32_t scale = zr__record_bits(zr__record_float(most) / largest);
    if (most >= 0x7f800000u) return 0x7fc0;
    if (!up && scale >= 0x00800000u) return (uint16_t)((scale + 0x7fffu + (scale >> 16 & 1u)) >> 16);
    const uint32_t above = (scale + 0xffffu) >> 16, least = most > 0;
    if (largest * zr__record_float(above << 16) > 0x1.fffffep127f) return (uint16_t)(above - 1);
    return (uint16_t)(above > least ? above : least);
}

/** Return whether a record of errors (zr_feedback.error) with this scale is not kept, but set to 0: errors that are not
 * finite, and errors with a subnormal scale, which might change each time they are decoded and encoded. */
ZR_INLINE bool zr__record_drops_errors(uint16_t scale)
{
    return scale < 0x0080u || scale >= 0x7f80u;
}

/** Return the error of an element that is kept for the next cast. y: the element with the earlier error; `had`: this
 * error, with the factor of the elements; `value`: what y's code stands for (zr_feedback). */
ZR_INLINE float zr__record_error(float y, float had, float value, float beta, float scale)
{
    return (beta * had + (1.0f - beta) * (y - value)) / scale;
}

/* States of optimizers, numbers of at least 0, are rounded at random, so that they follow changes that are smaller than
 * a unit of their codes. The scale is rounded at random too: otherwise the largest element would never decay. The
 * largest element then becomes the largest code times the scale (its top), exactly, so that a record that was decoded
 * is encoded again, to nearest, without a change. No element becomes 0 by rounding, because a root of it divides. */

/** Return the scale of a record of states whose largest element has the bits `most`. Use only the low 16 bits of the
 * random number; the codes' rounding needs few low bits. The scale is NaN if the element is not finite. */
ZR_INLINE uint16_t zr__record_state_scale(uint32_t most, float largest, uint32_t random)
{
    const uint32_t scale = (zr__record_bits(zr__record_float(most) / largest) + (random & 0xffffu)) >> 16;
    const uint32_t least = most != 0;
    return most >= 0x7f800000u ? (uint16_t)0x7fc0u : (uint16_t)(scale > least ? scale : least);
}

/** Return the element x of a record of states as it is encoded. `from`: the smaller of the largest element and `top`.
 * `least`: the smallest code above 0, times the scale. */
ZR_INLINE float zr__record_state(float x, float from, float top, float least)
{
    return x >= from ? top : x < least ? least : x;
}

/** Return the smallest number above 0 that a code with `mantissa` bits stands for. */
ZR_INLINE float zr__record_least(int mantissa)
{
    return mantissa == 3 ? 0x1p-9f : 0x1p-16f;
}

/** Return the divisor of a record's elements: the scale, or 1 if the scale is 0. */
ZR_INLINE float zr__record_divisor(uint16_t scale)
{
    return scale > 0 ? zr_f32_from_bf16(scale) : 1.0f;
}

/* ---- random numbers of stochastic rounding ---- */

/** Keys of 2^32 random numbers. */
typedef struct zr__record_keys {
    uint32_t first, second;
} zr__record_keys;

/** Return the keys of the random numbers of `rng` whose index has this high word. */
ZR_INLINE zr__record_keys zr__record_keys_of(const zr_rng *rng, uint32_t high)
{
    uint32_t word[4];
    zr__rng_block(rng, high, word);
    const zr__record_keys keys = {word[0], word[1]};
    return keys;
}

/** Return the random number whose index has the low word `low`: a hash of it and the keys. It takes three products of
 * 32 bits, so that rounding at random costs little more than rounding to nearest; a block of Philox takes 20 of 64 bits
 * for four numbers. Products and shifts come from triple32, a hash function of 32 bits found by a search (Wellons,
 * hash-prospector). */
ZR_INLINE uint32_t zr__record_random(zr__record_keys keys, uint32_t low)
{
    uint32_t x = low ^ keys.first;
    x = (x ^ x >> 17) * 0xed5ad4bbu;
    x = ((x ^ x >> 11) + keys.second) * 0xac4c1b51u;
    x = (x ^ x >> 15) * 0x31848babu;
    return x ^ x >> 14;
}

/* ---- codes ---- */

/** Round y, at least 0 and below 2^11, to an integer: to nearest, or up with the probability of its fraction, for a
 * uniform number `random` of 32 bits. */
ZR_INLINE int32_t zr__record_integer(float y, bool at_random, uint32_t random)
{
    if (at_random) return (int32_t)(((uint32_t)(int32_t)(y * 0x1p20f) + (random >> 12)) >> 20);
    return (int32_t)(zr__record_bits(y + 0x1p23f) - 0x4b000000u);
}

/** Return the integer code of the quotient y, from -Q to Q. */
ZR_INLINE int8_t zr__record_int_code(float y, int32_t largest, bool at_random, uint32_t random)
{
    if (!at_random) return (int8_t)zr__record_bits(y + 0x1.8p23f); /* the sum's low byte is the nearest integer */
    const uint32_t bits = zr__record_bits(y);
    const int32_t size = zr__record_integer(zr__record_float(bits & 0x7fffffffu), true, random);
    const int32_t code = size < largest ? size : largest, sign = -(int32_t)(bits >> 31);
    return (int8_t)((code ^ sign) - sign);
}

/** Return the code of the quotient y as a number with `mantissa` bits: 3 for E4M3, or 2 for E5M2. */
ZR_INLINE uint8_t zr__record_fp8_code(float y, int mantissa, bool at_random, uint32_t random)
{
    const int shift = 23 - mantissa, bias = (1 << (6 - mantissa)) - 1;
    const uint32_t top = mantissa == 3 ? 0x7eu : 0x7bu, bits = zr__record_bits(y), size = bits & 0x7fffffffu;
    const uint32_t tiny = 0u - (uint32_t)(size < (uint32_t)(128 - bias) << 23); /* the code is subnormal */
    const uint32_t bump = at_random ? random >> (32 - shift) : (1u << (shift - 1)) - 1u + (size >> shift & 1u);
    const uint32_t normal = (size - ((uint32_t)(127 - bias) << 23) + bump) >> shift;
    const float units = zr__record_float(size & tiny) * (float)(1u << (bias - 1 + mantissa));
    const uint32_t code = (tiny & (uint32_t)zr__record_integer(units, at_random, random)) | (~tiny & normal);
    return (uint8_t)((code < top ? code : top) | (bits >> 24 & 0x80u));
}

/** Return the number that a code of 8 bits stands for. */
ZR_INLINE float zr__record_fp8_value(uint8_t code, int mantissa)
{
    const int shift = 23 - mantissa, bias = (1 << (6 - mantissa)) - 1;
    const uint32_t size = code & 0x7fu, sign = (uint32_t)(code & 0x80u) << 24;
    const uint32_t tiny = 0u - (uint32_t)(size < 1u << mantissa);
    const float units = (float)(int32_t)size * (1.0f / (float)(1u << (bias - 1 + mantissa)));
    const uint32_t normal = (size << shift) + ((uint32_t)(127 - bias) << 23);
    return zr__record_float((tiny & zr__record_bits(units)) | (~tiny & normal) | sign);
}

#endif
