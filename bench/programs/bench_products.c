/*
 * Speed of the matrix products of a training step of GPT-2 124M, without attention's products: the rates of zr's
 * products and of the library's products, relative to the peak of a loop in registers. Each product is timed
 * separately, in turn with the peak. ZR_KERNELS selects the processor level. Prints a table to stderr, and a JSON line
 * for each result to stdout.
 *
 *   build/bench/bench_products [fp32|bf16] [TOKENS [THREADS [ROUNDS]]]
 *
 * The defaults are fp32, 4096 tokens, all cores and 12 rounds. With one thread, the thread's processor time is
 * measured, so that other work on the machine disturbs less.
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "device/cpu/cpu.h"
#include "device/cpu/shared/product_blocks.h"
#include "graph/internal.h"

enum { C = 768, V = 50257, LAYERS = 12, STRETCH_ROUNDS = 1 << 13, STRETCHES = 3 };

typedef struct product {
    const char *what;
    int64_t m, n, k, times;
    bool a_turned, b_turned, adds;
    double best_sec, library_sec, blocks_sec; /* blocks_sec: best time of the library in blocks; 0: not measured */
} product;

typedef struct bench {
    const char *level;
    zr_dtype dtype;
    int threads, rounds;
    void *a, *b, *c, *scratch;
    double peak;
} bench;

