/* Durations as people write them. */
#include "cli/shell/args.c"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

zr_status cli_help(const cli_command *command, const cli_args *args)
{
    (void)command;
    (void)args;
    return ZR_OK;
}

static void durations(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double sec;
    } good[] = {{"1", 1},      {"90", 90},        {"7s", 7},        {"2m", 120},     {"90m", 5400},      {"3h", 10800},
                {"1d", 86400}, {"1d12h", 129600}, {"1h2m3s", 3723}, {"1d2m", 86520}, {"1d2h3m4s", 93784}};
    static const char *const bad[] = {"", "0", "0m", "x", "3x", "m", "-1", "90m90m", "1s1h", "1h30", "1.5h", "1 h"};
    double sec;
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        assert_int_equal(cli_duration("max-time", good[i].text, &sec), ZR_OK);
        assert_true(sec == good[i].sec);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(cli_duration("max-time", bad[i], &sec), ZR_ERR_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(durations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
