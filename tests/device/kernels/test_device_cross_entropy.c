//TEST timeout=60 tsan=gpu seeds=200
/* cross_entropy, place_cross_entropy, and their gradients. */
#include "device/kernel_check.h"

typedef struct size {
    int64_t B, T, V;
} size;

static const size sizes[] = {{1, 1, 1}, {2, 3, 131}, {3, 7, 1024}, {2, 9, 2503}};
#define N_SIZES (int)(sizeof sizes / sizeof *sizes)

/* ---- reference ------------------------------------------------------------------------------- */

static double row_lse(const double *x, int64_t V)
{
    double max = x[0], sum = 0.0;
    for (int64_t v = 1; v < V; v++) max = fmax(max, x[v]);
    for (int64_t v = 0; v < V; v++) sum += exp(x[v] - max);
    return max + log(sum);
}

static void backward(int64_t rows, int64_t V, const double *dlosses, const double *logits, const int32_t *target,
                     const double *lse, double *dlogits)
{
    for (int64_t i = 0; i < rows * V; i++) {
        int64_t r = i / V;
        double one = target[r] == i % V ? 1.0 : 0.0;
        dlogits[i] = target[r] < 0 ? 0.0 : dlosses[r] * (exp(logits[i] - lse[r]) - one);
    }
}

#define ROWS 3
#define WORDS 11
typedef struct loss_context {
    double *logits, *weight;
    const int32_t *target;
} loss_context;

static double loss(void *context)
{
    loss_context *l = context;
    double sum = 0.0;
    for (int r = 0; r < ROWS; r++)
        if (l->target[r] >= 0)
            sum += l->weight[r] * (row_lse(l->logits + r * WORDS, WORDS) - l->logits[r * WORDS + l->target[r]]);
    return sum;
}

static void test_reference(void **state)
{
    (void)state;
    const int32_t target[ROWS] = {4, -1, 10};
    loss_context l = {doubles_of(array_random(ZR_F32, ROWS * WORDS, 3.0), ZR_F32, ROWS * WORDS),
                      doubles_of(array_random(ZR_F32, ROWS, 1.0), ZR_F32, ROWS), target};
    double lse[ROWS], *dlogits = doubles_new(ROWS * WORDS);
    for (int r = 0; r < ROWS; r++) lse[r] = row_lse(l.logits + r * WORDS, WORDS);
    backward(ROWS, WORDS, l.weight, l.logits, target, lse, dlogits);
    assert_doubles_close("dlogits", dlogits, numeric_gradient(loss, &l, l.logits, ROWS * WORDS), ROWS * WORDS, 1e-7);
    pool_clear();
}

/* ---- kernels --------------------------------------------------------------------------------- */

static kernel_call forward_call(size s, void *logits, zr_dtype g, int32_t *target, float *losses, float *lse)
{
    kernel_call call = {.name = "cross_entropy", .n_in = 2, .n_out = 2};
    call.in[0] = tensor3(logits, g, s.B, s.T, s.V);
    call.in[1] = tensor2(target, ZR_I32, s.B, s.T);
    call.out[0] = tensor2(losses, ZR_F32, s.B, s.T);
    call.out[1] = tensor2(lse, ZR_F32, s.B, s.T);
    return call;
}

static kernel_call backward_call(size s, float *dlosses, void *logits, zr_dtype g, int32_t *target, float *lse,
                                 void *dlogits)
{
    kernel_call call = {.name = "cross_entropy_dx", .n_in = 4, .n_out = 1};
    call.in[0] = tensor2(dlosses, ZR_F32, s.B, s.T);
    call.in[1] = tensor3(logits, g, s.B, s.T, s.V);
    call.in[2] = tensor2(target, ZR_I32, s.B, s.T);
    call.in[3] = tensor2(lse, ZR_F32, s.B, s.T);
    call.out[0] = tensor3(dlogits, g, s.B, s.T, s.V);
    return call;
}

static void check(const level_pair *level, size s, zr_dtype g, double scale)
{
    const int64_t rows = s.B * s.T, n = rows * s.V;
    void *logits = array_random(g, n, scale), *dlogits = array_new(g, n);
    int32_t *target = ids_random(rows, s.V);
    if (rows > 2) target[rows / 2] = -100;
    float *losses = array_new(ZR_F32, rows), *lse = array_new(ZR_F32, rows);
    float *dlosses = array_random(ZR_F32, rows, 1.0);
    double *x = doubles_of(logits, g, n), *want_loss = doubles_new(rows), *want_lse = doubles_new(rows);
    for (int64_t r = 0; r < rows; r++) {
        want_lse[r] = row_lse(x + r * s.V, s.V);
        want_loss[r] = target[r] < 0 ? 0.0 : want_lse[r] - x[r * s.V + target[r]];
    }
    run_both(level, forward_call(s, logits, g, target, losses, lse), 0);
    assert_close("losses", losses, ZR_F32, want_loss, rows, 1e-6);
    assert_close("lse", lse, ZR_F32, want_lse, rows, 1e-6);

    kernel_call call = backward_call(s, dlosses, logits, g, target, lse, dlogits);
    double *want = doubles_new(n);
    backward(rows, s.V, doubles_of(dlosses, ZR_F32, rows), x, target, doubles_of(lse, ZR_F32, rows), want);
    run_both(level, call, 0);
    assert_close("dlogits", dlogits, g, want, n, 1e-6);
    run_in_place(level, call, 1, 0);
}

