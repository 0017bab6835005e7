/** Many small pieces of work on the cores of this host. */
#ifndef ZR_CLI_MANY_H
#define ZR_CLI_MANY_H

#include "zr/base.h"

/** Do piece i, from 0 on. Pieces run at the same time and in any order: each writes its own results. */
typedef zr_status cli_piece(void *arg, int64_t i);

/** Do all pieces; with `what` a line on a terminal shows the progress. Returns the failure of the lowest piece that
 * failed; after a failure no more pieces are begun. */
ZR_NODISCARD zr_status cli_many(int64_t n, cli_piece *piece, void *arg, const char *what);

#endif
