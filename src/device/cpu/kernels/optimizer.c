/*
 * Built-in optimizers. One pass unscales and clips gradients, updates weights and casts them. The operations on an
 * element do not depend on how the parameters are divided into ranges. Constants (rules.h) are computed in double
 * precision from the step number, an integer.
 *
 * Memory traffic in bytes for each parameter, if intermediate results stay in the L1 cache: Adam reads and writes
 * weight, m and v (24), reads the gradient (4 or 2) and writes the 16-bit copy (2). The total is 28 in fp32, 28 with a
 * 16-bit gradient and a 16-bit copy, and 30 with an fp32 gradient and a 16-bit copy. SGD moves 8 bytes less with
 * momentum, like Lion, and 16 less without; AdamW 12 less with moments in records. LAMB moves the bytes of Adam, and
 * before that reads weight, m, v and gradient for its norms (16 or 14 bytes). LARS also reads weight and gradient for
 * its norms (8 or 6 bytes). Muon reads the gradient and updates m for its directions (16 or 12 bytes with those), then
 * updates weights from the directions (12 or 12 bytes).
 */
#include <math.h>

#include "device/cpu/cpu.h"
#include "device/cpu/shared/records.h"
#include "device/rules.h"

/* Update one element by Adam: m += (1 - beta1)(g - m); v = beta2 v + (1 - beta2) g^2. Return the new weight, w - lr /
 * c1 * m / (sqrt(v / c2) + eps), where c1 = 1 - beta1^step and c2 = 1 - beta2^step. */
static inline float adam_element(const zr__adam *c, float w, float g, float *m, float *v)
{
    *m = ZR_FMA(c->beta1_rest, g - *m, *m);
    *v = ZR_FMA(c->beta2_rest * g, g, c->beta2 * *v);
    float denom = ZR_FMA(sqrtf(*v), c->denom_scale, c->eps);
    return w - c->step_size * (*m / denom);
}

static void adamw_chunk(const zr__adam *c, float *restrict w, float *restrict m, float *restrict v,
                        const float *restrict g, int64_t n)
{
    ZR_STREAM_LOOP
    for (int64_t i = 0; i < n; i++) w[i] = adam_element(c, w[i] * c->decay, g[i] * c->grad_scale, &m[i], &v[i]);
}

static void adam_chunk(const zr__adam *c, float *restrict w, float *restrict m, float *restrict v,
                       const float *restrict g, int64_t n)
{
    ZR_STREAM_LOOP
    for (int64_t i = 0; i < n; i++)
        w[i] = adam_element(c, w[i], ZR_FMA(c->decay, w[i], g[i] * c->grad_scale), &m[i], &v[i]);
}

/* A chunk of a range: fp32 arrays of n elements, from element `first` of the range on. m and v are NULL for rules
 * without these states. */
typedef struct chunk {
    int64_t first, n;
    float *w, *m, *v;
    const float *g;
} chunk;

/* Go to the next chunk of the range. Return false after the last one. `wide` receives a 16-bit gradient in fp32. */
static inline bool next_chunk(const zr_update_args *args, float wide[ZR_CHUNK], chunk *k)
{
    k->first += k->n;
    k->n = zr__min64(ZR_CHUNK, args->n - k->first);
    if (k->n <= 0) return false;
    k->w = args->weight ? args->weight + k->first : NULL;
    k->m = args->slot[0] && args->slot_dtype[0] == ZR_F32 ? args->slot[0] + k->first : NULL;
    k->v = args->slot[1] && args->slot_dtype[1] == ZR_F32 ? args->slot[1] + k->first : NULL;
    k->g = zr__view(wide, args->grad, args->grad_dtype, k->first, k->n);
    return true;
}

static void store_param(const zr_update_args *args, const chunk *k)
{
    if (args->param16) zr__round(args->param16 + k->first, args->param_dtype, k->w, k->n);
}

static void adam_update(const zr_update_args *args, bool decoupled)
{
    const zr__adam c = zr__adam_make(args, decoupled);
    float wide[ZR_CHUNK];
    for (chunk k = {0}; next_chunk(args, wide, &k); store_param(args, &k))
        (decoupled ? adamw_chunk : adam_chunk)(&c, k.w, k.m, k.v, k.g, k.n);
}

