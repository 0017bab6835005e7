//TEST timeout=60 tsan=gpu seeds=200
/* gelu, gelu_erf, relu, silu, tanh and swiglu, each with its _dx, add, mul, scale, dropout, fill. */
#include "device/kernel_check.h"

static const int64_t sizes[] = {1, 57, 1024, 1031, 40001};
#define N_SIZES (int)(sizeof sizes / sizeof *sizes)

/* ---- functions of one operand ---------------------------------------------------------------- */

static double gelu(double x)
{
    return 0.5 * x * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x)
{
    const double a = sqrt(2.0 / acos(-1.0)), t = tanh(a * (x + 0.044715 * x * x * x));
    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * a * (1.0 + 3.0 * 0.044715 * x * x);
}

static double gelu_erf(double x)
{
    return 0.5 * x * erfc(-x / sqrt(2.0));
}

static double gelu_erf_slope(double x)
{
    return 0.5 * erfc(-x / sqrt(2.0)) + x * exp(-0.5 * x * x) / sqrt(2.0 * acos(-1.0));
}

static double tanh_slope(double x)
{
    return 1.0 / (cosh(x) * cosh(x));
}

static double relu(double x)
{
    return x > 0.0 ? x : 0.0;
}

static double relu_slope(double x)
{
    return x > 0.0;
}

static double silu(double x)
{
    return x / (1.0 + exp(-x));
}

static double silu_slope(double x)
{
    return (1.0 + x / (1.0 + exp(x))) / (1.0 + exp(-x));
}

typedef struct unary {
    const char *name, *dx;
    double (*value)(double x), (*slope)(double x);
    double half; /* slope at 0 */
} unary;

static const unary unaries[] = {{"gelu", "gelu_dx", gelu, gelu_slope, 0.5},
                                {"relu", "relu_dx", relu, relu_slope, 0.0},
                                {"silu", "silu_dx", silu, silu_slope, 0.5},
                                {"gelu_erf", "gelu_erf_dx", gelu_erf, gelu_erf_slope, 0.5},
                                {"tanh", "tanh_dx", tanh, tanh_slope, 1.0}};
#define N_UNARIES (int)(sizeof unaries / sizeof *unaries)

static void test_unary_references(void **state)
{
    (void)state;
    for (int f = 0; f < N_UNARIES; f++)
        for (double x = -6.0; x < 6.0; x += 0.37) {
            double slope = (unaries[f].value(x + 1e-5) - unaries[f].value(x - 1e-5)) / 2e-5;
            assert_true(fabs(slope - unaries[f].slope(x)) < 1e-9);
        }
}

static kernel_call unary_call(const char *name, zr_tensor x, zr_tensor y)
{
    return (kernel_call){.name = name, .n_in = 1, .n_out = 1, .in = {x}, .out = {y}};
}

static kernel_call binary_call(const char *name, zr_tensor a, zr_tensor b, zr_tensor y)
{
    return (kernel_call){.name = name, .n_in = 2, .n_out = 1, .in = {a, b}, .out = {y}};
}

/* Check a function and its gradient; w is the gradient's type, F32 for a part of a parameter's. */
static void check_unary(const level_pair *level, const unary *f, int64_t n, zr_dtype g, zr_dtype w)
{
    void *x = array_random(g, n, 5.0), *dy = array_random(g, n, 1.0), *y = array_new(g, n), *dx = array_new(w, n);
    double *want = doubles_of(x, g, n), *want_dx = doubles_of(dy, g, n);
    for (int64_t i = 0; i < n; i++) {
        want_dx[i] *= f->slope(want[i]);
        want[i] = f->value(want[i]);
    }
    run_both(level, unary_call(f->name, tensor1(x, g, n), tensor1(y, g, n)), 0);
    assert_close(f->name, y, g, want, n, 1e-6);
    kernel_call back = binary_call(f->dx, tensor1(dy, g, n), tensor1(x, g, n), tensor1(dx, w, n));
    run_both(level, back, 0);
    assert_close(f->dx, dx, w, want_dx, n, 1e-6);
    if (g == w) run_in_place(level, back, 0, 0);
}

