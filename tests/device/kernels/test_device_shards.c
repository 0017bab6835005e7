//TEST timeout=60
#include <math.h>
#include <string.h>

#include "device/device_levels.h"
#include "base/number/exact.h"

#define MOST_PIECES 17
#define N 1201

/* The same numbers in every type, rounded to it. */
typedef struct numbers {
    float f32[N];
    uint16_t bf16[N], f16[N];
} numbers;
static numbers piece[MOST_PIECES];

static void *stored(numbers *x, zr_dtype dtype)
{
    return dtype == ZR_F32 ? (void *)x->f32 : dtype == ZR_BF16 ? x->bf16 : x->f16;
}

static void store_all(numbers *x)
{
    for (int64_t i = 0; i < N; i++) {
        x->bf16[i] = zr_bf16_from_f32(x->f32[i]);
        x->f16[i] = zr_f16_from_f32(x->f32[i]);
    }
}

/* Return the sum of all pieces by the pairwise tree: level by level, where an odd piece passes unchanged to the next
 * level. */
static float tree(int n_pieces, zr_dtype dtype, int64_t i)
{
    float level[MOST_PIECES];
    for (int r = 0; r < n_pieces; r++) level[r] = (float)array_get(stored(&piece[r], dtype), dtype, i);
    for (int n = n_pieces; n > 1; n = (n + 1) / 2) {
        for (int j = 0; j < n / 2; j++) level[j] = level[2 * j] + level[2 * j + 1];
        if (n % 2) level[n / 2] = level[n - 1];
    }
    return level[0];
}

static void fill_pieces(void)
{
    for (int r = 0; r < MOST_PIECES; r++) {
        fill(piece[r].f32, N, (uint32_t)r);
        store_all(&piece[r]);
    }
}

static void check_sum_of(zr_device *device, int n_pieces, zr_dtype dtype)
{
    static float want[N], before[N], out[N];
    static numbers got, rounded;
    const void *pieces[MOST_PIECES];
    for (int r = 0; r < n_pieces; r++) pieces[r] = stored(&piece[r], dtype);
    for (int64_t i = 0; i < N; i++) rounded.f32[i] = want[i] = tree(n_pieces, dtype, i);
    store_all(&rounded);
    for (int t = 0; t < N_DTYPES; t++) {
        const zr_dtype type = dtypes[t];
        void *to = stored(&got, type);
        assert_int_equal(device->ops->sum(device, to, type, false, pieces, n_pieces, dtype, N), ZR_OK);
        assert_memory_equal(to, stored(&rounded, type), (size_t)(N * zr_dtype_bytes(type)));
    }
    fill(out, N, 99);
    memcpy(before, out, sizeof out);
    assert_int_equal(device->ops->sum(device, out, ZR_F32, true, pieces, n_pieces, dtype, N), ZR_OK);
    for (int64_t i = 0; i < N; i++) assert_true(out[i] == before[i] + want[i]);
}

static void check_sum(zr_device *device)
{
    for (int n_pieces = 1; n_pieces <= MOST_PIECES; n_pieces++)
        for (int t = 0; t < N_DTYPES; t++) check_sum_of(device, n_pieces, dtypes[t]);
}

/* Check that a sum beyond fp16's largest number becomes infinite, so that the loss scale notices, and is right in fp32.
 */
static void check_sum_overflow(zr_device *device)
{
    const uint16_t high[] = {zr_f16_from_f32(40000), zr_f16_from_f32(-40000), zr_f16_from_f32(32752)};
    const void *pieces[] = {high, high};
    float wide[3];
    uint16_t out[3];
    zr_square square = {.bad = -1};
    assert_int_equal(device->ops->sum(device, wide, ZR_F32, false, pieces, 2, ZR_F16, 3), ZR_OK);
    assert_true(wide[0] == 80000 && wide[1] == -80000 && wide[2] == 65504);
    assert_int_equal(device->ops->sum(device, out, ZR_F16, false, pieces, 2, ZR_F16, 3), ZR_OK);
    assert_true(out[0] == 0x7c00 && out[1] == 0xfc00 && out[2] == 0x7bff);
    assert_int_equal(device->ops->square(device, out, ZR_F16, 3, false, 0, &square), ZR_OK);
    assert_false(isfinite(square.sum));
    assert_int_equal(square.bad, 0);
}

