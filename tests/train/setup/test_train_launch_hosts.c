//TEST alone=1 np=2,4 timeout=300 long=1 env=ZR_MPI=p2p
/* Training steps of small models, measured on ranks that exchange messages and are told that they are on two hosts. */
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

static zr_comm *comm;

/* Number of samples of exchanges across or within hosts, and their least and most bytes a second. */
typedef struct rates {
    int n;
    double least, most;
} rates;

static rates rates_of(const zr_launch *launch, bool across, int ranks)
{
    rates r = {.least = INFINITY};
    for (int32_t i = 0; i < launch->n_samples; i++) {
        const zr_step_sample *s = &launch->sample[i];
        if (s->across != across || s->ranks != ranks || s->cost.wire_bytes < 1e5) continue;
        r.n++;
        r.least = fmin(r.least, s->cost.wire_bytes / s->sec);
        r.most = fmax(r.most, s->cost.wire_bytes / s->sec);
    }
    return r;
}

static void test_hosts(void **state)
{
    (void)state;
    zr_device *device = NULL;
    zr_launch launch;
    const zr_device_config config = {.threads = 1};
    const int local = comm->size / 2;
    assert_true(comm->concurrent);
    comm->local_size = local;
    comm->local_rank = comm->rank % local;
    assert_int_equal(zr_device_create_cpu(&config, &device), ZR_OK);
    if (zr__launch_measure(comm, device, false, &launch) != ZR_OK) fail_msg("%s", zr_error_message());
    assert_true(launch.hosts == 2 && launch.ranks == comm->size && launch.beside && launch.n_waits == 0);
    assert_true(launch.lost >= 0 && launch.late >= 0 && launch.lost + launch.late <= 1 + 1e-9);
    assert_true(launch.spread > 0 && isfinite(launch.spread));
    /* Exchanges have two levels, as in users' runs; with one rank on each host there is only one level. */
    const rates links = rates_of(&launch, true, 2), inside = rates_of(&launch, false, local);
    assert_true(links.n > 10 && (inside.n > 10) == (local > 1));
    assert_true(launch.across_bytes_sec > links.least / 4 && launch.across_bytes_sec < links.most * 4);
    zr__launch_clear(&launch);
    zr_device_destroy(&device);
}

int main(int argc, char **argv)
{
    if (zr_comm_mpi_start(&argc, &argv, &comm) != ZR_OK) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hosts)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    zr_comm_destroy(&comm);
    zr_comm_mpi_stop();
    return failed;
}
