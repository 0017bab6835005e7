//TEST timeout=120 long=more
/* attention, attention_dx, attention_cached. */
#include "kernel_check.h"
#include "long.h"

#include "device/cpu/attention_blocks.h"

typedef struct size {
    int64_t B, T, n_head, D;
} size;

/* Sizes around the edges of blocks (64), of lanes and of register tiles; odd heads, heads wider than a register tile.
 */
static const size sizes[] = {{1, 1, 1, 1},   {2, 1, 3, 19},   {2, 7, 1, 16},  {1, 15, 2, 33},
                             {2, 33, 3, 19}, {1, 48, 2, 64},  {1, 63, 2, 8},  {1, 64, 2, 32},
                             {1, 65, 1, 20}, {2, 150, 3, 19}, {1, 193, 1, 72}};
#define N_SIZES (int)(sizeof sizes / sizeof *sizes)

/* Sizes for GPUs, whose tiles have 16 to 128 tokens, with kernels for widths of 32, 64, 96, 128, 256 and any other.
 * Where T is a multiple of 4, random numbers are drawn in blocks of four keys. */
static const size gpu_sizes[] = {{1, 63, 2, 16},  {2, 64, 1, 25},  {1, 65, 1, 64},  {1, 129, 1, 80}, {1, 200, 1, 24},
                                 {1, 132, 1, 57}, {1, 68, 1, 128}, {1, 66, 1, 136}, {1, 20, 1, 256}, {1, 20, 1, 264}};
#define N_GPU_SIZES (int)(sizeof gpu_sizes / sizeof *gpu_sizes)
enum { GPU_WIDEST = 256, GPU_WIDEST_DROPPED = 128 }; /* the widest heads for tensor cores, without and with dropout */

/* ---- reference ------------------------------------------------------------------------------- */

/* A reference in double. factor (B,n_head,T,T) holds dropout's factors, NULL: none. Where weights and gradients of
 * scores are rounded to a 16-bit type before they are multiplied, y_slack and dqkv_slack bound the added error;
 * elsewhere `weights` is ZR_F32. */
typedef struct reference {
    size s;
    double scale;
    double *factor;
    double *qkv, *y, *lse;
    zr_dtype weights;
    double *y_slack, *dqkv_slack;
} reference;

static int64_t width(size s)
{
    return s.n_head * s.D;
}

static const double *part(const reference *f, int64_t b, int64_t h, int64_t t, int which)
{
    return f->qkv + ((b * f->s.T + t) * 3 + which) * width(f->s) + h * f->s.D;
}

static double dot(const double *x, const double *y, int64_t n)
{
    return weighted_sum(x, y, n);
}

static double factor_at(const reference *f, int64_t b, int64_t h, int64_t i, int64_t j)
{
    return f->factor ? f->factor[((b * f->s.n_head + h) * f->s.T + i) * f->s.T + j] : 1.0;
}

static void forward_query(const reference *f, int64_t b, int64_t h, int64_t i)
{
    double score[512], max = -INFINITY, sum = 0.0;
    const int64_t at = (b * f->s.T + i) * width(f->s) + h * f->s.D;
    double *y = f->y + at;
    for (int64_t j = 0; j <= i; j++) {
        score[j] = f->scale * dot(part(f, b, h, i, 0), part(f, b, h, j, 1), f->s.D);
        max = fmax(max, score[j]);
    }
    for (int64_t j = 0; j <= i; j++) sum += exp(score[j] - max);
    double lse = max + log(sum);
    f->lse[(b * f->s.n_head + h) * f->s.T + i] = lse;
    for (int64_t d = 0; d < f->s.D; d++) {
        y[d] = 0.0;
        for (int64_t j = 0; j <= i; j++) {
            const double weight = exp(score[j] - lse) * factor_at(f, b, h, i, j), v = part(f, b, h, j, 2)[d];
            y[d] += weight * v;
            if (f->weights != ZR_F32) f->y_slack[at + d] += storage_error(f->weights, weight) * fabs(v);
        }
    }
}

static void forward(const reference *f)
{
    for (int64_t b = 0; b < f->s.B; b++)
        for (int64_t h = 0; h < f->s.n_head; h++)
            for (int64_t i = 0; i < f->s.T; i++) forward_query(f, b, h, i);
}

