//TEST timeout=60
#include <math.h>
#include <string.h>

#include "device_levels.h"

#define MOST_PIECES 17
#define N 1201

static float piece_f32[MOST_PIECES][N];
static uint16_t piece_bf16[MOST_PIECES][N];

/* All pieces as the pairwise tree adds them, an odd one passing up, level by level. */
static float tree(int n_pieces, zr_dtype dtype, int64_t i)
{
    float level[MOST_PIECES];
    for (int r = 0; r < n_pieces; r++)
        level[r] = dtype == ZR_BF16 ? zr_f32_from_bf16(piece_bf16[r][i]) : piece_f32[r][i];
    for (int n = n_pieces; n > 1; n = (n + 1) / 2) {
        for (int j = 0; j < n / 2; j++) level[j] = level[2 * j] + level[2 * j + 1];
        if (n % 2) level[n / 2] = level[n - 1];
    }
    return level[0];
}

static void fill_pieces(void)
{
    for (int r = 0; r < MOST_PIECES; r++) {
        float copy[N];
        fill(piece_f32[r], N, (uint32_t)r);
        memcpy(copy, piece_f32[r], sizeof copy);
        narrow(piece_bf16[r], copy, N);
    }
}

static void check_sum(zr_device *device)
{
    static float out[N], before[N];
    static uint16_t out16[N];
    for (int n_pieces = 1; n_pieces <= MOST_PIECES; n_pieces++) {
        for (zr_dtype dtype = ZR_F32; dtype <= ZR_BF16; dtype++) {
            const void *pieces[MOST_PIECES];
            for (int r = 0; r < n_pieces; r++) pieces[r] = dtype == ZR_BF16 ? (void *)piece_bf16[r] : piece_f32[r];
            fill(out, N, 99);
            memcpy(before, out, sizeof out);
            assert_int_equal(device->ops->sum(device, out, ZR_F32, true, pieces, n_pieces, dtype, N), ZR_OK);
            for (int64_t i = 0; i < N; i++) assert_true(out[i] == before[i] + tree(n_pieces, dtype, i));
            assert_int_equal(device->ops->sum(device, out, ZR_F32, false, pieces, n_pieces, dtype, N), ZR_OK);
            assert_int_equal(device->ops->sum(device, out16, ZR_BF16, false, pieces, n_pieces, dtype, N), ZR_OK);
            for (int64_t i = 0; i < N; i++) {
                assert_true(out[i] == tree(n_pieces, dtype, i));
                assert_int_equal(out16[i], zr_bf16_from_f32(tree(n_pieces, dtype, i)));
            }
        }
    }
}

/* The owner's own piece may be where the sum goes. */
static void check_sum_in_place(zr_device *device)
{
    static float mine[N];
    memcpy(mine, piece_f32[2], sizeof mine);
    const void *pieces[4] = {piece_f32[0], piece_f32[1], mine, piece_f32[3]};
    assert_int_equal(device->ops->sum(device, mine, ZR_F32, false, pieces, 4, ZR_F32, N), ZR_OK);
    for (int64_t i = 0; i < N; i++) assert_true(mine[i] == tree(4, ZR_F32, i));
}

/* Many pieces: the stack of partial sums is as deep as it gets. */
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
static uint16_t long_bf16[LONG_N];

static void check_square_sum(zr_device *device)
{
    static const int64_t sizes[] = {0, 1, 63, 64, 65, 4095, 4096, 4097, LONG_N};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (zr_dtype dtype = ZR_F32; dtype <= ZR_BF16; dtype++) {
            const void *x = dtype == ZR_BF16 ? (void *)long_bf16 : long_f32;
            double want = 0, got = -1;
            for (int64_t i = 0; i < sizes[s]; i++) {
                double v = dtype == ZR_BF16 ? zr_f32_from_bf16(long_bf16[i]) : long_f32[i];
                want += v * v;
            }
            assert_int_equal(device->ops->square_sum(device, x, dtype, sizes[s], &got), ZR_OK);
            assert_true(fabs(got - want) <= 1e-11 * want);
        }
}