/* Update by AdamW with both moments in records. A chunk has whole records. */
static void adamw_in_records(const zr_update_args *args)
{
    const zr__adam c = zr__adam_make(args, true);
    const zr_rounding rounding = {args->rng, (uint64_t)args->first};
    float wide[ZR_CHUNK], m[ZR_CHUNK], v[ZR_CHUNK];
    for (chunk k = {0}; next_chunk(args, wide, &k); store_param(args, &k)) {
        zr__records_load(m, args->slot[0], args->slot_dtype[0], k.first, k.n);
        zr__records_load(v, args->slot[1], args->slot_dtype[1], k.first, k.n);
        adamw_chunk(&c, k.w, m, v, k.g, k.n);
        zr__records_store(args->slot[0], args->slot_dtype[0], k.first, m, k.n, NULL);
        zr__records_store_states(args->slot[1], args->slot_dtype[1], k.first, v, k.n, &rounding);
    }
}

static void adamw(const zr_update_args *args)
{
    if (args->slot_dtype[0] == ZR_F32)
        adam_update(args, true);
    else
        adamw_in_records(args);
}

static void adam(const zr_update_args *args)
{
    adam_update(args, false);
}

static void sgd_chunk(const zr__sgd *c, float *restrict w, const float *restrict g, int64_t n)
{
    ZR_STREAM_LOOP
    for (int64_t i = 0; i < n; i++) w[i] = ZR_FMA(-c->lr, ZR_FMA(c->decay, w[i], g[i] * c->grad_scale), w[i]);
}

/* Update v = momentum v + g, then w -= lr (look v + own g). Without Nesterov, look is 1 and own is 0. With Nesterov,
 * look is momentum and own is 1. */
static void momentum_chunk(const zr__sgd *c, float *restrict w, float *restrict v, const float *restrict g, int64_t n)
{
    ZR_STREAM_LOOP
    for (int64_t i = 0; i < n; i++) {
        float d = ZR_FMA(c->decay, w[i], g[i] * c->grad_scale);
        v[i] = ZR_FMA(c->momentum, v[i], d);
        w[i] = ZR_FMA(-c->lr, ZR_FMA(c->look, v[i], c->own * d), w[i]);
    }
}

static void sgd(const zr_update_args *args)
{
    const zr__sgd c = zr__sgd_make(args);
    float wide[ZR_CHUNK];
    for (chunk k = {0}; next_chunk(args, wide, &k); store_param(args, &k)) {
        if (c.momentum == 0)
            sgd_chunk(&c, k.w, k.g, k.n);
        else
            momentum_chunk(&c, k.w, k.m, k.g, k.n);
    }
}

static void lion_chunk(const zr__lion *c, float *restrict w, float *restrict m, const float *restrict g, int64_t n)
{
    ZR_STREAM_LOOP
    for (int64_t i = 0; i < n; i++) {
        const float scaled = g[i] * c->grad_scale, u = ZR_FMA(c->beta1_rest, scaled, c->beta1 * m[i]);
        w[i] = ZR_FMA(-c->lr, (float)((u > 0) - (u < 0)), w[i] * c->decay);
        m[i] = ZR_FMA(c->beta2_rest, scaled, c->beta2 * m[i]);
    }
}

static void lion(const zr_update_args *args)
{
    const zr__lion c = zr__lion_make(args);
    float wide[ZR_CHUNK];
    for (chunk k = {0}; next_chunk(args, wide, &k); store_param(args, &k)) lion_chunk(&c, k.w, k.m, k.g, k.n);
}

/* ---- trust ratios ------------------------------------------------------------------------------ */

/* Update the moments of one element by LAMB, and return its direction (rules.h). */
static inline float lamb_element(const zr__lamb *c, float w, float g, float *m, float *v)
{
    g = ZR_FMA(c->l2, w, g * c->grad_scale);
    *m = ZR_FMA(c->own, g, c->beta1 * *m);
    *v = ZR_FMA(c->beta2_rest * g, g, c->beta2 * *v);
    const float root = sqrtf(ZR_FMA(*v, c->v_scale, c->eps_inside)) + c->eps;
    return ZR_FMA(c->decay, w, *m * c->m_scale / root);
}

static void lamb_chunk(const zr__lamb *c, float *restrict w, float *restrict m, float *restrict v,
                       const float *restrict g, int64_t n)
{
    ZR_STREAM_LOOP
    for (int64_t i = 0; i < n; i++) w[i] = ZR_FMA(-c->step, lamb_element(c, w[i], g[i], &m[i], &v[i]), w[i]);
}

static void lamb_direction_chunk(const zr__lamb *c, const float *restrict w, const float *restrict m,
                                 const float *restrict v, const float *restrict g, float *restrict out, int64_t n)
{
    ZR_STREAM_LOOP
    for (int64_t i = 0; i < n; i++) {
        float new_m = m[i], new_v = v[i];
        out[i] = lamb_element(c, w[i], g[i], &new_m, &new_v);
    }
}

