/*
 * The built-in optimizers: one pass over the parameters that unscales, clips, updates and casts. The operations are the
 * same as in src/device/cpu/kernels/optimizer.c, whose comments give the formulas and the memory traffic.
 */
#include "device/cuda/exact_sums.h"
#include "device/cuda/records.h"
#include "device/rules.h"

namespace
{

/* Arrays of the range of parameters that is updated. */
template <typename Grad, typename Param> struct arrays {
    float *weight;
    Param *param; /* 16-bit copy of the weights; NULL if there is no copy */
    const Grad *grad;
    float *slot[2];
};

struct adam_rule : zr__adam {
    static constexpr int slots = 2;
    bool decoupled; /* adamw */

    __device__ float step_from(float w, float g, float (&slot)[2]) const
    {
        float &m = slot[0], &v = slot[1];
        g *= grad_scale;
        if (decoupled)
            w = w * decay;
        else
            g = fmaf(decay, w, g);
        m = fmaf(beta1_rest, g - m, m);
        v = fmaf(beta2_rest * g, g, beta2 * v);
        const float denom = fmaf(sqrtf(v), denom_scale, eps);
        return w - step_size * (m / denom);
    }
};

template <int SLOTS> struct sgd_rule : zr__sgd {
    static constexpr int slots =
        SLOTS; /* number of state arrays in addition to the weight: 1 with momentum, otherwise 0 */

    __device__ float step_from(float w, float g, float (&slot)[2]) const
    {
        const float d = fmaf(decay, w, g * grad_scale);
        if (SLOTS == 0) return fmaf(-lr, d, w);
        slot[0] = fmaf(momentum, slot[0], d);
        return fmaf(-lr, fmaf(look, slot[0], own * d), w);
    }
};

struct lion_rule : zr__lion {
    static constexpr int slots = 1;

    __device__ float step_from(float w, float g, float (&slot)[2]) const
    {
        float &m = slot[0];
        g *= grad_scale;
        const float u = fmaf(beta1_rest, g, beta1 * m);
        m = fmaf(beta2_rest, g, beta2 * m);
        return fmaf(-lr, (float)((u > 0) - (u < 0)), w * decay);
    }
};

struct lamb_rule : zr__lamb {
    static constexpr int slots = 2;

    /* Return the direction; g is the gradient before it is scaled. */
    __device__ float direction(float w, float g, float (&slot)[2]) const
    {
        float &m = slot[0], &v = slot[1];
        g = fmaf(l2, w, g * grad_scale);
        m = fmaf(own, g, beta1 * m);
        v = fmaf(beta2_rest * g, g, beta2 * v);
        const float root = sqrtf(fmaf(v, v_scale, eps_inside)) + eps;
        return fmaf(decay, w, m * m_scale / root);
    }

