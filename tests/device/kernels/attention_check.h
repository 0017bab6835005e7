/* Attention in double precision, as a reference for kernels, and their calls. */
#ifndef ZR_TESTS_ATTENTION_CHECK_H
#define ZR_TESTS_ATTENTION_CHECK_H

#include "device/kernel_check.h"

/* Sizes and options of an attention op on one rank. With zeros in the fields after D, it is the attention of GPT-2. */
typedef struct size {
    int64_t B, T, n_head, D;
    int64_t kv;       /* number of key-value heads of this rank; 0: the number of query heads */
    int64_t window;   /* number of keys that a query sees; 0: all */
    bool both, apart; /* both: queries also see later keys. apart: q, k and v are separate operands */
    int64_t ranks;    /* number of tensor-parallel ranks, over which query heads are cut; 0: one rank */
    /* First tokens of the second and later documents of row 0, in increasing order, ended by 0. In row b documents
     * begin b tokens later. ALONE: each token is a document. */
    bool whole;
    /* In increasing order, the first tokens of the documents after a row's first one, ended by 0; in row b they are b
     * later. ALONE: each token is a document. */
    int64_t borders[8];
} size;
enum { ALONE = -1 };

/* Sizes of the attention of GPT-2. */
#define PLAIN(b, t, heads, d)                                                                                          \
    {                                                                                                                  \
        .B = b, .T = t, .n_head = heads, .D = d                                                                        \
    }

/* ---- reference ------------------------------------------------------------------------------- */

enum { Q, K, V, PARTS };

/* A reference in double. part is q (B,T,n_head,D), k and v (B,T,kv,D). factor (B,n_head,T,T) holds dropout's factors,
 * NULL: none. Where weights and gradients of scores are rounded to a 16-bit type before they are multiplied, y_slack
 * and slack bound the added error; elsewhere `weights` is ZR_F32. */
typedef struct reference {
    size s;
    double scale;
    int64_t place;
    double *factor;
    double *part[PARTS], *y, *lse;
    zr_dtype weights;
    double *y_slack, *slack[PARTS];
} reference;

static inline int64_t kv_heads(size s)
{
    return s.kv ? s.kv : s.n_head;
}

/* Return the numbers of query heads and of key-value heads of all ranks. */
static inline int64_t all_heads(size s)
{
    return s.n_head * (s.ranks ? s.ranks : 1);
}

static inline int64_t all_kv(size s)
{
    return kv_heads(s) * (s.ranks && !s.whole ? s.ranks : 1);
}

static inline int64_t width(size s)
{
    return s.n_head * s.D;
}

/* Return the columns of q, k or v. */
static inline int64_t columns(size s, int part)
{
    return (part == Q ? s.n_head : kv_heads(s)) * s.D;
}

static inline int64_t elems(size s, int part)
{
    return s.B * s.T * columns(s, part);
}

/* Return the offset in `part` of token t for query head h. */
static inline int64_t offset(const reference *f, int part, int64_t b, int64_t h, int64_t t)
{
    const size s = f->s;
    const int64_t first_kv = s.ranks && !s.whole ? f->place * kv_heads(s) : 0;
    const int64_t first = s.ranks ? f->place * s.n_head : 0;
    const int64_t head = part == Q ? h : (first + h) * all_kv(s) / all_heads(s) - first_kv;
    return (b * s.T + t) * columns(s, part) + head * s.D;
}

/* Return the first token of the document of token t of row b. */
static inline int64_t document_of(size s, int64_t b, int64_t t)
{
    int64_t first = 0;
    if (s.borders[0] == ALONE) return t;
    for (int k = 0; s.borders[k]; k++)
        if (s.borders[k] + b <= t) first = s.borders[k] + b;
    return first;
}

static inline bool sees(size s, int64_t b, int64_t i, int64_t j)
{
    if (s.borders[0] && document_of(s, b, j) != document_of(s, b, i)) return false;
    return s.both || (j <= i && (s.window == 0 || j > i - s.window));
}

static inline double dot(const double *x, const double *y, int64_t n)
{
    return weighted_sum(x, y, n);
}

static inline double factor_at(const reference *f, int64_t b, int64_t h, int64_t i, int64_t j)
{
    return f->factor ? f->factor[((b * f->s.n_head + h) * f->s.T + i) * f->s.T + j] : 1.0;
}

static inline void forward_query(const reference *f, int64_t b, int64_t h, int64_t i)
{
    double score[512], max = -INFINITY, sum = 0.0;
    const int64_t at = (b * f->s.T + i) * width(f->s) + h * f->s.D;
    double *y = f->y + at;
    for (int64_t j = 0; j < f->s.T; j++) {
        score[j] = -INFINITY;
        if (sees(f->s, b, i, j))
            score[j] = f->scale * dot(f->part[Q] + offset(f, Q, b, h, i), f->part[K] + offset(f, K, b, h, j), f->s.D);
        max = fmax(max, score[j]);
    }
    for (int64_t j = 0; j < f->s.T; j++) sum += exp(score[j] - max);
    double lse = max + log(sum);
    f->lse[(b * f->s.n_head + h) * f->s.T + i] = lse;
    for (int64_t d = 0; d < f->s.D; d++) {
        y[d] = 0.0;
        for (int64_t j = 0; j < f->s.T; j++) {
            if (!sees(f->s, b, i, j)) continue;
            const double weight = exp(score[j] - lse) * factor_at(f, b, h, i, j);
            const double v = f->part[V][offset(f, V, b, h, j) + d];
            y[d] += weight * v;
            if (f->weights != ZR_F32) f->y_slack[at + d] += storage_error(f->weights, weight) * fabs(v);
        }
    }
}