static void lamb(const zr_update_args *args)
{
    const zr__lamb c = zr__lamb_make(args);
    float wide[ZR_CHUNK];
    for (chunk k = {0}; next_chunk(args, wide, &k); store_param(args, &k)) lamb_chunk(&c, k.w, k.m, k.v, k.g, k.n);
}

static void lamb_direction(const zr_update_args *args, float *out)
{
    const zr__lamb c = zr__lamb_make(args);
    float wide[ZR_CHUNK];
    for (chunk k = {0}; next_chunk(args, wide, &k);) lamb_direction_chunk(&c, k.w, k.m, k.v, k.g, out + k.first, k.n);
}

static void lars_chunk(const zr__lars *c, float *restrict w, const float *restrict g, int64_t n)
{
    ZR_STREAM_LOOP
    for (int64_t i = 0; i < n; i++) w[i] = ZR_FMA(-c->step, ZR_FMA(c->decay, w[i], g[i] * c->grad_scale), w[i]);
}

static void lars_momentum_chunk(const zr__lars *c, float *restrict w, float *restrict v, const float *restrict g,
                                int64_t n)
{
    ZR_STREAM_LOOP
    for (int64_t i = 0; i < n; i++) {
        v[i] = ZR_FMA(c->step, ZR_FMA(c->decay, w[i], g[i] * c->grad_scale), c->momentum * v[i]);
        w[i] -= v[i];
    }
}

static void lars(const zr_update_args *args)
{
    const zr__lars c = zr__lars_make(args);
    float wide[ZR_CHUNK];
    for (chunk k = {0}; next_chunk(args, wide, &k); store_param(args, &k)) {
        if (c.momentum == 0)
            lars_chunk(&c, k.w, k.g, k.n);
        else
            lars_momentum_chunk(&c, k.w, k.m, k.g, k.n);
    }
}

/* Write the gradient as the direction, since LARS needs the norm of the gradient. */
static void lars_direction(const zr_update_args *args, float *out)
{
    float wide[ZR_CHUNK];
    for (chunk k = {0}; next_chunk(args, wide, &k);)
        for (int64_t i = 0; i < k.n; i++) out[k.first + i] = k.g[i] * args->grad_scale;
}

/* ---- Muon -------------------------------------------------------------------------------------- */

/* Update the momentum m, and write the direction to u (rules.h). */
static void muon_direction_chunk(const zr__muon *c, float *restrict u, float *restrict m, const float *restrict g,
                                 int64_t n)
{
    ZR_STREAM_LOOP
    for (int64_t i = 0; i < n; i++) {
        const float scaled = g[i] * c->grad_scale;
        m[i] = ZR_FMA(c->own, scaled, c->momentum * m[i]);
        u[i] = ZR_FMA(c->look, m[i], c->direct * scaled);
    }
}

static void muon_direction(const zr_update_args *args)
{
    const zr__muon c = zr__muon_make(args);
    float wide[ZR_CHUNK], made[ZR_CHUNK];
    for (chunk k = {0}; next_chunk(args, wide, &k);) {
        muon_direction_chunk(&c, args->param16 ? made : k.w, k.m, k.g, k.n);
        if (args->param16) zr__round(args->param16 + k.first, args->param_dtype, made, k.n);
    }
}

static void muon_chunk(const zr__muon *c, float *restrict w, const float *restrict x, int64_t n)
{
    ZR_STREAM_LOOP
    for (int64_t i = 0; i < n; i++) w[i] = ZR_FMA(-c->step, x[i], w[i] * c->decay);
}

static void muon(const zr_update_args *args)
{
    const zr__muon c = zr__muon_make(args);
    float wide[ZR_CHUNK];
    for (chunk k = {0}; next_chunk(args, wide, &k); store_param(args, &k)) muon_chunk(&c, k.w, k.g, k.n);
}

const zr__rule ZR_LEVEL_NAME(zr__rules)[] = {{"adamw", adamw, NULL},
                                             {"adam", adam, NULL},
                                             {"sgd", sgd, NULL},
                                             {"lion", lion, NULL},
                                             {"lamb", lamb, lamb_direction},
                                             {"lars", lars, lars_direction},
                                             {"muon", muon, NULL},
                                             {"muon_direction", muon_direction, NULL},
                                             {0}};
const zr_kernel ZR_LEVEL_NAME(zr__kernels_optimizer)[] = {{0}};
