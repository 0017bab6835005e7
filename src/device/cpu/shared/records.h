/* Encoding and decoding of records (device/records.h), in pieces that fit into the L1 cache. */
#ifndef ZR_DEVICE_CPU_RECORDS_H
#define ZR_DEVICE_CPU_RECORDS_H

#include "device/cpu/shared/rows.h"
#include "device/cpu/shared/transpose.h"
#include "device/records.h"

/* Compute out[i], the random number of element first + i. */
static inline void zr__random_words(const zr_rng *rng, uint64_t first, int64_t n, uint32_t *restrict out)
{
    for (int64_t done = 0, take; done < n; done += take) {
        const uint64_t at = first + (uint64_t)done;
        const zr__record_keys keys = zr__record_keys_of(rng, (uint32_t)(at >> 32));
        take = zr__min64(n - done, ((int64_t)1 << 32) - (uint32_t)at);
        for (int64_t i = 0; i < take; i++) out[done + i] = zr__record_random(keys, (uint32_t)at + (uint32_t)i);
    }
}

/* Compute the codes of a record's elements x, one in each byte. Without random numbers (`random` is NULL) codes are
 * rounded to nearest. */
static inline void zr__record_codes(int8_t *restrict code, zr__record its, const float *restrict x, float divisor,
                                    const uint32_t *restrict random)
{
#define ZR__CODES(expression)                                                                                          \
    ZR_WIDE_LOOP                                                                                                       \
    for (int i = 0; i < its.elems; i++) code[i] = (int8_t)(expression)
    if (its.mantissa == 0 && random)
        ZR__CODES(zr__record_int_code(x[i] / divisor, (int32_t)its.largest, true, random[i]));
    else if (its.mantissa == 0)
        ZR__CODES(zr__record_int_code(x[i] / divisor, 0, false, 0));
    else if (its.mantissa == 3 && random)
        ZR__CODES(zr__record_fp8_code(x[i] / divisor, 3, true, random[i]));
    else if (its.mantissa == 3)
        ZR__CODES(zr__record_fp8_code(x[i] / divisor, 3, false, 0));
    else if (random)
        ZR__CODES(zr__record_fp8_code(x[i] / divisor, 2, true, random[i]));
    else
        ZR__CODES(zr__record_fp8_code(x[i] / divisor, 2, false, 0));
#undef ZR__CODES
}

/* In each pair of lanes l and l + h, replace the elements a and b by a + b and a - b. h is a constant. */
#define ZR__OTHER_LANE(l, h) ((l) ^ (h))
#define ZR__LANE_SIGN(l, h) ((l) & (h) ? -1.0f : 1.0f)
#define ZR__TURN_LANES(v, h) (ZR_SHUFFLE(v, v, ZR__OTHER_LANE, h) + (v) * (zr__vec){ZR_LANES(ZR__LANE_SIGN, h)})

/* Multiply 128 elements by the Hadamard matrix. */
static inline void zr__record_turn(float *x)
{
    for (int h = ZR__RECORD_TURNED / 2; h >= ZR_VEC; h /= 2)
        for (int first = 0; first < ZR__RECORD_TURNED; first += 2 * h)
            for (int i = first; i < first + h; i += ZR_VEC) {
                const zr__vec a = zr__vec_load(x + i), b = zr__vec_load(x + i + h);
                zr__vec_store(x + i, a + b);
                zr__vec_store(x + i + h, a - b);
            }
    for (int i = 0; i < ZR__RECORD_TURNED; i += ZR_VEC) {
        zr__vec a = zr__vec_load(x + i);
#if ZR_VEC > 8
        a = ZR__TURN_LANES(a, 8);
#endif
#if ZR_VEC > 4
        a = ZR__TURN_LANES(a, 4);
#endif
        a = ZR__TURN_LANES(a, 2);
        a = ZR__TURN_LANES(a, 1);
        zr__vec_store(x + i, a);
    }
}

