/* Tells whether this is a run of scripts/test --long, in which a test marked long=more runs all of its cases. */
#ifndef ZR_TESTS_LONG_H
#define ZR_TESTS_LONG_H

#include <stdbool.h>
#include <stdlib.h>

static inline bool is_long_run(void)
{
    const char *is_set = getenv("ZR_LONG");
    return is_set && *is_set;
}

#endif