/* Return the slack of an element of qkv. */
static double *slack_of(const reference *f, const double *x)
{
    return f->dqkv_slack + (x - f->qkv);
}

/* Add a query's gradients to dqkv, from y and lse as stored. */
static void backward_query(const reference *f, const double *dy_all, double *dqkv, int64_t b, int64_t h, int64_t i)
{
    const int64_t C = width(f->s), D = f->s.D, at = (b * f->s.T + i) * C + h * D;
    const double *dy = dy_all + at, *q = part(f, b, h, i, 0);
    double delta = dot(dy, f->y + at, D), lse = f->lse[(b * f->s.n_head + h) * f->s.T + i];
    double *dq = dqkv + (q - f->qkv);
    for (int64_t j = 0; j <= i; j++) {
        const double *k = part(f, b, h, j, 1), *v = part(f, b, h, j, 2);
        double *dk = dqkv + (k - f->qkv), *dv = dqkv + (v - f->qkv);
        double p = exp(f->scale * dot(q, k, D) - lse), factor = factor_at(f, b, h, i, j);
        double ds = p * (factor * dot(dy, v, D) - delta) * f->scale;
        for (int64_t d = 0; d < D; d++) {
            dq[d] += ds * k[d];
            dk[d] += ds * q[d];
            dv[d] += p * factor * dy[d];
        }
        if (f->weights == ZR_F32) continue;
        const double ds_slack = storage_error(f->weights, ds / f->scale) * f->scale;
        const double p_slack = storage_error(f->weights, p * factor);
        for (int64_t d = 0; d < D; d++) {
            slack_of(f, q)[d] += ds_slack * fabs(k[d]);
            slack_of(f, k)[d] += ds_slack * fabs(q[d]);
            slack_of(f, v)[d] += p_slack * fabs(dy[d]);
        }
    }
}

static void backward(const reference *f, const double *dy, double *dqkv)
{
    for (int64_t b = 0; b < f->s.B; b++)
        for (int64_t h = 0; h < f->s.n_head; h++)
            for (int64_t i = 0; i < f->s.T; i++) backward_query(f, dy, dqkv, b, h, i);
}

/* Return dropout's factors as zr/ops.h defines them. Place 1 has the second half of the heads of a model twice as wide.
 */
static double *make_factors(size s, const zr_runtime *runtime, uint32_t stream, double p)
{
    const int64_t all_heads = s.n_head * (runtime->place + 1), first_head = s.n_head * runtime->place;
    if (p == 0.0) return NULL;
    const zr_rng rng = {runtime->seed, ZR_RNG_DROPOUT, stream, (uint32_t)runtime->step};
    double *factor = doubles_new(s.B * s.n_head * s.T * s.T);
    int64_t n = 0;
    for (int64_t b = 0; b < s.B; b++)
        for (int64_t h = 0; h < s.n_head; h++)
            for (int64_t i = 0; i < s.T; i++)
                for (int64_t j = 0; j < s.T; j++) {
                    int64_t e = ((runtime->first_row + b) * all_heads + first_head + h) * s.T * s.T + i * s.T + j;
                    double u = (double)(zr_rng_u32(&rng, (uint64_t)e) >> 8) * 0x1p-24;
                    factor[n++] = u >= p ? 1.0 / (1.0 - p) : 0.0;
                }
    return factor;
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
    const size s = {2, 5, 2, 3};
    const int64_t n = s.B * s.T * width(s);
    const zr_runtime runtime = {.seed = 3};
    for (int drop = 0; drop < 2; drop++) {
        loss_context l = {{s, 0.6, make_factors(s, &runtime, 1, drop * 0.3),
                           doubles_of(array_random(ZR_F32, 3 * n, 1.5), ZR_F32, 3 * n), doubles_new(n),
                           doubles_new(s.B * s.n_head * s.T), ZR_F32, NULL, NULL},
                          doubles_of(array_random(ZR_F32, n, 1.0), ZR_F32, n)};
        double *dqkv = doubles_new(3 * n), *want = numeric_gradient(loss, &l, l.f.qkv, 3 * n);
        forward(&l.f);
        backward(&l.f, l.weight, dqkv);
        assert_doubles_close("dqkv", dqkv, want, 3 * n, 1e-7);
    }
    pool_clear();
}