/* Encode a whole record of x. */
static inline void zr__record_encode(uint8_t *restrict out, zr__record its, const float *restrict x,
                                     const uint32_t *restrict random)
{
    float turned[ZR__RECORD_ELEMS];
    if (its.turns) {
        for (int i = 0; i < its.elems; i++) turned[i] = x[i] * (1.0f / ZR__RECORD_TURNED);
        for (int i = 0; i < its.elems; i += ZR__RECORD_TURNED) zr__record_turn(turned + i);
        x = turned;
    }
    int32_t most = 0; /* bits of the largest magnitude; NaN has the most */
#pragma omp simd reduction(max : most)
    for (int i = 0; i < its.elems; i++) {
        const int32_t size = (int32_t)(zr__bits(x[i]) & 0x7fffffffu);
        most = size > most ? size : most;
    }
    const uint16_t scale = zr__record_scale((uint32_t)most, its.largest, random != NULL);
    memcpy(out, &scale, sizeof scale);
    out += ZR__RECORD_SCALE_BYTES;
    if (most >= 0x7f800000)
        memset(out, 0, (size_t)its.elems * (size_t)its.bits / 8);
    else if (its.bits == 8)
        zr__record_codes((int8_t *)out, its, x, zr__record_divisor(scale), random);
    else {
        int8_t code[ZR__RECORD_ELEMS];
        uint16_t pair[ZR__RECORD_ELEMS / 2];
        zr__record_codes(code, its, x, zr__record_divisor(scale), random);
        memcpy(pair, code, (size_t)its.elems);
        ZR_WIDE_LOOP
        for (int i = 0; i < its.elems / 2; i++) out[i] = (uint8_t)((pair[i] & 0xf) | (pair[i] >> 4 & 0xf0));
    }
}

static inline void zr__codes_widen(float *restrict out, const int8_t *restrict code, int64_t n, float scale)
{
    ZR_WIDE_LOOP
    for (int64_t i = 0; i < n; i++) out[i] = (float)code[i] * scale;
}

/* Decode the first n elements of a record of integers of 4 bits. */
static inline void zr__record_decode_4(float *restrict out, zr__record its, const uint8_t *restrict in, int64_t n,
                                       float scale)
{
    int8_t code[ZR__RECORD_ELEMS] = {0};
    for (int i = 0; i < its.elems / 2; i++) {
        code[2 * i] = (int8_t)((int8_t)(in[i] << 4) >> 4);
        code[2 * i + 1] = (int8_t)((int8_t)in[i] >> 4);
    }
    if (!its.turns) {
        zr__codes_widen(out, code, n, scale);
        return;
    }
    float turned[ZR__RECORD_ELEMS];
    zr__codes_widen(turned, code, ZR__RECORD_ELEMS, 1.0f);
    for (int i = 0; i < its.elems; i += ZR__RECORD_TURNED) zr__record_turn(turned + i);
    for (int64_t i = 0; i < n; i++) out[i] = turned[i] * scale;
}

/* Decode the first n elements of a record. */
static inline void zr__record_decode(float *restrict out, zr__record its, const uint8_t *restrict in, int64_t n)
{
    uint16_t narrow;
    memcpy(&narrow, in, sizeof narrow);
    const float scale = zr_f32_from_bf16(narrow);
    in += ZR__RECORD_SCALE_BYTES;
    if (its.mantissa == 3) {
        ZR_WIDE_LOOP
        for (int64_t i = 0; i < n; i++) out[i] = zr__record_fp8_value(in[i], 3) * scale;
    } else if (its.mantissa == 2) {
        ZR_WIDE_LOOP
        for (int64_t i = 0; i < n; i++) out[i] = zr__record_fp8_value(in[i], 2) * scale;
    } else if (its.bits == 4)
        zr__record_decode_4(out, its, in, n, scale);
    else
        zr__codes_widen(out, (const int8_t *)in, n, scale);
}

/* Decode n elements from `first` on, the first of a record: out[i] = in[first + i]. */
static inline void zr__records_load(float *restrict out, const void *in, zr_dtype dtype, int64_t first, int64_t n)
{
    const zr__record its = zr__record_of(dtype);
    const uint8_t *record = (const uint8_t *)in + first / its.elems * its.bytes;
    for (int64_t i = 0; i < n; i += its.elems, record += its.bytes)
        zr__record_decode(out + i, its, record, zr__min64(its.elems, n - i));
}

/* Encode a whole record of x with error feedback. `error` is the record of the errors of x, of the kind `kept`. Only
 * the first n elements have errors. */
