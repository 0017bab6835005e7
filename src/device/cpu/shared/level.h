/*
 * device/cpu/shared: code that several families of kernels share. Every kernel includes this header, which defines the
 * level's vector, 16-bit storage, exp and sums. Other headers of this folder: rows.h (rows in pieces), records.h
 * (elements with a common scale), tile.h (products of small blocks), pack.h (packed operands of a matrix product),
 * transpose.h (transposes in registers).
 *
 * device/cpu/kernels: the kernels, one file for each family of ops. The files are compiled once for each processor
 * level, such as v3 (AVX2). ZR_LEVEL is the name of the level. The compiler's target flags select its instructions.
 * Levels that differ only in instructions for matrix products share all files without products (VECTOR_* in the
 * Makefile). All functions here are static, so that two levels never share code.
 *
 * Two rules make results independent of how ranks, threads or shards divide an array:
 *   - Element-wise loops use the same operations for every element. Plain loops obey this rule: contraction is off, and
 *     the compiler's epilogue uses the operations of the loop body. Write ZR_FMA for a fused multiply-add.
 *   - Sums use zr__sum, zr__dot and the like. They add fixed lanes in a fixed order, so that the result depends on the
 *     values and n alone, not on addresses.
 */
#ifndef ZR_DEVICE_CPU_LEVEL_H
#define ZR_DEVICE_CPU_LEVEL_H

#include <string.h>

#include "zr/device.h"

#if defined(__FMA__) || defined(__F16C__)
#include <immintrin.h>
#endif

/* Append the level to a name, as in name_v3. Each kernel file exports a table `const zr_kernel
 * ZR_LEVEL_NAME(zr__kernels_<family>)[]`, which ends with an entry whose op is NULL. */
#define ZR_LEVEL_PASTE(name, level) name##_##level
#define ZR_LEVEL_EXPAND(name, level) ZR_LEVEL_PASTE(name, level)
#define ZR_LEVEL_NAME(name) ZR_LEVEL_EXPAND(name, ZR_LEVEL)

/* Number of elements that kernels process at a time in fp32 arrays on the stack. An array takes 4 KB, so that several
 * arrays fit into the L1 cache. */
#define ZR_CHUNK 1024

/* Compute a * b + c, with one rounding if the level has a fused multiply-add, else with two. */
#if defined(__FP_FAST_FMAF)
#define ZR_FMA(a, b, c) __builtin_fmaf((a), (b), (c))
#else
#define ZR_FMA(a, b, c) ((a) * (b) + (c))
#endif

static inline int64_t zr__min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline uint32_t zr__bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float zr__float(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* Return cond ? a : b without a branch. Compilers do not vectorise a branch on a float comparison, because the
 * comparison may trap. */
static inline float zr__select(bool cond, float a, float b)
{
    uint32_t mask = 0u - (uint32_t)cond;
    return zr__float((mask & zr__bits(a)) | (~mask & zr__bits(b)));
}

/* ---- the level's vector ---------------------------------------------------------------------- */

/* Number of floats in a vector of this level. */
#if defined(__AVX512F__)
#define ZR_VEC 16
#elif defined(__AVX2__)
#define ZR_VEC 8
#else
#define ZR_VEC 4
#endif
typedef float zr__vec __attribute__((vector_size(ZR_VEC * 4)));
typedef int32_t zr__mask __attribute__((vector_size(ZR_VEC * 4)));
typedef double zr__vecd __attribute__((vector_size(ZR_VEC * 4)));
typedef float zr__half __attribute__((vector_size(ZR_VEC * 2)));
#define ZR_VECD (ZR_VEC / 2)

static inline zr__vec zr__vec_load(const float *x)
{
    zr__vec v;
    memcpy(&v, x, sizeof v);
    return v;
}

static inline void zr__vec_store(float *x, zr__vec v)
{
    memcpy(x, &v, sizeof v);
}

/* ---- 16-bit storage -------------------------------------------------------------------------- */

/* bf16 and fp16 are storage formats only. Values are widened to fp32 when they are read, and rounded when they are
 * written. */

#if ZR_VEC >= 8 && defined(__F16C__)
static inline zr__vec zr__vec_from_f16(const uint16_t *x)
{
#if ZR_VEC == 16
    return (zr__vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)x));
#else
    return (zr__vec)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)x));
#endif
}

