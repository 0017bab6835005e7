/* Tells which cases a run of a test has: all of a test marked long=more in a run of scripts/test --long, and few with
 * one of many seeds. */
#ifndef ZR_TESTS_LONG_H
#define ZR_TESTS_LONG_H

#include <stdbool.h>
#include <stdlib.h>

static inline bool is_long_run(void)
{
    const char *is_set = getenv("ZR_LONG");
    return is_set && *is_set;
}

/* Return whether a run has the next case of a test. With ZR_STAND_IN_SEED it has one case of ten, others than with the
 * next seed, so that every case has one of ten seeds in a row. */
static inline bool is_in_run(void)
{
    static unsigned long cases;
    const char *seed = getenv("ZR_STAND_IN_SEED");
    return !seed || (cases++ + strtoul(seed, NULL, 10)) % 10 == 0;
}

#endif
