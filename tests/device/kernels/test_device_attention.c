//TEST timeout=120 long=more tsan=gpu seeds=200
//STAND_IN
//TILES
/* attention, attention_dx. */
#include "attention_check.h"
#include "support/long.h"

#include "device/cpu/attention_blocks.h"

/* Sizes around the edges of blocks (64), of lanes and of register tiles; odd heads, heads wider than a register tile.
 */
static const size sizes[] = {PLAIN(1, 1, 1, 1),   PLAIN(2, 1, 3, 19),   PLAIN(2, 7, 1, 16),   PLAIN(1, 15, 2, 33),
                             PLAIN(2, 33, 3, 19), PLAIN(1, 48, 2, 64),  PLAIN(1, 63, 2, 8),   PLAIN(1, 64, 2, 32),
                             PLAIN(1, 65, 1, 20), PLAIN(2, 150, 3, 19), PLAIN(1, 193, 1, 72), PLAIN(1, 81, 1, 48),
                             PLAIN(1, 40, 1, 128)};
#define N_SIZES (int)(sizeof sizes / sizeof *sizes)

/* Sizes for GPUs, whose tiles have 16 to 128 tokens, with kernels for widths of 32, 64, 96, 128, 256 and any other.
 * Where T is a multiple of 4, random numbers are drawn in blocks of four keys. */
static const size gpu_sizes[] = {PLAIN(1, 63, 2, 16),  PLAIN(2, 64, 1, 25),  PLAIN(1, 65, 1, 64),  PLAIN(1, 129, 1, 80),
                                 PLAIN(1, 200, 1, 24), PLAIN(1, 132, 1, 57), PLAIN(1, 68, 1, 128), PLAIN(1, 66, 1, 136),
                                 PLAIN(1, 20, 1, 256), PLAIN(1, 20, 1, 264)};
#define N_GPU_SIZES (int)(sizeof gpu_sizes / sizeof *gpu_sizes)
enum { GPU_WIDEST = 256, GPU_WIDEST_DROPPED = 128 }; /* the widest heads for tensor cores, without and with dropout */

/* Sizes of attention that is not GPT-2's: query heads that share keys and values, windows that end in a block, at its
 * border and beyond the sequence, keys of both sides, and separate operands. */
static const size kinds[] = {
    {1, 1, 2, 5, .kv = 1, .apart = true},
    {2, 33, 4, 5, .kv = 2},
    {1, 130, 4, 16, .kv = 1, .apart = true},
    {1, 70, 8, 8, .kv = 4},
    {1, 65, 2, 80, .kv = 1, .window = 64},
    {2, 150, 2, 19, .window = 17},
    {1, 193, 4, 20, .kv = 2, .window = 65, .apart = true},
    {1, 200, 1, 33, .window = 1},
    {1, 129, 2, 8, .window = 128},
    {1, 64, 2, 16, .window = 500, .apart = true},
    {2, 47, 3, 24, .both = true},
    {1, 64, 1, 32, .both = true},
    {1, 97, 2, 48, .kv = 1},
    {1, 40, 1, 80, .both = true},
    {1, 131, 4, 5, .kv = 2, .both = true, .apart = true},
    {1, 67, 2, 16, .kv = 1, .ranks = 3, .apart = true},                /* each rank has its own key-value head */
    {1, 67, 3, 16, .kv = 2, .ranks = 2, .whole = true, .apart = true}, /* one of two key-value heads on each rank */
    {2, 66, 2, 5, .kv = 4, .ranks = 4, .whole = true, .apart = true},  /* one of four key-value heads on each rank */
    {1, 33, 2, 8, .kv = 2, .ranks = 3, .whole = true, .apart = true},  /* rank 1 has heads of both */
    {1, 20, 3, 8, .kv = 4, .ranks = 4, .whole = true, .window = 7, .apart = true},
    {1, 20, 4, 8, .kv = 3, .ranks = 3, .whole = true, .apart = true},
    {1, 20, 2, 8, .kv = 4, .ranks = 2, .whole = true, .apart = true},
};
#define N_KINDS (int)(sizeof kinds / sizeof *kinds)

