/*
 * Speed of memory-bound kernels: the bandwidth of the optimizer, of the sums and of the kernels that process
 * activations, relative to the triad at the same time. All kernels run in turn in one process. The best of all rounds
 * counts. Each operand and each result counts once.
 *
 *   GOMP_SPINCOUNT=10000 build/bench/bench_memory [--json] [--threads N] [TEXT]
 *
 * N is the number of threads (default: all cores). With TEXT, only the triad and kernels whose name contains it run.
 */
#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zr.h>

#include "triad.h"

enum {
    LEAST_ROUNDS = 8,
    WIDTH = 768,
    VOCAB = 50257,
    TOKENS = 8192,
    ROWS = 21848,
    EMBEDDING_SCRATCH = 16 * TOKENS,
    LAYERNORM_SLICES = 32
};
#define MEASURE_SEC 10.0
/* Number of elements of an array: whole rows, and 64 MiB in fp32, more than one core's share of a cache. */
#define ELEMS ((int64_t)ROWS * WIDTH)

typedef struct arrays {
    float *x, *y;          /* operands, which are only read */
    float *out;            /* results, or the optimizer's weights */
    float *m, *v;          /* states of the optimizer */
    uint16_t *x16, *out16; /* arrays in bf16: x, and results */
    float *mean, *rstd;    /* (ROWS) */
    float *row;            /* (VOCAB) small numbers */
    int32_t *id;           /* (ROWS) ids below VOCAB and below ROWS */
    void *scratch;
} arrays;

typedef struct bench bench;

typedef struct work {
    const char *what;
    double bytes;  /* bytes per element */
    double wanted; /* wanted bandwidth relative to the triad, or 0 for no target */
    zr_status (*run)(bench *b);
    bool in_place; /* whether `out` first receives a copy of y, since the op runs in place */
    double sec;    /* time of the fastest run */
} work;

struct bench {
    zr_device *device;
    arrays a;
};

/* ---- ZeRO's own steps ------------------------------------------------------------------------ */

static zr_status run_triad(bench *b)
{
    triad(b->device->profile.facts.threads, b->a.out, b->a.x, b->a.y, ELEMS);
    return ZR_OK;
}

static zr_status update(bench *b, zr_update_args args)
{
    const zr_optimizer adamw = zr_adamw(0.9, 0.95, 1e-8, 0.1);
    args.n = ELEMS;
    args.weight = b->a.out;
    args.slot[0] = b->a.m;
    args.slot[1] = b->a.v;
    args.grad_scale = 0.5f;
    args.lr = 1e-4;
    args.weight_decay = 0.1;
    args.step = 10;
    args.hyper = adamw.hyper;
    return b->device->ops->update(b->device, &adamw, &args);
}

static zr_status run_adamw(bench *b)
{
    return update(b, (zr_update_args){.grad = b->a.x, .grad_dtype = ZR_F32});
}

static zr_status run_adamw_mixed(bench *b)
{
    return update(
        b, (zr_update_args){.grad = b->a.x16, .grad_dtype = ZR_BF16, .param16 = b->a.out16, .param_dtype = ZR_BF16});
}

static zr_status run_sum(bench *b)
{
    const void *piece[] = {b->a.x, b->a.y};
    return b->device->ops->sum(b->device, b->a.out, ZR_F32, false, piece, 2, ZR_F32, ELEMS);
}

static zr_status run_sum_bf16(bench *b)
{
    const void *piece[] = {b->a.x16, b->a.x16 + ELEMS / 2};
    return b->device->ops->sum(b->device, b->a.out16, ZR_BF16, false, piece, 2, ZR_BF16, ELEMS / 2);
}

static zr_status run_square_sum(bench *b)
{
    zr_square sum = {.bad = -1};
    return b->device->ops->square(b->device, b->a.x, ZR_F32, ELEMS, false, 0, &sum);
}

static zr_status run_narrow(bench *b)
{
    return b->device->ops->cast(b->device, b->a.out16, ZR_BF16, b->a.x, ZR_F32, ELEMS, NULL);
}

static zr_status run_widen(bench *b)
{
    return b->device->ops->cast(b->device, b->a.out, ZR_F32, b->a.x16, ZR_BF16, ELEMS, NULL);
}

/* Encode x. */
static zr_status encode(bench *b, zr_dtype dtype, const zr_casting *casting)
{
    return b->device->ops->cast(b->device, b->a.out16, dtype, b->a.x, ZR_F32, ELEMS, casting);
}