    __device__ float step_from(float w, float g, float (&slot)[2]) const
    {
        return fmaf(-step, direction(w, g, slot), w);
    }
};

/* LARS, with a state if SLOTS is 1. */
template <int SLOTS> struct lars_rule : zr__lars {
    static constexpr int slots = SLOTS;

    __device__ float direction(float, float g, float (&)[2]) const
    {
        return g * grad_scale;
    }

    __device__ float step_from(float w, float g, float (&slot)[2]) const
    {
        const float d = fmaf(decay, w, g * grad_scale);
        if (SLOTS == 0) return fmaf(-step, d, w);
        slot[0] = fmaf(step, d, momentum * slot[0]);
        return w - slot[0];
    }
};

template <typename Rule, typename Grad, typename Param> struct update_each {
    Rule rule;
    arrays<Grad, Param> a;

    /* Update weights and the states in `slot`. */
    template <int V> __device__ void step(int64_t i, float (&slot)[2][V]) const
    {
        float w[V], g[V];
        zr__get_all<V>(w, a.weight, i);
        zr__get_all<V>(g, a.grad, i);
        for (int v = 0; v < V; v++) {
            float own[2] = {Rule::slots > 0 ? slot[0][v] : 0, Rule::slots > 1 ? slot[1][v] : 0};
            w[v] = rule.step_from(w[v], g[v], own);
            for (int s = 0; s < Rule::slots; s++) slot[s][v] = own[s];
        }
        zr__put_all<V>(a.weight, i, w);
        if (a.param) zr__put_all<V>(a.param, i, w);
    }

    template <int V> __device__ void run(int64_t i) const
    {
        float slot[2][V];
        for (int s = 0; s < Rule::slots; s++) zr__get_all<V>(slot[s], a.slot[s], i);
        step<V>(i, slot);
        for (int s = 0; s < Rule::slots; s++) zr__put_all<V>(a.slot[s], i, slot[s]);
    }
};

template <typename Rule> zr_status update(zr_device *device, const zr_update_args *args, const Rule &rule)
{
    return zr__typed2(
        args->grad_dtype, args->param16 ? args->param_dtype : ZR_BF16,
        [&]<typename Grad, typename Param>(Grad *, Param *) {
            const arrays<Grad, Param> a = {
                args->weight, (Param *)args->param16, (const Grad *)args->grad, {args->slot[0], args->slot[1]}};
            bool packed = zr__are_aligned(a.weight, a.param, a.grad);
            for (int s = 0; s < Rule::slots; s++) packed = packed && zr__is_aligned(a.slot[s]);
            return zr__each(zr__cuda(device)->stream, args->n, packed, update_each<Rule, Grad, Param>{rule, a});
        });
}

/* ---- AdamW with moments in records ------------------------------------------------------------- */

/* Encode this thread's elements of a record, from its element i on: to nearest, or as a state, at random. `word` is the
 * record's first word, n the number of elements from x[0] to the last of all records, which may be below 0, and `first`
 * the index of the random number of x[0]. */
__device__ __forceinline__ void put_record(uint16_t *word, const zr__record &its, float (&x)[ZR__ENCODED], int i,
                                           int64_t n, bool state, const zr_rng &rng, uint64_t first)
{
    const bool there = i + n > 0;
    const uint32_t most = zr__record_most(its, x);
    uint16_t scale = zr__record_scale(most, its.largest, false);
    zr__record_keys keys = {};
    if (state) {
        scale = zr__record_state_scale(most, its.largest, zr__random_at(rng, &keys, true, first - (uint64_t)i));
        const float top = its.largest * zr_f32_from_bf16(scale), largest = zr__record_float(most),
                    least = zr__record_least(its.mantissa) * zr_f32_from_bf16(scale);
        for (int v = 0; v < ZR__ENCODED && v < n; v++)
            x[v] = zr__record_state(x[v], largest < top ? largest : top, top, least);
    }
    if (i == 0 && there) word[0] = scale;
    uint32_t filled = 0;
    for (int v = 0; v < ZR__ENCODED; v++) {
        const uint32_t number = state ? zr__random_at(rng, &keys, v == 0, first + (uint64_t)v) : 0;
        const uint32_t code =
            most < 0x7f800000u && most > 0 ? zr__code_of(its, x[v] / zr__record_divisor(scale), state, number) : 0;
        filled |= code << (v % 2 * 8);
        if (v % 2 == 0) continue;
        if (there) word[1 + (i + v) / 2] = (uint16_t)filled;
        filled = 0;
    }
}

/* The two types of records have the same number of elements. */
template <typename Grad, typename Param>
__global__ void update_in_records(update_each<adam_rule, Grad, Param> each, zr__record first, zr__record second,
                                  int64_t n, bool packed, zr_rounding rounding)
{
    const zr__record its[2] = {first, second};
    const int64_t warps = zr__step() / ZR__WARP;
    for (int64_t at = zr__first() / ZR__WARP * ZR__ENCODED_WARP; at < n; at += warps * ZR__ENCODED_WARP) {
        const int64_t own = at + (int)threadIdx.x % ZR__WARP * ZR__ENCODED;
        uint16_t *word[2];
        float slot[2][ZR__ENCODED] = {};
        int64_t i = own;
        for (int s = 0; s < 2; s++) {
            i = own;
            word[s] = (uint16_t *)each.a.slot[s] + zr__record_words(its[s], &i);
            if (own - i < n) zr__decode<ZR__ENCODED, 8>(slot[s], its[s], word[s], (int)i);
        }
        if (packed && own + ZR__ENCODED <= n)
            each.template step<ZR__ENCODED>(own, slot);
        else
            for (int v = 0; v < ZR__ENCODED; v++) {
                float one[2][1] = {{slot[0][v]}, {slot[1][v]}};
                if (own + v < n) each.template step<1>(own + v, one);
                for (int s = 0; s < 2; s++) slot[s][v] = own + v < n ? one[s][0] : 0;
            }
        for (int s = 0; s < 2; s++)
            put_record(word[s], its[s], slot[s], (int)i, n - own, s == 1, rounding.rng, rounding.first + (uint64_t)own);
    }
}

zr_status adamw_in_records(zr_device *device, const zr_update_args *args, const adam_rule &rule)
{
    return zr__typed2(
        args->grad_dtype, args->param16 ? args->param_dtype : ZR_BF16,
        [&]<typename Grad, typename Param>(Grad *, Param *) {
            constexpr int threads = 256;
            const arrays<Grad, Param> a = {
                args->weight, (Param *)args->param16, (const Grad *)args->grad, {args->slot[0], args->slot[1]}};
            ZR_LAUNCH(zr__cuda(device)->stream, (update_in_records<Grad, Param>),
                      zr__blocks(args->n, threads * ZR__ENCODED), threads, 0,
                      (update_each<adam_rule, Grad, Param>{rule, a}), zr__record_of(args->slot_dtype[0]),
                      zr__record_of(args->slot_dtype[1]), args->n, zr__are_aligned(a.weight, a.param, a.grad),
                      (zr_rounding{args->rng, (uint64_t)args->first}));
            return zr__launched();
        });
}

zr_status adamw(zr_device *device, const zr_update_args *args)
{
    const adam_rule rule = {zr__adam_make(args, true), true};
    if (args->slot_dtype[0] != ZR_F32) return adamw_in_records(device, args, rule);
    return update(device, args, rule);
}

zr_status adam(zr_device *device, const zr_update_args *args)
{
    return update(device, args, adam_rule{zr__adam_make(args, false), false});
}

zr_status sgd(zr_device *device, const zr_update_args *args)
{
    const zr__sgd c = zr__sgd_make(args);
    return c.momentum == 0 ? update(device, args, sgd_rule<0>{c}) : update(device, args, sgd_rule<1>{c});
}

zr_status lion(zr_device *device, const zr_update_args *args)
{
    return update(device, args, lion_rule{zr__lion_make(args)});
}

zr_status lamb(zr_device *device, const zr_update_args *args)
{
    return update(device, args, lamb_rule{zr__lamb_make(args)});
}

zr_status lars(zr_device *device, const zr_update_args *args)
{
    const zr__lars c = zr__lars_make(args);
    return c.momentum == 0 ? update(device, args, lars_rule<0>{c}) : update(device, args, lars_rule<1>{c});
}

/* ---- Muon -------------------------------------------------------------------------------------- */

struct muon_rule : zr__muon {
    static constexpr int slots = 0;

