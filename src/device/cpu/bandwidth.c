/*
 * Bytes per second: of memory, by the triad of McCalpin's STREAM, and between ranks, which read each other's memory as
 * thread ranks do when they gather. Threads share what is measured here, so a pass counts as a whole, and the best of
 * some passes.
 */
#include <string.h>

#include "device/cpu/peak.h"

/* Together beyond any cache; of each thread beyond its own. */
#define ARRAY_BYTES ((int64_t)64 << 20)
#define THREAD_BYTES ((int64_t)8 << 20)
#define MEASURE_SEC 0.08
enum { LEAST_PASSES = 8 };

typedef struct arrays {
    float *a, *b, *c;
    int64_t each; /* elements of a thread */
    int threads;
} arrays;

/* What thread t does in a pass. */
typedef void (*pass)(const arrays *m, const zr__peak_ops *ops, int t);

static void touch(const arrays *m, const zr__peak_ops *ops, int t)
{
    (void)ops;
    for (int64_t i = t * m->each; i < (t + 1) * m->each; i++) {
        m->a[i] = 0.0f;
        m->b[i] = 1.0f;
        m->c[i] = 2.0f;
    }
}

static void triad(const arrays *m, const zr__peak_ops *ops, int t)
{
    const int64_t at = t * m->each;
    ops->triad(m->a + at, m->b + at, m->c + at, 0.5f, m->each);
}

static void read_next(const arrays *m, const zr__peak_ops *ops, int t)
{
    (void)ops;
    const int64_t next = (t + 1) % m->threads;
    memcpy(m->a + t * m->each, m->b + next * m->each, (size_t)m->each * sizeof(float));
}

static double pass_sec(pass run, const arrays *m, const zr__peak_ops *ops, int threads)
{
    double begin = zr_clock_sec();
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int t = 0; t < threads; t++) run(m, ops, t);
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
    return best > 0.0 ? (double)elem_bytes * (double)m->each * threads / best : 0.0;
}

/* What one thread reaches, all reach; where a pass of all was always disturbed, that is the better number. */
static zr_rate rate_of(pass run, const arrays *m, const zr__peak_ops *ops, int64_t elem_bytes)
{
    zr_rate rate = {.one = best_rate(run, m, ops, 1, elem_bytes)};
    if (m->threads > 1) rate.all = best_rate(run, m, ops, m->threads, elem_bytes);
    if (rate.all < rate.one) rate.all = rate.one;
    return rate;
}

zr_status zr__cpu_bandwidth(const zr__peak_ops *ops, int threads, zr_rate *of_triad, zr_rate *link)
{
    const int64_t share = ARRAY_BYTES / threads, bytes = share > THREAD_BYTES ? share : THREAD_BYTES;
    arrays m = {.each = bytes / (int64_t)sizeof(float), .threads = threads};
    const size_t whole = (size_t)(bytes * threads);
    m.a = zr_alloc(whole);
    m.b = zr_alloc(whole);
    m.c = zr_alloc(whole);
    bool room = m.a && m.b && m.c;
    if (room) {
        (void)pass_sec(touch, &m, ops, threads);
        *of_triad = rate_of(triad, &m, ops, 3 * sizeof(float));
        *link = rate_of(read_next, &m, ops, sizeof(float));
    }
    zr_free(m.a);
    zr_free(m.b);
    zr_free(m.c);
    ZR_CHECK(room, ZR_ERR_MEMORY, "no memory for three arrays of %zu bytes, which measuring the bandwidth takes",
             whole);
    return ZR_OK;
}
