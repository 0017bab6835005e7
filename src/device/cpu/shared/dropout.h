/* Dropout factors, 0 or 1/(1-p), for the op dropout and for attention. rules.h computes the constants. */
#ifndef ZR_DEVICE_CPU_DROPOUT_H
#define ZR_DEVICE_CPU_DROPOUT_H

#include "device/cpu/shared/level.h"
#include "device/rules.h"

/* Compute out[i], the dropout factor of element first + i, for n elements. */
static inline void zr__dropout_factors(const zr__dropout *dropout, uint64_t first, int64_t n, float *restrict out)
{
    const int64_t width = 4 * ZR__RNG_BLOCKS;
    const uint32_t threshold = dropout->threshold;
    const float scale = dropout->scale;
    uint32_t word[4][ZR__RNG_BLOCKS];
    float made[4 * ZR__RNG_BLOCKS];
    int64_t skip = (int64_t)(first & 3), done = 0;
    for (uint64_t block = first >> 2; done < n; block += ZR__RNG_BLOCKS) {
        int64_t take = zr__min64(width - skip, n - done);
        zr__rng_words(&dropout->rng, block, word);
        for (int i = 0; i < ZR__RNG_BLOCKS; i++)
            for (int w = 0; w < 4; w++) made[4 * i + w] = (word[w][i] >> 8) >= threshold ? scale : 0.0f;
        memcpy(out + done, made + skip, (size_t)take * sizeof(float));
        done += take;
        skip = 0;
    }
}

#endif
