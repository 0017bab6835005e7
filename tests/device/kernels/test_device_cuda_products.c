//TEST timeout=60 tsan=gpu seeds=200
//STAND_IN
/* Products on a GPU: aligned and unaligned arrays, biases fused into the product or added before it, rounded sums in
 * blocks, failures of cuBLASLt; column sums and the bias of a sum over ranks on every device. */
#ifndef ZR_GPU
#include <cublasLt.h>
#endif

#include "device/cuda/products.h"
#include "device/cuda/scratch.h"
#include "device/kernel_check.h"
#include "support/long.h"
#include "device/device.h"

static zr_device *gpu_new(void)
{
    zr_device_config config = ZR_DEVICE_CONFIG_INIT;
    zr_device *device = NULL;
    assert_int_equal(zr_device_create_cuda(&config, &device), ZR_OK);
    return device;
}

/* ---- arrays ------------------------------------------------------------------------------------ */

/* Return n random elements, aligned to 64 bytes or `shift` elements further; kernel_run gives the GPU's copy the same
 * alignment. */
static void *array_at(zr_dtype dtype, int64_t n, int64_t shift)
{
    const int64_t each = zr_dtype_bytes(dtype);
    char *memory = pool_take((n + shift) * each + 64, 1);
    void *x = memory + (64 - (uintptr_t)memory % 64) % 64 + shift * each;
    for (int64_t i = 0; i < n; i++) array_set(x, dtype, i, random_unit());
    return x;
}

/* ---- the linear ops ---------------------------------------------------------------------------- */

typedef struct product_case {
    const char *op;
    int64_t rows, K, N;
    bool transposed, extra; /* extra: a bias, or earlier contributions to be added */
    zr_dtype g, w;
    int64_t shift; /* shift of every array, in elements */
} product_case;

/* The product C (m,n) of an op as a product of matrices: the strides of A's elements (i,l) and B's elements (l,j) in
 * the op's operands. */
typedef struct matrices {
    int64_t m, n, k, a_row, a_col, b_row, b_col;
} matrices;

static matrices matrices_of(const product_case *c)
{
    const bool t = c->transposed;
    if (strcmp(c->op, "linear") == 0) return (matrices){c->rows, c->N, c->K, c->K, 1, t ? 1 : c->N, t ? c->K : 1};
    if (strcmp(c->op, "linear_dx") == 0) return (matrices){c->rows, c->K, c->N, c->N, 1, t ? c->K : 1, t ? 1 : c->N};
    if (t) return (matrices){c->N, c->K, c->rows, 1, c->N, c->K, 1};
    return (matrices){c->K, c->N, c->rows, 1, c->K, c->N, 1};
}

/* Return the expected result, computed in double. */
static double *reference(const product_case *c, const void *a, const void *b, const void *extra)
{
    const matrices s = matrices_of(c);
    const bool dw = strcmp(c->op, "linear_dw") == 0;
    double *want = doubles_new(s.m * s.n);
    for (int64_t i = 0; i < s.m * s.n; i++) {
        if (c->extra) want[i] = dw ? array_get(extra, ZR_F32, i) : array_get(extra, c->g, i % s.n);
        for (int64_t l = 0; l < s.k; l++)
            want[i] += array_get(a, c->g, i / s.n * s.a_row + l * s.a_col) *
                       array_get(b, c->g, l * s.b_row + i % s.n * s.b_col);
    }
    return want;
}

static kernel_call call_of(const product_case *c, void *a, void *b, void *extra, void *out)
{
    const bool dw = strcmp(c->op, "linear_dw") == 0, forward = strcmp(c->op, "linear") == 0, t = c->transposed;
    kernel_call call = {.name = c->op, .attr.i[0] = t, .n_in = forward || dw ? 3 : 2, .n_out = 1};
    const int64_t w_rows = t ? c->N : c->K, w_cols = t ? c->K : c->N;
    call.in[0] = tensor2(dw && t ? b : a, c->g, c->rows, forward || dw ? c->K : c->N);
    call.in[1] = dw ? tensor2(t ? a : b, c->g, c->rows, c->N) : tensor2(b, c->g, w_rows, w_cols);
    call.in[2] = tensor_absent();
    if (c->extra) call.in[2] = dw ? tensor2(extra, ZR_F32, w_rows, w_cols) : tensor1(extra, c->g, c->N);
    call.out[0] = dw        ? tensor2(out, c->w, w_rows, w_cols)
                  : forward ? tensor2(out, c->g, c->rows, c->N)
                            : tensor2(out, c->g, c->rows, c->K);
    return call;
}

