//TEST timeout=60
/* Initial values have the same bits at every level and number of threads, however they are split. */
#include "device/device_levels.h"

#include <string.h>

enum { N = 100003 };

static float want[N], got[N];

static void same_bits(zr_device *device)
{
    const zr_rng rng = {.seed = 5, .purpose = ZR_RNG_INIT};
    const uint64_t first = ((uint64_t)1 << 34) - 777;
    const float std = 0.02f;
    zr_rng_normal(&rng, first, N, want);
    for (int i = 0; i < N; i++) want[i] *= std;
    for (int64_t piece = 1001; piece <= N; piece += 33000) {
        memset(got, 0xff, sizeof got);
        for (int64_t at = 0; at < N; at += piece) {
            int64_t n = at + piece < N ? piece : N - at;
            device->ops->normal(device, &rng, first + (uint64_t)at, n, std, got + at);
        }
        assert_memory_equal(got, want, sizeof got);
    }
}

static void normal_is_the_same_everywhere(void **state)
{
    (void)state;
    each_device(same_bits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(normal_is_the_same_everywhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
