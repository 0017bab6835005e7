//TEST timeout=20
/* Allocation, ledgers, clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/core/core.h"
#include "zr/base.h"

#include <string.h>

static void memory_is_zero_and_aligned(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes < 1000; bytes += 37) {
        for (int again = 0; again < 2; again++) {
            unsigned char *memory = zr_alloc(bytes);
            assert_non_null(memory);
            assert_int_equal((uintptr_t)memory % 64, 0);
            for (size_t i = 0; i < bytes; i++) assert_int_equal(memory[i], 0);
            memset(memory, 0xA5, bytes); /* dirt that the next allocation may reuse */
            zr_free(memory);
        }
    }
    zr_free(NULL);
}

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>

/* Check that padding for alignment does not hide an access past the end from the sanitizer. */
static void the_sanitizer_sees_the_end(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes < 300; bytes += 8) {
        char *memory = zr_alloc(bytes);
        assert_int_equal(__asan_address_is_poisoned(memory + bytes), 1);
        zr_free(memory);
    }
}
#endif

static void impossible_sizes_give_null(void **state)
{
    (void)state;
    assert_null(zr_alloc(SIZE_MAX));
    assert_null(zr_alloc(SIZE_MAX - 62));
    assert_null(zr_alloc(PTRDIFF_MAX));
}

static void ledger_keeps_the_high_water_mark(void **state)
{
    (void)state;
    zr_ledger ledger = {0};
    zr__ledger_take(&ledger, ZR_CATEGORY_ACT, 100);
    zr__ledger_take(&ledger, ZR_CATEGORY_ACT, 50);
    zr__ledger_give(&ledger, ZR_CATEGORY_ACT, 120);
    zr__ledger_take(&ledger, ZR_CATEGORY_ACT, 40);
    zr__ledger_take(&ledger, ZR_CATEGORY_GRAD, 7);
    assert_int_equal(ledger.live_bytes[ZR_CATEGORY_ACT], 70);
    assert_int_equal(ledger.peak_bytes[ZR_CATEGORY_ACT], 150);
    assert_int_equal(ledger.peak_bytes[ZR_CATEGORY_GRAD], 7);
    assert_int_equal(ledger.peak_bytes[ZR_CATEGORY_PARAM], 0);
}

static void traffic_adds_up(void **state)
{
    (void)state;
    zr_traffic traffic = {0};
    zr__traffic_count(&traffic, ZR_TRAFFIC_ALL_GATHER, (int64_t)1 << 40);
    zr__traffic_count(&traffic, ZR_TRAFFIC_ALL_GATHER, 3);
    assert_int_equal(traffic.bytes[ZR_TRAFFIC_ALL_GATHER], ((int64_t)1 << 40) + 3);
    assert_int_equal(traffic.bytes[ZR_TRAFFIC_REDUCE_SCATTER], 0);
}

static void names(void **state)
{
    (void)state;
    assert_string_equal(zr__category_name(ZR_CATEGORY_PARAM), "param");
    assert_string_equal(zr__category_name(ZR_CATEGORY_WORK), "work");
    assert_string_equal(zr__category_name(ZR_CATEGORIES), "unknown");
    assert_string_equal(zr_version(), ZR_VERSION);
}

static void clock_does_not_go_back(void **state)
{
    (void)state;
    double last = zr_clock_sec();
    for (int i = 0; i < 10000; i++) {
        double now = zr_clock_sec();
        assert_true(now >= last);
        last = now;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zero_and_aligned),
#ifdef __SANITIZE_ADDRESS__
        cmocka_unit_test(the_sanitizer_sees_the_end),
#endif
        cmocka_unit_test(impossible_sizes_give_null),
        cmocka_unit_test(ledger_keeps_the_high_water_mark),
        cmocka_unit_test(traffic_adds_up),
        cmocka_unit_test(names),
        cmocka_unit_test(clock_does_not_go_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
