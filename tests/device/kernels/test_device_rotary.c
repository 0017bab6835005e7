//TEST timeout=60 tsan=gpu seeds=200
/* rotary_table for each kind, and rotary. */
#include "device/kernel_check.h"

/* ---- tables ---------------------------------------------------------------------------------- */

/* A table, and the angles per position of its pairs. The angles were computed in F64 by the formulas of transformers 5
 * (modeling_rope_utils.py). */
typedef struct known {
    const char *name;
    zr_op_attr attr;
    int64_t length; /* length in tokens of the sequence for which the angles hold */
    double angle[8];
} known;

enum { WIDTH = 16, HALF = WIDTH / 2, LONG = 331 };

#define USUAL                                                                                                          \
    {                                                                                                                  \
        1, 0.31622776601684, 0.1, 0.031622776601684, 0.01, 0.0031622776601684, 0.001, 0.00031622776601684              \
    }
static const known tables[] = {
    {"default", {{ZR_ROTARY_DEFAULT, WIDTH}, {1e4, 0, 0, 0, 0, 0, 1}}, LONG, USUAL},
    {"linear",
     {{ZR_ROTARY_LINEAR, WIDTH}, {1e4, 4, 0, 0, 0, 0, 1}},
     LONG,
     {0.25, 0.079056941504209, 0.025, 0.0079056941504209, 0.0025, 0.00079056941504209, 0.00025, 7.9056941504209e-05}},
    {"dynamic",
     {{ZR_ROTARY_DYNAMIC, WIDTH, 100}, {1e4, 3, 0, 0, 0, 0, 1}},
     LONG,
     {1, 0.23525150031134, 0.055343268398738, 0.013019586922937, 0.0030628773570548, 0.00072054649351678,
      0.0001695096436439, 3.9877397984469e-05}},
    {"dynamic, a short sequence", {{ZR_ROTARY_DYNAMIC, WIDTH, 400}, {1e4, 3, 0, 0, 0, 0, 1}}, LONG, USUAL},
    {"llama3",
     {{ZR_ROTARY_LLAMA3, WIDTH, 8192}, {5e5, 8, 1, 4, 0, 0, 1}},
     LONG,
     {1, 0.19392274474869, 0.037606030930864, 0.0072926647372171, 0.00052484616099295, 3.4281021959526e-05,
      6.6478698711812e-06, 1.2891731721516e-06}},
    {"yarn",
     {{ZR_ROTARY_YARN, WIDTH, 2048, true}, {1e4, 4, 0, 0, 32, 1, 1.138629436112}},
     LONG,
     {1, 0.31622776601684, 0.1, 0.025693505988868, 0.00625, 0.0013834964763237, 0.00025, 7.9056941504209e-05}},
    {"yarn, not truncated",
     {{ZR_ROTARY_YARN, WIDTH, 2048, false}, {1e4, 4, 0, 0, 32, 1, 1.138629436112}},
     LONG,
     {1, 0.31622776601684, 0.1, 0.023870192321736, 0.0050569715211294, 0.00081129038170143, 0.00025,
      7.9056941504209e-05}},
};
#define N_TABLES (int)(sizeof tables / sizeof *tables)

/* Return the scratch bytes of the processor's kernel. */
static int64_t scratch_of(int64_t T, int64_t D)
{
    return 8 * (D / 2 + ((T < 64 ? T : 64) + (T - 1) / 64 + 2) * D);
}

/* Compute a table of T rows from position `first` on. */
static float *table_of(const level_pair *level, const zr_op_attr *attr, int64_t T, int64_t first)
{
    const int64_t D = attr->i[1];
    float *table = array_new(ZR_F32, T * D);
    kernel_call call = {.name = "rotary_table", .attr = *attr, .n_out = 1, .scratch_bytes = scratch_of(T, D)};
    call.runtime.position = first;
    call.out[0] = tensor2(table, ZR_F32, T, D);
    run_both(level, call, 0);
    return table;
}

