/* Op attention_cached computes the attention of one token to a cache of keys and values. */
#include "device/cpu/shared/attention_head.h"
#include "device/cpu/shared/rows.h"

/* Return the index of the first element of key j of a key-value head in the cache. The key's value is `values` elements
 * further on. */
static int64_t cached_at(const zr__head *s, int64_t j)
{
    return (j * s->size.K + s->kv) * s->D;
}

/* Compute score[j] = scale * (q . k[j]) for keys [begin, end) of the cache. */
static void cached_scores(const zr__head *s, float *restrict score, const zr_tensor *cache, int64_t begin, int64_t end)
{
    const zr_tensor *q_of = s->in.q.x;
    float q[ZR_CHUNK], buffer[ZR_CHUNK];
    memset(score + begin, 0, (size_t)(end - begin) * sizeof(float));
    for (int64_t d0 = 0; d0 < s->D; d0 += ZR_CHUNK) {
        const int64_t nd = zr__min64(ZR_CHUNK, s->D - d0);
        zr__load(q, q_of->data, q_of->dtype, s->h * s->D + d0, nd);
        zr__scale_run(q, s->scale, nd);
        for (int64_t j = begin; j < end; j++)
            score[j] += zr__dot(q, zr__view(buffer, cache->data, cache->dtype, cached_at(s, j) + d0, nd), nd);
    }
}

/* Compute y = the sum over j of weight[j] * v[j], for values [begin, end) of the cache. */
static void cached_values(const zr__head *s, const zr_tensor *y, const float *weight, const zr_tensor *cache,
                          int64_t begin, int64_t end)
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
static void cache_token(const zr__head *s, const zr_tensor *cache, int64_t position)
{
    const int64_t length = cache->shape.dim[1], element = zr_dtype_bytes(cache->dtype);
    const size_t row = (size_t)(s->size.K * s->D * element);
    const char *k = s->in.k.x->data, *v = s->in.v.x->data;
    memcpy((char *)cache->data + (size_t)position * row, k + s->in.k.first * element, row);
    memcpy((char *)cache->data + (size_t)(length + position) * row, v + s->in.v.first * element, row);
}

static zr_status attention_cached(const zr_kernel_args *args)
{
    const zr__head all = zr__head_make(args, args->in, args->n_in == 2);
    const zr_tensor *cache = &args->in[args->n_in - 1];
    const int64_t length = cache->shape.dim[1], position = args->runtime->position, n = position + 1;
    ZR_CHECK(position >= 0 && position < length, ZR_ERR_DATA,
             "token %lld does not fit in a cache of %lld tokens; make cache_len larger", (long long)position,
             (long long)length);
    const int64_t begin = zr__keys_begin(&all, position);
    cache_token(&all, cache, position);
#pragma omp parallel for num_threads(zr__team(args, n *all.size.H *all.D)) schedule(static)
    for (int64_t h = 0; h < all.size.H; h++) {
        zr__head s = all;
        float *score = (float *)args->scratch + h * length;
        zr__head_select(&s, args->runtime, 0, h);
        cached_scores(&s, score, cache, begin, n);
        zr__exp_run(score + begin, zr__max(score + begin, n - begin), n - begin);
        zr__scale_run(score + begin, 1.0f / zr__sum(score + begin, n - begin), n - begin);
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

const zr_kernel ZR_LEVEL_NAME(zr__kernels_attention_cached)[] = {
    {"attention_cached", .run = attention_cached, .scratch_bytes = attention_cached_scratch},
    {0},
};
