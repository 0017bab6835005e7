/*
 * attention, attention_dx: causal, in blocks of queries x keys with a running maximum and sum for
 * each query (Milakov and Gimelshein 2018; Dao et al. 2022), so no T x T array exists. One thread works on one
 * head of one row at a time, on copies of q, k, v packed to fp32.
 */
#include <float.h>
#include <math.h>
#include <omp.h>

#include "device/cpu/dropout.h"
#include "device/cpu/rows.h"
#include "device/cpu/tile.h"
#include "graph/ops/attention_blocks.h"

#define NQ ZR__ATTENTION_QUERIES
#define NK ZR__ATTENTION_KEYS

typedef struct head {
    int64_t b, h, T, C, D, n_head;
    int64_t width;
    float scale;
    bool drops;
    zr__dropout dropout;
    uint64_t dropout_first; /* random element of score (b,h,0,0) */
} head;

static head head_make(const zr_kernel_args *args, const zr_tensor *qkv)
{
    const zr_op_attr *attr = &args->op->attr;
    head s = {.T = qkv->shape.dim[1], .C = qkv->shape.dim[2] / 3, .n_head = attr->i[0]};
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
    s->dropout_first = (uint64_t)((runtime->first_row + s->b) * s->n_head + s->h) * (uint64_t)(s->T * s->T);
}

/* First element of token t of this head in q (part 0), k (1) or v (2) of qkv. */
static int64_t qkv_at(const head *s, int64_t t, int part)
{
    return ((s->b * s->T + t) * 3 + part) * s->C + s->h * s->D;
}

static int64_t y_at(const head *s, int64_t t)
{
    return (s->b * s->T + t) * s->C + s->h * s->D;
}

/* ---- packing --------------------------------------------------------------------------------- */

/* out (width) = scale * elements first .. first + D, then zeros */
static void pack_row(float *restrict out, const zr_tensor *x, int64_t first, const head *s, float scale)
{
    zr__load(out, x->data, x->dtype, first, s->D);
    for (int64_t d = 0; d < s->D; d++) out[d] *= scale;
    for (int64_t d = s->D; d < s->width; d++) out[d] = 0.0f;
}

/* out (D, NK) = n tokens from t0 on of part of qkv, transposed; further columns up to NK are 0. Goes by
 * parts of 16 x 16: a cache line written is finished before the next. */
