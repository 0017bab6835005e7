//TEST timeout=120
//TILES
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device_levels.h"
#include "device/cpu/matmul.h"
#include "device/cpu/shared/product_blocks.h"
#include "device/kernel_call.h"

typedef struct product_case {
    const char *op;
    int64_t rows, K, N;
    bool transposed, extra; /* extra: a bias, or earlier contributions to be added */
    zr_dtype dtype, out_dtype;
} product_case;

/* An array as the kernel sees it, and as F32 with the same values. */
typedef struct array {
    float *value;
    void *data;
    fence values, narrowed; /* memory of `value`, and of `data` if that has another type */
} array;

static array make(int64_t n, zr_dtype dtype, uint32_t stream)
{
    array a = {.values = fence_new(n * 4, 0, 1)};
    a.data = a.value = (float *)a.values.memory;
    take(a.value, n, stream);
    if (dtype != ZR_F32) {
        a.narrowed = fence_new(n * 2, 0, 1);
        a.data = a.narrowed.memory;
        narrow(a.data, dtype, a.value, n);
    }
    return a;
}

static void drop(array *a)
{
    fence_free(&a->values);
    fence_free(&a->narrowed);
}

/* Check a rounded result: the exact one lies within `slack` of `want`, so `out` must lie between the rounded ends of
 * that range. */
static void assert_rounded(double want, double slack, const void *out, zr_dtype dtype, int64_t i)
{
    float ends[2];
    array_set(ends, dtype, 0, want - slack);
    array_set(ends, dtype, 1, want + slack);
    double got = array_get(out, dtype, i), low = array_get(ends, dtype, 0), high = array_get(ends, dtype, 1);
    if (!(got >= low && got <= high)) print_error("element %lld: %.9g, wanted %.9g\n", (long long)i, got, want);
    assert_true(got >= low && got <= high);
}

/* The matrices of the product C = A B behind an op: strides of A (m,k) and B (k,n). */
typedef struct reference {
    int64_t m, n, k, a_row, a_col, b_row, b_col;
} reference;

static reference refer(const product_case *c)
{
    bool t = c->transposed;
    if (strcmp(c->op, "linear") == 0) return (reference){c->rows, c->N, c->K, c->K, 1, t ? 1 : c->N, t ? c->K : 1};
    if (strcmp(c->op, "linear_dx") == 0) return (reference){c->rows, c->K, c->N, c->N, 1, t ? c->K : 1, t ? 1 : c->N};
    if (t) return (reference){c->N, c->K, c->rows, 1, c->N, c->K, 1};
    return (reference){c->K, c->N, c->rows, 1, c->K, c->N, 1};
}

static void check_case(zr_device *device, const product_case *c)
{
    const reference r = refer(c);
    bool forward = strcmp(c->op, "linear") == 0, dw = strcmp(c->op, "linear_dw") == 0;
    int64_t extra_n = dw ? r.m * r.n : r.n;
    array a = make(r.m * r.k, c->dtype, 1), b = make(r.k * r.n, c->dtype, 2);
    array extra = make(extra_n, dw ? ZR_F32 : c->dtype, 3), out = make(r.m * r.n, c->out_dtype, 4);

    kernel_call call = {.name = c->op, .attr.i[0] = c->transposed, .n_out = 1, .n_in = forward || dw ? 3 : 2};
    zr_tensor at = forward || !dw ? tensor2(a.data, c->dtype, r.m, r.k) : tensor2(a.data, c->dtype, r.k, r.m);
    zr_tensor bt = tensor2(b.data, c->dtype, r.k, r.n);
    call.in[0] = dw && c->transposed ? bt : at;
    call.in[1] = dw && c->transposed ? at : bt;
    call.in[2] = c->extra ? tensor1(extra.data, dw ? ZR_F32 : c->dtype, extra_n) : tensor_absent();
    call.out[0] = tensor2(out.data, c->out_dtype, r.m, r.n);
    call.scratch_bytes = zr__matmul_scratch(&device->profile.facts, r.m, r.n, r.k, c->dtype, c->out_dtype);
    assert_int_equal(kernel_run(device, &call), ZR_OK);

    /* Check every element of small results, and a sample of large ones. */
    int64_t step = r.m * r.n * r.k > 4000000 ? 997 : 1;
    for (int64_t i = 0; i < r.m * r.n; i += step) {
        int64_t row = i / r.n, col = i % r.n;
        double want = c->extra ? extra.value[dw ? i : col] : 0, size = fabs(want);
        for (int64_t k = 0; k < r.k; k++) {
            double term = (double)a.value[row * r.a_row + k * r.a_col] * b.value[k * r.b_row + col * r.b_col];
            want += term;
            size += fabs(term);
        }
        assert_rounded(want, 1e-6 * size, out.data, c->out_dtype, i);
    }
    drop(&a);
    drop(&b);
    drop(&extra);
    drop(&out);
}

