/** Search for the largest number that a memory limit allows. */
#ifndef ZR_CLI_LARGEST_H
#define ZR_CLI_LARGEST_H

#include "zr/base.h"

/** A number of samples or layers, and the bytes that it needs; `needs` is 0 if unknown. */
typedef struct cli_point {
    int64_t n, needs;
} cli_point;

/** Find the bytes that `n` samples or layers need. */
typedef zr_status cli_needs_of(void *arg, int64_t n, int64_t *bytes);

/** Narrow the range from *fits, a number that fits, to *fails, a number that does not fit, until the two are
 * neighbours. If fails->n has not been tried, fails->needs is 0. Unless `guess` is 0, try `guess` first, and the
 * number after it if `guess` fits. Return the errors of `needs_of`. */
ZR_NODISCARD zr_status cli_largest(cli_needs_of *needs_of, void *arg, int64_t limit_bytes, int64_t guess,
                                   cli_point *fits, cli_point *fails);

#endif