static void values(const level_pair *level)
{
    for (int i = 0; i < N_SIZES; i++)
        for (int g = 0; g < N_DTYPES; g++) {
            check(level, sizes[i], dtypes[g], 4.0);
            check(level, sizes[i], dtypes[g], 1e4);
            pool_clear();
        }
}

static void test_values(void **state)
{
    (void)state;
    for_every_level(values);
}

/* Check that masked logits are accepted, and that a row which is not finite shows it and changes no other row. */
static void not_finite(const level_pair *level)
{
    const size s = {1, 4, 1500};
    float *logits = array_random(ZR_F32, 4 * 1500, 1.0), *dlogits = array_new(ZR_F32, 4 * 1500);
    int32_t target[] = {1400, 1, 2, 3};
    float losses[4], lse[4], dlosses[] = {1.0f, 1.0f, 1.0f, 1.0f};
    for (int v = 0; v < 1100; v++) logits[v] = -INFINITY;
    logits[1500 + 1300] = NAN;
    logits[3000 + 700] = INFINITY;
    run_both(level, forward_call(s, logits, ZR_F32, target, losses, lse), 0);
    assert_true(isfinite(losses[0]) && isfinite(lse[0]));
    assert_true(!isfinite(losses[1]) && isnan(lse[1]));
    assert_true(!isfinite(losses[2]) && !isfinite(lse[2]));
    assert_true(isfinite(losses[3]));
    kernel_call call = backward_call(s, dlosses, logits, ZR_F32, target, lse, dlogits);
    run_both(level, call, 0);
    assert_true(dlogits[0] == 0.0f && isfinite(dlogits[1400]) && isfinite(dlogits[4500]));
    assert_true(isnan(dlogits[1500]) && isnan(dlogits[3000 + 700]));
}

static void test_not_finite(void **state)
{
    (void)state;
    for_every_level(not_finite);
}

static void bad_targets(const level_pair *level)
{
    const size s = {2, 4, 131};
    float *logits = array_random(ZR_F32, 8 * 131, 1.0), losses[8], lse[8] = {0}, dlosses[8] = {0};
    int32_t target[] = {0, 130, -1, INT32_MIN, 5, 131, 2, 3};
    kernel_call call = forward_call(s, logits, ZR_F32, target, losses, lse);
    assert_int_equal(kernel_run(level->three, &call), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "target 131 at row 1, position 1 "));
    kernel_call back = backward_call(s, dlosses, logits, ZR_F32, target, lse, logits);
    assert_int_equal(kernel_run(level->three, &back), ZR_ERR_DATA);
    target[5] = 130;
    assert_int_equal(kernel_run(level->three, &call), ZR_OK);
    assert_true(losses[2] == 0.0f && losses[3] == 0.0f);
}

static void test_bad_targets(void **state)
{
    (void)state;
    for_every_level(bad_targets);
}

/* ---- places ------------------------------------------------------------------------------------ */

typedef struct place_size {
    int64_t B, T, S, K;
    bool documents;
    int64_t own; /* tokens of this rank, or 0 */
} place_size;

static const place_size place_sizes[] = {
    {1, 1, 1, 1, false, 0},   {2, 7, 3, 2, true, 0}, {3, 131, 2, 2, true, 0},
    {2, 600, 1, 2, false, 0}, {2, 6, 2, 2, true, 4},
};

/* Return the first token of the document of token t: documents of 1, 2, 3 ... tokens. */
static int32_t document_of(int64_t t)
{
    int32_t begin = 0;
    for (int32_t length = 1; begin + length <= t; length++) begin += length;
    return begin;
}