static const char *const products[] = {"linear", "linear_dx", "linear_dw"};

/* Check all types of an op: the output has the operands' type, or for dw also F32. */
static void check_types(zr_device *device, product_case c)
{
    for (int t = 0; t < N_DTYPES; t++) {
        c.dtype = c.out_dtype = dtypes[t];
        check_case(device, &c);
        c.out_dtype = ZR_F32;
        if (c.dtype != ZR_F32 && strcmp(c.op, "linear_dw") == 0) check_case(device, &c);
    }
}

static void check_sizes(zr_device *device, const char *op)
{
    static const int64_t sizes[][3] = {{1, 1, 1},     {1, 57, 131},  {57, 131, 1}, {57, 1, 131},
                                       {131, 57, 57}, {57, 131, 57}, {64, 64, 64}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int flags = 0; flags < 4; flags++) {
            bool extra = flags & 1;
            if (extra && strcmp(op, "linear_dx") == 0) continue;
            check_types(device, (product_case){op, sizes[i][0], sizes[i][1], sizes[i][2], flags & 2, extra, 0, 0});
        }
}

static void check_products(zr_device *device)
{
    for (int i = 0; i < 3; i++) check_sizes(device, products[i]);
}

/* Check products on tiles at sizes around a tile (16 and 32), and around the longest range of k (768). */
static void check_edges(zr_device *device)
{
    static const int64_t sizes[][3] = {{15, 16, 17},  {16, 17, 31},   {17, 31, 32},  {31, 32, 33},
                                       {32, 33, 15},  {33, 15, 16},   {32, 32, 32},  {33, 768, 31},
                                       {31, 769, 33}, {16, 1537, 48}, {769, 33, 17}, {49, 47, 800}};
    if (!device->profile.facts.tiles) return;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int way = 0; way < 12; way++) {
            const char *op = products[way % 3];
            const bool extra = way % 2 && strcmp(op, "linear_dx") != 0;
            product_case c = {op, sizes[i][0], sizes[i][1], sizes[i][2], way < 6, extra, ZR_BF16, ZR_BF16};
            check_case(device, &c);
            c.out_dtype = ZR_F32;
            if (strcmp(op, "linear_dw") == 0) check_case(device, &c);
            c.dtype = ZR_F32;
            if ((int)(i % 2) == way % 2) check_case(device, &c);
        }
}

/* Check sizes longer than a block in each direction: several blocks of m, n and k, the last one of an odd size. */
static void check_blocks(zr_device *device)
{
    static const int64_t sizes[][3] = {{3, 1100, 1100}, {1100, 1100, 3}, {1100, 3, 1100}, {5, 3, 16385}, {5, 16385, 3}};
    for (int s = 0; s < 5; s++)
        for (int i = 0; i < 3; i++) {
            const zr_dtype type = dtypes[(s + i) % N_DTYPES];
            product_case c = {products[i], sizes[s][0], sizes[s][1], sizes[s][2], i == 1, i != 1, type, type};
            check_case(device, &c);
        }
}

/* Compute y = x w + b for some rows, in the type of x. */
static void run_linear(zr_device *device, const product_case *c, const array *x, int64_t row, int64_t rows,
                       const array *w, const array *b, void *out)
{
    const char *from = (const char *)x->data + row * c->K * zr_dtype_bytes(c->dtype);
    kernel_call call = {.name = "linear", .attr.i[0] = c->transposed, .n_out = 1, .n_in = 3};
    call.in[0] = tensor2((void *)from, c->dtype, rows, c->K);
    call.in[1] = tensor2(w->data, c->dtype, c->K, c->N);
    call.in[2] = c->extra ? tensor1(b->data, c->dtype, c->N) : tensor_absent();
    call.out[0] = tensor2(out, c->dtype, rows, c->N);
    call.scratch_bytes = zr__matmul_scratch(&device->profile.facts, rows, c->N, c->K, c->dtype, c->dtype);
    assert_int_equal(kernel_run(device, &call), ZR_OK);
}

