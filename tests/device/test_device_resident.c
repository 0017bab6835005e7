//TEST timeout=120
/* Memory that matrix products take from the system while they run, at each level. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_levels.h"
#include "device/cpu/matmul.h"
#include "kernel_call.h"

static const char *program; /* path of this program, to run it again: /proc may be absent */

static void test_forced(void **state)
{
    (void)state;
    each_level_again(program);
}

/* Return the peak resident memory of this process since high_water_reset, in KiB; -1: the system does not report it. */
static long high_water(void)
{
    char line[200];
    long kib = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f)) sscanf(line, "VmHWM: %ld kB", &kib);
    if (f) fclose(f);
    return kib;
}

static bool high_water_reset(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (!f) return false;
    bool done = fputs("5", f) >= 0;
    return fclose(f) == 0 && done;
}

/* Return memory that is already resident, filled with a small number in any type. */
static void *touched(int64_t n, zr_dtype dtype)
{
    void *x = zr_alloc((size_t)(n * zr_dtype_bytes(dtype)));
    assert_non_null(x);
    return memset(x, 0x3c, (size_t)(n * zr_dtype_bytes(dtype)));
}

/* Check that the memory that products take from the system while they run stays within the bounds that the
 * documentation promises for a process, with zr's products and the library's. The vocabulary is as large as GPT-2's. */
static void test_resident(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip(); /* the sanitizer keeps freed memory */
#endif
    const int64_t rows = 128, C = 256, V = 50257;
    for (int i = 0; i < 2 * N_DTYPES; i++) {
        zr_device_config config = {.threads = i % 2 ? 16 : 2};
        zr_device *device = NULL;
        assert_int_equal(zr_device_create_cpu(&config, &device), ZR_OK);
        zr_dtype dtype = dtypes[i / 2];
        void *x = touched(rows * C, dtype), *w = touched(V * C, dtype), *y = touched(rows * V, dtype);
        kernel_call call = {.name = "linear", .attr.i[0] = 1, .n_in = 2, .n_out = 1, .direct = true};
        const zr_device_facts *facts = &device->profile.facts;
        call.scratch_bytes = zr__matmul_scratch(facts, rows, V, C, dtype, dtype);
        call.in[0] = tensor2(x, dtype, rows, C);
        call.in[1] = tensor2(w, dtype, V, C);
        call.out[0] = tensor2(y, dtype, rows, V);
        bool reset = high_water_reset();
        long before = high_water();
        assert_int_equal(kernel_run(device, &call), ZR_OK);
        if (reset && before >= 0) assert_true(high_water() - before <= (call.scratch_bytes >> 10) + (32 << 10));
        zr_free(x);
        zr_free(w);
        zr_free(y);
        zr_device_destroy(&device);
    }
}

int main(int argc, char **argv)
{
    program = argc ? argv[0] : "";
    const struct CMUnitTest forced[] = {cmocka_unit_test(test_resident)};
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forced)};
    if (getenv("ZR_KERNELS")) return cmocka_run_group_tests(forced, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
