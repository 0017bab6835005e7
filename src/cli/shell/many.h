/** Run many small tasks in parallel on the cores of this host. A task is called a piece. */
#ifndef ZR_CLI_MANY_H
#define ZR_CLI_MANY_H

#include "zr/base.h"

/** Do piece `i`, counted from 0. Pieces run in parallel and in any order, so a piece must write only its own results.
 * */
typedef zr_status cli_piece(void *arg, int64_t i);

/** Do `n` pieces of work. Unless `what` is NULL, show the progress on a terminal, in units of `what`. After a failure,
 * begin no further piece. Return the failure with the lowest index. */
ZR_NODISCARD zr_status cli_many(int64_t n, cli_piece *piece, void *arg, const char *what);

#endif