/* Check that a row computed alone, as in generation, has the same bits as the row computed among others, as in training
 * and evaluation. The sizes include several stretches of k and of columns, and partial ones. (A library's products do
 * not guarantee this, and are left out.) */
static void check_rows(zr_device *device)
{
    static const int64_t sizes[][2] = {{800, 2071}, {1700, 50}, {13, 1}, {1, 13}, {3072, 130}};
    for (int i = 0; i < 5 * 4 * N_DTYPES; i++) {
        product_case c = {.op = "linear", .rows = 3, .K = sizes[i / 4 % 5][0], .N = sizes[i / 4 % 5][1]};
        c.transposed = i & 1;
        c.extra = i & 2;
        c.dtype = c.out_dtype = dtypes[i / 20];
        if (zr__matmul_scratch(&device->profile.facts, c.rows, c.N, c.K, c.dtype, c.dtype) == 0) continue;
        array x = make(c.rows * c.K, c.dtype, 1), w = make(c.K * c.N, c.dtype, 2), b = make(c.N, c.dtype, 3);
        array all = make(c.rows * c.N, c.dtype, 4), one = make(c.N, c.dtype, 5);
        const size_t bytes = (size_t)(c.N * zr_dtype_bytes(c.dtype));
        run_linear(device, &c, &x, 0, c.rows, &w, &b, all.data);
        for (int64_t row = 0; row < c.rows; row++) {
            run_linear(device, &c, &x, row, 1, &w, &b, one.data);
            assert_memory_equal(one.data, (char *)all.data + (size_t)row * bytes, bytes);
        }
        drop(&x);
        drop(&w);
        drop(&b);
        drop(&all);
        drop(&one);
    }
}

/* Check rows as check_rows does, with elements so small that parts of them are denormal on tiles. */
static void check_small_rows(zr_device *device)
{
    enum { N = 4096 };
    product_case c = {.op = "linear", .rows = 2, .K = 1, .N = N, .dtype = ZR_F32, .out_dtype = ZR_F32};
    array x = make(2, ZR_F32, 1), w = make(N, ZR_F32, 2), all = make(2 * N, ZR_F32, 3), one = make(N, ZR_F32, 4);
    x.value[0] = x.value[1] = 1024;
    for (int e = -127; e < -95; e++) {
        for (int i = 0; i < N; i++) w.value[i] = ldexpf(1 + ldexpf((float)(i + (i % 128 << 16)), -23), e);
        run_linear(device, &c, &x, 0, 2, &w, NULL, all.data);
        run_linear(device, &c, &x, 1, 1, &w, NULL, one.data);
        assert_memory_equal(one.data, all.value + N, N * 4);
    }
    drop(&x);
    drop(&w);
    drop(&all);
    drop(&one);
}

static void test_rows(void **state)
{
    (void)state;
    each_device(check_rows);
    each_device(check_small_rows);
}

/* Check sizes at which C has more rows and columns than a block of the shared operand, and k is longer than a stretch;
 * in 16 bits C also exceeds one part. */
static void check_large(zr_device *device)
{
    for (int i = 0; i < 4; i++) {
        const zr_dtype type = dtypes[i % N_DTYPES];
        product_case c = {"linear", 1391, 785, 1450, i % 2, true, type, type};
        if (i == 3) c = (product_case){"linear_dw", 785, 1450, 1391, false, true, ZR_F32, ZR_F32};
        check_case(device, &c);
    }
}

