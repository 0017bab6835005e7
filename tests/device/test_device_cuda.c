//TEST timeout=60 tsan=gpu seeds=200
//STAND_IN
/* A GPU's device functions on the stand-in of tests/cuda: sums, squares, casts, initial values and updates agree with
 * the processor's, work happens in the queue's order, and each failure is reported with its cause. */
#include "base/number/exact.h"
#include <stdatomic.h>

#include "kernel_check.h"
#include "tensor/tensor.h"

#ifndef ZR_GPU
#include "cuda/recorder.h"
#include "device/device.h"
#endif

static zr_device *gpu, *cpu;

static int make(void **state)
{
    (void)state;
    zr_device_config config = ZR_DEVICE_CONFIG_INIT;
    assert_int_equal(zr_device_create_cuda(&config, &gpu), ZR_OK);
    assert_int_equal(zr_device_create_cpu(&config, &cpu), ZR_OK);
    return 0;
}

static int unmake(void **state)
{
    (void)state;
    zr_device_destroy(&gpu);
    zr_device_destroy(&cpu);
#ifndef ZR_GPU
    assert_int_equal(zr_stand_in_taken(), 0);
#endif
    return 0;
}

static const zr_dtype types[] = {ZR_F32, ZR_BF16, ZR_F16};

/* Copies on the GPU of host arrays, until `back` copies them back. */
static kernel_copy there[128];
static int n_there;

static void *put(void *x, zr_dtype dtype, int64_t n)
{
    assert_true(n_there < (int)(sizeof there / sizeof *there));
    return kernel_put(gpu, there, &n_there, x, zr_dtype_span(dtype, n));
}

static void back(void)
{
    for (int i = 0; i < n_there; i++) kernel_take(gpu, &there[i]);
    n_there = 0;
}

/* Return memory of the host for a result that the GPU writes. */
static void *result_new(size_t bytes)
{
    void *memory = NULL;
    assert_int_equal(gpu->ops->alloc_host(gpu, (int64_t)bytes, &memory), ZR_OK);
    return memory;
}

/* Check that sums have the bits of the processor's tree, for numbers of pieces around powers of two. */
static void sums(void **state)
{
    (void)state;
    static const int pieces[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 33, 100};
    const int64_t sizes[] = {1, 7, 8, 300};
    for (int t = 0; t < 9; t++)
        for (int p = 0; p < (int)(sizeof pieces / sizeof *pieces); p++)
            for (int s = 0; s < 4; s++)
                for (int accumulate = 0; accumulate <= (types[t / 3] == ZR_F32); accumulate++) {
                    const zr_dtype out = types[t / 3], in = types[t % 3];
                    const int64_t n = sizes[s];
                    const int64_t distance = (n + 63) / 64 * 64; /* pieces in one array, which takes less time */
                    const char *all = array_random(in, pieces[p] * distance, 1.0);
                    const char *theirs = put((void *)all, in, pieces[p] * distance);
                    const void *piece[100], *their[100];
                    for (int r = 0; r < pieces[p]; r++) {
                        piece[r] = all + r * distance * zr_dtype_bytes(in);
                        their[r] = theirs + r * distance * zr_dtype_bytes(in);
                    }
                    void *want = array_random(out, n, 1.0), *got = array_copy(want, out, n);
                    assert_int_equal(cpu->ops->sum(cpu, want, out, accumulate, piece, pieces[p], in, n), ZR_OK);
                    assert_int_equal(gpu->ops->sum(gpu, put(got, out, n), out, accumulate, their, pieces[p], in, n),
                                     ZR_OK);
                    back();
                    assert_memory_equal(want, got, (size_t)(n * zr_dtype_bytes(out)));
                    pool_clear();
                }
    const void *one[1] = {NULL};
    assert_int_equal(gpu->ops->sum(gpu, NULL, ZR_BF16, true, one, 1, ZR_F32, 0), ZR_ERR_DTYPE);
    assert_int_equal(gpu->ops->sum(gpu, NULL, ZR_F32, true, one, 0, ZR_F32, 0), ZR_ERR_ARG);
}

static zr_square square_of(void *x, zr_dtype dtype, int64_t n, bool exact, int64_t first, zr_square from)
{
    zr_square *square = result_new(sizeof *square), got;
    *square = from;
    assert_int_equal(gpu->ops->square(gpu, put(x, dtype, n), dtype, n, exact, first, square), ZR_OK);
    got = *square;
    gpu->ops->free_host(gpu, square);
    back();
    return got;
}

static void squares(void **state)
{
    (void)state;
    const int64_t sizes[] = {1, 255, 4096, 4097, 70000};
    for (int t = 0; t < 3; t++)
        for (int s = 0; s < 5; s++) {
            const int64_t n = sizes[s];
            void *x = array_random(types[t], n, 3.0);
            double want = 0;
            for (int64_t i = 0; i < n; i++) want += array_get(x, types[t], i) * array_get(x, types[t], i);
            zr_square got = square_of(x, types[t], n, false, 0, (zr_square){.sum = 2.0, .bad = -1});
            assert_true(fabs(got.sum - 2.0 - want) <= 1e-12 * want);
            const zr_square exact = square_of(x, types[t], n, true, 0, (zr_square){.bad = -1});
            zr_square same = {.bad = -1};
            assert_int_equal(cpu->ops->square(cpu, x, types[t], n, true, 0, &same), ZR_OK);
            assert_memory_equal(&exact.exact, &same.exact, sizeof exact.exact);
            assert_true(exact.sum == 0 && got.bad == -1 && exact.bad == -1);
            array_set(x, types[t], n / 2, INFINITY);
            array_set(x, types[t], n - 1, NAN);
            got = square_of(x, types[t], n, s % 2, 1000, got);
            assert_int_equal(got.bad, 1000 + n / 2);
            assert_true(s % 2 ? got.exact.not_finite : !isfinite(got.sum));
            for (int64_t i = 4; i < 6 && n > 6; i++) array_set(x, types[t], i, NAN); /* one thread finds both */
            if (n > 6) assert_int_equal(square_of(x, types[t], n, false, 0, (zr_square){.bad = -1}).bad, 4);
            array_set(x, types[t], 0, NAN);
            got = square_of(x, types[t], n, false, 0, got);
            assert_int_equal(got.bad, 1000 + n / 2); /* the first bad element is the one reported */
            pool_clear();
        }
}