/* Check a sum written over the owner's own piece. */
static void check_sum_in_place(zr_device *device)
{
    static float mine[N];
    memcpy(mine, piece[2].f32, sizeof mine);
    const void *pieces[4] = {piece[0].f32, piece[1].f32, mine, piece[3].f32};
    assert_int_equal(device->ops->sum(device, mine, ZR_F32, false, pieces, 4, ZR_F32, N), ZR_OK);
    for (int64_t i = 0; i < N; i++) assert_true(mine[i] == tree(4, ZR_F32, i));
}

/* Check the most pieces allowed, for which the tree is deepest. */
static void check_sum_of_most(zr_device *device)
{
    static const void *pieces[ZR_SUM_PIECES + 1];
    float one[3] = {1, 2, 3}, out[3];
    for (int r = 0; r <= ZR_SUM_PIECES; r++) pieces[r] = one;
    assert_int_equal(device->ops->sum(device, out, ZR_F32, false, pieces, ZR_SUM_PIECES, ZR_F32, 3), ZR_OK);
    for (int i = 0; i < 3; i++) assert_true(out[i] == one[i] * ZR_SUM_PIECES);
    assert_int_equal(device->ops->sum(device, out, ZR_F32, false, pieces, ZR_SUM_PIECES + 1, ZR_F32, 3), ZR_ERR_ARG);
    assert_int_equal(device->ops->sum(device, out, ZR_BF16, true, pieces, 2, ZR_F32, 3), ZR_ERR_DTYPE);
}

#define LONG_N 1100003

static float long_f32[LONG_N];
static uint16_t long_16[LONG_N];

/* Check sums large enough for non-temporal stores that begin and end between cache lines: the bytes around them are
 * unchanged. Sums in place use ordinary stores. */
static void check_sum_long(zr_device *device)
{
    static float out[LONG_N + 16], want[LONG_N];
    const int64_t n = LONG_N - 8;
    for (int64_t first = 0; first < 4; first += 3) {
        const void *pieces[] = {long_f32 + first, long_f32 + 5, long_f32 + 8};
        for (int64_t i = 0; i < n; i++) want[i] = long_f32[i + first] + long_f32[i + 5] + long_f32[i + 8];
        for (size_t i = 0; i < sizeof out / sizeof *out; i++) out[i] = 7;
        assert_int_equal(device->ops->sum(device, out + 1 + first, ZR_F32, false, pieces, 3, ZR_F32, n), ZR_OK);
        assert_memory_equal(out + 1 + first, want, (size_t)n * sizeof *want);
        for (int64_t i = 0; i < 1 + first; i++) assert_true(out[i] == 7);
        for (int64_t i = 1 + first + n; i < LONG_N + 16; i++) assert_true(out[i] == 7);

        memcpy(out, pieces[0], (size_t)n * sizeof *out);
        pieces[0] = out;
        assert_int_equal(device->ops->sum(device, out, ZR_F32, false, pieces, 3, ZR_F32, n), ZR_OK);
        assert_memory_equal(out, want, (size_t)n * sizeof *want);
    }
}