    __device__ float step_from(float w, float g, float (&)[2]) const
    {
        return fmaf(-step, g, w * decay);
    }
};

/* Updates of the momentum, and the directions. */
template <typename Grad, typename Out> struct direct_each {
    zr__muon c;
    const Grad *grad;
    float *momentum;
    Out *out;

    template <int V> __device__ void run(int64_t i) const
    {
        float g[V], m[V], u[V];
        zr__get_all<V>(g, grad, i);
        zr__get_all<V>(m, momentum, i);
        for (int v = 0; v < V; v++) {
            const float scaled = g[v] * c.grad_scale;
            m[v] = fmaf(c.own, scaled, c.momentum * m[v]);
            u[v] = fmaf(c.look, m[v], c.direct * scaled);
        }
        zr__put_all<V>(momentum, i, m);
        zr__put_all<V>(out, i, u);
    }
};

zr_status muon(zr_device *device, const zr_update_args *args)
{
    return update(device, args, muon_rule{zr__muon_make(args)});
}

/* Write the directions in place of the 16-bit copy if it exists, else in place of the weights. */
zr_status muon_direction(zr_device *device, const zr_update_args *args)
{
    const zr_dtype out = args->param16 ? args->param_dtype : ZR_F32;
    void *to = args->param16 ? (void *)args->param16 : (void *)args->weight;
    return zr__typed2(args->grad_dtype, out, [&]<typename Grad, typename Out>(Grad *, Out *) {
        const direct_each<Grad, Out> each = {zr__muon_make(args), (const Grad *)args->grad, args->slot[0], (Out *)to};
        const bool packed = zr__are_aligned(each.grad, each.momentum, each.out);
        return zr__each(zr__cuda(device)->stream, args->n, packed, each);
    });
}

/* ---- trust ratios ------------------------------------------------------------------------------ */

/* The directions of a rule, as an array whose elements are computed on access. */
template <typename Rule, typename Grad> struct directions {
    Rule rule;
    const float *weight, *slot[2];
    const Grad *grad;
};

template <typename Rule, typename Grad>
__device__ __forceinline__ float zr__get(const directions<Rule, Grad> &d, int64_t i)
{
    float own[2] = {Rule::slots > 0 ? d.slot[0][i] : 0, Rule::slots > 1 ? d.slot[1][i] : 0};
    return d.rule.direction(d.weight[i], ::zr__get(d.grad, i), own);
}

constexpr int trust_threads = 256;

/* Each block of threads adds the squares of the weights, and of the directions, in one block of the shard. The arrays
 * begin `skipped` elements after the beginning of a block of the shard. */
template <typename Rule, typename Grad>
__global__ void trust_parts(zr__cuda_room *room, directions<Rule, Grad> d, int64_t n, int64_t first_block,
                            int64_t skipped)
{
    const int64_t begin = (first_block + blockIdx.x) * ZR_TRUST_BLOCK - skipped;
    double weight = 0, direction = 0;
    for (int64_t i = begin + threadIdx.x; i < begin + ZR_TRUST_BLOCK && i < n; i += trust_threads) {
        if (i < 0) continue;
        const float w = d.weight[i], u = zr__get(d, i);
        weight += (double)w * (double)w;
        direction += (double)u * (double)u;
    }
    weight = zr__block_all(weight, zr__plus(), 0.0);
    direction = zr__block_all(direction, zr__plus(), 0.0);
    if (threadIdx.x != 0) return;
    room->part[blockIdx.x] = weight;
    room->other_part[blockIdx.x] = direction;
}

/* Add the sums of blocks one after the other, each sum by one thread. */
__global__ void trust_join(const zr__cuda_room *room, int parts, zr_trust *trust)
{
    if (threadIdx.x > 1) return;
    const double *part = threadIdx.x == 0 ? room->part : room->other_part;
    double *sum = threadIdx.x == 0 ? &trust->weight.sum : &trust->direction.sum, total = *sum;
    for (int b = 0; b < parts; b++) total += part[b];
    *sum = total;
}

template <typename Rule>
zr_status square_update(zr_device *device, const zr_update_args *args, const Rule &rule, bool exact, int64_t first,
                        zr_trust *trust)
{
    const zr__cuda_device *cuda = zr__cuda(device);
    return zr__typed(args->grad_dtype, [&]<typename Grad>(Grad *) -> zr_status {
        const directions<Rule, Grad> d = {rule, args->weight, {args->slot[0], args->slot[1]}, (const Grad *)args->grad};
        if (exact) {
            ZR_TRY(zr__exact_all<true>(cuda, d.weight, args->n, &trust->weight.exact));
            return zr__exact_all<true>(cuda, d, args->n, &trust->direction.exact);
        }
        const int64_t skipped = first % ZR_TRUST_BLOCK, blocks = zr__ceil_div(skipped + args->n, ZR_TRUST_BLOCK);
        for (int64_t b = 0; b < blocks; b += ZR__CUDA_PARTS) {
            const int parts = (int)(blocks - b < ZR__CUDA_PARTS ? blocks - b : ZR__CUDA_PARTS);
            ZR_LAUNCH(cuda->stream, (trust_parts<Rule, Grad>), (unsigned)parts, trust_threads, 0, cuda->room, d,
                      args->n, b, skipped);
            ZR_LAUNCH(cuda->stream, trust_join, 1, ZR__WARP, 0, cuda->room, parts, trust);
        }
        return zr__launched();
    });
}

zr_status square_lamb(zr_device *device, const zr_update_args *args, bool exact, int64_t first, zr_trust *trust)
{
    return square_update(device, args, lamb_rule{zr__lamb_make(args)}, exact, first, trust);
}

zr_status square_lars(zr_device *device, const zr_update_args *args, bool exact, int64_t first, zr_trust *trust)
{
    return square_update(device, args, lars_rule<0>{zr__lars_make(args)}, exact, first, trust);
}

/* ---- rules by name ----------------------------------------------------------------------------- */

struct rule {
    const char *name;
    zr_status (*update)(zr_device *device, const zr_update_args *args);
    zr_status (*square)(zr_device *device, const zr_update_args *args, bool exact, int64_t first, zr_trust *trust);
};

const rule rules[] = {{"adamw", adamw, nullptr},   {"adam", adam, nullptr},
                      {"sgd", sgd, nullptr},       {"lion", lion, nullptr},
                      {"lamb", lamb, square_lamb}, {"lars", lars, square_lars},
                      {"muon", muon, nullptr},     {"muon_direction", muon_direction, nullptr}};

zr_status find_rule(const zr_optimizer *optimizer, const rule **found)
{
    ZR_CHECK(
        !optimizer->rule, ZR_ERR_UNSUPPORTED,
        "the optimizer \"%s\" is a function of the processor's; on a GPU use adamw, adam, sgd, lion, lamb, lars or "
        "muon",
        optimizer->name);
    for (const rule &r : rules)
        if (strcmp(r.name, optimizer->name) == 0 && (r.square || !optimizer->trust)) {
            *found = &r;
            return ZR_OK;
        }
    return ZR_FAIL(ZR_ERR_UNSUPPORTED,
                   "no rule for the optimizer \"%s\" on a GPU: use adamw, adam, sgd, lion, lamb, lars "
                   "or muon",
                   optimizer->name);
}

} // namespace

extern "C" zr_status zr__cuda_update(zr_device *device, const zr_optimizer *optimizer, const zr_update_args *args)
{
    const rule *r = nullptr;
    ZR_TRY(find_rule(optimizer, &r));
    if (args->n == 0) return ZR_OK;
    ZR_TRY(zr__cuda_begin(device));
    return zr__cuda_end(device, r->update(device, args));
}

extern "C" zr_status zr__cuda_square_update(zr_device *device, const zr_optimizer *optimizer,
                                            const zr_update_args *args, bool exact, int64_t first, zr_trust *trust)
{
    const rule *r = nullptr;
    ZR_TRY(find_rule(optimizer, &r));
    ZR_CHECK(r->square, ZR_ERR_UNSUPPORTED, "the optimizer \"%s\" has no direction on a GPU", optimizer->name);
    if (args->n == 0) return ZR_OK;
    ZR_TRY(zr__cuda_begin(device));
    return zr__cuda_end(device, r->square(device, args, exact, first, trust));
}

ZR_CUDA_KERNELS(optimizer) = {{}};