/* Decode the words of x16 as records. Their scales are numbers of bf16 that are neither NaN nor subnormal. */
static zr_status decode(bench *b, zr_dtype dtype)
{
    return b->device->ops->cast(b->device, b->a.out, ZR_F32, b->a.x16, dtype, ELEMS, NULL);
}

static zr_status run_encode_i8(bench *b)
{
    return encode(b, ZR_I8X128, NULL);
}

static zr_status run_encode_i4(bench *b)
{
    return encode(b, ZR_I4X128, NULL);
}

static zr_status run_encode_e4m3(bench *b)
{
    return encode(b, ZR_E4M3X128, NULL);
}

static zr_status run_encode_i4_random(bench *b)
{
    const zr_rounding rounding = {.rng = {.seed = 1, .purpose = ZR_RNG_ROUND}};
    return encode(b, ZR_I4X128, &(zr_casting){.rounding = &rounding});
}

static zr_status run_encode_h4(bench *b)
{
    return encode(b, ZR_H4X128, NULL);
}

static zr_status run_decode_h4(bench *b)
{
    return decode(b, ZR_H4X128);
}

static zr_status run_decode_i8(bench *b)
{
    return decode(b, ZR_I8X128);
}

static zr_status run_decode_i4(bench *b)
{
    return decode(b, ZR_I4X128);
}

static zr_status run_decode_e4m3(bench *b)
{
    return decode(b, ZR_E4M3X128);
}

static zr_status run_sum_i4(bench *b)
{
    const void *piece[] = {b->a.x16, b->a.x16 + ELEMS / 2};
    return b->device->ops->sum(b->device, b->a.out, ZR_F32, false, piece, 2, ZR_I4X128, ELEMS);
}

static zr_status copy_from(bench *b, const float *x)
{
    return b->device->ops->cast(b->device, b->a.out, ZR_F32, x, ZR_F32, ELEMS, NULL);
}

static zr_status run_copy(bench *b)
{
    return copy_from(b, b->a.x);
}

/* ---- kernels --------------------------------------------------------------------------------- */

static zr_tensor vector(void *data, zr_dtype dtype, int64_t n)
{
    return (zr_tensor){data, dtype, {1, {n}}};
}

static zr_tensor matrix(void *data, int64_t rows, int64_t cols)
{
    return (zr_tensor){data, ZR_F32, {2, {rows, cols}}};
}

static zr_status kernel(bench *b, const char *name, double attr, int n_in, const zr_tensor *in, int n_out,
                        const zr_tensor *out)
{
    const zr_kernel *found = b->device->ops->kernel(b->device, name);
    const zr_op op = {.attr = {.f = {attr}}};
    const zr_runtime runtime = {0};
    const zr_kernel_args args = {.device = b->device,
                                 .op = &op,
                                 .n_in = n_in,
                                 .n_out = n_out,
                                 .in = in,
                                 .out = out,
                                 .scratch = b->a.scratch,
                                 .runtime = &runtime,
                                 .threads = b->device->profile.facts.threads};
    ZR_CHECK(found, ZR_ERR_UNSUPPORTED, "no kernel for %s", name);
    return found->run(&args);
}
#define KERNEL(b, name, attr, in, out)                                                                                 \
    kernel(b, name, attr, (int)(sizeof(in) / sizeof *(in)), in, (int)(sizeof(out) / sizeof *(out)), out)

static zr_status run_layernorm(bench *b)
{
    const zr_tensor in[] = {matrix(b->a.x, ROWS, WIDTH), vector(b->a.row, ZR_F32, WIDTH),
                            vector(b->a.row, ZR_F32, WIDTH)};
    const zr_tensor out[] = {matrix(b->a.out, ROWS, WIDTH), vector(b->a.mean, ZR_F32, ROWS),
                             vector(b->a.rstd, ZR_F32, ROWS)};
    return KERNEL(b, "layernorm", 1e-5, in, out);
}

static zr_status run_layernorm_dx(bench *b)
{
    const zr_tensor in[] = {matrix(b->a.out, ROWS, WIDTH),   matrix(b->a.x, ROWS, WIDTH),
                            vector(b->a.row, ZR_F32, WIDTH), vector(b->a.mean, ZR_F32, ROWS),
                            vector(b->a.rstd, ZR_F32, ROWS), matrix(NULL, 0, 0)};
    const zr_tensor out[] = {matrix(b->a.out, ROWS, WIDTH)};
    return KERNEL(b, "layernorm_dx", 0, in, out);
}