static void known_tables(const level_pair *level)
{
    for (int k = 0; k < N_TABLES; k++) {
        const known *wanted = &tables[k];
        const float *table = table_of(level, &wanted->attr, wanted->length, 0);
        double *want = doubles_new(wanted->length * WIDTH);
        for (int64_t i = 0; i < wanted->length * WIDTH; i++) {
            const double angle = (double)(i / WIDTH) * wanted->angle[i % HALF];
            want[i] = wanted->attr.f[6] * (i % WIDTH < HALF ? cos(angle) : sin(angle));
        }
        assert_close(wanted->name, table, ZR_F32, want, wanted->length * WIDTH, 1e-7);
        pool_clear();
    }
}

static void test_known_tables(void **state)
{
    (void)state;
    for_every_level(known_tables);
}

/* Check decoding: the only row is for the token's position, and has the bits of that row in a whole table. Kind dynamic
 * uses the length up to the position. */
static void decoded_rows(const level_pair *level)
{
    for (int k = 0; k < N_TABLES; k++)
        for (int64_t at = 0; at < LONG; at = 2 * at + 1) {
            const float *whole = table_of(level, &tables[k].attr, at + 1, 0);
            const float *row = table_of(level, &tables[k].attr, 1, at);
            assert_memory_equal(row, whole + at * WIDTH, WIDTH * sizeof *row);
            pool_clear();
        }
}

static void test_decoded_rows(void **state)
{
    (void)state;
    for_every_level(decoded_rows);
}

/* Check that a long table is exact at its far end, and its rows do not depend on its length. */
static void long_tables(const level_pair *level)
{
    const zr_op_attr attr = {.i = {ZR_ROTARY_DEFAULT, 6}, .f = {5e5, [6] = 1}};
    enum { T = 5000, D = 6, FEW = 65 };
    const float *table = table_of(level, &attr, T, 0), *first = table_of(level, &attr, FEW, 0);
    assert_memory_equal(table, first, FEW * D * sizeof *table);
    double *want = doubles_new(T * D);
    for (int64_t i = 0; i < T * D; i++) {
        const double angle = (double)(i / D) * pow(5e5, -(double)(i % 3) / 3.0);
        want[i] = i % D < 3 ? cos(angle) : sin(angle);
    }
    assert_close("long", table, ZR_F32, want, T * D, 1e-7);
}

static void test_long_tables(void **state)
{
    (void)state;
    for_every_level(long_tables);
}

#ifndef ZR_GPU
/* Check that GPUs compute tables as processors do. Without the stand-in they have sines of their own. */
static void test_bits_of_processors(void **state)
{
    (void)state;
    zr_device_config config = ZR_DEVICE_CONFIG_INIT;
    level_pair gpu, cpu;
    assert_int_equal(zr_device_create_cuda(&config, &gpu.one), ZR_OK);
    assert_int_equal(zr_device_create_cpu(&config, &cpu.one), ZR_OK);
    gpu.three = gpu.one;
    cpu.three = cpu.one;
    for (int k = 0; k < N_TABLES; k++)
        for (int64_t first = 0; first < 200; first += 77) {
            const float *one = table_of(&gpu, &tables[k].attr, LONG, first);
            const float *other = table_of(&cpu, &tables[k].attr, LONG, first);
            assert_memory_equal(one, other, LONG * WIDTH * sizeof *one);
            pool_clear();
        }
    zr_device_destroy(&gpu.one);
    zr_device_destroy(&cpu.one);
}
#endif

/* ---- rotary ---------------------------------------------------------------------------------- */

typedef struct size {
    int64_t B, T, heads, D;
} size;

/* Heads of 2 elements, odd halves, whole vectors, heads that fill several pieces, and heads that are longer than one.
 */
static const size sizes[] = {{1, 1, 1, 2},   {2, 7, 3, 2},     {3, 5, 2, 6},    {2, 9, 5, 30},
                             {2, 70, 9, 64}, {1, 33, 20, 128}, {1, 3, 2, 1030}, {2, 2, 1, 2072}};
#define N_SIZES (int)(sizeof sizes / sizeof *sizes)

/* Return x rotated by the angles of a table, for the tokens from row `row` of the flat micro-batch on. Positions count
 * from the beginnings of documents, unless `documents` is NULL. */