static void check_square_sum(zr_device *device)
{
    static const int64_t sizes[] = {0, 1, 63, 64, 65, 4095, 4096, 4097, LONG_N};
    for (int t = 0; t < N_DTYPES; t++) {
        const zr_dtype dtype = dtypes[t];
        void *x = dtype == ZR_F32 ? (void *)long_f32 : long_16;
        for (int64_t i = 0; x == long_16 && i < LONG_N; i++) array_set(x, dtype, i, long_f32[i]);
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            double want = 0;
            zr_square got = {.bad = -1};
            for (int64_t i = 0; i < sizes[s]; i++) {
                double v = array_get(x, dtype, i);
                want += v * v;
            }
            assert_int_equal(device->ops->square(device, x, dtype, sizes[s], false, 0, &got), ZR_OK);
            assert_true(fabs(got.sum - want) <= 1e-11 * want);
            assert_int_equal(got.bad, -1);
        }
    }
}

static void check_bad(zr_device *device)
{
    static const int64_t places[] = {0, 15, 1023, 1024, 1100, N - 1};
    static numbers x;
    for (int t = 0; t < N_DTYPES; t++) {
        const zr_dtype dtype = dtypes[t];
        void *data = stored(&x, dtype);
        fill(x.f32, N, 5);
        x.f32[3] = dtype == ZR_F16 ? 65504.0f : 3e38f;
        store_all(&x);
        for (int p = 0; p < 6; p++) {
            int64_t at = places[p];
            const double before = array_get(data, dtype, at);
            zr_square first = {.bad = -1}, exact = {.bad = -1}, second = {.bad = 7};
            array_set(data, dtype, at, p % 2 ? NAN : -INFINITY);
            assert_int_equal(device->ops->square(device, data, dtype, N, false, 100, &first), ZR_OK);
            assert_int_equal(device->ops->square(device, data, dtype, N, true, 0, &exact), ZR_OK);
            assert_int_equal(device->ops->square(device, data, dtype, N, false, 100, &second), ZR_OK);
            assert_false(isfinite(first.sum));
            assert_true(exact.exact.not_finite);
            assert_int_equal(first.bad, 100 + at);
            assert_int_equal(exact.bad, at);
            assert_int_equal(second.bad, 7); /* an earlier one was found */
            array_set(data, dtype, at, before);
        }
    }
}

#define ALL_16 65536

/* Return x as fp32, without array_get, whose conversion to double makes a signalling NaN quiet. */
static float wide_of(uint16_t x, zr_dtype dtype)
{
    return dtype == ZR_F16 ? zr_f32_from_f16(x) : zr_f32_from_bf16(x);
}

static uint16_t narrow_of(float x, zr_dtype dtype)
{
    return dtype == ZR_F16 ? zr_f16_from_f32(x) : zr_bf16_from_f32(x);
}

/* Check casts of every number of a 16-bit type, of values between it and the next and their neighbours, and of NaNs of
 * all kinds, against zr/tensor.h, which has its own tests against arithmetic. */
static void check_cast_16(zr_device *device, zr_dtype dtype)
{
    static uint16_t narrow_all[ALL_16], got[5 * ALL_16], want[5 * ALL_16];
    static float wide_all[ALL_16], wide_want[ALL_16], x[5 * ALL_16];
    for (int64_t i = 0; i < ALL_16; i++) {
        narrow_all[i] = (uint16_t)i;
        wide_want[i] = wide_of((uint16_t)i, dtype);
        float between = wide_want[i] / 2 + wide_of((uint16_t)(i + 1), dtype) / 2;
        uint32_t nan = 0x7f800001u | (uint32_t)i << 13 | (uint32_t)i >> 15 << 31;
        const float near[] = {wide_want[i], between, nextafterf(between, 0), nextafterf(between, 2 * between)};
        memcpy(x + 5 * i, near, sizeof near);
        memcpy(x + 5 * i + 4, &nan, sizeof nan);
    }
    for (int64_t i = 0; i < 5 * ALL_16; i++) want[i] = narrow_of(x[i], dtype);
    assert_int_equal(device->ops->cast(device, wide_all, ZR_F32, narrow_all, dtype, ALL_16, NULL), ZR_OK);
    assert_memory_equal(wide_all, wide_want, sizeof wide_all);
    assert_int_equal(device->ops->cast(device, got, dtype, x, ZR_F32, 5 * ALL_16, NULL), ZR_OK);
    assert_memory_equal(got, want, sizeof got);
}