static void check_db(zr_device *device)
{
    static const int64_t sizes[][2] = {{1, 1}, {57, 131}, {131, 600}, {33, 257}};
    for (int s = 0; s < 4 * N_DTYPES * N_DTYPES; s++) {
        int64_t rows = sizes[s % 4][0], cols = sizes[s % 4][1];
        zr_dtype dtype = dtypes[s / 4 % N_DTYPES], out_dtype = dtypes[s / 4 / N_DTYPES];
        bool with_earlier = dtype != ZR_F32;
        array dy = make(rows * cols, dtype, 5), earlier = make(cols, ZR_F32, 6), db = make(cols, out_dtype, 7);
        kernel_call call = {.name = "linear_db", .n_in = 2, .n_out = 1};
        call.in[0] = tensor2(dy.data, dtype, rows, cols);
        call.in[1] = with_earlier ? tensor1(earlier.data, ZR_F32, cols) : tensor_absent();
        call.out[0] = tensor1(db.data, out_dtype, cols);
        assert_int_equal(kernel_run(device, &call), ZR_OK);
        for (int64_t i = 0; i < cols; i++) {
            double want = with_earlier ? earlier.value[i] : 0, size = fabs(want);
            for (int64_t r = 0; r < rows; r++) {
                want += dy.value[r * cols + i];
                size += fabs(dy.value[r * cols + i]);
            }
            assert_rounded(want, 1e-6 * size, db.data, out_dtype, i);
        }
        drop(&dy);
        drop(&earlier);
        drop(&db);
    }
}

static void check_refusals(zr_device *device)
{
    float x[4] = {0};
    uint16_t w[4] = {0};
    kernel_call call = {.name = "linear", .n_in = 2, .n_out = 1};
    call.in[0] = tensor2(x, ZR_F32, 2, 2);
    call.in[1] = tensor2(w, ZR_BF16, 2, 2);
    call.out[0] = tensor2(x, ZR_F32, 2, 2);
    assert_int_equal(kernel_run(device, &call), ZR_ERR_DTYPE);
    call.in[1] = tensor2(x, ZR_F32, 2, 2);
    call.out[0] = tensor2(w, ZR_BF16, 2, 2);
    assert_int_equal(kernel_run(device, &call), ZR_ERR_UNSUPPORTED);
    call.in[0] = call.in[1] = tensor2(x, ZR_F16, 2, 2);
    assert_int_equal(kernel_run(device, &call), ZR_ERR_UNSUPPORTED);
    call.in[1] = call.out[0];
    assert_int_equal(kernel_run(device, &call), ZR_ERR_DTYPE);
}

/* Check that a result beyond fp16 becomes infinite, never its largest number, so that the loss scale notices; the sum
 * itself is in fp32 and may exceed fp16 on the way. */
static void check_overflow(zr_device *device)
{
    const float x[] = {300, 300, -300, 300}, dy[] = {300, 100, 300, 300}; /* (rows, K) and (rows, N) */
    uint16_t x16[4], dy16[4], dw[4];
    for (int i = 0; i < 4; i++) {
        x16[i] = zr_f16_from_f32(x[i]);
        dy16[i] = zr_f16_from_f32(dy[i]);
    }
    kernel_call call = {.name = "linear_dw",
                        .n_in = 2,
                        .n_out = 1,
                        .scratch_bytes = zr__matmul_scratch(&device->profile.facts, 2, 2, 2, ZR_F16, ZR_F16)};
    call.in[0] = tensor2(x16, ZR_F16, 2, 2);
    call.in[1] = tensor2(dy16, ZR_F16, 2, 2);
    call.out[0] = tensor2(dw, ZR_F16, 2, 2);
    assert_int_equal(kernel_run(device, &call), ZR_OK);
    /* 90000 - 90000, 30000 - 90000, 90000 + 90000, 30000 + 90000 */
    assert_true(zr_f32_from_f16(dw[0]) == 0 && zr_f32_from_f16(dw[1]) == -60000);
    assert_true(dw[2] == 0x7c00 && dw[3] == 0x7c00);
}

/* ---- the level's own products ---------------------------------------------------------------- */

typedef struct own_case {
    int64_t m, n, k;
    bool adds;
    zr_dtype dtype;
} own_case;

/* Compute the rows of C from `row` on, with `threads` threads. */
static void run_own(const zr__panel_ops *level, const own_case *c, int64_t row, int64_t rows, int threads,
                    const array *a, const array *b, float *out)
{
    zr__product_spec spec = {.m = rows, .n = c->n, .k = c->k, .dtype = c->dtype, .out_dtype = ZR_F32};
    spec.a = (zr__strides){1, c->m};
    spec.b = (zr__strides){c->n, 1};
    spec.accumulate = c->adds;
    spec.threads = threads;
    const zr__product_shape shape = {rows, c->n, c->k, c->dtype, ZR_F32, level->tiles};
    int64_t bytes = zr__product_layout_make(shape, threads, ZR__PANEL_BYTES).bytes;
    fence panels = fence_new(bytes, 0, KERNEL_GUARD);
    memset(panels.memory, 0xff, (size_t)bytes);
    zr__matmul_operands at = {.b = b->data, .c = out + row * c->n, .panels = panels.memory};
    at.a = (const char *)a->data + row * zr_dtype_bytes(c->dtype);
    level->multiply(&spec, &at);
    fence_free(&panels);
}