static zr_status run_layernorm_dw(bench *b)
{
    const zr_tensor in[] = {matrix(b->a.y, ROWS, WIDTH), matrix(b->a.x, ROWS, WIDTH), vector(b->a.mean, ZR_F32, ROWS),
                            vector(b->a.rstd, ZR_F32, ROWS)};
    const zr_tensor out[] = {vector(b->a.out, ZR_F32, WIDTH), vector(b->a.out + WIDTH, ZR_F32, WIDTH)};
    return KERNEL(b, "layernorm_dw", 0, in, out);
}

static zr_status run_rmsnorm(bench *b)
{
    const zr_tensor in[] = {matrix(b->a.x, ROWS, WIDTH), vector(b->a.row, ZR_F32, WIDTH)};
    const zr_tensor out[] = {matrix(b->a.out, ROWS, WIDTH), vector(b->a.rstd, ZR_F32, ROWS)};
    return KERNEL(b, "rmsnorm", 1e-5, in, out);
}

/* Run an op from a matrix to another one with the same number of elements. */
static zr_status run_map(bench *b, const char *name, zr_tensor into)
{
    const zr_tensor in[] = {matrix(b->a.x, ROWS, WIDTH)}, out[] = {into};
    return KERNEL(b, name, 0, in, out);
}

static zr_status run_gelu(bench *b)
{
    return run_map(b, "gelu", matrix(b->a.out, ROWS, WIDTH));
}

static zr_status run_silu(bench *b)
{
    return run_map(b, "silu", matrix(b->a.out, ROWS, WIDTH));
}

static zr_status run_softmax(bench *b)
{
    return run_map(b, "softmax", matrix(b->a.out, ROWS, WIDTH));
}

static zr_status run_transpose(bench *b)
{
    return run_map(b, "transpose", matrix(b->a.out, WIDTH, ROWS));
}

static zr_status run_gelu_dx(bench *b)
{
    const zr_tensor in[] = {matrix(b->a.out, ROWS, WIDTH), matrix(b->a.x, ROWS, WIDTH)};
    const zr_tensor out[] = {matrix(b->a.out, ROWS, WIDTH)};
    return KERNEL(b, "gelu_dx", 0, in, out);
}

static zr_status run_swiglu(bench *b)
{
    const zr_tensor in[] = {matrix(b->a.x, ROWS, WIDTH), matrix(b->a.y, ROWS, WIDTH)};
    const zr_tensor out[] = {matrix(b->a.out, ROWS, WIDTH)};
    return KERNEL(b, "swiglu", 0, in, out);
}

static zr_status run_swiglu_dx(bench *b)
{
    const zr_tensor in[] = {matrix(b->a.out, ROWS, WIDTH), matrix(b->a.x, ROWS, WIDTH), matrix(b->a.y, ROWS, WIDTH)};
    const zr_tensor out[] = {matrix(b->a.out, ROWS, WIDTH), matrix(b->a.m, ROWS, WIDTH)};
    return KERNEL(b, "swiglu_dx", 0, in, out);
}

/* Run rotary on heads of 64 elements, in sequences of 1024 tokens. */
static zr_status run_rotary(bench *b)
{
    const zr_tensor in[] = {matrix(b->a.x, ROWS, WIDTH), matrix(b->a.y, 1024, 64)};
    const zr_tensor out[] = {matrix(b->a.out, ROWS, WIDTH)};
    return KERNEL(b, "rotary", 0, in, out);
}

/* Run rmsnorm on groups of 64 columns, which are normalised separately. */
static zr_status run_rmsnorm_heads(bench *b)
{
    const zr_tensor in[] = {matrix(b->a.x, ROWS, WIDTH), vector(b->a.row, ZR_F32, 64)};
    const zr_tensor out[] = {matrix(b->a.out, ROWS, WIDTH), matrix(b->a.m, ROWS, WIDTH / 64)};
    return KERNEL(b, "rmsnorm", 1e-5, in, out);
}

static zr_status run_add(bench *b)
{
    const zr_tensor in[] = {matrix(b->a.x, ROWS, WIDTH), matrix(b->a.out, ROWS, WIDTH)};
    const zr_tensor out[] = {matrix(b->a.out, ROWS, WIDTH)};
    return KERNEL(b, "add", 0, in, out);
}

