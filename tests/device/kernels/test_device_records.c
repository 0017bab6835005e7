//TEST timeout=60
/* Records: errors of codes, scales at the ends of fp32's range, equal bits at all levels, stochastic rounding, error
 * feedback. The checks decode by the definition of each code, and compare in double, which is exact here. */
#include <math.h>

#include "device/device_levels.h"
#include "device/records.h"
#include "tensor/tensor.h"

#define N 1201 /* the last record is not full, for all types */
#define MOST_BYTES 1300
#define PIECES 5

static const zr_dtype types[] = {ZR_I8X128,   ZR_I8X256,   ZR_I4X128,   ZR_I4X256, ZR_E4M3X128,
                                 ZR_E4M3X256, ZR_E5M2X128, ZR_E5M2X256, ZR_H4X128, ZR_H4X256};
enum { TYPES = (int)(sizeof types / sizeof *types), PLAIN_TYPES = TYPES - 2 }; /* the last two have rotated elements */

/* Return the number of bits of a code's significand behind the point, or -1 if codes are integers. */
static int fraction_bits(zr_dtype dtype)
{
    return dtype == ZR_E4M3X128 || dtype == ZR_E4M3X256 ? 3 : dtype == ZR_E5M2X128 || dtype == ZR_E5M2X256 ? 2 : -1;
}

static bool is_rotated(zr_dtype dtype)
{
    return dtype == ZR_H4X128 || dtype == ZR_H4X256;
}

static bool has_4_bits(zr_dtype dtype)
{
    return dtype == ZR_I4X128 || dtype == ZR_I4X256 || is_rotated(dtype);
}

static double largest_code(zr_dtype dtype)
{
    const int bits = fraction_bits(dtype);
    return bits == 3 ? 448 : bits == 2 ? 57344 : has_4_bits(dtype) ? 7 : 127;
}

/* Return the distance of neighbouring codes around a quotient. */
static double unit_at(zr_dtype dtype, double quotient)
{
    const int bits = fraction_bits(dtype);
    if (bits < 0) return 1;
    int exponent = 0;
    frexp(quotient, &exponent);
    const int least = bits == 3 ? -6 : -14; /* exponent of the smallest normal code */
    return ldexp(1, (exponent - 1 > least ? exponent - 1 : least) - bits);
}

/* Return the value of a code by its definition. */
static double code_value(zr_dtype dtype, unsigned code)
{
    const int bits = fraction_bits(dtype);
    if (bits < 0) return has_4_bits(dtype) ? (int)(code ^ 8) - 8 : (int8_t)code;
    const int exponent = (int)(code & 127) >> bits, fraction = (int)code & ((1 << bits) - 1), bias = bits == 3 ? 7 : 15;
    const double size =
        exponent ? ldexp(fraction + (1 << bits), exponent - bias - bits) : ldexp(fraction, 1 - bias - bits);
    return code & 128 ? -size : size;
}

/* Return the scale of the record with element i. */
static double scale_of(const unsigned char *records, zr_dtype dtype, int64_t i)
{
    uint16_t scale;
    memcpy(&scale, records + zr_dtype_span(dtype, i / zr__dtype_grain(dtype) * zr__dtype_grain(dtype)), sizeof scale);
    return zr_f32_from_bf16(scale);
}

/* Return the number that the code of element i stands for. */
static double code_of(const unsigned char *records, zr_dtype dtype, int64_t i)
{
    const int64_t grain = zr__dtype_grain(dtype), at = i % grain;
    const unsigned char *code = records + zr_dtype_span(dtype, i - at) + 2;
    return code_value(dtype, has_4_bits(dtype) ? code[at / 2] >> at % 2 * 4 & 15 : code[at]);
}

/* Return the entry (i, j) of the Hadamard matrix. */
static double rotation(int64_t i, int64_t j)
{
    return __builtin_popcountll((unsigned long long)(i & j)) % 2 ? -1 : 1;
}

/* Return element i of records. */
static double value_of(const unsigned char *records, zr_dtype dtype, int64_t i)
{
    double sum = 0;
    if (!is_rotated(dtype)) return code_of(records, dtype, i) * scale_of(records, dtype, i);
    for (int64_t j = 0; j < 128; j++) sum += rotation(i % 128, j) * code_of(records, dtype, i / 128 * 128 + j);
    return sum * scale_of(records, dtype, i);
}

static void encode(zr_device *device, void *records, zr_dtype dtype, const float *x, int64_t n)
{
    assert_int_equal(device->ops->cast(device, records, dtype, x, ZR_F32, n, NULL), ZR_OK);
}

static void decode(zr_device *device, float *x, const void *records, zr_dtype dtype, int64_t n)
{
    assert_int_equal(device->ops->cast(device, x, ZR_F32, records, dtype, n, NULL), ZR_OK);
}