static void unary_values(const level_pair *level)
{
    for (int f = 0; f < N_UNARIES; f++)
        for (int i = 0; i < N_SIZES; i++)
            for (int g = 0; g < N_DTYPES; g++) {
                check_unary(level, &unaries[f], sizes[i], dtypes[g], dtypes[g]);
                if (g) check_unary(level, &unaries[f], sizes[i], dtypes[g], ZR_F32);
            }
}

static void test_unaries(void **state)
{
    (void)state;
    for_every_level(unary_values);
}

/* Check far-out values, where powers of x overflow, and infinities and NaN. */
static void unary_extremes(const level_pair *level)
{
    float x[] = {0.0f, -0.0f, 1e-40f, 95.5f, -95.5f, 1e15f, -1e15f, 3e38f, -3e38f, INFINITY, -INFINITY, NAN};
    enum { N = sizeof x / sizeof *x };
    for (int f = 0; f < N_UNARIES - 1; f++) { /* tanh has other limits */
        const float half = (float)unaries[f].half;
        const float want[N] = {
            0.0f, 0.0f, unaries[f].half == 0 ? 1e-40f : 5e-41f, 95.5f, 0.0f, 1e15f, 0.0f, 3e38f, 0.0f, INFINITY,
            0.0f, NAN};
        const float slope[N] = {half, half, half == 0 ? 1.0f : half, 1.0f, 0.0f, 1.0f, 0.0f, 1.0f, 0.0f, 1.0f,
                                0.0f, NAN};
        float y[N], dx[N], dy[N];
        for (int i = 0; i < N; i++) dy[i] = isnan(x[i]) ? x[i] : 1.0f;
        kernel_call call = unary_call(unaries[f].name, tensor1(x, ZR_F32, N), tensor1(y, ZR_F32, N));
        assert_int_equal(kernel_run(level->one, &call), ZR_OK);
        kernel_call back =
            binary_call(unaries[f].dx, tensor1(dy, ZR_F32, N), tensor1(x, ZR_F32, N), tensor1(dx, ZR_F32, N));
        assert_int_equal(kernel_run(level->one, &back), ZR_OK);
        for (int i = 0; i < N; i++) {
            assert_true(isnan(want[i]) ? isnan(y[i]) : y[i] == want[i] || fabsf(y[i] - want[i]) < 1e-30f);
            assert_true(isnan(slope[i]) ? isnan(dx[i]) : dx[i] == slope[i] || fabsf(dx[i] - slope[i]) < 1e-30f);
        }
    }
}

/* Check tanh far out, and that each function keeps its relative precision near 0 and where it is small. */
static void small_values(const level_pair *level)
{
    const float far[] = {95.5f, -95.5f, 3e38f, -INFINITY, NAN};
    float y[5], dx[5], x[64], one[64], got[64];
    const float dy[5] = {1, 1, 1, 1, NAN};
    kernel_call call = unary_call("tanh", tensor1((void *)far, ZR_F32, 5), tensor1(y, ZR_F32, 5));
    assert_int_equal(kernel_run(level->one, &call), ZR_OK);
    kernel_call back =
        binary_call("tanh_dx", tensor1((void *)dy, ZR_F32, 5), tensor1((void *)far, ZR_F32, 5), tensor1(dx, ZR_F32, 5));
    assert_int_equal(kernel_run(level->one, &back), ZR_OK);
    for (int i = 0; i < 4; i++) assert_true(y[i] == (i % 2 ? -1.0f : 1.0f) && fabsf(dx[i]) < 1e-15f);
    assert_true(isnan(y[4]) && isnan(dx[4]));
    for (int f = 0; f < N_UNARIES; f++) {
        for (int i = 0; i < 64; i++) {
            x[i] = (i % 2 ? -1.0f : 1.0f) * powf(2.0f, (float)i / 4.0f - 13.0f); /* up to 6.7 */
            one[i] = 1.0f;
        }
        kernel_call value = unary_call(unaries[f].name, tensor1(x, ZR_F32, 64), tensor1(got, ZR_F32, 64));
        assert_int_equal(kernel_run(level->one, &value), ZR_OK);
        for (int i = 0; i < 64; i++) {
            const double want = unaries[f].value(x[i]);
            if (f >= N_UNARIES - 2 && !(fabs(got[i] - want) <= 4e-6 * fabs(want)))
                fail_msg("%s(%g) is %.9g, wanted %.9g", unaries[f].name, x[i], got[i], want);
        }
        kernel_call slope =
            binary_call(unaries[f].dx, tensor1(one, ZR_F32, 64), tensor1(x, ZR_F32, 64), tensor1(got, ZR_F32, 64));
        assert_int_equal(kernel_run(level->one, &slope), ZR_OK);
        for (int i = 0; i < 64; i++) assert_float_equal(got[i], unaries[f].slope(x[i]), 1e-6);
    }
}

