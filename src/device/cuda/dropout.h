/* Factors of dropout (rules.h) in kernels, with the same bits as in src/device/cpu/shared/dropout.h. */
#ifndef ZR_DEVICE_CUDA_DROPOUT_H
#define ZR_DEVICE_CUDA_DROPOUT_H

#include "device/cuda/launch.h"
#include "device/rules.h"

/* Set out[v] to the factor of element first + v. The random numbers are computed in a separate loop over blocks,
 * because the code that computes one block is long. */
template <int V>
__device__ __forceinline__ void zr__dropout_factors(const zr__dropout &dropout, uint64_t first, float (&out)[V])
{
    constexpr int blocks =
        (V + 2) / 4 + 1; /* number of blocks that is enough even if `first` is the last element of its block */
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
