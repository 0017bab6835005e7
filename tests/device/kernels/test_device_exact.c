//TEST timeout=60
/* Exact sums of squares: the same limbs in any order, over any ranges, on any number of threads, at every level. */
#include "device/device_levels.h"
#include "support/dtype_array.h"
#include "device/exact_truth.h"
#include "base/number/exact.h"

#include <float.h>

#define N 100003

static float wild[N];
static uint16_t wild16[N];

static zr_exact squares(zr_device *device, const void *x, zr_dtype dtype, int64_t n)
{
    zr_square square = {.bad = -1};
    assert_int_equal(device->ops->square(device, x, dtype, n, true, 0, &square), ZR_OK);
    return square.exact;
}

static void check_truth(zr_device *device)
{
    static const int64_t sizes[] = {0, 1, 2, 3, 5, 63, 1023, 1025, 32769, N};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        truth want = {0};
        for (int64_t i = 0; i < sizes[s]; i++) truth_add_square(&want, wild[i], 1);
        const zr_exact got = squares(device, wild, ZR_F32, sizes[s]);
        truth_expect(&want, &got);
    }
}

static void check_known(zr_device *device)
{
    static const struct {
        float x[4];
        double sum; /* the nearest double, from Python's fractions */
    } known[] = {
        {{1e8f, 1, -1e8f, 1e-3f}, 0x1.1c37937e08p+54},
        {{0.1f, 0.2f, 0.3f, -0.6f}, 0x1.0000014000006p-1},
        {{-3e38f, 1e-45f, 3e38f, 7}, 0x1.8df463d7b548p+256},
        {{FLT_MAX, -FLT_MAX, FLT_MAX, FLT_MIN}, 0x1.7ffffd0000018p+257},
        {{0x1p-149f}, 0x1p-298},
        {{0}, 0},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const zr_exact got = squares(device, known[i].x, ZR_F32, 4);
        assert_true(zr__exact_value(&got) == known[i].sum);
    }
}

static void check_any_order(zr_device *device)
{
    static float shuffled[N];
    const zr_exact want = squares(device, wild, ZR_F32, N);
    for (uint32_t stream = 0; stream < 3; stream++) {
        permute(shuffled, wild, N, stream);
        const zr_exact got = squares(device, shuffled, ZR_F32, N);
        assert_same_sum(&got, &want);
    }
}

/* Check ranges added to one sum, and ranges summed separately and merged. */
static void check_any_cut(zr_device *device)
{
    static const int64_t pieces[] = {1, 31, 1000, 4097, 70000};
    const int64_t all[] = {2003, 10007, N, N, N};
    for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
        const zr_exact want = squares(device, wild, ZR_F32, all[p]);
        zr_square added = {.bad = -1};
        zr_exact merged = {0};
        for (int64_t at = 0; at < all[p]; at += pieces[p]) {
            const int64_t n = at + pieces[p] < all[p] ? pieces[p] : all[p] - at;
            const zr_exact part = squares(device, wild + at, ZR_F32, n);
            assert_int_equal(device->ops->square(device, wild + at, ZR_F32, n, true, at, &added), ZR_OK);
            zr__exact_merge(&merged, &part);
        }
        assert_same_sum(&added.exact, &want);
        assert_same_sum(&merged, &want);
    }
}

/* Check every finite value of each 16-bit type, subnormals included. */
static void check_narrow(zr_device *device)
{
    for (int d = 0; d < N_DTYPES; d++) {
        const zr_dtype dtype = dtypes[d];
        truth want = {0};
        int64_t n = 0;
        if (dtype == ZR_F32) continue;
        for (uint32_t u = 0; u <= 0xffff; u++) {
            wild16[n] = (uint16_t)u;
            const float x = (float)array_get(wild16, dtype, n);
            if (!isfinite(x)) continue;
            truth_add_square(&want, x, 1);
            n++;
        }
        const zr_exact got = squares(device, wild16, dtype, n);
        truth_expect(&want, &got);
        array_set(wild16, dtype, n / 2, INFINITY);
        assert_true(squares(device, wild16, dtype, n).not_finite);
    }
}

/* Check elements that all have one exponent and all bits set: more than its bins can hold. */
static void check_full_bins(zr_device *device)
{
    enum { MANY = 1500001 };
    static const float value[] = {FLT_MAX, 0x1.fffffep0f, 0x0.fffffep-126f, 0x1p-149f};
    static float same[MANY];
    for (int v = 0; v < 4; v++) {
        truth want = {0};
        for (int64_t i = 0; i < MANY; i++) same[i] = i % 2 ? value[v] : -value[v];
        truth_add_square(&want, value[v], MANY);
        const zr_exact got = squares(device, same, ZR_F32, MANY);
        truth_expect(&want, &got);
    }
}

/* Check that infinities and NaN are flagged wherever they stand, and do not change the limbs. */
static void check_not_finite(zr_device *device)
{
    static const int64_t places[] = {0, 1, 1023, 40000, N - 1};
    const float bad[] = {INFINITY, -INFINITY, NAN};
    for (int p = 0; p < 5; p++) {
        const int64_t at = places[p];
        const float before = wild[at];
        wild[at] = 0;
        zr_exact want = squares(device, wild, ZR_F32, N);
        assert_false(want.not_finite);
        want.not_finite = true;
        wild[at] = bad[p % 3];
        const zr_exact got = squares(device, wild, ZR_F32, N);
        wild[at] = before;
        assert_same_sum(&got, &want);
        assert_true(isnan(zr__exact_value(&got)));
    }
}

static void check_refused(zr_device *device)
{
    const int32_t x[1] = {1};
    zr_square square = {.exact = {.limb = {5}}, .bad = -1};
    assert_int_equal(device->ops->square(device, x, ZR_I32, 1, true, 0, &square), ZR_ERR_DTYPE);
    assert_int_equal(square.exact.limb[0], 5);
}

#define EACH(name)                                                                                                     \
    static void test_##name(void **state)                                                                              \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        each_device(check_##name);                                                                                     \
    }
EACH(truth)
EACH(known)
EACH(any_order)
EACH(any_cut)
EACH(narrow)
EACH(full_bins)
EACH(not_finite)
EACH(refused)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_truth),      cmocka_unit_test(test_known),   cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_any_cut),    cmocka_unit_test(test_narrow),  cmocka_unit_test(test_full_bins),
        cmocka_unit_test(test_not_finite), cmocka_unit_test(test_refused),
    };
    fill_wild(wild, N, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