/* Run embedding_dw with a vocabulary of ROWS, so that the table is as large as the other arrays. */
static zr_status run_embedding_dw(bench *b)
{
    const zr_tensor ids = {b->a.id, ZR_I32, {2, {TOKENS / 1024, 1024}}};
    const zr_tensor in[] = {ids, matrix(b->a.y, TOKENS, WIDTH), matrix(NULL, 0, 0)};
    const zr_tensor out[] = {matrix(b->a.out, ROWS, WIDTH)};
    return KERNEL(b, "embedding_dw", 0, in, out);
}

enum { LOSSES = ROWS * WIDTH / VOCAB };

static zr_status run_cross_entropy(bench *b)
{
    const zr_tensor in[] = {matrix(b->a.x, LOSSES, VOCAB), vector(b->a.id, ZR_I32, LOSSES)};
    const zr_tensor out[] = {vector(b->a.out, ZR_F32, LOSSES), vector(b->a.out + LOSSES, ZR_F32, LOSSES)};
    return KERNEL(b, "cross_entropy", 0, in, out);
}

static zr_status run_cross_entropy_dx(bench *b)
{
    const zr_tensor in[] = {vector(b->a.row, ZR_F32, LOSSES), matrix(b->a.out, LOSSES, VOCAB),
                            vector(b->a.id, ZR_I32, LOSSES), vector(b->a.rstd, ZR_F32, LOSSES)};
    const zr_tensor out[] = {matrix(b->a.out, LOSSES, VOCAB)};
    return KERNEL(b, "cross_entropy_dx", 0, in, out);
}

static work all[] = {
    {"triad", TRIAD_BYTES, 0, run_triad, false, 0},
    {"adamw fp32", 28, 0.8, run_adamw, false, 0},
    {"adamw bf16", 28, 0.8, run_adamw_mixed, false, 0},
    {"sum of 2, fp32", 12, 0, run_sum, false, 0},
    {"sum of 2, bf16", 3, 0, run_sum_bf16, false, 0},
    {"square sum", 4, 0, run_square_sum, false, 0},
    {"cast fp32 to bf16", 6, 0, run_narrow, false, 0},
    {"cast bf16 to fp32", 6, 0, run_widen, false, 0},
    {"cast fp32 to int8", 4 + 130.0 / 128, 0, run_encode_i8, false, 0},
    {"cast fp32 to int4", 4 + 66.0 / 128, 0, run_encode_i4, false, 0},
    {"cast fp32 to int4, stochastic", 4 + 66.0 / 128, 0, run_encode_i4_random, false, 0},
    {"cast fp32 to e4m3", 4 + 130.0 / 128, 0, run_encode_e4m3, false, 0},
    {"cast fp32 to rotated int4", 4 + 66.0 / 128, 0, run_encode_h4, false, 0},
    {"cast rotated int4 to fp32", 4 + 66.0 / 128, 0, run_decode_h4, false, 0},
    {"cast int8 to fp32", 4 + 130.0 / 128, 0, run_decode_i8, false, 0},
    {"cast int4 to fp32", 4 + 66.0 / 128, 0, run_decode_i4, false, 0},
    {"cast e4m3 to fp32", 4 + 130.0 / 128, 0, run_decode_e4m3, false, 0},
    {"sum of 2, int4", 4 + 2 * 66.0 / 128, 0, run_sum_i4, false, 0},
    {"copy", 8, 0, run_copy, false, 0},
    {"layernorm", 8, 0, run_layernorm, false, 0},
    {"layernorm_dx", 12, 0, run_layernorm_dx, true, 0},
    {"layernorm_dw", 8, 0, run_layernorm_dw, false, 0},
    {"rmsnorm", 8, 0, run_rmsnorm, false, 0},
    {"rmsnorm of heads", 8, 0, run_rmsnorm_heads, false, 0},
    {"rotary", 8, 0, run_rotary, false, 0},
    {"gelu", 8, 0, run_gelu, false, 0},
    {"swiglu", 12, 0, run_swiglu, false, 0},
    {"silu", 8, 0, run_silu, false, 0},
    {"softmax", 8, 0, run_softmax, false, 0},
    {"transpose", 8, 0, run_transpose, false, 0},
    {"gelu_dx", 12, 0, run_gelu_dx, true, 0},
    {"swiglu_dx", 20, 0, run_swiglu_dx, true, 0},
    {"add", 12, 0, run_add, true, 0},
    {"embedding_dw", 4 + 4.0 * TOKENS / ROWS, 0, run_embedding_dw, false, 0},
    {"cross_entropy", 4, 0, run_cross_entropy, false, 0},
    {"cross_entropy_dx", 8, 0, run_cross_entropy_dx, true, 0},
};
#define WORKS ((int)(sizeof all / sizeof *all))