/* Return the tolerance for a number of terms: a GPU adds in its own order, and its 16-bit units truncate bits that do
 * not fit their sum. */
static double tolerance(int64_t terms)
{
#ifdef ZR_GPU
    return 2e-6 + (double)terms / 16 * 0x1p-23;
#else
    (void)terms;
    return 2e-6;
#endif
}

static void check_product(zr_device *device, const product_case *c)
{
    const matrices s = matrices_of(c);
    const bool dw = strcmp(c->op, "linear_dw") == 0;
    const zr_dtype out_dtype = dw ? c->w : c->g;
    void *a = array_at(c->g, s.m * s.k, c->shift), *b = array_at(c->g, s.k * s.n, c->shift);
    void *extra = array_at(dw ? ZR_F32 : c->g, dw ? s.m * s.n : s.n, c->shift);
    void *out = array_at(out_dtype, s.m * s.n, c->shift);
    memset(out, 0xff, (size_t)(s.m * s.n * zr_dtype_bytes(out_dtype)));
    const kernel_call call = call_of(c, a, b, extra, out);
    if (kernel_run(device, &call) != ZR_OK) fail_msg("%s: %s", c->op, zr_error_message());
    assert_close(c->op, out, out_dtype, reference(c, a, b, extra), s.m * s.n, tolerance(s.k));
}

static void check_types(zr_device *device, product_case c)
{
    for (int d = 0; d < N_DTYPES; d++) {
        c.g = c.w = dtypes[d];
        check_product(device, &c);
        c.w = ZR_F32;
        if (c.g != ZR_F32 && strcmp(c.op, "linear_dw") == 0) check_product(device, &c);
    }
}

static void test_linear(void **state)
{
    (void)state;
    static const char *const ops[] = {"linear", "linear_dx", "linear_dw"};
    static const int64_t sizes[][3] = {{1, 1, 1},     {1, 57, 131}, {9, 16, 24},   {33, 7, 65},   {130, 131, 8},
                                       {2, 1100, 35}, {1100, 3, 9}, {5, 3, 16385}, {5, 16385, 3}, {16385, 3, 5}};
    zr_device *device = gpu_new();
    for (int i = 0; i < 10 * 3 * 8; i++) {
        const int64_t *s = sizes[i / 24];
        const bool transposed = i & 1, extra = i & 2, shift = i & 4;
        if ((extra && i / 8 % 3 == 1) || !is_in_run()) continue;
        check_types(device, (product_case){ops[i / 8 % 3], s[0], s[1], s[2], transposed, extra, ZR_F32, ZR_F32, shift});
        pool_clear();
    }
    zr_device_destroy(&device);
#ifndef ZR_GPU
    assert_int_equal(zr_stand_in_taken(), 0);
    assert_int_equal(zr_stand_in_cublas_alive(), 0);
#endif
}

/* Check that a result beyond fp16 becomes infinite, not the largest number, while the sum itself may exceed fp16 on the
 * way. */
static void test_overflow(void **state)
{
    (void)state;
    const float x[] = {300, 300, -300, 300}, dy[] = {300, 100, 300, 300}; /* (rows,K) and (rows,N) */
    uint16_t x16[4], dy16[4], dw[4];
    zr_device *device = gpu_new();
    for (int i = 0; i < 4; i++) {
        x16[i] = zr_f16_from_f32(x[i]);
        dy16[i] = zr_f16_from_f32(dy[i]);
    }
    kernel_call call = {.name = "linear_dw", .n_in = 2, .n_out = 1};
    call.in[0] = tensor2(x16, ZR_F16, 2, 2);
    call.in[1] = tensor2(dy16, ZR_F16, 2, 2);
    call.out[0] = tensor2(dw, ZR_F16, 2, 2);
    assert_int_equal(kernel_run(device, &call), ZR_OK);
    /* 90000 - 90000, 30000 - 90000, 90000 + 90000, 30000 + 90000 */
    assert_true(zr_f32_from_f16(dw[0]) == 0 && zr_f32_from_f16(dw[1]) == -60000);
    assert_true(dw[2] == 0x7c00 && dw[3] == 0x7c00);
    zr_device_destroy(&device);
}