/* Check C += A B against double. The bits must be the same for any number of threads, and when C is computed in parts
 * of its rows. */
static void check_own_case(const zr__panel_ops *level, const own_case *c)
{
    static const int threads[] = {2, 3, 4, 7};
    const int64_t n = c->m * c->n, cut = c->m / 3;
    array a = make(c->k * c->m, c->dtype, 1), b = make(c->k * c->n, c->dtype, 2), first = make(n, ZR_F32, 3);
    run_own(level, c, 0, c->m, 1, &a, &b, first.value);
    array was = make(n, ZR_F32, 3);
    const int64_t step = n * c->k > 4000000 ? 97 : 1;
    for (int64_t i = 0; i < n; i += step) {
        double want = c->adds ? was.value[i] : 0, size = fabs(want);
        for (int64_t j = 0; j < c->k; j++) {
            double term = (double)a.value[j * c->m + i / c->n] * b.value[j * c->n + i % c->n];
            want += term;
            size += fabs(term);
        }
        assert_rounded(want, 1e-6 * size, first.data, ZR_F32, i);
    }
    for (int t = 0; t < 4; t++) {
        array again = make(n, ZR_F32, 3);
        if (cut > 0) run_own(level, c, 0, cut, threads[t], &a, &b, again.value);
        run_own(level, c, cut, c->m - cut, threads[t], &a, &b, again.value);
        assert_memory_equal(again.value, first.value, n * 4);
        drop(&again);
    }
    drop(&a);
    drop(&b);
    drop(&first);
    drop(&was);
}

static void check_own(const zr__panel_ops *level)
{
    static const int64_t sizes[][3] = {{1, 1, 1},     {57, 131, 57},   {16, 16, 20000},
                                       {3, 5, 16385}, {1100, 57, 512}, {57, 1100, 800}};
    for (int i = 0; i < 6; i++)
        for (int t = 0; t < N_DTYPES; t++)
            check_own_case(level, &(own_case){sizes[i][0], sizes[i][1], sizes[i][2], t != 1, dtypes[t]});
}

static void each_panels(void (*check)(const zr__panel_ops *))
{
    for (const char *const *level = zr__cpu_levels(); *level; level++) {
        if (!zr__cpu_has(*level)) continue;
        check(zr__cpu_panels(*level));
    }
    if (tiles_panels()) check(tiles_panels());
}

static void test_own(void **state)
{
    (void)state;
    each_panels(check_own);
}

/* Multiply x (n,n) by the identity, from the right and from the left (`left`), into c. */
static void times_identity(const zr__panel_ops *level, const array *x, int64_t n, bool left, float *c)
{
    array one = make(n * n, ZR_F32, 1);
    for (int64_t i = 0; i < n * n; i++) one.value[i] = i % (n + 1) == 0;
    const own_case size = {n, n, n, false, ZR_F32};
    run_own(level, &size, 0, n, 2, left ? &one : x, left ? x : &one, c);
    drop(&one);
}

/* Check that a product with the identity keeps every bit of fp32 elements of any size, so that no part of an element is
 * lost on tiles. (The first operand of run_own is transposed.) */
static void check_parts(const zr__panel_ops *level)
{
    enum { N = 70 };
    array x = make(N * N, ZR_F32, 9), c = make(N * N, ZR_F32, 8);
    for (int64_t i = 0; i < N * N; i++) {
        x.value[i] = ldexpf(x.value[i], (int)(i % 180) - 90);
        /* All 24 bits of the significand are 1. */
        if (i % 7 == 0) x.value[i] = ldexpf(i % 2 ? 16777215.0f : -16777215.0f, (int)(i % 180) - 90);
    }
    x.value[N + 1] = FLT_MAX;
    for (int left = 0; left < 2; left++) {
        times_identity(level, &x, N, left, c.value);
        for (int64_t i = 0; i < N * N; i++) {
            const float want = x.value[left ? i : i % N * N + i / N];
            assert_memory_equal(&c.value[i], &want, sizeof want);
        }
    }
    drop(&x);
    drop(&c);
}