static inline void zr__vec_to_f16(uint16_t *x, zr__vec v)
{
#if ZR_VEC == 16
    _mm256_storeu_si256((__m256i *)x, _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT));
#else
    _mm_storeu_si128((__m128i *)x, _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
#endif
}
#endif

/* Widen fp16 to fp32. The F16C instructions here and in zr__round_f16 give the same bits as zr_f32_from_f16 and
 * zr_f16_from_f32. */
static inline void zr__widen_f16(float *restrict out, const uint16_t *restrict in, int64_t n)
{
    int64_t i = 0;
#if ZR_VEC >= 8 && defined(__F16C__)
    for (; i + ZR_VEC <= n; i += ZR_VEC) zr__vec_store(out + i, zr__vec_from_f16(in + i));
    for (; i < n; i++) out[i] = _cvtsh_ss(in[i]);
#endif
    for (; i < n; i++) out[i] = zr_f32_from_f16(in[i]);
}

static inline void zr__round_f16(uint16_t *restrict out, const float *restrict in, int64_t n)
{
    int64_t i = 0;
#if ZR_VEC >= 8 && defined(__F16C__)
    for (; i + ZR_VEC <= n; i += ZR_VEC) zr__vec_to_f16(out + i, zr__vec_load(in + i));
    for (; i < n; i++) out[i] = _cvtss_sh(in[i], _MM_FROUND_TO_NEAREST_INT);
#endif
    for (; i < n; i++) out[i] = zr_f16_from_f32(in[i]);
}

/* Round a vector to bf16, with the same bits as zr_bf16_from_f32. Only denormals differ at levels with instructions for
 * bf16: these round denormals to 0. */
static inline void zr__vec_to_bf16(uint16_t *x, zr__vec v)
{
#if defined(__AVX512BF16__)
    const __m256bh out = _mm512_cvtneps_pbh((__m512)v);
#else
    typedef uint32_t wide __attribute__((vector_size(ZR_VEC * 4)));
    typedef uint16_t narrow __attribute__((vector_size(ZR_VEC * 2)));
    const wide u = (wide)v, rounded = (u + 0x7fffu + (u >> 16 & 1u)) >> 16, nan = u >> 16 | 0x40u;
    const wide is_nan = (wide)((u & 0x7fffffffu) > 0x7f800000u);
    const narrow out = __builtin_convertvector((is_nan & nan) | (~is_nan & rounded), narrow);
#endif
    memcpy(x, &out, sizeof out);
}

/* Widen n elements to fp32. dtype is BF16 or F16. */
static inline void zr__widen(float *restrict out, const uint16_t *restrict in, zr_dtype dtype, int64_t n)
{
    if (dtype == ZR_F16)
        zr__widen_f16(out, in, n);
    else
        for (int64_t i = 0; i < n; i++) out[i] = zr_f32_from_bf16(in[i]);
}

static inline void zr__round(uint16_t *restrict out, zr_dtype dtype, const float *restrict in, int64_t n)
{
    if (dtype == ZR_F16)
        zr__round_f16(out, in, n);
    else
        for (int64_t i = 0; i < n; i++) out[i] = zr_bf16_from_f32(in[i]);
}

/* Load n elements as fp32: out[i] = in[first + i]. `in` is F32, BF16 or F16. */
static inline void zr__load(float *restrict out, const void *in, zr_dtype dtype, int64_t first, int64_t n)
{
    if (dtype == ZR_F32)
        memcpy(out, (const float *)in + first, (size_t)n * sizeof(float));
    else
        zr__widen(out, (const uint16_t *)in + first, dtype, n);
}

/* Store n elements: out[first + i] = in[i]. `out` is F32, BF16 or F16. */
static inline void zr__store(void *out, zr_dtype dtype, int64_t first, const float *restrict in, int64_t n)
{
    if (dtype == ZR_F32)
        memcpy((float *)out + first, in, (size_t)n * sizeof(float));
    else
        zr__round((uint16_t *)out + first, dtype, in, n);
}

/* ---- exp ------------------------------------------------------------------------------------- */

/* Split x into n * ln2 + r with an integer n and |r| <= ln2/2. Set *n, and return e^r - 1 = r + r^2 q(r). The
 * polynomial q interpolates at Chebyshev points (error 8e-9). ln2 is the sum of two constants. The first constant has 9
 * bits, so that its product with n is exact even without fused multiply-add. */
