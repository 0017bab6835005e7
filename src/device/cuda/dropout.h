/*
 * The factors of dropout, 0 or 1/(1-p), from the random elements of one stream of one step: the bits of the
 * processor's (src/device/cpu/shared/dropout.h).
 */
#ifndef ZR_DEVICE_CUDA_DROPOUT_H
#define ZR_DEVICE_CUDA_DROPOUT_H

#include <math.h>

#include "base/number/rng.h"
#include "device/cuda/launch.h"

struct zr__dropout {
    zr_rng rng;
    uint32_t threshold; /* kept when u32 >> 8 is at least this */
    float scale;        /* 1/(1-p) */
};

static inline zr__dropout zr__dropout_make(const zr_runtime *runtime, int64_t stream, double p)
{
    zr__dropout d;
    d.rng.seed = runtime->seed;
    d.rng.purpose = ZR_RNG_DROPOUT;
    d.rng.stream = (uint32_t)stream;
    d.rng.step = (uint32_t)runtime->step;
    d.threshold = (uint32_t)ceil(p * 0x1p24); /* exact: the same decision as u * 2^-24 >= p */
    d.scale = (float)(1.0 / (1.0 - p));
    return d;
}

/* out[v] = factor of element first + v. Every block of random numbers that is touched is made once: it is long code. */
template <int V>
__device__ __forceinline__ void zr__dropout_factors(const zr__dropout &dropout, uint64_t first, float (&out)[V])
{
    constexpr int blocks = (V + 2) / 4 + 1; /* where `first` is the last of its block */
    const int shift = (int)(first % 4);
    uint32_t word[4 * blocks] = {};
#pragma unroll
    for (int b = 0; b < blocks; b++)
        if (b == 0 || 4 * b < shift + V) {
            uint32_t four[4];
            zr__rng_block(&dropout.rng, first / 4 + (uint64_t)b, four);
            for (int i = 0; i < 4; i++) word[4 * b + i] = four[i];
        }
#pragma unroll
    for (int v = 0; v < V; v++) {
        const uint32_t low = shift % 2 == 0 ? word[v] : word[v + 1], high = shift % 2 == 0 ? word[v + 2] : word[v + 3];
        out[v] = ((shift < 2 ? low : high) >> 8) >= dropout.threshold ? dropout.scale : 0.0f;
    }
}

#endif
