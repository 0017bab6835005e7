//TEST timeout=30
//LINK -Wl,--wrap=zr_alloc
/* Every allocation during loading, resolving and writing fails in turn: each gives an error, and nothing is leaked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "zr/config.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

void *__real_zr_alloc(size_t bytes);
void *__wrap_zr_alloc(size_t bytes);

static long countdown = -1; /* allocations left that succeed; negative: all */

static bool fails(void)
{
    return countdown >= 0 && countdown-- == 0;
}

void *__wrap_zr_alloc(size_t bytes)
{
    return fails() ? NULL : __real_zr_alloc(bytes);
}

static void *json_allocate(size_t bytes)
{
    return fails() ? NULL : malloc(bytes);
}

static zr_status whole_life(void)
{
    static const char text[] =
        "{\"train\": {\"output_dir\": \"runs/a\"}, \"optimizer\": {\"params\": {\"betas\": [0.9, 0.95]}},"
        " \"dump_state\": true}";
    static const char *const overrides[] = {"zero_optimization.stage=2"};
    zr_config *config;
    char *json = NULL;
    zr_status st = zr_config_parse(text, sizeof(text) - 1, "c.json", overrides, 1, &config);
    if (st == ZR_OK) st = zr_config_resolve(config, 2);
    if (st == ZR_OK) st = zr_config_to_json(config, &json);
    if (st == ZR_OK) assert_non_null(strstr(json, "\"runs/a\""));
    zr_free(json);
    zr_config_destroy(&config);
    return st;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    long n = 0;
    zr_status st;
    json_set_alloc_funcs(json_allocate, free);
    do {
        countdown = n++;
        st = whole_life();
        bool failed = countdown < 0;
        countdown = -1;
        if (st == ZR_OK && failed) fail_msg("allocation %ld failed unnoticed", n - 1);
        if (st != ZR_OK) assert_true(*zr_error_message());
    } while (st != ZR_OK && n < 100000);
    assert_int_equal(st, ZR_OK);
    assert_true(n > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