static void test_unary_extremes(void **state)
{
    (void)state;
    for_every_level(unary_extremes);
    for_every_level(small_values);
}

/* ---- swiglu ---------------------------------------------------------------------------------- */

/* Run swiglu_dx with dgate in place of dy and dup in place of up, and check for the same bits. */
static void swiglu_in_place(const level_pair *level, kernel_call call, zr_dtype g, int64_t n)
{
    const void *want[] = {call.out[0].data, call.out[1].data};
    call.in[0].data = call.out[0].data = array_copy(call.in[0].data, g, n);
    call.in[2].data = call.out[1].data = array_copy(call.in[2].data, g, n);
    run_aligned(level, call, want);
    assert_int_equal(kernel_run(level->three, &call), ZR_OK);
    for (int i = 0; i < 2; i++) assert_memory_equal(want[i], call.out[i].data, (size_t)(n * zr_dtype_bytes(g)));
}

static void check_swiglu(const level_pair *level, int64_t n, zr_dtype g, zr_dtype w)
{
    void *gate = array_random(g, n, 5.0), *up = array_random(g, n, 2.0), *dy = array_random(g, n, 1.0);
    void *y = array_new(g, n), *dgate = array_new(w, n), *dup = array_new(w, n);
    double *want = doubles_of(up, g, n), *want_gate = doubles_of(dy, g, n), *want_up = doubles_of(dy, g, n);
    for (int64_t i = 0; i < n; i++) {
        const double x = array_get(gate, g, i);
        want_gate[i] *= want[i] * silu_slope(x);
        want_up[i] *= silu(x);
        want[i] *= silu(x);
    }
    kernel_call call = binary_call("swiglu", tensor1(gate, g, n), tensor1(up, g, n), tensor1(y, g, n));
    run_both(level, call, 0);
    assert_close("swiglu", y, g, want, n, 1e-6);
    run_in_place(level, call, 0, 0);
    kernel_call back = {.name = "swiglu_dx", .n_in = 3, .n_out = 2};
    back.in[0] = tensor1(dy, g, n);
    back.in[1] = tensor1(gate, g, n);
    back.in[2] = tensor1(up, g, n);
    back.out[0] = tensor1(dgate, w, n);
    back.out[1] = tensor1(dup, w, n);
    run_both(level, back, 0);
    assert_close("dgate", dgate, w, want_gate, n, 1e-6);
    assert_close("dup", dup, w, want_up, n, 1e-6);
    if (g == w) swiglu_in_place(level, back, g, n);
}

static void swiglu_values(const level_pair *level)
{
    for (int i = 0; i < N_SIZES; i++)
        for (int g = 0; g < N_DTYPES; g++) {
            check_swiglu(level, sizes[i], dtypes[g], dtypes[g]);
            if (g) check_swiglu(level, sizes[i], dtypes[g], ZR_F32);
        }
}

static void test_swiglu(void **state)
{
    (void)state;
    for_every_level(swiglu_values);
}

