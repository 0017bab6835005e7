//TEST timeout=60 long=more tsan=gpu seeds=200
/* layernorm and rmsnorm, each with its _dx and _dw. */
#include "device/kernel_check.h"
#include "support/long.h"

#define EPS 1e-5

typedef struct size {
    int64_t rows, C;
} size;

static const size sizes[] = {{1, 1}, {3, 57}, {17, 64}, {70, 389}, {33, 1100}};
#define N_SIZES (int)(sizeof sizes / sizeof *sizes)

/* Sizes at which a GPU gives a row one warp, several warps, and more columns than its threads keep; and one with many
 * rows. */
static const size large[] = {{5, 1024}, {3, 1032}, {2, 16384}, {2, 16392}, {4300, 8}};
#define N_LARGE (int)(sizeof large / sizeof *large)
#define LONG_ROW 10000 /* length of rows for which only dx is checked, since dw treats all columns alike */

/* ---- reference ------------------------------------------------------------------------------- */

static void moments(const double *x, int64_t C, double *mean, double *rstd)
{
    double sum = 0.0, square = 0.0;
    for (int64_t c = 0; c < C; c++) sum += x[c];
    *mean = sum / (double)C;
    for (int64_t c = 0; c < C; c++) square += (x[c] - *mean) * (x[c] - *mean);
    *rstd = 1.0 / sqrt(square / (double)C + EPS);
}

static void forward(size s, const double *x, const double *gain, const double *bias, double *y)
{
    for (int64_t r = 0; r < s.rows; r++) {
        double mean, rstd;
        moments(x + r * s.C, s.C, &mean, &rstd);
        for (int64_t c = 0; c < s.C; c++) y[r * s.C + c] = (x[r * s.C + c] - mean) * rstd * gain[c] + bias[c];
    }
}

/* Add a row's gradients to dx, dgain and dbias, with the given statistics. */
static void backward(size s, const double *dy, const double *x, const double *gain, const double *mean,
                     const double *rstd, double *dx, double *dgain, double *dbias)
{
    for (int64_t r = 0; r < s.rows; r++) {
        const double *d = dy + r * s.C, *v = x + r * s.C;
        double a = 0.0, b = 0.0;
        for (int64_t c = 0; c < s.C; c++) {
            double xhat = (v[c] - mean[r]) * rstd[r];
            a += d[c] * gain[c] / (double)s.C;
            b += d[c] * gain[c] * xhat / (double)s.C;
            dgain[c] += d[c] * xhat;
            dbias[c] += d[c];
        }
        for (int64_t c = 0; c < s.C; c++)
            dx[r * s.C + c] += rstd[r] * (d[c] * gain[c] - a - (v[c] - mean[r]) * rstd[r] * b);
    }
}

typedef struct loss_context {
    size s;
    double *x, *gain, *bias, *weight, *y;
} loss_context;

static double loss(void *context)
{
    loss_context *l = context;
    forward(l->s, l->x, l->gain, l->bias, l->y);
    return weighted_sum(l->weight, l->y, l->s.rows * l->s.C);
}

