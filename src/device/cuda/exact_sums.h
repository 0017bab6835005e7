/* Exact sums of elements or of their squares. */
#ifndef ZR_DEVICE_CUDA_EXACT_SUMS_H
#define ZR_DEVICE_CUDA_EXACT_SUMS_H

#include "base/number/exact.h"
#include "device/cuda/launch.h"

/* Exact sums. Terms are integers times powers of two. Integers add exactly, so the terms of each exponent may be added
 * in any order. A block adds a run of elements in shared memory. Each warp has its own bins, so that fewer atomics
 * collide. A bin has three sums, each for 16 bits of the terms, because shared memory has fast atomics only for 32
 * bits, and the sums over a run fit into 32 bits. A value that is not finite makes the bin of the last exponent
 * nonzero, because of its leading bit. */
constexpr int ZR__BINS = ZR__CUDA_EXACT_BINS, ZR__TERM_PIECES = 3, ZR__EXACT_THREADS = 256;
constexpr int ZR__EXACT_WARPS = ZR__EXACT_THREADS / ZR__WARP, ZR__EXACT_RUN = 1 << 14;

struct zr__warp_bins {
    int sum[ZR__TERM_PIECES][ZR__BINS];
};

template <bool SQUARED> __device__ __forceinline__ void zr__count_term(zr__warp_bins *own, float x)
{
    const uint32_t u = __float_as_uint(x), exponent = u >> 23 & 0xff;
    const unsigned long long fraction = (u & 0x7fffff) | (uint32_t)(exponent != 0) << 23;
    const unsigned long long bits = SQUARED ? fraction * fraction : fraction;
    const bool negative = !SQUARED && u >> 31 && exponent != ZR__BINS - 1;
    for (int p = 0; p < (SQUARED ? 3 : 2); p++) {
        const int piece = (int)(bits >> 16 * p & 0xffff);
        if (piece != 0) atomicAdd(&own->sum[p][exponent], negative ? -piece : piece);
    }
}

/* Return a bin's sum over all warps. The sum fits, since a run has at most 2^14 terms of 48 bits. */
__device__ __forceinline__ int64_t zr__sum_of_bin(const zr__warp_bins *own, int e)
{
    int64_t sum = 0;
    for (int w = 0; w < ZR__EXACT_WARPS; w++)
        for (int p = 0; p < ZR__TERM_PIECES; p++) sum += (int64_t)own[w].sum[p][e] * ((int64_t)1 << 16 * p);
    return sum;
}

/* Add runs of elements to the bins in *room. A bin in *room has two halves. The lower half adds the low 32 bits of each
 * run's sum, so that it does not overflow before 2^32 runs; the upper half adds the high bits. */
template <bool SQUARED, typename Elements> __global__ void zr__exact_count(zr__cuda_room *room, Elements x, int64_t n)
{
    ZR_SHARED(zr__warp_bins, own);
    const int warp = (int)threadIdx.x / ZR__WARP;
    for (int64_t at = (int64_t)blockIdx.x * ZR__EXACT_RUN; at < n; at += (int64_t)gridDim.x * ZR__EXACT_RUN) {
        for (int i = (int)threadIdx.x; i < ZR__EXACT_WARPS * ZR__TERM_PIECES * ZR__BINS; i += ZR__EXACT_THREADS)
            (&own->sum[0][0])[i] = 0;
        __syncthreads();
        for (int64_t i = at + threadIdx.x; i < at + ZR__EXACT_RUN && i < n; i += ZR__EXACT_THREADS)
            zr__count_term<SQUARED>(own + warp, zr__get(x, i));
        __syncthreads();
        for (int e = (int)threadIdx.x; e < ZR__BINS; e += ZR__EXACT_THREADS) {
            const int64_t sum = zr__sum_of_bin(own, e);
            if (sum == 0) continue;
            atomicAdd(&room->bin[0][e], (unsigned long long)(sum & 0xffffffff));
            atomicAdd(&room->bin[1][e], (unsigned long long)(sum >> 32));
        }
        __syncthreads();
    }
}

/* Add the bins in *room to *sum, by one thread, and set the bins to 0. */
template <bool SQUARED> __global__ void zr__exact_join(zr__cuda_room *room, zr_exact *sum)
{
    ZR_SHARED_ARRAY(unsigned long long, bin, [2][ZR__BINS]);
    const int own = (int)threadIdx.x;
    for (int half = 0; half < 2; half++) {
        bin[half][own] = room->bin[half][own];
        room->bin[half][own] = 0;
    }
    __syncthreads();
    if (own != 0) return;
    zr_exact total = *sum;
    if (bin[0][ZR__BINS - 1] != 0 || bin[1][ZR__BINS - 1] != 0) total.not_finite = true;
    for (int e = 0; e < ZR__BINS - 1; e++) {
        const int power = (SQUARED ? 2 : 1) * ((e ? e : 1) - 150);
        const bool negative = bin[1][e] >> 63; /* the upper half holds the sign */
        const unsigned long long upper = negative ? 0 - bin[1][e] : bin[1][e];
        if (bin[0][e] != 0) zr__exact_term(&total, 1, bin[0][e], power - ZR__EXACT_UNIT);
        if (upper != 0) zr__exact_term(&total, negative ? -1 : 1, upper, power - ZR__EXACT_UNIT + 32);
    }
    zr__exact_carry(&total);
    *sum = total;
}

/* Add n elements, or their squares, to *sum. zr__get(x, i) is element i. */
template <bool SQUARED, typename Elements>
zr_status zr__exact_all(const zr__cuda_device *cuda, Elements x, int64_t n, zr_exact *sum)
{
    const int64_t runs = zr__ceil_div(n, ZR__EXACT_RUN);
    if (n <= 0) return ZR_OK;
    ZR_LAUNCH(cuda->stream, (zr__exact_count<SQUARED, Elements>),
              (unsigned)(runs < ZR__CUDA_PARTS ? runs : ZR__CUDA_PARTS), ZR__EXACT_THREADS,
              ZR__EXACT_WARPS * sizeof(zr__warp_bins), cuda->room, x, n);
    ZR_LAUNCH(cuda->stream, (zr__exact_join<SQUARED>), 1, ZR__BINS, 0, cuda->room, sum);
    return zr__launched();
}

#endif