/* Check that a sum of squares has the same bits at any alignment of the elements. */
static void squares_apart(void **state)
{
    (void)state;
    const int64_t sizes[] = {7, 9, 5000};
    for (int t = 0; t < 3; t++)
        for (int s = 0; s < 3; s++) {
            const int64_t n = sizes[s], bytes = zr_dtype_bytes(types[t]);
            unsigned char *x = array_random(types[t], n + 1, 3.0);
            zr_square *square = result_new(sizeof *square);
            const zr_square aligned = square_of(x + bytes, types[t], n, false, 0, (zr_square){.bad = -1});
            const unsigned char *on_gpu = put(x, types[t], n + 1);
            *square = (zr_square){.bad = -1};
            assert_int_equal(gpu->ops->square(gpu, on_gpu + bytes, types[t], n, false, 0, square), ZR_OK);
            assert_memory_equal(&square->sum, &aligned.sum, sizeof aligned.sum);
            gpu->ops->free_host(gpu, square);
            back();
            pool_clear();
        }
}

/* Check a sum of squares that needs carries between bins: more squares of the largest fraction than a 64-bit sum can
 * hold. */
static void many_squares(void **state)
{
    (void)state;
    const int64_t n = 150001;
    float *x = array_new(ZR_F32, n);
    for (int64_t i = 0; i < n; i++) x[i] = i % 2 ? 0x1.fffffep3f : -0x1.fffffep3f;
    const zr_square exact = square_of(x, ZR_F32, n, true, 0, (zr_square){.bad = -1});
    zr_square same = {.bad = -1};
    assert_int_equal(cpu->ops->square(cpu, x, ZR_F32, n, true, 0, &same), ZR_OK);
    assert_memory_equal(&exact.exact, &same.exact, sizeof exact.exact);
    pool_clear();
}

static zr_exact total_of(float *x, int64_t n, zr_exact from)
{
    zr_exact *sum = result_new(sizeof *sum), got;
    *sum = from;
    assert_int_equal(gpu->ops->total(gpu, put(x, ZR_F32, n), n, sum), ZR_OK);
    got = *sum;
    gpu->ops->free_host(gpu, sum);
    back();
    return got;
}

static void totals(void **state)
{
    (void)state;
    for (int64_t n = 1; n < 200000; n = 3 * n + 1) {
        float *x = array_random(ZR_F32, n, 1e20);
        for (int64_t i = 0; i < n; i += 3) x[i] *= 1e-30f;
        for (int64_t i = 0; i < n / 2; i++) x[i] = n % 2 ? -fabsf(x[i]) : -0x1p-140f;
        zr_exact want = {.limb = {5}}, got = total_of(x, n, want);
        assert_int_equal(cpu->ops->total(cpu, x, n, &want), ZR_OK);
        assert_memory_equal(&want, &got, sizeof got);
        x[n / 2] = -INFINITY;
        got = total_of(x, n, got);
        assert_true(got.not_finite);
        pool_clear();
    }
}

static void casts_and_fills(void **state)
{
    (void)state;
    for (int t = 0; t < 9; t++) {
        const zr_dtype out = types[t / 3], in = types[t % 3];
        const int64_t n = 1003;
        void *x = array_random(in, n, 7.0), *want = array_new(out, n), *got = array_new(out, n);
        assert_int_equal(cpu->ops->cast(cpu, want, out, x, in, n, NULL), ZR_OK);
        assert_int_equal(gpu->ops->cast(gpu, put(got, out, n), out, put(x, in, n), in, n, NULL), ZR_OK);
        back();
        assert_memory_equal(want, got, (size_t)(n * zr_dtype_bytes(out)));
        assert_int_equal(gpu->ops->fill(gpu, put(got, out, n), 0x3c, 9), ZR_OK);
        back();
        assert_int_equal(((unsigned char *)got)[8], 0x3c);
        assert_int_equal(((unsigned char *)got)[9], ((unsigned char *)want)[9]);
        pool_clear();
    }
}

/* Return the number of words of n elements of a type with records, with a word on each side. The first word makes their
 * alignment the smallest that is allowed. */
static int64_t words_of(zr_dtype dtype, int64_t n)
{
    return zr_dtype_span(dtype, n) / 2 + 2;
}

/* Check that records have the bits of the processor's: encoded from each type at any alignment, decoded to each type,
 * and summed. With `feedback`, errors must have the processor's bits too. */
static void check_records(zr_dtype dtype, zr_dtype type, int64_t n, const zr_rounding *rounding, zr_feedback *feedback)
{
    const zr_dtype kept = zr__error_dtype(dtype);
    enum { PIECES = 3 };
    const int64_t words = words_of(dtype, n);
    uint16_t *piece[PIECES];
    const void *ours[PIECES], *their[PIECES];
    unsigned char *x = array_random(type, n + 1, n % 2 ? 1e-38 : 3.0);
    for (int64_t i = 128; i < n; i += 200) array_set(x, type, i, i % 3 ? INFINITY : 0);
    for (int p = 0; p < PIECES; p++) {
        const int64_t at = p % 2 * zr_dtype_bytes(type);
        uint16_t *want = array_random(ZR_BF16, words, 1.0), *got = array_copy(want, ZR_BF16, words);
        const unsigned char *from = put(x, type, n + 1);
        uint16_t *to = put(got, ZR_BF16, words);
        float *wide = array_random(ZR_F32, n, 0.3);
        uint16_t *error = array_random(ZR_BF16, words_of(kept, n), 1.0), *their_error = NULL;
        const zr_casting casting = {.rounding = rounding, .feedback = feedback};
        if (feedback) {
            assert_int_equal(cpu->ops->cast(cpu, error + 1, kept, wide, ZR_F32, n, NULL), ZR_OK);
            their_error = array_copy(error, ZR_BF16, words_of(kept, n));
            feedback->error = error + 1;
            feedback->anew = p == 1;
        }
        assert_int_equal(cpu->ops->cast(cpu, want + 1, dtype, x + at, type, n, &casting), ZR_OK);
        if (feedback) feedback->error = (uint16_t *)put(their_error, ZR_BF16, words_of(kept, n)) + 1;
        assert_int_equal(gpu->ops->cast(gpu, to + 1, dtype, from + at, type, n, &casting), ZR_OK);
        back();
        assert_memory_equal(want, got, (size_t)words * sizeof *want);
        if (feedback) assert_memory_equal(error, their_error, (size_t)words_of(kept, n) * sizeof *error);
        piece[p] = want;
        ours[p] = want + 1;
    }
    for (int64_t at = 0; at <= zr_dtype_bytes(type); at += zr_dtype_bytes(type)) {
        const size_t bytes = (size_t)((n + 1) * zr_dtype_bytes(type));
        unsigned char *want = array_random(type, n + 1, 1.0), *got = array_copy(want, type, n + 1);
        for (int sums = 0; sums < 2; sums++) {
            for (int p = 0; p < PIECES; p++) their[p] = (uint16_t *)put(piece[p], ZR_BF16, words) + 1;
            unsigned char *to = put(got, type, n + 1);
            if (sums) {
                assert_int_equal(cpu->ops->sum(cpu, want + at, type, false, ours, PIECES, dtype, n), ZR_OK);
                assert_int_equal(gpu->ops->sum(gpu, to + at, type, false, their, PIECES, dtype, n), ZR_OK);
            } else {
                assert_int_equal(cpu->ops->cast(cpu, want + at, type, ours[0], dtype, n, NULL), ZR_OK);
                assert_int_equal(gpu->ops->cast(gpu, to + at, type, their[0], dtype, n, NULL), ZR_OK);
            }
            back();
            assert_memory_equal(want, got, bytes);
        }
    }
    pool_clear();
}