static void test_types(void **state)
{
    (void)state;
    float x[4] = {0};
    uint16_t w[4] = {0};
    zr_device *device = gpu_new();
    kernel_call call = {.name = "linear", .n_in = 2, .n_out = 1};
    call.in[0] = tensor2(x, ZR_F32, 2, 2);
    call.in[1] = tensor2(w, ZR_BF16, 2, 2);
    call.out[0] = tensor2(x, ZR_F32, 2, 2);
    assert_int_equal(kernel_run(device, &call), ZR_ERR_DTYPE);
    call.name = "linear_dw";
    call.in[1] = tensor2(x, ZR_F32, 2, 2);
    call.out[0] = tensor2(w, ZR_BF16, 2, 2);
    assert_int_equal(kernel_run(device, &call), ZR_ERR_UNSUPPORTED);
    zr_device_destroy(&device);
}

/* Check a rounded sum with earlier contributions, with more rows than one block has. */
static void test_rounded_blocks(void **state)
{
    (void)state;
    zr_device *device = gpu_new();
    const int64_t N = (int64_t)1 << 18, K = 43;
    const zr__cuda_rounded block = zr__cuda_rounded_make(K, N);
    assert_true(block.rows < K && K % block.rows != 0);
    for (int transposed = 0; transposed <= 1; transposed++) {
        product_case c = {"linear_dw", 1, K, N, false, true, ZR_BF16, ZR_BF16, 0};
        if (transposed) c = (product_case){"linear_dw", 1, N, K, true, true, ZR_F16, ZR_F16, 0};
        check_product(device, &c);
        pool_clear();
    }
    zr_device_destroy(&device);
}

/* ---- linear_db, bias --------------------------------------------------------------------------- */

/* Check column sums with fewer rows than runs, with several rows per run, and with columns in whole packs or not. */
static void column_sums(const level_pair *level)
{
    static const int64_t sizes[][2] = {{1, 8}, {31, 264}, {33, 7}, {4099, 40}, {9000, 3}};
    for (int i = 0; i < 5 * N_DTYPES; i++) {
        const int64_t rows = sizes[i % 5][0], cols = sizes[i % 5][1];
        const zr_dtype g = dtypes[i / 5], w = i % 2 ? g : ZR_F32;
        void *dy = array_random(g, rows * cols, 1.0), *earlier = array_random(ZR_F32, cols, 1.0);
        void *db = array_new(w, cols);
        double *want = doubles_new(cols);
        for (int64_t k = 0; k < rows * cols; k++) want[k % cols] += array_get(dy, g, k);
        for (int64_t k = 0; k < cols && i % 2 == 0; k++) want[k] += array_get(earlier, ZR_F32, k);
        kernel_call call = {.name = "linear_db", .n_in = 2, .n_out = 1};
        call.in[0] = tensor2(dy, g, rows, cols);
        call.in[1] = i % 2 ? tensor_absent() : tensor1(earlier, ZR_F32, cols);
        call.out[0] = tensor1(db, w, cols);
        run_both(level, call, 0);
        assert_close("db", db, w, want, cols, 2e-6);
        pool_clear();
    }
}

static void test_column_sums(void **state)
{
    (void)state;
    for_every_level(column_sums);
}

