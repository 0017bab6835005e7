/*
 * Ops attention and attention_dx compute attention and its gradient, in blocks of queries x keys. Each query has a
 * running maximum and a running sum, so that no T x T array exists (Milakov and Gimelshein 2018; Dao et al. 2022).
 * Blocks in which no query sees a key are skipped: blocks of keys after the queries, before their windows, or of other
 * documents. One thread works on one head of one sequence at a time, on copies of q, k and v. In the backward pass the
 * thread works on a key-value head and goes through its query heads, so that the sums over query heads have a fixed
 * order.
 *
 * The copies are packed to fp32. If the level has fast products of bf16 and the operands are bf16, the copies are pairs
 * of bf16 instead (pairs.h). Probabilities and gradients of scores are then computed in fp32 and rounded to bf16 before
 * they are multiplied. Sums are in fp32 in both cases.
 */
#include <float.h>
#include <math.h>
#include <omp.h>

#include "device/cpu/attention_blocks.h"
#include "device/cpu/shared/attention_head.h"
#include "device/cpu/shared/rows.h"
#include "device/cpu/shared/tile.h"
#include "device/cpu/shared/transpose.h"

#define NB ZR__ATTENTION_BLOCK

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Return whether at least one of the queries [i0, i0 + nq) sees a key of [j0, j0 + n). */
static bool blocks_meet(const zr__head *s, int64_t i0, int64_t nq, int64_t j0, int64_t n)
{
    return zr__keys_begin(s, i0) < j0 + n && zr__keys_end(s, i0 + nq - 1) > j0;
}

/* Return the number of keys of the block at j0 up to the last one that any of the queries [i0, i0 + nq) sees. In the
 * block on the diagonal, keys after the last query are masked. If queries see later keys, return all keys of the block:
 * the first queries that meet the block initialise the gradients of all its keys, even of keys that they do not see. */
static int64_t keys_seen(const zr__head *s, int64_t i0, int64_t nq, int64_t j0)
{
    return zr__min64(NB, (s->size.causal ? zr__keys_end(s, i0 + nq - 1) : s->T) - j0);
}

/* Return n rounded up to the number of scores in a row that products read: whole vectors, or for products of bf16 whole
 * steps of the depth (ZR__ATTENTION_PAIRED). */
static int64_t whole_lanes(const zr__head *s, int64_t n)
{
    const int64_t step = s->narrow ? ZR__ATTENTION_PAIRED : ZR__ATTENTION_LANES;
    return (n + step - 1) / step * step;
}

/* A block: the queries [i0, i0 + nq) and the keys [j0, j0 + n). Query i0 + i sees no key from j0 + i + above on.
 * `whole` tells whether all queries see all n keys, and products read exactly n scores of a row. */
typedef struct block {
    int64_t i0, nq, j0, n, above;
    bool whole;
} block;

static block block_of(const zr__head *s, int64_t i0, int64_t nq, int64_t j0)
{
    const int64_t n = keys_seen(s, i0, nq, j0);
    const bool all = zr__keys_begin(s, i0 + nq - 1) <= j0 && zr__keys_end(s, i0) >= j0 + n;
    return (block){i0, nq, j0, n, s->size.causal ? i0 - j0 + 1 : NB, all && whole_lanes(s, n) == n};
}

/* Keys of a block that a query sees, [begin, end), relative to the block. The tile products read the query's scores of
 * the keys [0, lanes), so the scores of keys outside [begin, end) must be 0. */
typedef struct key_range {
    int64_t begin, end, lanes;
} key_range;

/* Return the range for query i0 + i of a block. `lanes` includes some masked scores after the range in the block on the
 * diagonal, and all scores of the block if queries see later keys. The range is empty if the query's document ends
 * before the block. */
static inline key_range keys_of(const zr__head *s, const block *b, int64_t i)
{
    if (b->whole) return (key_range){0, b->n, b->n};
    const int64_t begin = zr__keys_begin(s, b->i0 + i) - b->j0;
    const int64_t last = zr__min64(b->n, zr__keys_end(s, b->i0 + i) - b->j0);
    const int64_t end = last > 0 ? last : 0, past = s->narrow ? 0 : ZR_TILE_ROWS - 1;
    const int64_t read = s->size.causal ? end + past : b->n;
    return (key_range){begin > 0 ? zr__min64(begin, end) : 0, end, whole_lanes(s, zr__min64(b->n, read))};
}

/* Find the ends of the documents of the head's row, if the kernel needs them. */
static void find_ends(zr__head *s, const zr__attention_layout *at, float *work)
{
    s->ends = NULL;
    if (at->ends < 0 || !s->document) return;
    int32_t *ends = (int32_t *)(work + at->ends), end = (int32_t)s->T;
    for (int64_t t = s->T - 1; t >= 0; t--) {
        ends[t] = end;
        if (t > 0 && s->document[t - 1] != s->document[t]) end = (int32_t)t;
    }
    s->ends = ends;
}