static void test_reference(void **state)
{
    (void)state;
    const size s = {4, 7};
    const int64_t n = s.rows * s.C;
    loss_context l = {s,
                      doubles_of(array_random(ZR_F32, n, 2.0), ZR_F32, n),
                      doubles_of(array_random(ZR_F32, s.C, 1.0), ZR_F32, s.C),
                      doubles_of(array_random(ZR_F32, s.C, 1.0), ZR_F32, s.C),
                      doubles_of(array_random(ZR_F32, n, 1.0), ZR_F32, n),
                      doubles_new(n)};
    double mean[4], rstd[4], *dx = doubles_new(n), *dgain = doubles_new(s.C), *dbias = doubles_new(s.C);
    for (int64_t r = 0; r < s.rows; r++) moments(l.x + r * s.C, s.C, &mean[r], &rstd[r]);
    backward(s, l.weight, l.x, l.gain, mean, rstd, dx, dgain, dbias);
    assert_doubles_close("dx", dx, numeric_gradient(loss, &l, l.x, n), n, 1e-7);
    assert_doubles_close("dgain", dgain, numeric_gradient(loss, &l, l.gain, s.C), s.C, 1e-7);
    assert_doubles_close("dbias", dbias, numeric_gradient(loss, &l, l.bias, s.C), s.C, 1e-7);
    pool_clear();
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* Return rows of different scales and centres, the last one far from zero. */
static void *make_rows(size s, zr_dtype g)
{
    void *x = array_random(g, s.rows * s.C, 1.0);
    for (int64_t i = 0; i < s.rows * s.C; i++) {
        int64_t r = i / s.C;
        double centre = r + 1 == s.rows && s.rows > 1 ? 100.0 : 0.1 * (double)(r % 5);
        array_set(x, g, i, array_get(x, g, i) * (double)(1 + r % 3) + centre);
    }
    return x;
}

static void check_forward(const level_pair *level, size s, zr_dtype g)
{
    if (!is_in_run()) return;
    const int64_t n = s.rows * s.C;
    void *x = make_rows(s, g), *gain = array_random(g, s.C, 1.0), *bias = array_random(g, s.C, 1.0);
    void *y = array_new(g, n), *mean = array_new(ZR_F32, s.rows), *rstd = array_new(ZR_F32, s.rows);
    double *want = doubles_new(n), *want_mean = doubles_new(s.rows), *want_rstd = doubles_new(s.rows);
    double *v = doubles_of(x, g, n);
    forward(s, v, doubles_of(gain, g, s.C), doubles_of(bias, g, s.C), want);
    for (int64_t r = 0; r < s.rows; r++) moments(v + r * s.C, s.C, &want_mean[r], &want_rstd[r]);
    kernel_call call = {.name = "layernorm", .attr = {.f = {EPS}}, .n_in = 3, .n_out = 3};
    call.in[0] = tensor2(x, g, s.rows, s.C);
    call.in[1] = tensor1(gain, g, s.C);
    call.in[2] = tensor1(bias, g, s.C);
    call.out[0] = tensor2(y, g, s.rows, s.C);
    call.out[1] = tensor1(mean, ZR_F32, s.rows);
    call.out[2] = tensor1(rstd, ZR_F32, s.rows);
    run_both(level, call, 0);
    assert_close("mean", mean, ZR_F32, want_mean, s.rows, 1e-6);
    assert_close("rstd", rstd, ZR_F32, want_rstd, s.rows, 1e-5);
    assert_close("layernorm", y, g, want, n, 2e-5); /* the row centred at 100 carries 4e-6 of rounding a mean */
}

static void check_backward(const level_pair *level, size s, zr_dtype g, zr_dtype w, bool add)
{
    if (!is_in_run()) return;
    const int64_t n = s.rows * s.C;
    void *x = make_rows(s, g), *gain = array_random(g, s.C, 1.0), *dy = array_random(g, n, 1.0);
    void *earlier = array_random(g, n, 1.0), *dx = array_new(g, n);
    void *dgain = array_new(w, s.C), *dbias = array_new(w, s.C);
    float *mean = array_new(ZR_F32, s.rows), *rstd = array_new(ZR_F32, s.rows);
    double *v = doubles_of(x, g, n), *want = add ? doubles_of(earlier, g, n) : doubles_new(n);
    double *want_gain = doubles_new(s.C), *want_bias = doubles_new(s.C);
    for (int64_t r = 0; r < s.rows; r++) {
        double m, q;
        moments(v + r * s.C, s.C, &m, &q);
        mean[r] = (float)m;
        rstd[r] = (float)q;
    }
    backward(s, doubles_of(dy, g, n), v, doubles_of(gain, g, s.C), doubles_of(mean, ZR_F32, s.rows),
             doubles_of(rstd, ZR_F32, s.rows), want, want_gain, want_bias);
    kernel_call call = {.name = "layernorm_dx", .attr = {.f = {EPS}}, .n_in = 6, .n_out = 1};
    call.in[0] = tensor2(dy, g, s.rows, s.C);
    call.in[1] = tensor2(x, g, s.rows, s.C);
    call.in[2] = tensor1(gain, g, s.C);
    call.in[3] = tensor1(mean, ZR_F32, s.rows);
    call.in[4] = tensor1(rstd, ZR_F32, s.rows);
    call.in[5] = add ? tensor2(earlier, g, s.rows, s.C) : tensor_absent();
    call.out[0] = tensor2(dx, g, s.rows, s.C);
    run_both(level, call, 0);
    assert_close("layernorm_dx", dx, g, want, n, 1e-5);
    run_in_place(level, call, 0, 0);
    if (add) run_in_place(level, call, 5, 0);
    if (s.C >= LONG_ROW) return;

    kernel_call dw = {.name = "layernorm_dw", .attr = {.f = {EPS}}, .n_in = 4, .n_out = 2};
    dw.scratch_bytes = 16 * 2 * 4 * s.C;
    dw.in[0] = call.in[0];
    dw.in[1] = call.in[1];
    dw.in[2] = call.in[3];
    dw.in[3] = call.in[4];
    dw.out[0] = tensor1(dgain, w, s.C);
    dw.out[1] = tensor1(dbias, w, s.C);
    run_both(level, dw, 0);
    assert_close("dgain", dgain, w, want_gain, s.C, 1e-5);
    assert_close("dbias", dbias, w, want_bias, s.C, 1e-5);
}

/* ---- rmsnorm: dx and dgain by their own formulas ------------------------------------------------ */

static void rms_reference(size s, const double *dy, const double *x, const double *gain, double *y, double *rstd,
                          double *dx, double *dgain)
{
    for (int64_t r = 0; r < s.rows; r++) {
        const double *v = x + r * s.C, *d = dy + r * s.C;
        double square = 0.0, dot = 0.0;
        for (int64_t c = 0; c < s.C; c++) square += v[c] * v[c] / (double)s.C;
        for (int64_t c = 0; c < s.C; c++) dot += d[c] * gain[c] * v[c] / (double)s.C;
        const double q = 1.0 / sqrt(square + EPS);
        rstd[r] = q;
        for (int64_t c = 0; c < s.C; c++) {
            y[r * s.C + c] = v[c] * q * gain[c];
            dx[r * s.C + c] += q * d[c] * gain[c] - q * q * q * v[c] * dot;
            dgain[c] += d[c] * v[c] * q;
        }
    }
}

typedef struct rms_context {
    size s;
    double *x, *gain, *weight, *y, *rstd, *dx, *dgain;
} rms_context;

static double rms_loss(void *context)
{
    rms_context *l = context;
    rms_reference(l->s, l->weight, l->x, l->gain, l->y, l->rstd, l->dx, l->dgain);
    return weighted_sum(l->weight, l->y, l->s.rows * l->s.C);
}

static void test_rms_reference(void **state)
{
    (void)state;
    const size s = {4, 7};
    const int64_t n = s.rows * s.C;
    double *dx = doubles_new(n), *dgain = doubles_new(s.C);
    rms_context l = {s,
                     doubles_of(array_random(ZR_F32, n, 2.0), ZR_F32, n),
                     doubles_of(array_random(ZR_F32, s.C, 1.0), ZR_F32, s.C),
                     doubles_of(array_random(ZR_F32, n, 1.0), ZR_F32, n),
                     doubles_new(n),
                     doubles_new(s.rows),
                     doubles_new(n),
                     doubles_new(s.C)};
    rms_reference(s, l.weight, l.x, l.gain, l.y, l.rstd, dx, dgain);
    assert_doubles_close("dx", dx, numeric_gradient(rms_loss, &l, l.x, n), n, 1e-7);
    assert_doubles_close("dgain", dgain, numeric_gradient(rms_loss, &l, l.gain, s.C), s.C, 1e-7);
    pool_clear();
}

static void check_rms(const level_pair *level, size s, zr_dtype g, zr_dtype w, bool add)
{
    if (!is_in_run()) return;
    const int64_t n = s.rows * s.C;
    void *x = make_rows(s, g), *gain = array_random(g, s.C, 1.0), *dy = array_random(g, n, 1.0);
    void *earlier = array_random(g, n, 1.0), *y = array_new(g, n), *dx = array_new(g, n), *dgain = array_new(w, s.C);
    float *rstd = array_new(ZR_F32, s.rows);
    double *want = doubles_new(n), *want_rstd = doubles_new(s.rows), *want_gain = doubles_new(s.C);
    double *want_dx = add ? doubles_of(earlier, g, n) : doubles_new(n);
    rms_reference(s, doubles_of(dy, g, n), doubles_of(x, g, n), doubles_of(gain, g, s.C), want, want_rstd, want_dx,
                  want_gain);
    kernel_call call = {.name = "rmsnorm", .attr = {.f = {EPS}}, .n_in = 2, .n_out = 2};
    call.in[0] = tensor2(x, g, s.rows, s.C);
    call.in[1] = tensor1(gain, g, s.C);
    call.out[0] = tensor2(y, g, s.rows, s.C);
    call.out[1] = tensor1(rstd, ZR_F32, s.rows);
    run_both(level, call, 0);
    assert_close("rstd", rstd, ZR_F32, want_rstd, s.rows, 1e-6);
    assert_close("rmsnorm", y, g, want, n, 1e-6);
    kernel_call back = {.name = "rmsnorm_dx", .attr = {.f = {EPS}}, .n_in = 5, .n_out = 1};
    back.in[0] = tensor2(dy, g, s.rows, s.C);
    back.in[1] = call.in[0];
    back.in[2] = call.in[1];
    back.in[3] = call.out[1];
    back.in[4] = add ? tensor2(earlier, g, s.rows, s.C) : tensor_absent();
    back.out[0] = tensor2(dx, g, s.rows, s.C);
    run_both(level, back, 0);
    assert_close("rmsnorm_dx", dx, g, want_dx, n, 1e-5);
    run_in_place(level, back, 0, 0);
    if (add) run_in_place(level, back, 4, 0);
    if (s.C >= LONG_ROW) return;
    kernel_call dw = {.name = "rmsnorm_dw", .n_in = 3, .n_out = 1, .scratch_bytes = 16 * 4 * s.C};
    dw.in[0] = back.in[0];
    dw.in[1] = call.in[0];
    dw.in[2] = call.out[1];
    dw.out[0] = tensor1(dgain, w, s.C);
    run_both(level, dw, 0);
    assert_close("dgain", dgain, w, want_gain, s.C, 1e-5);
}

/* Check rmsnorm with groups of C columns: a row has `groups` groups, and each group is a row of the reference. With
 * `rounded`, x * rstd is rounded to g before the product with the gain. */
static void check_groups(const level_pair *level, size s, int64_t groups, zr_dtype g, zr_dtype w, bool rounded)
{
    if (!is_in_run()) return;
    const int64_t n = s.rows * s.C, rows = s.rows / groups;
    void *x = make_rows(s, g), *gain = array_random(g, s.C, 1.0), *dy = array_random(g, n, 1.0), *y = array_new(g, n);
    void *dx = array_new(g, n), *dgain = array_new(w, s.C), *one = array_new(g, 1);
    float *rstd = array_new(ZR_F32, s.rows);
    double *want = doubles_new(n), *want_rstd = doubles_new(s.rows), *want_dx = doubles_new(n);
    double *want_gain = doubles_new(s.C), *d = doubles_of(dy, g, n), *v = doubles_of(x, g, n);
    rms_reference(s, d, v, doubles_of(gain, g, s.C), want, want_rstd, want_dx, want_gain);
    kernel_call call = {.name = "rmsnorm", .attr = {.i = {rounded}, .f = {EPS}}, .n_in = 2, .n_out = 2};
    call.in[0] = tensor2(x, g, rows, groups * s.C);
    call.in[1] = tensor1(gain, g, s.C);
    call.out[0] = tensor2(y, g, rows, groups * s.C);
    call.out[1] = tensor2(rstd, ZR_F32, rows, groups);
    run_both(level, call, 0);
    assert_close("rstd", rstd, ZR_F32, want_rstd, s.rows, 1e-6);
    for (int64_t c = 0; rounded && c < s.C; c++) want_gain[c] = 0;
    for (int64_t i = 0; rounded && i < n; i++) {
        array_set(one, g, 0, (float)v[i] * rstd[i / s.C]);
        want[i] = array_get(one, g, 0) * array_get(gain, g, i % s.C);
        want_gain[i % s.C] += d[i] * array_get(one, g, 0);
    }
    assert_close("rmsnorm", y, g, want, n, rounded ? 1e-7 : 1e-6);
    kernel_call back = {.name = "rmsnorm_dx", .attr = call.attr, .n_in = 5, .n_out = 1};
    back.in[0] = tensor2(dy, g, rows, groups * s.C);
    back.in[1] = call.in[0];
    back.in[2] = call.in[1];
    back.in[3] = call.out[1];
    back.in[4] = tensor_absent();
    back.out[0] = tensor2(dx, g, rows, groups * s.C);
    run_both(level, back, 0);
    assert_close("rmsnorm_dx", dx, g, want_dx, n, 1e-5);
    run_in_place(level, back, 0, 0);
    kernel_call dw = {.name = "rmsnorm_dw", .attr = call.attr, .n_in = 3, .n_out = 1, .scratch_bytes = 16 * 4 * s.C};
    dw.in[0] = back.in[0];
    dw.in[1] = call.in[0];
    dw.in[2] = call.out[1];
    dw.out[0] = tensor1(dgain, w, s.C);
    run_both(level, dw, 0);
    assert_close("dgain", dgain, w, want_gain, s.C, 1e-5);
}

static void group_values(const level_pair *level)
{
    static const struct {
        size s;
        int64_t groups;
    } cases[] = {{{6, 2}, 3}, {{35, 57}, 5}, {{96, 64}, 4}, {{4320, 8}, 9}, {{14, 128}, 1}, {{6, 1032}, 2}};
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++)
        for (int g = 0; g < N_DTYPES; g++)
            for (int rounded = 0; rounded < 2; rounded++) {
                if (rounded != (i + g) % 2 && !is_long_run()) continue;
                check_groups(level, cases[i].s, cases[i].groups, dtypes[g], dtypes[(g + i) % N_DTYPES], rounded);
                pool_clear();
            }
}

