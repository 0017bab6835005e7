//TEST timeout=20
/* Error messages and traces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "zr/base.h"

#include <pthread.h>
#include <string.h>

static zr_status inner(int width)
{
    ZR_CHECK(width > 0, ZR_ERR_SHAPE, "width %d; wanted at least 1", width);
    return ZR_OK;
}

static zr_status outer(int width)
{
    ZR_TRY(inner(width));
    return ZR_OK;
}

static void message_and_trace(void **state)
{
    (void)state;
    assert_int_equal(outer(1), ZR_OK);
    assert_int_equal(outer(-3), ZR_ERR_SHAPE);
    assert_string_equal(zr_error_message(), "width -3; wanted at least 1");
    const char *first = strstr(zr_error_trace(), "inner (");
    const char *second = strstr(zr_error_trace(), "outer (");
    assert_non_null(first);
    assert_true(second > first);
}

static void message_may_wrap_itself(void **state)
{
    (void)state;
    assert_int_equal(outer(-1), ZR_ERR_SHAPE);
    assert_int_equal(ZR_FAIL(ZR_ERR_CONFIG, "model: %s", zr_error_message()), ZR_ERR_CONFIG);
    assert_string_equal(zr_error_message(), "model: width -1; wanted at least 1");
    assert_null(strstr(zr_error_trace(), "inner ("));
}

static void long_messages_are_cut(void **state)
{
    (void)state;
    char text[5000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(ZR_FAIL(ZR_ERR_IO, "%s", text), ZR_ERR_IO);
    assert_in_range(strlen(zr_error_message()), 1000, 4999);
    for (int i = 0; i < 1000; i++) assert_int_equal(zr_error_frame(ZR_ERR_IO, "f", "file.c", i), ZR_ERR_IO);
    assert_in_range(strlen(zr_error_trace()), 1000, 4999);
}

static void *fail_elsewhere(void *seen)
{
    *(size_t *)seen = strlen(zr_error_message());
    (void)!outer(-7);
    return NULL;
}

static void threads_do_not_see_each_other(void **state)
{
    (void)state;
    size_t seen = 99;
    pthread_t thread;
    assert_int_equal(outer(-2), ZR_ERR_SHAPE);
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &seen), 0);
    pthread_join(thread, NULL);
    assert_int_equal(seen, 0);
    assert_string_equal(zr_error_message(), "width -2; wanted at least 1");
}

static void every_status_has_its_own_text(void **state)
{
    (void)state;
    for (int i = 0; i < ZR_STATUS_COUNT; i++)
        for (int j = 0; j < i; j++) assert_string_not_equal(zr_status_text((zr_status)i), zr_status_text((zr_status)j));
    assert_string_equal(zr_status_text(ZR_OK), "success");
    assert_string_equal(zr_status_text(ZR_STATUS_COUNT), "unknown status");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message_and_trace),
        cmocka_unit_test(message_may_wrap_itself),
        cmocka_unit_test(long_messages_are_cut),
        cmocka_unit_test(threads_do_not_see_each_other),
        cmocka_unit_test(every_status_has_its_own_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