/* ---- kernels --------------------------------------------------------------------------------- */

static zr_op_attr attributes(size s, double scale, double p)
{
    return (zr_op_attr){.i = {s.n_head, 5}, .f = {scale, p}};
}

/* Check like assert_close, but allow each element its slack before rounding for storage. */
static void assert_close_but(const char *what, const void *got, zr_dtype g, const double *want, const double *slack,
                             int64_t n, double tolerance)
{
    double scale = 1e-30;
    for (int64_t i = 0; i < n; i++) scale = fmax(scale, fabs(want[i]));
    for (int64_t i = 0; i < n; i++) {
        const double x = array_get(got, g, i);
        const double bound = tolerance * scale + slack[i] + storage_error(g, fabs(want[i]) + slack[i]);
        if (!(fabs(x - want[i]) <= bound))
            fail_msg("%s[%lld of %lld] %s: %.9g, not %.9g (bound %.3g)", what, (long long)i, (long long)n,
                     zr_dtype_name(g), x, want[i], bound);
    }
}

static kernel_call forward_call(size s, double scale, double p, void *qkv, zr_dtype g, void *y, float *lse)
{
    kernel_call call = {.name = "attention", .attr = attributes(s, scale, p), .n_in = 1, .n_out = 2};
    call.runtime = (zr_runtime){.seed = 0xfeedbeef01234567u, .step = 4, .first_row = 6};
    call.in[0] = tensor3(qkv, g, s.B, s.T, 3 * width(s));
    call.out[0] = tensor3(y, g, s.B, s.T, width(s));
    call.out[1] = tensor3(lse, ZR_F32, s.B, s.n_head, s.T);
    return call;
}

/* Build the backward call from `forward`'s operands and outputs. */
static kernel_call backward_call(size s, const kernel_call *forward_of, void *dy, void *dqkv)
{
    zr_dtype g = forward_of->in[0].dtype;
    kernel_call call = {.name = "attention_dx", .attr = forward_of->attr, .n_in = 4, .n_out = 1};
    call.runtime = forward_of->runtime;
    call.in[0] = tensor3(dy, g, s.B, s.T, width(s));
    call.in[1] = forward_of->in[0];
    call.in[2] = forward_of->out[0];
    call.in[3] = forward_of->out[1];
    call.out[0] = tensor3(dqkv, g, s.B, s.T, 3 * width(s));
    return call;
}

/* Check like run_both, but run twice instead of three times on a GPU, because this is most of the test's time. */
static void run_twice(const level_pair *level, kernel_call call, int64_t per_thread)
{
    const void *const want[] = {call.out[0].data, call.out[1].data};
    if (!level->one->profile.facts.apart) {
        run_both(level, call, per_thread);
        return;
    }
    assert_int_equal(kernel_run(level->three, &call), ZR_OK);
    run_aligned(level, call, want);
}

/* Check one size. place 0: all heads; 1: the second half. */
static void check(const level_pair *level, size s, zr_dtype g, double scale, double p, int64_t place)
{
    const int64_t n = s.B * s.T * width(s), n_lse = s.B * s.n_head * s.T;
    const int64_t widest = p > 0.0 ? GPU_WIDEST_DROPPED : GPU_WIDEST;
    const bool tensor_cores = level->one->profile.facts.apart && s.D <= widest && scale > 0.0;
    void *qkv = array_random(g, 3 * n, 2.0), *dy = array_random(g, n, 1.0);
    void *y = array_new(g, n), *dqkv = array_new(g, 3 * n);
    float *lse = array_new(ZR_F32, n_lse);
    kernel_call call = forward_call(s, scale, p, qkv, g, y, lse);
    call.runtime.place = place;
    call.attr.i[2] = place ? 2 * s.n_head : 0;
    reference f = {s,
                   (float)scale,
                   make_factors(s, &call.runtime, 5, p),
                   doubles_of(qkv, g, 3 * n),
                   doubles_new(n),
                   doubles_new(n_lse),
                   tensor_cores ? g : ZR_F32,
                   doubles_new(n),
                   doubles_new(3 * n)};
    forward(&f);
    run_twice(level, call, zr__attention_scratch_bytes(s.T, s.D, false));
    assert_close_but("attention", y, g, f.y, f.y_slack, n, 1e-5);
    assert_close("lse", lse, ZR_F32, f.lse, n_lse, 1e-5);

    kernel_call back = backward_call(s, &call, dy, dqkv);
    double *want = doubles_new(3 * n);
    f.y = doubles_of(y, g, n); /* rounded as stored */
    f.lse = doubles_of(lse, ZR_F32, n_lse);
    backward(&f, doubles_of(dy, g, n), want);
    run_twice(level, back, zr__attention_scratch_bytes(s.T, s.D, true));
    assert_close_but("attention_dx", dqkv, g, want, f.dqkv_slack, 3 * n, 1e-5);
}