static void test_groups(void **state)
{
    (void)state;
    for_every_level(group_values);
}

static void values(const level_pair *level)
{
    for (int i = 0; i < N_SIZES; i++)
        for (int g = 0; g < N_DTYPES; g++) {
            check_forward(level, sizes[i], dtypes[g]);
            for (int w = 0; w < N_DTYPES; w++) {
                if (w == (i + g) % N_DTYPES && !is_long_run()) continue; /* two of three types, alternating */
                check_backward(level, sizes[i], dtypes[g], dtypes[w], w != 0);
                /* with a single column, dx is only a rounding error, so check it together with `earlier` */
                check_rms(level, sizes[i], dtypes[g], dtypes[w], w != 1 || sizes[i].C == 1);
            }
            check_backward(level, sizes[i], dtypes[g], ZR_F32, true);
            pool_clear();
        }
    for (int i = 0; i < N_LARGE; i++)
        for (int g = 0; g < N_DTYPES; g++) {
            if (g == i % N_DTYPES && !is_long_run()) continue;
            check_forward(level, large[i], dtypes[g]);
            check_backward(level, large[i], dtypes[g], dtypes[g], true);
            check_rms(level, large[i], dtypes[g], ZR_F32, true);
            pool_clear();
        }
}

static void test_values(void **state)
{
    (void)state;
    for_every_level(values);
}