/* Check far-out gates, infinities and NaN, with dy = 1 and up = 2. */
static void swiglu_extremes(const level_pair *level)
{
    float gate[] = {0.0f, 95.5f, -95.5f, 3e37f, -3e38f, INFINITY, -INFINITY, NAN};
    enum { N = sizeof gate / sizeof *gate };
    const float silus[N] = {0.0f, 95.5f, 0.0f, 3e37f, 0.0f, INFINITY, 0.0f, NAN};
    const float slopes[N] = {0.5f, 1.0f, 0.0f, 1.0f, 0.0f, 1.0f, 0.0f, NAN};
    float dy[N], up[N], y[N], dgate[N], dup[N];
    for (int i = 0; i < N; i++) dy[i] = 1.0f;
    for (int i = 0; i < N; i++) up[i] = 2.0f;
    kernel_call call = binary_call("swiglu", tensor1(gate, ZR_F32, N), tensor1(up, ZR_F32, N), tensor1(y, ZR_F32, N));
    assert_int_equal(kernel_run(level->one, &call), ZR_OK);
    kernel_call back = {.name = "swiglu_dx", .n_in = 3, .n_out = 2};
    back.in[0] = tensor1(dy, ZR_F32, N);
    back.in[1] = call.in[0];
    back.in[2] = call.in[1];
    back.out[0] = tensor1(dgate, ZR_F32, N);
    back.out[1] = tensor1(dup, ZR_F32, N);
    assert_int_equal(kernel_run(level->one, &back), ZR_OK);
    for (int i = 0; i < N; i++) {
        const float want[] = {2.0f * silus[i], 2.0f * slopes[i], silus[i]}, got[] = {y[i], dgate[i], dup[i]};
        for (int k = 0; k < 3; k++)
            assert_true(isnan(want[k]) ? isnan(got[k]) : got[k] == want[k] || fabsf(got[k] - want[k]) < 1e-30f);
    }
}

static void test_swiglu_extremes(void **state)
{
    (void)state;
    for_every_level(swiglu_extremes);
}

/* ---- mul, scale ------------------------------------------------------------------------------ */

static void check_mul(const level_pair *level, int64_t n, zr_dtype g, zr_dtype w)
{
    void *a = array_random(g, n, 2.0), *b = array_random(g, n, 2.0), *y = array_new(w, n);
    double *want = doubles_of(a, g, n), *scaled = doubles_of(a, g, n);
    for (int64_t i = 0; i < n; i++) {
        want[i] *= array_get(b, g, i);
        scaled[i] *= (float)-0.3;
    }
    kernel_call call = binary_call("mul", tensor1(a, g, n), tensor1(b, g, n), tensor1(y, w, n));
    run_both(level, call, 0);
    assert_close("mul", y, w, want, n, 1e-7);
    if (g == w) run_in_place(level, call, 0, 0);
    call = unary_call("scale", tensor1(a, g, n), tensor1(y, w, n));
    call.attr.f[0] = -0.3;
    run_both(level, call, 0);
    assert_close("scale", y, w, scaled, n, 1e-7);
    if (g == w) run_in_place(level, call, 0, 0);
}

static void mul_values(const level_pair *level)
{
    for (int i = 0; i < N_SIZES; i++)
        for (int g = 0; g < N_DTYPES; g++) {
            check_mul(level, sizes[i], dtypes[g], dtypes[g]);
            if (g) check_mul(level, sizes[i], dtypes[g], ZR_F32);
        }
}

static void test_mul_scale(void **state)
{
    (void)state;
    for_every_level(mul_values);
}

/* ---- add, fill ------------------------------------------------------------------------------- */

static void check_add(const level_pair *level, int64_t n, zr_dtype a_dtype, zr_dtype b_dtype, zr_dtype y_dtype)
{
    void *a = array_random(a_dtype, n, 1.0), *b = array_random(b_dtype, n, 1.0), *y = array_new(y_dtype, n);
    double *want = doubles_of(a, a_dtype, n);
    for (int64_t i = 0; i < n; i++) want[i] += array_get(b, b_dtype, i);
    kernel_call call = {.name = "add", .attr = {.i = {y_dtype}}, .n_in = 2, .n_out = 1};
    call.in[0] = tensor1(a, a_dtype, n);
    call.in[1] = tensor1(b, b_dtype, n);
    call.out[0] = tensor1(y, y_dtype, n);
    run_both(level, call, 0);
    assert_close("add", y, y_dtype, want, n, 1e-7);
    if (a_dtype == y_dtype) run_in_place(level, call, 0, 0);
}

