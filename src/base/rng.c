#include "base/rng.h"

#include <math.h>

void zr_rng_block(const zr_rng *rng, uint64_t block, uint32_t out[4])
{
    zr__rng_block(rng, block, out);
}

uint32_t zr_rng_u32(const zr_rng *rng, uint64_t index)
{
    uint32_t word[4];
    zr__rng_block(rng, index / 4, word);
    return word[index % 4];
}

double zr_rng_uniform(const zr_rng *rng, uint64_t index)
{
    return zr_rng_u32(rng, index) * 0x1p-32;
}

/* Box-Muller on words 0, 1 and 2, 3 of a block; the half keeps log() away from 0. */
static void normal_block(const zr_rng *rng, uint64_t block, float out[4])
{
    const double two_pi = 6.283185307179586;
    uint32_t word[4];
    zr__rng_block(rng, block, word);
    for (int i = 0; i < 4; i += 2) {
        double radius = sqrt(-2.0 * log((word[i] + 0.5) * 0x1p-32));
        double angle = two_pi * (word[i + 1] * 0x1p-32);
        out[i] = (float)(radius * cos(angle));
        out[i + 1] = (float)(radius * sin(angle));
    }
}

void zr_rng_normal(const zr_rng *rng, uint64_t first, int64_t n, float *out)
{
    int64_t done = 0;
    while (done < n) {
        float block[4];
        uint64_t index = first + (uint64_t)done;
        normal_block(rng, index / 4, block);
        for (uint64_t lane = index % 4; lane < 4 && done < n; lane++) out[done++] = block[lane];
    }
}
