/**
 * Shuffles windows by a Feistel network with halves of h bits, which permutes the numbers of 2h bits for any round
 * function. To permute [0, n), the network is applied repeatedly until the result is below n (Black and Rogaway 2002,
 * "Ciphers with Arbitrary Finite Domains"). Since 2^(2h) <= 4n, the network is applied at most four times on average.
 */
#include "data/samples/order.h"

/* Random streams of ZR_RNG_SHUFFLE: one for the offset of the first window, one for the permutation of windows. */
enum { STREAM_OFFSET, STREAM_PERMUTE };

/* Number of Feistel rounds. Small domains need several rounds: if each half has one bit (half_bits = 1), there are only
 * four different round functions. */
enum { ROUNDS = 8 };

int64_t zr__order_offset(uint64_t seed, uint32_t epoch, int64_t range)
{
    zr_rng rng = {.seed = seed, .purpose = ZR_RNG_SHUFFLE, .stream = STREAM_OFFSET, .step = epoch};
    uint64_t bits = (uint64_t)zr_rng_u32(&rng, 0) << 32 | zr_rng_u32(&rng, 1);
    return (int64_t)(bits % (uint64_t)range);
}

static uint64_t feistel(const zr_rng *rng, int half_bits, uint64_t value)
{
    uint64_t mask = ((uint64_t)1 << half_bits) - 1;
    uint64_t left = value >> half_bits, right = value & mask;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t mixed = left ^ (zr_rng_u32(rng, round << 32 | right) & mask);
        left = right;
        right = mixed;
    }
    return left << half_bits | right;
}

static int64_t permute(zr_rng rng, int64_t n, int64_t i)
{
    int half_bits = 1;
    while (half_bits < 31 && (int64_t)1 << 2 * half_bits < n) half_bits++;
    uint64_t value = (uint64_t)i;
    /* The loop ends: at the latest when the cycle of the permutation returns to i, which is below n. */
    do value = feistel(&rng, half_bits, value);
    while (value >= (uint64_t)n);
    return (int64_t)value;
}

int64_t zr__order_permute(uint64_t seed, uint32_t epoch, int64_t n, int64_t i)
{
    return permute((zr_rng){.seed = seed, .purpose = ZR_RNG_SHUFFLE, .stream = STREAM_PERMUTE, .step = epoch}, n, i);
}

int64_t zr__order_mix(uint64_t seed, uint32_t block, int64_t n, int64_t i)
{
    return permute((zr_rng){.seed = seed, .purpose = ZR_RNG_MIX, .step = block}, n, i);
}