/* ---- records of all magnitudes ------------------------------------------------------------------ */

/* Kinds of records. Kinds from NOT_FINITE on have elements that are not finite. */
enum {
    PLAIN,
    HUGE,
    LARGEST,
    TINY,
    SUBNORMAL,
    LEAST,
    ZEROS,
    ONE_HUGE,
    TIES,
    MULTIPLES,
    STEEP,
    NOT_FINITE,
    KINDS = NOT_FINITE + 3
};

/* Fill x with a kind of numbers, different ones for each stream. */
static void fill_kind(float *x, int kind, zr_dtype dtype, uint32_t stream)
{
    const float Q = (float)largest_code(dtype), scale = zr_f32_from_bf16((uint16_t)(0x3c80 + 37 * stream % 128));
    const int64_t grain = zr__dtype_grain(dtype);
    fill(x, N, stream);
    for (int64_t i = 0; i < N; i++) {
        const float whole = rintf(x[i] * (Q < 127 ? 6 : 125));
        if (kind == HUGE) x[i] *= 0x1p127f;
        if (kind == LARGEST) x[i] = i % 3 ? x[i] * 0x1p127f : copysignf(0x1.fffffep127f, x[i]);
        if (kind == TINY) x[i] *= 0x1p-122f;
        if (kind == SUBNORMAL) x[i] *= ldexpf(1, -128 - (int)(i / grain) % 12);
        if (kind == LEAST) x[i] = i % 5 ? 0.0f : copysignf(0x1p-149f, x[i]);
        if (kind == ZEROS) x[i] = i % 2 ? 0.0f : -0.0f;
        if (kind == ONE_HUGE) x[i] = i % grain == 77 ? 1e30f : x[i] * 1e-3f;
        if (kind == TIES) x[i] = (i % grain == 3 ? Q : whole + 0.5f) * scale;
        if (kind == MULTIPLES) x[i] = (i % grain == 3 ? -Q : whole) * scale;
        if (kind == STEEP) x[i] = ldexpf(x[i], -(int)(i % grain) / 4);
        if (kind >= NOT_FINITE && i == 300)
            x[i] = kind == NOT_FINITE ? NAN : kind == NOT_FINITE + 1 ? INFINITY : -INFINITY;
    }
}

/* Check that the elements of finite records are at most half a unit from the codes, with ties to even, and that no
 * smaller scale would do. */
static void check_near(const unsigned char *records, zr_dtype dtype, const float *x, int64_t first, int64_t n)
{
    const double scale = scale_of(records, dtype, first), Q = largest_code(dtype);
    double most = 0;
    for (int64_t i = first; i < first + n; i++) {
        most = fmax(most, fabs((double)x[i]));
        const double got = value_of(records, dtype, i);
        const double quotient = scale > 0 ? (double)x[i] / scale : 0, unit = unit_at(dtype, quotient);
        if (fabs((double)x[i] - got) > unit * scale / 2) fail_msg("%s: %a is %a", zr_dtype_name(dtype), x[i], got);
        const double code = fmin(fmax(rint(quotient / unit) * unit, -Q), Q);
        if (got != code * scale) fail_msg("%s: %a is %a, not %a", zr_dtype_name(dtype), x[i], got, code * scale);
    }
    assert_true(isfinite(Q * scale) && Q * scale <= 0x1.fffffep127);
    assert_true(scale >= 0 && (scale > 0) == (most > 0));
    if (scale >= 0x1p-126) { /* the scale nearest to most / Q */
        const double step = ldexp(1, ilogb(scale) - 7);
        assert_true(fabs(most / Q - scale) <= step / 2 * (1 + 0x1p-16));
    } else if (scale > 0) /* the first at or above most / Q */
        assert_true(Q * scale >= most * (1 - 0x1p-16) && Q * (scale - 0x1p-133) < most);
}

