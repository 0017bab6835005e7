/*
 * Cross entropy of one row of logits, and its gradient. The functions serve kernels whose input is logits
 * (cross_entropy) and kernels that compute logits (linear_cross_entropy).
 */
#ifndef ZR_DEVICE_CPU_CROSS_ENTROPY_ROWS_H
#define ZR_DEVICE_CPU_CROSS_ENTROPY_ROWS_H

#include <float.h>
#include <math.h>

#include "device/cpu/shared/rows.h"

/* Compute the largest logit of a row and the sum of exp(logit - largest), in one pass. The running maximum starts at
 * -FLT_MAX instead of -inf, because with masked logits (-inf) the difference -inf - -inf would be NaN. */
static inline void zr__row_softmax(const void *logits, zr_dtype dtype, int64_t first, int64_t V, float *largest,
                                   float *total)
{
    float buffer[ZR_CHUNK], e[ZR_CHUNK];
    float max = -FLT_MAX, sum = 0.0f;
    for (int64_t v0 = 0; v0 < V; v0 += ZR_CHUNK) {
        int64_t n = zr__min64(ZR_CHUNK, V - v0);
        const float *x = zr__view(buffer, logits, dtype, first + v0, n);
        float here = zr__max(x, n);
        if (!(here <= max)) {
            sum *= zr__expf(max - here);
            max = here;
        }
        for (int64_t i = 0; i < n; i++) e[i] = zr__expf_low(x[i] - max);
        sum += zr__sum(e, n);
    }
    *largest = max;
    *total = sum;
}

/* Return the loss of a row of V logits that begins at element `first`. Set *lse to the row's log-sum-exp. The loss is 0
 * if the target is negative. */
static inline float zr__row_loss(const void *logits, zr_dtype dtype, int64_t first, int64_t V, int32_t target,
                                 float *lse)
{
    float max, sum, x;
    zr__row_softmax(logits, dtype, first, V, &max, &sum);
    double tail = log((double)sum);
    *lse = (float)((double)max + tail);
    if (target < 0) return 0.0f;
    zr__load(&x, logits, dtype, first + target, 1);
    /* The loss is not computed from *lse, because the rounding error of *lse grows with the logits. */
    return (float)((double)max - (double)x + tail);
}

/* Return the largest of the logits `from` .. `to` - 1 of a row that begins at element `first`, or -inf if from
 * equals to. The result is unspecified if a logit is NaN. */
static inline float zr__row_largest(const void *logits, zr_dtype dtype, int64_t first, int64_t from, int64_t to)
{
    float buffer[ZR_CHUNK], largest = -INFINITY;
    for (int64_t v = from; v < to; v += ZR_CHUNK) {
        const int64_t n = zr__min64(ZR_CHUNK, to - v);
        largest = fmaxf(largest, zr__max(zr__view(buffer, logits, dtype, first + v, n), n));
    }
    return largest;
}

/* Return the threshold of column `own` of a row of V logits that begins at element `first`: the smallest logit with
 * which the column would be the first column that has the largest logit. `own` may be before or beyond the row. If the
 * row's log-sum-exp `lse` is NaN, the threshold is NaN too, and no logit reaches it. */
static inline float zr__row_threshold(const void *logits, zr_dtype dtype, int64_t first, int64_t V, int64_t own,
                                      float lse)
{
    const int64_t before = own < 0 ? 0 : zr__min64(own, V), after = own < 0 ? 0 : zr__min64(own + 1, V);
    if (isnan(lse)) return lse;
    return fmaxf(nextafterf(zr__row_largest(logits, dtype, first, 0, before), INFINITY),
                 zr__row_largest(logits, dtype, first, after, V));
}

/* Compute dloss times the gradient of the loss with respect to the logits. `out` may be the array of logits itself. */
static inline void zr__row_dlogits(void *out, const void *logits, zr_dtype dtype, int64_t first, int64_t V,
                                   int32_t target, float dloss, float lse)
{
    float buffer[ZR_CHUNK], dx[ZR_CHUNK];
    if (target < 0) {
        size_t bytes = (size_t)zr_dtype_bytes(dtype);
        memset((char *)out + (size_t)first * bytes, 0, (size_t)V * bytes);
        return;
    }
    for (int64_t v0 = 0; v0 < V; v0 += ZR_CHUNK) {
        int64_t n = zr__min64(ZR_CHUNK, V - v0);
        const float *x = zr__view(buffer, logits, dtype, first + v0, n);
        for (int64_t i = 0; i < n; i++) dx[i] = dloss * zr__expf_low(x[i] - lse);
        /* Subtract 1 from the target's probability in fp32, before rounding to the output's dtype. */
        if (target >= v0 && target < v0 + n) dx[target - v0] = dloss * (zr__expf_low(x[target - v0] - lse) - 1.0f);
        zr__store(out, dtype, first + v0, dx, n);
    }
}

#endif
