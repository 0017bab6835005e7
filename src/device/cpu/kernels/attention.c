/*
 * Ops attention and attention_dx compute causal attention and its gradient, in blocks of queries x keys. Each query has
 * a running maximum and a running sum, so that no T x T array exists (Milakov and Gimelshein 2018; Dao et al. 2022).
 * One thread works on one head of one sequence at a time, on copies of q, k and v packed to fp32. The op
 * attention_cached computes the attention of one token to a cache of keys and values.
 */
#include <float.h>
#include <math.h>
#include <omp.h>

#include "device/cpu/attention_blocks.h"
#include "device/cpu/shared/dropout.h"
#include "device/cpu/shared/rows.h"
#include "device/cpu/shared/tile.h"
#include "device/cpu/shared/transpose.h"
#include "device/operands.h"

#define NB ZR__ATTENTION_BLOCK

typedef struct head {
    int64_t b, h, T, C, D, n_head;
    int64_t first_head, /* with tensor parallelism: index of this rank's first head among all ranks' heads; else 0 */
        all_heads;      /* number of heads on all ranks together */
    int64_t width;
    float scale;
    bool drops;
    zr__dropout dropout;
    uint64_t dropout_first; /* index of the random number of score (b,h,0,0), for dropout */
} head;

static head head_make(const zr_kernel_args *args, const zr_tensor *qkv)
{
    const zr_op_attr *attr = &args->op->attr;
    head s = {.T = qkv->shape.dim[1],
              .C = qkv->shape.dim[2] / 3,
              .n_head = attr->i[0],
              .first_head = attr->i[2] > attr->i[0] ? args->runtime->place * attr->i[0] : 0,
              .all_heads = attr->i[2] > attr->i[0] ? attr->i[2] : attr->i[0]};
    s.D = s.C / s.n_head;
    s.scale = (float)attr->f[0];
    s.drops = attr->f[1] > 0.0;
    if (s.drops) s.dropout = zr__dropout_make(args->runtime, attr->i[1], attr->f[1]);
    return s;
}

static void head_select(head *s, const zr_runtime *runtime, int64_t index, int64_t width)
{
    s->b = index / s->n_head;
    s->h = index % s->n_head;
    s->width = width;
    s->dropout_first =
        (uint64_t)((runtime->first_row + s->b) * s->all_heads + s->first_head + s->h) * (uint64_t)(s->T * s->T);
}

/* Return the index in qkv of this head's first element of token t. `part` is 0 for q, 1 for k and 2 for v. */
static int64_t qkv_at(const head *s, int64_t t, int part)
{
    return ((s->b * s->T + t) * 3 + part) * s->C + s->h * s->D;
}

