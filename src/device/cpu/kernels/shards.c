/*
 * The steps of ZeRO that compute: sum of pieces, square norm, search for what is not finite, cast.
 */
#include "device/cpu/cpu.h"
#include "device/cpu/rows.h"

/* A block's stack of partial sums (12 x 2 KB) stays in the first-level cache. */
#define SUM_BLOCK 512
#define SUM_DEPTH 12

/* Blocks of the square sum; their sums are kept for one batch, then added in order. */
#define SQUARE_BLOCK 4096
#define SQUARE_BATCH 256

static void add(float *restrict out, const float *restrict x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] += x[i];
}

static void add_piece(float *restrict out, const void *piece, zr_dtype dtype, int64_t first, int64_t n)
{
    float wide[SUM_BLOCK];
    add(out, zr__view(wide, piece, dtype, first, n), n);
}

/* Pieces first..first+n of all, into stack[0]. The stack counts in binary: its entries are sums of
 * 2^j pieces, the largest lowest, and two of a size are merged at once. That is the pairwise tree;
 * merging what is left from the top down is its odd entries passing up. */
static void sum_block(float stack[SUM_DEPTH][SUM_BLOCK], const void *const *pieces, int n_pieces, zr_dtype dtype,
                      int64_t first, int64_t n)
{
    int top = 0;
    for (int r = 0; r < n_pieces; r++) {
        if (r % 2 == 0) {
            zr__load(stack[top++], pieces[r], dtype, first, n);
            continue;
        }
        add_piece(stack[top - 1], pieces[r], dtype, first, n);
        for (int pairs = (r + 1) / 2; pairs % 2 == 0; pairs /= 2, top--) add(stack[top - 2], stack[top - 1], n);
    }
    for (; top > 1; top--) add(stack[top - 2], stack[top - 1], n);
}

static void sum(int threads, void *out, zr_dtype out_dtype, bool accumulate, const void *const *pieces, int n_pieces,
                zr_dtype dtype, int64_t n)
{
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t first = 0; first < n; first += SUM_BLOCK) {
        float stack[SUM_DEPTH][SUM_BLOCK];
        int64_t length = zr__min64(SUM_BLOCK, n - first);
        sum_block(stack, pieces, n_pieces, dtype, first, length);
        if (accumulate)
            add((float *)out + first, stack[0], length);
        else
            zr__store(out, out_dtype, first, stack[0], length);
    }
}

static zr__vecd square(const float *x)
{
    zr__half narrow;
    memcpy(&narrow, x, sizeof narrow);
    zr__vecd wide = __builtin_convertvector(narrow, zr__vecd);
    return wide * wide;
}

static double square_block(const float *x, int64_t n)
{
    zr__vecd acc[ZR_ACCS] = {{0}};
    const int64_t step = ZR_ACCS * ZR_VECD;
    int64_t i = 0;
    for (; i + step <= n; i += step)
        for (int a = 0; a < ZR_ACCS; a++) acc[a] += square(x + i + a * ZR_VECD);
    if (i < n) {
        float rest[ZR_ACCS * ZR_VECD] = {0};
        memcpy(rest, x + i, (size_t)(n - i) * sizeof(float));
        for (int a = 0; a < ZR_ACCS; a++) acc[a] += square(rest + a * ZR_VECD);
    }
    zr__vecd all = (acc[0] + acc[1]) + (acc[2] + acc[3]);
    double total = 0;
    for (int l = 0; l < ZR_VECD; l++) total += all[l];
    return total;
}

static double square_sum(int threads, const void *x, zr_dtype dtype, int64_t n)
{
    double part[SQUARE_BATCH], total = 0;
    int64_t blocks = (n + SQUARE_BLOCK - 1) / SQUARE_BLOCK;
    for (int64_t batch = 0; batch < blocks; batch += SQUARE_BATCH) {
        int64_t count = zr__min64(SQUARE_BATCH, blocks - batch);
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int64_t b = 0; b < count; b++) {
            float wide[SQUARE_BLOCK];
            int64_t first = (batch + b) * SQUARE_BLOCK, length = zr__min64(SQUARE_BLOCK, n - first);
            part[b] = square_block(zr__view(wide, x, dtype, first, length), length);
        }
        for (int64_t b = 0; b < count; b++) total += part[b];
    }
    return total;
}

static bool finite_all(const float *x, int64_t n)
{
    uint32_t bad = 0;
    for (int64_t i = 0; i < n; i++) bad |= (zr__bits(x[i]) & 0x7f800000u) == 0x7f800000u;
    return !bad;
}

static int64_t first_bad(const void *x, zr_dtype dtype, int64_t n)
{
    float wide[ZR_CHUNK];
    for (int64_t first = 0; first < n; first += ZR_CHUNK) {
        int64_t length = zr__min64(ZR_CHUNK, n - first);
        zr__load(wide, x, dtype, first, length);
        if (finite_all(wide, length)) continue;
        int64_t i = 0;
        while (finite_all(wide + i, 1)) i++;
        return first + i;
    }
    return -1;
}

static void cast_range(void *out, zr_dtype out_dtype, const void *in, zr_dtype dtype, int64_t first, int64_t n)
{
    if (dtype == out_dtype) {
        int64_t bytes = zr_dtype_bytes(dtype);
        memmove((char *)out + first * bytes, (const char *)in + first * bytes, (size_t)(n * bytes));
        return;
    }
    float wide[ZR_CHUNK];
    for (int64_t i = first; i < first + n; i += ZR_CHUNK) {
        int64_t length = zr__min64(ZR_CHUNK, first + n - i);
        zr__store(out, out_dtype, i, zr__view(wide, in, dtype, i, length), length);
    }
}

static void cast(int threads, void *out, zr_dtype out_dtype, const void *in, zr_dtype dtype, int64_t n)
{
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int t = 0; t < threads; t++) {
        int64_t begin, end;
        zr__share(n, ZR_CHUNK, t, threads, &begin, &end);
        cast_range(out, out_dtype, in, dtype, begin, end - begin);
    }
}

const zr__shards ZR_LEVEL_NAME(zr__shards) = {sum, square_sum, first_bad, cast};
const zr_kernel ZR_LEVEL_NAME(zr__kernels_shards)[] = {{0}};
