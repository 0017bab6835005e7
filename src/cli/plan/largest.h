/** Search for the largest number that a memory limit allows. */
#ifndef ZR_CLI_LARGEST_H
#define ZR_CLI_LARGEST_H

#include "zr/base.h"

/** A number of samples or layers, and the bytes that a rank needs with this number. `needs` is 0 if unknown. */
typedef struct cli_point {
    int64_t n, needs;
} cli_point;

/** Find the bytes that a rank needs with `n` samples or layers. Callback of cli_largest. */
typedef zr_status cli_needs_of(void *arg, int64_t n, int64_t *bytes);

/** Find the largest number that fits. On entry fits->n fits, and fails->n does not fit or is an untried upper limit.
 * The needs of an untried limit are 0. On return fails->n is fits->n + 1. Unless `guess` is 0, try `guess` first and,
 * if it fits, the next number. Return the errors of `needs_of`. */
ZR_NODISCARD zr_status cli_largest(cli_needs_of *needs_of, void *arg, int64_t limit_bytes, int64_t guess,
                                   cli_point *fits, cli_point *fails);

#endif