/* Check that column sums have the same bits at any alignment of dy. */
static void test_column_sums_lie(void **state)
{
    (void)state;
    zr_device *device = gpu_new();
    const int64_t rows = 777, cols = 264;
    void *dy[2] = {array_at(ZR_BF16, rows * cols, 0), array_at(ZR_BF16, rows * cols, 1)};
    float *db[2] = {array_new(ZR_F32, cols), array_new(ZR_F32, cols)};
    memcpy(dy[1], dy[0], (size_t)(rows * cols) * sizeof(uint16_t));
    for (int i = 0; i < 2; i++) {
        kernel_call call = {.name = "linear_db", .n_in = 1, .n_out = 1};
        call.in[0] = tensor2(dy[i], ZR_BF16, rows, cols);
        call.out[0] = tensor1(db[i], ZR_F32, cols);
        assert_int_equal(kernel_run(device, &call), ZR_OK);
    }
    assert_memory_equal(db[0], db[1], (size_t)cols * sizeof(float));
    pool_clear();
    zr_device_destroy(&device);
}

static void biases(const level_pair *level)
{
    static const int64_t sizes[][2] = {{1, 1}, {3, 264}, {130, 33}, {5, 600}};
    for (int i = 0; i < 4 * N_DTYPES; i++) {
        const int64_t rows = sizes[i % 4][0], cols = sizes[i % 4][1], n = rows * cols;
        const zr_dtype g = dtypes[i / 4];
        void *x = array_random(g, n, 1.0), *b = array_random(g, cols, 1.0), *y = array_new(g, n);
        double *want = doubles_new(n);
        for (int64_t k = 0; k < n; k++) want[k] = array_get(x, g, k) + array_get(b, g, k % cols);
        kernel_call call = {.name = "bias", .n_in = 2, .n_out = 1};
        call.in[0] = tensor2(x, g, rows, cols);
        call.in[1] = tensor1(b, g, cols);
        call.out[0] = tensor2(y, g, rows, cols);
        run_both(level, call, 0);
        assert_close("bias", y, g, want, n, 1e-7);
        run_in_place(level, call, 0, 0);
        pool_clear();
    }
}

static void test_bias(void **state)
{
    (void)state;
    for_every_level(biases);
}

#ifndef ZR_GPU

/* ---- requests to cuBLASLt, and its failures ----------------------------------------------------- */

/* Check that cuBLASLt adds a bias aligned to 16 bytes; any other bias, or one that the library refuses, is added before
 * the product. */
static void test_bias_is_fused(void **state)
{
    (void)state;
    zr_device *device = gpu_new();
    const struct {
        int64_t N, shift;
        long fused;
    } all[] = {{24, 0, 1}, {24, 1, 0}, {1, 0, 0}};
    for (int i = 0; i < 3; i++) {
        const long products = zr_stand_in_cublas_products(), biases = zr_stand_in_cublas_biases();
        product_case c = {"linear", 9, 16, all[i].N, false, true, ZR_BF16, ZR_BF16, all[i].shift};
        check_product(device, &c);
        assert_int_equal(zr_stand_in_cublas_products() - products, 1);
        assert_int_equal(zr_stand_in_cublas_biases() - biases, all[i].fused);
        pool_clear();
    }
    zr_device_destroy(&device);
}

static void expect(zr_device *device, const char *function, cublasStatus_t status, zr_status wanted)
{
    float x[6] = {0}, w[4] = {0}, y[6] = {0};
    kernel_call call = {.name = "linear", .n_in = 2, .n_out = 1};
    call.in[0] = tensor2(x, ZR_F32, 3, 2);
    call.in[1] = tensor2(w, ZR_F32, 2, 2);
    call.out[0] = tensor2(y, ZR_F32, 3, 2);
    const int alive = zr_stand_in_cublas_alive();
    zr_stand_in_cublas_fail(function, 0, status);
    const zr_status st = kernel_run(device, &call);
    zr_stand_in_cublas_fail(NULL, 0, CUBLAS_STATUS_SUCCESS);
    assert_int_equal(st, wanted);
    assert_non_null(strstr(zr_error_message(), "cuBLASLt"));
    assert_int_equal(zr_stand_in_cublas_alive(), alive);
}