static inline float zr__expm1_reduced(float x, int32_t *n)
{
    /* 1.5 * 2^23; adding it to a float rounds the float to an integer, which is in the low bits of the sum */
    const float shift = 0x1.8p23f;
    float t = ZR_FMA(x, 0x1.715476p+0f, shift);
    float k = t - shift;
    float r = ZR_FMA(k, 2.12194440e-4f, ZR_FMA(k, -0.693359375f, x));
    float q = ZR_FMA(1.39261761e-3f, r, 8.36317307e-3f);
    q = ZR_FMA(q, r, 4.16665547e-2f);
    q = ZR_FMA(q, r, 1.66665770e-1f);
    q = ZR_FMA(q, r, 0.5f);
    *n = (int32_t)(zr__bits(t) - zr__bits(shift));
    return ZR_FMA(r * r, q, r);
}

/* Return e^x with an error of about 1 ulp: 0 on underflow, infinity on overflow, NaN for NaN. */
static inline float zr__expf(float x)
{
    int32_t n;
    x = zr__select(x > 130.0f, 130.0f, x);
    x = zr__select(x < -150.0f, -150.0f, x);
    float e = 1.0f + zr__expm1_reduced(x, &n);
    /* Multiply by 2^n as two factors, because 2^n itself may be outside the range of fp32. */
    int32_t half = n >> 1;
    return e * zr__float((uint32_t)(half + 127) << 23) * zr__float((uint32_t)(n - half + 127) << 23);
}

/* Return e^x for x <= 88, at less cost than zr__expf. The result is 0 for x below -87.7. */
static inline float zr__expf_low(float x)
{
    int32_t n;
    x = zr__select(x < -88.0f, -88.0f, x); /* for x = -88, n is -127, and the factor 2^n below becomes 0 */
    float e = 1.0f + zr__expm1_reduced(x, &n);
    return e * zr__float((uint32_t)(n + 127) << 23);
}

/* ---- sums ------------------------------------------------------------------------------------ */

#define ZR_ACCS 4 /* number of independent accumulators, which hide the latency of the addition */

/* Load up to ZR_VEC of the n elements of x. Lanes from n on are set to `fill`. */
static inline zr__vec zr__vec_load_part(const float *x, int64_t n, float fill)
{
    if (n >= ZR_VEC) return zr__vec_load(x);
    float lane[ZR_VEC];
    for (int l = 0; l < ZR_VEC; l++) lane[l] = l < n ? x[l] : fill;
    return zr__vec_load(lane);
}