/* ---- measuring ------------------------------------------------------------------------------- */

/* Fill the arrays. The thread that will use a page touches it first. */
static void fill(arrays *a, int threads)
{
    const zr_rng rng = {.seed = 1, .purpose = ZR_RNG_INIT};
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < ELEMS; i++) {
        const float r = (float)(i * 7919 % 8191 - 4095) / 2048.0f;
        a->x[i] = r;
        a->y[i] = 0.5f * r + 0.1f;
        a->x16[i] = zr_bf16_from_f32(r);
        a->out[i] = a->m[i] = a->v[i] = 0.0f;
        a->out16[i] = 0;
    }
    for (int64_t i = 0; i < VOCAB; i++) a->row[i] = 0.5f + (float)(i % 100) / 100.0f;
    for (int64_t i = 0; i < ROWS; i++) {
        a->mean[i] = 0.0f;
        a->rstd[i] = 1.0f;
        /* small ids are more frequent, as in texts */
        a->id[i] = (int32_t)(ROWS * pow(zr_rng_uniform(&rng, (uint64_t)i), 3.0));
    }
}

static zr_status make_arrays(bench *b)
{
    arrays *a = &b->a;
    const int64_t scratch = EMBEDDING_SCRATCH + 4 * WIDTH * (LAYERNORM_SLICES + b->device->profile.facts.threads);
    a->x = zr_alloc(4 * ELEMS);
    a->y = zr_alloc(4 * ELEMS);
    a->out = zr_alloc(4 * ELEMS);
    a->m = zr_alloc(4 * ELEMS);
    a->v = zr_alloc(4 * ELEMS);
    a->x16 = zr_alloc(2 * ELEMS);
    a->out16 = zr_alloc(2 * ELEMS);
    a->mean = zr_alloc(4 * ROWS);
    a->rstd = zr_alloc(4 * ROWS);
    a->row = zr_alloc(4 * VOCAB);
    a->id = zr_alloc(4 * ROWS);
    a->scratch = zr_alloc((size_t)scratch);
    ZR_CHECK(a->x && a->y && a->out && a->m && a->v && a->x16 && a->out16 && a->mean && a->rstd && a->row && a->id &&
                 a->scratch,
             ZR_ERR_MEMORY, "no memory for six arrays of %" PRId64 " MiB", 4 * ELEMS >> 20);
    fill(a, b->device->profile.facts.threads);
    return ZR_OK;
}

static zr_status measure(bench *b, const char *text)
{
    const double begun = zr_clock_sec();
    for (int round = 0; round < LEAST_ROUNDS || zr_clock_sec() - begun < MEASURE_SEC; round++)
        for (work *w = all; w < all + WORKS; w++) {
            if (w != all && !strstr(w->what, text)) continue;
            if (w->in_place) ZR_TRY(copy_from(b, b->a.y));
            double begin = zr_clock_sec();
            ZR_TRY(w->run(b));
            double sec = zr_clock_sec() - begin;
            if (round == 0 || sec < w->sec) w->sec = sec;
        }
    return ZR_OK;
}

static double rate(const work *w)
{
    return w->bytes * (double)ELEMS / w->sec;
}

static void print_all(const bench *b, bool json)
{
    if (!json)
        printf("%s, %d threads, arrays of %" PRId64 " MiB\n", b->device->profile.facts.name,
               b->device->profile.facts.threads, 4 * ELEMS >> 20);
    for (const work *w = all; w < all + WORKS; w++)
        if (w->sec > 0.0) print_share(json, w->what, rate(w), rate(all), w->wanted);
}

static zr_status run(bool json, int threads, const char *text)
{
    zr_device_config config = {.threads = threads};
    bench b = {0};
    ZR_TRY(zr_device_create_cpu(&config, &b.device));
    ZR_TRY(make_arrays(&b));
    ZR_TRY(measure(&b, text));
    print_all(&b, json);
    zr_device_destroy(&b.device); /* the arrays are freed when the process ends */
    return ZR_OK;
}

int main(int argc, char **argv)
{
    bool json = false;
    int threads = omp_get_num_procs();
    const char *text = "";
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            json = true;
        else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            threads = atoi(argv[++i]);
        else
            text = argv[i];
    }
    if (run(json, threads, text) == ZR_OK) return 0;
    fprintf(stderr, "%s\n", zr_error_message());
    return 1;
}
