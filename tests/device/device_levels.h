/* Devices of every processor level that this machine has, and small helpers for their arrays. */
#ifndef ZR_TESTS_DEVICE_LEVELS_H
#define ZR_TESTS_DEVICE_LEVELS_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/cpu/cpu.h"
#include "support/dtype_array.h"
#include "tiles/device.h"
#include "zr/device.h"

static inline zr_device *device_at(const char *level, int threads)
{
    zr_device_config config = ZR_DEVICE_CONFIG_INIT;
    zr_device *device = NULL;
    config.threads = threads;
    assert_int_equal(zr__device_create_cpu_level(&config, level, &device), ZR_OK);
    return device;
}

/* Call test(device) with a device of each level and number of threads. If the test has a line //TILES, tiles in plain C
 * count as a level. */
static inline void each_device(void (*test)(zr_device *device))
{
    for (const char *const *level = zr__cpu_levels(); *level; level++) {
        if (!zr__cpu_has(*level)) continue;
        for (int threads = 1; threads <= 3; threads += 2) {
            zr_device *device = device_at(*level, threads);
            test(device);
            zr_device_destroy(&device);
        }
    }
    for (int threads = 1; threads <= 3; threads += 2) {
        zr_device *device = tiles_device(threads);
        if (device) test(device);
        zr_device_destroy(&device);
    }
}

/* Run `program` again at each level, as this process was started: ZR_KERNELS also caps oneDNN, which reads it only once
 * per process. */
static inline void each_level_again(const char *program)
{
    for (const char *const *level = zr__cpu_levels(); *level; level++) {
        if (!zr__cpu_has(*level)) continue;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            setenv("ZR_KERNELS", *level, 1);
            dup2(STDERR_FILENO, STDOUT_FILENO);
            execl(program, program, (char *)NULL);
            _exit(127);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail_msg("%s fails at level %s", program, *level);
    }
}

/* Fill x with values of both signs in (-1, 1) that depend on `stream` alone. */
static inline void fill(float *x, int64_t n, uint32_t stream)
{
    const zr_rng rng = {.seed = 7, .purpose = ZR_RNG_INIT, .stream = stream};
    for (int64_t i = 0; i < n; i++) x[i] = (float)(2 * zr_rng_uniform(&rng, (uint64_t)i) - 1);
}

/* Fill x as fill() does, for streams below 10, from values that are computed only once. */
static inline void take(float *x, int64_t n, uint32_t stream)
{
    static struct {
        float *value;
        int64_t n;
    } known[10];
    assert_in_range(stream, 0, 9);
    if (known[stream].n < n) {
        free(known[stream].value);
        known[stream].value = malloc((size_t)n * sizeof *x);
        known[stream].n = n;
        assert_non_null(known[stream].value);
        fill(known[stream].value, n, stream);
    }
    memcpy(x, known[stream].value, (size_t)n * sizeof *x);
}

/* Convert x to dtype in out, and round x to the converted values. */
static inline void narrow(void *out, zr_dtype dtype, float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        array_set(out, dtype, i, x[i]);
        x[i] = (float)array_get(out, dtype, i);
    }
}

#endif
