/*
 * Sums of squares without rounding. An F32 is a 24-bit integer times a power of two. Its square is therefore a 48-bit
 * integer times a power of two that depends only on the F32's exponent. Squares are added as integers in bins, one bin
 * for each exponent. Before a bin can overflow, all bins are added to the wide sum. Integers may be added in any order,
 * by any number of threads.
 */
#include "base/number/exact.h"
#include "device/cpu/cpu.h"
#include "device/cpu/shared/level.h"

#define EXPONENTS 256
/* Number of sets of bins. Consecutive elements often have the same exponent. They use the sets in turn, so that adding
 * an element does not wait for the previous element's store. */
#define SETS 4
/* Number of elements after which the bins are flushed, because a 64-bit bin can hold only 2^16 squares of 48 bits. */
#define BLOCK ((int64_t)SETS << 16)
/* Minimum number of elements for which waking a thread is worthwhile. */
#define SHARE ((int64_t)1 << 15)

typedef uint64_t bins[SETS][EXPONENTS];

/* Add the square of x to the bin of its exponent, without a branch. Infinity and NaN have the greatest exponent, and
 * make the last bin nonzero by their implicit leading bit. */
static inline void count_square(uint64_t bin[EXPONENTS], float x)
{
    uint32_t u = zr__bits(x), exponent = u >> 23 & 0xff;
    uint64_t bits = (u & 0x7fffff) | (uint32_t)(exponent != 0) << 23;
    bin[exponent] += bits * bits;
}

static void count_all(bins bin, const float *x, int64_t n)
{
    int64_t i = 0;
    for (; i + SETS <= n; i += SETS)
        for (int s = 0; s < SETS; s++) count_square(bin[s], x[i + s]);
    for (int s = 0; i < n; i++, s++) count_square(bin[s], x[i]);
}

static void flush_bins(zr_exact *sum, bins bin)
{
    for (int s = 0; s < SETS; s++) {
        for (int e = 0; e < EXPONENTS - 1; e++) {
            int power = 2 * ((e ? e : 1) - 150);
            if (bin[s][e]) zr__exact_term(sum, 1, bin[s][e], power - ZR__EXACT_UNIT);
        }
        sum->not_finite |= bin[s][EXPONENTS - 1] != 0;
    }
    zr__exact_carry(sum);
}

static void square_range(zr_exact *sum, const void *x, zr_dtype dtype, int64_t begin, int64_t end)
{
    float wide[ZR_CHUNK];
    bins bin;
    for (int64_t block = begin; block < end; block += BLOCK) {
        int64_t block_end = zr__min64(block + BLOCK, end);
        memset(bin, 0, sizeof bin);
        for (int64_t first = block; first < block_end; first += ZR_CHUNK) {
            int64_t length = zr__min64(ZR_CHUNK, block_end - first);
            zr__load(wide, x, dtype, first, length);
            count_all(bin, wide, length);
        }
        flush_bins(sum, bin);
    }
}

#pragma omp declare reduction(exact:zr_exact : zr__exact_merge(&omp_out, &omp_in)) initializer(omp_priv = (zr_exact){0})

static void square_exact(int threads, const void *x, zr_dtype dtype, int64_t n, zr_exact *sum)
{
    const int team = (int)zr__min64(threads, n / SHARE + 1);
    zr_exact total = *sum;
#pragma omp parallel for num_threads(team) schedule(static) reduction(exact : total)
    for (int t = 0; t < team; t++) {
        int64_t begin, end;
        zr__share(n, ZR_CHUNK, t, team, &begin, &end);
        square_range(&total, x, dtype, begin, end);
    }
    *sum = total;
}

const zr__square_exact ZR_LEVEL_NAME(zr__square_exact) = square_exact;
const zr_kernel ZR_LEVEL_NAME(zr__kernels_exact)[] = {{0}};