/* Return a * b + c in every lane, rounded in the same way as ZR_FMA. */
static inline zr__vec zr__vec_fma(zr__vec a, zr__vec b, zr__vec c)
{
#if defined(__AVX512F__)
    return (zr__vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (zr__vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__FP_FAST_FMAF)
    zr__vec out;
    for (int l = 0; l < ZR_VEC; l++) out[l] = ZR_FMA(a[l], b[l], c[l]);
    return out;
#else
    return a * b + c;
#endif
}

/* Return a > b ? a : b in every lane, which is b if a or b is NaN. */
static inline zr__vec zr__vec_max(zr__vec a, zr__vec b)
{
#if defined(__AVX512F__)
    return (zr__vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (zr__vec)_mm256_max_ps((__m256)a, (__m256)b);
#else
    zr__mask m = a > b;
    return (zr__vec)((m & (zr__mask)a) | (~m & (zr__mask)b));
#endif
}

/* Return a vector with x in every lane. Compilers turn x - 0 into a broadcast at every level. The sum x + 0 would
 * change -0 to 0. */
static inline zr__vec zr__vec_splat(float x)
{
    const zr__vec zero = {0};
    return x - zero;
}

/* Return zr__expf_low of every lane, with the same bits. */
static inline zr__vec zr__vec_exp_low(zr__vec x)
{
    const zr__vec shift = zr__vec_splat(0x1.8p23f), one = zr__vec_splat(1.0f);
    x = zr__vec_max(zr__vec_splat(-88.0f), x);
    const zr__vec t = zr__vec_fma(x, zr__vec_splat(0x1.715476p+0f), shift), k = t - shift;
    const zr__vec high = zr__vec_fma(k, zr__vec_splat(-0.693359375f), x);
    const zr__vec r = zr__vec_fma(k, zr__vec_splat(2.12194440e-4f), high);
    zr__vec q = zr__vec_fma(zr__vec_splat(1.39261761e-3f), r, zr__vec_splat(8.36317307e-3f));
    q = zr__vec_fma(q, r, zr__vec_splat(4.16665547e-2f));
    q = zr__vec_fma(q, r, zr__vec_splat(1.66665770e-1f));
    q = zr__vec_fma(q, r, zr__vec_splat(0.5f));
    const zr__vec e = one + zr__vec_fma(r * r, q, r);
    const zr__mask n = (zr__mask)t - (zr__mask)shift;
    return e * (zr__vec)((n + 127) << 23);
}

/* Return the sum of all lanes. Each step adds the upper half of the remaining lanes to the lower half. */
static inline float zr__vec_total(zr__vec v)
{
#if defined(__AVX2__)
#if ZR_VEC == 16
    __m256 half = _mm512_castps512_ps256((__m512)v) + _mm512_extractf32x8_ps((__m512)v, 1);
#else
    __m256 half = (__m256)v;
#endif
    __m128 four = _mm256_castps256_ps128(half) + _mm256_extractf128_ps(half, 1);
    __m128 two = four + _mm_movehl_ps(four, four);
    return two[0] + two[1];
#else
    float lane[ZR_VEC];
    zr__vec_store(lane, v);
    for (int w = ZR_VEC / 2; w > 0; w /= 2)
        for (int l = 0; l < w; l++) lane[l] += lane[l + w];
    return lane[0];
#endif
}

static inline float zr__vec_reduce(const zr__vec acc[ZR_ACCS])
{
    return zr__vec_total((acc[0] + acc[1]) + (acc[2] + acc[3]));
}

/* Run `body` for each pair of vectors x_ and y_ of the arrays x and y. The last vector is padded with zeros. `body`
 * adds vector number k to accumulator a = k mod ZR_ACCS. */
#define ZR_LANE_LOOP(x, y, n, a, x_, y_, body)                                                                         \
    do {                                                                                                               \
        int64_t i_ = 0;                                                                                                \
        for (; i_ + ZR_ACCS * ZR_VEC <= (n); i_ += ZR_ACCS * ZR_VEC)                                                   \
            for (int a = 0; a < ZR_ACCS; a++) {                                                                        \
                zr__vec x_ = zr__vec_load((x) + i_ + a * ZR_VEC), y_ = zr__vec_load((y) + i_ + a * ZR_VEC);            \
                body;                                                                                                  \
            }                                                                                                          \
        for (int a = 0; i_ < (n); a++, i_ += ZR_VEC) {                                                                 \
            zr__vec x_ = zr__vec_load_part((x) + i_, (n)-i_, 0.0f);                                                    \
            zr__vec y_ = zr__vec_load_part((y) + i_, (n)-i_, 0.0f);                                                    \
            body;                                                                                                      \
        }                                                                                                              \
    } while (0)

static inline float zr__sum(const float *x, int64_t n)
{
    zr__vec acc[ZR_ACCS] = {{0}};
    ZR_LANE_LOOP(x, x, n, a, u, v, (void)v; acc[a] += u);
    return zr__vec_reduce(acc);
}

static inline float zr__dot(const float *x, const float *y, int64_t n)
{
    zr__vec acc[ZR_ACCS] = {{0}};
    ZR_LANE_LOOP(x, y, n, a, u, v, acc[a] = zr__vec_fma(u, v, acc[a]));
    return zr__vec_reduce(acc);
}

/* Return the largest of n >= 1 elements; the result is unspecified if an element is NaN. */
static inline float zr__max(const float *x, int64_t n)
{
    zr__vec best = zr__vec_splat(x[0]);
    int64_t i = 0;
    for (; i + ZR_VEC <= n; i += ZR_VEC) best = zr__vec_max(zr__vec_load(x + i), best);
    best = zr__vec_max(zr__vec_load_part(x + i, n - i, x[0]), best);
    float out = best[0];
    for (int l = 1; l < ZR_VEC; l++) out = best[l] > out ? best[l] : out;
    return out;
}

/* Divide n elements into `threads` shares, and compute the begin and the end of share t. Every share but the last is a
 * multiple of `grain`. */
static inline void zr__share(int64_t n, int64_t grain, int t, int threads, int64_t *begin, int64_t *end)
{
    int64_t grains = (n + grain - 1) / grain;
    *begin = zr__min64(n, grains * t / threads * grain);
    *end = zr__min64(n, grains * (t + 1) / threads * grain);
}

#endif