/* Check a size in each type with and without dropout; in a short run only one of the two, alternating with sizes and
 * types. */
static void check_size(const level_pair *level, size s, int turn)
{
    for (int g = 0; g < N_DTYPES; g++)
        for (int drop = 0; drop < 2; drop++) {
            if (drop != (turn + g) % 2 && !is_long_run()) continue;
            check(level, s, dtypes[g], 1.0 / sqrt((double)s.D), drop ? 0.2 : 0.0, drop ? turn / 2 % 2 : 0);
            pool_clear();
        }
}

static void values(const level_pair *level)
{
    for (int i = 0; i < N_SIZES; i++) check_size(level, sizes[i], i);
    for (int i = 0; level->one->profile.facts.apart && i < N_GPU_SIZES; i++) check_size(level, gpu_sizes[i], i);
    for (int g = 0; g < N_DTYPES; g++) check(level, (size){1, 20, 2, 8}, dtypes[g], -0.4, 0.2, 0);
}

static void test_values(void **state)
{
    (void)state;
    for_every_level(values);
}

/* Check scores of 1e4 and more, of both signs: weights are nearly one-hot and nothing overflows. */
static void large_scores(const level_pair *level)
{
    const size s = {1, 130, 2, 16};
    const int64_t n = s.B * s.T * width(s);
    float *qkv = array_random(ZR_F32, 3 * n, 100.0), *dy = array_random(ZR_F32, n, 1.0);
    float *y = array_new(ZR_F32, n), *lse = array_new(ZR_F32, s.n_head * s.T), *dqkv = array_new(ZR_F32, 3 * n);
    kernel_call call = forward_call(s, 1.0, 0.0, qkv, ZR_F32, y, lse);
    reference f = {s,      1.0,  NULL, doubles_of(qkv, ZR_F32, 3 * n), doubles_new(n), doubles_new(s.n_head * s.T),
                   ZR_F32, NULL, NULL};
    forward(&f);
    run_both(level, call, zr__attention_scratch_bytes(s.T, s.D, false));
    assert_close("lse", lse, ZR_F32, f.lse, s.n_head * s.T, 1e-6);
    assert_close("attention", y, ZR_F32, f.y, n, 1e-2); /* a score of 1e5 has an ulp of 8e-3 */
    run_both(level, backward_call(s, &call, dy, dqkv), zr__attention_scratch_bytes(s.T, s.D, true));
    for (int64_t i = 0; i < 3 * n; i++) assert_true(isfinite(dqkv[i]));
}

static void test_large_scores(void **state)
{
    (void)state;
    for_every_level(large_scores);
}

/* Check that a NaN outside the head and row that a result depends on has no effect. */
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
    const size s = {2, 130, 2, 8};
    const int64_t n = s.B * s.T * width(s), t = row ? 0 : 100, other = (1 - row) * s.T;
    void *qkv = array_random(g, 3 * n, 1.0), *dy = array_random(g, n, 1.0);
    void *y = array_new(g, n), *dqkv = array_new(g, 3 * n);
    float *lse = array_new(ZR_F32, s.B * s.n_head * s.T);
    array_set(qkv, g, ((row * s.T + t) * 3 + 1) * 16 + 3, NAN); /* head 0 */
    kernel_call call = forward_call(s, 0.3, 0.0, qkv, g, y, lse);
    run_twice(level, call, zr__attention_scratch_bytes(s.T, s.D, false));
    run_twice(level, backward_call(s, &call, dy, dqkv), zr__attention_scratch_bytes(s.T, s.D, true));
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
        for (int part = 0; part < 3; part++) assert_finite(dqkv, g, at * 48 + 16 * part + 8, 8);
    }
    assert_finite(y, g, other * 16, s.T * 16);
    assert_finite(dqkv, g, other * 48, s.T * 48);
}