/* Encode and decode a kind of numbers. Return the records. */
static const unsigned char *check_kind(zr_device *device, zr_dtype dtype, int kind, uint32_t stream)
{
    static unsigned char records[MOST_BYTES + 2], again[MOST_BYTES];
    static float x[N], back[N];
    const int64_t grain = zr__dtype_grain(dtype), bytes = zr_dtype_span(dtype, N);
    fill_kind(x, kind, dtype, stream);
    memset(records, 0xa5, sizeof records);
    assert_in_range(bytes, 1, MOST_BYTES);
    encode(device, records, dtype, x, N);
    assert_true(records[bytes] == 0xa5 && records[bytes + 1] == 0xa5);
    decode(device, back, records, dtype, N);
    bool normal = true;
    for (int64_t first = 0; first < N; first += grain) {
        const int64_t n = N - first < grain ? N - first : grain;
        const bool bad = kind >= NOT_FINITE && first <= 300 && 300 < first + n;
        for (int64_t i = first; i < first + n; i++) {
            if (bad) assert_true(isnan(scale_of(records, dtype, i)) && isnan(back[i]));
            if (!bad) assert_true((double)back[i] == value_of(records, dtype, i));
            if (!bad) assert_true(signbit(x[i]) || !signbit(back[i]));
            if (kind == MULTIPLES && fraction_bits(dtype) < 0) assert_true(back[i] == x[i]);
        }
        if (!bad) check_near(records, dtype, x, first, n);
        const double scale = scale_of(records, dtype, first);
        normal = normal && !(scale > 0 && scale < 0x1p-126);
    }
    if (normal) { /* what was decoded is encoded again without a change; only signs of zeros may be lost */
        encode(device, again, dtype, back, N);
        assert_memory_equal(again, records, (size_t)bytes);
    }
    return records;
}

static void check_kinds(zr_device *device)
{
    static unsigned char first[PLAIN_TYPES][KINDS][3][MOST_BYTES]; /* records of the first device */
    static bool filled;
    for (int t = 0; t < PLAIN_TYPES; t++)
        for (int kind = 0; kind < KINDS; kind++)
            for (uint32_t stream = 0; stream < 3; stream++) {
                const size_t bytes = (size_t)zr_dtype_span(types[t], N);
                const unsigned char *records = check_kind(device, types[t], kind, stream);
                if (!filled) memcpy(first[t][kind][stream], records, bytes);
                assert_memory_equal(records, first[t][kind][stream], bytes);
            }
    filled = true;
}

/* ---- other casts, sums -------------------------------------------------------------------------- */

/* Check all numbers of elements up to two records: the records are those of the elements followed by zeros, and
 * decoding writes no more than it was asked for. */
static void check_ends(zr_device *device)
{
    static float x[513], whole[512], back[513];
    unsigned char records[520], want[520];
    for (int t = 0; t < TYPES; t++)
        for (int64_t n = 0; n <= 512; n += n < 300 ? 1 : 53) {
            const int64_t bytes = zr_dtype_span(types[t], n);
            take(x, 512, 1);
            memcpy(whole, x, (size_t)n * sizeof *x);
            memset(whole + n, 0, (size_t)(512 - n) * sizeof *x);
            x[n] = NAN; /* beyond the end */
            memset(records, 0xa5, sizeof records);
            encode(device, records, types[t], x, n);
            encode(device, want, types[t], whole, 512);
            assert_memory_equal(records, want, (size_t)bytes);
            for (size_t i = (size_t)bytes; i < sizeof records; i++) assert_int_equal(records[i], 0xa5);
            for (int64_t i = 0; i <= n; i++) back[i] = 5;
            decode(device, back, records, types[t], n);
            for (int64_t i = 0; i < n; i++) assert_true((double)back[i] == value_of(records, types[t], i));
            assert_true(back[n] == 5);
        }
}

/* Check casts from and to 16 bits, between types with records, and copies, for more elements than one thread casts. */
static void check_types(zr_device *device)
{
    enum { ALL = 70001 };
    static float wide[ALL], back[ALL];
    static uint16_t narrow_x[ALL], narrow_back[ALL];
    static unsigned char records[2 * ALL], want[2 * ALL];
    const zr_device_ops *ops = device->ops;
    for (int t = 0; t < TYPES; t++) {
        const size_t bytes = (size_t)zr_dtype_span(types[t], ALL);
        for (zr_dtype half = ZR_BF16; half <= ZR_F16; half++) {
            take(wide, ALL, 2);
            narrow(narrow_x, half, wide, ALL);
            encode(device, want, types[t], wide, ALL);
            assert_int_equal(ops->cast(device, records, types[t], narrow_x, half, ALL, NULL), ZR_OK);
            assert_memory_equal(records, want, bytes);
            decode(device, back, records, types[t], ALL);
            assert_int_equal(ops->cast(device, narrow_back, half, records, types[t], ALL, NULL), ZR_OK);
            narrow(narrow_x, half, back, ALL);
            assert_memory_equal(narrow_back, narrow_x, sizeof narrow_x);
        }
        const zr_dtype other = types[(t + 3) % TYPES];
        decode(device, back, records, types[t], ALL);
        encode(device, want, other, back, ALL);
        static unsigned char made[2 * ALL];
        assert_int_equal(ops->cast(device, made, other, records, types[t], ALL, NULL), ZR_OK);
        assert_memory_equal(made, want, (size_t)zr_dtype_span(other, ALL));
        memset(made, 0xa5, sizeof made);
        assert_int_equal(ops->cast(device, made, types[t], records, types[t], ALL, NULL), ZR_OK);
        assert_memory_equal(made, records, bytes);
        assert_int_equal(made[bytes], 0xa5);
    }
    const zr_rounding rounding = {.rng = {.purpose = ZR_RNG_ROUND}};
    const zr_casting rounds = {.rounding = &rounding}, adds = {.added = back, .added_dtype = ZR_F32, .sign = 1},
                     wrong = {.added = back, .added_dtype = ZR_I32, .sign = 1};
    assert_int_equal(ops->cast(device, narrow_back, ZR_BF16, wide, ZR_F32, ALL, &rounds), ZR_ERR_ARG);
    assert_int_equal(ops->cast(device, narrow_back, ZR_BF16, wide, ZR_F32, ALL, &adds), ZR_ERR_ARG);
    assert_int_equal(ops->cast(device, want, ZR_I8X128, records, ZR_I4X128, ALL, &adds), ZR_ERR_ARG);
    assert_int_equal(ops->cast(device, records, ZR_I8X128, wide, ZR_F32, ALL, &wrong), ZR_ERR_DTYPE);
    assert_int_equal(ops->cast(device, records, ZR_I8X128, wide, ZR_I32, ALL, NULL), ZR_ERR_DTYPE);
    assert_int_equal(ops->cast(device, wide, ZR_I32, records, ZR_I8X128, ALL, NULL), ZR_ERR_DTYPE);
}