/* Check that a NaN anywhere in a row shows in the whole row, and in no other. */
static void not_a_number(const level_pair *level)
{
    if (!is_in_run()) return;
    const size s = {3, 57};
    for (int64_t at = 0; at < s.C; at += 7) {
        float *x = array_random(ZR_F32, s.rows * s.C, 1.0), *gain = array_random(ZR_F32, s.C, 1.0);
        float *y = array_new(ZR_F32, s.rows * s.C), mean[3], rstd[3];
        x[s.C + at] = NAN;
        kernel_call call = {.name = "layernorm", .attr = {.f = {EPS}}, .n_in = 3, .n_out = 3};
        call.in[0] = tensor2(x, ZR_F32, s.rows, s.C);
        call.in[1] = call.in[2] = tensor1(gain, ZR_F32, s.C);
        call.out[0] = tensor2(y, ZR_F32, s.rows, s.C);
        call.out[1] = tensor1(mean, ZR_F32, s.rows);
        call.out[2] = tensor1(rstd, ZR_F32, s.rows);
        assert_int_equal(kernel_run(level->one, &call), ZR_OK);
        for (int64_t i = 0; i < s.rows * s.C; i++) assert_int_equal(isnan(y[i]) != 0, i / s.C == 1);
        assert_true(isnan(mean[1]) && isnan(rstd[1]));
        call.name = "rmsnorm";
        call.n_in = call.n_out = 2;
        call.out[1] = call.out[2];
        assert_int_equal(kernel_run(level->one, &call), ZR_OK);
        for (int64_t i = 0; i < s.rows * s.C; i++) assert_int_equal(isnan(y[i]) != 0, i / s.C == 1);
    }
}