static double now_sec(const bench *b)
{
    struct timespec t;
    clock_gettime(b->threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- what is measured ------------------------------------------------------------------------ */

/* List the products of a linear op: forward, dx and dw. Return their number. */
static int add_linear(product *p, const char *const names[3], int64_t rows, int64_t K, int64_t N, int64_t times)
{
    p[0] = (product){names[0], rows, N, K, times, false, false, false, 0, 0, 0};
    p[1] = (product){names[1], rows, K, N, times, false, true, false, 0, 0, 0};
    p[2] = (product){names[2], K, N, rows, times, true, false, false, 0, 0, 0};
    return 3;
}

static int list_products(product *p, int64_t tokens)
{
    static const char *const names[][3] = {{"c_attn forward", "c_attn dx", "c_attn dw"},
                                           {"attn.c_proj forward", "attn.c_proj dx", "attn.c_proj dw"},
                                           {"c_fc forward", "c_fc dx", "c_fc dw"},
                                           {"mlp.c_proj forward", "mlp.c_proj dx", "mlp.c_proj dw"}};
    int n = add_linear(p, names[0], tokens, C, 3 * C, LAYERS);
    n += add_linear(p + n, names[1], tokens, C, C, LAYERS);
    n += add_linear(p + n, names[2], tokens, C, 4 * C, LAYERS);
    n += add_linear(p + n, names[3], tokens, 4 * C, C, LAYERS);
    const int64_t rows = zr__head_block(&(zr_graph_spec){.dtype = ZR_BF16}, tokens, V),
                  blocks = (tokens + rows - 1) / rows;
    p[n++] = (product){"head forward", rows, V, C, blocks, false, true, false, 0, 0, 0};
    p[n++] = (product){"head dx", rows, C, V, blocks, false, false, false, 0, 0, 0};
    p[n++] = (product){"head dw", V, C, rows, blocks, true, false, blocks > 1, 0, 0, 0};
    return n;
}

static zr__product_spec spec_of(const bench *b, const product *p)
{
    return (zr__product_spec){.m = p->m,
                              .n = p->n,
                              .k = p->k,
                              .dtype = b->dtype,
                              .out_dtype = p->adds ? ZR_F32 : b->dtype,
                              .a = p->a_turned ? (zr__strides){1, p->m} : (zr__strides){p->k, 1},
                              .b = p->b_turned ? (zr__strides){1, p->k} : (zr__strides){p->n, 1},
                              .accumulate = p->adds,
                              .threads = b->threads};
}

static double flops_of(const product *p)
{
    return 2.0 * (double)p->m * (double)p->n * (double)p->k;
}

static void keep_best(double *best, double sec)
{
    if (*best == 0.0 || sec < *best) *best = sec;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static double stretch(const bench *b)
{
    const float in[2] = {0.5f, 1.0f};
    float out;
    double best = 0.0;
    for (int i = 0; i < STRETCHES; i++) {
        const double begin = now_sec(b), flops = zr__cpu_peaks(b->level)->fma_f32(STRETCH_ROUNDS, in, &out),
                     rate = flops / (now_sec(b) - begin);
        if (rate > best) best = rate;
    }
    return best;
}

static void measure_peak(bench *b)
{
    double all = 0.0;
#pragma omp parallel num_threads(b->threads) reduction(+ : all)
    {
#pragma omp barrier
        all += stretch(b);
    }
    if (all > b->peak) b->peak = all;
}

static zr_status measure_ours(const bench *b, product *p)
{
    const zr__product_spec spec = spec_of(b, p);
    const zr__matmul_operands at = {.a = b->a, .b = b->b, .c = b->c, .panels = b->scratch};
    zr__matmul *matmul = NULL;
    ZR_TRY(zr__matmul_create(&spec, zr__cpu_panels(b->level), &matmul));
    const double begin = now_sec(b);
    zr_status st = zr__matmul_run(matmul, &at);
    keep_best(&p->best_sec, now_sec(b) - begin);
    zr__matmul_destroy(&matmul);
    return st;
}

/* Time the library's product with C computed in blocks of `rows` x `cols`, one call for each block. */
static zr_status time_library(const bench *b, const product *p, int64_t rows, int64_t cols, double *best)
{
    const int64_t each = zr_dtype_bytes(b->dtype);
    const zr__product_spec whole = spec_of(b, p);
    zr__product *part[4] = {NULL};
    const int64_t m[] = {rows, p->m % rows}, n[] = {cols, p->n % cols};
    zr_status st = ZR_OK;
    for (int i = 0; i < 4 && st == ZR_OK; i++) {
        zr__product_spec spec = whole;
        spec.m = m[i / 2];
        spec.n = n[i % 2];
        spec.ld = p->n;
        if (spec.m > 0 && spec.n > 0) st = zr__product_create(&spec, &part[i]);
    }
    const double begin = now_sec(b);
    for (int64_t i = 0; i < p->m && st == ZR_OK; i += rows)
        for (int64_t j = 0; j < p->n && st == ZR_OK; j += cols)
            st = zr__product_run(part[(p->m - i < rows) * 2 + (p->n - j < cols)], (char *)b->a + i * whole.a.row * each,
                                 (char *)b->b + j * whole.b.col * each, NULL, NULL,
                                 (char *)b->c + (i * p->n + j) * zr_dtype_bytes(whole.out_dtype));
    keep_best(best, now_sec(b) - begin);
    for (int i = 0; i < 4; i++) zr__product_destroy(&part[i]);
    return st;
}

/* Time the library's product once for each size of blocks. */
static zr_status measure_blocks(const bench *b, product *p)
{
    static const int64_t sizes[] = {INT64_MAX, 2048, 1024, 512, 256};
    const int n = (int)(sizeof sizes / sizeof *sizes);
    for (int i = 0; i < n * n; i++) {
        const int64_t rows = sizes[i / n] < p->m ? sizes[i / n] : p->m,
                      cols = sizes[i % n] < p->n ? sizes[i % n] : p->n;
        const bool again = (i / n > 0 && sizes[i / n] >= p->m) || (i % n > 0 && sizes[i % n] >= p->n);
        if (!again) ZR_TRY(time_library(b, p, rows, cols, &p->blocks_sec));
    }
    return ZR_OK;
}

static zr_status measure_all(bench *b, product *p, int n)
{
    const bool library = b->dtype == ZR_F32 || zr__onednn_has_bf16();
    for (int round = 0; round < b->rounds; round++)
        for (int i = 0; i < n; i++) {
            measure_peak(b);
            ZR_TRY(measure_ours(b, &p[i]));
            if (!library) continue;
            ZR_TRY(time_library(b, &p[i], p[i].m, p[i].n, &p[i].library_sec));
            if (b->dtype == ZR_BF16 && round == 0) ZR_TRY(measure_blocks(b, &p[i]));
        }
    return ZR_OK;
}

/* ---- results --------------------------------------------------------------------------------- */

static void print_line(const bench *b, int64_t tokens, const char *what, double value, double wanted)
{
    printf("{\"what\": \"products in %s, %s, %d threads, %lld tokens: %s\", \"value\": %.3f",
           b->dtype == ZR_F32 ? "fp32" : "bf16", b->level, b->threads, (long long)tokens, what, value);
    if (wanted > 0.0) printf(", \"wanted\": %g, \"ok\": %s", wanted, value >= wanted ? "true" : "false");
    printf("}\n");
}

static void print_all(const bench *b, const product *p, int n, int64_t tokens)
{
    double flops = 0.0, sec = 0.0, library_sec = 0.0, blocks_sec = 0.0, least = 1e9;
    fprintf(stderr, "%s, %d threads, peak %.1f GFLOP/s of fp32\n%-22s%8s%8s%8s%8s%9s%9s%9s%9s\n", b->level, b->threads,
            b->peak * 1e-9, "", "m", "n", "k", "times", "GFLOP/s", "of peak", "library", "blocks");
    for (int i = 0; i < n; i++) {
        const double rate = flops_of(&p[i]) / p[i].best_sec, share = rate / b->peak, times = (double)p[i].times;
        fprintf(stderr, "%-22s%8lld%8lld%8lld%8lld%9.1f%8.1f%%%9.1f", p[i].what, (long long)p[i].m, (long long)p[i].n,
                (long long)p[i].k, (long long)p[i].times, rate * 1e-9, share * 100.0,
                p[i].library_sec > 0.0 ? flops_of(&p[i]) / p[i].library_sec * 1e-9 : 0.0);
        if (p[i].blocks_sec > 0.0) fprintf(stderr, "%9.1f", flops_of(&p[i]) / p[i].blocks_sec * 1e-9);
        fprintf(stderr, "\n");
        flops += flops_of(&p[i]) * times;
        sec += p[i].best_sec * times;
        library_sec += p[i].library_sec * times;
        blocks_sec += p[i].blocks_sec * times;
        if (share < least) least = share;
    }
    if (b->dtype == ZR_F32) {
        print_line(b, tokens, "share of the peak, by time", flops / sec / b->peak, tokens >= 4096 ? 0.85 : 0.75);
        print_line(b, tokens, "the least share of one", least, tokens >= 4096 ? 0.75 : 0.0);
    } else if (blocks_sec > 0.0) {
        print_line(b, tokens, "speed / the library's best way to cut each", blocks_sec / sec, 0.85);
    }
    if (library_sec > 0.0) print_line(b, tokens, "speed / the library's", library_sec / sec, 0.0);
}

/* ---- main ------------------------------------------------------------------------------------ */

static void *operand(zr_dtype dtype, int64_t n)
{
    void *data = zr_alloc((size_t)(n * zr_dtype_bytes(dtype)));
    for (int64_t i = 0; data && i < n; i++) {
        const float x = (float)(i * 7 % 16 - 7) / 64.0f;
        if (dtype == ZR_F32)
            ((float *)data)[i] = x;
        else
            ((uint16_t *)data)[i] = zr_bf16_from_f32(x);
    }
    return data;
}

static zr_status allocate(bench *b, const product *p, int n)
{
    int64_t a = 1, c = 1, w = 1, scratch = 1;
    for (int i = 0; i < n; i++) {
        const zr__product_spec s = spec_of(b, &p[i]);
        const zr__product_shape shape = {s.m, s.n, s.k, s.dtype, s.out_dtype, zr__cpu_panels(b->level)->tiles};
        const int64_t bytes = zr__product_layout_make(shape, s.threads, ZR__PANEL_BYTES).bytes;
        if (s.m * s.k > a) a = s.m * s.k;
        if (s.k * s.n > w) w = s.k * s.n;
        if (s.m * s.n > c) c = s.m * s.n;
        if (bytes > scratch) scratch = bytes;
    }
    b->a = operand(b->dtype, a);
    b->b = operand(b->dtype, w);
    b->c = operand(ZR_F32, c);
    b->scratch = operand(ZR_F32, scratch / 4 + 16);
    ZR_CHECK(b->a && b->b && b->c && b->scratch, ZR_ERR_MEMORY, "no memory for the operands");
    return ZR_OK;
}

static zr_status run(bench *b, int64_t tokens)
{
    product p[16];
    const int n = list_products(p, tokens);
    ZR_TRY(allocate(b, p, n));
    ZR_TRY(measure_all(b, p, n));
    print_all(b, p, n, tokens);
    return ZR_OK;
}

int main(int argc, char **argv)
{
    const int64_t tokens = argc > 2 ? atoll(argv[2]) : 4096;
    bench b = {.dtype = argc > 1 && strcmp(argv[1], "bf16") == 0 ? ZR_BF16 : ZR_F32, .rounds = 12};
    b.threads = argc > 3 ? atoi(argv[3]) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (argc > 4) b.rounds = atoi(argv[4]);
    zr_device_config config = ZR_DEVICE_CONFIG_INIT;
    zr_device *device = NULL; /* limits the library to the processor level */
    zr_status st = zr_device_create_cpu(&config, &device);
    b.level = zr_device_cpu_level();
    if (st == ZR_OK) st = run(&b, tokens);
    zr_device_destroy(&device);
    zr_free(b.a);
    zr_free(b.b);
    zr_free(b.c);
    zr_free(b.scratch);
    if (st == ZR_OK) return 0;
    fprintf(stderr, "bench_products: %s\n", zr_error_message());
    return 1;
}