/* The same for the widths of GPU kernels, with windows that skip whole tiles. */
static const size gpu_kinds[] = {
    {1, 200, 2, 64, .kv = 1, .window = 30},
    {1, 132, 2, 128, .kv = 1, .window = 20, .apart = true},
    {1, 67, 3, 136, .kv = 1, .window = 9},
    {1, 20, 2, 264, .kv = 1, .both = true},
    {1, 36, 2, 64, .kv = 2, .ranks = 4, .whole = true, .apart = true},
    {1, 130, 2, 96, .kv = 1, .both = true},
    {1, 40, 2, 256, .kv = 1, .both = true, .apart = true},
};
#define N_GPU_KINDS (int)(sizeof gpu_kinds / sizeof *gpu_kinds)

/* Rows of several documents: one at each edge of a block, of one token, of all tokens; several in a block and blocks
 * within a document, windows that are shorter and longer than documents, queries that see later keys. */
static const size documents[] = {
    {1, 130, 1, 8, .borders = {64, 128}},
    {2, 140, 1, 9, .borders = {63, 65, 127, 129, 138}},
    {1, 150, 2, 20, .kv = 1, .apart = true, .borders = {1, 2, 62, 64, 66, 130}},
    {1, 150, 1, 3, .borders = {ALONE}},
    {1, 70, 2, 16, .kv = 1, .apart = true, .borders = {69}},
    {2, 190, 1, 5, .window = 17, .borders = {10, 100, 128, 180}},
    {1, 200, 2, 5, .kv = 1, .window = 90, .apart = true, .borders = {30, 64, 191}},
    {1, 67, 2, 4, .kv = 1, .ranks = 3, .apart = true, .borders = {40}},
    {2, 131, 1, 9, .both = true, .borders = {63, 65, 127, 129}},
    {1, 140, 2, 20, .kv = 1, .both = true, .apart = true, .borders = {1, 2, 62, 64, 66, 128}},
    {1, 70, 1, 3, .both = true, .borders = {ALONE}},
    {1, 100, 2, 48, .kv = 1, .borders = {33, 47, 96}},
    {1, 135, 1, 5, .kv = 1, .ranks = 2, .both = true, .apart = true, .borders = {10}},
};
#define N_DOCUMENTS (int)(sizeof documents / sizeof *documents)

/* The same for the widths of GPU kernels, with documents that skip whole tiles. */
static const size gpu_documents[] = {
    {1, 200, 2, 64, .kv = 1, .borders = {127, 128, 160}},
    {1, 132, 1, 128, .apart = true, .borders = {32, 96, 129}},
    {1, 130, 1, 80, .borders = {63, 65, 128}},
    {1, 67, 1, 136, .window = 9, .borders = {16, 33, 60}},
    {1, 70, 1, 264, .borders = {30, 64}},
    {1, 100, 1, 57, .borders = {ALONE}},
    {1, 140, 1, 64, .both = true, .borders = {5, 127, 128}},
    {1, 70, 1, 128, .both = true, .apart = true, .borders = {32, 66}},
    {1, 67, 1, 264, .both = true, .borders = {30, 64}},
};
#define N_GPU_DOCUMENTS (int)(sizeof gpu_documents / sizeof *gpu_documents)

/* ---- reference ------------------------------------------------------------------------------- */

static const char *const names[PARTS] = {"dq", "dk", "dv"};

static bool is_shared(size s)
{
    return all_heads(s) > all_kv(s);
}

/* Return whether this is the attention of GPT-2. */
static bool is_plain(size s)
{
    return !is_shared(s) && !s.window && !s.both && !s.apart && !s.borders[0];
}

/* Add the gradients of one query and one key that it sees. */
static void backward_pair(const reference *f, const double *dy, double delta, double *const *grad, int64_t b, int64_t h,
                          int64_t i, int64_t j)
{
    const int64_t D = f->s.D, at_q = offset(f, Q, b, h, i), at_k = offset(f, K, b, h, j), at_v = offset(f, V, b, h, j);
    const double *q = f->part[Q] + at_q, *k = f->part[K] + at_k, *v = f->part[V] + at_v;
    const double lse = f->lse[(b * f->s.n_head + h) * f->s.T + i];
    double p = exp(f->scale * dot(q, k, D) - lse), factor = factor_at(f, b, h, i, j);
    double ds = p * (factor * dot(dy, v, D) - delta) * f->scale;
    for (int64_t d = 0; d < D; d++) {
        grad[Q][at_q + d] += ds * k[d];
        grad[K][at_k + d] += ds * q[d];
        grad[V][at_v + d] += p * factor * dy[d];
    }
    if (f->weights == ZR_F32) return;
    const double ds_slack = storage_error(f->weights, ds / f->scale) * fabs(f->scale);
    const double p_slack = storage_error(f->weights, p * factor);
    for (int64_t d = 0; d < D; d++) {
        f->slack[Q][at_q + d] += ds_slack * fabs(k[d]);
        f->slack[K][at_k + d] += ds_slack * fabs(q[d]);
        f->slack[V][at_v + d] += p_slack * fabs(dy[d]);
    }
}