static void add_values(const level_pair *level)
{
    for (int i = 0; i < N_SIZES; i++) {
        for (int a = 0; a < N_DTYPES; a++)
            for (int b = 0; b < N_DTYPES; b++)
                for (int y = 0; y < N_DTYPES; y++) check_add(level, sizes[i], dtypes[a], dtypes[b], dtypes[y]);
        for (int g = 0; g < N_DTYPES; g++) {
            void *y = array_new(dtypes[g], sizes[i]);
            double *want = doubles_new(sizes[i]);
            for (int64_t j = 0; j < sizes[i]; j++) want[j] = 1.0 / 4096.0;
            kernel_call call = {.name = "fill", .n_out = 1, .runtime = {.loss_seed = {1.0f / 4096.0f}}};
            call.out[0] = tensor1(y, dtypes[g], sizes[i]);
            run_both(level, call, 0);
            assert_close("fill", y, dtypes[g], want, sizes[i], 0.0);
        }
    }
}

static void test_add_fill(void **state)
{
    (void)state;
    for_every_level(add_values);
}

/* ---- dropout --------------------------------------------------------------------------------- */

static void check_dropout(const level_pair *level, int64_t B, int64_t row, int64_t first_row, zr_dtype g, double p)
{
    const int64_t n = B * row;
    void *x = array_random(g, n, 1.0), *y = array_new(g, n);
    double *want = doubles_of(x, g, n);
    kernel_call call = {.name = "dropout", .attr = {.i = {7}, .f = {p}}, .n_in = 1, .n_out = 1};
    call.runtime = (zr_runtime){.seed = 0x123456789abcdef0u, .step = 11, .first_row = first_row};
    const zr_rng rng = {call.runtime.seed, ZR_RNG_DROPOUT, 7, 11};
    for (int64_t i = 0; i < n; i++) {
        uint32_t u = zr_rng_u32(&rng, (uint64_t)(first_row * row + i));
        want[i] *= (double)(u >> 8) * 0x1p-24 >= p ? 1.0 / (1.0 - p) : 0.0;
    }
    call.in[0] = tensor2(x, g, B, row);
    call.out[0] = tensor2(y, g, B, row);
    run_both(level, call, 0);
    assert_close("dropout", y, g, want, n, 1e-6);
    run_in_place(level, call, 0, 0);
}

static void dropout_values(const level_pair *level)
{
    for (int g = 0; g < N_DTYPES; g++) {
        check_dropout(level, 1, 1, 0, dtypes[g], 0.5);
        check_dropout(level, 3, 57, 5, dtypes[g], 0.1); /* starts at element 285, inside a block of 4 */
        check_dropout(level, 2, 1031, 1, dtypes[g], 0.25);
        check_dropout(level, 7, 5003, 1000003, dtypes[g], 0.9);
    }
}

static void test_dropout(void **state)
{
    (void)state;
    for_every_level(dropout_values);
}

/* Check that dropout's threshold is exact: an element is kept when its random number equals p, and dropped when p is
 * the next number above. */
static void dropout_threshold(const level_pair *level)
{
    enum { N = 64 };
    const zr_rng rng = {.seed = 9, .purpose = ZR_RNG_DROPOUT, .stream = 4};
    float *x = array_new(ZR_F32, N), *y = array_new(ZR_F32, N);
    for (int i = 0; i < N; i++) x[i] = 1.0f;
    for (int at = 0; at < N; at += 5)
        for (int above = 0; above < 2; above++) {
            const double u = (double)(zr_rng_u32(&rng, (uint64_t)at) >> 8) * 0x1p-24, p = above ? nextafter(u, 1.0) : u;
            kernel_call call = unary_call("dropout", tensor2(x, ZR_F32, 1, N), tensor2(y, ZR_F32, 1, N));
            call.attr = (zr_op_attr){.i = {4}, .f = {p}};
            call.runtime.seed = 9;
            assert_int_equal(kernel_run(level->one, &call), ZR_OK);
            assert_true(above ? y[at] == 0.0f : y[at] == (float)(1.0 / (1.0 - p)));
        }
}

static void test_dropout_threshold(void **state)
{
    (void)state;
    for_every_level(dropout_threshold);
}

