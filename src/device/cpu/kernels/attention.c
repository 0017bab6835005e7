/*
 * Ops attention and attention_dx compute attention and its gradient, in blocks of queries x keys. Each query has a
 * running maximum and a running sum, so that no T x T array exists (Milakov and Gimelshein 2018; Dao et al. 2022).
 * Blocks in which no query sees a key are skipped. One thread works on one head of one sequence at a time, on copies of
 * q, k and v packed to fp32. In the backward pass this is a key-value head, whose query heads follow each other, so
 * that the sums over query heads have a fixed order. The op attention_cached computes the attention of one token to a
 * cache of keys and values.
 */
#include <float.h>
#include <math.h>
#include <omp.h>

#include "device/cpu/attention_blocks.h"
#include "device/cpu/shared/dropout.h"
#include "device/cpu/shared/rows.h"
#include "device/cpu/shared/tile.h"
#include "device/cpu/shared/transpose.h"
#include "device/attention_operands.h"

#define NB ZR__ATTENTION_BLOCK

typedef struct head {
    zr__attention_sizes size;
    zr__attention_operands in; /* q, k and v */
    int64_t T, D;
    int64_t b, h, kv;   /* row of the batch, query head, and key-value head of this rank */
    int64_t first_head, /* with tensor parallelism: index of this rank's first query head among all ranks'; else 0 */
        first_kv,       /* likewise of the first key-value head; 0 if this rank has all of them */
        all_heads;      /* number of query heads on all ranks together */
    int64_t width;
    float scale;
    bool drops;
    zr__dropout dropout;
    uint64_t dropout_first; /* index of the random number of score (b,h,0,0), for dropout */
} head;

/* Return what all heads share. `x` is the fused operand, or q, with k and v after it. */
static head head_make(const zr_kernel_args *args, const zr_tensor *x, bool fused)
{
    const zr_op_attr *attr = &args->op->attr;
    head s = {.size = zr__attention_sizes_of(attr, &x->shape, fused ? NULL : &x[1].shape)};
    s.in = zr__attention_operands_of(&s.size, x);
    s.T = s.size.T;
    s.D = s.size.D;
    s.first_head = zr__attention_first_head(&s.size, args->runtime->place);
    s.first_kv = zr__attention_first_kv(&s.size, args->runtime->place);
    s.all_heads = s.size.all;
    s.width = zr__attention_lanes(s.D);
    s.scale = (float)attr->f[0];
    s.drops = attr->f[1] > 0.0;
    if (s.drops) s.dropout = zr__dropout_make(args->runtime, attr->i[1], attr->f[1]);
    return s;
}

/* Set the row of the batch and the query head, and find the key-value head. */
static void head_select(head *s, const zr_runtime *runtime, int64_t b, int64_t h)
{
    s->b = b;
    s->h = h;
    s->kv = (s->first_head + h) / s->size.group - s->first_kv;
    s->dropout_first =
        (uint64_t)((runtime->first_row + s->b) * s->all_heads + s->first_head + s->h) * (uint64_t)(s->T * s->T);
}

/* Return the index of the first element of token t of a head. */
static int64_t token_at(const head *s, const zr__head_columns *c, int64_t head_index, int64_t t)
{
    return (s->b * s->T + t) * c->stride + c->first + head_index * s->D;
}

static int64_t y_at(const head *s, int64_t t)
{
    return (s->b * s->T + t) * s->size.H * s->D + s->h * s->D;
}

static int64_t lse_at(const head *s)
{
    return (s->b * s->size.H + s->h) * s->T;
}

/* ---- which keys a query sees ----------------------------------------------------------------- */

/* Return the first key that query i sees, and the key after the last one. Neither decreases when i grows, and a query
 * sees at least its own key. */
static int64_t keys_begin(const head *s, int64_t i)
{
    const int64_t window = s->size.window;
    return window > 0 && i >= window ? i - window + 1 : 0;
}

static int64_t keys_end(const head *s, int64_t i)
{
    return s->size.causal ? i + 1 : s->T;
}