static void not_a_number(const level_pair *level)
{
    not_a_number_in(level, ZR_F32, 0);
    for (int g = 0; g < N_DTYPES; g++) not_a_number_in(level, dtypes[g], 1);
}

static void test_not_a_number(void **state)
{
    (void)state;
    for_every_level(not_a_number);
}

/* ---- one token at a time --------------------------------------------------------------------- */

/* Check that decoding T tokens one by one gives the result of the whole sequence, and fills the cache with k and v. */
static void check_cached(const level_pair *level, size s, zr_dtype g)
{
    const int64_t C = width(s), length = s.T + 2, bytes = zr_dtype_bytes(g);
    const double scale = 1.0 / sqrt((double)s.D);
    char *qkv = array_random(g, 3 * s.T * C, 2.0), *cache = array_new(g, 2 * length * C);
    char *y = array_new(g, s.T * C);
    reference f = {
        s,      (float)scale, NULL, doubles_of(qkv, g, 3 * s.T * C), doubles_new(s.T * C), doubles_new(s.n_head * s.T),
        ZR_F32, NULL,         NULL};
    forward(&f);
    for (int64_t t = 0; t < s.T; t++) {
        kernel_call call = {.name = "attention_cached", .attr = attributes(s, scale, 0.0), .n_in = 2, .n_out = 1};
        call.runtime.position = t;
        call.scratch_bytes = s.n_head * length * 4;
        call.in[0] = tensor3(qkv + 3 * t * C * bytes, g, 1, 1, 3 * C);
        call.in[1] = tensor3(cache, g, 2, length, C);
        call.out[0] = tensor3(y + t * C * bytes, g, 1, 1, C);
        run_twice(level, call, 0);
        assert_memory_equal(cache + t * C * bytes, qkv + (3 * t + 1) * C * bytes, (size_t)(C * bytes));
        assert_memory_equal(cache + (length + t) * C * bytes, qkv + (3 * t + 2) * C * bytes, (size_t)(C * bytes));
    }
    assert_close("attention_cached", y, g, f.y, s.T * C, 1e-5);
}

static void cached_values(const level_pair *level)
{
    for (int g = 0; g < N_DTYPES; g++) {
        check_cached(level, (size){1, 40, 3, 19}, dtypes[g]);
        check_cached(level, (size){1, 3, 1, 1100}, dtypes[g]); /* a head wider than a chunk */
        check_cached(level, (size){1, 70, is_long_run() ? 8 : 3, 64}, dtypes[g]);
    }
    /* GPUs process keys in stretches of 128. */
    if (level->one->profile.facts.apart) check_cached(level, (size){1, 130, 2, 5}, ZR_BF16);
}

static void test_cached(void **state)
{
    (void)state;
    for_every_level(cached_values);
}

static void cache_full(const level_pair *level)
{
    float qkv[6] = {0}, cache[12] = {0}, y[2];
    const size s = {1, 1, 1, 2};
    kernel_call call = {.name = "attention_cached", .attr = attributes(s, 1.0, 0.0), .n_in = 2, .n_out = 1};
    call.scratch_bytes = 3 * 4;
    call.in[0] = tensor3(qkv, ZR_F32, 1, 1, 6);
    call.in[1] = tensor3(cache, ZR_F32, 2, 3, 2);
    call.out[0] = tensor3(y, ZR_F32, 1, 1, 2);
    call.runtime.position = 3;
    assert_int_equal(kernel_run(level->one, &call), ZR_ERR_DATA);
    call.runtime.position = 2;
    assert_int_equal(kernel_run(level->one, &call), ZR_OK);
}

static void test_cache_full(void **state)
{
    (void)state;
    for_every_level(cache_full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),    cmocka_unit_test(test_values), cmocka_unit_test(test_large_scores),
        cmocka_unit_test(test_not_a_number), cmocka_unit_test(test_cached), cmocka_unit_test(test_cache_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