/* Add all gradients, from y and lse as stored. */
static void backward(const reference *f, const double *dy, double *const *grad)
{
    for (int64_t b = 0; b < f->s.B; b++)
        for (int64_t h = 0; h < f->s.n_head; h++)
            for (int64_t i = 0; i < f->s.T; i++) {
                const int64_t at = (b * f->s.T + i) * width(f->s) + h * f->s.D;
                const double delta = dot(dy + at, f->y + at, f->s.D);
                for (int64_t j = 0; j < f->s.T; j++)
                    if (sees(f->s, b, i, j)) backward_pair(f, dy + at, delta, grad, b, h, i, j);
            }
}

typedef struct loss_context {
    reference f;
    double *weight;
} loss_context;

static double loss(void *context)
{
    loss_context *l = context;
    forward(&l->f);
    return weighted_sum(l->weight, l->f.y, l->f.s.B * l->f.s.T * width(l->f.s));
}

static void test_reference(void **state)
{
    (void)state;
    static const size some[] = {PLAIN(2, 5, 2, 3),
                                {1, 6, 4, 2, .kv = 2, .window = 3},
                                {1, 5, 2, 3, .kv = 1, .both = true},
                                {1, 5, 3, 2, .kv = 2, .ranks = 2, .whole = true},
                                {2, 7, 2, 2, .window = 3, .borders = {1, 4}}};
    const zr_runtime runtime = {.seed = 3, .place = 0}, second = {.seed = 3, .place = 1};
    for (int i = 0; i < 10; i++) {
        const size s = some[i / 2];
        const int64_t n = elems(s, Q);
        void *part[PARTS];
        parts_random(s, ZR_F32, 1.5, part);
        loss_context l = {reference_make(s, 0.6, part, ZR_F32, s.ranks ? &second : &runtime, i % 2 * 0.3),
                          doubles_of(array_random(ZR_F32, n, 1.0), ZR_F32, n)};
        double *grad[PARTS], *want[PARTS];
        for (int k = 0; k < PARTS; k++) {
            grad[k] = doubles_new(elems(s, k));
            want[k] = numeric_gradient(loss, &l, l.f.part[k], elems(s, k));
        }
        forward(&l.f);
        backward(&l.f, l.weight, grad);
        for (int k = 0; k < PARTS; k++) assert_doubles_close("gradient", grad[k], want[k], elems(s, k), 1e-7);
        pool_clear();
    }
}

/* ---- kernels --------------------------------------------------------------------------------- */

static double largest(double most, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(x[i]));
    return most;
}

/* Check that all values differ from the reference by at most `error` plus their slack plus the rounding of storage. */
static void assert_close_but(const char *what, const void *got, zr_dtype g, const double *want, const double *slack,
                             int64_t n, double error)
{
    for (int64_t i = 0; i < n; i++) {
        const double x = array_get(got, g, i);
        const double bound = error + slack[i] + storage_error(g, fabs(want[i]) + slack[i]);
        if (!(fabs(x - want[i]) <= bound))
            fail_msg("%s[%lld of %lld] %s: %.9g, not %.9g (bound %.3g)", what, (long long)i, (long long)n,
                     zr_dtype_name(g), x, want[i], bound);
    }
}

/* Make the operand documents. */
static zr_tensor documents_of(size s)
{
    int32_t *begin = pool_take(s.B * s.T, sizeof *begin);
    for (int64_t i = 0; i < s.B * s.T; i++) begin[i] = (int32_t)document_of(s, i / s.T, i % s.T);
    return tensor2(begin, ZR_I32, s.B, s.T);
}