static void test_failures(void **state)
{
    (void)state;
    zr_device *device = gpu_new();
    expect(device, "cublasLtCreate", CUBLAS_STATUS_ALLOC_FAILED, ZR_ERR_MEMORY);
    product_case fine = {"linear", 3, 2, 2, false, false, ZR_F32, ZR_F32, 0};
    check_product(device, &fine);
    expect(device, "cublasLtMatmulDescCreate", CUBLAS_STATUS_ALLOC_FAILED, ZR_ERR_MEMORY);
    expect(device, "cublasLtMatrixLayoutCreate", CUBLAS_STATUS_ALLOC_FAILED, ZR_ERR_MEMORY);
    expect(device, "cublasLtMatmulPreferenceCreate", CUBLAS_STATUS_ALLOC_FAILED, ZR_ERR_MEMORY);
    expect(device, "cublasLtMatmulAlgoGetHeuristic", CUBLAS_STATUS_NOT_SUPPORTED, ZR_ERR_UNSUPPORTED);
    assert_non_null(strstr(zr_error_message(), "3 x 2 and 2 x 2 F32"));
    expect(device, "cublasLtMatmulAlgoGetHeuristic", CUBLAS_STATUS_ARCH_MISMATCH, ZR_ERR_UNSUPPORTED);
    expect(device, "cublasLtMatmul", CUBLAS_STATUS_EXECUTION_FAILED, ZR_ERR_IO);
    check_product(device, &fine);
    pool_clear();
    zr_device_destroy(&device);
}

#endif

/* Check that an algorithm chosen for operands aligned to 16 bytes is refused for operands with a smaller alignment. */
static void test_operands_lie_worse(void **state)
{
    (void)state;
    zr_device *device = gpu_new();
    const int64_t workspace_bytes = zr__cuda_workspace(8, 8);
    const zr__cuda_product_spec spec = {
        .m = 8, .n = 8, .k = 8, .dtype = ZR_BF16, .out_dtype = ZR_F32, .workspace_bytes = workspace_bytes};
    void *a, *b, *c, *workspace;
    assert_int_equal(device->ops->alloc(device, 256, &a), ZR_OK);
    assert_int_equal(device->ops->alloc(device, 256, &b), ZR_OK);
    assert_int_equal(device->ops->alloc(device, 512, &c), ZR_OK);
    assert_int_equal(device->ops->alloc(device, workspace_bytes, &workspace), ZR_OK);
    zr__cuda_product_operands at = {.a = a, .b = b, .c = c, .workspace = workspace};
    zr__cuda_product *product = NULL;
    assert_int_equal(zr__cuda_product_create(device, &spec, &at, &product), ZR_OK);
    assert_int_equal(zr__cuda_product_run(product, device, &at), ZR_OK);
    at.a = (char *)a + 16;
    assert_int_equal(zr__cuda_product_run(product, device, &at), ZR_OK);
    at.a = (char *)a + 8;
    assert_int_equal(zr__cuda_product_run(product, device, &at), ZR_ERR_INTERNAL);
    at.a = a;
    at.earlier = (float *)c + 1;
    assert_int_equal(zr__cuda_product_run(product, device, &at), ZR_ERR_INTERNAL);
    assert_int_equal(device->ops->finish(device), ZR_OK);
    zr__cuda_product_destroy(&product);
    assert_null(product);
    device->ops->free(device, a);
    device->ops->free(device, b);
    device->ops->free(device, c);
    device->ops->free(device, workspace);
    zr_device_destroy(&device);
}

static void test_library(void **state)
{
    (void)state;
    char text[48];
    zr__device_cuda_matmul(text, sizeof text);
    assert_memory_equal(text, "cuBLASLt ", 9);
#ifndef ZR_GPU
    zr_stand_in_fail("zr__library_open", 0, cudaErrorInvalidValue);
    zr__device_cuda_matmul(text, sizeof text);
    zr_stand_in_fail(NULL, 0, cudaSuccess);
    assert_string_equal(text, "");
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_rounded_blocks),
        cmocka_unit_test(test_column_sums),
        cmocka_unit_test(test_column_sums_lie),
        cmocka_unit_test(test_bias),
#ifndef ZR_GPU
        cmocka_unit_test(test_bias_is_fused),
        cmocka_unit_test(test_failures),
#endif
        cmocka_unit_test(test_operands_lie_worse),
        cmocka_unit_test(test_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