/* Check casts with an array that is added: records of x - y have the bits of records of the differences, and records
 * that are added to y, in its place, those of the sums of the decoded elements and y, rounded once. */
static void check_added(zr_device *device)
{
    enum { ALL = 70001 };
    static float x[ALL], y[ALL], sum[ALL], decoded[ALL];
    static uint16_t narrow_y[ALL];
    static unsigned char want[2 * ALL], got[2 * ALL];
    const zr_device_ops *ops = device->ops;
    for (int t = 0; t < TYPES; t++)
        for (zr_dtype type = ZR_F32; type <= ZR_F16; type++) {
            if (!zr_dtype_is_float(type)) continue;
            const bool wide = type == ZR_F32;
            void *place = wide ? (void *)y : narrow_y;
            zr_casting casting = {.added = place, .added_dtype = type, .sign = -1};
            take(x, ALL, 2);
            take(y, ALL, 9);
            if (!wide) narrow(narrow_y, type, y, ALL);
            if (!wide) assert_int_equal(ops->cast(device, y, ZR_F32, narrow_y, type, ALL, NULL), ZR_OK);
            for (int64_t i = 0; i < ALL; i++) sum[i] = x[i] - y[i];
            encode(device, want, types[t], sum, ALL);
            assert_int_equal(ops->cast(device, got, types[t], x, ZR_F32, ALL, &casting), ZR_OK);
            assert_memory_equal(got, want, (size_t)zr_dtype_span(types[t], ALL));
            decode(device, decoded, want, types[t], ALL);
            for (int64_t i = 0; i < ALL; i++) sum[i] = decoded[i] + y[i];
            casting.sign = 1;
            assert_int_equal(ops->cast(device, place, type, got, types[t], ALL, &casting), ZR_OK);
            if (!wide) narrow((uint16_t *)(void *)decoded, type, sum, ALL);
            assert_memory_equal(place, wide ? sum : decoded, (size_t)zr_dtype_span(type, ALL));
        }
}

/* Check that a sum of records has the bits of the sum of the decoded elements. */
static void check_sums(zr_device *device)
{
    static float x[N], decoded[PIECES][N], want[N], got[N];
    static unsigned char records[PIECES][MOST_BYTES];
    static uint16_t want16[N], got16[N];
    const zr_device_ops *ops = device->ops;
    for (int t = 0; t < TYPES; t++) {
        const void *pieces[PIECES], *plain[PIECES];
        for (int p = 0; p < PIECES; p++) {
            fill_kind(x, p == 3 ? TINY : p == 4 ? NOT_FINITE : PLAIN, types[t], (uint32_t)p);
            encode(device, records[p], types[t], x, N);
            decode(device, decoded[p], records[p], types[t], N);
            pieces[p] = records[p];
            plain[p] = decoded[p];
        }
        for (int n_pieces = 1; n_pieces <= PIECES; n_pieces++) {
            fill(want, N, 20);
            memcpy(got, want, sizeof got);
            for (int accumulate = 0; accumulate < 2; accumulate++) {
                assert_int_equal(ops->sum(device, want, ZR_F32, accumulate, plain, n_pieces, ZR_F32, N), ZR_OK);
                assert_int_equal(ops->sum(device, got, ZR_F32, accumulate, pieces, n_pieces, types[t], N), ZR_OK);
                assert_memory_equal(got, want, sizeof want);
            }
            assert_int_equal(ops->sum(device, want16, ZR_BF16, false, plain, n_pieces, ZR_F32, N), ZR_OK);
            assert_int_equal(ops->sum(device, got16, ZR_BF16, false, pieces, n_pieces, types[t], N), ZR_OK);
            assert_memory_equal(got16, want16, sizeof want16);
        }
        assert_int_equal(ops->sum(device, records[0], types[t], false, plain, 2, ZR_F32, N), ZR_ERR_DTYPE);
    }
}

