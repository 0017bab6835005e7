/*
 * The processor's peak, as its own matrix product reaches it: what a share of the peak is stated against.
 * One thread multiplies square matrices that fit its cache, the best of many runs counts, times the threads.
 * All threads at once would measure the load of a busy machine (seen: a fifth of the true rate), not its peak.
 */
#include "device/cpu/peak.h"

#include "device/cpu/onednn.h"

/* No power of two, whose rows fall on each other in the cache. */
enum { SIDE = 240, LEAST_RUNS = 16 };
#define MEASURE_SEC 0.02
#define FLOPS (2.0 * SIDE * SIDE * SIDE)

/* Ones: numbers that stay normal in every type. */
static void fill(void *matrix, zr_dtype dtype)
{
    for (int64_t i = 0; i < SIDE * SIDE; i++) {
        if (dtype == ZR_BF16)
            ((uint16_t *)matrix)[i] = zr_bf16_from_f32(1.0f);
        else
            ((float *)matrix)[i] = 1.0f;
    }
}

static double best_sec(const zr__product *product, void *a, void *b, void *c)
{
    double best = 0.0, begin = zr_clock_sec(), last = begin;
    for (int runs = 0; runs < LEAST_RUNS || last - begin < MEASURE_SEC; runs++) {
        if (zr__product_run(product, a, b, NULL, NULL, c) != ZR_OK) return 0.0;
        double now = zr_clock_sec(), sec = now - last;
        if (best == 0.0 || sec < best) best = sec;
        last = now;
    }
    return best;
}

double zr__cpu_peak_flops(int threads, zr_dtype dtype)
{
    const zr__strides rows = {SIDE, 1};
    zr__product_spec spec = {
        .m = SIDE, .n = SIDE, .k = SIDE, .dtype = dtype, .out_dtype = ZR_F32, .a = rows, .b = rows, .threads = 1};
    zr__product *product = NULL;
    size_t bytes = (size_t)(SIDE * SIDE * zr_dtype_bytes(dtype));
    void *a = zr_alloc(bytes), *b = zr_alloc(bytes), *c = zr_alloc(SIDE * SIDE * sizeof(float));
    double sec = 0.0;
    if (a && b && c && zr__product_create(&spec, &product) == ZR_OK) {
        fill(a, dtype);
        fill(b, dtype);
        sec = best_sec(product, a, b, c);
        zr__product_destroy(&product);
    }
    zr_free(a);
    zr_free(b);
    zr_free(c);
    return sec > 0.0 ? threads * FLOPS / sec : 0.0;
}