static void records(void **state)
{
    (void)state;
    const int64_t sizes[] = {127, 300, 2600};
    for (zr_dtype dtype = ZR_I8X128; dtype < ZR_DTYPES; dtype++)
        for (int t = 0; t < 3; t++)
            for (int s = 0; s < 3; s++) {
                const zr_rounding rounding = {.rng = {.seed = 3, .purpose = ZR_RNG_ROUND, .step = 7, .stream = 2},
                                              .first = s == 2 ? 0x1fffffffdu : 256};
                zr_feedback feedback = {.beta = 0.75f, .scale = t == 1 ? 1000.0f : 1.0f};
                check_records(dtype, types[t], sizes[s], (s + t) % 3 ? &rounding : NULL, NULL);
                check_records(dtype, types[t], sizes[s], (s + t) % 3 == 1 ? &rounding : NULL, &feedback);
            }
}

/* Check casts to and from records with an array that is added: subtracted before records are made, and the output in
 * which they are added, at any alignment. */
static void records_added(void **state)
{
    (void)state;
    enum { N = 2600 };
    for (int way = 0; way < 18; way++) {
        const zr_dtype dtype = (zr_dtype)(ZR_I8X128 + way % (ZR_DTYPES - ZR_I8X128)), type = types[way % 3];
        const int64_t n = N - way % 2 * 1711, at = way / 3 % 2 * zr_dtype_bytes(type);
        const zr_rounding rounding = {.rng = {.seed = 3, .purpose = ZR_RNG_ROUND}, .first = 256};
        float *x = array_random(ZR_F32, n, 3.0);
        unsigned char *want = array_random(type, n + 1, 3.0), *got = array_copy(want, type, n + 1);
        uint16_t *want_made = array_new(ZR_BF16, words_of(dtype, n)), *made = array_new(ZR_BF16, words_of(dtype, n));
        unsigned char *target = put(got, type, n + 1);
        uint16_t *records = put(made, ZR_BF16, words_of(dtype, n));
        zr_casting ours = {.rounding = way % 4 ? NULL : &rounding, .added = want + at, .added_dtype = type, .sign = -1},
                   its = ours;
        its.added = target + at;
        assert_int_equal(cpu->ops->cast(cpu, want_made, dtype, x, ZR_F32, n, &ours), ZR_OK);
        assert_int_equal(gpu->ops->cast(gpu, records, dtype, put(x, ZR_F32, n), ZR_F32, n, &its), ZR_OK);
        ours.rounding = its.rounding = NULL;
        ours.sign = its.sign = 1;
        assert_int_equal(cpu->ops->cast(cpu, want + at, type, want_made, dtype, n, &ours), ZR_OK);
        assert_int_equal(gpu->ops->cast(gpu, target + at, type, records, dtype, n, &its), ZR_OK);
        back();
        assert_memory_equal(want_made, made, (size_t)zr_dtype_span(dtype, n));
        assert_memory_equal(want, got, (size_t)zr_dtype_span(type, n + 1));
        pool_clear();
    }
}

/* Check casts from records of a type to records of others, and copies of records. */
static void records_again(void **state)
{
    (void)state;
    const int64_t n = 700;
    for (zr_dtype from = ZR_I8X128; from < ZR_DTYPES; from++)
        for (zr_dtype to = ZR_I8X128; to < ZR_DTYPES; to++) {
            void *x = array_random(ZR_F32, n, 3.0), *made = array_new(ZR_BF16, words_of(from, n));
            void *want = array_new(ZR_BF16, words_of(to, n)), *got = array_new(ZR_BF16, words_of(to, n));
            assert_int_equal(cpu->ops->cast(cpu, made, from, x, ZR_F32, n, NULL), ZR_OK);
            assert_int_equal(cpu->ops->cast(cpu, want, to, made, from, n, NULL), ZR_OK);
            assert_int_equal(gpu->ops->cast(gpu, put(got, to, n), to, put(made, from, n), from, n, NULL), ZR_OK);
            back();
            assert_memory_equal(want, got, (size_t)zr_dtype_span(to, n));
            pool_clear();
        }
    const zr_rounding rounding = {.first = 0};
    assert_int_equal(gpu->ops->cast(gpu, NULL, ZR_BF16, NULL, ZR_F32, 0, &(zr_casting){.rounding = &rounding}),
                     ZR_ERR_ARG);
    assert_int_equal(gpu->ops->cast(gpu, NULL, ZR_I8X128, NULL, ZR_I32, 0, NULL), ZR_ERR_DTYPE);
}

static void initial_values(void **state)
{
    (void)state;
    const zr_rng rng = {.seed = 11, .purpose = ZR_RNG_INIT};
    const uint64_t firsts[] = {0, 1, 15, 16, 63, 64, 1000003};
    for (int f = 0; f < 7; f++) {
        float *want = array_new(ZR_F32, 517), *got = array_new(ZR_F32, 517);
        cpu->ops->normal(cpu, &rng, firsts[f], 517, 0.02f, want);
        gpu->ops->normal(gpu, &rng, firsts[f], 517, 0.02f, put(got, ZR_F32, 517));
        back();
        assert_memory_equal(want, got, 517 * sizeof *got);
        pool_clear();
    }
}

/* Check that all update rules agree with the processor's within 2e-7, since a processor without fused operations has
 * other bits, and that 16-bit parameters are the rounded masters. */
