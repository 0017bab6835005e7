#include "base/number/rng.h"

#include "base/number/normal.h"

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

void zr_rng_normal(const zr_rng *rng, uint64_t first, int64_t n, float *out)
{
    zr__normal(rng, first, n, 1.0f, out);
}
