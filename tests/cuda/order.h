/* The order in which the stand-in runs what CUDA leaves open: threads, warps, blocks in flight and streams.
 *
 * ZR_STAND_IN_SEED, a number from 1 on, draws it by lot: what is drawn depends only on the seed, on the stream and on
 * how much was issued to it before. Without, a launch runs its blocks and threads from first to last, the next one from
 * last to first, and streams run late. */
#ifndef ZR_TESTS_CUDA_ORDER_H
#define ZR_TESTS_CUDA_ORDER_H

#include <stdint.h>

/* Return the seed, or 0 if there is none. */
uint64_t order_seed();

/* Numbers by lot, the same for the same seed, stream and place in it. */
struct lot {
    uint64_t state;

    lot(uint64_t stream, uint64_t place) : state(order_seed())
    {
        state = next() ^ stream;
        state = next() ^ place;
    }
    uint64_t next() /* splitmix64 */
    {
        uint64_t z = state += 0x9e3779b97f4a7c15;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        return z ^ z >> 31;
    }
    /* Return a number in [0, n). */
    int below(int n)
    {
        return (int)((next() >> 32) * (uint64_t)n >> 32);
    }
};

#endif