/* ---- rotated elements --------------------------------------------------------------------------- */

/* Return the sum of the squared errors of x in a type. */
static double error_of(zr_device *device, zr_dtype dtype, const float *x, int64_t n)
{
    static unsigned char records[MOST_BYTES];
    double sum = 0;
    encode(device, records, dtype, x, n);
    for (int64_t i = 0; i < n; i++) sum += pow(value_of(records, dtype, i) - x[i], 2);
    return sum;
}

/* Check that the codes are those of the rotated elements, and that records are made again from what was decoded. */
static const unsigned char *check_rotated_kind(zr_device *device, zr_dtype dtype, int kind, uint32_t stream)
{
    static unsigned char records[MOST_BYTES], again[MOST_BYTES];
    static float x[1280], back[1280];
    const int64_t n = 1280, bytes = zr_dtype_span(dtype, n);
    fill_kind(x, kind, dtype, stream); /* the last elements are 0 */
    encode(device, records, dtype, x, n);
    decode(device, back, records, dtype, n);
    for (int64_t i = 0; i < n; i++) {
        double turned = 0, most = 0;
        const int64_t first = i / 128 * 128;
        for (int64_t j = 0; j < 128; j++) {
            turned += rotation(i - first, j) * x[first + j] / 128;
            most = fmax(most, fabs((double)x[first + j]));
        }
        const double scale = scale_of(records, dtype, i), got = code_of(records, dtype, i) * scale;
        const bool bad = kind >= NOT_FINITE && i / zr__dtype_grain(dtype) == 300 / zr__dtype_grain(dtype);
        if (bad) assert_true(isnan(scale) && isnan(back[i]));
        if (!bad) assert_true(fabs(turned - got) <= scale / 2 + most * 0x1p-20 + 0x1p-142);
        if (!bad) assert_true((double)back[i] == value_of(records, dtype, i));
    }
    encode(device, again, dtype, back, n);
    if (kind <= HUGE || kind >= ONE_HUGE) assert_memory_equal(again, records, (size_t)bytes); /* scales are normal */
    return records;
}

static void check_rotated(zr_device *device)
{
    static unsigned char first[2][KINDS][MOST_BYTES]; /* records of the first device */
    static bool filled;
    static float x[1280];
    for (int t = 0; t < 2; t++)
        for (int kind = 0; kind < KINDS; kind++) {
            const zr_dtype dtype = types[PLAIN_TYPES + t];
            if (kind == LARGEST) continue; /* sums of the largest numbers may be infinite */
            const unsigned char *records = check_rotated_kind(device, dtype, kind, 8);
            if (!filled) memcpy(first[t][kind], records, (size_t)zr_dtype_span(dtype, N));
            assert_memory_equal(records, first[t][kind], (size_t)zr_dtype_span(dtype, N));
        }
    filled = true;
    fill(x, 1280, 9);
    for (int64_t i = 5; i < 1280; i += 64) x[i] *= 30; /* few large elements, whose scale is too large for the others */
    assert_true(9 * error_of(device, ZR_H4X128, x, 1280) < error_of(device, ZR_I4X128, x, 1280));
    assert_true(9 * error_of(device, ZR_H4X256, x, 1280) < error_of(device, ZR_I4X256, x, 1280));
}

/* ---- stochastic rounding ------------------------------------------------------------------------ */

static zr_rounding rounding_of(uint32_t step, uint64_t first)
{
    return (zr_rounding){.rng = {.seed = 3, .purpose = ZR_RNG_ROUND, .stream = 5, .step = step}, .first = first};
}

/* Return random number `index` of a sequence, in other words than device/records.h. */
static double number_of(const zr_rng *rng, uint64_t index)
{
    const uint64_t word = (uint64_t)1 << 32, block = index / word;
    uint64_t x = index % word ^ zr_rng_u32(rng, 4 * block);
    x = (x ^ x / 131072) * 0xed5ad4bb % word;
    x = ((x ^ x / 2048) + zr_rng_u32(rng, 4 * block + 1)) % word * 0xac4c1b51 % word;
    x = (x ^ x / 32768) * 0x31848bab % word;
    return ((double)(x ^ x / 16384) + 0.5) * 0x1p-32;
}

/* Check that each element becomes one of its two neighbours, the upper one if its random number is so large that the
 * sum of the fraction and the number reaches 1. */
