/*
 * Records on GPUs (device/records.h): codes of one element, and reading elements of any type that casts and sums
 * accept. Records are aligned to 2 bytes, so they are read and written in words of 16 bits.
 */
#ifndef ZR_DEVICE_CUDA_RECORDS_H
#define ZR_DEVICE_CUDA_RECORDS_H

#include "device/cuda/launch.h"
#include "device/records.h"

/* How the elements of an array are read. */
struct zr__reader {
    zr_dtype dtype;
    zr__record record; /* properties of the type; `elems` is 0 if it has no records */
};

static inline zr__reader zr__reader_of(zr_dtype dtype)
{
    zr__reader reader = {dtype, {}};
    if (zr_dtype_is_record(dtype)) reader.record = zr__record_of(dtype);
    return reader;
}

/* Return whether arrays are aligned for reading several elements at a time. */
static inline bool zr__can_pack(zr__reader reader, const void *x)
{
    return reader.record.elems > 0 || zr__is_aligned(x);
}

/* Return the index of a record's first word, and set *i from an element's index to its index in the record. */
__device__ __forceinline__ int64_t zr__record_words(const zr__record &its, int64_t *i)
{
    const int64_t record = *i >> (its.elems == 128 ? 7 : 8);
    *i &= its.elems - 1;
    return record * (its.bytes / 2);
}

__device__ __forceinline__ float zr__code_value(const zr__record &its, uint32_t code)
{
    if (its.mantissa == 3) return zr__record_fp8_value((uint8_t)code, 3);
    if (its.mantissa == 2) return zr__record_fp8_value((uint8_t)code, 2);
    return (float)(its.bits == 8 ? (int32_t)(code << 24) >> 24 : (int32_t)(code << 28) >> 28);
}

/* Decode V elements of a record. `word` is its first word, and `i` the index in the record of the first element, a
 * multiple of V. */
template <int V, int bits>
__device__ __forceinline__ void zr__decode(float (&out)[V], const zr__record &its, const uint16_t *word, int i)
{
    const float scale = zr_f32_from_bf16(word[0]);
    const uint16_t *codes = word + 1 + i * bits / 16;
    for (int v = 0; v < V; v++) {
        const uint32_t code = (uint32_t)codes[v * bits / 16] >> ((i + v) * bits % 16);
        out[v] = zr__code_value(its, code & ((1u << bits) - 1)) * scale;
    }
}

/* Decode V elements of a record whose elements were rotated. Arguments as for zr__decode. */
template <int V> __device__ __forceinline__ void zr__decode_turned(float (&out)[V], const uint16_t *word, int i)
{
    const int own = i % ZR__RECORD_TURNED;
    const uint16_t *codes = word + 1 + (i - own) / 4;
    int32_t sum[V] = {};
    for (int j = 0; j < ZR__RECORD_TURNED; j += V) {
        const bool minus = __popc((unsigned)(own & j)) & 1;
        for (int v = 0; v < V; v++) {
            const int32_t code = (int32_t)((uint32_t)codes[(j + v) / 4] >> ((j + v) % 4 * 4) << 28) >> 28;
            sum[v] += minus ? -code : code;
        }
    }
#pragma unroll
    for (int h = V / 2; h > 0; h /= 2)
#pragma unroll
        for (int v = 0; v < V; v++)
            if ((v & h) == 0) {
                const int32_t a = sum[v], b = sum[v + h];
                sum[v] = a + b;
                sum[v + h] = a - b;
            }
    const float scale = zr_f32_from_bf16(word[0]);
    for (int v = 0; v < V; v++) out[v] = (float)sum[v] * scale;
}

/* Load V elements from element i on, a multiple of V. If V > 1, the elements must be a record's, or aligned as in
 * zr__get_all. */
template <int V>
__device__ __forceinline__ void zr__read_all(float (&out)[V], const zr__reader &reader, const void *x, int64_t i)
{
    const zr__record &its = reader.record;
    if (its.elems == 0) {
        zr__get_all<V>(out, zr__array{(void *)x, reader.dtype}, i);
        return;
    }
    const uint16_t *word = (const uint16_t *)x + zr__record_words(its, &i);
    if (its.turns)
        zr__decode_turned<V>(out, word, (int)i);
    else if (its.bits == 8)
        zr__decode<V, 8>(out, its, word, (int)i);
    else
        zr__decode<V, 4>(out, its, word, (int)i);
}

/* Return the code of a quotient, in the low bits. */
__device__ __forceinline__ uint32_t zr__code_of(const zr__record &its, float y, bool at_random, uint32_t random)
{
    if (its.mantissa == 3) return zr__record_fp8_code(y, 3, at_random, random);
    if (its.mantissa == 2) return zr__record_fp8_code(y, 2, at_random, random);
    return (uint8_t)zr__record_int_code(y, (int32_t)its.largest, at_random, random) & ((1u << its.bits) - 1);
}

/* ---- records that a warp encodes: one of 256 elements, or two of 128 ----------------------------- */

constexpr int ZR__ENCODED = 8; /* number of elements of a thread */
constexpr int ZR__ENCODED_WARP = ZR__ENCODED * ZR__WARP;
static_assert(ZR__ENCODED_WARP == ZR__RECORD_ELEMS, "whole records");

__device__ __forceinline__ uint32_t zr__more_of(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Return the bits of the largest magnitude of a record. NaN has the most. */
__device__ __forceinline__ uint32_t zr__record_most(const zr__record &its, const float (&x)[ZR__ENCODED])
{
    uint32_t most = 0;
    for (int v = 0; v < ZR__ENCODED; v++) most = zr__more_of(most, __float_as_uint(x[v]) & 0x7fffffffu);
    for (int mask = its.elems / ZR__ENCODED / 2; mask > 0; mask /= 2)
        most = zr__more_of(most, __shfl_xor_sync(ZR__ALL_LANES, most, mask));
    return most;
}

/* Return the random number `index`. *keys are the keys of the number before, except for a thread's first number. */
__device__ __forceinline__ uint32_t zr__random_at(const zr_rng &rng, zr__record_keys *keys, bool first, uint64_t index)
{
    if (first || (uint32_t)index == 0) *keys = zr__record_keys_of(&rng, (uint32_t)(index >> 32));
    return zr__record_random(*keys, (uint32_t)index);
}

#endif