static void test_parts(void **state)
{
    (void)state;
    each_panels(check_parts);
}

/* Check that an element that is not finite makes its row of C not finite, and no other row. */
static void check_not_finite(const zr__panel_ops *level)
{
    enum { N = 40, ROW = 21 };
    /* Infinities, a NaN, and a NaN whose upper half has the bits of infinity. */
    const uint32_t bad[] = {0x7f800000u, 0xff800000u, 0x7fc00000u, 0x7f800001u};
    for (int b = 0; b < 4; b++) {
        array x = make(N * N, ZR_F32, 9), c = make(N * N, ZR_F32, 8);
        memcpy(&x.value[5 * N + ROW], &bad[b], sizeof bad[b]);
        times_identity(level, &x, N, false, c.value);
        for (int64_t i = 0; i < N * N; i++)
            if (i / N == ROW)
                assert_true(i % N != 5 || !isfinite(c.value[i]));
            else
                assert_true(isfinite(c.value[i]));
        drop(&x);
        drop(&c);
    }
}

static void test_not_finite(void **state)
{
    (void)state;
    each_panels(check_not_finite);
}

/* Return the root of the sum of a product's squared errors, against double. */
static double error_of(const zr__panel_ops *level, const array *a, const array *b, int64_t n, int64_t k)
{
    const own_case size = {n, n, k, false, ZR_F32};
    array c = make(n * n, ZR_F32, 8);
    double sum = 0;
    run_own(level, &size, 0, n, 1, a, b, c.value);
    for (int64_t i = 0; i < n * n; i++) {
        double want = 0;
        for (int64_t j = 0; j < k; j++) want += (double)a->value[j * n + i / n] * b->value[j * n + i % n];
        sum += (c.value[i] - want) * (c.value[i] - want);
    }
    drop(&c);
    return sqrt(sum);
}

/* Check that fp32 products on tiles are at least as accurate as those in vectors. */
static void test_accuracy(void **state)
{
    (void)state;
    static const int64_t depths[] = {16, 576, 4096};
    if (!tiles_panels()) skip();
    for (int i = 0; i < 3; i++) {
        array a = make(48 * depths[i], ZR_F32, 1), b = make(48 * depths[i], ZR_F32, 2);
        assert_true(error_of(tiles_panels(), &a, &b, 48, depths[i]) <=
                    error_of(zr__cpu_panels("v4"), &a, &b, 48, depths[i]));
        drop(&a);
        drop(&b);
    }
}

/* ---- the library's products ------------------------------------------------------------------ */

/* Check C += A B where the rows of C are longer than the product, as when it is computed in parts, and k is long enough
 * to be shared by threads. */
static void check_accumulate_case(int64_t m, int64_t n, int64_t k, int threads)
{
    const int64_t ld = n + 3;
    zr__product_spec spec = {.m = m, .n = n, .k = k, .dtype = ZR_BF16, .out_dtype = ZR_F32, .accumulate = true};
    spec.a = (zr__strides){1, m};
    spec.b = (zr__strides){n, 1};
    spec.ld = ld;
    spec.threads = threads;
    array a = make(k * m, ZR_BF16, 1), b = make(k * n, ZR_BF16, 2), c = make(m * ld, ZR_F32, 3),
          was = make(m * ld, ZR_F32, 3);
    zr__product *product = NULL;
    assert_int_equal(zr__product_create(&spec, &product), ZR_OK);
    for (int times = 1; times <= 2; times++)
        assert_int_equal(zr__product_run(product, a.data, b.data, NULL, NULL, c.data), ZR_OK);
    assert_in_range(zr__product_scratch_bytes(product), 0, ZR__PRODUCT_SCRATCH);
    int64_t step = m * n * k > 4000000 ? 97 : 1;
    for (int64_t i = 0; i < m * ld; i += step) {
        double want = was.value[i], size = fabs(want);
        for (int64_t j = 0; j < k && i % ld < n; j++) {
            double term = 2.0 * a.value[j * m + i / ld] * b.value[j * n + i % ld];
            want += term;
            size += fabs(term);
        }
        if (i % ld >= n) assert_true(c.value[i] == was.value[i]);
        assert_rounded(want, 1e-6 * size, c.data, ZR_F32, i);
    }
    zr__product_destroy(&product);
    drop(&a);
    drop(&b);
    drop(&c);
    drop(&was);
}