static void check_random_kind(zr_device *device, zr_dtype dtype, int kind, uint64_t begin)
{
    static float x[N];
    static unsigned char records[MOST_BYTES];
    const zr_rounding rounding = rounding_of(9, begin);
    const double Q = largest_code(dtype);
    fill_kind(x, kind, dtype, 4);
    assert_int_equal(device->ops->cast(device, records, dtype, x, ZR_F32, N, &(zr_casting){.rounding = &rounding}),
                     ZR_OK);
    for (int64_t i = 0; i < N; i++) {
        const double scale = scale_of(records, dtype, i), quotient = scale > 0 ? (float)(fabs(x[i]) / scale) : 0;
        const double unit = unit_at(dtype, quotient), low = floor(quotient / unit), got = value_of(records, dtype, i);
        const double number = number_of(&rounding.rng, begin + (uint64_t)i);
        const double code = fmin((low + (quotient / unit - low + number >= 1)) * unit, Q);
        const double near = fabs(quotient / unit - low + number - 1);
        if (near > 0x1p-19 && got != copysign(code * scale, x[i]))
            fail_msg("%s, %d: %a is %a, not %a", zr_dtype_name(dtype), kind, x[i], got, copysign(code * scale, x[i]));
        assert_true(Q * scale <= 0x1.fffffep127);
        if (kind != LARGEST) assert_true(fabs(x[i]) <= Q * scale * (1 + 0x1p-16));
    }
}

static void check_random(zr_device *device)
{
    for (int t = 0; t < PLAIN_TYPES; t++)
        for (int kind = 0; kind < NOT_FINITE; kind++)
            for (uint64_t begin = 0; begin < 8; begin += 3) /* the last range passes a multiple of 2^32 */
                check_random_kind(device, types[t], kind, (begin << 31) - (begin > 3 ? 40 : 0));
}

/* Check that records do not depend on how a range is divided, but on the step. */
static void check_random_parts(zr_device *device)
{
    enum { ALL = 66000 };
    static float x[ALL];
    static unsigned char whole[2 * ALL], parts[2 * ALL], other[2 * ALL];
    take(x, ALL, 3);
    for (int t = 0; t < TYPES; t++) {
        const zr_rounding rounding = rounding_of(1, 1021), next = rounding_of(2, 1021);
        const size_t bytes = (size_t)zr_dtype_span(types[t], ALL);
        const zr_casting whole_way = {.rounding = &rounding}, other_way = {.rounding = &next};
        assert_int_equal(device->ops->cast(device, whole, types[t], x, ZR_F32, ALL, &whole_way), ZR_OK);
        for (int64_t at = 0, n; at < ALL; at += n) {
            n = at == 0 ? 256 : at < 2048 ? 1792 : ALL - at;
            const zr_rounding part = rounding_of(1, 1021 + (uint64_t)at);
            assert_int_equal(device->ops->cast(device, parts + zr_dtype_span(types[t], at), types[t], x + at, ZR_F32, n,
                                               &(zr_casting){.rounding = &part}),
                             ZR_OK);
        }
        assert_memory_equal(parts, whole, bytes);
        assert_int_equal(device->ops->cast(device, other, types[t], x, ZR_F32, ALL, &other_way), ZR_OK);
        assert_memory_not_equal(other, whole, bytes);
    }
}

/* Check that the mean over many steps is the element: within 5 standard deviations, of at most half a unit each. */
static void check_random_mean(zr_device *device)
{
    enum { STEPS = 2000, ELEMS = 128 };
    static float x[N];
    unsigned char records[2 + ELEMS];
    for (int t = 0; t < PLAIN_TYPES; t += 2) {
        double sum[ELEMS] = {0}, scale = 0;
        fill(x, N, 6);
        for (uint32_t step = 0; step < STEPS; step++) {
            const zr_rounding rounding = rounding_of(step, 0);
            const zr_casting casting = {.rounding = &rounding};
            assert_int_equal(device->ops->cast(device, records, types[t], x, ZR_F32, ELEMS, &casting), ZR_OK);
            for (int64_t i = 0; i < ELEMS; i++) sum[i] += value_of(records, types[t], i);
            scale = scale_of(records, types[t], 0);
        }
        for (int64_t i = 0; i < ELEMS; i++)
            assert_true(fabs(sum[i] / STEPS - x[i]) <= 2.5 * unit_at(types[t], x[i] / scale) * scale / sqrt(STEPS));
    }
}

/* ---- error feedback ------------------------------------------------------------------------------ */

/* Check a cast that keeps errors: its records are those of the elements and their earlier errors, and its new errors
 * follow from the definition (zr_feedback). A record whose errors are not finite or too small keeps none. */
