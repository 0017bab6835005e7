//TEST timeout=20
/* Libraries loaded at run time, on first use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/core/library.h"

#include <string.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(found),
        cmocka_unit_test(absent),
        cmocka_unit_test(without_a_function),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
