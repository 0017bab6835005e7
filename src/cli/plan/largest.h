/** The largest number that a memory limit allows. */
#ifndef ZR_CLI_LARGEST_H
#define ZR_CLI_LARGEST_H

#include "zr/base.h"

/** A number (samples, layers) and the bytes that it needs; bytes 0: not known. */
typedef struct cli_point {
    int64_t n, needs;
} cli_point;

/** Find the bytes that n needs. */
typedef zr_status cli_needs_of(void *arg, int64_t n, int64_t *bytes);

/** Close in from a number that fits and a number that does not (needs 0: an untried bound) until they are neighbours.
 * `guess` and the number after it are tried first; 0: no guess. Errors: of `needs_of`. */
ZR_NODISCARD zr_status cli_largest(cli_needs_of *needs_of, void *arg, int64_t limit_bytes, int64_t guess,
                                   cli_point *fits, cli_point *fails);

#endif