static kernel_call forward_call(size s, double scale, double p, void *const *part, zr_dtype g, void *y, float *lse)
{
    kernel_call call = {.name = "attention", .attr = attributes(s, scale, p), .n_out = 2};
    call.runtime = (zr_runtime){.seed = 0xfeedbeef01234567u, .step = 4, .first_row = 6};
    call.n_in = tensors_of(s, g, part, call.in);
    if (s.borders[0]) call.in[call.n_in++] = documents_of(s);
    call.out[0] = tensor3(y, g, s.B, s.T, width(s));
    call.out[1] = tensor3(lse, ZR_F32, s.B, s.n_head, s.T);
    return call;
}

/* Build the backward call from `forward`'s operands and outputs. */
static kernel_call backward_call(size s, const kernel_call *forward_of, void *dy, void *const *grad)
{
    zr_dtype g = forward_of->in[0].dtype;
    const int n = s.apart ? PARTS : 1;
    kernel_call call = {.name = "attention_dx", .attr = forward_of->attr, .n_in = forward_of->n_in + 3, .n_out = n};
    call.runtime = forward_of->runtime;
    call.in[0] = tensor3(dy, g, s.B, s.T, width(s));
    for (int i = 0; i < n; i++) call.in[1 + i] = forward_of->in[i];
    call.in[n + 1] = forward_of->out[0];
    call.in[n + 2] = forward_of->out[1];
    if (s.borders[0]) call.in[n + 3] = forward_of->in[n];
    tensors_of(s, g, grad, call.out);
    return call;
}

/* Return the scratch bytes of one thread. */
static int64_t scratch_of(size s, zr_dtype g, bool backward_pass)
{
    return zr__attention_scratch_bytes(s.T, s.D, g, backward_pass, is_shared(s), s.both && s.borders[0]);
}

/* Check one size, as rank number `place` of its tensor-parallel ranks. */
static void check(const level_pair *level, size s, zr_dtype g, double scale, double p, int64_t place)
{
    if (!is_in_run()) return;
    const int64_t n = elems(s, Q), n_lse = s.B * s.n_head * s.T;
    const int64_t widest = p > 0.0 ? GPU_WIDEST_DROPPED : GPU_WIDEST;
    const zr_device_facts *facts = &level->one->profile.facts;
    const bool tensor_cores = facts->own_memory && s.D <= widest && scale > 0.0;
    const bool pairs = !facts->own_memory && facts->narrow_attention && g == ZR_BF16;
    void *part[PARTS], *grad[PARTS], *dy = array_random(g, n, 1.0), *y = array_new(g, n);
    double *want[PARTS];
    float *lse = array_new(ZR_F32, n_lse);
    parts_random(s, g, 2.0, part);
    kernel_call call = forward_call(s, scale, p, part, g, y, lse);
    call.runtime.place = place;
    reference f = reference_make(s, (float)scale, part, g, &call.runtime, p);
    if (tensor_cores || pairs) f.weights = g;
    forward(&f);
    run_twice(level, call, scratch_of(s, g, false));
    assert_close_but("attention", y, g, f.y, f.y_slack, n, 1e-5 * largest(1e-30, f.y, n));
    assert_close("lse", lse, ZR_F32, f.lse, n_lse, 1e-5);

    for (int i = 0; i < PARTS; i++) {
        grad[i] = array_new(g, elems(s, i));
        want[i] = doubles_new(elems(s, i));
    }
    kernel_call back = backward_call(s, &call, dy, grad);
    f.y = doubles_of(y, g, n); /* y as stored, after rounding */
    f.lse = doubles_of(lse, ZR_F32, n_lse);
    backward(&f, doubles_of(dy, g, n), want);
    run_twice(level, back, scratch_of(s, g, true));
    if (!s.apart) copy_columns(s, g, back.out[0].data, grad, false);
    double most = 1e-30;
    for (int i = 0; i < PARTS; i++) most = largest(most, want[i], elems(s, i));
    for (int i = 0; i < PARTS; i++)
        assert_close_but(names[i], grad[i], g, want[i], f.slack[i], elems(s, i), 1e-5 * most);
}

/* Return whether a short run leaves out a case. Each size is checked either with or without dropout, alternating with
 * sizes and types. The stand-in for GPUs is slow, so it checks each size in only one type; several sizes have the same
 * width of GPU kernels. Where both 16-bit types have the same kernels, sizes other than GPT-2's are checked in only one
 * of them. */