static void updates(void **state)
{
    (void)state;
    const zr_optimizer rules[] = {zr_adamw(0.9, 0.95, 1e-8, 0.1), zr_adam(0.9, 0.999, 1e-8, 0.1),
                                  zr_sgd(0, false, 0.1),          zr_sgd(0.9, false, 0.1),
                                  zr_sgd(0.9, true, 0),           zr_lamb(ZR_LAMB_DEEPSPEED, NULL),
                                  zr_lamb(ZR_LAMB_NVIDIA, NULL),  zr_lars(0, 0.02, 1e-8, 0.1),
                                  zr_lars(0.9, 0.02, 1e-8, 0.1),  zr_muon(NULL),
                                  zr_lion(0.9, 0.99, 0.1)};
    const int64_t n = 1001;
    for (int r = 0; r < 11; r++)
        for (int t = 0; t < 9; t++) {
            const zr_dtype grad = types[t / 3], param = types[t % 3];
            zr_update_args args[2];
            void *g = array_random(grad, n, 1.0), *w = array_random(ZR_F32, n, 1.0), *slot[2];
            for (int s = 0; s < 2; s++) slot[s] = array_random(ZR_F32, n, 0.1);
            for (int64_t i = 0; i < n; i++) ((float *)slot[1])[i] = fabsf(((float *)slot[1])[i]);
            for (int d = 0; d < 2; d++) {
                args[d] = (zr_update_args){.n = n,
                                           .weight = array_copy(w, ZR_F32, n),
                                           .param16 = param == ZR_F32 ? NULL : array_new(param, n),
                                           .param_dtype = param,
                                           .grad = g,
                                           .grad_dtype = grad,
                                           .grad_scale = 0.25f,
                                           .lr = 1e-2,
                                           .weight_decay = rules[r].weight_decay,
                                           .step = 3,
                                           .hyper = rules[r].hyper,
                                           .norms = {2, 3},
                                           .scale = 1.5};
                for (int s = 0; s < rules[r].n_slots; s++) args[d].slot[s] = array_copy(slot[s], ZR_F32, n);
            }
            assert_int_equal(cpu->ops->update(cpu, &rules[r], &args[0]), ZR_OK);
            zr_update_args their = args[1];
            their.weight = put(their.weight, ZR_F32, n);
            their.grad = put(g, grad, n);
            if (their.param16) their.param16 = put(their.param16, param, n);
            for (int s = 0; s < rules[r].n_slots; s++) their.slot[s] = put(their.slot[s], ZR_F32, n);
            assert_int_equal(gpu->ops->update(gpu, &rules[r], &their), ZR_OK);
            back();
            for (int64_t i = 0; i < n; i++) {
                assert_true(fabsf(args[0].weight[i] - args[1].weight[i]) <= 2e-7f);
                for (int s = 0; s < rules[r].n_slots; s++)
                    assert_true(fabsf(args[0].slot[s][i] - args[1].slot[s][i]) <= 2e-7f);
                if (args[1].param16)
                    assert_true(array_get(args[1].param16, param, i) ==
                                (param == ZR_BF16 ? zr_f32_from_bf16(zr_bf16_from_f32(args[1].weight[i]))
                                                  : zr_f32_from_f16(zr_f16_from_f32(args[1].weight[i]))));
            }
            pool_clear();
        }
    zr_optimizer own = zr_sgd(0, false, 0);
    own.name = "shampoo";
    assert_int_equal(gpu->ops->update(gpu, &own, &(zr_update_args){.hyper = own.hyper}), ZR_ERR_UNSUPPORTED);
}

/* Check that AdamW with states in records agrees with the processor's: weights, and all but a few of the codes, which
 * may differ where a moment is between two. */
static void updates_in_records(void **state)
{
    (void)state;
    static const zr_dtype kinds[] = {ZR_E4M3X256, ZR_E5M2X256};
    const int64_t sizes[] = {1001, 5 * 256};
    zr_optimizer rule = zr_adamw(0.9, 0.95, 1e-8, 0.1);
    for (int t = 0; t < 6; t++) {
        const int64_t n = sizes[t % 2], bytes = zr_dtype_span(ZR_E4M3X256, n);
        const zr_dtype grad = types[t / 2], param = types[(t + 1) % 3];
        void *g = array_random(grad, n, 1.0), *w = array_random(ZR_F32, n, 1.0);
        void *coded[2], *weight[2], *param16[2], *states[2][2];
        for (int s = 0; s < 2; s++) {
            float *x = array_random(ZR_F32, n, 0.1);
            for (int64_t i = 0; i < n; i++) x[i] = s ? x[i] * x[i] : x[i];
            coded[s] = array_new(ZR_BF16, bytes / 2);
            assert_int_equal(cpu->ops->cast(cpu, coded[s], kinds[s], x, ZR_F32, n, NULL), ZR_OK);
        }
        for (int d = 0; d < 2; d++) {
            weight[d] = array_copy(w, ZR_F32, n);
            param16[d] = param == ZR_F32 ? NULL : array_new(param, n);
            zr_update_args args = {.n = n,
                                   .weight = d ? put(weight[d], ZR_F32, n) : weight[d],
                                   .param16 = param16[d] && d ? put(param16[d], param, n) : param16[d],
                                   .param_dtype = param,
                                   .grad = d ? put(g, grad, n) : g,
                                   .grad_dtype = grad,
                                   .grad_scale = 0.25f,
                                   .lr = 1e-2,
                                   .weight_decay = 0.1,
                                   .step = 3,
                                   .hyper = rule.hyper,
                                   .slot_dtype = {kinds[0], kinds[1]},
                                   .rng = {.seed = 1, .purpose = ZR_RNG_STATES, .step = 3},
                                   .first = 512};
            for (int s = 0; s < 2; s++) {
                states[d][s] = array_copy(coded[s], ZR_BF16, bytes / 2);
                args.slot[s] = d ? put(states[d][s], ZR_BF16, bytes / 2) : states[d][s];
            }
            zr_device *device = d ? gpu : cpu;
            assert_int_equal(device->ops->update(device, &rule, &args), ZR_OK);
        }
        back();
        int64_t other = 0;
        for (int64_t i = 0; i < n; i++) assert_true(fabsf(((float *)weight[0])[i] - ((float *)weight[1])[i]) <= 2e-7f);
        for (int s = 0; s < 2; s++) {
            assert_memory_not_equal(states[1][s], coded[s], bytes);
            for (int64_t i = 0; i < bytes; i++) other += ((uint8_t *)states[0][s])[i] != ((uint8_t *)states[1][s])[i];
        }
        assert_in_range(other, 0, n / 100);
        pool_clear();
    }
}

/* Check that Muon's momentum and directions agree with the processor's, in each type of gradients and directions. */
static void directions(void **state)
{
    (void)state;
    const int64_t n = 1001;
    for (int t = 0; t < 6; t++) {
        zr_muon_args muon = zr_muon_defaults();
        muon.nesterov = t % 2 == 0;
        muon.sums = t % 3 == 0;
        zr_optimizer rule = zr_muon(&muon);
        rule.name = "muon_direction";
        const zr_dtype grad = types[t / 2], out = t % 2 ? ZR_BF16 : ZR_F32;
        void *g = array_random(grad, n, 1.0), *m = array_random(ZR_F32, n, 0.1), *u[2], *momentum[2];
        for (int d = 0; d < 2; d++) {
            zr_device *device = d ? gpu : cpu;
            u[d] = array_new(out, n);
            momentum[d] = array_copy(m, ZR_F32, n);
            void *to = d ? put(u[d], out, n) : u[d];
            const zr_update_args args = {.n = n,
                                         .weight = out == ZR_F32 ? to : NULL,
                                         .param16 = out == ZR_F32 ? NULL : to,
                                         .param_dtype = out,
                                         .grad = d ? put(g, grad, n) : g,
                                         .grad_dtype = grad,
                                         .grad_scale = 0.25f,
                                         .hyper = rule.hyper,
                                         .slot = {d ? put(momentum[d], ZR_F32, n) : momentum[d]}};
            assert_int_equal(device->ops->update(device, &rule, &args), ZR_OK);
        }
        back();
        for (int64_t i = 0; i < n; i++) {
            const double a = array_get(u[0], out, i), b = array_get(u[1], out, i);
            assert_true(fabs(a - b) <= (out == ZR_F32 ? 2e-7 : 0x1p-7 * fabs(a)) && a != 0);
            assert_true(fabsf(((float *)momentum[0])[i] - ((float *)momentum[1])[i]) <= 2e-7f);
        }
        pool_clear();
    }
}