static void test_accumulate(void **state)
{
    static const int64_t sizes[][3] = {{1, 1, 1}, {57, 131, 57}, {16, 16, 20000}, {3, 5, 16385}, {1100, 57, 512}};
    static const int threads[] = {1, 3};
    (void)state;
    if (!zr__onednn_has_bf16()) skip();
    for (int i = 0; i < 5; i++)
        for (int t = 0; t < 2; t++) check_accumulate_case(sizes[i][0], sizes[i][1], sizes[i][2], threads[t]);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_products(void **state)
{
    (void)state;
    each_device(check_products);
}

static void test_edges(void **state)
{
    (void)state;
    each_device(check_edges);
}

static void test_blocks(void **state)
{
    (void)state;
    each_device(check_blocks);
}

static void test_large(void **state)
{
    (void)state;
    for (const char *const *level = zr__cpu_levels(); *level; level++) {
        if (!zr__cpu_has(*level)) continue;
        zr_device *device = device_at(*level, 3);
        check_large(device);
        zr_device_destroy(&device);
    }
}

static void test_db(void **state)
{
    (void)state;
    each_device(check_db);
}

static void test_refusals(void **state)
{
    (void)state;
    each_device(check_refusals);
}

static void test_overflow(void **state)
{
    (void)state;
    each_device(check_overflow);
}

#define SIDE 131

typedef struct rank {
    pthread_t thread;
    const uint16_t *x, *w;
    uint16_t y[SIDE * SIDE];
    zr_status status;
} rank;

static void *rank_main(void *argument)
{
    rank *r = argument;
    zr_device *device = device_at(zr_device_cpu_level(), 2);
    kernel_call call = {.name = "linear",
                        .n_in = 2,
                        .n_out = 1,
                        .scratch_bytes =
                            zr__matmul_scratch(&device->profile.facts, SIDE, SIDE, SIDE, ZR_BF16, ZR_BF16)};
    call.in[0] = tensor2((void *)r->x, ZR_BF16, SIDE, SIDE);
    call.in[1] = tensor2((void *)r->w, ZR_BF16, SIDE, SIDE);
    call.out[0] = tensor2(r->y, ZR_BF16, SIDE, SIDE);
    for (int i = 0; i < 20 && r->status == ZR_OK; i++) r->status = kernel_run(device, &call);
    zr_device_destroy(&device);
    return NULL;
}

/* Check that ranks that are threads of one process each make and run their own products, with the same bits. */
static void test_ranks(void **state)
{
    (void)state;
    static rank ranks[4];
    array x = make(SIDE * SIDE, ZR_BF16, 8), w = make(SIDE * SIDE, ZR_BF16, 9);
    for (int i = 0; i < 4; i++) {
        ranks[i].x = x.data;
        ranks[i].w = w.data;
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(ranks[i].thread, NULL), 0);
        assert_int_equal(ranks[i].status, ZR_OK);
        assert_memory_equal(ranks[i].y, ranks[0].y, sizeof ranks[i].y);
    }
    drop(&x);
    drop(&w);
}

/* Run a product on another thread than its creator's, which must be refused: the library's scratch belongs to the
 * creating thread. */
static void *run_elsewhere(void *argument)
{
    static float x[4], w[4], y[4];
    static zr_status status;
    status = zr__product_run(argument, x, w, NULL, NULL, y);
    return &status;
}

static void test_thread(void **state)
{
    (void)state;
    const zr__product_spec spec = {.m = 2, .n = 2, .k = 2, .a = {2, 1}, .b = {2, 1}, .threads = 1};
    zr__product *product = NULL;
    pthread_t thread;
    void *status = NULL;
    assert_int_equal(zr__product_create(&spec, &product), ZR_OK);
    assert_int_equal(pthread_create(&thread, NULL, run_elsewhere, product), 0);
    assert_int_equal(pthread_join(thread, &status), 0);
    assert_int_equal(*(zr_status *)status, ZR_ERR_STATE);
    assert_int_equal(*(zr_status *)run_elsewhere(product), ZR_OK);
    zr__product_destroy(&product);
}

/* Check that the library's own scratch, which no plan includes, stays small: for GPT-2's head, the largest product of
 * the 124M model, with few and many rows and threads. */