/* Return whether at least one of the queries [i0, i0 + nq) sees a key of [j0, j0 + n). */
static bool blocks_meet(const head *s, int64_t i0, int64_t nq, int64_t j0, int64_t n)
{
    return keys_begin(s, i0) < j0 + n && keys_end(s, i0 + nq - 1) > j0;
}

/* Return the number of keys of the block at j0 up to the last one that any of the queries [i0, i0 + nq) sees. In the
 * block on the diagonal, keys after the last query are masked. */
static int64_t keys_seen(const head *s, int64_t i0, int64_t nq, int64_t j0)
{
    return zr__min64(NB, keys_end(s, i0 + nq - 1) - j0);
}

/* Return a number `above` such that query i0 + i sees no key from j0 + i + above on. */
static int64_t keys_above(const head *s, int64_t i0, int64_t j0)
{
    return s->size.causal ? i0 - j0 + 1 : NB;
}

/* Keys of a block that a query sees, [begin, end), relative to the block. The tile products read the query's scores of
 * the keys [0, lanes), so that the scores of other keys than [begin, end) must be 0. */
typedef struct key_range {
    int64_t begin, end, lanes;
} key_range;

/* Return the range for query i in the block of n keys at j0. In the block on the diagonal, the products also read some
 * masked scores after the range. */
static key_range keys_of(const head *s, int64_t i, int64_t j0, int64_t n)
{
    const int64_t begin = keys_begin(s, i) - j0, end = zr__min64(n, keys_end(s, i) - j0);
    return (key_range){begin > 0 ? zr__min64(begin, end) : 0, end,
                       zr__attention_lanes(zr__min64(n, end + ZR_TILE_ROWS - 1))};
}

/* Set the scores that a query must not see to `value`. */
static void mask_run(float *x, key_range keys, float value)
{
    for (int64_t j = 0; j < keys.begin; j++) x[j] = value;
    for (int64_t j = keys.end; j < keys.lanes; j++) x[j] = value;
}

/* ---- packing --------------------------------------------------------------------------------- */

/* Pack a row: out[d] = scale * x[first + d] for d < D, then zeros up to `width`. */
static void pack_row(float *out, const zr_tensor *x, int64_t first, const head *s, float scale)
{
    const float *in = zr__view(out, x->data, x->dtype, first, s->D);
    ZR_WIDE_LOOP
    for (int64_t d = 0; d < s->D; d++) out[d] = in[d] * scale;
    for (int64_t d = s->D; d < s->width; d++) out[d] = 0.0f;
}

/* Pack the tokens [t0, t0 + n) of a head of q, k or v: out (n, width) = scale * x. */
static void pack_rows(float *out, const zr__head_columns *x, int64_t head_index, const head *s, int64_t t0, int64_t n,
                      float scale)
{
    for (int64_t t = 0; t < n; t++) pack_row(out + t * s->width, x->x, token_at(s, x, head_index, t0 + t), s, scale);
}

/* Unpack a row: x[first + d] = scale * row[d] for d < D. `row` may be overwritten. */
static void unpack_row(const zr_tensor *x, int64_t first, float *row, const head *s, float scale)
{
    float *out = zr__target(row, x->data, x->dtype, first);
    ZR_WIDE_LOOP
    for (int64_t d = 0; d < s->D; d++) out[d] = row[d] * scale;
    zr__settle(x->data, x->dtype, first, row, s->D);
}

/* Pack the key-value head of k or v for n tokens from t0 on, in two forms. `rows` (n rounded up to lanes, width) is not
 * transposed, and `out` (D, NB) is transposed. Values beyond the last token are 0. */
static void pack_transposed(float *restrict out, float *restrict rows, const zr__head_columns *x, const head *s,
                            int64_t t0, int64_t n)
{
    const int64_t w = s->width, lanes = zr__attention_lanes(n);
    pack_rows(rows, x, s->kv, s, t0, n, 1.0f);
    memset(rows + n * w, 0, (size_t)((lanes - n) * w) * sizeof(float));
    for (int64_t j0 = 0; j0 < lanes; j0 += ZR_VEC)
        for (int64_t d0 = 0; d0 < s->D; d0 += ZR_VEC)
            zr__transpose(out + d0 * NB + j0, NB, rows + j0 * w + d0, w, s->D - d0);
}