static inline void forward(const reference *f)
{
    for (int64_t b = 0; b < f->s.B; b++)
        for (int64_t h = 0; h < f->s.n_head; h++)
            for (int64_t i = 0; i < f->s.T; i++) forward_query(f, b, h, i);
}

/* Return dropout's factors as zr/ops.h defines them. */
static inline double *make_factors(size s, const zr_runtime *runtime, uint32_t stream, double p)
{
    const int64_t heads = all_heads(s), first_head = s.n_head * runtime->place;
    if (p == 0.0) return NULL;
    const zr_rng rng = {runtime->seed, ZR_RNG_DROPOUT, stream, (uint32_t)runtime->step};
    double *factor = doubles_new(s.B * s.n_head * s.T * s.T);
    int64_t n = 0;
    for (int64_t b = 0; b < s.B; b++)
        for (int64_t h = 0; h < s.n_head; h++)
            for (int64_t i = 0; i < s.T; i++)
                for (int64_t j = 0; j < s.T; j++) {
                    int64_t e = ((runtime->first_row + b) * heads + first_head + h) * s.T * s.T + i * s.T + j;
                    double u = (double)(zr_rng_u32(&rng, (uint64_t)e) >> 8) * 0x1p-24;
                    factor[n++] = u >= p ? 1.0 / (1.0 - p) : 0.0;
                }
    return factor;
}

/* Return a reference for q, k and v of type g. */
static inline reference reference_make(size s, double scale, void *const *part, zr_dtype g, const zr_runtime *runtime,
                                       double p)
{
    const int64_t n = elems(s, Q);
    reference f = {.s = s, .scale = scale, .place = runtime->place, .weights = ZR_F32};
    f.factor = make_factors(s, runtime, 5, p);
    f.y = doubles_new(n);
    f.y_slack = doubles_new(n);
    f.lse = doubles_new(s.B * s.n_head * s.T);
    for (int i = 0; i < PARTS; i++) {
        f.part[i] = doubles_of(part[i], g, elems(s, i));
        f.slack[i] = doubles_new(elems(s, i));
    }
    return f;
}

static inline void parts_random(size s, zr_dtype g, double scale, void **part)
{
    for (int i = 0; i < PARTS; i++) part[i] = array_random(g, elems(s, i), scale);
}

/* ---- kernels ----------------------------------------------------------------------------------- */

static inline zr_op_attr attributes(size s, double scale, double p)
{
    return (zr_op_attr){.i = {s.n_head, 5, all_heads(s), all_kv(s), s.window, !s.both}, .f = {scale, p}};
}

/* Copy columns of q, k and v between a fused array and three arrays. */
static inline void copy_columns(size s, zr_dtype g, char *fused, void *const *part, bool to_fused)
{
    const int64_t element = zr_dtype_bytes(g), row = (columns(s, Q) + 2 * columns(s, K)) * element;
    int64_t first = 0;
    for (int i = 0; i < PARTS; i++) {
        const int64_t bytes = columns(s, i) * element;
        for (int64_t t = 0; t < s.B * s.T; t++) {
            char *a = fused + t * row + first, *b = (char *)part[i] + t * bytes;
            memcpy(to_fused ? a : b, to_fused ? b : a, (size_t)bytes);
        }
        first += bytes;
    }
}

/* Make tensors for q, k and v, or for their gradients, and return their number: one fused array, or three. `data`
 * receives the arrays. */
static inline int tensors_of(size s, zr_dtype g, void *const *part, zr_tensor *tensor)
{
    const int64_t all = columns(s, Q) + 2 * columns(s, K);
    for (int i = 0; i < PARTS && s.apart; i++) tensor[i] = tensor3(part[i], g, s.B, s.T, columns(s, i));
    if (s.apart) return PARTS;
    void *fused = array_new(g, s.B * s.T * all);
    copy_columns(s, g, fused, part, true);
    tensor[0] = tensor3(fused, g, s.B, s.T, all);
    return 1;
}

/* Check like run_both. On a GPU, run the kernel twice instead of three times, because these runs are most of the test's
 * time. */
static inline void run_twice(const level_pair *level, kernel_call call, int64_t per_thread)
{
    const void *const want[] = {call.out[0].data, call.out[1].data, call.out[2].data};
    if (!level->one->profile.facts.own_memory) {
        run_both(level, call, per_thread);
        return;
    }
    assert_int_equal(kernel_run(level->three, &call), ZR_OK);
    run_aligned(level, call, want);
}

#endif
