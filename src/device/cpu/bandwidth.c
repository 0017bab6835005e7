/* Measurement of two bandwidths. The memory bandwidth is measured by the triad of McCalpin's STREAM. The bandwidth
 * between ranks is measured by threads that read each other's memory, as thread ranks do in an all-gather. All threads
 * share the bandwidth, so a pass is timed from its start to the end of its slowest thread. The result is the rate of
 * the fastest of several passes. */
#include <string.h>
#include <unistd.h>

#include "base/core/scope.h"
#include "device/cpu/peak.h"

/* Minimum and maximum bytes of an array. Every pass processes whole arrays, with any number of threads, because a part
 * of an array might fit into the caches. */
#define LEAST_BYTES ((int64_t)64 << 20)
#define MOST_BYTES ((int64_t)256 << 20)
#define MEASURE_SEC 0.08
enum {
    LEAST_PASSES = 5,
    OF_CACHE = 4 /* ratio of an array's size to the size of the last-level cache; STREAM's rules require at least 4 */
};

typedef struct arrays {
    float *a, *b, *c;
    int64_t n; /* number of elements in each array */
} arrays;

/* Function by which a thread processes elements [at, at + n) in a pass. */
typedef void (*pass)(const arrays *m, const zr__peak_ops *ops, int64_t at, int64_t n);

static void touch(const arrays *m, const zr__peak_ops *ops, int64_t at, int64_t n)
{
    (void)ops;
    for (int64_t i = at; i < at + n; i++) {
        m->a[i] = 0.0f;
        m->b[i] = 1.0f;
        m->c[i] = 2.0f;
    }
}

static void triad(const arrays *m, const zr__peak_ops *ops, int64_t at, int64_t n)
{
    ops->triad(m->a + at, m->b + at, m->c + at, 0.5f, n);
}

/* Copy the share of the next thread; the last thread copies the share of the first. */
static void read_next(const arrays *m, const zr__peak_ops *ops, int64_t at, int64_t n)
{
    (void)ops;
    memcpy(m->a + at, m->b + (at + n) % m->n, (size_t)n * sizeof(float));
}

static double pass_sec(pass run, const arrays *m, const zr__peak_ops *ops, int threads)
{
    const int64_t share = m->n / threads;
    double begin = zr_clock_sec();
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int t = 0; t < threads; t++) run(m, ops, t * share, share);
    return zr_clock_sec() - begin;
}

static double best_rate(pass run, const arrays *m, const zr__peak_ops *ops, int threads, int64_t elem_bytes)
{
    double best = 0.0, spent = 0.0;
    for (int passes = 0; passes < LEAST_PASSES || spent < MEASURE_SEC; passes++) {
        double sec = pass_sec(run, m, ops, threads);
        if (passes == 0 || sec < best) best = sec;
        spent += sec;
    }
    return best > 0.0 ? (double)(elem_bytes * m->n) / best : 0.0;
}

/* Measure the bytes/s of a pass, with one thread alone and with all threads together. */
static zr_rate rate_of(pass run, const arrays *m, const zr__peak_ops *ops, int threads, int64_t elem_bytes)
{
    zr_rate rate = {.one = best_rate(run, m, ops, 1, elem_bytes)};
    rate.all = threads > 1 ? best_rate(run, m, ops, threads, elem_bytes) : rate.one;
    return rate;
}

/* Return the size of an array in bytes: OF_CACHE times the size of the last-level cache, but at least LEAST_BYTES and
 * at most MOST_BYTES. */
static int64_t array_bytes(void)
{
    int64_t bytes = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
    bytes = OF_CACHE * (int64_t)sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    if (bytes < LEAST_BYTES) return LEAST_BYTES;
    return bytes < MOST_BYTES ? bytes : MOST_BYTES;
}

zr_status zr__cpu_bandwidth(const zr__peak_ops *ops, int threads, zr_rate *of_triad, zr_rate *link)
{
    /* Round the number of elements down, so that all threads get equal shares. */
    arrays m = {.n = array_bytes() / (int64_t)sizeof(float) / threads * threads};
    const size_t bytes = (size_t)m.n * sizeof(float);
    ZR_AUTO_FREE float *a = m.a = zr_alloc(bytes), *b = m.b = zr_alloc(bytes), *c = m.c = zr_alloc(bytes);
    ZR_CHECK(a && b && c, ZR_ERR_MEMORY, "no memory for three arrays of %zu bytes, which measuring the bandwidth takes",
             bytes);
    (void)pass_sec(touch, &m, ops, threads);
    *of_triad = rate_of(triad, &m, ops, threads, 3 * sizeof(float));
    *link = rate_of(read_next, &m, ops, threads, sizeof(float));
    return ZR_OK;
}
