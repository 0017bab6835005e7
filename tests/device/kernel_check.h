/* Checks kernels against plain references in double precision: arrays at unaligned addresses with guards, every
 * processor level of this machine, one thread against three; and the GPU kernels, on the stand-in of tests/cuda. */
#ifndef ZR_TESTS_KERNEL_CHECK_H
#define ZR_TESTS_KERNEL_CHECK_H

#include "kernel_call.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "device/cpu/cpu.h"
#ifndef ZR_GPU
#include "cuda/cuda_runtime.h"
#endif
#include "support/dtype_array.h"
#include "tiles/device.h"
#include "zr/device.h"
#include "zr/graph.h"

#define GUARD_BYTES 64
#define GUARD 0xa5

/* ---- arrays ---------------------------------------------------------------------------------- */

typedef struct pool_entry {
    unsigned char *base;
    size_t bytes;
} pool_entry;
static pool_entry pool[4096];
static int pool_used;

/* Return memory filled with NaN, guarded on both sides, aligned to an element and no more. */
static void *pool_take(int64_t n, int64_t element)
{
    size_t bytes = (size_t)(n * element), before = GUARD_BYTES + (size_t)element;
    assert_true(pool_used < (int)(sizeof pool / sizeof *pool));
    unsigned char *base = malloc(before + bytes + GUARD_BYTES);
    assert_non_null(base);
    memset(base, GUARD, before);
    memset(base + before, 0xff, bytes);
    memset(base + before + bytes, GUARD, GUARD_BYTES);
    pool[pool_used++] = (pool_entry){base, before + bytes};
    return base + before;
}

/* Free all arrays and check that their guards are intact. */
static void pool_clear(void)
{
    while (pool_used > 0) {
        pool_entry *e = &pool[--pool_used];
        for (size_t i = 0; i < GUARD_BYTES; i++) {
            assert_int_equal(e->base[i], GUARD);
            assert_int_equal(e->base[e->bytes + i], GUARD);
        }
        free(e->base);
    }
}

static inline void *array_new(zr_dtype dtype, int64_t n)
{
    return pool_take(n, zr_dtype_bytes(dtype));
}

static inline void *array_copy(const void *x, zr_dtype dtype, int64_t n)
{
    void *out = array_new(dtype, n);
    memcpy(out, x, (size_t)(n * zr_dtype_bytes(dtype)));
    return out;
}

static inline double *doubles_new(int64_t n)
{
    double *out = pool_take(n + 1, sizeof(double));
    for (int64_t i = 0; i < n; i++) out[i] = 0.0;
    return out;
}

static inline double *doubles_of(const void *x, zr_dtype dtype, int64_t n)
{
    double *out = doubles_new(n);
    for (int64_t i = 0; i < n; i++) out[i] = array_get(x, dtype, i);
    return out;
}

static uint64_t random_state = 1;

/* Return a uniform random number in [-1, 1). */
static inline double random_unit(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)((int64_t)random_state >> 11) * 0x1p-52;
}

static inline void *array_random(zr_dtype dtype, int64_t n, double scale)
{
    void *x = array_new(dtype, n);
    for (int64_t i = 0; i < n; i++) array_set(x, dtype, i, scale * random_unit());
    return x;
}

static inline int32_t *ids_random(int64_t n, int64_t end)
{
    int32_t *id = pool_take(n, sizeof(int32_t));
    for (int64_t i = 0; i < n; i++) id[i] = (int32_t)((random_unit() * 0.5 + 0.5) * (double)end);
    return id;
}

