/* A head of attention: the addresses of its tokens, and which keys its queries see. Several query heads may share a
 * key-value head. */
#ifndef ZR_DEVICE_CPU_ATTENTION_HEAD_H
#define ZR_DEVICE_CPU_ATTENTION_HEAD_H

#include "device/attention_operands.h"
#include "device/cpu/shared/dropout.h"

typedef struct zr__head {
    zr__attention_sizes size;
    zr__attention_operands in; /* q, k and v */
    int64_t T, D;
    const int32_t *documents; /* beginnings of the documents of all rows (B,T), or NULL */
    const int32_t *document;  /* beginnings of the documents of row b (T), or NULL */
    const int32_t *ends;      /* ends of the documents of row b (T), or NULL if queries see no later keys */
    int64_t b, h, kv; /* indices of the row of the batch, of the query head, and of its key-value head on this rank */
    /* with tensor parallelism: index of this rank's first query head among the heads of all ranks; otherwise 0 */
    int64_t first_head,
        /* index of this rank's first key-value head among the heads of all ranks; 0 if this rank has all key-value
           heads */
        first_kv, all_heads; /* number of query heads on all ranks together */
    float scale;
    /* fields for attention of whole sequences: width of packed rows, and whether products have bf16 operands, in which
     * case scores are scaled after the product */
    int64_t width;
    bool narrow;
    bool drops;
    zr__dropout dropout;
    uint64_t dropout_first; /* index of the random number of score (b,h,0,0), for dropout */
} zr__head;

/* Return a head with the fields that all heads of the op share. The other fields are not set. `x` is the fused operand,
 * or the first of the operands q, k and v. */
static inline zr__head zr__head_make(const zr_kernel_args *args, const zr_tensor *x, bool fused)
{
    const zr_op_attr *attr = &args->op->attr;
    zr__head s = {.size = zr__attention_sizes_of(attr, &x->shape, fused ? NULL : &x[1].shape)};
    s.in = zr__attention_operands_of(&s.size, x);
    s.T = s.size.T;
    s.D = s.size.D;
    s.first_head = zr__attention_first_head(&s.size, args->runtime->place);
    s.first_kv = zr__attention_first_kv(&s.size, args->runtime->place);
    s.all_heads = s.size.all;
    s.scale = (float)attr->f[0];
    s.drops = attr->f[1] > 0.0;
    if (s.drops) s.dropout = zr__dropout_make(args->runtime, attr->i[1], attr->f[1]);
    return s;
}

/* Set the row of the batch and the query head, and find the key-value head. */
static inline void zr__head_select(zr__head *s, const zr_runtime *runtime, int64_t b, int64_t h)
{
    s->b = b;
    s->h = h;
    s->kv = (s->first_head + h) / s->size.group - s->first_kv;
    s->document = s->documents ? s->documents + b * s->T : NULL;
    s->dropout_first =
        (uint64_t)((runtime->first_row + s->b) * s->all_heads + s->first_head + s->h) * (uint64_t)(s->T * s->T);
}

/* Return the index of the first element of token t of a head. */
static inline int64_t zr__head_token(const zr__head *s, const zr__head_columns *c, int64_t head_index, int64_t t)
{
    return (s->b * s->T + t) * c->stride + c->first + head_index * s->D;
}

static inline int64_t zr__head_y(const zr__head *s, int64_t t)
{
    return (s->b * s->T + t) * s->size.H * s->D + s->h * s->D;
}

static inline int64_t zr__head_lse(const zr__head *s)
{
    return (s->b * s->size.H + s->h) * s->T;
}

/* ---- which keys a query sees ----------------------------------------------------------------- */

/* zr__keys_begin returns the first key that query i sees, zr__keys_end the key after the last one. Neither result
 * decreases when i grows, and a query sees at least its own key. */
static inline int64_t zr__keys_begin(const zr__head *s, int64_t i)
{
    const int64_t window = s->size.window, document = s->document ? s->document[i] : 0;
    const int64_t first = window > 0 && i >= window ? i - window + 1 : 0;
    return first > document ? first : document;
}

static inline int64_t zr__keys_end(const zr__head *s, int64_t i)
{
    return s->size.causal ? i + 1 : s->ends ? s->ends[i] : s->T;
}

/* ---- runs of scores --------------------------------------------------------------------------- */

/* Compute x = exp(x - m) in place. x - m is at most 0, except for rounding. A masked score must be -infinity, or the
 * caller must overwrite its result. */
static inline void zr__exp_run(float *restrict x, float m, int64_t n)
{
    for (int64_t j = 0; j < n; j++) x[j] = zr__expf_low(x[j] - m);
}

static inline void zr__scale_run(float *restrict x, float factor, int64_t n)
{
    for (int64_t j = 0; j < n; j++) x[j] *= factor;
}

#endif
