//TEST alone=1 timeout=240 long=1
/* Training steps of small models, measured on thread ranks. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "train/launch/launch.h"
#include "zr/comm.h"
#include "zr/device.h"
#include "zr/simulate.h"

static zr_status measure_rank(zr_comm *comm, void *arg)
{
    zr_device *device = NULL;
    zr_launch launch;
    const zr_device_config config = {.threads = 1};
    ZR_TRY(zr_device_create_cpu(&config, &device));
    zr_status st = zr__launch_measure(comm, device, false, &launch);
    zr_device_destroy(&device);
    if (st == ZR_OK) ((zr_launch *)arg)[comm->rank] = launch;
    return st;
}

static int count(const zr_launch *launch, const char *kind, int ranks, bool narrow)
{
    int n = 0;
    for (int32_t i = 0; i < launch->n_samples; i++) {
        const zr_step_sample *s = &launch->sample[i];
        n += strcmp(s->kind, kind) == 0 && s->ranks == ranks && s->narrow == narrow;
    }
    return n;
}

/* Check a measurement with six ranks: neither six nor its half is a power of two. */
static void test_measure(void **state)
{
    (void)state;
    enum { RANKS = 6 };
    zr_launch launch[RANKS];
    if (zr_comm_threads_run(RANKS, measure_rank, launch) != ZR_OK) fail_msg("%s", zr_error_message());
    assert_true(launch[0].ranks == RANKS && launch[0].hosts == 1 && launch[0].threads == 1 && !launch[0].beside);
    assert_string_equal(launch[0].transport, "threads");
    assert_true(launch[0].around_sec >= 0 && launch[0].n_waits > 0);
    for (int narrow = 0; narrow < 2; narrow++) {
        assert_true(count(&launch[0], "linear", 0, narrow) > 4 && count(&launch[0], "update", 0, narrow) > 4);
        assert_true(count(&launch[0], "gather", RANKS, narrow) > 4);
        assert_true(count(&launch[0], "reduce_scatter", RANKS, narrow) > 4);
        assert_true(count(&launch[0], "norm", RANKS, narrow) > 0 && count(&launch[0], "gather", 1, narrow) == 0);
    }
    for (int r = 1; r < RANKS; r++) {
        assert_int_equal(launch[0].n_samples, launch[r].n_samples);
        for (int32_t i = 0; i < launch[0].n_samples; i++) {
            assert_true(launch[0].sample[i].sec > 0 && isfinite(launch[0].sample[i].sec));
            assert_true(launch[0].sample[i].sec == launch[r].sample[i].sec);
        }
    }
    for (int r = 0; r < RANKS; r++) zr__launch_clear(&launch[r]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_measure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