static bool is_left_out(const level_pair *level, size s, int turn, int g, int drop)
{
    const zr_device_facts *facts = &level->one->profile.facts;
    if (is_long_run()) return false;
    if (drop != (turn + g) % 2) return true;
#ifndef ZR_GPU
    if (facts->own_memory) return g != turn % N_DTYPES;
#endif
    return (facts->own_memory || !facts->narrow_attention) && !is_plain(s) &&
           dtypes[g] == (turn / 2 % 2 ? ZR_BF16 : ZR_F16);
}

/* Check a size in each type with and without dropout. */
static void check_size(const level_pair *level, size s, int turn)
{
    for (int g = 0; g < N_DTYPES; g++)
        for (int drop = 0; drop < 2; drop++) {
            if (is_left_out(level, s, turn, g, drop)) continue;
            size of = s;
            if (is_plain(s) && drop) of.ranks = 1 + turn / 2 % 2;
            const int64_t last = of.ranks ? of.ranks - 1 : 0;
            for (int64_t place = is_plain(s) ? last : 0; place <= last; place++)
                check(level, of, dtypes[g], 1.0 / sqrt((double)s.D), drop ? 0.2 : 0.0, place);
            pool_clear();
        }
}

/* Check a list of sizes. A short run leaves long rows to the lists for GPUs where the stand-in for GPUs, which is slow,
 * would compute them. */
static void check_sizes(const level_pair *level, const size *list, int n, bool for_gpus)
{
    const bool gpu = level->one->profile.facts.own_memory;
    if (for_gpus && !gpu) return;
    for (int i = 0; i < n; i++) {
#ifndef ZR_GPU
        if (gpu && !for_gpus && list[i].T > 140 && !is_long_run()) continue;
#endif
        check_size(level, list[i], i);
    }
}

static void values(const level_pair *level)
{
    check_sizes(level, sizes, N_SIZES, false);
    check_sizes(level, gpu_sizes, N_GPU_SIZES, true);
    check_sizes(level, kinds, N_KINDS, false);
    check_sizes(level, gpu_kinds, N_GPU_KINDS, true);
    check_sizes(level, documents, N_DOCUMENTS, false);
    check_sizes(level, gpu_documents, N_GPU_DOCUMENTS, true);
    for (int g = 0; g < N_DTYPES; g++) check(level, (size)PLAIN(1, 20, 2, 8), dtypes[g], -0.4, 0.2, 0);
}

static void test_values(void **state)
{
    (void)state;
    for_every_level(values);
}

/* Check scores of 1e4 and more, of both signs: weights are nearly one-hot and nothing overflows. */
static void large_scores_of(const level_pair *level, size s)
{
    const int64_t n = elems(s, Q), n_lse = s.n_head * s.T;
    void *part[PARTS], *grad[PARTS];
    float *dy = array_random(ZR_F32, n, 1.0), *y = array_new(ZR_F32, n), *lse = array_new(ZR_F32, n_lse);
    parts_random(s, ZR_F32, 100.0, part);
    kernel_call call = forward_call(s, 1.0, 0.0, part, ZR_F32, y, lse);
    reference f = reference_make(s, 1.0, part, ZR_F32, &call.runtime, 0.0);
    forward(&f);
    run_both(level, call, scratch_of(s, ZR_F32, false));
    assert_close("lse", lse, ZR_F32, f.lse, n_lse, 1e-6);
    assert_close("attention", y, ZR_F32, f.y, n, 1e-2); /* a score of 1e5 has an ulp of 8e-3 */
    for (int i = 0; i < PARTS; i++) grad[i] = array_new(ZR_F32, elems(s, i));
    kernel_call back = backward_call(s, &call, dy, grad);
    run_both(level, back, scratch_of(s, ZR_F32, true));
    for (int i = 0; i < back.n_out; i++)
        for (int64_t k = 0; k < zr_shape_elems(&back.out[i].shape); k++)
            assert_true(isfinite(((float *)back.out[i].data)[k]));
}

static void large_scores(const level_pair *level)
{
    if (!is_in_run()) return;
    large_scores_of(level, (size)PLAIN(1, 130, 2, 16));
    large_scores_of(level, (size){1, 130, 2, 16, .kv = 1, .window = 50});
}

static void test_large_scores(void **state)
{
    (void)state;
    for_every_level(large_scores);
}

