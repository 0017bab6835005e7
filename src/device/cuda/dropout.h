/*
 * The factors of dropout, 0 or 1/(1-p), from the random elements of one stream of one step: the bits of the
 * processor's (src/device/cpu/dropout.h).
 */
#ifndef ZR_DEVICE_CUDA_DROPOUT_H
#define ZR_DEVICE_CUDA_DROPOUT_H

#include <math.h>

#include "base/rng.h"
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

/* out[v] = factor of element first + v. */
template <int V>
__device__ __forceinline__ void zr__dropout_factors(const zr__dropout &dropout, uint64_t first, float (&out)[V])
{
    uint32_t word[4];
    for (int v = 0; v < V; v++) {
        const uint64_t element = first + (uint64_t)v;
        if (v == 0 || element % 4 == 0) zr__rng_block(&dropout.rng, element / 4, word);
        const uint32_t w = element % 4 == 0   ? word[0]
                           : element % 4 == 1 ? word[1]
                           : element % 4 == 2 ? word[2]
                                              : word[3];
        out[v] = (w >> 8) >= dropout.threshold ? dropout.scale : 0.0f;
    }
}

#endif
