/*
 * Measurement of two peak rates of the CPU, in FLOP/s. The rate of matrix products is used in runs without a better
 * measurement. The rate of operations in registers is an upper bound for products in vectors, but not on AMX tiles.
 *
 * On a busy machine only short intervals are undisturbed, so the result is the best of many short measurements.
 *
 * Matrix products: one thread multiplies square matrices that fit into its cache. The result is its rate times the
 * number of threads. A product on all threads would measure the load of the machine instead: on a busy machine, it gave
 * a fifth of the true rate.
 *
 * Registers: one thread runs alone, and then all threads run at once. Each thread contributes the best of its short
 * intervals, called stretches. The second rate includes the effects of shared execution units, and of the lower clock
 * when all threads work.
 */
#include "device/cpu/peak.h"

#include "base/core/scope.h"
#include "device/cpu/shared/product_blocks.h"

/* SIDE: number of rows and of columns of the matrices. It is not a power of two, because the rows would then compete
 * for the same cache sets. */
enum { SIDE = 240, LEAST_RUNS = 16 };
/* A stretch takes about 0.1 ms. The number of stretches is fixed, not their total time, because a thread measures
 * nothing while it waits for a core. */
enum { STRETCH_ROUNDS = 1 << 14, STRETCHES = 300 };
#define MEASURE_SEC 0.02
#define FLOPS (2.0 * SIDE * SIDE * SIDE)

/* Fill a matrix with ones, so that the results of products are normal numbers in every dtype. */
static void fill_ones(void *matrix, zr_dtype dtype)
{
    for (int64_t i = 0; i < SIDE * SIDE; i++) {
        if (dtype == ZR_BF16)
            ((uint16_t *)matrix)[i] = zr_bf16_from_f32(1.0f);
        else
            ((float *)matrix)[i] = 1.0f;
    }
}

static double best_sec(const zr__matmul *product, const zr__matmul_operands *operands)
{
    double best = 0.0, begin = zr_clock_sec(), last = begin;
    for (int runs = 0; runs < LEAST_RUNS || last - begin < MEASURE_SEC; runs++) {
        if (zr__matmul_run(product, operands) != ZR_OK) return 0.0;
        double now = zr_clock_sec(), sec = now - last;
        if (best == 0.0 || sec < best) best = sec;
        last = now;
    }
    return best;
}

double zr__cpu_peak_flops(const zr__panel_ops *level, int threads, zr_dtype dtype)
{
    const zr__strides rows = {SIDE, 1};
    const zr__product_spec spec = {
        .m = SIDE, .n = SIDE, .k = SIDE, .dtype = dtype, .out_dtype = ZR_F32, .a = rows, .b = rows, .threads = 1};
    const zr__product_shape shape = {SIDE, SIDE, SIDE, dtype, ZR_F32, level->tiles};
    const zr__product_layout layout = zr__product_layout_make(shape, 1, ZR__PANEL_BYTES);
    zr__matmul *product = NULL;
    size_t bytes = (size_t)(SIDE * SIDE * zr_dtype_bytes(dtype));
    ZR_AUTO_FREE void *a = zr_alloc(bytes), *b = zr_alloc(bytes), *c = zr_alloc(SIDE * SIDE * sizeof(float)),
                      *panels = zr_alloc((size_t)layout.bytes);
    double sec = 0.0;
    if (a && b && c && panels && zr__matmul_create(&spec, level, &product) == ZR_OK) {
        fill_ones(a, dtype);
        fill_ones(b, dtype);
        sec = best_sec(product, &(zr__matmul_operands){.a = a, .b = b, .c = c, .panels = panels});
        zr__matmul_destroy(&product);
    }
    return sec > 0.0 ? threads * FLOPS / sec : 0.0;
}

static double best_stretch(double (*loop)(int64_t rounds, const float in[2], float *out))
{
    const float in[2] = {0.5f, 1.0f};
    volatile float sink;
    double best = 0.0, last = zr_clock_sec();
    for (int i = 0; i < STRETCHES; i++) {
        float out;
        double flops = loop(STRETCH_ROUNDS, in, &out), now = zr_clock_sec();
        sink = out;
        if (now > last && flops / (now - last) > best) best = flops / (now - last);
        last = now;
    }
    (void)sink;
    return best;
}

zr_rate zr__cpu_register_flops(double (*loop)(int64_t rounds, const float in[2], float *out), int threads)
{
    if (!loop) return (zr_rate){0};
    zr_rate rate = {.one = best_stretch(loop)};
    double all = 0.0;
    rate.all = rate.one;
    if (threads == 1) return rate;
#pragma omp parallel num_threads(threads) reduction(+ : all)
    {
#pragma omp barrier
        all += best_stretch(loop);
    }
    rate.all = all;
    return rate;
}