static void test_not_a_number(void **state)
{
    (void)state;
    for_every_level(not_a_number);
}

/* Check gains near 0 and of exactly 0. zr keeps the norm's input and inverts nothing, so the gradient of the gain has
 * the same bits whatever the gain, and with gains of 0 no gradient passes. */
static void small_gains(const level_pair *level)
{
    if (!is_in_run()) return;
    const size s = {33, 57};
    const int64_t n = s.rows * s.C;
    for (int g = 0; g < N_DTYPES; g++) {
        const zr_dtype type = dtypes[g];
        void *x = make_rows(s, type), *dy = array_random(type, n, 1.0), *y = array_new(type, n);
        void *gain[3] = {array_random(type, s.C, 1.0), array_new(type, s.C), array_new(type, s.C)};
        void *bias = array_random(type, s.C, 1.0), *dgain[3], *dbias = array_new(ZR_F32, s.C), *dx = array_new(type, n);
        float *mean = array_new(ZR_F32, s.rows), *rstd = array_new(ZR_F32, s.rows);
        for (int64_t c = 0; c < s.C; c++) array_set(gain[1], type, c, 1e-30F);
        for (int64_t c = 0; c < s.C; c++) array_set(gain[2], type, c, 0.0F);
        for (int k = 0; k < 3; k++) {
            kernel_call call = {.name = "layernorm", .attr = {.f = {EPS}}, .n_in = 3, .n_out = 3};
            call.in[0] = tensor2(x, type, s.rows, s.C);
            call.in[1] = tensor1(gain[k], type, s.C);
            call.in[2] = tensor1(bias, type, s.C);
            call.out[0] = tensor2(y, type, s.rows, s.C);
            call.out[1] = tensor1(mean, ZR_F32, s.rows);
            call.out[2] = tensor1(rstd, ZR_F32, s.rows);
            assert_int_equal(kernel_run(level->one, &call), ZR_OK);
            kernel_call dw = {.name = "layernorm_dw", .n_in = 4, .n_out = 2, .scratch_bytes = 16 * 2 * 4 * s.C};
            dgain[k] = array_new(ZR_F32, s.C);
            dw.in[0] = tensor2(dy, type, s.rows, s.C);
            dw.in[1] = call.in[0];
            dw.in[2] = call.out[1];
            dw.in[3] = call.out[2];
            dw.out[0] = tensor1(dgain[k], ZR_F32, s.C);
            dw.out[1] = tensor1(dbias, ZR_F32, s.C);
            assert_int_equal(kernel_run(level->one, &dw), ZR_OK);
            assert_memory_equal(dgain[k], dgain[0], (size_t)s.C * sizeof(float));
            kernel_call back = {.name = "layernorm_dx", .attr = call.attr, .n_in = 6, .n_out = 1};
            back.in[0] = dw.in[0];
            back.in[1] = call.in[0];
            back.in[2] = call.in[1];
            back.in[3] = call.out[1];
            back.in[4] = call.out[2];
            back.in[5] = tensor_absent();
            back.out[0] = tensor2(dx, type, s.rows, s.C);
            assert_int_equal(kernel_run(level->one, &back), ZR_OK);
            for (int64_t i = 0; k == 2 && i < n; i++) assert_true(array_get(dx, type, i) == 0);
            for (int64_t i = 0; k == 2 && i < n; i++)
                assert_true(array_get(y, type, i) == array_get(bias, type, i % s.C));
        }
        pool_clear();
    }
}

static void test_small_gains(void **state)
{
    (void)state;
    for_every_level(small_gains);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference), cmocka_unit_test(test_rms_reference), cmocka_unit_test(test_values),
        cmocka_unit_test(test_groups),    cmocka_unit_test(test_not_a_number),  cmocka_unit_test(test_small_gains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