static void check_kept_kind(zr_device *device, zr_dtype dtype, int kind, int way)
{
    static float x[N], had[N], y[N], error[N];
    static unsigned char records[MOST_BYTES], want[MOST_BYTES], kept[MOST_BYTES + 2], want_kept[MOST_BYTES];
    const zr_dtype errors = zr__error_dtype(dtype);
    const int64_t grain = zr__dtype_grain(dtype), bytes = zr_dtype_span(errors, N);
    const zr_rounding rounding = rounding_of(3, 77);
    const float scale = way == 3 ? 1000.0f : kind == SUBNORMAL ? 0x1p-20f : 1.0f;
    const zr_feedback feedback = {.error = kept, .anew = way == 2, .beta = 0.8f, .scale = scale};
    const zr_casting plain = {.rounding = way == 1 ? &rounding : NULL},
                     keeps = {.rounding = plain.rounding, .feedback = &feedback};
    fill_kind(x, kind, dtype, 1);
    fill(had, N, 5);
    for (int64_t i = 0; i < N; i++) had[i] *= 0.07f / scale;
    encode(device, kept, errors, had, N);
    decode(device, had, kept, errors, N);
    if (way == 2) memset(kept, 0xff, sizeof kept); /* errors that are not read */
    kept[bytes] = kept[bytes + 1] = 0xa5;
    for (int64_t i = 0; i < N; i++) {
        had[i] = way == 2 ? 0 : had[i] * scale;
        y[i] = x[i] + had[i];
    }
    assert_int_equal(device->ops->cast(device, records, dtype, x, ZR_F32, N, &keeps), ZR_OK);
    assert_int_equal(device->ops->cast(device, want, dtype, y, ZR_F32, N, &plain), ZR_OK);
    assert_memory_equal(records, want, (size_t)zr_dtype_span(dtype, N));
    assert_true(kept[bytes] == 0xa5 && kept[bytes + 1] == 0xa5);
    decode(device, error, records, dtype, N);
    for (int64_t i = 0; i < N; i++) error[i] = (0.8f * had[i] + (1.0f - 0.8f) * (y[i] - error[i])) / scale;
    encode(device, want_kept, errors, error, N);
    for (int64_t i = 0; i < N; i += grain) {
        const double own = scale_of(want_kept, errors, i);
        if (!(own >= 0x1p-126)) memset(want_kept + zr_dtype_span(errors, i), 0, (size_t)zr_dtype_bytes(errors));
    }
    assert_memory_equal(kept, want_kept, (size_t)bytes);
    decode(device, error, kept, errors, N); /* what was decoded is encoded again without a change */
    for (int64_t i = 0; i < N; i++) assert_true(isfinite(error[i]));
    encode(device, want_kept, errors, error, N);
    for (int64_t i = 0; i < N; i += grain)
        assert_true(scale_of(kept, errors, i) == 0 || scale_of(kept, errors, i) >= 0x1p-126);
    assert_memory_equal(kept, want_kept, (size_t)bytes);
}

static void check_kept(zr_device *device)
{
    for (int t = 0; t < TYPES; t++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int way = 0; way < 4; way++)
                if (kind != LARGEST || t < PLAIN_TYPES) check_kept_kind(device, types[t], kind, way);
}

/* Check that records and errors do not depend on how a range is divided. */
static void check_kept_parts(zr_device *device)
{
    enum { ALL = 66000 };
    static float x[ALL], had[ALL];
    static unsigned char whole[2 * ALL], parts[2 * ALL], kept[2 * ALL], kept_parts[2 * ALL];
    take(x, ALL, 3);
    take(had, ALL, 2);
    for (int t = 0; t < TYPES; t++) {
        const zr_dtype errors = zr__error_dtype(types[t]);
        zr_feedback feedback = {.error = kept, .beta = 0.5f, .scale = 1.0f};
        const zr_casting casting = {.feedback = &feedback};
        encode(device, kept, errors, had, ALL);
        memcpy(kept_parts, kept, sizeof kept);
        assert_int_equal(device->ops->cast(device, whole, types[t], x, ZR_F32, ALL, &casting), ZR_OK);
        for (int64_t at = 0, n; at < ALL; at += n) {
            n = at == 0 ? 256 : at < 2048 ? 1792 : ALL - at;
            feedback.error = kept_parts + zr_dtype_span(errors, at);
            assert_int_equal(
                device->ops->cast(device, parts + zr_dtype_span(types[t], at), types[t], x + at, ZR_F32, n, &casting),
                ZR_OK);
        }
        assert_memory_equal(parts, whole, (size_t)zr_dtype_span(types[t], ALL));
        assert_memory_equal(kept_parts, kept, (size_t)zr_dtype_span(errors, ALL));
    }
}

/* Check that a constant element below half a scale, which a record alone loses, arrives in the sum over steps: at most
 * the error that is still kept is missing, divided by its share 1 - beta. */
