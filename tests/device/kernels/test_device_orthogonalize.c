//TEST timeout=60
/* The op orthogonalize: against the closed form of the iteration, and against double precision in F32 and BF16, for
 * wide and tall matrices, alone and side by side in a larger one; the same bits on any number of threads. */
#include "device/kernel_check.h"
#include "support/muon_reference.h"

static zr_ortho standard(zr_dtype dtype)
{
    zr_ortho ortho = zr_muon_defaults().ortho;
    ortho.dtype = dtype;
    return ortho;
}

/* ---- closed form ------------------------------------------------------------------------------- */

/* Fill q (n, k) with orthonormal columns: random ones, each made orthogonal to those before it, twice. */
static void orthonormal(int64_t n, int64_t k, uint64_t seed, double *q)
{
    const zr_rng rng = {.seed = seed, .purpose = ZR_RNG_SHUFFLE};
    for (int64_t j = 0; j < k; j++) {
        for (int64_t i = 0; i < n; i++) q[i * k + j] = zr_rng_uniform(&rng, (uint64_t)(i * k + j)) - 0.5;
        for (int twice = 0; twice < 2; twice++)
            for (int64_t l = 0; l <= j; l++) {
                double dot = 0;
                for (int64_t i = 0; i < n; i++) dot += q[i * k + l] * q[i * k + j];
                for (int64_t i = 0; i < n; i++)
                    q[i * k + j] = l < j ? q[i * k + j] - dot * q[i * k + l] : q[i * k + j] / sqrt(dot);
            }
    }
}

/* Check that u = U diag(s) V^T becomes U diag(f^5(s / |u|)) V^T. */
static void closed_form(void **state)
{
    (void)state;
    enum { MOST = 64 };
    static const int64_t shapes[][2] = {{12, 12}, {33, 12}, {12, 33}, {64, 48}};
    const zr_ortho ortho = standard(ZR_F32);
    for (size_t c = 0; c < sizeof shapes / sizeof *shapes; c++) {
        const int64_t m = shapes[c][0], n = shapes[c][1], r = m < n ? m : n;
        static double u[MOST * MOST], v[MOST * MOST], x[MOST * MOST], want[MOST * MOST];
        double s[MOST], norm = 0;
        orthonormal(m, r, 1, u);
        orthonormal(n, r, 2, v);
        for (int64_t i = 0; i < r; i++) s[i] = pow(10, -6.0 * (double)i / (double)r), norm += s[i] * s[i];
        memset(x, 0, sizeof x);
        memset(want, 0, sizeof want);
        for (int64_t k = 0; k < r; k++) {
            double f = s[k] / sqrt(norm);
            for (int i = 0; i < ortho.steps; i++) f = ortho.a * f + ortho.b * pow(f, 3) + ortho.c * pow(f, 5);
            for (int64_t i = 0; i < m; i++)
                for (int64_t j = 0; j < n; j++) {
                    x[i * n + j] += u[i * r + k] * s[k] * v[j * r + k];
                    want[i * n + j] += u[i * r + k] * f * v[j * r + k];
                }
        }
        muon_orthogonalize(&ortho, m, n, x);
        for (int64_t i = 0; i < m * n; i++) assert_true(fabs(x[i] - want[i]) <= 1e-12);
    }
}

/* ---- the kernel -------------------------------------------------------------------------------- */

/* A matrix (rows, cols) that begins at column `from` of a larger one of `apart` columns. */
typedef struct place {
    int64_t rows, cols, apart, from;
} place;

static const place places[] = {{48, 48, 48, 0},   {128, 48, 48, 0}, {48, 128, 128, 0}, {12, 36, 36, 0},
                               {64, 64, 192, 64}, {1, 7, 7, 0},     {40, 3, 9, 6},     {57, 131, 131, 0}};

/* Run the kernel on the matrix in the larger matrix x, or in a copy of x in the device's own memory. */
static void call_kernel(zr_device *device, const zr_ortho *ortho, const place *at, void *x)
{
    const int64_t first = at->from * zr_dtype_bytes(ortho->dtype);
    const int64_t bytes = at->rows * at->apart * zr_dtype_bytes(ortho->dtype);
    const bool apart = device->profile.facts.own_memory;
    void *memory = x;
    if (apart) {
        assert_int_equal(device->ops->alloc(device, bytes, &memory), ZR_OK);
        assert_int_equal(device->ops->copy(device, memory, x, bytes), ZR_OK);
    }
    zr_tensor matrix = tensor2((char *)memory + first, ortho->dtype, at->rows, at->cols);
    kernel_call call = {
        .name = "orthogonalize",
        .attr = {.i = {ortho->steps, at->apart, ortho->eps_added}, .f = {ortho->a, ortho->b, ortho->c, ortho->eps}},
        .n_in = 1,
        .n_out = 1,
        .in = {matrix},
        .out = {matrix},
        .direct = true};
    const zr_op_def def = {.name = call.name, .n_out = 1};
    const zr_op op = {.def = &def, .attr = call.attr, .n_in = 1, .n_out = 1, .in = {0}, .out = {1}};
    call.scratch_bytes = kernel_scratch_bytes(device, &call, &op);
    assert_int_equal(kernel_run(device, &call), ZR_OK);
    if (!apart) return;
    assert_int_equal(device->ops->copy(device, x, memory, bytes), ZR_OK);
    device->ops->free(device, memory);
}