static void check_cast(zr_device *device)
{
    static numbers x;
    uint16_t out[N];
    float back[N];
    fill(x.f32, N, 6);
    x.f32[7] = 1e9f;
    store_all(&x);
    check_cast_16(device, ZR_BF16);
    check_cast_16(device, ZR_F16);
    for (int64_t n = 0; n < 70; n++) { /* ends of all lengths, with nothing written beyond */
        memset(out, 0xff, sizeof out);
        assert_int_equal(device->ops->cast(device, out, ZR_F16, x.f32, ZR_F32, n, NULL), ZR_OK);
        assert_memory_equal(out, x.f16, (size_t)n * 2);
        assert_int_equal(out[n], 0xffff);
    }
    assert_int_equal(device->ops->cast(device, out, ZR_F16, x.bf16, ZR_BF16, N, NULL), ZR_OK);
    for (int64_t i = 0; i < N; i++) assert_int_equal(out[i], zr_f16_from_f32(zr_f32_from_bf16(x.bf16[i])));
    assert_int_equal(device->ops->cast(device, back, ZR_F32, x.f32, ZR_F32, N, NULL), ZR_OK);
    assert_memory_equal(back, x.f32, sizeof back);
    assert_int_equal(device->ops->cast(device, back, ZR_F32, x.f32, ZR_I32, N, NULL), ZR_ERR_DTYPE);
}

static void check_memory(zr_device *device)
{
    const int64_t bytes = ((int64_t)3 << 20) + 5;
    unsigned char *memory = NULL;
    zr_exact total = {0};
    const float few[] = {1e8f, 1, -1e8f};
    assert_int_equal(device->ops->alloc(device, bytes, (void **)&memory), ZR_OK);
    assert_int_equal((uintptr_t)memory % 64, 0);
    memset(memory, 1, (size_t)bytes);
    assert_int_equal(device->ops->fill(device, memory, 0, bytes - 1), ZR_OK);
    for (int64_t i = 0; i < bytes; i++) assert_int_equal(memory[i], i == bytes - 1);
    device->ops->free(device, memory);
    assert_int_equal(device->ops->total(device, few, 3, &total), ZR_OK);
    assert_true(zr__exact_value(&total) == 1);
}

/* Check that the sums of a level do not depend on the number of threads. */
static void test_threads(void **state)
{
    (void)state;
    for (const char *const *level = zr__cpu_levels(); *level; level++) {
        if (!zr__cpu_has(*level)) continue;
        zr_square square[3];
        for (int threads = 1; threads <= 3; threads++) {
            zr_device *device = device_at(*level, threads);
            square[threads - 1] = (zr_square){.bad = -1};
            assert_int_equal(device->ops->square(device, long_f32, ZR_F32, LONG_N, false, 0, &square[threads - 1]),
                             ZR_OK);
            zr_device_destroy(&device);
        }
        assert_true(square[0].sum == square[1].sum && square[0].sum == square[2].sum);
    }
}

#define EACH(name)                                                                                                     \
    static void test_##name(void **state)                                                                              \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        each_device(check_##name);                                                                                     \
    }
EACH(sum)
EACH(sum_overflow)
EACH(sum_in_place)
EACH(sum_of_most)
EACH(sum_long)
EACH(square_sum)
EACH(bad)
EACH(cast)
EACH(memory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sum),         cmocka_unit_test(test_sum_overflow), cmocka_unit_test(test_sum_in_place),
        cmocka_unit_test(test_sum_of_most), cmocka_unit_test(test_sum_long),     cmocka_unit_test(test_square_sum),
        cmocka_unit_test(test_threads),     cmocka_unit_test(test_bad),          cmocka_unit_test(test_cast),
        cmocka_unit_test(test_memory),
    };
    fill_pieces();
    fill(long_f32, LONG_N, 42);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