static void check_kept_sum(zr_device *device)
{
    enum { STEPS = 400, ELEMS = 256 };
    static float x[N];
    unsigned char records[2 * (2 + ELEMS)], kept[2 * (2 + ELEMS)];
    for (int t = 0; t < TYPES; t++) {
        if (!has_4_bits(types[t]) || is_rotated(types[t])) continue;
        double sum[2][ELEMS] = {{0}}, scale = 0;
        zr_feedback feedback = {.error = kept, .beta = 0.8f, .scale = 1.0f};
        const zr_casting casting = {.feedback = &feedback};
        for (int i = 0; i < ELEMS; i++) x[i] = i % 128 == 9 ? 1.0f : (float)(i % 13 - 6) * 0.01f;
        for (int step = 0; step < STEPS; step++)
            for (int feeds = 0; feeds < 2; feeds++) {
                feedback.anew = step == 0;
                assert_int_equal(
                    device->ops->cast(device, records, types[t], x, ZR_F32, ELEMS, feeds ? &casting : NULL), ZR_OK);
                for (int64_t i = 0; i < ELEMS; i++) sum[feeds][i] += value_of(records, types[t], i);
                scale = fmax(scale, scale_of(records, types[t], 0));
            }
        for (int i = 0; i < ELEMS; i++) {
            if (i % 128 == 9) continue;
            assert_true(sum[0][i] == 0 && fabs((double)x[i]) < scale / 2);
            if (!(fabs(sum[1][i] - STEPS * (double)x[i]) <= scale / 0.2))
                fail_msg("%s, element %d: %g of %g arrived", zr_dtype_name(types[t]), i, sum[1][i], STEPS * x[i]);
        }
    }
}

/* Check that a difference of counts of n fair bits is within 5 standard deviations. */
static void check_fair(const char *what, int bit, int64_t set, int64_t n)
{
    if (fabs((double)(2 * set - n)) > 5 * sqrt((double)n))
        fail_msg("%s, bit %d: %lld of %lld", what, bit, (long long)set, (long long)n);
}

/* Check the bits of random numbers that rounding uses: as many are 1 as 0, and they do not depend on those of other
 * elements, steps, units and ranks. */
static void test_random_numbers(void **state)
{
    enum { ALL = 1 << 16, OTHERS = 13 };
    (void)state;
    for (uint32_t step = 0; step < 3; step++) {
        zr_rng rng = rounding_of(step, 0).rng, later = rounding_of(step + 1, 0).rng, unit = rng;
        unit.stream++;
        const zr__record_keys keys[] = {zr__record_keys_of(&rng, 0), zr__record_keys_of(&later, 0),
                                        zr__record_keys_of(&unit, 0), zr__record_keys_of(&rng, 1),
                                        zr__record_keys_of(&rng, 1 << 12)}; /* of the next rank (engine/move.c) */
        int64_t set[32] = {0}, same[OTHERS][32] = {{0}};
        for (uint32_t i = 0; i < ALL; i++) {
            const uint32_t x = zr__record_random(keys[0], i);
            uint32_t other[OTHERS];
            for (int k = 0; k < 4; k++) other[k] = zr__record_random(keys[k + 1], i);
            for (int k = 4; k < OTHERS; k++) other[k] = zr__record_random(keys[0], i + (1u << (k - 4)));
            for (int bit = 11; bit < 32; bit++) {
                set[bit] += x >> bit & 1;
                for (int k = 0; k < OTHERS; k++) same[k][bit] += ~(x ^ other[k]) >> bit & 1;
            }
        }
        for (int bit = 11; bit < 32; bit++) {
            check_fair("bits", bit, set[bit], ALL);
            for (int k = 0; k < OTHERS; k++) check_fair("equal bits", bit, same[k][bit], ALL);
        }
    }
}

#define EACH(name)                                                                                                     \
    static void test_##name(void **state)                                                                              \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        each_device(check_##name);                                                                                     \
    }
EACH(kinds)
EACH(ends)
EACH(types)
EACH(added)
EACH(sums)
EACH(rotated)
EACH(random)
EACH(random_parts)
EACH(random_mean)
EACH(kept)
EACH(kept_parts)
EACH(kept_sum)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),          cmocka_unit_test(test_ends),         cmocka_unit_test(test_types),
        cmocka_unit_test(test_added),          cmocka_unit_test(test_sums),         cmocka_unit_test(test_rotated),
        cmocka_unit_test(test_random),         cmocka_unit_test(test_random_parts), cmocka_unit_test(test_random_mean),
        cmocka_unit_test(test_random_numbers), cmocka_unit_test(test_kept),         cmocka_unit_test(test_kept_parts),
        cmocka_unit_test(test_kept_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