static void check_bad(zr_device *device)
{
    static const int64_t places[] = {0, 15, 1023, 1024, 1100, N - 1};
    float x[N];
    uint16_t x16[N];
    fill(x, N, 5);
    x[3] = 3e38f;
    assert_int_equal(device->ops->first_bad(device, x, ZR_F32, N), -1);
    for (int p = 0; p < 6; p++) {
        int64_t at = places[p];
        double sum;
        float before = x[at];
        x[at] = p % 2 ? NAN : -INFINITY;
        for (int64_t i = 0; i < N; i++) x16[i] = zr_bf16_from_f32(x[i]);
        assert_int_equal(device->ops->first_bad(device, x, ZR_F32, N), at);
        assert_int_equal(device->ops->first_bad(device, x16, ZR_BF16, N), at);
        assert_int_equal(device->ops->square_sum(device, x, ZR_F32, N, &sum), ZR_OK);
        assert_false(isfinite(sum));
        assert_int_equal(device->ops->square_sum(device, x16, ZR_BF16, N, &sum), ZR_OK);
        assert_false(isfinite(sum));
        x[at] = before;
    }
}

static void check_cast(zr_device *device)
{
    static const uint32_t special[] = {0x7f800000u, 0xff800000u, 0x7f800001u, 0xffffffffu, 0x7f7fffffu, 0x3f808000u,
                                       0x3f818000u, 0x3f808001u, 0x00000001u, 0x80000000u, 0x80018000u, 0x7fc00000u};
    float x[N], back[N];
    uint16_t out[N];
    fill(x, N, 6);
    memcpy(x + 500, special, sizeof special);
    memcpy(x + N - 12, special, sizeof special);
    assert_int_equal(device->ops->cast(device, out, ZR_BF16, x, ZR_F32, N), ZR_OK);
    for (int64_t i = 0; i < N; i++) assert_int_equal(out[i], zr_bf16_from_f32(x[i]));
    assert_int_equal(device->ops->cast(device, back, ZR_F32, out, ZR_BF16, N), ZR_OK);
    for (int64_t i = 0; i < N; i++) {
        float want = zr_f32_from_bf16(out[i]);
        assert_memory_equal(&back[i], &want, 4);
    }
    assert_int_equal(device->ops->cast(device, back, ZR_F32, x, ZR_F32, N), ZR_OK);
    assert_memory_equal(back, x, sizeof x);
    assert_int_equal(device->ops->cast(device, back, ZR_F32, x, ZR_I32, N), ZR_ERR_DTYPE);
}

static void check_memory(zr_device *device)
{
    const int64_t bytes = ((int64_t)3 << 20) + 5;
    unsigned char *memory = NULL;
    double total = 0;
    const float few[] = {1e8f, 1, -1e8f};
    assert_int_equal(device->ops->alloc(device, bytes, (void **)&memory), ZR_OK);
    assert_int_equal((uintptr_t)memory % 64, 0);
    memset(memory, 1, (size_t)bytes);
    assert_int_equal(device->ops->zero(device, memory, bytes - 1), ZR_OK);
    for (int64_t i = 0; i < bytes; i++) assert_int_equal(memory[i], i == bytes - 1);
    device->ops->free(device, memory);
    assert_int_equal(device->ops->total(device, few, 3, &total), ZR_OK);
    assert_true(total == 1);
}

/* The sums of a level must not depend on the number of threads. */
static void test_threads(void **state)
{
    (void)state;
    for (const char *const *level = zr__cpu_levels(); *level; level++) {
        if (!zr__cpu_has(*level)) continue;
        double sum[3];
        for (int threads = 1; threads <= 3; threads++) {
            zr_device *device = device_at(*level, threads);
            assert_int_equal(device->ops->square_sum(device, long_f32, ZR_F32, LONG_N, &sum[threads - 1]), ZR_OK);
            zr_device_destroy(&device);
        }
        assert_true(sum[0] == sum[1] && sum[0] == sum[2]);
    }
}

#define EACH(name)                                                                                                     \
    static void test_##name(void **state)                                                                              \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        each_device(check_##name);                                                                                     \
    }
EACH(sum)
EACH(sum_in_place)
EACH(sum_of_most)
EACH(square_sum)
EACH(bad)
EACH(cast)
EACH(memory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sum),        cmocka_unit_test(test_sum_in_place), cmocka_unit_test(test_sum_of_most),
        cmocka_unit_test(test_square_sum), cmocka_unit_test(test_threads),      cmocka_unit_test(test_bad),
        cmocka_unit_test(test_cast),       cmocka_unit_test(test_memory),
    };
    fill_pieces();
    fill(long_f32, LONG_N, 42);
    for (int64_t i = 0; i < LONG_N; i++) long_bf16[i] = zr_bf16_from_f32(long_f32[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
