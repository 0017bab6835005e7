//TEST timeout=60 tsan=gpu seeds=200
/* softmax, softmax_dx, mean, mean_dx. */
#include "device/kernel_check.h"

typedef struct size {
    int64_t rows, C;
} size;

/* The last sizes give a row of a GPU one warp, several warps, and more columns than its threads keep. */
static const size sizes[] = {{1, 1},    {3, 57},   {17, 64},  {70, 389},  {33, 1100},
                             {2, 5000}, {5, 1024}, {3, 1032}, {2, 16384}, {2, 16392}};
#define N_SIZES (int)(sizeof sizes / sizeof *sizes)

static void forward(size s, const double *x, double *y)
{
    for (int64_t r = 0; r < s.rows; r++) {
        double top = -INFINITY, sum = 0.0;
        for (int64_t c = 0; c < s.C; c++) top = fmax(top, x[r * s.C + c]);
        for (int64_t c = 0; c < s.C; c++) sum += exp(x[r * s.C + c] - top);
        for (int64_t c = 0; c < s.C; c++) y[r * s.C + c] = exp(x[r * s.C + c] - top) / sum;
    }
}

static void backward(size s, const double *dy, const double *y, double *dx)
{
    for (int64_t r = 0; r < s.rows; r++) {
        double dot = 0.0;
        for (int64_t c = 0; c < s.C; c++) dot += dy[r * s.C + c] * y[r * s.C + c];
        for (int64_t c = 0; c < s.C; c++) dx[r * s.C + c] = y[r * s.C + c] * (dy[r * s.C + c] - dot);
    }
}

typedef struct context {
    size s;
    double *weight, *x, *y;
} context;

static double loss(void *of)
{
    context *l = of;
    forward(l->s, l->x, l->y);
    return weighted_sum(l->weight, l->y, l->s.rows * l->s.C);
}

static void test_reference(void **state)
{
    (void)state;
    const size s = {3, 7};
    const int64_t n = s.rows * s.C;
    context l = {s, doubles_of(array_random(ZR_F32, n, 1.0), ZR_F32, n),
                 doubles_of(array_random(ZR_F32, n, 2.0), ZR_F32, n), doubles_new(n)};
    double *dx = doubles_new(n);
    forward(s, l.x, l.y);
    backward(s, l.weight, l.y, dx);
    assert_doubles_close("softmax_dx", dx, numeric_gradient(loss, &l, l.x, n), n, 1e-7);
    pool_clear();
}

/* Return rows whose largest element comes early in some and late in others; the last row is far from 0. */
static void *make_rows(size s, zr_dtype g)
{
    void *x = array_random(g, s.rows * s.C, 4.0);
    for (int64_t c = 0; c < s.C && s.rows > 1; c++) {
        int64_t i = (s.rows - 1) * s.C + c;
        array_set(x, g, i, array_get(x, g, i) - 200.0);
    }
    for (int64_t r = 0; r < s.rows; r++) array_set(x, g, r * s.C + r * 31 % s.C, r + 1 == s.rows ? -190.0 : 6.0);
    return x;
}

static void check_softmax(const level_pair *level, size s, zr_dtype g, zr_dtype w)
{
    const int64_t n = s.rows * s.C;
    void *x = make_rows(s, g), *y = array_new(g, n), *dy = array_random(g, n, 1.0), *dx = array_new(w, n);
    double *want = doubles_new(n), *want_dx = doubles_new(n);
    forward(s, doubles_of(x, g, n), want);
    kernel_call call = {.name = "softmax", .n_in = 1, .n_out = 1};
    call.in[0] = tensor2(x, g, s.rows, s.C);
    call.out[0] = tensor2(y, g, s.rows, s.C);
    run_both(level, call, 0);
    assert_close("softmax", y, g, want, n, 2e-6);
    backward(s, doubles_of(dy, g, n), doubles_of(y, g, n), want_dx);
    kernel_call back = {.name = "softmax_dx", .n_in = 2, .n_out = 1};
    back.in[0] = tensor2(dy, g, s.rows, s.C);
    back.in[1] = call.out[0];
    back.out[0] = tensor2(dx, w, s.rows, s.C);
    run_both(level, back, 0);
    assert_close("softmax_dx", dx, w, want_dx, n, 2e-6);
    if (g == w) run_in_place(level, back, 0, 0);
}

/* Check mean and its gradient: y and dy are F32 or of the graph's type, dx of the graph's or F32. */
static void check_mean(const level_pair *level, size s, zr_dtype g, zr_dtype other)
{
    const int64_t n = s.rows * s.C;
    void *x = array_random(g, n, 1.0), *y = array_new(other, s.rows), *dx = array_new(g, n);
    double *want = doubles_new(s.rows), *want_dx = doubles_new(n);
    for (int64_t i = 0; i < n; i++) array_set(x, g, i, array_get(x, g, i) + 2.0);
    for (int64_t i = 0; i < n; i++) want[i / s.C] += array_get(x, g, i) / (double)s.C;
    kernel_call call = {.name = "mean", .attr = {.i = {other}}, .n_in = 1, .n_out = 1};
    call.in[0] = tensor2(x, g, s.rows, s.C);
    call.out[0] = tensor1(y, other, s.rows);
    run_both(level, call, 0);
    assert_close("mean", y, other, want, s.rows, 1e-6);
    for (int64_t i = 0; i < n; i++) want_dx[i] = array_get(y, other, i / s.C) / (double)s.C;
    kernel_call back = {.name = "mean_dx", .n_in = 1, .n_out = 1};
    back.in[0] = call.out[0];
    back.out[0] = tensor2(dx, g, s.rows, s.C);
    run_both(level, back, 0);
    assert_close("mean_dx", dx, g, want_dx, n, 1e-6);
}

static void values(const level_pair *level)
{
    for (int i = 0; i < N_SIZES; i++)
        for (int g = 0; g < N_DTYPES; g++) {
            check_softmax(level, sizes[i], dtypes[g], dtypes[g]);
            check_softmax(level, sizes[i], dtypes[g], ZR_F32);
            check_mean(level, sizes[i], dtypes[g], dtypes[g]);
            check_mean(level, sizes[i], dtypes[g], ZR_F32);
            check_mean(level, sizes[i], ZR_F32, dtypes[g]);
            pool_clear();
        }
}

static void test_values(void **state)
{
    (void)state;
    for_every_level(values);
}

/* Check that elements masked by -infinity give 0, and that a NaN anywhere in a row shows in the whole row and in no
 * other. */
static void extremes(const level_pair *level)
{
    const size s = {3, 1100};
    for (int64_t at = 0; at < s.C; at += 73) {
        float *x = array_random(ZR_F32, s.rows * s.C, 1.0), *y = array_new(ZR_F32, s.rows * s.C);
        x[at] = -INFINITY;
        x[s.C + at] = NAN;
        kernel_call call = {.name = "softmax", .n_in = 1, .n_out = 1};
        call.in[0] = tensor2(x, ZR_F32, s.rows, s.C);
        call.out[0] = tensor2(y, ZR_F32, s.rows, s.C);
        assert_int_equal(kernel_run(level->one, &call), ZR_OK);
        for (int64_t i = 0; i < s.rows * s.C; i++) assert_int_equal(isnan(y[i]) != 0, i / s.C == 1);
        assert_true(y[at] == 0.0f && y[(at + 1) % s.C] > 0.0f);
    }
}

static void test_extremes(void **state)
{
    (void)state;
    for_every_level(extremes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