static int64_t y_at(const head *s, int64_t t)
{
    return (s->b * s->T + t) * s->C + s->h * s->D;
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

/* Pack one part of qkv (0: q, 1: k, 2: v) for the tokens [t0, t0 + n): out (n, width) = scale * the part. */
static void pack_rows(float *out, const zr_tensor *qkv, const head *s, int part, int64_t t0, int64_t n, float scale)
{
    for (int64_t t = 0; t < n; t++) pack_row(out + t * s->width, qkv, qkv_at(s, t0 + t, part), s, scale);
}

/* Unpack a row: x[first + d] = scale * row[d] for d < D. `row` may be overwritten. */
static void unpack_row(const zr_tensor *x, int64_t first, float *row, const head *s, float scale)
{
    float *out = zr__target(row, x->data, x->dtype, first);
    ZR_WIDE_LOOP
    for (int64_t d = 0; d < s->D; d++) out[d] = row[d] * scale;
    zr__settle(x->data, x->dtype, first, row, s->D);
}

/* Pack one part of qkv (0: q, 1: k, 2: v) for n tokens from t0 on, in two forms. `rows` (n rounded up to lanes, width)
 * is not transposed, and `out` (D, NB) is transposed. Values beyond the last token are 0. */
static void pack_transposed(float *restrict out, float *restrict rows, const zr_tensor *qkv, const head *s, int part,
                            int64_t t0, int64_t n)
{
    const int64_t w = s->width, lanes = zr__attention_lanes(n);
    pack_rows(rows, qkv, s, part, t0, n, 1.0f);
    memset(rows + n * w, 0, (size_t)((lanes - n) * w) * sizeof(float));
    for (int64_t j0 = 0; j0 < lanes; j0 += ZR_VEC)
        for (int64_t d0 = 0; d0 < s->D; d0 += ZR_VEC)
            zr__transpose(out + d0 * NB + j0, NB, rows + j0 * w + d0, w, s->D - d0);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Return how many keys of the block at j0 are visible to at least one of the queries [i0, i0 + nq). In the block on the
 * diagonal, keys after the last query are masked. */
static int64_t keys_seen(int64_t i0, int64_t nq, int64_t j0)
{
    return zr__min64(NB, i0 + nq - j0);
}

/* Return the number of a query's scores that the tile products read, out of n scores in a block. In the block on the
 * diagonal, the products also read some masked scores, which must be 0. */
static int64_t lanes_read(int64_t seen, int64_t n)
{
    return zr__attention_lanes(zr__min64(n, seen + ZR_TILE_ROWS - 1));
}

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
 * maximum). If the maximum of a query grows, rescale its y and its sum. */
static void rows_online(const head *s, float *p, int64_t i0, int64_t rows, int64_t j0, int64_t n, float *y, float *max,
                        float *sum)
{
    zr__vec part[ZR_VEC];
    float shrink[ZR_VEC];
    for (int64_t r = 0; r < ZR_VEC; r++) part[r] = zr__vec_splat(-FLT_MAX);
    for (int64_t r = 0; r < rows; r++) {
        const int64_t seen = zr__min64(n, i0 + r - j0 + 1), lanes = lanes_read(seen, n);
        for (int64_t j = seen; j < lanes; j++) p[r * NB + j] = -INFINITY;
        part[r] = max_lanes(p + r * NB, lanes);
    }
    const zr__vec before = zr__vec_load(max), now = zr__vec_max(zr__vec_maxima(part), before);
    zr__vec_store(max, now);
    zr__vec_store(shrink, before - now);
    exp_run(shrink, 0.0f, ZR_VEC);
    for (int64_t r = 0; r < ZR_VEC; r++) part[r] = zr__vec_splat(0.0f);
    for (int64_t r = 0; r < rows; r++) {
        const int64_t lanes = lanes_read(i0 + r - j0 + 1, n);
        exp_run(p + r * NB, max[r], lanes);
        part[r] = sum_lanes(p + r * NB, lanes);
        if (j0 > 0 && shrink[r] != 1.0f) scale_run(y + r * s->width, shrink[r], s->width);
    }
    zr__vec_store(sum, zr__vec_fma(zr__vec_load(sum), zr__vec_load(shrink), zr__vec_sums(part)));
}

static void rows_drop(const head *s, float *p, int64_t i0, int64_t rows, int64_t j0, int64_t n)
{
    float factor[NB];
    for (int64_t i = i0; i < i0 + rows; i++, p += NB) {
        const int64_t seen = zr__min64(n, i - j0 + 1);
        zr__dropout_factors(&s->dropout, s->dropout_first + (uint64_t)(i * s->T + j0), seen, factor);
        multiply_run(p, factor, seen);
    }
}

static void query_block(const head *s, const zr__attention_layout *at, float *work, int64_t i0, int64_t nq)
{
    const int64_t w = s->width;
    float *p = work + at->p, *max = work + at->stat, *sum = max + NB, *y = work + at->y;
    for (int64_t i = 0; i < NB; i++) {
        max[i] = -FLT_MAX;
        sum[i] = 0.0f;
    }
    for (int64_t j0 = 0; j0 < i0 + nq; j0 += NB) {
        const int64_t n = keys_seen(i0, nq, j0), above = i0 - j0 + 1;
        const zr__tile_a q = {work + at->q, w, 1}, probability = {p, NB, 1};
        zr__tile_lower(nq, zr__attention_lanes(n), s->D, q, work + at->keys_t + j0 * s->D, NB, p, NB, above);
        for (int64_t i = 0; i < nq; i += ZR_VEC)
            rows_online(s, p + i * NB, i0 + i, zr__min64(ZR_VEC, nq - i), j0, n, y + i * w, max + i, sum + i);
        if (s->drops) rows_drop(s, p, i0, nq, j0, n);
        zr__tile_product(nq, w, n, probability, (zr__tile_band){nq, above}, work + at->values + j0 * w, w, y, w,
                         j0 > 0);
    }
}

static void head_forward(const zr_kernel_args *args, const head *s, const zr__attention_layout *at, float *work)
{
    const zr_tensor *qkv = &args->in[0];
    float *lse = (float *)args->out[1].data + (s->b * s->n_head + s->h) * s->T;
    /* memory of the packed values; it holds rows of keys until the values are packed */
    float *values = work + at->values;
    for (int64_t j0 = 0; j0 < s->T; j0 += NB)
        pack_transposed(work + at->keys_t + j0 * s->D, values, qkv, s, 1, j0, zr__min64(NB, s->T - j0));
    pack_rows(values, qkv, s, 2, 0, s->T, 1.0f);
    for (int64_t i0 = 0; i0 < s->T; i0 += NB) {
        const int64_t nq = zr__min64(NB, s->T - i0);
        pack_rows(work + at->q, qkv, s, 0, i0, nq, s->scale);
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
    const int64_t seen = zr__min64(n, i - j0 + 1), lanes = lanes_read(seen, n);
    exp_run(p, lse, lanes);
    if (s->drops) {
        zr__dropout_factors(&s->dropout, s->dropout_first + (uint64_t)(i * s->T + j0), seen, kept);
        for (int64_t j = 0; j < seen; j++) ds[j] = p[j] * (ds[j] * kept[j] - delta);
        multiply_run(p, kept, seen);
    } else {
        for (int64_t j = 0; j < lanes; j++) ds[j] = p[j] * (ds[j] - delta);
    }
    for (int64_t j = seen; j < lanes; j++) p[j] = ds[j] = 0.0f;
}

/* Add the contributions of a block of queries and a block of keys to the gradients: dv += p^T dy, dk += ds^T q, dq +=
 * ds k. The first contribution is not added, but initialises the gradient. For dv and dk, the block on the diagonal
 * comes first. For dq, the first block of keys comes first. */
static void block_backward(const head *s, const zr__attention_layout *at, float *work, const float *lse, int64_t i0,
                           int64_t j0)
{
    const int64_t nq = zr__min64(NB, s->T - i0), n = keys_seen(i0, nq, j0), above = i0 - j0 + 1, w = s->width;
    float *p = work + at->p, *ds = work + at->ds;
    const float *q = work + at->q + i0 * w, *dy = work + at->dy + i0 * w, *delta = work + at->stat + i0;
    const zr__tile_a q_rows = {q, w, 1}, dy_rows = {dy, w, 1}, ds_rows = {ds, NB, 1};
    const zr__tile_a p_columns = {p, 1, NB}, ds_columns = {ds, 1, NB};
    const zr__tile_band earlier = {nq, above}, later = {i0 - j0, nq};
    zr__tile_lower(nq, zr__attention_lanes(n), s->D, q_rows, work + at->keys_t, NB, p, NB, above);
    zr__tile_lower(nq, zr__attention_lanes(n), s->D, dy_rows, work + at->values_t, NB, ds, NB, above);
    for (int64_t i = 0; i < nq; i++)
        row_backward(s, p + i * NB, ds + i * NB, work + at->kept, i0 + i, j0, n, lse[i0 + i], delta[i]);
    zr__tile_product(n, w, nq, p_columns, later, dy, w, work + at->dv, w, i0 > j0);
    zr__tile_product(n, w, nq, ds_columns, later, q, w, work + at->dk, w, i0 > j0);
    zr__tile_product(nq, w, n, ds_rows, earlier, work + at->keys, w, work + at->dq + i0 * w, w, j0 > 0);
}

/* Prepare a head for the backward pass: pack scaled q and dy, and compute delta of each query, the sum of dy * y over
 * d. */
static void head_prepare(const zr_kernel_args *args, const head *s, const zr__attention_layout *at, float *work)
{
    const zr_tensor *dy = &args->in[0], *qkv = &args->in[1], *y = &args->in[2];
    const int64_t w = s->width;
    float *y_row = work + at->dq; /* memory of dq, which holds a row of y until dq is computed */
    pack_rows(work + at->q, qkv, s, 0, 0, s->T, s->scale);
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

static void head_backward(const zr_kernel_args *args, const head *s, const zr__attention_layout *at, float *work)
{
    const zr_tensor *qkv = &args->in[1], *out = &args->out[0];
    const float *lse = (const float *)args->in[3].data + (s->b * s->n_head + s->h) * s->T;
    const int64_t w = s->width;
    head_prepare(args, s, at, work);
    for (int64_t j0 = 0; j0 < s->T; j0 += NB) {
        const int64_t n = zr__min64(NB, s->T - j0);
        pack_transposed(work + at->keys_t, work + at->keys, qkv, s, 1, j0, n);
        /* The memory of dv holds rows of values until dv is computed. */
        pack_transposed(work + at->values_t, work + at->dv, qkv, s, 2, j0, n);
        for (int64_t i0 = j0; i0 < s->T; i0 += NB) block_backward(s, at, work, lse, i0, j0);
        for (int64_t j = 0; j < n; j++) {
            unpack_row(out, qkv_at(s, j0 + j, 1), work + at->dk + j * w, s, 1.0f);
            unpack_row(out, qkv_at(s, j0 + j, 2), work + at->dv + j * w, s, 1.0f);
        }
    }
    for (int64_t i = 0; i < s->T; i++) unpack_row(out, qkv_at(s, i, 0), work + at->dq + i * w, s, s->scale);
}

/* ---- heads ----------------------------------------------------------------------------------- */

static zr_status run_heads(const zr_kernel_args *args)
{
    const bool backward = args->n_in > 1;
    const zr_tensor *qkv = &args->in[backward ? 1 : 0];
    const head all = head_make(args, qkv);
    const zr__attention_layout at = zr__attention_layout_make(all.T, all.D, backward);
    const int64_t heads = qkv->shape.dim[0] * all.n_head;
#pragma omp parallel for num_threads(zr__team(args, heads *all.T *all.T)) schedule(static)
    for (int64_t index = 0; index < heads; index++) {
        head s = all;
        float *work = (float *)args->scratch + omp_get_thread_num() * at.floats;
        head_select(&s, args->runtime, index, at.width);
        if (backward)
            head_backward(args, &s, &at, work);
        else
            head_forward(args, &s, &at, work);
    }
    return ZR_OK;
}

/* Return the scratch bytes of all threads, because each thread works on a head of its own. y (B,T,C) is the output of
 * the forward pass, or dy in the backward pass. */
static int64_t heads_scratch(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op)
{
    const bool backward = op->n_in > 1;
    const zr_type *y = backward ? zr__in_type(graph, op, 0) : zr__out_type(graph, op, 0);
    const int64_t T = y->shape.dim[1], D = y->shape.dim[2] / op->attr.i[0];
    return facts->threads * zr__attention_scratch_bytes(T, D, backward);
}

/* ---- one token ------------------------------------------------------------------------------- */

/* Compute score[j] = scale * (q . k[j]) for keys 0 to n - 1 of the cache. */
static void cached_scores(const zr_kernel_args *args, float *restrict score, int64_t head_first, int64_t n, int64_t C,
                          int64_t D)
{
    const zr_tensor *qkv = &args->in[0], *cache = &args->in[1];
    float q[ZR_CHUNK], buffer[ZR_CHUNK];
    memset(score, 0, (size_t)n * sizeof(float));
    for (int64_t d0 = 0; d0 < D; d0 += ZR_CHUNK) {
        const int64_t nd = zr__min64(ZR_CHUNK, D - d0);
        zr__load(q, qkv->data, qkv->dtype, head_first + d0, nd);
        scale_run(q, (float)args->op->attr.f[0], nd);
        for (int64_t j = 0; j < n; j++)
            score[j] += zr__dot(q, zr__view(buffer, cache->data, cache->dtype, j * C + head_first + d0, nd), nd);
    }
}

/* Compute y = the sum over j of weight[j] * v[j], for values 0 to n - 1 of the cache. */
static void cached_values(const zr_kernel_args *args, const float *weight, int64_t head_first, int64_t n, int64_t C,
                          int64_t D)
{
    const zr_tensor *cache = &args->in[1], *out = &args->out[0];
    const int64_t values = cache->shape.dim[1] * C + head_first;
    float buffer[ZR_CHUNK], acc[ZR_CHUNK];
    for (int64_t d0 = 0; d0 < D; d0 += ZR_CHUNK) {
        const int64_t nd = zr__min64(ZR_CHUNK, D - d0);
        memset(acc, 0, sizeof acc);
        for (int64_t j = 0; j < n; j++) {
            const float *v = zr__view(buffer, cache->data, cache->dtype, values + j * C + d0, nd);
            for (int64_t d = 0; d < nd; d++) acc[d] = ZR_FMA(weight[j], v[d], acc[d]);
        }
        zr__store(out->data, out->dtype, head_first + d0, acc, nd);
    }
}

static zr_status attention_cached(const zr_kernel_args *args)
{
    const zr_tensor *qkv = &args->in[0], *cache = &args->in[1];
    const int64_t n_head = args->op->attr.i[0], C = cache->shape.dim[2], D = C / n_head;
    const int64_t length = cache->shape.dim[1], position = args->runtime->position, n = position + 1;
    ZR_CHECK(position >= 0 && position < length, ZR_ERR_DATA,
             "token %lld does not fit in a cache of %lld tokens; make cache_len larger", (long long)position,
             (long long)length);
    const size_t row = (size_t)(C * zr_dtype_bytes(cache->dtype));
    memcpy((char *)cache->data + (size_t)position * row, (const char *)qkv->data + row, row);
    memcpy((char *)cache->data + (size_t)(length + position) * row, (const char *)qkv->data + 2 * row, row);
#pragma omp parallel for num_threads(zr__team(args, n *C)) schedule(static)
    for (int64_t h = 0; h < n_head; h++) {
        float *score = (float *)args->scratch + h * length;
        cached_scores(args, score, h * D, n, C, D);
        exp_run(score, zr__max(score, n), n);
        scale_run(score, 1.0f / zr__sum(score, n), n);
        cached_values(args, score, h * D, n, C, D);
    }
    return ZR_OK;
}

/* Return the scratch bytes for the scores of all heads. */
static int64_t attention_cached_scratch(const zr_device_facts *facts, const zr_graph *graph, const zr_op *op)
{
    (void)facts;
    return op->attr.i[0] * zr__in_type(graph, op, 1)->shape.dim[1] * (int64_t)sizeof(float);
}

const zr_kernel ZR_LEVEL_NAME(zr__kernels_attention)[] = {
    {"attention", .run = run_heads, .scratch_bytes = heads_scratch},
    {"attention_dx", .run = run_heads, .scratch_bytes = heads_scratch},
    {"attention_cached", .run = attention_cached, .scratch_bytes = attention_cached_scratch},
    {0},
};