static double *rotated(size s, const void *x, zr_dtype g, const float *table, const int32_t *documents, int64_t row,
                       double sign)
{
    const int64_t half = s.D / 2, C = s.heads * s.D, n = (s.B * s.T - (documents ? row : 0)) * C;
    double *y = doubles_new(n);
    for (int64_t i = 0; i < n; i++) {
        const int64_t token = row + i / C, t = token % s.T - (documents ? documents[token] : 0);
        const float *at = table + t * s.D + i % s.D % half;
        const bool low = i % s.D < half;
        const double other = array_get(x, g, low ? i + half : i - half);
        y[i] = array_get(x, g, i) * at[0] + (low ? -other : other) * sign * at[half];
    }
    return y;
}

static void check_rotary(const level_pair *level, size s, zr_dtype g, zr_dtype w)
{
    const int64_t C = s.heads * s.D, n = s.B * s.T * C;
    void *x = array_random(g, n, 2.0), *y = array_new(w, n);
    float *table = array_random(ZR_F32, s.T * s.D, 1.0);
    kernel_call call = {.name = "rotary", .n_in = 2, .n_out = 1};
    call.in[0] = tensor3(x, g, s.B, s.T, C);
    call.in[1] = tensor2(table, ZR_F32, s.T, s.D);
    call.out[0] = tensor3(y, w, s.B, s.T, C);
    for (int inverse = 0; inverse < 2; inverse++) {
        call.attr.i[0] = inverse;
        run_both(level, call, 0);
        assert_close("rotary", y, w, rotated(s, x, g, table, NULL, 0, inverse ? -1 : 1), n, 1e-6);
        if (g == w) run_in_place(level, call, 0, 0);
    }
    /* a rank with only its own rows, the first of which is in the middle of a sequence */
    call.attr.i[1] = s.T;
    call.runtime.place = 3;
    call.in[0] = tensor2(x, g, s.B * s.T, C);
    call.out[0] = tensor2(y, w, s.B * s.T, C);
    if (s.B * s.T > 1) call.in[0].shape.dim[0] = call.out[0].shape.dim[0] = s.B * s.T - 1;
    const int64_t rows = call.in[0].shape.dim[0];
    run_both(level, call, 0);
    assert_close("rotary of a rank's rows", y, w, rotated(s, x, g, table, NULL, 3 * rows, -1), rows * C, 1e-6);
}

/* Check rows of several documents, on a rank with all rows and on one with only a part of the rows. */
static void check_documents(const level_pair *level, size s, zr_dtype g)
{
    const int64_t C = s.heads * s.D, n = s.B * s.T * C;
    void *x = array_random(g, n, 2.0), *y = array_new(g, n);
    float *table = array_random(ZR_F32, s.T * s.D, 1.0);
    int32_t *documents = documents_random(s.B, s.T);
    kernel_call call = {.name = "rotary", .n_in = 3, .n_out = 1};
    call.in[0] = tensor3(x, g, s.B, s.T, C);
    call.in[1] = tensor2(table, ZR_F32, s.T, s.D);
    call.in[2] = tensor2(documents, ZR_I32, s.B, s.T);
    call.out[0] = tensor3(y, g, s.B, s.T, C);
    run_both(level, call, 0);
    assert_close("rotary of documents", y, g, rotated(s, x, g, table, documents, 0, 1), n, 1e-6);
    run_in_place(level, call, 0, 0);
    if (s.B * s.T % 2) return;
    const int64_t rows = s.B * s.T / 2;
    call.attr.i[1] = s.T;
    call.runtime.place = 1;
    call.in[0] = tensor2(x, g, rows, C);
    call.out[0] = tensor2(y, g, rows, C);
    run_both(level, call, 0);
    assert_close("rotary of a rank's documents", y, g, rotated(s, x, g, table, documents, rows, 1), rows * C, 1e-6);
}

static void rotations(const level_pair *level)
{
    for (int i = 0; i < N_SIZES; i++)
        for (int g = 0; g < N_DTYPES; g++) {
            check_rotary(level, sizes[i], dtypes[g], dtypes[g]);
            if (g) check_rotary(level, sizes[i], dtypes[g], ZR_F32);
            check_documents(level, sizes[i], dtypes[g]);
            pool_clear();
        }
}

static void test_rotations(void **state)
{
    (void)state;
    for_every_level(rotations);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_tables),       cmocka_unit_test(test_decoded_rows),
        cmocka_unit_test(test_long_tables),
#ifndef ZR_GPU
        cmocka_unit_test(test_bits_of_processors),
#endif
        cmocka_unit_test(test_rotations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
