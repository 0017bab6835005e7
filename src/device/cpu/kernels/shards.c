/* Computations for ZeRO's steps: sums of pieces, sums of squares, search for elements that are not finite, and casts.
 */
#include "base/number/finite.h"
#include "device/cpu/cpu.h"
#include "device/cpu/shared/records.h"

/* Number of elements summed at a time. The intermediate sums of the summation tree (2 KB each, two for each level) stay
 * in the L1 cache. */
#define SUM_BLOCK 512
#define SUM_LEVELS 12
_Static_assert(SUM_BLOCK % ZR__RECORD_ELEMS == 0 && ZR_CHUNK % ZR__RECORD_ELEMS == 0, "whole records");

/* SQUARE_BLOCK: number of elements in a block of the square sum. SQUARE_BATCH: number of blocks in a batch. The sums of
 * a batch's blocks are stored, then added in order. */
#define SQUARE_BLOCK 4096
#define SQUARE_BATCH 256

/* Return the address of n elements from `first` on as fp32, as zr__view does, also of a type with records. */
static const float *view(float *buffer, const void *in, zr_dtype dtype, int64_t first, int64_t n)
{
    if (!zr_dtype_is_record(dtype)) return zr__view(buffer, in, dtype, first, n);
    zr__records_load(buffer, in, dtype, first, n);
    return buffer;
}

typedef struct sum_part {
    zr_dtype dtype;
    int64_t first, n;
} sum_part;

/* Add the pieces in a binary tree, and return the address of the sum. The sum is in `out`, but if there is a single F32
 * piece, the piece itself is the sum. The number of pieces in a left subtree is the largest power of two below the
 * number of pieces of the tree. Therefore all subtrees of a level are full, except the last. `out` is written only
 * after all pieces have been read. */
static const float *sum_tree(float *out, float (*room)[SUM_BLOCK], const void *const *pieces, int n_pieces,
                             const sum_part *part)
{
    if (n_pieces == 1) return view(out, pieces[0], part->dtype, part->first, part->n);
    int left = 1;
    while (2 * left < n_pieces) left *= 2;
    const float *x = sum_tree(room[0], room + 2, pieces, left, part);
    const float *y = sum_tree(room[1], room + 2, pieces + left, n_pieces - left, part);
    zr__rows_add(out, x, y, part->n);
    return out;
}

typedef struct sum_out {
    void *data;
    zr_dtype dtype;
    bool accumulate, past_caches;
} sum_out;

static void sum_block(const sum_out *out, const void *const *pieces, int n_pieces, const sum_part *part)
{
    float room[2 * SUM_LEVELS][SUM_BLOCK], own[SUM_BLOCK];
    float *wide = out->dtype == ZR_F32 ? (float *)out->data + part->first : own;
    const float *total = sum_tree(out->accumulate || out->past_caches ? own : wide, room, pieces, n_pieces, part);
    if (out->accumulate)
        zr__rows_add(wide, wide, total, part->n);
    else if (out->past_caches)
        zr__stream(wide, total, part->n * (int64_t)sizeof(float));
    else if (total != wide || out->dtype != ZR_F32)
        zr__store(out->data, out->dtype, part->first, total, part->n);
}

static bool past_caches(const void *out, zr_dtype out_dtype, const void *const *pieces, int n_pieces, int64_t n)
{
    for (int r = 0; r < n_pieces; r++)
        if (pieces[r] == out) return false;
    return out_dtype == ZR_F32 && n * (int64_t)sizeof(float) >= ZR_STREAM_BYTES;
}

static void sum(int threads, void *out, zr_dtype out_dtype, bool accumulate, const void *const *pieces, int n_pieces,
                zr_dtype dtype, int64_t n)
{
    const sum_out to = {out, out_dtype, accumulate, !accumulate && past_caches(out, out_dtype, pieces, n_pieces, n)};
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(static) nowait
        for (int64_t first = 0; first < n; first += SUM_BLOCK) {
            const sum_part part = {dtype, first, zr__min64(SUM_BLOCK, n - first)};
            sum_block(&to, pieces, n_pieces, &part);
        }
        zr__stream_end();
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

static int64_t first_bad(const void *x, zr_dtype dtype, int64_t n)
{
    float wide[ZR_CHUNK];
    for (int64_t first = 0; first < n; first += ZR_CHUNK) {
        int64_t length = zr__min64(ZR_CHUNK, n - first);
        zr__load(wide, x, dtype, first, length);
        int64_t bad = zr__first_bad(wide, length);
        if (bad >= 0) return first + bad;
    }
    return -1;
}

/* Compute out = x + sign * added, from element `first` of the added array on. `out` may be x. */
static const float *plus_added(float *out, const float *x, const zr_casting *casting, int64_t first, int64_t n)
{
    float buffer[ZR_CHUNK];
    const float *y = zr__view(buffer, casting->added, casting->added_dtype, first, n), sign = casting->sign;
    ZR_WIDE_LOOP
    for (int64_t i = 0; i < n; i++) out[i] = x[i] + sign * y[i];
    return out;
}

static void cast_range(void *out, zr_dtype out_dtype, const void *in, zr_dtype dtype, int64_t first, int64_t n,
                       const zr_casting *casting)
{
    if (dtype == out_dtype) {
        const int64_t bytes = zr_dtype_bytes(dtype), at = first * bytes;
        if (n * bytes < ZR_STREAM_BYTES) {
            memmove((char *)out + at, (const char *)in + at, (size_t)(n * bytes));
            return;
        }
        zr__stream((char *)out + at, (const char *)in + at, n * bytes);
        zr__stream_end();
        return;
    }
    const bool adds = casting && casting->added;
    float wide[ZR_CHUNK];
    for (int64_t i = first; i < first + n; i += ZR_CHUNK) {
        const int64_t length = zr__min64(ZR_CHUNK, first + n - i);
        float *target = zr_dtype_is_record(dtype) && !adds ? zr__target(wide, out, out_dtype, i) : wide;
        const float *x = view(target, in, dtype, i, length);
        if (adds) x = plus_added(wide, x, casting, i, length);
        if (zr_dtype_is_record(out_dtype))
            zr__records_store(out, out_dtype, i, x, length, casting);
        else if (target == wide)
            zr__store(out, out_dtype, i, x, length);
    }
}

static void cast(int threads, void *out, zr_dtype out_dtype, const void *in, zr_dtype dtype, int64_t n,
                 const zr_casting *casting)
{
    if (dtype == out_dtype && zr_dtype_is_record(dtype)) { /* copy the records by words, whose size divides theirs */
        n = zr_dtype_span(dtype, n) / 2;
        dtype = out_dtype = ZR_BF16;
    }
    /* Maximum number of elements that one thread casts alone. For so few elements, waking a second thread costs more
     * time than it saves. */
    enum { ALONE_ELEMS = 1 << 15 };
#pragma omp parallel for num_threads(threads) schedule(static) if (n > ALONE_ELEMS)
    for (int t = 0; t < threads; t++) {
        int64_t begin, end;
        zr__share(n, ZR_CHUNK, t, threads, &begin, &end);
        cast_range(out, out_dtype, in, dtype, begin, end - begin, casting);
    }
}

const zr__shards ZR_LEVEL_NAME(zr__shards) = {sum, square_sum, first_bad, cast};
const zr_kernel ZR_LEVEL_NAME(zr__kernels_shards)[] = {{0}};