/* Set scores to `value` for keys that the query must not see. */
static void mask_run(float *x, key_range keys, float value)
{
    for (int64_t j = 0; j < keys.begin; j++) x[j] = value;
    for (int64_t j = keys.end; j < keys.lanes; j++) x[j] = value;
}

/* ---- runs of scores --------------------------------------------------------------------------- */

static void multiply_run(float *restrict x, const float *restrict factor, int64_t n)
{
    for (int64_t j = 0; j < n; j++) x[j] *= factor[j];
}

/* Compute the dot product of x and y, and return its partial sums, one for each lane. n is a multiple of ZR_VEC. */
static zr__vec dot_lanes(const float *x, const float *y, int64_t n)
{
    zr__vec acc = {0};
    for (int64_t j = 0; j < n; j += ZR_VEC) acc = zr__vec_fma(zr__vec_load(x + j), zr__vec_load(y + j), acc);
    return acc;
}

/* Multiply a run by `factor`, and return its maxima, one for each lane. n is a multiple of ZR_VEC. */
static zr__vec max_lanes(float *x, float factor, int64_t n)
{
    zr__vec best = zr__vec_splat(-FLT_MAX);
    for (int64_t j = 0; j < n; j += ZR_VEC) {
        const zr__vec scaled = zr__vec_load(x + j) * zr__vec_splat(factor);
        zr__vec_store(x + j, scaled);
        best = zr__vec_max(scaled, best);
    }
    return best;
}

/* Compute x = exp(x - m) in place, and return the sums, one for each lane. With `narrow`, round the results to bf16. x
 * - m is at most 0, except for rounding. n is a multiple of ZR_VEC, or with `narrow` of 2 ZR_VEC. */
__attribute__((always_inline)) static inline zr__vec exp_lanes(bool narrow, float *x, float m, int64_t n)
{
    const zr__vec top = zr__vec_splat(m);
    zr__vec sum = zr__vec_splat(0.0f);
    for (int64_t j = 0; j < n && !narrow; j += ZR_VEC) {
        const zr__vec e = zr__vec_exp_low(zr__vec_load(x + j) - top);
        zr__vec_store(x + j, e);
        sum += e;
    }
    for (int64_t j = 0; j < n && narrow; j += 2 * ZR_VEC) {
        const zr__vec a = zr__vec_exp_low(zr__vec_load(x + j) - top);
        const zr__vec b = zr__vec_exp_low(zr__vec_load(x + j + ZR_VEC) - top);
        zr__narrow_two(x + j / 2, a, b);
        sum += a;
        sum += b;
    }
    return sum;
}

/* ---- packing --------------------------------------------------------------------------------- */

/* Number of rows that are prefetched. Rows of a head are thousands of bytes apart, where no processor prefetches. */
#define AHEAD 8

/* Prefetch the row of a head that is AHEAD tokens after token t. `first` is the index of the first element of token t,
 * and `stride` the distance between two tokens. */
static inline void prefetch_row(const zr__head *s, const zr_tensor *x, int64_t first, int64_t stride, int64_t t)
{
    const int64_t element = zr_dtype_bytes(x->dtype);
    const char *row = (const char *)x->data + (first + AHEAD * stride) * element;
    for (int64_t byte = 0; byte < s->D * element && t + AHEAD < s->T; byte += 64) __builtin_prefetch(row + byte);
}

/* Pack a row to fp32: out[d] = scale * x[first + d] for d < D, then zeros up to `width`. */
static void pack_row(float *out, const zr_tensor *x, int64_t first, const zr__head *s, float scale)
{
    const float *in = zr__view(out, x->data, x->dtype, first, s->D);
    ZR_WIDE_LOOP
    for (int64_t d = 0; d < s->D; d++) out[d] = in[d] * scale;
    for (int64_t d = s->D; d < s->width; d++) out[d] = 0.0f;
}

/* Copy the D elements of a row of bf16, then add zeros up to `row` floats of memory. */
static void copy_row(float *out, const zr_tensor *x, int64_t first, const zr__head *s, int64_t row)
{
    const size_t bytes = (size_t)(2 * s->D);
    memcpy(out, (const uint16_t *)x->data + first, bytes);
    memset((char *)out + bytes, 0, (size_t)(4 * row) - bytes);
}

/* Pack the tokens [t0, t0 + n) of a head of q, k or v to rows with the stride `row`: scale * x in fp32, or x in bf16.
 */