static void pack_transposed(float *restrict out, const zr_tensor *qkv, const head *s, int part, int64_t t0, int64_t n)
{
    float block[16][16];
    for (int64_t j0 = 0; j0 < NK; j0 += 16)
        for (int64_t d0 = 0; d0 < s->D; d0 += 16) {
            const int64_t nd = zr__min64(16, s->D - d0);
            for (int64_t j = 0; j < 16; j++)
                if (j0 + j < n)
                    zr__load(block[j], qkv->data, qkv->dtype, qkv_at(s, t0 + j0 + j, part) + d0, nd);
                else
                    memset(block[j], 0, sizeof block[j]);
            for (int64_t d = 0; d < nd; d++)
                for (int64_t j = 0; j < 16; j++) out[(d0 + d) * NK + j0 + j] = block[j][d];
        }
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Keys of a block at j0 that query block i0 .. i0+nq may see. */
static int64_t keys_seen(const head *s, int64_t i0, int64_t nq, int64_t j0)
{
    return zr__min64(zr__min64(NK, s->T - j0), i0 + nq - j0);
}

static int64_t whole_lanes(int64_t n)
{
    return (n + ZR__ATTENTION_LANES - 1) / ZR__ATTENTION_LANES * ZR__ATTENTION_LANES;
}

/* out = x exp(. - m), n whole lanes */
static void exp_run(float *restrict x, float m, int64_t n)
{
    for (int64_t j = 0; j < n; j++) x[j] = zr__expf(x[j] - m);
}

static void scale_run(float *restrict x, float factor, int64_t n)
{
    for (int64_t j = 0; j < n; j++) x[j] *= factor;
}

static void multiply_run(float *restrict x, const float *restrict factor, int64_t n)
{
    for (int64_t j = 0; j < n; j++) x[j] *= factor[j];
}

/* Scores of one query to probabilities relative to its running maximum; y and sum follow a new maximum. */
static void row_online(const head *s, float *p, int64_t i, int64_t j0, int64_t n, float *restrict y, float *max,
                       float *sum)
{
    const int64_t seen = zr__min64(n, i - j0 + 1), lanes = whole_lanes(n);
    float factor[NK];
    for (int64_t j = seen; j < lanes; j++) p[j] = -INFINITY;
    float here = zr__max(p, seen);
    if (!(here <= *max)) {
        float shrink = zr__expf(*max - here);
        *sum *= shrink;
        if (j0 > 0) scale_run(y, shrink, s->width);
        *max = here;
    }
    exp_run(p, *max, lanes);
    *sum += zr__sum(p, lanes);
    if (!s->drops) return;
    zr__dropout_factors(&s->dropout, s->dropout_first + (uint64_t)(i * s->T + j0), seen, factor);
    multiply_run(p, factor, seen);
}

static void query_block(const head *s, const zr__attention_layout *at, float *work, int64_t i0, int64_t nq)
{
    float *p = work + at->p, *max = work + at->stat, *sum = max + NQ, *y = work + at->y;
    for (int64_t i = 0; i < nq; i++) {
        max[i] = -FLT_MAX;
        sum[i] = 0.0f;
    }
    for (int64_t j0 = 0; j0 < i0 + nq; j0 += NK) {
        const int64_t n = keys_seen(s, i0, nq, j0);
        zr__tile_a q = {work + at->q, s->width, 1}, probability = {p, NK, 1};
        zr__tile_product(nq, whole_lanes(n), s->D, q, work + at->keys_t + j0 * s->D, NK, p, NK, false);
        for (int64_t i = 0; i < nq; i++) row_online(s, p + i * NK, i0 + i, j0, n, y + i * s->width, max + i, sum + i);
        zr__tile_product(nq, s->width, n, probability, work + at->values + j0 * s->width, s->width, y, s->width,
                         j0 > 0);
    }
}

static void head_forward(const zr_kernel_args *args, const head *s, const zr__attention_layout *at, float *work)
{
    const zr_tensor *qkv = &args->in[0], *out = &args->out[0];
    float *lse = (float *)args->out[1].data + (s->b * s->n_head + s->h) * s->T;
    for (int64_t j0 = 0; j0 < s->T; j0 += NK)
        pack_transposed(work + at->keys_t + j0 * s->D, qkv, s, 1, j0, zr__min64(NK, s->T - j0));
    for (int64_t j = 0; j < s->T; j++) pack_row(work + at->values + j * s->width, qkv, qkv_at(s, j, 2), s, 1.0f);
    for (int64_t i0 = 0; i0 < s->T; i0 += NQ) {
        const int64_t nq = zr__min64(NQ, s->T - i0);
        for (int64_t i = 0; i < nq; i++) pack_row(work + at->q + i * s->width, qkv, qkv_at(s, i0 + i, 0), s, s->scale);
        query_block(s, at, work, i0, nq);
        const float *max = work + at->stat, *sum = max + NQ;
        for (int64_t i = 0; i < nq; i++) {
            float *y = work + at->y + i * s->width;
            scale_run(y, 1.0f / sum[i], s->D);
            zr__store(out->data, out->dtype, y_at(s, i0 + i), y, s->D);
            lse[i0 + i] = (float)((double)max[i] + log((double)sum[i]));
        }
    }
}

static zr_status attention(const zr_kernel_args *args)
{
    const zr_tensor *qkv = &args->in[0];
    const head all = head_make(args, qkv);
    const zr__attention_layout at = zr__attention_layout_make(all.T, all.D, false);
    const int64_t heads = qkv->shape.dim[0] * all.n_head;
#pragma omp parallel for num_threads(zr__team(args, heads *all.T *all.T)) schedule(static)
    for (int64_t index = 0; index < heads; index++) {
        head s = all;
        head_select(&s, args->runtime, index, at.width);
        head_forward(args, &s, &at, (float *)args->scratch + omp_get_thread_num() * at.floats);
    }
    return ZR_OK;
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Of one query and n keys from j0 on: p = P and ds = dP become p = kept P and ds = P (kept dP - delta). */
static void row_backward(const head *s, float *restrict p, float *restrict ds, float *restrict kept, int64_t i,
                         int64_t j0, int64_t n, float lse, float delta)
{
    const int64_t seen = zr__min64(n, i - j0 + 1);
    exp_run(p, lse, whole_lanes(n));
    if (s->drops) {
        zr__dropout_factors(&s->dropout, s->dropout_first + (uint64_t)(i * s->T + j0), seen, kept);
        for (int64_t j = 0; j < seen; j++) ds[j] = p[j] * (ds[j] * kept[j] - delta);
        multiply_run(p, kept, seen);
    } else {
        for (int64_t j = 0; j < seen; j++) ds[j] = p[j] * (ds[j] - delta);
    }
    for (int64_t j = seen; j < n; j++) p[j] = ds[j] = 0.0f;
}

/* What a block of queries gives to a block of keys, and takes: dv += p^T dy, dk += ds^T q, dq += ds k. */
static void block_backward(const head *s, const zr__attention_layout *at, float *work, const float *lse, int64_t i0,
                           int64_t j0)
{
    const int64_t nq = zr__min64(NQ, s->T - i0), n = keys_seen(s, i0, nq, j0), w = s->width;
    float *p = work + at->p, *ds = work + at->ds;
    const float *q = work + at->q + i0 * w, *dy = work + at->dy + i0 * w, *delta = work + at->stat + i0;
    zr__tile_a q_rows = {q, w, 1}, dy_rows = {dy, w, 1}, ds_rows = {ds, NK, 1};
    zr__tile_a p_columns = {p, 1, NK}, ds_columns = {ds, 1, NK};
    zr__tile_product(nq, whole_lanes(n), s->D, q_rows, work + at->keys_t, NK, p, NK, false);
    zr__tile_product(nq, whole_lanes(n), s->D, dy_rows, work + at->values_t, NK, ds, NK, false);
    for (int64_t i = 0; i < nq; i++)
        row_backward(s, p + i * NK, ds + i * NK, work + at->kept, i0 + i, j0, n, lse[i0 + i], delta[i]);
    zr__tile_product(n, w, nq, p_columns, dy, w, work + at->dv, w, true);
    zr__tile_product(n, w, nq, ds_columns, q, w, work + at->dk, w, true);
    zr__tile_product(nq, w, n, ds_rows, work + at->keys, w, work + at->dq + i0 * w, w, true);
}

/* q (scaled), dy and delta = sum over d of dy y, of the whole head; dq = 0. */
static void head_prepare(const zr_kernel_args *args, const head *s, const zr__attention_layout *at, float *work)
{
    const zr_tensor *dy = &args->in[0], *qkv = &args->in[1], *y = &args->in[2];
    const int64_t w = s->width;
    for (int64_t i = 0; i < s->T; i++) {
        float *row = work + at->dy + i * w, *y_row = work + at->dq + i * w; /* dq is free so far */
        pack_row(work + at->q + i * w, qkv, qkv_at(s, i, 0), s, s->scale);
        pack_row(row, dy, y_at(s, i), s, 1.0f);
        pack_row(y_row, y, y_at(s, i), s, 1.0f);
        work[at->stat + i] = zr__dot(row, y_row, w);
    }
    memset(work + at->dq, 0, (size_t)(s->T * w) * sizeof(float));
}

static void head_backward(const zr_kernel_args *args, const head *s, const zr__attention_layout *at, float *work)
{
    const zr_tensor *qkv = &args->in[1], *out = &args->out[0];
    const float *lse = (const float *)args->in[3].data + (s->b * s->n_head + s->h) * s->T;
    const int64_t w = s->width;
    head_prepare(args, s, at, work);
    for (int64_t j0 = 0; j0 < s->T; j0 += NK) {
        const int64_t n = zr__min64(NK, s->T - j0);
        pack_transposed(work + at->keys_t, qkv, s, 1, j0, n);
        pack_transposed(work + at->values_t, qkv, s, 2, j0, n);
        for (int64_t j = 0; j < n; j++) pack_row(work + at->keys + j * w, qkv, qkv_at(s, j0 + j, 1), s, 1.0f);
        memset(work + at->dk, 0, (size_t)(n * w) * sizeof(float));
        memset(work + at->dv, 0, (size_t)(n * w) * sizeof(float));
        for (int64_t i0 = j0; i0 < s->T; i0 += NQ) block_backward(s, at, work, lse, i0, j0);
        for (int64_t j = 0; j < n; j++) {
            zr__store(out->data, out->dtype, qkv_at(s, j0 + j, 1), work + at->dk + j * w, s->D);
            zr__store(out->data, out->dtype, qkv_at(s, j0 + j, 2), work + at->dv + j * w, s->D);
        }
    }
    for (int64_t i = 0; i < s->T; i++) {
        scale_run(work + at->dq + i * w, s->scale, s->D);
        zr__store(out->data, out->dtype, qkv_at(s, i, 0), work + at->dq + i * w, s->D);
    }
}

static zr_status attention_dx(const zr_kernel_args *args)
{
    const zr_tensor *qkv = &args->in[1];
    const head all = head_make(args, qkv);
    const zr__attention_layout at = zr__attention_layout_make(all.T, all.D, true);
    const int64_t heads = qkv->shape.dim[0] * all.n_head;
#pragma omp parallel for num_threads(zr__team(args, heads *all.T *all.T)) schedule(static)
    for (int64_t index = 0; index < heads; index++) {
        head s = all;
        head_select(&s, args->runtime, index, at.width);
        head_backward(args, &s, &at, (float *)args->scratch + omp_get_thread_num() * at.floats);
    }
    return ZR_OK;
}

/* ---- one token ------------------------------------------------------------------------------- */

static float dot_part(const float *q, const zr_tensor *x, int64_t first, int64_t n)
{
    float buffer[ZR_CHUNK];
    return zr__dot(q, zr__view(buffer, x->data, x->dtype, first, n), n);
}

/* score[j] = scale q k[j] for keys 0 .. n-1 of the cache */
static void cached_scores(const zr_kernel_args *args, float *restrict score, int64_t head_first, int64_t n, int64_t C,
                          int64_t D)
{
    const zr_tensor *qkv = &args->in[0], *cache = &args->in[1];
    float q[ZR_CHUNK];
    memset(score, 0, (size_t)n * sizeof(float));
    for (int64_t d0 = 0; d0 < D; d0 += ZR_CHUNK) {
        const int64_t nd = zr__min64(ZR_CHUNK, D - d0);
        zr__load(q, qkv->data, qkv->dtype, head_first + d0, nd);
        scale_run(q, (float)args->op->attr.f[0], nd);
        for (int64_t j = 0; j < n; j++) score[j] += dot_part(q, cache, j * C + head_first + d0, nd);
    }
}

/* y = sum over j of weight[j] v[j] */
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
             "token %lld does not fit a cache of %lld: make cache_len longer", (long long)position, (long long)length);
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

extern const zr_kernel ZR_LEVEL_NAME(zr__kernels_attention)[];
const zr_kernel ZR_LEVEL_NAME(zr__kernels_attention)[] = {
    {"attention", NULL, attention, NULL},
    {"attention_dx", NULL, attention_dx, NULL},
    {"attention_cached", NULL, attention_cached, NULL},
    {NULL, NULL, NULL, NULL},
};