/* Check that rows get the same random numbers however the batch is divided. */
static void dropout_cut(const level_pair *level)
{
    const int64_t B = 6, row = 131;
    float *x = array_random(ZR_F32, B * row, 1.0), *whole = array_new(ZR_F32, B * row), *part = array_new(ZR_F32, row);
    kernel_call call = {.name = "dropout", .attr = {.i = {3}, .f = {0.3}}, .n_in = 1, .n_out = 1};
    call.runtime = (zr_runtime){.seed = 5, .step = 2, .first_row = 12};
    call.in[0] = tensor2(x, ZR_F32, B, row);
    call.out[0] = tensor2(whole, ZR_F32, B, row);
    run_both(level, call, 0);
    for (int64_t b = 0; b < B; b++) {
        call.runtime.first_row = 12 + b;
        call.in[0] = tensor2(x + b * row, ZR_F32, 1, row);
        call.out[0] = tensor2(part, ZR_F32, 1, row);
        run_both(level, call, 0);
        assert_memory_equal(part, whole + b * row, (size_t)row * 4);
    }
}

static void test_dropout_cut(void **state)
{
    (void)state;
    for_every_level(dropout_cut);
}

/* Copy this rank's pieces between x and `own`: a row has `parts` parts of `ranks` pieces of `piece` columns. */
static void copy_pieces(float *x, float *own, int64_t rows, int64_t parts, int64_t ranks, int64_t place, int64_t piece,
                        bool back)
{
    for (int64_t k = 0; k < rows * parts; k++) {
        float *there = x + (k * ranks + place) * piece, *here = own + k * piece;
        memcpy(back ? there : here, back ? here : there, (size_t)piece * sizeof(float));
    }
}

/* Check that the elements get the same random numbers if each of `ranks` ranks has only its columns. */
static void check_columns(const level_pair *level, int64_t ranks, int64_t parts, int64_t piece)
{
    const int64_t B = 2, T = 5, whole = ranks * parts * piece, own = parts * piece;
    float *x = array_random(ZR_F32, B * T * whole, 1.0), *want = array_new(ZR_F32, B * T * whole);
    float *got = array_new(ZR_F32, B * T * whole);
    kernel_call call = {.name = "dropout", .attr = {.i = {3}, .f = {0.3}}, .n_in = 1, .n_out = 1};
    call.runtime = (zr_runtime){.seed = 5, .step = 2, .first_row = 3};
    call.in[0] = tensor3(x, ZR_F32, B, T, whole);
    call.out[0] = tensor3(want, ZR_F32, B, T, whole);
    run_both(level, call, 0);
    call.attr = (zr_op_attr){.i = {3, T * whole, piece, ranks}, .f = {0.3}};
    for (int64_t r = 0; r < ranks; r++) {
        float *x_own = array_new(ZR_F32, B * T * own), *y_own = array_new(ZR_F32, B * T * own);
        copy_pieces(x, x_own, B * T, parts, ranks, r, piece, false);
        call.runtime.place = r;
        call.in[0] = tensor3(x_own, ZR_F32, B, T, own);
        call.out[0] = tensor3(y_own, ZR_F32, B, T, own);
        run_both(level, call, 0);
        run_in_place(level, call, 0, 0);
        copy_pieces(got, y_own, B * T, parts, ranks, r, piece, true);
    }
    assert_memory_equal(got, want, (size_t)(B * T * whole) * sizeof(float));
}

static void dropout_columns(const level_pair *level)
{
    for (int64_t ranks = 2; ranks <= 4; ranks++)
        for (int64_t parts = 1; parts <= 2; parts++) {
            check_columns(level, ranks, parts, 1);
            check_columns(level, ranks, parts, 27);
            check_columns(level, ranks, parts, 40);   /* the GPU's threads take 8 elements at a time */
            check_columns(level, ranks, parts, 1100); /* above the processor's chunk of 1024 elements */
        }
}

static void test_dropout_columns(void **state)
{
    (void)state;
    for_every_level(dropout_columns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unary_references),  cmocka_unit_test(test_unaries),
        cmocka_unit_test(test_unary_extremes),    cmocka_unit_test(test_mul_scale),
        cmocka_unit_test(test_add_fill),          cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_dropout_threshold), cmocka_unit_test(test_dropout_cut),
        cmocka_unit_test(test_dropout_columns),   cmocka_unit_test(test_swiglu),
        cmocka_unit_test(test_swiglu_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