static void pack_rows(float *out, const zr__head_columns *x, int64_t head_index, const zr__head *s, int64_t t0,
                      int64_t n, int64_t row, float scale)
{
    for (int64_t t = 0; t < n; t++) {
        const int64_t first = zr__head_token(s, x, head_index, t0 + t);
        prefetch_row(s, x->x, first, x->stride, t0 + t);
        if (s->narrow)
            copy_row(out + t * row, x->x, first, s, row);
        else
            pack_row(out + t * row, x->x, first, s, scale);
    }
}

/* Unpack a row: x[first + d] = scale * row[d] for d < D. `row` may be overwritten. */
static void unpack_row(const zr_tensor *x, int64_t first, float *row, const zr__head *s, float scale)
{
    float *out = zr__target(row, x->data, x->dtype, first);
    ZR_WIDE_LOOP
    for (int64_t d = 0; d < s->D; d++) out[d] = row[d] * scale;
    zr__settle(x->data, x->dtype, first, row, s->D);
}

/* Set the rows from n to `all` to 0. Products read `all` rows, but only n tokens are packed. */
static void zero_rows(float *rows, int64_t n, int64_t all, int64_t row)
{
    memset(rows + n * row, 0, (size_t)((all - n) * row) * sizeof(float));
}

/* Pack n tokens of a key-value head (k or v), from token t0 on, in two forms. `rows` (lanes, at->kv_row) is not
 * transposed; `lanes` is NB if s is narrow, otherwise n rounded up to whole vectors. `out` (at->depth, NB) is
 * transposed. Values beyond the last token are 0. */
static void pack_transposed(float *restrict out, float *restrict rows, const zr__head_columns *x, const zr__head *s,
                            const zr__attention_layout *at, int64_t t0, int64_t n)
{
    const int64_t row = at->kv_row, lanes = s->narrow ? NB : zr__attention_lanes(n);
    pack_rows(rows, x, s->kv, s, t0, n, row, 1.0f);
    zero_rows(rows, n, lanes, row);
    for (int64_t j0 = 0; j0 < lanes; j0 += ZR_VEC)
        for (int64_t d0 = 0; d0 < at->depth; d0 += ZR_VEC)
            zr__transpose(out + d0 * NB + j0, NB, rows + j0 * row + d0, row, at->depth - d0);
}

/* Pair the tokens of a block of rows of bf16: the tokens 0 and 1, 2 and 3 ... The result is (NB / 2, width). */
static void pair_tokens(float *restrict out, const float *restrict rows, const zr__head *s, int64_t row)
{
    for (int64_t t = 0; t < NB; t += 2, out += s->width)
        zr__pair_rows(out, rows + t * row, rows + (t + 1) * row, s->width);
}

