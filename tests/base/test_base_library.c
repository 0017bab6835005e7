//TEST timeout=20
/* Libraries loaded at run time, on first use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/core/library.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct functions {
    double (*cos)(double x), (*sin)(double x);
} functions;

static const char *const nowhere[] = {"libzr_nowhere.so.2", "libzr_nowhere.so", NULL};
static const char *const here[] = {"libzr_nowhere.so", "libm.so.6", NULL};
static const char *const names[] = {"cos", "sin", NULL}, *const others[] = {"cos", "zr_no_such", NULL};

static void found(void **state)
{
    (void)state;
    const zr__library library = {"libm", "angles", here, names};
    functions table = {NULL, NULL};
    assert_int_equal(zr__library_open(&library, &table), ZR_OK);
    assert_true(table.cos(0.0) == 1.0 && table.sin(0.0) == 0.0);
}

static void absent(void **state)
{
    (void)state;
    const zr__library library = {"libnowhere", "nothing", nowhere, names};
    functions table;
    assert_int_equal(zr__library_open(&library, &table), ZR_ERR_UNSUPPORTED);
    assert_non_null(strstr(zr_error_message(), "libnowhere, which GPUs need for nothing"));
    assert_non_null(strstr(zr_error_message(), "libzr_nowhere.so.2"));
    assert_non_null(strstr(zr_error_message(), "; libzr_nowhere.so"));
}

static void without_a_function(void **state)
{
    (void)state;
    const zr__library library = {"libm", "angles", here, others};
    functions table;
    assert_int_equal(zr__library_open(&library, &table), ZR_ERR_UNSUPPORTED);
    assert_non_null(strstr(zr_error_message(), "the version of libm does not fit: it has no function zr_no_such"));
}

/* Check that a library is found in NVIDIA's packages for Python: beside the active virtual environment and beside each
 * folder of PATH. */
static void in_wheels(void **state)
{
    (void)state;
    static const char *const wheel[] = {"libzr_wheel.so.7", NULL};
    const zr__library library = {"libwheel", "angles", wheel, names};
    char folder[] = "/tmp/zr_wheels_XXXXXX", path[256], search[512];
    const char *parts[] = {"lib",
                           "lib/python3.99",
                           "lib/python3.99/site-packages",
                           "lib/python3.99/site-packages/nvidia",
                           "lib/python3.99/site-packages/nvidia/angles",
                           "lib/python3.99/site-packages/nvidia/angles/lib"};
    char bin[64], away[64];
    Dl_info libm;
    functions table;
    double (*volatile its)(double) = cos;
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, parts[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    snprintf(path, sizeof path, "%s/bin", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(bin, sizeof bin, "%s/bin", folder);
    snprintf(away, sizeof away, "%s/away", folder);
    assert_true(dladdr((void *)(uintptr_t)its, &libm) != 0);
    char *real = realpath(libm.dli_fname, NULL);
    snprintf(path, sizeof path, "%s/%s/%s", folder, parts[5], wheel[0]);
    assert_non_null(real);
    assert_int_equal(symlink(real, path), 0);
    free(real);

    assert_int_equal(zr__library_open(&library, &table), ZR_ERR_UNSUPPORTED);
    snprintf(search, sizeof search, "/nowhere::%s/bin", folder);
    assert_int_equal(setenv("PATH", search, 1), 0);
    assert_int_equal(zr__library_open(&library, &table), ZR_OK);
    assert_true(table.cos(0.0) == 1.0);
    assert_int_equal(setenv("PATH", "/nowhere", 1), 0);
    assert_int_equal(zr__library_open(&library, &table), ZR_ERR_UNSUPPORTED);
    assert_int_equal(setenv("VIRTUAL_ENV", folder, 1), 0);
    assert_int_equal(zr__library_open(&library, &table), ZR_OK);
    assert_int_equal(unsetenv("VIRTUAL_ENV"), 0);
    assert_int_equal(setenv("HOME", folder, 1), 0); /* the user's own packages, without ~/.local/bin */
    assert_int_equal(zr__library_open(&library, &table), ZR_ERR_UNSUPPORTED);
    snprintf(search, sizeof search, "%s/.local", folder);
    assert_int_equal(symlink(".", search), 0);
    assert_int_equal(rename(bin, away), 0);
    assert_int_equal(zr__library_open(&library, &table), ZR_OK);
    assert_int_equal(rename(away, bin), 0);
    assert_int_equal(unlink(search), 0);

    assert_int_equal(unlink(path), 0);
    for (size_t i = sizeof(parts) / sizeof(*parts); i-- > 0;) {
        snprintf(path, sizeof path, "%s/%s", folder, parts[i]);
        assert_int_equal(rmdir(path), 0);
    }
    snprintf(path, sizeof path, "%s/bin", folder);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(found),
        cmocka_unit_test(absent),
        cmocka_unit_test(in_wheels),
        cmocka_unit_test(without_a_function),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