/* Check that the squares for trust ratios agree with the processor's. Exact sums agree to the last bit if the
 * directions do. The squares do not depend on where a range is cut, at multiples of a block of the shard. */
static void squares_of_updates(void **state)
{
    (void)state;
    const zr_optimizer rules[] = {zr_lamb(ZR_LAMB_DEEPSPEED, NULL), zr_lamb(ZR_LAMB_PAPER, NULL),
                                  zr_lars(0.9, 0.02, 1e-8, 0.1)};
    const int64_t n = 3 * ZR_TRUST_BLOCK + 77, shard = ZR_TRUST_BLOCK - 9, cut = ZR_TRUST_BLOCK + 9;
    for (int r = 0; r < 3; r++)
        for (int exact = 0; exact <= 1; exact++) {
            const zr_dtype grad = types[(r + exact) % 3];
            zr_update_args args = {.n = n, .grad_dtype = grad, .grad_scale = 0.25f, .step = 3, .lr = 1};
            args.hyper = rules[r].hyper;
            args.weight_decay = 0.1;
            args.weight = array_random(ZR_F32, n, 1.0);
            args.grad = array_random(grad, n, 1.0);
            for (int s = 0; s < 2; s++) args.slot[s] = array_random(ZR_F32, n, 0.1);
            for (int64_t i = 0; i < n; i++) args.slot[1][i] = fabsf(args.slot[1][i]);
            zr_trust none = {{.bad = -1}, {.bad = -1}}, want = none, all[2] = {none, none};
            assert_int_equal(cpu->ops->square_update(cpu, &rules[r], &args, exact, shard, &want), ZR_OK);
            zr_update_args their = args;
            their.weight = put(args.weight, ZR_F32, n);
            their.grad = put((void *)args.grad, grad, n);
            for (int s = 0; s < 2; s++) their.slot[s] = put(args.slot[s], ZR_F32, n);
            void *host = NULL;
            assert_int_equal(gpu->ops->alloc_host(gpu, sizeof all, &host), ZR_OK);
            memcpy(host, all, sizeof all);
            zr_trust *got = host;
            assert_int_equal(gpu->ops->square_update(gpu, &rules[r], &their, exact, shard, &got[0]), ZR_OK);
            zr_update_args part = their;
            part.n = cut;
            assert_int_equal(gpu->ops->square_update(gpu, &rules[r], &part, exact, shard, &got[1]), ZR_OK);
            part.n = n - cut;
            part.weight += cut;
            part.grad = (const char *)part.grad + cut * zr_dtype_bytes(grad);
            for (int s = 0; s < 2; s++) part.slot[s] += cut;
            assert_int_equal(gpu->ops->square_update(gpu, &rules[r], &part, exact, shard + cut, &got[1]), ZR_OK);
            memcpy(all, host, sizeof all);
            back();
            assert_memory_equal(&all[0], &all[1], sizeof all[0]);
            if (exact) {
                assert_true(zr__exact_value(&all[0].weight.exact) == zr__exact_value(&want.weight.exact));
                const double u = zr__exact_value(&want.direction.exact);
                assert_true(fabs(zr__exact_value(&all[0].direction.exact) - u) <= 1e-6 * u && u > 0);
            } else {
                assert_true(fabs(all[0].weight.sum - want.weight.sum) <= 1e-12 * want.weight.sum);
                assert_true(fabs(all[0].direction.sum - want.direction.sum) <= 1e-6 * want.direction.sum);
            }
            gpu->ops->free_host(gpu, host);
            pool_clear();
        }
    const zr_optimizer adam = zr_adamw(0.9, 0.95, 1e-8, 0.1);
    const zr_update_args nothing = {.hyper = adam.hyper};
    assert_int_equal(gpu->ops->square_update(gpu, &adam, &nothing, false, 0, NULL), ZR_ERR_UNSUPPORTED);
}

/* ---- queues ------------------------------------------------------------------------------------ */

/* The bytes that a chain of tasks copies: from host to device memory, onward, and back. */
typedef struct relay {
    char *host, *device;
    atomic_int told; /* number of calls */
} relay;

enum { HOP = 4096 };

static zr_status hop(void *arg, zr_device *device, int64_t index)
{
    relay *r = arg;
    char *from = index == 0 ? r->host : r->device + (index - 1) * HOP, *to = r->device + index * HOP;
    return device->ops->copy(device, to, from, HOP);
}

static zr_status return_home(void *arg, zr_device *device, int64_t index)
{
    relay *r = arg;
    return device->ops->copy(device, r->host + HOP, r->device + index * HOP, HOP);
}

static void hop_ended(void *arg, int64_t index, double free_sec, double begin_sec, double end_sec)
{
    relay *r = arg;
    assert_true(free_sec <= begin_sec && begin_sec <= end_sec && end_sec <= zr_clock_sec());
    (void)index;
    atomic_fetch_add(&r->told, 1);
}

/* Queues alternate, each waiting for the last task of the queue before: one runs at once and computes, one is a
 * separate stream, one is a thread, one is a thread that only issues. The second round goes backwards. */
enum { QUEUES = 4, HOPS = 34 };
static const zr_queue_config queue_config[QUEUES] = {{.runs = ZR_QUEUE_AT_ONCE},
                                                     {.runs = ZR_QUEUE_STREAM},
                                                     {.runs = ZR_QUEUE_THREAD, .most = 4},
                                                     {.runs = ZR_QUEUE_ISSUE, .most = 4, .urgent = true}};

static void take_turns(relay *r, zr_queue *const *queue, bool timed, bool backward)
{
    const int step = backward ? QUEUES - 1 : 1;
    atomic_store(&r->told, 0);
    for (int i = 0; i < HOPS; i++) {
        zr_queue *on = queue[i * step % QUEUES], *before = queue[(i + QUEUES - 1) * step % QUEUES];
        if (i > 0) assert_int_equal(gpu->ops->await(on, gpu->ops->mark(before)), ZR_OK);
        const zr_task task = {hop, timed ? hop_ended : NULL, r, i};
        assert_int_equal(gpu->ops->issue(on, &task), ZR_OK);
    }
    zr_queue *last = queue[(HOPS - 1) * step % QUEUES];
    assert_int_equal(gpu->ops->issue(last, &(zr_task){return_home, NULL, r, HOPS - 1}), ZR_OK);
}