/* ---- runs of scores --------------------------------------------------------------------------- */

/* Compute x = exp(x - m) in place. x - m is at most 0, except for rounding. A masked score must be -infinity, or the
 * caller must overwrite its result. */
static void exp_run(float *restrict x, float m, int64_t n)
{
    for (int64_t j = 0; j < n; j++) x[j] = zr__expf_low(x[j] - m);
}

static void scale_run(float *restrict x, float factor, int64_t n)
{
    for (int64_t j = 0; j < n; j++) x[j] *= factor;
}

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

static zr__vec sum_lanes(const float *x, int64_t n)
{
    zr__vec acc = {0};
    for (int64_t j = 0; j < n; j += ZR_VEC) acc += zr__vec_load(x + j);
    return acc;
}

static zr__vec max_lanes(const float *x, int64_t n)
{
    zr__vec best = zr__vec_splat(-FLT_MAX);
    for (int64_t j = 0; j < n; j += ZR_VEC) best = zr__vec_max(zr__vec_load(x + j), best);
    return best;
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Compute one step of online softmax for `rows` <= ZR_VEC queries from i0 on: replace a score by exp(score - running
 * maximum). If the maximum of a query grows, rescale its y and its sum. `begun` tells whether y holds sums of earlier
 * blocks. */
static void rows_online(const head *s, float *p, int64_t i0, int64_t rows, int64_t j0, int64_t n, float *y, float *max,
                        float *sum, bool begun)
{
    zr__vec part[ZR_VEC];
    float shrink[ZR_VEC];
    for (int64_t r = 0; r < ZR_VEC; r++) part[r] = zr__vec_splat(-FLT_MAX);
    for (int64_t r = 0; r < rows; r++) {
        const key_range keys = keys_of(s, i0 + r, j0, n);
        mask_run(p + r * NB, keys, -INFINITY);
        part[r] = max_lanes(p + r * NB, keys.lanes);
    }
    const zr__vec before = zr__vec_load(max), now = zr__vec_max(zr__vec_maxima(part), before);
    zr__vec_store(max, now);
    zr__vec_store(shrink, before - now);
    exp_run(shrink, 0.0f, ZR_VEC);
    for (int64_t r = 0; r < ZR_VEC; r++) part[r] = zr__vec_splat(0.0f);
    for (int64_t r = 0; r < rows; r++) {
        const int64_t lanes = keys_of(s, i0 + r, j0, n).lanes;
        exp_run(p + r * NB, max[r], lanes);
        part[r] = sum_lanes(p + r * NB, lanes);
        if (begun && shrink[r] != 1.0f) scale_run(y + r * s->width, shrink[r], s->width);
    }
    zr__vec_store(sum, zr__vec_fma(zr__vec_load(sum), zr__vec_load(shrink), zr__vec_sums(part)));
}

static void rows_drop(const head *s, float *p, int64_t i0, int64_t rows, int64_t j0, int64_t n)
{
    float factor[NB];
    for (int64_t i = i0; i < i0 + rows; i++, p += NB) {
        const int64_t end = keys_of(s, i, j0, n).end;
        zr__dropout_factors(&s->dropout, s->dropout_first + (uint64_t)(i * s->T + j0), end, factor);
        multiply_run(p, factor, end);
    }
}

/* Attend from the queries [i0, i0 + nq) to all blocks of keys that they see. */
static void query_block(const head *s, const zr__attention_layout *at, float *work, int64_t i0, int64_t nq)
{
    const int64_t w = s->width, first = keys_begin(s, i0) / NB * NB;
    float *p = work + at->p, *max = work + at->stat, *sum = max + NB, *y = work + at->y;
    for (int64_t i = 0; i < NB; i++) {
        max[i] = -FLT_MAX;
        sum[i] = 0.0f;
    }
    for (int64_t j0 = first; j0 < keys_end(s, i0 + nq - 1); j0 += NB) {
        const int64_t n = keys_seen(s, i0, nq, j0), above = keys_above(s, i0, j0);
        const zr__tile_a q = {work + at->q, w, 1}, probability = {p, NB, 1};
        zr__tile_lower(nq, zr__attention_lanes(n), s->D, q, work + at->keys_t + j0 * s->D, NB, p, NB, above);
        for (int64_t i = 0; i < nq; i += ZR_VEC)
            rows_online(s, p + i * NB, i0 + i, zr__min64(ZR_VEC, nq - i), j0, n, y + i * w, max + i, sum + i,
                        j0 > first);
        if (s->drops) rows_drop(s, p, i0, nq, j0, n);
        zr__tile_product(nq, w, n, probability, (zr__tile_band){nq, above}, work + at->values + j0 * w, w, y, w,
                         j0 > first);
    }
}

static void head_forward(const zr_kernel_args *args, const head *s, const zr__attention_layout *at, float *work)
{
    float *lse = (float *)args->out[1].data + lse_at(s);
    /* memory of the packed values; it holds rows of keys until the values are packed */
    float *values = work + at->values;
    for (int64_t j0 = 0; j0 < s->T; j0 += NB)
        pack_transposed(work + at->keys_t + j0 * s->D, values, &s->in.k, s, j0, zr__min64(NB, s->T - j0));
    pack_rows(values, &s->in.v, s->kv, s, 0, s->T, 1.0f);
    for (int64_t i0 = 0; i0 < s->T; i0 += NB) {
        const int64_t nq = zr__min64(NB, s->T - i0);
        pack_rows(work + at->q, &s->in.q, s->h, s, i0, nq, s->scale);
        query_block(s, at, work, i0, nq);
        const float *max = work + at->stat, *sum = max + NB;
        for (int64_t i = 0; i < nq; i++) {
            unpack_row(&args->out[0], y_at(s, i0 + i), work + at->y + i * s->width, s, 1.0f / sum[i]);
            lse[i0 + i] = (float)((double)max[i] + log((double)sum[i]));
        }
    }
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Compute probabilities and gradients of scores for query i and n keys from j0 on, in place. On entry, p holds scores
 * and ds holds dP. On return, p = kept * P and ds = P * (kept * dP - delta), where P = exp(scores - lse). `kept`
 * receives the dropout factors. */
static void row_backward(const head *s, float *restrict p, float *restrict ds, float *restrict kept, int64_t i,
                         int64_t j0, int64_t n, float lse, float delta)
{
    const key_range keys = keys_of(s, i, j0, n);
    exp_run(p, lse, keys.lanes);
    if (s->drops) {
        zr__dropout_factors(&s->dropout, s->dropout_first + (uint64_t)(i * s->T + j0), keys.end, kept);
        for (int64_t j = 0; j < keys.end; j++) ds[j] = p[j] * (ds[j] * kept[j] - delta);
        multiply_run(p, kept, keys.end);
    } else {
        for (int64_t j = 0; j < keys.lanes; j++) ds[j] = p[j] * (ds[j] - delta);
    }
    mask_run(p, keys, 0.0f);
    mask_run(ds, keys, 0.0f);
}

/* Add the contributions of a block of queries and a block of keys to the gradients: dv += p^T dy, dk += ds^T q, dq +=
 * ds k. The first contribution to dq, that of the first block of keys, is not added, but initialises dq. So does the
 * first contribution to dk and dv, unless `adds`. dk and dv are the gradients of the block's keys and values. */
static void block_backward(const head *s, const zr__attention_layout *at, float *work, const float *lse, int64_t i0,
                           int64_t j0, float *dk, float *dv, bool adds)
{
    const int64_t nq = zr__min64(NB, s->T - i0), n = keys_seen(s, i0, nq, j0), above = keys_above(s, i0, j0);
    const int64_t w = s->width;
    float *p = work + at->p, *ds = work + at->ds;
    const float *q = work + at->q + i0 * w, *dy = work + at->dy + i0 * w, *delta = work + at->stat + i0;
    const zr__tile_a q_rows = {q, w, 1}, dy_rows = {dy, w, 1}, ds_rows = {ds, NB, 1};
    const zr__tile_a p_columns = {p, 1, NB}, ds_columns = {ds, 1, NB};
    const zr__tile_band earlier = {nq, above}, later = {above - 1, nq};
    zr__tile_lower(nq, zr__attention_lanes(n), s->D, q_rows, work + at->keys_t, NB, p, NB, above);
    zr__tile_lower(nq, zr__attention_lanes(n), s->D, dy_rows, work + at->values_t, NB, ds, NB, above);
    for (int64_t i = 0; i < nq; i++)
        row_backward(s, p + i * NB, ds + i * NB, work + at->kept, i0 + i, j0, n, lse[i0 + i], delta[i]);
    zr__tile_product(n, w, nq, p_columns, later, dy, w, dv, w, adds);
    zr__tile_product(n, w, nq, ds_columns, later, q, w, dk, w, adds);
    zr__tile_product(nq, w, n, ds_rows, earlier, work + at->keys, w, work + at->dq + i0 * w, w, j0 > keys_begin(s, i0));
}

/* Prepare a query head for the backward pass: pack scaled q and dy, and compute delta of each query, the sum of dy * y
 * over d. */
static void head_prepare(const zr_kernel_args *args, const head *s, const zr__attention_layout *at, float *work)
{
    const zr_tensor *dy = &args->in[0], *y = &args->in[args->n_in - 2];
    const int64_t w = s->width;
    float *y_row = work + at->dq; /* memory of dq, which holds a row of y until dq is computed */
    pack_rows(work + at->q, &s->in.q, s->h, s, 0, s->T, s->scale);
    for (int64_t i0 = 0; i0 < s->T; i0 += ZR_VEC) {
        zr__vec part[ZR_VEC];
        for (int64_t r = 0; r < ZR_VEC; r++) part[r] = zr__vec_splat(0.0f);
        for (int64_t r = 0; r < zr__min64(ZR_VEC, s->T - i0); r++) {
            float *row = work + at->dy + (i0 + r) * w;
            pack_row(row, dy, y_at(s, i0 + r), s, 1.0f);
            pack_row(y_row, y, y_at(s, i0 + r), s, 1.0f);
            part[r] = dot_lanes(row, y_row, w);
        }
        zr__vec_store(work + at->stat + i0, zr__vec_sums(part));
    }
}

/* Place of a query head among the query heads of its key-value head on this rank. */
typedef struct head_turn {
    bool first, last;
} head_turn;

/* Compute the gradients of a query head, and add its part of dk and dv. The last query head stores dk and dv. */
static void head_backward(const zr_kernel_args *args, const head *s, const zr__attention_layout *at, float *work,
                          head_turn turn)
{
    const zr__attention_operands out = zr__attention_operands_of(&s->size, args->out);
    const float *lse = (const float *)args->in[args->n_in - 1].data + lse_at(s);
    const int64_t w = s->width;
    head_prepare(args, s, at, work);
    for (int64_t j0 = 0; j0 < s->T; j0 += NB) {
        const int64_t n = zr__min64(NB, s->T - j0);
        float *dk = work + at->dk + j0 * at->gradient_row, *dv = work + at->dv + j0 * at->gradient_row;
        pack_transposed(work + at->keys_t, work + at->keys, &s->in.k, s, j0, n);
        pack_transposed(work + at->values_t, work + at->values, &s->in.v, s, j0, n);
        bool adds = !turn.first;
        for (int64_t i0 = 0; i0 < s->T; i0 += NB) {
            if (!blocks_meet(s, i0, zr__min64(NB, s->T - i0), j0, n)) continue;
            block_backward(s, at, work, lse, i0, j0, dk, dv, adds);
            adds = true;
        }
        for (int64_t j = 0; j < n && turn.last; j++) {
            unpack_row(out.k.x, token_at(s, &out.k, s->kv, j0 + j), dk + j * w, s, 1.0f);
            unpack_row(out.v.x, token_at(s, &out.v, s->kv, j0 + j), dv + j * w, s, 1.0f);
        }
    }
    for (int64_t i = 0; i < s->T; i++)
        unpack_row(out.q.x, token_at(s, &out.q, s->h, i), work + at->dq + i * w, s, s->scale);
}

/* Set dk and dv to 0 for a key-value head that no query head of this rank uses. */
static void store_zeros(const zr_kernel_args *args, const head *s, float *row)
{
    const zr__attention_operands out = zr__attention_operands_of(&s->size, args->out);
    for (int64_t d = 0; d < s->D; d++) row[d] = 0.0f;
    for (int64_t j = 0; j < s->T; j++) {
        unpack_row(out.k.x, token_at(s, &out.k, s->kv, j), row, s, 1.0f);
        unpack_row(out.v.x, token_at(s, &out.v, s->kv, j), row, s, 1.0f);
    }
}

/* Compute the gradients of a key-value head and of all query heads of this rank that use it, in increasing order. */
static void kv_backward(const zr_kernel_args *args, head *s, const zr__attention_layout *at, float *work, int64_t b,
                        int64_t kv)
{
    const int64_t group = s->size.group, begin = (s->first_kv + kv) * group - s->first_head, end = begin + group;
    const int64_t first = begin > 0 ? begin : 0, last = zr__min64(end, s->size.H) - 1;
    for (int64_t h = first; h <= last; h++) {
        head_select(s, args->runtime, b, h);
        head_backward(args, s, at, work, (head_turn){h == first, h == last});
    }
    if (first <= last) return;
    s->b = b;
    s->kv = kv;
    store_zeros(args, s, work);
}

/* ---- heads ----------------------------------------------------------------------------------- */

static zr_status run_forward(const zr_kernel_args *args)
{
    const head all = head_make(args, args->in, args->n_in == 1);
    const zr__attention_layout at = zr__attention_layout_make(all.T, all.D, false, false);
    const int64_t heads = all.size.B * all.size.H;
#pragma omp parallel for num_threads(zr__team(args, heads *all.T *all.T)) schedule(static)
    for (int64_t index = 0; index < heads; index++) {
        head s = all;
        head_select(&s, args->runtime, index / all.size.H, index % all.size.H);
        head_forward(args, &s, &at, (float *)args->scratch + omp_get_thread_num() * at.floats);
    }
    return ZR_OK;
}

static zr_status run_backward(const zr_kernel_args *args)
{
    const head all = head_make(args, args->in + 1, args->n_out == 1);
    const zr__attention_layout at = zr__attention_layout_make(all.T, all.D, true, all.size.group > 1);
    const int64_t heads = all.size.B * all.size.K;
#pragma omp parallel for num_threads(zr__team(args, heads *all.T *all.T)) schedule(static)
    for (int64_t index = 0; index < heads; index++) {
        head s = all;
        float *work = (float *)args->scratch + omp_get_thread_num() * at.floats;
        kv_backward(args, &s, &at, work, index / all.size.K, index % all.size.K);
    }
    return ZR_OK;
}

/* Return the scratch bytes of all threads, because each thread works on a head of its own. */
static int64_t forward_scratch(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op)
{
    const zr_shape *q = &zr__in_type(graph, op, 0)->shape;
    const zr__attention_sizes s =
        zr__attention_sizes_of(&op->attr, q, op->n_in == 1 ? NULL : &zr__in_type(graph, op, 1)->shape);
    return facts->threads * zr__attention_scratch_bytes(s.T, s.D, false, false);
}

static int64_t backward_scratch(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op)
{
    const zr_shape *q = &zr__in_type(graph, op, 1)->shape;
    const zr__attention_sizes s =
        zr__attention_sizes_of(&op->attr, q, op->n_out == 1 ? NULL : &zr__in_type(graph, op, 2)->shape);
    return facts->threads * zr__attention_scratch_bytes(s.T, s.D, true, s.group > 1);
}

/* ---- one token ------------------------------------------------------------------------------- */

/* Return the index of the first element of key j of a key-value head in the cache. The key's value is `values` elements
 * further on. */
static int64_t cached_at(const head *s, int64_t j)
{
    return (j * s->size.K + s->kv) * s->D;
}

/* Compute score[j] = scale * (q . k[j]) for keys [begin, end) of the cache. */
static void cached_scores(const head *s, float *restrict score, const zr_tensor *cache, int64_t begin, int64_t end)
{
    const zr_tensor *q_of = s->in.q.x;
    float q[ZR_CHUNK], buffer[ZR_CHUNK];
    memset(score + begin, 0, (size_t)(end - begin) * sizeof(float));
    for (int64_t d0 = 0; d0 < s->D; d0 += ZR_CHUNK) {
        const int64_t nd = zr__min64(ZR_CHUNK, s->D - d0);
        zr__load(q, q_of->data, q_of->dtype, s->h * s->D + d0, nd);
        scale_run(q, s->scale, nd);
        for (int64_t j = begin; j < end; j++)
            score[j] += zr__dot(q, zr__view(buffer, cache->data, cache->dtype, cached_at(s, j) + d0, nd), nd);
    }
}

/* Compute y = the sum over j of weight[j] * v[j], for values [begin, end) of the cache. */
static void cached_values(const head *s, const zr_tensor *y, const float *weight, const zr_tensor *cache, int64_t begin,
                          int64_t end)
{
    const int64_t values = cache->shape.dim[1] * s->size.K * s->D;
    float buffer[ZR_CHUNK], acc[ZR_CHUNK];
    for (int64_t d0 = 0; d0 < s->D; d0 += ZR_CHUNK) {
        const int64_t nd = zr__min64(ZR_CHUNK, s->D - d0);
        memset(acc, 0, sizeof acc);
        for (int64_t j = begin; j < end; j++) {
            const float *v = zr__view(buffer, cache->data, cache->dtype, values + cached_at(s, j) + d0, nd);
            for (int64_t d = 0; d < nd; d++) acc[d] = ZR_FMA(weight[j], v[d], acc[d]);
        }
        zr__store(y->data, y->dtype, s->h * s->D + d0, acc, nd);
    }
}

/* Copy this token's key and value into the cache. */
static void cache_token(const head *s, const zr_tensor *cache, int64_t position)
{
    const int64_t length = cache->shape.dim[1], element = zr_dtype_bytes(cache->dtype);
    const size_t row = (size_t)(s->size.K * s->D * element);
    const char *k = s->in.k.x->data, *v = s->in.v.x->data;
    memcpy((char *)cache->data + (size_t)position * row, k + s->in.k.first * element, row);
    memcpy((char *)cache->data + (size_t)(length + position) * row, v + s->in.v.first * element, row);
}

static zr_status attention_cached(const zr_kernel_args *args)
{
    const head all = head_make(args, args->in, args->n_in == 2);
    const zr_tensor *cache = &args->in[args->n_in - 1];
    const int64_t length = cache->shape.dim[1], position = args->runtime->position, n = position + 1;
    ZR_CHECK(position >= 0 && position < length, ZR_ERR_DATA,
             "token %lld does not fit in a cache of %lld tokens; make cache_len larger", (long long)position,
             (long long)length);
    const int64_t begin = keys_begin(&all, position);
    cache_token(&all, cache, position);
#pragma omp parallel for num_threads(zr__team(args, n *all.size.H *all.D)) schedule(static)
    for (int64_t h = 0; h < all.size.H; h++) {
        head s = all;
        float *score = (float *)args->scratch + h * length;
        head_select(&s, args->runtime, 0, h);
        cached_scores(&s, score, cache, begin, n);
        exp_run(score + begin, zr__max(score + begin, n - begin), n - begin);
        scale_run(score + begin, 1.0f / zr__sum(score + begin, n - begin), n - begin);
        cached_values(&s, &args->out[0], score, cache, begin, n);
    }
    return ZR_OK;
}

/* Return the scratch bytes for the scores of all heads. */
static int64_t attention_cached_scratch(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op)
{
    (void)facts;
    return op->attr.i[0] * zr__in_type(graph, op, op->n_in - 1)->shape.dim[1] * (int64_t)sizeof(float);
}

const zr_kernel ZR_LEVEL_NAME(zr__kernels_attention)[] = {
    {"attention", .run = run_forward, .scratch_bytes = forward_scratch},
    {"attention_dx", .run = run_backward, .scratch_bytes = backward_scratch},
    {"attention_cached", .run = attention_cached, .scratch_bytes = attention_cached_scratch},
    {0},
};