/* Return the beginnings of documents of random lengths, of about four tokens, in B rows of T tokens. */
static inline int32_t *documents_random(int64_t B, int64_t T)
{
    int32_t *begin = pool_take(B * T, sizeof(int32_t));
    for (int64_t i = 0; i < B * T; i++) begin[i] = i % T == 0 || random_unit() < -0.5 ? (int32_t)(i % T) : begin[i - 1];
    return begin;
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* Return the largest rounding error of storing a value, half a unit in the last place: 2^-8 of a bf16 value, 2^-11 of
 * an fp16 value, 2^-25 for an fp16 subnormal. */
static inline double storage_error(zr_dtype dtype, double value)
{
    if (dtype == ZR_BF16) return fabs(value) * 0x1p-8;
    return dtype == ZR_F16 ? fmax(fabs(value) * 0x1p-11, 0x1p-25) : 0.0;
}

/* Check that all values are within tolerance times the largest wanted value, plus the rounding of 16-bit storage. */
static inline void assert_close(const char *what, const void *got, zr_dtype dtype, const double *want, int64_t n,
                                double tolerance)
{
    double scale = 1e-30;
    for (int64_t i = 0; i < n; i++) scale = fmax(scale, fabs(want[i]));
    for (int64_t i = 0; i < n; i++) {
        double x = array_get(got, dtype, i);
        double bound = tolerance * scale + storage_error(dtype, want[i]);
        if (!(fabs(x - want[i]) <= bound))
            fail_msg("%s[%lld of %lld] %s: %.9g, not %.9g (bound %.3g)", what, (long long)i, (long long)n,
                     zr_dtype_name(dtype), x, want[i], bound);
    }
}

/* Return d sum(loss) / d x by central differences, all in double. */
static inline double *numeric_gradient(double (*loss)(void *context), void *context, double *x, int64_t n)
{
    const double step = 1e-5;
    double *out = doubles_new(n);
    for (int64_t i = 0; i < n; i++) {
        double at = x[i];
        x[i] = at + step;
        double high = loss(context);
        x[i] = at - step;
        double low = loss(context);
        x[i] = at;
        out[i] = (high - low) / (2.0 * step);
    }
    return out;
}

static inline void assert_doubles_close(const char *what, const double *got, const double *want, int64_t n,
                                        double tolerance)
{
    double scale = 1e-30;
    for (int64_t i = 0; i < n; i++) scale = fmax(scale, fabs(want[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= tolerance * scale))
            fail_msg("%s[%lld of %lld]: %.12g, not %.12g", what, (long long)i, (long long)n, got[i], want[i]);
}

static inline double weighted_sum(const double *weight, const double *x, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) sum += weight[i] * x[i];
    return sum;
}

/* ---- devices --------------------------------------------------------------------------------- */

/* One level with one and with three threads, or one GPU as two devices. */
typedef struct level_pair {
    zr_device *one, *three;
} level_pair;

static inline void for_level(void (*body)(const level_pair *level), level_pair pair)
{
    random_state = 1;
    body(&pair);
    pool_clear();
    zr_device_destroy(&pair.one);
    zr_device_destroy(&pair.three);
}

static inline void for_every_level(void (*body)(const level_pair *level))
{
    int seen = 0;
    level_pair gpus = {NULL, NULL};
    zr_device_config gpu = ZR_DEVICE_CONFIG_INIT;
    assert_int_equal(zr_device_create_cuda(&gpu, &gpus.one), ZR_OK);
    assert_int_equal(zr_device_create_cuda(&gpu, &gpus.three), ZR_OK);
    for_level(body, gpus);
#ifdef ZR_GPU /* only the GPU build needs it */
    return;
#else
    if (!zr_stand_in_late()) return; /* the processor's kernels have no such order */
#endif
    for (const char *const *name = zr__cpu_levels(); *name; name++) {
        if (!zr__cpu_has(*name)) continue;
        level_pair pair = {NULL, NULL};
        zr_device_config config = ZR_DEVICE_CONFIG_INIT;
        config.threads = 1;
        assert_int_equal(zr__device_create_cpu_level(&config, *name, &pair.one), ZR_OK);
        config.threads = 3;
        assert_int_equal(zr__device_create_cpu_level(&config, *name, &pair.three), ZR_OK);
        for_level(body, pair);
        seen++;
    }
    level_pair tiles = {tiles_device(1), tiles_device(3)};
    if (tiles.one) for_level(body, tiles);
    assert_true(seen > 0);
}

static inline int64_t tensor_bytes(const zr_tensor *t)
{
    return zr_shape_elems(&t->shape) * zr_dtype_bytes(t->dtype);
}

/* Check a GPU kernel on arrays aligned to 16 bytes, where it reads several elements at a time: it gives the same bits
 * as `want`. Each array is copied; a result in place of an operand stays there. */
static inline void run_aligned(const level_pair *level, kernel_call call, const void *const *want)
{
    zr_tensor *tensor[ZR_OP_INS + ZR_OP_OUTS];
    void *was[ZR_OP_INS + ZR_OP_OUTS], *place[ZR_OP_INS + ZR_OP_OUTS];
    int n = 0;
    if (!level->one->profile.facts.own_memory) return;
    for (int i = 0; i < call.n_in; i++)
        if (call.in[i].data) tensor[n++] = &call.in[i];
    const int n_in = n;
    for (int i = 0; i < call.n_out; i++) tensor[n++] = &call.out[i];
    for (int i = 0; i < n; i++) {
        const size_t bytes = (size_t)tensor_bytes(tensor[i]);
        was[i] = tensor[i]->data;
        place[i] = aligned_alloc(64, (bytes + 63) / 64 * 64);
        assert_non_null(place[i]);
        memcpy(place[i], was[i], bytes);
        tensor[i]->data = place[i];
        if (i >= n_in) memset(place[i], 0xff, bytes);
        for (int j = 0; i >= n_in && j < n_in; j++)
            if (was[j] == was[i]) tensor[i]->data = place[j];
    }
    assert_int_equal(kernel_run(level->one, &call), ZR_OK);
    for (int i = 0; i < call.n_out; i++)
        assert_memory_equal(want[i], call.out[i].data, (size_t)tensor_bytes(&call.out[i]));
    for (int i = 0; i < n; i++) free(place[i]);
}

/* Check that one thread and three give the same bits. On entry scratch_bytes is the fixed part; each thread adds
 * `per_thread`. */
static inline void run_both(const level_pair *level, kernel_call call, int64_t per_thread)
{
    void *first[ZR_OP_OUTS];
    const int64_t fixed = call.scratch_bytes;
    call.scratch_bytes = fixed + per_thread;
    assert_int_equal(kernel_run(level->one, &call), ZR_OK);
    for (int i = 0; i < call.n_out; i++) {
        size_t bytes = (size_t)tensor_bytes(&call.out[i]);
        first[i] = pool_take((int64_t)bytes, 1);
        memcpy(first[i], call.out[i].data, bytes);
        memset(call.out[i].data, 0xff, bytes);
    }
    call.scratch_bytes = fixed + 3 * per_thread;
    assert_int_equal(kernel_run(level->three, &call), ZR_OK);
    for (int i = 0; i < call.n_out; i++)
        assert_memory_equal(first[i], call.out[i].data, (size_t)tensor_bytes(&call.out[i]));
    run_aligned(level, call, (const void *const *)first);
}

/* Check that output 0 in place of operand `operand` has the same bits as call.out[0]. The operand's own data is left
 * unchanged. */
static inline void run_in_place(const level_pair *level, kernel_call call, int operand, int64_t per_thread)
{
    const size_t bytes = (size_t)tensor_bytes(&call.in[operand]);
    const void *want = call.out[0].data;
    assert_int_equal(bytes, tensor_bytes(&call.out[0]));
    void *place = array_copy(call.in[operand].data, call.in[operand].dtype, zr_shape_elems(&call.in[operand].shape));
    call.in[operand].data = call.out[0].data = place;
    run_aligned(level, call, &want);
    call.scratch_bytes += 3 * per_thread;
    assert_int_equal(kernel_run(level->three, &call), ZR_OK);
    assert_memory_equal(want, place, bytes);
}

#endif
