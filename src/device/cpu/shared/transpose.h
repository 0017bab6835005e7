/*
 * Transpose of a ZR_VEC x ZR_VEC matrix in registers. There is a step for each w = 1, 2, 4 ... A step divides the
 * matrix into squares of 2w x 2w, and swaps the two off-diagonal w x w blocks of each square.
 *
 * The sums or maxima of ZR_VEC vectors over their lanes need only half of the shuffles: the steps for w = ZR_VEC / 2 to
 * w = 1, each of which adds or compares its two results.
 */
#ifndef ZR_DEVICE_CPU_TRANSPOSE_H
#define ZR_DEVICE_CPU_TRANSPOSE_H

#include "device/cpu/shared/level.h"

#if ZR_VEC == 16
#define ZR_LANES(f, w) ZR_LANES_8(f, w, 0), ZR_LANES_8(f, w, 8)
#elif ZR_VEC == 8
#define ZR_LANES(f, w) ZR_LANES_8(f, w, 0)
#else
#define ZR_LANES(f, w) f(0, w), f(1, w), f(2, w), f(3, w)
#endif
#define ZR_LANES_8(f, w, l)                                                                                            \
    f(l, w), f(l + 1, w), f(l + 2, w), f(l + 3, w), f(l + 4, w), f(l + 5, w), f(l + 6, w), f(l + 7, w)

/* Index of the lane that a step moves to lane l of the upper row (ZR_LANE_UPPER) or of the lower row (ZR_LANE_LOWER) of
 * a pair. The upper row's lanes have the indices 0 to ZR_VEC - 1, and the lower row's lanes follow. */
#define ZR_LANE_UPPER(l, w) (((l) & (w)) ? ZR_VEC + (l) - (w) : (l))
#define ZR_LANE_LOWER(l, w) (((l) & (w)) ? ZR_VEC + (l) : (l) + (w))
#if defined(__clang__)
#define ZR_SHUFFLE(a, b, f, w) __builtin_shufflevector(a, b, ZR_LANES(f, w))
#else
#define ZR_SHUFFLE(a, b, f, w) __builtin_shuffle(a, b, (zr__mask){ZR_LANES(f, w)})
#endif

/* Run one step of a transpose: swap lanes of every pair of rows whose indices differ by w. The step is a macro because
 * lane indices must be compile-time constants. */
#define ZR_TRANSPOSE_STEP(v, w)                                                                                        \
    _Pragma("GCC unroll 16") for (int i_ = 0; i_ < ZR_VEC; i_++) if (!(i_ & (w)))                                      \
    {                                                                                                                  \
        const zr__vec a_ = (v)[i_], b_ = (v)[i_ + (w)];                                                                \
        (v)[i_] = ZR_SHUFFLE(a_, b_, ZR_LANE_UPPER, w);                                                                \
        (v)[i_ + (w)] = ZR_SHUFFLE(a_, b_, ZR_LANE_LOWER, w);                                                          \
    }

/* Transpose in place: lane l of v[i] becomes lane i of v[l]. */
__attribute__((always_inline)) static inline void zr__vec_transpose(zr__vec v[ZR_VEC])
{
    ZR_TRANSPOSE_STEP(v, 1)
    ZR_TRANSPOSE_STEP(v, 2)
#if ZR_VEC > 4
    ZR_TRANSPOSE_STEP(v, 4)
#endif
#if ZR_VEC > 8
    ZR_TRANSPOSE_STEP(v, 8)
#endif
}

/* Halve the number of vectors of v, from 2w to w: combine the lanes l and l + w of every vector by `op`. The results of
 * v[i] and v[i + w] share the vector v[i]. The results of v[i + w] are in the lanes whose index has the bit w. */
#define ZR_HALVE(v, w, op)                                                                                             \
    _Pragma("GCC unroll 8") for (int i_ = 0; i_ < (w); i_++)                                                           \
    {                                                                                                                  \
        const zr__vec a_ = (v)[i_], b_ = (v)[i_ + (w)];                                                                \
        (v)[i_] = op(ZR_SHUFFLE(a_, b_, ZR_LANE_UPPER, w), ZR_SHUFFLE(a_, b_, ZR_LANE_LOWER, w));                      \
    }
#if ZR_VEC == 16
#define ZR_HALVE_ALL(v, op) ZR_HALVE(v, 8, op) ZR_HALVE(v, 4, op) ZR_HALVE(v, 2, op) ZR_HALVE(v, 1, op)
#elif ZR_VEC == 8
#define ZR_HALVE_ALL(v, op) ZR_HALVE(v, 4, op) ZR_HALVE(v, 2, op) ZR_HALVE(v, 1, op)
#else
#define ZR_HALVE_ALL(v, op) ZR_HALVE(v, 2, op) ZR_HALVE(v, 1, op)
#endif

static inline zr__vec zr__vec_add(zr__vec a, zr__vec b)
{
    return a + b;
}

/* Return a vector whose lane i is the sum of the lanes of v[i], added in halves. v is overwritten. */
__attribute__((always_inline)) static inline zr__vec zr__vec_sums(zr__vec v[ZR_VEC])
{
    ZR_HALVE_ALL(v, zr__vec_add)
    return v[0];
}

/* Return a vector whose lane i is the largest lane of v[i]. v is overwritten. */
__attribute__((always_inline)) static inline zr__vec zr__vec_maxima(zr__vec v[ZR_VEC])
{
    ZR_HALVE_ALL(v, zr__vec_max)
    return v[0];
}

/* Transpose `in` (ZR_VEC, ZR_VEC) and write the first n rows of the result to out. */
static inline void zr__transpose(float *restrict out, int64_t ldout, const float *restrict in, int64_t ldin, int64_t n)
{
    zr__vec v[ZR_VEC];
#pragma GCC unroll 16
    for (int i = 0; i < ZR_VEC; i++) v[i] = zr__vec_load(in + i * ldin);
    zr__vec_transpose(v);
#pragma GCC unroll 16
    for (int i = 0; i < ZR_VEC; i++)
        if (i < n) zr__vec_store(out + i * ldout, v[i]);
}

#endif