static inline void zr__record_encode_kept(uint8_t *restrict out, zr__record its, const float *restrict x,
                                          const uint32_t *restrict random, uint8_t *restrict error, zr__record kept,
                                          const zr_feedback *feedback, int64_t n)
{
    const float beta = feedback->beta, scale = feedback->scale;
    float had[ZR__RECORD_ELEMS] = {0}, y[ZR__RECORD_ELEMS], value[ZR__RECORD_ELEMS];
    uint16_t error_scale;
    if (!feedback->anew) zr__record_decode(had, kept, error, its.elems);
    ZR_WIDE_LOOP
    for (int i = 0; i < its.elems; i++) {
        had[i] *= scale;
        y[i] = x[i] + had[i];
    }
    zr__record_encode(out, its, y, random);
    zr__record_decode(value, its, out, its.elems);
    ZR_WIDE_LOOP
    for (int i = 0; i < its.elems; i++) had[i] = zr__record_error(y[i], had[i], value[i], beta, scale);
    for (int64_t i = n; i < its.elems; i++) had[i] = 0;
    zr__record_encode(error, kept, had, NULL);
    memcpy(&error_scale, error, sizeof error_scale);
    if (zr__record_drops_errors(error_scale)) memset(error, 0, (size_t)kept.bytes);
}

/* Encode n elements from `first` on, the first of a record: out[first + i] = in[i]. Elements of the last record that
 * `in` lacks become 0. `casting` may be NULL. */
static inline void zr__records_store(void *out, zr_dtype dtype, int64_t first, const float *in, int64_t n,
                                     const zr_casting *casting)
{
    const zr__record its = zr__record_of(dtype), kept = zr__record_of(zr__error_dtype(dtype));
    const zr_rounding *rounding = casting ? casting->rounding : NULL;
    const zr_feedback *feedback = casting ? casting->feedback : NULL;
    uint8_t *record = (uint8_t *)out + first / its.elems * its.bytes;
    uint8_t *error = feedback ? (uint8_t *)feedback->error + first / its.elems * kept.bytes : NULL;
    uint32_t random[ZR_CHUNK];
    for (int64_t i = 0; i < n; i += its.elems, record += its.bytes) {
        const float *x = in + i;
        float last[ZR__RECORD_ELEMS];
        if (n - i < its.elems) {
            memset(last, 0, sizeof last);
            x = memcpy(last, x, (size_t)(n - i) * sizeof *x);
        }
        if (rounding && i % ZR_CHUNK == 0) /* for several records at once, since keys are expensive */
            zr__random_words(&rounding->rng, rounding->first + (uint64_t)(first + i),
                             zr__min64(ZR_CHUNK, n - i + ZR__RECORD_ELEMS), random);
        const uint32_t *its_random = rounding ? random + i % ZR_CHUNK : NULL;
        if (feedback)
            zr__record_encode_kept(record, its, x, its_random, error + i / its.elems * kept.bytes, kept, feedback,
                                   n - i);
        else
            zr__record_encode(record, its, x, its_random);
    }
}

/* Encode n states, at least 0, from `first` on, the first of a record: out[first + i] = x[i], rounded at random
 * (zr__record_state_scale). x changes. */
static inline void zr__records_store_states(void *out, zr_dtype dtype, int64_t first, float *x, int64_t n,
                                            const zr_rounding *rounding)
{
    const zr__record its = zr__record_of(dtype);
    const zr_casting casting = {.rounding = rounding};
    for (int64_t i = 0; i < n; i += its.elems) {
        const int64_t length = zr__min64(its.elems, n - i);
        int32_t most = 0; /* bits of the largest element; NaN has the most */
#pragma omp simd reduction(max : most)
        for (int64_t j = i; j < i + length; j++) {
            const int32_t bits = (int32_t)(zr__bits(x[j]) & 0x7fffffffu);
            most = bits > most ? bits : most;
        }
        uint32_t random;
        zr__random_words(&rounding->rng, rounding->first + (uint64_t)first + (uint64_t)i, 1, &random);
        const float scale = zr_f32_from_bf16(zr__record_state_scale((uint32_t)most, its.largest, random));
        const float top = its.largest * scale, least = zr__record_least(its.mantissa) * scale,
                    from = zr__record_float((uint32_t)most) < top ? zr__record_float((uint32_t)most) : top;
        if (most == 0 || most >= 0x7f800000) continue;
        ZR_WIDE_LOOP
        for (int64_t j = i; j < i + length; j++) x[j] = zr__record_state(x[j], from, top, least);
    }
    zr__records_store(out, dtype, first, x, n, &casting);
}

#endif