static void queues(void **state)
{
    (void)state;
    relay r = {0};
    void *memory;
    zr_queue *queue[QUEUES];
    for (int q = 0; q < QUEUES; q++) assert_int_equal(gpu->ops->queue_create(gpu, &queue_config[q], &queue[q]), ZR_OK);
    assert_int_equal(gpu->ops->alloc(gpu, HOPS * HOP, &memory), ZR_OK);
    r.device = memory;
    assert_int_equal(gpu->ops->alloc_host(gpu, 2 * HOP, &memory), ZR_OK);
    r.host = memory;
    for (int round = 0; round < 20; round++) {
        memset(r.host, 1 + round, HOP);
        memset(r.host + HOP, 0, HOP);
        take_turns(&r, queue, round % 2, round / 2 % 2);
        for (int q = 0; q < QUEUES; q++) assert_int_equal(gpu->ops->sync(queue[q]), ZR_OK);
        for (int i = 0; i < HOP; i++) assert_int_equal(r.host[HOP + i], 1 + round);
        assert_int_equal(atomic_load(&r.told), round % 2 ? HOPS : 0);
    }
    for (int q = QUEUES - 1; q >= 0; q--) gpu->ops->queue_destroy(queue[q]);
    gpu->ops->free(gpu, r.device);
    gpu->ops->free_host(gpu, r.host);
}

/* Check that memory of the host is zero, with one and with several threads that clear it. */
static void cleared_memory(void **state)
{
    (void)state;
    enum { BYTES = (9 << 20) + 3 };
    for (int threads = 1; threads <= 3; threads += 2) {
        zr_device_config config = ZR_DEVICE_CONFIG_INIT;
        zr_device *device;
        char *memory = NULL;
        config.threads = threads;
        assert_int_equal(zr_device_create_cuda(&config, &device), ZR_OK);
        assert_int_equal(device->ops->alloc_host(device, BYTES, (void **)&memory), ZR_OK);
        int64_t other = 0;
        for (int64_t i = 0; i < BYTES; i++) other += memory[i] != 0;
        assert_int_equal(other, 0);
        device->ops->free_host(device, memory);
        zr_device_destroy(&device);
    }
}

/* ---- rates ------------------------------------------------------------------------------------- */

static zr_dtype measured_dtype;
static int measured_products;

/* Replace products: check the operands, and take so long that no larger products follow. */
static zr_status look_at_operands(const zr_kernel_args *args)
{
    enum { LOOK = 1024 };
    uint32_t raw[LOOK];
    const double begin = zr_clock_sec();
    for (int i = 0; i < 2; i++) {
        double sum = 0, squares = 0;
        assert_int_equal(args->in[i].dtype, measured_dtype);
        assert_int_equal(
            args->device->ops->copy(args->device, raw, args->in[i].data, LOOK * zr_dtype_bytes(measured_dtype)), ZR_OK);
        for (int j = 0; j < LOOK; j++) {
            const double x = array_get(raw, measured_dtype, j);
            sum += x, squares += x * x;
        }
        assert_true(fabs(sum / LOOK) < 0.003 && fabs(sqrt(squares / LOOK) - 0.02) < 0.002);
    }
    measured_products++;
    while (zr_clock_sec() - begin < 2e-3) continue;
    return ZR_OK;
}

/* Check that the operands multiplied to measure the peak rate are normal random numbers of the measured type. */
static void measured_operands(void **state)
{
    (void)state;
    static const zr_kernel own[] = {{.op = "linear", .run = look_at_operands}, {NULL}};
    zr_device_config config = ZR_DEVICE_CONFIG_INIT;
    zr_device *device;
    config.kernels = own;
    assert_int_equal(zr_device_create_cuda(&config, &device), ZR_OK);
    for (int t = 0; t < 2; t++) {
        measured_dtype = types[t];
        measured_products = 0;
        device->ops->measure(device, types[t]);
        assert_true(measured_products > 1);
    }
    assert_true(device->profile.machine.flops_f32 > 0 && device->profile.machine.flops_bf16 > 0);
    zr_device_destroy(&device);
}

/* ---- two GPUs ---------------------------------------------------------------------------------- */

/* Use devices of several GPUs in one thread, in turn: for sums of data on the other GPU, for tasks, and for a kernel
 * that is prepared and run outside tasks. */
static zr_status sum_there(void *arg, zr_device *device, int64_t index)
{
    float *const *x = arg;
    const void *pieces[] = {x[0], x[1]};
    return device->ops->sum(device, x[index], ZR_F32, false, pieces, 2, ZR_F32, 1000);
}

static void multiply_there(zr_device *device)
{
    kernel_call call = {.name = "linear", .n_in = 3, .n_out = 1};
    float *x = array_random(ZR_F32, 16, 1.0), *w = array_random(ZR_F32, 16, 1.0), *y = array_new(ZR_F32, 16);
    call.in[0] = (zr_tensor){x, ZR_F32, {2, {4, 4}}};
    call.in[1] = (zr_tensor){w, ZR_F32, {2, {4, 4}}};
    call.out[0] = (zr_tensor){y, ZR_F32, {2, {4, 4}}};
    assert_int_equal(kernel_run(device, &call), ZR_OK);
    for (int i = 0; i < 16; i++) {
        float want = 0;
        for (int k = 0; k < 4; k++) want += x[i / 4 * 4 + k] * w[k * 4 + i % 4];
        assert_true(fabsf(want - y[i]) <= 1e-6f);
    }
}

static void two_gpus(void **state)
{
    (void)state;
    enum { N = 1000 };
    zr_device_config config = ZR_DEVICE_CONFIG_INIT;
    zr_device *device[2];
    zr_queue *queue[2];
    zr_queue_config at_once = {.runs = ZR_QUEUE_AT_ONCE};
    float *x[2], want[2][N];
    if (zr_device_cuda_count(NULL) < 2) skip();
    for (int d = 0; d < 2; d++) {
        config.gpu = d;
        assert_int_equal(zr_device_create_cuda(&config, &device[d]), ZR_OK);
    }
    for (int d = 0; d < 2; d++) {
        const zr_rng rng = {.seed = 1, .purpose = ZR_RNG_INIT};
        assert_int_equal(device[d]->ops->queue_create(device[d], &at_once, &queue[d]), ZR_OK);
        assert_int_equal(device[d]->ops->alloc(device[d], N * sizeof(float), (void **)&x[d]), ZR_OK);
        device[d]->ops->normal(device[d], &rng, (uint64_t)(N * d), N, 1.0f, x[d]);
        cpu->ops->normal(cpu, &rng, (uint64_t)(N * d), N, 1.0f, want[d]);
    }
    for (int d = 0; d < 2; d++) {
        assert_int_equal(gpu->ops->finish(gpu), ZR_OK); /* GPU 0 is current again */
        const zr_task task = {sum_there, NULL, x, d};
        assert_int_equal(device[d]->ops->issue(queue[d], &task), ZR_OK);
        assert_int_equal(device[d]->ops->sync(queue[d]), ZR_OK);
        for (int i = 0; i < N; i++) want[d][i] = want[0][i] + want[1][i];
    }
    for (int d = 0; d < 2; d++) {
        float got[N];
        assert_int_equal(device[d]->ops->cast(device[d], x[d], ZR_F32, x[d], ZR_F32, 0, NULL), ZR_OK);
        assert_int_equal(device[d]->ops->copy(device[1 - d], got, x[d], sizeof got), ZR_OK);
        assert_memory_equal(want[d], got, sizeof got);
        multiply_there(device[d]);
    }
    for (int d = 0; d < 2; d++) {
        device[d]->ops->queue_destroy(queue[d]);
        device[d]->ops->free(device[d], x[d]);
    }
    pool_clear();
    for (int d = 0; d < 2; d++) zr_device_destroy(&device[d]);
}