/* Fill the larger matrix with random elements. */
static void *random_matrix(zr_dtype dtype, const place *at)
{
    void *x = array_new(dtype, at->rows * at->apart);
    const zr_rng rng = {.seed = 3, .purpose = ZR_RNG_SHUFFLE};
    for (int64_t i = 0; i < at->rows * at->apart; i++)
        array_set(x, dtype, i, (zr_rng_uniform(&rng, (uint64_t)i) - 0.5) * 1e-3);
    return x;
}

static void check_place(zr_device *device, zr_dtype dtype, const place *at, bool added)
{
    enum { MOST = 12 * 1024 };
    static double want[MOST], got[MOST];
    zr_ortho ortho = standard(dtype);
    ortho.eps_added = added;
    ortho.eps = added ? 1e-3 : ortho.eps;
    void *x = random_matrix(dtype, at), *before = random_matrix(dtype, at);
    const int64_t n = at->rows * at->cols;
    assert_in_range(n, 1, MOST);
    for (int64_t i = 0; i < n; i++) want[i] = array_get(x, dtype, i / at->cols * at->apart + at->from + i % at->cols);
    muon_orthogonalize(&ortho, at->rows, at->cols, want);
    call_kernel(device, &ortho, at, x);
    for (int64_t i = 0; i < n; i++) got[i] = array_get(x, dtype, i / at->cols * at->apart + at->from + i % at->cols);
    const double off = muon_distance(got, want, n);
    if (!(off <= (dtype == ZR_F32 ? 1e-5 : 4e-2)))
        fail_msg("%s, %lld x %lld in %s: off by %g", device->profile.facts.name, (long long)at->rows,
                 (long long)at->cols, zr_dtype_name(dtype), off);
    for (int64_t i = 0; i < at->rows * at->apart; i++) {
        const int64_t col = i % at->apart - at->from;
        if (col < 0 || col >= at->cols) assert_true(array_get(x, dtype, i) == array_get(before, dtype, i));
    }
    pool_clear();
}

static void check_values(zr_device *device)
{
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        for (int narrow = 0; narrow < 2; narrow++) check_place(device, narrow ? ZR_BF16 : ZR_F32, &places[i], i % 2);
}

/* Check that a zero matrix becomes zero, without a NaN, and with a positive sign. */
static void check_zero(zr_device *device)
{
    const place at = {8, 20, 20, 0};
    for (int added = 0; added < 2; added++) {
        zr_ortho ortho = standard(ZR_F32);
        ortho.eps = 0;
        ortho.eps_added = added;
        ortho.steps = added ? 5 : 0; /* an iteration gives 0 for -0 by itself */
        float *x = array_new(ZR_F32, 160);
        for (int i = 0; i < 160; i++) x[i] = -0.0f;
        call_kernel(device, &ortho, &at, x);
        for (int i = 0; i < 160; i++) assert_true(x[i] == 0 && !signbit(x[i]));
        pool_clear();
    }
}

static void check_level(const level_pair *level)
{
    zr_device *const device[] = {level->one, level->three};
    for (int i = 0; i < 2; i++) {
        check_values(device[i]);
        check_zero(device[i]);
    }
}

static void test_values(void **state)
{
    (void)state;
    for_every_level(check_level);
}

/* Check that the bits do not depend on the number of threads, nor on the matrix's place. */
static void test_bits(void **state)
{
    (void)state;
    const place alone = {131, 67, 67, 0}, beside = {131, 67, 201, 67};
    for (int narrow = 0; narrow < 2; narrow++) {
        const zr_ortho ortho = standard(narrow ? ZR_BF16 : ZR_F32);
        void *first = NULL;
        for (int threads = 1; threads <= 3; threads++) {
            const zr_device_config config = {.threads = threads};
            zr_device *device = NULL;
            assert_int_equal(zr_device_create_cpu(&config, &device), ZR_OK);
            void *x = random_matrix(ortho.dtype, &alone), *y = random_matrix(ortho.dtype, &beside);
            for (int64_t i = 0; i < alone.rows * alone.cols; i++)
                array_set(y, ortho.dtype, i / 67 * 201 + 67 + i % 67, array_get(x, ortho.dtype, i));
            call_kernel(device, &ortho, &alone, x);
            call_kernel(device, &ortho, &beside, y);
            if (!first) first = x;
            for (int64_t i = 0; i < alone.rows * alone.cols; i++) {
                assert_true(array_get(x, ortho.dtype, i) == array_get(first, ortho.dtype, i));
                assert_true(array_get(x, ortho.dtype, i) == array_get(y, ortho.dtype, i / 67 * 201 + 67 + i % 67));
            }
            zr_device_destroy(&device);
        }
        pool_clear();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(closed_form), cmocka_unit_test(test_values),
                                       cmocka_unit_test(test_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