/* Check that all values are finite: a NaN in another head or row has no effect. */
static void assert_finite(const void *x, zr_dtype g, int64_t first, int64_t n)
{
    for (int64_t i = first; i < first + n; i++) assert_true(isfinite(array_get(x, g, i)));
}

static void assert_nan(const void *x, zr_dtype g, int64_t i)
{
    assert_true(isnan(array_get(x, g, i)));
}

/* Check that a NaN in a key shows in every later query of its head, and in no other head or row. */
static void not_a_number_in(const level_pair *level, zr_dtype g, int64_t row)
{
    const size s = PLAIN(2, 130, 2, 8);
    const int64_t n = elems(s, Q), t = row ? 0 : 100, other = (1 - row) * s.T;
    void *part[PARTS], *grad[PARTS], *dy = array_random(g, n, 1.0), *y = array_new(g, n);
    float *lse = array_new(ZR_F32, s.B * s.n_head * s.T);
    parts_random(s, g, 1.0, part);
    for (int i = 0; i < PARTS; i++) grad[i] = array_new(g, n);
    array_set(part[K], g, (row * s.T + t) * 16 + 3, NAN); /* head 0 */
    kernel_call call = forward_call(s, 0.3, 0.0, part, g, y, lse);
    run_twice(level, call, scratch_of(s, g, false));
    kernel_call back = backward_call(s, &call, dy, grad);
    run_twice(level, back, scratch_of(s, g, true));
    const void *dqkv = back.out[0].data;
    for (int64_t i = 0; i < s.T; i++) {
        const int64_t at = row * s.T + i, query = row * s.n_head * s.T + i;
        if (i >= t) {
            assert_nan(y, g, at * 16);
            assert_nan(lse, ZR_F32, query);
            assert_nan(dqkv, g, at * 48);
        } else {
            assert_finite(y, g, at * 16, 8);
            assert_finite(lse, ZR_F32, query, 1);
        }
        assert_finite(y, g, at * 16 + 8, 8);
        for (int p = 0; p < 3; p++) assert_finite(dqkv, g, at * 48 + 16 * p + 8, 8);
    }
    assert_finite(y, g, other * 16, s.T * 16);
    assert_finite(dqkv, g, other * 48, s.T * 48);
}

/* Check that blocks of keys before the window or the document are not read: with NaN in the first token's key and
 * value, queries whose windows or documents begin in later blocks have finite results. */
static void before_the_keys(const level_pair *level, size s, zr_dtype g)
{
    void *part[PARTS], *grad[PARTS];
    void *dy = array_random(g, elems(s, Q), 1.0), *y = array_new(g, elems(s, Q));
    float *lse = array_new(ZR_F32, s.n_head * s.T);
    parts_random(s, g, 1.0, part);
    for (int i = 0; i < PARTS; i++) grad[i] = array_new(g, elems(s, i));
    for (int i = K; i < PARTS; i++) array_set(part[i], g, 0, NAN);
    kernel_call call = forward_call(s, 0.3, 0.0, part, g, y, lse);
    run_both(level, call, scratch_of(s, g, false));
    run_both(level, backward_call(s, &call, dy, grad), scratch_of(s, g, true));
    const int64_t first = 2 * ZR__ATTENTION_BLOCK, rest = (s.T - first) * s.D;
    assert_nan(y, g, 0);
    assert_finite(y, g, first * 2 * s.D, 2 * rest);
    assert_finite(grad[Q], g, first * 2 * s.D, 2 * rest);
    for (int i = K; i < PARTS; i++) assert_finite(grad[i], g, first * s.D, rest);
}

/* Check that a fused operand and three operands give the same bits. */
static void fused_and_apart(const level_pair *level)
{
    size s = {2, 70, 4, 5, .kv = 2};
    void *part[PARTS], *grad[2][PARTS], *dy = array_random(ZR_BF16, elems(s, Q), 1.0);
    void *y[2] = {array_new(ZR_BF16, elems(s, Q)), array_new(ZR_BF16, elems(s, Q))};
    parts_random(s, ZR_BF16, 1.0, part);
    for (int way = 0; way < 2; way++) {
        s.apart = way;
        for (int i = 0; i < PARTS; i++) grad[way][i] = array_new(ZR_BF16, elems(s, i));
        float *lse = array_new(ZR_F32, s.B * s.n_head * s.T);
        kernel_call call = forward_call(s, 0.4, 0.2, part, ZR_BF16, y[way], lse);
        run_both(level, call, scratch_of(s, ZR_BF16, false));
        kernel_call back = backward_call(s, &call, dy, grad[way]);
        run_both(level, back, scratch_of(s, ZR_BF16, true));
        if (!s.apart) copy_columns(s, ZR_BF16, back.out[0].data, grad[way], false);
    }
    assert_memory_equal(y[0], y[1], (size_t)(2 * elems(s, Q)));
    for (int i = 0; i < PARTS; i++) assert_memory_equal(grad[0][i], grad[1][i], (size_t)(2 * elems(s, i)));
}

