/*
 * The triad of STREAM (McCalpin 1995), a = b + s c on all cores. Its bandwidth is the reference for other kernels. An
 * element counts as 12 bytes, as in STREAM, although plain stores also read the cache line that they write.
 */
#ifndef TRIAD_H
#define TRIAD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Benchmarks are compiled for every processor of the architecture. Compile these loops for newer processors too. */
#if defined(__x86_64__) && defined(__has_attribute)
#if __has_attribute(target_clones)
#define TRIAD_LEVELS __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#endif
#ifndef TRIAD_LEVELS
#define TRIAD_LEVELS
#endif

enum { TRIAD_BYTES = 12 };

TRIAD_LEVELS static void triad_part(float *restrict a, const float *restrict b, const float *restrict c, float s,
                                    int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) a[i] = b[i] + s * c[i];
}

static inline void triad(int threads, float *a, const float *b, const float *c, int64_t n)
{
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int t = 0; t < threads; t++) {
        int64_t begin = n * t / threads, end = n * (t + 1) / threads;
        triad_part(a + begin, b + begin, c + begin, 0.5f, end - begin);
    }
}

/* Print a bandwidth in bytes/s and its fraction of the triad's. `wanted` is the wanted fraction, or 0 for no target. */
static inline void print_share(bool json, const char *what, double rate, double triad_rate, double wanted)
{
    const double share = rate / triad_rate;
    const bool ok = share >= wanted;
    if (json) {
        printf("{\"what\":\"%s\",\"bytes_per_sec\":%.4g,\"share_of_triad\":%.4g,", what, rate, share);
        if (wanted > 0.0)
            printf("\"wanted\":%g,\"ok\":%s}\n", wanted, ok ? "true" : "false");
        else
            printf("\"wanted\":null,\"ok\":null}\n");
        return;
    }
    printf("%-24s %6.1f GB/s  %4.0f %% of triad", what, rate / 1e9, 100.0 * share);
    if (wanted > 0.0) printf(", %.0f %% wanted%s", 100.0 * wanted, ok ? "" : ": NOT REACHED");
    putchar('\n');
}

#endif
