/** Many small pieces of work on the cores of this host. */
#ifndef ZR_CLI_MANY_H
#define ZR_CLI_MANY_H

#include "cli/shell/cli.h"

/** Do piece i, from 0 on. Pieces run at the same time and in any order: each writes its own results. */
typedef zr_status cli_piece(void *arg, int64_t i);

/** Do all pieces; with `what` a line on a terminal says how many of them are done. The failure is that of the first
 *  piece of those that failed; once one has, no more are begun. */
ZR_NODISCARD zr_status cli_many(int64_t n, cli_piece *piece, void *arg, const char *what);

#endif