static void check_scratch(int64_t rows, int threads)
{
    const int64_t C = 768, V = 50257;
    const zr__product_spec head[] = {
        {.m = rows, .n = V, .k = C, .a = {C, 1}, .b = {1, C}},
        {.m = rows, .n = C, .k = V, .a = {V, 1}, .b = {C, 1}},
        {.m = V, .n = C, .k = rows, .a = {1, V}, .b = {C, 1}, .earlier = true},
        {.m = V, .n = C, .k = rows, .a = {1, V}, .b = {C, 1}, .accumulate = true},
    };
    for (int i = 0; i < 4; i++) {
        zr__product_spec spec = head[i];
        spec.dtype = spec.out_dtype = ZR_BF16;
        if (spec.accumulate) spec.out_dtype = ZR_F32;
        spec.threads = threads;
        zr__product *product = NULL;
        assert_int_equal(zr__product_create(&spec, &product), ZR_OK);
        assert_in_range(zr__product_scratch_bytes(product), 0, ZR__PRODUCT_SCRATCH);
        assert_null(strstr(zr__product_implementation(product), "ref"));
        zr__product_destroy(&product);
        assert_null(product);
    }
}

static void test_scratch(void **state)
{
    (void)state;
    static const int threads[] = {1, 2, 3, 6, 14, 16, 64};
    if (!zr__onednn_has_bf16()) skip();
    for (int t = 0; t < 7; t++)
        for (int64_t rows = 64; rows <= 4096; rows *= 8) check_scratch(rows, threads[t]);
}

static const char *program; /* path of this program, to run it again: /proc may be absent */

static void test_forced(void **state)
{
    (void)state;
    each_level_again(program);
}

static void test_under_cap(void **state)
{
    (void)state;
    zr_device_config config = ZR_DEVICE_CONFIG_INIT;
    zr_device *device = NULL;
    assert_int_equal(zr_device_create_cpu(&config, &device), ZR_OK);
    assert_string_equal(zr_device_cpu_level(), getenv("ZR_KERNELS"));
    assert_non_null(strstr(device->profile.facts.name, getenv("ZR_KERNELS")));
    check_products(device);
    check_blocks(device);
    zr_device_destroy(&device);
    assert_null(device);
}

static void test_unknown_level(void **state)
{
    (void)state;
    zr_device_config config = ZR_DEVICE_CONFIG_INIT;
    zr_device *device = NULL;
    setenv("ZR_KERNELS", "v9", 1);
    assert_int_equal(zr_device_create_cpu(&config, &device), ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "v9"));
    assert_null(device);
    unsetenv("ZR_KERNELS");
}

/* Check that ops of one shape share a product, so that a deeper model needs no more products; it lives until its last
 * user is gone. */
static void test_shared_product(void **state)
{
    (void)state;
    const zr__product_spec spec = {.m = 2, .n = 2, .k = 2, .a = {2, 1}, .b = {2, 1}, .threads = 1};
    zr__product_spec wider = spec;
    wider.n = 3;
    wider.b.row = 3;
    zr__product *first = NULL, *second = NULL, *other = NULL;
    assert_int_equal(zr__product_create(&spec, &first), ZR_OK);
    assert_int_equal(zr__product_create(&spec, &second), ZR_OK);
    assert_int_equal(zr__product_create(&wider, &other), ZR_OK);
    assert_ptr_equal(first, second);
    assert_ptr_not_equal(first, other);
    zr__product_destroy(&first);
    assert_null(first);
    const float a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8}, want[] = {19, 22, 43, 50};
    float c[4];
    assert_int_equal(zr__product_run(second, a, b, NULL, NULL, c), ZR_OK);
    assert_memory_equal(c, want, sizeof want);
    zr__product_destroy(&other);
    zr__product_destroy(&second);
}

int main(int argc, char **argv)
{
    program = argc ? argv[0] : "";
    const struct CMUnitTest forced[] = {cmocka_unit_test(test_under_cap)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared_product),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_db),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_own),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_accuracy),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_scratch),
        cmocka_unit_test(test_forced),
        cmocka_unit_test(test_unknown_level),
        cmocka_unit_test(test_thread),
        cmocka_unit_test(test_accumulate),
        cmocka_unit_test(test_rows),
    };
    if (getenv("ZR_KERNELS")) return cmocka_run_group_tests(forced, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