/* Check that a document that begins at the edge of a block has the bits that it has alone in a row. */
static void alone_and_packed(const level_pair *level, zr_dtype g)
{
    enum { FIRST = ZR__ATTENTION_BLOCK, LAST = 2 * ZR__ATTENTION_BLOCK + 70 };
    const int64_t element = zr_dtype_bytes(g);
    const size packed = {1, LAST, 4, 20, .kv = 2, .window = 90, .apart = true, .borders = {10, FIRST}};
    const size alone = {1, LAST - FIRST, 4, 20, .kv = 2, .window = 90, .apart = true};
    void *part[PARTS], *own[PARTS], *grad[PARTS], *own_grad[PARTS];
    char *dy = array_random(g, elems(packed, Q), 1.0), *y = array_new(g, elems(packed, Q));
    void *own_y = array_new(g, elems(alone, Q));
    float *lse = array_new(ZR_F32, 4 * packed.T), *own_lse = array_new(ZR_F32, 4 * alone.T);
    if (level->one->profile.facts.own_memory) return; /* with other tiles */
    parts_random(packed, g, 1.0, part);
    for (int i = 0; i < PARTS; i++) {
        own[i] = (char *)part[i] + FIRST * columns(packed, i) * element;
        grad[i] = array_new(g, elems(packed, i));
        own_grad[i] = array_new(g, elems(alone, i));
    }
    kernel_call call = forward_call(packed, 0.3, 0.0, part, g, y, lse);
    kernel_call own_call = forward_call(alone, 0.3, 0.0, own, g, own_y, own_lse);
    run_both(level, call, scratch_of(packed, g, false));
    run_both(level, own_call, scratch_of(alone, g, false));
    assert_memory_equal(y + FIRST * width(packed) * element, own_y, (size_t)(elems(alone, Q) * element));
    kernel_call back = backward_call(packed, &call, dy, grad);
    kernel_call own_back = backward_call(alone, &own_call, dy + FIRST * width(packed) * element, own_grad);
    run_both(level, back, scratch_of(packed, g, true));
    run_both(level, own_back, scratch_of(alone, g, true));
    for (int i = 0; i < PARTS; i++)
        assert_memory_equal((char *)grad[i] + FIRST * columns(packed, i) * element, own_grad[i],
                            (size_t)(elems(alone, i) * element));
}

static void kinds_of_operands(const level_pair *level)
{
    if (!is_in_run()) return;
    const size window = {1, 200, 2, 8, .kv = 1, .window = 20, .apart = true};
    const size document = {1, 200, 2, 8, .kv = 1, .apart = true, .borders = {3, 128, 140}};
    before_the_keys(level, window, ZR_F32);
    before_the_keys(level, window, ZR_BF16); /* on tensor cores */
    before_the_keys(level, document, ZR_F32);
    before_the_keys(level, document, ZR_BF16);
    for (int g = 0; g < N_DTYPES; g++) alone_and_packed(level, dtypes[g]);
    fused_and_apart(level);
}

static void test_kinds_of_operands(void **state)
{
    (void)state;
    for_every_level(kinds_of_operands);
}

static void not_a_number(const level_pair *level)
{
    if (!is_in_run()) return;
    not_a_number_in(level, ZR_F32, 0);
    for (int g = 0; g < N_DTYPES; g++) not_a_number_in(level, dtypes[g], 1);
}

static void test_not_a_number(void **state)
{
    (void)state;
    for_every_level(not_a_number);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),         cmocka_unit_test(test_values),
        cmocka_unit_test(test_large_scores),      cmocka_unit_test(test_not_a_number),
        cmocka_unit_test(test_kinds_of_operands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