#ifndef ZR_GPU

/* Check that querying a GPU leaves the calling thread's current GPU unchanged. */
static void asking(void **state)
{
    (void)state;
    zr__gpu found;
    int64_t left = 0;
    int current = -1;
    assert_int_equal(cudaSetDevice(1), cudaSuccess);
    assert_int_equal(zr__device_cuda_gpu(0, &found), ZR_OK);
    assert_int_equal(zr__device_cuda_free(0, &left), ZR_OK);
    assert_true(left > 0 && left <= found.memory_bytes);
    assert_int_equal(cudaGetDevice(&current), cudaSuccess);
    assert_int_equal(current, 1);
}

/* ---- failures ---------------------------------------------------------------------------------- */

static void assert_fails(zr_status want, const char *text, zr_status got)
{
    assert_int_equal(got, want);
    if (!strstr(zr_error_message(), text)) fail_msg("\"%s\" lacks \"%s\"", zr_error_message(), text);
    zr_stand_in_fail(NULL, 0, cudaSuccess);
}

static void failures(void **state)
{
    (void)state;
    static const char *const calls[] = {"cudaGetDeviceProperties", "cudaSetDevice", "cudaStreamCreateWithFlags",
                                        "cudaMalloc", "cudaEventCreateWithFlags"};
    zr_device_config config = ZR_DEVICE_CONFIG_INIT;
    zr_device *device = NULL;
    void *memory;
    const size_t before = zr_stand_in_taken();
    for (int c = 0; c < 5; c++)
        for (int skip = 0; skip < 2; skip++) {
            zr_stand_in_fail(calls[c], skip, cudaErrorECCUncorrectable);
            const zr_status st = zr_device_create_cuda(&config, &device);
            if (st == ZR_OK) zr_device_destroy(&device);
            if (skip == 0) assert_fails(ZR_ERR_IO, "uncorrectable ECC error", st);
            zr_stand_in_fail(NULL, 0, cudaSuccess);
            assert_null(device);
            assert_int_equal(zr_stand_in_taken(), before);
        }
    config.gpu = 2;
    assert_fails(ZR_ERR_UNSUPPORTED, "there is no GPU 2; there are 2", zr_device_create_cuda(&config, &device));
    assert_fails(ZR_ERR_MEMORY, "are free", gpu->ops->alloc(gpu, (int64_t)1 << 40, &memory));
    assert_fails(ZR_ERR_ARG, "-1 bytes", gpu->ops->alloc(gpu, -1, &memory));
    zr_stand_in_fail("cudaHostAlloc", 0, cudaErrorMemoryAllocation);
    assert_fails(ZR_ERR_MEMORY, "of the host", gpu->ops->alloc_host(gpu, 100, &memory));
    zr_stand_in_fail("cudaGetDeviceCount", 0, cudaErrorInsufficientDriver);
    const char *why = NULL;
    assert_int_equal(zr_device_cuda_count(&why), 0);
    assert_string_equal(why, "the driver is older than the CUDA that zr was built with");
    config.gpu = 0;
    assert_fails(ZR_ERR_UNSUPPORTED, "the driver is older", zr_device_create_cuda(&config, &device));
    zr_stand_in_fail("cudaStreamSynchronize", 0, cudaErrorLaunchFailure);
    assert_int_equal(gpu->ops->finish(gpu), ZR_ERR_IO);
    zr_stand_in_fail(NULL, 0, cudaSuccess);
}

/* Check that a stream that waits for another stream's mark does not block the host, and waits only for the work before
 * the mark. Work after the mark has no order, which the recorder sees. The other queue is configured by `other`. */
static void check_streams(const zr_queue_config *other)
{
    relay r = {0};
    void *memory;
    zr_queue *queue[2];
    if (!zr_stand_in_late()) skip();
    zr_stand_in_collect(1);
    assert_int_equal(gpu->ops->queue_create(gpu, &queue_config[0], &queue[0]), ZR_OK);
    assert_int_equal(gpu->ops->queue_create(gpu, other, &queue[1]), ZR_OK);
    assert_int_equal(gpu->ops->alloc(gpu, 3 * HOP, &memory), ZR_OK);
    r.device = memory;
    assert_int_equal(gpu->ops->alloc_host(gpu, 2 * HOP, &memory), ZR_OK);
    r.host = memory;
    for (int q = 0; q < 2; q++) { /* the recorder takes a thread as begun at its first work */
        assert_int_equal(gpu->ops->issue(queue[q], &(zr_task){return_home, NULL, &r, 0}), ZR_OK);
        assert_int_equal(gpu->ops->sync(queue[q]), ZR_OK);
    }
    for (int first = 0; first < 2; first++) {
        zr_queue *computes = queue[first], *copies = queue[1 - first];
        memset(r.host, 1, HOP);
        memset(r.host + HOP, 0, HOP);
        for (int i = 0; i < 2; i++) assert_int_equal(gpu->ops->issue(computes, &(zr_task){hop, NULL, &r, i}), ZR_OK);
        assert_int_equal(gpu->ops->await(copies, gpu->ops->mark(computes)), ZR_OK);
        assert_int_equal(gpu->ops->issue(computes, &(zr_task){return_home, NULL, &r, 1}), ZR_OK);
        assert_int_equal(gpu->ops->issue(copies, &(zr_task){hop, NULL, &r, 2}), ZR_OK);
        memset(r.host, 7, HOP); /* not read by any stream yet */
        assert_int_equal(gpu->ops->sync(copies), ZR_OK);
        assert_int_equal(r.host[HOP], 0);
        assert_int_equal(gpu->ops->issue(copies, &(zr_task){return_home, NULL, &r, 2}), ZR_OK);
        assert_int_equal(gpu->ops->sync(copies), ZR_OK);
        assert_int_equal(r.host[HOP], 7);
        assert_int_equal(gpu->ops->sync(computes), ZR_OK);
        const char *fault = zr_stand_in_fault();
        assert_non_null(fault);
        assert_non_null(strstr(fault, " is not ordered before the write by a copy in "));
    }
    zr_stand_in_collect(0);
    for (int q = 1; q >= 0; q--) gpu->ops->queue_destroy(queue[q]);
    gpu->ops->free_host(gpu, r.host);
    gpu->ops->free(gpu, r.device);
}

