/** Many small pieces of work, done by the cores of this host. */
#ifndef ZR_CLI_MANY_H
#define ZR_CLI_MANY_H

#include "zr/base.h"

/** Do piece `i`, counted from 0. Pieces run in parallel and in any order, so each piece writes only its own results. */
typedef zr_status cli_piece(void *arg, int64_t i);

/** Do `n` pieces. Unless `what` is NULL, show the progress as a line on a terminal. Begin no pieces after a failure.
 * Return the failure of the lowest piece that failed. */
ZR_NODISCARD zr_status cli_many(int64_t n, cli_piece *piece, void *arg, const char *what);

#endif