/* Pair the tokens of a block of rows of bf16, and transpose the pairs: the result is (width, NB / 2). */
static void pair_transposed(float *restrict out, const float *restrict rows, const zr__head *s, int64_t row)
{
    float pairs[ZR_VEC * ZR_VEC];
    for (int64_t t = 0; t < NB / 2; t += ZR_VEC)
        for (int64_t d = 0; d < s->width; d += ZR_VEC) {
            for (int64_t r = 0; r < ZR_VEC; r++) {
                const float *first = rows + 2 * (t + r) * row + d / 2;
                zr__pair_rows(pairs + r * ZR_VEC, first, first + row, ZR_VEC);
            }
            zr__transpose(out + d * NB / 2 + t, NB / 2, pairs, ZR_VEC, ZR_VEC);
        }
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Compute one step of online softmax for `rows` <= ZR_VEC queries of a block from number i on: replace a score by
 * exp(score - running maximum), which `narrow` rounds to bf16. If the maximum of a query grows, rescale its y and its
 * sum. `begun` tells whether y holds sums of earlier blocks. */
__attribute__((always_inline)) static inline void rows_online(bool pairs, bool narrow, const zr__head *s, float *p,
                                                              const block *b, int64_t i, int64_t rows, float *y,
                                                              float *max, float *sum, bool begun)
{
    zr__vec part[ZR_VEC];
    float shrink[ZR_VEC];
    for (int64_t r = 0; r < ZR_VEC; r++) part[r] = zr__vec_splat(-FLT_MAX);
    for (int64_t r = 0; r < rows; r++) {
        const key_range keys = keys_of(s, b, i + r);
        const bool scales = pairs && b->whole;
        if (pairs && !scales) zr__scale_run(p + r * NB, s->scale, keys.lanes);
        if (!b->whole) mask_run(p + r * NB, keys, -INFINITY);
        part[r] = max_lanes(p + r * NB, scales ? s->scale : 1.0f, keys.lanes);
    }
    const zr__vec before = zr__vec_load(max), now = zr__vec_max(zr__vec_maxima(part), before);
    zr__vec_store(max, now);
    zr__vec_store(shrink, zr__vec_exp_low(before - now));
    for (int64_t r = 0; r < ZR_VEC; r++) part[r] = zr__vec_splat(0.0f);
    for (int64_t r = 0; r < rows; r++) {
        part[r] = exp_lanes(narrow, p + r * NB, max[r], keys_of(s, b, i + r).lanes);
        if (begun && shrink[r] != 1.0f) zr__scale_run(y + r * s->width, shrink[r], s->width);
    }
    zr__vec_store(sum, zr__vec_fma(zr__vec_load(sum), zr__vec_load(shrink), zr__vec_sums(part)));
}

/* Apply dropout to the probabilities of a block, and round them to bf16 with `pairs`. */
static void block_drop(bool pairs, const zr__head *s, float *p, const block *b)
{
    float factor[NB];
    for (int64_t i = 0; i < b->nq; i++, p += NB) {
        const key_range keys = keys_of(s, b, i);
        const uint64_t first = s->dropout_first + (uint64_t)((b->i0 + i) * s->T + b->j0);
        zr__dropout_factors(&s->dropout, first, keys.end, factor);
        multiply_run(p, factor, keys.end);
        if (pairs) zr__narrow_run(p, p, keys.lanes);
    }
}

/* Attend from the queries of a block to its keys. `pairs` is s->narrow. `begun` tells whether y holds sums of earlier
 * blocks. */
__attribute__((always_inline)) static inline void
block_forward(bool pairs, const zr__head *s, const zr__attention_layout *at, float *work, const block *b, bool begun)
{
    const int64_t w = s->width, nq = b->nq;
    float *p = work + at->p, *max = work + at->stat, *sum = max + NB, *y = work + at->y;
    const float *values = work + at->values + (pairs ? b->j0 / 2 : b->j0) * w;
    const float *keys = work + at->keys_t + b->j0 * at->depth;
    const zr__tile_a q = {work + at->q, at->q_row, 1}, probability = {p, NB, 1};
    zr__tile_lower(pairs, nq, whole_lanes(s, b->n), s->D, q, keys, NB, p, NB, b->above);
    for (int64_t i = 0; i < nq; i += ZR_VEC) {
        const int64_t rows = zr__min64(ZR_VEC, nq - i);
        if (pairs && !s->drops)
            rows_online(pairs, true, s, p + i * NB, b, i, rows, y + i * w, max + i, sum + i, begun);
        else
            rows_online(pairs, false, s, p + i * NB, b, i, rows, y + i * w, max + i, sum + i, begun);
    }
    if (s->drops) block_drop(pairs, s, p, b);
    zr__tile_product(pairs, nq, w, b->n, probability, (zr__tile_band){nq, b->above}, values, w, y, w, begun);
}

/* Attend to a block of keys by products of fp32 (forward_f32) or bf16 (forward_bf16). Neither function is inlined, so
 * that the compiler can use all registers for each. */
__attribute__((noinline)) static void forward_f32(const zr__head *s, const zr__attention_layout *at, float *work,
                                                  const block *b, bool begun)
{
    block_forward(false, s, at, work, b, begun);
}

__attribute__((noinline)) static void forward_bf16(const zr__head *s, const zr__attention_layout *at, float *work,
                                                   const block *b, bool begun)
{
    block_forward(true, s, at, work, b, begun);
}

/* Attend from the queries [i0, i0 + nq) to all keys that they see. */
static void query_block(const zr__head *s, const zr__attention_layout *at, float *work, int64_t i0, int64_t nq)
{
    const int64_t first = zr__keys_begin(s, i0) / NB * NB;
    float *max = work + at->stat, *sum = max + NB;
    for (int64_t i = 0; i < NB; i++) {
        max[i] = -FLT_MAX;
        sum[i] = 0.0f;
    }
    for (int64_t j0 = first; j0 < zr__keys_end(s, i0 + nq - 1); j0 += NB) {
        const block b = block_of(s, i0, nq, j0);
        if (ZR_PAIRS && s->narrow)
            forward_bf16(s, at, work, &b, j0 > first);
        else
            forward_f32(s, at, work, &b, j0 > first);
    }
}

/* Pack all keys and values of a head. */
static void pack_head(const zr__head *s, const zr__attention_layout *at, float *work)
{
    float *rows = work + at->y; /* memory of y, before y is computed */
    for (int64_t j0 = 0; j0 < s->T; j0 += NB) {
        const int64_t n = zr__min64(NB, s->T - j0);
        float *values = work + at->values + (s->narrow ? j0 / 2 : j0) * s->width;
        pack_transposed(work + at->keys_t + j0 * at->depth, rows, &s->in.k, s, at, j0, n);
        pack_rows(s->narrow ? rows : values, &s->in.v, s->kv, s, j0, n, at->kv_row, 1.0f);
        if (s->narrow) {
            zero_rows(rows, n, NB, at->kv_row);
            pair_tokens(values, rows, s, at->kv_row);
        }
    }
}

static void head_forward(const zr_kernel_args *args, const zr__head *s, const zr__attention_layout *at, float *work)
{
    float *lse = (float *)args->out[1].data + zr__head_lse(s);
    pack_head(s, at, work);
    for (int64_t i0 = 0; i0 < s->T; i0 += NB) {
        const int64_t nq = zr__min64(NB, s->T - i0);
        pack_rows(work + at->q, &s->in.q, s->h, s, i0, nq, at->q_row, s->scale);
        query_block(s, at, work, i0, nq);
        const float *max = work + at->stat, *sum = max + NB;
        for (int64_t i = 0; i < nq; i++) {
            const int64_t first = zr__head_y(s, i0 + i);
            prefetch_row(s, &args->out[0], first, s->size.H * s->D, i0 + i);
            unpack_row(&args->out[0], first, work + at->y + i * s->width, s, 1.0f / sum[i]);
            lse[i0 + i] = (float)((double)max[i] + log((double)sum[i]));
        }
    }
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Compute probabilities and gradients of scores for query number i of a block, in place. On entry, p holds scores and
 * ds holds dP. On return, p = kept * P and ds = P * (kept * dP - delta), where P = exp(scores - lse). `kept` receives
 * the dropout factors. `pairs` is s->narrow. */
__attribute__((always_inline)) static inline void row_backward(bool pairs, const zr__head *s, float *restrict p,
                                                               float *restrict ds, float *restrict kept, const block *b,
                                                               int64_t i, float lse, float delta)
{
    const key_range keys = keys_of(s, b, i);
    const zr__vec scale = zr__vec_splat(s->scale), top = zr__vec_splat(lse), mean = zr__vec_splat(delta);
    if (s->drops)
        zr__dropout_factors(&s->dropout, s->dropout_first + (uint64_t)((b->i0 + i) * s->T + b->j0), keys.end, kept);
    for (int64_t j = 0; j < keys.lanes; j += ZR_VEC) {
        const zr__vec score = zr__vec_load(p + j), dp = zr__vec_load(ds + j);
        const zr__vec e = zr__vec_exp_low((pairs ? score * scale : score) - top);
        if (s->drops) {
            const zr__vec factor = zr__vec_load(kept + j);
            zr__vec_store(p + j, e * factor);
            zr__vec_store(ds + j, e * (dp * factor - mean));
        } else {
            zr__vec_store(p + j, e);
            zr__vec_store(ds + j, e * (dp - mean));
        }
    }
    if (b->whole) return;
    mask_run(p, keys, 0.0f);
    mask_run(ds, keys, 0.0f);
}

/* Round p and ds of a block to bf16, in pairs of queries, in place. `rows` (nq, NB / 2) receives ds in pairs of keys.
 * Queries beyond nq are 0. */
static void narrow_block(const zr__head *s, float *p, float *ds, float *rows, const block *b)
{
    for (int64_t i = 0; i < b->nq; i += 2) {
        const bool alone = i + 1 == b->nq;
        const int64_t had = keys_of(s, b, i).lanes, lanes = alone ? had : keys_of(s, b, i + 1).lanes;
        float *p_next = p + (i + 1) * NB, *ds_next = ds + (i + 1) * NB;
        for (int64_t j = had; j < lanes; j++) p[i * NB + j] = ds[i * NB + j] = 0.0f;
        for (int64_t j = 0; j < lanes && alone; j++) p_next[j] = ds_next[j] = 0.0f;
        zr__narrow_pairs(p + i * NB, p + i * NB, p_next, lanes);
        zr__narrow_run(rows + i * NB / 2, ds + i * NB, lanes);
        if (!alone) zr__narrow_run(rows + (i + 1) * NB / 2, ds_next, lanes);
        zr__narrow_pairs(ds + i * NB, ds + i * NB, ds_next, lanes);
    }
    for (int64_t i = (b->nq + 1) / 2 * 2; i < whole_lanes(s, b->nq); i += 2) {
        memset(p + i * NB, 0, NB * sizeof(float));
        memset(ds + i * NB, 0, NB * sizeof(float));
    }
}

/* Add the contributions of a block to the gradients: dv += p^T dy, dk += ds^T q, dq += ds k. The first block of keys
 * initialises dq instead of adding to it. Unless `adds`, the first block of queries initialises dk and dv. dk and dv
 * are the gradients of the block's keys and values. `pairs` is s->narrow. Then dk and dv are transposed, because p and
 * ds in pairs of queries can only be second operands. */
__attribute__((always_inline)) static inline void block_backward(bool pairs, const zr__head *s,
                                                                 const zr__attention_layout *at, float *work,
                                                                 const float *lse, const block *b, float *dk, float *dv,
                                                                 bool adds)
{
    const int64_t nq = b->nq, above = b->above, w = s->width, row = at->q_row, lanes = whole_lanes(s, b->n);
    float *p = work + at->p, *ds = work + at->ds, *narrow_ds = work + at->kept + NB;
    const float *delta = work + at->stat + b->i0;
    const zr__tile_a q_rows = {work + at->q + b->i0 * row, row, 1}, dy_rows = {work + at->dy + b->i0 * row, row, 1};
    const zr__tile_a ds_rows = {pairs ? narrow_ds : ds, pairs ? NB / 2 : NB, 1};
    zr__tile_lower(pairs, nq, lanes, s->D, q_rows, work + at->keys_t, NB, p, NB, above);
    zr__tile_lower(pairs, nq, lanes, s->D, dy_rows, work + at->values_t, NB, ds, NB, above);
    for (int64_t i = 0; i < nq; i++)
        row_backward(pairs, s, p + i * NB, ds + i * NB, work + at->kept, b, i, lse[b->i0 + i], delta[i]);
    if (pairs) {
        const zr__tile_a q = {work + at->q_pairs + b->i0 / 2 * w, NB / 2, 1};
        const zr__tile_a dy = {work + at->dy_pairs + b->i0 / 2 * w, NB / 2, 1};
        narrow_block(s, p, ds, narrow_ds, b);
        zr__tile_upper(pairs, w, lanes, nq, dy, p, 2 * NB, dv, NB, above, adds);
        zr__tile_upper(pairs, w, lanes, nq, q, ds, 2 * NB, dk, NB, above, adds);
    } else {
        const zr__tile_a p_columns = {p, 1, NB}, ds_columns = {ds, 1, NB};
        const zr__tile_band later = {above - 1, nq};
        zr__tile_product(pairs, b->n, w, nq, p_columns, later, dy_rows.data, w, dv, w, adds);
        zr__tile_product(pairs, b->n, w, nq, ds_columns, later, q_rows.data, w, dk, w, adds);
    }
    zr__tile_product(pairs, nq, w, b->n, ds_rows, (zr__tile_band){nq, above}, work + at->keys, w,
                     work + at->dq + b->i0 * w, w, b->j0 > zr__keys_begin(s, b->i0));
}

/* Add the contributions of a block by products of fp32 (backward_f32) or bf16 (backward_bf16). Neither function is
 * inlined. */
__attribute__((noinline)) static void backward_f32(const zr__head *s, const zr__attention_layout *at, float *work,
                                                   const float *lse, const block *b, float *dk, float *dv, bool adds)
{
    block_backward(false, s, at, work, lse, b, dk, dv, adds);
}

__attribute__((noinline)) static void backward_bf16(const zr__head *s, const zr__attention_layout *at, float *work,
                                                    const float *lse, const block *b, float *dk, float *dv, bool adds)
{
    block_backward(true, s, at, work, lse, b, dk, dv, adds);
}

/* Prepare a query head for the backward pass: pack q and dy, and compute delta of each query, the sum of dy * y over
 * d. */
static void head_prepare(const zr_kernel_args *args, const zr__head *s, const zr__attention_layout *at, float *work)
{
    const zr__attention_dx_operands in = zr__attention_dx_operands_of(args->in, args->n_in, args->n_out);
    const zr_tensor *dy = in.dy, *y = in.y;
    const int64_t w = s->width;
    float *y_row = work + at->keys, *wide_dy = y_row + w; /* memory of keys, before they are packed */
    pack_rows(work + at->q, &s->in.q, s->h, s, 0, s->T, at->q_row, s->scale);
    for (int64_t i0 = 0; i0 < s->T; i0 += ZR_VEC) {
        zr__vec part[ZR_VEC];
        for (int64_t r = 0; r < ZR_VEC; r++) part[r] = zr__vec_splat(0.0f);
        for (int64_t r = 0; r < zr__min64(ZR_VEC, s->T - i0); r++) {
            float *packed = work + at->dy + (i0 + r) * at->q_row, *dy_row = s->narrow ? wide_dy : packed;
            const int64_t first = zr__head_y(s, i0 + r), stride = s->size.H * s->D;
            prefetch_row(s, dy, first, stride, i0 + r);
            prefetch_row(s, y, first, stride, i0 + r);
            pack_row(dy_row, dy, first, s, 1.0f);
            pack_row(y_row, y, first, s, 1.0f);
            part[r] = dot_lanes(dy_row, y_row, w);
            if (s->narrow) copy_row(packed, dy, first, s, at->q_row);
        }
        zr__vec_store(work + at->stat + i0, zr__vec_sums(part));
    }
    if (!s->narrow) return;
    const int64_t whole = (s->T + NB - 1) / NB * NB;
    zero_rows(work + at->q, s->T, whole, at->q_row);
    zero_rows(work + at->dy, s->T, whole, at->q_row);
    for (int64_t t0 = 0; t0 < whole; t0 += NB) {
        pair_transposed(work + at->q_pairs + t0 / 2 * w, work + at->q + t0 * at->q_row, s, at->q_row);
        pair_transposed(work + at->dy_pairs + t0 / 2 * w, work + at->dy + t0 * at->q_row, s, at->q_row);
    }
}

/* Position of a query head among the query heads of its key-value head on this rank. */
typedef struct head_turn {
    bool first, last;
} head_turn;

/* Store the gradient of n keys or values from j0 on. If s is narrow, `gradient` is transposed, and `rows` (NB / 2,
 * width) is a buffer for transposing it. */
static void store_gradient(const zr__head_columns *x, float *gradient, float *rows, const zr__head *s, int64_t j0,
                           int64_t n, float scale)
{
    const int64_t w = s->width;
    for (int64_t j = 0; j < n; j++) {
        const int64_t at = s->narrow ? j % (NB / 2) : j;
        for (int64_t d = 0; d < w && s->narrow && at % ZR_VEC == 0; d += ZR_VEC)
            zr__transpose(rows + at * w + d, w, gradient + d * NB + j, NB, ZR_VEC);
        const int64_t first = zr__head_token(s, x, s->kv, j0 + j);
        prefetch_row(s, x->x, first, x->stride, j0 + j);
        unpack_row(x->x, first, (s->narrow ? rows : gradient) + at * w, s, scale);
    }
}

/* Compute the gradients of a query head, and add its part of dk and dv. The last query head stores dk and dv. */
static void head_backward(const zr_kernel_args *args, const zr__head *s, const zr__attention_layout *at, float *work,
                          head_turn turn)
{
    const zr__attention_operands out = zr__attention_operands_of(&s->size, args->out);
    const zr__attention_dx_operands in = zr__attention_dx_operands_of(args->in, args->n_in, args->n_out);
    const float *lse = (const float *)in.lse->data + zr__head_lse(s);
    const int64_t w = s->width;
    head_prepare(args, s, at, work);
    for (int64_t j0 = 0; j0 < s->T; j0 += NB) {
        const int64_t n = zr__min64(NB, s->T - j0);
        float *dk = work + at->dk + j0 * at->gradient_row, *dv = work + at->dv + j0 * at->gradient_row;
        float *rows = work + (s->narrow ? at->values : at->keys);
        pack_transposed(work + at->keys_t, rows, &s->in.k, s, at, j0, n);
        if (s->narrow) pair_tokens(work + at->keys, rows, s, at->kv_row);
        pack_transposed(work + at->values_t, work + at->values, &s->in.v, s, at, j0, n);
        bool adds = !turn.first;
        for (int64_t i0 = 0; i0 < s->T; i0 += NB) {
            const int64_t nq = zr__min64(NB, s->T - i0);
            if (!blocks_meet(s, i0, nq, j0, n)) continue;
            const block b = block_of(s, i0, nq, j0);
            if (ZR_PAIRS && s->narrow)
                backward_bf16(s, at, work, lse, &b, dk, dv, adds);
            else
                backward_f32(s, at, work, lse, &b, dk, dv, adds);
            adds = true;
        }
        if (!turn.last) continue;
        store_gradient(&out.k, dk, work + at->keys, s, j0, n, s->narrow ? s->scale : 1.0f);
        store_gradient(&out.v, dv, work + at->keys, s, j0, n, 1.0f);
    }
    for (int64_t i = 0; i < s->T; i++) {
        const int64_t first = zr__head_token(s, &out.q, s->h, i);
        prefetch_row(s, out.q.x, first, out.q.stride, i);
        unpack_row(out.q.x, first, work + at->dq + i * w, s, s->scale);
    }
}

/* Set dk and dv to 0 for a key-value head that no query head on this rank uses. */
static void store_zeros(const zr_kernel_args *args, const zr__head *s, float *row)
{
    const zr__attention_operands out = zr__attention_operands_of(&s->size, args->out);
    for (int64_t d = 0; d < s->D; d++) row[d] = 0.0f;
    for (int64_t j = 0; j < s->T; j++) {
        unpack_row(out.k.x, zr__head_token(s, &out.k, s->kv, j), row, s, 1.0f);
        unpack_row(out.v.x, zr__head_token(s, &out.v, s->kv, j), row, s, 1.0f);
    }
}

/* Compute the gradients of a key-value head and of all query heads of this rank that use it, in increasing order. */
static void kv_backward(const zr_kernel_args *args, zr__head *s, const zr__attention_layout *at, float *work, int64_t b,
                        int64_t kv)
{
    const int64_t group = s->size.group, begin = (s->first_kv + kv) * group - s->first_head, end = begin + group;
    const int64_t first = begin > 0 ? begin : 0, last = zr__min64(end, s->size.H) - 1;
    for (int64_t h = first; h <= last; h++) {
        zr__head_select(s, args->runtime, b, h);
        find_ends(s, at, work);
        head_backward(args, s, at, work, (head_turn){h == first, h == last});
    }
    if (first <= last) return;
    s->b = b;
    s->kv = kv;
    store_zeros(args, s, work);
}

/* ---- heads ----------------------------------------------------------------------------------- */

/* Return a head with the fields that all heads of the op share. The other fields are not set. Products have bf16
 * operands if the level has such products and the operands of the op are bf16. */
static zr__head packed_head(const zr_kernel_args *args, const zr_tensor *x, bool fused, const zr_tensor *documents)
{
    zr__head s = zr__head_make(args, x, fused);
    s.documents = documents ? documents->data : NULL;
    s.width = zr__attention_lanes(s.D);
    s.narrow = ZR_PAIRS && x->dtype == ZR_BF16;
    return s;
}

static zr_status run_forward(const zr_kernel_args *args)
{
    const zr__head all =
        packed_head(args, args->in, zr__attention_is_fused(args->n_in), zr__attention_documents(args->in, args->n_in));
    const bool ends = zr__attention_needs_ends(&args->op->attr, all.documents);
    const zr__attention_layout at = zr__attention_layout_make(all.T, all.D, false, false, ends, all.narrow);
    const int64_t heads = all.size.B * all.size.H;
#pragma omp parallel num_threads(zr__team(args, heads *all.T *all.T))
    {
        float *work = (float *)args->scratch + omp_get_thread_num() * at.floats;
        if (all.narrow) zr__pairs_begin();
#pragma omp for schedule(dynamic) nowait
        for (int64_t index = 0; index < heads; index++) {
            zr__head s = all;
            zr__head_select(&s, args->runtime, index / all.size.H, index % all.size.H);
            find_ends(&s, &at, work);
            head_forward(args, &s, &at, work);
        }
        if (all.narrow) zr__pairs_end();
    }
    return ZR_OK;
}

static zr_status run_backward(const zr_kernel_args *args)
{
    const zr__head all = packed_head(args, args->in + 1, args->n_out == 1,
                                     zr__attention_dx_operands_of(args->in, args->n_in, args->n_out).documents);
    const bool ends = zr__attention_needs_ends(&args->op->attr, all.documents);
    const zr__attention_layout at = zr__attention_layout_make(all.T, all.D, true, all.size.group > 1, ends, all.narrow);
    const int64_t heads = all.size.B * all.size.K;
#pragma omp parallel num_threads(zr__team(args, heads *all.T *all.T))
    {
        float *work = (float *)args->scratch + omp_get_thread_num() * at.floats;
        if (all.narrow) zr__pairs_begin();
#pragma omp for schedule(dynamic) nowait
        for (int64_t index = 0; index < heads; index++) {
            zr__head s = all;
            kv_backward(args, &s, &at, work, index / all.size.K, index % all.size.K);
        }
        if (all.narrow) zr__pairs_end();
    }
    return ZR_OK;
}

/* Return the scratch bytes of all threads, since each thread works on a separate head. */
static int64_t forward_scratch(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op)
{
    const zr_shape *q = &zr__in_type(graph, op, 0)->shape;
    const zr__attention_sizes s = zr__attention_sizes_of(
        &op->attr, q, zr__attention_is_fused(op->n_in) ? NULL : &zr__in_type(graph, op, 1)->shape);
    return facts->threads * zr__attention_scratch_bytes(s.T, s.D, zr__in_type(graph, op, 0)->dtype, false, false,
                                                        zr__attention_needs_ends(&op->attr, op->n_in % 2 == 0));
}

static int64_t backward_scratch(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op)
{
    const zr_shape *q = &zr__in_type(graph, op, 1)->shape;
    const zr__attention_sizes s =
        zr__attention_sizes_of(&op->attr, q, op->n_out == 1 ? NULL : &zr__in_type(graph, op, 2)->shape);
    const bool ends = zr__attention_needs_ends(&op->attr, op->n_in > op->n_out + 3);
    return facts->threads *
           zr__attention_scratch_bytes(s.T, s.D, zr__in_type(graph, op, 1)->dtype, true, s.group > 1, ends);
}

const bool ZR_LEVEL_NAME(zr__attention_is_narrow) = ZR_PAIRS;
const zr_kernel ZR_LEVEL_NAME(zr__kernels_attention)[] = {
    {"attention", .run = run_forward, .scratch_bytes = forward_scratch},
    {"attention_dx", .run = run_backward, .scratch_bytes = backward_scratch},
    {0},
};