/* Compute the losses, log-sum-exps and gradients of rank `place`. */
static void places_want(const place_size *s, int64_t place, const double *x, const int32_t *target, const double *dloss,
                        const double *lse_given, double *loss, double *lse, double *dlogits)
{
    for (int64_t i = 0; i < s->B * s->S * s->K; i++) {
        const int64_t b = i / s->K / s->S, k = i % s->K;
        double max = -INFINITY, sum = 0;
        loss[i] = lse[i] = 0;
        if (target[i] < 0) continue;
        const double *column = x + b * s->T * s->K + k;
#define IN_DOCUMENT(t) (!s->documents || document_of(t) == document_of(target[i]))
        for (int64_t t = 0; t < s->T; t++)
            if (IN_DOCUMENT(t)) max = fmax(max, column[t * s->K]);
        for (int64_t t = 0; t < s->T; t++)
            if (IN_DOCUMENT(t)) sum += exp(column[t * s->K] - max);
        lse[i] = max + log(sum);
        loss[i] = lse[i] - column[target[i] * s->K];
        for (int64_t t = 0; t < s->T && dlogits; t++) {
            const int64_t row = b * s->T + t;
            if (!IN_DOCUMENT(t) || (s->own && row / s->own != place)) continue;
            dlogits[row * s->K + k] += dloss[i] * (exp(column[t * s->K] - lse_given[i]) - (t == target[i]));
        }
#undef IN_DOCUMENT
    }
}

static void check_places(const level_pair *level, const place_size *s, zr_dtype g, double scale)
{
    const int64_t n = s->B * s->T * s->K, m = s->B * s->S * s->K;
    void *logits = array_random(g, n, scale), *dlogits = array_new(g, n);
    int32_t *target = ids_random(m, s->T), *documents = ids_random(s->B * s->T, 1);
    float *losses = array_new(ZR_F32, m), *lse = array_new(ZR_F32, m), *dlosses = array_random(ZR_F32, m, 1.0);
    double *x = doubles_of(logits, g, n), *want_loss = doubles_new(m), *want_lse = doubles_new(m);
    double *want = doubles_new(n);
    if (m > 2) target[1] = -1;
    for (int64_t i = 0; i < s->B * s->T; i++) documents[i] = document_of(i % s->T);
    kernel_call call = {.name = "place_cross_entropy", .n_in = s->documents ? 3 : 2, .n_out = 2};
    call.in[0] = tensor3(logits, g, s->B, s->T, s->K);
    call.in[1] = tensor3(target, ZR_I32, s->B, s->S, s->K);
    call.in[2] = tensor2(documents, ZR_I32, s->B, s->T);
    call.out[0] = tensor3(losses, ZR_F32, s->B, s->S, s->K);
    call.out[1] = tensor3(lse, ZR_F32, s->B, s->S, s->K);
    run_both(level, call, 0);
    places_want(s, 1, x, target, NULL, NULL, want_loss, want_lse, NULL);
    assert_close("losses", losses, ZR_F32, want_loss, m, 1e-6);
    assert_close("lse", lse, ZR_F32, want_lse, m, 1e-6);

    kernel_call back = {.name = "place_cross_entropy_dx", .n_in = s->documents ? 5 : 4, .n_out = 1};
    back.attr.i[0] = s->own;
    back.runtime.place = s->own ? 1 : 0;
    back.in[0] = tensor3(dlosses, ZR_F32, s->B, s->S, s->K);
    back.in[1] = call.in[0];
    back.in[2] = call.in[1];
    back.in[3] = call.out[1];
    back.in[4] = call.in[2];
    back.out[0] = tensor3(dlogits, g, s->B, s->T, s->K);
    run_both(level, back, 0);
    places_want(s, 1, x, target, doubles_of(dlosses, ZR_F32, m), doubles_of(lse, ZR_F32, m), want_loss, want_lse, want);
    assert_close("dlogits", dlogits, g, want, n, 1e-6);
}

static void places(const level_pair *level)
{
    for (size_t i = 0; i < sizeof place_sizes / sizeof *place_sizes; i++)
        for (int g = 0; g < N_DTYPES; g++) {
            check_places(level, &place_sizes[i], dtypes[g], 4.0);
            check_places(level, &place_sizes[i], dtypes[g], 1e4);
            pool_clear();
        }
}

static void test_places(void **state)
{
    (void)state;
    for_every_level(places);
}

static void bad_places(const level_pair *level)
{
    float *logits = array_random(ZR_F32, 2 * 4 * 2, 1.0), losses[4], lse[4];
    int32_t target[] = {0, 3, INT32_MIN, 4};
    kernel_call call = {.name = "place_cross_entropy", .n_in = 2, .n_out = 2};
    call.in[0] = tensor3(logits, ZR_F32, 2, 4, 2);
    call.in[1] = tensor3(target, ZR_I32, 2, 1, 2);
    call.out[0] = tensor3(losses, ZR_F32, 2, 1, 2);
    call.out[1] = tensor3(lse, ZR_F32, 2, 1, 2);
    assert_int_equal(kernel_run(level->three, &call), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "target 4 "));
    target[3] = 3;
    assert_int_equal(kernel_run(level->three, &call), ZR_OK);
    assert_true(losses[2] == 0.0f && lse[2] == 0.0f);
    pool_clear();
}

static void test_bad_places(void **state)
{
    (void)state;
    for_every_level(bad_places);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),   cmocka_unit_test(test_values), cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_bad_targets), cmocka_unit_test(test_places), cmocka_unit_test(test_bad_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