static void streams(void **state)
{
    (void)state;
    check_streams(&queue_config[1]);
    check_streams(&queue_config[3]);
}

/* Check that only the stream of an urgent queue has the highest priority. */
static void priorities(void **state)
{
    (void)state;
    int least, greatest, priority;
    assert_int_equal(cudaDeviceGetStreamPriorityRange(&least, &greatest), cudaSuccess);
    for (int q = 0; q < QUEUES; q++) {
        zr_queue *queue;
        assert_int_equal(gpu->ops->queue_create(gpu, &queue_config[q], &queue), ZR_OK);
        assert_int_equal(cudaStreamGetPriority(queue->device->stream, &priority), cudaSuccess);
        assert_int_equal(priority, queue_config[q].urgent ? greatest : least);
        gpu->ops->queue_destroy(queue);
    }
}

static zr_status note_between(void *arg, zr_device *device, int64_t index)
{
    (void)index;
    relay *r = arg;
    ZR_TRY(device->ops->reach(device)); /* no point was noted */
    ZR_TRY(hop(r, device, 0));
    ZR_TRY(return_home(r, device, 0));
    ZR_TRY(device->ops->note(device));
    ZR_TRY(device->ops->copy(device, r->host + HOP, r->host, HOP / 2));
    ZR_TRY(device->ops->reach(device));
    assert_int_equal(r->host[HOP + HOP - 1], 3);
    assert_int_equal(r->host[HOP], 3);
    memset(r->host, 4, HOP); /* on a stream that runs late the second copy has not been made */
    return ZR_OK;
}

/* Check that a wait for a noted point waits for the work before this point alone. */
static void noted_points(void **state)
{
    (void)state;
    relay r = {0};
    zr_queue *queue;
    assert_int_equal(gpu->ops->queue_create(gpu, &queue_config[1], &queue), ZR_OK);
    assert_int_equal(gpu->ops->alloc(gpu, HOP, (void **)&r.device), ZR_OK);
    assert_int_equal(gpu->ops->alloc_host(gpu, 2 * HOP, (void **)&r.host), ZR_OK);
    memset(r.host, 3, HOP);
    assert_int_equal(gpu->ops->issue(queue, &(zr_task){note_between, NULL, &r, 0}), ZR_OK);
    assert_int_equal(gpu->ops->sync(queue), ZR_OK);
    if (zr_stand_in_late()) assert_int_equal(r.host[HOP], 4);
    assert_int_equal(r.host[HOP + HOP - 1], 3);
    gpu->ops->queue_destroy(queue);
    gpu->ops->free_host(gpu, r.host);
    gpu->ops->free(gpu, r.device);
}

/* Check that a failure of a call without a status is reported by `finish`, once; a queue that waits for a mark which
 * could not be set fails. */
static void lost_failures(void **state)
{
    (void)state;
    const zr_rng rng = {.seed = 1, .purpose = ZR_RNG_INIT};
    zr_queue *queue[QUEUES];
    relay r = {0};
    void *memory;
    assert_int_equal(gpu->ops->alloc(gpu, HOP, &memory), ZR_OK);
    zr_stand_in_fail("launch", 0, cudaErrorLaunchFailure);
    gpu->ops->normal(gpu, &rng, 0, HOP / 4, 1.0f, memory);
    zr_stand_in_fail(NULL, 0, cudaSuccess);
    assert_fails(ZR_ERR_IO, "cudaGetLastError", gpu->ops->finish(gpu));
    assert_int_equal(gpu->ops->finish(gpu), ZR_OK);
    for (int q = 0; q < QUEUES; q++) assert_int_equal(gpu->ops->queue_create(gpu, &queue_config[q], &queue[q]), ZR_OK);
    assert_int_equal(gpu->ops->alloc_host(gpu, HOP, (void **)&r.host), ZR_OK);
    r.device = memory;
    assert_int_equal(gpu->ops->issue(queue[0], &(zr_task){hop, NULL, &r, 0}), ZR_OK);
    zr_stand_in_fail("cudaEventRecord", 0, cudaErrorECCUncorrectable);
    const zr_mark mark = gpu->ops->mark(queue[0]);
    zr_stand_in_fail(NULL, 0, cudaSuccess);
    assert_int_equal(gpu->ops->await(queue[2], mark), ZR_OK);
    assert_fails(ZR_ERR_PEER, "has failed", gpu->ops->sync(queue[2]));
    assert_fails(ZR_ERR_IO, "uncorrectable ECC error", gpu->ops->await(queue[1], mark));
    assert_fails(ZR_ERR_IO, "uncorrectable ECC error", gpu->ops->sync(queue[0]));
    assert_int_equal(gpu->ops->sync(queue[0]), ZR_OK);
    zr_stand_in_fail("cudaStreamWaitEvent", 0, cudaErrorECCUncorrectable);
    assert_fails(ZR_ERR_IO, "uncorrectable ECC error", gpu->ops->await(queue[1], gpu->ops->mark(queue[0])));
    assert_int_equal(gpu->ops->sync(queue[1]), ZR_OK);
    for (int q = QUEUES - 1; q >= 0; q--) gpu->ops->queue_destroy(queue[q]);
    gpu->ops->free_host(gpu, r.host);
    gpu->ops->free(gpu, memory);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums),
        cmocka_unit_test(squares),
        cmocka_unit_test(squares_apart),
        cmocka_unit_test(many_squares),
        cmocka_unit_test(totals),
        cmocka_unit_test(casts_and_fills),
        cmocka_unit_test(records),
        cmocka_unit_test(records_added),
        cmocka_unit_test(records_again),
        cmocka_unit_test(initial_values),
        cmocka_unit_test(updates),
        cmocka_unit_test(updates_in_records),
        cmocka_unit_test(directions),
        cmocka_unit_test(squares_of_updates),
        cmocka_unit_test(queues),
        cmocka_unit_test(cleared_memory),
        cmocka_unit_test(measured_operands),
        cmocka_unit_test(two_gpus),
#ifndef ZR_GPU
        cmocka_unit_test(asking),
        cmocka_unit_test(failures),
        cmocka_unit_test(streams),
        cmocka_unit_test(priorities),
        cmocka_unit_test(noted_points),
        cmocka_unit_test(lost_failures),
#endif
    };
    return cmocka_run_group_tests(tests, make, unmake);
}
