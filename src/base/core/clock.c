/* The clock of all measurements: monotonic, in seconds. */
#include "zr/base.h"

#include <time.h>

double zr_clock_sec(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
