//TEST timeout=60 tsan=gpu seeds=200
/* slice, slice_dx, concat, transpose, split_heads, merge_heads: every element goes to the right place, in every type.
 */
#include "device/kernel_check.h"

static zr_tensor tensor(void *data, zr_dtype dtype, int ndim, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (zr_tensor){data, dtype, {ndim, {a, b, c, d}}};
}

/* ---- columns --------------------------------------------------------------------------------- */

static void check_slice(const level_pair *level, int64_t rows, int64_t C, int64_t first, int64_t n, zr_dtype g,
                        zr_dtype w)
{
    void *x = array_random(g, rows * C, 1.0), *y = array_new(w, rows * n), *dy = array_random(g, rows * n, 1.0);
    double *want = doubles_new(rows * n);
    for (int64_t i = 0; i < rows * n; i++) want[i] = array_get(x, g, i / n * C + first + i % n);
    kernel_call call = {.name = "slice", .attr = {.i = {first, n}}, .n_in = 1, .n_out = 1};
    call.in[0] = tensor2(x, g, rows, C);
    call.out[0] = tensor2(y, w, rows, n);
    run_both(level, call, 0);
    assert_close("slice", y, w, want, rows * n, 0.0);
    for (int add = 0; add < 2; add++) {
        void *earlier = array_random(w, rows * C, 1.0), *dx = array_new(w, rows * C);
        double *sum = add ? doubles_of(earlier, w, rows * C) : doubles_new(rows * C);
        for (int64_t i = 0; i < rows * n; i++) sum[i / n * C + first + i % n] += array_get(dy, g, i);
        kernel_call back = {.name = "slice_dx", .attr = call.attr, .n_in = 2, .n_out = 1};
        back.in[0] = tensor2(dy, g, rows, n);
        back.in[1] = add ? tensor2(earlier, w, rows, C) : tensor_absent();
        back.out[0] = tensor2(dx, w, rows, C);
        run_both(level, back, 0);
        assert_close("slice_dx", dx, w, sum, rows * C, 1e-7);
        if (add) run_in_place(level, back, 1, 0);
    }
}

static void check_concat(const level_pair *level, int64_t rows, int64_t M, int64_t N, zr_dtype g)
{
    void *a = array_random(g, rows * M, 1.0), *b = array_random(g, rows * N, 1.0), *y = array_new(g, rows * (M + N));
    double *want = doubles_new(rows * (M + N));
    for (int64_t i = 0; i < rows * (M + N); i++) {
        int64_t r = i / (M + N), c = i % (M + N);
        want[i] = c < M ? array_get(a, g, r * M + c) : array_get(b, g, r * N + c - M);
    }
    kernel_call call = {.name = "concat", .n_in = 2, .n_out = 1};
    call.in[0] = tensor2(a, g, rows, M);
    call.in[1] = tensor2(b, g, rows, N);
    call.out[0] = tensor2(y, g, rows, M + N);
    run_both(level, call, 0);
    assert_close("concat", y, g, want, rows * (M + N), 0.0);
}

static void columns(const level_pair *level)
{
    for (int g = 0; g < N_DTYPES; g++)
        for (int w = 0; w < 2; w++) {
            zr_dtype into = w ? ZR_F32 : dtypes[g];
            check_slice(level, 1, 1, 0, 1, dtypes[g], into);
            check_slice(level, 7, 57, 0, 57, dtypes[g], into);
            check_slice(level, 7, 57, 56, 1, dtypes[g], into);
            check_slice(level, 33, 1100, 13, 1029, dtypes[g], into);
            check_slice(level, 33, 1100, 0, 550, dtypes[g], into);
            check_slice(level, 9, 64, 24, 32, dtypes[g], into); /* moved several elements at a time */
            check_slice(level, 3, 4800, 8, 4784, dtypes[g], into);
            check_concat(level, 1, 1, 1, dtypes[g]);
            check_concat(level, 33, 57, 1031, dtypes[g]);
            check_concat(level, 5, 64, 2080, dtypes[g]);
            pool_clear();
        }
}

static void test_columns(void **state)
{
    (void)state;
    for_every_level(columns);
}

/* ---- swapped dimensions ---------------------------------------------------------------------- */

/* Check an op that moves (outer, a, b, inner) to (outer, b, a, inner). */
static void check_swap(const level_pair *level, const char *name, zr_tensor in, zr_tensor out, const int64_t *size)
{
    const int64_t n = zr_shape_elems(&in.shape), a = size[1], b = size[2], inner = size[3];
    in.data = array_random(in.dtype, n, 1.0);
    out.data = array_new(out.dtype, n);
    double *want = doubles_new(n);
    for (int64_t i = 0; i < n; i++) {
        int64_t e = i % inner, y = i / inner % b, x = i / (inner * b) % a, o = i / (inner * a * b);
        want[((o * b + y) * a + x) * inner + e] = array_get(in.data, in.dtype, i);
    }
    kernel_call call = {.name = name, .n_in = 1, .n_out = 1, .in = {in}, .out = {out}};
    run_both(level, call, 0);
    assert_close(name, out.data, out.dtype, want, n, 0.0);
}

static void swaps(const level_pair *level)
{
    static const int64_t sizes[][4] = {{1, 1, 1, 1},  {3, 1, 7, 1},   {2, 33, 31, 1}, {1, 64, 130, 1},
                                       {2, 5, 3, 19}, {3, 40, 12, 1}, {2, 65, 4, 64}, {1, 3, 5, 2400}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int g = 0; g < N_DTYPES; g++)
            for (int w = 0; w < 2; w++) {
                const int64_t *s = sizes[i];
                const zr_dtype from = dtypes[g], to = w ? ZR_F32 : dtypes[g];
                if (s[3] == 1) {
                    check_swap(level, "transpose", tensor(NULL, from, 3, s[0], s[1], s[2], 0),
                               tensor(NULL, to, 3, s[0], s[2], s[1], 0), s);
                    check_swap(level, "transpose", tensor(NULL, from, 4, 1, s[0], s[1], s[2]),
                               tensor(NULL, to, 4, 1, s[0], s[2], s[1]), s);
                }
                check_swap(level, "split_heads", tensor(NULL, from, 3, s[0], s[1], s[2] * s[3], 0),
                           tensor(NULL, to, 4, s[0], s[2], s[1], s[3]), s);
                check_swap(level, "merge_heads", tensor(NULL, from, 4, s[0], s[1], s[2], s[3]),
                           tensor(NULL, to, 3, s[0], s[2], s[1] * s[3], 0), s);
            }
}

static void test_swaps(void **state)
{
    (void)state;
    for_every_level(swaps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_swaps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
